"""Requests and catalogue as what the step model and the search take, and a configuration by its names on the wire.

`step_inputs` is the only way to them: a plan, the search, the accuracy report and the fit take their inputs from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from app.catalog.entries import Gpu
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas.arrays import Array
from app.formulas.collectives.group_times import Interconnect, Links
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import Calibration as Library
from app.formulas.records import but
from app.formulas.training import arguments, parallelism_search
from app.formulas.training.exchanges import Exchanges, exchanges
from app.formulas.training.fixed_degrees import FixedDegrees
from app.formulas.training.search import Search, SearchResult
from app.formulas.transformer import Shape
from app.plan.cluster import Cluster
from app.plan.communication import USUAL_JITTER, Communication
from app.plan.job.calibration import (
    DEFAULT_STACK,
    Conditions,
    Stack,
    calibration,
    card,
    kernels,
    peaks,
    spread,
    stack_of,
    to_host,
    traits,
    weight_bytes,
)
from app.plan.job.layout import chunks_of
from app.plan.job.shape import shape
from app.plan.kept import Kept
from app.plan.result import Parallelism
from app.plan.scenario import (
    ModelRequest,
    OperationRequest,
    ParallelismRequest,
    Scenario,
    SoftwareRequest,
)

SHARDING = ("none", "optimizer", "gradients", "parameters")
RANK_ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
RECOMPUTE = ("none", "selective", "full")
CONTEXT_EXCHANGES = ("ring", "all-gather", "all-to-all")
ONE_CHUNK = ("1f1b", "zero-bubble", "dualpipe")
"""Schedules whose stages have one chunk of the model."""

Part = TypeVar("Part", arguments.GpuRates, arguments.Calibration, Machine, Library)


@dataclass(frozen=True)
class JobRequest:
    """What a reader asks of the training job."""

    model: ModelRequest
    parallelism: ParallelismRequest
    software: SoftwareRequest
    operation: OperationRequest
    batch: int
    """Sequences of one step: as given, or the model's usual [1]."""

    @classmethod
    def of(cls, scenario: Scenario, catalog: Catalog) -> "JobRequest":
        """The parts of a scenario that say what is trained, and how."""
        model = scenario.part(ModelRequest)
        return cls(
            model,
            scenario.part(ParallelismRequest),
            scenario.part(SoftwareRequest),
            scenario.part(OperationRequest),
            model.global_batch or usual_batch(model, catalog),
        )

    @property
    def tokens(self) -> float:
        """Tokens of one step [1]."""
        return float(self.batch * self.model.sequence_length)

    @property
    def steps(self) -> float:
        """Steps of the whole run [1]."""
        return self.model.training_tokens / self.tokens


def usual_batch(model: ModelRequest, catalog: Catalog) -> int:
    """Sequences that come nearest to the tokens that the model's authors take in one step, or to what is usual [1].

    >>> from app.catalog.load import load_catalog
    >>> usual_batch(ModelRequest(), load_catalog()), usual_batch(ModelRequest(model="gpt-3-175b"), load_catalog())
    (2048, 391)
    """
    stated = catalog.models[model.model].tokens_per_step if model.model in catalog.models else None
    tokens = (stated or catalog.training["batch"]["tokens"]).typical
    most = 10_000_000
    return min(max(round(tokens / model.sequence_length), 1), most)


@dataclass
class _Reader:
    """Reads estimates as draws, or their typical value alone, and remembers which were used."""

    catalog: Catalog
    drawn: bool
    used: dict[str, Estimate]

    def read(self, estimate: Estimate) -> Array:
        self.used[estimate.key] = estimate
        return estimate.draws() if self.drawn else estimate.typical

    def __call__(self, group: str, name: str) -> Array:
        return self.read(self.catalog.training[group][name])


@dataclass(frozen=True)
class StepInputs:
    """What the step model takes, apart from the parallelism.

    Attributes:
        shape: of the model.
        job, hardware, software, calibration: arguments of the formulas.
        conditions: what the constants were chosen by.
        links: of the cluster, as groups of the job meet them.
        used: the estimates that all of it rests on.
        card: those of them that what a GPU does by itself rests on.
    """

    shape: Shape
    job: arguments.Job
    hardware: arguments.GpuRates
    software: arguments.Software
    calibration: arguments.Calibration
    conditions: Conditions
    links: Links
    used: tuple[Estimate, ...]
    card: tuple[Estimate, ...] = ()

    @property
    def typical(self) -> "StepInputs":
        """The same without draws: the first of each, which is its typical value."""
        return StepInputs(
            self.shape,
            self.job,
            _first_rates(self.hardware),
            self.software,
            _first_constants(self.calibration),
            self.conditions,
            first_links(self.links),
            self.used,
            self.card,
        )

    def exchanges(self, parallelism: arguments.Parallelism) -> Exchanges:
        """What a configuration exchanges in a step, each exchange by itself."""
        return exchanges(self.shape, self.job, parallelism, self.software, self.links, self.calibration.bucket)

    def on(self, fabric: Communication) -> "StepInputs":
        """The typical inputs on another network of the same GPUs."""
        return but(self, links=first_links(fabric.links(TYPICAL)))

    def with_batch(self, batch: int) -> "StepInputs":
        """The same with other sequences in a step."""
        return but(self, job=but(self.job, global_batch=float(batch)))


