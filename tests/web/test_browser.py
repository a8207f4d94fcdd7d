"""A planner's tasks in a real browser, with and without JavaScript, by mouse and by keyboard alone."""

import re
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from app.catalog.load import load_catalog
from app.studies import whole_catalog
from tests.web.conftest import wait_until

DRAWN = ".canvas .main-svg"
LIGHT = re.compile(r"rgb\((29, 28, 25|91, 88, 79)\)")
"""Ink and muted ink of charts in the light scheme."""


pytestmark = pytest.mark.usefixtures("nothing_goes_wrong")


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# Tasks ---------------------------------------------------------------------------------------------------------------


def test_size_the_default_cluster(planner: Page, web: httpx.Client) -> None:
    plan = web.get("/api/v1/plan").json()
    expect(planner.locator("#verdict")).to_have_text(plan["verdict"])
    for heading in (
        "Capital",
        "Time to train",
        "Bottleneck",
        "Bisection",
        "per GPU, one way, across the network",
        "Fabric cost per host port",
    ):
        expect(planner.locator(".figures")).to_contain_text(heading)
    assert planner.locator("#verdict").bounding_box()["y"] < 200  # type: ignore[index]


def test_the_answer_is_on_one_screen_and_the_rest_one_click_away(plain: Page, server: str) -> None:
    plain.set_viewport_size({"width": 1440, "height": 900})
    plain.goto(server + "/")
    headline = plain.locator("#headline").bounding_box()
    assert headline is not None
    assert headline["y"] + headline["height"] <= 900
    assert plain.evaluate("document.documentElement.scrollHeight") <= 4000
    plain.locator("#memory summary").first.click()
    expect(plain.locator("#chart-memory")).to_be_visible()


@pytest.mark.parametrize(
    "address", ["/fabric", "/all-reduce", "/cost", "/serve", "/serve/size", "/catalog", "/accuracy", "/method", "/docs"]
)
def test_other_pages_are_a_few_screens_long_without_a_script(plain: Page, server: str, address: str) -> None:
    plain.set_viewport_size({"width": 1440, "height": 900})
    plain.goto(server + address)
    assert plain.evaluate("document.documentElement.scrollHeight") <= 4000


def test_a_row_of_the_catalogue_unfolds_and_old_links_to_a_source_still_lead_to_it(page: Page, server: str) -> None:
    page.goto(server + "/catalog#switches")
    expect(page.locator("#switches table a", has_text="NVIDIA QM9700")).to_be_visible()
    page.goto(server + "/catalog#source-arithmetic")
    expect(page).to_have_url(server + "/catalog/sources#source-arithmetic")
    expect(page.locator("#source-arithmetic")).to_be_in_viewport()


def test_a_group_of_formulas_unfolds_and_old_links_to_a_formula_still_lead_to_it(page: Page, server: str) -> None:
    page.goto(server + "/method#tail")
    expect(page.locator("#tail math").first).to_be_visible()
    page.goto(server + "/method#collectives.ring_all_reduce")
    expect(page).to_have_url(server + "/method/ideal#collectives.ring_all_reduce")
    expect(page.locator("[id='collectives.ring_all_reduce']")).to_be_in_viewport()


def test_nothing_moves_where_a_script_adds_its_buttons(on_a_phone: Page, server: str) -> None:
    watch = (
        "new PerformanceObserver(l => { for (const e of l.getEntries()) window.moved = (window.moved || 0) + e.value })"
    )
    on_a_phone.add_init_script(f"{watch}.observe({{type: 'layout-shift', buffered: true}})")
    on_a_phone.goto(server + "/acceptance")
    on_a_phone.get_by_role("button", name="Copy").last.wait_for()
    on_a_phone.wait_for_timeout(100)  # a shift is told of with the next picture
    assert on_a_phone.evaluate("window.moved || 0") <= 0.02


def test_changing_a_field_answers_at_once_and_back_undoes(planner: Page) -> None:
    before = planner.locator("#verdict").inner_text()
    field = planner.get_by_label("GPUs", exact=True)
    field.fill("2048")
    field.press("Tab")
    expect(planner.locator("#verdict")).to_contain_text("2,048 H100 SXM")
    assert query(planner) == {"gpus": ["2048"]}
    expect(planner.locator("#announcement")).to_contain_text("2,048 H100 SXM")
    expect(planner.get_by_label("Scale-up link", exact=True)).to_be_focused()
    expect(planner.locator('.masthead a[data-page="/compare"]')).to_have_attribute("href", "/compare?gpus=2048")
    planner.go_back()
    expect(planner.locator("#verdict")).to_have_text(before)
    expect(planner.get_by_label("GPUs", exact=True)).to_have_value("1024")
    planner.go_forward()
    expect(planner.get_by_label("GPUs", exact=True)).to_have_value("2048")


def test_a_change_leaves_a_trace(planner: Page) -> None:
    days = planner.locator('[data-figure="training.time_to_train"]')
    before = days.locator("dd").first.inner_text().split(" (")[0]
    expect(days.locator(".was")).to_have_text("")
    planner.get_by_label("GPU", exact=True).select_option("b200-sxm")
    expect(days.locator(".was")).to_contain_text(f"was {before}")
    expect(days.locator(".was")).to_have_text(re.compile("−[0-9]+ %"))
    expect(planner.locator("#announcement")).to_contain_text(f"was {before}")
    planner.get_by_label("Precision", exact=True).evaluate("field => field.form.requestSubmit()")
    expect(days.locator(".was")).to_have_text("")


