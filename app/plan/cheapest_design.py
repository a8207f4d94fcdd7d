"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those that cost least in place.

In place is with the spares of their parts and the building of what they draw: what a fabric adds to the capital.
Parts that cost a little less may draw so much more that their building costs more than they save.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.formulas.arrays import Array, counted_off, distinct, where
from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import RailRuns
from app.plan.bill_of_materials import LEVELS, Cages, Carried, laid_out, media_of, of_each_length, part_counts
from app.plan.cables import floor_of
from app.plan.cluster import Cluster
from app.plan.kept import Kept
from app.plan.least_cost import LeastCosts, Narrowed, least_of_switches
from app.plan.leaves import TAPERS_TRIED, LeafHosts, fit, narrower_than
from app.plan.offers import UNREACHED, AllOffers, Offers, in_place, link_prices, offers, some_of
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair, designed, designed_together, requested
from app.plan.tried_leaves import Options, TriedLeaves

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
NEAR = 1.01
"""Fabrics that cost so many times the least at most are held against one another, each with its own cables."""
PRICED_IN_FULL = 6
"""Fabrics of which that is done at most."""


class Priced(NamedTuple):
    """A fabric with cables of its own, and its cost in place [USD]."""

    cost: float
    chosen: Chosen


class Joined(NamedTuple):
    """What a fabric joins, and of which switches: numbers, or columns of fabrics.

    Attributes:
        choice, cages: the switches, and what fits them.
        nodes, managers: nodes, and links of fabric managers [1].
    """

    choice: SwitchPair
    cages: Cages
    nodes: Array
    managers: Array


class _Hosts(NamedTuple):
    """All that a fabric meets of a cluster.

    Attributes:
        nodes, nics_per_node, nodes_per_rack: how many, and where they stand [1].
        cage: rate of a cage of a node [B/s], and links that it carries.
        scale_out: key of the network generation.
    """

    nodes: int
    nics_per_node: int
    nodes_per_rack: int
    cage: tuple[float, int]
    scale_out: str

    @staticmethod
    def of(choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog) -> "_Hosts":
        """Those of a cluster; its cages are the same for every choice of switches."""
        cage = Cages.of(choice, cluster, request, catalog).node
        rack, network = cluster.platform.nodes_per_rack, cluster.scale_out.key
        return _Hosts(cluster.nodes, cluster.nics_per_node, rack, cage, network)


@dataclass(frozen=True, eq=False)
class _Family:
    """All that the choice of a fabric depends on but for its taper.

    A family equals itself alone, and clusters that agree in all of it share one, so that it is quick to look up.

    Attributes:
        choices, hosts, prices: the switches to choose from, what they join, and prices.
        wishes: what is asked of the fabric, in the order of a request's fields, without the taper.
    """

    choices: tuple[SwitchPair, ...]
    hosts: _Hosts
    wishes: tuple[Any, ...]
    prices: PriceList

    @property
    def joined(self) -> tuple[int, int]:
        """What is joined: those that agree in it share most of the fabrics that are tried for them."""
        return self.hosts.nodes, self.hosts.nics_per_node


TAPER = [*DesignRequest.model_fields].index("oversubscription")
"""The place of the taper among wishes."""
MOST_KEPT = 12_288
"""Fabrics that are kept: the whole catalogue asks for 8,300, two kilobytes each, whatever the job: of fewer none would
be found again.
"""
_family = lru_cache(maxsize=MOST_KEPT)(_Family)


