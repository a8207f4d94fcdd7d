"""Published reference designs: rows of a table with the columns of ``measurements/fabric.csv``."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app import units

MOST = 1e9
"""No design has more of anything."""
FILE = Path(__file__).parents[1] / "validation" / "measurements" / "fabric.csv"


@dataclass(frozen=True)
class Row:
    """One published design. A blank cell means that the source does not say."""

    cells: dict[str, str]

    def text(self, name: str) -> str:
        """A cell as text, blank when absent."""
        return (self.cells.get(name) or "").strip()

    def number(self, name: str) -> int | None:
        """A cell as a whole number, if it is one."""
        text = self.text(name).replace(",", "")
        try:
            value = float(text)
        except ValueError:
            return None
        return int(value) if value.is_integer() and abs(value) < MOST else None

    @property
    def title(self) -> str:
        """Source and id in one line."""
        source = " ".join(word for word in self.text("source").split() if not word.startswith("http")).strip(" ,;")
        return f"{source} ({self.text('id')})" if source else self.text("id")


def read(path: Path = FILE) -> Iterator[Row]:
    """The rows of a file."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for cells in csv.DictReader(file):
            yield Row({str(key): value or "" for key, value in cells.items() if key is not None})


@dataclass(frozen=True)
class Reference:
    """A published compute fabric, read once: what a design must equal to be the same."""

    title: str
    printed: Mapping[str, int]


COUNTS = (
    "n_nodes", "nics_per_node", "planes", "leaf", "spine", "core", "node_leaf_cables", "leaf_spine_cables",
    "spine_core_cables",
)  # fmt: skip
"""What a design is compared in, where the source prints it; cables as links."""


@cache
def references() -> Mapping[tuple[float, bool, int, int], tuple[Reference, ...]]:
    """The published compute fabrics by the rate of a NIC [B/s], whether they are InfiniBand, and their leaf and spine
    switches [1].

    Kept: to read the file takes 2.5 ms.
    """
    by_kind: dict[tuple[float, bool, int, int], list[Reference]] = {}
    for row in read():
        rate, leaves, spines = (row.number(name) for name in ("nic_gbps", "leaf", "spine"))
        if row.text("role") != "compute" or rate is None or leaves is None or spines is None:
            continue
        per_cable = row.number("links_per_cable") or 1
        printed = {
            name: value * (per_cable if name.endswith("_cables") else 1)
            for name in COUNTS
            if (value := row.number(name)) is not None
        }
        kind = units.parse(f"{rate} Gb/s", "B/s"), not row.text("fabric").startswith("Ethernet"), leaves, spines
        by_kind.setdefault(kind, []).append(Reference(row.title, printed))
    return {kind: tuple(references) for kind, references in by_kind.items()}
