"""What one connection may do, tried on a running server: sizes, times, and how many there may be."""

import json
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from app.web import connections
from tests.bench.web import resident
from tests.conftest import Server

START = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
WHOLE = START + b"\r\n"
QUESTION = b"POST /api/v1/plan HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
MOST = 8


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is short of time, with room for few."""
    with Server(
        tmp_path_factory.mktemp("strict") / "log",
        RAILYARD_HEADER_TIMEOUT="1",
        RAILYARD_BODY_TIMEOUT="1.5",
        RAILYARD_SEND_TIMEOUT="1",
        RAILYARD_KEEP_ALIVE="2",
        RAILYARD_MAX_CONNECTIONS=str(MOST),
        RAILYARD_LOG_FORMAT="json",
    ) as running:
        running.url()
        yield running


def connect(running: Server, seconds: float = 20) -> socket.socket:
    port = int(running.url().rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), seconds)


def rest(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    parts = []
    with suppress(ConnectionResetError):
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def is_answered(client: socket.socket) -> bool:
    """Whether the health is told to a client who asks now, on a connection that stays open."""
    client.sendall(WHOLE)
    answer = b""
    while not answer.endswith(b"\r\n\r\nok"):
        part = client.recv(65_536)
        if not part:
            return False
        answer += part
    return True


def problem(answer: bytes) -> tuple[int, str]:
    """Status and detail of an answer that is a problem document, the last on its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/problem+json" in head
    assert b"\r\nx-content-type-options: nosniff" in head
    assert b"\r\nconnection: close" in head
    document = json.loads(body)
    assert int(head[9:12]) == document["status"]
    return document["status"], document["detail"]


def metric(running: Server, sample: str) -> float:
    found = re.search(
        rf"^{re.escape(sample)} (\S+)$", httpx.get(f"{running.url()}/metrics", timeout=60).text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


def is_well(running: Server) -> bool:
    return httpx.get(f"{running.url()}/healthz", timeout=5).text == "ok"


# Sizes ---------------------------------------------------------------------------------------------------------------


def pour(client: socket.socket, chunk: bytes, times: int) -> None:
    """Send for as long as the server takes it."""
    with suppress(ConnectionError):
        for _ in range(times):
            client.sendall(chunk)


@pytest.mark.parametrize(
    ("start", "chunk", "times", "status"),
    [
        (START, b"a:b\r\n" * 10_000, 300, 431),  # 3,000,000 headers
        (START + b"a: ", b"b" * 100_000, 1000, 431),  # one of 100 MB
        (START, b"a" * 100_000, 1000, 431),  # the same, in its name
        (b"GET /", b"a" * 100_000, 1000, 414),
        # after the body of a request that is awaited
        (
            QUESTION.replace(b"content-length: 100", b"transfer-encoding: chunked") + b"0\r\na: ",
            b"b" * 9999,
            10_000,
            431,
        ),
        (QUESTION.replace(b"content-length: 100", b"transfer-encoding: chunked") + b"1;a=", b"b" * 9999, 10_000, 431),
        # between two requests
        (b"", b"\r\n" * 50_000, 1000, 414),
    ],
    ids=["many headers", "header value", "header name", "address", "trailer", "chunk extension", "line ends"],
)
def test_a_head_without_end_is_refused_at_once(
    strict: Server, start: bytes, chunk: bytes, times: int, status: int
) -> None:
    assert is_well(strict)
    before = resident(strict.process.pid)
    with connect(strict) as client:
        began = time.monotonic()
        client.sendall(start)
        pour(client, chunk, times)
        answer = rest(client)
        took = time.monotonic() - began
    assert took < 5  # 100 MB took minutes; most of this is the sending
    assert resident(strict.process.pid) - before < 5  # MB
    if answer or status == 414 or start == START:  # where a body was awaited, the close may overtake the answer
        assert problem(answer)[0] == status
    assert is_well(strict)


def test_headers_are_bounded_in_number_and_size_and_the_rest_of_the_bounds_is_usable(strict: Server) -> None:
    fine = {f"x-{number}": "y" * 300 for number in range(90)}
    assert httpx.get(f"{strict.url()}/healthz", headers=fine, timeout=60).status_code == 200
    with connect(strict) as client:
        client.sendall(START + b"a: b\r\n" * 120 + b"\r\n")
        assert problem(rest(client)) == (431, "The request has more than 100 headers.")
    with connect(strict) as client:  # whole in one piece
        client.sendall(START + (b"a: " + b"b" * 1000 + b"\r\n") * 40 + b"\r\n")
        assert problem(rest(client)) == (431, "The headers are larger than 32,768 bytes together.")
    with connect(strict) as client:
        client.sendall(b"GET /healthz?" + b"x" * 20_000 + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 414 ")


def test_what_is_not_http_gets_a_problem_document_too(strict: Server) -> None:
    with connect(strict) as client:
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")
        assert problem(rest(client)) == (400, "This is not a request in HTTP/1.1.")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/2.0\r\nhost: a\r\n\r\n",
    ],
    ids=["no host", "two hosts", "HTTP/0.9", "HTTP/2"],
)
def test_a_request_names_its_version_and_its_host_once(strict: Server, head: bytes) -> None:
    with connect(strict) as client:
        client.sendall(head)
        assert problem(rest(client))[0] == 400
    with connect(strict) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 200 ")


