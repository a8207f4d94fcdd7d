"""The constants of the step for a GPU, a precision and a software stack, and what a GPU and its links contribute."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from app.catalog.entries import Gpu
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog, architecture_group
from app.formulas.arrays import Array
from app.formulas.training import arguments
from app.formulas.transformer import Shape
from app.plan.scenario import SoftwareRequest

Sampling = Callable[[str, str], Array]
"""A constant by group and name: its typical value, its draws, or something a fit is trying."""


@dataclass(frozen=True)
class Kernels:
    """What a GPU's architecture contributes to the constants: numbers, or arrays over measurements."""

    products: Array
    open_attention: Array
    vendor_attention: Array
    launched: Array
    renewed: Array


def kernels(catalog: Catalog, gpu: Gpu, read: Sampling) -> Kernels:
    """The kernel constants of one GPU."""
    return Kernels(
        **{
            entry.name: read(architecture_group(catalog.training, gpu, entry.name), entry.name)
            for entry in fields(Kernels)
        }
    )


@dataclass(frozen=True)
class Conditions:
    """What the constants depend on besides the GPU's architecture.

    Attributes:
        linear_bytes: bytes of an operand of the linear layers [B].
        vendor_attention: 1 if the stack uses the vendor's attention kernel.
        release: year of the software.
        stragglers: spread of a node's step over the usual spread [1].
        slow_node: by how much one node is slower than the others [1].
    """

    linear_bytes: Array
    vendor_attention: Array
    release: Array
    stragglers: Array
    slow_node: Array


def calibration(read: Sampling, kernel: Kernels, conditions: Conditions) -> arguments.Calibration:
    """The constants for a GPU, a precision and a stack.

    Software written for a renewed architecture lacks a share of its speed at first, and that share decays with the
    years since launch: 1 - x·exp(-age/τ). Kernels for mixtures of experts improve by a yearly rate. The function is as
    long as the list of constants: one line each.

    Args:
        read: constants by group and name.
        kernel: constants of the architecture.
        conditions: precision, attention kernel, age of the software, spread of the nodes.
    """
    linear_bytes, release = np.asarray(conditions.linear_bytes), np.asarray(conditions.release)
    age = np.maximum(release - kernel.launched, 0)
    fresh = kernel.renewed * np.exp(-age / read("maturity", "time"))
    products = read("products", "efficiency") * kernel.products * (1 - read("maturity", "products") * fresh)
    low = np.where(linear_bytes < 1, read("products", "fp4"), read("products", "fp8"))
    linear = products * np.where(linear_bytes < 2, low, 1.0)
    attention = np.where(np.asarray(conditions.vendor_attention) > 0, kernel.vendor_attention, kernel.open_attention)
    since = release - read("experts", "reference")
    since = np.clip(since, -read("experts", "years_back"), read("experts", "years_ahead"))
    pace = np.exp(read("experts", "yearly") * since)
    return arguments.Calibration(
        linear=linear,
        head=products,
        depth_half=read("products", "depth_half"),
        wave=read("products", "wave"),
        tile=read("products", "tile"),
        attention=attention * (1 - read("maturity", "attention") * fresh),
        attention_half=read("attention", "half"),
        attention_backward=read("attention", "backward"),
        narrow_head=read("attention", "narrow_head"),
        small_head=read("attention", "small_head"),
        unfused_attention=read("attention", "unfused") * kernel.products,
        softmax_traffic=read("elementwise", "softmax"),
        memory=read("elementwise", "bandwidth"),
        elementwise=read("elementwise", "traffic"),
        unfused=read("elementwise", "unfused") / read("elementwise", "traffic"),
        quantize=read("elementwise", "quantize"),
        scale_out=read("communication", "scale_out"),
        exposed_tensor=read("communication", "exposed_tensor"),
        exposed_context=read("communication", "exposed_context"),
        exposed_pipeline=read("communication", "exposed_pipeline"),
        exposed_data=read("communication", "exposed_data"),
        exposed_expert=read("experts", "exposed"),
        exposed_gather=read("communication", "exposed_gather"),
        hiding=read("communication", "hiding"),
        bucket=read("communication", "bucket"),
        head_imbalance=read("communication", "head_imbalance"),
        head_spared=read("communication", "head_spared"),
        expert_scale_up=read("experts", "scale_up"),
        grouped=read("experts", "grouped") * pace,
        grouped_low=read("experts", "grouped_low"),
        permute=read("experts", "permute") / pace,
        fused_experts=read("experts", "fused"),
        host_layer=read("host", "layer"),
        host_expert=read("host", "expert_layer") * np.exp(-read("host", "yearly") * since),
        host_untuned=read("host", "untuned"),
        expert_launch=read("experts", "launch"),
        graph_host=read("host", "graphs"),
        optimizer_traffic=read("step", "optimizer_traffic"),
        scaling_traffic=read("step", "scaling_traffic"),
        optimizer_overhead=read("step", "optimizer_overhead"),
        **spread(read, conditions.stragglers, conditions.slow_node),
        context_memory=read("memory", "context"),
        fragmentation=read("memory", "fragmentation"),
    )


