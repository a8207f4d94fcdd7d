"""A result that is declared once is seen everywhere."""

import io
import json
from dataclasses import fields, replace

import pytest

from app.catalog.load import load_catalog
from app.plan.band import Band, Quantity, record, result
from app.plan.declarations import results
from app.plan.evaluate import evaluate
from app.plan.result import Costs, Plan, StepPart
from app.plan.scenario import Scenario
from app.report import files, tables
from app.studies.comparison import compare_plans
from app.web.pages.shared import results_of
from app.web.responses import to_json
from app.web.templating import environment

CATALOG = load_catalog()
CARBON = "Carbon tax of a year"


@record
class CostsAndCarbon(Costs):
    """A record with one more result, which is all that a new result takes."""

    carbon_tax: Quantity = result(
        "USD/year",
        CARBON,
        "What the carbon of a year of electricity costs.",
        formula="costs.energy_cost",
        show=("figures", "costs", "comparison"),
        product_of=("costs.energy",),
        default=None,
    )


@record
class WeighedPart(StepPart):
    """A row with one more column."""

    share: float | None = result("1", "Share of the step", "Time over the step's.", share=True, default=None)


def plan_with_carbon(carbon: float, **fields_of_scenario: object) -> Plan:
    plan = evaluate(Scenario(**fields_of_scenario), CATALOG)
    band = Band(carbon * 0.9, carbon, carbon * 1.1, "USD/year", ("railyard-estimate",))
    return replace(plan, costs=CostsAndCarbon(**vars(plan.costs), carbon_tax=band))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_with_carbon(4e6)


def test_a_new_result_stands_in_the_tables_of_the_plan(plan: Plan) -> None:
    for key in ("figures", "costs"):
        rows = {row[0]: row for row in tables.tables(plan, CATALOG)[key].rows}
        assert rows[CARBON][1].typical == 4e6
        assert rows[CARBON][2] == "USD/year"


def test_a_new_result_stands_on_the_page_with_its_meaning_and_its_formula(plan: Plan) -> None:
    source = '{% from "_band.html" import entries with context %}{{ entries("costs") }}'
    about = {"explained": plan.explanations, "root": "", "catalog": CATALOG, "notes": NoNotes(), "numbers": "notes"}
    page = environment().from_string(source).render(**results_of(plan), **about)
    assert CARBON in page
    assert 'title="What the carbon of a year of electricity costs."' in page
    assert "/method/costs#costs.energy_cost" in page


class NoNotes:
    def anchor(self, sources: tuple[str, ...], name: str) -> str:
        return "note-1"


def test_a_new_result_is_answered_by_the_interface(plan: Plan) -> None:
    assert json.loads(to_json(plan))["costs"]["carbon_tax"]["typical"] == 4e6


def test_a_new_result_is_written_to_every_file(plan: Plan) -> None:
    assert f"{CARBON},3600000.0,4000000.0,4400000.0,USD/year" in "".join(files.plan_csv(plan, CATALOG))
    rows = json.loads(files.plan_json(plan, CATALOG))["tables"]["figures"]["rows"]
    assert {row["figure"]: row["unit"] for row in rows}[CARBON] == "USD/year"
    assert io.BytesIO(files.plan_xlsx(plan, CATALOG)).read(2) == b"PK"


def test_a_new_result_is_compared_and_laid_to_its_cause(plan: Plan) -> None:
    other = plan_with_carbon(8e6, gpus=2048)
    row = next(row for row in compare_plans([plan, other]).differences if row.field == "costs.carbon_tax")
    assert row.title == CARBON
    assert row.unit == "USD/year"
    assert row.changes == (0.0, pytest.approx(1.0))
    assert row.cause.startswith("energy of a year: +")


def test_a_new_field_of_a_row_is_a_new_column(plan: Plan) -> None:
    parts = tuple(WeighedPart(**vars(part), share=0.1) for part in plan.training.parts)
    training = replace(plan.training, parts=parts)
    declared = next(found.declared for found in results(training) if found.path == "parts")
    table = tables.listing(declared, WeighedPart, parts, training)
    assert table.headings()[-1] == "share"
    assert table.columns[-1].title == "Share of the step"
    assert [row[-1] for row in table.rows[:-1]] == [0.1] * len(parts)


def test_every_field_of_a_plan_is_declared(plan: Plan) -> None:
    bare = replace(plan, costs=Costs(**{entry.name: getattr(plan.costs, entry.name) for entry in fields(Costs)}))
    assert all(found.declared.label and found.declared.meaning for found in results(bare))
