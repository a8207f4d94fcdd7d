"""Who computes: a few heavy questions at a time, beside the event loop."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from app.catalog.load import Catalog
from app.plan.cluster import look_up
from app.plan.scenario import Scenario
from app.web import heap
from app.web.problems import ProblemError
from app.web.settings import Settings

T = TypeVar("T")


Stopped = Callable[[], bool]
"""Whether nobody waits for the answer any more: long work asks between its parts, and ends."""

BETWEEN_STEPS = 0.05
"""Seconds between steps of work that nobody waits for: a question may come."""
BEFORE_REFUSAL = 0.5
"""Seconds after which a heavy question hears that too many wait."""
LATER, LAST = 10, 19
"""By how much heavy questions come after others, and the most there is: see setpriority(2)."""
QUICK_HOSTS = 2**14
"""Ports that nodes have on a fabric up to which a plan without a search takes a few milliseconds."""
LIGHT_HOSTS = 2**18
"""Ports beyond which a fabric takes as long as many others: it waits its turn."""
LIGHT_CURVE = 2**16
"""Ports beyond which a page that shows how its fabric grows, up to that size, waits its turn."""
LIGHT_PAIRS = 16
"""Pairs of message and GPUs beyond which an all-reduce answer waits its turn."""
LIGHT_VALUES = 1_000
"""Values of a sweep's grid beyond which even checking them waits its turn."""


class HeavyQueue:
    """Where questions compute: heavy ones in threads of their own, only so many at a time; the others in two beside.

    One of these is for the interface, whose light answers take milliseconds, one for pages and files, which take
    longer. More threads would share the one interpreter, and pay for the sharing. A thread is taken until its work has
    ended, also where nobody waits for it any more; work that has not begun by then never does.
    """

    def __init__(self, settings: Settings) -> None:
        threads = {"heavy": settings.heavy_workers, "light": 1, "pages": 1}
        self.threads = {
            kind: ThreadPoolExecutor(number, kind, _go_last if kind == "heavy" else None)
            for kind, number in threads.items()
        }
        self.inside = dict.fromkeys(threads, 0)
        """How many questions of each kind compute or wait."""
        self.most = settings.heavy_workers + settings.heavy_queue
        self.streams = asyncio.Semaphore(1)

    async def run(self, work: Callable[[], T], *, heavy: bool, page: bool = False) -> T:
        """Work in a thread; a heavy question is refused when too many wait already.

        The refusal comes after a moment: who asks again at once would otherwise keep the service busy with refusing.
        """
        if heavy and self.inside["heavy"] >= self.most:
            await asyncio.sleep(BEFORE_REFUSAL)
            raise ProblemError(
                503, "Too many large questions at once. Ask again in a few seconds.", headers={"retry-after": "5"}
            )
        return await self._in_thread("heavy" if heavy else "pages" if page else "light", work)

    async def slot(self, work: Callable[[], T]) -> T:
        """Work on a heavy question that has been let in: it waits its turn however many others do."""
        return await self._in_thread("heavy", work)

    async def idle(self, work: Iterator[object]) -> None:
        """Work that nobody waits for yet, a step at a time in the heavy thread, while no question computes or waits."""
        loop, heavy, ended = asyncio.get_running_loop(), self.threads["heavy"], object()
        while True:
            await asyncio.sleep(BETWEEN_STEPS)
            if any(self.inside.values()):
                continue
            if await loop.run_in_executor(heavy, next, work, ended) is ended:
                break
        await loop.run_in_executor(heavy, heap.give_back)

    async def stream(self, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
        """A long file in parts of a few milliseconds each. Files take turns, beside the pages.

        Nothing is taken while the client reads, and nothing is made once it has left.
        """
        while True:
            async with self.streams:
                part = await self._in_thread("pages", partial(next, parts, b""))
            if not part:
                return
            yield part

    async def _in_thread(self, kind: str, work: Callable[[], T]) -> T:
        self.inside[kind] += 1
        job = partial(_and_give_back, work) if kind == "heavy" else work
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads[kind], job)
        finally:
            self.inside[kind] -= 1


def _go_last() -> None:
    """Let other threads have the processor first. On Linux a thread has a priority of its own; elsewhere all would go
    last. What a sandbox forbids is done without.
    """
    if sys.platform == "linux":
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0) + LATER, LAST))


def _and_give_back(work: Callable[[], T]) -> T:
    """Work that takes much memory for a moment, which others may have then."""
    try:
        return work()
    finally:
        heap.give_back()


async def compute(request: Request, work: Callable[[Stopped], T], *, heavy: bool = False) -> T:
    """Run work beside the event loop, for no longer than a request may take and its client waits.

    Waiting for a turn is part of the time. When it is over, or the client leaves, the work is told so.
    """
    queue: HeavyQueue = request.app.state.heavy_queue
    seconds: float = request.app.state.settings.time_limit
    stopped = Event()
    page = "/api/" not in request.scope["path"]
    answer = asyncio.ensure_future(queue.run(partial(work, stopped.is_set), heavy=heavy, page=page))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if leaving.done():
            await leaving
            raise ClientDisconnect
    finally:
        stopped.set()
        answer.cancel()
        leaving.cancel()
    raise ProblemError(
        503,
        f"Not finished within {seconds:g} s, waiting for others included. Ask for less, give the parallelism, or ask "
        "again later.",
        headers={"retry-after": "60"},
    )


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def hosts(scenario: Scenario, loaded: Catalog) -> int:
    """Ports that the nodes of a scenario have on its fabric."""
    hardware = look_up(scenario, loaded)
    return hardware.nodes * max(hardware.nics_per_node, 1)


def is_heavy(scenario: Scenario, loaded: Catalog, most: int = LIGHT_HOSTS) -> bool:
    """Whether what is asked about one scenario, which is light up to so many ports, must wait its turn."""
    return hosts(scenario, loaded) > most


def quick(scenario: Scenario, loaded: Catalog) -> bool:
    """Whether a plan needs no search and its fabric is small: then it is quicker at once than by way of a thread."""
    given = None not in (scenario.tensor_parallel, scenario.pipeline_parallel, scenario.micro_batch)
    return given and scenario.workload == "training" and hosts(scenario, loaded) <= QUICK_HOSTS
