"""The least that fabrics may cost by the hosts of their leaves, so that most of those that cost more need no design."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import changes, counted_off, distinct
from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import Floor, LeafRuns, Reach
from app.plan.bill_of_materials import LEVELS
from app.plan.leaves import Leaves, every_size
from app.plan.offers import UNREACHED, AllOffers, longer_link_prices
from app.plan.prices import PriceList
from app.plan.tried_leaves import Options, TriedLeaves

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Narrowed(NamedTuple):
    """What is left out of the fabrics that may be built for a cluster, since it costs more.

    Attributes:
        most: all switches that are left out cost more [USD].
        places: of the switches that are kept among those on offer.
        least, left_out: of each what fabrics cost at least, and all of leaves that are left out [USD].
        narrower: whether the cheapest leaves that fit narrower tapers are kept too.
        within: of switches that are kept, by their place, and of leaves that fit a narrower taper, by the taper: all
            that are left out cost more [USD].
    """

    most: float
    places: list[int]
    least: list[float]
    left_out: list[float]
    narrower: bool
    within: dict[int, dict[float, float]]


class _Pairs(NamedTuple):
    """Clusters and choices of switches.

    Attributes:
        cluster: the numbers of the clusters.
        place: places of the choices among those on offer to each.
        offer: the same among all on offer.
        list: places of the lists of leaves.
    """

    cluster: Integers
    place: Integers
    offer: Integers
    list: Integers

    @staticmethod
    def of(tried: TriedLeaves, offers: AllOffers) -> "_Pairs":
        """All of some clusters."""
        counts = offers.many
        cluster, place = np.repeat(np.arange(len(counts)), counts), counted_off(counts)
        offer = offers.begins[offers.which[cluster]] + place
        return _Pairs(cluster, place, offer, tried.lists_of(cluster, [choice for choice, _ in offers.ends], offer))


class LeastCosts:
    """The least that each size of leaves costs for some clusters with each choice of switches.

    Attributes:
        several, tried: what may be built for the clusters, and the leaves of which that is.
        switches_per_rack: of each list how many of the lowest switches stand in a rack [1].
        kind: of each list the number of what leaves of equal hosts and links up have in common that cost as much.
        pairs, pair, size: clusters and choices of switches; of each row which of them it is of, and which size.
        begins: of each pair the first of its rows.
        total, least: what each row costs at least, and each pair [USD].
    """

    def __init__(self, several: Sequence[Options], tried: TriedLeaves, floor: Floor, prices: PriceList) -> None:
        self.several = several
        self.tried = tried
        self.floor = floor
        self.prices = prices
        self.offers = AllOffers.of([options.offered for options in several])
        self.pairs = _Pairs.of(tried, self.offers)
        per_rack = [
            [floor.switches_per_rack(its.lowest.get(ports, 1)) for ports in tried.ports] for its in self.offers.offered
        ]
        self.switches_per_rack = np.array(per_rack)[self.offers.which[tried.cluster], tried.port]
        _, self.kind = distinct((tried.kind, tried.nodes_per_rack, self.switches_per_rack), len(tried.kind))
        counts = np.bincount(tried.place)[self.pairs.list]
        self.begins = np.cumsum(counts) - counts
        self.pair = np.repeat(np.arange(len(counts)), counts)
        self.size = np.arange(len(self.pair)) + (tried.begins[self.pairs.list] - self.begins)[self.pair]
        leaves = Leaves(tried.hosts, tried.fewest, tried.taper)
        self.total = self._costs(tried.place, leaves, self.size, self.pairs.offer[self.pair])
        self.least = np.minimum.reduceat(self.total, self.begins)

    def narrowed(self, numbers: Sequence[int], margin: float, narrower: bool) -> tuple[dict[int, Narrowed], Booleans]:
        """For some clusters what is left out, and the sizes that are kept: what may cost so many times the least at
        most; of leaves that fit narrower tapers too if need be.
        """
        cluster, limit = self.pairs.cluster, self.least * margin
        most = np.full(len(self.several), np.inf)
        np.minimum.at(most, cluster, limit)
        kept = (self.least <= most[cluster]) & np.isin(cluster, numbers)
        pairs = np.flatnonzero(kept)
        ends = [np.searchsorted(cluster[pairs], numbers, side).tolist() for side in ("left", "right")]
        places, least, left_out = (column[pairs].tolist() for column in (self.pairs.place, self.least, limit))
        narrowed = {
            number: Narrowed(cost, places[begin:end], least[begin:end], left_out[begin:end], narrower, {})
            for number, cost, begin, end in zip(numbers, most[numbers].tolist(), *ends, strict=True)
        }
        sizes = np.zeros(len(self.tried.place), np.bool_)
        sizes[self.size[kept[self.pair] & (self.total <= limit[self.pair])]] = True
        if narrower:
            self._keep_narrower(pairs, margin, narrowed, sizes)
        return narrowed, sizes

    def _keep_narrower(self, pairs: Integers, margin: float, narrowed: Mapping[int, Narrowed], sizes: Booleans) -> None:
        """Keep also the sizes that may cost so many times the least of those that fit a narrower taper."""
        lists = self.pairs.list[pairs]
        narrower = [
            self.several[number].sizes[self.tried.ports[self.tried.port[place]]]
            for number, place in zip(self.pairs.cluster[pairs].tolist(), lists.tolist(), strict=True)
        ]
        known = {id(its): its.within() for its in narrower}
        within = [known[id(its)] for its in narrower]
        counts = [len(size) for _, size, _ in within]
        if not sum(counts):
            return
        taper, size, up = map(np.concatenate, zip(*within, strict=True))
        row = np.repeat(np.arange(len(pairs)), counts)
        size = size + np.repeat(self.tried.begins[lists] + [len(its.own) for its in narrower], counts)
        leaves = Leaves(self.tried.hosts[size], up, self.tried.taper[size])
        total = self._costs(lists[row], leaves, np.arange(len(row)), self.pairs.offer[pairs][row])
        begins = changes(row, taper)
        limit = np.minimum.reduceat(total, begins) * margin
        first = pairs[row[begins]]
        columns = self.pairs.cluster[first], self.pairs.place[first], taper[begins], limit
        for number, place, ratio, most in zip(*(column.tolist() for column in columns), strict=True):
            narrowed[number].within.setdefault(place, {})[ratio] = most
        sizes[size[total <= np.repeat(limit, np.diff(begins, append=len(total)))]] = True

    def _costs(self, place: Integers, leaves: Leaves, row: Integers, offer: Integers) -> Floats:
        """What leaves of some lists cost at least [USD]: which of them, and with which of all switches on offer.

        Each is worked out once with each switch, however many clusters have it.
        """
        first, which = self.tried.different(self.kind[place], place, leaves)
        cell, again = distinct((which[row], offer), len(row))
        parts, lengths = self._parts(place[first], leaves.at(first))
        part, offer = which[row[cell]], offer[cell]
        above = (parts.spines + parts.cores + parts.super_cores)[part]
        total = parts.leaves[part] * self.offers.leaf[offer] + _times(above, self.offers.spine[offer])
        for level, length in lengths.items():
            ends = (its.ends for its in self.offers.offered)
            prices = [longer_link_prices(each, level, self.floor.lengths, self.prices) for each in ends]
            links = _times(getattr(parts, level)[part], np.concatenate(prices)[offer, length[part]])
            total += np.minimum(links, UNREACHED)
        return np.where(parts.built[part], total, np.inf)[again]

    def _parts(self, place: Integers, leaves: Leaves) -> tuple[tree.LeastParts, Mapping[str, Integers]]:
        """The least parts of leaves of some lists, and which of the lengths on sale their longest links have at
        least.
        """
        fabrics = self.tried.fabrics(self.tried.kind[place], leaves).in_whole_numbers()
        parts = tree.LeastParts(*(np.broadcast_to(part, len(place)) for part in tree.least_parts(fabrics)))
        above = [many // fabrics.planes for many in (parts.spines, parts.cores, parts.super_cores)]
        reach = self._reach(fabrics, parts, self.tried.nodes_per_rack[place])
        lengths = zip(LEVELS, reach.longest(self.floor, above, self.switches_per_rack[place]), strict=False)
        return parts, {level: np.searchsorted(self.floor.lengths, length) for level, length in lengths}

    def _reach(self, fabrics: layouts.FabricRequest, parts: tree.LeastParts, nodes_per_rack: Integers) -> Reach:
        """How far leaves reach at least: of equal leaves below equal nodes once, whatever stands above them."""
        by_rail = fabrics.is_rail_only | ((fabrics.layout == layouts.RAIL_OPTIMIZED) & (parts.spines > 0))
        alone = (fabrics.layout == layouts.RAIL_OPTIMIZED) & (parts.spines == 0)
        leaves = parts.leaves // fabrics.planes
        groups = np.where(by_rail, -(-leaves // fabrics.rails), leaves)
        size = np.where(by_rail, parts.unit_nodes, np.where(alone, fabrics.hosts, parts.leaf_down))
        nodes, rails = (np.broadcast_to(many, len(groups)) for many in (fabrics.nodes, fabrics.rails))
        columns: tuple[Any, ...] = nodes, rails, nodes_per_rack, by_rail, groups, size
        first, which = distinct(columns, len(groups))
        return LeafRuns(*(column[first] for column in columns)).reach(self.floor).at(which)


def least_of_switches(several: Sequence[Options], floor: Floor, prices: PriceList) -> list[Floats]:
    """What fabrics of trees cost at least for some clusters with each choice of switches [USD], whatever their leaves
    are that fit the taper, or a narrower one; 0 where the taper does not fit the switches.

    A leaf of as many hosts has no fewer links up where the taper is narrower, and so no fewer of any part.
    """
    every = [its._replace(sizes={ports: every_size(sizes) for ports, sizes in its.sizes.items()}) for its in several]
    tried = TriedLeaves.of(every)
    costs = LeastCosts(every, tried, floor, prices)
    least = np.where(tried.fits[costs.pairs.list], costs.least, 0.0)
    return np.split(least, np.flatnonzero(np.diff(costs.pairs.cluster)) + 1)


def _times(many: Floats, price: Floats) -> Floats:
    """Price of so many [USD]; none cost nothing, whatever their price."""
    return np.multiply(many, price, out=np.zeros(len(many)), where=many > 0)
