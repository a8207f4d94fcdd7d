"""All-reduce of a plan: its time by algorithm and protocol, against message and cluster size, and what to say of it."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, Sampling
from app.formulas.arrays import Array, typical_of
from app.formulas.collectives.ideal import (
    ALGORITHMS,
    IDEAL_ALGORITHMS,
    PROTOCOLS,
    Machine,
    algorithm_bandwidth,
    bus_bandwidth,
    ideal_all_reduce_times,
    ideal_all_to_all_time,
)
from app.formulas.collectives.library import (
    ALGORITHMS_OF,
    AlphaBeta,
    Calibration,
    Selection,
    compare,
    shortest,
)
from app.formulas.collectives.nccl_tuning import library_times
from app.formulas.fabric.placement import PINNED, network_share
from app.formulas.records import but
from app.plan.band import Draws
from app.plan.communication import Communication, algorithms, wire_time_of_a_byte, wire_times_of_a_byte
from app.plan.kept import Kept
from app.plan.machine import of_gpu, side_by_side
from app.plan.result import AllReduce, Explanation, Finding, Term, Timing
from app.units import percent, show

_ALGORITHMS, _PROTOCOLS = np.array(ALGORITHMS), np.array(PROTOCOLS)
_NONE = -1
"""The index of no protocol."""
_FIRST_KERNEL = ALGORITHMS.index("one-shot")
"""From here on algorithms are kernels that a graph records, which speak none of the protocols."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AlgorithmTime:
    """An algorithm with its protocol, over a sweep.

    Attributes:
        algorithm: its name; blank where it changes along the sweep.
        spoken: its quickest protocol at each place, as an index; none where it takes no time or speaks none of them.
        time: draws on the last axis [s].
        bandwidth_share: share of the typical time that moves bytes [1].
        residual: the model's own error [1].
        least: what its bytes take on the wires, below which no range goes [s].
    """

    algorithm: str
    spoken: NDArray[np.intp]
    time: Floats
    bandwidth_share: Floats
    residual: Floats
    least: Floats

    @property
    def protocol(self) -> str:
        """The protocol of all places that have one; blank where it changes along the sweep, or there is none."""
        spoken = set(self.spoken.flat) - {_NONE}
        return PROTOCOLS[spoken.pop()] if len(spoken) == 1 else ""

    def at(self, place: int) -> "AlgorithmTime":
        """The same at one place of a sweep along one axis."""
        columns = self.spoken, self.time, self.bandwidth_share, self.residual, self.least
        return AlgorithmTime(self.algorithm, *[column[place] for column in columns])

    @property
    def share(self) -> float | None:
        """The bandwidth share at the one place there is; ``None`` where it has none."""
        value = float(self.bandwidth_share)
        return value if isfinite(value) else None


@dataclass(frozen=True)
class AllReduceTimes:
    """All-reduce times over swept messages and GPU counts; the swept axes come first, draws last.

    Attributes:
        machine: the cluster, or clusters.
        best: the quickest algorithm, or the forced one; nameless where it changes.
        names: of the algorithm at each place.
        protocols: of the protocol at each place.
        each: every algorithm by itself, with its quickest protocol.
        used: the estimates that the times rest on.
    """

    machine: Machine
    best: AlgorithmTime
    names: NDArray[np.str_]
    protocols: NDArray[np.str_]
    each: tuple[AlgorithmTime, ...]
    used: tuple[Estimate, ...]

    def of_each(self, machines: Sequence[Machine]) -> "Iterator[AllReduceTimes]":
        """The same at each place of a sweep along one axis, which stands for one of these machines: without the
        algorithms that others of them have alone.
        """
        had = [np.any(np.isfinite(timing.time), axis=-1).tolist() for timing in self.each]
        for place, machine in enumerate(machines):
            each = {id(timing): timing.at(place) for timing, there in zip(self.each, had, strict=True) if there[place]}
            yield AllReduceTimes(
                machine=machine,
                best=each.get(id(self.best)) or self.best.at(place),
                names=self.names[place],
                protocols=self.protocols[place],
                each=tuple(each.values()),
                used=self.used,
            )


