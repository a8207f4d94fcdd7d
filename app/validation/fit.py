"""Fit the constants to the published measurements, and keep the errors of what the fits never saw."""

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np

from app.catalog.load import FOLDER, Catalog, load_catalog
from app.plan.machine import SIZE_BANDS
from app.units import show
from app.validation import collective_runs, ledger, serving_runs, training_runs
from app.validation.statistics import statistics

COLLECTIVES = FOLDER / "collectives.toml"


NARROWEST, WIDEST = 0.02, 1.6
"""A wider band says nothing a planner can use; a class that misses by more is said so in its note."""
INSIDE = 0.79
"""Share of the left-out votes inside a residual."""


def residuals(predicted: list[collective_runs.Prediction], catalog: Catalog) -> dict[str, float]:
    """Half-widths by class and size of message: four of five left-out measurements fall inside, one vote per run.

    The constants' own ranges already make part of the width; the residual adds in quadrature, and what collectives
    other than the all-reduce miss beyond that of their class adds once more.
    """
    result: dict[str, float] = {}
    reduces = [p for p in predicted if p.row.collective == "all-reduce"]
    for group in sorted({p.group for p in reduces}):
        for band in SIZE_BANDS:
            members = [p for p in reduces if (p.group, p.row.band) == (group, band)]
            if members:
                result[f"{group}-{band}"] = _held([beyond(p) for p in members], members)
    for band in SIZE_BANDS:
        members = [p for p in predicted if p.row.collective != "all-reduce" and p.row.band == band]
        class_widths = [
            result.get(f"{p.group}-{band}", catalog.collectives["residual"][f"{p.group}-{band}"].typical)
            for p in members
        ]
        further = [
            float(np.sqrt(max(beyond(p) ** 2 - of**2, 0.0))) for p, of in zip(members, class_widths, strict=True)
        ]
        result[f"other-collectives-{band}"] = _held(further, members)
    return result


def _held(needed: list[float], members: list[collective_runs.Prediction]) -> float:
    """The half-width that holds as many votes as it should, and not too few or too many of the rows."""
    runs: dict[str, int] = {}
    for p in members:
        runs[p.row.run] = runs.get(p.row.run, 0) + 1
    order = np.argsort(needed)
    votes = np.cumsum([1 / runs[members[index].row.run] for index in order]) / len(runs)
    by_run = float(np.array(needed)[order][min(int(np.searchsorted(votes, INSIDE)), len(needed) - 1)])
    least, most = np.quantile(needed, [0.77, 0.86])
    return float(np.clip(np.clip(by_run, least, most), NARROWEST, WIDEST))


def beyond(p: collective_runs.Prediction) -> float:
    """What the residual has to be for the band to reach the measurement."""
    off = np.log(p.row.time / p.time)
    reach = np.log(p.drawn_high / p.time) if off > 0 else np.log(p.time / p.drawn_low)
    return float(np.sqrt(max(off**2 - reach**2, 0.0)))


GIVEN = 1977
"""The rows that constants are fitted to: whoever adds measurements agrees on it first."""


def fit_collectives(save: bool) -> None:
    """Fit the constants of the collectives; ``save`` writes typical values and residuals into the catalogue.

    Ranges and notes are for people to weigh. The residuals come from leaving out one system at a time, so run it again
    after a change of the model.
    """
    if len(collective_runs.MEASUREMENTS.read_text().splitlines()) != GIVEN + 1:
        sys.exit("Fit on the 1,977 given rows only.")

    catalog = load_catalog()
    rows, _ = collective_runs.read(collective_runs.MEASUREMENTS, catalog)
    learned = collective_runs.fitted(rows)
    values = collective_runs.constants(collective_runs.fit(learned, catalog, steps=30))
    besides = collective_runs.fitted(rows, other=True)
    values |= collective_runs.constants(collective_runs.fit(besides, catalog, steps=30, settled=values), other=True)
    left_out = collective_runs.predictions([*learned, *besides], catalog, leave_one_out=True)
    text = COLLECTIVES.read_text(encoding="utf-8")
    for key, fitted in values.items():
        _, group, name = key.split(".")
        now, value = catalog.collectives[group][name], float(fitted)
        low = now.typical if now.low is None else now.low
        high = now.typical if now.high is None else now.high
        written = _as_text(value, now.unit)
        print(f"{key:50} {now.typical:12.6g} -> {written:12} [{low:.4g}, {high:.4g}]", end="")
        print("" if low <= value <= high else "   outside its range")
        text = with_typical(text, group, name, written)
    for name, value in residuals(left_out, catalog).items():
        print(f"residual {name:40} {value:.3f}")
        text = with_typical(text, "residual", name, f"{np.ceil(1000 * value) / 1000:.3f}")
    report = collective_runs.summary(left_out, [], leave_one_out=True)
    print(collective_runs.text(report))
    if save:
        COLLECTIVES.write_text(text, encoding="utf-8")


