"""Plans and curves as Plotly figures, in one house style.

Every value a figure draws is the plan's own, in its base unit; only the text of the axes is written for people. The
title is the finding, computed from the data; the subtitle says what is plotted and in which unit. Both are plain text
in ``layout.title``, so that a page prints them as text beside the drawing.

Colours mean one thing each. They are named, not given: ``var(--chart-compute)`` stands for a custom property of the
style sheet, which the page fills in for the light or dark scheme. Patterns and dashes say the same without colour.

A figure is what Plotly's JavaScript takes, as plain data: Plotly's own classes would take 17 MB, and looking at each
property is three quarters of the making. The tests let them look at every figure that is drawn there.
"""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from app.plan.band import Band
from app.plan.result import Plan
from app.units import decades, marks, percent

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
LEGEND: Mapping[str, Any] = {
    "showlegend": True,
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0, "font": {"size": 12}},
}
"""The names of what is drawn in a row above it."""


@dataclass(frozen=True)
class Style:
    """How one meaning is drawn: colour, pattern of areas, dash of lines."""

    colour: str
    pattern: str = ""
    dash: str = "solid"
    text: str = PAPER


def _named(name: str, pattern: str = "", dash: str = "solid", text: str = PAPER) -> Style:
    return Style(f"var(--chart-{name})", pattern, dash, text)


STYLES: Mapping[str, Style] = {
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
    "one-shot": _named("compute", dash="dot"),
    "two-shot": _named("compute", dash="dashdot"),
    "recursive-halving-doubling": _named("muted", dash="dot"),
    "hierarchical": _named("muted", dash="dashdot"),
    "quickest": _named("accent"),
}


def style_of(name: str) -> Style:
    """The look of a meaning: a resource, or the key of a link or network."""
    for key in (name, *(family for family in STYLES if name.startswith(f"{family}-"))):
        if key in STYLES:
            return STYLES[key]
    return STYLES["muted"]


def resource_look(resource: str, plan: Plan) -> Style:
    """The look of a resource in this plan: its scale-up link and network have colours of their own."""
    if resource in ("scale_up", "scale_out"):
        return style_of(str(plan.scenario[resource]))
    return style_of(resource)


PLAIN: Values = {"data": {"scatter": [{"type": "scatter"}]}}
"""Plotly's template "none"."""
IN_SCRIPT = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("/"): "\\u002f"}
"""How JSON writes what would end the script that it stands in."""


@dataclass(frozen=True)
class Figure:
    """A chart as Plotly's JavaScript takes it.

    Attributes:
        data: its traces.
        layout: its texts, axes and shapes.
    """

    data: Sequence[Values]
    layout: Values

    @property
    def title(self) -> str:
        """The finding."""
        return str(self.layout["title"]["text"])

    @property
    def subtitle(self) -> str:
        """What is plotted."""
        return str(self.layout["title"]["subtitle"]["text"])

    def to_json(self) -> str:
        """The figure as JSON that may stand inside a script: NaN and infinity as null, or in arrays as they are."""
        return orjson.dumps({"data": self.data, "layout": self.layout}, _packed).decode().translate(IN_SCRIPT)


def _packed(values: NDArray[Any]) -> Any:
    """An array as Plotly's JavaScript takes it: numbers in base 64, half as long as text; one number as it is."""
    if values.ndim and values.dtype == np.float64:
        return {"dtype": "f8", "bdata": b64encode(values.tobytes()).decode()}
    return values.tolist()


