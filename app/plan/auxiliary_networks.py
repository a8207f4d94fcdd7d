"""Networks beside the compute fabric: storage and management, sized by the same machinery."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.fabric import layouts
from app.plan.bill_of_materials import ZERO, Line, PricedDesign, draws_or_nan
from app.plan.cheapest_design import choose
from app.plan.cluster import Cluster
from app.plan.prices import PriceList
from app.plan.result import Finding, Links
from app.plan.scenario import NetworkRequest
from app.plan.switches import SwitchPair, candidates

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AuxiliaryNetwork:
    """A storage or management network."""

    role: str
    switch: str
    leaf_switches: int
    spine_switches: int
    links: Links
    cost: Floats
    power: Floats
    """Maximum power of switches with their modules [W]."""
    typical_power: Floats
    rack_units: int
    used: tuple[Estimate, ...]
    power_sources: tuple[Estimate, ...]
    lines: tuple[Line, ...]
    """What is bought, cables by their length."""
    spares: Estimate | None
    stock: Floats
    """Price of the parts kept in stock [USD]."""


def auxiliary_networks(
    cluster: Cluster, request: NetworkRequest, prices: PriceList, compute: PricedDesign | None
) -> Iterator[AuxiliaryNetwork]:
    """Storage and management networks that are switched on, sized by the same machinery as the compute network.

    They join the spare nodes too.
    """
    catalog = prices.catalog
    cluster = cluster.with_spares()
    sized: list[AuxiliaryNetwork] = []
    if request.storage_network:
        adapters = cluster.nodes * cluster.platform.storage_nics
        sized += _sized("storage", *_storage(cluster, catalog), prices, adapters)
    if request.management_network:
        sized += _sized("in-band management", *_in_band(cluster, catalog), prices, 0)
    yield from sized
    if request.management_network:
        rates = catalog.operations["management"]
        racks = -(-cluster.nodes // cluster.platform.nodes_per_rack)
        boxes = sum(line.quantity for line in compute.parts if line.role.endswith(" switch")) if compute else 0
        boxes += sum(network.leaf_switches + network.spine_switches for network in sized)
        ports = round(
            cluster.nodes * rates["out_of_band_ports_per_node"].typical
            + racks * rates["out_of_band_ports_per_rack"].typical
            + boxes
        )
        yield _out_of_band(ports, int(rates["out_of_band_uplinks"].typical), catalog, prices)


def storage_findings(cluster: Cluster, networks: tuple[AuxiliaryNetwork, ...]) -> Iterator[Finding]:
    """What a storage network that is asked for takes for granted, or why none is planned."""
    platform, port = cluster.platform, cluster.scale_out
    if not platform.storage_nics:
        yield Finding(
            "warning",
            "no-storage-ports",
            f"{platform.short_name} has no ports for storage in the catalogue beside those of the compute network: no "
            "storage network is planned.",
            ("storage_network", "platform"),
            "Leave it out where storage is reached over the compute network, or choose another server.",
            {"storage_network": False},
        )
    elif not any(network.role == "storage" for network in networks):
        yield Finding(
            "warning",
            "no-storage-network",
            f"No switches of {port.name} in the catalogue join the storage ports of {cluster.nodes:,} nodes: no "
            "storage network is planned.",
            ("storage_network", "scale_out"),
            "Leave it out, or choose another network.",
            {"storage_network": False},
        )
    else:
        yield Finding(
            "note",
            "storage-rate-assumed",
            f"Storage ports are taken to be those of the compute network, {port.name}: the catalogue does not know the "
            f"rate of the storage cards of {platform.short_name}. Slower ones need fewer and cheaper switches.",
            ("storage_network", "scale_out"),
            "Plan a storage network of another kind as a plan of its own.",
        )


Asked = tuple[tuple[SwitchPair, ...], Cluster, NetworkRequest]
"""Switches that may be taken, the cluster that they are to join, and how."""


def asked_beside(cluster: Cluster, request: NetworkRequest, catalog: Catalog) -> Iterator[Asked]:
    """What is asked of the fabrics of these networks, which can be chosen before, with those of other clusters."""
    cluster = cluster.with_spares()
    asked = [
        *([_storage(cluster, catalog)] if request.storage_network else ()),
        *([_in_band(cluster, catalog)] if request.management_network else ()),
    ]
    for hosts, plain in asked:
        choices = candidates(hosts, plain, catalog)
        if choices and hosts.nics_per_node:
            yield choices, hosts, plain


def _storage(cluster: Cluster, catalog: Catalog) -> tuple[Cluster, NetworkRequest]:
    """What a storage network joins, the nodes and their servers, and how."""
    rates, links = catalog.operations["storage"], cluster.platform.storage_nics
    servers = -(-cluster.nodes * links * rates["server_links"].typical // max(links, 1))
    hosts = replace(cluster, nodes=cluster.nodes + int(servers), nics_per_node=links)
    return hosts, _plain(rates["oversubscription"].typical)


def _in_band(cluster: Cluster, catalog: Catalog) -> tuple[Cluster, NetworkRequest]:
    """What an in-band management network joins, and how."""
    rates, ethernet = catalog.operations["management"], catalog.scale_out["tcp-100"]
    nic = catalog.nics[ethernet.nic] if ethernet.nic else None
    hosts = replace(cluster, scale_out=ethernet, nic=nic, nics_per_node=int(rates["in_band_links"].typical))
    return hosts, _plain(rates["in_band_oversubscription"].typical)


def _plain(oversubscription: float) -> NetworkRequest:
    """A plain fat tree, whatever the compute network is."""
    return NetworkRequest(topology="fat-tree", oversubscription=oversubscription)


def _sized(
    role: str, cluster: Cluster, request: NetworkRequest, prices: PriceList, adapters: int
) -> Iterator[AuxiliaryNetwork]:
    choices = candidates(cluster, request, prices.catalog)
    if not choices or cluster.nics_per_node < 1:
        return
    chosen = choose(choices, cluster, request, prices)
    design = chosen.design
    if int(design.reason) != layouts.BUILT:
        return
    network = PricedDesign(chosen, cluster, request, prices, adapters, "storage_nics")
    counts = network.counts
    links = Links(int(design.node_leaf), int(design.leaf_spine), int(design.spine_core))
    yield AuxiliaryNetwork(
        role=role,
        switch=network.choice.leaf.key,
        leaf_switches=counts.leaves,
        spine_switches=counts.spines + counts.cores,
        links=links,
        cost=network.cost,
        power=network.power,
        typical_power=network.typical_power,
        rack_units=network.rack_units,
        used=network.used,
        power_sources=network.power_sources,
        lines=tuple(network.lines),
        spares=network.spares,
        stock=network.stock,
    )


def _out_of_band(ports: int, uplinks: int, catalog: Catalog, prices: PriceList) -> AuxiliaryNetwork:
    """One switch for as many ports as it has, each with links to the in-band network."""
    switch, cable = catalog.switches["sn2201"], catalog.optics["cat6"]
    boxes = -(-ports // switch.ports)
    power = boxes * draws_or_nan(switch.power)
    runs = ports + boxes * uplinks
    drawn = np.asarray(power)
    lines = (
        Line("leaf switch", switch.name, switch.key, boxes, prices.switch(switch), drawn),
        Line("cable", cable.name, cable.key, runs, prices.optic(cable)),
    )
    return AuxiliaryNetwork(
        role="out-of-band management",
        switch=switch.key,
        leaf_switches=boxes,
        spine_switches=0,
        links=Links(ports, boxes * uplinks, 0),
        cost=np.asarray(sum(line.cost for line in lines)),
        power=drawn,
        typical_power=power,
        rack_units=boxes * (switch.rack_units or 1),
        used=tuple(line.price for line in lines if line.price),
        power_sources=(switch.power,) if switch.power else (),
        lines=lines,
        spares=None,
        stock=ZERO,
    )
