"""A fabric from a scenario: switches, bill of materials, cables, findings, prices, and the curve over sizes."""

import itertools
import re
import tracemalloc
from collections import Counter
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.catalog.sampling import DRAWS, TYPICAL, Sampling
from app.plan import bill_of_materials
from app.plan.band import fold
from app.plan.evaluate import evaluate_all_reduce
from app.plan.network import (
    design_network,
    fabric_of,
    measure_networks,
    network_of,
    networks_of,
    price_networks,
    sites_of,
    together,
)
from app.plan.scenario import DesignRequest, NetworkRequest, Scenario
from app.plan.total_cost import cluster_of, ownership, total_cost
from app.studies.port_cost import by_size, generations, sizes

CATALOG = load_catalog()
SUPERPOD = {"platform": "dgx-h100", "gpus": 1016, "management_links": 4, "nodes_per_unit": 32}


def designed(**wish):
    return network_of(Scenario(**wish), CATALOG)


def planned(**wish):
    network = network_of(Scenario(**wish), CATALOG)
    priced = total_cost(network, network.prices, np.full(257, 1e7))
    return fold((fabric_of(network, priced.costs.capital), cluster_of(priced.owned), priced.costs))


def codes(network):
    return {finding.code: finding for finding in network.findings}


# Several at once


@pytest.mark.parametrize("sampling", [DRAWS, TYPICAL])
@pytest.mark.parametrize(
    "kind",
    [
        {"scale_out": "infiniband-ndr"},
        {"scale_out": "roce-400", "oversubscription": 2, "management_links": 2},
        {"gpu": "gb200", "scale_out": "spectrum-x-800", "topology": "fat-tree"},
        {"gpu": "mi300x", "scale_out": "efa-400", "topology": "dragonfly", "spare_nodes": 4},
    ],
)
def test_networks_that_are_priced_together_need_and_cost_what_each_does_alone(
    kind: dict[str, Any], sampling: Sampling
) -> None:
    sizes = 144, 576, 1008, 2304, 4608, 18_432, 36_864
    networks = networks_of([Scenario(gpus=gpus, **kind) for gpus in sizes], CATALOG)
    parts = [part for network in networks for part in (network.built, network.spared) if part]
    bill_of_materials._CABLED.forget()
    every = [part.cabled_in(sampling) for part in parts]
    bill_of_materials._RUNS.forget()
    longest = [network.built.longest_runs() for network in networks if network.built]
    assert not bill_of_materials._RUNS
    measure_networks(networks, CATALOG)
    assert len(bill_of_materials._RUNS) == len(longest)
    assert longest == [network.built.longest_runs() for network in networks if network.built]
    bill_of_materials._CABLED.forget()
    price_networks(networks, sampling)
    assert len(bill_of_materials._CABLED) > len(parts) // 2  # but for those of which there is none alike
    together = [part.cabled_in(sampling) for part in parts]
    for one, alone in zip(together, every, strict=True):
        assert one.media == alone.media
        for (line, cost), (its_line, its_cost) in zip(one.bill, alone.bill, strict=True):
            assert line._replace(power=None) == its_line._replace(power=None)
            assert np.array_equal(cost, its_cost, equal_nan=True)
            assert line.power is its_line.power or np.array_equal(line.power, its_line.power, equal_nan=True)
        assert np.array_equal(one.power, alone.power)
        assert np.array_equal(one.typical_power, alone.typical_power)
    assert len(together) >= len(sizes) - 1


# The SuperPOD, line by line


def test_the_h100_superpod_is_the_published_one_and_costs_three_to_four_thousand_dollars_a_gpu():
    built, cluster, _ = planned(**SUPERPOD)
    assert (built.leaf_switches, built.spine_switches, built.core_switches) == (32, 16, 0)
    assert (built.links.node_leaf, built.links.leaf_spine) == (1020, 1024)
    assert any("h100-t4-4su" in name for name in built.matches)
    assert 3000 < built.cost_per_gpu.typical < 4000  # the cards are in the price of a DGX
    assert built.cost_per_gpu.low < built.cost_per_gpu.typical < built.cost_per_gpu.high
    assert sum(line.cost.typical for line in built.bill_of_materials) == pytest.approx(built.cost.typical)
    assert cluster.racks_by_height == 32  # RA-11333 table 7, four nodes a rack


def test_the_bill_of_materials_of_the_superpod_is_the_published_one():
    # RA-11333 table 8: 32 modules in each of 48 switches, 4 in each of 127 nodes, 4 for the managers, 2,040 fibres + 4.
    built, *_ = planned(**SUPERPOD)
    modules = {line.role: line.quantity for line in built.bill_of_materials if "module" in line.role}
    assert modules["leaf switch module"] + modules["spine switch module"] == 1536
    assert modules["node module"] == 508
    assert modules["fabric-manager module"] == 4
    assert sum(line.quantity for line in built.bill_of_materials if "fibre" in line.part) == 2044
    assert built.power.typical == 48 * 1720  # modules are in the maximum already


def test_default_scenario_is_a_full_two_tier_superpod():
    built, *_ = planned()
    assert (built.leaf_switches, built.spine_switches, built.tiers, built.hops) == (32, 16, 2, 3)
    assert {cut.tier: cut.both_ways.typical for cut in built.bisection}["scale_up"] == 3.6e12
    spine = next(cut for cut in built.bisection if cut.tier == "spine")
    assert spine.one_way.typical == 512 * 50e9  # 204.8 Tb/s
    assert built.cost_per_switch_port.typical == pytest.approx(built.cost_per_host_port.typical / 3)


def test_two_planes_match_the_published_b300():
    built, *_ = planned(gpu="b300-sxm", gpus=2048, scale_out="spectrum-x-800", switch="sn5600", planes=2)
    assert (built.leaf_switches, built.spine_switches) == (64, 32)
    assert any("b300eth-4su" in name for name in built.matches)


# Prices


def test_the_planner_s_own_price_takes_the_place_of_the_book_s():
    network = designed(price_switch=10_000)
    boxes = [line for line in network.built.lines if line.role.endswith(" switch")]
    assert all(set(line.price.draws()) == {10_000} for line in boxes)
    assert "planner" in {used.source for used in network.used}


def test_the_articles_prices_are_a_port_and_an_adapter():
    # 1,016 adapters at $4,000 and 3,072 ports at $750: $6.37M, and 3 % of spares.
    network = designed(**SUPERPOD, price_book="rule-of-thumb")
    assert network.cost[0] == pytest.approx(1.03 * (1016 * 4000 + 3072 * 750))


def test_a_switch_nobody_prices_is_said_to_be_priced_by_its_rate():
    assert "price-by-rate" in codes(designed(scale_out="infiniband-gdr"))


