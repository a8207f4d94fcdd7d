"""Stretches of an axis on which something holds."""

from collections.abc import Iterable, Iterator
from itertools import groupby


def stretches(holds: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """The first and the last place of each stretch on which it holds.

    >>> list(stretches([True, False, True, True]))
    [(0, 0), (2, 3)]
    """
    for true, group in groupby(enumerate(holds), key=lambda each: bool(each[1])):
        places = [place for place, _ in group]
        if true:
            yield places[0], places[-1]
