"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those that cost least in place.

In place is with the spares of their parts and the building of what they draw: what a fabric adds to the capital.
Parts that cost a little less may draw so much more that their building costs more than they save.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Switch
from app.catalog.load import Catalog
from app.formulas.arrays import Array, where
from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import Floor, RailRuns
from app.formulas.records import but
from app.plan.bill_of_materials import (
    ENDS,
    LEVELS,
    Cages,
    Carried,
    cages_of,
    drawn_by,
    holds_modules,
    laid_out,
    media_of,
    part_counts,
    price_of,
)
from app.plan.cables import floor_of
from app.plan.cluster import Cluster
from app.plan.leaves import BY_RAIL, TAPERS_TRIED, Leaves, leaves_tried
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair, designed, designed_together, requested

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NEAR = 1.01
"""Fabrics that cost so many times the least at most are held against one another, each with its own cables."""
PRICED_IN_FULL = 6
"""Fabrics of which that is done at most."""
UNREACHED = 1e12
"""What stands for links that no part carries [USD]: such a fabric comes last, and by what else it costs."""


@dataclass(frozen=True, eq=False)
class Offers:
    """Choices of switches that are worth pricing, and the least that each needs [USD].

    Attributes:
        places: of each which choice it is.
        leaf, spine: price of a switch.
        ends: the switches, and the cages, that its links end in.
    """

    places: tuple[int, ...]
    leaf: Floats
    spine: Floats
    ends: tuple[tuple[SwitchPair, Cages], ...]


class Priced(NamedTuple):
    """A fabric that can be built, and its cost in place [USD]; not exact where its cables are those of one like it."""

    cost: float
    chosen: Chosen
    exact: bool


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


_KEPT: dict[_Asked, Chosen] = {}
"""What was chosen last: it takes 5 ms, and servers of several GPUs have the same ports."""
_MOST_KEPT = 4096
_LOCK = Lock()


