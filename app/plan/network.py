"""From hardware and wishes to a network that can be bought: switches, cables, bisection, price, power.

The planner's switch and tiers are used where given; otherwise the cheapest switch of the generation that works.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.entries import ScaleOut
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import Sampling
from app.formulas import costs
from app.formulas.arrays import Array, maximum, where
from app.formulas.fabric import bisection, layouts, placement
from app.formulas.fabric.cabling import Counts
from app.formulas.records import but
from app.plan import bill_of_materials, findings, reference_designs
from app.plan.auxiliary_networks import (
    Asked,
    AuxiliaryNetwork,
    asked_beside,
    auxiliary_networks,
    storage_findings,
)
from app.plan.band import Draws
from app.plan.bill_of_materials import UNKNOWN, ZERO, PricedDesign, draws_or_nan
from app.plan.cables import Cable, cable_list
from app.plan.cheapest_design import choose, choose_all
from app.plan.cluster import Cluster, look_up
from app.plan.leaves import BY_RAIL, TREES
from app.plan.machine import CREDITED, PAUSED, Controls, controls, goodput, transport_of
from app.plan.prices import PriceList
from app.plan.purchase_list import bill_lines, stock_line
from app.plan.result import (
    BillLine,
    Bisection,
    Explanation,
    Fabric,
    FabricShape,
    Finding,
    Links,
    OtherNetwork,
    SlotUse,
    Term,
)
from app.plan.scenario import NetworkRequest, PriceRequest, Scenario
from app.plan.switches import Chosen, SwitchPair, candidates
from app.units import percent

Floats = NDArray[np.float64]
LIGHT = 299_792_458.0
"""Speed of light in vacuum [m/s]."""
BETWEEN_SWITCHES = "leaf-spine"
"""The degraded link that joins switches."""
SCATTERED = "scattered"
"""The placement that takes nodes at random."""
NEARLY = 0.95
"""Share of a rate below which a loss is worth a warning."""


@dataclass(frozen=True, eq=False)
class Network:
    """The compute network of a cluster, and those beside it."""

    cluster: Cluster
    request: NetworkRequest
    prices: PriceList
    choices: tuple[SwitchPair, ...]
    wanted: Chosen | None
    """The switches chosen and what they make, buildable or not; ``None`` where there is nothing to design."""
    built: PricedDesign | None
    spared: PricedDesign | None
    """The same with ports for the spare nodes too; ``None`` where there are none, or no such network can be built."""
    auxiliary: tuple[AuxiliaryNetwork, ...]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong or remarkable."""
        return tuple(_findings(self))

    @property
    def faults(self) -> Iterator[Finding]:
        """What is wrong or remarkable where it cannot be built, one after another: an error is among it there and
        nowhere else.
        """
        return iter(()) if self.built else _findings(self)

    def carrying(self, request: NetworkRequest) -> "Network":
        """The same parts under a request that asks for no others: traffic may take other paths, or meet a bad link."""
        return self if request is self.request else but(self, request=request)

    @property
    def bought(self) -> Hashable:
        """What networks have in common that are the same parts at the same prices, whatever they carry and how."""
        request, priced = self.request, self.prices if self.auxiliary else None
        parts = self.built or (request.wishes, priced)
        return self.cluster, parts, request.storage_network, request.management_network

    @property
    def alike(self) -> Hashable:
        """What networks at equal prices have in common that can be one whose numbers are columns, see `together`:
        nothing with others where there are networks beside it.
        """
        if self.auxiliary:
            return self.bought
        request = self.request
        links = request.topology, request.planes, request.management_links, request.media
        return self.cluster.alike, links, *(each and each.choice for each in (self.built, self.spared))

    def at(self, places: NDArray[np.int64]) -> "Network":
        """Rows of networks that are one, see `together`: of each which of them it is."""
        sizes: dict[str, Any] = {name: getattr(self.cluster, name)[places] for name in ("gpus", "nodes")}
        clusters = but(self.cluster, **sizes)
        built = self.built and bill_of_materials.rows_of(self.built, clusters, places)
        spared = self.spared and bill_of_materials.rows_of(self.spared, clusters.with_spares(), places)
        return but(self, cluster=clusters, built=built, spared=spared)

    @property
    def switch(self) -> str:
        """Key of the leaf switch."""
        if self.built:
            return self.built.choice.leaf.key
        return self.choices[0].leaf.key if self.choices else self.request.switch or ""

    @property
    def spine_switch(self) -> str | None:
        """Key of the switch above the leaves, where there is one."""
        if self.built is None or self.built.design.spine_switches == 0:
            return self.request.spine_switch
        return self.built.choice.spine.key

    @property
    def tiers(self) -> int | None:
        """Tiers of switches [1]."""
        return self.built.counts.tiers if self.built else None

    @property
    def nodes_per_unit(self) -> int | None:
        """Nodes of a scalable unit, with ports for the spare nodes; none where the topology has no units unless some
        were asked for [1].
        """
        built = self.spared or self.built
        has_units = built is not None and self.request.topology in ("rail-optimized", "rail-only")
        return built.counts.unit_nodes if built and has_units else self.request.nodes_per_unit

    @property
    def storage_rate(self) -> float:
        """What the links of the storage servers carry; infinite where no network of theirs is planned [B/s]."""
        of_nodes = self.cluster.with_spares().nodes * self.cluster.platform.storage_nics
        links = (each.links.node_leaf - of_nodes for each in self.auxiliary if each.role == "storage")
        return self.cluster.scale_out.port_rate.typical * next(links, inf)

    @property
    def degraded(self) -> bool:
        """Whether a link is said to be bad."""
        return self.request.link_rate_left < 1 or self.request.link_loss > 0

    @property
    def link_is_missing(self) -> bool:
        """Whether the link that is said to be bad is one that the network does not have."""
        switches = (self.built.counts.leaves_per_plane if self.built else 0) > 1
        between = self.request.degraded_link == BETWEEN_SWITCHES
        return self.degraded and not (switches if between else self.built)

    @property
    def unbuildable(self) -> bool:
        """Whether nodes need a network that cannot be built as asked."""
        return _needed(self.cluster) and self.built is None

    @property
    def load_balancing(self) -> placement.Balancing:
        """How flows are spread over equal paths: as asked, or as the network and its tuning do."""
        return self.request.load_balancing or usual_balancing(self.cluster.scale_out.family, self.request.tuned)

    @property
    def one_path(self) -> bool:
        """Whether each flow is bound to the links that join two switches."""
        return self.request.topology in ("mesh", "dragonfly") and self.load_balancing in placement.PINNED

    @property
    def everyone_left(self) -> float:
        """Share of its rate that a ring or tree of all GPUs has left, the lesser of them [1]."""
        everyone = [(1.0, self.site.gpus)]
        return min(float(placement.network_share(everyone, pattern, self.site)) for pattern in ("ring", "tree"))

    @property
    def controls(self) -> Controls:
        """What keeps queues from overflowing and from filling."""
        return controls(self.cluster.scale_out.family, self.request)

    @cached_property
    def site(self) -> placement.Site:
        """Where the GPUs stand."""
        cluster, built, balancing = self.cluster, self.built, self.load_balancing
        site = placement.Site(
            float(cluster.gpus),
            float(cluster.domain),
            scattered=self.request.placement == SCATTERED,
            balancing=balancing,
            flows=flows(cluster.scale_out, balancing, self.prices.catalog),
            planes=float(self.request.planes),
        )
        if built is None:
            return site
        pinned = balancing in placement.PINNED
        degraded = self.degraded and self.request.degraded_link == BETWEEN_SWITCHES
        tiers = placement.tiers_of(built.design, built.counts, cluster.gpus_per_node, pinned, degraded)
        if degraded and tiers:
            site = site._replace(link_left=self.request.link_rate_left, link_goodput=self._link_goodput(tiers[0]))
        return site._replace(
            tiers=tiers,
            leaf=float(placement.leaf_gpus(built.counts, cluster.gpus_per_node)),
            pod=float(placement.pod_gpus(built.counts, cluster.gpus_per_node)),
            rails_apart=cluster.nics_per_node > 1 and not bool(built.design.crosses_rails),
        )

    def _link_goodput(self, tier: placement.Tier) -> float:
        """What the lossy link between switches leaves: where packets take all links, each flow loses its share [1]."""
        links = 1.0 if self.load_balancing == "hashing" else tier.neighbour_links
        transport = replace(transport_of(self.cluster, self.request), drops=False, loss=self.request.link_loss / links)
        return goodput(transport, self.prices.catalog)

    @property
    def hops(self) -> int:
        """Switches on the longest shortest path [1]."""
        return int(self.built.design.hops) if self.built else 0

    @property
    def cost(self) -> Floats:
        """Price of the compute fabric [USD]."""
        return self.built.cost if self.built else self._without

    @property
    def power(self) -> Floats:
        """Maximum power of switches with their modules [W]."""
        return self.built.power if self.built else self._without

    @property
    def typical_power(self) -> Floats:
        """Usual power of switches with their modules [W]."""
        return self.built.typical_power if self.built else self._without

    @property
    def typical(self) -> bill_of_materials.Totals:
        """What it costs and draws, typically."""
        if self.built:
            return self.built.typical
        without = float(self._without[0])
        return bill_of_materials.Totals(without, without, without)

    @property
    def _without(self) -> Floats:
        """What a fabric that is not built costs and draws: nothing where none is needed."""
        return np.asarray(where(self.cluster.nodes <= 1, ZERO, UNKNOWN))

    @property
    def used(self) -> tuple[Estimate, ...]:
        """What the cost rests on."""
        return self.built.used if self.built else ()

    @property
    def power_sources(self) -> tuple[Estimate, ...]:
        """What the power rests on."""
        return self.built.power_sources if self.built else ()

    @cached_property
    def for_spares(self) -> tuple[Floats, Floats, Floats]:
        """What the fabric costs more [USD], and draws more at most and usually [W], with ports for the spare nodes.

        That is below zero where a larger network is the cheaper one.
        Where no fabric of so many nodes can be built, as much for each as for a node that trains.
        """
        totals = self.cost, self.power, self.typical_power
        if self.spared:
            more = zip((self.spared.cost, self.spared.power, self.spared.typical_power), totals, strict=True)
            cost, power, typical_power = (with_them - without for with_them, without in more)
            return cost, power, typical_power
        share = self.cluster.request.spare_nodes / maximum(self.cluster.nodes, 1)
        cost, power, typical_power = (values * share for values in totals)
        return cost, power, typical_power

    def fields(self) -> dict[str, object]:
        """What the design fills into a scenario's blanks, by the scenario's names."""
        return {
            "switch": self.switch,
            "spine_switch": self.spine_switch,
            "tiers": self.tiers,
            "nodes_per_unit": self.nodes_per_unit,
            "load_balancing": self.load_balancing,
            "flow_control": self.controls.flow,
            "congestion_control": self.controls.congestion,
        }

    def cable_count(self) -> int:
        """How many rows `cables` has."""
        if self.built is None:
            return 0
        design = self.built.design
        return int(design.node_leaf + design.leaf_spine + design.spine_core + design.core_super_core + design.peer)

    def cables(self) -> Iterator[Cable]:
        """The point-to-point list of the compute fabric, row by row."""
        if self.built is None:
            return iter(())
        kinds = {level: medium.name if medium else "" for level, medium in self.built.media.items()}
        return cable_list(self.built.cabling, kinds)


