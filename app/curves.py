"""The arrays behind the charts: plans swept along one axis.

Each curve calls the formula of the plan with the swept values on the axes before the draws, so it passes through the
plan's own number. Titles are findings, computed from the arrays they head.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import listing
from app.accuracy.collectives import Prediction as CollectivePrediction
from app.accuracy.training import Prediction as StepPrediction
from app.catalog import Catalog, Estimate
from app.collectives import bus_factor
from app.nccl_tests import Result
from app.plan import fabric, port_curve, training
from app.plan.all_reduce import Evaluation, Way, evaluate_all_reduce, typical
from app.plan.bands import Draws, interval
from app.plan.fabric import FabricDraft
from app.plan.hardware import Hardware, look_up
from app.plan.outline import Outline, outline
from app.plan.parts import Parallelism
from app.plan.port_curve import PortCurve
from app.plan.recommendation import degrees
from app.plan.training import TrainingDraft
from app.scenario import Scenario
from app.units import percent, show

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One line of a curve: typical values and their 80 % range along x, in base units.

    ``look`` names its meaning for the chart; ``strong`` marks the line that matters; ``steps`` draws it in steps.
    """

    name: str
    look: str
    x: Floats
    typical: Floats
    low: Floats
    high: Floats
    dash: str = ""
    strong: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on the x axis where something changes, and what."""

    x: float
    text: str


@dataclass(frozen=True)
class Curve:
    """Lines over one axis. Units are base units, or ``GPUs`` for counts and ``%`` for shares."""

    key: str
    title: str
    subtitle: str
    x_name: str
    x_unit: str
    y_name: str
    y_unit: str
    series: tuple[Series, ...]
    x_logarithmic: bool = True
    y_logarithmic: bool = True
    own: tuple[float, float] | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Swing:
    """How far one input moves a result through its own 80 % range."""

    name: str
    look: str
    low: float
    high: float
    source: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """The inputs that move a result most, largest first."""

    name: str
    unit: str
    typical: float
    swings: tuple[Swing, ...]


@dataclass(frozen=True)
class Group:
    """Measurements of one kind and what the model says of each."""

    name: str
    look: str
    measured: Floats
    predicted: Floats
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Cloud:
    """Predictions against measurements; ``tolerance`` is the relative error of the shaded strip."""

    title: str
    subtitle: str
    groups: tuple[Group, ...]
    tolerance: float = 0.1


# All-reduce ----------------------------------------------------------------------------------------------------------

SMALLEST, LARGEST = 8.0, 64e9
"""Messages a curve spans [B]."""
MOST_GPUS = 131_072
QUANTITIES = {
    "time": ("Time", "s"),
    "algorithm_bandwidth": ("Algorithm bandwidth", "B/s"),
    "bus_bandwidth": ("Bus bandwidth", "B/s"),
}
NAMES = {
    "ring": "Ring",
    "tree": "Tree",
    "nvls": "NVLS",
    "nvls-tree": "NVLS tree",
    "collnet": "CollNet",
    "recursive-halving-doubling": "Halving-doubling",
    "hierarchical": "Hierarchical",
}


def message_sizes(own: float) -> Floats:
    """Powers of two from 8 B to 64 GB or the planner's own message, and that one."""
    largest = max(LARGEST, own)
    powers = 2.0 ** np.arange(np.log2(SMALLEST), np.log2(largest))
    return np.unique(np.concatenate((powers, [largest, max(own, SMALLEST)])))


def gpu_counts(hardware: Hardware, *own: int) -> Floats:
    """Whole nodes, doubling from one to 131,072 GPUs or a little beyond the planner's own."""
    first = hardware.gpus_per_node
    doublings = int(np.ceil(np.log2(max(MOST_GPUS, 2 * hardware.gpus) / first)))
    counts = first * 2.0 ** np.arange(doublings + 1)
    return np.unique(
        np.concatenate((counts[counts > 1], np.asarray([n for n in own if n > 1 and n % first == 0], float)))
    )


