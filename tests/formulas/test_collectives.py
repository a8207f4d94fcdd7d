"""The timing of collectives: textbook forms, and the calibrated model's promises."""

from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas.arrays import Array
from app.formulas.collectives import ideal, library, nccl_tuning
from app.formulas.collectives.group_times import collective_time, group_of
from app.plan import communication
from app.plan import machine as collective_machine
from app.plan.all_reduce import all_reduce_times, time_all_reduce, with_alternatives
from app.plan.band import fold
from app.plan.communication import Communication
from app.plan.scenario import Scenario
from app.plan.site_calibration import scaled
from tests.timing import seconds

CATALOG = load_catalog()
CALIBRATION = collective_machine.calibration(CATALOG)


def quickest(collective: str, *asked: Any, **forced: str) -> Array:
    """Time of the quickest way, or of the forced one [s]."""
    return library.choose(collective, *asked, **forced).time


all_reduce = partial(quickest, "all-reduce")

MACHINES = {
    "one H100 node": {"gpu": "h100-sxm"},
    "a pair of H100 nodes": {"gpu": "h100-sxm", "nodes": 2},
    "128 H100 nodes": {"gpu": "h100-sxm", "nodes": 128},
    "4 A100 nodes": {"gpu": "a100-sxm", "nodes": 4, "scale_out": "infiniband-hdr"},
    "H100 nodes with SHARP": {"gpu": "h100-sxm", "nodes": 16, "in_network_reduction": True},
    "V100 hybrid mesh": {"gpu": "v100-sxm", "nodes": 2, "scale_out": "infiniband-edr"},
    "GH200, Slingshot": {"gpu": "gh200", "nodes": 2, "scale_out": "slingshot-200"},
    "MI300X": {"gpu": "mi300x", "nodes": 4, "scale_out": "roce-400"},
    "an NVL72 rack": {"gpu": "gb200", "nodes": 18},
    "eight NVL72 racks": {"gpu": "gb200", "nodes": 144},
    "a rack and four GPUs": {"gpu": "gb200", "nodes": 19},
    "a node and one GPU": {"gpu": "h100-sxm", "nodes": 2, "lacking": 7},
    "a node and half of one with SHARP": {"gpu": "b200-sxm", "nodes": 2, "lacking": 4, "in_network_reduction": True},
    "32 B200 nodes with SHARP": {"gpu": "b200-sxm", "nodes": 32, "in_network_reduction": True},
    "576 GPUs in one domain": {"gpu": "gb200", "nodes": 144, "scale_up_domain": 576},
    "L40S through the host": {"gpu": "l40s", "nodes": 2, "scale_out": "roce-200"},
    "L40S without peer-to-peer": {"gpu": "l40s", "nodes": 2, "scale_up_wiring": "no-peer-to-peer"},
    "H100 NVL pairs in a box": {"gpu": "h100-nvl", "gpus_per_node": 8, "nodes": 2},
    "one H100 NVL pair": {"gpu": "h100-nvl", "gpus_per_node": 2},
    "EFA": {"gpu": "h100-sxm", "nodes": 16, "scale_out": "efa-400"},
    "kernel TCP": {"gpu": "a100-sxm", "nodes": 4, "scale_out": "tcp-200"},
    "GPUDirect-TCP": {"gpu": "h100-sxm", "nodes": 2, "scale_out": "gpudirect-tcp", "nics_per_node": 4},
    "untuned RoCE": {"gpu": "h100-sxm", "nodes": 8, "scale_out": "roce-400", "tuned": False},
    "no GPUDirect": {"gpu": "h100-sxm", "nodes": 8, "gpudirect": False},
    "one process a node": {"gpu": "a100-sxm", "one_process": True},
    "one GPU a node": {"gpu": "h200-sxm", "gpus_per_node": 1, "nodes": 2},
    "an H100 node in graphs": {"gpu": "h100-sxm", "graphs": "full"},
    "L40S in graphs": {"gpu": "l40s", "graphs": "partial"},
    "12.5 Gb/s left to each GPU": {"gpu": "h100-sxm", "nodes": 4, "network_rate": "12.5 Gb/s"},
}


def cluster(gpu: str, nodes: int = 1, lacking: int = 0, **fields) -> Communication:
    """What times the transfers of so many nodes, the last of which lacks some GPUs."""
    each = fields.get("gpus_per_node") or CATALOG.platforms[CATALOG.gpus[gpu].platform].gpus_per_node
    return communication.of_scenario(Scenario(gpu=gpu, gpus=nodes * each - lacking, **fields), CATALOG)


def machine(name: str) -> ideal.Machine:
    return cluster(**MACHINES[name]).machine(TYPICAL)


# Textbook forms -------------------------------------------------------------------------------------------------------


def test_a_ring_sends_twice_the_message_less_one_share():
    # 2(8 - 1)/8 · 8 GB at 1 GB/s = 14 s, and 14 steps of 1 s.
    assert float(ideal.ring_all_reduce(8e9, 8, 1.0, 1e9)) == pytest.approx(28.0)


def test_gradients_of_100_billion_parameters_in_bf16_on_eight_gpus():
    # 100e9 · 2 B = 200 GB; ring traffic 2 · 7/8 · 200 GB = 350 GB; at 450 GB/s 0.778 s.
    assert float(ideal.ring_all_reduce(200e9, 8, 0.0, 450e9)) == pytest.approx(350 / 450)


@pytest.mark.parametrize(
    ("ranks", "time"),
    [
        (2, 2 * 1 + 8.0),  # one round each way: 2α + 2 · 1/2 · 8 s
        (8, 2 * 3 + 14.0),  # three rounds each way: 6α + 2 · 7/8 · 8 s
        (12, 2 * 3 + 14.0 + 2 + 16.0),  # eight ranks, and four that fold in: + 2α + 2 · 8 s
    ],
)
def test_halving_doubling(ranks, time):
    assert float(ideal.halving_doubling_all_reduce(8e9, ranks, 1.0, 1e9)) == pytest.approx(time)


