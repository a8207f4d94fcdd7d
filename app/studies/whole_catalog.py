"""The whole catalogue at once: what every GPU on sale, on every network that one buys for it, takes and costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, count, islice, product, takewhile
from threading import Lock
from time import monotonic
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, FailFast, Field

from app.catalog.estimate import EARLY
from app.catalog.load import Catalog
from app.plan.band import nan_is_an_answer, record, result
from app.plan.machine import RDMA_ETHERNET
from app.plan.network import networks_of
from app.plan.scenario import GpuKey, ScaleOutKey, Scenario, Usual, about, check_keys, query_of
from app.studies.cluster_rows import TAPERS, ClusterRows, Row
from app.studies.sizing import (
    FIGURES,
    Candidate,
    Kind,
    Outcome,
    Question,
    front_of,
    judged,
    run_together,
    scenario_of,
    unit_of,
    usual_networks,
)
from app.units import Seconds

BOUGHT = ("infiniband", *RDMA_ETHERNET, "tcp", "slingshot")
"""Families of networks that one buys; those of clouds are rented with their GPUs, and tried where they are named."""
SOCKETS = ("tcp", "gpudirect-tcp")
"""Those whose messages go through the hosts."""
SLOWEST, FASTEST = 0.5, 2.0
"""Rates of the networks that are tried, over that of the adapters which a platform comes with."""
TOGETHER = 4
"""Sizes of one GPU that are worked out at once, in a quarter of a second or less."""
MOST_JOBS = 8
"""Jobs whose clusters are kept, some megabytes each."""


class CloudQuestion(Question):
    """Which clusters are there for a job? GPUs, networks and limits narrow them down."""

    model_config = ConfigDict(defer_build=True)

    gpu: Annotated[tuple[GpuKey, ...], FailFast(), Field(max_length=100)] = Field(
        (),
        title="GPUs",
        description="Keys of accelerators in the catalogue. Blank: all that are on sale.",
        json_schema_extra={"group": "cluster"},
    )

    scale_out: Annotated[tuple[ScaleOutKey, ...], FailFast(), Field(max_length=12)] = Field(
        (),
        title="Networks",
        description="Blank: those on sale of half to twice the rate that each GPU's platform has.",
        json_schema_extra={"group": "network"},
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
    clusters: ClusterRows = result("", "Clusters", "All that can run the model, within the limits or not.")
    kind: Kind = result("", "Kind of cost", "The one of the three costs that counts.")
    query: str = result("", "Query", "The job as a query string, without its cluster.")
    meeting: int = result("1", "Within the limits", "How many keep every limit that is given.")
    considered: int = result("1", "Considered", "Clusters that were tried.")
    done: int = result("1", "GPUs done", "GPUs whose clusters were tried.")
    gpus: int = result("1", "GPUs", "GPUs asked for.")

    @property
    def complete(self) -> bool:
        """Whether time was enough for all GPUs."""
        return self.done == self.gpus


def whole_catalog(
    question: CloudQuestion, catalog: Catalog, seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
) -> Cloud:
    """Clusters of every GPU asked for, on each network, size and taper.

    The parallelism is searched on the cheapest of a size's usual networks and timed on the others, but for those over
    sockets, of which the cheapest is searched as well. What is not reached
    within ``seconds`` is left out; what was found is kept for when the job comes again, whatever the limits are then.
    """
    check_keys(question, catalog)
    until = monotonic() + seconds
    job = _job(question, catalog)
    gpus = question.gpu or sold(catalog)
    parts, done, worked = list[ClusterRows](), 0, False
    for gpu in gpus:
        missing = False
        for portion in _portions(question, gpu, catalog):
            if new := [key for key in portion if key not in job.kept]:
                if stopped() or (worked and monotonic() > until):
                    missing = True
                else:
                    worked = True
                    _work_out(job, new)
            parts += [job.kept[key] for key in portion if key in job.kept]
        done += not missing
    return _judged(question, job, parts, done, len(gpus))


def work_ahead(catalog: Catalog) -> Iterator[None]:
    """Work out the clusters of the job that a first visit shows, a portion at each step, so that all are there then.

    GPUs whose servers have the same ports come one after the other: they share their fabrics.
    """
    question, alike = CloudQuestion(), dict[tuple[object, ...], list[str]]()
    for gpu in sold(catalog):
        platform = catalog.platforms[catalog.gpus[gpu].platform]
        ports = platform.gpus_per_node, platform.nics_per_node, platform.nodes_per_rack, platform.nic_rate.typical
        alike.setdefault(ports, []).append(gpu)
    for gpu in chain.from_iterable(alike.values()):
        for portion in _portions(question, gpu, catalog):
            job = _job(question, catalog)
            if new := [key for key in portion if key not in job.kept]:
                _work_out(job, new)
                yield


def spots(cloud: Cloud, question: CloudQuestion, catalog: Catalog) -> Iterator[Spot]:
    """Every cluster of a cloud by itself."""
    return _spots(cloud.clusters, question, _job(question, catalog))


def sold(catalog: Catalog) -> tuple[str, ...]:
    """GPUs that one can buy, those first whose servers have a price, of these the newest: they are asked for most."""
    on_sale = [gpu for gpu in catalog.gpus.values() if gpu.status not in EARLY]
    unpriced = {gpu.key for gpu in on_sale if catalog.platforms[gpu.platform].price is None}
    return tuple(gpu.key for gpu in sorted(on_sale, key=lambda gpu: (gpu.key in unpriced, -(gpu.year or 0))))


def networks_for(gpu: str, catalog: Catalog) -> tuple[str, ...]:
    """Networks that one can buy for a GPU: those on sale, InfiniBand, Slingshot or Ethernet of any kind, whose ports
    have half to twice the rate of the adapters that its platform comes with.
    """
    rate = catalog.platforms[catalog.gpus[gpu].platform].nic_rate.typical
    return tuple(
        key
        for key, entry in catalog.scale_out.items()
        if entry.family in BOUGHT and entry.status not in EARLY and SLOWEST <= entry.port_rate.typical / rate <= FASTEST
    )


def sizes(unit: int, most: int) -> Iterator[int]:
    """Numbers of GPUs up to a largest, in whole nodes or racks of ``unit``: those that double, and those halfway.

    >>> [*sizes(8, 128)]
    [8, 16, 24, 32, 48, 64, 96, 128]
    """
    shares = (share << power for power in count() for share in (2, 3) if (share << power) % 2 == 0)
    return takewhile(lambda gpus: gpus <= most, (unit * share // 2 for share in shares))


# What was worked out -------------------------------------------------------------------------------------------------

Key = tuple[str, str, int]
"""GPU, network or blank for all that one buys for it, and number of GPUs."""


class _Job:
    """A job, and the clusters that were worked out for it: limits, and other GPUs and networks, change nothing of them.

    Attributes:
        plain: the job on the default cluster.
        catalog: typical values.
        kept: the clusters of a GPU and size, on a network that was named or on all that one buys.
    """

    def __init__(self, plain: Scenario, catalog: Catalog) -> None:
        self.plain = plain
        self.catalog = catalog
        self.kept: dict[Key, ClusterRows] = {}

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What is asked of it."""
        return self.plain.asked()

    def address(self, gpu: str, scale_out: str, gpus: int, taper: float) -> str:
        """The job on one cluster as a query string."""
        cluster: dict[str, Any] = {"gpu": gpu, "gpus": gpus, "scale_out": scale_out, "oversubscription": taper}
        return query_of({name: value for name, value in cluster.items() if value != _ANY[name]} | self.asked)


