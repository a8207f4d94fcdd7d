"""Railyard without its pages: what a script imports."""

import subprocess
import sys

from tests.conftest import ROOT

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
