"""From hardware and wishes to a fabric that can be bought: switches, cables, bisection, price, power.

The planner's switch and tiers are used where given; otherwise the cheapest switch of the generation that works.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import isfinite
from operator import mul

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.formulas.fabric import bisection, layouts
from app.plan import auxiliary_networks, findings, reference_designs
from app.plan.auxiliary_networks import AuxiliaryNetwork
from app.plan.band import Band, Draws, fold
from app.plan.bill_of_materials import LEVELS, UNKNOWN, ZERO, Network, build, draws_or_nan
from app.plan.cables import Cable, cable_list
from app.plan.cluster import Hardware, look_up
from app.plan.prices import PriceList
from app.plan.result import BillLine, Bisection, Explanation, Fabric, FabricShape, Finding, Links, OtherNetwork, Term
from app.plan.scenario import Scenario
from app.plan.switches import SwitchPair, candidates, choose

Floats = NDArray[np.float64]
LIGHT = 299_792_458.0
"""Speed of light in vacuum [m/s]."""
GIGABIT = units.parse("1 Gb/s", "B/s")


@dataclass(frozen=True, eq=False)
class FabricDraft:
    """The fabric of a plan before its results are folded to bands."""

    hardware: Hardware
    scenario: Scenario
    catalog: Catalog
    prices: PriceList
    choices: tuple[SwitchPair, ...]
    wish: tuple[SwitchPair, layouts.Design] | None
    """The switches chosen and what they make, buildable or not; ``None`` where there is nothing to design."""
    network: Network | None

    @cached_property
    def others(self) -> tuple[AuxiliaryNetwork, ...]:
        """The networks beside it that are switched on."""
        return tuple(auxiliary_networks.networks(self.hardware, self.scenario, self.catalog, self.prices, self.network))

    @property
    def switch(self) -> str:
        """Key of the leaf switch."""
        if self.network:
            return self.network.choice.leaf.key
        return self.choices[0].leaf.key if self.choices else self.scenario.switch or ""

    @property
    def tiers(self) -> int | None:
        return self.network.counts.tiers if self.network else None

    @property
    def nodes_per_unit(self) -> int | None:
        return self.network.counts.unit_nodes if self.network else self.scenario.nodes_per_unit

    @property
    def taper(self) -> float:
        """Taper across the whole fabric: what hosts can offer over what the worst cut carries, at least 1 [1]."""
        design = self.network.design if self.network else None
        return max(1.0, float(design.bisection_leaf / design.bisection)) if design and design.bisection > 0 else 1.0

    @property
    def hops(self) -> int:
        """Switches on the longest shortest path [1]."""
        return int(self.network.design.hops) if self.network else 0

    @cached_property
    def cost(self) -> Floats:
        """Price of the compute fabric [USD]."""
        return self.network.cost if self.network else self._without

    @cached_property
    def power(self) -> Floats:
        """Maximum power of switches with their modules [W]."""
        return self.network.power if self.network else self._without

    @cached_property
    def typical_power(self) -> Floats:
        """Usual power of switches with their modules [W]."""
        return self.network.typical_power if self.network else self._without

    @property
    def _without(self) -> Floats:
        """What a fabric that is not built costs and draws: nothing where none is needed."""
        return ZERO if self.hardware.nodes <= 1 else UNKNOWN

    @property
    def used(self) -> tuple[Estimate, ...]:
        """What the cost rests on."""
        return self.network.used if self.network else ()

    @property
    def power_sources(self) -> tuple[Estimate, ...]:
        """What the power rests on."""
        return self.network.power_sources if self.network else ()

    @cached_property
    def quantities(self) -> Mapping[str, Draws]:
        """Every figure of the fabric that is a band, by its name on the wire."""
        return _quantities(self)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or remarkable."""
        return tuple(_findings(self))

    @cached_property
    def matches(self) -> tuple[str, ...]:
        """Names of the published designs that this one equals."""
        return _matches(self.network, self.hardware) if self.network else ()

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How some figures were computed, by their name on the wire."""
        return _explanations(self.network, self.scenario, self.hardware) if self.network else {}

    def part(self, bands: Mapping[str, Band | None]) -> Fabric:
        """The fabric as every reader gets it."""
        network = self.network
        design, counts = (network.design, network.counts) if network else (None, None)
        return Fabric(
            topology=self.scenario.topology,
            approximate=layouts.LAYOUTS.index(self.scenario.topology) in layouts.APPROXIMATE,
            switch=self.switch,
            tiers=self.tiers,
            planes=self.scenario.planes,
            leaf_switches=counts.leaves if counts else None,
            spine_switches=counts.spines if counts else None,
            core_switches=counts.cores + counts.super_cores if counts else None,
            links=_links(design),
            bisection=tuple(_bisections(self)),
            bisection_per_gpu=bands["fabric.bisection_per_gpu"],
            ports_free=_ports_free(design),
            largest_cluster=_largest(design, self.hardware.gpus_per_node),
            hops=self.hops if network else None,
            latency=bands["fabric.latency"],
            cost=bands["fabric.cost"],
            cost_per_host_port=bands["fabric.cost_per_host_port"],
            cost_per_switch_port=bands["fabric.cost_per_switch_port"],
            cost_per_gpu=bands["fabric.cost_per_gpu"],
            cost_per_bisection=bands["fabric.cost_per_bisection"],
            share_of_capital=bands.get("costs.fabric_share"),
            host_ports=int(design.hosts) if design else None,
            switch_ports=_switch_ports(network),
            power=bands["fabric.power"],
            typical_power=bands["fabric.typical_power"],
            bill_of_materials=tuple(self._bill(bands)),
            matches=self.matches,
            networks=tuple(_other(other, bands) for other in self.others),
            shape=_shape(network, self.hardware, self.scenario) if network else None,
            cages=network.cages_used() if network else {},
            modules=sum(line.quantity for line in network.parts if line.role.endswith("module")) if network else None,
        )

    def _bill(self, bands: Mapping[str, Band | None]) -> Iterator[BillLine]:
        """What is bought. A line costs its quantity times the price of one, at both ends of the price's range."""
        network = self.network
        if network is None:
            return
        lines = network.lines
        prices = [_band(line.price) for line in lines]
        ends = np.array([(price.low, price.typical, price.high) if price else NO_PRICE for price in prices])
        many = np.array([line.quantity for line in lines])
        costing = np.asarray(costs.line(many[:, None], ends)).tolist()
        for line, price, (low, typical, high) in zip(lines, prices, costing, strict=True):
            cost = Band(low, typical, high, price.unit, price.sources, price.projected) if price else None
            power = NO_POWER if line.power is None else bands[f"fabric.bill.{line.role}.power"]
            yield BillLine(line.role, line.part, line.key, line.quantity, price, cost, power)
        stock = bands["fabric.spares"]
        yield BillLine(
            "spares", f"{100 * network.spares.typical:g} % of all parts", "spares", 1, stock, stock, NO_POWER
        )

    def cable_count(self) -> int:
        """How many rows `cables` has."""
        if self.network is None:
            return 0
        design = self.network.design
        return int(design.node_leaf + design.leaf_spine + design.spine_core + design.core_super_core)

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


