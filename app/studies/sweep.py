"""A grid of scenarios, answered some at a time in constant memory."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite, prod
from time import thread_time
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from app.catalog.load import Catalog
from app.catalog.names import did_you_mean, nearest
from app.plan.band import Band
from app.plan.declarations import figures, value_of
from app.plan.evaluate import evaluate
from app.plan.long_parts import parts_of
from app.plan.result import Finding, Plan
from app.plan.scenario import Scenario
from app.plan.unusual_values import unusual_among
from app.studies.plan_columns import COLUMNS, PlanColumns, unreadable, worst

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


def _of_python(value: Any) -> Any:
    """A number of NumPy, as the arrays of scripts have them, as one of Python: data frames and JSON know no others."""
    return value.item() if isinstance(value, np.generic) else value


Value = Annotated[Any, AfterValidator(_of_python)]


class Grid(BaseModel):
    """A base scenario, and the values that some of its fields take in turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: dict[str, Value] = Field(
        default_factory=dict, description="Fields of a scenario.", max_length=len(Scenario.model_fields)
    )
    grid: dict[str, Annotated[list[Value], Field(min_length=1, max_length=100_000)]] = Field(
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


FIRST = 64
"""Points that are worked out together in the beginning, of which the dearest take 0.3 s."""
MOST_VALUES = 2**17
"""Values in the rows that are worked out together at most: of 7,000 rows, unless other results are asked for."""
GROWTH = 64
"""How many times as many as those before they are at most."""
AT_ONCE = 0.25
"""Processor time that they are to take [s]."""
HOWEVER_FEW = 0.008
"""Processor time that they take however few they are, about [s]."""
FEW_MORE = 1.25
"""The last are worked out with those before them where these are so many times as many at most."""


def sweep(grid: Grid, catalog: Catalog, first: int = 0) -> Iterator[dict[str, Any]]:
    """One flat row a scenario: the varied fields, then the typical results, ``error`` where it cannot be answered.

    The last field of the grid varies fastest. Points are columns of one plan where the results allow it, see
    `app.studies.plan_columns`; else each is a plan.

    Args:
        grid: the base scenario, the values that fields take in turn, and the results of each row.
        catalog: what all scenarios are looked up in.
        first: the first row that is wanted, counted from 0.
    """
    names = columns(grid)
    for several in Sweep(grid, catalog).batches(first):
        for values in zip(*several, strict=True):
            yield dict(zip(names, values, strict=True))


Columns = list[list[Any]]


class Sweep:
    """A grid, and what of its plans is kept from some of its points for others."""

    def __init__(self, grid: Grid, catalog: Catalog) -> None:
        self.grid = grid
        self.catalog = catalog.typical_only()
        self.size = FIRST
        self.most = max(FIRST, MOST_VALUES // len(columns(grid)))
        self.together: PlanColumns | None = None
        if COLUMNS.issuperset(grid.results) and not _serves(vars(grid)):
            self.together = PlanColumns(grid.base, grid.grid, grid.results, self.catalog)

    def batches(self, first: int = 0, end: int | None = None) -> Iterator[Columns]:
        """Columns of some rows after another, from the first to the one before the end, counted from 0; no end: the
        grid's. As many points are worked out together as there will be time for, judged by those before.
        """
        sizes = [len(values) for values in self.grid.grid.values()]
        end = self.grid.points() if end is None else end
        while first < end:
            left, size = end - first, self.size if self.together else 1
            some = places(sizes, first, left if left <= size * FEW_MORE else size)
            begin = thread_time()
            given = [
                [values[place] for place in column]
                for values, column in zip(self.grid.grid.values(), some.T.tolist(), strict=True)
            ]
            answered = self.together.of(some) if self.together else self._plan([value for (value,) in given])
            took = thread_time() - begin
            yield [*given, *(answered[name] for name in columns(self.grid)[len(given) :])]
            first += len(some)
            if len(some) == self.size:
                of_each = max(took - HOWEVER_FEW, took / 4, AT_ONCE / 1000) / self.size
                in_time = int((AT_ONCE - HOWEVER_FEW) / of_each)
                self.size = min(max(in_time, 1), GROWTH * self.size, self.most)

    def _plan(self, values: Sequence[Any]) -> dict[str, list[Any]]:
        """The results of one point, which is a plan, and its error."""
        grid = self.grid
        fields = dict(zip(grid.grid, values, strict=True))
        try:
            scenario = Scenario.model_validate({**grid.base, **fields}, context={"catalog": self.catalog})
        except ValidationError as error:
            return {path: [None] for path in grid.results} | {"error": [unreadable(error)]}
        plan = evaluate(scenario, self.catalog, include=parts_of(grid.results))
        results = {path: value_of(plan, path) for path in grid.results}
        typical = {path: value.typical if isinstance(value, Band) else value for path, value in results.items()}
        known = {path: value if _is_known(value) else None for path, value in typical.items()}
        return {path: [value] for path, value in known.items()} | {"error": [worst(plan.findings)]}


def _is_known(value: Any) -> bool:
    """Whether a result is one: a number that is none, or without end, is null in a row."""
    return not isinstance(value, float) or isfinite(value)


def places(sizes: Sequence[int], first: int, count: int) -> NDArray[np.int64]:
    """Of some points of a grid one after another the place of each field's value: the last field varies fastest.

    >>> places([3, 2], 3, 3).tolist()
    [[1, 1], [2, 0], [2, 1]]
    """
    digits = np.empty((count, len(sizes)), np.int64)
    carried = np.arange(count)
    for axis in reversed(range(len(sizes))):
        first, digit = divmod(first, sizes[axis])
        carried, digits[:, axis] = np.divmod(carried + digit, sizes[axis])
    return digits


def unusual(grid: Grid, catalog: Catalog) -> list[Finding]:
    """Of each field the first value that is far from what is met in practice: no row has a place for that.

    What is met in practice is that of the clusters at the ends of the grid.
    """
    ends = [*_ends(grid, catalog)]
    if not ends:
        return []
    given = {name: (value,) for name, value in vars(ends[0]).items() if isinstance(value, float)} | grid.grid
    findings = (unusual_among(name, partial(_numbers, name, values), ends, catalog) for name, values in given.items())
    return [finding for finding in findings if finding]


def _ends(grid: Grid, catalog: Catalog) -> Iterator[Scenario]:
    """The first point of a grid and the last, as far as they are scenarios: where one is none, its row says so."""
    for end in (0, -1):
        fields = grid.base | {name: values[end] for name, values in grid.grid.items()}
        with suppress(ValidationError):
            yield Scenario.model_validate(fields, context={"catalog": catalog})


def _numbers(name: str, values: Sequence[Any]) -> Iterator[float]:
    """Values of a field in base units, as far as they are numbers."""
    reader: TypeAdapter[Any] = TypeAdapter(Scenario.model_fields[name].rebuild_annotation())
    for value in values:
        with suppress(ValidationError):
            number = reader.validate_python(value)
            if isinstance(number, float):
                yield number


def row(grid: Grid, fields: Mapping[str, Any], results: Mapping[str, Any], error: str) -> dict[str, Any]:
    """One row, always with the same columns."""
    return {**fields, **{name: results.get(name) for name in grid.results}, "error": error}


def columns(grid: Grid) -> list[str]:
    """The columns of a row, in order."""
    return [*grid.grid, *grid.results, "error"]
