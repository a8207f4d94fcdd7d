"""The sections of a plan: some stand on the planner, the others behind a row; each is also a page of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.plan.evaluate import evaluate
from app.plan.prices import PriceList
from app.plan.recommendation import degrees
from app.plan.result import Plan
from app.plan.scenario import PriceRequest, Scenario
from app.report import drawing
from app.report import tables as report_tables
from app.report.charts import named_charts, plan_charts
from app.report.charts.style import Figure
from app.report.drawn_parts import Drawing
from app.report.labels import cut, designs
from app.units import show
from app.web import form, requests
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.shared import PageRoute, results_of
from app.web.problems import ProblemError
from app.web.templating import Notes, page

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True)
class Section:
    """A section: its title, the charts it shows, and the part of a plan whose formulas it explains."""

    title: str
    charts: tuple[str, ...] = ()
    part: str = ""
    in_page: bool = False
    open: bool = False
    page: str = ""
    """The address of its page, where that is not a section's."""


SECTIONS: Mapping[str, Section] = {
    "cost": Section("Cost", ("capital",), "costs", in_page=True, open=True),
    "training": Section("Training", ("step-parts",), "training", in_page=True, open=True),
    "timeline": Section("One step in time", ("overlap", "timeline"), in_page=True),
    "roofline": Section("Roofline of the step", ("roofline",)),
    "bottleneck": Section("What would help", ("what-if",), "bottleneck", in_page=True),
    "parallelism": Section("How the model is run", part="training"),
    "scaling": Section("How it scales", page="/curves"),
    "memory": Section("Memory", ("memory",), "memory", in_page=True),
    "storage": Section("Storage and checkpoints", part="storage"),
    "all-reduce": Section("All-reduce", ("all-reduce-curves", "all-reduce"), "all_reduce"),
    "fabric": Section("Fabric", part="fabric"),
    "bisection": Section("Bisection", ("bisection",), in_page=True),
    "power": Section("Power and racks", ("power",), "cluster", in_page=True),
    "sensitivity": Section("Sensitivity", ("tornado",)),
    "acceptance": Section("Acceptance sheet", page="/acceptance"),
    "share": Section("Share and export", in_page=True),
    "sources": Section("Sources"),
}


def absent(plan: Plan) -> frozenset[str]:
    """Sections that this plan has nothing to show in."""
    timed = plan.training.step_time is not None
    trains = plan.serving is None
    shown = {
        "training": trains,
        "memory": trains,
        "storage": trains,
        "timeline": timed,
        "roofline": timed,
        "bottleneck": timed and bool(plan.bottleneck.what_if),
        "parallelism": plan.training.parallelism is not None,
        "scaling": timed,
        "sensitivity": timed,
    }
    return frozenset(key for key, applies in shown.items() if not applies)


def summaries(plan: Plan, figures: Mapping[str, Figure]) -> dict[str, str]:
    """What each section found, in a sentence for its row."""
    titles = {name: figure.title for name, figure in figures.items()}
    drawn = {key: section.charts[-1].replace("-", "_") for key, section in SECTIONS.items() if section.charts}
    said = {key: titles[name] for key, name in drawn.items() if name in titles}
    run, fabric = plan.training.parallelism, plan.fabric
    if run is not None:
        said["parallelism"] = f"{' '.join(cut(run))}, micro-batch {run.micro_batch}."
    size, time = plan.storage.checkpoint_size, plan.storage.checkpoint_time
    if size and time:
        said["storage"] = f"A checkpoint of {show(size.typical, 'B')} takes {show(time.typical, 's')}."
    if plan.cluster.rack_power:
        said["power"] = f"{drawing.racks_in_words(plan.cluster)} {said.get('power', '')}"
    if fabric.leaf_switches is not None:
        equal = f" The counts equal a published design: {designs(fabric.matches)}." if fabric.matches else ""
        said["fabric"] = f"{drawing.switches_in_words(fabric)}.{equal}"
    elif any(finding.code == "one-node" for finding in plan.findings):
        said["fabric"] = "One node needs no network between nodes."
    return {
        "fabric": "It cannot be built as asked; the findings say why.",
        "storage": "What checkpoints and data ask of the storage.",
        "scaling": "Efficiency, slow nodes and the cost of a port, against the number of GPUs.",
        "all-reduce": plan_charts.all_reduce_alternatives(plan).title,
        "roofline": "Which kernels arithmetic limits, and which memory.",
        "sensitivity": "What moves the cost of this run most, each constant through its own range.",
        "acceptance": "What the finished cluster should show, from one link to the whole.",
        "share": "Tables as CSV, XLSX and JSON, the cable list, the API.",
        "sources": "What the numbers rest on, and every input.",
        **said,
    }


