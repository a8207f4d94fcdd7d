"""Every name on the wire: what is asked and what is answered, with its unit and meaning, from where it is declared."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from app.plan.band import Band, declaration
from app.plan.declarations import is_quantity
from app.report.labels import words


@dataclass(frozen=True)
class Entry:
    """One name.

    Attributes:
        name: as on the wire.
        owner: the record that it is a field of, as the document of the API names it.
        title: what people call it.
        unit: base unit; 1 for counts, shares and factors; blank for words, flags and parts.
        meaning: one sentence or two.
        formula: key of the formula on the method page; blank where there is none.
    """

    name: str
    owner: str
    title: str
    unit: str
    meaning: str
    formula: str = ""


def inputs(questions: Iterable[type[BaseModel]]) -> list[Entry]:
    """The fields of questions, by name; a field of several questions that says the same in each stands once."""
    entries: dict[tuple[str, str, str], Entry] = {}
    for question in questions:
        schema = question.model_json_schema()
        for name, field in question.model_fields.items():
            title, meaning = field.title or words(name).capitalize(), field.description or ""
            unit = _unit(schema["properties"][name], schema.get("$defs", {}))
            entries.setdefault((name, title, meaning), Entry(name, question.__name__, title, unit, meaning))
    return sorted(entries.values(), key=lambda entry: entry.name)


def outputs(answers: Iterable[type]) -> list[Entry]:
    """The fields of answers and of every record inside them, by name."""
    entries = {(entry.name, entry.owner): entry for kind in _records(answers) for entry in _fields(kind)}
    return sorted(entries.values(), key=lambda entry: (entry.name, entry.owner))


def _fields(kind: type) -> Iterator[Entry]:
    for entry in fields(kind):
        owner = next(base for base in reversed(kind.__mro__) if entry.name in getattr(base, "__annotations__", {}))
        if said := declaration(entry):
            yield Entry(entry.name, owner.__name__, said.label, said.unit, said.meaning, said.formula)


def _records(kinds: Iterable[Any]) -> Iterator[type]:
    """The records among some types and all that their fields may hold, each once."""
    pending, seen = list(kinds), set()
    while pending:
        hint = pending.pop()
        kind = get_origin(hint) or hint
        if is_quantity(hint):
            pending.append(Band)
        elif isinstance(kind, type) and is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            yield kind
            pending += get_type_hints(kind).values()
        pending += get_args(hint)


def _unit(schema: Any, named: Any) -> str:
    """The unit that a field of a question has; 1 for plain numbers, blank for words and flags."""
    if "$ref" in schema:
        return _unit(named[schema["$ref"].rpartition("/")[2]], named)
    if "x-unit" in schema:
        return str(schema["x-unit"])
    if schema.get("type") in ("integer", "number"):
        return "1"
    return next(filter(None, (_unit(branch, named) for branch in schema.get("anyOf", ()))), "")
