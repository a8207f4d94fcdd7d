"""Hostile clients of one kind after the other, each for a while, and honest ones beside them who must not notice.

Honest clients ask for a probe, an all-reduce, plans and a page in turn. They are to see no failure, and an answer of
the interface within a quarter of a second in 99 of 100 cases; pages take longer, and are told beside. The processes of
the service stay below 300 MB together, a page of memory that several have counted once, as of a container. The first
kind is nobody: what this machine does meanwhile by itself.
"""

import argparse
import asyncio
import itertools
import json
import random
import resource
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.load import in_process
from tests.bench.web import GIVEN, proportional
from tests.conftest import Server
from tests.fuzz.hostile import LOADS, MANY, VAST

WITHIN, MEMORY = 0.25, 300.0  # seconds, 99 of 100 times; MB at any time
PATIENCE = 10.0  # seconds after which an honest client gives up
HONEST = 4

Attack = Callable[[int, float], Awaitable[None]]


# Honest ones ---------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """What honest clients saw."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)

    def within(self, share: float, *, pages: bool = False) -> float:
        """Seconds within which this share of the answers came."""
        ordered = sorted(one for kind, several in self.seconds.items() if (kind == "/") == pages for one in several)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else float("inf")


def _questions() -> Iterator[str]:
    """Questions that were not asked before."""
    for number in itertools.count(1):
        nodes = 4 + number % 300
        yield "/healthz"
        yield f"/api/v1/all-reduce?gpus=1024&message={2**20 + number}"
        yield f"/api/v1/plan?gpus={32 * nodes}&{GIVEN}&global_batch={32 * nodes}&training_tokens={10**12 + number}"
        yield f"/api/v1/plan?gpus={8 * nodes}&training_tokens={10**12 + number}"
        yield f"/?gpus={8 * nodes}&training_tokens={10**12 + number}"


async def _honest(port: int, until: float, questions: Iterator[str], seen: Seen) -> None:
    """One client, which keeps its connection and rests between its questions."""
    reader, writer = None, None
    while time.monotonic() < until:
        path, began = next(questions), time.monotonic()
        kind = path.partition("?")[0]
        try:
            async with asyncio.timeout(PATIENCE):
                if reader is None or writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                status = await _ask(reader, writer, path)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            seen.failures[f"{kind} {type(error).__name__}"] += 1
            reader = writer = None
            continue
        seen.seconds[kind].append(time.monotonic() - began)
        if status != 200:
            seen.failures[f"{kind} {status}"] += 1
        await asyncio.sleep(0.1)
    if writer:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> int:
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    at = head.index(b"content-length:") + 15
    await reader.readexactly(int(head[at : head.index(b"\r\n", at)]))
    return int(head[9:12])


async def honest(port: int, seconds: float, pid: int) -> tuple[Seen, float]:
    """What honest clients see for so many seconds, and the most memory that the service has meanwhile [MB]."""
    seen, most, until = Seen(), 0.0, time.monotonic() + seconds
    questions = _questions()
    clients = asyncio.gather(*(_honest(port, until, questions, seen) for _ in range(HONEST)))
    while not clients.done():
        most = max(most, proportional(pid))
        await asyncio.sleep(0.2)
    await clients
    return seen, most


# Hostile ones --------------------------------------------------------------------------------------------------------


