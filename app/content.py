"""The pages that explain: catalogue, method, all-reduce, fabric, accuracy, acceptance sheet; and the files."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from app import acceptance, catalog, charts, curves, drawing, exports, form, listing, method, nccl_tests, reading
from app.accuracy import collectives as collective_accuracy
from app.accuracy import fabric as fabric_accuracy
from app.accuracy import training as training_accuracy
from app.answers import MEASUREMENTS
from app.api import Gate, Stopped, compute, hosts, is_heavy
from app.plan import all_reduce, costs, fabric, port_curve, training
from app.plan import findings as hardware_findings
from app.plan.bands import Band, fold
from app.plan.cabling import Cable
from app.plan.evaluation import evaluate
from app.plan.hardware import Hardware, look_up
from app.plan.parts import Finding, Plan
from app.problems import FieldProblem, ProblemError, invalid, pointer
from app.scenario import Scenario
from app.templating import page

router = APIRouter(include_in_schema=False)

CSV, XLSX = "text/csv; charset=utf-8", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


# Catalogue -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _listing(version: str) -> Mapping[str, Any]:
    """The whole catalogue as text; it changes only with the edition."""
    loaded = catalog.current()
    kinds = [listing.kind(name, loaded) for name in listing.TITLES if name != "sources"]
    return {"kinds": kinds, "cited": listing.cited(kinds)}


@router.get("/catalog")
async def catalogue(request: Request) -> Response:
    """Every entry and every source."""
    return await compute(request, lambda _: page(request, "catalog.html", _listing(catalog.current().version)))


@router.get("/catalog/{kind}/{key}")
async def entry(request: Request, kind: str, key: str) -> Response:
    """One entry with every constant, its range and its source."""
    loaded = catalog.current()
    if kind not in listing.TITLES or kind == "sources" or key not in loaded.kind(kind):
        raise ProblemError(404, "The catalogue has no such entry. /catalog lists all.")

    def work(_: Stopped) -> Response:
        values = {"entry": listing.listed(kind, key, loaded), "kind_title": listing.TITLES[kind]}
        return page(request, "catalog_entry.html", values)

    return await compute(request, work)


# Method --------------------------------------------------------------------------------------------------------------


@router.get("/method")
async def methods(request: Request) -> Response:
    """Every formula."""

    def work(_: Stopped) -> Response:
        return page(request, "method.html", {"groups": method.grouped(), "introductions": method.introductions()})

    return await compute(request, work)


# What pages about a scenario share -----------------------------------------------------------------------------------


def _question(asked: form.Asked, resolved: Mapping[str, Any] | None, shown: Iterable[str]) -> Mapping[str, Any]:
    """The fields that a page asks for as controls, the others that were asked as hidden ones, and what is wrong."""
    names = tuple(shown)
    made = form.form(asked, catalog.current(), resolved)
    controls = {control.name: control for group in made.groups for control in (*group.first, *group.rest)}
    wrong = [name for name, _, _ in made.errors if name in controls and name not in names]
    given = {name: text for name, text in asked.typed.items() if text.strip() and name in controls}
    return {
        "controls": [controls[name] for name in (*names, *wrong)],
        "hidden": {name: text for name, text in given.items() if name not in (*names, *wrong)},
        "errors": made.errors,
    }


def _explained(explanations: Mapping[str, Any], bands: Mapping[str, Band | None]) -> Mapping[str, Any]:
    """How each result was computed; ``bands`` name the sources of the whole."""

    def rests_on(path: str) -> tuple[str, ...]:
        band = bands.get(path)
        return band.sources if band else ()

    return {"explained": explanations, "formulas": method.formulas(), "name_of": _name_of, "rests_on": rests_on}


def _name_of(path: str) -> str:
    """A result's name for people, from its path on the wire."""
    return exports.named(path.rpartition(".")[2])


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


# All-reduce explorer -------------------------------------------------------------------------------------------------

EXPLORED = (
    "gpu", "gpus", "scale_out", "message", "scale_up", "gpus_per_node", "nics_per_node", "profile", "algorithm",
    "protocol", "in_network_reduction", "gpudirect", "tuned",
)  # fmt: skip


@router.get("/all-reduce")
async def explore(request: Request) -> Response:
    """Time and bandwidth of an all-reduce, swept over everything that matters."""
    return await compute(request, lambda _: _explorer(request, request.query_params.multi_items()))


