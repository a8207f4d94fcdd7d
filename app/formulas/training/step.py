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

from app.formulas import tail, transformer
from app.formulas.arrays import Array, any_, maximum, where
from app.formulas.training import compute, memory, traffic
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.exchanges import Exchanges, LayerExchanges, StepExchanges
from app.formulas.transformer import Shape

# One layer -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """Time of one average layer for one micro-batch, forward, backward and recomputation together.

    Attributes:
        products: matrix products [s].
        attention: the attention core [s].
        elementwise: reading and writing memory between them [s].
        tensor, context, expert: communication left visible [s].
        host: what remains visible of launching the kernels [s].
        gpu: time the GPU computes; communication of FSDP can hide under it [s].
        total: the sum [s].
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


def layer(
    shape: Shape,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: LayerExchanges,
) -> Layer:
    """Time of one average layer for one micro-batch.

    What the GPU computes, T_products + T_attention + T_elementwise, and the traffic of tensor, context and expert
    parallelism that shows. The host launches kernels ahead of the GPU, T = max₄(T_gpu + T_traffic, T_launch): it shows
    where they are shorter than their launches.

    Returns:
        Times, part by part [s].

    Source: Narayanan et al., "Efficient large-scale language model training on GPU clusters", SC21, section 3.

    >>> from app.formulas.training.examples import ALONE, GPU, JOB, LOSSLESS, MODEL
    >>> one = layer(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS, ALONE.layer)
    >>> [round(1e6 * float(time)) for time in (one.products, one.attention, one.elementwise, one.total)]
    [72, 7, 132, 211]
    """
    products = compute.products_time(shape, job, gpu, parallelism, software, calibration)
    attention = compute.attention_time(shape, job, gpu, parallelism, software, calibration)
    elementwise = compute.elementwise_time(shape, job, gpu, parallelism, software, calibration)
    tensor = traffic.tensor_parallel_time(shape, parallelism, software, calibration, exchanges.tensor)
    context = traffic.context_parallel_time(parallelism, calibration, exchanges.context)
    expert = traffic.expert_parallel_time(shape, parallelism, software, calibration, exchanges.expert)
    computing = products + attention + elementwise
    busy = computing + (context + expert + tensor)
    total = traffic.smooth_maximum(busy, compute.launch_time(shape, parallelism, software, calibration))
    return Layer(products, attention, elementwise, tensor, context, expert, total - busy, computing, total)


def head_time(shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, calibration: Calibration) -> Array:
    """Output head and loss of one micro-batch: a 16-bit product with the vocabulary, and the traffic of the logits.

    16 bytes per token and vocabulary entry (logits written, read, normalised and differentiated) and 20h.

    Returns:
        Time, forward and backward [s].

    Source: Narayanan et al., SC21, appendix (the product); the bytes count the passes of a loss in 32 bits.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> time = head_time(MODEL, JOB, GPU, Parallelism(), LOSSLESS)
    >>> round(1e6 * float(time))  # 3 · 200 GFLOP at 1 PFLOP/s, and 1,000 · 1,620,000 B at 1 TB/s
    2220
    """
    tokens = parallelism.tokens(job)
    rate = gpu.matrix_peak * (gpu.clock * calibration.head)
    waves = compute.wave_elements(gpu, calibration)
    columns = shape.vocabulary / parallelism.tensor
    heads = 1 + shape.prediction_layers
    table = columns, shape.hidden, heads, 1.0
    products = compute.linear_layers_time(tokens, [table], rate, calibration.depth_half, waves)
    logits = heads * tokens * (16 * columns + 20 * shape.hidden)
    return products + logits / (gpu.memory_bandwidth * calibration.memory)


