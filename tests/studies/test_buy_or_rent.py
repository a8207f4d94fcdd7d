"""Buying against leasing and renting."""

import numpy as np
import pytest

from app import units
from app.catalog.load import load_catalog
from app.formulas import costs
from app.plan.band import fold
from app.plan.declarations import declared
from app.plan.evaluate import evaluate
from app.plan.network import network_of
from app.plan.result import Costs
from app.plan.scenario import Scenario
from app.plan.total_cost import ownership
from app.report.charts import curve_charts, svg
from app.studies.buy_or_rent import BuyOrRent, Terms, Way, against_use, buy_or_rent
from app.studies.network_costs import CostQuestion
from tests.bands import typical

CATALOG = load_catalog()


def compared(terms: Terms | None = None, **asked: object) -> BuyOrRent:
    network = network_of(Scenario.model_validate(asked), CATALOG)
    found: BuyOrRent = fold(buy_or_rent(ownership(network, network.prices), terms or Terms(), CATALOG))
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


def test_nothing_is_cheapest_where_nothing_has_a_price() -> None:
    """Nobody publishes what MI300A cost to buy, to lease or to rent."""
    network = network_of(Scenario(gpu="mi300a"), CATALOG)
    answer = buy_or_rent(ownership(network, network.prices), Terms(), CATALOG)
    assert answer.cheapest == ""
    assert "cheapest" not in against_use(answer).title
    assert compared(gpu="mi300a", price_gpu_hour=0.001).cheapest == "on-demand"


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
    found = buy_or_rent(ownership(network, network.prices), Terms(), CATALOG)
    curve = against_use(found)
    hall = next(series for series in curve.series if series.name == "Own hall")
    assert np.interp(0.8, hall.x, hall.typical) == pytest.approx(found.ways[0].per_gpu_hour.typical, rel=0.01)
    assert all(
        (series.low <= series.typical).all() and (series.typical <= series.high).all() for series in curve.series
    )


# The ways, figure by figure

HOURS = 8766  # of a year


def annuity(capital: float, left: float, years: float, interest: float) -> float:
    """The yearly payment whose present value, with that of what is left, is the capital."""
    worth = sum((1 + interest) ** -year for year in range(1, round(years) + 1))
    return (capital - left * capital * (1 + interest) ** -years) / worth


@pytest.mark.parametrize("asked", [{}, {"gpu": "b200-sxm", "gpus": 256, "scale_out": "roce-400"}], ids=str)
def test_a_year_of_owning_is_capital_energy_support_staff_and_a_place(asked: dict[str, object]) -> None:
    terms = Terms(term=3 * 31_557_600, interest=0.1, residual=0.2, utilisation=0.5)
    found, plan = compared(terms, **asked), evaluate(Scenario.model_validate(asked), CATALOG)
    gpus, site = plan.cluster.gpus, CATALOG.operations["site"]
    parts = {line.name: typical(line.cost) / gpus for line in plan.costs.capital_parts}
    equipment = parts["nodes"] + parts["fabric"]
    paid = annuity(equipment, 0.2, 3, 0.1)
    energy = typical(plan.costs.energy) / gpus
    support = site["support"].typical * equipment
    table = CATALOG.operations["ownership"]
    staff = table["staff"].typical / 1000 * table["post"].typical * 31_557_600
    assert typical(found.staff) == pytest.approx(staff)
    own, hosted = found.ways[:2]
    life = table["building_life"].typical / 31_557_600
    assert typical(own.capital) == pytest.approx(equipment + parts["infrastructure"])
    hall = annuity(parts["infrastructure"], 0.0, life, 0.1)
    assert typical(own.per_year) == pytest.approx(paid + energy + support + staff + hall, rel=2e-3)
    assert typical(hosted.capital) == pytest.approx(equipment)
    rent = typical(plan.cluster.power) / gpus * table["colocation"].typical * 31_557_600
    assert typical(hosted.per_year) == pytest.approx(paid + energy + support + staff + rent, rel=2e-3)
    for way in (own, hosted):
        assert typical(way.per_gpu_hour) == pytest.approx(typical(way.per_year) / HOURS / 0.5)


def test_rent_is_a_years_hours_whatever_the_use_and_on_demand_only_those_in_use() -> None:
    found = compared(Terms(utilisation=0.5))
    cheaper = min(typical(way.per_year) for way in found.ways[:2])
    rented = found.ways[2:]
    assert len(rented) >= 3
    for way in rented:
        price = typical(way.per_year) / HOURS
        assert typical(way.capital) == 0
        assert typical(way.per_gpu_hour) == pytest.approx(price / (1 if way.way == "on-demand" else 0.5))
        if way.way == "on-demand":
            assert typical(way.break_even) == pytest.approx(cheaper / (price * HOURS))
        else:  # paid in use or not, as owning is: no use makes one the cheaper
            assert way.break_even is None


