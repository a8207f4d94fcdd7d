"""The planner."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.catalog.load import Catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.report.charts import named_charts
from app.studies.bad_parts import bad_parts
from app.validation.published_campaigns import published_campaign
from app.web import form
from app.web.heavy_queue import compute, is_heavy
from app.web.pages import sections
from app.web.pages.compare import comparisons
from app.web.pages.shared import PageRoute, address, money_slices, slices, unpriced
from app.web.problems import ProblemError
from app.web.templating import job_to_size, page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

LATER = ("scaling", "tail", "cost-per-port")
"""Curves that take longer than the plan."""


@router.get("/")
async def plan(request: Request) -> Response:
    """The planner."""
    pairs = request.query_params.multi_items()
    if any(not value.strip() for _, value in pairs):
        return _without_blanks(request, pairs)
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(pairs, catalog)
    scenario = bound.answered
    if bound.scenario is not None and bound.scenario.workload == "serving":
        return RedirectResponse(address(request, "/serve", ServingQuestion.of(bound.scenario).query()), 303)
    if scenario is not None and scenario.workload == "serving":
        scenario = None  # a page of its own answers it, once nothing is wrong
    heavy = scenario is not None and is_heavy(scenario, catalog)
    return await compute(request, lambda _: _plan(request, bound, scenario), heavy=heavy)


def _plan(request: Request, bound: form.BoundForm, scenario: Scenario | None) -> Response:
    catalog: Catalog = request.app.state.catalog
    if scenario is None:
        return _refused(request, bound, catalog)
    answer = evaluate(scenario, catalog)
    values = _planner(request, bound, scenario, answer, catalog)
    return page(request, "plan.html", values, scenario=scenario, status=422 if bound.errors else 200)


def _without_blanks(request: Request, pairs: list[tuple[str, str]]) -> Response:
    """A form sent without JavaScript names every field: lead to the address that says only what was asked."""
    defaults = form.defaults()
    kept = [(name, value) for name, value in pairs if value.strip() and value != defaults.get(name)]
    bound = form.bind(kept, request.app.state.catalog)
    if bound.scenario is not None:
        kept = [(name, value) for name, value in kept if name in bound.scenario.asked()]
    query = urlencode(kept)
    return RedirectResponse(request.url.replace(query=query).path + (f"?{query}" if query else ""), 303)


def _refused(request: Request, bound: form.BoundForm, catalog: Catalog) -> Response:
    """The form with what is wrong, and no plan."""
    values = {
        "plan": None,
        "form": form.form(bound, catalog),
        "headline": "Plan",
    }
    return page(request, "plan.html", values, status=422)


def _planner(
    request: Request, bound: form.BoundForm, scenario: Scenario, answer: Plan, catalog: Catalog
) -> Mapping[str, Any]:
    shown = tuple(
        key for key, section in sections.SECTIONS.items() if section.in_page and key not in sections.absent(answer)
    )
    values = sections.values_of(request, shown, scenario, answer, catalog)
    return {
        **values,
        "form": form.form(bound, catalog, _in_force(scenario, answer, catalog)),
        "headline": form.summary(scenario, catalog),
        "parts": form.parts(scenario, catalog),
        "kept_as": scenario.query(catalog_version=None),
        "sections": sections.SECTIONS,
        "absent": sections.absent(answer),
        "summaries": sections.summaries(answer, values["figures"]),
        "notes": None,
        "slices": list(slices(answer)),
        "money": list(money_slices(answer)),
        "unpriced": unpriced(answer),
        "comparisons": list(comparisons(request, _with_batch(scenario, answer), catalog)),
        "size_alone": address(request, "/size", urlencode(job_to_size(scenario, alone=True))),
        "field_title": form.title,
        "campaign": published_campaign(scenario, answer, catalog) if answer.training.step_time else None,
    }


def _with_batch(scenario: Scenario, answer: Plan) -> Scenario:
    """The question with the batch of its plan: left blank, another network may choose another one."""
    return scenario.model_copy(update={"global_batch": answer.scenario["global_batch"]})


def _in_force(scenario: Scenario, answer: Plan, catalog: Catalog) -> Mapping[str, Any]:
    """What stands behind each blank field, prices included."""
    prices = sections.prices_in_force(scenario, answer, catalog)
    return {**answer.scenario, **{name: estimate.typical for name, estimate in prices.items()}}


@router.get("/curves")
async def plan_curves(request: Request) -> Response:
    """How a plan scales: curves that take longer than a plan; the planner fetches them when they come into view."""
    return await compute(request, lambda _: _curves(request), heavy=True)


def _curves(request: Request) -> Response:
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog)
    if bound.scenario is None:
        raise ProblemError(422, " ".join(f"{form.title(name)}: {text}" for name, text in bound.errors.items()))
    scenario = bound.scenario
    plan = evaluate(scenario, catalog)
    charts = {name: named_charts.chart(name, scenario, plan, catalog) for name in LATER}
    drawn = [(name, chart.figure, chart.table) for name, chart in charts.items() if chart]
    chosen = plan.training.parallelism if plan.memory.fits else None
    bad = bad_parts(scenario, catalog, plan.all_reduce.message, chosen)
    values = {"headline": form.summary(scenario, catalog), "drawn": drawn, "bad_parts": bad}
    return page(request, "curves.html", values, scenario=scenario)
