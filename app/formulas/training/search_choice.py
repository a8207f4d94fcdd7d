"""Which of the candidates that fit are timed: all that may be worth it, or that may be among the quickest.

Each candidate has a bound, what it takes at least. Those with the lowest bounds are timed first. What takes longer for
its bound alone than the steps that were found is not timed: no answer depends on how many come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from app.formulas.training.columns import Numbers, Whole, joined
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Timed, of_rank
from app.formulas.training.search import Contests
from app.formulas.training.search_field import Field

FIRST_BATCH = 8_000
"""Configurations timed first when there are many, those with the quickest layers."""
FEW = 4_000
"""Configurations up to which all are listed, however slow."""
PRUNE_FACTOR = 2.0
"""Times the best step beyond which one of more configurations is neither listed nor timed to the end."""
PROMISING, PROMISING_TOGETHER = 96, 32
"""Configurations, whatever shards them, timed first at least where only the quickest are wanted: of a lone search,
where a second round takes as long as they do, and of each of several, or of those that are rivals."""
PROMISING_EACH = 2
"""As many for each that is wanted."""
RUNS_EACH = 2
"""Runs for each of these whose experts' degrees are bound one by one: those with the lowest bounds over all."""
ROUNDING = 1e-9
"""Share by which a bound may be above what it bounds, for being added up in another order."""


def all_worth(field: Field) -> Timed:
    """All of each search that may be within `PRUNE_FACTOR` of its best, or all where there are few.

    A step takes at least the layers of its deepest stage for every micro-batch. Where that alone is so many times the
    best step found among the most promising, the rest is not worked out.
    """
    every = field.fitting.every()
    each = [every[some] for some in field.grid.of_each_search(every)]
    least = [field.least(places) if len(places) > FEW else np.zeros(len(places)) for places in each]
    first = [_lowest(bounds, FIRST_BATCH) for bounds in least]
    times = [np.full(len(places), np.nan) for places in each]
    _fill(field, times, each, first)
    enough = [PRUNE_FACTOR * float(np.fmin.reduce(time, initial=np.nan)) for time in times]
    # What is not a number stays, and comes last.
    worth = [np.flatnonzero(~(bounds > most)) for bounds, most in zip(least, enough, strict=True)]
    _fill(field, times, each, [some[np.isnan(time[some])] for some, time in zip(worth, times, strict=True)])
    return Timed(
        places=joined([places[some] for places, some in zip(each, worth, strict=True)]),
        time=joined([time[some] for time, some in zip(times, worth, strict=True)]),
        evaluated=np.array([np.count_nonzero(~np.isnan(time)) for time in times]),
    )


def _fill(field: Field, times: list[Numbers], each: Sequence[Whole], chosen: Sequence[Whole]) -> None:
    """Fill in the times of some candidates of each search."""
    asked = [places[some] for places, some in zip(each, chosen, strict=True)]
    clocked = np.split(field.clock(joined(asked)), np.cumsum([*map(len, asked)])[:-1])
    for time, some, values in zip(times, chosen, clocked, strict=True):
        time[some] = values


def quickest_timed(field: Field, many: int, most: Numbers | float = np.inf) -> Timed:
    """All that may be among so many of the quickest of each search, or all where there are few.

    A step takes at least its stages and bubble with nothing exchanged, and as much recomputation as the sharding needs
    that needs least. What takes longer for these alone than as many others altogether is not timed.

    Args:
        field: what fits.
        many: how many are wanted [1].
        most: what so many of each search take no longer than, where that is known [s].
    """
    pool = _Pool(field, many, most)
    first = pool.first()
    times = field.clock(first)
    others = pool.others(enough(field, first, times, many))
    return _timed(field, np.concatenate([first, others]), np.concatenate([times, field.clock(others)]))


def promising_timed(field: Field, many: int) -> Timed:
    """About as many of each search as may well be among so many of the quickest, see `quickest_timed`."""
    first = _Pool(field, many).first()
    return _timed(field, first, field.clock(first))


def _timed(field: Field, places: Whole, times: Numbers) -> Timed:
    """Some candidates and their times."""
    grid = field.grid
    return Timed(places, times, np.bincount(grid.owner_of(places), minlength=grid.searches))


