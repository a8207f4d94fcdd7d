"""Buying against leasing and renting."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.formulas import costs
from app.plan.band import fold
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.total_cost import ownership
from app.studies.buy_or_rent import BuyOrRent, Terms, against_use, buy_or_rent
from app.studies.network_costs import CostQuestion

CATALOG = load_catalog()


def compared(terms: Terms | None = None, **asked: object) -> BuyOrRent:
    network = network_of(Scenario.model_validate(asked), CATALOG)
    found: BuyOrRent = fold(buy_or_rent(ownership(network.cluster, network, network.prices), terms or Terms(), CATALOG))
    return found


def test_three_years_of_an_h100_cost_two_dollars_an_hour() -> None:
    """$40,800 at 11 %, a quarter left: $13,640 a year. 1.4 kW at $180 a month $3,024, support 4 % $1,632, staff $880:
    $5,536. Together $2.19 for each of 8,766 hours, which is 0.81 of $2.72, 0.68 of $3.20 and 0.32 of $6.88."""
    annuity = float(costs.annuity(40_800, 0.25, 3, 0.11))
    year = annuity + 12 * 1.4 * 180 + 0.04 * 40_800 + 880
    assert annuity == pytest.approx(13_650, rel=0.002)
    assert float(costs.useful_time(year, 1.0, 8766)) == pytest.approx(2.19, abs=0.005)
    shares = [float(costs.break_even(year, price, 8766)) for price in (2.72, 3.20, 6.88)]
    assert shares == pytest.approx([0.81, 0.68, 0.32], abs=0.01)


def test_five_years_cost_less_an_hour_than_three() -> None:
    """The same with 8 % left after five years: $1.83."""
    year = float(costs.annuity(40_800, 0.08, 5, 0.11)) + 5_536
    assert float(costs.useful_time(year, 1.0, 8766)) == pytest.approx(1.83, abs=0.01)


def test_interest_and_what_is_left_move_the_annuity_as_they_should() -> None:
    rates, shares = np.linspace(0, 0.3, 7), np.linspace(0, 1, 5)
    grid = costs.annuity(1000.0, shares[:, None], 4.0, rates)
    assert (np.diff(grid, axis=1) > 0).all()
    assert (np.diff(grid, axis=0) < 0).all()
    assert grid[-1] == pytest.approx(1000 * rates)  # what keeps its worth costs the interest alone


def test_each_way_has_an_hour_and_renting_says_from_which_use_owning_pays() -> None:
    found = compared()
    ways = {way.way: way for way in found.ways}
    assert list(ways) == ["own-hall", "colocation", "lease", "reserved-3-years", "reserved-1-year", "on-demand"]
    owned, rented = ways["own-hall"], ways["on-demand"]
    assert owned.per_year is not None
    assert owned.per_gpu_hour is not None
    assert rented.per_gpu_hour is not None
    assert rented.break_even is not None
    assert owned.per_gpu_hour.typical == pytest.approx(owned.per_year.typical / 8766 / 0.8)
    assert rented.per_gpu_hour.typical == pytest.approx(4.20)
    cheaper = min(way.per_year.typical for way in (owned, ways["colocation"]) if way.per_year)
    assert rented.break_even.typical == pytest.approx(cheaper / (4.20 * 8766))
    assert owned.break_even is None
    assert found.cheapest == "own-hall"


def test_a_gpu_in_use_one_hour_in_five_is_better_rented() -> None:
    assert compared(Terms(utilisation=0.2)).cheapest == "on-demand"


def test_what_nobody_prints_is_left_out() -> None:
    """No lease of a B300 is published, and no three years; a lease that is typed counts."""
    assert "lease" not in {way.way for way in compared(gpu="b300-sxm").ways}
    leased = compared(Terms(lease=4000 * 12 / 31_557_600), gpu="b300-sxm")
    (way,) = (way for way in leased.ways if way.way == "lease")
    assert way.per_year is not None
    assert way.per_year.typical == pytest.approx(48_000)


def test_the_question_reads_prices_of_power_and_months() -> None:
    question = CostQuestion.model_validate(
        {"colocation": "180 USD/kW-month", "lease": "2,500 USD/month", "term": "3 years", "utilisation": "70 %"}
    )
    terms = question.terms()
    assert terms.colocation is not None
    assert terms.lease is not None
    assert terms.colocation * 1000 * 31_557_600 / 12 == pytest.approx(180)
    assert terms.lease * 31_557_600 / 12 == pytest.approx(2500)
    assert (terms.term, terms.utilisation) == (3 * 31_557_600, pytest.approx(0.7))


def test_the_curve_against_use_passes_through_the_answer() -> None:
    network = network_of(Scenario(), CATALOG)
    found = buy_or_rent(ownership(network.cluster, network, network.prices), Terms(), CATALOG)
    curve = against_use(found)
    hall = next(series for series in curve.series if series.name == "Own hall")
    assert np.interp(80, hall.x, hall.typical) == pytest.approx(found.ways[0].per_gpu_hour.typical, rel=0.01)
    assert all(
        (series.low <= series.typical).all() and (series.typical <= series.high).all() for series in curve.series
    )
