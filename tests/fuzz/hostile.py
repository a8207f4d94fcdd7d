"""Random and hostile requests to every page and the API: no 5xx, nothing over a second, no growth of memory.

Half of them are valid and extreme, so that they are computed; the others are wrong in every way that comes to mind.
`/size` and `/sweep` are bounded by a limit of their own, which the server is given as five seconds here. In the end a
crowd asks for much and leaves.
"""

import argparse
import http.client
import json
import os
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from app.catalog.load import load_catalog
from app.plan.scenario import Scenario
from tests.bench.web import processes, proportional
from tests.conftest import Server

LIMIT = 1.0  # seconds
OWN_LIMIT = 5.0  # seconds that /size and /sweep are given
EVERY = 2_000
GROWTH = 10.0  # MB that the process may gain after the first half, when its caches are full

PLANS = ("/", "/curves", "/all-reduce", "/fabric", "/acceptance", "/acceptance.json", "/compare")
TABLES = (
    "plan", "cluster", "fabric", "links", "bisection", "bill_of_materials", "bill-of-materials", "all_reduce", "step",
    "memory", "bottleneck", "capital", "operating", "costs", "findings", "sources", "cables", "nothing",
)  # fmt: skip
EXPORTS = tuple(f"/export/{name}.{ending}" for name in TABLES for ending in ("csv", "xlsx", "json", "exe"))
API = ("/api/v1/plan", "/api/v1/all-reduce", "/api/v1/fabric")
BODIES = ("/api/v1/plan", "/api/v1/all-reduce", "/api/v1/fabric", "/api/v1/compare")
FIXED = (
    "/docs/study", "/docs/study.ipynb",
    "/catalog", "/method", "/accuracy", "/docs", "/docs/try", "/healthz", "/readyz", "/metrics", "/openapi.json",
    "/api/v1/catalog", "/api/v1/accuracy", "/static/app.js", "/static/style.css", "/nowhere", "/api/v1/nowhere",
)  # fmt: skip
BOUNDED = ("/size", "/explore", "/api/v1/size", "/api/v1/sweep")

VAST = "gpu=h800-sxm&gpus=1000000&scale_out=spectrum-x-800&topology=fat-tree&oversubscription=4"
MANY = "&".join(
    [f"gpu={key}" for key in ("h100-sxm", "h200-sxm", "b200-sxm", "gb200")]
    + [f"scale_out={key}" for key in ("infiniband-ndr", "roce-400", "spectrum-x-400", "tcp-400")]
)
LOADS = (
    f"/api/v1/size?gpus=131072&global_batch=720720&{MANY}",
    f"/size?gpus=131072&global_batch=720720&{MANY}",
    f"/explore?gpus=131072&global_batch=720720&{MANY}",
    "/export/cables.csv?gpus=1000000&nics_per_node=576&gpus_per_node=1&scale_out=roce-400",
    f"/export/cables.csv?{VAST}",
    f"/api/v1/plan?{VAST}&tensor_parallel=8&pipeline_parallel=1&micro_batch=1&global_batch=1000000",
    f"/api/v1/fabric?{VAST}&nics_per_node=72",
    "/export/plan.xlsx?gpus=131072",
    "/curves?gpus=131072",
    "/all-reduce?gpus=131072",
)
"""Questions that take long, and files that have no end."""
LARGEST = 512.0  # MB of memory that a container of deploy/ has

