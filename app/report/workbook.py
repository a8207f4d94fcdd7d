"""Workbooks (XLSX), made in memory: where the service runs there may be no disk to write on."""

import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import xlsxwriter

Sheet = tuple[str, Sequence[str], Iterable[Sequence[Any]]]
"""Its title, headings and rows."""
CREATED = datetime(2000, 1, 1, tzinfo=UTC)
"""The same for every workbook, so that the same tables are the same bytes."""


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
        listed = [list(row) for row in rows]
        for column, heading in enumerate(headings):
            longest = max([len(str(heading)), *(len(str(row[column])) for row in listed[:200])])
            sheet.set_column(column, column, min(max(longest + 2, 10), 60))
        sheet.write_row(0, 0, headings, bold)
        for number, row in enumerate(listed, start=1):
            sheet.write_row(number, 0, row)
    book.close()
    return buffer.getvalue()


def sheet_name(title: str, used: set[str]) -> str:
    """A name a workbook takes: at most 31 characters, none of []:*?/\\, not used before."""
    name = "".join(" " if letter in "[]:*?/\\" else letter for letter in title)[:31].strip("' ") or "Sheet"
    while name in used:
        name = name[:28] + f" {len(used)}"
    used.add(name)
    return name
