"""Buy, lease or rent: what a GPU-hour in use costs each way, and from which use on owning pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from app import units
from app.catalog.estimate import Estimate
from app.catalog.load import LEASE, RESERVED, Catalog
from app.formulas import costs
from app.formulas.arrays import Array
from app.plan.band import Draws, Q, interval, record, result
from app.plan.bill_of_materials import draws_or_nan
from app.plan.prices import own
from app.plan.total_cost import Ownership
from app.studies.curve import Curve, Series

Floats = NDArray[np.float64]
HOUR, YEAR = units.parse("1 h", "s"), units.parse("1 year", "s")
USE = np.linspace(0.05, 1.0, 20)
"""Shares of the time in use that the curve is drawn at [1]."""


@dataclass(frozen=True)
class Terms:
    """How a cluster of one's own would be paid for; what is not given is the catalogue's.

    Attributes:
        term: how long it is kept [s].
        utilisation: share of the time that its GPUs are in use [1].
        interest: of a year [1].
        residual: what it is worth at the end, as a share of its price [1].
        staff: posts for 1,000 GPUs [1].
        colocation: what hosting costs a provided watt and second [USD/J].
        lease: what leasing one GPU costs [USD/s].
    """

    term: float | None = None
    utilisation: float | None = None
    interest: float | None = None
    residual: float | None = None
    staff: float | None = None
    colocation: float | None = None
    lease: float | None = None


@record
class Way(Generic[Q]):
    """One way to have a GPU for a year."""

    way: str = result(
        "",
        "Way",
        "own-hall, colocation, lease, reserved-3-years, reserved-1-year or on-demand.",
        words="way",
    )
    capital: Q = result(
        "USD", "Capital per GPU", "What is paid for one GPU with its share of nodes, networks and hall."
    )
    per_year: Q = result(
        "USD/year",
        "Cost of a GPU-year",
        "Capital spread over the term with interest, a hall of one's own over the life of buildings; hosting, energy, "
        "support and staff; or the rent of a year.",
        formula="costs.annuity",
    )
    per_gpu_hour: Q = result(
        "USD/h",
        "Cost of a GPU-hour in use",
        "The year's cost over the hours that a GPU is in use; on demand the price itself.",
        formula="costs.useful_time",
    )
    break_even: Q = result(
        "1",
        "Owning pays from a use of",
        "Share of the time that a GPU must be in use for the cheaper way of owning to cost as much as this price; "
        "above 1: never; null for what is paid in use or not, as owning is.",
        formula="costs.break_even",
        share=True,
    )


@record
class BuyOrRent(Generic[Q]):
    """A cluster of one's own against leased and rented GPUs."""

    term: Q = result("s", "Term", "How long it is kept.")
    utilisation: Q = result("1", "Use", "Share of the time that GPUs are in use.", share=True)
    interest: Q = result("1", "Interest", "Of a year.", share=True)
    residual: Q = result(
        "1", "Residual value", "Worth at the end, as a share of the price.", formula="costs.residual_share", share=True
    )
    staff: Q = result("USD/year", "Staff per GPU", "Posts for 1,000 GPUs at what one costs.")
    ways: tuple[Way[Q], ...] = result("", "Buy, lease or rent", "Each way, dearest capital first.", table="ways")
    cheapest: str = result("", "Cheapest", "The way with the cheapest GPU-hour in use, typically.", words="way")


@dataclass(frozen=True)
class _Owned:
    """The quantities of owning, as draws, for one GPU."""

    term: Estimate
    utilisation: Estimate
    interest: Estimate
    residual: Floats
    residual_sources: tuple[Estimate, ...]
    staff: Floats
    posts: Estimate
    staff_sources: tuple[Estimate, ...]


