"""Electricity by region: its price and its carbon."""

import pytest

from app import units
from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def plan(**fields):
    return evaluate(Scenario.model_validate(fields, context={"catalog": CATALOG}), CATALOG, ())


def test_a_year_emits_what_its_energy_does():
    """Typical power times PUE for 8,766 hours at 369 g/kWh; Sweden's mix emits a ninth of it."""
    home = plan()
    power = home.cluster.typical_power.typical * 1.25
    assert home.costs.carbon.typical == pytest.approx(power / 1000 * 8766 * 0.369, rel=1e-6)
    share = home.training.time_to_train.typical / units.parse("1 year", "s")
    assert home.costs.carbon_per_run.typical == pytest.approx(home.costs.carbon.typical * share)
    assert plan(region="sweden").costs.carbon.typical == pytest.approx(home.costs.carbon.typical * 41 / 369)


def test_a_region_has_its_own_price_of_electricity_unless_one_is_typed():
    """Germany pays 25.2 cents where the United States pay 8.62."""
    home, german = plan(), plan(region="germany")
    assert german.costs.energy.typical / home.costs.energy.typical == pytest.approx(0.252 / 0.0862)
    assert german.costs.capital == home.costs.capital
    typed = plan(region="germany", electricity="0.0862 USD/kWh")
    assert typed.costs.energy.typical == pytest.approx(home.costs.energy.typical)
    assert typed.costs.carbon == german.costs.carbon


def test_a_region_without_a_price_has_the_edition_s_and_a_note():
    iceland = plan(region="iceland")
    assert iceland.costs.energy == plan().costs.energy
    assert "no-regional-price" in {finding.code for finding in iceland.findings}
    for asked in ({"region": "germany"}, {"region": "iceland", "electricity": "0.05 USD/kWh"}, {}):
        assert "no-regional-price" not in {finding.code for finding in plan(**asked).findings}


def test_an_unknown_region_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match="germany"):
        Scenario.model_validate({"region": "germny"}, context={"catalog": CATALOG})


@pytest.mark.parametrize("region", CATALOG.regions)
def test_every_region_is_a_plan(region: str):
    costs = plan(region=region, gpus=64).costs
    assert 20e-3 < costs.carbon.typical / costs.carbon.low < 2
    assert costs.carbon.low < costs.carbon.typical < costs.carbon.high


@pytest.mark.parametrize(
    ("text", "unit", "value"), [("369 g/kWh", "kg/J", 0.369 / 3.6e6), ("12 kt", "kg", 12e6), ("5 kg", "kg", 5)]
)
def test_carbon_is_read_and_shown_in_its_units(text: str, unit: str, value: float):
    assert units.parse(text, unit) == pytest.approx(value)
    assert units.show(value, unit).replace(units.THIN, " ") == text
