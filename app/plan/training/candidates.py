"""The search for the best parallelism, its runners-up and the cloud of all that fit."""

import numpy as np

from app import search, training
from app.catalog import Catalog
from app.plan.hardware import Hardware
from app.plan.parts import Alternative
from app.plan.training.degrees import given, named
from app.plan.training.inputs import Numbers, numbers
from app.plan.training.parts import PART_NAMES, step_parts
from app.plan.training.shapes import shape
from app.scenario import Scenario
from app.transformer import Shape

CLOUD = 400
"""Configurations drawn as points."""
ALTERNATIVES = 6
"""Runners-up shown."""
BEHIND = 2000
"""Configurations among which they are looked for."""


def searched(scenario: Scenario, hardware: Hardware, catalog: Catalog) -> search.Found:
    """Every way to run the scenario's job that fits, quickest first."""
    model = shape(scenario, catalog)
    budget = catalog.training["memory"]["budget"].typical
    return search_with(scenario, model, numbers(scenario, hardware, model, catalog), given(scenario, catalog), budget)


def search_with(
    scenario: Scenario, model: Shape, n: Numbers, fixed: search.Given, budget: float, timed: bool = True
) -> search.Found:
    return search.best(model, n.job, n.hardware, n.software, n.calibration, scenario.gpus, fixed, budget, timed)


def cloud(found: search.Found, step: float) -> tuple[tuple[float, float], ...]:
    """Step time and memory of the configurations timed, thinned evenly; the quickest, which takes ``step``, first."""
    count = len(found.time)
    if count == 1:
        return ((step, float(found.memory[0])),)
    rows = np.unique(np.linspace(0, count - 1, min(count, CLOUD)).astype(int)) if count else np.array([], int)
    return tuple(zip(found.time[rows].tolist(), found.memory[rows].tolist(), strict=True))


def alternatives(model: Shape, n: Numbers, found: search.Found, fixed: search.Given) -> tuple[Alternative, ...]:
    """The best configurations after the chosen one, one for each choice of degrees, with what costs them most."""
    if len(found.time) < 2:
        return ()
    first: dict[tuple[float, ...], int] = {}
    columns = [getattr(found.parallelism, name) for name in ("tensor", "pipeline", "context", "expert")]
    for row, degrees in enumerate(zip(*(column[:BEHIND].tolist() for column in columns), strict=True)):
        first.setdefault(degrees, row)
        if len(first) > ALTERNATIVES:
            break
    if len(first) < 2:
        return ()
    rows = list(first.values())
    some = search.take(found.parallelism, np.array(rows))
    arguments = (n.job, n.hardware, some, n.software, n.calibration)
    one = training.layer(model, *arguments)
    head = training.head_time(model, n.job, n.hardware, some, n.calibration)
    step = training.assemble(one, head, model, *arguments)
    parts = {name: np.broadcast_to(value, np.shape(step.time)) for name, _, value in step_parts(one, step, some, n)}
    alternatives = []
    for at, row in enumerate(rows[1:], start=1):
        slower = {name: float(value[at] - value[0]) for name, value in parts.items()}
        worst = max(slower, key=lambda name: slower[name])
        lost = found.time[row] / found.time[0] - 1
        why = f"{lost:.1%} slower: {slower[worst]:.3g} s more for {PART_NAMES[worst]}"
        alternatives.append(
            Alternative(
                named(search.pick(found.parallelism, row), n.job, fixed.bubble < 1),
                float(found.time[row]),
                float(found.memory[row]),
                why,
            )
        )
    return tuple(alternatives)
