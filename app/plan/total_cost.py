"""From a design and prices to what the cluster costs to buy, to keep and to use."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.plan.auxiliary_networks import AuxiliaryNetwork
from app.plan.band import Band, Draws
from app.plan.bill_of_materials import Network, draws_or_nan
from app.plan.cluster import Hardware
from app.plan.network import FabricDraft
from app.plan.prices import PriceList
from app.plan.result import Cluster, CostLine, Costs, Explanation, Finding, RunningCostLine, Term
from app.plan.scenario import Scenario

Floats = NDArray[np.float64]
HOUR = units.parse("1 h", "s")
PARTS = ("nodes", "fabric", "storage", "management", "infrastructure")


class Rates(NamedTuple):
    """What money is reckoned with: prices, and how a site is run."""

    node: Estimate | None
    electricity: Estimate | None
    rent: Estimate | None
    pue: Estimate
    lifetime: Estimate
    support: Estimate
    infrastructure: Estimate
    year: float
    bought_at: tuple[Estimate, ...]
    """What capital rests on besides the fabric."""
    run_at: tuple[Estimate, ...]
    """What a year's cost rests on besides capital and power."""


@lru_cache(maxsize=128)
def _rates(prices: PriceList, platform: str, gpus_per_node: int, gpu: str) -> Rates:
    node, electricity = prices.node(prices.catalog.platforms[platform], gpus_per_node), prices.electricity()
    pue, support, infrastructure = (prices.rate(name) for name in ("pue", "support", "infrastructure"))
    return Rates(
        node=node,
        electricity=electricity,
        rent=prices.gpu_hour(gpu),
        pue=pue,
        lifetime=prices.rate("lifetime", "s"),
        support=support,
        infrastructure=infrastructure,
        year=prices.catalog.operations["site"]["year"].typical,
        bought_at=_known(node, infrastructure),
        run_at=_known(electricity, pue, support),
    )


class Racks(NamedTuple):
    """Racks in all; compute racks by height, and by power; racks of switches."""

    all: int
    by_height: int
    by_power: int
    network: int


@dataclass(frozen=True, eq=False)
class CostsDraft:
    """The money, power and racks of a plan before its results are folded to bands."""

    hardware: Hardware
    catalog: Catalog
    fabric: FabricDraft
    time_to_train: Floats
    prices: PriceList
    rates: Rates

    @cached_property
    def power(self) -> tuple[Floats, Floats, tuple[Estimate, ...]]:
        """Maximum and typical power of nodes and networks [W], and what they rest on."""
        return _power(self.hardware, self.catalog, self.fabric)

    @cached_property
    def racks(self) -> Racks:
        return _racks(self.hardware, self.catalog, self.fabric)

    @cached_property
    def nodes(self) -> Array:
        """Price of all nodes [USD]."""
        return costs.line(self.hardware.nodes, draws_or_nan(self.rates.node))

    @cached_property
    def building(self) -> Floats:
        """Price of the building, its power and its cooling [USD]."""
        return self.rates.infrastructure.draws() * self.power[0]

    @cached_property
    def equipment(self) -> Array:
        """Price of nodes and networks [USD]."""
        return self.nodes + sum((network.cost for network in self.fabric.others), self.fabric.cost)

    @cached_property
    def capital(self) -> Array:
        return self.equipment + self.building

    @cached_property
    def operating(self) -> Array:
        """Cost of a year [USD]."""
        rates = self.rates
        pue, electricity, support = rates.pue.draws(), draws_or_nan(rates.electricity), rates.support.draws()
        return costs.operating(self.power[1], pue, electricity, self.equipment, support, rates.year)

    @cached_property
    def total(self) -> Array:
        """Cost of buying the cluster and keeping it for its life [USD]."""
        return costs.total(self.capital, self.operating, self.rates.lifetime.draws(), self.rates.year)

    @cached_property
    def per_run(self) -> Array:
        """What the run costs on a cluster of one's own [USD]."""
        return costs.run(self.total, self.rates.lifetime.draws(), self.time_to_train)

    @cached_property
    def quantities(self) -> Mapping[str, Draws]:
        """Every figure of money, power and memory that is a band, by its name on the wire."""
        return _quantities(self)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is left open, and why."""
        return tuple(_findings(self))

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How some figures were computed, by their name on the wire."""
        return _explanations(self)

    def cluster_part(self, bands: Mapping[str, Band | None]) -> Cluster:
        """The cluster as every reader gets it."""
        return Cluster(
            nodes=self.hardware.nodes,
            gpus=self.hardware.gpus,
            racks=self.racks.all,
            power=bands["cluster.power"],
            gpus_per_node=self.hardware.gpus_per_node,
            scale_up_domain=self.hardware.domain,
            nodes_per_rack=self.hardware.platform.nodes_per_rack,
            memory=bands["cluster.memory"],
            typical_power=bands["cluster.typical_power"],
            racks_by_height=self.racks.by_height,
            racks_by_power=self.racks.by_power,
        )

    def part(self, bands: Mapping[str, Band | None]) -> Costs:
        """The costs as every reader gets them."""

        def lines(kind: str) -> list[tuple[str, Band | None]]:
            prefix = f"costs.{kind}."
            return [(name.removeprefix(prefix), bands[name]) for name in self.quantities if name.startswith(prefix)]

        return Costs(
            capital=bands["costs.capital"],
            operating=bands["costs.operating"],
            total=bands["costs.total"],
            per_gpu_hour=bands["costs.per_gpu_hour"],
            per_run=bands["costs.per_run"],
            rental=bands["costs.rental"],
            capital_parts=tuple(CostLine(*line) for line in lines("capital_parts")),
            operating_parts=tuple(RunningCostLine(*line) for line in lines("operating_parts")),
            energy=bands["costs.energy"],
        )