def sites_of(networks: Sequence[Network]) -> list[placement.Site]:
    """Where the GPUs of clusters stand that differ in size and in their networks' tapers alone: trees of equally many
    tiers are worked out together.
    """
    sites: dict[int, placement.Site] = {}
    trees: dict[int, list[int]] = {}
    for place, network in enumerate(networks):
        if network.built is None or network.degraded or network.request.topology not in TREES:
            sites[place] = network.site
        else:
            trees.setdefault(int(network.built.design.tiers), []).append(place)
    for tiers, places in trees.items():
        first, several = networks[places[0]], [networks[place] for place in places]
        design = layouts.Design.stacked([network.built.design for network in several if network.built])
        nodes: Any = np.array([network.cluster.nodes for network in several])
        counts = bill_of_materials.counted(design, but(first.cluster, nodes=nodes), first.request)._replace(tiers=tiers)
        stands = placement.stands_of(
            design, counts, first.cluster.gpus_per_node, first.load_balancing in placement.PINNED
        )
        apart = (~design.crosses_rails).tolist() if first.cluster.nics_per_node > 1 else [False] * len(places)
        for place, network, its, rails_apart in zip(places, several, stands, apart, strict=True):
            met, leaf, pod = its
            gpus = float(network.cluster.gpus)
            sites[place] = first.site._replace(gpus=gpus, tiers=met, leaf=leaf, pod=pod, rails_apart=rails_apart)
    return [sites[place] for place in range(len(networks))]