def test_while_a_field_is_wrong_the_last_answer_stays(planner: Page) -> None:
    verdict = planner.locator("#verdict").inner_text()
    planner.get_by_label("GPUs", exact=True).fill("many")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#errors")).to_be_visible()
    expect(planner.locator("#verdict")).to_have_text(verdict)
    expect(planner.locator(".stale-note")).to_contain_text("last valid plan: 1,024 × H100 SXM")
    planner.get_by_label("GPUs", exact=True).fill("512")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#verdict")).to_contain_text("512 H100")
    expect(planner.locator(".stale-note")).to_have_count(0)


def test_while_a_field_of_another_page_is_wrong_its_answer_is_not_said_twice(page: Page, server: str) -> None:
    page.goto(f"{server}/size?gpu=h100-sxm&gpus=64&model=llama-3-8b&training_tokens=1T")
    page.get_by_label("Budget", exact=True).fill("much")
    page.keyboard.press("Enter")
    expect(page.locator(".stale-note")).to_have_text("The answer to the last valid question:")
    expect(page.locator("#verdict")).to_contain_text("train Llama 3 8B")


def test_copying_is_seen_without_a_clipboard_too(planner: Page) -> None:
    planner.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    planner.get_by_role("link", name="Link to this plan").click()
    expect(planner.get_by_role("link", name="Copied")).to_be_visible()
    expect(planner.get_by_role("link", name="Link to this plan")).to_be_visible()


def test_switch_to_roce_and_see_what_changed(planner: Page) -> None:
    planner.get_by_label("Network", exact=True).select_option("roce-400")
    expect(planner.locator("#verdict")).to_contain_text("RoCE on 400 Gb/s Ethernet")
    planner.get_by_label("Compare and share").get_by_role("link", name="InfiniBand NDR 400", exact=True).click()
    expect(planner).to_have_url(re.compile(r"/compare\?"))
    table = planner.get_by_role("group", name="Comparison")
    expect(table).to_contain_text("What differs")
    expect(table).to_contain_text("Fabric cost")
    expect(planner.locator("#verdict")).to_contain_text("Against plan A: B")


def test_every_number_shows_its_sources(page: Page, server: str) -> None:
    page.goto(server + "/plan/fabric")
    page.locator("summary", has_text="Table: bill of materials").click()
    row = page.locator("tr", has_text="QM9700").first
    row.locator("a.figure").first.click()
    expect(page.locator("li:target")).to_be_visible()
    page.locator("li:target a").first.click()
    expect(page.locator("li:target a").first).to_have_attribute("href", re.compile("/catalog/sources#source-"))


def test_make_a_model_fit(page: Page, server: str) -> None:
    page.goto(server + "/?gpus=64&model=llama-3-405b")
    finding = page.locator(".findings li.error")
    expect(finding).to_contain_text("does not fit")
    finding.get_by_role("link", name="GPUs", exact=True).click()
    field = page.get_by_label("GPUs", exact=True)
    expect(field).to_be_focused()
    field.fill("1024")
    field.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("train Llama 3.1 405B")
    expect(page.locator(".findings li.error")).to_have_count(0)


def test_heed_a_finding_with_one_click(page: Page, server: str) -> None:
    page.goto(server + "/?gpus=1020")
    page.locator(".findings").get_by_role("link", name=re.compile("Use 1,016 or 1,024 GPUs")).click()
    expect(page.locator("#verdict")).to_contain_text(re.compile("1,0(16|24) H100 SXM"))
    expect(page.locator(".findings", has_text="stay idle")).to_have_count(0)


def test_compare_three_fabrics(planner: Page) -> None:
    planner.get_by_role("link", name="RoCE on 400 Gb/s Ethernet and TCP on 400 Gb/s Ethernet").click()
    table = planner.get_by_role("group", name="Comparison")
    for network in ("InfiniBand NDR 400", "RoCE on 400 Gb/s Ethernet", "TCP on 400 Gb/s Ethernet"):
        expect(table.locator("thead")).to_contain_text(network)
    planner.get_by_text("Change the plans").click()
    planner.get_by_label("Plan C: GPUs").fill("512")
    planner.get_by_label("Plan C: GPUs").press("Tab")
    expect(table.locator("thead")).to_contain_text("512 × H100 SXM")
    planner.get_by_role("link", name="Remove C").click()
    expect(table.locator("thead")).not_to_contain_text("TCP")
    expect(planner.get_by_label("Plan C: GPUs")).to_have_count(0)
    planner.get_by_role("link", name="Add a plan").click()
    expect(planner.get_by_label("Plan C: GPUs")).to_be_visible()


@pytest.mark.parametrize("address", ["/?gpus=512", "/fabric?gpus=512"])
def test_to_share_a_plan_and_its_brief_are_in_the_bar_of_its_pages(page: Page, server: str, address: str) -> None:
    page.goto(server + address)
    bar = page.get_by_role("navigation", name="Pages", exact=True)
    expect(bar.get_by_role("link", name="Brief")).to_have_attribute("href", "/brief?gpus=512")
    bar.get_by_role("link", name="Share").click()
    expect(page).to_have_url(server + "/?gpus=512#share")
    expect(page.locator("#share")).to_contain_text("cable list")
    expect(page.get_by_role("button", name="Print this report")).to_be_in_viewport()


