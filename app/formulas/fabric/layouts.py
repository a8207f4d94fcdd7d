"""Switches, links and bisection of a GPU cluster's network.

The words, as the field uses them:

- *radix* k: ports of a switch, counted at the speed of a link between switches.
- *host*: a network port of a node (a NIC, or one of its ports). A node has one host on every *rail*.
- *leaf*: the switch hosts plug into; d ports face down, u face up. *Spine* joins leaves, *core* joins spines.
- *oversubscription* o = d : u; 1 is non-blocking.
- *rail-optimized*: NIC i of every node of a group plugs into the same leaf, so a group of nodes has R leaves.
- *unit*: the nodes that share one set of R leaves. A scalable unit is always built whole.
- *plane*: one of several equal, independent networks; a NIC of several ports has one in each.

Every function takes numbers or arrays that broadcast against one another and works elementwise, so that one call
designs one cluster or a hundred thousand. What cannot be built comes back as ``nan`` with a reason, not an exception.

Sources: Leiserson, "Fat-trees", IEEE Trans. Computers C-34(10), 1985; Al-Fares, Loukissas, Vahdat, "A scalable,
commodity data center network architecture", SIGCOMM 2008 (k^3/4 hosts in three tiers); NVIDIA DGX SuperPOD reference
architectures RA-11333 (H100), RA-11334 (B200), RA-11337 and RA-11339 (B300), tables 3 and 4, for units, management
links and the number of spines; Kim, Dally, Scott, Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA
2008; Dally, Towles, "Principles and practices of interconnection networks", 2004, chapters 3 and 5 (tori).
"""

from __future__ import annotations

from math import floor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, maximum, where

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
SLACK: Final = 1e-9  # a ratio such as 16/15 is not exact in binary


class Design(NamedTuple):
    """Counts of a fabric, all planes together; every field is an array of the shape of the request, or a number.

    Attributes:
        reason: why it cannot be built, an index into ``REASONS``; 0 when it can.
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
        enough_spines: whether the wished-for minimum of spines was reached.
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
        return Design(*(field[index] for field in self))


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


def nan_unless(condition: Booleans) -> Booleans:
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
    """What is asked for: numbers or arrays, whole save for the tapers."""

    nodes: Array
    rails: Array
    radix: Array
    spine_radix: Array
    core_radix: Array
    hosts_per_port: Array
    planes: Array
    oversubscription: Array
    spine_oversubscription: Array
    nodes_per_unit: Array
    management_links: Array
    minimum_spines: Array
    tiers: Array
    layout: Array
    plain: Booleans
    """A tree that knows no rails."""
    only: Booleans
    """Rails that nothing joins."""
    apart: Booleans
    """Each rail a tree of its own, up to the spines."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        shapes = {field.shape for field in self if isinstance(field, np.ndarray)}
        return shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)

    def made_safe(self, usable: Booleans) -> FabricRequest:
        """The same with harmless numbers where the wish is unusable, so that arithmetic runs through."""
        return self._replace(
            nodes=maximum(self.nodes, 1),
            rails=maximum(self.rails, 1),
            radix=maximum(self.radix, 2),
            spine_radix=maximum(self.spine_radix, 2),
            core_radix=maximum(self.core_radix, 2),
            oversubscription=where(usable, self.oversubscription, 1.0),
            spine_oversubscription=where(usable, self.spine_oversubscription, 1.0),
        )


def usable(request: FabricRequest) -> tuple[Array, Booleans]:
    """First complaint about a request, before any switch is counted."""
    tapers_fit: Booleans = True
    for taper in (request.oversubscription, request.spine_oversubscription):
        tapers_fit = tapers_fit & (taper > 0) & (taper < 2**31)
    reason = where(tapers_fit, where((request.tiers > MOST_TIERS) | (request.tiers < 0), TOO_MANY_TIERS, BUILT),
                   TAPER_TOO_WIDE)  # fmt: skip
    for ports in (request.radix, request.spine_radix, request.core_radix):
        reason = where(ports < 2, RADIX_TOO_SMALL, reason)
    reason = where((request.nodes < 1) | (request.rails < 1), NO_HOSTS, reason)
    return reason, reason == BUILT
