"""The service as its operators see it: probes, limits, logs, headers, start and stop."""

import asyncio
import csv
import gzip
import html
import itertools
import json
import os
import re
import shlex
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import nanoarrow
import pytest
from starlette.testclient import TestClient

from app import __version__
from app.catalog.load import load_catalog
from app.plan.scenario import Scenario
from app.web import answers, assets, heavy_queue, settings
from app.web.application import create_app
from app.web.problems import ProblemError
from app.web.row_formats import ARROW
from app.web.server import serve
from tests.conftest import PATIENCE, Server, run_apart


def made(**options: Any) -> TestClient:
    """A client of an application of its own."""
    chosen = settings.Settings(access_log=False, **{"time_limit": PATIENCE, **options})
    return TestClient(create_app(chosen), raise_server_exceptions=False)


# Probes and metrics --------------------------------------------------------------------------------------------------


def test_probes_answer(client: TestClient) -> None:
    assert client.get("/healthz").text == "ok"
    assert client.get("/readyz").text == "ready"


def test_not_ready_before_the_start_and_after_the_end() -> None:
    probe = made()  # not entered: the application has not started
    assert probe.get("/readyz").status_code == 503
    assert probe.get("/healthz").status_code == 200


def test_metrics_count_requests_evaluations_and_errors(client: TestClient) -> None:
    client.get("/api/v1/all-reduce?gpus=64&message=1MiB")
    client.get("/api/v1/plan?gpus=x")
    text = client.get("/metrics").text
    assert re.search(r'railyard_requests_total\{method="GET",route="/api/v1/all-reduce",status="200"\} [1-9]', text)
    assert re.search(r'railyard_requests_total\{method="GET",route="/api/v1/plan",status="422"\} [1-9]', text)
    assert re.search(r'railyard_request_seconds_bucket\{le="\+Inf",route="/api/v1/all-reduce"\} [1-9]', text)
    assert re.search(r'railyard_evaluations_total\{endpoint="all-reduce"\} [1-9]', text)
    assert re.search(rf'railyard_info\{{catalog_version="[^"]+",overrides="",version="{__version__}"\}} 1', text)
    assert 'railyard_questions{kind="light"} 0' in text
    assert "railyard_errors_total" in text
    assert "process_resident_memory_bytes" in text


def test_unknown_addresses_do_not_fill_the_metrics(client: TestClient) -> None:
    for number in range(20):
        client.get(f"/no/such/{number}")
        client.request(f"METHOD{number}", "/healthz")
    text = client.get("/metrics").text
    assert "/no/such" not in text
    assert "METHOD" not in text


# Headers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/docs/try", "/api/v1/plan?gpus=x", "/nowhere", "/healthz", "/static/docs.js"]
)
def test_every_answer_has_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    [script] = re.findall(r"<script data-theme>(.+?)</script>", client.get("/start").text)
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{allowed}'"
    assert "unsafe-inline" not in policy["style-src"]
    assert "unsafe-eval" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    assert re.fullmatch(r"[0-9a-f]{16}", headers["x-request-id"])
    assert "server" not in headers


def test_a_request_id_is_kept_if_it_is_harmless(client: TestClient) -> None:
    assert client.get("/healthz", headers={"x-request-id": "abc-123"}).headers["x-request-id"] == "abc-123"
    assert client.get("/healthz", headers={"x-request-id": "a b\t<"}).headers["x-request-id"] != "a b\t<"
    assert client.get("/nowhere", headers={"x-request-id": "abc-123"}).json()["request_id"] == "abc-123"


def test_other_origins_are_refused_unless_configured(client: TestClient) -> None:
    origin = {"origin": "https://a.example"}
    assert "access-control-allow-origin" not in client.get("/api/v1/catalog/gpus", headers=origin).headers
    with made(cors_origins="https://a.example") as other:
        assert (
            other.get("/api/v1/catalog/gpus", headers=origin).headers["access-control-allow-origin"] == origin["origin"]
        )
        for address in ("/api/v1/catalog/gpus", f"/api/v1/plan?{'x' * 17_000}"):
            stranger = other.get(address, headers={"origin": "https://b.example"})
            assert "access-control-allow-origin" not in stranger.headers
        refused = other.get(f"/api/v1/plan?{'x' * 17_000}", headers=origin)
        assert refused.status_code == 414
        assert refused.headers["access-control-allow-origin"] == origin["origin"]