def test_a_change_changes_what_the_bar_shares(planner: Page) -> None:
    planner.get_by_label("GPU", exact=True).select_option("b200-sxm")
    bar = planner.get_by_role("navigation", name="Pages", exact=True)
    expect(bar.get_by_role("link", name="Brief")).to_have_attribute("href", re.compile("gpu=b200-sxm"))
    expect(bar.get_by_role("link", name="Share")).to_have_attribute("href", re.compile("gpu=b200-sxm#share$"))


def test_share_a_link_and_get_the_same_page(planner: Page, browser: Browser, server: str) -> None:
    planner.get_by_label("GPU", exact=True).select_option("b200-sxm")
    expect(planner.locator("#verdict")).to_contain_text("B200")
    link = planner.get_by_role("link", name="Link to this plan").evaluate("link => link.href")
    other = browser.new_context().new_page()
    other.goto(link)
    expect(other.locator("#verdict")).to_have_text(planner.locator("#verdict").inner_text())
    assert "catalog_version" in link
    other.context.close()


def test_the_cloud_of_the_catalogue_is_completed_by_itself_and_narrowed_down(page: Page, server: str) -> None:
    page.goto(f"{server}/explore?model=llama-3-8b&gpus=16")
    expect(page.locator("[data-unfinished]")).to_have_count(0, timeout=60_000)
    verdict = page.locator("#verdict")
    expect(page.locator("#headline")).to_contain_text(f"All {len(whole_catalog.sold(load_catalog()))} GPUs were tried")
    page.get_by_label("Power limit").fill("20 kW")
    expect(verdict).to_contain_text("keep every limit")
    page.locator("#sections table a").first.click()
    expect(page.locator("#verdict")).to_contain_text("Llama 3 8B")


def test_the_cluster_under_the_pointer_is_said_and_a_click_opens_its_plan(page: Page, server: str) -> None:
    page.goto(f"{server}/explore?model=llama-3-8b&gpus=16&gpu=h100-sxm")
    expect(page.locator("[data-unfinished]")).to_have_count(0, timeout=60_000)
    drawing, readout = page.locator("#chart-pareto .drawn"), page.locator(".readout")
    drawing.scroll_into_view_if_needed()
    lowest = page.evaluate(
        "(() => { const points = [...document.querySelectorAll('#chart-pareto circle')].map(point => "
        "point.getBoundingClientRect()); const last = points.sort((one, other) => other.y - one.y)[0]; "
        "return [last.x + last.width / 2, last.y + last.height / 2]; })()"
    )
    page.mouse.move(*lowest)
    expect(readout).to_contain_text("8 × H100 SXM")
    page.mouse.move(lowest[0], lowest[1] - 60)
    expect(readout).to_have_count(0)
    page.mouse.click(*lowest)
    expect(page.locator("#verdict")).to_contain_text("8 H100 SXM")
    expect(page.locator("#verdict")).to_contain_text("Llama 3 8B")


@pytest.mark.parametrize(
    ("address", "key", "says"),
    [
        ("/size?gpu=h100-sxm&gpus=64&model=llama-3-8b&training_tokens=1T", "pareto", "train Llama 3 8B"),
        ("/serve/size?gpu=h100-sxm", "candidates", "serve Llama 3 70B to 300 users"),
    ],
)
def test_a_click_on_a_cluster_of_a_chart_opens_what_it_does(
    page: Page, server: str, address: str, key: str, says: str
) -> None:
    page.goto(f"{server}{address}")
    point = page.locator(f"#chart-{key} circle:has(title)").last
    point.scroll_into_view_if_needed()
    point.hover()
    expect(page.locator(".readout")).to_contain_text("H100 SXM")
    point.click(force=True)
    expect(page.locator("#verdict")).to_contain_text(says)
    assert page.url.startswith(f"{server}/{'serve?' if key == 'candidates' else '?'}")


