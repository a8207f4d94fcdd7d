"""Cost per host port and per bisection bandwidth against cluster size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import EARLY, N_DRAWS, Estimate
from app.catalog.load import Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.formulas.fabric import layouts
from app.plan.band import interval
from app.plan.bill_of_materials import (
    Cages,
    adapter_price,
    draws_or_nan,
    media_of,
    part_counts,
    price_of,
    spare_cost,
)
from app.plan.cluster import Cluster, look_up
from app.plan.fabric_cost import longest
from app.plan.findings import addresses, foreign_switch
from app.plan.network import choose_with_spares
from app.plan.prices import PriceList
from app.plan.scenario import NetworkRequest, PriceRequest, Scenario, on_network
from app.plan.switches import Chosen, SwitchPair, candidates
from app.studies.curve import Curve, Mark, Series, short
from app.units import show

Floats = NDArray[np.float64]
SMALLEST, LARGEST = 8, 100_000
POINTS = 40
"""Sizes of a curve, beside those at which its shape changes."""
FAMILIES = ("infiniband", "roce")


@dataclass(frozen=True)
class Cliff:
    """A size at which the fabric changes its shape, and how."""

    gpus: int
    text: str


@dataclass(frozen=True)
class PortCurve:
    """One generation over sizes: ``cost`` has draws on its last axis; what cannot be built is not a number."""

    scale_out: str
    name: str
    family: str
    rate: float
    gpus: Floats
    cost: Floats
    host_ports: Floats
    switch_ports: Floats
    bisection: Floats
    tiers: Floats
    switches: Floats
    switch: tuple[str, ...]
    cliffs: tuple[Cliff, ...]
    used: tuple[Estimate, ...]

    @property
    def cost_per_host_port(self) -> Floats:
        """Price of the fabric for each NIC port [USD]; sizes, draws."""
        return np.asarray(costs.per(self.cost, self.host_ports[:, None]))

    @property
    def cost_per_switch_port(self) -> Floats:
        """Price of the fabric for each port of all switches [USD]; sizes, draws."""
        return np.asarray(costs.per(self.cost, self.switch_ports[:, None]))

    @property
    def cost_per_gpu(self) -> Floats:
        """Price of the fabric for each GPU [USD]; sizes, draws."""
        return np.asarray(costs.per(self.cost, self.gpus[:, None]))

    @property
    def cost_per_bisection(self) -> Floats:
        """Price of the fabric for each Gb/s of bisection, one way [USD]; sizes, draws."""
        return np.asarray(costs.per(self.cost, self.bisection[:, None] / units.GIGABIT))


def generations(scenario: Scenario, catalog: Catalog) -> tuple[str, ...]:
    """The networks worth showing side by side: what is on sale of both families, and the planner's own."""
    scale_out = scenario.scale_out
    slowest = (
        min(catalog.scale_out[scale_out].port_rate.typical, catalog.scale_out["infiniband-ndr"].port_rate.typical) / 2
    )
    shown = [
        entry.key
        for entry in catalog.scale_out.values()
        if entry.key == scale_out
        or (entry.family in FAMILIES and entry.status not in EARLY and entry.port_rate.typical >= slowest)
    ]
    return tuple(shown)


def sizes(gpus_per_node: int, gpus: int, points: int = POINTS) -> NDArray[np.int64]:
    """Cluster sizes from 8 to 100,000 GPUs in whole nodes, even on a logarithmic axis, the planner's own among them.

    A larger cluster of the planner's is left out: laying out a million cables would take seconds.
    """
    nodes = np.geomspace(SMALLEST, LARGEST, points) / gpus_per_node
    whole = np.maximum(np.rint(nodes).astype(np.int64), 1) * gpus_per_node
    return np.unique(np.append(whole, gpus) if gpus <= LARGEST else whole)


def by_size(
    scenario: Scenario, catalog: Catalog, scale_outs: Sequence[str] = (), gpus: Sequence[int] = ()
) -> tuple[PortCurve, ...]:
    """One curve for each generation, from the formulas and prices of the plan.

    At the planner's own size and generation the curve has the plan's own cost; a plan of a part of a node grows by
    whole ones.
    """
    curves = []
    prices = PriceList.of(scenario.part(PriceRequest), catalog)
    for key in scale_outs or generations(scenario, catalog):
        variant = on_network(scenario, key)
        full_node = look_up(variant, catalog).used_per_node
        cluster = look_up(variant.model_copy(update={"gpus": max(variant.gpus, full_node)}), catalog)
        curve = _curve(cluster, variant.part(NetworkRequest), prices, gpus)
        if curve:
            curves.append(curve)
    return tuple(curves)