def test_pages_of_other_sites_may_read_every_header_that_an_answer_has() -> None:
    origin, grid = {"origin": "https://a.example"}, {"grid": {"price_gpu_hour": [2.95]}, "results": ["costs.rental"]}
    with made(cors_origins="https://a.example") as other:
        answers = [
            other.post("/api/v1/sweep", json=grid, headers=origin),
            other.get("/api/v1/catalog/gpus?limit=1", headers=origin),
            other.get("/export/purchases.csv?gpus=8", headers=origin),
        ]
    exposed = {name.strip() for name in answers[0].headers["access-control-expose-headers"].split(",")}
    assert "unusual-value" in answers[0].headers["x-sweep-findings"]
    ours = {name for answer in answers for name in answer.headers if name.startswith("x-") or name in ("link", "etag")}
    assert ours - {"x-content-type-options", "x-frame-options"} <= exposed
    assert {"x-sweep-cursor", "x-sweep-findings", "link", "etag", "retry-after", "content-disposition"} <= exposed


def test_a_body_that_is_packed_is_refused_with_what_to_send(client: TestClient) -> None:
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = client.post("/api/v1/plan", content=gzip.compress(b"{}"), headers=packed)
    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "identity"
    assert client.post("/api/v1/plan", content=b"{}", headers=packed | {"content-encoding": "Identity"}).is_success


