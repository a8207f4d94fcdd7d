"""From a design and prices to what the cluster costs to buy, to keep and to use."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.entries import Platform
from app.catalog.estimate import N_DRAWS, Estimate
from app.catalog.load import ELECTRICITY, STORAGE, Catalog
from app.catalog.sampling import DRAWS, TYPICAL, Sampling
from app.formulas import costs
from app.formulas.arrays import Array, typical_of, where
from app.formulas.fabric import bisection
from app.plan import result
from app.plan.auxiliary_networks import AuxiliaryNetwork
from app.plan.band import Draws
from app.plan.bill_of_materials import UNKNOWN, Line, PricedDesign, Totals, draws_or_nan
from app.plan.cluster import Cluster
from app.plan.kept import Kept
from app.plan.network import Network, design_network
from app.plan.prices import HOME, PriceList
from app.plan.purchase_list import NO_POWER, bill_lines, stock_line
from app.plan.result import BillLine, CostLine, Costs, Explanation, Finding, RunningCostLine, Term

Floats = NDArray[np.float64]
HOUR = units.parse("1 h", "s")
PETABYTE = units.parse("1 PB", "B")


class Rates(NamedTuple):
    """What money is reckoned with: prices, and how a site is run."""

    node: Estimate | None
    storage: Estimate | None
    electricity: Estimate | None
    rent: Estimate | None
    pue: Estimate
    lifetime: Estimate
    support: Estimate
    infrastructure: Estimate
    carbon: Estimate
    year: float
    bought_at: tuple[Estimate, ...]
    """What capital rests on besides the fabric."""
    run_at: tuple[Estimate, ...]
    """What a year's cost rests on besides capital and power."""


@lru_cache(maxsize=128)
def _kept_rates(prices: PriceList, platform: str, gpus_per_node: int, gpu: str) -> Rates:
    """The rates in force. Kept: it takes 20 µs, twice a plan, whatever the size of its cluster."""
    return _rates(prices, platform, gpus_per_node, gpu)


def _rates(prices: PriceList, platform: str, gpus_per_node: int, gpu: str) -> Rates:
    """Those in force for a node and its GPU."""
    node, electricity = prices.node(prices.catalog.platforms[platform], gpus_per_node), prices.electricity()
    storage = prices.storage() if "storage_capacity" in prices.given else None
    pue, support, infrastructure = (prices.rate(name) for name in ("pue", "support", "infrastructure"))
    return Rates(
        node=node,
        storage=storage,
        electricity=electricity,
        rent=prices.gpu_hour(gpu),
        pue=pue,
        lifetime=prices.rate("lifetime", "s"),
        support=support,
        infrastructure=infrastructure,
        carbon=prices.carbon(),
        year=prices.catalog.operations["site"]["year"].typical,
        bought_at=_known(node, storage, infrastructure),
        run_at=_known(electricity, pue, support),
    )


_Nodes = tuple[PriceList, str, int, str]


def _nodes(network: Network, prices: PriceList) -> _Nodes:
    """What the rates in force depend on: prices, platform, GPUs of a node and their kind."""
    cluster = network.cluster
    return prices, cluster.platform.key, cluster.whole_node, cluster.gpu.key


class Racks(NamedTuple):
    """Racks in all; racks of nodes, and what they were by height and by power alone; racks of switches."""

    all: int
    compute: int
    by_height: int
    by_power: int
    network: int


