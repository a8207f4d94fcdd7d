"""How far a result of one plan is from that of another, with a range of its own.

Two plans rest on the same constants: a dear market is dear for both. Their difference is taken draw by draw, so it is
often known far better than either, and where its range spans zero nobody can tell which is more.

The typical difference is that of typical constants, and may stand at an end of its range: between 1,024 H100 on
InfiniBand and on RoCE it is least at typical prices, for cheap switches for Ethernet are cheaper still where all are
cheap, and modules for InfiniBand dearer still where all are dear.
"""

import numpy as np
from numpy.typing import NDArray

from app.plan.band import Band, Draws, interval, nan_is_an_answer
from app.plan.job.breakdown import erring
from app.plan.result import Plan

ERRS_ALIKE = ("gpu", "model", "stack", "engine")
"""Inputs on which the errors of the step, of memory and of serving rest: where they agree, two plans err alike."""
OF_ALL_REDUCE = ("gpu", "scale_up", "scale_out")
"""The same of the all-reduce."""


def err_alike(path: str, first: Plan, other: Plan) -> bool:
    """Whether the model errs by the same in a result of two plans, so that the error is none of their difference."""
    names = OF_ALL_REDUCE if path.startswith("all_reduce.") else ERRS_ALIKE
    return all(first.scenario.get(name) == other.scenario.get(name) for name in names)


@nan_is_an_answer
def differences(first: Draws, other: Draws, alike: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draws of the difference of two results and of their ratio less one, the typical value first.

    Each draw of both has the model's own error. Where they err ``alike`` they share the smaller one.

    >>> cheap, dear = Draws(np.array([2.0, 1.0, 3.0])), Draws(np.array([3.0, 2.0, 4.0]))
    >>> [draws.tolist() for draws in differences(cheap, dear, alike=True)]
    [[1.0, 1.0, 1.0], [0.5, 1.0, 0.33333333333333326]]
    """
    shared = min(first.residual, other.residual) if alike else 0.0
    before, after = _with_error(first, shared, "first"), _with_error(other, shared, "other")
    return after - before, after / before - 1


def _with_error(result: Draws, shared: float, own_key: str) -> NDArray[np.float64]:
    """Draws of a result with the model's error: that which it shares with another, and its own."""
    values = result.values.ravel()
    if values.size < 2:
        return values.copy()
    unshared = float(np.sqrt(result.residual**2 - shared**2))
    return values * erring(values.size, shared) * erring(values.size, unshared, f"residual.{own_key}")


def ranges(first: Draws, other: Draws, alike: bool, unit: str) -> tuple[Band, Band] | None:
    """The difference of two results, in their unit, and the relative one; ``None`` where one of them is unknown.

    They rest on what the results themselves rest on.
    """
    absolute, relative = differences(first, other, alike)
    if not (np.isfinite(absolute[0]) and np.isfinite(relative[0])):
        return None
    return _band(absolute, unit), _band(relative, "1")


def is_unclear(change: Band) -> bool:
    """Whether the range of a difference has both signs: nobody can tell which is more."""
    return change.low < 0 < change.high


def is_one_sided(change: Band) -> bool:
    """Whether the typical value stands at an end of the range: nearly all draws move it the same way.

    >>> is_one_sided(Band(-1.2, -0.8, -0.8, "USD")), is_one_sided(Band(-1.2, -0.9, -0.8, "USD"))
    (True, False)
    >>> is_one_sided(Band(1.0, 1.0, 1.0, "USD"))
    False
    """
    nearest = min(change.typical - change.low, change.high - change.typical)
    return nearest < AT_AN_END * (change.high - change.low)


AT_AN_END = 0.05
"""Share of a range within which a value stands at its end [1]."""


def _band(draws: NDArray[np.float64], unit: str) -> Band:
    low, high = interval(draws)
    return Band(float(low), float(draws[0]), float(high), unit)
