"""From hardware and wishes to a fabric that can be bought: switches, cables, bisection, price, power.

The planner's switch and tiers are used where given; otherwise the cheapest switch of the generation that works.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from app import costs, fabric, units
from app.catalog import Catalog
from app.plan import beside, fabric_findings, published
from app.plan.bands import Band, Draws
from app.plan.beside import Beside
from app.plan.bill import LEVELS, Network, build, drawn
from app.plan.cabling import Cable, cable_list
from app.plan.hardware import Hardware
from app.plan.parts import BillLine, Bisection, Explanation, Fabric, FabricShape, Finding, Links, OtherNetwork, Term
from app.plan.prices import PriceList
from app.plan.switching import candidates, cheapest, designs, pick
from app.scenario import Scenario

__all__ = ["FabricDraft", "draft", "drawn"]

Floats = NDArray[np.float64]
LIGHT = 299_792_458.0
"""Speed of light in vacuum [m/s]."""


@dataclass(frozen=True)
class FabricDraft:
    """The fabric of a plan before its results are folded to bands."""

    hardware: Hardware
    scenario: Scenario
    network: Network | None
    others: tuple[Beside, ...]
    switch: str
    tiers: int | None
    nodes_per_unit: int | None
    taper: float
    hops: int
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explanations: Mapping[str, Explanation]
    matches: tuple[str, ...]

    @property
    def cost(self) -> Floats:
        """Price of the compute fabric [USD]."""
        return self.quantities["fabric.cost"].values

    def part(self, bands: Mapping[str, Band | None]) -> Fabric:
        """The fabric as every reader gets it."""
        network = self.network
        design, counts = (network.design, network.counts) if network else (None, None)
        named = {name.removeprefix("fabric."): band for name, band in bands.items() if name.startswith("fabric.")}
        return Fabric(
            topology=self.scenario.topology,
            approximate=fabric.LAYOUTS.index(self.scenario.topology) in fabric.APPROXIMATE,
            switch=self.switch,
            tiers=self.tiers,
            planes=self.scenario.planes,
            leaf_switches=counts.leaves if counts else None,
            spine_switches=counts.spines if counts else None,
            core_switches=counts.cores + counts.super_cores if counts else None,
            links=_links(design),
            bisection=tuple(
                Bisection(tier, named[f"bisection.{tier}.one_way"], named[f"bisection.{tier}.both_ways"])
                for tier in ("scale_up", "leaf", "spine", "core")
                if f"bisection.{tier}.one_way" in named
            ),
            bisection_per_gpu=named["bisection_per_gpu"],
            ports_free=_ports_free(design),
            largest_cluster=_largest(design, self.hardware.gpus_per_node),
            hops=self.hops if network else None,
            latency=named["latency"],
            cost=named["cost"],
            cost_per_host_port=named["cost_per_host_port"],
            cost_per_switch_port=named["cost_per_switch_port"],
            cost_per_gpu=named["cost_per_gpu"],
            cost_per_bisection=named["cost_per_bisection"],
            share_of_capital=bands.get("costs.fabric_share"),
            host_ports=int(design.hosts) if design else None,
            switch_ports=_switch_ports(network),
            power=named["power"],
            typical_power=named["typical_power"],
            bill_of_materials=tuple(self._bill(named)),
            matches=self.matches,
            networks=tuple(_other(other, named) for other in self.others),
            shape=_shape(network, self.hardware, self.scenario) if network else None,
            cages=network.cages if network else {},
            modules=sum(line.quantity for line in network.lines if line.role.endswith("module")) if network else None,
        )

    def _bill(self, named: Mapping[str, Band | None]) -> Iterator[BillLine]:
        for number, line in enumerate(self.network.lines if self.network else ()):
            yield BillLine(
                role=line.role,
                part=line.part,
                key=line.key,
                quantity=line.quantity,
                unit_price=named[f"bill.{number}.price"],
                cost=named[f"bill.{number}.cost"],
                power=named[f"bill.{number}.power"],
            )

    def cables(self) -> Iterator[Cable]:
        """The point-to-point list of the compute fabric, row by row."""
        if self.network is None:
            return iter(())
        kinds = {level: medium.cable.name if medium else "" for level, medium in self.network.media.items()}
        return cable_list(self.network.cabling, kinds)


def _shape(network: Network, hardware: Hardware, scenario: Scenario) -> FabricShape:
    counts, design = network.counts, network.design
    rate = hardware.scale_out.port_rate.typical / scenario.planes
    group = float(design.unit_hosts) if counts.tiers > 1 else 0.0
    return FabricShape(
        nodes=counts.nodes,
        rails=counts.rails,
        management_links=counts.management_links,
        units=counts.units,
        nodes_per_unit=counts.unit_nodes,
        leaves_per_unit=counts.leaves_per_unit,
        leaf_down=counts.leaf_down,
        leaf_up=counts.leaf_up,
        spine_down=counts.spine_down,
        spine_up=counts.spine_up,
        leaves=counts.leaves_per_plane,
        spines=counts.spines_per_plane,
        cores=counts.cores_per_plane,
        super_cores=counts.super_cores // counts.planes,
        peers=counts.peers // counts.planes,
        host_rate=rate,
        uplink_rate=rate,
        by_rail=counts.by_rail,
        rail_spines=counts.rail_spines and counts.by_rail,
        oversubscription=group / counts.leaf_up if counts.leaf_up and group else 1.0,
        spine_oversubscription=counts.spine_down / counts.spine_up if counts.spine_up else 1.0,
        family="infiniband" if hardware.scale_out.family == "infiniband" else "ethernet",
    )


def _links(design: fabric.Design | None) -> Links | None:
    if design is None:
        return None
    between = design.leaf_spine + design.peer
    return Links(int(design.node_leaf), int(between), int(design.spine_core + design.core_super_core))


def _ports_free(design: fabric.Design | None) -> dict[str, int]:
    if design is None:
        return {}
    counts = {
        "leaf": (design.leaf_switches, design.leaf_free),
        "spine": (design.spine_switches, design.spine_free),
        "core": (design.core_switches, design.core_free),
        "super_core": (design.super_core_switches, design.super_core_free),
    }
    return {tier: int(free) for tier, (switches, free) in counts.items() if switches > 0}


def _largest(design: fabric.Design | None, gpus_per_node: int) -> int | None:
    if design is None or not np.isfinite(design.most_nodes):
        return None
    return int(design.most_nodes) * gpus_per_node


def _switch_ports(network: Network | None) -> int | None:
    if network is None:
        return None
    counts = network.counts
    above = counts.spines + counts.cores + counts.super_cores
    return counts.leaves * network.choice.radix + above * network.choice.spine_radix


def _other(network: Beside, named: Mapping[str, Band | None]) -> OtherNetwork:
    return OtherNetwork(
        role=network.role,
        switch=network.switch,
        leaf_switches=network.leaf_switches,
        spine_switches=network.spine_switches,
        links=network.links,
        cost=named[f"{network.role}.cost"],
        power=named[f"{network.role}.power"],
    )


def draft(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> FabricDraft:
    """Design and price the scenario's fabric, and the networks beside it that are switched on."""
    prices = PriceList(scenario, catalog)
    findings: list[Finding] = []
    network: Network | None = None
    choices = candidates(hardware, scenario, catalog)
    if hardware.nodes > 1 and hardware.nics_per_node > 0:
        findings += fabric_findings.of_request(hardware, scenario, catalog)
        if choices:
            found = designs(choices, hardware, scenario)
            best = int(cheapest(choices, found, catalog, prices))
            choice, design = choices[best], pick(found, best)
            findings += fabric_findings.of_design(choice, design, hardware, scenario, catalog)
            refused = any(finding.severity == "error" for finding in findings)
            network = None if refused else build(hardware, scenario, catalog, prices, choice, design)
        else:
            findings.append(fabric_findings.too_slow(hardware, scenario, catalog))
    elif hardware.nodes <= 1:
        text = f"All {hardware.gpus} GPUs stand in one node: no network between nodes is needed or priced."
        findings.append(Finding("note", "one-node", text, ("gpus",)))
    if network:
        findings += fabric_findings.of_prices(prices, network)
        findings += fabric_findings.of_size(network, hardware, scenario)
    others = tuple(beside.networks(hardware, scenario, catalog, prices, network))
    built = network.design if network else None
    taper = float(built.bisection_leaf / built.bisection) if built and built.bisection > 0 else 1.0
    return FabricDraft(
        hardware=hardware,
        scenario=scenario,
        network=network,
        others=others,
        switch=network.choice.leaf.key if network else (choices[0].leaf.key if choices else scenario.switch or ""),
        tiers=network.counts.tiers if network else None,
        nodes_per_unit=network.counts.unit_nodes if network else scenario.nodes_per_unit,
        taper=max(1.0, taper),
        hops=int(built.hops) if built else 0,
        quantities=_quantities(hardware, scenario, catalog, network, others),
        findings=tuple(findings),
        explanations=_explanations(network, scenario, hardware) if network else {},
        matches=_matches(network, hardware, scenario) if network else (),
    )


