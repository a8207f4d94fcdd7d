"""A grid of scenarios, answered one after the other in constant memory."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from math import isfinite, prod
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from app.catalog.load import Catalog
from app.plan.band import Band, nan_is_an_answer
from app.plan.declarations import figures, value_of
from app.plan.evaluate import evaluate
from app.plan.result import Finding, Plan
from app.plan.scenario import Scenario
from app.studies.stages import stages

RESULTS = tuple(name for name, declared in figures(Plan).items() if "sweep" in declared.show)
"""The results in each row unless others are asked for, by their names in a plan."""
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


class Grid(BaseModel):
    """A base scenario, and the values that some of its fields take in turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: dict[str, Any] = Field(default_factory=dict, description="Fields of a scenario.", max_length=100)
    grid: dict[str, Annotated[list[Any], Field(min_length=1, max_length=100_000)]] = Field(
        description="For each field to vary, its values.", min_length=1, max_length=12
    )

    results: list[Annotated[str, AfterValidator(result_name)]] = Field(
        list(RESULTS),
        description="The results in each row, by their names in a plan: typical values in base units, or words.",
        min_length=1,
        max_length=200,
    )

    def points(self) -> int:
        """How many scenarios the grid has."""
        return prod(len(values) for values in self.grid.values())


def sweep(grid: Grid, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """One flat row a scenario: the varied fields, then the typical results, ``error`` where it cannot be answered.

    The last field of the grid varies fastest.
    """
    typical = catalog.typical_only()
    for values in product(*grid.grid.values()):
        fields = dict(zip(grid.grid, values, strict=True))
        try:
            scenario = Scenario.model_validate({**grid.base, **fields}, context={"catalog": catalog})
        except ValidationError as error:
            yield row(grid, fields, {}, error.errors()[0]["msg"])
            continue
        answer = _of_stages if STAGED.issuperset(grid.results) else _of_plan
        answered, findings = answer(scenario, typical, grid.results)
        worst = [finding.message for finding in findings if finding.severity == "error"]
        yield row(grid, fields, answered, worst[0] if worst else "")


def row(grid: Grid, fields: Mapping[str, Any], results: Mapping[str, Any], error: str) -> dict[str, Any]:
    """One row, always with the same columns."""
    return {**fields, **{name: results.get(name) for name in grid.results}, "error": error}


def columns(grid: Grid) -> list[str]:
    """The columns of a row, in order."""
    return [*grid.grid, *grid.results, "error"]


Answered = tuple[Mapping[str, Any], tuple[Finding, ...]]


@nan_is_an_answer
def _of_stages(scenario: Scenario, catalog: Catalog, names: Sequence[str]) -> Answered:
    """Typical values of some results of network, job and costs, nothing where one cannot be computed; the findings."""
    answered = stages(scenario, catalog)
    values: dict[str, float | None] = {}
    for path in names:
        value = float(value_of(answered, path).typical)
        values[path] = value if isfinite(value) else None
    return values, answered.findings


def _of_plan(scenario: Scenario, catalog: Catalog, names: Sequence[str]) -> Answered:
    """The same of any results, words and flags among them."""
    plan = evaluate(scenario, catalog, include=())
    values = {path: value_of(plan, path) for path in names}
    return {path: value.typical if isinstance(value, Band) else value for path, value in values.items()}, plan.findings
