"""All-reduce over message size, cluster size and network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.ideal import bus_factor
from app.plan import communication
from app.plan.all_reduce import NAMES, AlgorithmTime, AllReduceTimes, all_reduce_times
from app.plan.band import interval
from app.plan.cluster import Cluster, look_up
from app.plan.scenario import Scenario, on_network
from app.studies.curve import Curve, Mark, Series, short
from app.units import percent, show

Floats = NDArray[np.float64]


SMALLEST, LARGEST = 8.0, 64e9
"""Messages a curve spans [B]."""
MOST_GPUS = 131_072
QUANTITIES = {
    "time": ("Time", "s"),
    "algorithm_bandwidth": ("Algorithm bandwidth", "B/s"),
    "bus_bandwidth": ("Bus bandwidth", "B/s"),
}


def message_sizes(message: float) -> Floats:
    """Powers of two from 8 B to 64 GB or the planner's own message, and that one."""
    largest = max(LARGEST, message)
    powers = 2.0 ** np.arange(np.log2(SMALLEST), np.log2(largest))
    return np.unique(np.concatenate((powers, [largest, max(message, SMALLEST)])))


def gpu_counts(cluster: Cluster, *plan_gpus: int) -> Floats:
    """Whole nodes, doubling from one to 131,072 GPUs or a little beyond the planner's own."""
    first = cluster.gpus_per_node
    doublings = int(np.ceil(np.log2(max(MOST_GPUS, 2 * cluster.gpus) / first)))
    counts = first * 2.0 ** np.arange(doublings + 1)
    return np.unique(
        np.concatenate((counts[counts > 1], np.asarray([n for n in plan_gpus if n > 1 and n % first == 0], float)))
    )


def all_reduce_over_sizes(scenario: Scenario, catalog: Catalog, message: float, quantity: str = "time") -> Curve:
    """An all-reduce on the plan's cluster against message size, by algorithm; ``message`` is the plan's own [B]."""
    cluster = look_up(scenario, catalog)
    plan_message = max(float(message), SMALLEST)
    sizes = message_sizes(plan_message)
    times = all_reduce_times(communication.of_scenario(scenario, catalog), sizes)
    factor = _factor(quantity, sizes, np.full(sizes.shape, float(cluster.gpus)))
    stretches = _stretches(sizes, times.names)
    name, unit = QUANTITIES[quantity]
    title = f"{_regimes(stretches, 'B')} on {cluster.gpus:,} {cluster.gpu.name}."
    if factor is not None:
        rates = factor / times.best.time[:, 0]
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
        series=_by_algorithm(times, sizes, factor),
        y_logarithmic=factor is None,
        ceiling=_wire(cluster, sizes) if quantity == "bus_bandwidth" else None,
        plan_point=(plan_message, _own(times.best, factor, np.flatnonzero(sizes == plan_message)[0]))
        if plan_message == message
        else None,
        marks=tuple(Mark(start, NAMES.get(way, way)) for start, _, way in stretches[1:]),
    )


def _wire(cluster: Cluster, sizes: Floats) -> Series:
    """What the links carry: the NICs of a node together, or one GPU's scale-up link inside it [B/s]."""
    inside = cluster.nodes < 2
    per_gpu = cluster.scale_up.bandwidth if inside else cluster.rate_per_gpu
    rate = per_gpu if isinstance(per_gpu, float) else per_gpu.typical
    rate *= 1 if inside else cluster.gpus_per_node
    carried = np.full(sizes.shape, rate)
    name = f"{cluster.scale_up.name if inside else 'NICs'}: {show(rate, 'B/s')}"
    return Series(name, "muted", sizes, carried, carried, carried, dash="dot")


def all_reduce_over_gpus(scenario: Scenario, catalog: Catalog, message: float, quantity: str = "time") -> Curve:
    """An all-reduce of one message against the number of GPUs, by algorithm, in whole nodes."""
    cluster = look_up(scenario, catalog)
    counts = gpu_counts(cluster, cluster.gpus)
    times = all_reduce_times(communication.of_scenario(scenario, catalog), message, counts)
    factor = _factor(quantity, np.full(counts.shape, message), counts)
    name, unit = QUANTITIES[quantity]
    place = np.flatnonzero(counts == cluster.gpus)
    stretches = _stretches(counts, times.names)
    first, last = (_own(times.best, factor, end) for end in (0, -1))
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
        series=_by_algorithm(times, counts, factor),
        y_logarithmic=factor is None,
        plan_point=(float(cluster.gpus), _own(times.best, factor, place[0])) if place.size else None,
        marks=tuple(Mark(start, NAMES.get(way, way)) for start, _, way in stretches[1:]),
    )


def all_reduce_shares(scenario: Scenario, catalog: Catalog, message: float) -> Curve:
    """What the time of the quickest all-reduce is made of, against message size."""
    plan_message = max(float(message), SMALLEST)
    sizes = message_sizes(plan_message)
    times = all_reduce_times(communication.of_scenario(scenario, catalog), sizes, sampling=TYPICAL)
    moving = times.best.bandwidth_share
    half = sizes[moving >= 0.5]
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
        plan_point=(plan_message, float(moving[np.flatnonzero(sizes == plan_message)[0]]))
        if plan_message == message
        else None,
    )


