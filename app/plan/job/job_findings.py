"""What keeps a job from running, what it runs instead, what is tight, and what its step does not depend on yet."""

from collections.abc import Iterator
from dataclasses import replace

from app.formulas.training import arguments, parallelism_search
from app.plan.band import Draws
from app.plan.job.calibration import PRECISION_BYTES, measured, peaks
from app.plan.job.inputs import JobRequest, JobSetup
from app.plan.result import Finding, Memory
from app.plan.scenario import ParallelismRequest
from app.units import show

NOT_MODELLED = ("layout", "dispatcher", "routing", "offload")
"""What a source may state of a run and no term of the step or of its memory reads."""


def findings(
    setup: JobSetup,
    found: parallelism_search.SearchResult,
    chosen: arguments.Parallelism | None,
    memory: Memory[Draws],
) -> Iterator[Finding]:
    """What keeps the job from running, what it runs instead, what is tight and what is not modelled."""
    gpu = setup.cluster.gpu
    yield from not_modelled(setup.request)
    yield from _wider_precision(setup)
    if found.smallest is None:
        yield does_not_divide(setup)
        return
    need, capacity, budget = memory.total.typical, memory.capacity.typical, setup.budget
    if not memory.fits or chosen is None:
        least = max(found.smallest_memory, need)
        enough = _enough(setup)
        yield Finding(
            "error",
            "does-not-fit",
            f"The model does not fit: the most frugal way to run it as asked needs {show(least, 'B')} on each GPU of "
            f"{show(capacity, 'B')} (sold as {show(gpu.memory_nominal.typical, 'B')}), of which {budget:.0%} can be "
            "filled.",
            ("gpus", "model", "gpu"),
            _roomier(setup.request.parallelism, enough),
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
    if float(chosen.tensor) > setup.cluster.domain:
        yield Finding(
            "warning",
            "tensor-parallel-across-network",
            f"Tensor parallelism over {int(chosen.tensor)} GPUs leaves the scale-up domain of {setup.cluster.domain}.",
            ("tensor_parallel",),
            f"Use at most {setup.cluster.domain}.",
            {"tensor_parallel": setup.cluster.domain},
        )
    if not measured(setup.catalog, gpu):
        yield Finding(
            "note",
            "hardware-not-calibrated",
            f"No published step time of a GPU like {gpu.name} went into the calibration; the ranges are wider for it.",
            ("gpu",),
        )


def _wider_precision(setup: JobSetup) -> Iterator[Finding]:
    """What runs in place of arithmetic that the GPU lacks."""
    gpu, precision = setup.cluster.gpu, setup.request.model.precision
    asked, real = PRECISION_BYTES[precision], peaks(gpu, precision)[2]
    if real > asked:
        instead = {2.0: "16-bit", 1.0: "FP8"}[real]
        yield Finding(
            "warning",
            "precision-not-in-hardware",
            f"{gpu.name} has no {precision} arithmetic; the plan runs the linear layers in {instead}.",
            ("precision", "gpu"),
            "Choose a precision the GPU has.",
            {"precision": "bf16" if real > 1 else "fp8"},
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


def not_modelled(request: JobRequest) -> Iterator[Finding]:
    """What is asked and neither the step nor its memory depends on yet."""
    asked = vars(request.parallelism) | vars(request.software)
    given = tuple(name for name in NOT_MODELLED if asked[name] not in (None, "none"))
    if given:
        names = " and ".join(", ".join(given).rsplit(", ", 1))
        yield Finding(
            "note",
            "not-modelled",
            f"Step and memory do not depend on {names} yet: they are those of even stages, an all-to-all of evenly "
            "routed tokens, and nothing offloaded.",
            given,
        )


def _divisible_batch(setup: JobSetup) -> int | None:
    """The global batch nearest to the asked one with which the job runs on these GPUs; ``None`` if none is found."""
    batch, gpus = setup.request.model.global_batch, setup.cluster.gpus
    steps = [gpus // k for k in (1, 2, 4, 8, 16, 32, 64, 128) if gpus % k == 0]
    nearest = {max(round(batch / step), 1) * step for step in steps}
    for candidate in sorted(nearest - {batch}, key=lambda value: abs(value - batch)):
        job = replace(setup.inputs.job, global_batch=float(candidate))
        if replace(setup, inputs=replace(setup.inputs, job=job)).search(timed=False).feasible:
            return candidate
    return None


def does_not_divide(setup: JobSetup) -> Finding:
    """Why no configuration divides: the first rule that the given numbers break."""
    asked, layers = setup.request.parallelism, int(setup.inputs.shape.layers)
    t, p, c = (asked.tensor_parallel or 1), (asked.pipeline_parallel or 1), (asked.context_parallel or 1)
    gpus, batch, b = setup.cluster.gpus, setup.request.model.global_batch, asked.micro_batch or 1
    if gpus % (t * p * c):
        text = f"{t} × {p} × {c} GPUs of a replica do not divide {gpus:,} GPUs."
        fields_: tuple[str, ...] = ("tensor_parallel", "pipeline_parallel", "context_parallel", "gpus")
        advice = "Choose degrees whose product divides the GPUs."
    elif asked.pipeline_parallel and p > layers:
        text = f"{p} pipeline stages are more than the model's {layers} layers."
        fields_, advice = ("pipeline_parallel",), f"Use at most {layers}."
    elif gpus // (t * p * c) * b > batch and asked.tensor_parallel and asked.pipeline_parallel:
        text = f"{gpus // (t * p * c):,} replicas of {b} sequences need more than the global batch of {batch:,}."
        fields_, advice = ("global_batch", "micro_batch"), "Raise the global batch or the degrees."
    else:
        text = f"No parallelism divides {gpus:,} GPUs, a global batch of {batch:,} and the model's layers and heads."
        fields_ = ("gpus", "global_batch", "tensor_parallel", "pipeline_parallel", "micro_batch")
        advice = "Use numbers with more common divisors, such as powers of two."
        better = _divisible_batch(setup)
        if better:
            advice = f"A global batch of {better:,} divides."
            return Finding("error", "does-not-divide", text, fields_, advice, {"global_batch": better})
    return Finding("error", "does-not-divide", text, fields_, advice)


def _enough(setup: JobSetup) -> int | None:
    """The first doubling of the cluster on which the job fits as asked; ``None`` up to 64 times."""
    cluster, layers = setup.cluster, float(setup.inputs.shape.layers)
    for times in (2, 4, 8, 16, 32, 64):
        gpus = cluster.gpus * times
        if gpus > 1_000_000 or gpus > setup.request.model.global_batch * cluster.gpus_per_node * layers:
            return None
        larger = replace(cluster, gpus=gpus, nodes=-(-gpus // cluster.gpus_per_node))
        if replace(setup, cluster=larger).search(timed=False).feasible:
            return gpus
    return None


def _roomier(asked: ParallelismRequest, enough: int | None) -> str:
    if enough:
        return f"{enough:,} GPUs are enough; or use GPUs with more memory, or a smaller model."
    if any((asked.tensor_parallel, asked.pipeline_parallel, asked.sharding, asked.micro_batch)):
        return "Leave the parallelism blank, or use more GPUs, or GPUs with more memory."
    return "Use more GPUs, GPUs with more memory, or a smaller model."
