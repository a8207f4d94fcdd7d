"""What the GPUs of a training step send to one another: tensor, context, expert, pipeline and data parallelism.

Each function gives the time that remains visible after the stack has hidden what it can, for one layer and micro-batch
or for one step, as it says.
"""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.fabric.placement import members
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.groups import copies, stage_stride
from app.formulas.transformer import Held, Shape

# Overlap and collectives ---------------------------------------------------------------------------------------------


def smooth_maximum(first: Array, second: Array) -> Array:
    """(x⁴ + y⁴)^¼: the larger of two overlapping times, a little more where they are near one another.

    Args:
        first, second: the times, x and y [s].

    Returns:
        Time [s].

    Source: Railyard; the exponent is fitted to step times.

    >>> round(float(smooth_maximum(3.0, 0.1)), 3), round(float(smooth_maximum(1.0, 1.0)), 3)
    (3.0, 1.189)
    """
    fourth: Array = np.square(np.square(first)) + np.square(np.square(second))
    return np.sqrt(np.sqrt(fourth))


def exposed_time(time: Array, cover: Array, share: Array) -> Array:
    """What shows of a transfer that runs under other work, max(T - C, x·T): what does not fit there, at least a share.

    Args:
        time: the transfer alone, T [s].
        cover: work under which it can run, C [s].
        share: share that shows whatever the cover, x [1].

    Returns:
        Time [s].

    Source: Railyard; shares are fitted to step times.

    >>> exposed_time(10.0, 4.0, 0.1), exposed_time(10.0, 40.0, 0.1)
    (6.0, 1.0)
    """
    return maximum(time - cover, share * time)


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

    This is the form with which the constants of the step were fitted, and it is the step's own: the all-reduce of a
    plan and the measured collectives are timed by the fitted formulas of the libraries (`choose`), which know
    algorithms, protocols and message sizes. The two differ, for an all-gather of 1.7 GB over 1,024 GPUs by a factor
    of 0.42.

    Args:
        volume: bytes of the whole buffer, V [B].
        ranks: n [1].
        local: ranks of the group within one scale-up domain [1].
        scale_up_bandwidth, scale_out_bandwidth: per GPU, one direction [B/s].
        latency: α [s].

    Returns:
        Time [s]; none for one rank.

    Source: Chan et al., "Collective communication: theory, practice, and experience", 2007, section 4 (the ring), one
    level for each kind of link.

    >>> float(collective(8e9, 8, 8, 1e11, 1e10, 0.0))  # 7/8 · 8 GB at 100 GB/s
    0.07
    >>> float(collective(8e9, 16, 8, 1e11, 1e9, 0.0))  # 1 GB a rail, half of it leaves the node, at 1 GB/s
    0.5
    """
    domains = maximum(ranks / local, 1)
    time = volume * (ranks - 1) / ranks / scale_up_bandwidth
    if any_(domains > 1):
        time = maximum(time, volume / local * (domains - 1) / domains / scale_out_bandwidth)
    return where(ranks > 1, time + latency, 0.0)


def link_rates(gpu: GpuRates, group: Array, calibration: Calibration, network: Array = 1.0) -> tuple[Array, Array]:
    """Rates that the step's transfers reach, η·B inside a domain and φ·η·B on the network, per GPU, one direction.

    Args:
        gpu: rates of one GPU.
        group: ranks of a domain that take part [1].
        calibration: the constants of the step.
        network: share of the network that the group is left with where it stands, φ [1].

    Returns:
        Scale-up and scale-out rate [B/s].

    Source: Railyard; the shares η are fitted to step times.

    >>> from app.formulas.training.examples import GPU, LOSSLESS
    >>> link_rates(GPU, 8.0, LOSSLESS)
    (100000000000.0, 10000000000.0)
    """
    return gpu.scale_up_rate(group) * calibration.scale_up, gpu.scale_out_bandwidth * calibration.scale_out * network


# Within a layer ------------------------------------------------------------------------------------------------------


def tensor_parallel_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Visible time of the tensor-parallel all-reduces of one layer and micro-batch.

    Two forward and two backward of 2·T·h bytes (one each in layers of experts), as a reduce-scatter and an all-gather:
    T = 2·collective(2·T·h, t)·(2 - share)·(x_forward·(1 + ρ) + x_backward). Where the stack runs them under the matrix
    products, a share x shows; backward, the sum of the input's gradient can also run under the product for the
    weights.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Narayanan et al., SC21, section 3.2 (the volumes).

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = tensor_parallel_time(MODEL, JOB, GPU, Parallelism(tensor=8.0), Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 4 · 2 · 7/8 · 2 MB at 100 GB/s
    140.0
    """
    t = parallelism.tensor
    if not any_(t > 1):
        return 0.0
    local = minimum(t, gpu.scale_up_domain)
    all_reduce = 2 * collective(
        2 * parallelism.tokens(job) * shape.hidden,
        t,
        local,
        *link_rates(gpu, local, calibration, parallelism.tensor_network),
        where(t > gpu.scale_up_domain, calibration.scale_out_latency, calibration.scale_up_latency),
    )
    hidden = 1 - calibration.exposed_tensor
    exposed_forward = (1 - software.overlap_tensor * hidden) * (1 + parallelism.recompute)
    exposed_backward = 1 - maximum(software.overlap_tensor, software.async_tensor) * hidden
    return all_reduce * ((2 - shape.expert_share) * (exposed_forward + exposed_backward))


