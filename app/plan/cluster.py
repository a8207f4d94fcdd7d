"""The hardware a scenario names, with every blank filled in from the catalogue."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from app.catalog.entries import Gpu, Nic, Platform, ScaleOut, ScaleUp
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.records import but, each_but
from app.plan.scenario import ClusterRequest, DesignRequest, NetworkRequest, Scenario, check_keys


@dataclass(frozen=True, eq=False)
class Cluster:
    """What a scenario is built of. Rates are per GPU and one direction.

    A cluster equals itself alone, and `resolve` makes one for one request, so that it can be part of a cache's key.
    """

    request: ClusterRequest
    gpu: Gpu
    platform: Platform
    scale_up: ScaleUp
    wiring: str
    domain: int
    full_domain: int
    """GPUs in a domain of a cluster that fills it; ``domain`` is of this one."""
    scale_out: ScaleOut
    nic: Nic | None
    gpus: int
    gpus_per_node: int
    nodes: int
    nics_per_node: int
    pcie: ScaleUp
    network_rate: float | None = None
    """Network rate of one GPU where it is not that of its share of the NICs [B/s]."""

    @property
    def rate_per_gpu(self) -> float | Estimate:
        """Network rate of one GPU, one direction: its share of its node's NICs, unless less is given [B/s]."""
        given, share = self.network_rate, self.nic_share
        return share if given is None or given > share.typical else given

    @property
    def nic_share(self) -> Estimate:
        """What one GPU has of its node's NICs, one direction [B/s]."""
        return self.scale_out.port_rate.times(self.nics_per_node / self.gpus_per_node)

    @property
    def used_per_node(self) -> int:
        """GPUs of a full node: as asked, or the platform's own [1]."""
        return self.request.gpus_per_node or self.platform.gpus_per_node

    @property
    def whole_node(self) -> int:
        """GPUs of a node as it is sold: the platform's, or more where so many are asked for [1]."""
        return max(self.used_per_node, self.platform.gpus_per_node)

    @property
    def unit_nodes(self) -> int:
        """Nodes of the smallest thing that is sold: one, or a rack where a scale-up domain spans its nodes [1]."""
        platform = self.platform
        rack = self.used_per_node <= platform.gpus_per_node < platform.scale_up_domain
        return platform.scale_up_domain // platform.gpus_per_node if rack else 1

    @property
    def unit_gpus(self) -> int:
        """GPUs that use the smallest thing that is sold in full [1]."""
        return self.unit_nodes * self.used_per_node

    @property
    def bought_nodes(self) -> int:
        """Nodes of whole racks, where racks are what is sold [1]."""
        return -(-self.gpus // self.unit_gpus) * self.unit_nodes

    @property
    def standing_nodes(self) -> int:
        """Nodes that are bought, those that stand by as spares too [1]."""
        return self.bought_nodes + self.request.spare_nodes

    @property
    def alike(self) -> Hashable:
        """What clusters have in common that differ in the number of their GPUs alone."""
        parts = self.gpu.key, self.platform.key, self.scale_up.key, self.scale_out.key
        nodes = self.gpus_per_node, self.used_per_node, self.nics_per_node, self.request.spare_nodes
        return parts, nodes, self.wiring, self.domain, self.full_domain, self.network_rate

    def with_gpus(self, gpus: int) -> "Cluster":
        """As many GPUs [1] in such nodes; its request stays that of this cluster."""
        return self.of_sizes([gpus])[0]

    def of_sizes(self, gpus: Sequence[int]) -> "list[Cluster]":
        """The same with each of some numbers of GPUs [1]."""
        return each_but(self, {"gpus": gpus, "nodes": [-(-many // self.gpus_per_node) for many in gpus]})

    def with_spares(self) -> "Cluster":
        """The cluster with its spare nodes among the others."""
        spares = self.request.spare_nodes
        return but(self, nodes=self.nodes + spares) if spares else self

    def fields(self) -> dict[str, Any]:
        """What the hardware fills into a scenario's blanks, by the scenario's names."""
        return {
            "platform": self.platform.key,
            "gpus_per_node": self.gpus_per_node,
            "nics_per_node": self.nics_per_node,
            "scale_up": self.scale_up.key,
            "scale_up_domain": self.domain,
            "scale_up_wiring": self.wiring,
        }


LOOKED_UP = 8
"""Sizes of a cluster that are looked up each by itself, so that what is kept of each is found again."""


def look_up(scenario: Scenario, catalog: Catalog) -> Cluster:
    """The cluster of a scenario."""
    check_keys(scenario, catalog)
    return resolve(scenario.part(ClusterRequest), scenario.part(NetworkRequest), catalog)


def look_up_sizes(scenario: Scenario, sizes: Sequence[int], catalog: Catalog) -> list[Cluster]:
    """The clusters of a scenario with other numbers of GPUs [1].

    Those that fill a node and a scale-up domain differ in nothing else, so that of more than a few one is looked up.
    """

    def of(gpus: int) -> Cluster:
        return look_up(scenario.model_copy(update={"gpus": gpus}), catalog)

    largest = of(max(sizes))
    full = max(largest.used_per_node, largest.full_domain) if len(sizes) > LOOKED_UP else np.inf
    filled = [gpus for gpus in sizes if gpus >= full]
    clusters = {gpus: of(gpus) for gpus in sizes if gpus < full} | dict(
        zip(filled, largest.of_sizes(filled), strict=True)
    )
    return [clusters[gpus] for gpus in sizes]


def resolve(request: ClusterRequest, network: DesignRequest, catalog: Catalog) -> Cluster:
    """Fill the blanks of a request with the platform's own values."""
    return _resolved(request, network.scale_out, network.nics_per_node, network.network_rate, catalog)


@lru_cache(maxsize=256)
def _resolved(
    request: ClusterRequest, network: str, nics_per_node: int | None, network_rate: float | None, catalog: Catalog
) -> Cluster:
    """The same from what a cluster's nodes have of the network.

    Kept: one cluster for equal requests is what keeps networks, 0.7 ms each.
    """
    gpu = catalog.gpus[request.gpu]
    platform = catalog.platforms[request.platform or gpu.platform]
    scale_up = catalog.scale_up[request.scale_up or gpu.scale_up]
    own_link = scale_up.key == gpu.scale_up
    gpus_per_node = min(request.gpus_per_node or platform.gpus_per_node, request.gpus)
    domain = request.scale_up_domain or (platform.scale_up_domain if own_link else _reach(platform, scale_up))
    if request.scale_up_domain is None and request.gpus_per_node and platform.scale_up_domain <= platform.gpus_per_node:
        domain = min(domain, gpus_per_node)
    scale_out = catalog.scale_out[network]
    nics = platform.nics_per_node if nics_per_node is None else nics_per_node
    if nics_per_node is None and gpus_per_node < platform.gpus_per_node:
        nics = -(-nics * gpus_per_node // platform.gpus_per_node)
    return Cluster(
        request=request,
        gpu=gpu,
        platform=platform,
        scale_up=scale_up,
        wiring=request.scale_up_wiring or (platform.scale_up_wiring if own_link else scale_up.wiring),
        domain=max(1, min(domain, request.gpus)),
        full_domain=domain,
        scale_out=scale_out,
        nic=catalog.nics[scale_out.nic] if scale_out.nic else None,
        gpus=request.gpus,
        gpus_per_node=gpus_per_node,
        nodes=-(-request.gpus // gpus_per_node),
        nics_per_node=nics,
        pcie=catalog.scale_up[platform.pcie],
        network_rate=network_rate,
    )


def _reach(platform: Platform, link: ScaleUp) -> int:
    """GPUs that meet over a link the platform does not come with: its node over PCIe, its own domain over any other."""
    node = platform.gpus_per_node
    return min(node if link.family == "pcie" else max(node, platform.scale_up_domain), link.largest_domain)


def counterpart(scale_out: ScaleOut, catalog: Catalog) -> ScaleOut | None:
    """The network of the other family whose port rate is nearest."""
    return _counterpart(scale_out.key, catalog)


@lru_cache(maxsize=256)
def _counterpart(key: str, catalog: Catalog) -> ScaleOut | None:
    """The same of a network by its key. Kept: a plan asks four times, 10 µs each, about the same few."""
    scale_out = catalog.scale_out[key]
    family = "roce" if scale_out.family == "infiniband" else "infiniband"
    rate = scale_out.port_rate.typical
    others = [entry for entry in catalog.scale_out.values() if entry.family == family]
    return min(others, key=lambda entry: abs(entry.port_rate.typical / rate - 1), default=None)