def test_one_node_needs_no_network():
    network = designed(gpus=8)
    assert network.cost[0] == 0
    assert network.built is None
    assert "one-node" in codes(network)


def test_spines_may_be_another_switch_than_leaves():
    """2,048 nodes of 8 cards: 512 leaves of 32 ports down and 32 up, one to each of 32 chassis of 576 ports."""
    network = designed(gpus=16384, scale_out="roce-400", switch="z9664f-on", spine_switch="7800r3")
    assert network.built is not None
    assert (network.switch, network.spine_switch, network.tiers) == ("z9664f-on", "7800r3", 2)
    assert (network.built.counts.leaves, network.built.counts.spines) == (512, 32)
    alone = designed(gpus=16384, scale_out="roce-400", switch="z9664f-on")
    assert (alone.spine_switch, alone.tiers) == ("z9664f-on", 3)


# What cannot be built is refused, and the finding says what to change


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        ({"gpus": 100_000}, "infiniband-addresses", "49,151"),
        ({"oversubscription": 64}, "taper-too-wide", "63"),
        ({"gpus": 4096, "tiers": 2}, "too-many-hosts", "3 tiers"),
        ({"gpus": 1_000_000, "scale_out": "infiniband-edr"}, "too-many-hosts", "1,000,000 hosts"),  # 2 · 18⁴ = 209,952
        ({"gpus": 16_000, "topology": "mesh"}, "too-many-hosts", "fat tree"),
        ({"switch": "sn5600"}, "switch-of-another-family", "NVIDIA QM9700"),
        ({"switch": "qm8700"}, "switch-too-slow", "400"),
        ({"spine_switch": "sn5600"}, "switch-of-another-family", "NVIDIA QM9700"),
        ({"spine_switch": "qm8700"}, "switch-too-slow", "QM8700"),
        ({"topology": "torus-3d", "tiers": 2}, "tiers-not-for-topology", "blank"),
    ],
)
def test_an_impossible_fabric_is_refused_by_name(wish, code, says):
    network = designed(**wish)
    finding = codes(network)[code]
    assert finding.severity == "error"
    assert says in f"{finding.message} {finding.suggestion}"
    assert finding.fields
    built, *_ = planned(**wish)
    assert built.leaf_switches is None
    assert built.cost is None


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"scale_out": "infiniband-xdr"}, "pcie-too-slow"),
        ({"minimum_spines": 100}, "fewer-spines"),
        ({"gpus": 10_000}, "uneven-links"),
        ({"oversubscription": 5}, "taper-rounded"),
        ({"topology": "rail-only"}, "rails-apart"),
        ({"topology": "dragonfly"}, "approximate-topology"),
        ({"gpus": 128}, "units-partly-filled"),
        ({"spine_oversubscription": 2, "tiers": 2}, "no-spine-taper"),
        ({"gpus": 44_000}, "infiniband-addresses-nearly"),
    ],
)
def test_a_fabric_with_a_catch_is_built_and_the_catch_named(wish, code):
    network = designed(**wish)
    assert codes(network)[code].severity != "error"
    assert network.built is not None


def test_a_suggested_change_removes_its_finding():
    for wish in ({"gpus": 4096, "tiers": 2}, {"oversubscription": 64}, {"gpus": 16_000, "topology": "mesh"}):
        errors = [finding for finding in designed(**wish).findings if finding.severity == "error"]
        for finding in errors:
            again = designed(**wish | dict(finding.changes))
            assert finding.code not in codes(again)


@pytest.mark.parametrize(
    ("wish", "advised"),
    [
        ({"gpus": 10_000}, True),
        # leaves that cost least differ with the policy
        ({"gpus": 2200, "tiers": 3}, False),
        ({"gpus": 3000, "tiers": 3}, True),
    ],
)
def test_spines_of_its_own_are_advised_to_a_rail_where_links_then_divide_evenly(wish, advised):
    changes = dict(codes(designed(**wish))["uneven-links"].changes)
    assert changes == ({"spine_policy": "rail"} if advised else {})
    assert advised == ("uneven-links" not in codes(designed(**wish, spine_policy="rail")))


# Other networks


def test_storage_and_management_are_sized_when_switched_on():
    built, cluster, priced = planned(**SUPERPOD, storage_network=True, management_network=True)
    roles = {network.role: network for network in built.networks}
    assert set(roles) == {"storage", "in-band management", "out-of-band management"}
    # Near the 16 switches of RA-11333 and the 12 of RA-11334.
    assert 12 <= roles["storage"].leaf_switches + roles["storage"].spine_switches <= 20
    parts = {line.name: line.cost.typical for line in priced.capital_parts}
    assert parts["storage network"] > 0
    assert sum(parts.values()) == pytest.approx(priced.capital.typical)
    assert 35 <= cluster.racks <= 40  # RA-11333 table 7: 38


# Money


def test_costs_add_up():
    built, _, priced = planned()
    assert priced.total.typical == pytest.approx(priced.capital.typical + 5 * priced.operating.typical)
    hours = 5 * 365.25 * 24
    assert priced.per_gpu_hour.typical == pytest.approx(priced.total.typical / 1024 / hours)
    assert priced.rental.typical == pytest.approx(1024 * 4.20 * 1e7 / 3600)
    assert built.share_of_capital.typical == pytest.approx(built.cost.typical / priced.capital.typical)


# Cables


