"""What is asked of a fabric and what it comes to: topologies, reasons, the request and the design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import floor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.formulas.arrays import Array, any_, maximum, where

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = Any
"""True or false, or an array of them."""

LAYOUTS: Final = (
    "rail-optimized",
    "fat-tree",
    "rail-only",
    "two-switch",
    "mesh",
    "torus-2d",
    "torus-3d",
    "dragonfly",
)
RAIL_OPTIMIZED, FAT_TREE, RAIL_ONLY, TWO_SWITCH, MESH, TORUS_2D, TORUS_3D, DRAGONFLY = range(len(LAYOUTS))
APPROXIMATE: Final = (MESH, TORUS_2D, TORUS_3D, DRAGONFLY)

REASONS: Final = (
    "built",
    "no-hosts",
    "taper-too-wide",
    "too-many-hosts",
    "too-many-tiers",
    "radix-too-small",
)
BUILT, NO_HOSTS, TAPER_TOO_WIDE, TOO_MANY_HOSTS, TOO_MANY_TIERS, RADIX_TOO_SMALL = range(len(REASONS))

MOST_TIERS: Final = 4
MOST_OF_ANYTHING: Final = 2**40
"""Counts beyond this are cut off: no cluster has so many of anything."""
WIDEST_TAPER: Final = 2**31
"""Wider tapers are refused: no switch has so many ports."""
SLACK: Final = 1e-9
"""A ratio such as 16/15 is not exact in binary."""


class Design(NamedTuple):
    """Counts of a fabric, all planes together; every field is an array of the shape of the request, or a number.

    Attributes:
        reason: why it cannot be built, an index into ``REASONS``; 0 when it can [1].
        tiers: tiers of switches [1].
        units: groups of nodes that share a set of leaves, in one plane [1].
        unit_nodes: nodes one such group holds [1].
        unit_hosts: hosts that a leaf's uplinks are reckoned for [1].
        leaf_down, leaf_up: hosts a leaf can take, and its links up [1].
        spine_down, spine_up: links a spine can take from below, and its links up [1].
        core_up: links up of a core, where there are four tiers [1].
        leaf_switches, spine_switches, core_switches, super_core_switches: switches per tier [1].
        node_leaf, leaf_spine, spine_core, core_super_core: links between tiers [1].
        peer: links between equals, where the topology has no tiers [1].
        leaf_free, spine_free, core_free, super_core_free: ports left over per tier, at link speed [1].
        hosts: NIC ports in use, management links not among them [1].
        bisection_leaf, bisection_spine, bisection_core: links' worth of host speed across the worst equal halves, one
            way: of what hosts can offer, across leaves, and across groups of spines [1].
        crosses_rails: whether a packet can change rail inside the fabric.
        hops: switches on the longest shortest path [1].
        most_nodes: nodes this number of tiers carries before another is needed [1].
        spare_nodes: nodes that still fit into the leaves already built [1].
        balanced: whether every pair of neighbouring switches gets the same whole number of links.
        enough_spines: whether the minimum of spines that was asked for is reached.
    """

    reason: Integers
    tiers: Floats
    units: Floats
    unit_nodes: Floats
    unit_hosts: Floats
    leaf_down: Floats
    leaf_up: Floats
    spine_down: Floats
    spine_up: Floats
    core_up: Floats
    leaf_switches: Floats
    spine_switches: Floats
    core_switches: Floats
    super_core_switches: Floats
    node_leaf: Floats
    leaf_spine: Floats
    spine_core: Floats
    core_super_core: Floats
    peer: Floats
    leaf_free: Floats
    spine_free: Floats
    core_free: Floats
    super_core_free: Floats
    hosts: Floats
    bisection_leaf: Floats
    bisection_spine: Floats
    bisection_core: Floats
    crosses_rails: NDArray[np.bool_]
    hops: Floats
    most_nodes: Floats
    spare_nodes: Floats
    balanced: NDArray[np.bool_]
    enough_spines: NDArray[np.bool_]

    @property
    def switches(self) -> Floats:
        """Switches of all tiers [1]."""
        return self.leaf_switches + self.spine_switches + self.core_switches + self.super_core_switches

    @property
    def switch_links(self) -> Floats:
        """Links with a switch at both ends [1]."""
        return self.leaf_spine + self.spine_core + self.core_super_core + self.peer

    @property
    def bisection(self) -> Floats:
        """Links' worth of host speed across the worst equal halves of the whole cluster, one way [1]."""
        return np.fmin(np.fmin(self.bisection_leaf, self.bisection_spine), self.bisection_core)

    def at(self, *index: Any) -> Design:
        """Some of an array of designs."""
        return Design._make([field[index] for field in self])

    def each(self) -> list[Design]:
        """Every one of an array of designs, equal ones once: in half the time that `at` takes for each, or less."""
        keys = [row.tobytes() for row in np.array(self, np.float64).T.copy()]
        first = {key: place for place, key in reversed([*enumerate(keys)])}
        different = self.at([*first.values()])
        designs = dict(zip(first, map(Design._make, zip(*different, strict=True)), strict=True))
        return [designs[key] for key in keys]

    @staticmethod
    def stacked(designs: Sequence[Design]) -> Design:
        """Several designs, in columns: in a fifth of the time that it takes field by field.

        >>> blank = Design._make(np.float64(number) for number in range(len(Design._fields)))
        >>> several = Design.stacked([blank, blank._replace(tiers=3.0)])
        >>> several.tiers.tolist(), several.reason.tolist(), several.balanced.tolist()
        ([1.0, 3.0], [0, 0], [True, True])
        """
        fields = Design._fields
        numbers = np.fromiter(chain.from_iterable(designs), np.float64, len(designs) * len(fields))
        columns = dict(zip(fields, numbers.reshape(-1, len(fields)).T.copy(), strict=True))
        statements = {name: columns[name] != 0 for name in STATEMENTS}
        return Design(**(columns | statements | {"reason": columns["reason"].astype(np.int64)}))

    @staticmethod
    def of(request: FabricRequest, reason: Array, in_a_plane: Mapping[str, Array], **others: Any) -> Design:
        """A design from its counts, by name.

        Args:
            request: what was asked; says how many planes there are.
            reason: why it cannot be built; where it cannot, no count is a number.
            in_a_plane: counts of one plane, which are given for all planes together [1].
            others: counts that are the same however many planes there are, and what is true or false; without a word
                counts are 0, and statements true.
        """
        shape, planes = request.shape, request.planes
        values = [in_a_plane[name] * planes if name in in_a_plane else others.get(name, 0) for name in COUNTS]
        counts = np.empty((len(COUNTS), *shape)) if shape else np.array(values, dtype=np.float64)
        if shape:
            for row, value in enumerate(values):
                counts[row] = value
        if any_(reason != BUILT):
            counts[:, np.broadcast_to(reason != BUILT, shape)] = np.nan
        return Design(
            reason=_filled(reason, shape, np.int64),
            **dict(zip(COUNTS, counts, strict=True)),
            **{name: _filled(others.get(name, True), shape, np.bool_) for name in STATEMENTS},
        )


