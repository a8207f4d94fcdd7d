"""The arrays behind the charts: plans swept along one axis.

Each curve calls the formula of the plan with the swept values on the axes before the draws, so it passes through the
plan's own number. Titles are findings, computed from the arrays they head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.catalog import Catalog
from app.collectives import bus_factor
from app.plan.all_reduce import Evaluation, Way, evaluate_all_reduce, typical
from app.plan.bands import interval
from app.plan.hardware import Hardware, look_up
from app.scenario import Scenario
from app.units import show

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


def message_sizes(*own: float) -> Floats:
    """Powers of two from 8 B to 64 GB, and the planner's own."""
    powers = 2.0 ** np.arange(3, 36)
    return np.unique(np.concatenate((powers, [LARGEST], np.asarray(own, float))))


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
    own = float(np.clip(message, SMALLEST, LARGEST))
    sizes = message_sizes(own)
    found = evaluate_all_reduce(hardware, scenario, catalog, message=sizes)
    factor = _factor(quantity, sizes, np.full(sizes.shape, float(hardware.gpus)))
    stretches = _stretches(sizes, found.names)
    title = f"{_regimes(stretches, 'B')} on {hardware.gpus:,} {hardware.gpu.name}."
    name, unit = QUANTITIES[quantity]
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
    first, last = found.best.time[0, 0], found.best.time[-1, 0]
    grows = f"takes {last / first:.1f} times as long on {counts[-1]:,.0f} GPUs as on {counts[0]:,.0f}"
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
    own = float(np.clip(message, SMALLEST, LARGEST))
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
    own = float(np.clip(message, SMALLEST, LARGEST))
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
