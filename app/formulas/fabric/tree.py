"""Leaves, spines and cores of a folded Clos network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.fabric.layouts import (
    BUILT,
    MOST_TIERS,
    SLACK,
    TAPER_TOO_WIDE,
    TOO_MANY_HOSTS,
    Booleans,
    Design,
    FabricRequest,
    ceil_divide,
    ceil_of_ratio,
    down_ports,
    logical_not,
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
    numbers = np.asarray(number, dtype=np.int64)
    distinct = tuple(sorted({*numbers.ravel().tolist()})) or (1,)
    table, begins = _next_divisors(distinct)
    begin = begins[np.searchsorted(distinct, numbers)]
    smallest: Array = table[begin + np.clip(np.ceil(least), 0, np.maximum(numbers, 1)).astype(np.int64)]
    return smallest


@lru_cache(maxsize=8)
def _next_divisors(numbers: tuple[int, ...]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """For each number in turn the smallest of its divisors not below 0, 1, 2 … and itself; where those of each begin.

    Kept: see `_divisor_table`.

    >>> table, begins = _next_divisors((4, 3))
    >>> table.tolist(), begins.tolist()
    ([1, 1, 2, 4, 4, 1, 1, 3, 3], [0, 5])
    """
    tables = [_next_divisors_of(number) for number in numbers]
    return np.concatenate(tables), np.cumsum([0, *(len(table) for table in tables[:-1])])


@lru_cache(maxsize=1024)
def _next_divisors_of(number: int) -> NDArray[np.int64]:
    """The smallest divisor of a number not below 0, 1, 2 … and itself. Kept: see `_divisors`.

    >>> _next_divisors_of(6).tolist()
    [1, 1, 2, 3, 6, 6, 6]
    """
    divisors = _divisors(number) or (1,)
    return np.repeat(divisors, np.diff(divisors, prepend=-1))


ROWS = 4096
"""Numbers whose divisors are looked at together. A study asks about a hundred thousand, and the table of all their
divisors took 150 MB where it was laid out at once."""


def _over_divisors(rule: Callable[..., Array], number: Array, *others: Array) -> Array:
    """A rule about the divisors of each number, which stand on a last axis, and other values of the same rows."""
    columns = np.broadcast_arrays(number, *others)
    if columns[0].size <= ROWS:
        return rule(_all_divisors(columns[0]), *map(_apart, columns[1:]))
    flat = [column.ravel() for column in columns]
    results = []
    for begin in range(0, flat[0].size, ROWS):
        numbers, *rest = (column[begin : begin + ROWS] for column in flat)
        results.append(rule(_all_divisors(numbers), *map(_apart, rest)))
    joined: Array = np.concatenate(results).reshape(columns[0].shape)
    return joined


def _all_divisors(number: Array) -> NDArray[np.int64]:
    """The divisors of each number on a last axis, smallest first; the number itself again where others have more.

    >>> _all_divisors(np.array([4, 6])).tolist()
    [[1, 2, 4, 4], [1, 2, 3, 6]]
    """
    numbers = np.asarray(number, dtype=np.int64)
    distinct = tuple(sorted({*numbers.ravel().tolist()}))
    return _divisor_table(distinct)[np.searchsorted(distinct, numbers)]


@lru_cache(maxsize=256)
def _divisor_table(numbers: tuple[int, ...]) -> NDArray[np.int64]:
    """The divisors of each number, one number a row. Kept: leaves of most networks have the same few uplinks."""
    several = [_divisors(number) or (number,) for number in numbers]
    most = max(map(len, several), default=1)
    table = [divisors + divisors[-1:] * (most - len(divisors)) for divisors in several]
    return np.array(table, dtype=np.int64).reshape(-1, most)


def _apart(values: Array) -> NDArray[np.float64]:
    """Values with one more axis, the last."""
    return np.asarray(values)[..., None]


def uplinks(hosts: Array, hosts_per_port: Array, oversubscription: Array, radix: Array) -> Array:
    """Links up of a leaf that is built for some hosts, u = ceil(ceil(h / b) / o): the fewest that keep within a taper.

    A leaf of at most `down_ports` down has the ports: d ≤ k o / (1 + o), so that d + d/o ≤ k.

    Args:
        hosts: hosts the leaf is built for, h [1].
        hosts_per_port: hosts that share a port by breakout, b [1].
        oversubscription: ports down per port up, o [1].
        radix: ports of the leaf [1].

    32 hosts of 200 Gb/s on 400 Gb/s ports take 16 ports; at 2 : 1 they get 8 links up. 43 hosts at 5 : 1 get 9:

    >>> int(uplinks(32, 2, 2.0, 32)), int(uplinks(32, 1, 1.0, 64)), int(uplinks(43, 1, 5.0, 64))
    (8, 32, 9)
    """
    ports = ceil_divide(hosts, hosts_per_port)
    return minimum(maximum(ceil_of_ratio(ports / oversubscription), 1), maximum(radix - ports, 1))


def two_tier_spines(leaves: Array, leaf_up: Array, radix: Array, minimum: Array = 0) -> Array:
    """Spines over some leaves: the smallest divisor of a leaf's uplinks not below ceil(L u / k).

    Args:
        leaves: leaf switches, L [1].
        leaf_up: uplinks of a leaf, u [1].
        radix: ports of a spine, k [1].
        minimum: fewest spines asked for, for what remains when one fails [1].

    Source: NVIDIA DGX SuperPOD RA-11333 tables 3 and 4; see `smallest_divisor`.

    >>> [int(two_tier_spines(leaves, 32, 64)) for leaves in (8, 24, 32, 64)]
    [4, 16, 16, 32]
    """
    return smallest_divisor(leaf_up, three_tier_spines(leaves, leaf_up, radix, minimum))


def three_tier_spines(leaves: Array, leaf_up: Array, spine_down: Array, minimum: Array = 0) -> Array:
    """Spines with cores above them: as many as the links from below fill, ceil(L u / d2).

    Args:
        leaves: leaf switches, L [1].
        leaf_up: uplinks of a leaf, u [1].
        spine_down: ports of a spine that face down, d2 [1].
        minimum: fewest spines asked for [1].

    Source: NVIDIA DGX SuperPOD RA-11333 table 3: 256 leaves of 32 uplinks, 32 ports down a spine, 256 spines.

    >>> int(three_tier_spines(256, 32, 32))
    256
    """
    return maximum(ceil_divide(leaves * leaf_up, spine_down), minimum)


class _Leaves(NamedTuple):
    """The lowest tier of a request, in one plane.

    Attributes:
        switches: leaves [1].
        units: groups of nodes that share a set of leaves [1].
        unit_nodes: nodes of a group [1].
        unit_hosts: hosts that the uplinks of a leaf are reckoned for [1].
        down: hosts a leaf can take [1].
        up: uplinks of a leaf [1].
        taper_fits: whether the taper leaves a port for an uplink.
    """

    switches: Array
    units: Array
    unit_nodes: Array
    unit_hosts: Array
    down: Array
    up: Array
    taper_fits: Booleans


def _leaves(request: FabricRequest) -> _Leaves:
    """Leaves of whole units below spines; a plain tree packs hosts into leaves, or fills units of its own."""
    in_units = request.nodes_per_unit > 0
    unit_nodes = maximum(request.nodes_per_unit, 1)
    slots = _slots(request)
    ports_down = maximum(down_ports(request.radix, request.oversubscription), 1)
    most = ports_down * request.hosts_per_port
    down = where(request.is_fat_tree & (request.leaf_hosts > 0), minimum(request.leaf_hosts, most), most)
    fitting_nodes = where(in_units, minimum(unit_nodes, down), down)
    unit_hosts = where(request.is_fat_tree, down, fitting_nodes)
    packed_units = where(in_units, ceil_divide(slots, unit_nodes), 1)
    packed = where(
        in_units, packed_units * ceil_divide(unit_nodes * request.rails, down), ceil_divide(request.hosts, down)
    )
    units = ceil_divide(slots, fitting_nodes)
    return _Leaves(
        switches=where(request.is_fat_tree, packed, request.rails * units),
        units=where(request.is_fat_tree, packed_units, units),
        unit_nodes=fitting_nodes,
        unit_hosts=unit_hosts,
        down=down,
        up=_at_least(
            request, uplinks(unit_hosts, request.hosts_per_port, request.oversubscription, request.radix), unit_hosts
        ),
        taper_fits=taper_fits(request.radix, request.oversubscription),
    )


def taper_fits(radix: Array, oversubscription: Array) -> Booleans:
    """Whether a taper leaves a port of a leaf for an uplink.

    >>> taper_fits(64, 2.0), taper_fits(64, 100.0)
    (True, False)
    """
    ports_down = maximum(down_ports(radix, oversubscription), 1)
    fits: Booleans = (ports_down < radix) & (ports_down / oversubscription > 1 - SLACK)
    return fits


def _at_least(request: FabricRequest, up: Array, hosts: Array) -> Array:
    """Links up of a leaf: those that the taper asks for, or more where more are asked for and ports are left [1]."""
    left = maximum(request.radix - ceil_divide(hosts, request.hosts_per_port), 1)
    return maximum(up, minimum(request.uplinks, left))


def _slots(request: FabricRequest) -> Array:
    """Nodes that the leaves must have room for: the fabric managers' links displace some [1]."""
    slots: Array = request.nodes + ceil_divide(request.management_links, request.rails)
    return slots


