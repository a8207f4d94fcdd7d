"""Plans side by side."""

from dataclasses import replace
from itertools import pairwise

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report.charts import comparison_charts
from app.studies.comparison import Comparison, compare, compare_plans, part_changes
from app.units import percent
from tests.bands import typical


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare([Scenario(), Scenario(scale_out="tcp-400")], load_catalog())


def test_the_plans_are_those_of_the_scenarios(comparison: Comparison) -> None:
    assert comparison.plans[0] == evaluate(Scenario(), load_catalog())


def test_what_was_asked_differently_is_listed(comparison: Comparison) -> None:
    assert next(row.values for row in comparison.asked if row.field == "scenario.scale_out") == (
        "infiniband-ndr",
        "tcp-400",
    )


def test_a_slower_network_shows_as_a_longer_step_with_its_cause(comparison: Comparison) -> None:
    step = next(row for row in comparison.differences if row.field == "training.step_time")
    first, second = (plan.training.step_time for plan in comparison.plans)
    assert first is not None
    assert second is not None
    assert step.changes[1] == pytest.approx(second.typical / first.typical - 1)
    assert step.changes[1] > 0.05
    assert "data parallel" in step.cause


def test_a_dearer_run_is_laid_to_its_hours_where_they_changed_most(comparison: Comparison) -> None:
    run = next(row for row in comparison.differences if row.field == "costs.per_run")
    assert run.cause.startswith("time to train: +")


def test_what_a_plan_costs_more_to_buy_is_the_sum_of_its_parts(comparison: Comparison) -> None:
    first, second = (typical(plan.costs.capital) for plan in comparison.plans)
    parts = part_changes(comparison, "costs.capital_parts.cost", 1)
    assert sum(parts.values()) == pytest.approx(second - first)
    assert parts["fabric"] == pytest.approx(
        typical(comparison.plans[1].fabric.cost) - typical(comparison.plans[0].fabric.cost)
    )
    table = comparison_charts.capital_by_cause_table(comparison)
    *steps, (_, whole, change) = table.rows
    assert whole == "Together"
    assert typical(change) == pytest.approx(sum(typical(step[2]) for step in steps), rel=1e-3)
    bars = comparison_charts.capital_by_cause(comparison).data
    for before, after in pairwise(bars[:-1]):  # each part goes on from the one before
        assert after["base"][0] == pytest.approx(before["base"][0] + before["x"][0])


def test_equal_scenarios_differ_in_nothing() -> None:
    alike = compare([Scenario(), Scenario()], load_catalog())
    assert alike.asked == ()
    assert alike.differences == ()
    assert alike.same


def test_a_change_is_the_share_by_which_the_first_plans_value_grows(comparison: Comparison) -> None:
    first, second = comparison.plans
    for row in comparison.differences:
        assert row.changes[0] == 0
    cost = next(row for row in comparison.differences if row.field == "fabric.cost")
    assert cost.values == (first.fabric.cost, second.fabric.cost)
    assert cost.changes[1] == pytest.approx(typical(second.fabric.cost) / typical(first.fabric.cost) - 1)


def test_the_cause_of_a_sum_is_the_part_that_moved_most_as_a_share_of_the_first_whole(comparison: Comparison) -> None:
    first, second = ({part.name: typical(part.time) for part in plan.training.parts} for plan in comparison.plans)
    moves = {name: second.get(name, 0) - first.get(name, 0) for name in first.keys() | second.keys()}
    most = max(moves, key=lambda name: abs(moves[name]))
    step = next(row for row in comparison.differences if row.field == "training.step_time")
    share = moves[most] / sum(first.values())
    assert step.cause == f"{most.replace('_', ' ')}: +{percent(share, 1)} of the whole"


def test_the_cause_of_a_product_is_the_factor_that_moved_most(comparison: Comparison) -> None:
    first, second = comparison.plans
    hours = typical(second.training.time_to_train) / typical(first.training.time_to_train) - 1
    run = next(row for row in comparison.differences if row.field == "costs.per_run")
    assert run.cause == f"time to train: +{percent(hours, 1)}"


def test_each_plan_is_held_against_the_first_and_the_largest_change_has_the_cause() -> None:
    scenarios = [Scenario(gpus=1024), Scenario(gpus=1024, scale_out="roce-400"), Scenario(gpus=4096)]
    three = compare(scenarios, load_catalog())
    leaves = next(row for row in three.differences if row.field == "fabric.leaf_switches")
    assert (leaves.values[0], leaves.values[2]) == (32, 128)
    assert leaves.changes[2] == 3  # 128 are three times 32 more
    assert leaves.changes[1] == leaves.values[1] / 32 - 1
    assert [row.values for row in three.asked if row.field == "scenario.gpus"] == [(1024, 1024, 4096)]
    cost = next(row for row in three.differences if row.field == "fabric.cost")
    assert cost.changes[2] > abs(cost.changes[1])
    assert ": +" in cost.cause  # that of the cluster of 4,096


def test_what_has_no_number_in_one_plan_differs_without_a_change() -> None:
    lost = compare([Scenario(), Scenario(gpus=8, model="llama-3-405b")], load_catalog())
    step = next(row for row in lost.differences if row.field == "training.step_time")
    assert step.values[1] is None
    assert step.changes == (0, None)
    assert step.cause == ""


@pytest.mark.parametrize(("raised", "listed"), [(1.0004, False), (1.0006, True)])
def test_less_than_a_twentieth_of_a_per_cent_is_no_difference(raised: float, listed: bool) -> None:
    plan = evaluate(Scenario(), load_catalog())
    assert plan.fabric.cost is not None
    cost = replace(plan.fabric.cost, typical=plan.fabric.cost.typical * raised)
    found = compare_plans([plan, replace(plan, fabric=replace(plan.fabric, cost=cost))])
    assert ("fabric.cost" in [row.field for row in found.differences]) == listed
    assert ("fabric.cost" in [row.field for row in found.same]) != listed


def test_a_change_at_an_end_of_its_range_is_named_as_such() -> None:
    """On RoCE 1,024 H100 cost $829 K less at typical prices, and more than that less at nearly all others."""
    catalog = load_catalog()
    roce, tapered = (compare([Scenario(), other], catalog) for other in (Scenario(scale_out="roce-400"),
                                                                        Scenario(oversubscription=2)))  # fmt: skip
    assert comparison_charts.one_sided(roce) == ["B"]
    assert comparison_charts.one_sided(tapered) == []
