"""A sample of mutants of app/plan and app/studies: how many survive the tests that say what is computed there."""

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
SURVIVED, UNTESTED = 0, 33
"""Exit codes that mutmut keeps of a mutant: every test passed, or none runs it."""
MOST = 0.15
"""Share of the sample that may survive."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Change one place of the code at a time, and see whether a test notices."""
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, files.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        _mutmut(copy, "run", "no.such.mutant")  # makes them all, and finds which tests run which function
        names = sorted(_exit_codes(copy))
        sample = random.Random(options.seed).sample(names, min(options.mutants, len(names)))
        yield f"   {len(sample)} of {len(names):,} mutants, seed {options.seed}"
        _mutmut(copy, "run", *sample)
        codes = _exit_codes(copy)
        alive = [name for name in sample if codes[name] in (SURVIVED, UNTESTED)]
        for name in alive:
            yield f"   survived: {name}\n{_mutmut(copy, 'show', name)}"
        tried = sum(codes[name] is not None for name in sample)
        assert tried == len(sample), f"only {tried} of {len(sample)} mutants were tried"
        share = len(alive) / len(sample)
        yield f"   {len(alive)} of {len(sample)} survive: {share:.0%}"
        assert share < MOST, f"{share:.0%} of the mutants survive; fewer than {MOST:.0%} may"


def _mutmut(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True).stdout


def _exit_codes(folder: Path) -> dict[str, int | None]:
    """Every mutant by name, with the exit code of its tests; ``None`` where they have not run."""
    made = (folder / "mutants").rglob("*.meta")
    return {name: code for path in made for name, code in json.loads(path.read_text())["exit_code_by_key"].items()}