def spread(read: Sampling, stragglers: Array, slow_node: Array) -> Mapping[str, Array]:
    """The constants that say how nodes spread, see `Conditions`, by their names in a calibration."""
    return {
        "straggler": read("step", "straggler") * stragglers,
        "straggler_walk": read("step", "straggler_walk") * stragglers,
        "slow_node": slow_node,
    }


def measured(catalog: Catalog, gpu: Gpu) -> bool:
    """Whether published step times of the GPU's architecture went into its constants."""
    group = architecture_group(catalog.training, gpu, "products")
    return catalog.training[group]["products"].status in ("calibrated", "measured")


@dataclass(frozen=True)
class Width:
    """One thing that the range of a step rests on: its name, and its half-width on the logarithm."""

    name: str
    half_width: float


def widths(catalog: Catalog, gpu: Gpu, experts: bool, request: SoftwareRequest) -> list[Width]:
    """What the model's own error is made of: that of the class, and what nobody has measured of this plan."""
    table = catalog.training["residual"]
    stack = request.stack or DEFAULT_STACK
    untuned = request.regime in ("recipe", "functional")
    vendor = traits(catalog, stack)["vendor"] > 0
    tuned = "experts" if experts else "dense" if vendor else "open"
    kind = ("untuned_experts" if experts else "untuned") if untuned else tuned
    reasons = {
        kind: True,
        "other_stack": not rows_of(catalog, "stack", stack),
        "other_hardware": not measured(catalog, gpu),
        "other_card": measured(catalog, gpu) and not rows_of(catalog, "gpu", gpu.key),
        "natural": experts and not untuned and request.routing not in ("balanced", "dropped"),
    }
    return [Width(name, table[name].typical) for name, holds in reasons.items() if holds]


def rows_of(catalog: Catalog, kind: str, key: str) -> float:
    """Measured steps of a stack or a GPU that the ranges rest on [1]."""
    rows = catalog.training[f"rows-{kind}"]
    return rows[key].typical if key in rows else 0.0


def residual(parts: Iterable[Width]) -> float:
    """The model's own error: half-width of its 80 % interval on the logarithm, its parts added in quadrature.

    >>> residual([Width("dense", 0.03), Width("other_card", 0.04)])
    0.05
    """
    return float(np.sqrt(sum(part.half_width**2 for part in parts)))


PRECISION_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}
TERA = 1e12


def peaks(gpu: Gpu, precision: str) -> tuple[Estimate, Estimate, float]:
    """16-bit peak, peak of the linear layers at a precision, and the bytes the GPU really works with.

    A GPU without hardware for the precision runs the next wider one it has.
    """
    wide = gpu.fp16 if precision == "fp16" or gpu.bf16 is None else gpu.bf16
    wanted_bytes = PRECISION_BYTES[precision]
    if wanted_bytes < 1 and gpu.fp4 is not None:
        return wide, gpu.fp4, 0.5
    if wanted_bytes < 2 and gpu.fp8 is not None:
        return wide, gpu.fp8, 1.0
    return wide, wide, 2.0


