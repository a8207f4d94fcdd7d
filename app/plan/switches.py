"""The switches that a network may be built of, and the fabric that each makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.catalog.entries import Switch
from app.catalog.estimate import EARLY
from app.catalog.load import Catalog
from app.formulas.fabric import design, layouts
from app.plan.cluster import Cluster
from app.plan.scenario import DesignRequest


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
    def height(self) -> int:
        """Height of a switch above the leaves [rack units]."""
        return self.spine.rack_units or 1

    @property
    def ports(self) -> tuple[int, int]:
        """Ports of a leaf and of a switch above: all that a design needs to know of them."""
        return self.radix, self.spine_radix


class Chosen(NamedTuple):
    """What is to be built, and the longest link of each of its levels [m] where that is known already."""

    choice: SwitchPair
    design: layouts.Design
    lengths: Mapping[str, float] | None = None


def splits(switch: Switch, rate: float) -> int:
    """Links of some rate that one port carries; 0 when the port is too slow."""
    ratio = switch.port_rate.typical / rate
    fitting = [ways for ways in switch.breakout if ways <= ratio * (1 + 1e-9)]
    return max(fitting, default=0)


def candidates(cluster: Cluster, request: DesignRequest, catalog: Catalog) -> tuple[SwitchPair, ...]:
    """Leaf and spine switches worth trying, the usual one first: of those on sale that need no manager from outside,
    unless one is named.
    """
    return _candidates(catalog, cluster.scale_out.key, request.planes, request.switch, request.spine_switch)


@lru_cache(maxsize=1024)
def _candidates(
    catalog: Catalog, scale_out: str, planes: int, switch: str | None, spine_switch: str | None
) -> tuple[SwitchPair, ...]:
    """The switches of a network. Kept: the same pairs each time are what keeps their offers, 0.2 ms each."""
    network = catalog.scale_out[scale_out]
    rate = network.port_rate.typical / planes
    if switch:
        switches = [catalog.switches[switch]]
    else:
        switches = [catalog.switches[key] for key in network.switches]
        switches = [entry for entry in switches if entry.status not in EARLY] or switches
        switches = [entry for entry in switches if not entry.managed_outside] or switches
    switches = [entry for entry in switches if splits(entry, rate)]
    leaves = [entry for entry in switches if not entry.chassis] or switches
    if spine_switch:
        spine = catalog.switches[spine_switch]
        leaves = leaves if splits(spine, rate) else []
        return tuple(SwitchPair(leaf, spine, splits(leaf, rate), splits(spine, rate)) for leaf in leaves)
    return tuple(
        SwitchPair(leaf, spine, splits(leaf, rate), splits(spine, rate))
        for leaf in leaves
        for spine in [leaf, *(entry for entry in switches if entry.chassis and entry is not leaf)]
    ) + tuple(SwitchPair(box, box, splits(box, rate), splits(box, rate)) for box in switches if box not in leaves)


def designed(
    ports: tuple[int, int], cluster: Cluster, request: DesignRequest, nodes: Any, **changes: Any
) -> layouts.Design:
    """The fabric of switches of so many ports, at the leaves and above."""
    placed = requested(ports, cluster, request)._replace(nodes=nodes, **changes)
    return design.design(placed) if any(isinstance(number, np.ndarray) for number in placed) else _designed(placed)


def requested(ports: tuple[int, int], cluster: Cluster, request: DesignRequest) -> layouts.FabricRequest:
    """What is asked of the fabric of a cluster where its switches have so many ports, at the leaves and above."""
    radix, spine_radix = ports
    return layouts.FabricRequest(
        nodes=cluster.nodes,
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


def designed_together(asked: layouts.FabricRequest) -> layouts.Design:
    """The fabrics of several requests in columns: designing one takes as long. Of numbers one, in columns."""
    return design.design(asked) if asked.shape else _designed(asked).at(None)


def together(requests: Sequence[layouts.FabricRequest], many: Sequence[int]) -> layouts.FabricRequest:
    """Several requests of numbers, each so many times, one after another; numbers where all are alike."""
    return layouts.FabricRequest(*(
        values[0] if len(set(values)) == 1 else np.repeat(values, many) for values in zip(*requests, strict=True)
    ))  # fmt: skip


@lru_cache(maxsize=64)
def _designed(request: layouts.FabricRequest) -> layouts.Design:
    """One fabric. Kept: it takes 0.2 ms, and other networks of a cluster have switches of as many ports."""
    return design.design(request)
