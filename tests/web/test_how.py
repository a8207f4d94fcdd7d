"""One number of a plan as a page of its own."""

import html
import re

import pytest
from starlette.testclient import TestClient

from app import units
from app.catalog.load import load_catalog
from app.plan.band import Band
from app.plan.declarations import results
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.validation.nearest_runs import nearest_runs
from app.web.pages.how import constants_of


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


OTHERWISE: dict[str, object] = {
    "price_node": "400000 USD", "infrastructure": 20, "lifetime": "3 years", "electricity": "0.2 USD/kWh", "pue": 1.5,
    "support": 0.1, "price_switch": "50000 USD", "spares": 0.1, "price_gpu_hour": "4 USD/h", "region": "germany",
    "price_transceiver": "2000 USD", "price_cable": "300 USD", "price_nic": "3000 USD", "oversubscription": 2,
    "topology": "torus-3d", "tiers": 3, "training_tokens": "1T", "global_batch": 1024, "precision": "fp8",
    "jitter": 0.05, "availability": 0.9, "campaign_overhead": 1.3, "micro_batch": 2, "recompute": "full",
    "sharding": "parameters", "message": "1 GB", "algorithm": "tree", "protocol": "ll", "gpus": 2048,
    "rack_power": "20 kW", "gpu": "b200-sxm", "failure_rate": "0.001 /h", "restart_time": "1 h",
    "checkpoint_interval": "3 h", "slow_node": 0.3,
}  # fmt: skip
"""Another value of each field than the default plan's."""


def test_each_field_that_is_offered_moves_the_number() -> None:
    def of(**changed: object) -> dict[str, Band]:
        asked = Scenario.model_validate({"gpus": 1024, **changed})
        every = results(evaluate(asked, load_catalog(), include=()))
        return {figure.path: figure.value for figure in every if isinstance(figure.value, Band)}

    usual = of()
    moved = {name: of(**{name: value}) for name, value in OTHERWISE.items()}
    offered = [(path, name) for path in usual for name in constants_of(path)]
    still = [
        (path, name)
        for path, name in offered
        if moved[name][path].typical == pytest.approx(usual[path].typical, rel=1e-9)
    ]
    assert len(offered) > 100
    assert still == []


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


@pytest.mark.parametrize(
    "query", ["gpus=256", "gpus=64&storage_network=true&management_network=true&storage_capacity=2PB"]
)
def test_capital_adds_up_and_says_what_it_leaves_out_as_the_brief_does(client: TestClient, query: str) -> None:
    capital = client.get(f"/api/v1/plan?{query}").json()["costs"]["capital"]["typical"]
    page = html.unescape(client.get(f"/how/costs.capital?{query}").text)
    parts = [int(part.replace(",", "")) for part in re.findall(r"<strong>\$([\d,]+)</strong></li>", page)]
    assert parts[-1] == pytest.approx(capital, abs=1)
    assert sum(parts[:-1]) == pytest.approx(capital, abs=len(parts))
    left_out = re.search(r"Not in it: (.*?)\.</p>", page)
    assert left_out
    assert "financing" in left_out[1]
    assert left_out[1].capitalize() in html.unescape(client.get(f"/brief?{query}").text)
    assert ("management networks" in left_out[1]) == ("storage servers" in left_out[1]) == ("network=true" not in query)


def test_every_link_within_the_evidence_has_a_target(client: TestClient) -> None:
    for path in ("costs.capital", "training.step_time", "costs.operating"):
        page = client.get(f"/how/{path}?gpus=64").text
        assert {link for link in re.findall(r'href="#([^"]+)"', page) if f'id="{link}"' not in page} == set()


def test_the_time_of_a_run_follows_from_what_its_page_shows(client: TestClient) -> None:
    page = client.get("/how/training.time_to_train").text
    rows = re.findall(r"<tr><td><var>(.*?)</var></td>.*?<td class=\"number\">(.*?)</td>", page)
    shown = {symbol: units.parse(value, "s" if symbol == "T_step" else "1") for symbol, value in rows}
    days = shown["n"] * shown["T_step"] / shown["A"] / 86_400
    assert days == pytest.approx(148, abs=1)
    assert 'id="field-evidence-availability" name="availability" type="text" placeholder="98.4' in page
    assert page.count("/catalog/sources#source-llama-3-herd") == 2  # of the availability, and of the whole


def test_shares_are_shown_in_per_cent_and_read_again(client: TestClient) -> None:
    page = html.unescape(client.get("/how/costs.capital?gpus=64").text)
    assert 'placeholder="3 %"' in page
    assert "3\u202f% (2\u202f% to 5\u202f%)" in page
    assert "$11/W ($8/W to $18/W)" in page
    typed = client.get("/api/v1/plan?gpus=64&spares=3+%25").json()["costs"]["capital"]["typical"]
    assert typed == pytest.approx(client.get("/api/v1/plan?gpus=64").json()["costs"]["capital"]["typical"])
