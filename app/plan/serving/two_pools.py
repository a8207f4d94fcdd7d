"""A pool of replicas for prompts and one for answers: layouts, and how many of each keep both busy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np

from app.catalog.load import Catalog
from app.formulas.arrays import Array, typical_of
from app.formulas.serving.batching import answers_alone
from app.formulas.serving.decode import StepParts
from app.formulas.serving.disaggregation import (
    pools_rate,
    prompt_pool,
    prompts_carried,
    prompts_held,
    transfer_bytes,
    transfer_time,
)
from app.formulas.serving.replicas import gpus_filled, replicas_placed
from app.formulas.serving.serving_arguments import Layout
from app.formulas.serving.token_costs import answer_time
from app.plan.scenario import Scenario
from app.plan.serving.serving_inputs import ServingInputs, Setting, on_network
from app.plan.serving.serving_search import (
    FIELDS,
    NO_LIMITS,
    Floats,
    Limits,
    Tried,
    asks_for_a_load,
    layouts,
    one_of,
    only,
    powers,
    read_off,
    share_of_load,
    try_all,
    try_layouts,
    up_to_limits,
)

PoolName = Literal["prefill", "decode"]
POOLS: tuple[PoolName, ...] = ("prefill", "decode")


@dataclass(frozen=True, eq=False)
class PromptPool:
    """The pool for prompts: its layout, the prompt tokens of a step, and how many replicas there are."""

    layout: Layout
    token_budget: float
    workers: int


@dataclass(frozen=True, eq=False)
class Operation:
    """How the cluster runs: layout, load of a replica, replicas, and the pool for prompts where there is one.

    Attributes:
        layout: of the replicas that answer.
        concurrency: sequences in flight in one of them, typically; in a pool for answers when it is full.
        workers: how many there are.
        prompts: the pool that computes prompts for them.
        requests: answers per second of the whole cluster [1/s].
        in_flight: requests on the whole cluster, in both pools where there are two [1].
    """

    layout: Layout
    concurrency: float
    workers: int
    prompts: PromptPool | None
    requests: float
    in_flight: float

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        prompts = int(self.prompts.layout.gpus) * self.prompts.workers if self.prompts else 0
        return int(self.layout.gpus) * self.workers + prompts

    @property
    def sequences(self) -> float:
        """Sequences in a step of a replica that answers: where fewer than one are in flight, it steps more seldom."""
        return max(self.concurrency, 1.0)

    @property
    def share_of_time(self) -> float:
        """Share of the time that a replica that answers has any in flight, by typical values [1]."""
        return min(self.concurrency, 1.0)


@dataclass(frozen=True, eq=False)
class Prompts:
    """Replicas for prompts: layouts along the first of two axes, prompt tokens of a step along the second.

    Attributes:
        layout: the layouts.
        budgets: the prompt tokens.
        rate: prompts per second [1/s].
        first_token: from a request to its first token, but for the step that answers it, where as many GPUs take its
            keys and values as send them [s].
        possible: which fit the memory and may keep the limit.
        limit: what the first token may take, that step included [s].
    """

    layout: Layout
    budgets: Floats
    rate: Floats
    first_token: Floats
    possible: np.ndarray
    limit: float

    @property
    def size(self) -> Floats:
        """GPUs of a replica."""
        return np.asarray(self.layout.gpus)

    def at(self, place: tuple[int, int]) -> Layout:
        """The layout of one of them."""
        return one_of(self.layout, place[0])

    def pool(self, place: tuple[int, int], workers: int) -> PromptPool:
        """So many replicas of one layout and budget."""
        return PromptPool(self.at(place), float(self.budgets[0, place[1]]), workers)

    def worth_trying(self, *, soon: bool) -> Iterator[tuple[int, int]]:
        """The best replica of each size, smallest first; a larger one only where it computes more on each GPU.

        Where it matters how ``soon`` a prompt is there, also what computes fewer on a GPU and each in less time.
        """
        per_gpu = np.where(self.possible, self.rate / self.size, 0.0)
        tried, most, earliest = dict[int, None](), 0.0, np.inf
        for each in np.unique(self.size):
            place = int(np.argmax(np.where(self.size == each, per_gpu, -1.0)))
            if per_gpu.flat[place] > most:
                most = float(per_gpu.flat[place])
                tried[place] = None
        for place in np.argsort(-per_gpu, axis=None).tolist() if soon else ():
            if per_gpu.flat[place] > 0 and self.first_token.flat[place] < earliest:
                earliest = float(self.first_token.flat[place])
                tried[place] = None
        yield from (divmod(place, per_gpu.shape[1]) for place in tried)


class Room(NamedTuple):
    """What scale-up domains leave whole replicas of two pools: GPUs, and replicas for prompts and for answers [1]."""

    gpus: Array
    prompts: Array
    answers: Array


def room_of(it: Setting, prompts: Layout, answers: Layout) -> Room:
    """The room of a cluster for replicas of two layouts."""
    gpus, domain = float(it.question.gpus), float(it.cluster.domain)
    return Room(
        gpus_filled(gpus, prompts, answers, domain),
        replicas_placed(gpus, prompts, domain),
        replicas_placed(gpus, answers, domain),
    )


SIZES = tuple(f"{pool}_gpus" for pool in POOLS)
"""The scenario's fields of how many GPUs each pool has."""


