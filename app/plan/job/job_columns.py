"""The typical figures of many training jobs, as columns: those of a study that asks for no more of each than these."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import repeat
from math import isnan
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from app.formulas import transformer
from app.formulas.arrays import typical_of
from app.formulas.collectives.group_times import Links
from app.formulas.records import but
from app.formulas.training import arguments, parallelism_search
from app.formulas.training import step as training_step
from app.formulas.training.arguments import RING
from app.formulas.training.exchanges import exchanges
from app.formulas.training.search import Search, SearchResult
from app.formulas.training.stacking import Part, alike, link_rows, rows_of, stacked, stacked_links
from app.plan.job import batch
from app.plan.job.broken_rules import Rules, rule_broken_by
from app.plan.job.inputs import JobSetup
from app.plan.job.job import utilization
from app.plan.job.job_findings import too_large
from app.plan.job.run_time import ROWS_AT_ONCE, quickest_times

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Columns = Mapping[str, Whole]

NAMED = {
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "virtual_pipeline": "virtual_pipeline",
    "context_parallel": "context",
    "expert_parallel": "expert",
    "data_parallel": "data",
    "micro_batch": "micro_batch",
}
"""What columns say of a configuration, by its names on the wire."""
DEGREES = {name: degree for name, degree in NAMED.items() if name != "data_parallel"}
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
        degrees: of that configuration, a row of `NAMED` [1].
        runs: whether there is a configuration, and it fits.
        error: why it does not run; blank where it does.
    """

    batch: Floats
    sequence_length: Floats
    step_time: Floats
    mfu: Floats
    memory: Floats
    degrees: Floats
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
            whole[entry.name] = np.empty((count, *columns[0].shape[1:]), columns[0].dtype)
            for column, some in zip(columns, places, strict=True):
                whole[entry.name][some] = column
        return cls(**whole)


# Where the parallelism is given --------------------------------------------------------------------------------------


def is_given(setup: JobSetup) -> bool:
    """Whether so much of a job is given that all its configurations are timed, and its numbers may be columns."""
    return setup.fixed.few and not setup.fixed.chunks and setup.request.model.global_batch is not None


class GivenJob(NamedTuple):
    """A job on one of the clusters that it is given for, which are alike but for their number of GPUs and links.

    Attributes:
        setup: the job on any of these clusters.
        gpus: of this cluster [1].
        links: of the same.
    """

    setup: JobSetup
    gpus: int
    links: Links


def given_jobs(given: Sequence[GivenJob], owners: Whole, columns: Columns, constants: Mapping[str, Any]) -> JobColumns:
    """Jobs that are given, see `is_given`.

    Jobs of one model and stack on GPUs of any kind and number and on networks of one structure are timed in one call.

    Args:
        given: jobs that differ in more than `DEGREES` and `SIZES`.
        owners: of each job, which of them it is but for the columns.
        columns: values of these fields, one of each a job; what is left out is as the setup has it.
        constants: the same of constants of the step, by their names in a calibration.
    """
    parts, places = [], []
    for members in _by_structure(given):
        number = np.full(len(given), -1)
        number[members] = np.arange(len(members))
        rows = np.flatnonzero(number[owners] >= 0)
        some, their = ({name: column[rows] for name, column in each.items()} for each in (columns, constants))
        jobs = _Jobs.of([given[place] for place in members], number[owners[rows]], some, their)
        for start in range(0, len(rows), many := jobs.at_once()):
            block = slice(start, start + many)
            parts.append(_timed(jobs.at(block)))
            places.append(rows[block])
    return JobColumns.of(parts, places, len(owners))


def _is_one(setup: JobSetup) -> bool:
    """Whether a job can be run in one way."""
    return all(getattr(setup.fixed, name) is not None for name in OPEN)


