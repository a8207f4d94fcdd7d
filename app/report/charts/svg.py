"""Figures of the house as SVG, without a browser: the picture that stands on a page before any script.

It is drawn from the figure that Plotly takes, so both show the same. Across, places are per cent of the plot and down
they are pixels: a page stretches the picture to the room it has, and text keeps its size. Colours are properties of the
style sheet; in a file of its own they are those of the light scheme.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.report.charts.style import Figure

STYLE_SHEET = Path(__file__).parents[3] / "static" / "style.css"
WIDE = 1000.0
"""Width of a page's drawing that is stretched over the plot: lines and areas have places in it."""
FILE_WIDTH, EDGE = 760, 16
LETTERS, BOLD_LETTERS = 108, 96
"""How many letters a line of a file holds."""
NARROW = 300.0
"""Pixels that a plot has on a phone, where marks may not touch."""
LETTER = 7.0
"""About the width of a letter, in pixels."""
DASHES = {"dash": "8 5", "dot": "2 4", "dashdot": "9 4 2 4", "longdash": "13 5", "longdashdot": "13 4 2 4"}
HATCHES = {
    "/": "M-1 8L8 -1",
    "\\": "M-1 -1L8 8",
    "-": "M0 3.5H7",
    "x": "M-1 8L8 -1M-1 -1L8 8",
    ".": "M2 3.5h2",
}
POLYGONS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle-up": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
}
"""Corners of a point that is no circle, about its middle."""
LEGEND_ROW, PIECE = 20.0, 30.0
"""In a legend: the height of a row, and how long the piece of a line is."""
LONG = 54
"""With more letters than these a line of words is set smaller on a phone, where it would not fit."""
BASELINE = {"bottom": -5.0, "middle": 4.5, "top": 12.0}
ANCHORS = {"left": "start", "center": "middle", "right": "end"}
MANY = 80
"""With more points than these a point has no name of its own."""
CROWD, CELL, DOT = 2_000, 2.0, 3.2
"""With more points than these it is shown how many there are about a place: a dot in each cell of so many pixels."""
SHADES = {1: 0.35, 2: 0.55, 4: 0.8}
"""Opacity of a cell with at least so many points."""


@dataclass(frozen=True)
class Plot:
    """The room of a drawing in pixels, and where values lie in it. On a page its width is stretched."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    x: Mapping[str, Any]
    y: Mapping[str, Any]

    @property
    def tall(self) -> float:
        """Pixels from the upper to the lower end of the plot."""
        return self.height - self.top - self.bottom

    def across(self, value: float) -> float:
        """Per cent of the plot's width at which a value lies."""
        return 100.0 * _along(self.x, value)

    def down(self, value: float) -> float:
        """Pixels below the drawing's upper edge at which a value lies."""
        return self.top + self.tall * (1.0 - _along(self.y, value))


def inline(figure: Figure, key: str) -> str:
    """The drawing for a page, as wide as its room; ``key`` tells its patterns from those of the page's others."""
    plot, parts = _drawn(figure, key)
    body = "".join(parts)
    return (
        f'<div class="drawn" data-axes="{_reach(plot.x)} {_reach(plot.y)}" data-reach="{plot.top:.0f} {plot.tall:.0f}">'
        f'<svg class="gap" width="{plot.left:.0f}" height="1" aria-hidden="true"></svg>'
        f'<svg class="plot" width="100%" height="{plot.height:.0f}" overflow="visible" role="img" '
        f'aria-label="{escape(figure.title)}">{body}</svg></div>'
    )


def _reach(axis: Mapping[str, Any]) -> str:
    """The ends of an axis and whether they are logarithms: what a script needs to lay one drawing over another.

    >>> _reach({"range": (0, 12.5)}), _reach({"range": (3.0, 10.0), "type": "log"})
    ('0 12.5 0', '3 10 1')
    """
    first, last = axis["range"]
    return f"{float(first):.6g} {float(last):.6g} {int(axis.get('type') == 'log')}"


