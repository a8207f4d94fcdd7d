"""Which modules and cables carry a link, the floor that they cross, and the list of them from point to point."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from app.catalog.entries import Optic, Switch
from app.catalog.load import Catalog
from app.formulas.fabric import direct, layouts
from app.formulas.fabric.cabling import Cabling, Counts, Floor
from app.plan.prices import PriceList

CABLES = ("dac", "acc", "aec", "aoc")
KINDS: Mapping[str, tuple[str, ...]] = {
    "copper": ("dac", "acc"),
    "aec": ("aec",),
    "aoc": ("aoc",),
    "fibre": ("dsp",),
    "lro": ("lro",),
    "lpo": ("lpo",),
}
"""What a wish for cables or modules allows: kinds of cable, or what keeps the signal in modules."""
USUAL = (*CABLES, "dsp")
"""What is taken where nothing is wished: modules without a processor work only where both hosts allow it."""
CABLES_AT_ONCE = 2**10
"""Cables of the list that are looked at together: a list that waits for its reader holds them."""


@dataclass(frozen=True, eq=False)
class Medium:
    """What carries one link: a cable with its ends, or fibre between two modules."""

    kind: str
    cable: Optic
    near: Optic | None = None
    far: Optic | None = None
    links: float = 1.0
    """Links that one fibre carries: those of a connector at its far end, half of one that has two."""

    @property
    def name(self) -> str:
        """What a link is made of."""
        return self.cable.name if self.links >= 1 else f"{1 / self.links:g} × {self.cable.name}"

    @property
    def reach(self) -> float:
        """How far it carries a link [m]."""
        return min(part.reach.typical for part in (self.cable, self.near, self.far) if part)


def is_wanted(medium: Medium, wanted: str) -> bool:
    """Whether a medium is of the kind that is wished, or nothing is."""
    module = medium.near or medium.far
    kind = module.retiming if medium.kind == "optical" and module else medium.kind
    return not wanted or kind in KINDS[wanted]


class Inside(NamedTuple):
    """Optics inside a box: the fibre that fits them, and the rate of a lane [B/s]."""

    fibre: str
    lane: float


def inside_of(switch: Switch) -> Inside | None:
    """The optics inside a switch; ``None`` where it takes modules."""
    if not switch.co_packaged:
        return None
    return Inside(switch.fibre or "", switch.lane_rate.typical if switch.lane_rate else 0.0)


def lane_of(switch: Switch) -> float:
    """The fastest lane of a switch's cages; without bound where it is not known [B/s]."""
    return switch.lane_rate.typical if switch.lane_rate else np.inf


class Lanes(NamedTuple):
    """Rates of a lane [B/s]: the fastest that the cages at both ends take, and that of an adapter's link, 0 where both
    are switches'.
    """

    near: float = np.inf
    far: float = np.inf
    adapter: float = 0.0

    @property
    def run_through(self) -> bool:
        """Whether a cable can join the ends, which carries each lane as it is: only a module joins two to one."""
        alike = self.near == self.far or np.inf in (self.near, self.far)
        return alike and self.adapter <= self.far


UNKNOWN_LANES = Lanes()


class _End(NamedTuple):
    """One end of an optical link: a module, or optics inside the box; links of each connector; what each costs.

    A lane of its light, and the slowest of its cage's [B/s]; how far it reaches [m].
    """

    module: Optic | None
    fibre: str
    lane: float
    host_lane: float
    retiming: str
    links: float
    cost: float
    reach: float


class _Carrier(NamedTuple):
    """Parts that carry a link.

    Attributes:
        cost: price of a link [USD].
        beyond, reach: of links longer than the one, and no longer than the other [m].
        medium: the parts.
    """

    cost: float
    beyond: float
    reach: float
    medium: Medium


def medium_between(
    prices: PriceList,
    length: float,
    near_cage: tuple[float, int],
    far_cage: tuple[float, int],
    inside: tuple[Inside | None, Inside | None] = (None, None),
    lanes: Lanes = UNKNOWN_LANES,
    wanted: str = "",
) -> Medium | None:
    """The cheapest parts that carry a link of some length between two cages, of the wanted kind where one reaches.

    Args:
        prices: the price list, of whose catalogue the parts are.
        length: how far [m].
        near_cage, far_cage: rate of the cage [B/s] and links it carries; the far one is a switch's.
        inside: the optics of an end that has them inside.
        lanes: of both ends.
        wanted: a key of `KINDS`; blank: the usual.
    """
    for kinds in (KINDS[wanted], USUAL) if wanted else (USUAL,):
        carriers = _carriers(prices, (near_cage, far_cage), inside, lanes, kinds)
        fitting = [each for each in carriers if each.beyond < length <= each.reach]
        if fitting:
            return min(fitting, key=lambda each: each.cost).medium
    return None


