"""Charts of curves, of what moves a result most, and of time against money."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.catalog.load import Catalog
from app.formulas.arrays import rounded
from app.plan.declarations import declared
from app.report.charts import style
from app.report.charts.style import (
    CLEAR,
    FOOT,
    INK,
    LEGEND,
    MUTED,
    OFFSET,
    ROW,
    THICK,
    Figure,
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
from app.studies.chances import Likely
from app.studies.cluster_rows import TAPERS, ClusterRows
from app.studies.curve import Curve, Floats, Mark, Series
from app.studies.sensitivity import Sensitivity
from app.studies.sizing import Answer, Candidate
from app.studies.step_kernels import Kernel, Roofline
from app.studies.whole_catalog import Cloud, Spot
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


NARROW = 290.0
"""Pixels that a plot is wide on a phone: what does not touch there touches nowhere."""
FAR = 90.0
"""Farther apart is no better, in pixels."""
FLAT = 0.01
"""Less than this share of the greatest value lies on the axis."""
ONE, SHARED = 3.0, 60.0
"""Lines less apart look like one, in pixels; what a name loses by standing beside such a one."""
LETTER, LINE = 7.0, 15.0
"""Room of a letter and of a line of text, in pixels."""


@dataclass(frozen=True)
class _Box:
    """Room that words take, in pixels from the lower left end of a plot."""

    left: float
    right: float
    middle: float

    def apart(self, other: "_Box") -> float:
        """How far two boxes are from each other, up or down; far where they lie side by side."""
        disjoint = self.right < other.left or other.right < self.left
        return math.inf if disjoint else abs(self.middle - other.middle) - LINE


def _names(
    drawn: Sequence[Series],
    written: Sequence[_Box],
    across: Callable[[float], float],
    up: Callable[[float], float],
    height: float,
) -> list[Values]:
    """Names of lines, each beside its line where the others, and what is ``written`` there already, are farthest.

    A line that lies under a strong one all along has none: beside others it would seem to be theirs.

    ``across`` and ``up`` say which share of the plot's width and height a value is at.
    """
    lines = {
        series.name: (
            np.array([NARROW * across(float(x)) for x in series.x[np.isfinite(series.typical)]]),
            np.array([height * up(float(y)) for y in series.typical[np.isfinite(series.typical)]]),
        )
        for series in drawn
    }
    taken = list(written)
    names = []
    strong = [lines[series.name] for series in drawn if series.strong]
    for series in sorted(drawn, key=lambda line: not line.strong):
        if not series.strong and any(_is_covered(lines[series.name], other) for other in strong):
            continue
        rooms = list(_rooms(series.name, lines, height, taken))
        if not rooms:
            continue
        room = max(rooms, key=lambda scored: scored[0])[1]
        taken.append(room)
        middle = (room.left + room.right) / 2 / NARROW
        side = "left" if middle < 1 / 3 else "right" if middle > 2 / 3 else "center"
        place = {"left": room.left, "right": room.right, "center": middle * NARROW}[side] / NARROW
        note = annotation(series.name, place, room.middle / height, side, xref="paper", yref="paper", bgcolor=CLEAR)
        names.append(note | {"font": {"color": style_of(series.look).colour, "size": 12}})
    return names


def _is_covered(line: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> bool:
    """Whether a line looks like one with another from end to end."""
    x, y = line
    return bool(abs(np.interp(x, *other, left=-1e9, right=-1e9) - y).max() <= ONE)


def _beside(text: str, x: float, y: float, written: Sequence[_Box]) -> _Box:
    """Room of the name of the planner's own point, see `style.own_label`: towards the middle of the plot, or on the
    other side where that is taken and this is not.
    """
    wide = LETTER * len(text)
    sides = [_Box(left, left + wide, y + 6 + LINE / 2) for left in (x + 8, x - 8 - wide)]
    inward, outward = sides if x <= NARROW / 2 else sides[::-1]
    fits = outward.left >= 0 and outward.right <= NARROW
    out_free, in_free = (all(side.apart(box) >= 0 for box in written) for side in (outward, inward))
    return outward if fits and out_free and not in_free else inward


def _upright(text: str, left: float, height: float) -> Iterator[_Box]:
    """Room of words that are written upwards from the top of a plot, a line's height at a time."""
    for line in range(math.ceil(LETTER * len(text) / LINE)):
        yield _Box(left, left + LINE + 3, height - LINE * (line + 0.5))


