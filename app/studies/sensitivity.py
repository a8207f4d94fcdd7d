"""Which inputs move a result most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.names import input_name
from app.plan.band import Draws, interval, nan_is_an_answer
from app.plan.declarations import figures, value_of
from app.plan.result import Parallelism, Plan
from app.plan.scenario import Scenario
from app.studies.scaling import with_parallelism
from app.studies.stages import stages


@dataclass(frozen=True)
class Swing:
    """How far one input moves a result through its own 80 % range."""

    name: str
    look: str
    low: float
    high: float
    source: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """The inputs that move a result most, largest first."""

    name: str
    unit: str
    typical: float
    swings: tuple[Swing, ...]


MOST_SWINGS = 10


@nan_is_an_answer
def sensitivity(
    scenario: Scenario, catalog: Catalog, chosen: Parallelism, result: str = "costs.per_run"
) -> Sensitivity:
    """The inputs whose ranges move a result most.

    Every constant was drawn independently for all results, so the logarithm of the result, regressed on the logarithms
    of its constants' draws, says how far each moves it alone. All prices of an edition move together and count as one.
    """
    declared = figures(Plan)[result]
    question = with_parallelism(scenario, chosen)
    answered = stages(question, catalog)
    draws: Draws = value_of(answered, result)
    step, run = answered.training.step_time, answered.training.time_to_train
    used = list(draws.used)
    if result == "costs.per_run":
        used += run.used
    inputs = _inputs(used)
    values = np.log(draws.values)
    typical_value = float(draws.values[0])
    if not inputs or not np.isfinite(values).all():
        return Sensitivity(declared.label, declared.unit, typical_value, ())
    logs = {key: np.log(np.maximum(estimate.draws(), 1e-300) / estimate.typical) for key, estimate in inputs.items()}
    # Prices swing further up than down: a slope for each side.
    columns = [side for row in logs.values() for side in (np.minimum(row, 0), np.maximum(row, 0))]
    slopes, *_ = np.linalg.lstsq(np.stack(columns, axis=1), values - values[0], rcond=None)
    swings = []
    lows, highs = interval(np.stack(list(logs.values())))
    for index, (key, estimate) in enumerate(inputs.items()):
        ends = slopes[2 * index] * lows[index], slopes[2 * index + 1] * highs[index]
        low, high = sorted(float(np.exp(values[0] + end)) for end in ends)
        name = "The price book" if key.startswith("prices.") else input_name(estimate, catalog)
        swings.append(Swing(name, _swing_look(key, scenario), low, high, estimate.source))
    error = draws.residual or (step.residual if result == "costs.per_run" else 0.0)
    if error:
        low, high = typical_value * float(np.exp(-error)), typical_value * float(np.exp(error))
        swings.append(Swing("The step model itself", "muted", low, high))
    swings.sort(key=lambda swing: swing.low - swing.high)
    return Sensitivity(declared.label, declared.unit, typical_value, tuple(swings[:MOST_SWINGS]))


def _inputs(used: Sequence[Estimate]) -> dict[str, Estimate]:
    """The uncertain constants by key; of the prices of an edition, which move together, the first."""
    uncertain: dict[str, Estimate] = {}
    for estimate in used:
        key = ".".join(estimate.key.split(".")[:2]) if estimate.key.startswith("prices.") else estimate.key
        if np.ptp(estimate.draws()) > 0 and estimate.typical > 0:
            uncertain.setdefault(key, estimate)
    return uncertain


def _swing_look(key: str, scenario: Scenario) -> str:
    kind = key.partition(".")[0]
    if kind in ("prices", "operations"):
        return "money"
    return {"collectives": scenario.scale_out, "scale_out": scenario.scale_out, "scale_up": "nvlink"}.get(
        kind, "compute"
    )
