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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, any_, maximum, minimum, shared, where
from app.formulas.collectives.graph_kernels import GraphKernels, one_shot, two_shot
from app.formulas.collectives.ideal import ALGORITHMS, PROTOCOLS, Machine, bus_factor
from app.formulas.records import but


@dataclass(frozen=True, eq=False)
class Calibration:
    """Constants of the library rather than of the hardware; in the catalogue as ``collectives.library``.

    Attributes:
        fill_exponent: q [1].
        fill_cap_domain: k within one domain, multiples of the latency [1].
        fill_cap_ring: k of a ring across domains, whose latency counts every hop already [1].
        fill_cap_network: k of a tree across domains [1].
        fill_cap_multicast: k of NVLS tree across domains [1].
        fill_lone: fill of a rank alone in its domain, share of the fill with many [1].
        ll_end: LL is best up to this transfer time over latency; NVLS starts there [1].
        simple_start: Simple is best from this transfer time over latency on [1].
        tree_chain: tree through the GPUs of a domain, share of half the ring rate [1].
        tree_many: tree over more than two domains, share of half the smaller rate [1].
        multicast_many: NVLS tree over more than two domains, share of half the network [1].
        chain_across: hop inside a domain when other nodes take part, over one when none do [1].
        ring_hop: network hop of a ring over that of a tree [1].
        mesh_across: ring rate of a mesh when it also leaves the domain, over that within [1].
        pair: two ranks alone, latency and fill over those of a chain of two [1].
        rack_pace: share of the hops beyond the eighth rank of a domain that the pipeline meets [1].
        gather_across: ring of one pass inside a domain when it also leaves it, over that within [1].
        gather_hop: hop of an all-gather or reduce-scatter inside a domain over that of an all-reduce [1].
        broadcast_fill: fill of a broadcast or reduce over that of an all-reduce, for bytes worth a latency [1].
        broadcast_exponent: q of a broadcast or reduce, whose small calls overlap [1].
        peer_overhead: posting the exchange with one more peer in an all-to-all [s].
        kernel_ranks: most ranks that kernels recorded in graphs are made for [1].
        longest_chain: ranks of a domain that a tree passes one after the other; of more, in parts of as many [1].
    """

    fill_exponent: Array
    fill_cap_domain: Array
    fill_cap_ring: Array
    fill_cap_network: Array
    fill_cap_multicast: Array
    fill_lone: Array
    ll_end: Array
    simple_start: Array
    tree_chain: Array
    tree_many: Array
    multicast_many: Array
    chain_across: Array
    ring_hop: Array
    mesh_across: Array
    pair: Array
    rack_pace: Array
    gather_across: Array
    gather_hop: Array
    broadcast_fill: Array
    broadcast_exponent: Array
    peer_overhead: Array
    kernel_ranks: Array = np.inf
    longest_chain: Array = np.inf


@dataclass(frozen=True)
class AlphaBeta:
    """What an algorithm amounts to on a machine.

    Attributes:
        latency: of its hops and the launch, L [s].
        pace: the part of L that lengthens the pipeline, L₀ [s].
        rate: message over transfer time; 0 where the machine lacks the algorithm [B/s].
        fill: size of the pipeline's fill, c [1].
        cap: most of the fill, in multiples of L₀, k [1].
        exponent: of the fill's growth with the bytes, q [1].
        steps: where the chunks grow: messages from so many bytes on have that share of the rate, and of the most fill
            that other [B, 1, 1].
        ll_fill: most of the fill with LL, F₁ [s].
    """

    latency: Array
    pace: Array
    rate: Array
    fill: Array
    cap: Array
    exponent: Array
    steps: tuple[tuple[Array, Array, Array], ...] = ()
    ll_fill: Array = np.inf


_SIMPLE = ("nvls", "nvls-tree", "collnet", "one-shot", "two-shot")
"""Algorithms that have one protocol, the Simple one or their own."""


