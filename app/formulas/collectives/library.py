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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.ideal import ALGORITHMS, PROTOCOLS, Machine, bus_factor


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
class AlphaBeta:
    """What an algorithm amounts to on a machine. A rate of 0 means it is not to be had there."""

    latency: Array  # L [s]
    pace: Array  # the part of L that lengthens the pipeline, L₀ [s]
    rate: Array  # message over transfer time [B/s]
    fill: Array  # c [1]
    cap: Array  # k [1]
    exponent: Array  # q [1]


_MULTICAST = ("nvls", "nvls-tree", "collnet")
"""Algorithms that speak the Simple protocol only."""


def _algorithms(collective: str, machine: Machine, calibration: Calibration) -> dict[str, AlphaBeta]:
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
    links = where(peers > 0, minimum(1.0, (g - 1) / maximum(peers, 1.0)), 1.0)
    inside = m.scale_up_rate * links * where((peers > 0) & several, c.mesh_across, 1.0)
    node = m.scale_out_rate * minimum(g, m.exits)
    hop = m.scale_up_hop * where(several, c.chain_across, 1.0)
    # A ring enters and leaves each domain once, on every port at the same time.
    narrow = where(several, where(g > 1, minimum(inside, node), node), inside)
    chain = where(g > 8, 7 + c.rack_chain * np.log2(maximum(g, 8.0) / 8), g - 1)
    fill = where(several, m.fill, m.fill_one_domain) * (g - 1 + c.fill_lone) / g
    cap = where(several, c.fill_cap_network, c.fill_cap_domain)

    # A slow transport keeps more chunks under way: it paces the pipeline by the geometric mean of its hop and
    # InfiniBand's. A ring saves the part of a tree's hop that the library spends, not the transport.
    pacing_hop = np.sqrt(m.scale_out_hop * m.reference_hop)
    saved = (1 - c.ring_hop) * m.reference_hop
    ring_hop = maximum(m.scale_out_hop - saved, c.ring_hop * m.scale_out_hop / 2)
    ring_pacing = maximum(pacing_hop - saved, c.ring_hop * pacing_hop / 2)
    beyond = maximum(g - 1 - chain, 0.0)  # the pipeline passes every GPU of a rack, a small message does not

    def path(passes: Array, crossings: Array, ring: bool = False) -> tuple[Array, Array]:
        """Latency and pace of so many passes through a domain and so many crossings between domains [s]."""
        near = m.base_latency + passes * chain * hop
        network, pacing = (ring_hop, ring_pacing) if ring else (m.scale_out_hop, pacing_hop)
        return near + crossings * network, near + passes * beyond * hop + crossings * pacing

    if collective == "all-to-all":
        share_near = (g - 1) / ranks / inside
        share_far = (ranks - g) / ranks / m.scale_out_rate
        near = m.base_latency + minimum(g - 1, 1.0) * hop + (ranks - 1) * c.peer_overhead
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = 1 / np.maximum(share_near, share_far)
        crossing = where(several, 1.0, 0.0)
        pace = near + crossing * pacing_hop
        return {"ring": AlphaBeta(near + crossing * m.scale_out_hop, pace, rate, fill, cap, c.fill_exponent)}
    if collective != "all-reduce":
        lone = m.ring_share * node
        narrow = where(several, where(g > 1, minimum(inside, lone), lone), inside)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = narrow / bus_factor(collective, ranks)
        if collective in ("broadcast", "reduce"):
            # One call does not wait for the end of the one before: hops hide, and so does the filling of the pipeline
            # while messages fit its buffers, the more bytes the less so.
            _, paced = path(domains, domains - 1)
            return {"ring": AlphaBeta(m.base_latency, paced, rate, c.broadcast_fill * fill, cap, c.broadcast_exponent)}
        # Bytes pass every GPU once and none waits for a sum to come back: the pipeline fills as within one domain.
        once = where(several & (g <= 1), m.fill, m.fill_one_domain) * (g - 1 + c.fill_lone) / g
        return {"ring": AlphaBeta(*path(c.gather_hop * domains, domains - 1), rate, once, cap, c.fill_exponent)}

    with np.errstate(divide="ignore", invalid="ignore"):
        ring = narrow / bus_factor(collective, ranks)
    alone = where(g > 1, c.tree_chain * inside / 2, np.inf)
    pair = where((peers > 0) & (g - 1 > peers), minimum(ring, alone), minimum(node, alone))
    many = c.tree_many * minimum(node, 2 * alone) / 2
    tree = where(several, where(beyond_pair, many, pair), alone)
    # With the sum made in the switch a rank sends 1 + 1/g of the message: 9/8 of it with 8 ranks.
    multicast = where(g > 2, m.multicast_rate * minimum(1.0, 9 / 8 / (1 + 1 / g)), 0.0)
    joined = c.multicast_pair * multicast
    through = where(beyond_pair, c.multicast_many * node / 2, node)
    sharp = where(several, m.in_network_reduction, 0.0)
    trees = 1.0 - _number(m.streamed)
    levels = np.log2(domains)
    multicast_cap = where(several, c.fill_cap_multicast, c.fill_cap_domain)
    direct = 2 / maximum(chain, 1.0)  # straight to the switch and back, not along the chain
    around, up_and_down = path(2 * domains, 2 * (domains - 1), ring=True), path(2.0, 2 * levels)
    found = {"ring": AlphaBeta(*around, ring, fill, cap, c.fill_exponent)}
    if any_((rate := trees * tree) > 0):
        found["tree"] = AlphaBeta(*up_and_down, rate, fill, cap, c.fill_exponent)
    if any_((rate := where(several, sharp * minimum(joined, node), multicast)) > 0):
        through_switch = path(where(several, direct, 2.0), where(several, 2.0, 0.0))
        found["nvls"] = AlphaBeta(*through_switch, rate, fill, multicast_cap, c.fill_exponent)
    if any_((rate := where(several, trees * minimum(joined, through), 0.0)) > 0):
        found["nvls-tree"] = AlphaBeta(*up_and_down, rate, fill, multicast_cap, c.fill_exponent)
    if any_((rate := sharp * minimum(node, alone)) > 0):
        found["collnet"] = AlphaBeta(*path(direct, 2.0), rate, fill, cap, c.fill_exponent)
    return found