@settings(max_examples=25)
@given(
    st.integers(2, 260),
    st.sampled_from(["rail-optimized", "fat-tree", "rail-only"]),
    st.sampled_from(["sb7800", "qm8700"]),
    st.sampled_from([0, 3]),
    st.sampled_from(["shared", "rail"]),
    st.sampled_from([1.0, 2.0]),
)
def test_every_cable_has_two_ports_of_its_own(nodes, topology, switch, managers, policy, taper):
    scale_out = "infiniband-edr" if switch == "sb7800" else "infiniband-hdr"
    network = designed(
        gpus=8 * nodes, topology=topology, switch=switch, scale_out=scale_out, management_links=managers,
        spine_policy=policy, oversubscription=taper,
    )  # fmt: skip
    if network.built is None:
        return
    counts = network.built.counts
    cables = list(network.cables())
    assert len(cables) == network.cable_count()
    ends = [(cable.a_end, cable.a_port) for cable in cables] + [(cable.z_end, cable.z_port) for cable in cables]
    assert max(Counter(ends).values()) == 1
    used = Counter(name for name, _ in ends)
    assert max(count for name, count in used.items() if not name.startswith("node")) <= network.built.choice.radix
    assert sum(name.startswith("leaf") for name in used) <= counts.leaves
    assert sum(name.startswith("spine") for name in used) == counts.spines
    assert sum(name.startswith("core") for name in used) == counts.cores
    if counts.by_rail:
        rails = {cable.z_end: set() for cable in cables}
        for cable in cables:
            if cable.level == "node-leaf":
                rails[cable.z_end].add(cable.rail)
        assert max(len(on) for on in rails.values()) == 1
    lengths = Counter((cable.level.replace("-", "_"), cable.length) for cable in cables)
    for (level, metres), many in lengths.items():
        if level != "management_leaf":
            known = getattr(network.built.cabling, level)
            assert known[metres] >= many if level == "node_leaf" else known[metres] == many


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("tiers", [2, 3, 4])
def test_every_level_of_a_tall_fabric_is_cabled_port_by_port(tiers, planes):
    # Without a taper as many links leave each level as come to it: 256 GPUs have 256 on every level of each plane.
    network = designed(gpus=256, tiers=tiers, planes=planes, scale_out="roce-400")
    cables, counts = list(network.cables()), network.built.counts
    levels = ["node-leaf", "leaf-spine", "spine-core", "core-super-core"][:tiers]
    assert Counter(cable.level for cable in cables) == dict.fromkeys(levels, 256 * planes)
    assert network.cable_count() == len(cables) == 256 * planes * tiers
    ends = Counter((end, port) for one in cables for end, port in ((one.a_end, one.a_port), (one.z_end, one.z_port)))
    assert {(end.startswith("node"), many) for (end, _), many in ends.items()} == {(True, planes), (False, 1)}
    boxes = Counter(re.match("[a-z-]*[a-z]", end)[0] for end in {end for end, _ in ends})
    design = network.built.design
    assert boxes["leaf"] == design.leaf_switches == counts.leaves
    assert sum(boxes.values()) == 32 + design.switches
    used = Counter(end for end, _ in ends if not end.startswith("node"))
    assert max(used.values()) <= network.built.choice.radix


def test_the_cable_list_takes_no_more_memory_for_a_larger_fabric():
    """57.6 million links of nodes: eight bytes for each, several times over, would be some 2 GB."""
    network = designed(gpus=100_000, nics_per_node=576, gpus_per_node=1, scale_out="roce-400")
    assert network.built.cabling.leaf_racks.size == network.built.counts.leaves
    tracemalloc.start()
    try:
        assert sum(1 for _ in itertools.islice(network.cables(), 40_000)) == 40_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


def test_lists_that_wait_for_their_readers_take_little_memory():
    """A hundred clients may ask for lists of millions of cables and read nothing."""
    network = designed(gpus=100_000, scale_out="spectrum-x-800", topology="fat-tree")
    next(network.cables())
    tracemalloc.start()
    try:
        waiting = [network.cables() for _ in range(10)]
        assert len({next(cables) for cables in waiting}) == 1
        held = tracemalloc.get_traced_memory()[0] / len(waiting)
    finally:
        tracemalloc.stop()
    assert held < 0.2e6


def test_counting_the_links_of_a_vast_fabric_by_length_takes_little_memory():
    """19,608 leaves beside every rack of spines would take a gigabyte, and spines beside all of their cores 80 MB."""
    network = designed(
        gpu="h800-sxm", gpus=1_000_000, scale_out="spectrum-x-800", topology="fat-tree", oversubscription=4
    )
    cabling, design = network.built.cabling, network.built.design
    assert cabling.leaf_racks.size == network.built.counts.leaves
    tracemalloc.start()
    try:
        assert sum(cabling.leaf_spine.values()) == design.leaf_spine
        assert sum(cabling.spine_core.values()) == design.spine_core
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6


def test_rails_of_a_rail_only_fabric_never_meet():
    network = designed(gpus=8 * 1500, topology="rail-only", switch="qm8700", scale_out="infiniband-hdr")
    assert network.tiers == 3
    rail_of: dict[str, set[int]] = {}
    for cable in network.cables():
        if cable.level == "node-leaf":
            rail_of.setdefault(cable.z_end, set()).add(cable.rail)
    for level in ("leaf-spine", "spine-core"):
        for cable in network.cables():
            if cable.level == level:
                rail_of.setdefault(cable.z_end, set()).update(rail_of[cable.a_end])
    assert all(len(rails) == 1 for rails in rail_of.values())


def test_the_cables_of_four_tiers_keep_to_their_ports():
    network = designed(gpus=2048, tiers=4, scale_out="roce-400", switch="qfx5220-32cd", topology="fat-tree")
    cables = list(network.cables())
    design = network.built.design
    assert len(cables) == int(design.node_leaf + design.leaf_spine + design.spine_core + design.core_super_core)
    ends = Counter((name, port) for cable in cables for name, port in (
        (cable.a_end, cable.a_port), (cable.z_end, cable.z_port)))  # fmt: skip
    assert max(ends.values()) == 1
    used = Counter(name for name, _ in ends)
    assert max(count for name, count in used.items() if not name.startswith("node")) <= 32


def test_leaves_have_the_same_number_of_links_to_every_spine():
    pairs = Counter((cable.a_end, cable.z_end) for cable in designed().cables() if cable.level == "leaf-spine")
    assert set(pairs.values()) == {2}  # 32 uplinks over 16 spines
    assert len(pairs) == 32 * 16


# The curve over sizes


@pytest.mark.parametrize(("gpus", "spare_nodes"), [(2048, 0), (1024, 4), (2048, 4), (64, 1), (48, 1), (40_000, 1000)])
def test_the_curve_passes_through_the_plan(gpus: int, spare_nodes: int):
    for scale_out in ("infiniband-ndr", "infiniband-xdr", "roce-400"):
        scenario = Scenario(scale_out=scale_out, gpus=gpus, spare_nodes=spare_nodes, spares=0.02)
        (curve,) = by_size(scenario, CATALOG, [scale_out])
        place = curve.gpus.tolist().index(gpus)
        network = network_of(scenario, CATALOG)
        fabric = fabric_of(network, ownership(network, network.prices).capital)
        assert np.allclose(curve.cost[place], network.cost, rtol=1e-12)
        assert np.allclose(curve.cost_per_host_port[place], fabric.cost_per_host_port.values, rtol=1e-12)


@pytest.mark.parametrize(("scale_out", "switch"), [("infiniband-ndr", "qm9700"), ("roce-400", "7060x6-64pe")])
def test_the_fabric_never_gets_cheaper_by_growing_within_a_tier_count(scale_out, switch):
    (curve,) = by_size(Scenario(scale_out=scale_out, switch=switch), CATALOG, [scale_out])
    for tiers in (1, 2, 3):
        cost = curve.cost[(curve.tiers == tiers), 0]
        assert len(cost) > 2
        assert (np.diff(cost) >= 0).all()


