"""The JSON routes: each reads one question, asks for the answer, and writes it as it is.

Answers to GET carry a strong ETag made from the question and the versions, so an unchanged answer costs neither side
anything.
"""

import asyncio
import csv
import gzip
import hashlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import islice, product
from math import prod
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette import routing
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Scope

from app import __version__, answers, catalog, problems, reading
from app.catalog import Catalog
from app.exports import safe
from app.plan.evaluation import evaluate
from app.plan.hardware import look_up
from app.plan.parts import Plan
from app.problems import FieldProblem, ProblemError
from app.scenario import Scenario
from app.settings import Settings
from app.size import Question
from app.sweep import Grid, columns, row, sweep

PREFIX = "/api/v1"
MOST_PAIRS = 256

T = TypeVar("T")
Route = Callable[[Request], Awaitable[Response]]


# Writing -------------------------------------------------------------------------------------------------------------


def to_json(value: object) -> bytes:
    """Any answer as JSON: dataclasses as they are, NaN and infinity as null."""
    return orjson.dumps(value, _plain, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def plan_json(scenario: Scenario) -> bytes:
    """The plan of a scenario as the API writes it."""
    return to_json(evaluate(scenario, catalog.current()))


@cache
def _build() -> bytes:
    """A hash of the code, so that an ETag never outlives a change to the formulas."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


def _tag(request: Request) -> str:
    """The strong validator of an answer: the question, the versions and the code behind it."""
    loaded: Catalog = request.app.state.catalog
    digest = hashlib.blake2b(_build(), digest_size=12)
    for part in (loaded.version, request.scope["path"]):
        digest.update(part.encode() + b"\0")
    digest.update(request.scope["query_string"])
    return digest.hexdigest()


def _known(request: Request) -> Response | None:
    """The 304, when the client's copy is the answer."""
    if request.method != "GET" or "if-none-match" not in request.headers:
        return None
    tag, given = _tag(request), request.headers["if-none-match"]
    if tag not in given:
        return None
    suffix = "-gzip" if f"{tag}-gzip" in given else ""
    return Response(status_code=304, headers={"etag": f'"{tag}{suffix}"', **CACHING})


CACHING = {"cache-control": "private, no-cache", "vary": "accept-encoding"}


def reply(request: Request, content: bytes, media_type: str = "application/json") -> Response:
    """The answer, compressed for who asks for that, tagged where it can be asked again."""
    headers = dict(CACHING)
    suffix = ""
    if len(content) > 1000 and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 1, mtime=0)  # level 4 takes twice the time and spares a tenth of the bytes
        headers["content-encoding"] = "gzip"
        suffix = "-gzip"
    if request.method == "GET":
        headers["etag"] = f'"{_tag(request)}{suffix}"'
    return Response(content, headers=headers, media_type=media_type)


# Computing -----------------------------------------------------------------------------------------------------------


Stopped = Callable[[], bool]
"""Whether nobody waits for the answer any more: long work asks between its parts, and ends."""

QUICK_HOSTS = 2**14
"""Ports that nodes have on a fabric up to which a plan without a search takes a few milliseconds."""
LIGHT_HOSTS = 2**18
"""Ports beyond which a fabric takes as long as many others: it waits its turn."""
LIGHT_PAIRS = 16
"""Pairs of message and GPUs beyond which an all-reduce answer waits its turn."""
LIGHT_VALUES = 1_000
"""Values of a sweep's grid beyond which even checking them waits its turn."""


class Gate:
    """Where questions compute: heavy ones in threads of their own, only so many at a time; the others in one beside.

    More threads would share the one interpreter, and pay for the sharing. A thread is taken until its work has ended,
    also where nobody waits for it any more; work that has not begun by then never does.
    """

    def __init__(self, settings: Settings) -> None:
        self.heavy = ThreadPoolExecutor(settings.heavy_workers, "heavy")
        self.light = ThreadPoolExecutor(1, "light")
        self.most = settings.heavy_workers + settings.heavy_queue
        self.inside = 0
        self.streams = asyncio.Semaphore(1)

    async def run(self, work: Callable[[], T], *, heavy: bool) -> T:
        """Work in a thread; a heavy question is refused at once when too many wait already."""
        if heavy and self.inside >= self.most:
            raise ProblemError(
                503, "Too many large questions at once. Ask again in a few seconds.", headers={"retry-after": "5"}
            )
        return await (self.next(work) if heavy else _in_thread(self.light, work))

    async def next(self, work: Callable[[], T]) -> T:
        """Work on a heavy question that has been let in: it waits its turn however many others do."""
        self.inside += 1
        try:
            return await _in_thread(self.heavy, work)
        finally:
            self.inside -= 1

    async def stream(self, parts: Iterator[str]) -> AsyncIterator[bytes]:
        """A long file in parts of a few milliseconds each. Files take turns, beside the light questions.

        Nothing is taken while the client reads, and nothing is made once it has left.
        """
        while True:
            async with self.streams:
                part = await _in_thread(self.light, partial(next, parts, ""))
            if not part:
                return
            yield part.encode()


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)


