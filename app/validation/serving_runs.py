"""Serving against published operating points.

Every row of a file is a question (see `serving_rows`), and its prediction is what the planner's own functions give for
it. Leaving a source out refits the calibrated constants from their priors on everything else.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tomli
from numpy.typing import NDArray

from app.catalog.estimate import N_DRAWS, Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL, Sampling
from app.formulas.arrays import Array
from app.formulas.serving.batching import SteadyState, steady_state
from app.formulas.serving.kv_cache import sequences_held
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad, ServingRates
from app.formulas.transformer import Shape
from app.plan.band import interval
from app.plan.cluster import look_up
from app.plan.serving.serving_inputs import (
    Setting,
    estimates,
    residual,
    serving_constants,
    serving_inputs,
    serving_load,
    serving_rates,
    setting,
    years_of,
)
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.serving_search import limits_of, try_all, up_to_limits
from app.units import parse
from app.validation.least_squares import robust_fit
from app.validation.row_names import taken_for, taken_text
from app.validation.serving_rows import MEASUREMENTS, TIERS, ServingRow, read
from app.validation.statistics import Statistics, grouped, never_seen, statistics, table

__all__ = ["MEASUREMENTS", "read"]

PRIORS = Path(__file__).parent / "serving_priors.toml"
LEFT_OUT = MEASUREMENTS.with_name("serving_left_out.json")
SIGMA = 0.08
"""Scatter of operating points about a good model, on the logarithm; beyond twice this a row pulls linearly."""
EVERY = 4
"""Of so many draws one makes the bands of a report, the typical values among them: of all they would take seconds."""
AT_ONCE = 8
"""Draws of all rows that are worked out together."""
FIRST_TOKEN_WEIGHT = 0.35
"""Residuals of the first token count so much: it scatters by 50 % where the same configuration is measured again."""
FIRST_TOKEN_REACH = 1.0
"""Logarithm beyond which a first token pulls a fit no more: kernels were compiled meanwhile, or room was lacking."""
NOT_OF_ALL = ("correction", "tuning", "plain_compute")
"""Constants that some questions alone have; one for the others."""
Floats = NDArray[np.float64]
Record = TypeVar("Record", Shape, ServingRates, ServingLoad, Layout, ServingConstants)


@dataclass(frozen=True, eq=False)
class Points:
    """The planner's inputs of many rows, stacked: all but the constants, which a fit changes.

    ``taken`` holds, for each name of a constant, the estimates that rows take and which of them each row takes.
    """

    rows: tuple[ServingRow, ...]
    settings: tuple[Setting, ...]
    model: ServedModel
    layout: Layout
    taken: Mapping[str, tuple[tuple[Estimate | None, ...], NDArray[np.intp]]]
    rates: Callable[[Callable[[str], Array]], ServingRates]
    load: Callable[[Callable[[str], Array]], ServingLoad]
    years: Floats
    lean: Floats
    tuned: Floats
    concurrency: Floats
    most_sequences: Floats
    queued: NDArray[np.bool_]

    def inputs(self, sampling: Callable[[Estimate], Array]) -> tuple[ServingRates, ServingLoad, ServingConstants]:
        """What the formulas take, with constants as the sampling has them; samples lead, rows are last."""

        def take(name: str) -> Array:
            unique, index = self.taken[name]
            values = [np.asarray(1.0 if estimate is None else sampling(estimate), float) for estimate in unique]
            lead = np.broadcast_shapes(*(value.shape for value in values)) or (1,)
            return np.concatenate([np.broadcast_to(value, lead) for value in values], axis=-1)[..., index]

        return self.rates(take), self.load(take), serving_constants(take, self.years, self.lean, self.tuned)

    def steady(self, sampling: Callable[[Estimate], Array] = TYPICAL) -> SteadyState:
        """Every row's steady state. As many sequences run as the memory holds where a queue is never empty.

        So they do where a row may have waited for room; the others wait, by Little's law.
        """
        gpu, load, constants = self.inputs(sampling)
        held = sequences_held(self.model, gpu, self.layout, load, constants)
        most = np.minimum(held, self.most_sequences * self.layout.attention_data)
        offline = np.asarray(load.in_process) > 0
        unknown = np.isnan(self.concurrency)
        concurrency = np.where(unknown & offline, np.inf, np.where(unknown, 1.0, self.concurrency))
        held = np.minimum(concurrency, np.maximum(most, 1.0))
        running = np.where(offline | self.queued, held, concurrency)
        state = steady_state(self.model, gpu, self.layout, replace(load, concurrency=running), constants)
        waiting = np.where(self.queued & ~offline, concurrency / running - 1, 0.0) * running / state.requests
        return replace(state, first_token=state.first_token + waiting)


def points(rows: Sequence[ServingRow], catalog: Catalog) -> Points:
    """The rows that state their layout, as the planner takes them, stacked into arrays; one alone with its links."""
    settings = [setting(row.question, look_up(row.question, catalog), None, catalog) for row in rows]
    estimates_by_row = [estimates(row_setting, catalog) for row_setting in settings]
    taken = {}
    names = dict.fromkeys(name for row_estimates in estimates_by_row for name in row_estimates)
    for name in names | dict.fromkeys(NOT_OF_ALL):
        mine = [row_estimates.get(name) for row_estimates in estimates_by_row]
        unique = tuple(dict.fromkeys(mine))
        place = {estimate: index for index, estimate in enumerate(unique)}
        taken[name] = unique, np.array([place[estimate] for estimate in mine], np.intp)
    typical = [
        {name: row_estimates[name].typical if name in row_estimates else 1.0 for name in taken}
        for row_estimates in estimates_by_row
    ]
    loads = stacked(
        [serving_load(row_setting, values.__getitem__) for row_setting, values in zip(settings, typical, strict=True)]
    )
    rates = stacked(
        [serving_rates(row_setting, values.__getitem__) for row_setting, values in zip(settings, typical, strict=True)]
    )
    if len(rows) == 1:
        rates = replace(rates, links=settings[0].fabric.links(TYPICAL))
    counted = np.asarray(loads.burst) > 0
    return Points(
        rows=tuple(rows),
        settings=tuple(settings),
        model=stacked_models([row_setting.model for row_setting in settings]),
        layout=stacked([row.layout or Layout() for row in rows]),
        taken=taken,
        rates=lambda take: rates,
        load=lambda take: replace(loads, burst=np.where(counted, take("burst"), 0.0)),
        years=np.array([years_of(row_setting) for row_setting in settings]),
        lean=np.array([float(row_setting.family == "sink") for row_setting in settings]),
        tuned=np.array([float(row.question.tuned_kernels) for row in rows]),
        concurrency=np.array([row.concurrency / row.replicas for row in rows]),
        most_sequences=np.array([float(row_setting.engine.max_sequences) for row_setting in settings]),
        queued=np.array([row.tier != "core" for row in rows]),
    )


def stacked(records: Sequence[Record]) -> Record:
    """Records of numbers as one record of arrays; what none of them has is left out."""
    kind = type(records[0])
    columns = {entry.name: [getattr(record, entry.name) for record in records] for entry in fields(kind)}
    numbers: dict[str, Any] = {
        name: np.array(column, float) for name, column in columns.items() if column[0] is not None
    }
    return kind(**numbers)


def stacked_models(models: Sequence[ServedModel]) -> ServedModel:
    """The same of models, whose shapes are records themselves."""
    names = [entry.name for entry in fields(ServedModel) if entry.name != "shape"]
    numbers = {name: np.array([getattr(model, name) for model in models], float) for name in names}
    return ServedModel(shape=stacked([model.shape for model in models]), **numbers)


# Fitting -------------------------------------------------------------------------------------------------------------


@cache
def priors() -> dict[str, tuple[float, float]]:
    """Prior of each fitted constant by its key in the catalogue: what it is expected to be, and its relative spread."""
    tables = tomli.loads(PRIORS.read_text(encoding="utf-8"))
    return {
        f"{kind}.{group}.{name}": (
            parse(value["typical"], "s" if isinstance(value["typical"], str) else "1"),
            value["spread"],
        )
        for kind, groups in tables.items()
        for group, names in groups.items()
        for name, value in names.items()
    }


def reading(logs: Floats) -> Sampling:
    """Constants from a fit's vector of logarithms, the rest typical. Leading axes of the vector lead."""
    values = np.exp(logs)
    return Sampling(fitted={key: values[..., index][..., None] for index, key in enumerate(priors())})


