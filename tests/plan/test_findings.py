"""Findings: what the code can say, read from the places where it says it."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "app"
SEVERITIES = ("error", "warning", "note")


def said() -> dict[str, set[tuple[str, str]]]:
    """The severities of each code, with the module that says it."""
    codes: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                severity, code = (ast.literal_eval(argument) for argument in node.args[:2])
                codes[code].add((severity, path.stem))
    return codes


CODES = said()


def test_every_code_that_plans_show_is_found():
    assert {"partial-node", "does-not-fit", "taper-too-wide", "unusual-value", "no-node-price"} <= set(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_a_code_is_said_in_one_module_and_with_one_severity(code: str):
    ((severity, _),) = CODES[code]
    assert severity in SEVERITIES
    assert code == code.lower().replace("_", "-").replace(" ", "-")
