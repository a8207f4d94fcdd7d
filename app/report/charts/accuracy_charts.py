"""Predictions against measurements, as charts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.report.charts.style import LEGEND, MUTED, Figure, Values, figure, logarithmic, nothing, style_of
from app.report.labels import HARDWARE
from app.units import percent, show
from app.validation.collective_runs import Prediction as CollectivePrediction
from app.validation.training_runs import Prediction as StepPrediction

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Measurements of one kind and what the model says of each."""

    name: str
    look: str
    measured: Floats
    predicted: Floats
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Scatter:
    """Predictions against measurements; ``tolerance`` is the relative error of the shaded strip."""

    title: str
    subtitle: str
    groups: tuple[Group, ...]
    tolerance: float = 0.1


LOOKS = {
    "nvlink-switch": "nvlink",
    "nvlink-switch-rdma": "infiniband",
    "nvlink-switch-other": "roce",
    "nvlink-mesh": "accent",
    "infinity-fabric": "money",
    "infinity-fabric-network": "compute",
    "pcie": "pcie",
}
"""What classes of hardware look like."""


SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
"""Groups differ in shape too, for those who do not see the colour."""


def collective_scatter(predicted: Sequence[CollectivePrediction], report: Mapping[str, Any]) -> Scatter:
    """Collectives: predicted against measured, by class of hardware."""
    good = [
        prediction for prediction in predicted if not prediction.row.weak and prediction.row.library in ("nccl", "rccl")
    ]
    groups = []
    for key, look in LOOKS.items():
        members = [prediction for prediction in good if prediction.group == key and np.isfinite(prediction.time)]
        if members:
            labels = tuple(f"{prediction.row.run}, {show(prediction.row.message, 'B')}" for prediction in members)
            groups.append(
                _group(HARDWARE[key], look, [(prediction.row.time, prediction.time) for prediction in members], labels)
            )
    overall = report["all_reduce"]["overall"]
    return Scatter(
        title=f"Half of {overall['count']:,} all-reduce times are predicted within {percent(overall['median'], 1)}, "
        f"nine of ten within {percent(overall['p90'])}.",
        subtitle="Collectives of good measurements: predicted against measured time; the strip is ±10 %",
        groups=tuple(groups),
    )


def training_scatter(predicted: Sequence[StepPrediction], report: Mapping[str, Any]) -> Scatter:
    """Training steps: predicted against measured, dense and mixtures of experts."""
    groups = []
    for name, look, experts in (("Dense", "compute", False), ("Mixture of experts", "money", True)):
        members = [
            prediction for prediction in predicted if prediction.row.experts == experts and np.isfinite(prediction.time)
        ]
        if members:
            labels = tuple(
                f"{prediction.row.run}, {prediction.row.model}, {prediction.row.scenario().gpus:,} GPUs"
                for prediction in members
            )
            groups.append(
                _group(name, look, [(prediction.row.measured, prediction.time) for prediction in members], labels)
            )
    overall = report["overall"]
    return Scatter(
        title=f"Half of {overall['count']:,} training steps are predicted within {percent(overall['median'], 1)}, "
        f"nine of ten within {percent(overall['p90'])}.",
        subtitle="Training steps: predicted against measured time; the strip is ±10 %",
        groups=tuple(groups),
    )


def _group(name: str, look: str, pairs: Sequence[tuple[float, float]], labels: tuple[str, ...]) -> Group:
    table = np.array(pairs)
    return Group(name, look, table[:, 0], table[:, 1], labels)


def accuracy(cloud: Scatter) -> Figure:
    """Predicted against measured, one point for each measurement, on equal logarithmic axes."""
    groups = [group for group in cloud.groups if group.measured.size]
    if not groups:
        return nothing(cloud.title, cloud.subtitle)
    every = np.concatenate([np.concatenate((group.measured, group.predicted)) for group in groups])
    low, high = float(every.min()) / 1.3, float(every.max()) * 1.3
    data = [_strip(low, high, cloud.tolerance), _equal(low, high)]
    data += [_points(group, SYMBOLS[index % len(SYMBOLS)]) for index, group in enumerate(groups)]
    axes = {"range": [math.log10(low), math.log10(high)]}
    return figure(
        cloud.title,
        cloud.subtitle,
        data,
        height=480,
        x=logarithmic("Measured", low, high, "s") | axes,
        y=logarithmic("Predicted", low, high, "s") | axes,
        **LEGEND,
    )


def _strip(low: float, high: float, tolerance: float) -> Values:
    """Where predictions are within the tolerance."""
    ends = np.array([low, high])
    return {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate((ends, ends[::-1])),
        "y": np.concatenate((ends * (1 + tolerance), ends[::-1] / (1 + tolerance))),
        "fill": "toself",
        "fillcolor": MUTED,
        "opacity": 0.18,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _equal(low: float, high: float) -> Values:
    """Where predictions are the measurements."""
    ends = np.array([low, high])
    return {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": ends,
        "line": {"color": MUTED, "width": 1},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _points(group: Group, symbol: str) -> Values:
    """One group's measurements."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": group.name,
        "x": group.measured,
        "y": group.predicted,
        "text": list(group.labels),
        "marker": {"symbol": symbol, "size": 6, "opacity": 0.6, "color": style_of(group.look).colour},
        "hovertemplate": "%{text}<br>measured %{x:.3s}s, predicted %{y:.3s}s<extra></extra>",
        "showlegend": True,
    }
