"""axe-core finds nothing on any page: wide and light with everything unfolded, narrow and dark as it opens."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

PAGES = (
    "/",
    "/?gpus=1020&model=llama-3-405b&topology=torus-3d",
    "/?gpus=twelve",
    "/compare?b.scale_out=roce-400&c.scale_out=tcp-400",
    "/size?deadline=200+days&gpu=h100-sxm&gpus=2048",
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
    "/fabric",
    "/catalog",
    "/catalog/gpus/h100-sxm",
    "/accuracy",
    "/method",
    "/acceptance",
    "/brief?deadline=150+days",
    "/docs",
    "/nowhere",
)
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
BY_WIDTH_AND_COLOUR = {
    "runOnly": {"type": "rule", "values": ["color-contrast", "target-size", "scrollable-region-focusable"]},
    "resultTypes": ["violations"],
}
"""What a narrow or dark page can break of one that is wide and light: the elements are the same."""
UNFOLD = "for (const fold of document.querySelectorAll('details')) fold.open = true"
FEW = 4
THIN_OUT = """([few, whole]) => {
  if (document.querySelectorAll('*').length < 1000) return;
  const alike = element => `${element.tagName} ${element.className}`;
  for (const parent of document.querySelectorAll(`main *:not(svg, svg *, ${whole})`)) {
    const seen = {};
    for (const child of [...parent.children]) {
      seen[alike(child)] = (seen[alike(child)] || 0) + 1;
      if (seen[alike(child)] > few) child.remove();
    }
  }
}"""
"""Of many like rows of a long page the first few are looked at: the others come from the same lines of a template.

All fields of the form are looked at on the page of the plan.
"""


def violations(browser: Browser, address: str, width: int, scheme: str, rules: Mapping[str, Any]) -> list[str]:
    """What axe finds on a page, one line each."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(address)
    path = urlsplit(address).path
    page.evaluate(THIN_OUT, [FEW, "form, form *" if path == "/" else "select"])
    if width > 1000:
        page.evaluate(UNFOLD)
    if path in ("/curves", "/fabric"):  # explored once, not on every page
        page.locator("figure.chart").first.get_by_role("button", name="Explore").click()
        page.locator(".canvas .main-svg").first.wait_for()
    results = Axe().run(page, options=rules)
    context.close()
    return [
        f"{width} {scheme} {found['id']}: {found['help']} {[node['html'][:160] for node in found['nodes'][:3]]}"
        for found in results.response["violations"]
    ]


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing(browser: Browser, server: str, address: str) -> None:
    found = violations(browser, server + address, 1440, "light", RULES)
    found += violations(browser, server + address, 390, "dark", BY_WIDTH_AND_COLOUR)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_axe_finds_nothing_with_drawer_pins_and_saved_plans_open(
    browser: Browser, server: str, width: int, scheme: str
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
    found = Axe().run(page, options=RULES).response["violations"]
    page.keyboard.press("Escape")
    page.locator(".masthead [data-ask=plans]").click()
    found += Axe().run(page, options=RULES).response["violations"]
    context.close()
    assert not [f"{one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found]