def test_a_double_binary_tree_moves_the_message_up_and_down():
    # 2⌈log₂ 9⌉ = 8 steps, and 2 · 8 s
    assert float(ideal.double_binary_tree_all_reduce(8e9, 9, 1.0, 1e9)) == pytest.approx(24.0)


def test_hierarchical_is_a_ring_inside_and_a_ring_of_shares_across():
    # inside 14 · 1 ms + 14 s; across 2(4 - 1) · 10 ms + 2 · 3/4 · 1 GB / 0.5 GB/s = 3 s
    time = ideal.hierarchical_all_reduce(8e9, 8, 4, 1e-3, 1e9, 1e-2, 0.5e9)
    assert float(time) == pytest.approx(0.014 + 14 + 0.06 + 3)


def test_summing_in_the_network_sends_the_message_once():
    # two levels up and two down, and 8 s
    assert float(ideal.in_network_all_reduce(8e9, 64, 2, 1.0, 1e9)) == pytest.approx(12.0)


@pytest.mark.parametrize("form", [ideal.ring_all_gather, ideal.ring_reduce_scatter, ideal.pairwise_all_to_all])
def test_one_way_collectives_take_half_an_all_reduce(form):
    assert float(form(8e9, 8, 1.0, 1e9)) == pytest.approx(7 + 7.0)


def test_a_broadcast_reaches_all_after_log_steps():
    assert float(ideal.pipelined_broadcast(8e9, 9, 1.0, 1e9)) == pytest.approx(4 + 8.0)


def test_bus_bandwidth_is_what_the_links_carried():
    # nccl-tests: 8 GPUs, 8 GiB in 31.3 ms: 274 GB/s of the algorithm, 480 GB/s of the bus
    rate = ideal.bus_bandwidth(8 * 2**30, 31.3e-3, 8)
    assert float(rate) == pytest.approx(480e9, rel=1e-3)
    assert float(ideal.bus_factor("broadcast", 8)) == 1.0
    assert float(ideal.bus_factor("all-gather", 8)) == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    "form",
    [ideal.ring_all_reduce, ideal.double_binary_tree_all_reduce, ideal.halving_doubling_all_reduce],
)
@given(message=st.floats(1, 1e12), ranks=st.integers(1, 4096), latency=st.floats(0, 1e-3), rate=st.floats(1e6, 1e13))
def test_no_textbook_form_beats_the_lower_bound(form, message, ranks, latency, rate):
    bound = float(ideal.all_reduce_lower_bound(message, ranks, latency, rate))
    assert float(form(message, ranks, latency, rate)) >= bound * (1 - 1e-12)


@given(message=st.floats(1, 1e12), ranks=st.integers(1, 4096), rate=st.floats(1e6, 1e13))
def test_no_sum_in_the_network_beats_sending_once(message, ranks, rate):
    bound = float(ideal.in_network_lower_bound(message, ranks, rate))
    assert float(ideal.in_network_all_reduce(message, ranks, 1, 0.0, rate)) >= bound


@pytest.mark.parametrize(
    "form",
    [
        ideal.ring_all_reduce,
        ideal.double_binary_tree_all_reduce,
        ideal.halving_doubling_all_reduce,
        ideal.pipelined_broadcast,
    ],
)
def test_one_rank_needs_no_time(form):
    assert float(form(1e9, 1, 1.0, 1e9)) == 0.0


def test_the_ideal_hierarchical_scheme_overlaps_its_levels():
    """2 · 7/8 · 141 GB at 450 GB/s inside, 2 · 127/128 · 17.6 GB at 50 GB/s across: the slower, and a 256th."""
    m = replace(machine("128 H100 nodes"), scale_up_hop=0.0, scale_out_hop=0.0)
    inside, across = 2 * 7 / 8 * 141 / 450, 2 * 127 / 128 * 141 / 8 / 50
    time = float(ideal.ideal_all_reduce_times(141e9, m)["hierarchical"])
    assert time == pytest.approx(max(inside, across) + min(inside, across) / 256, rel=1e-3)
    assert time < float(ideal.hierarchical_all_reduce(141e9, 8, 128, 0.0, 450e9, 0.0, 50e9)) / 1.5


# The ideal profile ----------------------------------------------------------------------------------------------------


def test_the_ideal_ring_of_a_machine_is_the_textbook_ring_at_the_narrowest_place():
    m = machine("128 H100 nodes")
    # 8 ports of 50 GB/s carry 400 GB/s out of a node, less than the 450 GB/s inside.
    expected = ideal.ring_all_reduce(1e9, 1024, m.scale_out_hop, 400e9)
    assert float(ideal.ideal_all_reduce_times(1e9, m)["ring"]) == float(expected)


def test_the_ideal_sum_in_the_nvlink_switch_sends_the_message_once():
    m = machine("one H100 node")
    expected = ideal.in_network_all_reduce(1e9, 8, 1, m.scale_up_hop, 450e9)
    assert float(ideal.ideal_all_reduce_times(1e9, m)["nvls"]) == float(expected)


@pytest.mark.parametrize("message", [1e3, 1e5, 1e6, 1e7, 1e9])
def test_a_larger_domain_may_do_what_a_smaller_one_does(message):
    """Sums in the switches of the network, in domains of 4 and of 8: no message takes longer in the larger."""
    eight = machine("H100 nodes with SHARP")
    four = eight.but(ranks_per_domain=eight.ranks_per_domain / 2, domains=2 * eight.domains)
    small, large = (float(ideal.ideal_all_reduce_times(message, m)["collnet"]) for m in (four, eight))
    assert large <= small


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(message=st.floats(1, 1e12))
def test_the_ideal_profile_never_beats_its_bounds(name, message):
    m = machine(name)
    between_ranks = replace(m, in_network_reduction=0.0, multicast_rate=0.0)
    bound, summed = ideal.ideal_lower_bound(message, between_ranks), ideal.ideal_lower_bound(message, m)
    for algorithm, time in ideal.ideal_all_reduce_times(message, m).items():
        least = summed if algorithm in ("nvls", "collnet") else bound
        assert not float(time) < float(least) * (1 - 1e-9), algorithm


