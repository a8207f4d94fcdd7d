"""The training job of a plan: catalogue entries in, the numbers of ``app.training`` and ``app.search`` and their answers out."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app import search, training, transformer
from app.catalog import Catalog, Estimate
from app.catalog.types import Gpu, Model
from app.collectives import Machine
from app.plan import all_reduce
from app.plan.bands import Band, Draws
from app.plan.hardware import Hardware
from app.plan.parts import (
    Alternative,
    Bottleneck,
    Explanation,
    Finding,
    Memory,
    MemoryPart,
    Parallelism,
    Quantity,
    StepPart,
    Term,
    Training,
    WhatIf,
)
from app.scenario import SHAPE, Scenario
from app.transformer import Array, Shape
from app.units import show

Reading = Callable[[str, str], Array]
"""A constant by group and name: its typical value, its draws, or something a fit is trying."""

DEFAULT_STACK = "tuned"
MULTIPROCESSORS = 128
"""Where a GPU's entry does not say; only the last wave of tiles depends on it."""
MEASURED = ("ampere", "hopper", "blackwell")
"""Architectures in the published step times the constants are fitted to."""
PRECISION_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}
SHARDING = ("none", "optimizer", "gradients", "parameters")
STACKS = (
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
)


# Shapes and stacks ---------------------------------------------------------------------------------------------------


def shape_of(model: Model, prediction: bool = True) -> Shape:
    """The numbers of a catalogue model."""
    mixture = model.experts > 0
    dense = model.dense_layers + (model.layers - model.dense_layers) * (1 - 1 / model.moe_every)
    return Shape(
        layers=float(model.layers),
        hidden=float(model.hidden),
        heads=float(model.heads),
        head_dim=float(model.head_dim or model.hidden / model.heads),
        kv_heads=float(model.kv_heads),
        ffn_hidden=float(model.ffn_hidden),
        gated=float(model.gated),
        vocabulary=float(model.vocabulary),
        tied=float(model.tied_embeddings),
        experts=float(model.experts),
        experts_per_token=float(model.experts_per_token),
        expert_ffn_hidden=float(model.expert_ffn_hidden),
        shared_experts=float(model.shared_experts),
        dense_layers=float(dense if mixture else model.layers),
        query_rank=float(model.query_rank or 0),
        kv_rank=float(model.kv_rank or 0),
        rope_dim=float(model.rope_head_dim or 0),
        value_dim=float(model.value_head_dim or 0),
        window=float(model.sliding_window or 0),
        window_share=float(model.sliding_share if model.sliding_window else 0),
        prediction_layers=float(model.multi_token_layers if prediction else 0),
        shared_ffn_hidden=float(model.shared_expert_ffn_hidden or 0),
        sinks=float(model.attention_sinks),
        biases=float(model.biases),
        qkv_bias=float(model.qkv_bias),
        positions=float(model.learned_positions),
        parallel_block=float(model.parallel_block),
    )


def stack_key(catalog: Catalog, name: str, release: float | None = None) -> str:
    """The catalogue's stack for a name as people write it, and of its dated variants the one nearest in time."""
    known = [key.removeprefix("stack-") for key in catalog.training if key.startswith("stack-")]
    text = name.strip().lower()
    base = text if text in known else next((key for pattern, key in STACKS if re.search(pattern, text)), "")
    if base not in known:
        return "hand-written" if text else DEFAULT_STACK
    if release is None:
        return base
    variants = [key for key in known if re.fullmatch(rf"{re.escape(base)}(-\d{{4}})?", key)]
    return min(variants, key=lambda key: abs(catalog.training[f"stack-{key}"]["release"].typical - release))


def traits(catalog: Catalog, stack: str) -> Mapping[str, float]:
    """The declared traits of a stack."""
    return {name: estimate.typical for name, estimate in catalog.training[f"stack-{stack}"].items()}


def software(trait: Mapping[str, Array]) -> training.Software:
    """The traits the step model reads."""
    return training.Software(**{entry.name: trait[entry.name] for entry in fields(training.Software)})


# Constants -----------------------------------------------------------------------------------------------------------


def architecture_group(catalog: Catalog, gpu: Gpu, name: str) -> str:
    """The group that holds a GPU's kernel constant: its own, its architecture's, or the common one."""
    groups = (f"gpu-{gpu.key}", f"architecture-{gpu.architecture}", "architecture-other")
    return next(group for group in groups if name in catalog.training.get(group, {}))


@dataclass(frozen=True)
class Kernels:
    """What a GPU's architecture contributes to the constants: numbers, or arrays over measurements."""

    products: Array
    open_attention: Array
    vendor_attention: Array
    launched: Array
    renewed: Array


def kernels(catalog: Catalog, gpu: Gpu, read: Reading) -> Kernels:
    """The kernel constants of one GPU."""
    return Kernels(
        **{entry.name: read(architecture_group(catalog, gpu, entry.name), entry.name) for entry in fields(Kernels)}
    )


