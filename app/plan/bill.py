"""The bill of materials: how many of each part a design needs, and what they cost and draw."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app import costs, fabric
from app.catalog import Catalog, Estimate
from app.catalog.types import Switch
from app.plan.cabling import Cabling, Counts, Floor, Medium, media, switch_cage
from app.plan.hardware import Hardware
from app.plan.prices import PriceList
from app.plan.switching import Choice
from app.scenario import Scenario

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
LEVELS = ("node_leaf", "leaf_spine", "spine_core", "core_super_core", "peer")
ENDS = {
    "node_leaf": ("node", "leaf"),
    "leaf_spine": ("leaf", "spine"),
    "spine_core": ("spine", "core"),
    "core_super_core": ("core", "super-core"),
    "peer": ("leaf", "leaf"),
}
TIERS = ("leaf", "spine", "core", "super-core")


def drawn(estimate: Estimate | None) -> Floats:
    """Draws of an estimate; not a number where there is none."""
    return estimate.draws() if estimate else np.full(257, np.nan)


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
    media: Mapping[str, Medium | None]
    lines: tuple[Line, ...]
    rack_units: int
    cages: Mapping[str, int]

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

    @property
    def power_sources(self) -> tuple[Estimate, ...]:
        boxes = {self.choice.leaf.key: self.choice.leaf, self.choice.spine.key: self.choice.spine}
        powers = [power for box in boxes.values() for power in (box.maximum_power, box.power)]
        return tuple(power for power in powers if power)


@dataclass(frozen=True)
class Cages:
    """Rate of a cage [B/s] and links it carries, at a node, a leaf and a switch above."""

    node: tuple[float, int]
    leaf: tuple[float, int]
    spine: tuple[float, int]
    leaf_packaged: bool
    spine_packaged: bool

    @staticmethod
    def of(choice: Choice, hardware: Hardware, scenario: Scenario, catalog: Catalog) -> "Cages":
        """The cages of a choice of switches and a kind of node.

        How many links share a cage of the node is known for the node's own adapters; with others each has its own.
        """
        known = catalog.operations["node_cage_links"]
        own = hardware.scale_out.port_rate.typical == hardware.platform.nic_rate.typical
        each = int(known.get(hardware.platform.key if own else "default", known["default"]).typical)
        rate = hardware.scale_out.port_rate.typical / scenario.planes
        links = each * scenario.planes
        return Cages(
            (rate * links, links),
            switch_cage(choice.leaf, choice.leaf_split),
            switch_cage(choice.spine, choice.spine_split),
            choice.leaf.co_packaged,
            choice.spine.co_packaged,
        )

    def at(self, tier: str) -> tuple[tuple[float, int], bool]:
        """The cage at one end of a link, and whether its optics are inside the box."""
        if tier == "node":
            return self.node, False
        return (self.leaf, self.leaf_packaged) if tier == "leaf" else (self.spine, self.spine_packaged)

    def medium(self, catalog: Catalog, prices: PriceList, level: str, length: float) -> Medium | None:
        """What carries the links of a level whose longest run is so long: one kind, so that spares fit everywhere."""
        (near, near_inside), (far, far_inside) = (self.at(tier) for tier in ENDS[level])
        return media(catalog, prices, length, near, far, (near_inside, far_inside))


def links_of(design: fabric.Design) -> dict[str, Floats]:
    """Links of every level, as arrays of one axis."""
    return {level: np.atleast_1d(getattr(design, level)) for level in LEVELS}


def boxes_of(switch: Switch, switches: Floats) -> Floats:
    """Boxes that hold some switches."""
    return np.ceil(switches / switch.switches_per_box)


def parts(
    choice: Choice,
    cages: Cages,
    design: fabric.Design,
    nodes: Floats,
    adapters: Floats,
    manager_links: Floats,
    carried: Mapping[str, Sequence[Medium | None]],
) -> dict[tuple[str, str], Floats]:
    """How many of each part some designs need, by role and key; arrays of one axis.

    Cages are filled box by box: a twin-port module for every two links of a box. A link over copper needs no modules.

    Args:
        choice, cages: the switches, and what fits them.
        design: the designs, an array of one axis.
        nodes, adapters, manager_links: nodes, NICs to buy, and links of fabric managers [1].
        carried: the medium of each level, for each design.
    """
    found: dict[tuple[str, str], Floats] = {("NIC", ""): adapters}
    switches = dict(
        zip(
            TIERS,
            map(
                np.atleast_1d,
                (design.leaf_switches, design.spine_switches, design.core_switches, design.super_core_switches),
            ),
            strict=True,
        )
    )
    for tier, many in switches.items():
        box = choice.leaf if tier == "leaf" else choice.spine
        found[f"{tier} switch", box.key] = boxes_of(box, many)
    ends: dict[tuple[str, str], Floats] = {}
    runs: dict[tuple[str, str], Floats] = {}
    for level, links in links_of(design).items():
        for medium in {id(one): one for one in carried.get(level, ()) if one}.values():
            here = np.array([one is medium for one in carried[level]])
            mine = np.where(here & (links > 0), links, 0.0)
            per_cable = 1 if medium.kind == "optical" else cages.at(ENDS[level][1])[0][1]
            run = (level, medium.cable.key)
            runs[run] = runs.get(run, 0.0) + np.ceil(mine / per_cable)
            for tier, module in zip(ENDS[level], (medium.near, medium.far), strict=True):
                if module is None:
                    continue
                managers = np.where(mine > 0, manager_links, 0.0) if tier == "node" else np.zeros_like(mine)
                ends[tier, module.key] = ends.get((tier, module.key), 0.0) + mine - managers
                ends["fabric-manager", module.key] = ends.get(("fabric-manager", module.key), 0.0) + managers
    for (tier, key), links in ends.items():
        if tier == "fabric-manager":
            filled = links
        else:
            boxes = nodes if tier == "node" else switches[tier]
            filled = np.asarray(fabric.twin_modules(links, cages.at(tier)[0][1], np.nan_to_num(boxes)))
        role = f"{tier} module" if tier in ("node", "fabric-manager") else f"{tier} switch module"
        found[role, key] = found.get((role, key), 0.0) + filled
    for (level, key), many in runs.items():
        found[f"cable {level}", key] = many
    return found


def price_of(
    role: str, key: str, choice: Choice, hardware: Hardware, catalog: Catalog, prices: PriceList
) -> tuple[str, str, Estimate | None]:
    """Name, key and price of a part."""
    if role == "NIC":
        nic = hardware.nic
        return (nic.name if nic else "NIC"), (nic.key if nic else ""), prices.nic(nic, hardware.scale_out.family)
    if role.endswith(" switch"):
        box = choice.leaf if role == "leaf switch" else choice.spine
        return box.name, box.key, prices.switch(box)
    optic = catalog.optics[key]
    return optic.name, key, prices.optic(optic)


def counted(design: fabric.Design, hardware: Hardware, scenario: Scenario) -> Counts:
    """A design in plain numbers."""
    return Counts(
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


def laid_out(
    design: fabric.Design, choice: Choice, hardware: Hardware, scenario: Scenario, catalog: Catalog
) -> Cabling:
    """A design with its racks on the floor."""
    floor = Floor.of(catalog, hardware.platform.nodes_per_rack)
    return Cabling(counted(design, hardware, scenario), floor, choice.spine.rack_units or 1)


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
    cabling = laid_out(design, choice, hardware, scenario, catalog)
    counts, cages = cabling.counts, Cages.of(choice, hardware, scenario, catalog)
    carried = {
        level: cages.medium(catalog, prices, level, cabling.longest(level))
        for level, links in links_of(design).items()
        if links[0] > 0
    }
    needed = parts(
        choice,
        cages,
        design,
        np.atleast_1d(float(hardware.nodes)),
        np.atleast_1d(float(counts.nodes * counts.rails if adapters is None else adapters)),
        np.atleast_1d(float(scenario.management_links * scenario.planes)),
        {level: [medium] for level, medium in carried.items()},
    )
    lines = list(_lines(needed, choice, hardware, catalog, prices, cabling, cages, carried))
    modules = _held(needed, catalog)
    above = counts.spines + counts.cores + counts.super_cores
    typical = np.asarray(sum(modules.values(), np.zeros(257)))
    for box, many in ((choice.leaf, counts.leaves), (choice.spine, above)):
        typical = typical + costs.line(-(-many // box.switches_per_box), drawn(box.power))
    heights = [(box.rack_units or 1) / box.switches_per_box for box in (choice.leaf, choice.spine)]
    return Network(
        choice=choice,
        design=design,
        counts=counts,
        cabling=cabling,
        media=carried,
        lines=tuple(lines),
        rack_units=round(counts.leaves * heights[0] + above * heights[1]),
        cages=_cages_used(design, counts, cages),
        typical_power=typical,
    )


def _cages_used(design: fabric.Design, counts: Counts, cages: Cages) -> dict[str, int]:
    """Cages that hold a cable or module, at the nodes and in the switches of each tier."""
    boxes = {
        "node": counts.nodes, "leaf": counts.leaves, "spine": counts.spines, "core": counts.cores,
        "super-core": counts.super_cores,
    }  # fmt: skip
    ends = dict.fromkeys(boxes, 0)
    for level, links in links_of(design).items():
        for tier in ENDS[level]:
            ends[tier] += int(links[0])
    ends["node"] = int(design.hosts)
    return {
        tier: int(fabric.twin_modules(links, cages.at(tier)[0][1], boxes[tier]))
        for tier, links in ends.items()
        if links
    }


def _held(needed: Mapping[tuple[str, str], Floats], catalog: Catalog) -> dict[str, Floats]:
    """Power of the modules in the switches of each tier [W]."""
    held = dict.fromkeys(TIERS, np.zeros(257))
    for (role, key), many in needed.items():
        if role.endswith(" switch module"):
            tier = role.removesuffix(" switch module")
            held[tier] = held[tier] + costs.line(many[0], drawn(catalog.optics[key].power))
    return held


def _lines(
    needed: Mapping[tuple[str, str], Floats],
    choice: Choice,
    hardware: Hardware,
    catalog: Catalog,
    prices: PriceList,
    cabling: Cabling,
    cages: Cages,
    carried: Mapping[str, Medium | None],
) -> Iterator[Line]:
    """The parts of one design as lines: cables by length, and the spares at the end."""
    zero = np.zeros(257)
    held = _held(needed, catalog)
    made: list[Line] = []
    for (role, key), many in needed.items():
        quantity = int(many[0])
        if not quantity:
            continue
        name, own_key, price = price_of(role, key, choice, hardware, catalog, prices)
        used: tuple[Estimate, ...] = (price,) if price else ()
        each, power = drawn(price), zero
        if role.endswith(" switch"):
            box = choice.leaf if role == "leaf switch" else choice.spine
            most = box.maximum_power or box.power
            included = bool(box.maximum_power and box.maximum_power_includes_modules)
            power = costs.switch_power(quantity, drawn(most), 1, held[role.removesuffix(" switch")], included)
        if role.startswith("cable "):
            level = role.removeprefix("cable ")
            medium = carried[level]
            per_cable = 1 if medium and medium.kind == "optical" else cages.at(ENDS[level][1])[0][1]
            for metres, pieces in _by_length(getattr(cabling, level), per_cable):
                cost = costs.line(pieces, each)
                made.append(Line(f"{level.replace('_', '–', 1).replace('_', ' ')}, {metres:g} m", name, own_key, pieces,
                                 each, cost, zero, used))  # fmt: skip
            continue
        made.append(Line(role, name, own_key, quantity, each, costs.line(quantity, each), power, used))
    yield from made
    spares = prices.rate("spares")
    extra = spare_cost(np.asarray(sum((line.cost for line in made), zero)), spares)
    rested = (spares, *(estimate for line in made for estimate in line.used))
    yield Line("spares", f"{100 * spares.typical:g} % of all parts", "spares", 1, extra, extra, zero, rested)


def spare_cost(parts_cost: Floats, spares: Estimate) -> Floats:
    """Price of the parts kept in stock [USD]."""
    share = spares.draws()
    return np.where(share == 0, 0.0, costs.with_spares(parts_cost, share) - parts_cost)


def _by_length(runs: Mapping[float, int], per_cable: int) -> Iterator[tuple[float, int]]:
    """Cables of each length; those of several links are rounded up on the whole."""
    links = done = 0
    for metres, more in sorted(runs.items()):
        links += more
        pieces = -(-links // per_cable) - done
        done += pieces
        if pieces:
            yield metres, pieces
