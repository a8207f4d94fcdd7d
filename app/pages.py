"""The HTML pages that ask and answer: the planner, comparisons, the inverse question; and errors as pages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app import acceptance, charts, compare, curves, drawing, exports, form, method
from app.api import Stopped, compute, is_heavy, share_of
from app.catalog import Catalog
from app.plan.bands import Band
from app.plan.evaluation import evaluate
from app.plan.outline import outline
from app.plan.parts import Plan
from app.plan.recommendation import counterpart, degrees
from app.problems import ProblemError
from app.scenario import Scenario
from app.size import Answer, Question, size
from app.templating import Memory, page, percent
from app.units import parse, show

router = APIRouter(include_in_schema=False)
MEMORY = Memory()

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
async def plan(request: Request) -> Response:
    """The planner."""
    if known := MEMORY.known(request):
        return known
    pairs = request.query_params.multi_items()
    if any(not value.strip() for _, value in pairs):
        return _without_blanks(request, pairs)
    asked = form.read(pairs)
    heavy = asked.scenario is not None and is_heavy(asked.scenario, request.app.state.catalog)
    return await compute(request, lambda _: MEMORY.keep(request, _plan(request, asked)), heavy=heavy)


def _plan(request: Request, asked: form.Asked) -> Response:
    catalog: Catalog = request.app.state.catalog
    if asked.scenario is None:
        return _refused(request, asked, catalog)
    answer = evaluate(asked.scenario, catalog)
    return page(
        request, "plan.html", _planner(request, asked, asked.scenario, answer, catalog), scenario=asked.scenario
    )


def _without_blanks(request: Request, pairs: list[tuple[str, str]]) -> Response:
    """A form sent without JavaScript names every field: lead to the address that says only what was asked."""
    defaults = form.defaults()
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
    chosen = answer.training.parallelism
    figures: dict[str, Any] = {
        "step_parts": charts.step_parts(answer),
        "what_if": charts.what_if(answer),
        "memory": charts.memory(answer),
        "all_reduce": charts.all_reduce_alternatives(answer),
        "bisection": charts.bisection(answer),
        "costs": charts.costs(answer),
        "power": charts.power(answer),
    }
    if answer.training.cloud:
        figures["cloud"] = charts.cloud(answer)
    tables = exports.tables(answer, catalog)
    if answer.all_reduce.time is not None and answer.all_reduce.ranks > 1:
        curve = curves.all_reduce_over_sizes(scenario, catalog, answer.all_reduce.message)
        figures["all_reduce_curves"] = charts.all_reduce_curves(curve)
        tables["all_reduce_curves"] = exports.curve_table(curve)
    if chosen is not None:
        swings = curves.sensitivity(scenario, catalog, chosen)
        if swings.swings:
            figures["tornado"] = charts.tornado(swings)
            tables["sensitivity"] = exports.sensitivity_table(swings)
    return {
        "plan": answer,
        "form": form.form(asked, catalog, answer.scenario),
        "headline": form.summary(scenario, catalog),
        "explained": answer.explanations,
        "formulas": method.formulas(),
        "figures": figures,
        "tables": tables,
        "drawing": _drawing(answer, catalog),
        "acceptance": acceptance.sheet(scenario, catalog, _resolved_unit(answer)),
        "slices": list(_slices(answer)),
        "sections": [(key, title) for key, title in SECTIONS.items() if key != "sensitivity" or "tornado" in figures],
        "comparisons": list(comparisons(request, scenario, catalog)),
        "origin": f"{request.url.scheme}://{request.url.netloc}",
        "resources": charts.RESOURCES,
        "algorithm_name": charts.algorithm_name,
        "field_title": form.title,
        "option_label": lambda name, value: form.label(name, value, catalog),
        "name_of": _name_of,
        "rests_on": lambda path: _sources_of(answer, path),
        "degrees": degrees,
        "preset_query": _preset_query,
    }


def _drawing(answer: Plan, catalog: Catalog) -> drawing.Drawing | None:
    switch = catalog.switches.get(answer.fabric.switch)
    scale_up = catalog.scale_up[answer.scenario["scale_up"]].name
    return drawing.draw(answer.fabric, answer.cluster, switch.name if switch else "", scale_up)


def _resolved_unit(answer: Plan) -> int | None:
    """Nodes of one scalable unit, where the fabric has units."""
    nodes: int | None = answer.scenario["nodes_per_unit"]
    return nodes


def _slices(answer: Plan, longest: float | None = None) -> Iterator[Slice]:
    """The step's resources as a bar: where each begins and how wide it is drawn, if ``longest`` fills the width."""
    sums = {
        name: sum(part.time.typical for part in answer.training.parts if part.resource == name and part.time)
        for name in charts.RESOURCES
    }
    whole = sum(sums.values())
    scale = 1000 / (longest or whole or 1.0)
    start = 0.0
    for name, value in sums.items():
        if value:
            colour = charts.resource_look(name, answer).colour.removeprefix("var(--chart-").removesuffix(")")
            yield Slice(charts.RESOURCES[name], colour, value / whole, round(start * scale, 2), round(value * scale, 2))
            start += value


