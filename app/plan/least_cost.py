"""The least that fabrics may cost by the hosts of their leaves, so that most of those that cost more need no design."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import Floor, LeafRuns, Reach
from app.plan.bill_of_materials import LEVELS
from app.plan.leaves import Leaves, Sizes, fabrics_of
from app.plan.offers import UNREACHED, Offers, longer_link_prices
from app.plan.prices import PriceList

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Ports = tuple[int, int]


class Options(NamedTuple):
    """What may be built for a cluster.

    Attributes:
        request: what is asked of a fabric, but for its switches and leaves.
        offered: switches.
        sizes: the leaves that may be tried, by ports of the switches.
        nodes_per_rack: nodes that stand in a rack [1].
    """

    request: layouts.FabricRequest
    offered: Offers
    sizes: Mapping[Ports, Sizes]
    nodes_per_rack: int


class Narrowed(NamedTuple):
    """Those of some options that may cost least.

    Attributes:
        most: all switches that are left out cost more [USD].
        narrower: whether the cheapest leaves that fit narrower tapers are kept too.
        sizes: which sizes of leaves are kept, by ports of the switches.
        within: of the switches that are kept, by their place among those on offer, and of leaves that fit a taper, by
            the taper: all that are left out cost more [USD].
    """

    most: float
    narrower: bool
    sizes: dict[Ports, Booleans]
    within: dict[int, dict[float, float]]


class _Pair(NamedTuple):
    """A cluster, by its number, and a choice of switches, by its place among those on offer, and its ports."""

    number: int
    place: int
    ports: Ports


class _Some(NamedTuple):
    """Leaves of switches of some ports for a cluster, by its number: their hosts, and the fewest links up."""

    number: int
    ports: Ports
    hosts: Integers
    up: Integers


class LeastCosts:
    """The least that each size of leaves costs for some clusters with each choice of switches.

    Attributes:
        pairs, cluster: clusters and choices of switches; the numbers of the clusters.
        begins: of each pair the first of its rows: the taper's own leaves, and then each size.
        total, least: what each row costs at least, and each pair [USD].
    """

    def __init__(self, several: Sequence[Options], floor: Floor, prices: PriceList) -> None:
        self.several = several
        self.floor = floor
        self.prices = prices
        self.offered = [*{id(options.offered): options.offered for options in several}.values()]
        self.pairs = [
            _Pair(number, place, choice.ports)
            for number, options in enumerate(several)
            for place, (choice, _) in enumerate(options.offered.ends)
        ]
        self.cluster = np.array([pair.number for pair in self.pairs])
        own = np.zeros(1, np.int64)
        some = {
            (number, ports): _Some(
                number, ports, np.concatenate((own, sizes.hosts)), np.concatenate((own, sizes.fewest))
            )
            for number, options in enumerate(several)
            for ports, sizes in options.sizes.items()
        }
        ends = dict(zip(some, np.cumsum([len(each.up) for each in some.values()]).tolist(), strict=True))
        counts = np.array([len(some[number, ports].up) for number, _, ports in self.pairs])
        first = np.array([ends[number, ports] for number, _, ports in self.pairs]) - counts
        self.begins = np.cumsum(counts) - counts
        row = np.arange(counts.sum()) + np.repeat(first - self.begins, counts)
        self.total = self._costs([*some.values()], row, np.repeat(self._offers(self.pairs), counts))
        self.least = np.minimum.reduceat(self.total, self.begins)

    def narrowed(self, numbers: Sequence[int], margin: float, narrower: bool) -> list[Narrowed]:
        """For some clusters what may cost so many times the least at most; of leaves that fit narrower tapers too if
        need be.
        """
        most = np.full(len(self.several), np.inf)
        np.minimum.at(most, self.cluster, self.least * margin)
        asked = np.zeros(len(self.several), np.bool_)
        asked[numbers] = True
        kept = np.flatnonzero(asked[self.cluster] & (self.least <= most[self.cluster])).tolist()
        narrowed = {number: Narrowed(float(most[number]), narrower, {}, {}) for number in numbers}
        ends = [*self.begins.tolist(), len(self.total)]
        for place in kept:
            pair, limit = self.pairs[place], float(self.least[place]) * margin
            total = self.total[ends[place] + 1 : ends[place + 1]]
            its = narrowed[pair.number]
            its.sizes.setdefault(pair.ports, np.zeros(len(total), np.bool_))[total <= limit] = True
            its.within[pair.place] = {self._sizes(pair).tapers[0]: limit}
        if narrower:
            self._keep_narrower([self.pairs[place] for place in kept], margin, narrowed)
        return [narrowed[number] for number in numbers]

    def _keep_narrower(self, pairs: Sequence[_Pair], margin: float, narrowed: Mapping[int, Narrowed]) -> None:
        """Keep also the sizes that may cost so many times the least of those that fit a narrower taper."""
        within = [self._sizes(pair).within for pair in pairs]
        counts = [len(size) for _, size, _ in within]
        if not sum(counts):
            return
        some = [
            _Some(pair.number, pair.ports, self._sizes(pair).hosts[size], up)
            for pair, (_, size, up) in zip(pairs, within, strict=True)
        ]
        total = self._costs(some, np.arange(sum(counts)), np.repeat(self._offers(pairs), counts))
        taper = np.concatenate([taper for taper, _, _ in within])
        place = np.repeat(np.arange(len(pairs)), counts)
        begins = np.flatnonzero(np.append(True, (place[1:] != place[:-1]) | (taper[1:] != taper[:-1])))
        limit = np.minimum.reduceat(total, begins) * margin
        for at, ratio, most in zip(place[begins].tolist(), taper[begins].tolist(), limit.tolist(), strict=True):
            narrowed[pairs[at].number].within[pairs[at].place][ratio] = most
        kept = total <= np.repeat(limit, np.diff(begins, append=len(total)))
        ends = np.cumsum(counts).tolist()
        for pair, (_, size, _), end in zip(pairs, within, ends, strict=True):
            narrowed[pair.number].sizes[pair.ports][size[kept[end - len(size) : end]]] = True

    def _sizes(self, pair: _Pair) -> Sizes:
        """The leaves that may be tried of some switches."""
        return self.several[pair.number].sizes[pair.ports]

    def _offers(self, pairs: Sequence[_Pair]) -> list[int]:
        """Places of choices among all on offer."""
        ends = np.cumsum([len(its.places) for its in self.offered]).tolist()
        first = {id(its): end - len(its.places) for its, end in zip(self.offered, ends, strict=True)}
        return [first[id(self.several[pair.number].offered)] + pair.place for pair in pairs]

    def _costs(self, some: Sequence[_Some], row: Integers, offer: Integers) -> Floats:
        """What leaves cost at least [USD]: which of some they are, and with which of all switches on offer."""
        parts, lengths = self._parts(some)
        above = (parts.spines + parts.cores + parts.super_cores)[row]
        leaf, spine = (np.concatenate([getattr(its, name) for its in self.offered]) for name in ("leaf", "spine"))
        total = parts.leaves[row] * leaf[offer] + _times(above, spine[offer])
        for level, length in lengths.items():
            prices = [longer_link_prices(its.ends, level, self.floor.lengths, self.prices) for its in self.offered]
            links = _times(getattr(parts, level)[row], np.concatenate(prices)[offer, length[row]])
            total += np.minimum(links, UNREACHED)
        return np.where(parts.built[row], total, np.inf)

    def _parts(self, some: Sequence[_Some]) -> tuple[tree.LeastParts, Mapping[str, Integers]]:
        """The least parts of leaves, and which of the lengths on sale their longest links have at least."""
        counts = [len(each.up) for each in some]
        options = [self.several[each.number] for each in some]
        kinds = [
            its.request._replace(radix=each.ports[0], spine_radix=each.ports[1])
            for each, its in zip(some, options, strict=True)
        ]
        leaves = [
            Leaves(each.hosts, each.up, np.full(len(each.up), kind.oversubscription))
            for each, kind in zip(some, kinds, strict=True)
        ]
        fabrics = fabrics_of(kinds, leaves).in_whole_numbers()
        parts = tree.LeastParts(*(np.broadcast_to(part, sum(counts)) for part in tree.least_parts(fabrics)))
        above = [many // fabrics.planes for many in (parts.spines, parts.cores, parts.super_cores)]
        heights = [its.offered.lowest[each.ports] for each, its in zip(some, options, strict=True)]
        per_rack = np.repeat([self.floor.switches_per_rack(height) for height in heights], counts)
        reach = self._reach(fabrics, parts, np.repeat([each.number for each in some], counts))
        lengths = zip(LEVELS, reach.longest(self.floor, above, per_rack), strict=False)
        return parts, {level: np.searchsorted(self.floor.lengths, length) for level, length in lengths}

    def _reach(self, fabrics: layouts.FabricRequest, parts: tree.LeastParts, number: Integers) -> Reach:
        """How far leaves reach at least: of equal leaves below equal nodes once, whatever stands above them."""
        by_rail = fabrics.is_rail_only | ((fabrics.layout == layouts.RAIL_OPTIMIZED) & (parts.spines > 0))
        alone = (fabrics.layout == layouts.RAIL_OPTIMIZED) & (parts.spines == 0)
        leaves = parts.leaves // fabrics.planes
        groups = np.where(by_rail, -(-leaves // fabrics.rails), leaves)
        size = np.where(by_rail, parts.unit_nodes, np.where(alone, fabrics.hosts, parts.leaf_down))
        stand = [(its.request.nodes, its.request.rails, its.nodes_per_rack) for its in self.several]
        different = {each: place for place, each in enumerate(dict.fromkeys(stand))}
        place = np.array([different[each] for each in stand])[number]
        code = ((place * 2 + by_rail) * (groups.max() + 1) + groups) * (size.max() + 1) + size
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        nodes, rails, nodes_per_rack = np.array([*different])[place[first]].T
        runs = LeafRuns(nodes, rails, nodes_per_rack, by_rail[first], groups[first], size[first])
        return runs.reach(self.floor).at(which)


def _times(many: Floats, price: Floats) -> Floats:
    """Price of so many [USD]; none cost nothing, whatever their price."""
    return np.multiply(many, price, out=np.zeros(len(many)), where=many > 0)