@router.get("/plan/{key}")
async def plan_section(request: Request) -> Response:
    """One section of a plan, with its tables, formulas and sources."""
    key = request.path_params["key"]
    catalog: Catalog = request.app.state.catalog
    if key not in SECTIONS or SECTIONS[key].page:
        raise ProblemError(404, f"A plan has no section of that name. There are {', '.join(SECTIONS)}.")
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def answer() -> Response:
        plan = evaluate(scenario, catalog)
        if key in absent(plan):
            raise ProblemError(404, "This plan has nothing to show there; its findings say why.")
        values = {
            "key": key,
            "title": SECTIONS[key].title,
            "headline": form.summary(scenario, catalog),
            "explanations": [path for path in plan.explanations if path.split(".")[0] == SECTIONS[key].part],
            "whole": True,
            "notes": Notes(f"{key}-"),
            **values_of(request, (key,), scenario, plan, catalog),
        }
        return page(request, "section.html", values, scenario=scenario)

    heavy = key in ("sensitivity", "all-reduce", "roofline") or is_heavy(scenario, catalog)
    return await compute(request, lambda _: answer(), heavy=heavy)


def values_of(
    request: Request, keys: tuple[str, ...], scenario: Scenario, plan: Plan, catalog: Catalog
) -> dict[str, Any]:
    """What the templates of these sections print."""
    tables = report_tables.tables(plan, catalog)
    figures: dict[str, Any] = {}
    for name in (name for key in keys for name in SECTIONS[key].charts):
        key = name.replace("-", "_")
        if name in named_charts.OF_PLAN:
            figures[key] = named_charts.OF_PLAN[name][0](plan)
        elif chart := named_charts.chart(name, scenario, plan, catalog):
            figures[key], tables[key] = chart.figure, chart.table
    values: dict[str, Any] = {
        "plan": plan,
        "figures": figures,
        "tables": tables,
        "origin": f"{request.url.scheme}://{request.url.netloc}",
        "option_label": lambda name, value: form.label(name, value, catalog),
        "degrees": degrees,
        "numbers": "paths",
        **results_of(plan),
    }
    if "parallelism" in keys and plan.training.cloud:
        figures["cloud"] = plan_charts.configurations(plan)
    if "sources" in keys:
        values["inputs_in_words"] = _inputs_in_words(plan, catalog)
    if "fabric" in keys:
        values["drawing"] = fabric_drawing(plan, catalog)
    return values


def _inputs_in_words(plan: Plan, catalog: Catalog) -> list[tuple[str, str]]:
    """Every input of a plan that has a value, as people call and write it; files have the names on the wire."""
    return [
        (form.title(name), form.shown(name, value, catalog))
        for name, value in plan.scenario.items()
        if value is not None and name in Scenario.model_fields
    ]


def prices_in_force(scenario: Scenario, plan: Plan, catalog: Catalog) -> dict[str, Estimate]:
    """What the price and site fields of a plan stand at, by field."""
    prices = PriceList.of(scenario.part(PriceRequest), catalog)
    platform, switch = catalog.platforms[plan.scenario["platform"]], catalog.switches.get(plan.fabric.switch)
    return prices.in_force(platform, plan.cluster.gpus_per_node, scenario.gpu, switch)


def fabric_drawing(plan: Plan, catalog: Catalog) -> Drawing | None:
    """The drawing of a plan's network."""
    switch = catalog.switches.get(plan.fabric.switch)
    scale_up = catalog.scale_up[plan.scenario["scale_up"]].name
    return drawing.draw(plan.fabric, plan.cluster, switch.name if switch else "", scale_up)
