"""Which modules and cables carry a link, the floor that they cross, and the list of them from point to point."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from app.catalog.entries import Optic, Switch
from app.catalog.load import Catalog
from app.formulas.fabric.cabling import Cabling, Counts, Floor
from app.plan.prices import PriceList

COPPER = ("dac", "acc")
CABLES_AT_ONCE = 2**14
"""Cables of the list that are looked at together."""


@dataclass(frozen=True, eq=False)
class Medium:
    """What carries one link: a cable with its ends, or fibre between two modules."""

    kind: str
    cable: Optic
    near: Optic | None = None
    far: Optic | None = None


@lru_cache(maxsize=1024)
def media(
    prices: PriceList,
    length: float,
    near_cage: tuple[float, int],
    far_cage: tuple[float, int],
    co_packaged: tuple[bool, bool] = (False, False),
) -> Medium | None:
    """The cheapest parts that carry a link of some length between two cages.

    Kept: it takes 0.15 ms, and plans of other sizes need the same few.

    Args:
        length: how far [m].
        near_cage, far_cage: rate of the cage [B/s] and links it carries; the far one is a switch's.
        co_packaged: whether an end has its optics inside.
    """
    best: tuple[float, Medium] | None = None
    catalog = prices.catalog
    optics = catalog.optics.values()

    def offer(cost: float, medium: Medium) -> None:
        nonlocal best
        if best is None or cost < best[0]:
            best = (cost, medium)

    def price(optic: Optic) -> float:
        known = prices.optic(optic)
        return known.typical if known else np.inf

    if not any(co_packaged):
        for optic in optics:
            if optic.kind in (*COPPER, "aoc") and optic.rate.typical == far_cage[0] and optic.reach.typical >= length:
                offer(price(optic) / far_cage[1], Medium(optic.kind, optic))
    modules = [optic for optic in optics if optic.kind == "transceiver" and optic.reach.typical >= length]
    for near in [optic for optic in modules if optic.rate.typical == near_cage[0]]:
        for far in [optic for optic in modules if optic.rate.typical == far_cage[0]]:
            if near.fibre != far.fibre or near.fibre is None or _lane(near) != _lane(far):
                continue
            fibre = catalog.optics[near.fibre]
            ends = (0.0 if co_packaged[0] else price(near) / near_cage[1]) + (
                0.0 if co_packaged[1] else price(far) / far_cage[1]
            )
            offer(
                ends + price(fibre),
                Medium("optical", fibre, None if co_packaged[0] else near, None if co_packaged[1] else far),
            )
    return best[1] if best else None


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
            for rail, (here, there, metres) in enumerate(ends, 1):
                name = leaf_name(counts, plane, here)
                yield Cable(f"node-{node:05d}", rail, name, there, plane, rail, "node-leaf", metres, kind)


def _management_cables(cabling: Cabling, kinds: Mapping[str, str], plane: int) -> Iterator[Cable]:
    """Cables of the fabric managers: to the last unit's leaves, rail by rail, or to the last leaf."""
    counts = cabling.counts
    near = float(cabling.floor.lengths_between(0, 1))
    taken: dict[int, int] = {}
    for link in range(counts.management_links):
        rail = link % counts.rails
        here = (counts.units - 1) * counts.rails + rail if counts.by_rail else counts.leaves_per_plane - 1
        hosts = max(int(cabling.hosts_before(counts.nodes, rail if counts.by_rail else 0, here)), 0)
        port = taken[here] = taken.get(here, hosts) + 1
        yield Cable(
            f"fabric-manager-{link + 1}",
            1,
            leaf_name(counts, plane, here),
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
        there = cabling.spine_of(leaf, uplinks)
        lengths = cabling.floor.lengths_between(rack, cabling.spine_rack(there, spines))
        for uplink, (spine, metres) in enumerate(zip(there.tolist(), lengths.tolist(), strict=True)):
            taken[spine] += 1
            yield Cable(
                leaf_name(counts, plane, leaf),
                counts.leaf_down + uplink + 1,
                spine_name(counts, plane, spine),
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
    above = {"spine": "core", "core": "top"}[name]
    uplinks = np.arange(up)
    taken = [0] * upper
    for switch in range(lower):
        there = cabling.upper_of(switch, uplinks, up, (lower, upper))
        lengths = cabling.floor.lengths_between(cabling.spine_rack(switch, lower), cabling.spine_rack(there, upper))
        for uplink, (other, metres) in enumerate(zip(there.tolist(), lengths.tolist(), strict=True)):
            taken[other] += 1
            yield Cable(
                f"{name}-{plane}-{switch + 1:04d}",
                down + uplink + 1,
                f"{above}-{plane}-{other + 1:04d}",
                taken[other],
                plane,
                None,
                level.replace("_", "-", 1),
                metres,
                kinds.get(level, ""),
            )


def leaf_name(counts: Counts, plane: int, leaf: int) -> str:
    """A leaf's name: plane, unit and rail, or plane and number."""
    if counts.by_rail:
        return f"leaf-{plane}-u{leaf // counts.rails + 1:03d}-r{leaf % counts.rails + 1:02d}"
    return f"leaf-{plane}-{leaf + 1:04d}"


def spine_name(counts: Counts, plane: int, spine: int) -> str:
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
