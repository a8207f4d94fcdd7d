"""Time of collective operations: all-reduce and friends.

Two profiles. The *ideal* functions are the textbook α–β closed forms: what physics allows. The *calibrated* functions
describe what NCCL and RCCL deliver: for each algorithm, latency plus pipeline fill plus bandwidth, with constants
fitted to published measurements (:class:`Calibration`). Nothing here reads the catalogue: a cluster is the numbers of a
:class:`Machine`.

Everything is elementwise over broadcast arrays, swept axes first and draws last. Messages are counted as nccl-tests
counts them: the vector every rank holds for an all-reduce, the gathered total for an all-gather, the total each rank
brings for a reduce-scatter and an all-to-all.

Symbols: S message [B], n ranks [1], α latency of a step [s], B bandwidth of one rank in one direction [B/s], g ranks in
one scale-up domain [1], M domains [1].
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.arrays import Array, larger, smaller, some, where

ALGORITHMS = ("ring", "tree", "nvls", "nvls-tree", "collnet")
PROTOCOLS = ("ll", "ll128", "simple")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce")

# ---------------------------------------------------------------------------------------------------------------------
# Ideal profile: textbook closed forms
# ---------------------------------------------------------------------------------------------------------------------


def ring_all_reduce(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a ring all-reduce.

    Each rank sends a share of the message to its neighbour 2(n - 1) times, so the time is
    2(n - 1)α + 2(n - 1)/n · S/B.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks in the ring, n [1].
        latency: time before the first byte of a step arrives, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds the sum [s]. One rank needs none.

    Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
    J. Parallel Distrib. Comput. 69(2), 2009, pp. 117-124. doi:10.1016/j.jpdc.2008.09.002

    >>> float(ring_all_reduce(message=8e9, ranks=8, latency=0, bandwidth=1e9))
    14.0
    """
    steps = 2 * (ranks - 1)
    return steps * latency + steps / ranks * message / bandwidth


