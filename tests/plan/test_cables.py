"""Parts that connect: every cable fits the cages at both its ends, and the list of cables is whole."""

from collections import Counter

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.cables import Lanes
from app.plan.evaluate import evaluate_network
from app.plan.network import network_of
from app.plan.result import NetworkPlan
from app.plan.scenario import Scenario
from app.studies.sweep import Grid, sweep

CATALOG = load_catalog()


def plan_of(**asked: object) -> NetworkPlan:
    return evaluate_network(Scenario.model_validate(asked), CATALOG)


def keys_of(plan: NetworkPlan, role: str) -> set[str]:
    return {line.key for line in plan.fabric.bill_of_materials if line.role.startswith(role)}


def test_co_packaged_switches_get_single_mode_parts() -> None:
    """Optics of 200 Gb/s a lane inside: an 800G DR4 module at the adapter, single-mode fibre, no module in a switch."""
    plan = plan_of(gpu="b300-sxm", gpus=1152, scale_out="infiniband-xdr", switch="q3450-ld")
    assert keys_of(plan, "node module") == {"osfp224-800g-dr4"}
    assert keys_of(plan, "node–leaf") == keys_of(plan, "leaf–spine") == {"mpo-12-smf"}
    assert not keys_of(plan, "leaf switch module") | keys_of(plan, "spine switch module")
    other = plan_of(gpu="b300-sxm", gpus=1152, scale_out="spectrum-x-800", switch="sn6800-ld")
    assert keys_of(other, "node module") == {"osfp224-800g-dr4"}


def test_a_module_has_as_many_links_as_its_cage_and_no_faster_lanes_than_its_switch() -> None:
    """A twin cage of 100 Gb/s a lane takes neither one 800G port of four lanes nor, for Ethernet, lanes of 200."""
    ndr = plan_of(platform="dgx-h100")
    assert keys_of(ndr, "node module") == keys_of(ndr, "leaf switch module") == {"osfp-800g-2xsr4"}
    for network in ("roce-800", "spectrum-x-800"):
        plan = plan_of(gpu="b300-sxm", scale_out=network)
        for key in keys_of(plan, "leaf switch module") | keys_of(plan, "spine switch module"):
            lane = CATALOG.optics[key].lane_rate
            assert lane is not None
            assert lane.typical * 8 == 100e9
    xdr = plan_of(gpu="b300-sxm", scale_out="infiniband-xdr", switch="q3400-ra")
    assert keys_of(xdr, "leaf switch module") == {"osfp224-1600g-2xdr4"}


def test_ndr200_splits_a_port_by_fibre_or_by_copper() -> None:
    """128 ports of 200 Gb/s on a QM9700: in one rack a cage's four links are a 1:4 splitter, farther two 1:2 fibres."""
    near = plan_of(gpu="h100-sxm", gpus=16, scale_out="infiniband-ndr200")
    cables = {line.key: line.quantity for line in near.fabric.bill_of_materials if line.role.startswith("node–leaf")}
    assert set(cables) <= {"dac-800g-4x200g", "acc-800g-4x200g"}
    assert sum(cables.values()) == 16 / 4
    far = plan_of(gpu="h100-sxm", gpus=512, scale_out="infiniband-ndr200")
    assert keys_of(far, "node–leaf") == {"mpo-12-mmf-split"}
    assert sum(line.quantity for line in far.fabric.bill_of_materials if line.key == "mpo-12-mmf-split") == 512 / 2
    assert far.fabric.cost is not None
    assert not [finding for finding in far.findings if finding.code == "no-cable"]


def test_a_link_of_eight_lanes_is_two_runs_of_fibre() -> None:
    """64 GPUs on one switch of 800 Gb/s: 64 links between modules with two MPO-12 connectors each.

    The bill has 128 modules and 128 runs, at $879 and $110.
    """
    network = network_of(Scenario.model_validate({"gpus": 64, "scale_out": "roce-800"}), CATALOG)
    plan = plan_of(gpus=64, scale_out="roce-800")
    optics = {"osfp-800g-sr8", "mpo-12-mmf"}
    lines = [line for line in plan.fabric.bill_of_materials if line.key in optics]
    pieces = Counter({key: sum(line.quantity for line in lines if line.key == key) for key in optics})
    assert pieces == {"osfp-800g-sr8": 128, "mpo-12-mmf": 128}
    assert sum(line.cost.typical for line in lines if line.cost) == 128 * (879 + 110)
    assert [cable.medium[:4] for cable in network.cables()] == ["2 × "] * 64


