"""A grid of scenarios, answered one after the other in constant memory."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice, product, takewhile
from math import isfinite, nan, prod
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from app.catalog.load import Catalog
from app.plan.band import Band, nan_is_an_answer
from app.plan.declarations import figures, value_of
from app.plan.evaluate import evaluate
from app.plan.prices import OF_NO_DESIGN
from app.plan.result import Finding, Plan
from app.plan.scenario import Scenario
from app.studies.stages import stages

Floats = NDArray[np.float64]
SWEPT = tuple(name for name, declared in figures(Plan).items() if "sweep" in declared.show)
RESULTS = tuple(name for name in SWEPT if not name.startswith("serving."))
"""The results in each row unless others are asked for, by their names in a plan."""
SERVED = tuple(name for name in SWEPT if not name.startswith(("training.", "memory.")))
"""The same where the workload is serving."""
STAGED = frozenset(RESULTS)
"""Results that need no whole plan, only its stages up to the costs, which take a fraction of the time."""


def result_name(name: str) -> str:
    """The name of a result of a plan."""
    if name in figures(Plan):
        return name
    near = get_close_matches(name, figures(Plan), n=3, cutoff=0.5)
    advice = f"Did you mean {' or '.join(near)}? " if near else ""
    text = name if len(name) <= 40 else name[:40] + "…"
    raise PydanticCustomError(
        "unknown_result",
        "A plan has no result “{text}”. {advice}The glossary at /method lists all.",
        {"text": text, "advice": advice},
    )


def _serves(grid: Mapping[str, Any]) -> bool:
    """Whether the workload of any point is serving."""
    base, varied = grid.get("base"), grid.get("grid")
    values = varied.get("workload") if isinstance(varied, dict) else None
    return (isinstance(base, dict) and base.get("workload") == "serving") or (
        isinstance(values, list) and "serving" in values
    )


def _in_a_list(names: Any) -> Any:
    """A list that was read as a tuple, as bodies of requests are."""
    return list(names) if isinstance(names, tuple) else names


class Grid(BaseModel):
    """A base scenario, and the values that some of its fields take in turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: dict[str, Any] = Field(default_factory=dict, description="Fields of a scenario.", max_length=100)
    grid: dict[str, Annotated[list[Any], Field(min_length=1, max_length=100_000)]] = Field(
        description="For each field to vary, its values.", min_length=1, max_length=12
    )

    results: Annotated[list[Annotated[str, AfterValidator(result_name)]], BeforeValidator(_in_a_list)] = Field(
        default_factory=lambda grid: list(SERVED if _serves(grid) else RESULTS),
        json_schema_extra={"default": list(RESULTS)},
        description="The results in each row, by their names in a plan: typical values in base units, or words.",
        min_length=1,
        max_length=200,
    )

    def points(self) -> int:
        """How many scenarios the grid has."""
        return prod(len(values) for values in self.grid.values())


TOGETHER = 1024
"""Points that are worked out together at most."""


def sweep(grid: Grid, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """One flat row a scenario: the varied fields, then the typical results, ``error`` where it cannot be answered.

    The last field of the grid varies fastest. Points that differ in prices alone, the last fields, are columns of one
    plan: only what money it takes is worked out for each.
    """
    typical = catalog.typical_only()
    last = _prices_at_the_end(grid)
    others = {name: values for name, values in grid.grid.items() if name not in last}
    prices = [_checked(name, grid.grid[name]) for name in last]
    for values in product(*others.values()):
        fields = dict(zip(others, values, strict=True))
        points = product(*prices)
        while several := list(islice(points, TOGETHER)):
            yield from _rows(grid, typical, fields, [dict(zip(last, point, strict=True)) for point in several])


def _prices_at_the_end(grid: Grid) -> list[str]:
    """The last fields of a grid, where they are prices alone that no design depends on and results need no more."""
    if not STAGED.issuperset(grid.results) or _serves(vars(grid)):
        return []
    prices = takewhile(lambda name: name in OF_NO_DESIGN and None not in grid.grid[name], reversed(grid.grid))
    return list(prices)[::-1]


class _Price(NamedTuple):
    """A price as it was given, what it is in base units, and what is wrong with it."""

    given: Any
    value: float
    error: str = ""


def _checked(name: str, values: Sequence[Any]) -> list[_Price]:
    """Values of a field that is a price."""
    reader: TypeAdapter[float] = TypeAdapter(Scenario.model_fields[name].rebuild_annotation())
    checked = []
    for value in values:
        try:
            checked.append(_Price(value, reader.validate_python(value)))
        except ValidationError as error:
            checked.append(_Price(value, nan, error.errors()[0]["msg"]))
    return checked


def _rows(
    grid: Grid, catalog: Catalog, fields: Mapping[str, Any], several: Sequence[Mapping[str, _Price]]
) -> Iterator[dict[str, Any]]:
    """The rows of points that have some fields in common and differ in prices."""
    try:
        scenario = Scenario.model_validate({**grid.base, **fields}, context={"catalog": catalog})
    except ValidationError as error:
        answered: Mapping[str, Sequence[Any]] = {name: [None] * len(several) for name in grid.results}
        worst = error.errors()[0]["msg"]
    else:
        prices = {name: np.array([point[name].value for point in several]) for name in several[0]}
        staged = STAGED.issuperset(grid.results) and scenario.workload == "training"
        answer = _of_stages if staged else _of_plan
        answered, findings = answer(scenario, catalog, grid.results, prices)
        worst = next((finding.message for finding in findings if finding.severity == "error"), "")
    for point, values in zip(several, zip(*answered.values(), strict=True), strict=True):
        given = {**fields, **{name: price.given for name, price in point.items()}}
        wrong = next((price.error for price in point.values() if price.error), "")
        yield row(grid, given, {} if wrong else dict(zip(answered, values, strict=True)), wrong or worst)


def row(grid: Grid, fields: Mapping[str, Any], results: Mapping[str, Any], error: str) -> dict[str, Any]:
    """One row, always with the same columns."""
    return {**fields, **{name: results.get(name) for name in grid.results}, "error": error}


def columns(grid: Grid) -> list[str]:
    """The columns of a row, in order."""
    return [*grid.grid, *grid.results, "error"]


Answered = tuple[Mapping[str, Sequence[Any]], tuple[Finding, ...]]
"""Of each result, by its name, the value at every point; and the findings."""


@nan_is_an_answer
def _of_stages(scenario: Scenario, catalog: Catalog, names: Sequence[str], prices: Mapping[str, Floats]) -> Answered:
    """Typical values of some results of network, job and costs, nothing where one cannot be computed; the findings."""
    answered = stages(scenario, catalog, prices, listed=False)
    points = len(next(iter(prices.values()), (0,)))
    values: dict[str, list[float | None]] = {}
    for path in names:
        column = np.broadcast_to(np.ravel(value_of(answered, path).values[..., 0]), points).tolist()
        values[path] = [value if isfinite(value) else None for value in column]
    return values, answered.findings


def _of_plan(scenario: Scenario, catalog: Catalog, names: Sequence[str], _: Mapping[str, Floats]) -> Answered:
    """The same of any results, words and flags among them, at the one point that has no prices apart."""
    plan = evaluate(scenario, catalog, include=())
    values = {path: value_of(plan, path) for path in names}
    return {
        path: [value.typical if isinstance(value, Band) else value] for path, value in values.items()
    }, plan.findings