def _owned(terms: Terms, owned: Ownership, catalog: Catalog) -> _Owned:
    table = catalog.operations["ownership"]

    def chosen(name: str, unit: str = "1") -> Estimate:
        value = getattr(terms, name)
        return table[name] if value is None else own(value, unit, name)

    term = owned.rates.lifetime if terms.term is None else own(terms.term, "s", "term")
    after = table["residual_after_3_years"]
    given = None if terms.residual is None else own(terms.residual, "1", "residual")
    worth = given.draws() if given else costs.residual_share(after.draws(), term.draws() / YEAR)
    staff, post = chosen("staff"), table["post"]
    return _Owned(
        term=term,
        utilisation=chosen("utilisation"),
        interest=chosen("interest"),
        residual=np.asarray(worth + np.zeros_like(after.draws())),
        residual_sources=(given,) if given else (after,),
        staff=np.asarray(staff.draws() / 1000 * post.draws() * YEAR),
        posts=staff,
        staff_sources=(staff, post),
    )


def _hosting(terms: Terms, catalog: Catalog) -> Estimate:
    """What a provided watt costs in a hall of others [USD/J]."""
    if terms.colocation is None:
        return catalog.operations["ownership"]["colocation"]
    return own(terms.colocation, "USD/J", "colocation")


def _leased(owned: Ownership, terms: Terms) -> Estimate | None:
    """What leasing one GPU costs [USD/s]."""
    return _price(owned, LEASE) if terms.lease is None else own(terms.lease, "USD/s", "lease")


def terms_in_force(owned: Ownership, terms: Terms, catalog: Catalog) -> dict[str, float | None]:
    """What the terms stand at, the blank ones too, each in the unit of `Terms`; ``None`` for a lease nobody prints."""
    kept, leased = _owned(terms, owned, catalog), _leased(owned, terms)
    return {
        "term": kept.term.typical,
        "utilisation": kept.utilisation.typical,
        "interest": kept.interest.typical,
        "residual": float(kept.residual[0]),
        "staff": kept.posts.typical,
        "colocation": _hosting(terms, catalog).typical,
        "lease": leased.typical if leased else None,
    }


def buy_or_rent(owned: Ownership, terms: Terms, catalog: Catalog) -> BuyOrRent[Draws]:
    """Every way to have the GPUs of a cluster, for one of them and a year."""
    kept = _owned(terms, owned, catalog)
    ways = [*_bought(owned, kept, terms, catalog), *_rented(owned, kept, terms, catalog)]
    priced = [way for way in ways if np.isfinite(way.per_gpu_hour.typical)]
    cheapest = min(priced, key=lambda way: way.per_gpu_hour.typical, default=None)
    return BuyOrRent(
        term=Draws(kept.term.draws(), used=(kept.term,)),
        utilisation=Draws(kept.utilisation.draws(), used=(kept.utilisation,)),
        interest=Draws(kept.interest.draws(), used=(kept.interest,)),
        residual=Draws(kept.residual, used=kept.residual_sources),
        staff=Draws(kept.staff, used=kept.staff_sources),
        ways=tuple(ways),
        cheapest=cheapest.way if cheapest else "",
    )


def _bought(owned: Ownership, kept: _Owned, terms: Terms, catalog: Catalog) -> list[Way[Draws]]:
    """A cluster in a hall of one's own, and in one that is rented by its power."""
    gpus, rates, table = owned.cluster.gpus, owned.rates, catalog.operations["ownership"]
    years, interest = kept.term.draws() / YEAR, kept.interest.draws()
    equipment = owned.equipment / gpus
    paid = costs.annuity(equipment, kept.residual, years, interest)
    facility = costs.facility_power(owned.typical_power, rates.pue.draws()) / gpus
    energy = costs.energy_cost(facility, rates.year, draws_or_nan(rates.electricity))
    running = energy + rates.support.draws() * equipment + kept.staff
    hall, life = owned.building / gpus, table["building_life"]
    hosting = _hosting(terms, catalog)
    rent = costs.energy_cost(owned.power / gpus, rates.year, hosting.draws())
    sources = (*rates.bought_at, *rates.run_at, *owned.network.used, kept.interest, kept.term, *kept.residual_sources)
    sources = (*sources, *kept.staff_sources)
    built = costs.annuity(hall, 0.0, life.draws() / YEAR, interest)
    return [
        _way("own-hall", equipment + hall, paid + running + built, kept, (*sources, life)),
        _way("colocation", equipment, paid + running + rent, kept, (*sources, hosting)),
    ]


