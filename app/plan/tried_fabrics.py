"""The fabrics that are tried for several clusters, in columns: each designed once, and its longest links."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, between, changes, distinct, where
from app.formulas.fabric import layouts
from app.formulas.fabric.cabling import RailRuns
from app.plan.bill_of_materials import LEVELS
from app.plan.cables import floor_of
from app.plan.fabric_cost import longest
from app.plan.fabric_search import FabricSearch
from app.plan.prices import PriceList
from app.plan.switches import designed_together
from app.plan.tried_leaves import TriedLeaves

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Lengths = Mapping[str, float] | None
"""The longest link of each level, if it is known [m]."""


class TriedFabrics:
    """What can be built for some clusters of switches of some ports or others, and how long its cables are.

    Each fabric is designed once, and those of leaves of one size are put in order once, however many networks they are
    tried for.

    Attributes:
        searches, leaves, shared: what is looked for, the leaves that are tried, in lists, and the sizes that these
            share.
        designs, switches, kind, taper: the fabrics; the switches of each, the number of its kind, and the taper that it
            was designed with [1].
        each, list, which, first: all leaves of shared sizes, the list of each and its design; of each size the first of
            its leaves.
        size, leaf, rank, design: where the fabrics of a size that can be built are, of several alike the first, those
            of equal leaves side by side, fewest switches first: the size, which of the leaves, the order, the design.
        ends: of each size the row of its first fabric, and the end of all.
        used, uses: of each list the sizes of which something can be built, and where they begin.
        group, begins: the group of equal leaves that each row belongs to, and of each group the row of fewest
            switches, which it begins with.
        search, nodes_per_rack, by_rail: of each group the first search that has it, nodes that stand in a rack of its
            cluster [1], and whether its longest links are found together with others'.
        heights, lengths: the longest links of each level of these [m], for each height of the switches above; 0 for
            none.
        lengths_sold: lengths that cables are sold in [m].
    """

    def __init__(self, searches: Sequence[FabricSearch], leaves: TriedLeaves, prices: PriceList) -> None:
        self.searches = searches
        self.leaves = leaves
        self.prices = prices
        self.shared = leaves.shared
        self._design()
        self._sort()
        self.lengths_sold = floor_of(prices.catalog, 1).lengths
        self._measure()
        self._measured: set[tuple[int, int]] = set()

    def _design(self) -> None:
        """Design every fabric once."""
        leaves = self.shared.leaves
        self.list, self.each = leaves.each()
        self.size = np.repeat(self.shared.number, leaves.ways)
        self.first = np.searchsorted(self.size, np.arange(self.size[-1] + 1))
        kind = leaves.kind[self.list]
        first, self.which = leaves.different(kind, self.list, self.each)
        self.kind, self.taper = kind[first], self.each.taper[first]
        self.designs = designed_together(leaves.fabrics(self.kind, self.each.at(first)))
        self.switches = self.designs.switches

    def _sort(self) -> None:
        """Find the rows of what was tried."""
        order, leaves, alike = _by_leaves(self.designs, self.kind, self.leaves.requests(self.kind).layout)
        rank = np.full(len(self.kind), -1)
        rank[order] = np.arange(len(order))
        rank = rank[self.which]
        built = np.flatnonzero(rank >= 0)
        built = built[np.argsort(self.size[built] * len(order) + rank[built], kind="stable")]
        new = changes(self.size[built], alike[rank[built]])
        self.leaf = np.minimum.reduceat(built, new) if len(new) else built
        self.size, self.rank, self.design = (column[self.leaf] for column in (self.size, rank, self.which))
        self.ends = np.searchsorted(self.size, np.arange(len(self.first) + 1))
        self.begins = changes(self.size, leaves[self.rank])
        is_first = np.zeros(len(self.size), np.int64)
        is_first[self.begins] = 1
        self.group = np.cumsum(is_first) - 1
        its_list = self.list[self.leaf[self.begins]]
        self.search, self.nodes_per_rack = (
            self.shared.leaves.cluster[its_list],
            self.shared.leaves.nodes_per_rack[its_list],
        )
        has_some = self.ends[self.shared.size] < self.ends[self.shared.size + 1]
        self.used = self.shared.size[has_some]
        self.uses = np.searchsorted(self.shared.list[has_some], np.arange(len(self.leaves.cluster) + 1))

    def _measure(self) -> None:
        """Find how long the longest links by rail are: of all fabrics on a floor at once, which takes little longer."""
        firsts = self.design[self.begins]
        offered = {id(search.offered): search.offered for search in self.searches}
        heights = {choice.height for its in offered.values() for choice, _ in its.ends}
        self.heights = {height: place for place, height in enumerate(sorted(heights))}
        levels = [level for level in LEVELS if (getattr(self.designs, level)[firsts] > 0).any()]
        self.lengths = {level: np.zeros((len(heights), len(firsts))) for level in levels}
        layout = self.leaves.requests(self.kind[firsts]).layout
        least = where(layout == layouts.RAIL_ONLY, 0, where(layout == layouts.RAIL_OPTIMIZED, 1, layouts.MOST_TIERS))
        self.by_rail = self.designs.tiers[firsts] > least
        for nodes in {*self.nodes_per_rack.tolist()}:
            groups = np.flatnonzero(self.by_rail & (self.nodes_per_rack == nodes))
            if len(groups):
                some, which = np.unique(firsts[groups], return_inverse=True)
                longest_by_rail = self.longest_by_rail(some, nodes)
                for level in self.lengths.keys() & longest_by_rail.keys():
                    self.lengths[level][:, groups] = longest_by_rail[level][:, which]

    def longest_by_rail(self, some: Integers, nodes_per_rack: int) -> dict[str, Floats]:
        """The longest links of each level of some designs by rail [m], for each height of the switches above; 0 for
        none.
        """
        floor = floor_of(self.prices.catalog, nodes_per_rack)
        held = [floor.switches_per_rack(height) for height in self.heights]
        per_rack = [*dict.fromkeys(held)]
        as_high = [per_rack.index(many) for many in held]
        runs = self._runs(some).longest(floor, np.array(per_rack)[:, None, None])
        has_some = {level: getattr(self.designs, level)[some] > 0 for level in runs}
        return {level: np.where(has_some[level], lengths, 0.0)[as_high] for level, lengths in runs.items()}

    def _runs(self, some: Integers) -> RailRuns:
        """What the longest links by rail of some designs depend on."""
        designs, request = self.designs.at(some), self.leaves.requests(self.kind[some])
        above = (designs.leaf_switches, designs.spine_switches, designs.core_switches, designs.super_core_switches)
        in_a_plane = tuple(many // request.planes for many in above)
        return RailRuns.of(request.nodes, designs.unit_nodes, request.rails, in_a_plane, request.management_links)

    def switches_of(self, row: Integers) -> Floats:
        """Switches of some fabrics [1]."""
        return self.switches[self.design[row]]

    def lengths_of(self, row: Integers, height: Integers) -> list[Lengths]:
        """The longest link of each level of some fabrics [m], whose switches above the leaves are of some of the
        heights; none where they are those of one like it.
        """
        group = self.group[row]
        columns = [its[height, group].tolist() for its in self.lengths.values()]
        known: dict[tuple[float, ...], Lengths] = {}
        of_each = list[Lengths]()
        for is_first, lengths in zip((self.begins[group] == row).tolist(), zip(*columns, strict=True), strict=True):
            if lengths not in known:
                levels = zip(self.lengths, lengths, strict=True)
                known[lengths] = {level: length for level, length in levels if length > 0}
            of_each.append(known[lengths] if is_first else None)
        return of_each

    def different(self, height: int, row: Integers) -> tuple[Integers, Integers]:
        """Where each different fabric of switches so high is first among those of several searches, which share some,
        and which of these each is.
        """
        sold = np.array(self.lengths_sold)
        columns = (its[self.heights[height]] for its in self.lengths.values())
        lengths = (np.searchsorted(sold, column, side="right")[self.group[row]] for column in columns)
        return distinct((self.design[row], *lengths), len(row))

    def measure_apart(self, height: int, sizes: Integers) -> None:
        """Find the longest links of fabrics of some sizes that are not by rail, where switches above the leaves are so
        high: of equal leaves those of the fabric of fewest switches.
        """
        if self.by_rail.all():
            return
        row, _ = between(self.ends, sizes)
        groups = np.unique(self.group[row])
        place = self.heights[height]
        for group in groups[~self.by_rail[groups]].tolist():
            if (place, group) in self._measured:
                continue
            self._measured.add((place, group))
            search = self.searches[self.search[group]]
            first = self.designs.at(self.design[self.begins[group]])
            runs = longest(first, height, search.cluster, search.request, self.prices.catalog)
            for level, length in runs.items():
                self.lengths[level][place, group] = length

    def with_tapers(self, row: Integers, taper: Floats) -> list[layouts.Design]:
        """Fabrics as they are with some tapers, where they were designed with others: what else a leaf could take
        depends on them.
        """
        designs, leaf = self.design[row], self.leaf[row]
        leaves = self.each.at(leaf)
        taper = np.where(leaves.hosts > 0, taper, leaves.taper)
        if (taper == self.taper[designs]).all():
            return self.designs.at(designs).each()
        kind = self.kind[designs]
        down = np.asarray(layouts.down_ports(self.leaves.requests(kind).radix, taper))
        first, which = distinct((designs, down), len(designs))
        each = designed_together(self.leaves.fabrics(kind[first], leaves._replace(taper=taper).at(first))).each()
        return [each[place] for place in which.tolist()]


def longest_of(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    """The longest link of each level that one of some fabrics has [m].

    >>> longest_of({"node_leaf": np.array([30.0, 10.0]), "leaf_spine": np.array([50.0, 0.0])}, 1)
    {'node_leaf': 10.0}
    """
    return {level: float(column[row]) for level, column in columns.items() if column[row] > 0}


def _by_leaves(designs: layouts.Design, kind: Integers, layout: Array) -> tuple[Integers, Integers, Integers]:
    """The designs that can be built, those of a kind with equal leaves side by side, fewest switches first; of each of
    them a number that those of equal leaves share, and one that those share that are alike.

    Where leaves are by rail, the unit says all about them: what more a leaf could take depends on the taper.
    """
    built = np.flatnonzero(designs.reason == layouts.BUILT)
    by_rail = (layout == layouts.RAIL_OPTIMIZED) | (layout == layouts.RAIL_ONLY)
    sizes = (kind, where(by_rail, 0.0, designs.leaf_down) + 0.0 * kind, designs.unit_nodes)
    counts = (
        designs.switches,
        designs.leaf_switches,
        designs.spine_switches,
        designs.core_switches,
        designs.switch_links,
        designs.tiers,
    )
    rows: Floats = np.array([*sizes, *counts])[:, built]
    order = np.lexsort(rows[::-1])
    differs = np.ones((len(rows), len(built)), dtype=np.bool_)
    np.not_equal(rows[:, order[1:]], rows[:, order[:-1]], out=differs[:, 1:])
    leaves, alike = np.any(differs[: len(sizes)], axis=0), np.any(differs, axis=0)
    return built[order], np.cumsum(leaves), np.cumsum(alike)
