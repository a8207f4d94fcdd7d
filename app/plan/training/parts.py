"""The parts of a step, the resource that bounds each, and what a better resource would save."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app import training
from app.arrays import Array
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
    domain = np.asarray(n.hardware.scale_up_domain)

    def link(ranks: Array) -> Resource:
        return "scale_out" if float(np.max(np.asarray(ranks) / domain)) > 1 else "scale_up"

    fixed = n.calibration.optimizer_overhead
    return [
        ("linear_layers", "compute", step.layers * one.products),
        ("attention", "compute", step.layers * one.attention),
        ("output_head", "compute", step.head),
        ("elementwise", "memory_bandwidth", step.layers * one.elementwise),
        ("optimizer", "memory_bandwidth", step.optimizer - fixed),
        ("tensor_parallel", link(par.tensor), step.layers * one.tensor),
        ("context_parallel", link(par.tensor * par.context), step.layers * one.context),
        ("expert_parallel", link(par.expert * par.expert_tensor), step.layers * one.expert),
        ("pipeline_parallel", link(par.ranks), step.pipeline),
        ("data_parallel", link(par.tensor * par.context * par.data), step.data),
        ("bubble", "bubble", step.bubble),
        ("launches", "overhead", step.layers * one.host),
        ("end_of_step", "overhead", fixed + 0 * np.asarray(step.time)),
        ("stragglers", "overhead", step.straggler),
    ]


def improved(n: Numbers, par: training.Parallelism) -> tuple[Numbers, training.Parallelism]:
    """The plan as it is, and with each resource twice as good: a first axis of one and the resources."""

    def scaled(resource: Resource) -> Array:
        factors = np.ones((len(RESOURCES) + 1, 1))
        factors[1 + RESOURCES.index(resource)] = FACTOR
        return factors

    hardware = replace(
        n.hardware,
        matrix_peak=n.hardware.matrix_peak * scaled("compute"),
        linear_peak=n.hardware.linear_peak * scaled("compute"),
        memory_bandwidth=n.hardware.memory_bandwidth * scaled("memory_bandwidth"),
        scale_up_bandwidth=n.hardware.scale_up_bandwidth * scaled("scale_up"),
        scale_out_bandwidth=n.hardware.scale_out_bandwidth * scaled("scale_out"),
    )
    cal = replace(n.calibration, **{name: getattr(n.calibration, name) / scaled("overhead") for name in OVERHEADS})
    return replace(n, hardware=hardware, calibration=cal), replace(par, bubble=par.bubble / scaled("bubble"))


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
    time = np.broadcast_to(step.time, (len(RESOURCES) + 1, width))

    def own(value: Array) -> Floats:
        """The plan itself: the first of the what-ifs, and all draws."""
        return np.array(np.broadcast_to(value, time.shape)[0], float)

    parts = tuple(
        (name, resource, own(value))
        for name, resource, value in step_parts(one, step, par, better)
        if float(np.max(own(value))) > 0
    )
    sums = {resource: sum(float(part[0]) for _, kind, part in parts if kind == resource) for resource in RESOURCES}
    first = max(RESOURCES, key=lambda resource: sums[resource])
    return Timing(time, parts, own(step.straggler) / own(step.time), (first, sums[first] / float(time[0, 0])))
