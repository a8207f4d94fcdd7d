"""Records of the formulas say what each of their fields means, with its unit, in an ``Attributes:`` block."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FORMULAS = Path(__file__).parents[2] / "app" / "formulas"
DOCUMENTED = ("collectives", "fabric", "serving", "training", "transformer")
"""Folders and modules of the formulas whose records are held to it."""


def records(place: str) -> Iterator[tuple[Path, ast.ClassDef]]:
    """Named tuples and dataclasses of a module or of a folder of modules."""
    folder = FORMULAS / place
    for path in sorted(folder.glob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(isinstance(line, ast.AnnAssign) for line in node.body):
                yield path, node


RECORDS = [(path, node) for place in DOCUMENTED for path, node in records(place)]


def attributes(node: ast.ClassDef) -> dict[str, str]:
    """What a record's docstring says of each field."""
    block = (ast.get_docstring(node) or "").partition("Attributes:\n")[2]
    said: dict[str, str] = {}
    for line in re.split(r"\n(?= {4}\S)", block):
        names, _, meaning = line.strip().partition(": ")
        said |= {name.strip(): " ".join(meaning.split()) for name in names.split(",")}
    return said


@pytest.mark.parametrize(("path", "node"), RECORDS, ids=[f"{path.stem}.{node.name}" for path, node in RECORDS])
def test_a_record_says_what_each_field_means_and_in_which_unit(path: Path, node: ast.ClassDef):
    others = {record.name for _, record in RECORDS}
    fields = {line.target.id: ast.unparse(line.annotation) for line in node.body if isinstance(line, ast.AnnAssign)}
    said = attributes(node)
    assert list(said) == list(fields)
    for name, meaning in said.items():
        assert meaning, name
        kind = fields[name].removesuffix(" | None")
        named = kind == "str" or kind in others or kind.startswith("Callable")
        if not named and not meaning.startswith("whether "):
            assert re.search(r"\[[^\]]+\]\.$", meaning), f"{name} has no unit"
    lines = path.read_text().splitlines()
    remarks = [lines[line.lineno - 1] for line in node.body if isinstance(line, ast.AnnAssign)]
    assert not [line for line in remarks if "  #" in line]


def test_the_records_of_every_documented_place_are_found():
    assert {path.stem for path, _ in RECORDS} >= {
        "layouts",
        "tree",
        "direct",
        "cabling",
        "arguments",
        "ideal",
        "library",
        "step",
        "transformer",
    }