def _first(part: Part) -> Part:
    return type(part)(*map(_number, vars(part).values()))


@lru_cache(maxsize=64)
def _first_rates(rates: arguments.GpuRates) -> arguments.GpuRates:
    """The typical rates of a GPU. Kept: what is worked out from them is told by which they are."""
    return _first(rates)


@lru_cache(maxsize=64)
def _first_constants(constants: arguments.Calibration) -> arguments.Calibration:
    """The typical constants of the step.

    Kept: 50 of them take 40 µs, twice a plan, and all plans of a GPU share them.
    """
    return _first(constants)


@lru_cache(maxsize=128)
def first_links(links: Links) -> Links:
    """The typical links. Kept: one for a cluster, whatever the job."""
    return Links(_first_interconnect(links.interconnect), links.site)


@lru_cache(maxsize=128)
def _first_interconnect(joining: Interconnect) -> Interconnect:
    """What joins the GPUs, typically. Kept: one for clusters of many sizes, whatever the job."""
    return but(
        joining,
        machine=_first(joining.machine),
        inside_rate=_number(joining.inside_rate),
        inside_hop=_number(joining.inside_hop),
        bridge=None if joining.bridge is None else _first(joining.bridge),
        library=_first_library(joining.library),
    )


@lru_cache(maxsize=64)
def _first_library(library: Library) -> Library:
    """The typical constants of the library. Kept: all clusters share them."""
    return _first(library)


def _number(value: Array) -> float:
    """A plain number is quicker; but by a zero, such as the rate of no network, only NumPy's divide without raising."""
    return (value.item(0) if isinstance(value, np.ndarray) else value) or np.float64(0)


@dataclass(frozen=True, eq=False)
class _Constants:
    """What a GPU, its precision and its software contribute, whatever the cluster and the job, and from what."""

    calibration: arguments.Calibration
    card: Mapping[str, Array]
    used: Mapping[str, Estimate]


@lru_cache(maxsize=64)
def _rates(constants: _Constants, domain: float) -> arguments.GpuRates:
    """The rates of a GPU in a domain of so many. Kept: what is worked out from them is told by which they are."""
    return arguments.GpuRates(**constants.card, scale_up_domain=domain)


@lru_cache(maxsize=64)
def _constants(catalog: Catalog, gpu: str, precision: str, conditions: Conditions, drawn: bool) -> _Constants:
    """The constants of the step, the same for every request about the same GPU and stack.

    Kept: some 60 formulas over the draws take 0.3 ms, twice a plan, as long as the step itself.
    """
    read = _Reader(catalog, drawn, {})
    kind = catalog.gpus[gpu]
    calibrated = calibration(read, kernels(catalog, kind, read), conditions)
    card_rates = card(catalog, kind, precision, read.read)
    for value in (*vars(calibrated).values(), *card_rates.values()):
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return _Constants(calibrated, card_rates, read.used)


@lru_cache(maxsize=128)
def _rests_on(
    fabric: Communication | None, constants: _Constants, further: tuple[Estimate, ...]
) -> tuple[Estimate, ...]:
    """The estimates that a step rests on, or what a GPU does by itself. Kept: every job on a cluster shares them."""
    used = *(fabric.used_by_groups() if fabric else ()), *constants.used.values(), *further
    return tuple({estimate.key: estimate for estimate in used}.values())


def conditions_of(gpu: Gpu, precision: str, stack: Stack, fabric: Communication) -> Conditions:
    """What the constants of the step depend on besides the GPU's architecture."""
    return Conditions(
        linear_bytes=peaks(gpu, precision)[2],
        vendor_attention=stack.vendor_attention,
        release=stack.release,
        stragglers=fabric.jitter / USUAL_JITTER,
        slow_node=fabric.slow_node,
    )


def spread_of(jitter: Array, slow_node: Array, catalog: Catalog) -> Mapping[str, Array]:
    """The typical constants of nodes that spread so [1], by their names in a calibration."""
    return spread(_Reader(catalog, drawn=False, used={}), jitter / USUAL_JITTER, slow_node)


