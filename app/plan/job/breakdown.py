"""What a step and its memory are made of, what doubling a resource would save, and how each number came about."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Z90, Z95, Estimate
from app.catalog.load import Catalog
from app.formulas.arrays import Array, any_, minimum, where
from app.formulas.collectives.group_times import Interconnect, Links
from app.formulas.collectives.ideal import Machine
from app.formulas.records import but
from app.formulas.training import arguments, memory
from app.formulas.training import step as training_step
from app.formulas.training.exchanges import (
    Exchange,
    Exchanges,
    LayerExchanges,
    LayerGroups,
    StepExchanges,
    exchanged_by,
    layer_groups,
    step_exchanges,
)
from app.formulas.training.stacking import alike, stacked, stacked_links
from app.formulas.transformer import Shape
from app.plan.band import Draws
from app.plan.communication import quicker_links
from app.plan.job.calibration import peaks
from app.plan.job.inputs import JobSetup, StepInputs
from app.plan.result import Bottleneck, Explanation, Memory, MemoryPart, Resource, Term, Training, WhatIf
from app.plan.scenario import OperationRequest

Floats = NDArray[np.float64]
RESOURCES: tuple[Resource, ...] = ("compute", "memory_bandwidth", "scale_up", "scale_out", "bubble", "overhead")
OVERHEADS = (
    "host_layer", "host_expert", "expert_launch", "optimizer_overhead", "straggler",
)  # fmt: skip
FACTOR = 2.0
"""How many times better each resource is in a what-if."""
PART_NAMES = {
    "linear_layers": "linear layers",
    "attention": "attention",
    "output_head": "the output head",
    "elementwise": "elementwise work",
    "gradient_accumulation": "adding up gradients",
    "optimizer": "the optimizer",
    "tensor_parallel": "tensor-parallel traffic",
    "context_parallel": "context-parallel traffic",
    "expert_parallel": "the experts' all-to-all",
    "pipeline_parallel": "traffic between stages",
    "data_parallel": "data-parallel traffic",
    "bubble": "the pipeline's bubble",
    "launches": "launching kernels",
    "end_of_step": "the end of the step",
    "stragglers": "stragglers",
    "offload": "activations on their way to the host",
}


def step_parts(
    layer: training_step.Layer, step: training_step.Step, calibration: arguments.Calibration
) -> dict[str, Array]:
    """The parts of a step by name; they add up to its time [s]."""
    fixed = calibration.optimizer_overhead
    return {
        "linear_layers": step.layers * layer.products,
        "attention": step.layers * layer.attention,
        "output_head": step.head,
        "elementwise": step.layers * layer.elementwise,
        "gradient_accumulation": step.accumulation,
        "optimizer": step.optimizer - fixed,
        "tensor_parallel": step.layers * layer.tensor,
        "context_parallel": step.layers * layer.context,
        "expert_parallel": step.layers * layer.expert,
        "pipeline_parallel": step.pipeline,
        "data_parallel": step.data,
        "bubble": step.bubble,
        "launches": step.layers * layer.host,
        "end_of_step": fixed,
        "stragglers": step.straggler,
        "offload": step.offload,
    }


BOUND_BY: dict[str, Resource] = {
    "elementwise": "memory_bandwidth",
    "gradient_accumulation": "memory_bandwidth",
    "optimizer": "memory_bandwidth",
    "bubble": "bubble",
    "launches": "overhead",
    "end_of_step": "overhead",
    "stragglers": "overhead",
    "offload": "overhead",
}
"""The resource that bounds each part of a step but products, see `binding_unit`, and traffic, see `binding_links`."""


WHAT_IFS = {better: row for row, better in enumerate(("", *RESOURCES))}
"""Where the plan is among its what-ifs, and the same with each resource better."""


def binding_unit(product: Array) -> Any:
    """Arithmetic, or memory where that, twice as fast, saves twice as much of matrix products: of scores written out.

    Args:
        product: time with the plan and its what-ifs [s]; of several jobs, the unit is an array of one of each.
    """
    whole, faster, closer = (_with(product, better) for better in ("", "compute", "memory_bandwidth"))
    return np.where(whole - closer > 2 * (whole - faster), "memory_bandwidth", "compute")


def binding_links(exchanged: Exchanges) -> dict[str, Any]:
    """The link that bounds each kind of traffic: the network where a group crosses it, unless a faster scale-up link
    saves more of the traffic than a faster network or half the latency, as where GPUs meet over a PCIe bus.

    Args:
        exchanged: of the plan and its what-ifs; where it is that of several jobs, the link is an array of one of each.
    """
    layer, step = exchanged.layer, exchanged.step
    gathered = step.gather, step.expert_gather, step.flat_gather, step.share, step.expert_share
    replicas = (step.data, step.expert_data, *gathered)
    groups = {
        "tensor_parallel": (layer.tensor,),
        "context_parallel": (layer.context,),
        "expert_parallel": (layer.expert,),
        "pipeline_parallel": (step.pipeline,),
        "data_parallel": replicas,
    }
    return {name: _binding_link(group) for name, group in groups.items()}


def _binding_link(group: tuple[Exchange, ...]) -> Any:
    crosses = sum(_anywhere(exchange.crosses) for exchange in group) > 0
    if not any_(crosses):
        return "scale_up"
    scale_up, *network = (sum(_with(exchange.time, better) for exchange in group) for better in LINKED)
    inside = (scale_up < minimum(*network)) | np.logical_not(crosses)
    return np.where(inside, "scale_up", "scale_out")


def _anywhere(crosses: Array) -> Array:
    """1 where a group of a job crosses the network in any draw, else 0 [1]."""
    if isinstance(crosses, np.ndarray) and crosses.ndim > 2:
        return where(crosses.max(axis=(-2, -1)) > 0, 1.0, 0.0)
    return float(any_(crosses > 0))


def _with(time: Array, better: str) -> Array:
    """The typical time of a part with one resource better, or as it is: of one job, or of each of several [s]."""
    if not isinstance(time, np.ndarray):
        return float(time)
    return time[..., WHAT_IFS[better], 0] if time.ndim > 1 else float(time[0])


BY_ITSELF = frozenset({
    "linear_layers", "attention", "output_head", "elementwise", "gradient_accumulation", "optimizer", "launches",
    "end_of_step", "offload",
})  # fmt: skip
"""Parts of a step that each GPU does by itself, whatever joins it to others."""


def _factors() -> dict[Resource, Floats]:
    """How much better each resource is in the plan and its what-ifs: a first axis of one and the resources."""
    factors = np.where(np.eye(len(RESOURCES), len(RESOURCES) + 1, 1) > 0, FACTOR, 1.0)[..., None]
    factors.flags.writeable = False
    return dict(zip(RESOURCES, factors, strict=True))


BETTER = _factors()


LINKED: tuple[Resource, ...] = ("scale_up", "scale_out", "overhead")
"""Resources that make an exchange by itself quicker; the overhead is its latency."""
ROWS = np.array([LINKED.index(resource) + 1 if resource in LINKED else 0 for resource in ("", *RESOURCES)])
"""Which of the plan and its what-ifs on these resources each what-if exchanges as."""


class _WhatIfs(NamedTuple):
    """The plan as it is, and with each resource twice as good: a first axis of one and the resources."""

    hardware: arguments.GpuRates
    parallelism: arguments.Parallelism
    calibration: arguments.Calibration
    exchanges: Exchanges
    layer: training_step.Layer
    pieces: training_step.Pieces


@dataclass(frozen=True, eq=False)
class _LayerWhatIfs:
    """One layer and micro-batch, as it is and with each resource twice as good.

    Attributes:
        exchanges: what it exchanges.
        parts: its time, part by part [s].
        head: time of the output head for one micro-batch [s].
    """

    exchanges: LayerExchanges
    parts: training_step.Layer
    head: Array


@lru_cache(maxsize=16)
def _layer_what_ifs(
    shape: Shape,
    job: arguments.Job,
    gpu: arguments.GpuRates,
    replica: arguments.Parallelism,
    software: arguments.Software,
    calibration: arguments.Calibration,
    groups: LayerGroups,
) -> _LayerWhatIfs:
    """Kept: clusters of many sizes have the same layers, by which those are told that are timed in one call."""
    hardware, better = _stronger(gpu), _quicker(calibration)
    by_itself = exchanged_by(groups, shape, job, replica, software)
    sent = LayerExchanges(*map(_each, vars(by_itself).values()))
    parts = training_step.layer(shape, job, hardware, replica, software, better, sent)
    return _LayerWhatIfs(sent, parts, training_step.head_time(shape, job, hardware, replica, better))


def _what_ifs(
    layer: _LayerWhatIfs,
    shape: Shape,
    job: arguments.Job,
    gpu: arguments.GpuRates,
    software: arguments.Software,
    calibration: arguments.Calibration,
    par: arguments.Parallelism,
    links: Links,
) -> _WhatIfs:
    """One micro-batch of a job, or of several whose layers are the same, and its what-ifs."""
    beyond = step_exchanges(shape, job, par, software, _quicker_links(links), calibration.bucket)
    exchanged = Exchanges(layer.exchanges, StepExchanges(*map(_each, vars(beyond).values())))
    return _WhatIfs(
        _stronger(gpu),
        but(par, bubble=par.bubble / BETTER["bubble"]),
        _quicker(calibration),
        exchanged,
        layer.parts,
        training_step.Pieces(layer.parts.total, layer.head, exchanged.step),
    )


_kept_what_ifs = lru_cache(maxsize=8)(_what_ifs)
"""Kept: it takes 0.5 ms, a third of a job whose layout is given, and neither batch, tokens nor prices change it. Few,
as each takes 0.2 MB."""


@lru_cache(maxsize=16)
def _stronger(gpu: arguments.GpuRates) -> arguments.GpuRates:
    """The rates of a GPU with those of the what-ifs. Kept: all plans of a GPU share them."""
    return but(
        gpu,
        matrix_peak=gpu.matrix_peak * BETTER["compute"],
        linear_peak=gpu.linear_peak * BETTER["compute"],
        memory_bandwidth=gpu.memory_bandwidth * BETTER["memory_bandwidth"],
    )


def _quicker_links(links: Links) -> Links:
    """The links of a cluster as they are, and with each twice as good."""
    return but(links, interconnect=_better(links.interconnect))


@lru_cache(maxsize=16)
def _better(joining: Interconnect) -> Interconnect:
    """The interconnect as it is, and with each link twice as good. Kept: so are its groups, for every job on it."""
    up, out, slow = np.where(np.eye(len(LINKED), len(LINKED) + 1, 1) > 0, FACTOR, 1.0)[..., None]
    quicker = quicker_links(joining, up, out)

    def sooner(m: Machine) -> Machine:
        return m.but(
            latency_factor=m.latency_factor / slow,
            **({name: getattr(m, name) / slow for name in IDEAL_HOPS} if joining.ideal else {}),
        )

    return but(quicker, machine=sooner(quicker.machine), bridge=quicker.bridge and sooner(quicker.bridge))


IDEAL_HOPS = ("scale_up_hop", "scale_out_hop", "far_hop")
"""What makes the latency of an exchange in the ideal profile."""


def _plain(exchange: Exchange, place: int) -> Exchange:
    """An exchange of some jobs and their what-ifs, as one job's own in its typical draw."""
    time, crosses = (_of_job(value, place) for value in vars(exchange).values())
    return Exchange(time.item(0) if isinstance(time, np.ndarray) else time, crosses)