def usual_balancing(family: str, tuned: bool) -> placement.Balancing:
    """How a network of a family spreads flows over equal paths unless told otherwise.

    InfiniBand, Spectrum-X and Slingshot choose for each packet, Ultra Ethernet and EFA send each packet another way;
    Ethernet hashes each flow, with RoCE tuned each queue pair.
    """
    if family in ("ultra-ethernet", "efa"):
        return "spraying"
    if family == "roce":
        return "flowlet" if tuned else "hashing"
    return "hashing" if family in ("tcp", "gpudirect-tcp") else "adaptive"


def flows(scale_out: ScaleOut, balancing: placement.Balancing, catalog: Catalog) -> float:
    """Flows of a GPU to one peer that a hash can tell apart [1]."""
    constants = catalog.collectives["flows"]
    if scale_out.family in ("tcp", "gpudirect-tcp"):
        return constants["sockets"].typical
    pairs = constants["queue_pairs"].typical if balancing == "flowlet" else 1.0
    return constants["channels"].typical * pairs


Inputs = tuple[Cluster, NetworkRequest, PriceList]
"""What a network is designed from."""


def _inputs(scenario: Scenario, catalog: Catalog) -> Inputs:
    """That of a scenario."""
    prices = PriceList.of(scenario.part(PriceRequest), catalog)
    return look_up(scenario, catalog), scenario.part(NetworkRequest), prices


def network_of(scenario: Scenario, catalog: Catalog) -> Network:
    """The network of a scenario."""
    return design_network(*_inputs(scenario, catalog))


def networks_of(scenarios: Iterable[Scenario], catalog: Catalog) -> list[Network]:
    """The networks of several scenarios, whose fabrics are designed at once."""
    return networks_from([_inputs(scenario, catalog) for scenario in scenarios])


NETWORKS_KEPT = 32
"""Networks that are kept; as many at most are designed together so that each is found again."""


def networks_from(every: Sequence[Inputs], tapered: Sequence[int] | None = None) -> list[Network]:
    """The same of what they are designed from; few are kept, and so is what is worked out from them.

    Of many that differ in their tapers alone, which have a number in common, those that come to the same are one.
    """
    few = len(every) <= NETWORKS_KEPT
    networks: dict[int, Network] = {}
    for prices, places in _by_prices(every).items():
        clusters = [every[place][:2] for place in places]
        if few:
            choose_together(clusters, prices)
            networks |= zip(places, (design_network(*each, prices) for each in clusters), strict=True)
        else:
            groups = [tapered[place] for place in places] if tapered else [*range(len(places))]
            networks |= zip(places, _designed(clusters, prices, groups), strict=True)
    return [networks[place] for place in range(len(every))]


