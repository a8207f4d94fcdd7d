"""The pages that explore: all-reduce and fabric."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate, evaluate_all_reduce, evaluate_network
from app.plan.long_parts import SOURCES
from app.plan.network import network_of
from app.plan.result import Cluster as ClusterPart
from app.plan.result import NetworkPlan
from app.plan.scenario import Scenario
from app.report import drawing, drawn_parts, method, tables
from app.report.charts import curve_charts, plan_charts
from app.report.other_networks_drawing import other_networks
from app.report.place_drawing import place_drawing
from app.report.places import Hall, Place
from app.report.rack_drawing import RackOf, rack_elevations
from app.studies import all_reduce_curves, curve, nccl_tests, port_cost
from app.studies.failed_parts import failed_parts, link_loads
from app.web import form, requests
from app.web.heavy_queue import LIGHT_CURVE, Stopped, compute, is_heavy
from app.web.pages.asked_charts import own_address
from app.web.pages.shared import PageRoute, results_of
from app.web.problems import ProblemError
from app.web.requests import posted
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)


# What pages about a scenario share -----------------------------------------------------------------------------------


def _question(
    bound: form.BoundForm, catalog: Catalog, resolved: Mapping[str, Any] | None, shown: Iterable[str]
) -> Mapping[str, Any]:
    """The fields that a page asks for as controls, the others that were asked as hidden ones, and what is wrong."""
    names = tuple(shown)
    filled = form.form(bound, catalog, resolved)
    controls = {control.name: control for group in filled.groups for control in (*group.first, *group.rest)}
    wrong = [name for name, _, _ in filled.errors if name in controls and name not in names]
    given = {name: text for name, text in bound.typed.items() if text.strip() and name in controls}
    return {
        "controls": [controls[name] for name in (*names, *wrong)],
        "hidden": {name: text for name, text in given.items() if name not in (*names, *wrong)},
        "errors": filled.errors,
    }


# All-reduce explorer -------------------------------------------------------------------------------------------------

EXPLORED = (
    "gpu", "gpus", "scale_out", "message", "scale_up", "gpus_per_node", "nics_per_node", "profile", "algorithm",
    "protocol", "graphs", "in_network_reduction", "gpudirect", "tuned",
)  # fmt: skip


LIGHT_PASTE = 50_000
"""Bytes of a pasted output beyond which reading it waits its turn."""


@router.get("/all-reduce")
async def explore(request: Request) -> Response:
    """Time and bandwidth of an all-reduce, swept over everything that matters."""
    return await compute(request, lambda _: _explorer(request, request.query_params.multi_items()))


@router.post("/all-reduce")
async def paste(request: Request) -> Response:
    """The same page with a measurement beside it."""
    body = await request.body()

    def work(_: Stopped) -> Response:
        return _explorer(request, posted(body, request.headers.get("content-type", "")))

    return await compute(request, work, heavy=len(body) > LIGHT_PASTE)


def _explorer(request: Request, pairs: list[tuple[str, str]]) -> Response:
    pasted = next((value for name, value in pairs if name == "output"), "")
    loaded: Catalog = request.app.state.catalog
    bound = form.bind([(name, value) for name, value in pairs if name != "output"], loaded)
    scenario = bound.answered
    if scenario is None:
        values = {**_question(bound, loaded, None, EXPLORED), "part": None, "pasted": pasted}
        return page(request, "all_reduce.html", values, status=422)
    plan = evaluate_all_reduce(scenario, loaded)
    part = plan.all_reduce
    swept = _swept(scenario, loaded, part.message) if part.ranks > 1 and part.time is not None else {}
    values = {
        **_question(bound, loaded, plan.scenario, EXPLORED),
        **results_of(part, "all_reduce"),
        "explained": plan.explanations,
        "formulas": method.formulas(),
        "part": part,
        "own_message": scenario.message,
        "hardware": look_up(scenario, loaded),
        "findings": plan.findings,
        "figures": {name: curve_charts.all_reduce_curves(curve) for name, curve in swept.items()}
        | {"algorithms": plan_charts.algorithms(part)},
        "tables": {name: tables.curve_table(curve) for name, curve in swept.items()}
        | {"algorithms": tables.all_reduce_table(part)},
        "pasted": pasted,
        "own_address": own_address(pairs),
        **_pasted(pasted, scenario, loaded),
    }
    return page(request, "all_reduce.html", values, scenario=scenario, status=422 if bound.errors else 200)


@lru_cache(maxsize=4)
def _swept(scenario: Scenario, loaded: Catalog, message: float) -> Mapping[str, curve.Curve]:
    """The curves of the explorer."""
    curves = {
        "time": all_reduce_curves.all_reduce_over_sizes(scenario, loaded, message),
        "bus": all_reduce_curves.all_reduce_over_sizes(scenario, loaded, message, "bus_bandwidth"),
        "algorithm": all_reduce_curves.all_reduce_over_sizes(scenario, loaded, message, "algorithm_bandwidth"),
        "gpus": all_reduce_curves.all_reduce_over_gpus(scenario, loaded, message),
        "gpus_bus": all_reduce_curves.all_reduce_over_gpus(scenario, loaded, message, "bus_bandwidth"),
        "shares": all_reduce_curves.all_reduce_shares(scenario, loaded, message),
        "networks": all_reduce_curves.all_reduce_by_network(scenario, loaded, message),
    }
    return {name: curve for name, curve in curves.items() if curve.series}


def _pasted(text: str, scenario: Scenario, catalog: Catalog) -> Mapping[str, Any]:
    """A pasted measurement beside its prediction: a table, a chart, what it implies."""
    empty = dict.fromkeys(("output", "result", "result_table", "result_figure", "carried"))
    if not text.strip():
        return empty
    output = nccl_tests.read(text)
    if output.problem:
        return {**empty, "output": output}
    result = nccl_tests.compare(output, scenario, catalog)
    if not result.rows:
        return {**empty, "output": output, "result": result}
    table, figure = tables.comparison_table(result), curve_charts.lines(nccl_tests.measured(result))
    values = {**empty, "output": output, "result": result, "result_table": table, "result_figure": figure}
    same_reach = look_up(result.scenario, catalog).nodes > 1, look_up(scenario, catalog).nodes > 1
    if result.efficiency is not None and same_reach[0] == same_reach[1]:
        values["carried"] = scenario.query(measured_efficiency=round(result.efficiency, 3))
    return values


# Fabric --------------------------------------------------------------------------------------------------------------

DESIGNED = (
    "gpu", "gpus", "scale_out", "topology", "oversubscription", "spine_oversubscription", "switch", "tiers", "planes",
    "nodes_per_unit", "management_links", "spine_policy", "nics_per_node", "price_book", "storage_network",
    "management_network",
)  # fmt: skip


@router.get("/fabric")
async def fabrics(request: Request) -> Response:
    """The fabric: drawing, counts, cut in half, what it costs and how that grows."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog)
    heavy = bound.answered is not None and is_heavy(bound.answered, catalog, LIGHT_CURVE)
    return await compute(request, lambda _: _fabrics(request, bound), heavy=heavy)