def document(figure: Figure) -> str:
    """The drawing as a file, with its title."""
    plot, parts = _drawn(figure, "chart", FILE_WIDTH - 2 * EDGE)
    lines = _heading(figure)
    head = _head(lines)
    texts = "".join(
        f'<text x="{EDGE}" y="{20 + 20 * row}" font-size="13" font-weight="{weight}">{escape(line)}</text>'
        for row, (line, weight) in enumerate(lines)
    )
    width, whole = file_size(figure)
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{whole}" '
        f'viewBox="0 0 {width} {whole}" font-family="system-ui, sans-serif" role="img">'
        f"<title>{escape(figure.title)}</title><desc>{escape(figure.subtitle)}</desc>"
        f'<rect width="100%" height="100%" fill="var(--chart-paper)"/><g fill="var(--chart-ink)">{texts}</g>'
        f'<svg x="{EDGE + plot.left:.0f}" y="{head:.0f}" width="{plot.width:.0f}" height="{plot.height:.0f}" '
        f'overflow="visible">{"".join(parts)}</svg></svg>'
    )
    return re.sub(r"var\((--chart-[\w-]+)\)", lambda match: colours()[match[1]], drawing)


@cache
def colours() -> Mapping[str, str]:
    """The colours of charts in the light scheme, as the style sheet has them."""
    sheet = STYLE_SHEET.read_text()
    return dict(re.findall(r"(--chart-[\w-]+): light-dark\((#\w+),", sheet))


def file_size(figure: Figure) -> tuple[int, int]:
    """Width and height of the file in pixels."""
    return FILE_WIDTH, round(figure.layout["height"] + _head(_heading(figure)))


def _heading(figure: Figure) -> list[tuple[str, int]]:
    """The lines above the drawing in a file, each with the weight of its letters."""
    bold, plain = _wrapped(figure.title, BOLD_LETTERS), _wrapped(figure.subtitle, LETTERS)
    return [(line, 600) for line in bold] + [(line, 400) for line in plain]


def _head(lines: Sequence[tuple[str, int]]) -> float:
    return 20.0 * len(lines) + 12


