"""A question about serving as the formulas take it: the model in its formats, rates, layout, load and constants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from app.catalog.entries import Engine, Gpu
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL, Sampling
from app.formulas.arrays import Array, maximum, typical_of
from app.formulas.fabric.placement import Site, network_share
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad, ServingRates
from app.plan.cluster import Cluster
from app.plan.communication import Communication, DesignedNetwork, communication
from app.plan.job.shape import shape
from app.plan.machine import of_gpu
from app.plan.scenario import CollectiveRequest, ModelRequest, NetworkRequest, Scenario

WEIGHT_BYTES = {
    "bf16": 2.0,
    "fp8": 1.0,
    "nvfp4": (4 + 8 / 16) / 8,
    "mxfp4": (4 + 8 / 32) / 8,
    "int4": (4 + 8 / 32) / 8,
}
"""Bytes of a weight: its bits, and its share of a scale for each 16 or 32 of them."""
CACHE_BYTES = {"bf16": 2.0, "fp8": 1.0}


def engine_key(question: Scenario, catalog: Catalog) -> str:
    """The engine that is asked for, or the first of the catalogue."""
    return question.engine or next(iter(catalog.engines))


@dataclass(frozen=True)
class Formats:
    """What is kept in which format: weights outside the experts, the experts', keys and values."""

    dense: str
    experts: str
    cache: str


def formats(question: Scenario, gpu: Gpu, engine: Engine, catalog: Catalog) -> Formats:
    """The formats that are asked for, or the usual ones. 4-bit checkpoints of some models keep attention in 16 bit."""
    weights = question.weights or ("fp8" if gpu.fp8 else "bf16")
    model = catalog.models.get(question.model)
    keeps = weights not in ("bf16", "fp8") and model is not None and not model.low_bit_attention
    low = engine.low_bit_cache and weights != "bf16"
    return Formats("bf16" if keeps else weights, weights, question.kv_cache or ("fp8" if low else "bf16"))


def product_format(weights: str, gpu: Gpu) -> str:
    """The format in which products are computed: the weights', or 16 bit where the GPU has no such units.

    Integers are of weights alone (AWQ, GPTQ): kernels widen them to the 16 bits of the activations that they meet.
    """
    if weights == "fp8":
        return "fp8" if gpu.fp8 else "bf16"
    return "nvfp4" if weights in gpu.block_formats else "bf16"


def peak(weights: str, gpu: Gpu) -> Estimate:
    """Dense matrix rate in the format that products are computed in."""
    rates = {"bf16": gpu.bf16 or gpu.fp16, "fp8": gpu.fp8, "nvfp4": gpu.fp4}
    return rates[product_format(weights, gpu)] or gpu.fp16


class Carried(NamedTuple):
    """What a network carries and how long a hop takes, over InfiniBand of the same rate to the GPU's memory [1]."""

    rate: float
    hop: float


def carried(fabric: Communication) -> Carried:
    """What the transport, the GPU's slot, lost packets and the reader's own measurements leave of the network."""
    machine, rate = fabric.machine(TYPICAL), fabric.system.transport.rate
    line = rate.typical if isinstance(rate, Estimate) else float(np.max(rate))
    usual = fabric.catalog.collectives["infiniband"]["efficiency"].typical * line
    hop = typical_of(machine.scale_out_hop / machine.reference_hop)
    return Carried(typical_of(machine.scale_out_rate) / usual if usual > 0 else 0.0, hop)


@dataclass(frozen=True)
class Setting:
    """A question with its hardware, engine and formats: all that decides which constants it takes."""

    question: Scenario
    cluster: Cluster
    engine: Engine
    formats: Formats
    model: ServedModel
    family: str
    site: Site
    fabric: Communication
    transport: Carried

    @property
    def gpu(self) -> Gpu:
        """The accelerator."""
        return self.cluster.gpu


