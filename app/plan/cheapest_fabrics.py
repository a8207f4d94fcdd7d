"""Of the fabrics that are tried for several clusters the cheapest of each, those that cost about as much held against
one another.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, between, changes, counted_off, distinct
from app.formulas.fabric import layouts, tree
from app.plan.bill_of_materials import Cages, media_of, of_each_length
from app.plan.fabric_cost import Joined, cost_of, cost_of_parts, in_full
from app.plan.fabric_search import FabricSearch
from app.plan.leaves import TAPERS_TRIED, fit, narrower_than
from app.plan.offers import UNREACHED, AllOffers, link_prices
from app.plan.prices import PriceList
from app.plan.switches import Chosen, SwitchPair
from app.plan.tried_fabrics import Lengths, TriedFabrics, longest_of
from app.plan.tried_leaves import TriedLeaves

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
NEAR = 1.01
"""Fabrics that cost so many times the least at most are held against one another, each with its own cables."""
PRICED_IN_FULL = 6
"""Fabrics of which that is done at most."""


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


class _PricedFabrics(NamedTuple):
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
    def of(parts: Sequence["_PricedFabrics"]) -> "_PricedFabrics":
        """All of some parts."""
        return _PricedFabrics(*map(np.concatenate, zip(*parts, strict=True)))

    def at(self, index: Any) -> "_PricedFabrics":
        """Some of them."""
        return _PricedFabrics(*(column[index] for column in self))


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


class CheapestFabrics:
    """The cheapest of the fabrics that are tried for some clusters.

    Attributes:
        searches: what is looked for.
        leaves, fabrics: the leaves that are tried, in lists, and what can be built of them.
        offers, alike, height: all switches on offer; of each which it is like, and which of the heights it has.
        doubtful: of each search what a fabric that is left out may cost [USD].
    """

    def __init__(self, searches: Sequence[FabricSearch], leaves: TriedLeaves, prices: PriceList) -> None:
        self.searches = searches
        self.leaves = leaves
        self.prices = prices
        self.fabrics = TriedFabrics(searches, leaves, prices)
        self.doubtful = np.full(len(searches), np.inf)

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
        near = near.at(np.lexsort((self.fabrics.switches_of(near.row), near.cost, near.search)))
        sure = np.array([number for number in searches if not self._leaves_out(number, float(best[number]))], np.int64)
        begins, ends = (np.searchsorted(near.search, sure, side) for side in ("left", "right"))
        counts = np.minimum(ends - begins, PRICED_IN_FULL)
        least, lengths = self._least_of(near.at(counted_off(counts) + np.repeat(begins, counts)))
        unpriced = sure[counts == 0].tolist()
        if unpriced:
            without = _PricedFabrics.of([self._of_fewest_switches(priced, number) for number in unpriced])
            least, lengths = _PricedFabrics.of([least, without]), lengths + self._lengths_of(without)
        choices = [self.offers[offer][0] for offer in least.offer.tolist()]
        chosen = map(Chosen, choices, self._with_own_taper(least), lengths)
        by_search = dict(zip(least.search.tolist(), chosen, strict=True))
        unbuilt = (number for number in unpriced if number not in by_search)
        return by_search | {number: self.searches[number].nearest() for number in unbuilt}

    def _of_fewest_switches(self, priced: _PricedFabrics, number: int) -> _PricedFabrics:
        """Of the fabrics of a search the one of fewest switches, if there is one."""
        some = priced.at(priced.search == number)
        return some.at(np.argsort(self.fabrics.switches_of(some.row), kind="stable")[:1])

    def _least_of(self, some: _PricedFabrics) -> tuple[_PricedFabrics, list[Lengths]]:
        """The cheapest of some fabrics for each of their searches, each with its own cables, and their longest links;
        of equal price the fewest switches.
        """
        alone = np.bincount(some.search, minlength=1)[some.search] == 1
        if alone.all():
            return some, self._lengths_of(some)
        apart = np.flatnonzero(~alone & (self.fabrics.begins[self.fabrics.group[some.row]] != some.row))
        cost, lengths = some.cost.copy(), dict[int, Lengths]()
        if len(apart):
            cost[apart], longest_apart = self._in_full(some.at(apart))
            lengths = dict(zip(apart.tolist(), longest_apart, strict=True))
        order = np.lexsort((self.fabrics.switches_of(some.row), cost, some.search))
        first = order[changes(some.search[order])]
        least = some.at(first)
        as_measured = zip(first.tolist(), self._lengths_of(least), strict=True)
        return least, [lengths.get(place, measured) for place, measured in as_measured]

    def _in_full(self, some: _PricedFabrics) -> tuple[Floats, list[Lengths]]:
        """What some fabrics cost with cables of their own [USD], and their longest links: of each that several searches
        share once, and of those by rail together.
        """
        group = self.fabrics.group[some.row]
        columns = self.fabrics.design[some.row], self.alike[some.offer], self.fabrics.nodes_per_rack[group]
        first, which = distinct(columns, len(some.row))
        design, offer, nodes_per_rack = (column[first] for column in columns)
        cost, lengths, by_rail = (
            np.zeros(len(first)),
            list[Lengths]([None] * len(first)),
            self.fabrics.by_rail[group[first]],
        )
        for place in np.flatnonzero(~by_rail).tolist():
            search = self.searches[some.search[first[place]]]
            chosen = Chosen(self.offers[offer[place]][0], self.fabrics.designs.at(design[place]))
            cost[place], (*_, lengths[place]) = in_full(chosen, search.cluster, search.request, self.prices)
        for nodes, its_offer in {*zip(nodes_per_rack[by_rail].tolist(), offer[by_rail].tolist(), strict=True)}:
            alike = np.flatnonzero(by_rail & (nodes_per_rack == nodes) & (offer == its_offer))
            choice, cages = self.offers[its_offer]
            height = self.fabrics.heights[choice.height]
            runs = {level: its[height] for level, its in self.fabrics.longest_by_rail(design[alike], nodes).items()}
            cost[alike] = self._cost(choice, cages, design[alike], runs)
            for number, place in enumerate(alike.tolist()):
                lengths[place] = longest_of(runs, number)
        return cost[which], [lengths[place] for place in which.tolist()]

    def _lengths_of(self, some: _PricedFabrics) -> list[Lengths]:
        """The longest link of each level of some fabrics, see `TriedFabrics.lengths_of`."""
        return self.fabrics.lengths_of(some.row, self.height[some.offer])

    def _leaves_out(self, number: int, best: float) -> bool:
        """Whether a fabric that was not tried may be the cheapest, as little as some of some switches may cost."""
        its = self.searches[number]
        if its.others < np.inf and best * NEAR > its.others:
            return True
        return its.narrowed is not None and (best * NEAR > its.narrowed.most or self.doubtful[number] <= best * NEAR)

    def _only(self, searches: Sequence[int]) -> dict[int, Chosen]:
        """The one fabric that is tried for each of some searches, whether or not it can be built."""
        offered = AllOffers.of([self.searches[search].offered for search in searches])
        firsts = [its.ends[0][0] for its in offered.offered]
        lists = self.leaves.lists_of(np.array(searches), firsts, offered.which)
        size = self.fabrics.shared.size[np.searchsorted(self.fabrics.shared.list, lists)]
        designs = self.fabrics.designs.at(self.fabrics.which[self.fabrics.first[size]]).each()
        height = np.array([self.fabrics.heights[choice.height] for choice in firsts])[offered.which]
        for each in {choice.height for choice in firsts}:
            self.fabrics.measure_apart(each, size[height == self.fabrics.heights[each]])
        built = np.flatnonzero(self.fabrics.ends[size] < self.fabrics.ends[size + 1])
        lengths = dict(
            zip(built.tolist(), self.fabrics.lengths_of(self.fabrics.ends[size[built]], height[built]), strict=True)
        )
        choices = [firsts[which] for which in offered.which.tolist()]
        return {
            search: Chosen(choice, design, lengths.get(place))
            for place, (search, choice, design) in enumerate(zip(searches, choices, designs, strict=True))
        }

    def _priced(self, searches: Sequence[int]) -> _PricedFabrics:
        """The fabrics of some searches that cost about as much as the cheapest: of switches in the order of the least
        that they can cost, until that is more than the cheapest so far.
        """
        tried = self._switches(searches)
        if len(tried.search) > len(searches):
            tried = tried.at(np.lexsort((tried.place, tried.least, tried.search)))
        turn = np.searchsorted(tried.search, searches)
        ends = np.append(turn[1:], len(tried.search))
        best = np.full(len(self.searches), np.inf)
        priced = list[_PricedFabrics]()
        while len(turn):
            cheap = tried.least[turn] <= best[tried.search[turn]] * NEAR
            turn, ends = turn[cheap], ends[cheap]
            same = self.alike[tried.offer[turn]]
            for offer in np.unique(same).tolist():
                cheapest = self._of_switches(offer, tried.at(turn[same == offer]))
                np.minimum.at(best, cheapest.search, cheapest.cost)
                priced.append(cheapest)
            turn = turn + 1
            turn, ends = turn[turn < ends], ends[turn < ends]
        return _PricedFabrics.of(priced)

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
        self.height = np.array([self.fabrics.heights[choice.height] for choice in choices])
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
            tried.least[several] = self._least(offered, tried.at(several))
        return tried

    def _least(self, offered: AllOffers, tried: _Switches) -> Floats:
        """The least that a fabric of some switches costs [USD]; infinite where none can be built."""
        use, counts = between(self.fabrics.uses, tried.list)
        least = np.full(len(counts), np.inf)
        if not len(use):
            return least
        offer = np.repeat(tried.offer, counts)
        first = which = np.arange(len(use))
        if len(self.searches) > 1:
            first, which = distinct((self.fabrics.used[use], offer), len(use))
        row, rows = between(self.fabrics.ends, self.fabrics.used[use[first]])
        offer = np.repeat(offer[first], rows)
        designs, group, design, height = (
            self.fabrics.designs,
            self.fabrics.group[row],
            self.fabrics.design[row],
            self.height[offer],
        )
        leaves = designs.leaf_switches[design]
        above = self.fabrics.switches[design] - leaves
        total = leaves * offered.leaf[offer] + np.where(above > 0, above * offered.spine[offer], 0.0)
        sold = self.fabrics.lengths_sold
        for level, lengths in self.fabrics.lengths.items():
            length = np.searchsorted(sold, np.where(self.fabrics.by_rail, lengths, 0.0))
            prices = np.concatenate([link_prices(its.ends, level, sold, self.prices) for its in offered.offered])
            total += getattr(designs, level)[design] * prices[offer, length[height, group]]
        least_of_use = np.minimum.reduceat(total, np.cumsum(rows) - rows)[which]
        least[counts > 0] = np.minimum.reduceat(least_of_use, (np.cumsum(counts) - counts)[counts > 0])
        return least

    def _of_switches(self, offer: int, tried: _Switches) -> _PricedFabrics:
        """The cheapest fabrics of some switches for each of some searches: of equal leaves, every link at the length
        that the one of fewest switches needs.
        """
        choice, cages = self.offers[offer]
        tried = tried.at(self.fabrics.uses[tried.list] < self.fabrics.uses[tried.list + 1])
        use, counts = between(self.fabrics.uses, tried.list)
        if not len(use):
            return _PricedFabrics(use, use, use, np.zeros(0))
        size = np.flatnonzero(np.bincount(self.fabrics.used[use]))
        self.fabrics.measure_apart(choice.height, size)
        row, rows = between(self.fabrics.ends, size)
        cost, least = np.full(len(self.fabrics.design), np.inf), np.full(len(self.fabrics.first), np.inf)
        if len(tried.list) == 1:
            cost[row] = self._as_measured(choice, cages, row)
        else:
            first, which = self.fabrics.different(choice.height, row)
            cost[row] = self._as_measured(choice, cages, row[first])[which]
        least[size] = np.minimum.reduceat(cost[row], np.cumsum(rows) - rows)
        return self._cheapest_of(tried, use, counts, cost, least[self.fabrics.used[use]])

    def _cheapest_of(
        self, tried: _Switches, use: Integers, counts: Integers, cost: Floats, least_of_use: Floats
    ) -> _PricedFabrics:
        """The cheapest fabrics of some switches for each of some searches, which try so many sizes each, where each
        fabric costs so much, and those of each size at least [USD].
        """
        turn = np.repeat(np.arange(len(counts)), counts)
        least = np.minimum.reduceat(least_of_use, np.cumsum(counts) - counts)
        near = least_of_use <= (least * NEAR)[turn]
        rows = self._rows(turn[near], use[near])
        rows = self._of_few_switches(tried, rows.at(cost[rows.row] <= (least * NEAR)[rows.turn]), cost, least)
        switches, priced = self.fabrics.switches_of(rows.row), np.isfinite(least)[rows.turn]
        by_place = (
            np.where(priced, self.fabrics.leaf[rows.row], self.fabrics.rank[rows.row]),
            np.where(priced, rows.use, 0),
        )
        order = np.lexsort((*by_place, switches, cost[rows.row], rows.turn))
        turn, row = rows.turn[order], rows.row[order]
        kept = counted_off(np.bincount(turn)) < np.where(priced[order], PRICED_IN_FULL, 1)
        turn, row = turn[kept], row[kept]
        return _PricedFabrics(tried.search[turn], row, tried.offer[turn], cost[row])

    def _rows(self, turn: Integers, use: Integers) -> _Rows:
        """All fabrics of some sizes that are tried in some turns."""
        row, counts = between(self.fabrics.ends, self.fabrics.used[use])
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
        np.maximum.at(most, near.turn, self.fabrics.switches_of(near.row))
        tapered = np.array([its.tapered for its in searches])
        turns = np.flatnonzero((most > self._fewest_switches(tried.list)) & tapered)
        sure = least * NEAR**2 <= tried.most
        rows, is_of_few = near, np.zeros(len(least), np.bool_)
        if len(turns):
            narrower = np.array([its.narrowed is None or its.narrowed.narrower for its in searches])
            few, is_of_few[turns], as_sure = self._of_few(tried, turns, cost, least)
            sure[turns] &= as_sure & narrower[turns]
            rows = _Rows.of([near.at(~is_of_few[near.turn]), few])
        np.minimum.at(self.doubtful, tried.search[~sure], np.minimum(least, tried.most)[~sure])
        return rows

    def _of_few(
        self, tried: _Switches, turns: Integers, cost: Floats, least: Floats
    ) -> tuple[_Rows, Booleans, Booleans]:
        """Of the fabrics of some turns that have no more switches than the cheapest of each narrower taper those that
        cost about as much as the cheapest of them; whether that costs about as much as the cheapest of all; and whether
        all that are left out of narrower tapers cost more.
        """
        use, counts = between(self.fabrics.uses, tried.list[turns])
        rows = self._rows(np.repeat(np.arange(len(turns)), counts), use)
        rows = rows.at(np.lexsort((self.fabrics.rank[rows.row], rows.turn)))
        turn, design, price = rows.turn, self.fabrics.design[rows.row], cost[rows.row]
        begins = np.searchsorted(turn, np.arange(len(turns)))
        switches, hosts, up = (
            self.fabrics.switches[design],
            self.fabrics.designs.unit_hosts[design],
            self.fabrics.designs.leaf_up[design],
        )
        its = [self.searches[search] for search in tried.search[turns].tolist()]
        within = [each.within(place) for each, place in zip(its, tried.place[turns].tolist(), strict=True)]
        taper, radix = np.array([each.key.taper for each in its]), self.leaves.radix[tried.list[turns]][turn]
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
        request = self.leaves.requests(self.leaves.kind[lists])
        return tree.fewest_switches(request._replace(oversubscription=narrower))

    def _as_measured(self, choice: SwitchPair, cages: Cages, row: Integers) -> Floats:
        """Price of some fabrics of some switches [USD], see `_of_switches`; infinite where a part has none."""
        height, group = self.fabrics.heights[choice.height], self.fabrics.group[row]
        lengths = {level: its[height, group] for level, its in self.fabrics.lengths.items()}
        return self._cost(choice, cages, self.fabrics.design[row], lengths)

    def _cost(self, choice: SwitchPair, cages: Cages, some: Integers, lengths: Mapping[str, Floats]) -> Floats:
        """The same of designs whose longest links of each level are so long [m]."""
        if len(some) == 1:  # in plain numbers: quicker than as an array of one
            request = self.leaves.kinds.of(self.fabrics.kind[some[0]])
            joined = Joined(choice, cages, request.nodes, request.management_links * request.planes)
            return np.array([cost_of(self.fabrics.designs.at(some[0]), longest_of(lengths, 0), joined, self.prices)])
        request = self.leaves.requests(self.fabrics.kind[some])
        runs, unreached = media_of(cages, self.prices, of_each_length(lengths), len(some))
        joined = Joined(choice, cages, request.nodes, request.management_links * request.planes)
        return np.asarray(
            unreached * UNREACHED + cost_of_parts(self.fabrics.designs.at(some), runs, joined, self.prices)
        )

    def _with_own_taper(self, some: _PricedFabrics) -> list[layouts.Design]:
        """Fabrics as they are with the tapers that they were tried for."""
        taper = np.array([self.searches[search].key.taper for search in some.search.tolist()])
        return self.fabrics.with_tapers(some.row, taper)
