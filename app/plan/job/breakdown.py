"""What a step and its memory are made of, what doubling a resource would save, and how each number came about."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.arrays import Array, any_, maximum
from app.formulas.training import arguments, compute, memory
from app.formulas.training import goodput as training_goodput
from app.formulas.training import step as training_step
from app.formulas.transformer import Shape
from app.plan.band import Draws
from app.plan.cluster import Hardware
from app.plan.job.calibration import peaks
from app.plan.job.inputs import Numbers
from app.plan.result import Explanation, Parallelism, Resource, Term
from app.plan.scenario import Scenario

Floats = NDArray[np.float64]
RESOURCES: tuple[Resource, ...] = ("compute", "memory_bandwidth", "scale_up", "scale_out", "bubble", "overhead")
OVERHEADS = (
    "scale_up_latency", "scale_out_latency", "hop", "host_layer", "host_expert", "expert_launch", "optimizer_overhead",
    "straggler",
)  # fmt: skip
FACTOR = 2.0
"""How many times better each resource is in a what-if."""
PART_NAMES = {
    "linear_layers": "linear layers",
    "attention": "attention",
    "output_head": "the output head",
    "elementwise": "elementwise work",
    "gradient_accumulation": "adding up gradients",
    "optimizer": "the optimizer",
    "tensor_parallel": "tensor-parallel traffic",
    "context_parallel": "context-parallel traffic",
    "expert_parallel": "the experts' all-to-all",
    "pipeline_parallel": "traffic between stages",
    "data_parallel": "data-parallel traffic",
    "bubble": "the pipeline's bubble",
    "launches": "launching kernels",
    "end_of_step": "the end of the step",
    "stragglers": "stragglers",
}


def step_parts(
    one: training_step.Layer, step: training_step.Step, par: arguments.Parallelism, n: Numbers
) -> list[tuple[str, Resource, Array]]:
    """The parts of a step by name, with the resource that bounds each; they add up to its time [s]."""

    def link(ranks: Array) -> Resource:
        return "scale_out" if any_(ranks > n.hardware.scale_up_domain) else "scale_up"

    fixed = n.calibration.optimizer_overhead
    return [
        ("linear_layers", "compute", step.layers * one.products),
        ("attention", "compute", step.layers * one.attention),
        ("output_head", "compute", step.head),
        ("elementwise", "memory_bandwidth", step.layers * one.elementwise),
        ("gradient_accumulation", "memory_bandwidth", step.accumulation),
        ("optimizer", "memory_bandwidth", step.optimizer - fixed),
        ("tensor_parallel", link(par.tensor), step.layers * one.tensor),
        ("context_parallel", link(par.tensor * par.context), step.layers * one.context),
        ("expert_parallel", link(par.expert * par.expert_tensor), step.layers * one.expert),
        ("pipeline_parallel", link(par.ranks), step.pipeline),
        ("data_parallel", link(par.tensor * par.context * par.data), step.data),
        ("bubble", "bubble", step.bubble),
        ("launches", "overhead", step.layers * one.host),
        ("end_of_step", "overhead", fixed),
        ("stragglers", "overhead", step.straggler),
    ]


def _factors() -> dict[Resource, Floats]:
    """How much better each resource is in the plan and its what-ifs: a first axis of one and the resources."""
    factors = np.where(np.eye(len(RESOURCES), len(RESOURCES) + 1, 1) > 0, FACTOR, 1.0)[..., None]
    factors.flags.writeable = False
    return dict(zip(RESOURCES, factors, strict=True))


BETTER = _factors()


def improved(n: Numbers, par: arguments.Parallelism) -> tuple[Numbers, arguments.Parallelism]:
    """The plan as it is, and with each resource twice as good: a first axis of one and the resources."""
    hardware = replace(
        n.hardware,
        matrix_peak=n.hardware.matrix_peak * BETTER["compute"],
        linear_peak=n.hardware.linear_peak * BETTER["compute"],
        memory_bandwidth=n.hardware.memory_bandwidth * BETTER["memory_bandwidth"],
        scale_up_bandwidth=n.hardware.scale_up_bandwidth * BETTER["scale_up"],
        scale_out_bandwidth=n.hardware.scale_out_bandwidth * BETTER["scale_out"],
    )
    better = replace(n, hardware=hardware, calibration=_quicker(n.calibration))
    return better, replace(par, bubble=par.bubble / BETTER["bubble"])


@lru_cache(maxsize=64)
def _quicker(cal: arguments.Calibration) -> arguments.Calibration:
    """The constants with the overheads of the what-ifs."""
    quicker: dict[str, Floats] = {name: getattr(cal, name) / BETTER["overhead"] for name in OVERHEADS}
    for values in quicker.values():
        values.flags.writeable = False
    return replace(cal, **quicker)


@dataclass(frozen=True)
class Timing:
    """The step and its what-ifs: (1 + resources, draws); everything NaN where nothing fits."""

    time: Floats
    parts: tuple[tuple[str, Resource, Floats], ...]
    straggler: Floats
    bottleneck: tuple[Resource, float] | None


def timing_of(model: Shape, n: Numbers, par: arguments.Parallelism | None, width: int) -> Timing:
    if par is None:
        nothing = np.full((len(RESOURCES) + 1, width), np.nan)
        return Timing(nothing, (), nothing[0], None)
    better, spread = improved(n, par)
    one, step = training_step.layer_and_step(
        model, better.job, better.hardware, spread, better.software, better.calibration
    )
    time = step.time + np.zeros((len(RESOURCES) + 1, width))

    # The plan itself is the first of the what-ifs.
    own = training_step.Layer(*map(_itself, vars(one).values())), training_step.Step(*map(_itself, vars(step).values()))
    named = step_parts(*own, par, n)
    table = np.empty((len(named), width))
    for row, (_, _, value) in zip(table, named, strict=True):
        row[:] = value
    parts = tuple(
        (name, resource, row)
        for (name, resource, _), row, most in zip(named, table, table.max(axis=-1).tolist(), strict=True)
        if most > 0
    )
    sums = dict.fromkeys(RESOURCES, 0.0)
    for _, resource, row in parts:
        sums[resource] += float(row[0])
    first = max(RESOURCES, key=lambda resource: sums[resource])
    straggler = own[1].straggler / own[1].time + np.zeros(width)
    return Timing(time, parts, straggler, (first, sums[first] / float(time[0, 0])))


def _itself(value: Array) -> Array:
    """The first of the what-ifs."""
    return value[0] if isinstance(value, np.ndarray) and value.ndim > 1 else value


def goodput(scenario: Scenario, catalog: Catalog) -> tuple[NDArray[np.float64], tuple[Estimate, ...]]:
    """Share of time that makes progress, as draws, and the estimates it rests on."""
    if scenario.availability is not None:
        return np.array([scenario.availability]), ()
    table = catalog.training["failures"]
    used: list[Estimate] = []

    def value(asked: float | None, name: str) -> Array:
        if asked is not None:
            return asked
        used.append(table[name])
        return table[name].draws()

    failures = scenario.gpus * value(scenario.failure_rate, "rate")
    if not any_(failures > 0):
        return np.array([1.0]), tuple(used)
    checkpoint = value(scenario.checkpoint_time, "checkpoint_time")
    restart = value(scenario.restart_time, "restart")
    interval = scenario.checkpoint_interval or training_goodput.checkpoint_interval(failures, maximum(checkpoint, 1e-3))
    return np.atleast_1d(training_goodput.goodput(failures, checkpoint, interval, restart)), tuple(used)


MEMORY_PART = "memory.parts."


def step_results(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    n: Numbers,
    par: arguments.Parallelism | None,
    timing: Timing,
    counted: float,
    used: tuple[Estimate, ...],
    error: float,
) -> tuple[float, dict[str, Draws]]:
    """The share of time that makes progress, and every result of the step as draws.

    ``counted`` are the model FLOPs of one token.
    """
    time = timing.time[0]
    tokens = scenario.global_batch * scenario.sequence_length
    again = 0.0 if par is None else compute.repeated_work(model, n.job, par, n.software)
    peak = n.hardware.linear_peak
    mfu = counted * tokens / (time * scenario.gpus * peak)
    share, kept = goodput(scenario, catalog)
    quantities = {
        "training.step_time": Draws(time, "s", used, error),
        "training.mfu": Draws(mfu, "1", used, error),
        "training.hfu": Draws(mfu * (1 + again / counted), "1", used, error),
        "training.tokens_per_second": Draws(tokens / time, "1/s", used, error),
        "training.time_to_train": Draws(scenario.training_tokens / tokens * time / share, "s", (*used, *kept), error),
        **{f"training.parts.{name}": Draws(part, "s", used, error) for name, _, part in timing.parts},
        **{
            f"bottleneck.{resource}": Draws(row, "s", used, error)
            for resource, row in zip(RESOURCES, timing.time[1:], strict=True)
        },
    }
    return float(np.ravel(share)[0]), quantities


def memory_results(
    model: Shape, n: Numbers, par: arguments.Parallelism | None, catalog: Catalog, used: tuple[Estimate, ...]
) -> tuple[bool | None, dict[str, Draws]]:
    """Whether the job fits, and every result of the memory as draws."""
    error = catalog.training["residual"]["memory"].typical
    capacity = np.atleast_1d(n.hardware.memory_capacity)
    if par is None:
        nothing = Draws(np.full(capacity.shape, np.nan), "B")
        return None, {
            "memory.total": nothing,
            "memory.capacity": Draws(capacity, "B", used),
            "memory.headroom": nothing,
        }
    held = vars(memory.memory(model, n.job, par, n.software, n.calibration))
    total = np.atleast_1d(held["total"])
    return bool(total[0] <= capacity[0]), {
        **{
            f"{MEMORY_PART}{name}": Draws(np.atleast_1d(np.asarray(size, float)), "B", used, error)
            for name, size in held.items()
            if name != "total"
        },
        "memory.total": Draws(total, "B", used, error),
        "memory.capacity": Draws(capacity, "B", used),
        "memory.headroom": Draws(capacity - total, "B", used),
    }


def explanations(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    parallelism: Parallelism | None,
    timing: Timing,
    share: float,
    flops: float,
    memory: Mapping[str, Draws],
) -> dict[str, Explanation]:
    """How the figures came about, with the plan's own numbers."""
    if parallelism is None:
        return {}
    time = float(timing.time[0, 0])
    tokens = float(scenario.global_batch * scenario.sequence_length)
    wide, linear, _ = peaks(hardware.gpu, scenario.precision)
    efficiency = catalog.training["products"]["efficiency"]
    parts = tuple(Term(name, PART_NAMES[name], float(part[0]), "s") for name, _, part in timing.parts)
    used = Term("MFU", "model FLOPs utilisation", flops * tokens / (time * scenario.gpus * linear.typical), "1")
    sizes = tuple(
        Term(part, part, float(draws.values[0]), "B")
        for path, draws in memory.items()
        if (part := path.removeprefix(MEMORY_PART)) != path
    )
    step = Term("T_step", "step time", time, "s")
    return {
        "training.step_time": Explanation(
            "training.assemble",
            (
                Term("m", "micro-batches of a replica", float(parallelism.micro_batches), "1"),
                Term("p", "pipeline stages", float(parallelism.pipeline_parallel), "1"),
                Term("v", "model chunks on each", float(parallelism.virtual_pipeline), "1"),
                Term("L", "layers", float(model.layers), "1"),
                Term("R", "16-bit matrix rate of one GPU", wide.typical, "FLOP/s", wide.source),
                Term("e", "share of it that a large product reaches", efficiency.typical, "1", efficiency.source),
                *parts,
            ),
        ),
        "training.mfu": Explanation(
            "training.mfu",
            (
                Term("F", f"model FLOPs of one token, {scenario.attention} attention counted", flops, "FLOP"),
                Term("B s", "tokens of one step", tokens, "1"),
                step,
                Term("n", "GPUs", float(scenario.gpus), "1"),
                Term("R", "dense peak at the precision of the layers", linear.typical, "FLOP/s", linear.source),
                used,
            ),
        ),
        "training.time_to_train": Explanation(
            "training.time_to_train",
            (
                Term("D", "training tokens", scenario.training_tokens, "1"),
                Term("B s", "tokens of one step", tokens, "1"),
                step,
                Term("A", "share of time that makes progress", share, "1", catalog.training["failures"]["rate"].source),
            ),
        ),
        "memory.total": Explanation("training.memory", sizes),
    }
