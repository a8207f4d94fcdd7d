"""A load generator: many kept connections, one request after the other on each, every one another question."""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

AFTER_A_FAILURE = 0.05  # seconds until a connection asks again, as a client does: a failure at once is no rate


@dataclass
class Tally:
    """What one run of the load found."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Good answers a second."""
        return self.statuses.get(200, 0) / self.seconds

    @property
    def errors(self) -> int:
        """Everything that was not a 200."""
        return self.broken + sum(count for status, count in self.statuses.items() if status != 200)

    def quantile(self, share: float) -> float:
        """Time of an answer [s] that this share of them stays below."""
        ordered = sorted(self.times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def _connection(port: int, paths: Iterator[str], until: float, tally: Tally) -> None:
    """Ask on one connection after the other: on the next when the server closes this one, with or without notice."""
    while time.monotonic() < until:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            tally.broken += 1
            await asyncio.sleep(AFTER_A_FAILURE)
            continue
        try:
            while time.monotonic() < until:
                if not await _ask(reader, writer, next(paths), tally):
                    break
        except (OSError, asyncio.IncompleteReadError):
            tally.broken += 1
            await asyncio.sleep(AFTER_A_FAILURE)
        finally:
            writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, tally: Tally) -> bool:
    """One question; whether the connection takes another."""
    began = time.monotonic()
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    low = head.lower()
    at = low.index(b"content-length:") + 15
    await reader.readexactly(int(low[at : low.index(b"\r\n", at)]))
    tally.statuses[status] = tally.statuses.get(status, 0) + 1
    tally.times.append(time.monotonic() - began)
    if status >= 500:
        await asyncio.sleep(AFTER_A_FAILURE)
    return b"connection: close" not in low


async def _drive(port: int, paths: Iterator[str], connections: int, seconds: float) -> Tally:
    tally = Tally()
    began = time.monotonic()
    await asyncio.gather(*(_connection(port, paths, began + seconds, tally) for _ in range(connections)))
    tally.seconds = time.monotonic() - began
    return tally


def load(port: int, paths: Callable[[], Iterator[str]], connections: int, seconds: float) -> Tally:
    """Ask for so many seconds over so many connections, from a thread that has no event loop yet."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _drive(port, paths(), connections, seconds)).result()


def in_process(target: Callable[..., None], *arguments: object) -> multiprocessing.Process:
    """Start a server beside this process."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process