def setting(question: Scenario, cluster: Cluster, network: DesignedNetwork | None, catalog: Catalog) -> Setting:
    """A question on its cluster and the network designed for it."""
    engine = catalog.engines[engine_key(question, catalog)]
    kept = formats(question, cluster.gpu, engine, catalog)
    entry = catalog.models.get(question.model)
    requests = question.part(NetworkRequest), question.part(CollectiveRequest)
    fabric = communication(cluster, network, *requests, catalog)
    served = ServedModel(
        shape=replace(shape(question.part(ModelRequest), catalog), prediction_layers=0.0),
        dense_bytes=WEIGHT_BYTES[kept.dense],
        expert_bytes=WEIGHT_BYTES[kept.experts],
        kv_bytes=CACHE_BYTES[kept.cache],
        sparse_keys=float(entry.sparse_keys or 0) if entry else 0.0,
    )
    return Setting(
        question=question,
        cluster=cluster,
        engine=engine,
        formats=kept,
        model=served,
        family=family(served),
        site=network.site if network else Site(float(cluster.gpus), float(cluster.domain)),
        fabric=fabric,
        transport=carried(fabric),
    )


def family(model: ServedModel) -> str:
    """The family of architectures that a model belongs to: what an engine has kernels of its own for."""
    shape = model.shape
    if shape.linear_share:
        return "linear"
    if shape.kv_rank:
        return "latent"
    if not shape.experts:
        return "dense"
    return "sink" if shape.window_share else "experts"


def estimates(it: Setting, catalog: Catalog) -> dict[str, Estimate]:
    """Every estimate that the answer rests on, by what it is for."""
    gpu, engine, arrivals = it.gpu, it.engine, it.question.arrivals
    by_name = {name: _of_gpu(catalog, gpu, name, it.formats) for name in OF_GPU}
    for name, weights in (("dense", it.formats.dense), ("expert", it.formats.experts)):
        products = _products(catalog, gpu, product_format(weights, gpu))
        by_name |= {f"{name}_compute": products["compute"], f"{name}_half": products["half_tokens"]}
        by_name[f"{name}_peak"] = peak(weights, gpu)
    by_name |= {name: catalog.serving[group][key] for name, (group, key) in SHARED.items()}
    batching, waves, first = catalog.serving["batching"], arrivals == "waves", "prompt_first_" * engine.prompts_alone
    by_name["interference"] = batching[f"{first or 'wave_'}interference" if waves else "interference"]
    by_name["burst"] = batching[f"{first}burst" if waves else "burst"]
    by_name |= {name: getattr(engine, name) for name in ENGINE}
    by_name |= {
        "memory_bandwidth": gpu.memory_bandwidth,
        "memory_capacity": gpu.memory,
        "attention_peak": gpu.bf16 or gpu.fp16,
        "scale_up": it.cluster.scale_up.bandwidth,
    }
    if it.question.tuned_kernels:
        by_name["tuning"] = catalog.serving["kernels"]["tuning"]
        by_name["plain_compute"] = _products(catalog, gpu, "bf16")["compute"]
    if isinstance(it.cluster.rate_per_gpu, Estimate):
        by_name["scale_out"] = it.cluster.rate_per_gpu
    cell = catalog.serving["correction"].get(f"{engine.key}-{it.family}-{gpu.architecture}")
    return by_name | ({"correction": cell} if cell else {})


OF_GPU = (
    "memory", "expert_memory", "kernel_share", "kv_memory", "attention_compute", "prompt_attention",
    "launch_share", "reduce_latency", "reduce_doubling", "one_shot", "two_shot", "two_shot_latency",
)  # fmt: skip
SHARED = {
    "relative_expert_compute": ("experts", "compute"),
    "expert_imbalance": ("experts", "imbalance"),
    "expert_tile": ("experts", "tile"),
    "expert_spread": ("experts", "spread"),
    "expert_half_width": ("experts", "half_width"),
    "expert_layer_time": ("experts", "layer_time"),
    "elementwise_traffic": ("elementwise", "traffic"),
    "latent_compute": ("attention", "latent_compute"),
    "latent_layer_time": ("attention", "latent_layer_time"),
    "lean_layer": ("attention", "lean_layer"),
    "reduce_scale": ("exchange", "reduce_scale"),
    "dispatch_latency": ("exchange", "dispatch_latency"),
    "dispatch_rate": ("exchange", "dispatch_rate"),
    "network_latency": ("exchange", "network_latency"),
    "transfer_rate": ("exchange", "transfer_rate"),
    "synchronisation": ("batching", "synchronisation"),
    "queueing": ("batching", "queueing"),
    "steps_ahead": ("batching", "steps_ahead"),
    "acceptance": ("batching", "acceptance"),
    "yearly_gain": ("batching", "yearly_gain"),
    "reserved_memory": ("memory", "reserved"),
}
ENGINE = ("layer_time", "step_time", "sequence_time", "first_token_time", "memory_share")