@dataclass(frozen=True, eq=False)
class Ownership:
    """What it costs to buy and keep a cluster, whatever runs on it."""

    cluster: Cluster
    network: Network
    prices: PriceList
    rates: Rates
    power: Floats
    """Maximum power of nodes and networks [W]."""
    typical_power: Floats
    """Usual power of nodes and networks [W]."""
    power_sources: tuple[Estimate, ...]
    nodes: Array
    """Price of all nodes that train [USD]."""
    standing: Array
    """Price of the spare nodes, and of the ports that the network has for them [USD]."""
    storage: Array
    """Price of the storage that is bought [USD]."""
    second_tier: tuple[Line, ...]
    """What a second tier of scale-up switches takes, where domains need one and prices are known."""
    building: Floats
    """Price of the building, its power and its cooling [USD]."""
    equipment: Array
    """Price of nodes, networks and storage [USD]."""
    facility: Array
    """What the site draws at usual power [W]."""
    energy: Array
    """Price of the electricity of a year [USD]."""
    support: Array
    """Price of the support of a year [USD]."""
    carbon: Array
    """What a year's electricity emits [kg]."""
    operating: Array
    """Cost of a year [USD]."""
    total: Array
    """Cost of buying the cluster and keeping it for its life [USD]."""
    per_gpu_hour: Array
    """What an hour of one of its GPUs costs [USD]."""

    @cached_property
    def capital(self) -> Draws:
        """Price of nodes, networks and building [USD]."""
        others = (price for auxiliary in self.network.auxiliary for price in auxiliary.used)
        links = _known(*(line.price for line in self.second_tier))
        used = (*self.rates.bought_at, *self.network.used, *others, *links, *self.power_sources)
        return Draws(np.asarray(self.equipment + self.building), used=used)

    @cached_property
    def racks(self) -> Racks:
        """Racks of nodes and of switches."""
        return _racks(self)

    def per_run(self, time: Array) -> Array:
        """What a run of some length costs on a cluster of one's own [USD]."""
        return costs.run(self.total, self.rates.lifetime.draws(), time)

    def rental(self, time: Array) -> Array:
        """What a run of some length costs on GPUs that are rented [USD]."""
        return costs.rental(self.cluster.gpus, draws_or_nan(self.rates.rent), time)

    def network_per_run(self, time: Array) -> Array:
        """What of that its network costs, with its support, for as long as the cluster is kept [USD]."""
        return _network_per_run(self.network.cost, self.rates, time, DRAWS)

    def typical_run(self, time: float) -> "RunCost":
        """What a run of some length [s] typically costs."""
        return RunCost(*_run_cost(typical_of(self.total), typical_of(self.network.cost), self.rates, time))


def _network_per_run(price: Array, rates: Rates, time: Array, sampling: Sampling) -> Array:
    """What a network of some price costs for a run, with its support, for as long as it is kept [USD]."""
    life = sampling(rates.lifetime)
    support = costs.operating(0.0, sampling(rates.pue), 0.0, price, sampling(rates.support), rates.year)
    return costs.run(costs.total(price, support, life, rates.year), life, time)


_OWNED: Kept[tuple[Network, PriceList], Ownership] = Kept(64)
"""Clusters that were priced last: it takes 0.2 ms, and every job on a cluster shares it, as do those that ask whether
its rival is better.
"""


def ownership(network: Network, prices: PriceList) -> Ownership:
    """Price the cluster of a network and its keep."""
    return own_together([(network, prices)])[0]


def own_together(every: Sequence[tuple[Network, PriceList]]) -> list[Ownership]:
    """The same of several networks, in one go of those of equal nodes at equal prices."""
    priced = {asked: kept for asked in every if (kept := _OWNED.get(asked))}
    alike: dict[_Nodes, list[Network]] = {}
    for network, prices in dict.fromkeys(every):
        if (network, prices) not in priced:
            alike.setdefault(_nodes(network, prices), []).append(network)
    for nodes, networks in alike.items():
        for owned in _owned(networks, nodes[0], _kept_rates(*nodes)):
            priced[owned.network, owned.prices] = owned
            _OWNED.add((owned.network, owned.prices), owned)
    return [priced[asked] for asked in every]


def _owned(networks: Sequence[Network], prices: PriceList, rates: Rates) -> Iterator[Ownership]:
    """Several clusters of equal nodes, or one by itself, whose numbers may be columns."""
    further = [_further(network, prices, rates) for network in networks]
    each = [_hardware(*its, DRAWS) for its in zip(networks, further, strict=True)]
    whole = Hardware(*map(_column, zip(*each, strict=True))) if len(each) > 1 else each[0]
    money: Any = _money(whole, networks[0].cluster.platform, rates, prices.catalog, DRAWS)
    for network, its, row in zip(
        networks, further, zip(*money, strict=True) if len(each) > 1 else [money], strict=True
    ):
        yield Ownership(
            cluster=network.cluster,
            network=network,
            prices=prices,
            rates=rates,
            power_sources=_power_sources(network, prices.catalog),
            **its._asdict(),
            **dict(zip(Money._fields, row, strict=True)),
        )


def _column(values: Sequence[Array]) -> Floats:
    """A row of draws for each of several values."""
    column = np.empty((len(values), N_DRAWS))
    for row, value in zip(column, values, strict=True):
        row[:] = value
    return column


class Further(NamedTuple):
    """What is bought besides the nodes that train and their networks; see `Ownership`."""

    standing: Array
    storage: Array
    second_tier: tuple[Line, ...]


def _further(network: Network, prices: PriceList, rates: Rates) -> Further:
    spares = network.cluster.request.spare_nodes
    standing = costs.line(spares, draws_or_nan(rates.node)) + network.for_spares[0] if spares else 0.0
    capacity = prices.given.get("storage_capacity", 0.0) / PETABYTE
    storage = costs.line(capacity, rates.storage.draws()) if rates.storage else 0.0
    return Further(standing, storage, tuple(_second_tier(network.cluster, prices)))


