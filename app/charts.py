"""Plans and curves as Plotly figures, in one house style.

Every value a figure draws is the plan's own, in its base unit; only the text of the axes is written for people. The
title is the finding, computed from the data; the subtitle says what is plotted and in which unit. Both are plain text
in ``layout.title``, so that a page prints them as text beside the drawing.

Colours mean one thing each. They are named, not given: ``var(--chart-compute)`` stands for a custom property of the
style sheet, which the page fills in for the light or dark scheme. Patterns and dashes say the same without colour.

Plotly is imported when the first figure is made, so that the service starts quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app import exports
from app.catalog import current
from app.plan.bands import Band
from app.plan.parts import AllReduce, Fabric, Plan
from app.units import decades, marks, parse, percent, show, show_range, show_span

if TYPE_CHECKING:
    from plotly import graph_objects as go

    from app.curves import Cloud, Curve, Sensitivity, Series
    from app.size import Answer, Candidate

Values = dict[str, Any]

INK, MUTED, GRID, PAPER = (f"var(--chart-{name})" for name in ("ink", "muted", "grid", "paper"))
CLEAR = "rgba(0,0,0,0)"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
SIZE = 13
ROW = 46
VISIBLE = 5e-4
"""Parts below this share of the whole stand in the table alone."""
THICK, OFFSET = 0.36, 0.08
"""A bar within its row: its thickness, and where it begins below the middle, under its label."""
FOOT = 64


@dataclass(frozen=True)
class Look:
    """How one meaning is drawn: colour, pattern of areas, dash of lines."""

    colour: str
    pattern: str = ""
    dash: str = "solid"
    text: str = PAPER


def _named(name: str, pattern: str = "", dash: str = "solid", text: str = PAPER) -> Look:
    return Look(f"var(--chart-{name})", pattern, dash, text)


LOOKS: Mapping[str, Look] = {
    "compute": _named("compute"),
    "memory_bandwidth": _named("memory", "-"),
    "memory": _named("memory"),
    "nvlink": _named("scale-up", "\\"),
    "infinity-fabric": _named("scale-up", "\\"),
    "ualink": _named("scale-up", "\\"),
    "pcie": _named("pcie", "\\", "dashdot"),
    "infiniband": _named("infiniband", "/"),
    "omni-path": _named("infiniband", "/", "dot"),
    "slingshot": _named("ethernet", "/", "longdashdot"),
    "roce": _named("ethernet", "/", "dash"),
    "spectrum-x": _named("ethernet", "/", "dashdot"),
    "ultra-ethernet": _named("ethernet", "/", "longdash"),
    "efa": _named("ethernet", "/", "longdashdot"),
    "tcp": _named("ethernet", "/", "dot"),
    "gpudirect-tcp": _named("ethernet", "/", "dot"),
    "bubble": _named("idle", ".", text=INK),
    "overhead": _named("overhead", "x"),
    "money": _named("money"),
    "measured": _named("measured"),
    "accent": _named("accent"),
    "bad": _named("bad", "x"),
    "muted": _named("muted"),
    "ring": _named("muted", dash="solid"),
    "tree": _named("muted", dash="dash"),
    "nvls": _named("scale-up", dash="solid"),
    "nvls-tree": _named("scale-up", dash="dash"),
    "collnet": _named("infiniband", dash="dot"),
    "recursive-halving-doubling": _named("muted", dash="dot"),
    "hierarchical": _named("muted", dash="dashdot"),
    "quickest": _named("accent"),
}

RESOURCES = {
    "compute": "Compute",
    "memory_bandwidth": "Memory traffic",
    "scale_up": "Scale-up link",
    "scale_out": "Network",
    "bubble": "Pipeline idle",
    "overhead": "Overhead",
}


def look(name: str) -> Look:
    """The look of a meaning: a resource, or the key of a link or network."""
    for key in (name, *(family for family in LOOKS if name.startswith(f"{family}-"))):
        if key in LOOKS:
            return LOOKS[key]
    return LOOKS["muted"]


def resource_look(resource: str, plan: Plan) -> Look:
    """The look of a resource in this plan: its scale-up link and network have colours of their own."""
    if resource in ("scale_up", "scale_out"):
        return look(str(plan.scenario[resource]))
    return look(resource)


# House style ---------------------------------------------------------------------------------------------------------


def _figure(
    title: str, subtitle: str, data: Sequence[Values], *, height: int, x: Values, y: Values, **more: Any
) -> go.Figure:
    """A figure in the house style."""
    from plotly import graph_objects as go

    layout: Values = {
        "template": "none",
        "title": {"text": title, "subtitle": {"text": subtitle}, "x": 0, "xref": "container", "xanchor": "left"},
        "font": {"family": FONT, "size": SIZE, "color": INK},
        "height": height,
        "margin": {"l": 8, "r": 16, "t": 12, "b": 8},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": MUTED, "font": {"color": INK, "family": FONT}, "align": "left"},
        "dragmode": False,
        "modebar": {"bgcolor": CLEAR, "color": MUTED, "activecolor": INK, "orientation": "v"},
        "xaxis": {**_axis(), **x},
        "yaxis": {**_axis(), **y},
    }
    return go.Figure(data=list(data), layout={**layout, **more})


def _axis() -> Values:
    return {
        "automargin": True,
        "fixedrange": True,
        "showline": False,
        "zeroline": False,
        "gridcolor": GRID,
        "linecolor": MUTED,
        "tickcolor": MUTED,
        "ticklen": 0,
        "tickangle": 0,
        "title": {"standoff": 8, "font": {"size": SIZE, "color": MUTED}},
    }


def _titled(text: str, **more: Any) -> Values:
    return {"title": {"text": text, "standoff": 8, "font": {"size": SIZE, "color": MUTED}}, **more}


def _marked(spots: Sequence[tuple[float, str]]) -> Values:
    return {"tickvals": [value for value, _ in spots], "ticktext": [text for _, text in spots]}


def _linear(text: str, top: float, unit: str) -> Values:
    """A linear axis that starts at zero."""
    top = top if math.isfinite(top) and top > 0 else 1.0
    return _titled(text, range=[0, top * 1.04], **_marked(marks(0.0, top * 1.04, unit, 3)))


def _logarithmic(text: str, low: float, high: float, unit: str) -> Values:
    """A logarithmic axis; over less than a decade, with the marks of a linear one."""
    spots = decades(low, high, unit) if high / low > 8 else marks(low, high, unit, 4)
    return _titled(text, type="log", range=[math.log10(low), math.log10(high)], **_marked(spots))


def _counted(text: str, low: float, high: float) -> Values:
    """A logarithmic axis of counts, in powers of two."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(1, -(-(last - first) // 4))
    spots = [(float(2**power), f"{2**power:,}") for power in range(first, last + 1, step)]
    return _titled(text, type="log", range=[math.log10(low), math.log10(high)], **_marked(spots))


