"""A GPU is added by an entry, its source and a changelog line: nothing else has to know of it."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests import answers
from tests.added_gpu import GPU, SOURCE
from tests.conftest import ROOT

HELD = (
    "tests/catalog/test_catalog.py",
    "tests/plan/test_scenario.py",
    "tests/web/test_api.py::test_the_committed_document_is_current",
    "tests/web/test_form.py",
    "tests/web/test_overrides.py::test_the_document_names_no_entry_of_the_catalogue_so_that_entries_may_come",
)
"""The tests that hold the catalogue to its rules, and the interface to what it was."""
FEW = 20
"""Every so manyth of the questions whose answers are kept is asked."""


def test_adding_a_gpu_to_the_catalogue_breaks_no_test(tmp_path: Path) -> None:
    for folder in ("app", "templates", "static", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc.*"))  # none half written
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    catalog = tmp_path / "app" / "catalog"
    for name, text in (("gpus.toml", GPU.replace("h100-own", "h100-added")), ("sources.toml", SOURCE)):
        with (catalog / name).open("a", encoding="utf-8") as file:
            file.write(text)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *HELD]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_adding_a_gpu_moves_no_answer(tmp_path: Path) -> None:
    (tmp_path / "gpus.toml").write_text(GPU, encoding="utf-8")
    (tmp_path / "sources.toml").write_text(SOURCE, encoding="utf-8")
    some = list(answers.kept()["answers"])[::FEW]
    (_, before), (_, after) = answers.asked(some), answers.asked(some, overrides=tmp_path)
    assert answers.moved(before, after) == []