class _Asked(NamedTuple):
    """All that the choice of a fabric depends on: clusters that agree in it share their fabrics.

    Attributes:
        family: what is the same for every taper.
        taper: ports down of a leaf for each up [1].
    """

    family: _Family
    taper: float

    @staticmethod
    def of(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> "_Asked":
        """That of a cluster."""
        hosts, wishes = _Hosts.of(choices[0], cluster, request, prices.catalog), request.wishes
        return _Asked(
            _family(choices, hosts, wishes[:TAPER] + wishes[TAPER + 1 :], prices),
            request.oversubscription,
        )


_KEPT: Kept[_Asked, Chosen] = Kept(MOST_KEPT)
"""What was chosen last: it takes 5 ms, and servers of several GPUs have the same ports."""


Wish = tuple[tuple[SwitchPair, ...], Cluster, DesignRequest]
"""Switches to choose from for a cluster, and what is asked of its fabric."""


def choose(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> Chosen:
    """The switches to build and their design: the cheapest in place that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest. Switches are
    taken in the order of the least that they can cost, until that is more than the cheapest so far.
    """
    asked = _Asked.of(choices, cluster, request, prices)
    return _KEPT.get(asked) or choose_all([(choices, cluster, request)], prices)[0]


def choose_all(wishes: Iterable[Wish], prices: PriceList) -> list[Chosen]:
    """The same for several clusters; designing all that may be built for them takes little longer than for one."""
    several = [*wishes]
    asked = [_Asked.of(*wish, prices) for wish in several]
    known = [_KEPT.get(key) for key in asked]
    if all(known):
        return [each for each in known if each]
    chosen = {key: each for key, each in zip(asked, known, strict=True) if each}
    new = {key: wish for key, wish in zip(asked, several, strict=True) if key not in chosen}
    searches = _searches(new, prices)
    while searches:
        for portion in _portions(searches, lambda search: search.many_sizes, SIZES_TOGETHER):
            for search, cheapest in _cheapest(portion, prices):
                chosen[search.asked] = cheapest
                _KEPT.add(search.asked, cheapest)
        searches = [search.among_all() for search in searches if search.asked not in chosen]
    return [chosen[key] for key in asked]


def _searches(new: Mapping[_Asked, Wish], prices: PriceList) -> list["_Search"]:
    """The searches for some fabrics, those of a family one after another."""
    families: dict[_Family, list[_Asked]] = {}
    for key in new:
        families.setdefault(key.family, []).append(key)
    common = {family: _Common.of(*new[members[0]], prices) for family, members in families.items()}
    few = _few_switches(families, new, common, prices)
    return [
        _Search(key, *new[key][1:], common[family], few.get(key))
        for family in sorted(families, key=lambda family: family.joined)
        for key in families[family]
    ]


class _Common(NamedTuple):
    """What the networks of a family have in common.

    Attributes:
        offered: the switches on offer.
        request: what is asked of a fabric, but for its switches and leaves.
        hosts: what leaves are sized for.
    """

    offered: Offers
    request: layouts.FabricRequest
    hosts: LeafHosts

    @staticmethod
    def of(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> "_Common":
        """That of the family of a network."""
        platform, network = cluster.platform.key, cluster.scale_out.key
        offered = offers(choices, prices, platform, network, request.planes, request.media or "")
        asked = requested((0, 0), cluster, request)._replace(oversubscription=1.0)
        return _Common(offered, asked, LeafHosts.of(cluster, request))


MANY_SWITCHES = 4
"""Choices of switches of which it pays to ask which may be worth it for any of many networks."""
MANY_TAPERS, TAPERS_ALIKE = 24, 48
"""How many networks these are that differ in their taper alone, and of how many at most it is asked at once."""
AS_CHEAP = 1.25
"""Switches are tried of which a fabric may cost so many times the least at most that one of any may."""


class _Few(NamedTuple):
    """Some of the choices of switches on offer, and what a fabric of any other costs at least [USD]."""

    offered: Offers
    others: float


def _few_switches(
    families: Mapping[_Family, Sequence[_Asked]],
    wishes: Mapping[_Asked, Wish],
    common: Mapping[_Family, _Common],
    prices: PriceList,
) -> dict[_Asked, _Few]:
    """Where many networks differ in their taper alone, the few switches that each is looked for among: what others cost
    at least follows for all of them from the widest taper.
    """
    bands = [
        sorted(members, key=lambda asked: asked.taper)[begin : begin + TAPERS_ALIKE]
        for family, members in families.items()
        if len(members) >= MANY_TAPERS and len(family.choices) > MANY_SWITCHES and common[family].hosts.is_tree
        for begin in range(0, len(members), TAPERS_ALIKE)
    ]
    few: dict[_Asked, _Few] = {}
    widest = [_Search(band[-1], *wishes[band[-1]][1:], common[band[-1].family]) for band in bands]
    floor = floor_of(prices.catalog, 1)
    least = least_of_switches([search.options for search in widest], floor, prices) if bands else []
    for band, search, costs in zip(bands, widest, least, strict=True):
        tried = costs <= costs.min() * AS_CHEAP
        if 0 < costs.min() < np.inf and not tried.all():
            offered = some_of(search.offered, tuple(np.flatnonzero(tried).tolist()))
            few |= dict.fromkeys(band, _Few(offered, float(costs[~tried].min())))
    return few


ALONE = 50
"""Fabrics that take as long to try as what is done for each pair of switches, or size of leaves, by itself."""
MUCH, MUCH_TOGETHER = 500, 8_000
"""Fabrics of a search, and of several together, that take longer to try than finding those that may be cheapest."""
MUCH_AMONG_OTHERS = 100
"""Fabrics of a search of which that is so where it is done for others too."""
MARGINS = ((1.08, False), (1.15, True))
"""How many times the least that any may cost those may that are tried first, and then where that was too little; and
whether as much is allowed to the cheapest that fit narrower tapers."""
MOST_TOGETHER = 16_384
"""Fabrics that are tried together: more gain no time; a hundred thousand, as the whole catalogue asks, took 150 MB for
a moment."""
SIZES_TOGETHER = 4 * MOST_TOGETHER
"""Sizes of leaves whose fabrics are bounded together, which takes less of each: 13 MB for a moment."""


def _cheapest(searches: Sequence["_Search"], prices: PriceList) -> Iterator[tuple["_Search", Chosen]]:
    """The cheapest fabric of each of some searches.

    Of many fabrics only those are tried that may cost little more than the least that any may; and more of them where
    one that was left out may be cheaper than all of these.
    """
    options = [search.options for search in searches]
    leaves = TriedLeaves.of(options)
    work = leaves.many + [search.work_apart for search in searches]
    has_sizes = np.array([search.many_sizes > 0 for search in searches])
    if work[has_sizes & (work > MUCH)].sum() <= MUCH_TOGETHER:
        yield from _tried(searches, leaves, prices)
        return
    yield from _narrowed(searches, leaves, has_sizes & (work > MUCH_AMONG_OTHERS), prices)


def _narrowed(
    searches: Sequence["_Search"], leaves: TriedLeaves, is_large: Booleans, prices: PriceList
) -> Iterator[tuple["_Search", Chosen]]:
    """The same where some searches are of many fabrics each."""
    large = np.flatnonzero(is_large).tolist()
    some, of_large = [searches[place] for place in large], leaves.at(large)
    least = LeastCosts([search.options for search in some], of_large, floor_of(prices.catalog, 1), prices)
    is_of_large = is_large[leaves.cluster[leaves.place]]
    waiting, others = [*range(len(large))], np.flatnonzero(~is_large).tolist()
    for margin, narrower in MARGINS:
        narrowed, sizes = least.narrowed(waiting, margin, narrower)
        whole = of_large.many_of(sizes) == of_large.many
        for place in waiting:
            some[place].narrow(None if whole[place] else narrowed[place])
        kept = ~is_of_large
        kept[is_of_large] = sizes | whole[of_large.cluster[of_large.place]]
        together = sorted([*others, *(large[place] for place in waiting)])
        cheapest = dict(_tried([searches[place] for place in together], leaves.at(together, kept), prices))
        yield from cheapest.items()
        waiting, others = [place for place in waiting if some[place] not in cheapest], []
        if not waiting:
            return
    for place in waiting:
        some[place].narrow(None)
    yield from _tried([some[place] for place in waiting], of_large.at(waiting), prices)


def _tried(searches: Sequence["_Search"], leaves: TriedLeaves, prices: PriceList) -> Iterator[tuple["_Search", Chosen]]:
    """The cheapest of the fabrics that are tried for each of some searches, unless one that is left out may be."""
    many = leaves.many if leaves.many.sum() <= MOST_TOGETHER else leaves.many_more
    for portion in _portions(range(len(searches)), many.tolist().__getitem__, MOST_TOGETHER):
        some = [searches[place] for place in portion]
        its = leaves if len(some) == len(searches) else leaves.at(portion)
        for search, chosen in zip(some, _Fabrics(some, its, prices).cheapest(), strict=True):
            if chosen:
                yield search, chosen


Portioned = TypeVar("Portioned")


def _portions(several: Iterable[Portioned], many: Callable[[Portioned], int], most: int) -> Iterator[list[Portioned]]:
    """Searches in their order, so many together that they have about as much of something as that."""
    portion: list[Portioned] = []
    together = 0
    for each in several:
        portion.append(each)
        together += many(each)
        if together >= most:
            yield portion
            portion, together = [], 0
    if portion:
        yield portion


class _Search:
    """The fabrics that may be built for one cluster of one choice of switches or another.

    Attributes:
        asked, cluster, request: what decides, the cluster, and what is asked of its fabric.
        common: what is common to its family.
        offered, others: the choices that are tried, and what all others cost at least [USD].
        options: what may be built.
        many_sizes: sizes of leaves that may be tried, besides tapers' own [1].
        narrowed, places: what is left out, if anything, and the places of the choices that are not.
    """

    __slots__ = (
        "asked", "cluster", "common", "many_sizes", "narrowed", "offered", "options", "others", "places", "request",
    )  # fmt: skip

    def __init__(
        self, asked: _Asked, cluster: Cluster, request: DesignRequest, common: _Common, few: _Few | None = None
    ) -> None:
        self.asked = asked
        self.cluster = cluster
        self.request = request
        self.common = common
        self.offered, self.others = few or (common.offered, np.inf)
        of_radix = {radix: common.hosts.sizes(radix, asked.taper) for radix in self.offered.radices}
        sizes = {ports: of_radix[ports[0]] for ports in self.offered.ports}
        self.options = Options(common.request, self.offered, sizes, cluster.platform.nodes_per_rack)
        self.many_sizes = sum([len(its.hosts) for its in sizes.values()])
        self.narrow(None)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one fabric to choose of."""
        if self.many_sizes or len(self.offered.places) > 1 or self.others < np.inf:
            return True
        return sum([len(its.own) for its in self.options.sizes.values()]) > 1

    @property
    def tapered(self) -> bool:
        """Whether some of them fit narrower tapers."""
        return self.asked.taper > 1 and self.common.hosts.is_tree

    def among_all(self) -> "_Search":
        """The same among all switches on offer."""
        return _Search(self.asked, self.cluster, self.request, self.common)

    def narrow(self, narrowed: Narrowed | None) -> None:
        """Try some of the fabrics, or all."""
        self.narrowed = narrowed
        self.places: Sequence[int] = narrowed.places if narrowed else range(len(self.offered.places))

    @property
    def work_apart(self) -> int:
        """About how many fabrics take as long to try as what is done for each pair of switches, and for each size of
        leaves whose links are measured by themselves [1].
        """
        apart = self.many_sizes if self.request.topology == "fat-tree" else 0
        return ALONE * (len(self.options.sizes) + apart)

    @property
    def least(self) -> Sequence[float]:
        """What fabrics of each choice of switches that is tried cost at least, if it is known [USD]."""
        return self.narrowed.least if self.narrowed else [np.nan] * len(self.places)

    @property
    def left_out(self) -> Sequence[float]:
        """What all fabrics of each that are left out cost at least [USD]."""
        return self.narrowed.left_out if self.narrowed else [np.inf] * len(self.places)

    def within(self, place: int) -> Mapping[float, float]:
        """Of leaves of a choice of switches that fit a narrower taper, by the taper, the most that all cost that are
        left out [USD].
        """
        return self.narrowed.within.get(place, {}) if self.narrowed else {}

    def nearest(self) -> Chosen:
        """Where nothing can be built the design that comes nearest to being one."""
        plain = [
            Chosen(choice, designed(choice.ports, self.cluster, self.request, self.cluster.nodes))
            for choice, _ in self.offered.ends
        ]
        return min(plain, key=lambda chosen: (int(chosen.design.reason), -chosen.choice.radix))


class _Switches(NamedTuple):
    """Switches that are tried for some searches, in columns.

    Attributes:
        search, place: places of the search, and of the choice among those on offer to it.
        offer: the same among all on offer.
        list: the place of the list of leaves.
        least: what a fabric of them costs at least [USD].
        most: all of leaves that fit the taper that are left out cost more [USD].
    """

    search: Integers
    place: Integers
    offer: Integers
    list: Integers
    least: Floats
    most: Floats

    def at(self, index: Any) -> "_Switches":
        """Some of them."""
        return _Switches(*(column[index] for column in self))


class _Priced(NamedTuple):
    """Fabrics that cost about as much as the cheapest of some switches, in columns.

    Attributes:
        search, row: the place of the search, and which fabric [1].
        offer: the switches, by their number.
        cost: price in place, infinite where a part has none [USD].
    """

    search: Integers
    row: Integers
    offer: Integers
    cost: Floats

    @staticmethod
    def of(parts: Sequence["_Priced"]) -> "_Priced":
        """All of some parts."""
        return _Priced(*map(np.concatenate, zip(*parts, strict=True)))

    def at(self, index: Any) -> "_Priced":
        """Some of them."""
        return _Priced(*(column[index] for column in self))


class _Rows(NamedTuple):
    """Fabrics that are tried for some searches with switches of their own, in columns.

    Attributes:
        turn: which of the searches and switches [1].
        use: which of all sizes of all lists of leaves [1].
        row: which fabric [1].
    """

    turn: Integers
    use: Integers
    row: Integers

    @staticmethod
    def of(parts: Sequence["_Rows"]) -> "_Rows":
        """All of some parts."""
        return _Rows(*map(np.concatenate, zip(*parts, strict=True)))

    def at(self, index: Any) -> "_Rows":
        """Some of them."""
        return _Rows(*(column[index] for column in self))


Lengths = Mapping[str, float] | None
"""The longest link of each level, if it is known [m]."""


class _Fabrics:
    """What can be built for some clusters of switches of some ports or others, and how long its cables are.

    Each fabric is designed once, and those of leaves of one size are put in order once, however many networks they are
    tried for.

    Attributes:
        leaves, shared: the leaves that are tried, in lists, and the sizes that these share.
        designs, switches, kind: the fabrics; the switches of each, and the number of its kind [1].
        each, list, which, first: all leaves of shared sizes, the list of each and its design; of each size the first of
            its leaves.
        size, leaf, rank, design: where the fabrics of a size that can be built are, of several alike the first, those
            of equal leaves side by side, fewest switches first: the size, which of the leaves, the order, the design.
        ends: of each size the row of its first fabric, and the end of all.
        used, uses: of each list the sizes of which something can be built, and where they begin.
        offers, alike, height: all switches on offer; of each which it is like, and which of the heights it has.
        group, begins: the group of equal leaves that each row belongs to, and of each group the row of fewest
            switches, which it begins with.
        search, nodes_per_rack, by_rail: of each group the first search that has it, nodes that stand in a rack of its
            cluster [1], and whether its longest links are found together with others'.
        heights, lengths: the longest links of each level of these [m], for each height of the switches above; 0 for
            none.
    """

    def __init__(self, searches: Sequence[_Search], leaves: TriedLeaves, prices: PriceList) -> None:
        self.searches = searches
        self.leaves = leaves
        self.prices = prices
        self.shared = leaves.shared
        self._design()
        self._sort()
        self.lengths_sold = floor_of(prices.catalog, 1).lengths
        self._measure()
        self._measured: set[tuple[int, int]] = set()
        self._doubtful = np.full(len(searches), np.inf)

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
        order, leaves, alike = _by_leaves(self.designs, self.kind, self.leaves.asked(self.kind).layout)
        rank = np.full(len(self.kind), -1)
        rank[order] = np.arange(len(order))
        rank = rank[self.which]
        built = np.flatnonzero(rank >= 0)
        built = built[np.argsort(self.size[built] * len(order) + rank[built], kind="stable")]
        new = _changes(self.size[built], alike[rank[built]])
        self.leaf = np.minimum.reduceat(built, new) if len(new) else built
        self.size, self.rank, self.design = (column[self.leaf] for column in (self.size, rank, self.which))
        self.ends = np.searchsorted(self.size, np.arange(len(self.first) + 1))
        self.begins = _changes(self.size, leaves[self.rank])
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
        layout = self.leaves.asked(self.kind[firsts]).layout
        least = where(layout == layouts.RAIL_ONLY, 0, where(layout == layouts.RAIL_OPTIMIZED, 1, layouts.MOST_TIERS))
        self.by_rail = self.designs.tiers[firsts] > least
        for nodes in {*self.nodes_per_rack.tolist()}:
            groups = np.flatnonzero(self.by_rail & (self.nodes_per_rack == nodes))
            if len(groups):
                some, which = np.unique(firsts[groups], return_inverse=True)
                longest_by_rail = self._longest_by_rail(some, nodes)
                for level in self.lengths.keys() & longest_by_rail.keys():
                    self.lengths[level][:, groups] = longest_by_rail[level][:, which]

    def _longest_by_rail(self, some: Integers, nodes_per_rack: int) -> dict[str, Floats]:
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
        designs, asked = self.designs.at(some), self.leaves.asked(self.kind[some])
        above = (designs.leaf_switches, designs.spine_switches, designs.core_switches, designs.super_core_switches)
        in_a_plane = tuple(many // asked.planes for many in above)
        return RailRuns.of(asked.nodes, designs.unit_nodes, asked.rails, in_a_plane, asked.management_links)

    def cheapest(self) -> list[Chosen | None]:
        """The fabric to build of each search; see `choose`. None where it may be one that was not tried."""
        several = [number for number, search in enumerate(self.searches) if search.has_choice]
        only = [number for number, search in enumerate(self.searches) if not search.has_choice]
        chosen = self._only(only) if only else {}
        if several:
            chosen |= self._of_several(several)
        return [chosen.get(number) for number in range(len(self.searches))]

    def _of_several(self, searches: Sequence[int]) -> dict[int, Chosen]:
        """The cheapest of the fabrics that are tried for each of some searches, but for those that may be one that was
        not: those that cost about as much held against one another.
        """
        priced = self._priced(searches)
        best = np.full(len(self.searches), np.inf)
        np.minimum.at(best, priced.search, priced.cost)
        near = priced.at(np.flatnonzero(np.isfinite(priced.cost) & (priced.cost <= best[priced.search] * NEAR)))
        near = near.at(np.lexsort((self.switches[self.design[near.row]], near.cost, near.search)))
        sure = np.array([number for number in searches if not self._leaves_out(number, float(best[number]))], np.int64)
        begins, ends = (np.searchsorted(near.search, sure, side) for side in ("left", "right"))
        counts = np.minimum(ends - begins, PRICED_IN_FULL)
        least, lengths = self._least_of(near.at(counted_off(counts) + np.repeat(begins, counts)))
        unpriced = sure[counts == 0].tolist()
        if unpriced:
            without = _Priced.of([self._of_fewest_switches(priced, number) for number in unpriced])
            least, lengths = _Priced.of([least, without]), lengths + self._lengths_of(without)
        choices = [self.offers[offer][0] for offer in least.offer.tolist()]
        chosen = map(Chosen, choices, self._with_own_taper(least), lengths)
        by_search = dict(zip(least.search.tolist(), chosen, strict=True))
        unbuilt = (number for number in unpriced if number not in by_search)
        return by_search | {number: self.searches[number].nearest() for number in unbuilt}

    def _of_fewest_switches(self, priced: _Priced, number: int) -> _Priced:
        """Of the fabrics of a search the one of fewest switches, if there is one."""
        some = priced.at(priced.search == number)
        return some.at(np.argsort(self.switches[self.design[some.row]], kind="stable")[:1])

    def _least_of(self, some: _Priced) -> tuple[_Priced, list[Lengths]]:
        """The cheapest of some fabrics for each of their searches, each with its own cables, and their longest links;
        of equal price the fewest switches.
        """
        alone = np.bincount(some.search, minlength=1)[some.search] == 1
        if alone.all():
            return some, self._lengths_of(some)
        apart = np.flatnonzero(~alone & (self.begins[self.group[some.row]] != some.row))
        cost, lengths = some.cost.copy(), dict[int, Lengths]()
        if len(apart):
            cost[apart], longest_apart = self._in_full(some.at(apart))
            lengths = dict(zip(apart.tolist(), longest_apart, strict=True))
        order = np.lexsort((self.switches[self.design[some.row]], cost, some.search))
        first = order[_changes(some.search[order])]
        least = some.at(first)
        as_measured = zip(first.tolist(), self._lengths_of(least), strict=True)
        return least, [lengths.get(place, measured) for place, measured in as_measured]

    def _in_full(self, some: _Priced) -> tuple[Floats, list[Lengths]]:
        """What some fabrics cost with cables of their own [USD], and their longest links: of each that several searches
        share once, and of those by rail together.
        """
        group = self.group[some.row]
        columns = self.design[some.row], self.alike[some.offer], self.nodes_per_rack[group]
        first, which = distinct(columns, len(some.row))
        design, offer, nodes_per_rack = (column[first] for column in columns)
        cost, lengths, by_rail = np.zeros(len(first)), list[Lengths]([None] * len(first)), self.by_rail[group[first]]
        for place in np.flatnonzero(~by_rail).tolist():
            asked = self.searches[some.search[first[place]]]
            chosen = Chosen(self.offers[offer[place]][0], self.designs.at(design[place]))
            cost[place], (*_, lengths[place]) = in_full(chosen, asked.cluster, asked.request, self.prices)
        for nodes, its_offer in {*zip(nodes_per_rack[by_rail].tolist(), offer[by_rail].tolist(), strict=True)}:
            alike = np.flatnonzero(by_rail & (nodes_per_rack == nodes) & (offer == its_offer))
            choice, cages = self.offers[its_offer]
            height = self.heights[choice.height]
            runs = {level: its[height] for level, its in self._longest_by_rail(design[alike], nodes).items()}
            cost[alike] = self._cost(choice, cages, design[alike], runs)
            for number, place in enumerate(alike.tolist()):
                lengths[place] = _longest_of(runs, number)
        return cost[which], [lengths[place] for place in which.tolist()]

    def _lengths_of(self, some: _Priced) -> list[Lengths]:
        """The longest link of each level of some fabrics, see `_own_lengths`."""
        return self._own_lengths(some.row, self.height[some.offer])

    def _own_lengths(self, row: Integers, height: Integers) -> list[Lengths]:
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

    def _leaves_out(self, number: int, best: float) -> bool:
        """Whether a fabric that was not tried may be the cheapest, as little as some of some switches may cost."""
        its = self.searches[number]
        if its.others < np.inf and best * NEAR > its.others:
            return True
        return its.narrowed is not None and (best * NEAR > its.narrowed.most or self._doubtful[number] <= best * NEAR)

    def _only(self, searches: Sequence[int]) -> dict[int, Chosen]:
        """The one fabric that is tried for each of some searches, whether or not it can be built."""
        offered = AllOffers.of([self.searches[search].offered for search in searches])
        firsts = [its.ends[0][0] for its in offered.offered]
        lists = self.leaves.lists_of(np.array(searches), firsts, offered.which)
        size = self.shared.size[np.searchsorted(self.shared.list, lists)]
        designs = self.designs.at(self.which[self.first[size]]).each()
        height = np.array([self.heights[choice.height] for choice in firsts])[offered.which]
        for each in {choice.height for choice in firsts}:
            self._measure_apart(each, size[height == self.heights[each]])
        built = np.flatnonzero(self.ends[size] < self.ends[size + 1])
        lengths = dict(zip(built.tolist(), self._own_lengths(self.ends[size[built]], height[built]), strict=True))
        choices = [firsts[which] for which in offered.which.tolist()]
        return {
            search: Chosen(choice, design, lengths.get(place))
            for place, (search, choice, design) in enumerate(zip(searches, choices, designs, strict=True))
        }

    def _priced(self, searches: Sequence[int]) -> _Priced:
        """The fabrics of some searches that cost about as much as the cheapest: of switches in the order of the least
        that they can cost, until that is more than the cheapest so far.
        """
        tried = self._switches(searches)
        if len(tried.search) > len(searches):
            tried = tried.at(np.lexsort((tried.place, tried.least, tried.search)))
        turn = np.searchsorted(tried.search, searches)
        ends = np.append(turn[1:], len(tried.search))
        best = np.full(len(self.searches), np.inf)
        priced = list[_Priced]()
        while len(turn):
            cheap = tried.least[turn] <= best[tried.search[turn]] * NEAR
            turn, ends = turn[cheap], ends[cheap]
            same = self.alike[tried.offer[turn]]
            for offer in np.unique(same).tolist():
                fabrics = self._of_switches(offer, tried.at(turn[same == offer]))
                np.minimum.at(best, fabrics.search, fabrics.cost)
                priced.append(fabrics)
            turn = turn + 1
            turn, ends = turn[turn < ends], ends[turn < ends]
        return _Priced.of(priced)

    def _switches(self, searches: Sequence[int]) -> _Switches:
        """The switches that are tried for some searches, and the least that a fabric of each costs [USD]: no cable and
        no module is rounded up to a whole one.

        Links that are not by rail are taken to be short: it takes long to find how long they are. One choice by itself
        is not worth the work.
        """
        some = [self.searches[search] for search in searches]
        offered = AllOffers.of([its.offered for its in some])
        self.offers = offered.ends
        numbers: dict[tuple[SwitchPair, Cages], int] = {}
        self.alike = np.array([numbers.setdefault(ends, place) for place, ends in enumerate(self.offers)])
        choices = [choice for choice, _ in self.offers]
        self.height = np.array([self.heights[choice.height] for choice in choices])
        turn = np.repeat(np.arange(len(some)), [len(its.places) for its in some])
        search, place = np.array(searches)[turn], np.array([*chain(*[its.places for its in some])])
        offer = offered.begins[offered.which[turn]] + place
        least, most = (
            np.array([*chain(*costs)]) for costs in ([its.least for its in some], [its.left_out for its in some])
        )
        tried = _Switches(search, place, offer, self.leaves.lists_of(search, choices, offer), least, most)
        alone = np.bincount(turn)[turn] == 1
        tried.least[alone] = 0.0
        several = np.flatnonzero(np.isnan(tried.least))
        if len(several):
            tried.least[several] = self._least(offered.offered, tried.at(several))
        return tried

    def _least(self, offered: Sequence[Offers], tried: _Switches) -> Floats:
        """The least that a fabric of some switches costs [USD]; infinite where none can be built."""
        use, counts = _between(self.uses, tried.list)
        least = np.full(len(counts), np.inf)
        if not len(use):
            return least
        offer = np.repeat(tried.offer, counts)
        first = which = np.arange(len(use))
        if len(self.searches) > 1:
            first, which = distinct((self.used[use], offer), len(use))
        row, rows = _between(self.ends, self.used[use[first]])
        offer = np.repeat(offer[first], rows)
        leaf, spine = (np.concatenate([getattr(its, name) for its in offered]) for name in ("leaf", "spine"))
        designs, group, design, height = self.designs, self.group[row], self.design[row], self.height[offer]
        leaves = designs.leaf_switches[design]
        above = self.switches[design] - leaves
        total = leaves * leaf[offer] + np.where(above > 0, above * spine[offer], 0.0)
        sold = self.lengths_sold
        for level, lengths in self.lengths.items():
            length = np.searchsorted(sold, np.where(self.by_rail, lengths, 0.0))
            prices = np.concatenate([link_prices(its.ends, level, sold, self.prices) for its in offered])
            total += getattr(designs, level)[design] * prices[offer, length[height, group]]
        least_of_use = np.minimum.reduceat(total, np.cumsum(rows) - rows)[which]
        least[counts > 0] = np.minimum.reduceat(least_of_use, (np.cumsum(counts) - counts)[counts > 0])
        return least

    def _of_switches(self, offer: int, tried: _Switches) -> _Priced:
        """The cheapest fabrics of some switches for each of some searches: of equal leaves, every link at the length
        that the one of fewest switches needs.
        """
        choice, cages = self.offers[offer]
        tried = tried.at(self.uses[tried.list] < self.uses[tried.list + 1])
        use, counts = _between(self.uses, tried.list)
        if not len(use):
            return _Priced(use, use, use, np.zeros(0))
        size = np.flatnonzero(np.bincount(self.used[use]))
        self._measure_apart(choice.height, size)
        row, rows = _between(self.ends, size)
        cost, least = np.full(len(self.design), np.inf), np.full(len(self.first), np.inf)
        if len(tried.list) == 1:
            cost[row] = self._as_measured(choice, cages, row)
        else:
            first, which = self._different(choice.height, row)
            cost[row] = self._as_measured(choice, cages, row[first])[which]
        least[size] = np.minimum.reduceat(cost[row], np.cumsum(rows) - rows)
        return self._cheapest_of(tried, use, counts, cost, least[self.used[use]])

    def _cheapest_of(
        self, tried: _Switches, use: Integers, counts: Integers, cost: Floats, least_of_use: Floats
    ) -> _Priced:
        """The cheapest fabrics of some switches for each of some searches, which try so many sizes each, where each
        fabric costs so much, and those of each size at least [USD].
        """
        turn = np.repeat(np.arange(len(counts)), counts)
        least = np.minimum.reduceat(least_of_use, np.cumsum(counts) - counts)
        near = least_of_use <= (least * NEAR)[turn]
        rows = self._rows(turn[near], use[near])
        rows = self._of_few_switches(tried, rows.at(cost[rows.row] <= (least * NEAR)[rows.turn]), cost, least)
        switches, priced = self.switches[self.design[rows.row]], np.isfinite(least)[rows.turn]
        by_place = np.where(priced, self.leaf[rows.row], self.rank[rows.row]), np.where(priced, rows.use, 0)
        order = np.lexsort((*by_place, switches, cost[rows.row], rows.turn))
        turn, row = rows.turn[order], rows.row[order]
        kept = counted_off(np.bincount(turn)) < np.where(priced[order], PRICED_IN_FULL, 1)
        turn, row = turn[kept], row[kept]
        return _Priced(tried.search[turn], row, tried.offer[turn], cost[row])

    def _rows(self, turn: Integers, use: Integers) -> _Rows:
        """All fabrics of some sizes that are tried in some turns."""
        row, counts = _between(self.ends, self.used[use])
        return _Rows(np.repeat(turn, counts), np.repeat(use, counts), row)

    def _of_few_switches(self, tried: _Switches, near: _Rows, cost: Floats, least: Floats) -> _Rows:
        """Of fabrics that cost about as much as the cheapest of some switches, which cost so much [USD], others where
        the cheapest of a narrower taper needs fewer switches.

        So a wider taper takes no more switches, and no more racks for them, than a narrower one, unless it costs more.
        Where that is so of none of the cheapest, since no narrower taper needs as few, others are not looked at.
        """
        searches = [self.searches[search] for search in tried.search.tolist()]
        if not any(its.tapered or its.narrowed for its in searches):
            return near
        most = np.zeros(len(least))
        np.maximum.at(most, near.turn, self.switches[self.design[near.row]])
        tapered = np.array([its.tapered for its in searches])
        turns = np.flatnonzero((most > self._fewest_switches(tried.list)) & tapered)
        sure = least * NEAR**2 <= tried.most
        rows, is_of_few = near, np.zeros(len(least), np.bool_)
        if len(turns):
            narrower = np.array([its.narrowed is None or its.narrowed.narrower for its in searches])
            few, is_of_few[turns], as_sure = self._of_few(tried, turns, cost, least)
            sure[turns] &= as_sure & narrower[turns]
            rows = _Rows.of([near.at(~is_of_few[near.turn]), few])
        np.minimum.at(self._doubtful, tried.search[~sure], np.minimum(least, tried.most)[~sure])
        return rows

    def _of_few(
        self, tried: _Switches, turns: Integers, cost: Floats, least: Floats
    ) -> tuple[_Rows, Booleans, Booleans]:
        """Of the fabrics of some turns that have no more switches than the cheapest of each narrower taper those that
        cost about as much as the cheapest of them; whether that costs about as much as the cheapest of all; and whether
        all that are left out of narrower tapers cost more.
        """
        use, counts = _between(self.uses, tried.list[turns])
        rows = self._rows(np.repeat(np.arange(len(turns)), counts), use)
        rows = rows.at(np.lexsort((self.rank[rows.row], rows.turn)))
        turn, design, price = rows.turn, self.design[rows.row], cost[rows.row]
        begins = np.searchsorted(turn, np.arange(len(turns)))
        switches, hosts, up = self.switches[design], self.designs.unit_hosts[design], self.designs.leaf_up[design]
        its = [self.searches[search] for search in tried.search[turns].tolist()]
        within = [each.within(place) for each, place in zip(its, tried.place[turns].tolist(), strict=True)]
        taper, radix = np.array([each.asked.taper for each in its]), self.leaves.radix[tried.list[turns]][turn]
        most, sure = np.full(len(turns), np.inf), np.ones(len(turns), np.bool_)
        for ratio in narrower_than(taper.max())[:, 0].tolist():
            allowed = (ratio < taper)[turn] & fit(hosts, up, ratio, radix) & (switches <= most[turn])
            allowed_price = np.where(allowed, price, np.inf)
            cheapest = np.minimum.reduceat(allowed_price, begins)
            is_cheapest = allowed & (allowed_price == cheapest[turn])
            place = np.minimum.reduceat(np.where(is_cheapest, np.arange(len(turn)), len(turn)), begins)
            has_some = place < len(turn)
            most[has_some] = switches[place[has_some]]
            limit = np.array([each.get(ratio, np.nan) for each in within])
            sure &= np.isnan(limit) | (has_some & (cheapest <= limit))
        is_of_few = switches <= most[turn]
        cheapest = np.minimum.reduceat(np.where(is_of_few, price, np.inf), begins)
        as_cheap = cheapest <= least[turns] * NEAR
        near = is_of_few & as_cheap[turn] & (price <= (cheapest * NEAR)[turn])
        return rows.at(near)._replace(turn=turns[turn[near]]), as_cheap, sure

    def _fewest_switches(self, lists: Integers) -> Array:
        """Switches that any fabric of some lists has at least that fits a narrower taper [1]."""
        taper = self.leaves.taper[self.leaves.begins[lists]]
        narrower = np.array(TAPERS_TRIED)[np.maximum(np.searchsorted(TAPERS_TRIED, taper) - 1, 0)]
        asked = self.leaves.asked(self.leaves.kind[lists])
        return tree.fewest_switches(asked._replace(oversubscription=narrower))

    def _as_measured(self, choice: SwitchPair, cages: Cages, row: Integers) -> Floats:
        """Price of some fabrics of some switches [USD], see `_of_switches`; infinite where a part has none."""
        height, group = self.heights[choice.height], self.group[row]
        lengths = {level: its[height, group] for level, its in self.lengths.items()}
        return self._cost(choice, cages, self.design[row], lengths)

    def _cost(self, choice: SwitchPair, cages: Cages, some: Integers, lengths: Mapping[str, Floats]) -> Floats:
        """The same of designs whose longest links of each level are so long [m]."""
        if len(some) == 1:  # in plain numbers: quicker than as an array of one
            asked = self.leaves.kinds[self.kind[some[0]]]
            joined = Joined(choice, cages, asked.nodes, asked.management_links * asked.planes)
            return np.array([_cost_of(self.designs.at(some[0]), _longest_of(lengths, 0), joined, self.prices)])
        asked = self.leaves.asked(self.kind[some])
        runs, unreached = media_of(cages, self.prices, of_each_length(lengths), len(some))
        joined = Joined(choice, cages, asked.nodes, asked.management_links * asked.planes)
        return np.asarray(unreached * UNREACHED + _parts(self.designs.at(some), runs, joined, self.prices))

    def _different(self, height: int, row: Integers) -> tuple[Integers, Integers]:
        """Where each different fabric of switches so high is first among those of several searches, which share some,
        and which of these each is.
        """
        sold = np.array(self.lengths_sold)
        columns = (its[self.heights[height]] for its in self.lengths.values())
        lengths = (np.searchsorted(sold, column, side="right")[self.group[row]] for column in columns)
        return distinct((self.design[row], *lengths), len(row))

    def _measure_apart(self, height: int, sizes: Integers) -> None:
        """Find the longest links of fabrics of some sizes that are not by rail, where switches above the leaves are so
        high: of equal leaves those of the fabric of fewest switches.
        """
        if self.by_rail.all():
            return
        row, _ = _between(self.ends, sizes)
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

    def _with_own_taper(self, some: _Priced) -> list[layouts.Design]:
        """Fabrics as they are with the tapers that they were tried for, where they were designed with others: what else
        a leaf could take depends on them.
        """
        designs, leaf = self.design[some.row], self.leaf[some.row]
        asked = np.array([self.searches[search].asked.taper for search in some.search.tolist()])
        leaves = self.each.at(leaf)
        taper = np.where(leaves.hosts > 0, asked, leaves.taper)
        if (taper == self.taper[designs]).all():
            return self.designs.at(designs).each()
        kind = self.kind[designs]
        down = np.asarray(layouts.down_ports(self.leaves.asked(kind).radix, taper))
        first, which = distinct((designs, down), len(designs))
        each = designed_together(self.leaves.fabrics(kind[first], leaves._replace(taper=taper).at(first))).each()
        return [each[place] for place in which.tolist()]


def _between(ends: Integers, places: Integers) -> tuple[Integers, Integers]:
    """All from some ends to the next, one after another, and how many each has [1].

    >>> [column.tolist() for column in _between(np.array([0, 2, 3, 7]), np.array([2, 0]))]
    [[3, 4, 5, 6, 0, 1], [4, 2]]
    """
    counts = ends[places + 1] - ends[places]
    if len(places) == 1:  # as in a plan by itself: in a third of the time
        return np.arange(ends[places[0]], ends[places[0] + 1]), counts
    return counted_off(counts) + np.repeat(ends[places], counts), counts


def _longest_of(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    """The longest link of each level that one of some fabrics has [m].

    >>> _longest_of({"node_leaf": np.array([30.0, 10.0]), "leaf_spine": np.array([50.0, 0.0])}, 1)
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


def _changes(*columns: Integers) -> Integers:
    """Rows in which some column is not as in the row before; the first row is one.

    >>> _changes(np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])).tolist()
    [0, 2, 3]
    """
    new = np.ones(len(columns[0]), dtype=np.bool_)
    if len(new):
        new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return np.flatnonzero(new)


def in_full(chosen: Chosen, cluster: Cluster, request: DesignRequest, prices: PriceList) -> Priced:
    """A fabric with cables of its own, and the price of its switches, modules and cables in place [USD]; infinite where
    one has none.

    In place: with the spares of them and the building of what they draw.

    Where no part carries the links of a level, `UNREACHED` stands for them.
    """
    choice, design, _ = chosen
    lengths = longest(design, choice.height, cluster, request, prices.catalog)
    cages = Cages.of(choice, cluster, request, prices.catalog)
    joined = Joined(choice, cages, cluster.nodes, request.management_links * request.planes)
    return Priced(_cost_of(design, lengths, joined, prices), chosen._replace(lengths=lengths))


def _cost_of(design: layouts.Design, lengths: Mapping[str, float], joined: Joined, prices: PriceList) -> float:
    """Price of a design's parts where its longest links of each level are so long [USD]; see `in_full`."""
    media = {level: joined.cages.medium(prices, level, length) for level, length in lengths.items()}
    runs = {level: ((medium, True),) for level, medium in media.items() if medium}
    return UNREACHED * (len(lengths) - len(runs)) + float(_parts(design, runs, joined, prices))


def longest(
    design: layouts.Design, height: int, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> dict[str, float]:
    """The longest link of each level that a design has [m], where the switches above its leaves are so high."""
    cabling = laid_out(design, height, cluster, request, catalog)
    return {level: cabling.longest(level) for level in LEVELS if getattr(design, level) > 0}


def _parts(design: layouts.Design, runs: Carried, joined: Joined, prices: PriceList) -> Array:
    """Price of the parts of a design, or an array of them, in place, whose links of each level are of some media."""
    choice, cages, nodes, managers = joined
    total: Array = 0.0
    for (role, key), many in part_counts(choice, cages, design, nodes, managers, runs).items():
        total = total + where(many > 0, many * in_place(role, key, choice, prices), 0.0)
    return total