def _alone(request: FabricRequest, leaves: _Leaves, tiers: Array) -> _Leaves:
    """The lowest tier as built: one tier is a single switch, or one for each rail, with every port facing down."""
    alone = tiers == 1
    hosts = request.radix * request.hosts_per_port
    nodes = where(request.is_rail_only, hosts, hosts // request.rails)
    return leaves._replace(
        switches=where(alone, where(request.is_rail_only, request.rails, 1), leaves.switches),
        units=where(alone, 1, leaves.units),
        unit_nodes=where(alone & logical_not(request.is_fat_tree), nodes, leaves.unit_nodes),
        down=where(alone, hosts, leaves.down),
        up=where(alone, 0, leaves.up),
    )


def _most_nodes(request: FabricRequest, leaves: _Leaves, spine_down: Array) -> dict[int, Array]:
    """Most nodes that each number of tiers carries [1]."""
    displaced = ceil_divide(request.management_links, request.rails)
    alone = request.radix * request.hosts_per_port
    packed_alone = (alone - request.management_links) // request.rails
    most = {1: where(request.is_rail_only, alone - displaced, packed_alone)}
    # A core has a link to every group of spines; groups of one rail's own share the cores with the other rails'.
    separate = request.separate_rails
    shared_cores = separate & logical_not(request.is_rail_only)
    most_leaves = {
        2: request.spine_radix,
        3: spine_down * where(shared_cores, request.core_radix // request.rails, request.core_radix),
        4: spine_down * (request.core_radix // 2) * request.core_radix,
    }
    unit_hosts = maximum(request.nodes_per_unit, 1) * request.rails
    for tiers, count in most_leaves.items():
        by_rail = where(separate, count, count // request.rails) * leaves.unit_nodes - displaced
        in_units = count // ceil_divide(unit_hosts, leaves.down) * unit_hosts
        packed = where(request.nodes_per_unit > 0, in_units, count * leaves.down)
        most[tiers] = where(request.is_fat_tree, (packed - request.management_links) // request.rails, by_rail)
    return most


def _tiers(request: FabricRequest, reach: Mapping[int, Array]) -> tuple[Array, Array]:
    """The fewest tiers that carry the nodes, or those asked for, and the most nodes that they carry [1]."""
    fewest: Array = 0
    for level in sorted(reach, reverse=True):
        fewest = where(request.nodes <= reach[level], level, fewest)
    tiers = where(request.tiers > 0, minimum(request.tiers, MOST_TIERS), fewest)
    most: Array = 0
    for level, nodes in reach.items():
        most = where(tiers == level, nodes, most)
    return tiers, most


class _Upper(NamedTuple):
    """The tiers above the leaves, in one plane.

    Attributes:
        spines: spine switches [1].
        spine_down, spine_up: links a spine can take from below, and its links up [1].
        cores: core switches [1].
        core_up: links up of a core [1].
        super_cores: switches above the cores [1].
        balanced: whether every pair of neighbouring switches gets the same whole number of links.
    """

    spines: Array
    spine_down: Array
    spine_up: Array
    cores: Array
    core_up: Array
    super_cores: Array
    balanced: Booleans


def _upper(request: FabricRequest, tiers: Array, leaves: _Leaves, down: Array, up: Array) -> _Upper:
    """Spines, cores and what stands above them.

    Args:
        request: what was asked for.
        tiers: tiers to build [1].
        leaves: the lowest tier as built.
        down, up: ports of a spine that face down and up where cores stand above it [1].
    """
    leaf_links, separate = leaves.switches * leaves.up, request.separate_rails
    trees, tree_leaves, fewest = _trees(request, leaves)
    pods = maximum(ceil_divide(tree_leaves, down), 1)
    pod_leaves = ceil_divide(tree_leaves, pods)
    below_cores: Array = 0
    pod_spines: Array = 0
    if any_(separate & (tiers >= 3)):
        pod_spines = two_tier_spines(pod_leaves, leaves.up, down, fewest)
    if any_(tiers >= 3):
        over_all = three_tier_spines(tree_leaves, leaves.up, down, fewest)
        below_cores = where(separate, pods * pod_spines, over_all)
    topmost = two_tier_spines(tree_leaves, leaves.up, request.spine_radix, fewest)
    spines = where(tiers == 1, 0, trees * where(tiers == 2, topmost, below_cores))

    # Spines of a rail's own pass on the links they were given; others are built whole.
    passed_on = ceil_of_ratio(ceil_divide(leaf_links, maximum(spines, 1)) / request.spine_oversubscription)
    spine_up = minimum(where(separate, maximum(passed_on, 1), up), request.spine_radix - 1)
    spine_up = where(tiers >= 3, spine_up, 0)
    cores, core_up, super_cores = _cores(request, tiers, spines * spine_up)
    balanced = (pod_leaves * pods == tree_leaves) & (pod_spines * spine_up % maximum(cores, 1) == 0)
    joined = (tiers >= 3) & logical_not(separate)
    if any_(joined):
        balanced = _where_joined(joined, balanced, leaves.up, leaves.switches, spines, spine_up, cores)
    return _Upper(
        spines=spines,
        spine_down=where(tiers >= 3, down, where(tiers == 1, 0, request.spine_radix)),
        spine_up=spine_up,
        cores=cores,
        core_up=core_up,
        super_cores=super_cores,
        balanced=where(tiers >= 3, balanced, leaf_links % maximum(spines, 1) == 0),
    )


def _trees(request: FabricRequest, leaves: _Leaves) -> tuple[Array, Array, Array]:
    """Trees that spines join leaves to, the leaves of one, and the fewest spines that are asked for of it [1].

    Rails with spines of their own are trees of their own.
    """
    trees = where(request.separate_rails, request.rails, 1)
    return trees, ceil_divide(leaves.switches, trees), ceil_divide(request.minimum_spines, trees)


def _cores(request: FabricRequest, tiers: Array, links: Array) -> tuple[Array, Array, Array]:
    """Cores over so many links of spines, links up of one, and what stands above them [1]."""
    trees = where(request.is_rail_only, request.rails, 1)
    down = where(tiers == 4, request.core_radix // 2, request.core_radix)
    cores = where(tiers >= 3, trees * ceil_divide(ceil_divide(links, trees), down), 0)
    up = where(tiers == 4, down, 0)
    return cores, up, trees * ceil_divide(ceil_divide(cores * up, trees), request.core_radix)


def _where_joined(joined: Booleans, balanced: Booleans, *counts: Array) -> Booleans:
    """Whether trees of three tiers are balanced by `_even_groups`, which looks at all divisors, and others as said."""
    if not isinstance(joined, np.ndarray):
        return _even_groups(*counts)
    groups = np.array(np.broadcast_to(balanced, joined.shape))
    groups[joined] = _even_groups(*(np.broadcast_to(count, joined.shape)[joined] for count in counts))
    return groups


def _even_groups(leaf_up: Array, leaves: Array, spines: Array, spine_up: Array, cores: Array) -> Booleans:
    """Whether three tiers divide into equal groups of leaves and spines that each reach every core alike.

    A group has s spines, s a divisor of a leaf's uplinks; the groups share the leaves evenly, and the links up of a
    group divide by the cores.
    """

    def even(divisors: Array, leaves: Array, spines: Array, spine_up: Array, cores: Array) -> Array:
        sizes = np.maximum(divisors, 1)
        groups = np.maximum(spines // sizes, 1)
        shared = (spines % sizes == 0) & (leaves % groups == 0)
        divides: Array = (shared & (sizes * spine_up % np.maximum(cores, 1) == 0)).any(axis=-1)
        return divides

    return _over_divisors(even, leaf_up, leaves, spines, spine_up, cores)


class _Lowest(NamedTuple):
    """The lowest tier as built, and what decides how many stand above it.

    Attributes:
        request: what was asked, with harmless numbers where it is unusable.
        reason: why it cannot be built, or that it can [1].
        tiers, most_nodes: tiers, and the most nodes that they carry [1].
        leaves: the lowest tier.
        spine_down, spine_up: ports of a spine that face down and up where cores stand above it [1].
    """

    request: FabricRequest
    reason: Array
    tiers: Array
    most_nodes: Array
    leaves: _Leaves
    spine_down: Array
    spine_up: Array

    @staticmethod
    def of(unchecked: FabricRequest) -> _Lowest:
        """That of a request."""
        reason, usable = unchecked.complaint()
        request = unchecked.computable(usable)
        spine_down = maximum(down_ports(request.spine_radix, request.spine_oversubscription), 1)
        spine_down = minimum(spine_down, request.spine_radix - 1)
        spine_up = maximum(ceil_of_ratio(spine_down / request.spine_oversubscription), 1)
        spine_up = minimum(spine_up, request.spine_radix - spine_down)

        leaves = _leaves(request)
        tiers, most_nodes = _tiers(request, _most_nodes(request, leaves, spine_down))
        no_uplink = usable & logical_not(leaves.taper_fits) & (tiers != 1)
        reason = where(usable & (request.nodes > most_nodes), TOO_MANY_HOSTS, reason)
        reason = where(no_uplink, TAPER_TOO_WIDE, reason)
        return _Lowest(request, reason, tiers, most_nodes, _alone(request, leaves, tiers), spine_down, spine_up)


class LeastParts(NamedTuple):
    """Switches and links that a tree has at least, all planes together, and what its leaves are.

    Attributes:
        built: whether it can be built.
        leaves, spines, cores, super_cores: switches of each tier [1].
        node_leaf, leaf_spine, spine_core, core_super_core: links between tiers [1].
        unit_nodes: nodes of a group of leaves [1].
        leaf_down: hosts a leaf can take [1].
    """

    built: Booleans
    leaves: Any
    spines: Any
    cores: Any
    super_cores: Any
    node_leaf: Any
    leaf_spine: Any
    spine_core: Any
    core_super_core: Any
    unit_nodes: Any
    leaf_down: Any


def least_parts(asked: FabricRequest) -> LeastParts:
    """What a tree, and any other of equal leaves with more links up, has of each part at least.

    As many spines as the links from below fill; of two tiers also as many as a leaf's links up come to where each spine
    has ports for so many of every leaf's. So too where rails have spines of their own, which pass on no fewer links
    than they were given.

    27 leaves of 21 links up have two links to each spine of 64 ports at most, which takes 11 spines; they take 21:

    >>> least = least_parts(FabricRequest(nodes=567, rails=1, radix=64, leaf_hosts=21, layout=1).in_whole_numbers())
    >>> [int(part) for part in (least.leaves, least.spines, least.leaf_spine)]
    [27, 11, 567]
    """
    request, reason, tiers, _, leaves, spine_down, spine_up = _Lowest.of(asked)
    trees, tree_leaves, fewest = _trees(request, leaves)
    down = where(tiers == 2, request.spine_radix, spine_down)
    fewest = where((tiers == 2) | request.separate_rails, minimum(fewest, leaves.up), fewest)
    from_each_leaf = maximum(request.spine_radix // maximum(tree_leaves, 1), 1)
    fewest = where(tiers == 2, maximum(fewest, ceil_divide(leaves.up, from_each_leaf)), fewest)
    spines = where(tiers == 1, 0, trees * three_tier_spines(tree_leaves, leaves.up, down, fewest))
    leaf_links = leaves.switches * leaves.up
    passed_on = ceil_of_ratio(leaf_links / request.spine_oversubscription)
    spine_links = where(tiers >= 3, where(request.separate_rails, passed_on, spines * spine_up), 0)
    cores, core_up, super_cores = _cores(request, tiers, spine_links)
    planes = request.planes
    return LeastParts(
        built=reason == BUILT,
        leaves=leaves.switches * planes,
        spines=spines * planes,
        cores=cores * planes,
        super_cores=super_cores * planes,
        node_leaf=request.hosts * planes,
        leaf_spine=leaf_links * planes,
        spine_core=spine_links * planes,
        core_super_core=cores * core_up * planes,
        unit_nodes=leaves.unit_nodes,
        leaf_down=leaves.down,
    )


def fewest_switches(request: FabricRequest) -> Array:
    """Switches that a tree of two tiers or more has at least within a taper, all planes together, whatever the hosts of
    its leaves: leaves as full as can be, and as many spines as the links fill that the taper asks for.

    567 hosts at 2 : 1 fill 14 leaves of 64 ports, 42 of them down, and 284 links up 5 spines:

    >>> fewest_switches(FabricRequest(nodes=567, rails=1, radix=64, spine_radix=64, oversubscription=2.0, layout=1))
    19
    """
    down = maximum(down_ports(request.radix, request.oversubscription), 1)
    by_rail = request.rails * ceil_divide(ceil_divide(request.hosts, maximum(request.rails, 1)), down)
    leaves = where(request.is_fat_tree, ceil_divide(request.hosts, down), by_rail)
    links = ceil_of_ratio(request.hosts / request.oversubscription)
    switches: Array = (leaves + ceil_divide(links, request.spine_radix)) * request.planes
    return switches


def design_tree(unchecked: FabricRequest) -> Design:
    """Rail-optimised, plain and rail-only trees of one to four tiers."""
    request, reason, tiers, most_nodes, leaves, spine_down, spine_up = _Lowest.of(unchecked)
    upper = _upper(request, tiers, leaves, spine_down, spine_up)
    return Design.of(
        request,
        reason,
        _links_and_switches(request, leaves, upper) | _bisections(request, tiers, leaves, upper),
        tiers=tiers,
        units=leaves.units,
        unit_nodes=leaves.unit_nodes,
        unit_hosts=leaves.unit_hosts,
        leaf_down=leaves.down,
        leaf_up=leaves.up,
        spine_down=upper.spine_down,
        spine_up=upper.spine_up,
        core_up=upper.core_up,
        hops=2 * tiers - 1,
        most_nodes=most_nodes,
        spare_nodes=_spare_nodes(request, tiers, leaves),
        crosses_rails=logical_not(request.is_rail_only) & logical_not(request.separate_rails & (tiers == 2)),
        balanced=upper.balanced,
        enough_spines=(tiers == 1) | (upper.spines >= request.minimum_spines),
    )


def _links_and_switches(request: FabricRequest, leaves: _Leaves, upper: _Upper) -> dict[str, Array]:
    """Switches of each tier, links between tiers, and ports left over, in one plane [1]."""
    hosts = request.hosts
    leaf_links, spine_links = leaves.switches * leaves.up, upper.spines * upper.spine_up
    core_links = upper.cores * upper.core_up
    host_ports = ceil_divide(hosts, request.hosts_per_port)
    return {
        "leaf_switches": leaves.switches,
        "spine_switches": upper.spines,
        "core_switches": upper.cores,
        "super_core_switches": upper.super_cores,
        "node_leaf": hosts,
        "leaf_spine": leaf_links,
        "spine_core": spine_links,
        "core_super_core": core_links,
        "leaf_free": leaves.switches * request.radix - host_ports - leaf_links,
        "spine_free": upper.spines * request.spine_radix - leaf_links - spine_links,
        "core_free": upper.cores * request.core_radix - spine_links - core_links,
        "super_core_free": upper.super_cores * request.core_radix - core_links,
        "hosts": request.nodes * request.rails,
    }


def _bisections(request: FabricRequest, tiers: Array, leaves: _Leaves, upper: _Upper) -> dict[str, Array]:
    """Links' worth of host speed across the worst equal halves of one plane, one way, at each tier [1]."""
    half = request.nodes * request.rails / 2
    leaf_links, spine_links = leaves.switches * leaves.up, upper.spines * upper.spine_up
    through_leaf = minimum(1.0, leaves.up * request.hosts_per_port / leaves.unit_hosts)
    from_below = where(request.separate_rails, leaf_links, upper.spine_down * upper.spines)
    through_spine = minimum(1.0, spine_links / maximum(from_below, 1))
    return {
        "bisection_leaf": half,
        "bisection_spine": where(tiers >= 2, half * through_leaf, np.nan),
        "bisection_core": where(tiers >= 3, half * through_leaf * through_spine, np.nan),
    }


def _spare_nodes(request: FabricRequest, tiers: Array, leaves: _Leaves) -> Array:
    """Nodes that still fit into the leaves [1]."""
    packed = (leaves.switches * leaves.down - request.hosts) // request.rails
    spare = where(request.is_fat_tree, packed, leaves.units * leaves.unit_nodes - _slots(request))
    alone = (request.radix * request.hosts_per_port - request.hosts) // request.rails
    return where((tiers == 1) & logical_not(request.is_rail_only), alone, spare)
