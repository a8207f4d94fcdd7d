"""The training step against published step times.

Every row of a file is a scenario (see `training_rows`), and its prediction is what the planner's own functions give for
it. Leaving a source out refits the calibrated constants from their priors on everything else.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tomli
from numpy.typing import NDArray

from app.catalog.estimate import N_DRAWS
from app.catalog.load import Catalog, architecture_group
from app.formulas import transformer
from app.formulas.arrays import Array
from app.formulas.training import memory
from app.formulas.training import step as training_step
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.exchanges import Exchanges
from app.formulas.transformer import Shape
from app.plan.band import interval
from app.plan.job import calibration as step_constants
from app.plan.job.calibration import Conditions
from app.plan.scenario import SoftwareRequest
from app.units import parse
from app.validation.least_squares import robust_fit
from app.validation.row_names import taken_for, taken_text
from app.validation.statistics import Statistics, agrees, grouped, never_seen, statistics, table
from app.validation.training_rows import MEASUREMENTS, Row, read, setup_of

__all__ = ["MEASUREMENTS", "read"]

LEDGER = MEASUREMENTS.with_name("ledger.json")
PRIORS = Path(__file__).parent / "training_priors.toml"

SIGMA = 0.08
"""Scatter of published step times about a good model, on the logarithm; beyond twice this a row pulls linearly."""
AT_ONCE = 32
"""Draws of all rows that are worked out together: their arrays stay small."""
GIB = parse("1 GiB", "B")


# The planner's inputs of many rows -----------------------------------------------------------------------------------

Record = TypeVar("Record", Shape, Job, GpuRates, Parallelism, Software, Conditions, Exchanges)


def stacked(records: Sequence[Record]) -> Record:
    """Records of numbers, or of such records, as one record of arrays."""
    kind: Any = type(records[0])
    columns = {entry.name: [getattr(record, entry.name) for record in records] for entry in fields(kind)}
    arrays: Record = kind(
        **{
            name: stacked(column) if is_dataclass(column[0]) else np.array(column, float)
            for name, column in columns.items()
        }
    )
    return arrays


@dataclass(frozen=True)
class Batch:
    """The planner's inputs of many scenarios, stacked: all but the constants, which a fit changes.

    ``groups`` holds, for each kernel constant, the groups of the catalogue that it comes from and which of them each
    row takes. ``refused`` marks what the planner says cannot run: it does not fit the memory, or does not divide.
    """

    shape: Shape
    job: Job
    hardware: GpuRates
    parallelism: Parallelism
    software: Software
    exchanges: Exchanges
    conditions: Conditions
    groups: Mapping[str, tuple[tuple[str, ...], NDArray[np.intp]]]
    refused: NDArray[np.bool_]
    measured: NDArray[np.float64]
    weight: NDArray[np.float64]

    def calibration(self, constant: step_constants.Sampling) -> Calibration:
        """The constants of each row, architectures gathered from theirs."""

        def gather(name: str) -> Array:
            groups, index = self.groups[name]
            values = [np.asarray(constant(group, name), float) for group in groups]
            shape = np.broadcast_shapes(*(value.shape for value in values))
            columns = np.concatenate([np.broadcast_to(value, shape or (1,)) for value in values], axis=-1)
            return columns[..., index]

        kernel = step_constants.Kernels(**{entry.name: gather(entry.name) for entry in fields(step_constants.Kernels)})
        return step_constants.calibration(constant, kernel, self.conditions)

    def log_time(self, constant: step_constants.Sampling) -> NDArray[np.float64]:
        """Logarithm of the predicted step time of every row."""
        cal = self.calibration(constant)
        step = training_step.step(
            self.shape, self.job, self.hardware, self.parallelism, self.software, cal, self.exchanges
        )
        return np.asarray(np.log(step.time), float)

    def memory(self, constant: step_constants.Sampling) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicted memory of every row, and what an allocator counts of it in use, without context and gaps [B]."""
        cal = self.calibration(constant)
        used = memory.memory(self.shape, self.job, self.parallelism, self.software, cal)
        total, allocated = np.broadcast_arrays(used.total, used.total - used.buffers, self.measured)[:2]
        return total, allocated


