"""What a transformer is made of: parameters, work and bytes, as pure functions of its shape.

Symbols, used in the docstrings below:

    s sequence length        h hidden size            L layers            V vocabulary
    H query heads            K key-value heads        d_h head dimension
    f feed-forward width     g 3 if gated (SwiGLU), 2 if plain (GELU, squared ReLU)
    E routed experts         k experts per token      f_e expert width
    t, p, c, d, e            tensor, pipeline, context, data and expert parallel degrees

Every function takes numbers or arrays and broadcasts them.

Source where none is named: counted from the architecture, Vaswani et al., "Attention is all you need", 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where


@dataclass(frozen=True)
class Shape:
    """The numbers that define a transformer. Every field is a number or an array; zero means "has none".

    Attributes:
        layers: transformer layers, L [1].
        hidden: width of the residual stream, h [1].
        heads: query heads, H [1].
        head_dim: width of one head, d_h; not always h/H [1].
        kv_heads: key-value heads, K; K = H is multi-head, K < H grouped-query attention [1].
        ffn_hidden: width of a dense feed-forward block, f [1].
        gated: 1 if the feed-forward block has a gate (three matrices), else 0 (two) [1].
        vocabulary: rows of the embedding, V [1].
        tied: 1 if input and output embeddings are one matrix, else 0 [1].
        experts: routed experts in a mixture-of-experts layer, E [1].
        experts_per_token: routed experts each token visits, k [1].
        expert_ffn_hidden: width of one expert, f_e [1].
        shared_experts: experts that every token visits [1].
        dense_layers: layers with a dense block among the L; all of them in a dense model [1].
        query_rank: rank of the compressed query, r_q, multi-head latent attention only [1].
        kv_rank: rank of the compressed keys and values, r_kv; positive means latent attention [1].
        rope_dim: width of the part of a latent-attention key that carries position [1].
        value_dim: width of a latent-attention value head [1].
        window: keys seen by a sliding-window layer [1].
        window_share: share of the layers with a sliding window [1].
        prediction_layers: extra multi-token-prediction modules [1].
        shared_ffn_hidden: width of all shared experts together; zero means shared_experts · f_e [1].
        biases: 1 if every linear layer and norm has a bias, as in GPT-3 [1].
        qkv_bias: 1 if only queries, keys and values have one, as in Qwen2 [1].
        positions: rows of a learned position embedding [1].
        parallel_block: 1 if attention and feed-forward block share one norm, as in GPT-NeoX [1].
        node_limit: most groups, each on a node where it was trained, to which a token's routed experts are limited;
            zero means no limit [1].
        expert_groups: groups of experts that the limit counts [1].
        embedding_row: 1 if of the input embedding the row that a token reads counts as active, else the matrix [1].
        attention_gate: 1 if attention's output is multiplied by a gate as wide, made of the block's input [1].
        linear_share: share of the layers whose attention is linear, a state in place of keys, λ [1].
        linear_heads: value heads of linear attention, H_l [1].
        linear_key_heads: its key heads, K_l [1].
        linear_dim: width of its heads, d_l [1].
    """

    layers: Array
    hidden: Array
    heads: Array
    head_dim: Array
    kv_heads: Array
    ffn_hidden: Array
    gated: Array
    vocabulary: Array
    tied: Array = 0.0
    experts: Array = 0.0
    experts_per_token: Array = 0.0
    expert_ffn_hidden: Array = 0.0
    shared_experts: Array = 0.0
    dense_layers: Array = np.inf
    query_rank: Array = 0.0
    kv_rank: Array = 0.0
    rope_dim: Array = 0.0
    value_dim: Array = 0.0
    window: Array = 0.0
    window_share: Array = 0.0
    prediction_layers: Array = 0.0
    shared_ffn_hidden: Array = 0.0
    biases: Array = 0.0
    qkv_bias: Array = 0.0
    positions: Array = 0.0
    parallel_block: Array = 0.0
    node_limit: Array = 0.0
    expert_groups: Array = 0.0
    embedding_row: Array = 0.0
    attention_gate: Array = 0.0
    linear_share: Array = 0.0
    linear_heads: Array = 0.0
    linear_key_heads: Array = 0.0
    linear_dim: Array = 0.0

    @property
    def depth(self) -> Array:
        """Layers that a step passes through, those of the multi-token-prediction modules too [1]."""
        return self.layers + self.prediction_layers

    @property
    def expert_share(self) -> Array:
        """Share of the layers whose feed-forward block is a mixture of experts [1]."""
        return self.expert_layers / self.layers

    @property
    def shared_width(self) -> Array:
        """Width of all shared experts together [1]."""
        stated = self.shared_ffn_hidden > 0
        return where(stated, self.shared_ffn_hidden, self.shared_experts * self.expert_ffn_hidden)

    @property
    def expert_layers(self) -> Array:
        """Layers whose feed-forward block is a mixture of experts [1]."""
        return where(self.experts > 0, maximum(self.layers - self.dense_layers, 0), 0)

    @property
    def latent(self) -> Array:
        """1 where attention is multi-head latent attention, else 0."""
        return where(self.kv_rank > 0, 1.0, 0.0)

    @property
    def score_dim(self) -> Array:
        """Width of a query-key product: d_h, or d_h + d_rope in latent attention [1]."""
        return self.head_dim + self.rope_dim

    @property
    def output_dim(self) -> Array:
        """Width of a value head: d_h unless latent attention says otherwise [1]."""
        return where(self.kv_rank > 0, self.value_dim, self.head_dim)


# Parameters ----------------------------------------------------------------------------------------------------------


def attention_parameters(shape: Shape) -> Array:
    """Parameters of one average attention block.

    Multi-head and grouped-query: h·H·d_h (query) + 2·h·K·d_h (key, value) + H·d_h·h (output), and h·H·d_h of a gate.
    Latent: h·r_q + r_q·H·(d_h + d_rope) + h·(r_kv + d_rope) + r_kv·H·(d_h + d_v) + H·d_v·h, the query directly
    from h where r_q = 0. The share λ of the layers has linear attention instead.

    Returns:
        Parameters [1].

    Source: Vaswani et al., "Attention is all you need", 2017; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.

    >>> llama_3_8b = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
    >>> float(attention_parameters(llama_3_8b))  # 4096·4096·2 + 2·4096·1024
    41943040.0
    """
    queries = (2 + shape.attention_gate) * shape.heads
    grouped = shape.hidden * shape.head_dim * (queries + 2 * shape.kv_heads)
    query = where(
        shape.query_rank > 0,
        shape.hidden * shape.query_rank + shape.query_rank * shape.heads * shape.score_dim,
        shape.hidden * shape.heads * shape.score_dim,
    )
    latent = (
        query
        + shape.hidden * (shape.kv_rank + shape.rope_dim)
        + shape.kv_rank * shape.heads * (shape.head_dim + shape.value_dim)
        + shape.heads * shape.value_dim * shape.hidden
    )
    full = (1 - shape.linear_share) * where(shape.latent > 0, latent, grouped)
    return full + shape.linear_share * linear_attention_parameters(shape)


def linear_attention_parameters(shape: Shape) -> Array:
    """Parameters of one block of linear attention, h·(2·K_l + 3·H_l)·d_l: queries and keys, values, gate and output.

    Narrow matrices (a rate of decay for each head) and convolutions over four tokens are not counted.

    Returns:
        Parameters [1].

    Source: Yang et al., "Gated delta networks", 2024, section 3.4; MiniMax, "MiniMax-01", 2025, section 2.2.

    >>> shape = Shape(64, 5120, 24, 256, 4, 17408, 1, 248320, linear_heads=48, linear_key_heads=16, linear_dim=128)
    >>> float(linear_attention_parameters(shape))  # 5120·(2·16 + 3·48)·128
    115343360.0
    """
    return shape.hidden * (2 * shape.linear_key_heads + 3 * shape.linear_heads) * shape.linear_dim


def dense_ffn_parameters(shape: Shape) -> Array:
    """Parameters of one dense feed-forward block, g·h·f [1].

    >>> float(dense_ffn_parameters(Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)))  # 3·4096·14336
    176160768.0
    """
    return (2 + shape.gated) * shape.hidden * shape.ffn_hidden


def expert_parameters(shape: Shape) -> Array:
    """Parameters of one routed expert, g·h·f_e [1].

    >>> mixtral = Shape(32, 4096, 32, 128, 8, 14336, 1, 32000, 0, 8, 2, 14336, 0, 0)
    >>> float(expert_parameters(mixtral))  # 3·4096·14336
    176160768.0
    """
    return (2 + shape.gated) * shape.hidden * shape.expert_ffn_hidden


def shared_expert_parameters(shape: Shape) -> Array:
    """Parameters of the experts that every token visits, together, g·h·f_shared [1].

    >>> shared = Shape(27, 2048, 16, 128, 16, 10944, 1, 102400, experts=64, expert_ffn_hidden=1408, shared_experts=2)
    >>> float(shared_expert_parameters(shared))  # 3·2048·2·1408
    17301504.0
    """
    return (2 + shape.gated) * shape.hidden * shape.shared_width


def small_parameters(shape: Shape) -> Array:
    """Norms and biases of one layer.

    Two norms of h (one where attention and feed-forward share it), each with a bias if the model has biases; then also
    (H + 2K)·d_h for queries, keys and values, h for the attention output, f and h for the feed-forward block.

    Returns:
        Parameters [1].

    >>> float(small_parameters(Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)))  # two norms of 4,096
    8192.0
    """
    norms = (2 - shape.parallel_block) * shape.hidden * (1 + shape.biases)
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    return norms + maximum(shape.biases, shape.qkv_bias) * qkv + shape.biases * (2 * shape.hidden + shape.ffn_hidden)


def parameters(shape: Shape) -> Array:
    """All parameters of the model.

    L·(attention + norms) + dense layers·g·h·f + expert layers·(E·g·h·f_e + shared + h·E of the router) + the final
    norm + embeddings V·h (once if tied, else twice). Multi-token-prediction modules are not counted, as in published
    counts.

    Returns:
        Parameters [1].

    >>> float(parameters(Shape(32, 4096, 32, 128, 8, 14336, 1, 128256))) / 1e9  # Llama 3 8B
    8.030261248
    """
    attention = attention_parameters(shape) + small_parameters(shape)
    experts = shape.expert_layers
    mixture = shape.experts * expert_parameters(shape) + shared_expert_parameters(shape) + shape.hidden * shape.experts
    return (
        shape.layers * attention
        + (shape.layers - experts) * dense_ffn_parameters(shape)
        + experts * mixture
        + shape.hidden * (1 + shape.biases)
        + (2 - shape.tied) * shape.vocabulary * shape.hidden
        + shape.positions * shape.hidden
    )


def layers_of_size(size: Array, aspect: Array, expansion: Array) -> Array:
    """Layers of a dense model of which nothing but the size is known.

    A layer of width h = a·L holds about (2 + 3x)·h² parameters with a gated block x times as wide, so that
    L = (N/((2 + 3x)·a²))^⅓, here to the nearest multiple of 4, from 64 layers on of 8, so that pipelines divide.

    Args:
        size: parameters, N [1].
        aspect: width over layers, a [1].
        expansion: feed-forward width over h, x [1].

    Returns:
        Layers, L [1].

    Source: Kaplan et al., "Scaling laws for neural language models", 2020, section 2.1 (N = 12·L·h² with plain blocks)
    and figure 5: the loss hardly depends on width over layers from 50 to 300.

    >>> float(layers_of_size(100e9, aspect=128, expansion=3.5))  # (100e9/(12.5·16,384))^⅓ = 78.7
    80.0
    >>> float(layers_of_size(175e9, aspect=128, expansion=3.5))  # GPT-3 has 96
    96.0
    """
    layers = np.cbrt(size / ((2 + 3 * expansion) * aspect**2))
    step = where(layers < 64, 4.0, 8.0)
    return maximum(np.round(layers / step), 1.0) * step


def shape_of_size(
    size: Array, layers: Array, width: Array, head_dim: Array, kv_heads: Array, vocabulary: Array, tied: Array
) -> Shape:
    """A dense shape with gated blocks of a given depth and width, whose feed-forward blocks make up its size.

    f = (N - all others)/(3·L·h), to the nearest multiple of 256.

    Args:
        size: parameters, N [1].
        layers: L [1].
        width: h [1].
        head_dim: width of one head [1].
        kv_heads: key-value heads, halved where the query heads are no multiple of them [1].
        vocabulary: tokens that the model knows [1].
        tied: 1 if input and output embeddings are one matrix, else 0 [1].

    Source: the shapes of Llama 3 (Grattafiori et al., 2024, table 3).

    >>> float(shape_of_size(8.03e9, 32, 4096, 128, 8, 128256, 0).ffn_hidden)  # Llama 3 8B
    14336.0
    """
    heads = width / head_dim
    groups = where(heads % kv_heads == 0, kv_heads, kv_heads / 2)
    bare = Shape(layers, width, heads, head_dim, groups, 0.0, 1.0, vocabulary, tied)
    wide = (size - parameters(bare)) / (3 * layers * width)
    return replace(bare, ffn_hidden=maximum(np.round(wide / 256), 1.0) * 256)


def active_parameters(shape: Shape) -> Array:
    """Parameters one token passes through: as `parameters`, with k routed experts in place of E [1].

    Makers count the whole input embedding or the one row that a token reads; ``embedding_row`` says which.

    >>> mixtral = Shape(32, 4096, 32, 128, 8, 14336, 1, 32000, 0, 8, 2, 14336, 0, 0)
    >>> round(float(parameters(mixtral)) / 1e9, 1), round(float(active_parameters(mixtral)) / 1e9, 1)
    (46.7, 12.9)
    """
    idle = maximum(shape.experts - shape.experts_per_token, 0) * expert_parameters(shape)
    unread = shape.embedding_row * (1 - shape.tied) * (shape.vocabulary - 1) * shape.hidden
    return parameters(shape) - shape.expert_layers * idle - unread


# Work ----------------------------------------------------------------------------------------------------------------


def keys_per_query(sequence_length: Array, window: Array, causal: Array) -> Array:
    """Keys a query is multiplied with, averaged over the sequence.

    The full square has s. A causal kernel does w - w²/2s with w = min(s, window): half the square without a window.

    Args:
        sequence_length: s [1].
        window: sliding window, 0 for none [1].
        causal: 1 counts the work of a causal kernel, 0 the full square.

    Returns:
        Keys [1].

    >>> [float(keys_per_query(8192, window, causal)) for window, causal in ((0, 0), (0, 1), (128, 1))]
    [8192.0, 4096.0, 127.0]
    """
    reach = where(window > 0, minimum(window, sequence_length), sequence_length)
    return where(causal > 0, reach - reach**2 / (2 * sequence_length), reach)


def attention_flops(shape: Shape, sequence_length: Array, causal: Array = 1.0) -> Array:
    """Work of the attention core of one average layer, forward, for one token: 2·keys·H·(d_qk + d_v).

    Linear attention takes 8·H_l·d_l² at any length: it decays its state, corrects it, adds to it and reads it.

    Args:
        shape: the model.
        sequence_length: s [1].
        causal: 1 counts half the square, which is what a flash kernel does; 0 all of it.

    Returns:
        Floating-point operations, a multiply-add counted as two [FLOP].

    Source: Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022, appendix A;
    Megatron-LM, `num_floating_point_operations`, 2026, for linear attention.

    >>> float(attention_flops(Shape(32, 4096, 32, 128, 8, 14336, 1, 128256), 8192))  # 4·(8192/2)·4096
    67108864.0
    """
    keys = (1 - shape.window_share) * keys_per_query(sequence_length, 0.0, causal)
    keys = keys + shape.window_share * keys_per_query(sequence_length, shape.window, causal)
    full = (1 - shape.linear_share) * (2 * keys * shape.heads * (shape.score_dim + shape.output_dim))
    return full + shape.linear_share * (8 * shape.linear_heads * shape.linear_dim**2)


def forward_flops(shape: Shape, sequence_length: Array, causal: Array = 1.0) -> Array:
    """Work of one token's forward pass, without the output head.

    2 per parameter of attention and of the active feed-forward blocks, and the attention core.

    Returns:
        Floating-point operations [FLOP].

    Source: Korthikanti et al., 2022, appendix A.

    >>> shape = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
    >>> round(float(forward_flops(shape, 8192)) / 1e9, 1)  # 2·32·218 M parameters + 32·67 MFLOP of attention
    16.1
    """
    experts = shape.expert_layers
    active = shape.experts_per_token * expert_parameters(shape) + shared_expert_parameters(shape)
    active = active + shape.hidden * shape.experts
    last = where(experts > 0, active, dense_ffn_parameters(shape))
    core = attention_flops(shape, sequence_length, causal)
    prediction = 2 * (attention_parameters(shape) + last + 2 * shape.hidden * shape.hidden) + core
    return (
        shape.layers * (2 * attention_parameters(shape) + core)
        + 2 * (shape.layers - experts) * dense_ffn_parameters(shape)
        + 2 * experts * active
        + shape.prediction_layers * prediction
    )


def head_flops(shape: Shape) -> Array:
    """Work of one token's forward pass through the output head, 2·h·V for each prediction [FLOP].

    >>> float(head_flops(Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)))  # 2·4096·128256
    1050673152.0
    """
    return 2 * shape.hidden * shape.vocabulary * (1 + shape.prediction_layers)


def training_flops(shape: Shape, sequence_length: Array, causal: Array = 1.0) -> Array:
    """Model FLOPs of training on one token: three times the forward pass, recomputation not counted.

    The input embedding is a look-up and counts nothing. `causal=1` is the convention of Megatron-Bridge since
    2025, `causal=0` that of PaLM and of most papers before.

    Returns:
        Floating-point operations [FLOP].

    Source: Kaplan et al., "Scaling laws for neural language models", 2020, table 1; Chowdhery et al., "PaLM", 2022,
    appendix B.

    >>> shape = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
    >>> round(float(training_flops(shape, 8192)) / 1e9, 1)  # 6·(8.03 - 0.53) G + 6·32·4096·8192
    51.5
    """
    return 3 * (forward_flops(shape, sequence_length, causal) + head_flops(shape))


# Memory --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """Parameters that one GPU holds, on the stage that holds most.

    Attributes:
        dense: parameters shared by all data-parallel ranks: attention, dense blocks, shared experts, embeddings [1].
        expert: routed-expert parameters, shared only by the ranks that hold the same experts [1].
        layer: parameters of one average layer, as sharded by tensor and expert parallelism [1].
        routed: those of them that are routed experts' [1].
    """

    dense: Array
    expert: Array
    layer: Array
    routed: Array = 0.0

    def gathered(self, stage_layers: Array) -> Array:
        """Parameters gathered at a time where they are sharded: of a layer, with its share of the embeddings [1].

        >>> Held(dense=8e9, expert=0.0, layer=218e6).gathered(32.0) / 1e6  # 8 G in 32 layers
        250.0
        """
        return self.dense / stage_layers + self.routed


def held_kv_heads(shape: Shape, tensor: Array) -> Array:
    """Key-value heads of all ranks of tensor parallelism, max(K, t): fewer than ranks are copied, one to each [1].

    Args:
        shape: the model, with K of them [1].
        tensor: t [1].

    Source: NVIDIA, Megatron-Core, ``num_query_groups``.

    >>> shape = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
    >>> [float(held_kv_heads(shape, tensor)) for tensor in (4.0, 16.0)]
    [8.0, 16.0]
    """
    return maximum(shape.kv_heads, tensor)


def held_parameters(
    shape: Shape, tensor: Array, pipeline: Array, expert: Array, expert_tensor: Array, stage_layers: Array
) -> Held:
    """Parameters that one GPU holds on the fullest pipeline stage.

    Tensor parallelism divides attention, dense blocks and embeddings by t, experts by the degrees e and t_e, and copies
    key-value heads that are fewer than its ranks; the
    pipeline leaves ⌈L/p⌉ layers and one of the two embeddings on the first stage.

    Args:
        shape: the model.
        tensor: t [1].
        pipeline: p [1].
        expert: e, ranks over which the experts are spread [1].
        expert_tensor: t_e, ranks over which each expert is cut [1].
        stage_layers: layers on the fullest stage [1].

    Returns:
        Parameters shared by all, routed, and of one layer [1].

    Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC21, section 3.

    >>> shape = Shape(32, 4096, 32, 128, 8, 14336, 1, 128256)
    >>> float(held_parameters(shape, 1, 1, 1, 1, 32).dense) / 1e9
    8.030257152
    """
    share = shape.expert_share
    block = attention_parameters(shape) + (1 - share) * dense_ffn_parameters(shape)
    block = block + share * shared_expert_parameters(shape)
    copied = (held_kv_heads(shape, tensor) - shape.kv_heads) * where(shape.latent > 0, 0.0, 1 - shape.linear_share)
    block = block + 2 * shape.hidden * shape.head_dim * copied
    routed = share * shape.experts * expert_parameters(shape) / (expert * expert_tensor)
    table = shape.vocabulary * shape.hidden / tensor
    embeddings = where(pipeline > 1, table, (2 - shape.tied) * table)
    replicated = 2 * shape.hidden + share * shape.hidden * shape.experts
    dense_layer = block / tensor + replicated
    return Held(stage_layers * dense_layer + embeddings, stage_layers * routed, dense_layer + routed, routed)


@dataclass(frozen=True)
class Kept:
    """What a stack keeps of the forward pass.

    Attributes:
        element: bytes of the inputs kept for the weight gradients: 2 in 16-bit, 1 in FP8 [B].
        unfused_attention: 1 if scores are written to memory, else 0 [1].
        dropout: 1 if dropout masks are kept, else 0 [1].
        repeated: 1 if what norms, activation functions and the widening of latent attention give is not kept, since
            it is computed again [1].
        inner: bytes of what activation functions start from: 2, or 1 where that is kept in 8 bits [B].
    """

    element: Array = 2.0
    unfused_attention: Array = 0.0
    dropout: Array = 0.0
    repeated: Array = 0.0
    inner: Array = 2.0


def layer_activations(
    shape: Shape, sequence_length: Array, tensor: Array, sequence_parallel: Array, expert_tensor: Array, kept: Kept
) -> Array:
    """Bytes one token leaves in one average layer for the backward pass, nothing recomputed.

    In units of the h, the residual stream is kept at the two norms (2 + 2 inputs, 2 + 2 outputs: 8h bytes, divided by
    t under sequence parallelism); queries, keys, values and the attention output (2·(2H + 2K)·d_h) and the inner
    activations of the feed-forward block (6f gated, 4f plain) are divided by t. Dropout masks add 2h. Unfused
    attention keeps 5·H·s more. A mixture of experts keeps its k routed copies of the input and of the inner
    activations. With plain multi-head attention this is the 34·h of the source. Where norms and activation functions
    are repeated, their outputs are not kept: the inputs of the products that follow.

    Args:
        shape: the model.
        sequence_length: s [1].
        tensor: t [1].
        sequence_parallel: 1 if norms and residuals are split over t, else 0.
        expert_tensor: ranks over which each expert is cut [1].
        kept: what the stack keeps.

    Returns:
        Bytes for one token and layer [B].

    Source: Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022, table 2.

    >>> gpt = Shape(96, 12288, 96, 128, 96, 49152, 0, 51200)
    >>> float(layer_activations(gpt, 2048, 1, 0, 1, Kept(dropout=1))) / 12288
    34.0
    >>> float(layer_activations(gpt, 2048, 8, 1, 1, Kept(dropout=1))) / 12288  # 34/8
    4.25
    """
    share, element = shape.expert_share, kept.element
    derived = element * (1 - kept.repeated)
    residual = (4 + 2 * derived + 2 * kept.dropout) * shape.hidden / where(sequence_parallel > 0, tensor, 1.0)
    inner = kept.inner * (1 + shape.gated) + derived
    dense = inner * shape.ffn_hidden / tensor
    routed = shape.experts_per_token * (element * shape.hidden / tensor + inner * shape.expert_ffn_hidden / tensor)
    shared = inner * shape.shared_width / tensor
    gathered = share * where(expert_tensor > 1, shape.hidden * element, 0.0)
    core = attention_activations(shape, tensor)
    if any_(shape.latent > 0):
        widened = core - 2 * shape.heads * shape.output_dim / tensor
        core = core - kept.repeated * where(shape.latent > 0, widened - latent_activations(shape), 0.0)
    scores = kept.unfused_attention * 5 * shape.heads * sequence_length / tensor
    return residual + core + scores + (1 - share) * dense + share * (routed + shared) + gathered


def attention_activations(shape: Shape, tensor: Array) -> Array:
    """Bytes one token leaves in one attention block: queries, keys, values and output, 2·(2H + 2K)·d_h/t.

    Latent attention keeps keys and values for each query head, and what these are made of, 2·(r_q + r_kv + d_rope),
    which is not divided. A gate is kept, 2·H·d_h/t; linear attention keeps 2·(2·K_l + 3·H_l)·d_l/t.

    Args:
        shape: the model.
        tensor: t [1].

    Returns:
        Bytes for one token and layer [B].

    Source: Korthikanti et al., 2022, section 4.1; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.

    >>> float(attention_activations(Shape(96, 12288, 96, 128, 96, 49152, 0, 51200), 8)) / 12288  # 8/8
    1.0
    """
    wide = 2 * shape.heads * (shape.score_dim + shape.output_dim) / 2
    keys = where(shape.latent > 0, wide, 2 * held_kv_heads(shape, tensor) * shape.head_dim)
    gate = shape.attention_gate * shape.heads * shape.head_dim
    full = 2 * (wide + keys + gate) / tensor + where(shape.latent > 0, latent_activations(shape), 0.0)
    linear = 2 * (2 * shape.linear_key_heads + 3 * shape.linear_heads) * shape.linear_dim / tensor
    return (1 - shape.linear_share) * full + shape.linear_share * linear


def latent_activations(shape: Shape) -> Array:
    """Bytes one token leaves of what latent attention makes its queries, keys and values of, 2·(r_q + r_kv + d_rope).

    Returns:
        Bytes for one token and layer [B].

    Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.

    >>> deepseek = Shape(61, 7168, 128, 128, 128, 18432, 1, 129280, query_rank=1536, kv_rank=512, rope_dim=64)
    >>> float(latent_activations(deepseek))  # 2·(1536 + 512 + 64)
    4224.0
    """
    return 2 * (shape.query_rank + shape.kv_rank + shape.rope_dim)


def micro_batches_in_flight(micro_batches: Array, pipeline: Array, virtual_pipeline: Array) -> Array:
    """Micro-batches whose activations the first stage holds at once, in units of a whole stage.

    1F1B keeps min(m, p) of them. Interleaving v model chunks keeps 1 + (p - 1)/(p·v) times as many.

    Args:
        micro_batches: micro-batches of a replica in one step, m [1].
        pipeline: stages, p [1].
        virtual_pipeline: model chunks on each, v [1].

    Returns:
        Micro-batches [1].

    Source: Korthikanti et al., 2022, section 4.2.3.

    >>> float(micro_batches_in_flight(16, 8, 1)), float(micro_batches_in_flight(16, 8, 2))
    (8.0, 11.5)
    """
    depth = minimum(micro_batches, pipeline)
    interleaved = depth * (1 + (pipeline - 1) / (pipeline * virtual_pipeline))
    return minimum(micro_batches, where(virtual_pipeline > 1, interleaved, depth))


def micro_batches_beside_head(micro_batches: Array, pipeline: Array, virtual_pipeline: Array) -> Array:
    """Micro-batches whose activations the last stage holds as it computes logits, in units of a whole stage.

    1F1B has one. Interleaving v model chunks, p of each but the last and one of that: (p·(v - 1) + 1)/v.

    Args:
        micro_batches: micro-batches of a replica in one step, m [1].
        pipeline: stages, p [1].
        virtual_pipeline: model chunks on each, v [1].

    Returns:
        Micro-batches [1].

    Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC21, section 2.2;
    NVIDIA, Megatron-Core, ``forward_backward_pipelining_with_interleaving``.

    >>> float(micro_batches_beside_head(16, 8, 1)), float(micro_batches_beside_head(16, 8, 2))
    (1.0, 4.5)
    """
    chunks = minimum(micro_batches, pipeline) * (virtual_pipeline - 1) + 1
    return chunks / virtual_pipeline
