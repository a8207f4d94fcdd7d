"""A sweep on as many processes or machines as an executor has."""

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice, pairwise
from math import ceil
from threading import local
from typing import Any, TypeVar

from app.catalog.load import Catalog
from app.studies import sweep as one_process
from app.studies.sweep import Columns, Grid, Sweep, columns

T = TypeVar("T")

PARTS = 32
"""Parts of a sweep at least, so that as many workers have something to do; unless they were smaller than this:"""
LEAST = 256
"""Points of a part: searched, a tenth of a second of work; who asks for it has 4 ms of Dask's."""
MOST_VALUES = 640_000
"""Values in the rows of a part at most, which are 5 MB: of 32,000 rows, unless other results are asked for."""
AHEAD = 64
"""Parts that are asked for before the first of them is read, and so workers that have something to do at most: a long
sweep needs no more memory than a short.
"""


def sweep(grid: Grid, catalog: Catalog, executor: Executor | None = None) -> Iterator[dict[str, Any]]:
    """One flat row a scenario, in order; see `app.studies.sweep.sweep`. Without an executor here and now."""
    if executor is None:
        yield from one_process.sweep(grid, catalog)
        return
    names = columns(grid)
    for done in in_parts(_pickled, grid, catalog, executor):
        several: Columns = pickle.loads(done)  # noqa: S301 `_pickled` made it
        yield from (dict(zip(names, values, strict=True)) for values in zip(*several, strict=True))


def in_parts(
    answer: Callable[[Sweep, int, int], T], grid: Grid, catalog: Catalog, executor: Executor | None = None
) -> Iterator[T]:
    """What a function, which other processes can import, makes of some rows after another, counted from 0."""
    points = grid.points()
    most = max(MOST_VALUES // len(columns(grid)), LEAST)
    number = max(min(PARTS, points // LEAST), ceil(points / most), 1)
    parts = pairwise(points * part // number for part in range(number + 1))
    if executor is None:
        sweep = Sweep(grid, catalog)
        yield from (answer(sweep, *part) for part in parts)
        return
    asked, known = _Packed.of(grid), _packed(catalog)
    futures = (executor.submit(_answered, answer, asked, known, first, end) for first, end in parts)
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
class _Packed:
    """What each part takes along: 0.1 MB of a catalogue of 0.7.

    Attributes:
        name: a hash of the content, by which those that have it know it. Dask takes it too; it would make one of each
            part's text, half of what it does for a sweep.
        content: pickled and compressed.
    """

    name: str
    content: bytes = field(compare=False)

    @staticmethod
    def of(thing: Any) -> "_Packed":
        """Anything that can be pickled."""
        content = zlib.compress(pickle.dumps(thing), level=6)
        return _Packed(blake2b(content, digest_size=16).hexdigest(), content)

    def unpacked(self) -> Any:
        """The same, in another process."""
        return pickle.loads(zlib.decompress(self.content))  # noqa: S301 `sweep` made it

    def __dask_tokenize__(self) -> str:
        return self.name


@lru_cache(maxsize=4)
def _packed(catalog: Catalog) -> _Packed:
    """What a sweep looks up in a catalogue."""
    return _Packed.of(replace(catalog.typical_only(), files=catalog.files.without_texts()))


@lru_cache(maxsize=4)
def _unpacked(catalog: _Packed) -> Catalog:
    """The catalogue, one for all sweeps: what was worked out of it for one serves the next."""
    unpacked: Catalog = catalog.unpacked()
    return unpacked


def _answered(answer: Callable[[Sweep, int, int], T], grid: _Packed, catalog: _Packed, first: int, end: int) -> T:
    return answer(_sweep(grid, catalog), first, end)


def _pickled(sweep: Sweep, first: int, end: int) -> bytes:
    """Some rows of a grid as columns, which are sent in a fraction of the time. What waits to be read takes a third of
    the memory so.
    """
    return pickle.dumps([[*chain.from_iterable(pieces)] for pieces in zip(*sweep.batches(first, end), strict=True)])


_KEPT = local()
"""Of each thread the sweep that its last part was of: what was worked out for that part serves the next."""


def _sweep(grid: _Packed, catalog: _Packed) -> Sweep:
    """A sweep sent by another process."""
    if getattr(_KEPT, "of", None) != (grid, catalog):
        _KEPT.sweep = Sweep(grid.unpacked(), _unpacked(catalog))
        _KEPT.of = grid, catalog
    kept: Sweep = _KEPT.sweep
    return kept