def _shaded(style: Look) -> Values:
    """The fill of a bar: its colour, and its pattern for those who do not see the colour."""
    pattern = {"shape": style.pattern, "fillmode": "overlay", "fgcolor": PAPER, "fgopacity": 0.45, "size": 7}
    return {"color": style.colour, "line": {"width": 0}, "pattern": pattern if style.pattern else {"shape": ""}}


def _text(value: Band | None) -> str:
    return "–" if value is None else show_range(value.low, value.typical, value.high, value.unit)


def _share(value: float) -> str:
    return f"under {percent(0.01)}" if 0 < value < 0.005 else percent(value)


def _sentence(text: str) -> str:
    """Upper-case first letter, one full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


# Bars ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One bar: its name, value with range, look, and what the label says when not the value itself."""

    name: str
    value: Band | None
    style: Look
    text: str = ""


def _bars(
    title: str, subtitle: str, bars: Sequence[Bar], axis: str, *, limit: Band | None = None, limit_name: str = ""
) -> go.Figure:
    """Horizontal bars with their ranges; each is labelled with its name and its value."""
    known = [bar.value for bar in bars if bar.value is not None]
    unit = known[0].unit if known else "1"
    top = max([value.high for value in known] + ([limit.typical] if limit else []), default=0.0)
    data: list[Values] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": bar.name,
            "x": [bar.value.typical if bar.value else None],
            "y": [row],
            "width": THICK,
            "offset": OFFSET,
            "marker": _shaded(bar.style),
            "error_x": _whisker(bar.value),
            "hovertemplate": f"{_plain(bar.name)}: {bar.text or _text(bar.value)}<extra></extra>",
        }
        for row, bar in enumerate(bars)
    ]
    notes = [_label(bar.name, bar.text or _text(bar.value), row) for row, bar in enumerate(bars)]
    more: Values = {"annotations": notes}
    if limit is not None:
        more["shapes"] = [_upright(limit.typical)]
        notes.append(_note(limit_name, limit.typical, 1, "right", "bottom", yref="paper", bgcolor=CLEAR))
        more["margin"] = {"l": 8, "r": 16, "t": 26, "b": 8}
    return _figure(
        title, subtitle, data, height=ROW * len(bars) + FOOT, x=_linear(axis, top, unit), y=_rows(len(bars)), **more
    )


def _rows(count: int) -> Values:
    """An axis of rows from the top down, each with a line of text above its bar."""
    return {"range": [count - 0.5, -0.5], "visible": False}


