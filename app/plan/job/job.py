"""The training job of a plan, from the scenario to results before they are folded to bands."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.training import arguments, parallelism_search
from app.formulas.training import step as training_step
from app.formulas.transformer import Shape
from app.plan.band import Band, Draws
from app.plan.cluster import Hardware
from app.plan.job.breakdown import (
    FACTOR,
    MEMORY_PART,
    RESOURCES,
    Floats,
    Timing,
    explanations,
    memory_results,
    step_results,
    timing_of,
)
from app.plan.job.calibration import DEFAULT_STACK, residual, traits
from app.plan.job.candidates import alternatives, configurations, search_with
from app.plan.job.inputs import Numbers, given, named, numbers
from app.plan.job.job_findings import findings, no_progress
from app.plan.job.shape import shape, shape_fields
from app.plan.result import (
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
from app.plan.scenario import Scenario


@dataclass(frozen=True)
class TrainingDraft:
    """The training job before its results are folded to bands. What few read is worked out when they do."""

    hardware: Hardware
    scenario: Scenario
    catalog: Catalog
    model: Shape
    numbers: Numbers
    fixed: parallelism_search.FixedDegrees
    budget: float
    found: parallelism_search.SearchResult
    chosen: arguments.Parallelism | None
    parallelism: Parallelism | None
    timing: Timing
    availability: float
    flops_per_token: float
    fits: bool | None
    memory: Mapping[str, Draws]
    quantities: Mapping[str, Draws]

    @property
    def time_to_train(self) -> Floats:
        """Time of the whole run, failures included, as draws [s]."""
        return self.quantities["training.time_to_train"].values

    @property
    def steps(self) -> float:
        """Steps of the whole run [1]."""
        return self.scenario.training_tokens / (self.scenario.global_batch * self.scenario.sequence_length)

    @property
    def parts(self) -> tuple[tuple[str, Resource], ...]:
        """What the step is made of, and the resource that bounds each part."""
        return tuple((name, resource) for name, resource, _ in self.timing.parts)

    @property
    def bottleneck(self) -> tuple[Resource, float] | None:
        """The resource that bounds the step, and its share of it."""
        return self.timing.bottleneck

    @property
    def gains(self) -> tuple[float | None, ...]:
        """Share of the step that each resource saves if it is twice as good."""
        if self.chosen is None:
            return (None,) * len(RESOURCES)
        own, *better = self.timing.time[:, 0].tolist()
        return tuple(1 - after / own for after in better)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The best ways to run the job after the chosen one."""
        return alternatives(self.model, self.numbers, self.found, self.fixed)

    @cached_property
    def cloud(self) -> tuple[tuple[float, float], ...]:
        """Step time and memory of many ways to run it."""
        return configurations(self.found, float(self.timing.time[0, 0]))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What keeps the job from running, what it runs instead, and what is tight."""
        job = (self.scenario, self.hardware, self.catalog, self.model, self.found, self.chosen)
        return (*findings(*job, self.memory, self.budget), *no_progress(self.availability))

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How the figures came about."""
        return explanations(
            self.scenario,
            self.hardware,
            self.catalog,
            self.model,
            self.parallelism,
            self.timing,
            self.availability,
            self.flops_per_token,
            self.memory,
        )

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
            searched=self.found.enumerated,
            feasible=self.found.feasible,
            step_time=bands["training.step_time"],
            parts=tuple(StepPart(name, kind, bands[f"training.parts.{name}"]) for name, kind in self.parts),
            mfu=bands["training.mfu"],
            hfu=bands["training.hfu"],
            tokens_per_second=bands["training.tokens_per_second"],
            time_to_train=bands["training.time_to_train"],
            steps=self.steps,
            availability=self.availability,
            straggler=1.0 if self.chosen is None else float(1 + self.timing.straggler[0]),
            parameters=self.parameters,
            active_parameters=float(transformer.active_parameters(self.model)),
            flops_per_token=self.flops_per_token,
            alternatives=self.alternatives,
            cloud=self.cloud,
        )

    def memory_part(self, bands: Mapping[str, Band | None]) -> Memory:
        """Memory of the fullest GPU, as every reader gets it."""
        return Memory(
            parts=tuple(
                MemoryPart(path.rpartition(".")[2], bands[path]) for path in self.memory if path.startswith(MEMORY_PART)
            ),
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
    if chosen is None and found.smallest is not None and fixed.whole:
        # A configuration given whole may fill the memory to the brim.
        found = search_with(scenario, model, scalar, fixed, 1.0)
        chosen = found.best()
    width = np.size(catalog.training["products"]["efficiency"].draws())
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
    fits, memory = memory_results(model, wide, chosen or found.smallest, catalog, estimates)
    return TrainingDraft(
        hardware=hardware,
        scenario=scenario,
        catalog=catalog,
        model=model,
        numbers=scalar,
        fixed=fixed,
        budget=budget,
        found=found,
        chosen=chosen,
        parallelism=None if chosen is None else named(chosen, scalar.job, fixed.bubble < 1),
        timing=timing,
        availability=share,
        flops_per_token=flops,
        fits=fits,
        memory=memory,
        quantities=quantities | memory,
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
    step = training_step.step(job.model, n.job, n.hardware, job.chosen, n.software, n.calibration)
    return job.steps * float(step.time) / job.availability