def _wrapped(text: str, letters: int) -> list[str]:
    """A text in lines of so many letters at most."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= letters:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _along(axis: Mapping[str, Any], value: float) -> float:
    """Where a value lies between the ends of its axis, 0 to 1; the middle of an axis for one value alone."""
    first, last = axis["range"]
    place = math.log10(value) if axis.get("type") == "log" else value
    return float((place - first) / (last - first)) if last != first else 0.5


# The drawing ---------------------------------------------------------------------------------------------------------


def _drawn(figure: Figure, key: str, room: float | None = None) -> tuple[Plot, list[str]]:
    """A drawing with so many pixels across, or for one that is stretched over what there is."""
    layout, traces = figure.layout, figure.data
    named = [trace for trace in traces if trace.get("showlegend")]
    plot = _plot(layout, named, room)
    parts = [*_patterns(traces, key), *_grid(plot), *_stretched(plot, traces)]
    parts += [part for trace in traces if trace.get("type") == "bar" for part in _bar(plot, trace, key)]
    parts += [_line(plot, shape) for shape in layout.get("shapes", ())]
    parts += [part for trace in traces if "markers" in trace.get("mode", "") for part in _points(plot, trace)]
    parts += [_annotation(plot, note) for note in layout.get("annotations", ())]
    return plot, parts + list(_legend(named, key))


def _plot(layout: Mapping[str, Any], named: Sequence[Mapping[str, Any]], room: float | None) -> Plot:
    x, y = layout["xaxis"], layout["yaxis"]
    shown = y.get("visible", True)
    longest = max((len(text) for text in y.get("ticktext") or ()), default=0) if shown else 0
    titled = 20.0 if shown and y.get("title", {}).get("text") else 0.0
    margin = layout.get("margin", {})
    legend = 22.0 + _places(named)[-1][1] if layout.get("showlegend") and named else 0.0
    left, right = 6.0 + LETTER * longest if longest else 2.0, 16.0
    return Plot(
        width=WIDE if room is None else room - left - right,
        height=float(layout["height"]),
        left=left,
        right=right,
        top=margin.get("t", 12) + titled + legend,
        bottom=44.0 if x.get("visible", True) else 8.0,
        x={"range": (0.0, 1.0), **x},
        y={"range": (0.0, 1.0), **y},
    )


def _marks(axis: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """Where an axis has marks, 0 to 1, with their text."""
    if axis.get("visible", True):
        for value, text in zip(axis.get("tickvals") or (), axis.get("ticktext") or (), strict=True):
            place = _along(axis, float(value))
            if -1e-6 <= place <= 1 + 1e-6:
                yield place, str(text)


def _grid(plot: Plot) -> Iterator[str]:
    """The marks of both axes, their lines and their names."""
    foot = plot.top + plot.tall
    across, down = list(_marks(plot.x)), list(_marks(plot.y))
    yield '<g stroke="var(--chart-grid)">'
    for place, _ in across:
        yield f'<line x1="{_percent(100 * place)}" x2="{_percent(100 * place)}" y1="{plot.top:.0f}" y2="{foot:.0f}"/>'
    for place, _ in down:
        y = plot.top + plot.tall * (1 - place)
        yield f'<line x1="0" x2="100%" y1="{_length(y)}" y2="{_length(y)}"/>'
    yield '</g><g font-size="12" fill="var(--chart-muted)">'
    spared = _spared(across)
    for index, (place, text) in enumerate(across):
        side = "end" if place > 0.96 else "start" if place < 0.02 and plot.left < 12 else "middle"
        narrow = ' class="wide"' if index in spared else ""
        at = f'x="{_percent(100 * place)}" y="{foot + 16:.0f}" text-anchor="{side}"'
        yield f"<text {at}{narrow}>{escape(text)}</text>"
    for place, text in down:
        y = plot.top + plot.tall * (1 - place) + 4
        yield f'<text x="-6" y="{_length(y)}" text-anchor="end">{escape(text)}</text>'
    for axis, at in ((plot.x, f'x="50%" y="{foot + 36:.0f}" text-anchor="middle"'), (plot.y, _above(plot))):
        if axis.get("visible", True) and (name := axis.get("title", {}).get("text")):
            yield f"<text {at}>{escape(name)}</text>"
    yield "</g>"


def _above(plot: Plot) -> str:
    """Where the name of the upright axis stands: over its marks."""
    return f'x="-{plot.left:.0f}" y="{plot.top - 10:.0f}"'


def _spared(across: Sequence[tuple[float, str]]) -> set[int]:
    """The marks whose text is left out on a phone, so that the others do not touch."""
    spared, end = set(), -math.inf
    for index, (place, text) in enumerate(across):
        half = LETTER * len(text) / 2
        if place * NARROW - half < end + 6:
            spared.add(index)
        else:
            end = place * NARROW + half
    return spared


def _stretched(plot: Plot, traces: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Areas and lines, in a drawing that is stretched over the plot."""
    inner = [part for trace in traces if trace.get("type") == "scatter" for part in _path(plot, trace)]
    if inner:
        yield (
            f'<svg y="{plot.top:.0f}" width="100%" height="{plot.tall:.0f}" viewBox="0 {plot.top:.0f} '
            f'{plot.width:.0f} {plot.tall:.0f}" preserveAspectRatio="none" class="cut" overflow="hidden" fill="none">'
            f"{''.join(inner)}</svg>"
        )


def _path(plot: Plot, trace: Mapping[str, Any]) -> Iterator[str]:
    """The area or line of one trace, and its points where they are many."""
    if trace.get("mode") == "markers" and len(trace["x"]) > CROWD:
        yield from _density(plot, trace)
        return
    spots = list(_spots(plot, trace))
    style = trace.get("line", {})
    mode = trace.get("mode", "")
    if trace.get("fill") == "toself":
        yield (
            f'<path d="{_steps(spots, "")}Z" fill="{trace["fillcolor"]}" fill-opacity="{trace.get("opacity", 1)}" '
            'stroke="none"/>'
        )
    elif "lines" in mode:
        yield f'<path d="{_steps(spots, style.get("shape", ""))}" {_stroke(style)} vector-effect="non-scaling-stroke"/>'
    if "markers" in mode and len(spots) > MANY:
        marker = trace["marker"]
        dots = dict.fromkeys(f"M{x:.0f} {y:.0f}h0" for spot in spots if spot for x, y in [spot])
        yield (
            f'<path d="{"".join(dots)}" stroke="{marker["color"]}" stroke-width="{marker["size"]}" '
            f'stroke-opacity="{marker.get("opacity", 1)}" stroke-linecap="round" vector-effect="non-scaling-stroke"/>'
        )


