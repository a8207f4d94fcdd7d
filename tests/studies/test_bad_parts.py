"""What one bad part costs a plan."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.studies.bad_parts import QUESTIONS, bad_parts

CATALOG = load_catalog()


def costs(**asked):
    plan = evaluate(Scenario(**asked), CATALOG)
    chosen = plan.training.parallelism if plan.memory.fits else None
    return plan, bad_parts(Scenario(**asked), CATALOG, plan.all_reduce.message, chosen)


def test_each_question_is_answered_as_the_plan_that_asks_it():
    plan, parts = costs()
    assert [part.question for part in parts] == [question for question, _ in QUESTIONS]
    for part in parts:
        asked = evaluate(Scenario(**part.fields), CATALOG)
        assert part.all_reduce == pytest.approx(asked.all_reduce.time.typical)
        assert part.all_reduce_factor == pytest.approx(part.all_reduce / plan.all_reduce.time.typical)
        assert part.step_factor >= 1
    _, parts = costs(message=1e11)
    assert parts[1].all_reduce_factor == pytest.approx(2, rel=0.1)  # half a link, nearly all of it bytes


def test_one_bad_part_is_held_against_sound_ones_whatever_is_asked():
    plan, parts = costs()
    asked = plan.all_reduce.message, plan.training.parallelism
    assert bad_parts(Scenario(link_rate_left=0.5), CATALOG, *asked) == parts


def test_a_job_that_fits_nowhere_still_has_its_all_reduce():
    _, parts = costs(gpus=2, model="llama-3-405b")
    assert all(part.step is None and part.all_reduce for part in parts)


def test_page_and_json_show_the_same(client):
    parts = client.get("/acceptance.json?gpus=64").json()["bad_parts"]
    page = client.get("/acceptance?gpus=64").text
    assert [part["question"] for part in parts] == [question for question, _ in QUESTIONS]
    assert all(f"{part['all_reduce_factor']:.3g}" in page for part in parts)
