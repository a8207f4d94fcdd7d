"""Time lost to failures, checkpoints and restarts."""

import numpy as np
from numpy.typing import NDArray

from app import training
from app.arrays import Array, larger, some
from app.catalog import Catalog, Estimate
from app.scenario import Scenario


def goodput(scenario: Scenario, catalog: Catalog) -> tuple[NDArray[np.float64], tuple[Estimate, ...]]:
    """Share of time that makes progress, as draws, and the estimates it rests on."""
    if scenario.availability is not None:
        return np.array([scenario.availability]), ()
    table = catalog.training["failures"]
    used: list[Estimate] = []

    def value(asked: float | None, name: str) -> Array:
        if asked is not None:
            return asked
        used.append(table[name])
        return table[name].draws()

    failures = scenario.gpus * value(scenario.failure_rate, "rate")
    if not some(failures > 0):
        return np.array([1.0]), tuple(used)
    checkpoint = value(scenario.checkpoint_time, "checkpoint_time")
    restart = value(scenario.restart_time, "restart")
    interval = scenario.checkpoint_interval or training.checkpoint_interval(failures, larger(checkpoint, 1e-3))
    return np.atleast_1d(training.goodput(failures, checkpoint, interval, restart)), tuple(used)