def double_binary_tree_all_reduce(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a double binary tree all-reduce with perfect pipelining.

    Two trees carry half the message each, and every rank is inside at most one of them, so up and down together move
    2S per rank: 2⌈log₂ n⌉α + 2S/B. The cost of filling the pipeline, of order √(log n · α · S/B), is left out here.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks, n [1].
        latency: time before the first byte of a step arrives, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds the sum [s]. One rank needs none.

    Source: Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
    Parallel Computing 35(12), 2009, pp. 581-594. doi:10.1016/j.parco.2009.09.001

    >>> float(double_binary_tree_all_reduce(message=8e9, ranks=8, latency=1, bandwidth=1e9))
    22.0
    """
    return 2 * _log2_steps(ranks) * latency + np.where(np.asarray(ranks) > 1, 2 * message / bandwidth, 0.0)


def halving_doubling_all_reduce(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a recursive halving-doubling (Rabenseifner) all-reduce.

    Halving distances scatter the sum and doubling distances gather it: 2 log₂ n · α + 2(n - 1)/n · S/B. When n is no
    power of two the ranks beyond the power p below it first fold onto a partner and are sent the result at the end,
    which adds 2α + 2S/B to the time of p ranks.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks, n [1].
        latency: time before the first byte of a step arrives, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds the sum [s]. One rank needs none.

    Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
    Int. J. High Perform. Comput. Appl. 19(1), 2005, pp. 49-66. doi:10.1177/1094342005051521

    >>> float(halving_doubling_all_reduce(message=8e9, ranks=8, latency=1, bandwidth=1e9))
    20.0
    >>> float(halving_doubling_all_reduce(message=8e9, ranks=9, latency=1, bandwidth=1e9))
    38.0
    """
    rounds = np.floor(np.log2(ranks))
    power = 2.0**rounds
    folded = np.where(power < ranks, 2 * latency + 2 * message / bandwidth, 0.0)
    return 2 * rounds * latency + 2 * (power - 1) / power * message / bandwidth + folded


def hierarchical_all_reduce(
    message: Array,
    ranks_per_domain: Array,
    domains: Array,
    latency: Array,
    bandwidth: Array,
    scale_out_latency: Array,
    scale_out_bandwidth: Array,
) -> Array:
    """Time of a two-level all-reduce: reduce-scatter inside, all-reduce across, all-gather inside.

    2(g - 1)α + 2(g - 1)/g · S/B inside the domains, and a ring over M domains of the S/g bytes that each rank then
    owns, all ranks of a domain at once on their own network port.

    Args:
        message: bytes each rank contributes, S [B].
        ranks_per_domain: ranks that share a scale-up domain, g [1].
        domains: scale-up domains, M [1].
        latency: latency of a step inside a domain [s].
        bandwidth: what one rank sends in one direction inside its domain [B/s].
        scale_out_latency: latency of a step between domains [s].
        scale_out_bandwidth: what one rank sends in one direction between domains [B/s].

    Returns:
        Time until every rank holds the sum, levels one after the other [s].

    Source: Cho, Finkler, Kung, Hunter, "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network
    hierarchy", Proc. MLSys 1, 2019, pp. 241-251.

    >>> float(hierarchical_all_reduce(8e9, 8, 1, 0, 1e9, 0, 1e8))  # one domain: the ring inside it
    14.0
    >>> float(hierarchical_all_reduce(8e9, 8, 2, 0, 1e9, 0, 1e9))  # and 1 GB each across: 2 · 1/2 · 1
    15.0
    """
    inside = ring_all_reduce(message, ranks_per_domain, latency, bandwidth)
    across = ring_all_reduce(message / ranks_per_domain, domains, scale_out_latency, scale_out_bandwidth)
    return inside + across


def in_network_all_reduce(message: Array, ranks: Array, levels: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of an all-reduce summed inside the switches (SHARP, NVLink SHARP).

    Each rank sends its vector once, up a tree of switches, and receives the sum once: 2 · levels · α + S/B.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks, n [1].
        levels: levels of switches between a rank and the root of the tree [1].
        latency: latency of one level, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds the sum [s]. One rank needs none.

    Source: Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", COMHPC 2016, pp. 1-10.
    doi:10.1109/COMHPC.2016.006

    >>> float(in_network_all_reduce(message=8e9, ranks=64, levels=2, latency=0, bandwidth=1e9))
    8.0
    """
    return np.where(np.asarray(ranks) > 1, 2 * levels * latency + message / bandwidth, 0.0)


def ring_all_gather(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a ring all-gather, and of a ring reduce-scatter, its mirror image.

    Each rank passes on n - 1 shares: (n - 1)α + (n - 1)/n · S/B.

    Args:
        message: the gathered total, S [B].
        ranks: ranks in the ring, n [1].
        latency: latency of a step, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds everything [s].

    Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice, and experience",
    Concurrency Comput. Pract. Exper. 19(13), 2007, pp. 1749-1783. doi:10.1002/cpe.1206

    >>> float(ring_all_gather(message=8e9, ranks=8, latency=0, bandwidth=1e9))
    7.0
    """
    steps = ranks - 1
    return steps * latency + steps / ranks * message / bandwidth


def ring_reduce_scatter(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a ring reduce-scatter: (n - 1)α + (n - 1)/n · S/B, S the total each rank brings.

    Args and source as in :func:`ring_all_gather`.

    >>> float(ring_reduce_scatter(message=8e9, ranks=8, latency=0, bandwidth=1e9))
    7.0
    """
    return ring_all_gather(message, ranks, latency, bandwidth)


def pairwise_all_to_all(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of an all-to-all by pairwise exchange: (n - 1)α + (n - 1)/n · S/B.

    Args:
        message: total each rank brings for all others and itself, S [B].
        ranks: ranks, n [1].
        latency: latency of a step, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds its share of every other [s].

    Source: Thakur, Rabenseifner, Gropp 2005, section 3.4 (long messages). doi:10.1177/1094342005051521

    >>> float(pairwise_all_to_all(message=8e9, ranks=8, latency=0, bandwidth=1e9))
    7.0
    """
    steps = ranks - 1
    return steps * latency + steps / ranks * message / bandwidth


def pipelined_broadcast(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of a broadcast by two pipelined binary trees: ⌈log₂ n⌉α + S/B.

    Args:
        message: bytes the root holds, S [B].
        ranks: ranks, n [1].
        latency: latency of a step, α [s].
        bandwidth: what one rank sends in one direction, B [B/s].

    Returns:
        Time until every rank holds the message [s]. One rank needs none.

    Source: Sanders, Speck, Träff 2009, as for :func:`double_binary_tree_all_reduce`.

    >>> float(pipelined_broadcast(message=8e9, ranks=8, latency=1, bandwidth=1e9))
    11.0
    """
    return _log2_steps(ranks) * latency + np.where(np.asarray(ranks) > 1, message / bandwidth, 0.0)


def all_reduce_lower_bound(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """The least time of any all-reduce between ranks: the larger of ⌈log₂ n⌉α and 2(n - 1)/n · S/B.

    Source: Patarasuk, Yuan 2009, Theorem 1 (bandwidth); Chan et al. 2007, section 3 (latency).

    >>> float(all_reduce_lower_bound(message=8e9, ranks=8, latency=1, bandwidth=1e9))
    14.0
    """
    return np.maximum(_log2_steps(ranks) * latency, 2 * (ranks - 1) / ranks * message / bandwidth)


def in_network_lower_bound(message: Array, ranks: Array, bandwidth: Array) -> Array:
    """The least time of an all-reduce summed in the switches: each rank sends its vector once, S/B.

    Source: Graham et al. 2016, as for :func:`in_network_all_reduce`.

    >>> float(in_network_lower_bound(message=8e9, ranks=8, bandwidth=1e9))
    8.0
    """
    return np.where(np.asarray(ranks) > 1, message / bandwidth, 0.0)


def algorithm_bandwidth(message: Array, time: Array) -> Array:
    """Message over time [B/s].

    Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md.

    >>> float(algorithm_bandwidth(message=8e9, time=2.0))
    4000000000.0
    """
    return np.divide(message, time)


def bus_factor(collective: str, ranks: Array) -> Array:
    """Bus bandwidth over algorithm bandwidth [1].

    2(n - 1)/n for an all-reduce, (n - 1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast and reduce.

    Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md.

    >>> float(bus_factor("all-reduce", 8))
    1.75
    """
    share = (ranks - 1) / ranks
    if collective == "all-reduce":
        return 2 * share
    return np.where(share > 0, 1.0, 0.0) if collective in ("broadcast", "reduce") else share


def bus_bandwidth(message: Array, time: Array, ranks: Array, collective: str = "all-reduce") -> Array:
    """Algorithm bandwidth times the bus factor: what each rank's link must have carried, were it a ring [B/s].

    Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md.

    >>> float(bus_bandwidth(message=8e9, time=2.0, ranks=8))
    7000000000.0
    """
    return algorithm_bandwidth(message, time) * bus_factor(collective, ranks)


def _log2_steps(ranks: Array) -> Array:
    return np.ceil(np.log2(ranks))


# ---------------------------------------------------------------------------------------------------------------------
# Calibrated profile: what NCCL and RCCL deliver
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """The cluster as one collective sees it. Numbers only; every field may be an array.

    Rates are per GPU and one direction, after protocol overhead. A group of ranks inside a larger job is the same
    machine with fewer ranks: see :func:`group`.
    """

    ranks_per_domain: Array  # g: ranks that reach one another over the scale-up link [1]
    domains: Array  # M: such groups, joined by the scale-out network [1]
    scale_up_rate: Array  # what a ring sustains inside a domain, B [B/s]
    multicast_rate: Array  # message over time when the scale-up switch sums for 8 ranks; 0 where it cannot [B/s]
    mesh_peers: Array  # ranks that a rank of a mesh has direct links to; 0 with a switch or a bus [1]
    scale_out_rate: Array  # what a GPU's share of the network ports sustains [B/s]
    base_latency: Array  # launch of the kernel [s]
    scale_up_hop: Array  # one hop inside a domain [s]
    scale_out_hop: Array  # one hop between domains [s]
    reference_hop: Array  # one hop between domains if they were joined by InfiniBand [s]
    fill: Array  # size of the pipeline fill across domains, c [1]
    fill_one_domain: Array  # the same when all ranks share one domain [1]
    launch_floor: Array = 0.0  # least time of a call where one process drives all GPUs of a node [s]
    ll128: Array = 1.0  # 1 where links keep 128-byte stores whole (NVLink), else 0
    in_network_reduction: Array = 0.0  # share of the rate left when scale-out switches sum (SHARP); 0 where none do [1]
    streamed: Array = (
        0.0  # 1 where the transport hides latency behind bytes and uses rings only (GPUDirect-TCP), else 0
    )
    ring_share: Array = 1.0  # share of the network rate that a lone ring sustains, in all but the all-reduce [1]
    exits: Array = np.inf  # GPUs of a domain whose network ports one collective uses at a time [1]
    scale_up_line: Array = 0.0  # line rate of the scale-up link, for the ideal profile [B/s]
    scale_out_line: Array = 0.0  # line rate of the GPU's network share, for the ideal profile [B/s]


@dataclass(frozen=True)
class Calibration:
    """Constants of the library rather than of the hardware; in the catalogue as ``collectives.library``."""

    fill_exponent: Array  # q [1]
    fill_cap_domain: Array  # k within one domain, multiples of the latency [1]
    fill_cap_network: Array  # k of ring and tree across domains [1]
    fill_cap_multicast: Array  # k of NVLS tree across domains [1]
    fill_lone: Array  # fill of a rank alone in its domain, share of the fill with many [1]
    ll_end: Array  # LL is best up to this transfer time over latency; NVLS starts there [1]
    simple_start: Array  # Simple is best from this transfer time over latency on [1]
    tree_chain: Array  # tree through the GPUs of a domain, share of half the ring rate [1]
    tree_many: Array  # tree over more than two domains, share of half the smaller rate [1]
    multicast_pair: Array  # NVLS tree, share of the multicast rate [1]
    multicast_many: Array  # NVLS tree over more than two domains, share of half the network [1]
    chain_across: Array  # hop inside a domain when other domains take part, over one when none do [1]
    ring_hop: Array  # network hop of a ring over that of a tree [1]
    rack_chain: Array  # hops that each doubling beyond 8 ranks adds in a rack-wide domain [1]
    mesh_across: Array  # ring rate of a mesh when it also leaves the domain, over that within [1]
    gather_hop: Array  # hop of an all-gather or reduce-scatter inside a domain over that of an all-reduce [1]
    broadcast_fill: Array  # fill of a broadcast or reduce over that of an all-reduce, for bytes worth a latency [1]
    broadcast_exponent: Array  # q of a broadcast or reduce, whose small calls overlap [1]
    peer_overhead: Array  # posting the exchange with one more peer in an all-to-all [s]


def group(machine: Machine, ranks: Array, stride: Array = 1) -> Machine:
    """The machine as a parallel group sees it: ``ranks`` members, each ``stride`` GPUs after the one before.

    Members fill a domain first: g = domain/stride of them (at least one, at most all) share it.

    >>> pod = Machine(8, 128, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    >>> across = group(pod, ranks=128, stride=8)  # data parallel over tensor-parallel nodes
    >>> float(across.ranks_per_domain), float(across.domains)
    (1.0, 128.0)
    """
    inside = np.clip(np.floor(np.asarray(machine.ranks_per_domain) / stride), 1, ranks)
    return replace(machine, ranks_per_domain=inside, domains=np.ceil(np.asarray(ranks) / inside))


@dataclass(frozen=True)
class _Line:
    """What an algorithm amounts to on a machine. A rate of 0 means it is not to be had there."""

    latency: Array  # L [s]
    pace: Array  # the part of L that lengthens the pipeline, L₀ [s]
    rate: Array  # message over transfer time [B/s]
    fill: Array  # c [1]
    cap: Array  # k [1]
    exponent: Array  # q [1]


_MULTICAST = ("nvls", "nvls-tree", "collnet")
"""Algorithms that speak the Simple protocol only."""


def _lines(collective: str, machine: Machine, calibration: Calibration) -> dict[str, _Line]:
    """Latency, rate and fill of each algorithm of a collective.

    With base latency b, hop h inside a domain (longer by ``chain_across`` when other domains take part), hop α between
    domains, ring rate B inside, P = g times a GPU's network rate, V the rate of a sum in the scale-up switch and f the
    bus factor:

    ======== ================================ ======================================================
    ring     b + 2h(g - 1)M + 2α'(M - 1)      min(B, P)/f
    tree     b + 2h(g - 1) + 2α log₂M         one: 0.87 B/2; two: min(P, that); more: 0.9 min(P, ·)/2
    nvls     b + 2h(g - 1)                    V; across domains, with SHARP, min(0.92 V, P)
    nvls-tree as tree                         two: min(0.92 V, P); more: min(0.92 V, 0.95 P/2)
    collnet  b + 2h + 2α                      min(P, 0.87 B/2), with SHARP
    ======== ================================ ======================================================

    The other collectives are rings with one pass, whose P on Ethernet is less by ``ring_share``. A gather or scatter
    takes b + γh(g - 1)M + α(M - 1) and fills its pipeline as within one domain. Calls of a broadcast or reduce overlap:
    they take b, and their fill grows more steeply with the bytes. An all-to-all takes b + h + α + p(n - 1), p for each
    peer, and the slower of its shares inside and outside the domain.
    """
    m, c = machine, calibration
    g, domains, peers = _number(m.ranks_per_domain), _number(m.domains), _number(m.mesh_peers)
    ranks = g * domains
    several, beyond_pair = domains > 1, domains > 2
    links = where(peers > 0, smaller(1.0, (g - 1) / larger(peers, 1.0)), 1.0)
    inside = m.scale_up_rate * links * where((peers > 0) & several, c.mesh_across, 1.0)
    node = m.scale_out_rate * smaller(g, m.exits)
    hop = m.scale_up_hop * where(several, c.chain_across, 1.0)
    # A ring enters and leaves each domain once, on every port at the same time.
    narrow = where(several, where(g > 1, smaller(inside, node), node), inside)
    chain = where(g > 8, 7 + c.rack_chain * np.log2(larger(g, 8.0) / 8), g - 1)
    fill = where(several, m.fill, m.fill_one_domain) * (g - 1 + c.fill_lone) / g
    cap = where(several, c.fill_cap_network, c.fill_cap_domain)

    # A slow transport keeps more chunks under way: it paces the pipeline by the geometric mean of its hop and
    # InfiniBand's. A ring saves the part of a tree's hop that the library spends, not the transport.
    pacing_hop = np.sqrt(m.scale_out_hop * m.reference_hop)
    saved = (1 - c.ring_hop) * m.reference_hop
    ring_hop = larger(m.scale_out_hop - saved, c.ring_hop * m.scale_out_hop / 2)
    ring_pacing = larger(pacing_hop - saved, c.ring_hop * pacing_hop / 2)
    beyond = larger(g - 1 - chain, 0.0)  # the pipeline passes every GPU of a rack, a small message does not

    def path(passes: Array, crossings: Array, ring: bool = False) -> tuple[Array, Array]:
        """Latency and pace of so many passes through a domain and so many crossings between domains [s]."""
        near = m.base_latency + passes * chain * hop
        network, pacing = (ring_hop, ring_pacing) if ring else (m.scale_out_hop, pacing_hop)
        return near + crossings * network, near + passes * beyond * hop + crossings * pacing

    if collective == "all-to-all":
        share_near = (g - 1) / ranks / inside
        share_far = (ranks - g) / ranks / m.scale_out_rate
        near = m.base_latency + smaller(g - 1, 1.0) * hop + (ranks - 1) * c.peer_overhead
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = 1 / np.maximum(share_near, share_far)
        crossing = where(several, 1.0, 0.0)
        pace = near + crossing * pacing_hop
        return {"ring": _Line(near + crossing * m.scale_out_hop, pace, rate, fill, cap, c.fill_exponent)}
    if collective != "all-reduce":
        lone = m.ring_share * node
        narrow = where(several, where(g > 1, smaller(inside, lone), lone), inside)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = narrow / bus_factor(collective, ranks)
        if collective in ("broadcast", "reduce"):
            # One call does not wait for the end of the one before: hops hide, and so does the filling of the pipeline
            # while messages fit its buffers, the more bytes the less so.
            _, paced = path(domains, domains - 1)
            return {"ring": _Line(m.base_latency, paced, rate, c.broadcast_fill * fill, cap, c.broadcast_exponent)}
        # Bytes pass every GPU once and none waits for a sum to come back: the pipeline fills as within one domain.
        once = where(several & (g <= 1), m.fill, m.fill_one_domain) * (g - 1 + c.fill_lone) / g
        return {"ring": _Line(*path(c.gather_hop * domains, domains - 1), rate, once, cap, c.fill_exponent)}

    with np.errstate(divide="ignore", invalid="ignore"):
        ring = narrow / bus_factor(collective, ranks)
    alone = where(g > 1, c.tree_chain * inside / 2, np.inf)
    pair = where((peers > 0) & (g - 1 > peers), smaller(ring, alone), smaller(node, alone))
    many = c.tree_many * smaller(node, 2 * alone) / 2
    tree = where(several, where(beyond_pair, many, pair), alone)
    # With the sum made in the switch a rank sends 1 + 1/g of the message: 9/8 of it with 8 ranks.
    multicast = where(g > 2, m.multicast_rate * smaller(1.0, 9 / 8 / (1 + 1 / g)), 0.0)
    joined = c.multicast_pair * multicast
    through = where(beyond_pair, c.multicast_many * node / 2, node)
    sharp = where(several, m.in_network_reduction, 0.0)
    trees = 1.0 - _number(m.streamed)
    levels = np.log2(domains)
    multicast_cap = where(several, c.fill_cap_multicast, c.fill_cap_domain)
    direct = 2 / larger(chain, 1.0)  # straight to the switch and back, not along the chain
    around, up_and_down = path(2 * domains, 2 * (domains - 1), ring=True), path(2.0, 2 * levels)
    found = {"ring": _Line(*around, ring, fill, cap, c.fill_exponent)}
    if some((rate := trees * tree) > 0):
        found["tree"] = _Line(*up_and_down, rate, fill, cap, c.fill_exponent)
    if some((rate := where(several, sharp * smaller(joined, node), multicast)) > 0):
        through_switch = path(where(several, direct, 2.0), where(several, 2.0, 0.0))
        found["nvls"] = _Line(*through_switch, rate, fill, multicast_cap, c.fill_exponent)
    if some((rate := where(several, trees * smaller(joined, through), 0.0)) > 0):
        found["nvls-tree"] = _Line(*up_and_down, rate, fill, multicast_cap, c.fill_exponent)
    if some((rate := sharp * smaller(node, alone)) > 0):
        found["collnet"] = _Line(*path(direct, 2.0), rate, fill, cap, c.fill_exponent)
    return found


def _number(value: Array) -> Array:
    """Any number as NumPy's own, whose division by zero is infinite; an array as it is."""
    number: Array = np.asarray(value, float)[()]
    return number


def _fill(line: _Line, transfer: Array) -> tuple[Array, Array]:
    """Pipeline fill after ``transfer`` seconds' worth of bytes, F [s], and X·dF/dX [s].

    F₀ = c · L₀^(1 - q) · X^q grows with the chunks until they reach their largest size, F = F₀/√(1 + (F₀/(k·L₀))²).
    """
    ceiling = line.cap * line.pace
    relative: Array = line.fill / line.cap * np.power(transfer / line.pace, line.exponent)
    bend = 1 + relative * relative
    fill = ceiling * relative / np.sqrt(bend)
    return fill, line.exponent * fill / bend


def _tangent(line: _Line, transfer: Array, start: Array) -> Array:
    """L + X + F where X is ``start``, and the tangent from there elsewhere [s]."""
    fill, slope = _fill(line, start)
    return line.latency + transfer + fill + slope * (_some_bytes(transfer) / start - 1)


def _some_bytes(transfer: Array) -> Array:
    return larger(transfer, _TINY)


_TINY = float(np.finfo(float).tiny)


def _line_times(
    name: str, line: _Line, transfer: Array, machine: Machine, calibration: Calibration
) -> dict[str, Array]:
    """Time of one algorithm with each protocol it speaks [s]; ``transfer`` is the message over its rate [s]."""
    first, last = _stretches(line, calibration)
    some_bytes = _some_bytes(transfer)
    if name in _MULTICAST:
        return {"simple": _tangent(line, transfer, larger(some_bytes, first))}
    between = smaller(larger(some_bytes, first), last)
    times = {
        "ll": _tangent(line, transfer, smaller(some_bytes, first)),
        "ll128": where(_number(machine.ll128) > 0, _tangent(line, transfer, between), np.nan),
        "simple": _tangent(line, transfer, larger(some_bytes, last)),
    }
    streamed = _number(machine.streamed) > 0
    if some(streamed):
        hidden = np.hypot(line.latency, transfer)
        times = {
            protocol: where(streamed, hidden if protocol == "simple" else np.nan, time)
            for protocol, time in times.items()
        }
    return times


def _stretches(line: _Line, calibration: Calibration) -> tuple[Array, Array]:
    """Transfer times up to which LL and from which on Simple is the best protocol; between them LL128 is [s]."""
    return calibration.ll_end * line.pace, calibration.simple_start * line.pace


def _transfer(line: _Line, message: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return where(line.rate > 0, message / line.rate, _number(np.nan))


@dataclass(frozen=True)
class Choice:
    """One way to run a collective, or at each place of a sweep the quickest of several."""

    time: Array  # [s]
    algorithm: Array  # index into ALGORITHMS
    protocol: Array  # index into PROTOCOLS
    transfer: Array  # what of the time moves bytes at the asymptotic rate [s]
    latency: Array  # what of it is launch and hops [s]

    @property
    def bandwidth_share(self) -> Array:
        """Share of the time that moves bytes at the asymptotic rate [1]."""
        return self._share(self.transfer)

    @property
    def latency_share(self) -> Array:
        """The rest: hops, launch, filling the pipeline [1]."""
        return 1 - self.bandwidth_share

    @property
    def fill_share(self) -> Array:
        """The part of the latency's share that fills the pipeline [1]."""
        return self._share(self.time - self.transfer - self.latency)

    def _share(self, part: Array) -> Array:
        return smaller(larger(part / where(self.time > 0, self.time, np.nan), 0.0), 1.0)

    def or_quicker(self, other: "Choice") -> "Choice":
        """This one, or the other where that is quicker, or known alone; one of the two where it is so throughout."""
        kept = (self.time <= other.time) | np.isnan(other.time)
        if kept.all():
            return self
        if not kept.any():
            return other
        return Choice(*map(partial(where, kept), vars(self).values(), vars(other).values()))


def _runs(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> dict[str, Choice]:
    """Each algorithm that the machine has, or the forced one, with its quickest protocol, or the forced one."""
    found = {}
    size = _number(message)
    for name, line in _lines(collective, machine, calibration).items():
        if algorithm in ("", name):
            run = _run(name, line, size, machine, calibration, protocol)
            if run:
                found[name] = run
    return found


def _run(
    name: str, line: _Line, message: Array, machine: Machine, calibration: Calibration, protocol: str
) -> Choice | None:
    """One algorithm with its quickest protocol: the curve itself where all three are to be had."""
    transfer, which = _transfer(line, message), ALGORITHMS.index(name)
    whole = not (name in _MULTICAST or some(machine.streamed > 0) or some(machine.ll128 <= 0))
    if whole and not protocol:
        first, last = _stretches(line, calibration)
        spoken = where(transfer <= first, 0, where(transfer <= last, 1, 2))
        return Choice(line.latency + transfer + _fill(line, transfer)[0], which, spoken, transfer, line.latency)
    best = None
    for spoken_here, time in _line_times(name, line, transfer, machine, calibration).items():
        if protocol in ("", spoken_here):
            run = Choice(time, which, PROTOCOLS.index(spoken_here), transfer, line.latency)
            best = best.or_quicker(run) if best else run
    return best


def _floor(collective: str, machine: Machine, calibration: Calibration) -> Array:
    """Least time of a call where one process launches on all GPUs of a node [s].

    An all-to-all is posted peer by peer, for one GPU of the process after the other.
    """
    floor = _number(machine.launch_floor)
    if collective != "all-to-all":
        return floor
    g = _number(machine.ranks_per_domain)
    return where(floor > 0, floor + g * (g * machine.domains - 1) * calibration.peer_overhead, floor)


def _finish(time: Array, machine: Machine, floor: Array) -> Array:
    """A call takes no less than its launch; one rank alone has nothing to do."""
    return where(_alone(machine), 0.0, larger(time, floor))


def _alone(machine: Machine) -> bool | NDArray[np.bool_]:
    """Where there is one rank."""
    alone: bool | NDArray[np.bool_] = _number(machine.ranks_per_domain) * machine.domains <= 1
    return alone


def times(collective: str, message: Array, machine: Machine, calibration: Calibration) -> dict[tuple[str, str], Array]:
    """Calibrated time of a collective by each algorithm and protocol [s]; ``nan`` where the machine lacks one.

    Each time is L + X + F: the latency of the algorithm's hops, the bytes at its asymptotic rate, and the filling of
    the pipeline. That curve is concave in the message, so it is the lower envelope of its tangents: a protocol follows
    it in its own stretch and leaves it on the tangent, a straight line of higher latency (LL128, Simple) or lower
    bandwidth (LL, LL128). Without LL128 the better of the other two bridges the gap.

    Args:
        collective: one of ``COLLECTIVES``.
        message: bytes, S [B].
        machine: the cluster.
        calibration: constants of the library.

    Returns:
        Times by (algorithm, protocol). A pair that the collective never uses is left out.

    Source: Railyard's calibration against published nccl-tests and rccl-tests; structure after NCCL
    ``src/graph/tuning.cc``.
    """
    found: dict[tuple[str, str], Array] = {}
    floor = _floor(collective, machine, calibration)
    for name, line in _lines(collective, machine, calibration).items():
        by_protocol = _line_times(name, line, _transfer(line, _number(message)), machine, calibration)
        found |= {(name, protocol): _finish(time, machine, floor) for protocol, time in by_protocol.items()}
    return found


def collective_time(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> Array:
    """Calibrated time of a collective [s], by the quickest algorithm and protocol unless they are forced.

    Args and source as in :func:`times`. ``nan`` where the machine lacks what is forced.
    """
    return choose(collective, message, machine, calibration, algorithm, protocol).time


def choose(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> Choice:
    """The quickest algorithm and protocol, or the forced ones, with the shares of latency and bandwidth.

    Args and source as in :func:`times`.
    """
    runs = _runs(collective, message, machine, calibration, algorithm, protocol)
    floor = _floor(collective, machine, calibration)
    return _called(_quickest(runs.values(), message, machine), machine, floor)


def compare(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> tuple[Choice, dict[str, Choice]]:
    """What :func:`choose` chooses, and every algorithm that the machine has by name.

    Each of those takes its own quickest protocol; the forced algorithm takes the forced protocol.

    Args and source as in :func:`times`.
    """
    runs = _runs(collective, message, machine, calibration)
    asked = _runs(collective, message, machine, calibration, algorithm, protocol) if protocol else runs
    if algorithm:
        asked = {name: run for name, run in asked.items() if name == algorithm}
        runs = {name: run for name, run in runs.items() if name != algorithm} | asked
    floor = _floor(collective, machine, calibration)
    each = {name: _called(runs[name], machine, floor) for name in ALGORITHMS if name in runs}
    best = _quickest(asked.values(), message, machine)
    own = next((each[name] for name, run in runs.items() if run is best), None)
    return own or _called(best, machine, floor), each


def _quickest(runs: Iterable[Choice], message: Array, machine: Machine) -> Choice:
    """The quickest of some ways, at each place of a sweep; ``nan`` where there is none."""
    best: Choice | None = None
    for run in runs:
        best = best.or_quicker(run) if best else run
    if best:
        return best
    nothing = np.full(np.broadcast(message, machine.ranks_per_domain, machine.domains).shape, np.nan)
    return Choice(nothing, 0, 0, nothing, nothing)


def _called(run: Choice, machine: Machine, floor: Array) -> Choice:
    """The way as it is called: see :func:`_finish`."""
    if not (some(floor > 0) or some(_alone(machine))):
        return run
    time, latency = _finish(run.time, machine, floor), larger(run.latency, floor)
    return Choice(time, run.algorithm, run.protocol, run.transfer, latency)


def all_reduce(
    message: Array, machine: Machine, calibration: Calibration, algorithm: str = "", protocol: str = ""
) -> Array:
    """Calibrated time of an all-reduce of ``message`` bytes on every rank [s]. See :func:`collective_time`."""
    return collective_time("all-reduce", message, machine, calibration, algorithm, protocol)


def all_gather(
    message: Array, machine: Machine, calibration: Calibration, algorithm: str = "", protocol: str = ""
) -> Array:
    """Calibrated time of an all-gather; ``message`` is the gathered total [s]. See :func:`collective_time`."""
    return collective_time("all-gather", message, machine, calibration, algorithm, protocol)


def reduce_scatter(
    message: Array, machine: Machine, calibration: Calibration, algorithm: str = "", protocol: str = ""
) -> Array:
    """Calibrated time of a reduce-scatter; ``message`` is what each rank brings [s]. See :func:`collective_time`."""
    return collective_time("reduce-scatter", message, machine, calibration, algorithm, protocol)


def all_to_all(
    message: Array, machine: Machine, calibration: Calibration, algorithm: str = "", protocol: str = ""
) -> Array:
    """Calibrated time of an all-to-all; ``message`` is what each rank brings [s]. See :func:`collective_time`."""
    return collective_time("all-to-all", message, machine, calibration, algorithm, protocol)


def broadcast(
    message: Array, machine: Machine, calibration: Calibration, algorithm: str = "", protocol: str = ""
) -> Array:
    """Calibrated time of a broadcast of ``message`` bytes [s]. See :func:`collective_time`."""
    return collective_time("broadcast", message, machine, calibration, algorithm, protocol)


# ---------------------------------------------------------------------------------------------------------------------
# The ideal profile of a machine
# ---------------------------------------------------------------------------------------------------------------------

IDEAL_ALGORITHMS = ("ring", "tree", "recursive-halving-doubling", "hierarchical", "nvls", "collnet")


def ideal_all_reduce_times(message: Array, machine: Machine) -> dict[str, Array]:
    """Time of an all-reduce by each textbook algorithm at the line rates of a machine [s].

    Flat algorithms run at the narrower of a GPU's scale-up link and the network ports of its whole domain, and pay the
    network's latency on every step once there is more than one domain. Sums in the switch are to be had where the
    machine has them: in the scale-up switch for one domain, in the network between domains.

    Args:
        message: bytes each rank contributes, S [B].
        machine: the cluster; line rates and hops of its fields are used, calibrated rates are not.

    Returns:
        Times by name; ``nan`` where the machine cannot run one.

    Source: the textbook forms above, each with its own.
    """
    m = machine
    g, domains = np.asarray(m.ranks_per_domain, float), np.asarray(m.domains, float)
    ranks, several = g * domains, np.asarray(m.domains) > 1
    peers = np.asarray(m.mesh_peers, float)
    inside = m.scale_up_line * np.where(peers > 0, np.minimum(1.0, (g - 1) / np.maximum(peers, 1)), 1.0)
    port = m.scale_out_line
    slowest = np.where(several, np.where(g > 1, np.minimum(inside, g * port), port), inside)
    latency = np.where(several, m.scale_out_hop, m.scale_up_hop)
    with np.errstate(divide="ignore", invalid="ignore"):
        flat = (message, ranks, latency, slowest)
        halves = ring_all_reduce(message, g, m.scale_up_hop, inside)
        across = in_network_all_reduce(message / g, domains, 1, m.scale_out_hop, port)
        summed = np.where((np.asarray(m.multicast_rate) > 0) & ~several, 1.0, np.nan)
        sharp = np.where((np.asarray(m.in_network_reduction) > 0) & several, 1.0, np.nan)
        found = {
            "ring": ring_all_reduce(*flat),
            "tree": double_binary_tree_all_reduce(*flat),
            "recursive-halving-doubling": halving_doubling_all_reduce(*flat),
            "hierarchical": hierarchical_all_reduce(message, g, domains, m.scale_up_hop, inside, m.scale_out_hop, port),
            "nvls": summed * in_network_all_reduce(message, ranks, 1, m.scale_up_hop, inside),
            "collnet": sharp * (np.where(g > 1, halves, 0.0) + across),
        }
        return {name: np.where(ranks > 1, time, 0.0) for name, time in found.items()}


def ideal_lower_bound(message: Array, machine: Machine) -> Array:
    """The least time of an all-reduce at the line rates of a machine [s].

    Between ranks the larger of two bounds: 2(n - 1)/n · S through all links of one rank, and 2(M - 1)/M · S through the
    ports of one domain. Where switches sum, S through either.

    Source: Patarasuk, Yuan 2009, Theorem 1, for a rank and for a domain taken as one rank.
    """
    m = machine
    g, domains = np.asarray(m.ranks_per_domain, float), np.asarray(m.domains, float)
    ranks, several = g * domains, np.asarray(m.domains) > 1
    own = np.where(g > 1, m.scale_up_line, 0.0) + np.where(several, m.scale_out_line, 0.0)
    ports = np.where(several, m.scale_out_line * g, np.inf)
    sums = np.where(several, np.asarray(m.in_network_reduction) > 0, np.asarray(m.multicast_rate) > 0)
    rank_share = np.where(sums, 1.0, 2 * (ranks - 1) / ranks)
    domain_share = np.where(sums, 1.0, 2 * (domains - 1) / domains)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.maximum(rank_share * message / own, domain_share * message / ports)
    return np.where(ranks > 1, bound, 0.0)


# ---------------------------------------------------------------------------------------------------------------------
# What the library's own tables would choose
# ---------------------------------------------------------------------------------------------------------------------


def library_times(
    message: float, machine: Machine, tables: Mapping[str, float], correction: Mapping[str, float], architecture: str
) -> dict[tuple[str, str], float]:
    """Time that NCCL's own cost model gives each algorithm and protocol of an all-reduce [s].

    Latency of the algorithm's steps from a table, plus message over bandwidth. The library takes the least of them;
    the model is meant to rank, its absolute times can be off by a factor of two.

    Args:
        message: bytes, S [B].
        machine: one cluster; its typical line rates, its counts and switches are used.
        tables: NCCL's latencies [s], LL limits [B/s] and shares [1] by name.
        correction: factor on a tree's bandwidth by protocol and message [1].
        architecture: volta, ampere, hopper or blackwell.

    Source: NVIDIA, NCCL 2.30, ``src/graph/tuning.cc``.
    """

    def one(value: Array) -> float:
        return float(value if isinstance(value, float) else np.asarray(value).flat[0])

    g, domains = one(machine.ranks_per_domain), one(machine.domains)
    ranks, several = g * domains, domains > 1
    count = "one" if not several else "two" if domains <= 2 else "many"
    link = one(machine.scale_up_line) * tables[f"link_{architecture}"]
    node = one(machine.scale_out_line) * tables["network"] * g
    near = "nvlink" if one(machine.ll128) > 0 else "pci"
    ring_bus = min(link, node) if several and g > 1 else node if several else link
    tree_bus = min(link, 2 * node) if count == "two" and g > 1 else ring_bus
    ratio = ranks / (2 * (ranks - 1))
    levels, post = math.floor(math.log2(domains)), tables["post"] if several else 0.0
    size = min(math.floor(math.log2(max(message, 64.0) / 64)), 24)
    found = {}
    for protocol in PROTOCOLS:
        if protocol == "ll128" and near == "pci":
            continue
        limit = tables[f"ll_{architecture}_{count}"]
        share = {"ll": tables["ll_share"], "ll128": tables["ll128_share"], "simple": 1.0}[protocol]
        bus = min(share * ring_bus, limit) if protocol == "ll" else share * ring_bus
        crossings = 2 * (domains - 1)
        hop = max(tables[f"{near}_ring_{protocol}"], post * (3 if protocol == "simple" else 1))
        away = tables[f"network_{'tree' if g == 1 else 'ring'}_{protocol}"]
        latency = tables[f"base_ring_{protocol}"] + (2 * (ranks - 1) - crossings) * hop + crossings * away
        if protocol == "simple" and several and message / ranks >= 64:
            latency *= tables["ring_simple_plateau"]
        found["ring", protocol] = latency + message / (bus * ratio)
        bus = tables["tree_share"] * tree_bus
        if protocol == "ll":
            bus = min(bus / tables["tree_ll_divisor"], limit)
        elif protocol == "ll128":
            bus *= tables["tree_ll128_many" if several else "tree_ll128_one"]
        factor = correction[f"{protocol}_{size:02}"] if size < 24 else 1.0
        steps = (g - 1) * tables[f"{near}_tree_{protocol}"] + levels * tables[f"network_tree_{protocol}"]
        found["tree", protocol] = tables[f"base_tree_{protocol}"] + 2 * steps + message / (bus * factor / 2)
    sharp = several and one(machine.in_network_reduction) > 0
    if f"nvls_{architecture}" in tables and one(machine.multicast_rate) > 0 and g > 2:
        inside = link * tables[f"nvls_{architecture}"] * 2
        if not several or sharp:
            bus = min(inside, node) if several else inside
            latency = tables["nvlink_nvls"] + (tables["network_nvls"] if several else 0.0)
            found["nvls", "simple"] = latency + message / (bus * ratio)
        if several:
            bus = min(inside, node * (2 if count == "two" else 1))
            latency = tables["nvlink_nvls_tree"] + 2 * levels * tables["network_nvls_tree"]
            found["nvls-tree", "simple"] = latency + message / (bus * ratio)
    if sharp and near == "nvlink":
        latency = 2 * (tables["nvlink_collnet"] + (g - 1) * tables["local_collnet"]) + tables["network_collnet"]
        found["collnet", "simple"] = latency + message / (min(link, node) / 2)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Stragglers
# ---------------------------------------------------------------------------------------------------------------------


def straggler_slowdown(jitter: Array, links: Array) -> Array:
    """Expected slow-down of a synchronous step by the slowest of many links.

    Every rank waits for the last link. With delays that are independent and exponential, of mean σ as a share of the
    undisturbed time, the largest of m has mean σ·H_m, H_m = 1 + 1/2 + … + 1/m ≈ ln m + γ + 1/(2m) - 1/(12m²) (the
    Gumbel limit adds ln m + γ). So the step takes 1 + σ·H_m times as long.

    Args:
        jitter: mean extra delay of one link over the undisturbed time, σ [1].
        links: links that must all finish, m [1].

    Returns:
        Expected time over undisturbed time [1].

    Source: David, Nagaraja, "Order Statistics", 3rd ed., Wiley 2003, section 2.5 and chapter 10; for the effect on
    clusters Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC 2003.
    doi:10.1145/1048935.1050204

    >>> round(float(straggler_slowdown(jitter=0.01, links=1)), 4)  # one link: its mean
    1.01
    >>> round(float(straggler_slowdown(jitter=0.01, links=4)), 5)  # 1 + 1/2 + 1/3 + 1/4 = 2.0833
    1.02083
    """
    m = np.maximum(np.asarray(links, float), 1.0)
    euler = 0.5772156649015329
    tail = np.log(m) + euler + 1 / (2 * m) - 1 / (12 * m**2) + 1 / (120 * m**4) - 1 / (252 * m**6)
    exact = np.where(m < 2, 1.0, np.where(m < 3, 1.5, tail))
    return 1 + jitter * exact
