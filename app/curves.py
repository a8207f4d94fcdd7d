"""The arrays behind the charts: plans swept along one axis.

Each curve calls the formula of the plan with the swept values on the axes before the draws, so it passes through the
plan's own number. Titles are findings, computed from the arrays they head.
"""

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
    """Lines over one axis. Units are base units, or ``GPUs`` for counts and ``%`` for shares."""

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
    own: tuple[float, float] | None = None
    marks: tuple[Mark, ...] = ()


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


@dataclass(frozen=True)
class Group:
    """Measurements of one kind and what the model says of each."""

    name: str
    look: str
    measured: Floats
    predicted: Floats
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Cloud:
    """Predictions against measurements; ``tolerance`` is the relative error of the shaded strip."""

    title: str
    subtitle: str
    groups: tuple[Group, ...]
    tolerance: float = 0.1
