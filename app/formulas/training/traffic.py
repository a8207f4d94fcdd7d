"""What shows in a training step of what its GPUs send to one another, by themselves as `exchanges` has it.

Each function gives the time that remains visible after the stack has hidden what it can, for one layer and micro-batch
or for one step, as it says.
"""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.training.arguments import ALL_GATHER, RING, Calibration, Job, Parallelism, Software
from app.formulas.training.exchanges import Exchange, StepExchanges, tensor_sums
from app.formulas.transformer import Held, Shape

# Overlap -------------------------------------------------------------------------------------------------------------


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


def beside_computation(exchange: Exchange, calibration: Calibration) -> Array:
    """Time of an exchange while the GPUs compute, T/η across the network.

    There it shares cards, switches and multiprocessors with what the step sends and computes at the same time; what
    stays in a scale-up domain keeps the pace that it has alone.

    Args:
        exchange: by itself.
        calibration: the constants of the step.

    Returns:
        Time [s].

    Source: Railyard; the share η is fitted to step times.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import LOSSLESS
    >>> slower = replace(LOSSLESS, scale_out=0.8)
    >>> beside_computation(Exchange(8.0, 1.0), slower), beside_computation(Exchange(8.0, 0.0), slower)
    (10.0, 8.0)
    """
    if not isinstance(exchange.crosses, np.ndarray) and not exchange.crosses > 0:
        return exchange.time
    return exchange.time / where(exchange.crosses > 0, calibration.scale_out, 1.0)


# Within a layer ------------------------------------------------------------------------------------------------------


def tensor_parallel_time(
    shape: Shape, parallelism: Parallelism, software: Software, calibration: Calibration, exchange: Exchange
) -> Array:
    """Visible time of the tensor-parallel all-reduces of one layer and micro-batch.

    n forward and n backward of 2·T·h bytes (`tensor_sums`), each a reduce-scatter and an all-gather where sequences
    are split too: n·T·(x_forward·(1 + ρ) + x_backward). Where the stack runs them under the matrix products, a share x
    shows; backward, the sum of the input's gradient can also run under the product for the weights.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Narayanan et al., SC21, section 3.2 (the volumes).

    >>> from app.formulas.training.examples import LOSSLESS, MODEL
    >>> one = Exchange(35e-6)  # 7/4 of 2 MB at 100 GB/s
    >>> round(1e6 * float(tensor_parallel_time(MODEL, Parallelism(tensor=8.0), Software(), LOSSLESS, one)), 6)
    140.0
    """
    if not any_(parallelism.tensor > 1):
        return 0.0
    hidden = 1 - calibration.exposed_tensor
    exposed_forward = (1 - software.overlap_tensor * hidden) * (1 + parallelism.recompute)
    exposed_backward = 1 - maximum(software.overlap_tensor, software.async_tensor) * hidden
    all_reduce = beside_computation(exchange, calibration)
    return all_reduce * (tensor_sums(shape) * (exposed_forward + exposed_backward))


def context_parallel_time(parallelism: Parallelism, calibration: Calibration, exchange: Exchange) -> Array:
    """Visible time of what the ranks of context parallelism exchange, for one layer and micro-batch.

    x·T·(3 + ρ): keys and values once round the ring forward, and backward twice as much with their gradients. Gathered
    before attention they hide under nothing, T·(3 + ρ); heads exchanged there and back neither, T·(2 + ρ).

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers", 2023, section 3; "The Llama 3 herd of
    models", 2024, section 3.3.2 (gathered); Jacobs et al., "DeepSpeed Ulysses", 2023, section 3 (heads).

    >>> from app.formulas.training.examples import LOSSLESS
    >>> one = Exchange(20e-6)  # 4 · 500 tokens · 1,000 = 2 MB at 100 GB/s
    >>> round(1e6 * float(context_parallel_time(Parallelism(context=2.0), LOSSLESS, one)), 6)
    60.0
    """
    if not any_(parallelism.context > 1):
        return 0.0
    exchanged, again = beside_computation(exchange, calibration), parallelism.recompute
    passes = calibration.exposed_context * (3 + again)
    if any_(parallelism.context_exchange != RING):
        apart = where(parallelism.context_exchange == ALL_GATHER, 3 + again, 2 + again)
        passes = where(parallelism.context_exchange == RING, passes, apart)
    return exchanged * passes


