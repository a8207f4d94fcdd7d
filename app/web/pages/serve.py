"""What a cluster serves, as a page."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.long_parts import SOURCES
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving_result import Serving
from app.report.charts import serving_charts
from app.studies.serving_domains import serving_domains
from app.web import form
from app.web.answers import plan_answer
from app.web.heavy_queue import compute, is_heavy
from app.web.pages.shared import PageRoute, question_of, results_of, without_blanks
from app.web.templating import address, page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

DEGREES = ("tensor_parallel", "attention_data_parallel", "expert_parallel", "pipeline_parallel")
QUESTION = {
    "Model and load": ("model", "weights", "kv_cache", "input_tokens", "output_tokens", "users", "think_time",
                       "request_rate", "concurrency", "token_price"),
    "Limits": ("tpot_limit", "ttft_limit", "percentile"),
    "Cluster": ("gpu", "gpus", "scale_up_domain", "scale_out"),
    "Engine": ("engine", "serving", "prefix_hits", "accepted_tokens", "tuned_kernels",
               "arrivals"),
    "Parallelism": DEGREES,
    "Pool for prompts": ("prefill_gpus", *(f"prefill_{name}" for name in DEGREES)),
    "Pool for answers": ("decode_gpus", *(f"decode_{name}" for name in DEGREES)),
}  # fmt: skip


@router.get("/serve")
async def serve_model(request: Request) -> Response:
    """What this cluster serves under this load and these limits."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog, kind=ServingQuestion)
    question = bound.answered
    if blank := without_blanks(request, "/serve", ServingQuestion):
        return blank
    if not isinstance(question, ServingQuestion):
        return await compute(request, lambda _: page(request, "serve.html", _content(request, bound, None), status=422))

    def work(_: object) -> Response:
        content = _content(request, bound, plan_answer(question, catalog, include=(SOURCES,)))
        return page(request, "serve.html", content, scenario=_to_train(question), status=422 if bound.errors else 200)

    return await compute(request, work, heavy=is_heavy(question, catalog))


def _to_train(question: ServingQuestion) -> Scenario:
    """The plan of the same cluster that trains: what the links of the bar ask."""
    return Scenario.model_construct(**{**vars(question), "workload": "training"})


def _given_load(question: Scenario, serving: Serving) -> dict[str, float | None]:
    """What of the load was given, and is served whole: it has no range."""
    served = {"users": serving.users, "request_rate": serving.requests_per_second}
    given = [getattr(question, name) for name in served]
    return {
        name: load if load and band and band.typical > 0.999 * load else None
        for (name, band), load in zip(served.items(), given, strict=True)
    }


def _content(request: Request, bound: form.BoundForm, plan: Plan | None) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    shown: dict[str, Any] = {
        "plan": plan,
        "answer": plan,
        "serving": plan.serving if plan else None,
        "alternatives": None,
        "figure": None,
    }
    question = bound.answered
    if plan and plan.serving and question:
        domains = serving_domains(question, catalog)
        shown |= {
            "figure": serving_charts.serving_front(plan.serving, question.scale_out, catalog, question.tpot_limit),
            "alternatives": domains,
            "load": _given_load(question, plan.serving),
            "domains_figure": serving_charts.domains(domains, catalog),
            "with_changes": partial(address, request.scope.get("root_path", ""), question.asked()),
            "as_plan": Scenario.model_construct(**vars(question)).query(),
            **results_of(plan),
        }
    return shown | question_of(request, bound, QUESTION)
