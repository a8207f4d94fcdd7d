"""Charts of one plan: where the step's time goes, memory, bisection, cost, power, algorithms."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.plan.band import Band, with_range
from app.plan.result import AllReduce, Fabric, Plan
from app.report import tables
from app.report.charts import style
from app.report.charts.style import (
    CLEAR,
    FOOT,
    OFFSET,
    ROW,
    STYLES,
    THICK,
    VISIBLE,
    Figure,
    Style,
    Values,
    across,
    annotation,
    figure,
    label,
    linear,
    logarithmic,
    nothing,
    own_label,
    own_point,
    plain,
    resource_look,
    rows,
    sentence,
    shaded,
    style_of,
    upright,
    whisker,
)
from app.report.labels import RESOURCES, in_words, named
from app.studies.board_brief import capital_lines
from app.studies.step_timeline import NAMES, Segment, timeline
from app.units import percent, show

# Bars ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One bar: its name, value with range, look, and what the label says when not the value itself.

    ``base`` is where it begins, of one that goes on from the bar before: typical values that add up, without ranges.
    """

    name: str
    value: Band | None
    style: Style
    text: str = ""
    base: float | None = None


def _bars(
    title: str, subtitle: str, bars: Sequence[Bar], axis: str, *, limit: Band | None = None, limit_name: str = ""
) -> Figure:
    """Horizontal bars with their ranges; each is labelled with its name and its value."""
    values = [bar.value for bar in bars if bar.value is not None]
    unit = values[0].unit if values else "1"
    top = max([value.high for value in values] + ([limit.typical] if limit else []), default=0.0)
    data: list[Values] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": bar.name,
            "x": [bar.value.typical if bar.value else None],
            "y": [row],
            "width": THICK,
            "offset": OFFSET,
            "marker": shaded(bar.style),
            **({"error_x": whisker(bar.value)} if bar.base is None else {}),
            "base": [bar.base or 0.0],
            "hovertemplate": f"{plain(bar.name)}: {bar.text or with_range(bar.value)}<extra></extra>",
        }
        for row, bar in enumerate(bars)
    ]
    notes = [label(bar.name, bar.text or with_range(bar.value), row) for row, bar in enumerate(bars)]
    more: Values = {"annotations": notes}
    if limit is not None:
        more["shapes"] = [upright(limit.typical)]
        notes.append(annotation(limit_name, limit.typical, 1, "right", "bottom", yref="paper", bgcolor=CLEAR))
        more["margin"] = {"l": 8, "r": 16, "t": 26, "b": 8}
    return figure(
        title, subtitle, data, height=ROW * len(bars) + FOOT, x=linear(axis, top, unit), y=rows(len(bars)), **more
    )


def _total(values: Iterable[Band | None]) -> float:
    return math.fsum(value.typical for value in values if value is not None)


# Figures of a plan ---------------------------------------------------------------------------------------------------


def step_breakdown(plan: Plan) -> Figure:
    """Where the time of one training step goes, one bar, by resource."""
    subtitle = "Time of one training step by the resource that bounds it, typical values"
    step = plan.training.step_time
    if step is None:
        return nothing("The step cannot be timed.", subtitle)
    sums = {name: _total(part.time for part in plan.training.parts if part.resource == name) for name in RESOURCES}
    shares = {name: value / step.typical for name, value in sums.items()}
    first, second = sorted(shares, key=lambda name: -shares[name])[:2]
    title = f"{RESOURCES[first]} takes {style.share(shares[first])} of the step, {RESOURCES[second].lower()} "
    title += f"{style.share(shares[second])}."
    bars = [
        Bar(
            RESOURCES[name],
            Band(value, value, value, step.unit),
            resource_look(name, plan),
            f"{show(value, 's')}, {style.share(shares[name])}",
        )
        for name, value in sums.items()
        if value > 0
    ]
    return _bars(title, subtitle, bars, "Time in one step")


