"""One question about serving on its network in; what the cluster answers, with findings, out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from app.catalog.load import Catalog
from app.formulas.arrays import typical_of
from app.formulas.costs import per_gpu_time
from app.formulas.serving.kv_cache import prefix_bytes, sequence_bytes, sequences_held, serving_weights
from app.formulas.serving.serving_arguments import Layout
from app.formulas.serving.token_costs import answer_time, break_even_load, cost_of_tokens, users_served
from app.plan.band import Draws, alone
from app.plan.bill_of_materials import draws_or_nan
from app.plan.job.breakdown import erring
from app.plan.job.broken_rules import BrokenRule, experts_unused, heads_rule, shape_rules
from app.plan.job.shape import model_name, shape_findings
from app.plan.network import Network, design_network
from app.plan.result import Finding
from app.plan.scenario import MOST_GPUS, ModelRequest, Scenario
from app.plan.serving.serving_breakdown import (
    Measured,
    alternatives_of,
    bottleneck_of,
    evaluate_operation,
    front_of,
    layout_result,
    memory_of,
    parts_of,
    pools_of,
    transfer_of,
)
from app.plan.serving.serving_inputs import ServingInputs, Setting, residual, setting
from app.plan.serving.serving_plan import ServingPlan, overload, plan_serving
from app.plan.serving.serving_search import FIELDS, MOST_STAGES, asks_for_a_load, layouts, limits_of, stack_layouts
from app.plan.serving.two_pools import (
    POOLS,
    SIZES,
    Operation,
    PoolName,
    PromptPool,
    asks_for_pools,
    in_pool,
    link_between,
    passing_time,
    pool_fields,
    pools_asked,
)
from app.plan.serving_result import Serving, ServingCosts, ServingPoint
from app.plan.total_cost import Ownership
from app.units import parse, show, show_people

MILLION = parse("1M", "1")
READABLE = 0.05
"""A time per token that is quicker than people read [s]: twenty tokens a second."""
LOADS = ("users", "request_rate", "concurrency")


@dataclass(frozen=True, eq=False)
class Served:
    """What a cluster serves, before its results are folded to bands."""

    plan: ServingPlan
    serving: Serving[Draws]
    findings: tuple[Finding, ...]

    def on_no_network(self) -> "Served":
        """Nothing: what would join the GPUs cannot be built."""
        return replace(self, serving=nothing_served())


def serve(scenario: Scenario, network: Network, owned: Ownership, catalog: Catalog) -> Served:
    """What a cluster serves: how many users, how soon, on which layout, at what cost, and what limits it."""
    plan = plan_serving(setting(scenario, network.cluster, network, catalog), catalog)
    operation = plan.operation
    serving = (
        serving_of(plan, operation, owned, catalog) if operation else nothing_served(front_of(plan, None, catalog))
    )
    of_size = partial(plan_of_size, plan, network, catalog)
    findings = (
        *shape_findings(scenario.part(ModelRequest), catalog),
        *experts_unused(plan.setting.model.shape, scenario.expert_parallel),
        *serving_findings(plan, of_size),
        *no_limit(plan, serving.tpot.typical, of_size, catalog),
    )
    served = Served(plan, serving, findings)
    return served.on_no_network() if network.unbuildable else served


def chosen(plan: ServingPlan) -> dict[str, Any]:
    """What was chosen for blank fields. An engine that is assumed stays blank: named, its ranges would be narrower."""
    it = plan.setting
    fields: dict[str, Any] = {
        "weights": it.formats.experts,
        "kv_cache": it.formats.cache,
        "max_sequences": it.engine.max_sequences,
        "token_budget": it.engine.token_budget,
    }
    if plan.operation:
        fields |= {name: int(value) for name, value in stack_layouts(plan.operation.layout).items()}
        fields["serving"] = "disaggregated" if plan.operation.prompts else "aggregated"
        for pool, part in zip(POOLS, pools_of(plan.operation), strict=True):
            if part:
                layout = {name: value for name, value in vars(part.parallelism).items() if name != "gpus"}
                fields |= {f"{pool}_{name}": value for name, value in {"gpus": part.gpus, **layout}.items()}
    return fields


def serving_of(plan: ServingPlan, operation: Operation, owned: Ownership, catalog: Catalog) -> Serving[Draws]:
    """The answer of a cluster that keeps the limits, with draws."""
    it, question = plan.setting, plan.setting.question
    measured = evaluate_operation(plan, operation, catalog)
    errors = {name: residual(name, it, catalog) for name in ("time_per_token", "first_token", "throughput")}

    def drawn(values: Any, name: str) -> Draws:
        return Draws(np.asarray(values), measured.inputs.used, errors[name])

    answered = np.asarray(answer_time(measured.first_token, measured.time_per_token, question.output_tokens))
    per_gpu = measured.requests / question.gpus
    prefill, decode = pools_of(operation)
    costs, gpu_second = costs_of(plan, owned, measured, errors["throughput"])
    return Serving(
        mode="disaggregated" if operation.prompts else "aggregated",
        parallelism=layout_result(operation.layout),
        prefill=prefill,
        decode=decode,
        replicas=operation.workers,
        gpus=operation.gpus,
        concurrency=float((measured.requests * answered)[0]),
        ttft=drawn(measured.first_token, "first_token"),
        tpot=drawn(measured.time_per_token, "time_per_token"),
        interactivity=drawn(1 / measured.time_per_token, "time_per_token"),
        output_tokens_per_second_per_gpu=drawn(per_gpu * question.output_tokens, "throughput"),
        total_tokens_per_second_per_gpu=drawn(per_gpu * (question.input_tokens + question.output_tokens), "throughput"),
        requests_per_second=drawn(measured.requests, "throughput"),
        users=drawn(users_served(measured.requests, answered, question.think_time), "throughput"),
        parts=parts_of(plan, operation, measured, catalog),
        memory=memory_of(operation, measured),
        kv_transfer=transfer_of(plan, operation, measured, catalog),
        bottleneck=bottleneck_of(plan, operation, catalog),
        costs=costs,
        front=front_of(plan, gpu_second, catalog),
        alternatives=alternatives_of(plan, operation),
    )


def costs_of(
    plan: ServingPlan, owned: Ownership, measured: Measured, error: float
) -> tuple[ServingCosts[Draws], float | None]:
    """What tokens cost, and what a GPU costs a second with its share of everything, where all prices are known."""
    question, rates = plan.setting.question, owned.rates
    second = np.asarray(per_gpu_time(owned.total, question.gpus, rates.lifetime.draws(), 1.0))
    watts = owned.typical_power / question.gpus
    output = measured.requests * question.output_tokens / question.gpus
    entered = measured.requests * question.input_tokens / question.gpus
    used = (*measured.inputs.used, *owned.capital.used, *rates.run_at)
    prompts = np.minimum(np.asarray(measured.prompt_share), 1.0)
    answers = np.asarray(cost_of_tokens(second, output, MILLION))
    elsewhere = np.nan if question.token_price is None else question.token_price
    costs = ServingCosts(
        per_million_output_tokens=Draws(answers, used, error),
        per_million_input_tokens=Draws(np.asarray(cost_of_tokens(second * prompts, entered, MILLION)), used, error),
        rental=Draws(
            np.asarray(cost_of_tokens(draws_or_nan(rates.rent), output, MILLION)),
            (*measured.inputs.used, *((rates.rent,) if rates.rent else ())),
            error,
        ),
        energy_per_million_tokens=Draws(
            np.asarray(cost_of_tokens(watts, output, MILLION)), (*measured.inputs.used, *owned.power_sources), error
        ),
        saved_per_million=Draws(elsewhere - answers * erring(np.size(answers), error), used),
        break_even_load=Draws(np.asarray(break_even_load(answers, elsewhere)), used, error),
    )
    typical = typical_of(second)
    return costs, typical if np.isfinite(typical) else None


def nothing_served(front: tuple[ServingPoint, ...] = ()) -> Serving[Draws]:
    """The answer of a cluster that cannot do what is asked: nothing, and the front of what it can."""
    nothing = Draws(np.full(1, np.nan))
    return Serving(
        mode="aggregated",
        parallelism=None,
        prefill=None,
        decode=None,
        replicas=0,
        gpus=0,
        concurrency=0.0,
        ttft=nothing,
        tpot=nothing,
        interactivity=nothing,
        output_tokens_per_second_per_gpu=nothing,
        total_tokens_per_second_per_gpu=nothing,
        requests_per_second=nothing,
        users=nothing,
        parts=(),
        memory=None,
        kv_transfer=None,
        bottleneck=None,
        costs=ServingCosts(*[nothing] * 6),
        front=front,
        alternatives=(),
    )


Sizes = Mapping[str, int]
"""GPUs of a cluster, and of its pools where they are given, by the scenario's names."""
OfSize = Callable[[Mapping[str, float | None]], ServingPlan]
"""The plan of a question with other sizes, or other limits and loads."""


