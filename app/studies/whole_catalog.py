"""The whole catalogue at once: what every GPU on sale, on its networks and in numbers that double, takes and costs."""

from collections.abc import Callable
from functools import lru_cache
from itertools import chain, islice, product
from time import monotonic
from typing import Annotated

from pydantic import ConfigDict, FailFast, Field

from app.catalog.estimate import EARLY
from app.catalog.load import Catalog
from app.plan.band import nan_is_an_answer, record, result
from app.plan.network import networks_of
from app.plan.scenario import GpuKey, Scenario, Usual, about, check_keys
from app.studies.sizing import (
    Candidate,
    Outcome,
    Question,
    doubled,
    front_of,
    judged,
    pairs_of,
    run_together,
    scenario_of,
)
from app.units import Seconds

TAPERS = (1.0, 2.0, 4.0)
"""Oversubscriptions that every network is tried with."""


class CloudQuestion(Question):
    """Which clusters are there for a job? GPUs, networks and limits narrow them down."""

    model_config = ConfigDict(defer_build=True)

    gpu: Annotated[tuple[GpuKey, ...], FailFast(), Field(max_length=100)] = Field(
        (),
        title="GPUs",
        description="Keys of accelerators in the catalogue. Blank: all that are on sale.",
        json_schema_extra={"group": "cluster"},
    )

    deadline: Annotated[Seconds, Field(gt=0, le=1e10)] | None = Field(
        None,
        title="Deadline",
        description="Such as 60 days.",
        json_schema_extra=about("limits", Usual.read("12 h", "60 days", "1 year", "s")),
    )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are given: none is usual."""
        return self.given_limits


@record
class Spot(Candidate):
    """One cluster of the cloud."""

    oversubscription: float = result("1", "Taper", "Oversubscription of its leaves.", default=1.0)


@record
class Cloud:
    """Clusters of the catalogue that can do a job."""

    front: tuple[Spot, ...] = result(
        "", "Front", "Of those within the limits, the clusters that no other beats in both time and cost."
    )
    spots: tuple[Spot, ...] = result("", "Clusters", "All that can run the model, within the limits or not.")
    meeting: int = result("1", "Within the limits", "How many keep every limit that is given.")
    considered: int = result("1", "Considered", "Clusters that were tried.")
    done: int = result("1", "GPUs done", "GPUs whose clusters were tried.")
    gpus: int = result("1", "GPUs", "GPUs asked for.")

    @property
    def complete(self) -> bool:
        """Whether time was enough for all GPUs."""
        return self.done == self.gpus


@nan_is_an_answer
def whole_catalog(
    question: CloudQuestion, catalog: Catalog, seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
) -> Cloud:
    """Clusters of every GPU asked for in sizes that double, on each network and taper.

    The parallelism is searched on the cheapest network of each size and timed on the others. GPUs that are not reached
    within ``seconds`` are left out; what was found is kept for when the question comes again.
    """
    check_keys(question, catalog)
    typical = catalog.typical_only()
    until = monotonic() + seconds
    gpus = question.gpu or sold(catalog)
    plain = question.part(Scenario)
    spots: list[Spot] = []
    considered = done = 0
    for gpu in gpus:
        if stopped() or (done and monotonic() > until):
            break
        of_gpu = question.model_copy(update={"gpu": (gpu,)})
        networks = tuple(scale_out for _, scale_out in pairs_of(of_gpu, typical))
        for (scale_out, count, taper), outcome in _of_gpu(plain, gpu, networks, question.gpus, typical):
            considered += 1
            if spot := outcome and _spot(question, (gpu, scale_out, count), taper, outcome):
                spots.append(spot)
        done += 1
    meeting = [spot for spot in spots if spot.meets]
    return Cloud(front_of(meeting), tuple(spots), len(meeting), considered, done, len(gpus))


def sold(catalog: Catalog) -> tuple[str, ...]:
    """GPUs that one can buy, those first whose servers have a price, of these the newest: they are asked for most."""
    on_sale = [gpu for gpu in catalog.gpus.values() if gpu.status not in EARLY]
    unpriced = {gpu.key for gpu in on_sale if catalog.platforms[gpu.platform].price is None}
    return tuple(gpu.key for gpu in sorted(on_sale, key=lambda gpu: (gpu.key in unpriced, -(gpu.year or 0))))


@lru_cache(maxsize=128)
def _of_gpu(
    plain: Scenario, gpu: str, networks: tuple[str, ...], most: int, catalog: Catalog
) -> list[tuple[tuple[str, int, float], Outcome | None]]:
    """Clusters of one GPU by network, size and taper. Kept: limits and other GPUs change nothing of it."""
    sizes, kinds = doubled(gpu, most, catalog), list(product(networks, TAPERS))
    keys = [[(scale_out, gpus, taper) for scale_out, taper in kinds] for gpus in sizes]
    lines = [[_scenario(plain, gpu, *key) for key in line] for line in keys]
    every = iter(networks_of(chain.from_iterable(lines), catalog))
    found = run_together(lines, [[*islice(every, len(kinds))] for _ in sizes], catalog)
    return list(zip(chain.from_iterable(keys), chain.from_iterable(found), strict=True))


def _scenario(plain: Scenario, gpu: str, scale_out: str, gpus: int, taper: float) -> Scenario:
    return scenario_of(plain, (gpu, scale_out, gpus)).model_copy(update={"oversubscription": taper})


def _spot(question: CloudQuestion, key: tuple[str, str, int], taper: float, outcome: Outcome) -> Spot | None:
    """A cluster held against the limits."""
    tapered = question.model_copy(update={"oversubscription": taper})
    found = judged(tapered, key, outcome)
    return Spot(**vars(found), oversubscription=taper) if found else None
