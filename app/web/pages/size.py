"""Which cluster trains this model by this date for this money, as a page."""

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.declarations import declared
from app.plan.evaluate import evaluate
from app.plan.job.shape import model_name
from app.plan.result import Recommendation
from app.plan.scenario import ModelRequest, Scenario
from app.report.charts import curve_charts
from app.studies.chances import Likely
from app.studies.sizing import USUAL_DEADLINE, BreakEven, Candidate, Kind, Question, enough, in_steps
from app.units import THIN, percent, show
from app.web import form, requests
from app.web.answers import SizeAnswer, size_answer
from app.web.api import CANDIDATES, share_of
from app.web.heavy_queue import Stopped, compute
from app.web.pages.shared import PageRoute, address, question_of, without_blanks
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)


CHOICES = ("gpu", "scale_out")
QUESTION = {
    "Job": ("model", "training_tokens", "sequence_length", "global_batch", "precision"),
    "Limits": ("deadline", "budget", "budget_kind", "power_limit", "gpus"),
}


CHANCES = ("by_deadline", "by_calendar", "in_budget", "in_power", "in_all")


@router.get("/size")
async def size_cluster(request: Request) -> Response:
    """The inverse question: which cluster, by this date, for this money."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog, kind=Question, repeatable=CANDIDATES)
    if blank := without_blanks(request, "/size", Question, CHOICES):
        return blank
    question = bound.answered
    if not isinstance(question, Question):
        return await compute(request, lambda _: page(request, "size.html", _sizing(request, bound, None), status=422))
    until = monotonic() + request.app.state.settings.time_limit

    def work(stopped: Stopped) -> Response:
        answer = size_answer(question, catalog, share_of(until), stopped)
        status = 422 if bound.errors else 200
        return page(request, "size.html", _sizing(request, bound, answer), status=status, final=answer.complete)

    return await compute(request, work, heavy=True)


def _sizing(request: Request, bound: form.BoundForm, answer: SizeAnswer | None) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    question = bound.answered if isinstance(bound.answered, Question) else None
    return {
        "question": question,
        "answer": answer,
        "verdict": _sized_in_a_sentence(question, answer, catalog) if answer and question else "",
        "figure": curve_charts.pareto(
            answer, catalog, answer.deadline, question.budget, answer.chances, question.budget_kind
        )
        if answer and question
        else None,
        "picks": list(_picks(answer)) if answer else [],
        "allowed": _allowed(request, answer) if answer else {},
        "judged": _judged(answer, catalog) if answer else None,
        "ratios_by_size": _ratios_by_size,
        **(_rows(answer) if answer else {}),
        "chance_columns": _chance_columns(answer) if answer else {},
        "limits": {name: form.title(name, Question) for name in ("deadline", "budget", "power_limit")},
        "kinds": {kind: declared(Candidate)[kind].label for kind in get_args(Kind)},
        **question_of(request, bound, QUESTION, CHOICES),
    }


def _rows(answer: SizeAnswer) -> dict[str, Any]:
    """The clusters that the page lists, those with chances and the others, each with its step to the next row."""
    near = {cluster.query: cluster for cluster in answer.chances}
    close, others = ([one for one in answer.shown if (one.query in near) is known] for known in (True, False))
    return {"near": near, "close": in_steps(close), "others": in_steps(others)}


def _judged(answer: SizeAnswer, catalog: Catalog) -> tuple[Candidate | Likely, Recommendation] | None:
    """The answer's own cluster, or the nearest miss, and what its plan says of InfiniBand and Ethernet."""
    candidate = answer.best or next(iter(answer.nearest_misses), None)
    if candidate is None:
        return None
    scenario = requests.validate(Scenario, requests.query(candidate.query), catalog, strict=False)
    said = evaluate(scenario, catalog, ()).recommendation
    return (candidate, said) if said else None


def _allowed(request: Request, answer: SizeAnswer) -> dict[str, tuple[str, str]]:
    """What the one limit that a nearest miss misses would have to be, and the address that asks so; by its query."""
    ways = {}
    for miss in answer.nearest_misses:
        (limit,) = miss.misses
        text = enough(limit, miss)
        others = [(name, value) for name, value in request.query_params.multi_items() if name != limit]
        ways[miss.query] = text, address(request, "/size", urlencode([*others, (limit, text.replace(THIN, " "))]))
    return ways


def _ratios_by_size(evens: Sequence[BreakEven]) -> Iterator[tuple[int, list[float | None]]]:
    """Numbers of GPUs, and for each kind the cost with Ethernet over that with InfiniBand where both were tried.

    >>> tried = ((8, 0.9),), ((72, 1.1),)
    >>> list(_ratios_by_size([BreakEven("", "", "", None, (), points, True, "", True) for points in tried]))
    [(8, [0.9, None]), (72, [None, 1.1])]
    """
    known = [dict(even.points) for even in evens]
    for gpus in sorted({gpus for points in known for gpus in points}):
        yield gpus, [points.get(gpus) for points in known]


def _chance_columns(answer: SizeAnswer) -> dict[str, str]:
    """The limits that have chances, each with the heading of its column; blank for one that was not given."""
    said = declared(Likely)
    given = {name: any(getattr(cluster, name) is not None for cluster in answer.chances) for name in CHANCES}
    return {name: said[name].label if given[name] else "" for name in CHANCES}


def _picks(answer: SizeAnswer) -> Iterator[tuple[str, Likely | Candidate, str]]:
    """What to choose among: a title, a cluster, and why it stands there."""
    cheapest = answer.cheapest if answer.deadline else None
    if cheapest and cheapest == answer.fastest:
        yield "Cheapest and soonest", cheapest, "least money and least time of those that meet every limit"
    else:
        if cheapest:
            yield "Cheapest", cheapest, "least money of those that meet every limit"
        if answer.fastest:
            yield "Soonest", answer.fastest, "least time of those that meet every limit"
    if answer.safest:
        best = "cheapest" if answer.deadline else "soonest"
        yield "Safest", answer.safest, f"{best} that keeps each limit in nine cases of ten"
    for candidate in answer.nearest_misses:
        yield "Nearest miss", candidate, f"misses only the {form.title(candidate.misses[0], Question).lower()}"


def _sized_in_a_sentence(question: Question, answer: SizeAnswer, catalog: Catalog) -> str:
    """The answer as one would say it."""
    best, how = answer.best, "cheapest" if answer.deadline else "soonest"
    if best is None:
        return answer.message
    usual = f" within the usual {show(USUAL_DEADLINE, 's')}"
    limits = " within the limits" if _limited(question) else usual
    model = model_name(question.part(ModelRequest), catalog)
    return (
        f"{best.gpus:,} {catalog.gpus[best.gpu].name} on {catalog.scale_out[best.scale_out].name} train {model} "
        f"{how}{limits}: {show(best.time_to_train, 's')} for {show(best.cost, 'USD')}.{_by_the_calendar(best, answer)}"
    )


def _by_the_calendar(best: Candidate, answer: SizeAnswer) -> str:
    """What becomes of a date that the run alone keeps and the calendar mostly does not."""
    likely = next((each for each in answer.chances if each.query == best.query), None)
    if likely is None or likely.campaign_time is None or likely.by_calendar is None or likely.by_calendar >= 0.5:
        return ""
    chance = percent(likely.by_calendar)
    return (
        f" By the calendar it takes {show(likely.campaign_time.typical, 's')}, and keeps the date in {chance} of cases."
    )


def _limited(question: Question) -> bool:
    return any(limit is not None for limit in (question.deadline, question.budget, question.power_limit))