@router.post("/all-reduce")
async def paste(request: Request) -> Response:
    """The same page with a measurement beside it."""
    body = await request.body()

    def work(_: Stopped) -> Response:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=500)
        return _explorer(request, pairs)

    return await compute(request, work)


def _explorer(request: Request, pairs: list[tuple[str, str]]) -> Response:
    pasted = next((value for name, value in pairs if name == "output"), "")
    asked = form.read([(name, value) for name, value in pairs if name != "output"])
    scenario, loaded = asked.scenario, catalog.current()
    if scenario is None:
        values = {**_question(asked, None, EXPLORED), "part": None, "pasted": pasted}
        return page(request, "all_reduce.html", values, status=422)
    hardware = look_up(scenario, loaded)
    message = scenario.message or training.gradient_bytes(hardware, scenario, loaded)
    draft = all_reduce.draft(hardware, scenario, loaded, message=message)
    bands = fold(draft.quantities)
    part = draft.part(bands)
    swept = _swept(scenario, message) if hardware.gpus > 1 and part.time is not None else {}
    values = {
        **_question(asked, _blanks(hardware, message), EXPLORED),
        **_explained(draft.explanations, bands),
        "part": part,
        "own_message": scenario.message,
        "hardware": hardware,
        "findings": _sorted((*hardware_findings.of_hardware(hardware, scenario, loaded), *draft.findings)),
        "figures": {name: charts.all_reduce_curves(curve) for name, curve in swept.items()}
        | {"algorithms": charts.algorithms(part)},
        "tables": {name: exports.curve_table(curve) for name, curve in swept.items()}
        | {"algorithms": exports.all_reduce_table(part)},
        "algorithm_name": charts.algorithm_name,
        "pasted": pasted,
        **_pasted(pasted, scenario),
    }
    return page(request, "all_reduce.html", values, scenario=scenario)


def _blanks(hardware: Hardware, message: float) -> Mapping[str, Any]:
    """What stands behind the blank fields."""
    return {
        "gpu": hardware.gpu.key,
        "scale_out": hardware.scale_out.key,
        "platform": hardware.platform.key,
        "scale_up": hardware.scale_up.key,
        "gpus_per_node": hardware.gpus_per_node,
        "nics_per_node": hardware.nics_per_node,
        "scale_up_domain": hardware.domain,
        "message": message,
    }


@lru_cache(maxsize=16)
def _swept(scenario: Scenario, message: float) -> Mapping[str, curves.Curve]:
    """The curves of the explorer."""
    loaded = catalog.current()
    found = {
        "time": curves.all_reduce_over_sizes(scenario, loaded, message),
        "bus": curves.all_reduce_over_sizes(scenario, loaded, message, "bus_bandwidth"),
        "algorithm": curves.all_reduce_over_sizes(scenario, loaded, message, "algorithm_bandwidth"),
        "gpus": curves.all_reduce_over_gpus(scenario, loaded, message),
        "gpus_bus": curves.all_reduce_over_gpus(scenario, loaded, message, "bus_bandwidth"),
        "shares": curves.all_reduce_shares(scenario, loaded, message),
        "networks": curves.all_reduce_by_network(scenario, loaded, message),
    }
    return {name: curve for name, curve in found.items() if curve.series}


def _pasted(text: str, scenario: Scenario) -> Mapping[str, Any]:
    """A pasted measurement beside its prediction: a table, a chart, what it implies."""
    empty = dict.fromkeys(("output", "result", "result_table", "result_figure", "carried"))
    if not text.strip():
        return empty
    output = nccl_tests.read(text)
    if output.problem:
        return {**empty, "output": output}
    result = nccl_tests.compare(output, scenario, catalog.current())
    if not result.rows:
        return {**empty, "output": output, "result": result}
    table, figure = exports.comparison_table(result), charts.lines(curves.measured(result))
    found = {**empty, "output": output, "result": result, "result_table": table, "result_figure": figure}
    same_reach = look_up(result.scenario, catalog.current()).nodes > 1, look_up(scenario, catalog.current()).nodes > 1
    if result.efficiency is not None and same_reach[0] == same_reach[1]:
        found["carried"] = scenario.query(measured_efficiency=round(result.efficiency, 3))
    return found


# Fabric --------------------------------------------------------------------------------------------------------------

DESIGNED = (
    "gpu", "gpus", "scale_out", "topology", "oversubscription", "spine_oversubscription", "switch", "tiers", "planes",
    "nodes_per_unit", "management_links", "spine_policy", "nics_per_node", "price_book", "storage_network",
    "management_network",
)  # fmt: skip