def step_parts(plan: Plan) -> Figure:
    """Every part of the step with its range."""
    subtitle = "Parts of one training step that are not hidden behind others, with 80 % ranges"
    step = plan.training.step_time
    least = VISIBLE * step.typical if step else 0.0
    timed = [part for part in plan.training.parts if part.time is not None and part.time.typical > least]
    if step is None or not timed:
        return nothing("The step cannot be timed.", subtitle)
    largest = max(timed, key=lambda part: part.time.typical if part.time else 0.0)
    share = largest.time.typical / step.typical if largest.time else 0.0
    part, whole = with_range(largest.time), with_range(step)
    title = f"{named(largest.name)}: the largest part, {part}, {style.share(share)} of {whole}"
    bars = [Bar(named(part.name), part.time, resource_look(part.resource, plan)) for part in timed]
    return _bars(sentence(title), subtitle, bars, "Time in one step")


LOOKS: Mapping[str, str] = {
    "wait": "bubble",
    "optimizer": "memory_bandwidth",
    "end_of_step": "overhead",
    "stragglers": "overhead",
}
"""How parts of a timeline are drawn; gradients as the link that they take."""
PASSES: Mapping[str, str] = {"forward": "/", "both": "", "backward": "\\"}
"""Passes of micro-batches, and the hatch of each."""


def step_timeline(plan: Plan) -> Figure:
    """One step, a lane for each stage of the pipeline: when it works, waits, and what comes after the last pass."""
    subtitle = "One training step from its start to its end, a lane for each stage of the pipeline, typical times"
    lanes, step = timeline(plan), plan.training.step_time
    if step is None or not lanes:
        return nothing("The step cannot be timed.", subtitle)
    resources = {part.name: part.resource for part in plan.training.parts}
    in_legend: set[str] = set()
    data: list[Values] = []
    for row, lane in enumerate(lanes):
        for part in (part for part in lane.segments if part.length > VISIBLE * step.typical):
            if part.what in PASSES:
                name, look = "Forward and backward passes", replace(STYLES["compute"], pattern=PASSES[part.what])
            else:
                name, key = NAMES[part.what], LOOKS.get(part.what)
                look = style_of(key) if key else resource_look(resources[part.what], plan)
            piece = _piece(NAMES[part.what], part, row, look)
            data.append(piece | {"name": name, "showlegend": name not in in_legend})
            in_legend.add(name)
    stages = plan.training.parallelism.pipeline_parallel if plan.training.parallelism else 1
    notes = [label(f"Stage {lane.stage}" if stages > 1 else "Every GPU", "", row) for row, lane in enumerate(lanes)]
    return figure(
        sentence(_timeline_title(plan, step.typical)),
        subtitle,
        data,
        height=ROW * len(lanes) + FOOT + 22,
        x=linear("Time in one step", step.typical, "s"),
        y=rows(len(lanes)),
        annotations=notes,
        showlegend=True,
    )


def _piece(name: str, part: Segment, row: int, look: Style) -> Values:
    """A piece of a lane."""
    said = f"{name}: {show(part.length, 's')} from {show(part.start, 's')} on"
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "base": [part.start],
        "x": [part.length],
        "y": [row],
        "width": THICK,
        "offset": OFFSET,
        "marker": shaded(look),
        "hovertemplate": f"{said}<extra></extra>",
    }


def _timeline_title(plan: Plan, step: float) -> str:
    """What of the step is waiting, and what of the traffic is hidden."""
    times = {part.name: part.time.typical for part in plan.training.parts if part.time}
    waits = times.get("bubble", 0.0) / step
    alone = math.fsum(group.time for group in plan.training.groups)
    shown = math.fsum(min(group.exposed, group.time) for group in plan.training.groups)
    said = f"Stages wait for {style.share(waits)} of the step" if waits > 0 else "No stage waits for another"
    return said + (f"; {style.share(1 - shown / alone)} of the exchanges hide behind work" if alone > 0 else "")


