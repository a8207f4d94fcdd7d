"""What a cluster serves, as a page."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.serving.serving_request import ServingQuestion
from app.report.charts import serving_charts
from app.web import form
from app.web.answers import ServeAnswer, serve_answer
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.shared import PageRoute, question_of, results_of, without_blanks
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

QUESTION = {
    "Model and load": ("model", "weights", "kv_cache", "input_tokens", "output_tokens", "users", "think_time",
                       "request_rate", "concurrency"),
    "Limits": ("tpot_limit", "ttft_limit", "percentile"),
    "Cluster": ("gpu", "gpus", "scale_up_domain", "scale_out"),
    "Engine": ("engine", "serving", "prefix_hits", "accepted_tokens", "arrivals"),
    "Parallelism": ("tensor_parallel", "attention_data_parallel", "expert_parallel", "pipeline_parallel"),
}  # fmt: skip


@router.get("/serve")
async def serve_model(request: Request) -> Response:
    """What this cluster serves under this load and these limits."""
    catalog: Catalog = request.app.state.catalog
    asked = form.bind(request.query_params.multi_items(), catalog, kind=ServingQuestion)
    question = asked.scenario
    if blank := without_blanks(request, "/serve", ServingQuestion):
        return blank
    if not isinstance(question, ServingQuestion):
        return await compute(request, lambda _: page(request, "serve.html", _content(request, asked, None), status=422))

    def work(_: object) -> Response:
        return page(request, "serve.html", _content(request, asked, serve_answer(question, catalog)))

    return await compute(request, work, heavy=is_heavy(question, catalog))


def _content(request: Request, asked: form.BoundForm, answer: ServeAnswer | None) -> dict[str, Any]:
    question = asked.scenario if isinstance(asked.scenario, ServingQuestion) else None
    return {
        "answer": answer,
        "serving": answer.serving if answer else None,
        "figure": serving_charts.serving_front(answer.serving, question.scale_out, question.tpot_limit)
        if answer and question
        else None,
        **question_of(request, asked, QUESTION),
        **(results_of(answer) if answer else {}),
    }
