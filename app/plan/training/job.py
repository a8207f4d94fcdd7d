"""The training job of a plan, from the scenario to results before they are folded to bands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from app import training, transformer
from app.catalog import Catalog, Estimate
from app.plan.bands import Band, Draws
from app.plan.hardware import Hardware
from app.plan.parts import (
    Alternative,
    Bottleneck,
    Explanation,
    Finding,
    Memory,
    MemoryPart,
    Parallelism,
    Resource,
    StepPart,
    Training,
    WhatIf,
)
from app.plan.training.candidates import alternatives, cloud, search_with
from app.plan.training.constants import residual
from app.plan.training.degrees import given, named
from app.plan.training.explanations import explanations
from app.plan.training.findings import findings, interrupted
from app.plan.training.inputs import numbers
from app.plan.training.parts import FACTOR, RESOURCES, Floats, timing_of
from app.plan.training.results import memory_results, step_results
from app.plan.training.shapes import shape, shape_fields
from app.plan.training.stacks import DEFAULT_STACK, traits
from app.scenario import Scenario
from app.transformer import Shape


@dataclass(frozen=True)
class TrainingDraft:
    """The training job before its results are folded to bands."""

    model: Shape
    chosen: training.Parallelism | None
    parallelism: Parallelism | None
    searched: int
    feasible: int
    parts: tuple[tuple[str, Resource], ...]
    memory_parts: tuple[str, ...]
    fits: bool | None
    steps: float
    availability: float
    straggler: float
    flops_per_token: float
    gains: tuple[float | None, ...]
    bottleneck: tuple[Resource, float] | None
    alternatives: tuple[Alternative, ...]
    cloud: tuple[tuple[float, float], ...]
    time_to_train: Floats
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explain: Callable[[], Mapping[str, Explanation]]

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How the figures came about, worked out for those who ask."""
        return self.explain()

    @cached_property
    def parameters(self) -> float:
        """Parameters of the model [1]."""
        return float(transformer.parameters(self.model))

    @property
    def gradient_bytes(self) -> float:
        """Bytes of the model's gradients in 16-bit [B]."""
        return 2 * self.parameters

    @property
    def shape_fields(self) -> dict[str, Any]:
        """The model's shape under the scenario's names."""
        return shape_fields(self.model)

    def training_part(self, bands: Mapping[str, Band | None]) -> Training:
        """The step, as every reader gets it."""
        return Training(
            parallelism=self.parallelism,
            searched=self.searched,
            feasible=self.feasible,
            step_time=bands["training.step_time"],
            parts=tuple(StepPart(name, kind, bands[f"training.parts.{name}"]) for name, kind in self.parts),
            mfu=bands["training.mfu"],
            hfu=bands["training.hfu"],
            tokens_per_second=bands["training.tokens_per_second"],
            time_to_train=bands["training.time_to_train"],
            steps=self.steps,
            availability=self.availability,
            straggler=self.straggler,
            parameters=self.parameters,
            active_parameters=float(transformer.active_parameters(self.model)),
            flops_per_token=self.flops_per_token,
            alternatives=self.alternatives,
            cloud=self.cloud,
        )

    def memory_part(self, bands: Mapping[str, Band | None]) -> Memory:
        """Memory of the fullest GPU, as every reader gets it."""
        return Memory(
            parts=tuple(MemoryPart(name, bands[f"memory.parts.{name}"]) for name in self.memory_parts),
            total=bands["memory.total"],
            capacity=bands["memory.capacity"],
            headroom=bands["memory.headroom"],
            fits=self.fits,
        )

    def bottleneck_part(self, bands: Mapping[str, Band | None]) -> Bottleneck:
        """What bounds the step and what doubling each resource saves, as every reader gets it."""
        resource, share = self.bottleneck or (None, None)
        return Bottleneck(
            resource=resource,
            share=share,
            what_if=tuple(
                WhatIf(name, FACTOR, bands[f"bottleneck.{name}"], gain)
                for name, gain in zip(RESOURCES, self.gains, strict=True)
            ),
        )


def draft(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, *, taper: float = 1.0, hops: int = 0
) -> TrainingDraft:
    """Find the best parallelism that fits, time its step and what it is made of.

    ``taper`` is the fabric's oversubscription from leaf to top, ``hops`` the switches on its longest path.
    """
    model = shape(scenario, catalog)
    used: dict[str, Estimate] = {}
    wide = numbers(scenario, hardware, model, catalog, taper=taper, hops=hops, drawn=True, used=used)
    scalar = wide.typical
    fixed = given(scenario, catalog)
    budget = catalog.training["memory"]["budget"].typical
    found = search_with(scenario, model, scalar, fixed, budget)
    chosen = found.best()
    if chosen is None and found.frugal is not None and fixed.whole:
        # A configuration given whole may fill the memory to the brim.
        found = search_with(scenario, model, scalar, fixed, 1.0)
        chosen = found.best()
    width = np.size(catalog.training["products"]["efficiency"].draws())
    shown = chosen or found.frugal
    estimates = tuple(used.values())
    error = residual(
        catalog,
        hardware.gpu,
        bool(model.experts),
        bool(traits(catalog, scenario.stack or DEFAULT_STACK)["vendor_attention"]),
    )
    timing = timing_of(model, wide, chosen, width)
    flops = float(transformer.training_flops(model, scalar.job.sequence_length, scalar.job.causal))
    share, quantities = step_results(scenario, hardware, catalog, model, wide, chosen, timing, flops, estimates, error)
    memory_names, fits, memory = memory_results(model, wide, shown, catalog, estimates)
    gains: tuple[float | None, ...] = (None,) * len(RESOURCES)
    if chosen is not None:
        typical = timing.time[:, 0]
        gains = tuple(float(1 - after / typical[0]) for after in typical[1:])
    parallelism = None if chosen is None else named(chosen, scalar.job, fixed.bubble < 1)
    return TrainingDraft(
        model=model,
        chosen=chosen,
        parallelism=parallelism,
        searched=found.enumerated,
        feasible=found.feasible,
        parts=tuple((name, resource) for name, resource, _ in timing.parts),
        memory_parts=memory_names,
        fits=fits,
        steps=scenario.training_tokens / (scenario.global_batch * scenario.sequence_length),
        availability=share,
        straggler=float(1 + timing.straggler[0]) if chosen is not None else 1.0,
        flops_per_token=flops,
        gains=gains,
        bottleneck=timing.bottleneck,
        alternatives=alternatives(model, scalar, found, fixed),
        cloud=cloud(found, float(timing.time[0, 0])),
        time_to_train=quantities["training.time_to_train"].values,
        quantities=quantities | memory,
        findings=(
            *findings(scenario, hardware, catalog, model, found, chosen, memory, budget),
            *interrupted(share),
        ),
        explain=partial(explanations, scenario, hardware, catalog, model, parallelism, timing, share, flops, memory),
    )


def time_on(
    job: TrainingDraft, hardware: Hardware, scenario: Scenario, catalog: Catalog, *, taper: float, hops: int
) -> float:
    """What the same job, run the same way, takes on other hardware: typically, failures included [s].

    The arguments are those of `draft`. NaN where the job does not run.
    """
    if job.chosen is None:
        return float("nan")
    n = numbers(scenario, hardware, job.model, catalog, taper=taper, hops=hops)
    step = training.step(job.model, n.job, n.hardware, job.chosen, n.software, n.calibration)
    return job.steps * float(step.time) / job.availability