_ANY: Mapping[str, Any] = {
    name: Scenario.model_fields[name].default for name in ("gpu", "gpus", "scale_out", "oversubscription")
}
"""The cluster of a job that names none."""
_JOBS: dict[tuple[Scenario, Catalog], _Job] = {}
"""The jobs asked last, the latest last."""
_LOCK = Lock()


def _job(question: CloudQuestion, catalog: Catalog) -> _Job:
    """That of a question."""
    plain, typical = question.part(Scenario).model_copy(update=_ANY), catalog.typical_only()
    key = plain, typical
    with _LOCK:
        job = _JOBS.pop(key, None) or _Job(plain, typical)
        _JOBS[key] = job
        while len(_JOBS) > MOST_JOBS:
            del _JOBS[next(iter(_JOBS))]
    return job


def _portions(question: CloudQuestion, gpu: str, catalog: Catalog) -> Iterator[list[Key]]:
    """What is worked out of a GPU, so much together as takes a moment.

    Of networks that are named, those which are tried anyway are not worked out by themselves.
    """
    usual = networks_for(gpu, catalog)
    named = [network for network in question.scale_out if network not in usual]
    groups = [""] if len(named) < len(question.scale_out) or not named else []
    for network in [*groups, *named]:
        every = sizes(unit_of(gpu, catalog), question.gpus)
        while portion := [*islice(every, TOGETHER)]:
            yield [(gpu, network, gpus) for gpus in portion]


