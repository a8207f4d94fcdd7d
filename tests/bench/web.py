"""Requests a second of /api/v1/all-reduce and /api/v1/plan, beside a bare endpoint that reads the same question.

BENCH_SECONDS is the length of each measurement; the endurance run takes ten times as long.
"""

import compileall
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from urllib.request import urlopen

import app
from tests.bench import bare
from tests.bench.load import Tally, in_process, load
from tests.conftest import Server

SECONDS = float(os.environ.get("BENCH_SECONDS", "6"))
_number = count(1)


def all_reduce(prefix: str) -> Callable[[], Iterator[str]]:
    """Each request another message."""

    def paths() -> Iterator[str]:
        while True:
            yield f"{prefix}/all-reduce?gpus=1024&message={2**20 + next(_number)}"

    return paths


GIVEN = (
    "tensor_parallel=8&pipeline_parallel=4&virtual_pipeline=1&context_parallel=1&expert_parallel=1&micro_batch=1"
    "&sharding=optimizer&recompute=none&sequence_parallel=true&schedule=1f1b"
)


def plan(prefix: str) -> Callable[[], Iterator[str]]:
    """Each request another job on the same cluster; the parallelism is given."""

    def paths() -> Iterator[str]:
        while True:
            number = next(_number)
            job = f"global_batch={32 * (8 + number % 97)}&training_tokens={10**12 + 10**6 * number}"
            yield f"{prefix}/plan?gpus=1024&{GIVEN}&{job}"

    return paths


def plan_of_any_cluster(prefix: str) -> Callable[[], Iterator[str]]:
    """Each request another cluster as well."""

    def paths() -> Iterator[str]:
        while True:
            number = next(_number)
            replicas = 4 + number * 37 % 1996
            job = f"global_batch={replicas * (8 + number % 97)}&training_tokens={10**12 + 10**6 * number}"
            yield f"{prefix}/plan?gpus={32 * replicas}&{GIVEN}&{job}"

    return paths


QUESTIONS = {
    "all-reduce": ("all-reduce", all_reduce, 0.7),
    "plan": ("plan", plan, 0.4),
    "plan of another cluster each time": ("plan", plan_of_any_cluster, 0.25),
}
"""Of each title the endpoint, the questions, and the share of a bare endpoint's rate that is aimed at."""


def resident(pid: int) -> float:
    """Resident memory of a process [MB]."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1000


def processes(pid: int) -> list[int]:
    """A process and those that it started, and they in turn."""
    parents = {}
    for one in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            parents[int(one.parent.name)] = int(one.read_text().rpartition(")")[2].split()[1])
    family = [pid]
    for each in family:
        family += [child for child, parent in parents.items() if parent == each]
    return family


def proportional(pid: int) -> float:
    """Memory of a process and those that it started, a page that several have counted once [MB]."""
    shares = 0
    for each in processes(pid):
        with suppress(OSError):  # it has ended meanwhile
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            shares += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return shares / 1000


def free_port() -> int:
    """A port nobody listens on, below those that the system gives to outgoing connections: it stays free."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait(port: int) -> None:
    """Until something listens."""
    for _ in range(400):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nothing listens on {port}")


def run() -> Iterator[str]:
    """The measurements, of a service that is compiled, as in the image."""
    compileall.compile_dir(Path(app.__file__).parent, quiet=1)
    server = Server(Path(tempfile.mkdtemp()) / "log")
    try:
        url = server.url()
        port = int(url.rpartition(":")[2])
        yield f"   first answer possible {server.seconds_to_start:.2f} s after the start of the process"
        lengths = {name: len(urlopen(url + next(paths("/api/v1")())).read()) for name, paths, _ in QUESTIONS.values()}
        other_port = free_port()
        other = in_process(bare.serve, other_port, lengths)
        wait(other_port)
        for title, (name, paths, goal) in QUESTIONS.items():
            load(port, paths("/api/v1"), 16, 1)
            load(other_port, paths("/bare"), 16, 1)
            own, plain = [], []
            for _ in range(3):  # in turns, so that whatever else this machine does falls on both
                plain.append(load(other_port, paths("/bare"), 16, SECONDS / 2))
                own.append(load(port, paths("/api/v1"), 16, SECONDS / 2))
            yield compared(title, own, plain, goal, lengths[name])
        other.terminate()
        yield from endurance(port, server.process.pid)
    finally:
        server.stop()


def compared(title: str, own: list[Tally], plain: list[Tally], goal: float, length: int) -> str:
    """One line: both rates and their ratio."""
    mine, bare_rate = sorted(one.rate for one in own)[1], sorted(one.rate for one in plain)[1]
    errors = sum(one.errors for one in own)
    verdict = "reached" if mine / bare_rate >= goal else "MISSED"
    return (
        f"   /{title}: {mine:,.0f} requests/s, bare endpoint {bare_rate:,.0f} requests/s, {mine / bare_rate:.0%} "
        f"(goal {goal:.0%}: {verdict}); {length:,} B an answer, p50 {own[1].quantile(0.5) * 1e3:.1f} ms, "
        f"p99 {own[1].quantile(0.99) * 1e3:.1f} ms, {errors} errors"
    )


def endurance(port: int, pid: int) -> Iterator[str]:
    """256 connections for a while: no error, and memory stays where it is."""
    load(port, all_reduce("/api/v1"), 256, SECONDS)
    before = resident(pid)
    found = load(port, all_reduce("/api/v1"), 256, SECONDS * 10)
    after = resident(pid)
    yield (
        f"   256 connections for {found.seconds:.0f} s: {found.rate:,.0f} requests/s, {found.errors} errors, "
        f"p99 {found.quantile(0.99) * 1e3:.0f} ms, memory {before:.0f} → {after:.0f} MB"
    )
