"""Which candidates fit in memory, each with the least recomputation that lets it, and what is found of those timed.

More recomputation than fits needs is slower, all else equal, since it adds work and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.records import but
from app.formulas.training import memory
from app.formulas.training.arguments import Parallelism
from app.formulas.training.columns import Numbers, Whole, distinct
from app.formulas.training.fixed_degrees import GRADIENTS, OPTIMIZER
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.search_cache import Kept
from app.formulas.training.search_grid import Candidates, Grid, Splits
from app.formulas.training.search_space import Space
from app.formulas.training.stacking import row


class Timed(NamedTuple):
    """Some candidates of a grid, and their step times.

    Attributes:
        places: where each is in the grid, counted through [1].
        time: step time of each [s].
        evaluated: how many were timed [1].
    """

    places: Whole
    time: Numbers
    evaluated: int


@dataclass(frozen=True)
class Fitting:
    """Which candidates fit in memory, each with the least recomputation that lets it.

    Attributes:
        grid: the candidates.
        level: of each, by sharding, experts' degree and run, its place among the levels of recomputation; one more
            where none fits [1].
        activity: memory of the activations of each run, by that place [B].
        feasible: how many fit, of each batch [1].
        smallest_memory: as in `SearchResult` [B].
        smallest: as in `SearchResult`.
    """

    grid: Grid
    level: NDArray[np.int8]
    activity: Numbers
    feasible: Whole
    smallest_memory: float = np.nan
    smallest: Parallelism | None = None

    @classmethod
    def of(cls, search: Search, limit: float, grid: Grid | None = None) -> Fitting:
        """The candidates that fit. The least recomputation is the quickest: more is only for what does not fit yet.

        Args:
            search: what is searched.
            limit: memory that may be filled [B].
            grid: the runs that are looked at; ``None`` means all.
        """
        grid, activity = Enumeration.of(search.space) if grid is None else (grid, _activity(search.space, grid))
        room = grid.by_run(np.where(grid.groups.open, limit - grid.groups.states, -1.0))
        crowded = np.ones(room.shape, bool)
        level = np.zeros(room.shape, np.int8)
        for busy in activity:
            crowded &= ~(busy <= room)
            level += crowded
        if grid.groups.spare:
            _drop_superfluous(grid, level, len(activity))
        return cls(grid, level, activity, grid.counted(level < len(activity)))

    def every(self) -> Whole:
        """Places of all that fit."""
        return np.flatnonzero(self.level < len(self.activity))

    @property
    def untimed(self) -> Timed:
        """All that fit, without their times."""
        places = self.every()
        return Timed(places, np.full(len(places), np.nan), 0)

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

    @cached_property
    def cells(self) -> Whole:
        """Places of the cells with which anything fits."""
        return distinct(self.grid.cell[self.least.min(axis=0) < len(self.activity)])

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
        """The same with the candidate that needs least, and its memory, where nothing fits: see `SearchResult`."""
        grid, activity = self.grid, self.activity
        if self.feasible.any() or not len(grid.group):
            return self
        held = grid.by_run(np.where(grid.groups.open, grid.groups.states, np.inf))
        sizes = (activity[:, None, None] + held).reshape(len(activity), -1)
        level, places = np.nonzero(sizes == sizes.min())
        first = np.lexsort((*grid.turns(places), level))[:1]
        columns = grid.columns(grid.at(places[first]))
        smallest = row(search.parallelism(columns, np.array(grid.groups.recompute)[level[first]]), 0)
        return but(self, smallest_memory=float(sizes.min()), smallest=smallest)

    def result(self, search: Search, timed: Timed, quickest: int | None, batch: int = 0) -> SearchResult:
        """The quickest of the places that are worth it, with their times, of the batch at some place."""
        grid, places, time = self.grid, timed.places, timed.time
        order = self._ordered(places, time)[:quickest]
        places, time = places[order], time[order]
        some = grid.at(places)
        return SearchResult(
            enumerated=int(grid.splits.enumerated[batch]),
            divisible=int(grid.splits.divisible[batch]),
            feasible=int(self.feasible[batch]),
            evaluated=timed.evaluated,
            parallelism=search.parallelism(grid.columns(some), self.recompute(places)),
            time=time,
            memory=self.memory(places, some),
            smallest_memory=self.smallest_memory,
            smallest=self.smallest,
        )

    def _ordered(self, places: Whole, time: Numbers) -> Whole:
        """Places of times, quickest first, what is not a number last; equal ones as `Grid.turns` has them."""
        order = np.argsort(time)  # a quarter of the time of one by all that decides
        ascending = time[order]
        if np.all(ascending[1:] > ascending[:-1]):
            return order
        return np.lexsort((*self.grid.turns(places), self.recompute(places), time))


def _drop_superfluous(grid: Grid, level: NDArray[np.int8], none: int) -> None:
    """Take out sharded gradients, which cost time, where what shards the optimizer state alone fits as well."""
    sharding = grid.by_run(grid.groups.columns["sharding"])
    optimizer = np.where(sharding == OPTIMIZER, level, none).min(axis=0)
    level[(sharding == GRADIENTS) & (optimizer <= level)] = none


class Enumeration(NamedTuple):
    """Candidates of one batch.

    Attributes:
        grid: the candidates.
        activity: memory of their activations, by recomputation and run [B].
    """

    grid: Grid
    activity: Numbers

    @classmethod
    def of(cls, space: Space) -> Enumeration:
        """Kept: it takes a third of a search, and a study asks about equal numbers of other GPUs and networks."""
        return _enumerations.of(space, _enumeration)

    @property
    def nbytes(self) -> int:
        """What it takes, but for what it shares with those of other batches [B]."""
        grid, splits = self.grid, self.grid.splits
        columns = (*grid.runs.values(), *splits.cells.values(), splits.divides, grid.group, grid.cell, grid.batch)
        return sum(table.nbytes for table in (*columns, self.activity))


def _enumeration(space: Space) -> Enumeration:
    grid = Splits.of(space, [int(space.job.global_batch)]).grid()
    return Enumeration(grid, _activity(space, grid))


def _activity(space: Space, grid: Grid) -> Numbers:
    """Memory of the activations, by recomputation and run [B]."""
    _, contexts, micro_batches, _ = map(len, grid.splits.axes)
    levels, tensor = np.array(grid.groups.recompute)[:, None], grid.cell // (contexts * micro_batches)
    left, left_whole = (np.take(table, tensor, axis=1) for table in grid.groups.kept_bytes)
    runs, reserved = space.fixed.spread(space.gpus, grid.runs, levels), (space.context, space.fragmentation)
    job = grid.job(space.job)
    sizes = memory.activity(space.shape, job, runs, space.software, *reserved, (left, left_whole))
    return np.broadcast_to(sum(sizes), (len(levels), len(grid.group)))


_enumerations: Kept[Enumeration] = Kept(3_000_000)
"""Those of a batch that much divides, such as 720,720, take 3 to 6 MB each."""
