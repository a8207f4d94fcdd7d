"""Predictions held against published measurements: shared statistics and their printing."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

Statistics = dict[str, Any]
Row = TypeVar("Row")
BELIEVED = (1e-12, 1e15)
"""Between these is what anybody measures, in whichever unit of a file."""


def number(text: str | None) -> float | None:
    """A number, or ``None`` where the source does not say."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def reading(text: str | None) -> float | None:
    """A figure that was measured, or ``None`` where a source does not say, or says what nobody can have measured.

    >>> reading("12,600"), reading("-1"), reading("0"), reading("1e-320"), reading("inf")
    (12600.0, None, None, None, None)
    """
    value, (least, most) = number(text), BELIEVED
    return value if value is not None and least < value < most else None


def statistics(
    predicted: ArrayLike, measured: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None
) -> Statistics:
    """How far predictions are from measurements, as fractions.

    ``median``, ``mean`` and ``p90`` are of |predicted/measured - 1|; ``bias`` is the geometric mean of
    predicted/measured, less 1; ``coverage`` is the share of measurements between ``low`` and ``high``; ``width`` is the
    median half-width of that band, √(high/low) - 1. An empty group has a count of 0 and ``None`` for the rest.

    >>> statistics([1.1, 0.9], [1.0, 1.0], [0.95, 0.5], [1.2, 0.95])["coverage"]
    0.5
    >>> round(statistics([1.1, 0.9], [1.0, 1.0])["median"], 9)
    0.1
    """
    p, m = np.asarray(predicted, float), np.asarray(measured, float)
    if p.size == 0:
        return dict.fromkeys(("median", "mean", "p90", "bias", "coverage", "width"), None) | {"count": 0}
    error = np.abs(p / m - 1)
    figures: Statistics = {
        "count": int(p.size),
        "median": float(np.median(error)),
        "mean": float(np.mean(error)),
        "p90": float(np.quantile(error, 0.9)),
        "bias": float(np.exp(np.mean(np.log(p / m))) - 1),
        "coverage": None,
        "width": None,
    }
    if low is not None and high is not None:
        below, above = np.asarray(low, float), np.asarray(high, float)
        figures["coverage"] = float(np.mean((below <= m) & (m <= above)))
        figures["width"] = float(np.median(np.sqrt(above / below) - 1))
    return figures


def agrees(held: int, count: int, share: float, tail: float = 0.05) -> bool:
    """Whether so many of so many agree with a share: neither so few nor so many are rarer than a tail.

    Of n independent rows k are inside with probability C(n, k)·s^k·(1 - s)^(n - k).

    >>> [held for held in range(11) if agrees(held, 10, 0.8)], [held for held in range(4) if agrees(held, 3, 0.8)]
    ([6, 7, 8, 9, 10], [1, 2, 3])
    """
    chances = [comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)]
    return sum(chances[: held + 1]) > tail and sum(chances[held:]) > tail


def grouped(
    rows: Sequence[Row], key: Callable[[Row], Hashable], score: Callable[[Sequence[Row]], Statistics]
) -> dict[str, Statistics]:
    """Statistics of each group of rows, in the order the groups first appear."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(str(key(row)), []).append(row)
    return {name: score(members) for name, members in groups.items()}


def never_seen(unseen: Mapping[str, Mapping[str, Statistics]]) -> dict[str, Statistics]:
    """Groups of what was left out of a fit, by kind, as groups of one table.

    >>> never_seen({"gpu": {"dense": {}, "moe": {}}, "model": {"dense": {}}})
    {'gpu, dense': {}, 'gpu, moe': {}, 'model, dense': {}}
    """
    return {f"{kind}, {name}": group for kind, groups in unseen.items() for name, group in groups.items()}


def table(groups: Mapping[str, Statistics], title: str) -> str:
    """Groups as a plain-text table, errors in per cent."""
    width = max([len(title), *(len(name) for name in groups)])
    lines = [f"{title:<{width}} {'rows':>5} {'median':>7} {'mean':>7} {'p90':>7} {'bias':>7} {'inside':>7}"]
    for name, group in groups.items():
        cells = [group[key] for key in ("median", "mean", "p90", "bias", "coverage")]
        shown = " ".join("      -" if cell is None else f"{100 * cell:6.1f}%" for cell in cells)
        lines.append(f"{name:<{width}} {group['count']:5} {shown}")
    return "\n".join(lines)
