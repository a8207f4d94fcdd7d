"""The kernels of a training step on the roof of their GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.arrays import typical_of
from app.formulas.training import compute, roofline
from app.formulas.training.arguments import Parallelism
from app.plan.job.inputs import StepInputs
from app.plan.job.job import job_on
from app.plan.network import network_of
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.scaling import with_parallelism

SIXTEEN_BIT = 2.0
"""Bytes of an element of activations."""
LINEAR = ("Queries, keys, values", "Attention output", "Feed-forward in", "Feed-forward out")
LATENT = ("Queries widened", "Keys and values widened")
SHARED = ("Shared experts in", "Shared experts out")


@dataclass(frozen=True)
class Kernel:
    """One kind of kernel in a step, on one GPU, forward and backward and again where it is recomputed.

    Attributes:
        name: in words.
        flops: operations [FLOP].
        moved: bytes that it reads and writes at least [B].
        time: what the step takes for it [s].
        compute: whether it is arithmetic on matrices.
    """

    name: str
    flops: float
    moved: float
    time: float
    compute: bool = True

    @property
    def intensity(self) -> float:
        """Operations for each byte [FLOP/B]."""
        return self.flops / self.moved

    @property
    def rate(self) -> float:
        """Operations a second [FLOP/s]."""
        return self.flops / self.time


@dataclass(frozen=True)
class Roofline:
    """Kernels, the longest first, below the roof of the GPU.

    Attributes:
        gpu: its name.
        peak: dense arithmetic at the precision of the layers [FLOP/s].
        bandwidth: of its memory [B/s].
        kernels: of one step.
    """

    gpu: str
    peak: float
    bandwidth: float
    kernels: tuple[Kernel, ...]

    @property
    def ridge(self) -> float:
        """Operations for each byte from which on arithmetic is the roof [FLOP/B]."""
        return self.peak / self.bandwidth

    def roof(self, kernel: Kernel) -> float:
        """What the roof allows a kernel [FLOP/s]."""
        return float(roofline.attainable(kernel.intensity, self.peak, self.bandwidth))


def step_roofline(scenario: Scenario, plan: Plan, catalog: Catalog) -> Roofline | None:
    """The kernels of the plan's step; none where it is not timed."""
    chosen = plan.training.parallelism
    if chosen is None or plan.training.step_time is None:
        return None
    fixed = with_parallelism(scenario, chosen)
    job = job_on(network_of(fixed, catalog), fixed, catalog, 1)
    if job.chosen is None:
        return None
    inputs, par = job.setup.inputs, job.chosen
    deep = par.stage_layers(inputs.shape.depth)[0]
    layers = typical_of(par.micro_batches(inputs.job) * deep)
    times = {part.name: part.time.typical for part in plan.training.parts if part.time}
    kernels = [*_linear(inputs, par, layers, times), *_others(inputs, par, layers, times)]
    hardware = inputs.hardware
    return Roofline(
        gpu=catalog.gpus[scenario.gpu].name,
        peak=typical_of(hardware.linear_peak),
        bandwidth=typical_of(hardware.memory_bandwidth),
        kernels=tuple(sorted((kernel for kernel in kernels if kernel.time > 0), key=lambda kernel: -kernel.time)),
    )


def _linear(inputs: StepInputs, par: Parallelism, layers: float, times: dict[str, float]) -> Iterator[Kernel]:
    """Matrix products by layer, forward and backward; what routed experts take is the rest of the part."""
    shape, job, gpu, cal = inputs.shape, inputs.job, inputs.hardware, inputs.calibration
    tokens, linear = par.tokens(job), compute.linear_layers(shape, par, inputs.software)
    names = [*LINEAR[:2], *(LATENT if typical_of(shape.latent) > 0 else ()), *LINEAR[2:]]
    names += SHARED if typical_of(shape.expert_share) > 0 else ()
    rate = gpu.linear_peak * (gpu.clock * cal.linear)
    element, waves, spent = typical_of(job.linear_bytes), compute.wave_elements(gpu, cal), 0.0
    for name, layer in zip(names, linear, strict=True):
        three = compute.linear_layer(tokens, *layer)
        time = layers * typical_of(compute.matrix_products(three, rate, cal.depth_half, waves))
        spent += time
        flops, moved = typical_of(roofline.product_flops(three)), typical_of(roofline.product_bytes(three, element))
        if flops > 0:
            yield Kernel(name, layers * flops, layers * moved, time)
    if not typical_of(shape.expert_share) > 0:
        return
    routed = compute.routed_experts(shape, job, par)
    each, experts = routed.tokens / routed.experts, shape.expert_share * routed.experts
    forward = compute.forward_products(par, inputs.software)
    grouped = [
        *compute.linear_layer(each, (1 + shape.gated) * routed.width, shape.hidden, experts, forward),
        *compute.linear_layer(each, shape.hidden, routed.width, experts, forward),
    ]
    flops, moved = typical_of(roofline.product_flops(grouped)), typical_of(roofline.product_bytes(grouped, element))
    yield Kernel("Routed experts", layers * flops, layers * moved, times["linear_layers"] - spent)


def _others(inputs: StepInputs, par: Parallelism, layers: float, times: dict[str, float]) -> Iterator[Kernel]:
    """Attention with keys and values read once a pass; and elementwise work, an operation for each element moved."""
    shape, job, cal = inputs.shape, inputs.job, inputs.calibration
    tokens, passes = par.tokens(job), 1 + par.recompute + cal.attention_backward
    work = tokens * transformer.attention_flops(shape, job.sequence_length, job.causal) / par.tensor
    vectors = 2 * (shape.heads + shape.kv_heads) * shape.head_dim / par.tensor
    moved = SIXTEEN_BIT * tokens * vectors * passes
    yield Kernel(
        "Attention", layers * typical_of(work * passes), layers * typical_of(moved), times.get("attention", 0.0)
    )
    elementwise = times.get("elementwise", 0.0)
    read = elementwise * typical_of(inputs.hardware.memory_bandwidth * cal.memory)
    yield Kernel("Elementwise", read / SIXTEEN_BIT, read, elementwise, compute=False)