def plan_of_size(
    plan: ServingPlan, network: Network, catalog: Catalog, fields: Mapping[str, float | None]
) -> ServingPlan:
    """The same question of a cluster of another size, which answers nothing where its network cannot be built."""
    question = plan.setting.question.model_copy(update=fields)
    cluster = network.cluster.with_gpus(question.gpus)
    larger = design_network(cluster, network.request, network.prices)
    planned = plan_serving(setting(question, cluster, larger, catalog), catalog)
    return replace(planned, operation=None) if larger.unbuildable else planned


def serving_findings(plan: ServingPlan, of_size: OfSize) -> Iterator[Finding]:
    """What does not fit, keeps no limit, or is taken for granted.

    Args:
        plan: the plan.
        of_size: the plan of a cluster of another size.
    """
    it, tried = plan.setting, plan.tried
    broken = next(rules_broken(it), None)
    of_pools = () if broken else tuple(pool_findings(plan, of_size))
    yield from of_pools
    if broken:
        yield broken.finding()
    elif not tried.fits.any():
        yield does_not_fit(plan, of_size)
    elif plan.operation is None:
        if not any(finding.severity == "error" for finding in of_pools):
            yield limits_missed(plan) if unlimited_fits(plan, of_size) else two_do_not_fit(plan, of_size)
    elif times := overload(it, plan.operation):
        text = f"The load that is asked for is {show(times, '1')} times what the cluster carries."
        sizes = carrying(plan, times, of_size)
        advice = f"{sizes['gpus']:,} GPUs carry it." if sizes else "Use more GPUs, or ask for less at once."
        yield Finding("warning", "load-too-large", text, LOADS, advice, sizes)
    if it.question.engine is None:
        yield Finding(
            "note",
            "engine-assumed",
            f"No engine is named: {it.engine.name} is taken, and the ranges are wider.",
            ("engine",),
            "Name the engine that you will run.",
            {"engine": it.engine.key},
        )
    if it.question.accepted_tokens:
        yield Finding(
            "note",
            "draft-not-timed",
            "The time in which a draft model proposes tokens is not in the answer, only that of checking them: "
            f"{show(it.question.accepted_tokens, '1')} further tokens a step are taken as what is left after it.",
            ("accepted_tokens",),
            "Give the gain in tokens a second of one user that you measured, less one.",
        )
    if it.question.prefix_hits and plan.operation:
        yield prefix_shared(plan, plan.operation)
    if plan.operation and plan.operation.prompts:
        yield from pools_over_network(it, plan.inputs, plan.operation, plan.operation.prompts)
    if it.family == "linear" or it.model.sparse_keys:
        yield Finding(
            "note",
            "attention-not-measured",
            "Few operating points of models with linear or sparse attention are published; the ranges are wider.",
            ("model",),
            "Hold the answer against a load of your own before you rely on it.",
        )


