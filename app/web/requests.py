"""How a request is read: its query string or its JSON body, which are the same question."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from app.catalog.load import Catalog
from app.web import problems
from app.web.problems import FieldProblem, ProblemError

MOST_FIELDS = 500
DEEPEST, LONGEST = 16, 1_000
"""Lists inside lists of a body, and the values of one: far more than any question has. A sweep's grid is no list."""
Model = TypeVar("Model", bound=BaseModel)
Fields = dict[str, Any]

KEYS = frozenset({"gpu", "scale_out", "vendor", "family", "status"})
"""Fields of which several values may stand between commas too: keys and names, which have none but before a space."""
_COMMA = re.compile(r",(?! )")
_ONCE = "Give this field once."
_BLANK = "Type a value, or leave the field out for its default."


ONCE_EACH: Mapping[str, int] = {}


def repeatable(model: type[BaseModel], *names: str) -> Mapping[str, int]:
    """Fields of a model that may repeat, and how many values each has at most."""
    rules = {name: model.model_fields[name].metadata for name in names}
    return {name: next(rule.max_length for rule in rules[name] if hasattr(rule, "max_length")) for name in names}


def query(text: str, several: Mapping[str, int] = ONCE_EACH) -> Fields:
    """The fields of a query string; those that may repeat come as tuples. A blank means the default.

    Args:
        text: what stands below the question mark.
        several: fields that may repeat, and how often at most, blanks among them.

    >>> query("gpus=64&gpu=")
    {'gpus': '64'}
    >>> query("message=1MiB&message=1GiB", {"message": 2})
    {'message': ('1MiB', '1GiB')}
    >>> query("gpu=h100-sxm,gb200&gpu=b200-sxm&gpu=", {"gpu": 12})
    {'gpu': ('h100-sxm', 'gb200', 'b200-sxm')}
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise ProblemError(422, f"The query has more than {MOST_FIELDS} fields.", title="Invalid input") from None
    fields: Fields = {}
    often = Counter(name for name, _ in pairs if name in several)
    many = [(name, several[name]) for name, times in often.items() if times > several[name]]
    wrong = [FieldProblem(pointer=problems.pointer([name]), detail=f"Give at most {most}.") for name, most in many]
    for name, value in pairs:
        if not value:
            continue
        if not value.strip():
            wrong.append(FieldProblem(pointer=problems.pointer([name]), detail=_BLANK))
        elif name in several:
            fields[name] = (*fields.get(name, ()), *values_of(name, value))
        elif name in fields:
            wrong.append(FieldProblem(pointer=problems.pointer([name]), detail=_ONCE))
        else:
            fields[name] = value
    if wrong:
        raise problems.invalid(wrong[:100])
    return fields


def values_of(name: str, text: str) -> tuple[str, ...]:
    """The values that a field which may repeat has in one text.

    >>> values_of("gpu", "h100-sxm,gb200"), values_of("gpus", "1,024"), values_of("vendor", "NVIDIA,\\x1d")
    (('h100-sxm', 'gb200'), ('1,024',), ('NVIDIA',))
    """
    return tuple(filter(None, map(str.strip, _COMMA.split(text)))) if name in KEYS else (text,)


def posted(body: bytes, kind: str) -> list[tuple[str, str]]:
    """The fields of a form that a page posts, in either of HTML's encodings; a file is its text.

    >>> posted(b"gpus=64&text=a+b", "application/x-www-form-urlencoded")
    [('gpus', '64'), ('text', 'a b')]
    >>> part = b'--x\\r\\nContent-Disposition: form-data; name="text"; filename="a.txt"\\r\\n\\r\\n8 2 float\\r\\n--x--'
    >>> posted(part, "multipart/form-data; boundary=x")
    [('text', '8 2 float')]
    """
    boundary = _BOUNDARY.fullmatch(kind)
    try:
        if boundary is None:
            return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
        return list(_parts(body, boundary["quoted"] or boundary["plain"]))
    except ValueError:
        raise ProblemError(422, f"The form has more than {MOST_FIELDS} fields.", title="Invalid input") from None


_BOUNDARY = re.compile(
    r'multipart/form-data\s*;.*?\bboundary=(?:"(?P<quoted>[^"]{1,70})"|(?P<plain>[^\s;"]{1,70})).*', re.I
)
_PART_NAME = re.compile(rb'content-disposition:[^\r\n]*?;\s*name="([^"\r\n]{0,100})"', re.I)


def _parts(body: bytes, boundary: str) -> Iterator[tuple[str, str]]:
    """The named parts of a multipart form."""
    between = b"\r\n--" + boundary.encode("latin-1", "replace")
    parts = (b"\r\n" + body).split(between, MOST_FIELDS + 2)[1:]
    if len(parts) > MOST_FIELDS + 1:
        raise ValueError
    for part in parts:
        head, _, content = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(head[:MOST_OF_HEAD])
        if name:
            yield name[1].decode("utf-8", "replace"), _text(content)


MOST_OF_HEAD = 2000
"""Bytes of a part's head that are read."""


