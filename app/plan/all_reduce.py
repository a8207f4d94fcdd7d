"""All-reduce of a plan: its time by algorithm and protocol, against message and cluster size, and what to say of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import (
    ALGORITHMS,
    IDEAL_ALGORITHMS,
    PROTOCOLS,
    Machine,
    algorithm_bandwidth,
    bus_factor,
    ideal_all_reduce_times,
)
from app.formulas.collectives.library import Calibration, Selection, compare
from app.formulas.collectives.nccl_tuning import library_times
from app.plan.band import Band, Draws, Quantity
from app.plan.cluster import Hardware, look_up
from app.plan.machine import Sampling, calibration, class_of, draws, machine_of, residual
from app.plan.result import AllReduce, Explanation, Finding, Term, Timing
from app.plan.scenario import Scenario

_ALGORITHMS, _PROTOCOLS = np.array(ALGORITHMS), np.array(PROTOCOLS)


@dataclass(frozen=True)
class AlgorithmTime:
    """An algorithm with its protocol: time with draws on the last axis [s], and what share of it moves bytes."""

    algorithm: str
    protocol: str
    time: NDArray[np.float64]
    bandwidth_share: NDArray[np.float64]
    residual: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """All-reduce times over swept messages and GPU counts; the swept axes come first, draws last.

    ``ways`` holds each algorithm with its quickest protocol; blank protocols mean it changes along the sweep, or that
    the profile knows none. ``best`` holds the quickest way, or the forced one; it is nameless where it changes.
    """

    message: NDArray[np.float64]
    ranks: NDArray[np.float64]
    best: AlgorithmTime
    names: NDArray[np.str_]
    protocols: NDArray[np.str_]
    ways: tuple[AlgorithmTime, ...]
    used: tuple[Estimate, ...]
    domains: NDArray[np.float64]
    ranks_per_domain: NDArray[np.float64]
    machine: Machine


def evaluate_all_reduce(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    *,
    message: float | NDArray[np.float64],
    gpus: float | NDArray[np.float64] | None = None,
    reading: Sampling = draws,
) -> Evaluation:
    """Time an all-reduce by every algorithm, for any messages and GPU counts that broadcast.

    Args:
        hardware: the plan's hardware.
        scenario: profile, forced algorithm and protocol, switches of the network.
        catalog: the catalogue.
        message: bytes on each rank, swept [B].
        gpus: GPU counts, swept; None: the plan's own.
        reading: draws, or typical values alone (the last axis then has length 1).
    """
    used: list[Estimate] = []
    sizes = np.asarray(message, float)[..., None]
    counts = None if gpus is None else np.asarray(gpus, float)[..., None]
    built = machine_of(hardware, scenario, catalog, gpus=counts, reading=reading, used=used)
    ranks = np.asarray(hardware.gpus if gpus is None else gpus, float)
    shape = np.broadcast(sizes, built.ranks_per_domain).shape[:-1]
    width = np.size(reading(catalog.collectives["library"]["fill_exponent"]))
    group = class_of(
        catalog,
        gpu=hardware.gpu.key,
        scale_up=hardware.scale_up.key,
        wiring=hardware.wiring,
        domain=hardware.domain,
        gpus_per_node=hardware.gpus_per_node,
        nodes=hardware.nodes if gpus is None else 2 if np.max(ranks) > hardware.domain else 1,
        transport=hardware.scale_out.family,
    )

    sweep = _Sweep(shape, width)
    if scenario.profile == "ideal":
        ways = _ideal(sizes, built, scenario, sweep)
        names = np.array([way.algorithm for way in ways])
        table = np.stack([np.where(np.isfinite(way.time[..., 0]), way.time[..., 0], np.inf) for way in ways])
        winner = np.argmin(table, axis=0)
        protocols = np.full(shape, "", dtype="<U8")
        best = _along(ways, winner)
        chosen = np.where(np.isfinite(table.min(axis=0)), names[winner], "")
    else:
        constants = calibration(catalog, reading)
        used += [catalog.collectives["library"][entry.name] for entry in fields(Calibration)]
        forced, protocol = scenario.algorithm or "", scenario.protocol or ""
        own, each = compare("all-reduce", sizes, built, constants, forced, protocol)
        ways = [_way(catalog, group, name, choice, sweep) for name, choice in each.items()]
        same = [way for way, choice in zip(ways, each.values(), strict=True) if choice is own]
        best = same[0] if same else _way(catalog, group, forced, own, sweep)
        ways = [way for way in ways if np.isfinite(way.time).any()]
        known = np.isfinite(best.time[..., 0])
        chosen = np.where(known, _ALGORITHMS[np.asarray(sweep.typical(own.algorithm)).astype(int)], "")
        protocols = np.where(known, _PROTOCOLS[np.asarray(sweep.typical(own.protocol)).astype(int)], "")
    return Evaluation(
        message=np.asarray(message, float),
        ranks=ranks,
        best=best,
        names=chosen,
        protocols=protocols,
        ways=tuple(ways),
        used=tuple(used),
        domains=np.asarray(built.domains, float),
        ranks_per_domain=np.asarray(built.ranks_per_domain, float),
        machine=built,
    )


@dataclass(frozen=True)
class _Sweep:
    """The shape of an evaluation: what is swept, and how many draws there are."""

    shape: tuple[int, ...]
    width: int

    def drawn(self, values: Array) -> NDArray[np.float64]:
        """Values at every place of the sweep, draws last."""
        whole = (*self.shape, self.width)
        drawn = np.asarray(values, float)
        return drawn if drawn.shape == whole else np.array(np.broadcast_to(drawn, whole))

    def typical(self, values: Array) -> Array:
        """The typical values at every place of the sweep."""
        drawn = np.asarray(values, float)
        typical = drawn[..., 0] if drawn.ndim else drawn
        one: Array = (typical if typical.shape == self.shape else np.broadcast_to(typical, self.shape))[()]
        return one


def _way(catalog: Catalog, group: str, name: str, choice: Selection, sweep: _Sweep) -> AlgorithmTime:
    typical = Selection(*map(sweep.typical, vars(choice).values()))
    spoken = set(np.asarray(typical.protocol)[np.isfinite(typical.time)].tolist())
    protocol = PROTOCOLS[int(spoken.pop())] if len(spoken) == 1 else ""
    error = residual(catalog, group, typical)
    return AlgorithmTime(
        name, protocol, sweep.drawn(choice.time), np.asarray(typical.bandwidth_share), np.asarray(error)
    )


def _ideal(sizes: Array, built: Machine, scenario: Scenario, sweep: _Sweep) -> list[AlgorithmTime]:
    times = ideal_all_reduce_times(sizes, built)
    still = replace(built, scale_up_hop=0.0, scale_out_hop=0.0)
    moving = ideal_all_reduce_times(sizes, still)
    forced = scenario.algorithm
    ways = []
    for name in IDEAL_ALGORITHMS:
        time = sweep.drawn(times[name])
        if forced not in (None, name):
            continue
        if np.any(np.isfinite(time)) or name == forced:
            with np.errstate(divide="ignore", invalid="ignore"):
                share = sweep.typical(moving[name]) / time[..., 0]
            ways.append(AlgorithmTime(name, "", time, share, np.zeros(time.shape[:-1])))
    if not ways:
        nothing = sweep.drawn(np.nan)
        ways.append(AlgorithmTime(forced or "", "", nothing, nothing[..., 0], np.zeros(nothing.shape[:-1])))
    return ways


def _along(ways: Sequence[AlgorithmTime], winner: NDArray[np.intp]) -> AlgorithmTime:
    """The winning way at each place of a sweep."""

    def pick(values: list[NDArray[np.float64]], where: NDArray[np.intp]) -> NDArray[np.float64]:
        picked: NDArray[np.float64] = np.take_along_axis(np.stack(values), where[None], axis=0)[0]
        return picked

    wide = np.broadcast_to(winner[..., None], ways[0].time.shape)
    return AlgorithmTime(
        "",
        "",
        pick([way.time for way in ways], wide),
        pick([way.bandwidth_share for way in ways], winner),
        pick([way.residual for way in ways], winner),
    )


@dataclass(frozen=True)
class AllReduceDraft:
    """The plan's all-reduce before its results are folded to bands."""

    message: float
    ranks: int
    algorithm: str
    protocol: str
    latency_share: float | None
    bandwidth_share: float | None
    others: tuple[tuple[str, str, float | None], ...]
    reason: str
    library_choice: str
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explain: Callable[[], Mapping[str, Explanation]]

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How the figures came about, worked out for those who ask."""
        return self.explain()

    def part(self, bands: Mapping[str, Band | None]) -> AllReduce:
        """The part of the plan, with its results as bands."""
        return AllReduce(
            message=self.message,
            ranks=self.ranks,
            algorithm=self.algorithm,
            protocol=self.protocol,
            time=bands["all_reduce.time"],
            algorithm_bandwidth=bands["all_reduce.algorithm_bandwidth"],
            bus_bandwidth=bands["all_reduce.bus_bandwidth"],
            latency_share=self.latency_share,
            bandwidth_share=self.bandwidth_share,
            alternatives=tuple(self._timing(name, protocol, share, bands) for name, protocol, share in self.others),
            reason=self.reason,
            library_choice=self.library_choice,
        )

    @staticmethod
    def _timing(name: str, protocol: str, share: float | None, bands: Mapping[str, Band | None]) -> Timing:
        def band(what: str) -> Quantity:
            return bands[f"all_reduce.alternatives.{name}.{what}"]

        return Timing(
            algorithm=name,
            protocol=protocol,
            time=band("time"),
            algorithm_bandwidth=band("algorithm_bandwidth"),
            bus_bandwidth=band("bus_bandwidth"),
            latency_share=None if share is None else 1 - share,
            bandwidth_share=share,
        )


def draft(hardware: Hardware, scenario: Scenario, catalog: Catalog, *, message: float) -> AllReduceDraft:
    """Time the plan's message by every algorithm and pick the quickest, or the forced one."""
    found = evaluate_all_reduce(hardware, scenario, catalog, message=message)
    algorithm = str(found.names.item())
    ways = found.ways if hardware.gpus > 1 else ()
    named = {"all_reduce": found.best} | {f"all_reduce.alternatives.{way.algorithm}": way for way in ways}
    share = _share(found.best)
    return AllReduceDraft(
        message=message,
        ranks=hardware.gpus,
        algorithm=algorithm,
        protocol=str(found.protocols.item()),
        latency_share=None if share is None else 1 - share,
        bandwidth_share=share,
        others=tuple((way.algorithm, way.protocol, _share(way)) for way in ways),
        reason=_reason(found, algorithm, scenario),
        library_choice=_library_choice(found, algorithm, hardware, scenario, catalog, message),
        quantities=_quantities(named, message, hardware.gpus, found.used),
        findings=tuple(_findings(found, hardware, scenario)),
        explain=partial(_explanations, found, algorithm, hardware, scenario, message),
    )