def all_reduce_times(
    fabric: Communication,
    message: float | Floats,
    gpus: Floats | None = None,
    sampling: Sampling = DRAWS,
) -> AllReduceTimes:
    """Time an all-reduce by every algorithm, for any messages and GPU counts that broadcast.

    Args:
        fabric: what times transfers.
        message: bytes on each rank, swept [B].
        gpus: GPU counts, swept; None: the cluster's own [1].
        sampling: draws, or typical values alone (the last axis then has length 1).
    """
    sizes = np.asarray(message, float)[..., None]
    machine = fabric.machine(sampling, None if gpus is None else np.asarray(gpus, float)[..., None])
    shape = np.broadcast(sizes, machine.ranks_per_domain).shape[:-1]
    ranks = float(fabric.gpus) if gpus is None else np.asarray(gpus, float)[..., None]
    sweep = _Sweep(shape, _width(fabric, sampling), fabric.waiting(ranks, sampling))
    if fabric.ideal:
        return _ideal_times(fabric, sizes, machine, sweep)
    known = _known(fabric, sampling) if gpus is None else _of_machine(fabric, machine, sampling)
    return _calibrated_times(fabric, sizes, machine, sweep, sampling, known)


Known = tuple[Mapping[str, AlphaBeta], Floats]
"""Of an all-reduce by each algorithm what any message shares: latency, rate and fill, and least time of a byte."""


def _known(fabric: Communication, sampling: Sampling) -> Known:
    """Those of the cluster itself."""
    return algorithms(fabric, "all-reduce", sampling), wire_time_of_a_byte(fabric, sampling)


def _of_machine(fabric: Communication, machine: Machine, sampling: Sampling) -> Known:
    """Those of a machine, or of each of those that it stands for."""
    lines = ALGORITHMS_OF["all-reduce"](machine, fabric.calibration(sampling))
    return lines, wire_times_of_a_byte(machine)


def _width(fabric: Communication, sampling: Sampling) -> int:
    """How many draws there are [1]."""
    return np.size(sampling(fabric.catalog.collectives["library"]["fill_exponent"]))


@dataclass(frozen=True)
class _Sweep:
    """The shape of what is swept, how many draws there are, and by what factor all wait for the slowest node."""

    shape: tuple[int, ...]
    width: int
    waiting: Array

    def drawn(self, values: Array) -> Floats:
        """Values at every place of the sweep, draws last."""
        whole = (*self.shape, self.width)
        drawn = np.asarray(values, float)
        return drawn if drawn.shape == whole else np.array(np.broadcast_to(drawn, whole))

    def typical(self, values: Array) -> Array:
        """The typical values at every place of the sweep."""
        drawn = np.asarray(values, float)
        typical = drawn[..., 0] if drawn.ndim else drawn
        everywhere: Array = (typical if typical.shape == self.shape else np.broadcast_to(typical, self.shape))[()]
        return everywhere


def _calibrated_times(
    fabric: Communication,
    sizes: Floats,
    machine: Machine,
    sweep: _Sweep,
    sampling: Sampling,
    known: Known,
) -> AllReduceTimes:
    """What the library delivers."""
    lines, of_a_byte = known
    residual = fabric.residual(sizes[..., 0], sweep.typical(machine.domains))
    error = np.asarray(np.broadcast_to(residual, sweep.shape))
    of_kernels = fabric.kernel_residual(sizes[..., 0]) if fabric.system.recorded else error
    wires = of_a_byte * sizes

    def timed(name: str, choice: Selection) -> AlgorithmTime:
        typical = Selection(*map(sweep.typical, vars(choice).values()))
        recorded = np.asarray(typical.algorithm) >= _FIRST_KERNEL
        speaks = np.isfinite(typical.time) & ~recorded
        protocols = np.where(speaks, np.asarray(typical.protocol, int), _NONE)
        shares = np.asarray(typical.bandwidth_share)
        which = np.asarray(sweep.typical(choice.algorithm)).astype(int)
        least = np.take_along_axis(wires, which[..., None], axis=-1)[..., 0]
        own_error = np.where(recorded, of_kernels, error)
        return AlgorithmTime(name, protocols, sweep.drawn(choice.time), shares, own_error, least)

    forced, protocol = fabric.request.algorithm or "", fabric.request.protocol or ""
    chosen, choices = compare("all-reduce", sizes, machine, fabric.calibration(sampling), forced, protocol, lines)
    each = {name: timed(name, choice.longer(sweep.waiting)) for name, choice in choices.items()}
    same = [each[name] for name, choice in choices.items() if choice is chosen]
    best = same[0] if same else timed(forced, chosen.longer(sweep.waiting))
    finite = np.isfinite(best.time[..., 0])
    which = np.asarray(sweep.typical(chosen.algorithm)).astype(int)
    spoken = _PROTOCOLS[np.asarray(sweep.typical(chosen.protocol)).astype(int)]
    library = fabric.catalog.collectives["library"]
    return AllReduceTimes(
        machine=machine,
        best=best,
        names=np.where(finite, _ALGORITHMS[which], ""),
        protocols=np.where(finite & (which < _FIRST_KERNEL), spoken, ""),
        each=tuple(timed for timed in each.values() if np.isfinite(timed.time).any()),
        used=(*fabric.used(), *(library[entry.name] for entry in fields(Calibration))),
    )


