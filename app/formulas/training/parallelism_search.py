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
- where only the quickest are asked for, what its stages and bubble alone make slower than as many others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.group_times import Links, pair_of, send_time
from app.formulas.training import exchanges, step, traffic
from app.formulas.training import memory as training_memory
from app.formulas.training.arguments import ALL_TO_ALL, RING, Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.exchanges import Exchange, StepExchanges
from app.formulas.transformer import Shape

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
FIRST_BATCH = 4_000
"""Configurations timed first when there are many, those with the quickest layers."""
PRUNE_FACTOR = 2.0
"""Times the best step beyond which a configuration is not timed to the end."""
PROMISING = 800
"""Configurations timed first where only the quickest are wanted: those with the quickest stages."""
POOL = 4
"""Times as many among which these are looked for: those with the quickest layers."""
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
    def single(self) -> bool:
        """Whether everything is given, so that there is one configuration at most."""
        return self.whole and None not in (self.virtual_pipeline, self.expert, self.sequence_parallel)

    def ranks_of_expert(self, tensor: Counts) -> Counts:
        """GPUs over which each expert is cut [1]."""
        return self.expert_tensor or (tensor if self.cut_experts else 1)


@dataclass(frozen=True)
class SearchResult:
    """What the search saw, quickest first.

    Attributes:
        enumerated: whole configurations whose degrees multiply to the cluster [1].
        divisible: those whose layers, heads, batch and experts divide [1].
        feasible: those that also fit in memory, of each that differ in recomputation only the least [1].
        evaluated: those timed; the other feasible ones are provably slower [1].
        parallelism: the timed ones, quickest first, as arrays.
        time: their step times; NaN where nobody asked, or everything is given and there is nothing to compare [s].
        memory: their memory [B].
        smallest_memory: where nothing fits, what the smallest configuration needs; NaN if none divides [B].
        smallest: that configuration, if there is one.
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
    gpus: int
    fixed: FixedDegrees = FixedDegrees()

    def parallelism(self, settings: Mapping[str, Array], recompute: Array | Whole = 0) -> Parallelism:
        """Configurations of all GPUs; what a formula does not read may be left out of the settings.

        Args:
            settings: degrees and the like, by the names of `Parallelism`.
            recompute: 0 none, 1 selective, 2 full.
        """
        configurations = Parallelism(**settings)
        data = self.gpus / (configurations.tensor * configurations.pipeline * configurations.context)
        replicas, group = data * configurations.context, self.fixed.sharding_group
        columns: dict[str, Array] = {
            **settings,
            "data": data,
            "sharding_group": replicas if group is None else minimum(float(group), replicas),
            "expert_tensor": self.fixed.ranks_of_expert(configurations.tensor) * 1.0,
            "recompute": (recompute == 2) * 1.0 if self.fixed.recomputed is None else self.fixed.recomputed,
            "recompute_core": (recompute == 1) * 1.0,
            "bubble": self.fixed.bubble,
            "stages_first": float(self.fixed.stages_first),
            "context_exchange": self.fixed.context_exchange,
            "causal_balance": float(self.fixed.causal_balance),
        }
        if self.fixed.bidirectional:
            columns["bidirectional"] = where(configurations.pipeline > 1, 1.0, 0.0)
        if self.fixed.chunks:
            columns["deepest"], columns["beside_head"] = _laid_out(self.fixed.chunks, configurations.pipeline)
        return Parallelism(**columns)


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


def _degrees(search: Search) -> dict[str, list[int]]:
    """Candidate values of each setting, before they are combined."""
    shape, job, gpus, fixed = search.shape, search.job, search.gpus, search.fixed
    heads, kv_heads, experts = int(shape.heads), int(shape.kv_heads), int(shape.experts)
    sequence, batch = int(job.sequence_length), int(job.global_batch)
    most = fixed.largest_tensor or max(int(search.gpu.scale_up_domain), 1) * 4
    tensor = [
        t for t in divisors(heads) if gpus % t == 0 and t <= most and (kv_heads % t == 0 or t % max(kv_heads, 1) == 0)
    ]
    pipeline = [p for p in divisors(gpus) if p <= int(shape.depth) and (p == 1 or not (fixed.bidirectional and p % 2))]
    context = [c for c in divisors(gpus) if sequence % (2 * c) == 0 and sequence // c >= SHORTEST_SHARE] or [1]
    if fixed.context_exchange == ALL_TO_ALL:
        context = [c for c in context if heads % c == 0]
    stack = search.software
    selective = float(stack.flash) < 1 or float(stack.selective_linear) > 0 or float(stack.selective_modules) > 0
    return {
        "tensor": _choices(fixed.tensor, tensor),
        "pipeline": _choices(fixed.pipeline, pipeline),
        "context": _choices(fixed.context, context),
        "expert": _choices(fixed.expert, [e for e in divisors(experts) if gpus % e == 0] if experts else [1]),
        "micro_batch": _choices(fixed.micro_batch, divisors(batch)),
        "sharding": _choices(fixed.sharding, [kind for kind in SHARDINGS if kind != GRADIENTS or stack.reduces_each]),
        "recompute": _choices(fixed.recompute, [0, 1, 2] if selective else [0, 2]),
        "sequence_parallel": [0, 1] if fixed.sequence_parallel is None else [int(fixed.sequence_parallel)],
    }


def _stages(shape: Shape, degrees: Sequence[int], fixed: FixedDegrees) -> list[tuple[int, int]]:
    """Pipeline and virtual-pipeline degrees: chunks divide the layers, with or without the embedding and the head.

    A number of chunks that is given may be any for which there are layers, embedding and head enough: layouts of uneven
    stages are written by hand. Where such a layout is given, its chunks divide into the stages.
    """
    depth, virtual_pipeline, laid = int(shape.depth), fixed.virtual_pipeline, len(fixed.chunks)
    stages: list[tuple[int, int]] = []
    if laid:
        return [(p, laid // p) for p in degrees if laid % p == 0 and virtual_pipeline in (None, laid // p)]
    for p in degrees:
        if virtual_pipeline is not None:
            stages += (
                [(p, virtual_pipeline)] if virtual_pipeline == 1 or 1 < p <= (depth + 2) // virtual_pipeline else []
            )
            continue
        whole = [d for d in (depth, depth + 2) if p > 1 and d % p == 0][:1]
        chunks = sorted({1, *(v for d in whole for v in divisors(d // p))})
        stages += [(p, v) for v in chunks]
    return stages


def _division(
    gpus: int, batch: int, tensor: Counts, pipeline: Counts, context: Counts, spans: Counts, micro_batch: Counts
) -> tuple[Counts, Flags, Flags, Flags, Flags]:
    """What configurations divide; ``spans`` are the ranks that hold all experts once.

    Returns:
        Their replicas, rounded down; whether their degrees multiply to the cluster; whether the batch divides into
        their micro-batches too, and those into rounds of an interleaved schedule; whether their ranks divide into
        groups of experts.
    """
    model = tensor * pipeline * context
    data = gpus // model
    whole = gpus % model == 0
    per_step = np.maximum(data * micro_batch, 1)
    even = whole & (batch % per_step == 0)
    rounds = even & (batch // per_step % pipeline == 0)
    return data, whole, even, rounds, data * tensor * context % spans == 0


@dataclass(frozen=True)
class _Grid:
    """Candidates, recomputation apart, as places of one table with an axis for each choice.

    The axes are sharding, stage (pipeline and virtual-pipeline degree), tensor, context and expert degree and
    micro-batch; the last four are a layer: all that its time depends on besides recomputation. The memory of a
    candidate is that of its states, which neither the micro-batch nor the virtual pipeline changes, and that of its
    activations, which neither the experts' degree nor the sharding changes.

    Attributes:
        enumerated, divisible: as in `SearchResult` [1].
        divides: marks the candidates that divide.
        stages: columns of each stage [1].
        kind: which of the pipeline degrees each stage has [1].
        layers: columns of each layer [1].
        open_layers: the same as open axes [1].
        kept: degrees of each state (sharding, pipeline, tensor, context and expert degree), as open axes [1].
        sharding: of each state [1].
        spare: whether sharded gradients are for what does not fit with the optimizer state alone sharded.
        recompute: levels, ascending [1].
    """

    enumerated: int
    divisible: int
    divides: Flags
    stages: Mapping[str, Numbers]
    kind: Whole
    layers: Mapping[str, Numbers]
    open_layers: Mapping[str, Numbers]
    kept: Mapping[str, Numbers]
    sharding: Numbers
    spare: bool
    recompute: list[int]

    @property
    def busy(self) -> dict[str, Numbers]:
        """Columns of stages and layers that activations and rounds depend on, as open axes."""
        layers = {name: column for name, column in self.open_layers.items() if name != "expert"}
        return {name: column[:, *[None] * 4] for name, column in self.stages.items()} | layers

    def runs(self, values: Array) -> Numbers:
        """Values by stage and layer, written out for each `run`."""
        return np.broadcast_to(values, self.divides.shape[1:]).ravel()

    def at(self, places: Whole) -> _Candidates:
        """The candidates at some places of the table, counted through."""
        _, stages, *layer = self.divides.shape
        layers, micro_batches, degrees = int(np.prod(layer)), layer[-1], self.kept["pipeline"].size
        sharding, run = _divided(places, stages * layers)
        stage, layer_place = _divided(run, layers)
        state = (sharding * degrees + self.kind[stage]) * (layers // micro_batches) + layer_place // micro_batches
        return _Candidates(run, stage, layer_place, state)

    def columns(self, some: _Candidates) -> dict[str, Numbers]:
        """Some candidates, setting by setting."""
        return _rows(self.stages, some.stage) | _rows(self.layers, some.layer) | {"sharding": self.sharding[some.state]}


class _Candidates(NamedTuple):
    """Some candidates of a grid, by their places in it.

    Attributes:
        run: among stages and layers together [1].
        stage, layer, state: among the stages, the layers, the states [1].
    """

    run: Whole
    stage: Whole
    layer: Whole
    state: Whole

    def at(self, places: Whole) -> _Candidates:
        """Some of them."""
        return _Candidates(*(column[places] for column in self))


def _divided(places: Whole, size: int) -> tuple[Whole, Whole]:
    """Quotient and remainder, in a third of the time that `divmod` takes."""
    quotient = places // size
    return quotient, places - quotient * size


def _rows(columns: Mapping[str, Numbers], rows: Whole) -> dict[str, Numbers]:
    return {name: column[rows] for name, column in columns.items()}


def _distinct(places: Whole, most: int) -> tuple[Whole, Whole]:
    """The different numbers among places below a limit, ascending, and where among them each place is."""
    seen = np.zeros(most, bool)
    seen[places] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[places]


def _table(values: Array, axes: Mapping[str, Numbers]) -> Numbers:
    """Values over open axes, written out and flattened."""
    whole, table = np.broadcast(*axes.values()).shape, np.asarray(values, np.float64)
    return table.ravel() if table.shape == whole else np.broadcast_to(table, whole).ravel()


def _grid(search: Search) -> _Grid:
    shape, job, fixed = search.shape, search.job, search.fixed
    lists = _degrees(search)
    stages = np.array(_stages(shape, lists["pipeline"], fixed), np.int64).reshape(-1, 2)
    p, kind = np.unique(stages[:, 0], return_inverse=True)
    t, c, e, b = (np.array(lists[name], np.int64) for name in ("tensor", "context", "expert", "micro_batch"))
    shardings = np.array(lists["sharding"], np.int64)
    variants = len(shardings) * len(lists["recompute"]) * len(lists["sequence_parallel"])

    across = t[:, None, None], p[:, None, None, None], c[:, None]
    spans = e * fixed.ranks_of_expert(across[0])
    data, whole, even, rounds, spread = _division(search.gpus, int(job.global_batch), *across, spans, b)
    divides = np.where((stages[:, 1] > 1)[:, None, None, None], rounds[kind], even[kind])[:, :, :, None]
    divides = divides & spread[kind][..., None]
    divisible = int(np.count_nonzero(divides)) * variants

    # Nothing can be shared by one replica; among several, sharing the optimizer state never loses.
    sharding = shardings[:, *[None] * 4]
    if fixed.sharding is None:
        several = data * across[2] > 1
        kinds = shardings[shardings > NONE][:, *[None] * 4]
        sharding = np.where(several, kinds, NONE)
        divides = divides & (several | (kinds == OPTIMIZER))[:, kind, ..., None]
    else:
        divides = divides[None]

    parallel = np.where(t > 1, max(lists["sequence_parallel"]), 0).astype(np.float64)
    open_layers = _open_layers((t, c, e, b), parallel)
    kept = dict(zip(("pipeline", "tensor", "context", "expert"), _open(p, t, c, e), strict=True))
    kept["sharding"] = sharding.astype(np.float64)
    return _Grid(
        enumerated=int(whole[kind].sum()) * len(e) * len(b) * variants,
        divisible=divisible,
        divides=divides,
        stages={"pipeline": stages[:, 0].astype(np.float64), "virtual_pipeline": stages[:, 1].astype(np.float64)},
        kind=kind,
        layers={name: _table(column, open_layers) for name, column in open_layers.items()},
        open_layers=open_layers,
        kept=kept,
        sharding=_table(kept["sharding"], kept),
        spare=fixed.sharding is None and GRADIENTS in lists["sharding"],
        recompute=sorted(lists["recompute"]),
    )


def _open_layers(axes: Sequence[Whole], parallel: Numbers) -> dict[str, Numbers]:
    """Degrees of the layers as open axes."""
    names = ("tensor", "context", "expert", "micro_batch")
    return dict(zip(names, _open(*axes), strict=True)) | {"sequence_parallel": parallel[:, None, None, None]}


def _open(*axes: Whole) -> list[Numbers]:
    """Axes that broadcast against one another."""
    return [axis.astype(np.float64) for axis in np.ix_(*axes)]


def best(search: Search, budget: float = 1.0, timed: bool = True, quickest: int | None = None) -> SearchResult:
    """Enumerate, reject, prune and time.

    Args:
        search: the job, the machine, the stack, and what is fixed.
        budget: share of the memory capacity that may be filled.
        timed: whether to time what fits, or only to say what does.
        quickest: how many are wanted; ``None`` means all that are timed [1].
    """
    limit = budget * float(np.ravel(search.gpu.memory_capacity)[0])
    if search.fixed.single:
        return _single(search, limit)
    grid = _grid(search)
    fitting = _fitting(search, grid, limit)
    count = len(fitting.memory)
    places, time = np.arange(count), np.full(count, np.nan)
    if timed:
        places, time = _times(search, grid, fitting, quickest)
    evaluated = int(np.count_nonzero(~np.isnan(time)))
    order = np.argsort(time, kind="stable")[:quickest]
    places, time = places[order], time[order]
    columns = grid.columns(fitting.candidates.at(places))
    return SearchResult(
        enumerated=grid.enumerated,
        divisible=grid.divisible,
        feasible=count,
        evaluated=evaluated,
        parallelism=search.parallelism(columns, fitting.recompute[places]),
        time=time,
        memory=fitting.memory[places],
        smallest_memory=fitting.smallest_memory,
        smallest=fitting.smallest,
    )


def _single(search: Search, limit: float) -> SearchResult:
    """The search where everything is given: all there is to find is whether that divides and fits."""
    fixed, job = search.fixed, search.job
    t, p, v, c = fixed.tensor or 1, fixed.pipeline or 1, fixed.virtual_pipeline or 1, fixed.context or 1
    e, b = fixed.expert or 1, fixed.micro_batch or 1
    spans = e * fixed.ranks_of_expert(t)
    _, whole, even, rounds, spread = _division(search.gpus, int(job.global_batch), t, p, c, spans, b)
    known = bool(_stages(search.shape, [p], fixed))
    settings = {
        "tensor": float(t),
        "pipeline": float(p),
        "virtual_pipeline": float(v),
        "context": float(c),
        "expert": float(e),
        "micro_batch": float(b),
        "sharding": float(fixed.sharding or NONE),
        "sequence_parallel": float(t > 1 and bool(fixed.sequence_parallel)),
    }
    parallelism = search.parallelism(settings, fixed.recompute or 0)
    divides = bool(known and (rounds if v > 1 else even) and spread)
    size = np.nan
    if divides:
        size = float(training_memory.memory(search.shape, job, parallelism, search.software, search.calibration).total)
    fits = size <= limit
    return SearchResult(
        enumerated=int(known and whole),
        divisible=int(divides),
        feasible=int(fits),
        evaluated=0,
        parallelism=parallelism,
        time=np.full(int(fits), np.nan),
        memory=np.full(int(fits), size),
        smallest_memory=size,
        smallest=parallelism if divides else None,
    )


@dataclass(frozen=True)
class _Fitting:
    """Candidates that fit in memory, each with the least recomputation that lets it.

    Attributes:
        candidates: those of the grid.
        recompute: 0 none, 1 selective, 2 full [1].
        memory: bytes on the fullest GPU [B].
        smallest_memory: as in `SearchResult` [B].
        smallest: as in `SearchResult`.
    """

    candidates: _Candidates
    recompute: Whole
    memory: Numbers
    smallest_memory: float
    smallest: Parallelism | None


def _fitting(search: Search, grid: _Grid, limit: float) -> _Fitting:
    """The candidates that fit. The least recomputation is the quickest: more is only for what does not fit yet."""
    states, activity = _memory_tables(search, grid)
    some = grid.at(np.flatnonzero(grid.divides & (states[:, grid.kind, ..., None] <= limit)))
    left, kept = np.arange(len(some.run)), []
    for level, busy in zip(grid.recompute, activity, strict=True):
        size = states.ravel()[some.state[left]] + grid.runs(busy)[some.run[left]]
        fits = size <= limit
        later = ~fits
        if grid.spare:
            superfluous = _superfluous(grid, some.at(left), fits)
            fits, later = fits & ~superfluous, later & ~superfluous
        fitting = left[fits]
        kept.append((fitting, np.full(len(fitting), level), size[fits]))
        left = left[later]
    places, recompute, memory = (np.concatenate(column) for column in zip(*kept, strict=True))
    candidates = some.at(places)
    if len(memory):
        least = np.argmin(memory, keepdims=True)
        frugal, levels, size = candidates.at(least), recompute[least], memory[least]
    else:
        frugal, levels, size = _frugal(grid, states, activity)
    if not len(size):
        return _Fitting(candidates, recompute, memory, np.nan, None)
    smallest = row(search.parallelism(grid.columns(frugal), levels), 0)
    return _Fitting(candidates, recompute, memory, float(size[0]), smallest)


def _superfluous(grid: _Grid, some: _Candidates, fits: Flags) -> Flags:
    """Marks sharded gradients, which cost time, where what shards the optimizer state alone fits."""
    sharding, shared = grid.sharding[some.state], np.zeros(grid.divides[0].size, bool)
    shared[some.run[fits & (sharding == OPTIMIZER)]] = True
    return (sharding == GRADIENTS) & shared[some.run]


def _frugal(grid: _Grid, states: Numbers, activity: Numbers) -> tuple[_Candidates, Whole, Numbers]:
    """The candidate that needs least, its recomputation and its memory [B]; none where nothing divides."""
    some = grid.at(np.flatnonzero(grid.divides))
    if not len(some.run):
        return some, some.run, np.empty(0)
    sizes = np.array([grid.runs(busy)[some.run] for busy in activity])
    sizes += states.ravel()[some.state]
    level, place = np.divmod(np.argmin(sizes, keepdims=True).ravel(), len(some.run))
    return some.at(place), np.array(grid.recompute)[level], sizes[level, place]


def _memory_tables(search: Search, grid: _Grid) -> tuple[Numbers, Numbers]:
    """Memory of states, with their axes, and of activations: by recomputation, then as a table of stages and layers."""
    shape, job, software = search.shape, search.job, search.software
    states = sum(training_memory.states(shape, job, search.parallelism(grid.kept), software))
    levels = np.array(grid.recompute)[:, *[None] * 5]
    busy = search.parallelism(grid.busy, levels)
    activity = sum(training_memory.activity(shape, job, busy, software, search.calibration))
    _, stages, tensor, context, _, micro_batches = grid.divides.shape
    return (
        np.broadcast_to(states, np.broadcast(*grid.kept.values()).shape),
        np.broadcast_to(activity, (len(levels), stages, tensor, context, 1, micro_batches)),
    )


def _layer_exchanges(search: Search, grid: _Grid, layers: Whole) -> exchanges.LayerExchanges:
    """What some layers exchange, worked out once for what they have in common."""
    axes = grid.open_layers
    found = exchanges.layer_exchanges(search.shape, search.job, search.parallelism(axes), search.software, search.links)

    def taken(value: Array) -> Array:
        return _table(value, axes)[layers] if isinstance(value, np.ndarray) else value

    each = {name: Exchange(taken(exchange.time), taken(exchange.crosses)) for name, exchange in vars(found).items()}
    return exchanges.LayerExchanges(**each)


@dataclass(frozen=True)
class _StepTable:
    """What is exchanged beyond a layer, beside computation: worked out once for what candidates have in common.

    Attributes:
        gather, flat_gather, data: by `state`, dense parameters and experts together [s].
        send: between stages, by place and layer [s].
        place: which place the stages of each state have [1].
    """

    gather: Numbers
    flat_gather: Numbers
    data: Numbers
    send: Numbers
    place: Whole

    @classmethod
    def of(cls, search: Search, grid: _Grid) -> _StepTable:
        """The tables of a grid."""
        shape, job, links, cal = search.shape, search.job, search.links, search.calibration
        states = search.parallelism(grid.kept)
        if search.fixed.sharding is None:  # among several replicas nobody shares nothing
            states = replace(states, sharding=maximum(states.sharding, float(OPTIMIZER)))
        alone = exchanges.replica_exchanges(shape, job, states, search.software, links, cal.bucket)

        def together(*found: Exchange) -> Numbers:
            return _table(sum(traffic.beside_computation(one, cal) for one in found), grid.kept)

        far, network = exchanges.stage_place(states, links)
        places, place = np.unique(_table(far * 2 + network, grid.kept), return_inverse=True)
        places = places.reshape(-1, *[1] * 4)
        apart = np.where(places > 1, 1.0, 0.0)
        volume = exchanges.pipeline_volume(shape, job, search.parallelism(grid.open_layers))
        send = send_time(pair_of(links, apart, places - 2 * apart), volume)
        beside = traffic.beside_computation(Exchange(send, apart), cal)
        return cls(
            gather=together(alone.gather, alone.expert_gather),
            flat_gather=together(alone.flat_gather),
            data=together(alone.data, alone.expert_data),
            send=_table(beside, {"place": places} | dict(grid.open_layers)).reshape(
                len(places), len(grid.layers["tensor"])
            ),
            place=place,
        )

    def rows(self, layer: Whole, state: Whole, sharding: Numbers) -> StepExchanges:
        """Those of some candidates."""
        sharded = sharding == PARAMETERS
        return StepExchanges(
            pipeline=Exchange(self.send[self.place[state], layer]),
            gather=Exchange(np.where(sharded, self.gather[state], 0.0)),
            flat_gather=Exchange(np.where(sharded, self.flat_gather[state], 0.0)),
            data=Exchange(np.where(sharded, 0.0, self.data[state])),
        )


def _times(search: Search, grid: _Grid, fitting: _Fitting, quickest: int | None) -> tuple[Whole, Numbers]:
    """Which of the fitting candidates are worth timing, and their step times [s].

    Equal layers are timed once. A step takes at least the layers of its deepest stage for every micro-batch. Where
    that alone is `PRUNE_FACTOR` times the best step found among the most promising, the rest is not worked out; nor,
    where only the quickest are asked for, what takes longer than as many others without anything exchanged.
    """
    shape, job, gpu, calibration = search.shape, search.job, search.gpu, search.calibration
    candidates = fitting.candidates
    # A layer's time depends on the stages only in whether the micro-batches of several chunks alternate.
    variants = 2 * 3
    key = candidates.layer * variants + fitting.recompute
    if any_(search.software.staged_expert > 0):
        key += 3 * (grid.stages["virtual_pipeline"] > 1)[candidates.stage]
    distinct, place = _distinct(key, len(grid.layers["tensor"]) * variants)
    columns = _rows(grid.layers, distinct // variants)
    chunks = np.where(distinct % variants < 3, 1.0, 2.0)
    parallelism = search.parallelism({**columns, "virtual_pipeline": chunks}, distinct % 3)
    alone = _layer_exchanges(search, grid, distinct // variants)
    layers = _table(step.layer(shape, job, gpu, parallelism, search.software, calibration, alone).total, columns)
    heads = _table(step.head_time(shape, job, gpu, parallelism, calibration), columns)

    between = _StepTable.of(search, grid)
    time = np.full(len(place), np.nan)

    def clock(places: Whole) -> None:
        for block in _blocks(places):
            some = candidates.at(block)
            settings = grid.columns(some)
            parallelism = search.parallelism(settings, fitting.recompute[block])
            sent = between.rows(some.layer, some.state, settings["sharding"])
            pieces = step.Pieces(layers[place[block]], heads[place[block]], sent)
            whole = step.assemble(pieces, shape, job, gpu, parallelism, search.software, calibration)
            time[block] = whole.time

    def undisturbed(places: Whole) -> Numbers:
        parallelism, which = search.parallelism(grid.columns(candidates.at(places))), place[places]
        return np.asarray(step.undisturbed_time(layers[which], heads[which], shape, job, parallelism, calibration))

    places, first = np.arange(len(place)), FIRST_BATCH if quickest is None else max(PROMISING, 2 * quickest)
    if len(places) > first:
        rounds = step.least_time(1.0, shape, job, search.parallelism(grid.busy))
        least = grid.runs(rounds)[candidates.run] * layers[place]
        if quickest is None:
            promising = np.argpartition(least, first)[:first]
            clock(promising)
            places = np.flatnonzero(least <= PRUNE_FACTOR * time[promising].min())
        else:
            promising = np.argpartition(least, min(POOL * first, len(least)) - 1)[: POOL * first]
            promising = promising[np.argsort(undisturbed(promising))[:first]]
            clock(promising)
            enough = np.partition(time[promising], quickest - 1)[quickest - 1] * (1 + ROUNDING)
            places = np.flatnonzero(~(least > enough))  # what is not a number stays, and comes last
            places = places[~(undisturbed(places) > enough)]
    clock(places[np.isnan(time[places])])
    return places, time[places]


def _blocks(rows: Whole) -> Iterator[Whole]:
    return (rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE))