def pool_fields(pool: PoolName) -> tuple[str, ...]:
    """The scenario's fields of one pool."""
    return (f"{pool}_gpus", *(f"{pool}_{name}" for name in FIELDS.values()))


def asks_for_pools(question: Scenario) -> bool:
    """Whether a question says anything of a pool."""
    return any(getattr(question, name) is not None for pool in POOLS for name in pool_fields(pool))


def pools_asked(question: Scenario) -> str | None:
    """Whether one pool or two are asked for, by name or by what is said of either; ``None``: whichever serves more."""
    return question.serving or ("disaggregated" if asks_for_pools(question) else None)


def room_for_two(question: Scenario) -> bool:
    """Whether the cluster has the GPUs of both pools."""
    return (question.prefill_gpus or 1) + (question.decode_gpus or 1) <= question.gpus


def in_pool(it: Setting, pool: PoolName) -> Setting:
    """The question of one pool alone: its own parallelism where it has one, and its own GPUs."""
    question = it.question
    fields_of_pool = {name: getattr(question, f"{pool}_{name}") or getattr(question, name) for name in FIELDS.values()}
    other: PoolName = "decode" if pool == "prefill" else "prefill"
    rest = question.gpus - (getattr(question, f"{other}_gpus") or 1)
    fields_of_pool["gpus"] = max(min(getattr(question, f"{pool}_gpus") or rest, rest), 1)
    return replace(it, question=question.model_copy(update=fields_of_pool))