STATEMENTS: Final = ("crosses_rails", "balanced", "enough_spines")
COUNTS: Final = tuple(name for name in Design._fields if name not in ("reason", *STATEMENTS))


def _filled(values: Booleans | Array, shape: tuple[int, ...], kind: type) -> Any:
    """Values of the shape of the request."""
    if not shape:
        return kind(values)
    values = np.asarray(values, dtype=kind)
    return values if values.shape == shape else np.broadcast_to(values, shape)


def ceil_divide(dividend: Array, divisor: Array) -> Array:
    """Smallest whole number not below the quotient.

    >>> ceil_divide(7, 2)
    4
    """
    return -(-dividend // divisor)


def floor_of_ratio(value: Array) -> Array:
    """Whole part, forgiving the last bit of a ratio.

    >>> floor_of_ratio(64 / (16 / 15))
    60
    """
    return np.floor(value + SLACK).astype(np.int64) if isinstance(value, np.ndarray) else floor(value + SLACK)


def ceil_of_ratio(value: Array) -> Array:
    """Smallest whole number not below a ratio, forgiving its last bit.

    >>> ceil_of_ratio(60 / 7), ceil_of_ratio(60 * (16 / 15))
    (9, 64)
    """
    return -floor_of_ratio(-value)


def logical_not(condition: Booleans) -> Booleans:
    """Where a condition does not hold."""
    return ~condition if isinstance(condition, np.ndarray) else not condition


def down_ports(radix: Array, oversubscription: Array) -> Array:
    """Ports of a switch that face down at a given taper, d = floor(k o / (1 + o)).

    Args:
        radix: ports of the switch, k [1].
        oversubscription: ports down per port up, o [1].

    Source: FABRIC formulas of the leaf-spine Clos; d + d/o may not exceed k.

    >>> [int(down_ports(64, taper)) for taper in (1, 2, 3)]
    [32, 42, 48]
    """
    return floor_of_ratio(radix * oversubscription / (1 + oversubscription))


class FabricRequest(NamedTuple):
    """What a fabric is to carry, and of which switches: numbers, or arrays that broadcast against one another.

    Attributes:
        nodes: nodes, N [1].
        rails: hosts a node has in each plane, R [1].
        radix: ports of a leaf at the speed of a link between switches, k [1].
        spine_radix, core_radix: the same for spines, and for cores; 0 means as the tier below [1].
        hosts_per_port: hosts that share a leaf port by breakout, b; 2 for 200 Gb/s hosts on 400 Gb/s ports [1].
        planes: equal independent networks [1].
        oversubscription, spine_oversubscription: taper at the leaf, o, and with three tiers at the spine [1].
        nodes_per_unit: nodes of a scalable unit; 0 means as many as the leaf's ports allow [1].
        leaf_hosts: hosts of a leaf of a plain fat tree, at most as many as the taper allows; 0 means as many [1].
        uplinks: links up of a leaf, at least as many as the taper asks for and its ports allow; 0 means as few [1].
        management_links: fabric-manager links that take host ports, M [1].
        minimum_spines: fewest spines of a plane, for what remains when one fails [1].
        rail_spines: whether each rail has spines of its own.
        tiers: 1 to 4; 0 means the fewest that suffice [1].
        layout: index into ``LAYOUTS`` [1].
    """

    nodes: Any
    rails: Any
    radix: Any
    spine_radix: Any = 0
    core_radix: Any = 0
    hosts_per_port: Any = 1
    planes: Any = 1
    oversubscription: Any = 1.0
    spine_oversubscription: Any = 1.0
    nodes_per_unit: Any = 0
    leaf_hosts: Any = 0
    uplinks: Any = 0
    management_links: Any = 0
    minimum_spines: Any = 0
    rail_spines: Any = False
    tiers: Any = 0
    layout: Any = RAIL_OPTIMIZED

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        shapes = {field.shape for field in self if isinstance(field, np.ndarray)}
        if len(shapes) > 1:
            return np.broadcast_shapes(*shapes)
        return shapes.pop() if shapes else ()

    @property
    def is_fat_tree(self) -> Booleans:
        """Whether it is a tree that knows no rails."""
        return self.layout == FAT_TREE

    @property
    def is_rail_only(self) -> Booleans:
        """Whether nothing joins the rails."""
        return self.layout == RAIL_ONLY

    @property
    def separate_rails(self) -> Booleans:
        """Whether each rail is a tree of its own, up to the spines."""
        return self.is_rail_only | (self.rail_spines & logical_not(self.is_fat_tree))

    @property
    def hosts(self) -> Array:
        """Hosts of a plane with the fabric managers' links, h = N R + M [1]."""
        hosts: Array = self.nodes * self.rails + self.management_links
        return hosts

    def at(self, rows: Booleans) -> FabricRequest:
        """Some of an array of requests."""
        return FabricRequest(*(np.broadcast_to(field, self.shape)[rows] for field in self))

    def in_whole_numbers(self) -> FabricRequest:
        """The same with counts that can be computed with: whole, not negative, and no blank radix."""
        leaf_radix = _whole(self.radix, 0)
        spine_radix, core_radix = _whole(self.spine_radix), _whole(self.core_radix)
        spine_radix = where(spine_radix > 0, spine_radix, leaf_radix)
        return FabricRequest(
            nodes=_whole(self.nodes),
            rails=_whole(self.rails, 0),
            radix=leaf_radix,
            spine_radix=spine_radix,
            core_radix=where(core_radix > 0, core_radix, spine_radix),
            hosts_per_port=_whole(self.hosts_per_port, 1),
            planes=_whole(self.planes, 1),
            oversubscription=_real(self.oversubscription),
            spine_oversubscription=_real(self.spine_oversubscription),
            nodes_per_unit=_whole(self.nodes_per_unit),
            leaf_hosts=_whole(self.leaf_hosts, 0),
            uplinks=_whole(self.uplinks, 0),
            management_links=_whole(self.management_links, 0),
            minimum_spines=_whole(self.minimum_spines, 0),
            rail_spines=_whole(self.rail_spines) != 0,
            tiers=_whole(self.tiers),
            layout=_whole(self.layout),
        )

    def computable(self, usable: Booleans) -> FabricRequest:
        """The same with harmless numbers where the request is unusable, so that arithmetic runs through."""
        return self._replace(
            nodes=maximum(self.nodes, 1),
            rails=maximum(self.rails, 1),
            radix=maximum(self.radix, 2),
            spine_radix=maximum(self.spine_radix, 2),
            core_radix=maximum(self.core_radix, 2),
            oversubscription=where(usable, self.oversubscription, 1.0),
            spine_oversubscription=where(usable, self.spine_oversubscription, 1.0),
        )

    def complaint(self) -> tuple[Array, Booleans]:
        """What is wrong with the request before any switch is counted, and whether nothing is."""
        tapers_fit: Booleans = True
        for taper in (self.oversubscription, self.spine_oversubscription):
            tapers_fit = tapers_fit & (taper > 0) & (taper < WIDEST_TAPER)
        reason = where((self.tiers > MOST_TIERS) | (self.tiers < 0), TOO_MANY_TIERS, BUILT)
        reason = where(tapers_fit, reason, TAPER_TOO_WIDE)
        for ports in (self.radix, self.spine_radix, self.core_radix):
            reason = where(ports < 2, RADIX_TOO_SMALL, reason)
        reason = where((self.nodes < 1) | (self.rails < 1), NO_HOSTS, reason)
        return reason, reason == BUILT


def _number(value: ArrayLike) -> Any:
    """A number as Python has it, or an array."""
    if isinstance(value, int | float):
        return value
    array = np.asarray(value)
    return array if array.ndim else array.item()


def _whole(value: ArrayLike, least: int = -MOST_OF_ANYTHING) -> Array:
    """Whole numbers of a size that can be computed with; what is not a number counts as none."""
    if isinstance(value, int):
        return max(least, min(value, MOST_OF_ANYTHING))
    number = _number(value)
    if isinstance(number, np.ndarray):
        if number.dtype == np.int64:
            return np.maximum(np.minimum(number, MOST_OF_ANYTHING), least)
        counts: Floats = np.maximum(
            np.nan_to_num(np.clip(number, -MOST_OF_ANYTHING, MOST_OF_ANYTHING), nan=0.0).astype(np.int64), least
        )
        return counts
    return max(least, int(min(number, MOST_OF_ANYTHING))) if number == number else max(least, 0)


def _real(value: ArrayLike) -> Array:
    number = _number(value)
    return number.astype(np.float64) if isinstance(number, np.ndarray) else float(number)