async def compute(request: Request, work: Callable[[Stopped], T], *, heavy: bool = False) -> T:
    """Run work beside the event loop, for no longer than a request may take and its client waits.

    Waiting for a turn is part of the time. When it is over, or the client leaves, the work is told so.
    """
    gate: Gate = request.app.state.gate
    seconds: float = request.app.state.settings.time_limit
    stopped = Event()
    answer = asyncio.ensure_future(gate.run(partial(work, stopped.is_set), heavy=heavy))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if leaving.done():
            await leaving
            raise ClientDisconnect
    finally:
        stopped.set()
        answer.cancel()
        leaving.cancel()
    raise ProblemError(
        503,
        f"Not finished within {seconds:g} s, waiting for others included. Ask for less, give the parallelism, or ask "
        "again later.",
        headers={"retry-after": "60"},
    )


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def hosts(scenario: Scenario, loaded: Catalog) -> int:
    """Ports that the nodes of a scenario have on its fabric."""
    hardware = look_up(scenario, loaded)
    return hardware.nodes * max(hardware.nics_per_node, 1)


def is_heavy(scenario: Scenario, loaded: Catalog) -> bool:
    """Whether what is asked about one scenario must wait its turn."""
    return hosts(scenario, loaded) > LIGHT_HOSTS


def _quick(scenario: Scenario, loaded: Catalog) -> bool:
    """Whether a plan needs no search and its fabric is small: then it is quicker at once than by way of a thread."""
    given = None not in (scenario.tensor_parallel, scenario.pipeline_parallel, scenario.micro_batch)
    return given and hosts(scenario, loaded) <= QUICK_HOSTS


def _count(request: Request, endpoint: str, plans: int = 1) -> None:
    request.app.state.metrics.evaluations.labels(endpoint).inc(plans)


def _written(request: Request, answer: Any) -> Response:
    """An answer of the interface, written and compressed."""
    return reply(request, to_json(answers.under(answer, request.app.state.settings.root_path)))


# Routes --------------------------------------------------------------------------------------------------------------

router = APIRouter(prefix=PREFIX, tags=["Railyard"])
direct: list[routing.BaseRoute] = []
"""The questions of `_both` once more, for serving: they read their fields themselves, the framework need not look."""
ERRORS = problems.responses(400, 413, 414, 415, 422, 500, 503)


def _both(path: str, name: str, answer: Any) -> Callable[[Route], Route]:
    """Register a question that can be asked by GET and by POST."""

    def register(route: Route) -> Route:
        for method in ("GET", "POST"):
            router.add_api_route(
                path,
                route,
                methods=[method],
                operation_id=f"{method.lower()}_{name}",
                name=f"{method.lower()}_{name}",
                summary=(route.__doc__ or "").partition("\n")[0].rstrip("."),
                response_model=answer,
                responses=ERRORS,
            )
        direct.append(_Direct(PREFIX + path, route, methods=["GET", "POST"], name=name))
        return route

    return register


class _Direct(routing.Route):
    """A route without the framework's parameters. Like its own it leaves its mark, which the metrics read."""

    def matches(self, scope: Scope) -> tuple[routing.Match, Scope]:
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not routing.Match.NONE else child


async def _fields(request: Request, repeatable: frozenset[str] = frozenset()) -> tuple[dict[str, Any], bool]:
    """The fields of the question, and whether they have JSON's types."""
    if request.method == "POST":
        return await reading.body(request), True
    return reading.query(request.scope["query_string"].decode("latin-1"), repeatable), False


