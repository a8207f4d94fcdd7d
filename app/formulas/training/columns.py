"""Columns of numbers by name, and places in them: what the search for the parallelism keeps its configurations in.

Source: Railyard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array

Whole = NDArray[np.int64]
Numbers = NDArray[np.float64]
Columns = Mapping[str, Numbers]


ROWS_AT_ONCE = 4_000
"""Rows worked out in one pass: their arrays stay in the processor's cache."""


def blocks(rows: int) -> Iterator[slice]:
    """So many rows in blocks of `ROWS_AT_ONCE` [1].

    >>> [*blocks(5_000)], [*blocks(0)]
    ([slice(0, 4000, None), slice(4000, 5000, None)], [])
    """
    for start in range(0, rows, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, rows))


def columns_at(columns: Columns, places: Whole | slice) -> dict[str, Numbers]:
    """Columns at some places, each in its own unit [1].

    >>> columns_at({"tensor": np.array([1.0, 2.0, 4.0])}, np.array([2, 0]))
    {'tensor': array([4., 1.])}
    """
    return {name: column[places] for name, column in columns.items()}


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Arrays one after the other; the only one as it is, not a copy [1].

    >>> joined([np.array([1, 2]), np.array([8])])
    array([1, 2, 8])
    """
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def distinct(places: Whole) -> Whole:
    """The different numbers among places, ascending [1].

    >>> distinct(np.array([3, 0, 3]))
    array([0, 3])
    """
    seen = np.zeros(int(places.max(initial=-1)) + 1, bool)
    seen[places] = True
    return np.flatnonzero(seen)


def written_out(values: Array, axes: Columns) -> Numbers:
    """Values over open axes, written out and flattened, in their own unit [1].

    >>> axes = {"tensor": np.array([[1.0], [2.0]]), "context": np.array([[1.0, 2.0, 4.0]])}
    >>> written_out(axes["tensor"], axes)
    array([1., 1., 1., 2., 2., 2.])
    """
    table = np.empty(np.broadcast(*axes.values()).shape)
    table[...] = values
    return table.ravel()
