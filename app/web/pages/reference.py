"""The pages that explain: catalogue, method, accuracy, acceptance sheet; and the files."""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from app.catalog.load import KINDS, Catalog
from app.plan.cables import Cable
from app.plan.evaluate import evaluate
from app.plan.network import network_of
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.site_calibration import read_calibration
from app.report import catalog_listing, files, glossary, method, tables
from app.report.charts import accuracy_charts
from app.studies import acceptance
from app.studies.bad_parts import BadPart, bad_parts
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.sizing import Question
from app.studies.sweep import Grid
from app.validation import serving_runs
from app.web import answers, form, requests
from app.web.answers import ANSWERS, MEASUREMENTS, with_root_path
from app.web.catalog_lists import CatalogQuestion, meant
from app.web.heavy_queue import HeavyQueue, Stopped, compute, compute_here, forwarded, hosts, is_heavy
from app.web.pages.shared import PageRoute
from app.web.problems import FieldProblem, ProblemError, invalid, pointer
from app.web.responses import CSV, ENCODED, FRESH, JSON, attached, entity_tag, reply, to_json, wants_gzip, zipped_parts
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


# Catalogue -----------------------------------------------------------------------------------------------------------


def _listing(catalog: Catalog, sought: str) -> Mapping[str, Any]:
    """The catalogue as text: all of it, or what is sought."""
    kinds = [catalog_listing.kind(name, catalog) for name in catalog_listing.TITLES if name != "sources"]
    return {
        "kinds": catalog_listing.matching(kinds, sought),
        "sources": catalog_listing.matching_sources(catalog, sought),
        "cited": catalog_listing.cited(kinds),
        "sought": sought,
    }


LONGEST_SEARCH = 100


@router.get("/catalog")
async def catalogue(request: Request) -> Response:
    """Every entry and every source, or those that hold the words of ``q``."""
    sought = request.query_params.get("q", "").strip()[:LONGEST_SEARCH]
    catalog: Catalog = request.app.state.catalog
    return await compute(request, lambda _: page(request, "catalog.html", _listing(catalog, sought)))


@router.get("/catalog/{kind}")
async def kind_of_entries(request: Request) -> Response:
    """The entries of one kind side by side, or all documents."""
    key, loaded = request.path_params["kind"], _catalog(request)
    if key not in catalog_listing.TITLES:
        raise ProblemError(404, "The catalogue has no such kind of entry. /catalog lists all.")

    def work(_: Stopped) -> Response:
        values: dict[str, Any] = {"key": key, "title": catalog_listing.TITLES[key]}
        if key == "sources":
            values |= {"kind": None, **_listing(loaded, "")}
        else:
            values |= {"kind": catalog_listing.kind(key, loaded)}
        return page(request, "catalog_kind.html", values)

    return await compute(request, work)


@router.get("/catalog/{kind}/{key}")
async def entry(request: Request) -> Response:
    """One entry with every constant, its range and its source."""
    kind, key = request.path_params["kind"], request.path_params["key"]
    loaded: Catalog = request.app.state.catalog
    if kind not in catalog_listing.TITLES or kind == "sources" or key not in loaded.kind(kind):
        advice = meant(key, loaded.kind(kind)) if kind in KINDS else ""
        raise ProblemError(404, f"The catalogue has no such entry. {advice}/catalog lists all.")

    def work(_: Stopped) -> Response:
        values = {"entry": catalog_listing.listed(kind, key, loaded), "kind_title": catalog_listing.TITLES[kind]}
        return page(request, "catalog_entry.html", values)

    return await compute(request, work)


# Method --------------------------------------------------------------------------------------------------------------


@router.get("/method")
async def methods(request: Request) -> Response:
    """Every formula by name, and the groups they stand in."""

    def work(_: Stopped) -> Response:
        values = {"groups": method.grouped(), "introductions": method.introductions(), "glossary": _glossary()}
        return page(request, "method.html", values)

    return await compute(request, work)


@router.get("/method/glossary")
async def names(request: Request) -> Response:
    """Every name of the API."""
    return await compute(request, lambda _: page(request, "glossary.html", {"glossary": _glossary()}))