def _label(name: str, value: str, row: int) -> Values:
    """The line of text above a bar: names may be long and screens narrow."""
    text = f"{_plain(name)}  <b>{_plain(value)}</b>"
    where = {"xref": "paper", "yshift": 7, "bgcolor": CLEAR, "font": {"size": SIZE - 0.5, "color": INK}}
    return _note("", 0, row, "left", "middle", **where) | {"text": text}


def _whisker(value: Band | None) -> Values:
    if value is None or value.low == value.high:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [value.high - value.typical],
        "arrayminus": [value.typical - value.low],
        "color": INK,
        "thickness": 1.2,
        "width": 4,
    }


def _plain(text: str) -> str:
    """Text that Plotly takes as text, not as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _upright(x: float) -> Values:
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": INK, "width": 1.5}}


def _note(text: str, x: Any, y: Any, xanchor: str = "left", yanchor: str = "middle", **more: Any) -> Values:
    return {
        "text": _plain(text),
        "x": x,
        "y": y,
        "xanchor": xanchor,
        "yanchor": yanchor,
        "showarrow": False,
        "font": {"size": SIZE - 1, "color": INK},
        "bgcolor": PAPER,
        "borderpad": 2,
        **more,
    }


def _nothing(title: str, subtitle: str) -> go.Figure:
    """A figure for a plan that lacks these numbers: the findings say why."""
    empty = {"visible": False}
    note = _note("Not known: the findings say why.", 0.5, 0.5, "center", xref="paper", yref="paper")
    return _figure(title, subtitle, [], height=120, x=empty, y=empty, annotations=[note])


def _total(values: Iterable[Band | None]) -> float:
    return math.fsum(value.typical for value in values if value is not None)


# Figures of a plan ---------------------------------------------------------------------------------------------------


def step_breakdown(plan: Plan) -> go.Figure:
    """Where the time of one training step goes, one bar, by resource."""
    subtitle = "Time of one training step by the resource that bounds it, typical values"
    step = plan.training.step_time
    if step is None:
        return _nothing("The step cannot be timed.", subtitle)
    sums = {name: _total(part.time for part in plan.training.parts if part.resource == name) for name in RESOURCES}
    shares = {name: value / step.typical for name, value in sums.items()}
    first, second = sorted(shares, key=lambda name: -shares[name])[:2]
    title = f"{RESOURCES[first]} takes {_share(shares[first])} of the step, {RESOURCES[second].lower()} "
    title += f"{_share(shares[second])}."
    bars = [
        Bar(
            RESOURCES[name],
            Band(value, value, value, step.unit),
            resource_look(name, plan),
            f"{show(value, 's')}, {_share(shares[name])}",
        )
        for name, value in sums.items()
        if value > 0
    ]
    return _bars(title, subtitle, bars, "Time in one step")


def step_parts(plan: Plan) -> go.Figure:
    """Every part of the step with its range."""
    subtitle = "Parts of one training step that are not hidden behind others, with 80 % ranges"
    step = plan.training.step_time
    least = VISIBLE * step.typical if step else 0.0
    timed = [part for part in plan.training.parts if part.time is not None and part.time.typical > least]
    if step is None or not timed:
        return _nothing("The step cannot be timed.", subtitle)
    largest = max(timed, key=lambda part: part.time.typical if part.time else 0.0)
    share = largest.time.typical / step.typical if largest.time else 0.0
    title = f"{_words(largest.name)}: the largest part, {_text(largest.time)}, {_share(share)} of {_text(step)}"
    bars = [Bar(_words(part.name), part.time, resource_look(part.resource, plan)) for part in timed]
    return _bars(_sentence(title), subtitle, bars, "Time in one step")


def what_if(plan: Plan) -> go.Figure:
    """The step time after each resource is made better."""
    subtitle = "Time of one training step if one resource were that many times as good, with 80 % ranges"
    step = plan.training.step_time
    tried = [entry for entry in plan.bottleneck.what_if if entry.step_time is not None and entry.gain is not None]
    if step is None or not tried:
        return _nothing("The step cannot be timed.", subtitle)
    best = max(tried, key=lambda entry: entry.gain or 0.0)
    title = (
        f"{RESOURCES[best.resource]} {_times(best.factor)} as good would save {_share(best.gain or 0.0)} of the step"
    )
    bars = [Bar("As planned", step, LOOKS["accent"])]
    bars += [
        Bar(
            f"{RESOURCES[entry.resource]} × {entry.factor:g}",
            entry.step_time,
            resource_look(entry.resource, plan),
            f"{_text(entry.step_time)}, saves {_share(entry.gain or 0.0)}",
        )
        for entry in tried
    ]
    return _bars(_sentence(title), subtitle, bars, "Time of one step")


def _times(factor: float) -> str:
    return "twice" if factor == 2 else f"{factor:g} times"


def memory(plan: Plan) -> go.Figure:
    """Memory of the fullest GPU, by part, against what a program can use."""
    subtitle = "Memory of the fullest GPU by part, with 80 % ranges"
    total, capacity = plan.memory.total, plan.memory.capacity
    if total is None or capacity is None:
        return _nothing("The memory need is not known.", subtitle)
    if plan.memory.fits:
        title = f"Fits: {_text(total)} of {show(capacity.typical, 'B')} is in use"
    else:
        title = f"Does not fit: needs {_text(total)}, a GPU holds {show(capacity.typical, 'B')}"
    style = LOOKS["memory"]
    bars = [Bar(_words(part.name), part.size, style) for part in plan.memory.parts if part.size and part.size.typical]
    bars.append(Bar("Total", total, LOOKS["accent"] if plan.memory.fits else LOOKS["bad"]))
    limit = f"usable {show(capacity.typical, 'B')}"
    return _bars(_sentence(title), subtitle, bars, "Memory of one GPU", limit=capacity, limit_name=limit)


TIERS = {"scale_up": "Scale-up domain", "leaf": "Below the leaves", "spine": "Across leaves", "core": "Across spines"}


def bisection(plan: Plan) -> go.Figure:
    """Bisection bandwidth at each tier, one way."""
    return fabric_bisection(plan.fabric, plan.scenario)


def fabric_bisection(found: Fabric, scenario: Mapping[str, Any]) -> go.Figure:
    """The same for a fabric alone, of this scenario."""
    subtitle = (
        "Bandwidth across the worst equal halves at each tier, one way; vendors often quote both ways, twice this"
    )
    cuts = [cut for cut in found.bisection if cut.one_way is not None]
    if not cuts:
        return _nothing("There is no fabric to cut in half.", subtitle)
    fabric = [cut for cut in cuts if cut.tier != "scale_up"]
    per_gpu = found.bisection_per_gpu
    if len(fabric) > 1 and fabric[0].one_way and fabric[-1].one_way:
        kept = fabric[-1].one_way.typical / fabric[0].one_way.typical
        whole = kept > 0.995
        title = "The fabric is non-blocking: every tier keeps the hosts' full bandwidth" if whole else ""
        title = title or f"The fabric tapers: the top tier keeps {_share(kept)} of what the hosts can send"
        title += f", {_text(per_gpu)} for each GPU" if per_gpu else ""
    else:
        title = f"Half of the cluster can send the other half {_text(cuts[-1].one_way)} one way"
    bars = [
        Bar(
            TIERS.get(cut.tier, _words(cut.tier)),
            cut.one_way,
            look(str(scenario["scale_up" if cut.tier == "scale_up" else "scale_out"])),
        )
        for cut in cuts
    ]
    return _bars(_sentence(title), subtitle, bars, "Bisection bandwidth, one way")


def costs(plan: Plan) -> go.Figure:
    """Capital, by part."""
    return _money(plan.costs.capital, plan.costs.capital_parts, "Capital by part, with 80 % ranges", "of the capital")


def operating(plan: Plan) -> go.Figure:
    """Running cost of a year, by part."""
    subtitle = "Running cost of one year by part, with 80 % ranges"
    return _money(
        plan.costs.operating, plan.costs.operating_parts, subtitle, "of a year's running cost", "US dollars a year"
    )


def _money(total: Band | None, lines: Sequence[Any], subtitle: str, of: str, axis: str = "US dollars") -> go.Figure:
    priced = [line for line in lines if line.cost is not None and line.cost.typical > 0]
    if total is None or not priced:
        return _nothing("The price is not known.", subtitle)
    largest = max(priced, key=lambda line: line.cost.typical)
    share = largest.cost.typical / total.typical
    title = f"{_words(largest.name)}: {_share(share)} {of}, {_text(total)}"
    bars = [Bar(_words(line.name), line.cost, LOOKS["money"]) for line in priced]
    return _bars(_sentence(title), subtitle, bars, axis)


def power(plan: Plan) -> go.Figure:
    """Provisioned power by part, and what the cluster draws as a rule."""
    subtitle = "Electrical power of the cluster by part, provisioned; totals with 80 % ranges"
    whole, typical = plan.cluster.power, plan.cluster.typical_power
    parts = exports.power_parts(plan)
    if whole is None or not parts:
        return _nothing("The power is not known.", subtitle)
    first, most = max(parts, key=lambda part: part[1].typical)
    title = f"{first} take {_share(most.typical / whole.typical)} of {_text(whole)}"
    network = resource_look("scale_out", plan)
    bars = [Bar(name, value, LOOKS["compute"] if name == "Servers" else network) for name, value in parts]
    bars.append(Bar("Together, provisioned", whole, LOOKS["accent"]))
    bars += [Bar("Together, typical under load", typical, LOOKS["muted"])] if typical else []
    return _bars(_sentence(title), subtitle, bars, "Power")


def all_reduce_alternatives(plan: Plan) -> go.Figure:
    """Time of the plan's own message by every algorithm."""
    return algorithms(plan.all_reduce)


