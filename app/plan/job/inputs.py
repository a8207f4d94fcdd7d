"""Scenario and catalogue as what the step model and the search take, and a configuration by its names on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas.arrays import Array
from app.formulas.training import arguments, parallelism_search
from app.formulas.transformer import Shape
from app.plan.cluster import Hardware
from app.plan.communication import communication
from app.plan.job.calibration import DEFAULT_STACK, calibration, card, kernels, peaks, stack_of, traits
from app.plan.result import Parallelism
from app.plan.scenario import CollectiveRequest, NetworkRequest, Scenario

USUAL_JITTER = float(Scenario.model_fields["jitter"].default)
"""The spread of a node's step for which the constant of stragglers holds [1]."""

Part = TypeVar("Part", arguments.GpuRates, arguments.Calibration)


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
class Numbers:
    """What the step model takes, apart from the parallelism."""

    job: arguments.Job
    hardware: arguments.GpuRates
    software: arguments.Software
    calibration: arguments.Calibration

    @property
    def typical(self) -> "Numbers":
        """The same without draws: the first of each, which is its typical value."""
        return Numbers(self.job, _first(self.hardware), self.software, _first_constants(self.calibration))


def _first(part: Part) -> Part:
    return type(part)(*map(_number, vars(part).values()))


def _number(value: Array) -> float:
    """A plain number is quicker; but by a zero, such as the rate of no network, only NumPy's divide without raising."""
    return (value.item(0) if isinstance(value, np.ndarray) else value) or np.float64(0)


_first_constants = lru_cache(maxsize=64)(_first)


@dataclass(frozen=True)
class _Constants:
    """What a GPU, its precision and its software contribute, whatever the cluster and the job, and from what."""

    calibration: arguments.Calibration
    card: Mapping[str, Array]
    used: Mapping[str, Estimate]


@lru_cache(maxsize=64)
def _constants(
    catalog: Catalog,
    gpu: str,
    precision: str,
    vendor_attention: float,
    release: float,
    jitter: float,
    scale_out: str,
    hops: int,
    drawn: bool,
) -> _Constants:
    """The constants of the step, the same for every request about the same GPU, stack and length of path."""
    read = _Reader(catalog, drawn, {})
    kind = catalog.gpus[gpu]
    found = calibration(read, kernels(catalog, kind, read), peaks(kind, precision)[2], vendor_attention, release)
    latency = catalog.scale_out[scale_out].switch_latency
    path = 0.0 if latency is None or not hops else hops * read.read(latency)
    found = replace(
        found,
        straggler=found.straggler * (jitter / USUAL_JITTER),
        scale_out_latency=found.scale_out_latency + path,
    )
    one = card(catalog, kind, precision, read.read)
    for value in (*vars(found).values(), *one.values()):
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return _Constants(found, one, read.used)


def numbers(
    scenario: Scenario,
    hardware: Hardware,
    model: Shape,
    catalog: Catalog,
    *,
    taper: float = 1.0,
    hops: int = 0,
    drawn: bool = False,
    used: dict[str, Estimate] | None = None,
) -> Numbers:
    """Catalogue entries and scenario as numbers: typical values, or draws on the last axis.

    An oversubscribed fabric gives each GPU its rate over the taper; every switch on the way adds its latency once. The
    ideal profile takes links at their line rate, the calibrated one at what collectives reach on them.
    """
    requests = scenario.part(NetworkRequest), scenario.part(CollectiveRequest)
    fabric = replace(communication(hardware, None, *requests, catalog), taper=taper, hops=hops)
    rates = fabric.rates(DRAWS if drawn else TYPICAL)
    stack = stack_of(scenario, hardware, model, catalog)
    constants = _constants(
        catalog,
        hardware.gpu.key,
        scenario.precision,
        stack.vendor_attention,
        stack.release,
        scenario.jitter,
        hardware.scale_out.key,
        hops,
        drawn,
    )
    if used is not None:
        used.update({estimate.key: estimate for estimate in fabric.used()})
        used.update(constants.used)
    made = Numbers(
        job=arguments.Job(
            sequence_length=float(scenario.sequence_length),
            global_batch=float(scenario.global_batch),
            linear_bytes=peaks(hardware.gpu, scenario.precision)[2],
            gradient_bytes=2.0 if scenario.precision == "fp16" else 4.0,
            causal=float(scenario.attention == "causal"),
        ),
        hardware=arguments.GpuRates(
            **constants.card,
            scale_up_bandwidth=rates.scale_up,
            scale_up_domain=float(hardware.domain),
            scale_out_bandwidth=rates.scale_out,
            mesh_peers=rates.mesh_peers,
        ),
        software=stack.software,
        calibration=constants.calibration,
    )
    return made if drawn else made.typical


SHARDING = ("none", "optimizer", "gradients", "parameters")
RECOMPUTE = ("none", "selective", "full")


def given(scenario: Scenario, catalog: Catalog) -> parallelism_search.FixedDegrees:
    """What the scenario fixes of the parallelism; a stack without sequence parallelism fixes that too."""
    able = traits(catalog, scenario.stack or DEFAULT_STACK)["sequence_parallel"] > 0
    schedule = scenario.schedule
    virtual = scenario.virtual_pipeline or (1 if schedule in ("1f1b", "zero-bubble") else None)
    zero_bubble = catalog.training["step"]["zero_bubble"].typical
    return parallelism_search.FixedDegrees(
        tensor=scenario.tensor_parallel,
        pipeline=scenario.pipeline_parallel,
        virtual_pipeline=virtual,
        context=scenario.context_parallel,
        expert=scenario.expert_parallel,
        micro_batch=scenario.micro_batch,
        sharding=None if scenario.sharding is None else SHARDING.index(scenario.sharding),
        sharding_group=scenario.sharding_group,
        sequence_parallel=scenario.sequence_parallel if able else False,
        recompute=None if scenario.recompute is None else RECOMPUTE.index(scenario.recompute),
        bubble=zero_bubble if schedule == "zero-bubble" else 1.0,
    )


def named(par: arguments.Parallelism, job: arguments.Job, zero_bubble: bool = False) -> Parallelism:
    """A configuration under the names on the wire."""
    whole = {name: round(float(getattr(par, name))) for name in (
        "tensor", "pipeline", "virtual_pipeline", "context", "expert", "data", "micro_batch", "sharding",
        "sharding_group",
    )}  # fmt: skip
    return Parallelism(
        tensor_parallel=whole["tensor"],
        pipeline_parallel=whole["pipeline"],
        virtual_pipeline=whole["virtual_pipeline"],
        context_parallel=whole["context"],
        expert_parallel=whole["expert"],
        data_parallel=whole["data"],
        micro_batch=whole["micro_batch"],
        micro_batches=round(float(job.global_batch) / (whole["data"] * whole["micro_batch"])),
        schedule="zero-bubble" if zero_bubble else "interleaved" if whole["virtual_pipeline"] > 1 else "1f1b",
        sequence_parallel=bool(par.sequence_parallel),
        sharding=SHARDING[whole["sharding"]],
        sharding_group=whole["sharding_group"],
        recompute="full" if float(par.recompute) > 0 else "selective" if float(par.recompute_core) > 0 else "none",
    )
