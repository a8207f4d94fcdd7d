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

from dataclasses import dataclass

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.compute import Layer, layer, linear_layer, matrix_products
from app.formulas.training.traffic import collective, smooth_maximum
from app.formulas.transformer import Shape


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


def head_time(shape: Shape, job: Job, hw: GpuRates, par: Parallelism, cal: Calibration) -> Array:
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
    hw: GpuRates,
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
    nodes = maximum(replicas * t / hw.scale_up_domain, 1)
    local = minimum(maximum(hw.scale_up_domain / t, 1), replicas)
    up = hw.scale_up_rate(local) * cal.scale_up

    # FSDP: the parameters of each layer are gathered twice and its gradients reduced once, for every micro-batch.
    fsdp = where(par.sharding > 2, 1.0, 0.0)
    group = minimum(par.sharding_group, replicas)
    has_fsdp = any_(fsdp > 0)
    added: Array = 0.0
    if any_(sw.fused_accumulation < 1):
        several = (micro_batches > 1) & (piped | (fsdp == 0))
        moved = (1 - sw.fused_accumulation) * (2 + 2 * job.gradient_bytes) * held.layer
        added = where(several, moved, 0.0) / (hw.memory_bandwidth * cal.memory)
    gathers: Array = 0.0
    if has_fsdp:
        latency = where(group * t > hw.scale_up_domain, cal.scale_out_latency + cal.hop * nodes, cal.scale_up_latency)
        gathered = 3 * collective(2 * held.layer, group, minimum(local, group), up, out, latency)
        hidden = smooth_maximum(one.total, gathered) - one.total + cal.exposed_gather * cal.exposed_data * gathered
        if any_(sw.flat_sharding > 0):
            flat = 3 * (2 * held.layer * (group - 1) / group / out + latency)
            poor = np.power(np.power(one.total, 1.5) + np.power(flat, 1.5), 2 / 3) - one.total
            hidden = where(sw.flat_sharding > 0, poor, hidden)
        per_layer = where(piped, gathered / micro_batches, hidden)
        gathers = fsdp * where(replicas > 1, per_layer, 0.0)

    layer_time = one.total + added + gathers
    layers = deep * layer_time
    stage = maximum(layers, shallow * layer_time + visible_head)

    # Point to point between stages.
    activation = 2 * par.micro_batch * job.sequence_length / par.context * shape.hidden / t
    send: Array = 0.0
    if any_(piped):
        near = par.ranks <= hw.scale_up_domain
        rate = where(near, hw.scale_up_rate(2.0) * cal.scale_up, out) if any_(near) else out
        exposed = 1 - sw.overlap_pipeline * (1 - cal.exposed_pipeline)
        send = where(piped, exposed * 2 * v * (activation / rate + cal.scale_out_latency), 0.0)
    bubble = (p - 1) / v * par.bubble * (depth / p * layer_time + send)

    # Gradients and weights of everything that is not FSDP, once a step.
    gathered_bytes = where(par.sharding > 0, 2.0, job.gradient_bytes)
    volume = (job.gradient_bytes + gathered_bytes) * (1 - fsdp)
    buckets = 2 + held.dense * volume / cal.bucket
    alpha = where(nodes > 1, cal.scale_out_latency + cal.hop * nodes, cal.scale_up_latency)
    exchange = collective(volume * held.dense, replicas, local, up, out, alpha * buckets)
    expert_replicas = maximum(par.ranks / (p * par.expert * par.expert_tensor), 1)
    if any_(held.expert > 0):
        local = minimum(maximum(hw.scale_up_domain / (par.expert * par.expert_tensor), 1), expert_replicas)
        up = hw.scale_up_rate(local) * cal.scale_up
        experts = collective(volume * held.expert, expert_replicas, local, up, out, alpha)
        exchange = exchange + where(held.expert > 0, experts, 0.0)

    def visible(time: Array, stages: Array) -> Array:
        """What shows of a transfer that runs under so many stages: what does not fit there, at least a share of it."""
        shown = 1 - sw.overlap_data * (1 - cal.exposed_data / v)
        return maximum(time - sw.overlap_data * cal.hiding * stages * stage, shown * time)

    # Sharded gradients are reduced after every micro-batch, not only after the last.
    data = visible(exchange, minimum(micro_batches, p))
    if any_(par.sharding == 2):
        each = where(par.sharding == 2, exchange * job.gradient_bytes / (job.gradient_bytes + 2), 0.0)
        data = data + (micro_batches - 1) * visible(each, 1.0)
    if has_fsdp:
        data = (1 - fsdp) * data

    sharers = where(par.sharding > 0, group, 1.0)
    expert_sharers = where(par.sharding > 0, minimum(expert_replicas, maximum(group, 1)), 1.0)
    updated = held.dense / sharers + held.expert / expert_sharers
    traffic = cal.optimizer_traffic + where(job.gradient_bytes < 4, cal.scaling_traffic, 0.0)
    optimizer = traffic * updated / hw.memory_bandwidth + cal.optimizer_overhead

    steady = micro_batches * (stage + send) + bubble + data + optimizer
    straggler = cal.straggler * np.log(maximum(par.ranks / hw.scale_up_domain, 1)) * steady
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


def step(shape: Shape, job: Job, hw: GpuRates, par: Parallelism, sw: Software, cal: Calibration) -> Step:
    """Time of one training step. The same formula serves one plan, its draws, and a search over millions."""
    one = layer(shape, job, hw, par, sw, cal)
    return assemble(one, head_time(shape, job, hw, par, cal), shape, job, hw, par, sw, cal)
