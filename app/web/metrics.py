"""The counters behind /metrics."""

from collections.abc import Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

COUNTED = ("evaluations", "cut_off")
"""Counters of what answers hold, by endpoint."""


class Metrics:
    """The counters behind /metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "railyard_requests_total", "Requests answered", ("method", "route", "status"), registry=registry
        )
        self.latency = Histogram(
            "railyard_request_seconds",
            "Time until an answer was complete",
            ("route",),
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.running = Gauge("railyard_requests_running", "Requests in progress", registry=registry)
        self.evaluations = Counter(
            "railyard_evaluations_total", "Scenarios evaluated", ("endpoint",), registry=registry
        )
        self.cut_off = Counter(
            "railyard_cut_off_total", "Answers that end where their time or size did", ("endpoint",), registry=registry
        )
        self.errors = Counter("railyard_errors_total", "Requests that failed on our side", registry=registry)
        self.connections = Gauge("railyard_connections", "Open connections", registry=registry)
        self.connections_closed = Counter(
            "railyard_connections_closed_total",
            "Connections closed on our side before a request or its answer was complete, or to make room",
            ("reason",),
            registry=registry,
        )
        self._sent: dict[tuple[str, str], float] = {}
        self._pairs: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def describe(self, versions: Mapping[str, str], inside: Mapping[str, int]) -> None:
        """What serves, and how many questions of each kind compute or wait, which is looked up when it is asked for."""
        Info("railyard", "What serves", registry=self.registry).info(dict(versions))
        queue = Gauge(
            "railyard_questions", "Questions that compute or wait for their turn", ("kind",), registry=self.registry
        )
        for kind in inside:
            queue.labels(kind).set_function(partial(inside.__getitem__, kind))

    def counted(self) -> dict[tuple[str, str], float]:
        """What the questions themselves have counted since this was called last, by counter and endpoint."""
        counts = {
            (name, sample.labels["endpoint"]): sample.value
            for name in COUNTED
            for metric in getattr(self, name).collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        }
        grown = {key: count - self._sent.get(key, 0.0) for key, count in counts.items()}
        self._sent = counts
        return grown

    def add(self, counts: Mapping[tuple[str, str], float]) -> None:
        """Count what was counted in another process."""
        for (name, endpoint), count in counts.items():
            getattr(self, name).labels(endpoint).inc(count)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        key = (method, route, status)
        pair = self._pairs.get(key)
        if pair is None:  # labels() takes a lock and checks names: once for each combination
            pair = self._pairs[key] = (self.requests.labels(method, route, status), self.latency.labels(route))
        pair[0].inc()
        pair[1].observe(seconds)