def prefix_shared(plan: ServingPlan, operation: Operation) -> Finding:
    """That what is cached is taken as one prefix of all, and how many sequences fit where each has one of its own."""
    inputs, layout = plan.inputs, operation.layout
    apart = replace(inputs.load, prefix_hits=0.0)
    shared, unshared = (
        int(sequences_held(inputs.model, inputs.gpu, layout, load, inputs.constants)) for load in (inputs.load, apart)
    )
    text = (
        f"The {inputs.load.cached:,.0f} tokens of a prompt that are cached are taken as the same for all: they are "
        f"held once, and a replica has room for {shared:,} sequences. Where each has its own, as conversations do, "
        f"{unshared:,} fit."
    )
    return Finding("note", "prefix-shared", text, ("prefix_hits",), f"Then run at most {unshared:,} in a replica.")


def pools_over_network(
    it: Setting, inputs: ServingInputs, operation: Operation, prompts: PromptPool
) -> Iterator[Finding]:
    """That keys and values pass the network though a domain has room for a replica of each pool."""
    taken, answering, reach = int(prompts.layout.gpus), int(operation.layout.gpus), int(np.min(inputs.gpu.reach))
    if it.question.gpus <= reach or taken + answering > reach:
        return
    time = float(np.asarray(passing_time(inputs, operation, prompts, link_between(it, inputs))))
    yield Finding(
        "note",
        "pools-over-network",
        f"The keys and values of every prompt are taken to go to the other pool over the network, {show(time, 's')} of "
        f"the time to first token. A replica of each pool, of {taken} and {answering} GPUs, has room among {reach} "
        "GPUs that meet without it; pools in pairs are not modelled.",
        ("serving", "scale_up_domain"),
        f"Where your scheduler pairs them so, plan {reach} GPUs alone.",
    )


