"""The runners-up of the search for the best parallelism, and the cloud of all that fit."""

import numpy as np

from app.formulas.training import stacking
from app.formulas.training import step as training_step
from app.formulas.training.search import SearchResult
from app.plan.job.breakdown import PART_NAMES, step_parts
from app.plan.job.inputs import JobSetup, named
from app.plan.result import Alternative
from app.units import percent, show

SCATTER_POINTS = 400
"""Configurations drawn as points."""
ALTERNATIVES = 6
"""Runners-up shown."""
RUNNER_UP_POOL = 2000
"""Configurations among which they are looked for."""


def configurations(search: SearchResult, step: float) -> tuple[tuple[float, float], ...]:
    """Step time and memory of the configurations timed, thinned evenly; the quickest, which takes ``step``, first."""
    count = len(search.time)
    if count == 1:
        return ((step, float(search.memory[0])),)
    timed = np.flatnonzero(np.isfinite(search.time))
    spread = np.linspace(0, max(len(timed) - 1, 0), min(len(timed), SCATTER_POINTS))
    rows = timed[np.unique(spread.astype(int))]
    return tuple(zip(search.time[rows].tolist(), search.memory[rows].tolist(), strict=True))


def alternatives(setup: JobSetup, search: SearchResult) -> tuple[Alternative, ...]:
    """The best configurations after the chosen one, one for each choice of degrees, with what costs them most.

    None whose step never ends, as on a link that carries next to nothing.
    """
    if len(search.time) < 2:
        return ()
    first: dict[tuple[float, ...], int] = {}
    columns = [getattr(search.parallelism, name) for name in ("tensor", "pipeline", "context", "expert")]
    for row, degrees in enumerate(zip(*(column[:RUNNER_UP_POOL].tolist() for column in columns), strict=True)):
        first.setdefault(degrees, row)
        if len(first) > ALTERNATIVES:
            break
    rows = [row for row in first.values() if np.isfinite(search.time[row])]
    if len(rows) < 2:
        return ()
    some = stacking.rows_of(search.parallelism, np.array(rows))
    n = setup.inputs
    sent = n.exchanges(some)
    layer, step = training_step.layer_and_step(n.shape, n.job, n.hardware, some, n.software, n.calibration, sent)
    parts = {
        name: np.broadcast_to(value, np.shape(step.time))
        for name, value in step_parts(layer, step, n.calibration).items()
    }
    alternatives = []
    for at, row in enumerate(rows[1:], start=1):
        slower = {name: float(value[at] - value[0]) for name, value in parts.items()}
        worst = max(slower, key=lambda name: slower[name])
        lost = search.time[row] / search.time[0] - 1
        why = f"{percent(lost, 1)} slower: {show(slower[worst], '1')} s more for {PART_NAMES[worst]}"
        alternatives.append(
            Alternative(
                named(stacking.row(search.parallelism, row), n),
                float(search.time[row]),
                float(search.memory[row]),
                why,
            )
        )
    return tuple(alternatives)
