"""The plan in sentences."""

from collections.abc import Mapping

from app.catalog.load import Catalog
from app.plan.band import with_range
from app.plan.cluster import Cluster
from app.plan.job.shape import model_name
from app.plan.result import Bottleneck, Plan
from app.plan.scenario import ModelRequest
from app.units import percent, show

LIMITS = {
    "compute": "Compute limits it",
    "memory_bandwidth": "Memory bandwidth limits it",
    "scale_up": "The scale-up link limits it",
    "scale_out": "The network limits it",
    "bubble": "The pipeline's idle time limits it",
    "overhead": "Overheads limit it",
}
TAKES = {
    "compute": "Compute takes",
    "memory_bandwidth": "Memory bandwidth takes",
    "scale_up": "The scale-up link takes",
    "scale_out": "The network takes",
    "bubble": "The pipeline's idle time takes",
    "overhead": "Overheads take",
}
BETTER = {
    "compute": "GPUs that compute twice as quickly",
    "memory_bandwidth": "memory twice as quick",
    "bubble": "a pipeline idle half as long",
    "overhead": "overheads half as long",
}
"""What is no network, made better as what-ifs have it."""
NOTED = 0.01
"""Saving of time beyond the bottleneck's own from which another resource is named [1]."""


def verdict(plan: Plan, cluster: Cluster, request: ModelRequest, catalog: Catalog) -> str:
    """One or two sentences a director repeats in a meeting."""
    costs, bottleneck = plan.costs, plan.bottleneck
    model = model_name(request, catalog)
    network = _network(cluster)
    gpus = f"{cluster.gpus:,} {cluster.gpu.name}{network}"
    time = plan.training.time_to_train
    if plan.fabric.shape is None and cluster.nodes > 1 and cluster.nics_per_node > 0:
        return f"{gpus} cannot be joined as asked; the findings say what to change."
    if time is None:
        return f"{gpus} cannot train {model} as asked; the findings say what to change."
    days = with_range(time)
    campaign = plan.training.campaign_time
    calendar = f", {with_range(campaign)} by the calendar" if campaign else ""
    moneys = ((costs.capital, "to buy"), (costs.per_run, "for this run"), (costs.rental, "rented"))
    prices = ", ".join(f"{with_range(band)} {how}" for band, how in moneys if band)
    price = f" {prices}." if prices else ""
    first = f"{gpus} train {model} on {show(request.training_tokens, '1')} tokens in about {days}{calendar}.{price}"
    if bottleneck.resource is None:
        return first
    networks = _network_names(cluster)
    if _waits_for_latency(plan):
        what = f"{LIMITS[bottleneck.resource]}, its latency more than its bandwidth; {_networks(bottleneck, networks)}"
    else:
        what = _saves_more(bottleneck, networks) or f"{LIMITS[bottleneck.resource]}; {_networks(bottleneck, networks)}"
    return f"{first} {what}"


def _network(cluster: Cluster) -> str:
    """What joins the nodes, in words."""
    if cluster.nodes < 2:
        return ""
    return f" on {cluster.scale_out.name}" if cluster.nics_per_node > 0 else " without network cards"


def _waits_for_latency(plan: Plan) -> bool:
    """Whether the bottleneck is a network of which lower latency would save more than bandwidth.

    What is saved where overheads are better, beyond the overheads themselves, is latency.
    """
    resource, what_if = plan.bottleneck.resource, {entry.resource: entry for entry in plan.bottleneck.what_if}
    step = plan.training.step_time
    if resource not in ("scale_up", "scale_out") or not step:
        return False
    overhead = sum(part.time.typical for part in plan.training.parts if part.resource == "overhead" and part.time)
    better = what_if["overhead"]
    latency = (better.gain or 0.0) - overhead / step.typical * (1 - 1 / better.factor)
    return latency > (what_if[resource].gain or 0.0)


def _saves_more(bottleneck: Bottleneck, networks: Mapping[str, str]) -> str:
    """That something else than what takes most of the step would save more: it is hidden less. Blank where nothing."""
    gains = {entry.resource: entry.gain or 0.0 for entry in bottleneck.what_if}
    resource, best = bottleneck.resource, max(gains, key=lambda each: gains[each], default=None)
    if resource is None or best is None or not bottleneck.share:
        return ""
    gain = gains.get(resource, 0.0)
    if gains[best] < gain + NOTED:
        return ""
    most = f"{TAKES[resource]} the most of the step, {percent(bottleneck.share)}"
    better = BETTER.get(best) or f"{networks[best]} twice as quick"
    return f"{most}; {better} would save more of it: {percent(gains[best])}, against {percent(gain)}."


def _network_names(cluster: Cluster) -> dict[str, str]:
    """The two networks in words, by their resource."""
    link = cluster.scale_up
    parted = link.wiring == "bridge" and link.largest_domain < cluster.gpus_per_node
    return {
        "scale_up": f"{link.name}, with the bus beyond it," if parted else link.name,
        "scale_out": cluster.scale_out.name,
    }


def _networks(bottleneck: Bottleneck, names: Mapping[str, str]) -> str:
    """Which of the two networks comes first, and what doubling it would save."""
    gains = {entry.resource: entry.gain or 0.0 for entry in bottleneck.what_if if entry.resource in names}
    if not gains or max(gains.values()) < 0.005:
        return "doubling a network would save less than 1\u202f%."
    first = max(gains, key=lambda resource: gains[resource])
    return f"of the networks {names[first]} comes first: doubling it would save {percent(gains[first])}."
