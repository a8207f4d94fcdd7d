"""What a replica holds: weights, keys and values, and so how many sequences.

Symbols: h hidden size, H query heads, K key-value heads, d head width, L layers; t, a, e, p the degrees of a `Layout`.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.formulas.arrays import Array, maximum, minimum, where
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad, ServingRates
from app.formulas.transformer import linear_attention_parameters


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer on one GPU.

    Attributes:
        attention: of the attention block [1].
        dense: of a dense feed-forward block [1].
        expert: of one routed expert, as far as this GPU has it [1].
        experts: routed experts on the GPU that has most [1].
        shared: of the experts that every token visits [1].
    """

    attention: Array
    dense: Array
    expert: Array
    experts: Array
    shared: Array


def layer_weights(model: ServedModel, layout: Layout) -> LayerWeights:
    """Weights of one layer on one GPU.

    Attention 2·h·H·d/t + 2·h·max(K/t, 1)·d, and h·H·d/t of a gate; latent attention h·(r_q + r_kv + d_r) whole and its
    wide projections over t, the queries' from h where r_q = 0; in the share λ of the layers linear attention,
    h·(2·K_l + 3·H_l)·d_l/t. Feed-forward g·h·f/t; ⌈E/e⌉ experts of g·h·f_e/t_e each: whole
    ones, so that where they do not divide some ranks have a copy more, or wait for the others.

    Returns:
        Weights [1].

    Source: Vaswani et al., 2017; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1; Shoeybi et al., "Megatron-LM", 2019.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> layer_weights(MODEL, Layout(tensor=2))  # (2·1000·1000 + 2·1000·500)/2, 3·1000·4000/2
    LayerWeights(attention=1500000.0, dense=6000000.0, expert=0.0, experts=1.0, shared=0.0)
    """
    shape, t = model.shape, layout.tensor
    query, key = shape.heads * shape.head_dim, key_heads(model, layout) * shape.head_dim
    grouped = (2 + shape.attention_gate) * shape.hidden * query / t + 2 * shape.hidden * key
    queries = where(shape.query_rank > 0, shape.query_rank, shape.hidden) * shape.heads * shape.score_dim
    wide = (
        queries
        + shape.kv_rank * shape.heads * (shape.head_dim + shape.value_dim)
        + shape.heads * shape.value_dim * shape.hidden
    )
    latent = shape.hidden * (shape.query_rank + shape.kv_rank + shape.rope_dim) + wide / t
    matrices, linear = (2 + shape.gated) * shape.hidden, linear_attention_parameters(shape) / t
    full = where(shape.kv_rank > 0, latent, grouped)
    return LayerWeights(
        attention=(1 - shape.linear_share) * full + shape.linear_share * linear,
        dense=matrices * shape.ffn_hidden / t,
        expert=matrices * shape.expert_ffn_hidden / layout.expert_tensor,
        experts=-(-maximum(shape.experts, 1) // layout.expert),
        shared=matrices * shape.shared_width / where(layout.attention_data > 1, 1.0, t),
    )


def key_heads(model: ServedModel, layout: Layout) -> Array:
    """Key-value heads on one GPU, max(K/t, 1): a head that more GPUs need than share it is held by each [1].

    Source: Pope et al., "Efficiently scaling transformer inference", 2022, section 3.3.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> key_heads(MODEL, Layout(tensor=10))  # five heads
    1.0
    """
    return maximum(model.shape.kv_heads / layout.tensor, 1.0)


def head_weights(model: ServedModel, layout: Layout) -> Array:
    """Weights of the output head on one GPU, V·h/(t·a), which all ranks share [1].

    Source: counted from the architecture, Vaswani et al., 2017.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> head_weights(MODEL, Layout(tensor=2))
    50000000.0
    """
    return model.shape.vocabulary * model.shape.hidden / layout.stage


def deepest_stage(model: ServedModel, layout: Layout) -> Array:
    """Share of the layers on the deepest of p stages, for which all others wait, q = ⌈L/p⌉/L [1].

    Source: vLLM and SGLang, whole layers on each stage.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> deepest_stage(MODEL, Layout(pipeline=4))  # 3 of 10 layers
    0.3
    """
    return -(-model.shape.layers // layout.pipeline) / model.shape.layers


def serving_weights(model: ServedModel, layout: Layout) -> Array:
    """Bytes of weights on one GPU of the deepest stage, W, embedding and head in 16 bit.

    W = q·(L·A·w + L_dense·F·w + L_experts·(⌈E/e⌉·X·w_x + S·w)) + 4·V·h/(t·a), half of the last where both are one
    matrix or the first stage of a pipeline has the one and the last the other; q is the share of the layers.

    Returns:
        Bytes [B].

    Source: counted from the architecture; which matrices a checkpoint quantises is the catalogue's.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> serving_weights(MODEL, Layout())  # 10·15e6·2 + 4·100e6
    700000000.0
    """
    shape, weights = model.shape, layer_weights(model, layout)
    routed = weights.experts * weights.expert * model.expert_bytes
    layers = (
        shape.layers * weights.attention * model.dense_bytes
        + (shape.layers - shape.expert_layers) * weights.dense * model.dense_bytes
        + shape.expert_layers * (routed + weights.shared * model.dense_bytes)
    )
    matrices = where(layout.pipeline > 1, 1.0, 2 - shape.tied)
    return deepest_stage(model, layout) * layers + 2 * matrices * head_weights(model, layout)


def key_bytes(model: ServedModel, layout: Layout) -> Array:
    """Bytes that one token leaves in the cache of one layer on one GPU, κ₁.

    2·max(K/t, 1)·d·y; latent attention (r_kv + d_r)·y, which every GPU of the rank holds whole.

    Returns:
        Bytes [B].

    Source: Ainslie et al., "GQA", 2023; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.2.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> key_bytes(MODEL, Layout())  # 2·5·100·2
    2000.0
    """
    shape = model.shape
    grouped = 2 * key_heads(model, layout) * shape.head_dim
    return model.kv_bytes * where(shape.kv_rank > 0, shape.kv_rank + shape.rope_dim, grouped)


def kept_keys(model: ServedModel, context: Array) -> Array:
    """Keys that a layer keeps of a context, on average over the layers [1].

    All of it, or the window's; none in linear attention.

    Source: Beltagy et al., "Longformer", 2020; Yang et al., "Gated delta networks", 2024.

    >>> from dataclasses import replace
    >>> from app.formulas.serving.serving_examples import MODEL
    >>> half = replace(MODEL, shape=replace(MODEL.shape, window=128, window_share=0.5))
    >>> kept_keys(half, 1128.0)
    628.0
    """
    shape = model.shape
    full = (1 - shape.window_share) * (1 - shape.linear_share)
    return full * context + shape.window_share * minimum(context, maximum(shape.window, 1.0))


def state_bytes(model: ServedModel, layout: Layout) -> Array:
    """Bytes of a sequence's state in one layer on one GPU, on average over the layers, σ = λ·4·H_l·d_l²/t [B].

    Linear attention keeps a state for each head in 32 bit, however long the sequence.

    Source: Yang et al., "Gated delta networks", 2024.

    >>> from dataclasses import replace
    >>> from app.formulas.serving.serving_examples import MODEL
    >>> half = replace(MODEL.shape, linear_share=0.5, linear_heads=10, linear_dim=100)
    >>> state_bytes(replace(MODEL, shape=half), Layout())  # half of 4·10·100²
    200000.0
    """
    shape = model.shape
    return shape.linear_share * 4 * shape.linear_heads * shape.linear_dim**2 / layout.tensor


def sequence_bytes(model: ServedModel, layout: Layout, tokens: Array) -> Array:
    """Bytes of keys and values of one sequence on one GPU of the deepest stage, q·L·(κ₁·kept + σ) [B].

    Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention", 2023.

    >>> from dataclasses import replace
    >>> from app.formulas.serving.serving_examples import MODEL
    >>> sequence_bytes(MODEL, Layout(), 1000.0)  # 10·2000·1000
    20000000.0
    >>> half = replace(MODEL.shape, linear_share=0.5, linear_heads=10, linear_dim=100)
    >>> sequence_bytes(replace(MODEL, shape=half), Layout(), 1000.0)  # half of that, and 5·4·10·100²
    12000000.0
    """
    kept = key_bytes(model, layout) * kept_keys(model, tokens) + state_bytes(model, layout)
    return deepest_stage(model, layout) * model.shape.layers * kept


def prefix_bytes(model: ServedModel, layout: Layout, load: ServingLoad) -> Array:
    """Bytes that the part of the prompts which is cached takes on one GPU: all share it, so it is held once, V(g·s_i).

    Each attention rank has a cache of its own, and holds it.

    Returns:
        Bytes; none where nothing is cached [B].

    Source: Kwon et al., "PagedAttention", 2023, section 4.4.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> load = ServingLoad(input_tokens=1000, output_tokens=1, concurrency=1, token_budget=8192, prefix_hits=0.75)
    >>> prefix_bytes(MODEL, Layout(), load)  # 750 tokens of 20,000 bytes
    15000000.0
    """
    return where(load.cached > 0, sequence_bytes(model, layout, load.cached), 0.0)


def sequences_held(
    model: ServedModel, gpu: ServingRates, layout: Layout, load: ServingLoad, constants: ServingConstants
) -> Array:
    """Sequences that the memory of a replica holds, C_max.

    a·(φ·M - W - R) over the bytes of a sequence that is three quarters of the way through its answer: half-way is the
    mean, the rest is fragmentation. A prefix that is cached is held once, beside them.

    Returns:
        Sequences, 0 where the weights leave no room [1].

    Source: Kwon et al., "PagedAttention", 2023, section 3; the three quarters are fitted.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> load = ServingLoad(input_tokens=250, output_tokens=1000, concurrency=1, token_budget=8192)
    >>> round(sequences_held(MODEL, GPU, Layout(), load, LOSSLESS))  # (80 - 0.7) GB over 20 MB
    3965
    """
    room = constants.memory_share * gpu.memory_capacity - serving_weights(model, layout) - constants.reserved_memory
    room = room - prefix_bytes(model, layout, load)
    held = sequence_bytes(model, layout, load.prompt + 0.75 * load.output_tokens)
    return layout.attention_data * maximum(room, 0.0) / held
