"""The leaves that a fabric is tried with: hosts of each, and its links up."""

from bisect import bisect_right
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, where
from app.formulas.fabric import layouts, tree
from app.plan.cluster import Cluster
from app.plan.scenario import DesignRequest

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BY_RAIL = ("rail-optimized", "rail-only")
TREES = (*BY_RAIL, "fat-tree")
GROUPS_TRIED = 32
"""Numbers of units are tried in steps of this share of as many as there would be without a taper."""
SIZES_TRIED = 128
"""Hosts of a unit are tried in steps of this share of those of a whole one: of switches up to 510 ports all."""
UPLINKS_TRIED = 64
"""Uplinks of a leaf are tried in steps of this share of those that may be tried."""
MORE_UNITS = 2
"""More units than the fewest that share hosts out: a cluster costs no more than one that needs a unit more."""
TAPERS_TRIED = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""Tapers that networks are tried with as well where a wider one is allowed."""


class Leaves(NamedTuple):
    """Leaves to try: their hosts, their links up, 0 for as many, and as few, as the taper has, and the taper."""

    hosts: Integers
    up: Integers
    taper: Floats

    @property
    def many(self) -> int:
        """How many there are [1]."""
        return len(self.hosts)

    def at(self, *index: Any) -> "Leaves":
        """Some of them."""
        return Leaves(*(column[index] for column in self))


def fabrics_of(request: layouts.FabricRequest, leaves: Leaves) -> layouts.FabricRequest:
    """Fabrics of what is asked, a number or a column of each, of some leaves, in columns; one alone in numbers.

    Blank hosts and links up are the taper's own.

    >>> request, rows = layouts.FabricRequest(nodes=64, rails=8, radix=32), np.array([[0, 8], [0, 9]])
    >>> fabrics = fabrics_of(request, Leaves(*rows, np.array([2.0, 2.0])))
    >>> fabrics.nodes, fabrics.nodes_per_unit.tolist(), fabrics.uplinks.tolist()
    (64, [0, 8], [0, 9])
    """
    columns: Any = (column[0].item() for column in leaves) if leaves.many == 1 else leaves
    hosts, up, taper = columns
    if leaves.many > 1 and (leaves.taper == leaves.taper[0]).all():
        taper = leaves.taper[0].item()
    by_rail = request.is_rail_only | (request.layout == layouts.RAIL_OPTIMIZED)
    return request._replace(
        oversubscription=taper,
        uplinks=up,
        leaf_hosts=where(request.is_fat_tree, hosts, 0),
        nodes_per_unit=where(by_rail & (hosts > 0), hosts, request.nodes_per_unit),
    )


class LinksUp(NamedTuple):
    """Links up that are tried of leaves of each size, in steps from the fewest to the most [1]."""

    fewest: Integers
    most: Integers

    @property
    def step(self) -> Integers:
        """From one to the next [1]."""
        return np.asarray(np.maximum((self.most - self.fewest) // UPLINKS_TRIED, 1))

    @property
    def many(self) -> Integers:
        """How many are tried [1]."""
        return np.asarray(np.maximum(self.most - self.fewest, 0) // self.step + 1)


def links_up(hosts: NDArray[Any], taper: Array, radix: Array) -> LinksUp:
    """Links up of leaves of so many hosts and ports: from as few as a taper allows to as many half as many more, and no
    more than hosts.

    >>> [column.tolist() for column in links_up(np.array([16, 4]), 2.0, 32)]
    [[8, 2], [12, 4]]
    """
    fewest = np.asarray(tree.uplinks(hosts, 1, taper, radix))
    return LinksUp(fewest, np.minimum(np.minimum(hosts, radix - hosts), fewest + np.maximum(fewest // 2, 4)))


class Sizes(NamedTuple):
    """Leaves to try by their hosts: of each size all from as few links up to as many.

    Attributes:
        radix: ports of a leaf [1].
        taper: the network's.
        hosts: sizes of leaves [1].
        own: tapers whose own leaves are tried, whatever hosts these have.
    """

    radix: int
    taper: float
    hosts: NDArray[Any]
    own: tuple[float, ...] = ()

    def within(self) -> tuple[Floats, Integers, Integers]:
        """The sizes that fit each narrower taper, with the fewest links up that do: the taper, the place of the size,
        and the links up.
        """
        narrower = narrower_than(self.taper)
        fewest, most = links_up(self.hosts, self.taper, self.radix)
        up = np.maximum(tree.uplinks(self.hosts, 1, narrower, self.radix), fewest)
        fits = fit(self.hosts, up, narrower, self.radix) & (up <= np.maximum(most, fewest))
        taper, size = np.nonzero(fits)
        return narrower[taper, 0], size, up[taper, size]


def narrower_than(taper: float) -> Floats:
    """Tapers that are tried as well where a wider one is allowed, in rows."""
    return np.array([ratio for ratio in TAPERS_TRIED if ratio < taper])[:, None]


def fit(hosts: NDArray[Any], up: NDArray[Any], taper: Array, radix: Array) -> NDArray[np.bool_]:
    """Whether leaves of so many hosts, links up and ports fit a taper."""
    fits: NDArray[np.bool_] = hosts <= layouts.down_ports(radix, taper)
    return fits & (up >= tree.uplinks(hosts, 1, taper, radix))


class LeafHosts(NamedTuple):
    """What the leaves of a network are sized for.

    Attributes:
        is_tree: whether leaves stand below spines.
        hosts: hosts to join of a rail, or of all [1].
        rack: hosts of a rack, where leaves are not by rail; 0 where they are [1].
        unit: nodes of a unit that is asked for, if any [1].
        alone: ports of one switch that joins all, or of one a rail; infinite where more tiers are asked for [1].
    """

    is_tree: bool
    hosts: int
    rack: int
    unit: int
    alone: float

    @staticmethod
    def of(cluster: Cluster, request: DesignRequest) -> "LeafHosts":
        """Those of a cluster."""
        topology, rails, links = request.topology, max(cluster.nics_per_node, 1), request.management_links
        in_one_switch = cluster.nodes * rails + links
        slots = cluster.nodes + -(-links // rails)
        hosts, rack, unit = in_one_switch, cluster.platform.nodes_per_rack * rails, 0
        if topology in BY_RAIL:
            hosts, rack, unit = slots, 0, request.nodes_per_unit or 0
        alone = slots if topology == "rail-only" else in_one_switch
        return LeafHosts(topology in TREES, hosts, rack, unit, alone if (request.tiers or 1) == 1 else inf)

    def sizes(self, radix: int, taper: float) -> Sizes:
        """Hosts of a leaf of so many ports that are tried, as many as the taper leaves ports for first.

        Where one switch joins all, or one a rail, leaves have no uplinks, and no taper changes it.

        Without a taper whole leaves, or as few units as there can be and a few more with their hosts shared out evenly.
        With one, every unit that needs as few leaves as the taper allows, as many as there would be without it, or some
        number between; without tiers, narrower tapers. What a narrower taper may be built of a wider one may be too, so
        that it never costs more.
        Of a plain tree also whole racks, or equal parts of one: short cables reach their leaf in a cluster of any size.
        """
        if not self.is_tree:
            return Sizes(radix, taper, NO_SIZES, (taper, *(ratio for ratio in TAPERS_TRIED if ratio < taper)))
        if self.alone <= radix:
            return Sizes(radix, taper, NO_SIZES, (taper,))
        mosts = _whole_leaves(radix)
        if taper <= 1:
            alone = self.hosts <= radix or self.unit
            smaller = NO_SIZES if alone else _smaller(_smaller_units(self.hosts, mosts[0]), self.rack, mosts[0])
            return Sizes(radix, taper, smaller, (taper,))
        most = max(int(layouts.down_ports(radix, taper)), 1)
        narrower = mosts[: bisect_right(TAPERS_TRIED, taper)]
        return Sizes(radix, taper, _hosts(self.hosts, self.rack, self.unit, most, narrower))


def every_size(tried: Sizes) -> Sizes:
    """Leaves of any number of hosts that a taper allows, from the smallest that are tried for it.

    Narrower tapers are tried with none smaller.
    """
    most = max(int(layouts.down_ports(tried.radix, tried.taper)), 1)
    return tried._replace(
        hosts=np.arange(min([most, *tried.hosts.tolist()]) if len(tried.hosts) else 1, most + 1), own=()
    )


NO_SIZES = np.zeros(0, np.int64)


@lru_cache(maxsize=64)
def _whole_leaves(radix: int) -> tuple[int, ...]:
    """Hosts of a leaf that is as full as each of the tapers that are tried allows. Kept: all networks share them."""
    return tuple(max(int(layouts.down_ports(radix, ratio)), 1) for ratio in TAPERS_TRIED)


@lru_cache(maxsize=256)
def _hosts(hosts: int, rack: int, unit: int, most: int, mosts: tuple[int, ...]) -> Integers:
    """Sizes of leaves that are tried with a taper for so many hosts of a rail, or of all [1].

    Kept: tapers that leave as many ports down, and networks of as many ports, have the same.

    Args:
        hosts, rack, unit: hosts to join, those in a rack, and nodes of a unit that is asked for, if any [1].
        most, mosts: hosts of a leaf as full as the taper allows, and as those tapers that are tried [1].
    """
    all_mosts = most, *mosts
    if unit:
        return np.array(list(dict.fromkeys(min(unit, leaf_hosts) for leaf_hosts in all_mosts)))
    whole = mosts[0]
    fewest, many = -(-hosts // most), -(-hosts // whole)
    groups = [
        *range(many, fewest, -max(many // GROUPS_TRIED, 1)),
        *(-(-hosts // leaf_hosts) for leaf_hosts in all_mosts),
    ]
    even = (-(-hosts // group) for group in groups)
    tried = *all_mosts, *even, *_smaller_units(hosts, whole), *_whole_racks(rack, whole // 2, most)
    return np.array(list(dict.fromkeys(tried)))


@lru_cache(maxsize=64)
def _smaller(hosts: range, rack: int, whole: int) -> Integers:
    """Smaller sizes of leaves in a column. Kept: clusters of thousands of nodes share a few."""
    return np.array(list(dict.fromkeys([*hosts, *_whole_racks(rack, whole // 2, whole - 1)])), np.int64)


def _whole_racks(rack: int, fewest: int, most: int) -> list[int]:
    """Hosts of leaves for whole racks of so many, or for equal parts of one, from the fewest to the most.

    >>> _whole_racks(72, 32, 150), _whole_racks(8, 9, 31)
    ([36, 72, 144], [16, 24])
    """
    sizes = range(max(fewest, 1), most + 1) if rack else ()
    return [hosts for hosts in sizes if hosts % rack == 0 or rack % hosts == 0]


def _smaller_units(hosts: int, whole: int) -> range:
    """Hosts of the units that are tried besides whole ones, of so many hosts each.

    Down to as few as in a few units more than there need be; and as few as the next cluster has that needs a unit more,
    whose fabric would else be one that this cluster was not tried with.

    >>> [list(_smaller_units(hosts, 32)) for hosts in (1024, 1025)], _smaller_units(2048, 256)
    ([[30, 31], [30, 31]], range(188, 256, 2))
    """
    units = -(-hosts // whole)
    fewest = min(-(-hosts // (units + MORE_UNITS)), -(-(units * whole + 1) // (units + 1 + MORE_UNITS)))
    step = max(whole // SIZES_TRIED, 1)
    return range(whole - step, fewest - 1, -step)[::-1]