def _each(exchange: Exchange) -> Exchange:
    """An exchange of the plan and its what-ifs on links, as one of the plan and all what-ifs."""
    time = exchange.time
    return Exchange(time[..., ROWS, :] if isinstance(time, np.ndarray) and time.ndim > 1 else time, exchange.crosses)


def _of_job(value: Array, place: int) -> Array:
    """What one of several jobs has of a value of all of them."""
    return value[place] if isinstance(value, np.ndarray) and value.ndim > 2 else value


@lru_cache(maxsize=16)
def _quicker(cal: arguments.Calibration) -> arguments.Calibration:
    """The constants with the overheads of the what-ifs. Kept: it takes 0.1 ms, the same for every plan of a GPU."""
    quicker: dict[str, Floats] = {name: getattr(cal, name) / BETTER["overhead"] for name in OVERHEADS}
    for values in quicker.values():
        values.flags.writeable = False
    return but(cal, **quicker)


@dataclass(frozen=True)
class Timing:
    """The step and its what-ifs: (1 + resources, draws); NaN where nothing fits.

    ``straggler`` is the typical step time over what it were without waiting for slower nodes. ``sent`` is what all jobs
    that were timed with this one exchange, and their what-ifs, ``place`` which of them it is.
    """

    time: Floats
    parts: tuple[tuple[str, Resource, Floats], ...]
    straggler: float
    bottleneck: tuple[Resource, float] | None
    sent: Exchanges | None = None
    place: int = 0

    @property
    def exchanges(self) -> Exchanges | None:
        """What it typically exchanges."""
        return self.sent and self.sent.each(partial(_plain, place=self.place))

    @property
    def gains(self) -> tuple[float | None, ...]:
        """Share of the step that each resource saves if it is twice as good."""
        typical, *better = self.time[:, 0].tolist()
        return tuple(None if typical != typical else 1 - after / typical for after in better)


