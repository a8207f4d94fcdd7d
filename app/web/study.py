"""/docs/study: a notebook that answers a question of procurement with the library, from question to chart.

Its cells and what they print stand in ``templates/study.ipynb``, which Jupyter opens; the tests run them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.report.charts.curve_charts import lines
from app.report.charts.style import Figure
from app.report.tables import Table, curve_table
from app.studies.curve import Curve, Series, short
from app.web.responses import PageCache
from app.web.templating import page

NOTEBOOK = Path(__file__).parents[2] / "templates" / "study.ipynb"
PLOTLY = "application/vnd.plotly.v1+json"


@dataclass(frozen=True)
class Cell:
    """A cell of the notebook.

    Attributes:
        prose: its paragraphs, where it is text; a heading begins with ``#``.
        code: its lines of Python.
        printed: what these print.
        curve: the lines of the figure that they end with.
    """

    prose: tuple[str, ...] = ()
    code: str = ""
    printed: str = ""
    curve: Curve | None = None

    @property
    def figure(self) -> Figure | None:
        """The lines in the style of the house."""
        return lines(self.curve) if self.curve else None

    @property
    def table(self) -> Table | None:
        """Their numbers."""
        return curve_table(self.curve) if self.curve else None


def study(request: Request) -> Response:
    """GET /docs/study."""
    cache: PageCache = request.app.state.page_cache
    return cache.known(request) or page(request, "study.html", {"cells": cells()})


def notebook(request: Request) -> Response:
    """GET /docs/study.ipynb: the same for Jupyter."""
    named = {"content-disposition": 'attachment; filename="study.ipynb"'}
    return Response(NOTEBOOK.read_bytes(), media_type="application/x-ipynb+json", headers=named)


@cache
def cells() -> tuple[Cell, ...]:
    """The cells of the notebook, in their order."""
    return tuple(map(_cell, json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]))


def _cell(cell: Mapping[str, Any]) -> Cell:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return Cell(prose=tuple(source.split("\n\n")))
    outputs = cell["outputs"]
    printed = "".join(line for output in outputs for line in output.get("text", ()))
    charts = (output["data"][PLOTLY] for output in outputs if PLOTLY in output.get("data", {}))
    return Cell(code=source, printed=printed, curve=next(map(_curve, charts), None))


def _curve(figure: Mapping[str, Any]) -> Curve:
    """A figure of money by GPUs, a line each network, as a curve: the same numbers and texts."""
    layout = figure["layout"]
    return Curve(
        key="study",
        title=layout["title"]["text"],
        subtitle=layout["title"]["subtitle"]["text"],
        x_name=layout["xaxis"]["title"]["text"],
        x_unit="GPUs",
        y_name=layout["yaxis"]["title"]["text"],
        y_unit="USD",
        series=tuple(_series(figure["data"])),
        y_logarithmic=False,
    )


def _series(traces: list[Mapping[str, Any]]) -> Iterator[Series]:
    for trace in traces:
        x, y = (np.asarray(trace[axis], float) for axis in "xy")
        yield Series(short(trace["name"]), trace["name"], x, y, y, y)


routes = (
    Route("/docs/study", study, name="docs_study", methods=["GET"]),
    Route("/docs/study.ipynb", notebook, name="docs_notebook", methods=["GET"]),
)