# Results --------------------------------------------------------------------------------------------------------------


def _quantities(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    network: Network | None,
    others: tuple[Beside, ...],
) -> dict[str, Draws]:
    """Every figure of the fabric that is a band, by its name on the wire."""
    nothing, none_needed = np.full(257, np.nan), np.zeros(257)
    results: dict[str, Draws] = {}
    design = network.design if network else None
    alone = hardware.nodes <= 1
    rate = hardware.scale_out.port_rate
    link = rate.draws() / scenario.planes

    if hardware.domain > 1:
        bandwidth = hardware.scale_up.bandwidth
        if hardware.wiring == "mesh":
            within = fabric.mesh_bisection(hardware.domain, bandwidth.draws() / (hardware.domain - 1))
        else:
            within = fabric.scale_up_bisection(hardware.domain, bandwidth.draws())
        results["fabric.bisection.scale_up.one_way"] = Draws(np.asarray(within), "B/s", (bandwidth,))
        results["fabric.bisection.scale_up.both_ways"] = Draws(2 * np.asarray(within), "B/s", (bandwidth,))
    if design is not None:
        for tier in ("leaf", "spine", "core"):
            cut = getattr(design, f"bisection_{tier}")
            if np.isfinite(cut):
                results[f"fabric.bisection.{tier}.one_way"] = Draws(cut * link, "B/s", (rate,))
                results[f"fabric.bisection.{tier}.both_ways"] = Draws(2 * cut * link, "B/s", (rate,))
    whole = design.bisection * link if design is not None else nothing
    results["fabric.bisection_per_gpu"] = Draws(whole / hardware.gpus, "B/s", (rate,))

    cost = network.cost if network else (none_needed if alone else nothing)
    used = network.used if network else ()
    ports, switch_ports = (
        (float(design.hosts), float(_switch_ports(network) or 0)) if design is not None else (0.0, 0.0)
    )
    gigabit = units.parse("1 Gb/s", "B/s")
    results |= {
        "fabric.cost": Draws(cost, "USD", used),
        "fabric.cost_per_host_port": Draws(costs.per(cost, ports), "USD", used),
        "fabric.cost_per_switch_port": Draws(costs.per(cost, switch_ports), "USD", used),
        "fabric.cost_per_gpu": Draws(costs.per(cost, hardware.gpus), "USD", used),
        "fabric.cost_per_bisection": Draws(costs.per(cost, whole / gigabit), "USD", used),
    }
    switches = network.power_sources if network else ()
    results["fabric.power"] = Draws(network.power if network else (none_needed if alone else nothing), "W", switches)
    typical = network.typical_power if network else (none_needed if alone else nothing)
    results["fabric.typical_power"] = Draws(typical, "W", switches)
    results["fabric.latency"] = _latency(hardware, catalog, network)
    for number, line in enumerate(network.lines if network else ()):
        results[f"fabric.bill.{number}.price"] = Draws(line.price, "USD", line.used)
        results[f"fabric.bill.{number}.cost"] = Draws(line.cost, "USD", line.used)
        results[f"fabric.bill.{number}.power"] = Draws(line.power, "W", switches if line.power.any() else ())
    for other in others:
        results[f"fabric.{other.role}.cost"] = Draws(other.cost, "USD", other.used)
        results[f"fabric.{other.role}.power"] = Draws(other.power, "W", other.power_sources)
    return results


