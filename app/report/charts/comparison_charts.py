"""Plans side by side as points of money and time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plotly import graph_objects as go

from app.plan.band import Band
from app.plan.declarations import declared, value_of
from app.plan.result import Plan
from app.report.charts import style
from app.report.charts.style import CLEAR, STYLES, Values, annotation, figure, nothing, plain, sentence, text
from app.report.tables import Column, Table
from app.studies.comparison import ALIKE, Comparison, Difference
from app.studies.differences import is_unclear

SYMBOLS = ("circle", "square", "triangle-up", "diamond")
"""Plans A to D differ in shape, never in hue."""
TRAINING = ("training.time_to_train", "costs.capital")
SERVING = ("serving.requests_per_second", "serving.costs.per_million_output_tokens")
APART = 1.1
"""Air about the ranges, as a factor."""


@dataclass(frozen=True)
class _Axes:
    """What stands across and what stands up."""

    across: str
    up: str

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> _Axes:
        """Money against time, or the price of tokens against requests where every plan serves."""
        return cls(*(SERVING if all(plan.serving is not None for plan in plans) else TRAINING))

    def bands(self, plan: Plan) -> tuple[Band, Band] | None:
        """Both of a plan; ``None`` where one is not known."""
        across, up = value_of(plan, self.across), value_of(plan, self.up)
        return (across, up) if across is not None and up is not None else None


def money_and_time(compared: Comparison, names: Sequence[str]) -> go.Figure:
    """Each plan as a point with its ranges: what it costs against how long it takes."""
    axes = _Axes.of(compared.plans)
    titles = declared(Plan)
    across, up = titles[axes.across], titles[axes.up]
    subtitle = f"{up.label} against {across.label[:1].lower()}{across.label[1:]}; crosses are 80 % ranges"
    places = [(place, bands) for place, plan in enumerate(compared.plans) if (bands := axes.bands(plan))]
    if not places:
        return nothing("No plan has both.", subtitle)
    x_low, x_high = _reach([bands[0] for _, bands in places])
    y_low, y_high = _reach([bands[1] for _, bands in places])
    data = [trace for place, bands in places for trace in _point(place, *bands, names[place])]
    notes = [_letter(place, *bands, SIDES[_covered(places[:row], bands)]) for row, (place, bands) in enumerate(places)]
    return figure(
        sentence(_title(compared, axes)),
        subtitle,
        data,
        height=360,
        x=style.logarithmic(across.label, x_low, x_high, across.unit),
        y=style.logarithmic(up.label, y_low, y_high, up.unit),
        annotations=notes,
    )


def money_and_time_table(compared: Comparison, names: Sequence[str]) -> Table:
    """The numbers of that chart."""
    axes = _Axes.of(compared.plans)
    titles = declared(Plan)
    columns = (
        Column("plan", "Plan"),
        Column("name", "What it is"),
        *(Column(path, titles[path].label, titles[path].unit, band=True) for path in (axes.across, axes.up)),
    )
    rows = tuple(
        ("ABCD"[place], names[place], value_of(plan, axes.across), value_of(plan, axes.up))
        for place, plan in enumerate(compared.plans)
    )
    return Table("comparison", "Money and time of the plans", columns, rows)


def _reach(bands: Sequence[Band]) -> tuple[float, float]:
    """The ends of an axis: all ranges, with air."""
    return min(band.low for band in bands) / APART, max(band.high for band in bands) * APART


SIDES = (("left", "bottom", 8, 5), ("right", "bottom", -8, 5), ("left", "top", 8, -5), ("right", "top", -8, -5))
"""Where a letter stands about its point: its anchors and how far it is shifted; the next place for the next plan."""


def _letter(place: int, across: Band, up: Band, side: tuple[str, str, int, int]) -> Values:
    """The letter of a plan beside its point."""
    x, y = math.log10(across.typical), math.log10(up.typical)
    return annotation("ABCD"[place], x, y, *side[:2], bgcolor=CLEAR, xshift=side[2], yshift=side[3])


def _covered(before: Sequence[tuple[int, tuple[Band, Band]]], bands: tuple[Band, Band]) -> int:
    """How many points before this one stand so near that their letters would cover each other."""
    return sum(
        all(abs(math.log(one.typical / other.typical)) < 0.03 for one, other in zip(bands, others, strict=True))
        for _, others in before
    )


def _point(place: int, across: Band, up: Band, name: str) -> Iterator[Values]:
    """A plan with its ranges, as a cross."""
    line = {"color": STYLES["accent"].colour, "width": 1.2}
    crosses = (((across.low, across.high), (up.typical,) * 2), ((across.typical,) * 2, (up.low, up.high)))
    for x, y in crosses:
        yield {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "opacity": 0.6, "hoverinfo": "skip"}
    said = f"{'ABCD'[place]} {plain(name)}<br>{text(across)}, {text(up)}"
    yield {
        "type": "scatter",
        "mode": "markers",
        "x": [across.typical],
        "y": [up.typical],
        "text": [said],
        "marker": {"size": 11, "color": STYLES["accent"].colour, "symbol": SYMBOLS[place]},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _title(compared: Comparison, axes: _Axes) -> str:
    """Which plan is ahead in each, as far as the ranges of the differences tell."""
    rows = {row.field: row for row in (*compared.differences, *compared.same)}
    serves = axes.across == SERVING[0]
    able = [place for place, plan in enumerate(compared.plans) if axes.bands(plan)]
    quick = _first(rows[axes.across], able, most=serves)
    cheap = _first(rows[axes.up], able)
    pace, money = (
        ("answers the most requests", "has the cheapest tokens")
        if serves
        else ("is the soonest", "is the cheapest to buy")
    )
    if quick and quick == cheap:
        return f"{quick} {pace} and {money}"
    first = f"{quick} {pace}" if quick else f"Nobody can tell which plan {pace}"
    second = f"{cheap} {money}" if cheap else f"nobody can tell which {money}"
    return f"{first}; {second}"


def _first(row: Difference, able: Sequence[int], *, most: bool = False) -> str:
    """The letter of the plan that has least, or most, of a result; blank where the ranges do not tell it from A.

    Only the plans that are ``able`` to do the job count.
    """
    known = [(change, place) for place in able if (change := row.changes[place]) is not None]
    best = (max if most else min)(known, default=(0.0, 0))[1]
    others = [best] if best else [place for _, place in known if place]
    ratios = [row.ratios[place] if row.ratios else None for place in others]
    told = all(ratio is not None and abs(ratio.typical) > ALIKE and not is_unclear(ratio) for ratio in ratios)
    return "ABCD"[best] if others and told else ""
