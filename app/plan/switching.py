"""Choosing a switch: the planner's own, or the cheapest of the generation that works."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import costs, fabric
from app.catalog import Catalog
from app.catalog.types import Switch
from app.plan.cabling import switch_cage
from app.plan.hardware import Hardware
from app.plan.prices import PriceList
from app.scenario import Scenario


@dataclass(frozen=True)
class Choice:
    """A switch for the leaves and one for the tiers above, and how each port is split into links."""

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


def splits(switch: Switch, rate: float) -> int:
    """Links of some rate that one port carries; 0 when the port is too slow."""
    ratio = switch.port_rate.typical / rate
    fitting = [ways for ways in switch.breakout if ways <= ratio * (1 + 1e-9)]
    return max(fitting, default=0)


def candidates(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> list[Choice]:
    """Leaf and spine switches worth trying, the usual one first."""
    rate = hardware.scale_out.port_rate.typical / scenario.planes
    if scenario.switch:
        switches = [catalog.switches[scenario.switch]]
    else:
        switches = [catalog.switches[key] for key in hardware.scale_out.switches]
        shipping = [switch for switch in switches if switch.status not in ("announced", "projected")]
        switches = shipping or switches
    switches = [switch for switch in switches if splits(switch, rate)]
    leaves = [switch for switch in switches if not switch.chassis] or switches
    chosen = []
    for leaf in leaves:
        for spine in [leaf, *(switch for switch in switches if switch.chassis and switch is not leaf)]:
            chosen.append(Choice(leaf, spine, splits(leaf, rate), splits(spine, rate)))
    return chosen


def designs(
    choices: list[Choice], hardware: Hardware, scenario: Scenario, nodes: Any = None, **changes: Any
) -> fabric.Design:
    """The fabric of every choice, last axis; ``nodes`` may be an array with an axis of its own before it."""
    arguments: dict[str, Any] = {
        "spine_radix": np.array([choice.spine_radix for choice in choices]),
        "planes": scenario.planes,
        "oversubscription": scenario.oversubscription,
        "spine_oversubscription": scenario.spine_oversubscription,
        "nodes_per_unit": scenario.nodes_per_unit or 0,
        "management_links": scenario.management_links,
        "minimum_spines": scenario.minimum_spines,
        "rail_spines": scenario.spine_policy == "rail",
        "tiers": scenario.tiers or 0,
        "layout": fabric.LAYOUTS.index(scenario.topology),
    }
    radix = np.array([choice.radix for choice in choices])
    at = hardware.nodes if nodes is None else nodes
    return fabric.design(at, hardware.nics_per_node, radix, **(arguments | changes))


def rough_cost(choices: list[Choice], found: fabric.Design, catalog: Catalog, prices: PriceList) -> NDArray[np.float64]:
    """Typical price of switches and the modules in them, for choosing among them [USD]."""

    def box(switch: Switch) -> float:
        price = prices.switch(switch)
        return price.typical / switch.switches_per_box if price else np.inf

    def end(switch: Switch, split: int) -> float:
        if switch.co_packaged:
            return 0.0
        rate, links = switch_cage(switch, split)
        fitting = [
            optic for optic in catalog.optics.values() if optic.kind == "transceiver" and optic.rate.typical == rate
        ]
        known = [price.typical for price in map(prices.optic, fitting) if price]
        return min(known, default=0.0) / links

    leaf = np.array([box(choice.leaf) for choice in choices])
    spine = np.array([box(choice.spine) for choice in choices])
    leaf_end = np.array([end(choice.leaf, choice.leaf_split) for choice in choices])
    spine_end = np.array([end(choice.spine, choice.spine_split) for choice in choices])
    above = found.switches - found.leaf_switches
    upper_ends = found.leaf_spine + 2 * (found.spine_core + found.core_super_core)
    leaf_ends = found.node_leaf + found.leaf_spine + 2 * found.peer
    boxes = costs.line(found.leaf_switches, leaf) + costs.line(above, spine)
    return np.asarray(boxes + leaf_ends * leaf_end + upper_ends * spine_end)


def pick(found: fabric.Design, *index: Any) -> fabric.Design:
    """Some designs of an array of them."""
    return found.at(..., *index)


def cheapest(choices: list[Choice], found: fabric.Design, catalog: Catalog, prices: PriceList) -> NDArray[np.int64]:
    """Index of the choice to build, along the last axis: the cheapest that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest.
    """
    built = found.reason == fabric.BUILT
    cost = np.where(built, rough_cost(choices, found, catalog, prices), np.inf)
    priced = np.isfinite(cost).any(axis=-1, keepdims=True)
    cost = np.where(priced, cost, np.where(built, found.switches, np.inf))
    hopeless = ~built.any(axis=-1, keepdims=True)
    radix = np.array([choice.radix for choice in choices])
    return np.asarray(np.argmin(np.where(hopeless, found.reason * 2.0**32 - radix, cost), axis=-1))