def _latency(hardware: Hardware, catalog: Catalog, network: Network | None) -> Draws:
    """Longest shortest path: every switch on it, and light in the longest cable of every level, up and down."""
    if network is None:
        return Draws(np.full(257, np.nan), "s")
    leaf = network.choice.leaf.latency or hardware.scale_out.switch_latency
    spine = network.choice.spine.latency or hardware.scale_out.switch_latency
    speed = catalog.operations["cables"]["signal_speed"]
    lengths = [max(runs) for level in LEVELS if (runs := getattr(network.cabling, level))]
    light = 2 * sum(lengths) / (LIGHT * speed.draws())
    hops = int(network.design.hops)
    above = max(hops - 2, 0) if network.counts.spines else 0
    switches = costs.line(hops - above, drawn(leaf)) + costs.line(above, drawn(spine))
    return Draws(switches + light, "s", tuple(used for used in (leaf, spine, speed) if used))


# Published designs ----------------------------------------------------------------------------------------------------


@cache
def _published() -> tuple[published.Row, ...]:
    return tuple(published.read())


def _matches(network: Network, hardware: Hardware, scenario: Scenario) -> tuple[str, ...]:
    """Names of the published designs that this one equals in nodes, rates, switches and links."""
    counts, design = network.counts, network.design
    mine = {
        "n_nodes": counts.nodes,
        "nics_per_node": counts.rails,
        "planes": counts.planes,
        "leaf": counts.leaves,
        "spine": counts.spines,
        "core": counts.cores,
        "node_leaf_cables": int(design.node_leaf),
        "leaf_spine_cables": int(design.leaf_spine),
        "spine_core_cables": int(design.spine_core),
    }
    found = []
    for row in _published():
        if row.text("role") != "compute" or row.number("leaf") is None or row.number("spine") is None:
            continue
        rate = row.number("nic_gbps")
        if rate is None or units.parse(f"{rate} Gb/s", "B/s") != hardware.scale_out.port_rate.typical:
            continue
        ethernet = row.text("fabric").startswith("Ethernet")
        if ethernet == (hardware.scale_out.family == "infiniband"):
            continue
        per_cable = row.number("links_per_cable") or 1
        printed = {
            name: value * (per_cable if name.endswith("_cables") else 1)
            for name in mine
            if (value := row.number(name)) is not None
        }
        if all(mine[name] == value for name, value in printed.items()):
            found.append(row.title)
    return tuple(found)


