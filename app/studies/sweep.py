"""A grid of scenarios, answered some at a time in constant memory."""

from collections.abc import Iterator, Mapping
from itertools import islice, product
from math import prod
from time import thread_time
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import PydanticCustomError

from app.catalog.load import Catalog
from app.catalog.names import did_you_mean, nearest
from app.plan.band import Band
from app.plan.declarations import figures, value_of
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.plan_columns import COLUMNS, PlanColumns, worst

SWEPT = tuple(name for name, declared in figures(Plan).items() if "sweep" in declared.show)
RESULTS = tuple(name for name in SWEPT if not name.startswith("serving."))
"""The results in each row unless others are asked for, by their names in a plan."""
SERVED = tuple(name for name in SWEPT if not name.startswith(("training.", "memory.")))
"""The same where the workload is serving."""


def result_name(name: str) -> str:
    """The name of a result of a plan."""
    if name in figures(Plan):
        return name
    advice = did_you_mean(nearest(name, figures(Plan)))
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


def _each_once(names: list[str]) -> list[str]:
    """The names of a list, in its order: a row has each once."""
    return list(dict.fromkeys(names))


def _in_a_list(names: Any) -> Any:
    """A list that was read as a tuple, as bodies of requests are."""
    return list(names) if isinstance(names, tuple) else names


class Grid(BaseModel):
    """A base scenario, and the values that some of its fields take in turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: dict[str, Any] = Field(
        default_factory=dict, description="Fields of a scenario.", max_length=len(Scenario.model_fields)
    )
    grid: dict[str, Annotated[list[Any], Field(min_length=1, max_length=100_000)]] = Field(
        description="For each field to vary, its values.", min_length=1, max_length=12
    )

    results: Annotated[
        list[Annotated[str, AfterValidator(result_name)]],
        FailFast(),
        AfterValidator(_each_once),
        BeforeValidator(_in_a_list),
    ] = Field(
        default_factory=lambda grid: list(SERVED if _serves(grid) else RESULTS),
        json_schema_extra={"default": list(RESULTS)},
        description="The results in each row, by their names in a plan: typical values in base units, or words.",
        min_length=1,
        max_length=200,
    )

    def points(self) -> int:
        """How many scenarios the grid has."""
        return prod(len(values) for values in self.grid.values())


FIRST, MOST = 8, 4096
"""Points that are worked out together: in the beginning, and at most."""
GROWTH = 4
"""How many times as many as those before they are at most."""
AT_ONCE = 0.25
"""Processor time that they are to take [s]."""


def sweep(grid: Grid, catalog: Catalog, first: int = 0) -> Iterator[dict[str, Any]]:
    """One flat row a scenario: the varied fields, then the typical results, ``error`` where it cannot be answered.

    The last field of the grid varies fastest. Points are columns of one plan where the results allow it, see
    `app.studies.plan_columns`; else each is a plan.

    Args:
        grid: the base scenario, the values that fields take in turn, and the results of each row.
        catalog: what all scenarios are looked up in.
        first: the first row that is wanted, counted from 0.
    """
    typical = catalog.typical_only()
    if not COLUMNS.issuperset(grid.results) or _serves(vars(grid)):
        yield from _plans(grid, typical, first)
        return
    together = PlanColumns(grid.base, grid.grid, grid.results, typical)
    points = islice(product(*(range(len(values)) for values in grid.grid.values())), first, None)
    size = FIRST
    while several := list(islice(points, size)):
        begin = thread_time()
        answered = together.of(np.array(several))
        took = thread_time() - begin
        size = min(max(int(size * AT_ONCE / max(took, AT_ONCE / 1000)), 1), GROWTH * size, MOST)
        names = columns(grid)
        given = (
            [values[point[place]] for point in several] for place, values in enumerate(grid.grid.values())
        )  # fmt: skip
        for values in zip(*given, *(answered[name] for name in names[len(grid.grid) :]), strict=True):
            yield dict(zip(names, values, strict=True))


def _plans(grid: Grid, catalog: Catalog, first: int) -> Iterator[dict[str, Any]]:
    """The rows of a grid, each the plan of a scenario."""
    for values in islice(product(*grid.grid.values()), first, None):
        fields = dict(zip(grid.grid, values, strict=True))
        try:
            scenario = Scenario.model_validate({**grid.base, **fields}, context={"catalog": catalog})
        except ValidationError as error:
            yield row(grid, fields, {}, error.errors()[0]["msg"])
            continue
        plan = evaluate(scenario, catalog, include=())
        results = {path: value_of(plan, path) for path in grid.results}
        typical = {path: value.typical if isinstance(value, Band) else value for path, value in results.items()}
        yield row(grid, fields, typical, worst(plan.findings))


def row(grid: Grid, fields: Mapping[str, Any], results: Mapping[str, Any], error: str) -> dict[str, Any]:
    """One row, always with the same columns."""
    return {**fields, **{name: results.get(name) for name in grid.results}, "error": error}


def columns(grid: Grid) -> list[str]:
    """The columns of a row, in order."""
    return [*grid.grid, *grid.results, "error"]
