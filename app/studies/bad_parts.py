"""What one bad part costs a plan: a link that loses packets or rate, a node that is slower than the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from app.catalog.load import Catalog
from app.plan.all_reduce import time_all_reduce
from app.plan.band import nan_is_an_answer
from app.plan.cluster import Cluster
from app.plan.communication import Communication
from app.plan.job.inputs import JobRequest
from app.plan.job.job import fabric_on, plan_job
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

    def times(fields: Mapping[str, object]) -> Times:
        variant = fixed.model_copy(update=SOUND | dict(fields))
        network = network_of(variant, catalog)
        return times_on(fabric_on(network, variant, catalog), network.cluster, variant, catalog, message, bool(chosen))

    sound = times({})
    rows = []
    for question, fields in QUESTIONS:
        bad = times(fields)
        factors = bad.over(sound)
        rows.append(BadPart(question, fields, bad.all_reduce, factors.all_reduce, bad.step, factors.step))
    return tuple(rows)


class Times(NamedTuple):
    """All-reduce and step of a plan [s], or their factors [1]; ``None`` where nothing runs."""

    all_reduce: float | None = None
    step: float | None = None

    def over(self, sound: Times) -> Times:
        """How many times as long as on a cluster whose parts are all sound."""
        return Times(*(now / before if now and before else None for now, before in zip(self, sound, strict=True)))


def times_on(
    fabric: Communication, cluster: Cluster, scenario: Scenario, catalog: Catalog, message: float, runs: bool
) -> Times:
    """The times of a message [B], and of a step where the scenario's parallelism is one that runs, on some links."""
    reduced = time_all_reduce(fabric, message).all_reduce.time.typical
    request = JobRequest.of(scenario, catalog)
    step = plan_job(cluster, fabric, request, catalog, 1).training.step_time.typical if runs else float("nan")
    return Times(*(time if time == time else None for time in (reduced, step)))
