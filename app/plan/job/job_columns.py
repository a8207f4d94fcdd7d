"""The typical figures of many training jobs, as columns: those of a study that asks for no more of each than these."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from app.formulas import transformer
from app.formulas.records import but
from app.formulas.training import arguments, parallelism_search
from app.formulas.training import step as training_step
from app.formulas.training.arguments import RING
from app.formulas.training.exchanges import exchanges
from app.formulas.training.stacking import alike, link_rows, rows_of, stacked, stacked_links
from app.plan.job import batch
from app.plan.job.inputs import JobSetup
from app.plan.job.job import utilization
from app.plan.job.job_findings import broken_rule, too_large
from app.plan.job.run_time import ROWS_AT_ONCE, quickest_times

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Columns = Mapping[str, Whole]

DEGREES = {
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "virtual_pipeline": "virtual_pipeline",
    "context_parallel": "context",
    "expert_parallel": "expert",
    "micro_batch": "micro_batch",
}
"""Fields of a scenario whose values may be a column of jobs, by what they are called where degrees are fixed."""
SIZES = ("global_batch", "sequence_length")
"""The others."""


@dataclass(frozen=True, eq=False)
class JobColumns:
    """One of each a job; NaN where it cannot be computed.

    Attributes:
        batch: sequences of a step [1].
        sequence_length: tokens of a sequence [1].
        step_time: of the quickest configuration that fits, or the one that was given whole and does not [s].
        mfu: share of the arithmetic that the model needs [1].
        memory: of the fullest GPU, in that configuration or in the most frugal one [B].
        runs: whether there is a configuration, and it fits.
        error: why it does not run; blank where it does.
    """

    batch: Floats
    sequence_length: Floats
    step_time: Floats
    mfu: Floats
    memory: Floats
    runs: NDArray[np.bool_]
    error: NDArray[np.object_]

    @property
    def tokens(self) -> Floats:
        """Tokens of one step [1]."""
        return self.batch * self.sequence_length

    def at(self, places: Whole) -> "JobColumns":
        """Those at some places."""
        return JobColumns(**{name: column[places] for name, column in vars(self).items()})

    @classmethod
    def of(cls, parts: Sequence[Self], places: Sequence[Whole], count: int) -> Self:
        """So many jobs, of which each part has those at some places."""
        whole: dict[str, NDArray[Any]] = {}
        for entry in fields(cls):
            columns = [getattr(part, entry.name) for part in parts]
            whole[entry.name] = np.empty(count, columns[0].dtype)
            for column, some in zip(columns, places, strict=True):
                whole[entry.name][some] = column
        return cls(**whole)


# Where the parallelism is given --------------------------------------------------------------------------------------


def is_given(setup: JobSetup) -> bool:
    """Whether nothing of a job is looked for, so that some of its numbers may be columns."""
    return setup.fixed.single and not setup.fixed.chunks and setup.request.model.global_batch is not None


def given_jobs(setups: Sequence[JobSetup], owners: Whole, columns: Columns) -> JobColumns:
    """Jobs in which all is given.

    Jobs of one model and stack on GPUs of any kind and number and on networks of one structure are timed in one call.

    Args:
        setups: jobs that differ in more than `DEGREES` and `SIZES`.
        owners: of each job, which of them it is but for the columns.
        columns: values of these fields, one of each a job; what is left out is as the setup has it.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, setup in enumerate(setups):
        groups.setdefault(_structure(setup), []).append(place)
    parts, places = [], []
    for members in groups.values():
        number = np.full(len(setups), -1)
        number[members] = np.arange(len(members))
        rows = np.flatnonzero(number[owners] >= 0) if len(groups) > 1 else np.arange(len(owners))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            block = rows[start : start + ROWS_AT_ONCE]
            some = {name: column[block] for name, column in columns.items()}
            parts.append(_timed([setups[place] for place in members], number[owners[block]], some))
            places.append(block)
    return JobColumns.of(parts, places, len(owners))


def _structure(setup: JobSetup) -> Hashable:
    """What jobs have in common whose other numbers can be columns of one call."""
    n, fixed = setup.inputs, but(setup.fixed, **dict.fromkeys(DEGREES.values()))
    exchanging = float(n.shape.experts) > 0 or setup.fixed.context_exchange != RING
    return n.shape, n.software, fixed, setup.budget, alike(n.links, exchanging)


def _timed(setups: Sequence[JobSetup], owners: Whole, columns: Columns) -> JobColumns:
    """Jobs of one structure."""
    own = {name: _column([own_number(setup, name) for setup in setups], owners) for name in (*DEGREES, *SIZES)}
    rows = {**own, **columns}
    search = _search(setups, owners, rows)
    only = parallelism_search.given(search)
    parallelism, shape, job, gpu = only.parallelism, search.shape, search.job, search.gpu
    sent = exchanges(shape, job, parallelism, search.software, search.links, search.calibration.bucket)
    step = training_step.step(shape, job, gpu, parallelism, search.software, search.calibration, sent)
    divides, count = np.broadcast_to(only.divides, len(owners)), len(owners)
    time = np.where(divides, step.time, np.nan)
    memory = np.where(divides, only.memory, np.nan)
    runs = memory <= gpu.memory_capacity
    error = np.full(count, "", object)
    for place in np.flatnonzero(~runs):
        setup = setups[owners[place]]
        error[place] = (
            too_large(setup, float(memory[place]))
            if divides[place]
            else _broken(setup, {name: int(np.broadcast_to(rows[name], count)[place]) for name in rows})
        )
    return JobColumns(
        batch=np.broadcast_to(job.global_batch, count),
        sequence_length=np.broadcast_to(job.sequence_length, count),
        step_time=time,
        mfu=_mfu(search, time),
        memory=memory,
        runs=runs,
        error=error,
    )


