"""What every formula of the model, the training step, serving and the costs says of itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app.formulas

FORMULAS = Path(app.formulas.__file__).parent
STEP = [*sorted(FORMULAS.glob("[st]*ing/*.py")), FORMULAS / "transformer.py", FORMULAS / "costs.py"]
SEARCH = {"parallelism_search", "search_choice", "search_shortlist"}
"""Modules that choose between what formulas give."""
UNIT = re.compile(r"\[[^\]]+\]")


def functions() -> Iterator[tuple[str, str, str]]:
    """Every public formula: its name, its docstring, and that of its module."""
    for path in STEP:
        module = ast.parse(path.read_text())
        for node in module.body:
            if path.stem not in SEARCH and isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.stem}.{node.name}", ast.get_docstring(node) or "", ast.get_docstring(module) or ""


@pytest.mark.parametrize(("name", "text", "module"), list(functions()), ids=[name for name, *_ in functions()])
def test_a_formula_has_units_a_source_and_an_example(name: str, text: str, module: str):
    assert ">>>" in text, f"{name} has no example"
    assert UNIT.search(text.partition(">>>")[0]), f"{name} has no unit"
    assert "Source" in text + module, f"{name} has no source"
