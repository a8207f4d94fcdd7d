"""The bill of materials: how many of each part a design needs, and what they cost and draw."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Content, Switch
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL, Sampling
from app.formulas import costs
from app.formulas.arrays import Array, any_, where
from app.formulas.fabric import design as fabric_design
from app.formulas.fabric import layouts
from app.formulas.fabric.cabling import Cabling, Counts, Floor, longest_runs
from app.formulas.records import but
from app.plan.cables import Inside, Lanes, Medium, floor_of, inside_of, lane_of, medium_between, switch_cage
from app.plan.cluster import Cluster
from app.plan.kept import Kept
from app.plan.prices import Contained, PaidPart, PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair

Floats = NDArray[np.float64]
LEVELS = ("node_leaf", "leaf_spine", "spine_core", "core_super_core", "peer")
ENDS = {
    "node_leaf": ("node", "leaf"),
    "leaf_spine": ("leaf", "spine"),
    "spine_core": ("spine", "core"),
    "core_super_core": ("core", "super-core"),
    "peer": ("leaf", "leaf"),
}
TIERS = ("leaf", "spine", "core", "super-core")


UNKNOWN = np.full(1, np.nan)
UNKNOWN.flags.writeable = False


def draws_or_nan(estimate: Estimate | None) -> Floats:
    """Draws of an estimate; not a number where there is none."""
    return estimate.draws() if estimate else UNKNOWN


def _taken(estimate: Estimate | None, sampling: Sampling) -> Array:
    """The same of any sampling."""
    return sampling(estimate) if estimate else UNKNOWN if sampling.drawn else np.nan


class Line(NamedTuple):
    """A line of the bill of materials: so many of a part, and what all of them draw at most; of several bills that are
    one, columns of these.
    """

    role: str
    part: str
    key: str
    quantity: int
    price: Estimate | None
    power: Floats | None = None
    usual: Estimate | None = None
    """What one costs by itself, where the node's price pays for it."""
    contained: Contained = ""
    length: float | None = None
    """Length of each cable [m]."""

    @property
    def cost(self) -> Array:
        """Price of all of them [USD]."""
        return self.cost_in(DRAWS)

    def cost_in(self, sampling: Sampling) -> Array:
        """The same in draws, or typically."""
        return costs.line(self.quantity, _taken(self.price, sampling))

    def at(self, places: Any) -> "Line":
        """Rows of the columns."""
        quantity: Any = self.quantity
        return self._replace(quantity=quantity[places], power=None if self.power is None else self.power[places])


@dataclass(frozen=True)
class Wanted:
    """All that the cables and switches of a fabric depend on besides prices and cages: clusters that agree in it have
    the same.

    Attributes:
        choice, counts: the switches, and how many.
        links: links of each level [1].
        managers: links of fabric managers [1].
        nodes_per_rack: nodes of a rack [1].
        design: one of the designs that this is.
        lengths: the longest link of each level, where that is known already [m].
    """

    choice: SwitchPair
    counts: Counts
    links: tuple[int, ...]
    managers: int
    nodes_per_rack: int
    design: layouts.Design = field(compare=False)
    lengths: Mapping[str, float] | None = field(compare=False)

    @staticmethod
    def stacked(several: Sequence["Wanted"]) -> "Wanted":
        """Several of equal switches and as many links of managers, in columns: what says where they stand is left as
        it is of the first.
        """
        first = several[0]
        named = ("nodes", "leaves", "spines", "cores", "super_cores")
        numbers = np.array([[getattr(each.counts, name) for name in named] for each in several]).T[..., None]
        return but(
            first,
            counts=first.counts._replace(**dict(zip(named, numbers, strict=True))),
            design=layouts.Design.stacked([each.design for each in several]).at(slice(None), None),
        )

    def cabling(self, catalog: Catalog) -> Cabling:
        """Its racks on the floor."""
        return _laid_out(self.counts, floor_of(catalog, self.nodes_per_rack), self.choice.height)

    def longest(self, catalog: Catalog) -> Mapping[str, float]:
        """The longest link of each level that it has [m]."""
        if self.lengths:
            return self.lengths
        cabling = self.cabling(catalog)
        return {level: cabling.longest(level) for level, links in zip(LEVELS, self.links, strict=True) if links > 0}

    def media(self, cages: "Cages", prices: PriceList) -> Mapping[str, Medium | None]:
        """What is bought for the links of each level that it has."""
        lengths = self.longest(prices.catalog)
        levels = (level for level, links in zip(LEVELS, self.links, strict=True) if links > 0)
        return {level: cages.bought(prices, level, lengths[level]) for level in levels}