def _way(way: str, capital: Array, per_year: Array, kept: _Owned, used: tuple[Estimate, ...]) -> Way[Draws]:
    hours = costs.useful_time(per_year, kept.utilisation.draws(), YEAR / HOUR)
    return Way(
        way=way,
        capital=Draws(np.asarray(capital), used=used),
        per_year=Draws(np.asarray(per_year), used=used),
        per_gpu_hour=Draws(np.asarray(hours), used=(*used, kept.utilisation)),
        break_even=Draws(np.full_like(np.asarray(hours), np.nan)),
    )


def _rented(owned: Ownership, kept: _Owned, terms: Terms, catalog: Catalog) -> list[Way[Draws]]:
    """Leased GPUs, and those of a cloud: by a contract no longer than they are kept, or by the hour."""
    prices = {"lease": _leased(owned, terms)}
    fitting = (contract for contract, time in CONTRACTS.items() if time <= kept.term.typical)
    prices |= {f"reserved-{contract}": _price(owned, f"{RESERVED}-{contract}") for contract in fitting}
    prices["on-demand"] = owned.rates.rent
    cheaper = min(_bought(owned, kept, terms, catalog), key=lambda way: way.per_year.typical)
    rented = []
    for way, price in prices.items():
        if price is None:
            continue
        hour = price.draws() * HOUR
        by_use = way == "on-demand"
        use = 1.0 if by_use else kept.utilisation.draws()
        even = costs.break_even(cheaper.per_year.values, hour, YEAR / HOUR) if by_use else np.full_like(hour, np.nan)
        used = (price,)
        rented.append(
            Way(
                way=way,
                capital=Draws(np.zeros_like(hour)),
                per_year=Draws(hour * YEAR / HOUR, used=used),
                per_gpu_hour=Draws(np.asarray(hour / use), used=(*used, kept.utilisation)),
                break_even=Draws(np.asarray(even), used=(*used, *cheaper.per_year.used)),
            )
        )
    return rented


CONTRACTS = {contract: units.parse(contract.replace("-", " "), "s") for contract in ("3-years", "1-year")}
"""Terms for which clouds print a price [s]."""


def _price(owned: Ownership, kind: str) -> Estimate | None:
    """What a contract of a kind costs for the cluster's GPU [USD/s]."""
    return owned.prices.contract(kind, owned.cluster.gpu.key)


def against_use(comparison: BuyOrRent[Draws]) -> Curve:
    """What a GPU-hour in use costs each way, against the share of the time that it is in use."""
    series = []
    for way in comparison.ways:
        hour = way.per_year.values * HOUR / YEAR
        values = hour[None, :] + np.zeros((len(USE), 1)) if way.way == "on-demand" else hour[None, :] / USE[:, None]
        if not np.isfinite(values[:, 0]).any():
            continue
        low, high = interval(values)
        series.append(
            Series(
                WAYS[way.way],
                "money" if way.way in BOUGHT else "muted",
                USE,
                values[:, 0],
                low,
                high,
                dash=DASHES[way.way],
                strong=way.way == comparison.cheapest,
            )
        )
    title = "No way to have a GPU-hour has a price."
    if comparison.cheapest:
        use = units.percent(comparison.utilisation.typical)
        title = f"At {use} use the cheapest GPU-hour is: {WAYS[comparison.cheapest].lower()}."
    return Curve(
        key="buy_or_rent",
        title=title,
        subtitle="Cost of a GPU-hour in use against the share of the time in use, with 80 % ranges",
        x_name="Use",
        x_unit="%",
        y_name="Cost of a GPU-hour in use",
        y_unit="USD/h",
        series=tuple(series),
        x_logarithmic=False,
    )


WAYS = {
    "own-hall": "Own hall",
    "colocation": "Colocation",
    "lease": "Lease",
    "reserved-3-years": "Cloud, 3 years",
    "reserved-1-year": "Cloud, 1 year",
    "on-demand": "Cloud, on demand",
}
"""The ways in words."""
BOUGHT = ("own-hall", "colocation")
"""The ways whose servers are one's own."""
DASHES = {
    "own-hall": "solid",
    "colocation": "longdash",
    "lease": "dashdot",
    "reserved-3-years": "dot",
    "reserved-1-year": "dash",
    "on-demand": "solid",
}
"""How the line of each way is drawn: those that are bought have one colour, those that are rented another."""
