"""Fabrics: published designs, worked examples, and what holds for every cluster."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.formulas.fabric import bisection, layouts, tree
from app.formulas.fabric import design as fabric_design
from app.formulas.fabric.layouts import FabricRequest
from tests.timing import seconds

RADIX = st.sampled_from([16, 32, 36, 40, 64, 128, 144])
TAPER = st.sampled_from([1.0, 1.5, 2.0, 3.0, 7.0])
LAYOUT = st.sampled_from([layouts.RAIL_OPTIMIZED, layouts.FAT_TREE, layouts.RAIL_ONLY])
CLUSTER = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 20_000),
        "rails": st.integers(1, 16),
        "radix": RADIX,
        "hosts_per_port": st.sampled_from([1, 1, 2, 4]),
        "planes": st.sampled_from([1, 1, 2]),
        "oversubscription": TAPER,
        "spine_oversubscription": TAPER,
        "nodes_per_unit": st.sampled_from([0, 0, 8, 20, 32, 72]),
        "management_links": st.sampled_from([0, 0, 4]),
        "minimum_spines": st.sampled_from([0, 0, 4]),
        "rail_spines": st.booleans(),
        "tiers": st.sampled_from([0, 0, 1, 2, 3, 4]),
        "layout": LAYOUT,
    }
)


def design(*counts, **others):
    """The design of a request whose nodes, rails and radix come first."""
    return fabric_design.design(FabricRequest(*counts, **others))


def switches(found: layouts.Design) -> list[int]:
    return [int(count) for count in (found.leaf_switches, found.spine_switches, found.core_switches)]


# Worked examples


@pytest.mark.parametrize(
    ("nodes", "radix", "management", "expected"),
    [
        (31, 64, 4, [8, 4, 0, 252, 256]),  # RA-11333 table 4: 248 hosts and 4 manager links; leaves built for 32 nodes
        (63, 64, 4, [16, 8, 0, 508, 512]),
        (95, 64, 4, [24, 16, 0, 764, 768]),  # 24 leaves need 12 spines; 12 does not divide 32 uplinks, 16 does
        (127, 64, 4, [32, 16, 0, 1020, 1024]),
        (128, 64, 0, [32, 16, 0, 1024, 1024]),
        (256, 64, 0, [64, 32, 0, 2048, 2048]),  # every port of every switch is used: 64²/2 hosts
        (1024, 64, 0, [256, 256, 128, 8192, 8192]),  # three tiers: 256 · 32 / 32 spines, 256 · 32 / 64 cores
        (72, 144, 0, [8, 4, 0, 576, 576]),  # RA-11339 table 3
        (288, 144, 0, [32, 18, 0, 2304, 2304]),  # 16 spines do not divide 72 uplinks, 18 do
        (576, 144, 0, [64, 36, 0, 4608, 4608]),
        (1296, 144, 0, [144, 72, 0, 10368, 10368]),
    ],
)
def test_dgx_superpods_have_the_switches_nvidia_prints(nodes, radix, management, expected):
    found = design(nodes, 8, radix, management_links=management)
    assert [*switches(found), int(found.node_leaf), int(found.leaf_spine)] == expected


def test_two_planes_of_split_ports_have_the_switches_nvidia_prints():
    # RA-11337: 64 ports of 800G are 128 of 400G; each 800G NIC has a 400G link in both planes.
    found = design([64, 128, 256, 512, 1024], 8, 128, planes=2, nodes_per_unit=64)
    assert found.leaf_switches.tolist() == [16, 32, 64, 128, 256]
    assert found.spine_switches.tolist() == [8, 16, 32, 64, 128]
    assert (found.node_leaf / 2).tolist() == [512, 1024, 2048, 4096, 8192]  # cages of two links


@pytest.mark.parametrize("radix", [40, 64, 128, 144])
@pytest.mark.parametrize("tiers", [1, 2, 3])
def test_a_full_tree_of_hosts_uses_as_many_switches_as_the_textbook(radix, tiers):
    # k²/2 hosts on 3k/2 switches, k³/4 hosts on 5k²/4.
    hosts = int(tree.full_tree_hosts(radix, tiers))
    found = design(hosts, 1, radix, layout=layouts.FAT_TREE)
    assert int(found.tiers) == tiers
    assert int(found.switches) == int(tree.full_tree_switches(radix, tiers))
    more = design(hosts + 1, 1, radix, layout=layouts.FAT_TREE)
    assert int(more.tiers) == tiers + 1


def test_spines_of_their_own_keep_each_rail_whole_in_three_tiers():
    # 7 units of 20 nodes on 40-port switches: a rail has 7 leaves of 20 uplinks, 7 spines' worth; 10 divides 20.
    # 8 rails: 80 spines. Their 1,120 links up fill 28 cores of 40.
    found = design(140, 8, 40, nodes_per_unit=20, rail_spines=True, tiers=3)
    assert switches(found) == [56, 80, 28]


def test_three_tiers_are_even_only_where_whole_groups_reach_every_core_alike():
    # 32 units: 8 groups of 32 leaves and 32 spines, 1,024 links up on 128 cores. 10 units: none divide by 40 cores.
    assert design([1024, 320, 512, 2048], 8, 64).balanced.tolist() == [True, False, True, True]


def test_rail_only_needs_no_spine_until_a_rail_fills_its_switch():
    found = design([32, 64, 65], 8, 64, layout=layouts.RAIL_ONLY)
    assert found.leaf_switches.tolist() == [8, 8, 24]  # 65 nodes: 3 groups of 32 a rail
    assert found.spine_switches.tolist() == [0, 0, 16]  # 96 uplinks a rail need 2 of 64 ports; 8 rails
    assert not found.crosses_rails.any()


def test_two_switches_side_by_side_have_as_many_links_between_them_as_each_has_hosts():
    # BasePOD: 8 nodes of 8 fill both: 32 down and 32 across.
    found = design([4, 8, 9], 8, 64, layout=layouts.TWO_SWITCH)
    assert found.peer[:2].tolist() == [16, 32]
    assert found.leaf_free[:2].tolist() == [64, 0]
    assert layouts.REASONS[found.reason[2]] == "too-many-hosts"


def test_a_leaf_of_mixed_speeds_spends_half_its_capacity_on_hosts():
    # 32 cages of 400G: 16 carry 32 hosts of 200G, 16 go up. 4 units of 32 nodes of 8: 32 leaves, 512 links, 16 spines.
    found = design(128, 8, 32, hosts_per_port=2, nodes_per_unit=32)
    assert [*switches(found), int(found.leaf_spine)] == [32, 16, 0, 512]


def test_a_chassis_spine_has_its_own_radix():
    # 128 leaves of 16 uplinks on 288 ports: 8 spines of 2 links to every leaf.
    found = design(256, 8, 32, spine_radix=288, nodes_per_unit=16)
    assert switches(found) == [128, 8, 0]


def test_hpn_has_the_switches_its_paper_prints():
    # 15 segments of 128 nodes, 2 planes of 200G, 64 ports' worth down and 60 up: 240 leaves, 120 spines.
    found = design(1920, 8, 128, hosts_per_port=2, planes=2, nodes_per_unit=128, oversubscription=16 / 15)
    assert [*switches(found), int(found.node_leaf), int(found.leaf_spine)] == [240, 120, 0, 30720, 14400]


def test_a_balanced_dragonfly_of_64_ports_has_frontiers_cabinets():
    # 16 hosts, 31 neighbours and 16 global links a switch; 37,632 hosts fill 74 groups of 32 switches.
    found = design(9408, 4, 64, layout=layouts.DRAGONFLY)
    assert int(found.units) == 74
    assert int(found.leaf_switches) == 2368


@pytest.mark.parametrize("layout", [layouts.MESH, layouts.TORUS_2D, layouts.TORUS_3D, layouts.DRAGONFLY])
@pytest.mark.parametrize("taper", [1.0, 4.0])
def test_what_one_switch_takes_needs_no_neighbours(layout, taper):
    # 12 nodes of 8 NICs are 96 hosts: one switch of 128 ports, whatever the taper would leave for neighbours.
    found = design(12, 8, 128, oversubscription=taper, layout=layout)
    assert (int(found.switches), int(found.switch_links)) == (1, 0)


def test_a_cubic_torus_has_three_links_for_each_switch():
    # 16³ switches of one host and 6 neighbours: 3 N links, 2 · 16² of them cross the middle.
    found = design(4096, 1, 8, oversubscription=1 / 7, layout=layouts.TORUS_3D)
    assert int(found.leaf_switches) == 4096
    assert int(found.peer) == 3 * 4096
    assert float(found.bisection_spine) == 512
    assert int(found.hops) == 1 + 3 * 8


def test_vendors_count_both_ways():
    # HGX H100: 4 GPUs of 450 GB/s each way send at once; NVIDIA prints 3.6 TB/s both ways. 8 MI300X: 16 links cut.
    assert 2 * bisection.scale_up_bisection(8, 450e9) == 3.6e12
    assert bisection.mesh_bisection(8, 64e9) == 16 * 64e9


def test_a_taper_of_seven_at_the_spine_leaves_a_seventh_across_groups():
    # 56 of 64 ports down, 8 up: 24,576 hosts cut in half, over 7.
    found = design(3072, 8, 64, spine_oversubscription=7, tiers=3)
    assert float(found.bisection_core) == pytest.approx(24_576 / 2 / 7)
    assert float(found.bisection_spine) == 24_576 / 2


def test_management_links_displace_nodes():
    found = design([127, 128], 8, 64, management_links=4)
    assert found.leaf_switches.tolist() == [32, 40]


def test_minimum_spines_is_a_floor_as_far_as_uplinks_go():
    found = design(8, 8, 128, nodes_per_unit=4, tiers=2, minimum_spines=[0, 4, 8])
    assert found.spine_switches.tolist() == [1, 4, 4]
    assert found.enough_spines.tolist() == [True, True, False]


def test_what_cannot_be_built_is_named_and_not_a_number():
    found = design(
        [0, 1e6, 100, 100, 100, 100],
        8,
        [64, 8, 1, 64, 64, 64],
        oversubscription=[1, 1, 1, 64, np.nan, 1],
        tiers=[0, 0, 0, 2, 0, 9],
    )
    named = [layouts.REASONS[reason] for reason in found.reason]
    assert named == [
        "no-hosts", "too-many-hosts", "radix-too-small", "taper-too-wide", "taper-too-wide", "too-many-tiers",
    ]  # fmt: skip
    assert np.isnan(found.leaf_switches).all()
    assert np.isnan(found.bisection).all()


def test_the_largest_cluster_is_the_last_that_fits():
    for nodes, tiers in ((8, 1), (256, 2), (8192, 3)):
        found = design([nodes, nodes + 1], 8, 64)
        assert found.tiers.tolist() == [tiers, tiers + 1]
        assert int(found.most_nodes[0]) == nodes


# What holds for every cluster


@given(CLUSTER)
def test_every_host_has_a_port_and_no_switch_has_more_than_its_ports(asked):
    found = design(**asked)
    assume(int(found.reason) == layouts.BUILT)
    hosts = asked["planes"] * (asked["nodes"] * asked["rails"] + asked["management_links"])
    assert int(found.node_leaf) == hosts
    assert found.leaf_switches * found.leaf_down >= hosts
    assert found.leaf_up + -(-found.unit_hosts // asked["hosts_per_port"]) <= asked["radix"]
    for free in (found.leaf_free, found.spine_free, found.core_free, found.super_core_free):
        assert free >= 0
    assert found.most_nodes >= asked["nodes"]
    assert found.spare_nodes >= 0


@pytest.mark.parametrize(
    ("radix", "taper", "down", "up"),
    [
        (64, 7.0, 56, 8),  # exactly
        (64, 15.0, 60, 4),
        (64, 31.0, 62, 2),
        (64, 5.0, 53, 11),  # 53:10 would be 5.3:1
        (128, 2.0, 85, 43),
        (40, 1.5, 24, 16),
    ],
)
def test_a_leaf_has_as_many_links_up_as_keep_within_its_taper(radix, taper, down, up):
    found = design(4 * radix, 8, radix, oversubscription=taper)
    assert (found.leaf_down, found.leaf_up) == (down, up)


@given(CLUSTER, st.floats(1.0, 63.0), st.floats(1.0, 63.0))
def test_no_switch_of_a_tree_exceeds_the_taper_asked_for(asked, taper, spine_taper):
    found = design(**asked | {"oversubscription": taper, "spine_oversubscription": spine_taper})
    assume(int(found.reason) == layouts.BUILT)
    assume(found.tiers > 1)
    assert -(-found.unit_hosts // asked["hosts_per_port"]) <= found.leaf_up * taper * (1 + 1e-6)
    if found.tiers > 2:
        below = -(-found.leaf_spine // found.spine_switches)
        assert below <= found.spine_up * spine_taper * (1 + 1e-6)


@given(CLUSTER)
def test_links_between_tiers_are_the_same_seen_from_both_ends(asked):
    found = design(**asked)
    assume(int(found.reason) == layouts.BUILT)
    assert found.leaf_spine == found.leaf_switches * found.leaf_up
    assert found.spine_core == found.spine_switches * found.spine_up
    assert found.core_super_core == found.core_switches * found.core_up
    if found.tiers == 2:  # every leaf has the same number of links to each of its spines
        trees = asked["rails"] if not found.crosses_rails else 1
        assert found.leaf_up % (found.spine_switches / asked["planes"] / trees) == 0
    if found.tiers >= 2:
        assert found.spine_switches >= 1


@given(CLUSTER, st.integers(0, 72), st.integers(0, 40), st.integers(0, 40))
def test_no_tree_of_equal_leaves_and_as_many_links_up_has_fewer_parts_than_the_least(asked, hosts, up, more):
    size = {"leaf_hosts": hosts} if asked["layout"] == layouts.FAT_TREE else {"nodes_per_unit": hosts}
    request = FabricRequest(**(asked | size))
    least = tree.least_parts(request._replace(uplinks=up).in_whole_numbers())
    found = fabric_design.design(request._replace(uplinks=up + more))
    assert bool(least.built) == (int(found.reason) == layouts.BUILT)
    if least.built:
        assert (least.leaves, least.node_leaf) == (found.leaf_switches, found.node_leaf)
        assert (least.unit_nodes, least.leaf_down) == (found.unit_nodes, found.leaf_down)
        assert least.spines <= found.spine_switches
        assert least.cores <= found.core_switches
        assert least.super_cores <= found.super_core_switches
        assert least.leaf_spine <= found.leaf_spine
        assert least.spine_core <= found.spine_core
        assert least.core_super_core <= found.core_super_core


@given(CLUSTER, st.integers(0, 72), st.integers(0, 40))
def test_no_tree_within_a_taper_has_fewer_switches_than_the_fewest(asked, hosts, up):
    size = {"leaf_hosts": hosts} if asked["layout"] == layouts.FAT_TREE else {"nodes_per_unit": hosts}
    request = FabricRequest(**(asked | size | {"hosts_per_port": 1}), uplinks=up).in_whole_numbers()
    found = fabric_design.design(request)
    assume(int(found.reason) == layouts.BUILT and found.tiers > 1)
    assert found.switches >= tree.fewest_switches(request)


@given(CLUSTER)
def test_bisection_of_a_non_blocking_tree_is_half_the_injection(asked):
    flat = {"oversubscription": 1.0, "spine_oversubscription": 1.0, "hosts_per_port": 1, "tiers": 0}
    found = design(**asked | flat)
    assume(int(found.reason) == layouts.BUILT)
    assert float(found.bisection) == pytest.approx(float(found.hosts) / 2)
    tapered = design(**asked | {"hosts_per_port": 1})
    if int(tapered.reason) == layouts.BUILT:
        assert float(tapered.bisection) <= float(found.bisection) + 1e-9


@given(st.integers(17, 5000), st.integers(1, 8), st.sampled_from([64, 128, 144]))
def test_halving_the_uplinks_halves_the_bisection(nodes, rails, radix):
    full, half = design(nodes, rails, radix, nodes_per_unit=16, oversubscription=[1.0, 2.0], tiers=3).bisection
    assume(np.isfinite(full))
    assert half == pytest.approx(full / 2)


@given(
    st.integers(1, 4000), st.integers(1, 400), st.integers(1, 8), RADIX, TAPER, LAYOUT, st.integers(1, 4), st.booleans()
)
def test_more_nodes_never_need_fewer_switches_within_a_tier_count(
    nodes, more, rails, radix, taper, layout, tiers, apart
):
    found = design(
        [nodes, nodes + more], rails, radix, oversubscription=taper, layout=layout, tiers=tiers, rail_spines=apart
    )
    assume((found.reason == layouts.BUILT).all())
    for counts in (found.leaf_switches, found.spine_switches, found.core_switches, found.switches, found.switch_links):
        assert counts[1] >= counts[0]


@given(st.integers(1, 3000), st.integers(1, 8), RADIX, st.sampled_from([1.0, 2.0, 3.0]), st.integers(3, 7))
def test_topologies_without_tiers_keep_to_their_ports(nodes, rails, radix, taper, layout):
    found = design(nodes, rails, radix, oversubscription=taper, layout=layout)
    assume(int(found.reason) == layouts.BUILT)
    assert found.leaf_free >= 0
    assert found.bisection <= found.hosts / 2
    assert found.spine_switches == 0


@given(
    st.lists(CLUSTER | CLUSTER.map(lambda asked: asked | {"layout": 3 + asked["layout"] % 5}), min_size=2, max_size=5)
)
def test_an_array_of_clusters_of_all_topologies_is_designed_as_each_alone(clusters):
    together = design(**{name: np.array([asked[name] for asked in clusters]) for name in clusters[0]})
    for place, asked in enumerate(clusters):
        alone = design(**asked)
        for name in layouts.Design._fields:
            assert np.array_equal(getattr(alone, name), getattr(together, name)[place], equal_nan=True), name


def test_a_hundred_thousand_designs_take_less_time_than_ten_thousand_one_by_one():
    gpus = np.unique(np.geomspace(8, 100_000, 4200).astype(int))[:2500]
    radix = np.array([36, 40, 64, 144, 32, 128, 256, 576])
    taper = np.array([1.0, 1.5, 2.0, 4.0, 7.0])

    def at_once() -> layouts.Design:
        return design(-(-gpus[:, None, None] // 8), 8, radix[:, None], oversubscription=taper)

    assert at_once().leaf_switches.size >= 100_000
    single = seconds(lambda: [design(int(-(-count // 8)), 8, 64) for count in gpus[:100]], times=3)
    assert seconds(at_once, times=2) < 100 * single


def test_many_fabrics_are_designed_a_few_thousand_at_a_time(monkeypatch):
    """A study asks about a hundred thousand, whose 720 uplinks have 30 divisors each."""
    request = FabricRequest(np.arange(100, 20_100), 8, 1440, 1440, tiers=3, layout=layouts.FAT_TREE)
    tracemalloc.start()
    together = fabric_design.design(request)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * sum(field.nbytes for field in together)
    monkeypatch.setattr(tree, "ROWS", 2**20)
    for name, one, at_once in zip(together._fields, together, fabric_design.design(request), strict=True):
        np.testing.assert_array_equal(one, at_once, err_msg=name)
