"""The HTML pages that ask and answer: the planner, comparisons, the inverse question; and errors as pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app import charts, form
from app.catalog import Catalog
from app.plan import evaluate
from app.plan.parts import Plan
from app.plan.recommendation import counterpart, degrees
from app.problems import ProblemError
from app.scenario import Scenario
from app.templating import page

router = APIRouter(include_in_schema=False)

SECTIONS = {
    "training": "Training",
    "memory": "Memory",
    "all-reduce": "All-reduce",
    "fabric": "Fabric",
    "bisection": "Bisection",
    "cost": "Cost",
    "power": "Power and racks",
    "sensitivity": "Sensitivity",
    "acceptance": "Acceptance sheet",
    "share": "Share and export",
    "sources": "Sources",
}


@dataclass(frozen=True)
class Slice:
    """One part of the bar that shows where the step's time goes, on a scale of 1,000."""

    name: str
    colour: str
    share: float
    start: float
    width: float


@router.get("/")
def plan(request: Request) -> Response:
    """The planner."""
    pairs = request.query_params.multi_items()
    if any(not value.strip() for _, value in pairs):
        return _without_blanks(request, pairs)
    asked = form.read(pairs)
    catalog: Catalog = request.app.state.catalog
    if asked.scenario is None:
        return _refused(request, asked, catalog)
    answer = evaluate(asked.scenario, catalog)
    return page(
        request, "plan.html", _planner(request, asked, asked.scenario, answer, catalog), scenario=asked.scenario
    )


def _without_blanks(request: Request, pairs: list[tuple[str, str]]) -> Response:
    """A form sent without JavaScript names every field: lead to the address that says only what was asked."""
    defaults = {name: form.written(field.default) for name, field in Scenario.model_fields.items()}
    kept = [(name, value) for name, value in pairs if value.strip() and value != defaults.get(name)]
    asked = form.read(kept)
    if asked.scenario is not None:
        kept = [(name, value) for name, value in kept if name in asked.scenario.asked()]
    query = urlencode(kept)
    return RedirectResponse(request.url.replace(query=query).path + (f"?{query}" if query else ""), 303)


def _refused(request: Request, asked: form.Asked, catalog: Catalog) -> Response:
    """The form with what is wrong, and no plan."""
    values = {
        "plan": None,
        "form": form.form(asked, catalog),
        "headline": "Plan",
        "preset_query": _preset_query,
    }
    return page(request, "plan.html", values, status=422)


def _planner(
    request: Request, asked: form.Asked, scenario: Scenario, answer: Plan, catalog: Catalog
) -> Mapping[str, Any]:
    figures = {
        "step_parts": charts.step_parts(answer),
        "what_if": charts.what_if(answer),
        "memory": charts.memory(answer),
        "all_reduce": charts.all_reduce_alternatives(answer),
        "bisection": charts.bisection(answer),
        "costs": charts.costs(answer),
        "power": charts.power(answer),
        "cloud": charts.cloud(answer) if answer.training.cloud else None,
    }
    curves: dict[str, Any] = {}
    figures |= dict.fromkeys(("all_reduce_curves", "scaling", "tail", "cost_per_port", "tornado"))
    return {
        "plan": answer,
        "form": form.form(asked, catalog, answer.scenario),
        "headline": form.summary(scenario, catalog),
        "explained": answer.explanations,
        "formulas": {},
        "figures": figures,
        "curves": curves,
        "drawing": None,
        "acceptance": None,
        "slices": list(_slices(answer)),
        "sections": [
            (key, title)
            for key, title in SECTIONS.items()
            if key not in ("sensitivity", "acceptance") or (figures["tornado"] if key == "sensitivity" else False)
        ],
        "comparisons": list(comparisons(request, scenario, catalog)),
        "exports": [("JSON", _address(request, "/api/v1/plan", scenario.query()))],
        "origin": f"{request.url.scheme}://{request.url.netloc}",
        "resources": charts.RESOURCES,
        "algorithm_name": charts.algorithm_name,
        "field_title": form.title,
        "option_label": lambda name, value: form.label(name, value, catalog),
        "name_of": _name_of,
        "degrees": degrees,
        "preset_query": _preset_query,
    }


def _slices(answer: Plan) -> Iterator[Slice]:
    """The step's resources as a bar: where each begins and how wide it is drawn."""
    sums = {
        name: sum(part.time.typical for part in answer.training.parts if part.resource == name and part.time)
        for name in charts.RESOURCES
    }
    whole = sum(sums.values())
    start = 0.0
    for name, value in sums.items():
        if whole and value:
            share = value / whole
            colour = charts.resource_look(name, answer).colour.removeprefix("var(--chart-").removesuffix(")")
            yield Slice(charts.RESOURCES[name], colour, share, round(start * 1000, 2), round(share * 1000, 2))
            start += share


def _name_of(path: str) -> str:
    """A result's name for people, from its path on the wire."""
    part, _, name = path.partition(".")
    text = (name or part).replace("_", " ")
    names = {"mfu": "Model FLOPs utilisation (MFU)", "hfu": "Hardware FLOPs utilisation (HFU)"}
    return names.get(text, text[:1].upper() + text[1:])


def _preset_query(preset: Any) -> str:
    return Scenario.model_validate(preset.scenario).query()


def _address(request: Request, path: str, query: str) -> str:
    root = request.scope.get("root_path", "")
    return f"{root}{path}?{query}" if query else root + path


# Comparisons ---------------------------------------------------------------------------------------------------------


def comparisons(request: Request, scenario: Scenario, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Other plans one would hold this one against, as links to the comparison."""
    network = catalog.scale_out[scenario.scale_out]
    rival = counterpart(network, catalog)
    several = []
    if rival is not None:
        several.append({"scale_out": rival.key, "switch": None})
        yield f"Compare with {rival.name}", _against(request, scenario, several)
    kernel = [entry for entry in catalog.scale_out.values() if entry.family == "tcp"]
    if kernel and network.family != "tcp" and rival is not None:
        rate = network.port_rate.typical
        nearest = min(kernel, key=lambda entry: abs(entry.port_rate.typical / rate - 1))
        three = [*several, {"scale_out": nearest.key, "switch": None}]
        yield f"with {rival.name} and {nearest.name}", _against(request, scenario, three)
    half = [{"oversubscription": scenario.oversubscription * 2}]
    yield "with half the uplinks", _against(request, scenario, half)
    newer = next((entry for entry in catalog.scale_out.values() if entry.predecessor == network.key), None)
    if newer is not None:
        yield f"with {newer.name}", _against(request, scenario, [{"scale_out": newer.key, "switch": None}])


def _against(request: Request, scenario: Scenario, others: list[dict[str, Any]]) -> str:
    """The address of a comparison of this scenario with changed ones."""
    fields = {}
    for letter, changes in zip("abcd", [{}, *others], strict=False):
        whole = scenario.model_copy(update=changes)
        fields |= {f"{letter}.{name}": value for name, value in form.texts(whole).items()}
    return _address(request, "/compare", urlencode(fields))


# Errors --------------------------------------------------------------------------------------------------------------


def wants_page(request: Request) -> bool:
    """Whether the answer is for a person: a browser outside the API."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return not path.startswith(("/api/", "/static/")) and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, error: ProblemError) -> Response:
    """An error as a page."""
    state = request.scope.get("state", {})
    values = {"problem": error.problem, "request_id": state.get("request_id", "")}
    answer = page(request, "error.html", values, status=error.problem.status)
    answer.headers.update(error.headers)
    return answer
