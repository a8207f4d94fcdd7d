"""The tail: waiting for the slowest node, one bad link, one slow node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formulas import tail
from app.formulas.fabric.placement import Site, Tier, network_share

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("nodes", [2, 8, 128, 2048])
def test_the_slowest_of_many_normal_deviates_is_where_a_simulation_has_it(nodes):
    slowest = RNG.standard_normal((20_000 if nodes < 500 else 2_000, nodes)).max(axis=1).mean()
    assert float(tail.slowest_of(nodes)) == pytest.approx(slowest, abs=0.05)


def test_one_node_waits_for_nobody_and_more_nodes_never_wait_less():
    deviates = tail.slowest_of(np.arange(1.0, 5000.0))
    assert deviates[0] == 0
    assert np.all(np.diff(deviates) > 0)


@given(st.floats(0, 0.5), st.floats(8, 1e6), st.floats(0, 2))
def test_a_slow_node_and_chance_are_the_worse_of_the_two(spread, ranks, slow):
    both = tail.wait(spread, ranks, slow)
    assert both == pytest.approx(max(tail.wait(spread, ranks, 0.0), tail.wait(0.0, ranks, slow)))


def test_go_back_n_sends_again_as_often_as_a_simulation_does():
    """Packets in a row with W under way: each loss wastes what was sent until the sender hears of it."""
    loss, window, wanted = 0.01, 50, 200_000
    lost = RNG.random(3 * wanted) < loss
    arrived = sent = 0
    while arrived < wanted:
        wasted = bool(lost[sent % lost.size])
        sent += window if wasted else 1
        arrived += not wasted
    assert tail.resent_share(loss, window) == pytest.approx(arrived / sent, rel=0.02)


@given(st.floats(0, 0.5), st.floats(1, 1e4))
def test_sending_a_packet_again_alone_is_never_slower(loss, window):
    assert 0 < tail.resent_share(loss, window) <= tail.resent_share(loss, 1.0) <= 1


def ring_through(links: float, left: float, balancing: str, stages: float) -> float:
    """What a leaf of 32 hosts leaves pipelines of so many leaves when one of its uplinks is degraded [1]."""
    tier = Tier(32.0, 1.0, 1.0, 32.0, int(links), 8.0, links, links)
    site = Site(256.0, 1.0, (tier,), balancing=balancing, flows=4.0, link_left=left)
    return float(network_share([(32.0, stages)], "ring", site))


def test_packets_that_take_every_uplink_lose_one_link_s_part():
    """31.5 of 32 links."""
    assert ring_through(32.0, 0.5, "adaptive", 8.0) == pytest.approx(31.5 / 32)


def test_flows_bound_to_the_bad_uplink_lose_all_that_it_lost():
    """Four flows share half a link: an eighth each, half of a quarter, and less than the fullest sound one leaves."""
    sound, bad = (ring_through(32.0, left, "hashing", 8.0) for left in (1.0, 0.1))
    assert bad == pytest.approx(0.1)
    assert sound > 0.3


@pytest.mark.parametrize("balancing", ["hashing", "flowlet", "adaptive", "spraying"])
def test_groups_that_stay_below_the_leaf_do_not_meet_its_uplinks(balancing):
    tier = Tier(32.0, 1.0, 1.0, 32.0, 32, 8.0, 32.0, 32.0)
    site = Site(256.0, 1.0, (tier,), balancing=balancing, flows=4.0, link_left=0.1)
    assert float(network_share([(1.0, 32.0)], "ring", site)) == 1
