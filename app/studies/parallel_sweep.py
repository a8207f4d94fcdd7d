"""A sweep on as many processes or machines as an executor has."""

import pickle
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from itertools import chain, islice
from threading import local
from typing import Any

from app.catalog.load import Catalog
from app.studies import sweep as one_process
from app.studies.sweep import Columns, Grid, Sweep, columns

PARTS = 64
"""Parts of a sweep at least, so that as many workers have something to do; unless they were smaller than this:"""
LEAST, MOST = 256, 16_384
"""Points of a part; with the parallelism given a tenth of a second of work to half a minute, and up to 3 MB of rows."""
AHEAD = 32
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
    packed = zlib.compress(pickle.dumps((grid, catalog)), level=1)  # each part takes it along: 0.2 MB where it was 1.2
    names, points = columns(grid), grid.points()
    each = min(max(points // PARTS, LEAST), MOST)
    waiting: deque[Future[Columns]] = deque()
    futures = (executor.submit(_columns, packed, first, min(first + each, points)) for first in range(0, points, each))
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
    batches = _unpacked(packed).batches(first, end)
    return [list(chain.from_iterable(pieces)) for pieces in zip(*batches, strict=True)]


_KEPT = local()
"""Of each thread the sweep that its last part was of: what was worked out for that part serves the next."""


def _unpacked(packed: bytes) -> Sweep:
    """A sweep sent by another process."""
    if getattr(_KEPT, "packed", None) != packed:
        _KEPT.sweep = Sweep(*pickle.loads(zlib.decompress(packed)))  # noqa: S301 `sweep` made it
        _KEPT.packed = packed
    kept: Sweep = _KEPT.sweep
    return kept
