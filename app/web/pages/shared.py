"""What the pages share."""

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import Request

from app.plan.result import Plan
from app.report.charts import style
from app.web.responses import PageCache

MEMORY = PageCache()


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
        for name in style.RESOURCES
    }
    whole = sum(sums.values())
    scale = 1000 / (longest or whole or 1.0)
    start = 0.0
    for name, value in sums.items():
        if value:
            colour = style.resource_look(name, answer).colour.removeprefix("var(--chart-").removesuffix(")")
            yield Slice(style.RESOURCES[name], colour, value / whole, round(start * scale, 2), round(value * scale, 2))
            start += value


def address(request: Request, path: str, query: str) -> str:
    root = request.scope.get("root_path", "")
    return f"{root}{path}?{query}" if query else root + path
