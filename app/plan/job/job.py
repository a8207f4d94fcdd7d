"""The training job of a plan: the best way to spread it, its step, its memory and what bounds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.arrays import Array, typical_of
from app.formulas.records import but
from app.formulas.training import arguments, compute
from app.formulas.training.goodput import campaign_time, time_to_train
from app.formulas.training.search import SearchResult
from app.formulas.training.stacking import rows_of
from app.plan.band import Draws
from app.plan.cluster import Cluster
from app.plan.communication import Communication, communication
from app.plan.job import batch, breakdown, candidates
from app.plan.job.breakdown import BY_ITSELF, Timing, bottleneck_of, campaign_overhead, memory_of, no_timing, timings_of
from app.plan.job.calibration import Width, residual, widths
from app.plan.job.group_traffic import group_traffic
from app.plan.job.inputs import JobRequest, JobSetup, StepInputs, named, step_inputs
from app.plan.job.job_findings import findings, interrupted, no_progress
from app.plan.job.run_time import quickest_times, step_time, ways_to_run
from app.plan.job.search_together import search_all
from app.plan.job.shape import shape_fields, size_of
from app.plan.job.storage import Checkpointing, checkpointing_of_each, storage_of
from app.plan.job.storage import explain as explain_storage
from app.plan.kept import Kept
from app.plan.network import Network
from app.plan.result import (
    Alternative,
    Bottleneck,
    Explanation,
    Finding,
    GroupTraffic,
    Memory,
    RangePart,
    StepPart,
    Storage,
    Training,
)
from app.plan.scenario import CollectiveRequest, NetworkRequest, OperationRequest, Scenario, SoftwareRequest


@dataclass(frozen=True, eq=False)
class Job:
    """The training job before its results are folded to bands. One equals itself alone.

    ``chosen`` is the quickest configuration that fits, or the one that was given whole and does not, or ``None``.
    ``training`` leaves out alternatives, the cloud and groups: see `alternatives`, `configurations` and `groups`.
    """

    setup: JobSetup
    search: SearchResult
    chosen: arguments.Parallelism | None
    training: Training[Draws]
    memory: Memory[Draws]
    bottleneck: Bottleneck[Draws]
    checkpoints: Checkpointing
    timing: Timing

    @property
    def runs(self) -> bool:
        """Whether there is a configuration, and it fits the memory."""
        return self.chosen is not None and self.memory.fits is True

    @cached_property
    def storage(self) -> Storage[Draws]:
        """What the run asks of the storage."""
        tokens = self.setup.request.model.training_tokens
        return storage_of(self.checkpoints, self.training.tokens_per_second, tokens, self.setup.catalog)

    def unfinished(self) -> "Job":
        """The same job on a cluster that cannot be built: it takes no time that could be said."""
        return but(self, training=_never_done(self.training))

    @property
    def shape_fields(self) -> dict[str, Any]:
        """The model's shape under the scenario's names."""
        return shape_fields(self.setup.inputs.shape)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What keeps the job from running, what it runs instead, what is tight and what is not modelled."""
        of_job = findings(self.setup, self.search, self.chosen, self.memory)
        lost = interrupted(self.setup, self.checkpoints) if self.runs else ()
        return (*of_job, *lost, *no_progress(self.training.availability))


def _never_done(training: Training[Draws]) -> Training[Draws]:
    """What a step takes, and no time of a run."""
    never = Draws(np.full_like(training.time_to_train.values, np.nan))
    return but(training, time_to_train=never, productive_time=never, campaign_time=never)


WAYS = 200
"""Quickest ways on the planned network among which the best on another is looked for."""


class AskedJob(NamedTuple):
    """What a training job is planned from.

    Attributes:
        cluster, fabric: where it runs, and what times its transfers.
        request: what is to run.
        storage_rate: what the links of the storage carry, without limit where they are not planned [B/s].
    """

    cluster: Cluster
    fabric: Communication
    request: JobRequest
    storage_rate: float = inf


