"""The JSON routes: each reads one question, asks for the answer, and writes it as it is.

Answers to GET carry a strong ETag made from the question and the versions, so an unchanged answer costs neither side
anything.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping
from functools import partial
from itertools import islice, product
from math import prod
from time import monotonic
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from app import __version__
from app.catalog.load import Catalog
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.serving_sizing import ServeSizeQuestion
from app.studies.sizing import Question
from app.studies.sweep import Grid, row, sweep, unusual
from app.web import answers, catalog_lists, cursors, problems, requests, row_formats
from app.web.answer_schemas import Schema
from app.web.heavy_queue import (
    LIGHT_PAIRS,
    LIGHT_VALUES,
    HeavyQueue,
    Stopped,
    compute,
    compute_here,
    forwarded,
    is_heavy,
    quick,
)
from app.web.openapi import MOST_PAIRS, MOST_VALUES, Operation
from app.web.problems import FieldProblem, ProblemError
from app.web.responses import JSON, PageCache, not_modified, reply, to_json
from app.web.row_formats import ARROW, NDJSON, RowFormat, Rows
from app.web.selection import PARTS, Selection, selection
from app.web.settings import Settings

PREFIX = "/api/v1"
Asked = TypeVar("Asked", bound=Scenario)


def _count(request: Request, endpoint: str, plans: int = 1) -> None:
    request.app.state.metrics.evaluations.labels(endpoint).inc(plans)


def _written(request: Request, answer: Any, selected: Selection) -> Response:
    """The parts that are selected of an answer of the interface, written and compressed."""
    return reply(request, _json(request, answer, selected))


def _json(request: Request, answer: Any, selected: Selection | None = None) -> bytes:
    """An answer as JSON, its links below the sub-path."""
    linked = answers.with_root_path(answer, request.app.state.settings.root_path)
    return selected.text(linked) if selected else to_json(linked)


# Routes --------------------------------------------------------------------------------------------------------------


async def _fields(
    request: Request, answer: type, several: Mapping[str, int] = requests.ONCE_EACH
) -> tuple[dict[str, Any], bool, Selection]:
    """The fields of the question, whether they have JSON's types, and what is selected of the answer."""
    query = requests.address(request, {**several, **PARTS})
    selected = selection(query, answer)
    if request.method == "POST":
        return await requests.json_body(request, query), True, selected
    return query, False, selected


async def _ask(
    request: Request,
    name: str,
    question: type[Asked],
    answer: type,
    make: Callable[[Asked, Catalog], Any],
    *,
    heavy: Callable[[Asked, Catalog], bool] = lambda *_: True,
    several: Mapping[str, int] = requests.ONCE_EACH,
) -> Response:
    """The usual way of a question: read, checked, counted, and answered in its turn.

    Args:
        request: what is asked.
        name: the operation, as it is counted.
        question, answer: their types.
        make: what answers.
        heavy: whether it waits its turn among the heavy ones.
        several: fields that may repeat, and how often.
    """
    if unchanged := not_modified(request):
        return unchanged
    fields, typed, selected = await _fields(request, answer, several)
    loaded: Catalog = request.app.state.catalog
    parsed = requests.validate(question, _in_lists(fields, several), loaded, strict=typed)

    def work(_: Stopped) -> Response:
        _count(request, name)
        return _written(request, make(parsed, loaded), selected)

    return await compute(request, work, heavy=heavy(parsed, loaded))


def _in_lists(fields: Mapping[str, Any], several: Container[str]) -> dict[str, Any]:
    """The fields, one value alone of those that may repeat as the only one of its list."""
    return {
        name: (value,) if name in several and isinstance(value, str | int) else value for name, value in fields.items()
    }


async def plan(request: Request) -> Response:
    """Everything about one cluster and one model.

    Sizes the fabric, times the collectives and the training step, names the bottleneck, and prices it all. With
    `workload=serving` it says what the cluster serves in place of the step.
    """
    if unchanged := not_modified(request):
        return unchanged
    fields, typed, selected = await _fields(request, Plan)
    loaded: Catalog = request.app.state.catalog
    scenario = requests.validate(Scenario, fields, loaded, strict=typed)

    def work(_: Stopped) -> Response:
        _count(request, "plan")
        return _written(request, answers.plan_answer(scenario, loaded, selected.needed), selected)

    if quick(scenario, loaded):
        await request.app.state.plans_together.turn(scenario, loaded)
        return work(lambda: False)
    heavy = is_heavy(scenario, loaded)
    every_way = not {"alternatives", "cloud"}.isdisjoint(selected.needed)
    if heavy or every_way or scenario.workload == "serving":
        return await compute(request, work, heavy=heavy)
    with request.app.state.plans_in_line.place(scenario, loaded) as prepare:

        def prepared(stopped: Stopped) -> Response:
            prepare()
            return work(stopped)

        return await compute(request, prepared)