@dataclass(frozen=True)
class Paths:
    """A machine's paths, as all its algorithms meet them.

    Attributes:
        machine: the cluster.
        calibration: constants of the library.
        ranks_per_domain: g [1].
        domains: M [1].
        several: whether there is more than one domain.
        inside: what a ring sustains inside a domain, B [B/s].
        ports: what the ports of the emptiest domain sustain together, P [B/s].
        hop: inside a domain, h [s].
        chain: hops from one end of a domain to the other [1].
        pair: latency and fill of two ranks alone over those of a chain of two, else 1 [1].
        cap: k [1].
        meshed: whether any domain is a mesh.
    """

    machine: Machine
    calibration: Calibration
    ranks_per_domain: Array
    domains: Array
    several: bool | NDArray[np.bool_]
    inside: Array
    ports: Array
    hop: Array
    chain: Array
    pair: Array
    cap: Array
    meshed: bool

    @property
    def ranks(self) -> Array:
        """n [1]."""
        return _number(self.machine.ranks)

    @property
    def pacing_hop(self) -> Array:
        """The hop between domains as the pipeline meets it [s].

        A slow transport keeps more chunks under way: it paces by the geometric mean of its hop and InfiniBand's.
        """
        pacing: Array = np.sqrt(self.machine.scale_out_hop * self.machine.reference_hop)
        return pacing

    @property
    def fill(self) -> Array:
        """c [1]."""
        m, g = self.machine, self.ranks_per_domain
        lone = (g - 1 + self.calibration.fill_lone) / g
        return where(self.several, m.fill, m.fill_one_domain) * lone * self.pair

    def narrowest(self, ports: Array, leaving: Array = 1.0) -> Array:
        """The rate of a ring, which enters and leaves each domain once, on all of these ports at a time [B/s].

        Inside a domain that it leaves, it has that share of the rate.
        """
        across = where(self.ranks_per_domain > 1, self.through_ports(ports, self.inside * leaving), ports)
        return where(self.several, across, self.inside)

    def through_ports(self, ports: Array, inside: Array) -> Array:
        """What these ports and so much inside a domain sustain [B/s].

        Where one link of a mesh is narrower than a GPU's own port, the ring goes from port to port. PCIe leads to the
        port too, so it has no such choice.
        """
        if not self.meshed:
            return minimum(ports, inside)
        peers = _number(self.machine.mesh_peers)
        link = ports / minimum(self.machine.fewest, self.machine.exits)
        return minimum(ports, where(peers > 0, maximum(inside, link), inside))

    def latency(self, passes: Array, network: Array) -> Array:
        """Launch, so many passes through a domain, and the time between domains [s]."""
        return (self.machine.base_latency + passes * self.chain * self.hop) * self.pair + network

    def pace(self, passes: Array, network: Array) -> Array:
        """What of it lengthens the pipeline [s].

        A small message passes every GPU of a rack, one after the other, and waits where it enters another node; the
        pipeline of a large one has several on the way.
        """
        met = self.latency(passes, network) - passes * self.chain * self.machine.hop_wait * self.pair
        if not any_(self.chain > 7):
            return met
        beyond = (1 - self.calibration.rack_pace) * maximum(self.chain - 7, 0.0) * passes
        return met - beyond * (self.hop - self.machine.hop_wait)

    def through(self, passes: Array, crossings: Array, ring: bool = False) -> tuple[Array, Array]:
        """Latency and pace of so many passes through a domain and so many crossings between domains [s].

        A ring saves the part of a tree's hop that the library spends, not the transport.
        """
        m, c = self.machine, self.calibration
        network, pacing = m.scale_out_hop, self.pacing_hop
        if ring:
            saved = (1 - c.ring_hop) * m.reference_hop
            network = maximum(network - saved, c.ring_hop * network / 2)
            pacing = maximum(pacing - saved, c.ring_hop * pacing / 2)
        return self.latency(passes, crossings * network), self.pace(passes, crossings * pacing)


def _paths(machine: Machine, calibration: Calibration) -> Paths:
    """The paths of a machine.

    Links of a mesh carry as much of B as they lead to ranks; the chain passes every rank of a domain, a rack's too;
    P = r times the rate of a GPU's ports, for the r ranks of the emptiest domain: a ring enters each on as many.

    Source: Railyard's calibration against published nccl-tests and rccl-tests.

    >>> pair = Machine(8, 2, 450e9, 0.0, 0.0, 50e9, 0.0, 1e-6, 5e-6, 5e-6, 1.0, 1.0)
    >>> two_nodes = _paths(pair, Calibration(*[1.0] * 21))
    >>> float(two_nodes.ports), float(two_nodes.chain), float(two_nodes.narrowest(two_nodes.ports))
    (400000000000.0, 7.0, 400000000000.0)
    """
    m, c = machine, calibration
    g, domains, peers = shared(_number(m.ranks_per_domain)), shared(_number(m.domains)), _number(m.mesh_peers)
    several = shared(domains > 1)
    pair = where((domains <= 1) & (g == 2), c.pair, 1.0)
    meshed = any_(peers > 0)
    links = where(peers > 0, minimum(1.0, (g - 1) / maximum(peers, 1.0)), 1.0) if meshed else 1.0
    return Paths(
        machine=m,
        calibration=c,
        ranks_per_domain=g,
        domains=domains,
        several=several,
        inside=m.scale_up_rate * (links * where((peers > 0) & several, c.mesh_across, 1.0) if meshed else 1.0),
        ports=m.scale_out_rate * minimum(shared(_number(m.fewest)), m.exits),
        hop=m.scale_up_hop * where(several, c.chain_across, 1.0),
        chain=g - 1,
        pair=pair,
        cap=where(several, c.fill_cap_network, c.fill_cap_domain),
        meshed=meshed,
    )


def wire_time(algorithm: str, message: Array, machine: Machine) -> Array:
    """Least time in which an algorithm of an all-reduce can move its bytes at line rates, whatever the library reaches.

    A ring sends 2(n - 1)/n · S through each rank's link and through the ports of each domain. What is summed in a
    switch goes once through these. A tree, and an NVLS tree, which sums inside alone, also leave the sum to the
    domains: 2(M - 1)S goes through all ports together, and S through those of the emptiest.

    Args:
        algorithm: one of ``ALGORITHMS``.
        message: bytes, S [B].
        machine: the cluster; its line rates are used, calibrated rates are not.

    Returns:
        Time [s].

    Source: Patarasuk, Yuan 2009, Theorem 1; Graham et al. 2016 for sums in a switch, as in `ideal`.

    Two nodes of 8, 10 B/s inside, ports of 0.5 B/s: 15/8 · 16 B through 4 B/s, or 16 B each way.

    >>> pair = Machine(8, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, scale_up_line=10.0, scale_out_line=0.5)
    >>> float(wire_time("ring", 16.0, pair)), float(wire_time("tree", 16.0, pair))
    (7.5, 4.0)
    """
    m, g, several = machine, shared(_number(machine.ranks_per_domain)), shared(_number(machine.domains) > 1)
    ranks, ports = _number(m.ranks), shared(_number(m.fewest)) * m.scale_out_line
    through_ring = bus_factor("all-reduce", ranks)
    in_switch = algorithm in ("nvls", "nvls-tree", "collnet")
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = where(g > 1, (1.0 if in_switch else through_ring) * message / m.scale_up_line, 0.0)
        if algorithm == "ring":
            inside = where(several & (_number(m.mesh_peers) > 0), 0.0, inside)  # it may go from port to port
            across = through_ring * message / ports
        else:
            shares = 0.0 if algorithm in ("nvls", "collnet") else 2 * (m.domains - 1) / (ranks * m.scale_out_line)
            across = message * maximum(shares, 1 / ports)
        return maximum(inside, where(several, across, 0.0))


