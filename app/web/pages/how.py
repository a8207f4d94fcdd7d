"""How one number of a plan was made: the evidence that opens beside it, and a page where there is no script."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.declarations import results
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.report import method
from app.studies.board_brief import capital_lines, not_included
from app.units import percent, show
from app.validation.nearest_runs import nearest_runs
from app.validation.published_campaigns import published_campaign
from app.web import form, requests
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.sections import prices_in_force
from app.web.pages.shared import PageRoute, results_of
from app.web.problems import ProblemError
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

CONSTANTS = {
    "costs": ("price_node", "infrastructure", "lifetime", "electricity", "pue", "support"),
    "costs.capital": ("price_node", "infrastructure", "price_switch", "spares"),
    "costs.operating": ("electricity", "pue", "support", "spares"),
    "costs.energy": ("electricity", "pue"),
    "costs.carbon": ("region", "pue"),
    "costs.carbon_per_run": ("region", "pue", "training_tokens"),
    "costs.rental": ("price_gpu_hour", "training_tokens"),
    "costs.per_run": ("price_node", "lifetime", "electricity", "support"),
    "costs.scale_up": ("gpu",),
    "fabric": ("gpus", "topology", "oversubscription"),
    "fabric.cost": ("price_switch", "price_transceiver", "price_cable", "price_nic"),
    "fabric.share_of_capital": ("price_switch", "price_transceiver", "price_node"),
    "fabric.bisection": ("oversubscription", "topology"),
    "fabric.latency": ("topology", "tiers"),
    "training": ("global_batch", "precision", "jitter"),
    "training.time_to_train": ("training_tokens", "availability", "global_batch"),
    "training.productive_time": ("training_tokens", "global_batch", "precision"),
    "training.campaign_time": ("campaign_overhead", "training_tokens", "availability"),
    "training.availability": ("failure_rate", "restart_time", "checkpoint_interval"),
    "training.straggler": ("jitter", "slow_node"),
    "training.steps": ("training_tokens", "global_batch"),
    "training.parallelism": ("gpus", "global_batch"),
    "training.parameters": ("model",),
    "training.active_parameters": ("model",),
    "training.flops_per_token": ("model", "sequence_length"),
    "memory": ("micro_batch", "recompute", "sharding"),
    "memory.capacity": ("gpu",),
    "all_reduce": ("message", "algorithm", "protocol"),
    "all_reduce.ranks": ("gpus",),
    "all_reduce.message": ("message",),
    "all_reduce.all_to_all": ("message",),
    "cluster": ("gpu", "gpus"),
    "cluster.rack_power": ("gpu", "rack_power"),
    "cluster.racks": ("gpus", "rack_power"),
    "cluster.racks_by_height": ("gpus",),
    "power": ("gpus", "pue"),
}
"""What a reader would change to move a result: the fields of the longest name that it begins with."""
PER_WATT = ("infrastructure",)
"""Numbers that are dollars for a watt."""


@dataclass(frozen=True)
class Constant:
    """A field that moves the result, and the figure in force where the catalogue has one."""

    control: form.Control
    estimate: Estimate | None

    def shown(self, value: float) -> str:
        """A figure of the estimate in the unit that people quote it in."""
        if self.estimate is None or self.estimate.unit != "1":
            return show(value, self.estimate.unit if self.estimate else "1")
        if self.control.name in PER_WATT:
            return show(value, "USD") + "/W"
        return percent(value) if form.is_share(self.control.name) else show(value, "1")


@router.get("/how/{path}")
async def how(request: Request) -> Response:
    """One result: what it is, its formula with this plan's numbers, what it rests on, and what moves it."""
    path = request.path_params["path"]
    catalog = request.app.state.catalog
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def answer() -> Response:
        plan = evaluate(scenario, catalog)
        figure = {result.path: result for result in results(plan)}.get(path)
        single = figure is not None and isinstance(figure.value, Band | int | float | str | None)
        if figure is None or not (single or path in plan.explanations):
            raise ProblemError(404, "A plan has no result of that name. /docs lists all.")
        timed = path.startswith("training.") and plan.training.step_time is not None
        changed = [(name, text) for name, text in form.texts(scenario).items() if name not in constants_of(path)]
        values = {
            "path_of_result": path,
            "result": figure,
            "single": single,
            "lines": tuple(capital_lines(plan)) if path == "costs.capital" else (),
            "left_out": not_included(plan),
            "notes": None,
            "constants": _constants(path, scenario, plan, catalog),
            "others": changed,
            "typed": {name: None for name in constants_of(path) if name in scenario.asked()},
            "nearest": nearest_runs(plan.scenario, catalog) if timed else (),
            "campaign": published_campaign(scenario, plan, catalog) if timed else None,
            "headline": form.summary(scenario, catalog),
            "explained": plan.explanations,
            "formulas": method.formulas(),
            **results_of(plan),
        }
        return page(request, "how.html", values, scenario=scenario)

    return await compute(request, lambda _: answer(), heavy=is_heavy(scenario, catalog))


def constants_of(path: str) -> tuple[str, ...]:
    """The fields that a reader would change to move a result.

    >>> constants_of("costs.energy"), constants_of("findings")
    (('electricity', 'pue'), ())
    """
    fitting = [name for name in CONSTANTS if path == name or path.startswith((f"{name}.", f"{name}_"))]
    return CONSTANTS[max(fitting, key=len)] if fitting else ()


def _constants(path: str, scenario: Scenario, plan: Plan, catalog: Catalog) -> list[Constant]:
    in_force = prices_in_force(scenario, plan, catalog)
    resolved: dict[str, Any] = {**plan.scenario, **{name: estimate.typical for name, estimate in in_force.items()}}
    if plan.training.availability is not None:
        resolved["availability"] = plan.training.availability
    bound = form.bind(form.texts(scenario).items(), catalog)
    controls = form.controls(bound, catalog, constants_of(path), resolved)
    return [Constant(control, in_force.get(control.name)) for control in controls]
