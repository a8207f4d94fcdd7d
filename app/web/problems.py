"""Errors as RFC 9457 problem documents: what is wrong, where, what is allowed and what to do.

Every answer of the API from 400 up is one of these. Pages use the same sentences beside their fields.
"""

import difflib
import http
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from starlette.responses import Response

from app import units
from app.catalog.names import listed
from app.plan.scenario import Scenario
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.serving_sizing import ServeSizeQuestion
from app.studies.sizing import Question
from app.web import field_examples
from app.web.field_marks import quantity

MEDIA_TYPE = "application/problem+json"
INVALID = "urn:railyard:problem:invalid-input"
NO_FIELDS: Mapping[str, FieldInfo] = {}
QUESTIONS: Mapping[str, type[BaseModel]] = {
    "/api/v1/size": Question,
    "/api/v1/serve/size": ServeSizeQuestion,
    "/api/v1/cost": CostQuestion,
    "/api/v1/calibrate": CalibrateQuestion,
}
"""Questions that have fields of their own, which others are asked for by mistake."""
SELECTING = frozenset({("fields",), ("include",), ("exclude",)})
SELECTED = "This selects parts of the answer: write it into the address, also of a POST, such as ?include=alternatives."


class FieldProblem(BaseModel):
    """One field that is wrong."""

    pointer: str = Field(description="The field, as a JSON pointer: #/gpus", examples=["#/gpus"])
    detail: str = Field(description="What is allowed and what to do.", examples=["Type a whole number of at least 1."])


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field("about:blank", description="What kind of problem; about:blank says no more than the status does.")
    title: str = Field(description="The kind of problem in words.", examples=["Invalid input"])
    status: int = Field(ge=400, le=599, description="The HTTP status.", examples=[422])
    detail: str = Field(description="What happened and what to do.", examples=["gpus: Type a whole number."])
    instance: str = Field("", description="The path that was asked.", examples=["/api/v1/plan"])
    request_id: str = Field("", description="Name this to the operator: the log has it too.")
    errors: list[FieldProblem] = Field(default_factory=list, description="Each wrong field.")