def all_reduce_over_sizes(scenario: Scenario, catalog: Catalog, message: float, quantity: str = "time") -> Curve:
    """An all-reduce on the plan's cluster against message size, by algorithm; ``message`` is the plan's own [B]."""
    hardware = look_up(scenario, catalog)
    own = max(float(message), SMALLEST)
    sizes = message_sizes(own)
    found = evaluate_all_reduce(hardware, scenario, catalog, message=sizes)
    factor = _factor(quantity, sizes, np.full(sizes.shape, float(hardware.gpus)))
    stretches = _stretches(sizes, found.names)
    name, unit = QUANTITIES[quantity]
    title = f"{_regimes(stretches, 'B')} on {hardware.gpus:,} {hardware.gpu.name}."
    if factor is not None:
        rates = factor / found.best.time[:, 0]
        half = float(sizes[int(np.argmax(rates >= 0.5 * np.nanmax(rates)))])
        title = f"{name} reaches {show(float(np.nanmax(rates)), unit)}, half of it from {show(half, 'B', 2)} on."
    return Curve(
        key=f"all_reduce_{quantity}_by_size",
        title=title,
        subtitle=f"{name} of an all-reduce against message size, by algorithm, with 80 % ranges",
        x_name="Message",
        x_unit="B",
        y_name=name,
        y_unit=unit,
        series=_by_algorithm(found, sizes, factor, quantity),
        own=(own, _own(found.best, factor, np.flatnonzero(sizes == own)[0])) if own == message else None,
        marks=tuple(Mark(start, NAMES.get(way, way)) for start, _, way in stretches[1:]),
    )


def all_reduce_over_gpus(scenario: Scenario, catalog: Catalog, message: float, quantity: str = "time") -> Curve:
    """An all-reduce of one message against the number of GPUs, by algorithm, in whole nodes."""
    hardware = look_up(scenario, catalog)
    counts = gpu_counts(hardware, hardware.gpus)
    found = evaluate_all_reduce(hardware, scenario, catalog, message=message, gpus=counts)
    factor = _factor(quantity, np.full(counts.shape, message), counts)
    name, unit = QUANTITIES[quantity]
    place = np.flatnonzero(counts == hardware.gpus)
    stretches = _stretches(counts, found.names)
    first, last = (_own(found.best, factor, end) for end in (0, -1))
    grows = f"takes {last / first:.1f} times as long on {counts[-1]:,.0f} GPUs as on {counts[0]:,.0f}"
    if factor is not None:
        kept = f"{percent(last / first)} of the {name.lower()}"
        grows = f"keeps {kept} of {counts[0]:,.0f} GPUs on {counts[-1]:,.0f}"
    return Curve(
        key=f"all_reduce_{quantity}_by_gpus",
        title=f"An all-reduce of {show(message, 'B')} {grows}.",
        subtitle=f"{name} of an all-reduce of {show(message, 'B')} against GPUs, by algorithm, with 80 % ranges",
        x_name="GPUs",
        x_unit="GPUs",
        y_name=name,
        y_unit=unit,
        series=_by_algorithm(found, counts, factor, quantity),
        own=(float(hardware.gpus), _own(found.best, factor, place[0])) if place.size else None,
        marks=tuple(Mark(start, NAMES.get(way, way)) for start, _, way in stretches[1:]),
    )


def all_reduce_shares(scenario: Scenario, catalog: Catalog, message: float) -> Curve:
    """What the time of the quickest all-reduce is made of, against message size."""
    hardware = look_up(scenario, catalog)
    own = max(float(message), SMALLEST)
    sizes = message_sizes(own)
    found = evaluate_all_reduce(hardware, scenario, catalog, message=sizes, reading=typical)
    moving = found.best.bandwidth_share
    half = sizes[np.flatnonzero(moving >= 0.5)[:1]]
    title = f"From {show(float(half[0]), 'B', 2)} on, most of the time moves bytes." if half.size else ""
    return Curve(
        key="all_reduce_shares",
        title=title or "At every size most of the time is latency.",
        subtitle="Shares of the time of the quickest all-reduce against message size, typical values",
        x_name="Message",
        x_unit="B",
        y_name="Share of the time",
        y_unit="%",
        y_logarithmic=False,
        series=(
            _exact("Moving bytes", "quickest", sizes, moving, strong=True),
            _exact("Latency, fill", "muted", sizes, 1 - moving, dash="dash"),
        ),
        own=(own, float(moving[np.flatnonzero(sizes == own)[0]])) if own == message else None,
    )


