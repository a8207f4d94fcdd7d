"""What a process makes ready before anybody asks for it."""

import asyncio

from fastapi import FastAPI

from app.studies.whole_catalog import work_ahead
from app.web.heavy_queue import HeavyQueue
from app.web.templating import warm_up

UNTIL_WARM = 0.5
"""Seconds from the start until a process warms up, so that a question that was waiting for it is answered first."""


def prepare(app: FastAPI, *, ahead: bool) -> asyncio.Task[None]:
    """Make ready what the first visits need; ``ahead`` is for the process that answers large questions."""
    return asyncio.create_task(_prepare(app.state.heavy_queue, app, ahead and app.state.settings.work_ahead))


async def _prepare(queue: HeavyQueue, app: FastAPI, ahead: bool) -> None:
    await asyncio.sleep(UNTIL_WARM)
    queue.threads["pages"].submit(warm_up)
    if ahead:
        await queue.idle(work_ahead(app.state.catalog))