class Cabled(NamedTuple):
    """A fabric's cables and switches, whatever adapters its nodes have.

    Attributes:
        media: what its cables are.
        bill: what is bought, each line with its price [USD].
        power, typical_power: of switches with their modules [W].
    """

    media: Mapping[str, Medium | None]
    bill: tuple[tuple[Line, Array], ...]
    power: Array
    typical_power: Array

    def rows(self, many: int, sampling: Sampling) -> Iterator["Cabled"]:
        """Of columns of so many fabrics each by itself, without the lines of what it needs none of."""

        def rows_of(column: Any, drawn: bool = sampling.drawn) -> Sequence[Any]:
            if np.ndim(column) < 2:
                return [column] * many
            rows: Sequence[Any] = column if drawn else column[:, 0].tolist()
            return rows

        columns = [  # of the fields of lines, which are so made in half the time of `_replace`
            (line[:3], rows_of(line.quantity, False), line.price, rows_of(line.power), line[6:], rows_of(cost))
            for line, cost in self.bill
        ]
        power, typical_power = rows_of(self.power), rows_of(self.typical_power)
        for row in range(many):
            bill = [
                (Line(*part, int(quantities[row]), price, powers[row], *more), prices[row])
                for part, quantities, price, powers, more, prices in columns
                if quantities[row] > 0
            ]
            yield Cabled(self.media, tuple(bill), power[row], typical_power[row])


class Totals(NamedTuple):
    """What a network costs [USD], and draws at most and usually [W]."""

    cost: Array
    power: Array
    typical_power: Array