def _density(plot: Plot, trace: Mapping[str, Any]) -> Iterator[str]:
    """The cells in which a trace has points, a path for each shade: the darker the more there are."""
    ends = ((plot.x, plot.width, trace["x"]), (plot.y, -plot.tall, trace["y"]))
    places = np.array([_along_all(axis, np.array(values)) * length for axis, length, values in ends])
    shown = np.isfinite(places).all(axis=0)
    cells, many = np.unique(np.rint(places[::-1, shown] / CELL).astype(int), axis=1, return_counts=True)
    marker, foot = trace["marker"], plot.top + plot.tall
    for (least, shade), most in zip(SHADES.items(), [*SHADES, math.inf][1:], strict=True):
        down, across = CELL * cells[:, (many >= least) & (many < most)]
        if across.size:
            steps = zip(np.diff(across, prepend=0), np.diff(down, prepend=-foot), strict=True)
            dots = "".join(f"m{right:.0f} {lower:.0f}h0" for right, lower in steps)
            yield (
                f'<path d="{dots}" stroke="{marker["color"]}" stroke-width="{DOT:g}" '
                f'stroke-opacity="{shade}" stroke-linecap="round" vector-effect="non-scaling-stroke"/>'
            )


def _along_all(axis: Mapping[str, Any], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where values lie between the ends of their axis, as `_along` has it."""
    first, last = axis["range"]
    places = np.log10(values) if axis.get("type") == "log" else values
    return np.asarray((places - first) / (last - first))


def _spots(plot: Plot, trace: Mapping[str, Any]) -> Iterator[tuple[float, float] | None]:
    """The points of a trace in the stretched drawing; none for a gap."""
    for x, y in zip(trace["x"], trace["y"], strict=True):
        finite = x is not None and y is not None and math.isfinite(x) and math.isfinite(y)
        logs = (axis.get("type") == "log" and value is not None and not value > 0 for axis, value in _of(plot, x, y))
        yield (plot.across(x) * plot.width / 100, plot.down(y)) if finite and not any(logs) else None


def _of(plot: Plot, x: float, y: float) -> tuple[tuple[Mapping[str, Any], float], tuple[Mapping[str, Any], float]]:
    return (plot.x, x), (plot.y, y)


def _steps(spots: Sequence[tuple[float, float] | None], shape: str) -> str:
    """A path through points; ``hv`` and ``vh`` go in steps."""
    text, pen = [], "M"
    for spot in spots:
        if spot is None:
            pen = "M"
            continue
        x, y = f"{spot[0]:.1f}".removesuffix(".0"), f"{spot[1]:.1f}".removesuffix(".0")
        if pen == "M" or shape not in ("hv", "vh"):
            text.append(f"{pen}{x} {y}")
        else:
            text.append(f"H{x}V{y}" if shape == "hv" else f"V{y}H{x}")
        pen = "L"
    return "".join(text)


# Bars, points, lines, words ------------------------------------------------------------------------------------------


def _patterns(traces: Sequence[Mapping[str, Any]], key: str) -> Iterator[str]:
    """The hatches that this drawing's bars need."""
    shapes = {trace["marker"].get("pattern", {}).get("shape") for trace in traces if trace.get("type") == "bar"}
    for number, (shape, path) in enumerate(HATCHES.items()):
        if shape in shapes:
            yield (
                f'<pattern id="{key}-{number}" width="7" height="7" patternUnits="userSpaceOnUse"><path d="{path}" '
                'stroke="var(--chart-paper)" stroke-width="1.6" stroke-opacity=".6"/></pattern>'
            )


def _hatched(box: str, shape: str | None, key: str) -> str:
    """A hatch over a box; nothing where its colour is plain."""
    if shape not in HATCHES:
        return ""
    return f'<rect {box} fill="url(#{key}-{list(HATCHES).index(shape)})" pointer-events="none"/>'


def _bar(plot: Plot, trace: Mapping[str, Any], key: str) -> Iterator[str]:
    """A bar with its hatch, its range and its value in words."""
    for length, row in zip(trace["x"], trace["y"], strict=True):
        if length is None:
            continue
        base = (trace.get("base") or [0.0])[0]
        first, last = sorted((plot.across(base), plot.across(base + length)))
        top, foot = (plot.down(row + trace["offset"] + part * trace["width"]) for part in (0, 1))
        left, upper, wide, tall = (
            _percent(first),
            _length(min(top, foot)),
            _percent(last - first),
            _length(abs(foot - top)),
        )
        box = f'x="{left}" y="{upper}" width="{wide}" height="{tall}"'
        marker = trace["marker"]
        said = escape(str(trace.get("hovertemplate", "")).removesuffix("<extra></extra>"), quote=False)
        light = f' fill-opacity="{marker["opacity"]}"' if "opacity" in marker else ""
        yield f'<rect {box} fill="{marker["color"]}"{light}><title>{said.replace("&amp;", "&")}</title></rect>'
        yield _hatched(box, marker.get("pattern", {}).get("shape"), key)
        error = trace.get("error_x", {})
        if error.get("array"):
            ends = (base + length - error["arrayminus"][0], base + length + error["array"][0])
            yield _whisker(plot, ends, (top + foot) / 2)


def _percent(place: float) -> str:
    """A place across, no longer than it needs to be.

    >>> _percent(40.1), _percent(0.0)
    ('40.1%', '0%')
    """
    return f"{round(place, 2):g}%"


def _length(value: float) -> str:
    return f"{round(value, 1):g}"


def _whisker(plot: Plot, ends: tuple[float, float], y: float) -> str:
    low, high = (f"{_percent(plot.across(end))}" for end in ends)
    lines = ((low, high, y, y), (low, low, y - 4, y + 4), (high, high, y - 4, y + 4))
    drawn = "".join(
        f'<line x1="{first}" x2="{last}" y1="{_length(top)}" y2="{_length(foot)}"/>' for first, last, top, foot in lines
    )
    return f'<g stroke="var(--chart-ink)" stroke-width="1.2">{drawn}</g>'


def _points(plot: Plot, trace: Mapping[str, Any]) -> Iterator[str]:
    """The points of a trace, as long as they are few."""
    marker, words = trace["marker"], trace.get("text") or ()
    count = len(trace["x"])
    if count > MANY:
        return
    colour, symbols = marker["color"], marker.get("symbol", "circle")
    for index, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        if not (_is_inside(_along(plot.x, x)) and _is_inside(_along(plot.y, y))):
            continue
        paint = colour if isinstance(colour, str) else colour[index]
        symbol = symbols if isinstance(symbols, str) else symbols[index]
        fill = ("var(--chart-paper)", paint) if symbol.endswith("open") else (paint, "var(--chart-paper)")
        said = str(words[index] if index < len(words) else trace.get("name", "")).replace("<br>", ": ")
        place, half = (_percent(plot.across(x)), _length(plot.down(y))), marker["size"] / 2
        look = f'fill="{fill[0]}" stroke="{fill[1]}" stroke-width="2"'
        if symbol in POLYGONS:
            corners = " ".join(f"{_length(across * half)},{_length(up * half)}" for across, up in POLYGONS[symbol])
            yield (
                f'<svg x="{place[0]}" y="{place[1]}" overflow="visible"><polygon points="{corners}" {look}>'
                f"<title>{said}</title></polygon></svg>"
            )
        else:
            yield (f'<circle cx="{place[0]}" cy="{place[1]}" r="{_length(half)}" {look}><title>{said}</title></circle>')


def _line(plot: Plot, shape: Mapping[str, Any]) -> str:
    """A straight line across the plot, or up it."""
    x = [100.0 * at if shape.get("xref") == "paper" else plot.across(at) for at in (shape["x0"], shape["x1"])]
    y = [
        plot.top + plot.tall * (1 - at) if shape.get("yref") == "paper" else plot.down(at)
        for at in (shape["y0"], shape["y1"])
    ]
    ends = f'x1="{_percent(x[0])}" x2="{_percent(x[1])}" y1="{_length(y[0])}" y2="{_length(y[1])}"'
    return f"<line {ends} {_stroke(shape['line'])}/>"


def _stroke(line: Mapping[str, Any]) -> str:
    """Colour, width and dashes of a line."""
    dash = f' stroke-dasharray="{DASHES[line["dash"]]}"' if line.get("dash") in DASHES else ""
    return f'stroke="{line.get("color")}" stroke-width="{line.get("width", 2)}"{dash}'


BESIDE = 0.02
"""Share of an axis by which what is drawn may lie outside of it."""


def _is_inside(along: float) -> bool:
    """Whether a place is on an axis: what is not would be drawn over what stands beside the plot."""
    return -BESIDE <= along <= 1 + BESIDE


def _annotation(plot: Plot, note: Mapping[str, Any]) -> str:
    """Words in the plot, none where they belong to a point outside of it. Their places on a logarithmic axis are
    logarithms already.
    """
    first, last = plot.x["range"]
    across = note["x"] if note.get("xref") == "paper" else (note["x"] - first) / (last - first)
    first, last = plot.y["range"]
    up = note["y"] if note.get("yref") == "paper" else (note["y"] - first) / (last - first)
    off_x = note.get("xref") != "paper" and not _is_inside(across)
    if off_x or (note.get("yref") != "paper" and not _is_inside(up)):
        return ""
    y = plot.top + plot.tall * (1 - up) - note.get("yshift", 0)
    font = note["font"]
    words = note["text"].replace("<b>", '<tspan font-weight="600">').replace("</b>", "</tspan>")
    turned = ' transform="rotate(-90)"' if note.get("textangle") == -90 else ""
    side, shift = ANCHORS[note["xanchor"]], BASELINE[note["yanchor"]]
    if turned:
        side, shift = {"top": "end", "bottom": "start"}.get(note["yanchor"], "middle"), 10.0
    long = ' class="long"' if len(re.sub("<[^>]*>", "", words)) > LONG else ""
    aside = 0 if turned else note.get("xshift", 0)
    size, colour = font.get("size", 12), font.get("color", "var(--chart-ink)")
    return (
        f'<svg x="{_percent(100 * across)}" y="{_length(y)}" overflow="visible">'
        f'<text{long} x="{aside}" y="{_length(shift)}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{side}" paint-order="stroke" stroke="var(--chart-paper)" stroke-width="3" '
        f'stroke-linejoin="round"{turned}>{words}</text></svg>'
    )


def _legend(traces: Sequence[Mapping[str, Any]], key: str) -> Iterator[str]:
    """The names of groups of points, bars or lines, in a row above the plot, each with a piece of what is drawn."""
    for (left, top), trace in zip(_places(traces), traces, strict=True):
        if trace.get("type") == "bar":
            box = f'x="{left:.0f}" y="{top + 4:.0f}" width="11" height="11"'
            yield f'<rect {box} fill="{trace["marker"]["color"]}"/>'
            yield _hatched(box, trace["marker"].get("pattern", {}).get("shape"), key)
        elif trace.get("mode") == "lines":
            ends = f'x1="{left:.0f}" x2="{left + PIECE:.0f}" y1="{top + 10:.0f}" y2="{top + 10:.0f}"'
            yield f"<line {ends} {_stroke(trace['line'])}/>"
        else:
            yield f'<circle cx="{left + 5:.0f}" cy="{top + 10:.0f}" r="4" fill="{trace["marker"]["color"]}"/>'
        yield (
            f'<text x="{left + _piece(trace) + 3:.0f}" y="{top + 14:.0f}" font-size="12" '
            f'fill="var(--chart-ink)">{escape(trace["name"])}</text>'
        )


def _piece(trace: Mapping[str, Any]) -> float:
    """How wide the piece of what is drawn is beside its name in a legend."""
    return PIECE if trace.get("mode") == "lines" else 11.0


def _places(traces: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Where each name of a legend stands, in rows that fit a phone.

    >>> _places([{"name": "Waiting"}, {"name": "Forward and backward passes"}, {"name": "Roof", "mode": "lines"}])
    [(0.0, 0.0), (75.0, 0.0), (0.0, 20.0)]
    """
    places, left, top = [], 0.0, 0.0
    for trace in traces:
        wide = 15 + _piece(trace) + LETTER * len(trace["name"])
        if left and left + wide > NARROW:
            left, top = 0.0, top + LEGEND_ROW
        places.append((left, top))
        left += wide
    return places
