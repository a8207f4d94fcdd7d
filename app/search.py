"""The best way to spread a training step over a cluster.

Every combination of tensor, pipeline, virtual-pipeline, context, expert and data parallel degree, micro-batch,
sharding, recomputation and sequence parallelism is enumerated. Those that do not divide, then those that do not fit in
memory, are rejected before any step is timed; the rest are timed as arrays by the very functions that time a single
plan.

What is left out is infeasible or provably not faster:

- more recomputation than fits needs is slower, all else equal, since it adds work and nothing else;
- sequence parallelism moves the same bytes over the links and fewer through memory, and stores less;
- sharding the optimizer state sends no more bytes than not sharding it, updates fewer parameters and stores less;
- sharding gradients too only adds to what sharding the optimizer state sends, and matters where that does not fit;
- recomputing a flash attention core repeats nothing that the kernel does not repeat anyway;
- in large spaces, what needs twice the best step for its layers alone is slower than twice the best step.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from app import training
from app.training import Calibration, Hardware, Job, Layer, Parallelism, Software
from app.transformer import Shape

Whole = NDArray[np.int64]

NONE, OPTIMIZER, GRADIENTS, PARAMETERS = range(4)
SHORTEST_SHARE = 512
"""Tokens of a sequence that context parallelism leaves on a rank at least; shorter shares only add communication."""
ROWS_AT_ONCE = 40_000
"""Configurations timed in one pass: their arrays stay in the processor's cache."""
PROMISING = 4_000
"""Configurations timed first when there are many, those with the quickest layers."""
HOPELESS = 2.0
"""Times the best step beyond which a configuration is not timed to the end."""


