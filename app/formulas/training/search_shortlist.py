"""The quickest of several searches, looked for in one table: of many batches, on clusters of many sizes and networks.

Searches share the rows of the tables that formulas take. What divides of them, their splits, are bound before runs are
made of any; only the splits with the lowest bounds become runs, and further ones where what was found takes longer than
these do at least. No answer depends on how many come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.formulas.arrays import Array, any_
from app.formulas.records import but
from app.formulas.training import memory, step
from app.formulas.training.columns import Numbers, Whole, blocks
from app.formulas.training.fitting import Enumeration, Fitting
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.search_choice import ROUNDING, lowest_of_each, quickest_timed, time_of_rank
from app.formulas.training.search_field import Field
from app.formulas.training.search_grid import Grid, Splits

SPLITS, SPLITS_EACH = 400, 2
"""Splits whose runs are looked at where only the quickest are wanted, those with the lowest bounds: at least, and as
many more for each that is wanted."""


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
    results = dict(table.quickest(many))
    results |= table.unfit([place for place in range(len(searches)) if place not in results])
    return [results[place] for place in range(len(searches))]


class _Table:
    """Some searches, and what divides of them.

    Attributes:
        searches, merged: these, and the same as one.
        limits: memory that may be filled of each [B].
        splits: what divides.
        likely: those splits that may fit [1].
    """

    def __init__(self, searches: Sequence[Search], budget: float) -> None:
        self.searches, self.merged, self.spaces = searches, Search.merged(searches), [each.space for each in searches]
        self.limits = np.array([search.limit(budget) for search in searches])
        self.splits = Splits.of(self.spaces)
        self.likely = self._likely(self.splits.room(self.limits * (1 + ROUNDING)))

    def _likely(self, room: Numbers) -> Whole:
        """Splits that need no more than some room, as far as it is worth knowing before their layers are timed [1].

        It takes as long as it saves but for layers with experts. Activations that go to the host have no such bound:
        the more there are, the less memory the logits need beside them.
        """
        roomy: Whole = np.flatnonzero(room >= 0)
        if len(self.splits.axes[-1]) == 1 or any_(self.merged.job.offload_activations > 0):
            return roomy
        lean = [self._activity(roomy[some]) <= room[roomy[some]] for some in blocks(len(roomy))]
        likely: Whole = roomy[np.concatenate([np.empty(0, bool), *lean])]
        return likely

    def _activity(self, some: Whole) -> Array:
        """What the activations of some splits take at least, whatever is recomputed, in the fewest chunks [B].

        A layer leaves what it leaves at the level at which that is least, and none is alive while it is repeated.
        """
        groups, group = self.splits.groups, self.splits.group[some]
        tensor = groups.cluster[group] * len(groups.axes[0]) + groups.tensor[group]
        left, left_whole = (table.min(axis=0).ravel()[tensor] for table in groups.kept_bytes)
        search, cal = self.merged.of_owners(self.splits.owner[some]), self.merged.calibration
        runs = search.parallelism(self.splits.columns(some, most=False))
        reserved = cal.context_memory, cal.fragmentation, (left, left_whole)
        activations, logits, buffers = memory.activity(search.shape, search.job, runs, search.software, *reserved)
        return activations + logits + buffers

    def fitting(self, grid: Grid) -> Fitting:
        """What fits of some runs."""
        return Fitting.of(self.merged, self.limits, Enumeration.some(self.spaces, grid))

    def unfit(self, places: Sequence[int]) -> dict[int, SearchResult]:
        """The answers to some searches of which nothing fits."""
        if not places:
            return {}
        every = self.fitting(self.splits.grid(np.flatnonzero(np.isin(self.splits.owner, places)))).frugal(self.merged)
        results = every.results(self.merged, every.untimed(), None)
        return {place: results[place] for place in places}

    def quickest(self, many: int) -> Iterator[tuple[int, SearchResult]]:
        """So many of the quickest of each search of which something fits, by its place.

        Where as many as are wanted take longer than splits that were not looked at do at least, those come next.
        """
        if not len(self.likely):
            return
        families = families_of(self.searches)
        layers = Layers.of(self.merged, families, self.splits, self.likely)
        owner, floors = self.splits.owner[self.likely], self.floors(layers)
        ends = np.searchsorted(owner, np.arange(len(self.searches) + 1))
        most, missing = lowest_of_each(floors, ends, SPLITS + SPLITS_EACH * many), np.diff(ends) > 0
        while missing.any():
            fitting = self.fitting(self.splits.grid(self.likely[missing[owner] & ~(floors > most[owner])]))
            times = quickest_timed(Field(self.merged, families, fitting, layers), many)
            enough = np.array([time_of_rank(each.time, many) for each in times])
            known = missing & (enough <= most)
            results = fitting.results(self.merged, times, many)
            yield from ((place, results[place]) for place in np.flatnonzero(known & (fitting.feasible > 0)).tolist())
            missing, most = missing & ~known, enough

    def floors(self, layers: Layers) -> Numbers:
        """What each likely split takes at least, with the most chunks, by the quickest of its layers [s]."""
        return np.concatenate([self._floors(layers, self.likely[some]) for some in blocks(len(self.likely))])

    def _floors(self, layers: Layers, some: Whole) -> Numbers:
        """The same of some splits [s]."""
        splits, cell = self.splits, layers.cells[some]
        search = self.merged.of_owners(splits.owner[some])
        parallelism = search.parallelism(splits.columns(some, most=True))
        times = layers.quickest[cell], layers.heads[cell]
        return np.asarray(step.undisturbed_time(*times, search.shape, search.job, parallelism, search.calibration))
