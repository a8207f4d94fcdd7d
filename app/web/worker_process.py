"""The process that answers large questions: the same application once more, at a low priority and without a port.

The first is forked before the service has threads, so that what was loaded at the start is in memory once. To fork a
process that has threads is unsafe: one that takes its place starts anew, and is handed settings and catalogue. It ends
when the service's own process has ended, whatever ended that.
"""

import asyncio
import gc
import logging
import os
import pickle
import signal
import sys
from contextlib import suppress
from pathlib import Path
from socket import recv_fds, socket
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect

from app.web import heap, logs
from app.web.application import create_app
from app.web.heavy_queue import HeavyQueue
from app.web.metrics import Metrics
from app.web.middleware import Message
from app.web.preparation import prepare
from app.web.settings import Settings

log = logging.getLogger("railyard.worker")

FAILED = "worker.failed"
"""The message in place of an answer's next part where something broke; the worker's log says what."""
LARGE = 32_000_000
"""Bytes that the worker may grow by before it forgets what it keeps of answers: where others wait, or when nobody has
asked for a while. Code and templates of all kinds of questions take 45 MB, so that a busy worker forgets after each:
the whole service takes 289 MB then, and 345 MB with twice as much room."""
REST = 30.0
"""Seconds without a question that are a while."""
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


# How it starts --------------------------------------------------------------------------------------------------------


def fork(app: FastAPI, questions: socket, service: socket) -> int:
    """The number of a process that is a copy of this one, which has no threads yet.

    Args:
        app: what answers.
        questions: where the sockets of questions come.
        service: its other end, which is for this process alone.
    """
    if pid := os.fork():
        return pid
    try:
        service.close()
        _work(app, questions)
    except BaseException:
        log.exception("the process for large questions failed")
    finally:
        os._exit(1)


def spawn(app: FastAPI, questions: socket) -> int:
    """The number of a process that starts anew with the settings and the catalogue of an application."""
    handed = os.memfd_create("railyard", 0)
    try:
        with os.fdopen(os.dup(handed), "wb") as file:
            pickle.dump((app.state.settings, app.state.catalog), file)
        os.lseek(handed, 0, os.SEEK_SET)
        os.set_inheritable(questions.fileno(), True)
        command = [sys.executable, "-m", __name__, str(questions.fileno()), str(handed)]
        return os.posix_spawn(sys.executable, command, os.environ)
    finally:
        os.close(handed)


def main(questions: int, handed: int) -> None:
    """What such a process does, by the numbers of its open files."""
    with os.fdopen(handed, "rb") as file:
        options: Settings
        options, catalog = pickle.load(file)  # noqa: S301
    logs.set_up(options.log_level, options.log_format)
    heap.use_one()
    app = create_app(options, catalog)
    gc.freeze()
    _work(app, socket(fileno=questions))


# What it does ---------------------------------------------------------------------------------------------------------


def _work(app: FastAPI, questions: socket) -> None:
    """Answer the questions whose sockets come, until no more can come and those that have are answered."""
    for asking in (signal.SIGINT, signal.SIGTERM):  # they are for the service's own process, which ends this one
        signal.signal(asking, signal.SIG_IGN)
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
    queue: HeavyQueue = app.state.heavy_queue
    asked = 0

    def take() -> None:
        nonlocal asked
        _, sockets, _, _ = recv_fds(questions, 1, 1)
        if sockets:
            asked += 1
            task = loop.create_task(_answer(app, socket(fileno=sockets[0])))
            answering.add(task)
            task.add_done_callback(done)
        else:
            loop.remove_reader(questions)
            over.set()

    def done(task: asyncio.Task[None]) -> None:
        answering.discard(task)
        if not answering:
            loop.call_later(REST, rest, asked)

    def rest(answered: int) -> None:
        if asked == answered and queue.is_large:
            heap.forget()

    loop.add_reader(questions, take)
    preparing = prepare(app, ahead=True) if app.state.settings.work_ahead else None
    await over.wait()
    if answering:
        await asyncio.wait(answering)
    if preparing:
        preparing.cancel()
    os._exit(0)  # without waiting for threads whose work nobody waits for


async def _answer(app: FastAPI, connection: socket) -> None:
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


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