def test_a_cable_list_is_compressed_as_it_is_written(client: TestClient) -> None:
    address = "/export/cables.csv?gpus=4096"
    plain = client.get(address, headers={"accept-encoding": "identity"})
    with client.stream("GET", address, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["etag"] == plain.headers["etag"].removesuffix('"') + '-gzip"'
    assert gzip.decompress(packed) == plain.content
    assert len(packed) < len(plain.content) / 5


def test_only_sites_that_are_named_may_show_charts_and_nothing_else() -> None:
    with made(embed_origins="https://wiki.example") as embedding:
        chart = embedding.get("/chart/memory.svg?gpus=64").headers
        page = embedding.get("/start").headers
    assert "frame-ancestors 'self' https://wiki.example" in chart["content-security-policy"]
    assert chart["cross-origin-resource-policy"] == "cross-origin"
    assert "x-frame-options" not in chart
    assert "frame-ancestors 'none'" in page["content-security-policy"]
    assert page["cross-origin-resource-policy"] == "same-origin"
    assert page["x-frame-options"] == "DENY"


# Files ---------------------------------------------------------------------------------------------------------------


def test_files_are_kept_for_good_under_their_hash(client: TestClient) -> None:
    for name in ("plotly.min.js", "swagger-ui-bundle.js", "docs.js"):
        answer = client.get(assets.url(name))
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"].startswith(("text/javascript", "application/javascript"))
        assert "charset=utf-8" in answer.headers["content-type"]
        assert answer.headers["content-encoding"] == "gzip"
        again = client.get(assets.url(name), headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
    assert "immutable" not in client.get("/static/docs.js?v=old").headers["cache-control"]


def test_plotly_comes_from_the_installed_package(client: TestClient) -> None:
    import plotly.offline

    assert client.get(assets.url("plotly.min.js")).text == plotly.offline.get_plotlyjs()


@pytest.mark.parametrize(
    "name", ["../app/web/server.py", "%2e%2e/app/web/server.py", "..%2fREADME.md", "/etc/passwd", "", ".hidden"]
)
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code in (404, 405)


# Limits --------------------------------------------------------------------------------------------------------------


def test_a_body_is_bounded_even_without_a_length(server: str) -> None:
    def endless() -> Any:
        for _ in range(64):
            yield b" " * 65_536

    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{server}/api/v1/plan", content=endless(), headers=headers, timeout=60)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_sweep_is_cut_off_in_time_and_says_so() -> None:
    with made(time_limit=3) as quick:
        grid = {"grid": {"gpus": list(range(8, 4008, 8)), "oversubscription": [1 + it / 100 for it in range(100)]}}
        answer = quick.post("/api/v1/sweep", json=grid)
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert re.match(r"Cut off after 3 s: [\d,]+ of 50,000 points", rows[-1]["error"])
    assert rows[-1]["gpus"] is None
    assert all(row["gpus"] for row in rows[:-1])


def test_a_sweep_is_cut_off_at_the_most_points_and_says_so() -> None:
    """It is no error: a grid that the document allows is answered, as far as one request goes."""
    with made(max_sweep_points=10) as small:
        answer = small.post("/api/v1/sweep", json={"grid": {"gpus": list(range(8, 96, 8))}})
        whole = small.post("/api/v1/sweep", json={"grid": {"gpus": list(range(8, 88, 8))}})
    assert answer.status_code == 200
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["gpus"] for one in rows] == [*range(8, 88, 8), None]
    assert rows[-1]["error"].startswith("Cut off at the most points of one request: 10 of 11 points are above.")
    assert len(whole.text.splitlines()) == 10


@pytest.mark.parametrize("kind", ["text/csv", ARROW])
def test_the_last_row_of_a_table_says_where_a_sweep_was_cut_off(kind: str) -> None:
    with made(max_sweep_points=2) as small:
        asked = {"grid": {"gpus": [8, 16, 24]}, "results": ["costs.capital"]}
        answer = small.post("/api/v1/sweep", json=asked, headers={"accept": kind})
    if kind == ARROW:
        last = [*nanoarrow.ArrayStream.from_readable(answer.content).read_all().to_pylist()][-1]
        assert (last["gpus"], last["costs.capital"]) == (None, None)
    else:
        last = [*csv.DictReader(answer.text.splitlines())][-1]
        assert (last["gpus"], last["costs.capital"]) == ("", "")
    assert "Ask for the rest with “cursor”: “2-" in last["error"]


GOES_ON = {"grid": {"gpus": [64, 128, 256], "price_node": [2e5, 3e5], "planes": [1, 2]}}


@pytest.mark.parametrize("results", [["costs.capital", "fabric.power"], ["costs.capital", "bottleneck.resource"]])
def test_a_sweep_goes_on_where_it_was_cut_off(results: list[str]) -> None:
    asked = GOES_ON | {"results": results}
    with made() as large:
        whole = [json.loads(line) for line in large.post("/api/v1/sweep", json=asked).text.splitlines()]
    rows: list[dict[str, Any]] = []
    with made(max_sweep_points=5) as small:
        answer = small.post("/api/v1/sweep", json=asked)
        while len(rows) < len(whole):
            some = [json.loads(line) for line in answer.text.splitlines()]
            rows += [row for row in some if "cursor" not in row]
            if "cursor" in some[-1]:
                assert f"“{some[-1]['cursor']}”" in some[-1]["error"]
                answer = small.post("/api/v1/sweep", json=asked | {"cursor": some[-1]["cursor"]})
    assert rows == whole
    assert len(rows) == 12
    assert "cursor" not in some[-1]


def test_a_sweep_goes_on_where_its_connection_broke(client: TestClient) -> None:
    answer = client.post("/api/v1/sweep", json=GOES_ON, headers={"accept": "text/csv"})
    number, dash, digest = answer.headers["x-sweep-cursor"].partition("-")
    assert number == "0"
    rest = GOES_ON | {"cursor": f"7{dash}{digest}"}
    again = client.post("/api/v1/sweep", json=rest, headers={"accept": "text/csv"})
    assert again.text.splitlines() == answer.text.splitlines()[8:]
    assert again.headers["content-type"] == "text/csv; charset=utf-8; header=absent"
    assert again.headers["x-sweep-cursor"] == rest["cursor"]


@pytest.mark.parametrize(("said", "cursor", "heading"), [("present", "3", True), ("absent", "0", False)])
def test_a_sweep_as_csv_has_a_heading_as_its_client_says(
    client: TestClient, said: str, cursor: str, heading: bool
) -> None:
    answer = client.post("/api/v1/sweep", json=GOES_ON, headers={"accept": "text/csv"})
    asked = GOES_ON | {"cursor": cursor + answer.headers["x-sweep-cursor"][1:]}
    again = client.post("/api/v1/sweep", json=asked, headers={"accept": f"text/csv; header={said}"})
    first, *rows = answer.text.splitlines()
    assert again.text.splitlines() == [*([first] if heading else []), *rows[int(cursor) :]]
    assert again.headers["content-type"].endswith("header=absent") is not heading


def test_a_sweep_takes_every_field_of_a_scenario_as_its_base(client: TestClient) -> None:
    base = {name: value for name, value in Scenario().model_dump(mode="json").items() if name != "gpus"}
    answer = client.post("/api/v1/sweep", json={"base": base, "grid": {"gpus": [64]}})
    assert answer.status_code == 200, answer.text
    assert len(answer.text.splitlines()) == 1


def test_no_cursor_is_the_first_row(client: TestClient) -> None:
    whole, begun = (client.post("/api/v1/sweep", json=GOES_ON | more) for more in ({}, {"cursor": None}))
    assert begun.status_code == 200
    assert begun.text == whole.text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cursor": "rest"}, "is no cursor"),
        ({"cursor": 7}, "is no cursor"),
        ({"grid": {"gpus": [64, 128, 257], "price_node": [2e5, 3e5], "planes": [1, 2]}}, "another question"),
        ({"base": {"model": "llama-3-8b"}}, "another question"),
        ({"results": ["costs.capital"]}, "another question"),
    ],
)
def test_a_cursor_is_of_one_sweep(client: TestClient, changed: dict[str, Any], words: str) -> None:
    cursor = client.post("/api/v1/sweep", json=GOES_ON).headers["x-sweep-cursor"]
    answer = client.post("/api/v1/sweep", json=GOES_ON | {"cursor": "4" + cursor[1:]} | changed)
    assert answer.status_code == 422
    (wrong,) = answer.json()["errors"]
    assert wrong["pointer"] == "#/cursor"
    assert words in wrong["detail"]
    beyond = client.post("/api/v1/sweep", json=GOES_ON | {"cursor": "12" + cursor[1:]})
    assert "There is no row 12: there are 12" in beyond.text