TRIES = 5
"""How many sizes of a cluster are tried at most for what is advised."""


def carrying(plan: ServingPlan, times: float, of_size: OfSize) -> Sizes:
    """A cluster that carries a load so many times what this one does, and its pools; none where none was found.

    So many times the GPUs may leave some of them idle, or be laid out otherwise: they are planned until they carry it.
    """
    question, unit = plan.setting.question, plan.setting.cluster.unit_gpus
    pools = {name: getattr(question, name) for name in SIZES if getattr(question, name)}
    gpus = question.gpus
    for _ in range(TRIES):
        pools = {name: ceil(pool * times) for name, pool in pools.items()}
        gpus = ceil(max(gpus * times, sum(pools.values())) / unit) * unit
        sizes = {"gpus": gpus, **pools}
        if gpus > MOST_GPUS:
            break
        larger = of_size(sizes)
        if larger.operation is None:
            break
        times = overload(larger.setting, larger.operation)
        if not times:
            return sizes
    return {}


def rules_broken(it: Setting) -> Iterator[BrokenRule]:
    """Why no layout of the parallelism that is asked for divides the model; engines give ranks uneven experts."""
    question, shape = it.question, it.model.shape
    yield from shape_rules(shape)
    yield from heads_rule(shape, question.tensor_parallel or 1)
    experts, ranks = int(shape.experts), question.expert_parallel or 1
    if experts and ranks > experts:
        text = f"{ranks:,} ranks of expert parallelism are more than the model's {experts:,} experts."
        yield BrokenRule(text, ("expert_parallel",), f"Use at most {experts:,}.")


def no_limit(plan: ServingPlan, time_per_token: float, of_size: OfSize, catalog: Catalog) -> Iterator[Finding]:
    """That as many users are served as fit, where nobody said how slow [s] their answers may be."""
    question, tried = plan.setting.question, plan.tried
    if question.tpot_limit is not None or asks_for_a_load(question) or not time_per_token > READABLE:
        return
    limited = {"tpot_limit": READABLE}
    if pools_asked(question) == "disaggregated":
        kept = of_size(limited).operation is not None
    else:
        kept = bool(tried.within(limits_of(question.model_copy(update=limited), catalog.serving["tails"])).any())
    most = f"this is the most that the cluster serves, at {show(time_per_token, 's')} a token"
    yield unlimited(most, limited if kept else {})


def unlimited(said: str, changes: Mapping[str, Any]) -> Finding:
    """That nobody said how slow answers may be, what is said for all that, and what changes it."""
    return Finding(
        "note",
        "no-limit",
        f"Nobody said how long a token may take: {said}.",
        ("tpot_limit",),
        f"Say how long it may take, such as {show(READABLE, 's')}.",
        changes,
    )


