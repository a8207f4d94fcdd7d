"""What the step model said of each new source of measurements before its constants were fitted to it.

Leaving a source out of a fit does not undo what was chosen while looking at it: the stacks' traits, the structure of a
term. So a new source is first predicted with the constants as they stand, and that score is kept for good; only then
may a fit use the source.
"""

import json
from collections.abc import Sequence
from datetime import date
from typing import Any, TypedDict

from app import __version__
from app.catalog.load import Catalog
from app.validation import training_runs
from app.validation.statistics import Statistics
from app.validation.training_runs import LEDGER


class Score(TypedDict):
    """What was predicted of a source before any constant was fitted to it."""

    source: str
    made: str
    model_version: str
    catalog_version: str
    dense: Statistics
    moe: Statistics
    refused: int


class Ledger(TypedDict):
    """``before`` are the sources that were fitted before there was a ledger; ``fitted`` those that a fit uses."""

    before: list[str]
    fitted: list[str]
    scores: list[Score]


def read() -> Ledger:
    """What the ledger holds."""
    ledger: Ledger = json.loads(LEDGER.read_text(encoding="utf-8"))
    return ledger


def write(ledger: Ledger) -> None:
    """Keep it, one source a line."""
    scores = ",\n  ".join(json.dumps(score) for score in ledger["scores"])
    head = f'"before": {json.dumps(ledger["before"])},\n "fitted": {json.dumps(ledger["fitted"])}'
    LEDGER.write_text(f'{{{head},\n "scores": [\n  {scores}\n ]}}\n', encoding="utf-8")


def score(predicted: Sequence[training_runs.Prediction], source: str, catalog: Catalog) -> Score:
    """The score of one source, among predictions by constants that never saw it."""
    report: dict[str, Any] = training_runs.summary([p for p in predicted if p.row.group == source], [], False)
    return Score(
        source=source,
        made=date.today().isoformat(),
        model_version=__version__,
        catalog_version=catalog.version,
        dense=report["dense"],
        moe=report["moe"],
        refused=report["infeasible"]["count"],
    )


def score_new_sources(catalog: Catalog, save: bool) -> list[str]:
    """Score every source of the file that is in no list yet, with the constants as they stand; what was found."""
    ledger = read()
    listed = {*ledger["before"], *(entry["source"] for entry in ledger["scores"])}
    rows, _ = training_runs.read(training_runs.MEASUREMENTS, catalog)
    new = list(dict.fromkeys(row.group for row in rows if row.group not in listed))
    predicted = training_runs.predictions(rows, catalog, leave_one_out=False)
    scores = [score(predicted, source, catalog) for source in new]
    if save and scores:
        write(Ledger(before=ledger["before"], fitted=ledger["fitted"], scores=ledger["scores"] + scores))
    return [json.dumps(entry) for entry in scores]