@dataclass(frozen=True, eq=False)
class PricedDesign:
    """A design with its cables, prices and power: the compute network, or one beside it.

    It is counted and priced once somebody asks for that: of thousands of rows of a sweep that is done in columns.

    Attributes:
        chosen: the design, and its switches.
        cluster, request, prices: what it joins, what is asked of it, and prices.
        other_adapters: how many NICs to count where not one for every host [1].
        content: what a node's price would call these adapters.
    """

    chosen: Chosen
    cluster: Cluster
    request: DesignRequest
    prices: PriceList
    other_adapters: int | None = None
    content: Content = "compute_nics"

    @property
    def choice(self) -> SwitchPair:
        """The switches."""
        return self.chosen.choice

    @property
    def design(self) -> layouts.Design:
        """The design."""
        return self.chosen.design

    @cached_property
    def counts(self) -> Counts:
        """The same in plain numbers."""
        return counted(self.design, self.cluster, self.request)

    @cached_property
    def cages(self) -> "Cages":
        """What its links end in."""
        return Cages.of(self.choice, self.cluster, self.request, self.prices.catalog)

    @cached_property
    def wanted(self) -> Wanted:
        """All that its cables and switches depend on besides prices and cages."""
        links = tuple(_whole(getattr(self.design, level)) for level in LEVELS)
        managers, floor = self.request.management_links * self.request.planes, self.cluster.platform.nodes_per_rack
        return Wanted(self.choice, self.counts, links, managers, floor, self.design, self.chosen.lengths)

    @cached_property
    def adapters(self) -> Line | None:
        """The NICs that are counted with it, as they are paid on top of its nodes."""
        hosts = self.cluster.nodes * self.cluster.nics_per_node
        many = hosts if self.other_adapters is None else self.other_adapters
        return _adapters(many, self.cluster, self.prices, self.content) if any_(many > 0) else None

    @cached_property
    def cabling(self) -> Cabling:
        """Where its cables run."""
        return self.wanted.cabling(self.prices.catalog)

    @cached_property
    def cabled(self) -> Cabled:
        """Its cables and switches, counted and priced."""
        return self.cabled_in(DRAWS)

    def cabled_in(self, sampling: Sampling) -> Cabled:
        """The same in draws, or typically."""
        return _cabled(self.wanted, self.cages, self.prices, sampling)

    @cached_property
    def typical(self) -> Totals:
        """What it costs and draws, typically: in plain numbers, a third of the time that it takes in draws."""
        cabled = self.cabled_in(TYPICAL)
        adapters = self.adapters.cost_in(TYPICAL) if self.adapters else 0.0
        bought = sum((cost for _, cost in cabled.bill), adapters)
        return Totals(bought + spare_cost(bought, self.spares, TYPICAL), cabled.power, cabled.typical_power)

    def longest_runs(self) -> Sequence[float]:
        """The longest cable of each level that it has [m]."""
        wanted, catalog = self.wanted, self.prices.catalog
        return _RUNS.get((wanted, catalog)) or _longest_runs([wanted], catalog)[0]

    @property
    def media(self) -> Mapping[str, Medium | None]:
        """What its cables are."""
        return self.cabled.media

    @cached_property
    def _bill(self) -> tuple[tuple[Line, Array], ...]:
        """What is bought, each line with its price [USD]."""
        adapters = ((self.adapters, self.adapters.cost),) if self.adapters else ()
        return (*adapters, *self.cabled.bill)

    @cached_property
    def parts(self) -> tuple[Line, ...]:
        """What is bought, a level's cables on one line."""
        return tuple(line for line, _ in self._bill)

    @property
    def spares(self) -> Estimate:
        """Share of the parts' price that is kept in stock [1]."""
        return self.prices.rate("spares")

    @cached_property
    def _bought(self) -> Floats:
        """Price of all parts [USD]."""
        return np.asarray(sum(cost for _, cost in self._bill), dtype=np.float64)

    @cached_property
    def stock(self) -> Floats:
        """Price of the parts kept in stock [USD]."""
        return np.asarray(spare_cost(self._bought, self.spares))

    @cached_property
    def cost(self) -> Floats:
        """Price of all parts and of the stock [USD]."""
        return self._bought + self.stock

    @property
    def power(self) -> Floats:
        """Maximum power of switches with their modules [W]."""
        return np.asarray(self.cabled.power)

    @property
    def typical_power(self) -> Floats:
        """Usual power of switches with their modules [W]."""
        return np.asarray(self.cabled.typical_power)

    @cached_property
    def used(self) -> tuple[Estimate, ...]:
        """What the cost rests on."""
        estimates = [line.price for line in self.parts if line.price]
        return tuple({price.key: price for price in (*estimates, self.spares)}.values())

    @property
    def lines(self) -> Iterator[Line]:
        """What is bought, cables by their length."""
        for line in self.parts:
            if not line.role.startswith("cable "):
                yield line
                continue
            level = line.role.removeprefix("cable ")
            name = "–".join(end.replace("_", "-") for end in level.split("_", 1))
            per_cable = self.cages.per_cable(level, self.media[level])
            for metres, pieces in _by_length(getattr(self.cabling, level), per_cable):
                yield Line(f"{name}, {metres:g} m", line.part, line.key, pieces, line.price, length=metres)

    @property
    def switch_ports(self) -> int:
        """Ports of all switches, used or free [1]."""
        counts = self.counts
        above = counts.spines + counts.cores + counts.super_cores
        return counts.leaves * self.choice.radix + above * self.choice.spine_radix

    @property
    def rack_units(self) -> int:
        """Height of all switches [1]."""
        counts, (leaf, spine) = self.counts, (self.choice.leaf, self.choice.spine)
        above = counts.spines + counts.cores + counts.super_cores
        heights = [(box.rack_units or 1) / box.switches_per_box for box in (leaf, spine)]
        return round(counts.leaves * heights[0] + above * heights[1])

    @cached_property
    def power_sources(self) -> tuple[Estimate, ...]:
        """What the power rests on."""
        return powers(self.choice)

    def cages_used(self) -> dict[str, int]:
        """Cages that hold a cable or module, at the nodes and in the switches of each tier."""
        counts = self.counts
        boxes = {
            "node": counts.nodes, "leaf": counts.leaves, "spine": counts.spines, "core": counts.cores,
            "super-core": counts.super_cores,
        }  # fmt: skip
        ends = dict.fromkeys(boxes, 0)
        for level in LEVELS:
            for tier in ENDS[level]:
                ends[tier] += int(getattr(self.design, level))
        ends["node"] = int(self.design.hosts)
        return {
            tier: int(fabric_design.modules_needed(links, self.cages.at(tier)[0][1], boxes[tier]))
            for tier, links in ends.items()
            if links
        }


UNKNOWN_LINKS = "links without a part"
"""The line of the bill for levels whose links nothing of the catalogue carries."""
ZERO = np.zeros(1)
ZERO.flags.writeable = False


def powers(choice: SwitchPair) -> tuple[Estimate, ...]:
    """What the power of some switches rests on."""
    boxes = {choice.leaf.key: choice.leaf, choice.spine.key: choice.spine}
    powers = [power for box in boxes.values() for power in (box.maximum_power, box.power)]
    return tuple(power for power in powers if power)