def _by_prices(every: Sequence[Inputs]) -> dict[PriceList, list[int]]:
    """Places of what networks are designed from, by its prices."""
    places: dict[PriceList, list[int]] = {}
    for place, (_, _, prices) in enumerate(every):
        places.setdefault(prices, []).append(place)
    return places


def design_together(scenarios: Iterable[Scenario], catalog: Catalog, advised: int = 0) -> list[Inputs]:
    """Design the fabrics of several scenarios at once, so that the network of each, from what is handed back, finds its
    own made; and of so many of the first what may be advised in its place.
    """
    every = [_inputs(scenario, catalog) for scenario in scenarios]
    likely = [asked for each in every[:advised] if (asked := _likely_advised(*each))]
    chosen = _choose_for([*every, *likely])
    _choose_for([
        (cluster, wish, prices)
        for place, (cluster, request, prices) in enumerate(every[:advised])
        if place in chosen and (wish := findings.with_own_spines(chosen[place].design, request))
    ])  # fmt: skip
    return every


def _choose_for(every: Sequence[Inputs]) -> dict[int, Chosen]:
    """The fabrics of some clusters, by their places, where there are any: those at the same prices chosen at once."""
    chosen: dict[int, Chosen] = {}
    for prices, places in _by_prices(every).items():
        fabrics = choose_together([every[place][:2] for place in places], prices)
        chosen |= {places[place]: fabric for place, fabric in fabrics.items()}
    return chosen


def choose_together(clusters: Sequence[tuple[Cluster, NetworkRequest]], prices: PriceList) -> dict[int, Chosen]:
    """The same for several clusters, all at these prices."""
    choices = {
        place: switches
        for place, asked in enumerate(clusters)
        if _needed(asked[0]) and (switches := candidates(*asked, prices.catalog))
    }
    chosen = choose_all([(switches, *clusters[place]) for place, switches in choices.items()], prices)
    return dict(zip(choices, chosen, strict=True))


def price_networks(networks: Iterable[Network], sampling: Sampling) -> None:
    """Count and price what some networks are built of in few calls, so that each finds it done."""
    parts = (part for network in networks for part in (network.built, network.spared) if part)
    bill_of_materials.price_together(parts, sampling)


def measure_networks(networks: Iterable[Network], catalog: Catalog) -> None:
    """Find the longest cables of some networks in few calls, so that each finds it done."""
    bill_of_materials.measure_together([each.built.wanted for each in networks if each.built], catalog)


def _likely_advised(cluster: Cluster, request: NetworkRequest, prices: PriceList) -> Inputs | None:
    """What may be advised in place of what is chosen for a cluster that is too large for two tiers of like switches."""
    asked = findings.own_spines(request)
    radix = max((choice.radix for choice in candidates(cluster, request, prices.catalog)), default=0)
    is_large = cluster.nodes * cluster.nics_per_node > radix * layouts.down_ports(radix, request.oversubscription)
    return (cluster, asked, prices) if asked and is_large else None


def _needed(cluster: Cluster) -> bool:
    """Whether there is anything to join."""
    return cluster.nodes > 1 and cluster.nics_per_node > 0


@lru_cache(maxsize=NETWORKS_KEPT)
def design_network(cluster: Cluster, request: NetworkRequest, prices: PriceList) -> Network:
    """Design and price the network of a cluster, and the networks beside it that are switched on.

    Kept: it takes 0.7 ms, and every job and price of a run on one cluster shares it.
    """
    return _designed([(cluster, request)], prices, [0])[0]


def _designed(
    asked: Sequence[tuple[Cluster, NetworkRequest]], prices: PriceList, tapered: Sequence[int]
) -> list[Network]:
    """The same for several clusters at the same prices, one of those that differ in their tapers alone and come to the
    same, as far as it is sure without looking for those of spare nodes.
    """
    choices = [candidates(*each, prices.catalog) for each in asked]
    needed = [place for place, (cluster, _) in enumerate(asked) if choices[place] and _needed(cluster)]
    chosen = choose_with_spares([(choices[place], *asked[place]) for place in needed], prices)
    wanted = dict(zip(needed, chosen, strict=True))
    choose_all((auxiliary for each in asked for auxiliary in asked_beside(*each, prices.catalog)), prices)
    networks: dict[Hashable, Network] = {}
    keys: list[Hashable] = []
    for place, each in enumerate(asked):
        its = wanted.get(place)
        sure = its and int(its.design.reason) == layouts.BUILT and not each[0].request.spare_nodes
        key = (tapered[place], id(its.choice), id(its.design), id(its.lengths)) if its and sure else place
        keys.append(key)
        if key not in networks:
            networks[key] = _network(*each, prices, choices[place], its)
    return [networks[key] for key in keys]


