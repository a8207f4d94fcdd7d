"""Published training steps nearest to a plan, each beside what the planner says of it."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from typing import Any

from app.catalog.load import Catalog
from app.units import show
from app.validation import training_rows, training_runs
from app.validation.statistics import number

NEAREST = 4
"""Runs that are shown, one of a source."""
OTHER_GPU, OTHER_ARCHITECTURE, OTHER_PRECISION, OTHER_KIND = 0.5, 1.0, 0.5, 1.5
"""How far another GPU, its architecture, precision, or experts are, where one e-fold of parameters is 1."""
PER_EFOLD_OF_GPUS = 0.5
SAME = 0.02
"""Relative difference up to which sizes count as the same."""


@dataclass(frozen=True)
class NearestRun:
    """A published step and the planner's own prediction of it, both in seconds, and how far the plan is from it."""

    source: str
    model: str
    gpu: str
    gpus: int
    measured: float
    predicted: float
    low: float
    high: float
    differs: str

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return self.predicted / self.measured - 1


@lru_cache(maxsize=2)
def _tuned(catalog: Catalog) -> Sequence[dict[str, str]]:
    """Rows that were tuned and can be predicted, as they are in the file. Kept: reading them takes 60 ms."""
    with training_runs.MEASUREMENTS.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if row["regime"] == "tuned" and not training_rows.refusal(row, catalog)]


def nearest_runs(plan: Mapping[str, Any], catalog: Catalog) -> Sequence[NearestRun]:
    """The runs nearest to a plan's scenario, its blanks filled in: the nearest one of each source, predicted."""
    gpu = catalog.gpus[plan["gpu"]]

    def distance(row: Mapping[str, str]) -> float:
        apart: float = abs(log(_width(row["layers"], row["hidden"]) / _width(plan["layers"], plan["hidden"])))
        apart += PER_EFOLD_OF_GPUS * abs(log(float(row["gpus"]) / plan["gpus"]))
        apart += OTHER_GPU * (row["gpu"] != gpu.key)
        apart += OTHER_ARCHITECTURE * (catalog.gpus[row["gpu"]].architecture != gpu.architecture)
        apart += OTHER_PRECISION * ((row["precision"] or "bf16") != plan["precision"])
        other_kind = bool(number(row["experts"])) != bool(plan["experts"])
        return apart + OTHER_KIND * other_kind

    nearest: dict[str, dict[str, str]] = {}
    for raw in sorted(_tuned(catalog), key=distance):
        nearest.setdefault(raw["group"], raw)
        if len(nearest) == NEAREST:
            break
    rows = [training_rows.row_of(raw["run"], raw, catalog) for raw in nearest.values()]
    predicted = training_runs.predictions(rows, catalog, leave_one_out=False)
    return [
        NearestRun(
            source=raw["source"].partition(";")[0],
            model=raw["model"],
            gpu=raw["gpu"],
            gpus=int(float(raw["gpus"])),
            measured=prediction.row.measured,
            predicted=prediction.time,
            low=prediction.low,
            high=prediction.high,
            differs=differs(raw, plan),
        )
        for raw, prediction in zip(nearest.values(), predicted, strict=True)
    ]


def differs(row: Mapping[str, str], plan: Mapping[str, Any]) -> str:
    """In what a plan is another question than a published run, in words; nothing where it is the same.

    >>> run = {"layers": "80", "hidden": "8192", "gpus": "512", "gpu": "h100-sxm", "precision": "", "experts": ""}
    >>> plan = {"layers": 80, "hidden": 8192, "gpus": 1024, "gpu": "h200-sxm", "precision": "bf16", "experts": 0}
    >>> differs(run, plan), differs(run, plan | {"gpu": "h100-sxm", "gpus": 512})
    ('another GPU, 2 × the GPUs', '')
    """
    size = _width(plan["layers"], plan["hidden"]) / _width(row["layers"], row["hidden"])
    gpus = plan["gpus"] / float(row["gpus"])
    kinds = {
        "a mixture of experts": bool(plan["experts"]) and not number(row["experts"]),
        "a dense model": bool(number(row["experts"])) and not plan["experts"],
        "another GPU": row["gpu"] != plan["gpu"],
        "another precision": (row["precision"] or "bf16") != plan["precision"],
        f"{show(size, '1', 2)} × the layers times width²": abs(size - 1) > SAME,
        f"{show(gpus, '1', 2)} × the GPUs": abs(gpus - 1) > SAME,
    }
    return ", ".join(words for words, holds in kinds.items() if holds)


def _width(layers: str | float, hidden: str | float) -> float:
    """Layers times the square of the width, with which a dense model's parameters go [1]."""
    width = float(hidden)
    return float(layers) * width * width