_KEPT: Kept[tuple[AskedJob, Catalog, int | None], Job] = Kept(32)
"""The jobs planned last: those that were planned together are found one after the other."""


def plan_job(
    cluster: Cluster,
    fabric: Communication,
    request: JobRequest,
    catalog: Catalog,
    quickest: int | None = WAYS,
    storage_rate: float = inf,
) -> Job:
    """Find the best parallelism that fits, time its step and what it is made of.

    The search keeps so many of the quickest ways to run the job, or all of them for `alternatives`, `configurations`.

    A configuration given whole may fill the memory to the brim; where it is larger still it is timed but not run.
    The links of the storage carry so much [B/s], without limit where they are not planned.
    """
    return plan_jobs([AskedJob(cluster, fabric, request, storage_rate)], catalog, quickest)[0]


def plan_jobs(every: Sequence[AskedJob], catalog: Catalog, quickest: int | None = WAYS) -> list[Job]:
    """The same of several jobs: their ways are searched for in few calls, and their steps timed in few."""
    jobs = {asked: kept for asked in every if (kept := _KEPT.get((asked, catalog, quickest)))}
    others = [asked for asked in dict.fromkeys(every) if asked not in jobs]
    for asked, job in zip(others, _planned(others, catalog, quickest) if others else (), strict=True):
        jobs[asked] = job
        _KEPT.add((asked, catalog, quickest), job)
    return [jobs[asked] for asked in every]


class _Chosen(NamedTuple):
    """A job whose parallelism is chosen; its inputs are draws."""

    setup: JobSetup
    search: SearchResult
    drawn: StepInputs
    way: arguments.Parallelism | None


def _planned(every: Sequence[AskedJob], catalog: Catalog, quickest: int | None) -> list[Job]:
    """The same of jobs that are not kept."""
    width = np.size(catalog.training["products"]["efficiency"].draws())
    chosen = _chosen(every, catalog, quickest)
    timings = iter(timings_of([(each.drawn, each.way) for each in chosen if each.way], width))
    return [
        _job(asked, each, next(timings) if each.way else no_timing(width), checkpoints)
        for asked, each, checkpoints in zip(every, chosen, _checkpoints(every, chosen), strict=True)
    ]


def _checkpoints(every: Sequence[AskedJob], chosen: Sequence[_Chosen]) -> list[Checkpointing]:
    """How each of some jobs is checkpointed: those that are of one model and run alike are worked out in one go."""
    groups: dict[tuple[float, OperationRequest, int], list[int]] = {}
    for place, (asked, each) in enumerate(zip(every, chosen, strict=True)):
        parameters, spares = size_of(each.drawn.shape).parameters, asked.cluster.request.spare_nodes
        groups.setdefault((parameters, asked.request.operation, spares), []).append(place)
    by_place: dict[int, Checkpointing] = {}
    for (parameters, operation, _), places in groups.items():
        clusters, links = zip(*((every[place].cluster, every[place].storage_rate) for place in places), strict=True)
        catalog = chosen[places[0]].setup.catalog
        by_place |= zip(places, checkpointing_of_each(parameters, clusters, operation, catalog, links), strict=True)
    return [by_place[place] for place in range(len(every))]


def _chosen(every: Sequence[AskedJob], catalog: Catalog, quickest: int | None) -> list[_Chosen]:
    """Some jobs with the best way to run each."""
    drawn = [step_inputs(*asked[:3], catalog, drawn=True) for asked in every]
    setups = [
        JobSetup.of(asked.cluster, asked.request, catalog, inputs.typical)
        for asked, inputs in zip(every, drawn, strict=True)
    ]
    chosen = []
    for inputs, (setup, search) in zip(drawn, _searched(setups, quickest), strict=True):
        best = search.best() or (search.smallest if setup.fixed.whole else None)
        chosen.append(_Chosen(setup, search, inputs.with_batch(setup.request.batch), best))
    return chosen


