"""Fabrics without a tree: two switches, mesh, torus, dragonfly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from app.formulas.fabric import layouts
from app.formulas.fabric.layouts import (
    BUILT,
    DRAGONFLY,
    MESH,
    RADIX_TOO_SMALL,
    TOO_MANY_HOSTS,
    TOO_MANY_TIERS,
    TORUS_2D,
    TORUS_3D,
    TWO_SWITCH,
    Design,
    FabricRequest,
    Floats,
    Integers,
    ceil_divide,
    down_ports,
    floor_of_ratio,
)


def torus_sides(switches: ArrayLike, dimensions: int) -> list[Integers]:
    """Sides of the nearly cubic grid that holds some switches, longest first.

    >>> [int(side) for side in torus_sides(4096, 3)], [int(side) for side in torus_sides(12, 2)]
    ([16, 16, 16], [4, 3])
    """
    rest: Any = np.maximum(np.asarray(switches, dtype=np.int64), 1)
    sides: list[Integers] = []
    for left in range(dimensions, 0, -1):
        side = np.ceil(rest ** (1 / left) - 1e-6).astype(np.int64)
        sides.append(side)
        rest = ceil_divide(rest, side)
    return sorted(sides, key=lambda side: -int(side.max())) if rest.ndim == 0 else sides


def design_direct(request: FabricRequest) -> Design:
    """Topologies without tiers: two switches side by side, and, approximate, full mesh, tori, dragonfly."""
    wished: Any = request
    r: Any = FabricRequest(*np.broadcast_arrays(*np.atleast_1d(*wished)))
    reason: Any
    reason, usable = layouts.usable(r)
    taper = np.where(usable, r.oversubscription, 1.0)
    radix, rails, nodes = np.maximum(r.radix, 2), np.maximum(r.rails, 1), np.maximum(r.nodes, 1)
    hosts = nodes * rails + r.management_links
    host_ports = ceil_divide(hosts, r.hosts_per_port)
    layout = r.layout

    # Two switches: half the hosts each, as many links between them as each has hosts.
    half = ceil_divide(host_ports, 2)
    between = np.maximum(floor_of_ratio(half / taper), 1)
    pair_most = 2 * down_ports(radix, taper) * r.hosts_per_port

    # Switches that carry d hosts and spend the rest on neighbours.
    ports_down = np.maximum(down_ports(radix, taper), 1)
    switches: Any = ceil_divide(host_ports, ports_down)
    ports_out = np.maximum(radix - ports_down, 0)

    mesh_width = np.where(switches > 1, ports_out // np.maximum(switches - 1, 1), 0)
    mesh_links = switches * (switches - 1) // 2 * mesh_width
    mesh_cut = switches // 2 * (switches - switches // 2) * mesh_width
    mesh_most = (ports_out + 1) * ports_down * r.hosts_per_port

    def torus(dimensions: int) -> tuple[Integers, Integers, Integers, Integers]:
        sides = np.sort(np.stack(torus_sides(np.atleast_1d(switches), dimensions)), axis=0)[::-1]
        sides = sides.reshape((dimensions, *switches.shape))
        vertices = np.prod(sides, axis=0)
        width = ports_out // (2 * dimensions)
        links = np.sum([np.where(side > 1, vertices * width, 0) for side in sides], axis=0)
        cut = np.where(sides[0] > 1, 2 * (vertices // sides[0]) * width, 0)
        return vertices, links, cut, 1 + np.sum(sides // 2, axis=0)

    flat_switches, flat_links, flat_cut, flat_hops = torus(2)
    cube_switches, cube_links, cube_cut, cube_hops = torus(3)
    torus_most = np.full_like(hosts, 2**40)

    # Balanced dragonfly: a = 2p = 2h routers, hosts and global links; p + (a - 1) + h <= k.
    per_router = np.maximum((radix + 1) // 4, 1)
    routers = 2 * per_router
    groups = ceil_divide(host_ports, routers * per_router)
    most_groups = routers * per_router + 1
    pair_links = np.where(groups > 1, routers * per_router // np.maximum(groups - 1, 1), 0)
    fly_links = groups * routers * (routers - 1) // 2 + groups * (groups - 1) // 2 * pair_links
    fly_cut = np.where(groups > 1, (groups // 2) * (groups - groups // 2) * pair_links, routers**2 // 4)
    fly_most = most_groups * routers * per_router * r.hosts_per_port

    which = [layout == kind for kind in (TWO_SWITCH, MESH, TORUS_2D, TORUS_3D, DRAGONFLY)]
    most = np.select(which, [pair_most, mesh_most, torus_most, torus_most, fly_most], 0)
    boxes = np.select(which, [np.full_like(hosts, 2), switches, flat_switches, cube_switches, groups * routers], 0)
    peers = np.select(which, [between, mesh_links, flat_links, cube_links, fly_links], 0)
    cut = np.select(which, [between, mesh_cut, flat_cut, cube_cut, fly_cut], 0)
    hops = np.select(
        which, [np.full_like(hosts, 2), np.minimum(switches, 2), flat_hops, cube_hops, np.where(groups > 1, 4, 2)], 1
    )
    starved = np.isin(layout, (TORUS_2D, TORUS_3D)) & (ports_out < np.where(layout == TORUS_2D, 4, 6)) & (switches > 1)
    tiers_wrong = (r.tiers > 1) & usable
    reason = np.select(
        [~usable, hosts > most, starved, tiers_wrong],
        [
            reason,
            np.full_like(reason, TOO_MANY_HOSTS),
            np.full_like(reason, RADIX_TOO_SMALL),
            np.full_like(reason, TOO_MANY_TIERS),
        ],
        BUILT,
    ).astype(np.int64)
    built = reason == BUILT

    def count(value: Any, per_plane: bool = True) -> Floats:
        scaled = np.asarray(value, dtype=np.float64) * np.where(per_plane, r.planes, 1)
        return np.where(built, scaled, np.nan)

    none = np.zeros_like(hosts)
    alone = boxes == 1
    half_hosts = nodes * rails / 2
    per_box = np.select(which, [half, ports_down, ports_down, ports_down, per_router], 0) * r.hosts_per_port
    return Design(
        reason=reason,
        tiers=count(none + 1, False),
        units=count(np.where(layout == DRAGONFLY, groups, 1), False),
        unit_nodes=count(np.where(layout == DRAGONFLY, routers * per_router * r.hosts_per_port // rails, nodes), False),
        unit_hosts=count(per_box, False),
        leaf_down=count(per_box, False),
        leaf_up=count(
            np.select(
                which,
                [
                    between,
                    mesh_width * (switches - 1),
                    ports_out // 4 * 4,
                    ports_out // 6 * 6,
                    routers - 1 + per_router,
                ],
                0,
            ),
            False,
        ),
        spine_down=count(none, False),
        spine_up=count(none, False),
        core_up=count(none, False),
        leaf_switches=count(boxes),
        spine_switches=count(none),
        core_switches=count(none),
        super_core_switches=count(none),
        node_leaf=count(hosts),
        leaf_spine=count(none),
        spine_core=count(none),
        core_super_core=count(none),
        peer=count(peers),
        leaf_free=count(boxes * radix - host_ports - 2 * peers),
        spine_free=count(none),
        core_free=count(none),
        super_core_free=count(none),
        hosts=count(nodes * rails),
        bisection_leaf=count(half_hosts),
        bisection_spine=np.where(
            alone, np.nan, count(np.minimum(half_hosts, cut.astype(np.float64) * r.hosts_per_port))
        ),
        bisection_core=np.full(hosts.shape, np.nan),
        crosses_rails=np.ones(hosts.shape, dtype=np.bool_),
        hops=count(hops, False),
        most_nodes=count(
            np.where(most == torus_most, np.inf, np.maximum(most - r.management_links, 0) // rails), False
        ),
        spare_nodes=count(np.maximum(boxes * per_box - hosts, 0) // rails, False),
        balanced=np.ones(hosts.shape, dtype=np.bool_),
        enough_spines=np.ones(hosts.shape, dtype=np.bool_),
    )