async def _sent(port: int, parts: Iterator[bytes], pause: float = 0.0, reads: bool = True) -> None:
    """Send some bytes on a connection, and read what comes back, if at all."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        await asyncio.sleep(0.05)
        return
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        while reads and await reader.read(2**16):
            pass
        if not reads:
            await asyncio.sleep(60)
    except OSError:
        await asyncio.sleep(0.05)
    finally:
        writer.close()


async def _repeated(clients: int, seconds: float, once: Callable[[], Awaitable[None]]) -> None:
    """So many clients who do the same again and again."""
    until = time.monotonic() + seconds

    async def client() -> None:
        while time.monotonic() < until:
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(once())), None)

    tasks = [asyncio.ensure_future(client()) for _ in range(clients)]
    await asyncio.wait(tasks, timeout=seconds)
    for task in tasks:
        task.cancel()


def _get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode()


def _post(target: str, body: bytes, length: int | None = None, kind: str = "application/json") -> bytes:
    size = len(body) if length is None else length
    head = f"POST {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {size}\r\n\r\n".encode() + body


async def nobody(port: int, seconds: float) -> None:
    """Nothing, for comparison."""
    await asyncio.sleep(seconds)


async def half_open(port: int, seconds: float) -> None:
    """3,000 connections on which nothing is ever sent."""
    await _repeated(3000, seconds, lambda: _sent(port, iter(())))


async def slow_headers(port: int, seconds: float) -> None:
    """1,000 requests of which a few bytes come each half second."""
    head = [b"GET / HTTP/1.1\r\n", *(b"x-%d: 1\r\n" % number for number in range(1000))]
    await _repeated(1000, seconds, lambda: _sent(port, iter(head), pause=0.5))


async def huge_headers(port: int, seconds: float) -> None:
    """Headers without end, many or long, and first lines of 30 MB."""
    many = b"".join(b"a%d: b\r\n" % number for number in range(10_000))
    kinds = itertools.cycle((
        (b"GET / HTTP/1.1\r\n", many), (b"GET / HTTP/1.1\r\nx: ", b"y" * 2**17), (b"GET /", b"z" * 2**17),
        (b"GET / HTTP/1.1\r\n" + b"host: a\r\n" * 99 + b"x: ", b"y" * 31_000),
    ))  # fmt: skip

    def parts() -> Iterator[bytes]:
        first, rest = next(kinds)
        return itertools.chain([first], itertools.repeat(rest, 250))

    await _repeated(16, seconds, lambda: _sent(port, parts()))


def _bodies() -> list[bytes]:
    """Bodies as large as they may be, and larger."""
    many = ",".join(["1"] * 90_000)
    names = ["h100-sxmm"] * 100_000
    asked = {
        "/api/v1/plan": [{"gpu": "x" * 2_000_000}, {"gpus": [1.0] * 400_000}, {f"gpuss{n}": 1 for n in range(90_000)}],
        "/api/v1/size": [{"gpu": names}, {"scale_out": names}],
        "/api/v1/all-reduce": [{"message": [1] * 900_000}],
        "/api/v1/compare": [{"scenarios": [{}] * 600_000}, {"scenarios": [{"model": "7B" * 400_000}] * 2}],
        "/api/v1/sweep": [{"grid": {"gpus": [8]}, "results": ["training.stepp_time"] * 80_000}],
        "/api/v1/calibrate": [{"text": "8 2 float sum 1 2 3 4 5\n" * 38_000}, {"text": "[" * 990_000}],
    }
    bodies = [_post(path, json.dumps(body).encode()) for path, several in asked.items() for body in several]
    bodies += [_post("/api/v1/plan", b'{"gpus":' + b"[" * 1000 + b"]" * 1000 + b"}")]
    bodies += [_post("/api/v1/sweep", ('{"grid":{' + ",".join(f'"f{i}":[{many}]' for i in range(11)) + "}}").encode())]
    bodies += [_post("/api/v1/plan", b"x" * 2**20, length=2**40), _post("/api/v1/plan", b"x" * 2**20, length=2**21)]
    form = "application/x-www-form-urlencoded"
    bodies += [_post("/all-reduce", b"a=b&" * 400_000, kind=form)]
    bodies += [_post("/all-reduce", b"--x\r\n" + b"\r\n--x" * 300_000, kind="multipart/form-data; boundary=x")]
    return bodies


async def large_bodies(port: int, seconds: float) -> None:
    """Bodies of two megabytes, of all that one might send."""
    bodies = itertools.cycle(_bodies())
    await _repeated(4, seconds, lambda: _sent(port, iter((next(bodies),)), pause=0.1))


HEAVY = (
    *LOADS,
    "/serve/size?users=1000000",
    "/api/v1/serve/size?users=1000000&gpu=h100-sxm&gpu=gb200&gpu=mi300x",
    f"/compare?a.gpus=131072&b.gpus=65536&c.{VAST.replace('&', '&c.')}",
    f"/brief?{VAST}&deadline=90+days",
    "/brief?gpus=131072&budget=$5B",
    *(f"/chart/{name}?gpus=131072" for name in ("capital.svg", "tornado.csv", "scaling.json", "cost-per-port.svg")),
    f"/chart/capital.svg?{VAST}",
    "/chart/accuracy-training.svg",
    "/cost?gpus=131072",
    f"/export/plan.xlsx?{VAST}",
    f"/api/v1/plan?{'fields=' + ','.join(f'training.step_timf{number}' for number in range(200))}",
    "/api/v1/plan?" + "&".join(f"gpuss{number}_parallel=1" for number in range(450)),
    f"/api/v1/size?deadline=30+days&{MANY}",
)
SWEEP = json.dumps({"base": {"gpus": 131072}, "grid": {"global_batch": list(range(1024, 9216)), "planes": [1, 2]}})


def _heavy(chance: random.Random) -> bytes:
    target = chance.choice((*HEAVY, "sweep"))
    return _post("/api/v1/sweep", SWEEP.encode()) if target == "sweep" else _get(target)


async def leaving(port: int, seconds: float) -> None:
    """24 clients who ask for much, and leave before they have it."""
    chance = random.Random(1)

    async def once() -> None:
        try:
            async with asyncio.timeout(chance.uniform(0.05, 1.0)):
                await _sent(port, iter((_heavy(chance),)))
        except TimeoutError:
            pass

    await _repeated(24, seconds, once)


async def staying(port: int, seconds: float) -> None:
    """24 clients who ask for much and wait for it."""
    chance = random.Random(2)
    await _repeated(24, seconds, lambda: _sent(port, iter((_heavy(chance),)), pause=0.1))


LISTS = (f"/export/cables.csv?{VAST}", "/export/cables.csv?gpus=1000000&scale_out=spectrum-x-800&topology=fat-tree")


async def cable_lists(port: int, seconds: float) -> None:
    """16 clients who read lists of millions of cables, and 100 who ask for one and read nothing."""
    lists = itertools.cycle(LISTS)
    await asyncio.gather(
        _repeated(16, seconds, lambda: _sent(port, iter((_get(next(lists)),)))),
        _repeated(100, seconds, lambda: _sent(port, iter((_get(next(lists)),)), reads=False)),
    )


KINDS: tuple[Attack, ...] = (
    nobody, half_open, slow_headers, huge_headers, large_bodies, leaving, staying, cable_lists,
)  # fmt: skip


def attack(name: str, port: int, seconds: float) -> None:
    """One kind of hostile load, in a process of its own."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(next(kind for kind in KINDS if kind.__name__ == name)(port, seconds))


