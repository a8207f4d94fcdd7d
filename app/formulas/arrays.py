"""Formulas take numbers and arrays alike.

NumPy's own functions turn numbers into small arrays, which are ten times as dear to compute with. These leave numbers
what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

Array = float | NDArray[np.float64]


def where(condition: bool | NDArray[np.bool_], yes: Array, no: Array) -> Array:
    """``yes`` where the condition holds, ``no`` elsewhere.

    >>> where(8 > 4, 1.0, np.zeros(3)), where(np.array([True, False]), 1.0, 2.0)
    (1.0, array([1., 2.]))
    """
    if isinstance(condition, ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def maximum(first: Array, second: Array) -> Array:
    """The larger of two; NaN if either is.

    >>> maximum(2.0, 1), maximum(np.array([0.0, 2.0]), 1)
    (2.0, array([1., 2.]))
    """
    if isinstance(first, ndarray) or isinstance(second, ndarray):
        return np.maximum(first, second)
    return first if first >= second or first != first else second


def minimum(first: Array, second: Array) -> Array:
    """The smaller of two; NaN if either is.

    >>> minimum(2.0, 1), minimum(np.array([0.0, 2.0]), 1)
    (1, array([0., 1.]))
    """
    if isinstance(first, ndarray) or isinstance(second, ndarray):
        return np.minimum(first, second)
    return first if first <= second or first != first else second


def any_(condition: bool | NDArray[np.bool_]) -> bool:
    """Whether the condition holds anywhere, so that what it decides is worth computing.

    Of some hundred places they are counted in a fifth of the time of ``any``.

    >>> any_(1 > 2), any_(np.array([False, True]))
    (False, True)
    """
    return bool(np.count_nonzero(condition) if isinstance(condition, ndarray) else condition)


def shared(numbers: Any) -> Any:
    """The number that all places have, with which to compute takes less, or an array of different ones as it is.

    >>> float(shared(np.array([8.0, 8.0]))), shared(np.array([8.0, 4.0]))
    (8.0, array([8., 4.]))
    """
    if isinstance(numbers, ndarray) and numbers.size and (numbers == numbers.flat[0]).all():
        return numbers.flat[0]
    return numbers


def typical_of(values: Array) -> float:
    """The typical one of some draws, which is the first, or a number itself.

    >>> typical_of(np.array([[2.0, 1.5, 3.0]])), typical_of(2)
    (2.0, 2.0)
    """
    return float(values.flat[0] if isinstance(values, ndarray) else values)


def grouped(group: NDArray[np.int64], many: int = 0) -> list[NDArray[np.int64]]:
    """Which places belong to each of some groups, so many at least, each group's in order [1].

    >>> [places.tolist() for places in grouped(np.array([0, 1, 0]), 3)]
    [[0, 2], [1], []]
    """
    return np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=many))[:-1])


def counted_off(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each member of its group, groups of so many one after the other [1].

    >>> counted_off(np.array([3, 0, 2])).tolist()
    [0, 1, 2, 0, 1]
    """
    places: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def between(ends: NDArray[np.int64], places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All from some ends to the next, one after another, and how many each has [1].

    >>> [column.tolist() for column in between(np.array([0, 2, 3, 7]), np.array([2, 0]))]
    [[3, 4, 5, 6, 0, 1], [4, 2]]
    """
    counts = ends[places + 1] - ends[places]
    if len(places) == 1:  # as in a plan by itself: in a third of the time
        return np.arange(ends[places[0]], ends[places[0] + 1]), counts
    return counted_off(counts) + np.repeat(ends[places], counts), counts


def changes(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """Rows in which some column is not as in the row before; the first row is one.

    >>> changes(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
    [0, 2, 3]
    """
    new = np.ones(len(columns[0]), dtype=np.bool_)
    if len(new):
        new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(new)


MOST_CODES = 2**62
"""Numbers that rows can be told apart by."""
CODES_OF_A_ROW = 16
"""As many of them for each row are looked up in a table, in a tenth of the time that it takes to sort the rows."""


def distinct(columns: Sequence[NDArray[Any]], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each different row of some columns of whole numbers is first, and which of them each of so many rows is.

    >>> distinct([np.array([5, 7, 5, 5]), np.array([0, 0, 0, 1])], 4)
    (array([0, 3, 1]), array([0, 2, 0, 1]))
    """
    code, codes = np.zeros(count, np.int64), 1
    for column in columns:
        more = int(column.max()) + 1
        if codes * more > MOST_CODES:
            code = np.unique(code, return_inverse=True)[1]
            codes = int(code.max()) + 1
        code, codes = code * more + column, codes * more
    if codes > CODES_OF_A_ROW * count:
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        return first, which
    first = np.full(codes, count)
    first[code[::-1]] = np.arange(count)[::-1]  # of several with one code the last that is written stays: the first row
    taken = first < count
    return first[taken], (np.cumsum(taken) - 1)[code]


def rounded(values: NDArray[np.float64], digits: int, to: np.ufunc = np.rint) -> NDArray[np.float64]:
    """Values with so many significant digits, each the float that is nearest to these; ``to`` is how they are rounded.

    >>> rounded(np.array([1234567.0, -1234567.0, 0.1234561, 5e-324, 0.0, np.inf]), 6, np.ceil).tolist()
    [1234570.0, -1234560.0, 0.123457, 5e-324, 0.0, inf]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.abs(places)
        nearest = np.where(places < 0, to(values / scale) * scale, to(values * scale) / scale)
    return np.where(np.isfinite(nearest) & (values != 0) & (np.abs(places) <= 22), nearest, values)
