"""Scenario and catalogue as what the step model takes: typical values, or draws."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np

from app import training
from app.arrays import Array
from app.catalog import Catalog, Estimate
from app.plan import all_reduce
from app.plan.hardware import Hardware
from app.plan.training.cards import card, links, peaks
from app.plan.training.constants import calibration, kernels
from app.plan.training.stacks import stack_of
from app.scenario import Scenario
from app.transformer import Shape

USUAL_JITTER = float(Scenario.model_fields["jitter"].default)
"""The spread of a node's step for which the constant of stragglers holds [1]."""

Part = TypeVar("Part", training.Hardware, training.Calibration)


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

    job: training.Job
    hardware: training.Hardware
    software: training.Software
    calibration: training.Calibration

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

    calibration: training.Calibration
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
    met: list[Estimate] = []
    machine = all_reduce.machine_of(
        hardware, scenario, catalog, reading=all_reduce.draws if drawn else all_reduce.typical, used=met
    )
    up, out, peers = links(machine)
    if scenario.profile == "ideal":
        up, out = machine.scale_up_line, machine.scale_out_line
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
        used.update({estimate.key: estimate for estimate in met})
        used.update(constants.used)
    made = Numbers(
        job=training.Job(
            sequence_length=float(scenario.sequence_length),
            global_batch=float(scenario.global_batch),
            linear_bytes=peaks(hardware.gpu, scenario.precision)[2],
            gradient_bytes=2.0 if scenario.precision == "fp16" else 4.0,
            causal=float(scenario.attention == "causal"),
        ),
        hardware=training.Hardware(
            **constants.card,
            scale_up_bandwidth=up,
            scale_up_domain=float(hardware.domain),
            scale_out_bandwidth=np.asarray(out) / taper,
            mesh_peers=peers,
        ),
        software=stack.software,
        calibration=constants.calibration,
    )
    return made if drawn else made.typical