def typical(catalog: Catalog) -> step_constants.Sampling:
    """The catalogue's typical constants."""
    return lambda group, name: catalog.training[group][name].typical


def batch(rows: Sequence[Row], catalog: Catalog) -> Batch:
    """The rows' scenarios as the planner takes them, one after the other, stacked into arrays."""
    setups = [setup_of(row.scenario(), catalog) for row in rows]
    searches = [setup.search(budget=1.0) for setup in setups]
    inputs = [setup.inputs for setup in setups]
    count = {name: sum(row.group == name for row in rows) for name in {row.group for row in rows}}
    groups = {}
    for entry in fields(step_constants.Kernels):
        names = [architecture_group(catalog.training, setup.cluster.gpu, entry.name) for setup in setups]
        unique = tuple(dict.fromkeys(names))
        groups[entry.name] = unique, np.array([unique.index(name) for name in names], np.intp)
    return Batch(
        shape=stacked([row_inputs.shape for row_inputs in inputs]),
        job=stacked([row_inputs.job for row_inputs in inputs]),
        hardware=stacked([row_inputs.hardware for row_inputs in inputs]),
        parallelism=stacked([search.parallelism for search in searches]),
        software=stacked([row_inputs.software for row_inputs in inputs]),
        exchanges=stacked(
            [row_inputs.exchanges(search.parallelism) for row_inputs, search in zip(inputs, searches, strict=True)]
        ),
        conditions=stacked([row_inputs.conditions for row_inputs in inputs]),
        groups=groups,
        refused=np.array([not search.feasible for search in searches]),
        measured=np.array([row.measured for row in rows]),
        weight=np.array([count[row.group] ** -0.5 for row in rows]),
    )


def fitted_rows(catalog: Catalog) -> list[Row]:
    """The rows that constants are fitted to: those of the sources that the ledger lists as fitted."""
    sources = set(json.loads(LEDGER.read_text(encoding="utf-8"))["fitted"])
    rows, _ = read(MEASUREMENTS, catalog)
    return [row for row in rows if row.group in sources]


# Fitting -------------------------------------------------------------------------------------------------------------


@cache
def priors() -> dict[tuple[str, str], tuple[float, float]]:
    """Prior of each fitted constant by group and name: what it is expected to be, and its relative spread."""
    tables = tomli.loads(PRIORS.read_text(encoding="utf-8"))
    return {(g, n): (parse(v["typical"], "1"), v["spread"]) for g, names in tables.items() for n, v in names.items()}


def reading(logs: NDArray[np.float64], catalog: Catalog) -> step_constants.Sampling:
    """Constants from a fit's vector of logarithms, the rest from the catalogue. Leading axes of the vector lead."""
    place = {key: index for index, key in enumerate(priors())}
    plain = typical(catalog)

    def constant(group: str, name: str) -> Array:
        at = place.get((group, name))
        return plain(group, name) if at is None else np.exp(logs[..., at])[..., None]

    return constant


def fit(
    data: Batch, catalog: Catalog, keep: NDArray[np.bool_], start: NDArray[np.float64] | None = None, steps: int = 12
) -> NDArray[np.float64]:
    """Logarithms of the constants that fit the kept rows best, from the priors: see `robust_fit`.

    What is fitted is the logarithm of the step time; each source weighs the root of its rows.
    """
    centre = np.log([typical for typical, _ in priors().values()])
    spread = np.array([width for _, width in priors().values()])
    target = np.log(data.measured)

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return data.log_time(reading(logs, catalog)) - target

    begin = centre if start is None else start
    return robust_fit(residuals, (centre, spread), data.weight * keep, SIGMA, begin, steps)


KINDS: Mapping[str, Callable[[Row], str]] = {
    "source": lambda row: row.group,
    "gpu": lambda row: row.scenario().gpu,
    "stack": lambda row: row.stack,
    "model": lambda row: row.model,
}
"""What can be left out of a fit, each in turn."""
UNSEEN = tuple(kind for kind in KINDS if kind != "source")


