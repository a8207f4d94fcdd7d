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

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = float | NDArray[np.float64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

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

_MOST_TIERS: Final = 4
_SLACK: Final = 1e-9  # a ratio such as 16/15 is not exact in binary


@dataclass(frozen=True)
class Design:
    """Counts of a fabric, all planes together; every field is an array of the shape of the request.

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
    crosses_rails: Booleans
    hops: Floats
    most_nodes: Floats
    spare_nodes: Floats
    balanced: Booleans
    enough_spines: Booleans

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


def _ceil_divide(dividend: ArrayLike, divisor: ArrayLike) -> Integers:
    """Smallest whole number not below the quotient.

    >>> int(_ceil_divide(7, 2))
    4
    """
    return np.asarray(-(-np.asarray(dividend) // np.asarray(divisor)))


def _floor(value: ArrayLike) -> Integers:
    """Whole part, forgiving the last bit of a ratio.

    >>> int(_floor(64 / (16 / 15)))
    60
    """
    return np.floor(np.asarray(value, dtype=np.float64) + _SLACK).astype(np.int64)


def down_ports(radix: ArrayLike, oversubscription: ArrayLike) -> Integers:
    """Ports of a switch that face down at a given taper, d = floor(k o / (1 + o)).

    Args:
        radix: ports of the switch, k [1].
        oversubscription: ports down per port up, o [1].

    Source: FABRIC formulas of the leaf-spine Clos; d + d/o may not exceed k.

    >>> [int(down_ports(64, taper)) for taper in (1, 2, 3)]
    [32, 42, 48]
    """
    return _floor(np.asarray(radix) * np.asarray(oversubscription) / (1 + np.asarray(oversubscription)))


def full_tree_hosts(radix: ArrayLike, tiers: ArrayLike) -> Integers:
    """Hosts of a full non-blocking tree of t tiers of k-port switches, 2 (k/2)^t.

    >>> [int(full_tree_hosts(64, tiers)) for tiers in (1, 2, 3)]
    [64, 2048, 65536]
    >>> int(full_tree_hosts(144, 2))
    10368
    """
    return np.asarray(2 * (np.asarray(radix) // 2) ** np.asarray(tiers))


def full_tree_switches(radix: ArrayLike, tiers: ArrayLike) -> Integers:
    """Switches of that full tree, (2t - 1) (k/2)^(t-1): k + k/2 for two tiers, 5k^2/4 for three.

    >>> [int(full_tree_switches(64, tiers)) for tiers in (1, 2, 3)]
    [1, 96, 5120]
    """
    return np.asarray((2 * np.asarray(tiers) - 1) * (np.asarray(radix) // 2) ** (np.asarray(tiers) - 1))


def smallest_divisor(number: ArrayLike, least: ArrayLike) -> Integers:
    """Smallest divisor of a number that is not below another; the number itself when none is.

    A leaf spreads its u uplinks evenly only over a number of spines that divides u. Uneven bundles unbalance adaptive
    routing and in-network reduction.

    Source: the rule reproduces the spine counts of NVIDIA's tables, e.g. 16 spines (not 12) for 3 units of DGX H100
    (RA-11333 table 4) and 36 (not 32) for 8 units of DGX B300 on 144-port switches (RA-11339 table 3).

    >>> int(smallest_divisor(32, 12)), int(smallest_divisor(72, 32))
    (16, 36)
    """
    numbers, floors = np.broadcast_arrays(np.asarray(number, dtype=np.int64), np.asarray(least, dtype=np.int64))
    result = numbers.copy()
    for value in np.unique(numbers[numbers > 0]):
        candidates = np.arange(1, value + 1)
        divisors = candidates[value % candidates == 0]
        here = numbers == value
        result[here] = divisors[np.minimum(np.searchsorted(divisors, floors[here]), len(divisors) - 1)]
    return result


def scale_up_bisection(gpus: ArrayLike, bandwidth: ArrayLike) -> Floats:
    """Bisection of a switched scale-up domain, one way: half its GPUs send at full rate, g/2 · B [B/s].

    Args:
        gpus: GPUs in the domain, g [1].
        bandwidth: of one GPU in one direction, B [B/s].

    Source: NVIDIA quotes both directions: HGX H100 with 8 GPUs of 900 GB/s both ways has 3.6 TB/s, so 1.8 TB/s one way.

    >>> float(scale_up_bisection(8, 450e9))
    1800000000000.0
    """
    return np.asarray(gpus) // 2 * np.asarray(bandwidth, dtype=np.float64)


def mesh_bisection(members: ArrayLike, bandwidth: ArrayLike) -> Floats:
    """Bisection of a full mesh, one way: each of one half has a link to each of the other [B/s].

    Args:
        members: GPUs (or switches) in the mesh [1].
        bandwidth: of one link in one direction [B/s].

    Source: 8 MI300X with 64 GB/s a link: 4 · 4 links, 1.02 TB/s.

    >>> float(mesh_bisection(8, 64e9))
    1024000000000.0
    """
    members = np.asarray(members)
    return np.asarray(members // 2 * (members - members // 2) * np.asarray(bandwidth, dtype=np.float64))


def twin_modules(links: ArrayLike, links_per_module: ArrayLike, boxes: ArrayLike = 1) -> Integers:
    """Modules at one side of some links, filled box by box, ceil(links per box / links per module) each.

    Args:
        links: links that end on this side, spread evenly over the boxes [1].
        links_per_module: 2 for a twin-port module [1].
        boxes: nodes or switches they end in [1].

    Source: RA-11333 table 8: 127 nodes of 8 links hold 508 twin modules, 48 switches of 64 links hold 1,536.

    >>> int(twin_modules(127 * 8, 2, 127)), int(twin_modules(48 * 64, 2, 48))
    (508, 1536)
    """
    links, boxes = np.asarray(links, dtype=np.int64), np.maximum(np.asarray(boxes, dtype=np.int64), 1)
    fuller = links % boxes
    each = links // boxes
    per_module = np.asarray(links_per_module)
    return np.asarray(fuller * _ceil_divide(each + 1, per_module) + (boxes - fuller) * _ceil_divide(each, per_module))


@dataclass(frozen=True)
class _Request:
    """A broadcast request: integer arrays of one shape."""

    nodes: Integers
    rails: Integers
    radix: Integers
    spine_radix: Integers
    core_radix: Integers
    hosts_per_port: Integers
    planes: Integers
    oversubscription: Floats
    spine_oversubscription: Floats
    nodes_per_unit: Integers
    management_links: Integers
    minimum_spines: Integers
    rail_spines: Booleans
    tiers: Integers
    layout: Integers

    @property
    def plain(self) -> Booleans:
        """A tree that knows no rails."""
        return np.asarray(self.layout == FAT_TREE)

    @property
    def only(self) -> Booleans:
        """Rails that nothing joins."""
        return np.asarray(self.layout == RAIL_ONLY)

    @property
    def apart(self) -> Booleans:
        """Each rail a tree of its own, up to the spines."""
        return self.only | (self.rail_spines & ~self.plain)

    def made_safe(self, usable: Booleans) -> _Request:
        """The same with harmless numbers where the wish is unusable, so that arithmetic runs through."""
        return replace(
            self,
            nodes=np.maximum(self.nodes, 1),
            rails=np.maximum(self.rails, 1),
            radix=np.maximum(self.radix, 2),
            spine_radix=np.maximum(self.spine_radix, 2),
            core_radix=np.maximum(self.core_radix, 2),
            oversubscription=np.where(usable, self.oversubscription, 1.0),
            spine_oversubscription=np.where(usable, self.spine_oversubscription, 1.0),
        )


def design(
    nodes: ArrayLike,
    rails: ArrayLike,
    radix: ArrayLike,
    *,
    spine_radix: ArrayLike = 0,
    core_radix: ArrayLike = 0,
    hosts_per_port: ArrayLike = 1,
    planes: ArrayLike = 1,
    oversubscription: ArrayLike = 1.0,
    spine_oversubscription: ArrayLike = 1.0,
    nodes_per_unit: ArrayLike = 0,
    management_links: ArrayLike = 0,
    minimum_spines: ArrayLike = 0,
    rail_spines: ArrayLike = False,
    tiers: ArrayLike = 0,
    layout: ArrayLike = RAIL_OPTIMIZED,
) -> Design:
    """The smallest fabric that carries a cluster.

    1. Management links take leaf ports, so the leaves are sized for N + ceil(M / R) nodes.
    2. A unit is min(nodes_per_unit, d) nodes; there are SU = ceil(slots / unit) units, each built whole.
    3. L = R · SU leaves (rail-optimized), or ceil(hosts / d) (plain fat tree), each with u = floor(unit / o) uplinks.
    4. Two tiers when L <= k: S = the smallest divisor of u that is not below ceil(L u / k).
    5. Three tiers otherwise: S = ceil(L u / d2), C = ceil(S u2 / k), with d2 : u2 the spine's taper.
    6. Links: N R + M, L u, S u2; everything times the planes.

    With rail-dedicated spines, rule 4 holds for each rail by itself, and rule 5 for groups of leaves of one rail whose
    spines share the cores.

    Args:
        nodes: nodes, N [1].
        rails: hosts a node has in each plane, R [1].
        radix: ports of a leaf at the speed of a link between switches, k [1].
        spine_radix, core_radix: the same for other spines and cores; 0 means as the tier below [1].
        hosts_per_port: hosts that share a leaf port by breakout; 2 for 200 Gb/s hosts on 400 Gb/s ports [1].
        planes: equal independent networks [1].
        oversubscription, spine_oversubscription: taper at the leaf and, with three tiers or more, at the spine [1].
        nodes_per_unit: nodes of a scalable unit; 0 means as many as the leaf's ports allow [1].
        management_links: fabric-manager links that take host ports, M [1].
        minimum_spines: fewest spines of a plane, for what remains when one fails [1].
        rail_spines: whether each rail has spines of its own.
        tiers: 1 to 4; 0 means the fewest that suffice [1].
        layout: index into ``LAYOUTS``.

    Source: NVIDIA DGX SuperPOD RA-11333 tables 3 and 4 and its footnote on nodes that make room for UFM; for rule 4
    see `smallest_divisor`.

    128 nodes of 8 rails on 64-port switches: 4 units of 32, 32 leaves, 16 spines, 1,024 links at both levels.

    >>> superpod = design(128, 8, 64)
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1024, 1024]

    127 nodes and 4 management links need the same switches:

    >>> superpod = design(127, 8, 64, management_links=4)
    >>> [int(x) for x in (superpod.leaf_switches, superpod.spine_switches, superpod.node_leaf, superpod.leaf_spine)]
    [32, 16, 1020, 1024]
    """
    given = np.broadcast_arrays(
        nodes,
        rails,
        radix,
        spine_radix,
        core_radix,
        hosts_per_port,
        planes,
        oversubscription,
        spine_oversubscription,
        nodes_per_unit,
        management_links,
        minimum_spines,
        rail_spines,
        tiers,
        layout,
    )
    whole = [np.nan_to_num(np.clip(array, -(2**40), 2**40), nan=0.0).astype(np.int64) for array in given]
    leaf_radix = np.maximum(whole[2], 0)
    middle_radix = np.where(whole[3] > 0, whole[3], leaf_radix)
    request = _Request(
        nodes=whole[0],
        rails=np.maximum(whole[1], 0),
        radix=leaf_radix,
        spine_radix=middle_radix,
        core_radix=np.where(whole[4] > 0, whole[4], middle_radix),
        hosts_per_port=np.maximum(whole[5], 1),
        planes=np.maximum(whole[6], 1),
        oversubscription=given[7].astype(np.float64),
        spine_oversubscription=given[8].astype(np.float64),
        nodes_per_unit=whole[9],
        management_links=np.maximum(whole[10], 0),
        minimum_spines=np.maximum(whole[11], 0),
        rail_spines=given[12].astype(np.bool_),
        tiers=whole[13],
        layout=whole[14],
    )
    tree = _tree(request)
    direct = np.isin(request.layout, (TWO_SWITCH, *APPROXIMATE))
    if not np.any(direct):
        return tree
    other = _direct(request)
    return Design(
        **{name: np.where(direct, getattr(other, name), getattr(tree, name)) for name in Design.__dataclass_fields__}
    )


def _usable(request: _Request) -> tuple[Integers, Booleans]:
    """First complaint about a request, before any switch is counted."""
    tapers = (request.oversubscription, request.spine_oversubscription)
    taper_ok = np.all([np.isfinite(taper) & (taper > 0) & (taper < 2**31) for taper in tapers], axis=0)
    reason = np.select(
        [
            (request.nodes < 1) | (request.rails < 1),
            (request.radix < 2) | (request.spine_radix < 2) | (request.core_radix < 2),
            ~taper_ok,
            (request.tiers > _MOST_TIERS) | (request.tiers < 0),
        ],
        [NO_HOSTS, RADIX_TOO_SMALL, TAPER_TOO_WIDE, TOO_MANY_TIERS],
        BUILT,
    ).astype(np.int64)
    return reason, reason == BUILT


def uplinks(hosts: ArrayLike, hosts_per_port: ArrayLike, oversubscription: ArrayLike, radix: ArrayLike) -> Integers:
    """Links up of a leaf that is built for some hosts, u = floor(ceil(h / b) / o), at least one.

    Args:
        hosts: hosts the leaf is built for, h [1].
        hosts_per_port: hosts that share a port by breakout, b [1].
        oversubscription: ports down per port up, o [1].
        radix: ports of the leaf [1].

    32 hosts of 200 Gb/s on 400 Gb/s ports take 16 ports; at 2 : 1 they get 8 links up:

    >>> int(uplinks(32, 2, 2.0, 32)), int(uplinks(32, 1, 1.0, 64))
    (8, 32)
    """
    ports = _ceil_divide(hosts, hosts_per_port)
    return np.asarray(
        np.clip(_floor(ports / np.asarray(oversubscription)), 1, np.maximum(np.asarray(radix) - ports, 1))
    )


def two_tier_spines(leaves: ArrayLike, leaf_up: ArrayLike, radix: ArrayLike, minimum: ArrayLike = 0) -> Integers:
    """Spines over some leaves: the smallest divisor of a leaf's uplinks not below ceil(L u / k).

    Args:
        leaves: leaf switches, L [1].
        leaf_up: uplinks of a leaf, u [1].
        radix: ports of a spine, k [1].
        minimum: fewest spines wished for, for what remains when one fails [1].

    Source: NVIDIA DGX SuperPOD RA-11333 tables 3 and 4; see `smallest_divisor`.

    >>> [int(two_tier_spines(leaves, 32, 64)) for leaves in (8, 24, 32, 64)]
    [4, 16, 16, 32]
    """
    needed = _ceil_divide(np.asarray(leaves) * np.asarray(leaf_up), radix)
    return smallest_divisor(leaf_up, np.maximum(needed, np.asarray(minimum)))


def three_tier_spines(leaves: ArrayLike, leaf_up: ArrayLike, spine_down: ArrayLike, minimum: ArrayLike = 0) -> Integers:
    """Spines with cores above them: as many as the links from below fill, ceil(L u / d2).

    Args:
        leaves: leaf switches, L [1].
        leaf_up: uplinks of a leaf, u [1].
        spine_down: ports of a spine that face down, d2 [1].
        minimum: fewest spines wished for [1].

    Source: NVIDIA DGX SuperPOD RA-11333 table 3: 256 leaves of 32 uplinks, 32 ports down a spine, 256 spines.

    >>> int(three_tier_spines(256, 32, 32))
    256
    """
    return np.asarray(
        np.maximum(_ceil_divide(np.asarray(leaves) * np.asarray(leaf_up), spine_down), np.asarray(minimum))
    )


@dataclass(frozen=True)
class _Leaves:
    """The lowest tier of a request, in one plane."""

    hosts: Integers
    unit: Integers
    group: Integers
    down: Integers
    up: Integers
    units: Integers
    leaves: Integers
    taper_fits: Booleans


def _leaves(r: _Request) -> _Leaves:
    """Leaves of whole units; a plain tree packs hosts into leaves, or fills units of its own."""
    hosts = r.nodes * r.rails + r.management_links
    slots = r.nodes + _ceil_divide(r.management_links, r.rails)
    ports_down = np.maximum(down_ports(r.radix, r.oversubscription), 1)
    down = ports_down * r.hosts_per_port
    wished = np.maximum(r.nodes_per_unit, 1)
    unit = np.where(r.nodes_per_unit > 0, np.minimum(wished, down), down)
    group = np.where(r.plain, down, unit)
    own_units = np.where(r.nodes_per_unit > 0, _ceil_divide(slots, wished), 1)
    packed = np.where(r.nodes_per_unit > 0, own_units * _ceil_divide(wished * r.rails, down), _ceil_divide(hosts, down))
    units = _ceil_divide(slots, unit)
    return _Leaves(
        hosts=hosts,
        unit=unit,
        group=group,
        down=down,
        up=uplinks(group, r.hosts_per_port, r.oversubscription, r.radix),
        units=np.where(r.plain, own_units, units),
        leaves=np.where(r.plain, packed, r.rails * units),
        taper_fits=(ports_down < r.radix) & (ports_down / r.oversubscription > 1 - _SLACK),
    )


def _reach(r: _Request, leaf: _Leaves, spine_down: Integers) -> dict[int, Integers]:
    """Most nodes that each number of tiers carries."""
    displaced = _ceil_divide(r.management_links, r.rails)
    alone = r.radix * r.hosts_per_port
    most = {1: np.where(r.only, alone - displaced, (alone - r.management_links) // r.rails)}
    # A core has a link to every group of spines; groups of one rail's own share the cores with the other rails'.
    shared = r.apart & ~r.only
    most_leaves = {
        2: r.spine_radix,
        3: spine_down * np.where(shared, r.core_radix // r.rails, r.core_radix),
        4: spine_down * (r.core_radix // 2) * r.core_radix,
    }
    wished = np.maximum(r.nodes_per_unit, 1) * r.rails
    for tiers, leaves in most_leaves.items():
        in_units = np.where(r.apart, leaves, leaves // r.rails) * leaf.unit - displaced
        whole = leaves // _ceil_divide(wished, leaf.down) * wished
        packed = np.where(r.nodes_per_unit > 0, whole, leaves * leaf.down)
        most[tiers] = np.where(r.plain, (packed - r.management_links) // r.rails, in_units)
    return most


@dataclass(frozen=True)
class _Upper:
    """The tiers above the leaves, in one plane."""

    spines: Integers
    spine_down: Integers
    spine_up: Integers
    cores: Integers
    core_up: Integers
    tops: Integers
    balanced: Booleans


def _upper(r: _Request, tiers: Integers, leaves: Integers, leaf_up: Integers, down: Integers, up: Integers) -> _Upper:
    """Spines, cores and what stands above them, for leaves and their uplinks.

    Args:
        r: the request.
        tiers: tiers to build [1].
        leaves, leaf_up: leaves of the plane and links up of one [1].
        down, up: ports of a spine that face down and up where cores stand above it [1].
    """
    one, links = tiers == 1, leaves * leaf_up
    trees = np.where(r.apart, r.rails, 1)
    each, least = _ceil_divide(leaves, trees), _ceil_divide(r.minimum_spines, trees)
    pods = np.maximum(_ceil_divide(each, down), 1)
    leaves_per_pod = _ceil_divide(each, pods)
    pod_spines = two_tier_spines(leaves_per_pod, leaf_up, down, least)
    three = np.where(r.apart, pods * pod_spines, three_tier_spines(each, leaf_up, down, least))
    spines = np.where(one, 0, trees * np.where(tiers == 2, two_tier_spines(each, leaf_up, r.spine_radix, least), three))

    # Spines of a rail's own pass on the links they were given; others are built whole.
    given = _floor(_ceil_divide(links, np.maximum(spines, 1)) / r.spine_oversubscription)
    spine_up = np.minimum(np.where(r.apart, np.maximum(given, 1), up), r.spine_radix - 1)
    spine_up = np.where(tiers >= 3, spine_up, 0)
    core_trees = np.where(r.only, r.rails, 1)
    core_down = np.where(tiers == 4, r.core_radix // 2, r.core_radix)
    cores = np.where(tiers >= 3, core_trees * _ceil_divide(_ceil_divide(spines * spine_up, core_trees), core_down), 0)
    core_up = np.where(tiers == 4, core_down, 0)
    tops = core_trees * _ceil_divide(_ceil_divide(cores * core_up, core_trees), r.core_radix)

    groups = np.asarray((leaves_per_pod * pods == each) & (pod_spines * spine_up % np.maximum(cores, 1) == 0))
    even, tall = groups, (tiers >= 3) & ~r.apart
    even[tall] = _even_groups(*(counts[tall] for counts in (leaves, leaf_up, spines, spine_up, cores)))
    return _Upper(
        spines=spines,
        spine_down=np.where(tiers >= 3, down, np.where(one, 0, r.spine_radix)),
        spine_up=spine_up,
        cores=cores,
        core_up=core_up,
        tops=tops,
        balanced=np.where(tiers >= 3, even, links % np.maximum(spines, 1) == 0),
    )


def _tree(request: _Request) -> Design:
    """Rail-optimized, plain and rail-only trees of one to four tiers."""
    reason, usable = _usable(request)
    r = request.made_safe(usable)
    leaf = _leaves(r)
    spine_down = np.clip(down_ports(r.spine_radix, r.spine_oversubscription), 1, r.spine_radix - 1)
    spine_up = np.clip(_floor(spine_down / r.spine_oversubscription), 1, r.spine_radix - spine_down)

    # The fewest tiers that carry the nodes, or the planner's own.
    reach = _reach(r, leaf, spine_down)
    fewest = np.select([r.nodes <= most for most in reach.values()], list(reach), 0)
    tiers = np.where(r.tiers > 0, np.clip(r.tiers, 1, _MOST_TIERS), fewest)
    most = np.select([tiers == level for level in reach], list(reach.values()), 0)
    no_taper = usable & ~leaf.taper_fits & (tiers != 1)
    reason = np.where(no_taper, TAPER_TOO_WIDE, np.where(usable & (r.nodes > most), TOO_MANY_HOSTS, reason))

    # One tier is a single switch, or one for each rail, with every port facing down.
    one = tiers == 1
    alone = r.radix * r.hosts_per_port
    leaves = np.where(one, np.where(r.only, r.rails, 1), leaf.leaves)
    leaf_up = np.where(one, 0, leaf.up)
    leaf_down = np.where(one, alone, leaf.down)
    units = np.where(one, 1, leaf.units)
    unit = np.where(one & ~r.plain, np.where(r.only, alone, alone // r.rails), leaf.unit)
    upper = _upper(r, tiers, leaves, leaf_up, spine_down, spine_up)

    leaf_links, spine_links, core_links = leaves * leaf_up, upper.spines * upper.spine_up, upper.cores * upper.core_up
    slots = r.nodes + _ceil_divide(r.management_links, r.rails)
    room = np.where(r.plain, (leaves * leaf_down - leaf.hosts) // r.rails, units * unit - slots)
    room = np.where(one & ~r.only, (alone - leaf.hosts) // r.rails, room)
    half = r.nodes * r.rails / 2
    through_leaf = np.minimum(1.0, leaf_up * r.hosts_per_port / leaf.group)
    from_below = np.where(r.apart, leaf_links, upper.spine_down * upper.spines)
    through_spine = np.minimum(1.0, spine_links / np.maximum(from_below, 1))
    built = reason == BUILT

    def count(value: ArrayLike, per_plane: bool = True) -> Floats:
        scaled = np.asarray(value, dtype=np.float64) * np.where(per_plane, r.planes, 1)
        return np.where(built, scaled, np.nan)

    return Design(
        reason=reason,
        tiers=count(tiers, False),
        units=count(units, False),
        unit_nodes=count(unit, False),
        unit_hosts=count(leaf.group, False),
        leaf_down=count(leaf_down, False),
        leaf_up=count(leaf_up, False),
        spine_down=count(upper.spine_down, False),
        spine_up=count(upper.spine_up, False),
        core_up=count(upper.core_up, False),
        leaf_switches=count(leaves),
        spine_switches=count(upper.spines),
        core_switches=count(upper.cores),
        super_core_switches=count(upper.tops),
        node_leaf=count(leaf.hosts),
        leaf_spine=count(leaf_links),
        spine_core=count(spine_links),
        core_super_core=count(core_links),
        peer=count(np.zeros_like(leaves)),
        leaf_free=count(leaves * r.radix - _ceil_divide(leaf.hosts, r.hosts_per_port) - leaf_links),
        spine_free=count(upper.spines * r.spine_radix - leaf_links - spine_links),
        core_free=count(upper.cores * r.core_radix - spine_links - core_links),
        super_core_free=count(upper.tops * r.core_radix - core_links),
        hosts=count(r.nodes * r.rails),
        bisection_leaf=count(half),
        bisection_spine=np.where(tiers >= 2, count(half * through_leaf), np.nan),
        bisection_core=np.where(tiers >= 3, count(half * through_leaf * through_spine), np.nan),
        crosses_rails=~r.only & ~(r.apart & (tiers == 2)),
        hops=count(2 * tiers - 1, False),
        most_nodes=count(most, False),
        spare_nodes=count(room, False),
        balanced=upper.balanced,
        enough_spines=one | (upper.spines >= r.minimum_spines),
    )


def _even_groups(
    leaves: Integers, leaf_up: Integers, spines: Integers, spine_up: Integers, cores: Integers
) -> Booleans:
    """Whether three tiers divide into equal groups of leaves and spines that each reach every core alike.

    A group has s spines, s a divisor of a leaf's uplinks; the groups share the leaves evenly, and the links up of a
    group divide by the cores.
    """
    found = np.zeros(leaves.shape, dtype=np.bool_)
    uplinks = np.unique(leaf_up[leaf_up > 0])
    for size in range(1, int(uplinks.max(initial=0)) + 1):
        if not np.any(uplinks % size == 0):
            continue
        groups = np.maximum(spines // size, 1)
        shared = (leaf_up % size == 0) & (spines % size == 0) & (leaves % groups == 0)
        found |= shared & (size * spine_up % np.maximum(cores, 1) == 0)
    return found


def torus_sides(switches: ArrayLike, dimensions: int) -> list[Integers]:
    """Sides of the nearly cubic grid that holds some switches, longest first.

    >>> [int(side) for side in torus_sides(4096, 3)], [int(side) for side in torus_sides(12, 2)]
    ([16, 16, 16], [4, 3])
    """
    rest = np.maximum(np.asarray(switches, dtype=np.int64), 1)
    sides: list[Integers] = []
    for left in range(dimensions, 0, -1):
        side = np.ceil(rest ** (1 / left) - 1e-6).astype(np.int64)
        sides.append(side)
        rest = _ceil_divide(rest, side)
    return sorted(sides, key=lambda side: -int(side.max())) if rest.ndim == 0 else sides


def _direct(request: _Request) -> Design:
    """Topologies without tiers: two switches side by side, and, approximate, full mesh, tori, dragonfly."""
    r = request
    reason, usable = _usable(r)
    taper = np.where(usable, r.oversubscription, 1.0)
    radix, rails, nodes = np.maximum(r.radix, 2), np.maximum(r.rails, 1), np.maximum(r.nodes, 1)
    hosts = nodes * rails + r.management_links
    host_ports = _ceil_divide(hosts, r.hosts_per_port)
    layout = r.layout

    # Two switches: half the hosts each, as many links between them as each has hosts.
    half = _ceil_divide(host_ports, 2)
    between = np.maximum(_floor(half / taper), 1)
    pair_most = 2 * down_ports(radix, taper) * r.hosts_per_port

    # Switches that carry d hosts and spend the rest on neighbours.
    ports_down = np.maximum(down_ports(radix, taper), 1)
    switches = _ceil_divide(host_ports, ports_down)
    ports_out = np.maximum(radix - ports_down, 0)

    mesh_width = np.where(switches > 1, ports_out // np.maximum(switches - 1, 1), 0)
    mesh_links = switches * (switches - 1) // 2 * mesh_width
    mesh_cut = switches // 2 * (switches - switches // 2) * mesh_width
    mesh_most = (ports_out + 1) * ports_down * r.hosts_per_port

    def torus(dimensions: int) -> tuple[Integers, Integers, Integers, Integers]:
        sides = np.sort(np.stack(torus_sides(np.atleast_1d(switches), dimensions)), axis=0)[::-1]
        sides = sides.reshape((dimensions, *switches.shape))
        vertices = np.prod(sides, axis=0)
        width = ports_out // (2 * dimensions)
        links = np.sum([np.where(side > 1, vertices * width, 0) for side in sides], axis=0)
        cut = np.where(sides[0] > 1, 2 * (vertices // sides[0]) * width, 0)
        return vertices, links, cut, 1 + np.sum(sides // 2, axis=0)

    flat_switches, flat_links, flat_cut, flat_hops = torus(2)
    cube_switches, cube_links, cube_cut, cube_hops = torus(3)
    torus_most = np.full_like(hosts, 2**40)

    # Balanced dragonfly: a = 2p = 2h routers, hosts and global links; p + (a - 1) + h <= k.
    per_router = np.maximum((radix + 1) // 4, 1)
    routers = 2 * per_router
    groups = _ceil_divide(host_ports, routers * per_router)
    most_groups = routers * per_router + 1
    pair_links = np.where(groups > 1, routers * per_router // np.maximum(groups - 1, 1), 0)
    fly_links = groups * routers * (routers - 1) // 2 + groups * (groups - 1) // 2 * pair_links
    fly_cut = np.where(groups > 1, (groups // 2) * (groups - groups // 2) * pair_links, routers**2 // 4)
    fly_most = most_groups * routers * per_router * r.hosts_per_port

    which = [layout == kind for kind in (TWO_SWITCH, MESH, TORUS_2D, TORUS_3D, DRAGONFLY)]
    most = np.select(which, [pair_most, mesh_most, torus_most, torus_most, fly_most], 0)
    boxes = np.select(which, [np.full_like(hosts, 2), switches, flat_switches, cube_switches, groups * routers], 0)
    peers = np.select(which, [between, mesh_links, flat_links, cube_links, fly_links], 0)
    cut = np.select(which, [between, mesh_cut, flat_cut, cube_cut, fly_cut], 0)
    hops = np.select(
        which, [np.full_like(hosts, 2), np.minimum(switches, 2), flat_hops, cube_hops, np.where(groups > 1, 4, 2)], 1
    )
    starved = np.isin(layout, (TORUS_2D, TORUS_3D)) & (ports_out < np.where(layout == TORUS_2D, 4, 6)) & (switches > 1)
    tiers_wrong = (r.tiers > 1) & usable
    reason = np.select(
        [~usable, hosts > most, starved, tiers_wrong],
        [
            reason,
            np.full_like(reason, TOO_MANY_HOSTS),
            np.full_like(reason, RADIX_TOO_SMALL),
            np.full_like(reason, TOO_MANY_TIERS),
        ],
        BUILT,
    ).astype(np.int64)
    built = reason == BUILT

    def count(value: Any, per_plane: bool = True) -> Floats:
        scaled = np.asarray(value, dtype=np.float64) * np.where(per_plane, r.planes, 1)
        return np.where(built, scaled, np.nan)

    none = np.zeros_like(hosts)
    alone = boxes == 1
    half_hosts = nodes * rails / 2
    per_box = np.select(which, [half, ports_down, ports_down, ports_down, per_router], 0) * r.hosts_per_port
    return Design(
        reason=reason,
        tiers=count(none + 1, False),
        units=count(np.where(layout == DRAGONFLY, groups, 1), False),
        unit_nodes=count(np.where(layout == DRAGONFLY, routers * per_router * r.hosts_per_port // rails, nodes), False),
        unit_hosts=count(per_box, False),
        leaf_down=count(per_box, False),
        leaf_up=count(
            np.select(
                which,
                [
                    between,
                    mesh_width * (switches - 1),
                    ports_out // 4 * 4,
                    ports_out // 6 * 6,
                    routers - 1 + per_router,
                ],
                0,
            ),
            False,
        ),
        spine_down=count(none, False),
        spine_up=count(none, False),
        core_up=count(none, False),
        leaf_switches=count(boxes),
        spine_switches=count(none),
        core_switches=count(none),
        super_core_switches=count(none),
        node_leaf=count(hosts),
        leaf_spine=count(none),
        spine_core=count(none),
        core_super_core=count(none),
        peer=count(peers),
        leaf_free=count(boxes * radix - host_ports - 2 * peers),
        spine_free=count(none),
        core_free=count(none),
        super_core_free=count(none),
        hosts=count(nodes * rails),
        bisection_leaf=count(half_hosts),
        bisection_spine=np.where(
            alone, np.nan, count(np.minimum(half_hosts, cut.astype(np.float64) * r.hosts_per_port))
        ),
        bisection_core=np.full(hosts.shape, np.nan),
        crosses_rails=np.ones(hosts.shape, dtype=np.bool_),
        hops=count(hops, False),
        most_nodes=count(
            np.where(most == torus_most, np.inf, np.maximum(most - r.management_links, 0) // rails), False
        ),
        spare_nodes=count(np.maximum(boxes * per_box - hosts, 0) // rails, False),
        balanced=np.ones(hosts.shape, dtype=np.bool_),
        enough_spines=np.ones(hosts.shape, dtype=np.bool_),
    )