def _name_of(path: str) -> str:
    """A result's name for people, from its path on the wire."""
    part, _, name = path.partition(".")
    text = (name or part).replace("_", " ")
    names = {"mfu": "Model FLOPs utilisation (MFU)", "hfu": "Hardware FLOPs utilisation (HFU)"}
    return names.get(text, text[:1].upper() + text[1:])


def _sources_of(answer: Plan, path: str) -> tuple[str, ...]:
    """The sources of the result at a path of the wire."""
    found: Any = answer
    for name in path.split("."):
        found = getattr(found, name, None)
    return found.sources if isinstance(found, Band) else ()


def _preset_query(preset: Any) -> str:
    return Scenario.model_validate(preset.scenario).query()


def _address(request: Request, path: str, query: str) -> str:
    root = request.scope.get("root_path", "")
    return f"{root}{path}?{query}" if query else root + path


@router.get("/curves")
async def plan_curves(request: Request) -> Response:
    """How a plan scales: curves that take longer than a plan; the planner fetches them when they come into view."""
    if known := MEMORY.known(request):
        return known
    return await compute(request, lambda _: MEMORY.keep(request, _curves(request)), heavy=True)


def _curves(request: Request) -> Response:
    asked = form.read(request.query_params.multi_items())
    catalog: Catalog = request.app.state.catalog
    if asked.scenario is None:
        raise ProblemError(422, " ".join(f"{form.title(name)}: {text}" for name, text in asked.errors.items()))
    scenario = asked.scenario
    chosen = outline(scenario, catalog).job.parallelism
    drawn = []
    if chosen is not None:
        for curve, figure in (
            (curves.scaling(scenario, catalog, chosen), charts.scaling),
            (curves.tail(scenario, catalog, chosen), charts.tail),
        ):
            if curve.series:
                drawn.append((curve.key, figure(curve), exports.curve_table(curve)))
    costs = curves.cost_per_port(scenario, catalog)
    if costs.series:
        drawn.append(("cost-per-port", charts.cost_per_port(costs), exports.curve_table(costs)))
    values = {"headline": form.summary(scenario, catalog), "drawn": drawn}
    return page(request, "curves.html", values, scenario=scenario)


# Comparisons ---------------------------------------------------------------------------------------------------------


