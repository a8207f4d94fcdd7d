"""Charts of other questions than a plan."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import Request

from app import __version__
from app.catalog.load import Catalog
from app.plan.declarations import declared
from app.plan.long_parts import SOURCES
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving_result import ServingPoint
from app.plan.total_cost import ownership
from app.report import tables
from app.report.charts import comparison_charts, curve_charts, serving_charts
from app.report.charts.named_charts import Chart
from app.report.tables import Column, Table
from app.studies import nccl_tests, port_cost
from app.studies.buy_or_rent import against_use, buy_or_rent
from app.studies.comparison import Comparison, compare
from app.studies.network_costs import EDITIONS, SIZES, CostQuestion, networks_of
from app.studies.own_sweep import CalibrateQuestion, curve, own_sweep
from app.studies.serving_domains import ServingDomains, serving_domains
from app.studies.serving_sizing import ServeSizeQuestion, ServeSizing, ServingCandidate
from app.studies.sizing import Answer, Candidate, Question, in_steps
from app.studies.whole_catalog import Cloud, CloudQuestion, Spot, spots, whole_catalog
from app.web import form, requests
from app.web.answers import plan_answer, serve_size_answer, size_answer
from app.web.api import CANDIDATES, SERVE_CANDIDATES, share_of
from app.web.heavy_queue import Stopped
from app.web.pages.compare import bound_plans
from app.web.problems import FieldProblem, invalid, pointer


class Asked(NamedTuple):
    """A chart with what its files say of where they come from."""

    chart: Chart | None
    model_version: str
    catalog_version: str
    permalink: str
    final: bool = True
    """Whether it is the same whenever it is asked for."""


Maker = Callable[[Request, Stopped], Asked]


def _asked(request: Request, page: str, chart: Chart | None) -> Asked:
    query = request.url.query
    version = request.app.state.catalog.version
    return Asked(chart, __version__, version, f"{page}?{query}" if query else page)


def _compared(request: Request) -> tuple[Comparison, list[str]]:
    """The plans of an address side by side, with their names."""
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
    return compare(scenarios, catalog), [form.summary(scenario, catalog) for scenario in scenarios]


def _money_and_time(request: Request, _stopped: Stopped) -> Asked:
    named = _compared(request)
    chart = Chart(comparison_charts.money_and_time(*named), comparison_charts.money_and_time_table(*named))
    return _asked(request, "/compare", chart)


def _capital_by_cause(request: Request, _stopped: Stopped) -> Asked:
    compared, _ = _compared(request)
    chart = Chart(comparison_charts.capital_by_cause(compared), comparison_charts.capital_by_cause_table(compared))
    return _asked(request, "/compare", chart)


CHARTED = ("infiniband-ndr", "infiniband-xdr", "roce-400", "roce-800", "spectrum-x-800")
"""Networks that the charts of ports show besides the planner's own."""


def ports_chart(question: CostQuestion, edition: str, catalog: Catalog) -> Chart:
    """What a port costs by the size of the cluster, in the prices of an edition."""
    scenario = question.scenario()
    variant = scenario.model_copy(update={"price_book": edition, "nics_included": False})
    gpus = network_of(scenario, catalog).cluster.gpus
    shown = [key for key in networks_of(scenario, catalog) if key in CHARTED or key == scenario.scale_out]
    ports = port_cost.by_size(variant, catalog, shown, sorted({*SIZES, gpus}))
    curve = port_cost.cost_per_port(variant, catalog, ports)
    return Chart(curve_charts.cost_per_port(curve), tables.curve_table(curve))


def use_chart(question: CostQuestion, catalog: Catalog) -> Chart:
    """What a GPU-hour costs by how much the cluster is used: bought, leased and rented."""
    network = network_of(question.scenario(), catalog)
    owned = ownership(network, network.prices)
    curve = against_use(buy_or_rent(owned, question.terms(), catalog))
    return Chart(curve_charts.buy_or_rent(curve), tables.curve_table(curve))


def _question(request: Request, kind: type[Any], several: Mapping[str, int] = requests.ONCE_EACH) -> Any:
    fields = requests.address(request, several)
    return requests.validate(kind, fields, request.app.state.catalog, strict=False)


def _ports(edition: str) -> Maker:
    def make(request: Request, _stopped: Stopped) -> Asked:
        return _asked(
            request, "/cost", ports_chart(_question(request, CostQuestion), edition, request.app.state.catalog)
        )

    return make


def _use(request: Request, _stopped: Stopped) -> Asked:
    return _asked(request, "/cost", use_chart(_question(request, CostQuestion), request.app.state.catalog))


