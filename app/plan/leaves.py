"""The leaves that a fabric is tried with: hosts of each, and its links up."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import counted_off, where
from app.formulas.fabric import layouts, tree
from app.plan.cluster import Cluster
from app.plan.scenario import DesignRequest
from app.plan.switches import together

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BY_RAIL = ("rail-optimized", "rail-only")
LAYOUTS_BY_RAIL = tuple(map(layouts.LAYOUTS.index, BY_RAIL))
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


def fabrics_of(kinds: Sequence[layouts.FabricRequest], leaves: Sequence[Leaves]) -> layouts.FabricRequest:
    """Fabrics of some kinds, each of some leaves, in columns; one alone in numbers.

    Blank hosts and links up are the taper's own.

    >>> kind, rows = layouts.FabricRequest(nodes=64, rails=8, radix=32), np.array([[0, 8], [0, 9]])
    >>> fabrics = fabrics_of([kind], [Leaves(*rows, np.array([2.0, 2.0]))])
    >>> fabrics.nodes, fabrics.nodes_per_unit.tolist(), fabrics.uplinks.tolist()
    (64, [0, 8], [0, 9])
    """
    request = together(kinds, [its.many for its in leaves])
    columns: list[Any] = [np.concatenate(column) for column in zip(*leaves, strict=True)]
    hosts, up, taper = (column[0].item() for column in columns) if len(columns[0]) == 1 else columns
    if (columns[2] == columns[2][0]).all():
        taper = columns[2][0].item()
    by_rail = request.is_rail_only | (request.layout == layouts.RAIL_OPTIMIZED)
    return request._replace(
        oversubscription=taper,
        uplinks=up,
        leaf_hosts=where(request.is_fat_tree, hosts, 0),
        nodes_per_unit=where(by_rail & (hosts > 0), hosts, request.nodes_per_unit),
    )


@dataclass(frozen=True, eq=False)
class Sizes:
    """Leaves to try by their hosts: besides those of some tapers, of each size all from as few links up to as many.

    Attributes:
        radix: ports of a leaf [1].
        tapers: tapers whose own leaves are tried, the network's first.
        hosts, fewest, most: sizes of other leaves, and their links up [1].
    """

    radix: int
    tapers: tuple[float, ...]
    hosts: NDArray[Any]
    fewest: NDArray[Any]
    most: NDArray[Any]

    @staticmethod
    def of_tapers(radix: int, *tapers: float) -> "Sizes":
        """Leaves of as many hosts and links up as some tapers have, and no other."""
        none = np.zeros(0, np.int64)
        return Sizes(radix, tapers, none, none, none)

    @cached_property
    def _uplinks(self) -> tuple[Integers, Integers]:
        """Steps in which links up are tried, and how many are."""
        step = np.maximum((self.most - self.fewest) // UPLINKS_TRIED, 1)
        return step, np.maximum(self.most - self.fewest, 0) // step + 1

    @property
    def many(self) -> int:
        """Leaves that are tried [1]."""
        others = len(self.hosts) if self.most is self.fewest else int(self._uplinks[1].sum())
        return len(self.tapers) + others

    @cached_property
    def leaves(self) -> Leaves:
        """All leaves.

        >>> sizes = Sizes(32, (2.0,), *np.array([[16, 4], [8, 2], [12, 4]]))
        >>> [column.tolist() for column in sizes.leaves[:2]], sizes.many
        ([[0, 16, 16, 16, 16, 16, 4, 4, 4], [0, 8, 9, 10, 11, 12, 2, 3, 4]], 9)
        """
        return self.leaves_of(slice(None))

    def leaves_of(self, some: Any) -> Leaves:
        """The leaves of some sizes, after those that tapers have."""
        hosts, up = self.hosts[some], self.fewest[some]
        if self.most is not self.fewest:
            step, counts = (column[some] for column in self._uplinks)
            hosts, up = np.repeat(hosts, counts), np.repeat(up, counts) + counted_off(counts) * np.repeat(step, counts)
        own = np.zeros(len(self.tapers), np.int64)
        taper = np.append(self.tapers, np.full(len(hosts), self.tapers[0]))
        return Leaves(np.concatenate((own, hosts)), np.concatenate((own, up)), taper)

    @cached_property
    def within(self) -> tuple[Floats, Integers, Integers]:
        """The sizes that fit each narrower taper, with the fewest links up that do: the taper, the place of the size,
        and the links up.
        """
        narrower = narrower_than(self.tapers[0])
        up = np.maximum(tree.uplinks(self.hosts, 1, narrower, self.radix), self.fewest)
        fits = fit(self.hosts, up, narrower, self.radix) & (up <= np.maximum(self.most, self.fewest))
        taper, size = np.nonzero(fits)
        return narrower[taper, 0], size, up[taper, size]


def narrower_than(taper: float) -> Floats:
    """Tapers that are tried as well where a wider one is allowed, in rows."""
    return np.array([ratio for ratio in TAPERS_TRIED if ratio < taper])[:, None]


def fit(hosts: NDArray[Any], up: NDArray[Any], taper: Floats, radix: int) -> NDArray[np.bool_]:
    """Whether leaves of so many hosts, links up and ports fit a taper."""
    fits: NDArray[np.bool_] = hosts <= layouts.down_ports(radix, taper)
    return fits & (up >= tree.uplinks(hosts, 1, taper, radix))


def sizes_tried(radix: int, cluster: Cluster, request: DesignRequest) -> Sizes:
    """Hosts of a leaf and its uplinks that are tried, the taper's own first.

    Where one switch joins all, or one a rail, leaves have no uplinks, and no taper changes it.
    """
    topology, unit = request.topology, request.nodes_per_unit or 0
    rails, links = max(cluster.nics_per_node, 1), request.management_links
    taper, in_one_switch = request.oversubscription, cluster.nodes * rails + links
    if topology == "rail-only":
        in_one_switch = cluster.nodes + -(-links // rails)
    if (request.tiers or 1) == 1 and in_one_switch <= radix and topology in (*BY_RAIL, "fat-tree"):
        return Sizes.of_tapers(radix, taper)
    return _sizes(radix, cluster.nodes, rails, links, topology, unit, taper)


@lru_cache(maxsize=256)
def _sizes(radix: int, nodes: int, rails: int, links: int, topology: str, unit: int, taper: float) -> Sizes:
    """The same for leaves of so many ports under nodes of so many rails, with so many links of managers.

    Without a taper whole leaves, or as few units as there can be and a few more with their hosts shared out evenly.
    With one, every unit that needs as few leaves as the taper allows, as many as there would be without it, or some
    number between, and from the fewest uplinks that the taper allows to as many half as many more; without tiers,
    narrower tapers. What a narrower taper may be built of a wider one may be too, so that it never costs more.

    Kept: networks that one cluster is held against have leaves of the same few numbers of ports.
    """
    by_rail = topology in BY_RAIL
    if not (by_rail or topology == "fat-tree"):
        return Sizes.of_tapers(radix, taper, *(ratio for ratio in TAPERS_TRIED if ratio < taper))
    hosts = nodes + -(-links // rails) if by_rail else nodes * rails + links
    if taper <= 1:
        whole = max(int(layouts.down_ports(radix, 1.0)), 1)
        if hosts <= radix or (by_rail and unit):
            return Sizes.of_tapers(radix, taper)
        return _smaller(radix, taper, _smaller_units(hosts, whole))
    mosts = [max(int(layouts.down_ports(radix, ratio)), 1) for ratio in (taper, *TAPERS_TRIED) if ratio <= taper]
    most, whole = mosts[0], mosts[1]
    if by_rail and unit:
        sizes = list(dict.fromkeys(min(unit, leaf_hosts) for leaf_hosts in mosts))
    else:
        fewest, many = -(-hosts // most), -(-hosts // whole)
        groups = [
            *range(many, fewest, -max(many // GROUPS_TRIED, 1)),
            *(-(-hosts // leaf_hosts) for leaf_hosts in mosts),
        ]
        even = (-(-hosts // group) for group in groups)
        sizes = list(dict.fromkeys([*mosts, *even, *_smaller_units(hosts, whole)]))
    return Sizes(radix, (taper,), *_with_uplinks(np.array(sizes), taper, radix))


@lru_cache(maxsize=64)
def _smaller(radix: int, taper: float, hosts: range) -> Sizes:
    """The taper's own leaves, and smaller ones of so many hosts. Kept: clusters of thousands of nodes share a few."""
    smaller = np.array(hosts, np.int64)
    return Sizes(radix, (taper,), smaller, smaller, smaller)


