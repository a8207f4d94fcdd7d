"""Published cases of hash collisions, tapers and tori, each with the figure that was published beside the formula's."""

from typing import Any

import numpy as np
import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.formulas.collectives.shared_links import torus_all_reduce, torus_all_to_all
from app.formulas.fabric.load_balancing import fullest_link, hashed_share
from app.plan.evaluate import evaluate_all_reduce
from app.plan.network import network_of

CATALOG = load_catalog()


def test_ecmp_of_colossus_leaves_three_fifths():
    """NVIDIA, 2024: 95 % of the line with Spectrum-X on 100,000 GPUs, 60 % with plain Ethernet.

    All 32 hosts of a leaf send, 16 channels each: the slowest flow has 0.57; packet by packet all of it.
    """
    assert float(hashed_share(32.0, 16.0, 32, 8.0)) == pytest.approx(0.60, abs=0.05)
    adaptive, hashed = (
        network_of(Scenario(scale_out="spectrum-x-400", load_balancing=way), CATALOG).site.balancing
        for way in (None, "hashing")
    )
    assert (adaptive, hashed) == ("adaptive", "hashing")


def test_one_flow_a_host_on_a_clos_of_512_has_two_fifths():
    """Geoffray, Hoefler, 2008: 38 % of the rate with static routes, 77 % with adaptive ones.

    The slowest flow of 32 hosts on 32 uplinks has 0.22, and the uplinks in use are 1 - (1 - 1/32)^32 = 0.64 of all: the
    measured mean lies between.
    """
    slowest, in_use = float(hashed_share(32.0, 1.0, 32, 8.0)), 1 - (1 - 1 / 32) ** 32
    assert slowest < 0.38 < in_use
    assert 1 / fullest_link(32, 32, 8.0) == pytest.approx(slowest, abs=0.01)


def test_queue_pairs_in_the_hash_on_two_nodes():
    """Asterfusion: 84.5 % with the five-tuple, 88 % with queue pairs, 97 % by telemetry, on 2 x 8 GPUs.

    16 of 32 hosts cross, with 8 to 16 flows each: 0.76 to 0.95.
    """
    few, many = (float(hashed_share(16.0, flows, 32, 8.0)) for flows in (8.0, 16.0))
    assert few < 0.845 < 0.88 < many < 0.97


def test_two_planes_of_hpn_gain_what_collisions_took():
    """Alibaba, SIGCOMM 2024: some 15 % more throughput. A quarter to a third of the step waits for the network: from
    0.57 of the rate to all of it, 1/(1 - x (1 - 0.57)) - 1 is 12 to 18 %."""
    left = float(hashed_share(32.0, 16.0, 32, 8.0))
    gains = [1 / (1 - exposed * (1 - left)) - 1 for exposed in (0.25, 0.35)]
    assert gains[0] < 0.15 < gains[1]


def test_planes_that_packets_spread_over_are_as_good_as_rails():
    """DeepSeek, ISCA 2025: multi-plane and multi-rail networks perform alike."""
    one, four = (
        evaluate(Scenario(scale_out="ultra-ethernet-400", load_balancing="spraying", planes=planes), CATALOG)
        for planes in (1, 4)
    )
    assert four.training.step_time.typical == pytest.approx(one.training.step_time.typical, rel=1e-3)
    assert four.all_reduce.time.typical == pytest.approx(one.all_reduce.time.typical, rel=1e-3)


@pytest.mark.parametrize(("balancing", "left"), [("hashing", 1 / 7), ("adaptive", 1 / 2)])
def test_a_dragonfly_carries_neighbouring_groups_at_half_rate_only_by_detours(balancing, left):
    """Kim et al., 2008: adversarial traffic gets one global link's share on minimal paths, about half with detours.

    512 hosts a group (32 switches of 16), 73 links to each other group: 1/7.0; twice the even load of 1.0: 1/2.0.
    """
    asked = {"gpus": 4096, "topology": "dragonfly", "load_balancing": balancing}
    *_, tier = network_of(Scenario(**asked), CATALOG).site.tiers
    assert 1 / tier.neighbour == pytest.approx(left, rel=0.02)
    assert 1 / tier.spread == pytest.approx(1, rel=0.01)


