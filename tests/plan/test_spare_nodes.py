"""Spare nodes and storage: what they cost, and what they save."""

from typing import Any

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.sizing import Question, size
from app.units import percent

TYPICAL = load_catalog().typical_only()
LARGE = {"model": "llama-3-405b", "gpus": 16384}


def plan_of(**asked: Any) -> Plan:
    return evaluate(Scenario.model_validate(asked, context={"catalog": TYPICAL}), TYPICAL)


def paid(plan: Plan) -> dict[str, float]:
    return {line.name: line.cost.typical for line in plan.costs.capital_parts if line.cost}


def test_spare_nodes_are_bought_with_ports_of_the_network():
    bare, spared, larger = plan_of(), plan_of(spare_nodes=6), plan_of(gpus=134 * 8)
    # 6 nodes at $285,000 and their part of the network of 134 nodes, five units of 27, which is built for the others.
    node, whole = paid(bare)["nodes"] / 128, paid(larger)["fabric"]
    assert paid(spared)["fabric"] + paid(spared)["spare nodes"] == pytest.approx(6 * node + whole)
    assert paid(spared)["fabric"] > paid(bare)["fabric"]
    assert spared.fabric.leaf_switches == larger.fabric.leaf_switches == 40
    assert paid(spared)["nodes"] == paid(bare)["nodes"]
    assert (spared.cluster.nodes, spared.cluster.spare_nodes) == (128, 6)
    assert spared.cluster.power.typical == pytest.approx(larger.cluster.power.typical)
    roles = {line.role: line.quantity for line in spared.cluster.bill_of_materials}
    assert (roles["node"], roles["spare node"]) == (128, 6)
    # ... and are on the list of what to buy: a NIC, a module and a fibre for each port, and twin modules of its leaf
    # where these have no half of one left
    ports = {
        line.key: line.quantity for line in spared.cluster.bill_of_materials if line.role == "ports of spare nodes"
    }
    assert ports == {"connectx-7": 48, "osfp-400g-sr4": 48, "osfp-800g-2xsr4": 16, "mpo-12-mmf": 48, "spares": 1}


def test_spare_nodes_with_which_the_network_is_cheaper_are_bought_with_that_network():
    """18 switches of 32 hosts with a link to each other cost less than 17 with two."""
    asked = {"gpu": "mi250x", "scale_out": "roce-1600", "topology": "mesh"}
    spared, larger = plan_of(**asked, gpus=544, spare_nodes=1), plan_of(**asked, gpus=548)
    assert paid(larger)["fabric"] < paid(spared)["fabric"]
    assert spared.costs.capital.typical == pytest.approx(larger.costs.capital.typical)
    assert spared.cluster.power.typical == pytest.approx(larger.cluster.power.typical)
    lines = (*spared.fabric.bill_of_materials, *spared.cluster.bill_of_materials)
    building = paid(spared)["infrastructure"]
    assert sum(line.cost.typical for line in lines) + building == pytest.approx(spared.costs.capital.typical)


def test_switches_for_spare_nodes_stand_in_racks_too():
    """64 nodes have 4 leaves and 2 spines in one rack; with 8 more they have 8 and 4, two units high each, in two."""
    asked = {"gpu": "h200-nvl", "scale_out": "efa-200", "model": "llama-3-8b", "switch": "7060dx5-64s"}
    spared, larger = plan_of(**asked, gpus=512, spare_nodes=8), plan_of(**asked, gpus=576)
    assert spared.cluster.racks - spared.cluster.compute_racks == 2
    assert (spared.cluster.racks, spared.cluster.compute_racks) == (larger.cluster.racks, larger.cluster.compute_racks)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"gpu": "gb300", "gpus": 1152, "scale_out": "roce-800"},
        {"nics_included": False},
        {"gpus": 256},  # in a second unit of leaves, fibre in place of copper
    ],
)
def test_what_is_bought_for_spare_nodes_costs_what_they_do(asked: dict[str, Any]):
    plan = plan_of(**asked, spare_nodes=16)
    bought = [line.cost.typical for line in plan.cluster.bill_of_materials if "spare node" in line.role and line.cost]
    assert sum(bought) == pytest.approx(paid(plan)["spare nodes"])


def test_spare_nodes_are_joined_to_storage_and_management_too():
    asked = {"storage_network": True, "management_network": True, "gpus": 1024}
    spared, larger = plan_of(**asked, spare_nodes=16), plan_of(**asked | {"gpus": 1152})
    # 128 nodes that train and 16 that stand by have the links of 144: two of storage, two in-band, one a controller
    for few, many in zip(spared.fabric.networks, larger.fabric.networks, strict=True):
        assert few.role == many.role
        if not few.role.startswith("out-of-band"):  # one port for each switch of the compute network too
            assert few.links == many.links
            assert few.cost == many.cost
    bare = plan_of(**asked)
    ports = [plan.fabric.networks[-1].links.node_leaf for plan in (bare, spared)]
    assert ports[1] - ports[0] >= 16


def test_a_plan_with_spare_nodes_asked_again_is_the_same():
    # 64 nodes alone are cheapest in two units of 32, with eight more in two of 38: a third unit of 32 would draw more.
    first = plan_of(gpu="gh200", gpus=256, scale_out="ultra-ethernet-800", spare_nodes=8, oversubscription=10)
    again = plan_of(**{name: value for name, value in first.scenario.items() if value is not None})
    assert first.scenario["nodes_per_unit"] == 38
    assert again.cluster.power.typical == first.cluster.power.typical
    assert again.costs.capital.typical == pytest.approx(first.costs.capital.typical)


