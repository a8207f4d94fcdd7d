"""Three replicas behind the nginx of deploy/: a rolling restart, and a replica killed, both under load."""

import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from tests.bench.load import Tally, load
from tests.bench.web import all_reduce, free_port
from tests.conftest import ROOT, Server

CONNECTIONS = 64


def run() -> Iterator[str]:
    """Both faults; nothing is measured where there is no nginx."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        yield "   skipped: nginx is not here (Debian and Ubuntu: apt-get install nginx-light)"
        return
    folder = Path(tempfile.mkdtemp())
    ports = [free_port() for _ in range(3)]
    replicas = [Server(folder / f"log{port}", port) for port in ports]
    for replica in replicas:
        replica.url()
    proxy_port = free_port()
    proxy = subprocess.Popen([nginx, "-c", str(configuration(folder, ports, proxy_port)), "-g", "daemon off;"])
    try:
        wait(f"http://127.0.0.1:{proxy_port}/readyz")
        yield told("rolling restart", under_load(proxy_port, lambda: rolling(replicas, ports, folder)))
        yield told("replica killed", under_load(proxy_port, lambda: killed(replicas, ports, folder)))
    finally:
        proxy.terminate()
        proxy.wait(10)
        for replica in replicas:
            replica.stop()


def configuration(folder: Path, ports: list[int], proxy_port: int) -> Path:
    """The committed configuration, with three ports of this machine in place of the engine's names."""
    text = (ROOT / "deploy/nginx.conf").read_text()
    for here, there in (("/tmp/", f"{folder}/"), ("/dev/stderr", f"{folder}/errors"), ("8080", str(proxy_port))):
        text = text.replace(here, there)
    text = re.sub(r"^\s*resolver .*$", "", text, flags=re.MULTILINE)
    own = re.search(r"^\s*server replica:8000 resolve(.*)$", text, re.MULTILINE)
    assert own is not None
    text = text.replace(own[0], "\n".join(f"    server 127.0.0.1:{port}{own[1]}" for port in ports))
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


def under_load(port: int, change: Callable[[], None]) -> Tally:
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
        found = load(port, all_reduce("/api/v1"), CONNECTIONS, 2)
        total.seconds += found.seconds
        total.broken += found.broken
        for status, count in found.statuses.items():
            total.statuses[status] = total.statuses.get(status, 0) + count
    thread.join()
    if failed:
        raise failed[0]
    return total


def rolling(replicas: list[Server], ports: list[int], folder: Path) -> None:
    """Stop and start one after the other, as an operator does."""
    for index, port in enumerate(ports):
        replicas[index].stop()
        replicas[index] = Server(folder / f"again{port}", port)
        replicas[index].url()


def killed(replicas: list[Server], ports: list[int], folder: Path) -> None:
    """Kill one without warning, and start it again."""
    replicas[0].process.send_signal(signal.SIGKILL)
    replicas[0].process.wait()
    time.sleep(1)
    replicas[0] = Server(folder / "killed", ports[0])
    replicas[0].url()


def told(what: str, found: Tally) -> str:
    """One line."""
    good = found.statuses.get(200, 0)
    return f"   {what}, {CONNECTIONS} connections: {good:,} answers in {found.seconds:.0f} s, {found.errors} lost"