def computed_precision(gpu: Gpu, precision: str) -> str:
    """The precision that stands in for one that the GPU lacks, at the rate of `peaks`; else the same.

    A format of four bits stands in for the other, and FP16 for BF16.
    """
    real = peaks(gpu, precision)[2]
    if real == 2:
        return "fp16" if precision == "fp16" or gpu.bf16 is None else "bf16"
    if real == PRECISION_BYTES[precision] and precision in ("fp8", *gpu.block_formats):
        return precision
    return "fp8" if real == 1 else "mxfp4"


def card(catalog: Catalog, gpu: Gpu, precision: str, read: Callable[[Estimate], Array]) -> dict[str, Array]:
    """What one GPU contributes to `GpuRates`.

    Matrix work runs at the clock that the power limit allows. Relative to the card its architecture's constants were
    measured on, a card with w times the watts for each FLOP/s of its peak runs w^x as near to that peak, within limits.
    """
    wide, linear, _ = peaks(gpu, precision)
    usual = read(catalog.training[architecture_group(catalog.training, gpu, "watts")]["watts"])
    power = catalog.training["power"]
    share = read(gpu.power) / (read(wide) / TERA) / usual
    multiprocessors = gpu.multiprocessors or catalog.training["products"]["multiprocessors"].typical
    clock = np.minimum(np.power(share, read(power["exponent"])), read(power["most"]))
    return {
        "matrix_peak": read(wide),
        "linear_peak": read(linear),
        "memory_bandwidth": read(gpu.memory_bandwidth),
        "memory_capacity": read(gpu.memory),
        "multiprocessors": float(multiprocessors),
        "clock": clock,
    }


def to_host(catalog: Catalog, gpu: Gpu, read: Callable[[Estimate], Array]) -> dict[str, Array]:
    """What of `GpuRates` only a job that offloads needs: the way to the host's memory, and that memory."""
    line = gpu.host_link or catalog.scale_up[gpu.pcie].bandwidth
    offload = catalog.training["offload"]
    return {"host_rate": read(line) * read(offload["link"]), "host_memory": read(offload["memory"])}


DEFAULT_STACK = "tuned"
UNKNOWN_STACK = "other"
STACKS = (
    (r"megascale|hai-?llm|deepseek.*(hai|in.?house)|in.?house", "tuned"),
    (r"nemo|bridge", "nemo"),
    (r"megatron.*deepspeed", "megatron-deepspeed"),
    (r"megatron|primus", "megatron-lm"),
    (r"titan", "fsdp-torchtitan"),
    (r"composer|foundry|mosaic", "fsdp-composer"),
    (r"fsdp|pytorch|lightning", "fsdp"),
    (r"neox", "gpt-neox"),
    (r"maxtext|jax|levanter|pax", "maxtext"),
    (r"deepspeed|transformers|hugging|accelerate", "deepspeed"),
    (r"internevo|internlm", "internevo"),
    (r"hand.?written|plain|custom", "hand-written"),
)


def stack_key(catalog: Catalog, name: str, release: float | None = None) -> str:
    """The catalogue's stack for a name as people write it, and of its dated variants the one nearest in time."""
    stacks = catalog.stacks
    text = name.strip().lower()
    base = text if text in stacks else next((key for pattern, key in STACKS if re.search(pattern, text)), "")
    if base not in stacks:
        return UNKNOWN_STACK if text else DEFAULT_STACK
    if release is None:
        return base
    variants = [key for key in stacks if re.fullmatch(rf"{re.escape(base)}(-\d{{4}})?", key)]
    return min(variants, key=lambda key: abs(catalog.training[f"stack-{key}"]["release"].typical - release))


def traits(catalog: Catalog, stack: str) -> Mapping[str, float]:
    """The declared traits of a stack."""
    return {name: estimate.typical for name, estimate in catalog.training[f"stack-{stack}"].items()}


def software(trait: Mapping[str, Array]) -> arguments.Software:
    """The traits the step model reads; what a stack does not declare follows from the request, see `stack_of`."""
    names = [entry.name for entry in fields(arguments.Software) if entry.name in trait]
    return arguments.Software(**{name: trait[name] for name in names})


@dataclass(frozen=True)
class Stack:
    """A stack as it runs one model on one GPU: what the step model reads of it, and what its constants depend on."""

    software: arguments.Software
    vendor_attention: float
    release: float
    gradient_bytes: float
    fp8_weights: float


