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
  least recomputation of all ways to shard it; for several batches at once, with the quickest of its layers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.formulas import tail
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.group_times import KNOWN, Links, known_pair_of, pair_of, send_time
from app.formulas.training import exchanges, step, traffic
from app.formulas.training import memory as training_memory
from app.formulas.training.arguments import ALL_TO_ALL, RING, Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.divisibility import (
    experts_divide,
    heads_divide,
    heads_exchange,
    pairs_up,
    sequence_divides,
    shape_is_possible,
    staged,
)
from app.formulas.training.exchanges import NOTHING, Exchange, LayerExchanges, StepExchanges
from app.formulas.training.stacking import link_rows, rows_of, stacked, stacked_links
from app.formulas.transformer import Held, Shape

Whole = NDArray[np.int64]
Numbers = NDArray[np.float64]
Counts = Any
"""Integers, or arrays of them."""
Flags = Any
"""Booleans, or arrays of them."""

SHARDINGS = NONE, OPTIMIZER, GRADIENTS, PARAMETERS = range(4)
SHORTEST_SHARE = 512
"""Tokens of a sequence that context parallelism leaves on a rank at least; shorter shares only add communication."""
ROWS_AT_ONCE = 4_000
"""Configurations timed in one pass: their arrays stay in the processor's cache."""
FIRST_BATCH = 8_000
"""Configurations timed first when there are many, those with the quickest layers."""
FEW = 4_000
"""Configurations up to which all are listed, however slow."""
PRUNE_FACTOR = 2.0
"""Times the best step beyond which one of more configurations is neither listed nor timed to the end."""
PROMISING = 96
"""Configurations, whatever shards them, timed first at least where only the quickest are wanted."""
PROMISING_EACH = 3
"""As many for each that is wanted."""
RUNS_EACH = 2
"""Runs for each of these whose experts' degrees are bound one by one: those with the lowest bounds over all."""
SPLITS, SPLITS_EACH = 400, 2
"""Splits whose runs are looked at where only the quickest are wanted, those with the lowest bounds: at least, and as
many more for each that is wanted."""
ROUNDING = 1e-9
"""Share by which a bound may be above what it bounds, for being added up in another order."""


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

    def shares(self, replicas: Counts) -> Flags:
        """Whether so many replicas divide into groups that share one copy; where there are fewer, they are one group.

        >>> FixedDegrees(sharding_group=4).shares(np.array([2, 8, 10]))
        array([ True,  True, False])
        """
        if self.sharding_group is None:
            return True
        return (self.sharding == NONE) | (replicas <= self.sharding_group) | (replicas % self.sharding_group == 0)

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
        configurations = Parallelism(**settings)
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
        return Parallelism(**columns)


@dataclass(frozen=True)
class SearchResult:
    """What the search saw, quickest first.

    Attributes:
        enumerated: whole configurations whose degrees multiply to the cluster [1].
        divisible: those whose layers, heads, batch and experts divide [1].
        feasible: those that also fit in memory, of each that differ in recomputation only the least; where only the
            quickest of several batches are wanted, at least one of these if there is one [1].
        evaluated: those timed; the other feasible ones are provably slower [1].
        parallelism: the timed ones, quickest first, as arrays.
        time: their step times; NaN where nobody asked, or everything is given and there is nothing to compare [s].
        memory: their memory [B].
        smallest_memory: where nothing fits, what the smallest configuration needs; NaN if none divides [B].
        smallest: that configuration, if there is one; ``None`` where one fits.
    """

    enumerated: int
    divisible: int
    feasible: int
    evaluated: int
    parallelism: Parallelism
    time: NDArray[np.float64]
    memory: NDArray[np.float64]
    smallest_memory: float
    smallest: Parallelism | None

    def best(self, rank: int = 0) -> Parallelism | None:
        """The configuration of this rank; ``None`` where so many did not fit."""
        return row(self.parallelism, rank) if rank < len(self.time) else None


def row(parallelism: Parallelism, index: int) -> Parallelism:
    """One configuration out of arrays of them."""
    columns = vars(parallelism).items()
    return Parallelism(
        **{name: float(column[index] if isinstance(column, np.ndarray) else column) for name, column in columns}
    )


def rows(parallelism: Parallelism, selected: Whole | slice) -> Parallelism:
    """Some configurations out of arrays of them; a number is the same for all."""
    columns = vars(parallelism).items()
    return Parallelism(
        **{name: column[selected] if isinstance(column, np.ndarray) else column for name, column in columns}
    )


@dataclass(frozen=True)
class Search:
    """What is searched for the best parallelism, all numbers of it scalars.

    Attributes:
        shape: the model.
        job: what one step computes.
        gpu: rates of a GPU.
        software: the stack.
        calibration: the constants of the step.
        links: of the cluster.
        gpus: GPUs that train, all of them used [1].
        fixed: settings that are fixed.
    """

    shape: Shape
    job: Job
    gpu: GpuRates
    software: Software
    calibration: Calibration
    links: Links
    gpus: Counts
    fixed: FixedDegrees = FixedDegrees()

    def with_batch(self, batch: Array) -> Search:
        """The same with other sequences in a step, or with some in each row [1]."""
        return replace(self, job=replace(self.job, global_batch=batch))

    @property
    def space(self) -> _Space:
        """What can be tried, whatever the GPU's rates and the links."""
        most = self.fixed.largest_tensor or max(int(self.gpu.scale_up_domain), 1) * 4
        context, fragmentation = self.calibration.context_memory, self.calibration.fragmentation
        return _Space(self.shape, self.job, self.software, self.gpus, self.fixed, most, context, fragmentation)

    def parallelism(self, settings: Mapping[str, Array], recompute: Array | Whole = 0) -> Parallelism:
        """Configurations of all GPUs: see `FixedDegrees.spread`."""
        return self.fixed.spread(self.gpus, settings, recompute)


class _Space(NamedTuple):
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

    def with_batch(self, batch: Array) -> _Space:
        """The same with other sequences in a step, or with some in each row [1]."""
        return self._replace(job=replace(self.job, global_batch=batch))


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


