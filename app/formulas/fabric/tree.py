"""Leaves, spines and cores of a folded Clos network."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.fabric import layouts
from app.formulas.fabric.layouts import (
    BUILT,
    MOST_TIERS,
    SLACK,
    TAPER_TOO_WIDE,
    TOO_MANY_HOSTS,
    Booleans,
    Design,
    FabricRequest,
    Floats,
    ceil_divide,
    down_ports,
    floor_of_ratio,
    nan_unless,
)


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


def _counted(
    request: FabricRequest, reason: Array, in_a_plane: Mapping[str, Array], once: Mapping[str, Array]
) -> dict[str, Floats]:
    """Counts by name: those of a plane for all planes together, the others as they are; none where nothing is built."""
    shape = request.shape
    table = np.empty((len(in_a_plane) + len(once), *shape))
    for row, value in enumerate((*in_a_plane.values(), *once.values())):
        table[row] = value
    table[: len(in_a_plane)] *= request.planes
    if any_(reason != BUILT):
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
    ports = ceil_divide(hosts, hosts_per_port)
    return minimum(maximum(floor_of_ratio(ports / oversubscription), 1), maximum(radix - ports, 1))


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
    return smallest_divisor(leaf_up, maximum(ceil_divide(leaves * leaf_up, radix), minimum))


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
    return maximum(ceil_divide(leaves * leaf_up, spine_down), minimum)


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


def _leaves(r: FabricRequest) -> _Leaves:
    """Leaves of whole units; a plain tree packs hosts into leaves, or fills units of its own."""
    hosts = r.nodes * r.rails + r.management_links
    slots = r.nodes + ceil_divide(r.management_links, r.rails)
    ports_down = maximum(down_ports(r.radix, r.oversubscription), 1)
    down = ports_down * r.hosts_per_port
    wished = maximum(r.nodes_per_unit, 1)
    unit = where(r.nodes_per_unit > 0, minimum(wished, down), down)
    group = where(r.plain, down, unit)
    own_units = where(r.nodes_per_unit > 0, ceil_divide(slots, wished), 1)
    packed = where(r.nodes_per_unit > 0, own_units * ceil_divide(wished * r.rails, down), ceil_divide(hosts, down))
    units = ceil_divide(slots, unit)
    return _Leaves(
        hosts=hosts,
        unit=unit,
        group=group,
        down=down,
        up=uplinks(group, r.hosts_per_port, r.oversubscription, r.radix),
        units=where(r.plain, own_units, units),
        leaves=where(r.plain, packed, r.rails * units),
        taper_fits=(ports_down < r.radix) & (ports_down / r.oversubscription > 1 - SLACK),
    )


def _reach(r: FabricRequest, leaf: _Leaves, spine_down: Array) -> dict[int, Array]:
    """Most nodes that each number of tiers carries."""
    displaced = ceil_divide(r.management_links, r.rails)
    alone = r.radix * r.hosts_per_port
    most = {1: where(r.only, alone - displaced, (alone - r.management_links) // r.rails)}
    # A core has a link to every group of spines; groups of one rail's own share the cores with the other rails'.
    shared = r.apart & ~r.only
    most_leaves = {
        2: r.spine_radix,
        3: spine_down * where(shared, r.core_radix // r.rails, r.core_radix),
        4: spine_down * (r.core_radix // 2) * r.core_radix,
    }
    wished = maximum(r.nodes_per_unit, 1) * r.rails
    for tiers, leaves in most_leaves.items():
        in_units = where(r.apart, leaves, leaves // r.rails) * leaf.unit - displaced
        whole = leaves // ceil_divide(wished, leaf.down) * wished
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


def _upper(r: FabricRequest, tiers: Array, leaves: Array, leaf_up: Array, down: Array, up: Array) -> _Upper:
    """Spines, cores and what stands above them, for leaves and their uplinks.

    Args:
        r: the request.
        tiers: tiers to build [1].
        leaves, leaf_up: leaves of the plane and links up of one [1].
        down, up: ports of a spine that face down and up where cores stand above it [1].
    """
    one, links = tiers == 1, leaves * leaf_up
    trees = where(r.apart, r.rails, 1)
    each, least = ceil_divide(leaves, trees), ceil_divide(r.minimum_spines, trees)
    pods = maximum(ceil_divide(each, down), 1)
    leaves_per_pod = ceil_divide(each, pods)
    pod_spines = two_tier_spines(leaves_per_pod, leaf_up, down, least)
    three = where(r.apart, pods * pod_spines, three_tier_spines(each, leaf_up, down, least))
    spines = where(one, 0, trees * where(tiers == 2, two_tier_spines(each, leaf_up, r.spine_radix, least), three))

    # Spines of a rail's own pass on the links they were given; others are built whole.
    given = floor_of_ratio(ceil_divide(links, maximum(spines, 1)) / r.spine_oversubscription)
    spine_up = minimum(where(r.apart, maximum(given, 1), up), r.spine_radix - 1)
    spine_up = where(tiers >= 3, spine_up, 0)
    core_trees = where(r.only, r.rails, 1)
    core_down = where(tiers == 4, r.core_radix // 2, r.core_radix)
    cores = where(tiers >= 3, core_trees * ceil_divide(ceil_divide(spines * spine_up, core_trees), core_down), 0)
    core_up = where(tiers == 4, core_down, 0)
    tops = core_trees * ceil_divide(ceil_divide(cores * core_up, core_trees), r.core_radix)

    even = (leaves_per_pod * pods == each) & (pod_spines * spine_up % maximum(cores, 1) == 0)
    joined = (tiers >= 3) & nan_unless(r.apart)
    if any_(joined):
        even = where(joined, _even_groups(leaves, leaf_up, spines, spine_up, cores), even)
    return _Upper(
        spines=spines,
        spine_down=where(tiers >= 3, down, where(one, 0, r.spine_radix)),
        spine_up=spine_up,
        cores=cores,
        core_up=core_up,
        tops=tops,
        balanced=where(tiers >= 3, even, links % maximum(spines, 1) == 0),
    )


def design_tree(request: FabricRequest) -> Design:
    """Rail-optimized, plain and rail-only trees of one to four tiers."""
    reason, usable = layouts.usable(request)
    r = request.made_safe(usable)
    leaf = _leaves(r)
    spine_down = minimum(maximum(down_ports(r.spine_radix, r.spine_oversubscription), 1), r.spine_radix - 1)
    spine_up = minimum(maximum(floor_of_ratio(spine_down / r.spine_oversubscription), 1), r.spine_radix - spine_down)

    # The fewest tiers that carry the nodes, or the planner's own.
    reach = _reach(r, leaf, spine_down)
    fewest: Array = 0
    for level in reversed(reach):
        fewest = where(r.nodes <= reach[level], level, fewest)
    tiers = where(r.tiers > 0, minimum(r.tiers, MOST_TIERS), fewest)
    most: Array = 0
    for level, nodes in reach.items():
        most = where(tiers == level, nodes, most)
    no_taper = usable & nan_unless(leaf.taper_fits) & (tiers != 1)
    reason = where(no_taper, TAPER_TOO_WIDE, where(usable & (r.nodes > most), TOO_MANY_HOSTS, reason))

    # One tier is a single switch, or one for each rail, with every port facing down.
    one = tiers == 1
    alone = r.radix * r.hosts_per_port
    leaves = where(one, where(r.only, r.rails, 1), leaf.leaves)
    leaf_up = where(one, 0, leaf.up)
    leaf_down = where(one, alone, leaf.down)
    units = where(one, 1, leaf.units)
    unit = where(one & nan_unless(r.plain), where(r.only, alone, alone // r.rails), leaf.unit)
    upper = _upper(r, tiers, leaves, leaf_up, spine_down, spine_up)

    leaf_links, spine_links, core_links = leaves * leaf_up, upper.spines * upper.spine_up, upper.cores * upper.core_up
    slots = r.nodes + ceil_divide(r.management_links, r.rails)
    room = where(r.plain, (leaves * leaf_down - leaf.hosts) // r.rails, units * unit - slots)
    room = where(one & nan_unless(r.only), (alone - leaf.hosts) // r.rails, room)
    half = r.nodes * r.rails / 2
    through_leaf = minimum(1.0, leaf_up * r.hosts_per_port / leaf.group)
    from_below = where(r.apart, leaf_links, upper.spine_down * upper.spines)
    through_spine = minimum(1.0, spine_links / maximum(from_below, 1))
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
            "leaf_free": leaves * r.radix - ceil_divide(leaf.hosts, r.hosts_per_port) - leaf_links,
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
        crosses_rails=_spread(nan_unless(r.only) & nan_unless(r.apart & (tiers == 2)), shape, np.bool_),
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
        groups = maximum(spines // size, 1)
        shared = (leaf_up % size == 0) & (spines % size == 0) & (leaves % groups == 0)
        found = found | (shared & (size * spine_up % maximum(cores, 1) == 0))
    return found
