"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those that cost least in place.

In place is with the spares of their parts and the building of what they draw: what a fabric adds to the capital.
Parts that cost a little less may draw so much more that their building costs more than they save.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.load import Catalog
from app.formulas.arrays import Array, where
from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import RailRuns
from app.plan.bill_of_materials import LEVELS, Cages, Carried, laid_out, media_of, of_each_length, part_counts
from app.plan.cables import floor_of
from app.plan.cluster import Cluster
from app.plan.least_cost import LeastCosts, Narrowed, Options
from app.plan.leaves import BY_RAIL, LAYOUTS_BY_RAIL, Leaves, different, fabrics_of, fit, narrower_than, sizes_tried
from app.plan.offers import UNREACHED, in_place, link_prices, offers
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair, designed, designed_together, requested

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NEAR = 1.01
"""Fabrics that cost so many times the least at most are held against one another, each with its own cables."""
PRICED_IN_FULL = 6
"""Fabrics of which that is done at most."""
TAPERS_APART = 2.0
"""Of tapers that are so many times as wide hardly any leaves are the same: half as many links up again as the taper's
are tried."""


class Priced(NamedTuple):
    """A fabric, and its cost in place [USD]; not exact where its cables are those of one like it.

    ``row`` is where it is among those that were tried together.
    """

    cost: float
    chosen: Chosen
    exact: bool
    row: int | None = None


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


@dataclass(frozen=True)
class _Hosts:
    """All that a fabric meets of a cluster: clusters that agree in it have the same one.

    Attributes:
        nodes, nics_per_node, nodes_per_rack: how many, and where they stand [1].
        cage: rate of a cage of a node [B/s], and links that it carries.
        scale_out: key of the network generation.
        cluster: one of those clusters.
    """

    nodes: int
    nics_per_node: int
    nodes_per_rack: int
    cage: tuple[float, int]
    scale_out: str
    cluster: Cluster = field(compare=False)

    @staticmethod
    def of(choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog) -> "_Hosts":
        """Those of a cluster; its cages are the same for every choice of switches."""
        cage = Cages.of(choice, cluster, request, catalog).node
        rack, network = cluster.platform.nodes_per_rack, cluster.scale_out.key
        return _Hosts(cluster.nodes, cluster.nics_per_node, rack, cage, network, cluster)


