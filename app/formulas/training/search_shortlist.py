"""The quickest of several searches, looked for in one table: of many batches, on clusters of many sizes and networks.

Searches share the rows of the tables that formulas take. What divides of them, their shares, are bound before they are
split up into micro-batches, and splits before runs are made of any. A few are timed first; then those that are bound by
no more than what these take. No answer depends on how many come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.formulas.records import but
from app.formulas.training import step
from app.formulas.training.columns import Numbers, Whole, blocks
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Enumeration, Fitting, Timed
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.search_bounds import ShareBounds
from app.formulas.training.search_choice import (
    ROUNDING,
    lowest_of_each,
    promising_timed,
    quickest_timed,
    time_of_rank,
)
from app.formulas.training.search_field import Field
from app.formulas.training.search_grid import Grid, Shares, Splits
from app.formulas.training.search_space import Space

SHARES, SPLITS = 16, 24
"""Shares, and of their splits those, with the lowest bounds of each search that are looked at first."""
SPLITS_AT_ONCE, SPLITS_OF_ALL = 12_000, 80
"""Splits up to which no shares are looked at before others, and how many of each search are then looked at first."""
EACH = 1
"""As many more of these for each way that is wanted."""


def families_of(searches: Sequence[Search]) -> Whole:
    """Of each search, the place of the first of those that differ from it in nothing but their batch [1]."""
    first: dict[Any, int] = {}
    keys = ((id(each.links), each.gpu, each.gpus, but(each.job, global_batch=0.0)) for each in searches)
    return np.array([first.setdefault(key, place) for place, key in enumerate(keys)])


def quickest_together(searches: Sequence[Search], budget: float, many: int) -> list[SearchResult]:
    """So many of the quickest of each search, with their times.

    Args:
        searches: of one model, stack and calibration, with `alike` links.
        budget: share of the memory capacity that may be filled [1].
        many: how many are wanted [1].
    """
    table = _Table(searches, budget)
    results = table.quickest(many)
    results |= table.unfit([place for place in range(len(searches)) if place not in results])
    return [results[place] for place in range(len(searches))]


class _Table:
    """Some searches, and what divides of them.

    Attributes:
        searches: how many [1].
        merged, space: the searches as one, and what they can try.
        families: see `families_of` [1].
        limits: memory that may be filled of each [B].
        shares: what divides, whatever the micro-batch.
        bounds: what these take at least.
    """

    def __init__(self, searches: Sequence[Search], budget: float) -> None:
        self.searches, spaces = len(searches), [search.space for search in searches]
        self.merged, self.families = Search.merged(searches), families_of(searches)
        self.space, self.shares = Space.merged(spaces), Shares.of(spaces)
        self.limits = np.array([search.limit(budget) for search in searches])
        self.bounds = ShareBounds.of(self.merged, self.space, self.shares, self.limits * (1 + ROUNDING))

    def unfit(self, places: Sequence[int]) -> dict[int, SearchResult]:
        """The answers to some searches of which nothing fits."""
        if not places:
            return {}
        splits = self.shares.splits(np.where(np.isin(self.shares.owner, places), np.inf, 0.0))
        every = self._fitting(splits.grid()).frugal(self.merged)
        results = every.results(self.merged, every.untimed(), None)
        return {place: results[place] for place in places}

    def quickest(self, many: int) -> dict[int, SearchResult]:
        """So many of the quickest of each search of which something fits, by its place."""
        every = int(self.shares.sizes.many.sum()) <= SPLITS_AT_ONCE
        results: dict[int, SearchResult] = {}
        most = np.full(self.searches, np.inf)
        first = self._field(self._first(every, many), most, (SPLITS_OF_ALL if every else SPLITS) + EACH * many)
        if first is not None:
            field, beyond = first
            timed = quickest_timed(field, many) if every else promising_timed(field, many)
            most = np.array([time_of_rank(each.time, many) for each in timed])
            if every:
                known = most <= beyond
                results = self._results(field, timed, many, known)
                most[known] = 0.0
        rest = self._field(self.bounds.micro_batches(self._alike(most)), most)
        if rest is not None:
            field, _ = rest
            results |= self._results(field, quickest_timed(field, many, most), many, most > 0)
        return results

    def _first(self, every: bool, many: int) -> Numbers:
        """Most sequences in a micro-batch of each share that is looked at first [1].

        All where there are few splits; else a few shares with the lowest bounds whose layers stay in a domain.
        """
        if every:
            return self.bounds.micro_batches(np.full(self.searches, np.inf))
        near = np.where(self._near(), self.bounds.least, np.inf)
        most = lowest_of_each(near, self._ends(self.shares.owner), SHARES + EACH * many)
        return np.where(near <= most[self.shares.owner], self.bounds.micro_batches(most), 0.0)

    def _results(self, field: Field, timed: Sequence[Timed], many: int, wanted: Flags) -> dict[int, SearchResult]:
        """The quickest of the searches that are wanted of which something fits."""
        results = field.fitting.results(self.merged, timed, many)
        return {place: results[place] for place in np.flatnonzero(wanted & (field.fitting.feasible > 0)).tolist()}

    def _alike(self, most: Numbers) -> Numbers:
        """What steps take at most where nodes do not spread, that take no longer than some time [s]."""
        return np.asarray(step.time_without_straggler(most, self.merged.deviations, self.merged.calibration))

    def _near(self) -> Flags:
        """Whether the ranks of a layer of each share stay in a domain."""
        (t, c, _), groups, group = self.shares.groups.axes, self.shares.groups, self.shares.group
        search = self.merged.of_owners(self.shares.owner)
        near: Flags = t[groups.tensor[group]] * c[groups.context[group]] <= search.gpu.scale_up_domain
        return near

    def _field(self, sizes: Numbers, most: Numbers, lowest: int | None = None) -> tuple[Field, Numbers] | None:
        """What fits and takes no longer than some time of its search at least, and this; ``None`` where nothing may.

        Args:
            sizes: most sequences in a micro-batch of each share [1].
            most: the times [s].
            lowest: of how many splits of each search, those with the lowest bounds; all if ``None`` [1].
        """
        splits = self.shares.splits(sizes)
        if not len(splits.owner):
            return None
        levels = self.bounds.levels(splits, self._alike(most))
        layers = Layers.of(self.merged, self.families, splits, levels)
        floors = self._floors(splits, layers, levels)
        if lowest is not None:
            most = lowest_of_each(floors, self._ends(splits.owner), lowest)
        fitting = self._fitting(splits.grid(np.flatnonzero(~(floors > most[splits.owner]))))
        return Field(self.merged, self.families, fitting, layers), most

    def _floors(self, splits: Splits, layers: Layers, levels: Flags) -> Numbers:
        """What splits take at least, in the most chunks, by the quickest of their layers [s].

        Args:
            splits: the splits.
            layers: of these, timed.
            levels: of recomputation, those that each may have.
        """
        times = np.empty(len(splits.owner))
        for some in blocks(len(times)):
            owner, cell = splits.owner[some], layers.cells[some]
            search, deviations = self.merged.of_owners(owner), self.merged.deviations_of(owner)
            parallelism = search.parallelism(splits.columns(some, most=True))
            quickest = np.where(levels[:, some], layers.quickest[:, cell], np.inf).min(axis=0)
            rest = search.shape, search.job, parallelism, search.calibration, deviations
            with np.errstate(invalid="ignore"):  # of one that has no level after all
                times[some] = step.undisturbed_time(quickest, layers.heads[cell], *rest)
        return times

    def _ends(self, owner: Whole) -> Whole:
        """Where rows of each search end, after a 0 [1]."""
        return np.searchsorted(owner, np.arange(self.searches + 1))

    def _fitting(self, grid: Grid) -> Fitting:
        """What fits of some runs."""
        return Fitting.of(self.merged, self.limits, Enumeration.some(self.space, grid))