def of_plan(scenario: Scenario, catalog: Catalog, message: float) -> AllReduceDraft:
    """The same for the cluster of a plan: every job that exchanges as many bytes there shares it."""
    return _of_plan(scenario.only("cluster", "network", "collective"), catalog, message)


@lru_cache(maxsize=64)
def _of_plan(scenario: Scenario, catalog: Catalog, message: float) -> AllReduceDraft:
    return draft(look_up(scenario, catalog), scenario, catalog, message=message)


def _share(way: AlgorithmTime) -> float | None:
    value = float(way.bandwidth_share)
    return value if isfinite(value) else None


def _quantities(
    ways: Mapping[str, AlgorithmTime], message: float, ranks: int, used: tuple[Estimate, ...]
) -> dict[str, Draws]:
    times = np.array([way.time for way in ways.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.asarray(algorithm_bandwidth(message, times))
        rates = np.where(np.isfinite(rates), rates, np.nan)
        buses = rates * np.asarray(bus_factor("all-reduce", float(ranks)))
    found = {}
    for (name, way), time, rate, bus in zip(ways.items(), times, rates, buses, strict=True):
        error = float(way.residual) if isfinite(way.residual) else 0.0
        found[f"{name}.time"] = Draws(time, "s", used, error)
        found[f"{name}.algorithm_bandwidth"] = Draws(rate, "B/s", used, error)
        found[f"{name}.bus_bandwidth"] = Draws(bus, "B/s", used, error)
    return found


ARCHITECTURES = {2: "volta", 3: "ampere", 4: "hopper"}
"""NVLink generation to the row of NCCL's tables; later generations have the last."""


def _library_choice(
    found: Evaluation, algorithm: str, hardware: Hardware, scenario: Scenario, catalog: Catalog, message: float
) -> str:
    """The algorithm NCCL's own tables would choose; blank where they do not apply."""
    if hardware.gpu.vendor != "NVIDIA" or scenario.profile == "ideal" or hardware.gpus <= 1 or not algorithm:
        return ""
    family = catalog.scale_up[hardware.gpu.scale_up]
    generation = int(family.generation) if family.family == "nvlink" else 3
    if family.family == "nvlink" and generation < 2:
        generation = 2
    tables, correction = _library_tables(catalog)
    times = library_times(message, found.machine, tables, correction, ARCHITECTURES.get(generation, "blackwell"))
    return min(times, key=lambda pair: times[pair])[0]


@lru_cache(maxsize=8)
def _library_tables(catalog: Catalog) -> tuple[dict[str, float], dict[str, float]]:
    """NCCL's own tables, and its correction of trees."""
    tables, correction = (
        {name: estimate.typical for name, estimate in catalog.collectives[group].items()}
        for group in ("nccl-tables", "nccl-tree-correction")
    )
    return tables, correction


NAMES = {
    "ring": "a ring",
    "tree": "a double binary tree",
    "nvls": "the NVLink switch (NVLS)",
    "nvls-tree": "an NVLS tree",
    "collnet": "CollNet (SHARP)",
    "recursive-halving-doubling": "recursive halving-doubling",
    "hierarchical": "a hierarchical scheme",
}


def _reason(found: Evaluation, algorithm: str, scenario: Scenario) -> str:
    """Why this algorithm, in one sentence."""
    if found.ranks <= 1:
        return "One GPU has nothing to reduce."
    if not algorithm:
        return ""
    name = NAMES[algorithm]
    time = float(found.best.time[0])
    share = _share(found.best) or 0.0
    dominated = "moving the bytes" if share >= 0.5 else "latency and filling the pipeline"
    spent = f"{max(share, 1 - share):.0%} of the time is {dominated}"
    if scenario.algorithm:
        return f"Forced to {name}; {spent}."
    others = [way for way in found.ways if way.algorithm != algorithm and np.isfinite(way.time[0])]
    if not others:
        return f"Only {name} is to be had here; {spent}."
    second = min(others, key=lambda way: float(way.time[0]))
    gain = float(second.time[0]) / time - 1
    return f"Quickest is {name}, ahead of {NAMES[second.algorithm]} by {gain:.0%}; {spent}."


def _findings(found: Evaluation, hardware: Hardware, scenario: Scenario) -> Iterator[Finding]:
    forced = scenario.algorithm
    if found.ranks <= 1 or np.isfinite(found.best.time[0]):
        if scenario.in_network_reduction and not hardware.scale_out.in_network_reduction and found.domains.flat[0] > 1:
            yield Finding(
                "warning",
                "no-in-network-reduction",
                f"{hardware.scale_out.name} does not sum in its switches; SHARP is left out of the times.",
                ("in_network_reduction", "scale_out"),
                "Choose an InfiniBand generation, or switch it off.",
                {"in_network_reduction": False},
            )
        return
    if forced in ("recursive-halving-doubling", "hierarchical") and scenario.profile == "calibrated":
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
    spoken = f" with the protocol {scenario.protocol}" if scenario.protocol else ""
    yield Finding(
        "error",
        "algorithm",
        f"This cluster cannot run {NAMES[forced] if forced else 'an all-reduce'}{spoken}: {_missing(found, scenario)}",
        ("algorithm", "protocol"),
        "Leave algorithm and protocol blank for the quickest.",
        {"algorithm": "", "protocol": ""},
    )


def _missing(found: Evaluation, scenario: Scenario) -> str:
    m = found.machine
    several = bool(found.domains.flat[0] > 1)
    if scenario.profile == "ideal" and scenario.algorithm == "nvls-tree":
        return "the ideal profile knows it as in-network reduction."
    if scenario.protocol == "ll128" and not np.all(m.ll128):
        return "LL128 needs NVLink or Infinity Fabric, which keep 128-byte stores whole."
    if scenario.protocol in ("ll", "ll128") and scenario.algorithm in ("nvls", "nvls-tree", "collnet"):
        return "it speaks the Simple protocol only."
    if scenario.algorithm in ("nvls", "nvls-tree") and not np.any(np.asarray(m.multicast_rate) > 0):
        return "its links have no switch that sums (NVLink 4 and later have)."
    if scenario.algorithm == "nvls-tree" and not several:
        return "it joins several NVLink domains, and there is one."
    if scenario.algorithm in ("nvls", "collnet") and several:
        return "between nodes it needs switches that sum (SHARP)."
    return "something it needs is absent."


def _explanations(
    found: Evaluation, algorithm: str, hardware: Hardware, scenario: Scenario, message: float
) -> dict[str, Explanation]:
    """The planner's own numbers in the formula."""
    m, ranks = found.machine, float(hardware.gpus)

    def first(values: Array) -> float:
        return float(np.asarray(values).flat[0])

    link, network = hardware.scale_up, hardware.scale_out
    own = "railyard-calibration-2026"
    terms: tuple[Term, ...] = (
        Term("S", "message", message, "B"),
        Term("n", "GPUs", ranks, "1"),
        Term("g", "GPUs in a scale-up domain", first(found.ranks_per_domain), "1"),
        Term("M", "scale-up domains", first(found.domains), "1"),
    )
    if scenario.profile == "ideal":
        terms += (
            Term("B", f"line rate of {link.name} for one GPU", first(m.scale_up_line), "B/s", link.source),
            Term("P", f"line rate of {network.name} for one GPU", first(m.scale_out_line), "B/s", network.source),
        )
        key = {
            "ring": "ring_all_reduce", "tree": "double_binary_tree_all_reduce",
            "recursive-halving-doubling": "halving_doubling_all_reduce", "hierarchical": "hierarchical_all_reduce",
        }.get(algorithm, "in_network_all_reduce")  # fmt: skip
    else:
        terms += (
            Term("B", f"what a ring sustains over {link.name}", first(m.scale_up_rate), "B/s", own),
            Term("V", "message rate when the NVLink switch sums", first(m.multicast_rate), "B/s", own),
            Term("P", f"what {network.name} sustains for one GPU", first(m.scale_out_rate), "B/s", own),
            Term("h", "hop inside a domain", first(m.scale_up_hop), "s", own),
            Term("α", "hop between domains", first(m.scale_out_hop), "s", own),
            Term("c", "size of the pipeline fill", first(m.fill), "1", own),
        )
        key = "times"
    with np.errstate(divide="ignore", invalid="ignore"):
        time = Term("T", "time", first(found.best.time), "s")
    size = (Term("S", "message", message, "B"), time)
    return {
        "all_reduce.time": Explanation(f"collectives.{key}", terms),
        "all_reduce.algorithm_bandwidth": Explanation("collectives.algorithm_bandwidth", size),
        "all_reduce.bus_bandwidth": Explanation("collectives.bus_bandwidth", (*size, Term("n", "GPUs", ranks, "1"))),
    }
