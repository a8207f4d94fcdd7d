"""Charts by address: the picture, as drawing or as dots, its numbers and its specification."""

from collections.abc import Callable
from time import monotonic

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import files
from app.report.charts import named_charts, png, svg
from app.report.charts.named_charts import Chart
from app.report.charts.style import Figure
from app.web import requests
from app.web.answers import with_root_path
from app.web.heavy_queue import Stopped, compute, is_heavy
from app.web.pages import asked_charts
from app.web.pages.reference import measured_figures
from app.web.pages.shared import PageRoute
from app.web.problems import ProblemError
from app.web.responses import JSON, reply

router = APIRouter(include_in_schema=False, route_class=PageRoute)

KINDS = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv; charset=utf-8", "json": JSON}


MEASURED = ("accuracy-collectives", "accuracy-training")
"""Charts of measurements, the same for every plan."""


NAMES = (*named_charts.NAMES, *asked_charts.MAKERS, *MEASURED)


class Dots(BaseModel):
    """What the address of a PNG may say besides its question."""

    width: int = Field(2 * svg.FILE_WIDTH, ge=100, le=4 * svg.FILE_WIDTH, title="Width in dots")


def _dots(request: Request) -> tuple[Request, Dots]:
    """A request for a PNG as its question alone, and how wide it is to be."""
    parts = request.scope["query_string"].decode("latin-1").split("&")
    size = [part for part in parts if part.startswith("width=")]
    dots = requests.validate(Dots, requests.query("&".join(size)), request.app.state.catalog, strict=False)
    question = "&".join(part for part in parts if part not in size).encode("latin-1")
    return Request({**request.scope, "query_string": question}), dots


def _measured(figure: Figure) -> str:
    """Measurements beside their predictions as rows."""
    groups = [trace for trace in figure.data if trace.get("text")]
    columns = ((group["name"], group["text"], group["x"], group["y"]) for group in groups)
    rows = ((name, *row) for name, *several in columns for row in zip(*several, strict=True))
    return "".join(files.csv_lines(("group", "run", "measured [s]", "predicted [s]"), rows))


def _picture(figure: Figure, ending: str) -> bytes:
    """A figure as a drawing, or as Plotly takes it."""
    return figure.to_json().encode() if ending == "json" else svg.document(figure).encode()


def _file(drawn: Chart | None, ending: str, answer: files.Edition) -> bytes:
    """A chart as a picture, its numbers, or as Plotly takes it."""
    if drawn is None:
        raise ProblemError(404, "This plan has nothing to draw in that chart; its findings say why.")
    if ending == "csv":
        return "".join(files.table_csv(drawn.table, answer)).encode()
    return _picture(drawn.figure, ending)


@router.get("/chart/{name}.{ending}")
async def chart(request: Request) -> Response:
    """One chart of a plan as a picture, its numbers as CSV, or the figure as Plotly takes it."""
    name, ending = request.path_params["name"], request.path_params["ending"]
    if ending not in KINDS:
        raise ProblemError(404, f"A chart comes as {', '.join('.' + kind for kind in KINDS)}.")
    if name not in NAMES:
        names = ", ".join(NAMES)
        raise ProblemError(404, f"There is no chart of that name. There are {names}.")
    request.state.until = monotonic() + request.app.state.settings.time_limit
    question, dots = _dots(request) if ending == "png" else (request, Dots())

    def reply_with(body: bytes, tag: str | None = None) -> Response:
        if ending == "png":
            body = png.painted(body.decode(), dots.width, request.app.state.settings.time_limit)
        return reply(request, body, KINDS[ending], tag=tag)

    work, heavy = _work(question, name, ending)
    return await compute(request, lambda stopped: reply_with(*work(stopped)), heavy=heavy or ending == "png")


Work = Callable[[Stopped], tuple[bytes, str | None]]
"""Makes a chart's file, and its validator where that is not the question's."""


def _work(request: Request, name: str, ending: str) -> tuple[Work, bool]:
    """What makes one chart's file, a PNG's as the drawing it is painted from, and whether it is heavy."""
    catalog, site = request.app.state.catalog, str(request.base_url).rstrip("/")
    if name in MEASURED:

        def measured(_: Stopped) -> tuple[bytes, None]:
            figure = measured_figures(catalog)[name]
            return _measured(figure).encode() if ending == "csv" else _picture(figure, ending), None

        return measured, True
    if name in asked_charts.MAKERS:

        def asked(stopped: Stopped) -> tuple[bytes, str | None]:
            answer = asked_charts.MAKERS[name](request, stopped)
            answer = answer._replace(permalink=site + answer.permalink)
            return _file(answer.chart, ending, answer), None if answer.final else ""

        return asked, True
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def planned(_: Stopped) -> tuple[bytes, None]:
        plan = with_root_path(evaluate(scenario, catalog), site)
        drawn = named_charts.chart(name, scenario, plan, catalog)
        return _file(drawn, ending, plan), None

    return planned, name in named_charts.CURVES or is_heavy(scenario, catalog)