Planned = tuple[StepInputs, arguments.Parallelism]
"""A job, and how it is spread."""
AXES = 2
"""Axes of what-ifs and of draws, after that of jobs."""


def no_timing(width: int) -> Timing:
    """That of a job that nothing divides, in so many draws."""
    nothing = np.full((len(RESOURCES) + 1, width), np.nan)
    return Timing(nothing, (), np.nan, None)


def timings_of(jobs: Sequence[Planned], width: int) -> list[Timing]:
    """The steps of some jobs, their parts and their what-ifs, in so many draws.

    Jobs whose layers are the same are timed in one call, on an axis before those of the what-ifs and the draws.
    """
    timings: dict[int, Timing] = {}
    for layer, places in _by_layer(jobs):
        timings |= zip(places, _timed([jobs[place] for place in places], layer, width), strict=True)
    return [timings[place] for place in range(len(jobs))]


def _by_layer(jobs: Sequence[Planned]) -> Iterable[tuple[_LayerWhatIfs, list[int]]]:
    """The different layers of some jobs, each with the places of the jobs on links that are alike."""
    groups: dict[Hashable, tuple[_LayerWhatIfs, list[int]]] = {}
    for place, (inputs, par) in enumerate(jobs):
        n = inputs.with_batch(1)
        who = layer_groups(n.shape, par, _quicker_links(n.links))
        layer = _layer_what_ifs(n.shape, n.job, n.hardware, par.of_a_replica, n.software, n.calibration, who)
        exchanging = float(n.shape.experts) > 0 or par.context_exchange != arguments.RING
        key = layer, n.links.interconnect, alike(n.links, exchanging)
        groups.setdefault(key, (layer, []))[1].append(place)
    return groups.values()


