"""A fabric from a scenario: switches, bill of materials, cables, findings, prices, and the curve over sizes."""

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.fabric import layouts as fabric_design
from app.plan import switches
from app.plan.band import fold
from app.plan.cluster import look_up
from app.plan.network import fabric_of, network_of
from app.plan.prices import PriceList
from app.plan.scenario import Scenario
from app.plan.total_cost import cluster_of, ownership, total_cost
from app.studies.port_cost import by_size

CATALOG = load_catalog()
SUPERPOD = {"gpus": 1016, "management_links": 4, "nodes_per_unit": 32}


def designed(**wish):
    return network_of(Scenario(**wish), CATALOG)


def planned(**wish):
    network = network_of(Scenario(**wish), CATALOG)
    priced = total_cost(network.cluster, network, network.prices, np.full(257, 1e7))
    return fold((fabric_of(network, priced.costs.capital), cluster_of(priced.owned), priced.costs))


def codes(network):
    return {finding.code: finding for finding in network.findings}


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


def priced(design, offer):
    return float(offer.cost(design)) if int(design.reason) == fabric_design.BUILT else np.inf


@settings(max_examples=150)
@given(
    gpus=st.integers(9, 400_000),
    scale_out=st.sampled_from(["roce-400", "roce-200", "infiniband-xdr", "tcp-400"]),
    topology=st.sampled_from(["rail-optimized", "fat-tree", "rail-only", "mesh", "dragonfly"]),
    oversubscription=st.sampled_from([1.0, 1.5, 2.0, 7.0]),
    spine_oversubscription=st.sampled_from([1.0, 3.0]),
    nodes_per_unit=st.sampled_from([None, 4, 20, 32]),
    spine_policy=st.sampled_from(["shared", "rail"]),
    tiers=st.sampled_from([None, 1, 2, 3, 4]),
    planes=st.sampled_from([1, 2]),
    management_links=st.sampled_from([0, 4]),
)
def test_the_switch_built_is_the_cheapest_of_all_though_not_all_are_designed(**wish):
    scenario = Scenario(**wish)
    hardware, prices = look_up(scenario, CATALOG), PriceList.of(scenario, CATALOG)
    choices = switches.candidates(hardware, scenario, CATALOG)
    found = switches.designs(choices, hardware, scenario)
    offers = switches.offers(choices, prices)
    known = [(choice, design, offer) for choice, design, offer in zip(choices, found, offers, strict=True) if offer]
    for choice, design, offer in known:
        assert switches.lower_bound(choice, offer, hardware, scenario) <= priced(design, offer) * (1 + 1e-12)
    choice, design = switches.choose(choices, hardware, scenario, prices)
    place = int(switches.cheapest(choices, found, prices))
    assert choice is choices[place]
    assert np.array_equal(np.array(design), np.array(found[place]), equal_nan=True)


# What cannot be built is refused, and the finding says what to change


@pytest.mark.parametrize(
    ("wish", "code", "says"),
    [
        ({"gpus": 100_000}, "infiniband-addresses", "49,151"),
        ({"oversubscription": 64}, "taper-too-wide", "63"),
        ({"gpus": 4096, "tiers": 2}, "too-many-hosts", "3 tiers"),
        ({"gpus": 1_000_000, "scale_out": "infiniband-edr"}, "too-many-hosts", "1,000,000 hosts"),  # 2 · 18⁴ = 209,952
        ({"gpus": 16_000, "topology": "mesh"}, "too-many-hosts", "fat tree"),
        ({"switch": "sn5600"}, "switch-of-another-family", "qm9700"),
        ({"switch": "qm8700"}, "switch-too-slow", "400"),
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


def test_leaves_are_held_against_their_own_spines_only():
    """19,608 leaves in groups with spines of their own: beside every rack of spines they would take a gigabyte."""
    network = designed(
        gpu="h800-sxm", gpus=1_000_000, scale_out="spectrum-x-800", topology="fat-tree", oversubscription=4
    )
    cabling, design = network.built.cabling, network.built.design
    assert cabling.leaf_racks.size == network.built.counts.leaves
    tracemalloc.start()
    try:
        assert sum(cabling.leaf_spine.values()) == design.leaf_spine
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 50e6


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


def test_the_curve_passes_through_the_plan():
    for scale_out in ("infiniband-ndr", "infiniband-xdr", "roce-400"):
        scenario = Scenario(scale_out=scale_out, gpus=2048, spares=0.02)
        (curve,) = by_size(scenario, CATALOG, [scale_out])
        place = curve.gpus.tolist().index(2048)
        network = network_of(scenario, CATALOG)
        fabric = fabric_of(network, ownership(network.cluster, network, network.prices).capital)
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
