"""Which network: computed by running the same job on the other family, beside the articles' rule of thumb."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from app.catalog.entries import ScaleOut
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas import costs
from app.plan.band import nan_is_an_answer
from app.plan.cluster import Cluster, counterpart, resolve
from app.plan.communication import Communication, communication
from app.plan.job import job as training_job
from app.plan.kept import Kept
from app.plan.network import (
    NETWORKS_KEPT,
    Inputs,
    Network,
    choose_together,
    design_network,
    design_together,
    measure_networks,
    price_networks,
)
from app.plan.prices import PriceList
from app.plan.result import Parallelism, Recommendation
from app.plan.scenario import ClusterRequest, NetworkRequest, PriceRequest, Scenario, another_network, on_network
from app.plan.total_cost import RunCost, TotalCost, run_costs
from app.units import percent

TIE = 0.02
"""Costs closer than this share are called equal: less than any price is known to."""


def recommend(network: Network, fabric: Communication, job: training_job.Job, cost: TotalCost) -> Recommendation | None:
    """Compare the planned network with the other family at the same rate, by owned cost of the run.

    ``None`` where the plan or its rival cannot be computed, or needs no network.
    """
    catalog, planned = network.prices.catalog, network.cluster.scale_out
    rival = _rival(network, job)
    if rival is None:
        return None
    spent, taken = cost.costs.per_run.typical, job.training.time_to_train.typical
    if not (spent > 0 and taken > 0):  # nothing to train, or all of it for nothing
        return None
    other = run_on(rival, network, fabric, job)
    dearer, slower = other.cost.whole / spent - 1, other.time / taken - 1
    if not abs(dearer) < float("inf"):
        return None
    tie = abs(dearer) < TIE
    best = planned if tie or dearer > 0 else rival
    outcome = "The cost of the run does not decide between them" if tie else f"{best.name} is the better buy"
    pace = (
        f"finishes {percent(abs(slower), 1)} {'later' if slower > 0 else 'sooner'} than"
        if abs(slower) >= 5e-4
        else "is as quick as"
    )
    price = f"costs {percent(abs(dearer), 1)} {'more' if dearer > 0 else 'less'} for the run"
    agrees, rule = rule_of_thumb(network.cluster.gpus, best, tie, catalog)
    return Recommendation(
        scale_out=best.key,
        reason=f"{rival.name} {pace} {planned.name} and {price}, each with its own best parallelism. {outcome}.",
        rule_of_thumb=rule,
        agrees=agrees,
        tie=tie,
        rival=rival.key,
        slower=slower,
        dearer=dearer,
        break_even=max(1 + dearer, 1 / (1 + dearer)) - 1,
        **turning_points(*_infiniband_first(Run(planned, taken, cost.owned.typical_run(taken)), other)),
    )


def _rival(network: Network, job: training_job.Job) -> ScaleOut | None:
    """The network that a planned one is held against, where the job may run on both and needs either."""
    needed = job.training.parallelism is not None and network.cluster.nodes >= 2
    return counterpart(network.cluster.scale_out, network.prices.catalog) if needed else None


class Run(NamedTuple):
    """A run on a cluster of one's own with some network: how long it takes typically [s], and what it costs."""

    scale_out: ScaleOut
    time: float
    cost: RunCost


def _infiniband_first(*runs: Run) -> tuple[Run, Run]:
    first, second = sorted(runs, key=lambda run: run.scale_out.family != "infiniband")
    return first, second


def turning_points(infiniband: Run, ethernet: Run) -> dict[str, Any]:
    """At which pace of Ethernet, and which price of InfiniBand's network, the two runs cost the same."""
    (cost, part), (other, _) = infiniband.cost, ethernet.cost
    longer = float(costs.slack_in_time(other / ethernet.time, cost / infiniband.time))
    dearer = float(costs.slack_in_price(cost, other, part)) if part > 0 else None
    names = infiniband.scale_out.name, ethernet.scale_out.name
    pace = f"{names[1]} takes {percent(abs(longer), 1)} {'longer' if longer > 0 else 'less time'} than {names[0]}"
    price = f", or where {names[0]}'s network costs {price_change(dearer)}" if dearer is not None else ""
    return {"slower_allowed": longer, "dearer_allowed": dearer, "turns": f"Both cost the same where {pace}{price}."}


def price_change(change: float) -> str:
    """A change of price: as a share up to double, then as so many times as much.

    >>> price_change(-0.173).replace("\u202f", " "), price_change(7.54)
    ('17.3 % less', '8.5 times as much')
    """
    if change >= 1:
        return f"{1 + change:.1f} times as much"
    return f"{percent(abs(change), 1)} {'more' if change > 0 else 'less'}"


def run_on(scale_out: ScaleOut, planned: Network, fabric: Communication, job: training_job.Job) -> Run:
    """The planned run on another network, with its own load balancing and the parallelism that is best on it."""
    on = scale_out.key, planned, fabric
    return _RUNS.get(job, {}).get(on) or _runs_on([(on, job)])[0]


_On = tuple[str, Network, Communication]
"""The key of another network than a job was planned on, and that."""
_Asked = tuple[_On, training_job.Job]
_RUNS: WeakKeyDictionary[training_job.Job, dict[_On, Run]] = WeakKeyDictionary()
"""The runs on other networks of the jobs that there are: those timed together are found one after the other. A job,
which holds up to half a megabyte, is kept where it was planned, not by its runs."""