@router.get("/fabric")
async def fabrics(request: Request) -> Response:
    """The fabric: drawing, counts, cut in half, what it costs and how that grows."""
    asked = form.read(request.query_params.multi_items())
    heavy = asked.scenario is not None and is_heavy(asked.scenario, catalog.current())
    return await compute(request, lambda _: _fabrics(request, asked), heavy=heavy)


def _fabrics(request: Request, asked: form.Asked) -> Response:
    scenario, loaded = asked.scenario, catalog.current()
    if scenario is None:
        return page(request, "fabric.html", {**_question(asked, None, DESIGNED), "part": None}, status=422)
    network = fabric.draft(scenario, loaded)
    hardware = network.hardware
    money = costs.draft(hardware, scenario, loaded, fabric=network, time_to_train=np.full(257, np.nan))
    bands = fold({**network.quantities, **money.quantities})
    part, cluster = network.part(bands), money.cluster_part(bands)
    switch = loaded.switches[part.switch].name if part.switch in loaded.switches else ""
    resolved = {
        "switch": network.switch,
        "tiers": network.tiers,
        "nodes_per_unit": network.nodes_per_unit,
        **_blanks(hardware, 0.0),
    }
    ports = port_curve.by_size(scenario, loaded) if hardware.nodes > 1 else ()
    priced = curves.cost_per_port(scenario, loaded, ports) if ports else None
    worth = curves.cost_per_bisection(scenario, loaded, ports) if ports else None
    keys = {"scale_up": hardware.scale_up.key, "scale_out": hardware.scale_out.key}
    values = {
        **_question(asked, resolved, DESIGNED),
        **_explained(
            {path: found for path, found in network.explanations.items() if path.startswith("fabric.")}, bands
        ),
        "part": part,
        "cluster": cluster,
        "hardware": hardware,
        "switch": switch,
        "drawing": drawing.draw(part, cluster, switch, hardware.scale_up.name) if part.shape else None,
        "findings": _sorted((*hardware_findings.of_hardware(hardware, scenario, loaded), *network.findings)),
        "bisection": charts.fabric_bisection(part, keys),
        "tables": exports.fabric_tables(part),
        "priced": charts.cost_per_port(priced) if priced else None,
        "priced_table": exports.curve_table(priced) if priced else None,
        "cliffs": curves.cliffs(ports),
        "value": charts.lines(worth) if worth else None,
        "value_table": exports.curve_table(worth) if worth else None,
    }
    return page(request, "fabric.html", values, scenario=scenario)


# Accuracy ------------------------------------------------------------------------------------------------------------


@router.get("/accuracy")
async def accuracy(request: Request) -> Response:
    """Predictions held against published measurements, good and bad."""
    made = _accuracy.cache_info().currsize > 0  # once for all requests, and the first may come too late for it
    version = catalog.current().version
    return await compute(request, lambda _: page(request, "accuracy.html", _accuracy(version)), heavy=not made)


@lru_cache(maxsize=1)
def _accuracy(version: str) -> Mapping[str, Any]:
    """Reports, tables and charts of all three models; computed once for an edition of the catalogue."""
    loaded = catalog.current()
    rows, skipped = collective_accuracy.read(MEASUREMENTS / "collectives.csv", loaded)
    reduced = collective_accuracy.predictions(rows, loaded)
    reduce = collective_accuracy.summary(reduced, skipped, leave_one_out=False)
    steps, unread = training_accuracy.read(MEASUREMENTS / "training.csv", loaded)
    stepped = training_accuracy.predictions(steps, loaded, leave_one_out=False)
    step = training_accuracy.summary(stepped, unread, leave_one_out=False)
    designs = fabric_accuracy.report(MEASUREMENTS / "fabric.csv", loaded)
    left_out = orjson.loads((MEASUREMENTS / "left_out.json").read_bytes())
    return {
        "collectives": reduce,
        "training": step,
        "fabric": designs,
        "left_out": left_out,
        "tables": exports.accuracy_tables(reduce, step, designs, left_out),
        "figures": {
            "collectives": charts.accuracy(curves.collective_cloud(reduced, reduce)),
            "training": charts.accuracy(curves.training_cloud(stepped, step)),
        },
    }


# Acceptance sheet ----------------------------------------------------------------------------------------------------


def _sheet(scenario: Scenario) -> acceptance.Sheet:
    loaded = catalog.current()
    network = fabric.draft(scenario, loaded)
    return acceptance.sheet(scenario, loaded, network.nodes_per_unit)


