"""Charts by address: the picture, its numbers and its specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plotly import graph_objects as go

from fastapi import APIRouter, Request, Response

from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import files
from app.report.charts import named_charts, svg
from app.report.charts.named_charts import Chart
from app.web import requests
from app.web.heavy_queue import Stopped, compute, is_heavy
from app.web.pages import asked_charts
from app.web.pages.reference import measured_figures
from app.web.pages.shared import PageRoute
from app.web.problems import ProblemError
from app.web.responses import JSON, reply

router = APIRouter(include_in_schema=False, route_class=PageRoute)

KINDS = {"svg": "image/svg+xml", "csv": "text/csv; charset=utf-8", "json": JSON}


MEASURED = ("accuracy-collectives", "accuracy-training")
"""Charts of measurements, the same for every plan."""


NAMES = (*named_charts.NAMES, *asked_charts.MAKERS, *MEASURED)


def _measured(figure: go.Figure, ending: str) -> str:
    """Measurements beside their predictions as a picture, as rows, or as Plotly takes them."""
    if ending == "svg":
        return svg.document(figure)
    if ending == "json":
        return str(figure.to_json())
    groups = [trace for trace in figure.data if trace.text]
    rows = ((group.name, *row) for group in groups for row in zip(group.text, group.x, group.y, strict=True))
    return "".join(files.csv_lines(("group", "run", "measured [s]", "predicted [s]"), rows))


def _file(drawn: Chart | None, ending: str, answer: files.Edition) -> bytes:
    """A chart as a picture, its numbers, or as Plotly takes it."""
    if drawn is None:
        raise ProblemError(404, "This plan has nothing to draw in that chart; its findings say why.")
    if ending == "svg":
        return svg.document(drawn.figure).encode()
    if ending == "csv":
        return "".join(files.table_csv(drawn.table, answer)).encode()
    return str(drawn.figure.to_json()).encode()


@router.get("/chart/{name}.{ending}")
async def chart(request: Request) -> Response:
    """One chart of a plan as SVG, its numbers as CSV, or the figure as Plotly takes it."""
    name, ending = request.path_params["name"], request.path_params["ending"]
    if ending not in KINDS:
        raise ProblemError(404, "A chart comes as .svg, .csv and .json; the browser makes a PNG of it, on the page.")
    if name not in NAMES:
        names = ", ".join(NAMES)
        raise ProblemError(404, f"There is no chart of that name. There are {names}.")
    catalog = request.app.state.catalog
    if name in MEASURED:
        figure = await compute(request, lambda _: measured_figures(catalog)[name], heavy=True)
        return reply(request, _measured(figure, ending).encode(), KINDS[ending])
    if name in asked_charts.MAKERS:

        def asked(stopped: Stopped) -> Response:
            answer = asked_charts.MAKERS[name](request, stopped)
            tag = None if answer.final else ""
            return reply(request, _file(answer.chart, ending, answer), KINDS[ending], tag=tag)

        return await compute(request, asked, heavy=True)
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def answer() -> Response:
        plan = evaluate(scenario, catalog)
        drawn = named_charts.chart(name, scenario, plan, catalog)
        return reply(request, _file(drawn, ending, plan), KINDS[ending])

    heavy = name in named_charts.CURVES or is_heavy(scenario, catalog)
    return await compute(request, lambda _: answer(), heavy=heavy)
