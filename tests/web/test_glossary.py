"""The glossary has every name on the wire."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.plan.scenario import Scenario
from app.report import glossary, method
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.sizing import Question
from app.studies.sweep import Grid
from app.web.answers import ANSWERS

INPUTS = {entry.name for entry in glossary.inputs((Scenario, Question, CostQuestion, CalibrateQuestion, Grid))}
OUTPUTS = glossary.outputs(ANSWERS)
BY_KEY = {"scenario", "ports_free", "cages", "explanations", "changes"}
"""Answers whose own names are data: fields of the scenario, tiers, roles, results."""


def names(answer: Any) -> Iterator[str]:
    """Every name inside an answer."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            yield name
            yield from names(list(value.values()) if name in BY_KEY and isinstance(value, dict) else value)
    elif isinstance(answer, list):
        for value in answer:
            yield from names(value)


def test_every_field_of_a_question_is_in_the_glossary() -> None:
    for question in (Scenario, Question, CostQuestion, CalibrateQuestion, Grid):
        assert set(question.model_fields) <= INPUTS
    assert all(
        entry.title and entry.meaning
        for entry in glossary.inputs((Scenario, Question, CostQuestion, CalibrateQuestion, Grid))
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("plan", {"storage_network": True, "gpus": 64, "model": "llama-3-8b"}),
        ("all-reduce", {"message": ["1 MiB", "1 GiB"]}),
        ("fabric", {}),
        ("compare", {"scenarios": [{"gpus": 64}, {"gpus": 128}]}),
        ("size", {"model": "llama-3-8b", "deadline": "1 year", "gpu": ["h100-sxm"], "gpus": 256}),
    ],
)
def test_every_name_in_an_answer_is_in_the_glossary(client: TestClient, path: str, body: dict[str, Any]) -> None:
    answer = client.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 200
    assert set(names(answer.json())) <= {entry.name for entry in OUTPUTS}


def test_every_entry_says_what_it_means_and_leads_to_formulas_that_exist() -> None:
    for entry in OUTPUTS:
        assert entry.title
        assert entry.meaning.endswith((".", "…"))
        assert entry.formula in ("", *method.formulas())


def test_units_of_inputs_are_their_own() -> None:
    units = {entry.name: entry.unit for entry in glossary.inputs((Scenario,))}
    assert (units["message"], units["gpus"], units["model"], units["electricity"]) == ("B", "1", "", "USD/J")


def test_the_method_page_leads_to_the_glossary(client: TestClient) -> None:
    assert 'id="glossary"' in client.get("/method").text
    page = client.get("/method/glossary").text
    for name in ("oversubscription", "bisection_per_gpu", "projected", "cable_list"):
        assert f"<code>{name}</code>" in page