def _of_gpu(catalog: Catalog, gpu: Gpu, name: str, kept: Formats) -> Estimate:
    """A constant of the GPU, else of its architecture, else of those between."""
    low = {"memory": kept.dense, "expert_memory": kept.experts}.get(name, "bf16") not in ("bf16", "fp8")
    return of_gpu(catalog, gpu, f"low_{name}" if low else name)


def _products(catalog: Catalog, gpu: Gpu, computed: str) -> Mapping[str, Estimate]:
    """The constants of matrix products in one format: the GPU's, its architecture's, or those between."""
    groups = (f"gpu-{gpu.key}", gpu.architecture, "other")
    keys = [f"products-{group}-{computed}" for group in groups]
    return next(catalog.serving[key] for key in keys if key in catalog.serving)


def tuned_share(share: Array, plain: Array, tuning: Array) -> Array:
    """Share of its peak that a matrix product reaches where somebody tuned it for one model and load, η·(η₁₆/η)^x.

    Of what 16-bit products reach, timed alone, a release's lack the time that quantising their input takes, and what
    they lose inside a model; tuning fuses the one and chooses kernels against the other.

    Args:
        share: what the products of a release reach, η [1].
        plain: what 16-bit products reach, η₁₆ [1].
        tuning: how much of the way between them tuning goes, on the logarithm, x; 0 where nobody tuned [1].

    Returns:
        Share, no lower than a release's [1].

    >>> tuned_share(0.25, 1.0, 0.5)
    0.5
    """
    return share * maximum(plain / share, 1.0) ** tuning


def serving_constants(take: Callable[[str], Array], years: Array, lean: Array, tuned: Array) -> ServingConstants:
    """The constants of a question.

    Args:
        take: the number of an estimate, by its name in `estimates`.
        years: releases' age relative to those that the engine's constants are of [years].
        lean: 1 for models with attention sinks, whose layers have fewer kernels, else 0.
        tuned: 1 where somebody tuned the kernels for this model and load, else 0.
    """
    gain = take("yearly_gain") ** years
    launches = gain * take("launch_share")
    share, best, tuning = take("kernel_share"), take("plain_compute"), tuned * take("tuning")
    plain = {name: take(name) for name in PLAIN}
    return ServingConstants(
        **plain,
        dense_compute=tuned_share(take("dense_compute") * share, best, tuning),
        expert_compute=tuned_share(take("expert_compute") * share, best, tuning) * take("relative_expert_compute"),
        half_tokens=take("dense_half"),
        reduce_latency=take("reduce_latency") * take("reduce_scale"),
        layer_time=take("layer_time") * launches * (1 - lean + lean * take("lean_layer")),
        expert_layer_time=take("expert_layer_time") * launches,
        latent_layer_time=take("latent_layer_time") * launches,
        step_time=take("step_time") * gain,
    )


SCALED = {
    "dense_compute", "expert_compute", "half_tokens", "reduce_latency", "layer_time", "expert_layer_time",
    "latent_layer_time", "step_time",
}  # fmt: skip
PLAIN = tuple(entry.name for entry in fields(ServingConstants) if entry.name not in SCALED)


@dataclass(frozen=True)
class ServingInputs:
    """What the formulas take for one question."""

    model: ServedModel
    gpu: ServingRates
    load: ServingLoad
    constants: ServingConstants
    used: tuple[Estimate, ...]

    @property
    def taken(self) -> Array:
        """What the engine takes of a GPU's memory [B]."""
        return self.constants.memory_share * self.gpu.memory_capacity

    @property
    def room(self) -> Array:
        """What is left of that for weights, keys and values [B]."""
        return self.taken - self.constants.reserved_memory