def test_fibres_of_a_split_port_are_as_many_as_its_connectors() -> None:
    """1,024 ports of 200 Gb/s: their 1,024 links up fill 256 twin cages, whose two connectors have two links each."""
    plan = plan_of(gpus=1024, scale_out="infiniband-ndr200")
    assert keys_of(plan, "leaf–spine") == {"mpo-12-mmf"}
    assert sum(line.quantity for line in plan.fabric.bill_of_materials if line.key == "mpo-12-mmf") == 1024 / 2


def test_other_makers_servers_carry_eight_single_port_cards_and_a_dgx_four_twin_cages() -> None:
    modules = {
        platform: sum(line.quantity for line in plan.fabric.bill_of_materials if line.role == "node module")
        for platform in ("hgx-h100", "dgx-h100")
        for plan in [plan_of(platform=platform)]
    }
    assert modules == {"hgx-h100": 1024, "dgx-h100": 512}


def test_copper_reaches_three_metres() -> None:
    """Two nodes beside a switch: eight splitters of one port to two cards."""
    plan = plan_of(gpus=16)
    (line,) = (line for line in plan.fabric.bill_of_materials if line.role.startswith("node–leaf"))
    assert (line.key, line.role, line.quantity) == ("dac-800g-2x400g", "node–leaf, 3 m", 8)


@pytest.mark.parametrize(
    ("media", "kinds"), [("aec", {"aec"}), ("copper", {"dac", "acc"}), ("aoc", {"aoc"}), ("fibre", {"fibre"})]
)
def test_a_wish_for_cables_is_followed_where_they_reach(media: str, kinds: set[str]) -> None:
    plan = plan_of(gpus=16, media=media)
    assert {CATALOG.optics[key].kind for key in keys_of(plan, "node–leaf")} <= kinds
    assert not [finding for finding in plan.findings if finding.code == "other-media"]


def test_linear_modules_stand_at_both_ends_and_draw_half() -> None:
    """LPO 8.5 W in place of 17: 1,536 modules in the switches of 128 DGX nodes save 13 kW."""
    linear, usual = (plan_of(platform="dgx-h100", scale_out="roce-400", media=media) for media in ("lpo", "fibre"))
    assert keys_of(linear, "node module") == keys_of(linear, "leaf switch module") == {"osfp-800g-2xdr4-lpo"}
    assert linear.fabric.typical_power is not None
    assert usual.fabric.typical_power is not None
    assert linear.fabric.typical_power.typical < usual.fabric.typical_power.typical - 5_000


def test_a_wish_that_does_not_reach_is_said() -> None:
    plan = plan_of(gpus=1024, media="copper")
    (finding,) = (finding for finding in plan.findings if finding.code == "other-media")
    assert "leaf-spine" in finding.message


def test_active_cables_draw_power_in_the_switches() -> None:
    """16 active electrical cables of 12 W, half of it in the switch: 96 W more than passive copper."""
    aec, copper = (network_of(Scenario(gpus=32, media=media), CATALOG).built for media in ("aec", "copper"))
    assert aec is not None
    assert copper is not None
    many = sum(line.quantity for line in aec.parts if line.role == "cable node_leaf")
    passive = sum(line.quantity * 0.1 / 2 for line in copper.parts if line.role == "cable node_leaf")
    assert aec.typical_power[0] - copper.typical_power[0] == pytest.approx(many * 6 - passive)


@pytest.mark.parametrize("topology", ["mesh", "torus-2d", "torus-3d", "dragonfly"])
@pytest.mark.parametrize("gpus", [128, 512, 4096])
def test_the_list_of_a_network_without_tiers_has_every_cable_between_its_switches(topology: str, gpus: int) -> None:
    network = network_of(Scenario(gpus=gpus, topology=topology), CATALOG)
    if network.built is None:
        assert topology == "mesh"
        return
    rows = list(network.cables())
    assert len(rows) == network.cable_count()
    between = [row for row in rows if row.level == "leaf-leaf"]
    assert len(between) == int(network.built.design.peer)
    assert all(row.a_end != row.z_end for row in between)
    joined = Counter(end for row in between for end in (row.a_end, row.z_end))
    assert len(joined) in (0, int(network.built.design.leaf_switches))
    assert not joined or max(joined.values()) - min(joined.values()) <= 1  # dealt out in turn
    ends = Counter((end, port) for row in rows for end, port in ((row.a_end, row.a_port), (row.z_end, row.z_port)))
    assert max(ends.values()) == 1
    assert max(row.z_port for row in rows) <= network.built.choice.radix


