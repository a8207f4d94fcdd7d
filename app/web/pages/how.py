"""How one number of a plan was made, as a page of its own: what opens where there is no script."""

from fastapi import APIRouter, Request, Response

from app.plan.band import Band
from app.plan.declarations import results
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import method
from app.studies.board_brief import capital_lines
from app.web import form, requests
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.shared import PageRoute, results_of
from app.web.problems import ProblemError
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/how/{path}")
async def how(request: Request, path: str) -> Response:
    """One result: what it is, its formula with this plan's numbers, and what it rests on."""
    catalog = request.app.state.catalog
    fields = requests.query(request.scope["query_string"].decode("latin-1"))
    scenario = requests.validate(Scenario, fields, catalog, strict=False)

    def answer() -> Response:
        plan = evaluate(scenario, catalog)
        found = {result.path: result for result in results(plan)}.get(path)
        single = found is not None and isinstance(found.value, Band | int | float | str | None)
        if found is None or not (single or path in plan.explanations):
            raise ProblemError(404, "A plan has no result of that name. /docs lists all.")
        values = {
            "path_of_result": path,
            "found": found,
            "single": single,
            "lines": tuple(capital_lines(plan)) if path == "costs.capital" else (),
            "headline": form.summary(scenario, catalog),
            "explained": plan.explanations,
            "formulas": method.formulas(),
            **results_of(plan),
        }
        return page(request, "how.html", values, scenario=scenario)

    return await compute(request, lambda _: answer(), heavy=is_heavy(scenario, catalog))
