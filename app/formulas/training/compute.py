"""One layer on one GPU: matrix products, attention, elementwise work, and the traffic between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.traffic import collective, smooth_maximum
from app.formulas.transformer import Shape

# One layer -----------------------------------------------------------------------------------------------------------


Product = tuple[Array, Array, Array, Array]
"""How often a matrix product is made, and its rows, columns and depth: a, M, N, K [1]."""


def matrix_products(products: Iterable[Product], rate: Array, depth_half: Array, wave_elements: Array) -> Array:
    """Time of matrix products at one rate, each (rows × depth) · (depth × columns) and made so many times.

    Σ a·2·M·N·K/R · (1 + W/(M·N)) · (1 + K₀/K): the rate of a large product, the last wave of tiles that does not fill
    the chip, and the start and end of each tile's loop over the depth. Multiplied out, since W and K₀ are the same for
    all of them.

    Args:
        products: a, M, N, K of each [1].
        rate: rate of a large product, R [FLOP/s].
        depth_half: K₀ [1].
        wave_elements: output elements lost in the last wave, W [1].

    Returns:
        Time [s].

    >>> float(matrix_products([(1, 1000, 1000, 1000)], 1e12, depth_half=0, wave_elements=0))
    0.002
    >>> float(matrix_products([(1, 1000, 1000, 1000)], 1e12, depth_half=500, wave_elements=1e6))
    0.006
    """
    plain: Array = 0.0
    wave: Array = 0.0
    ends: Array = 0.0
    both: Array = 0.0
    for times, rows, columns, depth in products:
        area = rows * columns
        work = 2 * times * area * depth
        per_area, loops = work / maximum(area, 1), 1 / maximum(depth, 1)
        plain, wave = plain + work, wave + per_area
        ends, both = ends + work * loops, both + per_area * loops
    return (plain + wave * wave_elements + (ends + both * wave_elements) * depth_half) / rate


def linear_layer(
    tokens: Array, outputs: Array, inputs: Array, times: Array = 1.0, forward: Array = 1.0
) -> list[Product]:
    """The matrix products of y = x·W: one forward, two (for x and for W) backward.

    Args:
        tokens, outputs, inputs: what x, y and W are wide and long [1].
        times: such layers [1].
        forward: how often each forward product is made [1].
    """
    return [
        (times * forward, tokens, outputs, inputs),
        (times, tokens, inputs, outputs),
        (times, outputs, inputs, tokens),
    ]


@dataclass(frozen=True)
class Layer:
    """Time of one average layer for one micro-batch, forward, backward and recomputation together [s].

    Attributes:
        products: linear layers.
        attention: the attention core.
        elementwise: reading and writing memory between them.
        tensor, context, expert: communication left visible.
        host: what remains visible of launching the kernels.
        gpu: time the GPU computes; communication of FSDP can hide under it.
        total: the sum.
    """

    products: Array
    attention: Array
    elementwise: Array
    tensor: Array
    context: Array
    expert: Array
    host: Array
    gpu: Array
    total: Array


def layer(shape: Shape, job: Job, hw: GpuRates, par: Parallelism, sw: Software, cal: Calibration) -> Layer:
    """Time of one average layer for one micro-batch.

    *Linear layers* are matrix products forward and twice that backward. *The attention core* is the flash kernel over
    the causal half (2.5 times forward in the backward pass), or two batched products and the traffic of the scores
    where the stack has no such kernel. *Elementwise* work moves
    T·[20h/(t if sequence-parallel) + 4(H + K)·d_h/t + (6 gated, 4 plain)·f/t] bytes forward and twice that backward.
    *Tensor parallelism* all-reduces 2·T·h bytes twice forward and twice backward. *Context parallelism* passes keys
    and values round a ring. *Experts* exchange each token's k copies by all-to-all, two forward and two backward.
    *The host* must launch every kernel; it shows where the kernels are short.

    Sources: Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC21, section 3;
    Korthikanti et al., 2022, section 4; Dao, "FlashAttention-2", 2023, section 3.1 (the 2.5).
    """
    t, s, h = par.tensor, job.sequence_length, shape.hidden
    tokens = par.micro_batch * s / par.context
    norms = tokens / where(par.sequence_parallel > 0, t, 1.0)
    low = job.linear_bytes < 2
    rate = hw.linear_peak * (hw.clock * cal.linear)
    waves = cal.wave * hw.multiprocessors * cal.tile**2
    memory = hw.memory_bandwidth * cal.memory
    share = shape.expert_layers / shape.layers
    has_experts, has_latent = any_(share > 0), any_(shape.latent > 0)
    recorded = 1 - sw.graphs * (1 - cal.graph_host)

    # Recomputation: the whole forward pass of a share of the layers, or only its cheap part.
    full_recompute = par.recompute
    selective_recompute = par.recompute_core * (1 - full_recompute)
    repeated = 1 + full_recompute + selective_recompute * sw.selective_linear

    # Linear layers of attention and of the dense feed-forward block.
    qkv = (shape.heads + 2 * shape.kv_heads) * shape.head_dim / t
    if has_latent:
        qkv = where(shape.latent > 0, shape.query_rank + shape.kv_rank + shape.rope_dim, qkv)
    out = shape.heads * shape.output_dim / t
    linear = linear_layer(tokens, qkv, h, 1.0, repeated) + linear_layer(tokens, h, out, 1.0, repeated)
    inputs = norms * h + tokens * out
    if has_latent:
        up_query, up_keys = shape.heads * shape.score_dim / t, shape.heads * (shape.head_dim + shape.value_dim) / t
        linear += linear_layer(tokens, where(shape.latent > 0, up_query, 0.0), shape.query_rank, 1.0, repeated)
        linear += linear_layer(tokens, where(shape.latent > 0, up_keys, 0.0), shape.kv_rank, 1.0, repeated)
    linear += linear_layer(tokens, (1 + shape.gated) * shape.ffn_hidden / t, h, 1 - share, repeated)
    linear += linear_layer(tokens, h, shape.ffn_hidden / t, 1 - share, repeated)

    # Elementwise traffic, and the conversion of inputs to FP8 or FP4.
    inner = 4 + 2 * shape.gated
    traffic = 20 * h * norms + tokens * 2 * (shape.heads * (shape.score_dim + shape.output_dim)) / t
    traffic = traffic + tokens * 4 * shape.kv_heads * shape.head_dim / t
    traffic = traffic + (1 - share) * inner * tokens * shape.ffn_hidden / t
    inputs = inputs + (1 - share) * (norms * h + tokens * shape.ffn_hidden / t)

    grouped: Array = 0.0
    all_to_all: Array = 0.0
    if has_experts:
        # Each rank of a tensor-parallel group routes its own share of the tokens.
        width = shape.expert_ffn_hidden / par.expert_tensor
        routed = tokens / t * shape.experts_per_token * par.expert_tensor
        groups = maximum(shape.experts, 1) / par.expert
        grouped_rate = rate * (cal.grouped * where(low, cal.grouped_low, 1.0))
        into = linear_layer(routed / groups, (1 + shape.gated) * width, h, share * groups, repeated)
        outof = linear_layer(routed / groups, h, width, share * groups, repeated)
        grouped = matrix_products(into + outof, grouped_rate, cal.depth_half, waves)
        grouped = grouped + share * groups * (cal.expert_launch * recorded) * (repeated + 2) / 3
        shared_width = shape.shared_width / t
        linear += linear_layer(tokens, (1 + shape.gated) * shared_width, h, share, repeated)
        linear += linear_layer(tokens, h, shared_width, share, repeated)
        traffic = traffic + share * (
            cal.permute / cal.elementwise * 16 * routed * h + inner * (routed * width + tokens * shared_width)
        )
        inputs = inputs + share * (routed * (h + width) + tokens * shared_width)

        # All-to-all: inside the scale-up domain, and to the other domains that a token's experts live on.
        ranks = par.expert * par.expert_tensor
        local = minimum(ranks, hw.scale_up_domain)
        domains = maximum(ranks / local, 1)
        remote = domains * (1 - (1 - 1 / domains) ** shape.experts_per_token) * (domains - 1) / domains
        sent = 2 * tokens / t * h
        inside = cal.expert_scale_up * sent * shape.experts_per_token * (par.expert - 1) / par.expert
        inside = inside + sent * shape.experts_per_token * (par.expert_tensor - 1)
        across = cal.expert_scale_out * sent * remote
        all_to_all = maximum(
            inside / (hw.scale_up_rate(local) * cal.scale_up), across / (hw.scale_out_bandwidth * cal.scale_out)
        ) + where(domains > 1, cal.scale_out_latency, cal.scale_up_latency)
        exposed = 1 - sw.overlap_expert * (1 - cal.exposed_expert)
        all_to_all = share * exposed * where(ranks > 1, all_to_all, 0.0)

    bytes_forward = cal.elementwise * np.power(cal.unfused, 1 - sw.fused) * traffic
    bytes_forward = bytes_forward + where(low, cal.quantize * 4 * inputs, 0.0)
    elementwise = (
        bytes_forward * (3 + full_recompute + where(sw.selective_linear > 0, selective_recompute, 0.0)) / memory
    )

    # The attention core. Backward the flash kernel does more of the same, batched products twice as many.
    work = tokens * transformer.attention_flops(shape, s, job.causal) / t
    narrow = where(shape.head_dim < cal.narrow_head, cal.small_head, 1.0)
    flash_rate = hw.matrix_peak * (hw.clock * cal.attention * (narrow * s / (s + cal.attention_half)))
    forward = 1 + full_recompute + selective_recompute * (1 - sw.flash)
    attention = sw.flash * work * (forward + cal.attention_backward) / flash_rate
    if any_(sw.flash < 1):
        square = tokens * transformer.attention_flops(shape, s, 0.0) / t
        square_time = square / (hw.matrix_peak * (hw.clock * cal.unfused_attention))
        softmax = cal.softmax_traffic * (tokens * s * shape.heads / t) / memory
        attention = attention + (1 - sw.flash) * (square_time * (forward + 2) + softmax * (11 * forward + 14))

    # Communication that stays visible.
    tensor: Array = 0.0
    if any_(t > 1):
        local = minimum(t, hw.scale_up_domain)
        reduce = 2 * collective(
            2 * tokens * h,
            t,
            local,
            hw.scale_up_rate(local) * cal.scale_up,
            hw.scale_out_bandwidth * cal.scale_out,
            where(t > hw.scale_up_domain, cal.scale_out_latency, cal.scale_up_latency),
        )
        # Backward, the input's gradient can be summed under the product for the weights.
        hidden = 1 - cal.exposed_tensor
        exposed_forward = (1 - sw.overlap_tensor * hidden) * (1 + full_recompute)
        exposed_backward = 1 - maximum(sw.overlap_tensor, sw.async_tensor) * hidden
        tensor = reduce * ((2 - share) * (exposed_forward + exposed_backward))
    context: Array = 0.0
    if any_(par.context > 1):
        ring_bandwidth = where(
            t * par.context > hw.scale_up_domain,
            hw.scale_out_bandwidth * cal.scale_out,
            hw.scale_up_rate(t * par.context) * cal.scale_up,
        )
        kv_width = where(
            shape.latent > 0, shape.heads * (shape.score_dim + shape.output_dim) / 2, shape.kv_heads * shape.head_dim
        )
        passed = (par.context - 1) * 4 * tokens * kv_width / t
        context = cal.exposed_context * (passed * (3 + full_recompute)) / ring_bandwidth

    products = matrix_products(linear, rate, cal.depth_half, waves)
    if has_experts:
        products = products + grouped
    expert = all_to_all * (4 + 2 * full_recompute)
    computing = products + attention + elementwise
    total = computing + (context + expert + tensor)

    # The host launches kernels ahead of the GPU; it shows where they are shorter than their launches.
    recorded = recorded * (1 + full_recompute / 3)
    launches = cal.host_layer * ((1 - share) * recorded)
    if has_experts:
        launches = launches + cal.host_expert * (share * recorded)
    bounded = smooth_maximum(total, launches)
    return Layer(products, attention, elementwise, tensor, context, expert, bounded - total, computing, bounded)


# Utilisation ---------------------------------------------------------------------------------------------------------


def repeated_work(shape: Shape, job: Job, par: Parallelism, sw: Software) -> Array:
    """Work that recomputation repeats for one token: forward passes of layers, or their cheap part [FLOP]."""
    if not any_(par.recompute + par.recompute_core > 0):
        return 0.0
    forward = transformer.forward_flops(shape, job.sequence_length, job.causal)
    core = shape.layers * transformer.attention_flops(shape, job.sequence_length, job.causal)
    cheap = par.recompute_core * (1 - par.recompute)
    return par.recompute * forward + cheap * (sw.selective_linear * (forward - core) + (1 - sw.flash) * core)
