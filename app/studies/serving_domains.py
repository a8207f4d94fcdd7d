"""The same load on other scale-up domains and other networks: what each gives, and at which speeds a rack pays."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import numpy as np

from app.catalog.entries import Gpu
from app.catalog.load import Catalog
from app.formulas.arrays import typical_of
from app.formulas.costs import per_gpu_time
from app.formulas.serving.token_costs import cost_of_tokens
from app.plan.band import nan_is_an_answer, record, result
from app.plan.cluster import counterpart
from app.plan.network import network_of
from app.plan.scenario import Scenario, another_network
from app.plan.serving.serving_breakdown import evaluate_operation, front_of, layout_result
from app.plan.serving.serving_inputs import setting
from app.plan.serving.serving_plan import plan_serving
from app.plan.serving_result import ServingLayout, ServingPoint
from app.plan.total_cost import ownership
from app.studies.stretches import stretches
from app.units import parse

MILLION = parse("1M", "1")


@record
class ServingVariant:
    """What one cluster serves under the question's load and limits, by typical values; null where it keeps none."""

    gpu: str = result("", "GPU", "Key of the GPU.")
    scale_out: str = result("", "Network", "Key of the network.")
    scale_up_domain: int = result("1", "Scale-up domain", "GPUs that reach one another over the scale-up link.")
    gpus: int = result("1", "GPUs", "GPUs of the cluster.")
    parallelism: ServingLayout | None = result("", "Parallelism", "How a replica spreads over its GPUs.")
    mode: str = result("", "Pools", "aggregated or disaggregated; blank where nothing is served.")
    throughput: float | None = result("1/s", "Output tokens a second of a GPU", "Tokens of answers.")
    interactivity: float | None = result("1/s", "Tokens a second of a user", "One over the time per token.")
    ttft: float | None = result("s", "Time to first token", "Mean.", formula="serving.steady_state")
    per_million_output_tokens: float | None = result(
        "USD", "Cost of a million output tokens", "Owned.", formula="serving.cost_of_tokens"
    )
    front: tuple[ServingPoint, ...] = result("", "Front", "Throughput against speed of a user, fastest first.")
    query: str = result("", "Query", "Its question as a query string.")


@record
class Speeds:
    """A stretch of speeds of a user."""

    above: float | None = result("1/s", "Above", "Tokens a second of a user; null from the slowest on.")
    below: float | None = result("1/s", "Below", "Tokens a second of a user; null up to the quickest.")


@record
class ServingDomains:
    """The question's cluster first, then others beside it."""

    domains: tuple[ServingVariant, ...] = result("", "Domains", "Nodes and racks of GPUs over which domains reach.")
    networks: tuple[ServingVariant, ...] = result("", "Networks", "The same GPUs on other networks.")
    rack_pays: tuple[Speeds, ...] = result(
        "", "Where the rack pays", "Speeds of a user at which tokens cost less in the larger domain, the slowest first."
    )


@nan_is_an_answer
def serving_domains(scenario: Scenario, catalog: Catalog) -> ServingDomains:
    """The question on nodes and on racks, and on other networks."""
    catalog = catalog.typical_only()
    domains = tuple(variant(scenario.model_copy(update=changes), catalog) for changes in domains_of(scenario, catalog))
    several = networks_of(scenario, catalog) if domains[0].gpus > domains[0].scale_up_domain else ()
    networks = tuple(variant(scenario.model_copy(update=another_network(key)), catalog) for key in several)
    small, *larger = sorted(domains, key=lambda domain: domain.scale_up_domain)
    return ServingDomains(
        domains=domains,
        networks=(domains[0], *networks) if networks else (),
        rack_pays=pays(small.front, larger[-1].front) if larger else (),
    )


