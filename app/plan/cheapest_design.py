"""The fabric to build: of the switches, unit sizes and uplinks that do what is asked, those whose parts cost least."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
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
from app.plan.bill_of_materials import LEVELS, Cages, Carried, cages_of, laid_out, media_of, part_counts, price_of
from app.plan.cables import floor_of
from app.plan.cluster import Cluster
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import SwitchPair, designed, designed_together, requested

Floats = NDArray[np.float64]
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
    """A fabric that can be built, and what it costs [USD]; not exact where its cables are those of one like it."""

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
    """The switches to build and their design: the cheapest by its parts that works.

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
        self.designs: dict[tuple[int, int], layouts.Design] = {}

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
        for ports, wanted in self.wanted.items():
            end = begin + len(wanted)
            if designs.reason.shape:
                self.designs[ports] = designs.at(slice(begin, end) if len(wanted) > 1 else begin)
            else:
                self.designs[ports] = designs
            begin = end
        return begin

    def cheapest(self) -> Chosen:
        """See `choose`."""
        choices, _, request, prices = self.asked
        first = choices[self.offered[0][0]]
        if len(self.offered) == 1 and not self.designs[first.ports].reason.shape:
            return first, self.designs[first.ports]
        best = np.inf
        fabrics: dict[tuple[int, int], _Fabrics] = {}
        all_priced: list[_Priced] = []
        floors = [lower_bound(choices[place], least, self.cluster, request, prices) for place, least in self.offered]
        for floor, (place, _) in sorted(zip(floors, self.offered, strict=True)):
            choice = choices[place]
            if floor > best * NEAR:
                break
            if choice.ports not in fabrics:
                fabrics[choice.ports] = _Fabrics(self.designs[choice.ports], self.cluster, request)
            priced = fabrics[choice.ports].priced(choice, prices)
            best = min([best, *(fabric.cost for fabric in priced)])
            all_priced += priced
        if not np.isfinite(best):
            return _unpriced([choices[place] for place, _ in self.offered], all_priced, self.cluster, request)
        near = [fabric for fabric in all_priced if fabric.cost <= best * NEAR]
        near = sorted(near, key=lambda fabric: fabric.cost)[:PRICED_IN_FULL]
        if len(near) > 1:
            full = [
                fabric.cost if fabric.exact else parts_cost(fabric.choice, fabric.design, self.cluster, request, prices)
                for fabric in near
            ]
            return near[int(np.argmin(full))][1:3]
        return near[0][1:3]


class _Fabrics:
    """What switches of so many ports can be built to, by the size of their leaves, and how long its cables are."""

    def __init__(self, designs: layouts.Design, cluster: Cluster, request: DesignRequest) -> None:
        self.cluster = cluster
        self.request = request
        self.lengths: dict[int, dict[str, Floats]] = {}
        self.designs, self.groups = _by_leaves(designs)

    def priced(self, choice: SwitchPair, prices: PriceList) -> list[_Priced]:
        """The cheapest fabrics: of equal leaves, every link at the length that the one of fewest switches needs."""
        if not self.groups:
            return []
        if not self.designs.leaf_switches.shape:  # one fabric in plain numbers: quicker than as an array of one
            lengths = longest(self.designs, choice, self.cluster, self.request, prices.catalog)
            only = _cost_of(self.designs, lengths, choice, self.cluster, self.request, prices)
            return [_Priced(only, choice, self.designs, exact=True)]
        cost = self._of_few_switches(self._cost(choice, prices), choice.radix)
        near = np.argsort(cost, kind="stable")[:PRICED_IN_FULL]
        if np.isfinite(cost[near[0]]):
            near = near[cost[near] <= cost[near[0]] * NEAR]
        else:
            near = np.array([np.argmin(self.designs.switches)])
        alone = {group.start for group in self.groups if group.stop - group.start == 1}
        return [_Priced(float(cost[at]), choice, self.designs.at(int(at)), exact=at in alone) for at in near]

    def _of_few_switches(self, cost: Floats, radix: int) -> Floats:
        """Prices of fabrics [USD]; infinite where the cheapest of a narrower taper needs fewer switches.

        So a wider taper takes no more switches, and no more racks for them, than a narrower one, unless it costs more.
        """
        designs, most = self.designs, np.inf
        if self.request.oversubscription <= 1 or self.request.topology not in (*BY_RAIL, "fat-tree"):
            return cost
        for taper in TAPERS_TRIED:
            if taper < self.request.oversubscription:
                hosts = designs.unit_hosts
                allowed = (hosts <= layouts.down_ports(radix, taper)) & (designs.switches <= most)
                allowed &= designs.leaf_up >= tree.uplinks(hosts, 1, taper, radix)
                cheapest = np.argmin(np.where(allowed, cost, np.inf))
                most = designs.switches[cheapest] if allowed[cheapest] else most
        of_few = np.where(designs.switches <= most, cost, np.inf)
        return of_few if of_few.min() <= cost.min() * NEAR else cost

    def _cost(self, choice: SwitchPair, prices: PriceList) -> Floats:
        """Price of every fabric [USD]; infinite where a part has none."""
        cages = Cages.of(choice, self.cluster, self.request, prices.catalog)
        lengths = (
            (column == length, {level: length})
            for level, column in self._lengths(choice, prices.catalog).items()
            for length in dict.fromkeys(column[column > 0].tolist())
        )
        runs, unreached = media_of(cages, prices, lengths, self.groups[-1].stop)
        cost = _parts(choice, self.designs, cages, runs, self.cluster, self.request, prices)
        return np.asarray(unreached * UNREACHED + cost)

    def _lengths(self, choice: SwitchPair, catalog: Catalog) -> dict[str, Floats]:
        """The longest link of each level of every fabric, in that of fewest switches of its group [m]; 0 for none."""
        rack_units = choice.spine.rack_units or 1
        if rack_units not in self.lengths:
            firsts = [group.start + int(np.argmin(self.designs.switches[group])) for group in self.groups]
            many = [group.stop - group.start for group in self.groups]
            columns = longest_of_all(self.designs.at(firsts), choice, self.cluster, self.request, catalog)
            self.lengths[rack_units] = {level: np.repeat(lengths, many) for level, lengths in columns.items()}
        return self.lengths[rack_units]


