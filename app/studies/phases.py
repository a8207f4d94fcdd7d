"""Growing in phases: what to buy of the network now so that a cluster becomes a larger one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.formulas.fabric import growth
from app.formulas.fabric.layouts import Design
from app.plan.band import Draws, Q, record, result
from app.plan.bill_of_materials import draws_or_nan
from app.plan.network import Network, network_of
from app.plan.prices import own
from app.plan.scenario import Scenario
from app.plan.total_cost import Ownership

YEAR = units.parse("1 year", "s")
GROWTH = 4
"""How many times as large the cluster becomes, unless something else is asked [1]."""
TREES = ("rail-optimized", "fat-tree", "rail-only")
ORDERS = {
    "later": "What today needs",
    "ready": "Ready to grow",
    "pods": "Ready, but for the cores",
    "whole": "The whole network",
}
"""The orders of building in words."""


@record
class Phase(Generic[Q]):
    """One order of building the network; money without NICs, which come with their nodes."""

    order: str = result("", "Bought now", "later, ready, pods or whole.", words="order")
    leaf_switches: int = result("1", "Leaf switches", "Leaf switches now.")
    spine_switches: int = result("1", "Spine switches", "Spine switches now.")
    core_switches: int = result("1", "Core switches", "Switches above the spine now.")
    ports_free: int = result("1", "Ports free", "Ports of all switches that nothing is plugged into now.")
    links_moved: int = result("1", "Links moved", "Links that go to another switch when the cluster grows.")
    now: Q = result("USD", "Paid now", "Switches, modules, cables and spares.", formula="costs.line")
    later: Q = result("USD", "Paid later", "The rest of the network of the end.", formula="costs.line")
    moving: Q = result("USD", "Re-cabling", "New cables and work of the links that move.")
    standstill: Q = result("s", "Standstill", "While links are moved.")
    idle: Q = result("USD", "Cluster standing still", "What the cluster costs while links are moved.")
    total: Q = result("USD", "Worth today", "All of it, at today's worth.", formula="fabric.present_value")


@record
class Phases(Generic[Q]):
    """How the network of a cluster that will grow may be built."""

    gpus: int = result("1", "GPUs now", "GPUs of the first phase.")
    grow_to: int = result("1", "GPUs at the end", "GPUs of the last phase.")
    switch: str = result("", "Switch", "Key of the switch that the end is built of; blank where it cannot be.")
    tiers: int | None = result("1", "Tiers now", "Tiers of switches that today needs.")
    tiers_later: int | None = result("1", "Tiers at the end", "Tiers of switches of the end.")
    orders: tuple[Phase[Q], ...] = result(
        "", "Growing in phases", "Each order of building.", table="phases", default=()
    )
    cheapest: str = result("", "Cheapest", "The order that is worth least today.", default="")
    reason: str = result("", "Reason", "Why there is nothing to choose; blank where there is.", default="")


@dataclass(frozen=True)
class Growth:
    """How a cluster grows: to how many GPUs, after how long, at what interest of a year."""

    gpus: int | None = None
    after: float | None = None
    interest: float | None = None

    def goal(self, gpus: int) -> int:
        """GPUs of the last phase of a cluster of so many."""
        return self.gpus or GROWTH * gpus

    def time_between(self, catalog: Catalog) -> Estimate:
        """Time between the phases [s]."""
        return catalog.operations["growing"]["after"] if self.after is None else own(self.after, "s", "grow_after")


class _Bought(NamedTuple):
    """What is bought first: a network, cores beyond its own, and whether growth moves its links."""

    order: str
    network: Network
    cores: int
    moves: bool


def phases(scenario: Scenario, owned: Ownership, expansion: Growth, catalog: Catalog) -> Phases[Draws]:
    """Every order of building the network of a cluster that grows."""
    goal = expansion.goal(scenario.gpus)
    end = network_of(scenario.model_copy(update={"gpus": goal}), catalog)
    same = {"switch": end.switch or None, "nodes_per_unit": end.nodes_per_unit}
    first = network_of(scenario.model_copy(update=same), catalog)
    reason = _reason(scenario, goal, first, end)
    answer = Phases[Draws](scenario.gpus, goal, end.switch, first.tiers, end.tiers, reason=reason)
    if reason:
        return answer
    after = expansion.time_between(catalog)
    interest = catalog.operations["ownership"]["interest"]
    if expansion.interest is not None:
        interest = own(expansion.interest, "1", "interest")
    by_order = tuple(
        _phase(bought, end, owned, (interest, after), catalog)
        for bought in _orders(scenario, same, first, end, catalog)
    )
    cheapest = min(by_order, key=lambda phase: phase.total.typical)
    known = all(np.isfinite(phase.total.typical) for phase in by_order)
    return Phases[Draws](
        scenario.gpus, goal, end.switch, first.tiers, end.tiers, by_order, cheapest.order if known else ""
    )


def _reason(scenario: Scenario, goal: int, first: Network, end: Network) -> str:
    """Why there is nothing to choose."""
    if scenario.topology not in TREES:
        return "Meshes, tori and dragonflies grow by whole groups, whose links all go to one another: not modelled."
    if goal <= scenario.gpus:
        return f"{goal:,} GPUs are no more than {scenario.gpus:,}."
    if end.built is None:
        return f"The network of {goal:,} GPUs cannot be built as asked."
    return "" if first.built else "The network of today cannot be built of the same switch, or none is needed."


def _orders(
    scenario: Scenario, same: Mapping[str, object], first: Network, end: Network, catalog: Catalog
) -> Iterator[_Bought]:
    """What may be bought first: what today needs, what growth needs of today's, and all of it."""
    yield _Bought("later", first, 0, True)
    if end.built and first.built and (ready := _ready(scenario, same, first, end, catalog)):
        yield ready
        if ready.cores:
            yield _Bought("pods", ready.network, 0, True)
    yield _Bought("whole", end, 0, False)


