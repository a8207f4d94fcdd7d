"""How the rows of a sweep are written: as NDJSON, as CSV or as an Arrow stream, some at a time."""

import csv
import io
from collections.abc import Sequence
from typing import Any, Protocol

from app.report.files import safe
from app.studies.sweep import Grid, columns
from app.web.responses import PLAIN_CSV, csv_type, preferred, to_json, wants_heading

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
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
    """A line of CSV for each row, below a heading or none."""

    def __init__(self, names: Sequence[str], *, heading: bool) -> None:
        self.names = names
        self.heading = csv_line(names) if heading else b""

    def batch(self, rows: Rows) -> bytes:
        """The lines of some rows, below the heading the first time."""
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


def accepted(accept: str, grid: Grid, *, goes_on: bool) -> tuple[str, RowFormat]:
    """The media type of a sweep's rows that a client would have most, NDJSON if it names none, and what writes them.

    What writes Arrow is loaded when the first asks for it: that takes 0.05 s.

    Args:
        accept: what the client accepts.
        grid: the sweep.
        goes_on: whether other rows were before, so that CSV needs no heading; every Arrow stream has a schema.
    """
    kind = preferred(accept, (NDJSON, ARROW, PLAIN_CSV))
    if kind == NDJSON:
        return NDJSON, JsonRows()
    if kind == PLAIN_CSV:
        heading = wants_heading(accept, goes_on=goes_on)
        return csv_type(heading=heading), CsvRows(columns(grid), heading=heading)
    from app.report.arrow_stream import ArrowStream

    return ARROW, ArrowStream(grid)
