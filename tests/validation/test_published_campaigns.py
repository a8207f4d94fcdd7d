"""A plan beside its published campaign."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.validation.published_campaigns import PublishedCampaign, published_campaign

CATALOG = load_catalog()


def beside(preset: str, **changes: object) -> PublishedCampaign | None:
    asked = {**CATALOG.presets[preset].scenario, **changes}
    scenario = Scenario.model_validate(asked, context={"catalog": CATALOG})
    return published_campaign(scenario, evaluate(scenario, CATALOG), CATALOG)


def test_the_difference_is_the_steps_times_the_campaigns():
    # Llama 3 405B: 41 % of peak printed, and 30.84 M GPU hours of all phases.
    found = beside("llama-3-405b-run")
    assert found is not None
    assert found.published_campaign == 30.84e6
    assert found.campaign is not None
    assert found.step_ratio * found.campaign_ratio == pytest.approx(found.campaign / 30.84e6)
    assert found.published_steps == pytest.approx(26.4e6, rel=0.05)  # 6 · 405 G · 15.6 T over 0.41 of 989 TFLOP/s
    assert 0.8 < found.step_ratio < 1.1
    assert 0.9 < found.campaign_ratio < 1.15


def test_a_run_without_published_hours_has_its_step_alone():
    found = beside("megascale")
    assert found is not None
    assert found.campaign_ratio is None
    assert found.step_ratio > 0


def test_another_run_has_no_published_one_and_prices_make_no_other():
    assert beside("llama-3-405b-run", gpus=8192) is None
    assert beside("superpod-h100") is None
    dearer = beside("megascale", electricity="0.2 USD/kWh")
    assert dearer is not None
    assert dearer == beside("megascale")
