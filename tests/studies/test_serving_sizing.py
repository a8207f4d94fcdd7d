"""Which cluster carries a load: enough of it, no more than needed, and cheaper where limits are looser."""

import pytest

from app.catalog.load import load_catalog
from app.plan.serving.evaluate_serving import evaluate_serving
from app.plan.serving.serving_request import ServingQuestion
from app.studies.serving_sizing import ServeSizeQuestion, ServeSizing, size_serving

CATALOG = load_catalog()
ASKED = {"gpu": ["h100-sxm", "h200-sxm"], "model": "llama-3-70b", "users": 500, "think_time": "20 s", "engine": "vllm"}


def sized(**fields: object) -> ServeSizing:
    asked = ServeSizeQuestion.model_validate(ASKED | fields, context={"catalog": CATALOG})
    return size_serving(asked, CATALOG)


def test_every_candidate_serves_the_users_within_the_limit() -> None:
    answer = sized(tpot_limit="30 ms")
    assert answer.candidates
    for one in answer.candidates:
        assert one.tpot <= 0.030
        assert one.users == pytest.approx(500, rel=0.01)
        # 500 users who each wait for a first token and 1,023 more, and think for 20 s
        assert one.requests_per_second == pytest.approx(500 / (one.ttft + 1023 * one.tpot + 20), rel=0.01)


def test_the_cheapest_leads_the_front_which_gets_quicker_as_it_gets_dearer() -> None:
    answer = sized(tpot_limit="50 ms")
    assert answer.front[0] == answer.cheapest
    costs, times = [one.per_hour for one in answer.front], [one.tpot for one in answer.front]
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)
    assert answer.lowest_latency.tpot == min(one.tpot for one in answer.candidates)
    assert answer.fewest_gpus.gpus == min(one.gpus for one in answer.candidates)


def test_a_tighter_limit_and_more_users_need_no_fewer_gpus() -> None:
    loose, tight = (sized(tpot_limit=limit).fewest_gpus.gpus for limit in ("60 ms", "15 ms"))
    few, many = (sized(tpot_limit="30 ms", users=users).fewest_gpus.gpus for users in (200, 5000))
    assert loose <= tight
    assert few < many


def test_headroom_is_left() -> None:
    asked = {"request_rate": "100 /s", "tpot_limit": "40 ms"}
    tight, spare = (sized(headroom=share, **asked).fewest_gpus.gpus for share in (1.0, 0.5))
    assert spare == pytest.approx(2 * tight, rel=0.15)


def test_the_answer_leads_to_a_plan_that_carries_the_load() -> None:
    best = sized(tpot_limit="30 ms").cheapest
    fields = dict(pair.split("=") for pair in best.query.replace("+", " ").split("&"))
    question = ServingQuestion.model_validate(fields, context={"catalog": CATALOG})
    answer = evaluate_serving(question, CATALOG)
    assert question.gpus == best.gpus
    assert answer.serving.tpot.typical <= 0.030
    assert answer.serving.users.typical == pytest.approx(500, rel=0.2)


def test_a_domain_of_72_is_another_candidate_than_one_of_8() -> None:
    answer = sized(gpu=["gb200"], model="deepseek-v3", scale_up_domain=[8, 72], tpot_limit="20 ms", users=2000)
    assert {one.scale_up_domain for one in answer.candidates} == {8, 72}


def test_what_no_cluster_carries_is_said() -> None:
    answer = sized(tpot_limit="1 us")
    assert answer.cheapest is None
    assert "No cluster" in answer.message