def overlap(plan: Plan) -> Figure:
    """What hides behind what: each kind of exchange alone, the part that shows and the part under computation."""
    subtitle = "Time of a step's exchanges with nothing else on the links: solid what shows, light what work covers"
    step, groups = plan.training.step_time, [group for group in plan.training.groups if group.time > 0]
    if step is None or not groups:
        return nothing("This step exchanges nothing, or cannot be timed.", subtitle)
    working = _total(part.time for part in plan.training.parts if part.resource in ("compute", "memory_bandwidth"))
    data = [_piece("GPUs compute", Segment("both", 0.0, working), 0, STYLES["compute"])]
    notes = [label("GPUs compute", show(working, "s"), 0)]
    for row, group in enumerate(groups, 1):
        look = resource_look("scale_up" if group.crosses == "scale_up" else "scale_out", plan)
        shown, hidden = group.exposed, max(group.time - group.exposed, 0.0)
        data.append(_piece(f"{named(group.group)}, shows", Segment("both", 0.0, shown), row, look))
        light = _piece(f"{named(group.group)}, hidden", Segment("both", shown, hidden), row, look)
        data.append(light | {"marker": {**light["marker"], "opacity": 0.35}})
        notes.append(label(named(group.group), f"{show(shown, 's')} of {show(group.time, 's')} shows", row))
    most = max(groups, key=lambda group: group.exposed)
    title = f"{named(most.group)} traffic shows most: {show(most.exposed, 's')} of the {show(most.time, 's')} it takes"
    top = max(working, *(max(group.time, group.exposed) for group in groups))
    return figure(
        sentence(title),
        subtitle,
        data,
        height=ROW * (len(groups) + 1) + FOOT,
        x=linear("Time in one step", top, "s"),
        y=rows(len(groups) + 1),
        annotations=notes,
    )


def what_if(plan: Plan) -> Figure:
    """The step time after each resource is made better."""
    subtitle = "Time of one training step if one resource were that many times as good, with 80 % ranges"
    step = plan.training.step_time
    tried = [entry for entry in plan.bottleneck.what_if if entry.step_time is not None and entry.gain is not None]
    if step is None or not tried:
        return nothing("The step cannot be timed.", subtitle)
    best = max(tried, key=lambda entry: entry.gain or 0.0)
    title = (
        f"{RESOURCES[best.resource]} {_times(best.factor)} as good would save "
        f"{style.share(best.gain or 0.0)} of the step"
    )
    bars = [Bar("As planned", step, STYLES["accent"])]
    bars += [
        Bar(
            f"{RESOURCES[entry.resource]} × {entry.factor:g}",
            entry.step_time,
            resource_look(entry.resource, plan),
            f"{with_range(entry.step_time)}, saves {style.share(entry.gain or 0.0)}",
        )
        for entry in tried
    ]
    return _bars(sentence(title), subtitle, bars, "Time of one step")


def _times(factor: float) -> str:
    return "twice" if factor == 2 else f"{factor:g} times"


def memory(plan: Plan) -> Figure:
    """Memory of the fullest GPU, by part, against what a program can use."""
    subtitle = "Memory of the fullest GPU by part, with 80 % ranges"
    total, capacity = plan.memory.total, plan.memory.capacity
    if total is None or capacity is None:
        return nothing("The memory need is not known.", subtitle)
    if plan.memory.fits:
        sure = total.high <= capacity.typical
        fits = "Fits" if sure else "Fits at the typical value, not at the upper end of the range"
        title = f"{fits}: {_of_capacity(total, capacity)} of a GPU's memory is in use"
    else:
        title = f"Does not fit: needs {_of_capacity(total, capacity)} of a GPU's memory"
    style = STYLES["memory"]
    bars = [Bar(named(part.name), part.size, style) for part in plan.memory.parts if part.size and part.size.typical]
    bars.append(Bar("Total", total, STYLES["accent"] if plan.memory.fits else STYLES["bad"]))
    limit = f"all: {show(capacity.typical, 'B')}"
    return _bars(sentence(title), subtitle, bars, "Memory of one GPU", limit=capacity, limit_name=limit)


def _of_capacity(total: Band, capacity: Band) -> str:
    """A share of what programs find, which is more than the card is sold with: vendors' GB are 2³⁰ bytes.

    >>> _of_capacity(Band(71e9, 81e9, 91e9, "B"), Band(85e9, 85e9, 85e9, "B"))
    '95\\u202f% (84–107)'
    """
    low, typical, high = (size / capacity.typical for size in (total.low, total.typical, total.high))
    return f"{percent(typical)} ({100 * low:.0f}–{100 * high:.0f})"