def _network(
    cluster: Cluster,
    request: NetworkRequest,
    prices: PriceList,
    choices: tuple[SwitchPair, ...],
    wanted: Chosen | None,
) -> Network:
    """The network of the switches and the design that were chosen, and those beside it."""
    built = _buildable(wanted, cluster, request, prices) if wanted else None
    spared = None
    if built and cluster.request.spare_nodes:
        larger = cluster.with_spares()
        spared = _buildable(choose(choices, larger, request, prices), larger, request, prices)
    return Network(
        cluster=cluster,
        request=request,
        prices=prices,
        choices=choices,
        wanted=wanted,
        built=built,
        spared=spared,
        auxiliary=tuple(auxiliary_networks(cluster, request, prices, built)),
    )


def _buildable(wanted: Chosen, cluster: Cluster, request: NetworkRequest, prices: PriceList) -> PricedDesign | None:
    """What was chosen, where it can be built as asked."""
    refused = findings.refused(wanted.design, cluster, request, prices.catalog)
    return None if refused else PricedDesign(wanted, cluster, request, prices)


def together(networks: Sequence[Network]) -> Network:
    """Networks that are `alike` as one whose numbers are columns: what it has in whole numbers and words, each of them
    says by itself.
    """
    sizes: dict[str, Any] = {
        name: np.array([getattr(network.cluster, name) for network in networks])[:, None] for name in ("gpus", "nodes")
    }
    first, clusters = networks[0], but(networks[0].cluster, **sizes)
    built = [network.built for network in networks if network.built]
    spared = [network.spared for network in networks if network.spared]
    return but(
        first,
        cluster=clusters,
        built=bill_of_materials.together(built, clusters) if built else None,
        spared=bill_of_materials.together(spared, clusters.with_spares()) if spared else None,
    )


def tapered_alike(networks: Sequence[Network]) -> list[Hashable]:
    """What networks have in common that differ in their tapers alone and come to the same: what is built, of what
    switches, with links how long. Those that cannot be built have nothing in common.
    """
    keys: list[Hashable] = [*range(len(networks))]
    places = [place for place, network in enumerate(networks) if network.built]
    columns = (_told_apart([getattr(networks[place], name) for place in places]) for name in ("built", "spared"))
    for place, *parts in zip(places, *columns, strict=True):
        keys[place] = tuple(parts)
    return keys


def _told_apart(designs: Sequence[PricedDesign | None]) -> list[Hashable]:
    """What tells some designs apart, of equal clusters at equal prices."""
    different = {id(each.design): each.design for each in designs if each}
    counts = np.array([*different.values()], np.float64)
    keys = dict(zip(different, (row.tobytes() for row in counts), strict=True))
    return [
        each and (each.choice, keys[id(each.design)], tuple((each.chosen.lengths or {}).values())) for each in designs
    ]


def choose_with_spares(asked: Sequence[Asked], prices: PriceList) -> list[Chosen]:
    """What is built for the nodes that train in each of some clusters, of the switches, tiers and units of the network
    that has ports for the spare nodes too; without those where no such network can be built.
    """
    chosen = choose_all(asked, prices)
    spared = [place for place, (_, cluster, _) in enumerate(asked) if cluster.request.spare_nodes]
    if not spared:
        return chosen
    larger = [(choices, cluster.with_spares(), request) for choices, cluster, request in map(asked.__getitem__, spared)]
    same = {
        place: _as_designed(choice, design, *asked[place][1:])
        for place, (_, cluster, request), (choice, design, _) in zip(
            spared, larger, choose_all(larger, prices), strict=True
        )
        if not findings.refused(design, cluster, request, prices.catalog)
    }
    for (place, again), wanted in zip(same.items(), choose_all(same.values(), prices), strict=True):
        if not findings.refused(wanted.design, *again[1:], prices.catalog):
            chosen[place] = wanted
    return chosen


def _as_designed(choice: SwitchPair, design: layouts.Design, cluster: Cluster, request: NetworkRequest) -> Asked:
    """What asks for the fabric of a cluster of the switches, tiers and units of a design."""
    units = {"nodes_per_unit": int(design.unit_nodes)} if request.topology in BY_RAIL else {}
    return (choice,), cluster, request.model_copy(update={"tiers": int(design.tiers), **units})


def _findings(network: Network) -> Iterator[Finding]:
    cluster, request, catalog, built = network.cluster, network.request, network.prices.catalog, network.built

    def built_for(asked: NetworkRequest) -> layouts.Design | None:
        choices = candidates(cluster, asked, catalog)
        wanted = choose_with_spares([(choices, cluster, asked)], network.prices)[0] if choices else None
        return wanted.design if wanted and not findings.refused(wanted.design, cluster, asked, catalog) else None

    if cluster.nodes > 1 and cluster.nics_per_node > 0:
        yield from findings.of_request(cluster, request, catalog, network.one_path)
        if wanted := network.wanted:
            yield from findings.of_design(wanted.choice, wanted.design, cluster, request, catalog, built_for)
        else:
            yield findings.too_slow(cluster, request, catalog)
    elif cluster.nodes <= 1:
        who = f"All {cluster.gpus} GPUs stand" if cluster.gpus > 1 else "The GPU stands"
        text = f"{who} in one node: no network between nodes is needed or priced."
        yield Finding("note", "one-node", text, ("gpus",))
    yield from _of_controls(network)
    yield from _of_paths(network)
    if request.storage_network:
        yield from storage_findings(cluster, network.auxiliary)
    if network.link_is_missing:
        yield Finding(
            "note",
            "no-such-link",
            "The network has no link of the kind that is said to be bad, so it has no effect.",
            ("degraded_link",),
            "Choose the other kind of link, or more nodes.",
        )
    if built:
        if cluster.request.spare_nodes and not network.spared:
            yield findings.no_ports_for_spares(cluster)
        yield from findings.of_prices(network.prices, network.choices, built, cluster)
        yield from findings.of_size(
            built, cluster, request, lambda asked: design_network(cluster, asked, network.prices).everyone_left
        )
        yield from findings.of_switches(built)