def residuals(data: Points) -> Callable[[Floats], Floats]:
    """Errors of a vector of constants on the logarithm: time per token or maximum throughput, then first token."""
    per_token, first, most = measured(data)

    def of(logs: Floats) -> Floats:
        state = data.steady(reading(logs))
        speed = np.log(np.asarray(throughput(state, data)) / most)
        time = np.log(np.asarray(state.time_per_token) / per_token)
        main = np.where(np.isfinite(most), speed, np.where(np.isfinite(per_token), time, 0.0))
        start = np.clip(np.log(np.asarray(state.first_token) / first), -FIRST_TOKEN_REACH, FIRST_TOKEN_REACH)
        return np.concatenate([main, FIRST_TOKEN_WEIGHT * np.where(np.isfinite(first), start, 0.0)], axis=-1)

    return of


def measured(data: Points) -> Floats:
    """What was measured of every row: time per token, time to first token, and throughput where it is the most."""
    return np.array(
        [[row.time_per_token, row.first_token, row.throughput if row.offline else np.nan] for row in data.rows]
    ).T


def throughput(state: SteadyState, data: Points) -> Array:
    """Output tokens per second and GPU of every row [1/s]."""
    lengths = np.array([row.question.output_tokens for row in data.rows])
    return state.requests * lengths / data.layout.gpus


