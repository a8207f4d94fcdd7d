"""How long a run takes, and nothing else of it: what studies that ask about hundreds of clusters need of a job."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from app.formulas.arrays import Array, any_, typical_of
from app.formulas.collectives.group_times import Links
from app.formulas.records import but
from app.formulas.training import arguments
from app.formulas.training import step as training_step
from app.formulas.training.exchanges import LayerGroups, exchanged_by, layer_groups, step_exchanges
from app.formulas.training.goodput import time_to_train
from app.formulas.training.stacking import alike, link_rows, row, rows_of, stacked, stacked_links
from app.formulas.transformer import Shape
from app.plan.job import batch
from app.plan.job.inputs import JobSetup, StepInputs, named
from app.plan.job.shape import size_of
from app.plan.job.storage import checkpointing
from app.plan.result import Parallelism

ROWS_AT_ONCE = 8_000
"""Ways to run jobs that are timed in one pass: their arrays stay in the processor's cache."""


@dataclass(frozen=True)
class Ways:
    """The ways to run a job that the search found on one network, quickest first.

    Attributes:
        setup: what runs, and on what.
        parallelism: the ways, as arrays, or one.
        step_time: of the quickest [s].
    """

    setup: JobSetup
    parallelism: arguments.Parallelism
    step_time: float

    @cached_property
    def quickest(self) -> Parallelism:
        """The quickest under the names on the wire."""
        first = row(self.parallelism, 0)
        return named(first, self.setup.inputs)

    @cached_property
    def progress(self) -> float:
        """Share of the time that makes progress [1]."""
        parameters = size_of(self.setup.inputs.shape).parameters
        cluster, operation = self.setup.cluster, self.setup.request.operation
        return typical_of(checkpointing(parameters, cluster, operation, self.setup.catalog).progress)

    def time_to_train(self, step_time: float) -> float:
        """How long the run takes at a time of its step, failures included [s]."""
        return float(time_to_train(self.setup.request.steps, step_time, self.progress))


def ways_to_run(setups: Sequence[JobSetup], most: int) -> list[Ways | None]:
    """The quickest ways to run each job, no more than so many; ``None`` where it cannot run."""
    jobs = batch.searched_together(setups, quickest=most)
    ways: list[Ways | None] = [None] * len(jobs)
    for place, (setup, search) in enumerate(jobs):
        if len(search.time):
            time = float(search.time[0])
            if not np.isfinite(time):
                (time,) = quickest_times([setup.inputs], [search.parallelism])
            ways[place] = Ways(setup, search.parallelism, time)
    return ways


def quickest_times(inputs: Sequence[StepInputs], ways: Sequence[arguments.Parallelism]) -> list[float]:
    """The step time of the quickest of some ways to run each of some jobs [s].

    Jobs of one model and GPU on networks of one structure are timed in one call, whatever their size.
    """
    times = [float("nan")] * len(inputs)
    counts = [_rows(each) for each in ways]
    for places in _together(inputs, ways, counts):
        rows = [counts[place] for place in places]
        n, par = inputs[places[0]], ways[places[0]]
        if len(places) > 1:
            n = _stacked([inputs[place] for place in places], rows)
            par = _configurations([ways[place] for place in places], rows)
        step = training_step.step(n.shape, n.job, n.hardware, par, n.software, n.calibration, n.exchanges(par))
        first = [0, *accumulate(rows[:-1])]
        quickest = np.minimum.reduceat(np.broadcast_to(step.time, sum(rows)), first)
        for place, time in zip(places, quickest.tolist(), strict=True):
            times[place] = time
    return times


def step_time(inputs: StepInputs, way: arguments.Parallelism) -> float:
    """The typical step time of one way to run one job [s]."""
    n = inputs.with_batch(1)
    pieces = _pieces(n.shape, n.job, n.hardware, way, n.software, n.calibration, n.links)
    return float(training_step.assemble(pieces, n.shape, inputs.job, n.hardware, way, n.software, n.calibration).time)


