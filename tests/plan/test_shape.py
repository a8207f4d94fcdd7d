"""The shape of a model of which the size alone is known."""

import pytest

from app.catalog.load import load_catalog
from app.formulas import transformer
from app.plan.evaluate import evaluate
from app.plan.job.shape import shape_by_rule, shape_of
from app.plan.result import Plan
from app.plan.scenario import Scenario

CATALOG = load_catalog()
TYPICAL = CATALOG.typical_only()


def plan_of(**asked: object) -> Plan:
    return evaluate(Scenario.model_validate(asked, context={"catalog": TYPICAL}), TYPICAL)


@pytest.mark.parametrize("size", [5e8, 1e9, 3e9, 8e9, 30e9, 70e9, 100e9, 175e9, 1e12, 1e14])
def test_a_shape_by_rule_has_its_size(size: float) -> None:
    shape = shape_by_rule(size, CATALOG)
    assert float(transformer.parameters(shape)) == pytest.approx(size, rel=0.01)
    assert shape.hidden == 128 * shape.layers  # the width over the layers of GPT-3, 12,288 over 96
    assert shape.heads % shape.kv_heads == 0
    assert 2 <= shape.ffn_hidden / shape.hidden <= 4.5  # Llama 3 has 3.25 to 3.5


@pytest.mark.parametrize("key", ["llama-3-8b", "llama-3-70b", "llama-3-405b"])
def test_a_shape_by_rule_takes_about_as_long_as_a_real_one_of_its_size(key: str) -> None:
    real = shape_of(CATALOG.models[key])
    by_rule = shape_by_rule(float(transformer.parameters(real)), CATALOG)
    work = [float(transformer.training_flops(one, 8192, 1.0)) for one in (real, by_rule)]
    assert work[1] == pytest.approx(work[0], rel=0.05)


def test_a_size_is_a_plan_that_says_what_stands_in() -> None:
    plan = plan_of(model="100B")
    assert plan.training.parameters == pytest.approx(100e9, rel=0.01)
    (said,) = (finding for finding in plan.findings if finding.code == "shape-by-rule")
    assert "80 layers of width 10,240" in said.message
    assert "train a model of 100\u202fB parameters on" in plan.verdict
    assert plan.scenario["layers"] == 80
    assert plan.scenario["parameters"] == 100e9


def test_fields_beside_a_size_change_the_shape_and_are_told_where_the_size_is_missed() -> None:
    plan = plan_of(model="100B", layers=40)
    assert plan.scenario["layers"] == 40
    assert plan.scenario["hidden"] == 10240
    (other_size,) = (finding for finding in plan.findings if finding.severity == "warning")
    assert other_size.code == "other-size"
    assert other_size.fields == ("parameters", "layers")  # and not the fields of the shape that are blank


def test_a_plan_by_size_asked_again_is_the_same() -> None:
    plan = plan_of(model="100B", gpus=256)
    again = plan_of(**{name: value for name, value in plan.scenario.items() if value is not None})
    assert again.training.step_time == plan.training.step_time
    assert not [finding for finding in again.findings if finding.code in ("shape-by-rule", "other-size")]