def _timed(jobs: Sequence[Planned], layer: _LayerWhatIfs, width: int) -> list[Timing]:
    """The same of jobs that have this layer, on links that are alike."""
    inputs, par = jobs[0]
    n, job = inputs.with_batch(1), stacked([each.job for each, _ in jobs], AXES)
    asked = n.shape, n.job, n.hardware, n.software, n.calibration
    if all((each.links, way) == (n.links, par) for each, way in jobs):
        what_ifs = _kept_what_ifs(layer, *asked, par, n.links)
    else:
        links = stacked_links([each.links for each, _ in jobs], AXES)
        what_ifs = _what_ifs(layer, *asked, stacked([way for _, way in jobs], AXES), links)
    step = training_step.assemble(
        what_ifs.pieces,
        inputs.shape,
        job,
        what_ifs.hardware,
        what_ifs.parallelism,
        inputs.software,
        what_ifs.calibration,
    )
    return _timings(what_ifs, step, inputs.calibration, (len(jobs), width))


def _timings(
    what_ifs: _WhatIfs, step: training_step.Step, calibration: arguments.Calibration, jobs: tuple[int, int]
) -> list[Timing]:
    """The same of so many jobs, in so many draws: from their layer, their steps, and what these exchange."""
    layer, (count, width) = what_ifs.layer, jobs
    # What is twice as good slows nothing: where the formulas say so, another part of the step is in its way.
    whole = np.asarray(step.time)
    time = np.empty((count, len(RESOURCES) + 1, width))
    np.minimum(whole, whole[..., :1, :], out=time)

    # The plan itself is the first of the what-ifs.
    planned = (
        training_step.Layer(*map(_itself, vars(layer).values())),
        training_step.Step(*map(_itself, vars(step).values())),
    )
    named = step_parts(*planned, calibration)
    table = np.empty((len(named), count, width))
    for rows, value in zip(table, named.values(), strict=True):
        rows[:] = value
    products = {"linear_layers": layer.products, "attention": layer.attention, "output_head": step.head}
    units = {name: binding_unit(product) for name, product in products.items()}
    resources = BOUND_BY | units | binding_links(what_ifs.exchanges)
    bound_by: dict[str, list[Resource]] = {
        name: np.broadcast_to(resource, count).tolist() for name, resource in resources.items()
    }
    most, typical = table.max(axis=-1).T.tolist(), table[..., 0].T.tolist()
    waiting = np.asarray(planned[1].time / (planned[1].time - planned[1].straggler))[..., 0]
    timings = []
    for place, straggler in enumerate(np.broadcast_to(waiting, count).tolist()):
        parts, sums = [], dict.fromkeys(RESOURCES, 0.0)
        for name, rows, largest, usual in zip(named, table, most[place], typical[place], strict=True):
            if largest > 0:
                resource = bound_by[name][place]
                parts.append((name, resource, rows[place]))
                sums[resource] += usual
        first = max(RESOURCES, key=sums.__getitem__)
        bottleneck = first, sums[first] / float(time[place, 0, 0])
        timings.append(Timing(time[place], tuple(parts), straggler, bottleneck, what_ifs.exchanges, place))
    return timings


