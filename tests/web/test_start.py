"""The guided start: what one knows leads to the page that answers, with as little typed as one likes."""

import httpx
import pytest
from playwright.sync_api import Page, expect
from starlette.testclient import TestClient

from app.web.pages.start import KNOWN


@pytest.mark.parametrize("know", KNOWN)
def test_each_start_asks_at_most_three_fields_of_the_page_that_answers(client: TestClient, know: str) -> None:
    known = KNOWN[know]
    assert len(known.fields) <= 3
    assert set(known.fields) <= set(known.kind.model_fields)
    assert set(known.blank) <= set(known.fields)
    text = client.get(f"/start?know={know}").text
    assert f'action="{known.to}"' in text
    for name in known.fields:
        assert f'name="{name}"' in text


def test_what_a_blank_means_is_what_the_page_takes(client: TestClient) -> None:
    assert "within the usual 90" in client.get("/size?gpu=h100-sxm&gpus=2048").text
    assert client.get("/api/v1/plan").json()["scenario"]["gpus"] == 1024
    assert client.get("/api/v1/plan").json()["scenario"]["training_tokens"] == 15e12
    assert client.get("/api/v1/serve/size?gpu=h200-sxm").json()["scenario"]["users"] == 300


def test_an_unknown_start_is_not_found(client: TestClient) -> None:
    assert client.get("/start?know=nothing").status_code == 404


def test_a_model_and_a_date_lead_to_clusters_without_scripts(plain: Page, server: str, web: httpx.Client) -> None:
    plain.goto(server + "/")
    plain.get_by_role("link", name="Start here").click()
    plain.get_by_role("link", name="A model to train, and a date").click()
    plain.get_by_label("Deadline").fill("200 days")
    plain.get_by_role("button", name="Answer").click()
    best = web.get("/api/v1/size?deadline=200+days").json()["cheapest"]
    expect(plain.locator("#verdict")).to_contain_text(f"{best['gpus']:,}")


@pytest.mark.usefixtures("nothing_goes_wrong")
def test_a_cluster_leads_to_its_plan(page: Page, server: str) -> None:
    page.goto(server + "/start?know=cluster")
    page.get_by_label("GPUs", exact=True).fill("256")
    page.get_by_role("button", name="Answer").click()
    expect(page).to_have_url(server + "/?gpus=256")
    expect(page.locator("#verdict")).to_contain_text("256 H100 SXM")
