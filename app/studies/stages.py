"""The stages of one plan up to its costs, without ranges: what studies that ask many plans read results of."""

from dataclasses import dataclass
from functools import lru_cache

from app.catalog.load import Catalog
from app.plan import result
from app.plan.band import Draws
from app.plan.job import job as training_job
from app.plan.network import fabric_of, network_of
from app.plan.result import Bottleneck, Costs, Fabric, Finding, Memory, Training
from app.plan.scenario import Scenario
from app.plan.total_cost import Ownership, cluster_of, total_cost


@dataclass(frozen=True)
class Stages:
    """Parts of a plan, named as in the plan: all but the all-reduce; and what was found on the way."""

    cluster: result.Cluster[Draws]
    fabric: Fabric[Draws]
    training: Training[Draws]
    memory: Memory[Draws]
    bottleneck: Bottleneck[Draws]
    costs: Costs[Draws]
    findings: tuple[Finding, ...]


def stages(scenario: Scenario, catalog: Catalog) -> Stages:
    """Network, job and costs of a scenario."""
    network = network_of(scenario, catalog)
    job = training_job.job_on(network, scenario, catalog)
    if network.unbuildable:
        job = job.unfinished()
    cost = total_cost(network, network.prices, job.training.time_to_train.values)
    cluster, fabric = _hardware(cost.owned)
    return Stages(
        cluster=cluster,
        fabric=fabric,
        training=job.training,
        memory=job.memory,
        bottleneck=job.bottleneck,
        costs=cost.costs,
        findings=(*network.findings, *job.findings, *cost.findings),
    )


@lru_cache(maxsize=8)
def _hardware(owned: Ownership) -> tuple[result.Cluster[Draws], Fabric[Draws]]:
    """The cluster and its network. Kept: it takes 0.8 ms, and every job on a cluster shares it."""
    return cluster_of(owned), fabric_of(owned.network, owned.capital)
