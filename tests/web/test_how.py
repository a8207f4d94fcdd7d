"""One number of a plan as a page of its own."""

import pytest
from starlette.testclient import TestClient

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario


def test_capital_is_quantity_times_price(client: TestClient) -> None:
    capital = client.get("/api/v1/plan?gpus=256").json()["costs"]["capital_parts"]
    page = client.get("/how/costs.capital?gpus=256").text
    assert ">32<" in page  # 256 GPUs, 8 a server
    for part in capital:
        assert f"${part['cost']['typical']:,.0f}" in page
    assert "catalog#source-" in page


@pytest.mark.parametrize("path", evaluate(Scenario(gpus=64), load_catalog()).explanations)
def test_every_explained_number_has_its_formula_on_a_page(client: TestClient, path: str) -> None:
    answer = client.get(f"/how/{path}?gpus=64")
    assert answer.status_code == 200
    assert "<math" in answer.text
    assert "In this plan" in answer.text


@pytest.mark.parametrize("path", ["nothing", "training", "training.parts"])
def test_what_is_no_result_is_not_explained(client: TestClient, path: str) -> None:
    assert client.get(f"/how/{path}").status_code == 404