@lru_cache(maxsize=256)
def _carriers(
    prices: PriceList,
    cages: tuple[tuple[float, int], tuple[float, int]],
    inside: tuple[Inside | None, Inside | None],
    lanes: Lanes,
    kinds: tuple[str, ...],
) -> tuple[_Carrier, ...]:
    """What carries a link of any length between two cages. Kept: it takes 0.15 ms, the same for every length."""
    cables = _cables(prices, *cages, kinds) if lanes.run_through and not any(inside) else ()
    return *cables, *_optical(prices, cages, inside, lanes, kinds)


def _price(prices: PriceList, optic: Optic) -> float:
    price = prices.optic(optic)
    return price.typical if price else np.inf


def _cables(
    prices: PriceList, near: tuple[float, int], far: tuple[float, int], kinds: Sequence[str]
) -> Iterator[_Carrier]:
    """Cables with their ends: one head at the switch, as many at the other end as its cages take to the same rate."""
    heads = far[0] / near[0]
    for optic in prices.catalog.optics.values():
        if optic.kind in kinds and optic.rate.typical == far[0] and heads in optic.heads:
            cost = _price(prices, optic) / far[1]
            yield _Carrier(cost, -np.inf, optic.reach.typical, Medium(optic.kind, optic))


def _optical(
    prices: PriceList,
    cages: tuple[tuple[float, int], tuple[float, int]],
    inside: tuple[Inside | None, Inside | None],
    lanes: Lanes,
    kinds: Sequence[str],
) -> Iterator[_Carrier]:
    """Modules at both ends, or optics inside a box, and the fibre between them.

    A connector at the near end has one link or a share of it; where no module that reaches has as many connectors, it
    has all links of a split port.
    """
    near_ends, far_ends = (_ends(prices, *end, kinds) for end in zip(cages, inside, strict=True))
    reach_of_single = max((end.reach for end in near_ends if end.links <= 1), default=-np.inf)
    for near in near_ends:
        fibre = prices.catalog.optics.get(near.fibre)
        if fibre is None:
            continue
        for far in far_ends:
            joined = far.fibre in (near.fibre, fibre.trunk) and near.lane == far.lane
            joined = joined and near.host_lane <= lanes.near and far.host_lane <= lanes.far
            joined = joined and far.links == near.links * fibre.links
            if joined and (near.retiming == far.retiming or not near.module or not far.module):
                cost = near.cost + far.cost + _price(prices, fibre) / far.links
                reach = min(near.reach, far.reach, fibre.reach.typical)
                medium = Medium("optical", fibre, near.module, far.module, far.links)
                yield _Carrier(cost, -np.inf if near.links <= 1 else reach_of_single, reach, medium)


def _ends(prices: PriceList, cage: tuple[float, int], inside: Inside | None, kinds: Sequence[str]) -> list[_End]:
    """What may stand at one end of an optical link."""
    if inside:
        return [_End(None, inside.fibre, inside.lane, 0.0, "", 1.0, 0.0, np.inf)]
    return [
        _End(
            optic,
            optic.fibre or "",
            _lane(optic),
            optic.host_lane_rate.typical if optic.host_lane_rate else _lane(optic),
            optic.retiming,
            cage[1] / (optic.connectors or optic.links),
            _price(prices, optic) / cage[1],
            optic.reach.typical,
        )
        for optic in prices.catalog.optics.values()
        if optic.kind == "transceiver"
        and optic.retiming in kinds
        and optic.rate.typical == cage[0]
        and optic.links <= cage[1]
    ]


def _lane(optic: Optic) -> float:
    return optic.lane_rate.typical if optic.lane_rate else 0.0


def switch_cage(switch: Switch, split: int) -> tuple[float, int]:
    """Rate of a switch's cage [B/s], and links it carries when each port is split so many ways."""
    return switch.port_rate.typical * switch.ports_per_cage, switch.ports_per_cage * split


