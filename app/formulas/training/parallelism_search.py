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

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas import tail
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.group_times import EACH, KNOWN, Links, known_pair_of, pair_of, send_time
from app.formulas.training import exchanges, step, traffic
from app.formulas.training import memory as training_memory
from app.formulas.training.arguments import ALL_TO_ALL, RING, Calibration, GpuRates, Job, Parallelism, Software
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
PROMISING = 200
"""Configurations timed first at least where only the quickest are wanted: those with the quickest stages."""
PROMISING_EACH = 4
"""As many for each that is wanted."""
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
    def few(self) -> bool:
        """Whether so much is given that `few` configurations are left."""
        return None not in (self.tensor, self.pipeline, self.micro_batch)

    @property
    def single(self) -> bool:
        """Whether everything is given, so that there is one configuration at most."""
        return self.whole and None not in (self.virtual_pipeline, self.expert, self.sequence_parallel)

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
        feasible: those that also fit in memory, of each that differ in recomputation only the least [1].
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


def _degrees(space: _Space) -> dict[str, list[int]]:
    """Candidate values of each setting, before they are combined."""
    shape, job, gpus, fixed = space.shape, space.job, space.gpus, space.fixed
    heads, kv_heads, experts = int(shape.heads), int(shape.kv_heads), int(shape.experts)
    sequence, batch = int(job.sequence_length), int(job.global_batch)
    tensor = [
        t for t in divisors(heads)
        if gpus % t == 0 and t <= space.largest_tensor and (kv_heads % t == 0 or t % max(kv_heads, 1) == 0)
    ]  # fmt: skip
    pipeline = [p for p in divisors(gpus) if p <= int(shape.depth) and (p == 1 or not (fixed.bidirectional and p % 2))]
    context = [c for c in divisors(gpus) if sequence % (2 * c) == 0 and sequence // c >= SHORTEST_SHARE] or [1]
    if fixed.context_exchange == ALL_TO_ALL:
        context = [c for c in context if heads % c == 0]
    stack = space.software
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
    if virtual_pipeline is not None:
        return [(p, virtual_pipeline) for p in degrees if _staged(shape, p, virtual_pipeline, laid)]
    if laid:
        return [(p, laid // p) for p in degrees if laid % p == 0]
    for p in degrees:
        whole = [d for d in (depth, depth + 2) if p > 1 and d % p == 0][:1]
        chunks = sorted({1, *(v for d in whole for v in divisors(d // p))})
        stages += [(p, v) for v in chunks]
    return stages


def _staged(shape: Shape, pipeline: Counts, virtual_pipeline: Counts, laid: int) -> Flags:
    """Whether so many chunks of a stage that are given can be: see `_stages`; ``laid`` are those of a layout, or 0."""
    if laid:
        return (laid % pipeline == 0) & (virtual_pipeline == laid // pipeline)
    deep_enough = pipeline <= (int(shape.depth) + 2) // virtual_pipeline
    return ((virtual_pipeline == 1) | (pipeline > 1)) & deep_enough


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
        divides: whether each candidate divides.
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

    def by_stage(self, values: Numbers) -> Numbers:
        """Values of each state, for each of its stages, beside an axis for the micro-batch."""
        return values[:, self.kind, ..., None]

    def runs(self, values: Array) -> Numbers:
        """Values by stage and layer, whatever the experts' degree, written out for each `run`."""
        _, stages, tensor, context, _, micro_batches = self.divides.shape
        return np.broadcast_to(values, (stages, tensor, context, 1, micro_batches)).ravel()

    def memory(self, states: Numbers, activity: Numbers, some: _Candidates, level: Whole) -> Numbers:
        """Memory of some candidates: of their states, and of their activations at some levels of recomputation [B]."""
        active: Numbers = activity.ravel()[level * (activity.size // len(activity)) + some.run]
        return active + states.ravel()[some.state]

    def at(self, places: Whole) -> _Candidates:
        """The candidates at some places of the table, counted through."""
        _, stages, tensor, context, experts, micro_batches = self.divides.shape
        groups, degrees = tensor * context * experts, self.kept["pipeline"].size
        rest, layer = _divided(places, groups * micro_batches)
        sharding, stage = _divided(rest, stages)
        group, micro_batch = _divided(layer, micro_batches)
        run = (stage * (tensor * context) + group // experts) * micro_batches + micro_batch
        return _Candidates(run, stage, layer, (sharding * degrees + self.kind[stage]) * groups + group)

    def columns(self, some: _Candidates) -> dict[str, Numbers]:
        """Some candidates, setting by setting."""
        return _rows(self.stages, some.stage) | _rows(self.layers, some.layer) | {"sharding": self.sharding[some.state]}


class _Candidates(NamedTuple):
    """Some candidates of a grid, by their places in it.

    Attributes:
        run: among stages and layers together, whatever the experts' degree [1].
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


def _grid(space: _Space) -> _Grid:
    shape, job, fixed = space.shape, space.job, space.fixed
    lists = _degrees(space)
    stages = np.array(_stages(shape, lists["pipeline"], fixed), np.int64).reshape(-1, 2)
    p, kind = np.unique(stages[:, 0], return_inverse=True)
    t, c, e, b = (np.array(lists[name], np.int64) for name in ("tensor", "context", "expert", "micro_batch"))
    shardings = np.array(lists["sharding"], np.int64)
    variants = len(shardings) * len(lists["recompute"]) * len(lists["sequence_parallel"])

    across = t[:, None, None], p[:, None, None, None], c[:, None]
    spans = e * fixed.ranks_of_expert(across[0])
    data, whole, even, rounds, spread = _division(space.gpus, int(job.global_batch), *across, spans, b)
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
    return best_of([search], budget, timed, quickest)[0]


def best_of(
    searches: Sequence[Search], budget: float = 1.0, timed: bool = True, quickest: int | None = None
) -> list[SearchResult]:
    """The same of several searches of one model, stack and calibration with `alike` links, timed in one call.

    What fits does not depend on the links: it is looked for once for all searches that differ in nothing else.
    """
    if any(search.fixed.single for search in searches):
        return [_single(search, budget * _capacity(search)) for search in searches]
    by_job: dict[tuple[Job, GpuRates, int], tuple[_Grid, _Fitting]] = {}
    fitted: list[tuple[_Grid, _Fitting]] = []
    for search in searches:
        key = search.job, search.gpu, search.gpus
        if key not in by_job:
            by_job[key] = _fitting(search, budget * _capacity(search))
        fitted.append(by_job[key])
    if timed:
        times = _times(_Field.of(searches, fitted), quickest)
    else:
        counts = [len(fitting.memory) for _, fitting in fitted]
        times = [(np.arange(count), np.full(count, np.nan), 0) for count in counts]
    return [
        _result(search, each, timing, quickest)
        for search, each, timing in zip(searches, fitted, times, strict=True)
    ]  # fmt: skip


def _capacity(search: Search) -> float:
    return float(np.ravel(search.gpu.memory_capacity)[0])


def _result(
    search: Search, found: tuple[_Grid, _Fitting], timed: tuple[Whole, Numbers, int], quickest: int | None
) -> SearchResult:
    """The quickest of the places that are worth it, with their times."""
    (grid, fitting), (places, time, evaluated) = found, timed
    order = _order(time)[:quickest]
    places, time = places[order], time[order]
    columns = grid.columns(fitting.candidates.at(places))
    return SearchResult(
        enumerated=grid.enumerated,
        divisible=grid.divisible,
        feasible=len(fitting.memory),
        evaluated=evaluated,
        parallelism=search.parallelism(columns, fitting.recompute[places]),
        time=time,
        memory=fitting.memory[places],
        smallest_memory=fitting.smallest_memory,
        smallest=fitting.smallest,
    )


def _order(times: Numbers) -> Whole:
    """Places of times, quickest first; of equal ones the first, and what is not a number last."""
    order = np.argsort(times)  # a quarter of the time of a stable one
    ascending = times[order]
    return order if np.all(ascending[1:] > ascending[:-1]) else np.argsort(times, kind="stable")


@dataclass(frozen=True)
class Given:
    """Configurations in which everything is given.

    Attributes:
        parallelism: the configurations.
        whole: whether their degrees multiply to the cluster, and their stages have the layers.
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
    _, whole, even, rounds, spread = _division(search.gpus, _integer(job.global_batch), t, p, c, spans, b)
    staged = _staged(search.shape, p, v, len(fixed.chunks))
    settings = {
        "tensor": t * 1.0,
        "pipeline": p * 1.0,
        "virtual_pipeline": v * 1.0,
        "context": c * 1.0,
        "expert": e * 1.0,
        "micro_batch": b * 1.0,
        "sharding": sharding * 1.0,
        "sequence_parallel": where(t > 1, 0.0 if fixed.sequence_parallel is False else 1.0, 0.0),
    }
    parallelism = search.parallelism(settings, recompute)
    divides = staged & where(v > 1, rounds, even) & spread
    size: Array = np.nan
    if any_(divides):
        whole_memory = training_memory.memory(search.shape, job, parallelism, search.software, search.calibration)
        size = where(divides, whole_memory.total, np.nan)
    return Given(parallelism, staged & whole, divides, size)


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
    smallest_memory: float = np.nan
    smallest: Parallelism | None = None


def _fitting(search: Search, limit: float) -> tuple[_Grid, _Fitting]:
    """The candidates that fit. The least recomputation is the quickest: more is only for what does not fit yet."""
    grid, states, activity = _enumerated(search.space)
    room = limit - grid.by_stage(states)
    left, places = grid.divides & (room >= 0), []
    for busy in activity:
        fits = left & (busy <= room)
        left ^= fits
        if grid.spare:
            superfluous = _superfluous(grid, states.shape, fits)
            fits, left = fits > superfluous, left > superfluous
        places.append(np.flatnonzero(fits))
    candidates, level = grid.at(_joined(places)), np.repeat(np.arange(len(places)), [*map(len, places)])
    memory = grid.memory(states, activity, candidates, level)
    fitting = _Fitting(candidates, np.array(grid.recompute)[level], memory)
    if len(memory) or not grid.divides.any():
        return grid, fitting
    frugal, level, size = _frugal(grid, states, activity)
    smallest = row(search.parallelism(grid.columns(frugal), np.array(grid.recompute)[level]), 0)
    return grid, replace(fitting, smallest_memory=float(size[0]), smallest=smallest)


def _superfluous(grid: _Grid, states: tuple[int, ...], fits: Flags) -> Flags:
    """Marks sharded gradients, which cost time, where what shards the optimizer state alone fits."""
    sharding = grid.by_stage(np.broadcast_to(grid.kept["sharding"], states))
    return (sharding == GRADIENTS) & np.any(fits & (sharding == OPTIMIZER), axis=0)


def _frugal(grid: _Grid, states: Numbers, activity: Numbers) -> tuple[_Candidates, Whole, Numbers]:
    """The candidate that needs least, at which place of the levels of recomputation, and its memory [B]."""
    some, levels = grid.at(np.flatnonzero(grid.divides)), len(activity)
    sizes = np.array([grid.memory(states, activity, some, np.array(level)) for level in range(levels)])
    level, place = np.divmod(np.argmin(sizes, keepdims=True).ravel(), len(some.run))
    return some.at(place), level, sizes[level, place]


_Enumerated = tuple[_Grid, Numbers, Numbers]
MOST_KEPT = 40_000_000
"""Bytes of enumerations that are kept: those of a batch that much divides, such as 720,720, take 4 MB each."""


class _Enumerations:
    """What was enumerated last: the last at least, and of those before it as many as `MOST_KEPT` has room for."""

    def __init__(self) -> None:
        self.kept: OrderedDict[_Space, _Enumerated] = OrderedDict()
        self.bytes = 0
        self.lock = Lock()

    def get(self, space: _Space) -> _Enumerated | None:
        """What is kept of a space."""
        with self.lock:
            known = self.kept.get(space)
            if known:
                self.kept.move_to_end(space)
            return known

    def keep(self, space: _Space, made: _Enumerated) -> None:
        """Keep what was made of a space."""
        with self.lock:
            if space in self.kept:
                return
            self.kept[space] = made
            self.bytes += made[-1].nbytes
            while len(self.kept) > 1 and self.bytes > MOST_KEPT:
                self.bytes -= self.kept.popitem(last=False)[1][-1].nbytes


_enumerations = _Enumerations()


def _enumerated(space: _Space) -> _Enumerated:
    """Candidates, memory of their states, with its axes, and of their activations: by recomputation, then as a table of
    stages and layers.

    Kept: it takes a third of a search, and a study asks about equal numbers of other GPUs and on other networks.
    """
    made = _enumerations.get(space)
    if made is None:
        made = _enumerate(space)
        _enumerations.keep(space, made)
    return made


def _enumerate(space: _Space) -> _Enumerated:
    grid, shape, job, software = _grid(space), space.shape, space.job, space.software
    states = sum(training_memory.states(shape, job, space.fixed.spread(space.gpus, grid.kept), software))
    levels = np.array(grid.recompute)[:, *[None] * 5]
    busy = space.fixed.spread(space.gpus, grid.busy, levels)
    activity = sum(training_memory.activity(shape, job, busy, software, space.context, space.fragmentation))
    _, stages, tensor, context, _, micro_batches = grid.divides.shape
    return (
        grid,
        np.broadcast_to(states, np.broadcast(*grid.kept.values()).shape),
        np.broadcast_to(activity, (len(levels), stages, tensor, context, 1, micro_batches)),
    )


@dataclass(frozen=True)
class _Field:
    """What fits in some searches, and what its steps are put together from: equal layers and states are timed once.

    Attributes:
        searches: what is searched, alike but for numbers [1].
        merged: the searches as one, whose numbers are columns where they differ.
        fitted: the grid of each, and what fits [1].
        layer: of each, the place of a candidate's layer in `layers` and `heads` [1].
        layers, heads: time of a layer, and of the output head, for one micro-batch [s].
        sends: which of the different volumes between stages each of these layers has [1].
        state: of each, the place of a candidate's state in `between` [1].
        between: what is exchanged beyond a layer.
    """

    searches: Sequence[Search]
    merged: Search
    fitted: Sequence[tuple[_Grid, _Fitting]]
    layer: Sequence[Whole]
    layers: Numbers
    heads: Numbers
    sends: Whole
    state: Sequence[Whole]
    between: _Between

    @classmethod
    def of(cls, searches: Sequence[Search], fitted: Sequence[tuple[_Grid, _Fitting]]) -> _Field:
        """Layers and states of all that fits, timed."""
        merged = _as_one(searches)
        kinds, layer = _numbered([_distinct_layers(searches[0], *each) for each in fitted])
        layers, heads, sends = _layer_times(merged, [grid for grid, _ in fitted], kinds)
        if len(fitted) == 1:
            grid, fitting = fitted[0]
            state, between = [fitting.candidates.state], _Between.of(merged, grid.kept).sending(merged, grid)
        else:
            kept, state = _numbered([
                _distinct(fitting.candidates.state, len(grid.sharding)) for grid, fitting in fitted
            ])  # fmt: skip
            between = _Between.of_some(merged, [grid for grid, _ in fitted], kept)
        return cls(searches, merged, fitted, layer, layers, heads, sends, state, between)

    def least(self, place: int) -> Numbers:
        """What the candidates of a search take at least, by their layers alone [s]."""
        (grid, fitting), search = self.fitted[place], self.searches[place]
        rounds = step.least_time(1.0, search.shape, search.job, search.parallelism(grid.busy))
        return grid.runs(rounds)[fitting.candidates.run] * self.layers[self.layer[place]]

    def undisturbed(self, chosen: Sequence[Whole]) -> list[Numbers]:
        """What some candidates of each search take where nothing is exchanged beyond a layer [s]."""

        def time(search: Search, parallelism: Parallelism, layer: Whole, _: Whole) -> Array:
            pieces = self.layers[layer], self.heads[layer]
            return step.undisturbed_time(*pieces, search.shape, search.job, parallelism, search.calibration)

        return self._timed(time, chosen, linked=False)

    def clock(self, chosen: Sequence[Whole]) -> list[Numbers]:
        """The step times of some candidates of each search [s]."""

        def time(search: Search, parallelism: Parallelism, layer: Whole, state: Whole) -> Array:
            sent = self.between.rows(search, parallelism, self.sends[layer], state)
            pieces = step.Pieces(self.layers[layer], self.heads[layer], sent, self.between.state(search, state))
            rest = search.gpu, parallelism, search.software, search.calibration
            return step.assemble(pieces, search.shape, search.job, *rest).time

        return self._timed(time, chosen)

    def _timed(
        self,
        time: Callable[[Search, Parallelism, Whole, Whole], Array],
        chosen: Sequence[Whole],
        linked: bool = True,
    ) -> list[Numbers]:
        """Some candidates of each search, timed block by block."""
        if len(chosen) == 1:
            return [self._timed_alone(time, chosen[0])]
        columns = _all_of([self._columns(owner, places) for owner, places in enumerate(chosen)])
        columns["owner"] = np.repeat(np.arange(len(chosen)), [len(places) for places in chosen])
        times = np.empty(len(columns["owner"]))
        for start in range(0, len(times), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            block = {name: column[rows] for name, column in columns.items()}
            layer, state, recompute = (block.pop(name) for name in ("layer", "state", "recompute"))
            search = _of_owners(self.merged, block.pop("owner"), linked)
            times[rows] = time(search, search.parallelism(block, recompute), layer, state)
        return np.split(times, list(accumulate(len(places) for places in chosen))[:-1])

    def _columns(self, owner: int, places: Whole) -> dict[str, NDArray[Any]]:
        """Some candidates of a search, setting by setting."""
        (grid, fitting), layer, state = self.fitted[owner], self.layer[owner], self.state[owner]
        settings = grid.columns(fitting.candidates.at(places))
        return settings | {"recompute": fitting.recompute[places], "layer": layer[places], "state": state[places]}

    def _timed_alone(self, time: Callable[[Search, Parallelism, Whole, Whole], Array], places: Whole) -> Numbers:
        """Some candidates of the only search, timed block by block; many by what they share, which is then a number."""
        search, (grid, fitting) = self.merged, self.fitted[0]
        times, sharing = np.empty(len(places)), grid.sharding[fitting.candidates.state[places]]
        kinds = [float(kind) for kind in SHARDINGS] if len(places) > ROWS_AT_ONCE else [None]
        for kind in kinds:
            of_kind = np.arange(len(places)) if kind is None else np.flatnonzero(sharing == kind)
            for start in range(0, len(of_kind), ROWS_AT_ONCE):
                rows = of_kind[start : start + ROWS_AT_ONCE]
                block: dict[str, Any] = self._columns(0, places[rows])
                layer, state, recompute = (block.pop(name) for name in ("layer", "state", "recompute"))
                if kind is not None:
                    block["sharding"] = kind
                times[rows] = time(search, search.parallelism(block, recompute), layer, state)
        return times


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


def _numbered(distinct: Sequence[tuple[Whole, Whole]]) -> tuple[list[Whole], list[Whole]]:
    """The different things of each grid, and where each candidate's is among those of all grids."""
    before = accumulate((len(things) for things, _ in distinct), initial=0)
    places = [place + start if start else place for start, (_, place) in zip(before, distinct, strict=False)]
    return [things for things, _ in distinct], places


VARIANTS = 2 * 3
"""Ways to run a layer: by recomputation, and by whether the micro-batches of several chunks alternate [1]."""


def _distinct_layers(search: Search, grid: _Grid, fitting: _Fitting) -> tuple[Whole, Whole]:
    """The different layers of what fits, and which each candidate has.

    A layer's time depends on the stages only in whether the micro-batches of several chunks alternate.
    """
    key = fitting.candidates.layer * VARIANTS + fitting.recompute
    if any_(search.software.staged_expert > 0):
        key += 3 * (grid.stages["virtual_pipeline"] > 1)[fitting.candidates.stage]
    return _distinct(key, len(grid.layers["tensor"]) * VARIANTS)


def _layer_times(merged: Search, grids: Sequence[_Grid], kinds: Sequence[Whole]) -> tuple[Numbers, Numbers, Whole]:
    """Time of some layers of each grid, and of the output head beside each, for one micro-batch [s].

    Beside them, which of the different volumes that stages send one another each has. What a layer exchanges, and the
    head, are the same however it is run: they are worked out once for all its variants.
    """
    settings, variants = _numbered([
        _distinct(kind // VARIANTS, len(grid.layers["tensor"])) for grid, kind in zip(grids, kinds, strict=True)
    ])  # fmt: skip
    owners = np.repeat(np.arange(len(grids)), [len(places) for places in settings])
    each, search, alone = _joined(variants), _of_owners(merged, owners), len(grids) == 1
    rows = _all_of([_rows(grid.layers, places) for grid, places in zip(grids, settings, strict=True)])
    axes, among = (grids[0].open_layers, settings[0][each]) if alone else (rows, each)
    shape, software, cal, once = search.shape, search.software, search.calibration, search.parallelism(axes)
    sent = exchanges.layer_exchanges(shape, search.job, once, software, search.links, KNOWN if alone else EACH)
    heads = _table(step.head_time(shape, search.job, search.gpu, once, cal), axes)
    every = LayerExchanges(*(
        Exchange(_table(part.time, axes)[among], _table(part.crosses, axes)[among])
        for part in (sent.tensor, sent.context, sent.expert)
    ))  # fmt: skip
    columns, variant = _rows(rows, each), _joined(kinds) % VARIANTS
    columns["virtual_pipeline"] = np.where(variant < 3, 1.0, 2.0)
    search = _of_owners(merged, owners[each], linked=False)
    parallelism = search.parallelism(columns, variant % 3)
    layers = step.layer(shape, search.job, search.gpu, parallelism, software, cal, every).total
    return _table(layers, columns), heads[among], _sends(grids, settings)[each]


def _places(far: Numbers, network: Array) -> Whole:
    """Which of the different places of stages some states have."""
    place = np.unique(network, return_inverse=True)[1].ravel() if isinstance(network, np.ndarray) else 0
    return 2 * place + (far > 0)


def _sends(grids: Sequence[_Grid], places: Sequence[Whole]) -> Whole:
    """Which of the different volumes between stages some layers of each grid have: neither experts nor reruns count."""
    parts, before = [], 0
    for grid, place in zip(grids, places, strict=True):
        *_, tensor, context, experts, micro_batches = grid.divides.shape
        group, last = _divided(place, experts * micro_batches)
        parts.append(before + group * micro_batches + last % micro_batches)
        before += tensor * context * micro_batches
    return _joined(parts)


def _all_of(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Columns of several grids, one after the other."""
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


@dataclass(frozen=True)
class _Between:
    """What is exchanged beyond a layer, for states of candidates.

    Attributes:
        gather, flat_gather, data: dense parameters and experts together, beside computation [s].
        far, network: between stages, as `exchanges.stage_place` has it [1].
        places: which of the different places of stages each has [1].
        dense, expert, layer: parameters on a GPU, as `transformer.Held` has them [1].
        optimizer: time of updating them [s].
        send: to the next stage, by places and volumes, where known; else none [s].
    """

    gather: Numbers
    flat_gather: Numbers
    data: Numbers
    far: Numbers
    network: Numbers
    places: Whole
    dense: Numbers
    expert: Numbers
    layer: Numbers
    optimizer: Numbers
    send: Numbers | None = None

    @classmethod
    def of_some(cls, merged: Search, grids: Sequence[_Grid], kept: Sequence[Whole]) -> _Between:
        """Those of some states of each grid."""
        columns = _all_of([
            {name: _table(column, grid.kept)[states] for name, column in grid.kept.items()}
            for grid, states in zip(grids, kept, strict=True)
        ])  # fmt: skip
        return cls.of(_of_owners(merged, np.repeat(np.arange(len(grids)), [len(states) for states in kept])), columns)

    @classmethod
    def of(cls, search: Search, columns: Mapping[str, Numbers]) -> _Between:
        """Those of some states, or of all over open axes."""
        states, cal = search.parallelism(columns), search.calibration
        made = EACH if isinstance(search.gpus, np.ndarray) else KNOWN
        known = step.state_of(search.shape, search.job, search.gpu, states, cal, 1.0)
        if search.fixed.sharding is None and not search.shape.experts:  # of a lone replica experts may have several
            states = replace(states, sharding=maximum(states.sharding, float(OPTIMIZER)))
        alone = exchanges.replica_exchanges(
            search.shape, search.job, states, search.software, search.links, cal.bucket, made
        )

        def together(*parts: Exchange) -> Numbers:
            return _table(sum(traffic.beside_computation(part, cal) for part in parts), columns)

        far, network = exchanges.stage_place(states, search.links)
        return cls(
            gather=together(alone.gather, alone.expert_gather),
            flat_gather=together(alone.flat_gather),
            data=together(alone.data, alone.expert_data),
            far=_table(far, columns),
            network=_table(network, columns),
            places=_places(_table(far, columns), network if np.ndim(network) == 0 else _table(network, columns)),
            dense=_table(known.held.dense, columns),
            expert=_table(known.held.expert, columns),
            layer=_table(known.held.layer, columns),
            optimizer=_table(known.optimizer, columns),
        )

    def sending(self, search: Search, grid: _Grid) -> _Between:
        """The same with the time of every volume between stages, where these are not too many."""
        axes = {name: axis for name, axis in grid.open_layers.items() if name in ("tensor", "context", "micro_batch")}
        volumes = _table(exchanges.pipeline_volume(search.shape, search.job, search.parallelism(axes)), axes)
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

    def rows(self, search: Search, parallelism: Parallelism, sends: Whole, state: Whole) -> StepExchanges:
        """Those of some candidates, by the states that they have; equal sends between stages are timed once."""
        sharded = parallelism.sharding == PARAMETERS
        flat = any_(search.software.flat_sharding > 0)
        return StepExchanges(
            pipeline=Exchange(self._send(search, parallelism, sends, state), self.far[state]),
            gather=Exchange(where(sharded, self.gather[state], 0.0)) if any_(sharded) else NOTHING,
            flat_gather=Exchange(where(sharded, self.flat_gather[state], 0.0)) if flat else NOTHING,
            data=Exchange(where(sharded, 0.0, self.data[state])),
        )

    def _send(self, search: Search, parallelism: Parallelism, sends: Whole, state: Whole) -> Numbers:
        """Time of sending between the stages of some candidates [s]."""
        if self.send is not None:
            return self.send[self.places[state], sends]
        key = sends * (int(self.places.max()) + 1) + self.places[state]
        distinct, place = _distinct(key, int(key.max()) + 1)
        first = np.empty(len(distinct), np.int64)
        first[place] = np.arange(len(place))
        some, volume = state[first], np.asarray(exchanges.pipeline_volume(search.shape, search.job, parallelism))
        links = link_rows(search.links, first) if isinstance(search.gpus, np.ndarray) else search.links
        send = np.asarray(send_time(pair_of(links, self.far[some], self.network[some]), volume[first]))
        return send[place]


_Places = list[Whole]
"""Some candidates of each search."""


def _times(field: _Field, quickest: int | None) -> list[tuple[Whole, Numbers, int]]:
    """Which fitting candidates of each search are worth listing, their step times [s], and how many were timed."""
    times = [np.full(len(fitting.memory), np.nan) for _, fitting in field.fitted]

    def clock(chosen: _Places) -> None:
        _fill(times, chosen, field.clock)

    worth = _all_worth(field, times, clock) if quickest is None else _quickest(field, times, clock, quickest)
    return [
        (places, time[places], int(np.count_nonzero(~np.isnan(time))))
        for places, time in zip(worth, times, strict=True)
    ]  # fmt: skip


def _fill(times: list[Numbers], chosen: _Places, form: Callable[[_Places], list[Numbers]]) -> None:
    """Fill in the times of some candidates, where there are any."""
    if any(map(len, chosen)):
        for time, places, values in zip(times, chosen, form(chosen), strict=True):
            time[places] = values


def _all_worth(field: _Field, times: list[Numbers], clock: Callable[[_Places], None]) -> _Places:
    """All that may be within `PRUNE_FACTOR` of the best, or all where there are few.

    A step takes at least the layers of its deepest stage for every micro-batch. Where that alone is so many times the
    best step found among the most promising, the rest is not worked out.
    """
    least = [field.least(place) if len(time) > FEW else np.zeros(len(time)) for place, time in enumerate(times)]
    clock([_lowest(bounds, FIRST_BATCH) for bounds in least])
    enough = [PRUNE_FACTOR * float(np.fmin.reduce(time, initial=np.nan)) for time in times]
    # What is not a number stays, and comes last.
    worth = [np.flatnonzero(~(bounds > most)) for bounds, most in zip(least, enough, strict=True)]
    clock([places[np.isnan(time[places])] for places, time in zip(worth, times, strict=True)])
    return worth


def _quickest(field: _Field, times: list[Numbers], clock: Callable[[_Places], None], many: int) -> _Places:
    """All that may be among so many of the quickest, or all where there are few.

    A step takes at least its stages and bubble with nothing exchanged. What takes longer for these alone than as many
    others altogether is not worked out; nor these, in a large space, where that is so of the layers of its deepest
    stage.
    """
    first = max(PROMISING, PROMISING_EACH * many)
    alone = [np.full(len(time), np.nan) for time in times]
    least = [
        field.least(place) if len(time) > POOL * first else np.zeros(len(time)) for place, time in enumerate(times)
    ]

    def bound(chosen: _Places) -> None:
        unbound = [
            places[np.isnan(time[places])] if len(time) > first else places[:0]
            for places, time in zip(chosen, alone, strict=True)
        ]
        _fill(alone, unbound, field.undisturbed)

    pools = [_lowest(bounds, POOL * first) for bounds in least]
    bound(pools)
    clock([pool[_lowest(time[pool], first)] for pool, time in zip(pools, alone, strict=True)])
    enough = [_nth(time, many) if len(time) > first else np.inf for time in times]
    near = [np.flatnonzero(~(bounds > most)) for bounds, most in zip(least, enough, strict=True)]
    bound(near)
    worth = [places[~(time[places] > most)] for places, time, most in zip(near, alone, enough, strict=True)]
    clock([places[np.isnan(time[places])] for places, time in zip(worth, times, strict=True)])
    return worth


def _lowest(bounds: Numbers, many: int) -> Whole:
    """Places of so many of the lowest, or of all."""
    return np.argpartition(bounds, many)[:many] if len(bounds) > many else np.arange(len(bounds))


def _nth(times: Numbers, rank: int) -> float:
    """The time of this rank, and what it might be for being added up in another order [s]."""
    return float(np.partition(times, rank - 1)[rank - 1]) * (1 + ROUNDING)