def bisection(plan: Plan) -> Figure:
    """Bisection bandwidth for each GPU at each tier, one way."""
    return fabric_bisection(plan.fabric, plan.scenario)


def fabric_bisection(network: Fabric, scenario: Mapping[str, Any]) -> Figure:
    """The same for a fabric alone, of this scenario."""
    subtitle = "What crosses the worst equal halves at each tier, one way, for each GPU of what is cut"
    cuts = [cut for cut in network.bisection if cut.one_way is not None]
    if not cuts:
        return nothing("There is no fabric to cut in half.", subtitle)
    fabric = [cut for cut in cuts if cut.tier != "scale_up"]
    per_gpu = network.bisection_per_gpu
    if len(fabric) > 1 and fabric[0].one_way and fabric[-1].one_way:
        kept = fabric[-1].one_way.typical / fabric[0].one_way.typical
        whole = kept > 0.995
        title = "The fabric is non-blocking: every tier keeps the hosts' full bandwidth" if whole else ""
        title = title or f"The fabric tapers: the top tier keeps {style.share(kept)} of what the hosts can send"
        title += f", {with_range(per_gpu)} for each GPU" if per_gpu else ""
    else:
        cut_in_half = "the cluster" if fabric else "a scale-up domain"
        title = f"Half of {cut_in_half} can send the other half {with_range(cuts[-1].one_way)} one way"
    bars = [
        Bar(
            in_words(cut.tier, "cut"),
            cut.per_gpu,
            style_of(str(scenario["scale_up" if cut.tier == "scale_up" else "scale_out"])),
            f"{with_range(cut.per_gpu)}, in all {with_range(cut.one_way)}",
        )
        for cut in cuts
    ]
    return _bars(sentence(title), subtitle, bars, "Bisection bandwidth per GPU, one way")


def costs(plan: Plan) -> Figure:
    """Capital as a waterfall: each part goes on from the one before, quantity × price of one, and ends in the sum."""
    subtitle = "Capital part by part at typical prices, and their sum with its 80 % range"
    parts = list(capital_lines(plan))
    capital = plan.costs.capital
    if capital is None or not parts:
        return nothing("The price is not known.", subtitle)
    largest = max(parts, key=lambda line: line.cost.typical)
    share = style.share(largest.cost.typical / capital.typical)
    title = f"{named(largest.name)}: {share} of the capital, {with_range(capital)}"
    bars, base = [], 0.0
    for line in parts:
        price, sum_of_it = show(line.each, "USD"), show(line.cost.typical, "USD")
        unit = line.unit.partition(",")[0].partition(" of ")[0]
        said = f"{line.quantity:,.0f} {unit} × {price} = {sum_of_it}" if line.quantity > 1 else sum_of_it
        bars.append(Bar(named(line.name), line.cost, STYLES["money"], said, base))
        base += line.cost.typical
    bars.append(Bar("Together", capital, STYLES["accent"]))
    return _bars(sentence(title), subtitle, bars, "US dollars")


def operating(plan: Plan) -> Figure:
    """Running cost of a year, by part."""
    subtitle = "Running cost of one year by part, with 80 % ranges"
    return _money(
        plan.costs.operating, plan.costs.operating_parts, subtitle, "of a year's running cost", "US dollars a year"
    )


def _money(total: Band | None, lines: Sequence[Any], subtitle: str, of: str, axis: str = "US dollars") -> Figure:
    priced = [line for line in lines if line.cost is not None and line.cost.typical > 0]
    if total is None or not priced:
        return nothing("The price is not known.", subtitle)
    largest = max(priced, key=lambda line: line.cost.typical)
    share = largest.cost.typical / total.typical
    title = f"{named(largest.name)}: {style.share(share)} {of}, {with_range(total)}"
    bars = [Bar(named(line.name), line.cost, STYLES["money"]) for line in priced]
    return _bars(sentence(title), subtitle, bars, axis)


