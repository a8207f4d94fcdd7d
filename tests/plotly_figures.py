"""Figures as Plotly's own classes: they refuse what Plotly's JavaScript would not take."""

from collections.abc import Callable
from typing import Any

from plotly import graph_objects as go

from app.report.charts.style import Figure


def in_plotly(figure: Figure) -> go.Figure:
    """The same figure; each of its properties is looked at."""
    return go.Figure(data=list(figure.data), layout=figure.layout)


def looked_at(make: Callable[..., None]) -> Callable[..., None]:
    """What makes a figure, which Plotly looks at then."""

    def made(figure: Figure, *args: Any, **named: Any) -> None:
        make(figure, *args, **named)
        in_plotly(figure)

    return made
