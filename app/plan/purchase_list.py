"""What is bought, line by line, as every reader gets it: of a network, and of the cluster beside its networks."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Optic
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.plan.band import Draws
from app.plan.bill_of_materials import UNKNOWN, ZERO, Line
from app.plan.result import BillLine
from app.units import show

NO_PRICE = Draws(UNKNOWN)
NO_POWER = Draws(ZERO)
INCLUDED = {
    "contains": " (included in the node’s price; by itself {})",
    "may_contain": " (included in the node’s price, as a rule; by itself {})",
}
"""What a line of the bill says of a part that the node's price pays for."""
ANY = "any"
"""What the catalogue says of parts that several make."""
ROUNDING = 1e-9


def bill_lines(
    lines: Iterable[Line], power_sources: tuple[Estimate, ...], catalog: Catalog, spares: float = 0.0
) -> Iterator[BillLine[Draws]]:
    """Lines with bands, makers and part numbers; ``spares`` is the share of parts kept in stock."""
    prices: dict[int, Draws] = {}
    for line in lines:
        price, power = NO_PRICE, NO_POWER
        if line.price:
            price = prices.setdefault(id(line.price), Draws(line.price.draws(), used=(line.price,)))
        if line.power is not None:
            power = Draws(line.power, used=power_sources if line.power.any() else ())
        part, usual = line.part, NO_PRICE
        if line.contained and line.usual:
            usual = Draws(line.usual.draws(), used=(line.usual,))
            part += INCLUDED[line.contained].format(show(usual.typical, "USD"))
        yield BillLine(
            role=line.role,
            part=part,
            key=line.key,
            quantity=line.quantity,
            unit_price=price,
            cost=Draws(np.asarray(line.cost), used=price.used),
            power=power,
            included=line.contained,
            usual_price=usual,
            length=line.length,
            **made_by(line.key, catalog),
            spares=0 if line.contained else ceil(spares * line.quantity - ROUNDING),
        )


def stock_line(stock: NDArray[np.float64], spares: Estimate, used: tuple[Estimate, ...]) -> BillLine[Draws]:
    """What is kept in stock, as a share of the price of all parts."""
    paid = Draws(stock, used=(spares, *used))
    return BillLine("spares", f"{100 * spares.typical:g} % of all parts", "spares", 1, paid, paid, NO_POWER)


@lru_cache(maxsize=1024)
def made_by(key: str, catalog: Catalog) -> Mapping[str, str]:
    """Maker and number of a part. Kept: a plan of a new cluster asks twenty times, 5 µs each, about the same few."""
    return {"vendor": vendor_of(key, catalog), "part_number": part_number_of(key, catalog)}


def vendor_of(key: str, catalog: Catalog) -> str:
    """Who makes a part; blank where several do."""
    kinds = (catalog.switches, catalog.nics, catalog.platforms)
    made_by = next((str(kind[key].vendor) for kind in kinds if key in kind), ANY)
    return "" if made_by == ANY else made_by


def part_number_of(key: str, catalog: Catalog) -> str:
    """What its maker calls a part; blank where it is known by its kind alone."""
    entry = next((kind[key] for kind in (catalog.optics, catalog.switches, catalog.nics) if key in kind), None)
    if entry is None:
        return ""
    if isinstance(entry, Optic):
        return entry.part_number
    return entry.name.removeprefix(f"{entry.vendor} ")