@lru_cache(maxsize=64)
def _pieces(
    shape: Shape,
    job: arguments.Job,
    gpu: arguments.GpuRates,
    way: arguments.Parallelism,
    software: arguments.Software,
    calibration: arguments.Calibration,
    links: Links,
) -> training_step.Pieces:
    """One micro-batch. Kept: it takes 0.3 ms, three quarters of a step, and neither batch nor tokens change it."""
    layer, head = _layer(shape, job, gpu, way.of_a_replica, software, calibration, layer_groups(shape, way, links))
    beyond = step_exchanges(shape, job, way, software, links, calibration.bucket)
    return training_step.Pieces(layer, head, beyond)


@lru_cache(maxsize=64)
def _layer(
    shape: Shape,
    job: arguments.Job,
    gpu: arguments.GpuRates,
    replica: arguments.Parallelism,
    software: arguments.Software,
    calibration: arguments.Calibration,
    groups: LayerGroups,
) -> tuple[Array, Array]:
    """Times of a layer and of the output head for one micro-batch [s]. Kept: clusters of many sizes share them."""
    sent = exchanged_by(groups, shape, job, replica, software)
    layer = training_step.layer(shape, job, gpu, replica, software, calibration, sent)
    return layer.total, training_step.head_time(shape, job, gpu, replica, calibration)


def _rows(par: arguments.Parallelism) -> int:
    """How many configurations there are [1]."""
    return max([len(column) for column in vars(par).values() if isinstance(column, np.ndarray)], default=1)


def _together(
    inputs: Sequence[StepInputs], ways: Sequence[arguments.Parallelism], rows: Sequence[int]
) -> Iterator[list[int]]:
    """Places of jobs that can be timed in one call, `ROWS_AT_ONCE` ways of them or a little more."""
    groups: dict[Hashable, list[int]] = {}
    for place, (each, par) in enumerate(zip(inputs, ways, strict=True)):
        groups.setdefault(_structure(each, par), []).append(place)
    for places in groups.values():
        block, size = list[int](), 0
        for place in places:
            block.append(place)
            size += rows[place]
            if size >= ROWS_AT_ONCE:
                yield block
                block, size = [], 0
        if block:
            yield block


def _structure(inputs: StepInputs, ways: arguments.Parallelism) -> Hashable:
    """What jobs have in common whose other numbers can be columns of one call."""
    exchanging = float(inputs.shape.experts) > 0 or any_(ways.context_exchange != arguments.RING)
    return inputs.shape, inputs.software, inputs.conditions, inputs.calibration, alike(inputs.links, exchanging)


def _stacked(inputs: Sequence[StepInputs], rows: Sequence[int]) -> StepInputs:
    """One job whose numbers are columns: those of each of some jobs on so many rows."""
    several = but(
        inputs[0],
        job=stacked([each.job for each in inputs]),
        hardware=stacked([each.hardware for each in inputs]),
        links=stacked_links([each.links for each in inputs]),
    )
    if max(rows) == 1:
        return several
    owners = np.repeat(np.arange(len(inputs)), rows)
    return but(
        several,
        job=rows_of(several.job, owners),
        hardware=rows_of(several.hardware, owners),
        links=link_rows(several.links, owners),
    )


def _configurations(ways: Sequence[arguments.Parallelism], rows: Sequence[int]) -> arguments.Parallelism:
    """The ways to run some jobs, one after the other."""
    if max(rows) == 1:
        return stacked([row(each, 0) for each in ways])
    columns = [vars(each) for each in ways]
    return arguments.Parallelism(**{name: _column([each[name] for each in columns], rows) for name in columns[0]})


def _column(values: Sequence[Array], rows: Sequence[int]) -> Any:
    """A value that all have, or arrays one after the other."""
    if not any(isinstance(value, np.ndarray) for value in values):
        return values[0] if len(set(values)) == 1 else np.repeat(np.array(values), rows)
    return np.concatenate([
        value if isinstance(value, np.ndarray) and len(value) == many else np.full(many, value)
        for value, many in zip(values, rows, strict=True)
    ])  # fmt: skip
