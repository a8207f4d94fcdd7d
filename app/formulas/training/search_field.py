"""The step times of candidates that fit, and what these take at least.

A step is put together from the layers and from what is exchanged beyond these, each worked out once. Bounds leave out
what is exchanged beyond a layer: they take a fraction of the time, and no step is quicker than its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array
from app.formulas.training import step
from app.formulas.training.columns import Numbers, Whole, columns_at, joined_columns
from app.formulas.training.divisibility import Flags
from app.formulas.training.fitting import Fitting
from app.formulas.training.fixed_degrees import SHARDINGS
from app.formulas.training.layer_times import Layers
from app.formulas.training.search import Search
from app.formulas.training.search_grid import Candidates
from app.formulas.training.search_states import ROWS_AT_ONCE, Between, States


class Field:
    """What fits in some searches, and what its steps are put together from: equal layers and states are timed once.

    Attributes:
        searches: what is searched, alike but for numbers [1].
        merged: the searches as one, whose numbers are columns where they differ.
        fitted: what fits of each.
        layers: those of all searches, timed.
        states: what is exchanged beyond a layer, as `Between` has it.
    """

    def __init__(self, searches: Sequence[Search], fitted: Sequence[Fitting], layers: Layers) -> None:
        self.searches, self.fitted, self.merged, self.layers = searches, fitted, Search.merged(searches), layers
        self.states = States(self.merged, [fitting.grid.splits for fitting in fitted])

    @classmethod
    def of(cls, searches: Sequence[Search], fitted: Sequence[Fitting]) -> Field:
        """With the layers of all that fits."""
        splits, cells = [fitting.grid.splits for fitting in fitted], [fitting.cells for fitting in fitted]
        return cls(searches, fitted, Layers.of(searches, splits, cells))

    def least(self, owner: int, places: Whole) -> Numbers:
        """What some candidates of a search take at least, by their layers alone [s]."""
        fitting, search = self.fitted[owner], self.searches[owner]
        grid = fitting.grid
        rounds = np.asarray(step.least_time(1.0, search.shape, search.job, search.parallelism(grid.runs)))
        some = grid.at(places)
        return rounds[some.run] * self.layers.times[self.layers.of_some(owner, grid, some, fitting.levels(places))]

    def floors(self, owner: int) -> Numbers:
        """What runs take at least, whatever their experts' degree and sharding, where `undisturbed` [s]."""
        fitting = self.fitted[owner]
        least = fitting.least.min(axis=0).astype(np.int64)
        none = least == len(fitting.activity)
        run = np.arange(len(least))
        quickest = self.layers.times.reshape(-1, self.layers.axes["expert"].size).min(axis=1)
        layers = self.layers.of_cells(owner, fitting.grid, run, np.where(none, 0, least))
        return self._undisturbed(owner, run, quickest[layers], none)

    def undisturbed(self, owner: int, runs: Whole) -> Numbers:
        """What candidates of some runs take at least, whatever shards them, where nothing is exchanged beyond a layer.

        By experts' degree and run, with the least recomputation that lets one fit; endless where none does [s].
        """
        fitting = self.fitted[owner]
        least = fitting.least[:, runs].astype(np.int64)
        none = least == len(fitting.activity)
        some = Candidates(runs, np.arange(len(least))[:, None], runs)
        layers = self.layers.of_some(owner, fitting.grid, some, np.where(none, 0, least))
        return self._undisturbed(owner, runs, self.layers.times[layers], none)

    def _undisturbed(self, owner: int, runs: Whole, layers: Numbers, none: Flags) -> Numbers:
        """The same at a time of their layers; endless where none fits [s]."""
        grid, search = self.fitted[owner].grid, self.searches[owner]
        heads = self.layers.heads[self.layers.cells[owner][grid.cell[runs]]]
        parallelism, job = search.parallelism(columns_at(grid.runs, runs)), grid.job(search.job, runs)
        time = step.undisturbed_time(layers, heads, search.shape, job, parallelism, search.calibration)
        bounds = np.asarray(time)
        bounds[none] = np.inf
        return bounds

    def clock(self, chosen: Sequence[Whole]) -> list[Numbers]:
        """The step times of some candidates of each search [s]."""
        if not any(map(len, chosen)):
            return [np.empty(0) for _ in chosen]
        some = [fitting.grid.at(places) for fitting, places in zip(self.fitted, chosen, strict=True)]
        between = self.states.between([each.state for each in some])
        if len(chosen) > 1 or len(self.fitted[0].grid.splits.batches) > 1:
            return self._clock_all(between, chosen)
        return [self._clock_alone(between, chosen[0])]

    def _clock_all(self, between: Between, chosen: Sequence[Whole]) -> list[Numbers]:
        """The same of several searches."""
        columns = joined_columns([self._columns(owner, places) for owner, places in enumerate(chosen)])
        columns["owner"] = np.repeat(np.arange(len(chosen)), [len(places) for places in chosen])
        grids = [fitting.grid for fitting in self.fitted]
        columns["sequences"] = np.concatenate([
            grid.splits.batches[grid.batch_of(places)] for grid, places in zip(grids, chosen, strict=True)
        ])  # fmt: skip
        times = np.empty(len(columns["owner"]))
        for start in range(0, len(times), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            block = {name: column[some] for name, column in columns.items()}
            search = self.merged.of_owners(block.pop("owner")).with_batch(block.pop("sequences"))
            times[some] = self._step_times(search, between, block)
        return np.split(times, [*accumulate(map(len, chosen))][:-1])

    def _clock_alone(self, between: Between, places: Whole) -> Numbers:
        """The same of the only search; many candidates by what they share, which is then a number."""
        if len(places) <= ROWS_AT_ONCE:
            return np.asarray(self._step_times(self.merged, between, self._columns(0, places)))
        grid, between = self.fitted[0].grid, between.sending(self.merged, self.layers.axes)
        times, sharing = np.empty(len(places)), grid.groups.columns["sharding"][grid.at(places).state]
        for kind in SHARDINGS:
            of_kind = np.flatnonzero(sharing == kind)
            for start in range(0, len(of_kind), ROWS_AT_ONCE):
                some = of_kind[start : start + ROWS_AT_ONCE]
                block = self._columns(0, places[some]) | {"sharding": float(kind)}
                times[some] = self._step_times(self.merged, between, block)
        return times

    def _step_times(self, search: Search, between: Between, block: dict[str, Any]) -> Array:
        """The step times of some candidates, setting by setting [s]."""
        names = "recompute", "layer", "cell", "state"
        recompute, layer, cell, state = (block.pop(name) for name in names)
        parallelism = search.parallelism(block, recompute)
        pieces = step.Pieces(
            self.layers.times[layer],
            self.layers.heads[cell],
            between.rows(search, parallelism, cell, state),
            between.state(search, state),
        )
        rest = search.gpu, parallelism, search.software, search.calibration
        return step.assemble(pieces, search.shape, search.job, *rest).time

    def _columns(self, owner: int, places: Whole) -> dict[str, NDArray[Any]]:
        """Some candidates of a search, setting by setting."""
        fitting = self.fitted[owner]
        grid, some = fitting.grid, fitting.grid.at(places)
        return grid.columns(some) | {
            "recompute": fitting.recompute(places),
            "layer": self.layers.of_some(owner, grid, some, fitting.levels(places)),
            "cell": self.layers.cells[owner][grid.cell[some.run]],
            "state": self.states.places[owner][some.state],
        }