def networks(scenario: Scenario, catalog: Catalog) -> tuple[Scenario, ...]:
    """The plan's cluster on its own network, and on InfiniBand, RoCE and TCP of the nearest rate."""
    own = catalog.scale_out[scenario.scale_out]
    rate = own.port_rate.typical
    found = {own.family: own}
    for family in ("infiniband", "roce", "tcp"):
        others = [entry for entry in catalog.scale_out.values() if entry.family == family]
        if family not in found and others:
            found[family] = min(others, key=lambda entry: abs(np.log(entry.port_rate.typical / rate)))
    return tuple(scenario.model_copy(update={"scale_out": entry.key, "switch": None}) for entry in found.values())


PROPER = {"infiniband": "InfiniBand", "roce": "RoCE", "spectrum": "Spectrum", "tcp": "TCP", "efa": "EFA"}


def short(key: str) -> str:
    """The key of a network as a short name for the end of a line.

    >>> short("infiniband-ndr"), short("roce-400"), short("spectrum-x-800")
    ('InfiniBand NDR', 'RoCE 400', 'Spectrum-X 800')
    """
    words = [PROPER.get(word, word.upper() if len(word) < 4 else word.capitalize()) for word in key.split("-")]
    return " ".join(words).replace("Spectrum X", "Spectrum-X")


def all_reduce_by_network(
    scenario: Scenario, catalog: Catalog, message: float, quantity: str = "bus_bandwidth"
) -> Curve:
    """The quickest all-reduce against message size inside one scale-up domain, and across it on each network."""
    hardware = look_up(scenario, catalog)
    own = max(float(message), SMALLEST)
    sizes = message_sizes(own)
    name, unit = QUANTITIES[quantity]
    domain = min(hardware.platform.scale_up_domain, hardware.gpus)
    clusters = [(asked, look_up(asked, catalog)) for asked in networks(scenario, catalog)] if hardware.nodes > 1 else []
    series: list[Series] = []
    if domain > 1:
        alone = scenario.model_copy(update={"gpus": domain, "gpus_per_node": min(domain, hardware.gpus_per_node)})
        inside = look_up(alone, catalog)
        found = evaluate_all_reduce(inside, alone, catalog, message=sizes)
        factor = _factor(quantity, sizes, np.full(sizes.shape, float(domain)))
        series.append(
            _line(f"{inside.scale_up.name}, {domain} GPUs", inside.scale_up.family, sizes, found.best, factor)
        )
    place = int(np.flatnonzero(sizes == own)[0])
    mine: tuple[float, float] | None = None
    for asked, there in clusters:
        found = evaluate_all_reduce(there, asked, catalog, message=sizes)
        factor = _factor(quantity, sizes, np.full(sizes.shape, float(there.gpus)))
        drawn = _line(short(asked.scale_out), there.scale_out.family, sizes, found.best, factor)
        series.append(drawn)
        if asked.scale_out == scenario.scale_out:
            mine = (own, float(drawn.typical[place]))
    known = [line for line in series if np.isfinite(line.typical).any()]
    ends = sorted(known, key=lambda line: float(line.typical[-1]), reverse=quantity != "time")
    title = "One GPU has nothing to reduce."
    if len(ends) > 1:
        best, worst = ends[0], ends[-1]
        ratio = max(best.typical[-1] / worst.typical[-1], worst.typical[-1] / best.typical[-1])
        title = f"For the largest messages {best.name} is {ratio:.1f} times as fast as {worst.name}."
    elif ends:
        title = f"Inside one domain nothing but {ends[0].name} matters."
    return Curve(
        key=f"all_reduce_{quantity}_by_network",
        title=title,
        subtitle=f"{name} of the quickest all-reduce on {hardware.gpus:,} GPUs by network, and inside one domain",
        x_name="Message",
        x_unit="B",
        y_name=name,
        y_unit=unit,
        series=tuple(known),
        own=mine if own == message else None,
    )


