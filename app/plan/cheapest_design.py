"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those that cost least in place.

In place is with the spares of their parts and the building of what they draw: what a fabric adds to the capital.
Parts that cost a little less may draw so much more that their building costs more than they save.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Switch
from app.catalog.load import Catalog
from app.formulas.arrays import Array, any_, where
from app.formulas.fabric import layouts, tree
from app.formulas.fabric.cabling import Floor, RailRuns
from app.formulas.records import but
from app.plan.bill_of_materials import (
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
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import SwitchPair, designed, designed_together, requested

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BY_RAIL = ("rail-optimized", "rail-only")
GROUPS_TRIED = 32
"""Numbers of units are tried in steps of this share of as many as there would be without a taper."""
SIZES_TRIED = 128
"""Hosts of a unit are tried in steps of this share of those of a whole one: of switches up to 510 ports all."""
UPLINKS_TRIED = 64
"""Uplinks of a leaf are tried in steps of this share of those that may be tried."""
MORE_UNITS = 2
"""More units than the fewest that share hosts out: a cluster costs no more than one that needs a unit more."""
NEAR = 1.01
"""Fabrics that cost so many times the least at most are held against one another, each with its own cables."""
PRICED_IN_FULL = 6
"""Fabrics of which that is done at most."""
UNREACHED = 1e12
"""What stands for links that no part carries [USD]: such a fabric comes last, and by what else it costs."""
TAPERS_TRIED = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
"""Tapers that networks are tried with as well where a wider one is allowed."""


class Leaves(NamedTuple):
    """Leaves to try: their hosts, their links up, 0 for as many, and as few, as the taper has, and the taper."""

    hosts: int
    up: int
    taper: float


class LinkPrices(NamedTuple):
    """The least that a choice of switches needs [USD]: a switch, and a link of each level with its ends."""

    leaf: float
    spine: float
    node_leaf: float
    leaf_spine: float
    spine_core: float
    core_super_core: float
    peer: float


class _Priced(NamedTuple):
    """A fabric that can be built, and its cost in place [USD]; not exact where its cables are those of one like it."""

    cost: float
    choice: SwitchPair
    design: layouts.Design
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


Chosen = tuple[SwitchPair, layouts.Design]
_KEPT: dict[_Asked, Chosen] = {}
"""What was chosen last: it takes 5 ms, and servers of several GPUs have the same ports."""
_MOST_KEPT = 4096
_LOCK = Lock()


def choose(
    choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList
) -> tuple[SwitchPair, layouts.Design]:
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
    searches = [_Search(*key) for key in dict.fromkeys(keys) if key not in chosen]
    if searches:
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
            choices[place].ports: _leaves_tried(choices[place].radix, self.cluster, request)
            for place, _ in self.offered
        }

    def requests(self) -> list[layouts.FabricRequest]:
        """What to design: for switches of so many ports, leaves of so many hosts and uplinks."""
        request = self.asked.request
        made = []
        for ports, wanted in self.wanted.items():
            hosts, up, tapers = np.array(wanted).T if len(wanted) > 1 else wanted[0]
            changes = {"oversubscription": tapers}
            if len(wanted) > 1:
                changes["uplinks"] = up
                if request.topology == "fat-tree":
                    changes["leaf_hosts"] = hosts
                elif request.topology in BY_RAIL:
                    changes["nodes_per_unit"] = np.where(hosts > 0, hosts, request.nodes_per_unit or 0)
            made.append(requested(ports, self.cluster, request)._replace(**changes))
        return made

    def take(self, designs: layouts.Design, begin: int) -> int:
        """Take what was designed of `requests` from so many on; where those of the next one begin."""
        _, _, request, prices = self.asked
        end = begin + sum(map(len, self.wanted.values()))
        designs = (
            designs.at(slice(begin, end))
            if designs.reason.shape
            else layouts.Design(*(np.array([field]) for field in designs))
        )
        self.fabrics = None
        if len(self.offered) > 1 or end - begin > 1:
            heights = {choices.height for choices in self.asked.choices}
            self.fabrics = _Fabrics(designs, self.wanted, heights, self.cluster, request, prices)
        else:
            self.only = designs.at(0)
        return end

    def cheapest(self) -> Chosen:
        """See `choose`."""
        choices, _, request, prices = self.asked
        fabrics = self.fabrics
        if fabrics is None:
            return choices[self.offered[0][0]], self.only
        best = np.inf
        all_priced: list[_Priced] = []
        for least, place in sorted((fabrics.least(choices[place], offer), place) for place, offer in self.offered):
            if least > best * NEAR:
                break
            priced = fabrics.priced(choices[place])
            best = min([best, *(fabric.cost for fabric in priced)])
            all_priced += priced
        if not np.isfinite(best):
            return self._unpriced(all_priced)
        near = [fabric for fabric in all_priced if fabric.cost <= best * NEAR]
        near = sorted(near, key=lambda fabric: (fabric.cost, fabric.design.switches))[:PRICED_IN_FULL]
        if len(near) == 1:
            return near[0][1:3]
        full = [
            fabric.cost if fabric.exact else parts_cost(fabric.choice, fabric.design, self.cluster, request, prices)
            for fabric in near
        ]
        fewest = min(zip(full, [float(fabric.design.switches) for fabric in near], range(len(near)), strict=True))
        return near[fewest[-1]][1:3]

    def _unpriced(self, priced: Sequence[_Priced]) -> Chosen:
        """Where no price tells: the design of fewest switches, or the one that comes nearest to being one."""
        if priced:
            fewest = min(priced, key=lambda fabric: float(fabric.design.switches))
            return fewest.choice, fewest.design
        choices, _, request, _ = self.asked
        offered = [choices[place] for place, _ in self.offered]
        plain = [(choice, designed(choice.ports, self.cluster, request, self.cluster.nodes)) for choice in offered]
        return min(plain, key=lambda pair: (int(pair[1].reason), -pair[0].radix))