def expert_parallel_time(
    shape: Shape, parallelism: Parallelism, software: Software, calibration: Calibration, exchange: Exchange
) -> Array:
    """Visible time of the experts' all-to-all of one average layer and micro-batch: two forward, two backward.

    share·x·(4 + 2ρ)·T. Inside a domain a dispatcher takes a share of what the library's all-to-all would.

    Returns:
        Time, forward and backward and recomputation together [s].

    Source: Lepikhin et al., "GShard", 2020, section 3.

    >>> from app.formulas.training.examples import EXPERTS, LOSSLESS
    >>> one = Exchange(35e-6)  # 7/8 of two copies of 2 MB at 100 GB/s
    >>> round(1e6 * float(expert_parallel_time(EXPERTS, Parallelism(expert=8.0), Software(), LOSSLESS, one)), 6)
    140.0
    """
    if not any_(shape.expert_share > 0):
        return 0.0
    dispatcher = where(exchange.crosses > 0, 1.0, calibration.expert_scale_up)
    all_to_all = beside_computation(exchange, calibration) * dispatcher
    alternating = where(parallelism.virtual_pipeline > 1, 1.0, 1 - software.staged_expert)
    exposed = 1 - software.overlap_expert * alternating * (1 - calibration.exposed_expert)
    return shape.expert_share * exposed * all_to_all * (4 + 2 * parallelism.recompute)


# To the host ---------------------------------------------------------------------------------------------------------


def offload_time(layer_time: Array, size: Array, host_rate: Array) -> Array:
    """Visible time of sending a layer's activations to the host and fetching them again, for one micro-batch.

    max(0, A/B - T). Each way has its own direction of the link, and both are busy while the layer runs forward and
    backward. What does not get away under the forward pass, which is a third of T, waits on the GPU: the last layers
    are needed first and need not leave.

    Args:
        layer_time: time of the layer, T [s].
        size: bytes that it keeps, A [B].
        host_rate: to the host's memory, in one direction, B [B/s].

    Returns:
        Time [s].

    Source: Railyard, the least that any order of transfers leaves; published runs over NVLink-C2C show none.

    >>> round(offload_time(0.015, 1.2e9, 60e9), 6), offload_time(0.03, 1.2e9, 60e9)  # 20 ms each way
    (0.005, 0.0)
    """
    return maximum(size / host_rate - layer_time, 0.0)


# Between stages ------------------------------------------------------------------------------------------------------


def pipeline_parallel_time(
    parallelism: Parallelism, software: Software, calibration: Calibration, exchange: Exchange
) -> Array:
    """Visible time of sending one micro-batch's activations to the next stage, and their gradients back.

    x·2·v·T, once for each of the v chunks of layers that a stage has.

    Returns:
        Time for one micro-batch [s].

    Source: Narayanan et al., SC21, sections 2.2 and 4.1.

    >>> from app.formulas.training.examples import LOSSLESS
    >>> one = Exchange(20e-6)  # 2 MB at 100 GB/s
    >>> round(1e6 * float(pipeline_parallel_time(Parallelism(pipeline=2.0), Software(), LOSSLESS, one)), 6)
    40.0
    """
    piped = parallelism.pipeline > 1
    if not any_(piped):
        return 0.0
    exposed = 1 - software.overlap_pipeline * (1 - calibration.exposed_pipeline)
    send = exposed * 2 * parallelism.virtual_pipeline * beside_computation(exchange, calibration)
    return where(piped, send, 0.0)


# Between replicas ----------------------------------------------------------------------------------------------------