@_both("/plan", "plan", Plan)
async def plan(request: Request) -> Response:
    """Everything about one cluster and one model.

    Sizes the fabric, times the collectives and the training step, names the bottleneck, and prices it all.
    """
    if known := _known(request):
        return known
    fields, typed = await _fields(request)
    scenario = reading.check(Scenario, fields, strict=typed)
    loaded: Catalog = request.app.state.catalog
    _count(request, "plan")
    if _quick(scenario, loaded):
        return _written(request, evaluate(scenario, loaded))
    return await compute(
        request, lambda _: _written(request, evaluate(scenario, loaded)), heavy=is_heavy(scenario, loaded)
    )


REPEATABLE = frozenset({"message", "gpus"})


@_both("/all-reduce", "all_reduce", answers.ReduceAnswer)
async def all_reduce(request: Request) -> Response:
    """The time of an all-reduce, by message and number of GPUs.

    Both may repeat: `results` holds one entry for each pair.
    """
    if known := _known(request):
        return known
    fields, typed = await _fields(request, REPEATABLE)
    pairs = _pairs(fields)
    loaded: Catalog = request.app.state.catalog

    def work(_: Stopped) -> Response:
        scenarios = [reading.check(Scenario, {**fields, **pair}, strict=typed) for pair in pairs]
        return _written(request, answers.reduce_answer(scenarios, loaded))

    quick = len(pairs) < 4
    answer = work(lambda: False) if quick else await compute(request, work, heavy=len(pairs) > LIGHT_PAIRS)
    _count(request, "all-reduce", len(pairs))
    return answer