# The calibrated profile -----------------------------------------------------------------------------------------------

SIZES = st.floats(1, 1e12)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("collective", ideal.COLLECTIVES)
@settings(max_examples=10)
@given(small=SIZES, factor=st.floats(1, 1e4))
def test_more_bytes_never_take_less_time(name, collective, small, factor):
    m = machine(name)
    first, second = quickest(collective, np.array([small, small * factor]), m, CALIBRATION)
    assert 0 < first <= second * (1 + 1e-12)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(small=SIZES, factor=st.floats(1, 1e4))
def test_nor_when_algorithm_and_protocol_are_forced(name, small, factor):
    m = machine(name)
    for time in library.times("all-reduce", np.array([small, small * factor]), m, CALIBRATION).values():
        assert np.all(np.isnan(time)) or time[0] <= time[1] * (1 + 1e-12)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(message=SIZES)
def test_auto_is_the_quickest_forced_algorithm(name, message):
    m = machine(name)
    forced = [
        float(all_reduce(message, m, CALIBRATION, algorithm, protocol))
        for algorithm in ideal.ALGORITHMS
        for protocol in ideal.PROTOCOLS
    ]
    auto = float(all_reduce(message, m, CALIBRATION))
    chosen = library.choose("all-reduce", message, m, CALIBRATION)
    assert auto == pytest.approx(np.nanmin(forced), rel=1e-12)
    assert float(chosen.time) == np.nanmin(forced)
    algorithm, protocol = ideal.ALGORITHMS[int(chosen.algorithm)], ideal.PROTOCOLS[int(chosen.protocol)]
    assert float(all_reduce(message, m, CALIBRATION, algorithm, protocol)) == float(chosen.time)
    assert float(chosen.latency_share) + float(chosen.bandwidth_share) == pytest.approx(1.0)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(message=SIZES)
def test_the_calibrated_profile_never_beats_physics(name, message):
    m = machine(name)
    assert float(all_reduce(message, m, CALIBRATION)) >= float(ideal.ideal_lower_bound(message, m)) * (1 - 1e-9)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("message", [1e6, 1e9, 1e12])
def test_the_library_is_never_quicker_with_many_bytes_than_the_ideal(name, message):
    asked = MACHINES[name]
    at_best = cluster(**asked, profile="ideal").machine(TYPICAL)
    if np.any(at_best.one_shot_rate):
        return  # kernels of a graph send in one step, which no textbook form does
    times = ideal.ideal_all_reduce_times(message, at_best).values()
    assert float(np.nanmin([*times])) <= float(all_reduce(message, machine(name), CALIBRATION))


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(message=SIZES)
def test_no_algorithm_of_the_library_is_quicker_than_its_wires(name, message):
    m = machine(name)
    for (algorithm, protocol), time in library.times("all-reduce", message, m, CALIBRATION).items():
        assert not float(time) < float(library.wire_time(algorithm, message, m)) * (1 - 1e-9), (algorithm, protocol)


def test_sums_in_the_network_overlap_those_in_the_scale_up_switch():
    """8 GB by 8 H100 each of 2 nodes: 8/450 s over NVLink beside 1/50 s through a port, whose first chunk it awaits."""
    m = cluster("h100-sxm", 2, in_network_reduction=True).machine(TYPICAL)
    still = m.but(scale_up_hop=0.0, scale_out_hop=0.0, ring_network=1.0)
    assert float(ideal.ideal_all_reduce_times(8e9, still)["collnet"]) == pytest.approx(1 / 50 + 8 / 450 / 256)


FACTORS = st.tuples(st.floats(0.05, 20), st.floats(0.05, 20), st.floats(0.05, 20))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("collective", ideal.COLLECTIVES)
@settings(max_examples=10)
@given(small=SIZES, factor=st.floats(1, 1e4), factors=FACTORS)
def test_nor_on_any_calibrated_site(name, collective, small, factor, factors):
    m = scaled(machine(name), *factors)
    first, second = quickest(collective, np.array([small, small * factor]), m, CALIBRATION)
    assert 0 < first <= second * (1 + 1e-12)


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=20)
@given(message=SIZES, factors=FACTORS)
def test_no_calibrated_site_beats_physics(name, message, factors):
    m = scaled(machine(name), *factors)
    assert float(all_reduce(message, m, CALIBRATION)) >= float(ideal.ideal_lower_bound(message, m)) * (1 - 1e-9)


@pytest.mark.parametrize("name", MACHINES)
def test_a_site_with_nothing_unusual_is_the_usual(name):
    m, sizes = machine(name), np.geomspace(8, 64e9, 7)
    usual, same = quickest("all-reduce", sizes, m, CALIBRATION), scaled(m, 1.0, 1.0, 1.0)
    assert quickest("all-reduce", sizes, same, CALIBRATION).tolist() == usual.tolist()


def test_twice_the_latency_is_twice_the_time_of_a_small_message():
    # 8 B on 8 H100: latency is more than nine tenths of the time.
    m = cluster("h100-sxm").machine(TYPICAL)
    usual = float(quickest("all-reduce", 8, m, CALIBRATION))
    assert float(quickest("all-reduce", 8, scaled(m, 2.0, 1.0, 1.0), CALIBRATION)) / usual == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("name", MACHINES)
def test_an_array_gives_what_its_scalars_give(name):
    m = machine(name)
    sizes = np.geomspace(8, 64e9, 7)
    together = all_reduce(sizes, m, CALIBRATION)
    assert together.tolist() == [float(all_reduce(size, m, CALIBRATION)) for size in sizes]


