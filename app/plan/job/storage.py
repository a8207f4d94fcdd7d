"""Checkpoints and data: their bytes, the storage they ask for, and the share of time that failures leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, Sampling
from app.formulas.arrays import Array, any_, maximum, minimum, typical_of
from app.formulas.records import but
from app.formulas.training import goodput
from app.plan.band import Draws
from app.plan.cluster import Cluster
from app.plan.result import Explanation, Finding, Storage, Term
from app.plan.scenario import OperationRequest
from app.units import parse, show

TERABYTE = parse("1 TB", "B")
LEAST_PROGRESS = 0.01
"""Share of time below which a run is said to make no progress [1]."""
LEAST_TIME = 1e-3
"""Time that a checkpoint is taken to need at least, for the interval that loses least [s]."""


@dataclass(frozen=True)
class Checkpointing:
    """How a run is checkpointed, and the share of its time that makes progress, as draws."""

    size: Array
    time: Array
    bandwidth: Array
    interval: Array
    failures: Array
    progress: NDArray[np.float64]
    used: tuple[Estimate, ...]


def checkpointing(
    parameters: float,
    cluster: Cluster,
    request: OperationRequest,
    catalog: Catalog,
    links: Array = np.inf,
    sampling: Sampling = DRAWS,
) -> Checkpointing:
    """What is not asked for follows: the time from size and storage, the interval from that and the failures.

    The cluster's numbers may be columns of several clusters. Storage that is usual writes no more than the links of
    its servers carry [B/s], where they are known; that its typical rate is more is for findings to say.
    """
    failing, storage = catalog.training["failures"], catalog.operations["storage"]
    used: list[Estimate] = []

    def value(stated: float | None, estimate: Estimate) -> Array:
        if stated is not None:
            return stated
        used.append(estimate)
        return sampling(estimate)

    gpus = cluster.gpus
    failures = gpus * value(request.failure_rate, failing["rate"])
    failing_at_all = any_(failures > 0)
    size = goodput.checkpoint_size(parameters, value(None, storage["state"]))
    if request.checkpoint_time is None:
        bandwidth = request.storage_bandwidth or _within(
            links, maximum(gpus * value(None, storage["write_per_gpu"]), value(None, storage["write_least"]))
        )
        time = goodput.write_time(size, bandwidth, value(None, storage["pause"]))
    else:
        time = request.checkpoint_time
        bandwidth = request.storage_bandwidth or goodput.write_bandwidth(size, maximum(time, LEAST_TIME))
    best = goodput.checkpoint_interval(failures, maximum(time, LEAST_TIME)) if failing_at_all else np.inf
    interval = request.checkpoint_interval or best
    if request.availability is not None:
        progress = np.array([request.availability])
    elif failing_at_all:
        restart = value(request.restart_time, failing["restart"])
        if request.restart_time is None and (spares := cluster.request.spare_nodes):
            wanted = value(None, failing["spare_share"]) * cluster.nodes
            restart = goodput.restart_time(
                restart, minimum(value(None, failing["spared_restart"]), restart), spares, wanted
            )
        progress = np.atleast_1d(goodput.goodput(failures, time, interval, restart))
        progress = np.where(progress[..., :1] >= LEAST_PROGRESS, progress, np.nan)
    else:
        progress = np.array([1.0])
    return Checkpointing(size, time, bandwidth, interval, failures, progress, tuple(used))


def checkpointing_of_each(
    parameters: float, clusters: Sequence[Cluster], request: OperationRequest, catalog: Catalog, links: Sequence[float]
) -> list[Checkpointing]:
    """The same of several clusters with as many spare nodes, each with what the links of its storage carry [B/s]."""
    sizes = {name: np.array([[getattr(each, name)] for each in clusters]) for name in ("gpus", "nodes")}
    several = but(clusters[0], **sizes)
    together = checkpointing(parameters, several, request, catalog, np.array(links)[:, None])

    def of_one(value: Any, place: int) -> Any:
        return value[place] if isinstance(value, np.ndarray) and value.ndim > 1 else value

    return [
        Checkpointing(*(of_one(value, place) for value in vars(together).values())) for place in range(len(clusters))
    ]


def _within(links: Array, usual: Array) -> Array:
    """The usual rate of a storage, its range capped at what the links of its servers carry [B/s].

    >>> _within(3.0, np.array([2.0, 1.0, 4.0])).tolist(), _within(3.0, np.array([5.0, 4.0, 6.0])).tolist()
    ([2.0, 1.0, 3.0], [5.0, 4.0, 5.0])
    """
    usual = np.atleast_1d(usual)
    return minimum(usual, maximum(links, usual[..., :1]))


def storage_of(checkpoints: Checkpointing, tokens_per_second: Draws, tokens: float, catalog: Catalog) -> Storage[Draws]:
    """What the run asks of the storage."""
    size, time, interval, used = checkpoints.size, checkpoints.time, checkpoints.interval, checkpoints.used
    filled = [catalog.operations["storage"][name] for name in ("state", "token", "copies", "kept", "free")]
    state, token, copies, kept, free = filled
    capacity = goodput.storage_capacity(tokens * token.typical, copies.draws(), size, kept.draws(), free.draws())

    def drawn(values: Array) -> Draws:
        return Draws(np.atleast_1d(np.asarray(values, float)), used=used)

    return Storage(
        checkpoint_size=drawn(size)._replace(used=(state,)),
        checkpoint_time=drawn(time),
        checkpoint_interval=drawn(interval),
        write_bandwidth=drawn(checkpoints.bandwidth),
        background_bandwidth=drawn(goodput.write_bandwidth(size, interval)),
        read_bandwidth=tokens_per_second._replace(
            values=tokens_per_second.values * token.typical, used=(*tokens_per_second.used, token)
        ),
        capacity=drawn(capacity)._replace(used=tuple(filled)),
    )


def capacity_findings(storage: Storage[Draws], bought: float | None, network: bool) -> Iterator[Finding]:
    """Storage that is bought too small, or not at all where there is a network to it."""
    needed = storage.capacity.typical
    changes = {"storage_capacity": float(np.ceil(needed / TERABYTE) * TERABYTE)}
    fills = f"the text and the checkpoints of this run alone fill {show(needed, 'B')}"
    if bought is None and network:
        yield Finding(
            "note",
            "storage-not-bought",
            f"The storage network is priced, the storage behind it is not: {fills}.",
            ("storage_capacity",),
            "Say how much is bought, for other runs and data too.",
            changes,
        )
    elif bought is not None and bought < needed:
        yield Finding(
            "warning",
            "storage-too-small",
            f"{show(bought, 'B')} of storage are bought; {fills}.",
            ("storage_capacity",),
            "Buy more, or keep fewer checkpoints.",
            changes,
        )


def network_findings(storage: Storage[Draws], carried: float, request: OperationRequest) -> Iterator[Finding]:
    """Storage that is said to write more than the links of its servers carry [B/s]."""
    written, size = storage.write_bandwidth.typical, storage.checkpoint_size.typical
    if not written > carried * (1 + 1e-9):
        return
    timed = request.storage_bandwidth is None and request.checkpoint_time is not None
    least = float(np.asarray(goodput.write_bandwidth(size, carried)))
    yield Finding(
        "warning",
        "storage-beyond-its-network",
        f"The storage is to write {show(written, 'B/s')}; the links of its servers carry {show(carried, 'B/s')}.",
        ("checkpoint_time" if timed else "storage_bandwidth", "storage_network"),
        f"Give a checkpoint {show(least, 's')} or more." if timed else f"Take it to write {show(carried, 'B/s')}.",
        {"checkpoint_time": least} if timed else {"storage_bandwidth": carried},
    )


def explain(
    checkpoints: Checkpointing, storage: Storage[Draws], parameters: float, catalog: Catalog
) -> dict[str, Explanation]:
    """How the figures of the storage came about."""
    state = catalog.operations["storage"]["state"]
    size = Term("S", "bytes of a checkpoint", storage.checkpoint_size.typical, "B")
    written = Term("W", "what the storage writes", storage.write_bandwidth.typical, "B/s")
    time = Term("δ", "time that it stops the steps for", storage.checkpoint_time.typical, "s")
    pause = catalog.operations["storage"]["pause"]
    waiting = Term("σ", "what it takes however little is written", pause.typical, "s", pause.source)
    behind = Term("W", "what the storage writes behind the steps", storage.background_bandwidth.typical, "B/s")
    interval = Term("τ", "time between checkpoints", storage.checkpoint_interval.typical, "s")
    failures = Term("λ", "failures of the cluster in a second", typical_of(checkpoints.failures), "1/s")
    bytes_each = Term("b", "bytes of a parameter in a checkpoint", state.typical, "B", state.source)
    filled = {name: catalog.operations["storage"][name] for name in ("copies", "kept", "free")}
    meanings = ("copies of the training data", "checkpoints that are kept", "share that stays free")
    factors = tuple(
        Term(symbol, meaning, each.typical, "1", each.source)
        for symbol, meaning, each in zip("ckf", meanings, filled.values(), strict=True)
    )
    return {
        "storage.capacity": Explanation(
            "training.storage_capacity",
            (*factors, size, Term("C", "usable capacity", storage.capacity.typical, "B")),
        ),
        "storage.checkpoint_size": Explanation(
            "training.checkpoint_size", (bytes_each, Term("N", "parameters", parameters, "1"), size)
        ),
        "storage.checkpoint_time": Explanation("training.write_time", (size, written, waiting, time)),
        "storage.checkpoint_interval": Explanation("training.checkpoint_interval", (time, failures, interval)),
        "storage.background_bandwidth": Explanation("training.write_bandwidth", (size, interval, behind)),
    }