def _rooms(
    name: str, lines: Mapping[str, tuple[Floats, Floats]], height: float, taken: Sequence[_Box]
) -> Iterator[tuple[float, _Box]]:
    """Places for a line's name along it, above and below, and how good each is: the pixels to what is nearest.

    Where other lines lie on this one, the name could be theirs: each of them counts as ``SHARED`` pixels nearer, and
    words that stand there already as three.
    """
    x, y = lines[name]
    wide = LETTER * len(name) + 6
    for middle in np.linspace(x[0], x[-1], 25):
        left = min(max(middle - wide / 2, 2.0), NARROW - wide)
        span = np.linspace(left, left + wide, 7)
        heights = np.interp(span, x, y)
        others = [np.interp(span, *line, left=-1e9, right=-1e9) for key, line in lines.items() if key != name]
        apart = [other for other in others if abs(other - heights).max() > ONE]
        shared = len(others) - len(apart)
        for side in (heights.max() + 10, heights.min() - 10):
            box = _Box(left, left + wide, float(side))
            if not LINE / 2 <= box.middle <= height - LINE / 2:
                continue
            written = [box.apart(other) for other in taken]
            steep = float(heights.max() - heights.min())
            clear = min([FAR, *(abs(other - box.middle).min() - LINE / 2 for other in apart), *written])
            yield clear - 0.6 * steep - SHARED * (shared + 3 * (min(written, default=0.0) < 0)), box


def _begin(drawn: Sequence[Series], plan_point: tuple[float, float] | None) -> float:
    """From where on lines over an axis from zero are told from it; the planner's ``own`` case is not left out."""
    greatest = max(float(np.nanmax(series.typical)) for series in drawn)
    flat = [series.x[: np.argmax(~(series.typical < FLAT * greatest))] for series in drawn]
    risen = [float(x[-1] if x.size else series.x[0]) for x, series in zip(flat, drawn, strict=True)]
    return min([*risen, *([plan_point[0]] if plan_point else [])])


def _from(series: Series, begin: float) -> Series:
    """A line without what lies before a place."""
    kept = series.x >= begin
    ends = {name: getattr(series, name)[kept] for name in ("x", "typical", "low", "high")}
    return replace(series, **ends)


