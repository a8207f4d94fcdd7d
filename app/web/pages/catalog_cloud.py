"""The whole catalogue as a cloud of cost against time, narrowed down by what is asked."""

import re
from collections.abc import Mapping
from time import monotonic
from typing import Any, get_args

from fastapi import APIRouter, Request, Response

from app.catalog.load import Catalog
from app.plan.declarations import declared
from app.plan.job.shape import model_name
from app.plan.scenario import ModelRequest
from app.plan.unusual_values import unusual_for_all
from app.report.charts import curve_charts
from app.report.drawn_parts import plural
from app.studies.sizing import USUAL_DEADLINE, Candidate, Kind
from app.studies.whole_catalog import Cloud, CloudQuestion, sold, whole_catalog
from app.units import show
from app.web import form
from app.web.api import CANDIDATES
from app.web.heavy_queue import Stopped, compute
from app.web.pages.shared import PageRoute, question_of, without_blanks
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)

CHOICES = ("gpu", "scale_out")
QUESTION = {
    "Limits": ("deadline", "budget", "budget_kind", "power_limit", "gpus"),
    "Job": ("model", "training_tokens", "sequence_length", "global_batch", "precision"),
}
PICTURE = 0.3
"""Seconds until there is a picture; the GPUs that are not in it are added after."""
PATIENCE = 4.0
"""Seconds that one who would rather wait for more gets at most: a phone lays out each picture anew."""


@router.get("/explore")
async def explore(request: Request) -> Response:
    """Every cluster that can be bought for a job."""
    catalog: Catalog = request.app.state.catalog
    bound = form.bind(request.query_params.multi_items(), catalog, kind=CloudQuestion, repeatable=CANDIDATES)
    if blank := without_blanks(request, "/explore", CloudQuestion, CHOICES):
        return blank
    question = bound.answered
    if not isinstance(question, CloudQuestion):
        return await compute(request, lambda _: page(request, "explore.html", _shown(request, bound), status=422))
    begun = monotonic()

    def work(stopped: Stopped) -> Response:
        seconds = min(_patience(request), request.app.state.settings.time_limit - (monotonic() - begun))
        cloud = whole_catalog(question, catalog, seconds, stopped)
        status = 422 if bound.errors else 200
        values = _shown(request, bound, question, cloud)
        return page(request, "explore.html", values, status=status, final=cloud.complete)

    return await compute(request, work, heavy=True)


def _patience(request: Request) -> float:
    """Seconds until the next picture: what the request prefers to wait, as RFC 7240 writes it, else few."""
    wait = re.fullmatch(r"wait=(\d{1,3})", request.headers.get("prefer", ""))
    return min(float(wait[1]), PATIENCE) if wait else PICTURE


def _shown(
    request: Request, bound: form.BoundForm, question: CloudQuestion | None = None, cloud: Cloud | None = None
) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    return {
        "question": question,
        "cloud": cloud,
        "verdict": _in_a_sentence(question, cloud, catalog) if question and cloud else "",
        "figure": curve_charts.cloud(cloud, catalog, question.deadline, question.budget)
        if question and cloud
        else None,
        "findings": unusual_for_all(question, map(question.largest, question.gpu or sold(catalog)), catalog)
        if question
        else [],
        "picks": _picks(cloud, question) if question and cloud else {},
        "kinds": {kind: declared(Candidate)[kind].label for kind in get_args(Kind)},
        **question_of(request, bound, QUESTION, CHOICES),
    }


def _picks(cloud: Cloud, question: CloudQuestion) -> Mapping[str, Candidate]:
    """The ends of the front and the cluster that makes most of both.

    Where nothing is limited the cheapest is that of the usual time: the cheapest of all takes decades.
    """
    if not cloud.front:
        return {}
    usual = [spot for spot in cloud.front if question.limits or spot.time_to_train <= USUAL_DEADLINE]
    best = min(cloud.front, key=lambda spot: spot.cost * spot.time_to_train)
    cheapest = "Cheapest" if question.limits else f"Cheapest within the usual {show(USUAL_DEADLINE, 's')}"
    ends: dict[str, Candidate] = {cheapest: usual[0]} if usual else {"Cheapest": cloud.front[0]}
    return ends | {"Soonest": cloud.front[-1], "Least money × time": best}


def _in_a_sentence(question: CloudQuestion, cloud: Cloud, catalog: Catalog) -> str:
    """What there is, as one would say it."""
    model = model_name(question.part(ModelRequest), catalog)
    clusters = cloud.clusters
    kinds = plural(len(set(clusters.rows["gpu"].tolist())), "kind")
    said = f"{len(clusters):,} clusters of {kinds} of GPU can train {model}"
    none = f"can train {model} at a known price."
    if not len(clusters) and not cloud.complete:
        return f"Of {plural(cloud.considered, 'cluster')} so far, none {none}"
    if not len(clusters):
        return f"No cluster of at most {question.gpus:,} of these GPUs {none}"
    if not question.limits:
        return f"{said}."
    keeping = f"{cloud.meeting:,} keep" if cloud.meeting > 1 else f"{'one' if cloud.meeting else 'none'} keeps"
    return f"{said}; {keeping} every limit{'' if cloud.complete else ' so far'}."
