"""The global batch where none is given: near the model's usual tokens of a step, and such that it divides."""

from collections.abc import Iterator
from math import gcd, inf, isnan, log

from app.formulas.training.parallelism_search import SearchResult
from app.plan.band import nan_is_an_answer
from app.plan.job.inputs import JobSetup

EVEN = 4
"""Ranks that share a replica's batch at least in most jobs: a batch that lacks no more than this factor divides."""


@nan_is_an_answer
def settled(setup: JobSetup, quickest: int | None = None) -> tuple[JobSetup, SearchResult]:
    """The job with the batch to take, about the one it has, and its search for all ways to run it or the quickest.

    Batches that share as many divisors with the GPUs as possible are tried. Taken is the one whose tokens take least
    time, where being far from the usual counts as slower: T / B · (1 + a |ln(B / usual)|). Where one divides evenly and
    is as good as usual, no other is tried.
    """
    usual, limits = setup.request.batch, setup.catalog.training["batch"]
    near, aversion = limits["near"].typical, limits["aversion"].typical
    tried = list(_candidates(_round(setup), usual, limits["tolerance"].typical))
    free = (setup.fixed.tensor, setup.fixed.pipeline, setup.fixed.context, setup.fixed.micro_batch) == (None,) * 4
    even = [batch for share, batch in tried if share <= (EVEN if free else 1) and _apart(batch, usual) <= log(near)]
    if even:
        one = setup.with_batch(even[0])
        search = one.search(quickest=quickest)
        if search.feasible:
            return one, search
    best, found = (inf, inf), None
    for batch in dict.fromkeys([batch for _, batch in tried]):
        one = setup.with_batch(batch)
        search = one.search(quickest=quickest)
        apart = _apart(batch, usual)
        fast = pace(search, batch)
        score = ((1 + aversion * apart) / fast if fast else inf), apart
        if found is None or score < best:
            best, found = score, (one, search)
    return found or (setup, setup.search(quickest=quickest))


def searched(setup: JobSetup, quickest: int | None = None) -> tuple[JobSetup, SearchResult]:
    """The job with the batch to take, where that is open, and its search for all ways to run it or the quickest.

    A configuration given whole may fill the memory to the brim.
    """
    if setup.request.model.global_batch is None:
        setup, search = settled(setup, quickest)
    else:
        search = setup.search(quickest=quickest)
    if setup.fixed.whole and search.smallest is not None and not len(search.time):
        search = setup.search(budget=1.0)
    return setup, search


def suits(gpus: int, batch: int) -> bool:
    """Whether what a batch lacks to be a multiple of the GPUs is a power of two, as are the degrees that share it.

    >>> suits(1024, 2048), suits(16384, 2048), suits(1040, 2048)
    (True, True, False)
    """
    lacking = gpus // gcd(gpus, batch)
    return lacking & (lacking - 1) == 0


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