FUSED_LOGIT = 6.0
"""Bytes of a logit and its gradient where no 32-bit copy is kept beside them [B]."""
KERNELS = {"unfused": (0.0, 0.0), "flash": (1.0, 0.0), "sdpa": (1.0, 0.0), "te-fused": (1.0, 1.0)}
"""Of each attention kernel: whether it keeps its scores out of memory, and whether it is the GPU vendor's."""
GRAPHS = {"none": 0.0, "partial": 1.0, "full": 1.0}


def stated(request: SoftwareRequest) -> dict[str, float]:
    """The traits that a request states itself, in place of its stack's."""
    values = {
        "release": request.software_date,
        "fused": request.fused,
        "overlap_tensor": request.overlap_tensor,
        "overlap_data": request.overlap_data,
        "overlap_pipeline": request.overlap_pipeline,
        "overlap_expert": request.overlap_expert,
        "gradient_bytes": request.gradient_bytes,
        "graphs": None if request.graphs is None else GRAPHS[request.graphs],
    }
    if request.attention_kernel is not None:
        values["flash"], values["vendor_attention"] = KERNELS[request.attention_kernel]
    if request.overlap_expert is not None:
        values["staged_expert"] = 0.0
    return {name: float(value) for name, value in values.items() if value is not None}


def stack_of(request: SoftwareRequest, gpu: Gpu, model: Shape, precision: str, catalog: Catalog) -> Stack:
    """The stack that is asked for, as far as the GPU and the model allow its traits and the request changes them."""
    return _stack_of(request, gpu.key, bool(model.experts), bool(model.biases), precision, catalog)


@lru_cache(maxsize=64)
def _stack_of(
    request: SoftwareRequest, gpu_key: str, experts: bool, biases: bool, precision: str, catalog: Catalog
) -> Stack:
    """The same of a kind of model. Kept: it takes 0.1 ms, twice a plan, and most jobs have the same few.

    Experts with biases run eager: fused kernels leave their activation out. Dispatchers send a token once to each
    domain since mid-2025, unless they are said to be a plain all-to-all or all-gather. In 8-bit arithmetic, the
    vendor's stacks fuse experts from some release on for an architecture.
    """
    gpu, trait = catalog.gpus[gpu_key], {**traits(catalog, request.stack or DEFAULT_STACK), **stated(request)}
    low = peaks(gpu, precision)[2] == 1
    maturity = catalog.training["maturity"]
    trait["deduplicates"] = float(
        trait["release"] >= maturity["deduplicates"].typical
        if request.dispatcher is None
        else request.dispatcher in ("deepep", "hybridep")
    )
    trait["gathers_tokens"] = float(request.dispatcher == "all-gather")
    trait["dispatch_bytes"] = 1.0 if request.dispatch_precision == "fp8" else 2.0
    fused_since = catalog.training[architecture_group(catalog.training, gpu, "fused_experts")]["fused_experts"].typical
    trait["fused_experts"] = float(trait["fp8_weights"] > 0 and low and trait["release"] >= fused_since)
    trait["untuned"] = float(request.regime in ("recipe", "functional"))
    if experts and request.graphs == "partial":
        trait["graphs"] = 0.0
    trait["flash"] *= catalog.training[architecture_group(catalog.training, gpu, "flash")]["flash"].typical
    if experts and biases:
        trait["fused"] = 0.0
    if trait["release"] >= maturity["fused_loss"].typical:
        trait["logit_bytes"] = min(trait["logit_bytes"], FUSED_LOGIT)
    return Stack(
        software(trait), trait["vendor_attention"], trait["release"], trait["gradient_bytes"], trait["fp8_weights"]
    )


def weight_bytes(catalog: Catalog, gpu: Gpu, precision: str, stack: Stack) -> float:
    """Bytes of a weight that a GPU holds for its products [B].

    In FP8 with one scale a tensor, a stack can keep 8-bit weights alone; an architecture that cannot multiply by their
    transpose keeps both, as do block scales, whose rows and columns are quantised apart.
    """
    if precision != "fp8" or peaks(gpu, precision)[2] != 1 or not stack.fp8_weights > 0:
        return 2.0
    return catalog.training[architecture_group(catalog.training, gpu, "fp8_weight")]["fp8_weight"].typical
