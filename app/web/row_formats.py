"""How the rows of a sweep are written: as NDJSON, as CSV or as an Arrow stream, some at a time."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Protocol

from app.report.files import safe
from app.studies.sweep import Grid, columns
from app.web.responses import CSV, to_json, wishes

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
PLAIN_CSV = CSV.partition(";")[0]
Rows = list[dict[str, Any]]


class RowFormat(Protocol):
    """A way to write rows."""

    def batch(self, rows: Rows) -> bytes:
        """Some rows, below what stands above the first."""

    def end(self) -> bytes:
        """What stands below the last."""


class JsonRows:
    """A line of JSON for each row."""

    def batch(self, rows: Rows) -> bytes:
        """The lines of some rows."""
        return b"".join(to_json(record) + b"\n" for record in rows)

    def end(self) -> bytes:
        """Nothing."""
        return b""


class CsvRows:
    """A line of CSV for each row, below a heading."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.heading = csv_line(names)

    def batch(self, rows: Rows) -> bytes:
        """The lines of some rows, with the heading the first time."""
        heading, self.heading = self.heading, b""
        return heading + b"".join(csv_line([record[name] for name in self.names]) for record in rows)

    def end(self) -> bytes:
        """Nothing."""
        return b""


def csv_line(cells: Sequence[object]) -> bytes:
    """A line of CSV, which no spreadsheet takes for a formula."""
    line = io.StringIO()
    csv.writer(line).writerow(["" if cell is None else safe(cell) for cell in cells])
    return line.getvalue().encode()


def accepted(accept: str, grid: Grid) -> tuple[str, RowFormat]:
    """The media type of a sweep's rows that a client would have most, NDJSON if it names none, and what writes them.

    What writes Arrow is loaded when the first asks for it: that takes 0.05 s.
    """
    wished = wishes(accept)
    kind, wish = max(((kind, wished.get(kind, 0.0)) for kind in (ARROW, PLAIN_CSV)), key=lambda each: each[1])
    if wish <= wished.get(NDJSON, 0.0):
        return NDJSON, JsonRows()
    if kind == PLAIN_CSV:
        return CSV, CsvRows(columns(grid))
    from app.report.arrow_stream import ArrowStream

    return ARROW, ArrowStream(grid)
