"""The constants of the step for a GPU, a precision and a stack."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from app import training
from app.arrays import Array
from app.catalog import Catalog
from app.catalog.types import Gpu

Reading = Callable[[str, str], Array]
"""A constant by group and name: its typical value, its draws, or something a fit is trying."""


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
    since = np.asarray(release) - read("experts", "reference")
    since = np.clip(since, -read("experts", "years_back"), read("experts", "years_ahead"))
    pace = np.exp(read("experts", "yearly") * since)
    return training.Calibration(
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
        exposed_gather=read("communication", "exposed_gather"),
        hiding=read("communication", "hiding"),
        bucket=read("communication", "bucket"),
        head_imbalance=read("communication", "head_imbalance"),
        head_spared=read("communication", "head_spared"),
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
        scaling_traffic=read("step", "scaling_traffic"),
        optimizer_overhead=read("step", "optimizer_overhead"),
        straggler=read("step", "straggler"),
        context_memory=read("memory", "context"),
        fragmentation=read("memory", "fragmentation"),
    )


def measured(catalog: Catalog, gpu: Gpu) -> bool:
    """Whether published step times of the GPU's architecture went into its constants."""
    group = architecture_group(catalog, gpu, "products")
    return catalog.training[group]["products"].status in ("calibrated", "measured")


def residual(catalog: Catalog, gpu: Gpu, experts: bool, vendor_stack: bool) -> float:
    """The model's own error for a class of model, stack and GPU: half-width of its 80 % interval on the logarithm."""
    table = catalog.training["residual"]
    own = table["experts" if experts else "dense" if vendor_stack else "open"].typical
    return float(own if measured(catalog, gpu) else np.hypot(own, table["other_hardware"].typical))
