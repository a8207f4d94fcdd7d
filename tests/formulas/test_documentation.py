"""What every formula and every record of the training step says of itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app.formulas

FORMULAS = Path(app.formulas.__file__).parent
STEP = [*sorted(FORMULAS.glob("training/*.py")), FORMULAS / "transformer.py", FORMULAS / "costs.py"]
SEARCH = FORMULAS / "training" / "parallelism_search.py"
UNIT = re.compile(r"\[[^\]]+\]")


def records() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every record: its name, and its definition."""
    for path in STEP:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and node.decorator_list:
                yield f"{path.stem}.{node.name}", node


def functions() -> Iterator[tuple[str, str, str]]:
    """Every public formula: its name, its docstring, and that of its module."""
    for path in STEP:
        module = ast.parse(path.read_text())
        for node in module.body:
            if path != SEARCH and isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.stem}.{node.name}", ast.get_docstring(node) or "", ast.get_docstring(module) or ""


def described(record: ast.ClassDef) -> set[str]:
    """The names that the ``Attributes:`` block of a record's docstring explains."""
    block = (ast.get_docstring(record) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    starts = (line.partition(":") for line in block.splitlines() if line[:4].isspace() and not line[4:5].isspace())
    return {name.strip() for names, colon, _ in starts if colon for name in names.split(",")}


@pytest.mark.parametrize(("name", "record"), list(records()), ids=[name for name, _ in records()])
def test_a_record_says_what_each_of_its_fields_is(name: str, record: ast.ClassDef):
    fields = {node.target.id for node in record.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    assert fields
    assert described(record) == fields, name


@pytest.mark.parametrize(("name", "text", "module"), list(functions()), ids=[name for name, *_ in functions()])
def test_a_formula_has_units_a_source_and_an_example(name: str, text: str, module: str):
    assert ">>>" in text, f"{name} has no example"
    assert UNIT.search(text.partition(">>>")[0]), f"{name} has no unit"
    assert "Source" in text + module, f"{name} has no source"