def pool_findings(plan: ServingPlan, of_size: OfSize) -> Iterator[Finding]:
    """Pools that do not fit the cluster, or their model or parallelism not them; or that nobody has."""
    question = plan.setting.question
    if not asks_for_pools(question):
        return
    named = tuple(name for pool in POOLS for name in pool_fields(pool) if getattr(question, name) is not None)
    if question.serving == "aggregated":
        text = "There is one pool of replicas that take prompts and answer them; the fields of two pools go unread."
        yield Finding(
            "warning",
            "pools-not-used",
            text,
            ("serving", *named),
            "Serve with two pools.",
            {"serving": "disaggregated"},
        )
        return
    both = (question.prefill_gpus or 1) + (question.decode_gpus or 1)
    if both > question.gpus:
        yield from _pools_too_large(plan, both, named, of_size)
        return
    for pool, used in zip(POOLS, pools_of(plan.operation) if plan.operation else (None, None), strict=True):
        given = getattr(question, f"{pool}_gpus")
        if finding := _pool_does_not_fit(plan, pool):
            yield finding
        elif used and given and used.gpus < given:
            text = f"Replicas of {used.parallelism.gpus} GPUs leave {given - used.gpus} of the {given} of a pool idle."
            yield Finding(
                "note",
                "pool-gpus-idle",
                text,
                (f"{pool}_gpus",),
                f"Give it {used.gpus:,}.",
                {f"{pool}_gpus": used.gpus},
            )


def _pools_too_large(plan: ServingPlan, both: int, named: tuple[str, ...], of_size: OfSize) -> Iterator[Finding]:
    """Two pools of more GPUs than the cluster has, whole nodes or racks that have room, and what these lack still."""
    question, unit = plan.setting.question, plan.setting.cluster.unit_gpus
    text = f"The two pools take {both:,} GPUs, and the cluster has {question.gpus:,}."
    whole = ceil(both / unit) * unit
    fits = whole <= MOST_GPUS
    advice = f"Use {whole:,} GPUs or more." if fits else "Give them fewer."
    yield Finding("error", "pools-too-large", text, ("gpus", *named), advice, {"gpus": whole} if fits else {})
    if fits:
        later = pool_findings(of_size({"gpus": whole}), of_size)
        yield from (finding for finding in later if finding.severity == "error")


def _pool_does_not_fit(plan: ServingPlan, pool: PoolName) -> Finding | None:
    """What keeps a replica out of its pool: its parallelism, or the memory of the pool's GPUs."""
    it, inputs = in_pool(plan.setting, pool), plan.inputs
    what = "prompts" if pool == "prefill" else "answers"
    if broken := next(rules_broken(it), None):
        return broken._replace(fields=pool_fields(pool)).finding()
    gpus = it.question.gpus
    layout = layouts(it.question, it.model, gpus, it.cluster.domain)
    if not np.size(layout.tensor):
        text = f"No replica of the parallelism that is asked for has room in the {gpus:,} GPUs of the pool for {what}."
        return Finding("error", "pool-does-not-fit", text, pool_fields(pool), "Leave its parallelism blank.")
    needed, taken = np.asarray(serving_weights(inputs.model, layout)), "The weights take"
    if pool == "prefill":
        needed = needed + layout.pipeline * np.asarray(sequence_bytes(inputs.model, layout, inputs.load.prompt))
        needed = needed + prefix_bytes(inputs.model, layout, inputs.load)
        taken = "The weights and the keys and values of one prompt take"
    least = float(np.min(needed))
    if least <= inputs.room:
        return None
    text = (
        f"{taken} {show(least, 'B')} of each GPU of the pool for {what} at least, and the engine leaves "
        f"{show(float(inputs.room), 'B')}."
    )
    return Finding("error", "pool-does-not-fit", text, pool_fields(pool), "Give it more GPUs, or fewer bits a weight.")