class _Fabrics:
    """What can be built for a cluster of switches of some ports or others, and how long its cables are.

    Attributes:
        designs, places: the fabrics, those of equal ports and leaves side by side, and how many were tried before.
        rows: where those of some ports are.
        group, firsts: the group of equal leaves that each belongs to, and of each group the fabric of fewest switches.
        by_rail: of which of these the longest links are found together with others'.
        lengths: their longest links of each level [m], by the height of the switches above; 0 for none.
    """

    def __init__(
        self,
        designs: layouts.Design,
        wanted: Mapping[tuple[int, int], Sequence[Leaves]],
        heights: Collection[int],
        cluster: Cluster,
        request: DesignRequest,
        prices: PriceList,
    ) -> None:
        self.cluster = cluster
        self.request = request
        self.prices = prices
        self.floor = floor_of(prices.catalog, cluster.platform.nodes_per_rack)
        ports = np.repeat(np.arange(len(wanted)), [len(tried) for tried in wanted.values()])
        self.places, self.group, firsts = _by_leaves(designs, ports)
        self.designs = designs.at(self.places)
        self.firsts = self.designs.at(firsts)
        ends = np.searchsorted(ports[self.places], np.arange(len(wanted) + 1)).tolist()
        self.rows = {pair: slice(*ends[place : place + 2]) for place, pair in enumerate(wanted)}
        rails = {"rail-optimized": 1, "rail-only": 0}
        self.by_rail = self.firsts.tiers > rails.get(request.topology, layouts.MOST_TIERS)
        levels = [level for level in LEVELS if (getattr(self.firsts, level) > 0).any()]
        self.lengths = {height: {level: np.zeros(len(firsts)) for level in levels} for height in heights}
        self._found: set[tuple[int, tuple[int, int]]] = set()

    def runs(self) -> RailRuns:
        """What the longest links by rail depend on."""
        some = self.firsts.at(self.by_rail)
        above = (some.leaf_switches, some.spine_switches, some.core_switches, some.super_core_switches)
        switches = tuple(many // self.request.planes for many in above)
        nodes, rails = self.cluster.nodes, self.cluster.nics_per_node
        return RailRuns.of(nodes, some.unit_nodes, rails, switches, self.request.management_links)

    def least(self, choice: SwitchPair, offer: LinkPrices) -> float:
        """The least that a fabric of some switches costs [USD]: no cable and no module is rounded up to a whole one.

        Links that are not by rail are taken to be short: it takes long to find how long they are.
        """
        rows, designs, sold = self.rows[choice.ports], self.designs, self.floor.lengths
        if rows.start == rows.stop:
            return np.inf
        cages = Cages.of(choice, self.cluster, self.request, self.prices.catalog)
        leaves, group = designs.leaf_switches[rows], self.group[rows]
        above = designs.switches[rows] - leaves
        total = leaves * offer.leaf + np.where(above > 0, above * offer.spine, 0.0)
        measured = self.by_rail[group[0] : group[-1] + 1].all()
        for level, lengths in self.lengths[choice.height].items():
            price: Array = getattr(offer, level)
            if measured:
                price = _link_prices(cages, level, sold, self.prices)[np.searchsorted(sold, lengths[group])]
            total = total + getattr(designs, level)[rows] * price
        return float(total.min())

    def priced(self, choice: SwitchPair) -> list[_Priced]:
        """The cheapest fabrics: of equal leaves, every link at the length that the one of fewest switches needs."""
        rows = self.rows[choice.ports]
        many = rows.stop - rows.start
        if many == 1:  # in plain numbers: quicker than as an array of one
            design = self.designs.at(rows.start)
            lengths = {
                level: float(column[0]) for level, column in self._lengths(choice).items() if getattr(design, level) > 0
            }
            only = _cost_of(design, lengths, choice, self.cluster, self.request, self.prices)
            return [_Priced(only, choice, design, exact=True)]
        if not many:
            return []
        designs = self.designs.at(rows)
        cost = self._of_few_switches(self._cost(choice, designs), designs, choice.radix)
        near = np.lexsort((self.places[rows], designs.switches, cost))[:PRICED_IN_FULL]
        if np.isfinite(cost[near[0]]):
            near = near[cost[near] <= cost[near[0]] * NEAR]
        else:
            near = np.array([np.argmin(designs.switches)])
        alone = np.bincount(self.group)[self.group[rows]] == 1
        return [_Priced(float(cost[at]), choice, designs.at(at), exact=bool(alone[at])) for at in near.tolist()]

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
        group, lengths = self.group[self.rows[choice.ports]], self.lengths[choice.height]
        if (choice.height, choice.ports) not in self._found:
            self._found.add((choice.height, choice.ports))
            for place in range(group[0], group[-1] + 1):
                if not self.by_rail[place]:
                    first = self.firsts.at(place)
                    found = longest(first, choice.height, self.cluster, self.request, self.prices.catalog)
                    for level, length in found.items():
                        lengths[level][place] = length
        return {level: column[group] for level, column in lengths.items()}


def _measure(tried: Iterable[_Fabrics]) -> None:
    """Find how long the longest links by rail are: of all fabrics on a floor at once, which takes little longer."""
    batches: dict[Floor, list[tuple[_Fabrics, RailRuns]]] = {}
    for fabrics in tried:
        if fabrics.by_rail.any():
            batches.setdefault(fabrics.floor, []).append((fabrics, fabrics.runs()))
    for floor, batch in batches.items():
        heights = sorted({height for fabrics, _ in batch for height in fabrics.lengths})
        per_rack = np.array([floor.switches_per_rack(height) for height in heights])
        runs = RailRuns(*map(np.concatenate, zip(*(runs for _, runs in batch), strict=True)))
        found = runs.longest(floor, per_rack[:, None, None])
        begin = 0
        for fabrics, its in batch:
            end = begin + len(its.units)
            for height, columns in fabrics.lengths.items():
                for level, lengths in columns.items():
                    its_lengths = found[level][heights.index(height), begin:end]
                    has_some = getattr(fabrics.firsts, level)[fabrics.by_rail] > 0
                    lengths[fabrics.by_rail] = np.where(has_some, its_lengths, 0.0)
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


def _leaves_tried(radix: int, cluster: Cluster, request: DesignRequest) -> tuple[Leaves, ...]:
    """Hosts of a leaf and its uplinks that are tried, the taper's own first.

    Without a taper whole leaves, or as few units as there can be and a few more with their hosts shared out evenly.
    With one, every unit that needs as few leaves as the taper allows, as many as there would be without it, or some
    number between, and from the fewest uplinks that the taper allows to as many half as many more; without tiers,
    narrower tapers. What a narrower taper may be built of a wider one may be too, so that it never costs more.
    """
    taper, by_rail = request.oversubscription, request.topology in BY_RAIL
    if not (by_rail or request.topology == "fat-tree"):
        return tuple(Leaves(0, 0, ratio) for ratio in (taper, *(ratio for ratio in TAPERS_TRIED if ratio < taper)))
    rails, links = max(cluster.nics_per_node, 1), request.management_links
    hosts = cluster.nodes + -(-links // rails) if by_rail else cluster.nodes * rails + links
    if taper <= 1:
        whole = max(int(layouts.down_ports(radix, 1.0)), 1)
        if hosts <= radix or (by_rail and request.nodes_per_unit):
            return (Leaves(0, 0, taper),)
        return (Leaves(0, 0, taper), *(Leaves(size, size, taper) for size in _smaller_units(hosts, whole)))
    mosts = [max(int(layouts.down_ports(radix, ratio)), 1) for ratio in (taper, *TAPERS_TRIED) if ratio <= taper]
    most, whole = mosts[0], mosts[1]
    if by_rail and request.nodes_per_unit:
        sizes = list(dict.fromkeys(min(request.nodes_per_unit, leaf_hosts) for leaf_hosts in mosts))
    else:
        fewest, many = -(-hosts // most), -(-hosts // whole)
        groups = [
            *range(many, fewest, -max(many // GROUPS_TRIED, 1)),
            *(-(-hosts // leaf_hosts) for leaf_hosts in mosts),
        ]
        even = (-(-hosts // group) for group in groups)
        sizes = list(dict.fromkeys([*mosts, *even, *_smaller_units(hosts, whole)]))
    tried = [Leaves(0, 0, taper)]
    for size in sizes:
        least = int(tree.uplinks(size, 1, taper, radix))
        most_up = min(size, radix - size, least + max(least // 2, 4))
        step = max((most_up - least) // UPLINKS_TRIED, 1)
        tried += [Leaves(size, up, taper) for up in range(least, max(most_up, least) + 1, step)]
    return tuple(tried)


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


@lru_cache(maxsize=1024)
def offers(
    choices: tuple[SwitchPair, ...], prices: PriceList, platform: str, scale_out: str, planes: int, wanted: str = ""
) -> tuple[tuple[int, LinkPrices], ...]:
    """The least that the parts of every choice cost, by its place; of equal ports and cages the cheaper choice alone.

    Kept: it takes a millisecond, the same for every size of a cluster.
    """
    best: dict[Any, tuple[int, LinkPrices]] = {}
    for place, choice in enumerate(choices):
        cages = but(cages_of(choice, prices.catalog, platform, scale_out, planes), wanted=wanted)
        least = (_link(cages, level, 0.0, prices, nothing=0.0) for level in LEVELS)
        offer = LinkPrices(_box(choice.leaf, prices), _box(choice.spine, prices), *least)
        boxes = (choice.leaf.switches_per_box, choice.spine.switches_per_box, choice.spine.rack_units)
        held = holds_modules(choice.leaf), holds_modules(choice.spine)
        alike = choice.ports, cages, boxes, held, choice.leaf is choice.spine
        if alike not in best or offer.leaf + offer.spine < best[alike][1].leaf + best[alike][1].spine:
            best[alike] = place, offer
    return tuple(sorted(best.values()))


def _box(switch: Switch, prices: PriceList) -> float:
    """Price of a switch in place [USD]; infinite where nobody names one."""
    most = switch.maximum_power or switch.power
    return prices.in_place(prices.switch(switch), most.typical if most else 0.0) / switch.switches_per_box


@lru_cache(maxsize=1024)
def _link_prices(cages: Cages, level: str, lengths: tuple[float, ...], prices: PriceList) -> Floats:
    """The least that a link of a level costs with its ends where it is as long as one of these [USD].

    Kept: designs of other sizes need the same few.
    """
    return np.array([_link(cages, level, length, prices, nothing=0.0) for length in lengths])


@lru_cache(maxsize=4096)
def _link(cages: Cages, level: str, length: float, prices: PriceList, nothing: float = np.inf) -> float:
    """Price of a link of a level of some length with its ends and spares of them, but without the building of what they
    draw [USD]; ``nothing`` where no part fits or has a price.

    Kept: it takes 20 µs, and designs of other sizes need the same few.
    """
    medium = cages.medium(prices, level, length)
    if medium is None:
        return nothing
    total = 0.0
    near, far = cages.ends(level)
    for optic, links in ((medium.cable, cages.per_cable(level, medium)), (medium.near, near[1]), (medium.far, far[1])):
        price = prices.optic(optic) if optic else None
        if optic and price is None:
            return nothing
        total += prices.in_place(price) / links if price else 0.0
    return total


def parts_cost(
    choice: SwitchPair, design: layouts.Design, cluster: Cluster, request: DesignRequest, prices: PriceList
) -> float:
    """Price of a design's switches, modules and cables in place [USD]; infinite where one has none.

    In place: with the spares of them and the building of what they draw.

    Where no part carries the links of a level, `UNREACHED` stands for them.
    """
    lengths = longest(design, choice.height, cluster, request, prices.catalog)
    return _cost_of(design, lengths, choice, cluster, request, prices)


def _cost_of(
    design: layouts.Design,
    lengths: Mapping[str, float],
    choice: SwitchPair,
    cluster: Cluster,
    request: DesignRequest,
    prices: PriceList,
) -> float:
    """Price of a design's parts where its longest links of each level are so long [USD]; see `parts_cost`."""
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
        if any_(many > 0):
            _, _, price = price_of(role, key, choice, prices)
            each = prices.in_place(price, drawn_by(role, key, choice, prices.catalog))
            total = total + where(many > 0, many * each, 0.0)
    return total
