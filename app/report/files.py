"""The tables of a plan as files: CSV, XLSX and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import orjson

from app.catalog.load import Catalog
from app.plan.cables import Cable
from app.plan.result import Plan
from app.report.tables import Table, tables, used_sources

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe(cell: object) -> object:
    """Text that a spreadsheet would run as a formula, made plain text; numbers stay numbers.

    >>> safe("=1+1"), safe("@SUM(A1)"), safe(-3.5), safe("NDR")
    ("'=1+1", "'@SUM(A1)", -3.5, 'NDR')
    """
    return f"'{cell}" if isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA) else cell


def csv_lines(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A CSV file (RFC 4180), a piece at a time, so that a long list needs no memory; it may have no headings."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    if headings:
        writer.writerow([safe(heading) for heading in headings])
    for row in rows:
        writer.writerow([_csv_cell(cell) for cell in row])
        if buffer.tell() > 32_768:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _csv_cell(cell: object) -> object:
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else safe(cell)


class Edition(Protocol):
    """What an answer says of where it comes from, as a plan does."""

    @property
    def model_version(self) -> str:
        """Version of the models."""

    @property
    def catalog_version(self) -> str:
        """Version of the catalogue."""

    @property
    def permalink(self) -> str:
        """Address of the page that shows it."""


def table_csv(table: Table, answer: Edition) -> Iterator[str]:
    """One table as CSV, what each row rests on in its last columns: a file stays whole when it is passed on."""
    edition = (answer.model_version, answer.catalog_version, answer.permalink)
    rows = zip(table.flat(), table.rows, strict=True)
    return csv_lines(
        [*table.headings(), "sources", "model_version", "catalog_version", "permalink"],
        ([*cells, " ".join(dict.fromkeys(used_sources(row))), *edition] for cells, row in rows),
    )


def cable_csv(cables: Iterable[Cable]) -> Iterator[str]:
    """The point-to-point cable list."""
    headings = ["a_end", "a_port", "z_end", "z_port", "level", "plane", "rail", "length [m]", "cable"]
    rows = (
        (cable.a_end, cable.a_port, cable.z_end, cable.z_port, cable.level, cable.plane, cable.rail, cable.length,
         cable.medium)
        for cable in cables
    )  # fmt: skip
    return csv_lines(headings, rows)


def about(plan: Plan) -> list[tuple[str, str]]:
    """What a file must say of itself: versions, link, and the findings that its numbers come with."""
    lines = [
        ("Railyard", plan.model_version),
        ("Catalogue", plan.catalog_version),
        ("Link", plan.permalink),
        ("Ranges", "low and high hold four cases of five (80 %); numbers are in the units in brackets"),
    ]
    lines += [
        (f"{finding.severity}: {finding.code}", f"{finding.message} {finding.suggestion}".strip())
        for finding in plan.findings
    ]
    return lines


def plan_csv(plan: Plan, catalog: Catalog) -> Iterator[str]:
    """All tables of a plan in one CSV file, each under its title."""
    yield from csv_lines(["about", "value"], about(plan))
    for table in tables(plan, catalog).values():
        if table.rows:
            yield "\r\n"
            yield from csv_lines([table.title], [])
            yield from csv_lines(table.headings(), table.flat())


def plan_xlsx(plan: Plan, catalog: Catalog) -> bytes:
    """All tables of a plan as a workbook: a sheet about the plan, then one for each table."""
    from app.report import workbook  # XlsxWriter takes a while to load, and few ask for a workbook

    sheets: list[workbook.Sheet] = [("About", ["about", "value"], about(plan))]
    for table in tables(plan, catalog).values():
        if table.rows:
            sheets.append((table.title, table.headings(), table.flat(totals=True)))
    return workbook.written(sheets)


def plan_json(plan: Plan, catalog: Catalog) -> bytes:
    """All tables of a plan as JSON, with versions, inputs, findings and sources."""
    body = {
        "model_version": plan.model_version,
        "catalog_version": plan.catalog_version,
        "permalink": plan.permalink,
        "scenario": dict(plan.scenario),
        "findings": [asdict(finding) for finding in plan.findings],
        "tables": {key: table_json(table) for key, table in tables(plan, catalog).items()},
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def table_json(table: Table) -> dict[str, Any]:
    """A table as JSON: a list of rows, each cell under the key of its column; bands as on the wire."""
    keys = [column.key for column in table.columns]
    return {
        "title": table.title,
        "note": table.note,
        "columns": [{"key": column.key, "title": column.title, "unit": column.unit} for column in table.columns],
        "rows": [dict(zip(keys, row, strict=True)) for row in table.rows],
    }


def table_workbook(table: Table, plan: Plan) -> bytes:
    """One table as a workbook, with what it rests on."""
    from app.report import workbook

    listed = table.title, table.headings(), table.flat(totals=True)
    return workbook.written([listed, ("About", ["about", "value"], about(plan))])


def file_name(plan: Plan, table: str, ending: str) -> str:
    """A name that tells downloads apart: the cluster and the table."""
    cluster = f"{plan.scenario['gpus']}-{plan.scenario['gpu']}-{plan.scenario['scale_out']}"
    return f"railyard-{cluster}-{table}.{ending}".replace("_", "-")