def test_the_curve_names_its_cliffs():
    curves = {curve.scale_out: curve for curve in by_size(Scenario(), CATALOG)}
    assert {curve.family for curve in curves.values()} == {"infiniband", "roce"}
    found = {cliff.text: cliff.gpus for cliff in curves["infiniband-ndr"].cliffs}
    assert found["1 → 2 tiers"] == 72  # 64 ports are full with 8 nodes
    assert found["2 → 3 tiers"] == 2056  # 64²/2 hosts
    assert 45_000 < found["no more addresses in a subnet"] < 48_000
    assert curves["roce-400"].gpus[-1] == 100_000
    assert np.isfinite(curves["roce-400"].cost[-1]).all()


def test_a_fabric_is_designed_once_for_every_job_that_runs_on_it():
    asked = Scenario(gpus=640, price_switch=30_000)
    job = asked.model_copy(
        update={"model": "llama-3-8b", "training_tokens": 1e12, "stack": "nemo", "tensor_parallel": 4}
    )
    assert network_of(job, CATALOG) is network_of(asked, CATALOG)
    for change in ({"gpus": 648}, {"planes": 2}, {"price_switch": 20_000}):
        assert network_of(asked.model_copy(update=change), CATALOG) is not network_of(asked, CATALOG)


# What the figures of a fabric count


def test_a_superpod_has_as_many_modules_cages_and_ports_as_its_bill_says():
    # RA-11333: 1,536 modules in 48 switches, 508 in nodes and 4 of managers; 127 × 8 NIC ports and 4 of managers hang
    # on 32 leaves, which have 32 uplinks each; 48 switches of 64 ports.
    built, *_ = planned(**SUPERPOD)
    assert built.modules == 1536 + 508 + 4
    assert built.cages == {"node": 508, "leaf": 1024, "spine": 512}
    assert (built.host_ports, built.switch_ports) == (1016, 48 * 64)
    assert built.ports_free == {"leaf": 32 * 64 - 1020 - 1024, "spine": 16 * 64 - 1024}
    assert (built.hops, built.planes, built.approximate) == (3, 1, False)
    assert built.typical_power.typical < built.power.typical
    assert sum(line.power.typical for line in built.bill_of_materials) == built.power.typical
    spares = built.bill_of_materials[-1]
    assert spares.cost.typical == pytest.approx(0.03 * (built.cost.typical - spares.cost.typical))
    assert built.cost_per_gpu.typical == pytest.approx(built.cost.typical / 1016)
    assert built.cost_per_host_port.typical == pytest.approx(built.cost.typical / 1016)
    assert built.cost_per_switch_port.typical == pytest.approx(built.cost.typical / 3072)
    # 1,016 ports of 50 GB/s, of which half face the other half: 25.4 TB/s, or 203,200 Gb/s.
    assert built.cost_per_bisection.typical == pytest.approx(built.cost.typical / 203_200)
    assert built.bisection_per_gpu.typical == 25e9
    assert all(line.cost.sources for line in built.bill_of_materials)


def test_the_shape_of_a_superpod_is_that_of_one_plane():
    shape = planned(**SUPERPOD)[0].shape
    assert (shape.nodes, shape.rails, shape.management_links) == (127, 8, 4)
    assert (shape.units, shape.nodes_per_unit, shape.leaves_per_unit) == (4, 32, 8)
    assert (shape.leaf_down, shape.leaf_up, shape.spine_down, shape.spine_up) == (32, 32, 64, 0)
    assert (shape.leaves, shape.spines, shape.cores, shape.super_cores, shape.peers) == (32, 16, 0, 0, 0)
    assert (shape.host_rate, shape.uplink_rate) == (50e9, 50e9)
    assert (shape.by_rail, shape.rail_spines, shape.family) == (True, False, "infiniband")
    assert (shape.oversubscription, shape.spine_oversubscription) == (1, 1)


def test_two_planes_have_half_the_rate_and_half_the_switches_each():
    built, *_ = planned(gpu="b300-sxm", gpus=2048, scale_out="spectrum-x-800", switch="sn5600", planes=2)
    assert (built.shape.leaves, built.shape.spines) == (32, 16)
    assert (built.shape.host_rate, built.shape.uplink_rate) == (50e9, 50e9)  # of the NIC's 100 GB/s
    assert built.shape.family == "ethernet"
    assert built.host_ports == 2 * 2048
    assert built.bisection_per_gpu.typical == 50e9