def lines(curve: Curve, *, height: int = 380, legend: bool = False) -> Figure:
    """Lines with their ranges and names, and the planner's own case as a marked point.

    Names stand beside the lines, or as a ``legend`` above lines that are nowhere far enough apart.
    """
    drawn = [series for series in curve.series if np.isfinite(series.typical).any()]
    if not drawn:
        return nothing(curve.title, curve.subtitle)
    begin = -math.inf if curve.y_logarithmic else _begin(drawn, curve.plan_point)
    drawn = [_from(series, begin) for series in (*drawn, *([curve.ceiling] if curve.ceiling else []))]
    low, high = _extent(drawn, curve.y_logarithmic, curve.plan_point)
    if curve.y_logarithmic and not low > 0:
        return nothing(curve.title, curve.subtitle)
    high = min(high, 1.01) if curve.y_unit == "%" else high
    scale = math.log10 if curve.y_logarithmic else float
    own_x = [] if curve.plan_point is None else [curve.plan_point[0]]
    places = np.concatenate([own_x, *(series.x[np.isfinite(series.typical)] for series in drawn)])
    x_low, x_high = float(places.min()), float(places.max())
    if x_low == x_high:  # a single point stands between
        x_low, x_high = x_low * 0.9, x_high * 1.1 or 1.0
    crowded = len(drawn) > 4 and any(series.strong for series in drawn)
    data = [trace for series in drawn for trace in _traces(series, curve, crowded, legend)]
    x_scale = math.log10 if curve.x_logarithmic else float

    def across(x: float) -> float:
        return (x_scale(x) - x_scale(x_low)) / (x_scale(x_high) - x_scale(x_low) or 1.0)

    def up(y: float) -> float:
        return (scale(y) - scale(low)) / (scale(high) - scale(low))

    inner = height - 76.0
    written = [box for mark in curve.marks for box in _upright(mark.text, NARROW * across(mark.x), inner)]
    notes = []
    if curve.plan_point is not None:
        x, y = curve.plan_point
        data.append(own_point(x, y))
        of_plan = _beside("your plan", NARROW * across(x), inner * up(y), written)
        notes.append(own_label("your plan", x_scale(x), scale(y), leftward=of_plan.left < NARROW * across(x)))
        written.append(of_plan)
    if len(drawn) > 1 and not legend:  # a single line has the title
        notes += _names(drawn, written, across, up, inner)
    notes += [_mark_label(mark, x_scale) for mark in curve.marks]
    return figure(
        curve.title,
        curve.subtitle,
        data,
        height=height,
        x=_axis_of(curve.x_name, curve.x_unit, x_low, x_high, curve.x_logarithmic),
        y=_axis_of(curve.y_name, curve.y_unit, low, high, curve.y_logarithmic),
        annotations=notes,
        shapes=[upright(mark.x) | {"line": {"color": MUTED, "width": 1, "dash": "dot"}} for mark in curve.marks],
        hovermode="x" if len(drawn) < 3 else "closest",
        **(LEGEND if legend else {}),
    )


def _traces(series: Series, curve: Curve, crowded: bool, legend: bool) -> Iterator[Values]:
    """A line over its range; where lines crowd, only those that matter most have theirs, the others in the table."""
    style = style_of(series.look)
    if (area := _band_area(series, style)) and (series.strong or not crowded):
        yield area | {"opacity": 0.16} | ({"showlegend": False} if legend else {})
    line: Values = {
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
    yield line | ({"showlegend": True} if legend else {})


def _mark_label(mark: Mark, scale: Callable[[float], float]) -> Values:
    """What changes at a place of the x axis, written upwards beside it."""
    note = annotation(mark.text, scale(mark.x), 1, "left", "top", yref="paper", xshift=3, bgcolor=CLEAR)
    return note | {"font": {"size": 12, "color": MUTED}, "textangle": -90}


def _hover(curve: Curve) -> str:
    """Plotly writes the numbers of a curve itself, with SI prefixes."""
    forms = {"B": ".3s}B", "B/s": ".3s}B/s", "s": ".3s}s", "GPUs": ",d}", "1": ".3g}", "USD": "$,.3s}", "%": ".1%}"}
    x, y = (forms.get(unit, ".3s}") for unit in (curve.x_unit, curve.y_unit))
    money = "$" if curve.y_unit == "USD" else ""
    return f"%{{x:{x}: {money}%{{y:{y.removeprefix('$')}"


def _extent(drawn: Sequence[Series], logarithmic: bool, plan_point: tuple[float, float] | None) -> tuple[float, float]:
    """The least and greatest value to show, with air: all lines, ranges of those that matter, and the plan's own."""
    matter = [series for series in drawn if series.strong] or drawn
    ends = [end for series in matter for end in (series.low, series.high)]
    values = np.concatenate(
        [[] if plan_point is None else [plan_point[1]], *(series.typical for series in drawn), *ends]
    )
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


def all_reduce_curves(curve: Curve) -> Figure:
    """Time or bandwidth of an all-reduce against message size or GPU count, a line for each algorithm."""
    return lines(curve, height=420)


def cost_per_port(curve: Curve) -> Figure:
    """Cost of a network port against the size of the cluster, a line for each network generation."""
    return lines(curve, height=440)


def buy_or_rent(curve: Curve) -> Figure:
    """Cost of a GPU-hour in use against the share of the time in use, a line for each way to have GPUs."""
    return lines(curve, height=440, legend=True)


def scaling(curve: Curve) -> Figure:
    """Scaling efficiency against GPU count."""
    return lines(curve)


def tail(curve: Curve) -> Figure:
    """Step time against the tail latency of one node."""
    return lines(curve)


# Tornado, clouds of points -------------------------------------------------------------------------------------------


def tornado(sensitivity: Sensitivity) -> Figure:
    """Which inputs move the answer most, each through its own range."""
    subtitle = f"{sensitivity.name} when one input moves through its 80 % range, the others typical"
    swings = sensitivity.swings
    if not swings:
        return nothing("Nothing uncertain moves this result.", subtitle)
    first = swings[0]
    what, _, whose = (sensitivity.name[:1].lower() + sensitivity.name[1:]).partition(", ")
    name = f"{whose} {what}".strip()  # "cost of this run, owned"
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
        shapes=[
            upright(sensitivity.typical) | {"yref": "y", "y0": row + OFFSET, "y1": row + OFFSET + THICK + 0.1}
            for row in range(len(swings))
        ],
    )


