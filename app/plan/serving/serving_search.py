"""The best layout and load: every one that fits, evaluated at once, and what limits leave of them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.formulas.arrays import Array
from app.formulas.serving.batching import answers_alone, steady_state
from app.formulas.serving.kv_cache import sequences_held
from app.formulas.serving.replicas import replicas_placed
from app.formulas.serving.serving_arguments import Layout, ServedModel
from app.formulas.serving.token_costs import users_served
from app.formulas.training.divisibility import heads_divide, shape_is_possible
from app.plan.scenario import Scenario
from app.plan.serving.serving_inputs import ServingInputs, Setting, on_network

Floats = NDArray[np.float64]
STEPS_PER_DOUBLING = 3
"""Numbers of sequences in flight that are tried for each doubling."""
DOUBLINGS = 15
NAMES = ("tensor", "attention_data", "expert", "pipeline")
FIELDS: Mapping[str, str] = {
    "tensor": "tensor_parallel",
    "attention_data": "attention_data_parallel",
    "expert": "expert_parallel",
    "pipeline": "pipeline_parallel",
}
"""The scenario's names of what a layout has."""


def powers(most: float) -> list[int]:
    """Powers of two up to a number.

    >>> powers(10)
    [1, 2, 4, 8]
    """
    return [1 << place for place in range(int(np.log2(max(most, 1))) + 1)]


MOST_STAGES = 16
"""Stages of a replica that are tried."""