@router.get("/acceptance")
async def acceptance_page(request: Request) -> Response:
    """The acceptance sheet, to print."""
    scenario, loaded = _scenario(request), catalog.current()

    def work(_: Stopped) -> Response:
        values = {"acceptance": _sheet(scenario), "summary": form.summary(scenario, loaded)}
        return page(request, "acceptance.html", values, scenario=scenario)

    return await compute(request, work, heavy=is_heavy(scenario, loaded))


@router.get("/acceptance.json")
async def acceptance_json(request: Request) -> Response:
    """The acceptance sheet, for a script that checks a cluster."""
    scenario, loaded = _scenario(request), catalog.current()

    def work(_: Stopped) -> Response:
        body = {
            "catalog_version": loaded.version,
            "permalink": "/acceptance?" + scenario.query(catalog_version=loaded.version),
            "acceptance": _sheet(scenario),
        }
        return Response(orjson.dumps(body), media_type="application/json", headers={"cache-control": "no-cache"})

    return await compute(request, work, heavy=is_heavy(scenario, loaded))


# Files ---------------------------------------------------------------------------------------------------------------


def _scenario(request: Request) -> Scenario:
    """The scenario of the query string; what is wrong with it is a problem document."""
    fields = reading.query(request.scope["query_string"].decode("latin-1"))
    return reading.check(Scenario, fields, strict=False)


@router.get("/export/cables.csv")
async def cables(request: Request) -> Response:
    """The point-to-point cable list, written as it is read: it may have millions of rows."""
    scenario, loaded = _scenario(request), catalog.current()
    most: int = request.app.state.settings.max_cables
    if (fewest := hosts(scenario, loaded)) > most:  # seen before the fabric is designed, which may take seconds
        raise _too_many(fewest, most)

    def work(_: Stopped) -> Iterator[Cable]:
        network = fabric.draft(scenario, loaded)
        if network.cable_count() > most:
            raise _too_many(network.cable_count(), most)
        return network.cables()

    rows = await compute(request, work, heavy=True)
    gate: Gate = request.app.state.gate
    name = f"railyard-{scenario.gpus}-{scenario.gpu}-{scenario.scale_out}-cables.csv"
    return StreamingResponse(gate.stream(exports.cable_csv(rows)), media_type=CSV, headers=_attached(name))


def _too_many(cables: int, most: int) -> ProblemError:
    detail = (
        f"The list would have {cables:,} cables or more; it may have {most:,}. Ask for fewer GPUs or NICs a node; "
        "/fabric counts the cables of any size by length."
    )
    return invalid([FieldProblem(pointer=pointer([name]), detail=detail) for name in ("gpus", "nics_per_node")])


@router.get("/export/{name}.{ending}")
async def export(request: Request, name: str, ending: str) -> Response:
    """A whole plan, or one of its tables, as CSV, XLSX or JSON."""
    if ending not in ("csv", "xlsx", "json"):
        raise ProblemError(404, "There are files that end in .csv, .xlsx and .json.")
    scenario = _scenario(request)
    return await compute(request, lambda _: _export(scenario, name, ending), heavy=True)


def _export(scenario: Scenario, name: str, ending: str) -> Response:
    loaded = catalog.current()
    plan = evaluate(scenario, loaded)
    if name == "plan":
        return _whole(plan, ending)
    table = exports.tables(plan, loaded).get(name.replace("-", "_"))
    if table is None:
        known = ", ".join(exports.tables(plan, loaded))
        raise ProblemError(404, f"A plan has no table of that name. It has {known}; “plan” is all of them.")
    file = exports.file_name(plan, table.key, ending)
    if ending == "csv":
        return _download("".join(exports.table_csv(table, plan)), CSV, file)
    if ending == "xlsx":
        return _download(exports.table_workbook(table, plan), XLSX, file)
    return _download(orjson.dumps(exports.table_json(table)), "application/json", file)


def _whole(plan: Plan, ending: str) -> Response:
    loaded, file = catalog.current(), exports.file_name(plan, "plan", ending)
    if ending == "csv":
        return _download("".join(exports.plan_csv(plan, loaded)), CSV, file)
    if ending == "xlsx":
        return _download(exports.plan_xlsx(plan, loaded), XLSX, file)
    return _download(exports.plan_json(plan, loaded), "application/json", file)


def _download(content: str | bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers=_attached(name))


def _attached(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-cache"}