def networks(scenario: Scenario, catalog: Catalog) -> tuple[Scenario, ...]:
    """The plan's cluster on its own network, and on InfiniBand, RoCE and TCP of the nearest rate."""
    plan_network = catalog.scale_out[scenario.scale_out]
    rate = plan_network.port_rate.typical
    by_family = {plan_network.family: plan_network}
    for family in ("infiniband", "roce", "tcp"):
        others = [entry for entry in catalog.scale_out.values() if entry.family == family]
        if family not in by_family and others:
            by_family[family] = min(others, key=lambda entry: abs(np.log(entry.port_rate.typical / rate)))
    return tuple(on_network(scenario, entry.key) for entry in by_family.values())


def all_reduce_by_network(
    scenario: Scenario, catalog: Catalog, message: float, quantity: str = "bus_bandwidth"
) -> Curve:
    """The quickest all-reduce against message size inside one scale-up domain, and across it on each network."""
    cluster = look_up(scenario, catalog)
    plan_message = max(float(message), SMALLEST)
    sizes = message_sizes(plan_message)
    name, unit = QUANTITIES[quantity]
    domain = min(cluster.platform.scale_up_domain, cluster.gpus)
    others = networks(scenario, catalog) if cluster.nodes > 1 else ()
    series: list[Series] = []
    if domain > 1:
        alone = scenario.model_copy(update={"gpus": domain, "gpus_per_node": min(domain, cluster.gpus_per_node)})
        fabric = communication.of_scenario(alone, catalog)
        factor = _factor(quantity, sizes, np.full(sizes.shape, float(domain)))
        quickest = all_reduce_times(fabric, sizes).best
        series.append(_line(f"{fabric.scale_up.name}, {domain} GPUs", fabric.scale_up.family, sizes, quickest, factor))
    place = int(np.flatnonzero(sizes == plan_message)[0])
    mine: tuple[float, float] | None = None
    for other in others:
        fabric = communication.of_scenario(other, catalog)
        factor = _factor(quantity, sizes, np.full(sizes.shape, float(fabric.gpus)))
        quickest = all_reduce_times(fabric, sizes).best
        series.append(_line(short(other.scale_out), fabric.scale_out.family, sizes, quickest, factor))
        if other.scale_out == scenario.scale_out:
            mine = (plan_message, float(series[-1].typical[place]))
    finite = [line for line in series if np.isfinite(line.typical).any()]
    ends = sorted(finite, key=lambda line: float(line.typical[-1]), reverse=quantity != "time")
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
        subtitle=f"{name} of the quickest all-reduce on {cluster.gpus:,} GPUs by network, and inside one domain",
        x_name="Message",
        x_unit="B",
        y_name=name,
        y_unit=unit,
        series=tuple(finite),
        plan_point=mine if plan_message == message else None,
    )


def _factor(quantity: str, message: Floats, ranks: Floats) -> Floats | None:
    """What a rate is at one second: the message, or what each link must carry for it; ``None`` for times."""
    if quantity == "time":
        return None
    return message if quantity == "algorithm_bandwidth" else message * np.asarray(bus_factor("all-reduce", ranks))


def _line(
    name: str, look: str, x: Floats, way: AlgorithmTime, factor: Floats | None, *, dash: str = "", strong: bool = False
) -> Series:
    """Times, or rates, of a swept all-reduce with their ranges."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = way.time if factor is None else factor[:, None] / way.time
        low, high = interval(values, np.nan_to_num(way.residual), way.least if factor is None else None)
        if factor is not None:
            high = np.maximum(np.minimum(high, factor / way.least), values[:, 0])
    typical = values[:, 0].copy()  # a view of it would keep all draws
    return Series(name, look, x, typical, low, high, dash=dash, strong=strong)


def _exact(name: str, look: str, x: Floats, y: Floats, *, dash: str = "", strong: bool = False) -> Series:
    """A line without a range."""
    return Series(name, look, x, y, y, y, dash=dash, strong=strong)


def _by_algorithm(times: AllReduceTimes, x: Floats, factor: Floats | None) -> tuple[Series, ...]:
    lines = [_line(NAMES.get(way.algorithm, way.algorithm), way.algorithm, x, way, factor) for way in times.each]
    return (*lines, _line("Quickest", "quickest", x, times.best, factor, strong=True))


def _own(way: AlgorithmTime, factor: Floats | None, place: int) -> float:
    time = float(way.time[place, 0])
    return time if factor is None else float(factor[place]) / time


def _stretches(x: Floats, names: NDArray[np.str_]) -> list[tuple[float, float, str]]:
    """Where along a sweep each algorithm is the quickest: first and last x, and its name."""
    stretches: list[tuple[float, float, str]] = []
    for place, name in zip(x, names, strict=True):
        if not name:
            continue
        if stretches and stretches[-1][2] == name:
            stretches[-1] = (stretches[-1][0], float(place), str(name))
        else:
            stretches.append((float(place), float(place), str(name)))
    return stretches


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
