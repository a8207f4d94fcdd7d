"""What a search can try: the values of each degree and setting, before they are combined.

Only what may divide the model and the cluster is tried. Nothing here rests on the rates of GPUs and links, so that
searches on other networks share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.formulas.arrays import Array
from app.formulas.records import but
from app.formulas.training.arguments import ALL_TO_ALL, Job, Software
from app.formulas.training.columns import Whole
from app.formulas.training.divisibility import Counts, Flags, divisors, heads_divide, pairs_up, staged
from app.formulas.training.fixed_degrees import GRADIENTS, SHARDINGS, FixedDegrees
from app.formulas.training.stacking import rows_of, stacked
from app.formulas.transformer import Shape

SHORTEST_SHARE = 512
"""Tokens of a sequence that context parallelism leaves on a rank at least; shorter shares only add communication."""


class Space(NamedTuple):
    """What a search can try, and what decides how much memory each takes; GPUs and networks share it.

    Attributes:
        shape, job, software, gpus, fixed: as in `Search`.
        largest_tensor: highest tensor-parallel degree tried [1].
        context: memory that the driver and its libraries take, as in `app.formulas.training.memory.activity` [B].
        fragmentation: share by which reserved memory exceeds allocated memory, as there [1].
    """

    shape: Shape
    job: Job
    software: Software
    gpus: Counts
    fixed: FixedDegrees
    largest_tensor: int
    context: Array
    fragmentation: Array

    def with_batch(self, batch: Array) -> Space:
        """The same with other sequences in a step [1]."""
        return self._replace(job=but(self.job, global_batch=batch))

    @property
    def apart_from_batch(self) -> tuple[Any, ...]:
        """What tells it from others of its model and stack, but for the sequences in a step."""
        job = (value for name, value in vars(self.job).items() if name != "global_batch")
        return (self.gpus, self.largest_tensor, *job)

    @classmethod
    def merged(cls, spaces: Sequence[Space]) -> Space:
        """Several of one model and stack as one, whose numbers are columns where they differ; the only one as it is."""
        first, *others = spaces
        if not others:
            return first
        return first._replace(
            job=stacked([space.job for space in spaces]), gpus=np.array([space.gpus for space in spaces])
        )

    def of_owners(self, owners: Whole) -> Space:
        """Of several that are merged the one that each row belongs to; a lone one is that of every row."""
        if not isinstance(self.gpus, np.ndarray):
            return self
        return self._replace(job=rows_of(self.job, owners), gpus=self.gpus[owners])

    def degrees(self, sizes: Iterable[int]) -> dict[str, list[int]]:
        """Candidate values of each setting but the micro-batch on any cluster of some sizes, ascending, before they are
        combined.

        No pipeline degree is left where those that are given do not divide the model.

        Args:
            sizes: GPUs of the clusters, among whose divisors pipeline degrees are: of a model's layers, which may be a
                million, most divide no cluster [1].
        """
        shape, fixed = self.shape, self.fixed
        heads, experts, sequence = int(shape.heads), int(shape.experts), int(self.job.sequence_length)
        tensor = [t for t in divisors(heads) if t <= self.largest_tensor and heads_divide(shape, t)]
        stages_tried = sorted({p for gpus in {*sizes} for p in divisors(gpus)})
        pipeline = [p for p in stages_tried if p <= int(shape.depth) and pairs_up(p, fixed.bidirectional)]
        context = [c for c in divisors(sequence) if sequence % (2 * c) == 0 and sequence // c >= SHORTEST_SHARE] or [1]
        if fixed.context_exchange == ALL_TO_ALL:
            context = [c for c in context if heads % c == 0]
        degrees = (degree or 1 for degree in (fixed.tensor, fixed.pipeline, fixed.context, fixed.expert))
        stages = _choices(fixed.pipeline, pipeline) if fixed.divides(shape, sequence, *degrees) else []
        stack = self.software
        selective = float(stack.flash) < 1 or float(stack.selective_linear) > 0 or float(stack.selective_modules) > 0
        return {
            "tensor": _choices(fixed.tensor, tensor),
            "pipeline": stages,
            "context": _choices(fixed.context, context),
            "expert": _choices(fixed.expert, divisors(experts) if experts else [1]),
            "sharding": _choices(
                fixed.sharding, [kind for kind in SHARDINGS if kind != GRADIENTS or stack.reduces_each]
            ),
            "recompute": _choices(fixed.recompute, [0, 1, 2] if selective else [0, 2]),
            "sequence_parallel": [0, 1] if fixed.sequence_parallel is None else [int(fixed.sequence_parallel)],
        }

    def tried(self, name: str, degrees: Whole) -> Flags:
        """Which values of a degree may divide into the GPUs, by cluster; one that is given is tried everywhere."""
        if getattr(self.fixed, name) is not None:
            return np.ones((np.size(self.gpus), len(degrees)), bool)
        return np.reshape(self.gpus, (-1, 1)) % degrees == 0

    def micro_batches(self, batch: int) -> list[int]:
        """Sequences of a micro-batch, of so many in a step [1]."""
        return _choices(self.fixed.micro_batch, divisors(batch))

    def sizes(self, each: int) -> Whole:
        """Micro-batches that divide so many sequences of a replica, ascending [1]."""
        given = self.fixed.micro_batch
        return _divisors(each) if given is None else np.array([given] if each % given == 0 else [], np.int64)

    def stages(self, degrees: Sequence[int]) -> list[tuple[int, int]]:
        """Pipeline and virtual-pipeline degrees: chunks divide the layers, with or without the embedding and the head.

        A number of stages or chunks that is given may be any for which there are layers, embedding and head enough:
        layouts of uneven stages are written by hand. Where such a layout is given, its chunks divide into the stages.
        """
        shape, fixed = self.shape, self.fixed
        depth, virtual_pipeline, laid = int(shape.depth), fixed.virtual_pipeline, len(fixed.chunks)
        stages: list[tuple[int, int]] = []
        if virtual_pipeline is not None:
            return [(p, virtual_pipeline) for p in degrees if staged(shape, p, virtual_pipeline, laid)]
        if laid:
            return [(p, laid // p) for p in degrees if laid % p == 0]
        for p in (p for p in degrees if staged(shape, p, 1, laid)):
            whole = [d for d in (depth, depth + 2) if p > 1 and d % p == 0][:1]
            chunks = sorted({1, *(v for d in whole for v in divisors(d // p))})
            stages += [(p, v) for v in chunks]
        return stages


def _choices(fixed: int | None, options: Sequence[int]) -> list[int]:
    return list(options) if fixed is None else [fixed]


@lru_cache(maxsize=1024)
def _divisors(number: int) -> Whole:
    """All divisors as an array, ascending [1]. Kept: shares of many batches and clusters are equal."""
    dividing = np.array(divisors(number), np.int64)
    dividing.flags.writeable = False
    return dividing