def algorithms(reduce: AllReduce) -> go.Figure:
    """Time of one message by every algorithm."""
    subtitle = f"Time of one all-reduce of {show(reduce.message, 'B')} by algorithm, with 80 % ranges"
    timed = [entry for entry in reduce.alternatives if entry.time is not None]
    if reduce.time is None or not timed:
        return _nothing("The all-reduce cannot be timed.", subtitle)
    ordered = sorted(timed, key=lambda entry: entry.time.typical if entry.time else 0.0)
    title = f"{algorithm_name(reduce.algorithm)} takes {_text(reduce.time)} for {show(reduce.message, 'B')}"
    bars = [
        Bar(
            f"{algorithm_name(entry.algorithm)}, {PROTOCOLS.get(entry.protocol, entry.protocol)}".rstrip(", "),
            entry.time,
            LOOKS["accent"] if entry.algorithm == reduce.algorithm else LOOKS["muted"],
        )
        for entry in ordered
    ]
    return _bars(_sentence(title), subtitle, bars, "Time")


ALGORITHMS = {
    "ring": "Ring",
    "tree": "Tree",
    "nvls": "NVLS",
    "nvls-tree": "NVLS tree",
    "collnet": "CollNet",
    "recursive-halving-doubling": "Halving-doubling",
    "hierarchical": "Hierarchical",
    "quickest": "Quickest",
}
PROTOCOLS = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}