def _by_leaves(designs: layouts.Design) -> tuple[layouts.Design, list[slice]]:
    """The fabrics that can be built, an array of them or the only one, and where those of equal leaves are."""
    if not designs.reason.shape:
        return designs, [slice(0, 1)] if designs.reason == layouts.BUILT else []
    groups: dict[tuple[float, ...], dict[tuple[float, ...], int]] = {}
    columns = (
        designs.leaf_switches,
        designs.spine_switches,
        designs.core_switches,
        designs.switch_links,
        designs.tiers,
    )
    sizes = (designs.leaf_down, designs.unit_nodes, designs.reason)
    rows = zip(*(column.tolist() for column in (*sizes, *columns)), strict=True)
    for place, (down, unit, reason, *counts) in enumerate(rows):
        if reason == layouts.BUILT:
            groups.setdefault((down, unit), {}).setdefault(tuple(counts), place)
    ends = list(itertools.accumulate(map(len, groups.values()), initial=0))
    places = [place for group in groups.values() for place in group.values()]
    return designs.at(places), [slice(*pair) for pair in itertools.pairwise(ends)]


def _unpriced(
    choices: Sequence[SwitchPair],
    priced: Sequence[_Priced],
    cluster: Cluster,
    request: DesignRequest,
) -> tuple[SwitchPair, layouts.Design]:
    """Where no price tells: the design of fewest switches, or the one that comes nearest to being one."""
    if priced:
        fewest = min(priced, key=lambda fabric: float(fabric.design.switches))
        return fewest.choice, fewest.design
    plain = [(choice, designed(choice.ports, cluster, request, cluster.nodes)) for choice in choices]
    return min(plain, key=lambda pair: (int(pair[1].reason), -pair[0].radix))


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
        alike = choice.ports, cages, boxes, choice.leaf is choice.spine
        if alike not in best or offer.leaf + offer.spine < best[alike][1].leaf + best[alike][1].spine:
            best[alike] = place, offer
    return tuple(sorted(best.values()))


def _box(switch: Switch, prices: PriceList) -> float:
    """Price of a switch [USD]; infinite where nobody names one."""
    price = prices.switch(switch)
    return price.typical / switch.switches_per_box if price else np.inf


