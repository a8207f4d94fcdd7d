"""Searches that differ in nothing but their batches: the quickest of all of them are looked for in one table.

Batches share most of their layers and all of what they hold. What divides of them, their splits, are bound before runs
are made of any; only the splits with the lowest bounds become runs, and further ones where what was found takes longer
than these do at least. No answer depends on how many come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from app.formulas.records import but
from app.formulas.training import step
from app.formulas.training.columns import Numbers, Whole, columns_at, distinct
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Fitting, Timed
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.search_choice import limit_of_lowest, quickest_timed, time_of_rank
from app.formulas.training.search_field import Field
from app.formulas.training.search_grid import Splits

SPLITS, SPLITS_EACH = 400, 2
"""Splits whose runs are looked at where only the quickest are wanted, those with the lowest bounds: at least, and as
many more for each that is wanted."""


@dataclass(frozen=True, eq=False)
class _Batches:
    """Batches of a job on a cluster, whatever its network.

    Attributes:
        search: for one of them.
        limit: memory that may be filled [B].
        splits: what divides of all of them.
    """

    search: Search
    limit: float
    splits: Splits

    @cached_property
    def likely(self) -> Flags:
        """Whether each split divides and its state leaves room."""
        return self.splits.divides[0] & self.splits.room(self.limit)

    @cached_property
    def cells(self) -> Whole:
        """Places of the cells of these."""
        return distinct(self.splits.cell[self.likely.any(axis=0)])

    def fitting(self, worth: Flags) -> Fitting:
        """What fits of splits that are worth it."""
        return Fitting.of(self.search, self.limit, self.splits.grid(self.likely & worth))

    def nothing(self, batch: int) -> SearchResult:
        """The answer to the search of a batch of which nothing fits."""
        every = self.splits.grid(self.splits.batch == batch)
        fitting = Fitting.of(self.search, self.limit, every).frugal(self.search)
        return fitting.result(self.search, fitting.untimed, None, batch)


class _Family(NamedTuple):
    """Searches that differ in nothing but their batches.

    Attributes:
        search: the first of them.
        places: where each is among all searches [1].
        batches: theirs; families that differ in their links alone share them.
    """

    search: Search
    places: Sequence[int]
    batches: _Batches

    def floors(self, layers: Layers, owner: int) -> Numbers:
        """What each split takes at least, with the most chunks; endless where it does not divide [s]."""
        search, splits = self.search, self.batches.splits
        cells, stages = layers.cells[owner][splits.cell], splits.groups.stages[::-1].astype(np.float64)
        pipeline, last = np.unique(stages[:, 0], return_index=True)
        degrees: dict[str, Numbers] = {"pipeline": pipeline[:, None], "virtual_pipeline": stages[last, 1][:, None]}
        parallelism = search.parallelism(degrees | columns_at(splits.cells, splits.cell))
        times, job = (layers.quickest[cells], layers.heads[cells]), splits.job(search.job, splits.batch)
        time = step.undisturbed_time(*times, search.shape, job, parallelism, search.calibration)
        return np.where(self.batches.likely, time, np.inf)


def but_for_batches(searches: Sequence[Search]) -> list[list[int]]:
    """Places of searches, those together that differ in nothing but their batches [1]."""
    members: dict[Any, list[int]] = {}
    for place, search in enumerate(searches):
        key = search.links, search.gpu, search.gpus, but(search.job, global_batch=0.0)
        members.setdefault(key, []).append(place)
    return [*members.values()]


def quickest_of_families(
    searches: Sequence[Search], members: Sequence[Sequence[int]], budget: float, many: int
) -> list[SearchResult]:
    """So many of the quickest of each search, with their times.

    Args:
        searches: of one model, stack and calibration, with `alike` links.
        members: their places, as `but_for_batches` has them [1].
        budget: share of the memory capacity that may be filled [1].
        many: how many are wanted [1].
    """
    every = _families(searches, members, budget)
    families = [family for family in every if family.batches.likely.any()]
    results = {
        place: family.batches.nothing(batch)
        for family in every
        for batch, place in enumerate(family.places)
        if not family.batches.likely.any()
    }
    if families:
        results |= _quickest_of(families, many)
    return [results[place] for place in range(len(searches))]


def _families(searches: Sequence[Search], members: Sequence[Sequence[int]], budget: float) -> list[_Family]:
    """The searches by all but their batches."""
    known: dict[Any, _Batches] = {}
    families = []
    for places in members:
        search, sequences = searches[places[0]], tuple(int(searches[place].job.global_batch) for place in places)
        key = search.gpu, search.gpus, search.job, sequences
        if key not in known:
            known[key] = _Batches(search, search.limit(budget), Splits.of(search.space, sequences))
        families.append(_Family(search, places, known[key]))
    return families


def _quickest_of(families: Sequence[_Family], many: int) -> dict[int, SearchResult]:
    """The same of families of which something may fit, by the places of the searches."""
    searches, batches = [family.search for family in families], [family.batches for family in families]
    layers = Layers.of(searches, [each.splits for each in batches], [each.cells for each in batches])
    lists = [_Shortlist(family, layers, owner, SPLITS + SPLITS_EACH * many) for owner, family in enumerate(families)]
    results: dict[int, SearchResult] = {}
    while missing := [owner for owner, shortlist in enumerate(lists) if shortlist.missing.any()]:
        fitted = _fitted([lists[owner] for owner in missing])
        field = Field([searches[owner] for owner in missing], fitted, layers.at(missing))
        for owner, fitting, times in zip(missing, fitted, quickest_timed(field, many), strict=True):
            results |= lists[owner].answers(fitting, times, many)
    return results


def _fitted(lists: Sequence[_Shortlist]) -> list[Fitting]:
    """What fits of the splits of each list, with those of the others of its batches: it is worked out once for all."""
    worth: dict[_Batches, Flags] = {}
    for each in lists:
        batches = each.family.batches
        worth[batches] = worth.get(batches, False) | each.worth
    known = {batches: batches.fitting(some) for batches, some in worth.items()}
    return [known[each.family.batches] for each in lists]


class _Shortlist:
    """The splits of a family of which runs are made: about so many of each batch that take least.

    Splits are bound by the quickest of their layers, whatever is recomputed. Where as many runs as are wanted take
    longer than other splits do at least, runs are made of those too.

    Attributes:
        floors: what each split takes at least; 0 where all are looked at [s].
        most: up to what floor those of each batch are looked at [s].
        missing: whether the answer for each batch is.
    """

    def __init__(self, family: _Family, layers: Layers, owner: int, many: int) -> None:
        self.family, self.batch = family, family.batches.splits.batch
        self.floors, self.most = np.zeros(1), np.full(len(family.places), np.inf)
        self.missing = np.ones(len(family.places), bool)
        if np.count_nonzero(family.batches.likely) > many * len(family.places):
            self.floors = family.floors(layers, owner)
            of_batches = (self.floors[:, self.batch == batch] for batch in range(len(family.places)))
            self.most = np.array([limit_of_lowest(floors.ravel(), many) for floors in of_batches])

    @property
    def worth(self) -> Flags:
        """Whether runs are made of each split now: those of the batches whose answers are missing."""
        return self.missing[self.batch] & ~(self.floors > self.most[self.batch])

    def answers(self, fitting: Fitting, times: Sequence[Timed], many: int) -> Iterator[tuple[int, SearchResult]]:
        """Those that are known, by their places among all searches. The others' splits become more."""
        family, enough = self.family, np.array([time_of_rank(each.time, many) for each in times])
        known = self.missing & (enough <= self.most)
        for batch in np.flatnonzero(known).tolist():
            fits = fitting.feasible[batch] > 0
            answer = fitting.result(family.search, times[batch], many, batch) if fits else family.batches.nothing(batch)
            yield family.places[batch], answer
        self.missing, self.most = self.missing & ~known, enough
