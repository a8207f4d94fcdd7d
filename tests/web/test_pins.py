"""Pinned plans and plans kept by name, in a real browser: what is kept is what the planner printed."""

import json
import re
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.usefixtures("nothing_goes_wrong")


def pin(page: Page) -> None:
    page.get_by_label("Compare and share").get_by_role("link", name="Pin", exact=True).click()


def choose(page: Page, gpu: str, name: str) -> None:
    page.get_by_label("GPU", exact=True).select_option(gpu)
    expect(page.locator("#verdict")).to_contain_text(name)


def figure(page: Page, name: str) -> str:
    """A figure's value without its range, as the page prints it."""
    return page.locator(f'[data-figure="{name}"] dd').first.inner_text().split(" (")[0].split("\n")[0].strip()


def test_a_pin_is_the_baseline_of_every_figure(planner: Page) -> None:
    days, capital = figure(planner, "training.time_to_train"), figure(planner, "costs.capital")
    pin(planner)
    bar = planner.get_by_role("complementary", name="Pinned plans")
    expect(bar.get_by_role("listitem")).to_contain_text(f"{days} · {capital}")
    choose(planner, "b200-sxm", "B200")
    planner.get_by_label("GPUs", exact=True).fill("512")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#verdict")).to_contain_text("512 B200")
    was = planner.locator('[data-figure="costs.capital"] .was')
    expect(was).to_contain_text(f"A: {capital}, −")  # two changes later still against A, not the plan before
    now, then = figure(planner, "costs.capital"), capital
    percent = int(re.search(r"−(\d+) %", was.inner_text())[1])  # type: ignore[index]
    assert percent == pytest.approx(100 * (1 - dollars(now) / dollars(then)), abs=1)
    planner.reload()
    expect(was).to_contain_text(f"A: {capital}, −{percent} %")
    bar.get_by_role("button", name="Unpin A").click()
    expect(was).to_have_text("")
    expect(bar).to_be_hidden()


def dollars(text: str) -> float:
    return float(re.sub(r"[^0-9.]", "", text))


def test_pins_are_compared_from_any_page(planner: Page, server: str) -> None:
    pin(planner)
    choose(planner, "b200-sxm", "B200")
    pin(planner)
    planner.goto(server + "/docs")
    bar = planner.get_by_role("complementary", name="Pinned plans")
    expect(bar.get_by_role("listitem")).to_have_count(2)
    expect(bar.get_by_role("link", name="1,024 × B200")).to_have_attribute("href", "/?gpu=b200-sxm")
    bar.get_by_role("link", name="Compare").click()
    assert dict(parse_qsl(urlsplit(planner.url).query)) == {"a.gpu": "h100-sxm", "b.gpu": "b200-sxm"}
    expect(planner.get_by_role("group", name="Comparison").locator("thead")).to_contain_text("1,024 × B200")


def test_a_fifth_pin_asks_which_to_replace(planner: Page, server: str) -> None:
    for count in (64, 128, 256, 512):
        planner.goto(f"{server}/?gpus={count}")
        pin(planner)
    planner.goto(f"{server}/?gpus=2048")
    pin(planner)
    expect(planner.locator("#announcement")).to_contain_text("Which one is to be replaced?")
    planner.get_by_role("button", name="Replace C").click()
    expect(planner.locator("#pins li")).to_have_count(4)
    expect(planner.locator("#pins li").nth(2)).to_contain_text("2,048 × H100")


def test_a_plan_with_an_error_replaces_no_pin(planner: Page, server: str) -> None:
    for gpus in (256, 512, 1024, 2048, 4096):
        planner.goto(f"{server}/?gpus={gpus}")
        pin(planner)
    planner.get_by_label("GPUs", exact=True).fill("12 bananas")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#errors")).to_be_visible()
    bar = planner.get_by_role("complementary", name="Pinned plans")
    bar.get_by_role("button", name="Replace B").click()
    planner.goto(f"{server}/")
    expect(bar.get_by_role("link", name="512 × H100")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 390])