def roofline(gpu_roofline: Roofline) -> Figure:
    """Kernels below the roof of their GPU, each as large as the time that it takes."""
    kernels = gpu_roofline.kernels
    whole = math.fsum(kernel.time for kernel in kernels)
    subtitle = (
        f"Kernels of a step on one {gpu_roofline.gpu}: operations a second against operations for each byte moved at "
    )
    subtitle += "least; a circle grows with its time, the line is the roof"
    places = [kernel.intensity for kernel in kernels]
    x_low, x_high = min(*places, gpu_roofline.ridge) / 3, max(*places, gpu_roofline.ridge) * 3
    y_low, y_high = min(kernel.rate for kernel in kernels) / 3, gpu_roofline.peak * 2
    ends = [x_low, gpu_roofline.ridge, x_high]
    data: list[Values] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "roof",
            "x": ends,
            "y": [gpu_roofline.bandwidth * x_low, gpu_roofline.peak, gpu_roofline.peak],
            "line": {"color": INK, "width": 2},
            "hovertemplate": "roof<extra></extra>",
        }
    ]
    data += [_kernel(kernel, kernel.time / whole, gpu_roofline.roof(kernel)) for kernel in kernels]
    notes = [
        annotation(
            "ridge", math.log10(gpu_roofline.ridge), math.log10(gpu_roofline.peak), "right", "bottom", bgcolor=CLEAR
        )
    ]
    for place, kernel in enumerate(kernels):
        row = 15 * (len(kernels) - 1 - place) + 4
        said = annotation(
            f"{place + 1}  {kernel.name}", 1, 0, "right", "bottom", xref="paper", yref="paper", yshift=row
        )
        notes.append(said | {"bgcolor": CLEAR})
    for crowd in _crowds(kernels):
        left = min(math.log10(kernels[place].intensity) for place in crowd)
        middle = math.fsum(math.log10(kernels[place].rate) for place in crowd) / len(crowd)
        numbers = ", ".join(f"{place + 1}" for place in crowd)
        notes.append(annotation(numbers, left, middle, "right", "middle", xshift=-18))
    held = math.fsum(kernel.time for kernel in kernels if kernel.intensity < gpu_roofline.ridge) / whole
    title = f"Memory is the roof of {style.share(held)} of the kernels' time, arithmetic of the rest"
    return figure(
        sentence(title),
        subtitle,
        data,
        height=420,
        x=_per_byte(x_low, x_high),
        y=style.logarithmic("FLOP/s", y_low, y_high, "FLOP/s"),
        annotations=notes,
    )


def _crowds(kernels: Sequence[Kernel]) -> list[list[int]]:
    """Places of the kernels by what they stand beside: circles that cover each other have one label."""
    crowds: list[list[int]] = []
    for place in sorted(range(len(kernels)), key=lambda place: kernels[place].intensity):
        near = crowds and kernels[place].intensity < 10 ** (2 / 3) * kernels[crowds[-1][-1]].intensity
        if near:
            crowds[-1].append(place)
        else:
            crowds.append([place])
    return [sorted(crowd) for crowd in crowds]