def imbalance(request: SoftwareRequest, catalog: Catalog) -> float:
    """Tokens of the busiest rank's experts over the average, as the routing that is asked for leaves them [1]."""
    even = request.routing in ("balanced", "dropped")
    return 1.0 if even else catalog.training["experts"]["imbalance"].typical


def _scheduled(software: arguments.Software, schedule: str | None) -> arguments.Software:
    """The stack under a schedule: DualPipe runs the experts' exchange of one micro-batch beside another's layers."""
    return but(software, overlap_expert=1.0, staged_expert=0.0) if schedule == "dualpipe" else software


def step_inputs(
    cluster: Cluster, fabric: Communication, request: JobRequest, catalog: Catalog, *, drawn: bool = False
) -> StepInputs:
    """Catalogue entries and requests as numbers: typical values, or draws on the last axis."""
    model = shape(request.model, catalog)
    precision = request.model.precision
    stack = stack_of(request.software, cluster.gpu, model, precision, catalog)
    conditions = conditions_of(cluster.gpu, precision, stack, fabric)
    constants = _constants(catalog, cluster.gpu.key, precision, conditions, drawn)
    rates, further = _rates(constants, float(cluster.domain)), _Reader(catalog, drawn, {})
    half, offload = precision == "fp16", request.software.offload or ""
    if offload not in ("", "none"):
        rates = but(rates, **to_host(catalog, cluster.gpu, further.read))
    further_used = tuple(further.used.values())
    inputs = StepInputs(
        shape=model,
        job=arguments.Job(
            sequence_length=float(request.model.sequence_length),
            global_batch=float(request.batch),
            linear_bytes=float(np.asarray(conditions.linear_bytes)),
            gradient_bytes=request.software.gradient_bytes or (2.0 if half else stack.gradient_bytes),
            moment_bytes=request.software.moment_bytes or 4.0,
            weight_bytes=weight_bytes(catalog, cluster.gpu, precision, stack),
            scaled=float(half),
            imbalance=imbalance(request.software, catalog),
            offload_activations=float("activations" in offload),
            offload_optimizer=float("optimizer" in offload),
            causal=float(request.software.attention == "causal"),
        ),
        hardware=rates,
        software=_scheduled(stack.software, request.parallelism.schedule),
        calibration=constants.calibration,
        conditions=conditions,
        links=fabric.links(DRAWS if drawn else TYPICAL),
        used=_rests_on(fabric, constants, further_used),
        card=_rests_on(None, constants, further_used),
    )
    return inputs if drawn else inputs.typical


def fixed_degrees(request: JobRequest, model: Shape, catalog: Catalog) -> FixedDegrees:
    """What the request fixes of the parallelism.

    A stack without sequence parallelism runs without it unless asked to. A dense model spreads no experts, whatever
    degree is given. Experts are whole, or, in releases before spring 2025, cut by tensor parallelism as Megatron's
    default then was.
    """
    degrees, trait = request.parallelism, traits(catalog, request.software.stack or DEFAULT_STACK)
    release = request.software.software_date or trait["release"]
    schedule, recompute, layers = degrees.schedule, degrees.recompute, degrees.recompute_layers
    zero_bubble = catalog.training["step"]["zero_bubble"].typical
    if layers is not None and recompute is None:
        recompute = "full"
    chunks = chunks_of(degrees.layout, int(model.layers), degrees.pipeline_parallel, degrees.virtual_pipeline)
    return FixedDegrees(
        tensor=degrees.tensor_parallel,
        pipeline=degrees.pipeline_parallel,
        virtual_pipeline=degrees.virtual_pipeline or (1 if schedule in ONE_CHUNK else None),
        context=degrees.context_parallel,
        expert=degrees.expert_parallel and (degrees.expert_parallel if model.experts else 1),
        micro_batch=degrees.micro_batch,
        sharding=None if degrees.sharding is None else SHARDING.index(degrees.sharding),
        sharding_group=degrees.sharding_group,
        sequence_parallel=degrees.sequence_parallel
        if trait["sequence_parallel"] > 0
        else bool(degrees.sequence_parallel),
        recompute=None if recompute is None else RECOMPUTE.index(recompute),
        recomputed=None if layers is None else min(layers / float(model.layers), 1.0),
        expert_tensor=degrees.expert_tensor_parallel if float(model.experts) > 0 else 1,
        cut_experts=release < catalog.training["maturity"]["whole_experts"].typical,
        bubble=zero_bubble if schedule == "zero-bubble" else 1.0,
        stages_first=RANK_ORDERS.index(degrees.rank_order) == 1 if degrees.rank_order else trait["stages_first"] > 0,
        bidirectional=schedule == "dualpipe",
        context_exchange=float(CONTEXT_EXCHANGES.index(degrees.context_exchange or "ring")),
        causal_balance=degrees.causal_balance,
        chunks=chunks,
    )