def _fabrics(request: Request, bound: form.BoundForm) -> Response:
    scenario, loaded = bound.answered, request.app.state.catalog
    if scenario is None:
        return page(request, "fabric.html", {**_question(bound, loaded, None, DESIGNED), "part": None}, status=422)
    plan, cluster = evaluate_network(scenario, loaded), look_up(scenario, loaded)
    part, whole = plan.fabric, evaluate(scenario, loaded, (SOURCES,))
    switch = loaded.switches[part.switch].name if part.switch in loaded.switches else ""
    ports = port_cost.by_size(scenario, loaded) if cluster.nodes > 1 else ()
    priced = port_cost.cost_per_port(scenario, loaded, ports) if ports else None
    worth = port_cost.cost_per_bisection(scenario, loaded, ports) if ports else None
    keys = {"scale_up": cluster.scale_up.key, "scale_out": cluster.scale_out.key}
    values = {
        **_question(bound, loaded, plan.scenario, DESIGNED),
        **results_of(part, "fabric"),
        "explained": plan.explanations,
        "formulas": method.formulas(),
        "part": part,
        "cluster": plan.cluster,
        "hardware": cluster,
        "switch": switch,
        "topology": form.shown("topology", part.topology, loaded),
        "drawing": drawing.draw(part, plan.cluster, switch, cluster.scale_up.name) if part.shape else None,
        "racks": _elevations(plan, loaded),
        "hall": _hall(scenario, plan, loaded),
        "others": other_networks(part.networks, loaded) if part.networks else None,
        "findings": plan.findings,
        "failed": failed_parts(scenario, loaded, whole.all_reduce.message, whole.training.parallelism),
        "loads": link_loads(scenario, loaded),
        "whole_plan": whole,
        "bisection": plan_charts.fabric_bisection(part, keys),
        "tables": tables.fabric_tables(part),
        "priced": curve_charts.cost_per_port(priced) if priced else None,
        "priced_table": tables.curve_table(priced) if priced else None,
        "cliffs": port_cost.cliffs(ports),
        "value": curve_charts.lines(worth) if worth else None,
        "value_table": tables.curve_table(worth) if worth else None,
    }
    return page(request, "fabric.html", values, scenario=scenario, status=422 if bound.errors else 200)


