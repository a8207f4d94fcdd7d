"""Networks without a tree: two switches, mesh, torus, dragonfly.

Every switch carries hosts and spends its other ports on its neighbours. Each topology is one function of the ports that
hosts take, the ports of a switch and the taper; `design_direct` makes the design of its counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from app.formulas.arrays import Array, maximum, minimum, where
from app.formulas.fabric.layouts import (
    DRAGONFLY,
    MESH,
    MOST_OF_ANYTHING,
    RADIX_TOO_SMALL,
    TOO_MANY_HOSTS,
    TOO_MANY_TIERS,
    TORUS_2D,
    TORUS_3D,
    TWO_SWITCH,
    Booleans,
    Design,
    FabricRequest,
    Integers,
    ceil_divide,
    ceil_of_ratio,
    down_ports,
    logical_not,
)


class DirectNetwork(NamedTuple):
    """Counts of one plane of switches that are joined to one another.

    Attributes:
        switches: switches, W [1].
        down: host ports of a switch, d [1].
        up: ports of a switch that face other switches [1].
        links: links between switches [1].
        cut: links across the worst equal halves [1].
        hops: switches on the longest shortest path [1].
        most_ports: host ports that the topology can have with such switches, if that has a limit [1].
        groups: groups of switches that are joined all to all, where there is more than one [1].
        group_ports: host ports of such a group; 0 where the whole network is one [1].
        reaches_neighbours: whether a switch has a port for each of its neighbours.
    """

    switches: Array
    down: Array
    up: Array
    links: Array
    cut: Array
    hops: Array
    most_ports: Array
    groups: Array = 1
    group_ports: Array = 0
    reaches_neighbours: Booleans = True


def two_switches(host_ports: Array, radix: Array, oversubscription: Array) -> DirectNetwork:
    """Two switches side by side: half the hosts each, d = ceil(h / 2), and ceil(d / o) links between them.

    Args:
        host_ports: ports that hosts take, h [1].
        radix: ports of a switch, k [1].
        oversubscription: ports down per port across, o [1].

    Source: NVIDIA DGX BasePOD: 8 nodes of 8 NICs on two switches of 64 ports, 32 down and 32 across.

    >>> pair = two_switches(64, 64, 1.0)
    >>> pair.switches, pair.down, pair.links
    (2, 32, 32)
    """
    half = ceil_divide(host_ports, 2)
    links = maximum(ceil_of_ratio(half / oversubscription), 1)
    most_ports = 2 * down_ports(radix, oversubscription)
    return DirectNetwork(switches=2, down=half, up=links, links=links, cut=links, hops=2, most_ports=most_ports)


def _ports(host_ports: Array, radix: Array, oversubscription: Array) -> tuple[Array, Array]:
    """Ports of a switch that face hosts, at least one, and those that are left for neighbours.

    What one switch takes needs no neighbours, whatever the taper.
    """
    down = where(host_ports <= radix, radix, maximum(down_ports(radix, oversubscription), 1))
    return down, maximum(radix - down, 0)


def mesh(host_ports: Array, radix: Array, oversubscription: Array) -> DirectNetwork:
    """Full mesh: W = ceil(h / d) switches, each with w = floor((k - d) / (W - 1)) links to every other.

    Links: W (W - 1) / 2 · w. Across the middle: floor(W / 2) · ceil(W / 2) · w.

    Args:
        host_ports: ports that hosts take, h [1].
        radix: ports of a switch, k [1].
        oversubscription: ports down per port to neighbours, o; d ports of a switch face down [1].

    Source: Dally, Towles, Principles and practices of interconnection networks, 2004, section 3.

    5 switches of 32 hosts, 8 links between every two:

    >>> five = mesh(160, 64, 1.0)
    >>> five.switches, five.links, five.cut
    (5, 80, 48)

    64 hosts take one switch whatever the taper, 65 three of 32:

    >>> mesh(64, 64, 1.0).switches, mesh(65, 64, 1.0).switches
    (1, 3)
    """
    down, neighbour_ports = _ports(host_ports, radix, oversubscription)
    switches = ceil_divide(host_ports, down)
    width = where(switches > 1, neighbour_ports // maximum(switches - 1, 1), 0)
    most_down = maximum(down_ports(radix, oversubscription), 1)
    return DirectNetwork(
        switches=switches,
        down=down,
        up=width * (switches - 1),
        links=switches * (switches - 1) // 2 * width,
        cut=switches // 2 * (switches - switches // 2) * width,
        hops=minimum(switches, 2),
        most_ports=(radix - most_down + 1) * most_down,
    )


def torus_sides(switches: ArrayLike, dimensions: int) -> Integers:
    """Sides of the nearly cubic grid that holds some switches, longest first [1].

    Args:
        switches: switches that the grid must hold, W [1].
        dimensions: of the grid, D [1].

    >>> torus_sides(4096, 3).tolist(), torus_sides(12, 2).tolist()
    ([16, 16, 16], [4, 3])
    """
    rest: Any = np.maximum(np.asarray(switches, dtype=np.int64), 1)
    sides: list[Integers] = []
    for left in range(dimensions, 0, -1):
        side = np.ceil(rest ** (1 / left) - 1e-6).astype(np.int64)
        sides.append(side)
        rest = ceil_divide(rest, side)
    return np.sort(np.stack(sides), axis=0)[::-1]


def torus(host_ports: Array, radix: Array, oversubscription: Array, dimensions: int) -> DirectNetwork:
    """Switches on a nearly cubic grid, each with w = floor((k - d) / 2D) links to each of 2D neighbours.

    Every line of the grid is a ring. W = a_1 · … · a_D switches have W · w links for each side longer than one. A plane
    across the longest side cuts every ring twice, 2 · W / a_1 · w links. The farthest switch is half of every side
    away.

    Args:
        host_ports: ports that hosts take, h [1].
        radix: ports of a switch, k [1].
        oversubscription: ports down per port to neighbours, o; d ports of a switch face down [1].
        dimensions: of the grid, D [1].

    Source: Dally, Towles, Principles and practices of interconnection networks, 2004, chapter 5.

    16³ switches of one host and 6 neighbours:

    >>> cube = torus(4096, 8, 1 / 7, 3)
    >>> [int(count) for count in (cube.switches, cube.links, cube.cut, cube.hops)]
    [4096, 12288, 512, 25]
    """
    down, neighbour_ports = _ports(host_ports, radix, oversubscription)
    wanted = ceil_divide(host_ports, down)
    sides: Any = torus_sides(wanted, dimensions)
    switches = np.prod(sides, axis=0)
    width = neighbour_ports // (2 * dimensions)
    return DirectNetwork(
        switches=switches,
        down=down,
        up=2 * dimensions * width,
        links=switches * width * np.sum(sides > 1, axis=0),
        cut=where(sides[0] > 1, 2 * (switches // sides[0]) * width, 0),
        hops=1 + np.sum(sides // 2, axis=0),
        most_ports=MOST_OF_ANYTHING,
        reaches_neighbours=(neighbour_ports >= 2 * dimensions) | (wanted <= 1),
    )


def dragonfly(host_ports: Array, radix: Array, oversubscription: Array) -> DirectNetwork:
    """Balanced dragonfly: groups of a switches joined all to all, each with p hosts and p links out of its group.

    p = floor((k + 1) / 4). G = ceil(h / a p) groups share their a p links out evenly, w = floor(a p / (G - 1)) between
    every two; there can be a p + 1 of them. Links: G · a (a - 1) / 2 + G (G - 1) / 2 · w. One group alone has only the
    ceil(h / p) switches that its hosts take, and what one switch takes needs no other.

    Args:
        host_ports: ports that hosts take, h [1].
        radix: ports of a switch, k [1].
        oversubscription: has no effect: the balance of hosts, local and global links is the topology's own [1].

    Source: Kim, Dally, Scott, Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008, section 3.

    37,632 hosts on 64 ports fill Frontier's 74 groups of 32 switches:

    >>> frontier = dragonfly(37632, 64, 1.0)
    >>> frontier.groups, frontier.switches
    (74, 2368)

    16 hosts take one switch, 65 five switches of 16 hosts:

    >>> dragonfly(16, 64, 1.0).switches, dragonfly(65, 64, 1.0).switches
    (1, 5)
    """
    alone = host_ports <= radix
    per_switch = where(alone, radix, maximum((radix + 1) // 4, 1))
    largest = where(alone, 1, 2 * per_switch)
    groups = ceil_divide(host_ports, largest * per_switch)
    group = minimum(ceil_divide(host_ports, per_switch), largest)
    group_ports = group * per_switch
    width = where(groups > 1, group_ports // maximum(groups - 1, 1), 0)
    return DirectNetwork(
        switches=groups * group,
        down=per_switch,
        up=where(alone, 0, group - 1 + per_switch),
        links=groups * group * (group - 1) // 2 + groups * (groups - 1) // 2 * width,
        cut=where(groups > 1, groups // 2 * (groups - groups // 2) * width, group**2 // 4),
        hops=where(groups > 1, 4, minimum(group, 2)),
        most_ports=_dragonfly_ports(radix),
        groups=groups,
        group_ports=group_ports,
    )


def _dragonfly_ports(radix: Array) -> Array:
    """Host ports of the largest dragonfly of some switches: 2p² + 1 groups of 2p² [1]."""
    group_ports = 2 * maximum((radix + 1) // 4, 1) ** 2
    ports: Array = (group_ports + 1) * group_ports
    return ports


DIRECT: Final[dict[int, Callable[[Array, Array, Array], DirectNetwork]]] = {
    TWO_SWITCH: two_switches,
    MESH: mesh,
    TORUS_2D: partial(torus, dimensions=2),
    TORUS_3D: partial(torus, dimensions=3),
    DRAGONFLY: dragonfly,
}
"""The function of each topology without tiers, by its layout."""


def design_direct(unchecked: FabricRequest, layout: int) -> Design:
    """The design of a request, or an array of them, for one topology without tiers."""
    reason, usable = unchecked.complaint()
    request = unchecked.computable(usable)
    hosts, per_port = request.hosts, request.hosts_per_port
    host_ports = ceil_divide(hosts, per_port)
    network = DIRECT[layout](host_ports, request.radix, request.oversubscription)
    unlimited = network.most_ports >= MOST_OF_ANYTHING
    most_hosts = where(unlimited, MOST_OF_ANYTHING, network.most_ports * per_port)
    most_nodes = maximum(most_hosts - request.management_links, 0) // request.rails
    reason = where(usable & (request.tiers > 1), TOO_MANY_TIERS, reason)
    reason = where(usable & logical_not(network.reaches_neighbours), RADIX_TOO_SMALL, reason)
    reason = where(usable & (hosts > most_hosts), TOO_MANY_HOSTS, reason)

    half = request.nodes * request.rails / 2
    in_group = network.group_ports * per_port // request.rails
    return Design.of(
        request,
        reason,
        in_a_plane={
            "leaf_switches": network.switches,
            "node_leaf": hosts,
            "peer": network.links,
            "leaf_free": network.switches * request.radix - host_ports - 2 * network.links,
            "hosts": request.nodes * request.rails,
            "bisection_leaf": half,
            "bisection_spine": where(network.switches == 1, np.nan, minimum(half, network.cut * (per_port * 1.0))),
        },
        tiers=1,
        units=network.groups,
        unit_nodes=where(network.group_ports > 0, in_group, request.nodes),
        unit_hosts=network.down * per_port,
        leaf_down=network.down * per_port,
        leaf_up=network.up,
        bisection_core=np.nan,
        hops=network.hops,
        most_nodes=where(unlimited, np.inf, most_nodes),
        spare_nodes=maximum(network.switches * network.down * per_port - hosts, 0) // request.rails,
    )