class Visit:
    """One request, given to an application without a server between: its client reads and leaves as it is told."""

    def __init__(self, app: Any, target: str, body: bytes | None = None) -> None:
        path, _, query = target.partition("?")
        self.scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
            "method": "GET" if body is None else "POST", "scheme": "http", "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "root_path": "", "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        self.body = body or b""
        self.app = app
        self.asked = False
        self.gone, self.reads, self.begun = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.status = 0
        self.answer = b""

    async def receive(self) -> dict[str, Any]:
        if not self.asked:
            self.asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        if message["type"] == "http.response.body":
            self.answer += message["body"]
            self.begun.set()
            await self.reads.wait()

    async def ask(self) -> "Visit":
        await self.app(self.scope, self.receive, self.send)
        return self


GRID = json.dumps({"grid": {"gpus": list(range(8, 80_000, 8))}}).encode()
LARGE = "gpu=h800-sxm&gpus=1000000&scale_out=spectrum-x-800&topology=fat-tree"
GIVEN = "tensor_parallel=8&pipeline_parallel=1&micro_batch=1&global_batch=1000000"


@pytest.mark.parametrize(
    ("work", "target", "body"),
    [
        ("app.web.answers.evaluate", f"/api/v1/plan?{LARGE}&{GIVEN}", None),
        ("app.web.answers.evaluate", "/api/v1/plan", None),
        ("app.web.answers.fabric_answer", f"/api/v1/fabric?{LARGE}", None),
        ("app.web.answers.reduce_answer", "/api/v1/all-reduce?gpus=8&gpus=16&gpus=24&gpus=32", None),
        ("app.web.answers.size_answer", "/api/v1/size", None),
        ("app.web.answers.compare_answer", "/api/v1/compare", b'{"scenarios": [{}, {"gpus": 64}]}'),
        ("app.web.api._check_values", "/api/v1/sweep", GRID),
        ("app.web.api.unusual", "/api/v1/sweep", GRID),
        ("app.web.api._batch", "/api/v1/sweep", GRID),
        ("app.web.pages.planner.evaluate", "/", None),
        ("app.web.pages.planner._curves", "/curves", None),
        ("app.web.pages.compare._compare", "/compare", None),
        ("app.web.pages.size.size_answer", "/size", None),
        ("app.web.pages.explore._explorer", "/all-reduce", None),
        ("app.web.pages.explore.evaluate_network", "/fabric", None),
        ("app.web.pages.reference.network_of", "/export/cables.csv", None),
        ("app.web.pages.reference.evaluate", "/export/plan.csv", None),
        ("app.web.pages.reference._sheet", "/acceptance", None),
        ("app.web.pages.reference._sheet", "/acceptance.json", None),
        ("app.web.pages.reference._accuracy", "/accuracy", None),
        ("app.web.pages.reference._listing", "/catalog", None),
    ],
)
def test_others_are_answered_while_a_question_is_computed(
    monkeypatch: pytest.MonkeyPatch, work: str, target: str, body: bytes | None
) -> None:
    begun, answered = threading.Event(), threading.Event()
    threads: list[str] = []

    def slow(*_: Any, **__: Any) -> Any:
        threads.append(threading.current_thread().name)
        begun.set()
        assert answered.wait(30)
        raise ProblemError(422, "Computed.")

    slow.cache_info = lambda: SimpleNamespace(currsize=0)
    app = made().app
    monkeypatch.setattr(work, slow)

    async def both() -> Visit:
        computing = asyncio.create_task(Visit(app, target, body).ask())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        assert (await Visit(app, "/healthz").ask()).status == 200
        answered.set()
        return await computing

    assert run_apart(both()).status == 422
    assert threads[0].startswith(("heavy", "light", "pages"))