@nan_is_an_answer
def _work_out(job: _Job, keys: list[Key]) -> None:
    """Keep the clusters of some sizes of a GPU, on each of its networks and with each taper."""
    (gpu, network, _), catalog = keys[0], job.catalog
    wanted = (network,) if network else networks_for(gpu, catalog)
    outcomes_by_size: dict[int, list[tuple[Row, Outcome | None]]] = {gpus: [] for *_, gpus in keys}
    places = [*catalog.gpus].index(gpu), {key: place for place, key in enumerate(catalog.scale_out)}
    for networks, searched in _searched_together(gpu, wanted, catalog):
        kinds = [*product(networks, TAPERS)]
        lines = [
            [_scenario(job.plain, gpu, network, gpus, taper) for network, taper in kinds] for gpus in outcomes_by_size
        ]
        every = iter(networks_of(chain.from_iterable(lines), catalog))
        built = [[*islice(every, len(kinds))] for _ in lines]
        outcomes = run_together(lines, built, catalog, searched * len(TAPERS))
        for (gpus, clusters), line in zip(outcomes_by_size.items(), outcomes, strict=True):
            for (network, taper), outcome in zip(kinds, line, strict=True):
                if network in wanted:
                    clusters.append(((places[0], places[1][network], gpus, TAPERS.index(taper)), outcome))
    job.kept |= {key: ClusterRows.of(outcomes_by_size[key[-1]]) for key in keys}


def _searched_together(gpu: str, wanted: Sequence[str], catalog: Catalog) -> Iterator[tuple[list[str], int]]:
    """Networks whose clusters are run in the same ways, and on how many of them, the first, these are searched.

    Over sockets the best ways are others: timed in those of RDMA, a cluster would take up to twice as long.
    """
    sockets = [key for key in wanted if catalog.scale_out[key].family in SOCKETS]
    usual = [*usual_networks(gpu, catalog)]
    others = [key for key in wanted if key not in sockets]
    if others:
        yield [*dict.fromkeys((*usual, *others))], len(usual)
    if sockets:
        yield sockets, len(sockets)


def _scenario(plain: Scenario, gpu: str, scale_out: str, gpus: int, taper: float) -> Scenario:
    return scenario_of(plain, (gpu, scale_out, gpus)).model_copy(update={"oversubscription": taper})


# What is asked of it -------------------------------------------------------------------------------------------------


def _judged(question: CloudQuestion, job: _Job, parts: list[ClusterRows], done: int, gpus: int) -> Cloud:
    """Clusters held against the networks and limits that are asked for."""
    every = ClusterRows.joined(parts)
    if question.scale_out:
        networks = [place for place, key in enumerate(job.catalog.scale_out) if key in question.scale_out]
        every = every.where(np.isin(every.rows["scale_out"], networks))
    running = every.where((every.rows["time_to_train"] > 0) & (every.rows[question.budget_kind] > 0))
    figures = {"cost": question.budget_kind}
    keeping = np.ones(len(running), dtype=np.bool_)
    for limit, most in question.limits.items():
        name = FIGURES[limit]
        keeping &= ~(running.rows[figures.get(name, name)] > most)
    meeting = running.where(keeping)
    return Cloud(
        front=front_of([*_spots(meeting.where(_quicker(meeting, question.budget_kind)), question, job)]),
        clusters=running,
        kind=question.budget_kind,
        query=query_of(job.asked),
        meeting=len(meeting),
        considered=len(every),
        done=done,
        gpus=gpus,
    )


def _quicker(clusters: ClusterRows, kind: Kind) -> np.typing.NDArray[np.bool_]:
    """Which are quicker than every cheaper one: none but these can be of the front."""
    time, cost = clusters.rows["time_to_train"], clusters.rows[kind]
    cheapest_first = np.lexsort((time, cost))
    best = np.minimum.accumulate(time[cheapest_first])
    quicker = np.ones(len(clusters), dtype=np.bool_)
    quicker[cheapest_first[1:]] = best[1:] < best[:-1]
    return quicker


def _spots(clusters: ClusterRows, question: CloudQuestion, job: _Job) -> Iterator[Spot]:
    """Clusters of a cloud, each by itself."""
    gpus, networks = [*job.catalog.gpus], [*job.catalog.scale_out]
    for place in range(len(clusters)):
        (gpu, scale_out, count, taper), outcome = clusters.at(place)
        key = gpus[gpu], networks[scale_out], count
        if candidate := judged(question, key, outcome, job.address(*key, TAPERS[taper])):
            yield Spot(**vars(candidate), oversubscription=TAPERS[taper])
