"""The times of the layers of searches, as one table: candidates differ in fewer layers than in all else.

A cell, an experts' degree and a level of recomputation decide the time of a layer. It is worked out once for all stages
and shardings, and for all batches of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from app.formulas.arrays import Array, any_
from app.formulas.collectives.group_times import KNOWN
from app.formulas.records import but
from app.formulas.training import exchanges, step
from app.formulas.training.columns import Columns, Numbers, Whole, columns_at, joined_columns
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
        cells: of each search, where its cells are among all of these; anywhere if nothing fits with one [1].
        experts: of each search, where its experts' degrees are among all of these [1].
        alternating: whether it matters that the micro-batches of several chunks alternate.
    """

    axes: Columns
    times: Numbers
    heads: Numbers
    cells: Sequence[Whole]
    experts: Sequence[Whole]
    alternating: bool

    @classmethod
    def of(cls, searches: Sequence[Search], splits: Sequence[Splits], used: Sequence[Whole]) -> Layers:
        """Those of some cells of each search."""
        columns, owners, cells = _cells_of(splits, used)
        experts = np.unique(np.concatenate([each.axes[-1] for each in splits]))
        search = Search.merged(searches).of_owners(owners[:, None])
        axes = {name: column[:, None] for name, column in columns.items()}
        axes["expert"] = experts[None]
        shape, software, cal, once = search.shape, search.software, search.calibration, search.parallelism(axes)
        if len(splits) == 1 and len(splits[0].batches) == 1:
            sent = _exchanged(search, splits[0], used[0])
        else:
            sent = exchanges.layer_exchanges(shape, search.job, once, software, search.links)
        head = step.head_time(shape, search.job, search.gpu, once, cal)

        alternating = any_(software.staged_expert > 0)
        chunks = np.array([1.0, 2.0] if alternating else [1.0])[:, None, None]
        levels = np.array(splits[0].groups.recompute)[:, None, None, None]
        run = search.parallelism(axes | {"virtual_pipeline": chunks}, levels)
        layer = step.layer(shape, search.job, search.gpu, run, software, cal, sent).total
        return cls(
            axes=axes,
            times=np.broadcast_to(layer, (len(levels), len(chunks), len(owners), len(experts))).ravel(),
            heads=np.broadcast_to(head, (len(owners), 1)).ravel(),
            cells=cells,
            experts=[np.searchsorted(experts, each.axes[-1]) for each in splits],
            alternating=alternating,
        )

    def of_some(self, owner: int, grid: Grid, some: Candidates, level: Whole) -> Whole:
        """Where the layers of some candidates of a search are among the times, by their levels of recomputation [1]."""
        cells = self.of_cells(owner, grid, some.run, level)
        return cells * self.axes["expert"].size + self.experts[owner][some.expert]

    def of_cells(self, owner: int, grid: Grid, runs: Whole, level: Whole) -> Whole:
        """The same of the cells of some runs, whatever the experts' degree [1]."""
        variant = 2 * level + (grid.runs["virtual_pipeline"] > 1)[runs] if self.alternating else level
        return variant * len(self.heads) + self.cells[owner][grid.cell[runs]]

    def at(self, owners: Sequence[int]) -> Layers:
        """Those of some of the searches."""
        cells, experts = [self.cells[owner] for owner in owners], [self.experts[owner] for owner in owners]
        return but(self, cells=cells, experts=experts)

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


def _cells_of(splits: Sequence[Splits], used: Sequence[Whole]) -> tuple[dict[str, Numbers], Whole, Sequence[Whole]]:
    """Columns of some cells of each search, to which search each belongs, and where those of each search are."""
    counts = [len(cells) for cells in used]
    columns = joined_columns([columns_at(each.cells, cells) for each, cells in zip(splits, used, strict=True)])
    among = []
    for each, cells, end in zip(splits, used, accumulate(counts), strict=True):
        where_ = np.zeros(len(each.cells["tensor"]), np.int64)
        where_[cells] = np.arange(end - len(cells), end)
        among.append(where_)
    return columns, np.repeat(np.arange(len(used)), counts), among