@router.get("/method/{group}")
async def group_of_formulas(request: Request) -> Response:
    """The formulas of one group."""
    group = request.path_params["group"]
    if group not in method.grouped():
        raise ProblemError(404, "There is no such group of formulas. /method lists all.")
    values = {"introduction": method.introductions()[group], "formulas": method.grouped()[group]}
    return await compute(request, lambda _: page(request, "method_group.html", values))


@cache
def _glossary() -> Mapping[str, list[glossary.Entry]]:
    """Every name on the wire."""
    return {
        "inputs": glossary.inputs((Scenario, Question, CostQuestion, CalibrateQuestion, Grid, CatalogQuestion)),
        "outputs": glossary.outputs(ANSWERS),
    }


# Accuracy ------------------------------------------------------------------------------------------------------------


@router.get("/accuracy")
async def accuracy(request: Request) -> Response:
    """Predictions held against published measurements, good and bad."""
    catalog: Catalog = request.app.state.catalog
    # Once for all requests, and the first may come too late for it.
    evaluated = _accuracy.cache_info().currsize > 0
    return await compute(request, lambda _: page(request, "accuracy.html", _accuracy(catalog)), heavy=not evaluated)


@lru_cache(maxsize=2)
def _accuracy(loaded: Catalog) -> Mapping[str, Any]:
    """Reports, tables and charts of all three models; the first time takes seconds, and many addresses show them."""
    held = answers.accuracy(loaded)
    left_out = orjson.loads((MEASUREMENTS / "left_out.json").read_bytes())
    serving_left_out = orjson.loads(serving_runs.LEFT_OUT.read_bytes())
    training = {**held.training, "by_gpu": _cards(held.training["by_gpu"], loaded)}
    left_out["training"]["by_gpu"] = _cards(left_out["training"]["by_gpu"], loaded)
    return {
        "collectives": held.collectives,
        "training": training,
        "fabric": held.fabric,
        "clusters": held.clusters,
        "left_out": left_out,
        "serving": serving_left_out,
        "tables": tables.accuracy_tables(held.collectives, training, held.fabric, left_out, held.ledger)
        | tables.serving_tables(held.serving, serving_left_out)
        | tables.cluster_tables(held.clusters),
        "figures": {name: accuracy_charts.accuracy(scatter) for name, scatter in held.scatters.items()},
    }


def measured_figures(catalog: Catalog) -> dict[str, Any]:
    """The charts of measurements, by the name in their addresses."""
    return {f"accuracy-{name}": figure for name, figure in _accuracy(catalog)["figures"].items()}


