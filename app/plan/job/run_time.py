"""How long a run takes, and nothing else of it: what studies that ask about hundreds of clusters need of a job."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np

from app.formulas import transformer
from app.formulas.arrays import Array, any_
from app.formulas.collectives.group_times import Links
from app.formulas.collectives.ideal import Machine
from app.formulas.fabric.placement import PINNED
from app.formulas.training import arguments, parallelism_search
from app.formulas.training import step as training_step
from app.formulas.training.exchanges import exchanges
from app.formulas.transformer import Shape
from app.plan.job import batch
from app.plan.job.inputs import JobSetup, StepInputs, named
from app.plan.job.storage import checkpointing
from app.plan.result import Parallelism

Part = TypeVar("Part", arguments.GpuRates, arguments.Job, arguments.Parallelism, Machine)
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

    @property
    def quickest(self) -> Parallelism:
        """The quickest under the names on the wire."""
        first = parallelism_search.row(self.parallelism, 0)
        return named(first, self.setup.inputs)

    def time_to_train(self, step_time: float) -> float:
        """How long the run takes at a time of its step, failures included [s]."""
        parameters = float(transformer.parameters(self.setup.inputs.shape))
        setup = self.setup
        progress = checkpointing(parameters, setup.cluster, setup.request.operation, setup.catalog).progress
        return self.setup.request.steps * step_time / float(progress.ravel()[0])


def ways_to_run(setup: JobSetup, most: int) -> Ways | None:
    """The quickest ways to run a job, no more than so many; ``None`` where it cannot run."""
    setup, search = batch.searched(setup, quickest=most)
    if not len(search.time):
        return None
    time = float(search.time[0])
    ways = search.parallelism
    return Ways(setup, ways, time if np.isfinite(time) else quickest_times([setup.inputs], [ways])[0])


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
            par = _columns(arguments.Parallelism, [ways[place] for place in places], rows)
        step = training_step.step(n.shape, n.job, n.hardware, par, n.software, n.calibration, n.exchanges(par))
        time = np.broadcast_to(step.time, sum(rows))
        for place, (start, stop) in zip(places, pairwise(accumulate(rows, initial=0)), strict=True):
            times[place] = float(np.min(time[start:stop]))
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
    """One micro-batch. Kept: it takes 0.4 ms, three quarters of a step, and neither batch nor tokens change it."""
    exchanged = exchanges(shape, job, way, software, links, calibration.bucket)
    return training_step.layer_and_pieces(shape, job, gpu, way, software, calibration, exchanged)[1]


def _rows(par: arguments.Parallelism) -> int:
    """How many configurations there are [1]."""
    return max((len(column) for column in vars(par).values() if isinstance(column, np.ndarray)), default=1)


def _together(
    inputs: Sequence[StepInputs], ways: Sequence[arguments.Parallelism], rows: Sequence[int]
) -> Iterator[list[int]]:
    """Places of jobs that can be timed in one call, `ROWS_AT_ONCE` ways of them or a little more."""
    alike: dict[Any, list[int]] = {}
    for place, (each, par) in enumerate(zip(inputs, ways, strict=True)):
        alike.setdefault(_structure(each, par), []).append(place)
    for places in alike.values():
        block: list[int] = []
        for place in places:
            block.append(place)
            if sum(rows[one] for one in block) >= ROWS_AT_ONCE:
                yield block
                block = []
        if block:
            yield block


def _structure(inputs: StepInputs, ways: arguments.Parallelism) -> Any:
    """What jobs have in common whose other numbers can be columns of one call."""
    links, site = inputs.links, inputs.links.site
    exchanging = float(inputs.shape.experts) > 0 or any_(ways.context_exchange != arguments.RING)
    exchanging = exchanging or site.scattered or site.balancing == "hashing"
    tiers = tuple(
        (tier.uplinks > 0, (tier.uplinks, tier.leaves) if exchanging and site.balancing in PINNED else None)
        for tier in site.tiers
    )
    common = inputs.shape, inputs.software, inputs.conditions, inputs.calibration, links.library, links.ideal
    degraded = id(site) if any(np.isfinite(tier.links) for tier in site.tiers) else None
    flags = site.scattered, site.balancing, site.rails_apart, site.planes, site.flows, degraded
    return common, flags, tiers


def _stacked(inputs: Sequence[StepInputs], rows: Sequence[int]) -> StepInputs:
    """One job whose numbers are columns: those of each of some jobs on so many rows."""
    first = inputs[0]
    return replace(
        first,
        job=_columns(arguments.Job, [each.job for each in inputs], rows),
        hardware=_columns(arguments.GpuRates, [each.hardware for each in inputs], rows),
        links=_stacked_links([each.links for each in inputs], rows),
    )


def _stacked_links(links: Sequence[Links], rows: Sequence[int]) -> Links:
    sites = [each.site for each in links]
    tiers = tuple(
        tier._replace(**{
            name: _column([getattr(each.tiers[place], name) for each in sites], rows)
            for name in ("unit", "spread", "neighbour", "hosts")
        })
        for place, tier in enumerate(sites[0].tiers)
    )  # fmt: skip
    places = {
        name: _column([getattr(site, name) for site in sites], rows) for name in ("gpus", "domain", "leaf", "pod")
    }
    return replace(
        links[0],
        machine=_columns(Machine, [each.machine for each in links], rows),
        inside_rate=_column([each.inside_rate for each in links], rows),
        inside_hop=_column([each.inside_hop for each in links], rows),
        domain=_column([each.domain for each in links], rows),
        site=sites[0]._replace(**places, tiers=tiers),
    )


def _columns(kind: type[Part], parts: Sequence[Part], rows: Sequence[int]) -> Part:
    """A record of columns."""
    return kind(**{each.name: _column([getattr(part, each.name) for part in parts], rows) for each in fields(kind)})


def _column(values: Sequence[Array], rows: Sequence[int]) -> Any:
    """A value that all have, or an array: each on so many rows, or arrays of these one after the other."""
    if not any(isinstance(value, np.ndarray) for value in values):
        if len(set(values)) == 1:
            return values[0]
        return np.repeat(np.array(values, float), rows)
    return np.concatenate([np.broadcast_to(value, many) for value, many in zip(values, rows, strict=True)])
