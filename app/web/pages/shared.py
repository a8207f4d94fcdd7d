"""What the pages share."""

from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from app.plan.band import Band
from app.plan.declarations import results, view
from app.plan.result import Plan
from app.report.charts import style
from app.report.labels import RESOURCES
from app.web.responses import PageCache


class PageRoute(APIRoute):
    """A page or file: a pure function of its address, so what was answered lately or the client has is not made."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        make = super().get_route_handler()

        async def handler(request: Request) -> Response:
            cache: PageCache = request.app.state.page_cache
            return (cache.known(request) if request.method == "GET" else None) or await make(request)

        return handler


@dataclass(frozen=True)
class Slice:
    """One part of the bar that shows where the step's time goes, on a scale of 1,000."""

    name: str
    colour: str
    share: float
    start: float
    width: float


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
            colour = style.resource_look(name, answer).colour.removeprefix("var(--chart-").removesuffix(")")
            yield Slice(RESOURCES[name], colour, value / whole, round(start * scale, 2), round(value * scale, 2))
            start += value


def results_of(part: Any, path: str = "") -> dict[str, Any]:
    """What templates say of results: each by its name on the wire, those of a view, and what each is and rests on."""
    found = {result.path: result for result in results(part, path)}

    def rests_on(name: str) -> tuple[str, ...]:
        value = found[name].value
        return value.sources if isinstance(value, Band) else ()

    return {
        "figure_of": lambda name: found[name],
        "view": lambda name: view(part, name, path),
        "name_of": lambda name: found[name].declared.label,
        "rests_on": rests_on,
    }


def address(request: Request, path: str, query: str) -> str:
    root = request.scope.get("root_path", "")
    return f"{root}{path}?{query}" if query else root + path
