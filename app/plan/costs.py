"""From a design and prices to what the cluster costs to buy, to keep and to use."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app import costs, units
from app.catalog import Catalog, Estimate
from app.plan.bands import Band, Draws
from app.plan.fabric import FabricDraft, drawn
from app.plan.hardware import Hardware
from app.plan.parts import Cluster, CostLine, Costs, Explanation, Finding, Term
from app.plan.prices import PriceList
from app.scenario import Scenario

Floats = NDArray[np.float64]
PARTS = ("nodes", "fabric", "storage", "management", "infrastructure")


@dataclass(frozen=True)
class CostsDraft:
    """The money, power and racks of a plan before its results are folded to bands."""

    hardware: Hardware
    racks: int
    racks_by_height: int
    racks_by_power: int
    network_racks: int
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explanations: Mapping[str, Explanation]

    def cluster_part(self, bands: Mapping[str, Band | None]) -> Cluster:
        """The cluster as every reader gets it."""
        return Cluster(
            nodes=self.hardware.nodes,
            gpus=self.hardware.gpus,
            racks=self.racks,
            power=bands["cluster.power"],
            gpus_per_node=self.hardware.gpus_per_node,
            scale_up_domain=self.hardware.domain,
            nodes_per_rack=self.hardware.platform.nodes_per_rack,
            memory=bands["cluster.memory"],
            typical_power=bands["cluster.typical_power"],
            racks_by_height=self.racks_by_height,
            racks_by_power=self.racks_by_power,
        )

    def part(self, bands: Mapping[str, Band | None]) -> Costs:
        """The costs as every reader gets them."""

        def lines(kind: str) -> tuple[CostLine, ...]:
            prefix = f"costs.{kind}."
            return tuple(
                CostLine(name.removeprefix(prefix), band) for name, band in bands.items() if name.startswith(prefix)
            )

        return Costs(
            capital=bands["costs.capital"],
            operating=bands["costs.operating"],
            total=bands["costs.total"],
            per_gpu_hour=bands["costs.per_gpu_hour"],
            per_run=bands["costs.per_run"],
            rental=bands["costs.rental"],
            capital_parts=lines("capital_parts"),
            operating_parts=lines("operating_parts"),
            energy=bands["costs.energy"],
        )


def draft(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, *, fabric: FabricDraft, time_to_train: Floats
) -> CostsDraft:
    """Price the cluster, and the run that lasts ``time_to_train`` [s]."""
    prices = PriceList(scenario, catalog)
    site = catalog.operations["site"]
    year = site["year"].typical
    hour = units.parse("1 h", "s")
    node, electricity, rent = (
        prices.node(hardware.platform, hardware.gpus_per_node),
        prices.electricity(),
        prices.gpu_hour(hardware.gpu.key),
    )
    pue, lifetime, support = prices.rate("pue"), prices.rate("lifetime", "s"), prices.rate("support")
    infrastructure = prices.rate("infrastructure")

    most, typical, power_used = _power(hardware, catalog, fabric)
    racks, by_height, by_power, network_racks = _racks(hardware, catalog, fabric, float(most[0]))

    nodes = costs.line(hardware.nodes, drawn(node))
    beside = {network.role: network.cost for network in fabric.others}
    building = infrastructure.draws() * most
    network = fabric.cost + sum(beside.values(), np.zeros(1))
    equipment = nodes + network
    capital = equipment + building
    energy = costs.energy_cost(costs.facility_power(typical, pue.draws()), year, drawn(electricity))
    care = support.draws() * equipment
    operating = costs.operating(typical, pue.draws(), drawn(electricity), equipment, support.draws(), year)
    total = costs.total(capital, operating, lifetime.draws(), year)

    bought = _known(node, infrastructure) + fabric.quantities["fabric.cost"].used
    run_by = _known(electricity, pue, support) + power_used
    spent = bought + run_by + (lifetime,)
    run = np.asarray(time_to_train, dtype=np.float64)
    memory = hardware.gpu.memory
    quantities = {
        "cluster.power": Draws(most, "W", power_used),
        "cluster.typical_power": Draws(typical, "W", power_used),
        "cluster.memory": Draws(memory.draws() * hardware.gpus, "B", (memory,)),
        "costs.capital": Draws(capital, "USD", bought),
        "costs.operating": Draws(operating, "USD", run_by + bought),
        "costs.total": Draws(total, "USD", spent),
        "costs.per_gpu_hour": Draws(costs.per_gpu_time(total, hardware.gpus, lifetime.draws(), hour), "USD", spent),
        "costs.per_run": Draws(costs.run(total, lifetime.draws(), run), "USD", spent),
        "costs.rental": Draws(costs.rental(hardware.gpus, drawn(rent), run), "USD", _known(rent)),
        "costs.energy": Draws(energy, "USD", _known(electricity, pue) + power_used),
        "costs.fabric_share": Draws(costs.per(fabric.cost, capital), "1", bought),
        "costs.capital_parts.nodes": Draws(nodes, "USD", _known(node)),
        "costs.capital_parts.fabric": fabric.quantities["fabric.cost"],
        **{f"costs.capital_parts.{role} network": Draws(cost, "USD") for role, cost in beside.items()},
        "costs.capital_parts.infrastructure": Draws(building, "USD", (infrastructure, *power_used)),
        "costs.operating_parts.energy": Draws(energy, "USD", _known(electricity, pue) + power_used),
        "costs.operating_parts.support": Draws(care, "USD", (support, *bought)),
    }
    return CostsDraft(
        hardware=hardware,
        racks=racks,
        racks_by_height=by_height,
        racks_by_power=by_power,
        network_racks=network_racks,
        quantities=quantities,
        findings=tuple(_findings(hardware, catalog, prices, node, rent)),
        explanations=_explanations(hardware, capital, operating, total, lifetime, run, rent, year),
    )


def _known(*estimates: Estimate | None) -> tuple[Estimate, ...]:
    return tuple(estimate for estimate in estimates if estimate)


def _power(hardware: Hardware, catalog: Catalog, fabric: FabricDraft) -> tuple[Floats, Floats, tuple[Estimate, ...]]:
    """Maximum and typical power of nodes and networks [W]. The modules in a node are part of the node's."""
    platform = hardware.platform
    part = hardware.gpus_per_node / platform.gpus_per_node
    each = platform.power
    share = catalog.operations["site"]["typical_share"]
    usual = platform.typical_power.draws() if platform.typical_power else each.draws() * share.draws()
    most = hardware.nodes * part * each.draws()
    typical = hardware.nodes * part * usual
    for of_most, of_typical in [
        (fabric.quantities["fabric.power"].values, fabric.quantities["fabric.typical_power"].values),
        *((network.power, network.typical_power) for network in fabric.others),
    ]:
        most = most + np.where(np.isfinite(of_most), of_most, 0.0)
        typical = typical + np.where(np.isfinite(of_typical), of_typical, 0.0)
    used = (each, platform.typical_power or share, *fabric.quantities["fabric.power"].used)
    return most, np.minimum(typical, most), used


