"""Networks beside the compute fabric: storage and management, sized by the same machinery."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import N_DRAWS, Estimate
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.fabric import layouts
from app.plan.bill_of_materials import Network, build, draws_or_nan
from app.plan.cluster import Hardware
from app.plan.prices import PriceList
from app.plan.result import Links
from app.plan.scenario import Scenario
from app.plan.switches import candidates, choose

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


def networks(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, prices: PriceList, own: Network | None
) -> Iterator[AuxiliaryNetwork]:
    """Storage and management networks, sized by the same machinery."""
    plain: dict[str, Any] = {
        "topology": "fat-tree", "planes": 1, "management_links": 0, "nodes_per_unit": None, "switch": None,
        "tiers": None, "minimum_spines": 1, "spine_policy": "shared", "spine_oversubscription": 1.0,
    }  # fmt: skip
    racks = -(-hardware.nodes // hardware.platform.nodes_per_rack)
    boxes = sum(line.quantity for line in own.parts if line.role.endswith(" switch")) if own else 0
    if scenario.storage_network:
        rates = catalog.operations["storage"]
        links = hardware.platform.storage_nics
        servers = -(-hardware.nodes * links * rates["server_links"].typical // max(links, 1))
        there = replace(hardware, nodes=hardware.nodes + int(servers), nics_per_node=links)
        wish = scenario.model_copy(update=plain | {"oversubscription": rates["oversubscription"].typical})
        yield from _sized("storage", there, wish, catalog, prices, hardware.nodes * links)
    if scenario.management_network:
        rates = catalog.operations["management"]
        links = int(rates["in_band_links"].typical)
        ethernet = catalog.scale_out["tcp-100"]
        nic = catalog.nics[ethernet.nic] if ethernet.nic else None
        there = replace(hardware, scale_out=ethernet, nic=nic, nics_per_node=links)
        wish = scenario.model_copy(update=plain | {"oversubscription": rates["in_band_oversubscription"].typical})
        in_band = list(_sized("in-band management", there, wish, catalog, prices, 0))
        yield from in_band
        boxes += sum(network.leaf_switches + network.spine_switches for network in in_band)
        ports = round(
            hardware.nodes * rates["out_of_band_ports_per_node"].typical
            + racks * rates["out_of_band_ports_per_rack"].typical
            + boxes
        )
        yield _out_of_band(ports, int(rates["out_of_band_uplinks"].typical), catalog, prices)


def _sized(
    role: str, hardware: Hardware, scenario: Scenario, catalog: Catalog, prices: PriceList, adapters: int
) -> Iterator[AuxiliaryNetwork]:
    choices = candidates(hardware, scenario, catalog)
    if not choices or hardware.nics_per_node < 1:
        return
    choice, design = choose(choices, hardware, scenario, prices)
    if int(design.reason) != layouts.BUILT:
        return
    network = build(hardware, scenario, catalog, prices, choice, design, adapters)
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
    )


def _out_of_band(ports: int, uplinks: int, catalog: Catalog, prices: PriceList) -> AuxiliaryNetwork:
    """One switch for as many ports as it has, each with links to the in-band network."""
    switch, cable = catalog.switches["sn2201"], catalog.optics["cat6"]
    boxes = -(-ports // switch.ports)
    power = boxes * draws_or_nan(switch.power)
    runs = ports + boxes * uplinks
    prices_paid = prices.switch(switch), prices.optic(cable)
    cost = sum(costs.line(many, draws_or_nan(price)) for many, price in zip((boxes, runs), prices_paid, strict=True))
    return AuxiliaryNetwork(
        role="out-of-band management",
        switch=switch.key,
        leaf_switches=boxes,
        spine_switches=0,
        links=Links(ports, boxes * uplinks, 0),
        cost=np.asarray(cost),
        power=power + np.zeros(N_DRAWS),
        typical_power=power,
        rack_units=boxes * (switch.rack_units or 1),
        used=tuple(price for price in prices_paid if price),
        power_sources=(switch.power,) if switch.power else (),
    )
