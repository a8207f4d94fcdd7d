"""One training step as a timeline: when each stage of the pipeline works and waits, and what ends the step."""

from collections.abc import Iterator
from dataclasses import dataclass

from app.formulas.training.timeline import FORWARD, stage_waits, warm_up_passes
from app.plan.result import Plan

MOST_STAGES = 8
"""Stages that are shown; of more, the first and the last ones."""
AFTER = ("data_parallel", "optimizer", "end_of_step", "stragglers")
"""Parts of a step that come when the pipeline is done, in their order."""
NAMES = {
    "wait": "Waiting",
    "forward": "Forward, filling",
    "both": "Forward and backward",
    "backward": "Backward, draining",
    "data_parallel": "Gradients and weights",
    "optimizer": "Optimizer",
    "end_of_step": "End of the step",
    "stragglers": "Stragglers",
}


@dataclass(frozen=True)
class Segment:
    """What one stage does for a while: a key of `NAMES`, from when on and how long [s]."""

    what: str
    start: float
    length: float


@dataclass(frozen=True)
class Lane:
    """One stage of the pipeline, counted from 1, through the step."""

    stage: int
    segments: tuple[Segment, ...]


def timeline(plan: Plan) -> tuple[Lane, ...]:
    """The lanes of a step by typical times; each lasts as long as the step. None where nothing is timed."""
    run = plan.training.parallelism
    if run is None or plan.training.step_time is None:
        return ()
    times = {part.name: part.time.typical for part in plan.training.parts if part.time}
    after = {name: times.pop(name) for name in AFTER if times.get(name)}
    bubble = times.pop("bubble", 0.0)
    work = sum(times.values())
    lanes = []
    for stage in _shown(run.pipeline_parallel):
        waits = [float(wait) for wait in stage_waits(stage, run.pipeline_parallel, bubble)]
        passes = run.micro_batches * run.virtual_pipeline
        warm_up = warm_up_passes(stage, run.pipeline_parallel, run.micro_batches, run.virtual_pipeline)
        warm = float(warm_up) / passes
        filling, draining = work * FORWARD * warm, work * (1 - FORWARD) * warm
        parts = [
            ("wait", waits[0]),
            ("forward", filling),
            ("wait", waits[1]),
            ("both", work - filling - draining),
            ("backward", draining),
            ("wait", waits[2]),
            *after.items(),
        ]
        lanes.append(Lane(stage + 1, tuple(_placed(parts))))
    return tuple(lanes)


def _placed(parts: list[tuple[str, float]]) -> Iterator[Segment]:
    """Parts one after the other."""
    start = 0.0
    for what, length in parts:
        if length > 0:
            yield Segment(what, start, float(length))
        start += length


def _shown(stages: int) -> list[int]:
    """Places of the stages that are shown, from 0: all, or as many of the first and last.

    >>> _shown(3), _shown(16)
    ([0, 1, 2], [0, 1, 2, 3, 12, 13, 14, 15])
    """
    if stages <= MOST_STAGES:
        return list(range(stages))
    half = MOST_STAGES // 2
    return [*range(half), *range(stages - half, stages)]