def _itself(value: Array) -> Array:
    """The first of the what-ifs, of one job or of each of several."""
    return value[..., 0, :] if isinstance(value, np.ndarray) and value.ndim > 1 else value


def campaign_overhead(request: OperationRequest, catalog: Catalog) -> tuple[Array, tuple[Estimate, ...]]:
    """Calendar time over the run's, as draws, and the estimate it rests on."""
    if request.campaign_overhead is not None:
        return request.campaign_overhead, ()
    usual = catalog.training["failures"]["campaign"]
    return usual.draws(), (usual,)


def memory_of(
    setup: JobSetup, inputs: StepInputs, par: arguments.Parallelism | None, typical: memory.Memory | None = None
) -> Memory[Draws]:
    """Memory of the fullest GPU; without numbers where nothing divides. What is typical may be known already."""
    constants = setup.catalog.training
    capacity = np.atleast_1d(inputs.hardware.memory_capacity)
    usable = Draws(capacity, used=(setup.cluster.gpu.memory,))
    if par is None:
        nothing = Draws(np.full(capacity.shape, np.nan))
        return Memory((), nothing, usable, nothing, None)
    listed = setup.catalog.models.get(setup.request.model.model)
    model_error = constants["residual"]["memory"]
    shape = (model_error,) if listed is None else (listed.parameters, model_error)
    error, used = model_error.typical, (*shape, constants["memory"]["context"], constants["memory"]["fragmentation"])
    constant = inputs.calibration
    whole = typical or memory.memory(inputs.shape, inputs.job, par, inputs.software, setup.inputs.calibration)
    held = vars(whole.buffered(constant.context_memory, constant.fragmentation))
    total = np.atleast_1d(held["total"])
    return Memory(
        parts=tuple(
            MemoryPart(
                name,
                Draws(
                    np.array(size, float, ndmin=1, copy=None), used=used if name == "buffers" else shape, residual=error
                ),
            )
            for name, size in held.items()
            if name != "total"
        ),
        total=Draws(total, used=used, residual=error),
        capacity=usable,
        headroom=Draws(capacity - total * erring(total.size, error), used=(*used, setup.cluster.gpu.memory)),
        fits=bool(total[0] <= capacity[0]),
    )


