"""Two pages for a board, to print and sign."""

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from app.report.charts import plan_charts
from app.studies import board_brief
from app.web import form, requests
from app.web.heavy_queue import compute
from app.web.pages.sections import SECTIONS, absent, values_of
from app.web.pages.shared import PageRoute
from app.web.templating import page

ANNEX = tuple(key for key, section in SECTIONS.items() if not section.page and key != "share")

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/brief")
async def brief(request: Request) -> Response:
    """The plan as a board reads it: the ask, where the money goes, chances, what else was considered, risks."""
    catalog = request.app.state.catalog
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    question = requests.validate(board_brief.BriefQuestion, fields, catalog, strict=False)

    def answer() -> Response:
        document = board_brief.brief(question, catalog)
        scenario = question.scenario()
        annex = [key for key in ANNEX if question.annex and key not in absent(document.plan)]
        values = {
            **values_of(request, tuple(annex), scenario, document.plan, catalog),
            "brief": document,
            "notes": None,  # the annex ends with the sources of all its numbers
            "annex": {key: SECTIONS[key].title for key in annex},
            "question": question,
            "headline": form.summary(scenario, catalog),
            "left_out": board_brief.not_included(document.plan),
            "figure": plan_charts.costs(document.plan),
            "today": f"{datetime.now(UTC):%-d %b %Y}",
            "titles": {name: form.title(name) for name in scenario.asked()},
            "asked": {name: form.shown(name, value, catalog) for name, value in scenario.asked().items()},
        }
        return page(request, "brief.html", values, scenario=scenario, final=False)

    return await compute(request, lambda _: answer(), heavy=True)
