"""The times of the layers of searches, as one table: candidates differ in fewer layers than in all else.

A cell, an experts' degree and a level of recomputation decide the time of a layer. It is worked out once for all stages
and shardings, and for all batches of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.formulas.arrays import Array, any_
from app.formulas.collectives.group_times import KNOWN
from app.formulas.training import exchanges, step
from app.formulas.training.columns import Columns, Numbers, Whole
from app.formulas.training.divisibility import Flags
from app.formulas.training.exchanges import Exchange, LayerExchanges
from app.formulas.training.search import Search
from app.formulas.training.search_grid import Candidates, Grid, Splits


@dataclass(frozen=True)
class Layers:
    """The layers of some searches as tables; searches in which nothing differs that a layer takes share them.

    Attributes:
        axes: columns of the cells, open against an axis of the experts' degrees [1].
        times: of a layer for one micro-batch, by level of recomputation, whether the micro-batches of several chunks
            alternate where that matters, cell and experts' degree; not a number if it was not asked for [s].
        heads: of the output head for one micro-batch, by cell [s].
        cells: of each split, where its cell is among these; anywhere if it was not asked for [1].
        alternating: whether it matters that the micro-batches of several chunks alternate.
        levels: of recomputation [1].
    """

    axes: Columns
    times: Numbers
    heads: Numbers
    cells: Whole
    alternating: bool
    levels: int

    @classmethod
    def of(cls, merged: Search, families: Whole, splits: Splits, used: Flags) -> Layers:
        """Those of some splits.

        Args:
            merged: the searches as one.
            families: of each, the place of the first of those that differ from it in nothing but their batch [1].
            splits: what divides of them.
            used: by level of recomputation, of which splits layers are wanted.
        """
        many = len(splits.cells["tensor"])
        key = families[splits.owner] * many + splits.cell
        level, split = np.nonzero(used)
        wanted = np.zeros((len(used), len(families) * many), bool)
        wanted[level, key[split]] = True
        asked = np.flatnonzero(wanted.any(axis=0))
        where = np.zeros(len(families) * many, np.int64)
        where[asked] = np.arange(len(asked))
        owners, cell = asked // many, asked % many
        axes = {name: column[cell, None] for name, column in splits.cells.items()} | {"expert": splits.axes[-1][None]}
        search = merged.of_owners(owners[:, None])
        shape, software, cal, once = search.shape, search.software, search.calibration, search.parallelism(axes)
        if len(families) == 1:
            sent = _exchanged(search, splits, cell)
        else:
            links = merged.links_of(owners[:, None])
            sent = exchanges.layer_exchanges(shape, search.job, once, software, links)
        head = step.head_time(shape, search.job, search.gpu, once, cal)

        alternating = any_(software.staged_expert > 0)
        chunks = np.array([1.0, 2.0] if alternating else [1.0])[:, None, None]
        level, at = np.nonzero(wanted[:, asked])
        search, repeated = merged.of_owners(owners[at, None]), np.array(splits.groups.recompute)[level, None]
        cells = {name: column[at] if len(column) > 1 else column for name, column in axes.items()}
        run = search.parallelism(cells | {"virtual_pipeline": chunks}, repeated)
        each = sent.each(lambda part: Exchange(_rows(part.time, at), _rows(part.crosses, at)))
        layer = step.layer(shape, search.job, search.gpu, run, software, cal, each).total
        experts = len(splits.axes[-1])
        times = np.full((len(used), len(chunks), len(asked), experts), np.nan)
        times[level, :, at] = np.broadcast_to(layer, (len(chunks), len(at), experts)).swapaxes(0, 1)
        return cls(
            axes=axes,
            times=times.ravel(),
            heads=np.broadcast_to(head, (len(asked), 1)).ravel(),
            cells=where[key],
            alternating=alternating,
            levels=len(used),
        )

    def of_some(self, grid: Grid, some: Candidates, level: Whole) -> Whole:
        """Where the layers of some candidates are among the times, by their levels of recomputation [1]."""
        return self.of_cells(grid, some.run, level) * self.axes["expert"].size + some.expert

    def of_cells(self, grid: Grid, runs: Whole, level: Whole) -> Whole:
        """The same of the cells of some runs, whatever the experts' degree [1]."""
        variant = 2 * level + (grid.runs["virtual_pipeline"] > 1)[runs] if self.alternating else level
        return variant * len(self.heads) + self.cells[grid.split[runs]]

    @cached_property
    def quickest(self) -> Numbers:
        """The least that a layer of each cell takes, whatever spreads the experts, by level of recomputation [s]."""
        table = self.levels, -1, len(self.heads), self.axes["expert"].size
        quickest: Numbers = self.times.reshape(table).min(axis=(1, 3))
        return quickest


def _rows(values: Array, places: Whole) -> Array:
    """Rows of values over cells; values that all cells share as they are."""
    return values[places] if isinstance(values, np.ndarray) and len(values) > 1 else values


def _exchanged(search: Search, splits: Splits, used: Whole) -> LayerExchanges:
    """What the layers of a lone search exchange, worked out for all its degrees: many jobs have the same groups."""
    axes = dict(zip(("tensor", "context", "micro_batch", "expert"), np.ix_(*splits.axes), strict=True))
    axes["sequence_parallel"] = np.asarray(search.fixed.splits(axes["tensor"]))
    degrees = search.parallelism(axes)
    sent = exchanges.layer_exchanges(search.shape, search.job, degrees, search.software, search.links, KNOWN)
    table = tuple(map(len, splits.axes))
    places = np.unravel_index(used, table[:-1])

    def of_cells(values: Array) -> Array:
        return np.broadcast_to(values, table)[places] if isinstance(values, np.ndarray) else values

    return sent.each(lambda part: Exchange(of_cells(part.time), of_cells(part.crosses)))
