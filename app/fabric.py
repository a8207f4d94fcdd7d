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

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from math import floor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.arrays import Array, larger, smaller, some, where

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

_MOST_TIERS: Final = 4
_MOST: Final = 2**40
"""Counts beyond this are cut off: no cluster has so many of anything."""
_SLACK: Final = 1e-9  # a ratio such as 16/15 is not exact in binary


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


def _ceil_divide(dividend: Array, divisor: Array) -> Array:
    """Smallest whole number not below the quotient.

    >>> _ceil_divide(7, 2)
    4
    """
    return -(-dividend // divisor)


def _floor(value: Array) -> Array:
    """Whole part, forgiving the last bit of a ratio.

    >>> _floor(64 / (16 / 15))
    60
    """
    return np.floor(value + _SLACK).astype(np.int64) if isinstance(value, np.ndarray) else floor(value + _SLACK)


def _unless(condition: Booleans) -> Booleans:
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
    return _floor(radix * oversubscription / (1 + oversubscription))


def full_tree_hosts(radix: Array, tiers: Array) -> Array:
    """Hosts of a full non-blocking tree of t tiers of k-port switches, 2 (k/2)^t.

    >>> [int(full_tree_hosts(64, tiers)) for tiers in (1, 2, 3)]
    [64, 2048, 65536]
    >>> int(full_tree_hosts(144, 2))
    10368
    """
    hosts: Array = 2 * (radix // 2) ** tiers
    return hosts


def full_tree_switches(radix: Array, tiers: Array) -> Array:
    """Switches of that full tree, (2t - 1) (k/2)^(t-1): k + k/2 for two tiers, 5k^2/4 for three.

    >>> [int(full_tree_switches(64, tiers)) for tiers in (1, 2, 3)]
    [1, 96, 5120]
    """
    switches: Array = (2 * tiers - 1) * (radix // 2) ** (tiers - 1)
    return switches


@lru_cache(maxsize=1024)
def _divisors(number: int) -> tuple[int, ...]:
    """Numbers that divide another, smallest first.

    >>> _divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def smallest_divisor(number: Array, least: Array) -> Array:
    """Smallest divisor of a number that is not below another; the number itself when none is.

    A leaf spreads its u uplinks evenly only over a number of spines that divides u. Uneven bundles unbalance adaptive
    routing and in-network reduction.

    Source: the rule reproduces the spine counts of NVIDIA's tables, e.g. 16 spines (not 12) for 3 units of DGX H100
    (RA-11333 table 4) and 36 (not 32) for 8 units of DGX B300 on 144-port switches (RA-11339 table 3).

    >>> int(smallest_divisor(32, 12)), int(smallest_divisor(72, 32))
    (16, 36)
    """
    if isinstance(number, np.ndarray) or isinstance(least, np.ndarray):
        one = np.frompyfunc(_smallest_divisor, 2, 1)
        return np.asarray(one(number, least), dtype=np.int64)
    return _smallest_divisor(int(number), least)


def _smallest_divisor(number: int, least: float) -> int:
    divisors = _divisors(number)
    return divisors[min(bisect_left(divisors, least), len(divisors) - 1)] if divisors else number


def scale_up_bisection(gpus: Array, bandwidth: Array) -> Array:
    """Bisection of a switched scale-up domain, one way: half its GPUs send at full rate, g/2 · B [B/s].

    Args:
        gpus: GPUs in the domain, g [1].
        bandwidth: of one GPU in one direction, B [B/s].

    Source: NVIDIA quotes both directions: HGX H100 with 8 GPUs of 900 GB/s both ways has 3.6 TB/s, so 1.8 TB/s one way.

    >>> float(scale_up_bisection(8, 450e9))
    1800000000000.0
    """
    return gpus // 2 * bandwidth


def mesh_bisection(members: Array, bandwidth: Array) -> Array:
    """Bisection of a full mesh, one way: each of one half has a link to each of the other [B/s].

    Args:
        members: GPUs (or switches) in the mesh [1].
        bandwidth: of one link in one direction [B/s].

    Source: 8 MI300X with 64 GB/s a link: 4 · 4 links, 1.02 TB/s.

    >>> float(mesh_bisection(8, 64e9))
    1024000000000.0
    """
    return members // 2 * (members - members // 2) * bandwidth


def twin_modules(links: Array, links_per_module: Array, boxes: Array = 1) -> Array:
    """Modules at one side of some links, filled box by box, ceil(links per box / links per module) each.

    Args:
        links: links that end on this side, spread evenly over the boxes [1].
        links_per_module: 2 for a twin-port module [1].
        boxes: nodes or switches they end in [1].

    Source: RA-11333 table 8: 127 nodes of 8 links hold 508 twin modules, 48 switches of 64 links hold 1,536.

    >>> int(twin_modules(127 * 8, 2, 127)), int(twin_modules(48 * 64, 2, 48))
    (508, 1536)
    """
    boxes = larger(boxes, 1)
    fuller = links % boxes
    each = links // boxes
    return fuller * _ceil_divide(each + 1, links_per_module) + (boxes - fuller) * _ceil_divide(each, links_per_module)


class _Request(NamedTuple):
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

    def made_safe(self, usable: Booleans) -> _Request:
        """The same with harmless numbers where the wish is unusable, so that arithmetic runs through."""
        return self._replace(
            nodes=larger(self.nodes, 1),
            rails=larger(self.rails, 1),
            radix=larger(self.radix, 2),
            spine_radix=larger(self.spine_radix, 2),
            core_radix=larger(self.core_radix, 2),
            oversubscription=where(usable, self.oversubscription, 1.0),
            spine_oversubscription=where(usable, self.spine_oversubscription, 1.0),
        )


def _asked(value: ArrayLike) -> Any:
    """A number as Python has it, or an array."""
    if isinstance(value, int | float):
        return value
    array = np.asarray(value)
    return array if array.ndim else array.item()


def _whole(value: ArrayLike, least: int = -_MOST) -> Array:
    """Whole numbers of a size that can be computed with; what is not a number counts as none."""
    if isinstance(value, int):
        return max(least, min(value, _MOST))
    asked = _asked(value)
    if isinstance(asked, np.ndarray):
        counts: Floats = np.maximum(np.nan_to_num(np.clip(asked, -_MOST, _MOST), nan=0.0).astype(np.int64), least)
        return counts
    return max(least, int(min(asked, _MOST))) if asked == asked else max(least, 0)


def _real(value: ArrayLike) -> Array:
    asked = _asked(value)
    return asked.astype(np.float64) if isinstance(asked, np.ndarray) else float(asked)


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
    leaf_radix = _whole(radix, 0)
    middle_radix, top_radix = _whole(spine_radix), _whole(core_radix)
    middle_radix = where(middle_radix > 0, middle_radix, leaf_radix)
    kind, own_spines = _whole(layout), _whole(rail_spines) != 0
    plain, only = kind == FAT_TREE, kind == RAIL_ONLY
    request = _Request(
        nodes=_whole(nodes),
        rails=_whole(rails, 0),
        radix=leaf_radix,
        spine_radix=middle_radix,
        core_radix=where(top_radix > 0, top_radix, middle_radix),
        hosts_per_port=_whole(hosts_per_port, 1),
        planes=_whole(planes, 1),
        oversubscription=_real(oversubscription),
        spine_oversubscription=_real(spine_oversubscription),
        nodes_per_unit=_whole(nodes_per_unit),
        management_links=_whole(management_links, 0),
        minimum_spines=_whole(minimum_spines, 0),
        tiers=_whole(tiers),
        layout=kind,
        plain=plain,
        only=only,
        apart=only | (own_spines & _unless(plain)),
    )
    direct = (request.layout >= TWO_SWITCH) & (request.layout <= DRAGONFLY)
    if not some(direct):
        return _tree(request)
    other = _direct(request) if request.shape else _direct(request).at(0)
    if not some(_unless(direct)):
        return other
    return Design(*(np.where(direct, *values) for values in zip(other, _tree(request), strict=True)))


def _usable(request: _Request) -> tuple[Array, Booleans]:
    """First complaint about a request, before any switch is counted."""
    tapers_fit: Booleans = True
    for taper in (request.oversubscription, request.spine_oversubscription):
        tapers_fit = tapers_fit & (taper > 0) & (taper < 2**31)
    reason = where(tapers_fit, where((request.tiers > _MOST_TIERS) | (request.tiers < 0), TOO_MANY_TIERS, BUILT),
                   TAPER_TOO_WIDE)  # fmt: skip
    for ports in (request.radix, request.spine_radix, request.core_radix):
        reason = where(ports < 2, RADIX_TOO_SMALL, reason)
    reason = where((request.nodes < 1) | (request.rails < 1), NO_HOSTS, reason)
    return reason, reason == BUILT


def _counted(
    request: _Request, reason: Array, in_a_plane: Mapping[str, Array], once: Mapping[str, Array]
) -> dict[str, Floats]:
    """Counts by name: those of a plane for all planes together, the others as they are; none where nothing is built."""
    shape = request.shape
    table = np.empty((len(in_a_plane) + len(once), *shape))
    for row, value in enumerate((*in_a_plane.values(), *once.values())):
        table[row] = value
    table[: len(in_a_plane)] *= request.planes
    if some(reason != BUILT):
        table[:, np.broadcast_to(reason != BUILT, shape)] = np.nan
    return dict(zip((*in_a_plane, *once), table, strict=True))


def _spread(values: Booleans | Array, shape: tuple[int, ...], kind: type) -> Any:
    """Values of the shape of the request."""
    if not shape:
        return kind(values)
    return values if np.shape(values) == shape else np.broadcast_to(values, shape)


def uplinks(hosts: Array, hosts_per_port: Array, oversubscription: Array, radix: Array) -> Array:
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
    return smaller(larger(_floor(ports / oversubscription), 1), larger(radix - ports, 1))


def two_tier_spines(leaves: Array, leaf_up: Array, radix: Array, minimum: Array = 0) -> Array:
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
    return smallest_divisor(leaf_up, larger(_ceil_divide(leaves * leaf_up, radix), minimum))


def three_tier_spines(leaves: Array, leaf_up: Array, spine_down: Array, minimum: Array = 0) -> Array:
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
    return larger(_ceil_divide(leaves * leaf_up, spine_down), minimum)


class _Leaves(NamedTuple):
    """The lowest tier of a request, in one plane."""

    hosts: Array
    unit: Array
    group: Array
    down: Array
    up: Array
    units: Array
    leaves: Array
    taper_fits: Booleans


def _leaves(r: _Request) -> _Leaves:
    """Leaves of whole units; a plain tree packs hosts into leaves, or fills units of its own."""
    hosts = r.nodes * r.rails + r.management_links
    slots = r.nodes + _ceil_divide(r.management_links, r.rails)
    ports_down = larger(down_ports(r.radix, r.oversubscription), 1)
    down = ports_down * r.hosts_per_port
    wished = larger(r.nodes_per_unit, 1)
    unit = where(r.nodes_per_unit > 0, smaller(wished, down), down)
    group = where(r.plain, down, unit)
    own_units = where(r.nodes_per_unit > 0, _ceil_divide(slots, wished), 1)
    packed = where(r.nodes_per_unit > 0, own_units * _ceil_divide(wished * r.rails, down), _ceil_divide(hosts, down))
    units = _ceil_divide(slots, unit)
    return _Leaves(
        hosts=hosts,
        unit=unit,
        group=group,
        down=down,
        up=uplinks(group, r.hosts_per_port, r.oversubscription, r.radix),
        units=where(r.plain, own_units, units),
        leaves=where(r.plain, packed, r.rails * units),
        taper_fits=(ports_down < r.radix) & (ports_down / r.oversubscription > 1 - _SLACK),
    )


def _reach(r: _Request, leaf: _Leaves, spine_down: Array) -> dict[int, Array]:
    """Most nodes that each number of tiers carries."""
    displaced = _ceil_divide(r.management_links, r.rails)
    alone = r.radix * r.hosts_per_port
    most = {1: where(r.only, alone - displaced, (alone - r.management_links) // r.rails)}
    # A core has a link to every group of spines; groups of one rail's own share the cores with the other rails'.
    shared = r.apart & ~r.only
    most_leaves = {
        2: r.spine_radix,
        3: spine_down * where(shared, r.core_radix // r.rails, r.core_radix),
        4: spine_down * (r.core_radix // 2) * r.core_radix,
    }
    wished = larger(r.nodes_per_unit, 1) * r.rails
    for tiers, leaves in most_leaves.items():
        in_units = where(r.apart, leaves, leaves // r.rails) * leaf.unit - displaced
        whole = leaves // _ceil_divide(wished, leaf.down) * wished
        packed = where(r.nodes_per_unit > 0, whole, leaves * leaf.down)
        most[tiers] = where(r.plain, (packed - r.management_links) // r.rails, in_units)
    return most


class _Upper(NamedTuple):
    """The tiers above the leaves, in one plane."""

    spines: Array
    spine_down: Array
    spine_up: Array
    cores: Array
    core_up: Array
    tops: Array
    balanced: Booleans


def _upper(r: _Request, tiers: Array, leaves: Array, leaf_up: Array, down: Array, up: Array) -> _Upper:
    """Spines, cores and what stands above them, for leaves and their uplinks.

    Args:
        r: the request.
        tiers: tiers to build [1].
        leaves, leaf_up: leaves of the plane and links up of one [1].
        down, up: ports of a spine that face down and up where cores stand above it [1].
    """
    one, links = tiers == 1, leaves * leaf_up
    trees = where(r.apart, r.rails, 1)
    each, least = _ceil_divide(leaves, trees), _ceil_divide(r.minimum_spines, trees)
    pods = larger(_ceil_divide(each, down), 1)
    leaves_per_pod = _ceil_divide(each, pods)
    pod_spines = two_tier_spines(leaves_per_pod, leaf_up, down, least)
    three = where(r.apart, pods * pod_spines, three_tier_spines(each, leaf_up, down, least))
    spines = where(one, 0, trees * where(tiers == 2, two_tier_spines(each, leaf_up, r.spine_radix, least), three))

    # Spines of a rail's own pass on the links they were given; others are built whole.
    given = _floor(_ceil_divide(links, larger(spines, 1)) / r.spine_oversubscription)
    spine_up = smaller(where(r.apart, larger(given, 1), up), r.spine_radix - 1)
    spine_up = where(tiers >= 3, spine_up, 0)
    core_trees = where(r.only, r.rails, 1)
    core_down = where(tiers == 4, r.core_radix // 2, r.core_radix)
    cores = where(tiers >= 3, core_trees * _ceil_divide(_ceil_divide(spines * spine_up, core_trees), core_down), 0)
    core_up = where(tiers == 4, core_down, 0)
    tops = core_trees * _ceil_divide(_ceil_divide(cores * core_up, core_trees), r.core_radix)

    even = (leaves_per_pod * pods == each) & (pod_spines * spine_up % larger(cores, 1) == 0)
    joined = (tiers >= 3) & _unless(r.apart)
    if some(joined):
        even = where(joined, _even_groups(leaves, leaf_up, spines, spine_up, cores), even)
    return _Upper(
        spines=spines,
        spine_down=where(tiers >= 3, down, where(one, 0, r.spine_radix)),
        spine_up=spine_up,
        cores=cores,
        core_up=core_up,
        tops=tops,
        balanced=where(tiers >= 3, even, links % larger(spines, 1) == 0),
    )


def _tree(request: _Request) -> Design:
    """Rail-optimized, plain and rail-only trees of one to four tiers."""
    reason, usable = _usable(request)
    r = request.made_safe(usable)
    leaf = _leaves(r)
    spine_down = smaller(larger(down_ports(r.spine_radix, r.spine_oversubscription), 1), r.spine_radix - 1)
    spine_up = smaller(larger(_floor(spine_down / r.spine_oversubscription), 1), r.spine_radix - spine_down)

    # The fewest tiers that carry the nodes, or the planner's own.
    reach = _reach(r, leaf, spine_down)
    fewest: Array = 0
    for level in reversed(reach):
        fewest = where(r.nodes <= reach[level], level, fewest)
    tiers = where(r.tiers > 0, smaller(r.tiers, _MOST_TIERS), fewest)
    most: Array = 0
    for level, nodes in reach.items():
        most = where(tiers == level, nodes, most)
    no_taper = usable & _unless(leaf.taper_fits) & (tiers != 1)
    reason = where(no_taper, TAPER_TOO_WIDE, where(usable & (r.nodes > most), TOO_MANY_HOSTS, reason))

    # One tier is a single switch, or one for each rail, with every port facing down.
    one = tiers == 1
    alone = r.radix * r.hosts_per_port
    leaves = where(one, where(r.only, r.rails, 1), leaf.leaves)
    leaf_up = where(one, 0, leaf.up)
    leaf_down = where(one, alone, leaf.down)
    units = where(one, 1, leaf.units)
    unit = where(one & _unless(r.plain), where(r.only, alone, alone // r.rails), leaf.unit)
    upper = _upper(r, tiers, leaves, leaf_up, spine_down, spine_up)

    leaf_links, spine_links, core_links = leaves * leaf_up, upper.spines * upper.spine_up, upper.cores * upper.core_up
    slots = r.nodes + _ceil_divide(r.management_links, r.rails)
    room = where(r.plain, (leaves * leaf_down - leaf.hosts) // r.rails, units * unit - slots)
    room = where(one & _unless(r.only), (alone - leaf.hosts) // r.rails, room)
    half = r.nodes * r.rails / 2
    through_leaf = smaller(1.0, leaf_up * r.hosts_per_port / leaf.group)
    from_below = where(r.apart, leaf_links, upper.spine_down * upper.spines)
    through_spine = smaller(1.0, spine_links / larger(from_below, 1))
    shape = r.shape
    counts = _counted(
        r,
        reason,
        in_a_plane={
            "leaf_switches": leaves,
            "spine_switches": upper.spines,
            "core_switches": upper.cores,
            "super_core_switches": upper.tops,
            "node_leaf": leaf.hosts,
            "leaf_spine": leaf_links,
            "spine_core": spine_links,
            "core_super_core": core_links,
            "peer": 0,
            "leaf_free": leaves * r.radix - _ceil_divide(leaf.hosts, r.hosts_per_port) - leaf_links,
            "spine_free": upper.spines * r.spine_radix - leaf_links - spine_links,
            "core_free": upper.cores * r.core_radix - spine_links - core_links,
            "super_core_free": upper.tops * r.core_radix - core_links,
            "hosts": r.nodes * r.rails,
            "bisection_leaf": half,
            "bisection_spine": where(tiers >= 2, half * through_leaf, np.nan),
            "bisection_core": where(tiers >= 3, half * through_leaf * through_spine, np.nan),
        },
        once={
            "tiers": tiers,
            "units": units,
            "unit_nodes": unit,
            "unit_hosts": leaf.group,
            "leaf_down": leaf_down,
            "leaf_up": leaf_up,
            "spine_down": upper.spine_down,
            "spine_up": upper.spine_up,
            "core_up": upper.core_up,
            "hops": 2 * tiers - 1,
            "most_nodes": most,
            "spare_nodes": room,
        },
    )
    return Design(
        **counts,
        reason=_spread(reason, shape, np.int64),
        crosses_rails=_spread(_unless(r.only) & _unless(r.apart & (tiers == 2)), shape, np.bool_),
        balanced=_spread(upper.balanced, shape, np.bool_),
        enough_spines=_spread(one | (upper.spines >= r.minimum_spines), shape, np.bool_),
    )


def _even_groups(leaves: Array, leaf_up: Array, spines: Array, spine_up: Array, cores: Array) -> Booleans:
    """Whether three tiers divide into equal groups of leaves and spines that each reach every core alike.

    A group has s spines, s a divisor of a leaf's uplinks; the groups share the leaves evenly, and the links up of a
    group divide by the cores.
    """
    found: Booleans = False
    uplinks = np.unique(leaf_up).tolist() if isinstance(leaf_up, np.ndarray) else [leaf_up]
    for size in sorted({size for many in uplinks for size in _divisors(int(many))}):
        groups = larger(spines // size, 1)
        shared = (leaf_up % size == 0) & (spines % size == 0) & (leaves % groups == 0)
        found = found | (shared & (size * spine_up % larger(cores, 1) == 0))
    return found


def torus_sides(switches: ArrayLike, dimensions: int) -> list[Integers]:
    """Sides of the nearly cubic grid that holds some switches, longest first.

    >>> [int(side) for side in torus_sides(4096, 3)], [int(side) for side in torus_sides(12, 2)]
    ([16, 16, 16], [4, 3])
    """
    rest: Any = np.maximum(np.asarray(switches, dtype=np.int64), 1)
    sides: list[Integers] = []
    for left in range(dimensions, 0, -1):
        side = np.ceil(rest ** (1 / left) - 1e-6).astype(np.int64)
        sides.append(side)
        rest = _ceil_divide(rest, side)
    return sorted(sides, key=lambda side: -int(side.max())) if rest.ndim == 0 else sides


def _direct(request: _Request) -> Design:
    """Topologies without tiers: two switches side by side, and, approximate, full mesh, tori, dragonfly."""
    wished: Any = request
    r: Any = _Request(*np.broadcast_arrays(*np.atleast_1d(*wished)))
    reason: Any
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
    switches: Any = _ceil_divide(host_ports, ports_down)
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