def draft(
    hardware: Hardware, scenario: Scenario, catalog: Catalog, *, fabric: FabricDraft, time_to_train: Floats
) -> CostsDraft:
    """Price the cluster, and the run that lasts ``time_to_train`` [s]."""
    prices = PriceList.of(scenario, catalog)
    rates = _rates(prices, hardware.platform.key, hardware.gpus_per_node, hardware.gpu.key)
    return CostsDraft(hardware, catalog, fabric, np.asarray(time_to_train), prices, rates)


def _quantities(made: CostsDraft) -> dict[str, Draws]:
    hardware, fabric, rates = made.hardware, made.fabric, made.rates
    most, typical, powered = made.power
    pue, electricity = rates.pue.draws(), draws_or_nan(rates.electricity)
    energy = costs.energy_cost(costs.facility_power(typical, pue), rates.year, electricity)
    memory = hardware.gpu.memory
    bought = rates.bought_at + fabric.used
    run_by = rates.run_at + powered
    spent = (*bought, *run_by, rates.lifetime)
    energy_from = _known(rates.electricity, rates.pue) + powered
    hour = costs.per_gpu_time(made.total, hardware.gpus, rates.lifetime.draws(), HOUR)
    support = rates.support.draws() * made.equipment
    rental = costs.rental(hardware.gpus, draws_or_nan(rates.rent), made.time_to_train)
    beside = {f"{network.role} network": network.cost for network in fabric.others}
    found: dict[str, tuple[Array, str, tuple[Estimate, ...]]] = {
        "cluster.power": (most, "W", powered),
        "cluster.typical_power": (typical, "W", powered),
        "cluster.memory": (memory.draws() * hardware.gpus, "B", (memory,)),
        "costs.capital": (made.capital, "USD", bought),
        "costs.operating": (made.operating, "USD/year", run_by + bought),
        "costs.total": (made.total, "USD", spent),
        "costs.per_gpu_hour": (hour, "USD/h", spent),
        "costs.per_run": (made.per_run, "USD", spent),
        "costs.rental": (rental, "USD", _known(rates.rent)),
        "costs.energy": (energy, "USD/year", energy_from),
        "costs.fabric_share": (costs.per(fabric.cost, made.capital), "1", bought),
        "costs.capital_parts.nodes": (made.nodes, "USD", _known(rates.node)),
        "costs.capital_parts.fabric": (fabric.cost, "USD", fabric.used),
        **{f"costs.capital_parts.{name}": (cost, "USD", ()) for name, cost in beside.items()},
        "costs.capital_parts.infrastructure": (made.building, "USD", (rates.infrastructure, *powered)),
        "costs.operating_parts.energy": (energy, "USD/year", energy_from),
        "costs.operating_parts.support": (support, "USD/year", (rates.support, *bought)),
    }
    return {name: Draws(np.asarray(values), unit, used) for name, (values, unit, used) in found.items()}


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
        (fabric.power, fabric.typical_power),
        *((network.power, network.typical_power) for network in fabric.others),
    ]:
        most = most + _where_known(of_most)
        typical = typical + _where_known(of_typical)
    used = (each, platform.typical_power or share, *fabric.power_sources)
    return most, np.minimum(typical, most), used