MARK = "zq7xk"
SUM = "99991*99989*10007"
RESULT = str(99991 * 99989 * 10007).encode()  # a template that has computed it was the request's own
HOSTILE = (
    "", " ", "0", "-0", "-1", "1e308", "1e309", "1e-320", "nan", "NaN", "inf", "-inf", "Infinity", "٣", "1_000", "0x10",
    "1,5", "1.5", "1e3", "+1", " 8 ", "8\n", "1" * 400, "9" * 5000, "-" * 100, "true", "None", "null", "[]", "{}", '""',
    "1e400 GB", "5 YB", "1 GiB/s", "1 parsec", "12 bananas", "8 8", "8;8", "8&8", "8=8", "8%", "100%", "$20M", "€5",
    f"{{{{{SUM}}}}}{MARK}", f"${{{SUM}}}{MARK}", f"#{{{SUM}}}{MARK}",
    f"{{% include '/etc/passwd' %}}{MARK}",
    "{{config}}", "{{self.__init__.__globals__}}", "%(x)s", "{0}", "{scenario}", "%s%s%n",
    "../../etc/passwd", "..\\..\\windows", "....//....//etc/passwd", "%2e%2e%2f", "%00", "\x00", "a\x00b", "\x7f",
    "\x1b[0m",
    "'; DROP TABLE gpus; --", '" onmouseover="x', f"<script>{MARK}</script>", f"<img src=x onerror={MARK}>",
    f"</title><script>{MARK}", "=1+1", "@SUM(A1)", "\ud7ff", "💥", "é" * 50, "\u202e\u200b\ufeff", "ﷺ" * 30, "Ａ", "ß",
    "\u0130", "h100-sxm", "H100-SXM", "h100_sxm", "custom", "None,None", "\r\nX-Injected: 1", "a" * 3000, "(" * 2000,
)  # fmt: skip
"""Values that have broken something somewhere."""