# From layers to a step -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """What of a step depends on neither the batch nor the micro-batch.

    Attributes:
        held: parameters on a GPU [1].
        optimizer: time of updating them [s].
        deviations: standard deviations by which the slowest node lies above the mean [1].
    """

    held: transformer.Held
    optimizer: Array
    deviations: Array


def state_of(
    shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, calibration: Calibration, ranks: Array
) -> State:
    """What of a step depends on neither the batch nor the micro-batch.

    Args:
        shape, job, gpu, parallelism, calibration: the arguments of a step.
        ranks: GPUs in use [1].

    Source: :func:`compute.optimizer_time`, :func:`app.formulas.tail.deviations`.

    >>> from app.formulas.training.examples import GPU, JOB, LOSSLESS, MODEL
    >>> state = state_of(MODEL, JOB, GPU, Parallelism(), LOSSLESS, 1.0)
    >>> round(float(state.held.dense) / 1e6), round(1e3 * float(state.optimizer)), float(state.deviations)
    (320, 16, 0.0)
    """
    deep, _ = parallelism.stage_layers(shape.depth)
    held = transformer.held_parameters(
        shape, parallelism.tensor, parallelism.pipeline, parallelism.expert, parallelism.expert_tensor, deep
    )
    optimizer = compute.optimizer_time(held, job, gpu, parallelism, calibration)
    return State(held, optimizer, tail.deviations(ranks))


@dataclass(frozen=True)
class Pieces:
    """What a step is put together from.

    Attributes:
        layer: time of one layer and micro-batch, `Layer.total` [s].
        head: time of the output head for one micro-batch [s].
        exchanges: what is exchanged beyond a layer.
        state: what depends on neither batch nor micro-batch, where it is known already.
    """

    layer: Array
    head: Array
    exchanges: StepExchanges
    state: State | None = None


@dataclass(frozen=True)
class Step:
    """Time of one training step and what it is made of.

    Attributes:
        time: the whole step [s].
        layers: part of `layer` times repeated by the slowest stage, m·⌈L/p⌉: multiplies each part of the layer [1].
        head: output head and loss on the last stage, as far as it makes that stage the slowest [s].
        bubble: pipeline stages waiting [s].
        pipeline: activations sent from stage to stage, and an embedding's gradients between the first and the last [s].
        accumulation: adding up the gradients of several micro-batches [s].
        data: gradients and weights exchanged by data parallelism, as far as visible [s].
        optimizer: updating the parameters [s].
        straggler: waiting for the slowest of many nodes [s].
        offload: activations on their way to the host and back, as far as visible [s].
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
    offload: Array = 0.0


def stage_time(
    layer_time: Array, head: Array, depth: Array, parallelism: Parallelism, calibration: Calibration
) -> Array:
    """Time of the slowest pipeline stage for one micro-batch: one of ⌈L/p⌉ layers, or of ⌊L/p⌋ and the head.

    Of the head of a pipeline's last stage, a share counts, less where other stages have one layer more: what was
    fitted of the layers that are moved away from it. Where a layout says which these are, all of the head counts,
    beside the layers that it leaves there.

    Args:
        layer_time: time of one layer [s].
        head: time of the output head [s].
        depth: layers, L [1].
        parallelism, calibration: the arguments of a step.

    Returns:
        Time [s].

    Source: Narayanan et al., SC21, section 2.2 (a pipeline is as fast as its slowest stage).

    >>> from app.formulas.training.examples import LOSSLESS
    >>> float(stage_time(2.0, 3.0, 10.0, Parallelism(pipeline=4.0), LOSSLESS))  # 2 layers and the head, or 3 layers
    7.0
    >>> laid_out = Parallelism(pipeline=4.0, deepest=3.0, beside_head=1.0)
    >>> float(stage_time(2.0, 3.0, 10.0, laid_out, LOSSLESS))  # 1 layer and the head, or 3 layers
    6.0
    """
    deep, shallow = parallelism.stage_layers(depth)
    imbalance = calibration.head_imbalance * where(deep > shallow, calibration.head_spared, 1.0)
    visible_head = where((parallelism.pipeline > 1) & (parallelism.deepest <= 0), imbalance, 1.0) * head
    return maximum(deep * layer_time, shallow * layer_time + visible_head)


