"""The ledger: no source of step times is fitted before it was predicted with constants that never saw it."""

import pytest

from app.catalog.load import load_catalog
from app.validation import ledger, training_runs

CATALOG = load_catalog()
LEDGER = ledger.read()
ROWS, _ = training_runs.read(training_runs.MEASUREMENTS, CATALOG)
SCORED = [entry["source"] for entry in LEDGER["scores"]]


def test_every_source_of_the_file_was_fitted_before_the_ledger_or_is_scored_in_it():
    assert {row.group for row in ROWS} == {*LEDGER["before"], *SCORED}
    assert not set(LEDGER["before"]) & set(SCORED)
    assert len(set(SCORED)) == len(SCORED)


def test_a_fit_uses_only_what_was_scored_first():
    assert set(LEDGER["fitted"]) <= {*LEDGER["before"], *SCORED}
    assert {row.group for row in training_runs.fitted_rows(CATALOG)} == set(LEDGER["fitted"])


def test_nothing_is_scored_twice():
    assert ledger.score_new_sources(CATALOG, save=True) == []


@pytest.mark.parametrize("entry", LEDGER["scores"], ids=lambda entry: entry["source"])
def test_a_score_says_with_what_it_was_made_and_how_many_rows_it_counts(entry: ledger.Score):
    assert entry["model_version"]
    assert entry["catalog_version"]
    own = [row for row in ROWS if row.group == entry["source"]]
    assert (entry["dense"]["count"], entry["moe"]["count"]) == (
        sum(not row.experts for row in own),
        sum(row.experts for row in own),
    )
    assert 0 <= entry["refused"] <= len(own)


def test_a_new_source_is_scored_with_the_constants_as_they_stand(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    text = training_runs.LEDGER.read_text(encoding="utf-8")
    path.write_text(text.replace('{"source": "mpf"', '{"source": "some other"'), encoding="utf-8")
    monkeypatch.setattr(ledger, "LEDGER", path)
    (line,) = ledger.score_new_sources(CATALOG, save=True)
    assert '"source": "mpf"' in line
    own = [row for row in ROWS if row.group == "mpf"]
    errors = [abs(p.time / p.row.measured - 1) for p in training_runs.predictions(own, CATALOG, leave_one_out=False)]
    assert ledger.read()["scores"][-1]["moe"]["mean"] == pytest.approx(sum(errors) / 74)
