"""A curve: its series with ranges, its marks and its axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One line of a curve: typical values and their 80 % range along x, in base units.

    ``look`` names its meaning for the chart; ``strong`` marks the line that matters; ``steps`` draws it in steps.
    """

    name: str
    look: str
    x: Floats
    typical: Floats
    low: Floats
    high: Floats
    dash: str = ""
    strong: bool = False
    steps: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on the x axis where something changes, and what."""

    x: float
    text: str


@dataclass(frozen=True)
class Curve:
    """Lines over one axis. Units are base units, or ``GPUs`` for counts and ``%`` for shares.

    ``ceiling`` is a line that the others are read against.
    """

    key: str
    title: str
    subtitle: str
    x_name: str
    x_unit: str
    y_name: str
    y_unit: str
    series: tuple[Series, ...]
    x_logarithmic: bool = True
    y_logarithmic: bool = True
    plan_point: tuple[float, float] | None = None
    marks: tuple[Mark, ...] = ()
    ceiling: Series | None = None


PROPER = {"infiniband": "InfiniBand", "roce": "RoCE", "spectrum": "Spectrum", "tcp": "TCP", "efa": "EFA"}


def short(key: str) -> str:
    """The key of a network as a short name for the end of a line.

    >>> short("infiniband-ndr200"), short("roce-400"), short("spectrum-x-800")
    ('InfiniBand NDR200', 'RoCE 400', 'Spectrum-X 800')
    """
    words = [
        PROPER.get(word, word.upper() if len(word) < 4 or word[-1].isdigit() else word.capitalize())
        for word in key.split("-")
    ]
    return " ".join(words).replace("Spectrum X", "Spectrum-X")