def _racks(hardware: Hardware, catalog: Catalog, fabric: FabricDraft, power: float) -> tuple[int, int, int, int]:
    """Racks in all; compute racks by height, and by power; racks of switches."""
    floor = catalog.operations["racks"]
    platform = hardware.platform
    per_node = platform.power.typical * hardware.gpus_per_node / platform.gpus_per_node
    whole_rack = platform.scale_up_domain > platform.gpus_per_node or (
        platform.power.typical * platform.nodes_per_rack > floor["integrated"].typical
    )
    limit = 0.0 if whole_rack else floor["power"].typical
    nodes = hardware.nodes
    by_height = int(costs.racks(nodes, platform.nodes_per_rack, nodes * per_node, 0.0))
    by_power = int(costs.racks(nodes, nodes, nodes * per_node, limit)) if limit else by_height
    compute = int(costs.racks(nodes, platform.nodes_per_rack, nodes * per_node, limit))
    sizes = [(network.rack_units, float(network.power[0])) for network in fabric.others]
    if fabric.network:
        sizes.append((fabric.network.rack_units, float(fabric.network.power[0])))
    heights = sum(height for height, _ in sizes)
    drawn_power = sum(power for _, power in sizes if np.isfinite(power))
    switches = int(costs.racks(heights, floor["network_units"].typical, drawn_power, floor["power"].typical))
    return compute + switches, by_height, by_power, switches


def _findings(
    hardware: Hardware, catalog: Catalog, prices: PriceList, node: Estimate | None, rent: Estimate | None
) -> list[Finding]:
    found = []
    if node is None:
        found.append(
            Finding(
                "warning",
                "no-node-price",
                f"Nobody publishes a price of {hardware.platform.name}, so capital and what rests on it is left open.",
                ("price_node",),
                "Type the price you were quoted for a node.",
            )
        )
    if rent is None:
        found.append(
            Finding(
                "note",
                "no-rent",
                f"No rent of {hardware.gpu.name} is in the catalogue, so the rented run is left open.",
                ("price_gpu_hour",),
                "Type the rent of one GPU, such as 2.95 USD/h.",
            )
        )
    if prices.borrowed:
        book = catalog.prices[prices.scenario.price_book]
        found.append(
            Finding(
                "note",
                "borrowed-prices",
                f"The {book.name} edition names no price of nodes, energy or rent; those are from the market edition.",
                ("price_book",),
            )
        )
    return found


def _explanations(
    hardware: Hardware,
    capital: Floats,
    operating: Floats,
    total: Floats,
    lifetime: Estimate,
    run: Floats,
    rent: Estimate | None,
    year: float,
) -> dict[str, Explanation]:
    def money(symbol: str, meaning: str, values: Floats) -> Term:
        return Term(symbol, meaning, float(np.ravel(values)[0]), "USD")

    life = Term("T", "lifetime", lifetime.typical, "s", lifetime.source)
    whole = money("C", "whole cost", total)
    time = Term("t", "length of the run", float(np.ravel(run)[0]), "s")
    gpus = Term("n", "GPUs", float(hardware.gpus), "1")
    explained = {
        "costs.total": Explanation(
            "costs.total", (money("C", "capital", capital), money("O", "operating, a year", operating), life)
        ),
        "costs.per_gpu_hour": Explanation("costs.per_gpu_time", (whole, gpus, life)),
        "costs.per_run": Explanation("costs.run", (whole, time, life)),
    }
    if rent:
        each = Term("p", "rent of one GPU", rent.typical, "USD/s", rent.source)
        explained["costs.rental"] = Explanation("costs.rental", (gpus, each, time))
    return explained
