"""Scenario and catalogue as what the step model takes: typical values, or draws."""

from dataclasses import dataclass, replace

import numpy as np

from app import training
from app.arrays import Array
from app.catalog import Catalog, Estimate
from app.plan import all_reduce
from app.plan.hardware import Hardware
from app.plan.training.cards import card, links, peaks
from app.plan.training.constants import calibration, kernels
from app.plan.training.stacks import software, stack_traits
from app.scenario import Scenario
from app.transformer import Shape


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
    read = _Reader(catalog, drawn, {} if used is None else used)
    met: list[Estimate] = []
    machine = all_reduce.machine_of(
        hardware, scenario, catalog, reading=all_reduce.draws if drawn else all_reduce.typical, used=met
    )
    read.used.update({estimate.key: estimate for estimate in met})
    up, out, peers = links(machine)
    if scenario.profile == "ideal":
        up, out = machine.scale_up_line, machine.scale_out_line
    trait = stack_traits(scenario, hardware, model, catalog)
    size = peaks(hardware.gpu, scenario.precision)[2]
    constants = calibration(
        read, kernels(catalog, hardware.gpu, read), size, trait["vendor_attention"], trait["release"]
    )
    usual = float(type(scenario).model_fields["jitter"].default)
    constants = replace(constants, straggler=constants.straggler * (scenario.jitter / usual))
    latency = hardware.scale_out.switch_latency
    if latency is not None and hops:
        constants = replace(constants, scale_out_latency=constants.scale_out_latency + hops * read.read(latency))
    return Numbers(
        job=training.Job(
            sequence_length=float(scenario.sequence_length),
            global_batch=float(scenario.global_batch),
            linear_bytes=size,
            gradient_bytes=2.0 if scenario.precision == "fp16" else 4.0,
            causal=float(scenario.attention == "causal"),
        ),
        hardware=training.Hardware(
            **card(catalog, hardware.gpu, scenario.precision, read.read),
            scale_up_bandwidth=up,
            scale_up_domain=float(hardware.domain),
            scale_out_bandwidth=np.asarray(out) / taper,
            mesh_peers=peers,
        ),
        software=software(trait),
        calibration=constants,
    )