def _text(content: bytes) -> str:
    """The text of a file, in UTF-8 or, as Windows may write it, in UTF-16."""
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    return content.decode("utf-16" if wide else "utf-8-sig", "replace")


def address(request: Request, several: Mapping[str, int] = ONCE_EACH) -> Fields:
    """The fields of a request's query string."""
    return query(request.scope["query_string"].decode("latin-1"), several)


def reject_query(request: Request) -> None:
    """Refuse a query string where there is nothing to ask."""
    names = address(request)
    if names:
        detail = "There is no such field: this address takes none."
        raise problems.invalid([FieldProblem(pointer=problems.pointer([name]), detail=detail) for name in names])


async def json_body(request: Request, others: Fields) -> Fields:
    """The JSON object in the body; ``others`` are fields of the question that stand in the address instead."""
    if others:
        raise problems.invalid([FieldProblem(pointer="#", detail="Send all fields in the body, none in the address.")])
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "Send JSON, and say so: content-type: application/json.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ProblemError(
            415, "Send the body as it is, without content-encoding.", headers={"accept-encoding": "identity"}
        )
    try:
        given = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise ProblemError(400, f"The body is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise problems.invalid([FieldProblem(pointer="#", detail="Give a JSON object: {“field”: value, …}.")])
    return given


def validate(
    model: type[Model], fields: Mapping[str, Any], catalog: Catalog, *, strict: bool, place: Sequence[object] = ()
) -> Model:
    """The fields as a model, its keys those of this catalogue.

    JSON has types, so there a number is not text (`strict`); a query string has none.
    """
    if len(fields) > MOST_FIELDS:
        detail = f"More than {MOST_FIELDS} fields. /docs lists all there are."
        raise problems.invalid([FieldProblem(pointer=problems.pointer(place), detail=detail)])
    if strict:
        fields = {name: _whole(value, (*place, name)) for name, value in fields.items()}
        texts = (name for name, value in fields.items() if isinstance(value, str) and not value.strip())
        blank = [name for name in texts if not _may_be_blank(model, name)]
        if blank:
            raise problems.invalid([FieldProblem(pointer=problems.pointer([*place, n]), detail=_BLANK) for n in blank])
    try:
        return model.model_validate(fields, strict=strict, context={"catalog": catalog})
    except ValidationError as error:
        raise problems.from_validation(error, model, place) from None


def _may_be_blank(model: type[BaseModel], name: str) -> bool:
    """Whether a field's default is a blank text."""
    return name in model.model_fields and model.model_fields[name].default == ""


def _whole(value: Any, place: Sequence[object], deep: int = 0) -> Any:
    """JSON's 512.0 is the whole number 512; a list is a tuple."""
    if isinstance(value, list):
        if deep == DEEPEST or len(value) > LONGEST:
            detail = f"Give at most {LONGEST:,} values." if deep < DEEPEST else f"Lists stand {DEEPEST} deep in others."
            raise problems.invalid([FieldProblem(pointer=problems.pointer(place), detail=detail)])
        return tuple(_whole(item, place, deep + 1) for item in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