@dataclass(frozen=True)
class Cable:
    """One row of the point-to-point list."""

    a_end: str
    a_port: int
    z_end: str
    z_port: int
    plane: int
    rail: int | None
    level: str
    length: float
    medium: str


def cable_list(cabling: Cabling, kinds: Mapping[str, str]) -> Iterator[Cable]:
    """Every cable, one after another: hosts by unit and node, then leaves to spines, then spines to cores.

    ``kinds`` names the medium of each level. However many cables there are, the list takes no more memory than the
    numbers of the switches and `CABLES_AT_ONCE` cables.
    """
    counts = cabling.counts
    for plane in range(1, counts.planes + 1):
        yield from _host_cables(cabling, kinds, plane)
        yield from _management_cables(cabling, kinds, plane)
        yield from _uplink_cables(cabling, kinds, plane)
        yield from _upper_cables(cabling, kinds, plane, "spine_core")
        yield from _upper_cables(cabling, kinds, plane, "core_super_core")
        yield from _peer_cables(cabling, kinds, plane)


def _host_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int) -> Iterator[Cable]:
    counts, floor, kind = cabling.counts, cabling.floor, kinds.get("node_leaf", "")
    rails = np.arange(counts.rails)
    nodes_at_once = max(1, CABLES_AT_ONCE // max(counts.rails, 1))
    for begin in range(0, counts.nodes, nodes_at_once):
        nodes = np.arange(begin, min(begin + nodes_at_once, counts.nodes))[:, None]
        leaf = cabling.leaf_of(nodes, rails)
        port = cabling.hosts_before(nodes, rails, leaf) + 1
        length = floor.lengths_between(cabling.node_rack(nodes), cabling.leaf_racks[leaf])
        rows = zip(leaf.tolist(), port.tolist(), length.tolist(), strict=True)
        for node, (leaves, ports, lengths) in enumerate(rows, begin + 1):
            ends = zip(leaves, ports, lengths, strict=True)
            for rail, (leaf_number, leaf_port, metres) in enumerate(ends, 1):
                name = leaf_name(counts, plane, leaf_number)
                yield Cable(f"node-{node:05d}", rail, name, leaf_port, plane, rail, "node-leaf", metres, kind)


def _management_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int) -> Iterator[Cable]:
    """Cables of the fabric managers: to the last unit's leaves, rail by rail, or to the last leaf."""
    counts = cabling.counts
    near = float(cabling.floor.lengths_between(0, 1))
    taken: dict[int, int] = {}
    for link in range(counts.management_links):
        rail = link % counts.rails
        leaf = (counts.units - 1) * counts.rails + rail if counts.by_rail else counts.leaves_per_plane - 1
        hosts = max(int(cabling.hosts_before(counts.nodes, rail if counts.by_rail else 0, leaf)), 0)
        port = taken[leaf] = taken.get(leaf, hosts) + 1
        yield Cable(
            f"fabric-manager-{link + 1}",
            1,
            leaf_name(counts, plane, leaf),
            port,
            plane,
            rail + 1 if counts.by_rail else None,
            "management-leaf",
            near,
            kinds.get("node_leaf", ""),
        )


def _uplink_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int) -> Iterator[Cable]:
    counts = cabling.counts
    spines = counts.spines_per_plane
    if not spines:
        return
    uplinks = np.arange(counts.leaf_up)
    taken = [0] * spines
    for leaf in range(counts.leaves_per_plane):
        rack = cabling.leaf_racks[leaf]
        reached = cabling.spine_of(leaf, uplinks)
        lengths = cabling.floor.lengths_between(rack, cabling.spine_rack(reached, spines))
        for uplink, (spine, metres) in enumerate(zip(reached.tolist(), lengths.tolist(), strict=True)):
            taken[spine] += 1
            yield Cable(
                leaf_name(counts, plane, leaf),
                counts.leaf_down + uplink + 1,
                spine_name(plane, spine),
                taken[spine],
                plane,
                leaf % counts.rails + 1 if counts.by_rail else None,
                "leaf-spine",
                metres,
                kinds.get("leaf_spine", ""),
            )


