"""Tables, and the files made of them."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import load_workbook

from app.catalog.load import load_catalog
from app.plan.band import Band
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
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
    assert line[3:12] == [""] * 9


def test_a_csv_is_one_table_whose_rows_say_what_they_rest_on():
    table = tables.tables(PLAN, CATALOG)["capital"]
    headings, *rows = read("".join(files.table_csv(table, PLAN)))
    assert headings == [*table.headings(), "sources", "model_version", "catalog_version", "permalink"]
    assert len(rows) == len(table.rows)
    for row in rows:
        assert row[-3:] == [PLAN.model_version, PLAN.catalog_version, PLAN.permalink]


def test_what_is_bought_is_one_list_with_makers_part_numbers_lengths_and_spares():
    asked = {"storage_network": True, "management_network": True}
    plan = evaluate(Scenario.model_validate(asked, context={"catalog": CATALOG}), CATALOG.typical_only())
    table = tables.tables(plan, CATALOG)["purchases"]
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    assert rows[0]["part"] == "HGX H100 server, 8 GPUs"
    assert (rows[0]["quantity"], rows[0]["vendor"]) == (128, "")  # several make it
    (leaf,) = (row for row in rows if (row["bought_for"], row["role"]) == ("Compute network", "Leaf switch"))
    assert (leaf["vendor"], leaf["part_number"], leaf["spares"]) == ("NVIDIA", "QM9700", 1)  # 3 % of 32
    fibre = next(row for row in rows if row["role"] == "Leaf–spine, 15 m")
    assert (fibre["part_number"], fibre["length"], fibre["spares"]) == ("MFP7E10", 15, 16)  # 3 % of 512
    totals = {row[0]: row[keys.index("cost")] for row in table.totals}
    assert set(totals) == {
        "Cluster", "Compute network", "Storage network", "In-band management network", "Out-of-band management network",
        "Everything",
    }  # fmt: skip
    assert totals["Compute network"] == plan.fabric.cost
    lines = {line.name: line.cost for line in plan.costs.capital_parts if line.cost}
    assert totals["Cluster"] == lines["nodes"]
    assert totals["Everything"].typical == pytest.approx(plan.costs.capital.typical - lines["infrastructure"].typical)
    for network in plan.fabric.networks:
        paid = sum(line.cost.typical for line in network.bill_of_materials if line.cost)
        assert network.cost is not None
        assert paid == pytest.approx(network.cost.typical)


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


def test_a_workbook_works_out_costs_and_sums_and_comes_to_the_plan():
    plan = evaluate(Scenario(), CATALOG)
    made = files.plan_xlsx(plan, CATALOG)
    formulas, values = (
        load_workbook(io.BytesIO(made), data_only=shown)["Bill of materials"] for shown in (False, True)
    )
    names = [cell.value for cell in formulas[1]]
    place = names.index("cost typical [USD]")
    *lines, whole = [row[place] for row in formulas.iter_rows(min_row=2)]
    products = [cell for cell in lines if cell.data_type == "f"]
    assert len(products) > 3
    for cell in products:
        many, price = (values[at].value for at in re.findall(r"[A-Z]+\d+", cell.value))
        assert values[cell.coordinate].value == pytest.approx(many * price)
    assert whole.value == f"=SUM({lines[0].coordinate}:{lines[-1].coordinate})"
    assert values[whole.coordinate].value == pytest.approx(plan.fabric.cost.typical)


def test_the_list_of_purchases_adds_up_by_what_they_are_for_and_altogether():
    asked = {"gpus": 256, "storage_network": True, "spare_nodes": 2, "storage_capacity": "5 PB"}
    plan = evaluate(Scenario.model_validate(asked, context={"catalog": CATALOG}), CATALOG)
    made = files.table_workbook(tables.tables(plan, CATALOG)["purchases"], plan)
    formulas, values = (
        load_workbook(io.BytesIO(made), data_only=shown)["Everything to buy"] for shown in (False, True)
    )
    names = [cell.value for cell in formulas[1]]
    low, place, high = (names.index(f"cost {end} [USD]") for end in ("low", "typical", "high"))
    *lines, cluster, compute, storage, all_of_it = formulas.iter_rows(min_row=2)
    assert [row[1].value for row in (cluster, compute, storage, all_of_it)] == ["Total"] * 4
    last = lines[len(plan.cluster.bill_of_materials) - 1][place]
    assert cluster[place].value == f"=SUM({lines[0][place].coordinate}:{last.coordinate})"
    assert all_of_it[place].value == f"=SUM({lines[0][place].coordinate}:{lines[-1][place].coordinate})"
    costs = {line.name: line.cost.typical for line in plan.costs.capital_parts}
    bought = {row[0].value: values[row[place].coordinate].value for row in (cluster, compute, storage, all_of_it)}
    assert bought["Cluster"] == pytest.approx(costs["nodes"] + costs["spare nodes"] + costs["storage"])
    assert bought["Compute network"] == pytest.approx(costs["fabric"])
    assert bought["Everything"] == pytest.approx(plan.costs.capital.typical - costs["infrastructure"])
    assert (compute[low].value, compute[high].value) == (plan.fabric.cost.low, plan.fabric.cost.high)
    assert (all_of_it[low].value, all_of_it[high].value) == (None, None)  # of no figure of the plan


def test_a_part_without_a_price_leaves_the_total_open():
    table = tables.tables(PLAN, CATALOG)["purchases"]
    (everything,) = table.totals
    assert (everything[0], everything[[column.key for column in table.columns].index("cost")]) == ("Everything", None)


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


@pytest.mark.parametrize(
    ("gpus", "tiers"), [(64, ["Leaf"]), (1024, ["Leaf", "Spine"]), (8192, ["Leaf", "Spine", "Core"])]
)
def test_a_tier_without_switches_is_no_row(gpus, tiers):
    table = tables.fabric_tables(evaluate(Scenario(gpus=gpus), CATALOG).fabric)["switches"]
    assert [row[0] for row in table.flat()] == tiers
