"""Your own measurements, and what they say of your cluster, as a page."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.scenario import Scenario
from app.report import tables
from app.report.charts import curve_charts
from app.studies.own_sweep import NEXT_DOCUMENT, CalibrateQuestion, curve, verdict
from app.web import form
from app.web.answers import CalibrateAnswer, calibrate_answer
from app.web.heavy_queue import Stopped, compute
from app.web.pages.asked_charts import own_address
from app.web.pages.shared import PageRoute
from app.web.requests import posted
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

ASKED = (
    "gpu", "gpus", "scale_out", "gpus_per_node", "nics_per_node", "scale_up_wiring", "algorithm", "protocol",
    "one_process",
)  # fmt: skip
MOST_CHARTS = 8
TEXTS = ("text", "file")
"""The fields of the form that hold outputs: pasted, or uploaded, several at a time."""


@router.get("/calibrate")
async def ask(request: Request) -> Response:
    """The form, with the cluster of the address."""
    pairs = request.query_params.multi_items()
    return await compute(request, lambda _: _calibrate(request, pairs))


@router.post("/calibrate")
async def answer(request: Request) -> Response:
    """The same page with what a paste says."""
    body = await request.body()

    def work(_: Stopped) -> Response:
        pairs = posted(body, request.headers.get("content-type", ""))
        pasted = NEXT_DOCUMENT.join(value for name, value in pairs if name in TEXTS and value.strip())
        return _calibrate(request, [(name, value) for name, value in pairs if name not in TEXTS], pasted)

    return await compute(request, work, heavy=True)


def _calibrate(request: Request, pairs: list[tuple[str, str]], pasted: str | None = None) -> Response:
    """The form, and what an output that was sent says, one without results too."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(pairs, catalog)
    values = {
        "controls": form.controls(bound, catalog, ASKED),
        "hidden": {name: value for name, value in bound.typed.items() if name not in ASKED and value.strip()},
        "errors": [(name if name in ASKED else "", form.title(name), text) for name, text in bound.errors.items()],
        "pasted": pasted or "",
        "answer": None,
    }
    if bound.scenario is None:
        return page(request, "calibrate.html", values, status=422)
    if pasted is not None:
        fields = {name: getattr(bound.scenario, name) for name in type(bound.scenario).model_fields}
        question = CalibrateQuestion.model_construct(**fields, text=pasted)
        answer = calibrate_answer(question, catalog)
        values |= _shown(answer) | {"own_address": own_address([*pairs, ("text", pasted)])}
        values |= {"sized": _sized(bound.scenario, answer.calibration)}
    return page(request, "calibrate.html", values, scenario=bound.scenario)


def _sized(scenario: Scenario, calibration: str) -> str:
    """The question for sizing: this GPU and network are the candidates, in any number."""
    calibrated = scenario.model_copy(update={"calibration": calibration or None})
    return calibrated.query(gpus=None, gpu=calibrated.gpu, scale_out=calibrated.scale_out)


def _shown(answer: CalibrateAnswer) -> dict[str, Any]:
    """The answer with a chart and a table for each collective and number of GPUs."""
    places = list(dict.fromkeys((row.collective, row.gpus) for row in answer.rows))
    curves = [curve(answer, *place) for place in places[:MOST_CHARTS]]
    return {
        "answer": answer,
        "verdict": verdict(answer),
        "sweeps": [(sweep.key, curve_charts.lines(sweep), tables.curve_table(sweep)) for sweep in curves],
        "carried": answer.permalink.removeprefix("/?"),
    }
