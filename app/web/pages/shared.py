"""What the pages share."""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse

from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.declarations import results, view
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.report.charts import style, svg
from app.report.labels import RESOURCES, capitalize_first, in_words
from app.units import show
from app.web import form
from app.web.responses import PageCache


class PageRoute(APIRoute):
    """A page or file: a pure function of its address, so what was answered lately or the client has is not made.

    A page takes what varies in its path from ``request.path_params``: to declare it as a parameter makes the framework
    import all of pydantic 1 and look at its type, a tenth of a second of every start.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        make = super().get_route_handler()

        async def handler(request: Request) -> Response:
            cache: PageCache = request.app.state.page_cache
            return (cache.known(request) if request.method == "GET" else None) or await make(request)

        return handler


SHADES = 5
"""Parts of capital that a style tells from each other."""


@dataclass(frozen=True)
class Slice:
    """One part of a bar that shows where time or money goes, on a scale of 1,000; ``said`` is how much, where not
    its share, and ``hatch`` the strokes over its colour."""

    name: str
    colour: str
    share: float
    start: float
    width: float
    said: str = ""
    hatch: str = ""


def slices(answer: Plan, longest: float | None = None) -> Iterator[Slice]:
    """The step's resources as a bar: where each begins and how wide it is drawn, if ``longest`` fills the width."""
    sums = {
        name: sum(part.time.typical for part in answer.training.parts if part.resource == name and part.time)
        for name in RESOURCES
    }
    whole = sum(sums.values())
    scale = 1000 / (longest or whole or 1.0)
    start = 0.0
    for name, value in sums.items():
        if value:
            look = style.resource_look(name, answer)
            colour = look.colour.removeprefix("var(--chart-").removesuffix(")")
            left, width = round(start * scale, 2), round(value * scale, 2)
            yield Slice(RESOURCES[name], colour, value / whole, left, width, hatch=svg.HATCHES.get(look.pattern, ""))
            start += value


def money_slices(answer: Plan) -> Iterator[Slice]:
    """What is bought, part by part, at typical prices, the shades of money from dark to light; the least as one."""
    parts = answer.costs.capital_parts
    priced = {capitalize_first(in_words(line.name, "part")): line.cost.typical for line in parts if line.cost}
    if len(priced) > SHADES:
        least = sorted(priced, key=priced.__getitem__)[: len(priced) - SHADES + 1]
        priced["Others"] = sum(priced.pop(name) for name in least)
    whole, start = sum(priced.values()), 0.0
    for shade, (name, price) in enumerate(priced.items(), 1):
        share = price / whole
        yield Slice(name, f"money-{shade}", share, round(start, 2), round(share * 1000, 2), show(price, "USD"))
        start += share * 1000


def unpriced(answer: Plan) -> list[str]:
    """What is bought and has no price."""
    return [in_words(line.name, "part") for line in answer.costs.capital_parts if line.cost is None]


def results_of(part: Any, path: str = "", others: Sequence[Any] = ()) -> dict[str, Any]:
    """What templates say of results: each by its name on the wire, those of a view, and what each is and rests on.

    ``others`` are of the same kind, and may have results that it lacks: a plan that serves beside one that trains.
    """
    by_path = {result.path: result for each in (*others, part) for result in results(each, path)}

    def rests_on(name: str) -> tuple[str, ...]:
        value = by_path[name].value
        return value.sources if isinstance(value, Band) else ()

    return {
        "figure_of": lambda name: by_path[name],
        "view": lambda name: view(part, name, path),
        "name_of": lambda name: by_path[name].declared.label,
        "rests_on": rests_on,
    }


def question_of(
    request: Request,
    bound: form.BoundForm,
    groups: Mapping[str, Sequence[str]],
    candidates: Sequence[str] = (),
    resolved: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What the form beside an answer shows: its fields by group, candidates, what travels along hidden, and errors.

    ``resolved`` names what stands behind each blank.
    """
    catalog: Catalog = request.app.state.catalog
    named = {*candidates, *(name for names in groups.values() for name in names)}
    return {
        "groups": [(legend, form.controls(bound, catalog, names, resolved)) for legend, names in groups.items()],
        "candidates": [form.choices(bound, catalog, name) for name in candidates],
        "hidden": [
            (name, text)
            for name, value in bound.typed.items()
            for text in (value if isinstance(value, tuple) else (value,))
            if name not in named and name not in bound.errors
        ],
        "errors": [
            (name if name in named else "", form.title(name, bound.kind), text) for name, text in bound.errors.items()
        ],
        "query_text": _answered_query(request, bound),
    }


def _answered_query(request: Request, bound: form.BoundForm) -> str:
    """The query of an address without what is wrong in it: what charts and programs are asked for."""
    pairs = request.query_params.multi_items()
    return urlencode([pair for pair in pairs if pair[0] not in bound.errors]) if bound.errors else request.url.query


def without_blanks(
    request: Request, path: str, kind: type[Scenario], candidates: Sequence[str] = ()
) -> Response | None:
    """The way to the same question without blanks, defaults, and candidates as they are anyway; if there are blanks."""
    pairs = request.query_params.multi_items()
    if all(value.strip() for _, value in pairs):
        return None
    defaults = form.defaults(kind)
    kept = [(name, value) for name, value in pairs if value.strip() and value != defaults.get(name)]
    for name in candidates:
        if {value for field, value in pairs if field == name} == set(kind.model_fields[name].default):
            kept = [(field, value) for field, value in kept if field != name]
    return RedirectResponse(address(request, path, urlencode(kept)), 303)


def address(request: Request, path: str, query: str) -> str:
    root = request.scope.get("root_path", "")
    return f"{root}{path}?{query}" if query else root + path