class Hardware(NamedTuple):
    """What money is reckoned from: of one cluster, or columns of several.

    Attributes:
        gpus: GPUs [1].
        nodes: nodes that train, as they are sold [1].
        drawing: nodes of the platform's own size that draw power, those that stand by too [1].
        further: price of what is bought besides these nodes and the networks [USD].
        networks: price of the networks [USD].
        networks_power, networks_typical_power: what they draw, with ports for the nodes that stand by [W].
    """

    gpus: Array
    nodes: Array
    drawing: Array
    further: Array
    networks: Array
    networks_power: Array
    networks_typical_power: Array


def _hardware(network: Network, further: Further, sampling: Sampling) -> Hardware:
    """That of a cluster, in draws or typically."""
    cluster = network.cluster

    def read(values: Array) -> Array:
        return values if sampling.drawn else typical_of(values)

    fabric = network if sampling.drawn else network.typical
    networks: tuple[Network | Totals | AuxiliaryNetwork, ...] = (fabric, *network.auxiliary)
    powers = [(each.power, each.typical_power) for each in networks]
    if cluster.request.spare_nodes:
        powers.append(network.for_spares[1:])
    further_costs = read(further.standing) + read(further.storage)
    return Hardware(
        gpus=cluster.gpus,
        nodes=cluster.bought_nodes,
        drawing=cluster.standing_nodes * cluster.whole_node / cluster.platform.gpus_per_node,
        further=further_costs + sum(line.cost_in(sampling) for line in further.second_tier),
        networks=sum(read(each.cost) for each in networks),
        networks_power=sum(_where_known(read(most)) for most, _ in powers),
        networks_typical_power=sum(_where_known(read(usual)) for _, usual in powers),
    )


class Money(NamedTuple):
    """What a cluster, or each of several, draws and costs; see `Ownership`."""

    power: Floats
    typical_power: Floats
    nodes: Array
    building: Floats
    equipment: Array
    facility: Array
    energy: Array
    support: Array
    carbon: Array
    operating: Array
    total: Array
    per_gpu_hour: Array


def _money(hardware: Hardware, platform: Platform, rates: Rates, catalog: Catalog, sampling: Sampling) -> Money:
    """The modules in a node are part of the node's power."""
    most, share = sampling(platform.power), catalog.operations["site"]["typical_share"]
    usual = sampling(platform.typical_power) if platform.typical_power else most * sampling(share)
    power = np.asarray(hardware.drawing * most + hardware.networks_power)
    typical_power = np.minimum(hardware.drawing * usual + hardware.networks_typical_power, power)
    nodes = costs.line(hardware.nodes, sampling(rates.node) if rates.node else UNKNOWN)
    equipment = nodes + hardware.further + hardware.networks
    building = np.asarray(sampling(rates.infrastructure) * power)
    electricity = sampling(rates.electricity) if rates.electricity else UNKNOWN
    pue, support, lifetime, year = sampling(rates.pue), sampling(rates.support), sampling(rates.lifetime), rates.year
    facility = costs.facility_power(typical_power, pue)
    operating = costs.operating(typical_power, pue, electricity, equipment, support, year)
    total = costs.total(equipment + building, operating, lifetime, year)
    return Money(
        power=power,
        typical_power=typical_power,
        nodes=nodes,
        building=building,
        equipment=equipment,
        facility=facility,
        energy=costs.energy_cost(facility, year, electricity),
        support=support * equipment,
        carbon=costs.emissions(facility, year, sampling(rates.carbon)),
        operating=operating,
        total=total,
        per_gpu_hour=costs.per_gpu_time(total, hardware.gpus, lifetime, HOUR),
    )


class Spent(NamedTuple):
    """What clusters and a run on each typically take, as columns.

    Attributes:
        capital, rental, run: price of a cluster, of renting it for the run, and the run's share of owning it [USD].
        power: of nodes and networks at their maximum [W].
    """

    capital: Floats
    rental: Floats
    run: Floats
    power: Floats


def spent(networks: Sequence[Network], times: Floats) -> Spent:
    """That of networks whose clusters have equal nodes and prices, and runs of so many seconds."""
    rates = _kept_rates(*_nodes(networks[0], networks[0].prices))
    money = _typical_money(networks, rates)
    gpus, rent = np.array([network.cluster.gpus for network in networks]), rates.rent.typical if rates.rent else nan
    return Spent(
        money.equipment + money.building,
        np.asarray(costs.rental(gpus, rent, times)),
        np.asarray(costs.run(money.total, rates.lifetime.typical, times)),
        money.power,
    )