def test_a_size_stops_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def slowly(setups: Sequence[Any], most: int) -> list[None]:
        tried.extend([most] if setups else [])
        time.sleep(0.05)
        return [None] * len(setups)

    monkeypatch.setattr("app.studies.sizing.ways_to_run", slowly)
    app = made().app

    async def leave() -> int:
        visit = Visit(app, "/api/v1/size?gpus=131072")
        asking = asyncio.create_task(visit.ask())
        while not tried:
            await asyncio.sleep(0.01)
        visit.gone.set()
        await asyncio.wait([asking], timeout=5)
        assert asking.done()
        known = len(tried)
        await asyncio.sleep(0.4)
        return len(tried) - known

    assert run_apart(leave()) <= 1  # the one it was at


def test_what_waits_its_turn_is_never_begun_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    monkeypatch.setattr("app.web.answers.size_answer", lambda *_: begun.set())
    app, done = made().app, threading.Event()

    async def leave() -> None:
        occupied = asyncio.create_task(app.state.heavy_queue.run(lambda: done.wait(5), heavy=True))
        visit = Visit(app, "/api/v1/size")
        asking = asyncio.create_task(visit.ask())
        await asyncio.sleep(0.2)
        assert app.state.heavy_queue.inside["heavy"] == 2
        visit.gone.set()
        await asyncio.wait([asking], timeout=5)
        assert asking.done()
        assert app.state.heavy_queue.inside["heavy"] == 1
        done.set()
        await occupied
        await app.state.heavy_queue.run(lambda: None, heavy=True)  # whatever waited before has had its turn

    run_apart(leave())
    assert not begun.is_set()


@pytest.mark.parametrize("target", ["/api/v1/size", "/api/v1/sweep", "/size", "/export/plan.csv", f"/fabric?{LARGE}"])
def test_waiting_for_a_turn_ends_with_the_time_of_a_request(target: str) -> None:
    app, done = made(time_limit=0.3).app, threading.Event()

    async def wait() -> Visit:
        occupied = asyncio.create_task(app.state.heavy_queue.run(lambda: done.wait(10), heavy=True))
        await asyncio.sleep(0)
        try:
            body = b'{"grid": {"gpus": [8]}}' if "sweep" in target else None
            return await asyncio.wait_for(Visit(app, target, body).ask(), 10)
        finally:
            done.set()
            await occupied

    found = run_apart(wait())
    assert found.status == 503
    assert b"Not finished within 0.3 s" in found.answer


def test_who_does_not_read_a_stream_keeps_nobody_waiting() -> None:
    app = made().app

    async def crowd() -> list[int]:
        streams = [Visit(app, "/api/v1/sweep", GRID) for _ in range(3)]
        streams += [Visit(app, "/export/cables.csv?gpus=65536") for _ in range(3)]
        for one in streams:
            one.reads.clear()
        asking = [asyncio.create_task(one.ask()) for one in streams]
        await asyncio.gather(*(one.begun.wait() for one in streams))
        others = ("/api/v1/plan?gpus=64", "/export/capital.csv?gpus=64", "/export/cables.csv?gpus=64")
        found = [(await asyncio.wait_for(Visit(app, other).ask(), 10)).status for other in others]
        assert app.state.heavy_queue.inside["heavy"] == 0
        for one in streams:
            one.gone.set()
        await asyncio.wait(asking, timeout=5)
        assert all(one.done() for one in asking)
        return found

    assert run_apart(crowd()) == [200, 200, 200]


def test_a_stream_stops_when_its_client_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    made_parts: list[int] = []

    def endless(_: Any) -> Iterator[str]:
        for number in itertools.count():
            made_parts.append(number)
            yield "a line\r\n"

    monkeypatch.setattr("app.report.files.cable_csv", endless)
    app = made().app

    async def leave() -> int:
        visit = Visit(app, "/export/cables.csv")
        asking = asyncio.create_task(visit.ask())
        await visit.begun.wait()
        visit.gone.set()
        await asyncio.wait([asking], timeout=5)
        assert asking.done()
        known = len(made_parts)
        await asyncio.sleep(0.1)
        return len(made_parts) - known

    assert run_apart(leave()) <= 1


def test_a_cable_list_without_measure_is_refused_with_what_to_change(client: TestClient) -> None:
    for asked in ("gpus=1000000&nics_per_node=576&gpus_per_node=1&scale_out=roce-400", f"{LARGE}&nics_per_node=72"):
        began = time.monotonic()
        answer = client.get(f"/export/cables.csv?{asked}")
        assert answer.status_code == 422, asked
        assert "Ask for fewer GPUs" in answer.json()["detail"]
        assert time.monotonic() - began < 10
    with made(max_cables=2047) as small:
        assert small.get("/export/cables.csv").status_code == 422
    with made(max_cables=2048) as enough:
        assert len(enough.get("/export/cables.csv").text.splitlines()) == 1 + 2048