def _sizing(request: Request, stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    question = _question(request, Question, CANDIDATES)
    seconds = share_of(request.state.until)
    answer = size_answer(question, catalog, seconds, stopped)
    figure = curve_charts.pareto(
        answer, catalog, answer.deadline, question.budget, answer.chances, question.budget_kind
    )
    front = declared(Answer)["front"]
    asked = _asked(request, "/size", Chart(figure, tables.listing(front, Candidate, in_steps(answer.shown))))
    return asked._replace(final=answer.complete)


def _cloud(request: Request, stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    question = _question(request, CloudQuestion, CANDIDATES)
    seconds = share_of(request.state.until)
    whole = whole_catalog(question, catalog, seconds, stopped)
    figure = curve_charts.cloud(whole, catalog, question.deadline, question.budget)
    every = [*spots(whole, question, catalog)] if request.path_params["ending"] == "csv" else []
    asked = _asked(request, "/explore", Chart(figure, tables.listing(declared(Cloud)["clusters"], Spot, every)))
    return asked._replace(final=whole.complete)


def _front(request: Request, _stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    question = _question(request, ServingQuestion)
    serving = plan_answer(question, catalog, include=(SOURCES,)).serving
    if serving is None:
        return _asked(request, "/serve", None)
    figure = serving_charts.serving_front(serving, question.scale_out, catalog, question.tpot_limit)
    return _asked(request, "/serve", Chart(figure, tables.listings(serving)["serving_front"]))


def _domains(request: Request, _stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    answer = serving_domains(_question(request, ServingQuestion), catalog)
    return _asked(request, "/serve", Chart(serving_charts.domains(answer, catalog), _domains_table(answer, catalog)))


def _domains_table(answer: ServingDomains, catalog: Catalog) -> Table:
    """The front of each domain below that of the one before."""
    points = tables.listing(declared(type(answer.domains[0]))["front"], ServingPoint, ())
    columns = (Column("gpu", "GPU"), Column("scale_up_domain", "Scale-up domain", "1"), *points.columns)
    rows = tuple(
        (catalog.gpus[variant.gpu].name, variant.scale_up_domain, *row)
        for variant in answer.domains
        for row in tables.listing(declared(type(variant))["front"], ServingPoint, variant.front).rows
    )
    return Table("serving_domains", "Throughput against speed by domain", columns, rows)


def _candidates(request: Request, _stopped: Stopped) -> Asked:
    catalog: Catalog = request.app.state.catalog
    answer = serve_size_answer(_question(request, ServeSizeQuestion, SERVE_CANDIDATES), catalog)
    every = declared(ServeSizing)["candidates"]
    table = tables.listing(every, ServingCandidate, answer.candidates)
    return _asked(request, "/serve/size", Chart(serving_charts.candidates(answer, catalog), table))


LONGEST = 8_000
"""Characters of an address that holds a measurement; a longer one has none."""


def own_address(fields: Sequence[tuple[str, str]]) -> str | None:
    """A cluster and what was measured on it as a query; ``None`` where that is too long for an address."""
    query = urlencode([(name, value) for name, value in fields if value.strip()])
    return query if len(query) <= LONGEST else None


def _measured(request: Request, *names: str) -> tuple[Scenario, list[str]]:
    """The cluster of an address, and its other fields of these names."""
    fields = requests.address(request)
    texts = [str(fields.pop(name, "")) for name in names]
    return requests.validate(Scenario, fields, request.app.state.catalog, strict=False), texts


def _own_all_reduce(request: Request, _stopped: Stopped) -> Asked:
    scenario, (text,) = _measured(request, "output")
    result = nccl_tests.compare(nccl_tests.read(text), scenario, request.app.state.catalog)
    figure = curve_charts.lines(nccl_tests.measured(result)) if result.rows else None
    chart = Chart(figure, tables.comparison_table(result)) if figure else None
    return _asked(request, "/all-reduce", chart)._replace(permalink="/all-reduce")


def _own_sweep(request: Request, _stopped: Stopped) -> Asked:
    scenario, (text, sought) = _measured(request, "text", "sweep")
    fields = {name: getattr(scenario, name) for name in type(scenario).model_fields}
    sweep, _ = own_sweep(CalibrateQuestion.model_construct(**fields, text=text), request.app.state.catalog)
    places = dict.fromkeys((row.collective, row.gpus) for row in sweep.rows)
    curves = [curve(sweep, *place) for place in places if sought in ("", "-".join(map(str, place)))]
    chart = Chart(curve_charts.lines(curves[0]), tables.curve_table(curves[0])) if curves else None
    return _asked(request, "/calibrate", chart)._replace(permalink="/calibrate")


MAKERS: Mapping[str, Maker] = {
    "compare": _money_and_time,
    "compare-capital": _capital_by_cause,
    **{f"ports-{edition}": _ports(edition) for edition in EDITIONS},
    "buy-or-rent": _use,
    "sizing": _sizing,
    "cloud": _cloud,
    "serving-front": _front,
    "serving-domains": _domains,
    "serving-candidates": _candidates,
    "own-all-reduce": _own_all_reduce,
    "own-sweep": _own_sweep,
}
"""What makes each chart, by the name in its address; the address asks what its page does."""
