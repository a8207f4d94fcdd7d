"""Headline figures of many scenarios, kept in answers.json with the model version that gives them.

    python -m tests.answers            which figures moved, in how many scenarios, by how much at most
    python -m tests.answers --write    keep today's figures; the model version must be new where one moved

Scenarios are the keys of `answers` in that file, as query strings; one added with the value null is filled in by
`--write`. A figure is a number where its range is exact, else low, typical and high; null where it cannot be computed.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from app.web.application import create_app
from app.web.settings import Settings
from tests import every_figure

FILE = Path(__file__).parent / "answers.json"
FIGURES = (
    "training.step_time", "training.time_to_train", "memory.total", "all_reduce.time", "fabric.cost",
    "fabric.bisection_per_gpu", "cluster.power", "costs.capital", "costs.operating",
)  # fmt: skip
"""Where they stand in the answer of /api/v1/plan."""
SAME = 1e-9
"""Relative difference below which a number has not moved; the file has ten digits."""
SHOWN = ("training.step_time", "fabric.cost", "all_reduce.time")
"""What the changelog says of the default plan."""

Figure = float | list[float | None] | None
Answers = dict[str, list[Figure]]


@dataclass(frozen=True)
class Moved:
    """One figure that is not what was kept: in how many scenarios, by how much at most, and where that is."""

    figure: str
    scenarios: int
    most: float
    query: str

    def __str__(self) -> str:
        return f"{self.figure}: {self.scenarios} scenarios, at most {self.most:.2g} relative, at “{self.query}”"


def kept() -> dict[str, Any]:
    """What the file holds."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def asked(queries: Iterable[str], overrides: Path | None = None) -> tuple[str, Answers]:
    """The model version in force, and today's figures of these scenarios, with an operator's overrides if given."""
    answers: Answers = {}
    version = ""
    with TestClient(create_app(Settings(access_log=False, overrides=overrides))) as client:
        for query in queries:
            answer = client.get(f"/api/v1/plan?{query}").raise_for_status().json()
            version = answer["model_version"]
            answers[query] = [_figure(answer, path) for path in FIGURES]
    return version, answers


def _figure(answer: Mapping[str, Any], path: str) -> Figure:
    part, name = path.split(".")
    band = answer[part][name]
    if band is None:
        return None
    ends = [None if band[end] is None else float(f"{band[end]:.10g}") for end in ("low", "typical", "high")]
    return ends[1] if len(set(ends)) == 1 else ends


def moved(before: Mapping[str, list[Figure] | None], after: Answers) -> list[Moved]:
    """The figures that differ; a scenario without figures yet has none to differ from."""
    found = []
    for place, figure in enumerate(FIGURES):
        apart = {
            query: difference(then[place], after[query][place]) for query, then in before.items() if then is not None
        }
        over = {query: by for query, by in apart.items() if by > SAME}
        if over:
            worst = max(over, key=over.__getitem__)
            found.append(Moved(figure, len(over), over[worst], worst))
    return found


def difference(before: Figure, after: Figure) -> float:
    """The largest relative difference of the ends of two ranges; infinite where one of them is known and one is not.

    >>> difference([1.0, 2.0, 4.0], [1.0, 2.0, 5.0])
    0.2
    >>> difference(None, 3.0)
    inf
    """
    return max(map(_apart, _ends(before), _ends(after)))


def _apart(one: float | None, other: float | None) -> float:
    if one == other:
        return 0.0
    if one is None or other is None:
        return math.inf
    return abs(one - other) / max(abs(one), abs(other))


def _ends(figure: Figure) -> list[float | None]:
    return figure if isinstance(figure, list) else [figure] * 3


def advice(before: str, after: str, changes: list[Moved]) -> str:
    """What to do about figures that moved, or about a file of another version; empty where nothing is to be done."""
    lines = [f"  {change}" for change in changes]
    if changes and before == after:
        lines.insert(0, f"Figures moved, but the model version is still {after}:")
        lines.append(
            "If they were not meant to move, that is a mistake. If they were: raise __version__ in app/__init__.py and "
            "the version in pyproject.toml, run `python -m tests.answers --write`, and say in CHANGELOG.md what it "
            "prints."
        )
    elif before != after:
        lines.insert(0, f"tests/answers.json is of model version {before}, and this is {after}.")
        lines.append("Run `python -m tests.answers --write`, and say in CHANGELOG.md what it prints.")
    return "\n".join(lines)


def effect(before: list[Figure], after: list[Figure]) -> str:
    """The default plan before and after, in base units, for the changelog."""
    words = []
    for path in SHOWN:
        then, now = (_words(figures[FIGURES.index(path)]) for figures in (before, after))
        words.append(f"{path} {then} → {now}" if then != now else f"{path} {now}, unchanged")
    return "The default plan: " + "; ".join(words) + "."


def _words(figure: Figure) -> str:
    low, typical, high = ("none" if end is None else f"{end:.5g}" for end in _ends(figure))
    return f"{typical} ({low}–{high})"


def write(version: str, answers: Answers) -> None:
    """One scenario a line, so that a changed file reads as what changed."""
    rows = ",\n".join(
        f"{json.dumps(query)}: {json.dumps(row, separators=(',', ':'))}" for query, row in answers.items()
    )
    head = f'"model_version": {json.dumps(version)},\n"figures": {json.dumps(FIGURES)},\n'
    FILE.write_text(f'{{{head}"answers": {{\n{rows}\n}}}}\n')


def main() -> int:
    """Say what moved; with --write keep it. The exit status is 1 where the version hides a change."""
    parser = argparse.ArgumentParser(prog="python -m tests.answers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep today's figures")
    options = parser.parse_args()
    before = kept()
    version, answers = asked(before["answers"])
    changes = moved(before["answers"], answers)
    hidden = bool(changes) and version == before["model_version"]
    print(advice(before["model_version"], version, changes) or f"No figure moved in {len(answers)} scenarios.")
    default = before["answers"][""]
    if default is not None:
        print(effect(default, answers[""]))
    if options.write and not hidden:
        write(version, answers)
        print(f"Wrote {FILE.name}: {len(answers)} scenarios of model version {version}.")
        every_figure.write(version)
    return int(hidden)


if __name__ == "__main__":
    sys.exit(main())