def _of_controls(network: Network) -> Iterator[Finding]:
    """Flow and congestion control that the network does not have, or that leave it to others."""
    family, name = network.cluster.scale_out.family, network.cluster.scale_out.name
    flow, congestion = network.controls
    if network.request.flow_control and (flow == "credits") != (family in CREDITED):
        has = "credits and nothing else" if family in CREDITED else "no credits"
        yield Finding(
            "note",
            "flow-control-of-another-network",
            f"{name} has {has}: this setting changes nothing.",
            ("flow_control",),
            "Leave it blank.",
        )
    elif family in PAUSED and flow == "none" != congestion:
        lost = network.prices.catalog.collectives["loss"]["overflow"].typical
        kept = goodput(transport_of(network.cluster, network.request), network.prices.catalog)
        yield Finding(
            "warning",
            "lossy-ethernet",
            f"Without PFC a full queue drops packets, typically {lost:g} of them, and {name} sends all behind a lost "
            f"one again: {percent(kept)} of the rate is left.",
            ("flow_control",),
            "Switch PFC on for the RDMA traffic class.",
            {"flow_control": "pfc"},
        )
    elif family in PAUSED and flow == "pfc" and congestion == "none":
        yield Finding(
            "note",
            "pauses-alone",
            "PFC without ECN loses nothing as long as receivers admit no more than they can take, as NCCL's do in "
            "collectives; other traffic that meets in a queue is paused with it.",
            ("congestion_control",),
            "Keep RDMA in a priority of its own.",
        )


def _of_paths(network: Network) -> Iterator[Finding]:
    """Flows bound to the few links that join two switches, where packets could also go by way of others."""
    built, site, cluster = network.built, network.site, network.cluster
    if built is None or not network.one_path:
        return
    bound, free = (
        placement.network_share(
            [(1.0, site.gpus)],
            "ring",
            site._replace(tiers=placement.tiers_of(built.design, built.counts, cluster.gpus_per_node, pinned)),
        )
        for pinned in (True, False)
    )
    if bound < free * NEARLY:
        yield Finding(
            "warning",
            "flows-on-one-path",
            f"Flows that are bound to a path all take the shortest, the few links that join two switches: a ring of "
            f"all GPUs has {percent(float(bound))} of the network's rate, and {percent(float(free))} where packets "
            "also go by way of other switches.",
            ("load_balancing", "topology"),
            "Use adaptive routing or packet spraying, or a tree of switches.",
            {"load_balancing": "adaptive"},
        )


# Results --------------------------------------------------------------------------------------------------------------


class _Whole(NamedTuple):
    """A network, and what the whole cluster costs to buy [USD]."""

    network: Network
    capital: Draws

    @property
    def design(self) -> layouts.Design | None:
        """Its design, where one can be built."""
        return self.network.built.design if self.network.built else None

    @property
    def counts(self) -> Counts | None:
        """The same in plain numbers."""
        return self.network.built.counts if self.network.built else None

    @property
    def gpus(self) -> int:
        """GPUs of the cluster [1]."""
        return self.network.cluster.gpus

    @property
    def cut(self) -> Array:
        """What crosses the worst halves, one way [B/s]."""
        rate = self.network.cluster.scale_out.port_rate.draws() / self.network.request.planes
        return self.design.bisection * rate if self.design is not None else UNKNOWN

    def spent(self, per: Array = 1.0) -> Draws:
        """Its cost over something [USD]."""
        return Draws(np.asarray(costs.per(self.network.cost, per)), used=self.network.used)

    def drawn(self, power: Floats) -> Draws:
        """What it draws [W]."""
        return Draws(power, used=self.network.power_sources)