def _factor(quantity: str, message: Floats, ranks: Floats) -> Floats | None:
    """What a rate is at one second: the message, or what each link must carry for it; ``None`` for times."""
    if quantity == "time":
        return None
    return message if quantity == "algorithm_bandwidth" else message * np.asarray(bus_factor("all-reduce", ranks))


def _line(
    name: str, look: str, x: Floats, way: Way, factor: Floats | None, *, dash: str = "", strong: bool = False
) -> Series:
    """Times, or rates, of a swept all-reduce with their ranges."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = way.time if factor is None else factor[:, None] / way.time
        low, high = interval(values, np.nan_to_num(way.residual))
    return Series(name, look, x, values[:, 0], low, high, dash=dash, strong=strong)


def _exact(name: str, look: str, x: Floats, y: Floats, *, dash: str = "", strong: bool = False) -> Series:
    """A line without a range."""
    return Series(name, look, x, y, y, y, dash=dash, strong=strong)


def _by_algorithm(found: Evaluation, x: Floats, factor: Floats | None, quantity: str) -> tuple[Series, ...]:
    lines = [_line(NAMES.get(way.algorithm, way.algorithm), way.algorithm, x, way, factor) for way in found.ways]
    return (*lines, _line("Quickest", "quickest", x, found.best, factor, strong=True))


def _own(way: Way, factor: Floats | None, place: int) -> float:
    time = float(way.time[place, 0])
    return time if factor is None else float(factor[place]) / time


def _stretches(x: Floats, names: NDArray[np.str_]) -> list[tuple[float, float, str]]:
    """Where along a sweep each algorithm is the quickest: first and last x, and its name."""
    found: list[tuple[float, float, str]] = []
    for place, name in zip(x, names, strict=True):
        if not name:
            continue
        if found and found[-1][2] == name:
            found[-1] = (found[-1][0], float(place), str(name))
        else:
            found.append((float(place), float(place), str(name)))
    return found


def _regimes(stretches: Sequence[tuple[float, float, str]], unit: str) -> str:
    """The quickest algorithms as a sentence without its end."""
    if not stretches:
        return "No algorithm works here"
    names = [NAMES.get(name, name) for _, _, name in stretches]
    if len(stretches) == 1:
        return f"{names[0]} is quickest at every size"
    turns = [
        f"{name} from {show(start, unit, 2)}" for name, (start, _, _) in zip(names[1:], stretches[1:], strict=True)
    ]
    return f"{names[0]} is quickest for small messages, {', '.join(turns)}"


# Training ------------------------------------------------------------------------------------------------------------


def _fixed(scenario: Scenario, chosen: Parallelism) -> Scenario:
    """The scenario with the plan's own parallelism, so that nothing is searched again."""
    return scenario.model_copy(update=degrees(chosen))


def _job(scenario: Scenario, catalog: Catalog, network: FabricDraft | None = None) -> TrainingDraft:
    """The training job of a scenario, on its own fabric or one that was designed before."""
    network = network or fabric.draft(scenario, catalog)
    return training.draft(network.hardware, scenario, catalog, taper=network.taper, hops=network.hops)


