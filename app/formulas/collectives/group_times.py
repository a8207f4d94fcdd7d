"""Collectives of some ranks of a cluster, where these stand: what a training step and an all-reduce by itself share.

A group is given by its axes, each a stride and a size (see `fabric.placement`). From them follow the ranks that it has
in a scale-up domain, the domains that it spans, and what the network leaves it there; its time is the library's, or in
the ideal profile the textbook's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from app.formulas.arrays import Array, any_, shared, where
from app.formulas.collectives import ideal
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import (
    ALGORITHMS_OF,
    AlphaBeta,
    Calibration,
    exchange_transfer,
    least_time,
    shortest,
)
from app.formulas.fabric.placement import Axis, Site, group_size, members, network_share, slowest_split
from app.formulas.records import but


@dataclass(frozen=True, eq=False)
class Interconnect:
    """What joins the GPUs of clusters, however many they are and wherever they stand.

    Each equals itself alone, so that what follows from it can be kept: clusters of many sizes share it.

    Attributes:
        machine: GPUs in some domains; a group says by itself in how many, and what the network leaves it.
        inside_rate, inside_hop: rate and hop of the scale-up link in a group that stays inside a domain [B/s], [s].
        domain: GPUs that a ring reaches over that link [1].
        library: constants of the library.
        ideal: whether times are those of the textbook, at line rates.
        bridge: GPUs that a bridge of the scale-up link joins, where a domain holds more that meet over another.
    """

    machine: Machine
    inside_rate: Array
    inside_hop: Array
    domain: Array
    library: Calibration
    ideal: bool = False
    bridge: Machine | None = None

    def over_bridge(self, machine: Machine, joined: Array) -> Machine:
        """A machine whose ranks meet over the bridge where it joins them all."""
        if self.bridge is None or not any_(joined > 0):
            return machine
        return machine.but(
            **{name: where(joined > 0, getattr(self.bridge, name), getattr(machine, name)) for name in _LINK}
        )


@dataclass(frozen=True, eq=False)
class Links:
    """The links of a cluster, as any group of its GPUs meets them.

    Attributes:
        interconnect: what joins the GPUs.
        site: where they stand.
    """

    interconnect: Interconnect
    site: Site


_LINK = (
    "scale_up_rate", "scale_up_hop", "scale_up_line", "base_latency", "fill_one_domain", "mesh_peers", "ll128",
    "kernel_latency", "kernel_doubling", "one_shot_rate", "two_shot_rate", "two_shot_latency",
)  # fmt: skip
"""What the link inside a domain gives a machine."""


def bridged(links: Links, axes: Sequence[Axis]) -> Array:
    """1 where a bridge joins all of a group, else 0 [1].

    Args:
        links: of the cluster.
        axes: stride and size of each axis of a group [1].

    Source: Railyard.

    >>> from app.formulas.training.examples import LINKS
    >>> joined = LINKS.interconnect.machine.but(ranks_per_domain=2.0, scale_up_rate=3e11)
    >>> pairs = but(LINKS, interconnect=but(LINKS.interconnect, bridge=joined))
    >>> [bridged(pairs, [(1.0, size)]) for size in (2.0, 4.0)], bridged(LINKS, [(1.0, 2.0)])
    ([1.0, 0.0], 0.0)
    """
    bridge = links.interconnect.bridge
    if bridge is None:
        return 0.0
    return where(slowest_split(axes, bridge.ranks_per_domain, links.site.gpus).units <= 1, 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Group:
    """Equal groups of GPUs as one of them sees itself.

    Attributes:
        machine: the links, cut to its ranks.
        library: constants of the library.
        ideal: whether times are those of the textbook.
        least: whether times are those of the bytes alone, see :func:`library.least_time`.
        lines: its algorithms by collective, whatever the message, worked out once [1].
    """

    machine: Machine
    library: Calibration
    ideal: bool
    least: bool = False
    lines: dict[str, Mapping[str, AlphaBeta]] = field(default_factory=dict)

    @property
    def crosses(self) -> Array:
        """1 where the group has ranks in several domains, else 0 [1]."""
        return where(self.machine.domains > 1, 1.0, 0.0)

    def over_one_card(self) -> Group:
        """The same where a ring leaves each domain over the network card of one GPU."""
        return but(self, machine=self.machine.but(exits=1.0), lines={})


def group_of(links: Links, axes: Sequence[Axis], exchanging: bool = True) -> Group:
    """Groups over some axes, all of them sending at once.

    A group has g ranks in a domain and spans M of them, see `slowest_split`. It meets the scale-up link, ports and hops
    of the cluster, and of the network what `network_share` leaves it.

    Args:
        links: of the cluster.
        axes: stride and size of each axis of a group [1].
        exchanging: whether what the network leaves an all-to-all is wanted, which takes longest to work out.

    Returns:
        What a group has.

    Source: Railyard; agrees with the all-reduce of a cluster where the group is all of it.

    Eight replicas, eight ranks apart: each in a domain of its own.

    >>> from app.formulas.training.examples import LINKS
    >>> replicas = group_of(LINKS, [(8.0, 8.0)]).machine
    >>> float(replicas.ranks_per_domain), float(replicas.domains)
    (1.0, 8.0)
    """
    if any(isinstance(number, np.ndarray) for axis in axes for number in axis):
        return _group(links.interconnect, _standing(links, axes, exchanging))
    return _kept_group_of(links, tuple(axes), exchanging)


def known_group_of(links: Links, axes: Sequence[Axis], exchanging: bool = True) -> Group:
    """The same of arrays that many jobs on a cluster have in common, such as all degrees that a search tries.

    Args:
        links: of the cluster.
        axes: stride and size of each axis of a group [1].
        exchanging: as for `group_of`.

    Source: as for :func:`group_of`.

    >>> from app.formulas.training.examples import LINKS
    >>> some = known_group_of(LINKS, [(1.0, np.array([8.0, 16.0]))])
    >>> some.machine.domains, some is known_group_of(LINKS, [(1.0, np.array([8.0, 16.0]))])
    (array([1., 2.]), True)
    """
    return _known_group_of(links, tuple((_Numbers.of(stride), _Numbers.of(size)) for stride, size in axes), exchanging)


class _Numbers(NamedTuple):
    """Numbers by what they are, so that what follows from them can be kept.

    Attributes:
        shape: of the array, or none [1].
        content: its bytes [1].
    """

    shape: tuple[int, ...]
    content: bytes

    @classmethod
    def of(cls, numbers: Array) -> _Numbers:
        """The same of an array."""
        array = np.asarray(numbers, np.float64)
        return cls(array.shape, array.tobytes())

    @property
    def array(self) -> Array:
        """As an array."""
        array: Array = np.frombuffer(self.content).reshape(self.shape)[()]
        return array


@lru_cache(maxsize=128)
def _known_group_of(links: Links, axes: tuple[tuple[_Numbers, _Numbers], ...], exchanging: bool) -> Group:
    """Kept, with its algorithms, for the reason of `_kept_group`."""
    standing = _standing(links, [(stride.array, size.array) for stride, size in axes], exchanging)
    return _group(links.interconnect, standing)


class _Standing(NamedTuple):
    """How groups stand on an interconnect, and what that leaves them of the network.

    Attributes:
        local, domains, missing, emptiest, leaf_domains: see `Machine` [1].
        network: shares of the network rate of a ring, a tree, halving-doubling and an all-to-all; none where every
            group has all of it [1].
        joined: 1 where a bridge joins all of a group, else 0 [1].
    """

    local: Array
    domains: Array
    missing: Array
    emptiest: Array
    leaf_domains: Array
    network: tuple[Array, ...]
    joined: Array


def _standing(links: Links, axes: Sequence[Axis], exchanging: bool) -> _Standing:
    """How groups over some axes stand."""
    joining, site = links.interconnect, links.site
    exits, ideal = joining.machine.exits, joining.ideal
    local, domains, emptiest = slowest_split(axes, joining.domain, site.gpus)
    network: tuple[Array, ...] = ()
    if site.matters:
        network = (
            network_share(axes, "ring", site, exits),
            network_share(axes, "tree", site, exits),
            network_share(axes, "halving", site, exits) if ideal else 1.0,
            network_share(axes, "exchange", site) if exchanging else np.nan,
        )
    leaf_domains = members(axes, site.leaf) / local if ideal else joining.machine.leaf_domains
    missing = local * domains - group_size(axes)
    return _Standing(local, domains, missing, emptiest, leaf_domains, network, bridged(links, axes))


def _group(joining: Interconnect, standing: _Standing) -> Group:
    """Groups that stand so on an interconnect."""
    m, several = joining.machine, standing.domains > 1
    built = m.but(
        ranks_per_domain=standing.local,
        domains=standing.domains,
        missing=standing.missing,
        emptiest=standing.emptiest,
        scale_up_rate=where(several, m.scale_up_rate, joining.inside_rate),
        scale_up_hop=where(several, m.scale_up_hop, joining.inside_hop),
        leaf_domains=standing.leaf_domains,
        **dict(zip(_NETWORK, standing.network, strict=False)),
    )
    return Group(joining.over_bridge(built, standing.joined), joining.library, joining.ideal)


_NETWORK = ("ring_network", "tree_network", "halving_network", "exchange_network")


_kept_group = lru_cache(maxsize=128)(_group)
"""Kept with its algorithms: both are a tenth of a plan, and the same for every job, and in clusters of other sizes
whose groups stand alike.
"""


@lru_cache(maxsize=128)
def _kept_group_of(links: Links, axes: tuple[Axis, ...], exchanging: bool) -> Group:
    """Kept: how it stands is the same for every job on a cluster, or on several whose numbers are columns. Where a
    rack's ways out are drawn, so are shares.
    """
    standing = _standing(links, axes, exchanging)
    several = any(isinstance(number, np.ndarray) for number in (*standing, *standing.network))
    return (_group if several else _kept_group)(links.interconnect, standing)


def pair_of(links: Links, far: Array, network: Array, joined: Array = 0.0) -> Group:
    """Two neighbours of a longer chain: both in a domain, or in two.

    Args:
        links: of the cluster.
        far: 1 where they are in two domains, else 0 [1].
        network: share of the network rate that the chain is left with [1].
        joined: 1 where a bridge joins them, else 0 [1].

    Source: Railyard.

    >>> from app.formulas.training.examples import LINKS
    >>> float(pair_of(LINKS, 1.0, 1.0).machine.domains), float(pair_of(LINKS, 0.0, 1.0).machine.domains)
    (2.0, 1.0)
    """
    far, network, joined = shared(far), shared(network), shared(joined)
    if isinstance(far, np.ndarray) or isinstance(network, np.ndarray) or isinstance(joined, np.ndarray):
        return _pair_of(links.interconnect, far, network, joined)
    return _kept_pair_of(links.interconnect, far, network, joined)


def _pair_of(joining: Interconnect, far: Array, network: Array, joined: Array) -> Group:
    apart = far > 0
    two = joining.machine.but(
        ranks_per_domain=where(apart, 1.0, 2.0),
        domains=where(apart, 2.0, 1.0),
        missing=0.0,
        emptiest=np.inf,
        scale_up_rate=joining.inside_rate,
        scale_up_hop=joining.inside_hop,
        ring_network=network,
    )
    return Group(joining.over_bridge(two, joined), joining.library, joining.ideal)


_kept_pair_of = lru_cache(maxsize=64)(_pair_of)
"""Kept for the same reason."""


def known_pair_of(links: Links, far: Array, network: Array, joined: Array = 0.0) -> Group:
    """Two neighbours, as :func:`pair_of` has them, of chains that many jobs on a cluster have in common.

    Args:
        links: of the cluster.
        far: 1 where they are in two domains, else 0 [1].
        network: share of the network rate that the chain is left with [1].
        joined: as for `pair_of` [1].

    Source: as for :func:`pair_of`.

    >>> from app.formulas.training.examples import LINKS
    >>> known_pair_of(LINKS, np.array([0.0, 1.0]), 1.0).machine.domains
    array([1., 2.])
    """
    return _known_pair_of(links.interconnect, _Numbers.of(far), _Numbers.of(network), _Numbers.of(joined))


@lru_cache(maxsize=64)
def _known_pair_of(joining: Interconnect, far: _Numbers, network: _Numbers, joined: _Numbers) -> Group:
    return _pair_of(joining, far.array, network.array, joined.array)


class Groups(NamedTuple):
    """How groups are made.

    Attributes:
        group_of: of some axes, as :func:`group_of`.
        pair_of: of two neighbours, as :func:`pair_of`.
    """

    group_of: Callable[..., Group]
    pair_of: Callable[..., Group]


EACH = Groups(group_of, pair_of)
"""Each for its own job."""
KNOWN = Groups(known_group_of, known_pair_of)
"""For degrees that many jobs on a cluster have in common, such as all that a search tries."""


def _least(group: Callable[..., Group]) -> Callable[..., Group]:
    """Groups whose times are those of the bytes alone."""
    return lambda *args, **settings: but(group(*args, **settings), least=True)


LEAST = Groups(_least(group_of), _least(pair_of))
"""Such that no exchange takes less, and all take in proportion to their bytes."""

SAME_FORM = {"reduce-scatter": "all-gather"}
"""Collectives whose algorithms are those of another."""


def collective_time(group: Group, collective: str, message: Array) -> Array:
    """Time of a collective of a group: the library's own choice, or the quickest of the textbook's.

    Args:
        group: who takes part.
        collective: one of ``COLLECTIVES``.
        message: bytes as nccl-tests count them, S [B].

    Returns:
        Time with nothing else on the links [s]; none for one rank.

    Source: :func:`library.shortest`; in the ideal profile the textbook forms.

    >>> from app.formulas.training.examples import LINKS
    >>> node = group_of(LINKS, [(1.0, 8.0)])
    >>> [round(float(collective_time(node, name, 8e9)), 6) for name in ("all-reduce", "all-gather")]
    [0.14, 0.07]
    """
    if isinstance(message, np.ndarray):
        return _time(group, collective, message)
    return _kept_time(group, collective, message)


def _time(group: Group, collective: str, message: Array) -> Array:
    if group.ideal:
        return 0.0 * message if group.least else _ideal_time(group.machine, collective, message)
    form = SAME_FORM.get(collective, collective)
    if form not in group.lines:
        group.lines[form] = ALGORITHMS_OF[form](group.machine, group.library)
    if group.least:
        return least_time(message, group.machine, group.lines[form])
    return shortest(form, message, group.machine, group.library, group.lines[form])


_kept_time = lru_cache(maxsize=128)(_time)
"""Kept: micro-batches of many jobs, in clusters of many sizes, have the same layers."""


def _ideal_time(machine: Machine, collective: str, message: Array) -> Array:
    if collective == "all-reduce":
        times = ideal.ideal_all_reduce_times(message, machine).values()
        quickest: Array = np.fmin.reduce(np.array(np.broadcast_arrays(*times)))
        return quickest
    if collective == "all-to-all":
        return ideal.ideal_all_to_all_time(message, machine)
    return ideal.ideal_all_gather_time(message, machine)


def send_time(group: Group, volume: Array) -> Array:
    """Time in which two neighbours send one another as many bytes: an all-gather of both their shares.

    Args:
        group: the two.
        volume: bytes that each sends [B].

    Returns:
        Time [s].

    Source: Railyard.

    >>> from app.formulas.training.examples import LINKS
    >>> round(float(send_time(pair_of(LINKS, 1.0, 1.0), 1e9)), 6)  # 1 GB at 10 GB/s
    0.1
    """
    return collective_time(group, "all-gather", 2 * volume)


def exchange_time(group: Group, inside: Array, across: Array) -> Array:
    """Time in which each rank sends so many bytes to others of its domain and so many out of it.

    An all-to-all whose shares are not even: max(V_in/B, V_out/B_out), with the latency and the fill of the library's.

    Args:
        group: who takes part.
        inside: bytes that a rank sends inside its domain, V_in [B].
        across: bytes that it sends to other domains, V_out [B].

    Returns:
        Time [s]; none for one rank.

    Source: as for the library's all-to-all, which it is where all of S/n goes to each of n ranks.

    >>> from app.formulas.training.examples import LINKS
    >>> round(float(exchange_time(group_of(LINKS, [(1.0, 16.0)]), 7e9, 8e9)), 6)  # 8 GB at 10 GB/s
    0.8
    """
    m = group.machine
    if group.ideal:
        return 0.0 * inside if group.least else ideal.ideal_exchange_time(inside, across, m)
    transfer = exchange_transfer(inside, across, m, group.library)
    if not any_(m.ranks > 1):
        return 0.0
    form = "all-to-all"
    if form not in group.lines:
        group.lines[form] = ALGORITHMS_OF[form](m, group.library)
    line = but(group.lines[form]["ring"], rate=1.0)
    if group.least:
        return least_time(transfer, m, {"ring": line})
    return shortest(form, transfer, m, group.library, {"ring": line})
