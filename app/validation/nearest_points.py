"""Published operating points nearest to a question, each beside what the planner says of it."""

import csv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf, isfinite, log
from sys import intern

from app.catalog.load import Catalog
from app.plan.scenario import Scenario
from app.plan.serving.serving_inputs import engine_key, formats
from app.plan.serving_result import NearestPoint
from app.validation import serving_rows, serving_runs
from app.validation.serving_rows import number, number_format

NEAREST = 4
"""Points that are shown."""
OTHER_GPU, OTHER_FORMAT, OTHER_ENGINE = 1.0, 0.5, 0.25
"""How far another GPU, format of weights or engine is, where one e-fold of a length is 1."""


@lru_cache(maxsize=2)
def _measured(catalog: Catalog) -> Mapping[str, Sequence[dict[str, str]]]:
    """Rows that were measured as they state, by model. Kept: reading the file takes 60 ms. Of one object are texts that
    rows have in common.
    """
    rows: dict[str, list[dict[str, str]]] = {}
    with serving_rows.MEASUREMENTS.open(newline="", encoding="utf-8") as file:
        for printed in csv.DictReader(file):
            row, _ = serving_rows.in_words(printed, catalog)
            if row["mode"] == "aggregated" and row["tp"] and not serving_rows.refusal(row, catalog):
                rows.setdefault(row["model"], []).append({name: intern(text) for name, text in row.items()})
    return rows


def nearest_points(question: Scenario, time_per_token: float | None, catalog: Catalog) -> tuple[NearestPoint, ...]:
    """The published points that are nearest in GPU, format, engine, lengths and speed, one for each load."""
    published = _measured(catalog).get(question.model, ())
    wanted = formats(question, catalog.gpus[question.gpu], catalog.engines[engine_key(question, catalog)], catalog)

    def distance(row: Mapping[str, str]) -> float:
        tpot = number(row["tpot_s"])
        if not (tpot > 0 and number(row["output_tokens_per_s_per_gpu"]) > 0 and number(row["concurrency"]) > 0):
            return inf
        apart = abs(log(number(row["mean_input_tokens"]) / question.input_tokens))
        apart += abs(log(number(row["mean_output_tokens"]) / question.output_tokens))
        apart += abs(log(tpot / time_per_token)) if time_per_token else 0.0
        apart += OTHER_GPU * (row["gpu"] != question.gpu)
        weights = number_format(row["experts"] or row["weights"])
        apart += OTHER_FORMAT * (weights != wanted.experts)
        return apart + OTHER_ENGINE * (question.engine is not None and row["engine"] != question.engine)

    nearest = sorted(((distance(row), place) for place, row in enumerate(published)))[:NEAREST]
    chosen = [(apart, published[place]) for apart, place in nearest if isfinite(apart)]
    neighbours = [(apart, serving_rows.row_of(row["id"], row, catalog), row["source_url"]) for apart, row in chosen]
    if not neighbours:
        return ()
    data = serving_runs.points([row for _, row, _ in neighbours], catalog)
    predicted = serving_runs.figures(data.steady(), data)
    return tuple(
        NearestPoint(
            source=row.source,
            url=url,
            gpu=row.question.gpu,
            engine=row.engine,
            input_tokens=row.question.input_tokens,
            output_tokens=row.question.output_tokens,
            concurrency=row.concurrency,
            measured=row.time_per_token,
            predicted=float(predicted[0][index]),
            throughput=row.throughput,
            distance=apart,
        )
        for index, (apart, row, url) in enumerate(neighbours)
    )
