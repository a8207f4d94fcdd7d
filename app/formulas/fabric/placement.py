"""Where the ranks of a group stand in the network, and what that leaves each of the network.

A *unit* is the GPUs below one set of switches of a tier: a leaf's, or a pod's of leaves and spines. What a group sends
inside a unit meets no taper. What leaves it shares the unit's uplinks with every other group that sends at the moment:
with a share x of the GPUs sending out and a taper O, product of all tapers up to there, each is left with
min(1, 1/(O·x)) of its rate. A ring that goes through a unit leaves it once, however many members it has there.

A group is given by its *axes*, each a stride and a size: ranks that differ by so much, and so many of them.

Sources: Leiserson, "Fat-trees", IEEE Trans. Computers C-34(10), 1985 (what a cut carries); Dally, Towles, "Principles
and practices of interconnection networks", 2004, section 3.3 (bisection and load of a channel). The formulas agree with
max-min fair simulations of flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.fabric.cabling import Counts
from app.formulas.fabric.direct import torus_sides
from app.formulas.fabric.layouts import DRAGONFLY, MESH, RAIL_ONLY, TORUS_2D, TORUS_3D, Design
from app.formulas.fabric.load_balancing import hashed_share
from app.formulas.tail import links_left

Axis = tuple[Array, Array]
"""Stride and size: ranks of a group that differ by the stride, so many of them [1]."""
Pattern = Literal["ring", "tree", "halving", "exchange"]
"""How a group communicates: each to the next, along a tree, by recursive halving, each to every other."""
TREE_EDGES = 1.5
"""Edges of a double binary tree that leave a unit, over those of a ring: 3 against 2."""
Balancing = Literal["hashing", "flowlet", "adaptive", "spraying"]
"""How switches choose among equal paths: by a hash of each flow; of each queue pair, bursts apart; packet by packet; or
the adapter sends each packet another way."""
PINNED = ("hashing", "flowlet")
"""Those that bind a flow to a path."""


class Tier(NamedTuple):
    """A tier of switches as traffic meets it, or columns of tiers.

    Attributes:
        unit: GPUs below one set of its switches [1].
        spread: taper for traffic from a unit to all others, O [1].
        neighbour: taper for traffic from a unit to the next alone [1].
        hosts, uplinks: hosts below it that share its links up, and these; 0 where flows are not hashed on them [1].
        leaves: how many such sets there are [1].
        links, neighbour_links: links from a unit to all others, and to the next alone, where one of them is degraded;
            endless elsewhere [1].
        others: units that links join with it, where flows are bound to those; else 0 [1].
    """

    unit: Any
    spread: Any
    neighbour: Any
    hosts: Any = 0.0
    uplinks: Any = 0
    leaves: Any = 1.0
    links: Any = np.inf
    neighbour_links: Any = np.inf
    others: int = 0


class Site(NamedTuple):
    """Where the GPUs of a cluster stand.

    Attributes:
        gpus: GPUs [1].
        domain: GPUs that reach one another without the network [1].
        tiers: units and tapers of the tiers that can leave a group less than its rate, lowest first [1].
        scattered: whether ranks stand on nodes at random.
        leaf: GPUs below one leaf, or one leaf of each rail [1].
        pod: GPUs below the spines that share cores; all where there are no cores [1].
        rails_apart: whether nothing but the scale-up link joins the rails.
        balancing: whether each flow is bound to a path, hashing or flowlet; adaptive; spraying [1].
        flows: flows of a GPU to one peer [1].
        planes: equal networks that share a port's rate [1].
        link_left: share of its rate that one link between switches has left [1].
        link_goodput: share of a flow's bytes on that link that arrive once [1].
    """

    gpus: float
    domain: float
    tiers: tuple[Tier, ...] = ()
    scattered: bool = False
    leaf: float = np.inf
    pod: float = np.inf
    rails_apart: bool = False
    balancing: Balancing = "adaptive"
    flows: float = 1.0
    planes: float = 1.0
    link_left: float = 1.0
    link_goodput: float = 1.0

    @property
    def matters(self) -> bool:
        """Whether any group can be left with less than its rate."""
        return bool(self.tiers) or (self.planes > 1 and self.balancing in PINNED)


# Groups --------------------------------------------------------------------------------------------------------------


def group_size(axes: Sequence[Axis]) -> Array:
    """Members of a group, the product of the sizes of its axes [1].

    >>> group_size([(1.0, 8.0), (64.0, 4.0)])
    32.0
    """
    size: Array = 1.0
    for _, along in axes:
        size = size * along
    return size


def members(axes: Sequence[Axis], unit: Array) -> Array:
    """Members of a group that stand in one unit: the product over its axes of min(n, max(u/s, 1)).

    Args:
        axes: stride s and size n of each axis of the group [1].
        unit: GPUs of the unit, u [1].

    32 replicas, 32 ranks apart: a unit of 256 GPUs has 8 of them.

    >>> members([(32.0, 32.0)], 256.0)
    8.0
    """
    inside: Array = 1.0
    for stride, along in axes:
        inside = inside * minimum(along, maximum(unit / stride, 1.0))
    return inside


class Split(NamedTuple):
    """How a group stands in units.

    Attributes:
        inside: members in the fullest unit [1].
        units: units that it has members in [1].
        fewest: members in the emptiest of these [1].
    """

    inside: Array
    units: Array
    fewest: Array


def slowest_split(axes: Sequence[Axis], unit: Array, gpus: Array) -> Split:
    """How the group stands that all equal groups wait for.

    GPUs fill as few units as hold them, v in each: evenly where that is a whole number, else all but the last. Groups
    of n members, s apart, lie one after the other, and the ends of units cut them at multiples of gcd(v, s·n): the
    worst cut leaves ⌊gcd(v, s·n)/s⌋ members by themselves. Shorter ones meet two units, unless all units hold as many
    whole ones as there are; longer ones one more than what is left fills.

    Args:
        axes: stride s and size n of each axis of the group [1].
        unit: GPUs of the unit, u [1].
        gpus: GPUs of the cluster [1].

    Racks of 72. 76 GPUs: 38 in each of two. Nine groups of 16 in two racks, which hold four each: the fifth has 8 in
    either. Eight of them fit. Of groups of 20 some have 4 in one rack and 16 in the next.

    >>> [float(part) for part in slowest_split([(1.0, 76.0)], 72.0, 76.0)]
    [38.0, 2.0, 38.0]
    >>> [float(slowest_split([(1.0, 16.0)], 72.0, gpus).inside) for gpus in (144.0, 128.0)]
    [8.0, 16.0]
    >>> [float(part) for part in slowest_split([(1.0, 20.0)], 72.0, 720.0)]
    [16.0, 2.0, 4.0]
    """
    several = any(isinstance(number, np.ndarray) for axis in axes for number in axis)
    if several or isinstance(unit, np.ndarray) or isinstance(gpus, np.ndarray):
        return _slowest_split(axes, unit, gpus)
    return _kept_split(tuple(axes), unit, gpus)


def _slowest_split(axes: Sequence[Axis], unit: Array, gpus: Array) -> Split:
    first, *others = axes
    split = _cut(first, unit, gpus)
    for apart, along in others:
        blocks = _cut((apart, along), unit, gpus)
        together = Split(*(ours * theirs for ours, theirs in zip(split, blocks, strict=True)))
        several = (split.units > 1) & (along > 1) & (apart < unit)
        if any_(several):
            passed = _passed(first, (apart, along), unit)
            together = Split(*(where(several, new, old) for new, old in zip(passed, together, strict=True)))
        split = together
    return split


@lru_cache(maxsize=256)
def _kept_split(axes: tuple[Axis, ...], unit: float, gpus: float) -> Split:
    """Kept: a cluster asks for each several times, and its rivals and what-ifs again."""
    return _slowest_split(axes, unit, gpus)


def _cut(axis: Axis, unit: Array, gpus: Array) -> Split:
    """Members of one axis where the ends of units cut it worst."""
    stride, along = axis[0], maximum(axis[1], 1.0)
    span, filled = stride * along, np.ceil(gpus / unit)
    whole = (along <= 1) | ((span <= unit) & (np.floor(gpus / span) <= filled * np.floor(unit / span)))
    if not any_(~np.asarray(whole)):
        return Split(along, 1.0, along)
    evenly = gpus / filled
    held = where(evenly == np.floor(evenly), evenly, unit)
    common = np.gcd(np.asarray(np.rint(held), np.int64), np.asarray(np.rint(span), np.int64)).astype(float)
    fewest = maximum(np.floor(common / stride), 1.0)
    fullest = minimum(np.ceil(held / stride), along - fewest)
    units = minimum(1 + np.ceil((span - common) / held), along)
    alone = (held != evenly) & (span >= gpus)
    spread = minimum(filled, along)
    return Split(
        where(whole, along, where(alone, along / spread, fullest)),
        where(whole, 1.0, where(alone, spread, units)),
        where(whole, along, where(alone, along / spread, fewest)),
    )


def _passed(near: Axis, far: Axis, unit: Array) -> Split:
    """Members in a unit that several blocks of a group lie in, t ranks long and P apart, as it passes over them.

    ⌊u/P⌋ of them whole, and of another what u mod P has more than the P - t ranks between two.
    """
    (stride, along), (apart, blocks) = near, far
    whole, rest = np.floor(unit / apart) * along, unit % apart
    least = np.floor(maximum(rest - (apart - stride * along), 0.0) / stride)
    most = minimum(np.ceil(rest / stride), along)
    return Split(whole + most, np.ceil(apart * blocks / unit), whole + least)


def crossing_share(pattern: Pattern, size: Array, inside: Array, local: Array) -> Array:
    """Share of a unit's GPUs that send out of it at once, or of the bytes that each sends out, x.

    A ring leaves the unit once, on every GPU of a scale-up domain: l/m. A double tree has half as many edges more. In
    an all-to-all each GPU sends (n - m)/(n - l) of what it puts on the network; all of it where a domain is larger than
    the unit.

    Args:
        pattern: ring, tree or exchange.
        size: members of a group, n [1].
        inside: those in one unit, m [1].
        local: those in one scale-up domain, l [1].

    Returns:
        Share [1]; none where the group stays inside the unit.

    128 nodes in four units: one ring of each rail leaves; of 128 ranks, 96 are elsewhere.

    >>> crossing_share("ring", 128.0, 32.0, 1.0), round(crossing_share("exchange", 128.0, 32.0, 1.0), 3)
    (0.03125, 0.756)
    >>> crossing_share("exchange", 128.0, 32.0, 64.0)
    1.0
    """
    if pattern == "exchange":
        return maximum(size - maximum(inside, local), 0.0) / maximum(size - local, 1.0)
    edges = TREE_EDGES if pattern == "tree" else 1.0
    return where(inside < size, minimum(edges * local / inside, 1.0), 0.0)


def scattered_share(gpus: Array, unit: Array, domain: Array) -> Array:
    """Share of hops that leave a unit where nodes are taken at random: the share of other nodes that are elsewhere.

    x = 1 - (u - g)/(N - g).

    Args:
        gpus: GPUs of the cluster, N [1].
        unit: GPUs of the unit, u [1].
        domain: GPUs of a scale-up domain, g [1].

    >>> round(scattered_share(16384.0, 3072.0, 8.0), 3)
    0.813
    """
    return minimum(maximum(1 - (unit - domain) / maximum(gpus - domain, 1.0), 0.0), 1.0)


def share_left(taper: Array, crossing: Array) -> Array:
    """Share of its network rate that a GPU is left with, min(1, 1/(O·x)) [1].

    Args:
        taper: what the unit's hosts can send over what its uplinks carry, O [1].
        crossing: share of them that send out, x [1].

    >>> share_left(8.0, 1.0), share_left(8.0, 0.125)
    (0.125, 1.0)
    """
    return 1 / maximum(taper * crossing, 1.0)


def halving_share(size: Array, steps: Sequence[tuple[Array, Array]]) -> Array:
    """Share of its rate that halving-doubling is left with, nearest partners first.

    (1 - 1/n)/Σ O·(1/m - 1/m'): the steps that halve what is left inside m' members, once it is whole inside m, go
    through a taper O.

    Args:
        size: members of a group, n [1].
        steps: members in a unit and taper above it, m and O, smallest unit first [1].

    Returns:
        Share [1].

    Source: Thakur, Rabenseifner, Gropp 2005, section 4.4 (the steps); agrees with a simulation step by step.

    128 ranks, 16 in a leaf at 8:1: 15/16 of the bytes inside, 7/128 across at an eighth of the rate.

    >>> round(1 / halving_share(128.0, [(16.0, 8.0)]), 4)
    1.3858
    """
    taken: Array = 1.0
    before: Array = 1.0
    for inside, taper in steps:
        taken = taken + (taper - before) * (1 / inside - 1 / size)
        before = taper
    return (1 - 1 / size) / maximum(taken - 1 / size, 1 - 1 / size)


def network_share(axes: Sequence[Axis], pattern: Pattern, site: Site, lanes: Array = np.inf) -> Array:
    """Share of its network rate that each GPU of some equal groups has left, all of them sending at once [1].

    The least over the tiers: see `share_left`. A group inside one scale-up domain does not meet the network; one that
    the ends of domains cut does, see `slowest_split`.

    Args:
        axes: stride and size of each axis of a group [1].
        pattern: how it communicates.
        site: where the GPUs stand.
        lanes: GPUs of a scale-up domain whose ports a ring or tree uses at a time [1].

    Pods of 3,072 GPUs at 7:1. Stages 1,024 ranks apart lose: a third of a pod's GPUs sends out. Replicas 128 ranks
    apart do not: a ring enters a pod once, 128 of them.

    >>> pods = Site(16384.0, 8.0, (Tier(3072.0, 7.0, 7.0),))
    >>> [round(float(network_share([axis], "ring", pods)), 3) for axis in ((1024.0, 16.0), (128.0, 128.0))]
    [0.429, 1.0]

    Racks of 72 on switches of 16. Of three groups of 48 the second lies half in either rack.

    >>> racks = Site(144.0, 72.0, (Tier(16.0, 2.0, 4.0),))
    >>> [float(network_share([(2.0, size)], "ring", racks)) for size in (24.0, 12.0)]
    [0.25, 1.0]
    """
    size, (local, domains, _) = group_size(axes), slowest_split(axes, site.domain, site.gpus)
    if not any_(domains > 1):
        return 1.0
    share = plane_share(pattern, size / local, site)
    if pattern == "halving" and not site.scattered:
        steps = [(members(axes, tier.unit), 1 / _left(tier, "ring", 1.0, 1.0, site)) for tier in site.tiers]
        return where(domains > 1, share * halving_share(size, steps), 1.0)
    for tier in site.tiers:
        inside = members(axes, tier.unit)
        if site.scattered:
            crossing = scattered_share(site.gpus, tier.unit, site.domain)
        else:
            lane = local if pattern == "exchange" else minimum(local, lanes)
            crossing = crossing_share(pattern, size, inside, lane)
        share = minimum(share, _left(tier, pattern, crossing, (size - inside) / local, site))
        if site.scattered and tier.others and pattern != "exchange":
            edges = TREE_EDGES if pattern == "tree" else 1.0
            together = minimum(edges * minimum(lanes / local, 1.0) * site.domain / tier.unit, 1.0)
            taper = tier.neighbour * together
            bound = shortest_path_share(taper, site.gpus, tier.unit, site.domain, tier.others, tier.leaves)
            share = minimum(share, bound)
    return where(domains > 1, share, 1.0)


def shortest_path_share(taper: Array, gpus: Array, unit: Array, domain: Array, others: int, units: float) -> Array:
    """Share of its rate that a GPU is left with whose flows take the shortest path, nodes taken at random.

    All flows of a node go to one other: they meet on the links between two units, r to one. Of a unit's u/g nodes a
    share V·u/(N - g) go to the V units that links join with it, each to one of them: the fullest links have E[max] of
    these, as of flows that a hash spreads, φ = min(1, 1/(r·E[max])).

    Args:
        taper: what a node sends over what the links between two units carry, r [1].
        gpus: GPUs of the cluster, N [1].
        unit: GPUs of the unit, u [1].
        domain: GPUs of a node or scale-up domain, g [1].
        others: units that links join with it, V [1].
        units: all, among which the fullest links are looked for [1].

    Returns:
        Share [1].

    Source: Bhatele et al., "Avoiding hot-spots on two-level direct networks", SC 2011 (flows of neighbours on the one
    link between two routers); the fullest: see `hashed_share`.

    Two switches of 8 nodes of 8 GPUs, 8 links between: 64/15 nodes share them. Of one node each an eighth on one link.

    >>> round(float(1 / shortest_path_share(1.0, 128.0, 64.0, 8.0, 1, 2.0)), 2)
    4.27
    >>> float(shortest_path_share(8.0, 16.0, 8.0, 8.0, 1, 2.0))
    0.125
    """
    leaving = maximum(unit / domain, 1.0) * minimum(others * unit / maximum(gpus - domain, 1.0), 1.0)
    return minimum(hashed_share(leaving, 1.0, others, units) / taper, 1.0)


def plane_share(pattern: Pattern, peers: Array, site: Site) -> Array:
    """Share of its rate that a GPU's flows reach on several planes, min(1, q/P) where each is bound to one [1].

    Args:
        pattern: how the group communicates: an all-to-all has flows to every other domain.
        peers: domains of the group [1].
        site: where the GPUs stand.

    Two flows on four planes:

    >>> plane_share("ring", 2.0, Site(16.0, 8.0, balancing="hashing", flows=2.0, planes=4.0))
    0.5
    """
    if site.planes <= 1 or site.balancing not in PINNED:
        return 1.0
    flows = site.flows * (maximum(peers - 1, 1.0) if pattern == "exchange" else 1.0)
    return minimum(flows / site.planes, 1.0)


def _left(tier: Tier, pattern: Pattern, crossing: Array, peers: Array, site: Site) -> Array:
    """What a tier leaves, one of whose links may be degraded."""
    share = _sound_left(tier, pattern, crossing, peers, site)
    if not np.isfinite(tier.links):
        return share
    anywhere = site.scattered or pattern == "exchange"
    if site.balancing == "hashing" and tier.uplinks:
        left = degraded_share(tier.hosts * crossing, site.flows, tier.uplinks, site.link_left)
    else:
        links, taper = (tier.links, tier.spread) if anywhere else (tier.neighbour_links, tier.neighbour)
        left = share_left(taper / links_left(links, site.link_left), crossing)
    return minimum(share, where(crossing > 0, left * site.link_goodput, 1.0))


def degraded_share(senders: Array, flows: Array, uplinks: Array, left: Array) -> Array:
    """Share of its rate that a GPU is left with whose flows a hash put on the degraded one of u links.

    min(1, f·q/max(N/u, 1)): that link carries as many flows as any other on average, at least the one that waits.

    Args:
        senders: GPUs that send over the links at once, h [1].
        flows: flows of each, q; N = q·h [1].
        uplinks: links, each as fast as a GPU's port, u [1].
        left: share of its rate that the link has left, f [1].

    Returns:
        Share [1].

    32 GPUs with 4 flows each over 32 links: 4 flows share half a link's rate. One GPU alone loses nothing.

    >>> degraded_share(32.0, 4.0, 32, 0.5), degraded_share(1.0, 4.0, 32, 0.5)
    (0.5, 1.0)
    """
    return minimum(left * flows / maximum(senders * flows / uplinks, 1.0), 1.0)


def _sound_left(tier: Tier, pattern: Pattern, crossing: Array, peers: Array, site: Site) -> Array:
    """What a tier leaves: by its taper, and where flows are bound to links by the fullest of them.

    Flows from leaf to leaf meet its uplinks alone; those to many leaves also the links down into each. A burst of a
    flow finds the emptiest uplink anew, not the emptiest link down.
    """
    anywhere = site.scattered or pattern == "exchange"
    share = share_left(tier.spread if anywhere else tier.neighbour, crossing)
    if not tier.uplinks or site.balancing not in PINNED or (site.balancing == "flowlet" and not anywhere):
        return share
    leaves = tier.leaves * (2 if anywhere and site.balancing == "hashing" else 1)
    if pattern != "exchange":
        return minimum(share, hashed_share(tier.hosts * crossing, site.flows, tier.uplinks, leaves))
    flows = site.flows * maximum(peers, 1.0)
    hashed = hashed_share(tier.hosts, flows, tier.uplinks, leaves) / maximum(crossing, 1e-9)
    return minimum(share, minimum(hashed, 1.0))


# Tiers of a network --------------------------------------------------------------------------------------------------


def leaf_gpus(counts: Counts, gpus_per_node: float) -> Array:
    """GPUs below one leaf, or below one leaf of each rail [1]; columns of networks of equally many tiers.

    A leaf of one rail joins that GPU of all nodes of a unit; one that knows no rails joins all GPUs of fewer nodes.

    Args:
        counts: of a design.
        gpus_per_node: GPUs of a node [1].
    """
    c = counts
    hosts: Array = c.unit_nodes * c.rails
    if not c.by_rail:
        hosts = minimum(c.leaf_down, hosts / maximum(-(-hosts // maximum(c.leaf_down, 1)), 1))
    return maximum(hosts * gpus_per_node / max(c.rails, 1), gpus_per_node)


def tiers_of(
    design: Design, counts: Counts, gpus_per_node: float, pinned: bool, degraded: bool = False
) -> tuple[Tier, ...]:
    """The tiers of a network where traffic may be left with less than its rate, lowest first.

    Args:
        design: one design, all planes together.
        counts: the same in plain numbers.
        gpus_per_node: GPUs of a node [1].
        pinned: whether each flow is bound to a path.
        degraded: whether a link of the lowest tier is.
    """
    kind = {MESH: _mesh, TORUS_2D: _torus, TORUS_3D: _torus, DRAGONFLY: _dragonfly}.get(counts.layout)
    gpus_per_host = gpus_per_node / max(counts.rails, 1)
    if kind:
        tiers = kind(counts, gpus_per_host, pinned)
    else:
        tiers = _tree(design, counts, leaf_gpus(counts, gpus_per_node), gpus_per_host)
    met = []
    for place, tier in enumerate(tiers):
        bad = degraded and place == 0
        if _is_met(tier, pinned) or (bad and np.isfinite(tier.links)):
            links, neighbour_links = (tier.links, tier.neighbour_links) if bad else (np.inf, np.inf)
            met.append(tier._replace(unit=max(tier.unit, gpus_per_node), links=links, neighbour_links=neighbour_links))
    return tuple(met)


def _is_met(tier: Tier, pinned: bool) -> Any:
    """Whether traffic may be left with less than its rate in a tier, or in columns of tiers."""
    return (maximum(tier.spread, tier.neighbour) > 1) | (pinned & (tier.uplinks > 0))


def stands_of(
    design: Design, counts: Counts, gpus_per_node: float, pinned: bool
) -> list[tuple[tuple[Tier, ...], float, float]]:
    """Of columns of trees of equally many tiers the tiers of each, and the GPUs of a leaf and of a pod; see `tiers_of`,
    `leaf_gpus` and `pod_gpus`.
    """
    many = len(design.tiers)
    leaf, pod = leaf_gpus(counts, gpus_per_node), pod_gpus(counts, gpus_per_node)
    met: list[list[Tier]] = [[] for _ in range(many)]
    for tier in _tree(design, counts, leaf, gpus_per_node / max(counts.rails, 1)):
        below = tier._replace(unit=maximum(tier.unit, gpus_per_node), links=np.inf, neighbour_links=np.inf)
        columns = (np.broadcast_to(column, many).tolist() for column in below)
        for its, is_met, row in zip(met, _is_met(tier, pinned).tolist(), zip(*columns, strict=True), strict=True):
            if is_met:
                its.append(Tier(*row))
    ends = (np.broadcast_to(gpus, many).astype(np.float64).tolist() for gpus in (leaf, pod))
    return [*zip(map(tuple, met), *ends, strict=True)]


def pod_gpus(counts: Counts, gpus_per_node: float) -> Array:
    """GPUs of a pod: leaves that share spines below cores; endless where no cores are [1].

    Args:
        counts: of a design.
        gpus_per_node: GPUs of a node [1].
    """
    return _leaves_of_pod(counts) * leaf_gpus(counts, gpus_per_node) if counts.tiers > 2 else np.inf


def _leaves_of_pod(counts: Counts) -> Array:
    """Leaves of a pod, or of one rail where those of all share its spines: as many as a spine has ports down [1]."""
    c = counts
    rails_apart = c.layout == RAIL_ONLY or c.rails_apart
    in_pod = minimum(c.leaves_per_plane / (c.rails if rails_apart else 1), c.spine_down)
    return maximum(in_pod / (c.rails if c.by_rail and not rails_apart else 1), 1.0)


def _tree(design: Design, counts: Counts, leaf: Array, gpus_per_host: float) -> list[Tier]:
    """Leaves and pods, with the tapers of the design's bisection; columns of trees of equally many tiers."""
    c: Any = counts
    if c.tiers < 2:
        return []
    taper = _real(design.bisection_leaf / design.bisection_spine)
    hosts = leaf / gpus_per_host / (c.rails if c.by_rail else 1)
    links = _real(c.leaf_up)
    tiers = [Tier(leaf, taper, taper, hosts, c.leaf_up, _real(c.leaves_per_plane), links, links)]
    if c.tiers > 2:
        taper = _real(design.bisection_leaf / design.bisection_core)
        pod: Any = _leaves_of_pod(c) * leaf
        hosts = pod / gpus_per_host / (c.rails if c.layout == RAIL_ONLY or c.rails_apart else 1)
        uplinks = np.rint(hosts / taper).astype(np.int64) if isinstance(taper, np.ndarray) else round(hosts / taper)
        tiers.append(Tier(pod, taper, taper, hosts, uplinks, c.nodes * c.rails / hosts))
    return tiers


def _real(number: Any) -> Any:
    """A plain number, or a column."""
    return number.astype(np.float64) if isinstance(number, np.ndarray) else float(number)


def _mesh(counts: Counts, gpus_per_host: float, pinned: bool) -> list[Tier]:
    """Each switch with w links to every other, u in all: see `_direct`."""
    c = counts
    if c.leaves_per_plane < 2 or c.leaf_up < 1:
        return []
    others = c.leaves_per_plane - 1
    return [_direct(_hosts_each(c), c.leaf_up / others, others, gpus_per_host, pinned)]


def _hosts_each(counts: Counts) -> float:
    """Hosts on each switch of a network without tiers, spread evenly, as its bisection counts them [1]."""
    return counts.nodes * counts.rails / counts.leaves_per_plane


def _direct(hosts: float, between: float, others: int, gpus_per_host: float, pinned: bool) -> Tier:
    """A switch or group with links to each other one: O = d/u to all of them.

    To the next alone d/w on the links between the two, or twice the first by way of any third: adaptive routing takes
    the better, flows bound to a path take the shortest.
    """
    links = between * others
    spread, shortest = hosts / links, hosts / between
    tier = Tier(hosts * gpus_per_host, spread, min(shortest, 2 * spread), links=links, neighbour_links=between)
    return tier._replace(neighbour=shortest, others=others, leaves=others + 1.0) if pinned else tier


def _torus(counts: Counts, gpus_per_host: float, _pinned: bool) -> list[Tier]:
    """Blocks of a torus, doubling, and its half.

    A block of j^D switches has 2D·j^(D-1)·w links out, O = d·j/(2D·w); half a torus has two faces, O = d·k/(4w) across
    the longest side k. Rings run in all dimensions and both directions at once, whatever the routing.
    """
    c, dimensions = counts, 2 if counts.layout == TORUS_2D else 3
    width = c.leaf_up / (2 * dimensions)
    longest = float(torus_sides(c.leaves_per_plane, dimensions)[0])
    hosts, switches = _hosts_each(c), c.leaves_per_plane
    if switches < 2 or width <= 0:
        return []
    blocks = [2.0**step for step in range(int(np.log2(longest)))]
    tapers = [(hosts * side**dimensions, hosts * side / (2 * dimensions * width)) for side in blocks]
    tapers.append((hosts * switches / 2, hosts * longest / (4 * width)))
    links = float(c.leaf_up)
    return [Tier(inside * gpus_per_host, taper, taper, links=links, neighbour_links=width) for inside, taper in tapers]


def _dragonfly(counts: Counts, gpus_per_host: float, pinned: bool) -> list[Tier]:
    """Switches of a group with one link each, and where there are several, groups of a·p hosts with w: see `_direct`.

    In an all-to-all over G groups the links inside also carry what comes from other groups and goes there, and are as
    full as O = p(2G - 1)/(G·a - 1). Flows that take shortest paths between nodes at random are counted on the links
    inside where they stay in the group: a group has many exits to the others.
    """
    c = counts
    if c.leaves_per_plane < 2:
        return []
    each, groups = _hosts_each(c), max(c.units, 1)
    switches = c.leaves_per_plane // groups
    inside = _direct(each, 1.0, switches - 1, gpus_per_host, pinned)
    if groups < 2:
        return [inside]
    inside = inside._replace(spread=each * (2 * groups - 1) / (groups * switches - 1))
    between = max(c.leaf_down * switches // (groups - 1), 1)
    return [inside, _direct(each * switches, between, groups - 1, gpus_per_host, pinned)]