def own_number(setup: JobSetup, name: str) -> int:
    """A number that a job in which all is given has of its own, by the scenario's name."""
    if name in DEGREES:
        return int(getattr(setup.fixed, DEGREES[name]))
    return int(setup.inputs.job.global_batch if name == "global_batch" else setup.inputs.job.sequence_length)


def _column(values: Sequence[int], owners: Whole) -> Any:
    """The value that all have, or that of each row."""
    return values[0] if len(set(values)) == 1 else np.array(values)[owners]


def _search(setups: Sequence[JobSetup], owners: Whole, rows: Mapping[str, Any]) -> parallelism_search.Search:
    """Jobs of one structure as one whose numbers are columns where they differ."""
    first, inputs = setups[0], [setup.inputs for setup in setups]
    links = inputs[0].links
    if any(n.links is not links for n in inputs):
        links = link_rows(stacked_links([n.links for n in inputs]), owners)
    job = rows_of(stacked([n.job for n in inputs]), owners)
    return parallelism_search.Search(
        shape=inputs[0].shape,
        job=but(job, global_batch=rows["global_batch"] * 1.0, sequence_length=rows["sequence_length"] * 1.0),
        gpu=rows_of(stacked([n.hardware for n in inputs]), owners),
        software=inputs[0].software,
        calibration=rows_of(stacked([n.calibration for n in inputs]), owners),
        links=links,
        gpus=_column([setup.cluster.gpus for setup in setups], owners),
        fixed=but(first.fixed, **{name: rows[field] for field, name in DEGREES.items()}),
    )


def _mfu(search: parallelism_search.Search, time: Floats) -> Floats:
    job = search.job
    flops = transformer.training_flops(search.shape, job.sequence_length, job.causal)
    tokens = job.global_batch * job.sequence_length
    return np.asarray(utilization(flops, tokens, time, search.gpus * search.gpu.linear_peak))


def _broken(setup: JobSetup, given: Mapping[str, int]) -> str:
    """Why a configuration does not divide."""
    degrees = (given[name] for name in ("tensor_parallel", "pipeline_parallel", "context_parallel", "micro_batch"))
    return broken_rule(setup.cluster.gpus, given["global_batch"], int(setup.inputs.shape.layers), *degrees).text


# Where it is searched ------------------------------------------------------------------------------------------------


def searched_jobs(setups: Sequence[JobSetup]) -> JobColumns:
    """Jobs whose parallelism is looked for, or whose batch is: the quickest way to run each."""
    by_openness: dict[bool, list[int]] = {}
    for place, setup in enumerate(setups):
        by_openness.setdefault(setup.request.model.global_batch is None, []).append(place)
    parts = [_searched([setups[place] for place in places]) for places in by_openness.values()]
    return JobColumns.of(parts, [np.array(places) for places in by_openness.values()], len(setups))


def _searched(setups: Sequence[JobSetup]) -> JobColumns:
    """The same where the batch of all is given, or of none."""
    jobs = batch.searched_together(setups, quickest=1)
    chosen = [search.best() or (search.smallest if setup.fixed.whole else None) for setup, search in jobs]
    found = [place for place, way in enumerate(chosen) if way is not None]
    time = np.full(len(jobs), np.nan)
    time[found] = _times(jobs, chosen, found)
    capacity = np.array([float(np.ravel(setup.inputs.hardware.memory_capacity)[0]) for setup in setups])
    memory = np.array([search.memory[0] if len(search.memory) else search.smallest_memory for _, search in jobs])
    runs = np.isin(np.arange(len(jobs)), found) & (memory <= capacity)
    return JobColumns(
        batch=np.array([float(setup.request.batch) for setup, _ in jobs]),
        sequence_length=np.array([setup.inputs.job.sequence_length for setup, _ in jobs]),
        step_time=time,
        mfu=np.array([_mfu(setup.asked, each) for (setup, _), each in zip(jobs, time, strict=True)]),
        memory=memory,
        runs=runs,
        error=np.array(["" if fine else _refused(*job) for job, fine in zip(jobs, runs, strict=True)], object),
    )


def _times(
    jobs: Sequence[batch.Settled], chosen: Sequence[arguments.Parallelism | None], found: Sequence[int]
) -> list[float]:
    """The step times of the jobs that have a configuration [s]."""
    times = [float(search.time[0]) if len(search.time) else np.nan for _, search in (jobs[place] for place in found)]
    untimed = [index for index, time in enumerate(times) if np.isnan(time)]
    ways = [(jobs[found[index]][0].inputs, chosen[found[index]]) for index in untimed]
    alone = quickest_times([inputs for inputs, _ in ways], [way for _, way in ways if way])
    for index, time in zip(untimed, alone, strict=True):
        times[index] = time
    return times


def _refused(setup: JobSetup, search: parallelism_search.SearchResult) -> str:
    """Why a job does not run."""
    degrees = setup.request.parallelism
    if search.smallest is not None:
        return too_large(setup, float(search.smallest_memory))
    given = degrees.tensor_parallel, degrees.pipeline_parallel, degrees.context_parallel, degrees.micro_batch
    return broken_rule(setup.cluster.gpus, setup.request.batch, int(setup.inputs.shape.layers), *given).text