@dataclass(frozen=True)
class JobSetup:
    """What is to run, on what, and how much of that is fixed: all that the search for the best parallelism takes.

    ``inputs`` are typical values.
    """

    cluster: Cluster
    request: JobRequest
    catalog: Catalog
    inputs: StepInputs
    fixed: FixedDegrees

    @classmethod
    def of(cls, cluster: Cluster, request: JobRequest, catalog: Catalog, inputs: StepInputs) -> "JobSetup":
        """With what the request fixes."""
        return cls(cluster, request, catalog, inputs, fixed_degrees(request, inputs.shape, catalog))

    def on(self, cluster: Cluster, links: Links) -> "JobSetup":
        """The same job on another cluster of such GPUs, as many of them in a domain, whose nodes spread alike."""
        return but(self, cluster=cluster, inputs=but(self.inputs, links=links))

    def with_batch(self, batch: int) -> "JobSetup":
        """The same job with other sequences in a step."""
        return but(self, request=but(self.request, batch=batch), inputs=self.inputs.with_batch(batch))

    def fixed_as(self, parallelism: ParallelismRequest) -> FixedDegrees:
        """What another request for the same job, on the same stack, fixes of the parallelism."""
        return fixed_degrees(but(self.request, parallelism=parallelism), self.inputs.shape, self.catalog)

    @property
    def asked(self) -> Search:
        """What the search for the best parallelism is asked."""
        n = self.inputs
        return Search(n.shape, n.job, n.hardware, n.software, n.calibration, n.links, self.cluster.gpus, self.fixed)

    @property
    def budget(self) -> float:
        """Share of the memory that may be filled by a configuration of our own choice [1]."""
        return self.catalog.training["memory"]["budget"].typical

    def search(self, budget: float | None = None, timed: bool = True, quickest: int | None = None) -> SearchResult:
        """Every way to run the job that fills no more than a share of the memory, or so many, quickest first."""
        asked = self.asked, self.budget if budget is None else budget, timed, quickest
        if quickest is None:
            return _known_search(*asked)
        if self.fixed.whole:  # it takes as long to look for among those that are kept
            return parallelism_search.best(*asked)
        result = _QUICKEST.get(asked)
        if result is None:
            result = parallelism_search.best(*asked)
            _QUICKEST.add(asked, result)
        return result

    def searched(self, quickest: int, result: SearchResult) -> None:
        """Keep what such a search came to that was made together with others."""
        _QUICKEST.add((self.asked, self.budget, True, quickest), result)


_known_search = lru_cache(maxsize=4)(parallelism_search.best)
"""Kept: run length, prices and failures change a plan and not its search, half of a plan's time; few, as each holds all
ways to run a job, some megabytes."""
_QUICKEST: Kept[tuple[Search, float, bool, int | None], SearchResult] = Kept(32)


def schedule_of(par: arguments.Parallelism) -> str:
    """The schedule of a configuration, by its name on the wire."""
    if float(par.bidirectional) > 0:
        return "dualpipe"
    return "zero-bubble" if float(par.bubble) < 1 else "interleaved" if float(par.virtual_pipeline) > 1 else "1f1b"


def named(par: arguments.Parallelism, inputs: StepInputs) -> Parallelism:
    """A configuration under the names on the wire."""
    whole = {name: round(float(getattr(par, name))) for name in (
        "tensor", "pipeline", "virtual_pipeline", "context", "expert", "expert_tensor", "data", "micro_batch",
        "sharding", "sharding_group",
    )}  # fmt: skip
    repeated = float(par.recompute)
    return Parallelism(
        tensor_parallel=whole["tensor"],
        pipeline_parallel=whole["pipeline"],
        virtual_pipeline=whole["virtual_pipeline"],
        context_parallel=whole["context"],
        expert_parallel=whole["expert"],
        expert_tensor_parallel=whole["expert_tensor"],
        data_parallel=whole["data"],
        micro_batch=whole["micro_batch"],
        micro_batches=round(float(inputs.job.global_batch) / (whole["data"] * whole["micro_batch"])),
        schedule=schedule_of(par),
        sequence_parallel=bool(par.sequence_parallel),
        sharding=SHARDING[whole["sharding"]],
        sharding_group=whole["sharding_group"],
        recompute="selective" if float(par.recompute_core) > 0 else "full" if repeated > 0 else "none",
        recompute_layers=round(repeated * float(inputs.shape.layers)) if 0 < repeated < 1 else None,
    )