def algorithm_name(key: str) -> str:
    """How an algorithm is called on pages."""
    return ALGORITHMS.get(key, key)


def _words(name: str) -> str:
    return name[:1].upper() + name[1:].replace("_", " ")


def cloud(plan: Plan) -> go.Figure:
    """Every way to run the model that the search kept: step time against memory."""
    subtitle = "Ways to run the model: step time against memory of the fullest GPU"
    step, total, capacity = plan.training.step_time, plan.memory.total, plan.memory.capacity
    points = [(time, size) for time, size in plan.training.cloud if time > 0 and size > 0]
    if step is None or total is None or not points:
        return _nothing("No way to run the model was searched.", subtitle)
    slower = sum(time > step.typical * 1.05 for time, _ in points) / len(points)
    title = f"{plan.training.feasible:,} of {plan.training.searched:,} ways to run it fit"
    title += f"; {_share(slower)} of those drawn are over 5 % slower than the plan's"
    times, sizes = np.array([time for time, _ in points]), np.array([size for _, size in points])
    low, high = float(min(times.min(), step.typical)) / 1.15, float(max(times.max(), step.typical)) * 1.15
    top = max(float(sizes.max()), total.typical, capacity.typical if capacity else 0.0)
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": times,
            "y": sizes,
            "marker": {"color": LOOKS["compute"].colour, "size": 5, "opacity": 0.55},
            "hovertemplate": "step %{x:.3s}s, memory %{y:.3s}B<extra></extra>",
        },
        _own_point(step.typical, total.typical),
    ]
    more: Values = {"annotations": [_own_label("your plan", math.log10(step.typical), total.typical)]}
    if capacity:
        more["shapes"] = [_across(capacity.typical)]
        more["annotations"].append(
            _note(f"usable {show(capacity.typical, 'B')}", 1, capacity.typical, "right", "bottom", xref="paper")
        )
    return _figure(
        _sentence(title),
        subtitle,
        data,
        height=340,
        x=_logarithmic("Time of one step", low, high, "s"),
        y=_linear("Memory of one GPU", top, "B"),
        **more,
    )


def _across(y: float) -> Values:
    return {
        "type": "line",
        "y0": y,
        "y1": y,
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "line": {"color": INK, "width": 1.2, "dash": "dot"},
    }


def _own_point(x: float, y: float) -> Values:
    """The planner's own case: a ring round a dot, always on top."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "your plan",
        "x": [x],
        "y": [y],
        "marker": {"symbol": "circle-dot", "size": 13, "color": LOOKS["accent"].colour, "line": {"width": 2}},
        "cliponaxis": False,
        "hovertemplate": "your plan<extra></extra>",
    }


def _own_label(text: str, x: float, y: float, place: float = 0.0) -> Values:
    """The name of the planner's own point, on its left where the point is far right (``place`` of 0 to 1)."""
    side = ("right", -8) if place > 0.5 else ("left", 8)
    return _note(text, x, y, side[0], "bottom", xshift=side[1], yshift=6, bgcolor=CLEAR)


