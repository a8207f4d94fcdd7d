"""The place where hardware and maths meet: a scenario and the catalogue in, one frozen plan out."""

from typing import Any

from app import __version__
from app.catalog.load import Catalog
from app.plan import all_reduce, findings, network, summary
from app.plan.band import Draws, fold
from app.plan.cluster import Hardware
from app.plan.communication import communication
from app.plan.job import job
from app.plan.outline import nan_is_an_answer, outline
from app.plan.recommendation import recommend
from app.plan.result import Explanation, Finding, Plan
from app.plan.scenario import CollectiveRequest, NetworkRequest, Scenario

SEVERITIES = ("error", "warning", "note")


@nan_is_an_answer
def evaluate(scenario: Scenario, catalog: Catalog) -> Plan:
    """Answer one scenario: size the fabric, run the model on it, time the reduction, price it all.

    What cannot be built or run is a finding, and the numbers it affects are ``None``.
    """
    own = outline(scenario, catalog)
    hardware, network, job, money = own.hardware, own.network, own.job, own.money
    message = scenario.message or job.gradient_bytes
    requests = scenario.part(NetworkRequest), scenario.part(CollectiveRequest)
    fabric = communication(hardware, network, *requests, catalog)
    reduction = all_reduce.time_all_reduce(fabric, message)
    drafts = (network, job, money)

    quantities: dict[str, Draws] = {}
    found: list[Finding] = list(findings.of_hardware(hardware, scenario, catalog))
    explanations: dict[str, Explanation] = {}
    for draft in drafts:
        quantities |= draft.quantities
        found += draft.findings
        explanations |= draft.explanations
    found += reduction.findings
    explanations |= all_reduce.explanations(reduction)
    bands, reduced = fold((quantities, reduction.all_reduce))

    cluster, priced = money.cluster_part(bands), money.part(bands)
    trained, bottleneck = job.training_part(bands), job.bottleneck_part(bands)
    return Plan(
        model_version=__version__,
        catalog_version=catalog.version,
        scenario=resolved(scenario, hardware, network, job, message),
        findings=tuple(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))),
        permalink="/?" + scenario.query(catalog_version=catalog.version),
        verdict=summary.verdict(scenario, hardware, catalog, trained, bottleneck, priced),
        cluster=cluster,
        fabric=network.part(bands),
        all_reduce=reduced,
        training=trained,
        memory=job.memory_part(bands),
        bottleneck=bottleneck,
        costs=priced,
        recommendation=recommend(scenario, catalog, own),
        explanations=explanations,
    )


def resolved(
    scenario: Scenario, hardware: Hardware, network: network.FabricDraft, job: job.TrainingDraft, message: float
) -> dict[str, Any]:
    """Every field of the scenario, with what the plan filled in for the blanks."""
    filled: dict[str, Any] = {
        **hardware.fields(),
        "switch": network.switch,
        "tiers": network.tiers,
        "nodes_per_unit": network.nodes_per_unit,
        "message": message,
        "availability": job.availability,
        **job.shape_fields,
    }
    if job.parallelism:
        filled |= {name: value for name, value in vars(job.parallelism).items() if name in Scenario.model_fields}
    return scenario.filled(filled)