def power(plan: Plan) -> Figure:
    """Provisioned power by part, and what the cluster draws as a rule."""
    subtitle = "Electrical power of the cluster by part, provisioned; totals with 80 % ranges"
    whole, typical = plan.cluster.power, plan.cluster.typical_power
    parts = tables.power_parts(plan)
    if whole is None or not parts:
        return nothing("The power is not known.", subtitle)
    first, most = max(parts, key=lambda part: part[1].typical)
    title = f"{first} take {style.share(most.typical / whole.typical)} of {with_range(whole)}"
    network = resource_look("scale_out", plan)
    bars = [Bar(name, value, STYLES["compute"] if name == "Servers" else network) for name, value in parts]
    bars.append(Bar("Together, provisioned", whole, STYLES["accent"]))
    bars += [Bar("Together, typical under load", typical, STYLES["muted"])] if typical else []
    return _bars(sentence(title), subtitle, bars, "Power")


def all_reduce_alternatives(plan: Plan) -> Figure:
    """Time of the plan's own message by every algorithm."""
    return algorithms(plan.all_reduce)


def algorithms(reduce: AllReduce) -> Figure:
    """Time of one message by every algorithm."""
    subtitle = f"Time of one all-reduce of {show(reduce.message, 'B')} by algorithm, with 80 % ranges"
    timed = [entry for entry in reduce.alternatives if entry.time is not None]
    if reduce.time is None or not timed:
        return nothing("The all-reduce cannot be timed.", subtitle)
    ordered = sorted(timed, key=lambda entry: entry.time.typical if entry.time else 0.0)
    title = f"{in_words(reduce.algorithm, 'algorithm')} takes {with_range(reduce.time)} for {show(reduce.message, 'B')}"
    bars = [
        Bar(
            ", ".join(filter(None, (in_words(entry.algorithm, "algorithm"), in_words(entry.protocol, "protocol")))),
            entry.time,
            STYLES["accent"] if entry.algorithm == reduce.algorithm else STYLES["muted"],
        )
        for entry in ordered
    ]
    return _bars(sentence(title), subtitle, bars, "Time")


def configurations(plan: Plan) -> Figure:
    """Every way to run the model that the search kept: step time against memory."""
    subtitle = "Ways to run the model: step time against memory of the fullest GPU"
    step, total, capacity = plan.training.step_time, plan.memory.total, plan.memory.capacity
    points = [(time, size) for time, size in plan.training.cloud if time > 0 and size > 0]
    if step is None or total is None or not points:
        return nothing("No way to run the model was searched.", subtitle)
    slower = sum(time > step.typical * 1.05 for time, _ in points) / len(points)
    title = f"{plan.training.feasible:,} of {plan.training.searched:,} ways to run it fit"
    many = "all" if slower > 0.995 else style.share(slower)
    title += f"; {many} of those drawn are over 5 % slower than the plan's"
    times, sizes = np.array([time for time, _ in points]), np.array([size for _, size in points])
    low, high = float(min(times.min(), step.typical)) / 1.15, float(max(times.max(), step.typical)) * 1.15
    top = max(float(sizes.max()), total.typical, capacity.typical if capacity else 0.0)
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": times,
            "y": sizes,
            "marker": {"color": STYLES["compute"].colour, "size": 5, "opacity": 0.55},
            "hovertemplate": "step %{x:.3s}s, memory %{y:.3s}B<extra></extra>",
        },
        own_point(step.typical, total.typical),
    ]
    more: Values = {"annotations": [own_label("your plan", math.log10(step.typical), total.typical)]}
    if capacity:
        more["shapes"] = [across(capacity.typical)]
        more["annotations"].append(
            annotation(f"usable {show(capacity.typical, 'B')}", 1, capacity.typical, "right", "bottom", xref="paper")
        )
    return figure(
        sentence(title),
        subtitle,
        data,
        height=340,
        x=logarithmic("Time of one step", low, high, "s"),
        y=linear("Memory of one GPU", top, "B"),
        **more,
    )