# Curves --------------------------------------------------------------------------------------------------------------


def _band_area(series: Series, style: Look) -> Values | None:
    """The range of a line, as an area."""
    inside = np.isfinite(series.low) & np.isfinite(series.high)
    if not inside.any() or np.array_equal(series.low[inside], series.high[inside]):
        return None
    x = series.x[inside]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate((x, x[::-1])),
        "y": np.concatenate((series.high[inside], series.low[inside][::-1])),
        "fill": "toself",
        "fillcolor": style.colour,
        "opacity": 0.16,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _end_labels(
    ends: Sequence[tuple[str, float, str]], low: float, high: float, height: float, scale: Callable[[float], float]
) -> list[Values]:
    """Names at the right end of the lines, spread so that none covers another; ``ends`` is name, y, colour."""
    bottom, span = scale(low), scale(high) - scale(low)
    gap = 16 / height
    placed = sorted(((scale(y) - bottom) / span, name, colour) for name, y, colour in ends)
    spots = [min(max(place, 0.0), 1.0) for place, *_ in placed]
    for index in range(1, len(spots)):
        spots[index] = max(spots[index], spots[index - 1] + gap)
    over = max(spots[-1] - 1.0, 0.0) if spots else 0.0
    if over:
        spots[-1] -= over
        for index in range(len(spots) - 2, -1, -1):
            spots[index] = min(spots[index], spots[index + 1] - gap)
    return [
        _note(name, 1, spot, xref="paper", yref="paper", xshift=4, bgcolor=CLEAR)
        | {"font": {"color": colour, "size": 12}}
        for spot, (_, name, colour) in zip(spots, placed, strict=True)
    ]


def lines(curve: Curve, *, height: int = 380) -> go.Figure:
    """Lines with their ranges, names at their ends, and the planner's own case as a marked point."""
    drawn = [series for series in curve.series if np.isfinite(series.typical).any()]
    if not drawn:
        return _nothing(curve.title, curve.subtitle)
    low, high = _extent(drawn, curve.y_logarithmic)
    if curve.y_logarithmic and not low > 0:
        return _nothing(curve.title, curve.subtitle)
    high = min(high, 1.01) if curve.y_unit == "%" else high
    scale = math.log10 if curve.y_logarithmic else float
    places = np.concatenate([series.x[np.isfinite(series.typical)] for series in drawn])
    x_low, x_high = float(places.min()), float(places.max())
    any_strong = any(series.strong for series in drawn)
    data: list[Values] = []
    ends: list[tuple[str, float, str]] = []
    for series in drawn:
        style = look(series.look)
        colour = style.colour
        area = _band_area(series, style)
        if area:
            data.append(area | {"opacity": 0.16 if series.strong or not any_strong or len(drawn) < 5 else 0.06})
        known = np.isfinite(series.typical)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": series.name,
                "x": series.x,
                "y": series.typical,
                "line": {
                    "color": colour,
                    "dash": series.dash or style.dash,
                    "width": 3 if series.strong else 1.8,
                    "shape": "hv" if series.steps else "linear",
                },
                "hovertemplate": f"{_plain(series.name)}<br>{_hover(curve)}<extra></extra>",
            }
        )
        ends.append((series.name, float(series.typical[known][-1]), colour))
    plot_height = height - 80
    notes = _end_labels(ends, low, high, plot_height, scale)
    x_scale = math.log10 if curve.x_logarithmic else float
    if curve.own is not None:
        x, y = curve.own
        data.append(_own_point(x, y))
        place = (x_scale(x) - x_scale(x_low)) / (x_scale(x_high) - x_scale(x_low) or 1.0)
        notes.append(_own_label("your plan", x_scale(x), scale(y), place))
    shapes: list[Values] = []
    for mark in curve.marks:
        shapes.append({**_upright(mark.x), "line": {"color": MUTED, "width": 1, "dash": "dot"}})
        notes.append(
            _note(mark.text, x_scale(mark.x), 1, "left", "top", yref="paper", xshift=3, bgcolor=CLEAR)
            | {"font": {"size": 11, "color": MUTED}, "textangle": -90}
        )
    longest = max(len(series.name) for series in drawn)
    return _figure(
        curve.title,
        curve.subtitle,
        data,
        height=height,
        x=_axis_of(curve.x_name, curve.x_unit, x_low, x_high, curve.x_logarithmic),
        y=_axis_of(curve.y_name, curve.y_unit, low, high, curve.y_logarithmic),
        annotations=notes,
        shapes=shapes,
        margin={"l": 8, "r": min(16 + 7 * longest, 150), "t": 12, "b": 8},
        hovermode="x" if len(drawn) < 3 else "closest",
    )