def _as_text(value: float, unit: str) -> str:
    """A number as the catalogue's file has it."""
    return f"{value:.3g}" if unit == "1" else f'"{show(value, unit)}"'.replace("\u202f", " ").replace("µ", "u")


def with_typical(text: str, group: str, name: str, shown: str) -> str:
    """The file with one typical value replaced."""
    head = re.escape(f"[{group}.{name}]")
    changed, count = re.subn(rf"({head}\nunit = [^\n]*\ntypical = )[^\n]*", rf"\g<1>{shown}", text)
    if count != 1:
        raise SystemExit(f"{group}.{name}: found {count} times")
    return changed


TRAINING = FOLDER / "training.toml"
LEAST = 0.02


def shown(value: float, unit: str) -> str:
    """A number as the catalogue's file has it."""
    if unit != "s":
        return f"{value:.4g}"
    scale, symbol = (1e6, "us") if value < 1e-3 else (1e3, "ms")
    return f'"{value * scale:.4g} {symbol}"'


def with_numbers(text: str, group: str, name: str, **numbers: str) -> str:
    """Replace the numbers of one constant, keeping everything else of the file."""
    start = text.index(f"[{group}.{name}]")
    end = text.find("\n[", start + 1)
    block = text[start:end]
    for field, number in numbers.items():
        block = re.sub(rf"(?m)^{field} = .*$", f"{field} = {number}", block)
    return text[:start] + block + text[end:]


def score_new_sources(save: bool) -> None:
    """Score sources of training steps that no fit has seen; ``save`` adds them to the ledger."""
    print("\n".join(ledger.score_new_sources(load_catalog(), save)) or "No source is new.")


def fit_training(save: bool) -> None:
    """Fit the constants of the step to the published step times; ``save`` writes them into the catalogue.

    The range of a constant spans the fits that leave out one source at a time, and never less than two per cent each
    way.
    """
    book = load_catalog()
    rows = training_runs.fitted_rows(book)
    data = training_runs.batch(rows, book)
    fitted = training_runs.fit(data, book, np.ones(len(rows), bool))
    without = training_runs.left_out(data, rows, book, fitted)
    text = TRAINING.read_text(encoding="utf-8")
    spread = np.array([without[name] for name in without])
    for index, (group, name) in enumerate(training_runs.priors()):
        typical = float(np.exp(fitted[index]))
        low = min(float(np.exp(spread[:, index].min())), typical * (1 - LEAST))
        high = max(float(np.exp(spread[:, index].max())), typical * (1 + LEAST))
        unit = book.training[group][name].unit
        print(f"{group}.{name}: {shown(typical, unit)} ({shown(low, unit)} to {shown(high, unit)})")
        text = with_numbers(
            text, group, name, typical=shown(typical, unit), low=shown(low, unit), high=shown(high, unit)
        )
    if save:
        TRAINING.write_text(text, encoding="utf-8")
    fit_ranges(save)


def fit_ranges(save: bool) -> None:
    """Set the residuals of the step, and count the rows of each stack and GPU; ``save`` writes them.

    Every row is predicted by a fit that never saw its source, and each cluster of like rows has one vote.
    """
    book = load_catalog()
    rows, _ = training_runs.read(training_runs.MEASUREMENTS, book)
    predicted = training_runs.predictions(rows, book, leave_one_out=True)
    text = TRAINING.read_text(encoding="utf-8")
    for kind, width in training_runs.step_residuals(predicted, book).items():
        print(f"residual {kind}: {width:.3f}")
        text = with_numbers(text, "residual", kind, typical=f"{width:.3f}")
    error = np.array([np.log(p.time / p.row.measured) for p in predicted])
    questions = [row.scenario() for row in rows]
    for kind, keys in (
        ("stack", [question.stack or "" for question in questions]),
        ("gpu", [question.gpu for question in questions]),
    ):
        text = with_counts(text, f"rows-{kind}", Counter(keys))
    for name, some in {"all": error, "experts": error[[p.row.experts for p in predicted]]}.items():
        print(f"left out, {name}: mean {100 * np.mean(np.abs(np.expm1(some))):.2f} %")
    if save:
        TRAINING.write_text(text, encoding="utf-8")


def with_counts(text: str, group: str, counts: Mapping[str, int]) -> str:
    """The file with the counts of one group, one line each, in place of those it has."""
    head = f"[{group}]\n"
    start = text.index(head) + len(head)
    end = text.find("\n[", start)
    source = 'unit = "1", source = "railyard-training-calibration-2026", status = "calibrated"'
    lines = [f"{key} = {{ typical = {count}, {source} }}" for key, count in sorted(counts.items()) if key != "other"]
    return text[:start] + "\n".join(lines) + "\n" + (text[end:] if end >= 0 else "")