def _by_structure(given: Sequence[GivenJob]) -> list[list[int]]:
    """Which jobs are of one structure."""
    structures: dict[Hashable, int] = {}
    known: dict[int, tuple[int, bool]] = {}
    groups: dict[Hashable, list[int]] = {}
    for place, (setup, _, links) in enumerate(given):
        if id(setup) not in known:
            exchanging = float(setup.inputs.shape.experts) > 0 or setup.fixed.context_exchange != RING
            known[id(setup)] = structures.setdefault(_structure(setup), len(structures)), exchanging
        number, exchanging = known[id(setup)]
        groups.setdefault((number, alike(links, exchanging)), []).append(place)
    return [*groups.values()]


def _structure(setup: JobSetup) -> Hashable:
    """What jobs have in common, but for their links, whose other numbers can be columns of one call."""
    n, fixed = setup.inputs, but(setup.fixed, **dict.fromkeys(DEGREES.values()))
    openness = [getattr(setup.fixed, name) is None for name in OPEN]
    return n.shape, n.software, fixed, setup.budget, *openness, setup.fixed.whole


OPEN = ("virtual_pipeline", "context", "expert", "sharding", "recompute")
"""What may be looked for among few, in the order of `parallelism_search.few`."""


@dataclass(frozen=True)
class _Jobs:
    """Jobs of one structure.

    Attributes:
        given: as in `given_jobs`.
        owners: of each job, which of them it is but for its numbers.
        numbers: degrees that are given and sizes, by the scenario's names: one for all, or one of each [1].
        constants: those of the step that are not as the setups have them, one of each.
        whole: what is given as one search whose numbers are columns where they differ.
    """

    given: Sequence[GivenJob]
    owners: Whole
    numbers: Mapping[str, Any]
    constants: Mapping[str, Any]
    whole: Search

    @classmethod
    def of(cls, given: Sequence[GivenJob], owners: Whole, columns: Columns, constants: Mapping[str, Any]) -> "_Jobs":
        """Jobs some of whose numbers are columns, the others as the setups have them."""
        setups, which = _setups(given)
        names = [name for name in (*DEGREES, *SIZES) if own_number(setups[0], name) is not None]
        automatic = {name: [own_number(setup, name) for setup in setups] for name in names if name not in columns}
        filled = {name: _at(_one_or_each(values), which[owners]) for name, values in automatic.items()}
        filled |= {name: columns[name] for name in names if name in columns}
        if "expert_parallel" in filled and not setups[0].inputs.shape.experts:
            filled["expert_parallel"] = 1
        return cls(given, owners, filled, constants, _stacked(given, setups, which))

    @property
    def first(self) -> JobSetup:
        """One of the setups."""
        return self.given[0].setup

    def at(self, some: slice) -> "_Jobs":
        """Some of the jobs."""
        numbers, constants = (
            {name: _at(column, some) for name, column in each.items()} for each in (self.numbers, self.constants)
        )
        return but(self, owners=self.owners[some], numbers=numbers, constants=constants)

    def at_once(self) -> int:
        """How many are timed in one pass: the arrays of their configurations stay in the processor's cache."""
        ways = 1 if _is_one(self.first) else len(self._few(0, {}))
        return max(ROWS_AT_ONCE // max(ways, 1), 1)

    def configurations(self) -> tuple[dict[str, Any], Whole]:
        """The ways to run each job, as degrees are fixed, with its sizes; and which job each is of."""
        jobs, fixed = np.arange(len(self.owners)), self.first.fixed
        numbers = {DEGREES.get(name, name): column for name, column in self.numbers.items()}
        if _is_one(self.first):
            return numbers, jobs
        known: dict[tuple[int, ...], Whole] = {}
        tables = [self._few(job, known) for job in jobs.tolist()]
        job = np.repeat(jobs, [len(table) for table in tables])
        tried = zip(OPEN, np.concatenate(tables).T, strict=True)
        tried_columns = {name: column for name, column in tried if getattr(fixed, name) is None}
        return {name: _at(column, job) for name, column in numbers.items()} | tried_columns, job

    def _few(self, job: int, known: dict[tuple[int, ...], Whole]) -> Whole:
        """The degrees that may be tried for a job. Batches alone do not change them."""
        numbers = self.number_of(job)
        key = int(self.owners[job]), *(number for name, number in numbers.items() if name != "global_batch")
        if key not in known:
            setup, gpus, links = self.given[self.owners[job]]
            degrees = {DEGREES[name]: number for name, number in numbers.items() if name in DEGREES}
            sized = but(setup.inputs.job, sequence_length=float(numbers["sequence_length"]))
            fixed = but(setup.fixed, **degrees)
            known[key] = parallelism_search.few(but(setup.asked, job=sized, gpus=gpus, links=links, fixed=fixed))
        return known[key]

    def number_of(self, job: int) -> dict[str, int]:
        """The numbers of one job."""
        return {name: int(_at(column, job)) for name, column in self.numbers.items()}

    def search(self, jobs: Whole, rows: Mapping[str, Any]) -> Search:
        """Configurations of some jobs as one search whose numbers are columns where they differ."""
        search = _rows_of(self.whole, self.owners[jobs], rows)
        constants = {name: column[jobs] for name, column in self.constants.items()}
        return but(search, calibration=but(search.calibration, **constants)) if constants else search

    @property
    def capacity(self) -> Floats:
        """Memory of a GPU of each job [B]."""
        return np.full(len(self.owners), _at(self.whole.gpu.memory_capacity, self.owners))


def _timed(jobs: _Jobs) -> JobColumns:
    """The quickest configuration of each of some jobs of one structure, in the order and by the rules of the search."""
    count = len(jobs.owners)
    rows, job = jobs.configurations()
    only = parallelism_search.given(jobs.search(job, rows))
    held = np.where(only.divides, only.memory, np.nan) + np.zeros(len(job))
    smallest = _first(job, np.flatnonzero(~np.isnan(held)), held)
    tried = _tried(held, smallest, job, jobs)
    time = np.full(len(job), np.nan)
    if len(tried):
        some = {name: _at(column, tried) for name, column in rows.items()}
        time[tried] = _step_times(jobs.search(job[tried], some), rows_of(only.parallelism, tried))
    best = _first(job, tried, time)
    memory, step_time = np.full(count, np.nan), np.full(count, np.nan)
    memory[job[smallest]] = held[smallest]
    memory[job[best]], step_time[job[best]] = held[best], time[best]
    degrees = np.full((count, len(NAMED)), np.nan)
    degrees[job[best]] = _degrees_of(rows_of(only.parallelism, best), len(best))
    runs = np.isin(np.arange(count), job[best]) & (memory <= jobs.capacity)
    error = np.full(count, "", object)
    for place, text in _refusals(jobs, np.flatnonzero(~runs), memory):
        error[place] = text
    batches, lengths = (jobs.numbers[name] + np.zeros(count) for name in SIZES)
    sizes = {name: jobs.numbers[name] for name in SIZES}
    mfu = _mfu(jobs.search(np.arange(count), sizes), step_time)
    return JobColumns(batches, lengths, step_time, mfu, memory, degrees, runs, error)


def _degrees_of(parallelism: arguments.Parallelism, count: int) -> Floats:
    """What columns say of so many configurations [1]."""
    return np.array([np.broadcast_to(getattr(parallelism, name), count) for name in NAMED.values()]).T


def _tried(held: Floats, smallest: Whole, job: Whole, jobs: _Jobs) -> Whole:
    """Which configurations are timed: those within the share of the memory that one of our own choice may fill.

    Of a job that is given whole, where there is none, those that fit to the brim, else the smallest.
    """
    setup, share = jobs.first, held / jobs.capacity[job]
    timed = share <= setup.budget
    if setup.fixed.whole:
        fitting = np.isin(job, job[timed])
        timed |= ~fitting & (share <= 1)
        fitting = np.isin(job, job[timed])
        timed[smallest] |= ~fitting[smallest]
    return np.flatnonzero(timed)


def _first(job: Whole, rows: Whole, values: Floats) -> Whole:
    """Of some rows, that of each job with the lowest value, the first where several have it."""
    key = values[rows]
    order = rows[np.lexsort((np.where(np.isnan(key), np.inf, key), job[rows]))]
    return order[np.unique(job[order], return_index=True)[1]]


def _step_times(search: Search, parallelism: arguments.Parallelism) -> Floats:
    """Of configurations, one of each row [s]."""
    shape, job, software, cal = search.shape, search.job, search.software, search.calibration
    sent = exchanges(shape, job, parallelism, software, search.links, cal.bucket)
    return np.asarray(training_step.step(shape, job, search.gpu, parallelism, software, cal, sent).time)


def _refusals(jobs: _Jobs, places: Whole, memory: Floats) -> Iterator[tuple[int, str]]:
    """Why some of the jobs do not run: they need so much memory [B], or do not divide."""
    varied = [name for name, column in jobs.numbers.items() if name != "global_batch" and np.ndim(column)]
    keys = zip(*(jobs.numbers[name][places].tolist() for name in varied), strict=True) if varied else repeat(())
    sizes = np.broadcast_to(jobs.numbers["global_batch"], memory.shape)[places].tolist()
    columns = places.tolist(), jobs.owners[places].tolist(), memory[places].tolist(), sizes
    known: dict[tuple[int, ...], Rules] = {}
    for (place, owner, needed, size), key in zip(zip(*columns, strict=True), keys, strict=False):
        setup, gpus, _ = jobs.given[owner]
        if not isnan(needed):
            yield place, too_large(setup, needed)
            continue
        if key not in known:
            numbers = jobs.number_of(place)
            degrees = {DEGREES[name]: number for name, number in numbers.items() if name in DEGREES}
            known[key] = Rules.of(setup.inputs.shape, but(setup.fixed, **degrees), numbers["sequence_length"])
        yield place, known[key].broken(gpus, size).text


def own_number(setup: JobSetup, name: str) -> int | None:
    """A number that a job has of its own, by the scenario's name; ``None`` where it is looked for."""
    if name in DEGREES:
        degree: int | None = getattr(setup.fixed, DEGREES[name])
        return degree
    return int(setup.inputs.job.global_batch if name == "global_batch" else setup.inputs.job.sequence_length)


def _one_or_each(values: Sequence[Any]) -> Any:
    """The value that all have, or an array of them."""
    return values[0] if len(set(values)) == 1 else np.array(values)


def _at(column: Any, places: Any) -> Any:
    """What a column has at some places; a number is the same everywhere."""
    return column[places] if isinstance(column, np.ndarray) else column


def _setups(given: Sequence[GivenJob]) -> tuple[list[JobSetup], Whole]:
    """The different setups of some jobs, and which each has."""
    different = {id(each.setup): each.setup for each in given}
    numbers = {key: number for number, key in enumerate(different)}
    return [*different.values()], np.array([numbers[id(each.setup)] for each in given])


def _stacked(given: Sequence[GivenJob], setups: Sequence[JobSetup], which: Whole) -> Search:
    """Jobs of one structure as one whose numbers are columns where they differ; degrees are those of the first.

    Args:
        given: the jobs.
        setups, which: the different setups of these, and which each has.
    """
    inputs = [setup.inputs for setup in setups]
    links = given[0].links
    if any(each.links is not links for each in given):
        links = stacked_links([each.links for each in given])
    return Search(
        shape=inputs[0].shape,
        job=_of_each([n.job for n in inputs], which),
        gpu=_of_each([n.hardware for n in inputs], which),
        software=inputs[0].software,
        calibration=_of_each([n.calibration for n in inputs], which),
        links=links,
        gpus=_one_or_each([each.gpus for each in given]),
        fixed=setups[0].fixed,
    )


def _of_each(parts: Sequence[Part], which: Whole) -> Part:
    """One record of each job: which of some parts it has."""
    whole = stacked(parts)
    return whole if whole is parts[0] else rows_of(whole, which)


def _rows_of(whole: Search, owners: Whole, rows: Mapping[str, Any]) -> Search:
    """Rows of jobs as one search; degrees and sizes are those of the rows."""
    job = rows_of(whole.job, owners)
    return but(
        whole,
        job=but(job, global_batch=rows["global_batch"] * 1.0, sequence_length=rows["sequence_length"] * 1.0),
        gpu=rows_of(whole.gpu, owners),
        calibration=rows_of(whole.calibration, owners),
        links=link_rows(whole.links, owners),
        gpus=_at(whole.gpus, owners),
        fixed=but(whole.fixed, **{name: column for name, column in rows.items() if name not in SIZES}),
    )


@lru_cache(maxsize=64)
def _token_flops(shape: transformer.Shape, sequence_length: float, causal: float) -> float:
    """Work of a token in training [FLOP]. Kept: the jobs of most rows are of one model."""
    return float(transformer.training_flops(shape, sequence_length, causal))


def _mfu(search: Search, time: Floats) -> Floats:
    job = search.job
    flops = transformer.training_flops(search.shape, job.sequence_length, job.causal)
    tokens = job.global_batch * job.sequence_length
    return np.asarray(utilization(flops, tokens, time, search.gpus * search.gpu.linear_peak))


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
    running = [place for place, way in enumerate(chosen) if way is not None]
    time = np.full(len(jobs), np.nan)
    time[running] = _times(jobs, chosen, running)
    capacity = np.array([typical_of(setup.inputs.hardware.memory_capacity) for setup in setups])
    memory = np.array([search.memory[0] if len(search.memory) else search.smallest_memory for _, search in jobs])
    runs = np.isin(np.arange(len(jobs)), running) & (memory <= capacity)
    degrees = np.full((len(jobs), len(NAMED)), np.nan)
    for place, way in enumerate(chosen):
        if way is not None:
            degrees[place] = [getattr(way, name) for name in NAMED.values()]
    batches = np.array([float(setup.request.batch) for setup, _ in jobs])
    lengths = np.array([setup.inputs.job.sequence_length for setup, _ in jobs])
    flops = [
        _token_flops(setup.inputs.shape, float(length), float(setup.inputs.job.causal))
        for (setup, _), length in zip(jobs, lengths, strict=True)
    ]
    peaks = [setup.cluster.gpus * setup.inputs.hardware.linear_peak for setup, _ in jobs]
    return JobColumns(
        batch=batches,
        sequence_length=lengths,
        step_time=time,
        mfu=np.asarray(utilization(np.array(flops), batches * lengths, time, np.array(peaks))),
        memory=memory,
        degrees=degrees,
        runs=runs,
        error=np.array(["" if fine else _refused(*job) for job, fine in zip(jobs, runs, strict=True)], object),
    )


def _times(
    jobs: Sequence[batch.Settled], chosen: Sequence[arguments.Parallelism | None], running: Sequence[int]
) -> list[float]:
    """The step times of the jobs that have a configuration [s]."""
    times = [float(search.time[0]) if len(search.time) else np.nan for _, search in (jobs[place] for place in running)]
    untimed = [index for index, time in enumerate(times) if np.isnan(time)]
    ways = [(jobs[running[index]][0].inputs, chosen[running[index]]) for index in untimed]
    alone = quickest_times([inputs for inputs, _ in ways], [way for _, way in ways if way])
    for index, time in zip(untimed, alone, strict=True):
        times[index] = time
    return times


def _refused(setup: JobSetup, search: SearchResult) -> str:
    """Why a job does not run."""
    if search.smallest is not None:
        return too_large(setup, float(search.smallest_memory))
    return rule_broken_by(setup).text
