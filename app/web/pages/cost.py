"""What networks cost side by side, and owning against renting, as a page."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.scenario import Scenario
from app.report import method, tables
from app.report.charts import curve_charts
from app.studies import which_network
from app.studies.network_costs import EDITIONS, CostQuestion
from app.units import show
from app.web import form
from app.web.answers import CostAnswer, cost_answer
from app.web.heavy_queue import Stopped, compute
from app.web.pages.asked_charts import ports_chart, use_chart
from app.web.pages.shared import PageRoute, question_of
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

QUESTION = {
    "Cluster": ("gpu", "gpus", "scale_out", "topology", "oversubscription"),
    "Growing": ("grow_to", "grow_after"),
    "Owning": ("term", "utilisation", "interest", "residual", "staff", "colocation", "lease", "price_gpu_hour"),
}


@router.get("/cost")
async def costs(request: Request) -> Response:
    """Cost per port, GPU, GB/s and token of each network, and buying against leasing and renting."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog, kind=CostQuestion)
    question = bound.scenario
    shown = question_of(request, bound, QUESTION)

    def work(_: Stopped) -> Response:
        if not isinstance(question, CostQuestion):
            return page(request, "cost.html", {"answer": None, **shown}, status=422)
        values = shown | _shown(question, cost_answer(question, catalog), catalog)
        return page(request, "cost.html", values, scenario=question.scenario())

    return await compute(request, work, heavy=True)


def _shown(question: CostQuestion, answer: CostAnswer, catalog: Catalog) -> dict[str, Any]:
    scenario = question.scenario()
    charts = {"use": use_chart(question, catalog)}
    charts |= {edition: ports_chart(question, edition, catalog) for edition in EDITIONS}
    figures = {key: chart.figure for key, chart in charts.items()}
    by_key = (
        tables.listings(answer)
        | tables.listings(answer.ownership)
        | tables.listings(answer.phases)
        | {key: chart.table for key, chart in charts.items()}
    )
    turning = which_network.break_even(scenario, catalog)
    if turning:
        figures["choice"], by_key["choice"] = curve_charts.lines(turning), tables.curve_table(turning)
    return {
        "answer": answer,
        "figures": figures,
        "tables": by_key,
        "formulas": method.formulas(),
        "verdict": _in_a_sentence(scenario, answer, catalog),
        "editions": {key: catalog.prices[key].name for key in EDITIONS},
    }


def _in_a_sentence(scenario: Scenario, answer: CostAnswer, catalog: Catalog) -> str:
    """The answer as one would say it."""
    planned = next(row for row in answer.networks if row.network == scenario.scale_out)
    links = next((row for row in answer.networks if row.family == "nvlink"), None)
    ways = {way.way: way.per_gpu_hour for way in answer.ownership.ways}
    best = ways[answer.ownership.cheapest]
    said = [f"{planned.name} costs {show(planned.per_port.typical, 'USD')} a port"] if planned.per_port else []
    if links and links.per_bandwidth and planned.per_bandwidth:
        ratio = planned.per_bandwidth.typical / links.per_bandwidth.typical
        said.append(f"{ratio:.0f} times {links.name} for each GB/s of a GPU")
    text = f"At {scenario.gpus:,} GPUs " + ", ".join(said) if said else "This network cannot be built as asked"
    if best:
        text += f". The cheapest GPU-hour in use costs {show(best.typical, 'USD/h')}"
    return text + "."
