"""The training job of a plan: catalogue entries to the numbers of ``app.training`` and ``app.search``, and back."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    Resource,
    StepPart,
    Term,
    Training,
    WhatIf,
)
from app.scenario import SHAPE, Scenario
from app.transformer import Array, Shape
from app.units import show

Floats = NDArray[np.float64]
Reading = Callable[[str, str], Array]
"""A constant by group and name: its typical value, its draws, or something a fit is trying."""

DEFAULT_STACK = "tuned"
UNKNOWN_STACK = "other"
MULTIPROCESSORS = 128
"""Where a GPU's entry does not say; only the last wave of tiles depends on it."""
TERA = 1e12
MEASURED = ("ampere", "hopper", "blackwell")
"""Architectures in the published step times the constants are fitted to."""
PRECISION_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}
SHARDING = ("none", "optimizer", "gradients", "parameters")
RECOMPUTE = ("none", "selective", "full")
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
        return UNKNOWN_STACK if text else DEFAULT_STACK
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


def card(catalog: Catalog, gpu: Gpu, precision: str, read: Callable[[Estimate], Array]) -> dict[str, Array]:
    """What one GPU contributes to `training.Hardware`.

    Matrix work runs at the clock that the power limit allows. Relative to the card its architecture's constants were
    measured on, a card with w times the watts for each FLOP/s of its peak runs w^x as near to that peak, within limits.
    """
    wide, linear, _ = peaks(gpu, precision)
    usual = read(catalog.training[architecture_group(catalog, gpu, "watts")]["watts"])
    power = catalog.training["power"]
    share = read(gpu.power) / (read(wide) / TERA) / usual
    clock = np.minimum(np.power(share, read(power["exponent"])), read(power["most"]))
    return {
        "matrix_peak": read(wide),
        "linear_peak": read(linear),
        "memory_bandwidth": read(gpu.memory_bandwidth),
        "memory_capacity": read(gpu.memory),
        "multiprocessors": float(gpu.multiprocessors or MULTIPROCESSORS),
        "clock": clock,
    }


def links(machine: Machine) -> tuple[Array, Array, Array]:
    """Usable scale-up and network rate of one GPU [B/s] and, where every GPU is wired to every other, its peers [1].

    These are what collectives alone reach, from the calibrated model of collectives.
    """
    return machine.scale_up_rate, machine.scale_out_rate, machine.mesh_peers


def residual(catalog: Catalog, gpu: Gpu, experts: bool, vendor_stack: bool) -> float:
    """The model's own error for a class of model, stack and GPU: half-width of its 80 % interval on the logarithm."""
    table = catalog.training["residual"]
    own = table["experts" if experts else "dense" if vendor_stack else "open"].typical
    measured = gpu.architecture in MEASURED
    return float(own if measured else np.hypot(own, table["other_hardware"].typical))


# The scenario's numbers ----------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    """Reads estimates as draws, or their typical value alone, and remembers which were used."""

    catalog: Catalog
    drawn: bool
    used: dict[str, Estimate]

    def read(self, estimate: Estimate) -> Array:
        self.used[estimate.key] = estimate
        return estimate.draws() if self.drawn else estimate.typical

    def __call__(self, group: str, name: str) -> Array:
        return self.read(self.catalog.training[group][name])


@dataclass(frozen=True)
class Numbers:
    """What the step model takes, apart from the parallelism."""

    job: training.Job
    hardware: training.Hardware
    software: training.Software
    calibration: training.Calibration