@pytest.mark.parametrize("name", MACHINES)
def test_the_first_draw_is_the_typical_value(name):
    sizes = np.geomspace(8, 64e9, 7)[:, None]
    times = all_reduce(sizes, cluster(**MACHINES[name]).machine(), collective_machine.calibration(CATALOG, DRAWS))
    assert times.shape == (7, 257)
    assert times[:, 0] == pytest.approx(all_reduce(sizes[:, 0], machine(name), CALIBRATION), rel=1e-12)


def test_machines_can_be_swept_too():
    nodes = np.array([1.0, 2.0, 16.0])
    m = collective_machine.machine(cluster("h100-sxm").system, nodes, TYPICAL, CATALOG)
    alone = [float(all_reduce(1e9, cluster("h100-sxm", int(n)).machine(TYPICAL), CALIBRATION)) for n in nodes]
    assert all_reduce(1e9, m, CALIBRATION).tolist() == pytest.approx(alone)


def test_a_million_predictions_take_less_time_than_ten_thousand_one_by_one():
    sizes = np.tile(np.geomspace(8, 64e9, 1000), 1000)
    nodes = np.repeat(np.arange(1000) + 1.0, 1000)
    m = collective_machine.machine(cluster("h100-sxm").system, nodes, TYPICAL, CATALOG)
    one = collective_machine.machine(cluster("h100-sxm").system, 8.0, TYPICAL, CATALOG)
    assert np.all(np.isfinite(all_reduce(sizes, m, CALIBRATION)))
    single = seconds(lambda: [all_reduce(size, one, CALIBRATION) for size in sizes[:100]], times=3)
    assert seconds(lambda: all_reduce(sizes, m, CALIBRATION), times=2) < 100 * single


# What the algorithms are ----------------------------------------------------------------------------------------------


def test_large_messages_in_a_hopper_node_are_summed_in_the_switch():
    # H100 nodes print about 480 GB/s of bus bandwidth, more than the 450 GB/s of their links.
    m = machine("one H100 node")
    choice = library.choose("all-reduce", 8 * 2**30, m, CALIBRATION)
    assert ideal.ALGORITHMS[int(choice.algorithm)] == "nvls"
    assert float(ideal.bus_bandwidth(8 * 2**30, choice.time, 8)) == pytest.approx(477e9, rel=0.02)


def test_small_messages_take_the_low_latency_protocol():
    choice = library.choose("all-reduce", 1024, machine("128 H100 nodes"), CALIBRATION)
    assert ideal.PROTOCOLS[int(choice.protocol)] == "ll"
    assert ideal.ALGORITHMS[int(choice.algorithm)] == "tree"
    assert float(choice.latency_share) > 0.99


@pytest.mark.parametrize("block", [1, 7, 40, 100])
def test_a_large_sweep_is_the_same_piece_by_piece(block, monkeypatch):
    clusters = [cluster(gpu).machine(TYPICAL, np.array([[8.0], [16.0], [64.0]])) for gpu in ("a100-sxm", "h100-sxm")]
    both = collective_machine.side_by_side(clusters)
    sizes = np.geomspace(8, 1e9, 20)[:, None, None]
    whole = library.choose("all-reduce", sizes, both, CALIBRATION)
    monkeypatch.setattr(library, "_BLOCK", block)
    pieces = library.choose("all-reduce", sizes, both, CALIBRATION)
    for name, values in vars(whole).items():
        assert np.array_equal(getattr(pieces, name), np.broadcast_to(values, (20, 2, 3))), name


def test_a_graph_s_kernel_takes_a_line_inside_a_node():
    # 8 H100: 3.55 + 3 · 0.19 us, and 7 · 64 KiB at 0.59 · 450 GB/s, 1.73 us; NCCL takes over thrice as long
    recorded, launched = cluster("h100-sxm", graphs="full"), cluster("h100-sxm", graphs="none")
    first = communication.time_collective(recorded, "all-reduce", 65536.0)
    assert ideal.ALGORITHMS[int(first.algorithm)] == "one-shot"
    assert float(first.time) == pytest.approx(3.55e-6 + 3 * 0.19e-6 + 7 * 65536 / (0.59 * 450e9))
    assert float(communication.time_collective(launched, "all-reduce", 65536.0).time) > 3 * float(first.time)
    # two shots of 1 MiB: 6.4 us more, and 14/8 of it at 0.64 · 450 GB/s
    second = communication.time_collective(recorded, "all-reduce", 2.0**20)
    assert float(second.time) == pytest.approx(4.12e-6 + 6.4e-6 + 14 / 8 * 2**20 / (0.64 * 450e9))


def test_a_graph_leaves_large_messages_and_several_nodes_to_the_library():
    for nodes, message in ((1, 1e9), (2, 65536.0)):
        recorded, launched = (
            communication.time_collective(cluster("h100-sxm", nodes, graphs=graphs), "all-reduce", message)
            for graphs in ("full", "none")
        )
        assert float(recorded.time) == float(launched.time)


def test_a_graph_has_kernels_for_as_many_gpus_as_they_were_timed_on():
    eight, rack = (cluster("gb200", nodes, graphs="full") for nodes in (2, 18))
    within, beyond = (communication.time_collective(fabric, "all-reduce", 8.0) for fabric in (eight, rack))
    assert ideal.ALGORITHMS[int(within.algorithm)] == "one-shot"
    assert ideal.ALGORITHMS[int(beyond.algorithm)] in ("ring", "tree")


def test_a_step_that_is_recorded_sums_as_an_all_reduce_by_itself_does():
    fabric = cluster("h100-sxm", graphs="full")
    group = group_of(fabric.links(TYPICAL), [(1.0, 8.0)])
    alone = communication.time_collective(fabric, "all-reduce", 65536.0)
    assert float(collective_time(group, "all-reduce", 65536.0)) == pytest.approx(float(alone.time), rel=1e-12)