def test_a_body_of_countless_fields_is_refused_before_they_are_looked_at(client: TestClient) -> None:
    fields = {f"field{number}": 1 for number in range(60_000)}
    for path, body in (("plan", fields), ("compare", {"scenarios": [fields, {}]})):
        errors = client.post(f"/api/v1/{path}", json=body).json()["errors"]
        assert [one["detail"] for one in errors] == ["More than 500 fields. /docs lists all there are."]


def test_too_many_large_questions_are_turned_away() -> None:
    async def crowd() -> list[object]:
        queue = heavy_queue.HeavyQueue(settings.Settings(heavy_workers=1, heavy_queue=1))
        four = [queue.run(lambda: time.sleep(0.01) or "done", heavy=True) for _ in range(4)]
        return await asyncio.gather(*four, return_exceptions=True)

    began = time.monotonic()
    found = run_apart(crowd())
    assert time.monotonic() - began >= heavy_queue.BEFORE_REFUSAL  # who asks again at once waits, and costs nothing
    assert found[:2] == ["done", "done"]
    for refused in found[2:]:
        assert isinstance(refused, ProblemError)
        assert refused.problem.status == 503
        assert refused.headers["retry-after"]


def test_work_ahead_waits_while_questions_compute_and_ends_when_all_is_done() -> None:
    done: list[int] = []

    async def beside() -> list[int]:
        queue = heavy_queue.HeavyQueue(settings.Settings())
        question = asyncio.ensure_future(queue.run(lambda: time.sleep(0.3) or [*done], heavy=False))
        ahead = asyncio.ensure_future(queue.idle(done.append(step) for step in range(3)))
        meanwhile = await question
        await ahead
        return meanwhile

    assert run_apart(beside()) == []
    assert done == [0, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux alone")
def test_heavy_questions_have_the_processor_last() -> None:
    queue = heavy_queue.HeavyQueue(settings.Settings())
    own = {kind: threads.submit(os.getpriority, os.PRIO_PROCESS, 0) for kind, threads in queue.threads.items()}
    nice = {kind: future.result() for kind, future in own.items()}
    assert nice["light"] == nice["pages"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert nice["heavy"] == min(nice["light"] + heavy_queue.LATER, heavy_queue.LAST)


def test_light_questions_stay_quick_while_a_sweep_runs(server: str) -> None:
    grid = {"grid": {"gpus": list(range(8, 8192, 8)), "model": ["llama-3-8b"]}}
    sweep = threading.Thread(target=lambda: httpx.post(f"{server}/api/v1/sweep", json=grid, timeout=60))
    sweep.start()
    time.sleep(0.2)
    took = []
    with httpx.Client(base_url=server, timeout=60) as light:
        while sweep.is_alive() and len(took) < 40:
            began = time.monotonic()
            assert light.get("/api/v1/all-reduce?gpus=64&message=1MiB").status_code == 200
            took.append(time.monotonic() - began)
    sweep.join()
    assert took
    assert sorted(took)[len(took) // 2] < 1  # the sweep takes many, other tests their share


def test_a_bug_is_a_problem_document_and_a_log_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the formula is broken")

    monkeypatch.setattr(answers, "fabric_answer", broken)
    with made() as fragile:
        answer = fragile.get("/api/v1/fabric", headers={"x-request-id": "find-me"})
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["request_id"] == "find-me"
        assert "broken" not in answer.text
        assert re.search(r"railyard_errors_total 1", fragile.get("/metrics").text)
    assert "the formula is broken" in caplog.text


# Start and stop ------------------------------------------------------------------------------------------------------


def test_the_process_starts_and_logs_json(tmp_path: Path) -> None:
    with Server(tmp_path / "log", RAILYARD_LOG_FORMAT="json") as running:
        url = running.url()
        httpx.get(f"{url}/api/v1/plan?gpus=x", headers={"x-request-id": "in-the-log"}, timeout=60)
        assert running.stop() in (0, -15)
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    request = next(one for one in events if one.get("id") == "in-the-log")
    assert (request["path"], request["query"], request["status"]) == ("/api/v1/plan", "gpus=x", 422)
    assert {"time", "level", "message", "ms"} <= request.keys()


def test_stopping_finishes_what_is_in_flight(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as running:
        url = running.url()
        found: list[httpx.Response] = []
        grid = {"grid": {"gpus": list(range(8, 4008, 8)), "model": ["llama-3-8b"], "tensor_parallel": [8]}}
        asking = threading.Thread(target=lambda: found.append(httpx.post(f"{url}/api/v1/sweep", json=grid, timeout=60)))
        asking.start()
        until = time.monotonic() + 20
        while 'railyard_questions{kind="heavy"} 1.0' not in httpx.get(f"{url}/metrics", timeout=60).text:
            assert time.monotonic() < until
        assert running.stop() in (0, -15)
    asking.join()
    assert found[0].status_code == 200
    assert len(found[0].text.splitlines()) == 500


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("gpus.toml", "[h100-sxm]\npower = 'lots'\n", r"gpus\.toml:\d+: h100-sxm"),
        ("gpus.toml", "[h100-sxm]\ncolour = 'green'\n", r"gpus\.toml:2: h100-sxm: colour: .*unknown field"),
        ("gpus.toml", "[h100-sxm\n", r"gpus\.toml: .*line 1"),
        ("gpu.toml", "", r"gpu\.toml: no such catalogue file"),
    ],
)
def test_a_broken_override_stops_the_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    reason: str,
) -> None:
    (tmp_path / name).write_text(text)
    monkeypatch.setenv("RAILYARD_OVERRIDES", str(tmp_path))
    assert serve(port=0) == 2
    assert re.search(reason, capsys.readouterr().err)


def test_an_override_changes_answers_and_the_version(tmp_path: Path, client: TestClient) -> None:
    (tmp_path / "gpus.toml").write_text('[h100-sxm]\npower = "500 W"\n')
    try:
        with made(overrides=tmp_path) as own:
            entry = own.get("/api/v1/catalog/gpus/h100-sxm").json()
    finally:
        create_app(settings.Settings())  # the catalogue in force is the process's own
    plain = client.get("/api/v1/catalog/gpus/h100-sxm").json()
    assert entry["entry"]["power"]["typical"] == 500.0
    assert plain["entry"]["power"]["typical"] == 700.0
    assert entry["catalog_version"] != plain["catalog_version"]


def test_a_sub_path_behind_a_proxy(tmp_path: Path) -> None:
    with made(root_path="/railyard") as below:
        assert 'data-openapi="/railyard/openapi.json"' in below.get("/railyard/docs/try").text
        assert "/railyard/api/v1/plan" in below.get("/railyard/docs").text
        for path in ("/railyard/docs", "/railyard/docs/try"):
            page = below.get(path)
            assert page.status_code == 200
            addresses = [html.unescape(address) for address in re.findall(r'(?:src|href)="(/[^"]*)"', page.text)]
            assert all(address.startswith("/railyard/") for address in addresses)
            one_of_each = {address.partition("?")[0]: address for address in addresses}
            # The other pages are found as the planner is, and take seconds.
            asked = [
                address for path, address in one_of_each.items() if re.match(r"/railyard/($|static|docs|open)", path)
            ]
            assert len(asked) >= 5
            assert all(below.get(address).status_code == 200 for address in asked)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/plan", "/api/v1/all-reduce?gpus=64&message=1MiB", "/api/v1/fabric", "/api/v1/catalog",
        "/api/v1/catalog/gpus", "/api/v1/catalog/gpus/h100-sxm", "/acceptance.json", "/export/plan.json",
        "/api/v1/size?gpus=64&gpu=h100-sxm&model=llama-3-8b", "/export/plan.csv", "/api/v1/compare",
    ],
)  # fmt: skip
def test_below_a_sub_path_every_link_of_an_answer_stays_below_it(path: str) -> None:
    """A file, which travels, names the host as well."""
    with made(root_path="/railyard") as below:
        if path.endswith("compare"):
            answer = below.post("/railyard" + path, json={"scenarios": [{}, {"gpus": 512}]})
        else:
            answer = below.get("/railyard" + path)
        links = re.findall(r'"(?:permalink|cable_list)": ?"([^"]*)"|(?m:^Link,)([^\r\n]*)', answer.text)
        assert links
        for link in links:
            address = "".join(link).removeprefix("http://testserver")
            assert address.startswith("/railyard/")
            assert below.get(address).status_code == 200


