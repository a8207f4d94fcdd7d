"""Cost of networks, and of owning against renting, over HTTP."""

import re
from urllib.parse import parse_qsl

import pytest
from starlette.testclient import TestClient

from app.web.pages.cost import QUESTION
from app.web.templating import percent


def test_the_answer_is_the_same_asked_either_way(client: TestClient) -> None:
    got = client.get("/api/v1/cost?gpus=64&colocation=150+USD/kW-month").json()
    posted = client.post("/api/v1/cost", json={"gpus": 64, "colocation": "150 USD/kW-month"}).json()
    assert got == posted
    assert got["permalink"].startswith("/cost?gpus=64&colocation=")
    assert {"model_version", "catalog_version", "scenario", "findings", "networks", "sizes", "claims", "ownership"} <= (
        got.keys()
    )


@pytest.mark.parametrize("query", ["", "gpus=512&scale_out=roce-400", "gpu=l40s&gpus=64&topology=fat-tree"])
def test_the_inputs_of_an_answer_sent_back_are_the_same_answer(client: TestClient, query: str) -> None:
    """At other sizes and on other networks each has switches, tiers and units of its own, as it had."""
    answer = client.get(f"/api/v1/cost?{query}&exclude=permalink").json()
    again = client.post("/api/v1/cost?exclude=permalink", json=answer["scenario"])
    assert again.status_code == 200, again.text
    assert again.json() == answer


def test_rates_say_what_they_are_per(client: TestClient) -> None:
    answer = client.get("/api/v1/cost?gpus=64").json()
    row = next(row for row in answer["networks"] if row["network"] == "infiniband-ndr")
    units = {name: row[name]["unit"] for name in ("per_port", "per_bandwidth", "per_bisection", "running")}
    assert units == {
        "per_port": "USD", "per_bandwidth": "USD/(GB/s)", "per_bisection": "USD/(Gb/s)", "running": "USD/year",
    }  # fmt: skip
    assert {way["per_gpu_hour"]["unit"] for way in answer["ownership"]["ways"]} == {"USD/h"}


@pytest.mark.parametrize(("field", "value"), [("term", "5 bananas"), ("utilisation", "2"), ("interest", "-1")])
def test_what_cannot_be_understood_is_a_422_beside_its_field(client: TestClient, field: str, value: str) -> None:
    answer = client.get("/api/v1/cost", params={field: value})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"#/{field}"
    page = client.get("/cost", params={field: value})
    assert page.status_code == 422
    assert f'id="field-{field}-error"' in page.text


def test_infiniband_that_costs_too_much_already_must_fall(client: TestClient) -> None:
    allowed = client.get("/api/v1/cost").json()["choice"][0]["dearer_allowed"]
    assert allowed < 0
    assert f"must fall by {percent(-allowed)}" in client.get("/cost").text


def test_growing_in_phases_is_explained_by_what_can_be_bought(client: TestClient) -> None:
    page, phases = client.get("/cost").text, client.get("/api/v1/cost").json()["phases"]
    assert [row["order"] for row in phases["orders"]] == ["later", "ready", "whole"]
    assert "every spine that today’s leaves are connected to at the end" in page
    assert "but for the cores" not in page


def test_the_page_shows_the_numbers_of_the_answer(client: TestClient) -> None:
    page = client.get("/cost?gpus=64").text
    answer = client.get("/api/v1/cost?gpus=64").json()
    for claim in answer["claims"]:
        assert claim["says"].replace("'", "&#39;") in page
    for row in answer["networks"]:
        assert row["name"] in page
    assert "Rule of thumb" in page
    said = client.get("/api/v1/plan?gpus=64&fields=recommendation").json()["recommendation"]
    assert answer["choice"][0]["slower_allowed"] == pytest.approx(said["slower_allowed"], abs=1e-3)
    for words in (
        "As planned",
        "Nobody to tune Ethernet",
        "A small cluster",
        "A large cluster",
        "The answer turns where",
    ):
        assert words in page
    assert 'href="/api/v1/cost?gpus=64"' in page


