"""When the stages of a pipeline work and wait within one step."""

from typing import NamedTuple

from app.formulas.arrays import Array, maximum, minimum, where

FORWARD = 1 / 3
"""Share of a stage's work that is forward: a backward pass takes twice as long."""


class Waits(NamedTuple):
    """Where one stage waits.

    Attributes:
        first: until its first forward pass [s].
        middle: before its first backward pass [s].
        last: after its last backward pass [s].
    """

    first: Array
    middle: Array
    last: Array


def stage_waits(stage: Array, stages: Array, bubble: Array) -> Waits:
    """How the bubble of a step lies on one stage of its pipeline.

    Stage i of p, from 0, gets its first micro-batch after i forward passes and is done i backward passes before the
    first stage: of a bubble b = (p - 1)·(F + B), it waits b·i/(p - 1)·⅓ at the start, b·i/(p - 1)·⅔ at the end, and the
    rest between its first forward passes and its first backward one. Each stage waits b in all.

    Args:
        stage: place in the pipeline, i [1].
        stages: stages of the pipeline, p [1].
        bubble: time that a stage waits in a step, b [s].

    Returns:
        Times [s].

    Source: Narayanan et al., SC21, figure 3 and section 2.2 (1F1B; a chunked schedule divides each by its chunks).

    >>> [float(time) for time in stage_waits(1.0, 4.0, 9.0)]  # F is 1 s, B 2 s: one forward, two stages away, one back
    [1.0, 6.0, 2.0]
    """
    place = stage / maximum(stages - 1, 1)
    first = bubble * place * FORWARD
    last = bubble * place * (1 - FORWARD)
    return Waits(first, bubble - first - last, last)


def warm_up_passes(stage: Array, stages: Array, micro_batches: Array, chunks: Array) -> Array:
    """Forward passes of chunks that a stage makes before its first backward one [1].

    p - 1 - i micro-batches; with v chunks on each stage 2·(p - 1 - i) + (v - 1)·p passes of a chunk; no more than m·v.

    Source: Narayanan et al., SC21, section 2.2; Megatron-LM, schedules.py (the interleaved count).

    >>> float(warm_up_passes(0.0, 4.0, 8.0, 1.0)), float(warm_up_passes(3.0, 4.0, 8.0, 1.0))
    (3.0, 0.0)
    >>> float(warm_up_passes(0.0, 4.0, 8.0, 2.0))  # 2 · 3 and 4
    10.0
    """
    behind = stages - 1 - stage
    passes = where(chunks > 1, 2 * behind + (chunks - 1) * stages, behind)
    return minimum(passes, micro_batches * chunks) * 1.0
