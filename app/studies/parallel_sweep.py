"""A sweep on as many processes or machines as an executor has."""

import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from app.catalog.load import Catalog
from app.studies import sweep as one_process
from app.studies.sweep import Grid, columns

POINTS = 4096
"""Points of a part at most: with the parallelism given some seconds of work, and 2 MB of rows."""
AHEAD = 64
"""Parts that are asked for before the first of them is read, so that a long sweep needs no more memory than a short."""

Columns = list[tuple[Any, ...]]


def sweep(grid: Grid, catalog: Catalog, executor: Executor | None = None) -> Iterator[dict[str, Any]]:
    """One flat row a scenario, in order; see `app.studies.sweep.sweep`.

    Args:
        grid: the base scenario, the values that fields take in turn, and the results of each row.
        catalog: what all scenarios are looked up in.
        executor: any of `concurrent.futures`, or what another library offers as one, such as Dask's
            ``client.get_executor()``; none: here and now.

    >>> from app import Grid, load_catalog
    >>> rows = sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, 128]}), load_catalog())
    >>> [row["gpus"] for row in rows]
    [64, 128]
    """
    if executor is None:
        yield from one_process.sweep(grid, catalog)
        return
    packed = pickle.dumps(catalog)
    names = columns(grid)
    waiting: deque[Future[Columns]] = deque()
    futures = (executor.submit(_columns, part, packed) for part in parts(grid))
    try:
        waiting.extend(islice(futures, AHEAD))
        while waiting:
            done = waiting.popleft().result()
            yield from (dict(zip(names, values, strict=True)) for values in zip(*done, strict=True))
            waiting.extend(islice(futures, 1))
    finally:
        for future in waiting:
            future.cancel()


def parts(grid: Grid, most: int = POINTS) -> Iterator[Grid]:
    """Grids of at most so many points that together, in turn, have those of a grid.

    >>> [part.grid for part in parts(Grid(grid={"gpus": [8, 16, 24], "tiers": [1, 2]}), 4)]
    [{'gpus': [8, 16], 'tiers': [1, 2]}, {'gpus': [24], 'tiers': [1, 2]}]
    """
    points = grid.points()
    if points <= most:
        yield grid
        return
    name, values = next((name, values) for name, values in grid.grid.items() if len(values) > 1)
    step = max(1, most * len(values) // points)
    for start in range(0, len(values), step):
        yield from parts(grid.model_copy(update={"grid": {**grid.grid, name: values[start : start + step]}}), most)


def _columns(grid: Grid, packed: bytes) -> Columns:
    """The rows of a part, as columns, which are sent in a fraction of the time."""
    return list(zip(*(row.values() for row in one_process.sweep(grid, _unpacked(packed))), strict=True))


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Catalog:
    """A catalogue sent by another process. Kept: what was worked out with it before is looked up by it."""
    return cast(Catalog, pickle.loads(packed))  # noqa: S301 `sweep` made it