def shape(scenario: Scenario, catalog: Catalog) -> Shape:
    """The shape the scenario asks for: a catalogue model with the fields given beside it, or one of its own."""
    given = {name: getattr(scenario, name) for name in SHAPE if getattr(scenario, name) is not None}
    names = {"tied_embeddings": "tied"}
    numbers = {names.get(name, name): float(value) for name, value in given.items()}
    if scenario.model in catalog.models:
        own = shape_of(catalog.models[scenario.model])
        if numbers.get("experts") or "layers" in numbers:
            share = float(np.max(own.dense_layers)) / float(np.max(own.layers)) if own.experts else 0.0
            layers = numbers.get("layers", float(np.max(own.layers)))
            mixture = numbers.get("experts", float(np.max(own.experts)))
            numbers["dense_layers"] = round(share * layers) if mixture else layers
        if "expert_ffn_hidden" in numbers or "shared_experts" in numbers:
            numbers["shared_ffn_hidden"] = 0.0
        return replace(own, **numbers)
    heads, hidden = numbers["heads"], numbers["hidden"]
    experts = numbers.get("experts", 0.0)
    ffn = numbers.get("ffn_hidden", numbers.get("expert_ffn_hidden", 0.0))
    filled = {
        "head_dim": hidden / heads,
        "kv_heads": heads,
        "ffn_hidden": ffn,
        "gated": 1.0,
        "expert_ffn_hidden": ffn,
        "experts_per_token": min(2.0, experts),
        "dense_layers": 0.0 if experts else numbers["layers"],
    }
    return Shape(**(filled | numbers))


def shape_fields(model: Shape) -> dict[str, Any]:
    """The shape under the scenario's names."""
    fields_ = {name: int(float(getattr(model, {"tied_embeddings": "tied"}.get(name, name)))) for name in SHAPE}
    return fields_ | {"gated": bool(model.gated), "tied_embeddings": bool(model.tied)}


def stack_traits(scenario: Scenario, hardware: Hardware, model: Shape, catalog: Catalog) -> dict[str, float]:
    """The traits of the scenario's stack, as far as the GPU and the model allow them and the scenario changes them."""
    trait = dict(traits(catalog, scenario.stack or DEFAULT_STACK))
    for name in ("overlap_tensor", "overlap_data", "overlap_pipeline"):
        asked = getattr(scenario, name)
        trait[name] = trait[name] if asked is None else float(asked)
    group = architecture_group(catalog, hardware.gpu, "flash")
    trait["flash"] *= catalog.training[group]["flash"].typical
    known = not (model.experts and model.biases) or trait["release"] >= catalog.training["maturity"]["biases"].typical
    trait["fused"] *= known
    return trait


def numbers(
    scenario: Scenario,
    hardware: Hardware,
    model: Shape,
    catalog: Catalog,
    *,
    taper: float = 1.0,
    hops: int = 0,
    drawn: bool = False,
    used: dict[str, Estimate] | None = None,
) -> Numbers:
    """Catalogue entries and scenario as numbers: typical values, or draws on the last axis.

    An oversubscribed fabric gives each GPU its rate over the taper; every switch on the way adds its latency once. The
    ideal profile takes links at their line rate, the calibrated one at what collectives reach on them.
    """
    read = _Reader(catalog, drawn, {} if used is None else used)
    met: list[Estimate] = []
    machine = all_reduce.machine_of(
        hardware, scenario, catalog, reading=all_reduce.draws if drawn else all_reduce.typical, used=met
    )
    read.used.update({estimate.key: estimate for estimate in met})
    up, out, peers = links(machine)
    if scenario.profile == "ideal":
        up, out = machine.scale_up_line, machine.scale_out_line
    trait = stack_traits(scenario, hardware, model, catalog)
    size = peaks(hardware.gpu, scenario.precision)[2]
    constants = calibration(
        read, kernels(catalog, hardware.gpu, read), size, trait["vendor_attention"], trait["release"]
    )
    usual = float(type(scenario).model_fields["jitter"].default)
    constants = replace(constants, straggler=constants.straggler * (scenario.jitter / usual))
    latency = hardware.scale_out.switch_latency
    if latency is not None and hops:
        constants = replace(constants, scale_out_latency=constants.scale_out_latency + hops * read.read(latency))
    return Numbers(
        job=training.Job(
            sequence_length=float(scenario.sequence_length),
            global_batch=float(scenario.global_batch),
            linear_bytes=size,
            gradient_bytes=2.0 if scenario.precision == "fp16" else 4.0,
            causal=float(scenario.attention == "causal"),
        ),
        hardware=training.Hardware(
            **card(catalog, hardware.gpu, scenario.precision, read.read),
            scale_up_bandwidth=up,
            scale_up_domain=float(hardware.domain),
            scale_out_bandwidth=np.asarray(out) / taper,
            mesh_peers=peers,
        ),
        software=software(trait),
        calibration=constants,
    )


