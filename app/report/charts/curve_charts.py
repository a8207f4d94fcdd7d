"""Charts of curves, of what moves a result most, and of time against money."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from plotly import graph_objects as go

from app.catalog.load import Catalog
from app.report.charts import style
from app.report.charts.style import (
    CLEAR,
    FOOT,
    INK,
    MUTED,
    OFFSET,
    ROW,
    THICK,
    Style,
    Values,
    across,
    annotation,
    counted,
    figure,
    label,
    marked,
    nothing,
    own_label,
    own_point,
    plain,
    rows,
    sentence,
    shaded,
    style_of,
    titled,
    upright,
)
from app.studies.curve import Curve, Mark, Series
from app.studies.sensitivity import Sensitivity
from app.studies.sizing import Answer, Candidate
from app.units import marks, parse, percent, show, show_span

# Curves --------------------------------------------------------------------------------------------------------------


def _band_area(series: Series, style: Style) -> Values | None:
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
        annotation(name, 1, spot, xref="paper", yref="paper", xshift=4, bgcolor=CLEAR)
        | {"font": {"color": colour, "size": 12}}
        for spot, (_, name, colour) in zip(spots, placed, strict=True)
    ]


def lines(curve: Curve, *, height: int = 380) -> go.Figure:
    """Lines with their ranges, names at their ends, and the planner's own case as a marked point."""
    drawn = [series for series in curve.series if np.isfinite(series.typical).any()]
    if not drawn:
        return nothing(curve.title, curve.subtitle)
    low, high = _extent(drawn, curve.y_logarithmic)
    if curve.y_logarithmic and not low > 0:
        return nothing(curve.title, curve.subtitle)
    high = min(high, 1.01) if curve.y_unit == "%" else high
    scale = math.log10 if curve.y_logarithmic else float
    places = np.concatenate([series.x[np.isfinite(series.typical)] for series in drawn])
    x_low, x_high = float(places.min()), float(places.max())
    crowded = len(drawn) > 4 and any(series.strong for series in drawn)
    data = [trace for series in drawn for trace in _traces(series, curve, crowded)]
    ends = [
        (series.name, float(series.typical[np.isfinite(series.typical)][-1]), style_of(series.look).colour)
        for series in drawn
    ]
    notes = _end_labels(ends, low, high, height - 80, scale)
    x_scale = math.log10 if curve.x_logarithmic else float
    if curve.own is not None:
        x, y = curve.own
        data.append(own_point(x, y))
        place = (x_scale(x) - x_scale(x_low)) / (x_scale(x_high) - x_scale(x_low) or 1.0)
        notes.append(own_label("your plan", x_scale(x), scale(y), place))
    notes += [_mark_label(mark, x_scale) for mark in curve.marks]
    longest = max(len(series.name) for series in drawn)
    return figure(
        curve.title,
        curve.subtitle,
        data,
        height=height,
        x=_axis_of(curve.x_name, curve.x_unit, x_low, x_high, curve.x_logarithmic),
        y=_axis_of(curve.y_name, curve.y_unit, low, high, curve.y_logarithmic),
        annotations=notes,
        shapes=[upright(mark.x) | {"line": {"color": MUTED, "width": 1, "dash": "dot"}} for mark in curve.marks],
        margin={"l": 8, "r": min(16 + 7 * longest, 150), "t": 12, "b": 8},
        hovermode="x" if len(drawn) < 3 else "closest",
    )


def _traces(series: Series, curve: Curve, crowded: bool) -> Iterator[Values]:
    """A line over its range; where lines crowd, the ranges of those that matter less step back."""
    style = style_of(series.look)
    if area := _band_area(series, style):
        yield area | {"opacity": 0.06 if crowded and not series.strong else 0.16}
    yield {
        "type": "scatter",
        "mode": "lines",
        "name": series.name,
        "x": series.x,
        "y": series.typical,
        "line": {
            "color": style.colour,
            "dash": series.dash or style.dash,
            "width": 3 if series.strong else 1.8,
            "shape": "hv" if series.steps else "linear",
        },
        "hovertemplate": f"{plain(series.name)}<br>{_hover(curve)}<extra></extra>",
    }


