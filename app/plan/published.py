"""Published reference designs: rows of a table with the columns of ``measurements/fabric.csv``."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST = 1e9
"""No design has more of anything."""
FILE = Path(__file__).parents[1] / "measurements" / "fabric.csv"


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
