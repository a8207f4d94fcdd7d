"""Plans side by side: what differs, by how much, and where each difference comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.catalog.load import Catalog
from app.plan.band import Band, Quantity
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.units import percent

ALIKE = 5e-4
"""Relative differences below this are not listed."""

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class Difference:
    """One result that differs. ``values`` has one entry a plan; ``cause`` explains the largest change."""

    field: str
    title: str
    unit: str
    values: tuple[Any, ...]
    changes: tuple[float | None, ...]
    cause: str


@dataclass(frozen=True)
class Comparison:
    plans: tuple[Plan, ...]
    asked: tuple[Difference, ...]
    differences: tuple[Difference, ...]
    same: tuple[Difference, ...]


@dataclass(frozen=True)
class Row:
    """One result to compare: how to get it, and how to say why it differs between two plans."""

    field: str
    title: str
    get: Callable[[Plan], Any]
    cause: Callable[[Plan, Plan], str] = lambda first, other: ""


def compare(scenarios: Sequence[Scenario], catalog: Catalog) -> Comparison:
    """Evaluate two to four scenarios and list what differs, with the difference and its cause."""
    plans = tuple(evaluate(scenario, catalog) for scenario in scenarios)
    rows = [_difference(row, plans) for row in ROWS]
    asked = [
        Difference(f"scenario.{name}", Scenario.model_fields[name].title or name, "", values, (None,) * len(plans), "")
        for name in Scenario.model_fields
        if name != "catalog_version" and len(set(values := tuple(plan.scenario[name] for plan in plans))) > 1
    ]
    return Comparison(
        plans=plans,
        asked=tuple(asked),
        differences=tuple(row for row in rows if any(map(_differs, row.changes))),
        same=tuple(row for row in rows if not any(map(_differs, row.changes))),
    )


def _differs(change: float | None) -> bool:
    return change is None or abs(change) > ALIKE


def _difference(row: Row, plans: Sequence[Plan]) -> Difference:
    values = tuple(row.get(plan) for plan in plans)
    numbers = [_typical(value) for value in values]
    changes = tuple(_change(numbers[0], number) for number in numbers)
    unit = next((value.unit for value in values if isinstance(value, Band)), "")
    known = [(abs(change), index) for index, change in enumerate(changes) if change is not None]
    largest = max(known, default=(0.0, 0))[1]
    cause = row.cause(plans[0], plans[largest]) if largest else ""
    return Difference(row.field, row.title, unit, values, changes, cause)


def _typical(value: Any) -> Any:
    return value.typical if isinstance(value, Band) else value


def _change(first: Any, other: Any) -> float | None:
    """Relative change from the first plan; ``None`` where one has no number, or they are words that differ."""
    if first == other:
        return 0.0
    if isinstance(first, int | float) and isinstance(other, int | float) and first:
        return float(other / first - 1)
    return None


def _largest(parts: Callable[[Plan], Amounts]) -> Callable[[Plan, Plan], str]:
    """Names the part of a sum that changed most, with its share of the first plan's whole."""

    def cause(first: Plan, other: Plan) -> str:
        before, after = parts(first), parts(other)
        moves = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in {*before, *after}}
        name = max(moves, key=lambda part: abs(moves[part]), default="")
        whole = sum(before.values())
        if not whole or abs(moves[name] / whole) < ALIKE:
            return ""
        return f"{name.replace('_', ' ')}: {_signed(moves[name] / whole)} of the whole"

    return cause


def _run(first: Plan, other: Plan) -> str:
    """A run costs its hours times the price of an hour: whichever changed more."""
    hours = _change(_typical(first.training.time_to_train), _typical(other.training.time_to_train))
    price = _change(_typical(first.costs.per_gpu_hour), _typical(other.costs.per_gpu_hour))
    if hours is None or price is None:
        return ""
    name, change = max((("time to train", hours), ("cost of a GPU-hour", price)), key=lambda pair: abs(pair[1]))
    return f"{name}: {_signed(change)}"


def _signed(change: float) -> str:
    return ("+" if change > 0 else "") + percent(change, 1)


def _amounts(pairs: Sequence[tuple[str, Quantity]]) -> Amounts:
    totals: dict[str, float] = {}
    for name, band in pairs:
        totals[name] = totals.get(name, 0.0) + (band.typical if band else 0.0)
    return totals


def _step(plan: Plan) -> Amounts:
    return _amounts([(part.name, part.time) for part in plan.training.parts])


def _bill(plan: Plan) -> Amounts:
    return _amounts([(line.role, line.cost) for line in plan.fabric.bill_of_materials])


def _capital(plan: Plan) -> Amounts:
    return _amounts([(line.name, line.cost) for line in plan.costs.capital_parts])


def _operating(plan: Plan) -> Amounts:
    return _amounts([(line.name, line.cost) for line in plan.costs.operating_parts])


def _memory(plan: Plan) -> Amounts:
    return _amounts([(part.name, part.size) for part in plan.memory.parts])


ROWS = (
    Row("training.time_to_train", "Time to train", lambda plan: plan.training.time_to_train, _largest(_step)),
    Row("training.step_time", "Step time", lambda plan: plan.training.step_time, _largest(_step)),
    Row("training.mfu", "Model FLOPs utilisation", lambda plan: plan.training.mfu, _largest(_step)),
    Row("training.tokens_per_second", "Tokens a second", lambda plan: plan.training.tokens_per_second, _largest(_step)),
    Row("bottleneck.resource", "Bottleneck", lambda plan: plan.bottleneck.resource),
    Row("memory.total", "Memory a GPU", lambda plan: plan.memory.total, _largest(_memory)),
    Row("all_reduce.time", "All-reduce time", lambda plan: plan.all_reduce.time),
    Row("all_reduce.bus_bandwidth", "All-reduce bus bandwidth", lambda plan: plan.all_reduce.bus_bandwidth),
    Row("all_reduce.algorithm", "All-reduce algorithm", lambda plan: plan.all_reduce.algorithm),
    Row("fabric.leaf_switches", "Leaf switches", lambda plan: plan.fabric.leaf_switches),
    Row("fabric.spine_switches", "Spine switches", lambda plan: plan.fabric.spine_switches),
    Row("fabric.core_switches", "Core switches", lambda plan: plan.fabric.core_switches),
    Row("fabric.bisection_per_gpu", "Bisection bandwidth a GPU", lambda plan: plan.fabric.bisection_per_gpu),
    Row("fabric.cost", "Fabric cost", lambda plan: plan.fabric.cost, _largest(_bill)),
    Row(
        "fabric.cost_per_host_port", "Cost per host port", lambda plan: plan.fabric.cost_per_host_port, _largest(_bill)
    ),
    Row("fabric.cost_per_gpu", "Fabric cost a GPU", lambda plan: plan.fabric.cost_per_gpu, _largest(_bill)),
    Row("costs.capital", "Capital", lambda plan: plan.costs.capital, _largest(_capital)),
    Row("costs.operating", "Running cost a year", lambda plan: plan.costs.operating, _largest(_operating)),
    Row("costs.total", "Total over the lifetime", lambda plan: plan.costs.total, _largest(_capital)),
    Row("costs.per_run", "Cost of the run, owned", lambda plan: plan.costs.per_run, _run),
    Row("costs.rental", "Cost of the run, rented", lambda plan: plan.costs.rental, _run),
    Row("cluster.power", "Power", lambda plan: plan.cluster.power),
    Row("cluster.racks", "Racks", lambda plan: plan.cluster.racks),
)
