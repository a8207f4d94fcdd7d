"""A sweep on as many processes or machines as an executor has."""

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, islice
from threading import local
from typing import Any, TypeVar

from app.catalog.load import Catalog
from app.studies import sweep as one_process
from app.studies.sweep import Columns, Grid, Sweep, columns

T = TypeVar("T")

PARTS = 64
"""Parts of a sweep at least, so that as many workers have something to do; unless they were smaller than this:"""
LEAST, MOST = 256, 16_384
"""Points of a part; with the parallelism given a tenth of a second of work to half a minute, and up to 3 MB of rows."""
AHEAD = 32
"""Parts that are asked for before the first of them is read, so that a long sweep needs no more memory than a short."""


def sweep(grid: Grid, catalog: Catalog, executor: Executor | None = None) -> Iterator[dict[str, Any]]:
    """One flat row a scenario, in order; see `app.studies.sweep.sweep`. Without an executor here and now."""
    if executor is None:
        yield from one_process.sweep(grid, catalog)
        return
    names = columns(grid)
    for done in in_parts(_columns, grid, catalog, executor):
        yield from (dict(zip(names, values, strict=True)) for values in zip(*done, strict=True))


def in_parts(
    answer: Callable[[Sweep, int, int], T], grid: Grid, catalog: Catalog, executor: Executor | None = None
) -> Iterator[T]:
    """What a function, which other processes can import, makes of some rows after another, counted from 0."""
    points = grid.points()
    each = min(max(points // PARTS, LEAST), MOST)
    parts = ((first, min(first + each, points)) for first in range(0, points, each))
    if executor is None:
        sweep = Sweep(grid, catalog)
        yield from (answer(sweep, *part) for part in parts)
        return
    sent = _Sent.of(grid, catalog)
    futures = (executor.submit(_answered, answer, sent, first, end) for first, end in parts)
    waiting: deque[Future[T]] = deque()
    try:
        waiting.extend(islice(futures, AHEAD))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(islice(futures, 1))
    finally:
        for future in waiting:
            future.cancel()


@dataclass(frozen=True)
class _Sent:
    """A grid and its catalogue as each part takes them along: 0.2 MB where they are 1.2.

    Attributes:
        packed: both, compressed.
        name: a hash of it, which Dask takes; it would make one of each part's text, half of what it does for a sweep.
    """

    packed: bytes
    name: str

    @staticmethod
    def of(grid: Grid, catalog: Catalog) -> "_Sent":
        """Both of a sweep."""
        packed = zlib.compress(pickle.dumps((grid, catalog)), level=1)
        return _Sent(packed, blake2b(packed, digest_size=16).hexdigest())

    def __dask_tokenize__(self) -> str:
        return self.name


def _answered(answer: Callable[[Sweep, int, int], T], sent: _Sent, first: int, end: int) -> T:
    return answer(_unpacked(sent), first, end)


def _columns(sweep: Sweep, first: int, end: int) -> Columns:
    """Some rows of a grid as columns, which are sent in a fraction of the time."""
    return [list(chain.from_iterable(pieces)) for pieces in zip(*sweep.batches(first, end), strict=True)]


_KEPT = local()
"""Of each thread the sweep that its last part was of: what was worked out for that part serves the next."""


def _unpacked(sent: _Sent) -> Sweep:
    """A sweep sent by another process."""
    if getattr(_KEPT, "name", None) != sent.name:
        _KEPT.sweep = Sweep(*pickle.loads(zlib.decompress(sent.packed)))  # noqa: S301 `sweep` made it
        _KEPT.name = sent.name
    kept: Sweep = _KEPT.sweep
    return kept
