"""Differences between two plans, with ranges of their own."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.band import Draws, interval
from app.plan.evaluate import evaluate, evaluate_with_draws
from app.plan.scenario import Scenario
from app.studies.comparison import Comparison, compare
from app.studies.differences import differences, err_alike, is_unclear, ranges


@pytest.fixture(scope="module")
def networks() -> Comparison:
    return compare([Scenario(), Scenario(scale_out="roce-400")], load_catalog())


def test_the_draws_of_a_plan_are_those_its_ranges_were_folded_from() -> None:
    plan, drawn = evaluate_with_draws(Scenario(), load_catalog(), ())
    assert plan == evaluate(Scenario(), load_catalog(), ())
    assert drawn.training is not None
    assert plan.training.step_time is not None
    low, high = interval(drawn.training.step_time.values, drawn.training.step_time.residual)
    assert (float(low), float(high)) == (plan.training.step_time.low, plan.training.step_time.high)
    assert drawn.costs.capital.typical == plan.costs.capital.typical  # type: ignore[union-attr]
    assert drawn.fabric.cost.typical == plan.fabric.cost.typical  # type: ignore[union-attr]
    assert drawn.cluster.power.typical == plan.cluster.power.typical  # type: ignore[union-attr]


def test_what_two_plans_share_is_no_part_of_their_difference() -> None:
    price = np.concatenate(([2.0], np.linspace(1.0, 4.0, 256)))
    absolute, relative = differences(Draws(price * 10), Draws(price * 12), alike=True)
    assert absolute == pytest.approx(price * 2)  # 12 parts against 10 at the same price
    assert relative == pytest.approx(0.2)  # a fifth more at any price


def test_a_shared_error_leaves_the_ratio_and_errors_apart_widen_it() -> None:
    first, other = (Draws(np.full(257, value), residual=0.2) for value in (10.0, 11.0))
    alike, apart = (differences(first, other, alike)[1] for alike in (True, False))
    assert alike == pytest.approx(0.1)
    low, high = (float(end) for end in interval(apart))
    assert np.log(1.1 / (1 + low)) == pytest.approx(np.hypot(0.2, 0.2), rel=0.15)  # two errors of 20 % each
    assert np.log((1 + high) / 1.1) == pytest.approx(np.hypot(0.2, 0.2), rel=0.15)


def test_the_larger_of_two_nested_errors_leaves_the_rest_of_itself() -> None:
    sure, unsure = Draws(np.full(257, 1.0), residual=0.3), Draws(np.full(257, 1.0), residual=0.5)
    low, _ = interval(differences(sure, unsure, alike=True)[1])
    assert -np.log(1 + float(low)) == pytest.approx(0.4, rel=0.15)  # 0.5² = 0.3² + 0.4²


def test_plans_of_the_same_card_model_and_software_err_alike(networks: Comparison) -> None:
    first, other = networks.plans
    assert err_alike("training.step_time", first, other)
    assert not err_alike("all_reduce.time", first, other)  # each network has errors of its own


def test_a_difference_is_known_better_than_either_plan(networks: Comparison) -> None:
    rows = {row.field: row for row in (*networks.differences, *networks.same)}
    time = rows["training.time_to_train"]
    assert time.differences[0] is None
    assert time.ratios[1] is not None
    assert time.differences[1] is not None
    assert time.ratios[1].typical == pytest.approx(time.changes[1])
    assert time.differences[1].typical == pytest.approx(time.values[1].typical - time.values[0].typical)
    width = (time.values[0].high - time.values[0].low) / time.values[0].typical
    assert time.ratios[1].high - time.ratios[1].low < width / 10
    assert is_unclear(time.ratios[1])
    capital = rows["costs.capital"].ratios[1]
    assert capital is not None
    assert not is_unclear(capital)  # at any prices of the day RoCE costs less to buy
    assert rows["cluster.racks"].ratios == (None, None)  # a count has no range


def test_what_one_plan_does_not_know_has_no_difference() -> None:
    known = Draws(np.full(257, 1.0))
    assert ranges(known, Draws(np.full(257, np.nan)), True, "s") is None
    assert ranges(Draws(np.zeros(257)), known, True, "s") is None  # of nothing nothing is a share
