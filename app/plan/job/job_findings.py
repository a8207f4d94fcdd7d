"""What keeps a job from running, what it runs instead, what is tight, and what its step does not depend on yet."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil, inf
from typing import get_args

import numpy as np

from app.catalog.sampling import TYPICAL
from app.formulas.arrays import typical_of
from app.formulas.collectives.group_times import bridged
from app.formulas.fabric.placement import slowest_split
from app.formulas.training import arguments
from app.formulas.training.search import SearchResult
from app.plan.band import Draws
from app.plan.job import batch
from app.plan.job.broken_rules import experts_unused, rule_broken_by
from app.plan.job.calibration import computed_precision, measured, rows_of
from app.plan.job.inputs import JobSetup, usual_batch
from app.plan.job.layout import mismatch
from app.plan.job.run_time import step_time
from app.plan.job.shape import shape_findings, size_of
from app.plan.job.storage import Checkpointing, checkpointing
from app.plan.result import Finding, Memory
from app.plan.scenario import MOST_GPUS, ParallelismRequest, Precision
from app.units import percent, show

NOTED = 0.01
"""Gain in speed from which a change is worth a word [1]."""


def findings(
    setup: JobSetup,
    search: SearchResult,
    chosen: arguments.Parallelism | None,
    memory: Memory[Draws],
) -> Iterator[Finding]:
    """What keeps the job from running, what it runs instead, what is tight and what is not modelled."""
    gpu = setup.cluster.gpu
    yield from shape_findings(setup.request.model, setup.catalog)
    yield from experts_unused(setup.inputs.shape, setup.request.parallelism.expert_parallel)
    yield from _layers_repeated(setup)
    yield from _uneven(setup)
    yield from _precision_instead(setup)
    if not search.divisible:
        yield does_not_divide(setup)
        yield from _fits_badly(setup, search)
        return
    yield from _far_from_usual(setup)
    yield from _within_a_step(setup)
    yield from _fits_badly(setup, search)
    yield from _rounder_count(setup, search)
    need, capacity, budget = memory.total.typical, memory.capacity.typical, setup.budget
    if not memory.fits or chosen is None:
        least = float(np.fmax(search.smallest_memory, need))
        enough = _enough(setup)
        yield Finding(
            "error",
            "does-not-fit",
            too_large(setup, least),
            ("gpus", "model", "gpu"),
            _roomier(setup.request.parallelism, enough),
            {"gpus": enough} if enough else {},
        )
        return
    if need > budget * capacity:
        yield Finding(
            "warning",
            "memory-tight",
            f"Memory is filled to {percent(need / capacity)}: {show(need, 'B')} of {show(capacity, 'B')}.",
            ("micro_batch", "recompute", "sharding"),
            "Leave the parallelism blank to find one with room.",
        )
    yield from _group_shared(setup, chosen)
    yield from _quicker_inside(setup, chosen)
    yield from _unmeasured_stack(setup)
    if not measured(setup.catalog, gpu):
        yield Finding(
            "note",
            "hardware-not-calibrated",
            f"No published step time of a GPU like {gpu.name} went into the calibration; the ranges are wider for it.",
            ("gpu",),
            "Hold the plan against a step of your own before you rely on it.",
        )


def _quicker_inside(setup: JobSetup, chosen: arguments.Parallelism) -> Iterator[Finding]:
    """That a given degree of tensor parallelism meets over a slower link where another trains more.

    It is wider than a domain, does not divide it where too few groups fit whole, or is wider than a bridge.
    """
    links, tensor = setup.inputs.links, int(chosen.tensor)
    joining = links.interconnect
    group = [(1.0, float(tensor))]
    crosses = slowest_split(group, joining.domain, links.site.gpus).units > 1
    parted = joining.bridge is not None and tensor > 1 and not bridged(links, group)
    if setup.fixed.tensor is None or not (crosses or parted):
        return
    joined = int(joining.domain if crosses or joining.bridge is None else joining.bridge.ranks_per_domain)
    inside = replace(setup, fixed=replace(setup.fixed, tensor=None, largest_tensor=joined)).search(quickest=1).best()
    if inside is None:
        return
    narrower = replace(setup, fixed=replace(setup.fixed, tensor=int(inside.tensor)))
    if setup.request.model.global_batch is None:
        narrower = narrower.with_batch(usual_batch(setup.request.model, setup.catalog))
    job, search = batch.searched(narrower, quickest=1)
    way = search.best()
    if way is None:
        return
    quicker = step_time(setup.inputs, chosen) / step_time(job.inputs, way)
    gain = job.request.batch / setup.request.batch * quicker - 1
    if not NOTED <= gain < inf:
        return
    advice = f"Over {int(inside.tensor)} the same GPUs train {percent(gain)} more tokens a second."
    changes, degree = {"tensor_parallel": int(inside.tensor)}, f"Tensor parallelism over {tensor} GPUs"
    if crosses:
        holds = "" if tensor > joined else f", which holds {joined // tensor} whole and part of the next"
        text = f"{degree} leaves the scale-up domain of {joined}{holds}."
        yield Finding("warning", "tensor-parallel-across-network", text, ("tensor_parallel",), advice, changes)
    else:
        bus = setup.catalog.scale_up[setup.cluster.gpu.pcie].name
        text = f"{degree} is wider than a bridge, which joins {joined}, and meets over {bus}."
        yield Finding("warning", "tensor-parallel-beyond-bridge", text, ("tensor_parallel",), advice, changes)


def _unmeasured_stack(setup: JobSetup) -> Iterator[Finding]:
    """That nobody has measured a step of the stack that is named."""
    stack, catalog = setup.request.software.stack, setup.catalog
    if stack is None or rows_of(catalog, "stack", stack):
        return
    yield Finding(
        "note",
        "stack-not-measured",
        f"No published step of the stack {stack} went into the calibration; the ranges are wider for it.",
        ("stack",),
        "Choose a stack that was measured, or hold the plan against a step of your own.",
    )


def too_large(setup: JobSetup, least: float) -> str:
    """That a model does not fit, in words: the most frugal way to run it needs so much of each GPU [B]."""
    gpu = setup.cluster.gpu
    return (
        f"The model does not fit: the most frugal way to run it as asked needs {show(least, 'B')} on each GPU of "
        f"{show(gpu.memory.typical, 'B')} (sold as {show(gpu.memory_nominal.typical, 'B')}), of which "
        f"{percent(setup.budget)} can be filled."
    )


def _precision_instead(setup: JobSetup) -> Iterator[Finding]:
    """What runs in place of arithmetic that the GPU lacks."""
    gpu, precision = setup.cluster.gpu, setup.request.model.precision
    instead = computed_precision(gpu, precision)
    if instead != precision:
        yield Finding(
            "warning",
            "precision-not-in-hardware",
            f"{gpu.name} has no {precision.upper()} arithmetic; the plan runs the linear layers in {instead.upper()}.",
            ("precision", "gpu"),
            "Choose a precision the GPU has.",
            {"precision": instead} if instead in get_args(Precision) else {},
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


def interrupted(setup: JobSetup, checkpoints: Checkpointing) -> Iterator[Finding]:
    """Where failures and checkpoints take much of the time: what spare nodes and quicker checkpoints would leave."""
    failing, operation = setup.catalog.training["failures"], setup.request.operation
    share = float(checkpoints.progress[0])
    if operation.availability is not None or not 0 < share < failing["noticed"].typical:
        return
    cluster, spares = setup.cluster, ceil(failing["spare_share"].typical * setup.cluster.nodes)
    restart, written = failing["spared_restart"].typical, failing["quick_checkpoint"].typical
    quicker = operation.model_copy(
        update={"restart_time": restart, "checkpoint_time": written, "checkpoint_interval": None}
    )
    parameters = size_of(setup.inputs.shape).parameters
    left = float(checkpointing(parameters, cluster, quicker, setup.catalog, sampling=TYPICAL).progress[0])
    if not left > share:
        return
    spares = max(spares, cluster.request.spare_nodes)
    changes: dict[str, str | int | float] = {"spare_nodes": spares, "checkpoint_time": written}
    if operation.restart_time is not None:
        changes["restart_time"] = restart
    often = ""
    if operation.checkpoint_interval is not None:
        changes["checkpoint_interval"] = ""
        often = ", as often as loses least,"
    yield Finding(
        "note",
        "failures-cost-time",
        f"Failures and checkpoints take {percent(1 - share)} of the time: {cluster.gpus:,} GPUs fail every "
        f"{show(1 / typical_of(checkpoints.failures), 's')}.",
        ("spare_nodes", "restart_time", "checkpoint_time", "checkpoint_interval", "failure_rate"),
        f"With {spares:,} spare node{'s' if spares > 1 else ''} standing by, a restart within {show(restart, 's')} and "
        f"checkpoints that stop the run for {show(written, 's')}{often or ','} {percent(left)} of it makes progress.",
        changes,
    )


def _uneven(setup: JobSetup) -> Iterator[Finding]:
    """Where the layout that is asked for cannot be that of this pipeline."""
    parallelism = setup.request.parallelism
    if parallelism.layout is None:
        return
    degrees = parallelism.pipeline_parallel, parallelism.virtual_pipeline
    reason = mismatch(parallelism.layout, int(setup.inputs.shape.layers), *degrees)
    if reason:
        yield Finding(
            "warning",
            "layout-does-not-match",
            f"The pipeline layout does not fit: {reason}. The plan is that of even stages.",
            ("layout", "pipeline_parallel", "virtual_pipeline", "layers"),
            "Give as many layers as the model has, in as many chunks as stages times chunks of a stage.",
        )


def _layers_repeated(setup: JobSetup) -> Iterator[Finding]:
    """That more layers are to be recomputed than the model has."""
    given, layers = setup.request.parallelism.recompute_layers, int(setup.inputs.shape.layers)
    if given is not None and given > layers:
        yield Finding(
            "warning",
            "recompute-layers-beyond-model",
            f"The model has {layers:,} layers, fewer than the {given:,} to recompute: the plan recomputes all of them.",
            ("recompute_layers", "layers"),
            f"Use at most {layers:,}.",
            {"recompute_layers": layers},
        )


def _group_shared(setup: JobSetup, chosen: arguments.Parallelism) -> Iterator[Finding]:
    """That there are fewer replicas than are to share one copy."""
    given, replicas = setup.request.parallelism.sharding_group, int(chosen.data * chosen.context)
    if given is not None and given > replicas:
        yield Finding(
            "warning",
            "sharding-group-too-large",
            f"{given:,} ranks are to share one copy, and of ranks with the same parameters there are {replicas:,}: "
            "these share it.",
            ("sharding_group",),
            f"Use at most {replicas:,}, or leave it blank.",
            {"sharding_group": replicas},
        )


def _fits_badly(setup: JobSetup, search: SearchResult) -> Iterator[Finding]:
    """Where the given batch divides badly among the GPUs: what another batch, or other GPUs, would gain."""
    request, gpus = setup.request, setup.cluster.gpus
    if request.model.global_batch is None or setup.fixed.whole or batch.suits(gpus, request.batch):
        return
    worthwhile = setup.catalog.training["batch"]["worthwhile"].typical
    speed = batch.pace(search, request.batch)
    ((other, better),) = batch.settled([setup])
    gain = batch.pace(better, other.request.batch) / speed - 1 if speed else 0.0
    if gain >= worthwhile:
        yield Finding(
            "warning",
            "batch-fits-badly",
            f"A global batch of {request.batch:,} divides badly among {gpus:,} GPUs.",
            ("global_batch", "gpus"),
            f"With {other.request.batch:,} the same GPUs train {percent(gain)} more tokens a second. Left blank, the "
            "batch follows the GPUs.",
            {"global_batch": other.request.batch},
        )
    if gain >= worthwhile or not speed:
        yield from _other_count(setup, speed)


def _other_count(setup: JobSetup, speed: float) -> Iterator[Finding]:
    """The nearest whole nodes that the given batch suits. ``speed`` is what runs as asked [sequences/s]; 0: nothing."""
    cluster, size = setup.cluster, setup.request.batch
    unit = cluster.unit_gpus
    whole = round(cluster.gpus / unit)
    nearest = sorted(range(max(whole // 2, 1), 2 * whole + 1), key=lambda units: abs(units * unit - cluster.gpus))
    gpus = next((units * unit for units in nearest if batch.suits(units * unit, size)), None)
    if gpus is None or gpus > MOST_GPUS:
        return
    throughput = batch.throughput(replace(setup, cluster=cluster.with_gpus(gpus)))
    if not throughput / gpus > speed / cluster.gpus:
        return
    gain = (
        f", and each trains {percent(throughput / gpus * cluster.gpus / speed - 1)} more tokens a second"
        if speed
        else ""
    )
    yield Finding(
        "note",
        "other-count-fits",
        f"{gpus:,} GPUs suit a global batch of {size:,}{gain}.",
        ("gpus",),
        f"Use {gpus:,} GPUs.",
        {"gpus": gpus},
    )


def _rounder_count(setup: JobSetup, search: SearchResult) -> Iterator[Finding]:
    """Where fewer GPUs, whose number has more divisors, train more together than all that there are, with a batch of
    about the same size.
    """
    request, cluster = setup.request, setup.cluster
    speed = batch.pace(search, request.batch)
    if request.model.global_batch is not None or setup.fixed.whole or not speed:
        return
    gpus, pace = _roundest(setup, speed)
    gain, idle = pace / speed - 1, cluster.gpus - gpus
    if idle:
        yield Finding(
            "warning",
            "fewer-gpus-are-quicker",
            f"{cluster.gpus:,} GPUs divide badly among replicas and stages: {gpus:,} of them train "
            f"{percent(gain)} more tokens a second.",
            ("gpus",),
            f"Use {gpus:,} GPUs; the other {idle:,} can stand by as spares.",
            {"gpus": gpus},
        )


def _roundest(setup: JobSetup, speed: float) -> tuple[int, float]:
    """The GPUs to which it leads to leave out a few as long as that gains, and how fast they train [sequences/s].

    Args:
        setup: the job.
        speed: how fast all that there are train it [sequences/s].
    """
    constants = setup.catalog.training["batch"]
    idle, near, worthwhile = (constants[name].typical for name in ("idle", "tolerance", "worthwhile"))
    usual = setup.with_batch(usual_batch(setup.request.model, setup.catalog))
    gpus, pace, size = setup.cluster.gpus, speed, setup.request.batch
    settled: dict[int, tuple[float, int]] = {}
    while counts := batch.rounder(gpus, setup.cluster.unit_gpus, idle):
        new = [count for count in counts if count not in settled]
        jobs = batch.settled([replace(usual, cluster=setup.cluster.with_gpus(count)) for count in new], quickest=1)
        for count, (job, search) in zip(new, jobs, strict=True):
            settled[count] = batch.pace(search, job.request.batch), job.request.batch
        alike = [count for count in counts if 1 / near <= settled[count][1] / size <= near]
        best = max(alike, key=lambda count: settled[count][0], default=gpus)
        if best == gpus or settled[best][0] / pace - 1 < worthwhile:
            break
        gpus, (pace, size) = best, settled[best]
    return gpus, pace


def _far_from_usual(setup: JobSetup) -> Iterator[Finding]:
    """Where a batch that divides is far from the model's usual one."""
    if setup.request.model.global_batch is not None:
        return
    size, usual = setup.request.batch, usual_batch(setup.request.model, setup.catalog)
    tolerance = setup.catalog.training["batch"]["tolerance"].typical
    if not 1 / tolerance <= size / usual <= tolerance:
        yield Finding(
            "warning",
            "batch-far-from-usual",
            f"{setup.cluster.gpus:,} GPUs divide no global batch near the usual {usual:,}: the plan takes {size:,}.",
            ("global_batch", "gpus"),
            "Use a number of GPUs with more small divisors, or check that the model learns as well with this batch.",
        )