def _pairs(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of each pair of a message and a number of GPUs."""
    axes = {name: fields[name] for name in ("message", "gpus") if isinstance(fields.get(name), list | tuple)}
    empty = [name for name, values in axes.items() if not values]
    if empty:
        raise problems.invalid([FieldProblem(pointer=f"#/{empty[0]}", detail="Give at least one value.")])
    blank = [(name, number) for name, values in axes.items() for number, value in enumerate(values) if value is None]
    if blank:
        detail = "Give a value; leave the field out for its default."
        raise problems.invalid([FieldProblem(pointer=problems.pointer(place), detail=detail) for place in blank[:100]])
    pairs = prod(len(values) for values in axes.values())
    if pairs > MOST_PAIRS:
        detail = f"{pairs:,} pairs of message and gpus; give at most {MOST_PAIRS}."
        raise problems.invalid([FieldProblem(pointer=f"#/{next(iter(axes))}", detail=detail)])
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


@_both("/fabric", "fabric", answers.FabricAnswer)
async def fabric(request: Request) -> Response:
    """Switches, links, bisection bandwidth, power and price of the network."""
    if known := _known(request):
        return known
    fields, typed = await _fields(request)
    scenario = reading.check(Scenario, fields, strict=typed)
    loaded: Catalog = request.app.state.catalog
    _count(request, "fabric")
    return await compute(
        request, lambda _: _written(request, answers.fabric_answer(scenario, loaded)), heavy=is_heavy(scenario, loaded)
    )


@router.post(
    "/compare",
    operation_id="compare",
    response_model=answers.CompareAnswer,
    responses=ERRORS,
    summary="Plans side by side",
)
async def compare(request: Request) -> Response:
    """Two to four scenarios: their plans, what differs, by how much and why."""
    given = await reading.body(request)
    strangers = given.keys() - {"scenarios"}
    if strangers:
        raise problems.invalid(
            [
                FieldProblem(pointer=problems.pointer([name]), detail="There is no such field; give “scenarios”.")
                for name in sorted(strangers)[:100]
            ]
        )
    items = given.get("scenarios")
    if not isinstance(items, list) or not 2 <= len(items) <= 4 or not all(isinstance(item, dict) for item in items):
        raise problems.invalid([FieldProblem(pointer="#/scenarios", detail="Give a list of 2 to 4 scenarios.")])
    scenarios = [
        reading.check(Scenario, item, strict=True, place=("scenarios", number)) for number, item in enumerate(items)
    ]
    loaded: Catalog = request.app.state.catalog
    _count(request, "compare", len(scenarios))
    return await compute(request, lambda _: _written(request, answers.compare_answer(scenarios, loaded)), heavy=True)


CANDIDATES = frozenset({"gpu", "scale_out"})


@_both("/size", "size", answers.SizeAnswer)
async def size(request: Request) -> Response:
    """Which cluster trains this model by this date for this money.

    `gpu` and `scale_out` may repeat: they are the candidates.
    """
    if known := _known(request):
        return known
    fields, typed = await _fields(request, CANDIDATES)
    fields = {
        name: (fields[name],) if isinstance(fields[name], str) and name in CANDIDATES else fields[name]
        for name in fields
    }
    question = reading.check(Question, fields, strict=typed)
    settings: Settings = request.app.state.settings
    loaded: Catalog = request.app.state.catalog
    _count(request, "size")
    until = monotonic() + settings.time_limit

    def work(stopped: Stopped) -> Response:
        return _written(request, answers.size_answer(question, loaded, share_of(until), stopped))

    return await compute(request, work, heavy=True)


def share_of(until: float) -> float:
    """Seconds that a question may try clusters for, so that its answer is there by ``until``."""
    return 0.8 * max(until - monotonic(), 0.0)


@router.post("/sweep", operation_id="sweep", responses=ERRORS, summary="A grid of scenarios, streamed")
async def sweep_grid(request: Request) -> Response:
    """One row for each point of a grid over any fields, as NDJSON, or as CSV for who accepts text/csv.

    A sweep that takes longer than one request may, or has more points, is cut off: its last row says so in `error`.
    """
    given = await reading.body(request)
    grid = reading.check(Grid, given, strict=True)
    reading.check(Scenario, grid.base, strict=True, place=("base",))
    values = sum(map(len, grid.grid.values()))
    if values > MOST_VALUES:
        detail = f"The grid has {values:,} values; give at most {MOST_VALUES:,}."
        raise problems.invalid([FieldProblem(pointer="#/grid", detail=detail)])
    await compute(request, partial(_check_values, grid), heavy=values > LIGHT_VALUES)
    settings: Settings = request.app.state.settings
    until = monotonic() + settings.time_limit
    rows = islice(sweep(grid), settings.max_sweep_points)
    first = await compute(request, lambda _: _batch(rows, until), heavy=True)
    _count(request, "sweep", min(grid.points(), settings.max_sweep_points))
    headers = {
        "cache-control": "no-store",
        "x-model-version": __version__,
        "x-catalog-version": request.app.state.catalog.version,
    }
    as_csv = "text/csv" in request.headers.get("accept", "")
    kind = "text/csv; charset=utf-8" if as_csv else "application/x-ndjson"
    lines = _lines(grid, _batches(first, rows, request.app.state.gate, until), settings, as_csv)
    return StreamingResponse(lines, headers=headers, media_type=kind)


MOST_VALUES = 100_000
Rows = list[dict[str, Any]]


def _check_values(grid: Grid, stopped: Stopped) -> None:
    """Check each value of the grid: what is wrong is said before the first row."""
    wrong: list[FieldProblem] = []
    for name, several in grid.grid.items():
        for number, value in enumerate(several):
            if stopped():
                return
            try:
                reading.check(Scenario, {name: value}, strict=True)
            except ProblemError as error:
                place = ("grid", name, number) if name in Scenario.model_fields else ("grid", name)
                wrong.append(FieldProblem(pointer=problems.pointer(place), detail=error.problem.errors[0].detail))
                if len(wrong) == 100 or name not in Scenario.model_fields:
                    break
    if wrong:
        raise problems.invalid(wrong[:100])


async def _batches(first: Rows, rows: Iterator[dict[str, Any]], gate: Gate, until: float) -> AsyncIterator[Rows]:
    """Rows until time is over. Sweeps take turns after each batch, and none is taken while the client reads."""
    batch = first
    while batch:
        yield batch
        try:
            async with asyncio.timeout(until - monotonic()):
                batch = await gate.next(partial(_batch, rows, until))
        except TimeoutError:
            return


async def _lines(grid: Grid, batches: AsyncIterator[Rows], settings: Settings, as_csv: bool) -> AsyncIterator[bytes]:
    """The rows of a sweep as they are written, with a last one that says where it was cut off."""
    points, done = grid.points(), 0
    if as_csv:
        yield _csv_line(columns(list(grid.grid)))
    async for batch in batches:
        done += len(batch)
        yield b"".join(_csv_line(list(one.values())) if as_csv else to_json(one) + b"\n" for one in batch)
    if done < points:
        most = done >= settings.max_sweep_points
        limit = "at the most points of one request" if most else f"after {settings.time_limit:g} s"
        text = f"Cut off {limit}: {done:,} of {points:,} points are above. Ask for the rest."
        last = row(dict.fromkeys(grid.grid), None, text)
        yield _csv_line(list(last.values())) if as_csv else to_json(last) + b"\n"


def _batch(rows: Iterator[dict[str, Any]], until: float) -> Rows:
    """Rows of about a tenth of a second."""
    batch: Rows = []
    until = min(until, monotonic() + 0.1)
    for one in rows:
        batch.append(one)
        if monotonic() > until:
            break
    return batch


def _csv_line(cells: Sequence[object]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(["" if cell is None else safe(cell) for cell in cells])
    return line.getvalue().encode()


# The catalogue -------------------------------------------------------------------------------------------------------


def _versions(loaded: Catalog) -> dict[str, str]:
    return {"model_version": __version__, "catalog_version": loaded.version}


@cache
def _catalog_json(loaded_version: str, kind: str, key: str) -> bytes:
    """A part of the catalogue as JSON; made once."""
    loaded = catalog.current()
    answer: dict[str, Any] = dict(_versions(loaded))
    if key:
        entry = loaded.kind(kind)[key]
        answer |= {"kind": kind, "key": key, "entry": entry, "permalink": f"/catalog#{kind}-{key}"}
    elif kind:
        answer |= {"kind": kind, "entries": loaded.kind(kind), "permalink": f"/catalog#{kind}"}
    else:
        answer |= {"kinds": {name: loaded.kind(name) for name in catalog.KINDS}, "permalink": "/catalog"}
    if kind and kind != "sources":
        written = to_json(answer)
        cited = {name: source for name, source in loaded.sources.items() if b'"%s"' % name.encode() in written}
        answer["sources"] = cited
    return to_json(answer)


async def _catalog(request: Request, kind: str = "", key: str = "") -> Response:
    loaded: Catalog = request.app.state.catalog
    reading.nothing(request)
    if kind and kind not in catalog.KINDS:
        raise ProblemError(404, f"There is no such kind of entry. The kinds are {', '.join(catalog.KINDS)}.")
    if key and key not in loaded.kind(kind):
        raise ProblemError(404, f"There is no such entry. {PREFIX}/catalog/{kind} lists all.")
    if known := _known(request):
        return known
    return await compute(request, lambda _: reply(request, _catalog_json(loaded.version, kind, key)))


MISSING = problems.responses(404, 422, 500)


@router.get(
    "/catalog", operation_id="get_catalog", responses=problems.responses(422, 500), summary="The whole catalogue"
)
async def get_catalog(request: Request) -> Response:
    """Every constant with its unit, range, source and status, by kind and key."""
    return await _catalog(request)


@router.get("/catalog/{kind}", operation_id="get_catalog_kind", responses=MISSING, summary="The entries of one kind")
async def get_catalog_kind(request: Request, kind: str) -> Response:
    """The entries of one kind, by key, and the sources that they cite."""
    return await _catalog(request, kind)


@router.get("/catalog/{kind}/{key}", operation_id="get_catalog_entry", responses=MISSING, summary="One entry")
async def get_catalog_entry(request: Request, kind: str, key: str) -> Response:
    """One entry and the sources that it cites."""
    return await _catalog(request, kind, key)


# Accuracy ------------------------------------------------------------------------------------------------------------


@router.get(
    "/accuracy", operation_id="get_accuracy", responses=problems.responses(422, 500, 503), summary="How far off"
)
async def get_accuracy(request: Request) -> Response:
    """Predictions held against published measurements: error, bias and coverage, overall and by group."""
    reading.nothing(request)
    if known := _known(request):
        return known
    loaded: Catalog = request.app.state.catalog

    def work(_: Stopped) -> Response:
        reports = answers.accuracy(loaded.version)
        return reply(request, to_json({**_versions(loaded), "permalink": "/accuracy", **reports}))

    made = answers.accuracy.cache_info().currsize > 0  # once for all requests, and the first may come too late for it
    return await compute(request, work, heavy=not made)
