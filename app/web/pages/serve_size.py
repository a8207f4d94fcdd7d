"""Which cluster serves so many users or requests within limits, as a page."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.job.shape import model_name
from app.plan.scenario import ModelRequest
from app.plan.serving.evaluate_serving import READABLE
from app.report.charts import serving_charts
from app.report.drawn_parts import plural
from app.studies.serving_sizing import ServeSizeQuestion, ServingCandidate
from app.units import THIN, show
from app.web import form
from app.web.answers import ServeSizeAnswer, serve_size_answer
from app.web.api import SERVE_CANDIDATES
from app.web.heavy_queue import compute
from app.web.pages.shared import PageRoute, address, question_of, without_blanks
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

QUESTION = {
    "Model and load": ("model", "weights", "input_tokens", "output_tokens", "users", "think_time", "request_rate"),
    "Limits": ("tpot_limit", "ttft_limit", "percentile", "gpus"),
    "Engine": ("engine", "kv_cache", "prefix_hits", "accepted_tokens", "headroom"),
}
CHOICES = ("gpu", "scale_out")


@router.get("/serve/size")
async def size_for_serving(request: Request) -> Response:
    """The inverse question of serving."""
    catalog: Catalog = request.app.state.catalog
    pairs = request.query_params.multi_items()
    bound = form.bind(pairs, catalog, kind=ServeSizeQuestion, repeatable=SERVE_CANDIDATES)
    question = bound.answered
    if blank := without_blanks(request, "/serve/size", ServeSizeQuestion, CHOICES):
        return blank
    if not isinstance(question, ServeSizeQuestion):
        return await compute(
            request, lambda _: page(request, "serve_size.html", _content(request, bound, None), status=422)
        )

    def work(_: object) -> Response:
        content = _content(request, bound, serve_size_answer(question, catalog))
        return page(request, "serve_size.html", content, status=422 if bound.errors else 200)

    return await compute(request, work, heavy=True)


def _content(request: Request, bound: form.BoundForm, answer: ServeSizeAnswer | None) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    return {
        "answer": answer,
        "verdict": _in_a_sentence(answer, bound, catalog) if answer else "",
        "picks": [pick for pick in _picks(answer) if pick[1]] if answer else [],
        "figure": serving_charts.candidates(answer, catalog) if answer else None,
        "within": _within(request),
        **question_of(request, bound, QUESTION, CHOICES),
    }


def _within(request: Request) -> str:
    """The address of the same question with a limit to the time per token, which it does not have."""
    limited = [*request.query_params.multi_items(), ("tpot_limit", show(READABLE, "s").replace(THIN, " "))]
    return address(request, "/serve/size", urlencode(limited))


LEAST_TIME = {
    "tpot": "least time per token",
    "ttft": "least time to the first token, which is limited",
    "answer": "least time of a whole answer, as both its limits ask",
}
"""Of which time the quickest cluster has the least."""


def _picks(answer: ServeSizeAnswer) -> Iterator[tuple[str, ServingCandidate | None, str]]:
    """What to choose among: a title, a cluster, and why it stands there."""
    if answer.cheapest and answer.cheapest == answer.fewest_gpus:
        why = "least cost an hour, owned; whole nodes and racks, as they are bought"
        yield "Cheapest, on fewest GPUs", answer.cheapest, why
    else:
        yield "Cheapest", answer.cheapest, "least cost an hour, owned"
        yield "Fewest GPUs", answer.fewest_gpus, "whole nodes and racks, as they are bought"
    yield "Quickest", answer.lowest_latency, LEAST_TIME[answer.quickest_by]


def _in_a_sentence(answer: ServeSizeAnswer, bound: form.BoundForm, catalog: Catalog) -> str:
    """The answer as one would say it."""
    best = answer.cheapest
    if best is None:
        return answer.message
    model = model_name(bound.answered.part(ModelRequest), catalog) if bound.answered else "the model"
    price = f" A million output tokens cost {show(best.per_million_output_tokens, 'USD')} at this load."
    asked = bound.answered.request_rate if isinstance(bound.answered, ServeSizeQuestion) else None
    load = f"serve {model} to {plural(round(best.users), 'user')}"
    if asked:
        load = f"answer {show(asked, '1')} requests a second with {model}"
    return (
        f"{best.gpus:,} {catalog.gpus[best.gpu].name} {load} cheapest, at "
        f"{best.interactivity:.0f} tokens a second each.{price if best.per_million_output_tokens else ''}"
    )