@lru_cache(maxsize=128)
def erring(width: int, error: float, key: str = "residual") -> Floats:
    """The model's own relative error as draws, none for the first: for what is no product, such as a difference.

    Errors of different keys are independent.

    Kept: it takes 25 µs, the same for every plan of a stack.
    """
    most = float(np.exp(error * Z95 / Z90)) if width > 1 else 1.0
    draws = Estimate(1.0, "1", "", low=1 / most, high=most, key=key).draws() if most > 1 else np.ones(width)
    draws.flags.writeable = False
    return draws


def bottleneck_of(timing: Timing, used: tuple[Estimate, ...], error: float) -> Bottleneck[Draws]:
    """What bounds the step, and what doubling each resource saves."""
    resource, share = timing.bottleneck or (None, None)
    return Bottleneck(
        resource=resource,
        share=share,
        what_if=tuple(
            WhatIf(name, FACTOR, Draws(time, used=used, residual=error), gain)
            for name, time, gain in zip(RESOURCES, timing.time[1:], timing.gains, strict=True)
        ),
    )


def _campaign(training: Training[Draws]) -> Explanation:
    """How the calendar time of a campaign came about."""
    run, calendar = training.time_to_train.typical, training.campaign_time.typical
    terms = (
        Term("t", "all steps, with failures and checkpoints", run, "s"),
        Term("ψ", "calendar time over that", calendar / run, "1"),
        Term("ψ t", "calendar time", calendar, "s"),
    )
    return Explanation("training.campaign_time", terms)


def explanations(setup: JobSetup, training: Training[Draws], memory: Memory[Draws]) -> dict[str, Explanation]:
    """How the figures of a step came about, with the plan's own numbers."""
    parallelism = training.parallelism
    if parallelism is None:
        return {}
    request, inputs, catalog = setup.request, setup.inputs, setup.catalog
    tokens, flops = request.tokens, training.flops_per_token
    wide, linear, _ = peaks(setup.cluster.gpu, request.model.precision)
    efficiency, failures = catalog.training["products"]["efficiency"], catalog.training["failures"]["rate"]
    parts = tuple(Term(part.name, PART_NAMES[part.name], part.time.typical, "s") for part in training.parts)
    sizes = tuple(Term(part.name, part.name, part.size.typical, "B") for part in memory.parts)
    gpus = float(setup.cluster.gpus)
    time = training.step_time.typical
    step = Term("T_step", "step time", time, "s")
    return {
        "training.step_time": Explanation(
            "training.assemble",
            (
                Term("m", "micro-batches of a replica", float(parallelism.micro_batches), "1"),
                Term("p", "pipeline stages", float(parallelism.pipeline_parallel), "1"),
                Term("v", "model chunks on each", float(parallelism.virtual_pipeline), "1"),
                Term("L", "layers", float(inputs.shape.layers), "1"),
                Term("R", "16-bit matrix rate of one GPU", wide.typical, "FLOP/s", wide.source),
                Term("e", "share of it that a large product reaches", efficiency.typical, "1", efficiency.source),
                *parts,
            ),
        ),
        "training.mfu": Explanation(
            "training.mfu",
            (
                Term("F", f"model FLOPs of one token, {request.software.attention} attention counted", flops, "FLOP"),
                Term("B s", "tokens of one step", tokens, "1"),
                step,
                Term("n", "GPUs", gpus, "1"),
                Term("R", "dense peak at the precision of the layers", linear.typical, "FLOP/s", linear.source),
                Term("MFU", "model FLOPs utilisation", flops * tokens / (time * gpus * linear.typical), "1"),
            ),
        ),
        "training.time_to_train": Explanation(
            "training.time_to_train",
            (
                Term("D", "training tokens", request.model.training_tokens, "1"),
                Term("B s", "tokens of one step", tokens, "1"),
                Term("n", "steps, D over B s", float(training.steps), "1"),
                step,
                Term("A", "share of time that makes progress", training.availability, "1", failures.source),
            ),
        ),
        "training.campaign_time": _campaign(training),
        "memory.total": Explanation("training.memory", sizes),
    }