def scaling(scenario: Scenario, catalog: Catalog, chosen: Parallelism) -> Curve:
    """Tokens a second of each GPU against GPU count, over those of the smallest cluster.

    The replicas grow in number, each as the plan spreads it: once with the batch growing along, once with the plan's
    batch shared out among more of them.
    """
    hardware = look_up(scenario, catalog)
    own, replicas = hardware.gpus, chosen.data_parallel
    replica = own // replicas
    shares = [2**power for power in range(18) if replica * 2**power <= 4 * max(own, 1024)]
    counts = sorted({replica * share for share in shares if replica * share >= hardware.gpus_per_node} | {own})
    weak: list[Floats] = []
    strong: list[Floats] = []
    missing = np.full(257, np.nan)
    for gpus in counts:
        share = gpus // replica
        group = min(chosen.sharding_group, share * chosen.context_parallel) if chosen.sharding != "none" else 1
        update = {"gpus": gpus, "sharding_group": share if chosen.sharding_group == replicas else group}
        grown = scenario.global_batch * share / replicas
        for batch, found in ((grown, weak), (float(scenario.global_batch), strong)):
            whole = batch >= share * chosen.micro_batch and batch % (share * chosen.micro_batch) == 0
            if not whole:
                found.append(missing)
                continue
            asked = _fixed(scenario, chosen).model_copy(update=update | {"global_batch": int(batch)})
            rate = _job(asked, catalog).quantities["training.tokens_per_second"].values
            found.append(np.broadcast_to(rate, missing.shape) / gpus)
    x = np.array(counts, float)
    lines = []
    for name, look, found in (("Batch grows along", "quickest", weak), ("Batch stays", "compute", strong)):
        table = np.stack(found)
        known = np.flatnonzero(np.isfinite(table[:, 0]))
        if known.size:
            share_of_first = table / table[known[0]]
            low, high = interval(share_of_first)
            lines.append(Series(name, look, x, share_of_first[:, 0], low, high, strong=name == "Batch grows along"))
    place = counts.index(own)
    title = "Nothing to scale: this job does not run."
    mine: tuple[float, float] | None = None
    if lines and np.isfinite(lines[-1].typical[place]):
        kept = float(lines[-1].typical[place])
        known = np.flatnonzero(np.isfinite(lines[-1].typical))
        mine = (float(own), kept)
        title = f"On {own:,} GPUs each does {percent(kept)} of the work it does on {counts[known[0]]:,}."
    return Curve(
        key="scaling",
        title=title,
        subtitle="Tokens a second of each GPU over those of the smallest cluster, with the plan's parallelism",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Scaling efficiency",
        y_unit="%",
        y_logarithmic=False,
        series=tuple(lines),
        own=mine,
    )


def tail(scenario: Scenario, catalog: Catalog, chosen: Parallelism) -> Curve:
    """Step time against the spread of one node's step, the plan's cluster and smaller ones."""
    hardware = look_up(scenario, catalog)
    spreads = np.unique(np.append(np.linspace(0.0, 0.1, 11), scenario.jitter))
    fixed = _fixed(scenario, chosen)
    network = fabric.draft(fixed, catalog)
    jobs = [_job(fixed.model_copy(update={"jitter": float(spread)}), catalog, network) for spread in spreads]
    table = np.stack([np.broadcast_to(job.quantities["training.step_time"].values, (257,)) for job in jobs])
    low, high = interval(table)
    typical_times = table[:, 0]
    line = Series(f"{hardware.nodes:,} nodes", "quickest", spreads, typical_times, low, high, strong=True)
    place = int(np.flatnonzero(spreads == scenario.jitter)[0])
    at_one = float(np.interp(0.01, spreads, typical_times) / typical_times[0] - 1)
    return Curve(
        key="tail",
        title=f"A spread of 1 % on each node costs {percent(at_one, 1)} of every step: all wait for the slowest.",
        subtitle="Step time against the relative spread of a step's time on one node",
        x_name="Spread on one node",
        x_unit="%",
        y_name="Step time",
        y_unit="s",
        x_logarithmic=False,
        y_logarithmic=False,
        series=(line,),
        own=(float(spreads[place]), float(typical_times[place])),
    )


# Cost ----------------------------------------------------------------------------------------------------------------


