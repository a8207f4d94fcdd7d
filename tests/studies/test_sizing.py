"""Which cluster trains this model by this date for this money?"""

import itertools

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.job import job as training_job
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.total_cost import total_cost
from app.studies.sizing import Answer, Question, size


def question(**fields: object) -> Question:
    asked = {"model": "llama-3-8b", "training_tokens": "1T", "gpu": ["h100-sxm", "b200-sxm"], "gpus": 1024, **fields}
    return Question.model_validate(asked)


@pytest.fixture(scope="module")
def answer() -> Answer:
    return size(question(deadline="30 days", budget="$40M"), load_catalog(), seconds=60)


def test_the_front_trades_money_for_time(answer: Answer) -> None:
    costs = [point.cost for point in answer.front]
    times = [point.time_to_train for point in answer.front]
    assert len(answer.front) > 2
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)


def test_the_front_keeps_what_is_quicker_by_more_than_a_hundredth(answer: Answer) -> None:
    gains = [1 - after.time_to_train / before.time_to_train for before, after in itertools.pairwise(answer.front)]
    assert all(gain > 0.01 for gain in gains)
    assert min(gains) < 0.3


def test_no_candidate_that_meets_the_limits_is_cheaper_or_quicker_than_the_named_ones(answer: Answer) -> None:
    assert answer.cheapest is not None
    assert answer.fastest is not None
    meeting = [point for point in answer.front if point.meets]
    assert meeting
    assert all(answer.cheapest.cost <= point.cost for point in meeting)
    assert all(answer.fastest.time_to_train <= point.time_to_train for point in meeting)
    assert answer.cheapest.time_to_train <= 30 * 86400
    assert answer.fastest.cost <= 40e6


def test_each_point_is_the_plan_of_the_same_scenario(answer: Answer) -> None:
    assert answer.cheapest is not None
    point = answer.cheapest
    asked = question().scenario(point.gpu, point.scale_out, point.gpus)
    plan = evaluate(asked, load_catalog())
    assert plan.training.time_to_train is not None
    assert plan.costs.capital is not None
    assert plan.training.time_to_train.typical == pytest.approx(point.time_to_train)
    assert plan.costs.capital.typical == pytest.approx(point.capital)


def test_the_next_dollar_buys_the_slope_of_the_front(answer: Answer) -> None:
    first, second = answer.front[:2]
    slope = (first.time_to_train - second.time_to_train) / (second.cost - first.cost)
    assert first.next_dollar == pytest.approx(slope)
    assert answer.front[-1].next_dollar is None


def test_break_even_compares_the_families_at_every_size(answer: Answer) -> None:
    for entry in answer.break_even:
        assert (entry.infiniband, entry.ethernet) == ("infiniband-ndr", "roce-400")
        paying = [gpus for gpus, ratio in entry.points if ratio > 1]
        assert entry.gpus is None or entry.gpus in paying
        assert entry.rule_of_thumb


def test_an_impossible_deadline_is_answered_with_how_far_it_is() -> None:
    missed = size(question(deadline="1 h", gpus=64), load_catalog(), seconds=60)
    assert missed.cheapest is None
    assert "times the deadline" in missed.message


def test_a_model_too_large_for_every_cluster_is_answered_with_what_to_change() -> None:
    nothing = size(question(model="llama-3-405b", gpus=8), load_catalog(), seconds=60)
    assert nothing.front == ()
    assert "Allow more GPUs" in nothing.message


def test_a_search_cut_short_says_so() -> None:
    assert not size(question(), load_catalog(), seconds=0.0).complete


def test_the_stages_without_ranges_have_the_typical_values_of_the_plan() -> None:
    catalog = load_catalog().typical_only()
    plan, network = evaluate(Scenario(), load_catalog()), network_of(Scenario(), catalog)
    job = training_job.job_on(network, Scenario(), catalog)
    cost = total_cost(network.cluster, network, network.prices, job.training.time_to_train.values)
    assert plan.costs.per_run is not None
    assert plan.fabric.cost is not None
    assert cost.costs.per_run.typical == pytest.approx(plan.costs.per_run.typical)
    assert network.cost[0] == pytest.approx(plan.fabric.cost.typical)
