"""The published designs: what is exact, and why the rest is not."""

import csv

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.reference_designs import FILE, Row, read
from app.validation import design_counts as accuracy

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def report():
    return accuracy.report(FILE, CATALOG)


def test_the_planner_gives_every_design_the_counts_of_the_report(report):
    compared = {one["id"]: one["computed"] for one in report["designs"] if one["verdict"] != "not_applicable"}
    planned = set()
    for printed in read(FILE):
        question = accuracy.scenario(printed, CATALOG)
        if question and printed.text("id") in compared:
            fabric = evaluate(question, CATALOG).fabric
            counts = {"leaf": fabric.leaf_switches, "spine": fabric.spine_switches, "core": fabric.core_switches}
            wanted = compared[printed.text("id")]
            assert {name: counts[name] for name in counts if name in wanted} == {
                name: wanted[name] for name in counts if name in wanted
            }, printed.text("id")
            planned.add(printed.text("id"))
    # The planner knows no pair of switches side by side.
    assert set(compared) - planned == {"basepod-4n"}


def row(**cells) -> Row:
    base = {
        "id": "made-up", "ports": "64", "port_gbps": "400", "nic_gbps": "400", "nics_per_node": "8", "role": "compute",
        "topology": "2-tier fat tree", "rail_optimized": "yes", "oversubscription": "1:1", "nodes_per_su": "32",
        "n_nodes": "128",
    }  # fmt: skip
    return Row(base | {name: str(value) for name, value in cells.items()})


def test_every_compute_design_of_a_vendor_s_reference_architecture_that_prints_counts_is_exact(report):
    kinds = {one["id"]: one for one in report["designs"]}
    with FILE.open(newline="") as file:
        for cells in csv.DictReader(file):
            if cells["source_kind"].startswith("vendor RA") and cells["role"] == "compute":
                one = kinds[cells["id"]]
                assert one["verdict"] == ("exact" if one["published"] else "not_applicable"), one


def test_the_report_counts_every_design_once(report):
    assert report["exact"] + report["mismatch"] + report["not_applicable"] == len(report["designs"])
    assert report["exact"] == 26
    for one in report["designs"]:
        assert one["verdict"] == "exact" or one["reason"], one["id"]
        if one["verdict"] == "exact":
            assert one["computed"] == one["published"]
    assert "26 exact" in accuracy.text(report)


def test_a_spine_layer_built_for_growth_is_a_mismatch_with_both_numbers(report):
    one = next(one for one in report["designs"] if one["id"] == "s110-h200-32n")
    assert (one["published"]["spine"], one["computed"]["spine"]) == (16, 4)
    assert "over-built" in one["reason"]


@pytest.mark.parametrize(
    ("cells", "verdict", "said"),
    [
        ({"leaf": 32, "spine": 16}, "exact", ""),
        ({"leaf": 32, "spine": 12}, "mismatch", "cannot be built"),  # 768 ports for 1,024 uplinks
        ({"leaf": 32, "spine": 20}, "mismatch", "over-built"),
        ({"leaf": 30, "spine": 16}, "mismatch", "fewer"),
        ({"n_nodes": 512, "leaf": 128, "spine": 64}, "mismatch", "Cannot be built"),  # 128 leaves on 64 ports
        ({"nic_gbps": 800, "leaf": 32}, "mismatch", "slower"),
        ({"leaf": "", "spine": ""}, "not_applicable", "prints no count"),
        ({"leaf": 32, "role": "storage"}, "not_applicable", "storage"),
        ({"leaf": 32, "ports": ""}, "not_applicable", "ports"),
        ({"n_nodes": "", "n_gpus": 1024, "gpus_per_node": 8, "leaf": 32}, "exact", ""),
        ({"n_nodes": 8, "topology": "leaf-spine", "leaf": 8, "spine": 4}, "exact", ""),  # 64 hosts would fit one switch
        ({"topology": "two-tier", "oversubscription": "3", "nodes_per_su": 48, "leaf": 24, "spine": 8}, "exact", ""),
        ({"ports": "", "switch_model": "QM9700", "leaf": 32, "spine": 16}, "exact", ""),  # 64 ports of 400 Gb/s
        ({"role": "GPU backend", "leaf": 32}, "exact", ""),
        ({"n_nodes": 32, "spine": 8, "note": "at least 8 spines"}, "exact", ""),  # 4 would carry it
        ({"topology": "torus", "leaf": 32}, "not_applicable", "dimensions"),
        ({"n_nodes": 8, "topology": "2 switches + ISL", "leaf": 2, "spine": 0, "leaf_spine_cables": 32}, "exact", ""),
    ],
)
def test_a_design_that_is_not_in_the_file(cells, verdict, said):
    found = accuracy.compare(row(**cells), CATALOG)
    assert found.verdict == verdict
    assert said in found.reason


@pytest.mark.parametrize("cell", ["", "0", "-1", "1e30", "nan", "inf", "many", "0:1"])
@pytest.mark.parametrize("column", ["n_nodes", "ports", "nic_gbps", "planes", "links_per_cable", "oversubscription"])
def test_an_odd_cell_gets_a_verdict_and_never_stops_the_report(column, cell):
    assert accuracy.compare(row(leaf=32, **{column: cell}), CATALOG).verdict in ("exact", "mismatch", "not_applicable")
