"""One number of a plan as a page of its own."""

import pytest
from starlette.testclient import TestClient

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.validation.nearest_runs import nearest_runs


def test_capital_is_quantity_times_price(client: TestClient) -> None:
    capital = client.get("/api/v1/plan?gpus=256").json()["costs"]["capital_parts"]
    page = client.get("/how/costs.capital?gpus=256").text
    assert "32 servers × $" in page  # 256 GPUs, 8 a server
    for part in capital:
        assert f"${part['cost']['typical']:,.0f}" in page
    assert "catalog/sources#source-" in page


@pytest.mark.parametrize("path", evaluate(Scenario(gpus=64), load_catalog()).explanations)
def test_every_explained_number_has_its_formula_on_a_page(client: TestClient, path: str) -> None:
    answer = client.get(f"/how/{path}?gpus=64")
    assert answer.status_code == 200
    assert "<math" in answer.text
    assert "In this plan" in answer.text


@pytest.mark.parametrize("path", ["nothing", "training", "training.parts"])
def test_what_is_no_result_is_not_explained(client: TestClient, path: str) -> None:
    assert client.get(f"/how/{path}").status_code == 404


def test_a_price_shows_what_is_in_force_and_where_that_comes_from(client: TestClient) -> None:
    nodes = client.get("/api/v1/plan?gpus=256").json()["costs"]["capital_parts"][0]["cost"]["typical"]
    page = client.get("/how/costs.capital?gpus=256").text
    assert f'placeholder="${nodes / 32 / 1000:.0f}K"' in page
    assert "Back to the book" not in page
    own = client.get("/how/costs.capital?gpus=256&price_node=$220K").text
    assert 'value="$220K"' in own
    assert "$7,040,000" in own  # 32 × $220,000
    assert 'href="/?gpus=256">Back to the book' in own


def test_the_nearest_measured_runs_stand_beside_their_predictions(client: TestClient) -> None:
    text = client.get("/how/training.step_time").text
    assert "Nearest measured runs" in text
    assert "Llama-3.1-70B on 1,024 H100 SXM" in text
    assert "This plan: " in text  # in what it is another question
    assert "Nearest measured runs" not in client.get("/how/costs.capital").text


def test_a_published_run_stands_beside_its_campaign(client: TestClient) -> None:
    catalog = load_catalog()
    asked = catalog.presets["llama-3-405b-run"].scenario
    query = Scenario.model_validate(asked, context={"catalog": catalog}).query()
    text = client.get(f"/how/training.campaign_time?{query}").text
    assert "The published run" in text
    assert "30.8" in text
    assert "The published run" not in client.get("/how/training.campaign_time").text


def test_the_nearest_runs_are_of_like_models_and_one_of_a_source() -> None:
    catalog = load_catalog()
    dense = nearest_runs(evaluate(Scenario(), catalog).scenario, catalog)
    assert len({run.source for run in dense}) == len(dense) == 4
    assert dense[0].gpu == "h100-sxm"
    assert all("70b" in run.model.lower() for run in dense)
    assert all(abs(run.error) < 0.25 for run in dense)
    mixture = nearest_runs(
        evaluate(Scenario(model="deepseek-v3", gpu="h800-sxm", gpus=2048), catalog).scenario, catalog
    )
    assert sum("deepseek" in run.model.lower() for run in mixture) >= 2