def choose(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> Chosen:
    """The switches to build and their design: the cheapest in place that works.

    Where none has a price, the one with fewest switches; where none works, the one that comes nearest. Switches are
    taken in the order of the least that they can cost, until that is more than the cheapest so far.
    """
    return choose_all([(choices, cluster, request)], prices)[0]


def choose_all(
    asked: Iterable[tuple[tuple[SwitchPair, ...], Cluster, DesignRequest]], prices: PriceList
) -> list[Chosen]:
    """The same for several clusters; designing all that may be built for them takes little longer than for one."""
    keys = [
        _Asked(choices, _Hosts.of(choices[0], cluster, request, prices.catalog), request.fabric, prices)
        for choices, cluster, request in asked
    ]
    chosen = {key: found for key in keys if (found := _KEPT.get(key))}
    for searches in _portions(_Search(*key) for key in dict.fromkeys(keys) if key not in chosen):
        designs, begin = designed_together([request for search in searches for request in search.requests()]), 0
        for search in searches:
            begin = search.take(designs, begin)
        _measure([search.fabrics for search in searches if search.fabrics])
        for search in searches:
            chosen[search.asked] = found = search.cheapest()
            with _LOCK:
                while len(_KEPT) >= _MOST_KEPT:
                    del _KEPT[next(iter(_KEPT))]
                _KEPT[search.asked] = found
    return [chosen[key] for key in keys]


MOST_TOGETHER = 16_384
"""Fabrics that are designed together: a hundred thousand, as the whole catalogue asks, took 150 MB for a moment."""


def _portions(searches: Iterable["_Search"]) -> Iterator[list["_Search"]]:
    """Searches in their order, so many together that they have about as many fabrics as may be designed at once."""
    portion: list[_Search] = []
    fabrics = 0
    for search in searches:
        portion.append(search)
        fabrics += sum(wanted.many for wanted in search.wanted.values())
        if fabrics >= MOST_TOGETHER:
            yield portion
            portion, fabrics = [], 0
    if portion:
        yield portion


class _Search:
    """The fabrics that can be built for one cluster of one choice of switches or another."""

    def __init__(
        self, choices: tuple[SwitchPair, ...], hosts: _Hosts, request: DesignRequest, prices: PriceList
    ) -> None:
        self.asked = _Asked(choices, hosts, request, prices)
        self.cluster = hosts.cluster
        self.offered = offers(
            choices, prices, self.cluster.platform.key, request.scale_out, request.planes, request.media or ""
        )
        self.wanted = {
            choices[place].ports: leaves_tried(choices[place].radix, self.cluster, request)
            for place in self.offered.places
        }

    def requests(self) -> list[layouts.FabricRequest]:
        """What to design: for switches of so many ports, leaves of so many hosts and uplinks."""
        request = self.asked.request
        made = []
        for ports, wanted in self.wanted.items():
            changes: dict[str, Any] = {"oversubscription": wanted.taper}
            if wanted.many == 1:
                changes = {"oversubscription": float(wanted.taper[0])}
            elif request.topology == "fat-tree":
                changes |= {"uplinks": wanted.up, "leaf_hosts": wanted.hosts}
            elif request.topology in BY_RAIL:
                units = np.where(wanted.hosts > 0, wanted.hosts, request.nodes_per_unit or 0)
                changes |= {"uplinks": wanted.up, "nodes_per_unit": units}
            made.append(requested(ports, self.cluster, request)._replace(**changes))
        return made

    def take(self, designs: layouts.Design, begin: int) -> int:
        """Take what was designed of `requests` from so many on; where those of the next one begin."""
        _, _, request, prices = self.asked
        end = begin + sum(wanted.many for wanted in self.wanted.values())
        designs = (
            designs.at(slice(begin, end))
            if designs.reason.shape
            else layouts.Design(*(np.array([field]) for field in designs))
        )
        self.fabrics = None
        if len(self.offered.places) > 1 or end - begin > 1:
            heights = {choices.height for choices in self.asked.choices}
            self.fabrics = _Fabrics(designs, self.wanted, heights, self.cluster, request, prices)
        else:
            self.only = designs.at(0)
        return end

    def cheapest(self) -> Chosen:
        """See `choose`."""
        choices, fabrics = self.asked.choices, self.fabrics
        if fabrics is None:
            return Chosen(choices[self.offered.places[0]], self.only)
        best = np.inf
        all_priced: list[Priced] = []
        for least, place in sorted(fabrics.least(choices, self.offered)):
            if least > best * NEAR:
                break
            priced = fabrics.priced(choices[place])
            best = min([best, *(fabric.cost for fabric in priced)])
            all_priced += priced
        if not np.isfinite(best):
            return self._unpriced(all_priced)
        near = [fabric for fabric in all_priced if fabric.cost <= best * NEAR]
        near = sorted(near, key=lambda fabric: (fabric.cost, fabric.chosen.design.switches))[:PRICED_IN_FULL]
        if len(near) > 1:
            _, _, request, prices = self.asked
            near = [
                fabric if fabric.exact else in_full(fabric.chosen, self.cluster, request, prices) for fabric in near
            ]
        return min(near, key=lambda fabric: (fabric.cost, float(fabric.chosen.design.switches))).chosen

    def _unpriced(self, priced: Sequence[Priced]) -> Chosen:
        """Where no price tells: the design of fewest switches, or the one that comes nearest to being one."""
        if priced:
            return min((fabric.chosen for fabric in priced), key=lambda chosen: float(chosen.design.switches))
        choices, _, request, _ = self.asked
        offered = [choices[place] for place in self.offered.places]
        plain = [
            Chosen(choice, designed(choice.ports, self.cluster, request, self.cluster.nodes)) for choice in offered
        ]
        return min(plain, key=lambda chosen: (int(chosen.design.reason), -chosen.choice.radix))


class _Fabrics:
    """What can be built for a cluster of switches of some ports or others, and how long its cables are.

    Attributes:
        designs, places: the fabrics, those of equal ports and leaves side by side, and how many were tried before.
        rows: where those of some ports are.
        group, begins, firsts: the group of equal leaves that each belongs to, and of each group the fabric of fewest
            switches, which it begins with.
        by_rail: of which of these the longest links are found together with others'.
        heights, lengths: their longest links of each level [m], for each height of the switches above; 0 for none.
    """

    def __init__(
        self,
        designs: layouts.Design,
        wanted: Mapping[tuple[int, int], Leaves],
        heights: Collection[int],
        cluster: Cluster,
        request: DesignRequest,
        prices: PriceList,
    ) -> None:
        self.cluster = cluster
        self.request = request
        self.prices = prices
        self.floor = floor_of(prices.catalog, cluster.platform.nodes_per_rack)
        ports = np.repeat(np.arange(len(wanted)), [tried.many for tried in wanted.values()])
        self.places, self.group, self.begins = _by_leaves(designs, ports)
        self.designs = designs.at(self.places)
        self.firsts = self.designs.at(self.begins)
        ends = np.searchsorted(ports[self.places], np.arange(len(wanted) + 1)).tolist()
        self.rows = {pair: slice(*ends[place : place + 2]) for place, pair in enumerate(wanted)}
        rails = {"rail-optimized": 1, "rail-only": 0}
        self.by_rail = self.firsts.tiers > rails.get(request.topology, layouts.MOST_TIERS)
        levels = [level for level in LEVELS if (getattr(self.firsts, level) > 0).any()]
        self.heights = {height: place for place, height in enumerate(sorted(heights))}
        self.lengths = {level: np.zeros((len(heights), len(self.begins))) for level in levels}
        self._found: set[tuple[int, tuple[int, int]]] = set()

    def runs(self) -> RailRuns:
        """What the longest links by rail depend on."""
        some = self.firsts.at(self.by_rail)
        above = (some.leaf_switches, some.spine_switches, some.core_switches, some.super_core_switches)
        switches = tuple(many // self.request.planes for many in above)
        nodes, rails = self.cluster.nodes, self.cluster.nics_per_node
        return RailRuns.of(nodes, some.unit_nodes, rails, switches, self.request.management_links)

    def least(self, choices: Sequence[SwitchPair], offers: Offers) -> Iterator[tuple[float, int]]:
        """The least that a fabric of each choice on offer costs [USD], and which choice it is: no cable and no module
        is rounded up to a whole one.

        Links that are not by rail are taken to be short: it takes long to find how long they are.
        """
        offered = [choices[place] for place in offers.places]
        tried = [self.rows[choice.ports] for choice in offered]
        counts = np.array([rows.stop - rows.start for rows in tried])
        begins = np.cumsum(counts) - counts
        offer = np.repeat(np.arange(len(tried)), counts)
        row = np.arange(len(offer)) + np.repeat([rows.start for rows in tried] - begins, counts)
        height = np.array([self.heights[choice.height] for choice in offered])[offer]
        designs, group = self.designs, self.group[row]
        leaves = designs.leaf_switches[row]
        above = designs.switches[row] - leaves
        total = leaves * offers.leaf[offer] + np.where(above > 0, above * offers.spine[offer], 0.0)
        for level, lengths in self.lengths.items():
            sold = np.searchsorted(self.floor.lengths, np.where(self.by_rail[group], lengths[height, group], 0.0))
            prices = _link_prices(offers.ends, level, self.floor.lengths, self.prices)
            total += getattr(designs, level)[row] * prices[offer, sold]
        some = counts > 0
        least = np.full(len(tried), np.inf)
        if some.any():
            least[some] = np.minimum.reduceat(total, begins[some])
        return zip(least.tolist(), offers.places, strict=True)

    def priced(self, choice: SwitchPair) -> list[Priced]:
        """The cheapest fabrics: of equal leaves, every link at the length that the one of fewest switches needs."""
        rows = self.rows[choice.ports]
        many = rows.stop - rows.start
        if many == 1:  # in plain numbers: quicker than as an array of one
            design = self.designs.at(rows.start)
            lengths = {
                level: float(column[0]) for level, column in self._lengths(choice).items() if getattr(design, level) > 0
            }
            only = _cost_of(design, lengths, choice, self.cluster, self.request, self.prices)
            return [Priced(only, Chosen(choice, design, lengths), exact=True)]
        if not many:
            return []
        designs = self.designs.at(rows)
        cost = self._of_few_switches(self._cost(choice, designs), designs, choice.radix)
        near = np.lexsort((self.places[rows], designs.switches, cost))[:PRICED_IN_FULL]
        if np.isfinite(cost[near[0]]):
            near = near[cost[near] <= cost[near[0]] * NEAR]
        else:
            near = np.array([np.argmin(designs.switches)])
        own = self.begins[self.group[rows]] == np.arange(rows.start, rows.stop)
        columns = self._lengths(choice)
        found = []
        for at in near.tolist():
            lengths = {level: float(column[at]) for level, column in columns.items() if column[at] > 0}
            chosen = Chosen(choice, designs.at(at), lengths if own[at] else None)
            found.append(Priced(float(cost[at]), chosen, exact=bool(own[at])))
        return found

    def _of_few_switches(self, cost: Floats, designs: layouts.Design, radix: int) -> Floats:
        """Prices of fabrics [USD]; infinite where the cheapest of a narrower taper needs fewer switches.

        So a wider taper takes no more switches, and no more racks for them, than a narrower one, unless it costs more.
        """
        if self.request.oversubscription <= 1 or self.request.topology not in (*BY_RAIL, "fat-tree"):
            return cost
        most = np.inf
        for taper in TAPERS_TRIED:
            if taper < self.request.oversubscription:
                hosts = designs.unit_hosts
                allowed = (hosts <= layouts.down_ports(radix, taper)) & (designs.switches <= most)
                allowed &= designs.leaf_up >= tree.uplinks(hosts, 1, taper, radix)
                cheapest = np.argmin(np.where(allowed, cost, np.inf))
                most = designs.switches[cheapest] if allowed[cheapest] else most
        of_few = np.where(designs.switches <= most, cost, np.inf)
        return of_few if of_few.min() <= cost.min() * NEAR else cost

    def _cost(self, choice: SwitchPair, designs: layouts.Design) -> Floats:
        """Price of every fabric of some switches [USD]; infinite where a part has none."""
        cages = Cages.of(choice, self.cluster, self.request, self.prices.catalog)
        lengths = (
            (column == length, {level: length})
            for level, column in self._lengths(choice).items()
            for length in dict.fromkeys(column[column > 0].tolist())
        )
        runs, unreached = media_of(cages, self.prices, lengths, len(designs.reason))
        cost = _parts(choice, designs, cages, runs, self.cluster, self.request, self.prices)
        return np.asarray(unreached * UNREACHED + cost)

    def _lengths(self, choice: SwitchPair) -> dict[str, Floats]:
        """The longest link of each level of the fabrics of some switches [m], as in that of fewest switches with equal
        leaves; 0 for none."""
        group, height = self.group[self.rows[choice.ports]], self.heights[choice.height]
        if (choice.height, choice.ports) not in self._found:
            self._found.add((choice.height, choice.ports))
            for place in range(group[0], group[-1] + 1):
                if not self.by_rail[place]:
                    first = self.firsts.at(place)
                    found = longest(first, choice.height, self.cluster, self.request, self.prices.catalog)
                    for level, length in found.items():
                        self.lengths[level][height, place] = length
        return {level: lengths[height, group] for level, lengths in self.lengths.items()}


def _measure(tried: Iterable[_Fabrics]) -> None:
    """Find how long the longest links by rail are: of all fabrics on a floor at once, which takes little longer."""
    batches: dict[Floor, list[tuple[_Fabrics, RailRuns]]] = {}
    for fabrics in tried:
        if fabrics.by_rail.any():
            batches.setdefault(fabrics.floor, []).append((fabrics, fabrics.runs()))
    for floor, batch in batches.items():
        heights = sorted({height for fabrics, _ in batch for height in fabrics.heights})
        per_rack = np.array([floor.switches_per_rack(height) for height in heights])
        runs = RailRuns(*map(np.concatenate, zip(*(runs for _, runs in batch), strict=True)))
        found = runs.longest(floor, per_rack[:, None, None])
        begin = 0
        for fabrics, its in batch:
            end = begin + len(its.units)
            places = [heights.index(height) for height in fabrics.heights]
            for level, lengths in fabrics.lengths.items():
                has_some = getattr(fabrics.firsts, level)[fabrics.by_rail] > 0
                lengths[:, fabrics.by_rail] = np.where(has_some, found[level][places, begin:end], 0.0)
            begin = end


def _by_leaves(designs: layouts.Design, ports: Integers) -> tuple[Integers, Integers, Integers]:
    """Places of the fabrics that can be built, of several alike the first, those of equal ports and leaves side by
    side, fewest switches first; the group of such fabrics that each belongs to, and where each group begins."""
    built = np.flatnonzero(designs.reason == layouts.BUILT)
    sizes = (ports, designs.leaf_down, designs.unit_nodes)
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
    begins, new = np.any(differs[: len(sizes)], axis=0), np.any(differs, axis=0)
    return built[order[new]], np.cumsum(begins[new]) - 1, np.flatnonzero(begins[new])


@lru_cache(maxsize=1024)
def offers(
    choices: tuple[SwitchPair, ...], prices: PriceList, platform: str, scale_out: str, planes: int, wanted: str = ""
) -> Offers:
    """The least that the parts of every choice cost; of equal ports and cages the cheaper choice alone.

    Kept: it takes a millisecond, the same for every size of a cluster.
    """
    best: dict[Any, tuple[int, float, float, Cages]] = {}
    for place, choice in enumerate(choices):
        cages = but(cages_of(choice, prices.catalog, platform, scale_out, planes), wanted=wanted)
        leaf, spine = _box(choice.leaf, prices), _box(choice.spine, prices)
        boxes = (choice.leaf.switches_per_box, choice.spine.switches_per_box, choice.spine.rack_units)
        held = holds_modules(choice.leaf), holds_modules(choice.spine)
        alike = choice.ports, cages, boxes, held, choice.leaf is choice.spine
        if alike not in best or leaf + spine < best[alike][1] + best[alike][2]:
            best[alike] = place, leaf, spine, cages
    kept = sorted(best.values(), key=lambda offer: offer[0])
    ends = tuple((choices[place], cages) for place, _, _, cages in kept)
    leaves, spines = (np.array([offer[part] for offer in kept]) for part in (1, 2))
    return Offers(tuple(place for place, *_ in kept), leaves, spines, ends)


def _box(switch: Switch, prices: PriceList) -> float:
    """Price of a switch in place [USD]; infinite where nobody names one."""
    most = switch.maximum_power or switch.power
    return prices.in_place(prices.switch(switch), most.typical if most else 0.0) / switch.switches_per_box


@lru_cache(maxsize=1024)
def _link_prices(
    ends: tuple[tuple[SwitchPair, Cages], ...], level: str, lengths: tuple[float, ...], prices: PriceList
) -> Floats:
    """The least that a link of a level costs in place with its ends [USD]: between each of some switches, where it is
    as long as each of these.

    Kept: designs of other sizes need the same few.
    """
    return np.array([[_link_price(*each, level, length, prices) for length in lengths] for each in ends])


def _link_price(choice: SwitchPair, cages: Cages, level: str, length: float, prices: PriceList) -> float:
    """Price of a link of a level of some length in place, with its ends [USD]; 0 where no part fits or has a price."""
    medium = cages.medium(prices, level, length)
    if medium is None:
        return 0.0
    near, far = cages.ends(level)
    parts = [
        (f"cable {level}", medium.cable, cages.per_cable(level, medium)),
        *(
            (f"{tier} switch module", module, cage[1])
            for tier, module, cage in zip(ENDS[level], (medium.near, medium.far), (near, far), strict=True)
            if module
        ),
    ]
    if any(prices.optic(optic) is None for _, optic, _ in parts):
        return 0.0
    return sum(_in_place(role, optic.key, choice, prices) / links for role, optic, links in parts)


def in_full(chosen: Chosen, cluster: Cluster, request: DesignRequest, prices: PriceList) -> Priced:
    """A fabric with cables of its own, and the price of its switches, modules and cables in place [USD]; infinite where
    one has none.

    In place: with the spares of them and the building of what they draw.

    Where no part carries the links of a level, `UNREACHED` stands for them.
    """
    lengths = longest(chosen.design, chosen.choice.height, cluster, request, prices.catalog)
    cost = _cost_of(chosen.design, lengths, chosen.choice, cluster, request, prices)
    return Priced(cost, chosen._replace(lengths=lengths), exact=True)


def _cost_of(
    design: layouts.Design,
    lengths: Mapping[str, float],
    choice: SwitchPair,
    cluster: Cluster,
    request: DesignRequest,
    prices: PriceList,
) -> float:
    """Price of a design's parts where its longest links of each level are so long [USD]; see `in_full`."""
    cages = Cages.of(choice, cluster, request, prices.catalog)
    media = {level: cages.medium(prices, level, length) for level, length in lengths.items()}
    runs = {level: ((medium, True),) for level, medium in media.items() if medium}
    unreached = UNREACHED * (len(lengths) - len(runs))
    return unreached + float(_parts(choice, design, cages, runs, cluster, request, prices))


def longest(
    design: layouts.Design, height: int, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> dict[str, float]:
    """The longest link of each level that a design has [m], where the switches above its leaves are so high."""
    cabling = laid_out(design, height, cluster, request, catalog)
    return {level: cabling.longest(level) for level in LEVELS if getattr(design, level) > 0}


def _parts(
    choice: SwitchPair,
    design: layouts.Design,
    cages: Cages,
    runs: Carried,
    cluster: Cluster,
    request: DesignRequest,
    prices: PriceList,
) -> Array:
    """Price of the parts of a design, or an array of them, in place, whose links of each level are of some media."""
    managers = request.management_links * request.planes
    total: Array = 0.0
    for (role, key), many in part_counts(choice, cages, design, cluster.nodes, managers, runs).items():
        total = total + where(many > 0, many * _in_place(role, key, choice, prices), 0.0)
    return total


@lru_cache(maxsize=1024)
def _in_place(role: str, key: str, choice: SwitchPair, prices: PriceList) -> float:
    """Price of a part in place [USD]. Kept: it takes 8 µs, and fabrics of any size are made of the same few parts."""
    _, _, price = price_of(role, key, choice, prices)
    return prices.in_place(price, drawn_by(role, key, choice, prices.catalog))
