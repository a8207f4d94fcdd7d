"""Tables, and the files made of them."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from app.catalog.load import load_catalog
from app.plan.band import Band
from app.report import files, tables, workbook
from tests.sample import sample_plan

PLAN = sample_plan()
CATALOG = load_catalog()


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_a_band_becomes_three_columns_in_base_units():
    table = tables.tables(PLAN, CATALOG)["step"]
    assert table.headings() == ["name", "resource", "time low [s]", "time typical [s]", "time high [s]"]
    first, *_, last = table.flat()
    assert first == ["Linear layers", "Compute", 9.0, 10.0, 11.0]
    assert last[3] == PLAN.training.step_time.typical


def test_every_row_is_as_wide_as_its_headings():
    for table in tables.tables(PLAN, CATALOG).values():
        width = len(table.headings())
        assert all(len(row) == width for row in table.flat()), table.key


def test_an_unknown_number_is_blank_not_zero():
    bill = tables.tables(PLAN, CATALOG)["bill_of_materials"]
    fibre = next(row for row in bill.flat() if row[1] == "Fibre")
    assert fibre[3:] == [None] * 9
    line = next(row for row in read("".join(files.table_csv(bill, PLAN))) if row[1:2] == ["Fibre"])
    assert line[3:] == [""] * 9


def test_csv_says_what_it_rests_on():
    text = "".join(files.table_csv(tables.tables(PLAN, CATALOG)["capital"], PLAN))
    rows = read(text)
    assert ["Link", PLAN.permalink] in rows
    assert ["Catalogue", PLAN.catalog_version] in rows
    assert any(row[:1] == ["warning: taper"] for row in rows)


@given(st.text(min_size=1, max_size=20))
def test_no_cell_of_a_csv_starts_like_a_formula(text: str):
    cell = files.safe(text)
    assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r"))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=10), min_size=1, max_size=5))
def test_csv_text_survives_the_way_there_and_back(cells: list[str]):
    _, row = read("".join(files.csv_lines(["a"] * len(cells), [cells])))[:2]
    assert [cell.removeprefix("'") for cell in row] == [cell.removeprefix("'") for cell in cells]


def test_a_long_list_is_written_in_pieces():
    pieces = list(files.csv_lines(["n"], ([n] for n in range(100_000))))
    assert len(pieces) > 10
    assert len(read("".join(pieces))) == 100_001


def test_workbook_holds_numbers_as_numbers_and_text_as_text():
    book = load_workbook(io.BytesIO(files.plan_xlsx(PLAN, CATALOG)))
    bill = book["Bill of materials"]
    rows = list(bill.iter_rows(values_only=True))
    leaf = next(row for row in rows if row[0] == "Leaf")
    assert leaf[1] == "=QM9700"  # a part that looks like a formula stays text
    cell = next(cell for row in bill.iter_rows() for cell in row if cell.value == "=QM9700")
    assert cell.data_type == "s"
    assert leaf[2] == 32
    assert leaf[6] == pytest.approx(1.12e6 * 0.9)
    assert book.sheetnames[0] == "About"


def test_sheet_names_are_legal_and_differ():
    used: set[str] = set()
    names = [workbook.sheet_name(title, used) for title in ("A" * 40, "A" * 40, "a/b:c", "")]
    assert len(set(names)) == 4
    assert all(0 < len(name) <= 31 and not set(name) & set("[]:*?/\\") for name in names)


def test_json_holds_the_bands_of_the_plan():
    body = json.loads(files.plan_json(PLAN, CATALOG))
    step = body["tables"]["step"]["rows"][-1]["time"]
    assert step["typical"] == PLAN.training.step_time.typical
    assert step["sources"] == ["railyard-estimate"]
    assert body["findings"][0]["code"] == "taper"


def test_sources_of_a_plan_are_listed_with_their_titles():
    rows = tables.tables(PLAN, CATALOG)["sources"].rows
    assert rows[0][0] == "railyard-estimate"
    assert rows[0][1] == CATALOG.sources["railyard-estimate"].title


def test_sources_are_found_wherever_a_band_stands():
    nested = {"a": [Band(1, 1, 1, "s", ("x",))], "b": (Band(1, 1, 1, "s", ("y", "x")),)}
    assert list(dict.fromkeys(tables.used_sources(nested))) == ["x", "y"]