def _links(design: layouts.Design | None) -> Links | None:
    if design is None:
        return None
    between = design.leaf_spine + design.peer
    return Links(int(design.node_leaf), int(between), int(design.spine_core + design.core_super_core))


def _ports_free(design: layouts.Design | None) -> dict[str, int]:
    if design is None:
        return {}
    counts = {
        "leaf": (design.leaf_switches, design.leaf_free),
        "spine": (design.spine_switches, design.spine_free),
        "core": (design.core_switches, design.core_free),
        "super_core": (design.super_core_switches, design.super_core_free),
    }
    return {tier: int(free) for tier, (switches, free) in counts.items() if switches > 0}


def _largest(design: layouts.Design | None, gpus_per_node: int) -> int | None:
    if design is None or not np.isfinite(design.most_nodes):
        return None
    return int(design.most_nodes) * gpus_per_node


def _switch_ports(network: Network | None) -> int | None:
    if network is None:
        return None
    counts = network.counts
    above = counts.spines + counts.cores + counts.super_cores
    return counts.leaves * network.choice.radix + above * network.choice.spine_radix


def _other(network: AuxiliaryNetwork, bands: Mapping[str, Band | None]) -> OtherNetwork:
    return OtherNetwork(
        role=network.role,
        switch=network.switch,
        leaf_switches=network.leaf_switches,
        spine_switches=network.spine_switches,
        links=network.links,
        cost=bands[f"fabric.{network.role}.cost"],
        power=bands[f"fabric.{network.role}.power"],
    )


