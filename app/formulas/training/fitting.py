"""Which candidates fit in memory, each with the least recomputation that lets it, and what is found of those timed.

More recomputation than fits needs is slower, all else equal, since it adds work and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import counted_off
from app.formulas.records import but
from app.formulas.training.arguments import Parallelism
from app.formulas.training.columns import Numbers, Whole
from app.formulas.training.divisibility import Flags
from app.formulas.training.fixed_degrees import GRADIENTS, OPTIMIZER
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.search_cache import Kept, Spaces
from app.formulas.training.search_grid import Candidates, Grid, Shares
from app.formulas.training.search_space import Space
from app.formulas.training.stacking import row, rows_of


class Timed(NamedTuple):
    """Some candidates of a grid, and their step times.

    Attributes:
        places: where each is in the grid, counted through [1].
        time: step time of each [s].
        evaluated: how many were timed of each search [1].
    """

    places: Whole
    time: Numbers
    evaluated: Whole


@dataclass(frozen=True)
class Fitting:
    """Which candidates fit in memory, each with the least recomputation that lets it.

    Attributes:
        grid: the candidates.
        level: of each, by sharding, experts' degree and run, its place among the levels of recomputation; one more
            where none fits [1].
        activity: memory of the activations of each run, by that place [B].
        feasible: how many fit, of each search [1].
        smallest: of searches of which none does, by number, how much the least takes, and what that is [B].
    """

    grid: Grid
    level: NDArray[np.int8]
    activity: Numbers
    feasible: Whole
    smallest: Mapping[int, tuple[float, Parallelism]]

    @classmethod
    def of(cls, limits: Numbers, enumeration: Enumeration) -> Fitting:
        """The candidates that fit. The least recomputation is the quickest: more is only for what does not fit yet.

        Args:
            limits: memory that may be filled, of each search [B].
            enumeration: the runs that are looked at.
        """
        grid, activity = enumeration
        held = grid.by_run(np.where(grid.groups.open, grid.groups.states, np.inf))
        room = (limits[grid.owner] if len(limits) > 1 else limits) - held
        crowded = np.ones(room.shape, bool)
        level = np.zeros(room.shape, np.int8)
        for busy in activity:
            crowded &= ~(busy <= room)
            level += crowded
        if grid.groups.spare:
            _drop_superfluous(grid, level, len(activity))
        return cls(grid, level, activity, grid.counted(level < len(activity)), {})

    def every(self) -> Whole:
        """Places of all that fit."""
        return np.flatnonzero(self.level < len(self.activity))

    def untimed(self) -> Timed:
        """All that fit, without their times."""
        places = self.every()
        return Timed(places, np.full(len(places), np.nan), np.zeros(self.grid.searches, np.int64))

    def sharded(self, some: Whole) -> Whole:
        """Places of all shardings with which some experts' degrees and runs fit."""
        level = self.level.reshape(len(self.level), -1)
        sharding, which = np.nonzero(level[:, some] < len(self.activity))
        return sharding * level.shape[1] + some[which]

    @cached_property
    def least(self) -> NDArray[np.int8]:
        """The least level of each experts' degree and run, whatever shards them."""
        least: NDArray[np.int8] = self.level.min(axis=0)
        return least

    @property
    def used(self) -> Flags:
        """By level of recomputation, of which splits anything fits."""
        used = np.zeros((len(self.activity), len(self.grid.splits.owner)), bool)
        for level, splits in enumerate(used):
            splits[self.grid.split[(self.level == level).any(axis=(0, 1))]] = True
        return used

    def levels(self, places: Whole) -> Whole:
        """The levels of recomputation of some."""
        return self.level.ravel()[places].astype(np.int64)

    def recompute(self, places: Whole) -> Whole:
        """How much some recompute: 0 none, 1 selective, 2 full [1]."""
        return np.array(self.grid.groups.recompute)[self.levels(places)]

    def memory(self, places: Whole, some: Candidates) -> Numbers:
        """What some take on the fullest GPU [B]."""
        active: Numbers = self.activity[self.level.ravel()[places], some.run]
        return active + self.grid.groups.states.ravel()[some.state]

    def frugal(self, search: Search) -> Fitting:
        """The same with the candidates that need least of the searches where nothing fits: see `SearchResult`."""
        owners = np.flatnonzero((self.feasible == 0) & (np.diff(self.grid.ends) > 0)).tolist()
        return but(self, smallest={owner: self._smallest(search, owner) for owner in owners}) if owners else self

    def _smallest(self, search: Search, owner: int) -> tuple[float, Parallelism]:
        """Of a search what the candidate takes that needs least, and that [B]."""
        grid, groups = self.grid, self.grid.groups
        runs = np.arange(*grid.ends[owner : owner + 2])
        held = np.where(groups.open, groups.states, np.inf)[:, grid.group[runs]]
        sizes = self.activity[:, None, runs, None] + held
        level, sharding, run, expert = np.nonzero(sizes == sizes.min())
        places = (sharding * len(grid.experts) + expert) * len(grid.group) + runs[run]
        first = np.lexsort((*grid.turns(places), level))[:1]
        columns = grid.columns(grid.at(places[first]))
        of_owner = search.of_owners(np.array([owner]))
        return float(sizes.min()), row(of_owner.parallelism(columns, np.array(groups.recompute)[level[first]]), 0)

    def results(
        self, search: Search, timed: Timed, quickest: int | None, some: Sequence[int] | None = None
    ) -> dict[int, SearchResult]:
        """The quickest of the places that are worth it, with their times, of some searches or of all, by its place.

        Args:
            search: what is searched, several as one.
            timed: the places.
            quickest: how many are wanted of each; ``None`` means all [1].
            some: the places of the searches; ``None`` means all [1].
        """
        grid, splits = self.grid, self.grid.splits
        order = self._ordered(timed, quickest)
        places, time = timed.places[order], timed.time[order]
        ends = np.searchsorted(grid.owner_of(places), np.arange(grid.searches + 1)).tolist()
        candidates = grid.at(places)
        of_owners = search.of_owners(grid.owner[candidates.run])
        parallelism = of_owners.parallelism(grid.columns(candidates), self.recompute(places))
        held = self.memory(places, candidates)
        results = {}
        for owner in range(grid.searches) if some is None else some:
            size, smallest = self.smallest.get(owner, (np.nan, None))
            rows = slice(ends[owner], ends[owner + 1])
            results[owner] = SearchResult(
                enumerated=int(splits.enumerated[owner]),
                divisible=int(splits.divisible[owner]),
                feasible=int(self.feasible[owner]),
                evaluated=int(timed.evaluated[owner]),
                parallelism=rows_of(parallelism, rows),
                time=time[rows],
                memory=held[rows],
                smallest_memory=size,
                smallest=smallest,
            )
        return results

    def _ordered(self, timed: Timed, quickest: int | None) -> Whole:
        """The quickest of each search, quickest first; equal ones as `Grid.turns` has them, what is no number last."""
        searches, owner = self.grid.searches, self.grid.owner_of(timed.places)
        order, many = by_search(timed.time, owner, searches), np.bincount(owner, minlength=searches)
        if quickest is not None:
            last = np.minimum(many, quickest) + np.cumsum(many) - many - 1
            limit = timed.time[order[last]] if len(order) else timed.time
            order = order[~(timed.time[order] > limit[owner[order]])]
        places, time, owner = timed.places[order], timed.time[order], owner[order]
        # By all that decides only where times are equal, which takes four times as long.
        if not np.all((owner[1:] > owner[:-1]) | (time[1:] > time[:-1])):
            turn = np.lexsort((*self.grid.turns(places), self.recompute(places), time, owner))
            order, owner = order[turn], owner[turn]
        return order if quickest is None else order[counted_off(np.bincount(owner, minlength=searches)) < quickest]


