"""What browser tests share: a planner, a browser without JavaScript, and a watch over what goes wrong unseen."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, WebError


@contextmanager
def watched(context: BrowserContext, server: str) -> Iterator[list[str]]:
    """What goes wrong unseen: errors on the console, exceptions, requests to another host."""
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

    def raised(error: WebError) -> None:
        wrong.append(str(error.error))

    listeners = {"console": console, "request": asked, "response": answered, "weberror": raised}
    for event, listener in listeners.items():
        context.on(event, listener)
    yield wrong
    for event, listener in listeners.items():
        context.remove_listener(event, listener)


def wait_until(page: Page, condition: str) -> None:
    """Ask the page until it says yes: a condition left with it to ask again is refused by its security policy."""
    last = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < last, f"never: {condition}"
        page.wait_for_timeout(20)


@pytest.fixture
def nothing_goes_wrong(context: BrowserContext, server: str) -> Iterator[None]:
    """No test may see any of that."""
    with watched(context, server) as wrong:
        yield
    assert not wrong


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Iterator[Page]:
    """A narrow, dark page for tests that look at one address after another; to open one takes a second."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def on_a_phone(phone: Page, server: str) -> Iterator[Page]:
    """That page, as it was before another test widened it."""
    phone.set_viewport_size({"width": 390, "height": 844})
    phone.emulate_media(color_scheme="dark")
    with watched(phone.context, server) as wrong:
        yield phone
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