def _ideal_times(fabric: Communication, sizes: Floats, machine: Machine, sweep: _Sweep) -> AllReduceTimes:
    """What the textbook says, at line rates."""
    times = ideal_all_reduce_times(sizes, machine)
    without_latency = ideal_all_reduce_times(sizes, replace(machine, scale_up_hop=0.0, scale_out_hop=0.0, far_hop=0.0))
    forced, none = fabric.request.algorithm, np.full(sweep.shape, _NONE)
    each = []
    for name in IDEAL_ALGORITHMS:
        time = sweep.drawn(times[name])
        if forced == name or (forced is None and np.any(np.isfinite(time))):
            with np.errstate(divide="ignore", invalid="ignore"):
                share = sweep.typical(without_latency[name]) / time[..., 0]
            exact = np.zeros(time.shape[:-1])
            each.append(AlgorithmTime(name, none, time * sweep.waiting, share, exact, exact))
    if not each:
        unknown, exact = sweep.drawn(np.nan), np.zeros(sweep.shape)
        each.append(AlgorithmTime(forced or "", none, unknown, unknown[..., 0], exact, exact))
    table = np.stack([np.where(np.isfinite(timing.time[..., 0]), timing.time[..., 0], np.inf) for timing in each])
    winner = np.argmin(table, axis=0)
    names = np.array([timing.algorithm for timing in each])
    return AllReduceTimes(
        machine=machine,
        best=_along(each, winner),
        names=np.where(np.isfinite(table.min(axis=0)), names[winner], ""),
        protocols=np.full(sweep.shape, "", dtype="<U8"),
        each=tuple(each),
        used=fabric.used(),
    )


def _along(each: Sequence[AlgorithmTime], winner: NDArray[np.intp]) -> AlgorithmTime:
    """The winning algorithm at each place of a sweep."""

    def pick(values: list[Floats], where: NDArray[np.intp]) -> Floats:
        picked: Floats = np.take_along_axis(np.stack(values), where[None], axis=0)[0]
        return picked

    wide = np.broadcast_to(winner[..., None], each[0].time.shape)
    return AlgorithmTime(
        "",
        each[0].spoken,
        pick([timing.time for timing in each], wide),
        pick([timing.bandwidth_share for timing in each], winner),
        pick([timing.residual for timing in each], winner),
        pick([timing.least for timing in each], winner),
    )


# The plan's all-reduce -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reduction:
    """The all-reduce of a plan.

    Attributes:
        fabric: what timed it.
        times: by every algorithm, with all draws.
        all_reduce: the result, but for its alternatives: see `with_alternatives`.
        findings: what it cannot do, and what was left out.
    """

    fabric: Communication
    times: AllReduceTimes
    all_reduce: AllReduce[Draws]
    findings: tuple[Finding, ...]


Asked = tuple[Communication, float]
"""What times the transfers of a cluster, and the message that its GPUs reduce [B]."""


_KEPT: Kept[Asked, Reduction] = Kept(32)
"""The reductions made last: every job that exchanges as many bytes on a cluster shares one, 1 ms of a plan."""


def time_all_reduce(fabric: Communication, message: float) -> Reduction:
    """Time a message [B] by every algorithm and pick the quickest, or the forced one."""
    return time_all_reduces([(fabric, message)])[0]


def time_all_reduces(every: Sequence[Asked]) -> list[Reduction]:
    """The same of several clusters, each of its message: those of one kind of hardware that the library reduces on are
    worked out in one go.
    """
    reductions = {asked: kept for asked in every if (kept := _KEPT.get(asked))}
    for group in _alike([asked for asked in dict.fromkeys(every) if asked not in reductions]):
        for asked, reduction in zip(group, _reductions(group), strict=True):
            reductions[asked] = reduction
            _KEPT.add(asked, reduction)
    return [reductions[asked] for asked in every]


