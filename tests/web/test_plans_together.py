"""Plans that are asked for at the same time: prepared in one go, answered each by itself."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain

import httpx
import pytest

from app.catalog.load import Catalog, load_catalog
from app.plan.scenario import Scenario
from app.web import plans_together, settings
from app.web.application import create_app
from app.web.plans_together import PlansInLine, PlansTogether
from tests.conftest import run_apart

CATALOG = load_catalog()
GIVEN = "tensor_parallel=8&pipeline_parallel=1&micro_batch=1"
STEPS = 2
"""Of a preparation, between which others are answered."""


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The GPUs of the scenarios that are prepared in one go, each time."""
    batches: list[list[int]] = []

    def prepare(scenarios: Sequence[Scenario], catalog: Catalog) -> Iterator[None]:
        batches.append([scenario.gpus for scenario in scenarios])
        return iter([None] * STEPS)

    for name in ("prepare_together", "preparation"):
        monkeypatch.setattr(plans_together, name, prepare)
    return batches


def test_plans_that_wait_are_prepared_in_one_go_some_at_a_time(prepared: list[list[int]]) -> None:
    async def ask() -> None:
        together = PlansTogether()
        several = (together.turn(Scenario(gpus=gpus), CATALOG) for gpus in range(1, plans_together.MOST + 3))
        await asyncio.gather(*several)
        await together.turn(Scenario(gpus=64), CATALOG)

    run_apart(ask())
    most = plans_together.MOST
    assert prepared == [[*range(1, most + 1)], [most + 1, most + 2]]  # and one alone by its plan


def test_what_comes_meanwhile_is_answered_before_the_next_plan(prepared: list[list[int]]) -> None:
    order: list[object] = []

    async def quick() -> None:
        order.append("quick")

    async def plan(together: PlansTogether, gpus: int, loop: asyncio.AbstractEventLoop) -> None:
        await together.turn(Scenario(gpus=gpus), CATALOG)
        order.append(gpus)
        loop.call_soon(loop.call_soon, loop.create_task, quick())  # it comes, is read, and is answered

    async def ask() -> None:
        together, loop = PlansTogether(), asyncio.get_running_loop()
        await asyncio.gather(*(plan(together, gpus, loop) for gpus in (8, 16, 24)))

    run_apart(ask())
    assert order[:5] == [8, "quick", 16, "quick", 24]


def test_what_comes_while_plans_are_prepared_is_answered_between_the_steps(prepared: list[list[int]]) -> None:
    order: list[object] = []

    async def plan(together: PlansTogether, gpus: int) -> None:
        await together.turn(Scenario(gpus=gpus), CATALOG)
        order.append(gpus)

    async def quick() -> None:
        while not order or order[-1] == "quick":
            order.append("quick")
            await asyncio.sleep(0)

    async def ask() -> None:
        together = PlansTogether()
        await asyncio.gather(*(plan(together, gpus) for gpus in (8, 16)), quick())

    run_apart(ask())
    assert prepared == [[8, 16]]
    assert order.index(8) >= STEPS * plans_together.BETWEEN


def test_a_client_that_leaves_keeps_no_other_waiting(prepared: list[list[int]]) -> None:
    async def ask() -> None:
        together = PlansTogether()
        leaving, staying = (asyncio.ensure_future(together.turn(Scenario(gpus=gpus), CATALOG)) for gpus in (8, 16))
        await asyncio.sleep(0)  # both wait now, and are prepared next
        leaving.cancel()
        await asyncio.wait_for(staying, 5)

    run_apart(ask())
    assert prepared == [[8, 16]]


def test_a_preparation_that_fails_leaves_each_plan_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scenarios: Sequence[Scenario], catalog: Catalog) -> Iterator[None]:
        yield
        raise ArithmeticError

    monkeypatch.setattr(plans_together, "preparation", fail)
    errors: list[object] = []

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
        together = PlansTogether()
        await asyncio.wait_for(asyncio.gather(*(together.turn(Scenario(gpus=gpus), CATALOG) for gpus in (8, 16))), 5)

    run_apart(ask())
    assert [type(error) for error in errors] == [ArithmeticError]  # which is logged, and nobody waits for ever


async def asked_at_once(queries: Iterable[str]) -> list[httpx.Response]:
    """What the interface answers to questions for plans that come at once."""
    transport = httpx.ASGITransport(create_app(settings.Settings(access_log=False)))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await asyncio.gather(*(client.get(f"/api/v1/plan?{query}") for query in queries))


def test_the_interface_prepares_plans_that_come_at_once_together(prepared: list[list[int]]) -> None:
    sizes = [64, 128, 256]
    answers = run_apart(asked_at_once(f"gpus={gpus}&{GIVEN}" for gpus in sizes))
    assert [answer.json()["cluster"]["gpus"] for answer in answers] == sizes
    assert prepared == [sizes]


def test_plans_in_line_for_a_thread_are_prepared_with_those_behind_them(prepared: list[list[int]]) -> None:
    line, most = PlansInLine(), plans_together.MOST_IN_LINE
    with ExitStack() as stack:
        places = [stack.enter_context(line.place(Scenario(gpus=gpus), CATALOG)) for gpus in range(1, most + 4)]
        with line.place(Scenario(gpus=99), CATALOG):
            pass  # its client has left
        for prepare in places:
            prepare()
        last = stack.enter_context(line.place(Scenario(gpus=64), CATALOG))
        last()
    assert prepared == [[*range(1, most + 1)], [*range(most + 1, most + 4)]]  # and one alone by its plan
    assert not line.waiting


def test_a_line_that_cannot_be_prepared_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(scenarios: Sequence[Scenario], catalog: Catalog) -> None:
        raise ArithmeticError

    monkeypatch.setattr(plans_together, "prepare_together", fail)
    line = PlansInLine()
    with line.place(Scenario(gpus=8), CATALOG) as first, line.place(Scenario(gpus=16), CATALOG) as second:
        first()
        second()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ArithmeticError]


def test_the_interface_prepares_plans_together_whose_parallelism_is_searched(prepared: list[list[int]]) -> None:
    sizes = [64, 128, 256, 512]
    answers = run_apart(asked_at_once(f"gpus={gpus}" for gpus in sizes))
    assert [answer.json()["cluster"]["gpus"] for answer in answers] == sizes
    together = [*chain.from_iterable(prepared)]
    assert len(together) > 1  # the first may have begun by itself
    assert together == [gpus for gpus in sizes if gpus in together]
