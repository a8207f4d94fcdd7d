"""The place where hardware and maths meet: a scenario and the catalogue in, one frozen plan, or a part of one, out."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from math import isfinite, isnan
from typing import Any, NamedTuple

from app import __version__
from app.catalog.load import Catalog
from app.formulas.records import but
from app.plan import result, summary
from app.plan.all_reduce import Reduction, time_all_reduce, time_all_reduces, with_alternatives
from app.plan.all_reduce import explanations as explain_reduction
from app.plan.band import Draws, fold, nan_is_an_answer
from app.plan.cluster import resolve
from app.plan.communication import Communication, communication
from app.plan.findings import OF_TRANSFERS, by_severity
from app.plan.job import job as training_job
from app.plan.job import no_job, shape
from app.plan.job.inputs import JobRequest
from app.plan.job.job_findings import held_by
from app.plan.job.storage import capacity_findings, network_findings
from app.plan.kept import Kept
from app.plan.long_parts import EVERYTHING, SOURCES, STORAGE
from app.plan.network import Network, design_network, fabric_of, network_of
from app.plan.network import explain as explain_network
from app.plan.older_generation import older_is_quicker
from app.plan.prices import PriceList
from app.plan.question_findings import load_left_out, of_question
from app.plan.recommendation import design_with_rivals, recommend, runs_on_rivals, with_rival
from app.plan.result import (
    AllReduce,
    AllReducePlan,
    Bottleneck,
    Costs,
    Explanation,
    Fabric,
    Finding,
    Memory,
    NetworkPlan,
    Plan,
    Storage,
    Training,
)
from app.plan.scenario import (
    ClusterRequest,
    CollectiveRequest,
    ModelRequest,
    NetworkRequest,
    OperationRequest,
    PriceRequest,
    Scenario,
    check_keys,
)
from app.plan.serving.evaluate_serving import chosen, serve, verdict
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving_result import Serving
from app.plan.total_cost import Ownership, cluster_of, own_together, ownership, total_cost
from app.plan.total_cost import explain as explain_cost


def evaluate(scenario: Scenario, catalog: Catalog, include: Collection[str] = EVERYTHING) -> Plan:
    """Answer one scenario: size the fabric, run the model on it, time the reduction, price it all.

    What cannot be built or run is a finding, and the numbers it affects are ``None``.

    Args:
        scenario: the question.
        catalog: the catalogue.
        include: which `LONG_PARTS` are made, or `STORAGE` alone of the details, and whether bands say their sources;
            what is left out is empty.
    """
    return evaluate_with_draws(scenario, catalog, include)[0]


@dataclass(frozen=True)
class DrawnPlan:
    """The results of a plan as draws, its parts named as in the plan."""

    owned: Ownership
    all_reduce: AllReduce[Draws]
    costs: Costs[Draws]
    training: Training[Draws] | None = None
    memory: Memory[Draws] | None = None
    storage: Storage[Draws] | None = None
    bottleneck: Bottleneck[Draws] | None = None
    serving: Serving[Draws] | None = None

    @cached_property
    def cluster(self) -> result.Cluster[Draws]:
        """The cluster."""
        return cluster_of(self.owned)

    @cached_property
    def fabric(self) -> Fabric[Draws]:
        """Its network."""
        return fabric_of(self.owned.network, self.owned.capital)


@nan_is_an_answer
def evaluate_with_draws(
    scenario: Scenario, catalog: Catalog, include: Collection[str] = EVERYTHING
) -> tuple[Plan, DrawnPlan]:
    """The same, with the draws that its ranges were folded from: for what is asked of two plans at once."""
    stages = _PREPARED.pop((id(scenario), id(catalog)), None) or _stages([scenario], catalog)[0]
    if scenario.workload == "serving":
        return _serving(stages, catalog, include)
    return _training(stages, catalog, include)


class _Stages(NamedTuple):
    """What a plan is made of as far as several are worked out at once: its network, what times transfers on it, and the
    reduction of its message; of one that is prepared the job, too.
    """

    scenario: Scenario
    network: Network
    fabric: Communication
    reduction: Reduction
    job: training_job.Job | None = None


_PREPARED: Kept[tuple[int, int], _Stages] = Kept(32)
"""What was prepared last, by the very scenario and catalogue, which it holds, until their plan is asked for."""


def _communicating(scenario: Scenario, catalog: Catalog) -> tuple[Network, Communication, float]:
    """The network of a scenario, what times transfers on it, and the message that is reduced [B]."""
    check_keys(scenario, catalog)
    prices = PriceList.of(scenario.part(PriceRequest), catalog)
    cluster = resolve(scenario.part(ClusterRequest), scenario.part(NetworkRequest), catalog)
    design = design_network if scenario.workload == "serving" else with_rival
    network = design(cluster, scenario.part(NetworkRequest), prices)
    requests = scenario.part(NetworkRequest), scenario.part(CollectiveRequest)
    fabric = communication(cluster, network, *requests, catalog, scenario.recorded)
    return network, fabric, scenario.message or shape.usual_message(scenario.part(ModelRequest), catalog)


def prepare_together(scenarios: Sequence[Scenario], catalog: Catalog) -> None:
    """Work out at once what takes several plans of training little longer than one: the plan of each finds its fabrics
    designed, its message timed, its job planned and run on the network that it is held against.
    """
    for _ in preparation(scenarios, catalog):
        pass


def preparation(scenarios: Sequence[Scenario], catalog: Catalog) -> Iterator[None]:
    """The same in steps, between which others may be answered."""
    design_with_rivals(scenarios, catalog)
    yield
    stages = _stages(scenarios, catalog)
    own_together([(each.network, each.network.prices) for each in stages])
    yield
    training = [each for each in stages if each.scenario.workload == "training"]
    jobs = _jobs(training, catalog, training_job.WAYS)
    yield
    runs_on_rivals((each.network, each.fabric, job) for each, job in zip(training, jobs, strict=True))
    for each, job in zip(training, jobs, strict=True):
        _PREPARED.add((id(each.scenario), id(catalog)), each._replace(job=job))


@nan_is_an_answer
def _stages(scenarios: Sequence[Scenario], catalog: Catalog) -> list[_Stages]:
    """The networks of some scenarios, and the reductions of their messages, which are timed at once."""
    joined = [_communicating(scenario, catalog) for scenario in scenarios]
    reductions = time_all_reduces([(fabric, message) for _, fabric, message in joined])
    return [
        _Stages(scenario, network, fabric, reduction)
        for scenario, (network, fabric, _), reduction in zip(scenarios, joined, reductions, strict=True)
    ]


@nan_is_an_answer
def _jobs(every: Sequence[_Stages], catalog: Catalog, quickest: int | None) -> list[training_job.Job]:
    """Their jobs, which are planned at once."""
    asked = [
        training_job.AskedJob(network.cluster, fabric, JobRequest.of(scenario, catalog), network.storage_rate)
        for scenario, network, fabric, *_ in every
    ]
    return training_job.plan_jobs(asked, catalog, quickest)


def _training(stages: _Stages, catalog: Catalog, include: Collection[str]) -> tuple[Plan, DrawnPlan]:
    """The plan of a cluster that trains."""
    scenario, network, fabric, reduction, job = stages
    cluster = network.cluster
    quickest = training_job.WAYS if {"alternatives", "cloud"}.isdisjoint(include) else None
    if job is None or quickest is None:
        (job,) = _jobs([stages], catalog, quickest)
    if network.unbuildable:
        job = job.unfinished()
    cost = total_cost(network, network.prices, job.training.time_to_train.values)
    training = but(
        job.training,
        alternatives=training_job.alternatives(job) if "alternatives" in include else (),
        cloud=training_job.configurations(job) if "cloud" in include else (),
        groups=training_job.groups(job) if "details" in include else (),
    )
    of_network, of_cost = chain(network.findings, older_is_quicker(network)), held_by(job.setup, cost.findings)
    storage: Storage[Any] = no_job.STORAGE if {"details", STORAGE}.isdisjoint(include) else job.storage
    parts = training, job.memory, storage, job.bottleneck, _erring(cost.costs, job)
    drawn = DrawnPlan(cost.owned, _reduced(reduction, "alternatives" in include), parts[-1], *parts[:-1])
    shared = _of_hardware(cost.owned, _not_made(include)), _of_reduction(reduction, "alternatives" in include)
    folded, (of_cluster, of_fabric), reduced = _folded(parts, *shared, sourced=SOURCES in include)
    training, memory, storage, bottleneck, costs = folded
    plan = Plan(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=_filled(scenario, network, job, reduction.all_reduce.message),
        findings=by_severity(
            chain(
                of_question(cluster, scenario, catalog),
                load_left_out(scenario),
                of_network,
                job.findings,
                reduction.findings,
                of_cost,
                _of_storage(job, network, scenario),
            )
        ),
        permalink="/?" + scenario.query(catalog_version=catalog.version),
        verdict="",
        cluster=of_cluster,
        fabric=of_fabric,
        all_reduce=reduced,
        training=training,
        memory=memory,
        storage=storage,
        bottleneck=bottleneck,
        costs=costs,
        recommendation=recommend(network, fabric, job, cost),
        explanations=_told(
            explain_network(network),
            training_job.explanations(job),
            explain_reduction(reduction),
            explain_cost(cost),
        )
        if "explanations" in include
        else {},
    )
    return but(plan, verdict=summary.verdict(plan, cluster, scenario.part(ModelRequest), catalog)), drawn


def _of_storage(job: training_job.Job, network: Network, scenario: Scenario) -> Iterator[Finding]:
    """What is wrong with the storage, where any is bought or joined: what the run asks of it is not asked else."""
    if scenario.storage_capacity is not None or scenario.storage_network:
        yield from capacity_findings(job.storage, scenario.storage_capacity, isfinite(network.storage_rate))
        yield from network_findings(job.storage, network.storage_rate, scenario.part(OperationRequest))


def _serving(stages: _Stages, catalog: Catalog, include: Collection[str]) -> tuple[Plan, DrawnPlan]:
    """The plan of a cluster that serves: of a training step it says nothing."""
    scenario, network, _, reduction, _ = stages
    cluster = network.cluster
    cost = total_cost(network, network.prices, no_job.NO_TIME)
    served = serve(scenario, network, cost.owned, catalog)
    parts = network, reduction, cost, served
    shared = _of_hardware(cost.owned, _not_made(include)), _of_reduction(reduction, "alternatives" in include)
    folded, (of_cluster, of_fabric), reduced = _folded(
        (cost.costs, served.serving), *shared, sourced=SOURCES in include
    )
    costs, serving = folded
    findings = by_severity(
        chain(of_question(cluster, scenario, catalog), *(part.findings for part in parts), older_is_quicker(network))
    )
    told = explain_network(network), explain_reduction(reduction), explain_cost(cost)
    plan = Plan(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=scenario.filled({**cluster.fields(), **network.fields(), **chosen(served.plan)}),
        findings=findings,
        permalink="/serve?" + ServingQuestion.of(scenario).query(catalog_version=catalog.version),
        verdict=verdict(serving, findings, served.plan, catalog),
        cluster=of_cluster,
        fabric=of_fabric,
        all_reduce=reduced,
        training=no_job.TRAINING,
        memory=no_job.MEMORY,
        storage=no_job.STORAGE,
        bottleneck=no_job.BOTTLENECK,
        costs=costs,
        recommendation=None,
        explanations=_told(*told) if "explanations" in include else {},
        serving=serving,
    )
    drawn = _reduced(reduction, "alternatives" in include)
    return plan, DrawnPlan(cost.owned, drawn, cost.costs, serving=served.serving)


def _told(*explained: Mapping[str, Explanation]) -> dict[str, Explanation]:
    """How the figures came about: those that there are, whose formulas have no gap."""
    every = chain.from_iterable(part.items() for part in explained)
    return {
        name: explanation for name, explanation in every if not any(isnan(term.value) for term in explanation.terms)
    }


def _erring(costs: Costs[Draws], job: training_job.Job) -> Costs[Draws]:
    """Costs whose run is as uncertain as the time that it takes."""
    error = job.training.time_to_train.residual
    of_the_run = ("per_run", "rental", "carbon_per_run")
    return but(costs, **{name: getattr(costs, name)._replace(residual=error) for name in of_the_run})


@nan_is_an_answer
def evaluate_network(scenario: Scenario, catalog: Catalog, explained: bool = True) -> NetworkPlan:
    """The network of one scenario alone: sized, priced, held against the capital of its cluster, and how if wished."""
    network = network_of(scenario, catalog)
    cluster = network.cluster
    _, (of_cluster, of_fabric) = _folded((), _of_hardware(ownership(network, network.prices)))
    return NetworkPlan(
        scenario=scenario.filled({**cluster.fields(), **network.fields()}),
        findings=by_severity((*of_question(cluster, scenario, catalog), *network.findings, *older_is_quicker(network))),
        cluster=of_cluster,
        fabric=of_fabric,
        explanations=explain_network(network) if explained else {},
    )


@nan_is_an_answer
def evaluate_all_reduce(scenario: Scenario, catalog: Catalog, explained: bool = True) -> AllReducePlan:
    """The reduction of one scenario alone, of its message or of a bucket of gradients, and how it comes about."""
    network = network_of(scenario, catalog)
    cluster = network.cluster
    request = scenario.part(CollectiveRequest)
    fabric = communication(cluster, network, network.request, request, catalog, scenario.recorded)
    reduction = time_all_reduce(fabric, scenario.message or shape.usual_message(scenario.part(ModelRequest), catalog))
    _, reduced = _folded((), _of_reduction(reduction, True))
    return AllReducePlan(
        scenario=scenario.filled({**cluster.fields(), **network.fields()}) | {"message": reduction.all_reduce.message},
        findings=by_severity(
            (
                *of_question(cluster, scenario, catalog),
                *(finding for finding in network.findings if finding.code in OF_TRANSFERS),
                *reduction.findings,
            )
        ),
        all_reduce=reduced,
        explanations=explain_reduction(reduction) if explained else {},
    )


LISTS = {"bill_of_materials": "bill_of_materials", "slot": "details"}
"""Lists of a cluster or its network, each with the long part that it belongs to."""


def _not_made(include: Collection[str]) -> frozenset[str]:
    """The lists that a plan does without."""
    return frozenset(name for name, part in LISTS.items() if part not in include)


class _Shared(NamedTuple):
    """A part of plans that jobs have in common: where it is kept with bands, by what, and how its draws are made."""

    kept: Kept[Any, Any]
    key: tuple[Any, ...]
    drawn: Callable[[], Any]


_HARDWARE: Kept[tuple[bool, Ownership, frozenset[str]], Any] = Kept(32)
"""Clusters and their networks: half of all that is folded, and every job on a cluster shares it."""
_REDUCTIONS: Kept[tuple[bool, Reduction, bool], Any] = Kept(32)
"""All-reduces, which every job that exchanges as many bytes on a cluster shares."""


def _of_hardware(owned: Ownership, without: frozenset[str] = frozenset()) -> _Shared:
    """What a plan says of a cluster and its network, whatever runs on them, without some lists."""

    def drawn() -> tuple[result.Cluster[Draws], Fabric[Draws]]:
        return cluster_of(owned, without), fabric_of(owned.network, owned.capital, without)

    return _Shared(_HARDWARE, (owned, without), drawn)


def _of_reduction(reduction: Reduction, alternatives: bool) -> _Shared:
    """The all-reduce."""
    return _Shared(_REDUCTIONS, (reduction, alternatives), partial(_reduced, reduction, alternatives))


def _folded(parts: tuple[Any, ...], *shared: _Shared, sourced: bool = True) -> list[Any]:
    """Parts of a plan with bands, and then what others share, in one sort: three take a quarter longer."""
    drawn = [each.kept.get((sourced, *each.key)) or each.drawn() for each in shared]
    folded, *common = fold((parts, *drawn), sourced)
    for each, it in zip(shared, common, strict=True):
        each.kept.add((sourced, *each.key), it)
    return [folded, *common]


def _reduced(reduction: Reduction, alternatives: bool) -> AllReduce[Draws]:
    """The all-reduce as draws."""
    return with_alternatives(reduction) if alternatives else reduction.all_reduce


def _filled(scenario: Scenario, network: Network, job: training_job.Job, message: float) -> dict[str, Any]:
    """Every field of the scenario, with what the plan filled in for the blanks."""
    return scenario.filled(
        {
            **network.cluster.fields(),
            **network.fields(),
            "message": message,
            "global_batch": job.setup.request.batch,
            **job.shape_fields,
            **(vars(job.training.parallelism) if job.training.parallelism else {}),
        }
    )