def _alike(every: Sequence[Asked]) -> Iterable[Sequence[Asked]]:
    """What is asked by what clusters have in common whose other numbers can be columns; of a textbook, each alone."""
    if len(every) < 2:
        return [every] if every else []
    groups: dict[Hashable, list[Asked]] = {}
    for fabric, message in every:
        kind = fabric.catalog, fabric.system, fabric.network, fabric.request, fabric.jitter, fabric.slow_node
        groups.setdefault((fabric, message) if fabric.ideal else kind, []).append((fabric, message))
    return groups.values()


def _reductions(group: Sequence[Asked]) -> Iterable[Reduction]:
    """Those of clusters that are alike: where they are several on a first axis, worked out in one go."""
    first, shape = group[0][0], (len(group),) if len(group) > 1 else ()
    sizes = np.array([message for _, message in group], float).reshape(*shape, 1)
    machines = [fabric.machine(DRAWS) for fabric, _ in group]
    is_one = all(fabric is first for fabric, _ in group)
    machine = machines[0] if is_one else side_by_side(machines)
    ranks = float(first.gpus) if is_one else np.array([[float(fabric.gpus)] for fabric, _ in group])
    sweep = _Sweep(shape, _width(first, DRAWS), first.waiting(ranks, DRAWS))
    calibration = first.calibration(DRAWS)
    if first.ideal:
        times = _ideal_times(first, sizes, machine, sweep)
        exchanged = ideal_all_to_all_time(sizes, machine)
    else:
        known = _known(first, DRAWS) if is_one else _of_machine(first, machine, DRAWS)
        times = _calibrated_times(first, sizes, machine, sweep, DRAWS, known)
        lines = algorithms(first, "all-to-all", DRAWS) if is_one else ALGORITHMS_OF["all-to-all"](machine, calibration)
        exchanged = shortest("all-to-all", sizes, machine, calibration, lines)
    all_to_all = sweep.drawn(exchanged * sweep.waiting).reshape(len(group), -1)
    error = 0.0 if first.ideal else first.residual(sizes[..., 0], sweep.typical(machine.domains), "all-to-all")
    errors = np.broadcast_to(error, len(group)).tolist()
    exchanges = [Draws(time, times.used, its) for time, its in zip(all_to_all, errors, strict=True)]
    each = [*times.of_each(machines)] if shape else [times]
    speeds = _speeds([timed.best for timed in each], sizes, ranks, times.used)
    parts = zip(group, each, speeds, exchanges, strict=True)
    return [_reduction(*asked, timed, speed, exchange) for asked, timed, speed, exchange in parts]


def _reduction(
    fabric: Communication, message: float, times: AllReduceTimes, best: "Speed", all_to_all: Draws
) -> Reduction:
    """The reduction of a cluster, and its all-to-all of as many bytes [s]."""
    algorithm, share = str(times.names.item()), times.best.share
    return Reduction(
        fabric=fabric,
        times=times,
        all_reduce=AllReduce(
            message=message,
            ranks=fabric.gpus,
            algorithm=algorithm,
            protocol=str(times.protocols.item()),
            time=best.time,
            algorithm_bandwidth=best.algorithm_bandwidth,
            bus_bandwidth=best.bus_bandwidth,
            all_to_all_time=all_to_all,
            latency_share=None if share is None else 1 - share,
            bandwidth_share=share,
            alternatives=(),
            reason=_reason(times, algorithm, fabric),
            library_choice=_library_choice(times.machine, algorithm, fabric, message),
        ),
        findings=tuple(_findings(times, fabric)),
    )


@lru_cache(maxsize=32)
def with_alternatives(reduction: Reduction) -> AllReduce[Draws]:
    """The all-reduce with every algorithm by itself, each with its quickest protocol.

    Kept: a plan asks twice, for its ranges and for its draws.
    """
    fabric, times, reduced = reduction.fabric, reduction.times, reduction.all_reduce
    shown = times.each if fabric.gpus > 1 else ()
    others = [timing for timing in shown if timing is not times.best]
    speeds = _speeds(others, reduced.message, fabric.gpus, times.used) if others else iter(())
    best = Speed(reduced.time, reduced.algorithm_bandwidth, reduced.bus_bandwidth)
    alternatives = (_timing(timing, best if timing is times.best else next(speeds)) for timing in shown)
    return but(reduced, alternatives=tuple(alternatives))


