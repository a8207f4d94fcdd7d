"""From hardware and wishes to a fabric that can be bought: switches, cables, bisection, price, power.

The planner's switch and tiers are used where given; otherwise the cheapest switch of the generation that works.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app import costs, fabric, units
from app.catalog import Catalog, Estimate
from app.catalog.types import Optic, Switch
from app.plan import published
from app.plan.bands import Band, Draws
from app.plan.cabling import Cable, Cabling, Counts, Floor, Medium, cable_list, media, switch_cage
from app.plan.hardware import Hardware
from app.plan.parts import BillLine, Bisection, Explanation, Fabric, Finding, Links, OtherNetwork, Term
from app.plan.prices import PriceList
from app.scenario import Scenario

Floats = NDArray[np.float64]
LIGHT = 299_792_458.0
"""Speed of light in vacuum [m/s]."""
LEVELS = ("node_leaf", "leaf_spine", "spine_core", "core_super_core", "peer")


def drawn(estimate: Estimate | None) -> Floats:
    """Draws of an estimate; not a number where there is none."""
    return estimate.draws() if estimate else np.full(257, np.nan)


@dataclass(frozen=True)
class Choice:
    """A switch for the leaves and one for the tiers above, and how each port is split into links."""

    leaf: Switch
    spine: Switch
    leaf_split: int
    spine_split: int

    @property
    def radix(self) -> int:
        return self.leaf.ports * self.leaf_split

    @property
    def spine_radix(self) -> int:
        return self.spine.ports * self.spine_split


@dataclass(frozen=True)
class Line:
    """A line of the bill of materials before its prices are folded."""

    role: str
    part: str
    key: str
    quantity: int
    price: Floats
    cost: Floats
    power: Floats
    used: tuple[Estimate, ...] = ()


@dataclass(frozen=True)
class Network:
    """A designed and priced network: the compute fabric, or one beside it."""

    choice: Choice
    design: fabric.Design
    counts: Counts
    cabling: Cabling
    media: Mapping[tuple[str, float], Medium | None]
    lines: tuple[Line, ...]
    rack_units: int

    @cached_property
    def cost(self) -> Floats:
        return np.asarray(sum(line.cost for line in self.lines), dtype=np.float64)

    @cached_property
    def power(self) -> Floats:
        """Maximum power of switches with their modules [W]."""
        return np.asarray(sum(line.power for line in self.lines), dtype=np.float64)

    typical_power: Floats = field(default_factory=lambda: np.full(257, np.nan))

    @property
    def used(self) -> tuple[Estimate, ...]:
        return tuple({estimate.key: estimate for line in self.lines for estimate in line.used}.values())


@dataclass(frozen=True)
class Beside:
    """A storage or management network."""

    role: str
    switch: str
    leaf_switches: int
    spine_switches: int
    links: Links
    lines: tuple[Line, ...]
    typical_power: Floats
    rack_units: int
    power_sources: tuple[Estimate, ...]

    @cached_property
    def cost(self) -> Floats:
        return np.asarray(sum(line.cost for line in self.lines), dtype=np.float64)

    @cached_property
    def power(self) -> Floats:
        """Maximum power of switches with their modules [W]."""
        return np.asarray(sum(line.power for line in self.lines), dtype=np.float64)

    @property
    def used(self) -> tuple[Estimate, ...]:
        return tuple({estimate.key: estimate for line in self.lines for estimate in line.used}.values())


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
        kinds = {place: medium.cable.name if medium else "" for place, medium in self.network.media.items()}
        return cable_list(self.network.cabling, kinds)


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


# Choosing a switch ----------------------------------------------------------------------------------------------------


def splits(switch: Switch, rate: float) -> int:
    """Links of some rate that one port carries; 0 when the port is too slow."""
    ratio = switch.port_rate.typical / rate
    fitting = [ways for ways in switch.breakout if ways <= ratio * (1 + 1e-9)]
    return max(fitting, default=0)


def candidates(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> list[Choice]:
    """Leaf and spine switches worth trying, the usual one first."""
    rate = hardware.scale_out.port_rate.typical / scenario.planes
    if scenario.switch:
        switches = [catalog.switches[scenario.switch]]
    else:
        switches = [catalog.switches[key] for key in hardware.scale_out.switches]
        shipping = [switch for switch in switches if switch.status not in ("announced", "projected")]
        switches = shipping or switches
    switches = [switch for switch in switches if splits(switch, rate)]
    leaves = [switch for switch in switches if not switch.chassis] or switches
    chosen = []
    for leaf in leaves:
        for spine in [leaf, *(switch for switch in switches if switch.chassis and switch is not leaf)]:
            chosen.append(Choice(leaf, spine, splits(leaf, rate), splits(spine, rate)))
    return chosen


def designs(
    choices: list[Choice], hardware: Hardware, scenario: Scenario, nodes: Any = None, **changes: Any
) -> fabric.Design:
    """The fabric of every choice, last axis; ``nodes`` may be an array with an axis of its own before it."""
    arguments: dict[str, Any] = {
        "spine_radix": np.array([choice.spine_radix for choice in choices]),
        "planes": scenario.planes,
        "oversubscription": scenario.oversubscription,
        "spine_oversubscription": scenario.spine_oversubscription,
        "nodes_per_unit": scenario.nodes_per_unit or 0,
        "management_links": scenario.management_links,
        "minimum_spines": scenario.minimum_spines,
        "rail_spines": scenario.spine_policy == "rail",
        "tiers": scenario.tiers or 0,
        "layout": fabric.LAYOUTS.index(scenario.topology),
    }
    radix = np.array([choice.radix for choice in choices])
    at = hardware.nodes if nodes is None else nodes
    return fabric.design(at, hardware.nics_per_node, radix, **(arguments | changes))


def rough_cost(choices: list[Choice], found: fabric.Design, catalog: Catalog, prices: PriceList) -> NDArray[np.float64]:
    """Typical price of switches and the modules in them, for choosing among them [USD]."""

    def box(switch: Switch) -> float:
        price = prices.switch(switch)
        return price.typical / switch.switches_per_box if price else np.inf

    def end(switch: Switch, split: int) -> float:
        if switch.co_packaged:
            return 0.0
        rate, links = switch_cage(switch, split)
        fitting = [
            optic for optic in catalog.optics.values() if optic.kind == "transceiver" and optic.rate.typical == rate
        ]
        known = [price.typical for price in map(prices.optic, fitting) if price]
        return min(known, default=0.0) / links

    leaf = np.array([box(choice.leaf) for choice in choices])
    spine = np.array([box(choice.spine) for choice in choices])
    leaf_end = np.array([end(choice.leaf, choice.leaf_split) for choice in choices])
    spine_end = np.array([end(choice.spine, choice.spine_split) for choice in choices])
    above = found.switches - found.leaf_switches
    upper_ends = found.leaf_spine + 2 * (found.spine_core + found.core_super_core)
    leaf_ends = found.node_leaf + found.leaf_spine + 2 * found.peer
    boxes = costs.line(found.leaf_switches, leaf) + costs.line(above, spine)
    return np.asarray(boxes + leaf_ends * leaf_end + upper_ends * spine_end)


# The draft ------------------------------------------------------------------------------------------------------------


def draft(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> FabricDraft:
    """Design and price the scenario's fabric, and the networks beside it that are switched on."""
    prices = PriceList(scenario, catalog)
    findings: list[Finding] = []
    network: Network | None = None
    choices = candidates(hardware, scenario, catalog)
    if hardware.nodes > 1 and hardware.nics_per_node > 0:
        findings += _of_request(hardware, scenario, catalog)
        if choices:
            found = designs(choices, hardware, scenario)
            best = _cheapest(choices, found, catalog, prices)
            choice, design = choices[best], _pick(found, best)
            findings += _of_design(choice, design, hardware, scenario, catalog)
            refused = any(finding.severity == "error" for finding in findings)
            network = None if refused else build(hardware, scenario, catalog, prices, choice, design)
        else:
            findings.append(_too_slow(hardware, scenario, catalog))
    elif hardware.nodes <= 1:
        text = f"All {hardware.gpus} GPUs stand in one node: no network between nodes is needed or priced."
        findings.append(Finding("note", "one-node", text, ("gpus",)))
    others = tuple(_beside(hardware, scenario, catalog, prices, network)) if hardware.nodes >= 1 else ()
    quantities = _quantities(hardware, scenario, catalog, network, others)
    if network:
        findings += _of_prices(prices, network)
        findings += _of_size(network, hardware, scenario)
    design_or_none = network.design if network else None
    taper = float(design_or_none.bisection_leaf / design_or_none.bisection) if design_or_none else 1.0
    return FabricDraft(
        hardware=hardware,
        scenario=scenario,
        network=network,
        others=others,
        switch=network.choice.leaf.key if network else (choices[0].leaf.key if choices else scenario.switch or ""),
        tiers=network.counts.tiers if network else None,
        nodes_per_unit=network.counts.unit_nodes if network else scenario.nodes_per_unit,
        taper=max(1.0, taper) if np.isfinite(taper) else 1.0,
        hops=int(design_or_none.hops) if design_or_none else 0,
        quantities=quantities,
        findings=tuple(findings),
        explanations=_explanations(network, scenario, hardware) if network else {},
        matches=_matches(network, hardware, scenario) if network else (),
    )