WITHIN_SERVING = 0.82
"""Share of the left-out errors of serving inside the residual, to which the constants' own ranges add."""
SERVING = {kind: FOLDER / f"{kind}.toml" for kind in ("serving", "engines")}


def fit_serving(save: bool) -> None:
    """Fit the constants of serving to the published operating points; ``save`` writes them into the catalogue.

    The range of a constant spans the fits that leave out one source at a time, and never less than two per cent each
    way. The residuals hold a little over four of five left-out errors.
    """
    book = load_catalog()
    rows, _ = serving_runs.read(serving_runs.MEASUREMENTS, book)
    data = serving_runs.points([row for row in rows if row.layout and row.tier == "core"], book)
    sources = np.array([row.source for row in data.rows])
    fitted = serving_runs.fit(data, np.ones(len(data.rows), bool))
    without = serving_runs.left_out(data, fitted)
    guess = np.zeros((3, len(data.rows)))
    for name, logs in without.items():
        mine = sources == name
        guess[:, mine] = serving_runs.figures(data.steady(serving_runs.reading(logs)), data)[:, mine]

    texts = {kind: path.read_text(encoding="utf-8") for kind, path in SERVING.items()}
    spread = np.array(list(without.values()))
    for index, key in enumerate(serving_runs.priors()):
        kind, group, name = key.split(".")
        estimate = book.serving[group][name] if kind == "serving" else getattr(book.engines[group], name)
        typical = float(np.exp(fitted[index]))
        low = min(float(np.exp(spread[:, index].min())), typical * (1 - LEAST))
        high = max(float(np.exp(spread[:, index].max())), typical * (1 + LEAST))
        numbers = {"typical": typical, "low": low, "high": high}
        print(f"{key}: " + ", ".join(shown(value, estimate.unit) for value in numbers.values()))
        as_text = {field: shown(value, estimate.unit) for field, value in numbers.items()}
        texts[kind] = with_numbers(texts[kind], group, name, **as_text)
    measured = serving_runs.measured(data)
    for place, name in enumerate(("time_per_token", "first_token", "throughput")):
        stated = np.isfinite(measured[place])
        error = np.abs(np.log(guess[place][stated] / measured[place][stated]))
        width = float(np.quantile(error, WITHIN_SERVING))
        left = statistics(guess[place][stated], measured[place][stated])
        print(f"{name:16} left out: median {left['median']:.1%} mean {left['mean']:.1%}, residual {width:.3f}")
        texts["serving"] = with_numbers(texts["serving"], "residual", name, typical=f"{width:.2f}")
    if save:
        for kind, path in SERVING.items():
            path.write_text(texts[kind], encoding="utf-8")
        write_left_out_serving(load_catalog())


def write_left_out_serving(catalog: Catalog) -> None:
    """Keep the errors of operating points whose source the fit had not seen, and of layouts that nobody states."""
    errors = serving_runs.report(serving_runs.MEASUREMENTS, catalog, leave_one_out=True)
    body = {
        "made": date.today().isoformat(),
        "catalog_version": catalog.version,
        **{name: errors[name] for name in ("core", "best_configuration", "decisions", "unseen")},
    }
    serving_runs.LEFT_OUT.write_text(json.dumps(body, indent=1) + "\n")


MEASUREMENTS = Path(__file__).parent / "measurements"


STEP_ERRORS = (
    "overall", "identified", "dense", "moe", "dense_clusters", "moe_clusters", "sources",
    "others_ranges", "others_ranges_dense", "others_ranges_moe", "others_ranges_sources",
    "by_group", "by_stack", "by_gpu", "by_regime", "moe_by_regime", "moe_by_routing", "unseen",
)  # fmt: skip
"""What is kept of the errors of steps whose source was left out."""


def write_left_out() -> None:
    """Predict every measurement by a fit that never saw its system or source, and keep the errors.

    The accuracy page cannot refit the models while a reader waits. Takes about two minutes; run it after a calibration.
    """
    loaded = load_catalog()
    reduce = collective_runs.report(MEASUREMENTS / "collectives.csv", loaded, leave_one_out=True)
    step = training_runs.report(MEASUREMENTS / "training.csv", loaded, leave_one_out=True)
    body = {
        "made": date.today().isoformat(),
        "catalog_version": loaded.version,
        "collectives": {name: reduce[name] for name in ("overall", "by_band", "by_class", "by_system", "all_reduce")},
        "training": {name: step[name] for name in STEP_ERRORS},
    }
    (MEASUREMENTS / "left_out.json").write_text(json.dumps(body, indent=1) + "\n")
