"""Plans side by side."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies.comparison import Comparison, compare


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


def test_equal_scenarios_differ_in_nothing() -> None:
    alike = compare([Scenario(), Scenario()], load_catalog())
    assert alike.asked == ()
    assert alike.differences == ()
    assert alike.same