def _pick(found: fabric.Design, index: int) -> fabric.Design:
    """One design of an array of them."""
    return fabric.Design(**{name: np.asarray(getattr(found, name))[..., index] for name in vars(found)})


def _cheapest(choices: list[Choice], found: fabric.Design, catalog: Catalog, prices: PriceList) -> int:
    """Index of the choice to build: the cheapest that works; where none works, the one that carries most."""
    built = found.reason == fabric.BUILT
    if not np.any(built):
        order = found.reason * 10_000 - np.array([choice.radix for choice in choices])
        return int(np.argmin(order))
    cost = np.where(built, rough_cost(choices, found, catalog, prices), np.inf)
    if not np.any(np.isfinite(cost)):
        cost = np.where(built, found.switches, np.inf)
    return int(np.argmin(cost))


def build(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    prices: PriceList,
    choice: Choice,
    design: fabric.Design,
    adapters: int | None = None,
) -> Network:
    """Cable and price a design; ``adapters`` is how many NICs to buy where not one for every host."""
    counts = Counts(
        layout=fabric.LAYOUTS.index(scenario.topology),
        nodes=hardware.nodes,
        rails=hardware.nics_per_node,
        planes=scenario.planes,
        tiers=int(design.tiers),
        units=int(design.units),
        unit_nodes=int(design.unit_nodes),
        leaf_down=int(design.leaf_down),
        leaf_up=int(design.leaf_up),
        spine_down=int(design.spine_down),
        spine_up=int(design.spine_up),
        core_up=int(design.core_up),
        leaves=int(design.leaf_switches),
        spines=int(design.spine_switches),
        cores=int(design.core_switches),
        super_cores=int(design.super_core_switches),
        management_links=scenario.management_links,
        peers=int(design.peer),
        rail_spines=scenario.spine_policy == "rail" or scenario.topology == "rail-only",
    )
    leaf_units = (choice.leaf.rack_units or 1) / choice.leaf.switches_per_box
    cabling = Cabling(counts, Floor.of(catalog, hardware.platform.nodes_per_rack), choice.spine.rack_units or 1)
    cages = catalog.operations["node_cage_links"]
    own = hardware.scale_out.port_rate.typical == hardware.platform.nic_rate.typical
    own_cage = int(cages.get(hardware.platform.key if own else "default", cages["default"]).typical)
    link_rate = hardware.scale_out.port_rate.typical / scenario.planes
    node_cage = (link_rate * own_cage * scenario.planes, own_cage * scenario.planes)
    leaf_cage = switch_cage(choice.leaf, choice.leaf_split)
    spine_cage = switch_cage(choice.spine, choice.spine_split)
    ends = {
        "node_leaf": (node_cage, leaf_cage, (False, choice.leaf.co_packaged)),
        "leaf_spine": (leaf_cage, spine_cage, (choice.leaf.co_packaged, choice.spine.co_packaged)),
        "spine_core": (spine_cage, spine_cage, (choice.spine.co_packaged, choice.spine.co_packaged)),
        "core_super_core": (spine_cage, spine_cage, (choice.spine.co_packaged, choice.spine.co_packaged)),
        "peer": (leaf_cage, leaf_cage, (choice.leaf.co_packaged, choice.leaf.co_packaged)),
    }
    runs: dict[tuple[str, float], int] = {
        (level, metres): links for level in LEVELS for metres, links in getattr(cabling, level).items()
    }
    # One kind of cable for each level: the longest run decides, so that spares fit everywhere.
    carried: dict[tuple[str, float], Medium | None] = {}
    for level in LEVELS:
        lengths = [metres for place, metres in runs if place == level]
        if lengths:
            medium = media(catalog, prices, max(lengths), *ends[level])
            carried |= {(level, metres): medium for metres in lengths}
    lines = _bill_of_materials(
        hardware, catalog, prices, choice, counts, runs, carried, ends, adapters, scenario.spares
    )
    switches = [(choice.leaf, counts.leaves), (choice.spine, counts.spines + counts.cores + counts.super_cores)]
    modules = sum(
        (
            line.quantity * drawn(catalog.optics[line.key].power)
            for line in lines
            if line.role.endswith("switch module")
        ),
        np.zeros(257),
    )
    typical = sum((_boxes(switch, many) * drawn(switch.power) for switch, many in switches if many), modules)
    above = counts.spines + counts.cores + counts.super_cores
    spine_units = (choice.spine.rack_units or 1) / choice.spine.switches_per_box
    return Network(
        choice=choice,
        design=design,
        counts=counts,
        cabling=cabling,
        media=carried,
        lines=tuple(lines),
        rack_units=round(counts.leaves * leaf_units + above * spine_units),
        typical_power=np.asarray(typical),
    )


