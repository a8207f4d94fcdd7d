"""Racks on a floor, and the cables between them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.fabric import design, layouts
from app.formulas.fabric.cabling import MANY, Cabling, Counts, RailRuns, longest_runs
from app.plan.cables import floor_of

FLOOR = floor_of(load_catalog(), nodes_per_rack=4)
RACKS = st.lists(st.integers(0, 500), min_size=1, max_size=6).map(np.array)


def test_a_cable_goes_up_along_and_down():
    # Rack 0 to rack 10 of the same row: 2 m up, 2 m down, 10 × 0.6 m, 15 % slack: 11.5 m, sold as 15 m.
    assert float(FLOOR.lengths_between(0, 10)) == 15
    # One row further: 4 m, 0.6 m and 3 m: 8.74 m, sold as 10 m. Within a rack: 2.3 m, sold as 3 m.
    assert float(FLOOR.lengths_between(0, 16)) == 10
    assert float(FLOOR.lengths_between(5, 5)) == 3


@given(RACKS, RACKS)
def test_the_longest_run_is_the_longest_of_all_pairs(some, others):
    longest = FLOOR.longest_between(FLOOR.extent(some), FLOOR.extent(others))
    assert longest == FLOOR.lengths_between(some[:, None], others).max()


@given(st.integers(0, 300), st.integers(0, 100))
def test_racks_side_by_side_reach_as_far_as_all_of_them(first, more):
    assert FLOOR.stretch(first, first + more) == FLOOR.extent(np.arange(first, first + more + 1))


@given(st.integers(9, 700), st.integers(4, 32), st.sampled_from((0, 4)))
def test_the_longest_run_of_nodes_wired_by_rail_is_that_of_the_table(nodes, unit_nodes, management_links):
    request = layouts.FabricRequest(
        nodes=nodes, rails=8, radix=64, spine_radix=64, nodes_per_unit=unit_nodes, management_links=management_links
    )
    built = design.design(request)
    counts = Counts(
        layout=layouts.RAIL_OPTIMIZED,
        nodes=nodes,
        rails=8,
        planes=1,
        tiers=int(built.tiers),
        units=int(built.units),
        unit_nodes=int(built.unit_nodes),
        leaf_down=int(built.leaf_down),
        leaf_up=int(built.leaf_up),
        spine_down=int(built.spine_down),
        spine_up=int(built.spine_up),
        core_up=int(built.core_up),
        leaves=int(built.leaf_switches),
        spines=int(built.spine_switches),
        cores=int(built.core_switches),
        super_cores=0,
        management_links=management_links,
        peers=0,
        rail_spines=False,
    )
    cabling = Cabling(counts, FLOOR, 1)
    assert counts.by_rail
    assert cabling.longest("node_leaf") == max(cabling.node_leaf)
    assert cabling.joins_all("node_leaf")
    if cabling.joins_all("leaf_spine"):
        assert cabling.longest("leaf_spine") == max(cabling.leaf_spine)


@given(
    st.sampled_from((layouts.FAT_TREE, layouts.RAIL_OPTIMIZED, layouts.RAIL_ONLY)), st.integers(9, 3000),
    st.sampled_from((1, 4, 8)), st.sampled_from((16, 64)), st.sampled_from((1, 2)), st.integers(1, 8),
)  # fmt: skip
def test_the_longest_run_of_each_level_is_that_of_the_table(layout, nodes, rails, radix, oversubscription, per_rack):
    """Of several designs at once as of each alone."""
    several = [
        _laid_out(layout, many, rails, radix, oversubscription, per_rack) for many in (nodes, 9 + nodes // 3, 9 + nodes)
    ]
    for level in ("node_leaf", "leaf_spine", "spine_core", "core_super_core"):
        its = [cabling for cabling in several if cabling and getattr(cabling, level)]
        runs = [max(getattr(cabling, level)) for cabling in its]
        bounds = [cabling.longest(level) for cabling in its]
        assert longest_runs(its, level, bounds) == runs
        assert [longest_runs([one], level, [bound])[0] for one, bound in zip(its, bounds, strict=True)] == runs


def _laid_out(layout, nodes, rails, radix, oversubscription, per_rack):
    """A tree on a floor; none where it is one switch or cannot be built."""
    request = layouts.FabricRequest(
        layout=layout, nodes=nodes, rails=rails, radix=radix, spine_radix=radix, oversubscription=oversubscription
    )
    built = design.design(request)
    if built.reason != layouts.BUILT or built.leaf_switches <= 1:
        return None
    counts = Counts(
        layout=layout, nodes=nodes, rails=rails, planes=1, tiers=int(built.tiers), units=int(built.units),
        unit_nodes=int(built.unit_nodes), leaf_down=int(built.leaf_down), leaf_up=int(built.leaf_up),
        spine_down=int(built.spine_down), spine_up=int(built.spine_up), core_up=int(built.core_up),
        leaves=int(built.leaf_switches), spines=int(built.spine_switches), cores=int(built.core_switches),
        super_cores=int(built.super_core_switches), management_links=0, peers=0,
        rail_spines=layout == layouts.RAIL_ONLY,
    )  # fmt: skip
    return Cabling(counts, floor_of(load_catalog(), nodes_per_rack=per_rack), 1)


@given(st.lists(st.tuples(st.integers(1, 900), st.integers(1, 40), st.integers(0, 2)), min_size=1, max_size=30))
def test_the_longest_runs_of_many_designs_are_those_of_each_alone(designs):
    """Units that designs share are looked at once, the last of each and what has no nodes by itself."""
    several = np.array(designs * (MANY // len(designs) + 1))
    nodes, unit_nodes, empty = several.T
    units = -(-nodes // unit_nodes) + empty
    switches = 8 * units, 4 * units, units, 0 * units
    runs = RailRuns.of(nodes, unit_nodes, 8, switches, np.zeros_like(nodes))
    together = runs.longest(FLOOR, 8)
    for place in range(len(designs)):
        alone = RailRuns(*(column[place : place + 1] for column in runs)).longest(FLOOR, 8)
        assert {level: lengths[place] for level, lengths in together.items()} == {
            level: lengths[0] for level, lengths in alone.items()
        }


@given(
    st.integers(1, 900), st.sampled_from((1, 2, 4, 8, 16)), st.sampled_from((36, 40, 64)), st.integers(1, 8),
    st.sampled_from((0, 3)),
)  # fmt: skip
def test_the_longest_run_of_nodes_to_their_leaves_is_that_of_every_node(nodes, rails, radix, per_rack, managers):
    """Not by rail a leaf has the hosts of nodes side by side: it is looked from the leaf, once for all of them."""
    request = layouts.FabricRequest(
        layout=layouts.FAT_TREE, nodes=nodes, rails=rails, radix=radix, spine_radix=radix, management_links=managers
    )
    built = design.design(request)
    counts = Counts(
        layout=layouts.FAT_TREE, nodes=nodes, rails=rails, planes=1, tiers=int(built.tiers), units=int(built.units),
        unit_nodes=int(built.unit_nodes), leaf_down=int(built.leaf_down), leaf_up=int(built.leaf_up),
        spine_down=int(built.spine_down), spine_up=int(built.spine_up), core_up=int(built.core_up),
        leaves=int(built.leaf_switches), spines=int(built.spine_switches), cores=int(built.core_switches),
        super_cores=0, management_links=managers, peers=0, rail_spines=False,
    )  # fmt: skip
    floor = floor_of(load_catalog(), nodes_per_rack=per_rack)
    cabling, node = Cabling(counts, floor, 1), np.arange(nodes)
    runs = [
        floor.lengths_between(cabling.node_rack(node), cabling.leaf_racks[cabling.leaf_of(node, rail)]).max()
        for rail in (0, rails - 1)
    ]
    assert cabling.longest("node_leaf") == max(*runs, float(floor.lengths_between(0, 1)) if managers else 0.0)