def _hover(curve: Curve) -> str:
    """Plotly writes the numbers of a curve itself, with SI prefixes."""
    forms = {"B": ".3s}B", "B/s": ".3s}B/s", "s": ".3s}s", "GPUs": ",d}", "1": ".3g}", "USD": "$,.3s}", "%": ".1%}"}
    x, y = (forms.get(unit, ".3s}") for unit in (curve.x_unit, curve.y_unit))
    money = "$" if curve.y_unit == "USD" else ""
    return f"%{{x:{x}: {money}%{{y:{y.removeprefix('$')}"


def _extent(drawn: Sequence[Series], logarithmic: bool) -> tuple[float, float]:
    """The least and greatest value to show, with air: all lines, and the ranges of those that matter."""
    matter = [series for series in drawn if series.strong] or drawn
    values = np.concatenate([series.typical for series in drawn] + [end for s in matter for end in (s.low, s.high)])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if logarithmic:
        return low / 1.15, high * 1.25
    return (0.0 if low < 0.5 * high else low - 0.5 * (high - low) - 0.02 * high), high * 1.04 or 1.0


def _axis_of(name: str, unit: str, low: float, high: float, logarithmic: bool) -> Values:
    if unit == "GPUs":
        return _counted(name, low, high)
    if unit == "%":
        spots = [(place, percent(place)) for place, _ in marks(low, high, "1")]
        return _titled(name, range=[low, high], **_marked(spots))
    if logarithmic:
        return _logarithmic(name, low, high, unit)
    return _titled(name, range=[low, high], **_marked(marks(low, high, unit)))


def all_reduce_curves(curve: Curve) -> go.Figure:
    """Time or bandwidth of an all-reduce against message size or GPU count, a line for each algorithm."""
    return lines(curve, height=420)


def cost_per_port(curve: Curve) -> go.Figure:
    """Cost of a network port against the size of the cluster, a line for each network generation."""
    return lines(curve, height=440)


def scaling(curve: Curve) -> go.Figure:
    """Scaling efficiency against GPU count."""
    return lines(curve)


def tail(curve: Curve) -> go.Figure:
    """Step time against the tail latency of one node."""
    return lines(curve)


# Tornado, clouds of points -------------------------------------------------------------------------------------------


def tornado(sensitivity: Sensitivity) -> go.Figure:
    """Which inputs move the answer most, each through its own range."""
    subtitle = f"{sensitivity.name} when one input moves through its 80 % range, the others typical"
    swings = sensitivity.swings
    if not swings:
        return _nothing("Nothing uncertain moves this result.", subtitle)
    first = swings[0]
    name = sensitivity.name[:1].lower() + sensitivity.name[1:]
    title = f"{first.name} moves the {name} most: {show_span(first.low, first.high, sensitivity.unit)}"
    low, high = min(swing.low for swing in swings), max(swing.high for swing in swings)
    room = (high - low) * 0.06 or abs(high) * 0.01 or 1.0
    low, high = low - room, high + room
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": swing.name,
            "base": [swing.low],
            "x": [swing.high - swing.low],
            "y": [row],
            "width": THICK,
            "offset": OFFSET,
            "marker": _shaded(look(swing.look)),
            "hovertemplate": f"{_plain(swing.name)}<extra></extra>",
        }
        for row, swing in enumerate(swings)
    ]
    return _figure(
        _sentence(title),
        subtitle,
        data,
        height=ROW * len(swings) + FOOT,
        x=_titled(sensitivity.name, range=[low, high], **_marked(marks(low, high, sensitivity.unit, 3))),
        y=_rows(len(swings)),
        annotations=[
            _label(swing.name, show_span(swing.low, swing.high, sensitivity.unit), row)
            for row, swing in enumerate(swings)
        ],
        shapes=[_upright(sensitivity.typical)],
    )