def bubble_time(layer_time: Array, send: Array, depth: Array, parallelism: Parallelism) -> Array:
    """Time that stages of a pipeline wait for one another in a step, (p - 1)/v·β·(L/p·T_layer + T_p2p).

    Micro-batches from both ends (DualPipe) leave (p/2 - 1)·(F&B + B - 3W): of a stage's time forward work F is a third,
    backward work B two thirds, of which that for the weights W half, and both at once F&B take F + B; so (p/2 - 1)·⅔.

    Args:
        layer_time: time of one layer for one micro-batch [s].
        send: visible time of a micro-batch's traffic between stages [s].
        depth: layers, L [1].
        parallelism: the parallelism; its bubble is β.

    Returns:
        Time [s].

    Source: Narayanan et al., SC21, section 2.2 (1F1B and interleaving); Qi et al., "Zero bubble pipeline
    parallelism", 2023, table 1 (ZB-H1: a third of the bubble); DeepSeek-AI, "DeepSeek-V3", 2024, table 2 (DualPipe).

    >>> bubble_time(2.0, 0.0, 8.0, Parallelism(pipeline=4.0))  # 3 stages of 2 layers of 2 s
    12.0
    >>> bubble_time(2.0, 0.0, 8.0, Parallelism(pipeline=4.0, bidirectional=1.0))  # one time two thirds of 4 s
    2.6666666666666665
    """
    p = parallelism.pipeline
    waits = (p - 1) / parallelism.virtual_pipeline * parallelism.bubble
    if any_(parallelism.bidirectional > 0):
        waits = where(parallelism.bidirectional > 0, maximum(p / 2 - 1, 0.0) * 2 / 3, waits)
    return waits * (depth / p * layer_time + send)


def straggler_time(time: Array, work: Array, deviations: Array, calibration: Calibration) -> Array:
    """Time that a step waits for the slowest of its nodes, max((ς₁·T + ς₂·√T)·Z(n), ε·W).

    Each node's step spreads about its mean, in part in proportion to it, in part as the end of a random walk of many
    small delays; all wait for the slowest of n. A node that is slower by a share ε takes that much longer for its own
    work, every micro-batch of its stage, and not for the pipeline's bubble: of a step of M micro-batches on p stages
    it costs ε·M/(M + p - 1).

    Args:
        time: the step where all are equally fast, T [s].
        work: what of it one node works, W [s].
        deviations: those of the slowest node above the mean, Z(n) [1].
        calibration: constants of the step.

    Returns:
        Time [s].

    Source: as for :func:`app.formulas.tail.wait`; the spreads are fitted to step times; the slow node agrees with a
    simulation of the pipeline.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import LOSSLESS
    >>> slower = replace(LOSSLESS, straggler=0.01, straggler_walk=0.1)
    >>> round(float(straggler_time(100.0, 90.0, tail.deviations(1024.0), slower)), 2)  # (1 + 1) s · 2.586
    5.17
    >>> float(straggler_time(100.0, 90.0, tail.deviations(1024.0), replace(slower, slow_node=0.1)))  # 0.1 · 90 s
    9.0
    """
    spread: Array = calibration.straggler * time + calibration.straggler_walk * np.sqrt(time)
    return maximum(spread * deviations, calibration.slow_node * work)


def _offload_time(
    layer_time: Array, shape: Shape, job: Job, gpu: GpuRates, parallelism: Parallelism, software: Software
) -> Array:
    """What sending the activations of one layer to the host and back takes beyond the layer [s]; 0 where they stay."""
    if not any_(job.offload_activations > 0):
        return 0.0
    kept, _ = memory.kept_bytes(shape, job, parallelism, software)
    way = traffic.offload_time(layer_time, parallelism.tokens(job) * kept, gpu.host_rate)
    return where(job.offload_activations > 0, way, 0.0)