def test_a_tapered_fat_tree_of_three_tiers_is_counted_tier_by_tier():
    # Of all leaves with 2:1, those of 32 down and 16 up cost least: 256 of them, whose 4,096 uplinks need 128 spines.
    built, *_ = planned(gpus=8192, topology="fat-tree", oversubscription=2)
    shape = built.shape
    assert (built.tiers, built.hops, shape.leaf_down, shape.leaf_up) == (3, 5, 32, 16)
    assert (built.leaf_switches, built.spine_switches) == (8192 // 32, 256 * 16 // 32) == (256, 128)
    assert (built.links.node_leaf, built.links.leaf_spine, built.links.spine_core) == (8192, 4096, 128 * 32)
    assert built.core_switches == 64  # 4,096 links on 64 ports
    assert built.ports_free == {"leaf": 256 * (64 - 32 - 16), "spine": 0, "core": 0}
    assert shape.oversubscription == 2
    assert (shape.spine_down, shape.spine_up, shape.spine_oversubscription) == (32, 32, 1)
    assert built.largest_cluster == 64 * 32 * 32  # 64 ports of a core × 32 of a spine × 32 of a leaf


def test_a_spine_may_be_tapered_too():
    # 64 ports at 3:1: 48 down and 16 up.
    shape = planned(gpus=8192, topology="fat-tree", spine_oversubscription=3)[0].shape
    assert (shape.spine_down, shape.spine_up, shape.spine_oversubscription) == (48, 16, 3)


def test_a_torus_counts_its_links_between_equals():
    built, *_ = planned(gpus=64, topology="torus-2d")
    assert built.approximate
    assert built.shape.peers == built.links.leaf_spine
    assert built.largest_cluster is None
    assert built.shape.oversubscription == 1


def test_without_a_network_card_nothing_is_built_and_nothing_drawn():
    network = designed(gpus=64, nics_per_node=0)
    assert (network.wanted, network.built, network.auxiliary) == (None, None, ())
    assert np.isnan(network.cost).all()
    assert set(codes(network)) == set()  # the plan says that nodes without a NIC cannot reach one another
    built, cluster, _ = planned(gpus=64, nics_per_node=0)
    assert (built.modules, built.cages, built.ports_free, built.hops, built.shape) == (None, {}, {}, None, None)
    assert cluster.power.typical == 8 * 10_200  # the nodes alone


def test_a_node_alone_costs_no_fabric_and_has_a_bisection_of_its_own():
    built, cluster, _ = planned(gpus=8)
    assert (built.cost.typical, built.power.typical, built.tiers) == (0, 0, None)
    assert [cut.tier for cut in built.bisection] == ["scale_up"]
    assert cluster.racks == 1


def test_cards_in_a_mesh_halve_it_across_the_links_of_one_half():
    # MI300X: 8 GPUs, 448 GB/s over 7 links of 64 GB/s. 4 × 4 links cross the middle: 1.024 TB/s one way.
    (cut,) = (cut for cut in planned(gpu="mi300x", gpus=8)[0].bisection if cut.tier == "scale_up")
    link = CATALOG.scale_up[CATALOG.gpus["mi300x"].scale_up].bandwidth.typical
    assert cut.one_way.typical == pytest.approx(16 * link / 7)
    assert cut.both_ways.typical == pytest.approx(32 * link / 7)


@pytest.mark.parametrize("gpus", [8, 32_000, 36_000, 38_000, 39_000, 40_000, 44_000, 47_000, 48_000])
def test_addresses_of_a_subnet_are_ports_and_switches(gpus: int):
    # 49,151 unicast identifiers; from four fifths of them on it is said, and beyond them refused.
    network = designed(gpus=gpus)
    said = {code for code in codes(network) if code.startswith("infiniband-addresses")}
    if network.wanted is None:
        assert not said
        return
    design = network.wanted[1]
    needed = design.node_leaf + design.switches
    expected = "infiniband-addresses" if needed > 49_151 else "infiniband-addresses-nearly"
    assert said == ({expected} if needed > 0.8 * 49_151 else set())
    assert (network.built is None) == (needed > 49_151)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"scale_out": "infiniband-ndr"}, "pcie-too-slow"),
        ({"minimum_spines": 16}, "fewer-spines"),
        ({"gpus": 2048}, "uneven-links"),
        ({"oversubscription": 2}, "taper-rounded"),
        ({"gpus": 16384, "oversubscription": 7}, "taper-rounded"),  # 56:8 of 64 ports
        ({"gpus": 16384, "oversubscription": 15}, "taper-rounded"),  # 60:4
        ({"oversubscription": 31}, "taper-rounded"),  # 62:2
        ({"topology": "rail-only", "nics_per_node": 1}, "rails-apart"),
        ({"topology": "fat-tree"}, "approximate-topology"),
        ({"gpus": 128, "nodes_per_unit": 4}, "units-partly-filled"),
        ({"gpus": 640}, "units-partly-filled"),
        ({"spine_oversubscription": 2}, "no-spine-taper"),
        ({"spine_oversubscription": 2, "tiers": 3}, "no-spine-taper"),
        ({"nodes_per_unit": 32}, "unit-larger-than-leaf"),
        ({"management_links": 4}, "manager-port"),
        ({"scale_out": "roce-400"}, "price-by-rate"),
        ({}, "no-price"),
        ({}, "no-cable"),
    ],
)
def test_what_has_no_catch_is_not_said_to_have_one(wish, code):
    network = designed(**wish)
    assert code not in codes(network)
    assert network.built is not None


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        ({"oversubscription": 5}, "taper-rounded", "48 down and 10 up: 4.80 rather than 5"),
        ({"minimum_spines": 100}, "fewer-spines", "32 uplinks, so at most 32 spines"),
        ({"nodes_per_unit": 64}, "unit-larger-than-leaf", "takes 32 nodes of a rail, so units of 64"),
        ({"spine_oversubscription": 2, "tiers": 2}, "no-spine-taper", "With 2 tiers"),
        ({"switch": "qm8700"}, "switch-too-slow", "carries 200"),
        ({"gpus": 128}, "units-partly-filled", "32 nodes; 16 are there. A plain fat tree needs 6 switches rather than"),
        (
            {"gpus": 4096, "tiers": 2},
            "too-many-hosts",
            "4,096 hosts do not fit: a rail-optimised tree of 2 tiers of 64-port",
        ),
        ({"gpus": 4096, "tiers": 2}, "too-many-hosts", "carries 256 nodes of 8 NICs, not 512"),
        ({"gpus": 16_000, "topology": "mesh"}, "too-many-hosts", "nodes of 8 NICs, not 2,000"),
        ({"oversubscription": 64}, "taper-too-wide", "taper of 64:1 leaves no uplink on a leaf of 64 ports"),
    ],
)
def test_a_finding_has_the_figures_of_the_design(wish, code, says):
    assert says in codes(designed(**wish))[code].message.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("wish", "says", "fields"),
    [
        ({"switch": "sn6800-ld"}, "NVIDIA SN6800-LD (announced)", ("switch",)),
        ({"switch": "sn5600", "spine_switch": "sn6600-ld"}, "NVIDIA SN6600-LD (announced)", ("spine_switch",)),
        (
            {"switch": "sn6800-ld", "spine_switch": "sn6600-ld"},
            "NVIDIA SN6800-LD (announced) and NVIDIA SN6600-LD (announced)",
            ("switch", "spine_switch"),
        ),
    ],
)
def test_switches_that_are_not_on_sale_are_named(wish, says, fields):
    finding = codes(designed(gpu="b300-sxm", gpus=8192, scale_out="spectrum-x-800", **wish))["not-shipping"]
    assert finding.message == f"Not on sale yet: {says}. Figures that rest on it are the vendor's plans."
    assert finding.fields == fields


@pytest.mark.parametrize(
    "wish",
    [
        {"switch": "sn5600"},
        {"spine_switch": "sn6600-ld", "tiers": 1},
        {"switch": "sn6800-ld", "gpus": 8},
    ],
)
def test_a_switch_that_is_on_sale_or_not_built_is_not_called_early(wish):
    network = designed(**{"gpu": "b300-sxm", "gpus": 64, "scale_out": "spectrum-x-800"} | wish)
    assert "not-shipping" not in codes(network)


@pytest.mark.parametrize("balancing", ["hashing", "adaptive"])
def test_a_plain_fat_tree_is_advised_where_an_all_reduce_is_no_slower_in_it(balancing):
    """Of 30 hosts of all rails on a leaf more than one flow is hashed on one of 30 links up."""
    asked = {"gpu": "b200-sxm", "gpus": 144, "scale_out": "roce-400", "load_balancing": balancing, "message": 1e9}
    finding = codes(designed(**asked))["units-partly-filled"]
    now, plain = (
        evaluate_all_reduce(Scenario(**asked, topology=topology), CATALOG).all_reduce.time.typical
        for topology in ("rail-optimized", "fat-tree")
    )
    slower = plain > now * 1.001
    assert slower == (balancing == "hashing")
    assert dict(finding.changes) == ({} if slower else {"topology": "fat-tree"})
    assert ("share switches" in finding.suggestion) == slower


