"""Memory of a GPU: weights, gradients, optimizer, activations, buffers."""

from __future__ import annotations

from dataclasses import dataclass

from app.formulas import transformer
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.training.arguments import Calibration, Job, Parallelism, Software
from app.formulas.transformer import Shape


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest GPU.

    Attributes:
        weights: 16-bit weights [B].
        gradients: their gradients [B].
        optimizer: 32-bit master copy and moments [B].
        activations: what the backward pass needs of the forward pass [B].
        logits: those of one micro-batch on the last stage, as far as they make it the fullest [B].
        buffers: context, communication buffers, fragmentation [B].
        total: the sum [B].
    """

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    logits: Array
    buffers: Array
    total: Array

    @classmethod
    def of(cls, states: Sizes, activity: Sizes) -> Memory:
        """That of weights, gradients and optimizer, and of activations, logits and buffers."""
        (weights, gradients, optimizer), (activations, logits, buffers) = states, activity
        return cls(*states, *activity, total=(weights + gradients + optimizer) + (activations + logits + buffers))

    def buffered(self, context: Array, fragmentation: Array) -> Memory:
        """The same with buffers by other constants, such as their draws: see `activity`."""
        buffers = _buffers(self.activations, self.logits, context, fragmentation)
        states = self.weights, self.gradients, self.optimizer
        return Memory.of(states, (self.activations, self.logits, buffers))


Sizes = tuple[Array, Array, Array]


def memory(shape: Shape, job: Job, parallelism: Parallelism, software: Software, calibration: Calibration) -> Memory:
    """Memory of the fullest GPU, that of the first pipeline stage (or the last, if its logits weigh more).

    The sum of `states` (weights, gradients, optimizer) and `activity` (activations, logits, buffers).

    Returns:
        Bytes, part by part [B].

    Source: Rajbhandari et al., "ZeRO", 2020, section 3; Korthikanti et al., 2022, table 2 and section 4.2.3.

    >>> from app.formulas.training.examples import JOB, LOSSLESS, MODEL
    >>> held = memory(MODEL, JOB, Parallelism(), Software(), LOSSLESS)
    >>> [round(float(size) / 1e9, 2) for size in vars(held).values()]  # 320 M parameters, 1,000 tokens
    [0.64, 1.28, 3.84, 0.32, 1.2, 0.0, 7.28]
    """
    constants = calibration.context_memory, calibration.fragmentation
    return Memory.of(states(shape, job, parallelism, software), activity(shape, job, parallelism, software, *constants))


def states(shape: Shape, job: Job, parallelism: Parallelism, software: Software) -> tuple[Array, Array, Array]:
    """Weights, gradients and optimizer state of the fullest GPU, the first half of its memory.

    Weights (2 bytes, or 1 in FP8), gradients (4 or 2), and 12 bytes of 32-bit master copy and two Adam moments, or 8
    where the moments have 16 bits, for each parameter. Sharding divides the optimizer state (1), the gradients (2,
    where the stack reduces them after each micro-batch: `scatters_gradients`), and everything (3) by its group; a fully
    sharded model gathers a layer or two at a time. Fed from both ends (DualPipe), a rank holds weights and gradients of
    the two stages that `both_ends` has, optimizer state of both unless it is shared with the other rank that holds
    them, and activations of one micro-batch more. Optimizer state that is offloaded takes nothing. Neither the
    micro-batch nor the virtual pipeline nor recomputation changes them.

    Returns:
        Weights, gradients, optimizer state [B].

    Source: Rajbhandari et al., "ZeRO", 2020, section 3; DeepSeek-AI, "DeepSeek-V3", 2024, table 2 (both ends).

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> spread = Parallelism(data=4.0, sharding=1.0, sharding_group=4.0)
    >>> [round(float(size) / 1e9, 2) for size in states(MODEL, JOB, spread, Software())]  # 2, 4 and 12/4 B of 320 M
    [0.64, 1.28, 0.96]
    """
    p, sharding = parallelism.pipeline, parallelism.sharding
    deep, shallow = parallelism.stage_layers(shape.depth)
    held = transformer.held_parameters(
        shape, parallelism.tensor, p, parallelism.expert, parallelism.expert_tensor, deep
    )
    if any_(parallelism.bidirectional > 0):
        held = both_ends(held, deep, shallow, parallelism.bidirectional)
    sharers = parallelism.sharers
    whole = held.dense + held.expert
    shared = held.dense / sharers + held.expert / parallelism.expert_sharers
    # With a pipeline, fully sharded weights stay gathered and gradients whole until the last micro-batch.
    gathered = where(p > 1, whole, software.gathered_layers * held.layer)
    weights = where(sharding > 2, 4 * shared + 2 * gathered, job.weight_bytes * whole)
    few = job.gradient_bytes * where(parallelism.scatters_gradients(software) > 0, shared, whole)
    gradients = where(sharding > 2, 4 * shared + job.gradient_bytes * gathered, few)
    moments = 2 * job.moment_bytes
    stages = parallelism.stages_held
    updated = where(sharding > 0, shared, stages * whole)
    optimizer = where(sharding > 2, moments * shared, (4 + moments) * updated)
    return stages * weights, stages * gradients, (1 - job.offload_optimizer) * optimizer


def both_ends(held: transformer.Held, deep: Array, shallow: Array, bidirectional: Array) -> transformer.Held:
    """Parameters of one of the two stages that a rank holds where micro-batches enter from both ends, on average.

    The first and the last stage are one rank's, with the two embeddings, and stages between another's. Where layers do
    not divide, the ends have the stages with fewer: max(⌈L/p⌉·P_layer, ⌊L/p⌋·P_layer + P_embedding).

    Args:
        held: parameters of the deepest stage and one embedding.
        deep, shallow: layers on a stage between, and on one of the ends [1].
        bidirectional: as in `Parallelism` [1].

    Source: DeepSeek-AI, "DeepSeek-V3", 2024, section 3.2.3 (embedding and output head are one rank's).

    >>> held = transformer.Held(dense=4 * 1.0 + 5.0, expert=4 * 2.0, layer=3.0, routed=2.0)  # 4 layers of 3, and 5
    >>> ends = both_ends(held, 4.0, 3.0, 1.0)  # 3 layers and 5, rather than 4 layers
    >>> float(ends.dense), float(ends.expert)
    (8.0, 6.0)
    """
    dense_layer = held.layer - held.routed
    table = held.dense - deep * dense_layer
    at_ends = shallow * held.layer + table > deep * held.layer
    dense = where(at_ends, shallow * dense_layer + table, deep * dense_layer)
    expert = where(at_ends, shallow, deep) * held.routed
    both = bidirectional > 0
    return transformer.Held(
        where(both, dense, held.dense), where(both, expert, held.expert), held.layer, held.routed
    )  # fmt: skip


def kept_bytes(shape: Shape, job: Job, parallelism: Parallelism, software: Software) -> tuple[Array, Array]:
    """Bytes that one token leaves in a layer for the backward pass, ρ·2h + (1 - ρ)·A, and A where nothing is repeated.

    A layer that is recomputed keeps its input, 2h bytes, divided by t under sequence parallelism.

    Returns:
        Bytes on average, and of a layer while it is recomputed [B].

    Source: Korthikanti et al., 2022, section 4.2.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> [float(size) for size in kept_bytes(MODEL, JOB, Parallelism(recompute=1.0), Software())]
    [2000.0, 32000.0]
    """
    kept = transformer.Kept(
        element=maximum(job.linear_bytes, 1.0),
        unfused_attention=(1 - software.flash) * (1 - parallelism.recompute_core),
        dropout=software.dropout,
        repeated=parallelism.recompute_core * software.selective_modules,
        inner=where(job.linear_bytes < 2, 2 - parallelism.recompute_core * software.selective_low, 2.0),
    )
    whole = transformer.layer_activations(
        shape, job.sequence_length, parallelism.tensor, parallelism.sequence_parallel, parallelism.expert_tensor, kept
    )
    whole = whole * (1 - parallelism.recompute_core * software.selective_memory)
    inputs = 2 * shape.hidden / where(parallelism.sequence_parallel > 0, parallelism.tensor, 1.0)
    return parallelism.recompute * inputs + (1 - parallelism.recompute) * whole, whole


def activity(
    shape: Shape,
    job: Job,
    parallelism: Parallelism,
    software: Software,
    context: Array,
    fragmentation: Array,
    kept: tuple[Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Activations, logits and buffers of the fullest GPU, the second half of its memory.

    *Activations* of ⌈L/p⌉ layers for every micro-batch in flight; recomputed layers keep their input, 2h bytes per
    token, and one layer is alive while it is recomputed. Offloaded, two layers of one micro-batch are on the GPU.
    *Logits* of one micro-batch: 16-bit and 32-bit, each with its gradient, 12 bytes, or 6 where the loss is fused, as
    far as they are more than the activations of which the last stage has fewer than the first.
    *Buffers*: the CUDA context, communication buffers and the allocator's fragmentation. Neither the experts' degree
    nor the sharding changes them.

    Args:
        shape, job, parallelism, software: the model, a step of it, how it is spread, and the stack.
        context: bytes outside the allocator [B].
        fragmentation: share by which reserved memory exceeds allocated memory [1].
        kept: what a token leaves in a layer, as `kept_bytes` has it, where it is known already [B].

    Returns:
        Activations, logits, buffers [B].

    Source: Korthikanti et al., 2022, table 2 and section 4.2.3.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> sizes = activity(MODEL, JOB, Parallelism(recompute=1.0), Software(), context=0, fragmentation=0)
    >>> [round(float(size) / 1e6) for size in sizes]  # ten inputs of 2 MB and a layer of 32 MB; 12 · 100,000 · 1,000
    [52, 1200, 0]
    """
    t, p, v = parallelism.tensor, parallelism.pipeline, parallelism.virtual_pipeline
    tokens, micro_batches = parallelism.tokens(job), maximum(parallelism.micro_batches(job), 1)
    average, whole = kept or kept_bytes(shape, job, parallelism, software)
    both_ends = parallelism.bidirectional
    first = transformer.micro_batches_in_flight(micro_batches, p, v) + both_ends
    end = where(both_ends > 0, first, transformer.micro_batches_beside_head(micro_batches, p, v))

    def held(alive: Array, layers: Array) -> Array:
        size: Array = tokens * (alive * layers * average + parallelism.recompute * whole)
        if not any_(job.offload_activations > 0):
            return size
        return where(job.offload_activations > 0, minimum(size, tokens * 2 * whole), size)

    deep, shallow = parallelism.stage_layers(shape.depth)
    activations = held(first, deep)
    logits = tokens * shape.vocabulary / t * software.logit_bytes
    last = where(p > 1, maximum(logits - (activations - held(end, shallow)), 0.0), logits)
    return activations, last, _buffers(activations, last, context, fragmentation)


def _buffers(activations: Array, logits: Array, context: Array, fragmentation: Array) -> Array:
    """The CUDA context, communication buffers and the allocator's fragmentation [B]."""
    return context + fragmentation * (activations + logits)