def years_of(it: Setting) -> float:
    """How much younger the engine's release is than those that its constants are of [years]."""
    return (it.question.software_date or it.engine.newest_year) - it.engine.constants_year


def serving_inputs(it: Setting, catalog: Catalog, sampling: Sampling = TYPICAL) -> ServingInputs:
    """The inputs of a question: typical values, or draws on the last axis."""
    by_name = estimates(it, catalog)

    def take(name: str) -> Array:
        return sampling(by_name[name]) if name in by_name else 1.0

    question = it.question
    constants = serving_constants(take, years_of(it), float(it.family == "sink"), float(question.tuned_kernels))
    if question.memory_share is not None:
        constants = replace(constants, memory_share=question.memory_share)
    links = it.fabric.links(sampling)
    leaves = any(degree and degree > it.cluster.domain for degree in (getattr(question, name) for name in TENSORS))
    used = *by_name.values(), *(it.fabric.used() if leaves or links.interconnect.domain > it.cluster.domain else ())
    return ServingInputs(
        model=it.model,
        gpu=replace(serving_rates(it, take), links=links),
        load=serving_load(it, take),
        constants=constants,
        used=tuple(dict.fromkeys(used)),
    )


TENSORS = ("tensor_parallel", "prefill_tensor_parallel", "decode_tensor_parallel")
"""Degrees that leave a scale-up domain only where they are asked for."""


def serving_rates(it: Setting, take: Callable[[str], Array]) -> ServingRates:
    """Rates of one GPU of the cluster, the network's after its protocol and before any taper."""
    rate = it.cluster.rate_per_gpu
    network = take("scale_out") if isinstance(rate, Estimate) else rate
    return ServingRates(
        memory_bandwidth=take("memory_bandwidth"),
        memory_capacity=take("memory_capacity"),
        dense_peak=take("dense_peak"),
        expert_peak=take("expert_peak"),
        attention_peak=take("attention_peak"),
        scale_up=take("scale_up"),
        domain=float(it.cluster.domain),
        scale_out=np.maximum(network * it.transport.rate, 1.0) * take("transfer_rate"),
        network_hop=it.transport.hop,
    )


def on_network(gpu: ServingRates, site: Site, layout: Layout) -> ServingRates:
    """The same GPU where groups of a layout's size exchange tokens over the designed network, tapers and all."""
    if not site.matters:
        return gpu
    share = network_share([(1.0, layout.stage)], "exchange", site)
    return replace(gpu, scale_out=gpu.scale_out * share)


def serving_load(it: Setting, take: Callable[[str], Array], concurrency: Array = 1.0) -> ServingLoad:
    """The load of one replica."""
    question = it.question
    counted = question.arrivals in ("benchmark", "waves")
    return ServingLoad(
        input_tokens=question.input_tokens,
        output_tokens=question.output_tokens,
        concurrency=concurrency,
        token_budget=float(question.token_budget or it.engine.token_budget),
        prefix_hits=question.prefix_hits,
        accepted_tokens=question.accepted_tokens,
        prompts_alone=float(it.engine.prompts_alone),
        burst=take("burst") if counted else 0.0,
        waves=float(question.arrivals == "waves"),
        in_process=float(question.arrivals == "offline"),
    )


def residual(name: str, it: Setting, catalog: Catalog) -> float:
    """The model's own error of a result: half-width of its 80 % band on the logarithm.

    Wider where no engine is named, and where the family of models, or the architecture, has no measured row.
    """
    widths = {key: estimate.typical for key, estimate in catalog.serving["residual"].items()}
    cells = [cell.split("-") for cell in catalog.serving["correction"]]
    architecture = f"architecture-{it.gpu.architecture}" in catalog.serving
    family = any(it.family in cell for cell in cells)
    squares = widths[name] ** 2
    squares += 0.0 if architecture else widths["other_architecture"] ** 2
    squares += 0.0 if family else widths["other_family"] ** 2
    squares += 0.0 if it.question.engine else widths["other_engine"] ** 2
    return float(np.sqrt(squares))
