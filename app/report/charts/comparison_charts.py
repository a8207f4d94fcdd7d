"""Plans side by side as points of money and time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.catalog.names import listed
from app.plan.band import Band, with_range
from app.plan.declarations import declared, value_of
from app.plan.result import Plan
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
    Values,
    annotation,
    figure,
    label,
    marked,
    nothing,
    plain,
    rows,
    sentence,
    titled,
    whisker,
)
from app.report.labels import named
from app.report.tables import Column, Table
from app.studies.comparison import ALIKE, Comparison, Difference, part_changes
from app.studies.differences import is_one_sided, is_unclear
from app.units import marks, show_difference

SYMBOLS = ("circle", "square", "triangle-up", "diamond")
"""Plans A to D differ in shape, never in hue."""
TRAINING = ("training.time_to_train", "costs.capital")
SERVING = ("serving.requests_per_second", "serving.costs.per_million_output_tokens")
CAPITAL, CAPITAL_PARTS = "costs.capital", "costs.capital_parts.cost"
APART = 1.1
"""Air about the ranges, as a factor."""


@dataclass(frozen=True)
class _Axes:
    """What stands across and what stands up."""

    across: str
    up: str

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> "_Axes":
        """Money against time, or the price of tokens against requests where every plan serves."""
        return cls(*(SERVING if all(plan.serving is not None for plan in plans) else TRAINING))

    def bands(self, plan: Plan) -> tuple[Band, Band] | None:
        """Both of a plan; ``None`` where one is not known."""
        across, up = value_of(plan, self.across), value_of(plan, self.up)
        return (across, up) if across is not None and up is not None else None


def money_and_time(compared: Comparison, names: Sequence[str]) -> Figure:
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


@dataclass(frozen=True)
class _Step:
    """A part of the way from the capital of plan A to that of another, or the whole of it."""

    place: int
    part: str
    change: Band
    base: float

    @property
    def said(self) -> str:
        """The change in words."""
        change = self.change
        return show_difference(change.low, change.typical, change.high, change.unit)


WHOLE = "together"


def _steps(compared: Comparison) -> Iterator[_Step]:
    """What each plan costs more or less to buy than A, part by part, and together with its range."""
    row = next((row for row in (*compared.differences, *compared.same) if row.field == CAPITAL), None)
    for place in range(1, len(compared.plans)):
        whole = row.differences[place] if row and row.differences else None
        if whole is None:
            continue
        base = 0.0
        for part, change in part_changes(compared, CAPITAL_PARTS, place).items():
            if abs(change) > VISIBLE * abs(whole.typical) and change:
                yield _Step(place, part, Band(change, change, change, whole.unit), base)
            base += change
        yield _Step(place, WHOLE, whole, 0.0)


def capital_by_cause(compared: Comparison) -> Figure:
    """From what plan A costs to buy to what each other plan does: parts that go on from one another, and their sum."""
    subtitle = "What each costs more or less to buy than plan A, part by part; the sums with their 80 % ranges"
    steps = list(_steps(compared))
    if not steps:
        return nothing("The prices are not known.", subtitle)
    ends = [end for step in steps for end in (step.base, step.base + step.change.low, step.base + step.change.high)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    margin = 0.04 * ((high - low) or 1.0)
    span = (low - margin if low else 0.0, high + margin if high else 0.0)
    return figure(
        sentence(_causes(steps)),
        subtitle,
        [_change(step, row) for row, step in enumerate(steps)],
        height=ROW * len(steps) + FOOT,
        x=titled("US dollars", range=span, **marked(marks(*span, "USD", 3))),
        y=rows(len(steps)),
        annotations=[label(f"{'ABCD'[step.place]}, {step.part}", step.said, row) for row, step in enumerate(steps)],
    )


def _change(step: _Step, row: int) -> Values:
    return {
        "type": "bar",
        "orientation": "h",
        "name": step.part,
        "x": [step.change.typical],
        "y": [row],
        "width": THICK,
        "offset": OFFSET,
        "base": [step.base],
        "marker": style.shaded(STYLES["accent" if step.part == WHOLE else "money"]),
        "error_x": whisker(step.change),
        "hovertemplate": f"{'ABCD'[step.place]}, {plain(step.part)}: {step.said}<extra></extra>",
    }


def _causes(steps: Sequence[_Step]) -> str:
    """Which part of each plan's capital moves it most."""
    said = []
    for whole in (step for step in steps if step.part == WHOLE):
        parts = [step for step in steps if step.place == whole.place and step.part != WHOLE]
        letter = "ABCD"[whole.place]
        if not parts:
            said.append(f"{letter} costs as much to buy as A")
            continue
        most = max(parts, key=lambda step: abs(step.change.typical))
        said.append(f"{letter} {whole.said.partition(' (')[0]}, {most.part} {most.said}")
    return "Against A to buy: " + "; ".join(said)