def test_a_refusal_does_not_break_into_an_answer(strict: Server) -> None:
    """The second request, sent before the first is answered, is none."""
    with connect(strict) as client:
        client.sendall(b"GET /api/v1/plan?gpus=640 HTTP/1.1\r\nhost: x\r\n\r\n" + b"\x00\r\n\r\n")
        assert rest(client) == b""


# Times ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason", "seconds", "status"),
    [
        (b"", "head_timeout", 1, None),
        (START, "head_timeout", 1, 408),
        (QUESTION, "body_timeout", 1.5, 408),
    ],
)
def test_a_request_that_does_not_arrive_in_time_ends_its_connection(
    strict: Server, sent: bytes, reason: str, seconds: float, status: int | None
) -> None:
    sample = f'railyard_connections_closed_total{{reason="{reason}"}}'
    before = metric(strict, sample)
    with connect(strict) as client:
        began = time.monotonic()
        client.sendall(sent)
        answer = rest(client)
        took = time.monotonic() - began
    assert seconds - 0.2 < took < seconds + 2
    assert metric(strict, sample) == before + 1
    assert problem(answer)[0] == status if status else answer == b""


def test_a_byte_now_and_then_does_not_extend_the_time(strict: Server) -> None:
    def trickle(start: bytes) -> float:
        """How long the server takes bytes [s]."""
        with connect(strict) as client:
            began = time.monotonic()
            client.sendall(start)
            with suppress(ConnectionError):
                while time.monotonic() < began + 30:
                    client.sendall(b" " if start != WHOLE * 2 else b"\r\n")
                    time.sleep(0.1)
            return time.monotonic() - began

    with ThreadPoolExecutor() as at_once:
        assert max(at_once.map(trickle, (START + b"a: ", QUESTION, WHOLE * 2))) < 15


def test_a_connection_may_rest_between_requests_but_not_for_ever(strict: Server) -> None:
    with connect(strict) as client:
        assert is_answered(client)
        time.sleep(1.3)  # longer than a head may take
        assert is_answered(client)
        began = time.monotonic()
        assert rest(client) == b""
    assert 1.5 < time.monotonic() - began < 4


def test_who_does_not_read_the_answer_is_left(strict: Server) -> None:
    sample = 'railyard_connections_closed_total{reason="send_timeout"}'
    before = metric(strict, sample)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", int(strict.url().rpartition(":")[2])))
        client.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\nhost: x\r\n\r\n" * 3)  # 4.8 MB each
        until = time.monotonic() + 30
        while metric(strict, sample) == before and time.monotonic() < until:
            time.sleep(0.2)
    assert metric(strict, sample) == before + 1


# How many ------------------------------------------------------------------------------------------------------------


def test_half_open_connections_do_not_keep_others_out(strict: Server) -> None:
    with ExitStack() as stack:
        held = []
        for _ in range(10 * MOST):
            held.append(stack.enter_context(connect(strict)))
            held[-1].sendall(START)
        for _ in range(20):
            assert is_well(strict)
        assert metric(strict, "railyard_connections") <= MOST
        for first in held[:MOST]:  # the oldest went first
            assert rest(first) == b""
    assert metric(strict, 'railyard_connections_closed_total{reason="crowded"}') >= 9 * MOST


def test_many_who_connect_while_the_service_is_busy_are_all_answered(tmp_path: Path) -> None:
    # the kernel completes them, far more than are accepted in one turn of the loop
    many = connections.BACKLOG // 2
    with Server(tmp_path / "log") as running, ExitStack() as stack:
        running.url()
        running.process.send_signal(signal.SIGSTOP)
        try:
            held = [stack.enter_context(connect(running, 0.5)) for _ in range(many)]
        finally:
            running.process.send_signal(signal.SIGCONT)
        for client in held:
            client.settimeout(20)
        assert all(map(is_answered, held))


