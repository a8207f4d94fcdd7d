"""The global batch where none is given: near the model's usual tokens of a step, and such that it divides."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import gcd, inf, isnan, log

import numpy as np

from app.formulas.training.search import Contests, SearchResult
from app.plan.band import nan_is_an_answer
from app.plan.job.inputs import JobSetup
from app.plan.job.search_together import search_all

Settled = tuple[JobSetup, SearchResult]
"""A job with the batch to take, and its search."""


def settled(setups: Sequence[JobSetup], quickest: int | None = None) -> list[Settled]:
    """Each job with the batch to take, about the one it has, and its search for all ways to run it or the quickest.

    Batches that share as many divisors with the GPUs as possible are tried. Taken is the one whose tokens take least
    time, where being far from the usual counts as slower: T / B · (1 + a |ln(B / usual)|). Where one divides evenly and
    is as good as usual, no other is tried.
    """
    offered = [list(_offered(setup)) for setup in setups]
    even = [_even(setup, offers) for setup, offers in zip(setups, offered, strict=True)]
    first = [[batch] if batch else _different(offers) for batch, offers in zip(even, offered, strict=True)]
    taken = _best_of(setups, first, quickest)
    again = [place for place, batch in enumerate(even) if batch and not taken[place][1].feasible]
    if again:
        others = _best_of([setups[place] for place in again], [_different(offered[place]) for place in again], quickest)
        for place, other in zip(again, others, strict=True):
            taken[place] = other
    return taken


def _different(offered: Sequence[tuple[int, int]]) -> list[int]:
    """The batches that are offered, each once."""
    return [*dict.fromkeys(batch for _, batch in offered)]


def _best_of(setups: Sequence[JobSetup], batches: Sequence[Sequence[int]], quickest: int | None) -> list[Settled]:
    """Each job with the best of its batches, and its search for that; with its own where there is none."""
    tried = [
        [setup.with_batch(batch) for batch in some] or [setup] for setup, some in zip(setups, batches, strict=True)
    ]
    if quickest == 1:
        return _winners(setups, tried)
    chosen = [candidates[0] for candidates in tried]
    several = [place for place, candidates in enumerate(tried) if len(candidates) > 1]
    if several:
        winners = _winners([setups[place] for place in several], [tried[place] for place in several])
        for place, (winner, _) in zip(several, winners, strict=True):
            chosen[place] = winner
    return [*zip(chosen, search_all(chosen, quickest), strict=True)]


def _winners(setups: Sequence[JobSetup], tried: Sequence[Sequence[JobSetup]]) -> list[Settled]:
    """Each job as that of some candidates whose tokens take least time, and the quickest way to run it."""
    every = [(setup, of_batch) for setup, candidates in zip(setups, tried, strict=True) for of_batch in candidates]
    contests = Contests(
        number=np.repeat(np.arange(len(tried)), [*map(len, tried)]),
        weight=np.array([_penalty(setup, of_batch) / of_batch.request.batch for setup, of_batch in every]),
    )
    searches = iter(search_all([of_batch for _, of_batch in every], 1, contests))
    taken = []
    for setup, candidates in zip(setups, tried, strict=True):
        searched_each = [(candidate, next(searches)) for candidate in candidates]
        taken.append(min(searched_each, key=partial(_score, setup)))
    return taken


def _offered(setup: JobSetup) -> Iterator[tuple[int, int]]:
    """Batches that may be taken, each with the share of all ranks for which it is enough."""
    tolerance = setup.catalog.training["batch"]["tolerance"].typical
    return _candidates(_round(setup), setup.request.batch, tolerance)


def _even(setup: JobSetup, offered: Sequence[tuple[int, int]]) -> int | None:
    """The first that divides evenly and is as good as usual; ``None`` where none is."""
    near, usual = log(setup.catalog.training["batch"]["near"].typical), setup.request.batch
    return next((batch for share, batch in offered if share == 1 and _apart(batch, usual) <= near), None)


def _penalty(usual: JobSetup, setup: JobSetup) -> float:
    """As how much slower it counts that a job has another batch than usual."""
    return 1 + setup.catalog.training["batch"]["aversion"].typical * _apart(setup.request.batch, usual.request.batch)


def _score(usual: JobSetup, candidate: Settled) -> tuple[float, float]:
    """How long tokens take, and how far the batch is from the usual one: the lower, the better."""
    setup, search = candidate
    fast = pace(search, setup.request.batch)
    return _penalty(usual, setup) / fast if fast else inf, _apart(setup.request.batch, usual.request.batch)


@nan_is_an_answer
def searched(setup: JobSetup, quickest: int | None = None) -> Settled:
    """The job with the batch to take, where that is open, and its search for all ways to run it or the quickest.

    A configuration given whole may fill the memory to the brim.
    """
    return searched_together([setup], quickest)[0]


@nan_is_an_answer
def searched_together(setups: Sequence[JobSetup], quickest: int | None = None) -> list[Settled]:
    """The same of many jobs in few calls; all with the batch open, or none."""
    if any(setup.request.model.global_batch is None for setup in setups):
        jobs = settled(setups, quickest)
    else:
        jobs = [*zip(setups, search_all(setups, quickest), strict=True)]
    return [(setup, _to_the_brim(setup, search)) for setup, search in jobs]


def _to_the_brim(setup: JobSetup, search: SearchResult) -> SearchResult:
    if setup.fixed.whole and search.smallest is not None and not len(search.time):
        return setup.search(budget=1.0)
    return search


def suits(gpus: int, batch: int) -> bool:
    """Whether what a batch lacks to be a multiple of the GPUs is a power of two, as are the degrees that share it.

    >>> suits(1024, 2048), suits(16384, 2048), suits(1040, 2048)
    (True, True, False)
    """
    lacking = gpus // gcd(gpus, batch)
    return lacking & (lacking - 1) == 0


def rounder(gpus: int, unit: int, idle: float) -> list[int]:
    """Fewer GPUs, in whole units, that have more powers of two among their divisors; the most first.

    Args:
        gpus: GPUs that there are [1].
        unit: GPUs of a node or rack [1].
        idle: share of them that may be left over [1].

    >>> rounder(25_000, 8, 0.02), rounder(1024, 8, 0.02)
    ([24992, 24960, 24832, 24576], [])
    """
    units = gpus // unit
    counts = {(units >> powers << powers) * unit for powers in range(units.bit_length())}
    return sorted((count for count in counts if (1 - idle) * gpus <= count < gpus), reverse=True)


def _round(setup: JobSetup) -> int:
    """What the batch had best be a multiple of: every rank of a pipeline has a micro-batch of its own [1]."""
    fixed, gpus = setup.fixed, setup.cluster.gpus
    shared = (fixed.tensor or 1) * (fixed.context or 1)
    return max(gpus // shared * (fixed.micro_batch or 1), 1) if gpus % shared == 0 else gpus


def _candidates(whole: int, usual: int, tolerance: float) -> Iterator[tuple[int, int]]:
    """Batches about the usual one that are multiples of ``whole``, of its half, its quarter and so on, each with that
    share; the nearest to it where none is within the tolerance.
    """
    share, within = 1, False
    while whole % share == 0:
        step = whole // share
        below = usual // step * step
        batch = below if below and usual / below <= (below + step) / usual else below + step
        last = whole % (2 * share) != 0
        if _apart(batch, usual) <= log(tolerance) or (last and not within):
            within = True
            yield share, batch
        share *= 2


def _apart(batch: int, usual: int) -> float:
    """How far a batch is from the usual one, as the logarithm of their ratio."""
    return abs(log(batch / usual))


def pace(search: SearchResult, batch: int) -> float:
    """Sequences a second of the best way to run a job; none where nothing fits, one where nothing is timed [1/s]."""
    if not search.feasible:
        return 0.0
    time = float(search.time[0])
    return 1.0 if isnan(time) else batch / time


@nan_is_an_answer
def throughput(setup: JobSetup) -> float:
    """The same of a job that was not searched yet [1/s]."""
    return pace(setup.search(quickest=1), setup.request.batch)
