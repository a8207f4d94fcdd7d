"""The drafts of a plan, before its results are folded to bands: what a plan, its rivals and a search all need."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.catalog.load import Catalog
from app.plan import network as compute_network
from app.plan import total_cost
from app.plan.band import Draws
from app.plan.cluster import Hardware
from app.plan.job import job as training_job
from app.plan.result import Finding
from app.plan.scenario import Scenario, check_keys

nan_is_an_answer = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")
"""Outside a formula's range the result is NaN or infinite, which is no error here: it becomes ``None``."""


@dataclass(frozen=True)
class Outline:
    hardware: Hardware
    network: compute_network.FabricDraft
    job: training_job.TrainingDraft
    money: total_cost.CostsDraft

    @property
    @nan_is_an_answer
    def findings(self) -> tuple[Finding, ...]:
        """What the drafts found."""
        return self.network.findings + self.job.findings + self.money.findings

    def typical(self, name: str) -> float:
        """The typical value of one result, by its name on the wire; NaN where it cannot be computed."""
        part = name.partition(".")[0]
        quantities: Mapping[str, Draws]
        if part == "fabric":
            quantities = self.network.quantities
        else:
            quantities = self.money.quantities if part in ("cluster", "costs") else self.job.quantities
        return float(quantities[name].values.flat[0])


@nan_is_an_answer
def outline(scenario: Scenario, catalog: Catalog) -> Outline:
    """Size the fabric, run the model on it, price it."""
    check_keys(scenario, catalog)
    network = compute_network.draft(scenario, catalog)
    hardware = network.hardware
    job = training_job.draft(hardware, scenario, catalog, taper=network.taper, hops=network.hops)
    money = total_cost.draft(hardware, scenario, catalog, fabric=network, time_to_train=job.time_to_train)
    return Outline(hardware, network, job, money)
