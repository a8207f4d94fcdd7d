"""Stopping and replacing replicas: what a client sees of it."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import uvicorn
import yaml

from app.web import preparation
from app.web import server as web_server
from app.web.application import create_app
from app.web.settings import Settings
from tests.bench import faults
from tests.conftest import PATIENCE, ROOT, Server

QUESTION = "/api/v1/all-reduce?gpus=64&message="


def beside(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_stopping_server_answers_on_and_resets_nobody(tmp_path: Path) -> None:
    """No proxy is in between that would ask another replica: whoever gets a connection gets an answer."""
    running = Server(tmp_path / "log", RAILYARD_SHUTDOWN_DRAIN="1")
    url = running.url()
    answers: list[httpx.Response] = []
    probes: list[int] = []
    refused = threading.Event()
    broken: list[Exception] = []

    def ask(number: int) -> None:
        with httpx.Client(base_url=url, timeout=10) as kept:
            while not refused.is_set():
                number += 1
                try:
                    answers.append(kept.get(f"{QUESTION}{number}"))
                    probes.append(httpx.get(f"{url}/readyz", timeout=10).status_code)
                except httpx.ConnectError:  # the end: nobody listens any more
                    refused.set()
                except httpx.TransportError as error:
                    broken.append(error)

    asking = [beside(lambda first=first: ask(first)) for first in range(0, 8_000_000, 1_000_000)]
    try:
        until = time.monotonic() + 20
        while len(probes) < 8 and time.monotonic() < until:
            time.sleep(0.05)
        assert set(probes) == {200}
        began = time.monotonic()
        assert running.stop() in (0, -15)
        took = time.monotonic() - began
    finally:
        refused.wait(5)
        refused.set()
        running.process.kill()
    for thread in asking:
        thread.join(20)
    assert broken == []
    assert {one.status_code for one in answers} == {200}
    assert 1.0 < took < 15
    assert probes[-1] == 503
    closing = [one.headers.get("connection") == "close" for one in answers]
    assert closing[0] is False
    assert closing[-1] is True


async def started() -> web_server.Server:
    """A server in this process that listens."""
    app = create_app(Settings(access_log=False))
    server = web_server.Server(uvicorn.Config(app, port=0, log_config=None, loop="asyncio"), app)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    return server


def test_a_connection_that_the_kernel_has_taken_is_answered() -> None:
    """It waits in the queue of a listener that closes: closing alone would reset it."""

    async def late() -> bytes:
        server = await started()
        address = server.servers[0].sockets[0].getsockname()
        loop = asyncio.get_running_loop()
        with socket.create_connection(address, 5) as client:  # without a turn of the loop: nobody has accepted it yet
            client.sendall(f"GET {QUESTION}1 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            await server.close_listeners()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, 5)
            client.setblocking(False)
            answer = await loop.sock_recv(client, 15)
        await server.shutdown()
        return answer

    with ThreadPoolExecutor(1) as apart:  # the browser tests leave an event loop in this thread
        assert apart.submit(lambda: asyncio.run(late())).result() == b"HTTP/1.1 200 OK"


def test_the_first_page_need_not_wait_for_what_all_pages_share(monkeypatch: pytest.MonkeyPatch) -> None:
    made = threading.Event()
    monkeypatch.setattr(preparation, "UNTIL_WARM", 0.01)
    monkeypatch.setattr(preparation, "warm_up", made.set)

    async def start() -> None:
        server = await started()
        await asyncio.sleep(0.2)
        await server.shutdown()

    with ThreadPoolExecutor(1) as apart:  # the browser tests leave an event loop in this thread
        apart.submit(lambda: asyncio.run(start())).result()
    assert made.wait(20)


def test_templates_are_code_once_it_is_warm() -> None:
    script = (
        "from app.web.templating import environment, warm_up; warm_up(); templates = environment(); "
        "print(len(templates.cache) == len(templates.list_templates()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "True"


def test_a_person_at_the_keyboard_does_not_wait_for_the_drain(tmp_path: Path) -> None:
    with Server(tmp_path / "log", RAILYARD_SHUTDOWN_DRAIN="60") as running:
        running.url()
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) in (0, 130, -2)


def test_making_haste_cuts_the_drain_short(tmp_path: Path) -> None:
    with Server(tmp_path / "log", RAILYARD_SHUTDOWN_DRAIN="60") as running:
        running.url()
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert running.process.poll() is None
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(30) is not None


def test_a_broken_override_stops_the_next_start_and_leaves_the_running_service_alone(tmp_path: Path) -> None:
    folder = tmp_path / "overrides"
    folder.mkdir()
    (folder / "gpus.toml").write_text('[h100-sxm]\npower = "500 W"\n')
    with Server(tmp_path / "log", RAILYARD_OVERRIDES=str(folder)) as running:
        address = f"{running.url()}/api/v1/catalog/gpus/h100-sxm"
        before = httpx.get(address, timeout=60).json()
        (folder / "gpus.toml").write_text("[h100-sxm]\npower = 'lots'\n")
        with Server(tmp_path / "next", RAILYARD_OVERRIDES=str(folder)) as broken:
            assert broken.process.wait(PATIENCE) == 2
        assert httpx.get(address, timeout=60).json() == before
        assert before["entry"]["power"]["typical"] == 500.0
        assert httpx.get(f"{running.url()}/readyz", timeout=60).status_code == 200


# Behind nginx ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[faults.Replicas]:
    """Three behind the nginx of deploy/. They stop sooner than nginx forgives: all three may count as failed."""
    if faults.nginx() is None:
        pytest.skip("nginx is not installed here (Debian and Ubuntu: apt-get install nginx-light)")
    variables = {"RAILYARD_SHUTDOWN_DRAIN": "0.1", "RAILYARD_HEAVY_QUEUE": "0"}
    with faults.Replicas(tmp_path_factory.mktemp("replicas"), **variables) as started:
        yield started


def test_turning_large_questions_away_leaves_the_others_alone(replicas: faults.Replicas) -> None:
    """A 503 makes nginx ask the next replica and count the first as failed, until none is left that counts as good."""
    large: list[int] = []
    url = f"http://127.0.0.1:{replicas.port}"
    asking = [beside(lambda: large.append(httpx.get(f"{url}/api/v1/size", timeout=60).status_code)) for _ in range(9)]
    light: list[int] = []
    while any(one.is_alive() for one in asking):
        light.append(httpx.get(f"{url}{QUESTION}{len(light) + 1}", timeout=60).status_code)
    for one in asking:
        one.join()
    assert set(large) == {200, 503}  # three are computed, six are turned away by each of the three
    assert set(light) == {200}


def test_a_rolling_restart_loses_no_request(replicas: faults.Replicas) -> None:
    posted: list[int] = []
    done = threading.Event()

    def post() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{replicas.port}", timeout=30) as asking:
            while not done.is_set():
                question = {"gpus": 64, "message": len(posted) + 1}
                posted.append(asking.post("/api/v1/all-reduce", json=question).status_code)

    posting = beside(post)
    try:
        found = faults.under_load(replicas.port, replicas.restart, connections=8)
    finally:
        done.set()
        posting.join()
    assert found.errors == 0, faults.told("rolling restart", found)
    assert set(posted) == {200}
    assert len(posted) > 10


# What the deployment files promise ------------------------------------------------------------------------------------


def test_nginx_names_the_version_that_its_configuration_needs() -> None:
    text = (ROOT / "deploy/nginx.conf").read_text()
    image = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]["proxy"]["image"]
    needs = re.search(r"nginx (\d+)\.(\d+)\.(\d+) or later", text)
    has = re.fullmatch(r"nginx:(\d+)\.(\d+)-alpine", image)
    assert needs is not None
    assert has is not None
    assert tuple(map(int, has.groups())) > tuple(map(int, needs.groups()[:2]))


def test_the_time_to_stop_is_granted() -> None:
    """What waits for the container to stop waits longer than it takes: drain, then grace, and a little for the rest."""
    defaults = Settings()
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    granted = float(compose["x-railyard"]["stop_grace_period"].removesuffix("s"))
    assert granted > defaults.shutdown_drain + defaults.shutdown_grace + 2
    deployment = next(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
    pod = deployment["spec"]["template"]["spec"]
    own = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert pod["terminationGracePeriodSeconds"] > float(own["RAILYARD_SHUTDOWN_DRAIN"]) + defaults.shutdown_grace + 2


METRIC = re.compile(r"\b(?:railyard|process)_[a-z_]+")


def test_dashboard_and_alerts_watch_what_is_measured(web: httpx.Client) -> None:
    web.get("/")
    measured = set(METRIC.findall(web.get("/metrics").text))
    panels = json.loads((ROOT / "deploy/grafana.json").read_text())["panels"]
    (group,) = yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += [rule["expr"] for rule in group["rules"]]
    watched = {name for expression in asked for name in METRIC.findall(expression)}
    assert watched <= measured
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all({"summary", "description"} <= rule["annotations"].keys() for rule in group["rules"])
