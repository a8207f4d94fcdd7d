"""What a fabric costs in place: with the spares of its parts and the building of what they draw."""

from collections.abc import Mapping
from typing import NamedTuple

from app.catalog.load import Catalog
from app.formulas.arrays import Array, where
from app.formulas.fabric import layouts
from app.plan.bill_of_materials import LEVELS, Cages, Carried, laid_out, part_counts
from app.plan.cluster import Cluster
from app.plan.offers import UNREACHED, in_place
from app.plan.prices import PriceList
from app.plan.scenario import DesignRequest
from app.plan.switches import Chosen, SwitchPair


class PricedFabric(NamedTuple):
    """A fabric with cables of its own, and its cost in place [USD]."""

    cost: float
    chosen: Chosen


class Joined(NamedTuple):
    """What a fabric joins, and of which switches: numbers, or columns of fabrics.

    Attributes:
        choice, cages: the switches, and what fits them.
        nodes, managers: nodes, and links of fabric managers [1].
    """

    choice: SwitchPair
    cages: Cages
    nodes: Array
    managers: Array


def in_full(chosen: Chosen, cluster: Cluster, request: DesignRequest, prices: PriceList) -> PricedFabric:
    """A fabric with cables of its own, and the price of its switches, modules and cables in place [USD]; infinite where
    one has none.

    In place: with the spares of them and the building of what they draw.

    Where no part carries the links of a level, `UNREACHED` stands for them.
    """
    choice, design, _ = chosen
    lengths = longest(design, choice.height, cluster, request, prices.catalog)
    cages = Cages.of(choice, cluster, request, prices.catalog)
    joined = Joined(choice, cages, cluster.nodes, request.management_links * request.planes)
    return PricedFabric(cost_of(design, lengths, joined, prices), chosen._replace(lengths=lengths))


def cost_of(design: layouts.Design, lengths: Mapping[str, float], joined: Joined, prices: PriceList) -> float:
    """Price of a design's parts where its longest links of each level are so long [USD]; see `in_full`."""
    media = {level: joined.cages.medium(prices, level, length) for level, length in lengths.items()}
    runs = {level: ((medium, True),) for level, medium in media.items() if medium}
    return UNREACHED * (len(lengths) - len(runs)) + float(cost_of_parts(design, runs, joined, prices))


def longest(
    design: layouts.Design, height: int, cluster: Cluster, request: DesignRequest, catalog: Catalog
) -> dict[str, float]:
    """The longest link of each level that a design has [m], where the switches above its leaves are so high."""
    cabling = laid_out(design, height, cluster, request, catalog)
    return {level: cabling.longest(level) for level in LEVELS if getattr(design, level) > 0}


def cost_of_parts(design: layouts.Design, runs: Carried, joined: Joined, prices: PriceList) -> Array:
    """Price of the parts of a design, or an array of them, in place, whose links of each level are of some media."""
    choice, cages, nodes, managers = joined
    total: Array = 0.0
    for (role, key), many in part_counts(choice, cages, design, nodes, managers, runs).items():
        total = total + where(many > 0, many * in_place(role, key, choice, prices), 0.0)
    return total