def left_out(
    data: Batch, rows: Sequence[Row], catalog: Catalog, whole: NDArray[np.float64], kind: str = "source"
) -> dict[str, NDArray[np.float64]]:
    """The fit without each source in turn, or without each of another of `KINDS`, from that to all rows."""
    names = np.array([KINDS[kind](row) for row in rows])
    return {name: fit(data, catalog, names != name, whole, steps=6) for name in dict.fromkeys(names)}


# Report --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """A row beside what the planner says of it; ``refused`` where it says that the run cannot be.

    ``memory`` is all that a GPU holds, ``counted_memory`` what the source's kind of figure counts of it: PyTorch's
    allocator does not see the CUDA context, and what it says is allocated has no gaps.
    """

    row: Row
    time: float
    low: float
    high: float
    memory: float
    counted_memory: float
    baseline: float
    refused: bool


def predictions(rows: Sequence[Row], catalog: Catalog, leave_one_out: bool) -> list[Prediction]:
    """Every row predicted, with its band; each source by a fit without it where so wished."""
    kind = "source" if leave_one_out else ""
    return predictions_without(rows, catalog, [kind])[kind]


def predictions_without(rows: Sequence[Row], catalog: Catalog, kinds: Sequence[str]) -> dict[str, list[Prediction]]:
    """The same for several of `KINDS`, each of a kind by a fit without it; blank: by the catalogue's constants."""
    if not rows:
        return {kind: [] for kind in kinds}
    data = batch(rows, catalog)
    shipped = np.exp(data.log_time(typical(catalog)))
    drawn = _drawn(data, catalog)
    residuals = [step_constants.residual(widths(row, catalog)) for row in rows]
    low, high = interval(drawn, np.array(residuals))
    base = baseline(data, rows, catalog)
    total, allocated = data.memory(typical(catalog))
    context = catalog.training["memory"]["context"].typical
    counted = {"allocated": allocated, "reserved": total - context}
    figures = [counted.get(row.memory_kind, total)[place] for place, row in enumerate(rows)]
    columns = low, high, drawn[:, 0], total, figures, base, data.refused

    def predicted(times: NDArray[np.float64]) -> list[Prediction]:
        return [
            Prediction(row, float(t), float(t * lo / d), float(t * hi / d), float(m), float(n), float(b), bool(no))
            for row, t, lo, hi, d, m, n, b, no in zip(rows, times, *columns, strict=True)
        ]

    if not any(kinds):
        return {kind: predicted(shipped) for kind in kinds}
    published = fitted_rows(catalog)
    learn_from = batch(published, catalog)
    whole = fit(learn_from, catalog, np.ones(len(published), bool))
    by_kind = {}
    for kind in kinds:
        times = shipped
        for name, constants in left_out(learn_from, published, catalog, whole, kind).items():
            mine = np.array([KINDS[kind](row) == name for row in rows])
            if mine.any():
                times = np.where(mine, np.exp(data.log_time(reading(constants, catalog))).ravel(), times)
        by_kind[kind] = predicted(times)
    return by_kind


def widths(row: Row, catalog: Catalog) -> list[step_constants.Width]:
    """What the range of a row rests on: what the planner's does, and what rules fill in or take for something else."""
    question = row.scenario()
    parts = step_constants.widths(catalog, catalog.gpus[question.gpu], row.experts, question.part(SoftwareRequest))
    if row.borrowed and "other_stack" not in [part.name for part in parts]:
        parts.append(step_constants.Width("other_stack", catalog.training["residual"]["other_stack"].typical))
    if row.unstated:
        parts.append(step_constants.Width("unstated", catalog.training["residual"]["unstated"].typical))
    return parts


def _drawn(data: Batch, catalog: Catalog) -> NDArray[np.float64]:
    """Step times of every row under the draws of all constants: (rows, draws); see `AT_ONCE`."""

    def constants(draws: slice) -> step_constants.Sampling:
        return lambda group, name: catalog.training[group][name].draws()[draws, None]

    pieces = [slice(start, start + AT_ONCE) for start in range(0, N_DRAWS, AT_ONCE)]
    logs: NDArray[np.float64] = np.concatenate([data.log_time(constants(piece)) for piece in pieces])
    return np.exp(logs).T


