"""Where a node stands: its pod, unit and rack, each a run of nodes side by side, and the leaves of its NICs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import NamedTuple

from app.formulas.fabric.cabling import Cabling
from app.plan.network import Network


class Place(NamedTuple):
    """A pod, unit, rack or node, or a rail of a node, by its number from one."""

    level: str
    number: int
    rail: int = 0

    @property
    def name(self) -> str:
        """What it is called.

        >>> Place("rack", 1024).name, Place("rail", 28, 3).name
        ('Rack 1,024', 'Rail 3')
        """
        return f"{self.level.capitalize()} {self.rail or self.number:,}"

    @property
    def address(self) -> str:
        """Its way in an address.

        >>> Place("unit", 2).address, Place("rail", 28, 3).address
        ('unit/2', 'node/28/rail/3')
        """
        return f"node/{self.number}/rail/{self.rail}" if self.rail else f"{self.level}/{self.number}"


class Plug(NamedTuple):
    """The end of a NIC's cable: its leaf by unit and number, the port there, and the length of the cable [m]."""

    unit: int
    leaf: int
    port: int
    length: float


@dataclass(frozen=True)
class Hall:
    """The nodes of a network side by side, cut into pods, units and racks.

    Attributes:
        cabling: the design on its floor.
        gpus_per_node: GPUs of a node [1].
        rack_nodes: nodes of a full rack [1].
        pod_nodes: nodes of a pod; zero where all spines reach all leaves [1].
    """

    cabling: Cabling
    gpus_per_node: int
    rack_nodes: int
    pod_nodes: int

    @staticmethod
    def of(network: Network, rack_nodes: int) -> Hall | None:
        """The hall of a network; nothing where there is none."""
        if network.built is None:
            return None
        pod, each = network.site.pod, network.cluster.gpus_per_node
        return Hall(network.built.cabling, each, rack_nodes, round(pod / each) if isfinite(pod) else 0)

    @property
    def nodes(self) -> int:
        return self.cabling.counts.nodes

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Nodes of each level, from the largest down; levels of which there is only one are left out."""
        counts = self.cabling.counts
        above = {"pod": self.pod_nodes, "unit": counts.unit_nodes} if counts.by_rail else {}
        several = {level: size for level, size in above.items() if 0 < size < self.nodes}
        return {**several, "rack": self.rack_nodes, "node": 1}

    def holds(self, place: Place) -> bool:
        """Whether there is such a place."""
        if place.level == "rail":
            return (
                self.cabling.counts.by_rail and place.rail <= self.cabling.counts.rails and place.number <= self.nodes
            )
        return place.level in self.sizes and place.number <= self.count(place.level)

    def count(self, level: str) -> int:
        """How many of a level there are."""
        return -(-self.nodes // self.sizes[level])

    def nodes_of(self, place: Place) -> range:
        """The nodes that stand there, numbered from one."""
        size = self.sizes.get(place.level, 1)
        return range((place.number - 1) * size + 1, min(place.number * size, self.nodes) + 1)

    def at(self, level: str, node: int) -> Place:
        """The place of a level at which a node stands."""
        return Place(level, (node - 1) // self.sizes[level] + 1)

    def inside(self, place: Place, level: str) -> list[Place]:
        """The places of a lower level at which its nodes stand, those that stand there in part too."""
        nodes = self.nodes_of(place)
        first, last = self.at(level, nodes[0]).number, self.at(level, nodes[-1]).number
        return [Place(level, number) for number in range(first, last + 1)]

    def way_to(self, place: Place) -> Iterator[Place]:
        """What it stands in, the largest first, then itself, then the first of each level inside it."""
        node = self.nodes_of(place)[0]
        for level in self.sizes:
            yield place if level == place.level else self.at(level, node)
        if self.cabling.counts.by_rail:
            yield Place("rail", node, place.rail or 1)

    def way_to_first(self) -> Iterator[Place]:
        """The first place of each level."""
        return self.way_to(Place("node", 1))

    def plug(self, node: int, rail: int) -> Plug:
        """Where the cable of a NIC ends, as in the list of cables."""
        counts, floor, host, link = self.cabling.counts, self.cabling.floor, node - 1, rail - 1
        leaf = int(self.cabling.leaf_of(host, link))
        port = int(self.cabling.hosts_before(host, link, leaf)) + 1
        length = float(floor.lengths_between(self.cabling.node_rack(host), self.cabling.leaf_racks[leaf]))
        unit, number = divmod(leaf, counts.rails) if counts.by_rail else (0, leaf)
        return Plug(unit + 1, number + 1, port, length)

    @property
    def seam(self) -> str:
        """Why a rack stands in two units, where one does."""
        unit, rack = self.sizes.get("unit", 0), self.sizes["rack"]
        if not unit or unit % rack == 0 or rack % unit == 0:
            return ""
        first = unit % rack
        other = min(rack, self.nodes - unit + first) - first
        return (
            f"A unit has {unit} nodes, as its leaves have ports down, and a rack {rack}: "
            f"rack {unit // rack + 1} has {first} nodes of unit 1 and {other} of unit 2."
        )
