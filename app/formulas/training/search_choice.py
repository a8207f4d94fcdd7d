"""Which of the candidates that fit are timed: all that may be worth it, or that may be among the quickest.

Each candidate has a bound, what it takes at least. Those with the lowest bounds are timed first. What takes longer for
its bound alone than the steps that were found is not timed: no answer depends on how many come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.formulas.training.columns import Numbers, Whole
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Timed
from app.formulas.training.search_field import Field

FIRST_BATCH = 8_000
"""Configurations timed first when there are many, those with the quickest layers."""
FEW = 4_000
"""Configurations up to which all are listed, however slow."""
PRUNE_FACTOR = 2.0
"""Times the best step beyond which one of more configurations is neither listed nor timed to the end."""
PROMISING = 96
"""Configurations, whatever shards them, timed first at least where only the quickest are wanted."""
PROMISING_EACH = 3
"""As many for each that is wanted."""
RUNS_EACH = 2
"""Runs for each of these whose experts' degrees are bound one by one: those with the lowest bounds over all."""
ROUNDING = 1e-9
"""Share by which a bound may be above what it bounds, for being added up in another order."""


def all_worth(field: Field) -> list[Timed]:
    """All that may be within `PRUNE_FACTOR` of the best, or all where there are few.

    A step takes at least the layers of its deepest stage for every micro-batch. Where that alone is so many times the
    best step found among the most promising, the rest is not worked out.
    """
    every = [fitting.every() for fitting in field.fitted]
    least = [
        field.least(owner, places) if len(places) > FEW else np.zeros(len(places))
        for owner, places in enumerate(every)
    ]  # fmt: skip
    first = [_lowest(bounds, FIRST_BATCH) for bounds in least]
    times = [np.full(len(places), np.nan) for places in every]
    _fill(field, times, every, first)
    enough = [PRUNE_FACTOR * float(np.fmin.reduce(time, initial=np.nan)) for time in times]
    # What is not a number stays, and comes last.
    worth = [np.flatnonzero(~(bounds > most)) for bounds, most in zip(least, enough, strict=True)]
    _fill(field, times, every, [some[np.isnan(time[some])] for some, time in zip(worth, times, strict=True)])
    return [
        Timed(places[some], time[some], int(np.count_nonzero(~np.isnan(time))))
        for places, some, time in zip(every, worth, times, strict=True)
    ]  # fmt: skip


def _fill(field: Field, times: list[Numbers], every: Sequence[Whole], chosen: Sequence[Whole]) -> None:
    """Fill in the times of some candidates."""
    asked = [places[some] for places, some in zip(every, chosen, strict=True)]
    for time, some, values in zip(times, chosen, field.clock(asked), strict=True):
        time[some] = values


def quickest_timed(field: Field, many: int) -> list[list[Timed]]:
    """All that may be among so many of the quickest of each batch of each search, or all where there are few.

    A step takes at least its stages and bubble with nothing exchanged, and as much recomputation as the sharding needs
    that needs least. What takes longer for these alone than as many others altogether is not timed.
    """
    owners = range(len(field.fitted))
    pools = [_Pool(field, owner, max(PROMISING, PROMISING_EACH * many)) for owner in owners]
    chosen = [pool.first() for pool in pools]
    times = field.clock(chosen)
    near = [
        pool.others(pool.grid.of_each(places, time, lambda each: time_of_rank(each, many)))
        for pool, places, time in zip(pools, chosen, times, strict=True)
    ]
    columns = zip(pools, chosen, near, times, field.clock(near), strict=True)
    return [
        pool.by_batch(np.concatenate([places, others]), np.concatenate([time, of_others]))
        for pool, places, others, time, of_others in columns
    ]


class _Pool:
    """Candidates of a search, with what they take at least where nothing is exchanged beyond a layer.

    Those of the runs with the lowest bounds over all experts' degrees are bound one by one, the others where that is
    not enough.
    """

    def __init__(self, field: Field, owner: int, many: int) -> None:
        self.field, self.owner, self.fitting, self.grid = field, owner, field.fitted[owner], field.fitted[owner].grid
        self.every = np.arange(len(self.grid.cell))
        self.floors, self.beyond = np.zeros(len(self.every)), np.zeros(len(self.every), bool)
        if len(self.grid.experts) > 1:
            self.floors = field.floors(owner)
            floor = self.grid.of_each(self.every, self.floors, lambda each: limit_of_lowest(each, RUNS_EACH * many))
            self.beyond = self.floors > self.grid.of_runs(floor)
        self.runs = np.flatnonzero(~self.beyond)
        self.bounds = field.undisturbed(owner, self.runs)
        limit = self.grid.of_each(self.runs, self.bounds, lambda each: limit_of_lowest(each.ravel(), many))
        self.late = self.bounds > self.grid.of_runs(limit, self.runs)

    def first(self) -> Whole:
        """About so many with the lowest bounds."""
        return self._places(self.runs, ~self.late)

    def others(self, most: Numbers) -> Whole:
        """All others that take no longer than all that is known of their batch."""
        near = self._places(self.runs, self.late & ~(self.bounds > self.grid.of_runs(most, self.runs)))
        further = np.flatnonzero(self.beyond & ~(self.floors > self.grid.of_runs(most)))
        if not len(further):
            return near
        wanted = ~(self.field.undisturbed(self.owner, further) > self.grid.of_runs(most, further))
        return np.concatenate([near, self._places(further, wanted)])

    def by_batch(self, places: Whole, times: Numbers) -> list[Timed]:
        """Some candidates and their times by their batches."""
        return [Timed(places[some], times[some], len(places[some])) for some in self.grid.of_each_batch(places)]

    def _places(self, runs: Whole, wanted: Flags) -> Whole:
        """Places of all shardings of some experts' degrees and runs."""
        expert, run = np.nonzero(wanted)
        return self.fitting.sharded(expert * len(self.every) + runs[run])


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


def time_of_rank(times: Numbers, rank: int) -> float:
    """The time of this rank, and what it might be for being added up in another order; endless where none is [s].

    >>> 2.0 < time_of_rank(np.array([3.0, 1.0, 2.0]), 2) < 2.0001
    True
    """
    return limit_of_lowest(times, rank - 1) * (1 + ROUNDING)
