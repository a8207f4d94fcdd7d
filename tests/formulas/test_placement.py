"""Where groups of ranks stand, who sends out of a unit, and what the network leaves them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.formulas.fabric.placement import (
    Site,
    Tier,
    members,
    network_share,
    scattered_share,
    shortest_path_share,
    slowest_split,
)
from app.formulas.training.arguments import Parallelism
from app.formulas.training.groups import axes_of, copies, layer_axes

UNITS = Site(1024.0, 8.0, (Tier(256.0, 8.0, 8.0),))
"""1,024 GPUs in units of 32 nodes, eight down-links for each up-link."""
PODS = Site(16384.0, 8.0, (Tier(3072.0, 7.0, 7.0),))
"""16,384 GPUs in pods of 3,072, seven to one above them."""


def placed(parallelism: Parallelism, site: Site) -> dict[str, float]:
    """What the network leaves each group."""
    return {
        name: network_share(axes, "exchange" if name == "expert_parallel" else "ring", site)
        for name, axes in axes_of(parallelism).items()
    }


def shares(site: Site, **degrees: float) -> tuple[float, float, float]:
    """What pipeline, data and expert groups have left."""
    found = placed(Parallelism(**degrees), site)
    return tuple(round(float(found[name]), 6) for name in ("pipeline_parallel", "data_parallel", "expert_parallel"))


@pytest.mark.parametrize(
    ("site", "degrees", "pipeline", "data"),
    [
        # Stages of 256 GPUs fill a unit each: all replicas of a stage in it, all of its hosts send to the next stage.
        (UNITS, {"tensor": 8.0, "pipeline": 4.0, "data": 32.0}, 1 / 8, 1.0),
        # Pipelines of 32 GPUs: 8 of 32 replicas in each unit, so 4 of a rail leaf's 32 hosts send; 8 : 1 carries 4.
        (UNITS, {"tensor": 8.0, "pipeline": 4.0, "data": 32.0, "stages_first": 1.0}, 1.0, 1.0),
        # Whole pipelines of 128 GPUs in a pod: 128 rings leave it, 6.4 of the 21.9 TB/s that its uplinks carry.
        (PODS, {"tensor": 8.0, "pipeline": 16.0, "data": 128.0, "stages_first": 1.0}, 1.0, 1.0),
        # Stages of 1,024 GPUs, three in a pod: 1,024 flows of 50 GB/s, 51 of 21.9 TB/s, 7/3.
        (PODS, {"tensor": 8.0, "pipeline": 16.0, "data": 128.0}, 3 / 7, 1.0),
    ],
)
def test_what_a_taper_leaves_is_decided_by_what_leaves_a_unit_at_once(site, degrees, pipeline, data):
    assert shares(site, **degrees)[:2] == pytest.approx((pipeline, data), abs=1e-6)


def test_nodes_at_random_lose_by_the_share_of_other_nodes_that_are_elsewhere():
    assert scattered_share(16384.0, 3072.0, 8.0) == pytest.approx(1 - 3064 / 16376)  # 0.813
    scattered = PODS._replace(scattered=True)
    data = shares(scattered, tensor=8.0, pipeline=16.0, data=128.0, stages_first=1.0)[1]
    assert 1 / data == pytest.approx(7 * 0.8129, rel=1e-3)  # 5.7 times as long


def test_experts_inside_a_leaf_lose_nothing_and_across_leaves_what_the_taper_takes():
    """64 ranks over 8 nodes: units of 32 nodes hold all, units of 4 nodes half, so (64 - 32)/(64 - 8) of the bytes."""
    degrees = {"expert": 64.0, "pipeline": 16.0, "data": 128.0}
    inside = Site(2048.0, 8.0, (Tier(256.0, 4.0, 4.0),))
    across = Site(2048.0, 8.0, (Tier(32.0, 4.0, 4.0),))
    assert shares(inside, **degrees)[2] == 1.0
    assert shares(across, **degrees)[2] == pytest.approx(1 / (4 * 32 / 56), abs=1e-6)


def test_without_a_scale_up_domain_an_all_to_all_loses_by_the_ranks_elsewhere():
    """O·(n - m)/(n - 1): 128 ranks, 32 in a unit, 8 : 1."""
    alone = Site(128.0, 1.0, (Tier(32.0, 8.0, 8.0),))
    assert 1 / network_share([(1.0, 128.0)], "exchange", alone) == pytest.approx(8 * 96 / 127)


def test_a_ring_feels_a_taper_only_once_the_rings_outgrow_the_uplinks():
    """The whole cluster: one ring of each rail through a leaf of 32 hosts, so up to 32 : 1 nothing is lost."""
    for taper, left in ((1.0, 1.0), (8.0, 1.0), (32.0, 1.0), (64.0, 0.5)):
        site = Site(1024.0, 8.0, (Tier(256.0, taper, taper),))
        assert network_share([(1.0, 1024.0)], "ring", site) == pytest.approx(left)


def test_a_tree_has_three_edges_out_of_a_unit_where_a_ring_has_two():
    site = Site(1024.0, 8.0, (Tier(256.0, 64.0, 64.0),))
    assert network_share([(1.0, 1024.0)], "tree", site) == pytest.approx(32 / 64 / 1.5)


@pytest.mark.parametrize(("units", "nodes", "links"), [(16, 8, 1), (8, 8, 2), (33, 16, 1), (64, 4, 1)])
def test_nodes_at_random_share_the_shortest_paths_of_a_mesh_as_a_simulation_has_it(units, nodes, links):
    """A ring through all nodes in random order, whose eight flows each take the links between their two switches."""
    random = np.random.default_rng(0)
    fullest = []
    for _ in range(200):
        switch = random.permutation(units * nodes) // nodes
        pairs = np.bincount(units * switch + np.roll(switch, 1), minlength=units**2).reshape(units, units)
        fullest.append(8 / links * (pairs - np.diag(np.diag(pairs))).max())
    unit = 8.0 * nodes
    left = shortest_path_share(8 / links, unit * units, unit, 8.0, units - 1, float(units))
    assert 1 / left == pytest.approx(np.mean(fullest), rel=0.07)


@pytest.mark.parametrize("pattern", ["ring", "tree", "halving"])
def test_nodes_at_random_have_no_more_than_neighbours_where_flows_take_the_shortest_path(pattern):
    mesh = Site(1024.0, 8.0, (Tier(32.0, 32 / 31, 32.0, leaves=32.0, others=31),), balancing="hashing")
    near, far = (network_share([(1.0, 1024.0)], pattern, mesh._replace(scattered=far)) for far in (False, True))
    assert far < near < 1


def test_a_group_inside_a_domain_never_meets_the_network():
    assert network_share([(1.0, 8.0)], "exchange", UNITS._replace(scattered=True)) == 1.0


powers = st.integers(0, 6).map(lambda power: float(2**power))


@given(powers, powers, powers, powers, st.floats(1, 64), st.booleans(), st.booleans())
def test_random_nodes_and_wider_tapers_never_help(t, p, d, unit, taper, first, scattered):
    gpus = t * p * d
    degrees = {"tensor": t, "pipeline": p, "data": d, "stages_first": float(first)}
    site = Site(gpus, min(8.0, gpus), (Tier(8.0 * unit, taper, taper),), scattered)
    wider = site._replace(tiers=(Tier(8.0 * unit, 2 * taper, 2 * taper),))
    own = placed(Parallelism(**degrees), site)
    for name, share in own.items():
        assert 0 < float(share) <= 1
        assert float(placed(Parallelism(**degrees), wider)[name]) <= float(share)


@given(powers, powers, powers, powers, st.booleans())
def test_members_inside_the_whole_cluster_are_all(t, p, d, unit, first):
    found = placed(
        Parallelism(tensor=t, pipeline=p, data=d, stages_first=float(first)),
        Site(t * p * d, 1.0, (Tier(t * p * d, 64.0, 64.0),)),
    )
    assert set(found.values()) == {1.0}
    assert members([(t, d)], unit) <= d


def test_arrays_of_degrees_give_what_each_gives_alone():
    t, p, d = np.array([8.0, 4.0, 2.0]), np.array([4.0, 8.0, 1.0]), np.array([32.0, 32.0, 512.0])
    together = placed(Parallelism(tensor=t, pipeline=p, data=d, stages_first=1.0), UNITS)
    for place in range(3):
        alone = placed(Parallelism(t[place], p[place], data=d[place], stages_first=1.0), UNITS)
        for name, share in alone.items():
            assert np.broadcast_to(together[name], 3)[place] == pytest.approx(float(share))


@pytest.mark.parametrize(
    ("axes", "unit", "gpus", "split"),
    [
        ([(1.0, 6.0)], 8.0, 48.0, (4, 2, 2)),  # eight groups on six nodes, one whole in each: the second has 2 and 4
        ([(1.0, 6.0)], 8.0, 32.0, (4, 2, 2)),  # five on four nodes
        ([(1.0, 6.0)], 8.0, 16.0, (6, 1, 6)),  # two on two nodes
        ([(1.0, 64.0)], 72.0, 2048.0, (56, 2, 8)),  # 32 on 29 racks, one whole in each: the second has 8 and 56
        ([(1.0, 64.0)], 72.0, 256.0, (64, 1, 64)),  # four on four racks, though the last is needed for 40 GPUs alone
        ([(4.0, 4.0)], 72.0, 144.0, (2, 2, 2)),  # the same 16 ranks four apart: 8 GPUs are 2 of them
        ([(8.0, 64.0)], 72.0, 512.0, (8, 8, 8)),  # 64 GPUs in each of eight racks
        ([(1.0, 9.0)], 8.0, 72.0, (8, 2, 1)),  # eight on a node and one on the next
        ([(3.0, 3.0)], 8.0, 72.0, (2, 2, 1)),  # two of three every third rank, or one
        ([(12.0, 3.0)], 8.0, 72.0, (1, 3, 1)),  # each on a node of its own
        ([(1.0, 76.0)], 72.0, 152.0, (72, 2, 4)),  # a rack and 4 more
        ([(2.0, 32.0), (256.0, 3.0)], 72.0, 768.0, (28, 6, 4)),  # 28 and 4, in three places
        ([(1.0, 32.0), (64.0, 9.0)], 72.0, 576.0, (40, 8, 32)),  # of every 64 ranks 32: a rack has 32 or 40
        ([(1.0, 1.0)], 72.0, 144.0, (1, 1, 1)),
        ([(16.0, 1.0)], 72.0, 144.0, (1, 1, 1)),  # one rank stands in one unit
    ],
)
def test_the_group_that_all_wait_for_is_the_one_that_is_cut_worst(axes, unit, gpus, split):
    assert slowest_split(axes, unit, gpus) == split


@given(
    exponents=st.tuples(st.integers(0, 3), st.integers(0, 8), st.integers(0, 6)), gpus=st.sampled_from([256.0, 2048.0])
)
def test_groups_that_divide_a_unit_or_are_made_of_whole_ones_stand_as_their_members_do(exponents, gpus):
    stride, size, unit = (2.0**exponent for exponent in exponents)
    inside = members([(stride, size)], unit)
    assert slowest_split([(stride, size)], unit, gpus) == (inside, size / inside, inside)


@given(stride=st.integers(1, 4), sizes=st.lists(st.integers(1, 300), min_size=1, max_size=9), gpus=st.integers(1, 4096))
def test_a_split_holds_all_members_of_a_group_and_is_the_same_for_an_array(stride, sizes, gpus):
    axes = [(float(stride), np.array(sizes, float))]
    split = slowest_split(axes, 72.0, float(gpus))
    assert np.all(np.multiply(split.inside, split.units) >= np.array(sizes) * (1 - 1e-12))
    assert np.all(np.greater_equal(split.fewest, 1))
    assert np.all(np.less_equal(split.fewest, split.inside))
    for place, size in enumerate(sizes):
        alone = slowest_split([(float(stride), float(size))], 72.0, float(gpus))
        assert [np.broadcast_to(part, len(sizes))[place] for part in split] == list(alone)


def _counted(axes, unit, gpus):
    """Members of a group in the emptiest of its units, of whichever group has fewest, all ranks looked up."""
    offsets = np.array([0])
    for stride, along in axes:
        offsets = (offsets[:, None] + np.arange(int(along)) * int(stride)).ravel()
    taken, fewest = np.zeros(gpus, bool), len(offsets)
    for rank in range(gpus):
        if not taken[rank]:
            taken[rank + offsets] = True
            held = np.bincount((rank + offsets) // unit)
            fewest = min(fewest, held[held > 0].min())
    assert taken.all()
    return fewest


@given(
    unit=st.sampled_from([4, 8, 16, 72]),
    t=st.sampled_from([1, 2, 3, 4, 6, 8, 16]),
    c=st.sampled_from([1, 2, 4]),
    e=st.sampled_from([1, 2, 4, 8, 9, 16, 36, 64]),
    p=st.sampled_from([1, 2, 3, 4, 6, 8]),
    d=st.sampled_from([1, 2, 3, 4, 6, 8, 9, 16, 18, 36]),
    first=st.booleans(),
)
def test_the_fewest_members_in_a_unit_are_those_that_are_counted(unit, t, c, e, p, d, first):
    """Of tensor, context, expert and data parallelism, whether stages or replicas come first, in full units."""
    gpus, inner = t * c * p * d, max(t * c, e)
    assume(gpus <= 1152 and gpus % unit == 0 and t * c * d % inner == 0 and inner % t == 0 and inner % e == 0)
    spread = Parallelism(
        float(t), float(p), context=float(c), expert=float(e), data=float(d), stages_first=float(first)
    )
    groups = [*layer_axes(spread).values(), copies(spread, float(t), float(d * c))]
    groups.append(copies(spread, float(e), float(t * c * d // e)))
    for axes in groups:
        fewest, counted = float(slowest_split(axes, float(unit), float(gpus)).fewest), _counted(axes, unit, gpus)
        if all(along == 1 for _, along in axes[1:]):
            assert fewest == counted, axes
        else:
            assert counted / 2 <= fewest <= counted, axes


def test_a_group_that_the_ends_of_racks_cut_meets_the_network_alone_as_among_others():
    """24 ranks two apart are 48 GPUs of racks of 72: the second such group lies half in either rack."""
    racks = Site(144.0, 72.0, (Tier(16.0, 2.0, 4.0),))
    sizes = np.array([12.0, 18.0, 24.0, 36.0])
    for pattern in ("ring", "tree", "halving", "exchange"):
        for site in (racks, racks._replace(scattered=True)):
            together = network_share([(2.0, sizes)], pattern, site)
            alone = [float(network_share([(2.0, size)], pattern, site)) for size in sizes]
            assert together.tolist() == pytest.approx(alone)
            assert alone[2] < alone[0] == 1
