"""A sweep on as many processes or machines as an executor has."""

import pickle
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from itertools import chain, islice
from threading import local
from typing import Any

from app.catalog.load import Catalog
from app.studies import sweep as one_process
from app.studies.sweep import Columns, Grid, Sweep, columns

POINTS = 4096
"""Points of a part at most: with the parallelism given up to some seconds of work, and 2 MB of rows."""
TOGETHER = 512
"""Points of a part that are worked out together in the beginning: nobody waits for its first row."""
AHEAD = 64
"""Parts that are asked for before the first of them is read, so that a long sweep needs no more memory than a short."""


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
    packed = pickle.dumps((grid, catalog))
    names, points = columns(grid), grid.points()
    waiting: deque[Future[Columns]] = deque()
    futures = (
        executor.submit(_columns, packed, first, min(first + POINTS, points)) for first in range(0, points, POINTS)
    )
    try:
        waiting.extend(islice(futures, AHEAD))
        while waiting:
            done = waiting.popleft().result()
            yield from (dict(zip(names, values, strict=True)) for values in zip(*done, strict=True))
            waiting.extend(islice(futures, 1))
    finally:
        for future in waiting:
            future.cancel()


def _columns(packed: bytes, first: int, end: int) -> Columns:
    """Some rows of a grid as columns, which are sent in a fraction of the time."""
    batches = list(_unpacked(packed).batches(first, end, TOGETHER))
    return [list(chain.from_iterable(pieces)) for pieces in zip(*batches, strict=True)]


_KEPT = local()
"""Of each thread the sweep that its last part was of: what was worked out for that part serves the next."""


def _unpacked(packed: bytes) -> Sweep:
    """A sweep sent by another process."""
    if getattr(_KEPT, "packed", None) != packed:
        _KEPT.sweep = Sweep(*pickle.loads(packed))  # noqa: S301 `sweep` made it
        _KEPT.packed = packed
    kept: Sweep = _KEPT.sweep
    return kept
