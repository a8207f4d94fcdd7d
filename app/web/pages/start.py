"""A guided start: what does one know, in plain words, and which page answers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from app.catalog.entries import Preset
from app.catalog.load import Catalog
from app.plan.scenario import Scenario
from app.studies.serving_sizing import ServeSizeQuestion
from app.studies.sizing import Question
from app.web import form
from app.web.pages.shared import PageRoute
from app.web.problems import ProblemError
from app.web.templating import page

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@dataclass(frozen=True)
class Known:
    """Something that one may know: in words, the page that answers, at most three fields, and what a blank means."""

    words: str
    answer: str
    to: str
    kind: type[Scenario]
    fields: tuple[str, ...]
    blank: Mapping[str, str]


KNOWN: Mapping[str, Known] = {
    "date": Known(
        "A model to train, and a date",
        "which clusters finish by then, and what they cost",
        "/size",
        Question,
        ("model", "training_tokens", "deadline"),
        {"training_tokens": "15T", "deadline": "90 days"},
    ),
    "money": Known(
        "A sum of money",
        "what it buys, and how soon that trains a model",
        "/size",
        Question,
        ("model", "budget", "deadline"),
        {"budget": "no limit", "deadline": "no limit, or 90 days where no sum is given either"},
    ),
    "power": Known(
        "The megawatts of a site",
        "which clusters fit it, and how soon they train a model",
        "/size",
        Question,
        ("model", "power_limit", "deadline"),
        {"power_limit": "no limit", "deadline": "no limit, or 90 days where no power is given either"},
    ),
    "cluster": Known(
        "A cluster, built or planned",
        "how long it trains a model, what limits it and what it costs",
        "/",
        Scenario,
        ("gpu", "gpus", "model"),
        {"gpus": "1,024"},
    ),
    "users": Known(
        "Users to be served",
        "which cluster answers them soon enough, and what a million tokens cost",
        "/serve/size",
        ServeSizeQuestion,
        ("model", "users", "tpot_limit"),
        {"users": "300", "tpot_limit": "no limit"},
    ),
}


@router.get("/start")
async def start(request: Request) -> Response:
    """One question a screen: what one knows, then its few fields."""
    catalog: Catalog = request.app.state.catalog
    know = request.query_params.get("know", "")
    if know and know not in KNOWN:
        raise ProblemError(404, "There is no such start. Choose one of those on /start.")
    values: dict[str, Any] = {
        "known": KNOWN,
        "chosen": KNOWN.get(know),
        "controls": _controls(KNOWN[know], catalog) if know else (),
        "preset_query": preset_query,
    }
    return page(request, "start.html", values)


def _controls(start: Known, catalog: Catalog) -> list[form.Control]:
    return form.controls(form.bind((), catalog, kind=start.kind), catalog, start.fields)


def preset_query(preset: Preset) -> str:
    """The address of a published cluster or run, as a plan."""
    return Scenario.model_validate(preset.scenario).query()