def test_a_forced_ring_is_slower_than_nvls_on_large_messages():
    m = machine("one H100 node")
    assert float(all_reduce(8e9, m, CALIBRATION, "ring")) > 1.25 * float(all_reduce(8e9, m, CALIBRATION, "nvls"))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("forced", [("", ""), ("ring", ""), ("ring", "simple"), ("", "ll"), ("nvls", "")])
def test_a_comparison_is_the_choice_and_every_algorithm_by_itself(name, forced):
    sizes, m = np.geomspace(8, 1e10, 20), machine(name)
    best, each = library.compare("all-reduce", sizes, m, CALIBRATION, *forced)
    np.testing.assert_array_equal(best.time, library.choose("all-reduce", sizes, m, CALIBRATION, *forced).time)
    for algorithm, choice in each.items():
        protocol = forced[1] if algorithm == forced[0] else ""
        alone = library.choose("all-reduce", sizes, m, CALIBRATION, algorithm, protocol)
        np.testing.assert_array_equal(choice.time, alone.time)
        np.testing.assert_array_equal(choice.bandwidth_share, alone.bandwidth_share)


@pytest.mark.parametrize("name", MACHINES)
def test_the_quickest_protocol_is_the_one_in_whose_stretch_a_message_falls(name):
    sizes, m = np.geomspace(8, 1e11, 60), machine(name)
    times = library.times("all-reduce", sizes, m, CALIBRATION)
    for algorithm in {algorithm for algorithm, _ in times}:
        choice = library.choose("all-reduce", sizes, m, CALIBRATION, algorithm)
        protocols = [ideal.PROTOCOLS[int(index)] for index in np.broadcast_to(choice.protocol, sizes.shape)]
        spoken = [np.broadcast_to(times[algorithm, one], sizes.shape)[at] for at, one in enumerate(protocols)]
        least = np.nanmin([np.broadcast_to(time, sizes.shape) for (a, _), time in times.items() if a == algorithm], 0)
        np.testing.assert_allclose(spoken, least, rtol=1e-9)
        np.testing.assert_allclose(choice.time, least, rtol=1e-9)


def test_pcie_boxes_have_no_ll128():
    m = machine("L40S through the host")
    assert np.isnan(all_reduce(1e6, m, CALIBRATION, "ring", "ll128"))
    assert np.isfinite(all_reduce(1e6, replace(m, ll128=1.0), CALIBRATION, "ring", "ll128"))


def test_ll_over_pcie_takes_its_latency_and_twice_the_bytes():
    # Four of its eight bytes are flags.
    m = machine("L40S through the host")
    ring = library.all_reduce_algorithms(m, CALIBRATION)["ring"]
    sizes = np.array([64.0, 2**16, 2**19])
    expected = ring.latency + 2 * sizes / ring.rate
    np.testing.assert_allclose(all_reduce(sizes, m, CALIBRATION, "ring", "ll"), expected)


def test_what_hops_wait_between_nodes_of_a_rack_fills_no_pipeline():
    rack = machine("an NVL72 rack")
    lone = replace(rack, scale_up_hop=rack.scale_up_hop - rack.hop_wait, hop_wait=0.0)
    with_wait, without = (library.all_reduce_algorithms(m, CALIBRATION)["ring"] for m in (rack, lone))
    assert with_wait.pace == pytest.approx(without.pace)
    # The ring passes 71 hops twice.
    assert with_wait.latency - without.latency == pytest.approx(2 * 71 * rack.hop_wait)


@pytest.mark.parametrize("gpu", ["mi300x", "v100-sxm", "h100-sxm"])
def test_one_gpu_alone_takes_no_time_by_any_way(gpu):
    alone = cluster(gpu, gpus_per_node=1).machine(TYPICAL)
    assert all(float(time) == 0.0 for time in library.times("all-reduce", 1e9, alone, CALIBRATION).values())


def test_what_a_machine_lacks_is_not_a_number():
    assert np.isnan(all_reduce(1e9, machine("4 A100 nodes"), CALIBRATION, "nvls-tree"))
    assert np.isnan(all_reduce(1e9, machine("128 H100 nodes"), CALIBRATION, "nvls"))
    assert np.isnan(all_reduce(1e9, machine("one H100 node"), CALIBRATION, "collnet"))
    assert np.isnan(all_reduce(1e9, machine("GPUDirect-TCP"), CALIBRATION, "tree"))


def test_two_nodes_are_a_special_case():
    # A tree sends the message once across the boundary of two nodes, a ring 2(n - 1)/n times.
    pair, many = machine("a pair of H100 nodes"), machine("128 H100 nodes")
    assert float(all_reduce(8e9, pair, CALIBRATION, "ring")) > 1.2 * float(all_reduce(8e9, pair, CALIBRATION))
    bus = [float(ideal.bus_bandwidth(8e9, all_reduce(8e9, m, CALIBRATION), n)) for m, n in ((pair, 16), (many, 1024))]
    assert bus[0] > 1.2 * bus[1]


def test_switching_sharp_on_helps_large_messages():
    with_it = machine("H100 nodes with SHARP")
    without = replace(with_it, in_network_reduction=0.0)
    assert float(all_reduce(8e9, with_it, CALIBRATION)) < 0.85 * float(all_reduce(8e9, without, CALIBRATION))


@pytest.mark.parametrize(
    "slower",
    [
        {"gpudirect": False},
        {"scale_out": "roce-400", "tuned": False},
        {"scale_out": "tcp-400"},
        {"scale_out": "efa-400"},
        {"network_rate": "200 Gb/s"},
    ],
)
def test_worse_networks_are_slower(slower):
    tuned = cluster("h100-sxm", nodes=8).machine(TYPICAL)
    worse = cluster("h100-sxm", nodes=8, **slower).machine(TYPICAL)
    for size in (8.0, 1e6, 8e9):
        assert float(all_reduce(size, worse, CALIBRATION)) > float(all_reduce(size, tuned, CALIBRATION))