def divisors(number: int) -> list[int]:
    """All divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return list(_divisors(number))


@lru_cache(maxsize=4096)
def _divisors(number: int) -> tuple[int, ...]:
    low = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return tuple(low + [number // i for i in reversed(low) if i * i != number])


def _choices(fixed: int | None, options: Sequence[int]) -> list[int]:
    return list(options) if fixed is None else [fixed]


def _divides_model(
    shape: Shape, fixed: FixedDegrees, length: Counts, tensor: Counts, pipeline: Counts, context: Counts, expert: Counts
) -> Flags:
    """Whether a possible model and its sequences divide by these degrees, whatever the cluster and the batch."""
    return (
        shape_is_possible(shape)
        & heads_divide(shape, tensor)
        & heads_exchange(shape, tensor, context, fixed.context_exchange)
        & sequence_divides(length, context, fixed.causal_balance)
        & experts_divide(shape, expert)
        & pairs_up(pipeline, fixed.bidirectional)
    )


def _degrees(space: _Space) -> dict[str, list[int]]:
    """Candidate values of each setting but the micro-batch, before they are combined.

    No pipeline degree is left where those that are given do not divide the model.
    """
    shape, job, gpus, fixed = space.shape, space.job, space.gpus, space.fixed
    heads, experts, sequence = int(shape.heads), int(shape.experts), int(job.sequence_length)
    tensor = [t for t in divisors(heads) if gpus % t == 0 and t <= space.largest_tensor and heads_divide(shape, t)]
    pipeline = [p for p in divisors(gpus) if p <= int(shape.depth) and pairs_up(p, fixed.bidirectional)]
    context = [c for c in divisors(gpus) if sequence % (2 * c) == 0 and sequence // c >= SHORTEST_SHARE] or [1]
    if fixed.context_exchange == ALL_TO_ALL:
        context = [c for c in context if heads % c == 0]
    degrees = (degree or 1 for degree in (fixed.tensor, fixed.pipeline, fixed.context, fixed.expert))
    stages = _choices(fixed.pipeline, pipeline) if _divides_model(shape, fixed, sequence, *degrees) else []
    stack = space.software
    selective = float(stack.flash) < 1 or float(stack.selective_linear) > 0 or float(stack.selective_modules) > 0
    return {
        "tensor": _choices(fixed.tensor, tensor),
        "pipeline": stages,
        "context": _choices(fixed.context, context),
        "expert": _choices(fixed.expert, [e for e in divisors(experts) if gpus % e == 0] if experts else [1]),
        "sharding": _choices(fixed.sharding, [kind for kind in SHARDINGS if kind != GRADIENTS or stack.reduces_each]),
        "recompute": _choices(fixed.recompute, [0, 1, 2] if selective else [0, 2]),
        "sequence_parallel": [0, 1] if fixed.sequence_parallel is None else [int(fixed.sequence_parallel)],
    }


def _stages(shape: Shape, degrees: Sequence[int], fixed: FixedDegrees) -> list[tuple[int, int]]:
    """Pipeline and virtual-pipeline degrees: chunks divide the layers, with or without the embedding and the head.

    A number of stages or chunks that is given may be any for which there are layers, embedding and head enough: layouts
    of uneven stages are written by hand. Where such a layout is given, its chunks divide into the stages.
    """
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


def _division(
    gpus: int, tensor: Counts, pipeline: Counts, context: Counts, spans: Counts
) -> tuple[Counts, Flags, Flags]:
    """What divides into the GPUs; ``spans`` are the ranks that hold all experts once.

    Returns:
        Replicas, rounded down; whether the degrees multiply to the cluster; whether the ranks divide into groups of
        experts.
    """
    model = tensor * pipeline * context
    data = gpus // model
    return data, gpus % model == 0, data * tensor * context % spans == 0


def _rounds(batch: Counts, data: Counts, pipeline: Counts, micro_batch: Counts) -> tuple[Flags, Flags]:
    """Whether a batch divides into micro-batches of its replicas, and those into rounds of an interleaved schedule.

    Floats divide ten times as fast as integers, and exactly where the integers do: these are far below 2**53.
    """
    each = batch / np.maximum(data * micro_batch, 1)
    rounds = each / pipeline
    even = each == np.floor(each)
    return even, even & (rounds == np.floor(rounds))


@dataclass(frozen=True)
class _Groups:
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
    columns: Mapping[str, Numbers]
    spare: bool
    recompute: list[int]
    states: Numbers
    kept_bytes: tuple[Numbers, Numbers]


def _groups(space: _Space) -> _Groups:
    """Kept: all batches of a job on a cluster share them."""
    return _known_groups.of(space.with_batch(0.0), _make_groups)


def _make_groups(space: _Space) -> _Groups:
    shape, job, gpus, fixed, software = space.shape, space.job, space.gpus, space.fixed, space.software
    lists = _degrees(space)
    stages = np.array(_stages(shape, lists["pipeline"], fixed), np.int64).reshape(-1, 2)
    p, kind = np.unique(stages[:, 0], return_inverse=True)
    t, c, e, shardings = (np.array(lists[name], np.int64) for name in ("tensor", "context", "expert", "sharding"))
    across = t[:, None, None], p[:, None, None, None], c[:, None]
    data, whole, spread = _division(gpus, *across, e * fixed.ranks_of_expert(across[0]))
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
    left, left_whole = training_memory.kept_bytes(shape, job, layer, software)
    table = len(levels), len(t)
    variants = len(shardings) * len(levels) * len(lists["sequence_parallel"])
    return _Groups(
        variants=variants,
        enumerated=int(whole[kind].sum()) * len(e) * variants,
        stages=stages,
        kind=kind,
        chunked=np.where(stages[:, 1] > 1, 1, 0),
        degrees=(p, t, c, e),
        data=data,
        experts=np.count_nonzero(spread & whole, axis=-1).astype(np.float64),
        open=open_,
        columns={name: _table(axis, kept) for name, axis in kept.items()},
        spare=fixed.sharding is None and GRADIENTS in lists["sharding"],
        recompute=lists["recompute"],
        states=np.broadcast_to(
            sum(training_memory.states(shape, job, fixed.spread(gpus, kept), software)), open_.shape
        ),
        kept_bytes=(np.broadcast_to(left, table), np.broadcast_to(left_whole, table)),
    )


@dataclass(frozen=True)
class _Splits:
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

    groups: _Groups
    batches: Numbers
    enumerated: Whole
    divisible: Whole
    divides: Flags
    owner: Whole
    size: Whole
    cells: Mapping[str, Numbers]
    axes: Sequence[Numbers]

    def job(self, job: Job, batch: Whole) -> Job:
        """What steps of some of the batches compute; a number where there is one batch."""
        return replace(job, global_batch=self.batches[batch if len(self.batches) > 1 else 0])

    @cached_property
    def batch(self) -> Whole:
        """The place of each share's batch [1]."""
        return np.tile(self.owner, self.divides.shape[2] // max(len(self.owner), 1))

    @cached_property
    def cell(self) -> Whole:
        """The place of each share's cell [1]."""
        degrees = np.arange(self.divides.shape[2] // max(len(self.owner), 1))
        return (degrees[:, None] * len(self.axes[2]) + self.size).ravel()

    def room(self, limit: float) -> Flags:
        """Whether weights, gradients and optimizer state of each leave room, in some sharding, below a limit [B]."""
        roomy = (self.groups.open & (self.groups.states <= limit)).any(axis=(0, -1))
        return np.repeat(roomy, len(self.owner), axis=-1).reshape(self.divides[0].shape)

    def grid(self, worth: Flags | None = None) -> _Grid:
        """The runs of those that are worth it; ``None`` means all."""
        groups, stages = self.groups, self.groups.stages
        divides = (self.divides if worth is None else self.divides & worth)[groups.chunked, groups.kind]
        stage, share = _divided(np.flatnonzero(divides), divides.shape[1])
        cell, batch = share, np.zeros(len(share), np.int64)
        if len(self.batches) > 1:
            cell, batch = self.cell[share], self.batch[share]
        micro_batches = max(len(self.owner), 1)
        of_stages = dict(zip(("pipeline", "virtual_pipeline"), stages.T.astype(np.float64), strict=True))
        return _Grid(
            splits=self,
            runs=_rows(of_stages, stage) | _rows(self.cells, cell),
            group=groups.kind[stage] * (divides.shape[1] // micro_batches) + share // micro_batches,
            cell=cell,
            batch=batch,
        )


@dataclass(frozen=True)
class _Grid:
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

    splits: _Splits
    runs: Mapping[str, Numbers]
    group: Whole
    cell: Whole
    batch: Whole

    @property
    def groups(self) -> _Groups:
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

    def at(self, places: Whole) -> _Candidates:
        """The candidates at some places of the table, counted through."""
        rest, run = _divided(places, len(self.group))
        sharding, expert = _divided(rest, len(self.experts))
        groups = self.groups.open[0].size // len(self.experts)
        state = (sharding * groups + self.group[run]) * len(self.experts) + expert
        return _Candidates(run, expert, state)

    def batch_of(self, places: Whole) -> Whole:
        """Of some places of the table, or of its runs, those of their batches [1]."""
        return self.batch[places % max(len(self.group), 1)]

    def of_each_batch(self, places: Whole) -> list[Any]:
        """Which of some places of the table, or of its runs, are each batch's."""
        many = len(self.splits.batches)
        if many == 1:
            return [slice(None)]
        batch = self.batch_of(places)
        ends = np.cumsum(np.bincount(batch, minlength=many))
        return np.split(np.argsort(batch, kind="stable"), ends[:-1])

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

    def columns(self, some: _Candidates) -> dict[str, Numbers]:
        """Some candidates, setting by setting."""
        kept = {"expert": self.experts[some.expert], "sharding": self.groups.columns["sharding"][some.state]}
        return _rows(self.runs, some.run) | kept


class _Candidates(NamedTuple):
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


def _rows(columns: Mapping[str, Numbers], rows: Whole) -> dict[str, Numbers]:
    return {name: column[rows] for name, column in columns.items()}


def _distinct(places: Whole) -> Whole:
    """The different numbers among places, ascending."""
    seen = np.zeros(int(places.max(initial=-1)) + 1, bool)
    seen[places] = True
    return np.flatnonzero(seen)


def _table(values: Array, axes: Mapping[str, Numbers]) -> Numbers:
    """Values over open axes, written out and flattened."""
    table = np.empty(np.broadcast(*axes.values()).shape)
    table[...] = values
    return table.ravel()


def _splits(space: _Space, batches: Sequence[int]) -> _Splits:
    groups, fixed = _groups(space), space.fixed
    p, t, c, e = groups.degrees
    tried = [_choices(fixed.micro_batch, divisors(batch)) for batch in batches]
    owner = np.repeat(np.arange(len(batches)), [*map(len, tried)])
    micro_batch = np.array([*chain.from_iterable(tried)], np.int64)
    sequences = np.array(batches, np.float64)
    even, rounds = _rounds(sequences[owner], groups.data, p[:, None, None, None], micro_batch)
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
    return _Splits(
        groups=groups,
        batches=sequences,
        enumerated=groups.enumerated * np.bincount(owner, minlength=len(batches)),
        divisible=groups.variants * np.bincount(owner, divisible, len(batches)).astype(np.int64),
        divides=divides.reshape(2, len(p), degrees * len(micro_batch)),
        owner=owner,
        size=np.searchsorted(b, micro_batch),
        cells={name: _table(axis, cells) for name, axis in cells.items()},
        axes=axes,
    )


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
    searches: Sequence[Search], budget: float = 1.0, timed: bool = True, quickest: int | None = None
) -> list[SearchResult]:
    """The same of several searches of one model, stack and calibration with `alike` links, timed in one call.

    What fits does not depend on the links: it is looked for once for all searches that differ in nothing else. The
    quickest of searches that differ in nothing but their batches are looked for in one table.
    """
    if any(search.fixed.single for search in searches):
        return [_single(search, budget * _capacity(search)) for search in searches]
    members = _but_for_batches(searches) if timed and quickest is not None else []
    if quickest is not None and 0 < len(members) < len(searches):
        results = _quickest_of(_families(searches, members, budget), quickest)
        return [results[place] for place in range(len(searches))]
    known: dict[tuple[Job, GpuRates, int], _Fitting] = {}
    for search in searches:
        key = search.job, search.gpu, search.gpus
        if key not in known:
            known[key] = _frugal(search, _fitting(search, budget * _capacity(search)))
    fitted = [known[search.job, search.gpu, search.gpus] for search in searches]
    timed &= any(fitting.feasible.any() for fitting in fitted)
    if not timed:
        times = [fitting.untimed for fitting in fitted]
    elif quickest is None:
        times = _all_worth(_Field.of(searches, fitted))
    else:
        times = [timing for (timing,) in _quickest(_Field.of(searches, fitted), quickest)]
    return [
        _result(search, fitting, time, quickest)
        for search, fitting, time in zip(searches, fitted, times, strict=True)
    ]  # fmt: skip


def _capacity(search: Search) -> float:
    return float(np.ravel(search.gpu.memory_capacity)[0])


class _Timed(NamedTuple):
    """Some candidates of a grid, and their step times.

    Attributes:
        places: where each is in the grid, counted through [1].
        time: step time of each [s].
        evaluated: how many were timed [1].
    """

    places: Whole
    time: Numbers
    evaluated: int


def _result(search: Search, fitting: _Fitting, timed: _Timed, quickest: int | None, batch: int = 0) -> SearchResult:
    """The quickest of the places that are worth it, with their times, of the batch at some place."""
    grid, places, time = fitting.grid, timed.places, timed.time
    order = _ordered(fitting, places, time)[:quickest]
    places, time = places[order], time[order]
    some = grid.at(places)
    return SearchResult(
        enumerated=int(grid.splits.enumerated[batch]),
        divisible=int(grid.splits.divisible[batch]),
        feasible=int(fitting.feasible[batch]),
        evaluated=timed.evaluated,
        parallelism=search.parallelism(grid.columns(some), fitting.recompute(places)),
        time=time,
        memory=fitting.memory(places, some),
        smallest_memory=fitting.smallest_memory,
        smallest=fitting.smallest,
    )


def _ordered(fitting: _Fitting, places: Whole, time: Numbers) -> Whole:
    """Places of times, quickest first, what is not a number last; equal ones as `_Grid.turns` has them."""
    order = np.argsort(time)  # a quarter of the time of one by all that decides
    ascending = time[order]
    if np.all(ascending[1:] > ascending[:-1]):
        return order
    return np.lexsort((*fitting.grid.turns(places), fitting.recompute(places), time))


@dataclass(frozen=True)
class Given:
    """Configurations in which everything is given.

    Attributes:
        parallelism: the configurations.
        whole: whether their degrees multiply to the cluster, and the model divides by them.
        divides: whether they divide.
        memory: what the fullest GPU holds where they do [B].
    """

    parallelism: Parallelism
    whole: Flags
    divides: Flags
    memory: Array


def few(search: Search) -> NDArray[np.int64]:
    """What can be tried where tensor and pipeline degree and micro-batch are given.

    Returns:
        Columns of virtual-pipeline, context and expert degree, sharding and recomputation, in the order of the search;
        no row where the stages cannot be [1].

    >>> from app.formulas.training.examples import EXPERTS, GPU, JOB, LINKS, LOSSLESS
    >>> pairs = FixedDegrees(2, 2, micro_batch=1, sharding=0, recompute=0)
    >>> few(Search(EXPERTS, JOB, GPU, Software(), LOSSLESS, LINKS, 8, pairs)).T[:3]
    array([[1, 1, 1, 1, 5, 5, 5, 5],
           [1, 1, 1, 1, 1, 1, 1, 1],
           [1, 2, 4, 8, 1, 2, 4, 8]])
    """
    lists, fixed = _degrees(search.space), search.fixed
    stages = _stages(search.shape, lists["pipeline"], fixed)
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

    >>> from app.formulas.training.examples import GPU, JOB, LINKS, LOSSLESS, MODEL
    >>> pairs = FixedDegrees(2, 1, 1, 1, 1, 1, sharding=0, sequence_parallel=False, recompute=0)
    >>> given(Search(MODEL, JOB, GPU, Software(), LOSSLESS, LINKS, np.array([8, 12]), pairs)).divides
    array([ True, False])
    """
    fixed, job = search.fixed, search.job
    degrees = "tensor", "pipeline", "virtual_pipeline", "context", "expert", "micro_batch", "sharding", "recompute"
    t, p, v, c, e, b, sharding, recompute = (getattr(fixed, name) for name in degrees)
    spans = e * fixed.ranks_of_expert(t)
    data, whole, spread = _division(search.gpus, t, p, c, spans)
    even, rounds = (whole & divided for divided in _rounds(_integer(job.global_batch), data, p, b))
    length = _integer(job.sequence_length)
    possible = staged(search.shape, p, v, len(fixed.chunks)) & _divides_model(search.shape, fixed, length, t, p, c, e)
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
    size: Array = np.nan
    if any_(divides):
        whole_memory = training_memory.memory(search.shape, job, parallelism, search.software, search.calibration)
        size = where(divides, whole_memory.total, np.nan)
    return Given(parallelism, possible & whole, divides, size)


def _integer(number: Array) -> Counts:
    return number.astype(np.int64) if isinstance(number, np.ndarray) else int(number)


def _single(search: Search, limit: float) -> SearchResult:
    """The search where everything is given: all there is to find is whether that divides and fits."""
    only = given(search)
    size = float(only.memory)
    fits = size <= limit
    return SearchResult(
        enumerated=int(only.whole),
        divisible=int(only.divides),
        feasible=int(fits),
        evaluated=0,
        parallelism=only.parallelism,
        time=np.full(int(fits), np.nan),
        memory=np.full(int(fits), size),
        smallest_memory=np.nan if fits else size,
        smallest=only.parallelism if only.divides and not fits else None,
    )


@dataclass(frozen=True)
class _Fitting:
    """Which candidates fit in memory, each with the least recomputation that lets it.

    Attributes:
        grid: the candidates.
        level: of each, by sharding, experts' degree and run, its place among the levels of recomputation; one more
            where none fits [1].
        activity: memory of the activations of each run, by that place [B].
        feasible: how many fit, of each batch [1].
        smallest_memory: as in `SearchResult` [B].
        smallest: as in `SearchResult`.
    """

    grid: _Grid
    level: NDArray[np.int8]
    activity: Numbers
    feasible: Whole
    smallest_memory: float = np.nan
    smallest: Parallelism | None = None

    def every(self) -> Whole:
        """Places of all that fit."""
        return np.flatnonzero(self.level < len(self.activity))

    @property
    def untimed(self) -> _Timed:
        """All that fit, without their times."""
        places = self.every()
        return _Timed(places, np.full(len(places), np.nan), 0)

    def sharded(self, some: Whole) -> Whole:
        """Places of all shardings with which some experts' degrees and runs fit."""
        level = self.level.reshape(len(self.level), -1)
        sharding, which = np.nonzero(level[:, some] < len(self.activity))
        return sharding * level.shape[1] + some[which]

    @cached_property
    def least(self) -> NDArray[np.int8]:
        """The least level of each experts' degree and run, whatever shards them."""
        least: NDArray[np.int8] = self.level.min(axis=0)
        return least

    @cached_property
    def cells(self) -> Whole:
        """Places of the cells with which anything fits."""
        return _distinct(self.grid.cell[self.least.min(axis=0) < len(self.activity)])

    def levels(self, places: Whole) -> Whole:
        """The levels of recomputation of some."""
        return self.level.ravel()[places].astype(np.int64)

    def recompute(self, places: Whole) -> Whole:
        """How much some recompute: 0 none, 1 selective, 2 full [1]."""
        return np.array(self.grid.groups.recompute)[self.levels(places)]

    def memory(self, places: Whole, some: _Candidates) -> Numbers:
        """What some take on the fullest GPU [B]."""
        active: Numbers = self.activity[self.level.ravel()[places], some.run]
        return active + self.grid.groups.states.ravel()[some.state]


def _fitting(search: Search, limit: float, grid: _Grid | None = None) -> _Fitting:
    """The candidates that fit. The least recomputation is the quickest: more is only for what does not fit yet.

    Args:
        search: what is searched.
        limit: memory that may be filled [B].
        grid: the runs that are looked at; ``None`` means all.
    """
    grid, activity = _enumerated(search.space) if grid is None else (grid, _activity(search.space, grid))
    room = grid.by_run(np.where(grid.groups.open, limit - grid.groups.states, -1.0))
    crowded = np.ones(room.shape, bool)
    level = np.zeros(room.shape, np.int8)
    for busy in activity:
        crowded &= ~(busy <= room)
        level += crowded
    if grid.groups.spare:
        _drop_superfluous(grid, level, len(activity))
    return _Fitting(grid, level, activity, grid.counted(level < len(activity)))


def _drop_superfluous(grid: _Grid, level: NDArray[np.int8], none: int) -> None:
    """Take out sharded gradients, which cost time, where what shards the optimizer state alone fits as well."""
    sharding = grid.by_run(grid.groups.columns["sharding"])
    optimizer = np.where(sharding == OPTIMIZER, level, none).min(axis=0)
    level[(sharding == GRADIENTS) & (optimizer <= level)] = none


def _frugal(search: Search, fitting: _Fitting) -> _Fitting:
    """The same with the candidate that needs least, and its memory, where nothing fits: see `SearchResult`."""
    grid, activity = fitting.grid, fitting.activity
    if fitting.feasible.any() or not len(grid.group):
        return fitting
    held = grid.by_run(np.where(grid.groups.open, grid.groups.states, np.inf))
    sizes = (activity[:, None, None] + held).reshape(len(activity), -1)
    level, places = np.nonzero(sizes == sizes.min())
    first = np.lexsort((*grid.turns(places), level))[:1]
    columns = grid.columns(grid.at(places[first]))
    smallest = row(search.parallelism(columns, np.array(grid.groups.recompute)[level[first]]), 0)
    return replace(fitting, smallest_memory=float(sizes.min()), smallest=smallest)


_Enumerated = tuple[_Grid, Numbers]
Made = TypeVar("Made", _Groups, _Enumerated)


class _Kept(Generic[Made]):
    """What was made of spaces last: the last at least, and of those before it as many as there is room for.

    Attributes:
        size: what one takes [B].
        most: what all may take [B].
        bytes: what those kept take [B].
    """

    def __init__(self, size: Callable[[Made], int], most: int) -> None:
        self.size: Callable[[Made], int] = size
        self.most, self.bytes = most, 0
        self.kept: OrderedDict[_Space, Made] = OrderedDict()
        self.lock = Lock()

    def of(self, space: _Space, make: Callable[[_Space], Made]) -> Made:
        """What is kept of a space, or else is made of it now."""
        with self.lock:
            known = self.kept.get(space)
            if known:
                self.kept.move_to_end(space)
                return known
        made = make(space)
        with self.lock:
            if space not in self.kept:
                self.kept[space] = made
                self.bytes += self.size(made)
                while len(self.kept) > 1 and self.bytes > self.most:
                    self.bytes -= self.size(self.kept.popitem(last=False)[1])
        return made

    def forget(self) -> None:
        """Keep nothing."""
        with self.lock:
            self.kept.clear()
            self.bytes = 0


def _bytes_of(made: _Enumerated) -> int:
    """What an enumeration takes, but for what it shares with those of other batches [B]."""
    grid, activity = made
    splits = grid.splits
    columns = (*grid.runs.values(), *splits.cells.values(), splits.divides, grid.group, grid.cell, grid.batch)
    return sum(table.nbytes for table in (*columns, activity))


def _bytes_of_groups(groups: _Groups) -> int:
    """What degrees take [B]."""
    tables = (groups.data, groups.experts, groups.open, groups.states)
    return sum(table.nbytes for table in (*tables, *groups.columns.values(), *groups.kept_bytes))


_enumerations = _Kept(_bytes_of, 3_000_000)
"""Those of a batch that much divides, such as 720,720, take 3 to 6 MB each."""
_known_groups = _Kept(_bytes_of_groups, 2_000_000)
"""Those of a mixture of experts take 0.1 MB each, of GPUs that much divides 4 MB."""


def _enumerated(space: _Space) -> _Enumerated:
    """Candidates, and the memory of their activations, by recomputation and run.

    Kept: it takes a third of a search, and a study asks about equal numbers of other GPUs and on other networks.
    """
    return _enumerations.of(space, _enumerate)


def _enumerate(space: _Space) -> _Enumerated:
    grid = _splits(space, [int(space.job.global_batch)]).grid()
    return grid, _activity(space, grid)


def _activity(space: _Space, grid: _Grid) -> Numbers:
    """Memory of the activations, by recomputation and run [B]."""
    _, contexts, micro_batches, _ = map(len, grid.splits.axes)
    levels, tensor = np.array(grid.groups.recompute)[:, None], grid.cell // max(contexts * micro_batches, 1)
    left, left_whole = (np.take(table, tensor, axis=1) for table in grid.groups.kept_bytes)
    runs, memory = space.fixed.spread(space.gpus, grid.runs, levels), (space.context, space.fragmentation)
    job = grid.job(space.job)
    sizes = training_memory.activity(space.shape, job, runs, space.software, *memory, (left, left_whole))
    return np.broadcast_to(sum(sizes), (len(levels), len(grid.group)))


class _Once:
    """Things that candidates of some grids have in common: each is worked out when it is first asked for.

    Attributes:
        places: of each thing of each grid, where it is in the columns; -1 where it was not worked out yet.
        columns: of all that was worked out.
    """

    def __init__(self, sizes: Sequence[int], work: Callable[[list[Whole]], tuple[NDArray[Any], ...]]) -> None:
        self.places = [np.full(size, -1) for size in sizes]
        self.columns: tuple[NDArray[Any], ...] = ()
        self._work = work

    def hold(self, columns: tuple[NDArray[Any], ...]) -> None:
        """Take over all things of the only grid, which were worked out before."""
        self.places, self.columns = [np.arange(len(columns[0]))], columns

    def ask(self, things: Sequence[Whole]) -> None:
        """See to it that some things of each grid are worked out."""
        missing, count = [], len(self.columns[0]) if self.columns else 0
        for places, some in zip(self.places, things, strict=True):
            asked = np.zeros(len(places), bool)
            asked[some] = True
            new = np.flatnonzero(asked & (places < 0))
            places[new] = np.arange(count, count + len(new))
            count += len(new)
            missing.append(new)
        if any(map(len, missing)):
            parts = [part for part in (self.columns, self._work(missing)) if part]
            self.columns = tuple(map(_joined, zip(*parts, strict=True)))


class _Field:
    """What fits in some searches, and what its steps are put together from: equal layers and states are timed once.

    Attributes:
        searches: what is searched, alike but for numbers [1].
        merged: the searches as one, whose numbers are columns where they differ.
        fitted: what fits of each.
        layers: those of all searches, timed.
        states: what is exchanged beyond a layer, as `_Between` has it.
    """

    def __init__(self, searches: Sequence[Search], fitted: Sequence[_Fitting], layers: _Layers) -> None:
        self.searches, self.fitted, self.merged, self.layers = searches, fitted, _as_one(searches), layers
        groups = [fitting.grid.groups for fitting in fitted]
        sizes = [each.open.size for each in groups]
        self.states = _Once(sizes, lambda missing: _between(self.merged, groups, missing))
        if len(searches) == 1 and len(fitted[0].grid.splits.batches) == 1:
            self.states.hold(_every_between(searches[0].with_batch(0.0)))

    @classmethod
    def of(cls, searches: Sequence[Search], fitted: Sequence[_Fitting]) -> _Field:
        """With the layers of all that fits."""
        splits, cells = [fitting.grid.splits for fitting in fitted], [fitting.cells for fitting in fitted]
        return cls(searches, fitted, _Layers.of(searches, splits, cells))

    def least(self, owner: int, places: Whole) -> Numbers:
        """What some candidates of a search take at least, by their layers alone [s]."""
        fitting, search = self.fitted[owner], self.searches[owner]
        grid = fitting.grid
        rounds = np.asarray(step.least_time(1.0, search.shape, search.job, search.parallelism(grid.runs)))
        some = grid.at(places)
        return rounds[some.run] * self.layers.times[self.layers.of_some(owner, grid, some, fitting.levels(places))]

    def floors(self, owner: int) -> Numbers:
        """What runs take at least, whatever their experts' degree and sharding, where `undisturbed` [s]."""
        fitting = self.fitted[owner]
        least = fitting.least.min(axis=0).astype(np.int64)
        none = least == len(fitting.activity)
        run = np.arange(len(least))
        quickest = self.layers.times.reshape(-1, self.layers.axes["expert"].size).min(axis=1)
        layers = self.layers.of_cells(owner, fitting.grid, run, np.where(none, 0, least))
        return self._undisturbed(owner, run, quickest[layers], none)

    def undisturbed(self, owner: int, runs: Whole) -> Numbers:
        """What candidates of some runs take at least, whatever shards them, where nothing is exchanged beyond a layer.

        By experts' degree and run, with the least recomputation that lets one fit; endless where none does [s].
        """
        fitting = self.fitted[owner]
        least = fitting.least[:, runs].astype(np.int64)
        none = least == len(fitting.activity)
        some = _Candidates(runs, np.arange(len(least))[:, None], runs)
        layers = self.layers.of_some(owner, fitting.grid, some, np.where(none, 0, least))
        return self._undisturbed(owner, runs, self.layers.times[layers], none)

    def _undisturbed(self, owner: int, runs: Whole, layers: Numbers, none: Flags) -> Numbers:
        """The same at a time of their layers; endless where none fits [s]."""
        grid, search = self.fitted[owner].grid, self.searches[owner]
        heads = self.layers.heads[self.layers.cells[owner][grid.cell[runs]]]
        parallelism, job = search.parallelism(_rows(grid.runs, runs)), grid.job(search.job, runs)
        time = step.undisturbed_time(layers, heads, search.shape, job, parallelism, search.calibration)
        bounds = np.asarray(time)
        bounds[none] = np.inf
        return bounds

    def clock(self, chosen: Sequence[Whole]) -> list[Numbers]:
        """The step times of some candidates of each search [s]."""
        if not any(map(len, chosen)):
            return [np.empty(0) for _ in chosen]
        some = [fitting.grid.at(places) for fitting, places in zip(self.fitted, chosen, strict=True)]
        self.states.ask([each.state for each in some])
        between = _Between(*self.states.columns)
        if len(chosen) > 1 or len(self.fitted[0].grid.splits.batches) > 1:
            return self._clock_all(between, chosen)
        return [self._clock_alone(between, chosen[0])]

    def _clock_all(self, between: _Between, chosen: Sequence[Whole]) -> list[Numbers]:
        """The same of several searches."""
        columns = _all_of([self._columns(owner, places) for owner, places in enumerate(chosen)])
        columns["owner"] = np.repeat(np.arange(len(chosen)), [len(places) for places in chosen])
        grids = [fitting.grid for fitting in self.fitted]
        columns["sequences"] = np.concatenate([
            grid.splits.batches[grid.batch_of(places)] for grid, places in zip(grids, chosen, strict=True)
        ])  # fmt: skip
        times = np.empty(len(columns["owner"]))
        for start in range(0, len(times), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            block = {name: column[rows] for name, column in columns.items()}
            search = _of_owners(self.merged, block.pop("owner")).with_batch(block.pop("sequences"))
            times[rows] = self._step_times(search, between, block)
        return _split(times, chosen)

    def _clock_alone(self, between: _Between, places: Whole) -> Numbers:
        """The same of the only search; many candidates by what they share, which is then a number."""
        if len(places) <= ROWS_AT_ONCE:
            return np.asarray(self._step_times(self.merged, between, self._columns(0, places)))
        grid, between = self.fitted[0].grid, between.sending(self.merged, self.layers.axes)
        times, sharing = np.empty(len(places)), grid.groups.columns["sharding"][grid.at(places).state]
        for kind in SHARDINGS:
            of_kind = np.flatnonzero(sharing == kind)
            for start in range(0, len(of_kind), ROWS_AT_ONCE):
                rows = of_kind[start : start + ROWS_AT_ONCE]
                block = self._columns(0, places[rows]) | {"sharding": float(kind)}
                times[rows] = self._step_times(self.merged, between, block)
        return times

    def _step_times(self, search: Search, between: _Between, block: dict[str, Any]) -> Array:
        """The step times of some candidates, setting by setting [s]."""
        names = "recompute", "layer", "cell", "state"
        recompute, layer, cell, state = (block.pop(name) for name in names)
        parallelism = search.parallelism(block, recompute)
        pieces = step.Pieces(
            self.layers.times[layer],
            self.layers.heads[cell],
            between.rows(search, parallelism, cell, state),
            between.state(search, state),
        )
        rest = search.gpu, parallelism, search.software, search.calibration
        return step.assemble(pieces, search.shape, search.job, *rest).time

    def _columns(self, owner: int, places: Whole) -> dict[str, NDArray[Any]]:
        """Some candidates of a search, setting by setting."""
        fitting = self.fitted[owner]
        grid, some = fitting.grid, fitting.grid.at(places)
        return grid.columns(some) | {
            "recompute": fitting.recompute(places),
            "layer": self.layers.of_some(owner, grid, some, fitting.levels(places)),
            "cell": self.layers.cells[owner][grid.cell[some.run]],
            "state": self.states.places[owner][some.state],
        }


@dataclass(frozen=True)
class _Layers:
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

    axes: Mapping[str, Numbers]
    times: Numbers
    heads: Numbers
    cells: Sequence[Whole]
    experts: Sequence[Whole]
    alternating: bool

    @classmethod
    def of(cls, searches: Sequence[Search], splits: Sequence[_Splits], used: Sequence[Whole]) -> _Layers:
        """Those of some cells of each search."""
        columns, owners, cells = _cells_of(splits, used)
        experts = np.unique(np.concatenate([each.axes[-1] for each in splits]))
        search = _of_owners(_as_one(searches), owners[:, None])
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

    def of_some(self, owner: int, grid: _Grid, some: _Candidates, level: Whole) -> Whole:
        """Where the layers of some candidates of a search are among the times, by their levels of recomputation [1]."""
        cells = self.of_cells(owner, grid, some.run, level)
        return cells * self.axes["expert"].size + self.experts[owner][some.expert]

    def of_cells(self, owner: int, grid: _Grid, runs: Whole, level: Whole) -> Whole:
        """The same of the cells of some runs, whatever the experts' degree [1]."""
        variant = 2 * level + (grid.runs["virtual_pipeline"] > 1)[runs] if self.alternating else level
        return variant * len(self.heads) + self.cells[owner][grid.cell[runs]]

    def at(self, owners: Sequence[int]) -> _Layers:
        """Those of some of the searches."""
        cells, experts = [self.cells[owner] for owner in owners], [self.experts[owner] for owner in owners]
        return replace(self, cells=cells, experts=experts)

    @cached_property
    def quickest(self) -> Numbers:
        """The least that a layer of each cell takes, whatever is recomputed and spreads the experts [s]."""
        least: Numbers = self.times.reshape(-1, len(self.heads), self.axes["expert"].size).min(axis=(0, 2))
        return least

    def floors(self, owner: int, family: _Family) -> Numbers:
        """What each split of a search takes at least, with the most chunks; endless where it does not divide [s]."""
        search, splits = family.search, family.splits
        cells, stages = self.cells[owner][splits.cell], splits.groups.stages[::-1].astype(np.float64)
        pipeline, last = np.unique(stages[:, 0], return_index=True)
        degrees: dict[str, Numbers] = {"pipeline": pipeline[:, None], "virtual_pipeline": stages[last, 1][:, None]}
        parallelism = search.parallelism(degrees | _rows(splits.cells, splits.cell))
        times, job = (self.quickest[cells], self.heads[cells]), splits.job(search.job, splits.batch)
        time = step.undisturbed_time(*times, search.shape, job, parallelism, search.calibration)
        return np.where(family.likely, time, np.inf)


def _exchanged(search: Search, splits: _Splits, used: Whole) -> LayerExchanges:
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


def _cells_of(splits: Sequence[_Splits], used: Sequence[Whole]) -> tuple[dict[str, Numbers], Whole, Sequence[Whole]]:
    """Columns of some cells of each search, to which search each belongs, and where those of each search are."""
    counts = [len(cells) for cells in used]
    columns = _all_of([_rows(each.cells, cells) for each, cells in zip(splits, used, strict=True)])
    among = []
    for each, cells, end in zip(splits, used, accumulate(counts), strict=True):
        where_ = np.zeros(len(each.cells["tensor"]), np.int64)
        where_[cells] = np.arange(end - len(cells), end)
        among.append(where_)
    return columns, np.repeat(np.arange(len(used)), counts), among


def _split(column: NDArray[Any], parts: Sequence[Whole]) -> list[NDArray[Any]]:
    """What belongs to each of some parts of a column."""
    return np.split(column, list(accumulate(map(len, parts)))[:-1])


def _as_one(searches: Sequence[Search]) -> Search:
    """The searches as one, whose numbers are columns where they differ."""
    first, *others = searches
    if not others:
        return first
    return replace(
        first,
        job=stacked([search.job for search in searches]),
        gpu=stacked([search.gpu for search in searches]),
        links=stacked_links([search.links for search in searches]),
        gpus=np.array([search.gpus for search in searches]),
    )


def _of_owners(merged: Search, owners: Whole, linked: bool = True) -> Search:
    """The search that each row belongs to; without its links where nothing is sent."""
    if not isinstance(merged.gpus, np.ndarray):
        return merged
    links = link_rows(merged.links, owners) if linked else merged.links
    return replace(
        merged, job=rows_of(merged.job, owners), gpu=rows_of(merged.gpu, owners), links=links, gpus=merged.gpus[owners]
    )


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _all_of(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Columns of several grids, one after the other."""
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


@lru_cache(maxsize=8)
def _every_between(search: Search) -> tuple[Numbers, ...]:
    """What is exchanged beyond a layer, for all states. Kept: all batches of a job on a cluster share it."""
    groups = _groups(search.space)
    return _between(search, [groups], [np.arange(groups.open.size)])


def _between(merged: Search, groups: Sequence[_Groups], kept: Sequence[Whole]) -> tuple[Numbers, ...]:
    """What is exchanged beyond a layer, for some states of each search: the columns of `_Between`."""
    columns = _all_of([_rows(each.columns, states) for each, states in zip(groups, kept, strict=True)])
    search = _of_owners(merged, np.repeat(np.arange(len(groups)), [len(states) for states in kept]))
    states, cal = search.parallelism(columns), search.calibration
    known = step.state_of(search.shape, search.job, search.gpu, states, cal, 1.0)
    if search.fixed.sharding is None and not search.shape.experts:  # of a lone replica experts may have several
        states = replace(states, sharding=maximum(states.sharding, float(OPTIMIZER)))
    alone = exchanges.replica_exchanges(search.shape, search.job, states, search.software, search.links, cal.bucket)

    def together(*parts: Exchange) -> Array:
        return sum(traffic.beside_computation(part, cal) for part in parts)

    values = (
        together(alone.gather, alone.expert_gather),
        together(alone.flat_gather),
        together(alone.data, alone.expert_data),
        *exchanges.stage_place(states, search.links),
        known.held.dense,
        known.held.expert,
        known.held.layer,
        known.optimizer,
    )
    return tuple(_table(value, columns) for value in values)


@dataclass(frozen=True)
class _Between:
    """What is exchanged beyond a layer, for states of candidates.

    Attributes:
        gather, flat_gather, data: dense parameters and experts together, beside computation [s].
        far, network: between stages, as `exchanges.stage_place` has it [1].
        dense, expert, layer: parameters on a GPU, as `transformer.Held` has them [1].
        optimizer: time of updating them [s].
        send: to the next stage, by places and volumes, where known; else none [s].
    """

    gather: Numbers
    flat_gather: Numbers
    data: Numbers
    far: Numbers
    network: Numbers
    dense: Numbers
    expert: Numbers
    layer: Numbers
    optimizer: Numbers
    send: Numbers | None = None

    @cached_property
    def places(self) -> Whole:
        """Which of the different places of stages each state has."""
        return 2 * np.unique(self.network, return_inverse=True)[1] + (self.far > 0)

    def sending(self, search: Search, cells: Mapping[str, Numbers]) -> _Between:
        """The same with the time of every volume between stages, where these are not too many."""
        volumes = np.ravel(exchanges.pipeline_volume(search.shape, search.job, search.parallelism(cells)))
        kinds = int(self.places.max(initial=0)) + 1
        if kinds * len(volumes) > ROWS_AT_ONCE:
            return self
        far, network = np.zeros((kinds, 1)), np.ones((kinds, 1))
        far[self.places, 0], network[self.places, 0] = self.far, self.network
        send = np.asarray(send_time(known_pair_of(search.links, far, network), volumes))
        return replace(self, send=np.broadcast_to(send, (kinds, len(volumes))))

    def state(self, search: Search, state: Whole) -> step.State:
        """What some candidates hold and how long they take to update it, by the states that they have."""
        held = Held(self.dense[state], self.expert[state], self.layer[state])
        return step.State(held, self.optimizer[state], tail.deviations(search.gpus))

    def rows(self, search: Search, parallelism: Parallelism, cell: Whole, state: Whole) -> StepExchanges:
        """Those of some candidates, by the states that they have; equal sends between stages are timed once."""
        sharded = parallelism.sharding == PARAMETERS
        flat = any_(search.software.flat_sharding > 0)
        return StepExchanges(
            pipeline=Exchange(self._send(search, parallelism, cell, state), self.far[state]),
            gather=Exchange(where(sharded, self.gather[state], 0.0)) if any_(sharded) else NOTHING,
            flat_gather=Exchange(where(sharded, self.flat_gather[state], 0.0)) if flat else NOTHING,
            data=Exchange(where(sharded, 0.0, self.data[state])),
        )

    def _send(self, search: Search, parallelism: Parallelism, cell: Whole, state: Whole) -> Numbers:
        """Time of sending between the stages of some candidates [s]."""
        if self.send is not None:
            return self.send[self.places[state], cell]
        key = cell * (int(self.places.max()) + 1) + self.places[state]
        distinct = _distinct(key)
        number = np.empty(int(key.max()) + 1, np.int64)
        number[distinct] = np.arange(len(distinct))
        place, first = number[key], np.empty(len(distinct), np.int64)
        first[place] = np.arange(len(place))
        some, volume = state[first], np.asarray(exchanges.pipeline_volume(search.shape, search.job, parallelism))
        links = link_rows(search.links, first) if isinstance(search.gpus, np.ndarray) else search.links
        send: Numbers = np.asarray(send_time(pair_of(links, self.far[some], self.network[some]), volume[first]))[place]
        return send


def _all_worth(field: _Field) -> list[_Timed]:
    """All that may be within `PRUNE_FACTOR` of the best, or all where there are few.

    A step takes at least the layers of its deepest stage for every micro-batch. Where that alone is so many times the
    best step found among the most promising, the rest is not worked out.
    """
    every = [fitting.every() for fitting in field.fitted]
    least = [
        field.least(owner, places) if len(places) > FEW else np.zeros(len(places))
        for owner, places in enumerate(every)
    ]  # fmt: skip
    first = [_lowest(bounds, FIRST_BATCH) for bounds in least]
    times = [np.full(len(places), np.nan) for places in every]
    _fill(field, times, every, first)
    enough = [PRUNE_FACTOR * float(np.fmin.reduce(time, initial=np.nan)) for time in times]
    # What is not a number stays, and comes last.
    worth = [np.flatnonzero(~(bounds > most)) for bounds, most in zip(least, enough, strict=True)]
    _fill(field, times, every, [some[np.isnan(time[some])] for some, time in zip(worth, times, strict=True)])
    return [
        _Timed(places[some], time[some], int(np.count_nonzero(~np.isnan(time))))
        for places, some, time in zip(every, worth, times, strict=True)
    ]  # fmt: skip


def _fill(field: _Field, times: list[Numbers], every: Sequence[Whole], chosen: Sequence[Whole]) -> None:
    """Fill in the times of some candidates."""
    asked = [places[some] for places, some in zip(every, chosen, strict=True)]
    for time, some, values in zip(times, chosen, field.clock(asked), strict=True):
        time[some] = values


@dataclass(frozen=True)
class _Family:
    """Searches that differ in nothing but their batches.

    Attributes:
        search: the first of them.
        places: where each is among all searches [1].
        limit: memory that may be filled [B].
        splits: what divides of all their batches.
    """

    search: Search
    places: Sequence[int]
    limit: float
    splits: _Splits

    @cached_property
    def likely(self) -> Flags:
        """Whether each split divides and its state leaves room."""
        return self.splits.divides[0] & self.splits.room(self.limit)

    @property
    def cells(self) -> Whole:
        """Places of the cells of these."""
        return _distinct(self.splits.cell[self.likely.any(axis=0)])

    def fitting(self, worth: Flags) -> _Fitting:
        """What fits of splits that are worth it."""
        return _fitting(self.search, self.limit, self.splits.grid(self.likely & worth))

    def nothing(self, batch: int) -> SearchResult:
        """The answer to the search of a batch of which nothing fits."""
        every = self.splits.grid(self.splits.batch == batch)
        fitting = _frugal(self.search, _fitting(self.search, self.limit, every))
        return _result(self.search, fitting, fitting.untimed, None, batch)


def _but_for_batches(searches: Sequence[Search]) -> list[list[int]]:
    """Places of searches, those together that differ in nothing but their batches."""
    members: dict[Any, list[int]] = {}
    for place, search in enumerate(searches):
        key = search.links, search.gpu, search.gpus, replace(search.job, global_batch=0.0)
        members.setdefault(key, []).append(place)
    return [*members.values()]


def _families(searches: Sequence[Search], members: Sequence[Sequence[int]], budget: float) -> list[_Family]:
    """The searches by all but their batches; those that differ in their links alone share what divides."""
    splits: dict[Any, _Splits] = {}
    families = []
    for places in members:
        search, batches = searches[places[0]], tuple(int(searches[place].job.global_batch) for place in places)
        key = search.gpu, search.gpus, search.job, batches
        if key not in splits:
            splits[key] = _splits(search.space, batches)
        families.append(_Family(search, places, budget * _capacity(search), splits[key]))
    return families


def _quickest_of(families: Sequence[_Family], many: int) -> dict[int, SearchResult]:
    """What may be among so many of the quickest of each search, with its times, by the places of the searches."""
    results = {
        place: family.nothing(batch)
        for family in families
        for batch, place in enumerate(family.places)
        if not family.likely.any()
    }
    families = [family for family in families if family.likely.any()]
    if not families:
        return results
    searches = [family.search for family in families]
    layers = _Layers.of(searches, [family.splits for family in families], [family.cells for family in families])
    lists = [_Shortlist(family, layers, owner, SPLITS + SPLITS_EACH * many) for owner, family in enumerate(families)]
    while missing := [owner for owner, shortlist in enumerate(lists) if shortlist.missing.any()]:
        fitted = [lists[owner].fitting() for owner in missing]
        field = _Field([searches[owner] for owner in missing], fitted, layers.at(missing))
        for owner, fitting, times in zip(missing, fitted, _quickest(field, many), strict=True):
            results |= lists[owner].answers(fitting, times, many)
    return results


class _Shortlist:
    """The splits of a family of which runs are made: about so many of each batch that take least.

    Splits are bound by the quickest of their layers, whatever is recomputed. Where as many runs as are wanted take
    longer than other splits do at least, runs are made of those too.

    Attributes:
        floors: what each split takes at least; 0 where all are looked at [s].
        most: up to what floor those of each batch are looked at [s].
        missing: whether the answer for each batch is.
    """

    def __init__(self, family: _Family, layers: _Layers, owner: int, many: int) -> None:
        self.family, self.batch = family, family.splits.batch
        self.floors, self.most = np.zeros(1), np.full(len(family.places), np.inf)
        self.missing = np.ones(len(family.places), bool)
        if np.count_nonzero(family.likely) > many * len(family.places):
            self.floors = layers.floors(owner, family)
            of_batches = (self.floors[:, self.batch == batch] for batch in range(len(family.places)))
            self.most = np.array([_limit(floors.ravel(), many) for floors in of_batches])

    def fitting(self) -> _Fitting:
        """What fits of the batches whose answers are missing."""
        return self.family.fitting(self.missing[self.batch] & ~(self.floors > self.most[self.batch]))

    def answers(self, fitting: _Fitting, times: Sequence[_Timed], many: int) -> Iterator[tuple[int, SearchResult]]:
        """Those that are known, by their places among all searches. The others' splits become more."""
        family, enough = self.family, np.array([_nth(each.time, many) for each in times])
        known = self.missing & (enough <= self.most)
        for batch in np.flatnonzero(known).tolist():
            fits = fitting.feasible[batch] > 0
            answer = _result(family.search, fitting, times[batch], many, batch) if fits else family.nothing(batch)
            yield family.places[batch], answer
        self.missing, self.most = self.missing & ~known, enough


def _quickest(field: _Field, many: int) -> list[list[_Timed]]:
    """All that may be among so many of the quickest of each batch of each search, or all where there are few.

    A step takes at least its stages and bubble with nothing exchanged, and as much recomputation as the sharding needs
    that needs least. What takes longer for these alone than as many others altogether is not timed.
    """
    owners = range(len(field.fitted))
    pools = [_Pool(field, owner, max(PROMISING, PROMISING_EACH * many)) for owner in owners]
    chosen = [pool.first() for pool in pools]
    times = field.clock(chosen)
    near = [
        pool.others(pool.grid.of_each(places, time, lambda each: _nth(each, many)))
        for pool, places, time in zip(pools, chosen, times, strict=True)
    ]
    columns = zip(pools, chosen, near, times, field.clock(near), strict=True)
    return [
        pool.by_batch(np.concatenate([places, others]), np.concatenate([time, of_others]))
        for pool, places, others, time, of_others in columns
    ]


class _Pool:
    """Candidates of a search, with what they take at least where nothing is exchanged beyond a layer.

    Those of the runs with the lowest bounds over all experts' degrees are bound one by one, the others where that is
    not enough.
    """

    def __init__(self, field: _Field, owner: int, many: int) -> None:
        self.field, self.owner, self.fitting, self.grid = field, owner, field.fitted[owner], field.fitted[owner].grid
        self.every = np.arange(len(self.grid.cell))
        self.floors, self.beyond = np.zeros(len(self.every)), np.zeros(len(self.every), bool)
        if len(self.grid.experts) > 1:
            self.floors = field.floors(owner)
            floor = self.grid.of_each(self.every, self.floors, lambda each: _limit(each, RUNS_EACH * many))
            self.beyond = self.floors > self.grid.of_runs(floor)
        self.runs = np.flatnonzero(~self.beyond)
        self.bounds = field.undisturbed(owner, self.runs)
        limit = self.grid.of_each(self.runs, self.bounds, lambda each: _limit(each.ravel(), many))
        self.late = self.bounds > self.grid.of_runs(limit, self.runs)

    def first(self) -> Whole:
        """About so many with the lowest bounds."""
        return self._places(self.runs, ~self.late)

    def others(self, most: Numbers) -> Whole:
        """All others that take no longer than all that is known of their batch."""
        near = self._places(self.runs, self.late & ~(self.bounds > self.grid.of_runs(most, self.runs)))
        further = np.flatnonzero(self.beyond & ~(self.floors > self.grid.of_runs(most)))
        if not len(further):
            return near
        wanted = ~(self.field.undisturbed(self.owner, further) > self.grid.of_runs(most, further))
        return np.concatenate([near, self._places(further, wanted)])

    def by_batch(self, places: Whole, times: Numbers) -> list[_Timed]:
        """Some candidates and their times by their batches."""
        return [_Timed(places[some], times[some], len(places[some])) for some in self.grid.of_each_batch(places)]

    def _places(self, runs: Whole, wanted: Flags) -> Whole:
        """Places of all shardings of some experts' degrees and runs."""
        expert, run = np.nonzero(wanted)
        return self.fitting.sharded(expert * len(self.every) + runs[run])


def _limit(bounds: Numbers, many: int) -> float:
    """What so many of some bounds are not above; endless where there are no more, or no more are numbers."""
    if len(bounds) <= many:
        return np.inf
    limit = float(np.partition(bounds, many)[many])
    return np.inf if np.isnan(limit) else limit


def _lowest(bounds: Numbers, many: int) -> Whole:
    """Places of so many of the lowest, or of all."""
    return np.argpartition(bounds, many)[:many] if len(bounds) > many else np.arange(len(bounds))


def _nth(times: Numbers, rank: int) -> float:
    """The time of this rank, and what it might be for being added up in another order; endless where none is [s]."""
    return _limit(times, rank - 1) * (1 + ROUNDING)
