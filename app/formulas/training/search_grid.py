"""What divides, as rows: of some searches the splits, of these the runs, and of these the candidates.

Splits are rows one after the other, those of each search together. Of the splits that are worth it runs are made; with
an axis for the sharding and one for the experts' degree they are all configurations that differ in more than
recomputation. A place in that table, counted through, is a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import counted_off, grouped
from app.formulas.training.columns import Columns, Numbers, Whole, columns_at, written_out
from app.formulas.training.divisibility import Flags, batch_divides
from app.formulas.training.search_groups import Groups
from app.formulas.training.search_space import Space


@dataclass(frozen=True)
class Splits:
    """What divides of some searches: a split is a search, a group and a micro-batch, and each of its chunks a run.

    A cell is a tensor and a context degree and a micro-batch. A cell and an experts' degree are a layer: all that its
    time depends on besides recomputation.

    Attributes:
        groups: what divides into the GPUs.
        batches: sequences of a step of each search [1].
        enumerated, divisible: of each search, as in `SearchResult` [1].
        owner, group, cell: of each split, the places of its search, group and cell [1].
        rounds: whether each divides into rounds of an interleaved schedule.
        cells: columns of each cell [1].
        axes: degrees and micro-batches of the cells, and degrees of experts [1].
    """

    groups: Groups
    batches: Numbers
    enumerated: Whole
    divisible: Whole
    owner: Whole
    group: Whole
    cell: Whole
    rounds: Flags
    cells: Columns
    axes: Sequence[Numbers]

    @classmethod
    def of(cls, spaces: Sequence[Space]) -> Splits:
        """Those of some searches, each with its batch."""
        places: dict[Any, int] = {}
        cluster = np.array([places.setdefault(space.with_batch(0.0), len(places)) for space in spaces])
        groups, batches = Groups.of([*places]), [int(space.job.global_batch) for space in spaces]
        sequences = np.array(batches, np.float64)
        owner, group, micro_batch = _split_up(groups, cluster, np.array(batches, np.int64), spaces[0])
        pipeline = groups.stages.pipeline[groups.kind[group]]
        _, rounds = batch_divides(sequences[owner], groups.data[group], pipeline, micro_batch)
        (t, c, e), b = groups.axes, np.unique(micro_batch)
        axes = [axis.astype(np.float64) for axis in (t, c, b, e)]
        cells = dict(zip(("tensor", "context", "micro_batch"), np.ix_(*axes[:-1]), strict=True))
        cells["sequence_parallel"] = np.asarray(spaces[0].fixed.splits(cells["tensor"]))
        divisible = groups.experts[group] * groups.stages.counted(groups.kind[group], rounds)
        return cls(
            groups=groups,
            batches=sequences,
            enumerated=groups.enumerated[cluster] * [len(spaces[0].micro_batches(batch)) for batch in batches],
            divisible=groups.variants * np.bincount(owner, divisible, len(spaces)).astype(np.int64),
            owner=owner,
            group=group,
            cell=(groups.tensor[group] * len(c) + groups.context[group]) * len(b) + np.searchsorted(b, micro_batch),
            rounds=rounds,
            cells={name: written_out(axis, cells) for name, axis in cells.items()},
            axes=axes,
        )

    @property
    def kind(self) -> Whole:
        """The place of the pipeline degree of each [1]."""
        return self.groups.kind[self.group]

    def room(self, limits: Numbers) -> Numbers:
        """What weights, gradients and optimizer state leave of the limits, in the sharding in which they are least [B].

        Less than nothing where they leave none.
        """
        least: Numbers = np.where(self.groups.open, self.groups.states, np.inf).min(axis=(0, -1))
        room: Numbers = limits[self.owner] - least[self.group]
        return room

    def columns(self, some: Whole, most: bool) -> dict[str, Numbers]:
        """Some splits, degree by degree, in the most or the fewest chunks that there are stages for [1]."""
        stages = self.groups.stages
        pipeline, chunks = stages.degrees[stages.first + (stages.count - 1 if most else 0)].T.astype(np.float64)
        kind = self.groups.kind[self.group[some]]
        degrees = {"pipeline": pipeline[kind], "virtual_pipeline": chunks[kind]}
        return degrees | columns_at(self.cells, self.cell[some])

    def grid(self, some: Whole | None = None) -> Grid:
        """The runs of some; ``None`` means all."""
        stages, some = self.groups.stages, np.arange(len(self.group)) if some is None else some
        kind = self.kind[some]
        count = stages.count[kind]
        split, stage = np.repeat(some, count), np.repeat(stages.first[kind], count) + counted_off(count)
        v = stages.degrees[:, 1]
        divides = np.flatnonzero((v[stage] == 1) | self.rounds[split])
        split, stage = split[divides], stage[divides]
        of_stages = dict(zip(("pipeline", "virtual_pipeline"), stages.degrees.T.astype(np.float64), strict=True))
        return Grid(
            splits=self,
            runs=columns_at(of_stages, stage) | columns_at(self.cells, self.cell[split]),
            split=split,
            group=self.group[split],
            owner=self.owner[split],
        )


@dataclass(frozen=True)
class Grid:
    """Candidates, recomputation apart, as places of one table with axes for sharding, experts' degree and run.

    A run is a split and a virtual-pipeline degree that divide; those of a search are together.
    The memory of a candidate is that of its states, which neither the micro-batch nor the virtual pipeline changes, and
    that of its activations, which neither the experts' degree nor the sharding changes.

    Attributes:
        splits: what the runs are some of.
        runs: columns of each run [1].
        split, group, owner: of each run, the places of its split, its group and its search [1].
    """

    splits: Splits
    runs: Columns
    split: Whole
    group: Whole
    owner: Whole

    @property
    def groups(self) -> Groups:
        """What divides into the GPUs."""
        return self.splits.groups

    @property
    def experts(self) -> Numbers:
        """Degrees of experts [1]."""
        return self.splits.axes[-1]

    @property
    def searches(self) -> int:
        """How many searches the runs are of [1]."""
        return len(self.splits.batches)

    @cached_property
    def ends(self) -> Whole:
        """Where the runs of each search end, after a 0 [1]."""
        return np.searchsorted(self.owner, np.arange(self.searches + 1))

    def by_run(self, states: NDArray[Any]) -> NDArray[Any]:
        """Values of each state, with an axis for the runs in place of that of the groups."""
        return np.take(states.reshape(self.groups.open.shape).swapaxes(1, 2), self.group, axis=2)

    def at(self, places: Whole) -> Candidates:
        """The candidates at some places of the table, counted through."""
        rest, run = _divided(places, len(self.group))
        sharding, expert = _divided(rest, len(self.experts))
        state = (sharding * len(self.groups.cluster) + self.group[run]) * len(self.experts) + expert
        return Candidates(run, expert, state)

    def owner_of(self, places: Whole) -> Whole:
        """Of some places of the table, or of its runs, those of their searches [1]."""
        return self.owner[places % max(len(self.group), 1)]

    def of_each_search(self, places: Whole) -> list[Any]:
        """Which of some places of the table are each search's."""
        return [slice(None)] if self.searches == 1 else grouped(self.owner_of(places), self.searches)

    def counted(self, places: Flags) -> Whole:
        """How many places of the table are each search's [1]."""
        totals = np.append(0, np.cumsum(np.count_nonzero(places, axis=(0, 1))))[self.ends]
        return np.diff(totals)

    def turns(self, places: Whole) -> list[NDArray[Any]]:
        """What decides which of equal candidates comes first, the last of these most."""
        columns = self.columns(self.at(places))
        names = "micro_batch", "expert", "context", "tensor", "virtual_pipeline", "pipeline"
        return [*(columns[name] for name in names), places // (len(self.group) * len(self.experts))]

    def columns(self, some: Candidates) -> dict[str, Numbers]:
        """Some candidates, setting by setting."""
        kept = {"expert": self.experts[some.expert], "sharding": self.groups.columns["sharding"][some.state]}
        return columns_at(self.runs, some.run) | kept


def _split_up(groups: Groups, cluster: Whole, batches: Whole, space: Space) -> tuple[Whole, Whole, Whole]:
    """The place of the search, that of the group and the micro-batch of each split [1].

    Where replicas get whole sequences, the micro-batches are the divisors of what each has.
    """
    begin, end = groups.ends[cluster], groups.ends[cluster + 1]
    owner = np.repeat(np.arange(len(cluster)), end - begin)
    group = np.repeat(begin, end - begin) + counted_off(end - begin)
    each, left = np.divmod(batches[owner], groups.data[group])
    owner, group, each = (column[left == 0] for column in (owner, group, each))
    shares, place = np.unique(each, return_inverse=True)
    tried = [[size for size in space.micro_batches(share) if share % size == 0] for share in shares.tolist()]
    many, sizes = np.array([*map(len, tried)], np.int64), np.array([*chain.from_iterable(tried)], np.int64)
    first, count = np.cumsum(many) - many, many[place]
    micro_batch = sizes[np.repeat(first[place], count) + counted_off(count)]
    return np.repeat(owner, count), np.repeat(group, count), micro_batch


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
    quotient = places // max(size, 1)
    return quotient, places - quotient * size