def _kernel(kernel: Kernel, share: float, roof: float) -> Values:
    """One kernel, its area its share of the time."""
    said = f"{show(kernel.time, 's')}, {percent(kernel.rate / roof)} of its roof"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{kernel.name}: {said}",
        "x": [kernel.intensity],
        "y": [kernel.rate],
        "marker": {
            "size": 14 + 24 * math.sqrt(share),
            "color": style_of("compute" if kernel.compute else "memory_bandwidth").colour,
            "symbol": "circle",
        },
        "hovertemplate": f"{plain(kernel.name)}: {said}<extra></extra>",
    }


def _per_byte(low: float, high: float) -> Values:
    """The axis of operations for each byte, with marks at powers of ten."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    spots = [(10.0**power, f"{10.0**power:,g}") for power in range(first, last + 1, 1 + (last - first) // 4)]
    return titled("FLOP for each byte", type="log", range=[math.log10(low), math.log10(high)], **marked(spots))


ROOM = 6.0
"""How many times beyond its limits the front is drawn: what is farther stands in the table."""


FAMILIES = {"Ethernet": "roce", "InfiniBand": "infiniband"}
"""Names of two kinds of network, and the look of each."""


def _is_infiniband(scale_out: str, catalog: Catalog) -> bool:
    return catalog.scale_out[scale_out].family == "infiniband"


@dataclass(frozen=True)
class Point:
    """A cluster in a chart: its network, where it lies, its words and query, and whether it is one to take."""

    scale_out: str
    x: float
    y: float
    words: str
    query: str
    full: bool


def by_network(points: Sequence[Point], catalog: Catalog) -> Iterator[Values]:
    """Clusters as points in the colours of their networks, each of which a legend names once.

    Those to take are filled and lie above the others, and a kind that comes later above one that comes first; custom
    data is the query of a point's plan.
    """
    kinds: dict[str, list[Point]] = {}
    for point in points:
        kinds.setdefault("InfiniBand" if _is_infiniband(point.scale_out, catalog) else "Ethernet", []).append(point)
    for full in (False, True):
        for name, mine in kinds.items():
            some = [point for point in mine if point.full == full]
            if some:
                yield {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": full or not any(point.full for point in mine),
                    "x": [point.x for point in some],
                    "y": [point.y for point in some],
                    "text": [point.words for point in some],
                    "customdata": [point.query for point in some],
                    "marker": {
                        "size": 10,
                        "color": style_of(FAMILIES[name]).colour,
                        "symbol": "circle" if full else "circle-open",
                    },
                    "hovertemplate": "%{text}<extra></extra>",
                }


def pareto(
    answer: Answer,
    catalog: Catalog,
    deadline: float | None = None,
    budget: float | None = None,
    likely: Sequence[Likely] = (),
    money: str = "capital",
) -> Figure:
    """The clusters that no other beats in both time and cost, and the region that meets the limits.

    Those ``likely`` have their ranges as crosses. A point's custom data is the query of its plan; ``money`` is what
    kind of cost is meant.
    """
    paid = declared(Candidate)[money].label
    subtitle = f"{paid} against time to train: each point is a cluster that no other beats in both"
    front = [
        cluster for cluster in answer.shown if math.isfinite(cluster.cost) and math.isfinite(cluster.time_to_train)
    ]
    if not front:
        return nothing("No cluster of those tried does this job.", subtitle)
    near = [cluster for cluster in likely if cluster.time_to_train and cluster.cost]
    (x_low, x_high), (y_low, y_high) = _around(answer, front, near, deadline, budget)
    shown = [
        cluster for cluster in front if x_low <= cluster.time_to_train <= x_high and y_low <= cluster.cost <= y_high
    ] or front
    if len(shown) < len(front):
        subtitle += "; those farther away stand in the table"
    if near:
        subtitle += "; crosses are 80 % ranges"
    if not all(cluster.meets for cluster in shown):
        subtitle += "; hollow ones miss a limit"
    ties = [cluster for cluster in answer.ties if cluster not in shown]
    data: list[Values] = [*_region(deadline or x_high, budget or y_high, x_low, y_low)] if deadline or budget else []
    data += [trace for cluster in near for trace in _cross(cluster)]
    data.append(_joined(shown))
    points = [_point(cluster, catalog) for cluster in (*ties, *shown)]  # the front above what ties with it
    data += by_network(points, catalog)
    return figure(
        sentence(_pareto_title(answer, [_outcome(cluster) for cluster in shown], catalog)),
        subtitle,
        data,
        height=420,
        x=style.logarithmic("Time to train", x_low, x_high, "s") | _days(x_low, x_high),
        y=style.logarithmic(paid, y_low, y_high, "USD"),
        annotations=[*_picks(answer), *_limit_names(deadline, budget, x_low, x_high)],
        shapes=_limit_lines(deadline, budget),
        **LEGEND,
    )


def _joined(front: Sequence[Candidate]) -> Values:
    """The line that joins the clusters of a front."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [cluster.time_to_train for cluster in front],
        "y": [cluster.cost for cluster in front],
        "line": {"color": MUTED, "width": 1, "shape": "vh"},
        "hoverinfo": "skip",
    }


