"""The rows of a sweep for a script: dictionaries one after another, or the columns of a data frame."""

import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Any

from app.catalog.load import Catalog
from app.catalog.names import did_you_mean, nearest
from app.plan.scenario import Scenario
from app.studies import parallel_sweep
from app.studies.sweep import Grid, unusual


class SweepRows(Iterator[dict[str, Any]]):
    """Rows of a sweep, worked out as they are read.

    One after another they are dictionaries, in order. What takes Arrow has all of them as columns of one type each with
    their units: ``polars.DataFrame(rows)``, ``pandas.DataFrame.from_arrow(rows)``, ``pyarrow.table(rows)``.
    """

    def __init__(self, grid: Grid, catalog: Catalog, executor: Executor | None) -> None:
        self.grid = grid
        self.catalog = catalog
        self.executor = executor
        self.rows = parallel_sweep.sweep(grid, catalog, executor)

    def __next__(self) -> dict[str, Any]:
        return next(self.rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows in memory: see the Arrow PyCapsule interface. Executors' processes write their parts themselves."""
        from app.report import arrow_stream  # takes 0.05 s, and dictionaries do without

        parts = parallel_sweep.in_parts(arrow_stream.of_part, self.grid, self.catalog, self.executor)
        return arrow_stream.joined(self.grid, parts).__arrow_c_stream__(requested_schema)


def sweep(grid: Grid, catalog: Catalog, executor: Executor | None = None) -> SweepRows:
    """One flat row a scenario; see `app.studies.sweep.sweep`. Warns of values far from what is met in practice.

    Args:
        grid: the base scenario, the values that fields take in turn, and the results of each row.
        catalog: what all scenarios are looked up in.
        executor: any of `concurrent.futures`, or what another library offers as one, such as Dask's
            ``client.get_executor()``; none: here and now.

    Raises:
        ValueError: a scenario has no field of a name that the grid or its base has.

    >>> from app import Grid, load_catalog
    >>> rows = sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, 128]}), load_catalog())
    >>> [row["gpus"] for row in rows]
    [64, 128]
    """
    for name in {**grid.base, **grid.grid}:
        if name not in Scenario.model_fields:
            advice = did_you_mean(nearest(name, Scenario.model_fields))
            raise ValueError(f"A scenario has no field “{name}”. {advice}".rstrip())
    for finding in unusual(grid, catalog):
        warnings.warn(f"{finding.message} {finding.suggestion}", stacklevel=2)
    return SweepRows(grid, catalog, executor)
