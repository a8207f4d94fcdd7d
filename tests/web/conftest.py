"""What browser tests share: a planner, a browser without JavaScript, and a watch over what goes wrong unseen."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response


@pytest.fixture
def nothing_goes_wrong(context: BrowserContext, server: str) -> Iterator[None]:
    """No test may see an error on the console, an exception, or a request to another host."""
    wrong: list[str] = []

    def console(message: ConsoleMessage) -> None:
        expected = "status of 4" in message.text or "net::ERR_FAILED" in message.text  # a test cut the line
        if message.type == "error" and not expected:
            wrong.append(message.text)

    def asked(sent: Request) -> None:
        if not sent.url.startswith((server, "data:", "blob:")):
            wrong.append(f"asked {sent.url}")

    def answered(answer: Response) -> None:
        if answer.status >= 500:
            wrong.append(f"{answer.status} from {answer.url}")

    context.on("console", console)
    context.on("request", asked)
    context.on("response", answered)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    yield
    assert not wrong


@pytest.fixture
def planner(page: Page, server: str) -> Page:
    """The planner with the default cluster."""
    page.goto(server + "/")
    return page


@pytest.fixture
def plain(browser: Browser) -> Iterator[Page]:
    """A browser with JavaScript off."""
    context = browser.new_context(java_script_enabled=False)
    yield context.new_page()
    context.close()
