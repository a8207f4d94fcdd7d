"""Cost of a network port against the size of the cluster, for several generations side by side, with its cliffs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app import costs, fabric, units
from app.catalog import Catalog, Estimate
from app.plan.bill import LEVELS, Cages, drawn, laid_out, parts, price_of, spare_cost
from app.plan.cabling import Medium
from app.plan.hardware import Hardware, look_up
from app.plan.prices import PriceList
from app.plan.switching import Choice, candidates, cheapest, designs
from app.scenario import Scenario

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
SMALLEST, LARGEST = 8, 100_000
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
        return np.asarray(costs.per(self.cost, self.bisection[:, None] / units.parse("1 Gb/s", "B/s")))


def generations(scenario: Scenario, catalog: Catalog) -> tuple[str, ...]:
    """The networks worth showing side by side: what is on sale of both families, and the planner's own."""
    own = scenario.scale_out
    slowest = min(catalog.scale_out[own].port_rate.typical, catalog.scale_out["infiniband-ndr"].port_rate.typical) / 2
    shown = [
        entry.key
        for entry in catalog.scale_out.values()
        if entry.key == own
        or (
            entry.family in FAMILIES
            and entry.status not in ("announced", "projected")
            and entry.port_rate.typical >= slowest
        )
    ]
    return tuple(shown)


def sizes(gpus_per_node: int, own: int, points: int = 40) -> NDArray[np.int64]:
    """Cluster sizes from 8 to 100,000 GPUs in whole nodes, even on a logarithmic axis, the planner's own among them.

    A larger cluster of the planner's is left out: laying out a million cables would take seconds.
    """
    nodes = np.geomspace(SMALLEST, LARGEST, points) / gpus_per_node
    whole = np.maximum(np.rint(nodes).astype(np.int64), 1) * gpus_per_node
    return np.unique(np.append(whole, own) if own <= LARGEST else whole)


def by_size(
    scenario: Scenario, catalog: Catalog, scale_outs: Sequence[str] = (), gpus: Sequence[int] = ()
) -> tuple[PortCurve, ...]:
    """One curve for each generation, from the formulas and prices of the plan.

    At the planner's own size and generation the curve has the plan's own cost.
    """
    curves = []
    for key in scale_outs or generations(scenario, catalog):
        own = key == scenario.scale_out
        wish = scenario if own else scenario.model_copy(update={"scale_out": key, "switch": None})
        curve = _curve(look_up(wish, catalog), wish, catalog, gpus)
        if curve:
            curves.append(curve)
    return tuple(curves)


