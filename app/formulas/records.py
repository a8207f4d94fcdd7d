"""Frozen records with some fields changed, as formulas and plans do a hundred times a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Record = TypeVar("Record")


def quickly_made(kind: type[Record]) -> type[Record]:
    """The same frozen dataclass, of which each is made in a third of the time, by writing its ``__dict__``.

    The ``__init__`` that it has asks ``object.__setattr__`` for each field. That one stays where a default comes from
    a factory. For records that are read by ``vars``: attributes of others take a little longer to read.

    >>> from dataclasses import dataclass
    >>> @quickly_made
    ... @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> Point(1.0), Point(y=2.0, x=1.0)
    (Point(x=1.0, y=0.0), Point(x=1.0, y=2.0))
    """
    made: Any = kind
    own = fields(made)
    if any(field.default_factory is not MISSING for field in own):
        return kind
    names = ", ".join(field.name for field in own)
    writes = "".join(f"\n    its[{field.name!r}] = {field.name}" for field in own)
    scope: dict[str, Any] = {}
    exec(f"def __init__(self, {names}):\n    its = self.__dict__{writes}", scope)  # noqa: S102 - as dataclasses do
    for said in ("__defaults__", "__annotations__", "__qualname__"):
        setattr(scope["__init__"], said, getattr(made.__init__, said))
    made.__init__ = scope["__init__"]
    return kind


def but(record: Record, **changes: Any) -> Record:
    """The same frozen dataclass with other values in some fields, in a tenth of the time of ``dataclasses.replace``.

    It constructs nothing anew, so it is for records without a ``__post_init__``; what such a record keeps of its own
    beside its fields is left behind.

    >>> from app.formulas.training.arguments import Parallelism
    >>> but(Parallelism(tensor=8.0), pipeline=2.0) == Parallelism(tensor=8.0, pipeline=2.0)
    True
    """
    kind: Any = type(record)
    names, values = kind.__dataclass_fields__, vars(record)
    if len(values) != len(names):
        values = {name: values[name] for name in names}
    changed = values | changes
    if len(changed) != len(names):
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(changes.keys() - names.keys()))}")
    copy: Record = object.__new__(kind)
    object.__setattr__(copy, "__dict__", changed)
    return copy


def each_but(record: Record, columns: Mapping[str, Sequence[Any]]) -> list[Record]:
    """The same for each row of some columns of values by their fields, in half the time of one after the other.

    >>> from app.formulas.training.arguments import Parallelism
    >>> [each.pipeline for each in each_but(Parallelism(tensor=8.0), {"pipeline": [1.0, 2.0]})]
    [1.0, 2.0]
    """
    first = but(record, **dict.fromkeys(columns))
    kind, values = type(first), vars(first)
    copies = []
    for row in zip(*columns.values(), strict=True):
        copy = object.__new__(kind)
        object.__setattr__(copy, "__dict__", values | dict(zip(columns, row, strict=True)))
        copies.append(copy)
    return copies