def enough(field: Field, places: Whole, times: Numbers, rank: int) -> Numbers:
    """Of each search the time of this rank, and what it might be for being added up in another order; else endless [s].

    Args:
        field: what fits.
        places: of some candidates [1].
        times: of these [s].
        rank: the first is 1 [1].
    """
    return time_of_rank(times, field.grid.owner_of(places), field.contests, rank) * (1 + ROUNDING)


def time_of_rank(times: Numbers, owner: Whole, contests: Contests, rank: int) -> Numbers:
    """Of each search the time that weighs as much as that of this rank among its own and its rivals'; else endless [s].

    Args:
        times: of some candidates [s].
        owner: the search that each is of [1].
        contests: which searches are rivals.
        rank: the first is 1 [1].
    """
    return contests.times(of_rank(times * contests.weight[owner], contests.number[owner], rank, contests.count))


class _Pool:
    """Candidates of some searches, with what they take at least where nothing is exchanged beyond a layer.

    Those of the runs with the lowest bounds over all experts' degrees are bound one by one, the others where that is
    not enough.
    """

    def __init__(self, field: Field, wanted: int, most: Numbers | float = np.inf) -> None:
        self.field, self.fitting, self.owner = field, field.fitting, field.grid.owner
        many = max(PROMISING if len(field.families) == 1 else PROMISING_TOGETHER, PROMISING_EACH * wanted)
        self.most = np.broadcast_to(most, field.grid.searches)
        self.floors, self.beyond = np.zeros(len(self.owner)), np.zeros(len(self.owner), bool)
        if len(field.grid.experts) > 1:
            self.floors = field.floors()
            self.beyond = self.floors > self._limits(self.floors, self.owner, RUNS_EACH * many)[self.owner]
        self.runs = np.flatnonzero(~self.beyond)
        self.bounds, owner = field.undisturbed(self.runs), self.owner[self.runs]
        self.late = self.bounds > self._limits(self.bounds, owner, many)[owner]

    def _limits(self, bounds: Numbers, owner: Whole, many: int) -> Numbers:
        """What so many of those of each search with the lowest bounds are not above, or all that may be [s]."""
        limits: Numbers = np.minimum(lowest_of_each(bounds, owner, self.field.contests, many), self.most)
        return limits

    def first(self) -> Whole:
        """About so many of each search with the lowest bounds."""
        return self._places(self.runs, ~self.late)

    def others(self, most: Numbers) -> Whole:
        """All others that take no longer than all that is known of their search."""
        most = np.minimum(most, self.most)
        near = self._places(self.runs, self.late & ~(self.bounds > most[self.owner[self.runs]]))
        further = np.flatnonzero(self.beyond & ~(self.floors > most[self.owner]))
        if not len(further):
            return near
        wanted = ~(self.field.undisturbed(further) > most[self.owner[further]])
        return np.concatenate([near, self._places(further, wanted)])

    def _places(self, runs: Whole, wanted: Flags) -> Whole:
        """Places of all shardings of some experts' degrees and runs."""
        expert, run = np.nonzero(wanted)
        return self.fitting.sharded(expert * len(self.owner) + runs[run])


def lowest_of_each(bounds: Numbers, owner: Whole, contests: Contests, many: int) -> Numbers:
    """What so many of the bounds of each search and its rivals are not above, see `limit_of_lowest` [s].

    Args:
        bounds: of all, on the last axis, those of each search together [s].
        owner: the search that each is of [1].
        contests: which searches are rivals.
        many: how many of each contest [1].
    """
    weighed, ends = bounds * contests.weight[owner], contests.ends(owner).tolist()
    return contests.times(np.array([limit_of_lowest(weighed[..., a:b].ravel(), many) for a, b in pairwise(ends)]))


def limit_of_lowest(bounds: Numbers, many: int) -> float:
    """What so many of some bounds are not above; endless where there are no more, or no more are numbers.

    >>> limit_of_lowest(np.array([3.0, 1.0, 2.0, 4.0]), 2), limit_of_lowest(np.array([1.0]), 2)
    (3.0, inf)
    """
    if len(bounds) <= many:
        return np.inf
    limit = float(np.partition(bounds, many)[many])
    return np.inf if np.isnan(limit) else limit


def _lowest(bounds: Numbers, many: int) -> Whole:
    """Places of so many of the lowest, or of all."""
    return np.argpartition(bounds, many)[:many] if len(bounds) > many else np.arange(len(bounds))
