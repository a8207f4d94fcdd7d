"""What one connection may do: how much it may send before that is a request, in what time, and how many may be open.

Uvicorn bounds none of these. Its HTTP protocol is told here; what is refused before the application hears of it is
answered with a problem document all the same.
"""

import asyncio
import http
import logging
from collections import deque
from typing import Any, Literal

from typing_extensions import override
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.web import problems
from app.web.metrics import Metrics
from app.web.middleware import SECURITY_HEADERS
from app.web.settings import Settings

log = logging.getLogger("railyard.connection")

BACKLOG = 512
"""Connections that the kernel completes before they are accepted here."""

ACCEPTED = 4
"""Connections that are accepted in one turn of the event loop. 512, of those who connect again and again, take 50 ms,
and a plan waits for several turns.
"""

OTHER_FILES = BACKLOG + 64
"""Open files besides the connections admitted: those accepted in one turn of the loop, and the process's own."""

FAREWELL = 2.0
"""Seconds in which a refused client may read why. What it still sends is dropped: a close would reset it at once."""

Reason = Literal["malformed", "head_size", "head_timeout", "body_timeout", "send_timeout", "crowded"]


class Connections:
    """The open connections of a server and what bounds each."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.closed = metrics.connections_closed
        self.most = room_for(settings.max_connections)
        self.most_undelivered = settings.max_query + settings.max_header_size
        self.open: set[Connection] = set()
        self.awaited: dict[Connection, None] = {}  # those that owe a part of a request, the oldest first
        metrics.connections.set_function(lambda: len(self.open))

    def make_room(self) -> bool:
        """Whether one more may be open, after the one that is missed least is closed if it must be."""
        if len(self.open) < self.most:
            return True
        victim = next(iter(self.awaited), None) or self._longest_idle()
        if victim is not None:
            victim.drop("crowded")
        return victim is not None

    def _longest_idle(self) -> "Connection | None":
        """The one that has had its last answer longest; one that is still reading it comes last."""
        idle = [
            (connection.transport.get_write_buffer_size() > 0, timer.when(), id(connection), connection)
            for connection in self.open
            if (timer := connection.timeout_keep_alive_task) is not None
        ]
        return min(idle)[-1] if idle else None


def room_for(connections: int) -> int:
    """How many connections the limit on open files leaves room for. It is raised as far as the system lets us.

    Each may ask something that the worker answers, over another.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + OTHER_FILES
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft >= wanted or soft == resource.RLIM_INFINITY:
        return connections
    room = max(1, (soft - OTHER_FILES) // 2)
    log.warning("The system allows %d open files: room for %d connections, not for %d", soft, room, connections)
    return room


class HeadWithBody:
    """A transport that sends the head of an answer with what follows it in the same turn of the event loop.

    Uvicorn writes each by itself: of a small answer that is twice the work of sending it.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        """Send it now, or in this turn of the loop where it is a head."""
        if self.head or not (data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n")):
            head, self.head = self.head, b""
            self.transport.write(head + data)
        else:
            self.head = data
            self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send the head that is held back, if there is one."""
        if self.head:
            self.write(b"")

    def write_eof(self) -> None:
        """Say that nothing follows."""
        self.flush()
        self.transport.write_eof()

    def close(self) -> None:
        """Close once all is sent."""
        self.flush()
        self.transport.close()


class Connection(HttpToolsProtocol):
    """One connection. A request arrives in two parts, head and body, and has a time for each."""

    def __init__(
        self,
        registry: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.registry = registry
        self.settings = registry.settings
        self.part: Literal["head", "body"] | None = "head"  # what the client owes
        self.undelivered = 0  # bytes fed to the parser since it last gave something away
        self.refused = False
        self.unanswered: deque[RequestResponseCycle] = deque()  # those that were followed by another request at once
        self.clock: asyncio.TimerHandle | None = None
        self.send_clock: asyncio.TimerHandle | None = None

    # What arrives ----------------------------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(HeadWithBody(transport, self.loop))  # type: ignore[arg-type]
        if self.registry.make_room():
            self.registry.open.add(self)
            self._start_clock()
        else:
            transport.write(self._answer(problems.ProblemError(503, "Too many connections. Ask again in a second.")))
            self.registry.closed.labels("crowded").inc()
            transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    @override
    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        self.undelivered += len(data)
        super().data_received(data)
        if self.refused or self.transport.is_closing():
            return
        if self.part is None and self.cycle.response_complete:  # line ends between two requests
            self.part = "head"
        if self.part is None:
            return
        if self.undelivered > self.registry.most_undelivered:
            self._refuse_size()
        elif self.clock is None:
            self._start_clock()

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.part = "head"

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > self.settings.max_headers:
            self._refuse(
                problems.ProblemError(431, f"The request has more than {self.settings.max_headers} headers."),
                "head_size",
            )
            raise ValueError("too many headers")  # stops the parser

    @override
    def on_headers_complete(self) -> None:
        most = self.settings.max_header_size
        if self.undelivered > most and sum(len(name) + len(value) for name, value in self.headers) > most:
            self._refuse_size()
            raise ValueError("headers too large")  # stops the parser
        version, hosts = self.parser.get_http_version(), sum(name == b"host" for name, _ in self.headers)
        if version not in ("1.0", "1.1") or hosts > 1 or (version == "1.1" and not hosts):
            detail = "This is not a request in HTTP/1.1: it names its host once, in the header “host”."
            self._refuse(problems.ProblemError(400, detail), "malformed")
            raise ValueError("no host, or no version")  # stops the parser
        before = self.cycle
        super().on_headers_complete()
        if before is not None and not before.response_complete:
            while self.unanswered and self.unanswered[0].response_complete:
                self.unanswered.popleft()
            self.unanswered.append(before)
        self._arrived("body")

    @override
    def on_body(self, body: bytes) -> None:
        self.undelivered = 0
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._arrived(None)

    def _arrived(self, then: Literal["body"] | None) -> None:
        self.part = then
        self.undelivered = 0
        self._stop_clock()

    # How long it may take --------------------------------------------------------------------------------------------

    def _start_clock(self) -> None:
        seconds = self.settings.body_timeout if self.part == "body" else self.settings.header_timeout
        self.clock = self.loop.call_later(seconds, self._late)
        self.registry.awaited[self] = None

    def _stop_clock(self) -> None:
        if self.clock is not None:
            self.clock.cancel()
            self.clock = None
            self.registry.awaited.pop(self, None)

    def _late(self) -> None:
        if self.flow.read_paused:  # it is we who do not read
            self._start_clock()
        elif self.part == "body":
            seconds = self.settings.body_timeout
            self._refuse(problems.ProblemError(408, f"The body took longer than {seconds:g} s."), "body_timeout")
        elif self.undelivered:
            seconds = self.settings.header_timeout
            self._refuse(problems.ProblemError(408, f"The headers took longer than {seconds:g} s."), "head_timeout")
        else:
            self.drop("head_timeout")

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_send_clock()

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_send_clock()

    def _start_send_clock(self) -> None:
        left = self.transport.get_write_buffer_size()
        self.send_clock = self.loop.call_later(self.settings.send_timeout, self._not_read, left)

    def _stop_send_clock(self) -> None:
        if self.send_clock is not None:
            self.send_clock.cancel()
            self.send_clock = None

    def _not_read(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._start_send_clock()
        else:
            self.drop("send_timeout")

    # How it ends -----------------------------------------------------------------------------------------------------

    def drop(self, reason: Reason) -> None:
        """Close at once, without a word."""
        self.registry.closed.labels(reason).inc()
        self._forget()
        self.transport.abort()

    def _forget(self) -> None:
        self._tell_application()
        self._stop_clock()
        self._stop_send_clock()
        self.registry.open.discard(self)

    def _tell_application(self) -> None:
        """That nobody listens: uvicorn tells the last request only, and that only when the socket is closed."""
        for cycle in (*self.unanswered, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    @override
    def send_400_response(self, msg: str) -> None:
        if not self.refused and not self.transport.is_closing():  # the parser also fails when it was stopped
            self._refuse(problems.ProblemError(400, "This is not a request in HTTP/1.1."), "malformed")

    def _refuse_size(self) -> None:
        if self.part == "head" and not self.headers:
            error = problems.ProblemError(
                414, f"The first line is longer than {self.registry.most_undelivered:,} bytes."
            )
        else:
            error = problems.ProblemError(
                431, f"The headers are larger than {self.settings.max_header_size:,} bytes together."
            )
        self._refuse(error, "head_size")

    def _refuse(self, error: problems.ProblemError, reason: Reason) -> None:
        """Answer in the application's place and close; without a word where an answer is under way already."""
        fields = {"client": self.client[0] if self.client else "", "status": error.problem.status, "reason": reason}
        log.info("connection refused", extra={"fields": fields})
        if self.part == "body":
            busy = self.cycle.response_started or bool(self.pipeline)
        else:
            busy = self.cycle is not None and not self.cycle.response_complete
        if busy:
            self.drop(reason)
            return
        self.registry.closed.labels(reason).inc()
        self.transport.write(self._answer(error))
        if self.part == "body":
            self._tell_application()
            self.transport.close()
            return
        self.refused = True
        self.transport.write_eof()
        self._stop_clock()
        self.clock = self.loop.call_later(FAREWELL, self.transport.abort)
        self.registry.awaited[self] = None

    def _answer(self, error: problems.ProblemError) -> bytes:
        reply = problems.response(error)
        close = (b"connection", b"close")
        headers = [*self.server_state.default_headers, *reply.raw_headers, *SECURITY_HEADERS, close]
        head = [b"HTTP/1.1 %d %s" % (reply.status_code, http.HTTPStatus(reply.status_code).phrase.encode())]
        return b"\r\n".join([*head, *(name + b": " + value for name, value in headers), b"", bytes(reply.body)])
