"""A leaf, a spine or a link fails: what bisection, all-reduce and step are until it is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.catalog.load import Catalog
from app.formulas.fabric.failures import links_of_a_switch, taper_without
from app.formulas.fabric.placement import PINNED, Pattern, Site, Tier, crossing_share, tiers_of
from app.plan.band import Draws, nan_is_an_answer
from app.plan.bill_of_materials import PricedDesign
from app.plan.communication import Communication, communication
from app.plan.network import Network, fabric_of, network_of
from app.plan.result import Parallelism
from app.plan.scenario import CollectiveRequest, NetworkRequest, Scenario
from app.studies.bad_parts import SOUND, Times, times_on
from app.studies.scaling import with_parallelism

PATTERNS: tuple[Pattern, Pattern] = ("ring", "exchange")


@dataclass(frozen=True)
class FailedPart:
    """What is left when one part fails; ``None`` where nothing runs.

    Attributes:
        key: a word for links.
        part: what fails.
        effect: what that takes away, in words.
        bisection: what the worst cut leaves each GPU, one way [B/s].
        all_reduce, step: their times [s].
        all_reduce_factor, step_factor: over those with all parts sound [1].
    """

    key: str
    part: str
    effect: str
    bisection: float | None
    all_reduce: float | None
    step: float | None
    all_reduce_factor: float | None
    step_factor: float | None


@dataclass(frozen=True)
class _Failure:
    key: str
    part: str
    effect: str
    taper: float = 1.0
    lost: int = 0
    rate_left: float = 1.0
    bisection_left: float = 1.0


@dataclass(frozen=True)
class _Left:
    """The network with its site as a failure leaves it."""

    site: Site
    hops: int


@nan_is_an_answer
def failed_parts(
    scenario: Scenario, catalog: Catalog, message: float, chosen: Parallelism | None
) -> tuple[FailedPart, ...]:
    """Each kind of part of a tree of switches, failed: the others carry its traffic, and all wait for the slowest.

    Args:
        scenario: the plan.
        catalog: the catalogue.
        message: bytes of the all-reduce [B].
        chosen: the plan's own parallelism, with which the step goes on.
    """
    otherwise_sound = scenario.model_copy(update=SOUND)
    network = network_of(otherwise_sound, catalog)
    failures = list(_failures(network))
    if not failures:
        return ()
    fixed = with_parallelism(otherwise_sound, chosen) if chosen else otherwise_sound

    def times(failure: _Failure) -> Times:
        fabric = _fabric(failure, network, fixed, catalog)
        return times_on(fabric, network.cluster, fixed, catalog, message, bool(chosen))

    sound = times(_Failure("", "", ""))
    each = fabric_of(network, Draws(np.asarray(1.0))).bisection_per_gpu.typical
    rows = []
    for failure in failures:
        now = times(failure) if failure.rate_left > 0 else Times()
        left = each * failure.bisection_left
        rows.append(FailedPart(failure.key, failure.part, failure.effect, left, *now, *now.over(sound)))
    return tuple(rows)


def _failures(network: Network) -> Iterator[_Failure]:
    """What can fail in a tree of switches; nothing where there is none."""
    built, cluster = network.built, network.cluster
    if built is None or built.counts.peers or cluster.nics_per_node < 1:
        return
    counts = built.counts
    links = cluster.nics_per_node * counts.planes
    yield _Failure(
        "node-link",
        "A link of a node to its leaf",
        f"One node has {links - 1} of {links} links; the others wait for it.",
        rate_left=(links - 1) / links,
        bisection_left=1 - 1 / (cluster.nodes * links),
    )
    leaves = counts.leaves_per_plane
    if leaves > 1:
        reached = counts.rails * counts.planes if counts.by_rail else counts.planes
        left = (reached - 1) / reached
        lost = "its nodes are cut off" if reached == 1 else f"its nodes have {reached - 1} of {reached} links"
        yield _Failure(
            "leaf", "A leaf switch", f"One of {counts.leaves:,} leaves; {lost}.", 1.0, 0, left, 1 - 1 / counts.leaves
        )
    if counts.tiers > 1:
        yield from _above(network, built)


def _above(network: Network, built: PricedDesign) -> Iterator[_Failure]:
    """A link and a switch above the leaves: every leaf that they joined has that many links up less."""
    counts, tier = built.counts, _tiers(network, built)[0]
    ways = counts.planes * (counts.rails if counts.rail_spines else 1)
    leaves_below = counts.leaves // ways
    shared_out = -(-counts.leaf_up // (counts.spines // ways))
    spine_links = int(min(links_of_a_switch(counts.spine_down, leaves_below), shared_out))

    def failure(key: str, part: str, lost: int, leaves_hit: int, which: str) -> _Failure:
        taper = float(taper_without(tier.hosts, counts.leaf_up, lost))
        share = max(tier.hosts / counts.leaf_up, 1.0) / taper
        effect = f"{which} {counts.leaf_up - lost} of {counts.leaf_up} links up, {taper:.3g}:1."
        return _Failure(key, part, effect, taper, lost, 1.0, 1 - (1 - share) * leaves_hit / counts.leaves)

    yield failure("link", "A link from a leaf to a spine", 1, 1, "One leaf has")
    if spine_links < counts.leaf_up:
        yield failure("spine", "A spine switch", spine_links, leaves_below, "Each leaf below has")
    else:
        left = (ways - 1) / ways
        lost = "units are cut off" if ways == 1 else f"between units nodes have {ways - 1} of {ways} links"
        yield _Failure("spine", "A spine switch", f"The only one above its leaves; {lost}.", 1.0, 0, left, left)


def _tiers(network: Network, built: PricedDesign) -> tuple[Tier, ...]:
    """The tiers that traffic meets, the lowest first, whether or not it slows anything while it is sound."""
    pinned = network.load_balancing in PINNED
    return tiers_of(built.design, built.counts, network.cluster.gpus_per_node, pinned, degraded=True)


def _fabric(failure: _Failure, network: Network, scenario: Scenario, catalog: Catalog) -> Communication:
    """What times transfers while a part has failed."""
    site = network.site
    if failure.lost and network.built:
        lowest, *upper = _tiers(network, network.built)
        hurt = lowest._replace(
            spread=max(lowest.spread, failure.taper),
            neighbour=max(lowest.neighbour, failure.taper),
            uplinks=lowest.uplinks - failure.lost,
            links=float("inf"),
            neighbour_links=float("inf"),
        )
        site = site._replace(tiers=(hurt, *upper))
    request = scenario.part(NetworkRequest)
    if failure.rate_left < 1:
        request = request.model_copy(update={"degraded_link": "node-leaf", "link_rate_left": failure.rate_left})
    collective = scenario.part(CollectiveRequest)
    return communication(network.cluster, _Left(site, network.hops), request, collective, catalog, scenario.recorded)


@dataclass(frozen=True)
class Load:
    """How full the links of a tier are while every GPU sends as fast as the network takes it.

    Attributes:
        tier: which links.
        ring: in an all-reduce of all GPUs as a ring of each rail, share of their rate [1].
        exchange: in an all-to-all of all GPUs, share of their rate that is asked for [1].
    """

    tier: str
    ring: float
    exchange: float


def link_loads(scenario: Scenario, catalog: Catalog) -> tuple[Load, ...]:
    """The load of each tier of a tree of switches; more than 1 is what the taper holds back."""
    network = network_of(scenario, catalog)
    built, cluster = network.built, network.cluster
    if built is None or built.counts.peers:
        return ()
    loads = [Load("Node to leaf", 1.0, 1.0)]
    size, domain = float(cluster.gpus), float(cluster.domain)
    lowest, *upper = _tiers(network, built) or (None,)
    units = [("Leaf to spine", lowest.unit, lowest.spread)] if lowest else []
    if np.isfinite(network.site.pod):
        units.append(("Spine to core", network.site.pod, max((tier.spread for tier in upper), default=1.0)))
    for name, unit, taper in units:
        ring, exchange = (float(crossing_share(pattern, size, unit, domain)) for pattern in PATTERNS)
        loads.append(Load(name, ring * taper, exchange * taper))
    return tuple(loads)