class Speed(NamedTuple):
    """Time of an algorithm [s], and its bandwidths [B/s]."""

    time: Draws
    algorithm_bandwidth: Draws
    bus_bandwidth: Draws


def _timing(timed: AlgorithmTime, speed: Speed) -> Timing[Draws]:
    return Timing(
        algorithm=timed.algorithm,
        protocol=timed.protocol,
        time=speed.time,
        algorithm_bandwidth=speed.algorithm_bandwidth,
        bus_bandwidth=speed.bus_bandwidth,
        latency_share=None if timed.share is None else 1 - timed.share,
        bandwidth_share=timed.share,
    )


def _speeds(each: Sequence[AlgorithmTime], message: Array, ranks: Array, used: tuple[Estimate, ...]) -> Iterator[Speed]:
    """Time and bandwidths of each algorithm, of one message [B] and number of ranks or, in columns, each of its own."""
    least = [float(timing.least) for timing in each]
    times = np.array([timing.time for timing in each])
    table = np.concatenate((times, np.array(least)[:, None]), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        speeds = np.stack((algorithm_bandwidth(message, table), bus_bandwidth(message, table, ranks)))
    carried = speeds[..., -1].T.tolist()
    rates, buses = np.where(np.isfinite(speeds), speeds, np.nan)[..., :-1]
    for timing, time, rate, bus, soonest, most in zip(each, times, rates, buses, least, carried, strict=True):
        error = float(timing.residual) if isfinite(timing.residual) else 0.0
        rate, bus = (Draws(values, used, error, wire) for values, wire in zip((rate, bus), most, strict=True))
        yield Speed(Draws(time, used, error, least=soonest), rate, bus)


ARCHITECTURES = {2: "volta", 3: "ampere", 4: "hopper"}
"""NVLink generation to the row of NCCL's tables; later generations have the last."""


def _library_choice(machine: Machine, algorithm: str, fabric: Communication, message: float) -> str:
    """The algorithm NCCL's own tables would choose; blank where they do not apply."""
    if fabric.gpu.vendor != "NVIDIA" or fabric.ideal or fabric.gpus <= 1 or not algorithm:
        return ""
    link = fabric.catalog.scale_up[fabric.gpu.scale_up]
    generation = max(int(link.generation), 2) if link.family == "nvlink" else 3
    tables, correction = _library_tables(fabric.catalog)
    times = library_times(message, machine, tables, correction, ARCHITECTURES.get(generation, "blackwell"))
    return min(times, key=lambda pair: times[pair])[0]


@lru_cache(maxsize=8)
def _library_tables(catalog: Catalog) -> tuple[dict[str, float], dict[str, float]]:
    """NCCL's own tables, and its correction of trees.

    Kept: it takes 20 µs of each all-reduce, and depends on the catalogue alone.
    """
    tables, correction = (
        {name: estimate.typical for name, estimate in catalog.collectives[group].items()}
        for group in ("nccl-tables", "nccl-tree-correction")
    )
    return tables, correction


NAMES = {
    "ring": "Ring",
    "tree": "Tree",
    "nvls": "NVLS",
    "nvls-tree": "NVLS tree",
    "collnet": "CollNet",
    "one-shot": "One shot in a graph",
    "two-shot": "Two shots in a graph",
    "recursive-halving-doubling": "Halving-doubling",
    "hierarchical": "Hierarchical",
}
"""Algorithms as rows and lines are called."""
SPOKEN = {
    "ring": "a ring",
    "tree": "a double binary tree",
    "nvls": "the NVLink switch (NVLS)",
    "nvls-tree": "an NVLS tree",
    "collnet": "CollNet (SHARP)",
    "one-shot": "a graph's kernel in one shot",
    "two-shot": "a graph's kernel in two shots",
    "recursive-halving-doubling": "recursive halving-doubling",
    "hierarchical": "a hierarchical scheme",
}
"""The same in a sentence."""


def _reason(times: AllReduceTimes, algorithm: str, fabric: Communication) -> str:
    """Why this algorithm, in one sentence."""
    if fabric.gpus <= 1:
        return "One GPU has nothing to reduce."
    if not algorithm:
        return ""
    name = SPOKEN[algorithm]
    share = times.best.share or 0.0
    dominated = "moving the bytes" if share >= 0.5 else "latency and filling the pipeline"
    spent = f"{percent(max(share, 1 - share))} of the time is {dominated}"
    if fabric.request.algorithm:
        return f"Forced to {name}; {spent}."
    others = [timing for timing in times.each if timing.algorithm != algorithm and np.isfinite(timing.time[0])]
    if not others:
        return f"Only {name} is to be had here; {spent}."
    second = min(others, key=lambda timing: float(timing.time[0]))
    gain = float(second.time[0]) / float(times.best.time[0]) - 1
    return f"Quickest is {name}, ahead of {SPOKEN[second.algorithm]} by {percent(gain)}; {spent}."


def _findings(times: AllReduceTimes, fabric: Communication) -> Iterator[Finding]:
    request = fabric.request
    forced = request.algorithm
    if fabric.gpus <= 1 or np.isfinite(times.best.time[0]):
        if fabric.sums_asked and not fabric.scale_out.in_network_reduction and typical_of(times.machine.domains) > 1:
            yield Finding(
                "warning",
                "no-in-network-reduction",
                f"{fabric.scale_out.name} does not sum in its switches; SHARP is left out of the times.",
                ("in_network_reduction", "scale_out"),
                "Choose an InfiniBand generation, or switch it off.",
                {"in_network_reduction": False},
            )
        if typical_of(times.machine.domains) > 1:
            yield from _network_findings(times.machine, fabric)
        return
    if forced in ("recursive-halving-doubling", "hierarchical") and not fabric.ideal:
        reason = f"NCCL and RCCL have no {forced} algorithm."
        yield Finding(
            "error",
            "algorithm",
            reason,
            ("algorithm", "profile"),
            "Time it in the ideal profile.",
            {"profile": "ideal"},
        )
        return
    spoken = f" with the protocol {request.protocol}" if request.protocol else ""
    missing = _missing(times.machine, fabric)
    wished = bool(forced or request.protocol)
    yield Finding(
        "error",
        "algorithm",
        f"This cluster cannot run {SPOKEN[forced] if forced else 'an all-reduce'}{spoken}: {missing}",
        ("algorithm", "protocol"),
        "Leave algorithm and protocol blank for the quickest." if wished else "Join the GPUs by links or a network.",
        {"algorithm": None, "protocol": None} if wished else {},
    )


def _network_findings(machine: Machine, fabric: Communication) -> Iterator[Finding]:
    """What keeps a collective from the network's rate, other than the network's own tapers."""
    line, copied = typical_of(machine.scale_out_line), fabric.catalog.collectives["tcp"]["rate_per_gpu"]
    if fabric.system.transport.family == "tcp" and copied.typical < typical_of(machine.scale_out_rate) * (1 + 1e-9):
        yield Finding(
            "note",
            "host-copies",
            f"The host copies {show(copied.typical, 'B/s', 2)} for each GPU through sockets; its share of the ports "
            f"carries {show(line, 'B/s')}: a faster port changes nothing.",
            ("scale_out",),
            "Choose a network with RDMA.",
        )
    if fabric.site.balancing not in PINNED:
        return
    left = typical_of(machine.ring_network)
    without = network_share(
        [(1.0, float(fabric.gpus))], "ring", fabric.site._replace(balancing="adaptive"), typical_of(machine.exits)
    )
    if left < COLLIDING * float(without):
        yield Finding(
            "warning",
            "flows-collide",
            f"Flows that are bound to a path collide on uplinks: the fullest leaves a ring over all GPUs "
            f"{percent(left / float(without))} of its rate.",
            ("load_balancing", "topology"),
            "Choose per packet (adaptive routing or spraying), or wire leaves by rail.",
            {"load_balancing": "adaptive"},
        )


COLLIDING = 0.95
"""Share of the rate below which collisions are worth a word."""


def _missing(machine: Machine, fabric: Communication) -> str:
    """What a forced algorithm or protocol lacks."""
    algorithm, protocol = fabric.request.algorithm, fabric.request.protocol
    several = typical_of(machine.domains) > 1
    if fabric.ideal and algorithm == "nvls-tree":
        return "the ideal profile knows it as in-network reduction."
    if protocol == "ll128" and not np.all(machine.ll128):
        return "LL128 needs NVLink or Infinity Fabric, which keep 128-byte stores whole."
    if protocol in ("ll", "ll128") and algorithm in ("nvls", "nvls-tree", "collnet"):
        return "it speaks the Simple protocol only."
    if algorithm in ("nvls", "nvls-tree") and not np.any(np.asarray(machine.multicast_rate) > 0):
        return "its links have no switch that sums (NVLink 4 and later have)."
    if algorithm == "nvls-tree" and not several:
        return "it joins several NVLink domains, and there is one."
    if algorithm in ("nvls", "collnet") and several:
        return "between nodes it needs switches that sum (SHARP)."
    return "something it needs is absent."


TEXTBOOK = {
    "ring": "ring_all_reduce", "tree": "double_binary_tree_all_reduce",
    "recursive-halving-doubling": "halving_doubling_all_reduce", "hierarchical": "chunks_in_flight",
}  # fmt: skip
"""The formula of each algorithm of the ideal profile on the method page; the others sum in the network."""


def explanations(reduction: Reduction) -> dict[str, Explanation]:
    """The planner's own numbers in the formulas, by the results' names on the wire."""
    fabric, m = reduction.fabric, reduction.times.machine
    message, ranks = reduction.all_reduce.message, float(fabric.gpus)
    terms: tuple[Term, ...] = (
        Term("S", "message", message, "B"),
        Term("n", "GPUs", ranks, "1"),
        Term("g", "GPUs in a scale-up domain", typical_of(m.ranks_per_domain), "1"),
        Term("M", "scale-up domains", typical_of(m.domains), "1"),
    )
    if fabric.ideal:
        terms += _line_terms(fabric, m)
        key = TEXTBOOK.get(reduction.all_reduce.algorithm, "in_network_all_reduce")
    elif reduction.all_reduce.algorithm in ("one-shot", "two-shot"):
        terms += _kernel_terms(fabric, m)
        key = "graph_all_reduce"
    else:
        terms += _calibrated_terms(fabric, m)
        key = "times"
    size = (Term("S", "message", message, "B"), Term("T", "time", typical_of(reduction.times.best.time), "s"))
    return {
        "all_reduce.time": Explanation(f"collectives.{key}", terms),
        "all_reduce.algorithm_bandwidth": Explanation("collectives.algorithm_bandwidth", size),
        "all_reduce.bus_bandwidth": Explanation("collectives.bus_bandwidth", (*size, Term("n", "GPUs", ranks, "1"))),
    }


def _line_terms(fabric: Communication, m: Machine) -> tuple[Term, ...]:
    link, network = fabric.scale_up, fabric.scale_out
    return (
        Term("B", f"line rate of {link.name} for one GPU", typical_of(m.scale_up_line), "B/s", link.source),
        Term("P", f"line rate of {network.name} for one GPU", typical_of(m.scale_out_line), "B/s", network.source),
    )


def _kernel_terms(fabric: Communication, m: Machine) -> tuple[Term, ...]:
    of_kernels = partial(of_gpu, fabric.catalog, fabric.gpu)
    return (
        Term("λ", "least time of two GPUs", typical_of(m.kernel_latency), "s", of_kernels("reduce_latency").source),
        Term("μ", "what each doubling adds", typical_of(m.kernel_doubling), "s", of_kernels("reduce_doubling").source),
        Term(
            "B₁", "rate of a GPU's link in one shot", typical_of(m.one_shot_rate), "B/s", of_kernels("one_shot").source
        ),
        Term("B₂", "the same in two shots", typical_of(m.two_shot_rate), "B/s", of_kernels("two_shot").source),
        Term("λ₂", "what the second adds", typical_of(m.two_shot_latency), "s", of_kernels("two_shot_latency").source),
    )


def _calibrated_terms(fabric: Communication, m: Machine) -> tuple[Term, ...]:
    fitted = "railyard-calibration-2026"
    return (
        Term("B", f"what a ring sustains over {fabric.scale_up.name}", typical_of(m.scale_up_rate), "B/s", fitted),
        Term("V", "message rate when the NVLink switch sums", typical_of(m.multicast_rate), "B/s", fitted),
        Term("P", f"what {fabric.scale_out.name} sustains for one GPU", typical_of(m.scale_out_rate), "B/s", fitted),
        Term("h", "hop inside a domain", typical_of(m.scale_up_hop), "s", fitted),
        Term("α", "hop between domains", typical_of(m.scale_out_hop), "s", fitted),
        Term("c", "size of the pipeline fill", typical_of(m.fill), "1", fitted),
    )