def cost_per_port(scenario: Scenario, catalog: Catalog, ports: Sequence[PortCurve] = ()) -> Curve:
    """Cost of one NIC port against cluster size, for InfiniBand and Ethernet generations side by side.

    ``ports`` are the generations over sizes, where they are known already.
    """
    hardware = look_up(scenario, catalog)
    found = ports or port_curve.by_size(scenario, catalog)
    series: list[Series] = []
    marks: tuple[Mark, ...] = ()
    mine: tuple[float, float] | None = None
    dashes = _dashes(found, scenario)
    for curve in found:
        own = curve.scale_out == scenario.scale_out
        values = curve.cost_per_host_port
        low, high = interval(values)
        name, dash = short(curve.scale_out), dashes[curve.scale_out]
        series.append(Series(name, curve.family, curve.gpus, values[:, 0], low, high, dash=dash, strong=own))
        if own:
            marks = tuple(Mark(float(cliff.gpus), cliff.text) for cliff in curve.cliffs if "cheaper" not in cliff.text)
            place = np.flatnonzero(curve.gpus == hardware.gpus)
            if place.size and np.isfinite(values[place[0], 0]):
                mine = (float(hardware.gpus), float(values[place[0], 0]))
    known = [line for line in series if np.isfinite(line.typical).any()]
    return Curve(
        key="cost_per_port",
        title=_port_title(known, hardware.gpus, mine),
        subtitle="Fabric cost over NIC ports against cluster size, by network generation, with 80 % ranges of prices",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Cost of one NIC port",
        y_unit="USD",
        y_logarithmic=False,
        series=tuple(known),
        own=mine,
        marks=marks,
    )


def _dashes(ports: Sequence[PortCurve], scenario: Scenario) -> dict[str, str]:
    """A dash for each generation, so that those of one colour differ; the planner's own is solid."""
    others = [curve for curve in ports if curve.scale_out != scenario.scale_out]
    found = {scenario.scale_out: "solid"}
    for family in dict.fromkeys(curve.family for curve in others):
        keys = [curve.scale_out for curve in others if curve.family == family]
        found |= dict(zip(keys, itertools.cycle(("dash", "dot", "dashdot", "longdash")), strict=False))
    return found


def _port_title(lines: Sequence[Series], gpus: int, mine: tuple[float, float] | None) -> str:
    """What the planner's own port costs, and what the cheapest of all does."""
    here = {line.name: float(np.interp(gpus, line.x, line.typical)) for line in lines}
    here = {name: value for name, value in here.items() if np.isfinite(value)}
    if not here:
        return "No network can be built at this size."
    cheapest = min(here, key=lambda name: here[name])
    text = f"{cheapest} has the cheapest port at {gpus:,} GPUs, {show(here[cheapest], 'USD', 2)}"
    return (
        f"{text}; the plan's costs {show(mine[1], 'USD', 2)}."
        if mine and mine[1] > here[cheapest] * 1.005
        else f"{text}."
    )


def cost_per_bisection(scenario: Scenario, catalog: Catalog, ports: Sequence[PortCurve] = ()) -> Curve:
    """What bandwidth across the cluster costs, against cluster size, by network generation."""
    hardware = look_up(scenario, catalog)
    series = []
    found = ports or port_curve.by_size(scenario, catalog)
    dashes = _dashes(found, scenario)
    for curve in found:
        own = curve.scale_out == scenario.scale_out
        values = curve.cost_per_bisection
        low, high = interval(values)
        if np.isfinite(values[:, 0]).any():
            name, dash = short(curve.scale_out), dashes[curve.scale_out]
            series.append(Series(name, curve.family, curve.gpus, values[:, 0], low, high, dash=dash, strong=own))
    here = {line.name: float(np.interp(hardware.gpus, line.x, line.typical)) for line in series}
    here = {name: value for name, value in here.items() if np.isfinite(value)}
    best = min(here, key=lambda name: here[name], default="")
    title = "No network can be built at this size."
    if best:
        title = f"Per dollar, {best} moves most across {hardware.gpus:,} GPUs: {show(here[best], 'USD', 2)} for 1 Gb/s."
    return Curve(
        key="cost_per_bisection",
        title=title,
        subtitle="Fabric cost over bisection bandwidth, one way, in Gb/s, against cluster size, by network generation",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Cost of 1 Gb/s",
        y_unit="USD",
        y_logarithmic=False,
        series=tuple(series),
    )


