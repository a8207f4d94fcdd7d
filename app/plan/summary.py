"""The plan in sentences."""

from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.cluster import Cluster
from app.plan.job.shape import model_name
from app.plan.result import Bottleneck, Plan
from app.plan.scenario import ModelRequest
from app.units import percent, show, show_range

LIMITS = {
    "compute": "Compute limits it",
    "memory_bandwidth": "Memory bandwidth limits it",
    "scale_up": "The scale-up link limits it",
    "scale_out": "The network limits it",
    "bubble": "The pipeline's idle time limits it",
    "overhead": "Overheads limit it",
}


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
    days = _shown(time)
    campaign = plan.training.campaign_time
    calendar = f", {_shown(campaign)} by the calendar" if campaign else ""
    moneys = ((costs.capital, "to buy"), (costs.per_run, "for this run"), (costs.rental, "rented"))
    prices = ", ".join(f"{_shown(band)} {how}" for band, how in moneys if band)
    price = f" {prices}." if prices else ""
    first = f"{gpus} train {model} on {show(request.training_tokens, '1')} tokens in about {days}{calendar}.{price}"
    if bottleneck.resource is None:
        return first
    latency = ", its latency more than its bandwidth" if _waits_for_latency(plan) else ""
    return f"{first} {LIMITS[bottleneck.resource]}{latency}; {_networks(bottleneck, cluster)}"


def _network(cluster: Cluster) -> str:
    """What joins the nodes, in words."""
    if cluster.nodes < 2:
        return ""
    return f" on {cluster.scale_out.name}" if cluster.nics_per_node > 0 else " without network cards"


def _shown(band: Band) -> str:
    return show_range(band.low, band.typical, band.high, band.unit)


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


def _networks(bottleneck: Bottleneck, cluster: Cluster) -> str:
    """Which of the two networks comes first, and what doubling it would save."""
    link = cluster.scale_up
    parted = link.wiring == "bridge" and link.largest_domain < cluster.gpus_per_node
    names = {
        "scale_up": f"{link.name}, with the bus beyond it," if parted else link.name,
        "scale_out": cluster.scale_out.name,
    }
    gains = {entry.resource: entry.gain or 0.0 for entry in bottleneck.what_if if entry.resource in names}
    if not gains or max(gains.values()) < 0.005:
        return "doubling a network would save less than 1\u202f%."
    first = max(gains, key=lambda resource: gains[resource])
    return f"of the networks {names[first]} comes first: doubling it would save {percent(gains[first])}."