class _Asked(NamedTuple):
    """All that the choice of a fabric depends on: clusters that agree in it share their fabrics."""

    choices: tuple[SwitchPair, ...]
    hosts: _Hosts
    request: DesignRequest
    prices: PriceList

    @staticmethod
    def of(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> "_Asked":
        """That of a cluster."""
        return _Asked(choices, _Hosts.of(choices[0], cluster, request, prices.catalog), request.fabric, prices)

    @property
    def joined(self) -> tuple[int, int]:
        """What is joined: those that agree in it share most of the fabrics that are tried for them."""
        return self.hosts.nodes, self.hosts.nics_per_node


class _Kept(dict[_Asked, Chosen]):
    """What was chosen, oldest first."""

    def forget(self) -> None:
        """Keep nothing."""
        with _LOCK:
            self.clear()


_KEPT = _Kept()
"""What was chosen last: it takes 5 ms, and servers of several GPUs have the same ports."""
_MOST_KEPT = 12_288
"""The whole catalogue asks for 8,300, two kilobytes each, whatever the job: of fewer none would be found again."""
_LOCK = Lock()


def choose(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> Chosen:
    """The switches to build and their design: the cheapest in place that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest. Switches are
    taken in the order of the least that they can cost, until that is more than the cheapest so far.
    """
    asked = _Asked.of(choices, cluster, request, prices)
    return _KEPT.get(asked) or _choose_all([asked], prices)[0]


def choose_all(
    asked: Iterable[tuple[tuple[SwitchPair, ...], Cluster, DesignRequest]], prices: PriceList
) -> list[Chosen]:
    """The same for several clusters; designing all that may be built for them takes little longer than for one."""
    return _choose_all([_Asked.of(*each, prices) for each in asked], prices)


def _choose_all(keys: Sequence[_Asked], prices: PriceList) -> list[Chosen]:
    """The same by all that it depends on."""
    number: dict[_Asked, int] = {}
    which = [number.setdefault(key, len(number)) for key in keys]
    different = [*number]
    chosen = {place: found for place, key in enumerate(different) if (found := _KEPT.get(key))}
    new = sorted((place for key, place in number.items() if place not in chosen), key=lambda it: different[it].joined)
    for searches in _portions((_Search(place, different[place]) for place in new), lambda search: search.many_sizes):
        for search, found in _cheapest(searches, prices):
            chosen[search.number] = found
            with _LOCK:
                while len(_KEPT) >= _MOST_KEPT:
                    del _KEPT[next(iter(_KEPT))]
                _KEPT[search.asked] = found
    return [chosen[place] for place in which]


ALONE = 50
"""Fabrics that take as long to try as what is done for each pair of switches, or size of leaves, by itself."""
MUCH, MUCH_TOGETHER = 500, 8_000
"""Fabrics of a search, and of several together, that take longer to try than finding those that may be cheapest."""
MARGINS = ((1.08, False), (1.15, True))
"""How many times the least that any may cost those may that are tried first, and then where that was too little; and
whether as much is allowed to the cheapest that fit narrower tapers."""
MOST_TOGETHER = 16_384
"""Fabrics that are tried together: more gain no time; a hundred thousand, as the whole catalogue asks, took 150 MB for
a moment."""


def _cheapest(searches: Sequence["_Search"], prices: PriceList) -> Iterator[tuple["_Search", Chosen]]:
    """The cheapest fabric of each of some searches.

    Of many fabrics only those are tried that may cost little more than the least that any may; and more of them where
    one that was left out may be cheaper than all of these.
    """
    large = [search for search in searches if search.work > MUCH]
    if sum(search.work for search in large) <= MUCH_TOGETHER:
        yield from _tried(searches, prices)
        return
    yield from _tried([search for search in searches if search.work <= MUCH], prices)
    number = {search: place for place, search in enumerate(large)}
    least = LeastCosts([search.options for search in large], floor_of(prices.catalog, 1), prices)
    for margin, narrower in MARGINS:
        kept = least.narrowed([number[search] for search in large], margin, narrower)
        for search, narrowed in zip(large, kept, strict=True):
            search.narrow(narrowed)
            if search.tried == search.many:
                search.narrow(None)
        found = dict(_tried(large, prices))
        yield from found.items()
        large = [search for search in large if search not in found]
        if not large:
            return
    for search in large:
        search.narrow(None)
    yield from _tried(large, prices)


def _tried(searches: Sequence["_Search"], prices: PriceList) -> Iterator[tuple["_Search", Chosen]]:
    """The cheapest of the fabrics that are tried for each of some searches, unless one that is left out may be."""
    for portion in _portions(searches, lambda search: search.tried):
        for search, chosen in zip(portion, _Fabrics(portion, prices).cheapest(), strict=True):
            if chosen:
                yield search, chosen


def _portions(searches: Iterable["_Search"], many: Callable[["_Search"], int]) -> Iterator[list["_Search"]]:
    """Searches in their order, so many together that they have about as much of something as is tried at once."""
    portion: list[_Search] = []
    together = 0
    for search in searches:
        portion.append(search)
        together += many(search)
        if together >= MOST_TOGETHER:
            yield portion
            portion, together = [], 0
    if portion:
        yield portion


class _Search:
    """The fabrics that may be built for one cluster of one choice of switches or another.

    Attributes:
        number: its number among those that are answered together.
        asked, cluster, offered: what decides, the cluster, and the choices that are worth pricing.
        sizes: leaves that may be tried, by ports of the switches.
        many, many_sizes: how many these are, and how many sizes [1].
        narrowed, places, wanted: those that are tried if not all, by places of the choices, and by ports.
        tapered: whether some of them fit narrower tapers.
    """

    def __init__(self, number: int, asked: _Asked) -> None:
        choices, hosts, request, prices = asked
        self.number = number
        self.asked = asked
        self.cluster = hosts.cluster
        self.offered = offers(
            choices, prices, self.cluster.platform.key, request.scale_out, request.planes, request.media or ""
        )
        ports = self.offered.ports
        sizes = {radix: sizes_tried(radix, self.cluster, request) for radix in {radix for radix, _ in ports}}
        self.sizes = {(radix, above): sizes[radix] for radix, above in ports}
        self.many = sum(its.many for its in self.sizes.values())
        self.many_sizes = sum(len(its.hosts) for its in self.sizes.values())
        self.tapered = request.oversubscription > 1 and request.topology in (*BY_RAIL, "fat-tree")
        self.narrow(None)

    def narrow(self, narrowed: Narrowed | None) -> None:
        """Try some of the fabrics, or all."""
        self.narrowed = narrowed
        self.places: Sequence[int] = sorted(narrowed.within) if narrowed else range(len(self.offered.places))
        sizes = narrowed.sizes if narrowed else {}
        self.wanted = {ports: self.sizes[ports].leaves_of(some) for ports, some in sizes.items()}

    @property
    def options(self) -> Options:
        """What may be built."""
        any_switches = requested((0, 0), self.cluster, self.asked.request)
        return Options(any_switches, self.offered, self.sizes, self.cluster.platform.nodes_per_rack)

    @property
    def work(self) -> int:
        """About how many fabrics take as long as trying all of these [1]; 0 where no leaves can be left out.

        Each pair of switches adds to it, and each size of leaves whose links are measured by themselves.
        """
        apart = self.many_sizes if self.asked.request.topology == "fat-tree" else 0
        return self.many + ALONE * (len(self.sizes) + apart) if self.many_sizes else 0

    @property
    def tried(self) -> int:
        """Leaves that are tried [1]."""
        return sum(leaves.many for leaves in self.wanted.values()) if self.narrowed else self.many

    def leaves(self) -> Iterator[tuple[tuple[int, int], Leaves]]:
        """The leaves that are tried, by ports of the switches."""
        return iter(
            self.wanted.items() if self.narrowed else ((ports, its.leaves) for ports, its in self.sizes.items())
        )

    def within(self, choice: SwitchPair) -> Mapping[float, float]:
        """Of leaves of some switches that fit a taper, by the taper, the most that all cost that are left out [USD]."""
        if not self.narrowed:
            return {}
        return next(its for place, its in self.narrowed.within.items() if self.offered.ends[place][0] is choice)

    def leaves_out(self, priced: Sequence[Priced], doubtful: Iterable[float]) -> bool:
        """Whether a fabric that was not tried may be the cheapest, as little as some of some switches may cost."""
        if not self.narrowed:
            return False
        most = min((fabric.cost for fabric in priced), default=np.inf) * NEAR
        return most > self.narrowed.most or any(cost <= most for cost in doubtful)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one fabric to choose of."""
        return len(self.offered.places) > 1 or self.many > 1

    def cheapest(self, priced: Sequence[Priced]) -> Priced:
        """The cheapest of the fabrics that were priced, those that cost about as much held against one another."""
        _, _, request, prices = self.asked
        best = min((fabric.cost for fabric in priced), default=np.inf)
        if not np.isfinite(best):
            return self._unpriced(priced)
        near = [fabric for fabric in priced if fabric.cost <= best * NEAR]
        near = sorted(near, key=lambda fabric: (fabric.cost, fabric.chosen.design.switches))[:PRICED_IN_FULL]
        if len(near) > 1:
            near = [
                fabric
                if fabric.exact
                else in_full(fabric.chosen, self.cluster, request, prices)._replace(row=fabric.row)
                for fabric in near
            ]
        return min(near, key=lambda fabric: (fabric.cost, float(fabric.chosen.design.switches)))

    def _unpriced(self, priced: Sequence[Priced]) -> Priced:
        """Where no price tells: the design of fewest switches, or the one that comes nearest to being one."""
        if priced:
            return min(priced, key=lambda fabric: float(fabric.chosen.design.switches))
        _, _, request, _ = self.asked
        plain = [
            Chosen(choice, designed(choice.ports, self.cluster, request, self.cluster.nodes))
            for choice, _ in self.offered.ends
        ]
        nearest = min(plain, key=lambda chosen: (int(chosen.design.reason), -chosen.choice.radix))
        return Priced(np.inf, nearest, exact=False)


class _Tried(NamedTuple):
    """Fabrics of switches of some ports that are tried for a search.

    Attributes:
        search: place of the search.
        kind: number of what is asked of each but for its leaves.
        leaves, which: the leaves, and which of all designs those make.
    """

    search: int
    kind: int
    leaves: Leaves
    which: Integers


class _Fabrics:
    """What can be built for some clusters of switches of some ports or others, and how long its cables are.

    Each fabric is designed once, however many networks of about the same taper it is tried for.

    Attributes:
        designs, switches: the fabrics; the switches of each [1].
        kind, taper: the number of the kind of each, and the taper that it was designed with.
        kinds, first_shared: what is asked of fabrics but for their leaves; the first that several networks share.
        nodes, managers: nodes, and links of fabric managers, of each of these [1].
        tried, numbers: for each search and ports the fabrics tried, and by both of them their number.
        rows: where the fabrics of these that can be built are, of several alike the first, those of equal leaves side
            by side, fewest switches first.
        design, place: of each row the design, and how many were tried before.
        group, begins: the group of equal leaves that each row belongs to, and of each group the row of fewest
            switches, which it begins with.
        by_rail: of which groups the longest links are found together.
        heights, lengths: the longest links of each level of these [m], for each height of the switches above; 0 for
            none.
    """

    def __init__(self, searches: Sequence[_Search], prices: PriceList) -> None:
        self.searches = searches
        self.prices = prices
        self._design()
        self._sort()
        nodes_per_rack = [search.cluster.platform.nodes_per_rack for search in searches]
        self.floors = [floor_of(prices.catalog, nodes) for nodes in nodes_per_rack]
        self._measure()
        self._found: set[tuple[int, int]] = set()
        self._doubtful: dict[int, list[float]] = {}

    def _design(self) -> None:
        """Design every fabric once."""
        kinds: dict[layouts.FabricRequest, list[tuple[int, tuple[int, int], Leaves]]] = {}
        for number, search in enumerate(self.searches):
            for ports, its in search.leaves():
                kind = requested(ports, search.cluster, search.asked.request)
                about = TAPERS_APART ** (math.log(kind.oversubscription) // math.log(TAPERS_APART))
                if about != kind.oversubscription:
                    kind = kind._replace(oversubscription=about)
                kinds.setdefault(kind, []).append((number, ports, its))
        shared = [kind for kind, members in kinds.items() if len(members) > 1]
        self.kinds = [*(kind for kind, members in kinds.items() if len(members) == 1), *shared]
        self.first_shared = len(kinds) - len(shared)
        self.tried: list[_Tried] = []
        self.numbers: dict[tuple[int, tuple[int, int]], int] = {}
        tried: list[Leaves] = []
        many = 0
        for number, kind in enumerate(self.kinds):
            members = kinds[kind]
            leaves, which = different([its for _, _, its in members], kind.radix)
            for (search_number, ports, its), places in zip(members, which, strict=True):
                self.numbers[search_number, ports] = len(self.tried)
                self.tried.append(_Tried(search_number, number, its, many + places))
            tried.append(leaves)
            many += leaves.many
        self.designs = designed_together(fabrics_of(self.kinds, tried))
        self.switches = self.designs.switches
        self.taper = np.concatenate([leaves.taper for leaves in tried])
        self.kind = np.repeat(np.arange(len(kinds)), [leaves.many for leaves in tried])
        self.nodes = np.array([kind.nodes for kind in self.kinds])
        self.managers = np.array([kind.management_links * kind.planes for kind in self.kinds])

    def _sort(self) -> None:
        """Find the rows of what was tried."""
        order, leaves, alike = _by_leaves(self.designs, self.kind, self._of_kind("layout"))
        counts = np.array([len(tried.which) for tried in self.tried])
        begins = np.cumsum(counts) - counts
        own = order[self.kind[order] < self.first_shared]  # each tried for one network alone, and in its order
        columns = [(self.kind[own], np.arange(len(own)), own - begins[self.kind[own]]), *self._shared(order)]
        which, ranks, place = map(np.concatenate, zip(*columns, strict=True))
        new = _changes(which, alike[ranks])
        self.place = np.minimum.reduceat(place, new) if len(new) else place
        self.which, ranks = which[new], ranks[new]
        ends = np.searchsorted(self.which, np.arange(len(self.tried) + 1)).tolist()
        self.rows = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.design = np.concatenate([tried.which for tried in self.tried])[begins[self.which] + self.place]
        self.begins = _changes(self.which, leaves[ranks])
        self.group = np.repeat(np.arange(len(self.begins)), np.diff(self.begins, append=len(self.which)))
        self.search = np.array([tried.search for tried in self.tried])[self.which[self.begins]]

    def _shared(self, order: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Of fabrics that several networks share, by kind: for which each is tried, its rank in an order of designs,
        and how many of its network's were tried before.
        """
        rank = np.full(len(self.kind), -1)
        rank[order] = np.arange(len(order))
        ends = np.searchsorted(self.kind[order], np.arange(len(self.kinds) + 1)).tolist()
        first = self.first_shared
        for kind, its in itertools.groupby(self.tried[first:], key=lambda tried: tried.kind):
            several, begin = [*its], ends[kind]
            places = np.full((len(several), ends[kind + 1] - begin), -1)
            for row, tried in enumerate(several):
                ranks = rank[tried.which]
                built = np.flatnonzero(ranks >= 0)[::-1]
                places[row, ranks[built] - begin] = built
            which, ranks = np.nonzero(places >= 0)
            yield which + first, ranks + begin, places[which, ranks]
            first += len(several)

    def _of_kind(self, name: str) -> NDArray[Any]:
        """What is asked of each design under some name."""
        return np.array([getattr(kind, name) for kind in self.kinds])[self.kind]

    def _measure(self) -> None:
        """Find how long the longest links by rail are: of all fabrics on a floor at once, which takes little longer."""
        firsts = self.design[self.begins]
        heights = {choice.height for search in self.searches for choice in search.asked.choices}
        self.heights = {height: place for place, height in enumerate(sorted(heights))}
        levels = [level for level in LEVELS if (getattr(self.designs, level)[firsts] > 0).any()]
        self.lengths = {level: np.zeros((len(heights), len(firsts))) for level in levels}
        least = {layouts.RAIL_OPTIMIZED: 1, layouts.RAIL_ONLY: 0}
        tiers = np.array([least.get(kind.layout, layouts.MOST_TIERS) for kind in self.kinds])
        self.by_rail = self.designs.tiers[firsts] > tiers[self.kind[firsts]]
        numbers = {floor: number for number, floor in enumerate(dict.fromkeys(self.floors))}
        on = np.array([numbers[floor] for floor in self.floors])[self.search]
        for floor, number in numbers.items():
            groups = np.flatnonzero(self.by_rail & (on == number))
            if len(groups):
                some, which = np.unique(firsts[groups], return_inverse=True)
                per_rack = np.array([floor.switches_per_rack(height) for height in self.heights])
                found = self._runs(some).longest(floor, per_rack[:, None, None])
                for level in self.lengths.keys() & found.keys():
                    has_some = getattr(self.designs, level)[some] > 0
                    self.lengths[level][:, groups] = np.where(has_some, found[level], 0.0)[:, which]

    def _runs(self, some: Integers) -> RailRuns:
        """What the longest links by rail of some designs depend on."""
        designs, kinds = self.designs.at(some), self.kind[some]
        nodes, rails, planes, managers = (
            np.array([getattr(kind, name) for kind in self.kinds])[kinds]
            for name in ("nodes", "rails", "planes", "management_links")
        )
        above = (designs.leaf_switches, designs.spine_switches, designs.core_switches, designs.super_core_switches)
        return RailRuns.of(nodes, designs.unit_nodes, rails, tuple(many // planes for many in above), managers)

    def cheapest(self) -> list[Chosen | None]:
        """The fabric to build of each search; see `choose`. None where it may be one that was not tried."""
        priced = self._priced([number for number, search in enumerate(self.searches) if search.has_choice])
        sure = [
            number
            for number, search in enumerate(self.searches)
            if not search.leaves_out(priced.get(number, ()), self._doubtful.get(number, ()))
        ]
        only = [number for number in sure if number not in priced]
        found = self._only(only) if only else {}
        found |= {number: self.searches[number].cheapest(priced[number]) for number in sure if number in priced}
        chosen = dict(zip(found, self._with_own_taper([*found.values()]), strict=True))
        return [chosen.get(number) for number in range(len(self.searches))]

    def _only(self, searches: Sequence[int]) -> dict[int, Priced]:
        """The one fabric that is tried for each of some searches, whether or not it can be built."""
        choices = [self.searches[search].offered.ends[0][0] for search in searches]
        numbers = [self.numbers[search, choice.ports] for search, choice in zip(searches, choices, strict=True)]
        designs = self.designs.at(np.array([self.tried[number].which[0] for number in numbers], np.int64)).each()
        lengths: dict[int, dict[str, float]] = {}
        for height in {choice.height for choice in choices}:
            rows = {
                search: self.rows[number]
                for search, choice, number in zip(searches, choices, numbers, strict=True)
                if choice.height == height and self.rows[number].start < self.rows[number].stop
            }
            begins = np.array([its.start for its in rows.values()], np.int64)
            columns = self._lengths(height, rows.values(), begins)
            lengths |= {search: _longest_of(columns, place) for place, search in enumerate(rows)}
        return {
            search: Priced(np.nan, Chosen(choice, design, lengths.get(search)), exact=False)
            for search, choice, design in zip(searches, choices, designs, strict=True)
        }

    def _priced(self, searches: Iterable[int]) -> dict[int, list[Priced]]:
        """The fabrics of some searches that cost about as much as the cheapest: of switches in the order of the least
        that they can cost, until that is more than the cheapest so far.
        """
        catalog = self.prices.catalog
        waiting = {search: sorted(offered, reverse=True) for search, offered in self._least(searches).items()}
        priced: dict[int, list[Priced]] = {search: [] for search in waiting}
        best = dict.fromkeys(waiting, np.inf)
        while waiting:
            turns: dict[tuple[SwitchPair, Cages], list[int]] = {}
            for search, offered in [*waiting.items()]:
                least, place = offered.pop()
                if least > best[search] * NEAR:
                    del waiting[search]
                    continue
                choice, _ = self.searches[search].offered.ends[place]
                cages = Cages.of(choice, self.searches[search].cluster, self.searches[search].asked.request, catalog)
                turns.setdefault((choice, cages), []).append(search)
                if not offered:
                    del waiting[search]
            for (choice, cages), its in turns.items():
                for search, fabrics in zip(its, self._of_switches(choice, cages, its), strict=True):
                    priced[search] += fabrics
                    best[search] = min([best[search], *(fabric.cost for fabric in fabrics)])
        return priced

    def _least(self, searches: Iterable[int]) -> dict[int, list[tuple[float, int]]]:
        """The least that a fabric of each choice on offer costs [USD], and its place among them: no cable and no module
        is rounded up to a whole one.

        Links that are not by rail are taken to be short: it takes long to find how long they are. One choice by itself
        is not worth the work.
        """
        places = {search: self.searches[search].places for search in searches}
        several = [(search, place) for search, its in places.items() for place in its if len(its) > 1]
        least = dict.fromkeys(several, np.inf)
        offered = {id(its): its for its in (self.searches[search].offered for search, _ in several)}
        begins = np.cumsum([0, *(len(its.places) for its in offered.values())]).tolist()
        begin_of = dict(zip(offered, begins[:-1], strict=True))
        slices, entries, heights = [], [], []
        for search, place in several:
            its = self.searches[search].offered
            choice, _ = its.ends[place]
            slices.append(self.rows[self.numbers[search, choice.ports]])
            entries.append(begin_of[id(its)] + place)
            heights.append(self.heights[choice.height])
        counts = np.array([rows.stop - rows.start for rows in slices])
        if counts.any():
            ends = np.cumsum(counts)
            begins = ends - counts
            row = np.arange(ends[-1]) + np.repeat([rows.start for rows in slices] - begins, counts)
            entry, height = np.repeat(entries, counts), np.repeat(heights, counts)
            leaf = np.concatenate([its.leaf for its in offered.values()])
            spine = np.concatenate([its.spine for its in offered.values()])
            designs, group, design = self.designs, self.group[row], self.design[row]
            leaves = designs.leaf_switches[design]
            above = self.switches[design] - leaves
            total = leaves * leaf[entry] + np.where(above > 0, above * spine[entry], 0.0)
            sold = self.floors[0].lengths
            for level, lengths in self.lengths.items():
                length = np.searchsorted(sold, np.where(self.by_rail[group], lengths[height, group], 0.0))
                prices = np.concatenate([link_prices(its.ends, level, sold, self.prices) for its in offered.values()])
                total += getattr(designs, level)[design] * prices[entry, length]
            some = counts > 0
            found = np.full(len(several), np.inf)
            found[some] = np.minimum.reduceat(total, begins[some])
            least = dict(zip(several, found.tolist(), strict=True))
        return {search: [(least.get((search, place), 0.0), place) for place in its] for search, its in places.items()}

    def _of_switches(self, choice: SwitchPair, cages: Cages, searches: Sequence[int]) -> Iterator[list[Priced]]:
        """The cheapest fabrics of some switches for each of some searches: of equal leaves, every link at the length
        that the one of fewest switches needs.
        """
        slices = [self.rows[self.numbers[search, choice.ports]] for search in searches]
        row = np.concatenate([np.arange(rows.start, rows.stop) for rows in slices])
        columns = self._lengths(choice.height, slices, row)
        if len(slices) == 1:
            cost = self._cost(choice, cages, columns, row)
        else:
            first, which = self._different(columns, row)
            cost = self._cost(choice, cages, {level: column[first] for level, column in columns.items()}, row[first])
            cost = cost[which]
        begin = 0
        for search, rows in zip(searches, slices, strict=True):
            end = begin + rows.stop - rows.start
            lengths = {level: column[begin:end] for level, column in columns.items()}
            yield self._cheapest_of(choice, rows, cost[begin:end], lengths, search) if end > begin else []
            begin = end

    def _cheapest_of(
        self, choice: SwitchPair, rows: slice, cost: Floats, columns: Mapping[str, Floats], search: int
    ) -> list[Priced]:
        """The cheapest of some fabrics of some switches that cost so much [USD]."""
        designs = self.design[rows]
        switches = self.switches[designs]
        cost = self._of_few_switches(cost, designs, choice, search)
        near = np.lexsort((self.place[rows], switches, cost))[:PRICED_IN_FULL]
        if np.isfinite(cost[near[0]]):
            near = near[cost[near] <= cost[near[0]] * NEAR]
        else:
            near = np.array([np.argmin(switches)])
        own = self.begins[self.group[rows]] == np.arange(rows.start, rows.stop)
        found = []
        for at in near.tolist():
            chosen = Chosen(choice, self.designs.at(designs[at]), _longest_of(columns, at) if own[at] else None)
            found.append(Priced(float(cost[at]), chosen, bool(own[at]), rows.start + at))
        return found

    def _of_few_switches(self, cost: Floats, designs: Integers, choice: SwitchPair, search: int) -> Floats:
        """Prices of fabrics [USD]; infinite where the cheapest of a narrower taper needs fewer switches.

        So a wider taper takes no more switches, and no more racks for them, than a narrower one, unless it costs more.
        Where that is so of none of the cheapest, since no narrower taper needs as few, others are not looked at.
        """
        its = self.searches[search]
        taper, within = its.asked.request.oversubscription, its.within(choice)
        least, switches = cost.min(), self.switches[designs]
        allowed, sure = cost, least * NEAR**2 <= within.get(taper, np.inf)
        if its.tapered and switches[cost <= least * NEAR].max() > self._fewest_switches(choice, search, taper):
            allowed, as_sure = self._as_narrower(cost, designs, choice.radix, taper, within)
            sure = sure and as_sure and (its.narrowed is None or its.narrowed.narrower)
        if not sure:
            self._doubtful.setdefault(search, []).append(min(least, within.get(taper, np.inf)))
        return allowed

    def _fewest_switches(self, choice: SwitchPair, search: int, taper: float) -> float:
        """Switches that any fabric has at least that fits a narrower taper [1]."""
        kind = self.kinds[self.tried[self.numbers[search, choice.ports]].kind]
        return float(tree.fewest_switches(kind._replace(oversubscription=float(narrower_than(taper)[-1, 0]))))

    def _as_narrower(
        self, cost: Floats, designs: Integers, radix: int, taper: float, within: Mapping[float, float]
    ) -> tuple[Floats, bool]:
        """Prices of fabrics of no more switches than the cheapest of narrower tapers; and whether all that are left out
        of these cost more.
        """
        hosts, up, switches = (
            self.designs.unit_hosts[designs],
            self.designs.leaf_up[designs],
            self.switches[designs],
        )
        narrower = narrower_than(taper)
        most, sure = np.inf, True
        for ratio, fits in zip(narrower[:, 0].tolist(), fit(hosts, up, narrower, radix), strict=True):
            allowed = fits & (switches <= most)
            cheapest = np.argmin(np.where(allowed, cost, np.inf))
            most = switches[cheapest] if allowed[cheapest] else most
            sure &= ratio not in within or bool(allowed[cheapest] and cost[cheapest] <= within[ratio])
        of_few = np.where(switches <= most, cost, np.inf)
        return of_few if of_few.min() <= cost.min() * NEAR else cost, sure

    def _cost(self, choice: SwitchPair, cages: Cages, lengths: Mapping[str, Floats], row: Integers) -> Floats:
        """Price of some fabrics of some switches with links so long [USD]; infinite where a part has none."""
        some = self.design[row]
        nodes, managers = self.nodes[self.kind[some]], self.managers[self.kind[some]]
        if len(some) == 1:  # in plain numbers: quicker than as an array of one
            longest = _longest_of(lengths, 0)
            joined = Joined(choice, cages, int(nodes[0]), int(managers[0]))
            return np.array([_cost_of(self.designs.at(some[0]), longest, joined, self.prices)])
        runs, unreached = media_of(cages, self.prices, of_each_length(lengths), len(some))
        cost = _parts(self.designs.at(some), runs, Joined(choice, cages, nodes, managers), self.prices)
        return np.asarray(unreached * UNREACHED + cost)

    def _different(self, columns: Mapping[str, Floats], row: Integers) -> tuple[Integers, Integers]:
        """Where each different fabric with links so long is first among those of several searches, which share some,
        and which of these each is.
        """
        sold = np.array(self.floors[0].lengths)
        code = self.design[row]
        for column in columns.values():
            code = code * (len(sold) + 1) + np.searchsorted(sold, column, side="right")
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
        return first, which

    def _lengths(self, height: int, slices: Iterable[slice], row: Integers) -> dict[str, Floats]:
        """The longest link of each level of some fabrics [m], where switches above the leaves are so high: as in that
        of fewest switches with equal leaves; 0 for none.
        """
        place = self.heights[height]
        for rows in slices:
            if rows.stop > rows.start and (height, rows.start) not in self._found:
                self._found.add((height, rows.start))
                groups = np.arange(self.group[rows.start], self.group[rows.stop - 1] + 1)
                for group in groups[~self.by_rail[groups]].tolist():
                    search = self.searches[self.search[group]]
                    first = self.designs.at(self.design[self.begins[group]])
                    found = longest(first, height, search.cluster, search.asked.request, self.prices.catalog)
                    for level, length in found.items():
                        self.lengths[level][place, group] = length
        return {level: lengths[place, self.group[row]] for level, lengths in self.lengths.items()}

    def _with_own_taper(self, found: Sequence[Priced]) -> list[Chosen]:
        """Fabrics as they are with the taper that they were tried for, where they were designed with another."""
        chosen = [fabric.chosen for fabric in found]
        others, kinds, own = [], [], []
        for number, fabric in enumerate(found):
            if fabric.row is None:
                continue
            tried = self.tried[self.which[fabric.row]]
            leaves = tried.leaves.at([self.place[fabric.row]])
            if leaves.taper[0] != self.taper[self.design[fabric.row]]:
                others.append(number)
                kinds.append(self.kinds[tried.kind])
                own.append(leaves)
        if others:
            designs = designed_together(fabrics_of(kinds, own))
            for place, number in enumerate(others):
                chosen[number] = chosen[number]._replace(design=designs.at(place))
        return chosen


def _longest_of(columns: Mapping[str, Floats], row: int) -> dict[str, float]:
    """The longest link of each level that one of some fabrics has [m].

    >>> _longest_of({"node_leaf": np.array([30.0, 10.0]), "leaf_spine": np.array([50.0, 0.0])}, 1)
    {'node_leaf': 10.0}
    """
    return {level: float(column[row]) for level, column in columns.items() if column[row] > 0}


def _by_leaves(designs: layouts.Design, kind: Integers, layout: Integers) -> tuple[Integers, Integers, Integers]:
    """The designs that can be built, those of a kind with equal leaves side by side, fewest switches first; of each of
    them a number that those of equal leaves share, and one that those share that are alike.

    Where leaves are by rail, the unit says all about them: what more a leaf could take depends on the taper.
    """
    built = np.flatnonzero(designs.reason == layouts.BUILT)
    down = np.where(np.isin(layout, LAYOUTS_BY_RAIL), 0.0, designs.leaf_down)
    sizes = (kind, down, designs.unit_nodes)
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
    return Priced(_cost_of(design, lengths, joined, prices), chosen._replace(lengths=lengths), exact=True)


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
