"""The step times of candidates that fit, and what these take at least.

A step is put together from the layers and from what is exchanged beyond these, each worked out once. Bounds leave out
what is exchanged beyond a layer: they take a fraction of the time, and no step is quicker than its bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array
from app.formulas.training import step
from app.formulas.training.columns import ROWS_AT_ONCE, Numbers, Whole, blocks, columns_at
from app.formulas.training.fitting import Fitting
from app.formulas.training.fixed_degrees import SHARDINGS
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Contests, Search
from app.formulas.training.search_grid import Candidates, Grid
from app.formulas.training.search_states import Between, States


class Field:
    """What fits in some searches, and what its steps are put together from: equal layers and states are timed once.

    Attributes:
        merged: the searches as one, whose numbers are columns where they differ.
        families: of each, the place of the first of those that differ from it in nothing but their batch [1].
        fitting: what fits.
        layers: those of what fits at least, timed.
        contests: which of the searches are rivals.
        states: what is exchanged beyond a layer, where that is known of all that fits.
    """

    def __init__(
        self,
        merged: Search,
        families: Whole,
        fitting: Fitting,
        layers: Layers,
        contests: Contests | None = None,
        states: States | None = None,
    ) -> None:
        self.merged, self.families, self.fitting, self.layers = merged, families, fitting, layers
        self.contests, self.states = contests or Contests.of_none(len(families)), states

    @classmethod
    def of(cls, merged: Search, families: Whole, fitting: Fitting) -> Field:
        """With the layers of all that fits, of searches that have no rivals."""
        return cls(merged, families, fitting, Layers.of(merged, families, fitting.grid.splits, fitting.used))

    @property
    def grid(self) -> Grid:
        """The candidates, among which some fit."""
        return self.fitting.grid

    def least(self, places: Whole) -> Numbers:
        """What some candidates take at least, by their layers alone [s]."""
        grid, search = self.grid, self.merged.of_owners(self.grid.owner)
        rounds = np.asarray(step.least_time(1.0, search.shape, search.job, search.parallelism(grid.runs)))
        some = grid.at(places)
        return rounds[some.run] * self.layers.times[self.layers.of_some(grid, some, self.fitting.levels(places))]

    def floors(self) -> Numbers:
        """What runs take at least, whatever their experts' degree and sharding, where `undisturbed` [s]."""
        least, run = self.fitting.least.min(axis=0).astype(np.int64), np.arange(len(self.grid.group))
        quickest = self.layers.times.reshape(-1, self.layers.axes["expert"].size).min(axis=1)
        return self._undisturbed(run, least, lambda level: quickest[self.layers.of_cells(self.grid, run, level)])

    def undisturbed(self, runs: Whole) -> Numbers:
        """What candidates of some runs take at least, whatever shards them, where nothing is exchanged beyond a layer.

        By experts' degree and run, with the least recomputation that lets one fit; endless where none does [s].
        """
        least = self.fitting.least[:, runs].astype(np.int64)
        some = Candidates(runs, np.arange(len(least))[:, None], runs)
        return self._undisturbed(
            runs, least, lambda level: self.layers.times[self.layers.of_some(self.grid, some, level)]
        )

    def _undisturbed(self, runs: Whole, least: Whole, layers: Callable[[Whole], Numbers]) -> Numbers:
        """The same at a time of their layers by level; endless where none fits or was asked for [s]."""
        none = least == len(self.fitting.activity)
        times = layers(np.where(none, 0, least))
        none |= np.isnan(times)
        times, bounds = np.where(none, 0.0, times), np.empty(times.shape)
        for some in blocks(len(runs)):
            run = runs[some]
            owner, heads = self.grid.owner[run], self.layers.heads[self.layers.cells[self.grid.split[run]]]
            search = self.merged.of_owners(owner)
            parallelism = search.parallelism(columns_at(self.grid.runs, run))
            rest = search.shape, search.job, parallelism, search.calibration, self.merged.deviations_of(owner)
            bounds[..., some] = step.undisturbed_time(times[..., some], heads, *rest)
        bounds[none] = np.inf
        return bounds

    def clock(self, places: Whole) -> Numbers:
        """The step times of some candidates [s]."""
        if not len(places):
            return np.empty(0)
        owner, state = self.grid.owner_of(places), self.grid.at(places).state
        states = self.states or States.of(self.merged, self.families, self.grid.groups, owner, state)
        beyond, at = states.between, states.places(owner, state)
        if len(self.families) == 1 and len(places) > ROWS_AT_ONCE:
            return self._clock_by_sharding(beyond, places, at)
        times = np.empty(len(places))
        for some in blocks(len(times)):
            times[some] = self._step_times(beyond, self._columns(places[some], at[some]))
        return times

    def _clock_by_sharding(self, beyond: Between, places: Whole, at: Whole) -> Numbers:
        """The same of many candidates of a lone search, by what they share, which is then a number."""
        beyond = beyond.sending(self.merged, self.layers.axes)
        times, sharing = np.empty(len(places)), self.grid.groups.columns["sharding"][at]
        for kind in SHARDINGS:
            of_kind = np.flatnonzero(sharing == kind)
            for some in (of_kind[block] for block in blocks(len(of_kind))):
                times[some] = self._step_times(
                    beyond, self._columns(places[some], at[some]) | {"sharding": float(kind)}
                )
        return times

    def _step_times(self, beyond: Between, block: dict[str, Any]) -> Array:
        """The step times of some candidates, setting by setting [s]."""
        names = "owner", "recompute", "layer", "cell", "state"
        owner, recompute, layer, cell, state = (block.pop(name) for name in names)
        search = self.merged.of_owners(owner)
        parallelism = search.parallelism(block, recompute)
        pieces = step.Pieces(
            self.layers.times[layer],
            self.layers.heads[cell],
            beyond.rows(search, parallelism, cell, state, owner),
            beyond.state(state, self.merged.deviations_of(owner)),
        )
        rest = search.gpu, parallelism, search.software, search.calibration
        return step.assemble(pieces, search.shape, search.job, *rest).time

    def _columns(self, places: Whole, state: Whole) -> dict[str, NDArray[Any]]:
        """Some candidates, setting by setting, with where what they exchange beyond a layer is."""
        grid, some = self.grid, self.grid.at(places)
        return grid.columns(some) | {
            "owner": grid.owner[some.run],
            "recompute": self.fitting.recompute(places),
            "layer": self.layers.of_some(grid, some, self.fitting.levels(places)),
            "cell": self.layers.cells[grid.split[some.run]],
            "state": state,
        }
