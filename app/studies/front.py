"""The front of candidates: those that no other beats in both cost and time."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
ALIKE = 0.01
"""Times closer than this share are called equal: no model can tell them apart."""


def front(cheapest_first: Iterable[T], time: Callable[[T], float]) -> tuple[T, ...]:
    """Of candidates from the cheapest on, those that are quicker than every cheaper one.

    One that is less than ``ALIKE`` quicker than a cheaper one is left out.

    >>> front([100.0, 99.5, 120.0, 80.0], time=lambda seconds: seconds)
    (100.0, 80.0)
    """
    kept: list[T] = []
    for candidate in cheapest_first:
        if not kept or time(candidate) < time(kept[-1]) * (1 - ALIKE):
            kept.append(candidate)
    return tuple(kept)