def test_the_fourth_tier_has_one_name() -> None:
    network = network_of(Scenario(gpus=2048, tiers=4, scale_out="infiniband-hdr", topology="fat-tree"), CATALOG)
    assert network.built is not None
    names = {
        row.z_end.rpartition("-")[0].rpartition("-")[0] for row in network.cables() if row.level.startswith("core")
    }
    assert names == {"super-core"}


@pytest.mark.parametrize("topology", ["dragonfly", "torus-2d"])
def test_a_node_more_never_makes_a_network_without_tiers_cheaper(topology: str) -> None:
    """Ten nodes stood nearer to their switches than nine, and were cabled with copper for 27 % less."""
    costs = [float(network_of(Scenario(gpus=8 * nodes, topology=topology), CATALOG).cost[0]) for nodes in range(9, 18)]
    assert costs == sorted(costs)


def test_no_cable_joins_a_port_of_eight_lanes_to_an_adapter_of_four() -> None:
    """A QSFP56-DD port of 400 Gb/s has eight lanes of 50, a ConnectX-7 four of 100: two modules join them, which each
    light four lanes of 100, and only the switch's joins two lanes to one. OSFP modules of four lanes do not fit it.
    """
    for media in (None, "copper", "aec", "aoc", "fibre"):
        plan = plan_of(gpus=512, scale_out="roce-400", switch="z9664f-on", media=media)
        assert keys_of(plan, "node module") == keys_of(plan, "leaf switch module") == {"qsfp112-400g-dr4"}
        assert keys_of(plan, "node–leaf") == {"mpo-12-smf"}
    # ports of one kind, and an adapter whose four lanes have 50 Gb/s, are joined by a cable
    among = plan_of(gpus=512, scale_out="roce-400", switch="z9664f-on", media="aoc")
    assert keys_of(among, "leaf–spine") == {"aoc-400g"}
    slower = plan_of(gpu="a100-sxm", gpus=16, scale_out="roce-200", switch="z9664f-on")
    assert keys_of(slower, "node–leaf") <= {"dac-400g", "aoc-400g"}
    # a switch of 100 Gb/s a lane takes the adapter's cable
    alike = plan_of(gpus=16, scale_out="roce-400", switch="sn5600", media="copper")
    assert keys_of(alike, "node–leaf") == {"dac-800g-2x400g"}


@pytest.mark.parametrize("ends", [(6.25e9, 12.5e9, 0.0), (12.5e9, 6.25e9, 0.0), (np.inf, 6.25e9, 12.5e9)])
def test_a_cable_carries_each_lane_as_it_is(ends: tuple[float, float, float]) -> None:
    near, far, adapter = ends
    assert not Lanes(*ends).run_through
    assert Lanes(far, far, adapter if np.isfinite(near) else 6.25e9).run_through
    assert Lanes(near, np.inf, adapter).run_through


def test_links_that_no_module_reaches_are_paid_as_those_that_reach_farthest_and_said() -> None:
    """2,048 leaves of 800 Gb/s beside servers that stand two to a rack: runs of more than 500 m, which DR8 reach.

    Each of 65,536 GPUs has its 5 modules and more, as each of 49,152 has, whose runs are shorter.
    """
    asked = {"gpu": "b200-sxm", "scale_out": "roce-800"}
    near, far = (plan_of(**asked, gpus=gpus) for gpus in (49_152, 65_536))
    modules = [sum(line.quantity for line in plan.fabric.bill_of_materials if "module" in line.role)
               for plan in (near, far)]  # fmt: skip
    assert modules == [6 * 49_152, 6 * 65_536]
    assert near.fabric.cost is not None
    assert far.fabric.cost is not None
    assert far.fabric.cost.typical / 65_536 == pytest.approx(near.fabric.cost.typical / 49_152, rel=0.01)
    (said,) = (finding for finding in far.findings if finding.code == "cable-too-long")
    assert "Links leaf-spine are up to 1,000 m long" in said.message
    assert "farther than 500 m" in said.message
    # 8,192 nodes, two to a rack
    rows = "4,096 racks are taken to stand in 256 rows of 16, one behind the other over 768 m"
    assert rows in said.message
    codes = {finding.code for finding in near.findings}
    assert not {"cable-too-long", "no-cable"} & codes