def does_not_fit(plan: ServingPlan, of_size: OfSize) -> Finding:
    """The model does not fit, and what would make it fit."""
    it, inputs = plan.setting, plan.inputs
    need = model_bytes(plan)
    room = float(inputs.room)
    if not np.size(plan.tried.layout.tensor):
        text = (
            f"No replica has the parallelism that is asked for: it takes no more than the {it.question.gpus:,} GPUs, "
            "and its ranks of tensor and attention data parallelism divide into those of experts."
        )
        return Finding("error", "serving-does-not-fit", text, (*FIELDS.values(), "gpus"), "Leave some of it blank.")
    if room <= 0:
        return Finding(
            "error",
            "serving-does-not-fit",
            f"The engine may take {show(float(inputs.taken), 'B')} of a GPU's memory, and activations, graphs and "
            f"libraries need {show(float(inputs.constants.reserved_memory), 'B')} before any weight.",
            ("memory_share", "gpu"),
            "Let the engine take more of the memory, or use GPUs that have more.",
        )
    sizes = holding(plan, of_size)
    typed = any(getattr(it.question, field) for field in FIELDS.values())
    other = "Leave the parallelism blank, or use " if typed else "Use GPUs with more memory, or "
    more = f"Use {sizes['gpus']:,} GPUs or more, or " if sizes else other
    if not (plan.tried.held > 0).any():
        gpus = it.question.gpus
        left, they_leave = room * gpus, f"{gpus:,} GPUs leave" if gpus > 1 else "one GPU leaves"
        text = (
            f"The model needs {show(need, 'B')} for its weights in {it.formats.experts}, and {they_leave} "
            f"{show(left, 'B')}{'' if left < need else ', less than its parts fill'}."
        )
        fields = ("gpus", "weights", *FIELDS.values())
        return Finding("error", "serving-does-not-fit", text, fields, f"{more}weights of fewer bits.", sizes)
    return Finding(
        "error",
        "serving-does-not-fit",
        f"No layout that was tried leaves room for one sequence of {it.question.input_tokens:,.0f} tokens.",
        ("tensor_parallel", "expert_parallel", "pipeline_parallel", "input_tokens", "gpus"),
        f"{more}shorter prompts.",
        sizes,
    )


def holding(plan: ServingPlan, of_size: OfSize) -> Sizes:
    """More GPUs on which a model fits: the fewest that one pool needs, or a doubling; none where none was found.

    Layouts that may not be split so far leave some GPUs idle, and two pools hold the weights twice.
    """
    fewest, asked = fewest_gpus(plan), plan.setting.question.gpus
    if fewest is None:
        return {}
    doubled = 1 << max(fewest, asked).bit_length()
    for gpus in (fewest, *(doubled << doubling for doubling in range(TRIES))):
        if asked < gpus <= MOST_GPUS and of_size({"gpus": gpus, **dict.fromkeys(LIMITS_AND_LOADS)}).operation:
            return {"gpus": gpus}
    return {}


LIMITS_AND_LOADS = ("tpot_limit", "ttft_limit", *LOADS)


def unlimited_fits(plan: ServingPlan, of_size: OfSize) -> bool:
    """Whether the cluster serves as it is asked to where nothing limits it, nor says how many are in flight."""
    if pools_asked(plan.setting.question) != "disaggregated":
        return True
    return of_size(dict.fromkeys(LIMITS_AND_LOADS)).operation is not None


def two_do_not_fit(plan: ServingPlan, of_size: OfSize) -> Finding:
    """The model fits in one pool and not in two."""
    gpus = plan.setting.question.gpus
    sizes = holding(plan, of_size)
    more = f"use {sizes['gpus']:,} GPUs or more, or " if sizes else "use "
    return Finding(
        "error",
        "serving-does-not-fit",
        f"Each of two pools holds the model by itself, and {gpus:,} GPUs have no room for both.",
        ("serving", "gpus", "weights"),
        f"Serve with one pool, {more}weights of fewer bits.",
        sizes,
    )


SPARE = 1.05
"""What is left beside weights, over these, where a number of GPUs is said to be enough [1]."""


