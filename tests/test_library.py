"""Railyard without its pages: what a script imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app import Grid, Scenario, evaluate, load_catalog, sweep
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")

WITHOUT_THE_WEB = """
import sys

sys.modules |= dict.fromkeys(("fastapi", "starlette", "jinja2", "uvicorn"))
import app

plan = app.evaluate(app.Scenario(gpus=512), app.load_catalog())
print(plan.cluster.nodes, plan.model_version == app.__version__, isinstance(plan, app.Plan))
"""


def test_a_plan_is_evaluated_where_no_web_framework_can_be_imported() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_WEB]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.stdout.split() == ["64", "True", "True"], found.stderr


def test_the_readmes_lines_of_python_work(capsys: pytest.CaptureFixture[str]) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert lines.count("\n") <= 7
    names: dict[str, object] = {}
    exec(lines, names)
    assert "512" in capsys.readouterr().out
    (asked,) = re.findall(r"`(Scenario\.model_validate\(.*?\))`", README)
    assert eval(asked, names) == Scenario(message=2**30)


def test_the_readmes_overrides_work(tmp_path: Path) -> None:
    """The rent that it gives is the rent that a plan pays, and the source that it gives is the one that is cited."""
    (lines,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    for name, text in re.findall(r"# /etc/railyard/(\w+\.toml)\n(.*?)(?=\n# |\Z)", lines, re.DOTALL):
        (tmp_path / name).write_text(text)
    assert {path.name for path in tmp_path.iterdir()} == {"sources.toml", "prices.toml"}
    asked = Scenario(gpus=512)
    before, after = (evaluate(asked, catalog) for catalog in (load_catalog(), load_catalog(tmp_path)))
    assert before.costs.rental is not None
    assert after.costs.rental is not None
    assert after.training.time_to_train is not None
    hours = after.training.time_to_train.typical / 3600
    assert after.costs.rental.typical == pytest.approx(2.10 * 512 * hours)
    assert before.costs.rental.typical > 1.1 * after.costs.rental.typical
    assert "our-contract" in after.costs.rental.sources


def test_the_readmes_sweep_makes_a_table() -> None:
    (asked,) = re.findall(r"DataFrame\((sweep\(.*?\), catalog\))\)`", README)
    rows = list(eval(asked, {"sweep": sweep, "Grid": Grid, "catalog": load_catalog()}))
    assert [(row["gpus"], row["price_node"]) for row in rows] == [(512, 2e5), (512, 3e5), (1024, 2e5), (1024, 3e5)]
    assert all(row["costs.capital"] > 0 for row in rows)


def test_rows_of_a_sweep_are_read_one_after_another() -> None:
    rows = sweep(Grid(grid={"gpus": [512, 1024]}), load_catalog())
    assert next(rows)["gpus"] == 512
    assert [row["gpus"] for row in rows] == [1024]


@pytest.mark.parametrize("grid", [{"base": {"gpuss": 8}, "grid": {"gpus": [8]}}, {"grid": {"gpuss": [8]}}])
def test_a_sweep_over_a_field_that_no_scenario_has_is_refused_with_the_nearest(grid: dict) -> None:
    with pytest.raises(ValueError, match=r"no field “gpuss”\. Did you mean gpus"):
        sweep(Grid(**grid), load_catalog())


@pytest.mark.parametrize("results", [["training.step_time"], ["recommendation.scale_out"]])
def test_a_row_that_cannot_be_understood_names_the_field(results: list[str]) -> None:
    asked = Grid(base={"availability": 95}, grid={"gpus": [0, 8], "gpu": ["h100-sxm", "h101"]}, results=results)
    errors = [row["error"] for row in sweep(asked, load_catalog())]
    assert [error.partition(":")[0] for error in errors] == ["gpus", "gpu", "availability", "gpu"]