def given(scenario: Scenario, catalog: Catalog) -> search.Given:
    """What the scenario fixes of the parallelism; a stack without sequence parallelism fixes that too."""
    able = traits(catalog, scenario.stack or DEFAULT_STACK)["sequence_parallel"] > 0
    schedule = scenario.schedule
    virtual = scenario.virtual_pipeline or (1 if schedule in ("1f1b", "zero-bubble") else None)
    zero_bubble = catalog.training["step"]["zero_bubble"].typical
    return search.Given(
        tensor=scenario.tensor_parallel,
        pipeline=scenario.pipeline_parallel,
        virtual_pipeline=virtual,
        context=scenario.context_parallel,
        expert=scenario.expert_parallel,
        micro_batch=scenario.micro_batch,
        sharding=None if scenario.sharding is None else SHARDING.index(scenario.sharding),
        sharding_group=scenario.sharding_group,
        sequence_parallel=scenario.sequence_parallel if able else False,
        recompute=None if scenario.recompute is None else RECOMPUTE.index(scenario.recompute),
        bubble=zero_bubble if schedule == "zero-bubble" else 1.0,
    )


def named(par: training.Parallelism, job: training.Job, zero_bubble: bool = False) -> Parallelism:
    """A configuration under the names on the wire."""
    whole = {name: round(float(getattr(par, name))) for name in (
        "tensor", "pipeline", "virtual_pipeline", "context", "expert", "data", "micro_batch", "sharding",
        "sharding_group",
    )}  # fmt: skip
    return Parallelism(
        tensor_parallel=whole["tensor"],
        pipeline_parallel=whole["pipeline"],
        virtual_pipeline=whole["virtual_pipeline"],
        context_parallel=whole["context"],
        expert_parallel=whole["expert"],
        data_parallel=whole["data"],
        micro_batch=whole["micro_batch"],
        micro_batches=round(float(job.global_batch) / (whole["data"] * whole["micro_batch"])),
        schedule="zero-bubble" if zero_bubble else "interleaved" if whole["virtual_pipeline"] > 1 else "1f1b",
        sequence_parallel=bool(par.sequence_parallel),
        sharding=SHARDING[whole["sharding"]],
        sharding_group=whole["sharding_group"],
        recompute="full" if float(par.recompute) > 0 else "selective" if float(par.recompute_core) > 0 else "none",
    )