@lru_cache(maxsize=4096)
def _link(cages: Cages, level: str, length: float, prices: PriceList, nothing: float = np.inf) -> float:
    """Price of a link of a level of some length with its ends [USD]; ``nothing`` where no part fits or has a price.

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
        total += price.typical / links if price else 0.0
    return total


def parts_cost(
    choice: SwitchPair, design: layouts.Design, cluster: Cluster, request: DesignRequest, prices: PriceList
) -> float:
    """Price of a design's switches, modules and cables as they would be bought [USD]; infinite where one has none.

    Where no part carries the links of a level, `UNREACHED` stands for them.
    """
    lengths = longest(design, choice, cluster, request, prices.catalog)
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
    design: layouts.Design, choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> dict[str, float]:
    """The longest link of each level that a design has [m]."""
    cabling = laid_out(design, choice, cluster, request, catalog)
    return {level: cabling.longest(level) for level in LEVELS if getattr(design, level) > 0}


def longest_of_all(
    designs: layouts.Design, choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> dict[str, Floats]:
    """The same of an array of designs; 0 where one has no links of a level."""
    by_rail = request.topology == "rail-only" or (request.topology == "rail-optimized" and (designs.tiers > 1).all())
    if not by_rail:
        lengths = [
            longest(designs.at(place), choice, cluster, request, catalog) for place in range(len(designs.reason))
        ]
        return {level: np.array([levels.get(level, 0.0) for levels in lengths]) for level in LEVELS}
    switches = (
        designs.leaf_switches,
        designs.spine_switches,
        designs.core_switches,
        designs.super_core_switches,
    )
    in_a_plane = tuple(many // request.planes for many in switches)
    runs = RailRuns.of(cluster.nodes, designs.unit_nodes, cluster.nics_per_node, in_a_plane, request.management_links)
    floor = floor_of(catalog, cluster.platform.nodes_per_rack)
    columns = runs.longest(floor, floor.switches_per_rack(choice.spine.rack_units or 1))
    return {level: np.where(getattr(designs, level) > 0, lengths, 0.0) for level, lengths in columns.items()}


def _parts(
    choice: SwitchPair,
    design: layouts.Design,
    cages: Cages,
    runs: Carried,
    cluster: Cluster,
    request: DesignRequest,
    prices: PriceList,
) -> Array:
    """Price of the parts of a design, or an array of them, whose links of each level are of some media [USD]."""
    managers = request.management_links * request.planes
    total: Array = 0.0
    for (role, key), many in part_counts(choice, cages, design, cluster.nodes, managers, runs).items():
        if any_(many > 0):
            _, _, price = price_of(role, key, choice, prices)
            total = total + where(many > 0, many * (price.typical if price else np.inf), 0.0)
    return total


def lower_bound(
    choice: SwitchPair, offer: LinkPrices, cluster: Cluster, request: DesignRequest, prices: PriceList
) -> float:
    """The least that a choice of switches can cost [USD].

    A host takes a port of a leaf and a link to it. In a tree of more than one switch every leaf has its uplinks, and
    spines enough for them; where the leaves are more than a spine reaches, cores as well. Where the size of
    a unit is given it is known how far its links reach at least.
    """
    rails, by_rail = cluster.nics_per_node, request.topology == "rail-optimized"
    hosts = cluster.nodes * rails + request.management_links
    if not (by_rail or request.topology == "fat-tree"):
        return request.planes * hosts * (offer.leaf / choice.radix + offer.node_leaf)
    if hosts <= choice.radix:
        return request.planes * (offer.leaf + hosts * offer.node_leaf)
    unit, up = _leaf(choice.radix, request.oversubscription, request.nodes_per_unit or 0 if by_rail else 0)
    leaves = rails * -(-cluster.nodes // unit) if by_rail else -(-hosts // unit)
    given = by_rail and request.oversubscription <= 1 and request.nodes_per_unit
    # With a taper leaves may be smaller, and have one uplink less than their hosts would share.
    even = hosts if request.oversubscription <= 1 else max(int(hosts / request.oversubscription) - leaves, leaves)
    links = leaves * up if given else even
    above, upper_links = -(-links // choice.spine_radix), 0
    if leaves > choice.spine_radix and not (by_rail and request.spine_policy == "rail"):
        spine_down, spine_up = _spine(choice.spine_radix, request.spine_oversubscription)
        spines = -(-links // spine_down)
        upper_links = spines * spine_up
        above = spines + -(-upper_links // choice.spine_radix)
    near, far = offer.node_leaf, offer.leaf_spine
    if given and not request.media:
        cages, slots = Cages.of(choice, cluster, request, prices.catalog), -(-request.management_links // rails)
        floor = floor_of(prices.catalog, cluster.platform.nodes_per_rack)
        reaches = _reaches(unit, cluster.nodes, cluster.nodes + slots, floor)
        near, far = (
            _link(cages, *run, prices, nothing=0.0) for run in zip(("node_leaf", "leaf_spine"), reaches, strict=True)
        )
    cables = hosts * near + links * far + upper_links * offer.spine_core
    return request.planes * (leaves * offer.leaf + above * offer.spine + cables)


@lru_cache(maxsize=64)
def _reaches(unit: int, nodes: int, slots: int, floor: Floor) -> tuple[float, float]:
    """The longest run in the first unit of so many nodes, and from its leaves to the spines beside the middle unit's
    leaves [m]; leaves stand in the middle of their unit, and have room for so many slots.

    Kept: it takes 20 µs, and a dozen choices of switches have units of three sizes.
    """
    units = -(-slots // unit)

    def racks(place: int) -> tuple[int, int]:
        first, last = place * unit, min((place + 1) * unit, nodes) - 1
        return first // floor.nodes_per_rack, max(first, last) // floor.nodes_per_rack

    (_, last), middle = racks(0), sum(racks(units // 2)) // 2
    start, end, across = floor.lengths_between(last // 2, np.array([0, last, middle])).tolist()
    return max(start, end), across


def _leaf(radix: int, oversubscription: float, wished: int) -> tuple[int, int]:
    """Most hosts that a leaf carries where it has uplinks, and how many it has."""
    down = max(int(layouts.down_ports(radix, oversubscription)), 1)
    hosts = min(wished or down, down)
    return hosts, int(tree.uplinks(hosts, 1, oversubscription, radix))


def _spine(radix: int, oversubscription: float) -> tuple[int, int]:
    """Ports down and up of a spine with cores above it."""
    down = max(min(int(layouts.down_ports(radix, oversubscription)), radix - 1), 1)
    return down, max(min(int(down / oversubscription), radix - down), 1)