def baseline(data: Batch, rows: Sequence[Row], catalog: Catalog) -> NDArray[np.float64]:
    """Step times if all steps ran at one model FLOP/s utilisation for each GPU and precision.

    The median over the other sources; where none has that GPU and precision, over those of its architecture, else over
    all.
    """
    tokens = np.asarray(data.job.sequence_length) * data.job.global_batch
    work = np.asarray(transformer.training_flops(data.shape, data.job.sequence_length)) * tokens
    questions = [row.scenario() for row in rows]
    cards = [catalog.gpus[scenario.gpu] for scenario in questions]
    best = work / np.array([scenario.gpus for scenario in questions]) / data.hardware.linear_peak
    used = best / data.measured
    group, gpu = np.array([row.group for row in rows]), np.array([card.key for card in cards])
    size, architecture = np.asarray(data.job.linear_bytes), np.array([card.architecture for card in cards])
    times = np.empty(len(rows))
    for index in range(len(rows)):
        others = group != group[index]
        same = others & (size == size[index])
        pools = (same & (gpu == gpu[index]), same & (architecture == architecture[index]), others)
        pool = next((mask for mask in pools if mask.any()), np.arange(len(rows)) == index)
        times[index] = best[index] / np.median(used[pool])
    return times


# Ranges ---------------------------------------------------------------------------------------------------------------

WITHIN_STEPS = 0.82
"""Share of the left-out votes inside a range of the step: a little over four of five, as new sources err more."""


def step_residuals(predicted: Sequence[Prediction], catalog: Catalog) -> dict[str, float]:
    """Half-widths that the residuals need, by class: the share `WITHIN_STEPS` of the votes falls inside.

    A cluster of like rows has one vote, shared among them, so that what they err together and each by itself both
    count. The constants' own ranges make part of the width, and what a row has beyond its class (a stack, card or
    routing that nobody measured) another. Rows whose spread nobody states tell of that alone.
    """
    parts = [widths(p.row, catalog) for p in predicted]
    kinds, unstated = np.array([widths[0].name for widths in parts]), np.array([p.row.unstated for p in predicted])
    further = [step_constants.residual(part for part in widths[1:] if part.name != "unstated") for widths in parts]
    needed = np.array(
        [
            _needed(p, step_constants.residual(widths), added)
            for p, widths, added in zip(predicted, parts, further, strict=True)
        ]
    )
    members = Counter(p.row.cluster for p in predicted)
    votes = np.array([1 / members[p.row.cluster] for p in predicted])

    def holding(needed: NDArray[np.float64], among: NDArray[np.bool_]) -> float:
        order = np.argsort(needed[among])
        share = np.cumsum(votes[among][order]) / votes[among].sum()
        return float(needed[among][order][np.searchsorted(share, WITHIN_STEPS)])

    result = {kind: holding(needed, (kinds == kind) & ~unstated) for kind in sorted(set(kinds[~unstated]))}
    class_widths = np.array([result.get(kind, 0.0) for kind in kinds])
    dense = np.array([not p.row.experts for p in predicted])
    if not (unstated & dense).any():
        return result
    return result | {"unstated": holding(np.sqrt(np.maximum(needed**2 - class_widths**2, 0)), unstated & dense)}


def _needed(p: Prediction, has: float, further: float) -> float:
    """What the residual of a row's class has to be for its range to reach the measurement.

    ``has`` is the residual that made its range, ``further`` what adds to its class.
    """
    off = np.log(p.row.measured / p.time)
    reach = np.log(p.high / p.time if off > 0 else p.time / p.low)
    return float(np.sqrt(max(off**2 - reach**2 + has**2 - further**2, 0.0)))


def ranges_left_out(predicted: Sequence[Prediction], catalog: Catalog) -> list[Prediction]:
    """The same with ranges as wide as all other sources need, so that no source has a say in its own."""
    others_need = {
        group: step_residuals([p for p in predicted if p.row.group != group], catalog)
        for group in dict.fromkeys(p.row.group for p in predicted)
    }
    return [_widened(p, others_need[p.row.group], catalog) for p in predicted]


