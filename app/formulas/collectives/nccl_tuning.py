"""NCCL's own cost model: what its tables would choose."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.formulas.arrays import Array, typical_of
from app.formulas.collectives.ideal import PROTOCOLS, Machine

Tables = Mapping[str, float]
Times = Iterator[tuple[tuple[str, str], float]]


@dataclass(frozen=True)
class _Graph:
    """A cluster as NCCL's model sees it.

    Attributes:
        tables: NCCL's latencies, LL limits and shares by name [s, B/s, 1].
        architecture: volta, ampere, hopper or blackwell.
        message: S [B].
        ranks_per_domain: g [1].
        domains: M [1].
        link: bus bandwidth inside a domain [B/s].
        node: bus bandwidth out of a domain [B/s].
        near: what joins GPUs, nvlink or pci.
    """

    tables: Tables
    architecture: str
    message: float
    ranks_per_domain: float
    domains: float
    link: float
    node: float
    near: str

    @property
    def several(self) -> bool:
        return self.domains > 1

    @property
    def count(self) -> str:
        """Domains as the tables count them."""
        return "one" if not self.several else "two" if self.domains <= 2 else "many"

    @property
    def ranks(self) -> float:
        return self.ranks_per_domain * self.domains

    @property
    def levels(self) -> int:
        """Levels of a tree over the domains [1]."""
        return math.floor(math.log2(self.domains))

    @property
    def ratio(self) -> float:
        """Algorithm bandwidth over bus bandwidth, n/(2(n - 1)) [1]."""
        return self.ranks / (2 * (self.ranks - 1))

    @property
    def ring_bus(self) -> float:
        """Bus bandwidth of a ring [B/s]."""
        if self.several and self.ranks_per_domain > 1:
            return min(self.link, self.node)
        return self.node if self.several else self.link

    def limit(self) -> float:
        """Most that LL gives [B/s]."""
        return self.tables[f"ll_{self.architecture}_{self.count}"]


def library_times(
    message: float, machine: Machine, tables: Tables, correction: Tables, architecture: str
) -> dict[tuple[str, str], float]:
    """Time that NCCL's own cost model gives each algorithm and protocol of an all-reduce [s].

    Latency of the algorithm's steps from a table, plus message over bandwidth. The library takes the least of them;
    the model is meant to rank, its absolute times can be off by a factor of two.

    Args:
        message: bytes, S [B].
        machine: one cluster; its typical line rates, its counts and switches are used.
        tables: NCCL's latencies, LL limits and shares by name [s, B/s, 1].
        correction: factor on a tree's bandwidth by protocol and message [1].
        architecture: volta, ampere, hopper or blackwell.

    Source: NVIDIA, NCCL 2.30, ``src/graph/tuning.cc``.

    Two GPUs that NVLink joins at 1 B/s: a ring sends 1 B in 2 · 1/2 = 1 s, after no latency at all.

    >>> from collections import defaultdict
    >>> free = defaultdict(float, link_ampere=1.0, ll_ampere_one=1.0, ll_share=0.5, ll128_share=0.9,
    ...     tree_share=1.0, tree_ll_divisor=2.0, tree_ll128_one=1.0)
    >>> pair = Machine(2, 1, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, scale_up_line=1.0)
    >>> library_times(1.0, pair, free, defaultdict(lambda: 1.0), "ampere")["ring", "simple"]
    1.0
    """
    g = typical_of(machine.ranks_per_domain)
    graph = _Graph(
        tables=tables,
        architecture=architecture,
        message=message,
        ranks_per_domain=g,
        domains=typical_of(machine.domains),
        link=_rate(machine.scale_up_line) * tables[f"link_{architecture}"],
        node=_rate(machine.scale_out_line) * tables["network"] * g,
        near="nvlink" if typical_of(machine.ll128) > 0 else "pci",
    )
    sharp = graph.several and typical_of(machine.in_network_reduction) > 0
    times = dict(_ring(graph))
    times |= dict(_tree(graph, correction))
    if f"nvls_{architecture}" in tables and typical_of(machine.multicast_rate) > 0 and g > 2:
        times |= dict(_nvls(graph, sharp))
    if sharp and graph.near == "nvlink":
        times |= dict(_collnet(graph))
    return times


def _rate(value: Array) -> float:
    """The typical rate of one cluster, which may be too small for a float once it is shared, but is not nothing [B/s].

    >>> _rate(5e-324 / 2)
    1e-300
    """
    return max(typical_of(value), 1e-300)


def _protocols(graph: _Graph) -> Iterator[str]:
    """The protocols that the links allow: LL128 needs NVLink."""
    return (protocol for protocol in PROTOCOLS if protocol != "ll128" or graph.near == "nvlink")


def _share(graph: _Graph, protocol: str) -> float:
    """Share of the bandwidth that a protocol leaves to data [1]."""
    return 1.0 if protocol == "simple" else graph.tables[f"{protocol}_share"]


def _ring(graph: _Graph) -> Times:
    """2(n - 1) steps, of which 2(M - 1) between domains, and S over the algorithm bandwidth."""
    tables, several, near = graph.tables, graph.several, graph.near
    ring_bus, ratio, ranks = graph.ring_bus, graph.ratio, graph.ranks
    post, crossings = tables["post"] if several else 0.0, 2 * (graph.domains - 1)
    between = "tree" if graph.ranks_per_domain == 1 else "ring"
    for protocol in _protocols(graph):
        bus = _share(graph, protocol) * ring_bus
        if protocol == "ll":
            bus = min(bus, graph.limit())
        hop = max(tables[f"{near}_ring_{protocol}"], post * (3 if protocol == "simple" else 1))
        away = tables[f"network_{between}_{protocol}"]
        latency = tables[f"base_ring_{protocol}"] + (2 * (ranks - 1) - crossings) * hop + crossings * away
        if protocol == "simple" and several and graph.message / ranks >= 64:
            latency *= tables["ring_simple_plateau"]
        yield ("ring", protocol), latency + graph.message / (bus * ratio)


def _tree(graph: _Graph, correction: Tables) -> Times:
    """Up and down through the GPUs of a domain and log₂ M levels, and 2S over the corrected bus bandwidth."""
    tables, g, near, levels = graph.tables, graph.ranks_per_domain, graph.near, graph.levels
    tree_bus = min(graph.link, 2 * graph.node) if graph.count == "two" and g > 1 else graph.ring_bus
    size = min(math.floor(math.log2(max(graph.message, 64.0) / 64)), 24)
    for protocol in _protocols(graph):
        bus = tables["tree_share"] * tree_bus
        if protocol == "ll":
            bus = min(bus / tables["tree_ll_divisor"], graph.limit())
        elif protocol == "ll128":
            bus *= tables["tree_ll128_many" if graph.several else "tree_ll128_one"]
        factor = correction[f"{protocol}_{size:02}"] if size < 24 else 1.0
        inside = (g - 1) * tables[f"{near}_tree_{protocol}"]
        steps = inside + levels * tables[f"network_tree_{protocol}"]
        time = tables[f"base_tree_{protocol}"] + 2 * steps + graph.message / (bus * factor / 2)
        yield ("tree", protocol), time


def _nvls(graph: _Graph, sharp: bool) -> Times:
    """Sums in the NVLink switch: alone or with SHARP between domains, and as a tree over domains."""
    tables = graph.tables
    inside = graph.link * tables[f"nvls_{graph.architecture}"] * 2
    if not graph.several or sharp:
        bus = min(inside, graph.node) if graph.several else inside
        latency = tables["nvlink_nvls"] + (tables["network_nvls"] if graph.several else 0.0)
        yield ("nvls", "simple"), latency + graph.message / (bus * graph.ratio)
    if graph.several:
        bus = min(inside, graph.node * (2 if graph.count == "two" else 1))
        latency = tables["nvlink_nvls_tree"] + 2 * graph.levels * tables["network_nvls_tree"]
        yield ("nvls-tree", "simple"), latency + graph.message / (bus * graph.ratio)


def _collnet(graph: _Graph) -> Times:
    """Sums in the switches between domains."""
    tables = graph.tables
    inside = tables["nvlink_collnet"] + (graph.ranks_per_domain - 1) * tables["local_collnet"]
    latency = 2 * inside + tables["network_collnet"]
    yield ("collnet", "simple"), latency + graph.message / (min(graph.link, graph.node) / 2)
