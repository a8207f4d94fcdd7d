"""What an operation gives, with bands: times, rates, memory, traffic, and what limits it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS
from app.formulas.arrays import Array, typical_of
from app.formulas.serving.batching import steady_state
from app.formulas.serving.decode import StepBatch, StepParts, step_parts
from app.formulas.serving.disaggregation import transfer_bytes
from app.formulas.serving.kv_cache import prefix_bytes, sequence_bytes, sequences_held, serving_weights
from app.formulas.serving.serving_arguments import Layout
from app.plan.band import Draws
from app.plan.communication import quicker_links
from app.plan.serving.serving_inputs import ServingInputs, on_network, residual, serving_inputs
from app.plan.serving.serving_plan import ServingPlan, overload
from app.plan.serving.serving_search import Tried, asks_for_a_load, envelope, only, timed, try_layouts, up_to_limits
from app.plan.serving.two_pools import (
    POOLS,
    Operation,
    PromptPool,
    every_load_apart,
    link_between,
    passing_time,
    pools_asked,
    pools_at_load,
    rates_of_pools,
    rates_of_pools_at_load,
    room_for_two,
    smaller_pool,
)
from app.plan.serving_result import (
    CacheTransfer,
    Doubled,
    Mode,
    Pool,
    ServingAlternative,
    ServingBottleneck,
    ServingLayout,
    ServingMemory,
    ServingPart,
    ServingPoint,
    ServingResource,
)
from app.units import percent

Floats = NDArray[np.float64]
PART_NAMES = (
    "products", "attention", "prompts", "experts", "all_reduce", "dispatch", "stages", "elementwise", "launches",
    "host",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Measured:
    """The chosen operation with draws on the last axis.

    Attributes:
        decode: parts of a step of all sequences [s].
        prompt_share: share of the GPUs' time that prompts take [1].
        first_token, time_per_token: [s].
        requests: answers of the whole cluster [1/s].
        inputs: what the formulas took.
    """

    decode: StepParts
    prompt_share: Array
    first_token: Floats
    time_per_token: Floats
    requests: Floats
    inputs: ServingInputs


def evaluate_operation(plan: ServingPlan, operation: Operation, catalog: Catalog) -> Measured:
    """The times and rates of what was chosen, under the draws of all constants."""
    inputs = serving_inputs(plan.setting, catalog, DRAWS)
    ones = np.ones(np.shape(DRAWS(inputs.used[0])))
    if operation.prompts:
        return _of_two_pools(plan, operation, operation.prompts, inputs, catalog)
    load = replace(inputs.load, concurrency=operation.sequences)
    gpu = on_network(inputs.gpu, plan.setting.site, operation.layout)
    state = steady_state(inputs.model, gpu, operation.layout, load, inputs.constants)
    return Measured(
        decode=state.decode,
        prompt_share=state.utilisation * operation.share_of_time,
        first_token=state.first_token * ones,
        time_per_token=state.time_per_token * ones,
        requests=state.requests * operation.share_of_time * operation.workers * ones,
        inputs=inputs,
    )


def _of_two_pools(
    plan: ServingPlan, operation: Operation, pool: PromptPool, inputs: ServingInputs, catalog: Catalog
) -> Measured:
    """The same of a pool for prompts and one for answers, and of the network between them."""
    it = plan.setting
    pools = pools_at_load(it, inputs, operation, pool, link_between(it, inputs), catalog)
    ones = np.ones(np.shape(DRAWS(inputs.used[0])))
    return Measured(
        decode=pools.decode,
        prompt_share=pool.workers * float(pool.layout.gpus) / operation.gpus,
        first_token=pools.first_token * ones,
        time_per_token=pools.per_token * ones,
        requests=np.minimum(pools.answers, pools.supply) * ones,
        inputs=inputs,
    )


def layout_result(layout: Layout) -> ServingLayout:
    """A layout as every reader gets it."""
    return ServingLayout(
        tensor_parallel=int(layout.tensor),
        attention_data_parallel=int(layout.attention_data),
        expert_parallel=int(layout.expert),
        pipeline_parallel=int(layout.pipeline),
        gpus=int(layout.gpus),
    )


def pools_of(operation: Operation) -> tuple[Pool | None, Pool | None]:
    """The pools for prompts and for answers, where there are two."""
    if not operation.prompts:
        return None, None
    return (
        pool_result(operation.prompts.layout, operation.prompts.workers),
        pool_result(operation.layout, operation.workers),
    )


def pool_result(layout: Layout, workers: int) -> Pool:
    """So many replicas of a layout as every reader gets them."""
    return Pool(workers, workers * int(layout.gpus), layout_result(layout))


def parts_of(
    plan: ServingPlan, operation: Operation, measured: Measured, catalog: Catalog
) -> tuple[ServingPart[Draws], ...]:
    """Where the time of a step that decodes goes, and that of one prompt where prompts are computed: in all stages."""
    it, inputs = plan.setting, measured.inputs
    error = residual("time_per_token", it, catalog)
    layout = operation.prompts.layout if operation.prompts else operation.layout
    batch = StepBatch(0.0, inputs.load.prompt, 0.0, inputs.load.prompt_keys)
    prompt = step_parts(batch, inputs.model, on_network(inputs.gpu, it.site, layout), layout, inputs.constants)
    serving_parts = []
    for phase, parts, of in (("answer", measured.decode, operation.layout), ("prompt", prompt, layout)):
        for name in PART_NAMES:
            time = of.pipeline * np.asarray(getattr(parts, name)) * np.ones_like(measured.requests)
            if time.flat[0] > 0:
                bound = bound_by(name, phase, of, operation.concurrency, inputs)
                serving_parts.append(ServingPart(phase, name, Draws(time, inputs.used, error), bound))
    return tuple(serving_parts)


def bound_by(name: str, phase: str, layout: Layout, concurrency: float, inputs: ServingInputs) -> ServingResource:
    """What a part of a step of a layout is bound by, with so many requests in flight where it answers."""
    fixed: Mapping[str, ServingResource] = {
        "launches": "host", "host": "host", "prompts": "compute", "elementwise": "memory_bandwidth",
    }  # fmt: skip
    if name in fixed:
        return fixed[name]
    reach = inputs.gpu.reach
    groups = {"all_reduce": layout.tensor, "dispatch": layout.expert, "stages": layout.gpus}
    if group := groups.get(name):
        return "scale_up" if np.all(np.asarray(group) <= reach) else "scale_out"
    if phase == "prompt":
        return "compute"
    constants, gpu = inputs.constants, inputs.gpu
    read = inputs.model.dense_bytes / (constants.memory * gpu.memory_bandwidth)
    sequences = concurrency / float(layout.attention_data * layout.pipeline)
    work = 2 * sequences / (constants.dense_compute * gpu.dense_peak)
    if name == "attention" or typical_of(read) >= typical_of(work):
        return "memory_bandwidth"
    return "compute"


def memory_of(operation: Operation, measured: Measured) -> ServingMemory[Draws]:
    """What the memory of one GPU holds."""
    inputs, layout = measured.inputs, operation.layout
    ones = np.ones_like(measured.requests)
    load = inputs.load
    each = sequence_bytes(inputs.model, layout, load.prompt + 0.75 * load.output_tokens)
    used = each * operation.concurrency / float(layout.attention_data) + prefix_bytes(inputs.model, layout, load)
    held = sequences_held(inputs.model, inputs.gpu, layout, load, inputs.constants)

    def drawn(values: Array) -> Draws:
        return Draws(np.asarray(values) * ones, inputs.used)

    return ServingMemory(
        weights=drawn(serving_weights(inputs.model, layout)),
        kv_cache=drawn(used),
        other=drawn(inputs.constants.reserved_memory),
        capacity=drawn(inputs.taken),
        sequences=drawn(held),
    )


def transfer_of(
    plan: ServingPlan, operation: Operation, measured: Measured, catalog: Catalog
) -> CacheTransfer[Draws] | None:
    """What the network between the pools carries."""
    if not operation.prompts:
        return None
    inputs, it = measured.inputs, plan.setting
    pool = operation.prompts
    ones = np.ones_like(measured.requests)
    volume = transfer_bytes(inputs.model, inputs.load)
    link = link_between(it, inputs)
    traffic = measured.requests * volume / smaller_pool(operation, pool)
    return CacheTransfer(
        bytes=Draws(np.asarray(volume) * ones, inputs.used),
        time=Draws(np.asarray(passing_time(inputs, operation, pool, link)) * ones, inputs.used),
        rate=Draws(traffic, inputs.used, residual("throughput", it, catalog)),
        share_of_network=float(traffic[0] / link),
    )


# What limits it ------------------------------------------------------------------------------------------------------

DOUBLED: Mapping[ServingResource, tuple[str, ...]] = {
    "compute": ("dense_peak", "expert_peak", "attention_peak"),
    "memory_bandwidth": ("memory_bandwidth",),
    "memory_capacity": ("memory_capacity",),
    "scale_up": ("scale_up",),
    "scale_out": ("scale_out",),
    "host": (),
}
HOST = ("layer_time", "expert_layer_time", "latent_layer_time", "step_time", "sequence_time", "first_token_time")


def bottleneck_of(plan: ServingPlan, operation: Operation, catalog: Catalog) -> ServingBottleneck:
    """What twice as much of each resource gains with the layouts that were chosen: at the load that is asked for and
    carried, else at the most within the limits."""
    question, at_load = plan.setting.question, asks_for_a_load(plan.setting.question)
    at_load = at_load and not overload(plan.setting, operation)
    changed = one_doubled_each(plan.inputs)
    if at_load:
        rates = rates_at_load(plan, changed, operation, catalog)
    elif operation.prompts:
        rates = rates_of_pools(plan.setting, changed, operation.prompts, operation.layout, plan.limits, catalog)
    else:
        rates = (rates_of_one_pool(plan, changed, operation),)
    now, *doubled = rates[0]
    tokens = question.output_tokens / question.gpus
    doubled = [max(now, then) for then in doubled]  # a load that keeps the limits keeps them with more of anything
    what_if = tuple(
        Doubled(resource, 2.0, float(then * tokens), float(then / now - 1) if now else 0.0)
        for resource, then in zip(DOUBLED, doubled, strict=True)
    )
    worst = max(what_if, key=lambda doubled_resource: doubled_resource.gain)
    quicker = [each[1 + what_if.index(worst)] / each[0] for each in rates[1:]]
    pool = POOLS[int(np.argmax(quicker))] if max(quicker, default=1.0) > 1 else ""
    share = worst.gain / (1 + worst.gain)
    return ServingBottleneck(worst.resource, share, "load" if at_load else "limits", pool, what_if)


def rates_at_load(
    plan: ServingPlan, changed: ServingInputs, operation: Operation, catalog: Catalog
) -> tuple[Floats, ...]:
    """What the cluster answers a second with as many requests in flight as now, for each row of the inputs; of two
    pools those of a replica of each too."""
    if operation.prompts:
        return rates_of_pools_at_load(plan.setting, changed, operation, operation.prompts, catalog)
    layout = only(operation.layout)
    _, _, requests = timed(plan.setting, changed, layout, np.array([[operation.sequences]]), alone=False)
    return (requests.ravel() * operation.share_of_time * operation.gpus,)


def rates_of_one_pool(plan: ServingPlan, changed: ServingInputs, operation: Operation) -> Floats:
    """What replicas of the layout answer a second at most within the limits, for each row of the inputs."""
    it, limits = plan.setting, plan.limits
    layout = only(operation.layout)
    tried = up_to_limits(try_layouts(it, changed, layout), limits, it, changed)
    most: Floats = np.where(tried.within(limits), tried.requests, 0.0).max(axis=1)
    return most * operation.gpus


def one_doubled_each(inputs: ServingInputs) -> ServingInputs:
    """The inputs in rows: as they are, then with twice each resource in turn."""
    rows = np.arange(1 + len(DOUBLED))[:, None]
    gpu, constants = inputs.gpu, inputs.constants
    for row, names in enumerate(DOUBLED.values(), start=1):
        gpu = replace(gpu, **{name: getattr(gpu, name) * np.where(rows == row, 2.0, 1.0) for name in names})
    if gpu.links:
        up, out = (np.where(rows == 1 + list(DOUBLED).index(name), 2.0, 1.0) for name in ("scale_up", "scale_out"))
        quicker = quicker_links(gpu.links.interconnect, up, out)
        gpu = replace(gpu, links=replace(gpu.links, interconnect=quicker))
    host = np.where(rows == 1 + list(DOUBLED).index("host"), 0.5, 1.0)
    constants = replace(constants, **{name: getattr(constants, name) * host for name in HOST})
    return replace(inputs, gpu=gpu, constants=constants)


def front_of(plan: ServingPlan, gpu_second: float | None, catalog: Catalog) -> tuple[ServingPoint, ...]:
    """Throughput of a GPU, idle or not, against tokens a second of a user: what no other layout and load beats in both.

    One pool and two, unless one of them is asked for.
    """
    question, pools = plan.setting.question, pools_asked(plan.setting.question)
    sides: list[tuple[Mode, Tried]] = []
    if pools != "disaggregated":
        together = plan.tried.together(question.gpus) / question.gpus
        sides.append(("aggregated", replace(plan.tried, requests=together)))
    if pools != "aggregated" and room_for_two(question):
        sides.append(("disaggregated", every_load_apart(plan.setting, plan.inputs, catalog)))
    if not sides:
        return ()
    speed = np.concatenate([1 / tried.time_per_token.ravel() for _, tried in sides])
    rate = np.concatenate([tried.requests.ravel() * question.output_tokens for _, tried in sides])
    fits = np.concatenate([tried.fits.ravel() for _, tried in sides])
    begins = np.cumsum([0, *(tried.requests.size for _, tried in sides)])
    points = []
    for place in thinned(envelope(speed, rate, fits), FRONT):
        number = int(np.searchsorted(begins, place, side="right")) - 1
        mode, tried = sides[number]
        row, column = divmod(int(place - begins[number]), tried.requests.shape[1])
        points.append(
            ServingPoint(
                interactivity=float(speed[place]),
                throughput=float(rate[place]),
                cost=1e6 * gpu_second / float(rate[place]) if gpu_second else None,
                ttft=float(tried.first_token[row, column]),
                concurrency=float(tried.concurrency[row, column]),
                mode=mode,
                parallelism=layout_result(tried.at(row)),
            )
        )
    return tuple(points)


FRONT = 24
"""Points of the front that are shown."""
OTHERS = 6
"""Other layouts that are shown."""


def thinned(places: list[int], most: int) -> list[int]:
    """So many of a list, evenly, with both ends.

    >>> thinned([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(places) <= most:
        return places
    return [places[round(index * (len(places) - 1) / (most - 1))] for index in range(most)]


def alternatives_of(plan: ServingPlan, operation: Operation) -> tuple[ServingAlternative, ...]:
    """The best of other layouts, and why they are not the answer."""
    tried, limits = plan.tried, plan.limits
    tokens, gpus = plan.setting.question.output_tokens, plan.setting.question.gpus
    kept = tried.within(limits)
    best = np.where(kept, tried.together(gpus) / gpus, -1.0).max(axis=1) * tokens
    others: list[ServingAlternative] = []
    for row in np.argsort(-best, kind="stable"):
        layout = tried.at(int(row))
        if layout == operation.layout or len(others) == OTHERS:
            continue
        if best[row] > 0:
            more = best[row] / (operation.requests * tokens / gpus) - 1
            if more > 0 and asks_for_a_load(plan.setting.question):
                reason = f"It could carry {percent(more)} more, but answers this load later."
            else:
                reason = f"{percent(max(-more, 0.0))} fewer tokens a second."
        elif not tried.fits[row].any():
            reason = "Its weights leave no room for a sequence."
        else:
            reason = "It keeps a limit at no load."
        rate = float(best[row]) if best[row] > 0 else None
        others.append(ServingAlternative(layout_result(layout), rate, reason))
    return tuple(others)