def _ready(
    scenario: Scenario, same: Mapping[str, object], first: Network, end: Network, catalog: Catalog
) -> _Bought | None:
    """The network of today with so many spines, and cores, that no link moves; ``None`` where today's is that, or has
    other leaves than the end's, whose links move all the same.
    """
    if end.built is None or first.built is None:
        return None
    final = end.built.design
    tiers = int(final.tiers)
    one_pod = int(first.built.design.leaf_switches) <= _pod_leaves(final)
    wanted = {"tiers": min(tiers, 2) if one_pod else tiers}
    if wanted["tiers"] == 2:
        wanted["minimum_spines"] = max(round(_reached(final) / scenario.planes), 1)
    ready = network_of(scenario.model_copy(update={**same, **wanted}), catalog)
    if ready.built is None:
        return None
    design = ready.built.design
    cores = 0 if one_pod else max(int(final.core_switches - design.core_switches), 0)
    if _moved(design._replace(core_switches=design.core_switches + cores), final):
        return None
    already = ready.built.counts == first.built.counts and not cores and not _moved(first.built.design, final)
    return None if already else _Bought("ready", ready, cores, False)


def _pod_leaves(design: Design) -> float:
    """Leaves that reach the same spines, all planes together [1]."""
    return float(design.leaf_switches) / _pods(design)


def _pods(design: Design) -> int:
    """Groups of leaves and spines below the cores; one where there are none [1]."""
    if design.tiers < 3:
        return 1
    return max(-(-int(design.leaf_switches) // max(int(design.spine_down), 1)), 1)


def _reached(design: Design) -> float:
    """Spines that a leaf reaches, all planes together [1]."""
    return float(design.spine_switches) / _pods(design)


def _moved(now: Design, final: Design) -> int:
    """Links that go to another switch when a design becomes another [1]."""
    hosts = growth.displaced(now.node_leaf, now.leaf_switches, final.leaf_down)
    tiers = (
        (now.leaf_spine, now.spine_switches, final.spine_down, _reached(now), _reached(final)),
        (now.spine_core, now.core_switches, np.inf, now.core_switches, final.core_switches),
        (now.core_super_core, now.super_core_switches, np.inf, now.super_core_switches, final.super_core_switches),
    )
    above = (
        max(growth.moved_uplinks(links, reached, later), growth.displaced(links, switches, ports) if links else 0)
        for links, switches, ports, reached, later in tiers
    )
    return round(float(hosts + sum(above)))


def _without_nics(network: Network) -> NDArray[np.float64]:
    """Price of a network without the NICs, which come with their nodes [USD]."""
    built = network.built
    nics = sum((line.cost for line in built.parts if line.role == "NIC"), 0.0) if built else 0.0
    return np.asarray(network.cost - nics)


def _phase(
    bought: _Bought, end: Network, owned: Ownership, terms: tuple[Estimate, Estimate], catalog: Catalog
) -> Phase[Draws]:
    """One order of building, priced."""
    interest, after = terms
    table = catalog.operations["growing"]
    built, final = bought.network.built, end.built
    if built is None or final is None:
        raise ValueError("a network that is not built cannot grow")
    design, spine = built.design, built.choice.spine
    moved = _moved(design, final.design) if bought.moves else 0
    price = owned.prices.switch(spine) if bought.cores else None
    early = costs.line(bought.cores, draws_or_nan(price)) if bought.cores else 0.0
    now = _without_nics(bought.network) + early
    later = np.maximum(_without_nics(end) - now, 0.0)
    moving = costs.line(moved, table["move"].draws())
    standstill = costs.per(float(moved), table["pace"].draws())
    idle = owned.per_run(standstill)
    worth = growth.present_value(now, later + moving + idle, interest.draws(), after.draws() / YEAR)
    used = (*bought.network.used, *((price,) if price else ()))
    all_used = (*used, *end.used, table["move"], table["pace"], interest, after, *owned.capital.used)

    def drawn(values: Array, *rests_on: Estimate) -> Draws:
        return Draws(np.atleast_1d(np.asarray(values, float)), used=rests_on)

    free = design.leaf_free + design.spine_free + design.core_free + design.super_core_free
    return Phase(
        order=bought.order,
        leaf_switches=int(design.leaf_switches),
        spine_switches=int(design.spine_switches),
        core_switches=int(design.core_switches + design.super_core_switches) + bought.cores,
        ports_free=int(free) + bought.cores * built.choice.spine_radix,
        links_moved=moved,
        now=drawn(now, *used),
        later=drawn(later, *used, *end.used),
        moving=drawn(moving, table["move"]),
        standstill=drawn(standstill, table["pace"]),
        idle=drawn(idle, table["pace"], *owned.capital.used),
        total=drawn(worth, *all_used),
    )
