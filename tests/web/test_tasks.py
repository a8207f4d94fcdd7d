"""Thirteen tasks of planners, from the first page and by keyboard alone, each within its number of steps.

A step is a link or button that is pressed, or a field that is filled in.
"""

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Download, Locator, Page, expect

from app.units import show
from tests.studies.test_nccl_tests import output

pytestmark = pytest.mark.usefixtures("nothing_goes_wrong")
PATIENCE = 90_000


class Keyboard:
    """A planner without a mouse, whose steps are counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.steps = 0

    def press(self, what: Locator) -> None:
        """A link, a button or a fold."""
        self.steps += 1
        self.reach(what)
        self.page.keyboard.press("Enter")

    def reach(self, what: Locator) -> None:
        """What the Tab key, or an arrow in a row of the bar, leads to."""
        assert what.evaluate("one => one.tabIndex >= 0 || Boolean(one.closest('[role=toolbar]'))")
        what.focus()

    def fill(self, label: str, text: str, within: Locator | None = None) -> None:
        """A field of text; Enter sends it."""
        self.type((within or self.page).get_by_label(label, exact=True), text)
        self.page.keyboard.press("Enter")

    def type(self, field: Locator, text: str) -> None:
        self.steps += 1
        self.reach(field)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def choose(self, label: str, value: str) -> None:
        """An entry of a list, by the letters of its name, and arrows where others begin with it."""
        self.steps += 1
        field = self.page.get_by_label(label, exact=True)
        self.reach(field)
        name = field.locator(f"option[value='{value}']").text_content() or ""
        self.page.keyboard.type(name.strip())
        for _ in range(9):
            if field.input_value() != value:
                self.page.keyboard.press("ArrowDown")
        expect(field).to_have_value(value)
        self.page.keyboard.press("Tab")

    def download(self, what: Locator) -> Download:
        with self.page.expect_download() as found:
            self.press(what)
        return found.value


@pytest.fixture
def keyboard(planner: Page) -> Keyboard:
    planner.set_default_timeout(PATIENCE)
    return Keyboard(planner)


@pytest.fixture
def within(keyboard: Keyboard) -> Callable[[int], None]:
    """Whether the task took no more steps than it may."""

    def check(most: int) -> None:
        assert keyboard.steps <= most, f"{keyboard.steps} steps, where {most} are allowed"

    return check


Check = Callable[[int], None]


def test_1_what_it_costs_to_buy_and_what_a_server_in_it(keyboard: Keyboard, within: Check, web: httpx.Client) -> None:
    page = keyboard.page
    keyboard.press(page.locator(".figures a.figure").first)
    nodes = web.get("/api/v1/plan").json()["costs"]["capital_parts"][0]["cost"]["typical"]
    expect(page.locator("#drawer")).to_contain_text(f"128 servers × ${nodes / 128:,.0f}")
    expect(page.locator("#drawer")).to_contain_text(f"${nodes:,.0f}")
    within(1)


def test_2_what_to_buy_for_a_date_and_a_sum(keyboard: Keyboard, within: Check, web: httpx.Client) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="Find", exact=True))
    expect(page.get_by_role("textbox", name="Deadline")).to_have_value("90 days")
    keyboard.fill("Budget", "$50M")
    asked = "/api/v1/size?deadline=90+days&budget=$50M"
    answer = web.get(asked, timeout=PATIENCE).json()
    best = answer["cheapest"]
    found = f"{best['gpus']:,} " if best else answer["message"]  # the nearest misses, where nothing meets both
    expect(page.locator("#verdict")).to_contain_text(found, timeout=PATIENCE)
    within(3)


def test_3_how_many_h100_for_30_days(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="By a date, with H100 SXM only"))
    keyboard.fill("Deadline", "30 days")
    expect(page.locator("#verdict")).to_contain_text("H100 SXM", timeout=PATIENCE)
    expect(page).to_have_url(re.compile(r"deadline=30\+days"))
    within(3)


def test_4_infiniband_roce_or_tcp(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="RoCE on 400 Gb/s Ethernet and TCP on 400 Gb/s Ethernet"))
    expect(page.locator("#verdict")).to_contain_text("Against plan A: B", timeout=PATIENCE)
    expect(page.get_by_role("group", name="Comparison").locator("thead")).to_contain_text("TCP on 400 Gb/s Ethernet")
    within(1)


def test_5_why_so_long_and_how_wrong_that_may_be(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.locator('[data-figure="training.time_to_train"] a.figure').first)
    drawer = page.locator("#drawer")
    expect(drawer.locator("math").first).to_be_visible()
    nearest = drawer.get_by_role("group", name="Nearest measured runs").get_by_role("row")
    expect(nearest.filter(has_text="1,024 H100 SXM")).to_contain_text("%")
    within(1)


def test_6_is_what_was_measured_good(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="All-reduce", exact=True))
    times = {2**size: 2 * 15 / 16 * 2**size / 403e9 for size in range(30, 34)}  # 403 GB/s of bus bandwidth
    keyboard.type(page.get_by_label("Output of nccl-tests"), output(times))
    keyboard.press(page.get_by_role("button", name="Compare", exact=True))
    yours = page.locator("#yours")
    expect(yours).to_contain_text("Read as 16 GPUs on 2 hosts", timeout=PATIENCE)
    expect(yours.get_by_role("link", name=re.compile("Carry this efficiency"))).to_be_visible()
    within(3)


def test_7_does_it_scale(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.locator("#fold-scaling > summary"))
    expect(page.locator("#part-scaling figcaption")).to_contain_text("GPUs", timeout=PATIENCE)
    for count in ("128", "4,096"):
        assert count in page.locator("#part-scaling").inner_text() + (
            page.locator("#part-scaling").text_content() or ""
        )
    within(1)


def test_8_parts_and_cables_of_a_superpod_as_a_file(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="Open a real cluster"))
    keyboard.press(page.get_by_role("link", name="DGX SuperPOD, 127 × DGX H100"))
    expect(page.locator("#fabric")).to_contain_text("RA-11333")
    keyboard.press(page.locator("#fold-share > summary"))
    file = keyboard.download(page.locator("#share").get_by_role("link", name="XLSX"))
    assert file.suggested_filename.endswith(".xlsx")
    assert file.path().stat().st_size > 5000
    within(4)


def test_9_make_a_model_fit(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.choose("Model", "llama-3-405b")
    expect(page.locator("#verdict")).to_contain_text("405B")
    keyboard.fill("GPUs", "64")
    error = page.locator(".findings li.error")
    expect(error).to_contain_text("does not fit")
    keyboard.press(error.get_by_role("link", name=re.compile("GPUs are enough")))
    expect(page.locator("#verdict")).to_contain_text("train Llama 3.1 405B")
    expect(error).to_have_count(0)
    within(3)


def test_10_our_own_prices(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    keyboard.press(page.locator("#group-prices > summary"))
    expect(page.get_by_label("Node", exact=True)).to_have_attribute("placeholder", re.compile(r"^\$\d+"))
    expect(page.get_by_label("Electricity", exact=True)).to_have_attribute("placeholder", re.compile("kWh"))
    keyboard.fill("Node", "$220K")
    expect(page.locator('[data-figure="costs.capital"] .was')).to_contain_text("was $")
    keyboard.fill("Electricity", "0.06 USD/kWh")
    expect(page).to_have_url(re.compile("electricity"))
    within(3)


def test_11_racks_of_gb200_and_the_power_of_one(keyboard: Keyboard, within: Check, web: httpx.Client) -> None:
    page = keyboard.page
    keyboard.choose("GPU", "gb200")
    expect(page.locator("#verdict")).to_contain_text("GB200")
    keyboard.fill("GPUs", "2000")
    expect(page.locator("#verdict")).to_contain_text("2,000 GB200")
    cluster = web.get("/api/v1/plan?gpu=gb200&gpus=2000").json()["cluster"]
    found = page.locator("#power .found")
    expect(found).to_contain_text(f"{cluster['racks']} racks, at most {cluster['rack_power']['typical'] / 1e3:.0f}")
    within(2)


def test_12_a_brief_with_a_link(keyboard: Keyboard, within: Check, server: str) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("link", name="Brief", exact=True))
    expect(page.get_by_text("The ask:")).to_be_visible()
    expect(page.locator(".signed a")).to_contain_text(f"{server}/?catalog_version=")
    within(1)


USERS = {"model": "deepseek-v3", "users": 300, "tpot_limit": "33 ms"}
"""300 users of DeepSeek-V3 at 30 tokens a second each."""


def rows_of_h200_and_gb200(web: httpx.Client) -> list[tuple[str, str]]:
    """The cheapest cluster of each, and what a million tokens cost on it, as the page writes them."""
    answer = web.get("/api/v1/serve/size", params=USERS).json()
    cheapest = {one["gpu"]: one for one in reversed(answer["candidates"])}
    return [
        (f"{cheapest[gpu]['gpus']:,} × {name}", show(cheapest[gpu]["per_million_output_tokens"], "USD"))
        for gpu, name in (("h200-sxm", "H200 SXM"), ("gb200", "GB200"))
    ]


def test_13_hgx_h200_or_gb200_nvl72_for_300_users_and_what_a_token_costs(
    keyboard: Keyboard, within: Check, web: httpx.Client
) -> None:
    page = keyboard.page
    keyboard.press(page.get_by_role("navigation").get_by_role("link", name="Serve", exact=True))
    keyboard.press(page.get_by_role("link", name="Which cluster for a load?"))
    page.wait_for_url("**/serve/size**")
    keyboard.choose("Model", USERS["model"])
    keyboard.fill("Limit per token", USERS["tpot_limit"])
    table = page.get_by_role("group", name="Candidates")
    for cluster, price in rows_of_h200_and_gb200(web):
        row = table.get_by_role("row").filter(has_text=cluster).filter(has_text=price)
        expect(row.first).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("300 users cheapest, at 3")
    keyboard.press(table.get_by_role("link", name=re.compile("GB200")).first)
    expect(page.get_by_role("heading", name="Nodes and racks")).to_be_visible()
    expect(page.locator("#verdict")).to_contain_text("GB200 serve DeepSeek-V3")
    within(5)


@pytest.mark.parametrize("width", [1440, 390])
def test_13_without_scripts_on_wide_and_narrow_screens(plain: Page, server: str, web: httpx.Client, width: int) -> None:
    plain.set_default_timeout(PATIENCE)
    plain.set_viewport_size({"width": width, "height": 900})
    plain.goto(server + "/serve/size")
    if not plain.get_by_label("Model", exact=True).is_visible():
        plain.locator("#scenario > summary").click()
    plain.get_by_label("Model", exact=True).select_option(USERS["model"])
    plain.get_by_label("Limit per token", exact=True).fill(USERS["tpot_limit"])
    plain.get_by_role("button", name="Find clusters").click()
    for cluster, price in rows_of_h200_and_gb200(web):
        expect(plain.get_by_role("row").filter(has_text=cluster).filter(has_text=price).first).to_be_attached()
    assert plain.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_spine_fails_and_the_step_is_read(keyboard: Keyboard, within: Check) -> None:
    page = keyboard.page
    step = page.locator('[data-figure="training.time_to_train"] .beside', has_text="a step").inner_text()
    assert "14" in step
    keyboard.press(page.get_by_role("link", name="Fabric", exact=True).first)
    keyboard.press(page.get_by_role("link", name="a spine switch", exact=True))
    row = page.get_by_role("group", name="If a part fails").get_by_role("row").filter(has_text="A spine switch")
    expect(page).to_have_url(re.compile("#fails-spine$"))
    expect(row).to_contain_text("30 of 32 links up")
    expect(row).to_contain_text("14.12 s")
    expect(row).to_contain_text("1.0007")  # of the step without the failure
    within(3)
    page.locator(".fabric-drawing a[href='#fails-leaf']").first.click()
    expect(page).to_have_url(re.compile("#fails-leaf$"))
    page.get_by_role("link", name="rail 3", exact=True).click()
    expect(page.locator("#way-rail-3")).to_be_visible()
    expect(page.locator("#way-longest")).to_be_hidden()


# The same without scripts ---------------------------------------------------------------------------------------------


@pytest.fixture
def bare(plain: Page, server: str) -> Keyboard:
    """The same planner with scripts switched off."""
    plain.set_default_timeout(PATIENCE)
    plain.set_viewport_size({"width": 1440, "height": 900})
    plain.goto(server + "/")
    expect(plain.locator("button.scripted, .scripted").first).to_be_hidden()
    return Keyboard(plain)


def test_1_without_scripts(bare: Keyboard, web: httpx.Client) -> None:
    bare.press(bare.page.locator(".figures a.figure").first)
    nodes = web.get("/api/v1/plan").json()["costs"]["capital_parts"][0]["cost"]["typical"]
    expect(bare.page.locator(".ledger")).to_contain_text(f"128 servers × ${nodes / 128:,.0f}")
    assert bare.steps == 1


def test_2_and_3_without_scripts(bare: Keyboard, web: httpx.Client) -> None:
    page = bare.page
    bare.press(page.get_by_role("link", name="By a date, with H100 SXM only"))
    bare.fill("Deadline", "30 days")
    expect(page).to_have_url(re.compile(r"deadline=30\+days"))
    expect(page.locator("#verdict")).to_contain_text("H100 SXM")
    assert bare.steps <= 3
    bare.press(page.get_by_role("link", name="Find", exact=True))
    bare.fill("Budget", "$50M")
    expect(page).to_have_url(re.compile(r"deadline=30\+days.*budget=%2450M"))  # what was typed before goes along
    answer = web.get("/api/v1/size?deadline=30+days&budget=$50M&gpu=h100-sxm", timeout=PATIENCE).json()
    found = f"{answer['cheapest']['gpus']:,} " if answer["cheapest"] else answer["message"]
    expect(page.locator("#verdict")).to_contain_text(found)


def test_4_without_scripts(bare: Keyboard) -> None:
    bare.press(bare.page.get_by_role("link", name="RoCE on 400 Gb/s Ethernet and TCP on 400 Gb/s Ethernet"))
    expect(bare.page.locator("#verdict")).to_contain_text("Against plan A: B")
    expect(bare.page.locator(".comparison-table tbody").first).to_contain_text("TCP on 400 Gb/s Ethernet")
    assert bare.steps == 1


def test_5_without_scripts(bare: Keyboard) -> None:
    bare.press(bare.page.locator('[data-figure="training.time_to_train"] a.figure').first)
    expect(bare.page.locator("math").first).to_be_visible()
    nearest = bare.page.get_by_role("group", name="Nearest measured runs").get_by_role("row")
    expect(nearest.filter(has_text="1,024 H100 SXM")).to_contain_text("%")
    assert bare.steps == 1


def test_6_without_scripts(bare: Keyboard) -> None:
    page = bare.page
    bare.press(page.get_by_role("link", name="All-reduce", exact=True))
    times = {2**size: 2 * 15 / 16 * 2**size / 403e9 for size in range(30, 34)}
    bare.type(page.get_by_label("Output of nccl-tests"), output(times))
    bare.press(page.get_by_role("button", name="Compare", exact=True))
    expect(page.locator("#yours")).to_contain_text("Read as 16 GPUs on 2 hosts")
    assert bare.steps == 3


def test_7_without_scripts(bare: Keyboard) -> None:
    bare.press(bare.page.locator("#scaling a"))
    expect(bare.page.locator("#part-scaling figcaption")).to_contain_text("GPUs")
    assert "4,096" in (bare.page.locator("#part-scaling").text_content() or "")
    assert bare.steps == 1


def test_8_without_scripts(bare: Keyboard) -> None:
    page = bare.page
    bare.press(page.get_by_role("link", name="Open a real cluster"))
    bare.press(page.get_by_role("link", name="DGX SuperPOD, 127 × DGX H100"))
    expect(page.locator("#fabric")).to_contain_text("RA-11333")
    bare.press(page.locator("#fold-share > summary"))
    assert bare.download(page.locator("#share").get_by_role("link", name="XLSX")).path().stat().st_size > 5000
    assert bare.steps == 4


def test_9_without_scripts(bare: Keyboard) -> None:
    page = bare.page
    bare.choose("Model", "llama-3-405b")
    bare.fill("GPUs", "64")
    bare.press(page.locator(".findings li.error").get_by_role("link", name=re.compile("GPUs are enough")))
    expect(page.locator("#verdict")).to_contain_text("train Llama 3.1 405B")
    assert bare.steps == 3


def test_10_without_scripts(bare: Keyboard) -> None:
    page = bare.page
    bare.press(page.locator("#group-prices > summary"))
    bare.type(page.get_by_label("Node", exact=True), "$220K")
    bare.fill("Electricity", "0.06 USD/kWh")
    expect(page).to_have_url(re.compile("price_node=.*electricity="))
    expect(page.locator("#chart-capital")).to_contain_text("$220")
    assert bare.steps == 3


def test_11_without_scripts(bare: Keyboard) -> None:
    page = bare.page
    bare.choose("GPU", "gb200")
    bare.fill("GPUs", "2000")
    expect(page.locator("#power .found")).to_contain_text("34 racks, at most 132")
    assert bare.steps == 2


def test_12_without_scripts(bare: Keyboard, server: str) -> None:
    bare.press(bare.page.get_by_role("link", name="Brief", exact=True).first)
    expect(bare.page.get_by_text("The ask:")).to_be_visible()
    expect(bare.page.locator(".signed a")).to_contain_text(f"{server}/?catalog_version=")
    assert bare.steps == 1


@pytest.mark.parametrize(
    "address", ["/", "/plan/fabric", "/how/costs.capital", "/size?gpu=h100-sxm&gpus=1024", "/brief"]
)
def test_the_pages_of_the_tasks_are_readable_without_scripts(plain: Page, server: str, address: str) -> None:
    plain.set_default_timeout(PATIENCE)
    plain.goto(server + address)
    expect(plain.locator("main")).to_contain_text(re.compile(r"\d"))
    expect(plain.locator("button.scripted, .scripted").first).to_be_hidden()
    assert plain.evaluate("document.documentElement.scrollWidth <= innerWidth")
