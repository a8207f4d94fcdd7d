"""Puts the parts together: the application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Match

from app import __version__
from app.catalog.load import Catalog, load_catalog
from app.plan.scenario import check_presets
from app.web import api, assets, docs, heavy_queue, openapi, plans_together, problems, responses, settings, study
from app.web.metrics import Metrics
from app.web.middleware import RequestMiddleware
from app.web.pages import (
    brief,
    calibrate,
    catalog_cloud,
    charts,
    compare,
    cost,
    errors,
    explore,
    how,
    planner,
    reference,
    sections,
    serve,
    serve_size,
    size,
    start,
)


def create_app(options: settings.Settings | None = None, catalog: Catalog | None = None) -> FastAPI:
    """The whole application. A wrong override file or setting raises here: the start fails, not a request.

    A catalogue that is handed in is not read from its files.
    """
    options = options or settings.load()
    catalog = catalog or load_catalog(options.overrides)
    check_presets(catalog)

    app = FastAPI(
        title="Railyard",
        version=__version__,
        summary=openapi.SUMMARY,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    _share(app, options, catalog)
    # Routes are tried in this order: programs ask most often, and for answers that take least.
    app.router.routes += api.operations
    for page in (
        planner,
        start,
        sections,
        brief,
        how,
        charts,
        compare,
        serve,
        serve_size,
        size,
        explore,
        catalog_cloud,
        calibrate,
        cost,
        reference,
    ):
        app.include_router(page.router)
    app.router.routes += [assets.route, *docs.routes, *study.routes]
    _operations(app)
    app.openapi = partial(openapi.document, api.operations, options.root_path)  # type: ignore[method-assign]
    _errors(app)
    _layers(app, options)
    return app


EXPOSED = (
    *("etag", "link", "retry-after", "content-disposition", "x-request-id"),
    *("x-model-version", "x-catalog-version", "x-sweep-cursor", "x-sweep-findings"),
)
"""Headers of answers that pages of other sites may read, beside those that every page may."""


def _share(app: FastAPI, options: settings.Settings, catalog: Catalog) -> None:
    """What all requests share."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    app.state.settings = options
    app.state.metrics = Metrics(registry)
    app.state.ready = False
    app.state.catalog = catalog
    app.state.page_cache = responses.PageCache()
    app.state.heavy_queue = heavy_queue.HeavyQueue(options)
    app.state.plans_together = plans_together.PlansTogether()
    app.state.plans_in_line = plans_together.PlansInLine()
    app.state.forward = None
    versions = {"version": __version__, "catalog_version": catalog.version, "overrides": str(options.overrides or "")}
    app.state.metrics.describe(versions, app.state.heavy_queue.inside)


def _layers(app: FastAPI, options: settings.Settings) -> None:
    """What stands around the routes.

    Last added is outermost: the edge sees everything, also what the layers inside it answer by themselves.
    """
    if options.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(options.cors_origins),
            allow_methods=["GET", "POST", "HEAD"],
            allow_headers=["content-type", "if-none-match", "x-request-id"],
            expose_headers=EXPOSED,
        )
    app.add_middleware(RequestMiddleware, settings=options, metrics=app.state.metrics)


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

    @app.get("/openapi.json", include_in_schema=False)
    def openapi_json(request: Request) -> Response:
        cache: responses.PageCache = request.app.state.page_cache
        return cache.known(request) or cache.keep(request, responses.to_json(app.openapi()))


def _other_slash(request: Request) -> str:
    """Where an address leads with its last slash taken off, or set; without the host, whose name a proxy may change."""
    path = request.scope["path"]
    other = path.rstrip("/") if path.endswith("/") else path + "/"
    scope = {**request.scope, "path": other}
    if not any(route.matches(scope)[0] is not Match.NONE for route in request.app.routes):
        return ""
    return quote(other) + (f"?{request.url.query}" if request.url.query else "")


def _errors(app: FastAPI) -> None:
    """Everything that goes wrong is answered with a problem document."""

    def answer(request: Request, error: problems.ProblemError) -> Response:
        if errors.wants_page(request):
            return errors.error_page(request, error)
        return problems.response(error, request.url.path, request.scope["state"].get("request_id", ""))

    @app.exception_handler(problems.ProblemError)
    async def problem(request: Request, error: problems.ProblemError) -> Response:
        return answer(request, error)

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        unmatched = error.status_code == 404 and "endpoint" not in request.scope
        if unmatched and (address := _other_slash(request)):
            return RedirectResponse(address, 307)
        if error.status_code == 405:  # the framework names the methods of one route; an address may have several
            scopes = {method: {**request.scope, "method": method} for method in ("GET", "POST")}
            methods = [name for name, scope in scopes.items() for r in app.routes if r.matches(scope)[0] is Match.FULL]
            headers["Allow"] = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
        return answer(request, problems.status_problem(error.status_code, error.detail, headers))

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        field_problems = [
            problems.FieldProblem(pointer=problems.pointer(item["loc"][1:]), detail=problems.advice(item))
            for item in error.errors()
        ]
        return answer(request, problems.invalid(field_problems))