def comparisons(request: Request, scenario: Scenario, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Other plans one would hold this one against, as links to the comparison."""
    network = catalog.scale_out[scenario.scale_out]
    rival = counterpart(network, catalog)
    several = []
    if rival is not None:
        several.append({"scale_out": rival.key, "switch": None})
        yield rival.name, _against(request, scenario, several)
    kernel = [entry for entry in catalog.scale_out.values() if entry.family == "tcp"]
    if kernel and network.family != "tcp" and rival is not None:
        rate = network.port_rate.typical
        nearest = min(kernel, key=lambda entry: abs(entry.port_rate.typical / rate - 1))
        three = [*several, {"scale_out": nearest.key, "switch": None}]
        yield f"{rival.name} and {nearest.name}", _against(request, scenario, three)
    half = [{"oversubscription": scenario.oversubscription * 2}]
    yield "half the uplinks", _against(request, scenario, half)
    newer = next((entry for entry in catalog.scale_out.values() if entry.predecessor == network.key), None)
    if newer is not None:
        yield newer.name, _against(request, scenario, [{"scale_out": newer.key, "switch": None}])


def _against(request: Request, scenario: Scenario, others: list[dict[str, Any]]) -> str:
    """The address of a comparison of this scenario with changed ones."""
    return _side_by_side(request, [scenario, *(scenario.model_copy(update=changes) for changes in others)])


@dataclass(frozen=True)
class ComparedPlan:
    """One column of the comparison."""

    letter: str
    headline: str
    address: str
    without: str
    plan: Plan
    slices: tuple[Slice, ...]


@router.get("/compare")
async def compare_plans(request: Request) -> Response:
    """Two to four plans side by side. Fields without a letter hold for every plan."""
    if known := MEMORY.known(request):
        return known
    return await compute(request, lambda _: MEMORY.keep(request, _compare(request)), heavy=True)


def _compare(request: Request) -> Response:
    pairs = request.query_params.multi_items()
    catalog: Catalog = request.app.state.catalog
    common = [(name, value) for name, value in pairs if not _lettered(name)]
    if len(common) == len(pairs) and (start := form.read(common).scenario) is not None:
        rival = counterpart(catalog.scale_out[start.scale_out], catalog)
        address = _against(request, start, [{"scale_out": rival.key, "switch": None}] if rival else [{}])
        pairs, common = parse_qsl(address.partition("?")[2]), []
    last = max((name[0] for name, _ in pairs if _lettered(name)), default="b")
    asked = [
        form.read([*common, *((name[2:], value) for name, value in pairs if name.startswith(f"{letter}."))])
        for letter in LETTERS[: max(2, LETTERS.index(last) + 1)]
    ]
    typed = [(name, value) for name, value in pairs if value.strip()]
    if len(typed) < len(pairs):
        return RedirectResponse(_address(request, "/compare", urlencode(_pruned(typed))), 303)
    return _comparison(request, pairs, asked, catalog)


LETTERS = "abcd"


def _lettered(name: str) -> bool:
    return len(name) > 2 and name[0] in LETTERS and name[1] == "."


def _pruned(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fields of a comparison without those that say the default; the last plan stays named."""
    defaults = form.defaults()
    kept = [(name, value) for name, value in pairs if not _lettered(name) or value != defaults.get(name[2:])]
    last = max((name[0] for name, _ in pairs if _lettered(name)), default="b")
    if not any(name[0] == last for name, _ in kept if _lettered(name)):
        kept.append((f"{last}.gpu", dict(pairs).get(f"{last}.gpu", defaults["gpu"])))
    return kept


def _comparison(request: Request, pairs: list[tuple[str, str]], asked: list[form.Asked], catalog: Catalog) -> Response:
    letters = LETTERS[: len(asked)]
    scenarios = [one.scenario for one in asked if one.scenario is not None]
    found = compare.compare(scenarios, catalog) if len(scenarios) == len(asked) else None
    plans = found.plans if found else (None,) * len(asked)
    forms = [
        form.form(one, catalog, answer.scenario if answer else None, f"{letter}.")
        for letter, one, answer in zip(letters, asked, plans, strict=True)
    ]
    errors = [
        (f"{made.prefix}{name}" if name else "", f"{made.prefix[0].upper()}, {title}", text)
        for made in forms
        for name, title, text in made.errors
    ]
    shown = [[control for group in made.groups for control in group.first] for made in forms]
    columns: list[ComparedPlan] = []
    if found:
        longest = max((one.training.step_time.typical for one in found.plans if one.training.step_time), default=None)
        for index, (letter, scenario, answer) in enumerate(zip(letters, scenarios, found.plans, strict=True)):
            others = [one for place, one in enumerate(scenarios) if place != index]
            columns.append(
                ComparedPlan(
                    letter=letter,
                    headline=form.summary(scenario, catalog),
                    address=_address(request, "/", urlencode(form.texts(scenario))),
                    without=_side_by_side(request, others),
                    plan=answer,
                    slices=tuple(_slices(answer, longest)),
                )
            )
    visible = {f"{letter}.{control.name}" for letter, row in zip(letters, shown, strict=True) for control in row}
    values: dict[str, Any] = {
        "comparison": found,
        "alike": compare.ALIKE,
        "verdict": _difference_in_a_sentence(found) if found else "",
        "columns": columns,
        "letters": letters,
        "controls": list(zip(*shown, strict=True)),
        "hidden": [(name, value) for name, value in pairs if name not in visible and value.strip()],
        "errors": errors,
        "more": _side_by_side(request, [*scenarios, scenarios[-1]]) if found and len(scenarios) < len(LETTERS) else "",
        "asked_text": lambda field, value: form.shown(field.removeprefix("scenario."), value, catalog),
        "words_of": _words_of,
    }
    return page(request, "compare.html", values, status=200 if found else 422)


def _words_of(field: str, value: object) -> str:
    """A result that is a key, in words."""
    if field == "bottleneck.resource":
        return charts.RESOURCES.get(str(value), str(value))
    if field == "all_reduce.algorithm":
        return charts.algorithm_name(str(value))
    return str(value)


def _difference_in_a_sentence(found: compare.Comparison) -> str:
    """What the comparison comes to: time and money of the run, against the first plan."""
    rows = {row.field: row for row in (*found.differences, *found.same)}
    time, money = rows["training.time_to_train"], rows["costs.per_run"]
    parts = []
    for place in range(1, len(found.plans)):
        slower, dearer = time.changes[place], money.changes[place]
        if slower is None or dearer is None:
            parts.append(f"{LETTERS[place].upper()} cannot be compared in full")
            continue
        pace = (
            "takes as long" if abs(slower) < compare.ALIKE else f"takes {more_or_less(slower, 'longer', 'less time')}"
        )
        price = f"costs {more_or_less(dearer, 'more', 'less')}" if abs(dearer) > compare.ALIKE else "costs as much"
        parts.append(f"{LETTERS[place].upper()} {pace} and {price}")
    return "Against plan A: " + "; ".join(parts) + "."


def more_or_less(value: float, more: str, less: str) -> str:
    """A relative change in words.

    >>> more_or_less(-0.012, "more", "less")
    '1.2\u202f% less'
    """
    return f"{percent(abs(value))} {more if value > 0 else less}"


def _side_by_side(request: Request, scenarios: list[Scenario]) -> str:
    """The address of a comparison of these scenarios; the last one is named even when it asks only for defaults."""
    fields: dict[str, str] = {}
    for letter, scenario in zip(LETTERS, scenarios, strict=False):
        fields |= {f"{letter}.{name}": value for name, value in form.texts(scenario).items()}
    last = LETTERS[len(scenarios) - 1] if scenarios else "a"
    if scenarios and not any(name.startswith(last) for name in fields):
        fields[f"{last}.gpu"] = scenarios[-1].gpu
    return _address(request, "/compare", urlencode(fields))


# Size ----------------------------------------------------------------------------------------------------------------

CANDIDATES = frozenset({"gpu", "scale_out"})
QUESTION = {
    "Job": ("model", "training_tokens", "sequence_length", "global_batch", "precision"),
    "Limits": ("deadline", "budget", "budget_kind", "power_limit", "gpus"),
}
COSTS = {"capital": "Capital", "rental": "Rent of the run", "run": "Owned cost of the run"}


@router.get("/size")
async def size_cluster(request: Request) -> Response:
    """The inverse question: which cluster, by this date, for this money."""
    if known := MEMORY.known(request):
        return known
    pairs = request.query_params.multi_items()
    asked = form.read(pairs, kind=Question, repeatable=CANDIDATES)
    if any(not value.strip() for _, value in pairs):
        return RedirectResponse(_address(request, "/size", urlencode(_without_defaults(pairs))), 303)
    question = asked.scenario
    if not isinstance(question, Question):
        return await compute(request, lambda _: page(request, "size.html", _sizing(request, asked, None), status=422))
    until = monotonic() + request.app.state.settings.time_limit

    def work(stopped: Stopped) -> Response:
        answer = size(question, share_of(until), stopped)
        made = page(request, "size.html", _sizing(request, asked, answer))
        return MEMORY.keep(request, made) if answer.complete else made

    return await compute(request, work, heavy=True)


def _without_defaults(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    defaults = form.defaults(Question)
    kept = [(name, value) for name, value in pairs if value.strip() and value != defaults.get(name)]
    for name in CANDIDATES:
        if tuple(value for field, value in pairs if field == name) == Question.model_fields[name].default:
            kept = [(field, value) for field, value in kept if field != name]
    return kept


def _sizing(request: Request, asked: form.Asked, answer: Answer | None) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    question = asked.scenario if isinstance(asked.scenario, Question) else None
    named = {name for names in QUESTION.values() for name in names} | CANDIDATES
    groups = [(legend, form.controls(asked, catalog, names)) for legend, names in QUESTION.items()]
    candidates = [form.choices(asked, catalog, name) for name in ("gpu", "scale_out")]
    return {
        "question": question,
        "answer": answer,
        "verdict": _sized_in_a_sentence(question, answer, catalog) if answer and question else "",
        "groups": groups,
        "candidates": candidates,
        "hidden": [(name, value) for name, value in asked.typed.items() if name not in named and not asked.errors],
        "errors": [
            (name if name in named else "", form.title(name, Question), text) for name, text in asked.errors.items()
        ],
        "figure": charts.pareto(answer, question.deadline, question.budget) if answer and question else None,
        "savings": [one.next_dollar * MILLION if one.next_dollar else None for one in answer.front] if answer else [],
        "kinds": COSTS,
        "query_text": request.url.query,
    }


MILLION = parse("$1M", "USD")


def _sized_in_a_sentence(question: Question, answer: Answer, catalog: Catalog) -> str:
    """The answer as one would say it."""
    best = answer.cheapest
    if best is None:
        return answer.message
    limits = " within the limits" if _limited(question) else ""
    model = catalog.models[question.model].name if question.model in catalog.models else "the model"
    return (
        f"{best.gpus:,} {catalog.gpus[best.gpu].name} on {catalog.scale_out[best.scale_out].name} train {model} "
        f"cheapest{limits}: {show(best.time_to_train, 's')} for {show(best.cost, 'USD')}."
    )


def _limited(question: Question) -> bool:
    return any(limit is not None for limit in (question.deadline, question.budget, question.power_limit))


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