def _with_uplinks(sizes: NDArray[Any], taper: float, radix: int) -> tuple[Integers, Integers, Integers]:
    """Leaves of so many hosts, and the fewest and the most links up that are tried with each.

    >>> [column.tolist() for column in _with_uplinks(np.array([16, 4]), 2.0, 32)]
    [[16, 4], [8, 2], [12, 4]]
    """
    fewest = np.asarray(tree.uplinks(sizes, 1, taper, radix))
    most = np.minimum(np.minimum(sizes, radix - sizes), fewest + np.maximum(fewest // 2, 4))
    return sizes, fewest, most


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


def different(several: Sequence[Leaves], radix: int) -> tuple[Leaves, list[Integers]]:
    """The different ones of several lists of leaves, and which of them each list has.

    Leaves of equal hosts and links up make the same fabric whatever taper they were tried for, as long as it fits.

    >>> lists = [Sizes(32, (taper,), *np.array([[16], [up], [up + 1]])).leaves for taper, up in ((2.0, 8), (1.9, 9))]
    >>> leaves, which = different(lists, 32)
    >>> leaves.hosts.tolist(), leaves.up.tolist(), [places.tolist() for places in which]
    ([16, 16, 16, 0, 0], [8, 9, 10, 0, 0], [[3, 0, 1], [4, 1, 2]])
    """
    lists = {id(leaves): leaves for leaves in several}
    if len(lists) == 1:
        return several[0], [np.arange(several[0].many)] * len(several)
    width = 1 + max(int(leaves.up.max()) for leaves in lists.values())
    codes = {key: leaves.hosts * width + leaves.up for key, leaves in lists.items()}
    tapers = np.zeros(1 + max(int(code.max()) for code in codes.values()))
    free = {key: _free_of_taper(leaves, radix) for key, leaves in lists.items()}
    for key, leaves in lists.items():
        tapers[codes[key][free[key]]] = leaves.taper[free[key]]
    known = np.flatnonzero(tapers)
    place = np.cumsum(tapers > 0) - 1
    parts, many, which = [Leaves(*np.divmod(known, width), tapers[known])], len(known), {}
    for key, leaves in lists.items():
        bound = ~free[key]
        which[key] = np.where(bound, many - 1 + np.cumsum(bound), place[codes[key]])
        parts.append(leaves.at(bound))
        many += parts[-1].many
    return Leaves(*map(np.concatenate, zip(*parts, strict=True))), [which[id(leaves)] for leaves in several]


def _free_of_taper(leaves: Leaves, radix: int) -> NDArray[np.bool_]:
    """Which leaves of switches of so many ports are the same for every taper that they are tried for: those of hosts
    and links up of their own, all for one taper.
    """
    taper = float(leaves.taper[-1])
    return (leaves.hosts > 0) & (leaves.up > 0) & bool(taper >= 1 and tree.taper_fits(radix, taper))
