"""Every result by its name on the wire, with what it declares of itself: what tables, pages and files loop over."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from app.plan.band import Band, Declaration, Q, Quantity, declaration

READING = ("serving", "training", "bottleneck", "memory", "storage", "all_reduce", "costs", "cluster", "fabric")
"""The order in which people read the parts of a plan; fields of a part are read in the order they are declared in."""


class Result(NamedTuple):
    """One result: its name on the wire, such as fabric.cost, what it declares, and its value."""

    path: str
    declared: Declaration
    value: Any


def results(part: Any, path: str = "") -> Iterator[Result]:
    """Every result inside a record, down through its parts, as people read them; a list is one result."""
    for field, declared in _fields_of(part.__class__):
        value = getattr(part, field)
        name = f"{path}.{field}" if path else field
        if declared:
            yield Result(name, declared, value)
        if hasattr(value, "__dataclass_fields__") and not isinstance(value, Band):
            yield from results(value, name)


@cache
def _fields_of(kind: type) -> tuple[tuple[str, Declaration | None], ...]:
    """The fields of a kind of record as people read them, each with what it declares."""
    ordered = sorted(fields(kind), key=lambda entry: _place(entry.name))
    return tuple((entry.name, declaration(entry)) for entry in ordered)


def value_of(part: Any, path: str) -> Any:
    """One result inside a record, by its name on the wire; ``None`` where the part that would hold it is missing."""
    for name in path.split("."):
        if part is None:
            return None
        part = getattr(part, name)
    return part


def view(part: Any, name: str, path: str = "") -> list[Result]:
    """The results that stand in a view, see `Declaration.show`."""
    return [result for result in results(part, path) if name in result.declared.show]


def declared(kind: type) -> Mapping[str, Declaration]:
    """What every result inside a kind of record declares, by its name on the wire, as people read them."""
    return {name: said for name, said, _ in _declared(kind)}


@cache
def figures(kind: type) -> Mapping[str, Declaration]:
    """The same of single figures, flags and words, without lists and parts.

    Kept: it takes 2 ms, for every result that is asked for.
    """
    return {name: said for name, said, hint in _declared(kind) if is_quantity(hint) or _alternatives(hint) <= SINGLE}


@cache
def types(kind: type) -> Mapping[str, type]:
    """The type of each of these figures; of a quantity that of its typical value."""
    hints = {name: hint for name, _, hint in _declared(kind)}
    return {
        name: float if is_quantity(hints[name]) else next(iter(_alternatives(hints[name]))) for name in figures(kind)
    }


SINGLE = frozenset({int, float, bool, str})


def _declared(kind: type, path: str = "") -> Iterator[tuple[str, Declaration, Any]]:
    hints = get_type_hints(kind)
    for entry in sorted(fields(kind), key=lambda entry: _place(entry.name)):
        name, hint = f"{path}.{entry.name}" if path else entry.name, hints[entry.name]
        if said := declaration(entry):
            yield name, said, hint
        if inner := part_of(hint):
            yield from _declared(inner, name)


def _alternatives(hint: Any) -> frozenset[Any]:
    """The types that a field may have, without None; those of a literal's values."""
    if get_origin(hint) is Literal:
        return frozenset(map(type, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return frozenset().union(
            *(_alternatives(alternative) for alternative in get_args(hint) if alternative is not NoneType)
        )
    return frozenset({hint})


def part_of(hint: Any) -> type | None:
    """The record that a field holds; nothing where it holds a quantity, a list or a plain value."""
    if is_quantity(hint):
        return None
    alternatives = _alternatives(hint)
    hint = next(iter(alternatives)) if len(alternatives) == 1 else None
    kind = get_origin(hint) or hint
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def is_quantity(hint: Any) -> bool:
    """Whether a field holds a quantity, which a reader gets as a band."""
    return hint is Q or hint == Quantity


def _place(name: str) -> int:
    return READING.index(name) if name in READING else -1