WIRED_AS = {"collnet": "nvls", "one-shot": "tree", "two-shot": "tree"}
"""Algorithms of an all-reduce whose bytes take at least as long on the wires as those of another."""


def all_reduce_algorithms(machine: Machine, calibration: Calibration) -> dict[str, AlphaBeta]:
    """Latency, rate and fill of each algorithm of an all-reduce that the machine has.

    With base latency b, hop h inside a domain (longer by ``chain_across`` when other domains take part), hop α between
    domains, ring rate B inside, P = r times a GPU's network rate where the emptiest domain has r ranks, V the rate of a
    sum in the scale-up switch and f the bus factor.

    ======== ================================ ======================================================
    ring     b + 2h(g - 1)M + 2α'(M - 1)      min(B, P)/f
    tree     b + 2h(g - 1) + 2α log₂M         one: 0.87 B/2; two: min(P, that); more: 0.9 min(P, ·)/2
    nvls     b + 2h(g - 1)                    V; across domains, with SHARP, min(0.92 V, P)
    nvls-tree as tree                         two: min(0.92 V, P); more: min(0.92 V, 0.95 P/2)
    collnet  b + 2h + 2α                      min(P, 0.87 B/2), with SHARP
    one-shot λ + μ log₂g                      B₁/(g - 1), recorded in a graph, inside one domain
    two-shot λ + μ log₂g + λ₂                 g/(2(g - 1)) B₂, the same
    ======== ================================ ======================================================

    Source: Railyard's calibration; structure after NCCL ``src/graph/tuning.cc``.

    A ring of 8 at 7 B/s with hops of 1 s: 2 · 7 steps, and 7 / (2 · 7/8) = 4 B/s.

    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> ring = all_reduce_algorithms(node, Calibration(*[1.0] * 21))["ring"]
    >>> float(ring.latency), float(ring.rate)
    (14.0, 4.0)
    """
    p, m, c = _paths(machine, calibration), machine, calibration
    fill = p.fill
    sharp = where(p.several, m.in_network_reduction, 0.0)
    multicast_cap = where(p.several, c.fill_cap_multicast, c.fill_cap_domain)
    direct = 2 / maximum(p.chain, 1.0)  # straight to the switch and back, not along the chain
    around = p.through(2 * p.domains, 2 * (p.domains - 1), ring=True)
    once = _passed(p.ranks_per_domain, c.longest_chain)
    up_and_down = p.through(2 * once, 2 * np.log2(p.domains))
    with np.errstate(divide="ignore", invalid="ignore"):
        ring = p.narrowest(m.ring_network * p.ports) / bus_factor("all-reduce", p.ranks)
    alone = where(p.ranks_per_domain > 1, c.tree_chain * p.inside / 2, np.inf)
    switch = _multicast_rates(p, sharp)
    ring_cap = where(p.several, c.fill_cap_ring, c.fill_cap_domain)
    lines = {"ring": AlphaBeta(*around, ring, fill, ring_cap, c.fill_exponent, ll_fill=_ll_fill(p, around[1]))}
    if any_((rate := _tree_rate(p, ring, alone)) > 0):
        ll_fill = _ll_fill(p, up_and_down[1])
        lines["tree"] = AlphaBeta(*up_and_down, rate, fill, p.cap, c.fill_exponent, ll_fill=ll_fill)
    if any_((rate := switch["nvls"]) > 0):
        through_switch = p.through(where(p.several, direct, 2 * once), where(p.several, 2.0, 0.0))
        steps = _chunk_steps(p, "nvls")
        lines["nvls"] = AlphaBeta(*through_switch, rate, fill, multicast_cap, c.fill_exponent, steps)
    if any_((rate := switch["nvls-tree"]) > 0):
        steps = _chunk_steps(p, "nvls-tree")
        lines["nvls-tree"] = AlphaBeta(*up_and_down, rate, fill, multicast_cap, c.fill_exponent, steps)
    if any_((rate := sharp * p.through_ports(m.ring_network * p.ports, alone)) > 0):
        lines["collnet"] = AlphaBeta(*p.through(direct, 2.0), rate, fill, p.cap, c.fill_exponent)
    return lines | _recorded(p)


def _ll_fill(p: Paths, pace: Array) -> Array:
    """Most of the fill with LL, F₁ [s]: inside a domain that sums in its switch, a share of the pace."""
    limited = ~np.asarray(p.several) & (_number(p.machine.ll_fill) > 0)
    return where(limited, p.machine.ll_fill * pace, np.inf)


