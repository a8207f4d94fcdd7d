"""JSON schemas of answers, made from what each record declares of its fields: label, meaning and unit."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic.fields import FieldInfo

from app.catalog.estimate import EstimateIn
from app.catalog.names import words
from app.plan.band import Band, Declaration, Quantity, declaration
from app.plan.long_parts import long_fields
from app.plan.result import Term, Training
from app.studies.sizing import Candidate

Schema = dict[str, Any]

PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
ESTIMATE: Mapping[str, Declaration] = {
    "typical": Declaration("", "Typical", "The typical value, in the unit that `unit` names."),
    "unit": Declaration("", "Unit", "Its base unit."),
    "source": Declaration("", "Source", "Key of the source it comes from."),
    "status": Declaration("", "Status", "How certain it is that one can have it: shipping, announced, projected."),
    "low": Declaration("", "Low", "About the 5th percentile of what one meets; null: exact."),
    "high": Declaration("", "High", "About the 95th percentile of what one meets; null: exact."),
    "note": Declaration("", "Note", "What else to know of it."),
    "date": Declaration("", "Date", "When it held, if not when its source was published."),
    "key": Declaration("", "Key", "Its place in the catalogue: kind, entry and field."),
    "spread": Declaration("", "Spread", "Whether its range is drawn from."),
}
"""An estimate's fields: the catalogue lies below what declares results."""
NOT_FINITE = frozenset(
    {(Band, "low"), (Band, "high"), (Term, "value"), (Training, "availability"), (Training, "straggler")}
    | {(Candidate, name) for name in ("time_to_train", "rental", "run", "cost")}
)
"""Numbers that may be infinite, or not a number where there is nothing to run: JSON writes both as null."""

LONG = frozenset(long_fields())
"""Parts that are null in a plan unless they are asked for."""
LEFT_OUT: Mapping[Any, Collection[str]] = {Band: ("sources", "projected")}
"""Parts that come where they are asked for, or say something."""


class AnswerSchemas:
    """The records of some answers as components, each once."""

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type: a reference where it is a record."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind is Any:
            return {}
        if kind in PLAIN:
            return {"type": PLAIN[kind]}
        if isinstance(kind, TypeVar):
            return self.of(kind.__default__)  # type: ignore[attr-defined]  # the standard library has it from 3.13 on
        if origin is Annotated:
            unit = next((mark.unit for mark in inner[1:] if isinstance(mark, EstimateIn)), "")
            return self.of(inner[0]) | ({"x-unit": unit} if unit else {})
        if origin is Literal:
            return {"type": "string", "enum": list(inner)}
        if kind == Quantity:
            return self._quantity()
        if origin in (Union, UnionType):
            return _any_of([self.of(branch) for branch in inner])
        if origin is tuple:
            return self._tuple(inner)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            values = self.of(inner[1])
            return {"type": "object", "additionalProperties": values or True}
        return self._record(origin or kind)

    def _quantity(self) -> Schema:
        about = "A band, or null where it cannot be computed: a finding says why."
        self.components["Quantity"] = {"anyOf": [self.of(Band), {"type": "null"}], "description": about}
        return {"$ref": "#/components/schemas/Quantity"}

    def _tuple(self, inner: tuple[Any, ...]) -> Schema:
        if inner[-1] is Ellipsis:
            return {"type": "array", "items": self.of(inner[0])}
        items = list({str(schema): schema for schema in map(self.of, inner)}.values())
        return {"type": "array", "items": _any_of(items), "minItems": len(inner), "maxItems": len(inner)}

    def _record(self, kind: Any) -> Schema:
        name = kind.__name__
        if name not in self.components:
            schema: Schema = {"type": "object", "description": " ".join((kind.__doc__ or "").split())}
            self.components[name] = schema
            schema["properties"] = {field: self._property(kind, field, *about) for field, *about in _fields(kind)}
            seldom: Collection[str] = LEFT_OUT.get(kind, getattr(kind, "__optional_keys__", ()))
            schema["required"] = [field for field in schema["properties"] if field not in seldom]
        return {"$ref": f"#/components/schemas/{name}"}

    def _property(self, kind: Any, field: str, hint: Any, declared: Declaration) -> Schema:
        schema = self.of(hint)
        if (kind, field) in NOT_FINITE or ((kind, field) in LONG and NoneType not in get_args(hint)):
            schema = _any_of([schema, {"type": "null"}])
        about = {"title": declared.label, "description": declared.meaning}
        return {**schema, **about} | ({"x-unit": declared.unit} if declared.unit else {})


def _any_of(schemas: list[Schema]) -> Schema:
    """One of several: a list of types where nothing more is said of them."""
    if len(schemas) == 1:
        return schemas[0]
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    units = [schema.pop("x-unit") for schema in schemas if "x-unit" in schema]
    return {"anyOf": schemas} | ({"x-unit": units[0]} if units else {})


def _fields(kind: Any) -> Iterator[tuple[str, Any, Declaration]]:
    """The fields of a record with type and declaration; those of the catalogue's entries are named for themselves."""
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        for entry in fields(kind):
            yield entry.name, hints[entry.name], declaration(entry) or ESTIMATE[entry.name]
    elif is_typeddict(kind):
        for name, hint in hints.items():
            inner, declared = get_args(get_args(hint)[0] if get_origin(hint) is NotRequired else hint)
            yield name, inner, declared
    else:
        entries: Mapping[str, FieldInfo] = kind.model_fields
        for name, about in entries.items():
            unit = "1" if _is_number(hints[name]) else ""
            yield name, hints[name], Declaration(unit, words(name), about.description or f"{words(name)}.")


def _is_number(hint: Any) -> bool:
    """Whether a field holds a plain number or several, if anything."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return _is_number(inner[0])
    return hint in (int, float) or (get_origin(hint) in (Union, UnionType, tuple) and any(map(_is_number, inner)))