def test_two_gpus_of_a_full_mesh_have_one_link():
    # MI300X: 7 links of 64 GB/s; measured 47.7 GB/s between two GPUs.
    pair = cluster("mi300x", gpus_per_node=2).machine(TYPICAL)
    time = all_reduce(4 * 2**30, pair, CALIBRATION)
    assert float(ideal.bus_bandwidth(4 * 2**30, time, 2)) == pytest.approx(47.7e9, rel=0.08)


def test_a_gpu_s_own_port_carries_what_one_link_of_a_mesh_cannot():
    """Two of eight MI300X in each of 64 nodes: sums in the switches at a port's rate, as one of each node has it."""
    alone = cluster("mi300x", nodes=64, in_network_reduction=True).machine(TYPICAL).but(ranks_per_domain=1.0)
    pairs = alone.but(ranks_per_domain=2.0)
    rates = [library.all_reduce_algorithms(m, CALIBRATION)["collnet"].rate for m in (alone, pairs)]
    assert float(rates[1]) >= float(rates[0]) * (1 - 1e-9)
    # PCIe leads to the port as well: an L40S has no way round it.
    box = machine("L40S through the host")
    faster = box.but(scale_out_rate=10 * box.scale_up_rate)
    ring = library.all_reduce_algorithms(faster, CALIBRATION)["ring"]
    assert float(ring.rate) == pytest.approx(float(box.scale_up_rate / ideal.bus_factor("all-reduce", 16)))


def test_bridged_pairs_beyond_two_gpus_meet_over_pcie():
    pair = float(all_reduce(1e9, machine("one H100 NVL pair"), CALIBRATION))
    box = cluster("h100-nvl", gpus_per_node=4).machine(TYPICAL)
    assert float(all_reduce(1e9, box, CALIBRATION)) > 4 * pair


def test_nodes_that_use_few_of_their_gpus_are_still_nodes():
    m = cluster("h100-sxm", gpus_per_node=1, nodes=2).machine(TYPICAL)
    assert (float(m.ranks_per_domain), float(m.domains)) == (1, 2)
    rack = cluster("gb200", gpus_per_node=4, nodes=2).machine(TYPICAL)
    assert (float(rack.ranks_per_domain), float(rack.domains)) == (8, 1)


@pytest.mark.parametrize("collective", ideal.COLLECTIVES)
def test_one_rank_has_nothing_to_wait_for(collective):
    alone = cluster("h100-sxm", gpus_per_node=1).machine(TYPICAL)
    assert float(quickest(collective, 1e9, alone, CALIBRATION)) == 0.0


def test_an_all_to_all_across_nodes_is_bound_by_the_network():
    # 16 nodes: 120 of 128 shares leave the node at 47.5 GB/s a GPU: 1 GB · 120/128 / 47.5 GB/s = 19.7 ms
    m = cluster("h100-sxm", nodes=16).machine(TYPICAL)
    floor = 1e9 * 120 / 128 / float(np.asarray(m.scale_out_rate))
    assert floor < float(quickest("all-to-all", 1e9, m, CALIBRATION)) < 1.3 * floor


def test_one_process_posts_an_all_to_all_peer_by_peer():
    # 8 GPUs launch one after the other, and each posts to its 7 peers: 8 · (launch + 7 · overhead)
    m = cluster("a100-sxm", one_process=True).machine(TYPICAL)
    expected = float(m.launch_floor) + 8 * 7 * CALIBRATION.peer_overhead
    assert float(quickest("all-to-all", 1024, m, CALIBRATION)) == pytest.approx(expected)
    assert float(quickest("all-gather", 1024, m, CALIBRATION)) == pytest.approx(float(m.launch_floor))


def test_a_gather_between_two_lone_gpus_crosses_the_network_once():
    # Launch and one full hop; the byte itself and its fill are a percent.
    m = cluster("b200-sxm", gpus_per_node=1, nodes=2, scale_out="roce-400").machine(TYPICAL)
    expected = float(m.base_latency) + float(m.scale_out_hop)
    assert float(quickest("all-gather", 1, m, CALIBRATION)) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter"])
def test_a_ring_of_one_pass_gets_the_wire_of_any_network_unless_the_node_is_narrower(collective):
    # 1 TB, 16 nodes: 8 ports of 100 Gb/s are narrower than NVLink 3; 8 of 400 are not narrower than NVLink 4's ring.
    for gpu, network, narrowest in (
        ("a100-sxm", "infiniband-edr", lambda m: 8 * m.scale_out_rate),
        ("a100-sxm", "roce-100", lambda m: 8 * m.scale_out_rate),
        ("h100-sxm", "roce-400", lambda m: m.scale_up_rate * CALIBRATION.gather_across),
    ):
        m = cluster(gpu, nodes=16, scale_out=network).machine(TYPICAL)
        time = float(quickest(collective, 1e12, m, CALIBRATION))
        assert 127 / 128 * 1e12 / time == pytest.approx(float(narrowest(m)), rel=0.01)


def test_the_pipeline_of_a_gather_fills_no_slower_over_many_nodes():
    # What is beyond latency and bytes: the same over 2 nodes and over 128, whose ring has 64 times the hops.
    few, many = (cluster("h100-sxm", nodes=nodes).machine(TYPICAL) for nodes in (2, 128))
    lines = [library.gather_algorithms(m, CALIBRATION)["ring"] for m in (few, many)]
    fills = [
        float(quickest("all-gather", line.rate * 1e-3, m, CALIBRATION) - line.latency) - 1e-3
        for m, line in zip((few, many), lines, strict=True)
    ]
    assert fills[0] == pytest.approx(fills[1])
    assert fills[0] > 1e-4
    assert float(lines[1].latency) > 20 * float(lines[0].latency)


