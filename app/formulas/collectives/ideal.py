"""Collectives by the textbook: α–β forms, lower bounds, and the forms on a cluster's own links."""

from dataclasses import dataclass

import numpy as np

from app.formulas.arrays import Array, minimum
from app.formulas.records import but

ALGORITHMS = ("ring", "tree", "nvls", "nvls-tree", "collnet", "one-shot", "two-shot")
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


CHUNKS = 256.0
"""Chunks in flight in the ideal profile: enough that the levels overlap [1]."""


def chunks_in_flight(inside: Array, across: Array, latency: Array, chunks: Array) -> Array:
    """Time of a hierarchical all-reduce with many chunks under way: L + max(X, Y) + min(X, Y)/k.

    The slower level is always busy; the other adds what its first and last chunk take. In one chunk the levels add up,
    as in :func:`hierarchical_all_reduce`.

    Args:
        inside: what the bytes inside the domains take, X [s].
        across: what those between domains take, Y [s].
        latency: of all steps once, L [s].
        chunks: pieces of the message, k [1].

    Returns:
        Time until every rank holds the sum [s].

    Source: Cho et al. 2019, as for :func:`hierarchical_all_reduce`, section 4 (pipelining).

    >>> float(chunks_in_flight(8.0, 12.0, 1.0, 1.0)), float(chunks_in_flight(8.0, 12.0, 1.0, 8.0))
    (21.0, 14.0)
    """
    return latency + np.maximum(inside, across) + np.minimum(inside, across) / chunks


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

    Rates are per GPU and one direction, after protocol overhead.

    Attributes:
        ranks_per_domain: g: ranks that reach one another over the scale-up link [1].
        domains: M: such groups, joined by the scale-out network [1].
        scale_up_rate: what a ring sustains inside a domain, B [B/s].
        multicast_rate: message over time when the scale-up switch sums for 8 ranks; 0 where it cannot [B/s].
        mesh_peers: ranks that a rank of a mesh has direct links to; 0 with a switch or a bus [1].
        scale_out_rate: what a GPU's share of the network ports sustains [B/s].
        base_latency: launch of the kernel [s].
        scale_up_hop: one hop inside a domain [s].
        scale_out_hop: one hop between domains [s].
        reference_hop: one hop between domains if they were joined by InfiniBand [s].
        fill: size of the pipeline fill across domains, c [1].
        fill_one_domain: the same when all ranks share one domain [1].
        launch_floor: least time of a call where one process drives all GPUs of a node [s].
        ll128: 1 where links keep 128-byte stores whole (NVLink), else 0 [1].
        in_network_reduction: share of the rate left when scale-out switches sum (SHARP); 0 where none do [1].
        streamed: 1 where the transport hides latency behind bytes and uses rings only (GPUDirect-TCP), else 0 [1].
        ring_share: share of the network rate that a lone ring sustains, in all but the all-reduce [1].
        exits: GPUs of a domain whose network ports one collective uses at a time [1].
        joining_rate: what a GPU passes between the sum in its scale-up switch and the network [B/s].
        multicast_channels: blocks of a GPU that work on a sum in the scale-up switch [1].
        chunk_cost: what each chunk of such a sum costs besides its own bytes, κ [B].
        ll_fill: most of the fill with LL inside one domain, in multiples of the latency; 0 where LL has no limit [1].
        hop_wait: part of a hop inside a domain that the pipeline does not meet [s].
        latency_factor: latency at the site over what such parts usually have [1].
        fill_factor: time that filling the pipeline takes at the site over the usual [1].
        kernel_latency, kernel_doubling: of the kernels that graphs record, λ and μ [s].
        one_shot_rate, two_shot_rate: rate of one GPU's link in them, B₁ and B₂; 0 where none is recorded [B/s].
        two_shot_latency: what their second shot adds, λ₂ [s].
        scale_up_line: line rate of the scale-up link, for the ideal profile [B/s].
        scale_out_line: line rate of the GPU's network share, for the ideal profile [B/s].
        ring_network, tree_network, halving_network, exchange_network: share of the network rate that a ring, a tree,
            halving-doubling, an all-to-all over all ranks is left with by the network's tapers [1].
        rails_apart: 1 where nothing but the scale-up link joins the rails, else 0 [1].
        far_hop: what the switches above a leaf add to a hop that leaves it, for the ideal profile [s].
        leaf_domains: domains below one leaf [1].
        missing: ranks that the domains lack of g·M [1].
        emptiest: ranks of the emptiest domain; g or more where all are full [1].
    """

    ranks_per_domain: Array
    domains: Array
    scale_up_rate: Array
    multicast_rate: Array
    mesh_peers: Array
    scale_out_rate: Array
    base_latency: Array
    scale_up_hop: Array
    scale_out_hop: Array
    reference_hop: Array
    fill: Array
    fill_one_domain: Array
    launch_floor: Array = 0.0
    ll128: Array = 1.0
    in_network_reduction: Array = 0.0
    streamed: Array = 0.0
    ring_share: Array = 1.0
    exits: Array = np.inf
    joining_rate: Array = np.inf
    multicast_channels: Array = 0.0
    chunk_cost: Array = 0.0
    ll_fill: Array = 0.0
    hop_wait: Array = 0.0
    latency_factor: Array = 1.0
    fill_factor: Array = 1.0
    kernel_latency: Array = 0.0
    kernel_doubling: Array = 0.0
    one_shot_rate: Array = 0.0
    two_shot_rate: Array = 0.0
    two_shot_latency: Array = 0.0
    scale_up_line: Array = 0.0
    scale_out_line: Array = 0.0
    ring_network: Array = 1.0
    tree_network: Array = 1.0
    halving_network: Array = 1.0
    exchange_network: Array = 1.0
    rails_apart: Array = 0.0
    far_hop: Array = 0.0
    leaf_domains: Array = np.inf
    missing: Array = 0.0
    emptiest: Array = np.inf

    @property
    def ranks(self) -> Array:
        """All ranks, n = g·M less those that the domains lack [1]."""
        return self.ranks_per_domain * self.domains - self.missing

    @property
    def fewest(self) -> Array:
        """Ranks of the emptiest domain, whose network ports all others wait for, r [1]."""
        return minimum(self.ranks_per_domain, self.emptiest)

    @property
    def away(self) -> Array:
        """Share of all ranks that are in another domain than one of the emptiest, (n - r)/n [1]."""
        return 1 - self.fewest / self.ranks

    def but(self, **changes: Array) -> "Machine":
        """The same with other links."""
        return but(self, **changes)


# ---------------------------------------------------------------------------------------------------------------------
# The ideal profile of a machine
# ---------------------------------------------------------------------------------------------------------------------

IDEAL_ALGORITHMS = ("ring", "tree", "recursive-halving-doubling", "hierarchical", "nvls", "collnet")


def ideal_all_reduce_times(message: Array, machine: Machine) -> dict[str, Array]:
    """Time of an all-reduce by each textbook algorithm at the line rates of a machine [s].

    Flat algorithms run at the narrower of a GPU's scale-up link and the network ports of the emptiest domain, and pay
    the network's latency on every step once there is more than one domain. Sums in the switch are to be had where the
    machine has them: in the scale-up switch for one domain, in the network between domains. Of the ports each algorithm
    has what the tapers leave it, and hops that leave a leaf pass the switches above it: a ring's once for each leaf, a
    tree's and halving-doubling's on their last levels. The levels of the hierarchical scheme overlap, 256 chunks in
    flight.

    Args:
        message: bytes each rank contributes, S [B].
        machine: the cluster; line rates and hops of its fields are used, calibrated rates are not.

    Returns:
        Times by name; ``nan`` where the machine cannot run one.

    Source: the textbook forms above, each with its own.
    """
    m = machine
    g, domains = np.asarray(m.ranks_per_domain, float), np.asarray(m.domains, float)
    ranks, fewest, several = np.asarray(m.ranks, float), m.fewest, np.asarray(m.domains) > 1
    peers = np.asarray(m.mesh_peers, float)
    inside = m.scale_up_line * np.where(peers > 0, np.minimum(1.0, (g - 1) / np.maximum(peers, 1)), 1.0)
    port = m.scale_out_line * m.ring_network

    def flat(share: Array, leaving: Array) -> tuple[Array, Array, Array, Array]:
        left = m.scale_out_line * share
        slowest = np.where(several, np.where(g > 1, np.minimum(inside, fewest * left), left), inside)
        latency = np.where(several, m.scale_out_hop + leaving * m.far_hop, m.scale_up_hop)
        return message, ranks, latency, slowest

    with np.errstate(divide="ignore", invalid="ignore"):
        below_leaf = np.minimum(m.leaf_domains, domains)
        of_ring = np.where(domains > below_leaf, 1 / below_leaf, 0.0)
        of_levels = np.where(domains > below_leaf, np.log2(domains / below_leaf) / np.log2(ranks), 0.0)
        far = m.scale_out_hop + of_ring * m.far_hop
        summed = np.where((np.asarray(m.multicast_rate) > 0) & ~several, 1.0, np.nan)
        sharp = np.where((np.asarray(m.in_network_reduction) > 0) & several, 1.0, np.nan)
        times = {
            "ring": ring_all_reduce(*flat(m.ring_network, of_ring / g)),
            "tree": double_binary_tree_all_reduce(*flat(m.tree_network, of_levels)),
            "recursive-halving-doubling": halving_doubling_all_reduce(*flat(m.halving_network, of_levels)),
            "hierarchical": chunks_in_flight(
                ring_all_reduce(message, g, 0.0, inside),
                ring_all_reduce(message / fewest, domains, 0.0, port),
                2 * (g - 1) * m.scale_up_hop + 2 * (domains - 1) * far,
                CHUNKS,
            ),
            "nvls": summed * in_network_all_reduce(message, ranks, 1, m.scale_up_hop, inside),
            "collnet": sharp * _summed_between_domains(message, m, inside) if np.isfinite(sharp).any() else sharp,
        }
        return {name: np.where(ranks > 1, time, 0.0) for name, time in times.items()}


def _summed_between_domains(message: Array, machine: Machine, inside: Array) -> Array:
    """Time of an all-reduce whose shares of a domain are summed in the network [s].

    Reduced and gathered inside, by the scale-up switch where it sums, or by rings of all its ranks or of a half, a
    quarter … of them, down to none: every rank by itself. Small messages take few hops, large ones few bytes through
    the ports; the levels overlap, as those of the hierarchical scheme do. A leaf sums before it sends up, so that as
    many bytes leave it whatever the rings: fewer shares have as much more of its uplinks, up to a port's rate.
    """
    m = machine
    g, hop = np.asarray(m.fewest, float), m.scale_out_hop + m.far_hop

    def summed(inside_time: Array, hops: Array, share: Array) -> Array:
        port = m.scale_out_line * np.minimum(m.ring_network * share, 1.0)
        across = in_network_all_reduce(share * message / g, 2, 1, 0.0, port)
        return chunks_in_flight(inside_time, across, 2 * (hops * m.scale_up_hop + hop), CHUNKS)

    by_switch = in_network_all_reduce(message, np.maximum(g, 2), 1, 0.0, inside)
    best = np.where(np.asarray(m.multicast_rate) > 0, summed(by_switch, 1, 1.0), np.nan)
    for halvings in range(int(np.log2(np.max(g))) + 1):
        part = np.maximum(g / 2**halvings, 1.0)
        best = np.fmin(best, summed(ring_all_reduce(message, part, 0.0, inside), part - 1, g / part))
    return best


def ideal_all_gather_time(message: Array, machine: Machine) -> Array:
    """Time of an all-gather, or of a reduce-scatter, at the line rates of a machine [s].

    The quicker of a ring through all ranks and of a ring inside each domain that runs beside one between domains over
    the share of each rank: half of the ring and the hierarchical scheme of an all-reduce.

    Args:
        message: the gathered total, S [B].
        machine: the cluster; line rates and hops of its fields are used, calibrated rates are not.

    Source: Chan et al. 2007, as for :func:`ring_all_gather`; Cho et al. 2019, as for :func:`hierarchical_all_reduce`.

    >>> pair = Machine(8, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, scale_up_line=7.0, scale_out_line=1.0)
    >>> round(float(ideal_all_gather_time(16.0, pair)), 2)  # 7/8 · 16 B at 7 B/s beside 1/2 · 2 B at 1 B/s, in chunks
    2.0
    """
    summing = but(machine, multicast_rate=0.0, in_network_reduction=0.0)
    times = ideal_all_reduce_times(message, summing)
    return np.fmin(times["ring"], times["hierarchical"]) / 2


def ideal_all_to_all_time(message: Array, machine: Machine) -> Array:
    """Time of an all-to-all by pairwise exchange at the line rates of a machine [s].

    A rank sends (g - 1)/n of its message inside its domain and, in the emptiest with its r ranks, (n - r)/n through its
    port, of which each has what the tapers leave it. Where rails meet inside domains alone, all of that but 1/g passes
    through the scale-up link first.

    Args:
        message: total each rank brings for all others and itself, S [B].
        machine: the cluster; line rates and hops of its fields are used, calibrated rates are not.

    Source: Thakur, Rabenseifner, Gropp 2005, section 3.4; for separate rails Wang et al., "Rail-only: a low-cost
    high-performance network for training LLMs with trillion parameters", 2023, arXiv:2307.12169.

    >>> from dataclasses import replace
    >>> pair = Machine(8, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, scale_up_line=7.0, scale_out_line=1.0)
    >>> float(ideal_all_to_all_time(16.0, pair)), float(ideal_all_to_all_time(16.0, pair.but(rails_apart=1.0)))
    (8.0, 9.0)
    """
    ranks, g = np.asarray(machine.ranks, float), machine.ranks_per_domain
    return ideal_exchange_time(message * (g - 1) / ranks, message * machine.away, machine)


def ideal_exchange_time(inside: Array, across: Array, machine: Machine) -> Array:
    """Time in which each rank sends so many bytes to others of its domain and so many out of it, at line rates [s].

    The slower of the two, and a step for each peer: an all-to-all where all shares are even.

    Args:
        inside: bytes that a rank sends inside its domain [B].
        across: bytes that it sends to other domains [B].
        machine: the cluster; line rates and hops of its fields are used, calibrated rates are not.

    Source: as for :func:`ideal_all_to_all_time`.

    >>> pair = Machine(8, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, scale_up_line=7.0, scale_out_line=1.0)
    >>> float(ideal_exchange_time(70.0, 8.0, pair))
    10.0
    """
    m = machine
    g, ranks, several = np.asarray(m.ranks_per_domain, float), np.asarray(m.ranks, float), np.asarray(m.domains) > 1
    latency = np.where(several, m.scale_out_hop, m.scale_up_hop) * (ranks - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.where(g > 1, inside / m.scale_up_line, 0.0)
        far = across / (m.scale_out_line * m.exchange_network)
        far = far + m.rails_apart * across * (g - 1) / g / m.scale_up_line
        time = np.maximum(near, np.where(several, far, 0.0)) + latency
    return np.where(ranks > 1, time, 0.0)


def ideal_lower_bound(message: Array, machine: Machine) -> Array:
    """The least time of an all-reduce at the line rates of a machine [s].

    Between ranks the largest of three bounds: 2(n - 1)/n · S through all links of one rank, 2(M - 1)S through the ports
    of all M domains, and S through those of the emptiest. Where switches sum, S through the links of one rank and the
    ports of the emptiest domain.

    Source: Patarasuk, Yuan 2009, Theorem 1, for a rank and for a domain taken as one rank.
    """
    m = machine
    g, domains = np.asarray(m.ranks_per_domain, float), np.asarray(m.domains, float)
    ranks, several = np.asarray(m.ranks, float), np.asarray(m.domains) > 1
    rank_rate = np.where(g > 1, m.scale_up_line, 0.0) + np.where(several, m.scale_out_line, 0.0)
    of_one, of_all = (np.where(several, m.scale_out_line * ranks_ported, np.inf) for ranks_ported in (m.fewest, ranks))
    sums = np.where(several, np.asarray(m.in_network_reduction) > 0, np.asarray(m.multicast_rate) > 0)
    rank_share = np.where(sums, 1.0, 2 * (ranks - 1) / ranks)
    whole_share = np.where(sums, 0.0, 2 * (domains - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.maximum(whole_share / of_all, np.where(several, 1.0, 0.0) / of_one)
        bound = message * np.maximum(rank_share / rank_rate, shares)
    return np.where(ranks > 1, bound, 0.0)
