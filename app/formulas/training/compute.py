"""The work of one layer on one GPU: matrix products, attention, elementwise operators; and of the end of a step.

What one GPU sends to others is the matter of `traffic`; `step` adds both up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array, any_, maximum, where
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.transformer import Held, Shape

# Matrix products -----------------------------------------------------------------------------------------------------

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

    Source: NVIDIA, "Matrix multiplication background user's guide", DU-09799-001, 2023 (wave quantization); the loss
    at small depths is Railyard's, fitted to step times.

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


def wave_elements(gpu: GpuRates, calibration: Calibration) -> Array:
    """Output elements lost in the last wave of tiles, W = w · SMs · tile² [1].

    Source: NVIDIA, "Matrix multiplication background user's guide", DU-09799-001, 2023 (wave quantization).

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import GPU, LOSSLESS
    >>> float(wave_elements(GPU, replace(LOSSLESS, wave=0.5, tile=100)))  # half of 100 · 100²
    500000.0
    """
    return calibration.wave * gpu.multiprocessors * calibration.tile**2


def linear_layer(
    tokens: Array, outputs: Array, inputs: Array, times: Array = 1.0, forward: Array = 1.0
) -> list[Product]:
    """The matrix products of y = x·W: one forward, two (for x and for W) backward.

    Args:
        tokens, outputs, inputs: what x, y and W are wide and long [1].
        times: such layers [1].
        forward: how often each forward product is made [1].

    Returns:
        The three products, as `matrix_products` takes them [1].

    Source: Narayanan et al., SC21, appendix (3 times the forward work).

    >>> linear_layer(tokens=1000, outputs=30, inputs=20)
    [(1.0, 1000, 30, 20), (1.0, 1000, 20, 30), (1.0, 30, 20, 1000)]
    """
    return [
        (times * forward, tokens, outputs, inputs),
        (times, tokens, inputs, outputs),
        (times, outputs, inputs, tokens),
    ]


Linear = tuple[Array, Array, Array, Array]
"""What y = x·W is wide, what x is, how many such layers there are, and how often each forward product is made [1]."""


def linear_layers_time(
    tokens: Array, layers: Iterable[Linear], rate: Array, depth_half: Array, wave_elements: Array
) -> Array:
    """Time of the matrix products of linear layers of the same tokens, at one rate.

    What `matrix_products` gives for each `linear_layer`, added up before it is multiplied out: of T tokens, a layers
    from I to O wide and f forward products, (f + 2)·2a·T·O·I of work; over the areas of the products 2a·(f·I + O + T),
    over their depths 2a·(f·T·O + T·I + O·I), over both 2a·(f + 2).

    Args:
        tokens: T [1].
        layers: O, I, a and f of each; one that is not wide costs nothing [1].
        rate: rate of a large product, R [FLOP/s].
        depth_half: K₀ [1].
        wave_elements: output elements lost in the last wave, W [1].

    Returns:
        Time, forward and backward [s].

    Source: as for :func:`matrix_products`.

    >>> two = [(4000.0, 1000.0, 1.0, 1.0), (1000.0, 4000.0, 0.5, 2.0)]
    >>> each = [product for layer in two for product in linear_layer(1000.0, *layer)]
    >>> linear_layers_time(1000.0, two, 1e12, 500, 1e6), matrix_products(each, 1e12, 500, 1e6)
    (0.081, 0.081)
    """
    plain: Array = 0.0
    wave: Array = 0.0
    ends: Array = 0.0
    both: Array = 0.0
    for outputs, inputs, times, forward in layers:
        size = outputs * inputs
        many = where(size > 0, times, 0.0)
        plain, both = plain + (forward + 2) * many * size, both + (forward + 2) * many
        wave = wave + many * (forward * inputs + outputs + tokens)
        ends = ends + many * ((forward * outputs + inputs) * tokens + size)
    work = plain * tokens + wave * wave_elements + (ends + both * wave_elements) * depth_half
    return 2 * work / rate


def forward_products(parallelism: Parallelism, software: Software) -> Array:
    """How often each forward product of a layer is made, 1 + ρ + κ·(1 - ρ)·σ [1].

    Once; again in the share ρ of the layers that are recomputed whole; and the share σ of the linear work where the
    cheap part alone is recomputed (κ).

    Source: Korthikanti et al., "Reducing activation recomputation in large transformer models", 2022, section 5.

    >>> forward_products(Parallelism(recompute=0.25), Software())
    1.25
    """
    return 1 + parallelism.recompute + parallelism.selective_recompute * software.selective_linear


def linear_layers(shape: Shape, parallelism: Parallelism, software: Software) -> list[Linear]:
    """The linear layers of one average layer, those of routed experts apart.

    Queries, keys and values (H + 2K)·d_h/t wide, H·d_h/t more with a gate, the output projection, and the feed-forward
    block f/t wide in the dense layers; in layers of experts, the shared experts. Latent attention has two narrow
    projections, r_q + r_kv + d_rope wide and not divided, and two that widen again, which some stacks repeat; where
    r_q = 0 the queries come straight from h. Linear attention is 2·(K_l + H_l)·d_l/t wide before its core and H_l·d_l/t
    behind it.

    Returns:
        O, I, a and f of each, as `linear_layers_time` takes them [1].

    Source: Narayanan et al., SC21, section 3.2; DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.

    >>> from app.formulas.training.examples import MODEL
    >>> layers = linear_layers(MODEL, Parallelism(), Software())
    >>> round(float(sum(times * outputs * inputs for outputs, inputs, times, _ in layers)) / 1e6)  # parameters
    12
    """
    t, hidden, share = parallelism.tensor, shape.hidden, shape.expert_share
    forward = forward_products(parallelism, software)
    widened = forward + parallelism.selective_recompute * software.selective_modules
    has_latent = any_(shape.latent > 0)

    full = 1 - shape.linear_share
    kv_heads = transformer.held_kv_heads(shape, t)
    qkv = ((1 + shape.attention_gate) * shape.heads + 2 * kv_heads) * shape.head_dim / t
    if has_latent:
        queries = where(shape.query_rank > 0, shape.query_rank, shape.heads * shape.score_dim / t)
        qkv = where(shape.latent > 0, queries + shape.kv_rank + shape.rope_dim, qkv)
    output = shape.heads * shape.output_dim / t
    layers: list[Linear] = [(qkv, hidden, full, forward), (hidden, output, full, forward)]
    if has_latent:
        up_query, up_keys = shape.heads * shape.score_dim / t, shape.heads * (shape.head_dim + shape.value_dim) / t
        layers.append((where(shape.latent > 0, up_query, 0.0), shape.query_rank, full, widened))
        layers.append((where(shape.latent > 0, up_keys, 0.0), shape.kv_rank, full, widened))
    if any_(shape.linear_share > 0):
        keys, values = shape.linear_key_heads * shape.linear_dim / t, shape.linear_heads * shape.linear_dim / t
        layers.append((2 * (keys + values), hidden, shape.linear_share, forward))
        layers.append((hidden, values, shape.linear_share, forward))
    layers.append(((1 + shape.gated) * shape.ffn_hidden / t, hidden, 1 - share, forward))
    layers.append((hidden, shape.ffn_hidden / t, 1 - share, forward))
    if any_(share > 0):
        shared_width = shape.shared_width / t
        layers.append(((1 + shape.gated) * shared_width, hidden, share, forward))
        layers.append((hidden, shared_width, share, forward))
    return layers


@dataclass(frozen=True)
class RoutedExperts:
    """What one GPU has of a layer's routed experts.

    Attributes:
        experts: experts on this GPU, E/e [1].
        tokens: copies of tokens that come to them, k·T·t_e/t [1].
        width: width of its part of each expert, f_e/t_e [1].
    """

    experts: Array
    tokens: Array
    width: Array


def routed_experts(shape: Shape, job: Job, parallelism: Parallelism) -> RoutedExperts:
    """What one GPU has of a layer's routed experts: E/e of them, each f_e/t_e wide, and k·T·t_e/t copies of tokens.

    Each rank of a tensor-parallel group routes its own share of the tokens, and every part of an expert needs all of
    that expert's. The busiest rank counts, to which natural routing sends more than to the average.

    Returns:
        Experts, copies of tokens, width [1].

    Source: Lepikhin et al., "GShard", 2020, section 2.2.

    >>> from app.formulas.training.examples import EXPERTS, JOB
    >>> vars(routed_experts(EXPERTS, JOB, Parallelism(expert=4.0)))  # two of eight, and two copies of 1,000 tokens
    {'experts': 2.0, 'tokens': 2000.0, 'width': 4000.0}
    """
    busiest = where(parallelism.expert > 1, job.imbalance, 1.0)
    copies = parallelism.tokens(job) / parallelism.tensor * shape.experts_per_token
    return RoutedExperts(
        experts=maximum(shape.experts, 1) / parallelism.expert,
        tokens=copies * parallelism.expert_tensor * busiest,
        width=shape.expert_ffn_hidden / parallelism.expert_tensor,
    )


def products_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Time of all matrix products of one average layer and micro-batch: linear layers, and experts as grouped products.

    T = products(linear)/R + share·products(grouped)/(R·η_grouped), R the calibrated share of the peak at the GPU's
    clock; each expert on the GPU adds the launch of its own kernels.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Narayanan et al., SC21, section 3; the efficiencies are fitted to step times.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> round(1e6 * float(products_time(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS)))  # 72 GFLOP at 1 PFLOP/s
    72
    """
    rate = gpu.linear_peak * (gpu.clock * calibration.linear)
    waves = wave_elements(gpu, calibration)
    linear, tokens = linear_layers(shape, parallelism, software), parallelism.tokens(job)
    products = linear_layers_time(tokens, linear, rate, calibration.depth_half, waves)
    share = shape.expert_share
    if not any_(share > 0):
        return products

    routed = routed_experts(shape, job, parallelism)
    copies, experts = routed.tokens / routed.experts, share * routed.experts
    forward = forward_products(parallelism, software)
    grouped_rate = rate * (calibration.grouped * where(job.linear_bytes < 2, calibration.grouped_low, 1.0))
    into = (1 + shape.gated) * routed.width, shape.hidden, experts, forward
    out_of = shape.hidden, routed.width, experts, forward
    grouped = linear_layers_time(copies, [into, out_of], grouped_rate, calibration.depth_half, waves)
    launches = experts * (calibration.expert_launch * launch_share(software, calibration)) * (forward + 2) / 3
    return products + (grouped + launches)


