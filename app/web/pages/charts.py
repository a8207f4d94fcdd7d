"""Charts by address: the picture, its numbers and its specification."""

from fastapi import APIRouter, Request, Response

from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import files
from app.report.charts import named_charts, svg
from app.web import requests
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.shared import PageRoute
from app.web.problems import ProblemError
from app.web.responses import JSON, reply

router = APIRouter(include_in_schema=False, route_class=PageRoute)

KINDS = {"svg": "image/svg+xml", "csv": "text/csv; charset=utf-8", "json": JSON}


@router.get("/chart/{name}.{ending}")
async def chart(request: Request) -> Response:
    """One chart of a plan as SVG, its numbers as CSV, or the figure as Plotly takes it."""
    name, ending = request.path_params["name"], request.path_params["ending"]
    if ending not in KINDS:
        raise ProblemError(404, "A chart comes as .svg, .csv and .json; the browser makes a PNG of it, on the page.")
    if name not in named_charts.NAMES:
        raise ProblemError(404, f"There is no chart of that name. There are {', '.join(named_charts.NAMES)}.")
    catalog = request.app.state.catalog
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def answer() -> Response:
        plan = evaluate(scenario, catalog)
        drawn = named_charts.chart(name, scenario, plan, catalog)
        if drawn is None:
            raise ProblemError(404, "This plan has nothing to draw in that chart; its findings say why.")
        if ending == "svg":
            body = svg.document(drawn.figure)
        elif ending == "csv":
            body = "".join(files.table_csv(drawn.table, plan))
        else:
            body = drawn.figure.to_json()
        return reply(request, body.encode(), KINDS[ending])

    heavy = name in named_charts.CURVES or is_heavy(scenario, catalog)
    return await compute(request, lambda _: answer(), heavy=heavy)
