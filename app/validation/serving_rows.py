"""Published operating points of serving: each row of a file as a question, with the layout and load that it states."""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.catalog.load import Catalog
from app.formulas.serving.serving_arguments import Layout
from app.plan.serving.serving_request import ServingQuestion
from app.validation import statistics
from app.validation.row_names import dense_size, gpu_named, model_named

MEASUREMENTS = Path(__file__).parent / "measurements" / "serving.csv"

ENGINES = ((r"vllm", "vllm"), (r"sglang", "sglang"), (r"trt|tensorrt", "tensorrt-llm"))
"""Engines by what their names contain, whatever hands requests to them."""
USUAL_ENGINE = "vllm"
"""What stands in for an engine that is not known."""
FORMATS = (
    (r"^mxfp4", "mxfp4"),
    (r"^(?:nvfp4|fp4)", "nvfp4"),
    (r"int4|w4a|awq|gptq", "int4"),
    (r"fp8|w8a8|int8", "fp8"),
    (r"^(?:b?fp?|b?float)16|^half|^none$", "bf16"),
)
"""Number formats of weights by what is written of them; 8-bit integers take as many bytes as FP8."""
AGGREGATED = (None, "", "aggregated", "static", "colocated", "mixed")
"""One pool for prompts and tokens, which is what is meant where nothing is said."""
TIERS = ("core", "stress")
"""What is predicted; other rows lack what decides their speed, or contradict one another."""
BEST = "best-configuration"
"""What submitters of benchmarks found best, who tune their kernels too."""
NOT_SPECULATIVE = ("", "none", "no", "off", "false", "0")
OFFLINE = ("offline", "offline-maximum", "mlperf-offline", "static-batch")
POISSON = ("mlperf-server", "mlperf-interactive")
"""By the benchmark's rules requests come at random, as a Poisson process, and limits hold for the 99th percentile."""


@dataclass(frozen=True)
class ServingRow:
    """One operating point: the question it answers, how it was laid out, and what was measured."""

    id: str
    tier: str
    source: str
    engine: str
    question: ServingQuestion
    layout: Layout | None
    concurrency: float
    time_per_token: float
    first_token: float
    throughput: float
    searched: bool
    """Whether it is the best that its submitter found, by a layout that it does not state."""
    taken: tuple[str, ...] = ()
    """What of it is taken for something else."""

    @property
    def offline(self) -> bool:
        """Whether it is the most that the system answers, with a queue that is never empty."""
        return self.question.arrivals == "offline"

    @property
    def replicas(self) -> float:
        """Replicas that the row's GPUs make."""
        return self.question.gpus / float(self.layout.gpus) if self.layout else 1.0


def number(text: str | None) -> float:
    """A number, or NaN where the source does not say."""
    value = statistics.number(text)
    return nan if value is None else value


def release_year(text: str) -> float | None:
    """Year and month of a date as a year, the middle of the month; ``None`` where the source does not say.

    >>> release_year("2025-07-01"), release_year("2024"), release_year("")
    (2025.5416666666667, 2024.5, None)
    """
    parts = text.split("-")
    if not parts[0].isdigit():
        return None
    return float(parts[0]) + ((float(parts[1]) - 0.5) / 12 if len(parts) > 1 else 0.5)