def _curve(cluster: Cluster, request: NetworkRequest, prices: PriceList, gpus: Sequence[int]) -> PortCurve | None:
    choices = candidates(cluster, request, prices.catalog)
    if not choices or cluster.nics_per_node < 1 or foreign_switch(cluster, request, prices.catalog):
        return None
    each = cluster.gpus_per_node
    points = POINTS if request.oversubscription <= 1 else POINTS // 3  # of a tapered fabric many leaves are tried
    at = np.asarray(gpus, dtype=np.int64) if len(gpus) else sizes(each, cluster.gpus, points)
    designs: dict[int, Chosen] = {}
    fabric, best = _chosen(cluster, request, prices, choices, -(-at // each), designs)
    if not len(gpus):
        edges = np.unique(fabric.most_nodes[np.isfinite(fabric.most_nodes)]).astype(np.int64)
        full = _addresses_full(cluster, request, at // each, fabric)
        edges = np.append(edges, full)
        edges = np.append(edges, edges - cluster.request.spare_nodes)
        edges = edges[(edges > 1) & (edges * each < LARGEST)]
        at = np.unique(np.concatenate([at, edges * each, (edges + 1) * each]))
        fabric, best = _chosen(cluster, request, prices, choices, -(-at // each), designs)
    nodes = -(-at // each)
    refused = _refused(fabric, cluster, request)
    built = (fabric.reason == layouts.BUILT) & ~refused & (nodes > 1)
    cost = np.full((len(at), N_DRAWS), np.nan)
    used: dict[str, Estimate] = {}
    for index, choice in enumerate(choices):
        places = np.flatnonzero(built & (best == index))
        if len(places):
            sized = [(many, designs[many]) for many in nodes[places].tolist()]
            cost[places] = _cost(cluster, request, prices, choice, sized, used)
    radix = np.array([choice.radix for choice in choices])[best]
    spine_radix = np.array([choice.spine_radix for choice in choices])[best]
    ports = fabric.leaf_switches * radix + (fabric.switches - fabric.leaf_switches) * spine_radix
    link = cluster.scale_out.port_rate.typical / request.planes
    entry = cluster.scale_out

    def shown(values: Floats) -> Floats:
        return np.where(built, values, np.nan)

    return PortCurve(
        scale_out=entry.key,
        name=entry.name,
        family=entry.family,
        rate=entry.port_rate.typical,
        gpus=at.astype(np.float64),
        cost=cost,
        host_ports=shown(fabric.hosts),
        switch_ports=shown(ports),
        bisection=shown(fabric.bisection * link),
        tiers=shown(fabric.tiers),
        switches=shown(fabric.switches),
        switch=tuple(choices[index].leaf.key if ok else "" for index, ok in zip(best, built, strict=True)),
        cliffs=tuple(_cliffs(at, fabric, best, built, refused, choices)),
        used=tuple(used.values()),
    )


def _chosen(
    cluster: Cluster,
    request: NetworkRequest,
    prices: PriceList,
    choices: tuple[SwitchPair, ...],
    nodes: NDArray[np.int64],
    designs: dict[int, Chosen],
) -> tuple[layouts.Design, NDArray[np.int64]]:
    """The design of every size, and which choice it is; ``designs`` keeps what was chosen for a number of nodes."""
    missing = [many for many in dict.fromkeys(nodes.tolist()) if many not in designs]
    clusters = [replace(cluster, nodes=many) for many in missing]
    asked = [(choices, cluster, request) for cluster in clusters]
    designs |= zip(missing, choose_with_spares(asked, prices), strict=True)
    chosen = [designs[many] for many in nodes.tolist()]
    best = np.array([choices.index(each.choice) for each in chosen])
    return _together(chosen), best


def _together(chosen: Iterable[Chosen]) -> layouts.Design:
    """Designs of several sizes as one."""
    return layouts.Design(*map(np.array, zip(*(each.design for each in chosen), strict=True)))


def _refused(fabric: layouts.Design, cluster: Cluster, request: NetworkRequest) -> NDArray[np.bool_]:
    """Sizes whose addresses do not fit into a subnet."""
    limit = cluster.scale_out.address_limit
    if limit is None:
        return np.zeros(fabric.reason.shape, dtype=np.bool_)
    return np.asarray(addresses(fabric, cluster, request) > limit.typical)


def _addresses_full(
    cluster: Cluster, request: NetworkRequest, nodes: NDArray[np.int64], fabric: layouts.Design
) -> NDArray[np.int64]:
    """About the last number of nodes whose addresses fit, between two sizes on either side of the limit."""
    refused = np.flatnonzero(_refused(fabric, cluster, request))
    if not len(refused) or refused[0] == 0 or cluster.scale_out.address_limit is None:
        return np.zeros(0, dtype=np.int64)
    last, first = refused[0] - 1, refused[0]
    needed = np.asarray(addresses(fabric, cluster, request))
    share = (cluster.scale_out.address_limit.typical - needed[last]) / (needed[first] - needed[last])
    return np.array([int(nodes[last] + share * (nodes[first] - nodes[last]))])


def _cost(
    cluster: Cluster,
    request: NetworkRequest,
    prices: PriceList,
    choice: SwitchPair,
    sized: Sequence[tuple[int, Chosen]],
    used: dict[str, Estimate],
) -> Floats:
    """Price of designs of one choice of switches, by numbers of nodes [USD]; sizes, draws. As in a plan it is not known
    where nothing carries the links of a level.
    """
    cages = Cages.of(choice, cluster, request, prices.catalog)

    def lengths() -> Iterator[tuple[int, Mapping[str, float]]]:
        for place, (many, (_, design, known)) in enumerate(sized):
            resized = replace(cluster, nodes=many)
            yield place, known or longest(design, choice.height, resized, request, prices.catalog)

    carried, unreached = media_of(cages, prices, lengths(), len(sized), Cages.bought)
    size = np.array([many for many, _ in sized], dtype=np.float64)
    managers = np.full(len(sized), float(request.management_links * request.planes))
    needed = part_counts(choice, cages, _together(chosen for _, chosen in sized), size, managers, carried)
    bill: list[tuple[Array, Estimate | None]] = [(size * cluster.nics_per_node, adapter_price(cluster, prices).price)]
    bill += [(many, price_of(role, key, choice, prices)[2]) for (role, key), many in needed.items()]
    whole = np.zeros((len(sized), N_DRAWS))
    for many, price in bill:
        if np.any(many):
            whole = whole + costs.line(np.asarray(many)[:, None], draws_or_nan(price))
            if price:
                used[price.key] = price
    whole[unreached > 0] = np.nan
    return np.asarray(whole + spare_cost(whole, prices.rate("spares")))


def _cliffs(
    at: NDArray[np.int64],
    fabric: layouts.Design,
    best: NDArray[np.int64],
    built: NDArray[np.bool_],
    refused: NDArray[np.bool_],
    choices: tuple[SwitchPair, ...],
) -> list[Cliff]:
    """Where tiers or the switch change, and where the cluster no longer fits."""
    cliffs = []
    for place in range(1, len(at)):
        if not built[place - 1]:
            continue
        gpus = int(at[place])
        if not built[place]:
            why = "no more addresses in a subnet" if refused[place] else "no design carries more"
            cliffs.append(Cliff(gpus, why))
            break
        before, after = int(fabric.tiers[place - 1]), int(fabric.tiers[place])
        if before != after:
            cliffs.append(Cliff(gpus, f"{before} → {after} tiers"))
        elif best[place - 1] != best[place]:
            old, new = choices[best[place - 1]], choices[best[place]]
            what = f"{new.leaf.name} becomes" if new.leaf is not old.leaf else f"spines of {new.spine.name} become"
            cliffs.append(Cliff(gpus, f"{what} cheaper"))
    return cliffs


def cost_per_port(scenario: Scenario, catalog: Catalog, ports: Sequence[PortCurve] = ()) -> Curve:
    """Cost of one NIC port against cluster size, for InfiniBand and Ethernet generations side by side.

    ``ports`` are the generations over sizes, where they are known already.
    """
    hardware = look_up(scenario, catalog)
    curves = ports or by_size(scenario, catalog)
    series: list[Series] = []
    marks: tuple[Mark, ...] = ()
    mine: tuple[float, float] | None = None
    dashes = _dashes(curves, scenario)
    for curve in curves:
        planned = curve.scale_out == scenario.scale_out
        values = curve.cost_per_host_port
        low, high = interval(values)
        name, dash = short(curve.scale_out), dashes[curve.scale_out]
        series.append(Series(name, curve.family, curve.gpus, values[:, 0], low, high, dash=dash, strong=planned))
        if planned:
            marks = tuple(Mark(float(cliff.gpus), cliff.text) for cliff in curve.cliffs if "cheaper" not in cliff.text)
            place = np.flatnonzero(curve.gpus == hardware.gpus)
            if place.size and np.isfinite(values[place[0], 0]):
                mine = (float(hardware.gpus), float(values[place[0], 0]))
    lines = [line for line in series if np.isfinite(line.typical).any()]
    with_cards = scenario.nics_included is False
    return Curve(
        key="cost_per_port",
        title=_port_title(lines, hardware.gpus, mine),
        subtitle=f"Fabric {'and network cards' if with_cards else 'cost'} over NIC ports against cluster size, by "
        "network generation, with 80 % ranges of prices",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Cost of one NIC port and its card" if with_cards else "Cost of one NIC port",
        y_unit="USD",
        y_logarithmic=False,
        series=tuple(lines),
        plan_point=mine,
        marks=marks,
    )


def _dashes(ports: Sequence[PortCurve], scenario: Scenario) -> dict[str, str]:
    """A dash for each generation, so that those of one colour differ; the planner's own is solid."""
    others = [curve for curve in ports if curve.scale_out != scenario.scale_out]
    dashes = {scenario.scale_out: "solid"}
    for family in dict.fromkeys(curve.family for curve in others):
        keys = [curve.scale_out for curve in others if curve.family == family]
        dashes |= dict(zip(keys, itertools.cycle(("dash", "dot", "dashdot", "longdash")), strict=False))
    return dashes


def _at(lines: Sequence[Series], gpus: int) -> dict[str, float]:
    """What each network costs at a cluster size, where it can be built."""
    by_network = {line.name: float(np.interp(gpus, line.x, line.typical)) for line in lines}
    return {name: value for name, value in by_network.items() if np.isfinite(value)}


def _port_title(lines: Sequence[Series], gpus: int, mine: tuple[float, float] | None) -> str:
    """What the planner's own port costs, and what the cheapest of all does."""
    by_network = _at(lines, gpus)
    if not by_network:
        return "No network can be built at this size."
    cheapest = min(by_network, key=lambda name: by_network[name])
    text = f"Of those drawn, {cheapest} has the cheapest port at {gpus:,} GPUs, {show(by_network[cheapest], 'USD', 2)}"
    return (
        f"{text}; the plan's costs {show(mine[1], 'USD', 2)}."
        if mine and mine[1] > by_network[cheapest] * 1.005
        else f"{text}."
    )


def cost_per_bisection(scenario: Scenario, catalog: Catalog, ports: Sequence[PortCurve] = ()) -> Curve:
    """What bandwidth across the cluster costs, against cluster size, by network generation."""
    hardware = look_up(scenario, catalog)
    series = []
    curves = ports or by_size(scenario, catalog)
    dashes = _dashes(curves, scenario)
    for curve in curves:
        planned = curve.scale_out == scenario.scale_out
        values = curve.cost_per_bisection
        low, high = interval(values)
        if np.isfinite(values[:, 0]).any():
            name, dash = short(curve.scale_out), dashes[curve.scale_out]
            series.append(Series(name, curve.family, curve.gpus, values[:, 0], low, high, dash=dash, strong=planned))
    by_network = _at(series, hardware.gpus)
    best = min(by_network, key=lambda name: by_network[name], default="")
    title = "No network can be built at this size."
    if best:
        cost = show(by_network[best], "USD", 2)
        title = f"Per dollar, {best} moves most across {hardware.gpus:,} GPUs: {cost} for 1 Gb/s."
    return Curve(
        key="cost_per_bisection",
        title=title,
        subtitle="Fabric cost over bisection bandwidth, one way, in Gb/s, against cluster size, by network generation",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Cost of 1 Gb/s",
        y_unit="USD",
        y_logarithmic=False,
        series=tuple(series),
    )


def cliffs(ports: Sequence[PortCurve]) -> tuple[tuple[str, int, str], ...]:
    """Where each network generation changes its shape: its name, the number of GPUs, and what changes."""
    return tuple((short(curve.scale_out), cliff.gpus, cliff.text) for curve in ports for cliff in curve.cliffs)
