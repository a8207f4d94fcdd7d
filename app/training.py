"""How long one training step takes, part by part, and how much memory it needs.

The model is a sum of a few physical terms per layer and micro-batch: matrix products at an efficiency that depends on
their shape, the attention core, reading and writing memory for everything elementwise, and whatever communication is
not hidden behind them. A pipeline repeats the slowest stage, data parallelism and the optimizer close the step.

All functions take numbers or arrays and broadcast them: configurations on the first axes, draws on the last.
Constants arrive in a `Calibration`; nothing here knows where they come from.

Symbols: b micro-batch, s sequence length, T = b·s/c tokens of a micro-batch on one rank, m micro-batches per replica,
t, p, v, c, d, e the tensor, pipeline, virtual-pipeline, context, data and expert parallel degrees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app import transformer
from app.arrays import Array, larger, smaller, some, where
from app.transformer import Shape


@dataclass(frozen=True)
class Hardware:
    """What the step needs to know of the machine, per GPU.

    Attributes:
        matrix_peak: dense 16-bit matrix rate of the datasheet [FLOP/s].
        linear_peak: dense matrix rate at the precision of the linear layers [FLOP/s].
        memory_bandwidth: [B/s].
        memory_capacity: bytes a program can use [B].
        multiprocessors: SMs or compute units that share one matrix product [1].
        clock: share of the datasheet's clock that the power limit allows [1].
        scale_up_bandwidth: what a collective alone reaches in the scale-up domain, one direction [B/s].
        scale_up_domain: GPUs that reach one another over the scale-up link [1].
        scale_out_bandwidth: what a collective alone reaches on the network, one direction [B/s].
        mesh_peers: peers each GPU is wired to directly, 0 behind a switch: a smaller group has only its own wires [1].
    """

    matrix_peak: Array
    linear_peak: Array
    memory_bandwidth: Array
    memory_capacity: Array
    multiprocessors: Array
    clock: Array
    scale_up_bandwidth: Array
    scale_up_domain: Array
    scale_out_bandwidth: Array
    mesh_peers: Array = 0.0

    def scale_up_rate(self, group: Array) -> Array:
        """Scale-up rate of one GPU in a group of so many [B/s]."""
        if not some(self.mesh_peers > 0):
            return self.scale_up_bandwidth
        peers = larger(self.mesh_peers, 1)
        wires = smaller(larger(group - 1, 1), peers) / peers
        return self.scale_up_bandwidth * where(self.mesh_peers > 0, wires, 1.0)


@dataclass(frozen=True)
class Job:
    """What one step computes.

    Attributes:
        sequence_length: tokens in a sequence, s [1].
        global_batch: sequences in a step, B [1].
        linear_bytes: bytes of an operand of the linear layers: 2, 1 (FP8) or 0.5 (FP4) [B].
        gradient_bytes: bytes of a gradient when it is reduced: 4 or 2 [B].
        causal: 1 if the attention mask is causal, else 0.
    """

    sequence_length: Array
    global_batch: Array
    linear_bytes: Array = 2.0
    gradient_bytes: Array = 4.0
    causal: Array = 1.0


@dataclass(frozen=True)
class Parallelism:
    """How the step is spread over the GPUs.

    Attributes:
        tensor, pipeline, virtual_pipeline, context, expert, data: degrees t, p, v, c, e, d [1].
        expert_tensor: GPUs over which each expert is cut, t_e [1].
        micro_batch: sequences, b [1].
        sharding: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters (ZeRO stages; 3 is FSDP).
        sharding_group: ranks over which that state is spread, at most d·c [1].
        sequence_parallel: 1 if norms and residuals are split over the tensor-parallel ranks, else 0.
        recompute: share of the layers whose whole forward pass is repeated [1].
        recompute_core: 1 if only the attention core (or the cheap operators) is recomputed, else 0.
        bubble: bubble of the schedule relative to 1F1B; a third for zero-bubble [1].
    """

    tensor: Array
    pipeline: Array
    virtual_pipeline: Array
    context: Array
    expert: Array
    data: Array
    expert_tensor: Array
    micro_batch: Array
    sharding: Array
    sharding_group: Array
    sequence_parallel: Array
    recompute: Array
    recompute_core: Array
    bubble: Array = 1.0

    @property
    def ranks(self) -> Array:
        """GPUs in use, t·p·c·d [1]."""
        return self.tensor * self.pipeline * self.context * self.data


@dataclass(frozen=True)
class Software:
    """The stack, as properties that a reader can check. Each is 1 for yes and 0 for no, or a share between.

    Attributes:
        fused: elementwise operators are fused (compiled, Transformer Engine, hand-written).
        flash: the attention core never writes its scores to memory.
        overlap_tensor: tensor-parallel communication runs under the matrix products.
        async_tensor: at least that of the input's gradient does, under the product for the weights.
        fused_accumulation: the gradients of several micro-batches are added up inside that product.
        overlap_data: gradients are reduced under the backward pass, weights gathered under the forward pass.
        overlap_pipeline: stages send while they compute.
        overlap_expert: the all-to-all of one micro-batch runs under the computation of another.
        graphs: launches are recorded once (CUDA graphs).
        flat_sharding: parameters are gathered in one flat ring over one network card, as in 2021.
        selective_linear: share of the linear work that "selective" recomputation repeats (0 in Megatron).
        selective_memory: share of the activations that it saves (0 in Megatron with a flash kernel).
        dropout: dropout masks are kept.
    """

    fused: Array = 1.0
    flash: Array = 1.0
    overlap_tensor: Array = 1.0
    async_tensor: Array = 1.0
    fused_accumulation: Array = 1.0
    overlap_data: Array = 1.0
    overlap_pipeline: Array = 1.0
    overlap_expert: Array = 0.0
    graphs: Array = 0.0
    flat_sharding: Array = 0.0
    selective_linear: Array = 0.0
    selective_memory: Array = 0.0
    dropout: Array = 0.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """Constants of the model for one GPU, precision and stack. Times in seconds, the rest without unit.

    Each equals itself alone, so that what follows from it can be kept.

    Attributes:
        linear: share of the peak that a large linear layer reaches.
        head: the same for the 16-bit output head.
        depth_half: depth K of a product M×N×K at which half of the efficiency is gone, K₀.
        wave: cost of the last, partly filled wave of tiles.
        tile: rows and columns of the output tile that one multiprocessor works on [1].
        attention: share of the peak of the flash forward kernel, causal work counted.
        attention_half: sequence length at which half of that is gone, s₀.
        attention_backward: backward over forward work of the flash kernel.
        narrow_head: width under which a head counts as small [1].
        small_head: efficiency of small heads relative to wider ones.
        unfused_attention: share of the peak of attention as batched products.
        softmax_traffic: scale of the bytes each score costs without a flash kernel.
        memory: share of the memory bandwidth that elementwise kernels reach.
        elementwise: scale of the elementwise bytes of a fused stack.
        unfused: how many times more an unfused stack moves.
        quantize: scale of the bytes that FP8 and FP4 conversion costs.
        scale_up, scale_out: share of the nominal rate that collectives reach.
        scale_up_latency, scale_out_latency: start-up of one collective [s].
        hop: further latency for each node in a group [s].
        exposed_tensor, exposed_context, exposed_pipeline, exposed_data, exposed_expert: share of that
            communication that remains visible when the stack overlaps it.
        exposed_gather: the same for parameters gathered layer by layer, relative to `exposed_data`.
        hiding: share of the computation under which gradients can be exchanged.
        bucket: bytes that data parallelism exchanges at a time [B].
        head_imbalance: share of the head's time by which the last stage is the slowest.
        head_spared: the same where that stage has fewer layers, relative to `head_imbalance`.
        expert_scale_up, expert_scale_out: all-to-all traffic relative to the ideal.
        grouped, grouped_low: efficiency of grouped products relative to linear layers, 16-bit and below.
        permute: scale of the bytes of routing tokens.
        host_layer, host_expert: time the host needs to launch a layer, dense and mixture of experts [s].
        expert_launch: time that each expert on a GPU adds to a layer, forward and backward, for its own kernels [s].
        graph_host: share of the host's and of each expert's launches that CUDA graphs leave.
        optimizer_traffic: bytes read and written for each parameter updated [B].
        scaling_traffic: further bytes where 16-bit gradients are scaled against underflow [B].
        optimizer_overhead: fixed time at the end of a step [s].
        straggler: slow-down for each factor e of nodes.
        context_memory: bytes outside the allocator: CUDA context, communication buffers [B].
        fragmentation: share by which reserved memory exceeds allocated memory.
    """

    linear: Array
    head: Array
    depth_half: Array
    wave: Array
    tile: Array
    attention: Array
    attention_half: Array
    attention_backward: Array
    narrow_head: Array
    small_head: Array
    unfused_attention: Array
    softmax_traffic: Array
    memory: Array
    elementwise: Array
    unfused: Array
    quantize: Array
    scale_up: Array
    scale_out: Array
    scale_up_latency: Array
    scale_out_latency: Array
    hop: Array
    exposed_tensor: Array
    exposed_context: Array
    exposed_pipeline: Array
    exposed_data: Array
    exposed_expert: Array
    exposed_gather: Array
    hiding: Array
    bucket: Array
    head_imbalance: Array
    head_spared: Array
    expert_scale_up: Array
    expert_scale_out: Array
    grouped: Array
    grouped_low: Array
    permute: Array
    host_layer: Array
    host_expert: Array
    expert_launch: Array
    graph_host: Array
    optimizer_traffic: Array
    scaling_traffic: Array
    optimizer_overhead: Array
    straggler: Array
    context_memory: Array
    fragmentation: Array


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
        per_area, loops = work / larger(area, 1), 1 / larger(depth, 1)
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


def smooth_maximum(first: Array, second: Array) -> Array:
    """(x⁴ + y⁴)^¼: the larger of two overlapping times, a little more where they are near one another.

    >>> round(float(smooth_maximum(3.0, 0.1)), 3), round(float(smooth_maximum(1.0, 1.0)), 3)
    (3.0, 1.189)
    """
    fourth: Array = np.square(np.square(first)) + np.square(np.square(second))
    return np.sqrt(np.sqrt(fourth))


def collective(
    volume: Array,
    ranks: Array,
    local: Array,
    scale_up_bandwidth: Array,
    scale_out_bandwidth: Array,
    latency: Array,
) -> Array:
    """Time of a hierarchical reduce-scatter or all-gather of `volume` bytes over `ranks`, `local` of them in a domain.

    Inside the domain each rank moves (n-1)/n of the volume; across domains the local ranks share it, each on its own
    network rail: max(V·(n-1)/n/B_up, V/local·(D-1)/D/B_out) + α, D domains. Never one flat ring on one card.

    Args:
        volume: bytes of the whole buffer, V [B].
        ranks: n [1].
        local: ranks of the group within one scale-up domain [1].
        scale_up_bandwidth, scale_out_bandwidth: per GPU, one direction [B/s].
        latency: α [s].

    Returns:
        Time [s]; none for one rank.

    >>> float(collective(8e9, 8, 8, 1e11, 1e10, 0.0))  # 7/8 · 8 GB at 100 GB/s
    0.07
    >>> float(collective(8e9, 16, 8, 1e11, 1e9, 0.0))  # 1 GB a rail, half of it leaves the node, at 1 GB/s
    0.5
    """
    domains = larger(ranks / local, 1)
    time = volume * (ranks - 1) / ranks / scale_up_bandwidth
    if some(domains > 1):
        time = larger(time, volume / local * (domains - 1) / domains / scale_out_bandwidth)
    return where(ranks > 1, time + latency, 0.0)


def layer(shape: Shape, job: Job, hw: Hardware, par: Parallelism, sw: Software, cal: Calibration) -> Layer:
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
    has_experts, has_latent = some(share > 0), some(shape.latent > 0)
    recorded = 1 - sw.graphs * (1 - cal.graph_host)

    # Recomputation: the whole forward pass of a share of the layers, or only its cheap part.
    again = par.recompute
    cheap = par.recompute_core * (1 - again)
    repeated = 1 + again + cheap * sw.selective_linear

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
        groups = larger(shape.experts, 1) / par.expert
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
        local = smaller(ranks, hw.scale_up_domain)
        domains = larger(ranks / local, 1)
        remote = domains * (1 - (1 - 1 / domains) ** shape.experts_per_token) * (domains - 1) / domains
        sent = 2 * tokens / t * h
        inside = cal.expert_scale_up * sent * shape.experts_per_token * (par.expert - 1) / par.expert
        inside = inside + sent * shape.experts_per_token * (par.expert_tensor - 1)
        across = cal.expert_scale_out * sent * remote
        all_to_all = larger(
            inside / (hw.scale_up_rate(local) * cal.scale_up), across / (hw.scale_out_bandwidth * cal.scale_out)
        ) + where(domains > 1, cal.scale_out_latency, cal.scale_up_latency)
        exposed = 1 - sw.overlap_expert * (1 - cal.exposed_expert)
        all_to_all = share * exposed * where(ranks > 1, all_to_all, 0.0)

    bytes_forward = cal.elementwise * np.power(cal.unfused, 1 - sw.fused) * traffic
    bytes_forward = bytes_forward + where(low, cal.quantize * 4 * inputs, 0.0)
    elementwise = bytes_forward * (3 + again + where(sw.selective_linear > 0, cheap, 0.0)) / memory

    # The attention core. Backward the flash kernel does more of the same, batched products twice as many.
    work = tokens * transformer.attention_flops(shape, s, job.causal) / t
    narrow = where(shape.head_dim < cal.narrow_head, cal.small_head, 1.0)
    flash_rate = hw.matrix_peak * (hw.clock * cal.attention * (narrow * s / (s + cal.attention_half)))
    forward = 1 + again + cheap * (1 - sw.flash)
    attention = sw.flash * work * (forward + cal.attention_backward) / flash_rate
    if some(sw.flash < 1):
        square = tokens * transformer.attention_flops(shape, s, 0.0) / t
        square_time = square / (hw.matrix_peak * (hw.clock * cal.unfused_attention))
        softmax = cal.softmax_traffic * (tokens * s * shape.heads / t) / memory
        attention = attention + (1 - sw.flash) * (square_time * (forward + 2) + softmax * (11 * forward + 14))

    # Communication that stays visible.
    tensor: Array = 0.0
    if some(t > 1):
        local = smaller(t, hw.scale_up_domain)
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
        shown = (1 - sw.overlap_tensor * hidden) * (1 + again)
        beside = 1 - larger(sw.overlap_tensor, sw.async_tensor) * hidden
        tensor = reduce * ((2 - share) * (shown + beside))
    context: Array = 0.0
    if some(par.context > 1):
        ring_bandwidth = where(
            t * par.context > hw.scale_up_domain,
            hw.scale_out_bandwidth * cal.scale_out,
            hw.scale_up_rate(t * par.context) * cal.scale_up,
        )
        kv_width = where(
            shape.latent > 0, shape.heads * (shape.score_dim + shape.output_dim) / 2, shape.kv_heads * shape.head_dim
        )
        passed = (par.context - 1) * 4 * tokens * kv_width / t
        context = cal.exposed_context * (passed * (3 + again)) / ring_bandwidth

    products = matrix_products(linear, rate, cal.depth_half, waves)
    if has_experts:
        products = products + grouped
    expert = all_to_all * (4 + 2 * again)
    computing = products + attention + elementwise
    total = computing + (context + expert + tensor)

    # The host launches kernels ahead of the GPU; it shows where they are shorter than their launches.
    recorded = recorded * (1 + again / 3)
    launches = cal.host_layer * ((1 - share) * recorded)
    if has_experts:
        launches = launches + cal.host_expert * (share * recorded)
    bounded = smooth_maximum(total, launches)
    return Layer(products, attention, elementwise, tensor, context, expert, bounded - total, computing, bounded)


# The step ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """Time of one training step and what it is made of [s].

    Attributes:
        time: the whole step.
        layers: part of `layer` times repeated by the slowest stage, m·⌈L/p⌉ [1]: multiplies each part of the layer.
        head: output head and loss on the last stage, as far as it makes that stage the slowest.
        bubble: pipeline stages waiting.
        pipeline: activations sent from stage to stage.
        accumulation: adding up the gradients of several micro-batches.
        data: gradients and weights exchanged by data parallelism, as far as visible.
        optimizer: updating the parameters.
        straggler: waiting for the slowest of many nodes.
    """

    time: Array
    layers: Array
    head: Array
    bubble: Array
    pipeline: Array
    accumulation: Array
    data: Array
    optimizer: Array
    straggler: Array


def head_time(shape: Shape, job: Job, hw: Hardware, par: Parallelism, cal: Calibration) -> Array:
    """Output head and loss of one micro-batch: a 16-bit product with the vocabulary, and the traffic of the logits.

    16 bytes per token and vocabulary entry (logits written, read, normalised and differentiated) and 20h.

    Returns:
        Time, forward and backward [s].
    """
    tokens = par.micro_batch * job.sequence_length / par.context
    rate = hw.matrix_peak * (hw.clock * cal.head)
    waves = cal.wave * hw.multiprocessors * cal.tile**2
    columns = shape.vocabulary / par.tensor
    heads = 1 + shape.prediction_layers
    products = matrix_products(linear_layer(tokens, columns, shape.hidden, heads), rate, cal.depth_half, waves)
    traffic = heads * tokens * (16 * columns + 20 * shape.hidden)
    return products + traffic / (hw.memory_bandwidth * cal.memory)


def assemble(
    one: Layer,
    head: Array,
    shape: Shape,
    job: Job,
    hw: Hardware,
    par: Parallelism,
    sw: Software,
    cal: Calibration,
) -> Step:
    """Time of the step from the time of a layer and of the head.

    T = m·(stage + p2p) + (p - 1)/v·(L/p·layer + p2p)·bubble + data + optimizer, times the straggler factor, where the
    stage is the slowest one: ⌈L/p⌉ layers, or ⌊L/p⌋ and the head. Where the stack does not add up the gradients of
    several micro-batches inside the matrix product, each layer moves 2 + 2·g bytes more for each of its parameters,
    g the bytes of a gradient.

    Sources: Narayanan et al., SC21, section 2.2 (1F1B and interleaving); Qi et al., "Zero bubble pipeline
    parallelism", 2023, table 1 (ZB-H1: a third of the bubble); Rajbhandari et al., "ZeRO", 2020 (volumes).
    """
    t, p, v = par.tensor, par.pipeline, par.virtual_pipeline
    depth = shape.layers + shape.prediction_layers
    micro_batches = job.global_batch / (par.data * par.micro_batch)
    deep, shallow = np.ceil(depth / p), np.floor(depth / p)
    piped = p > 1
    visible_head = where(piped, cal.head_imbalance * where(deep > shallow, cal.head_spared, 1.0), 1.0) * head

    out = hw.scale_out_bandwidth * cal.scale_out

    # Parameters of this rank, and the group that shares them.
    held = transformer.held_parameters(shape, t, p, par.expert, par.expert_tensor, deep)
    replicas = par.data * par.context
    nodes = larger(replicas * t / hw.scale_up_domain, 1)
    local = smaller(larger(hw.scale_up_domain / t, 1), replicas)
    up = hw.scale_up_rate(local) * cal.scale_up

    # FSDP: the parameters of each layer are gathered twice and its gradients reduced once, for every micro-batch.
    fsdp = where(par.sharding > 2, 1.0, 0.0)
    group = smaller(par.sharding_group, replicas)
    has_fsdp = some(fsdp > 0)
    added: Array = 0.0
    if some(sw.fused_accumulation < 1):
        several = (micro_batches > 1) & (piped | (fsdp == 0))
        moved = (1 - sw.fused_accumulation) * (2 + 2 * job.gradient_bytes) * held.layer
        added = where(several, moved, 0.0) / (hw.memory_bandwidth * cal.memory)
    gathers: Array = 0.0
    if has_fsdp:
        latency = where(group * t > hw.scale_up_domain, cal.scale_out_latency + cal.hop * nodes, cal.scale_up_latency)
        gathered = 3 * collective(2 * held.layer, group, smaller(local, group), up, out, latency)
        hidden = smooth_maximum(one.total, gathered) - one.total + cal.exposed_gather * cal.exposed_data * gathered
        if some(sw.flat_sharding > 0):
            flat = 3 * (2 * held.layer * (group - 1) / group / out + latency)
            poor = np.power(np.power(one.total, 1.5) + np.power(flat, 1.5), 2 / 3) - one.total
            hidden = where(sw.flat_sharding > 0, poor, hidden)
        per_layer = where(piped, gathered / micro_batches, hidden)
        gathers = fsdp * where(replicas > 1, per_layer, 0.0)

    layer_time = one.total + added + gathers
    layers = deep * layer_time
    stage = larger(layers, shallow * layer_time + visible_head)

    # Point to point between stages.
    activation = 2 * par.micro_batch * job.sequence_length / par.context * shape.hidden / t
    send: Array = 0.0
    if some(piped):
        near = par.ranks <= hw.scale_up_domain
        rate = where(near, hw.scale_up_rate(2.0) * cal.scale_up, out) if some(near) else out
        exposed = 1 - sw.overlap_pipeline * (1 - cal.exposed_pipeline)
        send = where(piped, exposed * 2 * v * (activation / rate + cal.scale_out_latency), 0.0)
    bubble = (p - 1) / v * par.bubble * (depth / p * layer_time + send)

    # Gradients and weights of everything that is not FSDP, once a step.
    gathered_bytes = where(par.sharding > 0, 2.0, job.gradient_bytes)
    volume = (job.gradient_bytes + gathered_bytes) * (1 - fsdp)
    buckets = 2 + held.dense * volume / cal.bucket
    alpha = where(nodes > 1, cal.scale_out_latency + cal.hop * nodes, cal.scale_up_latency)
    exchange = collective(volume * held.dense, replicas, local, up, out, alpha * buckets)
    expert_replicas = larger(par.ranks / (p * par.expert * par.expert_tensor), 1)
    if some(held.expert > 0):
        local = smaller(larger(hw.scale_up_domain / (par.expert * par.expert_tensor), 1), expert_replicas)
        up = hw.scale_up_rate(local) * cal.scale_up
        experts = collective(volume * held.expert, expert_replicas, local, up, out, alpha)
        exchange = exchange + where(held.expert > 0, experts, 0.0)

    def visible(time: Array, stages: Array) -> Array:
        """What shows of a transfer that runs under so many stages: what does not fit there, at least a share of it."""
        shown = 1 - sw.overlap_data * (1 - cal.exposed_data / v)
        return larger(time - sw.overlap_data * cal.hiding * stages * stage, shown * time)

    # Sharded gradients are reduced after every micro-batch, not only after the last.
    data = visible(exchange, smaller(micro_batches, p))
    if some(par.sharding == 2):
        each = where(par.sharding == 2, exchange * job.gradient_bytes / (job.gradient_bytes + 2), 0.0)
        data = data + (micro_batches - 1) * visible(each, 1.0)
    if has_fsdp:
        data = (1 - fsdp) * data

    sharers = where(par.sharding > 0, group, 1.0)
    expert_sharers = where(par.sharding > 0, smaller(expert_replicas, larger(group, 1)), 1.0)
    updated = held.dense / sharers + held.expert / expert_sharers
    traffic = cal.optimizer_traffic + where(job.gradient_bytes < 4, cal.scaling_traffic, 0.0)
    optimizer = traffic * updated / hw.memory_bandwidth + cal.optimizer_overhead

    steady = micro_batches * (stage + send) + bubble + data + optimizer
    straggler = cal.straggler * np.log(larger(par.ranks / hw.scale_up_domain, 1)) * steady
    return Step(
        time=steady + straggler,
        layers=micro_batches * deep,
        head=micro_batches * (stage - layers),
        bubble=bubble,
        pipeline=micro_batches * send,
        accumulation=micro_batches * deep * added,
        data=data + gathers * (deep * micro_batches),
        optimizer=optimizer,
        straggler=straggler,
    )


def least_time(layer: Array, depth: Array, global_batch: Array, par: Parallelism) -> Array:
    """What a step takes at least: the layers of its deepest stage for every micro-batch, m·⌈L/p⌉·T_layer.

    Args:
        layer: time of one layer and micro-batch [s].
        depth: layers, L [1].
        global_batch: sequences in a step [1].
        par: the parallelism.

    Returns:
        Time [s]; `assemble` adds to it and takes nothing away.
    """
    return global_batch / (par.data * par.micro_batch) * np.ceil(depth / par.pipeline) * layer


def step(shape: Shape, job: Job, hw: Hardware, par: Parallelism, sw: Software, cal: Calibration) -> Step:
    """Time of one training step. The same formula serves one plan, its draws, and a search over millions."""
    one = layer(shape, job, hw, par, sw, cal)
    return assemble(one, head_time(shape, job, hw, par, cal), shape, job, hw, par, sw, cal)


# Memory --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest GPU [B]."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    logits: Array
    buffers: Array
    total: Array


def memory(shape: Shape, job: Job, par: Parallelism, sw: Software, cal: Calibration) -> Memory:
    """Memory of the fullest GPU, that of the first pipeline stage (or the last, if its logits weigh more).

    *States.* 16-bit weights (2 bytes), gradients (4, or 2 in pure 16-bit training), and 12 bytes of 32-bit master copy
    and two Adam moments. Sharding divides the optimizer state (1), the gradients (2), and everything (3) by its group;
    a fully sharded model gathers two layers at a time. *Activations* of ⌈L/p⌉ layers for every micro-batch in flight;
    recomputed layers keep their input, 2h bytes per token, and one layer is alive while it is recomputed. *Logits* of
    one micro-batch: 16-bit and 32-bit, each with its gradient, 12 bytes. *Buffers*: the CUDA context, communication
    buffers and the allocator's fragmentation.

    Sources: Rajbhandari et al., "ZeRO", 2020, section 3; Korthikanti et al., 2022, table 2 and section 4.2.3.
    """
    weights, gradients, optimizer = states(shape, job, par)
    activations, logits, buffers = activity(shape, job, par, sw, cal)
    total = (weights + gradients + optimizer) + (activations + logits + buffers)
    return Memory(weights, gradients, optimizer, activations, logits, buffers, total)


def states(shape: Shape, job: Job, par: Parallelism) -> tuple[Array, Array, Array]:
    """Weights, gradients and optimizer state of the fullest GPU, the first half of its memory.

    Neither the micro-batch nor the virtual pipeline nor recomputation changes them.

    Returns:
        Weights, gradients, optimizer state [B].

    Source: Rajbhandari et al., "ZeRO", 2020, section 3.
    """
    p = par.pipeline
    deep = np.ceil((shape.layers + shape.prediction_layers) / p)
    held = transformer.held_parameters(shape, par.tensor, p, par.expert, par.expert_tensor, deep)
    replicas = par.data * par.context
    group = smaller(par.sharding_group, replicas)
    expert_group = smaller(larger(par.ranks / (p * par.expert * par.expert_tensor), 1), group)
    whole = held.dense + held.expert
    over = held.dense / group + held.expert / expert_group
    stage = par.sharding
    # With a pipeline, fully sharded weights stay gathered and gradients whole until the last micro-batch.
    gathered = where(p > 1, whole, 2 * held.layer)
    weights = where(stage > 2, 4 * over + 2 * gathered, 2 * whole)
    gradients = where(stage > 2, 4 * over + 4 * gathered, job.gradient_bytes * where(stage > 1, over, whole))
    optimizer = where(stage > 2, 8 * over, where(stage > 0, 12 * over, 12 * whole))
    return weights, gradients, optimizer


def activity(shape: Shape, job: Job, par: Parallelism, sw: Software, cal: Calibration) -> tuple[Array, Array, Array]:
    """Activations, logits and buffers of the fullest GPU, the second half of its memory.

    Neither the experts' degree nor the sharding changes them.

    Returns:
        Activations, logits, buffers [B].

    Source: Korthikanti et al., 2022, table 2 and section 4.2.3.
    """
    t, p, v = par.tensor, par.pipeline, par.virtual_pipeline
    deep = np.ceil((shape.layers + shape.prediction_layers) / p)
    tokens = par.micro_batch * job.sequence_length / par.context
    micro_batches = larger(job.global_batch / (par.data * par.micro_batch), 1)
    element = larger(job.linear_bytes, 1.0)
    unfused = (1 - sw.flash) * (1 - par.recompute_core)
    full = transformer.layer_activations(
        shape, job.sequence_length, t, par.sequence_parallel, par.expert_tensor, element, unfused, sw.dropout
    )
    full = full * (1 - par.recompute_core * sw.selective_memory)
    kept = 2 * shape.hidden / where(par.sequence_parallel > 0, t, 1.0)
    alive = transformer.micro_batches_in_flight(micro_batches, p, v)
    layers = deep * (par.recompute * kept + (1 - par.recompute) * full)
    activations = tokens * (alive * layers + par.recompute * full)
    logits = tokens * shape.vocabulary / t * 12
    # The last stage holds the logits but only one micro-batch in flight.
    last = where(p > 1, larger(logits - tokens * (alive - 1) * layers, 0.0), logits)
    buffers = cal.context_memory + cal.fragmentation * (activations + last)
    return activations, last, buffers


# Goodput -------------------------------------------------------------------------------------------------------------


def checkpoint_interval(failures: Array, checkpoint_time: Array) -> Array:
    """Time between checkpoints that loses least, τ = √(2 δ/λ).

    Args:
        failures: failures of the whole cluster in a second, λ [1/s].
        checkpoint_time: time that training waits for one checkpoint, δ [s].

    Returns:
        Time between checkpoints, τ [s].

    Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974, p. 530.

    >>> float(checkpoint_interval(failures=1 / 10_000, checkpoint_time=50))
    1000.0
    """
    return np.sqrt(2 * checkpoint_time / failures)


def goodput(failures: Array, checkpoint_time: Array, interval: Array, restart_time: Array) -> Array:
    """Share of time that makes progress, A = 1 - δ/τ - λ·(τ/2 + r).

    Writing a checkpoint every τ costs δ/τ; each failure loses half an interval and the restart. First order: valid
    while the losses are small; none or less is "not a number".

    Args:
        failures: failures of the whole cluster in a second, λ [1/s].
        checkpoint_time: time that training waits for one checkpoint, δ [s].
        interval: time between checkpoints, τ [s].
        restart_time: from a failure to the first new step, r [s].

    Returns:
        Share [1].

    Source: Young, 1974; Daly, "A higher order estimate of the optimum checkpoint interval", FGCS 22(3), 2006.

    >>> round(float(goodput(failures=1 / 10_000, checkpoint_time=50, interval=1000, restart_time=500)), 3)
    0.85
    """
    share = 1 - checkpoint_time / interval - failures * (interval / 2 + restart_time)
    return where(share > 0, share, np.nan)


# Utilisation ---------------------------------------------------------------------------------------------------------


def repeated_work(shape: Shape, job: Job, par: Parallelism, sw: Software) -> Array:
    """Work that recomputation repeats for one token: forward passes of layers, or their cheap part [FLOP]."""
    if not some(par.recompute + par.recompute_core > 0):
        return 0.0
    forward = transformer.forward_flops(shape, job.sequence_length, job.causal)
    core = shape.layers * transformer.attention_flops(shape, job.sequence_length, job.causal)
    cheap = par.recompute_core * (1 - par.recompute)
    return par.recompute * forward + cheap * (sw.selective_linear * (forward - core) + (1 - sw.flash) * core)