@dataclass(frozen=True, eq=False)
class Cages:
    """Rate of a cage [B/s] and links it carries, at a node, a leaf and a switch above.

    They equal themselves alone, and choices of switches that agree in all of them share them, so that they are quick to
    look up.
    """

    node: tuple[float, int]
    leaf: tuple[float, int]
    spine: tuple[float, int]
    leaf_packaged: Inside | None
    """The optics inside a leaf, and inside a switch above; ``None`` where they take modules."""
    spine_packaged: Inside | None
    leaf_lane: float = np.inf
    """The fastest lane of a leaf's cages, and of a switch above [B/s]."""
    spine_lane: float = np.inf
    adapter_lane: float = 0.0
    """The rate of a lane of a node's links, 0 where it is not known [B/s]."""
    wanted: str = ""
    """The kind of cables or modules that is wished."""

    @staticmethod
    def of(choice: SwitchPair, cluster: Cluster, request: DesignRequest, catalog: Catalog) -> "Cages":
        """The cages of a choice of switches and a kind of node.

        How many links share a cage of the node is known for the node's own adapters; with others each has its own.
        """
        platform, network = cluster.platform.key, cluster.scale_out.key
        return cages_of(choice, catalog, platform, network, request.planes, request.media or "")

    def at(self, tier: str) -> tuple[tuple[float, int], Inside | None]:
        """The cage at one end of a link, and the optics where they are inside the box."""
        if tier == "node":
            return self.node, None
        return (self.leaf, self.leaf_packaged) if tier == "leaf" else (self.spine, self.spine_packaged)

    def ends(self, level: str) -> tuple[tuple[float, int], tuple[float, int]]:
        """The cages at both ends of a level's links."""
        near, far = ENDS[level]
        return self.at(near)[0], self.at(far)[0]

    def per_cable(self, level: str, medium: Medium | None) -> float:
        """Links that one cable of a level carries: half of one where it takes two."""
        return medium.links if medium and medium.kind == "optical" else self.at(ENDS[level][1])[0][1]

    def medium(self, prices: PriceList, level: str, length: float) -> Medium | None:
        """What carries the links of a level whose longest run is so long: one kind, so that spares fit everywhere."""
        return _medium(self, prices, level, length)

    def bought(self, prices: PriceList, level: str, length: float) -> Medium | None:
        """What is bought for them: what carries them, or the modules that reach farthest where none reach so far."""
        if medium := self.medium(prices, level, length):
            return medium
        sold = sorted((each.typical for each in prices.catalog.operations["lengths"].values()), reverse=True)
        shorter = (self.medium(prices, level, each) for each in sold if each < length)
        farthest = next(filter(None, shorter), None)
        return farthest if farthest and farthest.kind == "optical" else None


@lru_cache(maxsize=1024)
def _medium(cages: Cages, prices: PriceList, level: str, length: float) -> Medium | None:
    """What carries the links of a level so long. Kept: plans of other sizes need the same few."""
    (near, near_inside), (far, far_inside) = (cages.at(tier) for tier in ENDS[level])
    lanes_of = {"node": np.inf, "leaf": cages.leaf_lane}
    near_lane, far_lane = (lanes_of.get(tier, cages.spine_lane) for tier in ENDS[level])
    lanes = Lanes(near_lane, far_lane, cages.adapter_lane if "node" in ENDS[level] else 0.0)
    return medium_between(prices, length, near, far, (near_inside, far_inside), lanes, cages.wanted)


@lru_cache(maxsize=1024)
def cages_of(
    choice: SwitchPair, catalog: Catalog, platform: str, scale_out: str, planes: int, wanted: str = ""
) -> Cages:
    """The cages of a choice of switches and the adapters of a platform.

    Kept: it takes 5 µs, and a plan asks seventeen times, whatever the size of its cluster.
    """
    cage_links = catalog.operations["node_cage_links"]
    network = catalog.scale_out[scale_out]
    port = network.port_rate.typical
    usual_rate = port == catalog.platforms[platform].nic_rate.typical
    links = int(cage_links.get(platform if usual_rate else "default", cage_links["default"]).typical) * planes
    return _shared_cages(
        (port / planes * links, links),
        switch_cage(choice.leaf, choice.leaf_split),
        switch_cage(choice.spine, choice.spine_split),
        inside_of(choice.leaf),
        inside_of(choice.spine),
        lane_of(choice.leaf),
        lane_of(choice.spine),
        network.lane_rate.typical if network.lane_rate else 0.0,
        wanted,
    )


