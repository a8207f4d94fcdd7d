"""Frozen records with some fields changed, as formulas and plans do a hundred times a question."""

from __future__ import annotations

from typing import Any, TypeVar

Record = TypeVar("Record")


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