def _searched(setups: Sequence[JobSetup], quickest: int | None) -> list[batch.Settled]:
    """Each job with the batch to take, and its search for the quickest ways to run it: of several jobs in few calls.

    A job whose batch is open searches for several batches at a time.
    """
    given = [place for place, setup in enumerate(setups) if setup.request.model.global_batch is not None]
    single = [place for place in given if setups[place].fixed.single]
    together = [setups[place] for place in given if not setups[place].fixed.whole]
    if quickest is not None and len(together) > 1:  # so that the search of each is found
        for setup, result in zip(together, search_all(together, quickest), strict=True):
            setup.searched(quickest, result)
    settled = dict(zip(single, batch.searched_together([setups[place] for place in single], quickest), strict=True))
    return [settled.get(place) or batch.searched(setup, quickest) for place, setup in enumerate(setups)]


def _job(asked: AskedJob, chosen: _Chosen, timing: Timing, checkpoints: Checkpointing) -> Job:
    """A job from the step of the way that was chosen to run it."""
    setup, search, drawn, way = chosen
    cluster, request, catalog = asked.cluster, asked.request, setup.catalog
    memory = memory_of(setup, drawn, way or search.smallest, search.held)
    error, rests_on = _error(catalog, cluster.gpu.key, float(drawn.shape.experts) > 0, request.software)
    training = _training(setup, drawn, way, timing, error, checkpoints)
    if not memory.fits:
        training = _never_done(training)
    return Job(
        setup=setup,
        search=search,
        chosen=way,
        training=but(
            training,
            searched=search.enumerated,
            feasible=search.feasible,
            range_rests_on=rests_on,
        ),
        memory=memory,
        bottleneck=bottleneck_of(timing, drawn.used, error),
        checkpoints=checkpoints,
        timing=timing,
    )


@lru_cache(maxsize=64)
def _error(catalog: Catalog, gpu: str, experts: bool, software: SoftwareRequest) -> tuple[float, tuple[RangePart, ...]]:
    """The model's own error of a step, and what it is made of [1]. Kept: jobs of one GPU and stack share it."""
    parts = widths(catalog, catalog.gpus[gpu], experts, software)
    parts.append(Width("layout", catalog.training["residual"]["searched"].typical))
    return residual(parts), tuple(RangePart(part.name, part.half_width) for part in parts)


def _training(
    setup: JobSetup,
    drawn: StepInputs,
    chosen: arguments.Parallelism | None,
    timing: Timing,
    error: float,
    checkpoints: Checkpointing,
) -> Training[Draws]:
    """The step of the chosen configuration, and the run made of such steps."""
    model, request, gpus = drawn.shape, setup.request, setup.cluster.gpus
    size = size_of(model)
    used, time = drawn.used, timing.time[0]
    flops = float(transformer.training_flops(model, drawn.job.sequence_length, drawn.job.causal))
    again = 0.0 if chosen is None else compute.repeated_work(model, drawn.job, chosen, drawn.software)
    mfu = np.asarray(utilization(flops, request.tokens, time, gpus * drawn.hardware.linear_peak))
    share, of_the_run = checkpoints.progress, (*used, *checkpoints.used)
    run = np.asarray(time_to_train(request.steps, time, share))
    overhead, extended = campaign_overhead(request.operation, setup.catalog)
    return Training(
        parallelism=None if chosen is None else named(chosen, drawn),
        searched=0,
        feasible=0,
        step_time=Draws(time, used=used, residual=error),
        parts=tuple(
            StepPart(name, resource, Draws(part, drawn.card if name in BY_ITSELF else used, error))
            for name, resource, part in timing.parts
        ),
        groups=(),
        mfu=Draws(mfu, used=used, residual=error, most=1.0),
        hfu=Draws(mfu * (1 + again / flops), used=used, residual=error, most=1.0),
        tokens_per_second=Draws(request.tokens / time, used=used, residual=error),
        time_to_train=Draws(run, used=of_the_run, residual=error),
        productive_time=Draws(request.steps * time, used=used, residual=error),
        campaign_time=Draws(np.asarray(campaign_time(run, overhead)), used=(*of_the_run, *extended), residual=error),
        steps=request.steps,
        availability=typical_of(share),
        straggler=1.0 if chosen is None else timing.straggler,
        parameters=size.parameters,
        active_parameters=size.active,
        flops_per_token=flops,
    )