def test_a_small_message_passes_every_gpu_of_a_rack():
    # Up and down through 64 GPUs one after the other: 2 · 63 hops after the launch, to which 8 B add a few per cent.
    m = cluster("gb200", nodes=16).machine(TYPICAL)
    expected = float(m.base_latency + 2 * 63 * m.scale_up_hop)
    assert float(quickest("all-reduce", 8, m, CALIBRATION)) == pytest.approx(expected, rel=0.05)


def test_nvls_takes_larger_chunks_for_larger_messages():
    # 24 channels of 8 GPUs: 128 KiB each, 64 times over, are 1.5 GiB; below it the chunks are half as large.
    m = cluster("b200-sxm").machine(TYPICAL)
    line = library.all_reduce_algorithms(m, CALIBRATION)["nvls"]
    (full, most, _), (half, less, _), *_ = line.steps
    assert (float(full), float(most), float(half)) == (1.5 * 2**30, 1.0, 96 * 2**20)
    cost = float(m.chunk_cost)
    assert float(less) == pytest.approx((1 + cost / 2**17) / (1 + cost / 2**16))


def test_larger_chunks_of_an_nvls_tree_are_more_to_fill_its_pipeline_with():
    # Two pairs of H100 nodes and one of H200, 16, 32 and 64 MiB: from 64 MiB on (4 chunks for each of 128 lanes) chunks
    # have 128 KiB, and twice the bytes take 1.66 to 1.74 times as long where they took 1.30 to 1.44 just before.
    m = cluster("h100-sxm", nodes=2, scale_out="infiniband-ndr").machine(TYPICAL)
    before, smaller, larger = (float(quickest("all-reduce", 2.0**power, m, CALIBRATION)) for power in (24, 25, 26))
    assert smaller / before < 1.45
    assert larger / smaller > 1.55
    line = library.all_reduce_algorithms(m, CALIBRATION)["nvls-tree"]
    exponent = float(CALIBRATION.fill_exponent)
    assert [float(share) for _, _, share in line.steps] == pytest.approx([1, 2**-exponent, 4**-exponent])


def test_hopper_pairs_with_faster_memory_are_faster():
    # The same network and NVLink: an H200's bytes spend less time in its memory.
    times = {
        gpu: float(quickest("all-reduce", 2**33, cluster(gpu, nodes=2).machine(TYPICAL), CALIBRATION))
        for gpu in ("h100-sxm", "h200-sxm")
    }
    assert 1.015 < times["h100-sxm"] / times["h200-sxm"] < 1.05


def test_half_a_mebibyte_takes_a_switched_node_hardly_longer_than_a_few_kib():
    # A DGX H100: 17.9 us for 16 KiB, 20.7 us for 512 KiB, with LL. The links of an A100 node sum nothing: its pipeline
    # fills as it does for larger messages.
    growth = {
        gpu: float(quickest("all-reduce", 2**19, m, CALIBRATION) / quickest("all-reduce", 2**14, m, CALIBRATION))
        for gpu in ("h100-sxm", "a100-sxm")
        for m in (cluster(gpu).machine(TYPICAL),)
    }
    assert growth["h100-sxm"] == pytest.approx(20.7 / 17.9, rel=0.25)
    assert growth["a100-sxm"] > 1.5 * growth["h100-sxm"]
    chosen = library.choose("all-reduce", 2**19, cluster("h100-sxm").machine(TYPICAL), CALIBRATION)
    assert ideal.PROTOCOLS[int(chosen.protocol)] == "ll"


@pytest.mark.parametrize(
    ("gpu", "network", "measured"),
    # Bus bandwidth of a pair over that of a node alone, 8 GiB and more: 467 of 478 GB/s, 767 of 835 GB/s.
    [("h100-sxm", "infiniband-ndr", 467 / 478), ("b300-sxm", "roce-800", 767 / 835)],
)
def test_a_sum_between_two_nodes_leaves_the_switch_at_a_smaller_share_on_blackwell(gpu, network, measured):
    alone, pair = (
        float(quickest("all-reduce", 2**34, cluster(gpu, nodes=nodes, scale_out=network).machine(TYPICAL), CALIBRATION))
        / float(ideal.bus_factor("all-reduce", 8 * nodes))
        for nodes in (1, 2)
    )
    assert alone / pair == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize(("protocol", "most"), [("ll128", 128 / 120), ("ll", 2.0)])
def test_a_forced_protocol_costs_no_more_than_its_bytes_on_the_wire(protocol, most):
    m = cluster("a100-sxm", nodes=2).machine(TYPICAL)
    forced, simple = (
        float(quickest("all-reduce", 2**33, m, CALIBRATION, algorithm="ring", protocol=name))
        for name in (protocol, "simple")
    )
    assert 1 < forced / simple <= most * (1 + 1e-9)


def test_pcie_to_the_network_is_a_cap_and_slows_no_slower_card():
    slow, fast = (
        cluster("rtx-pro-6000", nodes=2, gpus_per_node=1, nics_per_node=1, scale_out=network).machine(TYPICAL)
        for network in ("roce-100", "roce-800")
    )
    efficiency = CATALOG.collectives["roce"]["efficiency"].typical
    assert float(slow.scale_out_rate) == pytest.approx(12.5e9 * efficiency)
    assert float(fast.scale_out_rate) == pytest.approx(63e9 * CATALOG.collectives["pcie"]["network"].typical)


def test_a_small_broadcast_overlaps_with_the_next():
    # 128 GPUs in 16 nodes: a call costs its launch and little more, whatever the length of the ring.
    m = cluster("a100-sxm", nodes=16).machine(TYPICAL)
    assert float(quickest("broadcast", 64, m, CALIBRATION)) == pytest.approx(float(m.base_latency), rel=0.1)