def assemble(
    pieces: Pieces,
    shape: Shape,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
) -> Step:
    """Time of the step from the time of a layer and of the head.

    T = m·(T_stage + T_p2p) + T_bubble + T_data + T_optimizer, and the wait for stragglers. A layer of the stage also
    adds up gradients, gathers its parameters and sends its activations to the host where the stack does so.

    Args:
        pieces: time of one layer, of the head, and what is exchanged.
        shape, job, gpu, parallelism, software, calibration: the arguments of a step.

    Returns:
        Times, part by part [s].

    Source: Narayanan et al., SC21, section 2.2; Rajbhandari et al., "ZeRO", 2020 (volumes).

    >>> from app.formulas.training.examples import ALONE, GPU, JOB, LOSSLESS, MODEL
    >>> pieces = Pieces(0.01, 0.02, ALONE.step)
    >>> whole = assemble(pieces, MODEL, JOB, GPU, Parallelism(data=2.0), Software(), LOSSLESS)
    >>> round(float(whole.time - whole.data - whole.optimizer), 6)  # 8 micro-batches of 10 layers and the head
    0.96
    """
    depth, micro_batches = shape.depth, parallelism.micro_batches(job)
    deep, _ = parallelism.stage_layers(depth)
    state = pieces.state or state_of(shape, job, gpu, parallelism, calibration, parallelism.ranks)
    held, optimizer = state.held, state.optimizer
    exchanges, rest = pieces.exchanges, (parallelism, software, calibration)
    added = compute.accumulation_time(held, job, gpu, *rest)
    gathers = traffic.parameter_gather_time(pieces.layer, job, *rest, exchanges)
    offloaded = _offload_time(pieces.layer, shape, job, gpu, parallelism, software)
    layer_time = pieces.layer + added + gathers + offloaded
    stage = stage_time(layer_time, pieces.head, depth, parallelism, calibration)

    send = traffic.pipeline_parallel_time(*rest, exchanges.pipeline)
    bubble = bubble_time(layer_time, send, depth, parallelism)
    data = traffic.data_parallel_time(stage, held, job, *rest, exchanges)
    sent = micro_batches * send + exchanges.embedding.time
    steady = micro_batches * stage + sent + bubble + data + optimizer
    straggler = straggler_time(steady, micro_batches * stage + optimizer, state.deviations, calibration)
    return Step(
        time=steady + straggler,
        layers=micro_batches * deep,
        head=micro_batches * (stage - deep * layer_time),
        bubble=bubble,
        pipeline=sent,
        accumulation=micro_batches * deep * added,
        data=data + gathers * (deep * micro_batches),
        optimizer=optimizer,
        straggler=straggler,
        offload=micro_batches * deep * offloaded,
    )


def least_time(layer_time: Array, shape: Shape, job: Job, parallelism: Parallelism) -> Array:
    """What a step takes at least: the layers of its deepest stage for every micro-batch, m·⌈L/p⌉·T_layer.

    Args:
        layer_time: time of one layer and micro-batch [s].
        shape, job, parallelism: the model, what a step computes, how it is spread.

    Returns:
        Time [s]; `assemble` adds to it and takes nothing away.

    Source: Narayanan et al., SC21, section 2.2.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> float(least_time(0.01, MODEL, JOB, Parallelism(pipeline=4.0)))  # 16 micro-batches of 3 layers
    0.48
    """
    return parallelism.micro_batches(job) * parallelism.stage_layers(shape.depth)[0] * layer_time


def undisturbed_time(
    layer_time: Array,
    head: Array,
    shape: Shape,
    job: Job,
    parallelism: Parallelism,
    calibration: Calibration,
    deviations: Array,
) -> Array:
    """What a step takes that sends nothing beyond its layers and updates nothing.

    T = m·T_stage + T_bubble, and the wait for stragglers.

    Args:
        layer_time, head: time of one layer, and of the output head, for one micro-batch [s].
        shape, job, parallelism, calibration: the arguments of a step.
        deviations: those of the slowest node above the mean, Z(n) [1].

    Returns:
        Time [s]; `assemble` adds to it and takes nothing away.

    Source: Narayanan et al., SC21, section 2.2.

    >>> from app.formulas.training.examples import JOB, LOSSLESS, MODEL
    >>> whole = Parallelism(pipeline=4.0)  # 16 micro-batches of 3 layers of 10 ms, and 3 stages of 2.5 that wait
    >>> round(float(undisturbed_time(0.01, 0.0, MODEL, JOB, whole, LOSSLESS, 0.0)), 6)
    0.555
    """
    work = parallelism.micro_batches(job) * stage_time(layer_time, head, shape.depth, parallelism, calibration)
    time = work + bubble_time(layer_time, 0.0, shape.depth, parallelism)
    return time + straggler_time(time, work, deviations, calibration)


