"""Plans side by side: what differs, by how much, and where each difference comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from app.catalog.load import Catalog
from app.plan.band import Band, Declaration, Draws, Quantity, record, result
from app.plan.declarations import results, value_of, view
from app.plan.evaluate import DrawnPlan, evaluate_with_draws
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.differences import err_alike, ranges
from app.units import percent

ALIKE = 5e-4
"""Relative differences below this are not listed."""


@record
class Difference:
    """One result that differs."""

    field: str = result("", "Field", "Its name on the wire.")
    title: str = result("", "Title", "Its name for people.")
    unit: str = result("", "Unit", "Unit of its values; 1 for counts and shares, blank for words.")
    values: tuple[Any, ...] = result("", "Values", "Its value in each plan, as the plan has it.")
    changes: tuple[float | None, ...] = result(
        "1", "Changes", "Relative change from the first plan to each; null where one has no number."
    )
    differences: tuple[Quantity, ...] = result(
        "",
        "Differences",
        "How far each plan is from the first, in the unit, over draws of what both rest on; null where one has no "
        "range, and for the first.",
        default=(),
    )
    ratios: tuple[Quantity, ...] = result(
        "",
        "Ranges of the changes",
        "The changes with their ranges over the same draws; null where one has no range, and for the first.",
        default=(),
    )
    cause: str = result("", "Cause", "Where the largest change comes from; blank where that is not known.", default="")

    @property
    def furthest(self) -> int:
        """The place of the plan that differs most from the first, whose change has the cause."""
        return _furthest(self.changes)


@dataclass(frozen=True)
class Comparison:
    plans: tuple[Plan, ...]
    asked: tuple[Difference, ...]
    differences: tuple[Difference, ...]
    same: tuple[Difference, ...]


def compare(scenarios: Sequence[Scenario], catalog: Catalog) -> Comparison:
    """Evaluate two to four scenarios and list what differs, with the difference and its cause."""
    answers = [evaluate_with_draws(scenario, catalog) for scenario in scenarios]
    return compare_plans([plan for plan, _ in answers], [drawn for _, drawn in answers])


def compare_plans(plans: Sequence[Plan], drawn: Sequence[DrawnPlan] = ()) -> Comparison:
    """The same of plans: every result for comparison that one of them has, as people read them.

    Differences have ranges where the plans come with their draws.
    """
    shown = {entry.path: entry.declared for plan in plans for entry in view(plan, "comparison")}
    valued = {path: tuple(value_of(plan, path) for plan in plans) for path in shown}
    missing = (None,) * len(plans)
    rows = [
        _difference(path, shown[path], values, plans, drawn) for path, values in valued.items() if values != missing
    ]
    inputs = [
        Difference(f"scenario.{name}", Scenario.model_fields[name].title or name, "", values, (None,) * len(plans))
        for name in Scenario.model_fields
        if name != "catalog_version" and len(set(values := tuple(plan.scenario[name] for plan in plans))) > 1
    ]
    return Comparison(
        plans=tuple(plans),
        asked=tuple(inputs),
        differences=tuple(row for row in rows if any(map(_differs, row.changes))),
        same=tuple(row for row in rows if not any(map(_differs, row.changes))),
    )


def _differs(change: float | None) -> bool:
    return change is None or abs(change) > ALIKE


def _difference(
    path: str, declared: Declaration, values: tuple[Any, ...], plans: Sequence[Plan], drawn: Sequence[DrawnPlan]
) -> Difference:
    """One result of every plan."""
    changes = tuple(_change(values[0], value) for value in values)
    furthest = _furthest(changes)
    cause = _cause(path, declared, plans[0], plans[furthest]) if furthest else ""
    ranges = [_ranges(path, declared.unit, plans, drawn, place) for place in range(len(plans))]
    absolute, relative = zip(*(each or (None, None) for each in ranges), strict=True)
    return Difference(path, declared.label, declared.unit, values, changes, absolute, relative, cause)


def _ranges(
    path: str, unit: str, plans: Sequence[Plan], drawn: Sequence[DrawnPlan], place: int
) -> tuple[Band, Band] | None:
    """How far a result of a plan is from the first plan's, absolute and relative, where both are drawn."""
    if not place or not drawn:
        return None
    first, other = (value_of(drawn[at], path) for at in (0, place))
    if not (isinstance(first, Draws) and isinstance(other, Draws)):
        return None
    return ranges(first, other, err_alike(path, plans[0], plans[place]), unit)


def _furthest(changes: Sequence[float | None]) -> int:
    """The place of the largest change; 0, the first plan's, where none has a number.

    >>> _furthest((0.0, -0.2, None, 0.1))
    1
    """
    numbered = [(abs(change), place) for place, change in enumerate(changes) if change is not None]
    return max(numbered, default=(0.0, 0))[1]


def _change(first: Any, other: Any) -> float | None:
    """Relative change from the first plan; ``None`` where one has no number, or they are words that differ."""
    first, other = _typical(first), _typical(other)
    if first == other:
        return 0.0
    if isinstance(first, int | float) and isinstance(other, int | float) and first:
        return float(other / first - 1)
    return None


def _typical(value: Any) -> Any:
    return value.typical if isinstance(value, Band) else value


def _cause(path: str, declared: Declaration, first: Plan, other: Plan) -> str:
    """Why a result differs between two plans, as far as it declares what it is made of."""
    if declared.made_of:
        parts = f"{path.rpartition('.')[0]}.{declared.made_of}"
        return _largest_part(_amounts(first, parts), _amounts(other, parts))
    return _largest_factor(declared.product_of, first, other)


def _amounts(plan: Plan, path: str) -> Mapping[str, float]:
    """The parts of a sum: a column of a list, added up by the first field of its records, which names them."""
    records, _, column = path.rpartition(".")
    totals: dict[str, float] = {}
    for row in attrgetter(records)(plan):
        name, band = getattr(row, fields(row)[0].name), getattr(row, column)
        totals[name] = totals.get(name, 0.0) + (band.typical if band else 0.0)
    return totals


def part_changes(compared: Comparison, path: str, place: int) -> Mapping[str, float]:
    """By how much each part of a sum differs in a plan from the first, in the order of the parts; they add up."""
    return _moves(*(_amounts(compared.plans[at], path) for at in (0, place)))


def _moves(before: Mapping[str, float], after: Mapping[str, float]) -> Mapping[str, float]:
    return {name: after.get(name, 0.0) - before.get(name, 0.0) for name in dict.fromkeys((*before, *after))}


def _largest_part(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Names the part of a sum that changed most, with its share of the first plan's whole."""
    moves = _moves(before, after)
    name = max(moves, key=lambda part: abs(moves[part]), default="")
    whole = sum(before.values())
    if not whole or abs(moves[name] / whole) < ALIKE:
        return ""
    return f"{name.replace('_', ' ')}: {_signed(moves[name] / whole)} of the whole"


def _largest_factor(paths: Sequence[str], first: Plan, other: Plan) -> str:
    """Names the factor of a product that changed most."""
    labels = {entry.path: entry.declared.label for entry in results(first)}
    changes = {path: _change(attrgetter(path)(first), attrgetter(path)(other)) for path in paths}
    numbered = {path: change for path, change in changes.items() if change is not None}
    if not numbered or len(numbered) < len(changes):
        return ""
    path = max(numbered, key=lambda factor: abs(numbered[factor]))
    label = labels[path]
    return f"{label[:1].lower()}{label[1:]}: {_signed(numbered[path])}" if _differs(numbered[path]) else ""


def _signed(change: float) -> str:
    return ("+" if change > 0 else "") + percent(change, 1)