def read(path: Path, catalog: Catalog) -> tuple[list[ServingRow], list[dict[str, str]]]:
    """The rows of a file that can be predicted, and why the others cannot."""
    rows: list[ServingRow] = []
    skipped: list[dict[str, str]] = []
    with path.open(newline="", encoding="utf-8") as file:
        for place, printed in enumerate(csv.DictReader(file), start=2):
            fields, taken = in_words(printed, catalog)
            name = fields.get("id") or f"line {place}"
            reason = refusal(fields, catalog)
            if reason:
                skipped.append({"run": name, "reason": reason})
                continue
            try:
                rows.append(replace(row_of(name, fields, catalog), taken=taken))
            except ValidationError as error:
                first = error.errors()[0]
                skipped.append({"run": name, "reason": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"})
    return rows, skipped


def in_words(row: Mapping[str, str], catalog: Catalog) -> tuple[dict[str, str], tuple[str, ...]]:
    """A row in the words of the product, and what of it is taken for something else.

    Lengths of which no mean is stated are as they were asked for.
    """
    cells = {name: (value or "").strip() for name, value in row.items() if isinstance(name, str)}
    gpu = gpu_named(cells.get("gpu", ""), catalog)
    changed: dict[str, str] = {
        name: cells[name].lower() for name in ("tier", "mode", "engine", "scenario", "speculative") if name in cells
    }
    changed["gpu"] = gpu.key or cells.get("gpu", "")
    model = cells.get("model", "")
    changed["model"] = model_named(model, catalog) or dense_size(model) or model
    engine = changed.get("engine", "")
    changed["engine"] = engine_named(engine) or USUAL_ENGINE
    for length in ("input_tokens", "output_tokens"):
        changed[f"mean_{length}"] = cells.get(f"mean_{length}") or cells.get(length, "")
    weights = (cells.get("weights") or cells.get("precision") or "bf16").lower()
    changed["weights"] = number_format(weights)
    sized = changed["model"] not in catalog.models and dense_size(model)
    by_rule = f"shape of {model} by rule from its size" if sized else ""
    return cells | changed, tuple(filter(None, (gpu.taken, by_rule, *_taken(engine, weights))))


def engine_named(text: str) -> str:
    """The engine that a text names; blank where it is another.

    >>> engine_named("vllm 0.10"), engine_named("trtllm"), engine_named("lmdeploy")
    ('vllm', 'tensorrt-llm', '')
    """
    return next((name for pattern, name in ENGINES if re.search(pattern, text)), "")


def number_format(text: str) -> str:
    """The format of weights that a text names; the text where it is none that is known.

    >>> number_format("fp8_block"), number_format("fp4"), number_format("awq"), number_format("bfloat16")
    ('fp8', 'nvfp4', 'int4', 'bf16')
    """
    return next((name for pattern, name in FORMATS if re.search(pattern, text)), text)


def _taken(engine: str, weights: str) -> Iterator[str]:
    """What stands in for what a row states."""
    if not engine_named(engine):
        yield f"engine {engine} taken for {USUAL_ENGINE}" if engine else f"no engine stated, taken for {USUAL_ENGINE}"
    if "int8" in weights:
        yield f"weights in {weights} taken for fp8"


def refusal(fields: Mapping[str, str], catalog: Catalog) -> str:
    """Why a row in the words of `in_words` is not predicted; blank where it is."""
    if (fields.get("tier") or "core") not in TIERS:
        return f"set aside: {fields.get('note') or 'speculation, caches or layout unknown'}"
    if fields.get("speculative", "") not in NOT_SPECULATIVE:
        return "speculation is on or unknown"
    if fields.get("gpu") not in catalog.gpus:
        return f"the catalogue has no GPU {fields.get('gpu')!r}"
    if fields.get("model") not in catalog.models and not dense_size(fields.get("model", "")):
        return f"the catalogue has no model {fields.get('model')!r}"
    if not (number(fields.get("mean_input_tokens")) > 0 and number(fields.get("mean_output_tokens")) > 0):
        return "its lengths are not stated"
    if fields.get("mode") in ("decode-only", "prefill-only"):
        return "one pool alone"
    if fields.get("mode") == BEST:
        return ""
    if fields.get("mode") not in AGGREGATED:
        return f"pools of its own for prompts and tokens, or another mode: {fields['mode']}"
    if not fields.get("tp"):
        return "its layout is not stated"
    if fields.get("scenario") not in OFFLINE and not number(fields.get("concurrency")) > 0:
        return "its load is not stated"
    return ""


def row_of(name: str, fields: Mapping[str, str], catalog: Catalog) -> ServingRow:
    """One row as a question and what was measured."""
    engine = fields["engine"]
    offline, poisson = fields.get("scenario") in OFFLINE, fields.get("scenario") in POISSON
    equal = fields.get("mean_input_tokens") == fields.get("input_tokens")
    stated = bool(fields.get("tp")) and fields.get("mode") in AGGREGATED
    mixture = fields["model"] in catalog.models and bool(catalog.models[fields["model"]].experts)
    layout = layout_of(fields, mixture) if stated else None
    settings: dict[str, Any] = {
        "gpu": fields["gpu"],
        "gpus": max(int(degree(fields.get("gpus"))), int(layout.gpus) if layout else 1),
        "model": fields["model"],
        "engine": engine,
        "weights": fields["weights"],
        "input_tokens": number(fields["mean_input_tokens"]),
        "output_tokens": number(fields["mean_output_tokens"]),
        "software_date": release_year(fields.get("date", "")) or catalog.engines[engine].constants_year,
        "arrivals": "offline" if offline else "steady" if poisson else "waves" if equal else "benchmark",
        "percentile": "p99" if poisson else "mean",
        "tuned_kernels": fields.get("mode") == BEST,
        "ttft_limit": limit(fields.get("ttft_limit_s")),
        "tpot_limit": limit(fields.get("tpot_limit_s")),
    }
    return ServingRow(
        id=name,
        tier=fields.get("tier") or "core",
        source=fields.get("source") or "",
        engine=engine,
        question=ServingQuestion.model_validate(settings, context={"catalog": catalog}),
        layout=layout,
        concurrency=number(fields.get("concurrency")),
        time_per_token=statistics.reading(fields.get("tpot_s")) or nan,
        first_token=statistics.reading(fields.get("ttft_s")) or nan,
        throughput=statistics.reading(fields.get("output_tokens_per_s_per_gpu")) or nan,
        searched=fields.get("mode") == BEST,
    )


def limit(text: str | None) -> float | None:
    """A limit, where the source states one."""
    value = number(text)
    return value if value > 0 else None


def degree(text: str | None) -> float:
    """Ranks of a kind, or one where the source does not say."""
    return max(statistics.reading(text) or 1.0, 1.0)


def layout_of(fields: Mapping[str, str], experts: bool) -> Layout:
    """The layout that a row states; experts are not dealt out where it does not say so."""
    tensor, ranks = degree(fields.get("tp")), degree(fields.get("attention_dp"))
    return Layout(
        tensor=tensor,
        attention_data=ranks,
        expert=min(degree(fields.get("ep")), tensor * ranks) if experts else 1.0,
        pipeline=degree(fields.get("pp")),
    )