def _number(value: Array) -> Array:
    """Any number as NumPy's own, whose division by zero is infinite; an array as it is."""
    number: Array = np.asarray(value, float)[()]
    return number


def _fill(line: AlphaBeta, transfer: Array) -> tuple[Array, Array]:
    """Pipeline fill after ``transfer`` seconds' worth of bytes, F [s], and X·dF/dX [s].

    F₀ = c · L₀^(1 - q) · X^q grows with the chunks until they reach their largest size, F = F₀/√(1 + (F₀/(k·L₀))²).
    """
    ceiling = line.cap * line.pace
    relative: Array = line.fill / line.cap * np.power(transfer / line.pace, line.exponent)
    bend = 1 + relative * relative
    fill = ceiling * relative / np.sqrt(bend)
    return fill, line.exponent * fill / bend


def _tangent(line: AlphaBeta, transfer: Array, start: Array) -> Array:
    """L + X + F where X is ``start``, and the tangent from there elsewhere [s]."""
    fill, slope = _fill(line, start)
    return line.latency + transfer + fill + slope * (_some_bytes(transfer) / start - 1)


def _some_bytes(transfer: Array) -> Array:
    return maximum(transfer, _TINY)


_TINY = float(np.finfo(float).tiny)


def _line_times(
    name: str, line: AlphaBeta, transfer: Array, machine: Machine, calibration: Calibration
) -> dict[str, Array]:
    """Time of one algorithm with each protocol it speaks [s]; ``transfer`` is the message over its rate [s]."""
    first, last = _stretches(line, calibration)
    some_bytes = _some_bytes(transfer)
    if name in _MULTICAST:
        return {"simple": _tangent(line, transfer, maximum(some_bytes, first))}
    between = minimum(maximum(some_bytes, first), last)
    times = {
        "ll": _tangent(line, transfer, minimum(some_bytes, first)),
        "ll128": where(_number(machine.ll128) > 0, _tangent(line, transfer, between), np.nan),
        "simple": _tangent(line, transfer, maximum(some_bytes, last)),
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
    with np.errstate(divide="ignore", invalid="ignore"):
        return where(line.rate > 0, message / line.rate, _number(np.nan))


@dataclass(frozen=True)
class Selection:
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
        return minimum(maximum(part / where(self.time > 0, self.time, np.nan), 0.0), 1.0)

    def or_quicker(self, other: "Selection") -> "Selection":
        """This one, or the other where that is quicker, or known alone; one of the two where it is so throughout."""
        kept = (self.time <= other.time) | np.isnan(other.time)
        if kept.all():
            return self
        if not kept.any():
            return other
        return Selection(*map(partial(where, kept), vars(self).values(), vars(other).values()))


def _runs(
    collective: str,
    message: Array,
    machine: Machine,
    calibration: Calibration,
    algorithm: str = "",
    protocol: str = "",
) -> dict[str, Selection]:
    """Each algorithm that the machine has, or the forced one, with its quickest protocol, or the forced one."""
    found = {}
    size = _number(message)
    for name, line in _algorithms(collective, machine, calibration).items():
        if algorithm in ("", name):
            run = _run(name, line, size, machine, calibration, protocol)
            if run:
                found[name] = run
    return found


def _run(
    name: str, line: AlphaBeta, message: Array, machine: Machine, calibration: Calibration, protocol: str
) -> Selection | None:
    """One algorithm with its quickest protocol: the curve itself where all three are to be had."""
    transfer, which = _transfer(line, message), ALGORITHMS.index(name)
    whole = not (name in _MULTICAST or any_(machine.streamed > 0) or any_(machine.ll128 <= 0))
    if whole and not protocol:
        first, last = _stretches(line, calibration)
        spoken = where(transfer <= first, 0, where(transfer <= last, 1, 2))
        return Selection(line.latency + transfer + _fill(line, transfer)[0], which, spoken, transfer, line.latency)
    best = None
    for spoken_here, time in _line_times(name, line, transfer, machine, calibration).items():
        if protocol in ("", spoken_here):
            run = Selection(time, which, PROTOCOLS.index(spoken_here), transfer, line.latency)
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
    return where(_alone(machine), 0.0, maximum(time, floor))


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
    for name, line in _algorithms(collective, machine, calibration).items():
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
) -> Selection:
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
) -> tuple[Selection, dict[str, Selection]]:
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