def _point(cluster: Candidate, catalog: Catalog) -> Point:
    """A cluster by its time and money."""
    words = f"{plain(_cluster(cluster, catalog))}<br>{_outcome(cluster)}"
    return Point(cluster.scale_out, cluster.time_to_train, cluster.cost, words, cluster.query, cluster.meets)


LONGEST_SHOWN = parse("10 years", "s")
"""Runs that take longer stand in the file alone."""
FEW = 80
"""Up to so many points are drawn larger, each with an edge."""
DIGITS = 5
"""What is drawn of the figures of thousands of clusters: these places are a tenth of a pixel."""


def cloud(whole: Cloud, catalog: Catalog, deadline: float | None = None, budget: float | None = None) -> Figure:
    """All clusters that can do a job by time and cost, and the line of those that no other beats in both."""
    paid = declared(Candidate)[whole.kind].label
    subtitle = (
        f"{paid} against time to train: each point is a cluster, the line joins those that no other beats in both"
    )
    shown = whole.clusters.where(whole.clusters.rows["time_to_train"] <= LONGEST_SHOWN)
    if not len(shown):
        return nothing("None of the clusters tried does this job within ten years.", subtitle)
    if len(shown) < len(whole.clusters):
        subtitle += f"; {len(whole.clusters) - len(shown):,} that take over ten years stand in the file"
    ends = (shown.rows["time_to_train"], shown.rows[whole.kind])
    (x_low, x_high), (y_low, y_high) = ((float(each.min()) / 1.2, float(each.max()) * 1.2) for each in ends)
    data: list[Values] = [*_region(deadline or x_high, budget or y_high, x_low, y_low)] if deadline or budget else []
    is_infiniband = np.array([_is_infiniband(key, catalog) for key in catalog.scale_out])[shown.rows["scale_out"]]
    families = zip(FAMILIES.items(), (~is_infiniband, is_infiniband), strict=True)
    for (name, look), mine in sorted(families, key=lambda family: -family[1].sum()):  # the fewer above the more
        if mine.any():
            data.append(_crowd(name, look, shown.where(mine), whole, catalog))
    front = [spot for spot in whole.front if spot.time_to_train <= LONGEST_SHOWN]
    data.append(_front(front, catalog))
    return figure(
        sentence(_cloud_title(whole, catalog)),
        subtitle,
        data,
        height=480,
        x=style.logarithmic("Time to train", x_low, x_high, "s") | _days(x_low, x_high),
        y=style.logarithmic(paid, y_low, y_high, "USD"),
        annotations=[*_limit_names(deadline, budget, x_low, x_high)],
        shapes=_limit_lines(deadline, budget),
        showlegend=True,
    )