def _curve(hardware: Hardware, scenario: Scenario, catalog: Catalog, gpus: Sequence[int]) -> PortCurve | None:
    prices = PriceList.of(scenario, catalog)
    choices = candidates(hardware, scenario, catalog)
    if not choices or hardware.nics_per_node < 1:
        return None
    each = hardware.gpus_per_node
    at = np.asarray(gpus, dtype=np.int64) if len(gpus) else sizes(each, hardware.gpus)
    found, best = _chosen(hardware, scenario, catalog, prices, choices, -(-at // each))
    if not len(gpus):
        edges = np.unique(found.most_nodes[np.isfinite(found.most_nodes)]).astype(np.int64)
        full = _addresses_full(hardware, scenario, at // each, found)
        edges = np.append(edges, full)
        edges = edges[(edges > 1) & (edges * each < LARGEST)]
        at = np.unique(np.concatenate([at, edges * each, (edges + 1) * each]))
        found, best = _chosen(hardware, scenario, catalog, prices, choices, -(-at // each))
    nodes = -(-at // each)
    refused = _refused(found, hardware, scenario)
    built = (found.reason == fabric.BUILT) & ~refused & (nodes > 1)
    cost = np.full((len(at), 257), np.nan)
    used: dict[str, Estimate] = {}
    for index, choice in enumerate(choices):
        here = np.flatnonzero(built & (best == index))
        if len(here):
            cost[here] = _cost(hardware, scenario, catalog, prices, choice, found.at(here), nodes[here], used)
    radix = np.array([choice.radix for choice in choices])[best]
    spine_radix = np.array([choice.spine_radix for choice in choices])[best]
    ports = found.leaf_switches * radix + (found.switches - found.leaf_switches) * spine_radix
    link = hardware.scale_out.port_rate.typical / scenario.planes
    entry = hardware.scale_out

    def shown(values: Floats) -> Floats:
        return np.where(built, values, np.nan)

    return PortCurve(
        scale_out=entry.key,
        name=entry.name,
        family=entry.family,
        rate=entry.port_rate.typical,
        gpus=at.astype(np.float64),
        cost=cost,
        host_ports=shown(found.hosts),
        switch_ports=shown(ports),
        bisection=shown(found.bisection * link),
        tiers=shown(found.tiers),
        switches=shown(found.switches),
        switch=tuple(choices[index].leaf.key if ok else "" for index, ok in zip(best, built, strict=True)),
        cliffs=tuple(_cliffs(at, found, best, built, refused, choices)),
        used=tuple(used.values()),
    )


def _chosen(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    prices: PriceList,
    choices: tuple[Choice, ...],
    nodes: NDArray[np.int64],
) -> tuple[fabric.Design, NDArray[np.int64]]:
    """The design of every size, and which choice it is."""
    found = designs(choices, hardware, scenario, nodes=nodes)
    best = cheapest(choices, found, prices)
    rows = np.arange(len(nodes))
    return fabric.Design(*(np.array(fields)[best, rows] for fields in zip(*found, strict=True))), best


def _refused(found: fabric.Design, hardware: Hardware, scenario: Scenario) -> NDArray[np.bool_]:
    """Sizes whose addresses do not fit into a subnet."""
    limit = hardware.scale_out.address_limit
    if limit is None:
        return np.zeros(found.reason.shape, dtype=np.bool_)
    return np.asarray((found.node_leaf + found.switches) / scenario.planes > limit.typical)


def _addresses_full(
    hardware: Hardware, scenario: Scenario, nodes: NDArray[np.int64], found: fabric.Design
) -> NDArray[np.int64]:
    """About the last number of nodes whose addresses fit, between two sizes on either side of the limit."""
    refused = np.flatnonzero(_refused(found, hardware, scenario))
    if not len(refused) or refused[0] == 0 or hardware.scale_out.address_limit is None:
        return np.zeros(0, dtype=np.int64)
    last, first = refused[0] - 1, refused[0]
    needed = (found.node_leaf + found.switches) / scenario.planes
    share = (hardware.scale_out.address_limit.typical - needed[last]) / (needed[first] - needed[last])
    return np.array([int(nodes[last] + share * (nodes[first] - nodes[last]))])


def _cost(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    prices: PriceList,
    choice: Choice,
    design: fabric.Design,
    nodes: NDArray[np.int64],
    used: dict[str, Estimate],
) -> Floats:
    """Price of some designs of one choice of switches [USD]; sizes, draws."""
    cages = Cages.of(choice, hardware, scenario, catalog)
    carried: dict[str, dict[Medium, Booleans]] = {level: {} for level in LEVELS}
    for place, many in enumerate(nodes.tolist()):
        one = design.at(place)
        cabling = laid_out(one, choice, replace(hardware, nodes=many), scenario, catalog)
        for level in LEVELS:
            medium = cages.medium(prices, level, cabling.longest(level)) if getattr(one, level) > 0 else None
            if medium:
                carried[level].setdefault(medium, np.zeros(len(nodes), dtype=np.bool_))[place] = True
    size = nodes.astype(np.float64)
    needed = parts(
        choice,
        cages,
        design,
        size,
        size * hardware.nics_per_node,
        np.full(len(nodes), float(scenario.management_links * scenario.planes)),
        {level: tuple(media.items()) for level, media in carried.items()},
    )
    nic = hardware.nic.key if hardware.nic else None
    whole = np.zeros((len(nodes), 257))
    for (role, key), many in needed.items():
        if np.any(many):
            *_, price = price_of(role, key, choice, nic, hardware.scale_out.family, prices)
            whole = whole + costs.line(np.asarray(many)[:, None], drawn(price))
            if price:
                used[price.key] = price
    return whole + spare_cost(whole, prices.rate("spares"))


def _cliffs(
    at: NDArray[np.int64],
    found: fabric.Design,
    best: NDArray[np.int64],
    built: NDArray[np.bool_],
    refused: NDArray[np.bool_],
    choices: tuple[Choice, ...],
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
        before, after = int(found.tiers[place - 1]), int(found.tiers[place])
        if before != after:
            cliffs.append(Cliff(gpus, f"{before} → {after} tiers"))
        elif best[place - 1] != best[place]:
            old, new = choices[best[place - 1]], choices[best[place]]
            what = f"{new.leaf.name} becomes" if new.leaf is not old.leaf else f"spines of {new.spine.name} become"
            cliffs.append(Cliff(gpus, f"{what} cheaper"))
    return cliffs