def _mark_label(mark: Mark, scale: Callable[[float], float]) -> Values:
    """What changes at a place of the x axis, written upwards beside it."""
    note = annotation(mark.text, scale(mark.x), 1, "left", "top", yref="paper", xshift=3, bgcolor=CLEAR)
    return note | {"font": {"size": 11, "color": MUTED}, "textangle": -90}


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
        return counted(name, low, high)
    if unit == "%":
        spots = [(place, percent(place)) for place, _ in marks(low, high, "1")]
        return titled(name, range=[low, high], **marked(spots))
    if logarithmic:
        return style.logarithmic(name, low, high, unit)
    return titled(name, range=[low, high], **marked(marks(low, high, unit)))


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
        return nothing("Nothing uncertain moves this result.", subtitle)
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
            "marker": shaded(style_of(swing.look)),
            "hovertemplate": f"{plain(swing.name)}<extra></extra>",
        }
        for row, swing in enumerate(swings)
    ]
    return figure(
        sentence(title),
        subtitle,
        data,
        height=ROW * len(swings) + FOOT,
        x=titled(sensitivity.name, range=[low, high], **marked(marks(low, high, sensitivity.unit, 3))),
        y=rows(len(swings)),
        annotations=[
            label(swing.name, show_span(swing.low, swing.high, sensitivity.unit), row)
            for row, swing in enumerate(swings)
        ],
        shapes=[upright(sensitivity.typical)],
    )


def pareto(answer: Answer, catalog: Catalog, deadline: float | None = None, budget: float | None = None) -> go.Figure:
    """The clusters that no other beats in both time and cost; a point's custom data is the query of its plan."""
    subtitle = "Cost against time to train: each point is a cluster that no other beats in both"
    front = [one for one in answer.front if math.isfinite(one.cost) and math.isfinite(one.time_to_train)]
    if not front:
        return nothing("No cluster of those tried does this job.", subtitle)
    times, money = [one.time_to_train for one in front], [one.cost for one in front]
    x_low, x_high = min(times + ([deadline] if deadline else [])), max(times + ([deadline] if deadline else []))
    y_low, y_high = min(money + ([budget] if budget else [])), max(money + ([budget] if budget else []))
    x_low, x_high, y_low, y_high = x_low / 1.2, x_high * 1.2, y_low / 1.15, y_high * 1.25
    names = [_cluster(one, catalog) for one in front]
    texts = [f"{show(one.time_to_train, 's')}, {show(one.cost, 'USD')}" for one in front]
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": times,
            "y": money,
            "text": [f"{plain(name)}<br>{text}" for name, text in zip(names, texts, strict=True)],
            "customdata": [one.query for one in front],
            "line": {"color": MUTED, "width": 1, "shape": "vh"},
            "marker": {
                "size": 10,
                "color": [style_of(one.scale_out).colour for one in front],
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
            notes.append(annotation(name, x, y, "left", "bottom", xshift=6, yshift=4 + 14 * index, bgcolor=CLEAR))
    shapes = [upright(deadline) | {"line": {"color": INK, "width": 1.2, "dash": "dot"}}] if deadline else []
    shapes += [across(budget)] if budget else []
    if deadline:
        notes.append(
            annotation(f"deadline {show(deadline, 's')}", math.log10(deadline), 1, "right", "top", yref="paper")
        )
    if budget:
        notes.append(annotation(f"budget {show(budget, 'USD')}", 0, math.log10(budget), "left", "bottom", xref="paper"))
    return figure(
        sentence(_pareto_title(answer, texts, catalog)),
        subtitle,
        data,
        height=420,
        x=style.logarithmic("Time to train", x_low, x_high, "s") | _days(x_low, x_high),
        y=style.logarithmic("Cost", y_low, y_high, "USD"),
        annotations=notes,
        shapes=shapes,
    )


def _pareto_title(answer: Answer, texts: Sequence[str], catalog: Catalog) -> str:
    """Which cluster to take, or how far the choice reaches."""
    best = answer.cheapest
    if answer.message or best is None:
        return answer.message or f"The choice reaches from {texts[0]} to {texts[-1]}"
    outcome = f"{show(best.time_to_train, 's', 2)}, {show(best.cost, 'USD', 2)}"
    return f"Cheapest that meets the limits: {_cluster(best, catalog)}, {outcome}"


def _cluster(one: Candidate, catalog: Catalog) -> str:
    return f"{one.gpus:,} × {catalog.gpus[one.gpu].name}, {catalog.scale_out[one.scale_out].name}"


def _days(low: float, high: float) -> Values:
    """Marks for an axis of long times, in days."""
    counts = [digit * 10.0**power for power in range(-1, 5) for digit in (1, 2, 5)]
    texts = [(parse(f"{count:g} d", "s"), f"{count:g} d") for count in counts]
    return marked([(value, text) for value, text in texts if low <= value <= high])