_RESULTS: Mapping[str, Callable[[_Whole], Any]] = {
    "topology": lambda whole: whole.network.request.topology,
    "approximate": lambda whole: layouts.LAYOUTS.index(whole.network.request.topology) in layouts.APPROXIMATE,
    "switch": lambda whole: whole.network.switch,
    "spine_switch": lambda whole: whole.network.spine_switch,
    "tiers": lambda whole: whole.network.tiers,
    "planes": lambda whole: whole.network.request.planes,
    "leaf_switches": lambda whole: whole.counts.leaves if whole.counts else None,
    "spine_switches": lambda whole: whole.counts.spines if whole.counts else None,
    "core_switches": lambda whole: whole.counts.cores + whole.counts.super_cores if whole.counts else None,
    "links": lambda whole: _links(whole.design),
    "bisection": lambda whole: tuple(_bisections(whole.network)),
    "bisection_per_gpu": lambda whole: Draws(
        np.asarray(whole.cut / whole.gpus), used=(whole.network.cluster.scale_out.port_rate,)
    ),
    "slot": lambda whole: tuple(_slot(whole.network)),
    "ports_free": lambda whole: _ports_free(whole.design),
    "largest_cluster": lambda whole: _largest(whole.design, whole.network.cluster.gpus_per_node),
    "hops": lambda whole: whole.network.hops if whole.network.built else None,
    "latency": lambda whole: _latency(whole.network),
    "cost": lambda whole: Draws(np.asarray(whole.network.cost), used=whole.network.used),
    "cost_per_host_port": lambda whole: whole.spent(whole.design.hosts if whole.design else 0.0),
    "cost_per_switch_port": lambda whole: whole.spent(whole.network.built.switch_ports if whole.network.built else 0.0),
    "cost_per_gpu": lambda whole: whole.spent(whole.gpus),
    "cost_per_bisection": lambda whole: whole.spent(whole.cut / units.GIGABIT),
    "share_of_capital": lambda whole: Draws(
        np.asarray(costs.per(whole.network.cost, whole.capital.values)), used=whole.capital.used
    ),
    "host_ports": lambda whole: int(whole.design.hosts) if whole.design else None,
    "switch_ports": lambda whole: whole.network.built.switch_ports if whole.network.built else None,
    "power": lambda whole: whole.drawn(whole.network.power),
    "typical_power": lambda whole: whole.drawn(whole.network.typical_power),
    "bill_of_materials": lambda whole: tuple(_bill(whole.network)),
    "matches": lambda whole: _matches(whole.network.built, whole.network.cluster) if whole.network.built else (),
    "networks": lambda whole: tuple(
        _other(auxiliary, whole.network.prices.catalog) for auxiliary in whole.network.auxiliary
    ),
    "shape": lambda whole: _shape(whole.network),
    "cages": lambda whole: whole.network.built.cages_used() if whole.network.built else {},
    "modules": lambda whole: _modules(whole.network),
}
"""How each result of a fabric is worked out."""


def fabric_of(network: Network, capital: Draws, without: Collection[str] = ()) -> Fabric[Draws]:
    """The network as every reader gets it; ``capital`` is what the whole cluster costs to buy [USD].

    Lists that it is without are empty.
    """
    whole = _Whole(network, capital)
    results: dict[str, Any] = {name: () if name in without else result(whole) for name, result in _RESULTS.items()}
    return Fabric(**results)


def fabric_result(network: Network, capital: Draws, name: str) -> Any:
    """One of these results by itself: all take twenty times as long."""
    return _RESULTS[name](_Whole(network, capital))


def _modules(network: Network) -> int | None:
    """Modules of the fabric [1]."""
    if network.built is None:
        return None
    return sum(line.quantity for line in network.built.parts if line.role.endswith("module"))


def _slot(network: Network) -> Iterator[SlotUse[Draws]]:
    """What network and storage ask of a GPU's PCIe link at most, alone and together."""
    cluster = network.cluster
    link, port = cluster.pcie.bandwidth, cluster.scale_out.port_rate
    payload = network.prices.catalog.collectives["pcie"]["payload"]
    passes = 1 if network.request.gpudirect else 2
    each = passes * port.draws() / cluster.gpus_per_node
    sent, read = each * cluster.nics_per_node, each * cluster.platform.storage_nics
    for part, first, second in (("network", sent, 0 * read), ("storage", 0 * sent, read), ("together", sent, read)):
        use = bisection.slot_use(first, second, link.draws(), payload.draws())
        rate = Draws(np.asarray(first + second), used=(port,))
        yield SlotUse(part, rate, Draws(np.asarray(use), used=(port, link, payload)))


def _bill(network: Network) -> Iterator[BillLine[Draws]]:
    """What is bought, line by line."""
    built, catalog = network.built, network.prices.catalog
    if built is None:
        return
    yield from bill_lines(built.lines, network.power_sources, catalog, built.spares.typical)
    yield stock_line(built.stock, built.spares, network.used)


def _shape(network: Network) -> FabricShape | None:
    cluster, request, built = network.cluster, network.request, network.built
    if built is None:
        return None
    counts, design = built.counts, built.design
    rate = cluster.scale_out.port_rate.typical / request.planes
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
        family="infiniband" if cluster.scale_out.family == "infiniband" else "ethernet",
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


def _other(network: AuxiliaryNetwork, catalog: Catalog) -> OtherNetwork[Draws]:
    share = network.spares.typical if network.spares else 0.0
    lines = [*bill_lines(network.lines, network.power_sources, catalog, share)]
    if network.spares:
        lines.append(stock_line(network.stock, network.spares, network.used))
    return OtherNetwork(
        role=network.role,
        switch=network.switch,
        leaf_switches=network.leaf_switches,
        spine_switches=network.spine_switches,
        links=network.links,
        cost=Draws(network.cost, used=network.used),
        power=Draws(network.power, used=network.power_sources),
        bill_of_materials=tuple(lines),
    )


