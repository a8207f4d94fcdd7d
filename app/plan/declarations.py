"""Every result by its name on the wire, with what it declares of itself: what tables, pages and files loop over."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from app.plan.band import Band, Declaration, Q, Quantity, declaration

READING = ("training", "bottleneck", "memory", "all_reduce", "costs", "cluster", "fabric")
"""The order in which people read the parts of a plan; fields of a part are read in the order they are declared in."""


class Result(NamedTuple):
    """One result: its name on the wire, such as fabric.cost, what it declares, and its value."""

    path: str
    declared: Declaration
    value: Any


def results(part: Any, path: str = "") -> Iterator[Result]:
    """Every result inside a record, down through its parts, as people read them; a list is one result."""
    for entry in sorted(fields(part), key=lambda entry: _place(entry.name)):
        value = getattr(part, entry.name)
        name = f"{path}.{entry.name}" if path else entry.name
        if declared := declaration(entry):
            yield Result(name, declared, value)
        if is_dataclass(value) and not isinstance(value, Band):
            yield from results(value, name)


def view(part: Any, name: str, path: str = "") -> list[Result]:
    """The results that stand in a view, see `Declaration.show`."""
    return [result for result in results(part, path) if name in result.declared.show]


@cache
def declared(kind: type, path: str = "") -> Mapping[str, Declaration]:
    """What every result inside a kind of record declares, by its name on the wire, as people read them."""
    found: dict[str, Declaration] = {}
    hints = get_type_hints(kind)
    for entry in sorted(fields(kind), key=lambda entry: _place(entry.name)):
        name = f"{path}.{entry.name}" if path else entry.name
        if said := declaration(entry):
            found[name] = said
        if inner := part_of(hints[entry.name]):
            found |= declared(inner, name)
    return found


def part_of(hint: Any) -> type | None:
    """The record that a field holds; nothing where it holds a quantity, a list or a plain value."""
    if is_quantity(hint):
        return None
    if get_origin(hint) in (Union, UnionType):
        inner = [one for one in get_args(hint) if one is not NoneType]
        hint = inner[0] if len(inner) == 1 else None
    kind = get_origin(hint) or hint
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def is_quantity(hint: Any) -> bool:
    """Whether a field holds a quantity, which a reader gets as a band."""
    return hint is Q or hint == Quantity


def _place(name: str) -> int:
    return READING.index(name) if name in READING else -1
