"""What tests share: the application in-process, the real server, and a headless Chromium that talks to nobody else."""

import asyncio
import gc
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx
import hypothesis
import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from app.report.charts import style
from app.web import settings
from app.web.application import create_app
from tests.plotly_figures import looked_at

ROOT = Path(__file__).parent.parent
BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--process-per-site",  # the pages are of one site, and a process each took half a second
    "--renderer-process-limit=1",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]

PATIENCE = 120.0
"""Seconds that an answer may take beside other tests; those of the limit itself set their own."""

# Plotly refuses misspelt properties here; the service spares itself the looking, and Plotly's classes.
style.Figure.__init__ = looked_at(style.Figure.__init__)  # type: ignore[method-assign]

# Other tests take their share of the processor while a page is awaited.
expect.set_options(timeout=20_000)

# The same examples on every machine: new ones are looked for by `make fuzz`, and what it finds becomes a test.
# How long one example takes says more of the machine than of the code; what has to be quick has a test that times it.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("tests")


def pytest_collection_finish() -> None:
    """What is loaded by now stays loaded: looking through it for what is not took a tenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient]:
    """The application, called in-process."""
    options = settings.Settings(access_log=False, time_limit=PATIENCE)
    with TestClient(create_app(options), raise_server_exceptions=False) as made:
        yield made


def run_apart(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns; the browser tests leave an event loop in this thread."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, coroutine).result()


class Server:
    """The real server in a process of its own, on a free port unless one is given."""

    def __init__(self, log: Path, port: int = 0, *, before: str = "", **variables: str) -> None:
        """Start it, after some Python that changes it."""
        self.log = log
        self.address = ""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAILYARD_")}
        environment["RAILYARD_SHUTDOWN_DRAIN"] = "0"  # nobody but the test asks; tests of the drain set their own
        environment["RAILYARD_TIME_LIMIT"] = str(PATIENCE)
        environment["RAILYARD_WORK_AHEAD"] = "false"  # tests have the processor for themselves
        arguments = ["serve", "--host", "127.0.0.1", "--port", str(port)]
        script = f"{before}\nfrom app.__main__ import main\nraise SystemExit(main({arguments}))"
        command = [sys.executable, *(["-c", script] if before else ["-m", "app", *arguments])]
        self.began = time.monotonic()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment | variables, stdout=out, stderr=subprocess.STDOUT
            )

    def url(self, seconds: float = PATIENCE) -> str:
        """Its address, once it serves."""
        if self.address:
            return self.address
        while time.monotonic() < self.began + seconds:
            found = re.search(r"Railyard is at (http://\S+?)/[\"\s]", self.log.read_text())
            if found:
                self.seconds_to_start = time.monotonic() - self.began
                self.address = found[1]
                return self.address
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Ask it to stop and wait; its exit status."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running server."""
    with Server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running.url()


@pytest.fixture(scope="session")
def web(server: str) -> Iterator[httpx.Client]:
    """A client of the running server."""
    with httpx.Client(base_url=server, timeout=60) as made:
        yield made


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """How pytest-playwright starts the browser. Without a Chromium on the machine, Playwright's own."""
    found = {"executable_path": CHROMIUM} if CHROMIUM else {}
    return {**browser_type_launch_args, **found, "chromium_sandbox": False, "args": CHROMIUM_FLAGS}
