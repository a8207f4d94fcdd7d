"""How likely a result keeps a limit, and which limit it keeps as likely as asked."""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Z90
from app.plan.band import Draws

SAFE = 0.9
"""The chance of each limit from which on a cluster is called safe."""


def chance(value: Draws, limit: float | None) -> float | None:
    """How likely a result keeps a limit: over its draws, each spread by the model's own error.

    >>> chance(Draws(np.array([2.0, 1.0, 2.0, 3.0, 4.0])), 2.5)
    0.5
    """
    return joint_chance((value, limit))


def joint_chance(*limited: tuple[Draws, float | None]) -> float | None:
    """How likely results keep their limits all at once; a limit that is not given is kept.

    They come of the same draws, and the model's own error is one for all: a run that is late costs more too.

    >>> slow, dear = Draws(np.array([2.0, 1.0, 3.0, 2.0, 4.0])), Draws(np.array([2.0, 4.0, 1.0, 2.0, 3.0]))
    >>> chance(slow, 3.0), chance(dear, 3.0), joint_chance((slow, 3.0), (dear, 3.0))
    (0.75, 0.75, 0.5)
    """
    rooms = [_room(value, limit) for value, limit in limited if limit is not None]
    if not rooms or not all(np.isfinite(value.values.ravel()[1:]).any() for value, _ in limited):
        return None
    least = np.minimum.reduce(rooms)
    return math.fsum(NormalDist().cdf(room) for room in least) / len(least)


def _room(value: Draws, limit: float) -> NDArray[np.float64]:
    """How many deviations of the model's own error each draw is below a limit; infinite where it has none."""
    draws = value.values.ravel()[1:]
    if not value.residual:
        return np.where(draws <= limit, np.inf, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        rooms = np.log(limit / draws) / (value.residual / Z90)
    return np.where(draws > 0, rooms, -np.inf)


def safe_limit(value: Draws) -> float:
    """The least limit that a result keeps in nine cases of ten, to a thousandth; infinite where none is.

    >>> round(safe_limit(Draws(np.array([2.0, *range(1, 11)]))), 2)
    9.0
    """
    draws = value.values.ravel()[1:]
    low, high = float(np.nanmin(draws, initial=np.inf)), float(np.nanmax(draws, initial=0.0)) * 16
    if not 0 < low < high < np.inf or (chance(value, high) or 0.0) < SAFE:
        return math.inf
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if (chance(value, middle) or 0.0) >= SAFE else (middle, high)
    return high
