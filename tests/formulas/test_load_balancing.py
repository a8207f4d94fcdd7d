"""What flows bound to paths leave of a network."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formulas.fabric.load_balancing import fullest_link, hashed_share
from app.formulas.fabric.placement import Site, Tier, network_share, plane_share


@pytest.mark.parametrize(
    ("flows", "uplinks", "leaves"), [(32, 32, 1), (32, 32, 8), (128, 32, 8), (512, 16, 16), (20, 8, 4)]
)
def test_the_fullest_uplink_is_that_of_a_simulation(flows, uplinks, leaves):
    random = np.random.default_rng(7)
    rounds = 400
    chosen = random.integers(0, uplinks, (rounds * leaves, flows))
    counts = np.apply_along_axis(np.bincount, 1, chosen, minlength=uplinks).max(axis=1)
    simulated = counts.reshape(rounds, leaves).max(axis=1).mean()
    assert fullest_link(flows, uplinks, float(leaves)) == pytest.approx(simulated, rel=0.03)


@pytest.mark.parametrize(
    ("flows", "left"),
    [(1.0, (0.22, 0.31, 0.43, 0.56, 0.82, 1.0)), (4.0, (0.38, 0.58, 0.86, 1, 1, 1)), (16.0, (0.57, 0.95, 1, 1, 1, 1))],
)
def test_hashing_leaves_the_less_the_more_hosts_cross_with_the_fewer_flows(flows, left):
    """32 uplinks of host rate, eight leaves: 32, 16, 8, 4, 2, 1 hosts that send out of each."""
    crossing = np.array([32.0, 16.0, 8.0, 4.0, 2.0, 1.0])
    assert np.round(hashed_share(crossing, flows, 32, 8.0), 2) == pytest.approx(left)


def test_queue_pairs_in_the_hash_help_as_much_as_published():
    """Meta, SIGCOMM 2024: up to 40 % more all-reduce from 4 to 16 queue pairs; racks of 16 hosts on 18 or 32 uplinks.

    The formula has 51 and 65 %: it waits for the slowest of all flows.
    """
    for uplinks, gain in ((18, 1.51), (32, 1.65)):
        before, after = (hashed_share(16.0, flows, uplinks, 16.0) for flows in (4.0, 16.0))
        assert after / before == pytest.approx(gain, abs=0.02)


def test_two_bonded_ports_leave_half_to_two_thirds_of_a_host():
    """Alibaba, HPCA 2025: 172 to 263 of 360 Gb/s with the hash, 0.48 to 0.73, for up to eight flows on two ports."""
    shares = [flows / fullest_link(flows, 2, 8.0) / 2 for flows in (1, 2, 4, 8)]
    assert all(0.48 <= share <= 0.73 for share in shares)


leaf = st.builds(
    lambda hosts, taper: (hosts, max(hosts // taper, 1)), st.sampled_from([8, 16, 32, 64]), st.sampled_from([1, 2, 4])
)


@given(
    leaf,
    st.sampled_from([1.0, 2.0, 4.0, 16.0]),
    st.sampled_from([2.0, 8.0, 64.0]),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_more_flows_and_uplinks_never_leave_less_and_more_senders_and_leaves_never_more(
    of_leaf, flows, leaves, one, two
):
    hosts, uplinks = of_leaf
    few, many = sorted((min(one, hosts), min(two, hosts)))
    share = hashed_share(float(many), flows, uplinks, leaves)
    assert 0 < share <= 1
    tolerance = 1e-6 + 0.02 * share  # of the table between its points
    assert hashed_share(float(few), flows, uplinks, leaves) >= share - tolerance
    assert hashed_share(float(many), 2 * flows, uplinks, leaves) >= share - tolerance
    assert hashed_share(float(many), flows, 2 * uplinks, leaves) >= share - tolerance
    assert hashed_share(float(many), flows, uplinks, 4 * leaves) <= share + tolerance


@given(
    st.sampled_from(["ring", "tree", "halving", "exchange"]), st.sampled_from([1.0, 2.0, 8.0]), st.booleans(),
    st.sampled_from([8.0, 32.0, 128.0]), st.sampled_from([1.0, 2.0, 4.0]),
)  # fmt: skip
def test_hashing_is_never_better_than_flowlets_nor_these_than_adaptive_routing_nor_that_than_spraying(
    pattern, flows, scattered, stride, planes
):
    tier = Tier(256.0, 2.0, 2.0, 32.0, 16, 4.0)
    shares = [
        float(
            network_share(
                [(stride, 1024.0 / stride)],
                pattern,
                Site(1024.0, 8.0, (tier,), scattered, 256.0, False, way, q, planes),
            )
        )
        for way, q in (("hashing", flows), ("flowlet", 4 * flows), ("adaptive", flows), ("spraying", flows))
    ]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1


def test_fewer_flows_than_planes_fill_as_many_planes_as_there_are_flows():
    site = Site(1024.0, 8.0, balancing="hashing", flows=2.0, planes=8.0)
    assert plane_share("ring", 128.0, site) == 0.25
    assert plane_share("exchange", 128.0, site) == 1.0
    assert plane_share("ring", 128.0, site._replace(balancing="spraying")) == 1.0


def test_what_stays_below_its_leaf_never_collides():
    hashed = Site(1024.0, 8.0, (Tier(256.0, 1.0, 1.0, 32.0, 32, 4.0),), balancing="hashing", flows=1.0)
    assert network_share([(8.0, 32.0)], "ring", hashed) == 1.0
    assert float(network_share([(256.0, 4.0)], "ring", hashed)) == pytest.approx(0.24, abs=0.02)  # every host, one flow
