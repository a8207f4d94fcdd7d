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
from app.formulas.training.arguments import Parallelism
from app.formulas.training.columns import Numbers, Whole, blocks
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Enumeration, Fitting, Timed
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Contests, Search, SearchResult
from app.formulas.training.search_bounds import ShareBounds
from app.formulas.training.search_choice import (
    ROUNDING,
    enough,
    lowest_of_each,
    promising_timed,
    quickest_timed,
)
from app.formulas.training.search_field import Field
from app.formulas.training.search_grid import Grid, Shares, Splits
from app.formulas.training.search_space import Space

SHARES, SPLITS = 10, 24
"""Shares, and of their splits those, with the lowest bounds of each search that are looked at first, and as many more
as ways are wanted."""
SPLITS_AT_ONCE = 12_000
"""Splits up to which no shares are looked at before others; where several ways are wanted, none ever is."""
SPLITS_OF_ALL, SPLITS_EACH = 80, 4
"""How many of each search are then looked at first, and how many more for each way that is wanted: of small jobs all,
so that it is known how many ways fit."""


def families_of(searches: Sequence[Search]) -> Whole:
    """Of each search, the place of the first of those that differ from it in nothing but their batch [1]."""
    first: dict[Any, int] = {}
    keys = ((id(each.links), each.gpu, each.gpus, but(each.job, global_batch=0.0)) for each in searches)
    return np.array([first.setdefault(key, place) for place, key in enumerate(keys)])


def quickest_together(
    searches: Sequence[Search], budget: float, many: int, contests: Contests | None = None
) -> list[SearchResult]:
    """So many of the quickest of each search, with their times.

    Args:
        searches: of one model, stack and calibration, with `alike` links.
        budget: share of the memory capacity that may be filled [1].
        many: how many are wanted [1].
        contests: which of them need no answer if others are better; only of one that is wanted.
    """
    table = _Table(searches, budget)
    results = table.quickest(many, contests if many == 1 else None)
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
        self.bounds = ShareBounds(self.merged, self.families, self.space, self.shares, self.limits * (1 + ROUNDING))

    def unfit(self, places: Sequence[int]) -> dict[int, SearchResult]:
        """The answers to some searches of which nothing fits."""
        if not places:
            return {}
        splits = self.shares.splits(np.where(np.isin(self.shares.owner, places), np.inf, 0.0))
        every = self._fitting(splits.grid()).frugal(self.merged)
        return every.results(self.merged, every.untimed(), None, places)

    def quickest(self, many: int, contests: Contests | None) -> dict[int, SearchResult]:
        """So many of the quickest of each search of which something fits, by its place, and those that lose."""
        if many > 1 or int(self.shares.sizes.many.sum()) <= SPLITS_AT_ONCE:
            results, most = self._known_at_once(many)
        else:
            results, most = {}, self._enough(many)
        if contests is not None:
            most = np.minimum(most, contests.limits(most) * (1 + ROUNDING))
        most[[*results]] = 0.0
        if np.any(most > 0):
            results |= self._rest(most, many)
        lost = np.flatnonzero(most < np.inf).tolist()
        return {place: self._without(place) for place in lost} | results

    def _rest(self, most: Numbers, many: int) -> dict[int, SearchResult]:
        """The same of all that take no longer than some time of their search [s]."""
        alike = self._alike(most)
        splits = self.shares.splits(self.bounds.micro_batches(alike))
        looked_at = self._field(splits, self.bounds.levels(splits, alike), most)
        if looked_at is None:
            return {}
        field, _ = looked_at
        return self._results(field, quickest_timed(field, many, most), many, most > 0)

    def _without(self, place: int) -> SearchResult:
        """The answer to a search that loses its contest, of which no way to run the job is wanted."""
        counts = int(self.shares.enumerated[place]), int(self.shares.divisible[place])
        return SearchResult(*counts, 0, 0, Parallelism(), np.empty(0), np.empty(0), np.nan, None)

    def _known_at_once(self, many: int) -> tuple[dict[int, SearchResult], Numbers]:
        """The same as far as it is known from the splits with the lowest bounds.

        With what so many of each take no longer than; endless where they are fewer [s].
        """
        splits, endless = self.shares.splits(self.bounds.micro_batches()), np.full(self.searches, np.inf)
        looked_at = self._field(splits, self.bounds.levels(splits), endless, SPLITS_OF_ALL + SPLITS_EACH * many)
        if looked_at is None:
            return {}, endless
        field, beyond = looked_at
        timed = quickest_timed(field, many)
        most = enough(field, timed.places, timed.time, many)
        return self._results(field, timed, many, most <= beyond), most

    def _enough(self, many: int) -> Numbers:
        """What so many ways of each search take no longer than, as far as some are soon known; else endless [s].

        Of the shares with the lowest bounds some are timed.
        """
        least, endless = self.bounds.least, np.full(self.searches, np.inf)
        most = lowest_of_each(least, self._ends(self.shares.owner), SHARES + many)
        wanted = least <= most[self.shares.owner]
        splits = self.shares.splits(np.where(wanted, self.bounds.micro_batches(most), 0.0))
        looked_at = self._field(splits, self.bounds.levels(splits), endless, SPLITS + many)
        if looked_at is None:
            return endless
        field, _ = looked_at
        timed = promising_timed(field, many)
        return enough(field, timed.places, timed.time, many)

    def _results(self, field: Field, timed: Timed, many: int, wanted: Flags) -> dict[int, SearchResult]:
        """The quickest of the searches that are wanted of which something was timed."""
        return field.fitting.results(self.merged, timed, many, np.flatnonzero(wanted & (timed.evaluated > 0)).tolist())

    def _alike(self, most: Numbers) -> Numbers:
        """What steps take at most where nodes do not spread, that take no longer than some time [s]."""
        return np.asarray(step.time_without_straggler(most, self.merged.deviations, self.merged.calibration))

    def _field(
        self, splits: Splits, levels: Flags, most: Numbers, lowest: int | None = None
    ) -> tuple[Field, Numbers] | None:
        """What of some splits takes no longer than some time of its search at least, and this; ``None`` of none.

        Args:
            splits: the splits.
            levels: of recomputation, those that each may have.
            most: the times [s].
            lowest: of how many splits of each search, those with the lowest bounds; all if ``None`` [1].
        """
        if not len(splits.owner):
            return None
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
