"""From draws to ranges: each result is low ≤ typical ≤ high with a unit and the sources that fed it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.catalog import Estimate

LOW, HIGH = 0.1, 0.9
Z90 = 1.2815515655446004
"""The standard normal deviate of the 90th percentile: half the width of an 80 % interval."""
EARLY = frozenset({"announced", "projected"})
"""What is not on sale yet."""
_SOURCE, _STATUS = attrgetter("source"), attrgetter("status")


@dataclass(frozen=True)
class Band:
    """An 80 % interval about a typical value, in a base unit, with the keys of the sources it rests on."""

    low: float
    typical: float
    high: float
    unit: str
    sources: tuple[str, ...] = ()
    projected: bool = False


class Draws(NamedTuple):
    """A result before it is folded: draws along the last axis, the typical value first.

    ``residual`` is the model's own relative error: the half-width of its 80 % interval on the logarithm.
    """

    values: NDArray[np.float64]
    unit: str
    used: tuple[Estimate, ...] = ()
    residual: float = 0.0


def fold(results: Mapping[str, Draws]) -> dict[str, Band | None]:
    """All results of a plan as bands, in one sort.

    The interval holds 80 % of the draws; the model's own error widens it on the logarithm,
    √(draws² + residual²), each side by itself. What is not a number is ``None``.

    >>> fold({"t": Draws(np.full(257, 2.0), "s")})["t"]
    Band(low=2.0, typical=2.0, high=2.0, unit='s', sources=(), projected=False)
    """
    if not results:
        return {}
    rows = results.values()
    table = np.empty((len(rows), max([row.values.size for row in rows])))
    for place, row in zip(table, rows, strict=True):
        place[:] = row.values
    typical = table[:, 0].tolist()
    low, high = _sorted_interval(table, np.array([row.residual for row in rows]))
    rests: dict[int, tuple[tuple[str, ...], bool]] = {}  # results of one part of the plan share what they rest on
    bands: dict[str, Band | None] = {}
    for (name, row), below, value, above in zip(results.items(), low.tolist(), typical, high.tolist(), strict=True):
        if not isfinite(value):
            bands[name] = None
            continue
        used = row.used
        if id(used) not in rests:
            rests[id(used)] = _provenance(used)
        sources, projected = rests[id(used)]
        bands[name] = Band(below, value, above, row.unit, sources, projected)
    return bands


def interval(
    values: NDArray[np.float64], residual: float | NDArray[np.float64] = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high of each result or curve point: draws along the last axis, widened by the model's own error.

    Where a value of zero or less allows no logarithm, the draws' own interval stands.
    """
    return _sorted_interval(values.copy(), residual)


def _sorted_interval(
    values: NDArray[np.float64], residual: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same, which leaves the draws in another order."""
    typical = values[..., 0].copy()
    last = values.shape[-1] - 1
    places = round(LOW * last), round(HIGH * last)
    values.partition(places, axis=-1)
    low, high = np.minimum(values[..., places[0]], typical), np.maximum(values[..., places[1]], typical)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        below = typical * np.exp(-np.hypot(np.log(typical / low), residual))
        above = typical * np.exp(np.hypot(np.log(high / typical), residual))
    exact = (np.asarray(residual) == 0) | (low <= 0)
    return np.where(exact, low, below), np.where(exact, high, above)


def _provenance(used: Sequence[Estimate]) -> tuple[tuple[str, ...], bool]:
    return tuple(dict.fromkeys(map(_SOURCE, used))), not EARLY.isdisjoint(map(_STATUS, used))