def _explanations(network: Network, scenario: Scenario, hardware: Hardware) -> dict[str, Explanation]:
    """The planner's own numbers in the formulas of the fabric."""
    counts, design, choice = network.counts, network.design, network.choice

    def count(symbol: str, meaning: str, value: float, source: str = "") -> Term:
        return Term(symbol, meaning, float(value), "1", source)

    radix = count("k", "ports of a switch at link speed", choice.radix, choice.leaf.source)
    sized = (
        count("N", "nodes", counts.nodes),
        count("R", "NICs of a node", counts.rails),
        count("M", "fabric-manager links", counts.management_links),
        radix,
        count("d", "hosts a leaf takes", counts.leaf_down),
        count("o", "oversubscription", scenario.oversubscription),
        count("SU", "units", counts.units),
        count("L", "leaf switches", counts.leaves),
    )
    spines = (*sized[3:], count("u", "uplinks of a leaf", counts.leaf_up), count("S", "spine switches", counts.spines))
    rate = hardware.scale_out.port_rate
    cut = (
        count("n", "host ports", float(design.hosts)),
        count("o", "oversubscription across the whole fabric", float(design.bisection_leaf / design.bisection)),
        Term("B", "rate of a link, one way", rate.typical / scenario.planes, "B/s", rate.source),
    )
    money = tuple(
        Term(
            "C",
            f"{line.quantity:,} × {line.part}",
            float(line.cost[0]),
            "USD",
            line.used[0].source if line.used else "",
        )
        for line in network.lines
    )
    return {
        "fabric.leaf_switches": Explanation("fabric.design", sized),
        "fabric.spine_switches": Explanation("fabric.smallest_divisor", spines),
        "fabric.bisection": Explanation("fabric.bisection", cut),
        "fabric.cost": Explanation("costs.line", money),
        "fabric.cost_per_host_port": Explanation(
            "costs.per",
            (Term("C", "fabric", float(network.cost[0]), "USD"), count("n", "NIC ports", float(design.hosts))),
        ),
        "fabric.cost_per_switch_port": Explanation(
            "costs.per",
            (
                Term("C", "fabric", float(network.cost[0]), "USD"),
                count("n", "ports of all switches", float(_switch_ports(network) or 0)),
            ),
        ),
    }