@lru_cache(maxsize=1024)
def _shared_cages(*fields: Any) -> Cages:
    """The cages with these fields."""
    return Cages(*fields)


Carried = Mapping[str, Sequence[tuple[Medium, Any]]]
"""The media of each level, and where each is used: true, or an array that says it for each design."""


def media_of(
    cages: Cages,
    prices: PriceList,
    longest: Iterable[tuple[Any, Mapping[str, float]]],
    many: int | tuple[int, ...],
    carrier: Callable[[Cages, PriceList, str, float], Medium | None] = Cages.medium,
) -> tuple[Carried, Floats]:
    """What carries the links of many designs, and how many levels of each nothing does.

    ``longest`` says of some designs, by their places, how long the longest link of each of their levels is [m].
    ``many``: of so many, or columns of such a shape. ``carrier`` says what carries links of a level so long.
    """
    carried: dict[str, dict[Medium, NDArray[np.bool_]]] = {level: {} for level in LEVELS}
    unreached = np.zeros(many)
    for places, lengths in longest:
        for level, length in lengths.items():
            medium = carrier(cages, prices, level, length)
            if medium is None:
                unreached[places] += 1
            else:
                carried[level].setdefault(medium, np.zeros(many, dtype=np.bool_))[places] = True
    return {level: tuple(media.items()) for level, media in carried.items()}, unreached


def of_each_length(longest: Mapping[str, NDArray[Any]]) -> Iterator[tuple[NDArray[np.bool_], Mapping[str, float]]]:
    """Where the longest links of a level are so long [m], for each length in columns; 0 where there are none."""
    for level, column in longest.items():
        for length in dict.fromkeys(column[column > 0].tolist()):
            yield column == length, {level: length}


