"""Choosing a switch: the planner's own, or the cheapest of the generation that works."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Switch
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.formulas.fabric import design, layouts, tree
from app.plan.cables import switch_cage
from app.plan.cluster import Cluster
from app.plan.prices import PriceList
from app.plan.scenario import NetworkRequest


@dataclass(frozen=True, eq=False)
class SwitchPair:
    """A switch for the leaves and one for the tiers above, and how each port is split into links.

    A choice equals itself alone, so that it can be part of a cache's key.
    """

    leaf: Switch
    spine: Switch
    leaf_split: int
    spine_split: int

    @property
    def radix(self) -> int:
        return self.leaf.ports * self.leaf_split

    @property
    def spine_radix(self) -> int:
        return self.spine.ports * self.spine_split

    @property
    def ports(self) -> tuple[int, int]:
        """Ports of a leaf and of a switch above: all that a design needs to know of them."""
        return self.radix, self.spine_radix


def splits(switch: Switch, rate: float) -> int:
    """Links of some rate that one port carries; 0 when the port is too slow."""
    ratio = switch.port_rate.typical / rate
    fitting = [ways for ways in switch.breakout if ways <= ratio * (1 + 1e-9)]
    return max(fitting, default=0)


def candidates(cluster: Cluster, request: NetworkRequest, catalog: Catalog) -> tuple[SwitchPair, ...]:
    """Leaf and spine switches worth trying, the usual one first."""
    return _candidates(catalog, cluster.scale_out.key, request.planes, request.switch)


@lru_cache(maxsize=1024)
def _candidates(catalog: Catalog, scale_out: str, planes: int, switch: str | None) -> tuple[SwitchPair, ...]:
    """The switches of a network. Kept: the same pairs each time are what keeps their offers, 0.2 ms each."""
    network = catalog.scale_out[scale_out]
    rate = network.port_rate.typical / planes
    if switch:
        switches = [catalog.switches[switch]]
    else:
        switches = [catalog.switches[key] for key in network.switches]
        shipping = [entry for entry in switches if entry.status not in ("announced", "projected")]
        switches = shipping or switches
    switches = [entry for entry in switches if splits(entry, rate)]
    leaves = [entry for entry in switches if not entry.chassis] or switches
    return tuple(
        SwitchPair(leaf, spine, splits(leaf, rate), splits(spine, rate))
        for leaf in leaves
        for spine in [leaf, *(entry for entry in switches if entry.chassis and entry is not leaf)]
    )


def designs(
    choices: Sequence[SwitchPair], cluster: Cluster, request: NetworkRequest, nodes: Any = None, **changes: Any
) -> list[layouts.Design]:
    """The fabric of every choice; ``nodes`` may be an array. Choices of as many ports share one."""
    ports = list(dict.fromkeys([choice.ports for choice in choices]))
    if nodes is None:
        each = {pair: designed(pair, cluster, request, cluster.nodes, **changes) for pair in ports}
    else:
        radixes, spine_radixes = np.array(ports).T
        found = designed((radixes, spine_radixes), cluster, request, np.asarray(nodes)[..., None], **changes)
        each = {pair: found.at(..., place) for place, pair in enumerate(ports)}
    return [each[choice.ports] for choice in choices]


def designed(
    ports: tuple[Any, Any], cluster: Cluster, request: NetworkRequest, nodes: Any, **changes: Any
) -> layouts.Design:
    """The fabric of switches of so many ports, at the leaves and above."""
    radix, spine_radix = ports
    fabric = layouts.FabricRequest(
        nodes=nodes,
        rails=cluster.nics_per_node,
        radix=radix,
        spine_radix=spine_radix,
        planes=request.planes,
        oversubscription=request.oversubscription,
        spine_oversubscription=request.spine_oversubscription,
        nodes_per_unit=request.nodes_per_unit or 0,
        management_links=request.management_links,
        minimum_spines=request.minimum_spines,
        rail_spines=request.spine_policy == "rail",
        tiers=request.tiers or 0,
        layout=layouts.LAYOUTS.index(request.topology),
    )
    return design.design(fabric._replace(**changes))


class SwitchPrices(NamedTuple):
    """Typical prices of what a choice of switches needs [USD]: a leaf, a switch above, and a link's end in each."""

    leaf: float
    spine: float
    leaf_end: float
    spine_end: float

    def cost(self, found: layouts.Design) -> Array:
        """Rough price of a design: its switches and the modules in them."""
        above = found.switches - found.leaf_switches
        upper_ends = found.leaf_spine + 2 * (found.spine_core + found.core_super_core)
        leaf_ends = found.node_leaf + found.leaf_spine + 2 * found.peer
        boxes = costs.line(found.leaf_switches, self.leaf) + costs.line(above, self.spine)
        return boxes + leaf_ends * self.leaf_end + upper_ends * self.spine_end


