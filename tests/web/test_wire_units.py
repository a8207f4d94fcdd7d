"""Units on the wire: a rate says what it is per, and what an answer prints can be sent back."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from fastapi.testclient import TestClient

from app import units

API = "/api/v1"


def test_a_rate_of_money_says_what_it_is_per(client: TestClient) -> None:
    plan = client.get(API + "/plan").json()
    costs = plan["costs"]
    assert costs["per_gpu_hour"]["unit"] == "USD/h"
    yearly = [costs["operating"], costs["energy"], *(part["cost"] for part in costs["operating_parts"])]
    assert {band["unit"] for band in yearly} == {"USD/year"}
    assert {costs[name]["unit"] for name in ("capital", "total", "per_run", "rental")} == {"USD"}
    assert plan["fabric"]["cost_per_bisection"]["unit"] == "USD/(Gb/s)"
    # The unit changed, the numbers did not: a year's parts add up, and an hour is the whole over life and GPUs.
    parts = sum(part["cost"]["typical"] for part in costs["operating_parts"])
    assert costs["operating"]["typical"] == pytest.approx(parts)
    hours = 5 * 365.25 * 24
    assert costs["per_gpu_hour"]["typical"] == pytest.approx(costs["total"]["typical"] / 1024 / hours)


def test_an_hour_s_cost_sent_back_as_the_rent_rents_at_that_cost(client: TestClient) -> None:
    plan = client.get(API + "/plan", params={"gpus": 64, "model": "llama-3-8b"}).json()
    hour = plan["costs"]["per_gpu_hour"]
    asked = {"gpus": 64, "model": "llama-3-8b", "price_gpu_hour": f"{hour['typical']!r} {hour['unit']}"}
    again = client.get(API + "/plan", params=asked).json()
    # Renting the run's hours at what an owned hour costs is what the owned run costs.
    assert again["costs"]["rental"]["typical"] == pytest.approx(plan["costs"]["per_run"]["typical"])


def bands(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, dict):
        own = [part] if {"low", "typical", "high", "unit"} <= part.keys() else []
        return own + [band for value in part.values() for band in bands(value)]
    return [band for value in part for band in bands(value)] if isinstance(part, list) else []


def test_every_band_of_a_plan_can_be_read_with_its_unit(client: TestClient) -> None:
    found = bands(client.get(API + "/plan", params={"storage_network": True}).json())
    assert len(found) > 80
    for band in found:
        text = f"{band['typical']!r} {band['unit']}".removesuffix(" 1")
        assert units.parse(text, band["unit"]) == pytest.approx(band["typical"], rel=1e-12)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {
            "price_gpu_hour": "2.5 USD/h", "electricity": "0.09 USD/kWh", "lifetime": "4 years", "message": "256 MiB",
            "failure_rate": "2e-5 /h", "restart_time": "12 min", "checkpoint_time": "8 s", "training_tokens": "2T",
            "checkpoint_interval": "30 min", "price_node": "$280,000", "price_book": "rule-of-thumb", "gpus": 256,
        },
    ],
)  # fmt: skip
def test_the_scenario_of_an_answer_can_be_sent_back_as_it_is(client: TestClient, asked: dict[str, object]) -> None:
    plan = client.post(API + "/plan", json=asked).json()
    again = client.post(API + "/plan", json=plan["scenario"]).json()
    assert again["scenario"] == plan["scenario"]
    for name in ("capital", "operating", "total", "per_gpu_hour", "per_run", "rental", "energy"):
        assert again["costs"][name]["typical"] == pytest.approx(plan["costs"][name]["typical"], rel=1e-12)
    assert again["training"]["step_time"] == plan["training"]["step_time"]
    link = dict(parse_qsl(urlsplit(plan["permalink"]).query))
    assert client.get(API + "/plan", params=link).json()["costs"] == plan["costs"]


def test_tables_and_pages_show_the_rate(client: TestClient) -> None:
    page = re.sub(r"<[^>]+>", "", client.get("/").text)
    costs = client.get(API + "/plan").json()["costs"]
    for name in ("per_gpu_hour", "operating", "energy"):
        band = costs[name]
        assert units.show_range(band["low"], band["typical"], band["high"], band["unit"]) in page
    assert "cost typical [USD/year]" in client.get("/export/operating.csv").text
