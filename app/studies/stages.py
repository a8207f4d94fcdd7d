"""The stages of one plan up to its costs, without ranges: what studies that ask many plans read results of."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.plan import result
from app.plan.band import Draws
from app.plan.job import job as training_job
from app.plan.network import fabric_of, network_of
from app.plan.result import Bottleneck, Costs, Fabric, Finding, Memory, Training
from app.plan.scenario import Scenario
from app.plan.total_cost import cluster_of, total_cost


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


def stages(
    scenario: Scenario, catalog: Catalog, prices: Mapping[str, NDArray[np.float64]] = MappingProxyType({})
) -> Stages:
    """Network, job and costs of a scenario; with columns of prices, `OF_NO_DESIGN`, those of each of them in turn."""
    network = network_of(scenario, catalog)
    job = training_job.job_on(network, scenario, catalog)
    listed = network.prices.columns(prices) if prices else network.prices
    cost = total_cost(network.cluster, network, listed, job.training.time_to_train.values)
    return Stages(
        cluster=cluster_of(cost.owned),
        fabric=fabric_of(network, cost.costs.capital),
        training=job.training,
        memory=job.memory,
        bottleneck=job.bottleneck,
        costs=cost.costs,
        findings=(*network.findings, *job.findings, *cost.findings),
    )