def _nodes_of_a_rack(cluster: ClusterPart[Band | None]) -> int:
    """Nodes that stand in the fullest rack, spare ones too [1]."""
    return -(-(cluster.nodes + cluster.spare_nodes) // max(cluster.compute_racks, 1))


def _hall(scenario: Scenario, plan: NetworkPlan, loaded: Catalog) -> Hall | None:
    """Where the nodes of a network with a drawing stand."""
    if plan.fabric.shape is None or not plan.cluster.compute_racks:
        return None
    return Hall.of(network_of(scenario, loaded), _nodes_of_a_rack(plan.cluster))


def _rack_of_nodes(plan: NetworkPlan, loaded: Catalog, place: Place | None = None, nodes: range = range(0)) -> RackOf:
    """The fullest rack of nodes, or the one at a place, with those that stand in it."""
    cluster, platform = plan.cluster, loaded.platforms[str(plan.scenario["platform"])]
    most = _nodes_of_a_rack(cluster)
    many = len(nodes) or most
    about = [f"{many * cluster.gpus_per_node:,} GPUs"]
    if platform.scale_up_domain > platform.gpus_per_node:
        about.append("the rest for its own switches, supply and cooling")
    power = cluster.rack_power.typical * many / most if cluster.rack_power else float("nan")
    rack = RackOf("node", "node", cluster.compute_racks, many, platform.rack_units or 0, power, tuple(about))
    return replace(rack, first=nodes[0], apart=True, name=place.name) if place else rack


def _elevations(plan: NetworkPlan, loaded: Catalog) -> drawn_parts.Drawing | None:
    """A rack of nodes and one of the network's switches; nothing where there are no racks."""
    cluster, fabric = plan.cluster, plan.fabric
    kinds: list[RackOf] = []
    if cluster.compute_racks and cluster.rack_power:
        kinds.append(_rack_of_nodes(plan, loaded))
    of_network = cluster.racks - cluster.compute_racks
    switches = sum(filter(None, (fabric.leaf_switches, fabric.spine_switches, fabric.core_switches)))
    if of_network and switches and fabric.switch in loaded.switches:
        entry, count = loaded.switches[fabric.switch], -(-switches // of_network)
        power = fabric.power.typical * count / switches if fabric.power else float("nan")
        kinds.append(RackOf("leaf", "switch", of_network, count, entry.rack_units or 0, power, (entry.name,)))
    return rack_elevations(kinds, _rack_height(loaded)) if kinds else None


def _rack_height(loaded: Catalog) -> int:
    return int(loaded.operations["racks"]["height"].typical)


@router.get("/fabric/{level}/{number}")
@router.get("/fabric/{level}/{number}/rail/{rail}")
async def fabric_place(request: Request) -> Response:
    """A pod, unit, rack or node of a fabric, or a rail of a node, drawn by itself."""
    catalog: Catalog = request.app.state.catalog
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)
    return await compute(request, lambda _: _place(request, scenario, catalog), heavy=is_heavy(scenario, catalog))


def _place(request: Request, scenario: Scenario, catalog: Catalog) -> Response:
    plan = evaluate_network(scenario, catalog, explained=False)
    hall, place = _hall(scenario, plan, catalog), _asked_place(request.path_params)
    shape = plan.fabric.shape
    if hall is None or shape is None or place is None or not hall.holds(place):
        raise ProblemError(404, "This fabric has no such place: see /fabric for its units, racks and nodes.")
    nodes, platform = hall.nodes_of(place), look_up(scenario, catalog).scale_up.name
    if place.level == "rack":
        drawn = rack_elevations([_rack_of_nodes(plan, catalog, place, nodes)], _rack_height(catalog))
    else:
        drawn = place_drawing(hall, place, shape, catalog.switches[plan.fabric.switch].name, platform)
    levels = list(hall.sizes)
    below = levels[levels.index(place.level) + 1 :][:1] if place.level in levels else []
    values = {
        "headline": form.summary(scenario, catalog),
        "hall": hall,
        "here": place,
        "drawing": drawn,
        "inside": {level: hall.inside(place, level) for level in below},
        "neighbours": list(_neighbours(hall, place)),
    }
    return page(request, "place.html", values, scenario=scenario)


def _asked_place(parts: Mapping[str, str]) -> Place | None:
    """The place that the path of an address names."""
    numbers = [parts["number"], parts.get("rail", "0")]
    if not all(text.isdecimal() and len(text) < 8 for text in numbers) or (
        "rail" in parts and parts["level"] != "node"
    ):
        return None
    number, rail = map(int, numbers)
    if number < 1 or ("rail" in parts and rail < 1):
        return None
    return Place("rail" if "rail" in parts else parts["level"], number, rail)


def _neighbours(hall: Hall, place: Place) -> Iterator[Place]:
    """The places before and after it."""
    neighbours = (
        [place._replace(rail=place.rail + step) for step in (-1, 1)]
        if place.rail
        else [place._replace(number=place.number + step) for step in (-1, 1)]
    )
    return (
        other for other in neighbours if other.number > 0 and (not place.rail or other.rail > 0) and hall.holds(other)
    )