def fit(data: Points, keep: NDArray[np.bool_], start: Floats | None = None, steps: int = 25) -> Floats:
    """Logarithms of the constants that fit the kept rows best, from the priors.

    Each source weighs the root of its rows.
    """
    centre = np.log([typical for typical, _ in priors().values()])
    spread = np.array([width for _, width in priors().values()])
    sources = np.array([row.source for row in data.rows])
    count = {name: int((keep & (sources == name)).sum()) for name in set(sources)}
    weight = np.array([count[name] ** -0.5 if count[name] else 0.0 for name in sources]) * keep
    begin = centre if start is None else start
    twice = np.concatenate([weight, weight])
    return robust_fit(residuals(data), (centre, spread), twice, SIGMA, begin, steps, damping=1e-2, enough=1e-2)


KINDS: Mapping[str, Callable[[ServingRow], str]] = {
    "source": lambda row: row.source,
    "engine": lambda row: row.engine,
    "gpu": lambda row: row.question.gpu,
    "model": lambda row: str(row.question.model),
}
"""What can be left out of a fit, each in turn."""
UNSEEN = tuple(kind for kind in KINDS if kind != "source")


def left_out(data: Points, whole: Floats, kind: str = "source") -> dict[str, Floats]:
    """The fit without each source in turn, or without each of another of `KINDS`."""
    names = np.array([KINDS[kind](row) for row in data.rows])
    return {name: fit(data, names != name, whole, steps=8) for name in dict.fromkeys(names)}


# Report --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServingPrediction:
    """A row beside what the planner says of it: times and throughput, with the ends of their bands."""

    row: ServingRow
    family: str
    """What the engine has kernels of its own for: see `serving_inputs.family`."""
    time_per_token: tuple[float, float, float]
    first_token: tuple[float, float, float]
    throughput: tuple[float, float, float]


def predictions(rows: Sequence[ServingRow], catalog: Catalog, leave_one_out: bool) -> list[ServingPrediction]:
    """Every row that states its layout, predicted with its band; each source by a fit without it where so wished."""
    kind = "source" if leave_one_out else ""
    return predictions_without(rows, catalog, [kind])[kind]


def predictions_without(
    rows: Sequence[ServingRow], catalog: Catalog, kinds: Sequence[str]
) -> dict[str, list[ServingPrediction]]:
    """The same for several of `KINDS`, each of a kind by a fit without it; blank: by the catalogue's constants.

    A row whose tensor parallelism leaves its domain is predicted by itself: its all-reduce depends on its own links.
    """
    stated = [row for row in rows if row.layout]
    alone = [row for row in stated if row.layout and row.layout.tensor > look_up(row.question, catalog).domain]
    blocks = [[row for row in stated if row not in alone], *([row] for row in alone)]
    fits = _fits_without(catalog, [kind for kind in kinds if kind])
    places = {id(row): place for place, row in enumerate(stated)}
    by_kind: dict[str, list[ServingPrediction]] = {kind: [] for kind in kinds}
    for block in filter(None, blocks):
        for kind, predicted in _predicted(block, catalog, kinds, fits).items():
            by_kind[kind] += predicted
    return {kind: sorted(by_kind[kind], key=lambda each: places[id(each.row)]) for kind in kinds}


