"""Charts of other questions than a plan."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from fastapi import Request

from app import __version__
from app.catalog.load import Catalog
from app.report.charts import comparison_charts
from app.report.charts.named_charts import Chart
from app.studies.comparison import compare
from app.web import form
from app.web.heavy_queue import Stopped
from app.web.pages.compare import bound_plans
from app.web.problems import FieldProblem, invalid, pointer


class Asked(NamedTuple):
    """A chart with what its files say of where they come from."""

    chart: Chart | None
    model_version: str
    catalog_version: str
    permalink: str


Maker = Callable[[Request, Stopped], Asked]


def _asked(request: Request, page: str, chart: Chart | None) -> Asked:
    query = request.url.query
    version = request.app.state.catalog.version
    return Asked(chart, __version__, version, f"{page}?{query}" if query else page)


def _compare(request: Request, _stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    _, bound_forms = bound_plans(request, request.query_params.multi_items(), catalog)
    wrong = [
        FieldProblem(pointer=pointer([f"{letter}.{name}"]), detail=text)
        for letter, bound in zip("abcd", bound_forms, strict=False)
        for name, text in bound.errors.items()
    ]
    scenarios = [bound.scenario for bound in bound_forms if bound.scenario is not None]
    if wrong or len(scenarios) < len(bound_forms):
        raise invalid(wrong)
    compared = compare(scenarios, catalog)
    names = [form.summary(scenario, catalog) for scenario in scenarios]
    chart = Chart(
        comparison_charts.money_and_time(compared, names), comparison_charts.money_and_time_table(compared, names)
    )
    return _asked(request, "/compare", chart)


MAKERS: Mapping[str, Maker] = {"compare": _compare}
"""What makes each chart, by the name in its address; the address asks what its page does."""