class RunCost(NamedTuple):
    """What a run typically costs on a cluster of one's own, and its network's part of that [USD]."""

    whole: float
    network: float


def run_costs(every: Sequence[tuple[Network, float]]) -> list[RunCost]:
    """That of runs of some lengths [s] on networks' clusters: in one go of those of equal nodes at equal prices."""
    alike: dict[_Nodes, list[int]] = {}
    for place, (network, _) in enumerate(every):
        alike.setdefault(_nodes(network, network.prices), []).append(place)
    spent: dict[int, RunCost] = {}
    for nodes, places in alike.items():
        rates, (networks, times) = _kept_rates(*nodes), zip(*(every[place] for place in places), strict=True)
        prices = np.array([network.typical.cost for network in networks])
        run = _run_cost(_typical_money(networks, rates).total, prices, rates, np.array(times))
        spent |= zip(places, map(RunCost, *(column.tolist() for column in run)), strict=True)
    return [spent[place] for place in range(len(every))]


def _typical_money(networks: Sequence[Network], rates: Rates) -> Money:
    """What clusters of equal nodes and prices typically draw and cost, as columns."""
    cluster, prices = networks[0].cluster, networks[0].prices
    each = [_hardware(network, _further(network, prices, rates), TYPICAL) for network in networks]
    hardware = Hardware(*map(np.array, zip(*each, strict=True)))
    return _money(hardware, cluster.platform, rates, prices.catalog, TYPICAL)


def _run_cost(total: Array, network: Array, rates: Rates, time: Array) -> tuple[Any, Any]:
    """That of a cluster, or columns of some, whose whole cost, and its network's price, are typically so much [USD]."""
    whole = costs.run(total, rates.lifetime.typical, time)
    return whole, _network_per_run(network, rates, time, TYPICAL)


@dataclass(frozen=True, eq=False)
class TotalCost:
    """What a cluster and one run on it cost."""

    owned: Ownership
    time_to_train: Floats
    costs: Costs[Draws]
    findings: tuple[Finding, ...]


def total_cost(network: Network, prices: PriceList, time_to_train: Floats) -> TotalCost:
    """Price a cluster, its keep, and the run that lasts ``time_to_train`` [s]."""
    return _spent(ownership(network, prices), time_to_train)


def cost_columns(
    network: Network, prices: PriceList, columns: Mapping[str, Floats], time_to_train: Floats
) -> TotalCost:
    """The same of a network's cluster, or of those of columns of networks, with columns of prices, see
    `PriceList.columns`, and of times of a run.
    """
    rates, several = (_rates, prices.columns(columns)) if columns else (_kept_rates, prices)
    (owned,) = _owned([network], several, rates(*_nodes(network, several)))
    return _spent(owned, time_to_train[:, None])


def _spent(owned: Ownership, time_to_train: Floats) -> TotalCost:
    return TotalCost(owned, time_to_train, _costs(owned, time_to_train), tuple(_findings(owned)))


_RESULTS: Mapping[str, Callable[[Ownership], Any]] = {
    "nodes": lambda owned: owned.cluster.nodes,
    "gpus": lambda owned: owned.cluster.gpus,
    "racks": lambda owned: owned.racks.all,
    "power": lambda owned: Draws(owned.power, used=owned.power_sources),
    "gpus_per_node": lambda owned: owned.cluster.gpus_per_node,
    "scale_up_domain": lambda owned: owned.cluster.domain,
    "nodes_per_rack": lambda owned: owned.cluster.platform.nodes_per_rack,
    "memory": lambda owned: _memory(owned.cluster),
    "typical_power": lambda owned: Draws(owned.typical_power, used=owned.power_sources),
    "racks_by_height": lambda owned: owned.racks.by_height,
    "racks_by_power": lambda owned: owned.racks.by_power,
    "compute_racks": lambda owned: owned.racks.compute,
    "rack_power": lambda owned: Draws(_full_rack(owned, owned.racks), used=(owned.cluster.platform.power,)),
    "spare_nodes": lambda owned: owned.cluster.request.spare_nodes,
    "bill_of_materials": lambda owned: (
        *bill_lines(_bought(owned), (owned.cluster.platform.power,), owned.prices.catalog),
        *_ports_of_spares(owned),
        *_storage_line(owned),
    ),
}
"""How each result of a cluster is worked out."""


def cluster_of(owned: Ownership, without: Collection[str] = ()) -> result.Cluster[Draws]:
    """The cluster as every reader gets it; lists that it is without are empty."""
    results: dict[str, Any] = {
        name: () if name in without else worked_out(owned) for name, worked_out in _RESULTS.items()
    }
    return result.Cluster(**results)