# Both ----------------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[str]:
    """Each kind on a server of its own."""
    failures = []
    for kind in KINDS:
        if options.kind and kind.__name__ not in options.kind:
            continue
        with tempfile.TemporaryDirectory() as folder:
            line, wrong = under(kind, Path(folder) / "log", options.seconds)
        yield line
        failures += wrong
    assert not failures, "\n".join(failures)


def under(kind: Attack, log: Path, seconds: float, within: float = WITHIN) -> tuple[str, list[str]]:
    """What honest clients see beside one kind of hostile ones: a line, and what is wrong with it."""
    server = Server(log, RAILYARD_TIME_LIMIT="30", RAILYARD_ACCESS_LOG="false")
    try:
        port = int(server.url().rpartition(":")[2])
        asyncio.run(honest(port, 3.0, server.process.pid))  # what the first of each question makes
        attackers = in_process(attack, kind.__name__, port, seconds + 1)
        time.sleep(1)  # its start
        seen, memory = asyncio.run(honest(port, seconds, server.process.pid))
        attackers.terminate()
        attackers.join()
    finally:
        server.stop()
    line = (
        f"   {kind.__name__}: {sum(map(len, seen.seconds.values())):,} honest answers, half within "
        f"{seen.within(0.5) * 1e3:.0f} ms, 99 % within {seen.within(0.99) * 1e3:.0f} ms (pages "
        f"{seen.within(0.5, pages=True) * 1e3:.0f} and {seen.within(0.99, pages=True) * 1e3:.0f} ms), slowest "
        f"{' '.join(f'{path} {max(several) * 1e3:.0f}' for path, several in sorted(seen.seconds.items()))} ms, "
        f"{seen.failures.total()} failures; at most {memory:.0f} MB"
    )
    wrong = [f"{kind.__name__}: {count} × {what}" for what, count in seen.failures.items()]
    if not seen.within(0.99) < within:
        wrong.append(f"{kind.__name__}: 99 % within {seen.within(0.99):.2f} s")
    if memory >= MEMORY:
        wrong.append(f"{kind.__name__}: {memory:.0f} MB")
    return line, wrong