class ProblemError(Exception):
    """Raised anywhere in a request to answer with a problem document."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: Sequence[FieldProblem] = (),
        *,
        kind: str = "about:blank",
        title: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(
            type=kind, title=title or http.HTTPStatus(status).phrase, status=status, detail=detail, errors=list(errors)
        )
        self.headers = dict(headers or {})


NO_VALUE = "Give a value; leave the field out for its default."


def invalid(errors: Sequence[FieldProblem]) -> ProblemError:
    """The 422 for input that cannot be understood."""
    first = errors[0]
    name = first.pointer.removeprefix("#").removeprefix("/")
    more = f" ({len(errors) - 1} more below.)" if len(errors) > 1 else ""
    detail = (f"{name}: {first.detail}" if name else first.detail) + more
    return ProblemError(422, detail, errors, kind=INVALID, title="Invalid input")


def pointer(location: Sequence[object]) -> str:
    """A place in the input as a JSON pointer in a URI fragment (RFC 6901).

    >>> pointer(["scenarios", 0, "gpus"]), pointer([])
    ('#/scenarios/0/gpus', '#')
    """
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1")[:200] for part in location)


def advice(error: ErrorDetails, fields: Mapping[str, FieldInfo] = NO_FIELDS) -> str:
    """One pydantic error as a sentence that says what is allowed, of a question that has these fields.

    >>> advice({"type": "int_parsing", "loc": ("gpus",), "msg": "", "input": "twelve"})
    'Type a whole number, for example 1024 or 16k.'
    >>> advice({"type": "extra_forbidden", "loc": ("gpuss",), "msg": "", "input": "1"}, {"gpus": FieldInfo()})
    'There is no such field. The nearest is “gpus”; /docs lists all.'
    """
    kind = error["type"]
    limits = error.get("ctx") or {}
    if error["input"] is None and kind != "extra_forbidden":
        return NO_VALUE
    bounds = {
        "greater_than": "more than {gt}",
        "greater_than_equal": "at least {ge}",
        "less_than": "less than {lt}",
        "less_than_equal": "at most {le}",
    }
    if kind in bounds:
        return _within(bounds[kind], limits, error, fields)
    if kind == "extra_forbidden":
        return _no_field(str(error["loc"][-1]) if error["loc"] else "", fields)
    if kind in ("too_long", "too_short"):
        most = limits["max_length" if kind == "too_long" else "min_length"]
        things = "field" if limits["field_type"] == "Dictionary" else "value"
        return f"Give at {'most' if kind == 'too_long' else 'least'} {most:,} {things}{'s' if most > 1 else ''}."
    if kind in ("literal_error", "enum"):
        return f"Choose {str(limits.get('expected', '')).replace(chr(39), '')}."
    sentences = {
        "missing": "This field is needed.",
        "finite_number": "Type a finite number.",
        "string_type": "Type text.",
        "string_pattern_mismatch": "Type letters, digits, dots, plus and minus signs, as in 2026-11+0a1b2c3d.",
        "string_too_long": "Type at most {max_length} characters.",
        "string_too_short": "Type at least {min_length} characters.",
        "json_invalid": "This is not JSON: {error}.",
    }
    if kind in sentences:
        return sentences[kind].format(**limits)
    if kind in ("int_type", "float_type"):
        return f"Give a {'whole ' if kind == 'int_type' else ''}number, not text or a list."
    if kind.startswith("int_"):
        return units.WHOLE.advice
    if kind.startswith(("float_", "decimal_")):
        return "Type a number."
    if kind.startswith("bool_"):
        return "Type true or false."
    if kind.startswith(("list_", "tuple_", "set_")):
        return "Give a list."
    if kind.startswith(("model_", "dict_", "dataclass_", "mapping_")):
        return "Give a JSON object: {“field”: value, …}."
    message = error["msg"].removeprefix("Value error, ")
    return message if message.endswith((".", "!", "?")) else message + "."


def _no_field(name: str, fields: Mapping[str, FieldInfo]) -> str:
    """What to do about a name that none of these fields has.

    >>> _no_field("deadline", Scenario.model_fields)
    'There is no such field here; /api/v1/size has it.'
    """
    elsewhere = [path for path, question in QUESTIONS.items() if name in question.model_fields]
    if fields and elsewhere:
        return f"There is no such field here; {listed(elsewhere)} {'has' if len(elsewhere) == 1 else 'have'} it."
    near = difflib.get_close_matches(name[:64], fields, 1, 0.6)
    return f"There is no such field. {f'The nearest is “{near[0]}”; ' if near else ''}/docs lists all."


def _within(bound: str, limits: Mapping[str, Any], error: ErrorDetails, fields: Mapping[str, FieldInfo]) -> str:
    """What a number outside its bounds may be, with its unit: a bare one is mostly meant in another than the base."""
    field = fields.get(str(error["loc"][0])) if error["loc"] else None
    kind = quantity(field) if field else None
    if kind is None or kind.unit == "1":
        said = f"Type a number of {bound.format(**{name: _plain(value) for name, value in limits.items()})}"
        return f"{said}{_as_share(error['input']) if limits.get('le') == 1 else ''}."
    shown = bound.format(**{name: units.show(value, kind.unit, 4) for name, value in limits.items()})
    example = field_examples.FIELDS.get(str(error["loc"][0]))
    like = f"“{example}”" if isinstance(example, str) else kind.example
    return f"Type {shown}, like {like}. A number without a unit is in {kind.unit}."


def _as_share(typed: object) -> str:
    """What a share is that was typed as so many per cent.

    >>> _as_share("95"), _as_share(3), _as_share(250)
    (': 95 % is 0.95', ': 3 % is 0.03', '')
    """
    number = float(typed) if isinstance(typed, str | int | float) and _NUMBER.fullmatch(str(typed)) else 0.0
    return f": {number:g} % is {number / 100:g}" if 2 <= number <= 100 else ""


_NUMBER = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?")


def _plain(value: object) -> str:
    return f"{value:,.12g}".replace("e+", "e") if isinstance(value, float | int) else str(value)


MOST_ADVISED = 3
"""Unknown fields that are answered with the one nearest to them, which takes a millisecond each."""


def from_validation(error: ValidationError, model: type[BaseModel], prefix: Sequence[object] = ()) -> ProblemError:
    """What pydantic found wrong, as the 422 problem: one entry a field, at most a hundred."""
    by_pointer: dict[str, FieldProblem] = {}
    said = (item for item in error.errors(include_url=False) if item["type"] != "default_factory_not_called")
    for number, item in enumerate(islice(said, 100)):
        unknown = item["type"] == "extra_forbidden"
        place = [part for part in item["loc"] if unknown or not _is_branch(part)]
        where = pointer([*prefix, *place])
        if item["type"] == "too_short" and any(inside.startswith(f"{where}/") for inside in by_pointer):
            continue  # a list is not counted to its end once a value of it is wrong
        selects = unknown and not prefix and issubclass(model, Scenario) and item["loc"] in SELECTING
        fields = NO_FIELDS if unknown and number >= MOST_ADVISED else model.model_fields
        detail = SELECTED if selects else advice(item, fields)
        by_pointer.setdefault(where, FieldProblem(pointer=where, detail=detail))
    return invalid(list(by_pointer.values()))


def _is_branch(part: object) -> bool:
    """Whether a step of a location names a branch of a union and not a field."""
    return isinstance(part, str) and ("[" in part or part in ("int", "float", "str", "bool", "none", "nullable"))


def response(error: ProblemError, instance: str = "", request_id: str = "") -> Response:
    """The problem as an HTTP answer."""
    body: dict[str, Any] = error.problem.model_dump()
    body |= {"instance": instance[:500], "request_id": request_id}
    if not body["errors"]:
        del body["errors"]
    headers = {"cache-control": "no-store", **error.headers}
    return Response(orjson.dumps(body), error.problem.status, headers, media_type=MEDIA_TYPE)


def status_problem(status: int, detail: object = None, headers: Mapping[str, str] | None = None) -> ProblemError:
    """A problem for a plain HTTP error, worded as advice."""
    sentences = {
        404: "There is nothing at this address. /docs lists the API; / is the planner.",
        405: "This address does not take that method. Allowed: {allow}.",
        406: "Nothing here comes in a format you accept.",
        500: "Something broke on our side. Name the request id to your operator: the log has it.",
    }
    phrase = http.HTTPStatus(status).phrase
    text = str(detail) if detail and detail != phrase else sentences.get(status, phrase + ".")
    allow = next((value for name, value in (headers or {}).items() if name.lower() == "allow"), "GET")
    return ProblemError(status, text.replace("{allow}", allow), headers=headers)
