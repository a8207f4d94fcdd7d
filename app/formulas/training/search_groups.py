"""Degrees that divide into the GPUs, and the memory of what they hold, whatever the batch.

All combinations of pipeline, tensor and context degrees are tables: that of what divides has an axis for each of them
and for the degree of experts, so that no loop walks over them. What batches have in common is worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.formulas.training import memory
from app.formulas.training.columns import Columns, Numbers, Whole, written_out
from app.formulas.training.divisibility import Flags, gpus_divide, heads_exchange
from app.formulas.training.fixed_degrees import GRADIENTS, NONE, OPTIMIZER
from app.formulas.training.search_cache import Kept
from app.formulas.training.search_space import Space


@dataclass(frozen=True)
class Groups:
    """Degrees that divide into the GPUs, whatever the batch, and what they hold.

    A group is a pipeline, a tensor and a context degree; a state is that, a sharding and an experts' degree.

    Attributes:
        variants: ways to run each that are not told apart by these: sharding, recomputation, sequence parallelism [1].
        enumerated: whole configurations of each micro-batch [1].
        stages: pipeline and virtual-pipeline degree of each stage [1].
        kind: of each stage, the place of its pipeline degree among these [1].
        chunked: of each stage, 1 where it has several chunks, else 0 [1].
        degrees: pipeline, tensor, context and experts' degrees, each ascending [1].
        data: replicas of each group, with an axis for the experts' degree, rounded down [1].
        experts: experts' degrees that each can have, its ranks dividing into such groups, and as `shares` and
            `heads_exchange` say; none where it does not multiply to the cluster [1].
        open: whether each state divides, with axes for sharding and these degrees.
        columns: sharding and degrees of each state, in this order [1].
        spare: whether sharded gradients are for what does not fit with the optimizer state alone sharded.
        recompute: levels, ascending [1].
        states: memory of each state, as such a table [B].
        kept_bytes: what a token leaves in a layer, by level and tensor degree: see `memory.kept_bytes` [B].
    """

    variants: int
    enumerated: int
    stages: Whole
    kind: Whole
    chunked: Whole
    degrees: Sequence[Whole]
    data: Whole
    experts: Numbers
    open: Flags
    columns: Columns
    spare: bool
    recompute: list[int]
    states: Numbers
    kept_bytes: tuple[Numbers, Numbers]

    @classmethod
    def of(cls, space: Space) -> Groups:
        """Kept: all batches of a job on a cluster share them."""
        return _known.of(space.with_batch(0.0), _groups)

    @property
    def nbytes(self) -> int:
        """What they take [B]."""
        tables = (self.data, self.experts, self.open, self.states)
        return sum(table.nbytes for table in (*tables, *self.columns.values(), *self.kept_bytes))


def _groups(space: Space) -> Groups:
    shape, job, gpus, fixed, software = space.shape, space.job, space.gpus, space.fixed, space.software
    lists = space.degrees()
    stages = np.array(space.stages(lists["pipeline"]), np.int64).reshape(-1, 2)
    p, kind = np.unique(stages[:, 0], return_inverse=True)
    t, c, e, shardings = (np.array(lists[name], np.int64) for name in ("tensor", "context", "expert", "sharding"))
    across = t[:, None, None], p[:, None, None, None], c[:, None]
    data, whole, spread = gpus_divide(gpus, *across, e * fixed.ranks_of_expert(across[0]))
    spread &= fixed.shares(data * across[2]) & heads_exchange(shape, across[0], across[2], fixed.context_exchange)

    # Nothing can be shared by one replica; among several, sharing the optimizer state never loses.
    sharding, open_ = shardings[:, *[None] * 4], spread[None]
    if fixed.sharding is None:
        several = data * across[2] > 1
        kinds = shardings[shardings > NONE][:, *[None] * 4]
        sharding = np.where(several, kinds, NONE)
        open_ = spread & (several | (kinds == OPTIMIZER))

    axes = np.ix_(*(axis.astype(np.float64) for axis in (p, t, c, e)))
    kept = dict(zip(("pipeline", "tensor", "context", "expert"), axes, strict=True))
    kept["sharding"] = sharding.astype(np.float64)
    tensor, levels = t.astype(np.float64), np.array(lists["recompute"])[:, None]
    layer = fixed.spread(gpus, {"tensor": tensor, "sequence_parallel": np.asarray(fixed.splits(tensor))}, levels)
    left, left_whole = memory.kept_bytes(shape, job, layer, software)
    table = len(levels), len(t)
    variants = len(shardings) * len(levels) * len(lists["sequence_parallel"])
    return Groups(
        variants=variants,
        enumerated=int(whole[kind].sum()) * len(e) * variants,
        stages=stages,
        kind=kind,
        chunked=np.where(stages[:, 1] > 1, 1, 0),
        degrees=(p, t, c, e),
        data=data,
        experts=np.count_nonzero(spread & whole, axis=-1).astype(np.float64),
        open=open_,
        columns={name: written_out(axis, kept) for name, axis in kept.items()},
        spare=fixed.sharding is None and GRADIENTS in lists["sharding"],
        recompute=lists["recompute"],
        states=np.broadcast_to(sum(memory.states(shape, job, fixed.spread(gpus, kept), software)), open_.shape),
        kept_bytes=(np.broadcast_to(left, table), np.broadcast_to(left_whole, table)),
    )


_known: Kept[Groups] = Kept(2_000_000)
"""Those of a mixture of experts take 0.1 MB each, of GPUs that much divides 4 MB."""