def _widened(p: Prediction, residuals: Mapping[str, float], catalog: Catalog) -> Prediction:
    """A prediction whose range has other residuals of its class; what else it rests on stays."""
    parts = widths(p.row, catalog)
    others = [replace(part, half_width=residuals.get(part.name, part.half_width)) for part in parts]
    further = step_constants.residual(others) ** 2 - step_constants.residual(parts) ** 2
    below, above = (np.sqrt(max(np.log(end / p.time) ** 2 + further, 0.0)) for end in (p.low, p.high))
    return replace(p, low=float(p.time * np.exp(-below)), high=float(p.time * np.exp(above)))


# Scores ---------------------------------------------------------------------------------------------------------------


def _score(predicted: Sequence[Prediction]) -> Statistics:
    return statistics(
        [p.time for p in predicted],
        [p.row.measured for p in predicted],
        [p.low for p in predicted],
        [p.high for p in predicted],
    )


def _clusters(predicted: Sequence[Prediction]) -> Statistics:
    """The same with one vote for each cluster of rows: the geometric means of its predictions and measurements."""
    members: dict[str, list[Prediction]] = {}
    for p in predicted:
        members.setdefault(p.row.cluster, []).append(p)
    numbers = [np.array([(p.time, p.row.measured, p.low, p.high) for p in some]) for some in members.values()]
    means = np.array([np.exp(np.mean(np.log(some), axis=0)) for some in numbers]).reshape(-1, 4)
    return statistics(*means.T)


def _infeasible(predicted: Sequence[Prediction]) -> dict[str, float]:
    """Published runs that the planner says cannot be: how many, and their share."""
    count = sum(p.refused for p in predicted)
    return {"count": count, "share": count / len(predicted) if predicted else 0.0}


FOUR_OF_FIVE = 0.8
"""Share of measurements that a range is meant to hold."""
LEAST_INSIDE, MOST_INSIDE = 0.75, 0.88
"""Shares of a source's rows inside the range that four of five come to: wider ranges say less than they could."""


