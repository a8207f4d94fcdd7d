"""Plans that are asked for at the same time: what takes several little longer than one is worked out in one go."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, islice

from app.catalog.load import Catalog
from app.plan.evaluate import preparation, prepare_together
from app.plan.scenario import Scenario

log = logging.getLogger("railyard")

MOST = 16
"""Plans that are prepared together on the event loop, step by step: as long as a step takes nobody else is answered."""
MOST_IN_LINE = 8
"""The same in a thread: as long as that takes the first of them waits, and more gain no time."""

BETWEEN = 2
"""Rounds of the event loop between two steps or plans: what came meanwhile is read in one, answered in the other."""

DONE = object()
"""What stands for the next step where there is none left."""


class PlansTogether:
    """Plans that wait for the event loop, one after the other: quicker questions are answered in between."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Scenario, asyncio.Future[None]]] = deque()
        self.prepared = 0
        """How many of them, the first ones, are, or are about to be."""
        self.steps: Iterator[None] = iter(())
        """What is left to do for that."""

    async def turn(self, scenario: Scenario, catalog: Catalog) -> None:
        """Wait until the plans before it are made, and it is prepared with others that wait too."""
        loop = asyncio.get_running_loop()
        if not self.waiting:
            loop.call_soon(self._next, catalog)
        turn: asyncio.Future[None] = loop.create_future()
        self.waiting.append((scenario, turn))
        await turn

    def _next(self, catalog: Catalog) -> None:
        """Prepare those that wait by another step, or let the first go that is prepared."""
        done = True
        try:
            if not self.prepared:
                self.prepared = min(len(self.waiting), MOST)
                if self.prepared > 1:
                    self.steps = preparation([each for each, _ in islice(self.waiting, self.prepared)], catalog)
            done = next(self.steps, DONE) is DONE
        finally:
            if done:
                self.prepared -= 1
                _, turn = self.waiting.popleft()
                if not turn.done():  # its client has left
                    turn.set_result(None)
            if self.waiting:
                self._after(BETWEEN, catalog)

    def _after(self, rounds: int, catalog: Catalog) -> None:
        """Let the next go after so many rounds of the loop."""
        step = partial(self._after, rounds - 1) if rounds else self._next
        asyncio.get_running_loop().call_soon(step, catalog)


class PlansInLine:
    """Plans that wait for the thread of light questions: the first is prepared with those behind it."""

    def __init__(self) -> None:
        self.numbers = count()
        self.waiting: dict[int, Scenario] = {}
        """Those that are not prepared, in their order."""

    @contextmanager
    def place(self, scenario: Scenario, catalog: Catalog) -> Iterator[Callable[[], None]]:
        """A place in the line until the plan is made, with what prepares it once it is its turn, if it is not by then.

        A preparation that fails leaves each plan to itself.
        """
        number = next(self.numbers)
        self.waiting[number] = scenario
        try:
            yield partial(self._prepare, number, catalog)
        finally:
            self.waiting.pop(number, None)

    def _prepare(self, number: int, catalog: Catalog) -> None:
        first = [each for each in list(self.waiting) if each >= number][:MOST_IN_LINE]
        if number not in first:
            return
        scenarios = [scenario for each in first if (scenario := self.waiting.pop(each, None))]
        if len(scenarios) > 1:
            try:
                prepare_together(scenarios, catalog)
            except Exception:
                log.exception("Plans could not be prepared together")
