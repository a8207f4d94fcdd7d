"""The parts of a step, the resource that bounds each, and what a better resource would save."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app import training
from app.arrays import Array, some
from app.plan.parts import Resource
from app.plan.training.inputs import Numbers
from app.transformer import Shape

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
    one: training.Layer, step: training.Step, par: training.Parallelism, n: Numbers
) -> list[tuple[str, Resource, Array]]:
    """The parts of a step by name, with the resource that bounds each; they add up to its time [s]."""

    def link(ranks: Array) -> Resource:
        return "scale_out" if some(ranks > n.hardware.scale_up_domain) else "scale_up"

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


def improved(n: Numbers, par: training.Parallelism) -> tuple[Numbers, training.Parallelism]:
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
def _quicker(cal: training.Calibration) -> training.Calibration:
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


def timing_of(model: Shape, n: Numbers, par: training.Parallelism | None, width: int) -> Timing:
    if par is None:
        nothing = np.full((len(RESOURCES) + 1, width), np.nan)
        return Timing(nothing, (), nothing[0], None)
    better, spread = improved(n, par)
    arguments = (better.job, better.hardware, spread, better.software, better.calibration)
    one = training.layer(model, *arguments)
    head = training.head_time(model, better.job, better.hardware, spread, better.calibration)
    step = training.assemble(one, head, model, *arguments)
    time = step.time + np.zeros((len(RESOURCES) + 1, width))

    # The plan itself is the first of the what-ifs.
    own = training.Layer(*map(_itself, vars(one).values())), training.Step(*map(_itself, vars(step).values()))
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