def cluster_result(owned: Ownership, name: str) -> Any:
    """One of these results by itself."""
    return _RESULTS[name](owned)


def _memory(cluster: Cluster) -> Draws:
    """Memory of all GPUs [B]."""
    memory = cluster.gpu.memory_nominal
    return Draws(memory.draws() * cluster.gpus, used=(memory,))


def _bought(owned: Ownership) -> Iterator[Line]:
    """What is bought beside the networks."""
    cluster = owned.cluster
    platform, each = cluster.platform, cluster.whole_node / cluster.platform.gpus_per_node
    spares, price = cluster.request.spare_nodes, owned.rates.node
    for role, nodes in (("node", cluster.bought_nodes), ("spare node", spares)):
        if nodes:
            power = np.asarray(nodes * each * platform.power.draws())
            yield Line(role, platform.name, platform.key, nodes, price, power)
    yield from owned.second_tier


def _ports_of_spares(owned: Ownership) -> Iterator[BillLine[Draws]]:
    """What the compute network has more of with ports for the spare nodes, part by part, and less of, as a number below
    zero, where other parts take their place; or a share of it for each, see `Network.for_spares`.
    """
    built, spared, more = owned.network.built, owned.network.spared, owned.network.for_spares[0]
    if not built or not more.any():
        return
    if not spared:
        spares = owned.cluster.request.spare_nodes
        each, whole = (Draws(np.asarray(cost), used=owned.network.used) for cost in (more / spares, more))
        yield BillLine(SPARE_PORTS, "each a node’s share of the network", "", spares, each, whole, NO_POWER)
        return
    without = {(line.role, line.key): line for line in built.parts}
    lines = {(line.role, line.key): line for line in spared.parts}
    for part, line in without.items():
        lines[part] = line._replace(quantity=(lines[part].quantity if part in lines else 0) - line.quantity)
    changed = [line._replace(role=SPARE_PORTS, power=None) for line in lines.values() if line.quantity]
    yield from bill_lines(changed, (), owned.prices.catalog, spared.spares.typical)
    if (stock := spared.stock - built.stock).any():
        yield replace(stock_line(stock, spared.spares, spared.used), role=SPARE_PORTS)


def _storage_line(owned: Ownership) -> Iterator[BillLine[Draws]]:
    """The storage that is bought."""
    price, capacity = owned.rates.storage, owned.prices.given.get("storage_capacity", 0.0)
    if price and capacity:
        whole = Draws(np.asarray(owned.storage), used=(price,))
        yield BillLine("storage", f"{units.show(capacity, 'B')} of usable storage", STORAGE, 1, whole, whole, NO_POWER)


def _costs(owned: Ownership, time_to_train: Floats) -> Costs[Draws]:
    """The costs as every reader gets them."""
    network, rates, capital = owned.network, owned.rates, owned.capital
    energy = Draws(np.asarray(owned.energy), used=_known(rates.electricity, rates.pue) + owned.power_sources)
    run_by = rates.run_at + owned.power_sources
    spent = (*capital.used, *run_by, rates.lifetime)

    def drawn(values: Array, used: tuple[Estimate, ...]) -> Draws:
        return Draws(np.asarray(values), used=used)

    return Costs(
        capital=capital,
        operating=drawn(owned.operating, (*run_by, *capital.used)),
        total=drawn(owned.total, spent),
        per_gpu_hour=drawn(owned.per_gpu_hour, spent),
        per_run=drawn(owned.per_run(time_to_train), spent),
        rental=drawn(owned.rental(time_to_train), _known(rates.rent)),
        capital_parts=(
            CostLine("nodes", drawn(owned.nodes, _known(rates.node))),
            CostLine("fabric", drawn(network.cost, network.used)),
            *(
                CostLine(f"{auxiliary.role} network", drawn(auxiliary.cost, auxiliary.used))
                for auxiliary in network.auxiliary
            ),
            *_auxiliary_lines(owned),
            CostLine("infrastructure", drawn(owned.building, (rates.infrastructure, *owned.power_sources))),
        ),
        operating_parts=(
            RunningCostLine("energy", energy),
            RunningCostLine("support", drawn(owned.support, (rates.support, *capital.used))),
        ),
        energy=energy,
        **_carbon(owned, time_to_train),
        **_scale_up(owned),
    )