def stages(gpus: int, domain: int, layers: float) -> list[int]:
    """Stages that are tried: powers of two, three and six, and one for each domain of the cluster [1].

    >>> stages(40, 8, 126)
    [1, 2, 3, 4, 5, 6, 8, 16]
    """
    tried = {*powers(MOST_STAGES), 3, 6, -(-gpus // domain)}
    return sorted(count for count in tried if count <= min(gpus, layers, MOST_STAGES))


def attention_ranks(gpus: int, domain: int, tensor: int) -> list[int]:
    """Attention ranks that are tried: powers of two, and as many as fill a whole, a half, a third or a quarter of a
    domain with so much tensor parallelism [1].

    >>> attention_ranks(144, 72, 2), attention_ranks(16, 8, 1)
    ([1, 2, 4, 8, 9, 12, 16, 18, 32, 36, 64, 128], [1, 2, 4, 8, 16])
    """
    shares = (tensor * parts for parts in (1, 2, 3, 4))
    return sorted({*powers(gpus), *(domain // share for share in shares if domain % share == 0)})


def one_of(several: Layout, row: int) -> Layout:
    """One of the layouts that lie along the first of two axes."""
    return Layout(**{name: float(getattr(several, name)[row, 0]) for name in NAMES})


def only(layout: Layout) -> Layout:
    """A layout as the only one along the first of two axes."""
    return Layout(**{name: np.array([[getattr(layout, name)]]) for name in NAMES})


def layouts(question: Scenario, model: ServedModel, gpus: int, domain: int) -> Layout:
    """Layouts of a replica that divide the model and have room in the cluster, along the first of two axes.

    A model that cannot be has none. Tensor parallelism stays in the scale-up domain unless it is asked for; the
    stages of a pipeline may lie over several. Experts lie whole on all GPUs of a replica, or are cut like the rest;
    ranks with sequences of their own are for experts and latent attention.
    """
    shape = model.shape
    given = {name: getattr(question, field) for name, field in FIELDS.items()}
    mixture = shape.experts > 0
    degrees = [given["tensor"]] if given["tensor"] else powers(min(gpus, domain))
    pipelines = [given["pipeline"]] if given["pipeline"] else stages(gpus, domain, float(shape.layers))
    tensors = [t for t in degrees if shape_is_possible(shape) and heads_divide(shape, t)]

    def ranks(tensor: int) -> list[int]:
        if given["attention_data"]:
            return [given["attention_data"]]
        return attention_ranks(gpus, domain, tensor) if mixture or shape.kv_rank else [1]

    tried = []
    for t, a, p in chain.from_iterable(product([tensor], ranks(tensor), pipelines) for tensor in tensors):
        if t * a * p > gpus:
            continue
        options = {1, t * a} if mixture and a == 1 else {t * a} if mixture else {1}
        for e in [given["expert"]] if given["expert"] and mixture else sorted(options):
            if t * a % e == 0 and (e <= 1 or e <= shape.experts):
                tried.append((t, a, e, p))
    columns = np.array(tried, float).reshape(-1, 4).T
    columns = columns[:, np.asarray(replicas_placed(gpus, Layout(*columns), domain)) >= 1]
    return Layout(**{name: column[:, None] for name, column in zip(NAMES, columns, strict=True)})


@dataclass(frozen=True)
class Limits:
    """Times that the mean must keep [s]; infinite where there are none."""

    first_token: float
    time_per_token: float

    @property
    def of_answers(self) -> "Limits":
        """What is left of them where prompts are computed elsewhere."""
        return replace(self, first_token=np.inf)


NO_LIMITS = Limits(np.inf, np.inf)


def limits_of(question: Scenario, tails: Mapping[str, Estimate]) -> Limits:
    """The limits of a question as limits of the mean: a percentile is so many times the mean, as measured."""
    tail = question.percentile
    first = tails[f"first_token_{tail}"].typical if tail != "mean" else 1.0
    token = tails[f"time_per_token_{tail}"].typical if tail != "mean" else 1.0
    return Limits((question.ttft_limit or np.inf) / first, (question.tpot_limit or np.inf) / token)


LEAST_LOAD = 1e-200
"""A load below which what a cluster carries of it is beyond what numbers hold [1/s], or users."""


def asks_for_a_load(question: Scenario) -> bool:
    """Whether a question says how much is to be served; else it is as much as the limits leave."""
    return (question.concurrency, question.users, question.request_rate) != (None, None, None)


def share_of_load(question: Scenario, concurrency: Floats, requests: Floats, answer: Floats) -> Floats:
    """What replicas carry of the load that is asked for [1].

    Args:
        question: the load: requests in flight, users, or requests a second.
        concurrency: requests in flight in them [1].
        requests: that they answer a second [1/s].
        answer: from a request to the end of its answer [s].
    """
    if question.concurrency is not None:
        return concurrency / max(question.concurrency, LEAST_LOAD)
    if question.users is not None:
        return np.asarray(users_served(requests, answer, question.think_time)) / max(question.users, LEAST_LOAD)
    return requests / max(question.request_rate or 1.0, LEAST_LOAD)


@dataclass(frozen=True, eq=False)
class Tried:
    """Every layout with every number of sequences in flight: layouts along the first axis, sequences the second.

    Attributes:
        layout: the layouts.
        concurrency: sequences in flight in a replica.
        fits: whether the memory holds them.
        time_per_token, first_token: [s].
        requests: answers per second and GPU [1/s].
        held: the most sequences that each layout holds.
        domain: GPUs that reach one another over the scale-up link.
    """

    layout: Layout
    concurrency: Floats
    fits: NDArray[np.bool_]
    time_per_token: Floats
    first_token: Floats
    requests: Floats
    held: Floats
    domain: float

    @property
    def each(self) -> Floats:
        """Answers per second of one replica [1/s]."""
        return np.asarray(self.requests * np.asarray(self.layout.gpus))

    def share(self, question: Scenario) -> Floats:
        """What one replica carries of the load that is asked for [1]."""
        return share_of_load(question, self.concurrency, self.each, self.concurrency / self.each)

    def at(self, place: int) -> Layout:
        """One of the layouts."""
        return one_of(self.layout, place)

    def within(self, limits: Limits) -> NDArray[np.bool_]:
        """Which fit the memory and keep the limits."""
        return self.fits & (self.time_per_token <= limits.time_per_token) & (self.first_token <= limits.first_token)

    def replicas(self, gpus: int) -> Floats:
        """Replicas that so many GPUs have room for, for each layout [1]."""
        return np.asarray(replicas_placed(float(gpus), self.layout, self.domain))

    def together(self, gpus: int) -> Floats:
        """Answers per second of as many replicas as so many GPUs have room for [1/s]."""
        return self.each * self.replicas(gpus)

    def best(self, limits: Limits, gpus: int) -> tuple[int, int] | None:
        """Layout and load of which so many GPUs answer most requests within the limits; ``None`` where none does."""
        kept = self.within(limits)
        if not kept.any():
            return None
        place = int(np.argmax(np.where(kept, self.together(gpus), -1.0)))
        return place // self.requests.shape[1], place % self.requests.shape[1]


def try_all(it: Setting, inputs: ServingInputs, gpus: int, alone: bool = False) -> Tried:
    """Every layout of a replica with every load that its memory holds.

    Args:
        it: the question on its cluster.
        inputs: typical values of what the formulas take.
        gpus: the largest replica.
        alone: answers without their prompts, which another pool computes.
    """
    return try_layouts(it, inputs, layouts(it.question, it.model, gpus, it.cluster.domain), alone)


def on_another_network(tried: Tried, it: Setting, inputs: ServingInputs, alone: bool = False) -> Tried:
    """The same where another network joins the domains: replicas that stay inside one are as quick as they were."""
    layout = tried.layout
    crossing = np.ravel(np.asarray(layout.gpus)) > it.cluster.domain
    if not crossing.any():
        return tried
    some = Layout(**{name: np.asarray(getattr(layout, name))[crossing] for name in NAMES})
    anew = timed(it, inputs, some, tried.concurrency[crossing], alone)
    changed: dict[str, Any] = {}
    for name, times in zip(("time_per_token", "first_token", "requests"), anew, strict=True):
        changed[name] = getattr(tried, name).copy()
        changed[name][crossing] = times
    return replace(tried, **changed)


def try_layouts(it: Setting, inputs: ServingInputs, layout: Layout, alone: bool = False) -> Tried:
    """Some layouts with every load that the memory holds; see `try_all`."""
    steps = np.arange(STEPS_PER_DOUBLING * DOUBLINGS + 1) / STEPS_PER_DOUBLING
    grid = np.unique(np.round(2.0**steps))[None, :]
    gpu = on_network(inputs.gpu, it.site, layout)
    held = np.asarray(sequences_held(inputs.model, gpu, layout, inputs.load, inputs.constants))
    most = np.minimum(held, (it.question.max_sequences or it.engine.max_sequences) * layout.attention_data)
    full = np.floor(np.maximum(most, 1.0))
    concurrency = np.concatenate([np.minimum(grid, full), full], axis=1)
    times = timed(it, inputs, layout, concurrency, alone)
    fits = np.broadcast_to(most >= 1, concurrency.shape)
    return Tried(layout, concurrency, fits, *times, held, float(it.cluster.domain))


def timed(
    it: Setting, inputs: ServingInputs, layout: Layout, concurrency: Floats, alone: bool
) -> tuple[Floats, Floats, Floats]:
    """Time per token, time to first token [s] and requests a second and GPU of replicas with so much in flight.

    Of answers alone the first token is that of their first step, through all stages, however many tokens it gives.
    """
    gpu = on_network(inputs.gpu, it.site, layout)
    load = replace(inputs.load, concurrency=concurrency)
    size = np.asarray(layout.gpus)
    if alone:
        *times, _ = answers_alone(inputs.model, gpu, layout, load, inputs.constants)
        per_token, first = map(np.asarray, times)
        return per_token, first, concurrency / (per_token * load.output_tokens) / size
    state = steady_state(inputs.model, gpu, layout, load, inputs.constants)
    return np.asarray(state.time_per_token), np.asarray(state.first_token), np.asarray(state.requests) / size


BACK_OFF = (1.0, 0.995, 0.98)
"""Shares of the load at which a limit is met, as read off between two loads that were tried."""
REFINEMENTS = 2
"""How often: the first reads off between loads that are 26 % apart, the second between those of the first."""


def up_to_limits(
    tried: Tried, limits: Limits, it: Setting, inputs: ServingInputs, alone: bool = False, rounds: int = REFINEMENTS
) -> Tried:
    """The same with the largest load of each layout that keeps the limits: it lies between two that were tried.

    Times grow with the load, so the load at a limit is read off the two about it, and tried a little lower too.
    """
    if np.isfinite(min(limits.first_token, limits.time_per_token)):
        for _ in range(rounds):
            tried = _nearer_to_limits(tried, limits, it, inputs, alone)
    return tried


def _nearer_to_limits(tried: Tried, limits: Limits, it: Setting, inputs: ServingInputs, alone: bool) -> Tried:
    """The same with some loads about that at which each layout meets a limit, by a straight line between the two tried
    that are nearest to it."""
    kept = tried.within(limits)
    rows = np.arange(kept.shape[0])
    last = np.where(kept.any(axis=1), kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1), 0)
    after = np.minimum(last + 1, kept.shape[1] - 1)
    low, high = tried.concurrency[rows, last], tried.concurrency[rows, after]
    share = np.ones_like(low)
    for tried_times, limit in ((tried.time_per_token, limits.time_per_token), (tried.first_token, limits.first_token)):
        before, beyond = tried_times[rows, last], tried_times[rows, after]
        rising = beyond > np.maximum(before, limit)
        part = (limit - before) / np.where(rising, beyond - before, 1.0)
        share = np.minimum(share, np.where(rising, np.clip(part, 0.0, 1.0), 1.0))
    loads = np.maximum(np.outer(low * (high / low) ** share, BACK_OFF), low[:, None])  # on average, so no whole numbers
    token, first, requests = timed(it, inputs, tried.layout, loads, alone)
    added = {"concurrency": loads, "time_per_token": token, "first_token": first, "requests": requests}
    joined = {name: np.concatenate([getattr(tried, name), more], axis=1) for name, more in added.items()}
    order = rows[:, None], np.argsort(joined["concurrency"], axis=1, kind="stable")
    columns: dict[str, Any] = {name: values[order] for name, values in joined.items()}
    fits = np.broadcast_to(tried.fits[:, :1], order[1].shape)  # a layout fits with every load that it is tried with
    return replace(tried, fits=fits, **columns)


def read_off(at: Floats, along: Floats, *values: Floats) -> tuple[Floats, ...]:
    """Values where another reaches so much, which rises along each row: by a straight line between those about it.

    >>> along, values = np.array([[1.0, 2.0, 4.0]]), np.array([[10.0, 20.0, 30.0]])
    >>> read_off(np.array([[0.5, 3.0, 9.0]]), along, values)[0].tolist()
    [[10.0, 25.0, 30.0]]
    """
    after = np.clip((along[:, None, :] < at[:, :, None]).sum(axis=2), 1, along.shape[1] - 1)
    low, high = (np.take_along_axis(along, place, axis=1) for place in (after - 1, after))
    part = np.clip((at - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)

    def between(column: Floats) -> Floats:
        before, beyond = (np.take_along_axis(column, place, axis=1) for place in (after - 1, after))
        return np.asarray(before + part * (beyond - before))

    return tuple(map(between, values))


def envelope(speed: Floats, rate: Floats, kept: NDArray[np.bool_]) -> list[int]:
    """Places that no other beats in both tokens a second of a user and requests a GPU, fastest first."""
    order = np.argsort(-np.where(kept, speed, -1.0), kind="stable")
    order = order[np.asarray(kept)[order]]
    best = np.maximum.accumulate(np.concatenate(([0.0], rate[order])))
    return [int(place) for place, before in zip(order, best[:-1], strict=True) if rate[place] > before]


def stack_layouts(layout: Layout) -> dict[str, Array]:
    """What a layout has, by the scenario's names."""
    return {FIELDS[entry.name]: getattr(layout, entry.name) for entry in fields(Layout)}
