"""One step of an engine: what a forward pass over the tokens of a batch takes, part by part.

m tokens pass through each attention rank, of which β are of decoding sequences; the others are of prompts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.graph_kernels import GraphKernels, graph_all_reduce
from app.formulas.collectives.group_times import collective_time, group_of
from app.formulas.serving.kv_cache import deepest_stage, head_weights, kept_keys, key_bytes, layer_weights, state_bytes
from app.formulas.serving.serving_arguments import (
    Layout,
    ServedModel,
    ServingConstants,
    ServingRates,
    smooth_cube,
)


@dataclass(frozen=True)
class StepBatch:
    """What passes through one attention rank in a step.

    Attributes:
        sequences: sequences that decode, β [1].
        prompt_tokens: tokens of prompts, τ [1].
        context: keys that a decoding sequence sees [1].
        prompt_keys: keys that a token of a prompt sees on average [1].
        tokens_each: tokens of a decoding sequence: its last, and those drafted by speculation [1].
    """

    sequences: Array
    prompt_tokens: Array
    context: Array
    prompt_keys: Array
    tokens_each: Array = 1.0


@dataclass(frozen=True)
class StepParts:
    """What one step takes, by cause; all of it is one stage of a pipeline's.

    Attributes:
        products: dense matrix products, the output head among them [s].
        attention: keys and values of decoding sequences [s].
        prompts: attention of prompts [s].
        experts: routed experts [s].
        all_reduce: all-reduces of tensor parallelism [s].
        dispatch: tokens to their experts and back [s].
        stages: activations on their way to the next stage of a pipeline [s].
        elementwise: norms, rotations, activations, quantising [s].
        launches: launches of kernels [s].
        host: scheduling, sampling, text [s].
    """

    products: Array
    attention: Array
    prompts: Array
    experts: Array
    all_reduce: Array
    dispatch: Array
    stages: Array
    elementwise: Array
    launches: Array
    host: Array

    @property
    def total(self) -> Array:
        """All of it [s]."""
        return (
            self.products
            + self.attention
            + self.prompts
            + self.experts
            + self.all_reduce
            + self.dispatch
            + self.stages
            + self.elementwise
            + self.launches
            + self.host
        )


def dense_time(
    weights: Array, tokens: Array, model: ServedModel, gpu: ServingRates, constants: ServingConstants
) -> Array:
    """Time of dense matrix products: reading the weights, hidden under the work of the tokens or the other way round.

    N·w/(η_b·B) ⊕ 2·N·(m + m_h)/(η_c·P).

    Args:
        weights: weights of the products on this GPU, N [1].
        tokens: tokens that pass through them, m [1].
        model: its bytes of a weight.
        gpu: memory bandwidth and peak.
        constants: the shares of them that products reach, and m_h.

    Returns:
        Time [s].

    Source: Williams et al., "Roofline", 2009; the shares are fitted to timed kernels and operating points.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> round(float(dense_time(1e9, 1e-6, MODEL, GPU, LOSSLESS)), 12)  # 2 GB at 1 TB/s
    0.002
    """
    read = weights * (model.dense_bytes / (constants.memory * gpu.memory_bandwidth))
    work = weights * ((tokens + constants.half_tokens) * (2 / (constants.dense_compute * gpu.dense_peak)))
    return smooth_cube(read, work)


def chosen_keys(model: ServedModel, context: Array) -> Array:
    """Keys whose work a query of a context is: all of it, or those that sparse attention reads and a tenth of all.

    min(s, s_top) + s/10: the tenth is what choosing them takes.

    Returns:
        Keys [1].

    Source: DeepSeek-AI, "DeepSeek-V3.2-Exp", 2025, section 1, for the choice of 2,048 keys by a light indexer.

    >>> from dataclasses import replace
    >>> from app.formulas.serving.serving_examples import MODEL
    >>> chosen_keys(MODEL, 10_000.0), chosen_keys(replace(MODEL, sparse_keys=2048.0), 10_000.0)
    (10000.0, 3048.0)
    """
    return where(model.sparse_keys > 0, minimum(context, model.sparse_keys) + 0.1 * context, context)


def decode_attention_time(
    batch: StepBatch,
    model: ServedModel,
    gpu: ServingRates,
    layout: Layout,
    constants: ServingConstants,
) -> Array:
    """Time of one layer's attention of decoding sequences over their keys and values.

    β·ctx·κ₁/(η_kv·B) ⊕ β·ctx·4·(H/t)·d·n/(η_f·P) with n tokens of a sequence, which read its keys once together;
    latent attention 2·(H/t)·(2·r_kv + d_r) in its absorbed form; sparse attention reads its few keys and a tenth of the
    others to choose them. In the share λ of the layers linear attention reads its state and writes it, β·2·σ/(η_kv·B)
    with σ of :func:`app.formulas.serving.kv_cache.state_bytes`.

    Returns:
        Time [s].

    Source: Dao et al., "Flash-Decoding", 2023; DeepSeek-AI, "FlashMLA", 2025; Yang et al., "Gated delta networks",
    2024; the shares come from timed kernels.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> time = decode_attention_time(StepBatch(1.0, 0.0, 1e6, 0.0), MODEL, GPU, Layout(), LOSSLESS)
    >>> round(1e6 * float(time))  # 1e6 keys of 2,000 B at 1 TB/s; 4 GFLOP hide under it
    2000
    """
    shape = model.shape
    keys = batch.sequences * kept_keys(model, chosen_keys(model, batch.context))
    heads = shape.heads / layout.tensor
    flops = where(
        shape.kv_rank > 0,
        2 * heads * (2 * shape.kv_rank + shape.rope_dim) / constants.latent_compute,
        4 * heads * shape.head_dim / constants.attention_compute,
    )
    per_byte = 1 / (constants.kv_memory * gpu.memory_bandwidth)
    scores = keys * batch.tokens_each * (flops / gpu.attention_peak)
    states = batch.sequences * (2 * state_bytes(model, layout) * per_byte)
    return smooth_cube(keys * (key_bytes(model, layout) * per_byte), scores) + states


def prompt_attention_time(
    tokens: Array,
    keys: Array,
    model: ServedModel,
    gpu: ServingRates,
    layout: Layout,
    constants: ServingConstants,
) -> Array:
    """Time of one layer's attention of prompts, τ·k·4·(H/t)·d/(η·P).

    A token of a prompt sees those before it: the causal half of s_i, and of a prompt whose first part is cached that
    part and half of the rest, k = s_i - (1 - g)·s_i/2. Sparse attention chooses its few keys of them, as when decoding.

    Args:
        tokens: prompt tokens of the step, τ [1].
        keys: that a token sees on average, k [1].
        model, gpu, layout, constants: what computes it.

    Returns:
        Time [s].

    Source: Dao, "FlashAttention-2", 2023, section 3.1.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> round(1e6 * float(prompt_attention_time(1000.0, 500.0, MODEL, GPU, Layout(), LOSSLESS)), 3)  # 2 GFLOP
    2.0
    """
    shape = model.shape
    widths = where(shape.kv_rank > 0, shape.score_dim + shape.value_dim, 2 * shape.head_dim)
    flops = 2 * (shape.heads / layout.tensor) * widths
    return (
        tokens
        * kept_keys(model, chosen_keys(model, keys))
        * (flops / (constants.prompt_attention * gpu.attention_peak))
    )


def touched_experts(experts: Array, chosen: Array, tokens: Array) -> Array:
    """Share of the experts that at least one of T tokens chooses, 1 - (1 - k/E)^T [1].

    Args:
        experts: routed experts, E [1].
        chosen: experts of a token, k [1].
        tokens: tokens that choose independently, T [1].

    Source: the coupon collector's problem; Lepikhin et al., "GShard", 2020, for the routing.

    >>> float(touched_experts(8.0, 2.0, 2.0))  # 1 - 0.75²
    0.4375
    """
    return 1 - (1 - minimum(chosen / maximum(experts, 1.0), 1.0)) ** tokens


def experts_time(
    tokens: Array, model: ServedModel, gpu: ServingRates, layout: Layout, constants: ServingConstants
) -> Array:
    """Time of one layer's routed experts: reading those that are chosen, under the work of the fullest GPU.

    A·X·w_x/(η·B) ⊕ 2·X·(T·k/e·σ + A·m_x)·(1 + f_h·t_e/f_e)/(η_c·P), A = ⌈E/e⌉·(1 - (1 - k/E)^T), with T = a·m tokens
    of all attention ranks; an expert's last tile is filled up, which costs m_x tokens, and a narrow slice of an expert
    fills few tiles: half the rate at a width of f_h. Where experts are cut and not dealt out (e = 1), every GPU has the
    same work; the more they are dealt out, the more of σ is felt: 1 + (σ - 1)·(1 - 1/e).

    Returns:
        Time [s].

    Source: Lepikhin et al., "GShard", 2020; the shares and the imbalance are fitted to operating points.

    >>> from app.formulas.serving.serving_examples import EXPERTS, GPU, LOSSLESS
    >>> round(1e6 * float(experts_time(1.0, EXPERTS, GPU, Layout(), LOSSLESS)))  # 2 of 8 experts of 24 MB
    48
    """
    shape, weights = model.shape, layer_weights(model, layout)
    together = layout.attention_data * tokens
    share = touched_experts(shape.experts, shape.experts_per_token, constants.expert_spread * together)
    expert_read = model.expert_bytes / (constants.expert_memory * gpu.memory_bandwidth)
    narrow = 1 + constants.expert_half_width * layout.expert_tensor / maximum(shape.expert_ffn_hidden, 1.0)
    work = narrow * (2 / (constants.expert_compute * gpu.expert_peak))
    touched = weights.experts * share
    uneven = 1 + (constants.expert_imbalance - 1) * (1 - 1 / layout.expert)
    copies = together * (shape.experts_per_token * uneven / layout.expert)
    filled = copies + touched * constants.expert_tile
    return smooth_cube(touched * weights.expert * expert_read, filled * weights.expert * work)


def layer_all_reduce_time(message: Array, group: Array, gpu: ServingRates, constants: ServingConstants) -> Array:
    """Time of an all-reduce of a layer: inside a domain by the kernels that engines record in their graphs.

    That of `graph_all_reduce`; where the scale-up link ends before the group does the library's, which leaves each
    domain over the network cards of all its GPUs.

    Args:
        message: bytes each GPU contributes, b [B].
        group: GPUs, t [1].
        gpu: its links.
        constants: λ, μ, ε₁, ε₂, λ₂ of the kernels.

    Returns:
        Time; nothing for one GPU, not a number for a group that leaves its domain over links that are not known [s].

    Source: as for :func:`app.formulas.collectives.graph_kernels.graph_all_reduce`, and
    :func:`app.formulas.collectives.group_times.collective_time`.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS
    >>> float(layer_all_reduce_time(1e8, 8, GPU, LOSSLESS))  # two shots: 2·7/8·100 MB at 100 GB/s
    0.00175
    """
    kernels = GraphKernels(
        latency=constants.reduce_latency,
        doubling=constants.reduce_doubling,
        one_shot=constants.one_shot * gpu.scale_up,
        two_shot=constants.two_shot * gpu.scale_up,
        two_shot_latency=constants.two_shot_latency,
    )
    inside = graph_all_reduce(message, group, kernels)
    leaves = group > gpu.domain
    if not any_(leaves):
        return inside
    if gpu.links is None:
        return where(leaves, np.nan, inside)
    across = collective_time(group_of(gpu.links, [(1.0, group)], exchanging=False), "all-reduce", message)
    return where(leaves, across, inside)


def dispatch_time(
    tokens: Array, model: ServedModel, gpu: ServingRates, layout: Layout, constants: ServingConstants
) -> Array:
    """Time to send the tokens of one layer to their experts and back: FP8 there, 16 bit back.

    2·λ_a + m·h·3·max(min(k·t_e, t·a - 1)/B_up, copies/B_out)/ε_a where the attention ranks have sequences of their own:
    each of the t_e = t·a/e GPUs that share an expert needs the tokens that choose it, and where all share every expert
    (e = 1) all tokens of the others. Over D domains a token crosses what joins them once for each other domain that it
    has experts in, copies = (D - 1)·(1 - (1 - max(1/D, 1/e))^k).

    Returns:
        Time; nothing where every GPU has all tokens [s].

    Source: DeepSeek-AI, "DeepEP", 2025; constants fitted to operating points.

    >>> from app.formulas.serving.serving_examples import EXPERTS, GPU, LOSSLESS
    >>> layout = Layout(attention_data=8, expert=8)
    >>> round(1e6 * float(dispatch_time(100.0, EXPERTS, GPU, layout, LOSSLESS)), 3)  # 100·2·1000·3 B at 100 GB/s
    6.0
    >>> layout = Layout(attention_data=8, expert=1)  # seven others in place of two experts' GPUs
    >>> round(1e6 * float(dispatch_time(100.0, EXPERTS, GPU, layout, LOSSLESS)), 3)
    21.0
    """
    shape, everyone = model.shape, layout.stage
    volume = tokens * (shape.hidden * 3 / constants.dispatch_rate)
    domains = maximum(everyone / gpu.domain, 1.0)
    met = maximum(1 / domains, 1 / layout.expert)
    crossing = (domains - 1) * (1 - (1 - met) ** shape.experts_per_token)
    inside = minimum(shape.experts_per_token * layout.expert_tensor, maximum(everyone - 1, 0.0))
    sending = volume * maximum(inside / gpu.scale_up, crossing / gpu.rate_beyond(everyone))
    network = where(everyone > gpu.reach, 2 * constants.network_latency * gpu.network_hop, 0.0)
    start = 2 * constants.dispatch_latency + network
    return where(layout.attention_data > 1, start + sending, 0.0)


def elementwise_time(
    tokens: Array, model: ServedModel, gpu: ServingRates, layout: Layout, constants: ServingConstants
) -> Array:
    """Time of one layer's work between its products: its tokens pass through memory several times in 16 bit.

    2·m·(8·h + 3·f/t)·ζ/(η_b·B): each of two norms reads the state and what is added to it and writes both, the
    activation reads two of the feed-forward block's width and writes one; k·f_e of experts in its place. ζ is what
    rotations, scales and quantising add.

    Args:
        tokens: tokens that pass through the layer, m [1].
        model, gpu, layout, constants: what computes it.

    Returns:
        Time [s].

    Source: Ivanov et al., "Data movement is all you need", 2021, section 3; ζ is fitted to operating points.

    >>> from dataclasses import replace
    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> moving = replace(LOSSLESS, elementwise_traffic=1)
    >>> round(1e6 * float(elementwise_time(1000.0, MODEL, GPU, Layout(), moving)), 3)  # 1000·2·(8,000 + 12,000) bytes
    40.0
    """
    shape = model.shape
    width = where(shape.experts > 0, shape.experts_per_token * shape.expert_ffn_hidden, shape.ffn_hidden)
    volume = 2 * tokens * (8 * shape.hidden + 3 * width / layout.tensor)
    return volume * (constants.elementwise_traffic / (constants.memory * gpu.memory_bandwidth))


def stage_time(message: Array, gpu: ServingRates, layout: Layout, constants: ServingConstants) -> Array:
    """Time to send the activations of a step to the next stage of a pipeline, λ + b/B.

    Over the scale-up link where the replica stays inside its domain, or what joins a node's, else over the network and
    with its latency.

    Args:
        message: bytes of the activations, b [B].
        gpu: its links.
        layout: how many stages there are, and how large the replica is.
        constants: λ, and what the network adds.

    Returns:
        Time; nothing without stages [s].

    Source: Huang et al., "GPipe", 2019, section 2; Hockney's model of a message.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS
    >>> round(1e6 * float(stage_time(1e6, GPU, Layout(pipeline=4), LOSSLESS)), 3)  # 1 MB at 100 GB/s
    10.0
    """
    beyond = where(layout.gpus > gpu.reach, constants.network_latency * gpu.network_hop, 0.0)
    time = constants.reduce_latency + beyond + message / gpu.link_rate(layout.gpus)
    return where(layout.pipeline > 1, time, 0.0)


def step_parts(
    batch: StepBatch, model: ServedModel, gpu: ServingRates, layout: Layout, constants: ServingConstants
) -> StepParts:
    """What one step of an attention rank takes, by cause, over the layers of the deepest pipeline stage.

    Σ over its layers of products, attention, experts, two all-reduces or a dispatch, elementwise work and launches;
    then the output head, the way to the next stage, and the host: h_step/√p and h_seq for each sequence.

    Returns:
        Times [s].

    Source: Pope et al., "Efficiently scaling transformer inference", 2022; Agrawal et al., "Sarathi-Serve", 2024.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> parts = step_parts(StepBatch(1.0, 0.0, 0.0, 1.0), MODEL, GPU, Layout(), LOSSLESS)
    >>> round(1e6 * float(parts.total))  # one sequence reads 150e6 weights of the layers and 100e6 of the head
    500
    """
    shape, sequences = model.shape, batch.sequences
    weights = layer_weights(model, layout)
    tokens = sequences * batch.tokens_each + batch.prompt_tokens
    depth, routed = shape.layers, shape.expert_layers
    stage = constants.correction * deepest_stage(model, layout)
    state = 2 * shape.hidden * tokens
    reduce = layer_all_reduce_time(state, layout.tensor, gpu, constants)
    apart = where(layout.attention_data > 1, 1.0, 0.0)
    products = depth * dense_time(weights.attention, tokens, model, gpu, constants)
    products = products + (depth - routed) * dense_time(weights.dense, tokens, model, gpu, constants)
    launches = depth * (constants.layer_time + where(shape.kv_rank > 0, constants.latent_layer_time, 0.0))
    experts: Array = 0.0
    dispatch: Array = 0.0
    if any_(routed > 0):
        products = products + routed * dense_time(weights.shared, tokens, model, gpu, constants)
        experts = routed * experts_time(tokens, model, gpu, layout, constants)
        dispatch = routed * dispatch_time(tokens, model, gpu, layout, constants)
        launches = launches + routed * constants.expert_layer_time
    head = head_weights(model, layout)
    read = 2 * head / (constants.memory * gpu.memory_bandwidth)
    work = (
        2
        * head
        * (maximum(sequences * batch.tokens_each, 1.0) * layout.attention_data)
        / (constants.dense_compute * gpu.attention_peak)
    )
    prompts = depth * prompt_attention_time(batch.prompt_tokens, batch.prompt_keys, model, gpu, layout, constants)
    return StepParts(
        products=stage * products + constants.correction * smooth_cube(read, work),
        attention=stage * depth * decode_attention_time(batch, model, gpu, layout, constants),
        prompts=stage * prompts,
        experts=stage * experts,
        all_reduce=stage * (2 * depth - routed * apart) * reduce,
        dispatch=stage * dispatch,
        stages=constants.correction * stage_time(state, gpu, layout, constants),
        elementwise=stage * depth * elementwise_time(tokens, model, gpu, layout, constants),
        launches=stage * launches,
        host=constants.correction
        * (constants.step_time / np.sqrt(layout.pipeline) + constants.sequence_time * sequences),
    )
