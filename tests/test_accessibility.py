"""axe-core finds nothing on any page: light and dark, wide and narrow, with everything unfolded."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

PAGES = (
    "/",
    "/?gpus=1020&model=llama-3-405b&topology=torus-3d",
    "/?gpus=twelve",
    "/compare?b.scale_out=roce-400&c.scale_out=tcp-400",
    "/size?deadline=200+days&gpu=h100-sxm&gpus=2048",
    "/curves",
    "/all-reduce",
    "/fabric",
    "/catalog",
    "/catalog/gpus/h100-sxm",
    "/accuracy",
    "/method",
    "/acceptance",
    "/nowhere",
)
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@pytest.mark.parametrize("address", PAGES)
def test_axe_finds_nothing(browser: Browser, server: str, address: str) -> None:
    axe = Axe()
    found = []
    for width, scheme in ((1440, "light"), (390, "dark"), (390, "light"), (1440, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(server + address)
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        if scheme == "light" and page.locator("figure.chart").count():
            page.locator("figure.chart").first.scroll_into_view_if_needed()
            page.locator(".canvas .main-svg").first.wait_for()
        results = axe.run(page, options=RULES)
        for violation in results.response["violations"]:
            nodes = [node["html"][:160] for node in violation["nodes"][:3]]
            found.append(f"{width} {scheme} {violation['id']}: {violation['help']} {nodes}")
        context.close()
    assert not found, "\n".join(found)
