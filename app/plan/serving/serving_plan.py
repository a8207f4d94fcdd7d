"""How a cluster serves best: layout and load under the limits, in one pool of replicas or in two."""

from dataclasses import dataclass, replace

import numpy as np

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.plan.scenario import Scenario
from app.plan.serving.serving_inputs import ServingInputs, Setting, serving_inputs
from app.plan.serving.serving_search import (
    Limits,
    Tried,
    asks_for_a_load,
    limits_of,
    read_off,
    share_of_load,
    try_all,
    up_to_limits,
)
from app.plan.serving.two_pools import Operation, both_pools, pools_asked, two_pools


@dataclass(frozen=True, eq=False)
class ServingPlan:
    """A question, how the cluster runs, and everything tried on the way; no operation where nothing fits the limits."""

    setting: Setting
    inputs: ServingInputs
    limits: Limits
    tried: Tried
    operation: Operation | None


def plan_serving(it: Setting, catalog: Catalog) -> ServingPlan:
    """Find how the cluster serves best.

    A load that is asked for is answered as soon as can be. Of one that is more than those layouts and pools carry that
    answer most, as much as they do: more who ask only wait longer. Within limits it is so only where none carries it.
    """
    return plan_with(it, serving_inputs(it, catalog, TYPICAL), catalog)


def plan_with(it: Setting, inputs: ServingInputs, catalog: Catalog) -> ServingPlan:
    """The same with inputs that may be others than the question's own."""
    limits = limits_of(it.question, catalog.serving["tails"])
    tried = up_to_limits(try_all(it, inputs, it.question.gpus), limits, it, inputs)
    pools = pools_asked(it.question)
    both = None if pools == "aggregated" else both_pools(it, inputs, limits, catalog)

    def best(asked: Setting) -> Operation | None:
        operations = [
            None if pools == "disaggregated" else one_pool(asked, tried, limits),
            two_pools(asked, both) if both else None,
        ]
        loaded = asks_for_a_load(asked.question)
        return min(
            filter(None, operations),
            key=lambda operation: operation.in_flight / operation.requests if loaded else -operation.requests,
            default=None,
        )

    operation = best(it)
    if come_as_they_may(it.question):
        most = best(replace(it, question=it.question.model_copy(update={"users": None, "request_rate": None})))
        limited = np.isfinite(limits.first_token) or np.isfinite(limits.time_per_token)
        if most and (operation is None or (not limited and carried(it, most) < 1)):
            operation = most
    return ServingPlan(it, inputs, limits, tried, operation)


def come_as_they_may(question: Scenario) -> bool:
    """Whether those who ask wait where they are too many; so many in flight, in their place, are there or not."""
    return asks_for_a_load(question) and question.concurrency is None


def carried(it: Setting, operation: Operation) -> float:
    """What an operation carries of the load that is asked for [1]."""
    in_flight, requests = np.asarray(operation.in_flight), np.asarray(operation.requests)
    return float(share_of_load(it.question, in_flight, requests, in_flight / requests))


TOO_MUCH = 1.01
"""Times what is carried that a load may be: loads are read off between those that were tried."""


def overload(it: Setting, operation: Operation) -> float:
    """Times what an operation carries that the load is, where one is asked for and is too much; else nothing [1]."""
    times = 1 / carried(it, operation) if asks_for_a_load(it.question) else 0.0
    return times if times > TOO_MUCH else 0.0


def one_pool(it: Setting, tried: Tried, limits: Limits) -> Operation | None:
    """Replicas that do both: those that answer most within the limits, or that answer a load soonest."""
    gpus, question = it.question.gpus, it.question
    if not asks_for_a_load(question):
        place = tried.best(limits, gpus)
        if place is None:
            return None
        layout, concurrency = tried.at(place[0]), float(tried.concurrency[place])
        workers = int(tried.replicas(gpus)[place[0], 0])
        rate = float(tried.requests[place] * layout.gpus) * workers
        return Operation(layout, concurrency, workers, None, rate, concurrency * workers)
    replicas = tried.replicas(gpus)
    share = np.maximum.accumulate(replicas * tried.share(question), axis=1)  # more in flight than answer most carry it
    carry = share >= 1 - 1e-9
    soonest = np.argmax(carry, axis=1)[:, None]
    kept = np.take_along_axis(tried.within(limits) & carry, soonest, axis=1)
    if not kept.any():
        return None
    loads, each = read_off(np.ones_like(replicas), share, tried.concurrency, tried.each)
    row = int(np.argmin(np.where(kept, loads / each, np.inf)))
    fewest = min(1 / float(share[row, 0]), 1.0)  # below one in flight they come as much more seldom
    in_flight, rate, workers = fewest * float(loads[row, 0]), fewest * float(each[row, 0]), int(replicas[row, 0])
    return Operation(tried.at(row), in_flight, workers, None, rate * workers, in_flight * workers)
