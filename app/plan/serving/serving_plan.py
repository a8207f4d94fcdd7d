"""How a cluster serves best: layout and load under the limits, in one pool of replicas or in two."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas.serving.token_costs import users_served
from app.plan.serving.serving_inputs import ServingInputs, Setting, serving_inputs
from app.plan.serving.serving_search import Limits, Tried, limits_of, try_all, up_to_limits
from app.plan.serving.two_pools import Operation, asks_for_pools, two_pools

ROUNDS = 3
"""Times that more is put in flight where an operation carries less than is asked for."""


@dataclass(frozen=True, eq=False)
class ServingPlan:
    """A question, how the cluster runs, and everything tried on the way; no operation where nothing fits the limits."""

    setting: Setting
    inputs: ServingInputs
    limits: Limits
    tried: Tried
    operation: Operation | None
    requested: float | None
    """Requests in flight on the whole cluster that were asked for; ``None``: as many as the limits leave."""


def plan_serving(it: Setting, catalog: Catalog) -> ServingPlan:
    """Find how the cluster serves best."""
    return plan_with(it, serving_inputs(it, catalog, TYPICAL), catalog)


def plan_with(it: Setting, inputs: ServingInputs, catalog: Catalog) -> ServingPlan:
    """The same with inputs that may be others than the question's own."""
    limits = limits_of(it.question, catalog.serving["tails"])
    tried = up_to_limits(try_all(it, inputs, it.question.gpus), limits, it, inputs)
    in_flight = asked_concurrency(it, tried)
    pools = it.question.serving or ("disaggregated" if asks_for_pools(it.question) else None)
    aggregated = apart = None
    if pools != "disaggregated":
        aggregated = _carrying(it, in_flight, lambda load: one_pool(it, tried, limits, load))
    if pools != "aggregated":
        apart = _carrying(it, in_flight, lambda load: two_pools(it, inputs, limits, load, catalog))
    operations = [operation for operation in (aggregated, apart) if operation]
    best = max(operations, key=lambda operation: operation.requests) if operations else None
    return ServingPlan(it, inputs, limits, tried, best, in_flight)


def asked_concurrency(it: Setting, tried: Tried) -> float | None:
    """Requests in flight on the whole cluster that the question asks for, by its fastest layout; blank: ``None``.

    Of users and of requests a second by Little's law: the longer an answer takes, the more are in flight.
    """
    question = it.question
    if question.concurrency is not None:
        return question.concurrency
    if question.users is None and question.request_rate is None:
        return None
    size = np.asarray(tried.layout.gpus)
    replicas = np.floor(question.gpus / size)
    requests = tried.requests * question.gpus
    answer = tried.concurrency * replicas / requests
    users = users_served(requests, answer, question.think_time)
    carried, wanted = (
        (np.asarray(users), question.users) if question.users else (requests, question.request_rate or 0.0)
    )
    possible = tried.fits & (carried >= wanted)
    total = tried.concurrency * replicas
    if not possible.any():
        return float(total[tried.fits].max()) if tried.fits.any() else 1.0
    row, column = divmod(int(np.argmin(np.where(possible, total, np.inf))), total.shape[1])
    about = slice(max(column - 1, 0), column + 1)
    return float(np.interp(wanted, carried[row, about], total[row, about]))


def _carrying(
    it: Setting, in_flight: float | None, find: Callable[[float | None], Operation | None]
) -> Operation | None:
    """The operation with so much in flight that it carries what is asked for: another layout's answers take longer, or
    not so long, as those of the fastest by which the load was reckoned.
    """
    operation = find(in_flight)
    if operation is None or in_flight is None:
        return operation
    for _ in range(ROUNDS):
        if (share := asked_of(it, operation)) <= 1:
            break
        in_flight *= share
        operation = find(in_flight) or operation
    share = min(asked_of(it, operation), 1.0)
    return replace(operation, concurrency=operation.concurrency * share, requests=operation.requests * share)


def asked_of(it: Setting, operation: Operation) -> float:
    """What is asked for over what an operation carries [1]."""
    question = it.question
    if question.concurrency is not None:
        return question.concurrency / (operation.concurrency * operation.workers)
    if question.users is None:
        return (question.request_rate or 0.0) / operation.requests
    return question.users / (operation.in_flight + operation.requests * question.think_time)


def one_pool(it: Setting, tried: Tried, limits: Limits, in_flight: float | None) -> Operation | None:
    """Replicas that do both: those that answer most within the limits, or the fastest for a load that is asked for."""
    gpus = it.question.gpus
    if in_flight is None:
        place = tried.best(limits)
        if place is None:
            return None
        layout, concurrency = tried.at(place[0]), float(tried.concurrency[place])
        workers = floor(gpus / float(layout.gpus))
        return Operation(layout, concurrency, workers, None, float(tried.requests[place] * layout.gpus) * workers)
    replicas = np.floor(gpus / np.asarray(tried.layout.gpus))
    enough = tried.concurrency * replicas >= in_flight * (1 - 1e-9)
    kept = tried.within(limits) & enough
    if not kept.any():
        return None
    row = int(np.argmin(np.where(kept, tried.time_per_token, np.inf))) // kept.shape[1]
    layout, workers = tried.at(row), int(replicas[row, 0])
    each = in_flight / workers
    fewest = min(each / tried.concurrency[row, 0], 1.0)  # below one in flight they come as much more seldom
    requests = fewest * np.interp(each, tried.concurrency[row], tried.requests[row])
    return Operation(layout, each, workers, None, float(requests * layout.gpus) * workers)