def gradient_bytes(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> float:
    """Bytes of the model's gradients in 16-bit: what one all-reduce over all GPUs would carry without sharding [B]."""
    return 2 * float(transformer.parameters(shape(scenario, catalog)))


# Parts of a step -----------------------------------------------------------------------------------------------------


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


RESOURCES: tuple[Resource, ...] = ("compute", "memory_bandwidth", "scale_up", "scale_out", "bubble", "overhead")
OVERHEADS = (
    "scale_up_latency", "scale_out_latency", "hop", "host_layer", "host_expert", "expert_launch", "optimizer_overhead",
    "straggler",
)  # fmt: skip
FACTOR = 2.0
CLOUD = 400
ALTERNATIVES = 6


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


# Draft ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingDraft:
    """The training job before its results are folded to bands."""

    model: Shape
    parallelism: Parallelism | None
    searched: int
    feasible: int
    parts: tuple[tuple[str, Resource], ...]
    memory_parts: tuple[str, ...]
    fits: bool | None
    steps: float
    availability: float
    straggler: float
    flops_per_token: float
    gains: tuple[float | None, ...]
    bottleneck: tuple[Resource, float] | None
    alternatives: tuple[Alternative, ...]
    cloud: tuple[tuple[float, float], ...]
    time_to_train: Floats
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explanations: Mapping[str, Explanation]

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the model's gradients in 16-bit [B]."""
        return 2 * float(transformer.parameters(self.model))

    @property
    def shape_fields(self) -> dict[str, Any]:
        """The model's shape under the scenario's names."""
        return shape_fields(self.model)

    def training_part(self, bands: Mapping[str, Band | None]) -> Training:
        """The step, as every reader gets it."""
        return Training(
            parallelism=self.parallelism,
            searched=self.searched,
            feasible=self.feasible,
            step_time=bands["training.step_time"],
            parts=tuple(StepPart(name, kind, bands[f"training.parts.{name}"]) for name, kind in self.parts),
            mfu=bands["training.mfu"],
            hfu=bands["training.hfu"],
            tokens_per_second=bands["training.tokens_per_second"],
            time_to_train=bands["training.time_to_train"],
            steps=self.steps,
            availability=self.availability,
            straggler=self.straggler,
            parameters=float(transformer.parameters(self.model)),
            active_parameters=float(transformer.active_parameters(self.model)),
            flops_per_token=self.flops_per_token,
            alternatives=self.alternatives,
            cloud=self.cloud,
        )

    def memory_part(self, bands: Mapping[str, Band | None]) -> Memory:
        """Memory of the fullest GPU, as every reader gets it."""
        return Memory(
            parts=tuple(MemoryPart(name, bands[f"memory.parts.{name}"]) for name in self.memory_parts),
            total=bands["memory.total"],
            capacity=bands["memory.capacity"],
            headroom=bands["memory.headroom"],
            fits=self.fits,
        )

    def bottleneck_part(self, bands: Mapping[str, Band | None]) -> Bottleneck:
        """What bounds the step and what doubling each resource saves, as every reader gets it."""
        resource, share = self.bottleneck or (None, None)
        return Bottleneck(
            resource=resource,
            share=share,
            what_if=tuple(
                WhatIf(name, FACTOR, bands[f"bottleneck.{name}"], gain)
                for name, gain in zip(RESOURCES, self.gains, strict=True)
            ),
        )


def draft(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, *, taper: float = 1.0, hops: int = 0
) -> TrainingDraft:
    """Find the best parallelism that fits, time its step and what it is made of.

    ``taper`` is the fabric's oversubscription from leaf to top, ``hops`` the switches on its longest path.
    """
    model = shape(scenario, catalog)
    scalar = numbers(scenario, hardware, model, catalog, taper=taper, hops=hops)
    fixed = given(scenario, catalog)
    budget = catalog.training["memory"]["budget"].typical
    found = _search(scenario, model, scalar, fixed, budget)
    chosen = found.best()
    if chosen is None and found.frugal is not None and fixed.whole:
        # A configuration given whole may fill the memory to the brim.
        found = _search(scenario, model, scalar, fixed, 1.0)
        chosen = found.best()
    used: dict[str, Estimate] = {}
    wide = numbers(scenario, hardware, model, catalog, taper=taper, hops=hops, drawn=True, used=used)
    width = np.size(catalog.training["products"]["efficiency"].draws())
    shown = chosen or found.frugal
    estimates = tuple(used.values())
    error = residual(
        catalog,
        hardware.gpu,
        bool(model.experts),
        bool(traits(catalog, scenario.stack or DEFAULT_STACK)["vendor_attention"]),
    )
    timing = _timing(model, wide, chosen, width)
    share, quantities = _quantities(scenario, hardware, catalog, model, wide, chosen, timing, estimates, error)
    memory_names, fits, memory = _memory(model, wide, shown, catalog, estimates)
    gains: tuple[float | None, ...] = (None,) * len(RESOURCES)
    if chosen is not None:
        typical = timing.time[:, 0]
        gains = tuple(float(1 - after / typical[0]) for after in typical[1:])
    return TrainingDraft(
        model=model,
        parallelism=None if chosen is None else named(chosen, scalar.job, fixed.bubble < 1),
        searched=found.enumerated,
        feasible=found.feasible,
        parts=tuple((name, resource) for name, resource, _ in timing.parts),
        memory_parts=memory_names,
        fits=fits,
        steps=scenario.training_tokens / (scenario.global_batch * scenario.sequence_length),
        availability=share,
        straggler=float(1 + timing.straggler[0]) if chosen is not None else 1.0,
        flops_per_token=float(transformer.training_flops(model, scalar.job.sequence_length, scalar.job.causal)),
        gains=gains,
        bottleneck=timing.bottleneck,
        alternatives=_alternatives(model, scalar, found, fixed),
        cloud=_cloud(found),
        time_to_train=quantities["training.time_to_train"].values,
        quantities=quantities | memory,
        findings=(
            *_findings(scenario, hardware, catalog, model, found, chosen, memory, budget),
            *_interrupted(share),
        ),
        explanations=_explanations(scenario, hardware, model, scalar, timing, share, chosen, catalog),
    )


def searched(scenario: Scenario, hardware: Hardware, catalog: Catalog) -> search.Found:
    """Every way to run the scenario's job that fits, quickest first."""
    model = shape(scenario, catalog)
    budget = catalog.training["memory"]["budget"].typical
    return _search(scenario, model, numbers(scenario, hardware, model, catalog), given(scenario, catalog), budget)


def _search(scenario: Scenario, model: Shape, n: Numbers, fixed: search.Given, budget: float) -> search.Found:
    return search.best(model, n.job, n.hardware, n.software, n.calibration, scenario.gpus, fixed, budget)


@dataclass(frozen=True)
class _Timing:
    """The step and its what-ifs: (1 + resources, draws); everything NaN where nothing fits."""

    time: Floats
    parts: tuple[tuple[str, Resource, Floats], ...]
    straggler: Floats
    bottleneck: tuple[Resource, float] | None


def _timing(model: Shape, n: Numbers, par: training.Parallelism | None, width: int) -> _Timing:
    if par is None:
        nothing = np.full((len(RESOURCES) + 1, width), np.nan)
        return _Timing(nothing, (), nothing[0], None)
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
    return _Timing(time, parts, own(step.straggler) / own(step.time), (first, sums[first] / float(time[0, 0])))


def _quantities(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    n: Numbers,
    par: training.Parallelism | None,
    timing: _Timing,
    used: tuple[Estimate, ...],
    error: float,
) -> tuple[float, dict[str, Draws]]:
    """The share of time that makes progress, and every result of the step as draws."""
    time = timing.time[0]
    tokens = scenario.global_batch * scenario.sequence_length
    counted = transformer.training_flops(model, n.job.sequence_length, n.job.causal)
    again = 0.0 if par is None else training.repeated_work(model, n.job, par, n.software)
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


def goodput(scenario: Scenario, catalog: Catalog) -> tuple[Floats, tuple[Estimate, ...]]:
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

    failures = scenario.gpus * np.asarray(value(scenario.failure_rate, "rate"))
    if not np.any(failures > 0):
        return np.array([1.0]), tuple(used)
    checkpoint = value(scenario.checkpoint_time, "checkpoint_time")
    restart = value(scenario.restart_time, "restart")
    interval = scenario.checkpoint_interval or training.checkpoint_interval(failures, np.maximum(checkpoint, 1e-3))
    return np.atleast_1d(training.goodput(failures, checkpoint, interval, restart)), tuple(used)


def _memory(
    model: Shape, n: Numbers, par: training.Parallelism | None, catalog: Catalog, used: tuple[Estimate, ...]
) -> tuple[tuple[str, ...], bool | None, dict[str, Draws]]:
    error = catalog.training["residual"]["memory"].typical
    capacity = np.atleast_1d(n.hardware.memory_capacity)
    if par is None:
        nothing = Draws(np.full(capacity.shape, np.nan), "B")
        return (
            (),
            None,
            {"memory.total": nothing, "memory.capacity": Draws(capacity, "B", used), "memory.headroom": nothing},
        )
    held = training.memory(model, n.job, par, n.software, n.calibration)
    total = np.atleast_1d(held.total)
    names = tuple(e.name for e in fields(training.Memory) if e.name != "total")
    fits = bool(total[0] <= capacity[0])
    return (
        names,
        fits,
        {
            **{
                f"memory.parts.{name}": Draws(np.atleast_1d(np.asarray(getattr(held, name), float)), "B", used, error)
                for name in names
            },
            "memory.total": Draws(total, "B", used, error),
            "memory.capacity": Draws(capacity, "B", used),
            "memory.headroom": Draws(capacity - total, "B", used),
        },
    )


def _cloud(found: search.Found) -> tuple[tuple[float, float], ...]:
    """Step time and memory of the configurations timed, thinned evenly, the quickest among them."""
    count = len(found.time)
    rows = np.unique(np.linspace(0, count - 1, min(count, CLOUD)).astype(int)) if count else np.array([], int)
    return tuple(zip(found.time[rows].tolist(), found.memory[rows].tolist(), strict=True))


def _alternatives(model: Shape, n: Numbers, found: search.Found, fixed: search.Given) -> tuple[Alternative, ...]:
    """The best configurations after the chosen one, one for each choice of degrees, with what costs them most."""
    seen: set[tuple[float, ...]] = set()
    rows: list[int] = []
    for row in range(min(len(found.time), 2000)):
        par = found.parallelism
        degrees = tuple(float(getattr(par, name)[row]) for name in ("tensor", "pipeline", "context", "expert"))
        if degrees not in seen:
            seen.add(degrees)
            rows.append(row)
        if len(rows) > ALTERNATIVES:
            break
    if len(rows) < 2:
        return ()
    some = search.take(found.parallelism, np.array(rows))
    arguments = (n.job, n.hardware, some, n.software, n.calibration)
    one = training.layer(model, *arguments)
    head = training.head_time(model, n.job, n.hardware, some, n.calibration)
    step = training.assemble(one, head, model, *arguments)
    parts = {name: np.broadcast_to(value, np.shape(step.time)) for name, _, value in step_parts(one, step, some, n)}
    alternatives = []
    for at, row in enumerate(rows[1:], start=1):
        slower = {name: float(value[at] - value[0]) for name, value in parts.items()}
        worst = max(slower, key=lambda name: slower[name])
        lost = found.time[row] / found.time[0] - 1
        why = f"{lost:.1%} slower: {slower[worst]:.3g} s more for {PART_NAMES[worst]}"
        alternatives.append(
            Alternative(
                named(search.pick(found.parallelism, row), n.job, fixed.bubble < 1),
                float(found.time[row]),
                float(found.memory[row]),
                why,
            )
        )
    return tuple(alternatives)


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


# Findings ------------------------------------------------------------------------------------------------------------


def _findings(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    found: search.Found,
    chosen: training.Parallelism | None,
    memory: Mapping[str, Draws],
    budget: float,
) -> Iterator[Finding]:
    """What keeps the job from running, what it runs instead, and what is tight."""
    gpu = hardware.gpu
    asked, real = PRECISION_BYTES[scenario.precision], peaks(gpu, scenario.precision)[2]
    if real > asked:
        instead = {2.0: "16-bit", 1.0: "FP8"}[real]
        yield Finding(
            "warning",
            "precision-not-in-hardware",
            f"{gpu.name} has no {scenario.precision} arithmetic; the plan runs the linear layers in {instead}.",
            ("precision", "gpu"),
            "Choose a precision the GPU has.",
            {"precision": "bf16" if real > 1 else "fp8"},
        )
    if found.frugal is None:
        yield _undivided(scenario, hardware, catalog, model, budget)
        return
    need, capacity = float(memory["memory.total"].values[0]), float(memory["memory.capacity"].values[0])
    if chosen is None:
        least = max(found.smallest_memory, need)
        enough = _enough(scenario, hardware, catalog, model, budget)
        yield Finding(
            "error",
            "does-not-fit",
            f"The model does not fit: the most frugal way to run it as asked needs {show(least, 'B')} on each GPU of "
            f"{show(capacity, 'B')}, of which {budget:.0%} can be filled.",
            ("gpus", "model", "gpu"),
            _roomier(scenario, enough),
            {"gpus": enough} if enough else {},
        )
        return
    if need > budget * capacity:
        yield Finding(
            "warning",
            "memory-tight",
            f"Memory is filled to {need / capacity:.0%}: {show(need, 'B')} of {show(capacity, 'B')}.",
            ("micro_batch", "recompute", "sharding"),
            "Leave the parallelism blank to find one with room.",
        )
    if float(chosen.tensor) > hardware.domain:
        yield Finding(
            "warning",
            "tensor-parallel-across-network",
            f"Tensor parallelism over {int(chosen.tensor)} GPUs leaves the scale-up domain of {hardware.domain}.",
            ("tensor_parallel",),
            f"Use at most {hardware.domain}.",
            {"tensor_parallel": hardware.domain},
        )
    if not hardware.gpu.architecture.startswith(MEASURED):
        yield Finding(
            "note",
            "hardware-not-calibrated",
            f"No published step time of a GPU like {gpu.name} went into the calibration; the ranges are wider for it.",
            ("gpu",),
        )


def _interrupted(share: float) -> Iterator[Finding]:
    """Where failures leave no time to train."""
    if not share > 0:
        yield Finding(
            "error",
            "no-progress",
            "Failures come faster than the cluster restarts and checkpoints: the run makes no progress.",
            ("failure_rate", "restart_time", "checkpoint_time", "checkpoint_interval", "gpus"),
            "Shorten the restart or the checkpoint, or use fewer GPUs.",
        )


def _divisible_batch(
    scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float
) -> int | None:
    """The global batch nearest to the asked one with which the job runs on these GPUs; ``None`` if none is found."""
    batch, gpus = scenario.global_batch, scenario.gpus
    steps = [gpus // k for k in (1, 2, 4, 8, 16, 32, 64, 128) if gpus % k == 0]
    nearest = {max(round(batch / step), 1) * step for step in steps}
    for candidate in sorted(nearest - {batch}, key=lambda value: abs(value - batch)):
        other = scenario.model_copy(update={"global_batch": candidate})
        n = numbers(other, hardware, model, catalog)
        if _search(other, model, n, given(other, catalog), budget).feasible:
            return candidate
    return None


def _undivided(scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float) -> Finding:
    """Why no configuration divides: the first rule that the given numbers break."""
    t, p, c = (scenario.tensor_parallel or 1), (scenario.pipeline_parallel or 1), (scenario.context_parallel or 1)
    gpus, batch, b = scenario.gpus, scenario.global_batch, scenario.micro_batch or 1
    if gpus % (t * p * c):
        text = f"{t} × {p} × {c} GPUs of a replica do not divide {gpus:,} GPUs."
        fields_: tuple[str, ...] = ("tensor_parallel", "pipeline_parallel", "context_parallel", "gpus")
        advice = "Choose degrees whose product divides the GPUs."
    elif scenario.pipeline_parallel and p > float(model.layers):
        text = f"{p} pipeline stages are more than the model's {int(model.layers)} layers."
        fields_, advice = ("pipeline_parallel",), f"Use at most {int(model.layers)}."
    elif gpus // (t * p * c) * b > batch and scenario.tensor_parallel and scenario.pipeline_parallel:
        text = f"{gpus // (t * p * c):,} replicas of {b} sequences need more than the global batch of {batch:,}."
        fields_, advice = ("global_batch", "micro_batch"), "Raise the global batch or the degrees."
    else:
        text = f"No parallelism divides {gpus:,} GPUs, a global batch of {batch:,} and the model's layers and heads."
        fields_ = ("gpus", "global_batch", "tensor_parallel", "pipeline_parallel", "micro_batch")
        advice = "Use numbers with more common divisors, such as powers of two."
        better = _divisible_batch(scenario, hardware, catalog, model, budget)
        if better:
            advice = f"A global batch of {better:,} divides."
            return Finding("error", "does-not-divide", text, fields_, advice, {"global_batch": better})
    return Finding("error", "does-not-divide", text, fields_, advice)


def _enough(scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float) -> int | None:
    """The first doubling of the cluster on which the job fits as asked; ``None`` up to 64 times."""
    for doubling in range(1, 7):
        more = scenario.model_copy(update={"gpus": scenario.gpus * 2**doubling})
        if more.gpus > 1_000_000 or more.gpus > more.global_batch * hardware.gpus_per_node * float(model.layers):
            return None
        larger = replace(hardware, gpus=more.gpus, nodes=-(-more.gpus // hardware.gpus_per_node))
        n = numbers(more, larger, model, catalog)
        if _search(more, model, n, given(more, catalog), budget).feasible:
            return more.gpus
    return None


def _roomier(scenario: Scenario, enough: int | None) -> str:
    if enough:
        return f"{enough:,} GPUs are enough; or use GPUs with more memory, or a smaller model."
    if any((scenario.tensor_parallel, scenario.pipeline_parallel, scenario.sharding, scenario.micro_batch)):
        return "Leave the parallelism blank, or use more GPUs, or GPUs with more memory."
    return "Use more GPUs, GPUs with more memory, or a smaller model."


# Explanations --------------------------------------------------------------------------------------------------------


def _explanations(
    scenario: Scenario,
    hardware: Hardware,
    model: Shape,
    n: Numbers,
    timing: _Timing,
    share: float,
    chosen: training.Parallelism | None,
    catalog: Catalog,
) -> dict[str, Explanation]:
    """How the figures came about, with the plan's own numbers."""
    if chosen is None:
        return {}
    time = float(timing.time[0, 0])
    tokens = float(scenario.global_batch * scenario.sequence_length)
    flops = float(transformer.training_flops(model, n.job.sequence_length, n.job.causal))
    named_ = named(chosen, n.job)
    wide, linear, _ = peaks(hardware.gpu, scenario.precision)
    efficiency = catalog.training["products"]["efficiency"]
    parts = tuple(Term(name, PART_NAMES[name], float(part[0]), "s") for name, _, part in timing.parts)
    used = Term("MFU", "model FLOPs utilisation", flops * tokens / (time * scenario.gpus * linear.typical), "1")
    memory = training.memory(model, n.job, chosen, n.software, n.calibration)
    sizes = tuple(
        Term(e.name, e.name, float(getattr(memory, e.name)), "B") for e in fields(training.Memory) if e.name != "total"
    )
    step = Term("T_step", "step time", time, "s")
    return {
        "training.step_time": Explanation(
            "training.assemble",
            (
                Term("m", "micro-batches of a replica", float(named_.micro_batches), "1"),
                Term("p", "pipeline stages", float(named_.pipeline_parallel), "1"),
                Term("v", "model chunks on each", float(named_.virtual_pipeline), "1"),
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
