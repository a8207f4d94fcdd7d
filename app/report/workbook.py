"""Workbooks (XLSX), made in memory: where the service runs there may be no disk to write on."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import fsum, isclose
from typing import Any

import xlsxwriter
from xlsxwriter.utility import xl_rowcol_to_cell

Sheet = tuple[str, Sequence[str], Iterable[Sequence[Any]]]
"""Its title, headings and rows."""
CREATED = datetime(2000, 1, 1, tzinfo=UTC)
"""The same for every workbook, so that the same tables are the same bytes."""


@dataclass(frozen=True)
class Formula:
    """A cell that a spreadsheet works out, and what it comes to."""

    text: str
    value: float

    def __str__(self) -> str:
        return str(self.value)


SAME = 1e-9
"""Relative difference up to which a formula gives the number that the plan has."""


def with_formulas(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """The rows of a table, typical costs as quantity × price of one and a last row as the sum of those above it.

    A cell is a formula only where that gives its own number, so a ledger adds up to the plan. Ranges stay numbers: the
    ends of a sum are not the sums of ends.
    """
    listed = [list(row) for row in rows]
    names = [heading.partition(" [")[0] for heading in headings]
    if {"quantity", "unit_price typical", "cost typical"} <= set(names):
        many, price, cost = (names.index(name) for name in ("quantity", "unit_price typical", "cost typical"))
        for place, row in enumerate(listed, start=1):
            if row[many] and row[price] and isclose(row[many] * row[price], row[cost] or 0.0, rel_tol=SAME):
                row[cost] = Formula(f"={xl_rowcol_to_cell(place, many)}*{xl_rowcol_to_cell(place, price)}", row[cost])
    for column in (place for place, name in enumerate(names) if name.endswith(" typical")):
        _sum_up(listed, column)
    return listed


def _sum_up(rows: list[list[Any]], column: int) -> None:
    """Let the last row add up the others, where it is their sum; and rows before it those that begin alike."""
    last = lines = len(rows) - 1
    while lines > 0 and _is_sum(rows, column, lines - 1, _alike(rows, lines - 1)):
        lines -= 1
    if last > 1 and _is_sum(rows, column, last, range(lines)):
        for place in range(lines, last):
            rows[place][column] = _sum(rows, column, place, _alike(rows, place))
        rows[last][column] = _sum(rows, column, last, range(lines))


def _alike(rows: list[list[Any]], place: int) -> range:
    """The rows above one that begin as it does, where they stand together."""
    alike = [above for above in range(place) if rows[above][0] == rows[place][0]]
    return range(alike[0], alike[-1] + 1) if alike and alike[-1] - alike[0] == len(alike) - 1 else range(0)


def _is_sum(rows: list[list[Any]], column: int, place: int, lines: range) -> bool:
    """Whether a cell that is no formula yet is the sum of those of other rows."""
    whole = rows[place][column]
    cells = (rows[line][column] for line in lines)
    values = [cell.value if isinstance(cell, Formula) else cell for cell in cells]
    numbers = [value for value in values if isinstance(value, int | float)]
    return bool(numbers and isinstance(whole, int | float) and whole) and isclose(fsum(numbers), whole, rel_tol=SAME)


def _sum(rows: list[list[Any]], column: int, place: int, lines: range) -> Formula:
    """A cell as the sum of those of other rows, below the headings."""
    first, last = (xl_rowcol_to_cell(line + 1, column) for line in (lines[0], lines[-1]))
    return Formula(f"=SUM({first}:{last})", rows[place][column])


def written(sheets: Iterable[Sheet]) -> bytes:
    """An XLSX file: for each sheet its title, headings and rows. Text is never a formula or a link."""
    buffer = io.BytesIO()
    book = xlsxwriter.Workbook(
        buffer,
        {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "nan_inf_to_errors": True},
    )
    book.set_properties({"author": "Railyard", "created": CREATED})
    bold = book.add_format({"bold": True})
    used: set[str] = set()
    for title, headings, rows in sheets:
        sheet = book.add_worksheet(sheet_name(title, used))
        sheet.freeze_panes(1, 0)
        listed = with_formulas(headings, rows)
        for column, heading in enumerate(headings):
            longest = max([len(str(heading)), *(len(str(row[column])) for row in listed[:200])])
            sheet.set_column(column, column, min(max(longest + 2, 10), 60))
        sheet.write_row(0, 0, headings, bold)
        for number, row in enumerate(listed, start=1):
            for column, cell in enumerate(row):
                if isinstance(cell, Formula):
                    sheet.write_formula(number, column, cell.text, None, cell.value)
                else:
                    sheet.write(number, column, cell)
    book.close()
    for sheet in book.worksheets():  # they and the book hold each other
        sheet.table.clear()
    return buffer.getvalue()


def sheet_name(title: str, used: set[str]) -> str:
    """A name a workbook takes: at most 31 characters, none of []:*?/\\, not used before."""
    name = "".join(" " if letter in "[]:*?/\\" else letter for letter in title)[:31].strip("' ") or "Sheet"
    while name in used:
        name = name[:28] + f" {len(used)}"
    used.add(name)
    return name
