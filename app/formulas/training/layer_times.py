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
from app.formulas.training.columns import Columns, Numbers, Whole, distinct
from app.formulas.training.exchanges import Exchange, LayerExchanges
from app.formulas.training.search import Search
from app.formulas.training.search_grid import Candidates, Grid, Splits


@dataclass(frozen=True)
class Layers:
    """The layers of some searches as tables; searches in which nothing differs that a layer takes share them.

    Attributes:
        axes: columns of the cells, open against an axis of the experts' degrees [1].
        times: of a layer for one micro-batch, by level of recomputation, whether the micro-batches of several chunks
            alternate where that matters, cell and experts' degree [s].
        heads: of the output head for one micro-batch, by cell [s].
        cells: of each split, where its cell is among these; anywhere if it was not asked for [1].
        alternating: whether it matters that the micro-batches of several chunks alternate.
    """

    axes: Columns
    times: Numbers
    heads: Numbers
    cells: Whole
    alternating: bool

    @classmethod
    def of(cls, merged: Search, families: Whole, splits: Splits, used: Whole) -> Layers:
        """Those of some splits.

        Args:
            merged: the searches as one.
            families: of each, the place of the first of those that differ from it in nothing but their batch [1].
            splits: what divides of them.
            used: the places of some splits [1].
        """
        many = len(splits.cells["tensor"])
        key = families[splits.owner] * many + splits.cell
        asked = distinct(key[used])
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
        levels = np.array(splits.groups.recompute)[:, None, None, None]
        run = search.parallelism(axes | {"virtual_pipeline": chunks}, levels)
        layer = step.layer(shape, search.job, search.gpu, run, software, cal, sent).total
        table = len(levels), len(chunks), len(asked), len(splits.axes[-1])
        return cls(
            axes=axes,
            times=np.broadcast_to(layer, table).ravel(),
            heads=np.broadcast_to(head, (len(asked), 1)).ravel(),
            cells=where[key],
            alternating=alternating,
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
        """The least that a layer of each cell takes, whatever is recomputed and spreads the experts [s]."""
        least: Numbers = self.times.reshape(-1, len(self.heads), self.axes["expert"].size).min(axis=(0, 2))
        return least


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

    return LayerExchanges(*(
        Exchange(of_cells(part.time), of_cells(part.crosses)) for part in (sent.tensor, sent.context, sent.expert)
    ))  # fmt: skip