def context_parallel_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, calibration: Calibration
) -> Array:
    """Visible time of passing keys and values round the ring of context parallelism, for one layer and micro-batch.

    x·(c - 1)·4·T·K·d_h/t·(3 + ρ)/B: each rank sends its own keys and values on c - 1 times, and backward twice as much
    with their gradients. Latent attention passes what its keys and values are made of, H·(d_qk + d_v)/2 wide.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers", 2023, section 3.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = context_parallel_time(MODEL, JOB, GPU, Parallelism(context=2.0), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 3 · 4 · 500 tokens · 1,000 = 6 MB at 100 GB/s
    60.0
    """
    t, c = parallelism.tensor, parallelism.context
    if not any_(c > 1):
        return 0.0
    scale_up, scale_out = link_rates(gpu, t * c, calibration, parallelism.context_network)
    bandwidth = where(t * c > gpu.scale_up_domain, scale_out, scale_up)
    latent_width = shape.heads * (shape.score_dim + shape.output_dim) / 2
    width = where(shape.latent > 0, latent_width, shape.kv_heads * shape.head_dim)
    passed = (c - 1) * 4 * parallelism.tokens(job) * width / t
    return calibration.exposed_context * (passed * (3 + parallelism.recompute)) / bandwidth


def expert_parallel_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Visible time of the experts' all-to-all of one average layer and micro-batch: two forward, two backward.

    Inside the scale-up domain each of k copies of T/t tokens goes to one of e ranks, and to every part of its expert.
    To the other D - 1 domains go k·(D - 1)/D copies of a token; of a dispatcher that sends it once to each domain,
    D·(1 - (1 - 1/D)^k)·(D - 1)/D, or (D - 1)/D of the domains to which its experts are limited. The slower of the two
    counts, with the load of the busiest rank: share·x·(4 + 2ρ)·(max(V_in/B_up, V_out/B_out) + α).

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Lepikhin et al., "GShard", 2020, section 3; DeepSeek-AI, "DeepSeek-V3", 2024, section 3.2.2 (once for each
    node).

    >>> from app.formulas.training.examples import EXPERTS, GPU, JOB, LOSSLESS
    >>> time = expert_parallel_time(EXPERTS, JOB, GPU, Parallelism(expert=8.0), Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 4 · 7/8 of two copies of 2 MB at 100 GB/s
    140.0
    """
    share, k = shape.expert_share, shape.experts_per_token
    if not any_(share > 0):
        return 0.0
    ranks = parallelism.expert * parallelism.expert_tensor
    local = minimum(ranks, gpu.scale_up_domain)
    domains = maximum(ranks / local, 1)
    distinct = domains * (1 - (1 - 1 / domains) ** k)
    distinct = where(shape.node_limit > 0, minimum(distinct, shape.node_limit), distinct)
    remote = where(software.deduplicates > 0, distinct, k) * (domains - 1) / domains
    sent = 2 * (parallelism.tokens(job) / parallelism.tensor) * shape.hidden * job.imbalance
    inside = calibration.expert_scale_up * sent * k * (parallelism.expert - 1) / parallelism.expert
    inside = inside + sent * k * (parallelism.expert_tensor - 1)
    across = calibration.expert_scale_out * sent * remote
    scale_up, scale_out = link_rates(gpu, local, calibration, parallelism.expert_network)
    slower = maximum(inside / scale_up, across / scale_out)
    all_to_all = slower + where(domains > 1, calibration.scale_out_latency, calibration.scale_up_latency)
    alternating = where(parallelism.virtual_pipeline > 1, 1.0, 1 - software.staged_expert)
    exposed = 1 - software.overlap_expert * alternating * (1 - calibration.exposed_expert)
    return share * exposed * where(ranks > 1, all_to_all, 0.0) * (4 + 2 * parallelism.recompute)


# Between stages ------------------------------------------------------------------------------------------------------


def pipeline_parallel_time(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software, calibration: Calibration
) -> Array:
    """Visible time of sending one micro-batch's activations to the next stage, and their gradients back.

    x·2·v·(2·T·h/(t·B) + α), once for each of the v chunks of layers that a stage has.

    Returns:
        Time for one micro-batch [s].

    Source: Narayanan et al., SC21, sections 2.2 and 4.1 (the ranks of a tensor-parallel group each send a share).

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = pipeline_parallel_time(MODEL, JOB, GPU, Parallelism(pipeline=2.0), Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 2 MB and back at 100 GB/s
    40.0
    """
    piped = parallelism.pipeline > 1
    if not any_(piped):
        return 0.0
    activation = 2 * parallelism.tokens(job) * shape.hidden / parallelism.tensor
    scale_up, scale_out = link_rates(gpu, 2.0, calibration, parallelism.pipeline_network)
    near = stage_stride(parallelism) * parallelism.pipeline <= gpu.scale_up_domain
    rate = where(near, scale_up, scale_out) if any_(near) else scale_out
    exposed = 1 - software.overlap_pipeline * (1 - calibration.exposed_pipeline)
    send = exposed * 2 * parallelism.virtual_pipeline * (activation / rate + calibration.scale_out_latency)
    return where(piped, send, 0.0)


# Between replicas ----------------------------------------------------------------------------------------------------


def _domains_of_replicas(gpu: GpuRates, parallelism: Parallelism) -> tuple[Array, Array]:
    """Scale-up domains over which the replicas of a parameter reach, and how many of these are in one domain [1]."""
    replicas, t = parallelism.replicas, parallelism.tensor
    local = members(copies(parallelism, t, replicas), gpu.scale_up_domain)
    if any_(parallelism.stages_first > 0):
        return replicas / local, local
    return maximum(replicas * t / gpu.scale_up_domain, 1), local


def parameter_gather_time(
    layer_time: Array,
    held: Held,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
) -> Array:
    """Visible time of fully sharded parameters, for one layer and micro-batch: two gathers and one reduction.

    G = 3·collective(2·P_layer, sharers), hidden under the layer: max₄(T_layer, G) - T_layer + x·G. Routed experts are
    gathered over the ranks that hold the same ones. With a pipeline it happens once a step, G/m. A flat ring over one
    network card hides less: (T^1.5 + F^1.5)^⅔ - T.

    Args:
        layer_time: time of the layer under which it runs [s].
        held: parameters on this GPU [1].
        job, gpu, parallelism, software, calibration: the arguments of a step.

    Returns:
        Time for one layer and micro-batch [s]; none unless parameters are sharded over several replicas.

    Source: Zhao et al., "PyTorch FSDP", 2023, section 3.2; Rajbhandari et al., "ZeRO", 2020, section 7 (3 volumes).

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS
    >>> spread = Parallelism(data=8.0, sharding=3.0, sharding_group=8.0)
    >>> time = parameter_gather_time(1.0, Held(0.0, 0.0, 12e6), JOB, GPU, spread, Software(), LOSSLESS)
    >>> round(1e6 * float(time), 6)  # 3 · 7/8 · 24 MB at 100 GB/s
    630.0
    """
    sharded = parallelism.sharding > 2
    if not any_(sharded):
        return 0.0
    sharers = parallelism.sharers
    domains, local = _domains_of_replicas(gpu, parallelism)
    scale_up, scale_out = link_rates(gpu, local, calibration, parallelism.gather_network)
    latency = where(
        sharers * parallelism.tensor > gpu.scale_up_domain,
        calibration.scale_out_latency + calibration.hop * domains,
        calibration.scale_up_latency,
    )
    common = held.layer - held.routed
    gathered = 3 * collective(2 * common, sharers, minimum(local, sharers), scale_up, scale_out, latency)
    if any_(held.routed > 0):
        ranks = parallelism.expert * parallelism.expert_tensor
        same = minimum(parallelism.expert_replicas, sharers)
        near = members(copies(parallelism, ranks, same), gpu.scale_up_domain)
        rates = link_rates(gpu, near, calibration, parallelism.expert_data_network)
        experts = 3 * collective(2 * held.routed, same, near, *rates, latency)
        gathered = gathered + where(held.routed > 0, experts, 0.0)
    always = calibration.exposed_gather * gathered
    visible = smooth_maximum(layer_time, gathered) - layer_time + always
    if any_(software.flat_sharding > 0):
        flat = 3 * (2 * held.layer * (sharers - 1) / sharers / scale_out + latency)
        exposed = np.power(np.power(layer_time, 1.5) + np.power(flat, 1.5), 2 / 3) - layer_time
        visible = where(software.flat_sharding > 0, exposed, visible)
    time = where(parallelism.pipeline > 1, gathered / parallelism.micro_batches(job), visible)
    return where(sharded & (parallelism.replicas > 1), time, 0.0)


def gradient_exchange_time(
    held: Held, job: Job, gpu: GpuRates, parallelism: Parallelism, calibration: Calibration
) -> Array:
    """Time of one exchange of gradients and weights between replicas, hidden or not.

    A reduce-scatter of g bytes and an all-gather for each parameter, of g bytes where the sum of the gradients is
    gathered and 2 where new weights are (sharded optimizer): collective((g + 2 or g)·P, d·c), dense parameters in
    buckets. The ranks that hold the same experts exchange theirs.

    Args:
        held: parameters on this GPU [1].
        job, gpu, parallelism, calibration: the arguments of a step.

    Returns:
        Time [s].

    Source: Rajbhandari et al., "ZeRO", 2020, section 7 (the volumes).

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS
    >>> float(gradient_exchange_time(Held(1e9, 0.0, 0.0), JOB, GPU, Parallelism(data=8.0), LOSSLESS))  # 7/8 of 8 GB
    0.07
    """
    domains, local = _domains_of_replicas(gpu, parallelism)
    scale_up, scale_out = link_rates(gpu, local, calibration, parallelism.data_network)
    volume = job.gradient_bytes + where(parallelism.sharding > 0, 2.0, job.gradient_bytes)
    buckets = 2 + held.dense * volume / calibration.bucket
    across = calibration.scale_out_latency + calibration.hop * domains
    latency = where(domains > 1, across, calibration.scale_up_latency)
    exchange = collective(volume * held.dense, parallelism.replicas, local, scale_up, scale_out, latency * buckets)
    if any_(held.expert > 0):
        replicas = parallelism.expert_replicas
        ranks = parallelism.expert * parallelism.expert_tensor
        local = members(copies(parallelism, ranks, replicas), gpu.scale_up_domain)
        scale_up, scale_out = link_rates(gpu, local, calibration, parallelism.expert_data_network)
        experts = collective(volume * held.expert, replicas, local, scale_up, scale_out, latency)
        exchange = exchange + where(held.expert > 0, experts, 0.0)
    return exchange


def data_parallel_time(
    stage_time: Array,
    held: Held,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
) -> Array:
    """Visible time of the exchange of gradients and weights in one step, parameters that are sharded too apart.

    It runs under the last min(m, p) micro-batches of a stage, of whose time a share can hide it; x/v of it always
    shows. Where sharded gradients are reduced after every micro-batch, each reduction runs under the backward pass, two
    thirds of that time; what does not fit there shows, and its last bucket.

    Args:
        stage_time: time of one micro-batch on the slowest stage [s].
        held: parameters on this GPU [1].
        job, gpu, parallelism, software, calibration: the arguments of a step.

    Returns:
        Time for one step [s].

    Source: Li et al., "PyTorch distributed", 2020, section 3.2.3 (overlap); Rajbhandari et al., "ZeRO", 2020.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS
    >>> spread = Parallelism(data=8.0)
    >>> float(data_parallel_time(1.0, Held(1e9, 0.0, 0.0), JOB, GPU, spread, Software(), LOSSLESS))  # nothing hidden
    0.07
    """
    if not any_(parallelism.sharding <= 2):
        return 0.0
    exchange = gradient_exchange_time(held, job, gpu, parallelism, calibration)
    micro_batches = parallelism.micro_batches(job)
    share = 1 - software.overlap_data * (1 - calibration.exposed_data / parallelism.virtual_pipeline)
    cover = software.overlap_data * calibration.hiding
    time = exposed_time(exchange, cover * minimum(micro_batches, parallelism.pipeline) * stage_time, share)
    scatters = parallelism.scatters_gradients(software)
    if any_(scatters > 0):
        reduction = exchange * job.gradient_bytes / (job.gradient_bytes + 2)
        size = job.gradient_bytes * (held.dense + held.expert)
        last = minimum(calibration.bucket / maximum(size, 1), 1)
        each = exposed_time(reduction, cover * 2 / 3 * stage_time, where(software.overlap_data > 0, last, 1.0))
        time = time + scatters * (micro_batches - 1) * each
    return where(parallelism.sharding > 2, 0.0, time)
