"""How a cluster serves best: layout and load under the limits, in one pool of replicas or in two."""

from dataclasses import dataclass
from math import floor

import numpy as np

from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas.serving.disaggregation import pools_rate, prompt_pool, transfer_bytes, transfer_time
from app.formulas.serving.kv_cache import serving_weights
from app.formulas.serving.serving_arguments import Layout
from app.formulas.serving.token_costs import users_served
from app.plan.serving.serving_inputs import ServingInputs, Setting, on_network, serving_inputs
from app.plan.serving.serving_search import Limits, Tried, layouts, limits_of, try_all


@dataclass(frozen=True, eq=False)
class PromptPool:
    """The pool for prompts: its layout, what a replica computes, and how many there are."""

    layout: Layout
    rate: float
    time: float
    workers: int


@dataclass(frozen=True, eq=False)
class Operation:
    """How the cluster runs: layout, load of a replica, replicas, and the pool for prompts where there is one.

    Attributes:
        layout: of the replicas that answer.
        concurrency: sequences in flight in one of them.
        workers: how many there are.
        prompts: the pool that computes prompts for them.
        requests: answers per second of the whole cluster [1/s].
    """

    layout: Layout
    concurrency: float
    workers: int
    prompts: PromptPool | None
    requests: float

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        prompts = int(self.prompts.layout.gpus) * self.prompts.workers if self.prompts else 0
        return int(self.layout.gpus) * self.workers + prompts


@dataclass(frozen=True, eq=False)
class ServingPlan:
    """A question, how the cluster runs, and everything tried on the way; no operation where nothing fits the limits."""

    setting: Setting
    inputs: ServingInputs
    limits: Limits
    tried: Tried
    operation: Operation | None
    asked: float | None
    """Requests in flight on the whole cluster that were asked for; ``None``: as many as the limits leave."""


def plan_serving(it: Setting, catalog: Catalog) -> ServingPlan:
    """Find how the cluster serves best."""
    inputs = serving_inputs(it, catalog, TYPICAL)
    limits = limits_of(it.question, catalog.serving["tails"])
    tried = try_all(it, inputs, it.question.gpus)
    asked = asked_concurrency(it, tried)
    aggregated = None if it.question.serving == "disaggregated" else one_pool(it, tried, limits, asked)
    apart = None if it.question.serving == "aggregated" or asked else two_pools(it, inputs, limits, catalog)
    known = [one for one in (aggregated, apart) if one]
    best = max(known, key=lambda one: one.requests) if known else None
    return ServingPlan(it, inputs, limits, tried, best, asked)


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
    wanted = np.asarray(users) >= question.users if question.users else requests >= (question.request_rate or 0.0)
    possible = tried.fits & wanted
    total = tried.concurrency * replicas
    if not possible.any():
        return float(total[tried.fits].max()) if tried.fits.any() else 1.0
    return float(np.where(possible, total, np.inf).min())


def one_pool(it: Setting, tried: Tried, limits: Limits, asked: float | None) -> Operation | None:
    """Replicas that do both: those that answer most within the limits, or the fastest for a load that is asked for."""
    gpus = it.question.gpus
    if asked is None:
        place = tried.best(limits)
        if place is None:
            return None
        layout, concurrency = tried.at(place[0]), float(tried.concurrency[place])
        workers = floor(gpus / float(layout.gpus))
        return Operation(layout, concurrency, workers, None, float(tried.requests[place]) * gpus)
    replicas = np.floor(gpus / np.asarray(tried.layout.gpus))
    enough = tried.concurrency * replicas >= asked * (1 - 1e-9)
    kept = tried.fits & enough & (tried.time_per_token <= limits.time_per_token)
    kept &= tried.first_token <= limits.first_token
    if not kept.any():
        return None
    row, column = divmod(int(np.argmin(np.where(kept, tried.time_per_token, np.inf))), kept.shape[1])
    layout, workers = tried.at(row), int(replicas[row, 0])
    return Operation(layout, asked / workers, workers, None, float(tried.requests[row, column]) * gpus)


def two_pools(it: Setting, inputs: ServingInputs, limits: Limits, catalog: Catalog) -> Operation | None:
    """A pool for prompts and one for answers, in whole replicas that keep both busy; ``None`` where they do not fit."""
    question, gpus = it.question, it.question.gpus
    if gpus < 2:
        return None
    shares = catalog.serving["pools"]
    layout = layouts(question, it.model, gpus - 1, it.cluster.domain)
    rate, time = prompt_pool(
        inputs.model, on_network(inputs.gpu, it.site, layout), layout, inputs.load, inputs.constants
    )
    size = np.asarray(layout.gpus)
    sent = np.asarray(transfer_time(transfer_bytes(inputs.model, inputs.load), link_between(it, inputs) * size))
    weights = np.asarray(serving_weights(inputs.model, layout))
    room = inputs.constants.memory_share * inputs.gpu.memory_capacity - inputs.constants.reserved_memory
    first = np.asarray(inputs.constants.first_token_time + 1.5 * np.asarray(time) + sent)
    possible = (weights < room) & (first <= limits.first_token)
    answers = try_all(it, inputs, gpus - 1, alone=True)
    kept = answers.fits & (answers.time_per_token <= limits.time_per_token)
    if not possible.any() or not kept.any():
        return None
    rates = np.asarray(rate) / size * shares["prompts"].typical
    prompts = int(np.argmax(np.where(possible, rates, -1.0)))
    place = int(np.argmax(np.where(kept, answers.requests, -1.0)))
    row, column = divmod(place, kept.shape[1])
    each = float(answers.requests[row, column]) * shares["answers"].typical
    decode, chosen = answers.at(row), Layout(**{n: float(getattr(layout, n)[prompts, 0]) for n in LAYOUT_FIELDS})
    ideal = float(pools_rate(float(rates[prompts, 0]), each)) / float(rates[prompts, 0])
    taken, given = int(chosen.gpus), int(decode.gpus)
    best: Operation | None = None
    for count in {floor(gpus * ideal / taken), floor(gpus * ideal / taken) + 1, max(round(gpus * ideal / taken), 1)}:
        workers = floor((gpus - count * taken) / given)
        if count < 1 or workers < 1:
            continue
        requests = min(count * taken * float(rates[prompts, 0]), workers * given * each)
        pool = PromptPool(chosen, float(rates[prompts, 0]) * taken, float(np.asarray(time)[prompts, 0]), count)
        load = requests / workers * float(answers.concurrency[row, column]) / (each * given)
        one = Operation(decode, max(load, 1.0), workers, pool, requests)
        best = one if best is None or requests > best.requests else best
    return best


LAYOUT_FIELDS = ("tensor", "attention_data", "expert", "pipeline")


def link_between(it: Setting, inputs: ServingInputs) -> float:
    """What one GPU sends to the other pool: over the scale-up link where the cluster is one domain [B/s]."""
    within = it.question.gpus <= it.cluster.domain
    if within:
        return float(np.ravel(inputs.gpu.scale_up)[0])
    everyone = Layout(tensor=float(it.question.gpus))
    return float(np.ravel(on_network(inputs.gpu, it.site, everyone).scale_out)[0])
