"""What divides, as one table: of some batches the splits, of these the runs, and of these the candidates.

The table of splits is whole: a split is true or false in it. Of the splits that are worth it runs are written out, one
after the other; with an axis for the sharding and one for the experts' degree they are all configurations that differ
in more than recomputation. A place in that table, counted through, is a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import grouped
from app.formulas.records import but
from app.formulas.training.arguments import Job
from app.formulas.training.columns import Columns, Numbers, Whole, columns_at, written_out
from app.formulas.training.divisibility import Flags, batch_divides
from app.formulas.training.search_groups import Groups
from app.formulas.training.search_space import Space


@dataclass(frozen=True)
class Splits:
    """What divides of some batches of a job: a split is a pipeline degree and a share, and each of its chunks a run.

    A cell is a tensor and a context degree and a micro-batch, a share is a cell of a batch. A cell and an experts'
    degree are a layer: all that its time depends on besides recomputation.

    Attributes:
        groups: what divides into the GPUs.
        batches: sequences of a step [1].
        enumerated, divisible: of each batch, as in `SearchResult` [1].
        divides: whether each split divides, and into rounds of an interleaved schedule.
        owner, size: of each micro-batch of each batch, the places of its batch and among all micro-batches [1].
        cells: columns of each cell [1].
        axes: degrees and micro-batches of the cells, and degrees of experts [1].
    """

    groups: Groups
    batches: Numbers
    enumerated: Whole
    divisible: Whole
    divides: Flags
    owner: Whole
    size: Whole
    cells: Columns
    axes: Sequence[Numbers]

    @classmethod
    def of(cls, space: Space, batches: Sequence[int]) -> Splits:
        """Those of some batches on a cluster."""
        groups, fixed = Groups.of(space), space.fixed
        p, t, c, e = groups.degrees
        tried = [space.micro_batches(batch) for batch in batches]
        owner = np.repeat(np.arange(len(batches)), [*map(len, tried)])
        micro_batch = np.array([*chain.from_iterable(tried)], np.int64)
        sequences = np.array(batches, np.float64)
        even, rounds = batch_divides(sequences[owner], groups.data, p[:, None, None, None], micro_batch)
        runnable = groups.experts[..., None] > 0
        divides = np.stack([even & runnable, rounds & runnable])
        degrees = len(t) * len(c)
        by_degrees = divides.reshape(2, len(p), degrees, len(micro_batch))
        divisible = groups.experts.reshape(len(p), 1, degrees) @ by_degrees
        divisible = divisible[groups.chunked, groups.kind].sum(axis=(0, 1))
        b = np.array(sorted({*chain.from_iterable(tried)}), np.int64)
        axes = [axis.astype(np.float64) for axis in (t, c, b, e)]
        cells = dict(zip(("tensor", "context", "micro_batch"), np.ix_(*axes[:-1]), strict=True))
        cells["sequence_parallel"] = np.asarray(fixed.splits(cells["tensor"]))
        return cls(
            groups=groups,
            batches=sequences,
            enumerated=groups.enumerated * np.bincount(owner, minlength=len(batches)),
            divisible=groups.variants * np.bincount(owner, divisible, len(batches)).astype(np.int64),
            divides=divides.reshape(2, len(p), degrees * len(micro_batch)),
            owner=owner,
            size=np.searchsorted(b, micro_batch),
            cells={name: written_out(axis, cells) for name, axis in cells.items()},
            axes=axes,
        )

    def job(self, job: Job, batch: Whole) -> Job:
        """What steps of some of the batches compute; a number where there is one batch."""
        return but(job, global_batch=self.batches[batch if len(self.batches) > 1 else 0])

    @property
    def pairs(self) -> int:
        """Tensor and context degrees together: a share is one of these pairs and a micro-batch of a batch [1]."""
        return len(self.axes[0]) * len(self.axes[1])

    @cached_property
    def batch(self) -> Whole:
        """The place of each share's batch [1]."""
        return np.tile(self.owner, self.pairs)

    @cached_property
    def cell(self) -> Whole:
        """The place of each share's cell [1]."""
        return (np.arange(self.pairs)[:, None] * len(self.axes[2]) + self.size).ravel()

    def room(self, limit: float) -> Flags:
        """Whether weights, gradients and optimizer state of each leave room, in some sharding, below a limit [B]."""
        roomy = (self.groups.open & (self.groups.states <= limit)).any(axis=(0, -1))
        return np.repeat(roomy, len(self.owner), axis=-1).reshape(self.divides[0].shape)

    def grid(self, worth: Flags | None = None) -> Grid:
        """The runs of those that are worth it; ``None`` means all."""
        groups, stages = self.groups, self.groups.stages
        divides = (self.divides if worth is None else self.divides & worth)[groups.chunked, groups.kind]
        stage, share = _divided(np.flatnonzero(divides), divides.shape[1])
        cell, batch = share, np.zeros(len(share), np.int64)
        if len(self.batches) > 1:
            cell, batch = self.cell[share], self.batch[share]
        of_stages = dict(zip(("pipeline", "virtual_pipeline"), stages.T.astype(np.float64), strict=True))
        return Grid(
            splits=self,
            runs=columns_at(of_stages, stage) | columns_at(self.cells, cell),
            group=groups.kind[stage] * self.pairs + share // len(self.owner),
            cell=cell,
            batch=batch,
        )