def _within_a_step(setup: JobSetup) -> Iterator[Finding]:
    """That a run has fewer tokens than its first step takes."""
    request = setup.request
    if request.steps >= 1:
        return
    asked, sequences = request.model, int(request.model.training_tokens // request.model.sequence_length)
    smaller = f"Use a global batch of {sequences:,} or fewer" if sequences else "Use shorter sequences"
    yield Finding(
        "warning",
        "run-within-a-step",
        f"A step takes {show(request.tokens, '1')} tokens and the run has {show(asked.training_tokens, '1')}: its time "
        f"and cost are those of {request.steps:.2g} steps, and a real run takes at least one.",
        ("training_tokens", "global_batch", "sequence_length"),
        f"{smaller}, or more tokens.",
    )


def does_not_divide(setup: JobSetup) -> Finding:
    """Why no configuration divides, and which batch does."""
    broken = rule_broken_by(setup)
    if broken.advice:
        return broken.finding()
    ((other, search),) = batch.settled([setup])
    if not search.feasible:
        return broken._replace(advice="Use numbers with more common divisors, such as powers of two.").finding()
    advice = f"A global batch of {other.request.batch:,} divides; left blank, the batch follows the GPUs."
    return broken._replace(advice=advice).finding({"global_batch": other.request.batch})


def _enough(setup: JobSetup) -> int | None:
    """The first doubling of the cluster, in whole nodes or racks, on which the job fits as asked; ``None`` up to 64
    times."""
    cluster, layers = setup.cluster, float(setup.inputs.shape.layers)
    whole = -(-cluster.gpus // cluster.unit_gpus) * cluster.unit_gpus
    for times in (1, 2, 4, 8, 16, 32, 64):
        gpus = whole * times
        if gpus == cluster.gpus:
            continue
        if gpus > MOST_GPUS or gpus > setup.request.batch * cluster.gpus_per_node * layers:
            return None
        if fits_on(setup, gpus):
            return gpus
    return None


def fits_on(setup: JobSetup, gpus: int) -> bool:
    """Whether the job fits as asked on so many GPUs, with a batch that they divide where none is given."""
    job = replace(setup, cluster=replace(setup.cluster, gpus=gpus))
    if setup.request.model.global_batch is None:
        job = job.with_batch(max(round(setup.request.batch / gpus), 1) * gpus)
    return bool(job.search(timed=False).feasible)


def held_by(setup: JobSetup, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings on a cluster's cost, of which none advises so few GPUs that they do not hold the job."""
    for finding in findings:
        gpus = int(finding.changes.get("gpus") or 0) if finding.code == "over-site-power" else 0
        if not gpus or fits_on(setup, gpus):
            yield finding
        else:
            advice = f"{gpus:,} GPUs keep within it and do not hold the model: take a larger site, or a smaller model."
            yield replace(finding, suggestion=advice, changes={})


def _roomier(parallelism: ParallelismRequest, enough: int | None) -> str:
    if enough:
        return f"{enough:,} GPUs are enough; or use GPUs with more memory, or a smaller model."
    if any((parallelism.tensor_parallel, parallelism.pipeline_parallel, parallelism.sharding, parallelism.micro_batch)):
        return "Leave the parallelism blank, or use more GPUs, or GPUs with more memory."
    return "Use more GPUs, GPUs with more memory, or a smaller model."