PATHS = (
    "//", "/./", "/../", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../app/web/server.py",
    "/static/..%2fapp",
    "/static/%00", "/export/../../etc/passwd.csv", "/export/.csv", "/export/plan.", "/export/%2e%2e.csv",
    "/export/a.b.csv",
    "/catalog/gpus/../../x", "/catalog/gpus/%00", "/catalog/x/y", "/catalog/gpus/{{" + SUM + "}}", "/catalog//",
    "/%ff%fe",
    "/api/v1/catalog/gpus/%F0%9F%92%A5", "/api/v1/catalog/gpus/..", "/api/v1/catalog/gpus/a%2fb",
    "/api/v1/catalog/__class__",
    "/api/v1/catalog/gpus/" + "a" * 4000, "/api//v1/plan", "/api/v1/plan/", "/API/v1/plan", "/?", "/;a=b", "/#x",
    "/%", "/%zz",
    "*", "/" + "a/" * 500, "/\xe9", "/<script>" + MARK + "</script>", "/api/v1/%3Cscript%3E" + MARK,
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request, as it goes over the wire."""

    method: str
    target: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        text = f"{self.method} {self.target[:600]}"
        return text if self.body is None else f"{text} {self.headers} {self.body[:600]!r}"


class Fields:
    """Values for the fields of a scenario, by the bounds in its own schema."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, Any]] = {}
        for name, found in Scenario.model_json_schema()["properties"].items():
            options = [one for one in found.get("anyOf", [found]) if one.get("type") != "null"]
            self.fields[name] = options[0]
        self.names = list(self.fields)

    def valid(self, name: str, chance: random.Random) -> Any:
        """A value that is allowed, often at a bound."""
        found = self.fields[name]
        if "enum" in found:
            return chance.choice(found["enum"])
        if found.get("type") == "boolean":
            return chance.random() < 0.5
        if "pattern" in found:
            return chance.choice(["2026.01", "x", "0" * 60])
        if found.get("type") == "string":
            return chance.choice(found["examples"])
        low, high = self._bounds(found)
        spread = max(low, 1e-12) * (high / max(low, 1e-12)) ** chance.random()
        if found.get("type") == "integer":
            low, high = int(low), int(high)
            usual = [one for one in (1, 2, 3, 7, 8, 13, 31, 64, 127, 1000, 1024, 4096, 65537) if low <= one <= high]
            around = [low, low + 1, high - 1, high, round(spread), round(spread), *usual, *usual]
            return min(high, max(low, chance.choice(around)))
        return min(high, max(low, chance.choice([low, high, spread, spread, (low + high) / 2])))

    def _bounds(self, found: dict[str, Any]) -> tuple[float, float]:
        low = found.get("minimum", found.get("ge", found.get("gt")))
        high = found.get("maximum", found.get("le", found.get("lt")))
        assert low is not None and high is not None, found  # noqa: PT018 - a field without bounds is a mistake itself
        return (low or 1e-9) if "gt" in found else low, high


@dataclass
class Generator:
    """Requests without end, the same for the same seed."""

    seed: int
    fields: Fields = field(default_factory=Fields)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        loaded = load_catalog()
        self.entries = [f"{kind}/{key}" for kind in ("gpus", "scale_out", "switches", "models", "prices")
                        for key in loaded.kind(kind)]  # fmt: skip

    def one(self) -> Request:
        """The next request."""
        chance = self.chance
        kind = chance.choices(
            (self.extreme, self.hostile, self.body, self.wrong_body, self.path, self.fixed, self.bounded, self.paste,
             self.listed),
            (45, 20, 8, 10, 6, 6, 1, 4, 2),
        )[0]  # fmt: skip
        return kind()

    def scenario(self) -> dict[str, Any]:
        """A few fields, each with a valid value."""
        chance = self.chance
        names = chance.sample(self.fields.names, chance.choice((0, 1, 1, 2, 2, 3, 4, 6, 10)))
        if chance.random() < 0.5:
            names += [name for name in ("gpu", "gpus", "model", "scale_out") if name not in names]
        return {name: self.fields.valid(name, chance) for name in names}

    def text(self) -> str:
        """Something hostile or random."""
        chance = self.chance
        if chance.random() < 0.6:
            return chance.choice(HOSTILE)
        if chance.random() < 0.5:
            return str(chance.choice([chance.uniform(-1e20, 1e20), chance.getrandbits(70), -chance.getrandbits(64)]))
        pool = (range(32, 127), range(0x20), range(0xA0, 0x2FFF), range(0x1F300, 0x1FAFF))
        letters = (chr(chance.choice(chance.choice(pool))) for _ in range(chance.choice((1, 3, 10, 60))))
        return "".join(letters)

    def query(self, fields: list[tuple[str, Any]]) -> str:
        """The fields as a query string."""
        return "&".join(f"{quote_plus(name, errors='replace')}={quote_plus(_typed(value), errors='replace')}"
                        for name, value in fields)  # fmt: skip

    def extreme(self) -> Request:
        """Valid, and seldom asked."""
        chance = self.chance
        address = chance.choice((*PLANS, *API, *API, *EXPORTS[:4], chance.choice(EXPORTS), "/api/v1/catalog"))
        if address == "/api/v1/catalog":
            return Request("GET", chance.choice(("/catalog/", "/api/v1/catalog/")) + quote(chance.choice(self.entries)))
        fields = list(self.scenario().items())
        if address == "/compare":
            fields = [(f"{letter}.{name}", value) for letter in "abcd"[: chance.randint(1, 4)]
                      for name, value in self.scenario().items()] + fields[:2]  # fmt: skip
        if address == "/api/v1/all-reduce":
            for name in ("message", "gpus"):
                fields = [one for one in fields if one[0] != name]
                fields += [(name, self.fields.valid(name, chance)) for _ in range(chance.choice((0, 1, 1, 3, 12)))]
        return Request(chance.choice(("GET", "GET", "GET", "HEAD")), f"{address}?{self.query(fields)}")

    def listed(self) -> Request:
        """Lists of the catalogue, by fields that it has and by anything else."""
        chance = self.chance
        known = {"q": "800G", "vendor": "NVIDIA", "family": "roce", "status": "shipping", "since": 2024, "limit": 7,
                 "cursor": "7-5d41402abc4b", "format": "csv"}  # fmt: skip
        names = chance.choices(list(known), k=chance.choice((0, 1, 2, 3, 8)))
        fields = [(name, known[name] if chance.random() < 0.8 else self.text()) for name in names]
        kind = chance.choice(("", "/" + quote(chance.choice(self.entries).partition("/")[0])))
        return Request(chance.choice(("GET", "GET", "HEAD")), f"/api/v1/catalog{kind}?{self.query(fields)}")

    def hostile(self) -> Request:
        """Wrong values, wrong names, repeated keys."""
        chance = self.chance
        fields: list[tuple[str, Any]] = list(self.scenario().items())[:3]
        for _ in range(chance.choice((1, 1, 2, 5, 30))):
            name = chance.choice(self.fields.names) if chance.random() < 0.8 else self.text()
            fields.append((name, self.text()))
            if chance.random() < 0.1:
                fields.append((name, self.text()))
        chance.shuffle(fields)
        address = chance.choice(
            (*PLANS, *API, *EXPORTS[:3], "/size", "/catalog", "/accuracy", "/docs", "/static/app.js")
        )
        query = self.query(fields)
        if chance.random() < 0.1:  # not even a query string
            query = "".join(
                chance.choice(("%", "&", "=", ";", "+", "%f", "%ff", "%00", "a", "?", "\xff")) for _ in range(40)
            )
        if chance.random() < 0.02:
            query = "&".join([query] * 400)
        accept = chance.choice(("*/*", "text/html", "application/json", "text/csv", self.text()))
        return Request("GET", f"{address}?{query}", headers=(("accept", accept),))

    def body(self) -> Request:
        """A valid question as JSON."""
        chance = self.chance
        address = chance.choice(BODIES)
        asked: Any = self.scenario()
        if address.endswith("compare"):
            asked = {"scenarios": [self.scenario() for _ in range(chance.randint(2, 4))]}
        return Request("POST", address, json.dumps(asked).encode(), JSON)

    def wrong_body(self) -> Request:
        """Anything but a valid question."""
        chance = self.chance
        address = chance.choice((*BODIES, "/api/v1/size", "/api/v1/sweep", "/", "/fabric"))
        asked = self.nested(4)
        if chance.random() < 0.6:
            asked = {**self.scenario(), chance.choice(self.fields.names): self.nested(2)}
            asked = chance.choice(
                (asked, {"scenarios": [asked, {}]}, {"grid": asked}, {"base": asked, "grid": {"gpus": [8]}})
            )
        raw = json.dumps(asked).encode(errors="surrogatepass")
        spoilt = chance.random()
        if spoilt < 0.3:
            raw = chance.choice((
                raw[: len(raw) // 2], b"[" * 5000, b'{"gpus":' * 3000, b"\xff\xfe" + raw, raw + raw, b"", b"null",
                b"NaN",
                b'{"gpus": NaN}', b'{"gpus": 1e999}', b'{"gpus": 8, "gpus": 16}', b'{"gpus": ' + b"9" * 4000 + b"}",
                b'{"\\ud800": 1}', b'{"gpu": "\\u0000"}', b" " * 100_000, b'{"a": "' + b"x" * 1_200_000 + b'"}',
            ))  # fmt: skip
        headers = (
            JSON
            if chance.random() < 0.9
            else (("content-type", chance.choice(("text/plain", "application/xml", "x"))),)
        )
        if chance.random() < 0.05:
            headers = (*headers, ("content-encoding", "gzip"))
        return Request("POST", address, raw, headers)

    def nested(self, depth: int) -> Any:
        """Any JSON."""
        chance = self.chance
        kind = chance.randrange(9 if depth else 7)
        if kind < 7:
            return (None, True, chance.getrandbits(chance.choice((4, 70, 300))), -1, chance.uniform(-1e9, 1e9),
                    self.text(), self.text())[kind]  # fmt: skip
        if kind == 7:
            return [self.nested(depth - 1) for _ in range(chance.choice((0, 1, 3, 200)) if depth < 3 else 2)]
        return {(chance.choice(self.fields.names) if chance.random() < 0.5 else self.text()): self.nested(depth - 1)
                for _ in range(chance.randint(0, 4))}  # fmt: skip

    def path(self) -> Request:
        """Addresses, methods and headers that nobody should use."""
        chance = self.chance
        target = chance.choice((*PATHS, *PLANS, *API, "/" + quote(self.text(), errors="replace")))
        method = chance.choice(
            ("GET", "GET", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "BREW", "POST")
        )
        name = chance.choice(
            ("accept", "accept-encoding", "if-none-match", "x-request-id", "host", "x-forwarded-for",
            "x-forwarded-proto",
             "range", "cookie", "origin", "forwarded", "accept-language", "expect")
        )  # fmt: skip
        value = self.text().encode("latin-1", "replace").decode("latin-1")
        value = "".join(letter for letter in value if letter.isprintable() and letter not in "\r\n\0").strip()
        return Request(method, target, headers=() if name == "expect" else ((name, value[:3000]),))

    def fixed(self) -> Request:
        """Pages that ask nothing."""
        address = self.chance.choice(FIXED)
        return Request(self.chance.choice(("GET", "GET", "HEAD")), address)

    def bounded(self) -> Request:
        """The two that may take long."""
        chance = self.chance
        fields = {name: value for name, value in self.scenario().items() if name not in ("gpu", "scale_out")}
        if chance.random() < 0.5:
            return Request("GET", f"{chance.choice(BOUNDED[:2])}?{self.query(list(fields.items()))}")
        name = chance.choice(("gpus", "gpu", "model", "scale_out", "tensor_parallel"))
        values = [self.fields.valid(name, chance) for _ in range(chance.choice((1, 5, 60)))]
        asked = {"base": {key: value for key, value in fields.items() if key != name}, "grid": {name: values}}
        return Request("POST", "/api/v1/sweep", json.dumps(asked).encode(), JSON)

    def paste(self) -> Request:
        """Output of a benchmark that is none."""
        chance = self.chance
        numbers = " ".join(self.text() for _ in range(12))
        line = chance.choice((NCCL, NCCL.replace("1048576", "nan"), NCCL.replace(" ", "\t"), numbers, self.text()))
        text = chance.choice(("", "# nThread 1 nGpus 8\n#  size count type redop time\n")) + "\n".join(
            [line] * chance.choice((1, 3, 500))
        )
        fields = [*list(self.scenario().items())[:3], ("output", text)]
        return Request("POST", "/all-reduce", self.query(fields).encode(), FORM)


NCCL = (
    "     1048576        262144     float     sum      -1    45.31   23.14   40.50      0"
    "    44.93   23.34   40.84      0"
)
JSON = (("content-type", "application/json"),)
FORM = (("content-type", "application/x-www-form-urlencoded"),)


def _typed(value: Any) -> str:
    """As one types it into an address."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Answer:
    """What came back: status 0 is a connection that was closed without an answer."""

    status: int
    kind: str
    body: bytes
    seconds: float


class Connection:
    """One kept connection that sends bytes as they are; a client library would tidy them up."""

    def __init__(self, url: str) -> None:
        self.host, _, port = url.removeprefix("http://").partition(":")
        self.port = int(port)
        self.socket: socket.socket | None = None

    def ask(self, request: Request) -> Answer:
        """One request; it is sent again when the server has closed the connection meanwhile."""
        fresh = self.socket is None
        try:
            return self._ask(request)
        except (OSError, http.client.HTTPException):
            self.close()
            if fresh:
                return Answer(0, "", b"", 0.0)
        try:
            return self._ask(request)
        except (OSError, http.client.HTTPException):
            self.close()
            return Answer(0, "", b"", 0.0)

    def _ask(self, request: Request) -> Answer:
        began = time.monotonic()
        answer = http.client.HTTPResponse(self.send(request), method=request.method)
        answer.begin()
        body = answer.read()
        seconds = time.monotonic() - began
        if answer.will_close:
            self.close()
        return Answer(answer.status, answer.headers.get("content-type", ""), body, seconds)

    def send(self, request: Request) -> socket.socket:
        """Send one request; its answer is to be read from the socket."""
        if self.socket is None:
            self.socket = socket.create_connection((self.host, self.port), 60)
        lines = [f"{request.method} {request.target} HTTP/1.1"]
        names = {name for name, _ in request.headers}
        lines += [] if "host" in names else ["host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        lines += [] if request.body is None else [f"content-length: {len(request.body)}"]
        head = "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")
        self.socket.sendall(head + (request.body or b""))
        return self.socket

    def close(self) -> None:
        """Begin anew with the next request."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def processor(pid: int) -> float:
    """Seconds of processor time that a process and those that it started have used."""
    used = 0
    for each in processes(pid):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


def wrong(request: Request, answer: Answer) -> str:
    """What is wrong with an answer, if anything."""
    if answer.status >= 500:
        return f"status {answer.status}"
    if answer.status == 0:
        return "closed without an answer"
    lower = answer.body[:2_000_000]
    for trace in (b"Traceback (most", b"root:x:0:0", RESULT):
        if trace in lower:
            return f"{trace!r} in the answer"
    if "html" in answer.kind and (f"<script>{MARK}".encode() in lower or f"onerror={MARK}>".encode() in lower):
        return "markup of the request in the page"
    if "json" in answer.kind and request.method != "HEAD" and "ndjson" not in answer.kind and answer.status != 304:
        try:
            found = json.loads(answer.body, parse_constant=_no_number)
        except ValueError as error:
            return f"not JSON: {error}"
        if answer.status >= 400 and "/api/" in request.target and found.get("status") != answer.status:
            return "an error that is no problem document"
    return ""


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def run(options: argparse.Namespace) -> Iterator[str]:
    """Ask them all, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "log", RAILYARD_TIME_LIMIT=str(OWN_LIMIT))
        try:
            yield from attack(server, options.seed, options.requests)
            yield from siege(server)
        finally:
            server.stop()


def siege(server: Server, times: int = 3, limit: float = LIMIT) -> Iterator[str]:
    """Clients who ask for much and leave: others are answered meanwhile, and afterwards nothing of it goes on."""
    watcher, quick = Connection(server.url()), Request("GET", "/healthz")
    impatient = [Connection(server.url()) for _ in range(times * len(LOADS))]
    for connection, target in zip(impatient, LOADS * times, strict=True):
        connection.send(Request("GET", target))
    waits, until = [], time.monotonic() + 1.0
    while time.monotonic() < until:
        waits.append(watcher.ask(quick).seconds)
        time.sleep(0.02)
    for connection in impatient:
        connection.close()
    time.sleep(1.0)  # until the server has seen it
    size = watcher.ask(Request("GET", "/api/v1/size?gpu=h100-sxm&gpus=64"))
    memory = proportional(server.process.pid)
    yield (
        f"   {len(impatient)} clients who left: /healthz within {max(waits):.2f} s meanwhile, "
        f"a small size {size.seconds:.2f} s after them, {memory:.0f} MB"
    )
    assert max(waits) < limit, f"/healthz took {max(waits):.2f} s"
    assert size.status == 200, f"status {size.status} for a small size"
    assert memory < LARGEST, f"{memory:.0f} MB"
    watcher.close()


def attack(
    server: Server, seed: int, requests: int, limit: float = LIMIT, own_limit: float = OWN_LIMIT
) -> Iterator[str]:
    """So many requests to a running server, each answered within the limit, or within its own if it has one [s]."""
    connection, generator, pid = Connection(server.url()), Generator(seed), server.process.pid
    statuses: Counter[int] = Counter()
    slowest: dict[str, tuple[float, str]] = {}
    failures: list[str] = []
    settled = 0.0
    unmade = True
    for number in range(1, requests + 1):
        request = generator.one()
        if unmade and "/accuracy" in request.target:  # made once a process, which may take longer than one answer may
            connection.ask(Request("GET", "/api/v1/accuracy"))
            unmade = False
        used = processor(pid)
        answer = connection.ask(request)
        used = processor(pid) - used
        statuses[answer.status] += 1
        path = request.target.partition("?")[0]
        trouble = wrong(request, answer)
        if path not in BOUNDED:
            slowest[path] = max(slowest.get(path, (0.0, "")), (answer.seconds, str(request)))
            # Other programs run on this machine: slow is what used the processor that long, or waited far longer twice.
            if answer.seconds > limit and (used > 0.9 * limit or connection.ask(request).seconds > 3 * limit):
                trouble = trouble or f"{answer.seconds:.2f} s, {used:.2f} s of the processor"
        elif answer.seconds > own_limit + limit:
            trouble = trouble or f"{answer.seconds:.2f} s, where {own_limit:g} s are allowed"
        if trouble:
            failures.append(f"{trouble}: {request}")
            yield f"   request {number}: {failures[-1]}"
        if number == max(1, requests // 2):
            settled = proportional(pid)
        if number % EVERY == 0:
            yield f"   {number:,} requests: {proportional(pid):.0f} MB, {len(failures)} failures"
    connection.close()
    grown = proportional(pid) - settled
    worst = sorted(slowest.values(), reverse=True)[:3]
    yield f"   {requests:,} requests, seed {seed}: " + ", ".join(f"{n:,} × {s}" for s, n in sorted(statuses.items()))
    yield from (f"   slowest: {seconds:.2f} s {what[:200]}" for seconds, what in worst)
    yield f"   memory {settled:.0f} MB after half, {settled + grown:.0f} MB at the end"
    assert not failures, "\n".join([f"{len(failures)} of {requests:,} requests", *failures[:20]])
    assert grown < GROWTH or requests < 3 * EVERY, f"memory grew by {grown:.0f} MB"  # before, caches still fill