Fits = Mapping[str, Mapping[str, Floats]]
"""Of each of `KINDS` the fits without one, by what each is without."""


def _fits_without(catalog: Catalog, kinds: Sequence[str]) -> Fits:
    if not kinds:
        return {}
    published, _ = read(MEASUREMENTS, catalog)
    fitted = points([row for row in published if row.layout and row.tier == "core"], catalog)
    whole = fit(fitted, np.ones(len(fitted.rows), bool))
    return {kind: left_out(fitted, whole, kind) for kind in kinds}


def _predicted(
    rows: Sequence[ServingRow], catalog: Catalog, kinds: Sequence[str], fits: Fits
) -> dict[str, list[ServingPrediction]]:
    """The same of rows whose tensor parallelism stays in their domains, or of one."""
    data = points(rows, catalog)
    shipped, drawn = figures(data.steady(), data), drawn_figures(data)
    ends = []
    for place, name in enumerate(("time_per_token", "first_token", "throughput")):
        errors = np.array([residual(name, row_setting, catalog) for row_setting in data.settings])
        ends.append(interval(drawn[place].T, errors))
    lowest, highest = np.moveaxis(np.array(ends), 1, 0)

    def predicted(typical: Floats) -> list[ServingPrediction]:
        scale = typical / drawn[:, 0]
        bands = np.stack([typical, lowest * scale, highest * scale], axis=-1).tolist()
        return [
            ServingPrediction(row, row_setting.family, tuple(token), tuple(first), tuple(rate))
            for row, row_setting, token, first, rate in zip(rows, data.settings, *bands, strict=True)
        ]

    by_kind = {}
    for kind in kinds:
        typical = shipped
        for name, logs in fits.get(kind, {}).items():
            names = np.array([KINDS[kind](row) for row in rows])
            if (names == name).any():
                typical = np.where(names == name, figures(data.steady(reading(logs)), data), typical)
        by_kind[kind] = predicted(typical)
    return by_kind


def figures(state: SteadyState, data: Points) -> Floats:
    """Time per token, time to first token and throughput of every row: the first axis; rows are the last."""
    count = len(data.rows)
    several = [np.asarray(part) for part in (state.time_per_token, state.first_token, throughput(state, data))]
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in several))
    values = np.stack([np.broadcast_to(part, (*lead, count)) for part in several])
    return values[:, 0] if lead == (1,) else values