def figure(
    title: str, subtitle: str, data: Sequence[Values], *, height: int, x: Values, y: Values, **more: Any
) -> Figure:
    """A figure in the house style."""
    layout: Values = {
        "template": PLAIN,
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
    said = {name: value for name, value in {**layout, **more}.items() if value != []}
    return Figure(data, said)


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


def titled(text: str, **more: Any) -> Values:
    return {"title": {"text": text, "standoff": 8, "font": {"size": SIZE, "color": MUTED}}, **more}


def marked(spots: Sequence[tuple[float, str]]) -> Values:
    return {"tickvals": [value for value, _ in spots], "ticktext": [text for _, text in spots]}


def linear(text: str, top: float, unit: str) -> Values:
    """A linear axis that starts at zero."""
    top = top if math.isfinite(top) and top > 0 else 1.0
    return titled(text, range=[0, top * 1.04], **marked(marks(0.0, top * 1.04, unit, 3)))


def logarithmic(text: str, low: float, high: float, unit: str) -> Values:
    """A logarithmic axis; over less than a decade, with the marks of a linear one."""
    spots = decades(low, high, unit) if high / low > 8 else marks(low, high, unit, 4)
    return titled(text, type="log", range=[math.log10(low), math.log10(high)], **marked(spots))


def counted(text: str, low: float, high: float) -> Values:
    """A logarithmic axis of counts, in powers of two."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    step = max(1, -(-(last - first) // 4))
    spots = [(float(2**power), f"{2**power:,}") for power in range(first, last + 1, step)]
    return titled(text, type="log", range=[math.log10(low), math.log10(high)], **marked(spots))


def shaded(style: Style) -> Values:
    """The fill of a bar: its colour, and its pattern for those who do not see the colour."""
    pattern = {"shape": style.pattern, "fillmode": "overlay", "fgcolor": PAPER, "fgopacity": 0.45, "size": 7}
    return {"color": style.colour, "line": {"width": 0}, "pattern": pattern if style.pattern else {"shape": ""}}


def share(value: float) -> str:
    return f"under {percent(0.01)}" if 0 < value < 0.005 else percent(value)


def sentence(text: str) -> str:
    """Upper-case first letter, one full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def rows(count: int) -> Values:
    """An axis of rows from the top down, each with a line of text above its bar."""
    return {"range": [count - 0.5, -0.5], "visible": False}


def label(name: str, value: str, row: int) -> Values:
    """The line of text above a bar: names may be long and screens narrow."""
    text = f"{plain(name)}  <b>{plain(value)}</b>"
    where = {"xref": "paper", "yshift": 7, "bgcolor": CLEAR, "font": {"size": SIZE - 0.5, "color": INK}}
    return annotation("", 0, row, "left", "middle", **where) | {"text": text}


def whisker(value: Band | None) -> Values:
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


def plain(text: str) -> str:
    """Text that Plotly takes as text, not as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def upright(x: float) -> Values:
    return {"type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1, "line": {"color": INK, "width": 1.5}}


def annotation(text: str, x: Any, y: Any, xanchor: str = "left", yanchor: str = "middle", **more: Any) -> Values:
    return {
        "text": plain(text),
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


def nothing(title: str, subtitle: str) -> Figure:
    """A figure for a plan that lacks these numbers: the findings say why."""
    empty = {"visible": False}
    note = annotation("Not known: the findings say why.", 0.5, 0.5, "center", xref="paper", yref="paper")
    return figure(title, subtitle, [], height=120, x=empty, y=empty, annotations=[note])


def across(y: float) -> Values:
    return {
        "type": "line",
        "y0": y,
        "y1": y,
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "line": {"color": INK, "width": 1.2, "dash": "dot"},
    }


def own_point(x: float, y: float) -> Values:
    """The planner's own case: a ring round a dot, always on top."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "your plan",
        "x": [x],
        "y": [y],
        "marker": {"symbol": "circle-dot", "size": 13, "color": STYLES["accent"].colour, "line": {"width": 2}},
        "cliponaxis": False,
        "hovertemplate": "your plan<extra></extra>",
    }


def own_label(text: str, x: float, y: float, leftward: bool = False) -> Values:
    """The name of the planner's own point, on its right or on its left."""
    side = ("right", -8) if leftward else ("left", 8)
    return annotation(text, x, y, side[0], "bottom", xshift=side[1], yshift=6, bgcolor=CLEAR)
