"""What networks cost side by side, and owning against renting, as a page."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.catalog.names import listed
from app.plan.band import Band, alone, with_range
from app.plan.recommendation import TIE
from app.plan.scenario import Scenario
from app.report import method, tables
from app.report.charts import curve_charts
from app.report.labels import in_words
from app.studies import which_network
from app.studies.network_costs import EDITIONS, CostQuestion, in_force
from app.studies.phases import Phases
from app.units import THIN, parse, show
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
    question = bound.answered

    def work(_: Stopped) -> Response:
        if not isinstance(question, CostQuestion):
            return page(request, "cost.html", {"answer": None, **question_of(request, bound, QUESTION)}, status=422)
        shown = question_of(request, bound, QUESTION, resolved=_stands_at(question, catalog))
        values = shown | _shown(question, cost_answer(question, catalog), catalog)
        status = 422 if bound.errors else 200
        return page(request, "cost.html", values, scenario=question.scenario(), status=status)

    return await compute(request, work, heavy=True)


AS_TYPED = {"colocation": "USD/kW-month", "lease": "USD/month"}
"""Units of fields whose own is not what contracts are written in."""


def _stands_at(question: CostQuestion, catalog: Catalog) -> dict[str, str]:
    """What stands behind each blank of growing and owning, as one would type it."""
    units = {name: form.unit_of(name, CostQuestion) for name in QUESTION["Growing"] + QUESTION["Owning"]}

    def typed(name: str, value: float) -> str:
        unit = units[name]
        if name in AS_TYPED:
            return f"{value / parse(f'1 {AS_TYPED[name]}', unit or ''):,.0f} {AS_TYPED[name]}"
        return show(value, unit or "1").replace(THIN, " ")

    values = in_force(question, catalog)
    return {name: typed(name, value) for name, value in values.items() if value is not None}


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
    by_key |= {f"networks_{name}": table for name, table in _by_edition(by_key["network_costs"])}
    turning = which_network.break_even(scenario, catalog)
    if turning:
        figures["choice"], by_key["choice"] = curve_charts.lines(turning), tables.curve_table(turning)
    return {
        "answer": answer,
        "figures": figures,
        "tables": by_key,
        "formulas": method.formulas(),
        "verdict": _in_a_sentence(scenario, answer),
        "growth_in_words": _growth_in_words(answer.phases),
        "editions": {key: catalog.prices[key].name for key in EDITIONS},
    }


def _growth_in_words(phases: Phases[Band | None]) -> str:
    """The order of building that is worth least today, or those that are worth the same; blank where there are none."""
    totals = {in_words(phase.order, "order"): phase.total for phase in phases.orders if phase.total}
    if not totals:
        return ""
    least = min(totals.values(), key=lambda total: total.typical)
    alike = [name for name, total in totals.items() if total.typical <= least.typical * (1 + TIE)]
    names = listed([f"“{name}”" for name in alike])
    paid = alone(least)
    if len(alike) > 1:
        return f"At today’s worth {names} cost the same, {paid}."
    return f"Cheapest at today’s worth: {names}, {paid}."


def _by_edition(table: tables.Table) -> Iterator[tuple[str, tables.Table]]:
    """A table for each price book, which then no row names."""
    place = [column.key for column in table.columns].index("edition")
    for edition in EDITIONS:
        of_it = [row for row in table.rows if row[place] == in_words(edition, "edition")]
        rows = tuple((*row[:place], *row[place + 1 :]) for row in of_it)
        yield edition, replace(table, columns=(*table.columns[:place], *table.columns[place + 1 :]), rows=rows)


def _in_a_sentence(scenario: Scenario, answer: CostAnswer) -> str:
    """The answer as one would say it."""
    planned = next(row for row in answer.networks if row.network == scenario.scale_out)
    links = next((row for row in answer.networks if row.family == "nvlink"), None)
    ways = {way.way: way.per_gpu_hour for way in answer.ownership.ways}
    best = ways.get(answer.ownership.cheapest)
    said = [f"{planned.name} costs {with_range(planned.per_port)} a port with its card"] if planned.per_port else []
    if links and links.per_bandwidth and planned.per_bandwidth:
        ratio = planned.per_bandwidth.typical / links.per_bandwidth.typical
        link = links.name.partition(",")[0]
        said.append(f"{ratio:.0f} times as much as {link} for each GB/s of a GPU")
    text = f"At {scenario.gpus:,} GPUs " + ", ".join(said) if said else "This network cannot be built as asked"
    if best:
        text += f". The cheapest GPU-hour in use costs {with_range(best)}"
    return text + "."
