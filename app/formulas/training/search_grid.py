"""What divides, as rows: of some searches the shares, of these the splits, the runs, and of these the candidates.

Each is rows one after the other, those of each search together. Of those that are worth it the next are made; with an
axis for the sharding and one for the experts' degree they are all configurations that differ in more than
recomputation. A place in that table, counted through, is a candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import counted_off, grouped
from app.formulas.records import but
from app.formulas.training.columns import Columns, Numbers, Whole, columns_at, distinct, joined, written_out
from app.formulas.training.divisibility import Flags, batch_divides
from app.formulas.training.search_groups import Groups
from app.formulas.training.search_space import Space


@dataclass(frozen=True)
class Shares:
    """What divides of some searches whatever the micro-batch: a share is a search and a group, each of whose replicas
    gets whole sequences.

    Attributes:
        groups: what divides into the GPUs.
        space: what can be tried; of the first of the searches.
        batches: sequences of a step of each search [1].
        enumerated, divisible: of each search, as in `SearchResult` [1].
        first: of each cluster, the place of the first search on it [1].
        owner, group: of each share, the places of its search and its group [1].
        sizes: micro-batches that divide it.
    """

    groups: Groups
    space: Space
    batches: Numbers
    enumerated: Whole
    divisible: Whole
    first: Whole
    owner: Whole
    group: Whole
    sizes: Sizes

    @classmethod
    def of(cls, spaces: Sequence[Space]) -> Shares:
        """Those of some searches, each with its batch."""
        places: dict[Any, int] = {}
        cluster = np.array([places.setdefault(space.apart_from_batch, len(places)) for space in spaces])
        first = np.unique(cluster, return_index=True)[1]
        groups, batches = (
            Groups.of([spaces[place].with_batch(0.0) for place in first.tolist()]),
            np.array([int(space.job.global_batch) for space in spaces], np.int64),
        )
        begin, end = groups.ends[cluster], groups.ends[cluster + 1]
        owner = np.repeat(np.arange(len(cluster)), end - begin)
        group = np.repeat(begin, end - begin) + counted_off(end - begin)
        each, left = np.divmod(batches[owner], groups.data[group])
        owner, group, each = (column[left == 0] for column in (owner, group, each))
        kind = groups.kind[group]
        sizes = Sizes.of(spaces[0], each, groups.stages.pipeline[kind])
        divisible = groups.experts[group] * groups.stages.counted(kind, sizes.many, sizes.in_rounds)
        return cls(
            groups=groups,
            space=spaces[0],
            batches=batches.astype(np.float64),
            enumerated=groups.enumerated[cluster] * [len(spaces[0].micro_batches(batch)) for batch in batches.tolist()],
            divisible=groups.variants * np.bincount(owner, divisible, len(spaces)).astype(np.int64),
            first=first,
            owner=owner,
            group=group,
            sizes=sizes,
        )

    def some(self, places: Whole) -> Shares:
        """Some of them."""
        sizes = self.sizes._replace(place=self.sizes.place[places], in_rounds=self.sizes.in_rounds[places])
        return but(self, owner=self.owner[places], group=self.group[places], sizes=sizes)

    def splits(self, most: Numbers | None = None) -> Splits:
        """What they split up into, with micro-batches of no more than so many sequences each; ``None`` means all."""
        groups, (t, c, e), first = self.groups, self.groups.axes, self.space
        share, micro_batch = self.sizes.up_to(most)
        owner, group = self.owner[share], self.group[share]
        pipeline = groups.stages.pipeline[groups.kind[group]]
        _, rounds = batch_divides(self.batches[owner], groups.data[group], pipeline, micro_batch)
        b = distinct(micro_batch)
        axes = [axis.astype(np.float64) for axis in (t, c, b, e)]
        cells = dict(zip(("tensor", "context", "micro_batch"), np.ix_(*axes[:-1]), strict=True))
        cells["sequence_parallel"] = np.asarray(first.fixed.splits(cells["tensor"]))
        return Splits(
            groups=groups,
            batches=self.batches,
            enumerated=self.enumerated,
            divisible=self.divisible,
            share=share,
            owner=owner,
            group=group,
            cell=(groups.tensor[group] * len(c) + groups.context[group]) * len(b) + np.searchsorted(b, micro_batch),
            rounds=rounds,
            cells={name: written_out(axis, cells) for name, axis in cells.items()},
            axes=axes,
        )


class Sizes(NamedTuple):
    """The micro-batches that divide the sequences of replicas, in lists that equal ones share.

    Attributes:
        listed: the lists one after the other, each ascending [1].
        ends: where each of them ends, after a 0 [1].
        place: of each share, that of its list [1].
        in_rounds: how many of these divide it into whole rounds of an interleaved schedule [1].
    """

    listed: Whole
    ends: Whole
    place: Whole
    in_rounds: Whole

    @classmethod
    def of(cls, space: Space, each: Whole, pipeline: Whole) -> Sizes:
        """Those of so many sequences each, in pipelines of so many stages."""
        rounds, left = np.divmod(each, pipeline)
        both = np.concatenate([each, rounds])
        numbers = distinct(both)
        number_of = np.zeros(int(both.max(initial=0)) + 1, np.int64)
        number_of[numbers] = np.arange(len(numbers))
        place = number_of[both]  # in a fortieth of the time of `unique`
        tried = [*map(space.sizes, numbers.tolist())]
        many = np.array([*map(len, tried)], np.int64)
        return cls(
            listed=joined(tried) if tried else np.empty(0, np.int64),
            ends=np.append(0, np.cumsum(many)),
            place=place[: len(each)],
            in_rounds=np.where(left == 0, many[place[len(each) :]], 0),
        )

    @property
    def many(self) -> Whole:
        """How many divide each share [1]."""
        return np.diff(self.ends)[self.place]

    def up_to(self, most: Numbers | None) -> tuple[Whole, Whole]:
        """The places of shares and their micro-batches of no more than so many sequences each; ``None`` means all [1].

        >>> sizes = Sizes(np.array([1, 2, 1, 3, 9]), np.array([0, 2, 5]), np.array([1, 0, 1]), np.zeros(3))
        >>> [column.tolist() for column in sizes.up_to(np.array([4.5, np.inf, 0.0]))]
        [[0, 0, 1, 1], [1, 3, 1, 2]]
        """
        first, count = self.ends[self.place], self.many
        if most is not None:
            beyond = int(self.listed.max(initial=0)) + 1
            ascending = np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends)) * beyond + self.listed
            limit = np.clip(most, 0, beyond - 1).astype(np.int64)
            count = np.searchsorted(ascending, self.place * beyond + limit, side="right") - first
        return np.repeat(np.arange(len(count)), count), self.listed[np.repeat(first, count) + counted_off(count)]


@dataclass(frozen=True)
class Splits:
    """What divides of some searches: a split is a search, a group and a micro-batch, and each of its chunks a run.

    A cell is a tensor and a context degree and a micro-batch. A cell and an experts' degree are a layer: all that its
    time depends on besides recomputation.

    Attributes:
        groups: what divides into the GPUs.
        batches: sequences of a step of each search [1].
        enumerated, divisible: of each search, as in `SearchResult` [1].
        share, owner, group, cell: of each split, the places of its share, search, group and cell [1].
        rounds: whether each divides into rounds of an interleaved schedule.
        cells: columns of each cell [1].
        axes: degrees and micro-batches of the cells, and degrees of experts [1].
    """

    groups: Groups
    batches: Numbers
    enumerated: Whole
    divisible: Whole
    share: Whole
    owner: Whole
    group: Whole
    cell: Whole
    rounds: Flags
    cells: Columns
    axes: Sequence[Numbers]

    @property
    def micro_batch(self) -> Numbers:
        """Sequences of a micro-batch of each [1]."""
        return self.cells["micro_batch"][self.cell]

    def columns(self, some: Whole | slice, most: bool) -> dict[str, Numbers]:
        """Some splits, degree by degree, in the most or the fewest chunks that they can have [1]."""
        degrees = self.groups.stages.columns(self.groups.kind[self.group[some]], most & self.rounds[some])
        return degrees | columns_at(self.cells, self.cell[some])

    def grid(self, some: Whole | None = None) -> Grid:
        """The runs of some; ``None`` means all."""
        stages, some = self.groups.stages, np.arange(len(self.group)) if some is None else some
        kind = self.groups.kind[self.group[some]]
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