def utilization(flops: Array, tokens: Array, time: Array, peak: Array) -> Array:
    """Share of the arithmetic that the model needs, MFU = F·B·s/(T·n·R).

    Args:
        flops: model FLOPs of one token, F [FLOP].
        tokens: of one step, B·s [1].
        time: of one step, T [s].
        peak: of all GPUs, n·R [FLOP/s].
    """
    return flops * tokens / (time * peak)


def job_on(network: Network, scenario: Scenario, catalog: Catalog, quickest: int = WAYS) -> Job:
    """The training job of a scenario on a network that was designed for it."""
    fabric, request = fabric_on(network, scenario, catalog), JobRequest.of(scenario, catalog)
    return plan_job(network.cluster, fabric, request, catalog, quickest, network.storage_rate)


def fabric_on(network: Network, scenario: Scenario, catalog: Catalog) -> Communication:
    """What times the transfers of a scenario on a network that was designed for it."""
    requests = scenario.part(NetworkRequest), scenario.part(CollectiveRequest)
    return communication(network.cluster, network, *requests, catalog, scenario.recorded)


def alternatives(job: Job) -> tuple[Alternative, ...]:
    """The best ways to run the job after the chosen one."""
    return candidates.alternatives(job.setup, job.search) if job.runs else ()


def configurations(job: Job) -> tuple[tuple[float, float], ...]:
    """Step time [s] and memory [B] of many ways to run it."""
    return candidates.configurations(job.search, job.training.step_time.typical) if job.runs else ()


def groups(job: Job) -> tuple[GroupTraffic, ...]:
    """What each group of the step sends where."""
    exposed = {part.name: part.time.typical for part in job.training.parts}
    return tuple(group_traffic(job.setup.inputs, job.chosen, job.timing.exchanges, exposed))


def explanations(job: Job) -> dict[str, Explanation]:
    """How the figures came about."""
    storage = explain_storage(job.checkpoints, job.storage, job.training.parameters, job.setup.catalog)
    return breakdown.explanations(job.setup, job.training, job.memory) | storage


ALIKE = 0.01
"""Runs that differ by more than this share may be run best in another way."""


def times_on(every: Sequence[tuple[Job, Cluster, Communication]]) -> list[float]:
    """What several jobs, spread as is best there, take on other networks, one each: typically, failures included [s].

    The same GPUs hold the same ways; the best of the quickest ones stands for the best of all, which takes as long as a
    plan to find and is looked for only where the networks are far apart. NaN where a job does not run. Steps are timed
    in few calls.
    """
    times = [float("nan")] * len(every)
    running = [place for place, (job, _, _) in enumerate(every) if job.runs]
    inputs = [every[place][0].setup.inputs.on(every[place][2]) for place in running]
    steps = _steps_on([every[place][0] for place in running], inputs)
    for place, on_it, step in zip(running, inputs, steps, strict=True):
        job, cluster, _ = every[place]
        setup, time = job.setup, float(time_to_train(job.training.steps, step, job.training.availability))
        if len(job.search.time) > 1 and abs(step / job.training.step_time.typical - 1) > ALIKE:
            (searched,) = ways_to_run([JobSetup.of(cluster, setup.request, setup.catalog, on_it)], 1)
            time = min(time, searched.time_to_train(searched.step_time)) if searched else time
        times[place] = time
    return times


def _steps_on(jobs: Sequence[Job], inputs: Sequence[StepInputs]) -> list[float]:
    """The step time of the quickest of the ways that each of some jobs may be run on other inputs [s]."""
    if len(jobs) == 1 and jobs[0].chosen and len(jobs[0].search.time) <= 1:
        return [step_time(inputs[0], jobs[0].chosen)]
    ways = [job.chosen if len(job.search.time) <= 1 else rows_of(job.search.parallelism, slice(WAYS)) for job in jobs]
    return quickest_times(inputs, [way for way in ways if way])