def runs_on_rivals(planned: Iterable[tuple[Network, Communication, training_job.Job]]) -> None:
    """Time several planned runs on the networks that each is held against, so that `recommend` finds them."""
    _runs_on(
        [((rival.key, network, fabric), job) for network, fabric, job in planned if (rival := _rival(network, job))]
    )


@nan_is_an_answer
def _runs_on(every: Sequence[_Asked]) -> list[Run]:
    """The same of several runs, whose steps are timed in few calls."""
    others = [(on, job) for on, job in dict.fromkeys(every) if on not in _RUNS.setdefault(job, {})]
    built = [_built(*on) for on, _ in others]
    jobs = [(job, network.cluster, on_it) for (_, job), (on_it, network) in zip(others, built, strict=True)]
    times = training_job.times_on(jobs)
    spent = run_costs([(network, time) for (_, network), time in zip(built, times, strict=True)])
    for (on, job), (_, network), time, cost in zip(others, built, times, spent, strict=True):
        _RUNS[job][on] = Run(network.cluster.scale_out, time, cost)
    return [_RUNS[job][on] for on, job in every]


@lru_cache(maxsize=32)
def _built(scale_out: str, planned: Network, fabric: Communication) -> tuple[Communication, Network]:
    """The planned cluster on another network: what times its transfers, and that network.

    Kept: to look all of it up takes 40 µs, and every job on a cluster is held against the same rival.
    """
    catalog, prices = planned.prices.catalog, planned.prices
    cluster, request = on_another(scale_out, planned.cluster, planned.request, catalog)
    network = design_network(cluster, request, prices)
    on_it = communication(cluster, network, request, fabric.request, catalog, fabric.system.recorded)
    return on_it, network


@lru_cache(maxsize=64)
def on_another(
    scale_out: str, cluster: Cluster, request: NetworkRequest, catalog: Catalog
) -> tuple[Cluster, NetworkRequest]:
    """A cluster on another network, and what is asked of that. Kept: a plan asks twice, 20 µs each."""
    other = request.model_copy(update=another_network(scale_out))
    return resolve(cluster.request, other, catalog), other


_WITH_RIVALS: Kept[Inputs, Network] = Kept(NETWORKS_KEPT)
"""Networks that were chosen last together with those that they are held against: asking again takes 0.1 ms."""


def with_rival(cluster: Cluster, request: NetworkRequest, prices: PriceList) -> Network:
    """The network of a cluster, chosen together with the one that it is held against.

    Choosing two fabrics takes little longer than one.
    """
    asked = cluster, request, prices
    if (network := _WITH_RIVALS.get(asked)) is None:
        rival = counterpart(cluster.scale_out, prices.catalog)
        others = [on_another(rival.key, cluster, request, prices.catalog)] if rival else []
        choose_together([(cluster, request), *others], prices)
        _WITH_RIVALS.add(asked, network := design_network(*asked))
    return network


@nan_is_an_answer
def design_with_rivals(scenarios: Iterable[Scenario], catalog: Catalog) -> None:
    """Design the fabrics of several scenarios at once, each with its rival's and with what may be advised in its place:
    the plan of each finds them made.

    Of eight that differ it takes less than half the time of one after the other.
    """
    different = {
        (each.part(ClusterRequest), each.part(NetworkRequest), each.part(PriceRequest)): each for each in scenarios
    }
    if len(different) > 1:
        every = *different.values(), *_rivals(different.values(), catalog)
        designed = design_together(every, catalog, advised=len(different))
        networks = [design_network(*each) for each in designed]
        for asked, network in zip(designed[: len(different)], networks, strict=False):
            _WITH_RIVALS.add(asked, network)
        price_networks(networks[: len(different)], DRAWS)
        measure_networks(networks[: len(different)], catalog)
        price_networks(networks[len(different) :], TYPICAL)


def _rivals(scenarios: Iterable[Scenario], catalog: Catalog) -> Iterator[Scenario]:
    """The scenarios that train on the networks that they are held against."""
    for scenario in scenarios:
        rival = counterpart(catalog.scale_out[scenario.scale_out], catalog)
        if rival and scenario.workload == "training":
            yield on_network(scenario, rival.key)


def degrees(parallelism: Parallelism) -> dict[str, object]:
    """Chosen parallelism as scenario fields, so that another plan runs the same way."""
    return {name: value for name, value in vars(parallelism).items() if name in Scenario.model_fields}


ADVICE = {
    "either": "Under {few:,.0f} GPUs either network does.",
    "infiniband": "Over {many:,.0f} GPUs: InfiniBand NDR.",
    "goal": "Between: InfiniBand for the most performance, 400G Ethernet with RoCE for the budget.",
}
"""What the articles say of a size."""


def advised(gpus: int, catalog: Catalog) -> str:
    """The articles' advice for a size: a key of `ADVICE`."""
    limits = catalog.operations["rule_of_thumb"]
    if gpus < limits["either_below"].typical:
        return "either"
    return "infiniband" if gpus > limits["infiniband_above"].typical else "goal"


def rule_of_thumb(gpus: int, best: ScaleOut, tie: bool, catalog: Catalog) -> tuple[bool, str]:
    """Whether the computed choice agrees with the articles, and what they say."""
    limits = catalog.operations["rule_of_thumb"]
    few, many = limits["either_below"].typical, limits["infiniband_above"].typical
    advice = advised(gpus, catalog)
    return advice != "infiniband" or tie or best.family == "infiniband", ADVICE[advice].format(few=few, many=many)