def _upper_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int, level: str) -> Iterator[Cable]:
    counts = cabling.counts
    spines, cores, tops = counts.spines_per_plane, counts.cores_per_plane, counts.super_cores // counts.planes
    name, lower, upper, up, down = {
        "spine_core": ("spine", spines, cores, counts.spine_up, counts.spine_down),
        "core_super_core": ("core", cores, tops, counts.core_up, counts.core_up),
    }[level]
    if not upper:
        return
    above = {"spine": "core", "core": "super-core"}[name]
    uplinks = np.arange(up)
    taken = [0] * upper
    for switch in range(lower):
        reached = cabling.upper_of(switch, uplinks, up, (lower, upper))
        lengths = cabling.floor.lengths_between(cabling.spine_rack(switch, lower), cabling.spine_rack(reached, upper))
        for uplink, (other, metres) in enumerate(zip(reached.tolist(), lengths.tolist(), strict=True)):
            taken[other] += 1
            yield Cable(
                f"{name}-{plane}-{switch + 1:04d}",
                down + uplink + 1,
                f"{above}-{plane}-{other + 1:04d}",
                taken[other],
                plane,
                None,
                level.replace("_", "-"),
                metres,
                kinds.get(level, ""),
            )


def _peer_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int) -> Iterator[Cable]:
    """Cables between equal switches; all of the length that the bill of materials takes for them."""
    counts = cabling.counts
    if not counts.peers:
        return
    metres = next(iter(cabling.peer))
    taken = [counts.leaf_down] * counts.leaves_per_plane
    for near, far, links in _neighbours(counts):
        for _ in range(links):
            taken[near] += 1
            taken[far] += 1
            yield Cable(
                leaf_name(counts, plane, near),
                taken[near],
                leaf_name(counts, plane, far),
                taken[far],
                plane,
                None,
                "leaf-leaf",
                metres,
                kinds.get("peer", ""),
            )


def _neighbours(counts: Counts) -> Iterator[tuple[int, int, int]]:
    """Pairs of equal switches of a plane that are joined, and by how many links."""
    switches, links = counts.leaves_per_plane, counts.peers // counts.planes
    if counts.layout in (layouts.TORUS_2D, layouts.TORUS_3D):
        sides = direct.torus_sides(switches, 2 if counts.layout == layouts.TORUS_2D else 3)
        places = np.arange(switches).reshape(sides)
        rings = [axis for axis, side in enumerate(sides.tolist()) if side > 1]
        for axis in rings:
            pairs = zip(places.ravel().tolist(), np.roll(places, -1, axis).ravel().tolist(), strict=True)
            for near, far in pairs:
                yield near, far, links // (switches * len(rings))
        return
    group = 2 * counts.leaf_down if counts.layout == layouts.DRAGONFLY else switches
    group = min(group, switches)
    groups = switches // group
    inside = group * (group - 1) // 2
    apart = groups * (groups - 1) // 2
    width = links // inside if not apart else 1
    for first in range(0, switches, group):
        for near in range(first, first + group):
            for far in range(near + 1, first + group):
                yield near, far, width
    used = [0] * groups
    for lower in range(groups):
        for other in range(lower + 1, groups):
            for _ in range((links - groups * inside) // apart):
                near, far = (place * group + used[place] % group for place in (lower, other))
                used[lower] += 1
                used[other] += 1
                yield near, far, 1


def leaf_name(counts: Counts, plane: int, leaf: int) -> str:
    """A leaf's name: plane, unit and rail, or plane and number."""
    if counts.by_rail:
        return f"leaf-{plane}-u{leaf // counts.rails + 1:03d}-r{leaf % counts.rails + 1:02d}"
    return f"leaf-{plane}-{leaf + 1:04d}"


def spine_name(plane: int, spine: int) -> str:
    """A spine's name: plane and number."""
    return f"spine-{plane}-{spine + 1:04d}"


@lru_cache(maxsize=256)
def floor_of(catalog: Catalog, nodes_per_rack: int) -> Floor:
    """The floor for nodes that stand so many to a rack.

    Kept: with its table of distances it takes 0.6 ms, twice a plan, and all clusters of such nodes share it.
    """
    racks, cables = catalog.operations["racks"], catalog.operations["cables"]
    return Floor(
        nodes_per_rack=max(1, nodes_per_rack),
        per_row=int(racks["per_row"].typical),
        pitch=cables["pitch"].typical,
        row_pitch=cables["row_pitch"].typical,
        drop=cables["drop"].typical,
        slack=cables["slack"].typical,
        lengths=tuple(sorted(length.typical for length in catalog.operations["lengths"].values())),
        network_units=racks["network_units"].typical,
    )
