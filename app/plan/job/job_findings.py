"""What keeps a job from running, what it runs instead, and what is tight."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from app.catalog.load import Catalog
from app.formulas.training import arguments, parallelism_search
from app.formulas.transformer import Shape
from app.plan.band import Draws
from app.plan.cluster import Hardware
from app.plan.job.calibration import PRECISION_BYTES, measured, peaks
from app.plan.job.candidates import search_with
from app.plan.job.inputs import given, numbers
from app.plan.result import Finding
from app.plan.scenario import Scenario
from app.units import show


def findings(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    found: parallelism_search.SearchResult,
    chosen: arguments.Parallelism | None,
    memory: Mapping[str, Draws],
    budget: float,
) -> Iterator[Finding]:
    """What keeps the job from running, what it runs instead, and what is tight."""
    gpu = hardware.gpu
    asked, real = PRECISION_BYTES[scenario.precision], peaks(gpu, scenario.precision)[2]
    if real > asked:
        instead = {2.0: "16-bit", 1.0: "FP8"}[real]
        yield Finding(
            "warning",
            "precision-not-in-hardware",
            f"{gpu.name} has no {scenario.precision} arithmetic; the plan runs the linear layers in {instead}.",
            ("precision", "gpu"),
            "Choose a precision the GPU has.",
            {"precision": "bf16" if real > 1 else "fp8"},
        )
    if found.smallest is None:
        yield does_not_divide(scenario, hardware, catalog, model, budget)
        return
    need, capacity = float(memory["memory.total"].values[0]), float(memory["memory.capacity"].values[0])
    if chosen is None:
        least = max(found.smallest_memory, need)
        enough = _enough(scenario, hardware, catalog, model, budget)
        yield Finding(
            "error",
            "does-not-fit",
            f"The model does not fit: the most frugal way to run it as asked needs {show(least, 'B')} on each GPU of "
            f"{show(capacity, 'B')}, of which {budget:.0%} can be filled.",
            ("gpus", "model", "gpu"),
            _roomier(scenario, enough),
            {"gpus": enough} if enough else {},
        )
        return
    if need > budget * capacity:
        yield Finding(
            "warning",
            "memory-tight",
            f"Memory is filled to {need / capacity:.0%}: {show(need, 'B')} of {show(capacity, 'B')}.",
            ("micro_batch", "recompute", "sharding"),
            "Leave the parallelism blank to find one with room.",
        )
    if float(chosen.tensor) > hardware.domain:
        yield Finding(
            "warning",
            "tensor-parallel-across-network",
            f"Tensor parallelism over {int(chosen.tensor)} GPUs leaves the scale-up domain of {hardware.domain}.",
            ("tensor_parallel",),
            f"Use at most {hardware.domain}.",
            {"tensor_parallel": hardware.domain},
        )
    if not measured(catalog, hardware.gpu):
        yield Finding(
            "note",
            "hardware-not-calibrated",
            f"No published step time of a GPU like {gpu.name} went into the calibration; the ranges are wider for it.",
            ("gpu",),
        )


def no_progress(share: float) -> Iterator[Finding]:
    """Where failures leave no time to train."""
    if not share > 0:
        yield Finding(
            "error",
            "no-progress",
            "Failures come faster than the cluster restarts and checkpoints: the run makes no progress.",
            ("failure_rate", "restart_time", "checkpoint_time", "checkpoint_interval", "gpus"),
            "Shorten the restart or the checkpoint, or use fewer GPUs.",
        )


def _divisible_batch(
    scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float
) -> int | None:
    """The global batch nearest to the asked one with which the job runs on these GPUs; ``None`` if none is found."""
    batch, gpus = scenario.global_batch, scenario.gpus
    steps = [gpus // k for k in (1, 2, 4, 8, 16, 32, 64, 128) if gpus % k == 0]
    nearest = {max(round(batch / step), 1) * step for step in steps}
    for candidate in sorted(nearest - {batch}, key=lambda value: abs(value - batch)):
        other = scenario.model_copy(update={"global_batch": candidate})
        n = numbers(other, hardware, model, catalog)
        if search_with(other, model, n, given(other, catalog), budget, timed=False).feasible:
            return candidate
    return None


def does_not_divide(scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float) -> Finding:
    """Why no configuration divides: the first rule that the given numbers break."""
    t, p, c = (scenario.tensor_parallel or 1), (scenario.pipeline_parallel or 1), (scenario.context_parallel or 1)
    gpus, batch, b = scenario.gpus, scenario.global_batch, scenario.micro_batch or 1
    if gpus % (t * p * c):
        text = f"{t} × {p} × {c} GPUs of a replica do not divide {gpus:,} GPUs."
        fields_: tuple[str, ...] = ("tensor_parallel", "pipeline_parallel", "context_parallel", "gpus")
        advice = "Choose degrees whose product divides the GPUs."
    elif scenario.pipeline_parallel and p > float(model.layers):
        text = f"{p} pipeline stages are more than the model's {int(model.layers)} layers."
        fields_, advice = ("pipeline_parallel",), f"Use at most {int(model.layers)}."
    elif gpus // (t * p * c) * b > batch and scenario.tensor_parallel and scenario.pipeline_parallel:
        text = f"{gpus // (t * p * c):,} replicas of {b} sequences need more than the global batch of {batch:,}."
        fields_, advice = ("global_batch", "micro_batch"), "Raise the global batch or the degrees."
    else:
        text = f"No parallelism divides {gpus:,} GPUs, a global batch of {batch:,} and the model's layers and heads."
        fields_ = ("gpus", "global_batch", "tensor_parallel", "pipeline_parallel", "micro_batch")
        advice = "Use numbers with more common divisors, such as powers of two."
        better = _divisible_batch(scenario, hardware, catalog, model, budget)
        if better:
            advice = f"A global batch of {better:,} divides."
            return Finding("error", "does-not-divide", text, fields_, advice, {"global_batch": better})
    return Finding("error", "does-not-divide", text, fields_, advice)


def _enough(scenario: Scenario, hardware: Hardware, catalog: Catalog, model: Shape, budget: float) -> int | None:
    """The first doubling of the cluster on which the job fits as asked; ``None`` up to 64 times."""
    for doubling in range(1, 7):
        more = scenario.model_copy(update={"gpus": scenario.gpus * 2**doubling})
        if more.gpus > 1_000_000 or more.gpus > more.global_batch * hardware.gpus_per_node * float(model.layers):
            return None
        larger = replace(hardware, gpus=more.gpus, nodes=-(-more.gpus // hardware.gpus_per_node))
        n = numbers(more, larger, model, catalog)
        if search_with(more, model, n, given(more, catalog), budget, timed=False).feasible:
            return more.gpus
    return None


def _roomier(scenario: Scenario, enough: int | None) -> str:
    if enough:
        return f"{enough:,} GPUs are enough; or use GPUs with more memory, or a smaller model."
    if any((scenario.tensor_parallel, scenario.pipeline_parallel, scenario.sharding, scenario.micro_batch)):
        return "Leave the parallelism blank, or use more GPUs, or GPUs with more memory."
    return "Use more GPUs, GPUs with more memory, or a smaller model."