@dataclass(frozen=True)
class Grid:
    """Candidates, recomputation apart, as places of one table with axes for sharding, experts' degree and run.

    A run is a stage (pipeline and virtual-pipeline degree) and a cell that divide.
    The memory of a candidate is that of its states, which neither the micro-batch nor the virtual pipeline changes, and
    that of its activations, which neither the experts' degree nor the sharding changes.

    Attributes:
        splits: what the runs are some of.
        runs: columns of each run [1].
        group: of each run, the place of its pipeline, tensor and context degree among all of these [1].
        cell, batch: of each run, the place of its cell and of its batch among all of these [1].
    """

    splits: Splits
    runs: Columns
    group: Whole
    cell: Whole
    batch: Whole

    @property
    def groups(self) -> Groups:
        """What divides into the GPUs."""
        return self.splits.groups

    @property
    def experts(self) -> Numbers:
        """Degrees of experts [1]."""
        return self.splits.axes[-1]

    def by_run(self, states: NDArray[Any]) -> NDArray[Any]:
        """Values of each state, with an axis for the runs in place of those of their degrees."""
        shardings = len(self.groups.open)
        by_group = states.reshape(shardings, -1, len(self.experts)).swapaxes(1, 2)
        return np.take(by_group, self.group, axis=2)

    def at(self, places: Whole) -> Candidates:
        """The candidates at some places of the table, counted through."""
        rest, run = _divided(places, len(self.group))
        sharding, expert = _divided(rest, len(self.experts))
        groups = self.groups.open[0].size // len(self.experts)
        state = (sharding * groups + self.group[run]) * len(self.experts) + expert
        return Candidates(run, expert, state)

    def batch_of(self, places: Whole) -> Whole:
        """Of some places of the table, or of its runs, those of their batches [1]."""
        return self.batch[places % len(self.group)]

    def of_each_batch(self, places: Whole) -> list[Any]:
        """Which of some places of the table, or of its runs, are each batch's."""
        many = len(self.splits.batches)
        return [slice(None)] if many == 1 else grouped(self.batch_of(places), many)

    def of_each(self, places: Whole, values: Numbers, number: Callable[[Numbers], float]) -> Numbers:
        """A number of the values of each batch's, whose last axis are some places."""
        return np.array([number(values[..., some]) for some in self.of_each_batch(places)])

    def counted(self, places: Flags) -> Whole:
        """How many places of the table are each batch's [1]."""
        many = len(self.splits.batches)
        if many == 1:
            return np.array([np.count_nonzero(places)])
        return np.bincount(self.batch, np.count_nonzero(places, axis=(0, 1)), many).astype(np.int64)

    def of_runs(self, numbers: Numbers, runs: Whole | slice = slice(None)) -> Numbers:
        """Numbers of the batches as those of some runs; one where there is one batch."""
        return numbers[self.batch[runs]] if len(numbers) > 1 else numbers

    def job(self, job: Job, runs: Whole | slice = slice(None)) -> Job:
        """What a step of some runs computes."""
        return self.splits.job(job, self.batch[runs])

    def turns(self, places: Whole) -> list[NDArray[Any]]:
        """What decides which of equal candidates comes first, the last of these most."""
        columns = self.columns(self.at(places))
        names = "micro_batch", "expert", "context", "tensor", "virtual_pipeline", "pipeline"
        return [*(columns[name] for name in names), places // (len(self.group) * len(self.experts))]

    def columns(self, some: Candidates) -> dict[str, Numbers]:
        """Some candidates, setting by setting."""
        kept = {"expert": self.experts[some.expert], "sharding": self.groups.columns["sharding"][some.state]}
        return columns_at(self.runs, some.run) | kept


class Candidates(NamedTuple):
    """Some candidates of a grid, by their places in it.

    Attributes:
        run, expert, state: among the runs, the experts' degrees, the states [1].
    """

    run: Whole
    expert: Whole
    state: Whole


def _divided(places: Whole, size: int) -> tuple[Whole, Whole]:
    """Quotient and remainder, in a third of the time that `divmod` takes."""
    quotient = places // size
    return quotient, places - quotient * size