def parameter_gather_time(
    layer_time: Array,
    job: Job,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: StepExchanges,
) -> Array:
    """Visible time of fully sharded parameters, for one layer and micro-batch: two gathers and one reduction.

    G = 3·T(2·P_layer), hidden under the layer: max₄(T_layer, G) - T_layer + x·G. The embeddings are gathered too, an
    equal share beside each layer; routed experts over the ranks that hold the same ones. Where not all replicas share
    one copy, the gradients of a rank's share are also summed among the groups that do. With a pipeline it happens once
    a step, G/m, or 2G/m of the two stages that a rank holds under DualPipe. A flat ring over one network card hides
    less: (T^1.5 + F^1.5)^⅔ - T.

    Args:
        layer_time: time of the layer under which it runs [s].
        job, parallelism, software, calibration: the arguments of a step.
        exchanges: what the replicas exchange.

    Returns:
        Time for one layer and micro-batch [s]; none unless parameters are sharded over several replicas.

    Source: Zhao et al., "PyTorch FSDP", 2023, section 3.2; Rajbhandari et al., "ZeRO", 2020, section 7 (3 volumes).

    >>> from app.formulas.training.examples import JOB, LOSSLESS
    >>> spread = Parallelism(data=8.0, sharding=3.0, sharding_group=8.0)
    >>> thrice = StepExchanges(gather=Exchange(630e-6))  # 3 · 7/8 · 24 MB at 100 GB/s
    >>> round(1e6 * float(parameter_gather_time(1.0, JOB, spread, Software(), LOSSLESS, thrice)), 6)
    630.0
    """
    sharded = parallelism.sharding > 2
    if not any_(sharded):
        return 0.0
    summed = among_groups_time(calibration, exchanges)
    gathered = beside_computation(exchanges.gather, calibration) + summed
    if any_(exchanges.expert_gather.time > 0):
        gathered = gathered + beside_computation(exchanges.expert_gather, calibration)
    always = calibration.exposed_gather * gathered
    visible = smooth_maximum(layer_time, gathered) - layer_time + always
    if any_(software.flat_sharding > 0):
        flat = beside_computation(exchanges.flat_gather, calibration) + summed
        exposed = np.power(np.power(layer_time, 1.5) + np.power(flat, 1.5), 2 / 3) - layer_time
        visible = where(software.flat_sharding > 0, exposed, visible)
    once = parallelism.stages_held * gathered / parallelism.micro_batches(job)
    time = where(parallelism.pipeline > 1, once, visible)
    return where(sharded & (parallelism.replicas > 1), time, 0.0)


def among_groups_time(calibration: Calibration, exchanges: StepExchanges) -> Array:
    """Time in which the groups of replicas that have a whole copy each sum up the gradients of a layer.

    Args:
        calibration: the constants of the step.
        exchanges: what the replicas exchange.

    Returns:
        Time for one layer beside computation, those of routed experts too [s].

    Source: Zhao et al., "PyTorch FSDP", 2023, section 3.2.2 (hybrid sharding).

    >>> from app.formulas.training.examples import LOSSLESS
    >>> among_groups_time(LOSSLESS, StepExchanges(share=Exchange(0.02, 1.0), expert_share=Exchange(0.03, 1.0)))
    0.05
    """
    parts = (part for part in (exchanges.share, exchanges.expert_share) if any_(part.time > 0))
    return sum((beside_computation(part, calibration) for part in parts), start=0.0)


def data_parallel_time(
    stage_time: Array,
    held: Held,
    job: Job,
    parallelism: Parallelism,
    software: Software,
    calibration: Calibration,
    exchanges: StepExchanges,
) -> Array:
    """Visible time of the exchange of gradients and weights in one step, parameters that are sharded too apart.

    It runs under the last min(m, p) micro-batches of a stage, of whose time a share can hide it; x/v of it always
    shows. Where sharded gradients are reduced after every micro-batch, each reduction runs under the backward pass, two
    thirds of that time; what does not fit there shows, and its last bucket.

    Args:
        stage_time: time of one micro-batch on the slowest stage [s].
        held: parameters on this GPU [1].
        job, parallelism, software, calibration: the arguments of a step.
        exchanges: what the replicas exchange.

    Returns:
        Time for one step [s].

    Source: Li et al., "PyTorch distributed", 2020, section 3.2.3 (overlap); Rajbhandari et al., "ZeRO", 2020.

    >>> from app.formulas.training.examples import JOB, LOSSLESS
    >>> spread, once = Parallelism(data=8.0), StepExchanges(data=Exchange(0.07))
    >>> data_parallel_time(1.0, Held(1e9, 0.0, 0.0), JOB, spread, Software(), LOSSLESS, once)  # nothing hidden
    0.07
    """
    if not any_(parallelism.sharding <= 2):
        return 0.0
    exchange = beside_computation(exchanges.data, calibration)
    if any_(exchanges.expert_data.time > 0):
        exchange = exchange + beside_computation(exchanges.expert_data, calibration)
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
