"""InfiniBand or Ethernet: where the answer turns, and how it stands in each situation."""

import numpy as np
import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.formulas.arrays import typical_of
from app.studies.board_brief import BriefQuestion, brief
from app.studies.network_costs import CostQuestion, cost_study
from app.studies.which_network import break_even, pair, weighed

CATALOG = load_catalog()
JOB = {"gpus": 256, "model": "llama-3-8b"}


@pytest.mark.parametrize("asked", [{}, {"scale_out": "roce-400", "tuned": False}, {"load_balancing": "hashing"}])
def test_each_network_is_what_a_plan_on_it_says(asked):
    """Its own parallelism, and its own way of spreading flows where another network was asked for."""
    for run, key in zip(pair(Scenario(**JOB, **asked), CATALOG), ("infiniband-ndr", "roce-400"), strict=True):
        own = key == asked.get("scale_out", "infiniband-ndr")
        same = asked if own else {name: value for name, value in asked.items() if name == "tuned"}
        plan = evaluate(Scenario(**{**JOB, **same, "scale_out": key}), CATALOG)
        assert run.time == pytest.approx(plan.training.time_to_train.typical, rel=1e-9)
        assert typical_of(run.owned.per_run(run.time)) == pytest.approx(plan.costs.per_run.typical, rel=1e-9)


@pytest.mark.parametrize(
    "asked",
    [
        {"load_balancing": "hashing", "oversubscription": 4, "tensor_parallel": 8},
        {"switch": "qm9700", "tiers": 3, "nodes_per_unit": 16, "gpus": 512, "tensor_parallel": 8},
        {"scale_out": "roce-400", "switch": "sn5600", "nodes_per_unit": 8, "gpus": 512, "tensor_parallel": 8},
    ],
)
def test_all_who_hold_a_plan_against_the_other_family_say_the_same_of_it(asked):
    """Recommendation, situations, brief, rows of cost: none with switches, tiers, units or paths of the plan's own."""
    plan = evaluate(Scenario(**asked), CATALOG)
    said, own = plan.recommendation, plan.training.time_to_train.typical
    situation = weighed(Scenario(**asked), CATALOG)[0]
    to_ethernet = said.rival == "roce-400"
    assert situation.slower == pytest.approx(said.slower if to_ethernet else 1 / (1 + said.slower) - 1, abs=1e-6)
    alternative = brief(BriefQuestion(**asked), CATALOG).alternatives[0]
    assert alternative.time.typical / own - 1 == pytest.approx(said.slower, abs=1e-6)
    saved = plan.costs.capital.typical - alternative.capital.typical
    assert situation.saved == pytest.approx(saved if to_ethernet else -saved)
    tokens = {
        row.network: row.per_million_tokens.typical
        for row in cost_study(CostQuestion(**asked), CATALOG).networks
        if row.per_million_tokens
    }
    assert tokens[said.rival] / tokens[plan.scenario["scale_out"]] - 1 == pytest.approx(said.dearer, abs=1e-6)


def test_where_the_answer_turns_both_runs_cost_the_same():
    """RoCE's run made longer by what it may be; or InfiniBand's network dearer by what it may be."""
    both = pair(Scenario(**JOB), CATALOG)
    said = evaluate(Scenario(**JOB), CATALOG).recommendation
    infiniband, ethernet = both
    cost = typical_of(infiniband.owned.per_run(infiniband.time))
    later = infiniband.time * (1 + said.slower_allowed)
    assert typical_of(ethernet.owned.per_run(later)) == pytest.approx(cost, rel=1e-6)
    dearer = said.dearer_allowed * typical_of(infiniband.owned.network_per_run(infiniband.time))
    assert cost + dearer == pytest.approx(typical_of(ethernet.owned.per_run(ethernet.time)), rel=2e-3)


def test_a_dearer_network_costs_the_run_what_the_share_of_it_says():
    """Its price and the support of its years, for as long as the run has of them."""
    plan, run = evaluate(Scenario(**JOB), CATALOG), pair(Scenario(**JOB), CATALOG).infiniband
    rates = run.owned.rates
    supported = 1 + rates.support.typical * rates.lifetime.typical / rates.year
    share = plan.training.time_to_train.typical / rates.lifetime.typical
    part = typical_of(run.owned.network_per_run(run.time))
    assert part == pytest.approx(plan.fabric.cost.typical * supported * share, rel=1e-9)


def test_the_curve_passes_through_where_it_turns():
    curve = break_even(Scenario(**JOB), CATALOG)
    said = evaluate(Scenario(**JOB), CATALOG).recommendation
    (line,) = curve.series
    assert np.interp(said.slower_allowed, line.x, line.typical) == pytest.approx(1.0)
    assert np.interp(curve.plan_point[0], line.x, line.typical) == pytest.approx(1 + said.dearer_allowed, rel=1e-3)
    assert (line.low <= line.typical).all()
    assert (line.typical <= line.high).all()
    assert [mark.text for mark in curve.marks] == ["RoCE 400 untuned"]


def test_budget_pace_scale_and_who_runs_it_each_have_a_row():
    rows = {row.situation: row for row in weighed(Scenario(**JOB), CATALOG)}
    assert set(rows) == {"own", "untuned", "small", "large", "grown"}
    assert [rows[name].gpus for name in ("small", "large", "grown")] == [32, 2000, 1024]
    own, untuned = rows["own"], rows["untuned"]
    assert untuned.slower > own.slower
    assert untuned.saved == own.saved
    assert untuned.cheaper < own.cheaper
    assert [rows[name].advice for name in ("small", "own", "large")] == ["either", "goal", "infiniband"]
    for row in rows.values():
        assert (row.better == "ethernet") == (row.cheaper > 0.02)


def test_one_node_has_no_network_to_choose():
    alone = Scenario(gpus=8, model="llama-3-8b")
    assert break_even(alone, CATALOG) is None
    assert weighed(alone, CATALOG)[0].better == ""