def prompts_of(it: Setting, inputs: ServingInputs, limits: Limits, largest: int) -> Prompts:
    """What replicas of each layout of so many GPUs at most compute of prompts alone, and which fit the memory and keep
    the limit.
    """
    prefill = in_pool(it, "prefill")
    layout = layouts(prefill.question, it.model, min(prefill.question.gpus, largest), it.cluster.domain)
    gpu, load = on_network(inputs.gpu, it.site, layout), inputs.load
    whole = max(float(np.asarray(load.token_budget // load.prompt)), 1.0)
    counts = np.unique([*powers(whole), whole])  # fewer prompts at once are there sooner, and need less memory
    budgets = np.where(counts == whole, load.token_budget, counts * load.prompt)[None, :]
    rate, time = prompt_pool(inputs.model, gpu, layout, replace(load, token_budget=budgets), inputs.constants)
    size = np.asarray(layout.gpus)
    sent = np.asarray(transfer_time(transfer_bytes(inputs.model, load), link_between(it, inputs) * size))
    first = np.asarray(inputs.constants.first_token_time + 1.5 * np.asarray(time) + sent)
    fits = np.asarray(prompts_held(inputs.model, gpu, layout, load, inputs.constants)) >= counts
    possible = fits & (first <= limits.first_token)
    return Prompts(layout, budgets, np.asarray(rate), first, possible, limits.first_token)


@dataclass(frozen=True, eq=False)
class Apart:
    """Replicas for prompts alone and for answers alone, on one network.

    Attributes:
        prompts: what those for prompts do.
        answers: what those for answers do, with every load.
        kept: which of their loads keep the limit.
        each: answers of one of them a second [1/s].
        sent: prompts a second whose keys and values one GPU sends or takes [1/s].
        delivered: prompts of a replica that arrive, over those that it computes [1].
    """

    prompts: Prompts
    answers: Tried
    kept: np.ndarray
    each: Floats
    sent: float
    delivered: float

    def before_answer(self, prompts: tuple[int, int]) -> Floats:
        """From a request until its keys and values are there, for every layout that answers: later where that has
        fewer GPUs to take them than send them [s].
        """
        taken_by, sent_by = np.asarray(self.answers.layout.gpus), self.prompts.size[prompts[0], 0]
        later = np.maximum(1 / taken_by - 1 / sent_by, 0.0) / self.sent
        return np.asarray(self.prompts.first_token[prompts] + later)

    def times(self, prompts: tuple[int, int], output_tokens: float) -> tuple[Floats, Floats]:
        """From a request to the first token and to the end of its answer, for every load [s]."""
        first = np.asarray(self.before_answer(prompts) + self.answers.first_token)
        return first, np.asarray(answer_time(first, self.answers.time_per_token, output_tokens))

    def in_time(self, first_token: Floats) -> np.ndarray:
        """Which loads keep the limits where they take so long to the first token [s]."""
        return self.kept & (first_token <= self.prompts.limit * (1 + 1e-9))

    def of_prompts(self, *, soon: bool = False) -> Iterator[tuple[tuple[int, int], float, int]]:
        """The replicas for prompts that are worth trying: which, prompts a second, and GPUs.

        Where there is a limit of the first token, or it matters for something else, also those that are there ``soon``.
        """
        soon = soon or self.prompts.limit < np.inf
        for place in self.prompts.worth_trying(soon=soon) if self.kept.any() else ():
            yield place, float(self.prompts.rate[place]) * self.delivered, int(self.prompts.size[place[0], 0])


def answers_of(it: Setting, inputs: ServingInputs, limits: Limits, largest: int) -> Tried:
    """Replicas of each layout of so many GPUs at most that answer alone, with every load up to the limit."""
    decode = in_pool(it, "decode")
    answers = try_all(decode, inputs, min(decode.question.gpus, largest), alone=True)
    return up_to_limits(answers, limits.of_answers, decode, inputs, alone=True)


def apart(it: Setting, inputs: ServingInputs, limits: Limits, catalog: Catalog, answers: Tried, largest: int) -> Apart:
    """Replicas for prompts of so many GPUs at most beside such for answers."""
    shares = catalog.serving["pools"]
    return Apart(
        prompts_of(it, inputs, limits, largest),
        answers,
        kept=answers.within(limits.of_answers),
        each=answers.each * shares["answers"].typical,
        sent=float(prompts_carried(1.0, link_between(it, inputs), transfer_bytes(inputs.model, inputs.load))),
        delivered=shares["prompts"].typical,
    )


def both_pools(it: Setting, inputs: ServingInputs, limits: Limits, catalog: Catalog) -> Apart | None:
    """Replicas of both pools of a cluster; ``None`` where it has no room for two."""
    gpus = it.question.gpus
    if not room_for_two(it.question):
        return None
    return apart(it, inputs, limits, catalog, answers_of(it, inputs, limits, gpus), gpus)


def two_pools(it: Setting, pools: Apart) -> Operation | None:
    """Whole replicas of each pool that answer most, or answer a load soonest; ``None`` where they do not fit.

    Those for answers step with no more sequences than the requests take: where prompts come more slowly than a full
    step would answer them, fewer are in flight, and each answer is there sooner.
    """
    question, answers = it.question, pools.answers
    asked = asks_for_a_load(question)
    given = np.asarray(answers.layout.gpus)
    loads = np.broadcast_to(np.arange(pools.kept.shape[1]), pools.kept.shape)
    best: tuple[float, Operation] | None = None
    for place, rate, taken in pools.of_prompts(soon=asked):
        first, answered = pools.times(place, question.output_tokens)
        in_time = pools.in_time(first)
        if not asked:  # a replica that answers most is never worse
            loads = np.argmax(np.where(in_time, pools.each, -1.0), axis=1, keepdims=True)
        kept, each = (np.take_along_axis(values, loads, axis=1) for values in (in_time, pools.each))
        room = room_of(it, pools.prompts.at(place), answers.layout)
        counts, workers, supply = shared_out(question, (rate, taken), each, given, pools.sent, room)
        replicas = np.maximum(workers, 1.0)
        if asked:
            reached, at = share_of_load(question, pools.each * answered, pools.each, answered), 1 / replicas
        else:
            reached, at = pools.each, np.minimum(supply / replicas, each)
        concurrency, rate_of_one, per_token, answer = read_off(
            at, reached, answers.concurrency, pools.each, answers.time_per_token, answered
        )
        fewest = np.minimum(at / reached[:, :1], 1.0)  # below the least load they come as much more seldom
        requests = workers * rate_of_one * fewest
        enough = (np.take_along_axis(reached, loads, axis=1) >= at * (1 - 1e-9)) & (supply >= requests * (1 - 1e-9))
        worth = np.where(kept & (requests > 0) & enough, -answer if asked else requests, -np.inf)
        alike = worth >= worth.max() - 1e-9 * abs(worth.max())
        chosen = np.unravel_index(int(np.argmin(np.where(alike, per_token, np.inf))), worth.shape)
        if worth[chosen] > (best[0] if best else -np.inf):
            operation = Operation(
                layout=answers.at(int(chosen[0])),
                concurrency=float(concurrency[chosen] * (fewest[chosen] if asked else 1.0)),
                workers=int(workers[chosen]),
                prompts=pools.prompts.pool(place, int(counts[chosen])),
                requests=float(requests[chosen]),
                in_flight=float(requests[chosen] * answer[chosen]),
            )
            best = float(worth[chosen]), operation
    return best[1] if best else None


def every_load_apart(it: Setting, inputs: ServingInputs, catalog: Catalog) -> Tried:
    """Two pools without limits: every layout and load of the answers, prompts on the replicas that suit them best, the
    GPUs shared out between whole replicas of both.

    Requests are those of the whole cluster for each of its GPUs; fewer are in flight where prompts come more slowly,
    and answered sooner.
    """
    gpus = it.question.gpus
    answers = answers_of(it, inputs, NO_LIMITS, gpus)
    pools = apart(it, inputs, NO_LIMITS, catalog, answers, gpus)
    requests, rate_of_one = np.zeros_like(pools.each), np.zeros_like(pools.each)
    first = np.full_like(pools.each, np.inf)
    for place, rate, taken in pools.of_prompts():
        room, given = room_of(it, pools.prompts.at(place), answers.layout), np.asarray(answers.layout.gpus)
        _, workers, supply = shared_out(it.question, (rate, taken), pools.each, given, pools.sent, room)
        most = np.minimum(supply, workers * pools.each)
        better = most > requests
        requests = np.where(better, most, requests)
        rate_of_one = np.where(better, most / np.maximum(workers, 1.0), rate_of_one)
        first = np.where(better, pools.before_answer(place), first)
    per_token, step = read_off(rate_of_one, pools.each, answers.time_per_token, answers.first_token)
    return replace(
        answers,
        fits=answers.fits & (requests > 0),
        concurrency=rate_of_one * per_token * it.question.output_tokens,
        time_per_token=per_token,
        requests=requests / gpus,
        first_token=first + step,
    )


def shared_out(
    question: Scenario, prompts: tuple[Array, int], each: Floats, given: Array, sent: Array, room: Room
) -> tuple[Floats, Floats, Floats]:
    """Replicas for prompts, for answers, and the prompts a second that reach them, for every load of the answers.

    A prompt replica gives min(r, n·B/V) prompts a second with what the network carries, one for answers as much in its
    turn. Of c and w replicas the answers are min(c·r_p, w·r_d), and w are what c leave room for: most of them where
    the one rises above the other, within one replica of where they cross were GPUs divisible.

    Args:
        question: how many GPUs there are, and how many a pool has where that is given.
        prompts: requests a second and GPUs of one replica for prompts.
        each: requests a second of one replica for answers.
        given: its GPUs.
        sent: prompts a second whose keys and values one GPU sends or takes.
        room: what scale-up domains leave them.
    """
    rate, taken = prompts
    gpus, one, other = (
        np.minimum(float(question.gpus), room.gpus),
        np.minimum(rate, taken * sent),
        np.minimum(each, given * sent),
    )
    most = gpus * np.asarray(pools_rate(one / taken, other / given))
    best = [np.zeros_like(each)] * 3
    for step, by_prompts in product((-1, 0, 1), (True, False)):
        if question.prefill_gpus is not None:
            counts = np.full_like(each, question.prefill_gpus // taken)
        elif question.decode_gpus is not None:
            counts = np.full_like(each, (question.gpus - question.decode_gpus) // taken)
        elif by_prompts:
            counts = np.maximum(np.floor(most / one) + step, 1.0) * np.ones_like(each)
        else:
            answering = np.minimum(np.maximum(np.floor(most / other) + step, 1.0), room.answers)
            counts = np.maximum(np.floor((gpus - answering * given) / taken), 0.0)
        counts = np.minimum(counts, room.prompts)
        left = gpus - counts * taken
        if question.decode_gpus is not None:
            left = np.minimum(left, float(question.decode_gpus))
        workers = np.clip(np.floor(left / given), 0.0, room.answers)
        supply = np.minimum(counts * rate, np.minimum(counts * taken, workers * given) * sent)
        better = np.minimum(supply, workers * each) > np.minimum(best[2], best[1] * each)
        best = [np.where(better, new, old) for new, old in zip((counts, workers, supply), best, strict=True)]
    return best[0], best[1], best[2]


def link_between(it: Setting, inputs: ServingInputs) -> float:
    """What one GPU sends to the other pool, by typical values [B/s]."""
    return typical_of(links_between(it, inputs))


def links_between(it: Setting, inputs: ServingInputs) -> Array:
    """What one GPU sends to the other pool: over the links of a node where these join the whole cluster [B/s]."""
    gpus = float(it.question.gpus)
    if np.all(gpus <= inputs.gpu.reach):
        return inputs.gpu.link_rate(gpus)
    everyone = Layout(tensor=gpus)
    return on_network(inputs.gpu, it.site, everyone).scale_out


def smaller_pool(operation: Operation, pool: PromptPool) -> int:
    """GPUs of the smaller of two pools."""
    return min(int(pool.layout.gpus) * pool.workers, int(operation.layout.gpus) * operation.workers)


def passing_time(inputs: ServingInputs, operation: Operation, pool: PromptPool, link: Array) -> Array:
    """Time in which the keys and values of a prompt pass from one replica to the other, of which that with fewer GPUs
    bounds it; ``link`` is what one GPU sends or takes [B/s].
    """
    fewer = min(float(pool.layout.gpus), float(operation.layout.gpus))
    return transfer_time(transfer_bytes(inputs.model, inputs.load), link * fewer)


@dataclass(frozen=True, eq=False)
class PoolsAtLoad:
    """Two pools with as many answers in flight as an operation has.

    Attributes:
        decode: parts of a step of the pool for answers [s].
        per_token: time per token [s].
        first_token: from a request to the first token of its answer [s].
        prompts: prompts a second of a replica [1/s].
        supply: prompts a second that the pool computes and the network carries [1/s].
        answers: answers a second of the other pool, as long as it has so many in flight [1/s].
    """

    decode: StepParts
    per_token: Array
    first_token: Array
    prompts: Array
    supply: Array
    answers: Array


def pools_at_load(
    it: Setting, inputs: ServingInputs, operation: Operation, pool: PromptPool, link: Array, catalog: Catalog
) -> PoolsAtLoad:
    """What both pools of an operation do; ``link`` is what one GPU sends as it sends one prompt [B/s]."""
    shares = catalog.serving["pools"]
    load = replace(inputs.load, concurrency=operation.sequences)
    gpu = on_network(inputs.gpu, it.site, operation.layout)
    per_token, step, decode = answers_alone(inputs.model, gpu, operation.layout, load, inputs.constants)
    gpu = on_network(inputs.gpu, it.site, pool.layout)
    taken = replace(inputs.load, token_budget=pool.token_budget)
    rate, time = prompt_pool(inputs.model, gpu, pool.layout, taken, inputs.constants)
    volume = transfer_bytes(inputs.model, inputs.load)
    sent = passing_time(inputs, operation, pool, link)
    carried = prompts_carried(smaller_pool(operation, pool), links_between(it, inputs), volume)
    answers = operation.concurrency * operation.workers / (np.asarray(per_token) * load.output_tokens)
    return PoolsAtLoad(
        decode=decode,
        per_token=per_token,
        first_token=inputs.constants.first_token_time + 1.5 * np.asarray(time) + sent + step,
        prompts=rate,
        supply=np.minimum(np.asarray(rate) * pool.workers * shares["prompts"].typical, np.asarray(carried)),
        answers=answers * shares["answers"].typical,
    )


def rates_of_pools_at_load(
    it: Setting, inputs: ServingInputs, operation: Operation, pool: PromptPool, catalog: Catalog
) -> tuple[Floats, Floats, Floats]:
    """What two pools answer a second with as many requests in flight, for each row of the inputs.

    By Little's law as much more as an answer is there sooner, up to the prompts that reach the pool for answers.

    Returns:
        Requests a second of the cluster, then those of one replica for prompts and of one for answers, for each row.
    """
    pools = pools_at_load(it, inputs, operation, pool, links_between(it, inputs), catalog)
    answered = np.ravel(np.asarray(answer_time(pools.first_token, pools.per_token, inputs.load.output_tokens)))
    supply, each = np.ravel(np.asarray(pools.supply)), np.ravel(np.asarray(pools.answers))
    requests = np.minimum(min(each[0], supply[0]) * answered[0] / answered, supply)
    return requests, np.ravel(np.asarray(pools.prompts)), each


def rates_of_pools(
    it: Setting, inputs: ServingInputs, pool: PromptPool, layout: Layout, limits: Limits, catalog: Catalog
) -> tuple[Floats, Floats, Floats]:
    """What two pools of given layouts answer a second at most, the GPUs shared out between them anew.

    Pools whose sizes are asked for keep them, unless they are those that answer most: such are what an answer says of a
    question that left them blank. Inputs may be in rows, as of a machine with more of something.

    Returns:
        Requests a second of the cluster, then those of one replica for prompts and of one for answers, for each row.
    """
    shares = catalog.serving["pools"]
    gpu = on_network(inputs.gpu, it.site, pool.layout)
    load = replace(inputs.load, token_budget=pool.token_budget)
    rate, _ = prompt_pool(inputs.model, gpu, pool.layout, load, inputs.constants)
    answers = up_to_limits(try_layouts(it, inputs, only(layout), alone=True), limits.of_answers, it, inputs, alone=True)
    kept = answers.within(limits.of_answers)
    rates = np.asarray(rate) * shares["prompts"].typical
    each = answers.requests * layout.gpus * shares["answers"].typical
    sent = prompts_carried(1.0, links_between(it, inputs), transfer_bytes(inputs.model, inputs.load))

    def answered(question: Scenario) -> Floats:
        room = room_of(it, pool.layout, layout)
        _, workers, supply = shared_out(question, (rates, int(pool.layout.gpus)), each, layout.gpus, sent, room)
        most: Floats = np.where(kept, np.minimum(supply, workers * each), 0.0).max(axis=1)
        return most

    most, anew = answered(it.question), answered(it.question.model_copy(update=dict.fromkeys(SIZES)))
    most = anew if anew[0] <= most[0] * (1 + 1e-9) else most
    return most, np.broadcast_to(rates[:, 0], most.shape), np.where(kept, each, 0.0).max(axis=1)
