"""From draws to ranges: each result is low ≤ typical ≤ high with a unit and the sources that fed it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.catalog import Estimate

LOW, HIGH = 0.1, 0.9
Z90 = 1.2815515655446004
"""The standard normal deviate of the 90th percentile: half the width of an 80 % interval."""


@dataclass(frozen=True)
class Band:
    """An 80 % interval about a typical value, in a base unit, with the keys of the sources it rests on."""

    low: float
    typical: float
    high: float
    unit: str
    sources: tuple[str, ...] = ()
    projected: bool = False


@dataclass(frozen=True)
class Draws:
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
    names = list(results)
    if not names:
        return {}
    width = max(np.size(draws.values) for draws in results.values())
    table = np.empty((len(names), width))
    for row, name in enumerate(names):
        table[row] = results[name].values
    typical = table[:, 0].copy()
    low, high = _interval(np.sort(table, axis=-1))
    bands: dict[str, Band | None] = {}
    for row, name in enumerate(names):
        draws = results[name]
        value = float(typical[row])
        if not np.isfinite(value):
            bands[name] = None
            continue
        below, above = widen(value, float(low[row]), float(high[row]), draws.residual)
        bands[name] = Band(below, value, above, draws.unit, *_provenance(draws.used))
    return bands


def _interval(ordered: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The 10th and 90th percentile of values sorted along the last axis."""
    last = ordered.shape[-1] - 1
    return ordered[..., round(LOW * last)], ordered[..., round(HIGH * last)]


def interval(
    values: NDArray[np.float64], residual: float | NDArray[np.float64] = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high of each curve point: draws along the last axis, widened by the model's own error."""
    low, high = _interval(np.sort(values, axis=-1))
    typical = values[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.hypot(np.log(typical / np.minimum(low, typical)), residual)
        above = np.hypot(np.log(np.maximum(high, typical) / typical), residual)
    return typical * np.exp(-below), typical * np.exp(above)


def widen(typical: float, low: float, high: float, residual: float) -> tuple[float, float]:
    """One interval widened by the model's own error, on the logarithm where the values allow it."""
    low, high = min(low, typical), max(high, typical)
    if residual == 0 or low <= 0:
        return low, high
    below = np.hypot(np.log(typical / low), residual)
    above = np.hypot(np.log(high / typical), residual)
    return float(typical * np.exp(-below)), float(typical * np.exp(above))


def _provenance(used: Iterable[Estimate]) -> tuple[tuple[str, ...], bool]:
    sources = tuple(dict.fromkeys(estimate.source for estimate in used))
    return sources, any(estimate.status in ("announced", "projected") for estimate in used)