# Constants -----------------------------------------------------------------------------------------------------------


def test_every_constant_of_the_library_is_in_the_catalogue():
    names = {entry.name for entry in fields(library.Calibration)}
    assert names <= set(CATALOG.collectives["library"])


# NCCL's own tables ----------------------------------------------------------------------------------------------------


def test_the_cost_model_of_nccl_gives_the_latencies_that_nccl_prints():
    # A dump of NCCL's tuning on two nodes of one GPU: Tree 16.8, 31.0 and 36.4 us; Ring 16.6, 31.0 and 36.4 us.
    pair = cluster("a100-sxm", gpus_per_node=1, nodes=2, network_rate="20 Gb/s").machine(TYPICAL)
    times = nccl_tuning.library_times(0.0, pair, typical("nccl-tables"), typical("nccl-tree-correction"), "ampere")
    printed = {("tree", "ll"): 16.8, ("tree", "ll128"): 31.0, ("tree", "simple"): 36.4}
    printed |= {("ring", "ll"): 16.6, ("ring", "ll128"): 31.0, ("ring", "simple"): 36.4}
    assert {way: time * 1e6 for way, time in times.items()} == pytest.approx(printed)


def typical(group):
    return {name: estimate.typical for name, estimate in CATALOG.collectives[group].items()}


# The plan's all-reduce ------------------------------------------------------------------------------------------------


def reduced(message=1e9, **fields):
    return time_all_reduce(communication.of_scenario(Scenario(**fields), CATALOG), message)


@pytest.mark.parametrize("fields", [{}, {"gpus": 8}, {"gpu": "mi300x", "scale_out": "roce-400"}, {"profile": "ideal"}])
def test_the_plan_takes_the_quickest_way_and_says_by_how_much(fields):
    part = fold(with_alternatives(reduced(**fields)))
    quickest = min(part.alternatives, key=lambda way: way.time.typical)
    assert part.algorithm == quickest.algorithm
    assert part.time == quickest.time
    assert part.latency_share + part.bandwidth_share == pytest.approx(1.0)
    assert part.reason.startswith("Quickest is")


def test_the_curve_passes_through_the_plan():
    reduction = reduced(message=1e8)
    sizes = np.geomspace(1e6, 1e10, 5)  # 1e8 is in the middle
    curve = all_reduce_times(reduction.fabric, sizes)
    assert curve.best.time[2].tolist() == reduction.all_reduce.time.values.tolist()
    counts = all_reduce_times(reduction.fabric, 1e8, np.array([8.0, 1024.0]))
    assert counts.best.time[1].tolist() == pytest.approx(curve.best.time[2].tolist())


@pytest.mark.parametrize("fields", [{}, {"gpu": "gb200", "gpus": 1152}])
def test_a_swept_cluster_has_at_every_size_the_model_error_of_a_cluster_of_that_size(fields):
    # 72 GPUs of an NVL72 rack are one domain, 1,152 are sixteen: another class of hardware.
    fabric = communication.of_scenario(Scenario(**fields), CATALOG)
    counts = np.array([8.0, 72.0, fabric.gpus])
    swept = all_reduce_times(fabric, 1e9, counts).best.residual
    for error, gpus in zip(swept, counts, strict=True):
        alone = reduced(**fields | {"gpus": int(gpus)})
        assert error == pytest.approx(float(alone.times.best.residual)), gpus


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"algorithm": "hierarchical"}, "NCCL and RCCL have no hierarchical algorithm."),
        ({"algorithm": "nvls"}, "between nodes it needs switches that sum (SHARP)"),
        ({"algorithm": "nvls-tree", "gpu": "a100-sxm"}, "no switch that sums"),
        ({"algorithm": "nvls-tree", "protocol": "ll"}, "Simple protocol only"),
        ({"protocol": "ll128", "gpu": "l40s", "gpus": 64, "scale_out": "roce-200"}, "LL128 needs NVLink"),
    ],
)
def test_what_cannot_run_is_a_finding_and_no_number(fields, reason):
    reduction = reduced(**fields)
    part = fold(reduction.all_reduce)
    assert part.time is None
    assert part.bus_bandwidth is None
    assert any(reason in finding.message for finding in reduction.findings)


def test_a_forced_algorithm_is_timed_as_such():
    part = reduced(algorithm="ring", protocol="ll128").all_reduce
    assert (part.algorithm, part.protocol) == ("ring", "ll128")
    assert part.reason.startswith("Forced to a ring")


def test_one_gpu_has_nothing_to_reduce():
    part = fold(reduced(gpus=1).all_reduce)
    assert part.time.typical == 0.0
    assert part.reason == "One GPU has nothing to reduce."


def test_sharp_on_ethernet_is_left_out_and_said_so():
    reduction = reduced(scale_out="roce-400", in_network_reduction=True)
    assert [finding.code for finding in reduction.findings] == ["no-in-network-reduction"]
    ways = {way.algorithm for way in with_alternatives(reduction).alternatives}
    assert "ring" in ways
    assert "collnet" not in ways


def test_the_library_would_choose_the_same_for_large_messages():
    part = reduced(message=1e9, gpus=8).all_reduce
    assert part.library_choice == part.algorithm == "nvls"


def test_jobs_that_exchange_as_many_bytes_on_a_cluster_share_its_reduction():
    asked = Scenario(gpus=640, in_network_reduction=True)
    job = asked.model_copy(update={"training_tokens": 1e12, "global_batch": 640, "price_node": 100_000.0})
    shared = time_all_reduce(communication.of_scenario(asked, CATALOG), 1e9)
    assert time_all_reduce(communication.of_scenario(job, CATALOG), 1e9) is shared
    for other, message in ((asked, 2e9), (asked.model_copy(update={"profile": "ideal"}), 1e9)):
        assert time_all_reduce(communication.of_scenario(other, CATALOG), message) is not shared