def test_growing_in_phases_is_part_of_the_answer_and_of_the_page(client: TestClient) -> None:
    query = "/cost?gpus=2048&scale_out=roce-400&switch=sn5600&grow_to=8192&grow_after=2+years&interest=0"
    phases = client.get("/api/v1" + query).json()["phases"]
    assert [order["order"] for order in phases["orders"]] == ["later", "ready", "whole"]
    assert phases["orders"][0]["links_moved"] == 1536
    page = client.get(query).text
    assert "From 2,048 GPUs to 8,192, all on" in page
    assert "1,536" in page
    assert "not modelled" in client.get("/cost?gpus=64&topology=torus-2d").text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "“What today needs” and “Ready to grow” cost the same, $"),
        ("?interest=1&grow_after=5+years", "Cheapest at today’s worth: “What today needs”, $"),
    ],
)
def test_orders_of_growing_that_cost_the_same_are_said_to(client: TestClient, asked: str, said: str) -> None:
    first, second, _ = (
        each["total"]["typical"] for each in client.get("/api/v1/cost" + asked).json()["phases"]["orders"]
    )
    assert (abs(second / first - 1) < 0.02) == ("same" in said)
    assert said in client.get("/cost" + asked).text


def test_a_network_that_cannot_be_built_has_no_price_and_a_finding(client: TestClient) -> None:
    answer = client.get("/api/v1/cost?gpus=2048&topology=mesh").json()
    row = next(row for row in answer["networks"] if row["network"] == "infiniband-ndr")
    assert row["cost"] is None
    assert row["reach"] is None
    assert any(finding["severity"] == "error" for finding in answer["findings"])
    assert client.get("/cost?gpus=2048&topology=mesh").status_code == 200


def test_where_the_choice_of_a_network_turns_is_a_chart_of_its_own(client: TestClient) -> None:
    query = "gpus=256&model=llama-3-8b"
    assert "#choice" in client.get(f"/?{query}").text
    assert client.get(f"/chart/which-network.csv?{query}").text.count("\n") > 20


@pytest.mark.parametrize("given", ["", "gpus=256&gpu=b200-sxm&term=3+years&grow_to=512&lease=2,000+USD/month"])
def test_blanks_show_what_they_stand_at(client: TestClient, given: str) -> None:
    page = client.get(f"/cost?{given}").text
    standing = dict(re.findall(r'<input id="field-\w+" name="(\w+)" type="text"[^>]* placeholder="([^"]+)"', page))
    owning = {*QUESTION["Growing"], *QUESTION["Owning"]}
    assert owning <= set(standing)
    blank = client.get(f"/api/v1/cost?{given}").json()
    typed = client.get("/api/v1/cost", params=dict(parse_qsl(given)) | {name: standing[name] for name in owning}).json()
    for was, now in zip(blank["ownership"]["ways"], typed["ownership"]["ways"], strict=True):
        assert now["per_year"]["typical"] == pytest.approx(was["per_year"]["typical"], rel=0.005)
    assert typed["phases"]["grow_to"] == blank["phases"]["grow_to"]
    for was, now in zip(blank["phases"]["orders"], typed["phases"]["orders"], strict=True):
        assert now["total"]["typical"] == pytest.approx(was["total"]["typical"], rel=0.005)


def test_the_two_costs_of_a_gpu_hour_lead_to_each_other(client: TestClient) -> None:
    assert 'href="/how/costs.per_gpu_hour?gpus=64"' in client.get("/cost?gpus=64").text
    assert client.get("/how/costs.per_gpu_hour?gpus=64").status_code == 200
    for path in ("/", "/plan/cost"):
        assert 'href="/cost?gpus=64#ownership"' in client.get(f"{path}?gpus=64").text
    assert 'id="ownership"' in client.get("/cost?gpus=64").text


def test_networks_that_are_priced_with_their_cards_are_not_said_to_lack_them(client: TestClient) -> None:
    """1,024 cards of $2.24 M are in the network's $6.14 M here, and in the servers' price of a plan."""
    plan, cost = (client.get(f"/api/v1/{which}", params={"gpus": 1024}).json() for which in ("plan", "cost"))
    said = [{finding["code"] for finding in answer["findings"]} for answer in (plan, cost)]
    assert ["nics-included" in codes for codes in said] == [True, False]
    row = next(row for row in cost["networks"] if row["network"] == "infiniband-ndr" and row["edition"] == "market")
    cards = 1.03 * 2.24e6
    assert row["cost"]["typical"] == pytest.approx(plan["fabric"]["cost"]["typical"] + cards, rel=0.002)