def _cards(groups: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Groups by GPU under the GPUs' names."""
    return {catalog.gpus[key].name if key in catalog.gpus else key: errors for key, errors in groups.items()}


# Acceptance sheet ----------------------------------------------------------------------------------------------------


def _sheet(scenario: Scenario, loaded: Catalog) -> acceptance.Sheet:
    network = network_of(scenario, loaded)
    return acceptance.sheet(scenario, loaded, network.nodes_per_unit)


def _bad_parts(scenario: Scenario, loaded: Catalog) -> tuple[BadPart, ...]:
    plan = evaluate(scenario, loaded, include=())
    chosen = plan.training.parallelism if plan.memory.fits else None
    return bad_parts(scenario, loaded, plan.all_reduce.message, chosen)


@router.get("/acceptance")
async def acceptance_page(request: Request) -> Response:
    """The acceptance sheet, to print."""
    scenario, loaded = _scenario(request), _catalog(request)

    def work(_: Stopped) -> Response:
        values = {
            "acceptance": _sheet(scenario, loaded),
            "summary": form.summary(scenario, loaded),
            "bad_parts": _bad_parts(scenario, loaded),
            "calibrated": read_calibration(scenario.calibration).spoken() if scenario.calibration else "",
        }
        return page(request, "acceptance.html", values, scenario=scenario)

    return await compute(request, work, heavy=is_heavy(scenario, loaded))


@router.get("/acceptance.json")
async def acceptance_json(request: Request) -> Response:
    """The acceptance sheet, for a script that checks a cluster."""
    scenario, loaded = _scenario(request), _catalog(request)

    def work(_: Stopped) -> Response:
        body = {
            "catalog_version": loaded.version,
            "permalink": "/acceptance?" + scenario.query(catalog_version=loaded.version),
            "acceptance": _sheet(scenario, loaded),
            "bad_parts": _bad_parts(scenario, loaded),
        }
        return reply(request, to_json(with_root_path(body, request.app.state.settings.root_path)))

    return await compute(request, work, heavy=is_heavy(scenario, loaded))


# Files ---------------------------------------------------------------------------------------------------------------


def _catalog(request: Request) -> Catalog:
    catalog: Catalog = request.app.state.catalog
    return catalog


def _scenario(request: Request) -> Scenario:
    """The scenario of the query string; what is wrong with it is a problem document."""
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    return requests.validate(Scenario, fields, request.app.state.catalog, strict=False)


@router.get("/export/cables.csv")
async def cables(request: Request) -> Response:
    """The point-to-point cable list, written as it is read: it may have millions of rows."""
    scenario, loaded = _scenario(request), _catalog(request)
    most: int = request.app.state.settings.max_cables
    if (fewest := hosts(scenario, loaded)) > most:  # seen before the fabric is designed, which may take seconds
        raise _too_many(fewest, most)
    if answer := await forwarded(request):
        return answer

    def work(_: Stopped) -> Iterator[Cable]:
        network = network_of(scenario, loaded)
        if network.cable_count() > most:
            raise _too_many(network.cable_count(), most)
        return network.cables()

    rows = await compute_here(request, work, heavy=True)
    queue: HeavyQueue = request.app.state.heavy_queue
    name = f"railyard-{scenario.gpus}-{scenario.gpu}-{scenario.scale_out}-cables.csv"
    headers = {**attached(name), "cache-control": FRESH, "vary": ENCODED}
    parts: Iterator[bytes] = (part.encode() for part in files.cable_csv(rows))
    suffix = ""
    if wants_gzip(request):
        headers["content-encoding"], suffix, parts = "gzip", "-gzip", zipped_parts(parts)
    headers["etag"] = f'"{entity_tag(request)}{suffix}"'
    return StreamingResponse(queue.stream(parts), media_type=CSV, headers=headers)


def _too_many(cables: int, most: int) -> ProblemError:
    detail = (
        f"The list would have {cables:,} cables or more; it may have {most:,}. Ask for fewer GPUs or NICs a node; "
        "/fabric counts the cables of any size by length."
    )
    return invalid([FieldProblem(pointer=pointer([name]), detail=detail) for name in ("gpus", "nics_per_node")])


@router.get("/export/{name}.{ending}")
async def export(request: Request) -> Response:
    """A whole plan, or one of its tables, as CSV, XLSX or JSON."""
    name, ending = request.path_params["name"], request.path_params["ending"]
    if ending not in ("csv", "xlsx", "json"):
        raise ProblemError(404, "There are files that end in .csv, .xlsx and .json.")
    scenario, loaded = _scenario(request), _catalog(request)
    return await compute(request, lambda _: _export(request, scenario, loaded, name, ending), heavy=True)


def _export(request: Request, scenario: Scenario, loaded: Catalog, name: str, ending: str) -> Response:
    plan = with_root_path(evaluate(scenario, loaded), str(request.base_url).rstrip("/"))
    if name == "plan":
        return _whole(request, plan, loaded, ending)
    table = tables.tables(plan, loaded).get(name.replace("-", "_"))
    if table is None:
        names = ", ".join(tables.tables(plan, loaded))
        raise ProblemError(404, f"A plan has no table of that name. It has {names}; “plan” is all of them.")
    file = files.file_name(plan, table.key, ending)
    if ending == "csv":
        return _download(request, "".join(files.table_csv(table, plan)).encode(), CSV, file)
    if ending == "xlsx":
        return _download(request, files.table_workbook(table, plan), XLSX, file)
    return _download(request, to_json(files.table_json(table)), JSON, file)


def _whole(request: Request, plan: Plan, loaded: Catalog, ending: str) -> Response:
    file = files.file_name(plan, "plan", ending)
    if ending == "csv":
        return _download(request, "".join(files.plan_csv(plan, loaded)).encode(), CSV, file)
    if ending == "xlsx":
        return _download(request, files.plan_xlsx(plan, loaded), XLSX, file)
    return _download(request, files.plan_json(plan, loaded), JSON, file)


def _download(request: Request, content: bytes, kind: str, name: str) -> Response:
    return reply(request, content, kind, headers=attached(name))
