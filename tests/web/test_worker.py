"""Large questions, which a process of its own answers: nobody notices, but that the others stay quick."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from tests.bench.web import processes
from tests.conftest import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere large questions are answered in a thread")

LONG = json.dumps({"grid": {"gpus": list(range(8, 80_000, 8)), "oversubscription": [1, 2, 4]}}).encode()
"""A sweep that takes minutes."""
SIZE = "/api/v1/size?gpus=64&gpu=h100-sxm&model=llama-3-8b"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose worker may be ill-treated."""
    with Server(tmp_path_factory.mktemp("worker") / "log") as started:
        started.url()
        yield started


def worker_of(server: Server) -> int:
    """The process that answers now: it is the service's own that comes first."""
    assert becomes(lambda: any(map(alive, processes(server.process.pid)[1:])))
    return max(filter(alive, processes(server.process.pid)[1:]))


def metric(server: Server, name: str) -> float:
    """A number of /metrics; 0 where it was never counted."""
    found = re.search(rf"^{re.escape(name)} (\S+)", httpx.get(f"{server.url()}/metrics", timeout=60).text, re.M)
    return float(found[1]) if found else 0.0


def becomes(true: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.05)
    return true()


def sweeping(server: Server) -> socket.socket:
    """A connection on which the long sweep has begun to come."""
    connection = socket.create_connection(("127.0.0.1", int(server.url().rpartition(":")[2])), 60)
    head = f"POST /api/v1/sweep HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(LONG)}"
    connection.sendall(head.encode() + b"\r\n\r\n" + LONG)
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# What is answered ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        SIZE, "/api/v1/size?gpus=x", "/api/v1/cost", "/curves?gpus=64", "/compare?a.gpus=64&b.gpus=128",
        "/export/plan.csv?gpus=64", "/export/plan.xlsx?gpus=64", "/export/nothing.csv?gpus=64",
        "/export/cables.csv?gpus=256", "/chart/scaling.svg?gpus=64", "/chart/capital.png?gpus=64&width=200",
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_is_that_of_a_thread_to_the_byte(
    running: Server, client: TestClient, target: str, encoding: str
) -> None:
    headers = {"host": "plan.example", "accept-encoding": encoding, "x-request-id": "the-same"}
    here = client.get(target, headers=headers)
    with httpx.stream("GET", running.url() + target, headers=headers, timeout=60) as there:
        body = b"".join(there.iter_raw())
    told = {name: value for name, value in there.headers.items() if name not in ("date", "transfer-encoding")}
    assert there.status_code == here.status_code
    assert told == dict(here.headers)
    if encoding == "identity" and "xlsx" not in target:  # a workbook says when it was made
        assert body == here.content


@pytest.mark.parametrize(("path", "body"), [("sweep", {"grid": {"gpus": [64, 128]}}), ("compare", {"scenarios": []})])
def test_so_is_that_to_a_body(running: Server, client: TestClient, path: str, body: object) -> None:
    headers = {"x-request-id": "the-same"}
    there = httpx.post(f"{running.url()}/api/v1/{path}", json=body, headers=headers, timeout=60)
    here = client.post(f"/api/v1/{path}", json=body, headers=headers)
    assert (there.status_code, there.content) == (here.status_code, here.content)


def test_who_asks_again_and_has_the_answer_is_told_so(running: Server) -> None:
    with httpx.Client(base_url=running.url(), timeout=60) as asking:
        tag = asking.get(SIZE).headers["etag"]
        assert asking.get(SIZE, headers={"if-none-match": tag}).status_code == 304
        assert asking.head(SIZE).headers["etag"] == tag


def test_what_is_counted_there_is_counted(running: Server) -> None:
    sweeps, sizes = (f'railyard_evaluations_total{{endpoint="{name}"}}' for name in ("sweep", "size"))
    before = metric(running, sweeps), metric(running, sizes)
    httpx.post(f"{running.url()}/api/v1/sweep", json={"grid": {"gpus": [64, 128, 256]}}, timeout=60)
    httpx.get(running.url() + SIZE, timeout=60)
    assert (metric(running, sweeps), metric(running, sizes)) == (before[0] + 3, before[1] + 1)
    assert metric(running, "railyard_worker_process_resident_memory_bytes") > 50e6
    assert metric(running, 'railyard_questions{kind="heavy"}') == 0


def test_others_are_answered_quickly_meanwhile(running: Server) -> None:
    took = []
    with sweeping(running), httpx.Client(base_url=running.url(), timeout=60) as light:
        assert metric(running, 'railyard_questions{kind="heavy"}') <= 1
        for number in range(20):
            began = time.monotonic()
            assert light.get("/healthz").status_code == 200
            assert light.get(f"/api/v1/plan?gpus={64 + 8 * number}").status_code == 200
            took.append(time.monotonic() - began)
    assert sorted(took)[10] < 1  # a plan takes 0.03 s, other tests their share


# Who leaves ----------------------------------------------------------------------------------------------------------


