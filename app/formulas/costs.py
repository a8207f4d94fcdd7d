"""What a cluster costs: to buy, to run, for each port, GPU, hour and training run.

Money is in dollars of the price book's year, without interest or resale. Powers are of the equipment; the facility's
own use is the factor PUE. Every function works elementwise on arrays: swept quantities first, draws of prices last.

Sources: Barroso, Hölzle, Ranganathan, "The datacenter as a computer", 3rd edition, 2018, chapter 6 (capital,
operating cost, PUE); NVIDIA DGX SuperPOD RA-11333 table 8 (what a fabric's bill of materials lists).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import floor
from typing import Any

import numpy as np

from app.formulas.arrays import Array, maximum, minimum, where


def per(amount: Array, count: Array) -> Array:
    """What comes of an amount on each of n things, C/n [USD]; ``nan`` where there are none.

    >>> float(per(6.0e6, 1000)), float(per(1.0, 0))
    (6000.0, nan)
    """
    return amount / where(count > 0, count, np.nan)


def line(count: Array, price: Array) -> Array:
    """One line of a bill of materials, count · price [USD].

    A part that is not needed costs nothing, even when its price is unknown.

    >>> float(line(48, 35_000.0)), float(line(0, float("nan")))
    (1680000.0, 0.0)
    """
    return where(count == 0, 0.0, count * price)


def with_spares(parts: Array, spares: Array) -> Array:
    """Price of parts and of the share of them that is kept in stock, C (1 + s) [USD].

    >>> float(with_spares(100.0, 0.03))
    103.0
    """
    return parts * (1 + spares)


def in_place(price: Array, power: Array, spares: Array, building: Array) -> Array:
    """Price of a part with its share of spares and of the building that houses its power, p (1 + s) + P · b [USD].

    Args:
        price: of the part [USD].
        power: that it draws at most [W].
        spares: share of its price that parts in stock cost [1].
        building: price of the building, its power and its cooling for a watt [USD/W].

    A switch of $30,000 that draws 1 kW, with 3 % of spares and $11 a watt:

    >>> float(in_place(30_000.0, 1000.0, 0.03, 11.0))
    41900.0
    """
    return with_spares(price, spares) + power * building


def switch_power(
    switches: Array,
    box: Array,
    modules: Array,
    module: Array,
    modules_included: Any = False,
) -> Array:
    """Power of switches with their optical modules [W].

    A datasheet's maximum often holds the modules already; those are not added a second time.

    Args:
        switches: how many [1].
        box: power of one [W].
        modules: modules in all of them [1].
        module: power of one module [W].
        modules_included: whether ``box`` has active modules in it.

    Source: the QM9700's maximum of 1,720 W is with active cables.

    >>> float(switch_power(48, 1720.0, 1536, 17.0, modules_included=True))
    82560.0
    """
    return line(switches, box) + where(modules_included, 0.0, line(modules, module))


def facility_power(equipment: Array, pue: Array) -> Array:
    """What the site draws for its equipment, P · PUE [W].

    >>> float(facility_power(1e6, 1.25))
    1250000.0
    """
    return equipment * pue


def energy_cost(power: Array, time: Array, electricity: Array) -> Array:
    """Price of drawing a power for a time, P · t · e [USD].

    Args:
        power: at the meter [W].
        time: how long [s].
        electricity: price of energy [USD/J].

    1 MW for 1,000 hours is 1 GWh; at 8 cents a kilowatt-hour that is $80,000:

    >>> round(float(energy_cost(1e6, 3.6e6, 0.08 / 3.6e6)))
    80000
    """
    return power * time * electricity


def emissions(power: Array, time: Array, carbon: Array) -> Array:
    """What drawing a power for a time emits, P · t · κ [kg].

    Args:
        power: at the meter [W].
        time: how long [s].
        carbon: carbon dioxide and what warms as much, of a unit of energy, κ [kg/J].

    Source: GHG Protocol, scope 2 guidance, 2015: location-based.

    1 GWh at 369 g/kWh is 369 t:

    >>> round(float(emissions(1e6, 3.6e6, 0.369 / 3.6e6)))
    369000
    """
    return power * time * carbon


def operating(power: Array, pue: Array, electricity: Array, capital: Array, support: Array, year: Array) -> Array:
    """Cost of keeping a cluster for a year: energy, and support as a share of its capital [USD].

    P · PUE · e · T + r · C.

    Args:
        power: average of the equipment [W].
        pue: site power over equipment power [1].
        electricity: price of energy [USD/J].
        capital: what support is reckoned on [USD].
        support: share of it a year [1].
        year: seconds of a year [s].

    >>> round(float(operating(1e6, 1.0, 0.1 / 3.6e6, 1e6, 0.05, 3.6e6)))
    150000
    """
    return energy_cost(facility_power(power, pue), year, electricity) + support * capital


def total(capital: Array, operating_per_year: Array, lifetime: Array, year: Array) -> Array:
    """Cost of buying a cluster and keeping it for its life, C + O · T / year [USD].

    >>> float(total(100.0, 10.0, 5.0, 1.0))
    150.0
    """
    return capital + operating_per_year * lifetime / year


def per_gpu_time(total_cost: Array, gpus: Array, lifetime: Array, time: Array) -> Array:
    """What one GPU costs for some time when the whole is spread evenly over its life, C t / (n T) [USD].

    >>> float(per_gpu_time(8.76e6, 100, 8760.0, 1.0))
    10.0
    """
    return per(total_cost * time, gpus * lifetime)


def run(total_cost: Array, lifetime: Array, time: Array) -> Array:
    """Share of a cluster's whole cost that a run of some length uses up, C t / T [USD].

    >>> float(run(1000.0, 5.0, 0.5))
    100.0
    """
    return per(total_cost * time, lifetime)


def rental(gpus: Array, rate: Array, time: Array) -> Array:
    """The same run on rented GPUs, n · p · t [USD].

    Args:
        gpus: how many [1].
        rate: rent of one [USD/s].
        time: how long [s].

    >>> float(rental(8, 3.0 / 3600, 7200))
    48.0
    """
    return gpus * rate * time


def annuity(capital: Array, residual: Array, years: Array, interest: Array) -> Array:
    """What a purchase costs a year, with interest and what is left of it at the end [USD/year].

    A = C (1 - R q) i / (1 - q) with q = (1 + i)^-n; without interest C (1 - R) / n.

    Args:
        capital: what is paid, C [USD].
        residual: worth at the end, as a share of it, R [1].
        years: how long it is kept, n [1].
        interest: of a year, i [1].

    Source: the annuity of corporate finance; Brealey, Myers, Allen, "Principles of corporate finance", chapter 2.

    An H100 with its share of server and network for $40,800 over three years at 11 %, worth a quarter then:

    >>> round(float(annuity(40_800.0, 0.25, 3, 0.11)), -1), float(annuity(1000.0, 0.25, 3, 0.0))
    (13640.0, 250.0)
    """
    discount = (1 + interest) ** -years
    paying = interest > 0
    rate = where(paying, interest / where(paying, 1 - discount, 1.0), 1 / years)
    return capital * (1 - residual * discount) * rate


def residual_share(after_three_years: Array, years: Array) -> Array:
    """What hardware is worth after some years, as a share of its price: it loses the same share each year, r^(n/3) [1].

    Args:
        after_three_years: worth after three years, r [1].
        years: n [1].

    >>> float(residual_share(0.125, 3)), float(residual_share(0.125, 2))
    (0.125, 0.25)
    """
    return after_three_years ** (years / 3)


def useful_time(per_year: Array, utilisation: Array, hours: Array) -> Array:
    """What an hour in use costs of what is paid for all the year, A / (u T) [USD/h].

    Args:
        per_year: what a year costs, A [USD/year].
        utilisation: share of the time in use, u [1].
        hours: of a year, T [1].

    >>> float(useful_time(8766.0, 0.5, 8766.0))
    2.0
    """
    return per(per_year, utilisation * hours)


def break_even(per_year: Array, price: Array, hours: Array) -> Array:
    """Share of the time in use from which owning is cheaper than a price by the hour, A / (p T) [1].

    Args:
        per_year: what a year of owning costs, A [USD/year].
        price: of an hour, p [USD/h].
        hours: of a year, T [1].

    $2.19 an hour at full use against $3.20:

    >>> round(float(break_even(19_190.0, 3.20, 8766.0)), 2)
    0.68
    """
    return per(per_year, price * hours)


def slack_in_time(rate: Array, other_rate: Array) -> Array:
    """How much longer a run may take on one cluster until it costs as much as on the other, c'/c - 1 [1].

    Args:
        rate: what this cluster costs while it runs, c [USD/s].
        other_rate: what the other one does, c' [USD/s].

    $100 a second against $105: 5 % longer costs the same.

    >>> round(float(slack_in_time(100.0, 105.0)), 3)
    0.05
    """
    return per(other_rate, rate) - 1


def slack_in_price(cost: Array, other_cost: Array, part: Array) -> Array:
    """By which share a part of a run's cost may rise until the run costs as much as the other, (C' - C)/P [1].

    Args:
        cost: of the run, C [USD].
        other_cost: of the other run, C' [USD].
        part: what of the cost the part makes, P [USD].

    A network for $2 M of $20 M, against $21 M: half as much again. Negative where it must cost less.

    >>> float(slack_in_price(20e6, 21e6, 2e6)), float(slack_in_price(21e6, 20e6, 2e6))
    (0.5, -0.5)
    """
    return per(other_cost - cost, part)


def racks(items: Array, per_rack: Array, power: Array, power_per_rack: Array) -> Array:
    """Racks for equal items, by what fits in height and by what a rack may draw, the larger of the two [1].

    Args:
        items: nodes, or rack units of switches [1].
        per_rack: how many fit in height [1].
        power: of all of them [W].
        power_per_rack: what the site gives one rack; 0 means no limit [W].

    Source: RA-11333 table 7: 127 nodes at 4 a rack stand in 32 racks.

    >>> int(racks(127, 4, 127 * 10.2e3, 45e3)), int(racks(127, 4, 127 * 10.2e3, 25e3))
    (32, 64)
    """
    each = per(power, items)
    fits = (power_per_rack > 0) & (each > 0)
    allowed = where(fits, _whole(power_per_rack / where(each > 0, each, 1.0) + 1e-9), np.inf)
    fit = minimum(per_rack, maximum(allowed, 1.0))
    return where(items > 0, -_whole(-(items / where(fit > 0, fit, 1.0) - 1e-9)), 0.0)


def _whole(value: Array) -> Array:
    """The largest whole number not above another."""
    return np.floor(value) if isinstance(value, np.ndarray) else floor(value)


def cable_length(rack_distance: Array, pitch: Array, drop: Array, slack: Array, overhead: Array = 0.0) -> Array:
    """Length of a cable between two racks of a row: down or up in both, along the row, and some slack [m].

    (2 · drop + pitch · racks between + overhead) · (1 + slack); within one rack the drop alone.

    Args:
        rack_distance: racks from one end to the other, 0 within a rack [1].
        pitch: from one rack to the next [m].
        drop: from a port to the tray [m].
        slack: share added for dressing [1].
        overhead: across aisles, where rows differ [m].

    >>> float(cable_length(10, 0.6, 2.0, 0.15)), float(cable_length(0, 0.6, 2.0, 0.0))
    (11.5, 2.0)
    """
    straight = where(rack_distance > 0, 2 * drop + pitch * rack_distance + overhead, drop)
    return straight * (1 + slack)


def length_class(length: Array, classes: Sequence[float]) -> Array:
    """The shortest length sold that reaches; ``nan`` beyond the longest [m].

    >>> [float(x) for x in length_class(np.array([0.4, 11.5, 99.0]), [1, 2, 3, 5, 10, 15, 20, 30, 50])]
    [1.0, 15.0, nan]
    """
    sold = sorted(classes)
    if not isinstance(length, np.ndarray):
        place = bisect_left(sold, length - 1e-9)
        return sold[place] if place < len(sold) else np.nan
    return np.array([*sold, np.nan])[np.searchsorted(sold, length - 1e-9)]