def test_idle_connections_make_room_the_longest_idle_first(strict: Server) -> None:
    time.sleep(0.2)
    with ExitStack() as stack:
        held = []
        for _ in range(MOST):
            held.append(stack.enter_context(connect(strict)))
            assert is_answered(held[-1])
            time.sleep(0.02)
        assert is_well(strict)
        assert rest(held[0]) == b""
        assert is_answered(held[-1])


def test_a_connection_at_work_is_not_closed_for_another(tmp_path: Path) -> None:
    with Server(tmp_path / "log", RAILYARD_MAX_CONNECTIONS="1") as running:
        grid = b'{"grid": {"gpus": [%s]}}' % b",".join(b"%d" % gpus for gpus in range(8, 8008, 8))
        head = b"POST /api/v1/sweep HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
        with connect(running, 60) as busy:
            busy.sendall(head + b"content-length: %d\r\n\r\n" % len(grid) + grid)
            assert busy.recv(1) == b"H"
            with connect(running) as other:
                assert problem(rest(other))[0] == 503
            assert rest(busy).endswith(b"0\r\n\r\n")
        assert is_well(running)


def test_the_limit_on_open_files_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (256, 1024)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.update(now=new))
    assert connections.room_for(100) == 100
    assert limits["now"] == (200 + connections.OTHER_FILES, 1024)  # raised as far as needed
    assert connections.room_for(2000) == (1024 - connections.OTHER_FILES) // 2
    assert limits["now"] == (1024, 1024)
    limits["now"] = (256, resource.RLIM_INFINITY)
    assert connections.room_for(2000) == 2000


# Clients that go -----------------------------------------------------------------------------------------------------


def test_a_client_that_hangs_up_is_no_failure_of_ours(strict: Server) -> None:
    errors = metric(strict, "railyard_errors_total")
    sample = 'railyard_requests_total{{method="POST",route="{}",status="499"}}'
    for path in ("/api/v1/plan", "/api/v1/compare", "/api/v1/sweep"):
        with connect(strict) as client:
            client.sendall(QUESTION.replace(b"/api/v1/plan", path.encode()) + b'{"gpus"')
            time.sleep(0.1)
        until = time.monotonic() + 30
        while metric(strict, sample.format(path)) == 0 and time.monotonic() < until:
            time.sleep(0.05)
        assert metric(strict, sample.format(path)) >= 1
    assert metric(strict, "railyard_errors_total") == errors
    text = strict.log.read_text()
    assert "Traceback" not in text
    events = [json.loads(line) for line in text.splitlines()]
    left = [one for one in events if one.get("status") == 499]
    assert {one["level"] for one in left} == {"info"}


class Wire:
    """A transport that keeps what it is told, and a loop that keeps what is to be called before its turn ends."""

    def __init__(self):
        self.told, self.later = [], []

    def write(self, data):
        self.told.append(data)

    def close(self):
        self.told.append("close")

    def write_eof(self):
        self.told.append("eof")

    def call_soon(self, call):
        self.later.append(call)

    def end_turn(self):
        for call in self.later:
            call()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("tell", "sent"),
    [
        (lambda joined: (joined.write(HEAD), joined.write(b"{}")), [HEAD + b"{}"]),
        (lambda joined: (joined.write(HEAD), joined.close()), [HEAD, "close"]),
        (lambda joined: (joined.write(HEAD), joined.write_eof()), [HEAD, "eof"]),
        (lambda joined: (joined.write(HEAD), joined.write(HEAD)), [HEAD + HEAD]),
        (lambda joined: joined.write(b"{}"), [b"{}"]),
    ],
)
def test_a_head_is_sent_with_what_follows_it(tell, sent):
    """In one go: a packet, and a call of the system, fewer for every answer."""
    wire = Wire()
    tell(connections.HeadWithBody(wire, wire))
    wire.end_turn()
    assert wire.told == sent


def test_a_head_that_nothing_follows_is_sent_in_the_same_turn():
    """As of HEAD, and of a file whose first part takes long."""
    wire = Wire()
    connections.HeadWithBody(wire, wire).write(HEAD)
    assert not wire.told
    wire.end_turn()
    assert wire.told == [HEAD]