@pytest.mark.parametrize(
    ("root", "path", "there"),
    [
        ("", "/cost/?gpus=8", "/cost?gpus=8"),
        ("", "/catalog/gpus/", "/catalog/gpus"),
        ("/railyard", "/cost/?gpus=8", "/railyard/cost?gpus=8"),  # a proxy took the sub-path off
        ("/railyard", "/railyard/api/v1/plan/", "/railyard/api/v1/plan"),
        ("/railyard", "/railyard", "/railyard/"),
    ],
)
def test_a_slash_too_many_leads_on_without_naming_a_host(root: str, path: str, there: str) -> None:
    """A proxy may know the service by another name, and by https where it is asked by http."""
    with made(root_path=root) as client:
        answer = client.get(path, headers={"host": "10.0.0.1:8000"}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (307, there)
        assert client.get(there).status_code == 200


@pytest.mark.parametrize(
    "path", ["/nothing/", "/how/nothing/", "/how/nothing", "/catalog/nothing/", "/static/none.js/"]
)
def test_a_slash_leads_nowhere_in_vain(client: TestClient, path: str) -> None:
    answer = client.get(path, follow_redirects=True)
    assert answer.status_code == 404
    assert len(answer.history) <= 1


def test_memory_does_not_grow_with_requests(server: str) -> None:
    def resident() -> float:
        text = httpx.get(f"{server}/metrics", timeout=60).text
        found = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
        assert found
        return float(found[1]) / 1e6

    with httpx.Client(base_url=server, timeout=60) as asking:

        def ask(first: int, last: int) -> None:
            for number in range(first, last):
                assert asking.get(f"/api/v1/all-reduce?gpus=64&message={number}").status_code == 200
                asking.get(f"/nowhere/{number}?gpus={number}")

        ask(1, 150)
        before = resident()
        ask(150, 450)
        assert resident() - before < 20


# The API's own page ---------------------------------------------------------------------------------------------------


def test_the_reference_has_every_operation_and_field(client: TestClient) -> None:
    text = client.get("/docs").text
    document = client.get("/openapi.json").json()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert text.count(f'id="{operation["operationId"]}"') == 1
    for name in document["components"]["schemas"]["Scenario"]["properties"]:
        assert text.count(f'id="field-{name}"') == 1
    assert text.count('aria-current="page"') == 1
    assert text.count('<details class="section"') == sum(map(len, document["paths"].values())) + 3
    targets = re.findall(r'href="#([^"]+)"', text)
    assert targets
    assert all(f'id="{target}"' in text for target in targets)
    assert client.get("/docs", headers={"host": "plan.example:81"}).text.count("http://plan.example:81/api/v1/") > 10


def test_every_request_of_the_reference_is_answered(client: TestClient) -> None:
    shown = re.findall(r"<pre [^>]*>(curl .*?)</pre>", client.get("/docs").text, re.DOTALL)
    assert len(shown) > 15
    for line in shown:
        words = shlex.split(html.unescape(line))
        if "-d" in words:
            body = words[words.index("-d") + 1]
            answer = client.post(words[2], content=body, headers={"content-type": "application/json"})
        else:
            answer = client.get(words[2])
        assert answer.status_code == 200, line


def test_swagger_ui_is_drawn_without_internet(server: str, page: Any) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on(
        "request", lambda request: said.append(request.url) if not request.url.startswith((server, "data:")) else None
    )
    page.goto(f"{server}/docs/try")
    page.get_by_text("/api/v1/plan").first.wait_for(timeout=20_000)
    page.locator("#operations-Railyard-get_catalog_entry").click()
    page.get_by_role("button", name="Try it out").click()
    page.locator("#operations-Railyard-get_catalog_entry select").first.select_option("gpus")
    page.get_by_placeholder("key").fill("h100-sxm")
    page.get_by_role("button", name="Execute").click()
    page.get_by_text('"H100 SXM"').first.wait_for(timeout=20_000)
    assert said == []


def test_style_and_script_of_pages_are_small() -> None:
    parts = [assets.assets()[name] for name in ("style.css", "app.js")]
    assert sum(len(part.compressed) for part in parts) < 22_000
    assert b"/*" not in parts[0].content


def test_the_script_of_pages_holds_the_modules_it_imports_each_once_and_in_order() -> None:
    script = assets.assets()["app.js"].content.decode()
    assert not re.search(r"^(import|export) ", script, re.M)
    modules = re.findall(r"^const (\w+)Module = ", script, re.M)
    assert len(modules) == len(set(modules)) > 10
    assert modules[-1] == "app"
    for used in re.finditer(r"^const \{[^}]+\} = (\w+)Module;$", script, re.M):
        assert script.index(f"const {used[1]}Module = ") < used.start()
    for name in modules:
        source = (assets.FOLDER / f"{name}.js").read_text("utf-8")
        assert all(other in modules for other in re.findall(r'from "\./(\w+)\.js"', source))


@pytest.mark.parametrize(("gpus", "at_once"), [(8, True), (65_536, True), (65_544, False)])
def test_plans_are_answered_at_once_up_to_the_size_that_makes_them_longer(gpus: int, at_once: bool) -> None:
    catalog = load_catalog()
    given = Scenario(gpus=gpus, tensor_parallel=8, pipeline_parallel=1, micro_batch=1)
    assert heavy_queue.quick(given, catalog) is at_once
    assert not heavy_queue.quick(given.model_copy(update={"micro_batch": None}), catalog)
