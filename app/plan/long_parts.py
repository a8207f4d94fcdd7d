"""The long parts of a plan, which few read: made and written where they are asked for, null elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, get_args, get_origin, get_type_hints

from app.plan.declarations import part_of
from app.plan.result import Plan

LONG_PARTS: Mapping[str, tuple[str, ...]] = {
    "alternatives": ("training.alternatives", "all_reduce.alternatives"),
    "bill_of_materials": (
        "cluster.bill_of_materials", "fabric.bill_of_materials", "fabric.networks.bill_of_materials",
    ),
    "cloud": ("training.cloud",),
    "details": ("fabric.shape", "fabric.slot", "storage", "training.groups"),
    "explanations": ("explanations",),
}  # fmt: skip
"""Other ways to run the job, what is bought line by line, many more ways as dots, what its network asks of PCIe links
and the like, how numbers were computed: by the names that one asks for them by, their dotted names in a plan."""
SOURCES = "sources"
"""What asks for the sources that every band rests on."""
STORAGE = "storage"
"""What asks for the storage alone, of the details."""
EVERYTHING = (*LONG_PARTS, SOURCES)
"""All that a plan can do without."""


def parts_of(names: Sequence[str]) -> frozenset[str]:
    """The long parts that some dotted names of a plan lie in, or hold.

    >>> sorted(parts_of(["storage.capacity", "training"]))
    ['alternatives', 'cloud', 'details']
    """
    return frozenset(
        part for part, paths in LONG_PARTS.items() if any(_meet(path, name) for path in paths for name in names)
    )


def _meet(path: str, name: str) -> bool:
    """Whether one name is the other, or inside it."""
    return path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.")


def long_fields() -> Iterator[tuple[type, str]]:
    """The fields that hold them: kind of record, and name."""
    for path in chain.from_iterable(LONG_PARTS.values()):
        *above, last = path.split(".")
        kind: Any = Plan
        for name in above:
            hint = get_type_hints(kind)[name]
            kind = part_of(get_args(hint)[0] if get_origin(hint) is tuple else hint)
        yield kind, last
