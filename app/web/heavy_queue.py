"""Who computes: a few heavy questions at a time, in another process where there is one, beside the event loop."""

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic
from typing import Any, TypeVar

from fastapi import Request, Response
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
Forward = Callable[[Request, bytes], Coroutine[Any, Any, Response]]
"""Has a request with this body answered by the worker."""

BETWEEN_STEPS = 0.05
"""Seconds between steps of work that nobody waits for: a question may come."""
BETWEEN_GIVING = 2.0
"""Seconds from one time that free memory is given back to the next: it takes a millisecond or two, and plans and pages
leave 20 MB free."""
BEFORE_REFUSAL = 0.5
"""Seconds after which a heavy question hears that too many wait."""
LATER, LAST = 10, 19
"""By how much heavy questions come after others, and the most there is: see setpriority(2)."""
UNTIL_STUCK = 10.0
"""Seconds after which what computes on for nobody, and does not end, is given up."""
QUICK_HOSTS = 2**16
"""Ports that nodes have on a fabric up to which a plan without a search takes hardly longer than a small one."""
LIGHT_HOSTS = 2**18
"""Ports beyond which a fabric takes as long as many others: it waits its turn."""
LIGHT_CURVE = 2**16
"""Ports beyond which a page that shows how its fabric grows, up to that size, waits its turn."""
LIGHT_PAIRS = 16
"""Pairs of message and GPUs beyond which an all-reduce answer waits its turn."""
MUCH = 16_000_000
"""Bytes that a heavy question may leave before rings are looked for among them, which takes a tenth of a second. Python
itself counts objects, not bytes: all clusters for a job leave 70 MB in a few."""
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
        self.priority = _last()
        self.threads = {
            kind: ThreadPoolExecutor(number, kind, self.go_last if kind == "heavy" else None)
            for kind, number in threads.items()
        }
        self.inside = dict.fromkeys(threads, 0)
        """How many questions of each kind compute or wait."""
        self.most = settings.heavy_workers + settings.heavy_queue
        self.streams = asyncio.Semaphore(1)
        self.given_back = 0.0
        self.large = 0
        """Bytes of this process beyond which it forgets what it worked out while others wait; 0 where it never does."""
        self.stuck: Callable[[], object] | None = None
        """What is done where a heavy question does not end though nobody waits for it."""

    @property
    def is_large(self) -> bool:
        """Whether this process has more in memory than it may keep."""
        return bool(self.large) and heap.own_memory() > self.large

    def go_last(self) -> None:
        """Let others than this thread have the processor first. On Linux a thread has a priority of its own; elsewhere
        all would go last. What a sandbox forbids is done without.
        """
        if sys.platform == "linux":
            with suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, self.priority)

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
        await loop.run_in_executor(heavy, heap.forget if self.is_large else heap.give_back)

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
        job = self.threads[kind].submit(partial(self._heavy if kind == "heavy" else self._light, work))
        try:
            return await asyncio.wrap_future(job)
        finally:
            self.inside[kind] -= 1
            if job.running() and self.stuck:
                asyncio.get_running_loop().call_later(UNTIL_STUCK, self._look_at, job)

    def _light(self, work: Callable[[], T]) -> T:
        """Work that takes little memory; what such work left free is given back now and then."""
        try:
            return work()
        finally:
            if monotonic() > self.given_back + BETWEEN_GIVING:
                self.given_back = monotonic()
                heap.give_back()

    def _heavy(self, work: Callable[[], T]) -> T:
        """Work that takes much memory for a moment, which others may have then."""
        before = heap.own_memory()
        try:
            return work()
        finally:
            if heap.own_memory() > before + MUCH:
                gc.collect()
            heap.give_back()
            if self.is_large and self.inside["heavy"] > 1:
                heap.forget()

    def _look_at(self, job: Future[Any]) -> None:
        if job.running() and self.stuck:
            self.stuck()


def _last() -> int:
    """The priority of what comes after what has this process's."""
    return min(os.getpriority(os.PRIO_PROCESS, 0) + LATER, LAST) if sys.platform == "linux" else 0


async def compute(request: Request, work: Callable[[Stopped], Response], *, heavy: bool = False) -> Response:
    """What answers a request: the worker if it is heavy and there is one, else work beside the event loop.

    It takes no longer than a request may take and its client waits. Waiting for a turn is part of the time.
    """
    if heavy and (answer := await forwarded(request)):
        return answer
    return await compute_here(request, work, heavy=heavy)


async def forwarded(request: Request) -> Response | None:
    """The worker's answer to a request, where there is a worker: the same question is asked there from its start."""
    forward: Forward | None = request.app.state.forward
    if forward is None:
        return None
    body = await request.body()
    return await _in_time(request, forward(request, body))


async def compute_here(request: Request, work: Callable[[Stopped], T], *, heavy: bool = False) -> T:
    """What work in a thread of this process comes to. When time is over or the client leaves, it is told so."""
    queue: HeavyQueue = request.app.state.heavy_queue
    stopped = Event()
    page = "/api/" not in request.scope["path"]
    try:
        return await _in_time(request, queue.run(partial(work, stopped.is_set), heavy=heavy, page=page))
    finally:
        stopped.set()


async def _in_time(request: Request, answering: Coroutine[Any, Any, T]) -> T:
    seconds: float = request.app.state.settings.time_limit
    answer = asyncio.ensure_future(answering)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if leaving.done():
            await leaving
            raise ClientDisconnect
    finally:
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
