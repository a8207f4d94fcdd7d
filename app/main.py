"""Puts the parts together: the application, and the server that runs it."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from socket import socket
from time import monotonic
from types import FrameType

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Match

from app import __version__, api, assets, catalog, content, docs, logs, openapi, pages, problems, settings
from app.connections import BACKLOG, Connection, Connections
from app.middleware import Edge, Metrics

log = logging.getLogger("railyard")


def create_app(options: settings.Settings | None = None) -> FastAPI:
    """The whole application. A wrong override file or setting raises here: the start fails, not a request."""
    options = options or settings.load()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    metrics = Metrics(registry)
    loaded = catalog.use(options.overrides)

    app = FastAPI(
        title="Railyard",
        version=__version__,
        summary="Sizing calculator for GPU clusters",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan,
    )
    app.state.settings = options
    app.state.metrics = metrics
    app.state.ready = False
    app.state.catalog = loaded
    app.state.gate = api.Gate(options)
    # Routes are tried in this order: programs ask most often, and for answers that take least.
    app.router.routes += api.direct
    app.include_router(api.router)
    app.include_router(pages.router)
    app.include_router(content.router)
    app.router.routes += [assets.route, *docs.routes]
    _operations(app)
    app.openapi = partial(openapi.document, app)  # type: ignore[method-assign]
    _errors(app)
    # Last added is outermost: the edge sees everything, also what the layers inside it answer by themselves.
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST", "HEAD"],
            allow_headers=["content-type", "x-request-id"],
            expose_headers=["etag", "x-request-id"],
        )
    app.add_middleware(Edge, settings=options, metrics=metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.ready = True
    yield
    app.state.ready = False


def _operations(app: FastAPI) -> None:
    """What the people who run this ask it."""

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        return PlainTextResponse("ok", headers={"cache-control": "no-store"})

    @app.get("/readyz", include_in_schema=False)
    async def readyz(request: Request) -> Response:
        if not request.app.state.ready:
            raise problems.ProblemError(
                503, "Starting or stopping. Ask again in a second.", headers={"retry-after": "1"}
            )
        return PlainTextResponse("ready", headers={"cache-control": "no-store"})

    @app.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        text = generate_latest(request.app.state.metrics.registry)
        kind = "text/plain; version=0.0.4; charset=utf-8"
        return Response(text, media_type=kind, headers={"cache-control": "no-store"})

    @cache
    def document() -> bytes:
        return api.to_json(app.openapi())

    @app.get("/openapi.json", include_in_schema=False)
    def openapi_json(request: Request) -> Response:
        return api.reply(request, document())


def _errors(app: FastAPI) -> None:
    """Everything that goes wrong is answered with a problem document."""

    def answer(request: Request, error: problems.ProblemError) -> Response:
        if pages.wants_page(request):
            return pages.error_page(request, error)
        return problems.response(error, request.url.path, request.scope["state"].get("request_id", ""))

    @app.exception_handler(problems.ProblemError)
    async def problem(request: Request, error: problems.ProblemError) -> Response:
        return answer(request, error)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the framework names the methods of one route; an address may have several
            scopes = {method: {**request.scope, "method": method} for method in ("GET", "POST")}
            methods = [name for name, scope in scopes.items() for r in app.routes if r.matches(scope)[0] is Match.FULL]
            headers["Allow"] = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
        return answer(request, problems.status_problem(error.status_code, error.detail, headers))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        found = [
            problems.FieldProblem(pointer=problems.pointer(item["loc"][1:]), detail=problems.advice(item))
            for item in error.errors()
        ]
        return answer(request, problems.invalid(found))


def serve(host: str | None = None, port: int | None = None) -> int:
    """Run the server until it is told to stop. Returns the exit status."""
    try:
        options = settings.load()
        app = create_app(options)
    except (settings.SettingsError, catalog.CatalogError) as error:
        print(f"railyard: {error}", file=sys.stderr)
        return 2
    host, port = host or options.host, options.port if port is None else port
    logs.set_up(options.log_level, options.log_format)
    _one_heap()
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
            backlog=BACKLOG,
            timeout_keep_alive=options.keep_alive,
            timeout_graceful_shutdown=options.shutdown_grace,
        ),
        app,
    )
    try:
        server.run()
    except KeyboardInterrupt:
        return 130
    return 0 if server.started else 1


ALLOCATOR = {-8: 1, -3: 4 << 20, -1: 64 << 20}
"""Of glibc's malloc.h: M_ARENA_MAX, M_MMAP_THRESHOLD [B], M_TRIM_THRESHOLD [B]."""


def _one_heap() -> None:
    """Ask the C library for one heap for all threads, which keeps what it has while the next request may need it.

    By default glibc has a heap for each thread, and each grows to what its largest request took; and it gives arrays
    back to the system at once and asks for them again. Other C libraries have no such settings.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for option, value in ALLOCATOR.items():
        set_option(option, value)


LAST_REQUESTS = 0.2  # seconds from the last connection taken until its request has arrived


class Server(uvicorn.Server):
    """Uvicorn, which says where it can be found once it can, and takes leave before it goes."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self.app = app
        self.take_leave = False

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started:
            return
        for server in self.servers:
            for listener in server.sockets:
                host, port = listener.getsockname()[:2]
                host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104
                log.info("Railyard is at http://%s:%d/", host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.take_leave = sig == signal.SIGTERM  # not at Ctrl-C: there a person waits for the prompt
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Answer on for a while, each answer the last on its connection, before the last connections are closed.

        Who sends requests here learns only after a while that this process stops: a balancer from the probe, a client
        from the `connection: close`. A server that stops to listen at once resets what they send until then.
        """
        drain = self.app.state.settings.shutdown_drain
        if self.take_leave and drain:
            self.app.state.ready = False
            self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
            log.info("Stopping: taking requests for another %g s", drain)
            await self._sleep(drain)
            await self.close_listeners()
            await self._sleep(LAST_REQUESTS)
        await super().shutdown(sockets)

    async def close_listeners(self) -> None:
        """Take no more connections, but those that the kernel has taken already: closing would reset them."""
        copies = [socket(fileno=os.dup(one.fileno())) for server in self.servers for one in server.sockets]
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