def _auxiliary_lines(owned: Ownership) -> Iterator[CostLine[Draws]]:
    """What is bought for the cluster besides the nodes that train and their networks."""
    node, storage = owned.rates.node, owned.rates.storage
    if owned.cluster.request.spare_nodes:
        used = (*_known(node), *owned.network.used)
        yield CostLine("spare nodes", Draws(np.asarray(owned.standing), used=used))
    if owned.second_tier:
        paid = np.asarray(sum((line.cost for line in owned.second_tier), 0.0))
        used = _known(*(line.price for line in owned.second_tier))
        yield CostLine("second scale-up tier", Draws(paid, used=used))
    if storage:
        yield CostLine("storage", Draws(np.asarray(owned.storage), used=(storage,)))


def _second_tier(cluster: Cluster, prices: PriceList) -> Iterator[Line]:
    """Chips and modules of a second tier of scale-up switches, where domains are larger than one tier joins."""
    link = cluster.scale_up
    if not (link.switch_ports and link.links and link.chip_price and link.optics_price):
        return
    ports = round(link.switch_ports.typical)
    if cluster.domain <= ports:
        return
    domains = -(-cluster.gpus // cluster.domain)
    chips: Any = bisection.scale_up_chips(cluster.domain, link.links, ports) - -(-cluster.domain * link.links // ports)
    groups = -(-cluster.gpus // ports)
    yield Line("scale-up switch chip", f"{link.name}, chips of the second tier", link.key, domains * chips,
               prices.book(link.chip_price))  # fmt: skip
    yield Line("scale-up module", f"{link.name}, modules between the tiers for {ports} GPUs", link.key, groups,
               prices.book(link.optics_price))  # fmt: skip


def _carbon(owned: Ownership, time_to_train: Floats) -> dict[str, Draws]:
    """What a year and the run emit."""
    rates = owned.rates
    used = (rates.carbon, rates.pue, *owned.power_sources)
    run = costs.emissions(owned.facility, time_to_train, rates.carbon.draws())
    return {
        "carbon": Draws(np.asarray(owned.carbon), used=used),
        "carbon_per_run": Draws(np.asarray(run), used=used),
    }


def _scale_up(owned: Ownership) -> dict[str, Draws]:
    """What the links between GPUs of a domain cost: a share of the nodes' price, where it is known."""
    cluster = owned.cluster
    usual_link = (
        cluster.scale_up.key == cluster.gpu.scale_up and cluster.full_domain <= cluster.platform.scale_up_domain
    )
    price = owned.prices.scale_up(cluster.platform) if usual_link else None
    return _links(price, cluster.platform.scale_up_domain, cluster.scale_up.bandwidth)


@lru_cache(maxsize=64)
def _links(price: Estimate | None, gpus: int, rate: Estimate) -> dict[str, Draws]:
    """What links of a price [USD] and rate [B/s] that join so many GPUs cost each. Kept: it takes 10 µs, and there are
    few kinds, whatever the size of a cluster.
    """
    each, used = costs.per(draws_or_nan(price), gpus), _known(price)
    return {
        "scale_up_per_gpu": Draws(np.asarray(each), used=used),
        "scale_up_per_bandwidth": Draws(np.asarray(costs.per(each, rate.draws() / units.GIGABYTE)), used=(*used, rate)),
    }


def _known(*estimates: Estimate | None) -> tuple[Estimate, ...]:
    return tuple(estimate for estimate in estimates if estimate)


def _power_sources(network: Network, catalog: Catalog) -> tuple[Estimate, ...]:
    """What the power of nodes and networks rests on."""
    platform, share = network.cluster.platform, catalog.operations["site"]["typical_share"]
    others = (estimate for auxiliary in network.auxiliary for estimate in auxiliary.power_sources)
    return (platform.power, platform.typical_power or share, *network.power_sources, *others)


def _where_known(power: Array) -> Array:
    """A power, and nothing where it is unknown [W]."""
    return where(np.isfinite(power), power, 0.0)


def _full_rack(owned: Ownership, racks: Racks) -> Floats:
    """Maximum power of the fullest rack of nodes, which stand evenly but for those of one scale-up domain [W]."""
    cluster, platform = owned.cluster, owned.cluster.platform
    evenly = -(-cluster.standing_nodes // max(racks.compute, 1))
    nodes = max(evenly, min(cluster.unit_nodes, platform.nodes_per_rack, cluster.standing_nodes))
    return np.asarray(nodes * platform.power.draws() * cluster.whole_node / platform.gpus_per_node)


def _rack_limit(owned: Ownership) -> float:
    """What the hall gives a rack of nodes; 0 where the racks bring their own supply [W]."""
    given, platform = owned.prices.given.get("rack_power"), owned.cluster.platform
    if given is not None:
        return float(given)
    floor = owned.prices.catalog.operations["racks"]
    whole = platform.cooling == "liquid" or platform.scale_up_domain > platform.gpus_per_node
    dense = platform.power.typical * platform.nodes_per_rack > floor["integrated"].typical
    return 0.0 if whole or dense else floor["power"].typical


def _node_power(cluster: Cluster) -> float:
    """Maximum power of a node as it is bought [W]."""
    platform = cluster.platform
    return platform.power.typical * cluster.whole_node / platform.gpus_per_node


def _racks(owned: Ownership) -> Racks:
    cluster, network = owned.cluster, owned.network
    floor = owned.prices.catalog.operations["racks"]
    platform, per_node, limit = cluster.platform, _node_power(cluster), _rack_limit(owned)
    nodes = cluster.standing_nodes
    by_height = int(costs.racks(nodes, platform.nodes_per_rack, nodes * per_node, 0.0))
    by_power = int(costs.racks(nodes, nodes, nodes * per_node, limit)) if limit else by_height
    compute = max(by_height, by_power)
    networks: list[AuxiliaryNetwork | PricedDesign] = [*network.auxiliary]
    if network.built and not platform.switches_in_rack:
        networks.append(network.spared or network.built)
    heights = sum(each.rack_units for each in networks)
    powers = [float(each.power[0]) for each in networks]
    drawn_power = sum(filter(isfinite, powers))
    allowed = owned.prices.given.get("rack_power", floor["power"].typical)
    switches = int(costs.racks(heights, floor["network_units"].typical, drawn_power, allowed))
    return Racks(compute + switches, compute, by_height, by_power, switches)


SPARE_PORTS = "ports of spare nodes"
"""What parts of the compute network are bought for that spare nodes alone need."""
WIDE = 2.0
"""Times its typical price, or its share, that a node may cost, from which on a planner is told to ask."""


def price_in_doubt(platform: Platform, price: Estimate | None) -> Iterator[Finding]:
    """That a node may cost a multiple or a fraction of what is taken for it [USD], and what that rests on."""
    if price and price.low and price.high and max(price.high / price.typical, price.typical / price.low) >= WIDE:
        yield Finding(
            "warning",
            "price-in-doubt",
            f"A node of {platform.short_name} is taken to cost {units.show(price.typical, 'USD')}, and may "
            f"cost {units.show_span(price.low, price.high, 'USD')}. {price.note}".strip(),
            ("price_node",),
            "Type the price you were quoted for a node.",
        )


def _findings(owned: Ownership) -> list[Finding]:
    """What is left open, and why."""
    cluster, rates, prices = owned.cluster, owned.rates, owned.prices
    findings = [*price_in_doubt(cluster.platform, rates.node)]
    if rates.node is None:
        findings.append(
            Finding(
                "warning",
                "no-node-price",
                f"Nobody publishes a price of {cluster.platform.name}, so capital and what rests on it is left open.",
                ("price_node",),
                "Type the price you were quoted for a node.",
            )
        )
    if rates.rent is None:
        findings.append(
            Finding(
                "note",
                "no-rent",
                f"No rent of {cluster.gpu.name} is in the catalogue, so the rented run is left open.",
                ("price_gpu_hour",),
                "Type the rent of one GPU, such as 2.95 USD/h.",
            )
        )
    findings += _hall_findings(owned)
    if prices.region != HOME and "electricity" not in prices.given and rates.electricity is prices.book(ELECTRICITY):
        text = (
            f"No price of electricity in {named_region(prices.region)} is in the catalogue: the edition's own is taken."
        )
        findings.append(Finding("note", "no-regional-price", text, ("region", "electricity"), "Type what you pay."))
    if any(map(prices.borrowed, (rates.node, rates.electricity, rates.rent))):
        book = prices.catalog.prices[prices.edition]
        findings.append(
            Finding(
                "note",
                "borrowed-prices",
                f"The {book.name} edition names no price of nodes, energy or rent; those are from the market edition.",
                ("price_book",),
                "Type what you pay for them.",
            )
        )
    return findings


def named_region(key: str) -> str:
    """A region's name.

    >>> named_region("united-states")
    'United States'
    """
    return key.replace("-", " ").title()


def _hall_findings(owned: Ownership) -> Iterator[Finding]:
    """What the hall or the site cannot supply."""
    cluster, given = owned.cluster, owned.prices.given
    platform, limit, site = cluster.platform, given.get("rack_power"), given.get("site_power")
    rack = cluster.platform.scale_up_domain > platform.gpus_per_node
    least = _node_power(cluster) * (platform.nodes_per_rack if rack else 1)
    if limit is not None and least > limit:
        what = f"A rack of {platform.short_name}" if rack else f"One {platform.short_name}"
        text = f"{what} draws up to {units.show(least, 'W')}; the hall gives a rack {units.show(limit, 'W')}."
        yield Finding("error", "rack-too-dense", text, ("rack_power",), "Take another hall, or other servers.")
    elif limit is not None and platform.cooling == "air" and (full := _held(cluster, limit)) > (most := _air(owned)):
        text = (
            f"A rack of air-cooled servers draws {units.show(full, 'W')}; air carries {units.show(most, 'W')} "
            "out of one at most, with cooled doors."
        )
        yield Finding("warning", "beyond-air", text, ("rack_power",), "Take liquid-cooled servers, or fill racks less.")
    yield from _sparse_racks(owned)
    drawn = 0.0 if site is None else float(owned.power[0] * owned.rates.pue.typical)
    if site is not None and drawn > site:
        text = f"The site would draw {units.show(drawn, 'W')} at most, {units.show(drawn - site, 'W')} over its limit."
        fits = _within_site(owned, drawn, site)
        advice = f"{fits:,} GPUs fit." if fits else "Take a larger site."
        yield Finding("error", "over-site-power", text, ("site_power",), advice, {"gpus": fits} if fits else {})


def _sparse_racks(owned: Ownership) -> Iterator[Finding]:
    """That cables are measured between full racks, where power leaves some of a rack empty."""
    cluster, limit, node = owned.cluster, _rack_limit(owned), _node_power(owned.cluster)
    platform = cluster.platform
    full, held, nodes = platform.nodes_per_rack, _nodes_held(cluster, limit), int(np.max(cluster.standing_nodes))
    apart = platform.scale_up_domain <= platform.gpus_per_node
    if apart and held and -(-nodes // held) > -(-nodes // full) and owned.network.built:
        text = (
            f"At {units.show(node, 'W')} a node a rack of {units.show(limit, 'W')} holds {held}, but "
            f"cables are counted and priced between racks of {full}: they are longer, and copper may not reach."
        )
        advice = "Ask for fibre, or for lengths between the racks as they will stand."
        yield Finding("note", "sparse-racks", text, ("rack_power", "media"), advice)


def _held(cluster: Cluster, limit: float) -> float:
    """What the nodes draw that a rack holds at most where the hall gives it so much [W]."""
    return _node_power(cluster) * _nodes_held(cluster, limit)


def _nodes_held(cluster: Cluster, limit: float) -> int:
    """How many of a cluster's nodes a rack holds where the hall gives it so much [W]."""
    by_power = int(limit // _node_power(cluster))
    return min(cluster.platform.nodes_per_rack, by_power, int(np.max(cluster.standing_nodes)))


def _within_site(owned: Ownership, drawn: float, site: float) -> int:
    """About as many GPUs as keep within what a site gives [W], where those planned draw more [1]. Fewer need another
    network, and no fewer spare nodes: they are planned until they fit.
    """
    cluster, network, pue = owned.cluster, owned.network, owned.rates.pue.typical
    while drawn > site:
        gpus = int(min(cluster.gpus * site / drawn, cluster.gpus - 1)) // cluster.unit_gpus * cluster.unit_gpus
        if not gpus:
            return 0
        cluster = cluster.with_gpus(gpus)
        smaller = design_network(cluster, network.request, network.prices)
        drawn = pue * float(spent([smaller], np.zeros(1)).power[0])
    return cluster.gpus


def _air(owned: Ownership) -> float:
    """The most that air carries out of a rack [W]."""
    return owned.prices.catalog.operations["racks"]["air"].typical


def explain(cost: TotalCost) -> Mapping[str, Explanation]:
    """The planner's own numbers in the formulas of money, by the result's name on the wire."""
    owned = cost.owned

    def money(symbol: str, meaning: str, values: Array, unit: str = "USD") -> Term:
        return Term(symbol, meaning, typical_of(values), unit)

    lifetime, rent = owned.rates.lifetime, owned.rates.rent
    life = Term("T", "lifetime", lifetime.typical, "s", lifetime.source)
    whole = money("C", "whole cost", owned.total)
    time = Term("t", "length of the run", typical_of(cost.time_to_train), "s")
    gpus = Term("n", "GPUs", float(owned.cluster.gpus), "1")
    yearly = money("O", "operating", owned.operating, "USD/year")
    explained = {
        "costs.total": Explanation("costs.total", (money("C", "capital", owned.capital.values), yearly, life)),
        "costs.per_gpu_hour": Explanation("costs.per_gpu_time", (whole, gpus, life)),
        "costs.per_run": Explanation("costs.run", (whole, time, life)),
    }
    if rent:
        each = Term("p", "rent of one GPU", rent.typical, "USD/s", rent.source)
        explained["costs.rental"] = Explanation("costs.rental", (gpus, each, time))
    return explained