def draft(scenario: Scenario, catalog: Catalog) -> FabricDraft:
    """Design and price the scenario's fabric, and the networks beside it that are switched on."""
    return _draft(scenario.only("cluster", "network", "prices"), catalog)


@lru_cache(maxsize=64)
def _draft(scenario: Scenario, catalog: Catalog) -> FabricDraft:
    """The fabric is the same for every model that runs on it: who changes the model only, has it already."""
    hardware = look_up(scenario, catalog)
    prices = PriceList.of(scenario, catalog)
    choices = candidates(hardware, scenario, catalog)
    wish: tuple[SwitchPair, layouts.Design] | None = None
    network: Network | None = None
    if hardware.nodes > 1 and hardware.nics_per_node > 0 and choices:
        wish = choose(choices, hardware, scenario, prices)
        if not findings.refused(wish[1], hardware, scenario, catalog):
            network = build(hardware, scenario, catalog, prices, *wish)
    return FabricDraft(hardware, scenario, catalog, prices, choices, wish, network)


def _findings(made: FabricDraft) -> Iterator[Finding]:
    hardware, scenario, catalog, network = made.hardware, made.scenario, made.catalog, made.network
    if hardware.nodes > 1 and hardware.nics_per_node > 0:
        yield from findings.of_request(hardware, scenario, catalog)
        if made.wish:
            yield from findings.of_design(*made.wish, hardware, scenario, catalog)
        else:
            yield findings.too_slow(hardware, scenario, catalog)
    elif hardware.nodes <= 1:
        text = f"All {hardware.gpus} GPUs stand in one node: no network between nodes is needed or priced."
        yield Finding("note", "one-node", text, ("gpus",))
    if network:
        yield from findings.of_prices(made.prices, made.choices, network, hardware)
        yield from findings.of_size(network, hardware, scenario)


# Results --------------------------------------------------------------------------------------------------------------


NO_POWER = Band(0.0, 0.0, 0.0, "W")
NO_PRICE = (np.nan, np.nan, np.nan)


@lru_cache(maxsize=1024)
def _band(estimate: Estimate | None) -> Band | None:
    """The range of one constant."""
    return fold({"it": Draws(estimate.draws(), estimate.unit, (estimate,))})["it"] if estimate else None


def _bisections(made: FabricDraft) -> Iterator[Bisection]:
    """The cut at every tier. Each grows with the rate of one kind of link, so its range is that of the rate."""
    hardware, design = made.hardware, made.network.design if made.network else None

    def cut(tier: str, rate: Estimate, across: Callable[[float], Array]) -> Bisection:
        band = _band(rate)
        if band is None:
            return Bisection(tier, None, None)
        low, typical, high = (float(across(end)) for end in (band.low, band.typical, band.high))
        both = Band(2 * low, 2 * typical, 2 * high, band.unit, band.sources, band.projected)
        return Bisection(tier, Band(low, typical, high, band.unit, band.sources, band.projected), both)

    domain = hardware.domain
    if domain > 1 and hardware.wiring == "mesh":
        wires = domain - 1
        yield cut("scale_up", hardware.scale_up.bandwidth, lambda rate: bisection.mesh_bisection(domain, rate / wires))
    elif domain > 1:
        yield cut("scale_up", hardware.scale_up.bandwidth, lambda rate: bisection.scale_up_bisection(domain, rate))
    if design is not None:
        cuts = {"leaf": design.bisection_leaf, "spine": design.bisection_spine, "core": design.bisection_core}
        for tier, links in cuts.items():
            if isfinite(links):
                share = float(links) / made.scenario.planes
                yield cut(tier, hardware.scale_out.port_rate, partial(mul, share))