def _where_known(power: Floats) -> Floats:
    """A power, and nothing where it is unknown [W]."""
    return np.where(np.isfinite(power), power, 0.0)


def _racks(hardware: Hardware, catalog: Catalog, fabric: FabricDraft) -> Racks:
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
    networks: list[AuxiliaryNetwork | Network] = [*fabric.others]
    if fabric.network:
        networks.append(fabric.network)
    heights = sum(network.rack_units for network in networks)
    powers = [float(network.power[0]) for network in networks]
    drawn_power = sum(filter(isfinite, powers))
    switches = int(costs.racks(heights, floor["network_units"].typical, drawn_power, floor["power"].typical))
    return Racks(compute + switches, by_height, by_power, switches)


def _findings(made: CostsDraft) -> list[Finding]:
    hardware, rates, prices = made.hardware, made.rates, made.prices
    found = []
    if rates.node is None:
        found.append(
            Finding(
                "warning",
                "no-node-price",
                f"Nobody publishes a price of {hardware.platform.name}, so capital and what rests on it is left open.",
                ("price_node",),
                "Type the price you were quoted for a node.",
            )
        )
    if rates.rent is None:
        found.append(
            Finding(
                "note",
                "no-rent",
                f"No rent of {hardware.gpu.name} is in the catalogue, so the rented run is left open.",
                ("price_gpu_hour",),
                "Type the rent of one GPU, such as 2.95 USD/h.",
            )
        )
    if any(map(prices.borrowed, (rates.node, rates.electricity, rates.rent))):
        book = made.catalog.prices[prices.edition]
        found.append(
            Finding(
                "note",
                "borrowed-prices",
                f"The {book.name} edition names no price of nodes, energy or rent; those are from the market edition.",
                ("price_book",),
            )
        )
    return found


def _explanations(made: CostsDraft) -> dict[str, Explanation]:
    def money(symbol: str, meaning: str, values: Array, unit: str = "USD") -> Term:
        return Term(symbol, meaning, float(np.ravel(values)[0]), unit)

    lifetime, rent = made.rates.lifetime, made.rates.rent
    life = Term("T", "lifetime", lifetime.typical, "s", lifetime.source)
    whole = money("C", "whole cost", made.total)
    time = Term("t", "length of the run", float(np.ravel(made.time_to_train)[0]), "s")
    gpus = Term("n", "GPUs", float(made.hardware.gpus), "1")
    yearly = money("O", "operating", made.operating, "USD/year")
    explained = {
        "costs.total": Explanation("costs.total", (money("C", "capital", made.capital), yearly, life)),
        "costs.per_gpu_hour": Explanation("costs.per_gpu_time", (whole, gpus, life)),
        "costs.per_run": Explanation("costs.run", (whole, time, life)),
    }
    if rent:
        each = Term("p", "rent of one GPU", rent.typical, "USD/s", rent.source)
        explained["costs.rental"] = Explanation("costs.rental", (gpus, each, time))
    return explained