def cliffs(ports: Sequence[PortCurve]) -> tuple[tuple[str, int, str], ...]:
    """Where each network generation changes its shape: its name, the number of GPUs, and what changes."""
    return tuple((short(curve.scale_out), cliff.gpus, cliff.text) for curve in ports for cliff in curve.cliffs)


# Sensitivity ---------------------------------------------------------------------------------------------------------

MOST_SWINGS = 10
RESULTS = {
    "training.time_to_train": "Time to train",
    "training.step_time": "Step time",
    "costs.per_run": "Cost of the run, owned",
    "costs.capital": "Capital",
    "fabric.cost": "Fabric cost",
}


def sensitivity(
    scenario: Scenario, catalog: Catalog, chosen: Parallelism, result: str = "costs.per_run"
) -> Sensitivity:
    """The inputs whose ranges move a result most.

    Every constant was drawn independently for all results, so the logarithm of the result, regressed on the logarithms
    of its constants' draws, says how far each moves it alone. All prices of an edition move together and count as one.
    """
    drafts = outline(_fixed(scenario, chosen), catalog)
    parts = (drafts.network, drafts.job, drafts.money)
    draws = next(part.quantities[result] for part in parts if result in part.quantities)
    used = list(draws.used)
    if result == "costs.per_run":
        used += drafts.job.quantities["training.time_to_train"].used
    inputs = _inputs(used)
    values = np.log(draws.values)
    typical_value = float(draws.values[0])
    if not inputs or not np.isfinite(values).all():
        return Sensitivity(RESULTS[result], draws.unit, typical_value, ())
    logs = {key: np.log(np.maximum(one.draws(), 1e-300) / one.typical) for key, one in inputs.items()}
    # Prices swing further up than down: a slope for each side.
    columns = [side for row in logs.values() for side in (np.minimum(row, 0), np.maximum(row, 0))]
    slopes, *_ = np.linalg.lstsq(np.stack(columns, axis=-1), values - values[0], rcond=None)
    swings = []
    for index, (key, estimate) in enumerate(inputs.items()):
        ends = (slopes[2 * index] * np.quantile(logs[key], 0.1), slopes[2 * index + 1] * np.quantile(logs[key], 0.9))
        low, high = sorted(float(np.exp(values[0] + end)) for end in ends)
        name = "The price book" if key.startswith("prices.") else listing.input_name(estimate, catalog)
        swings.append(Swing(name, _swing_look(key, scenario), low, high, estimate.source))
    error = _model_error(drafts, draws, result)
    if error:
        low, high = typical_value * float(np.exp(-error)), typical_value * float(np.exp(error))
        swings.append(Swing("The step model itself", "muted", low, high))
    swings.sort(key=lambda swing: swing.low - swing.high)
    return Sensitivity(RESULTS[result], draws.unit, typical_value, tuple(swings[:MOST_SWINGS]))


def _inputs(used: Sequence[Estimate]) -> dict[str, Estimate]:
    """The uncertain constants by key; of the prices of an edition, which move together, the first."""
    found: dict[str, Estimate] = {}
    for estimate in used:
        key = ".".join(estimate.key.split(".")[:2]) if estimate.key.startswith("prices.") else estimate.key
        if np.ptp(estimate.draws()) > 0 and estimate.typical > 0:
            found.setdefault(key, estimate)
    return found


def _model_error(drafts: Outline, draws: Draws, result: str) -> float:
    """The model's own error in a result: the step model's, where the time of the step is in it."""
    if draws.residual:
        return draws.residual
    return drafts.job.quantities["training.step_time"].residual if result == "costs.per_run" else 0.0


