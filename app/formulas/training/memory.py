"""Memory of a GPU: weights, gradients, optimizer, activations, buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array, maximum, minimum, where
from app.formulas.training.arguments import Calibration, Job, Parallelism, Software
from app.formulas.transformer import Shape


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
    group = minimum(par.sharding_group, replicas)
    expert_group = minimum(maximum(par.ranks / (p * par.expert * par.expert_tensor), 1), group)
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
    micro_batches = maximum(job.global_batch / (par.data * par.micro_batch), 1)
    element = maximum(job.linear_bytes, 1.0)
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
    last = where(p > 1, maximum(logits - tokens * (alive - 1) * layers, 0.0), logits)
    buffers = cal.context_memory + cal.fragmentation * (activations + last)
    return activations, last, buffers
