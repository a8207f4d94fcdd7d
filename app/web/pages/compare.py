"""Plans side by side, as a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.catalog.load import Catalog
from app.plan.band import Band, with_range
from app.plan.cluster import counterpart
from app.plan.result import Plan
from app.plan.scenario import Scenario, another_network
from app.report.charts import comparison_charts
from app.report.labels import lower_first
from app.studies import comparison
from app.studies.differences import is_unclear
from app.units import percent
from app.web import form
from app.web.heavy_queue import compute
from app.web.pages import shared
from app.web.pages.shared import PageRoute, Slice, results_of, slices
from app.web.templating import difference, page, percent_band

router = APIRouter(include_in_schema=False, route_class=PageRoute)


def comparisons(request: Request, scenario: Scenario, catalog: Catalog) -> Iterator[tuple[str, str]]:
    """Other plans one would hold this one against, as links to the comparison."""
    network = catalog.scale_out[scenario.scale_out]
    rival = counterpart(network, catalog)
    several = []
    if rival is not None:
        several.append(another_network(rival.key))
        yield rival.name, _against(request, scenario, several)
    kernel = [entry for entry in catalog.scale_out.values() if entry.family == "tcp"]
    if kernel and network.family != "tcp" and rival is not None:
        rate = network.port_rate.typical
        nearest = min(kernel, key=lambda entry: abs(entry.port_rate.typical / rate - 1))
        three = [*several, another_network(nearest.key)]
        yield f"{rival.name} and {nearest.name}", _against(request, scenario, three)
    half = [{"oversubscription": scenario.oversubscription * 2}]
    yield "half the uplinks", _against(request, scenario, half)
    newer = next((entry for entry in catalog.scale_out.values() if entry.predecessor == network.key), None)
    if newer is not None:
        yield newer.name, _against(request, scenario, [another_network(newer.key)])


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
    return await compute(request, lambda _: _compare(request), heavy=True)


def _compare(request: Request) -> Response:
    pairs = request.query_params.multi_items()
    catalog: Catalog = request.app.state.catalog
    pairs, bound_forms = bound_plans(request, pairs, catalog)
    typed = [(name, value) for name, value in pairs if value.strip()]
    if len(typed) < len(pairs):
        return RedirectResponse(shared.address(request, "/compare", urlencode(_pruned(typed))), 303)
    return _comparison(request, pairs, bound_forms, catalog)


def bound_plans(
    request: Request, pairs: list[tuple[str, str]], catalog: Catalog
) -> tuple[list[tuple[str, str]], list[form.BoundForm]]:
    """The fields by letter and the plans they ask for; without letters, the plan asked for beside its usual rival.

    A field that is wrong stays as it is.
    """
    common = [(name, value) for name, value in pairs if not _lettered(name)]
    alone = form.bind(common, catalog)
    if len(common) == len(pairs) and (start := alone.answered) is not None:
        rival = counterpart(catalog.scale_out[start.scale_out], catalog)
        address = _against(request, start, [another_network(rival.key)] if rival else [{}])
        common = [(name, value) for name, value in common if name in alone.errors]
        pairs = [*common, *parse_qsl(address.partition("?")[2])]
    last = max((name[0] for name, _ in pairs if _lettered(name)), default="b")
    return pairs, [
        form.bind([*common, *((name[2:], value) for name, value in pairs if name.startswith(f"{letter}."))], catalog)
        for letter in LETTERS[: max(2, LETTERS.index(last) + 1)]
    ]


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


def _comparison(
    request: Request, pairs: list[tuple[str, str]], bound_forms: list[form.BoundForm], catalog: Catalog
) -> Response:
    letters = LETTERS[: len(bound_forms)]
    scenarios = [bound.answered for bound in bound_forms if bound.answered is not None]
    compared = comparison.compare(scenarios, catalog) if len(scenarios) == len(bound_forms) else None
    plans = compared.plans if compared else (None,) * len(bound_forms)
    forms = [
        form.form(bound, catalog, answer.scenario if answer else None, f"{letter}.")
        for letter, bound, answer in zip(letters, bound_forms, plans, strict=True)
    ]
    errors = [
        (f"{plan_form.prefix}{name}" if name else "", f"{plan_form.prefix[0].upper()}, {title}", text)
        for plan_form in forms
        for name, title, text in plan_form.errors
    ]
    shown = [[control for group in plan_form.groups for control in group.first] for plan_form in forms]
    wrong = {
        name
        for letter, bound in zip(letters, bound_forms, strict=True)
        for field in bound.errors
        for name in (field, f"{letter}.{field}")
    }
    right = [(name, value) for name, value in pairs if name not in wrong]
    visible = {f"{letter}.{control.name}" for letter, row in zip(letters, shown, strict=True) for control in row}
    values: dict[str, Any] = {
        "comparison": compared,
        "query_text": urlencode(right),
        "letters": letters,
        "controls": list(zip(*shown, strict=True)),
        "hidden": [(name, value) for name, value in right if name not in visible and value.strip()],
        "errors": errors,
        **(_answers(request, compared, scenarios, catalog) if compared else {}),
    }
    return page(request, "compare.html", values, status=422 if errors else 200)


def _answers(
    request: Request, compared: comparison.Comparison, scenarios: list[Scenario], catalog: Catalog
) -> dict[str, Any]:
    """What the page says of plans none of whose fields is wrong."""
    columns = _columns(request, compared, scenarios, catalog)
    return {
        "alike": comparison.ALIKE,
        "verdict": _difference_in_a_sentence(compared, _named_by_what_differs(compared, catalog)),
        "figure": comparison_charts.money_and_time(compared, [column.headline for column in columns]),
        "causes": comparison_charts.capital_by_cause(compared),
        "causes_table": comparison_charts.capital_by_cause_table(compared),
        "one_sided": comparison_charts.one_sided(compared),
        "columns": columns,
        "told": _told(columns),
        "more": _side_by_side(request, [*scenarios, scenarios[-1]]) if len(scenarios) < len(LETTERS) else "",
        "asked_text": lambda field, value: form.shown(field.removeprefix("scenario."), value, catalog),
        **results_of(compared.plans[0], others=compared.plans[1:]),
    }


def _columns(
    request: Request, compared: comparison.Comparison, scenarios: list[Scenario], catalog: Catalog
) -> list[ComparedPlan]:
    """The plans as columns, their steps on one scale of time."""
    longest = max((plan.training.step_time.typical for plan in compared.plans if plan.training.step_time), default=None)
    return [
        ComparedPlan(
            letter=letter,
            headline=form.summary(scenario, catalog),
            address=shared.address(request, "/", urlencode(form.texts(scenario))),
            without=_side_by_side(request, [*scenarios[:place], *scenarios[place + 1 :]]),
            plan=plan,
            slices=tuple(slices(plan, longest)),
        )
        for place, (letter, scenario, plan) in enumerate(zip(LETTERS, scenarios, compared.plans, strict=False))
    ]


def _told(columns: Sequence[ComparedPlan]) -> Mapping[tuple[str, str], str]:
    """What plans have to say, severity and sentences, each once, with the letters of the plans that say it."""
    told: dict[tuple[str, str], str] = {}
    for column in columns:
        for finding in column.plan.findings:
            said = finding.severity, f"{finding.message} {finding.suggestion}".strip()
            told[said] = f"{told[said]}, {column.letter.upper()}" if said in told else column.letter.upper()
    return told


def _difference_in_a_sentence(compared: comparison.Comparison, names: Sequence[str]) -> str:
    """What the comparison comes to: time and money, or requests and what tokens cost, against the first plan."""
    rows = {row.field: row for row in (*compared.differences, *compared.same)}
    serves = all(plan.serving is not None for plan in compared.plans)
    said = _tokens if serves else _run
    parts = [
        f"{LETTERS[place].upper()}{f' ({names[place]})' if names[place] else ''} {said(rows, place)}"
        for place in range(1, len(compared.plans))
    ]
    return "Against plan A: " + "; ".join(parts) + "."


Rows = Mapping[str, comparison.Difference]
IN_PART = "cannot be compared in full"
NEARLY = 0.05
"""A difference that may have either sign and is smaller than this is next to none; a larger one is not known."""


def _moved(rows: Rows, field: str, place: int) -> tuple[Band, Band] | None:
    """How far a plan's result is from the first's, absolute and relative; ``None`` where one has none."""
    if field not in rows or not rows[field].ratios:
        return None
    absolute, relative = rows[field].differences[place], rows[field].ratios[place]
    return (absolute, relative) if absolute and relative else None


def _run(rows: Rows, place: int) -> str:
    """How time, capital and the run's cost of a plan differ from the first's."""
    fields = "training.time_to_train", "costs.capital", "costs.per_run"
    time, capital, run = (_moved(rows, field, place) for field in fields)
    if time is None or run is None or capital is None:
        return IN_PART
    pace = in_words(time[1], time[1], ("takes", "longer", "less time"), "as long")
    bought = in_words(*capital, ("costs", "more", "less"), "as much")
    used = in_words(*run, ("its run", "more", "less"), "as much")
    return f"{pace}, {bought} to buy, and {used}"


def _tokens(rows: Rows, place: int) -> str:
    """How a plan's requests a second and the cost of its tokens differ from the first's."""
    fields = "serving.requests_per_second", "serving.costs.per_million_output_tokens"
    more, dearer = (_moved(rows, field, place) for field in fields)
    if more is None:
        return IN_PART
    pace = in_words(more[1], more[1], ("answers", "more requests", "fewer requests"), "as many")
    if dearer is None:
        return pace
    return f"{pace}, and its tokens {in_words(dearer[1], dearer[1], ('cost', 'more', 'less'), 'as much')}"


def in_words(shown: Band, change: Band, words: tuple[str, str, str], same: str) -> str:
    """A change with its range: what a plan does, more or less of it, or that nobody can tell.

    It is ``shown`` in its unit, or as per cent where that is the relative ``change`` itself.

    >>> less = Band(-0.02, -0.012, -0.01, "1")
    >>> in_words(less, less, ("costs", "more", "less"), "as much")
    'costs 1.2\u202f% (1.0–2.0) less'
    >>> in_words(Band(-7e5, -6e5, -5e5, "USD"), less, ("costs", "more", "less"), "as much")
    'costs $600\u202fK (500–700) less'
    >>> unclear = Band(-0.01, 0.004, 0.02, "1")
    >>> in_words(unclear, unclear, ("takes", "longer", "less time"), "as long")
    'takes about as long (−1.0\u202f…\u202f+2.0\u202f%)'
    >>> unknown = Band(-0.1, 0.45, 1.1, "1")
    >>> in_words(unknown, unknown, ("its run", "more", "less"), "as much")
    'its run perhaps 45\u202f% more (−10\u202f…\u202f+110\u202f%)'
    """
    does, more, less = words
    if change.low == change.high and abs(change.typical) < comparison.ALIKE:
        return f"{does} {same}"
    direction = more if change.typical > 0 else less
    if is_unclear(change):
        nearly = max(-change.low, change.high) < NEARLY or not change.typical
        what = f"about {same}" if nearly else f"perhaps {percent(abs(change.typical))} {direction}"
        return f"{does} {what} ({difference(change, change).partition('(')[2]}"
    low, high = sorted((abs(shown.low), abs(shown.high)))
    size = Band(low, abs(shown.typical), high, shown.unit)
    text = percent_band(size) if shown is change else with_range(size)
    return f"{does} {text} {direction}"


def _named_by_what_differs(compared: comparison.Comparison, catalog: Catalog) -> list[str]:
    """Each plan by the first input in which it differs from the first plan; blank where it differs in none."""
    return [
        next(
            (_named(row, place, catalog) for row in compared.asked if row.values[place] != row.values[0]),
            "",
        )
        for place in range(len(compared.plans))
    ]


def _named(row: comparison.Difference, place: int, catalog: Catalog) -> str:
    """An input of a plan as one would name the plan by it; a number says of what it is."""
    value = row.values[place]
    text = form.shown(row.field.removeprefix("scenario."), value, catalog)
    if row.field == "scenario.gpus":
        return f"{text} GPUs"
    return f"{lower_first(row.title)} {text}" if isinstance(value, int | float) else text


def _side_by_side(request: Request, scenarios: list[Scenario]) -> str:
    """The address of a comparison of these scenarios; the last one is named even when it asks only for defaults."""
    fields: dict[str, str] = {}
    for letter, scenario in zip(LETTERS, scenarios, strict=False):
        fields |= {f"{letter}.{name}": value for name, value in form.texts(scenario).items()}
    last = LETTERS[len(scenarios) - 1] if scenarios else "a"
    if scenarios and not any(name.startswith(last) for name in fields):
        fields[f"{last}.gpu"] = scenarios[-1].gpu
    return shared.address(request, "/compare", urlencode(fields))