def fewest_gpus(plan: ServingPlan) -> int | None:
    """GPUs of the smallest replica with room for a sequence: whole domains, or a power of two of one.

    ``None`` where none that is tried has room.
    """
    it, inputs = plan.setting, plan.inputs
    domain = it.cluster.full_domain
    unit = max(domain, it.cluster.whole_node)
    for gpus in range(unit, (MOST_STAGES + 1) * unit, unit):
        along = layouts(it.question, it.model, gpus, domain)
        held = np.asarray(sequences_held(inputs.model, inputs.gpu, along, inputs.load, inputs.constants))
        roomy = np.asarray(serving_weights(inputs.model, along)) * SPARE <= inputs.room
        sizes = np.asarray(along.gpus)[(held >= 1) & roomy]
        if sizes.size:
            return min(1 << (int(sizes.min()) - 1).bit_length(), unit) if gpus == unit else gpus
    return None


def model_bytes(plan: ServingPlan) -> float:
    """Bytes of the model's weights, embeddings once [B]."""
    return float(np.asarray(serving_weights(plan.inputs.model, Layout())))


def limits_missed(plan: ServingPlan) -> Finding:
    """No layout keeps the limits at any load, and how near the nearest comes."""
    tried, limits = plan.tried, plan.limits
    token = float(np.where(tried.fits, tried.time_per_token, np.inf).min())
    first = float(np.where(tried.fits, tried.first_token, np.inf).min())
    missed = []
    if token > limits.time_per_token:
        missed.append(f"The quickest layout takes {show(token, 's')} a token, over {show(limits.time_per_token, 's')}.")
    if first > limits.first_token:
        missed.append(f"The first token takes {show(first, 's')} at least, over {show(limits.first_token, 's')}.")
    if not missed and (finding := load_not_held(plan)):
        return finding
    text = " ".join(missed) or "No layout keeps the limits at the load that is asked for."
    return Finding(
        "error",
        "limits-not-kept",
        text,
        ("tpot_limit", "ttft_limit"),
        "Allow more time, ask for less at once, or take faster GPUs.",
    )


def load_not_held(plan: ServingPlan) -> Finding | None:
    """More requests in flight than the cluster holds at once, with limits or without."""
    tried, question = plan.tried, plan.setting.question
    limited = np.isfinite(min(plan.limits.first_token, plan.limits.time_per_token))
    replicas = tried.replicas(question.gpus)
    most = float(np.where(tried.fits, tried.concurrency * replicas, 0.0).max())
    asked = question.concurrency
    if asked is None or (limited and asked <= most):
        return None
    two = pools_asked(question) == "disaggregated"
    holding_them = "two pools hold" if two else f"the {most:,.0f} that memory and engine hold"
    return Finding(
        "error",
        "load-not-held",
        f"{asked:,.0f} requests in flight are more than {holding_them} at once.",
        ("concurrency", "gpus"),
        "Ask for fewer at once, or use more GPUs.",
        {} if two else {"concurrency": most},
    )


def verdict(serving: Serving, findings: Iterable[Finding], plan: ServingPlan, catalog: Catalog) -> str:
    """The answer as one would say it."""
    question = plan.setting.question
    gpu = plan.setting.gpu.name
    model = model_name(question.part(ModelRequest), catalog)
    if serving.users is None or serving.tpot is None or serving.interactivity is None:
        worst = next((finding.message for finding in findings if finding.severity == "error"), "")
        return f"{question.gpus:,} {gpu} do not serve {model} as asked. {worst}"
    cost = serving.costs.per_million_output_tokens
    saved = serving.costs.saved_per_million
    against = (
        f", {show(abs(saved.typical), 'USD')} {'less' if saved.typical > 0 else 'more'} than elsewhere" if saved else ""
    )
    price = f" A million output tokens cost {alone(cost, 'USD')}{against}." if cost else ""
    users = show_people(serving.users.low, serving.users.typical, serving.users.high).partition(" (")[0]
    of_them, each = ("user", "") if users in ("1", "under 1") else ("users", " each")
    return (
        f"{question.gpus:,} {gpu} serve {model} to {users} {of_them} at "
        f"{alone(serving.interactivity, '1')} tokens a second{each}.{price}"
    )
