"""The process that answers large questions, as the service's own process sees it.

Each question goes over a connection of its own, which closes when the answer is there or its client has left. The
worker's memory, and what it computes, are apart: neither takes the interpreter from small questions.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass
from signal import SIGKILL
from socket import MSG_DONTWAIT, send_fds, socket, socketpair

from fastapi import FastAPI, Request
from prometheus_client import ProcessCollector
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from app.web.heavy_queue import UNTIL_STUCK
from app.web.metrics import Metrics
from app.web.middleware import Message
from app.web.problems import ProblemError
from app.web.worker_process import FAILED, fork, read, spawn, write

log = logging.getLogger("railyard.worker")

FORWARDED = (
    "type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers",
    "client", "server",
)  # fmt: skip
"""What the worker is told of a request, besides its body and id."""


@dataclass(frozen=True)
class Process:
    """One worker process: its number, and where it takes questions."""

    pid: int
    questions: socket


class Worker:
    """Where large questions are answered, by one process after another."""

    def __init__(self, app: FastAPI) -> None:
        """Fork the first process: before there is a thread."""
        self.app = app
        self.metrics: Metrics = app.state.metrics
        self.inside: MutableMapping[str, int] = app.state.heavy_queue.inside
        ours, theirs = socketpair()
        with theirs:
            self.process = Process(fork(app, theirs, ours), ours)
        self.former: set[int] = set()
        self.farewells: set[asyncio.Task[None]] = set()
        ProcessCollector("railyard_worker", lambda: str(self.process.pid), registry=self.metrics.registry)
        app.state.forward = self.answer

    def end(self) -> None:
        """End all that is left: nobody waits for an answer any more."""
        for pid in (*self.former, self.process.pid):
            os.kill(pid, SIGKILL)
            os.waitpid(pid, 0)

    async def answer(self, request: Request, body: bytes) -> "Forwarded":
        """What the worker answers to a request."""
        process, connection = self._connected()
        reader, writer = await asyncio.open_connection(sock=connection)
        question = Question(self, process, reader, writer)
        try:
            state = {"request_id": request.scope["state"].get("request_id", "")}
            write(writer, ({name: request.scope[name] for name in FORWARDED} | {"state": state}, body))
            return Forwarded(question, await question.part())
        except ConnectionError:
            question.leave()
            self.replace(process)
            raise _failed() from None
        except BaseException:
            question.leave()
            raise

    def _connected(self) -> tuple[Process, socket]:
        """A connection to the process, or to a new one where that has died."""
        ours, theirs = socketpair()
        with theirs:
            try:
                try:
                    send_fds(self.process.questions, [b"?"], [theirs.fileno()], MSG_DONTWAIT)
                except ConnectionError:
                    log.error("the worker has died: there is a new one")
                    self.replace(self.process)
                    send_fds(self.process.questions, [b"?"], [theirs.fileno()], MSG_DONTWAIT)
            except OSError:
                ours.close()
                raise _failed() from None
        return self.process, ours

    def replace(self, process: Process, *, at_once: bool = False) -> None:
        """Have a new process from now on. The old one answers what it has been asked, unless it is ended at once."""
        if at_once and process.pid in (*self.former, self.process.pid):
            os.kill(process.pid, SIGKILL)
        if process is self.process:
            process.questions.close()
            self.former.add(process.pid)
            ours, theirs = socketpair()
            with theirs:
                self.process = Process(spawn(self.app, theirs), ours)
        self.former = {pid for pid in self.former if not os.waitpid(pid, os.WNOHANG)[0]}


class Question:
    """A request that a process of the worker answers, part by part."""

    def __init__(
        self, worker: Worker, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.worker = worker
        self.process = process
        self.reader = reader
        self.writer = writer
        self.answered = False

    async def part(self) -> Message:
        """The next message of the answer. Until it comes, the question computes or waits its turn."""
        inside = self.worker.inside
        inside["heavy"] += 1
        try:
            message: Message = await read(self.reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ConnectionError("the worker has ended before its answer") from None
        finally:
            inside["heavy"] -= 1
        if message["type"] == FAILED:
            raise RuntimeError("the worker failed at this question; its log says how")
        if "counted" in message:
            self.answered = True
            self.worker.metrics.add(message["counted"])
        return message

    def leave(self) -> None:
        """Nobody waits for more."""
        if self.answered:
            self.writer.close()
        else:
            farewell = asyncio.ensure_future(self._say_so())
            self.worker.farewells.add(farewell)
            farewell.add_done_callback(self.worker.farewells.discard)

    async def _say_so(self) -> None:
        """Tell the process that nobody waits; one that does not end the connection then has stopped to listen."""
        try:
            self.writer.write_eof()
            async with asyncio.timeout(UNTIL_STUCK):
                while await self.reader.read(2**16):
                    pass
        except TimeoutError:
            log.error("the worker does not listen any more: there is a new one")
            self.worker.replace(self.process, at_once=True)
        except OSError:  # it has ended
            pass
        finally:
            self.writer.close()


class Forwarded(StreamingResponse):
    """The worker's answer, passed on as it comes and as fast as it is read."""

    def __init__(self, question: Question, start: Message) -> None:
        super().__init__(self._parts(), start["status"])
        self.raw_headers = start["headers"]
        self.question = question

    async def _parts(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await self.question.part()
            more = message.get("more_body", False)
            yield message["body"]

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.question.leave()


def _failed() -> ProblemError:
    return ProblemError(
        503, "Large questions cannot be answered just now. Ask again in a second.", headers={"retry-after": "1"}
    )