def _quantities(made: FabricDraft) -> dict[str, Draws]:
    hardware, scenario, catalog, network = made.hardware, made.scenario, made.catalog, made.network
    results: dict[str, Draws] = {}
    design = network.design if network else None
    rate = hardware.scale_out.port_rate
    link = rate.draws() / scenario.planes

    whole = design.bisection * link if design is not None else UNKNOWN
    results["fabric.bisection_per_gpu"] = Draws(whole / hardware.gpus, "B/s", (rate,))

    cost, used = made.cost, made.used
    ports, switch_ports = (
        (float(design.hosts), float(_switch_ports(network) or 0)) if design is not None else (0.0, 0.0)
    )
    shares = {
        "fabric.cost": cost,
        "fabric.cost_per_host_port": costs.per(cost, ports),
        "fabric.cost_per_switch_port": costs.per(cost, switch_ports),
        "fabric.cost_per_gpu": costs.per(cost, hardware.gpus),
    }
    results |= {name: Draws(np.asarray(values), "USD", used) for name, values in shares.items()}
    per_gigabit = np.asarray(costs.per(cost, whole / GIGABIT))
    results["fabric.cost_per_bisection"] = Draws(per_gigabit, "USD/(Gb/s)", used)
    if network:
        results["fabric.spares"] = Draws(network.stock, "USD", (network.spares, *used))
    sources = made.power_sources
    results["fabric.power"] = Draws(made.power, "W", sources)
    results["fabric.typical_power"] = Draws(made.typical_power, "W", sources)
    results["fabric.latency"] = _latency(hardware, catalog, network)
    for line in network.parts if network else ():
        if line.power is not None:
            results[f"fabric.bill.{line.role}.power"] = Draws(line.power, "W", sources if line.power.any() else ())
    for other in made.others:
        results[f"fabric.{other.role}.cost"] = Draws(other.cost, "USD", other.used)
        results[f"fabric.{other.role}.power"] = Draws(other.power, "W", other.power_sources)
    return results


def _latency(hardware: Hardware, catalog: Catalog, network: Network | None) -> Draws:
    """Longest shortest path: every switch on it, and light in the longest cable of every level, up and down."""
    if network is None:
        return Draws(UNKNOWN, "s")
    leaf = network.choice.leaf.latency or hardware.scale_out.switch_latency
    spine = network.choice.spine.latency or hardware.scale_out.switch_latency
    speed = catalog.operations["cables"]["signal_speed"]
    lengths = [max(runs) for level in LEVELS if (runs := getattr(network.cabling, level))]
    light = 2 * sum(lengths) / (LIGHT * speed.draws())
    hops = int(network.design.hops)
    above = max(hops - 2, 0) if network.counts.spines else 0
    switches = costs.line(hops - above, draws_or_nan(leaf)) + costs.line(above, draws_or_nan(spine))
    return Draws(np.asarray(switches + light), "s", tuple(used for used in (leaf, spine, speed) if used))


# Published designs ----------------------------------------------------------------------------------------------------


def _matches(network: Network, hardware: Hardware) -> tuple[str, ...]:
    """Names of the published designs that this one equals in nodes, rates, switches and links."""
    counts, design = network.counts, network.design
    links = (int(design.node_leaf), int(design.leaf_spine), int(design.spine_core))
    sizes = (counts.nodes, counts.rails, counts.planes, counts.leaves, counts.spines, counts.cores)
    mine = dict(zip(reference_designs.COUNTS, (*sizes, *links), strict=True))
    kind = hardware.scale_out.port_rate.typical, hardware.scale_out.family == "infiniband"
    return tuple(
        reference.title
        for reference in reference_designs.references().get(kind, ())
        if all(mine[name] == value for name, value in reference.printed.items())
    )


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
            float(costs.line(line.quantity, line.price.typical if line.price else np.nan)),
            "USD",
            line.price.source if line.price else "",
        )
        for line in network.lines
    )
    stock = f"1 × {100 * network.spares.typical:g} % of all parts"
    money += (Term("C", stock, float(network.stock[0]), "USD", network.spares.source),)
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