@lru_cache(maxsize=1024)
def offers(choices: tuple[SwitchPair, ...], prices: PriceList) -> tuple[SwitchPrices | None, ...]:
    """The offer of every choice; ``None`` where another of as many ports is cheaper whatever is built of them.

    Kept: it takes 0.2 ms, the same for every size of a cluster.
    """

    def box(switch: Switch) -> float:
        price = prices.switch(switch)
        return price.typical / switch.switches_per_box if price else np.inf

    def end(switch: Switch, split: int) -> float:
        if switch.co_packaged:
            return 0.0
        rate, links = switch_cage(switch, split)
        optics = prices.catalog.optics.values()
        fitting = [optic for optic in optics if optic.kind == "transceiver" and optic.rate.typical == rate]
        known = [price.typical for price in map(prices.optic, fitting) if price]
        return min(known, default=0.0) / links

    made = [
        SwitchPrices(box(choice.leaf), box(choice.spine), end(choice.leaf, choice.leaf_split),
              end(choice.spine, choice.spine_split))
        for choice in choices
    ]  # fmt: skip
    beaten = {
        place
        for place, offer in enumerate(made)
        for other in (one for one, choice in zip(made, choices, strict=True) if choice.ports == choices[place].ports)
        if other.leaf < offer.leaf and all(theirs <= own for theirs, own in zip(other, offer, strict=True))
    }
    return tuple(None if place in beaten else offer for place, offer in enumerate(made))


def _leaf(radix: int, oversubscription: float, wished: int) -> tuple[int, int]:
    """Most hosts that a leaf carries where it has uplinks, and how many it has."""
    down = max(int(layouts.down_ports(radix, oversubscription)), 1)
    hosts = min(wished or down, down)
    return hosts, int(tree.uplinks(hosts, 1, oversubscription, radix))


def _spine(radix: int, oversubscription: float) -> tuple[int, int]:
    """Ports down and up of a spine with cores above it."""
    down = max(min(int(layouts.down_ports(radix, oversubscription)), radix - 1), 1)
    return down, max(min(int(down / oversubscription), radix - down), 1)


def lower_bound(choice: SwitchPair, offer: SwitchPrices, cluster: Cluster, request: NetworkRequest) -> float:
    """The least that a choice of switches can cost [USD].

    A host takes a port of a leaf and an end in it. In a tree of more than one switch every leaf has its uplinks, each
    with two ends, and spines enough for them; where the leaves are more than a spine reaches, cores as well.
    """
    rails, by_rail = cluster.nics_per_node, request.topology == "rail-optimized"
    hosts = cluster.nodes * rails + request.management_links
    if hosts <= choice.radix or not (by_rail or request.topology == "fat-tree"):
        return request.planes * hosts * (offer.leaf / choice.radix + offer.leaf_end)
    unit, up = _leaf(choice.radix, request.oversubscription, request.nodes_per_unit or 0 if by_rail else 0)
    leaves = rails * -(-cluster.nodes // unit) if by_rail else -(-hosts // unit)
    links = leaves * up
    above, upper_links = -(-links // choice.spine_radix), 0
    if leaves > choice.spine_radix and not (by_rail and request.spine_policy == "rail"):
        spine_down, spine_up = _spine(choice.spine_radix, request.spine_oversubscription)
        spines = -(-links // spine_down)
        upper_links = spines * spine_up
        above = spines + -(-upper_links // choice.spine_radix)
    ends = (hosts + links) * offer.leaf_end + (links + 2 * upper_links) * offer.spine_end
    return request.planes * (leaves * offer.leaf + above * offer.spine + ends)


def choose(
    choices: tuple[SwitchPair, ...], cluster: Cluster, request: NetworkRequest, prices: PriceList
) -> tuple[SwitchPair, layouts.Design]:
    """The choice to build, and its design: as `cheapest`, but what cannot be it is not designed.

    The others are designed by the least they can cost, until that is more than the cheapest so far.
    """
    if len(choices) == 1:
        return choices[0], designed(choices[0].ports, cluster, request, cluster.nodes)
    made = [(place, offer) for place, offer in enumerate(offers(choices, prices)) if offer]
    floors = (
        [0.0] if len(made) == 1 else [lower_bound(choices[place], offer, cluster, request) for place, offer in made]
    )
    known: dict[tuple[int, int], layouts.Design] = {}
    best = (np.inf, len(choices))
    for floor, (place, offer) in sorted(zip(floors, made, strict=True)):
        if floor > best[0] * (1 + 1e-9):
            break
        ports = choices[place].ports
        if ports not in known:
            known[ports] = designed(ports, cluster, request, cluster.nodes)
        if known[ports].reason == layouts.BUILT:
            best = min(best, (float(offer.cost(known[ports])), place))
    if best[0] < np.inf:
        return choices[best[1]], known[choices[best[1]].ports]
    found = designs(choices, cluster, request)
    place = int(cheapest(choices, found, prices))
    return choices[place], found[place]


def cheapest(choices: tuple[SwitchPair, ...], found: Sequence[layouts.Design], prices: PriceList) -> NDArray[np.int64]:
    """Index of the choice to build: the cheapest that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest.
    """
    if len(choices) == 1:
        return np.zeros(found[0].reason.shape, dtype=np.int64)
    built = np.array([design.reason == layouts.BUILT for design in found])
    dear = np.full(found[0].reason.shape, np.inf)
    made = offers(choices, prices)
    rough = [dear if offer is None else offer.cost(design) for offer, design in zip(made, found, strict=True)]
    cost = np.where(built, np.array(rough), np.inf)
    priced = np.isfinite(cost).any(axis=0)
    if priced.all():
        return np.asarray(cost.argmin(axis=0))
    switches = np.array([design.switches for design in found])
    cost = np.where(priced, cost, np.where(built, switches, np.inf))
    nearest = np.array([design.reason * 2.0**32 - choice.radix for design, choice in zip(found, choices, strict=True)])
    return np.asarray(np.where(built.any(axis=0), cost, nearest).argmin(axis=0))