def drawn_figures(data: Points) -> Floats:
    """The same with draws of the constants, the second axis: so many at a time that they need little memory."""
    draws = np.arange(0, N_DRAWS, EVERY)
    pieces = np.array_split(draws, -(-len(draws) // AT_ONCE))
    return np.concatenate([figures(data.steady(partial(_draws_of, piece)), data) for piece in pieces], axis=1)


def _draws_of(draws: NDArray[np.intp], estimate: Estimate) -> Floats:
    return estimate.draws()[draws, None]


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Predict every row of a file and say how far off, by tier and by group."""
    rows, skipped = read(path, catalog)
    by_kind = predictions_without(rows, catalog, tuple(KINDS) if leave_one_out else ("",))
    predicted = by_kind["source" if leave_one_out else ""]
    searched = [row for row in rows if row.searched]
    best, without = best_configuration(searched, catalog)
    report = summary(predicted, [*skipped, *without], leave_one_out)
    report |= {"best_configuration": best, "taken": taken_for(rows)}
    return report | ({"unseen": unseen(by_kind)} if leave_one_out else {})


def unseen(by_kind: Mapping[str, Sequence[ServingPrediction]]) -> dict[str, dict[str, Statistics]]:
    """Errors on core rows of each engine, GPU and model by a fit that saw none of it: what to expect of another."""
    errors = {}
    for kind in UNSEEN:
        core = [p for p in by_kind[kind] if p.row.tier == "core"]
        errors[kind] = {name: score(several) for name, several in compared(core).items()}
    return errors


def summary(
    predicted: Sequence[ServingPrediction], skipped: Sequence[Mapping[str, str]], leave_one_out: bool
) -> dict[str, Any]:
    """The report of predictions already made, without those of layouts that the planner has to find."""
    return {
        "rows": len(predicted),
        "skipped": list(skipped),
        "leave_one_out": leave_one_out,
        **{tier: tier_report([p for p in predicted if p.row.tier == tier]) for tier in TIERS},
        "decisions": decisions([p for p in predicted if p.row.tier == "core"]),
    }


def tier_report(predicted: Sequence[ServingPrediction]) -> dict[str, Any]:
    """How far off a tier's rows are: time per token, throughput at its maximum, time to first token."""
    return {name: by_group(several) for name, several in compared(predicted).items()}


Compared = tuple[ServingPrediction, float, tuple[float, float, float]]


def compared(predicted: Sequence[ServingPrediction]) -> dict[str, list[Compared]]:
    """What was measured of rows, each beside its prediction."""
    several: dict[str, list[Compared]] = {
        "tpot": [(p, p.row.time_per_token, p.time_per_token) for p in predicted],
        "throughput": [(p, p.row.throughput, p.throughput) for p in predicted if p.row.offline],
        "ttft": [(p, p.row.first_token, p.first_token) for p in predicted],
    }
    return {
        name: [comparison for comparison in comparisons if comparison[1] > 0] for name, comparisons in several.items()
    }


def by_group(comparisons: Sequence[Compared]) -> dict[str, Any]:
    """Statistics of what was measured, overall and by source, engine, GPU, model and family of models."""
    keys: dict[str, Callable[[Compared], str]] = {
        "by_source": lambda compared: compared[0].row.source,
        "by_engine": lambda compared: compared[0].row.engine,
        "by_gpu": lambda compared: compared[0].row.question.gpu,
        "by_model": lambda compared: compared[0].row.question.model,
        "by_family": lambda compared: compared[0].family,
    }
    return score(comparisons) | {name: grouped(comparisons, key, score) for name, key in keys.items()}


def score(comparisons: Sequence[Compared]) -> Statistics:
    """Statistics of some comparisons."""
    return statistics(
        [typical for _, _, (typical, _, _) in comparisons],
        [measured for _, measured, _ in comparisons],
        [low for _, _, (_, low, _) in comparisons],
        [high for _, _, (_, _, high) in comparisons],
    )


def best_configuration(
    rows: Sequence[ServingRow], catalog: Catalog
) -> tuple[dict[str, Statistics], list[dict[str, str]]]:
    """Throughput of submissions whose layout is not stated: the planner's own best under the row's limits.

    Beside it the rows that have none to compare, and why.
    """
    compared: dict[str, list[tuple[float, float]]] = {"offline": [], "server": []}
    skipped = []
    answers: dict[str, float] = {}
    for row in rows:
        query = row.question.query()
        if row.throughput > 0 and query not in answers:
            answers[query] = best_throughput(row.question, catalog)
        if not row.throughput > 0:
            skipped.append({"run": row.id, "reason": "no measured throughput"})
        elif answers[query] > 0:
            compared["offline" if row.offline else "server"].append((answers[query], row.throughput))
        else:
            skipped.append({"run": row.id, "reason": "the planner has no layout that keeps its limits"})
    scores = {
        name: statistics([predicted for predicted, _ in pairs], [measured for _, measured in pairs])
        for name, pairs in compared.items()
    }
    return scores, skipped


def best_throughput(question: ServingQuestion, catalog: Catalog) -> float:
    """Output tokens per second and GPU of all GPUs with the best layout under the limits; 0 where none keeps them."""
    it = setting(question, look_up(question, catalog), None, catalog)
    inputs, limits = serving_inputs(it, catalog), limits_of(question, catalog.serving["tails"])
    tried = up_to_limits(try_all(it, inputs, question.gpus), limits, it, inputs)
    place = tried.best(limits, question.gpus)
    return float(tried.together(question.gpus)[place]) / question.gpus * question.output_tokens if place else 0.0


LIMITS = 10
"""Limits on the time per token that decisions are tried under, in each group of comparable measurements."""
ROUND_LIMITS = tuple(1e-3 * decade * step for decade in (1, 10, 100) for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
"""Limits as planners set them, which no measured point lies at but by chance [s]."""
KEPT = 1.1
"""A limit counts as kept where the measured time is no more than a tenth above it."""


def decisions(predicted: Sequence[ServingPrediction]) -> dict[str, Any]:
    """What choosing by prediction costs: throughput lost against the best measured choice under a limit per token.

    Choices are the measured layouts and loads of one model, format, GPU, engine, release and pair of lengths. Limits
    are drawn between measured times, so the best choice often lies right at one: any prediction a little too slow then
    refuses it, and the next load measured is half of it. ``round_limits`` are choices under round limits between the
    fastest and the slowest point, as a planner sets them.
    """
    groups: dict[tuple[object, ...], list[ServingPrediction]] = {}
    for prediction in predicted:
        if prediction.row.time_per_token > 0 and prediction.row.throughput > 0:
            question = prediction.row.question
            lengths = question.input_tokens, question.output_tokens
            key = (prediction.row.source, prediction.row.engine, question.weights, lengths, question.software_date)
            groups.setdefault(key, []).append(prediction)
    drawn, rounded = [], []
    for members in groups.values():
        if len(members) >= 4:
            times = np.array([prediction.row.time_per_token for prediction in members])
            drawn += choices(members, np.quantile(times, np.linspace(0.1, 1, LIMITS)))
            rounded += choices(members, [limit for limit in ROUND_LIMITS if times.min() <= limit <= times.max()])
    return {"groups": len(groups), **cost_of_choices(drawn), "round_limits": cost_of_choices(rounded)}


class Choice(NamedTuple):
    """One choice by prediction: what it loses, whether it keeps the limit, whether the best was predicted over it."""

    loss: float
    kept: bool
    refused: bool


def choices(members: Sequence[ServingPrediction], limits: Iterable[float]) -> list[Choice]:
    """The choice by prediction among some measured points under each limit that any is predicted to keep."""
    measured = np.array([prediction.row.time_per_token for prediction in members])
    speed = np.array([prediction.row.throughput for prediction in members])
    guess = np.array([prediction.time_per_token[0] for prediction in members])
    rate = np.array([prediction.throughput[0] for prediction in members])
    outcomes = []
    for limit in limits:
        possible = guess <= limit
        if possible.any():
            choice = int(np.argmax(np.where(possible, rate, -1.0)))
            best = int(np.argmax(np.where(measured <= limit, speed, -1.0)))
            loss = max(0.0, 1 - float(speed[choice] / speed[best]))
            outcomes.append(Choice(loss, bool(measured[choice] <= KEPT * limit), not possible[best]))
    return outcomes


def cost_of_choices(outcomes: Sequence[Choice]) -> dict[str, Any]:
    """What some choices cost on average: all of them, and those whose best was not refused."""
    columns = np.array(outcomes, float).reshape(-1, 3).T
    lost, kept, refused = columns[0], columns[1], columns[2] > 0
    return {
        "choices": len(outcomes),
        "loss": mean_or_none(lost),
        "kept": mean_or_none(kept),
        "refused": mean_or_none(refused),
        "loss_otherwise": mean_or_none(lost[~refused]),
    }


def mean_or_none(values: NDArray[Any]) -> float | None:
    """The mean of some values, ``None`` of none."""
    return float(values.mean()) if values.size else None


def text(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    how = (
        "each source left out of the calibration in turn" if report["leave_one_out"] else "calibrated on these sources"
    )
    parts = [f"{report['rows']} rows predicted, {len(report['skipped'])} skipped; {how}."]
    for tier in TIERS:
        parts.append(table({name: report[tier][name] for name in ("tpot", "throughput", "ttft")}, tier))
    for name in ("by_source", "by_engine", "by_gpu", "by_model", "by_family"):
        parts.append(table(report["core"]["tpot"][name], f"core tpot {name.replace('_', ' ')}"))
    if report["leave_one_out"]:
        parts.append(table(never_seen(report["unseen"]), "never seen by the fit"))
    parts.append(table(report["best_configuration"], "best configuration"))
    if said := taken_text(report["taken"]):
        parts.append(said)
    drawn = report["decisions"]
    for limits, chosen in (("a limit between measured times", drawn), ("a round limit", drawn["round_limits"])):
        if chosen["choices"]:
            parts.append(
                f"{chosen['choices']} choices under {limits}: {chosen['loss']:.1%} of the best throughput lost on "
                f"average, {chosen['kept']:.1%} of the limits kept. {chosen['refused']:.1%} refuse the best, which is "
                f"predicted over the limit; the others lose {chosen['loss_otherwise'] or 0:.1%}."
            )
    reasons = Counter(entry["reason"] for entry in report["skipped"])
    if reasons:
        parts.append("Skipped:\n" + "\n".join(f"  {count} rows: {reason}" for reason, count in reasons.most_common()))
    return "\n\n".join(parts)