def test_the_torus_of_tpu_v4_has_the_bisection_and_the_all_reduce_that_are_printed():
    """Jouppi et al., 2023: 4,096 chips, six links of 50 GB/s: 24 TB/s of bisection, 1.1 PB/s of all-reduce.

    2 · 16² links across the middle, 25.6 TB/s; 6 · 50 GB/s · 4,096 = 1.23 PB/s.
    """
    sides, link = (16, 16, 16), 50e9
    chips = int(np.prod(sides))
    crossing = chips / 2 * (1 / 2) / float(torus_all_to_all(1.0, sides, 0.0, link))
    assert crossing == pytest.approx(24e12, rel=0.07)
    sent = 2 * (chips - 1) / chips * chips / float(torus_all_reduce(1.0, sides, 0.0, link))
    assert sent == pytest.approx(1.1e15, rel=0.12)


def test_adaptive_routing_gives_storage_of_israel_1_what_collisions_took():
    """NVIDIA, 2025: at most 48 % more to read and 41 % more to write with adaptive routing than with RoCE's hash.

    Of 32 uplinks one flow each has 1 - (1 - 1/32)^32 = 0.64 in use, two flows 0.87: 15 to 56 % more where all are. What
    a barrier waits for, the slowest flow, gains more than was measured of the mean.
    """
    fewest, most = (1 / (1 - (1 - 1 / 32) ** flows) - 1 for flows in (64, 32))
    assert fewest < 0.41 < 0.48 < most
    assert most < 1 / float(hashed_share(32.0, 1.0, 32, 8.0)) - 1
    assert float(hashed_share(1.0, 1.0, 32, 8.0)) == 1  # below one leaf, where nothing collides, nothing is gained


def test_a_lost_card_costs_an_eighth_and_half_a_card_less_than_its_ring_could_lose():
    """arXiv:2606.01680: without one of eight NICs 12.5 % less bandwidth; at half the bandwidth up to 57 % longer.

    7/8 where seven rails share the message. A rail at half rate holds up its ring, which takes up to twice as long: the
    all-reduce, and of a step what shows of it.
    """

    def busy(**asked: Any) -> float:
        plan = evaluate_all_reduce(Scenario(message=4e9, **asked), CATALOG)
        assert plan.all_reduce.bus_bandwidth is not None
        return plan.all_reduce.bus_bandwidth.typical

    sound = busy()
    assert busy(nics_per_node=7) / sound == pytest.approx(7 / 8, rel=0.01)
    plans = [evaluate(Scenario(link_rate_left=left), CATALOG).training.step_time for left in (1.0, 0.5)]
    assert 1 <= plans[1].typical / plans[0].typical < 1.57 < sound / busy(link_rate_left=0.5) < 2


def test_rails_that_meet_inside_nodes_alone_slow_an_all_to_all_as_published():
    """Wang et al., arXiv:2307.12169: an all-to-all on rail-only networks takes 8.2 to 11.2 % longer.

    7/8 of what leaves a node passes NVLink too: 7/8 · 50 GB/s / 450 GB/s = 9.7 % of the time on the network.
    """
    times = {}
    for topology in ("rail-optimized", "rail-only"):
        asked = Scenario(gpus=2048, topology=topology, message=4e9, profile="ideal")
        exchanged = evaluate_all_reduce(asked, CATALOG).all_reduce.all_to_all_time
        assert exchanged is not None
        times[topology] = exchanged.typical
    assert times["rail-only"] / times["rail-optimized"] - 1 == pytest.approx(0.097, abs=0.015)
