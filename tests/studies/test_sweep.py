"""A grid of scenarios, row by row."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies.sweep import Grid, columns, sweep


def test_a_grid_has_the_product_of_its_values_and_the_last_field_varies_fastest() -> None:
    grid = Grid(base={"model": "llama-3-8b"}, grid={"gpus": [64, 128], "scale_out": ["infiniband-ndr", "roce-400"]})
    rows = list(sweep(grid, load_catalog()))
    assert grid.points() == 4
    assert [(row["gpus"], row["scale_out"]) for row in rows] == [
        (64, "infiniband-ndr"),
        (64, "roce-400"),
        (128, "infiniband-ndr"),
        (128, "roce-400"),
    ]
    assert all(list(row) == columns(["gpus", "scale_out"]) for row in rows)


def test_a_row_is_the_typical_plan_of_its_scenario() -> None:
    row = next(sweep(Grid(base={"model": "llama-3-8b"}, grid={"gpus": [256]}), load_catalog()))
    plan = evaluate(Scenario(model="llama-3-8b", gpus=256), load_catalog())
    assert plan.training.step_time is not None
    assert row["training.step_time"] == pytest.approx(plan.training.step_time.typical)
    assert row["error"] == ""


def test_what_cannot_be_answered_is_a_row_with_the_reason() -> None:
    rows = list(sweep(Grid(base={}, grid={"gpus": [8, -1]}), load_catalog()))
    assert rows[0]["training.step_time"] is None
    assert rows[0]["error"]
    assert "greater than" in rows[1]["error"]


def test_rows_come_one_by_one() -> None:
    many = Grid(base={}, grid={"gpus": list(range(1, 100_001)), "global_batch": list(range(1, 100_001))})
    assert many.points() == 10**10
    assert next(sweep(many, load_catalog()))["gpus"] == 1