def domains_of(scenario: Scenario, catalog: Catalog) -> Iterator[dict[str, Any]]:
    """The question as it is; its GPU's kin whose domain is a rack, or a node; and its own links cut to a node."""
    yield {}
    gpu = catalog.gpus[scenario.gpu]
    current_domain = scenario.scale_up_domain or catalog.platforms[scenario.platform or gpu.platform].scale_up_domain
    blank = {"platform": None, "scale_up": None, "scale_up_domain": None, "scale_up_wiring": None, "switch": None}
    if kin := next(iter(kin_of(gpu, current_domain, catalog)), None):
        domain = catalog.platforms[kin.platform].scale_up_domain
        gpus = -(-scenario.gpus // domain) * domain
        yield {**blank, "gpu": kin.key, "gpus": gpus, "gpus_per_node": None, "nics_per_node": None}
    if current_domain > NODE:
        yield {"scale_up_domain": NODE}


NODE = 8
"""GPUs of the domain that is a server's."""


def kin_of(gpu: Gpu, domain: int, catalog: Catalog) -> Sequence[Gpu]:
    """GPUs on sale whose domain is on the other side of a server, those of the same architecture first."""
    sold = [card for card in catalog.gpus.values() if card.status == "shipping" and card.vendor == gpu.vendor]
    other = [card for card in sold if (catalog.platforms[card.platform].scale_up_domain > NODE) != (domain > NODE)]
    other = [card for card in other if card.fp8 and catalog.platforms[card.platform].scale_up_domain >= NODE]
    return sorted(other, key=lambda card: (card.architecture != gpu.architecture, card.scale_up != gpu.scale_up))


def networks_of(scenario: Scenario, catalog: Catalog) -> Sequence[str]:
    """The other family at the same rate, the next generation, and the kernel's own TCP at the nearest rate."""
    network = catalog.scale_out[scenario.scale_out]
    rate = network.port_rate.typical
    rival = counterpart(network, catalog)
    newer = next((entry for entry in catalog.scale_out.values() if entry.predecessor == network.key), None)
    kernel = [entry for entry in catalog.scale_out.values() if entry.family == "tcp"]
    nearest = min(kernel, key=lambda entry: abs(entry.port_rate.typical / rate - 1), default=None)
    several = dict.fromkeys(entry.key for entry in (rival, newer, nearest) if entry is not None)
    return [key for key in several if key != network.key]


def variant(scenario: Scenario, catalog: Catalog) -> ServingVariant:
    """One cluster with its network, by the stages of its plan."""
    network = network_of(scenario, catalog)
    cluster = network.cluster
    owned = ownership(network, network.prices)
    plan = plan_serving(setting(scenario, cluster, network, catalog), catalog)
    second = typical_of(per_gpu_time(owned.total, scenario.gpus, owned.rates.lifetime.draws(), 1.0))
    priced, served = isfinite(second), None if network.unbuildable else plan.operation
    measured = evaluate_operation(plan, served, catalog) if served else None
    rate = float(measured.requests[0]) * scenario.output_tokens / scenario.gpus if measured else None
    return ServingVariant(
        gpu=scenario.gpu,
        scale_out=scenario.scale_out,
        scale_up_domain=cluster.domain,
        gpus=scenario.gpus,
        parallelism=layout_result(served.layout) if served else None,
        mode="" if served is None else "disaggregated" if served.prompts else "aggregated",
        throughput=rate,
        interactivity=1 / float(measured.time_per_token[0]) if measured else None,
        ttft=float(measured.first_token[0]) if measured else None,
        per_million_output_tokens=float(cost_of_tokens(second, rate, MILLION)) if rate and priced else None,
        front=() if network.unbuildable else front_of(plan, second if priced else None, catalog),
        query=scenario.query(),
    )


def pays(small: Sequence[ServingPoint], large: Sequence[ServingPoint]) -> tuple[Speeds, ...]:
    """The speeds of a user at which tokens cost less in the larger domain.

    Between the points of a front, costs are read off straight lines of their logarithms; where only one domain is
    quick enough for a speed, it pays.
    """
    node, rack = (([p.interactivity for p in front][::-1], [p.cost for p in front][::-1]) for front in (small, large))
    if not node[0] or not rack[0] or None in node[1] or None in rack[1]:
        return ()
    speeds = np.union1d(*(np.asarray(speed) for speed, _ in (node, rack)))
    speeds = speeds[speeds >= max(node[0][0], rack[0][0])]
    cost, other = (
        np.interp(speeds, speed, np.log(np.asarray(cost, float)), right=np.inf) for speed, cost in (rack, node)
    )
    dearer = cost - other

    def between(place: int) -> float:
        share = dearer[place] / (dearer[place] - dearer[place + 1])
        return float(speeds[place] + share * (speeds[place + 1] - speeds[place]))

    last = speeds.size - 1
    return tuple(
        Speeds(between(begin - 1) if begin else None, between(end) if end < last else None)
        for begin, end in stretches((dearer < 0).tolist())
    )
