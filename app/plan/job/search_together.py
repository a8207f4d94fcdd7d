"""The searches for the best parallelism of many jobs, in as few calls as can be."""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from app.formulas.training import parallelism_search
from app.formulas.training.arguments import RING
from app.formulas.training.search import Contests, SearchResult
from app.formulas.training.stacking import alike
from app.plan.job.inputs import JobSetup

AT_ONCE, WITH_EXPERTS = 300, 96
"""Searches in one call, and where experts are spread too: more gain no time, and take 50 kilobytes each, or 500."""


def search_all(
    setups: Sequence[JobSetup], quickest: int | None, contests: Contests | None = None
) -> list[SearchResult]:
    """The search of each job: those on links of one structure, of one model and GPU, are one call.

    Of those that cannot win their contest the answer may be left out.
    """
    if len(setups) == 1:
        return [setups[0].search(quickest=quickest)]
    groups: dict[Hashable, list[int]] = {}
    for place, setup in enumerate(setups):
        groups.setdefault(_structure(setup), []).append(place)
    by_place: dict[int, SearchResult] = {}
    for places in groups.values():
        most = WITH_EXPERTS if setups[places[0]].inputs.shape.experts else AT_ONCE
        for block in _blocks(places, contests, most):
            searches = [setups[place].asked for place in block]
            rivals = None if contests is None else contests.some(block)
            results = parallelism_search.best_of(searches, setups[block[0]].budget, quickest=quickest, contests=rivals)
            by_place |= zip(block, results, strict=True)
    return [by_place[place] for place in range(len(setups))]


def _blocks(places: Sequence[int], contests: Contests | None, most: int) -> Iterator[Sequence[int]]:
    """So many searches at most one after the other, rivals together where they are not more.

    >>> [*_blocks([0, 1, 4, 5, 6], Contests(np.array([0, 0, 1, 2, 3, 3, 3]), np.ones(7)), 4)]
    [[0, 1], [4, 5, 6]]
    >>> [*_blocks([0, 1, 4, 5, 6], Contests(np.array([0, 0, 1, 2, 3, 3, 3]), np.ones(7)), 2)]
    [[0, 1], [4, 5], [6]]
    """
    start = 0
    while start < len(places):
        end = min(start + most, len(places))
        if contests is not None and end < len(places):
            number = contests.number[places[start : end + 1]]
            end = start + (int(np.searchsorted(number, number[-1])) or end - start)
        yield places[start:end]
        start = end


def _structure(setup: JobSetup) -> Hashable:
    """What jobs have in common whose other numbers can be columns of one search."""
    n = setup.inputs
    exchanging = float(n.shape.experts) > 0 or setup.fixed.context_exchange != RING
    return n.shape, n.software, n.calibration, setup.fixed, setup.budget, alike(n.links, exchanging)