def _boxes(switch: Switch, switches: int) -> int:
    return -(-switches // switch.switches_per_box)


def _bill_of_materials(
    hardware: Hardware,
    catalog: Catalog,
    prices: PriceList,
    choice: Choice,
    counts: Counts,
    runs: Mapping[tuple[str, float], int],
    carried: Mapping[tuple[str, float], Medium | None],
    ends: Mapping[str, tuple[tuple[float, int], tuple[float, int], tuple[bool, bool]]],
    adapters: int | None,
    own_spares: float | None,
) -> list[Line]:
    """NICs, switches, modules, cables and spares, each a line."""
    zero = np.zeros(257)
    lines: list[Line] = []

    def add(role: str, part: str, key: str, quantity: int, price: Estimate | None, power: Floats = zero) -> None:
        if quantity:
            each = drawn(price)
            used = (price,) if price else ()
            lines.append(Line(role, part, key, quantity, each, costs.line(quantity, each), power, used))

    nics = counts.nodes * counts.rails if adapters is None else adapters
    nic = hardware.nic
    add("NIC", nic.name if nic else "NIC", nic.key if nic else "", nics,
        prices.nic(nic, hardware.scale_out.family) if nics else None)  # fmt: skip

    # Modules by the switch tier they sit in: cages are filled box by box.
    inside: dict[tuple[str, str], int] = {}
    at_nodes: dict[str, int] = {}
    managers: dict[str, int] = {}
    cables: dict[tuple[str, float], int] = {}
    tiers_of = {
        "node_leaf": ("node", "leaf"),
        "leaf_spine": ("leaf", "spine"),
        "spine_core": ("spine", "core"),
        "core_super_core": ("core", "super-core"),
        "peer": ("leaf", "leaf"),
    }
    manager_links = counts.management_links * counts.planes
    for (level, metres), links in runs.items():
        medium = carried[level, metres]
        near_tier, far_tier = tiers_of[level]
        if medium is None:
            continue
        per_cable = 1 if medium.kind == "optical" else ends[level][1][1]
        key = medium.cable.key
        cables[key, metres] = cables.get((key, metres), 0) + -(-links // per_cable)
        for tier, module in ((near_tier, medium.near), (far_tier, medium.far)):
            if module is None:
                continue
            if tier == "node":
                hosts = links - (
                    manager_links if metres == min(cabled for place, cabled in runs if place == level) else 0
                )
                at_nodes[module.key] = at_nodes.get(module.key, 0) + max(hosts, 0)
                managers.setdefault(module.key, manager_links)
            else:
                inside[tier, module.key] = inside.get((tier, module.key), 0) + links
    switches = {"leaf": counts.leaves, "spine": counts.spines, "core": counts.cores, "super-core": counts.super_cores}
    held: dict[str, Floats] = dict.fromkeys(switches, zero)
    modules: list[tuple[str, Optic, int]] = []
    for (tier, key), links in inside.items():
        split = choice.leaf_split if tier == "leaf" else choice.spine_split
        box = choice.leaf if tier == "leaf" else choice.spine
        filled = int(fabric.twin_modules(links, box.ports_per_cage * split, switches[tier]))
        optic = catalog.optics[key]
        modules.append((f"{tier} switch module", optic, filled))
        held[tier] = held[tier] + filled * drawn(optic.power)
    for tier, many in switches.items():
        box = choice.leaf if tier == "leaf" else choice.spine
        boxes = _boxes(box, many)
        most = box.maximum_power or box.power
        included = bool(box.maximum_power and box.maximum_power_includes_modules)
        power = costs.switch_power(boxes, drawn(most), 1, held[tier], included)
        add(f"{tier} switch", box.name, box.key, boxes, prices.switch(box), power if boxes else zero)
    for role, optic, filled in modules:
        add(role, optic.name, optic.key, filled, prices.optic(optic))
    for key, links in at_nodes.items():
        optic, per_module = catalog.optics[key], ends["node_leaf"][0][1]
        add(
            "node module",
            optic.name,
            key,
            int(fabric.twin_modules(links, per_module, counts.nodes)),
            prices.optic(optic),
        )
    for key, links in managers.items():
        optic = catalog.optics[key]
        add("fabric-manager module", optic.name, key, links, prices.optic(optic))
    for (key, metres), many in sorted(cables.items()):
        optic = catalog.optics[key]
        add(f"cable, {metres:g} m", optic.name, key, many, prices.optic(optic))
    spares = prices.rate("spares")
    share = drawn(spares)
    parts = np.asarray(sum((line.cost for line in lines), zero))
    spare_cost = np.where(share == 0, 0.0, costs.with_spares(parts, share) - parts)
    used = (spares, *(estimate for line in lines for estimate in line.used))
    lines.append(Line("spares", f"{spares.typical:.0%} of all parts", "spares", 1, spare_cost, spare_cost, zero, used))
    return lines


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
        results["fabric.bisection.scale_up.one_way"] = Draws(within, "B/s", (bandwidth,))
        results["fabric.bisection.scale_up.both_ways"] = Draws(2 * within, "B/s", (bandwidth,))
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
    switches = _power_sources(network)
    results["fabric.power"] = Draws(network.power if network else (none_needed if alone else nothing), "W", switches)
    typical = network.typical_power if network else (none_needed if alone else nothing)
    results["fabric.typical_power"] = Draws(typical, "W", switches)
    results["fabric.latency"] = _latency(hardware, catalog, network)
    for number, line in enumerate(network.lines if network else ()):
        results[f"fabric.bill.{number}.price"] = Draws(line.price, "USD", line.used)
        results[f"fabric.bill.{number}.cost"] = Draws(line.cost, "USD", line.used)
        results[f"fabric.bill.{number}.power"] = Draws(line.power, "W")
    for other in others:
        results[f"fabric.{other.role}.cost"] = Draws(other.cost, "USD", other.used)
        results[f"fabric.{other.role}.power"] = Draws(other.power, "W", other.power_sources)
    return results


def _power_sources(network: Network | None) -> tuple[Estimate, ...]:
    if network is None:
        return ()
    boxes = {network.choice.leaf.key: network.choice.leaf, network.choice.spine.key: network.choice.spine}
    powers = [power for box in boxes.values() for power in (box.maximum_power, box.power)]
    return tuple(power for power in powers if power)


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


# Findings -------------------------------------------------------------------------------------------------------------


def _of_request(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """What is wrong or remarkable about the wish, before a switch is counted."""
    rate = hardware.scale_out.port_rate
    slot = hardware.pcie.bandwidth
    if rate.typical > slot.typical * (1 + 1e-9):
        yield Finding(
            "warning",
            "pcie-too-slow",
            f"A NIC of {units.show(rate.typical, 'b/s')} needs more than the node's {hardware.pcie.name} slot carries, "
            f"{units.show(slot.typical, 'b/s')} each way.",
            ("scale_out", "platform"),
            "Choose a slower network, or a node with a newer PCIe generation.",
        )
    if scenario.switch:
        switch = catalog.switches[scenario.switch]
        family = "infiniband" if hardware.scale_out.family == "infiniband" else "ethernet"
        if switch.family != family and not (hardware.scale_out.family == switch.family == "slingshot"):
            yield Finding(
                "error",
                "switch-of-another-family",
                f"{switch.name} is an {switch.family} switch; {hardware.scale_out.name} cannot run on it.",
                ("switch", "scale_out"),
                f"Leave the switch blank, or choose one of: {', '.join(hardware.scale_out.switches)}.",
            )
    if scenario.spine_oversubscription > 1 and (scenario.tiers or 3) < 3:
        yield Finding(
            "note",
            "no-spine-taper",
            f"With {scenario.tiers} tiers nothing stands above the spines, so their taper has no effect.",
            ("spine_oversubscription", "tiers"),
        )


def _too_slow(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> Finding:
    rate = hardware.scale_out.port_rate.typical / scenario.planes
    if scenario.switch:
        switch = catalog.switches[scenario.switch]
        text = f"A port of {switch.name} carries {units.show(switch.port_rate.typical, 'b/s')}"
    else:
        text = f"No switch of {hardware.scale_out.name} in the catalogue has ports that carry"
    return Finding(
        "error",
        "switch-too-slow",
        f"{text}, and a link needs {units.show(rate, 'b/s')}."
        if scenario.switch
        else f"{text} {units.show(rate, 'b/s')}.",
        ("switch", "scale_out"),
        "Leave the switch blank, or use more planes: each then carries a smaller share of the NIC.",
    )


def _of_design(
    choice: Choice, design: fabric.Design, hardware: Hardware, scenario: Scenario, catalog: Catalog
) -> Iterator[Finding]:
    """Why a design cannot be built, or what a network architect would say about it."""
    reason = int(design.reason)
    hosts = hardware.nodes * hardware.nics_per_node + scenario.management_links
    if reason == fabric.TOO_MANY_HOSTS:
        yield _too_many(choice, hardware, scenario, hosts)
    elif reason == fabric.TAPER_TOO_WIDE:
        widest = choice.radix - 1
        yield Finding(
            "error",
            "taper-too-wide",
            f"An oversubscription of {scenario.oversubscription:g} leaves no uplink on a leaf of {choice.radix} ports.",
            ("oversubscription",),
            f"Use at most {widest}.",
            {"oversubscription": widest},
        )
    elif reason == fabric.TOO_MANY_TIERS:
        yield Finding(
            "error",
            "tiers-not-for-topology",
            f"A {scenario.topology} has no {scenario.tiers} tiers.",
            ("tiers", "topology"),
            "Leave the tiers blank.",
        )
    elif reason == fabric.RADIX_TOO_SMALL:
        yield Finding(
            "error",
            "radix-too-small",
            f"{choice.leaf.name} has {choice.radix} ports a switch: too few for hosts and every neighbour "
            f"of a {scenario.topology}.",
            ("switch", "oversubscription", "topology"),
            "Use a larger switch, or a smaller oversubscription.",
        )
    if reason != fabric.BUILT:
        return
    yield from _of_addresses(design, hardware, scenario, catalog)
    yield from _of_shape(choice, design, hardware, scenario)


def _too_many(choice: Choice, hardware: Hardware, scenario: Scenario, hosts: int) -> Finding:
    def most(tiers: int) -> int:
        found = designs([choice], hardware, scenario, nodes=1, tiers=tiers)
        reach = float(found.most_nodes[0])
        return int(reach) if np.isfinite(reach) else 0

    asked = scenario.tiers
    works = [tiers for tiers in range(1, 5) if most(tiers) >= hardware.nodes]
    limit = most(asked) if asked else max(most(tiers) for tiers in range(1, 5))
    text = (
        f"{hosts:,} hosts do not fit: {scenario.topology} of {asked or 4} tier{'s' if (asked or 4) > 1 else ''} of "
        f"{choice.radix}-port switches carries {limit:,} nodes of {hardware.nics_per_node} NICs, "
        f"not {hardware.nodes:,}."
    )
    if scenario.topology in ("mesh", "dragonfly"):
        limit = most(1)
        text = (
            f"{hosts:,} hosts do not fit: a {scenario.topology} of {choice.radix}-port switches carries {limit:,} "
            f"nodes of {hardware.nics_per_node} NICs, not {hardware.nodes:,}."
        )
        return Finding("error", "too-many-hosts", text, ("gpus", "topology"),
                       "Use a rail-optimized or plain fat tree.", {"topology": "rail-optimized"})  # fmt: skip
    if works and asked:
        fewest = min(works)
        return Finding("error", "too-many-hosts", text, ("tiers", "gpus"), f"Use {fewest} tiers.", {"tiers": fewest})
    gpus = limit * hardware.gpus_per_node
    advice = f"Use at most {gpus:,} GPUs, a switch with more ports, or more planes."
    return Finding(
        "error", "too-many-hosts", text, ("gpus", "switch", "planes"), advice, {"gpus": gpus} if gpus else {}
    )


def _of_addresses(design: fabric.Design, hardware: Hardware, scenario: Scenario, catalog: Catalog) -> Iterator[Finding]:
    """InfiniBand gives every port of a host and every switch of a subnet one local identifier; a plane is a subnet."""
    limit = hardware.scale_out.address_limit
    if limit is None:
        return
    needed = int((design.node_leaf + design.switches) / scenario.planes)
    rounded = catalog.operations["infiniband"]["articles_addresses"].typical
    if needed > limit.typical:
        yield Finding(
            "error",
            "infiniband-addresses",
            f"{needed:,} ports and switches need an address, and a subnet has {limit.typical:,.0f} unicast local "
            f"identifiers (the articles say {rounded:,.0f} devices).",
            ("gpus", "scale_out", "planes"),
            "Split the cluster into subnets joined by InfiniBand routers and plan each by itself, or use Ethernet.",
        )
    elif needed > 0.8 * limit.typical:
        yield Finding(
            "note",
            "infiniband-addresses-nearly",
            f"{needed:,} of a subnet's {limit.typical:,.0f} unicast local identifiers are taken "
            f"(the articles say {rounded:,.0f} devices).",
            ("gpus",),
        )


def _of_shape(choice: Choice, design: fabric.Design, hardware: Hardware, scenario: Scenario) -> Iterator[Finding]:
    layout = fabric.LAYOUTS.index(scenario.topology)
    if layout in fabric.APPROXIMATE:
        yield Finding(
            "note",
            "approximate-topology",
            f"Switches, links and bisection of a {scenario.topology} are approximate: real ones are laid out by hand.",
            ("topology",),
        )
    elif not bool(design.crosses_rails) and design.tiers <= 2 and hardware.nics_per_node > 1:
        yield Finding(
            "note",
            "rails-apart",
            "No switch joins two rails: traffic between rails goes over the scale-up link of a node, and the bisection "
            "shown is the sum over the rails.",
            ("topology", "spine_policy"),
        )
    if not bool(design.enough_spines):
        yield Finding(
            "warning",
            "fewer-spines",
            f"A leaf has {int(design.leaf_up)} uplinks, so at most {int(design.spine_switches)} spines get one each; "
            f"{scenario.minimum_spines} were asked for.",
            ("minimum_spines",),
            f"Ask for at most {int(design.leaf_up)}.",
        )
    if not bool(design.balanced) and design.tiers >= 3:
        yield Finding(
            "note",
            "uneven-links",
            "Links do not divide evenly over the spines and cores of this size; adaptive routing and reduction in the "
            "switch work best where they do.",
            ("nodes_per_unit", "spine_policy"),
            "Give each rail its own spines, or fill whole groups of units.",
            {"spine_policy": "rail"},
        )
    asked, down, up = scenario.oversubscription, float(design.leaf_down), float(design.leaf_up)
    group = min(float(scenario.nodes_per_unit or down), down) if layout == fabric.RAIL_OPTIMIZED else down
    if design.tiers > 1 and layout not in fabric.APPROXIMATE and up and abs(group / up / asked - 1) > 0.02:
        yield Finding(
            "note",
            "taper-rounded",
            f"A leaf of {choice.radix} ports gets {group:.0f} down and {up:.0f} up: {group / up:.2f} rather than "
            f"{asked:g} down for each up.",
            ("oversubscription",),
        )


def _of_size(network: Network, hardware: Hardware, scenario: Scenario) -> Iterator[Finding]:
    """Leaves built for many more nodes than there are."""
    counts = network.counts
    room = counts.units * counts.unit_nodes
    if counts.by_rail and counts.tiers > 1 and scenario.nodes_per_unit is None and hardware.nodes < 0.6 * room:
        plain = scenario.model_copy(update={"topology": "fat-tree"})
        other = designs([network.choice], hardware, plain)
        if int(other.reason[0]) == fabric.BUILT and other.switches[0] < network.design.switches:
            yield Finding(
                "note",
                "units-partly-filled",
                f"Leaves are built for whole units, {room:,} nodes; {hardware.nodes:,} are there. A plain fat tree "
                f"needs {int(other.switches[0]):,} switches rather than {int(network.design.switches):,}.",
                ("topology",),
                "Keep it where the cluster will grow; else use a plain fat tree.",
                {"topology": "fat-tree"},
            )


def _of_prices(prices: PriceList, network: Network) -> Iterator[Finding]:
    missing = [line.part for line in network.lines if line.key != "spares" and not np.isfinite(line.price[0])]
    if missing:
        yield Finding(
            "warning",
            "no-price",
            f"Nobody publishes a price of {', '.join(dict.fromkeys(missing))}, so the fabric's cost is left open.",
            ("price_switch", "price_transceiver"),
            "Type the price you were quoted.",
        )
    uncabled = [f"{level.replace('_', '-')} at {metres:g} m" for (level, metres), medium in network.media.items()
                if medium is None]  # fmt: skip
    if uncabled:
        yield Finding(
            "warning",
            "no-cable",
            f"The catalogue has no module or cable for {', '.join(uncabled)}; these links are not priced.",
            ("switch",),
        )
    if prices.scaled:
        yield Finding(
            "note",
            "price-by-rate",
            f"No price is published for {', '.join(sorted(prices.scaled))}: taken by the rate of a port.",
            ("price_switch", "price_nic"),
        )


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


# Networks beside the compute fabric -----------------------------------------------------------------------------------


def _beside(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, prices: PriceList, own: Network | None
) -> Iterator[Beside]:
    """Storage and management networks, sized by the same machinery."""
    plain: dict[str, Any] = {
        "topology": "fat-tree", "planes": 1, "management_links": 0, "nodes_per_unit": None, "switch": None,
        "tiers": None, "minimum_spines": 1, "spine_policy": "shared", "spine_oversubscription": 1.0,
    }  # fmt: skip
    racks = -(-hardware.nodes // hardware.platform.nodes_per_rack)
    boxes = sum(line.quantity for line in own.lines if line.role.endswith(" switch")) if own else 0
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
) -> Iterator[Beside]:
    choices = candidates(hardware, scenario, catalog)
    if not choices or hardware.nics_per_node < 1:
        return
    found = designs(choices, hardware, scenario)
    best = _cheapest(choices, found, catalog, prices)
    design = _pick(found, best)
    if int(design.reason) != fabric.BUILT:
        return
    network = build(hardware, scenario, catalog, prices, choices[best], design, adapters)
    links = _links(design)
    if links:
        counts = network.counts
        yield Beside(
            role, network.choice.leaf.key, counts.leaves, counts.spines + counts.cores, links, network.lines,
            network.typical_power, network.rack_units, _power_sources(network),
        )  # fmt: skip


def _out_of_band(ports: int, uplinks: int, catalog: Catalog, prices: PriceList) -> Beside:
    """One switch for as many ports as it has, each with links to the in-band network."""
    switch, cable = catalog.switches["sn2201"], catalog.optics["cat6"]
    boxes = -(-ports // switch.ports)
    power = boxes * drawn(switch.power)
    box, run = prices.switch(switch), prices.optic(cable)
    runs = ports + boxes * uplinks
    lines = (
        Line("leaf switch", switch.name, switch.key, boxes, drawn(box), costs.line(boxes, drawn(box)), power,
             (box,) if box else ()),
        Line("cable", cable.name, cable.key, runs, drawn(run), costs.line(runs, drawn(run)), np.zeros(257),
             (run,) if run else ()),
    )  # fmt: skip
    sources = (switch.power,) if switch.power else ()
    return Beside("out-of-band management", switch.key, boxes, 0, Links(ports, boxes * uplinks, 0), lines, power,
                  boxes * (switch.rack_units or 1), sources)  # fmt: skip
