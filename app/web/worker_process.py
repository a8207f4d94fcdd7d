"""The other processes of the service: the worker, which answers large questions, and the keeper, which forks it.

The worker is the same application once more, at a low priority and without a port. It is forked, so that what was
loaded at the start is in memory once. To fork a process that has threads is unsafe: that is why the keeper, forked
before there are any, does nothing else. Both end when the service's own process has ended, whatever ended it.
"""

import asyncio
import gc
import logging
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import recv_fds, socket
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect

from app.web import heap
from app.web.heavy_queue import HeavyQueue
from app.web.metrics import Metrics
from app.web.middleware import Message
from app.web.templating import UNTIL_WARM, warm_up

log = logging.getLogger("railyard.worker")

FAILED = "worker.failed"
"""The message in place of an answer's next part where something broke; the worker's log says what."""
LARGE = 64_000_000
"""Bytes that the worker may grow by: 45 MB are code and templates that each kind of question needs, the rest is kept of
answers. Beyond, it forgets that while others wait, and is replaced by a new one when nobody has asked for a while."""
GARBAGE = (2_000, 10, 5)
"""When the collector looks for rings, see the server's. Sooner than there: a search of clusters leaves some that are
large, and its peak is 95 MB so where it was 135."""
FIRST_TO_GO = "500"
"""Points of a thousand that the kernel adds to the worker's memory when it looks for whom to end, see proc(5)."""


# What goes between the processes --------------------------------------------------------------------------------------


def write(writer: asyncio.StreamWriter, message: Any) -> None:
    """Send one message: its length and itself. Both ends are this program."""
    data = pickle.dumps(message)
    writer.write(len(data).to_bytes(8, "big") + data)


async def read(reader: asyncio.StreamReader) -> Any:
    """The next message; an error of the connection where there is none."""
    length = int.from_bytes(await reader.readexactly(8), "big")
    return pickle.loads(await reader.readexactly(length))  # noqa: S301


# Keeper ---------------------------------------------------------------------------------------------------------------


def fork(work: Callable[..., object], *given: object) -> int:
    """Do some work in a process of its own, whose number this returns. Nothing comes after it there."""
    if pid := os.fork():
        return pid
    try:
        work(*given)
    except BaseException:
        log.exception("a process beside the service's own failed")
    finally:
        os._exit(0)


def keep(app: FastAPI, service: socket, orders: socket) -> None:
    """Fork a worker for each socket that comes with a number, and end the one whose number comes alone.

    Args:
        app: what is forked.
        service: the end of the connection that the service's own process has.
        orders: the other end.
    """
    service.close()
    for asking in (signal.SIGINT, signal.SIGTERM):  # they are for the service's own process, which ends this one
        signal.signal(asking, signal.SIG_IGN)
    workers: dict[int, int] = {}
    while True:
        order, sockets, _, _ = recv_fds(orders, 4, 1)
        workers = {number: pid for number, pid in workers.items() if not os.waitpid(pid, os.WNOHANG)[0]}
        if not order:
            break
        number = int.from_bytes(order, "big")
        if sockets:
            with socket(fileno=sockets[0]) as questions:
                workers[number] = fork(_work, app, orders, questions)
        elif number in workers:
            os.kill(workers[number], signal.SIGKILL)
    for pid in workers.values():
        os.kill(pid, signal.SIGKILL)


# Worker ---------------------------------------------------------------------------------------------------------------


def _work(app: FastAPI, orders: socket, questions: socket) -> None:
    """Answer the questions whose sockets come, until no more can come and those that have are answered."""
    orders.close()
    queue: HeavyQueue = app.state.heavy_queue
    queue.go_last()
    queue.stuck = _give_up
    queue.large = heap.own_memory() + LARGE
    gc.set_threshold(*GARBAGE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
    # The service's own process has the layers around the routes, and answers what broke.
    app.user_middleware.clear()
    app.middleware_stack = app.build_middleware_stack().app  # type: ignore[attr-defined]
    asyncio.run(_answer_all(app, questions))


def _give_up() -> None:
    """End at once: who waits hears of it, and the next question goes to a new worker."""
    log.error("a question does not end though its client has left")
    os._exit(1)


async def _answer_all(app: FastAPI, questions: socket) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    answering: set[asyncio.Task[None]] = set()
    small = heap.own_memory()

    def take() -> None:
        _, sockets, _, _ = recv_fds(questions, 1, 1)
        if sockets:
            task = loop.create_task(_answer(app, socket(fileno=sockets[0]), small))
            answering.add(task)
            task.add_done_callback(answering.discard)
        else:
            loop.remove_reader(questions)
            over.set()

    questions.sendall(os.getpid().to_bytes(4, "big"))
    loop.add_reader(questions, take)
    loop.call_later(UNTIL_WARM, app.state.heavy_queue.threads["pages"].submit, warm_up)
    await over.wait()
    if answering:
        await asyncio.wait(answering)
    os._exit(0)  # without waiting for threads whose work nobody waits for


async def _answer(app: FastAPI, connection: socket, small: int) -> None:
    """Answer one request as the application does; its client has left when the other end closes."""
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        scope, body = await read(reader)
    except asyncio.IncompleteReadError:
        writer.close()
        return
    metrics: Metrics = app.state.metrics
    left = asyncio.ensure_future(reader.read())
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        if part := next(parts, None):
            return part
        await asyncio.wait({left})
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if left.done():
            raise ClientDisconnect
        if message["type"] == "http.response.body" and not message.get("more_body"):
            message["counted"] = metrics.counted()
            message["grown"] = heap.own_memory() - small
        write(writer, message)
        await writer.drain()

    try:
        await app(scope, receive, send)
    except (ClientDisconnect, ConnectionError):
        pass
    except Exception:
        fields = {"id": scope["state"]["request_id"], "path": scope["path"]}
        log.exception("request failed", extra={"fields": fields})
        write(writer, {"type": FAILED})
    finally:
        left.cancel()
        writer.close()
