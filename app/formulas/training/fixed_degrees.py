"""What is fixed of the parallelism before it is looked for, and what configurations are made with it.

Degrees and settings that are ``None`` are tried; the others hold for every configuration. Some settings, such as the
order of the ranks, are never tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np

from app.formulas.arrays import Array, minimum, where
from app.formulas.records import but
from app.formulas.training.arguments import RING, Parallelism
from app.formulas.training.columns import Whole
from app.formulas.training.divisibility import (
    Counts,
    Flags,
    experts_divide,
    heads_divide,
    heads_exchange,
    pairs_up,
    sequence_divides,
    shape_is_possible,
)
from app.formulas.transformer import Shape

SHARDINGS = NONE, OPTIMIZER, GRADIENTS, PARAMETERS = range(4)


@dataclass(frozen=True)
class FixedDegrees:
    """Settings that are fixed; ``None`` means: find the best.

    Attributes:
        tensor, pipeline, virtual_pipeline, context, expert: degrees t, p, v, c, e [1].
        micro_batch: sequences, b [1].
        sharding: ZeRO stage, 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters [1].
        sharding_group: ranks over which that state is spread; ``None`` means all replicas [1].
        sequence_parallel: whether norms and residuals are split over the tensor-parallel ranks.
        recompute: 0 none, 1 selective, 2 full [1].
        recomputed: share of the layers repeated in full, whatever `recompute` says [1].
        expert_tensor: GPUs over which each expert is cut; ``None`` means one, or as `cut_experts` says [1].
        cut_experts: whether experts are cut over the tensor-parallel ranks.
        bubble: bubble of the schedule relative to 1F1B [1].
        largest_tensor: highest tensor-parallel degree tried; ``None`` means four scale-up domains [1].
        stages_first: whether the stages of a pipeline are neighbours, and replicas apart.
        bidirectional: whether micro-batches enter the pipeline from both ends (DualPipe).
        context_exchange: how context parallelism exchanges, as in `Parallelism` [1].
        causal_balance: whether its ranks have equal shares of causal attention.
        chunks: layers of each chunk of an uneven pipeline, first chunk first; none where stages are even [1].
    """

    tensor: int | None = None
    pipeline: int | None = None
    virtual_pipeline: int | None = None
    context: int | None = None
    expert: int | None = None
    micro_batch: int | None = None
    sharding: int | None = None
    sharding_group: int | None = None
    sequence_parallel: bool | None = None
    recompute: int | None = None
    recomputed: float | None = None
    expert_tensor: int | None = None
    cut_experts: bool = False
    bubble: float = 1.0
    largest_tensor: int | None = None
    stages_first: bool = False
    bidirectional: bool = False
    context_exchange: float = RING
    causal_balance: bool = True
    chunks: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether everything that decides the memory is given."""
        settings = (self.tensor, self.pipeline, self.context, self.micro_batch, self.sharding, self.recompute)
        return None not in settings

    @property
    def few(self) -> bool:
        """Whether so much is given that `few` configurations are left."""
        return None not in (self.tensor, self.pipeline, self.micro_batch)

    @property
    def single(self) -> bool:
        """Whether everything is given, so that there is one configuration at most."""
        return self.whole and None not in (self.virtual_pipeline, self.expert, self.sequence_parallel)

    @property
    def gpus_multiple(self) -> int:
        """What every number of GPUs that the given degrees divide is a multiple of: lcm(t p c, p s) [1].

        A replica takes t p c of them, and the ranks of each of p stages hold whole sets of experts, of s each.

        >>> FixedDegrees(tensor=8, pipeline=5).gpus_multiple
        40
        >>> FixedDegrees(tensor=2, pipeline=3, expert=8).gpus_multiple  # 8 ranks of a stage for all experts
        24
        """
        tensor, pipeline = self.tensor or 1, self.pipeline or 1
        spans = (self.expert or 1) * int(self.ranks_of_expert(tensor))
        return pipeline * lcm(tensor * (self.context or 1), spans)

    def shares(self, replicas: Counts) -> Flags:
        """Whether so many replicas divide into groups that share one copy; where there are fewer, they are one group.

        >>> FixedDegrees(sharding_group=4).shares(np.array([2, 8, 10]))
        array([ True,  True, False])
        """
        if self.sharding_group is None:
            return True
        return (self.sharding == NONE) | (replicas <= self.sharding_group) | (replicas % self.sharding_group == 0)

    def divides(
        self, shape: Shape, length: Counts, tensor: Counts, pipeline: Counts, context: Counts, expert: Counts
    ) -> Flags:
        """Whether a possible model and its sequences divide by these degrees, whatever the cluster and the batch.

        Args:
            shape: the model.
            length: tokens of a sequence [1].
            tensor, pipeline, context, expert: the degrees [1].
        """
        return (
            shape_is_possible(shape)
            & heads_divide(shape, tensor)
            & heads_exchange(shape, tensor, context, self.context_exchange)
            & sequence_divides(length, context, self.causal_balance)
            & experts_divide(shape, expert)
            & pairs_up(pipeline, self.bidirectional)
        )

    def splits(self, tensor: Array) -> Array:
        """1 where sequences are split over the tensor-parallel ranks, 0 where there is one or they must not be [1]."""
        return where(tensor > 1, 0.0 if self.sequence_parallel is False else 1.0, 0.0)

    def ranks_of_expert(self, tensor: Counts) -> Counts:
        """GPUs over which each expert is cut [1]."""
        return self.expert_tensor or (tensor if self.cut_experts else 1)

    def spread(self, gpus: Counts, settings: Mapping[str, Array], recompute: Array | Whole = 0) -> Parallelism:
        """Configurations of all GPUs; what a formula does not read may be left out of the settings.

        Args:
            gpus: GPUs that train [1].
            settings: degrees and the like, by the names of `Parallelism`.
            recompute: 0 none, 1 selective, 2 full.
        """
        configurations = but(ALONE, **settings)
        data = gpus / (configurations.tensor * configurations.pipeline * configurations.context)
        replicas, group = data * configurations.context, self.sharding_group
        columns: dict[str, Array] = {
            **settings,
            "data": data,
            "sharding_group": replicas if group is None else minimum(float(group), replicas),
            "expert_tensor": self.ranks_of_expert(configurations.tensor) * 1.0,
            "recompute": (recompute == 2) * 1.0 if self.recomputed is None else self.recomputed,
            "recompute_core": (recompute == 1) * 1.0,
            "bubble": self.bubble,
            "stages_first": float(self.stages_first),
            "context_exchange": self.context_exchange,
            "causal_balance": float(self.causal_balance),
        }
        if self.bidirectional:
            columns["bidirectional"] = where(configurations.pipeline > 1, 1.0, 0.0)
        if self.chunks:
            columns["deepest"], columns["beside_head"] = _laid_out(self.chunks, configurations.pipeline)
        return but(ALONE, **columns)


ALONE = Parallelism()
"""One GPU by itself."""
ALL_OPEN = FixedDegrees()
"""Nothing is fixed that can be tried."""


def _laid_out(chunks: Sequence[int], pipeline: Array) -> tuple[Array, Array]:
    """Layers on the deepest stage and on the last, of chunks dealt out to stages in turn [1].

    Args:
        chunks: layers of each chunk [1].
        pipeline: stages, p [1].

    >>> _laid_out([2, 3, 3, 2], 2.0)  # 2 + 3 and 3 + 2
    (5.0, 5.0)
    """
    stages = {p: [sum(chunks[stage::p]) for stage in range(p)] for p in map(int, np.unique(pipeline))}
    deepest = {p: float(max(layers)) for p, layers in stages.items()}
    last = {p: float(layers[-1]) for p, layers in stages.items()}
    if np.ndim(pipeline) == 0:
        return deepest[int(pipeline)], last[int(pipeline)]
    return np.vectorize(deepest.get)(pipeline), np.vectorize(last.get)(pipeline)