def _crowd(name: str, look: str, clusters: ClusterRows, whole: Cloud, catalog: Catalog) -> Values:
    """Thousands of clusters as points.

    ``meta`` has the clusters themselves, from which a script makes the words and the address of each: keys and names
    of GPUs and networks, and which of these, which taper and which numbers of GPUs the points have, one after another.
    """
    rows = clusters.rows[np.lexsort(tuple(clusters.rows[key] for key in ("gpus", "taper", "scale_out", "gpu")))]
    kinds, begins = np.unique(rows[["gpu", "scale_out", "taper"]], return_index=True)
    counts = np.split(rows["gpus"], begins[1:])
    (gpus, gpu), (networks, network) = (np.unique(kinds[key], return_inverse=True) for key in ("gpu", "scale_out"))
    entries = [*catalog.gpus.values()], [*catalog.scale_out.values()]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "showlegend": True,
        "x": rounded(rows["time_to_train"], DIGITS).tolist(),
        "y": rounded(rows[whole.kind], DIGITS).tolist(),
        "meta": {
            "query": whole.query,
            "gpus": [[entry.key, entry.name] for entry in (entries[0][place] for place in gpus)],
            "networks": [[entry.key, entry.name] for entry in (entries[1][place] for place in networks)],
            "clusters": [
                [int(gpu[place]), int(network[place]), TAPERS[kind["taper"]], several.tolist()]
                for place, (kind, several) in enumerate(zip(kinds, counts, strict=True))
            ],
        },
        "marker": {"size": 5 if len(rows) > FEW else 8, "color": style_of(look).colour, "opacity": 0.45},
    }


def _front(front: Sequence[Spot], catalog: Catalog) -> Values:
    """Those that no other beats, joined; a point's custom data is the query of its plan."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "Front",
        "x": [spot.time_to_train for spot in front],
        "y": [spot.cost for spot in front],
        "text": [f"{plain(_cluster(spot, catalog))}, {spot.oversubscription:g} : 1" for spot in front],
        "customdata": [spot.query for spot in front],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"size": 5 if len(front) > FEW else 7, "color": INK},
        "line": {"color": INK, "width": 1.5, "shape": "vh"},
        "showlegend": False,
    }


def _cloud_title(whole: Cloud, catalog: Catalog) -> str:
    """How many clusters there are, and the first and last of the front."""
    if not whole.front:
        return f"None of {len(whole.clusters):,} clusters keeps every limit"
    first, last = whole.front[0], whole.front[-1]
    return (
        f"{whole.meeting:,} clusters, from {_cluster(first, catalog)}, {show(first.cost, 'USD')}, "
        f"to {_cluster(last, catalog)}, {show(last.time_to_train, 's')}"
    )


def _around(
    answer: Answer,
    front: Sequence[Candidate],
    near: Sequence[Likely],
    deadline: float | None,
    budget: float | None,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of both axes: what lies near the limits, of one not given near the best, with its ranges; and the
    clusters that miss a limit by the least, however far.

    All of the front where there is no limit of time or money, or it comes near none of them.
    """
    best = answer.best or front[-1]
    times, money = [cluster.time_to_train for cluster in front], [cluster.cost for cluster in front]
    if near and (deadline or budget):
        bands = [cluster.time_to_train for cluster in near], [cluster.cost for cluster in near]
        times = [end for band in bands[0] if band for end in (band.low, band.high)] + ([deadline] if deadline else [])
        money = [end for band in bands[1] if band for end in (band.low, band.high)] + ([budget] if budget else [])
        within = ((deadline or best.time_to_train, times), (budget or best.cost, money))
        x, y = ([end for end in ends if limit / ROOM <= end <= limit * ROOM] for limit, ends in within)
        inside = (min(x) <= one.time_to_train <= max(x) and min(y) <= one.cost <= max(y) for one in front)
        if answer.nearest_misses or any(inside):
            times, money = x, y
        times += [miss.time_to_train for miss in answer.nearest_misses]
        money += [miss.cost for miss in answer.nearest_misses]
    return (min(times) / 1.1, max(times) * 1.1), (min(money) / 1.15, max(money) * 1.15)


