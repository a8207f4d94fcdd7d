"""The whole catalogue as a cloud: which clusters are in it, which keep the limits, and what their plans say."""

from urllib.parse import parse_qsl

import pytest

from app.catalog.estimate import EARLY
from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import whole_catalog
from app.studies.whole_catalog import Cloud, CloudQuestion, sold

CATALOG = load_catalog()
DAY = 86_400.0


def ask(**fields: object) -> Cloud:
    question = {"gpu": ["h100-sxm", "gb200"], "model": "llama-3-8b", "training_tokens": 1e12, "gpus": 256} | fields
    return whole_catalog.whole_catalog(CloudQuestion.model_validate(question), CATALOG)


def test_each_gpu_is_tried_in_numbers_that_double_on_its_networks_with_each_taper() -> None:
    """8, 16, … 256 H100 and 72, 144 GB200, on InfiniBand and RoCE, at three tapers: 8 × 2 × 3 clusters."""
    found = ask()
    assert found.considered == 8 * 2 * 3
    assert found.complete
    assert {spot.gpus for spot in found.spots if spot.gpu == "gb200"} == {72, 144}
    assert {spot.oversubscription for spot in found.spots} == {1.0, 2.0, 4.0}


def test_a_point_is_the_plan_of_its_address() -> None:
    """Money and power exactly; the time at most a little longer, where another network's ways to run were timed."""
    for spot in ask().spots[::7]:
        plan = evaluate(Scenario.model_validate(dict(parse_qsl(spot.query))), CATALOG)
        assert plan.costs.capital is not None
        assert plan.training.time_to_train is not None
        assert spot.cost == pytest.approx(plan.costs.capital.typical, rel=1e-9)
        assert spot.power == pytest.approx(plan.cluster.power.typical, rel=1e-9)
        assert plan.training.time_to_train.typical <= spot.time_to_train * (1 + 1e-9)
        assert plan.training.time_to_train.typical > spot.time_to_train * 0.98


def test_the_front_is_of_those_that_keep_every_limit_and_no_other_beats_in_both() -> None:
    found = ask(deadline=10 * DAY, budget=12e6)
    keeping = [spot for spot in found.spots if spot.time_to_train <= 10 * DAY and spot.cost <= 12e6]
    assert 0 < found.meeting == len(keeping) < len(found.spots)
    for spot in found.front:
        assert spot.query in {one.query for one in keeping}
        assert not any(other.cost < spot.cost and other.time_to_train < spot.time_to_train for other in keeping)
    assert min(spot.cost for spot in keeping) == found.front[0].cost


def test_gpus_that_time_does_not_suffice_for_are_left_out_and_counted() -> None:
    gpus = ["h100-sxm", "h200-sxm", "b200-sxm"]
    question = CloudQuestion.model_validate({"gpu": gpus, "model": "llama-3-8b", "training_tokens": 1.1e12, "gpus": 64})
    begun, whole = (whole_catalog.whole_catalog(question, CATALOG, seconds) for seconds in (0, 60))
    assert (begun.done, begun.gpus, begun.complete) == (1, 3, False)
    assert {spot.gpu for spot in begun.spots} == {"h100-sxm"}
    assert whole.complete
    assert {spot.gpu for spot in whole.spots} == set(gpus)


def test_gpus_whose_servers_nobody_prices_come_last_and_the_newest_of_the_others_first() -> None:
    gpus = [CATALOG.gpus[key] for key in sold(CATALOG)]
    priced = [CATALOG.platforms[gpu.platform].price is not None for gpu in gpus]
    assert priced == sorted(priced, reverse=True)
    years = [gpu.year or 0 for gpu, known in zip(gpus, priced, strict=True) if known]
    assert years == sorted(years, reverse=True)
    assert whole_catalog.whole_catalog(CloudQuestion(gpu=(gpus[-1].key,)), CATALOG).spots == ()


def test_gpus_that_cannot_be_bought_are_asked_for_by_name_alone() -> None:
    sold = whole_catalog.sold(CATALOG)
    announced = [key for key, gpu in CATALOG.gpus.items() if gpu.status in EARLY]
    assert announced
    assert not set(announced) & set(sold)
    assert ask(gpu=announced[:1], gpus=1152).considered > 0