def _recorded(p: Paths) -> dict[str, AlphaBeta]:
    """The kernels that a graph records, for few enough ranks inside one domain; they are a line without a fill."""
    m, n = p.machine, p.ranks_per_domain
    if not any_(_number(m.one_shot_rate) > 0):
        return {}
    kernels = GraphKernels(
        m.kernel_latency, m.kernel_doubling, _number(m.one_shot_rate), _number(m.two_shot_rate), m.two_shot_latency
    )
    by_name, recorded = {}, ~np.asarray(p.several | (n > p.calibration.kernel_ranks))
    for name, form in (("one-shot", one_shot), ("two-shot", two_shot)):
        with np.errstate(divide="ignore", invalid="ignore"):
            kernel = form(n, kernels)
            rate = where(recorded & (m.one_shot_rate > 0), 1 / kernel.byte_time, 0.0)
        by_name[name] = AlphaBeta(kernel.latency, kernel.latency, rate, 0.0, 1.0, 1.0)
    return by_name


def _passed(ranks: Array, chain: Array) -> Array:
    """Share of a domain's GPUs that a tree passes one after the other: all of them, up to the longest chain k [1].

    Beyond that a chain of k - 1 hops in each part, and a tree of log₂(g/k) levels of such parts: what domains of k
    would do that the same links join.
    """
    if not any_(ranks > chain):
        return 1.0
    parts = np.log2(maximum(ranks / chain, 1.0))
    share: Array = where(ranks > chain, (chain - 1 + parts) / maximum(ranks - 1, 1.0), 1.0)
    return share


def _tree_rate(p: Paths, ring: Array, alone: Array) -> Array:
    """Rate of a tree; ``alone`` is that inside a domain by itself [B/s]."""
    m, c, peers = p.machine, p.calibration, _number(p.machine.mesh_peers)
    ports = m.tree_network * p.ports
    pair = where((peers > 0) & (p.ranks_per_domain - 1 > peers), minimum(ring, alone), minimum(ports, alone))
    many = c.tree_many * p.through_ports(ports, 2 * alone) / 2
    return (1.0 - _number(m.streamed)) * where(p.several, where(p.domains > 2, many, pair), alone)


def _multicast_rates(p: Paths, sharp: Array) -> dict[str, Array]:
    """Rates of NVLS and NVLS trees [B/s].

    With the sum made in the switch a rank sends 1 + 1/g of the message: 9/8 of it with 8 ranks.
    """
    m, c, g = p.machine, p.calibration, p.ranks_per_domain
    multicast = where(g > 2, m.multicast_rate * minimum(1.0, 9 / 8 / (1 + 1 / g)), 0.0)
    joined = multicast / (1 + multicast / m.joining_rate)
    ports = m.tree_network * p.ports
    through = where(p.domains > 2, c.multicast_many * ports / 2, ports)
    trees = 1.0 - _number(m.streamed)
    return {
        "nvls": where(p.several, sharp * minimum(joined, m.ring_network * p.ports), multicast),
        "nvls-tree": where(p.several, trees * minimum(joined, through), 0.0),
    }


_CHUNKS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "nvls": ((64.0, 128 * 1024.0), (8.0, 64 * 1024.0), (2.0, 32 * 1024.0), (0.0, 16 * 1024.0)),
    "nvls-tree": ((4.0, 128 * 1024.0), (1.0, 64 * 1024.0), (0.0, 32 * 1024.0)),
}
"""Chunks by what a message has to hold: so many of them for each channel of each rank [1], and their size [B]."""


def _chunk_steps(p: Paths, name: str) -> tuple[tuple[Array, Array, Array], ...]:
    """From how many bytes on NVLS reaches which share of its rate and of its most fill [B, 1, 1].

    A chunk of s bytes costs as much time as s + κ bytes would, and the library takes larger chunks for larger
    messages: with NVLS, s is 128 KiB from 64·m·s on, m being channels times ranks, 64 KiB from 8·m·s, 32 KiB from
    2·m·s; its trees take them sooner. The pipeline of a tree holds what its chunks hold, and its fill is at most that
    of as many bytes, which grows as s^q; inside a domain no chunk waits for another rank's.

    Source: NVIDIA, NCCL 2.30, ``src/enqueue.cc`` (calcCollChunking); κ from Railyard's calibration.
    """
    m, chunks = p.machine, _CHUNKS[name]
    lanes = _number(m.multicast_channels) * p.ranks_per_domain
    full = 1 + m.chunk_cost / chunks[0][1]
    growth = p.calibration.fill_exponent if name == "nvls-tree" else 0.0
    return tuple(
        (each * lanes * chunk, full / (1 + m.chunk_cost / chunk), (chunk / chunks[0][1]) ** growth)
        for each, chunk in chunks
    )


