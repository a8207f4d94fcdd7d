"""Degrees that divide into the GPUs of some clusters, and the memory of what they hold, whatever the batch.

The pipeline, tensor and context degrees that divide are rows, those of one cluster after those of another; the degree
of experts and the sharding are axes beside them, so that no loop walks over any of them. What batches have in common is
worked out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from app.formulas.training import memory
from app.formulas.training.columns import Columns, Numbers, Whole, blocks, columns_at, written_out
from app.formulas.training.divisibility import Flags, gpus_divide, heads_exchange
from app.formulas.training.fixed_degrees import GRADIENTS, NONE, OPTIMIZER, FixedDegrees
from app.formulas.training.search_cache import Kept, Spaces
from app.formulas.training.search_space import Space


@dataclass(frozen=True)
class Stages:
    """The stages that there can be: pipeline and virtual-pipeline degrees, those of a pipeline degree together.

    Attributes:
        degrees: pipeline and virtual-pipeline degree of each [1].
        pipeline: the different pipeline degrees, ascending [1].
        first, count: where those of each pipeline degree begin, and how many there are [1].
        chunked: how many of these have several chunks [1].
    """

    degrees: Whole
    pipeline: Whole
    first: Whole
    count: Whole
    chunked: Whole

    @classmethod
    def of(cls, stages: Sequence[tuple[int, int]]) -> Stages:
        """Those of a list."""
        degrees = np.array(sorted(stages), np.int64).reshape(-1, 2)
        pipeline, first, kind, count = np.unique(
            degrees[:, 0], return_index=True, return_inverse=True, return_counts=True
        )
        chunked = np.bincount(kind, degrees[:, 1] > 1, len(pipeline)).astype(np.int64)
        return cls(degrees, pipeline, first, count, chunked)

    def counted(self, kind: Whole, splits: Whole, in_rounds: Whole) -> Whole:
        """How many of them so many splits of a kind have, those of several chunks only in whole rounds [1]."""
        chunked = self.chunked[kind]
        counted: Whole = splits * (self.count[kind] - chunked) + in_rounds * chunked
        return counted

    def columns(self, kind: Whole, most: Flags) -> dict[str, Numbers]:
        """Those of some kinds in the fewest chunks that there are, or in the most, degree by degree [1]."""
        few = self.degrees[self.first, 1].astype(np.float64)
        many = self.degrees[self.first + self.count - 1, 1].astype(np.float64)
        chunks = np.where(most, many[kind], few[kind])
        return {"pipeline": self.pipeline.astype(np.float64)[kind], "virtual_pipeline": chunks}


@dataclass(frozen=True)
class Groups:
    """Degrees that divide into the GPUs of some clusters, whatever the batch, and what they hold.

    A group is a cluster and a pipeline, tensor and context degree that divide into it; a state is that, a sharding and
    an experts' degree.

    Attributes:
        variants: ways to run each that are not told apart by these: sharding, recomputation, sequence parallelism [1].
        enumerated: whole configurations of each micro-batch on each cluster [1].
        stages: what there can be of them.
        ends: where the groups of each cluster end, after a 0 [1].
        axes: tensor, context and experts' degrees, each ascending [1].
        cluster: of each group, the place of its cluster [1].
        kind, tensor, context: of each group, the places of its degrees among those of the stages and the axes [1].
        data: replicas of each [1].
        experts: experts' degrees that each can have, its ranks dividing into such groups [1].
        open: whether each state divides, by sharding, group and experts' degree.
        columns: sharding and degrees of each state, in this order [1].
        spare: whether sharded gradients are for what does not fit with the optimizer state alone sharded.
        recompute: levels, ascending [1].
        states: memory of each state, as such a table [B].
        kept_bytes: what a token leaves in a layer, by level, cluster and tensor degree: see `memory.kept_bytes` [B].
    """

    variants: int
    enumerated: Whole
    stages: Stages
    ends: Whole
    axes: Sequence[Whole]
    cluster: Whole
    kind: Whole
    tensor: Whole
    context: Whole
    data: Whole
    experts: Numbers
    open: Flags
    columns: Columns
    spare: bool
    recompute: list[int]
    states: Numbers
    kept_bytes: tuple[Numbers, Numbers]

    @classmethod
    def of(cls, spaces: Sequence[Space]) -> Groups:
        """Those of clusters and jobs, whatever the batch. Those of a lone one are kept: all its batches share them."""
        return _known.of(spaces, _groups) if len(spaces) == 1 else _groups(tuple(spaces))

    @cached_property
    def least_states(self) -> Numbers:
        """What weights, gradients and optimizer state of each take, sharded and spread as they are least [B]."""
        least: Numbers = np.where(self.open, self.states, np.inf).min(axis=(0, -1))
        return least

    def degrees(self, some: Whole, most: Flags) -> dict[str, Numbers]:
        """Degrees of some, in the fewest chunks that there are stages for or in the most [1]."""
        t, c, _ = (axis.astype(np.float64) for axis in self.axes)
        of_stages = self.stages.columns(self.kind[some], most)
        return of_stages | {"tensor": t[self.tensor[some]], "context": c[self.context[some]]}

    def activity(self, space: Space, owner: Whole, group: Whole, columns: Columns) -> Numbers:
        """Memory of the activations of some configurations, buffers included, by level of recomputation [B].

        Args:
            space: of some searches as one.
            owner, group: of each configuration, the places of its search and its group [1].
            columns: what they have of degrees, chunks and micro-batch [1].
        """
        levels, tensor = np.array(self.recompute)[:, None], self.cluster * len(self.axes[0]) + self.tensor
        kept = [table.reshape(len(levels), -1) for table in self.kept_bytes]
        sizes = np.empty((len(levels), len(group)))
        for some in blocks(len(group)):
            rows, place = space.of_owners(owner[some]), tensor[group[some]]
            runs = space.fixed.spread(rows.gpus, columns_at(columns, some), levels)
            left, left_whole = (np.take(table, place, axis=1) for table in kept)
            reserved = space.context, space.fragmentation, (left, left_whole)
            sizes[:, some] = sum(memory.activity(space.shape, rows.job, runs, space.software, *reserved))
        return sizes

    @property
    def nbytes(self) -> int:
        """What they take [B]."""
        places = (self.cluster, self.kind, self.tensor, self.context, self.data, self.experts)
        tables = (*places, self.open, self.states, *self.columns.values(), *self.kept_bytes)
        return sum(table.nbytes for table in tables)


def _groups(spaces: Spaces) -> Groups:
    shape, fixed, software = spaces[0].shape, spaces[0].fixed, spaces[0].software
    merged = Space.merged(spaces)
    tried = _Tried.of(spaces, merged)
    stages = Stages.of(spaces[0].stages(tried.degrees["pipeline"].tolist()))
    axes = t, c, e = tuple(tried.degrees[name] for name in ("tensor", "context", "expert"))
    places, data, whole, spread = _divided(merged, tried, stages)
    enumerated = np.bincount(places[0], stages.count[places[1]] * whole, len(spaces)).astype(np.int64)
    kept = np.flatnonzero(spread.any(axis=-1))
    cluster, kind, tensor, context, data, spread = (column[kept] for column in (*places, data, spread))

    sharding, open_ = _shared(
        np.array(tried.settings["sharding"], np.int64), (data * c[context])[:, None], spread, fixed
    )
    names = "pipeline", "tensor", "context", "expert", "sharding"
    degrees = stages.pipeline[kind, None], t[tensor, None], c[context, None], e[None], sharding
    columns = {name: axis.astype(np.float64) for name, axis in zip(names, degrees, strict=True)}
    rows = merged.of_owners(cluster[:, None])
    held = sum(memory.states(shape, rows.job, fixed.spread(rows.gpus, columns), software))
    levels, variants = tried.settings["recompute"], prod(map(len, tried.settings.values()))
    return Groups(
        variants=variants,
        enumerated=enumerated * np.count_nonzero(tried.flags["expert"], axis=1) * variants,
        stages=stages,
        ends=np.searchsorted(cluster, np.arange(len(spaces) + 1)),
        axes=axes,
        cluster=cluster,
        kind=kind,
        tensor=tensor,
        context=context,
        data=data,
        experts=np.count_nonzero(spread, axis=-1).astype(np.float64),
        open=open_,
        columns={name: written_out(column, columns) for name, column in columns.items()},
        spare=fixed.sharding is None and GRADIENTS in tried.settings["sharding"],
        recompute=levels,
        states=np.broadcast_to(held, open_.shape),
        kept_bytes=_kept_bytes(merged, len(spaces), t.astype(np.float64), levels),
    )


class _Tried(NamedTuple):
    """What is tried on some clusters, see `Space.degrees`.

    Attributes:
        degrees: of each kind those that are tried anywhere, ascending [1].
        flags: whether each of these is tried, by kind and cluster.
        settings: values of the others, the same everywhere [1].
    """

    degrees: Mapping[str, Whole]
    flags: Mapping[str, Flags]
    settings: Mapping[str, list[int]]

    @classmethod
    def of(cls, spaces: Spaces, merged: Space) -> _Tried:
        """What is tried on each cluster: those whose sequences and domains are equal have the same candidates."""
        kinds: dict[Any, int] = {}
        kind = [kinds.setdefault((space.job.sequence_length, space.largest_tensor), len(kinds)) for space in spaces]
        sizes = [int(space.gpus) for space in spaces]
        lists = [spaces[kind.index(number)].degrees(sizes) for number in kinds.values()]
        degrees, flags = {}, {}
        for name in ("tensor", "pipeline", "context", "expert"):
            every = np.array(sorted({*chain.from_iterable(each[name] for each in lists)}), np.int64)
            listed = np.array([np.isin(every, each[name]) for each in lists])
            tried = listed[kind] & merged.tried(name, every)
            some = tried.any(axis=0)
            degrees[name], flags[name] = every[some], tried[:, some]
        settings = {name: lists[0][name] for name in ("sharding", "recompute", "sequence_parallel")}
        return cls(degrees, flags, settings)


def _divided(merged: Space, tried: _Tried, stages: Stages) -> tuple[Sequence[Whole], Whole, Flags, Flags]:
    """Of all that is tried the places of the cluster, and of the pipeline, tensor and context degree.

    With the replicas, rounded down; whether the degrees multiply to the cluster; and by the experts' degree, whether
    they also divide into groups of experts, and as `shares` and `heads_exchange` say.
    """
    t, c, e = (tried.degrees[name] for name in ("tensor", "context", "expert"))
    fixed, flags = merged.fixed, tried.flags
    staged = flags["pipeline"][:, np.isin(tried.degrees["pipeline"], stages.pipeline)]
    every = staged[:, :, None, None] & flags["tensor"][:, None, :, None] & flags["context"][:, None, None, :]
    places = cluster, kind, tensor, context = np.nonzero(every)
    gpus = np.broadcast_to(merged.gpus, len(every))[cluster, None]
    across = t[tensor, None], stages.pipeline[kind, None], c[context, None]
    data, whole, spread = gpus_divide(gpus, *across, e * fixed.ranks_of_expert(across[0]))
    spread &= whole & fixed.shares(data * across[2])
    spread &= heads_exchange(merged.shape, across[0], across[2], fixed.context_exchange)
    return places, data[:, 0], whole[:, 0], spread


def _shared(shardings: Whole, replicas: Whole, spread: Flags, fixed: FixedDegrees) -> tuple[Whole, Flags]:
    """The sharding of each state, and which states are open.

    Nothing can be shared by one replica; among several, sharing the optimizer state never loses.
    """
    if fixed.sharding is not None:
        return shardings[:, None, None], spread[None]
    several, kinds = replicas > 1, shardings[shardings > NONE][:, None, None]
    return np.where(several, kinds, NONE), spread & (several | (kinds == OPTIMIZER))


def _kept_bytes(merged: Space, clusters: int, tensor: Numbers, recompute: Sequence[int]) -> tuple[Numbers, Numbers]:
    """What a token leaves in a layer, and while it is repeated, by level, cluster and tensor degree [B]."""
    levels, rows = np.array(recompute)[:, None, None], merged.of_owners(np.arange(clusters)[:, None])
    split = np.asarray(merged.fixed.splits(tensor))
    layer = merged.fixed.spread(rows.gpus, {"tensor": tensor, "sequence_parallel": split}, levels)
    left, left_whole = memory.kept_bytes(merged.shape, rows.job, layer, merged.software)
    table = len(levels), clusters, len(tensor)
    return np.broadcast_to(left, table), np.broadcast_to(left_whole, table)


_known: Kept[Groups] = Kept(2_000_000)
"""Those of a mixture of experts take 0.1 MB each, of GPUs that much divides 4 MB."""