def test_the_largest_words_of_a_growing_cloud_are_there_from_the_first(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.add_init_script(
        "window.largest = [];"
        "new PerformanceObserver(seen => largest.push(...seen.getEntries().map(one => one.startTime)))"
        ".observe({type: 'largest-contentful-paint', buffered: true})"
    )
    page.goto(f"{server}/explore?model=llama-3-8b&gpus=8")
    expect(page.locator("[data-unfinished]")).to_have_count(0, timeout=60_000)
    wait_until(page, "largest.length")
    first, *later = page.evaluate("largest")
    assert first
    assert not later


def test_export_and_ask_again(planner: Page, web: httpx.Client) -> None:
    planner.get_by_label("GPUs", exact=True).fill("512")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#verdict")).to_contain_text("512 H100")
    planner.locator("#fold-share > summary").click()
    with planner.expect_download() as download:
        planner.locator("#share").get_by_role("link", name="CSV").click()
    text = download.value.path().read_text(encoding="utf-8-sig")
    assert "bill of materials" in text.lower()
    address = re.search(r"/\?\S*gpus=512[^\s,\"]*", text)
    assert address
    planner.goto(str(web.base_url).rstrip("/") + address[0])
    expect(planner.locator("#verdict")).to_contain_text("512 H100")


def test_open_a_real_cluster(planner: Page) -> None:
    planner.get_by_role("link", name="Open a real cluster").click()
    planner.locator(".presets").get_by_role("link", name=re.compile("GB200")).first.click()
    expect(planner.locator("#verdict")).to_contain_text("GB200")
    assert query(planner)["gpu"] != ["h100-sxm"]


def test_size_for_a_deadline(page: Page, server: str) -> None:
    page.goto(server + "/size?deadline=200+days&gpu=h100-sxm&gpus=4096")
    expect(page.locator("#verdict")).to_contain_text("train Llama 3 70B cheapest")
    page.get_by_role("group", name="Clusters near the limits").get_by_role("link").last.click()
    expect(page).to_have_url(re.compile(r"/\?|/$"))
    expect(page.locator("#verdict")).to_contain_text("H100 SXM")


def test_300_users_of_deepseek_on_nodes_of_h200_or_a_rack_of_gb200(page: Page, server: str, web: httpx.Client) -> None:
    page.goto(server + "/serve/size?gpu=h200-sxm&gpu=gb200&model=deepseek-v3")
    page.get_by_label("Limit per token", exact=True).fill("33 ms")
    page.get_by_label("Limit per token", exact=True).press("Enter")
    asked = {"gpu": ["h200-sxm", "gb200"], "model": "deepseek-v3", "tpot_limit": "33 ms"}
    best = web.post("/api/v1/serve/size", json=asked).json()["cheapest"]
    expect(page.locator("#verdict")).to_contain_text(f"{best['gpus']:,} ")
    expect(page.locator("#verdict")).to_contain_text("A million output tokens cost $")
    rows = page.get_by_role("group", name="Candidates").get_by_role("row")
    expect(rows.filter(has_text="GB200").first).to_contain_text("$")
    expect(rows.filter(has_text="H200").first).to_contain_text("$")
    page.get_by_role("group", name="Candidates").get_by_role("link").first.click()
    expect(page).to_have_url(re.compile(r"/serve\?"))
    expect(page.locator("#verdict")).to_contain_text("serve DeepSeek-V3 to")


def test_without_scripts_a_cluster_is_asked_what_it_serves(plain: Page, server: str) -> None:
    plain.goto(server + "/serve?gpus=16")
    plain.get_by_label("Limit per token").fill("25 ms")
    plain.get_by_role("button", name="Answer").click()
    expect(plain.locator("#verdict")).to_contain_text("serve Llama 3 70B to")
    expect(plain.get_by_role("heading", name="What limits it")).to_be_visible()


def test_what_cannot_be_read_is_said_beside_the_field(planner: Page) -> None:
    field = planner.get_by_label("Training tokens", exact=True)
    field.fill("12 bananas")
    field.press("Enter")
    expect(planner.locator("#errors")).to_be_visible()
    expect(field).to_have_value("12 bananas")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(planner.locator("#field-training_tokens-error")).to_contain_text("12 bananas")
    expect(planner.locator("#announcement")).to_contain_text("bananas")
    field.fill("10T")
    field.press("Enter")
    expect(planner.locator("#errors")).to_have_count(0)
    expect(planner.locator("#verdict")).to_contain_text("10\u202fT tokens")
    assert query(planner) == {"training_tokens": ["10T"]}


def test_an_error_page_takes_the_focus_to_its_summary(page: Page, server: str) -> None:
    page.goto(server + "/?gpus=-1")
    expect(page.locator("#errors")).to_be_focused()
    page.locator("#errors").get_by_role("link").click()
    expect(page.get_by_label("GPUs", exact=True)).to_be_focused()


# By keyboard ---------------------------------------------------------------------------------------------------------


def test_everything_by_keyboard(planner: Page) -> None:
    planner.keyboard.press("Tab")
    expect(planner.get_by_role("link", name="Skip to the content")).to_be_focused()
    planner.keyboard.press("Enter")
    expect(planner.locator("#main")).to_be_focused()
    planner.keyboard.press("Tab")  # the answer comes first, the form has a skip link of its own
    expect(planner.locator("#headline .term").first).to_be_focused()
    planner.keyboard.press("Tab")
    expect(planner.locator("#headline a.figure").first).to_be_focused()
    planner.get_by_role("link", name="Skip to the form").focus()
    planner.keyboard.press("Enter")
    expect(planner).to_have_url(re.compile("#scenario$"))
    for _ in range(4):
        planner.keyboard.press("Tab")
        if planner.get_by_label("GPU", exact=True).evaluate("field => field === document.activeElement"):
            break
    expect(planner.get_by_label("GPU", exact=True)).to_be_focused()
    planner.keyboard.type("H200 SXM")
    planner.keyboard.press("Tab")
    expect(planner.locator("#verdict")).to_contain_text("H200 SXM")
    expect(planner.get_by_label("GPUs", exact=True)).to_be_focused()
    planner.keyboard.press("Control+a")
    planner.keyboard.type("256")
    planner.keyboard.press("Enter")
    expect(planner.locator("#verdict")).to_contain_text("256 H200 SXM")
    link = planner.locator(".figures a", has_text="days").first
    link.focus()
    planner.keyboard.press("Enter")
    expect(planner.locator("#drawer #how-training-time_to_train")).to_be_visible()
    planner.keyboard.press("Escape")
    expect(link).to_be_focused()


@pytest.mark.parametrize("address", ["/", "/size?deadline=90+days&gpu=h100-sxm", "/serve", "/fabric"])
def test_the_first_figure_is_within_ten_stops_from_the_top(page: Page, server: str, address: str) -> None:
    page.goto(server + address)
    page.locator("[role=toolbar]").first.wait_for()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.locator("#headline a:focus").count():
            break
    expect(page.locator("#headline a:focus")).to_be_in_viewport()


def test_arrows_go_through_the_pages_of_the_bar(page: Page, server: str) -> None:
    page.goto(server + "/cost")
    bar = page.get_by_role("navigation", name="Pages", exact=True)
    here = bar.get_by_role("link", name="Cost", exact=True)
    here.focus()
    for key, name in (
        ("ArrowRight", "All-reduce"),
        ("End", "Evidence"),
        ("ArrowRight", "Plan"),
        ("ArrowLeft", "Evidence"),
    ):
        page.keyboard.press(key)
        expect(bar.get_by_role("link", name=name, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(server + "/accuracy")


def test_focus_is_always_visible(planner: Page) -> None:
    seen = 0
    for _ in range(60):
        planner.keyboard.press("Tab")
        outline = planner.evaluate(
            "() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]; }"
        )
        if planner.evaluate("() => document.activeElement === document.body"):
            break
        assert outline[0] != "none", planner.evaluate("() => document.activeElement.outerHTML.slice(0, 200)")
        seen += 1
    assert seen > 40


# Without JavaScript --------------------------------------------------------------------------------------------------


def test_without_scripts_the_planner_answers(plain: Page, server: str) -> None:
    plain.goto(server + "/")
    plain.get_by_label("GPUs", exact=True).fill("512")
    plain.get_by_label("Network", exact=True).select_option("roce-400")
    plain.get_by_role("button", name="Update the plan").click()
    expect(plain.locator("#verdict")).to_contain_text("512 H100 SXM on RoCE")
    assert query(plain) == {"gpus": ["512"], "scale_out": ["roce-400"]}
    plain.locator("summary", has_text="Table: time of one training step").click()
    expect(plain.get_by_role("cell", name=re.compile("ms|s")).first).to_be_visible()
    plain.locator(".figures a", has_text="days").first.click()
    expect(plain.locator("#how-training-time_to_train")).to_be_visible()
    plain.go_back()
    plain.locator("#fabric").get_by_role("link").click()
    expect(plain.locator("svg.fabric-drawing").first).to_be_visible()


@pytest.mark.parametrize("address", ["/", "/fabric", "/all-reduce", "/serve"])
def test_without_scripts_a_term_over_a_figure_says_what_it_means(plain: Page, server: str, address: str) -> None:
    plain.goto(server + address)
    for term in plain.locator(".figures .term").all():
        meaning = plain.locator(f"#{term.get_attribute('popovertarget')}")
        expect(meaning).to_be_hidden()
        term.focus()
        plain.keyboard.press("Enter")
        expect(meaning).to_be_visible()
        formula = meaning.get_by_role("link", name="Its formula")
        assert formula.count() == 0 or "/method/" in (formula.get_attribute("href") or "")
        plain.keyboard.press("Escape")
        expect(meaning).to_be_hidden()
    assert plain.locator(".figures .term").count() >= 4


def test_without_scripts_errors_stand_beside_their_fields(plain: Page, server: str) -> None:
    plain.goto(server + "/")
    plain.get_by_label("GPUs", exact=True).fill("many")
    plain.get_by_role("button", name="Update the plan").click()
    expect(plain.locator("#errors")).to_be_visible()
    expect(plain.get_by_label("GPUs", exact=True)).to_have_value("many")
    expect(plain.locator("#field-gpus-error")).to_contain_text("whole number")


def test_without_scripts_plans_are_compared_and_clusters_found(plain: Page, server: str) -> None:
    plain.goto(server + "/compare?b.gpus=512")
    plain.get_by_text("Change the plans").click()
    plain.get_by_label("Plan B: Network").select_option("tcp-400")
    plain.get_by_role("button", name="Update the comparison").click()
    expect(plain.get_by_role("group", name="Comparison")).to_contain_text("TCP on 400 Gb/s Ethernet")
    plain.goto(server + "/size?gpu=h100-sxm&gpus=1024")
    plain.get_by_role("textbox", name="Deadline").fill("300 days")
    plain.get_by_role("button", name="Find clusters").click()
    expect(plain.locator("#verdict")).to_contain_text("cheapest within the limits")


# Charts --------------------------------------------------------------------------------------------------------------


def explore(page: Page, key: str) -> None:
    """Ask for the drawing that can be explored."""
    page.evaluate("for (const fold of document.querySelectorAll('details.section')) fold.open = true")
    page.locator(f"#chart-{key}").get_by_role("button", name="Explore").click()
    expect(page.locator(f"#chart-{key} {DRAWN}").first).to_be_visible(timeout=30_000)


def test_charts_stand_before_any_script_and_without(plain: Page, server: str) -> None:
    asked: list[str] = []
    plain.on("request", lambda sent: asked.append(sent.url))
    plain.goto(server + "/")
    pictures = plain.locator("figure.chart .drawn svg[role=img]")
    assert pictures.count() >= 6
    expect(plain.locator("#chart-step-parts .drawn text", has_text="Linear layers")).to_be_visible()
    assert not [url for url in asked if "plotly" in url]


def test_a_chart_is_explored_when_asked(planner: Page) -> None:
    explore(planner, "memory")
    planner.locator("#chart-memory").hover()
    with planner.expect_download() as download:
        planner.locator("#chart-memory .modebar-btn").nth(1).click(force=True)
    assert download.value.suggested_filename.endswith(".svg")
    assert "<svg" in download.value.path().read_text()


def test_a_chart_fills_the_screen_and_goes_back(planner: Page) -> None:
    chart = planner.locator("#chart-step-parts")
    canvas = chart.locator(".canvas")
    height = canvas.evaluate("canvas => canvas.clientHeight")
    width = canvas.evaluate("canvas => canvas.clientWidth")
    chart.get_by_role("button", name="Full screen").click()
    expect(canvas.locator(".main-svg").first).to_be_visible()
    wait_until(planner, "document.querySelector('#chart-step-parts .main-svg').clientHeight > innerHeight / 2")
    assert chart.evaluate("chart => document.fullscreenElement === chart")
    planner.evaluate("document.exitFullscreen()")
    wait_until(
        planner,
        "(() => { const svg = document.querySelector('#chart-step-parts .main-svg');"
        f" return svg && svg.clientWidth <= {width} && svg.clientHeight <= {height} + 8; }})()",
    )


def test_a_browser_that_is_never_idle_offers_to_explore_too(page: Page, server: str) -> None:
    page.add_init_script("requestIdleCallback = (action, { timeout } = {}) => timeout && setTimeout(action, timeout)")
    page.goto(server + "/")
    expect(page.locator("#chart-step-parts").get_by_role("button", name="Full screen")).to_be_visible()


@pytest.mark.parametrize("address", ["/", "/fabric", "/all-reduce", "/cost", "/serve", "/curves", "/plan/timeline"])
def test_under_each_chart_stand_its_table_its_sources_and_its_files(plain: Page, server: str, address: str) -> None:
    plain.goto(server + address)
    for chart in plain.locator("figure.chart").all():
        ways = chart.locator(".ways")
        assert ways.locator("summary, a").first.text_content().startswith("Table")  # type: ignore[union-attr]
        assert [link.text_content() for link in ways.locator("a").all()][-5:] == [
            "Sources",
            "SVG",
            "PNG",
            "CSV",
            "JSON",
        ]
        sources = ways.get_by_text("Sources", exact=True).get_attribute("href") or ""
        page, _, place = sources.partition("#")
        text = plain.request.get(server + (page or address)).text()
        assert f'id="{place}"' in text or place == ""


def test_what_has_a_page_of_its_own_unfolds_in_its_place(planner: Page) -> None:
    planner.locator("#fold-scaling > summary").click()
    expect(planner).to_have_url(re.compile("/$"))
    expect(planner.locator("#part-scaling figcaption")).to_contain_text("GPUs")
    expect(planner.locator("#part-scaling .drawn svg").first).to_be_visible()


def test_an_explored_chart_follows_the_plan(planner: Page) -> None:
    explore(planner, "step-parts")
    before = planner.locator("#chart-step-parts .canvas").inner_text()
    planner.get_by_label("GPUs", exact=True).fill("256")
    planner.get_by_label("GPUs", exact=True).press("Enter")
    expect(planner.locator("#verdict")).to_contain_text("256 H100")
    expect(planner.locator("#chart-step-parts .canvas")).not_to_have_text(before)
    expect(planner.locator("#chart-step-parts .plot-container")).to_have_count(1)


def test_charts_take_the_colours_of_the_scheme(planner: Page) -> None:
    planner.locator("#fold-memory > summary").click()
    for key in ("memory", "power"):
        if key == "power":
            explore(planner, key)
        words = planner.locator(f"#chart-{key} .canvas text").first
        planner.emulate_media(color_scheme="light")
        expect(words).to_have_css("fill", LIGHT)
        planner.emulate_media(color_scheme="dark")
        expect(words).not_to_have_css("fill", LIGHT)
        planner.get_by_role("button", name="Light").click()
        expect(words).to_have_css("fill", LIGHT)
        planner.get_by_role("button", name="System").click()
        expect(words).not_to_have_css("fill", LIGHT)
    planner.get_by_role("button", name="Light").click()
    planner.reload()
    expect(planner.get_by_role("button", name="Light")).to_have_attribute("aria-pressed", "true")
    expect(planner.locator("html")).to_have_css("color-scheme", "light")


def test_no_words_of_a_chart_cover_others_on_a_phone(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server + "/")
    page.evaluate("for (const fold of document.querySelectorAll('details.section')) fold.open = true")
    expect(page.locator("details.section .unfolded[data-from], details.section .unfolded > a")).to_have_count(0)
    covered = page.evaluate(
        """() => [...document.querySelectorAll("figure.chart")].flatMap((chart) => {
          const words = [...chart.querySelectorAll("svg text")].filter((text) => text.getClientRects().length);
          const boxes = words.map((text) => [text.textContent, text.getBoundingClientRect()]);
          const inside = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
          return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) => inside(a, b))
            .map(([other]) => `${chart.id}: ${one} / ${other}`));
        })"""
    )
    assert not covered


def test_text_and_tables_stand_before_the_charts_script(page: Page, server: str) -> None:
    page.route("**/plotly.min.js*", lambda route: None)  # it never arrives
    page.goto(server + "/", wait_until="domcontentloaded")
    expect(page.locator("#verdict")).to_be_visible()
    page.locator("#fold-memory > summary").click()
    page.locator("summary", has_text="Table: memory of the fullest GPU").click()
    expect(page.locator("#memory").get_by_role("rowheader", name="Weights")).to_be_visible()


def test_nothing_moves_while_the_page_loads(page: Page, server: str) -> None:
    page.add_init_script(
        "window.shifted = 0; new PerformanceObserver(list => { for (const entry of list.getEntries())"
        " if (!entry.hadRecentInput) window.shifted += entry.value; }).observe({type: 'layout-shift', buffered: true});"
    )
    page.goto(server + "/")
    page.locator("#chart-step-parts").scroll_into_view_if_needed()
    expect(page.locator("#chart-step-parts .drawn svg").first).to_be_visible()
    assert page.evaluate("window.shifted") < 0.02


# Every page ----------------------------------------------------------------------------------------------------------


def test_on_a_phone_the_answer_comes_first(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server + "/")
    verdict = page.locator("#verdict").bounding_box()
    days = page.locator("[data-figure='training.time_to_train'] .range").first
    expect(days).to_be_visible()
    expect(page.locator("#verdict .wide-only").first).to_be_hidden()
    line = page.locator("#scenario > summary")
    expect(page.get_by_label("GPUs", exact=True)).to_be_hidden()
    form = page.locator("#scenario-form")
    expect(form).to_have_css("display", "none")  # 90 folded fields would be laid out before the first chart
    assert verdict is not None
    assert verdict["y"] < (line.bounding_box() or {"y": 0})["y"]
    expect(line).to_contain_text("1,024 × H100 SXM")
    line.click()
    expect(form).to_have_css("display", "block")
    field = page.get_by_label("GPUs", exact=True)
    field.fill("64")
    field.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("64 H100")
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("navigation", name="Pages", exact=True).get_by_role("link", name="Evidence").click()
    page.get_by_role("navigation", name="Pages of this kind").get_by_role("link", name="Method").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Method")


def test_paper_gets_a_report(planner: Page) -> None:
    planner.emulate_media(media="print")
    expect(planner.locator("#verdict")).to_be_visible()
    expect(planner.locator("#scenario")).to_be_hidden()
    expect(planner.locator("#pages")).to_be_hidden()


WIDE_TABLES = "[...document.querySelectorAll('.scroll > table')].filter(t => t.offsetWidth > t.parentNode.clientWidth)"


FOUND = "/size?model=llama-3-405b&deadline=60+days&gpu=b200-sxm"


@pytest.mark.parametrize("address", ["/cost", "/accuracy", "/serve", FOUND])
def test_a_table_on_paper_has_all_its_columns(page: Page, server: str, address: str) -> None:
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 between its margins
    page.emulate_media(media="print")
    page.goto(server + address)
    if address == FOUND:  # nor is a range of it broken in two
        tall = page.locator("#front-table .range").evaluate_all("spans => spans.map(span => span.clientHeight)")
        assert len(set(tall)) == 1
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert page.evaluate(f"{WIDE_TABLES}.map(table => table.parentNode.ariaLabel)") == []
    expect(page.locator(".scroll:has(> table)").first).to_have_css("background-image", "none")
    expect(page.get_by_role("button", name="Dark")).to_be_hidden()


@pytest.mark.parametrize("group", ["training", "fabric", "serving", "costs"])
def test_a_formula_on_paper_is_no_wider_than_the_page(page: Page, server: str, group: str) -> None:
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 between its margins
    page.emulate_media(media="print")
    page.goto(f"{server}/method/{group}")
    widths = page.evaluate("[...document.querySelectorAll('math')].map(math => math.getBoundingClientRect().width)")
    assert len(widths) > 20
    assert max(widths) <= 718


def test_clusters_that_miss_a_limit_say_so_within_the_page(page: Page, server: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{server}/size?deadline=60+days&budget=$80M")
    expect(page.locator("#front-table thead")).to_contain_text("Limits, typically")
    assert page.evaluate(f"{WIDE_TABLES}.length") == 0


@pytest.mark.parametrize(
    "query", ["", "?deadline=150+days&budget=$60M", "?gpus=64&model=llama-3-405b", "?gpu=GB200&gpus=576"]
)
def test_the_brief_prints_on_two_sheets(page: Page, server: str, query: str) -> None:
    page.goto(f"{server}/brief{query}")
    sheets = page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", sheets)) == 2


def test_the_brief_with_its_annex_prints_on_fewer_than_ten_sheets(page: Page, server: str) -> None:
    page.goto(f"{server}/brief?deadline=150+days")
    page.get_by_role("link", name="With an annex").click()
    expect(page.get_by_role("heading", name="Annex")).to_be_visible()
    expect(page.locator("#annex svg").first).to_be_visible()
    expect(page.get_by_label("Deadline")).to_have_value(re.compile("^150.days$"))
    sheets = page.pdf(format="A4", prefer_css_page_size=True)
    assert 2 < len(re.findall(rb"/Type\s*/Page\b", sheets)) < 10


def test_the_report_prints_on_fewer_than_ten_sheets_with_every_section_open(planner: Page) -> None:
    shut = "document.querySelectorAll('.section:not([open])').length"
    planner.evaluate("window.print = () => { window.printed = true }")
    planner.evaluate(f"addEventListener('beforeprint', () => {{ window.shut = {shut} }})")
    planner.locator("#fold-share > summary").click()
    planner.get_by_role("button", name="Print this report").click()
    wait_until(planner, "window.printed")
    expect(planner.locator("[data-from]")).to_have_count(0)
    sheets = planner.pdf(format="A4")
    assert planner.evaluate("window.shut") == 0
    assert len(re.findall(rb"/Type\s*/Page\b", sheets)) < 10


def test_a_change_leaves_the_former_bars_on_the_axes_of_the_new_ones(planner: Page, web: httpx.Client) -> None:
    planner.get_by_label("GPU", exact=True).select_option("b200-sxm")
    expect(planner.locator("#verdict")).to_contain_text("B200")
    chart = planner.locator("#chart-capital")
    expect(chart.locator(".ways")).to_contain_text("Dashed: before the change")
    ghost = chart.locator(".ghost rect").last
    was = web.get("/api/v1/plan?fields=costs.capital").json()["costs"]["capital"]["typical"]
    first, last = (float(end) for end in chart.locator(".drawn").get_attribute("data-axes").split(" ")[:2])
    assert float(ghost.get_attribute("width").rstrip("%")) == pytest.approx(100 * was / (last - first), abs=0.05)
    planner.get_by_label("Model", exact=True).select_option("llama-3-8b")  # it moves no capital
    expect(planner.locator("#verdict")).to_contain_text("8B")
    expect(chart.locator(".ghost")).to_have_count(0)
    expect(planner.locator("#chart-step-parts .ghost")).to_have_count(1)


def test_a_large_change_is_told_as_a_factor_and_its_former_bars_end_with_the_chart(page: Page, server: str) -> None:
    page.goto(f"{server}/?gpu=b200-sxm&gpus=2000")
    capital, days = (
        page.locator(f"[data-figure='{name}'] .was") for name in ("costs.capital", "training.time_to_train")
    )
    gpus = page.get_by_label("GPUs", exact=True)
    gpus.fill("12")
    expect(capital).to_have_text(re.compile(r"^was \$[\d.]+\sM, 1/1\d0 of it$"))
    expect(days).to_have_text(re.compile(r"^was \d+\sdays, \d\d0 ×$"))
    chart = page.locator("#chart-capital")
    expect(chart.locator(".ways")).to_contain_text("Dashed: before the change, open where it went on")
    assert float(chart.locator(".ghost rect").last.get_attribute("width").rstrip("%")) > 1000
    expect(chart.locator("svg.ghost")).to_have_css("overflow", "hidden")


def test_a_letter_stands_beside_its_value_and_a_minus_before_its_dollars(on_a_phone: Page, server: str) -> None:
    on_a_phone.goto(f"{server}/compare?b.scale_out=roce-400")
    value = on_a_phone.locator(".comparison-table td[data-plan=B]:has(.range) a.figure").first
    tops = value.evaluate("link => [link.closest('td'), link].map(part => part.getBoundingClientRect().top)")
    assert abs(tops[0] - tops[1]) < 8  # the first line of the cell
    assert "−\u2060$" in on_a_phone.locator("#chart-causes figcaption").inner_text()


@pytest.mark.parametrize("address", ["/", "/brief", "/fabric", "/compare?a.gpus=512&b.gpus=1024"])
def test_a_range_stays_on_its_line_on_a_phone(on_a_phone: Page, server: str, address: str) -> None:
    on_a_phone.goto(server + address)
    ranges = on_a_phone.locator(".whole:visible")
    assert ranges.count()
    assert ranges.evaluate_all("all => all.every(one => one.getClientRects().length === 1)")


def test_headings_of_a_comparison_have_the_width_of_a_phone(on_a_phone: Page, server: str) -> None:
    on_a_phone.goto(f"{server}/compare?a.gpus=512&b.gpus=1024")
    heading = on_a_phone.get_by_role("rowheader", name="Model FLOPs utilisation")
    assert heading.bounding_box()["width"] > 300


def test_words_of_a_chart_stay_on_a_phone(on_a_phone: Page, server: str) -> None:
    on_a_phone.goto(f"{server}/plan/sensitivity?gpus=64")
    words = on_a_phone.locator(".drawn text")
    expect(words.filter(has_text="Average power of a busy node")).to_be_visible()
    assert words.evaluate_all("all => Math.max(...all.map(text => text.getBoundingClientRect().right))") <= 390


def test_nothing_moves_while_a_page_arrives(browser: Browser, server: str) -> None:
    """On a narrow page the form stands below the answer, wherever in the document what has come so far ends."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    for address in ("/", "/size?model=llama-3-8b&training_tokens=1T&gpu=h100-sxm", "/cost", "/serve", "/serve/size"):
        page.goto(server + address)
        order = page.evaluate("[...document.querySelectorAll('#headline, #scenario, #sections')].map(part => part.id)")
        tops = [page.locator(f"#{name}").bounding_box()["y"] for name in order]
        assert order == ["headline", "scenario", "sections"]
        assert tops == sorted(tops)
    context.close()