def _lone_ring_rate(p: Paths, collective: str) -> Array:
    """Rate of a ring with one pass, slower inside a domain when it also leaves it [B/s]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ports = p.machine.ring_share * p.machine.ring_network * p.ports
        rate: Array = p.narrowest(ports, p.calibration.gather_across) / bus_factor(collective, p.ranks)
    return rate


def gather_algorithms(machine: Machine, calibration: Calibration) -> dict[str, AlphaBeta]:
    """Latency, rate and fill of an all-gather or reduce-scatter: a ring with one pass.

    b + γh(g - 1)M + α(M - 1), and min(B, ρP)/f. Every rank has a share of its own to send from the first step on, and
    none waits for a sum to come back: the pipeline fills as within one domain, however many, and one crossing.

    Source: Railyard's calibration against published nccl-tests and rccl-tests.

    7 steps of 1 s, and 7 / (7/8) = 8 B/s:

    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> ring = gather_algorithms(node, Calibration(*[1.0] * 21))["ring"]
    >>> float(ring.latency), float(ring.rate)
    (7.0, 8.0)
    """
    p, m, c = _paths(machine, calibration), machine, calibration
    g = p.ranks_per_domain
    fill = where(p.several & (g <= 1), m.fill, m.fill_one_domain) * (g - 1 + c.fill_lone) / g
    crossings = p.domains - 1
    latency = p.latency(c.gather_hop * p.domains, crossings * m.scale_out_hop)
    pace = p.pace(c.gather_hop, minimum(crossings, 1.0) * p.pacing_hop)
    return {"ring": AlphaBeta(latency, pace, _lone_ring_rate(p, "all-gather"), fill, p.cap, c.fill_exponent)}


def broadcast_algorithms(machine: Machine, calibration: Calibration) -> dict[str, AlphaBeta]:
    """Latency, rate and fill of a broadcast or reduce: a ring with one pass, whose calls overlap.

    b, and min(B, ρP). One call does not wait for the end of the one before: hops hide, and so does the filling of the
    pipeline while messages fit its buffers, the more bytes the less so.

    Source: Railyard's calibration against published nccl-tests and rccl-tests.

    Nothing but the launch of 2 s, and all of 7 B/s:

    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> ring = broadcast_algorithms(node, Calibration(*[1.0] * 21))["ring"]
    >>> float(ring.latency), float(ring.rate)
    (2.0, 7.0)
    """
    p, c = _paths(machine, calibration), calibration
    paced = p.pace(p.domains, (p.domains - 1) * p.pacing_hop)
    rate, fill = _lone_ring_rate(p, "broadcast"), c.broadcast_fill * p.fill
    return {"ring": AlphaBeta(machine.base_latency, paced, rate, fill, p.cap, c.broadcast_exponent)}


def all_to_all_algorithms(machine: Machine, calibration: Calibration) -> dict[str, AlphaBeta]:
    """Latency, rate and fill of an all-to-all, posted peer by peer.

    b + h + α + p(n - 1), p for each peer; the slower of a rank's shares inside, (g - 1)/n at B, and outside its domain,
    (n - r)/n of a rank of the emptiest with its r ranks at the rate of its own ports. Where rails meet inside domains
    alone, all of that share but 1/g passes through the scale-up link of a GPU on the right rail first.

    Source: Railyard's calibration against published nccl-tests and rccl-tests.

    One hop of 1 s and 7 peers of 1 s each; 7/8 of the bytes at 7 B/s:

    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> exchange = all_to_all_algorithms(node, Calibration(*[1.0] * 21))["ring"]
    >>> float(exchange.latency), float(exchange.rate)
    (8.0, 8.0)
    """
    p, m, c = _paths(machine, calibration), machine, calibration
    g = p.ranks_per_domain
    near = m.base_latency + minimum(g - 1, 1.0) * p.hop + (p.ranks - 1) * c.peer_overhead
    crossing = where(p.several, 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = 1 / _exchange_transfer(p, (g - 1) / p.ranks, machine.away)
    latency, pace = near + crossing * m.scale_out_hop, near + crossing * p.pacing_hop
    return {"ring": AlphaBeta(latency, pace, rate, p.fill, p.cap, c.fill_exponent)}


def exchange_transfer(inside: Array, across: Array, machine: Machine, calibration: Calibration) -> Array:
    """Time of the bytes alone where each rank sends so many inside its domain and so many out of it, X [s].

    The slower of V_in at B and V_out at the rate of a rank's own ports. Where rails meet inside domains alone, all of
    V_out but 1/g passes through the scale-up link of a GPU on the right rail first.

    Args:
        inside: V_in [B].
        across: V_out [B].
        machine: the cluster.
        calibration: constants of the library.

    Source: as for :func:`all_to_all_algorithms`.

    >>> pair = Machine(8, 2, 7.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> float(exchange_transfer(7.0, 8.0, pair, Calibration(*[1.0] * 21)))
    8.0
    """
    return _exchange_transfer(_paths(machine, calibration), inside, across)


def _exchange_transfer(p: Paths, inside: Array, across: Array) -> Array:
    """The same on these paths [s]."""
    m, g = p.machine, p.ranks_per_domain
    rate = where(g > 1, p.inside, np.inf)  # of a mesh one rank has no links
    with np.errstate(divide="ignore", invalid="ignore"):
        far = across / (m.scale_out_rate * m.exchange_network) + m.rails_apart * across * (g - 1) / g / rate
        slower: Array = np.maximum(inside / rate, where(p.several, far, 0.0))
    return slower


def _at_site(
    form: Callable[[Machine, Calibration], dict[str, AlphaBeta]], machine: Machine, calibration: Calibration
) -> dict[str, AlphaBeta]:
    """The algorithms of a form, with the latency and fill of the machine's site over the usual."""
    lines, slower, fuller = form(machine, calibration), machine.latency_factor, machine.fill_factor
    if not (any_(slower != 1) or any_(fuller != 1)):
        return lines
    return {
        name: but(
            line,
            latency=slower * line.latency,
            fill=fuller * line.fill,
            cap=fuller * line.cap,
            ll_fill=fuller * line.ll_fill,
        )
        for name, line in lines.items()
    }


ALGORITHMS_OF: Mapping[str, Callable[[Machine, Calibration], dict[str, AlphaBeta]]] = {
    name: partial(_at_site, form)
    for name, form in {
        "all-reduce": all_reduce_algorithms,
        "all-gather": gather_algorithms,
        "reduce-scatter": gather_algorithms,
        "all-to-all": all_to_all_algorithms,
        "broadcast": broadcast_algorithms,
        "reduce": broadcast_algorithms,
    }.items()
}


def _number(value: Array) -> Array:
    """Any number as NumPy's own, whose division by zero is infinite; an array as it is."""
    number: Array = np.float64(value) if isinstance(value, float) else np.asarray(value, float)[()]
    return number


def _fill(line: AlphaBeta, transfer: Array) -> tuple[Array, Array]:
    """Pipeline fill after ``transfer`` seconds' worth of bytes, F [s], and 1 + (F₀/(k·L₀))² [1].

    F₀ = c · L₀^(1 - q) · X^q grows with the chunks until they reach their largest size, F = F₀/√(1 + (F₀/(k·L₀))²).
    """
    cap = line.cap * _chunks_fill(line, transfer)
    relative: Array = line.fill / cap * np.power(transfer / line.pace, line.exponent)
    bend = 1 + relative * relative
    return cap * line.pace * relative / np.sqrt(bend), bend


def _chunks_fill(line: AlphaBeta, transfer: Array) -> Array:
    """Share of the most fill that chunks make up after ``transfer`` seconds' worth of bytes [1]."""
    share: Array = line.steps[-1][2] if line.steps else 1.0
    if not any_(share < 1):
        return share
    for start, rate_share, larger in line.steps[-2::-1]:
        share = where(transfer * line.rate >= start / rate_share * _ALMOST, larger, share)
    return share


_ALMOST = 1 - 1e-9
"""So that a message of just as many bytes as a step begins with has its chunks, whatever the rounding."""


def _tangent(line: AlphaBeta, transfer: Array, start: Array) -> Array:
    """L + X + F where X is ``start``, and the tangent from there elsewhere [s]."""
    fill, bend = _fill(line, start)
    slope = line.exponent * fill / bend  # X·dF/dX
    return line.latency + transfer + fill + slope * (_some_bytes(transfer) / start - 1)


def _some_bytes(transfer: Array) -> Array:
    return maximum(transfer, _TINY)


_TINY = float(np.finfo(float).tiny)


LL_COST, LL128_COST = 2.0, 128 / 120
"""Bytes on the wire for each byte of data: 4 of 8 are flags with LL, 8 of 128 with LL128 and its line."""


def _line_times(
    name: str, line: AlphaBeta, transfer: Array, machine: Machine, calibration: Calibration
) -> dict[str, Array]:
    """Time of one algorithm with each protocol it speaks [s]; ``transfer`` is the message over its rate [s]."""
    first, last = _stretches(line, calibration)
    some_bytes = _some_bytes(transfer)
    if name in _SIMPLE:
        return {"simple": _tangent(line, transfer, maximum(some_bytes, first))}
    between = minimum(maximum(some_bytes, first), last)
    simple = _tangent(line, transfer, maximum(some_bytes, last))
    whole_lines = _number(machine.ll128) > 0
    ll = minimum(_tangent(line, transfer, minimum(some_bytes, first)), LL_COST * simple)
    ll = minimum(ll, _ll_at_most(line, transfer))
    ll128 = minimum(_tangent(line, transfer, between), LL128_COST * simple)
    times = {
        "ll": where(whole_lines, ll, line.latency + LL_COST * transfer),
        "ll128": where(whole_lines, ll128, np.nan),
        "simple": simple,
    }
    streamed = _number(machine.streamed) > 0
    if any_(streamed):
        hidden = np.hypot(line.latency, transfer)
        times = {
            protocol: where(streamed, hidden if protocol == "simple" else np.nan, time)
            for protocol, time in times.items()
        }
    return times


def _stretches(line: AlphaBeta, calibration: Calibration) -> tuple[Array, Array]:
    """Transfer times up to which LL and from which on Simple is the best protocol; between them LL128 is [s]."""
    return calibration.ll_end * line.pace, calibration.simple_start * line.pace


def _transfer(line: AlphaBeta, message: Array) -> Array:
    """Time of the bytes alone, X [s]: no message takes longer than a larger one whose chunks are larger."""
    if line.steps:
        weighed = (maximum(message, start) / share for start, share, _ in line.steps)
        message = reduce(minimum, weighed)
    return message / where(line.rate > 0, line.rate, _number(np.nan))


@dataclass(frozen=True)
class Selection:
    """One way to run a collective, or at each place of a sweep the quickest of several.

    Attributes:
        time: of the call [s].
        algorithm: index into ``ALGORITHMS`` [1].
        protocol: index into ``PROTOCOLS`` [1].
        transfer: what of the time moves bytes at the asymptotic rate [s].
        latency: what of it is launch and hops [s].
    """

    time: Array
    algorithm: Array
    protocol: Array
    transfer: Array
    latency: Array

    @property
    def bandwidth_share(self) -> Array:
        """Share of the time that moves bytes at the asymptotic rate [1]."""
        return minimum(maximum(self.transfer / where(self.time > 0, self.time, np.nan), 0.0), 1.0)

    @property
    def latency_share(self) -> Array:
        """The rest: hops, launch, filling the pipeline [1]."""
        return 1 - self.bandwidth_share

    def longer(self, factor: Array) -> "Selection":
        """The same where every part of it takes longer by a factor [1]."""
        if isinstance(factor, float) and factor == 1:
            return self
        time, transfer, latency = (factor * part for part in (self.time, self.transfer, self.latency))
        return Selection(time, self.algorithm, self.protocol, transfer, latency)

    def or_quicker(self, other: "Selection") -> "Selection":
        """This one, or the other where that is quicker, or known alone; one of the two where it is so throughout."""
        kept = (self.time <= other.time) | np.isnan(other.time)
        if kept.all():
            return self
        if not kept.any():
            return other
        return Selection(*map(partial(where, kept), vars(self).values(), vars(other).values()))


def _runs(
    lines: Mapping[str, AlphaBeta],
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> dict[str, Selection]:
    """Each algorithm that the machine has, or the forced one, with its quickest protocol, or the forced one."""
    runs = {}
    size = _number(message)
    for name, line in lines.items():
        if algorithm in ("", name):
            run = _run(name, line, size, machine, calibration, protocol)
            if run:
                runs[name] = run
    return runs


def _run(
    name: str, line: AlphaBeta, message: Array, machine: Machine, calibration: Calibration, protocol: str
) -> Selection | None:
    """One algorithm with its quickest protocol: the curve itself where all three are to be had."""
    transfer, which = _transfer(line, message), ALGORITHMS.index(name)
    if not protocol and _own_curve(name, machine):
        (first, last), time = _stretches(line, calibration), _curve(line, transfer)
        with_ll = (transfer <= first) | (time >= _ll_at_most(line, transfer))
        spoken = where(with_ll, 0, where(transfer <= last, 1, 2))
        return Selection(time, which, spoken, transfer, line.latency)
    best = None
    for spoken_here, time in _line_times(name, line, transfer, machine, calibration).items():
        if protocol in ("", spoken_here):
            run = Selection(time, which, PROTOCOLS.index(spoken_here), transfer, line.latency)
            best = best.or_quicker(run) if best else run
    return best


def _own_curve(name: str, machine: Machine) -> bool:
    """Whether an algorithm speaks all protocols, of which one is the curve itself at any message."""
    return not (name in _SIMPLE or any_(machine.streamed > 0) or any_(machine.ll128 <= 0))


def _curve(line: AlphaBeta, transfer: Array) -> Array:
    """L + X + F, or LL's time where that is less [s]."""
    paced = line.latency + transfer + _fill(line, transfer)[0]
    return minimum(paced, _ll_at_most(line, transfer)) if any_(line.ll_fill < np.inf) else paced


def _ll_at_most(line: AlphaBeta, transfer: Array) -> Array:
    """L + 2X + F₁ [s]: LL waits for no chunk to be whole, and sends a flag with as many bytes of data."""
    return line.latency + LL_COST * transfer + line.ll_fill


def _floor(collective: str, machine: Machine, calibration: Calibration) -> Array:
    """Least time of a call where one process launches on all GPUs of a node [s].

    An all-to-all is posted peer by peer, for one GPU of the process after the other.
    """
    floor = _number(machine.launch_floor * machine.latency_factor)
    if collective != "all-to-all":
        return floor
    g = _number(machine.ranks_per_domain)
    posted = g * (machine.ranks - 1) * calibration.peer_overhead * machine.latency_factor
    return where(floor > 0, floor + posted, floor)


def _finish(time: Array, machine: Machine, floor: Array) -> Array:
    """A call takes no less than its launch; one rank alone has nothing to do."""
    return where(_alone(machine), 0.0, maximum(time, floor))


def _alone(machine: Machine) -> bool | NDArray[np.bool_]:
    """Where there is one rank."""
    alone: bool | NDArray[np.bool_] = _number(machine.ranks) <= 1
    return alone


def times(collective: str, message: Array, machine: Machine, calibration: Calibration) -> dict[tuple[str, str], Array]:
    """Calibrated time of a collective by each algorithm and protocol [s]; ``nan`` where the machine lacks one.

    Each time is L + X + F: the latency of the algorithm's hops, the bytes at its asymptotic rate, and the filling of
    the pipeline. That curve is concave in the message, so it is the lower envelope of its tangents: a protocol follows
    it in its own stretch and leaves it on the tangent, a straight line of higher latency (LL128, Simple) or lower
    bandwidth (LL, LL128). Without LL128, over PCIe, LL takes L + 2X: its flags travel with the data, and no pipeline
    fills. Inside a domain whose switch sums it takes L + 2X + F₁ at most.

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
    by_pair: dict[tuple[str, str], Array] = {}
    floor = _floor(collective, machine, calibration)
    for name, line in ALGORITHMS_OF[collective](machine, calibration).items():
        by_protocol = _line_times(name, line, _transfer(line, _number(message)), machine, calibration)
        by_pair |= {(name, protocol): _finish(time, machine, floor) for protocol, time in by_protocol.items()}
    return by_pair


def choose(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
    lines: Mapping[str, AlphaBeta] | None = None,
) -> Selection:
    """The quickest algorithm and protocol, or the forced ones, with the shares of latency and bandwidth.

    Args and source as in :func:`times`; ``lines`` are the algorithms of the machine where they are known from another
    message. The time is ``nan`` where the machine lacks what is forced.
    """
    if lines is None:
        if np.size(message) * np.size(machine.domains) > _BLOCK:
            form = partial(choose, collective, calibration=calibration, algorithm=algorithm, protocol=protocol)
            shape = np.broadcast_shapes(
                *(np.shape(value) for part in (machine, calibration) for value in vars(part).values()),
                np.shape(message),
            )
            if np.prod(shape) > _BLOCK:
                return _by_blocks(form, message, machine, shape)
        lines = ALGORITHMS_OF[collective](machine, calibration)
    runs = _runs(lines, message, machine, calibration, algorithm, protocol)
    floor = _floor(collective, machine, calibration)
    return _called(_quickest(runs.values(), message, machine), machine, floor)


_BLOCK = 65_536
"""Places of a sweep that are worked out at a time, so that they stay in the processor's cache [1]."""


def _by_blocks(
    form: Callable[[Array, Machine], Selection], message: Array, machine: Machine, shape: tuple[int, ...]
) -> Selection:
    """A large sweep of this shape, piece by piece."""
    whole = [np.empty(shape, kind) for kind in (float, int, int, float, float)]
    for place in _places(shape):
        piece = {name: _cut(value, place) for name, value in vars(machine).items()}
        selection = form(_cut(message, place), Machine(**piece))
        for column, values in zip(whole, vars(selection).values(), strict=True):
            column[place] = values
    return Selection(*whole)


def _places(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """The pieces of an array, each of a block at most, along its axes from the first on."""
    axis = 0
    while axis < len(shape) - 1 and np.prod(shape[axis + 1 :]) > _BLOCK:
        axis += 1
    rows = max(1, _BLOCK // int(np.prod(shape[axis + 1 :])))
    rest = (slice(None),) * (len(shape) - axis - 1)
    for outer in np.ndindex(shape[:axis]):
        for start in range(0, shape[axis], rows):
            yield (*(slice(index, index + 1) for index in outer), slice(start, start + rows), *rest)


def _cut(value: Array, place: tuple[slice, ...]) -> Array:
    """What an array that broadcasts with the whole has at a place of it."""
    if np.ndim(value) == 0:
        return value
    array = np.asarray(value)
    covered = place[len(place) - array.ndim :]
    piece: Array = array[
        tuple(part if length > 1 else slice(None) for part, length in zip(covered, array.shape, strict=True))
    ]
    return piece


def shortest(
    collective: str, message: Array, machine: Machine, calibration: Calibration, lines: Mapping[str, AlphaBeta]
) -> Array:
    """The time of what :func:`choose` chooses, and nothing else of it [s].

    Args and source as in :func:`choose`.

    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> ones = Calibration(*[1.0] * 21)
    >>> lines = all_reduce_algorithms(node, ones)
    >>> bool(shortest("all-reduce", 8.0, node, ones, lines) == choose("all-reduce", 8.0, node, ones).time)
    True
    """
    size, best = _number(message), _number(np.nan)
    for name, line in lines.items():
        transfer = _transfer(line, size)
        if _own_curve(name, machine):
            ways = [_curve(line, transfer)]
        else:
            ways = list(_line_times(name, line, transfer, machine, calibration).values())
        best = reduce(np.fmin, ways, best)
    floor = _floor(collective, machine, calibration)
    return _finish(best, machine, floor) if any_(floor > 0) or any_(_alone(machine)) else best


def least_time(message: Array, machine: Machine, lines: Mapping[str, AlphaBeta]) -> Array:
    """What no algorithm is quicker than, min S/(B·share): the bytes alone, in their largest chunks.

    It grows in proportion to the message, as no time does.

    Args:
        message: bytes, S [B].
        machine: the cluster.
        lines: its algorithms, B their rates and the share that which their largest chunks have of it.

    Returns:
        Time; none for one rank, or where no algorithm is known [s].

    Source: :func:`times`, each of which adds to that.

    >>> ring = AlphaBeta(latency=1.0, pace=1.0, rate=4.0, fill=1.0, cap=1.0, exponent=0.5)
    >>> node = Machine(8, 1, 7.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    >>> float(least_time(8.0, node, {"ring": ring}))
    2.0
    """
    rate: Array = 0.0
    for line in lines.values():
        shares = [share for _, share, _ in line.steps] or [1.0]
        rate = np.fmax(rate, line.rate * reduce(maximum, shares))
    known = (rate > 0) & ~np.asarray(_alone(machine))
    return where(known, message / where(rate > 0, rate, np.inf), 0.0)


def compare(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
    lines: Mapping[str, AlphaBeta] | None = None,
) -> tuple[Selection, dict[str, Selection]]:
    """What :func:`choose` chooses, and every algorithm that the machine has by name.

    Each of those takes its own quickest protocol; the forced algorithm takes the forced protocol. ``lines`` are the
    algorithms of the machine where they are known from another message.

    Args and source as in :func:`times`.
    """
    if lines is None:
        lines = ALGORITHMS_OF[collective](machine, calibration)
    runs = _runs(lines, message, machine, calibration)
    candidates = _runs(lines, message, machine, calibration, algorithm, protocol) if protocol else runs
    if algorithm:
        candidates = {name: run for name, run in candidates.items() if name == algorithm}
        runs = {name: run for name, run in runs.items() if name != algorithm} | candidates
    floor = _floor(collective, machine, calibration)
    each = {name: _called(runs[name], machine, floor) for name in ALGORITHMS if name in runs}
    best = _quickest(candidates.values(), message, machine)
    chosen = next((each[name] for name, run in runs.items() if run is best), None)
    return chosen or _called(best, machine, floor), each


def _quickest(runs: Iterable[Selection], message: Array, machine: Machine) -> Selection:
    """The quickest of some ways, at each place of a sweep; ``nan`` where there is none."""
    best: Selection | None = None
    for run in runs:
        best = best.or_quicker(run) if best else run
    if best:
        return best
    nothing = np.full(np.broadcast(message, machine.ranks_per_domain, machine.domains).shape, np.nan)
    return Selection(nothing, 0, 0, nothing, nothing)


def _called(run: Selection, machine: Machine, floor: Array) -> Selection:
    """The way as it is called: see :func:`_finish`."""
    if not (any_(floor > 0) or any_(_alone(machine))):
        return run
    time, latency = _finish(run.time, machine, floor), maximum(run.latency, floor)
    return Selection(time, run.algorithm, run.protocol, run.transfer, latency)