@pytest.mark.parametrize(
    ("wish", "advised"),
    [
        ({"topology": "mesh"}, False),
        ({"topology": "dragonfly"}, False),
        ({"topology": "mesh", "load_balancing": "adaptive"}, True),
        ({}, True),
    ],
)
def test_more_nics_are_advised_where_their_flows_have_paths(wish, advised):
    finding = codes(designed(**{"gpu": "h200-nvl", "gpus": 4096, "scale_out": "roce-200"} | wish))["nics-shared"]
    assert dict(finding.changes) == ({"nics_per_node": 8} if advised else {})
    assert ("adaptive routing" in finding.suggestion) != advised


def test_too_large_a_fabric_is_told_the_most_that_fits():
    # A folded Clos of four tiers of 36 ports carries 2·18⁴ = 209,952 hosts, 26,244 nodes of eight.
    finding = codes(designed(gpus=1_000_000, scale_out="infiniband-edr", topology="fat-tree"))["too-many-hosts"]
    assert "carries 26,244 nodes" in finding.message
    assert dict(finding.changes) == {"gpus": 209_952}
    wider = codes(designed(gpus=4096, tiers=2))["too-many-hosts"]
    assert dict(wider.changes) == {"tiers": 3}


# Networks beside it


def test_storage_serves_the_nodes_links_and_its_servers_own():
    built, *_ = planned(**SUPERPOD, storage_network=True)
    (storage,) = built.networks
    rates = CATALOG.operations["storage"]
    links = CATALOG.platforms["dgx-h100"].storage_nics
    servers = -(-127 * links * rates["server_links"].typical // links)
    assert storage.links.node_leaf == (127 + servers) * links
    assert storage.cost.typical > 0
    assert storage.power.typical > 0
    assert storage.cost.sources
    assert storage.power.sources


def test_management_counts_a_port_for_every_box():
    built, *_ = planned(**SUPERPOD, management_network=True)
    in_band, out_of_band = built.networks
    rates = {name: value.typical for name, value in CATALOG.operations["management"].items()}
    assert in_band.links.node_leaf == 127 * rates["in_band_links"]
    racks, boxes = -(-127 // 4), 48 + in_band.leaf_switches + in_band.spine_switches
    ports = round(127 * rates["out_of_band_ports_per_node"] + racks * rates["out_of_band_ports_per_rack"] + boxes)
    switch = CATALOG.switches["sn2201"]
    switches = -(-ports // switch.ports)
    assert (out_of_band.switch, out_of_band.leaf_switches, out_of_band.spine_switches) == ("sn2201", switches, 0)
    uplinks = switches * rates["out_of_band_uplinks"]
    assert (out_of_band.links.node_leaf, out_of_band.links.leaf_spine) == (ports, uplinks)
    market = CATALOG.prices["market"].prices
    money = switches * market["sn2201"].typical + (ports + uplinks) * market["cat6"].typical
    assert out_of_band.cost.typical == pytest.approx(money)
    assert out_of_band.power.typical == switches * switch.power.typical


def test_switches_of_the_storage_network_are_managed_too():
    without, *_ = planned(**SUPERPOD, management_network=True)
    built, *_ = planned(**SUPERPOD, management_network=True, storage_network=True)
    roles = {network.role: network for network in built.networks}
    assert list(roles) == ["storage", "in-band management", "out-of-band management"]
    # A port more for each switch of the storage network: nine leaves and four spines
    storage = roles["storage"].leaf_switches + roles["storage"].spine_switches
    ports = roles["out-of-band management"].links.node_leaf
    assert ports - without.networks[-1].links.node_leaf == storage == 9 + 4


# Names and ports of cables


def test_the_cables_of_a_superpod_are_named_by_node_unit_and_rail():
    network = designed(**SUPERPOD)
    cables = list(network.cables())
    assert len(cables) == 1020 + 1024

    def ends(cable):
        return (cable.a_end, cable.a_port, cable.z_end, cable.z_port, cable.plane, cable.rail, cable.level)

    assert ends(cables[0]) == ("node-00001", 1, "leaf-1-u001-r01", 1, 1, 1, "node-leaf")
    assert ends(cables[9]) == ("node-00002", 2, "leaf-1-u001-r02", 2, 1, 2, "node-leaf")
    # The last unit has 31 nodes, so that the managers take the 32nd port of its first four leaves.
    managers = [ends(cable) for cable in cables if cable.level == "management-leaf"]
    assert managers == [
        (f"fabric-manager-{rail}", 1, f"leaf-1-u004-r{rail:02d}", 32, 1, rail, "management-leaf")
        for rail in (1, 2, 3, 4)
    ]
    # A leaf's uplinks follow its 32 hosts; two of them go to each spine.
    up = [ends(cable) for cable in cables if cable.level == "leaf-spine"]
    assert up[0] == ("leaf-1-u001-r01", 33, "spine-1-0001", 1, 1, 1, "leaf-spine")
    assert up[1] == ("leaf-1-u001-r01", 34, "spine-1-0001", 2, 1, 1, "leaf-spine")
    assert up[2] == ("leaf-1-u001-r01", 35, "spine-1-0002", 1, 1, 1, "leaf-spine")
    assert up[-1] == ("leaf-1-u004-r08", 64, "spine-1-0016", 64, 1, 8, "leaf-spine")
    assert {cable.medium for cable in cables} <= {optic.name for optic in CATALOG.optics.values()}


def test_the_cables_of_three_tiers_count_leaves_through_and_spines_up():
    # 42 hosts on a leaf: the 196th has 8,192 - 195 · 42 = 2 of them, and the managers come after these.
    cables = list(designed(gpus=8192, topology="fat-tree", oversubscription=2, management_links=2).cables())
    managers = [cable for cable in cables if cable.level == "management-leaf"]
    assert [(cable.z_end, cable.z_port, cable.rail) for cable in managers] == [
        ("leaf-1-0196", 3, None), ("leaf-1-0196", 4, None),
    ]  # fmt: skip
    up = next(cable for cable in cables if cable.level == "leaf-spine")
    assert (up.a_end, up.a_port, up.z_end, up.z_port, up.rail) == ("leaf-1-0001", 43, "spine-1-0001", 1, None)
    core = next(cable for cable in cables if cable.level == "spine-core")
    assert (core.a_end, core.a_port, core.z_end, core.z_port, core.rail) == ("spine-1-0001", 33, "core-1-0001", 1, None)


def test_each_plane_has_its_own_cables():
    network = designed(gpu="b300-sxm", gpus=2048, scale_out="spectrum-x-800", switch="sn5600", planes=2)
    cables = list(network.cables())
    planes = Counter(cable.plane for cable in cables)
    assert planes == {1: 4096, 2: 4096}
    assert (cables[0].z_end, cables[-1].z_end) == ("leaf-1-u001-r01", "spine-2-0016")
    assert all(f"-{cable.plane}-" in cable.z_end for cable in cables)


def test_a_plane_is_a_subnet_of_its_own():
    # Both planes have a port at each of 40,000 NICs: as many identifiers in each as one plane of the same switches.
    network = designed(gpu="b200-sxm", gpus=40_000, planes=2)
    design = network.wanted[1]
    assert design.node_leaf == 80_000
    assert 0.8 * 49_151 < (design.node_leaf + design.switches) / 2 < 49_151
    assert "infiniband-addresses-nearly" in codes(network)
    assert network.built is not None


# The curve over sizes, figure by figure


@pytest.mark.parametrize("scale_out", ["infiniband-ndr", "roce-400"])
def test_every_figure_of_the_curve_is_that_of_the_plan(scale_out: str):
    scenario = Scenario(scale_out=scale_out, gpus=2048)
    (curve,) = by_size(scenario, CATALOG, [scale_out])
    built, *_ = planned(scale_out=scale_out, gpus=2048)
    place = curve.gpus.tolist().index(2048)
    assert curve.host_ports[place] == built.host_ports
    assert curve.switch_ports[place] == built.switch_ports
    assert curve.tiers[place] == built.tiers
    assert curve.switches[place] == built.leaf_switches + built.spine_switches + built.core_switches
    assert curve.switch[place] == built.switch
    assert curve.bisection[place] == pytest.approx(2048 * built.bisection_per_gpu.typical)
    for name in ("cost_per_host_port", "cost_per_switch_port", "cost_per_gpu", "cost_per_bisection"):
        assert getattr(curve, name)[place, 0] == pytest.approx(getattr(built, name).typical), name
    assert (curve.scale_out, curve.rate) == (scale_out, 50e9)
    parts = designed(scale_out=scale_out, gpus=2048).built.parts
    assert {estimate.key for estimate in curve.used} >= {line.price.key for line in parts}


def test_the_curve_stands_at_whole_nodes_and_on_either_side_of_each_cliff():
    assert sizes(8, 1024)[0] == 8
    assert sizes(8, 1024)[-1] == 100_000
    assert len(sizes(8, 1024)) <= 41
    assert 1000 in sizes(8, 1000)
    assert 200_000 not in sizes(8, 200_000)
    assert all(sizes(8, 1024) % 8 == 0)
    (curve,) = by_size(Scenario(), CATALOG, ["infiniband-ndr"])
    gpus = curve.gpus.tolist()
    assert {64, 72, 2048, 2056} <= set(gpus)  # one switch, and two tiers of 64 ports, are full
    assert np.isnan(curve.cost[gpus.index(8)]).all()  # one node needs no network
    tiers = {size: curve.tiers[place] for place, size in enumerate(gpus)}
    assert (tiers[64], tiers[72], tiers[2048], tiers[2056]) == (1, 2, 2, 3)
    (spared,) = by_size(Scenario(spare_nodes=4), CATALOG, ["infiniband-ndr"])
    tiers = dict(zip(spared.gpus.tolist(), spared.tiers, strict=True))
    assert (tiers[32], tiers[40], tiers[2016], tiers[2024]) == (1, 2, 2, 3)  # 32 GPUs less, whose ports the spares have


def test_no_size_has_a_price_on_a_switch_of_another_family():
    assert by_size(Scenario(scale_out="roce-400", switch="qm9700"), CATALOG, ["roce-400"], [1024]) == ()


def test_the_sizes_of_a_part_of_a_node_are_of_whole_ones():
    # Eight L40S share four NICs; one by itself has one.
    (curve,) = by_size(Scenario(gpu="l40s", gpus=1), CATALOG, ["infiniband-ndr"], [1024])
    (whole,) = by_size(Scenario(gpu="l40s", gpus=1024), CATALOG, ["infiniband-ndr"], [1024])
    assert curve.host_ports.tolist() == [512]
    assert curve.cost.tolist() == whole.cost.tolist()


@pytest.mark.parametrize("scale_out", ["infiniband-ndr", "infiniband-xdr", "roce-200", "roce-400", "infiniband-hdr"])
def test_a_cliff_is_where_tiers_or_the_switch_change_and_nowhere_else(scale_out: str):
    (curve,) = by_size(Scenario(), CATALOG, [scale_out])
    cliffs = {cliff.gpus: cliff.text for cliff in curve.cliffs}
    built = np.isfinite(curve.switches)
    for place in range(1, len(curve.gpus)):
        size = int(curve.gpus[place])
        if not built[place - 1]:
            continue
        if not built[place]:
            assert cliffs[size] in ("no more addresses in a subnet", "no design carries more")
            break
        before, after = int(curve.tiers[place - 1]), int(curve.tiers[place])
        if before != after:
            assert cliffs[size] == f"{before} → {after} tiers"
        elif curve.switch[place - 1] != curve.switch[place]:
            assert cliffs[size] == f"{CATALOG.switches[curve.switch[place]].name} becomes cheaper"
        else:
            assert size not in cliffs or cliffs[size].startswith("spines of ")


def test_the_last_size_with_addresses_is_near_the_limit():
    # 49,151 identifiers for ports and switches.
    (curve,) = by_size(Scenario(), CATALOG, ["infiniband-ndr"])
    full = next(cliff.gpus for cliff in curve.cliffs if "addresses" in cliff.text)
    last = curve.gpus.tolist().index(full) - 1
    assert 0.97 * 49_151 < curve.host_ports[last] + curve.switches[last] <= 49_151
    network = designed(gpus=full)
    design = network.wanted[1]
    assert design.node_leaf + design.switches > 49_151


def test_networks_side_by_side_are_on_sale_and_at_least_half_as_fast():
    def rates(**wish) -> dict[str, float]:
        return {key: CATALOG.scale_out[key].port_rate.typical for key in generations(Scenario(**wish), CATALOG)}

    shown = rates()
    assert shown["infiniband-ndr"] == 50e9
    assert min(shown.values()) == 25e9  # half of 50 GB/s
    assert all(CATALOG.scale_out[key].family in ("infiniband", "roce") for key in shown)
    assert all(CATALOG.scale_out[key].status not in ("announced", "projected") for key in shown)
    assert "tcp-100" in rates(scale_out="tcp-100")
    assert min(rates(scale_out="roce-100").values()) < 25e9
    assert "infiniband-gdr" in rates(scale_out="infiniband-gdr")
    assert "infiniband-gdr" not in shown


@pytest.mark.parametrize(
    ("wish", "pieces"),
    [
        # A cable with two ends at the nodes carries two links, a twin module too, a box of XDR two switches.
        ({"gpus": 27, "gpus_per_node": 1, "scale_out": "roce-200"}, {"cable node_leaf": 14}),
        ({"gpus": 28, "gpus_per_node": 1, "scale_out": "roce-200"}, {"cable node_leaf": 14}),
        ({"gpus": 104, "scale_out": "infiniband-ndr", "media": "aoc"}, {"cable node_leaf": 7}),
        ({"gpus": 104, "scale_out": "infiniband-xdr"}, {"leaf switch": 1, "leaf switch module": 7, "node module": 13}),
        ({"gpus": 112, "scale_out": "infiniband-xdr"}, {"leaf switch": 1, "leaf switch module": 7, "node module": 14}),
    ],
    ids=str,
)
def test_what_serves_two_links_is_bought_whole(wish, pieces):
    built = designed(**wish, nics_per_node=1, topology="fat-tree", model="llama-3-8b").built
    found = {line.role: line.quantity for line in built.parts}
    assert {role: found[role] for role in pieces} == pieces


def test_what_servers_of_equal_ports_share_is_what_each_has_alone():
    # cables and switches are kept for servers of other GPUs; their cards, cages and racks are their own
    common = {"gpus": 512, "scale_out": "infiniband-ndr", "oversubscription": 2}
    asked = [
        *({"gpu": gpu} for gpu in ("h100-sxm", "h200-sxm", "mi300x", "gb200")),
        {"platform": "dgx-h100"},
        {"topology": "fat-tree"},
        {"planes": 2},
        {"media": "fibre"},
        {"management_links": 4},
        {"price_nic": 1000},
        {"price_book": "rule-of-thumb"},
        {"price_cable": 10},
        {"storage_network": True},
    ]
    together = [designed(**common | wish) for wish in asked]
    seen = set()
    for wish, shared in zip(asked, together, strict=True):
        for kept in (design_network, bill_of_materials.cages_of):
            kept.cache_clear()
        bill_of_materials._CABLED.forget()
        alone = designed(**common | wish)
        bought = [
            [(line.role, line.part, line.quantity, line.price) for line in one.built.parts] for one in (alone, shared)
        ]
        assert bought[0] == bought[1]
        assert alone.built.media == shared.built.media
        assert alone.built.counts == shared.built.counts
        for name in ("cost", "power", "typical_power", "stock"):
            assert np.array_equal(getattr(alone.built, name), getattr(shared.built, name)), (name, wish)
        seen.add(alone.built.cost[0])
    assert len(seen) > len(asked) // 2


def test_a_network_that_is_used_otherwise_is_not_designed_again():
    others = {
        "load_balancing": "spraying", "placement": "scattered", "in_network_reduction": True, "gpudirect": False,
        "tuned": False, "flow_control": "none", "congestion_control": "none", "jitter": 0.2, "slow_node": 0.1,
        "degraded_link": "leaf-spine", "link_rate_left": 0.5, "link_loss": 0.01, "storage_network": True,
        "management_network": True,
    }  # fmt: skip
    assert others.keys() == NetworkRequest.model_fields.keys() - DesignRequest.model_fields.keys()
    plain = designed(gpus=512)
    for name, value in others.items():
        other = designed(gpus=512, **{name: value})
        assert other.built.design is plain.built.design, name
        assert other.cluster is plain.cluster, name
        assert np.array_equal(other.cost, plain.cost), name
    assert designed(gpus=512, minimum_spines=16).built.design is not plain.built.design


def test_a_network_of_typical_values_has_one_number_where_another_has_its_draws() -> None:
    asked = Scenario(storage_network=True, management_network=True)
    network = network_of(asked, load_catalog().typical_only())
    for part in (network, *network.auxiliary):
        assert part.cost.shape == part.power.shape == part.typical_power.shape == (1,)


def test_networks_of_a_few_scenarios_are_those_that_each_has_by_itself():
    scenarios = [Scenario(gpus=gpus, oversubscription=2) for gpus in (512, 1024, 512)]
    assert networks_of(scenarios, CATALOG) == [network_of(scenario, CATALOG) for scenario in scenarios]


def test_networks_that_are_alike_are_one_whose_numbers_are_columns():
    """One tier, two and three of the same switches, with cables of their own; two rows have the same network."""
    catalog = CATALOG.typical_only()
    each = [network_of(Scenario(gpus=gpus, oversubscription=2), catalog) for gpus in (32, 1024, 40_000)]
    assert {network.tiers for network in each} == {1, 2, 3}
    assert len({network.alike for network in each}) == 1
    places = np.array([2, 0, 1, 1])
    rows = together(each).at(places)
    assert (rows.cluster.gpus[:, 0].tolist(), rows.cluster.nodes[:, 0].tolist()) == (
        [each[place].cluster.gpus for place in places],
        [each[place].cluster.nodes for place in places],
    )
    for name in ("cost", "power", "typical_power", "built.stock", "built.switch_ports", "built.design.bisection"):
        of = attrgetter(name)
        alone = [float(np.ravel(of(each[place]))[0]) for place in places]
        assert of(rows)[:, 0] == pytest.approx(alone, rel=1e-12), name
    assert {each.key for each in rows.used} == {use.key for network in each for use in network.used}


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"topology": "fat-tree", "load_balancing": "hashing"},
        {"topology": "rail-only", "load_balancing": "flowlet"},
        {"spine_policy": "rail", "spine_oversubscription": 2, "planes": 2},
        {"topology": "fat-tree", "gpus_per_node": 4, "management_links": 3},
        {"topology": "dragonfly"},
        {"link_rate_left": 0.5, "degraded_link": "leaf-spine"},
    ],
    ids=str,
)
def test_gpus_of_networks_of_other_sizes_and_tapers_stand_as_they_do_in_each_by_itself(wish: dict[str, Any]) -> None:
    """In one node, and in trees of one tier, two and three, some of them without a taper that traffic meets."""
    sizes = itertools.product((8, 32, 1000, 1024, 40_000), (1, 1.3, 4))
    each = [Scenario(gpus=gpus, oversubscription=taper, **wish) for gpus, taper in sizes]
    networks = networks_of(each, CATALOG.typical_only())
    assert sites_of(networks) == [network.site for network in networks]


def test_ports_for_spare_nodes_are_columns_too():
    catalog = CATALOG.typical_only()
    each = [network_of(Scenario(gpus=gpus, spare_nodes=4), catalog) for gpus in (1024, 2048)]
    one = together(each).at(np.arange(2))
    alone = np.array([network.for_spares for network in each])[:, :, 0]
    columns = np.array(one.for_spares)[:, :, 0].T
    assert columns == pytest.approx(alone, rel=1e-12)
    assert (columns[:, 0] > 0).all()


@pytest.mark.parametrize("beside", ["storage_network", "management_network"])
def test_a_network_with_others_beside_it_is_like_itself_alone(beside):
    several = [network_of(Scenario(gpus=gpus, **{beside: True}), CATALOG.typical_only()) for gpus in (1024, 2048)]
    assert len({network.alike for network in several}) == 2
