"""The quickest of several searches, looked for in one table: of many batches, on clusters of many sizes and networks.

Searches share the rows of the tables that formulas take. What divides of them, their shares, are bound before they are
split up into micro-batches, and splits before runs are made of any. What the quickest takes at most is guessed from the
lowest bounds, or a few are timed first; then those that are bound by no more than what these take. What is bound by
more than a guess is left out for good only where something was found that takes no longer than that: no answer depends
on guesses, nor on how many come first.
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
    time_of_rank,
)
from app.formulas.training.search_field import Field
from app.formulas.training.search_grid import Grid, Shares, Splits
from app.formulas.training.search_space import Space
from app.formulas.training.search_states import States

SHARES, SPLITS = 10, 24
"""Shares, and of their splits those, with the lowest bounds of each search and its rivals that are looked at first, and
as many more as ways are wanted."""
Guess = tuple[int, float, float]
GUESSES: tuple[Guess, ...] = (32, 1.25, 1.15), (64, 1.4, 1.3), (256, 2.0, 2.0)
"""What the quickest way to run a job is guessed to take no longer than, one guess after the other: than so many of the
shares with the lowest bounds, or so many times the lowest; and so many times the lowest with what is exchanged beyond a
layer. Of dense models on 64 to 20,000 GPUs it takes 1.03 to 1.3 times that, and 1.15 where the batch is open too."""
SPLITS_AT_ONCE = 12_000
"""Splits up to which no shares are looked at before others; where several ways are wanted, none ever is."""
SPLITS_OF_ALL, SPLITS_EACH = 80, 4
"""How many of each search are then looked at first, and how many more for each way that is wanted: of small jobs all,
so that it is known how many ways fit."""
LOST = SearchResult(0, 0, 0, 0, Parallelism(), np.empty(0), np.empty(0), np.nan, None)
"""The answer to a search of which no way to run the job is wanted."""


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
    rivals = contests if contests and many == 1 else Contests.of_none(len(searches))
    table = _Table(searches, budget, rivals)
    results = table.quickest(many)
    results |= table.unfit([place for place in range(len(searches)) if place not in results])
    return [results[place] for place in range(len(searches))]


class _Table:
    """Some searches, and what divides of them.

    Attributes:
        searches: how many [1].
        merged, space: the searches as one, and what they can try.
        contests: which of the searches are rivals.
        families: see `families_of` [1].
        limits: memory that may be filled of each [B].
        shares: what divides, whatever the micro-batch.
        bounds: what these take at least.
    """

    def __init__(self, searches: Sequence[Search], budget: float, contests: Contests) -> None:
        self.searches, spaces = len(searches), [search.space for search in searches]
        self.contests = contests
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

    def quickest(self, many: int) -> dict[int, SearchResult]:
        """So many of the quickest of each search of which something fits, by its place, and those that lose."""
        if many > 1 or int(self.shares.sizes.many.sum()) <= SPLITS_AT_ONCE:
            results, most = self._known_at_once(many)
        elif len(self.shares.groups.axes[-1]) > 1:
            results, most = {}, self._enough(many)
        else:
            results, most = self._guessed()
        if np.any(most > 0):
            others, most = self._within(most, many)
            results |= others
        lost = np.flatnonzero(most < np.inf).tolist()
        return {place: self._without(place) for place in lost} | results

    def _guessed(self) -> tuple[dict[int, SearchResult], Numbers]:
        """The quickest of each search as far as guesses find it, and what it takes no longer than.

        That is nothing where it was found, and endless where it is not known [s].
        """
        results: dict[int, SearchResult] = {}
        most = np.full(self.searches, np.inf)
        for guess in GUESSES:
            if np.any(most == np.inf):
                quickest, most = self._within(most, 1, guess)
                results |= quickest
        return results, most

    def _within(self, most: Numbers, many: int, guess: Guess | None = None) -> tuple[dict[int, SearchResult], Numbers]:
        """The same of all that take no longer than some time of their search, and maybe than a guess [s].

        Args:
            most: the times; nothing of searches that are not looked at [s].
            many: how many are wanted [1].
            guess: what that may be, see `GUESSES`.
        """
        alike = self._alike(most)
        if guess:
            several, times, exchanging_times = guess
            near = np.maximum(self._lowest(self.bounds, several), times * self._least(self.bounds))
            alike = np.minimum(alike, near)
        bounds = self.bounds.within(alike).exchanging()
        if guess:
            alike = np.minimum(alike, exchanging_times * self._least(bounds))
        bounds, limits = bounds.within(alike), np.minimum(most, self._spread(alike))
        splits = self._splits(bounds, alike)
        looked_at = self._field(splits, bounds.levels(splits, alike), limits, states=bounds.states)
        if looked_at is None:
            return {}, most
        field, _ = looked_at
        timed = quickest_timed(field, many, limits)
        best = np.minimum(most, enough(field, timed.places, timed.time, many))
        known = (best <= limits) & (best < np.inf)
        results = self._results(field, timed, many, best, known if guess else most > 0)
        return results, np.where(known, 0.0, best)

    def _without(self, place: int) -> SearchResult:
        """The answer to a search that loses its contest, of which no way to run the job is wanted."""
        return but(LOST, enumerated=int(self.shares.enumerated[place]), divisible=int(self.shares.divisible[place]))

    def _known_at_once(self, many: int) -> tuple[dict[int, SearchResult], Numbers]:
        """The same as far as it is known from the splits with the lowest bounds.

        With what so many of each take no longer than; endless where they are fewer [s].
        """
        splits, endless = self._splits(self.bounds), np.full(self.searches, np.inf)
        looked_at = self._field(splits, self.bounds.levels(splits), endless, SPLITS_OF_ALL + SPLITS_EACH * many)
        if looked_at is None:
            return {}, endless
        field, beyond = looked_at
        timed = quickest_timed(field, many)
        most = enough(field, timed.places, timed.time, many)
        known = most <= beyond
        return self._results(field, timed, many, most, known), np.where(known & (most < np.inf), 0.0, most)

    def _enough(self, many: int) -> Numbers:
        """What so many ways of each search take no longer than, as far as some are soon known; else endless [s].

        Of the shares with the lowest bounds some are timed.
        """
        endless, most = np.full(self.searches, np.inf), self._lowest(self.bounds, SHARES + many)
        bounds = self.bounds.within(most)
        splits = self._splits(bounds, most)
        looked_at = self._field(splits, bounds.levels(splits), endless, SPLITS + many)
        if looked_at is None:
            return endless
        field, _ = looked_at
        timed = promising_timed(field, many)
        return enough(field, timed.places, timed.time, many)

    def _lowest(self, bounds: ShareBounds, many: int) -> Numbers:
        """What so many of the bounds of shares of each search and its rivals are not above [s]."""
        return lowest_of_each(bounds.least, bounds.shares.owner, self.contests, many)

    def _least(self, bounds: ShareBounds) -> Numbers:
        """The lowest of these bounds [s]."""
        return time_of_rank(bounds.least, bounds.shares.owner, self.contests, 1)

    def _splits(self, bounds: ShareBounds, most: Numbers | None = None) -> Splits:
        """What shares split up into that may take no longer than a time of their search, in the states looked at."""
        splits = bounds.shares.splits(bounds.micro_batches(most))
        return but(splits, groups=but(splits.groups, open=bounds.open))

    def _results(self, field: Field, timed: Timed, many: int, most: Numbers, wanted: Flags) -> dict[int, SearchResult]:
        """The quickest of the searches that are wanted, of which something was timed that takes no longer than this."""
        owner = field.grid.owner_of(timed.places)
        near = (timed.time <= most[owner]) | (most[owner] == np.inf)
        places = np.flatnonzero(wanted & (np.bincount(owner[near], minlength=self.searches) > 0))
        return field.fitting.results(
            self.merged, timed._replace(places=timed.places[near], time=timed.time[near]), many, places.tolist()
        )

    def _alike(self, most: Numbers) -> Numbers:
        """What steps take at most where nodes do not spread, that take no longer than some time [s]."""
        return np.asarray(step.time_without_straggler(most, self.merged.deviations, self.merged.calibration))

    def _spread(self, alike: Numbers) -> Numbers:
        """What steps take at least where nodes spread, that take longer than some time where they do not [s]."""
        known = np.where(alike < np.inf, alike, 0.0)
        wait = step.straggler_time(known, 0.0, self.merged.deviations, self.merged.calibration)
        return np.where(alike < np.inf, known + wait, np.inf)

    def _field(
        self, splits: Splits, levels: Flags, most: Numbers, lowest: int | None = None, states: States | None = None
    ) -> tuple[Field, Numbers] | None:
        """What of some splits takes no longer than some time of its search at least, and this; ``None`` of none.

        Args:
            splits: the splits.
            levels: of recomputation, those that each may have.
            most: the times [s].
            lowest: of how many splits of each search, those with the lowest bounds; all if ``None`` [1].
            states: what they exchange beyond a layer, where that is known.
        """
        if not len(splits.owner):
            return None
        layers = Layers.of(self.merged, self.families, splits, levels)
        floors = self._floors(splits, layers, levels)
        if lowest is not None:
            most = lowest_of_each(floors, splits.owner, self.contests, lowest)
        fitting = self._fitting(splits.grid(np.flatnonzero(~(floors > most[splits.owner]))))
        return Field(self.merged, self.families, fitting, layers, self.contests, states), most

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

    def _fitting(self, grid: Grid) -> Fitting:
        """What fits of some runs."""
        return Fitting.of(self.limits, Enumeration.some(self.space, grid))