def _swing_look(key: str, scenario: Scenario) -> str:
    kind = key.partition(".")[0]
    if kind in ("prices", "operations"):
        return "money"
    return {"collectives": scenario.scale_out, "scale_out": scenario.scale_out, "scale_up": "nvlink"}.get(
        kind, "compute"
    )


# Measurements --------------------------------------------------------------------------------------------------------


def measured(result: Result) -> Curve:
    """Pasted measurements over the predicted bus bandwidth."""
    sizes = np.array([row.size for row in result.rows])
    order = np.argsort(sizes)
    sizes = sizes[order]

    def column(values: Sequence[float]) -> Floats:
        return np.array(values)[order]

    predicted = [row.predicted_bus for row in result.rows]
    typical_rate = column([band.typical for band in predicted])
    ends = column([band.low for band in predicted]), column([band.high for band in predicted])
    rates = column([row.measured_bus for row in result.rows])
    return Curve(
        key="measured",
        title=result.verdict,
        subtitle="Bus bandwidth against message size: measured, and predicted with its 80 % range",
        x_name="Message",
        x_unit="B",
        y_name="Bus bandwidth",
        y_unit="B/s",
        series=(
            Series("Predicted", "quickest", sizes, typical_rate, *ends, strong=True),
            Series("Measured", "measured", sizes, rates, rates, rates, dash="dot"),
        ),
    )


CLASS_NAMES = {
    "nvlink-switch": ("NVLink switch, one domain", "nvlink"),
    "nvlink-switch-rdma": ("NVLink and RDMA", "infiniband"),
    "nvlink-switch-other": ("NVLink and other networks", "roce"),
    "nvlink-mesh": ("NVLink mesh", "accent"),
    "infinity-fabric": ("Infinity Fabric", "money"),
    "pcie": ("PCIe", "pcie"),
}


def collective_cloud(found: Sequence[CollectivePrediction], report: Mapping[str, Any]) -> Cloud:
    """Collectives: predicted against measured, by class of hardware."""
    good = [one for one in found if not one.row.weak and one.row.library in ("nccl", "rccl")]
    groups = []
    for key, (name, look) in CLASS_NAMES.items():
        members = [one for one in good if one.group == key and np.isfinite(one.time)]
        if members:
            labels = tuple(f"{one.row.run}, {show(one.row.message, 'B')}" for one in members)
            groups.append(_group(name, look, [(one.row.time, one.time) for one in members], labels))
    overall = report["all_reduce"]["overall"]
    return Cloud(
        title=f"Half of {overall['count']:,} all-reduce times are predicted within {percent(overall['median'], 1)}, "
        f"nine of ten within {percent(overall['p90'])}.",
        subtitle="Collectives of good measurements: predicted against measured time; the strip is ±10 %",
        groups=tuple(groups),
    )


def training_cloud(found: Sequence[StepPrediction], report: Mapping[str, Any]) -> Cloud:
    """Training steps: predicted against measured, dense and mixtures of experts."""
    groups = []
    for name, look, experts in (("Dense", "compute", False), ("Mixture of experts", "money", True)):
        members = [one for one in found if one.row.experts == experts and np.isfinite(one.time)]
        if members:
            labels = tuple(f"{one.row.run}, {one.row.model}, {one.row.gpus:,.0f} GPUs" for one in members)
            groups.append(_group(name, look, [(one.row.measured, one.time) for one in members], labels))
    overall = report["overall"]
    return Cloud(
        title=f"Half of {overall['count']:,} training steps are predicted within {percent(overall['median'], 1)}, "
        f"nine of ten within {percent(overall['p90'])}.",
        subtitle="Training steps: predicted against measured time; the strip is ±10 %",
        groups=tuple(groups),
    )


def _group(name: str, look: str, pairs: Sequence[tuple[float, float]], labels: tuple[str, ...]) -> Group:
    table = np.array(pairs)
    return Group(name, look, table[:, 0], table[:, 1], labels)
