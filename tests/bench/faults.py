"""Three replicas behind the nginx of deploy/: a rolling restart, and a replica killed, both under load."""

import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import httpx

from tests.bench.load import Tally, load
from tests.bench.web import all_reduce, free_port
from tests.conftest import ROOT, Server

CONNECTIONS = 64


def run() -> Iterator[str]:
    """Both faults; nothing is measured where there is no nginx."""
    if nginx() is None:
        yield "   skipped: nginx is not here (Debian and Ubuntu: apt-get install nginx-light)"
        return
    with tempfile.TemporaryDirectory() as folder, Replicas(Path(folder)) as replicas:
        yield told("rolling restart", under_load(replicas.port, replicas.restart))
        yield told("replica killed", under_load(replicas.port, replicas.kill))


def nginx() -> str | None:
    """Where it is, if it is here."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


class Replicas:
    """Three of them behind nginx, each on a port of its own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.variables = {"RAILYARD_SHUTDOWN_DRAIN": "1"} | variables  # as deployed, unless told otherwise
        self.ports = [free_port() for _ in range(3)]
        self.port = free_port()
        self.running = [self._start(number) for number in range(3)]

    def __enter__(self) -> Self:
        for one in self.running:
            one.url()
        path = configuration(self.folder, self.ports, self.port)
        program = nginx()
        assert program is not None
        self.proxy = subprocess.Popen([program, "-c", str(path), "-g", "daemon off;"], stderr=subprocess.DEVNULL)
        wait(f"http://127.0.0.1:{self.port}/readyz")
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.terminate()
        self.proxy.wait(10)
        for one in self.running:
            one.stop()

    def _start(self, number: int) -> Server:
        log = self.folder / f"log-{number}-{time.monotonic_ns()}"
        return Server(log, self.ports[number], **self.variables)

    def restart(self) -> None:
        """Stop and start one after the other, as an operator does."""
        for number in range(3):
            self.running[number].stop()
            self.running[number] = self._start(number)
            self.running[number].url()

    def kill(self) -> None:
        """Kill one without warning, and start it again."""
        self.running[0].process.kill()
        self.running[0].process.wait()
        time.sleep(1)
        self.running[0] = self._start(0)
        self.running[0].url()


def configuration(folder: Path, ports: list[int], proxy_port: int) -> Path:
    """The committed configuration, with three ports of this machine in place of the engine's names."""
    text = (ROOT / "deploy/nginx.conf").read_text()
    for here, there in (("/tmp/", f"{folder}/"), ("/dev/stderr", f"{folder}/errors"), ("8080", str(proxy_port))):
        text = text.replace(here, there)
    text = re.sub(r"^\s*resolver .*$", "", text, flags=re.MULTILINE)
    text, upstreams = re.subn(
        r"^ *server replica:8000 resolve(.*)$",
        lambda own: "\n".join(f"    server 127.0.0.1:{port}{own[1]}" for port in ports),
        text,
        flags=re.MULTILINE,
    )
    assert upstreams == 2
    path = folder / "nginx.conf"
    path.write_text(text.replace("listen ", "listen 127.0.0.1:"))
    return path


def wait(url: str) -> None:
    """Until it answers with a 200."""
    for _ in range(600):
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise TimeoutError(url)


def under_load(port: int, change: Callable[[], None], connections: int = CONNECTIONS) -> Tally:
    """What the load sees while something changes."""
    failed: list[BaseException] = []

    def changing() -> None:
        time.sleep(1)
        try:
            change()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=changing)
    thread.start()
    total = Tally()
    while thread.is_alive():
        found = load(port, all_reduce("/api/v1"), connections, 2)
        total.seconds += found.seconds
        total.broken += found.broken
        total.times += found.times
        for status, count in found.statuses.items():
            total.statuses[status] = total.statuses.get(status, 0) + count
    thread.join()
    if failed:
        raise failed[0]
    return total


def told(what: str, found: Tally) -> str:
    """One line."""
    good = found.statuses.get(200, 0)
    lost = {status: count for status, count in found.statuses.items() if status != 200}
    if found.broken:
        lost["connection broken"] = found.broken
    return (
        f"   {what}, {CONNECTIONS} connections: {good:,} answers in {found.seconds:.0f} s, "
        f"slowest {max(found.times, default=float('nan')):.2f} s, {found.errors} lost {lost or ''}".rstrip()
    )