def time_without_straggler(time: Array, deviations: Array, calibration: Calibration) -> Array:
    """What a step takes at most where nodes do not spread, that takes no longer than some time where they do.

    The T of T + (ς₁·T + ς₂·√T)·Z = time.

    Args:
        time: with the wait for the slowest [s].
        deviations: those of the slowest node above the mean, Z(n) [1].
        calibration: constants of the step.

    Returns:
        Time [s].

    Source: the inverse of `straggler_time` where no node is slow for good.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import LOSSLESS
    >>> spread = replace(LOSSLESS, straggler=0.01, straggler_walk=0.1)
    >>> wait = straggler_time(100.0, 90.0, 2.5, spread)
    >>> round(float(time_without_straggler(100.0 + wait, 2.5, spread)), 9)
    100.0
    """
    whole, walk = 1 + calibration.straggler * deviations, calibration.straggler_walk * deviations / 2
    root: Array = (np.sqrt(walk * walk + whole * time) - walk) / whole
    return root * root


def layer_and_pieces(
    shape: Shape,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: Exchanges,
) -> tuple[Layer, Pieces]:
    """One layer, and what a step is put together from; how many sequences a step takes does not enter.

    Returns:
        Times of the layer, part by part, of the head and of what is exchanged beyond it [s].

    Source: Narayanan et al., SC21, sections 2 and 3.

    >>> from app.formulas.training.examples import ALONE, GPU, JOB, LOSSLESS, MODEL
    >>> _, whole = layer_and_pieces(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS, ALONE)
    >>> round(1e6 * float(whole.layer)), round(1e6 * float(whole.head))
    (211, 2220)
    """
    layer_times = layer(shape, job, gpu, parallelism, software, calibration, exchanges.layer)
    return layer_times, Pieces(layer_times.total, head_time(shape, job, gpu, parallelism, calibration), exchanges.step)


def layer_and_step(
    shape: Shape,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: Exchanges,
) -> tuple[Layer, Step]:
    """One layer, and the step that it makes.

    The same formula serves one plan, its draws, and a search over millions.

    Returns:
        Times of the layer and of the step, part by part [s].

    Source: Narayanan et al., SC21, sections 2 and 3.

    >>> from app.formulas.training.examples import ALONE, GPU, JOB, LOSSLESS, MODEL
    >>> one, whole = layer_and_step(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS, ALONE)
    >>> round(float(whole.layers), 6), round(1e3 * float(whole.layers * one.total), 6)  # 160 times 211 µs
    (160.0, 33.76)
    """
    one_layer, pieces = layer_and_pieces(shape, job, gpu, parallelism, software, calibration, exchanges)
    return one_layer, assemble(pieces, shape, job, gpu, parallelism, software, calibration)


def step(
    shape: Shape,
    job: Job,
    gpu: GpuRates,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: Exchanges,
) -> Step:
    """Time of one training step, and its parts.

    Returns:
        Times, part by part [s].

    Source: Narayanan et al., SC21, sections 2 and 3.

    >>> from app.formulas.training.examples import ALONE, GPU, JOB, LOSSLESS, MODEL
    >>> whole = step(MODEL, JOB, GPU, Parallelism(), Software(), LOSSLESS, ALONE)
    >>> round(1e3 * float(whole.time), 1)  # 16 · (10 · 211 µs + 2,220 µs), and 320 M parameters · 50 B at 1 TB/s
    85.3
    """
    return layer_and_step(shape, job, gpu, parallelism, software, calibration, exchanges)[1]
