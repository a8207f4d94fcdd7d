"""The steady state of an engine that admits a prompt whenever an answer ends: time to first token and per token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.serving.decode import StepBatch, StepParts, step_parts
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad, ServingRates

ROUNDS = 2
"""Rounds of the iteration: a third moves 95 of 100 published operating points by less than 1.5 per cent, and no time
per token by more than 13. It settles too low where answers have few tokens: fewer decode, so that fewer prompts come,
and so on."""
LEAST_DECODING = 0.05
"""Share of the requests in flight that counts at least for how many prompts a step takes: the others wait for one."""


@dataclass(frozen=True)
class SteadyState:
    """A replica under a load.

    Attributes:
        time_per_token: mean time between two tokens of an answer, TPOT [s].
        first_token: mean time from a request to the first token of its answer, TTFT [s].
        requests: answers of the replica per second [1/s].
        decode: parts of a step that only decodes.
        prompt: time of one prompt's own work [s].
        utilisation: share of the time that a rank computes prompts, ρ [1].
    """

    time_per_token: Array
    first_token: Array
    requests: Array
    decode: StepParts
    prompt: Array
    utilisation: Array


def prompt_tokens_of_a_step(sequences: Array, load: ServingLoad) -> Array:
    """Tokens of the prompts that a step takes when it takes any: what arrives in a step, at least one prompt.

    τ = min(max(1, β/s_o)·s_i, budget): β/s_o answers end in a step, and as many prompts take their places.

    Returns:
        Tokens [1].

    Source: Agrawal et al., "Sarathi-Serve", 2024, section 4 (the budget); Little's law.

    >>> load = ServingLoad(input_tokens=1000, output_tokens=100, concurrency=1, token_budget=8192.0)
    >>> prompt_tokens_of_a_step(50.0, load), prompt_tokens_of_a_step(200.0, load), prompt_tokens_of_a_step(1e5, load)
    (1000.0, 2000.0, 8192.0)
    """
    return minimum(maximum(sequences / load.output_tokens, 1.0) * load.prompt, load.token_budget)


def steps_with_prompts(sequences: Array, tokens: Array, ranks: Array, load: ServingLoad, exponent: Array) -> Array:
    """Share of the steps that take prompts, on the rank itself or on any that it waits for.

    φ = min(1, β/s_o·s_i/τ), and 1 - (1 - φ)^(a^x) with a attention ranks that step together.

    Args:
        sequences: sequences of a rank, β [1].
        tokens: prompt tokens of a step that takes any, τ [1].
        ranks: attention ranks, a [1].
        load: lengths of prompts and answers.
        exponent: how far ranks take their prompts at different steps, x [1].

    Returns:
        Share [1].

    Source: Railyard's; the exponent is fitted to operating points.

    >>> load = ServingLoad(input_tokens=1000, output_tokens=100, concurrency=1, token_budget=8192)
    >>> steps_with_prompts(50.0, 1000.0, 1.0, load, 0.5)
    0.5
    """
    rank_share = minimum(sequences / load.output_tokens * load.prompt / tokens, 1.0)
    return 1 - (1 - minimum(rank_share, 1 - 1e-9)) ** (ranks**exponent)


def _tokens_each(load: ServingLoad, constants: ServingConstants) -> Array:
    """Tokens of a decoding sequence in a step: its last, and those drafted, of which a share is accepted.

    1 + α/accepted.

    Returns:
        Tokens [1].

    Source: Leviathan et al., "Fast inference from transformers via speculative decoding", 2023.

    >>> from app.formulas.serving.serving_examples import LOSSLESS
    >>> load = ServingLoad(input_tokens=1, output_tokens=1, concurrency=1, token_budget=1, accepted_tokens=1.5)
    >>> _tokens_each(load, replace(LOSSLESS, acceptance=0.75))
    3.0
    """
    return 1 + load.accepted_tokens / constants.acceptance


def answers_alone(
    model: ServedModel, gpu: ServingRates, layout: Layout, load: ServingLoad, constants: ServingConstants
) -> tuple[Array, Array, StepParts]:
    """Time per token of a replica whose prompts another pool computes: all C sequences decode in every step.

    TPOT = p·t_dec/(1 + α) with C/(a·p) sequences of an attention rank; the first token takes a step, p·t_dec.

    Returns:
        Time per token, that of a step through all stages, and the parts of a stage's [s].

    Source: Zhong et al., "DistServe", 2024, section 3.2.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> load = ServingLoad(input_tokens=1, output_tokens=1e6, concurrency=1, token_budget=8192)
    >>> time, *_ = answers_alone(MODEL, GPU, Layout(), load, LOSSLESS)
    >>> round(1e6 * float(time))  # 500 µs of weights, 10 GB of keys at 1 TB/s
    10500
    """
    sequences = load.concurrency / (layout.attention_data * layout.pipeline)
    batch = StepBatch(sequences, 0.0, load.context, load.prompt_keys, _tokens_each(load, constants))
    decode = step_parts(batch, model, gpu, layout, constants)
    step = layout.pipeline * decode.total
    return step / (1 + load.accepted_tokens), step, decode


def _answers_both_prompts(
    batch: StepBatch, model: ServedModel, gpu: ServingRates, layout: Layout, constants: ServingConstants
) -> tuple[StepParts, Array, Array, Array]:
    """Parts of a step that only decodes, its time, that of one that takes prompts too, and of one of prompts alone.

    Tables of layouts and loads are small, so all are worked out at once along an axis before theirs: a third of the
    calls. The parts are left so; :func:`_first` takes those of the step that only decodes.

    Returns:
        Times [s].

    Source: as for :func:`app.formulas.serving.decode.step_parts`.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> batch = StepBatch(1.0, 1000.0, 0.0, 500.0)
    >>> _, *times = _answers_both_prompts(batch, MODEL, GPU, Layout(), LOSSLESS)
    >>> [round(1e6 * float(time)) for time in times]  # products take 300 ⊕ 300 µs for 300, attention 20
    [500, 598, 598]
    """
    tokens, sequences = batch.prompt_tokens, batch.sequences
    if np.ndim(tokens) < 2:
        answers = step_parts(replace(batch, prompt_tokens=0.0), model, gpu, layout, constants)
        both, prompts = (
            step_parts(replace(batch, sequences=some), model, gpu, layout, constants).total for some in (sequences, 0.0)
        )
        return answers, answers.total, both, prompts
    stacked = StepBatch(
        sequences=np.stack([sequences, sequences, 0 * sequences]),
        prompt_tokens=np.stack([0 * tokens, tokens, tokens]),
        context=batch.context,
        prompt_keys=batch.prompt_keys,
        tokens_each=batch.tokens_each,
    )
    parts = step_parts(stacked, model, gpu, layout, constants)
    answers_time, both_time, prompts_time = np.asarray(parts.total)
    return parts, answers_time, both_time, prompts_time


def _first(both: StepParts, dimensions: int) -> StepParts:
    """The first of some steps whose parts have an axis more than their table has dimensions, where they differ."""
    apart = {name: part[0] if np.ndim(part) > dimensions else part for name, part in vars(both).items()}
    return StepParts(**apart)


def steady_state(
    model: ServedModel, gpu: ServingRates, layout: Layout, load: ServingLoad, constants: ServingConstants
) -> SteadyState:
    """A replica that always has C requests in flight, by iterating what share of them decodes.

    TPOT = t_dec + ψ·φ·(1 - 1/C)·(t_mix - t_dec), times the stages of a pipeline: t_mix is the step that takes prompts
    too, or the two steps of an engine that runs prompts alone; no answer waits for its own prompt, so of those that
    come 1 - 1/C delay it. TTFT = start + t_prompt·(1 + burst·(C/a - 1)/2) + w·t_dec + queue: engines prepare a step
    while another runs, so that a request waits for w steps where others are in flight. queue = q·ρ/(2·(1.1 - ρ)) times
    the time of a prompt: a closed loop keeps it finite where ρ comes near one, and no longer than the prompts of the
    C/a - 1 others take. In waves answers that began one behind another end so, each of those w steps holds the prompt
    of another request, and the queue is w prompts. Where answers are short TTFT is when C/a·s_i/τ steps are over that
    each take prompts, t_dec + ψ·(t_mix - t_dec), and no less than those prompts alone: more are not computed.
    Little's law: C = requests·(TTFT + TPOT·(s_o - 1)), of which requests·TPOT·(s_o - 1) decode; for how many prompts a
    step takes they count as a twentieth of C at least, since where fewer do others wait.

    Returns:
        Times [s] and rates [1/s].

    Source: Yu et al., "Orca", 2022 (continuous batching); SGLang team, "SGLang v0.4: zero-overhead batch scheduler",
    2024 (steps prepared ahead); Little, 1961; Pollaczek–Khinchine for the queue; Reiser, Lavenberg, 1980, for what each
    of C in a closed loop meets: the other C - 1.

    >>> from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
    >>> load = ServingLoad(input_tokens=1, output_tokens=1e6, concurrency=1, token_budget=8192)
    >>> alone = steady_state(MODEL, GPU, Layout(), load, LOSSLESS)
    >>> round(1e6 * float(alone.time_per_token))  # 500 µs of weights, 10 GB of keys at 1 TB/s
    10500
    """
    speed = 1 + load.accepted_tokens
    each = _tokens_each(load, constants)
    resident = load.concurrency / (layout.attention_data * layout.pipeline)
    decoding: Array = 1.0
    for _ in range(ROUNDS):
        sequences = resident * decoding
        ending = resident * maximum(decoding, LEAST_DECODING) * speed
        tokens = prompt_tokens_of_a_step(ending, load)
        batch = StepBatch(sequences, tokens, load.context, load.prompt_keys, each)
        parts, decode_time, mixed_time, prompts_time = _answers_both_prompts(batch, model, gpu, layout, constants)
        share = steps_with_prompts(ending, tokens, layout.attention_data, load, constants.synchronisation)
        added = maximum(mixed_time - decode_time, 0.0)
        whole = added + decode_time
        if any_(load.prompts_alone > 0):
            added = where(load.prompts_alone > 0, prompts_time, added)
            whole = where(load.prompts_alone > 0, prompts_time, whole)
        delay = constants.interference * added
        step = decode_time + share * (1 - 1 / maximum(load.concurrency, 1.0)) * delay
        per_token = layout.pipeline * step / speed
        prompt = whole * (load.prompt / tokens)
        busy = minimum(share * whole / step, 0.95)
        others = maximum(load.concurrency / layout.attention_data - 1, 0.0)
        random = constants.queueing * busy / (2 * (1.1 - busy))
        queue = minimum(where(load.waves > 0, constants.steps_ahead, random), others) * prompt
        ahead = constants.steps_ahead * minimum(maximum(load.concurrency - 1, 0.0), 1.0) * decode_time
        burst = 1 + load.burst * others / 2
        outside = where(load.in_process > 0, 0.0, constants.first_token_time + ahead + queue)
        answer = per_token * maximum(load.output_tokens - 1, 0.0)
        turn = maximum(decode_time + delay, prompts_time)
        turns = load.concurrency / layout.attention_data * (load.prompt / tokens) * turn
        first = maximum(outside + layout.pipeline * prompt * burst, turns - answer)
        decoding = answer / (first + answer)
    return SteadyState(
        time_per_token=per_token,
        first_token=first,
        requests=load.concurrency / (first + answer),
        decode=_first(parts, np.ndim(tokens)) if np.ndim(tokens) > 1 else parts,
        prompt=prompt,
        utilisation=busy,
    )