def test_who_leaves_makes_room_for_the_next(running: Server) -> None:
    for one in [sweeping(running) for _ in range(3)]:
        one.close()
    assert becomes(lambda: metric(running, 'railyard_questions{kind="heavy"}') == 0)
    pid, seconds = worker_of(running), "railyard_worker_process_cpu_seconds_total"
    assert httpx.get(running.url() + SIZE, timeout=20).status_code == 200
    before = metric(running, seconds)
    time.sleep(1)
    assert metric(running, seconds) < before + 0.3  # it rests
    assert worker_of(running) == pid


# Who dies ------------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_is_replaced(running: Server) -> None:
    found: list[httpx.Response] = []
    killed = worker_of(running)
    with sweeping(running) as cut:
        asking = threading.Thread(target=lambda: found.append(httpx.get(f"{running.url()}/api/v1/size", timeout=60)))
        asking.start()
        assert becomes(lambda: metric(running, 'railyard_questions{kind="heavy"}') >= 1)
        os.kill(killed, signal.SIGKILL)
        asking.join()
        while part := cut.recv(2**16):
            last = part
    assert not last.endswith(b"\r\n0\r\n\r\n")  # an answer that breaks off does not look whole
    assert found[0].status_code in (200, 503)
    assert httpx.get(running.url() + SIZE, timeout=60).status_code == 200
    assert worker_of(running) != killed


def test_a_worker_that_does_not_listen_any_more_is_replaced(tmp_path: Path) -> None:
    with Server(tmp_path / "log", before="from app.web import worker; worker.UNTIL_STUCK = 1") as server:
        url = server.url()
        stopped = worker_of(server)
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(url + SIZE, timeout=0.5)
        assert becomes(lambda: not alive(stopped))
        assert becomes(lambda: httpx.get(url + SIZE, timeout=60).status_code == 200)


STUCK = """
import time
from app.web import answers, heavy_queue
heavy_queue.UNTIL_STUCK = 1
sized = answers.size_answer
answers.size_answer = lambda question, *given: time.sleep(3600) if question.gpus == 72 else sized(question, *given)
"""


def test_a_question_that_does_not_end_though_its_client_has_left_is_ended(tmp_path: Path) -> None:
    with Server(tmp_path / "log", before=STUCK) as server:
        url = server.url()
        with pytest.raises(httpx.ReadTimeout):
            httpx.get(f"{url}/api/v1/size?gpus=72", timeout=1)
        assert becomes(lambda: httpx.get(url + SIZE, timeout=60).status_code == 200)
    assert "a question does not end though its client has left" in server.log.read_text()


BROKEN = """
from app.web import answers
def broken(*_):
    raise RuntimeError("the formula is broken")
answers.size_answer = broken
"""


def test_a_bug_there_is_a_problem_document_and_a_log_line(tmp_path: Path) -> None:
    with Server(tmp_path / "log", before=BROKEN) as server:
        answer = httpx.get(f"{server.url()}/api/v1/size", headers={"x-request-id": "find-me"}, timeout=60)
        assert answer.status_code == 500
        assert answer.json()["request_id"] == "find-me"
        assert metric(server, "railyard_errors_total") == 1
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    (line,) = [one for one in lines if one["logger"] == "railyard.worker"]
    assert line["id"] == "find-me"
    assert "the formula is broken" in line["error"]


FORGETS = """
from app.web import heap, worker_process
worker_process.REST, worker_process.LARGE = 0.2, 0
heap.forget = lambda: print("it forgets", flush=True)
"""


def test_a_worker_that_has_grown_forgets_when_it_rests(tmp_path: Path) -> None:
    with Server(tmp_path / "log", before=FORGETS) as server:
        url = server.url()
        pid = worker_of(server)
        assert httpx.get(url + SIZE, timeout=60).status_code == 200
        assert becomes(lambda: "it forgets" in server.log.read_text())
        assert worker_of(server) == pid


def test_the_one_that_takes_its_place_has_the_same_settings_and_catalogue(tmp_path: Path) -> None:
    folder = tmp_path / "overrides"
    folder.mkdir()
    (folder / "sources.toml").write_text('[ours]\ntitle = "Contract"\npublisher = "We"\n')
    prices = folder / "prices.toml"
    prices.write_text('[market.prices.gpu-hour-h100]\ntypical = "9.10 USD/h"\nsource = "ours"\n')
    with Server(tmp_path / "log", RAILYARD_OVERRIDES=str(folder)) as server:
        url, pid = server.url(), worker_of(server)
        before = httpx.get(url + SIZE, timeout=60)
        prices.unlink()  # read once, at the start
        os.kill(pid, signal.SIGKILL)
        assert becomes(lambda: httpx.get(url + SIZE, timeout=60).status_code == 200)
        assert worker_of(server) != pid
        after = httpx.get(url + SIZE, timeout=60)
    assert before.status_code == 200
    assert after.json() == before.json()


# The end -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_the_service(tmp_path: Path, number: signal.Signals) -> None:
    server = Server(tmp_path / "log", RAILYARD_SHUTDOWN_GRACE="1")
    server.url()
    worker_of(server)
    all_of_them = processes(server.process.pid)
    with sweeping(server):
        server.process.send_signal(number)
        server.process.wait(30)
        assert becomes(lambda: not any(map(alive, all_of_them)), 10)