def test_units_of_a_plan_have_room_for_its_spare_nodes():
    # 64 trays fill a unit that one more does not fit: asked for again, it would be two units.
    asked = {"gpu": "gb300", "scale_out": "spectrum-x-400", "gpus": 256, "oversubscription": 2, "spare_nodes": 1}
    first = plan_of(**asked)
    again = plan_of(**asked, nodes_per_unit=first.scenario["nodes_per_unit"])
    assert first.scenario["nodes_per_unit"] == 65
    assert again.costs.capital.typical == pytest.approx(first.costs.capital.typical)


def test_spare_nodes_that_no_network_has_ports_for_cost_as_much_as_those_that_train():
    # 64 nodes fill the one switch of a rail; with a 65th every rail would need a second tier.
    asked = {"gpus": 512, "topology": "rail-only", "scale_out": "infiniband-ndr", "switch": "qm9700", "tiers": 1}
    bare, spared = plan_of(**asked), plan_of(**asked, spare_nodes=1)
    assert paid(spared)["spare nodes"] == pytest.approx(paid(bare)["nodes"] / 64 + paid(bare)["fabric"] / 64)
    lines = [line.cost.typical for line in spared.cluster.bill_of_materials if "spare node" in line.role and line.cost]
    assert sum(lines) == pytest.approx(paid(spared)["spare nodes"])
    code = "no-ports-for-spares"
    assert [code in {finding.code for finding in plan.findings} for plan in (bare, spared)] == [False, True]


@pytest.mark.parametrize("spares", [1, 8])
def test_spare_nodes_never_make_the_larger_cluster_the_cheaper_or_cooler_one(spares: int):
    # Six nodes of a rack on one switch, and twelve on the same: the spare's ports draw 6 W with both.
    asked = {"gpu": "gb300", "scale_out": "ultra-ethernet-800", "spare_nodes": spares}
    small, large = (plan_of(**asked, gpus=gpus) for gpus in (24, 48))
    assert small.cluster.power.typical <= large.cluster.power.typical
    assert small.costs.capital.typical <= large.costs.capital.typical


def test_spare_nodes_shorten_what_failures_cost_until_one_always_stands_by():
    shares = [plan_of(**LARGE, spare_nodes=nodes).training.availability for nodes in (0, 51, 102, 103, 500)]
    assert shares[0] < shares[1] < shares[2] < shares[3]
    assert shares[4] == shares[3]  # 5 % of 2,048 nodes are 102.4
    assert shares[3] == plan_of(**LARGE, restart_time="2 min").training.availability


def test_a_restart_time_that_is_given_stands():
    given = {**LARGE, "restart_time": "10 min"}
    assert plan_of(**given, spare_nodes=200).training.availability == plan_of(**given).training.availability


def test_advice_to_hold_spare_nodes_is_followed_by_its_link():
    large = {"model": "llama-3-405b", "gpus": 65536, "scale_out": "roce-400"}
    plan = plan_of(**large)
    (advice,) = (finding for finding in plan.findings if finding.code == "failures-cost-time")
    after = plan_of(**large, **advice.changes)
    assert f"{percent(after.training.availability)} of it makes progress" in advice.suggestion
    assert after.costs.capital.typical > plan.costs.capital.typical * 1.04  # 5 % of the nodes


def test_sizing_prices_spare_nodes_as_a_plan_does():
    question = Question(gpu=("h100-sxm",), scale_out=("roce-400",), gpus=64, spare_nodes=2, model="llama-3-8b")
    answer = size(question, TYPICAL)
    for found in answer.front:
        plan = plan_of(gpu=found.gpu, gpus=found.gpus, scale_out=found.scale_out, spare_nodes=2, model="llama-3-8b")
        assert found.capital == pytest.approx(plan.costs.capital.typical)


def test_the_capacity_that_a_run_fills_is_its_text_and_the_checkpoints_kept():
    plan = plan_of()
    # (1.3 · 15e12 · 4 B + 30 · 14 B · 70.55e9)/0.8
    assert plan.storage.capacity.typical == pytest.approx((1.3 * 60e12 + 30 * 14 * 70.553706496e9) / 0.8)


def test_storage_is_bought_by_the_petabyte_and_nothing_is_where_none_is_asked():
    assert "storage" not in paid(plan_of())
    plan = plan_of(storage_capacity="10 PB")
    assert paid(plan)["storage"] == pytest.approx(10 * 450_000)
    assert plan.cluster.bill_of_materials[-1].part == "10\u202fPB of usable storage"
    assert paid(plan_of(storage_capacity="10 PB", price_storage="$200K"))["storage"] == pytest.approx(2e6)


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"storage_network": True}, "storage-not-bought"), ({"storage_capacity": "1 TB"}, "storage-too-small")],
)
def test_storage_that_is_missing_or_too_small_is_told_with_what_would_do(asked: dict[str, Any], code: str):
    plan = plan_of(**asked)
    (told,) = (finding for finding in plan.findings if finding.code == code)
    after = plan_of(**{**asked, **told.changes})
    assert code not in {finding.code for finding in after.findings}
