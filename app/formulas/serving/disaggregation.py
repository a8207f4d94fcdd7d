"""Prompts and answers apart: a pool of replicas for each, and the network that carries keys and values between them."""

from __future__ import annotations

from dataclasses import replace

from app.formulas.arrays import Array, maximum, minimum
from app.formulas.serving.decode import StepBatch, step_parts
from app.formulas.serving.kv_cache import sequence_bytes, sequences_held
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad, ServingRates


def transfer_bytes(model: ServedModel, load: ServingLoad) -> Array:
    """Bytes of keys and values that one prompt leaves, over all layers and heads: what goes from pool to pool.

    V((1 - g)·s_i) of one GPU: what is cached of all prompts lies in both pools.

    Returns:
        Bytes [B].

    Source: Zhong et al., "DistServe", 2024, section 3.3.

    >>> from app.formulas.serving.serving_examples import MODEL
    >>> transfer_bytes(MODEL, ServingLoad(input_tokens=1000, output_tokens=1, concurrency=1, token_budget=8192))
    20000000.0
    """
    return sequence_bytes(model, Layout(), load.prompt)


def transfer_time(volume: Array, rate: Array) -> Array:
    """Time to send the keys and values of one prompt, V/B.

    Args:
        volume: bytes of one prompt, V [B].
        rate: the slower of what the two replicas send and take, B [B/s].

    Returns:
        Time [s].

    Source: Zhong et al., "DistServe", 2024, section 3.3.

    >>> transfer_time(1e9, 5e10)
    0.02
    """
    return volume / rate


def prompts_carried(gpus: Array, rate: Array, volume: Array) -> Array:
    """Prompts a second whose keys and values the smaller of two pools sends or takes, n·B/V.

    Args:
        gpus: GPUs of the smaller pool, n [1].
        rate: what one GPU sends or takes, B [B/s].
        volume: bytes of one prompt, V [B].

    Returns:
        Rate [1/s].

    Source: Zhong et al., "DistServe", 2024, section 3.3.

    >>> prompts_carried(gpus=8, rate=5e10, volume=1e9)
    400.0
    """
    return gpus * rate / volume


def prompts_held(
    model: ServedModel, gpu: ServingRates, layout: Layout, load: ServingLoad, constants: ServingConstants
) -> Array:
    """Prompts whose keys and values an attention rank of a replica for prompts holds at once, in each of p stages.

    (φ·M - W - R), less a prefix that is cached, over the bytes of p prompts: as many batches are on their way through
    the stages.

    Returns:
        Prompts, 0 where the weights leave no room [1].

    Source: Zhong et al., "DistServe", 2024, section 4.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> load = ServingLoad(input_tokens=1000, output_tokens=1000, concurrency=1, token_budget=8192)
    >>> round(prompts_held(MODEL, GPU, Layout(), load, LOSSLESS))  # (80 - 0.7) GB over 20 MB
    3965
    """
    prompts_alone = replace(load, output_tokens=0.0)
    held = sequences_held(model, gpu, layout, prompts_alone, constants)
    return held / (layout.attention_data * layout.pipeline)


def prompt_pool(
    model: ServedModel, gpu: ServingRates, layout: Layout, load: ServingLoad, constants: ServingConstants
) -> tuple[Array, Array]:
    """Prompts per second of a replica that does nothing else, and the time of one.

    A step takes as many whole prompts as its budget holds, on each attention rank; a longer prompt takes several.

    Returns:
        Rate [1/s] and time [s].

    Source: Zhong et al., "DistServe", 2024, section 4.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> load = ServingLoad(input_tokens=8192, output_tokens=1, concurrency=1, token_budget=8192)
    >>> rate, time = prompt_pool(MODEL, GPU, Layout(), load, LOSSLESS)
    >>> round(float(rate * time), 6)
    1.0
    """
    tokens = maximum(load.token_budget // load.prompt, 1.0) * minimum(load.prompt, load.token_budget)
    batch = StepBatch(0.0, tokens, 0.0, load.prompt_keys)
    stage = step_parts(batch, model, gpu, layout, constants).total
    return layout.attention_data * tokens / load.prompt / stage, layout.pipeline * stage * maximum(
        load.prompt / tokens, 1.0
    )


def pools_rate(prompts: Array, answers: Array) -> Array:
    """Requests per second and GPU of two pools in the ratio that keeps both busy, 1/(1/r_p + 1/r_d).

    Args:
        prompts: prompts per second and GPU of the one, r_p [1/s].
        answers: answers per second and GPU of the other, r_d [1/s].

    Returns:
        Rate [1/s].

    Source: Zhong et al., "DistServe", 2024, section 4.

    >>> pools_rate(3.0, 1.0)  # one GPU of four takes prompts
    0.75
    """
    return 1 / (1 / prompts + 1 / answers)