def by_search(time: Numbers, owner: Whole, searches: int) -> Whole:
    """The order of candidates by their search, of each by their time, what is no number last [1].

    Args:
        time: of the candidates [s].
        owner: the places of their searches [1].
        searches: how many there are [1].

    Source: Railyard.

    >>> by_search(np.array([3.0, 1.0, 2.0, 5.0]), np.array([1, 1, 0, 0]), 2)
    array([2, 3, 1, 0])
    """
    return np.argsort(time) if searches == 1 else np.lexsort((time, owner))


def of_rank(time: Numbers, owner: Whole, rank: int, searches: int) -> Numbers:
    """The time of this rank of each search, endless where there are not so many, or they are no numbers [s].

    Args:
        time: of some candidates [s].
        owner: the places of their searches [1].
        rank: the first is 1 [1].
        searches: how many there are [1].

    Source: Railyard.

    >>> of_rank(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 0, 0, 1]), 2, 2)
    array([ 2., inf])
    """
    if rank == 1:  # in a fifth of the time that it takes to sort them
        least = np.full(searches, np.inf)
        np.fmin.at(least, owner, time)
        return least
    many = np.bincount(owner, minlength=searches)
    ordered = np.append(time[by_search(time, owner, searches)], np.inf)
    place = np.where(many >= rank, np.cumsum(many) - many + rank - 1, len(time))
    times: Numbers = ordered[place]
    return np.where(np.isnan(times), np.inf, times)


def _drop_superfluous(grid: Grid, level: NDArray[np.int8], none: int) -> None:
    """Take out sharded gradients, which cost time, where what shards the optimizer state alone fits as well."""
    sharding = grid.by_run(grid.groups.columns["sharding"])
    optimizer = np.where(sharding == OPTIMIZER, level, none).min(axis=0)
    level[(sharding == GRADIENTS) & (optimizer <= level)] = none


class Enumeration(NamedTuple):
    """Candidates of some searches.

    Attributes:
        grid: the candidates.
        activity: memory of their activations, by recomputation and run [B].
    """

    grid: Grid
    activity: Numbers

    @classmethod
    def of(cls, spaces: Sequence[Space]) -> Enumeration:
        """All. Kept: it takes a third of a search, and a study asks about equal numbers of other GPUs and networks."""
        return _enumerations.of(spaces, _enumeration)

    @classmethod
    def some(cls, space: Space, grid: Grid) -> Enumeration:
        """Those of the runs of a grid; of some searches as one."""
        return cls(grid, grid.groups.activity(space, grid.owner, grid.group, grid.runs))

    @property
    def nbytes(self) -> int:
        """What it takes, but for what it shares with those of other batches [B]."""
        grid, splits = self.grid, self.grid.splits
        rows = (splits.owner, splits.group, splits.cell, splits.rounds)
        runs = (*grid.runs.values(), grid.split, grid.group, grid.owner)
        return sum(table.nbytes for table in (*rows, *runs, *splits.cells.values(), self.activity))


def _enumeration(spaces: Spaces) -> Enumeration:
    return Enumeration.some(Space.merged(spaces), Shares.of(spaces).splits().grid())


_enumerations: Kept[Enumeration] = Kept(3_000_000)
"""Those of a batch that much divides, such as 720,720, take 3 to 6 MB each."""
