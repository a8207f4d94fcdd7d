"""What the annotation of a question's field says: its types, its limits, the unit of a quantity."""

from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from app.units import Quantity


def marks(field: FieldInfo) -> tuple[Any, ...]:
    """All types and marks within a field's annotation, unions and aliases opened."""
    metadata = list(field.metadata)
    pending: list[Any] = [field.annotation]
    while pending:
        part = pending.pop()
        alias = getattr(part, "__value__", None)
        if alias is not None:
            pending.append(alias)
        elif get_origin(part) is Literal:
            metadata.append(part)
        elif hasattr(part, "__metadata__"):
            metadata += part.__metadata__
            pending.append(part.__origin__)
        elif get_args(part):
            pending += get_args(part)
        else:
            metadata.append(part)
    return tuple(metadata)


def quantity(field: FieldInfo) -> Quantity | None:
    """What a field is as a quantity: its base unit, and how people write it."""
    return next((mark for mark in marks(field) if isinstance(mark, Quantity)), None)
