"""The fabrics among which one is looked for: what decides of them, what networks share, and what is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.catalog.load import Catalog
from app.formulas.fabric import layouts
from app.plan.bill_of_materials import Cages
from app.plan.cluster import Cluster
from app.plan.kept import Kept
from app.plan.least_cost import Narrowed
from app.plan.leaves import LeafHosts
from app.plan.offers import Offers, offers
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair, designed, requested
from app.plan.tried_leaves import Options


class _Hosts(NamedTuple):
    """All that a fabric meets of a cluster.

    Attributes:
        nodes, nics_per_node, nodes_per_rack: how many, and where they stand [1].
        cage: rate of a cage of a node [B/s], and links that it carries.
        scale_out: key of the network generation.
    """

    nodes: int
    nics_per_node: int
    nodes_per_rack: int
    cage: tuple[float, int]
    scale_out: str

    @staticmethod
    def of(choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog) -> "_Hosts":
        """Those of a cluster; its cages are the same for every choice of switches."""
        cage = Cages.of(choice, cluster, request, catalog).node
        rack, network = cluster.platform.nodes_per_rack, cluster.scale_out.key
        return _Hosts(cluster.nodes, cluster.nics_per_node, rack, cage, network)


@dataclass(frozen=True, eq=False, slots=True)
class Family:
    """All that the choice of a fabric depends on but for its taper.

    A family equals itself alone, and clusters that agree in all of it share one, so that it is quick to look up.

    Attributes:
        choices, hosts, prices: the switches to choose from, what they join, and prices.
        wishes: what is asked of the fabric, in the order of a request's fields, without the taper.
    """

    choices: tuple[SwitchPair, ...]
    hosts: _Hosts
    wishes: tuple[Any, ...]
    prices: PriceList

    @property
    def joined(self) -> tuple[int, int]:
        """What is joined: those that agree in it share most of the fabrics that are tried for them."""
        return self.hosts.nodes, self.hosts.nics_per_node


TAPER = [*DesignRequest.model_fields].index("oversubscription")
"""The place of the taper among wishes."""
MOST_KEPT = 12_288
"""Fabrics that are kept: the whole catalogue asks for 8,300, a kilobyte each, whatever the job: of fewer none would
be found again.
"""
FEW_KEPT = 2_048
"""The same in a process that answers no question for many clusters: those of hundreds of plans."""
FAMILIES: Kept[tuple[Any, ...], Family] = Kept(MOST_KEPT)
"""What the choices of fabrics depend on that were asked for last."""


class FabricKey(NamedTuple):
    """All that the choice of a fabric depends on: clusters that agree in it share their fabrics.

    Attributes:
        family: what is the same for every taper.
        taper: ports down of a leaf for each up [1].
    """

    family: Family
    taper: float

    @staticmethod
    def of(choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList) -> "FabricKey":
        """That of a cluster."""
        hosts, wishes = _Hosts.of(choices[0], cluster, request, prices.catalog), request.wishes
        return FabricKey(
            _family(choices, hosts, wishes[:TAPER] + wishes[TAPER + 1 :], prices),
            request.oversubscription,
        )


def _family(*asked: Any) -> Family:
    """The one family with these fields."""
    if (known := FAMILIES.get(asked)) is None:
        FAMILIES.add(asked, known := Family(*asked))
    return known


class CommonOptions(NamedTuple):
    """What the networks of a family have in common.

    Attributes:
        offered: the switches on offer.
        request: what is asked of a fabric, but for its switches and leaves.
        hosts: what leaves are sized for.
    """

    offered: Offers
    request: layouts.FabricRequest
    hosts: LeafHosts

    @staticmethod
    def of(
        choices: tuple[SwitchPair, ...], cluster: Cluster, request: DesignRequest, prices: PriceList
    ) -> "CommonOptions":
        """That of the family of a network."""
        platform, network = cluster.platform.key, cluster.scale_out.key
        offered = offers(choices, prices, platform, network, request.planes, request.media or "")
        fabric = requested((0, 0), cluster, request)._replace(oversubscription=1.0)
        return CommonOptions(offered, fabric, LeafHosts.of(cluster, request))


class FewSwitches(NamedTuple):
    """Some of the choices of switches on offer, and what a fabric of any other costs at least [USD]."""

    offered: Offers
    others: float


ALONE = 50
"""Fabrics that take as long to try as what is done for each pair of switches, or size of leaves, by itself."""


class FabricSearch:
    """The fabrics that may be built for one cluster of one choice of switches or another.

    Attributes:
        key, cluster, request: what decides, the cluster, and what is asked of its fabric.
        common: what is common to its family.
        offered, others: the choices that are tried, and what all others cost at least [USD].
        options: what may be built.
        many_sizes: sizes of leaves that may be tried, besides tapers' own [1].
        narrowed, places: what is left out, if anything, and the places of the choices that are not.
    """

    __slots__ = (
        "cluster", "common", "key", "many_sizes", "narrowed", "offered", "options", "others", "places", "request",
    )  # fmt: skip

    def __init__(
        self,
        key: FabricKey,
        cluster: Cluster,
        request: DesignRequest,
        common: CommonOptions,
        few: FewSwitches | None = None,
    ) -> None:
        self.key = key
        self.cluster = cluster
        self.request = request
        self.common = common
        self.offered, self.others = few or (common.offered, np.inf)
        of_radix = {radix: common.hosts.sizes(radix, key.taper) for radix in self.offered.radices}
        sizes = {ports: of_radix[ports[0]] for ports in self.offered.ports}
        self.options = Options(common.request, self.offered, sizes, cluster.platform.nodes_per_rack)
        self.many_sizes = sum([len(its.hosts) for its in sizes.values()])
        self.narrow(None)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one fabric to choose of."""
        if self.many_sizes or len(self.offered.places) > 1 or self.others < np.inf:
            return True
        return sum([len(its.own) for its in self.options.sizes.values()]) > 1

    @property
    def tapered(self) -> bool:
        """Whether some of them fit narrower tapers."""
        return self.key.taper > 1 and self.common.hosts.is_tree

    def among_all(self) -> "FabricSearch":
        """The same among all switches on offer."""
        return FabricSearch(self.key, self.cluster, self.request, self.common)

    def narrow(self, narrowed: Narrowed | None) -> None:
        """Try some of the fabrics, or all."""
        self.narrowed = narrowed
        self.places: Sequence[int] = narrowed.places if narrowed else range(len(self.offered.places))

    @property
    def work_apart(self) -> int:
        """About how many fabrics take as long to try as what is done for each pair of switches, and for each size of
        leaves whose links are measured by themselves [1].
        """
        apart = self.many_sizes if self.request.topology == "fat-tree" else 0
        return ALONE * (len(self.options.sizes) + apart)

    @property
    def least(self) -> Sequence[float]:
        """What fabrics of each choice of switches that is tried cost at least, if it is known [USD]."""
        return self.narrowed.least if self.narrowed else [np.nan] * len(self.places)

    @property
    def left_out(self) -> Sequence[float]:
        """What all fabrics of each that are left out cost at least [USD]."""
        return self.narrowed.left_out if self.narrowed else [np.inf] * len(self.places)

    def within(self, place: int) -> Mapping[float, float]:
        """Of leaves of a choice of switches that fit a narrower taper, by the taper, the most that all cost that are
        left out [USD].
        """
        return self.narrowed.within.get(place, {}) if self.narrowed else {}

    def nearest(self) -> Chosen:
        """Where nothing can be built the design that comes nearest to being one."""
        plain = [
            Chosen(choice, designed(choice.ports, self.cluster, self.request, self.cluster.nodes))
            for choice, _ in self.offered.ends
        ]
        return min(plain, key=lambda chosen: (int(chosen.design.reason), -chosen.choice.radix))
