"""The best way to spread a training step over a cluster.

Every combination of tensor, pipeline, virtual-pipeline, context, expert and data parallel degree, micro-batch,
sharding, recomputation and sequence parallelism is enumerated. Those that do not divide, then those that do not fit in
memory, are rejected before any step is timed; the rest are timed as arrays by the very functions that time a single
plan.

What is left out is infeasible or provably not faster:

- more recomputation than fits needs is slower, all else equal, since it adds work and nothing else;
- sequence parallelism moves the same bytes over the links and fewer through memory, and stores less;
- sharding the optimizer state sends no more bytes than not sharding it, updates fewer parameters and stores less;
- sharding gradients too only adds to what sharding the optimizer state sends, and matters where that does not fit and
  the stack keeps no whole gradients;
- recomputing a flash attention core alone repeats nothing that the kernel does not repeat anyway;
- in large spaces, what needs twice the best step for its layers alone is slower than twice the best step;
- where only the quickest are asked for, what its stages and bubble alone make slower than as many others, with the
  least recomputation of all ways to shard it; for several searches at once, with the quickest of its layers, with what
  these compute alone, or with what replicas exchange beside the largest micro-batches that fit.

What is tried is in `fixed_degrees` and `search_space`, what divides of it in `search_groups` and `search_grid`, what
fits in `fitting`. Steps are put together in `layer_times`, `search_states` and `search_field`; which of them are timed
is in `search_choice`, and for several searches at once in `search_shortlist` and `search_bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.formulas.arrays import Array, any_, where
from app.formulas.training import memory
from app.formulas.training.arguments import Parallelism
from app.formulas.training.columns import Whole
from app.formulas.training.divisibility import Counts, Flags, batch_divides, gpus_divide, staged
from app.formulas.training.fitting import Enumeration, Fitting
from app.formulas.training.fixed_degrees import NONE, OPTIMIZER
from app.formulas.training.search import Contests, Search, SearchResult
from app.formulas.training.search_choice import all_worth, quickest_timed
from app.formulas.training.search_field import Field
from app.formulas.training.search_shortlist import families_of, quickest_together
from app.formulas.training.stacking import row


def best(search: Search, budget: float = 1.0, timed: bool = True, quickest: int | None = None) -> SearchResult:
    """Enumerate, reject, prune and time.

    Args:
        search: the job, the machine, the stack, and what is fixed.
        budget: share of the memory capacity that may be filled.
        timed: whether to time what fits, or only to say what does.
        quickest: how many are wanted; ``None`` means all that are timed [1].
    """
    return best_of([search], budget, timed, quickest)[0]


def best_of(
    searches: Sequence[Search],
    budget: float = 1.0,
    timed: bool = True,
    quickest: int | None = None,
    contests: Contests | None = None,
) -> list[SearchResult]:
    """The same of several searches of one model, stack and calibration with `alike` links, timed in one call.

    Their GPUs, jobs and links may differ in numbers. The quickest of them are looked for in one table, and not where
    only the best of each is wanted and it cannot win its contest.
    """
    if any(search.fixed.single for search in searches):
        return _singles(searches, [search.limit(budget) for search in searches])
    if timed and quickest is not None and len(searches) > 1:
        return quickest_together(searches, budget, quickest, contests)
    merged, limits = Search.merged(searches), np.array([search.limit(budget) for search in searches])
    enumeration = Enumeration.of([search.space for search in searches])
    fitting = Fitting.of(limits, enumeration).frugal(merged)
    if not (timed and fitting.feasible.any()):
        times = fitting.untimed()
    else:
        field = Field.of(merged, families_of(searches), fitting)
        times = all_worth(field) if quickest is None else quickest_timed(field, quickest)
    return [*fitting.results(merged, times, quickest).values()]


@dataclass(frozen=True)
class Given:
    """Configurations in which everything is given.

    Attributes:
        parallelism: the configurations.
        whole: whether their degrees multiply to the cluster, and the model divides by them.
        divides: whether they divide.
        held: what the fullest GPU holds, where any does [B].
    """

    parallelism: Parallelism
    whole: Flags
    divides: Flags
    held: memory.Memory | None

    @property
    def memory(self) -> Array:
        """What the fullest GPU holds where they divide [B]."""
        return np.nan if self.held is None else where(self.divides, self.held.total, np.nan)


def few(search: Search) -> Whole:
    """What can be tried where tensor and pipeline degree and micro-batch are given.

    Returns:
        Columns of virtual-pipeline, context and expert degree, sharding and recomputation, in the order of the search;
        no row where the stages cannot be [1].

    >>> from app.formulas.training.arguments import Software
    >>> from app.formulas.training.examples import EXPERTS, GPU, JOB, LINKS, LOSSLESS
    >>> from app.formulas.training.fixed_degrees import FixedDegrees
    >>> pairs = FixedDegrees(2, 2, micro_batch=1, sharding=0, recompute=0)
    >>> few(Search(EXPERTS, JOB, GPU, Software(), LOSSLESS, LINKS, 8, pairs)).T[:3]
    array([[1, 1, 1, 1, 5, 5, 5, 5],
           [1, 1, 1, 1, 1, 1, 1, 1],
           [1, 2, 4, 8, 1, 2, 4, 8]])
    """
    space, fixed = search.space, search.fixed
    lists = space.degrees([int(space.gpus)])
    for name in ("tensor", "pipeline", "context", "expert"):
        degrees = np.array(lists[name], np.int64)
        lists[name] = degrees[space.tried(name, degrees)[0]].tolist()
    stages = space.stages(lists["pipeline"])
    kinds = [fixed.sharding] if fixed.sharding is not None else [kind for kind in lists["sharding"] if kind > NONE]

    def shared(kind: int, context: int) -> list[int]:
        """A kind of sharding as it is among so many replicas: nothing can be shared by one."""
        several = search.gpus // (lists["tensor"][0] * lists["pipeline"][0] * context) * context > 1
        return [kind] if several or fixed.sharding is not None else [NONE] if kind == OPTIMIZER else []

    rows = [
        (v, c, e, sharding, level)
        for level in sorted(lists["recompute"])
        for kind in kinds
        for _, v in stages
        for c in lists["context"]
        for sharding in shared(kind, c)
        for e in lists["expert"]
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def given(search: Search) -> Given:
    """Whether configurations in which everything is given divide, and their memory.

    Args:
        search: one search, or several as one: every number of its job, GPU, constants and degrees may be a column.

    Returns:
        What there is to find where nothing is to be searched for.

    >>> from app.formulas.training.arguments import Software
    >>> from app.formulas.training.examples import GPU, JOB, LINKS, LOSSLESS, MODEL
    >>> from app.formulas.training.fixed_degrees import FixedDegrees
    >>> pairs = FixedDegrees(2, 1, 1, 1, 1, 1, sharding=0, sequence_parallel=False, recompute=0)
    >>> given(Search(MODEL, JOB, GPU, Software(), LOSSLESS, LINKS, np.array([8, 12]), pairs)).divides
    array([ True, False])
    """
    fixed, job = search.fixed, search.job
    degrees = "tensor", "pipeline", "virtual_pipeline", "context", "expert", "micro_batch", "sharding", "recompute"
    t, p, v, c, e, b, sharding, recompute = (getattr(fixed, name) for name in degrees)
    spans = e * fixed.ranks_of_expert(t)
    data, whole, spread = gpus_divide(search.gpus, t, p, c, spans)
    even, rounds = (whole & divided for divided in batch_divides(_integer(job.global_batch), data, p, b))
    length = _integer(job.sequence_length)
    possible = staged(search.shape, p, v, len(fixed.chunks)) & fixed.divides(search.shape, length, t, p, c, e)
    settings = {
        "tensor": t * 1.0,
        "pipeline": p * 1.0,
        "virtual_pipeline": v * 1.0,
        "context": c * 1.0,
        "expert": e * 1.0,
        "micro_batch": b * 1.0,
        "sharding": sharding * 1.0,
        "sequence_parallel": fixed.splits(t),
    }
    parallelism = search.parallelism(settings, recompute)
    divides = possible & where(v > 1, rounds, even) & spread & fixed.shares(data * c)
    held = None
    if any_(divides):
        held = memory.memory(search.shape, job, parallelism, search.software, search.calibration)
    return Given(parallelism, possible & whole, divides, held)


def _integer(number: Array) -> Counts:
    return number.astype(np.int64) if isinstance(number, np.ndarray) else int(number)


def _singles(searches: Sequence[Search], limits: Sequence[float]) -> list[SearchResult]:
    """The searches where everything is given: all there is to find is whether that divides and fits."""
    only = given(Search.merged(searches, linked=False))
    columns = (np.broadcast_to(column, len(searches)).tolist() for column in (only.whole, only.divides, only.memory))
    results = []
    for place, (limit, whole, divides, size) in enumerate(zip(limits, *columns, strict=True)):
        fits, parallelism = size <= limit, row(only.parallelism, place)
        results.append(
            SearchResult(
                enumerated=int(whole),
                divisible=int(divides),
                feasible=int(fits),
                evaluated=0,
                parallelism=parallelism,
                time=np.full(int(fits), np.nan),
                memory=np.full(int(fits), size),
                smallest_memory=np.nan if fits else size,
                smallest=parallelism if divides and not fits else None,
                held=row(only.held, place) if divides and only.held else None,
            )
        )
    return results