def _bisections(network: Network) -> Iterator[Bisection[Draws]]:
    """The cut at every tier, which grows with the rate of one kind of link."""
    cluster, design = network.cluster, network.built.design if network.built else None

    def cut(tier: str, across: Array, gpus: int, rate: Estimate) -> Bisection[Draws]:
        one_way = np.asarray(across)
        both_ways, per_gpu = 2 * one_way, one_way / gpus
        return Bisection(tier, *(Draws(value, used=(rate,)) for value in (one_way, both_ways, per_gpu)))

    domain, link = cluster.domain, cluster.scale_up.bandwidth
    if domain > 1 and cluster.wiring == "mesh":
        yield cut("scale_up", bisection.mesh_bisection(domain, link.draws() / (domain - 1)), domain, link)
    elif domain > 1:
        yield cut("scale_up", bisection.scale_up_bisection(domain, link.draws()), domain, link)
    if design is not None:
        rate = cluster.scale_out.port_rate
        cuts = {"leaf": design.bisection_leaf, "spine": design.bisection_spine, "core": design.bisection_core}
        for tier, links in cuts.items():
            if isfinite(links):
                yield cut(tier, float(links) / network.request.planes * rate.draws(), cluster.gpus, rate)


def _latency(network: Network) -> Draws:
    """Longest shortest path: every switch on it, and light in the longest cable of every level, up and down."""
    built, scale_out = network.built, network.cluster.scale_out
    if built is None:
        return Draws(UNKNOWN)
    leaf = built.choice.leaf.latency or scale_out.switch_latency
    spine = built.choice.spine.latency or scale_out.switch_latency
    speed = network.prices.catalog.operations["cables"]["signal_speed"]
    light = 2 * sum(built.longest_runs()) / (LIGHT * speed.draws())
    hops = network.hops
    above = max(hops - 2, 0) if built.counts.spines else 0
    switches = costs.line(hops - above, draws_or_nan(leaf)) + costs.line(above, draws_or_nan(spine))
    return Draws(np.asarray(switches + light), used=tuple(used for used in (leaf, spine, speed) if used))


# Published designs ----------------------------------------------------------------------------------------------------


def _matches(built: PricedDesign, cluster: Cluster) -> tuple[str, ...]:
    """Names of the published designs that this one equals in nodes, rates, switches and links."""
    counts, design, rate = built.counts, built.design, cluster.scale_out.port_rate.typical
    kind = rate, cluster.scale_out.family == "infiniband", counts.leaves, counts.spines
    alike = reference_designs.references().get(kind, ())
    if not alike:
        return ()
    links = (int(design.node_leaf), int(design.leaf_spine), int(design.spine_core))
    sizes = (counts.nodes, counts.rails, counts.planes, counts.leaves, counts.spines, counts.cores)
    mine = dict(zip(reference_designs.COUNTS, (*sizes, *links), strict=True))
    return tuple(
        reference.title for reference in alike if all(mine[name] == value for name, value in reference.printed.items())
    )


def explain(network: Network) -> Mapping[str, Explanation]:
    """The planner's own numbers in the formulas of the fabric, by the result's name on the wire."""
    request, cluster, built = network.request, network.cluster, network.built
    if built is None:
        return {}
    counts, design, choice = built.counts, built.design, built.choice

    def count(symbol: str, meaning: str, value: float, source: str = "") -> Term:
        return Term(symbol, meaning, float(value), "1", source)

    radix = count("k", "ports of a switch at link speed", choice.radix, choice.leaf.source)
    sized = (
        count("N", "nodes", counts.nodes),
        count("R", "NICs of a node", counts.rails),
        count("M", "fabric-manager links", counts.management_links),
        radix,
        count("d", "hosts a leaf takes", counts.leaf_down),
        count("o", "oversubscription", request.oversubscription),
        count("SU", "units", counts.units),
        count("L", "leaf switches", counts.leaves),
    )
    spines = (*sized[3:], count("u", "uplinks of a leaf", counts.leaf_up), count("S", "spine switches", counts.spines))
    rate = cluster.scale_out.port_rate
    cut = (
        count("n", "host ports", float(design.hosts)),
        count("o", "oversubscription across the whole fabric", float(design.bisection_leaf / design.bisection)),
        Term("B", "rate of a link, one way", rate.typical / request.planes, "B/s", rate.source),
    )
    money = tuple(
        Term(
            "C",
            f"{line.quantity:,} × {line.part}",
            float(costs.line(line.quantity, line.price.typical if line.price else np.nan)),
            "USD",
            line.price.source if line.price else "",
        )
        for line in built.lines
    )
    stock = f"1 × {100 * built.spares.typical:g} % of all parts"
    money += (Term("C", stock, float(built.stock[0]), "USD", built.spares.source),)
    return {
        "fabric.leaf_switches": Explanation("fabric.design", sized),
        "fabric.spine_switches": Explanation("fabric.smallest_divisor", spines),
        "fabric.bisection": Explanation("fabric.bisection", cut),
        "fabric.cost": Explanation("costs.line", money),
        "fabric.cost_per_host_port": Explanation(
            "costs.per",
            (Term("C", "fabric", float(built.cost[0]), "USD"), count("n", "NIC ports", float(design.hosts))),
        ),
        "fabric.cost_per_switch_port": Explanation(
            "costs.per",
            (
                Term("C", "fabric", float(built.cost[0]), "USD"),
                count("n", "ports of all switches", float(built.switch_ports)),
            ),
        ),
    }
