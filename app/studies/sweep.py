"""A grid of scenarios, answered one after the other in constant memory."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import isfinite, prod
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.catalog.load import Catalog
from app.plan.outline import Outline, outline
from app.plan.scenario import Scenario

RESULTS = (
    "training.step_time", "training.mfu", "training.tokens_per_second", "training.time_to_train", "memory.total",
    "fabric.cost", "fabric.cost_per_host_port", "fabric.cost_per_gpu", "fabric.bisection_per_gpu", "cluster.power",
    "costs.capital", "costs.operating", "costs.total", "costs.per_run", "costs.rental",
)  # fmt: skip
"""The results in each row, by their names in a plan: typical values in base units."""


class Grid(BaseModel):
    """A base scenario, and the values that some of its fields take in turn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: dict[str, Any] = Field(default_factory=dict, description="Fields of a scenario.", max_length=100)
    grid: dict[str, Annotated[list[Any], Field(min_length=1, max_length=100_000)]] = Field(
        description="For each field to vary, its values.", min_length=1, max_length=12
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
            drafted = outline(scenario, typical)
        except ValidationError as error:
            yield row(fields, None, error.errors()[0]["msg"])
            continue
        worst = [finding.message for finding in drafted.findings if finding.severity == "error"]
        yield row(fields, drafted, worst[0] if worst else "")


def row(fields: Mapping[str, Any], drafted: Outline | None, error: str) -> dict[str, Any]:
    """One row, always with the same columns."""
    results = {name: _finite(drafted.typical(name)) if drafted else None for name in RESULTS}
    return {**fields, **results, "error": error}


def columns(fields: Sequence[str]) -> list[str]:
    """The columns of a row, in order."""
    return [*fields, *RESULTS, "error"]


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
