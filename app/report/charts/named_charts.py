"""The charts of a plan by name, each with the table of its numbers: a page, a file and a link ask for the same one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.catalog.load import Catalog
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.report import tables
from app.report.charts import curve_charts, plan_charts
from app.report.charts.style import Figure
from app.report.tables import Column, Table
from app.studies import all_reduce_curves, port_cost, scaling, sensitivity, which_network
from app.studies.curve import Curve
from app.studies.step_kernels import step_roofline


@dataclass(frozen=True)
class Chart:
    """A figure and its numbers."""

    figure: Figure
    table: Table


Maker = Callable[[Scenario, Plan, Catalog], Chart | None]

OF_PLAN: Mapping[str, tuple[Callable[[Plan], Figure], str]] = {
    "step": (plan_charts.step_breakdown, "step"),
    "step-parts": (plan_charts.step_parts, "step"),
    "timeline": (plan_charts.step_timeline, "timeline"),
    "overlap": (plan_charts.overlap, "traffic"),
    "what-if": (plan_charts.what_if, "what_if"),
    "memory": (plan_charts.memory, "memory"),
    "all-reduce": (plan_charts.all_reduce_alternatives, "all_reduce"),
    "bisection": (plan_charts.bisection, "bisection"),
    "capital": (plan_charts.costs, "capital"),
    "operating": (plan_charts.operating, "operating"),
    "power": (plan_charts.power, "power"),
}
"""Charts that a plan holds the numbers of: what draws them, and the plan's table that has the same numbers."""


def chart(name: str, scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    """One chart of a plan by name; none where this plan has nothing to draw in it."""
    if name in OF_PLAN:
        draw, table = OF_PLAN[name]
        return Chart(draw(plan), tables.tables(plan, catalog)[table])
    return CURVES[name](scenario, plan, catalog)


def _all_reduce(study: Callable[..., Curve], *quantity: str) -> Maker:
    """A chart of the all-reduce over what a study sweeps; ``quantity`` where it is not the time."""

    def make(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
        if plan.all_reduce.time is None or plan.all_reduce.ranks < 2:
            return None
        curve = study(scenario, catalog, plan.all_reduce.message, *quantity)
        return _curve(curve, curve_charts.all_reduce_curves)

    return make


def _algorithms(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    part = plan.all_reduce
    return Chart(plan_charts.algorithms(part), tables.all_reduce_table(part)) if part.alternatives else None


def _cost_per_bisection(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    if plan.cluster.nodes < 2:
        return None
    ports = port_cost.by_size(scenario, catalog)
    return _curve(port_cost.cost_per_bisection(scenario, catalog, ports), curve_charts.lines)


def _tornado(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    if plan.training.parallelism is None:
        return None
    tornado = sensitivity.sensitivity(scenario, catalog, plan.training.parallelism)
    return Chart(curve_charts.tornado(tornado), tables.sensitivity_table(tornado)) if tornado.swings else None


def _roofline(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    roofline = step_roofline(scenario, plan, catalog)
    return Chart(curve_charts.roofline(roofline), tables.roofline_table(roofline)) if roofline else None


def _scaling(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    chosen = plan.training.parallelism if plan.memory.fits else None
    return _curve(scaling.scaling(scenario, catalog, chosen), curve_charts.scaling) if chosen else None


def _tail(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    chosen = plan.training.parallelism if plan.memory.fits else None
    return _curve(scaling.tail(scenario, catalog, chosen), curve_charts.tail) if chosen else None


def _cost_per_port(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    return _curve(port_cost.cost_per_port(scenario, catalog), curve_charts.cost_per_port)


def _ways(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    if not plan.training.cloud:
        return None
    columns = Column("step_time", "Step time", "s"), Column("memory", "Memory of the fullest GPU", "B")
    return Chart(plan_charts.configurations(plan), Table("ways", "Ways to run the model", columns, plan.training.cloud))


def _which_network(scenario: Scenario, plan: Plan, catalog: Catalog) -> Chart | None:
    curve = which_network.break_even(scenario, catalog) if plan.recommendation else None
    return _curve(curve, curve_charts.lines) if curve else None


def _curve(curve: Curve, draw: Callable[[Curve], Figure]) -> Chart | None:
    return Chart(draw(curve), tables.curve_table(curve)) if curve.series else None


CURVES: Mapping[str, Maker] = {
    "all-reduce-curves": _all_reduce(all_reduce_curves.all_reduce_over_sizes),
    "all-reduce-bus": _all_reduce(all_reduce_curves.all_reduce_over_sizes, "bus_bandwidth"),
    "all-reduce-bandwidth": _all_reduce(all_reduce_curves.all_reduce_over_sizes, "algorithm_bandwidth"),
    "all-reduce-shares": _all_reduce(all_reduce_curves.all_reduce_shares),
    "all-reduce-gpus": _all_reduce(all_reduce_curves.all_reduce_over_gpus),
    "all-reduce-gpus-bus": _all_reduce(all_reduce_curves.all_reduce_over_gpus, "bus_bandwidth"),
    "all-reduce-networks": _all_reduce(all_reduce_curves.all_reduce_by_network),
    "all-reduce-algorithms": _algorithms,
    "tornado": _tornado,
    "roofline": _roofline,
    "scaling": _scaling,
    "tail": _tail,
    "cost-per-port": _cost_per_port,
    "cost-per-bisection": _cost_per_bisection,
    "which-network": _which_network,
    "ways": _ways,
}
"""Charts that ask for more than the plan."""
NAMES = (*OF_PLAN, *CURVES)