def pareto(answer: Answer, deadline: float | None = None, budget: float | None = None) -> go.Figure:
    """The clusters that no other beats in both time and cost; a point's custom data is the query of its plan."""
    subtitle = "Cost against time to train: each point is a cluster that no other beats in both"
    front = [one for one in answer.front if math.isfinite(one.cost) and math.isfinite(one.time_to_train)]
    if not front:
        return _nothing("No cluster of those tried does this job.", subtitle)
    times, money = [one.time_to_train for one in front], [one.cost for one in front]
    x_low, x_high = min(times + ([deadline] if deadline else [])), max(times + ([deadline] if deadline else []))
    y_low, y_high = min(money + ([budget] if budget else [])), max(money + ([budget] if budget else []))
    x_low, x_high, y_low, y_high = x_low / 1.2, x_high * 1.2, y_low / 1.15, y_high * 1.25
    names = [_cluster(one) for one in front]
    texts = [f"{show(one.time_to_train, 's')}, {show(one.cost, 'USD')}" for one in front]
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": times,
            "y": money,
            "text": [f"{_plain(name)}<br>{text}" for name, text in zip(names, texts, strict=True)],
            "customdata": [one.query for one in front],
            "line": {"color": MUTED, "width": 1, "shape": "vh"},
            "marker": {
                "size": 10,
                "color": [look(one.scale_out).colour for one in front],
                "symbol": ["circle" if one.meets else "circle-open" for one in front],
            },
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]
    chosen = {"cheapest": answer.cheapest, "fastest": answer.fastest, "best value": answer.best_value}
    notes: list[Values] = []
    for index, (name, one) in enumerate(chosen.items()):
        if one is not None:
            x, y = math.log10(one.time_to_train), math.log10(one.cost)
            notes.append(_note(name, x, y, "left", "bottom", xshift=6, yshift=4 + 14 * index, bgcolor=CLEAR))
    shapes = [_upright(deadline) | {"line": {"color": INK, "width": 1.2, "dash": "dot"}}] if deadline else []
    shapes += [_across(budget)] if budget else []
    if deadline:
        notes.append(_note(f"deadline {show(deadline, 's')}", math.log10(deadline), 1, "right", "top", yref="paper"))
    if budget:
        notes.append(_note(f"budget {show(budget, 'USD')}", 0, math.log10(budget), "left", "bottom", xref="paper"))
    return _figure(
        _sentence(_pareto_title(answer, texts)),
        subtitle,
        data,
        height=420,
        x=_logarithmic("Time to train", x_low, x_high, "s") | _days(x_low, x_high),
        y=_logarithmic("Cost", y_low, y_high, "USD"),
        annotations=notes,
        shapes=shapes,
    )


def _pareto_title(answer: Answer, texts: Sequence[str]) -> str:
    """Which cluster to take, or how far the choice reaches."""
    best = answer.cheapest
    if answer.message or best is None:
        return answer.message or f"The choice reaches from {texts[0]} to {texts[-1]}"
    outcome = f"{show(best.time_to_train, 's', 2)}, {show(best.cost, 'USD', 2)}"
    return f"Cheapest that meets the limits: {_cluster(best)}, {outcome}"


def _cluster(one: Candidate) -> str:
    known = current()
    return f"{one.gpus:,} × {known.gpus[one.gpu].name}, {known.scale_out[one.scale_out].name}"


def _days(low: float, high: float) -> Values:
    """Marks for an axis of long times, in days."""
    counts = [digit * 10.0**power for power in range(-1, 5) for digit in (1, 2, 5)]
    texts = [(parse(f"{count:g} d", "s"), f"{count:g} d") for count in counts]
    return _marked([(value, text) for value, text in texts if low <= value <= high])


def accuracy(cloud: Cloud) -> go.Figure:
    """Predicted against measured, one point for each measurement, on equal logarithmic axes."""
    groups = [group for group in cloud.groups if group.measured.size]
    if not groups:
        return _nothing(cloud.title, cloud.subtitle)
    every = np.concatenate([np.concatenate((group.measured, group.predicted)) for group in groups])
    low, high = float(every.min()) / 1.3, float(every.max()) * 1.3
    symbols = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
    diagonal = np.array([low, high])
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": np.concatenate((diagonal, diagonal[::-1])),
            "y": np.concatenate((diagonal * (1 + cloud.tolerance), diagonal[::-1] / (1 + cloud.tolerance))),
            "fill": "toself",
            "fillcolor": MUTED,
            "opacity": 0.18,
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": diagonal,
            "y": diagonal,
            "line": {"color": MUTED, "width": 1},
            "hoverinfo": "skip",
            "showlegend": False,
        },
    ]
    data += [
        {
            "type": "scatter",
            "mode": "markers",
            "name": group.name,
            "x": group.measured,
            "y": group.predicted,
            "text": list(group.labels),
            "marker": {
                "symbol": symbols[index % len(symbols)],
                "size": 6,
                "opacity": 0.6,
                "color": look(group.look).colour,
            },
            "hovertemplate": "%{text}<br>measured %{x:.3s}s, predicted %{y:.3s}s<extra></extra>",
            "showlegend": True,
        }
        for index, group in enumerate(groups)
    ]
    axes = {"range": [math.log10(low), math.log10(high)]}
    return _figure(
        cloud.title,
        cloud.subtitle,
        data,
        height=480,
        x=_logarithmic("Measured", low, high, "s") | axes,
        y=_logarithmic("Predicted", low, high, "s") | axes,
        showlegend=True,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0, "font": {"size": 12}},
    )