def one_sided(compared: Comparison) -> list[str]:
    """The letters of plans whose change of capital stands at an end of its range in that chart."""
    return ["ABCD"[step.place] for step in _steps(compared) if step.part == WHOLE and is_one_sided(step.change)]


def capital_by_cause_table(compared: Comparison) -> Table:
    """The numbers of that chart."""
    columns = (
        Column("plan", "Plan"),
        Column("part", "Part of capital"),
        Column("change", "More or less than plan A", "USD", band=True),
    )
    changes = tuple(("ABCD"[step.place], named(step.part), step.change) for step in _steps(compared))
    return Table("capital_by_cause", "What each plan costs more or less to buy, by cause", columns, changes)


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
        all(abs(math.log(band.typical / other.typical)) < 0.03 for band, other in zip(bands, others, strict=True))
        for _, others in before
    )


def _point(place: int, across: Band, up: Band, name: str) -> Iterator[Values]:
    """A plan with its ranges, as a cross."""
    line = {"color": STYLES["accent"].colour, "width": 1.2}
    crosses = (((across.low, across.high), (up.typical,) * 2), ((across.typical,) * 2, (up.low, up.high)))
    for x, y in crosses:
        yield {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "opacity": 0.6, "hoverinfo": "skip"}
    said = f"{'ABCD'[place]} {plain(name)}<br>{with_range(across)}, {with_range(up)}"
    yield {
        "type": "scatter",
        "mode": "markers",
        "x": [across.typical],
        "y": [up.typical],
        "text": [said],
        "marker": {"size": 11, "color": STYLES["accent"].colour, "symbol": SYMBOLS[place]},
        "hovertemplate": "%{text}<extra></extra>",
    }


AHEAD = {
    (True, False): ("answers the most requests", "has the cheapest tokens"),
    (True, True): ("answers more requests", "has cheaper tokens"),
    (False, False): ("is the soonest", "is the cheapest to buy"),
    (False, True): ("is sooner", "is cheaper to buy"),
}
"""How a plan is ahead, by whether it serves and whether it is one of two."""


def _title(compared: Comparison, axes: _Axes) -> str:
    """Which plan is ahead in each, as far as the ranges of the differences tell."""
    rows = {row.field: row for row in (*compared.differences, *compared.same)}
    serves = axes.across == SERVING[0]
    able = [place for place, plan in enumerate(compared.plans) if axes.bands(plan)]
    quick = _first(rows[axes.across], able, most=serves)
    cheap = _first(rows[axes.up], able)
    pace, money = AHEAD[serves, len(compared.plans) == 2]
    if quick and quick == cheap:
        return f"{quick} {pace} and {money}"
    both = ["requests", "cost of tokens"] if serves else ["time", "price"]
    fields = zip(both, (axes.across, axes.up), strict=True)
    unclear = [what + _between(rows[field], able) for what, field in fields]
    if not quick and not cheap:
        return f"No clear difference in {(' or ' if unclear == both else ', nor in ').join(unclear)}"
    first = f"{quick} {pace}" if quick else f"No clear difference in {unclear[0]}"
    second = f"{cheap} {money}" if cheap else f"no clear difference in {unclear[1]}"
    return f"{first}; {second}"


def _told(row: Difference, place: int) -> bool:
    """Whether the ranges tell a plan from A in a result."""
    ratio = row.ratios[place] if row.ratios else None
    return ratio is not None and abs(ratio.typical) > ALIKE and not is_unclear(ratio)


def _between(row: Difference, able: Sequence[int]) -> str:
    """Which plans a result does not tell apart, where it tells others from A: they are behind."""
    alike = [place for place in able if place == 0 or not _told(row, place)]
    return f" between {listed(['ABCD'[place] for place in alike])}" if 1 < len(alike) < len(able) else ""


def _first(row: Difference, able: Sequence[int], *, most: bool = False) -> str:
    """The letter of the plan that has least, or most, of a result; blank where the ranges do not tell it from A.

    Only the plans that are ``able`` to do the job count.
    """
    known = [(change, place) for place in able if (change := row.changes[place]) is not None]
    best = (max if most else min)(known, default=(0.0, 0))[1]
    others = [best] if best else [place for _, place in known if place]
    return "ABCD"[best] if others and all(_told(row, place) for place in others) else ""