# Attention -----------------------------------------------------------------------------------------------------------


def attention_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Time of the attention core of one layer and micro-batch.

    The flash kernel does the causal half, F_core/R forward and 2.5 times that backward, at R = peak·η·s/(s + s₀), less
    for small heads. Of context-parallel ranks with one piece of the sequence each, all wait for the last one, whose
    piece meets 2 - 1/c of the mean of keys. Without such a kernel, two batched products forward and four backward over
    the whole square, and the traffic of the scores: 11 bytes for each forward and 14 for each backward, scaled as
    calibrated.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Dao, "FlashAttention-2", 2023, section 3.1 (the 2.5); Korthikanti et al., 2022, section 4 (the scores).

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = attention_time(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 1,000 tokens · 4 · 500 keys · 1,000 = 2 GFLOP forward, 5 backward
    7.0
    """
    t, tokens = parallelism.tensor, parallelism.tokens(job)
    work = tokens * transformer.attention_flops(shape, job.sequence_length, job.causal) / t
    if any_(parallelism.causal_balance < 1):
        work = work * where(parallelism.causal_balance < job.causal, 2 - 1 / parallelism.context, 1.0)
    narrow = where(shape.head_dim < calibration.narrow_head, calibration.small_head, 1.0)
    length = narrow * job.sequence_length / (job.sequence_length + calibration.attention_half)
    rate = gpu.matrix_peak * (gpu.clock * calibration.attention * length)
    forward = 1 + parallelism.recompute + parallelism.selective_recompute * (1 - software.flash)
    attention = software.flash * work * (forward + calibration.attention_backward) / rate
    if any_(software.flash < 1):
        square = tokens * transformer.attention_flops(shape, job.sequence_length, 0.0) / t
        square_time = square / (gpu.matrix_peak * (gpu.clock * calibration.unfused_attention))
        scores = tokens * job.sequence_length * shape.heads / t
        softmax = calibration.softmax_traffic * scores / (gpu.memory_bandwidth * calibration.memory)
        attention = attention + (1 - software.flash) * (square_time * (forward + 2) + softmax * (11 * forward + 14))
    return attention


# Elementwise work ----------------------------------------------------------------------------------------------------


def normed_tokens(job: Job, parallelism: Parallelism) -> Array:
    """Tokens of a micro-batch whose norms and residuals one rank works on: T, or T/t under sequence parallelism [1].

    Source: Korthikanti et al., 2022, section 4.2.2.

    >>> from app.formulas.training.examples import JOB
    >>> normed_tokens(JOB, Parallelism(tensor=8.0)), normed_tokens(JOB, Parallelism(tensor=8.0, sequence_parallel=1.0))
    (1000.0, 125.0)
    """
    return parallelism.tokens(job) / where(parallelism.sequence_parallel > 0, parallelism.tensor, 1.0)


def elementwise_bytes(shape: Shape, job: Job, parallelism: Parallelism, permute: Array, fused: Array = 1.0) -> Array:
    """Bytes that the elementwise operators of one layer read and write forward.

    T·[20·h/(t if sequence-parallel) + 4·(H + K)·d_h/t + (6 gated, 4 plain)·f/t]. In layers of experts the last is
    that of the experts, and 16·h bytes for each copy of a token that is routed.

    Args:
        shape, job, parallelism: the model, what a step computes, how it is spread.
        permute: scale of the bytes of routing [1].
        fused: share of the routed experts' bytes that is left [1].

    Returns:
        Bytes [B].

    Source: Korthikanti et al., 2022, section 4.1, which operators there are; the 20 counts both norms and residuals.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> float(elementwise_bytes(MODEL, JOB, Parallelism(), permute=1))  # 1,000 · (20,000 + 4 · 2,000 + 4 · 4,000)
    44000000.0
    """
    t, share = parallelism.tensor, shape.expert_share
    tokens, inner = parallelism.tokens(job), 4 + 2 * shape.gated
    traffic = 20 * shape.hidden * normed_tokens(job, parallelism)
    traffic = traffic + tokens * 2 * (shape.heads * (shape.score_dim + shape.output_dim)) / t
    traffic = traffic + tokens * 4 * transformer.held_kv_heads(shape, t) * shape.head_dim / t
    traffic = traffic + (1 - share) * inner * tokens * shape.ffn_hidden / t
    if any_(share > 0):
        routed = routed_experts(shape, job, parallelism)
        routed_traffic = permute * 16 * routed.tokens * shape.hidden + inner * routed.tokens * routed.width
        traffic = traffic + share * (fused * routed_traffic + inner * tokens * (shape.shared_width / t))
    return traffic


def converted_inputs(shape: Shape, job: Job, parallelism: Parallelism, fused: Array = 1.0) -> Array:
    """Inputs of the linear layers of one layer, which an FP8 or FP4 stack converts from 16 bits.

    T·[h/(t if sequence-parallel) + H·d_v/t] for attention, the same with f for the feed-forward block; of experts,
    each copy of a token.

    Args:
        shape, job, parallelism: the model, what a step computes, how it is spread.
        fused: share of the routed experts' conversion that is left [1].

    Returns:
        Elements [1].

    Source: Micikevicius et al., "FP8 formats for deep learning", 2022.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> float(converted_inputs(MODEL, JOB, Parallelism()))  # 1,000 · (1,000 + 1,000 + 1,000 + 4,000)
    7000000.0
    """
    t, share = parallelism.tensor, shape.expert_share
    tokens, norms = parallelism.tokens(job), normed_tokens(job, parallelism)
    inputs = norms * shape.hidden + tokens * (shape.heads * shape.output_dim / t)
    inputs = inputs + (1 - share) * (norms * shape.hidden + tokens * shape.ffn_hidden / t)
    if any_(share > 0):
        routed = routed_experts(shape, job, parallelism)
        shared = tokens * (shape.shared_width / t)
        inputs = inputs + share * (fused * routed.tokens * (shape.hidden + routed.width) + shared)
    return inputs


def elementwise_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Time of reading and writing memory between the products of one layer and micro-batch.

    T = bytes·u^(1 - fused)·(3 + ρ + κ)/B_memory: as many bytes backward as twice forward, u times as many where the
    stack does not fuse operators, and 4 bytes for each input that is converted to FP8 or FP4. Of a stack that repeats
    norms and activation functions alone, κ is half.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Korthikanti et al., 2022, section 4.1; the scales are fitted to step times.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = elementwise_time(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 3 · 44 MB at 1 TB/s
    132.0
    """
    permute = calibration.permute / calibration.elementwise
    fused = 1 - software.fused_experts * (1 - calibration.fused_experts)
    traffic = elementwise_bytes(shape, job, parallelism, permute, fused)
    forward = calibration.elementwise * np.power(calibration.unfused, 1 - software.fused) * traffic
    low = job.linear_bytes < 2
    if any_(low):
        converted = calibration.quantize * 4 * converted_inputs(shape, job, parallelism, fused)
        forward = forward + where(low, converted, 0.0)
    repeated = where(software.selective_linear > 0, 1.0, software.selective_modules / 2)
    selective = repeated * parallelism.selective_recompute
    passes = 3 + parallelism.recompute + selective
    return forward * passes / (gpu.memory_bandwidth * calibration.memory)


# Launching kernels ---------------------------------------------------------------------------------------------------


def launch_share(software: Software, calibration: Calibration) -> Array:
    """Share of the launches that the host still makes, 1 - g·(1 - g₀): a recorded graph leaves g₀ of them [1].

    Source: NVIDIA, "CUDA C++ programming guide", 2024 (CUDA graphs); g₀ is fitted to step times.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import LOSSLESS
    >>> launch_share(Software(graphs=1.0), replace(LOSSLESS, graph_host=0.25))
    0.25
    """
    return 1 - software.graphs * (1 - calibration.graph_host)


def launch_time(shape: Shape, parallelism: Parallelism, software: Software, calibration: Calibration) -> Array:
    """Time that the host needs to launch one layer for one micro-batch, which shows where its kernels are shorter.

    T = ((1 - share)·τ_dense + share·τ_experts)·launch share·(1 + ρ/3): a third more for a layer that is recomputed.
    Mixtures of experts take longer in runs that nobody tuned: kernels apart for each expert, and waits for counts.

    Returns:
        Time [s].

    Source: Railyard, fitted to step times of small models.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import LOSSLESS, MODEL
    >>> round(1e3 * float(launch_time(MODEL, Parallelism(), Software(), replace(LOSSLESS, host_layer=1e-3))), 6)
    1.0
    """
    share = shape.expert_share
    recorded = launch_share(software, calibration) * (1 + parallelism.recompute / 3)
    launches = calibration.host_layer * ((1 - share) * recorded)
    if any_(share > 0):
        host = where(software.untuned > 0, calibration.host_untuned, calibration.host_expert)
        launches = launches + host * (share * recorded)
    return launches


# Gradients and parameters --------------------------------------------------------------------------------------------


def accumulation_time(
    held: Held, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Time of adding one layer's gradients to those of the micro-batches before.

    P_layer·(2 + 2·g)/B_memory, g the bytes of a gradient: the new one is read, the sum read and written. None where
    the matrix product adds them up itself, for a single micro-batch, and under FSDP without a pipeline, which reduces
    the gradients of each at once.

    Args:
        held: parameters on this GPU [1].
        job, gpu, parallelism, software, calibration: the arguments of a step.

    Returns:
        Time for one layer and micro-batch [s].

    Source: NVIDIA, Megatron-LM, ``gradient_accumulation_fusion``.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS
    >>> apart = Software(fused_accumulation=0.0)
    >>> 1e6 * accumulation_time(Held(0.0, 0.0, 12e6), JOB, GPU, Parallelism(), apart, LOSSLESS)  # 120 MB at 1 TB/s
    120.0
    """
    if not any_(software.fused_accumulation < 1):
        return 0.0
    several = (parallelism.micro_batches(job) > 1) & ((parallelism.pipeline > 1) | (parallelism.sharding <= 2))
    moved = (1 - software.fused_accumulation) * (2 + 2 * job.gradient_bytes) * held.layer
    return where(several, moved, 0.0) / (gpu.memory_bandwidth * calibration.memory)


def optimizer_time(held: Held, job: Job, gpu: GpuRates, parallelism: Parallelism, calibration: Calibration) -> Array:
    """Time of updating the parameters at the end of a step, P·o/B_memory + a constant.

    Offloaded, gradients go to the host and weights come back, P·(g + 2)/B_host, and the host moves 28 bytes of each in
    its own memory (a gradient and 6 times 4 bytes of state), P·28/B_host memory.

    P are the parameters that this GPU updates, after sharding, and o the bytes each needs: a gradient read, a 32-bit
    master copy and two Adam moments read and written, 16-bit weights written; more where 16-bit gradients are scaled,
    less where moments have 16 bits.

    Args:
        held: parameters on this GPU [1].
        job, gpu, parallelism, calibration: the arguments of a step.

    Returns:
        Time [s].

    Source: Rajbhandari et al., "ZeRO", 2020, section 3.1 (what Adam keeps); the bytes are catalogue constants.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS
    >>> float(optimizer_time(Held(1e9, 0.0, 0.0), JOB, GPU, Parallelism(), LOSSLESS))  # 50 GB at 1 TB/s
    0.05
    >>> from dataclasses import replace
    >>> host = replace(GPU, host_rate=50e9, host_memory=40e9)
    >>> job = replace(JOB, offload_optimizer=1.0)
    >>> float(optimizer_time(Held(1e9, 0.0, 0.0), job, host, Parallelism(), LOSSLESS))  # 6 GB at 50, 28 GB at 40 GB/s
    0.82
    """
    sharded, sharers = parallelism.sharding > 0, parallelism.sharers
    alone = 1 / parallelism.stages_held
    updated = held.dense / where(sharded, sharers, alone)
    if any_(held.expert > 0):
        updated = updated + held.expert / where(sharded, parallelism.expert_sharers, alone)
    lighter = 4 * (4 - job.moment_bytes)
    traffic = calibration.optimizer_traffic + job.scaled * calibration.scaling_traffic - lighter
    each = traffic / gpu.memory_bandwidth
    if any_(job.offload_optimizer > 0):
        host_time = (job.gradient_bytes + 2) / gpu.host_rate + (28 - lighter) / gpu.host_memory
        each = where(job.offload_optimizer > 0, host_time, each)
    return each * updated + calibration.optimizer_overhead


# Utilisation ---------------------------------------------------------------------------------------------------------


def repeated_work(shape: Shape, job: Job, parallelism: Parallelism, software: Software) -> Array:
    """Work that recomputation repeats for one token: forward passes of layers, or their cheap part.

    ρ·F + κ·(1 - ρ)·(σ·(F - F_core) + (1 - flash)·F_core): a flash kernel repeats its core anyway.

    Returns:
        Work [FLOP].

    Source: Korthikanti et al., 2022, section 5.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> float(repeated_work(MODEL, JOB, Parallelism(recompute=1.0), Software())) / 1e6  # ten layers of 2 · 12 + 2 MFLOP
    260.0
    """
    selective = parallelism.selective_recompute
    if not any_(parallelism.recompute + parallelism.recompute_core > 0):
        return 0.0
    forward = transformer.forward_flops(shape, job.sequence_length, job.causal)
    core = shape.layers * transformer.attention_flops(shape, job.sequence_length, job.causal)
    cheap = software.selective_linear * (forward - core) + (1 - software.flash) * core
    return parallelism.recompute * forward + selective * cheap