REPEATABLE = dict.fromkeys(("message", "gpus"), MOST_PAIRS)


async def all_reduce(request: Request) -> Response:
    """The time of an all-reduce, by message and number of GPUs.

    Both may repeat: `results` holds one entry for each pair.
    """
    if unchanged := not_modified(request):
        return unchanged
    fields, typed, selected = await _fields(request, answers.ReduceAnswer, REPEATABLE)
    pairs = _pairs(fields)
    loaded: Catalog = request.app.state.catalog

    def work(_: Stopped) -> Response:
        scenarios = [_of_pair(pair, fields, loaded, typed=typed) for pair in pairs]
        _count(request, "all-reduce", len(pairs))
        return _written(request, answers.reduce_answer(scenarios, loaded), selected)

    if len(pairs) < 4:
        return work(lambda: False)
    return await compute(request, work, heavy=len(pairs) > LIGHT_PAIRS)


def _pairs(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of each pair of a message and a number of GPUs."""
    axes = {name: fields[name] for name in ("message", "gpus") if isinstance(fields.get(name), list | tuple)}
    empty = [name for name, values in axes.items() if not values]
    if empty:
        raise problems.invalid([FieldProblem(pointer=f"#/{empty[0]}", detail="Give at least one value.")])
    pairs = prod(len(values) for values in axes.values())
    if pairs > MOST_PAIRS:
        detail = f"{pairs:,} pairs of message and gpus; give at most {MOST_PAIRS}."
        raise problems.invalid([FieldProblem(pointer=f"#/{next(iter(axes))}", detail=detail)])
    blank = [(name, number) for name, values in axes.items() for number, value in enumerate(values) if value is None]
    if blank:
        places = [problems.pointer(place) for place in blank[:100]]
        raise problems.invalid([FieldProblem(pointer=place, detail=problems.NO_VALUE) for place in places])
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _of_pair(pair: Mapping[str, Any], fields: Mapping[str, Any], catalog: Catalog, *, typed: bool) -> Scenario:
    """The scenario of one pair; what is wrong with a value of several is pointed to by its number."""
    try:
        return requests.validate(Scenario, {**fields, **pair}, catalog, strict=typed)
    except ProblemError as error:
        places = {name: [each is value for each in fields[name]].index(True) for name, value in pair.items()}
        numbers = {f"#/{name}": f"#/{name}/{place}" for name, place in places.items()}
        raise problems.invalid(
            [
                FieldProblem(pointer=numbers.get(wrong.pointer, wrong.pointer), detail=wrong.detail)
                for wrong in error.problem.errors
            ]
        ) from None


async def fabric(request: Request) -> Response:
    """Switches, links, bisection bandwidth, power and price of the network."""
    return await _ask(request, "fabric", Scenario, answers.FabricAnswer, answers.fabric_answer, heavy=is_heavy)


async def compare(request: Request) -> Response:
    """Two to four scenarios: their plans, what differs, by how much and why."""
    given, _, selected = await _fields(request, answers.CompareAnswer)
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
    loaded: Catalog = request.app.state.catalog
    scenarios = [
        requests.validate(Scenario, item, loaded, strict=True, place=("scenarios", number))
        for number, item in enumerate(items)
    ]

    def work(_: Stopped) -> Response:
        _count(request, "compare", len(scenarios))
        return _written(request, answers.compare_answer(scenarios, loaded), selected)

    return await compute(request, work, heavy=True)


async def calibrate(request: Request) -> Response:
    """Latency, bandwidth and fill of a cluster over the usual, from what its benchmarks printed.

    `text` is the output of nccl-tests, rccl-tests, OSU or ib_write_bw, the other fields say what it ran on. Put the
    `calibration` of the answer into any question. Nothing is stored.
    """
    return await _ask(request, "calibrate", CalibrateQuestion, answers.CalibrateAnswer, answers.calibrate_answer)


CANDIDATES = requests.repeatable(Question, "gpu", "scale_out")


async def size(request: Request) -> Response:
    """Which cluster trains this model by this date for this money.

    `gpu` and `scale_out` may repeat: they are the candidates.
    """
    if unchanged := not_modified(request):
        return unchanged
    fields, typed, selected = await _fields(request, answers.SizeAnswer, CANDIDATES)
    fields = _in_lists(fields, CANDIDATES)
    settings: Settings = request.app.state.settings
    loaded: Catalog = request.app.state.catalog
    question = requests.validate(Question, fields, loaded, strict=typed)
    until = monotonic() + settings.time_limit

    def work(stopped: Stopped) -> Response:
        _count(request, "size")
        answer = answers.size_answer(question, loaded, share_of(until), stopped)
        if not answer.complete:
            request.app.state.metrics.cut_off.labels("size").inc()
        return reply(request, _json(request, answer, selected), tag=None if answer.complete else "")

    return await compute(request, work, heavy=True)


def share_of(until: float) -> float:
    """Seconds that a question may try clusters for, so that its answer is there by ``until``."""
    return 0.8 * max(until - monotonic(), 0.0)


async def cost(request: Request) -> Response:
    """What networks cost per port, GPU, GB/s and token, by size and price book; and buy, lease or rent.

    The articles' claims on cost are answered with computed rows.
    """
    return await _ask(request, "cost", CostQuestion, answers.CostAnswer, answers.cost_answer)


async def serve(request: Request) -> Response:
    """What a cluster serves: users, requests and tokens a second, times, layout, bottleneck and cost.

    Load and limits are fields; what is blank is found.
    """
    return await _ask(request, "serve", ServingQuestion, answers.ServeAnswer, answers.serve_answer, heavy=is_heavy)


SERVE_CANDIDATES = requests.repeatable(ServeSizeQuestion, "gpu", "scale_up_domain", "scale_out")


async def serve_size(request: Request) -> Response:
    """Which cluster serves so many users or requests within limits.

    `gpu`, `scale_up_domain` and `scale_out` may repeat: they are the candidates.
    """
    kinds = ServeSizeQuestion, answers.ServeSizeAnswer
    return await _ask(request, "serve/size", *kinds, answers.serve_size_answer, several=SERVE_CANDIDATES)


async def sweep_grid(request: Request) -> Response:
    """One row for each point of a grid over any fields, as NDJSON; as CSV or as an Arrow stream for who accepts these.

    `Accept: text/csv` is for spreadsheets, `Accept: application/vnd.apache.arrow.stream` for data frames: each column
    has one type, its `unit` in the schema, and null where there is nothing.

    A sweep that takes longer than one request may, or has more points, is cut off: its last row says so in `error`,
    and names the `cursor` that asks for the rest. Where the connection broke, that is the header `x-sweep-cursor`, to
    whose number, up to the dash, the rows that came are added. The rows of a CSV that goes on have no heading, so that
    they can be put below those before: `content-type: text/csv; header=absent` says so, and
    `Accept: text/csv; header=present` asks for one. The row that says where a sweep was cut off is not among the rows
    to count.

    Of each field the first value that lies far from what is met in practice, mostly a number whose unit was left out,
    is a finding in the header `x-sweep-findings`, as JSON.
    """
    if answer := await forwarded(request):
        return answer
    settings: Settings = request.app.state.settings
    until = monotonic() + settings.time_limit
    given = await requests.json_body(request, requests.address(request))
    cursor = given.pop("cursor", None)
    loaded: Catalog = request.app.state.catalog
    grid = requests.validate(Grid, given, loaded, strict=True)
    requests.validate(Scenario, grid.base, loaded, strict=True, place=("base",))
    values = sum(map(len, grid.grid.values()))
    if values > MOST_VALUES:
        detail = f"The grid has {values:,} values; give at most {MOST_VALUES:,}."
        raise problems.invalid([FieldProblem(pointer="#/grid", detail=detail)])
    begin = cursors.read(cursor, _swept(grid), loaded, grid.points())
    if not begin:  # of a sweep that goes on they were checked before
        await compute_here(request, partial(_check_values, grid, loaded), heavy=values > LIGHT_VALUES)
    rows = islice(sweep(grid, loaded, begin), settings.max_sweep_points)
    findings, first = await compute_here(request, lambda _: (unusual(grid, loaded), _batch(rows, until)), heavy=True)
    headers = {
        "cache-control": "no-store",
        "x-model-version": __version__,
        "x-catalog-version": loaded.version,
        "x-sweep-cursor": cursors.written(begin, _swept(grid), loaded),
        "x-sweep-findings": json.dumps([vars(finding) for finding in findings]),
    }
    kind, rows_as = row_formats.accepted(request.headers.get("accept", ""), grid, goes_on=begin > 0)
    batches = _counted(request, _batches(first, rows, request.app.state.heavy_queue, until))

    def rest(done: int) -> Rows:
        last = _rest(grid, loaded, settings, begin, done)
        request.app.state.metrics.cut_off.labels("sweep").inc(len(last))
        return last

    return StreamingResponse(_written_rows(rows_as, batches, rest), headers=headers, media_type=kind)


def _swept(grid: Grid) -> list[object]:
    """What a cursor is of."""
    return [grid.base, list(grid.grid.items()), grid.results]


def _check_values(grid: Grid, catalog: Catalog, stopped: Stopped) -> None:
    """Check each value of the grid: what is wrong is said before the first row."""
    wrong: list[FieldProblem] = []
    for name, several in grid.grid.items():
        for number, value in enumerate(several):
            if stopped():
                return
            try:
                requests.validate(Scenario, {name: value}, catalog, strict=True)
            except ProblemError as error:
                place = ("grid", name, number) if name in Scenario.model_fields else ("grid", name)
                wrong.append(FieldProblem(pointer=problems.pointer(place), detail=error.problem.errors[0].detail))
                if len(wrong) == 100 or name not in Scenario.model_fields:
                    break
    if wrong:
        raise problems.invalid(wrong[:100])


async def _batches(first: Rows, rows: Iterator[dict[str, Any]], queue: HeavyQueue, until: float) -> AsyncIterator[Rows]:
    """Rows until time is over. Sweeps take turns after each batch, and none is taken while the client reads."""
    batch = first
    while batch:
        yield batch
        try:
            async with asyncio.timeout(until - monotonic()):
                batch = await queue.slot(partial(_batch, rows, until))
        except TimeoutError:
            return


async def _counted(request: Request, batches: AsyncIterator[Rows]) -> AsyncIterator[Rows]:
    """Rows, counted when they are there: of a sweep that ends early those that were asked for are none."""
    async for batch in batches:
        _count(request, "sweep", len(batch))
        yield batch


async def _written_rows(
    rows_as: RowFormat, batches: AsyncIterator[Rows], rest: Callable[[int], Rows]
) -> AsyncIterator[bytes]:
    """The rows of a sweep as they are written, with a last one that says where it was cut off."""
    done = 0
    async for batch in batches:
        done += len(batch)
        yield rows_as.batch(batch)
    if last := rest(done):
        yield rows_as.batch(last)
    if end := rows_as.end():
        yield end


def _rest(grid: Grid, loaded: Catalog, settings: Settings, begin: int, done: int) -> Rows:
    """The row below so many others, that says where a sweep was cut off and how it goes on; none if it was not."""
    points, following = grid.points(), begin + done
    if following >= points:
        return []
    most = done >= settings.max_sweep_points
    limit = "at the most points of one request" if most else f"after {settings.time_limit:g} s"
    cursor = cursors.written(following, _swept(grid), loaded)
    text = (
        f"Cut off {limit}: {done:,} of {points - begin:,} points are above. "
        f"Ask for the rest with “cursor”: “{cursor}” beside “grid”."
    )
    return [{**row(grid, dict.fromkeys(grid.grid), {}, text), "cursor": cursor}]


def _batch(rows: Iterator[dict[str, Any]], until: float) -> Rows:
    """Rows of about a tenth of a second."""
    batch: Rows = []
    until = min(until, monotonic() + 0.1)
    for record in rows:
        batch.append(record)
        if monotonic() > until:
            break
    return batch


# Accuracy ------------------------------------------------------------------------------------------------------------


async def get_accuracy(request: Request) -> Response:
    """Predictions held against published measurements: error, bias and coverage, overall and by group."""
    requests.reject_query(request)
    loaded: Catalog = request.app.state.catalog
    cache: PageCache = request.app.state.page_cache
    if cached := cache.known(request):
        return cached

    def work(_: Stopped) -> Response:
        held = answers.accuracy(loaded)
        reports = {name: getattr(held, name) for name in answers.REPORTS}
        return cache.keep(request, _json(request, {**answers.versions(loaded), "permalink": "/accuracy", **reports}))

    # Once for all requests, and the first may come too late for it.
    evaluated = answers.accuracy.cache_info().currsize > 0
    return await compute(request, work, heavy=not evaluated)


# All together --------------------------------------------------------------------------------------------------------

TEXT: Schema = {"schema": {"type": "string"}}
ROWS: Mapping[str, Schema] = {
    NDJSON: TEXT
    | {
        "example": '{"gpus":512,"costs.capital":32800000.0,"error":""}\n',
        "x-row": {
            "type": "object",
            "description": "The varied fields, the typical results, and error where there is none; cursor in a last "
            "row that says where the sweep was cut off.",
        },
    },
    "text/csv": TEXT | {"example": "gpus,costs.capital,error\r\n512,32800000.0,\r\n"},
    ARROW: {"schema": {"type": "string", "format": "binary", "description": "The same columns, as record batches."}},
}
CATALOG_ROWS: Mapping[str, Schema] = {
    "text/csv": TEXT | {"example": "key,name,year,ports\r\nsn5600,SN5600,2023,64\r\n"},
}
GET, POST, BOTH = ("GET",), ("POST",), ("GET", "POST")
operations = (
    Operation(f"{PREFIX}/plan", plan, "plan", methods=BOTH, answer=Plan, question="Scenario"),
    Operation(
        f"{PREFIX}/all-reduce",
        all_reduce,
        "all_reduce",
        methods=BOTH,
        answer=answers.ReduceAnswer,
        question="AllReduceQuestion",
    ),
    Operation(f"{PREFIX}/fabric", fabric, "fabric", methods=BOTH, answer=answers.FabricAnswer, question="Scenario"),
    Operation(
        f"{PREFIX}/compare",
        compare,
        "compare",
        methods=POST,
        answer=answers.CompareAnswer,
        question="Comparison",
        summary="Plans side by side",
    ),
    Operation(f"{PREFIX}/serve", serve, "serve", methods=BOTH, answer=answers.ServeAnswer, question="ServeQuestion"),
    Operation(
        f"{PREFIX}/serve/size",
        serve_size,
        "serve_size",
        methods=BOTH,
        answer=answers.ServeSizeAnswer,
        question="ServeSizeQuestion",
    ),
    Operation(f"{PREFIX}/size", size, "size", methods=BOTH, answer=answers.SizeAnswer, question="SizeQuestion"),
    Operation(
        f"{PREFIX}/calibrate",
        calibrate,
        "calibrate",
        methods=POST,
        answer=answers.CalibrateAnswer,
        question="CalibrateQuestion",
        summary="Your own measurements",
    ),
    Operation(f"{PREFIX}/cost", cost, "cost", methods=BOTH, answer=answers.CostAnswer, question="CostQuestion"),
    Operation(
        f"{PREFIX}/sweep",
        sweep_grid,
        "sweep",
        methods=POST,
        answer=ROWS,
        question="Grid",
        summary="A grid of scenarios, streamed",
    ),
    Operation(
        catalog_lists.LIST,
        catalog_lists.get_catalog,
        "get_catalog",
        methods=GET,
        answer={JSON: answers.CatalogAnswer, **CATALOG_ROWS},
        question="CatalogQuestion",
        summary="The whole catalogue",
    ),
    Operation(
        f"{catalog_lists.LIST}/{{kind}}",
        catalog_lists.get_catalog_kind,
        "get_catalog_kind",
        methods=GET,
        answer={JSON: answers.KindAnswer, **CATALOG_ROWS},
        question="CatalogQuestion",
        summary="The entries of one kind",
    ),
    Operation(
        f"{catalog_lists.LIST}/{{kind}}/{{key}}",
        catalog_lists.get_catalog_entry,
        "get_catalog_entry",
        methods=GET,
        answer=answers.EntryAnswer,
        summary="One entry",
    ),
    Operation(
        f"{PREFIX}/accuracy",
        get_accuracy,
        "get_accuracy",
        methods=GET,
        answer=answers.AccuracyAnswer,
        summary="How far off",
    ),
)
"""All questions, those that are asked most and answered quickest first: routes are tried in this order."""
