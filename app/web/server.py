"""The server: runs the application until it is told to stop, and takes leave of its clients before it goes."""

import asyncio
import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from socket import socket
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.catalog.toml_files import CatalogError
from app.plan.cheapest_design import keep_few
from app.web import heap, logs, settings
from app.web.application import create_app
from app.web.connections import ACCEPTED, BACKLOG, Connection, Connections
from app.web.preparation import prepare
from app.web.worker import Worker

log = logging.getLogger("railyard")


def serve(host: str | None = None, port: int | None = None) -> int:
    """Run the server until it is told to stop. Returns the exit status."""
    try:
        options = settings.load()
        app = create_app(options)
    except (settings.SettingsError, CatalogError) as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    host, port = host or options.host, options.port if port is None else port
    logs.set_up(options.log_level, options.log_format)
    heap.use_one()
    server = Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            loop="auto",
            http=partial(Connection, Connections(options, app.state.metrics)),  # type: ignore[arg-type]
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=options.trusted_proxies,
            backlog=ACCEPTED,
            timeout_keep_alive=options.keep_alive,
            timeout_graceful_shutdown=options.shutdown_grace,
        ),
        app,
    )
    gc.freeze()  # what the start made stays: the collector need not look through it, 0.03 s each time
    gc.set_threshold(*GARBAGE)
    sys.setswitchinterval(TURN)
    worker = Worker(app) if sys.platform == "linux" else None  # elsewhere what is loaded may not survive a fork
    if worker:
        keep_few()
    try:
        server.run()
    except KeyboardInterrupt:
        return 130
    finally:
        if worker:
            worker.end()
    return 0 if server.started else 1


GARBAGE = (30_000, 7, 20)
"""Objects that are made before the collector looks for rings, and how often it looks at older ones: by default it looks
ten times while a plan is made, a twentieth of the time. A plan leaves no rings, and each look at all that is kept
meanwhile takes some ten milliseconds."""
TURN = 0.0005
"""How long a thread keeps the interpreter where others wait for it [s]. By default it is ten times as long, and a quick
question takes several turns beside a long one; turns of less than half of this take a tenth of the time."""


LAST_REQUESTS = 0.2  # seconds from the last connection taken until its request has arrived


class Server(uvicorn.Server):
    """Uvicorn, which says where it can be found once it can, and takes leave before it goes."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self.draining = False
        self.preparing: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        self.preparing = prepare(self.app, ahead=self.app.state.forward is None)
        for server in self.servers:
            for listener in server.sockets:
                with socket(fileno=os.dup(listener.fileno())) as same:  # asyncio's own name for it cannot be told this
                    same.listen(BACKLOG)
                host, port = listener.getsockname()[:2]
                host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
                log.info("Railyard is at http://%s:%d/", host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.draining = sig == signal.SIGTERM  # not at Ctrl-C: there a person waits for the prompt
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Answer on for a while, each answer the last on its connection, before the last connections are closed.

        Who sends requests here learns only after a while that this process stops: a balancer from the probe, a client
        from the `connection: close`. A server that stops to listen at once resets what they send until then.
        """
        if self.preparing:
            self.preparing.cancel()
        drain = self.app.state.settings.shutdown_drain
        if self.draining and drain:
            self.app.state.ready = False
            self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
            log.info("Stopping: taking requests for another %g s", drain)
            await self._sleep(drain)
            await self.close_listeners()
            await self._sleep(LAST_REQUESTS)
        await super().shutdown(sockets)

    async def close_listeners(self) -> None:
        """Take no more connections, but those that the kernel has taken already: closing would reset them."""
        copies = [socket(fileno=os.dup(listener.fileno())) for server in self.servers for listener in server.sockets]
        for server in self.servers:
            server.close()
        waiting: list[socket] = []
        for copy in copies:
            copy.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    waiting.append(copy.accept()[0])
            copy.close()
        for connection in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def _sleep(self, seconds: float) -> None:
        """Wait, unless told to make haste."""
        until = monotonic() + seconds
        while not self.force_exit and (left := until - monotonic()) > 0:
            await asyncio.sleep(min(left, 0.1))