@dataclass(frozen=True)
class Given:
    """Settings that are fixed; ``None`` means: find the best.

    `recompute` is 0 none, 1 selective, 2 full; `sharding` a ZeRO stage.
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
    bubble: float = 1.0
    largest_tensor: int | None = None

    @property
    def whole(self) -> bool:
        """Whether everything that decides the memory is given."""
        settings = (self.tensor, self.pipeline, self.context, self.micro_batch, self.sharding, self.recompute)
        return None not in settings


@dataclass(frozen=True)
class Found:
    """What the search saw, quickest first.

    Attributes:
        enumerated: whole configurations whose degrees multiply to the cluster.
        divisible: those whose layers, heads, batch and experts divide.
        feasible: those that also fit in memory, of each that differ in recomputation only the least.
        evaluated: those timed; the other feasible ones are provably slower.
        parallelism: the timed ones, quickest first, as arrays.
        time: their step times [s].
        memory: their memory [B].
        smallest_memory: where nothing fits, what the most frugal configuration needs [B]; NaN if none divides.
        frugal: that configuration, if there is one.
    """

    enumerated: int
    divisible: int
    feasible: int
    evaluated: int
    parallelism: Parallelism
    time: NDArray[np.float64]
    memory: NDArray[np.float64]
    smallest_memory: float
    frugal: Parallelism | None

    def best(self, rank: int = 0) -> Parallelism | None:
        """The configuration of this rank; ``None`` where so many did not fit."""
        return pick(self.parallelism, rank) if rank < len(self.time) else None


def pick(parallelism: Parallelism, index: int) -> Parallelism:
    """One configuration out of arrays of them."""
    return Parallelism(**{e.name: float(np.ravel(getattr(parallelism, e.name))[index]) for e in fields(Parallelism)})


def divisors(number: int) -> list[int]:
    """All divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    low = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return low + [number // i for i in reversed(low) if i * i != number]


def _choices(given: int | None, options: Sequence[int]) -> list[int]:
    return list(options) if given is None else [given]


def _degrees(shape: Shape, job: Job, hw: Hardware, sw: Software, gpus: int, given: Given) -> dict[str, list[int]]:
    """Candidate values of each setting, before they are combined."""
    heads, kv_heads, experts = int(shape.heads), int(shape.kv_heads), int(shape.experts)
    sequence, batch = int(job.sequence_length), int(job.global_batch)
    most = given.largest_tensor or max(int(hw.scale_up_domain), 1) * 4
    tensor = [
        t for t in divisors(heads) if gpus % t == 0 and t <= most and (kv_heads % t == 0 or t % max(kv_heads, 1) == 0)
    ]
    depth = int(shape.layers + shape.prediction_layers)
    pipeline = [p for p in divisors(gpus) if p <= depth]
    context = [c for c in divisors(gpus) if sequence % (2 * c) == 0 and sequence // c >= SHORTEST_SHARE] or [1]
    selective = float(sw.flash) < 1 or float(sw.selective_linear) > 0
    return {
        "tensor": _choices(given.tensor, tensor),
        "pipeline": _choices(given.pipeline, pipeline),
        "context": _choices(given.context, context),
        "expert": _choices(given.expert, [e for e in divisors(experts) if gpus % e == 0] if experts else [1]),
        "micro_batch": _choices(given.micro_batch, divisors(batch)),
        "sharding": _choices(given.sharding, [NONE, OPTIMIZER, GRADIENTS, PARAMETERS]),
        "recompute": _choices(given.recompute, [0, 1, 2] if selective else [0, 2]),
        "sequence_parallel": [0, 1] if given.sequence_parallel is None else [int(given.sequence_parallel)],
    }


def _stages(shape: Shape, degrees: Sequence[int], given: Given) -> list[tuple[int, int]]:
    """Pipeline and virtual-pipeline degrees: chunks divide the layers, with or without the embedding and the head."""
    depth = int(shape.layers + shape.prediction_layers)
    found = []
    for p in degrees:
        whole = [d for d in (depth, depth + 2) if p > 1 and d % p == 0][:1]
        chunks = sorted({1, *(v for d in whole for v in divisors(d // p))})
        found += [(p, v) for v in chunks if given.virtual_pipeline in (None, v)]
    return found


def _parallelism(columns: dict[str, NDArray[np.float64]], recompute: Whole, gpus: int, given: Given) -> Parallelism:
    data = gpus / (columns["tensor"] * columns["pipeline"] * columns["context"])
    replicas = data * columns["context"]
    group = replicas if given.sharding_group is None else np.minimum(float(given.sharding_group), replicas)
    return Parallelism(
        tensor=columns["tensor"],
        pipeline=columns["pipeline"],
        virtual_pipeline=columns["virtual_pipeline"],
        context=columns["context"],
        expert=columns["expert"],
        data=data,
        expert_tensor=np.ones_like(data),
        micro_batch=columns["micro_batch"],
        sharding=columns["sharding"],
        sharding_group=group,
        sequence_parallel=columns["sequence_parallel"],
        recompute=(recompute == 2).astype(np.float64),
        recompute_core=(recompute == 1).astype(np.float64),
        bubble=np.full_like(data, given.bubble),
    )


def take(parallelism: Parallelism, rows: Whole | slice) -> Parallelism:
    """Some configurations out of arrays of them."""
    return Parallelism(**{entry.name: getattr(parallelism, entry.name)[rows] for entry in fields(Parallelism)})


@dataclass(frozen=True)
class _Grid:
    """Candidates that divide, one entry each, recomputation apart.

    `layer` numbers the combinations of tensor, context and expert degree and micro-batch: all that the time of a layer
    depends on besides recomputation. `spare` marks sharded gradients that follow their own twin without.
    """

    enumerated: int
    divisible: int
    columns: dict[str, NDArray[np.float64]]
    layer: Whole
    spare: NDArray[np.bool_]
    recompute: list[int]


def _grid(shape: Shape, job: Job, hw: Hardware, sw: Software, gpus: int, given: Given) -> _Grid:
    lists = _degrees(shape, job, hw, sw, gpus, given)
    stages = np.array(_stages(shape, lists["pipeline"], given), np.int64).reshape(-1, 2)
    p, v = stages[:, :1], stages[:, 1:]
    axes = (np.array(lists[name], np.int64) for name in ("tensor", "context", "expert", "micro_batch"))
    t, c, e, b = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    shardings = np.array(lists["sharding"], np.int64)
    variants = len(shardings) * len(lists["recompute"]) * len(lists["sequence_parallel"])

    # Whole configurations: the degrees multiply to the cluster.
    model = t * c * p
    whole = gpus % model == 0
    # Divisibility: the batch into micro-batches, those into rounds of an interleaved schedule, ranks into groups of
    # experts.
    batch, data = int(job.global_batch), gpus // model
    per_step = np.maximum(data * b, 1)
    divides = whole & (batch % per_step == 0) & ((v == 1) | (batch // per_step % p == 0)) & (data * c * t % e == 0)
    stage, layer = np.nonzero(divides)

    # Nothing can be shared by one replica; among several, sharing the optimizer state never loses.
    several = (data * c)[divides] > 1
    useful = np.where(several[:, None], shardings > NONE, shardings == NONE)
    row, sharding = np.nonzero(useful if given.sharding is None else np.ones_like(useful))
    stage, layer = stage[row], layer[row]
    wide = {"tensor": t, "context": c, "expert": e, "micro_batch": b}
    sequence_parallel = np.where(t > 1, max(lists["sequence_parallel"]), 0)
    columns = {name: column.astype(np.float64)[layer] for name, column in wide.items()} | {
        "pipeline": stages[:, 0].astype(np.float64)[stage],
        "virtual_pipeline": stages[:, 1].astype(np.float64)[stage],
        "sharding": shardings.astype(np.float64)[sharding],
        "sequence_parallel": sequence_parallel.astype(np.float64)[layer],
    }
    spare = (columns["sharding"] == GRADIENTS) & (given.sharding is None)
    counts = int(whole.sum()) * variants, int(divides.sum()) * variants
    return _Grid(*counts, columns, layer, spare, sorted(lists["recompute"]))


def best(
    shape: Shape,
    job: Job,
    hw: Hardware,
    sw: Software,
    cal: Calibration,
    gpus: int,
    given: Given | None = None,
    budget: float = 1.0,
) -> Found:
    """Enumerate, reject, prune and time.

    Args:
        shape, job, hw, sw, cal: the job, the machine and the stack, as scalars.
        gpus: GPUs that train, all of them used.
        given: settings that are fixed.
        budget: share of the memory capacity that may be filled.
    """
    given = given or Given()
    grid = _grid(shape, job, hw, sw, gpus, given)
    limit = budget * float(np.ravel(hw.memory_capacity)[0])

    # The least recomputation that fits is the quickest: the next level is only for what does not fit yet.
    left = np.arange(len(grid.layer))
    kept: list[tuple[Whole, Whole, NDArray[np.float64]]] = []
    smallest, frugal = np.nan, None
    for value, passes in itertools.product(grid.recompute, (False, True)):
        # Sharding the gradients too costs time: it is for what does not fit with the optimizer state sharded.
        now = left[grid.spare[left] == passes]
        level = np.full(len(now), value)
        par = _parallelism({name: column[now] for name, column in grid.columns.items()}, level, gpus, given)
        size = _sizes(shape, job, par, sw, cal)
        fits = size <= limit
        kept.append((now[fits], level[fits], size[fits]))
        if len(size) and not size.min() >= smallest:
            smallest, frugal = float(size.min()), pick(par, int(np.argmin(size)))
        done = np.zeros(len(grid.layer), bool)
        done[now[fits]] = True
        if not passes:
            done[1:] |= done[:-1] & grid.spare[1:]
        left = left[~done[left]]
    chosen, recompute, memory = (np.concatenate(column) for column in zip(*kept, strict=True))

    columns = {name: column[chosen] for name, column in grid.columns.items()}
    fitting = _parallelism(columns, recompute, gpus, given)
    rows, time = _times(shape, job, hw, fitting, sw, cal, grid.layer[chosen] * 3 + recompute)
    order = rows[np.argsort(time, kind="stable")]
    return Found(
        enumerated=grid.enumerated,
        divisible=grid.divisible,
        feasible=len(chosen),
        evaluated=len(time),
        parallelism=take(fitting, order),
        time=np.sort(time, kind="stable"),
        memory=memory[order],
        smallest_memory=smallest,
        frugal=frugal,
    )


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, count, ROWS_AT_ONCE))


def _sizes(shape: Shape, job: Job, par: Parallelism, sw: Software, cal: Calibration) -> NDArray[np.float64]:
    """Memory of each configuration [B]."""
    size = np.empty(np.shape(par.data))
    for block in _blocks(len(size)):
        size[block] = training.memory(shape, job, take(par, block), sw, cal).total
    return size


def _times(
    shape: Shape, job: Job, hw: Hardware, par: Parallelism, sw: Software, cal: Calibration, layer: Whole
) -> tuple[Whole, NDArray[np.float64]]:
    """Rows worth timing and their step times [s]. Equal numbers in `layer` mean equal layers, which are timed once.

    A step takes at least the layers of its deepest stage for every micro-batch. Where that alone is `HOPELESS` times
    the best step found among the most promising, the rest is not worked out.
    """
    _, first, again = np.unique(layer, return_index=True, return_inverse=True)
    distinct = take(par, first)
    layers = np.asarray(training.layer(shape, job, hw, distinct, sw, cal).total)
    heads = np.asarray(training.head_time(shape, job, hw, distinct, cal))

    def timed(rows: Whole) -> NDArray[np.float64]:
        total = layers[again[rows]]
        # Only the sum enters the step; the parts of a layer are of interest for one plan.
        one = Layer(*(total for _ in fields(Layer)))
        step = training.assemble(one, heads[again[rows]], shape, job, hw, take(par, rows), sw, cal)
        return np.asarray(step.time, np.float64)

    depth = shape.layers + shape.prediction_layers
    least = training.least_time(layers[again], depth, job.global_batch, par)
    rows = np.arange(len(layer))
    if len(rows) > PROMISING:
        promising = np.argpartition(least, PROMISING)[:PROMISING]
        rows = np.flatnonzero(least <= HOPELESS * timed(promising).min())
    time = np.empty(len(rows))
    for block in _blocks(len(rows)):
        time[block] = timed(rows[block])
    return rows, time