def part_counts(
    choice: SwitchPair,
    cages: Cages,
    design: layouts.Design,
    nodes: Array,
    manager_links: Array,
    carried: Carried,
) -> dict[tuple[str, str], Array]:
    """How many of each part a design needs besides its adapters, or an array of designs, by role and key.

    Cages are filled box by box: a twin-port module for every two links of a box. A link over copper needs no modules.

    Args:
        choice, cages: the switches, and what fits them.
        design: the designs.
        nodes, manager_links: nodes, and links of fabric managers [1].
        carried: the media of each level.
    """
    parts: dict[tuple[str, str], Array] = {}
    counts = (design.leaf_switches, design.spine_switches, design.core_switches, design.super_core_switches)
    switches = dict(zip(TIERS, counts, strict=True))
    for tier, many in switches.items():
        box = _box(choice, tier)
        parts[f"{tier} switch", box.key] = -(-many // box.switches_per_box)
    ends: dict[tuple[str, str], Array] = {}
    runs: dict[tuple[str, str], Array] = {}
    for level, kinds in carried.items():
        links = getattr(design, level)
        for medium, chosen in kinds:
            mine = where(chosen, links, 0.0)
            run = (level, medium.cable.key)
            runs[run] = runs.get(run, 0.0) + -(-mine // cages.per_cable(level, medium))
            for tier, module in zip(ENDS[level], (medium.near, medium.far), strict=True):
                if module is None:
                    continue
                managers = where(mine > 0, manager_links, 0.0) if tier == "node" else 0.0
                ends[tier, module.key] = ends.get((tier, module.key), 0.0) + mine - managers
                ends["fabric-manager", module.key] = ends.get(("fabric-manager", module.key), 0.0) + managers
    for (tier, key), links in ends.items():
        boxes = nodes if tier == "node" else switches.get(tier, 1)
        per_module = 1 if tier == "fabric-manager" else cages.at(tier)[0][1]
        filled = fabric_design.modules_needed(links, per_module, boxes)
        role = f"{tier} module" if tier in ("node", "fabric-manager") else f"{tier} switch module"
        parts[role, key] = parts.get((role, key), 0.0) + filled
    for (level, key), pieces in runs.items():
        parts[f"cable {level}", key] = pieces
    return parts


def adapter_price(cluster: Cluster, prices: PriceList, content: Content = "compute_nics") -> PaidPart:
    """What one adapter of a cluster costs on top of its nodes."""
    return prices.adapter(
        cluster.nic, cluster.scale_out.family, cluster.platform, cluster.whole_node, cluster.nics_per_node, content
    )


def price_of(role: str, key: str, choice: SwitchPair, prices: PriceList) -> tuple[str, str, Estimate | None]:
    """Name, key and price of a switch, module or cable."""
    if role.endswith(" switch"):
        box = _box(choice, role.removesuffix(" switch"))
        return box.name, box.key, prices.switch(box)
    optic = prices.catalog.optics[key]
    return optic.name, key, prices.optic(optic)


def drawn_by(role: str, key: str, choice: SwitchPair, catalog: Catalog) -> float:
    """What one part adds at most, typically, to the power of switches with their modules [W]; see `held`."""
    if role.endswith(" switch"):
        box = _box(choice, role.removesuffix(" switch"))
        most = box.maximum_power or box.power
        return most.typical if most else 0.0
    cable = role.startswith("cable ")
    ends = ENDS[role.removeprefix("cable ")] if cable else (role.removesuffix(" switch module"),)
    paid = sum(tier in TIERS and not holds_modules(_box(choice, tier)) for tier in ends)
    power = catalog.optics[key].power
    return power.typical * paid / (2 if cable else 1) if power else 0.0


def _box(choice: SwitchPair, tier: str) -> Switch:
    """The switch that a tier is built of."""
    return choice.leaf if tier == "leaf" else choice.spine


def holds_modules(box: Switch) -> bool:
    """Whether the maximum power of a switch has its modules in it."""
    return bool(box.maximum_power and box.maximum_power_includes_modules)


def _whole(count: Any) -> Any:
    """A count, or a column of them, in whole numbers."""
    return count.astype(np.int64) if isinstance(count, np.ndarray) else int(count)


def counted(design: layouts.Design, cluster: Cluster, request: DesignRequest) -> Counts:
    """A design in plain numbers, or columns of designs."""
    return Counts(
        layout=layouts.LAYOUTS.index(request.topology),
        nodes=cluster.nodes,
        rails=cluster.nics_per_node,
        planes=request.planes,
        tiers=_whole(design.tiers),
        units=_whole(design.units),
        unit_nodes=_whole(design.unit_nodes),
        leaf_down=_whole(design.leaf_down),
        leaf_up=_whole(design.leaf_up),
        spine_down=_whole(design.spine_down),
        spine_up=_whole(design.spine_up),
        core_up=_whole(design.core_up),
        leaves=_whole(design.leaf_switches),
        spines=_whole(design.spine_switches),
        cores=_whole(design.core_switches),
        super_cores=_whole(design.super_core_switches),
        management_links=request.management_links,
        peers=_whole(design.peer),
        rail_spines=request.spine_policy == "rail" or request.topology == "rail-only",
    )


def laid_out(
    design: layouts.Design, height: int, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> Cabling:
    """A design with its racks on the floor, whose switches above the leaves are so high [rack units]."""
    floor = floor_of(catalog, cluster.platform.nodes_per_rack)
    return _laid_out(counted(design, cluster, request), floor, height)


@lru_cache(maxsize=16)
def _laid_out(counts: Counts, floor: Floor, rack_units: int) -> Cabling:
    """The same by its numbers.

    Kept: a plan lays out a design where it chooses it and where it prices it, and another network often has the same
    racks and switches: finding the longest links and their lengths takes 0.3 ms each time.
    """
    return Cabling(counts, floor, rack_units)


class _Several(PricedDesign):
    """Designs of equal switches and cages as one whose numbers are columns."""

    def cabled_in(self, sampling: Sampling) -> Cabled:
        """Their cables and switches; what cables are, each has by itself."""
        longest: Mapping[str, Any] = self.wanted.longest(self.prices.catalog)
        many = np.shape(self.design.tiers)
        runs, unreached = media_of(self.cages, self.prices, of_each_length(longest), many, Cages.bought)
        return _counted_and_priced(self.wanted, self.cages, self.prices, sampling, runs, {}, unreached)


def together(designs: Sequence[PricedDesign], clusters: Cluster) -> PricedDesign:
    """Designs of equal switches and cages at equal prices as one whose numbers are columns, as those of their clusters
    are.
    """
    first = designs[0]

    def column(values: Sequence[Any]) -> Any:
        return np.array(values)[:, None]

    lengths = [each.chosen.lengths or each.wanted.longest(each.prices.catalog) for each in designs]
    columns = Chosen(
        first.choice,
        layouts.Design.stacked([each.design for each in designs]).at(slice(None), None),
        {level: column([each.get(level, 0.0) for each in lengths]) for level in LEVELS},
    )
    return _Several(columns, clusters, first.request, first.prices)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rows(PricedDesign):
    """Rows of designs that are one, which are counted and priced once for all rows.

    Attributes:
        several, places: the designs, and of each row which of them it is.
    """

    several: PricedDesign
    places: NDArray[np.int64]

    @cached_property
    def design(self) -> layouts.Design:
        """The design of each row."""
        return self.several.design.at(self.places)

    def cabled_in(self, sampling: Sampling) -> Cabled:
        """Cables and switches of each row."""
        its = self.several.cabled if sampling.drawn else self.several.cabled_in(sampling)
        bill = tuple((line.at(self.places), np.asarray(cost)[self.places]) for line, cost in its.bill)
        return Cabled(its.media, bill, *(np.asarray(power)[self.places] for power in (its.power, its.typical_power)))


def rows_of(several: PricedDesign, clusters: Cluster, places: NDArray[np.int64]) -> PricedDesign:
    """Rows of designs that are one, see `together`: the cluster of each, and which of them it is."""
    return _Rows(several.chosen, clusters, several.request, several.prices, several=several, places=places)


def _adapters(many: int, cluster: Cluster, prices: PriceList, content: Content) -> Line:
    """So many adapters of a cluster, as they are paid on top of its nodes."""
    nic = cluster.nic
    paid = adapter_price(cluster, prices, content)
    return Line(
        "NIC", nic.name if nic else "NIC", nic.key if nic else "", many, paid.price, None, paid.usual, paid.contained
    )


_Asked = tuple[Wanted, Cages, PriceList, Sampling]
_Media = tuple[tuple[str, Medium | None], ...]
"""What is bought for the links of each level."""
_CABLED: Kept[_Asked, Cabled] = Kept(256)
"""Cables and switches that were counted and priced last: it takes 0.5 ms, and servers of several GPUs have the same
ports.
"""


def _cabled(wanted: Wanted, cages: Cages, prices: PriceList, sampling: Sampling) -> Cabled:
    """Cables and switches of a fabric, counted and priced."""
    asked = wanted, cages, prices, sampling
    kept = _CABLED.get(asked)
    if kept is None:
        kept = _of_one_kind(wanted, cages, prices, sampling, wanted.media(cages, prices))
        _CABLED.add(asked, kept)
    return kept


def price_together(designs: Iterable[PricedDesign], sampling: Sampling) -> None:
    """Count and price several designs, so that each finds it done: in one go those of equal switches at equal prices
    that have the same kinds of cables.
    """
    alike = defaultdict[tuple[SwitchPair, int, Cages, PriceList, _Media], list[Wanted]](list)
    for wanted, cages, prices in dict.fromkeys((each.wanted, each.cages, each.prices) for each in designs):
        if (wanted, cages, prices, sampling) not in _CABLED:
            media = tuple(wanted.media(cages, prices).items())
            alike[wanted.choice, wanted.managers, cages, prices, media].append(wanted)
    for (_, _, cages, prices, media), several in alike.items():
        if len(several) > 1:
            together = _of_one_kind(Wanted.stacked(several), cages, prices, sampling, dict(media))
            for wanted, cabled in zip(several, together.rows(len(several), sampling), strict=True):
                _CABLED.add((wanted, cages, prices, sampling), cabled)


_RUNS: Kept[tuple[Wanted, Catalog], Sequence[float]] = Kept(256)
"""The longest cables of fabrics that were looked for last: it takes 0.2 ms."""


def measure_together(several: Iterable[Wanted], catalog: Catalog) -> None:
    """Find the longest cables of several fabrics at once, so that each finds it done."""
    new = [wanted for wanted in dict.fromkeys(several) if (wanted, catalog) not in _RUNS]
    for wanted, runs in zip(new, _longest_runs(new, catalog), strict=True):
        _RUNS.add((wanted, catalog), runs)


def _longest_runs(several: Sequence[Wanted], catalog: Catalog) -> list[list[float]]:
    """The longest cable of each level that each of some fabrics has [m]."""
    laid, bounds = [each.cabling(catalog) for each in several], [each.longest(catalog) for each in several]
    runs: list[list[float]] = [[] for _ in several]
    for number, level in enumerate(LEVELS):
        its = [place for place, wanted in enumerate(several) if wanted.links[number] > 0]
        longest = longest_runs([laid[place] for place in its], level, [bounds[place][level] for place in its])
        for place, run in zip(its, longest, strict=True):
            runs[place].append(run)
    return runs


def _of_one_kind(
    wanted: Wanted, cages: Cages, prices: PriceList, sampling: Sampling, media: Mapping[str, Medium | None]
) -> Cabled:
    """Cables and switches of a fabric, or of columns of fabrics, whose links of each level are of one kind."""
    runs = {level: ((medium, True),) for level, medium in media.items() if medium}
    return _counted_and_priced(wanted, cages, prices, sampling, runs, media, len(media) - len(runs))


def _counted_and_priced(
    wanted: Wanted,
    cages: Cages,
    prices: PriceList,
    sampling: Sampling,
    runs: Carried,
    media: Mapping[str, Medium | None],
    unreached: Array,
) -> Cabled:
    """The same of a fabric, or of columns of fabrics, whose links of each level are of some media, or of none on so
    many levels: what these cost is not known.
    """
    choice, catalog = wanted.choice, prices.catalog
    needed = part_counts(choice, cages, wanted.design, wanted.counts.nodes, wanted.managers, runs)
    modules = held(needed, catalog, sampling)
    lines = []
    for (role, key), count in needed.items():
        if any_(count > 0):
            many: Any = count if isinstance(count, np.ndarray) else int(count)
            name, own_key, price = price_of(role, key, choice, prices)
            power = _switch_power(choice, role, many, modules, sampling) if role.endswith(" switch") else None
            lines.append(Line(role, name, own_key, many, price, power))
    if any_(unreached > 0):
        levels: Any = unreached if isinstance(unreached, np.ndarray) else int(unreached)
        lines.append(Line(UNKNOWN_LINKS, "modules and cables that the catalogue lacks", "", levels, None))
    return Cabled(
        media,
        tuple((line, line.cost_in(sampling)) for line in lines),
        power=sum((line.power for line in lines if line.power is not None), _none_of(sampling)),
        typical_power=_typical_power(choice, wanted.counts, modules, sampling),
    )


def _none_of(sampling: Sampling) -> Array:
    """Nothing, as some draws or a number."""
    return ZERO if sampling.drawn else 0.0


def _typical_power(choice: SwitchPair, counts: Counts, modules: Mapping[str, Array], sampling: Sampling) -> Array:
    """Usual power of switches with their modules [W]."""
    above = counts.spines + counts.cores + counts.super_cores
    boxes = ((choice.leaf, counts.leaves), (choice.spine, above))
    drawing = [costs.line(-(-many // box.switches_per_box), _taken(box.power, sampling)) for box, many in boxes]
    return sum((*modules.values(), *drawing), _none_of(sampling))


def _switch_power(choice: SwitchPair, role: str, boxes: Array, modules: Mapping[str, Array], sampling: Sampling) -> Any:
    """Maximum power of the switches of a tier with their modules [W]."""
    tier = role.removesuffix(" switch")
    box = _box(choice, tier)
    most = box.maximum_power or box.power
    power = costs.switch_power(boxes, _taken(most, sampling), 1, modules.get(tier, 0.0), holds_modules(box))
    return np.asarray(power) if sampling.drawn else power


def held(needed: Mapping[tuple[str, str], Array], catalog: Catalog, sampling: Sampling) -> dict[str, Array]:
    """Power of the modules and of the ends of active cables in the switches of each tier [W]."""
    by_tier: dict[str, Array] = {}
    for (role, key), many in needed.items():
        cable, module = role.startswith("cable "), role.endswith(" switch module")
        each = catalog.optics[key].power if cable or module else None
        if not (cable or module) or (each and each.is_zero):  # as of fibres, which draw nothing
            continue
        power = costs.line(many, _taken(each, sampling))
        ends = ENDS[role.removeprefix("cable ")] if cable else (role.removesuffix(" switch module"),)
        for tier in filter(TIERS.__contains__, ends):
            by_tier[tier] = by_tier.get(tier, 0.0) + (power / 2 if cable else power)
    return by_tier


def spare_cost(parts_cost: Array, spares: Estimate, sampling: Sampling = DRAWS) -> Array:
    """Price of the parts kept in stock [USD]."""
    share = sampling(spares)
    return where(share == 0, 0.0, costs.with_spares(parts_cost, share) - parts_cost)


def _by_length(runs: Mapping[float, int], per_cable: float) -> Iterator[tuple[float, int]]:
    """Cables of each length; those of several links are rounded up on the whole."""
    links = done = 0
    for metres, more in sorted(runs.items()):
        links += more
        pieces = int(-(-links // per_cable)) - done
        done += pieces
        if pieces:
            yield metres, pieces
