"""The evidence of a number in a panel beside it: nothing scrolls, constants are edited there, Back takes it away."""

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.usefixtures("nothing_goes_wrong")


def test_a_click_on_a_number_opens_its_evidence_beside_it(planner: Page, web: httpx.Client) -> None:
    planner.set_viewport_size({"width": 1440, "height": 900})
    number = planner.locator(".figures a", has_text="$").first
    before = number.bounding_box()
    number.click()
    drawer = planner.get_by_role("complementary", name="Capital")
    for part in web.get("/api/v1/plan").json()["costs"]["capital_parts"]:
        expect(drawer).to_contain_text(f"${part['cost']['typical']:,.0f}")
    expect(drawer.get_by_role("heading", name="Capital")).to_be_focused()
    assert number.bounding_box() == before
    assert planner.evaluate("scrollY") == 0
    box = drawer.bounding_box()
    figures = planner.locator(".figures").bounding_box()
    assert box is not None
    assert figures is not None
    assert box["x"] + box["width"] <= figures["x"]  # it covers the form, and no number
    planner.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(number).to_be_focused()


def test_a_price_is_changed_where_it_is_explained(planner: Page) -> None:
    planner.locator(".figures a", has_text="$").first.click()
    drawer = planner.locator("#drawer")
    drawer.get_by_label("Node", exact=True).fill("$220K")
    drawer.get_by_role("button", name="Use it").click()
    expect(drawer).to_contain_text("$28,160,000")  # 128 × $220,000
    expect(planner).to_have_url(re.compile(r"price_node=%24220K"))
    expect(planner.locator('[data-figure="costs.capital"] .was')).to_contain_text("was $")
    drawer.get_by_role("link", name="Back to the book").click()
    expect(drawer).not_to_contain_text("$28,160,000")
    expect(planner).not_to_have_url(re.compile("price_node"))


def test_back_closes_the_drawer_and_forward_opens_it_again(planner: Page) -> None:
    address = planner.url
    planner.locator(".figures a", has_text="days").first.click()
    evidence = planner.locator("#drawer #how-training-time_to_train")
    expect(evidence.locator("math").first).to_be_visible()
    expect(planner.locator("#drawer")).to_contain_text("Nearest measured runs")
    planner.go_back()
    expect(planner.locator("#drawer")).to_be_hidden()
    assert planner.url == address
    planner.go_forward()
    expect(evidence).to_be_visible()


def test_without_scripts_the_evidence_is_a_page_and_edits_the_plan(plain: Page, server: str) -> None:
    plain.goto(server + "/?gpus=256")
    plain.locator(".figures a", has_text="$").first.click()
    expect(plain.get_by_role("heading", name="Capital", level=1)).to_be_visible()
    plain.get_by_label("Node", exact=True).fill("$220K")
    plain.get_by_role("button", name="Use it").click()
    expect(plain).to_have_url(re.compile(r"/\?price_node=.*&gpus=256$"))
    plain.locator(".figures a", has_text="$").first.click()
    expect(plain.locator(".ledger")).to_contain_text("32 servers × $220,000")