def _sources(by_group: Mapping[str, Statistics]) -> dict[str, int]:
    """Of how many sources the ranges hold enough rows, each source by itself, and of how many neither more.

    ``near`` counts a source whose share would be between the two if one row more, or less, were inside: no source of
    three rows can have four of five of them, and ``possible`` counts those that can. ``compatible`` counts a source
    whose rows inside are not so few, nor so many, that ranges of four in five would leave so few, or so many, in less
    than one source of twenty.
    """
    inside = [(source["coverage"], 1 / source["count"]) for source in by_group.values()]
    counts = [(round(source["coverage"] * source["count"]), source["count"]) for source in by_group.values()]
    return {
        "count": len(inside),
        "possible": sum(
            any(LEAST_INSIDE <= held / rows <= MOST_INSIDE for held in range(rows + 1)) for _, rows in counts
        ),
        "compatible": sum(agrees(held, rows, FOUR_OF_FIVE) for held, rows in counts),
        "enough": sum(share >= LEAST_INSIDE for share, _ in inside),
        "between": sum(LEAST_INSIDE <= share <= MOST_INSIDE for share, _ in inside),
        "near": sum(LEAST_INSIDE - row <= share <= MOST_INSIDE + row for share, row in inside),
    }


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Predict every row of a file and say how far off, overall and by group."""
    rows, skipped = read(path, catalog)
    taken = {"taken": taken_for(rows)}
    if not leave_one_out:
        return summary(predictions(rows, catalog, False), skipped, False) | taken
    by_kind = predictions_without(rows, catalog, tuple(KINDS))
    predicted = by_kind["source"]
    return summary(predicted, skipped, True, ranges_left_out(predicted, catalog)) | {"unseen": unseen(by_kind)} | taken


def unseen(by_kind: Mapping[str, Sequence[Prediction]]) -> dict[str, dict[str, Statistics]]:
    """Errors on each GPU, each stack and each model by a fit that saw no row of it: what to expect of another."""
    return {
        kind: {
            "dense": _score([p for p in by_kind[kind] if not p.row.experts]),
            "moe": _score([p for p in by_kind[kind] if p.row.experts]),
        }
        for kind in UNSEEN
    }


def summary(
    predicted: Sequence[Prediction],
    skipped: Sequence[Mapping[str, str]],
    leave_one_out: bool,
    others_ranges: Sequence[Prediction] = (),
) -> dict[str, Any]:
    """The report of predictions already made. ``memory`` counts a source's GB as GiB, as PyTorch prints it.

    ``others_ranges`` are the same predictions with the ranges of `ranges_left_out`.
    """
    sized = [p for p in predicted if p.row.memory]
    by_group = grouped(predicted, lambda p: p.row.group, _score)
    return {
        "rows": len(predicted),
        "skipped": list(skipped),
        "leave_one_out": leave_one_out,
        "overall": _score(predicted),
        "identified": _score([p for p in predicted if p.row.identified]),
        "dense": _score([p for p in predicted if not p.row.experts]),
        "moe": _score([p for p in predicted if p.row.experts]),
        "clusters": _clusters(predicted),
        "dense_clusters": _clusters([p for p in predicted if not p.row.experts]),
        "moe_clusters": _clusters([p for p in predicted if p.row.experts]),
        "baseline": statistics([p.baseline for p in predicted], [p.row.measured for p in predicted]),
        "infeasible": _infeasible(predicted),
        "memory": statistics([p.counted_memory for p in sized], [(p.row.memory or 0) * GIB for p in sized]),
        "sources": _sources(by_group),
        "others_ranges": _score(others_ranges),
        "others_ranges_dense": _score([p for p in others_ranges if not p.row.experts]),
        "others_ranges_moe": _score([p for p in others_ranges if p.row.experts]),
        "others_ranges_sources": _sources(grouped(others_ranges, lambda p: p.row.group, _score)),
        "by_group": by_group,
        "by_stack": grouped(predicted, lambda p: p.row.stack, _score),
        "by_regime": grouped(predicted, lambda p: p.row.regime, _score),
        "moe_by_regime": grouped([p for p in predicted if p.row.experts], lambda p: p.row.regime, _score),
        "moe_by_routing": grouped([p for p in predicted if p.row.experts], lambda p: p.row.routing, _score),
        "by_gpu": grouped(predicted, lambda p: p.row.scenario().gpu, _score),
        "by_run": grouped(predicted, lambda p: p.row.run, _score),
    }


OTHERS_RANGES = {"others_ranges": "all", "others_ranges_dense": "dense", "others_ranges_moe": "experts"}


def _sources_said(sources: Mapping[str, int]) -> str:
    return (
        "Of {count} sources {enough} have at least 75 % of their rows inside the range, {between} 75 to 88 % (which "
        "{possible} can have, the others have too few rows), {near} so many give or take one row; {compatible} agree "
        "with four of five, at one in twenty on either side.".format(**sources)
    )


def text(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    how = (
        "each source left out of the calibration in turn" if report["leave_one_out"] else "calibrated on these sources"
    )
    names = (
        "overall", "identified", "dense", "moe", "clusters", "dense_clusters", "moe_clusters", "baseline", "memory",
    )  # fmt: skip
    parts = [
        f"{report['rows']} rows predicted, {len(report['skipped'])} skipped; {how}.",
        f"{report['infeasible']['count']} of them ({report['infeasible']['share']:.1%}) the planner would refuse: "
        "they need more memory than it allows, or do not divide.",
        _sources_said(report["sources"]),
        "Ranges as wide as all other sources need hold "
        + ", ".join(f"{report[name]['coverage']:.1%} of {said}" for name, said in OTHERS_RANGES.items())
        + ". "
        + _sources_said(report["others_ranges_sources"])
        if report["leave_one_out"]
        else "",
        table({name: report[name] for name in names}, "step time"),
        table(never_seen(report["unseen"]), "never seen by the fit") if report["leave_one_out"] else "",
        table(report["by_group"], "source"),
        table(report["by_stack"], "stack"),
        table(report["by_gpu"], "GPU"),
        table(report["by_regime"], "regime"),
        table(report["moe_by_regime"], "regime, experts"),
        table(report["moe_by_routing"], "routing, experts"),
        taken_text(report.get("taken", {})),
    ]
    parts = [part for part in parts if part]
    if report["skipped"]:
        parts.append("Skipped:\n" + "\n".join(f"  {entry['run']}: {entry['reason']}" for entry in report["skipped"]))
    return "\n\n".join(parts)