@pytest.mark.parametrize("scale_out", ["infiniband-gdr", "roce-1600"])
def test_links_of_1600_gb_s_have_modules_of_eight_lanes(scale_out: str) -> None:
    """72 Rubin on one rail-optimised fabric: a module at both ends of every link, each with two runs of fibre."""
    plan = plan_of(gpu="rubin", gpus=576, scale_out=scale_out)
    links = plan.fabric.links
    assert links is not None
    bought = Counter({line.key: 0 for line in plan.fabric.bill_of_materials})
    for line in plan.fabric.bill_of_materials:
        bought[line.key] += line.quantity
    ends = 2 * (links.node_leaf + links.leaf_spine + links.spine_core)
    assert bought["osfp224-1600g-dr8"] == ends == bought["mpo-12-smf"]
    assert "no-cable" not in {finding.code for finding in plan.findings}


def test_a_network_whose_links_no_part_carries_has_no_price() -> None:
    """An adapter of 800 Gb/s in two planes has two lanes of 200 in each: the catalogue has no fibre that splits so.

    Without the modules it was said to cost less than with one plane.
    """
    asked = {"scale_out": "infiniband-xdr", "gpus": 1024, "model": "llama-3-8b"}
    whole, split = plan_of(**asked), plan_of(**asked, planes=2)
    assert whole.fabric.cost is not None
    assert split.fabric.cost is None
    (said,) = (finding for finding in split.findings if finding.code == "no-cable")
    assert "node-leaf" in said.message
    assert dict(said.changes) == {"planes": 1}
    assert said.suggestion == "Use one plane."
    assert "no-price" not in {finding.code for finding in split.findings}
    *_, one, two = sweep(Grid(base=asked, grid={"planes": [1, 2]}), CATALOG)
    assert one["fabric.cost"] == pytest.approx(whole.fabric.cost.typical)
    assert two["fabric.cost"] is None
    *_, alone = sweep(Grid(base=asked | {"planes": 2}, grid={"gpus": [512, 1024]}), CATALOG)
    assert alone["fabric.cost"] is None


def test_a_sweep_pays_for_links_beyond_reach_too() -> None:
    asked = {"gpu": "b200-sxm", "scale_out": "roce-800", "model": "llama-3-8b"}
    *_, row = sweep(Grid(base=asked, grid={"gpus": [1024, 65_536]}), CATALOG)
    cost = plan_of(**asked, gpus=65_536).fabric.cost
    assert cost is not None
    assert row["fabric.cost"] == pytest.approx(cost.typical)


@pytest.mark.parametrize(
    "asked",
    [
        {"scale_out": "infiniband-xdr", "planes": 2},
        {"scale_out": "infiniband-ndr200", "planes": 2},
        {"scale_out": "roce-100", "switch": "tomahawk-6-64x1600"},
        {"scale_out": "infiniband-edr", "switch": "qm9790", "planes": 2},
    ],
)
def test_what_is_said_of_links_without_a_part_gives_them_one(asked: dict[str, object]) -> None:
    plan = plan_of(**asked)
    (said,) = (finding for finding in plan.findings if finding.code == "no-cable")
    after = plan_of(**asked | dict(said.changes))
    assert plan.fabric.cost is None
    assert after.fabric.cost is not None
    assert "no-cable" not in {finding.code for finding in after.findings}


def test_lengths_that_rest_on_a_hall_nobody_builds_say_so() -> None:
    """16,384 H100 in nodes of eight, four to a rack, stand in 32 rows of 16 racks; 33,792 in 66, 3 m apart."""
    none, (said,) = (
        [finding.message for finding in plan_of(gpus=gpus).findings if finding.code == "long-hall"]
        for gpus in (16_384, 33_792)
    )
    assert none == []
    assert said.startswith("1,056 racks are taken to stand in 66 rows of 16, one behind the other over 198 m:")