def _region(deadline: float, budget: float, x_low: float, y_low: float) -> Iterator[Values]:
    """What is within both limits."""
    yield {
        "type": "scatter",
        "mode": "lines",
        "x": [x_low, deadline, deadline, x_low],
        "y": [y_low, y_low, budget, budget],
        "fill": "toself",
        "fillcolor": style_of("accent").colour,
        "opacity": 0.1,
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _cross(cluster: Likely) -> Iterator[Values]:
    """A cluster's ranges of time and cost."""
    time, cost = cluster.time_to_train, cluster.cost
    if time is None or cost is None:
        return
    line = {"color": style_of(cluster.scale_out).colour, "width": 1.2}
    for x, y in (((time.low, time.high), (cost.typical,) * 2), ((time.typical,) * 2, (cost.low, cost.high))):
        yield {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "opacity": 0.6, "hoverinfo": "skip"}


def _picks(answer: Answer) -> Iterator[Values]:
    """The names of the clusters that are picked."""
    chosen = [("cheapest", answer.cheapest if answer.deadline else None), ("soonest", answer.fastest)]
    for index, (name, cluster) in enumerate(chosen):
        if cluster is not None:
            x, y = math.log10(cluster.time_to_train), math.log10(cluster.cost)
            yield annotation(name, x, y, "left", "bottom", xshift=6, yshift=4 + 14 * index, bgcolor=CLEAR)
    for miss in answer.nearest_misses:
        name, side = ("within the budget", "right") if "deadline" in miss.misses else ("in time", "left")
        x, y = math.log10(miss.time_to_train), math.log10(miss.cost)
        yield annotation(f"nearest {name}", x, y, side, "bottom", xshift=6 if side == "left" else -6, bgcolor=CLEAR)


def _limit_lines(deadline: float | None, budget: float | None) -> list[Values]:
    lines = [upright(deadline) | {"line": {"color": INK, "width": 1.2, "dash": "dot"}}] if deadline else []
    return lines + ([across(budget)] if budget else [])


def _limit_names(deadline: float | None, budget: float | None, x_low: float, x_high: float) -> Iterator[Values]:
    at, side_of_budget = 0.0, "left"
    if deadline:  # at the foot: what is soonest and dearest has its name at the top
        text = f"deadline {show(deadline, 's')}"
        room = NARROW * math.log(deadline / x_low) / math.log(x_high / x_low)
        side = "right" if room > LETTER * len(text) else "left"
        at, side_of_budget = (0.0, "left") if side == "right" else (1.0, "right")
        yield annotation(text, math.log10(deadline), 0, side, "bottom", yref="paper")
    if budget:
        text = f"budget {show(budget, 'USD')}"
        yield annotation(text, at, math.log10(budget), side_of_budget, "bottom", xref="paper")


def _pareto_title(answer: Answer, texts: Sequence[str], catalog: Catalog) -> str:
    """Which cluster to take, or how far the choice reaches."""
    best = answer.best
    if best is None:
        return f"None meets the limits; the choice reaches from {texts[0]} to {texts[-1]}"
    which = "Cheapest" if answer.deadline else "Soonest"
    return f"{which} that meets the limits: {_cluster(best, catalog)}, {_outcome(best)}"


def _outcome(candidate: Candidate) -> str:
    return f"{show(candidate.time_to_train, 's')}, {show(candidate.cost, 'USD')}"


def _cluster(candidate: Candidate, catalog: Catalog) -> str:
    return f"{candidate.gpus:,} × {catalog.gpus[candidate.gpu].name}, {catalog.scale_out[candidate.scale_out].name}"


def _days(low: float, high: float) -> Values:
    """Marks for an axis of long times, in days."""
    day = parse("1 d", "s")
    counts = [digit * 10.0**power for power in range(-1, 5) for digit in (1, 2, 5)]
    if high / low < 8:
        counts = [value for value, _ in marks(low / day, high / day, "1", 4)]
    return marked([(count * day, f"{count:,g} d") for count in counts if low <= count * day <= high])
