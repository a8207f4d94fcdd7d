"""Where racks stand and how long cables are.

The floor is a grid of racks. A unit's nodes fill racks side by side, its leaves stand beside the middle one; spines and
cores stand beside the leaves in the middle of the hall. A cable goes up to the tray, along the racks, and down.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas import costs
from app.formulas.arrays import changes, counted_off, maximum, minimum, where
from app.formulas.fabric import layouts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
MOST_RUNS = 2**18
"""Beyond so many links of a level, every bundle takes the length of the link in its middle."""
SAMPLED = 8
"""Leaves that are looked at where it is enough to know about how far their links reach."""
MOST_DEALT = 2**16
"""Pairs of racks whose links are counted together."""


class Counts(NamedTuple):
    """One design in plain numbers, or columns: the whole numbers of a `Design` that cabling and drawing need.

    Attributes:
        layout: index into ``LAYOUTS`` [1].
        nodes: nodes [1].
        rails: hosts a node has in each plane [1].
        planes: equal independent networks [1].
        tiers: tiers of switches [1].
        units: groups of nodes that share a set of leaves, in one plane [1].
        unit_nodes: nodes one such group holds [1].
        leaf_down, leaf_up: hosts a leaf can take, and its links up [1].
        spine_down, spine_up: links a spine can take from below, and its links up [1].
        core_up: links up of a core [1].
        leaves, spines, cores, super_cores: switches of each tier, of all planes [1].
        management_links: fabric-manager links of a plane [1].
        peers: links between switches of one tier, of all planes [1].
        rail_spines: whether each rail has spines of its own.
    """

    layout: int
    nodes: int
    rails: int
    planes: int
    tiers: int
    units: int
    unit_nodes: int
    leaf_down: int
    leaf_up: int
    spine_down: int
    spine_up: int
    core_up: int
    leaves: int
    spines: int
    cores: int
    super_cores: int
    management_links: int
    peers: int
    rail_spines: bool

    @property
    def leaves_per_plane(self) -> int:
        return self.leaves // self.planes

    @property
    def spines_per_plane(self) -> int:
        return self.spines // self.planes

    @property
    def cores_per_plane(self) -> int:
        return self.cores // self.planes

    @property
    def by_rail(self) -> bool:
        """Whether NIC i of every node of a unit goes to leaf i."""
        if self.layout == layouts.RAIL_ONLY:
            return True
        return self.layout == layouts.RAIL_OPTIMIZED and self.tiers > 1

    @property
    def rails_apart(self) -> bool:
        """Whether every rail has spines of its own."""
        return self.rail_spines and self.by_rail

    @property
    def leaves_per_unit(self) -> int:
        return self.rails if self.by_rail else max(1, -(-self.leaves_per_plane // max(self.units, 1)))

    @property
    def hosts_per_leaf(self) -> int:
        """Hosts a leaf gets before the next one is begun, where leaves are not by rail."""
        if self.tiers > 1 or self.layout in (layouts.FAT_TREE,):
            return self.leaf_down
        return -(-(self.nodes * self.rails + self.management_links) // max(self.leaves_per_plane, 1))


@dataclass(frozen=True, eq=False)
class Floor:
    """The grid of racks.

    Attributes:
        nodes_per_rack: nodes that stand in a rack [1].
        per_row: racks side by side in a row [1].
        pitch: from one rack to the next in a row [m].
        row_pitch: from one row to the next [m].
        drop: from a tray down to a port [m].
        slack: what is added to the length of a run, as a share of it [1].
        lengths: lengths in which cables are sold, shortest first [m].
        network_units: height that switches can fill in a rack [rack units].
    """

    nodes_per_rack: int
    per_row: int
    pitch: float
    row_pitch: float
    drop: float
    slack: float
    lengths: tuple[float, ...]
    network_units: float

    @cached_property
    def _sold(self) -> NDArray[np.uint8]:
        """Which of the lengths on sale joins two racks, by how far their places are apart; see `place`.

        The middle entry is for racks no distance apart. Beyond the longest, the longest.
        """
        stride = 2 * self.per_row
        rows = int(max(self.lengths) / max(self.pitch + self.row_pitch, 0.1)) + 2
        apart = np.arange(-rows * stride, rows * stride + 1)
        rows_apart = (apart + self.per_row) // stride
        along = np.abs(apart - rows_apart * stride)
        across: Any = np.abs(rows_apart)
        length = costs.cable_length(along + across, self.pitch, self.drop, self.slack, across * self.row_pitch)
        sold = costs.length_class(length, self.lengths)
        lengths = np.searchsorted(self.lengths, np.where(np.isfinite(sold), sold, max(self.lengths))).astype(np.uint8)
        lengths.flags.writeable = False
        return lengths

    def place(self, rack: Any) -> Any:
        """A rack's place in one number, so that the difference of two says how far they are along and across."""
        return rack + rack // self.per_row * self.per_row

    def _between(self, near: Integers, far: Integers) -> NDArray[np.uint8]:
        """Which of the lengths on sale joins two places; the longest where none reaches."""
        return self._sold.take(near + len(self._sold) // 2 - far, mode="clip")

    def lengths_between(self, near: Any, far: Any) -> Floats:
        """Length as sold of a cable between two racks by their numbers; the longest on sale where none reaches [m]."""
        return np.asarray(self.lengths)[self._between(self.place(near), self.place(far))]

    def links_between(self, near: Integers, far: Integers, links: Integers) -> dict[float, int]:
        """Links of each length between pairs of places that have so many."""
        between = self._between(near, far)
        if links.shape != between.shape:
            links = np.full(between.shape, links)
        pairs = np.bincount(between.ravel(), links.ravel(), len(self.lengths))
        return {length: int(many) for length, many in zip(self.lengths, pairs.tolist(), strict=True) if many}

    def diagonals(self, rack: Any) -> tuple[Any, Any]:
        """Where a rack stands on the two diagonals of the floor [m]."""
        row = rack // self.per_row
        along, across = self.pitch * (rack - row * self.per_row), (self.pitch + self.row_pitch) * row
        return along + across, along - across

    def extent(self, racks: Integers) -> "Extent":
        """How far some racks reach."""
        rising, falling = self.diagonals(racks)
        return Extent(float(rising.min()), float(rising.max()), float(falling.min()), float(falling.max()))

    def _ends(self, first: Any, last: Any) -> Integers:
        """Of racks side by side the first and the last, and the ends of the rows between them, as a first axis."""
        top, bottom = first // self.per_row, last // self.per_row
        second, lowest = (top + 1) * self.per_row, bottom * self.per_row
        return np.array([
            first, last, minimum(second - 1, last), minimum(second, last), maximum(lowest - 1, first),
            maximum(lowest, first),
        ])  # fmt: skip

    def stretch(self, first: Any, last: Any) -> "Extent":
        """How far racks side by side reach."""
        rising, falling = self.diagonals(self._ends(first, last))
        least, most = np.minimum.reduce, np.maximum.reduce
        return Extent(least(rising), most(rising), least(falling), most(falling))

    def switches_per_rack(self, rack_units: int) -> int:
        """Switches of such a height that a rack holds."""
        return max(1, int(self.network_units // max(rack_units, 1)))

    def row_extent(self, centre: Any, switches: Any, per_rack: Any) -> "Extent":
        """How far the racks around the middle of the hall reach that so many spines or cores fill."""
        first, last = (_network_rack(centre, index, switches, per_rack) for index in (0, switches - 1))
        return self.stretch(first, last)

    def farthest_beside(self, rack: Any, first: Any, last: Any) -> Any:
        """Which of the lengths on sale is the longest from a rack to any of others side by side."""
        return self._between(self.place(rack), self.place(self._ends(first, last))).max(axis=0)

    def longest_between(self, some: "Extent", others: "Extent") -> Any:
        """The longest length as sold from any of some racks to any of others [m].

        Along and across the rows distances add up, so the farthest pair is at the ends of one of the two diagonals.
        """
        rising = maximum(some.highest - others.lowest, others.highest - some.lowest)
        falling = maximum(some.rightmost - others.leftmost, others.rightmost - some.leftmost)
        farthest = maximum(maximum(rising, falling), 0.0)
        sold = costs.length_class(
            costs.cable_length(farthest / self.pitch, self.pitch, self.drop, self.slack), self.lengths
        )
        return where(sold == sold, sold, max(self.lengths))


class Extent(NamedTuple):
    """The ends of some racks on the two diagonals of the floor, or columns of them.

    Attributes:
        lowest, highest: along plus across the rows [m].
        leftmost, rightmost: along less across the rows [m].
    """

    lowest: Any
    highest: Any
    leftmost: Any
    rightmost: Any


MANY = 128
"""Designs of which the units that they share are looked for: of fewer it takes longer than looking at all."""


class RailRuns(NamedTuple):
    """Designs whose leaves are by rail, and have spines: what their longest links depend on, in columns.

    Attributes:
        nodes, unit_nodes, units: nodes, nodes of a unit, and units [1].
        spines, cores, super_cores: switches above the leaves, in one plane [1].
        middle: the unit whose leaves the others stand beside [1].
        managed: whether fabric managers have links.
    """

    nodes: Integers
    unit_nodes: Integers
    units: Integers
    spines: Integers
    cores: Integers
    super_cores: Integers
    middle: Integers
    managed: Booleans

    @staticmethod
    def of(nodes: Any, unit_nodes: Any, rails: Any, switches: tuple[Any, ...], management_links: Any) -> "RailRuns":
        """Designs by their nodes, their units, and the switches of each tier in one plane, numbers or columns."""
        leaves, spines, cores, super_cores = (np.atleast_1d(np.asarray(many, dtype=np.int64)) for many in switches)
        nodes, unit_nodes, managers = (
            np.broadcast_to(np.asarray(many, dtype=np.int64), leaves.shape)
            for many in (nodes, unit_nodes, management_links)
        )
        return RailRuns(
            nodes, unit_nodes, -(-leaves // rails), spines, cores, super_cores, leaves // 2 // rails, managers > 0
        )

    def longest(self, floor: Floor, switches_per_rack: Any) -> dict[str, Floats]:
        """The longest link of each level that a design has [m]; what it is where another has none there means nothing.

        ``switches_per_rack`` is a number, or an array of some with two more axes, of tiers and of designs: the answer
        then has one more, the first.

        A node's is to the rack in the middle of its unit's, a leaf's to the farthest rack of spines in the middle of
        the hall, whose own are from one end of their racks to the other of those above.
        """
        to_leaf, *leaves = self._reach(floor)
        above = np.array([self.spines, *(tier for tier in (self.cores, self.super_cores) if tier.any())])
        centre = self._racks(floor, np.arange(len(self.units)), self.middle)[2]
        rows = floor.row_extent(centre, above, switches_per_rack)
        below = Extent(
            *(
                np.concatenate((np.broadcast_to(end, row[..., :1, :].shape), row[..., :-1, :]), axis=-2)
                for end, row in zip(leaves, rows, strict=True)
            )
        )
        runs = np.moveaxis(floor.longest_between(below, rows), -2, 0)
        node_leaf = np.asarray(floor.lengths)[to_leaf]
        node_leaf = np.where(self.managed, np.maximum(node_leaf, floor.lengths_between(0, 1)), node_leaf)
        levels = ("node_leaf", "leaf_spine", "spine_core", "core_super_core")
        return dict(zip(levels, (np.broadcast_to(node_leaf, runs.shape[1:]), *runs), strict=False))

    def _reach(self, floor: Floor) -> list[Any]:
        """Which of the lengths on sale is the longest of a node of each design, and the ends of its leaves' racks.

        Units of as many nodes that are all there stand alike in every design: of many designs those that they share are
        looked at once.
        """
        every = np.arange(len(self.units))
        shared = (
            np.minimum(self.nodes // self.unit_nodes, self.units - 1) if len(every) > MANY else np.zeros_like(every)
        )
        counts = self.units - shared
        of_each = _farthest(self._units(floor, every, shared, self.units), np.cumsum(counts) - counts)
        if not shared.any():
            return of_each
        order = np.lexsort((shared, self.unit_nodes))
        new = self.unit_nodes[order[1:]] != self.unit_nodes[order[:-1]]
        kind = np.empty_like(order)
        kind[order] = np.append(0, np.cumsum(new))
        largest = order[np.append(new, True)]
        counts = shared[largest] + 1
        begin = (np.cumsum(counts) - counts)[kind]
        pairs = np.stack((begin, begin + shared), axis=1).ravel()
        alike = _farthest(self._units(floor, largest, np.zeros_like(largest), counts), pairs)
        return [
            np.where(shared > 0, end(mine, theirs[::2]), mine)
            for end, mine, theirs in zip(FARTHEST, of_each, alike, strict=True)
        ]

    def _units(self, floor: Floor, design: Integers, begin: Integers, end: Integers) -> tuple[Any, ...]:
        """Of the units of some designs from one to before another, one after the other: which of the lengths on sale is
        the longest of a node, and where the leaves' rack stands on the two diagonals [m].
        """
        counts = end - begin
        place = counted_off(counts) + np.repeat(begin, counts)
        design = np.repeat(design, counts)
        first, last, rack = self._racks(floor, design, place)
        occupied = place * self.unit_nodes[design] < self.nodes[design]
        return np.where(occupied, floor.farthest_beside(rack, first, last), 0), *floor.diagonals(rack)

    def _racks(self, floor: Floor, design: Integers, place: Integers) -> tuple[Integers, Integers, Integers]:
        """The first rack and the last of nodes of a unit of each of some designs, and that of its leaves."""
        first_node = place * self.unit_nodes[design]
        first = first_node // floor.nodes_per_rack
        last_node = np.minimum(first_node + self.unit_nodes[design], self.nodes[design]) - 1
        last = np.maximum(last_node // floor.nodes_per_rack, first)
        return first, last, (first + last) // 2


FARTHEST = np.maximum, np.minimum, np.maximum, np.minimum, np.maximum
"""What is looked for among units: the longest link of a node, the ends of their racks on either diagonal."""


def _farthest(units: tuple[Any, ...], begin: Integers) -> list[Any]:
    """The same of groups of units that begin there, and end before the next."""
    level, rising, falling = units
    columns = level, rising, rising, falling, falling
    return [end.reduceat(column, begin) for end, column in zip(FARTHEST, columns, strict=True)]


class LeafRuns(NamedTuple):
    """Leaves of trees and what stands below them, in columns.

    Attributes:
        nodes, rails, nodes_per_rack: nodes, hosts of each in a plane, and nodes that stand in a rack [1].
        by_rail: whether NIC i of every node goes to leaf i of a unit.
        groups, size: units, and their nodes, where leaves are by rail; elsewhere leaves, and their hosts [1].
    """

    nodes: Integers
    rails: Integers
    nodes_per_rack: Integers
    by_rail: Booleans
    groups: Integers
    size: Integers

    def reach(self, floor: Floor) -> "Reach":
        """How far leaves reach at least: looked at are a few groups, the first, the middle and the last among them."""
        last_node = self.nodes - 1
        group = np.arange(SAMPLED)[:, None] * self.groups // SAMPLED
        group = np.concatenate((group, np.maximum(self.groups - 1, 0)[None]))
        begin, end = group * self.size, (group + 1) * self.size - 1
        rails = np.where(self.by_rail, 1, self.rails)
        middle = np.minimum((begin + self.size // 2) // rails, last_node) // self.nodes_per_rack
        # Of leaves of fewer hosts than a node has some have neither the first nor the last host of any.
        wide = self.by_rail | (self.size >= self.rails)
        first = np.where(wide, np.minimum(begin // rails, last_node) // self.nodes_per_rack, middle)
        last = np.where(wide, np.maximum(np.minimum(end // rails, last_node) // self.nodes_per_rack, first), middle)
        rack = np.where(self.by_rail, (first + last) // 2, middle)
        rising, falling = floor.diagonals(rack)
        return Reach(
            np.asarray(floor.lengths)[floor.farthest_beside(rack, first, last).max(axis=0)],
            Extent(rising.min(axis=0), rising.max(axis=0), falling.min(axis=0), falling.max(axis=0)),
            rack[SAMPLED // 2],
        )


class Reach(NamedTuple):
    """How far leaves reach at least, in columns.

    Attributes:
        node_leaf: the longest link of a node [m].
        leaves: how far their racks reach.
        centre: number of the rack that the switches above stand beside [1].
    """

    node_leaf: Floats
    leaves: Extent
    centre: Integers

    def at(self, index: Integers) -> "Reach":
        """Some of them."""
        return Reach(self.node_leaf[index], Extent(*(end[index] for end in self.leaves)), self.centre[index])

    def longest(self, floor: Floor, above: Sequence[Integers], switches_per_rack: Any) -> list[Floats]:
        """The longest link of each level at least [m] with so many switches in the tiers above the leaves."""
        lengths, below = [self.node_leaf], self.leaves
        for switches in itertools.takewhile(np.any, above):
            row = floor.row_extent(self.centre, switches, switches_per_rack)
            lengths.append(np.asarray(floor.longest_between(below, row)))
            below = row
        return lengths


@dataclass(frozen=True)
class Cabling:
    """The lengths of all links of a design on a floor.

    Attributes:
        counts: the design.
        floor: where racks stand.
        rack_units: height of a spine or core switch [rack units].
    """

    counts: Counts
    floor: Floor
    rack_units: int

    @cached_property
    def compute_racks(self) -> int:
        return -(-self.counts.nodes // self.floor.nodes_per_rack)

    @property
    def rows(self) -> int:
        """Rows of racks with nodes, one behind the other."""
        return -(-self.compute_racks // self.floor.per_row)

    @cached_property
    def centre(self) -> Any:
        """The rack beside which spines and cores stand: where the middle leaf does."""
        return self.leaf_rack(self.counts.leaves_per_plane // 2)

    @cached_property
    def leaf_racks(self) -> Integers:
        """Numbers of the racks beside which the leaves of a plane stand."""
        return np.asarray(self.leaf_rack(np.arange(self.counts.leaves_per_plane)))

    def leaf_rack(self, leaf: Any) -> Any:
        """Number of the rack beside which a leaf of a plane stands: the middle of its unit's or hosts' own."""
        counts = self.counts
        if counts.by_rail:
            return self.unit_rack(leaf // counts.rails)
        node = (leaf * counts.hosts_per_leaf + counts.hosts_per_leaf // 2) // maximum(counts.rails, 1)
        return self.node_rack(minimum(node, maximum(counts.nodes - 1, 0)))

    def node_rack(self, node: Any) -> Any:
        """Number of the rack a node stands in."""
        return node // self.floor.nodes_per_rack

    def unit_rack(self, unit: Any) -> Any:
        """Number of the rack beside which a unit's leaves stand: the middle of the unit's own."""
        first = self.node_rack(unit * self.counts.unit_nodes)
        last = self.node_rack(minimum((unit + 1) * self.counts.unit_nodes, self.counts.nodes) - 1)
        return (first + maximum(last, first)) // 2

    @cached_property
    def switches_per_rack(self) -> int:
        """Spines or cores that a rack of switches holds."""
        return self.floor.switches_per_rack(self.rack_units)

    def spine_rack(self, index: Any, switches: int) -> Any:
        """Number of the network rack in the middle of the hall that a spine or core stands in."""
        return _network_rack(self.centre, index, switches, self.switches_per_rack)

    def leaf_of(self, node: Any, rail: Any) -> Any:
        """Leaf within a plane that a host plugs into."""
        counts = self.counts
        if counts.by_rail:
            return minimum(node // counts.unit_nodes, counts.units - 1) * counts.rails + rail
        host = node * counts.rails + rail
        return minimum(host // max(counts.hosts_per_leaf, 1), counts.leaves_per_plane - 1)

    def hosts_before(self, node: Any, rail: Any, leaf: Any) -> Any:
        """Hosts of a leaf that come before a node's, which thereby has the next port."""
        counts = self.counts
        if counts.by_rail:
            return node - leaf // counts.rails * counts.unit_nodes
        return node * counts.rails + rail - leaf * max(counts.hosts_per_leaf, 1)

    def _rail_ends(self) -> tuple[Integers, Integers, Integers]:
        """The first of the nodes that share a rack and a unit, its place and that of its leaves, wired by rail."""
        counts, place = self.counts, self.floor.place
        nodes = np.arange(0, counts.nodes, gcd(self.floor.nodes_per_rack, counts.unit_nodes))
        units = place(self.leaf_racks[:: counts.rails])
        return nodes, place(self.node_rack(nodes)), units[np.minimum(nodes // counts.unit_nodes, counts.units - 1)]

    @cached_property
    def node_leaf(self) -> dict[float, int]:
        """Links of each length between nodes and leaves, of all planes, management links among them."""
        counts, place = self.counts, self.floor.place
        if counts.by_rail:
            nodes, node_places, leaf_places = self._rail_ends()
            links = _until_next(nodes, counts.nodes) * (counts.rails * counts.planes)
            table = self.floor.links_between(node_places, leaf_places, links)
        else:
            nodes, rails = np.arange(counts.nodes)[:, None], sampled_links(counts.nodes, counts.rails)
            each = np.array(counts.rails // len(rails) * counts.planes)
            leaf_places = place(self.leaf_racks)[self.leaf_of(nodes, rails)]
            table = self.floor.links_between(place(self.node_rack(nodes)), leaf_places, each)
        if counts.management_links:
            near = float(self.floor.lengths_between(0, 1))
            table[near] = table.get(near, 0) + counts.management_links * counts.planes
        return dict(sorted(table.items()))

    @cached_property
    def leaf_spine(self) -> dict[float, int]:
        """Links of each length between leaves and spines, of all planes."""
        leaves, up, spines = self._joining("leaf_spine")
        if not spines:
            return {}
        if dealing := self._dealing("leaf_spine"):
            return self._round_robin(dealing)
        uplinks = sampled_links(leaves, up)
        spine_racks = self.spine_rack(self.spine_of(np.arange(leaves)[:, None], uplinks), spines)
        return self._joined(self.leaf_racks[:, None], spine_racks, np.array(up // len(uplinks)))

    @cached_property
    def spine_core(self) -> dict[float, int]:
        """Links of each length between spines and cores, of all planes."""
        return self._upper("spine_core")

    @cached_property
    def core_super_core(self) -> dict[float, int]:
        """Links of each length above the cores, of all planes."""
        return self._upper("core_super_core")

    def _upper(self, level: str) -> dict[float, int]:
        lower, up, upper = self._joining(level)
        if not upper:
            return {}
        if dealing := self._dealing(level):
            return self._round_robin(dealing)
        uplinks = sampled_links(lower, up)
        upper_racks = self.spine_rack(self.upper_of(np.arange(lower)[:, None], uplinks, up, (lower, upper)), upper)
        lower_racks = self.spine_rack(np.arange(lower), lower)[:, None]
        return self._joined(lower_racks, upper_racks, np.array(up // len(uplinks)))

    def _joining(self, level: str) -> tuple[Any, Any, Any]:
        """Boxes below a level of switches in a plane, the links up of each, and switches above."""
        counts = self.counts
        if level == "leaf_spine":
            return counts.leaves_per_plane, counts.leaf_up, counts.spines_per_plane
        if level == "spine_core":
            return counts.spines_per_plane, counts.spine_up, counts.cores_per_plane
        return counts.cores_per_plane, counts.core_up, counts.super_cores // counts.planes

    def deals(self, level: str) -> bool:
        """Whether boxes deal out the links of a level of switches, and not too many to look at all."""
        if level not in DEALT or (level == "leaf_spine" and self.counts.rails_apart):
            return False
        lower, up, _ = self._joining(level)
        return bool(lower * up <= MOST_RUNS)

    def _dealt_among(self, level: str) -> tuple[Any, Any, Any]:
        """Boxes of a group that deals out its links among switches of its own, these, and those of the last group."""
        lower, _, upper = self._joining(level)
        if level == "leaf_spine":
            return self._groups(upper, lower)
        size, width = self._trees(lower, upper)
        return size, width, width

    def _dealing(self, level: str) -> "Dealing | None":
        """How boxes deal out the links of a level of switches; none where they do not, or too many to look at all."""
        if not self.deals(level):
            return None
        lower, up, upper = self._joining(level)
        size, width, last = self._dealt_among(level)
        if level == "leaf_spine":
            below = _runs(self.leaf_racks, size)
        else:
            below = self._network_row(lower) if size == lower else _runs(self.spine_rack(np.arange(lower), lower), size)
        return Dealing(below, upper, up, size, width, last)

    def _joined(self, near: Integers, far: Integers, links: Integers) -> dict[float, int]:
        """Links of each length between racks that have so many in a plane, of all planes."""
        place = self.floor.place
        return self.floor.links_between(place(near), place(far), links * self.counts.planes)

    def _network_row(self, switches: int) -> "Runs":
        """Switches in the middle of the hall, rack by rack."""
        first = np.arange(0, switches, self.switches_per_rack)
        return Runs(first, _until_next(first, switches), self.spine_rack(first, switches))

    def _round_robin(self, dealing: "Dealing") -> dict[float, int]:
        """Links of each length where boxes deal out their links one after another, in groups of their own above.

        The boxes of a run deal as one: round after round, and then to some in a row. So a rack above gets as many of
        each round as it has switches, and of the rest what falls on them.
        """
        above, widths = self._network_row(dealing.switches), dealing.widths
        at_once = max(MOST_DEALT * self.switches_per_rack // max(dealing.width, dealing.last), 1)
        total: Counter[float] = Counter()
        for begin in range(0, len(widths), at_once):
            some = slice(begin, begin + at_once)
            total.update(self._dealt(dealing.below.at(some), above, dealing, widths[some, None]))
        return dict(sorted(total.items()))

    def _dealt(self, below: "Runs", above: "Runs", dealing: "Dealing", group_width: Integers) -> dict[float, int]:
        """The same of some runs of boxes, whose groups have so many switches above them."""
        up, size, width = dealing.up, dealing.size, dealing.width
        start = (below.first % size * up)[:, None] % group_width
        links = (below.boxes * up)[:, None]
        end = start + links % group_width
        # Only the racks that a group's own switches stand in: with many groups they are few of all.
        begin, most = (below.first // size * width)[:, None], int(group_width.max())
        rack = begin // self.switches_per_rack + np.arange(-(-most // self.switches_per_rack) + 1)
        run = np.minimum(rack, len(above.first) - 1)
        low = above.first[run] - begin
        high = np.minimum(low + np.where(rack == run, above.boxes[run], 0), group_width)
        low = np.minimum(np.maximum(low, 0), high)
        left = np.maximum(np.minimum(high, end) - np.maximum(low, start), 0)
        wrapped = np.maximum(np.minimum(high, end - group_width) - low, 0)
        dealt = links // group_width * (high - low) + left + wrapped
        return self._joined(below.rack[:, None], above.rack[run], dealt)

    @staticmethod
    def stacked(several: Sequence["Cabling"]) -> "Cabling":
        """Several on one floor that stand alike, in columns."""
        first = several[0]
        columns: Any = np.array([each.counts for each in several], np.int64).T
        alike = {name: getattr(first.counts, name) for name in ALIKE}
        return Cabling(Counts(*columns)._replace(**alike), first.floor, first.rack_units)

    def longest_dealt(self, level: str) -> list[float]:
        """The longest run of a level of each of some designs in columns that deal it out [m].

        The links of a rack's boxes go to switches side by side, from one of their group to its last and on from its
        first: to the farthest rack that these stand in.
        """
        columns = np.array([*self._joining(level), *self._dealt_among(level), self.centre])
        blocks = self._side_by_side(level, columns[0], columns[3])
        many = -(-columns[0] // blocks)
        design = np.repeat(np.arange(len(many)), many)
        lower, up, upper, size, width, last, centre = columns[:, design]
        block = blocks[design]
        box = counted_off(many) * block
        rack = self._box_racks(level, design, box, lower, centre)
        group = box // size
        begin, width = group * width, np.where(group == (lower - 1) // size, last, width)
        links = np.minimum(np.minimum(block, lower - box) * up, width)
        start = np.where(links == width, 0, box % size * up % width)

        def farthest(some: Any, first: Integers, end: Integers) -> Any:
            ends = (
                _network_rack(centre[some], index, upper[some], self.switches_per_rack) for index in (first, end - 1)
            )
            return self.floor.farthest_beside(rack[some], *ends)

        end = start + links
        reached = farthest(slice(None), begin + start, begin + np.minimum(end, width))
        over = np.flatnonzero(end > width)
        if len(over):
            wrapped = farthest(over, begin[over], (begin + end - width)[over])
            reached[over] = np.maximum(reached[over], wrapped)
        longest = np.maximum.reduceat(reached, np.cumsum(many) - many)
        return [self.floor.lengths[length] for length in longest.tolist()]

    def _side_by_side(self, level: str, lower: Integers, size: Integers) -> Integers:
        """Boxes whose links up are of a level that are sure to stand in one rack and to be of one group, of so many."""
        rails = self.counts.rails if self.counts.by_rail else np.ones_like(lower)
        in_a_rack = rails if level == "leaf_spine" else np.full_like(lower, self.switches_per_rack)
        return np.where(size < lower, np.gcd(in_a_rack, size), in_a_rack)

    def _box_racks(self, level: str, design: Integers, box: Integers, boxes: Integers, centre: Integers) -> Integers:
        """Numbers of the racks that some boxes stand in, of so many, whose links up are of a level."""
        if level != "leaf_spine":
            return np.asarray(_network_rack(centre, box, boxes, self.switches_per_rack))
        names = ("nodes", "rails", "unit_nodes", "leaf_down")
        counts = self.counts._replace(**{name: getattr(self.counts, name)[design] for name in names})
        return np.asarray(Cabling(counts, self.floor, self.rack_units).leaf_rack(box))

    def longest(self, level: str) -> float:
        """The longest run of a level as sold: from every rack of one end to every rack of the other [m].

        Of nodes to switches that are joined to one another at least to the rack after the next: where a few racks stand
        beside their switches depends on their number, and a larger network is not to have shorter runs.
        """
        counts, floor = self.counts, self.floor
        if level == "peer":
            return float(max(self.peer))
        if counts.by_rail:
            return self._longest_by_rail[level]
        if level == "node_leaf":
            near = [float(floor.lengths_between(0, 1))] if counts.management_links else []
            if counts.peers:
                near.append(float(floor.lengths_between(0, 2)))
            return max(*(self._farthest_node(rail) for rail in (0, counts.rails - 1)), *near)
        spines, cores = counts.spines_per_plane, counts.cores_per_plane
        tops = counts.super_cores // counts.planes
        below, above = {"leaf_spine": (0, spines), "spine_core": (spines, cores), "core_super_core": (cores, tops)}[
            level
        ]
        near_ends = self.network_row_extent(below) if below else floor.extent(self.leaf_racks)
        return float(floor.longest_between(near_ends, self.network_row_extent(above)))

    def _farthest_node(self, rail: int) -> float:
        """The longest run from a leaf to the nodes whose host of a rail it has, which stand side by side [m]."""
        counts = self.counts
        first_host = np.arange(counts.leaves_per_plane) * max(counts.hosts_per_leaf, 1)
        first = -(-np.maximum(first_host - rail, 0) // counts.rails)
        last = np.append(first[1:], counts.nodes) - 1
        some = first <= np.minimum(last, counts.nodes - 1)
        ends = (self.node_rack(np.minimum(each[some], counts.nodes - 1)) for each in (first, last))
        return self.floor.lengths[int(self.floor.farthest_beside(self.leaf_racks[some], *ends).max())]

    def joins_all(self, level: str) -> bool:
        """Whether links of a level that are as long as `longest` says are sure to be among its runs: those of nodes by
        rail, and those of two tiers of which every leaf has a link to every spine.
        """
        counts = self.counts
        if not counts.by_rail or counts.rails_apart:
            return counts.by_rail and level == "node_leaf"
        to_every = counts.leaf_up >= counts.spines_per_plane and counts.leaves_per_plane * counts.leaf_up <= MOST_RUNS
        return level == "node_leaf" or (level == "leaf_spine" and counts.tiers == 2 and to_every)

    @cached_property
    def _longest_by_rail(self) -> dict[str, float]:
        """The longest run of each level, wired by rail."""
        counts = self.counts
        leaves, above = counts.leaves_per_plane, counts.super_cores // counts.planes
        runs = RailRuns.of(
            counts.nodes, counts.unit_nodes, counts.rails,
            (leaves, counts.spines_per_plane, counts.cores_per_plane, above), counts.management_links,
        )  # fmt: skip
        return {level: float(lengths[0]) for level, lengths in runs.longest(self.floor, self.switches_per_rack).items()}

    def network_row_extent(self, switches: int) -> Extent:
        """How far the racks in the middle of the hall reach that so many spines or cores fill."""
        return self.floor.row_extent(self.centre, switches, self.switches_per_rack)

    @cached_property
    def peer(self) -> dict[float, int]:
        """Links of each length between equals: half the hall apart on average."""
        if not self.counts.peers:
            return {}
        length = float(self.floor.lengths_between(0, max(1, self.compute_racks // 2)))
        return {length: self.counts.peers}

    def spine_of(self, leaf: Any, uplink: Integers) -> Integers:
        """Spine within a plane that an uplink of a leaf goes to.

        In two tiers every spine gets the same number of a leaf's links, side by side. In three tiers leaves form groups
        as large as a spine's down-ports, and each group has spines of its own.
        """
        counts = self.counts
        spines = counts.spines_per_plane
        if counts.rails_apart:
            each = spines // counts.rails
            rail, place = leaf % counts.rails, leaf // counts.rails
            return np.asarray(rail * each + self._in_group(place, uplink, each, counts.units))
        return self._in_group(leaf, uplink, spines, counts.leaves_per_plane)

    def _groups(self, spines: Any, leaves: Any) -> tuple[Any, Any, Any]:
        """Leaves of a group that has spines of its own, its spines, and those of the last group."""
        counts = self.counts
        if counts.tiers == 2:
            return leaves, spines, spines
        groups = maximum(1, -(-leaves // maximum(counts.spine_down, 1)))
        size, width = -(-leaves // groups), spines // groups
        uneven = (spines % groups > 0) | (size * counts.leaf_up > width * counts.spine_down)
        size, width = where(uneven, counts.spine_down, size), where(uneven, counts.leaf_up, width)
        return size, width, maximum(spines - width * (groups - 1), 1)

    def _in_group(self, leaf: Any, uplink: Integers, spines: int, leaves: int) -> Integers:
        counts = self.counts
        if counts.tiers == 2:
            return np.asarray(uplink * spines // max(counts.leaf_up, 1) + 0 * leaf)
        size, width, last = self._groups(spines, leaves)
        group = leaf // size
        group_width = np.where(group == (leaves - 1) // size, last, max(width, 1))
        return np.asarray(group * width + (leaf % size * counts.leaf_up + uplink) % group_width)

    def upper_of(self, lower: Any, uplink: Integers, up: int, many: tuple[int, int]) -> Integers:
        """Core within a plane that an uplink of a spine goes to, or super-core of a core: dealt out one after another.

        Rails that nothing joins are dealt to cores of their own. ``many`` is how many stand below and above.
        """
        below, above = self._trees(*many)
        return np.asarray(lower // below * above + (lower % below * up + uplink) % above)

    def _trees(self, below: Any, above: Any) -> tuple[Any, Any]:
        """Boxes of a tree, and what stands above them: rails that nothing joins are trees of their own."""
        trees = self.counts.rails if self.counts.layout == layouts.RAIL_ONLY else 1
        return maximum(below // trees, 1), maximum(above // trees, 1)


ALIKE = ("layout", "tiers", "rail_spines")
"""What designs have in common that stand in columns: one rule says where their leaves stand."""
DEALT = ("leaf_spine", "spine_core", "core_super_core")
"""Levels whose links boxes of one tier deal out among those of the next."""


def longest_runs(several: Sequence[Cabling], level: str, bounds: Sequence[float]) -> list[float]:
    """The longest of the runs that a level of each design has, which is no longer than `longest` says, as sold [m].

    Of designs that deal it out and stand alike at once: of fourteen in a seventh of the time of one after another.
    """
    longest = [*bounds]
    alike: dict[Any, list[int]] = {}
    for place, cabling in enumerate(several):
        if cabling.joins_all(level):
            continue
        if cabling.deals(level):
            kind = *(getattr(cabling.counts, name) for name in ALIKE), cabling.floor, cabling.rack_units
            alike.setdefault(kind, []).append(place)
        else:
            longest[place] = float(max(getattr(cabling, level)))
    for places in alike.values():
        lengths = Cabling.stacked([several[place] for place in places]).longest_dealt(level)
        for place, length in zip(places, lengths, strict=True):
            longest[place] = length
    return longest


class Runs(NamedTuple):
    """Boxes side by side in one rack.

    Attributes:
        first: the first box of each run [1].
        boxes: how many follow one another [1].
        rack: number of the rack they stand in [1].
    """

    first: Integers
    boxes: Integers
    rack: Integers

    def at(self, some: slice) -> "Runs":
        """Some of them."""
        return Runs(*(column[some] for column in self))


class Dealing(NamedTuple):
    """Boxes that deal out their links one after another, in groups that have switches of their own above.

    Attributes:
        below: the boxes, by rack and group.
        switches: switches above [1].
        up: links up of a box [1].
        size, width, last: boxes of a group and switches above it, and those above the last group [1].
    """

    below: Runs
    switches: int
    up: int
    size: int
    width: int
    last: int

    @property
    def widths(self) -> Integers:
        """Switches above the group of each run of boxes [1]."""
        group = self.below.first // self.size
        return np.where(group == group[-1], self.last, self.width)


def _network_rack(centre: Any, index: Any, switches: Any, per_rack: Any) -> Any:
    """Number of the rack that a spine or core stands in, of the racks around one that hold them all.

    >>> [_network_rack(8, index, 20, 6) for index in (0, 11, 19)], _network_rack(0, 0, 20, 6)
    ([6, 7, 9], 0)
    """
    racks = -(-switches // per_rack)
    return maximum(centre + index // per_rack - racks // 2, 0)


def _runs(racks: Integers, size: int) -> Runs:
    """Boxes by their racks, as runs that lie in one group of so many.

    >>> [run.tolist() for run in _runs(np.array([5, 5, 5, 5, 6]), 3)]
    [[0, 3, 4], [3, 1, 1], [5, 5, 6]]
    """
    group = np.arange(len(racks)) // size
    first = changes(racks, group)
    return Runs(first, _until_next(first, len(racks)), racks[first])


def _until_next(first: Integers, end: int) -> Integers:
    """Items of each run, from its first to the next run's or the end.

    >>> _until_next(np.array([0, 3, 7]), 8).tolist()
    [3, 4, 1]
    """
    return np.concatenate((first[1:], [end])) - first


def sampled_links(boxes: int, links: int) -> Integers:
    """Numbers of a box's links to look at: all, or, where they are too many, the one in the middle.

    >>> sampled_links(32, 3).tolist(), sampled_links(10**6, 64).tolist()
    ([0, 1, 2], [32])
    """
    return np.arange(links) if boxes * links <= MOST_RUNS else np.arange(links // 2, links // 2 + 1)