def test_the_bar_covers_nothing_that_has_the_focus(page: Page, server: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(reduced_motion="reduce")
    page.goto(server + "/?gpus=256")
    pin(page)
    page.locator("#fold-sources > summary").focus()
    focused, bar = page.locator("#fold-sources > summary").bounding_box(), page.locator("#pins").bounding_box()
    assert focused is not None
    assert bar is not None
    assert focused["y"] + focused["height"] <= bar["y"]
    assert bar["y"] + bar["height"] == pytest.approx(844, abs=1)


def test_on_a_phone_the_answer_stays_in_sight(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server + "/")
    bar = page.locator("#pins")
    for name in ("training.time_to_train", "costs.capital", "bottleneck.resource"):
        expect(bar).to_contain_text(figure(page, name).split("  ")[0][:7])
    page.locator("#fold-sources > summary").scroll_into_view_if_needed()
    expect(bar).to_be_in_viewport()
    assert bar.bounding_box()["height"] <= 64  # type: ignore[index]
    bar.get_by_role("button", name="Pin this plan").click()
    expect(bar.locator("details")).not_to_have_attribute("open", "")
    bar.locator("summary", has_text="1 pinned").click()
    expect(bar.get_by_role("button", name="Unpin A")).to_be_visible()


def test_plans_are_saved_by_name_exported_and_taken_in(planner: Page, tmp_path: Path) -> None:
    capital = figure(planner, "costs.capital")
    planner.get_by_label("Pages", exact=True).get_by_role("button", name="Save").click()
    dialog = planner.get_by_role("dialog", name="Plans in this browser")
    dialog.get_by_label("Name of this plan").fill("The board's")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("link", name="The board's")).to_have_attribute("href", "/")
    expect(dialog.get_by_role("listitem")).to_contain_text(capital)
    with planner.expect_download() as download:
        dialog.get_by_role("button", name="Export as JSON").click()
    file = tmp_path / "plans.json"
    download.value.save_as(file)
    kept = json.loads(file.read_text())
    assert kept["version"] == 1
    assert set(kept["plans"][0]) == {"name", "query", "edition", "saved", "days", "capital"}
    dialog.locator("input[type=file]").set_input_files(file)
    expect(dialog).to_contain_text("In the file: The board's.")
    expect(dialog.get_by_role("listitem")).to_have_count(1)  # shown first, merged when asked
    dialog.get_by_role("button", name="Take them in").click()
    expect(dialog.get_by_role("link", name="The board's (2)")).to_be_visible()
    file.write_text("[]")
    dialog.locator("input[type=file]").set_input_files(file)
    expect(dialog.get_by_role("status")).to_contain_text("holds no plans")
    dialog.get_by_role("button", name="Delete The board's (2)").click()
    expect(dialog.get_by_role("listitem")).to_have_count(1)


def test_where_storage_is_off_it_is_said(page: Page, server: str) -> None:
    page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('no'); }")
    page.goto(server + "/")
    pin(page)
    expect(page.locator("#announcement")).to_contain_text("storage is off")


def test_without_scripts_a_pin_opens_the_comparison_with_this_plan(plain: Page, server: str) -> None:
    plain.goto(server + "/?gpus=512")
    expect(plain.get_by_role("button", name="Save")).to_be_hidden()
    plain.get_by_role("link", name="Pin", exact=True).click()
    expect(plain.get_by_role("group", name="Comparison").locator("thead")).to_contain_text("A 512 × H100 SXM")


def test_while_the_service_is_gone_the_last_answer_stays(planner: Page) -> None:
    verdict = planner.locator("#verdict").inner_text()
    planner.route("**/?gpus=256", lambda route: route.abort())
    planner.get_by_label("GPUs", exact=True).fill("256")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator(".stale-note")).to_contain_text("The service does not answer.")
    expect(planner.locator("#verdict")).to_have_text(verdict)
    planner.unroute("**/?gpus=256")
    planner.get_by_role("button", name="Try now").click()
    expect(planner.locator("#verdict")).to_contain_text("256 H100")
    expect(planner.locator(".stale-note")).to_have_count(0)


def test_what_takes_long_can_be_stopped(planner: Page) -> None:
    planner.route("**/?gpus=128", lambda route: None)  # it never answers
    planner.get_by_label("GPUs", exact=True).fill("128")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#main")).to_have_attribute("aria-busy", "true")
    planner.get_by_role("button", name="Stop").click()
    expect(planner.locator("#main")).not_to_have_attribute("aria-busy", "true")
    expect(planner.locator("#verdict")).to_contain_text("1,024 H100")
