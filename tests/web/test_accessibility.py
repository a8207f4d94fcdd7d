"""axe-core finds nothing on any page: wide with everything unfolded, light and dark; narrow and dark as it opens.

Nor does any page scroll sideways on a phone.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi import APIRouter
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, Page, expect

from app.web import pages
from app.web.pages.sections import SECTIONS
from tests.conftest import PATIENCE

PAGES = (
    "/",
    "/?gpus=1020&model=llama-3-405b&topology=torus-3d",
    "/?gpus=twelve",
    "/compare?b.scale_out=roce-400&c.scale_out=tcp-400",
    "/size?deadline=200+days&gpu=h100-sxm&gpus=2048",
    "/explore?gpu=h100-sxm&gpus=256&deadline=2+years",
    "/serve?gpus=64&serving=disaggregated",
    "/serve/size?gpu=h200-sxm&gpu=gb200&model=deepseek-v3&tpot_limit=33+ms",
    "/curves",
    "/start",
    "/start?know=power",
    "/plan/fabric",
    "/plan/sources",
    "/how/training.step_time",
    "/how/costs.capital?price_node=$220K",
    "/all-reduce",
    "/calibrate",
    "/cost",
    "/fabric",
    "/fabric/unit/2?gpu=gb200&gpus=2016",
    "/fabric/rack/7",
    "/fabric/node/28",
    "/fabric/node/28/rail/3",
    "/catalog",
    "/catalog?q=b200",
    "/catalog/switches",
    "/catalog/training",
    "/catalog/sources",
    "/catalog/gpus/h100-sxm",
    "/accuracy",
    "/method",
    "/method/glossary",
    "/method/training",
    "/acceptance",
    "/brief?deadline=150+days",
    "/brief?gpus=64&annex=true",
    "/docs",
    "/docs/study",
    "/nowhere",
    *(f"/plan/{key}" for key, section in SECTIONS.items() if not section.page and key not in ("fabric", "sources")),
)
OF_DEFAULTS = (
    "/", "/compare", "/cost", "/calibrate", "/explore?gpu=h100-sxm&gpus=256",
    "/size?deadline=90+days&gpu=h100-sxm", "/serve", "/serve/size", "/all-reduce", "/fabric",
    "/catalog", "/catalog/switches", "/accuracy", "/method", "/acceptance", "/brief", "/curves", "/start",
    "/plan/fabric", "/fabric/unit/2", "/fabric/node/28/rail/3", "/how/costs.capital", "/docs", "/nowhere",
    "/docs/study",
)  # fmt: skip
WIDE, NARROW = 1440, 390
"""Of a window [px]."""
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
BY_WIDTH_AND_COLOUR = {
    "runOnly": {"type": "rule", "values": ["color-contrast", "target-size", "scrollable-region-focusable"]},
    "resultTypes": ["violations"],
}
"""What a narrow or dark page can break of one that is wide and light: the elements are the same."""
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
"""What the other colours can break of a page with everything unfolded."""
UNFOLD = "for (const fold of document.querySelectorAll('details')) fold.open = true"
FEW = 3
THIN_OUT = """([few, kept]) => {
  const seen = {};
  const name = element => `${element.tagName} ${element.className}`;
  const inside = element => [...new Set([...element.querySelectorAll('*')].map(name))].sort().join();
  const isBlock = element => element.matches('tr, li, div, p, details, figure') && !element.querySelector('h1, h2, h3');
  const thin = (parent, path) => {
    for (const child of [...parent.children]) {
      if (child.matches(kept)) continue;
      const place = `${path} > ${name(child)}`, alike = `${place}: ${inside(child)}`;
      seen[alike] = (seen[alike] || 0) + 1;
      if (seen[alike] > few && isBlock(child)) child.remove(); else thin(child, place);
    }
  };
  thin(document.querySelector('main'), '');
}"""
"""Of blocks in like places with the like inside them the first few are looked at: the same lines of a template make
the others.

All fields of the form are looked at on the page of the plan.
"""


def violations(page: Page, width: int, rules: Mapping[str, Any]) -> list[str]:
    """What axe finds on a page, one line each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("rules => axe.run(rules).then(results => results.violations)", rules)
    return [
        f"{width} {violation['id']}: {violation['help']} {[node['html'][:160] for node in violation['nodes'][:3]]}"
        for violation in found
    ]


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing(on_a_phone: Page, server: str, address: str) -> None:
    page = on_a_phone
    page.goto(server + address, timeout=1000 * PATIENCE)
    page.evaluate(THIN_OUT, [FEW, "svg, form" if address == "/" else "svg"])
    if urlsplit(address).path in ("/curves", "/fabric"):  # explored once, not on every page
        chart = page.locator("figure.chart").first
        chart.evaluate("chart => chart.closest('details')?.setAttribute('open', '')")
        chart.get_by_role("button", name="Explore").click()
        page.locator(".canvas .main-svg").first.wait_for()
    found = violations(page, NARROW, BY_WIDTH_AND_COLOUR)
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.emulate_media(color_scheme="light")
    page.evaluate(UNFOLD)
    found += violations(page, WIDE, RULES)
    page.emulate_media(color_scheme="dark")
    found += violations(page, WIDE, CONTRAST)
    assert not found, "\n".join(found)


def test_every_page_is_looked_at() -> None:
    """/docs/try is another maker's page."""
    folder = Path(pages.__file__).parent
    modules = [import_module(f"{pages.__name__}.{path.stem}") for path in folder.glob("[a-z]*.py")]
    routes = [route for module in modules for route in getattr(module, "router", APIRouter()).routes]
    ways = {route.path: route.path_regex for route in routes if isinstance(route, APIRoute) and "." not in route.path}
    assert len(ways) > 20
    assert [way for way, known in ways.items() if not any(known.match(urlsplit(page).path) for page in PAGES)] == []


@pytest.mark.parametrize("address", OF_DEFAULTS)
def test_no_page_scrolls_sideways_on_a_phone(on_a_phone: Page, server: str, address: str) -> None:
    on_a_phone.goto(server + address)
    on_a_phone.evaluate(UNFOLD)
    assert on_a_phone.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_no_section_of_a_plan_scrolls_the_page_sideways_once_it_is_brought_there(on_a_phone: Page, server: str) -> None:
    page = on_a_phone
    for width in (NARROW, 320):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(server + "/")
        page.evaluate(UNFOLD)
        expect(page.locator("[data-from]")).to_have_count(0)
        page.locator("#acceptance ol.steps").wait_for()
        page.evaluate(UNFOLD)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "scheme", "rules"), [(WIDE, "light", RULES), (NARROW, "dark", BY_WIDTH_AND_COLOUR)])
def test_axe_finds_nothing_with_drawer_pins_and_saved_plans_open(
    browser: Browser, server: str, width: int, scheme: str, rules: Mapping[str, Any]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(server + "/?gpus=256")
    page.locator("[data-ask=pin]").click()
    page.goto(server + "/?gpus=512")
    page.locator("#fold-fabric > summary").click()
    page.locator("#fabric svg.fabric-drawing").wait_for()
    page.locator(".figures a.figure").first.click()
    page.locator("#drawer .ledger").wait_for()
    page.evaluate(THIN_OUT, [FEW, "svg"])
    found = violations(page, width, rules)
    page.keyboard.press("Escape")
    page.locator(".figures .term").first.click()
    found += violations(page, width, rules)
    page.keyboard.press("Escape")
    if width == NARROW:
        page.get_by_role("button", name="Menu").click()
    page.locator(".masthead [data-ask=plans]").click()
    found += violations(page, width, rules)
    context.close()
    assert not found, "\n".join(found)