@pytest.mark.parametrize(("years", "contracts"), [(0.25, 0), (1, 1), (2, 1), (4, 2)])
def test_no_contract_is_longer_than_the_gpus_are_kept(years: float, contracts: int) -> None:
    found = compared(Terms(term=years * HOURS * 3600))
    assert sum(way.way.startswith("reserved") for way in found.ways) == contracts


def test_terms_left_blank_are_the_catalogues() -> None:
    table, found = CATALOG.operations["ownership"], compared()
    assert typical(found.utilisation) == table["utilisation"].typical
    assert typical(found.interest) == table["interest"].typical
    assert typical(found.term) == CATALOG.operations["site"]["lifetime"].typical
    # So much is left after three years; the same share of the rest is lost each year.
    years = typical(found.term) / 31_557_600
    assert typical(found.residual) == pytest.approx(table["residual_after_3_years"].typical ** (years / 3), rel=0.02)
    given = compared(Terms(term=2 * 31_557_600, residual=0.0, interest=0.0, staff=0.0, colocation=0.0))
    assert (typical(given.residual), typical(given.interest), typical(given.staff)) == (0, 0, 0)
    equipment = typical(given.ways[1].capital)
    support = CATALOG.operations["site"]["support"].typical * equipment
    energy = typical(evaluate(Scenario(), CATALOG).costs.energy) / 1024
    assert typical(given.ways[1].per_year) == pytest.approx(equipment / 2 + support + energy, rel=1e-3)


def test_the_curve_falls_with_the_use_but_for_what_is_paid_by_the_hour() -> None:
    network = network_of(Scenario(), CATALOG)
    found = buy_or_rent(ownership(network, network.prices), Terms(utilisation=0.4), CATALOG)
    curve = against_use(found)
    assert curve.title.startswith("At 40\u202f% use the cheapest GPU-hour is: ")
    names = {way.way: way for way in found.ways}
    for series, way in zip(curve.series, found.ways, strict=True):
        hour = way.per_year.typical / HOURS
        expected = np.full_like(series.x, hour) if way is names["on-demand"] else hour / series.x
        assert series.typical == pytest.approx(expected)
        assert series.strong == (way.way == found.cheapest)
        band = fold(way).per_year  # the curve's range is that of the way's own cost, each to six digits
        assert series.low == pytest.approx(expected * (band.low / band.typical), rel=1e-5)
        assert series.high == pytest.approx(expected * (band.high / band.typical), rel=1e-5)


def test_the_chart_against_use_ends_at_all_of_the_time_and_tells_every_way_by_its_dashes() -> None:
    network = network_of(Scenario(), CATALOG)
    curve = against_use(buy_or_rent(ownership(network, network.prices), Terms(), CATALOG))
    drawn = curve_charts.buy_or_rent(curve)
    assert drawn.layout["xaxis"]["range"][1] == 1
    assert drawn.layout["xaxis"]["ticktext"][-1] == "100\u202f%"
    looks = [
        tuple(trace["line"][name] for name in ("color", "dash")) for trace in drawn.data if "dash" in trace["line"]
    ]
    assert len(set(looks)) == len(looks) == len(curve.series)
    picture = svg.inline(drawn, "use")
    for way in curve.series:
        assert picture.count(f">{way.name}</text>") == 1


def test_a_plan_pays_the_building_off_with_its_gpus_and_a_hall_of_ones_own_over_the_life_of_buildings() -> None:
    """Each says so: the one is the money of a lifetime, the other a year of owning. $0.34 and $0.22 of an hour."""
    assert "the building is paid off with the GPUs" in declared(Costs)["per_gpu_hour"].meaning
    assert "a hall of one's own over the life of buildings" in declared(Way)["per_year"].meaning
    plan, table = evaluate(Scenario(), CATALOG).costs, CATALOG.operations["ownership"]
    building = next(part.cost.typical for part in plan.capital_parts if part.name == "infrastructure") / 1024
    ways = {way.way: way for way in compared().ways}
    assert ways["own-hall"].capital.typical - ways["colocation"].capital.typical == pytest.approx(building)
    hours, years = 8766 * 5, table["building_life"].typical / units.parse("1 year", "s")
    of_a_year = float(costs.annuity(building, 0.0, years, table["interest"].typical))
    assert (building / hours, of_a_year / 8766) == pytest.approx((0.34, 0.22), abs=0.01)
    rest = (plan.total.typical - 1024 * building) / 1024 / hours
    assert plan.per_gpu_hour.typical - rest == pytest.approx(building / hours)
