"""What one bad part costs a plan: a link that loses packets or rate, a node that is slower than the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.catalog.load import Catalog
from app.plan.all_reduce import time_all_reduce
from app.plan.band import nan_is_an_answer
from app.plan.job.job import fabric_on, job_on
from app.plan.network import network_of
from app.plan.result import Parallelism
from app.plan.scenario import NetworkRequest, Scenario
from app.studies.scaling import with_parallelism

BETWEEN = {"degraded_link": "leaf-spine"}
QUESTIONS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("One link of a node loses 1 % of its packets", {"link_loss": 0.01}),
    ("One link of a node is at half rate", {"link_rate_left": 0.5}),
    ("One link between switches loses 1 % of its packets", BETWEEN | {"link_loss": 0.01}),
    ("One link between switches is at half rate", BETWEEN | {"link_rate_left": 0.5}),
    ("One node is 10 % slower", {"slow_node": 0.1}),
)
"""Each question with the fields that ask it."""
SOUND = {
    name: NetworkRequest.model_fields[name].default
    for name in ("slow_node", "degraded_link", "link_rate_left", "link_loss")
}
"""The fields of a cluster whose parts are all sound."""


@dataclass(frozen=True)
class BadPart:
    """A question and its answer; factors are over the same plan with all parts sound, ``None`` where nothing runs.

    Attributes:
        question: in words.
        fields: what asks it of a plan.
        all_reduce: time of the plan's all-reduce [s].
        all_reduce_factor: over that without the bad part [1].
        step: time of a training step [s].
        step_factor: over that without the bad part [1].
    """

    question: str
    fields: Mapping[str, object]
    all_reduce: float | None
    all_reduce_factor: float | None
    step: float | None
    step_factor: float | None


@nan_is_an_answer
def bad_parts(scenario: Scenario, catalog: Catalog, message: float, chosen: Parallelism | None) -> tuple[BadPart, ...]:
    """What each of `QUESTIONS` does to a plan's all-reduce [B], and to its step with the parallelism that it chose."""
    fixed = with_parallelism(scenario, chosen) if chosen else scenario

    def times(fields: Mapping[str, object]) -> tuple[float | None, float | None]:
        variant = fixed.model_copy(update=SOUND | dict(fields))
        network = network_of(variant, catalog)
        reduced = time_all_reduce(fabric_on(network, variant, catalog), message).all_reduce.time.typical
        step = job_on(network, variant, catalog).training.step_time.typical if chosen else float("nan")
        return _known(reduced), _known(step)

    sound = times({})
    rows = []
    for question, fields in QUESTIONS:
        bad = times(fields)
        (all_reduce, step), (slower, longer) = bad, map(_over, bad, sound)
        rows.append(BadPart(question, fields, all_reduce, slower, step, longer))
    return tuple(rows)


def _known(time: float) -> float | None:
    return time if time == time else None


def _over(bad: float | None, sound: float | None) -> float | None:
    return bad / sound if bad and sound else None