def calibration(
    read: Reading, kernel: Kernels, linear_bytes: Array, vendor_attention: Array, release: Array
) -> training.Calibration:
    """The constants for a GPU, a precision and a stack.

    Software written for a renewed architecture lacks a share of its speed at first, and that share decays with the
    years since launch: 1 - x·exp(-age/τ). Kernels for mixtures of experts improve by a yearly rate.

    Args:
        read: constants by group and name.
        kernel: constants of the architecture.
        linear_bytes: bytes of an operand of the linear layers [B].
        vendor_attention: 1 if the stack uses the vendor's attention kernel.
        release: year of the software.
    """
    age = np.maximum(np.asarray(release) - kernel.launched, 0)
    fresh = kernel.renewed * np.exp(-age / read("maturity", "time"))
    products = read("products", "efficiency") * kernel.products * (1 - read("maturity", "products") * fresh)
    low = np.where(np.asarray(linear_bytes) < 1, read("products", "fp4"), read("products", "fp8"))
    linear = products * np.where(np.asarray(linear_bytes) < 2, low, 1.0)
    attention = np.where(np.asarray(vendor_attention) > 0, kernel.vendor_attention, kernel.open_attention)
    since = np.clip(np.asarray(release) - 2026.0, -2.0, 1.0)
    pace = np.exp(read("experts", "yearly") * since)
    return training.Calibration(
        linear=linear,
        head=products,
        depth_half=read("products", "depth_half"),
        wave=read("products", "wave"),
        attention=attention * (1 - read("maturity", "attention") * fresh),
        attention_half=read("attention", "half"),
        attention_backward=read("attention", "backward"),
        small_head=read("attention", "small_head"),
        unfused_attention=read("attention", "unfused") * kernel.products,
        softmax_traffic=read("elementwise", "softmax"),
        memory=read("elementwise", "bandwidth"),
        elementwise=read("elementwise", "traffic"),
        unfused=read("elementwise", "unfused") / read("elementwise", "traffic"),
        quantize=read("elementwise", "quantize"),
        scale_up=read("communication", "scale_up"),
        scale_out=read("communication", "scale_out"),
        scale_up_latency=read("communication", "scale_up_latency"),
        scale_out_latency=read("communication", "scale_out_latency"),
        hop=read("communication", "hop"),
        exposed_tensor=read("communication", "exposed_tensor"),
        exposed_context=read("communication", "exposed_context"),
        exposed_pipeline=read("communication", "exposed_pipeline"),
        exposed_data=read("communication", "exposed_data"),
        exposed_expert=read("experts", "exposed"),
        head_imbalance=read("communication", "head_imbalance"),
        expert_scale_up=read("experts", "scale_up"),
        expert_scale_out=read("experts", "scale_out"),
        grouped=read("experts", "grouped") * pace,
        grouped_low=read("experts", "grouped_low"),
        permute=read("experts", "permute") / pace,
        host_layer=read("host", "layer"),
        host_expert=read("host", "expert_layer") * np.exp(-read("host", "yearly") * since),
        expert_launch=read("experts", "launch"),
        graph_host=read("host", "graphs"),
        optimizer_traffic=read("step", "optimizer_traffic"),
        optimizer_overhead=read("step", "optimizer_overhead"),
        straggler=read("step", "straggler"),
        context_memory=read("memory", "context"),
        fragmentation=read("memory", "fragmentation"),
    )


def peaks(gpu: Gpu, precision: str) -> tuple[Estimate, Estimate, float]:
    """16-bit peak, peak of the linear layers at a precision, and the bytes the GPU really works with.

    A GPU without hardware for the precision runs the next wider one it has.
    """
    wide = gpu.fp16 if precision == "fp16" or gpu.bf16 is None else gpu.bf16
    asked = PRECISION_BYTES[precision]
    if asked < 1 and gpu.fp4 is not None:
        return wide, gpu.fp4, 0.5
    if asked < 2 and gpu.fp8 is not None:
        return wide, gpu.fp8, 1.0
    return wide, wide, 2.0


# Hardware ------------------------------------------------------------------------------------------------------------


def card(gpu: Gpu, precision: str, read: Callable[[Estimate], Array]) -> dict[str, Array]:
    """What one GPU contributes to `training.Hardware`. A power cap costs the root of its share in clock."""
    wide, linear, _ = peaks(gpu, precision)
    capped = 1.0 if gpu.uncapped_power is None else np.sqrt(read(gpu.power) / read(gpu.uncapped_power))
    return {
        "matrix_peak": read(wide),
        "linear_peak": read(linear),
        "memory_bandwidth": read(gpu.memory_bandwidth),
        "memory_capacity": read(gpu.memory),
        "multiprocessors": float(gpu.multiprocessors or MULTIPROCESSORS),
        "clock": capped,
    }


def links(machine: Machine) -> tuple[Array, Array, Array]:
    """Usable scale-up and network rate of one GPU [B/s] and, where every GPU is wired to every other, its peers [1].

    These are what collectives alone reach, from the calibrated model of collectives.
    """
    return machine.scale_up_rate, machine.scale_out_rate, machine.mesh_peers


def residual(catalog: Catalog, gpu: Gpu, experts: bool, vendor_stack: bool) -> float:
    """The model's own error for a class of model, stack and hardware: half-width of its 80 % interval on the logarithm."""
    table = catalog.training["residual"]
    own = table["experts" if experts else "dense" if vendor_stack else "open"].typical
    measured = gpu.architecture in MEASURED
    return float(own if measured else np.hypot(own, table["other_hardware"].typical))
