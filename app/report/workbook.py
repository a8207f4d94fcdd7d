"""Tables as an XLSX workbook, made in memory: where this runs there may be no disk to write on."""

import io
from collections.abc import Iterable, Sequence
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter
from openpyxl.worksheet._writer import WorksheetWriter
from openpyxl.writer.excel import ExcelWriter

Sheet = tuple[str, Sequence[str], Iterable[Sequence[Any]]]
"""Its title, headings and rows."""


class _InMemory(ExcelWriter):
    """openpyxl writes each sheet into a temporary file and that into the archive; here it is memory all the way."""

    _archive: ZipFile

    def write_worksheet(self, ws: Any) -> None:
        """One sheet, which has been filled."""
        ws.close()
        ws._drawing = None
        ws._rels = ws._writer._rels
        self._archive.writestr(ws.path[1:], ws._writer.out.getvalue())
        self.manifest.append(ws)


def written(sheets: Iterable[Sheet]) -> bytes:
    """An XLSX file: for each sheet its title, headings and rows. Text is never a formula."""
    book = Workbook(write_only=True)
    book.properties.creator = "Railyard"
    used: set[str] = set()
    for title, headings, rows in sheets:
        sheet: Any = book.create_sheet(sheet_name(title, used))
        sheet.freeze_panes = "A2"
        listed = [list(row) for row in rows]
        for index, heading in enumerate(headings):
            longest = max([len(str(heading)), *(len(str(row[index])) for row in listed[:200])])
            sheet.column_dimensions[get_column_letter(index + 1)].width = min(max(longest + 2, 10), 60)
        sheet._writer = WorksheetWriter(sheet, io.BytesIO())
        sheet._writer.write_top()
        bold = []
        for heading in headings:
            cell = WriteOnlyCell(sheet, value=heading)
            cell.data_type = "s"
            cell.font = Font(bold=True)
            bold.append(cell)
        sheet.append(bold)
        for row in listed:
            cells: list[Any] = []
            for value in row:
                cell = WriteOnlyCell(sheet, value=value)
                if isinstance(value, str):
                    cell.data_type = "s"
                cells.append(cell)
            sheet.append(cells)
    buffer = io.BytesIO()
    _InMemory(book, ZipFile(buffer, "w", ZIP_DEFLATED)).save()
    return buffer.getvalue()


def sheet_name(title: str, used: set[str]) -> str:
    """A name a workbook takes: at most 31 characters, none of []:*?/\\, not used before."""
    name = "".join(" " if letter in "[]:*?/\\" else letter for letter in title)[:31].strip("' ") or "Sheet"
    while name in used:
        name = name[:28] + f" {len(used)}"
    used.add(name)
    return name
