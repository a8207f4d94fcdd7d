"""The network a plan designed, in everything that communicates."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from app import Scenario, evaluate
from app.catalog.load import Catalog, load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.group_times import Group, Links, collective_time, exchange_time, group_of
from app.formulas.collectives.library import Calibration as Library
from app.formulas.training.stacking import link_rows, stacked_links
from app.plan.communication import Communication, links_of_each, of_scenario
from app.plan.evaluate import evaluate_all_reduce
from app.plan.job.inputs import first_links
from app.plan.network import network_of
from app.studies.acceptance import sheet

CATALOG = load_catalog()
SPREAD = {
    "tensor_parallel": 8, "pipeline_parallel": 4, "virtual_pipeline": 1, "micro_batch": 1, "sharding": "optimizer",
    "recompute": "full", "nodes_per_unit": 32, "context_parallel": 1, "sequence_parallel": True,
}  # fmt: skip
APART, TOGETHER = {"rank_order": "tp-cp-ep-dp-pp"}, {"rank_order": "tp-cp-ep-pp-dp"}


def parts(**asked) -> dict[str, float]:
    """Parts of the step [s]."""
    return {part.name: part.time.typical for part in evaluate(Scenario(**asked), CATALOG).training.parts}


def test_replicas_in_a_unit_lose_nothing_by_its_taper_and_the_stages_between_units_do():
    flat, tapered = parts(**SPREAD, **APART), parts(**SPREAD, **APART, oversubscription=8)
    assert tapered["data_parallel"] == flat["data_parallel"]
    assert tapered["pipeline_parallel"] > 2 * flat["pipeline_parallel"]


def test_whole_pipelines_in_a_unit_lose_nothing_at_eight_to_one():
    """Eight of 32 replicas in each unit: 4 rings of a rail leaf's 32 hosts, which 8 : 1 carries; 64 : 1 halves none."""
    flat, tapered = parts(**SPREAD, **TOGETHER), parts(**SPREAD, **TOGETHER, oversubscription=8)
    assert tapered == flat
    assert parts(**SPREAD, **TOGETHER, oversubscription=32)["data_parallel"] > flat["data_parallel"]


def test_a_scattered_job_sends_its_gradients_across_the_taper():
    near, far = (parts(**SPREAD, **TOGETHER, oversubscription=8, placement=where) for where in PLACEMENTS)
    assert far["data_parallel"] > 2 * near["data_parallel"]
    assert parts(**SPREAD, placement="scattered") == parts(**SPREAD)


PLACEMENTS = ("contiguous", "scattered")


@pytest.mark.parametrize("order", [APART, TOGETHER])
def test_without_a_taper_the_order_of_ranks_moves_nothing(order):
    assert parts(**SPREAD, **order) == parts(**SPREAD)


def test_stages_beside_one_another_use_the_scale_up_link():
    """Two GPUs for each stage: all four stages in a node of eight, or each node of one stage alone."""
    pair = SPREAD | {"tensor_parallel": 2, "model": "llama-3-8b"}
    assert parts(**pair, **TOGETHER)["pipeline_parallel"] < 0.5 * parts(**pair, **APART)["pipeline_parallel"]


@pytest.mark.parametrize(
    ("asked", "tiers"),
    [
        ({}, []),
        ({"oversubscription": 2, "nodes_per_unit": 32}, [(256, 2, 2)]),  # 32 nodes of 8 GPUs
        ({"topology": "fat-tree", "oversubscription": 3}, [(32, 8 / 3, 8 / 3)]),  # 32 hosts on a leaf, 12 links up
        ({"gpus": 16384, "nodes_per_unit": 32, "spine_oversubscription": 3}, [(1536, 3, 3)]),  # 48 leaves, 6 units
        # 6 × 6 switches of 28.4 hosts, 8 links a neighbour: four of them, and the half that the bisection cuts, 5.3:1.
        ({"topology": "torus-2d"}, [(1024 / 9, 16 / 9, 16 / 9), (512, 16 / 3, 16 / 3)]),
        ({"topology": "mesh"}, [(32, 32 / 31, 64 / 31)]),  # 32 switches of 32 hosts, one link to every other
    ],
)
def test_tiers_are_those_of_the_designed_network(asked, tiers):
    found = network_of(Scenario(**asked), CATALOG).site.tiers
    assert [tier[:3] for tier in found] == [pytest.approx(tier) for tier in tiers]


RESULTS = ("all_reduce", "all_to_all", "step", "sheet", "switches")
"""What a change of the network can move: two collectives [s], the step [s], the last figure of the acceptance sheet."""


def reached(**asked) -> dict[str, object]:
    """Each of `RESULTS` for a plan of 4,096 GPUs whose parallelism is given."""
    scenario = Scenario(**({"gpus": 4096, "model": "llama-3-70b"} | SPREAD | asked))
    plan = evaluate(scenario, CATALOG)
    last = [check for check in sheet(scenario, CATALOG).checks if check.figures][-1].figures[-1].band.typical
    fabric = plan.fabric
    return dict(
        zip(
            RESULTS,
            (
                plan.all_reduce.time.typical,
                plan.all_reduce.all_to_all_time.typical,
                plan.training.step_time.typical,
                last,
                (fabric.leaf_switches, fabric.spine_switches, fabric.core_switches),
            ),
            strict=True,
        )
    )


TAPERED = {"oversubscription": 8}


@pytest.mark.parametrize(
    ("base", "change", "moves"),
    [
        # Contiguous rings of all rails enter each leaf once: a taper moves what crosses it, not the all-reduce.
        ({}, {"oversubscription": 8}, {"all_to_all", "step", "switches"}),
        ({"topology": "fat-tree"}, {"oversubscription": 16}, set(RESULTS)),
        ({"tiers": 3}, {"spine_oversubscription": 4}, {"all_to_all", "step", "switches"}),
        ({}, {"topology": "fat-tree"}, set()),
        (TAPERED, {"topology": "fat-tree"}, set(RESULTS) - {"switches"}),
        ({}, {"topology": "rail-only"}, {"all_to_all", "switches"}),
        ({}, {"topology": "torus-2d"}, {"all_to_all", "step", "switches"}),
        ({}, {"topology": "dragonfly"}, {"step", "switches"}),
        ({}, {"placement": "scattered"}, set()),
        (TAPERED, {"placement": "scattered"}, {"all_reduce", "step", "sheet"}),
        (TAPERED, {"rank_order": "tp-cp-ep-pp-dp"}, {"step"}),
        ({}, {"in_network_reduction": True}, {"all_reduce", "sheet"}),
        ({"sharding": "none"}, {"in_network_reduction": True}, {"all_reduce", "step", "sheet"}),
        ({}, {"jitter": 0.1}, {"all_reduce", "all_to_all", "step", "sheet"}),
        ({}, {"scale_up_domain": 4}, {"all_reduce", "all_to_all", "step", "sheet"}),
        ({}, {"price_switch": 1e5}, set()),
    ],
)
def test_each_field_of_the_network_moves_what_it_should_and_nothing_else(base, change, moves):
    before, after = reached(**base), reached(**(base | change))
    assert {name for name in RESULTS if before[name] != after[name]} == moves


LARGE = 1.41e11
"""A message whose latency does not count [B]."""


def test_smaller_domains_enter_the_network_on_fewer_ports():
    """A ring that enters a domain once uses its ports together: half as many GPUs a domain, half the rate."""
    whole, half = (
        evaluate(Scenario(scale_up_domain=size, profile=PROFILE, message=LARGE), CATALOG).all_reduce for size in (8, 4)
    )
    assert half.time.typical / whole.time.typical == pytest.approx(2, rel=0.01)
    assert half.all_to_all_time.typical / whole.all_to_all_time.typical == pytest.approx(1020 / 1016, rel=1e-3)


def test_an_all_to_all_across_a_taper_takes_as_long_as_the_bytes_that_leave_a_unit():
    """1,024 GPUs in units of 256: 768 of 1,016 peers outside a node are outside the unit; 8 · 768/1,016 = 6.05."""
    flat, tapered = (
        evaluate(
            Scenario(nodes_per_unit=32, oversubscription=taper, profile=PROFILE, message=LARGE), CATALOG
        ).all_reduce
        for taper in (1, 8)
    )
    assert tapered.all_to_all_time.typical / flat.all_to_all_time.typical == pytest.approx(8 * 768 / 1016, rel=1e-3)


PROFILE = "ideal"


def test_rails_that_nothing_joins_send_seven_eighths_through_the_scale_up_link_first():
    """48.5 of 50 GB/s of network, 450 GB/s of NVLink: (g - 1)/g · 48.5/450 = 9.4 % more; published: 8.2 to 11.2 %."""
    joined, apart = (
        evaluate(
            Scenario(topology=topology, profile=PROFILE, message=LARGE), CATALOG
        ).all_reduce.all_to_all_time.typical
        for topology in ("rail-optimized", "rail-only")
    )
    assert apart / joined - 1 == pytest.approx(7 / 8 * 48.5 / 450, rel=1e-2)


@pytest.mark.parametrize(
    ("base", "change", "moves"),
    [
        ({"scale_out": "roce-400"}, {"load_balancing": "hashing"}, set(RESULTS) - {"switches"}),
        ({"topology": "fat-tree"}, {"load_balancing": "hashing"}, set(RESULTS) - {"switches"}),
        ({}, {"load_balancing": "adaptive"}, set()),
        ({}, {"load_balancing": "spraying"}, set()),
        ({"load_balancing": "hashing"}, {"planes": 4}, {"all_reduce", "step", "sheet", "switches"}),
    ],
)
def test_how_flows_are_spread_moves_what_crosses_leaves_and_no_switch(base, change, moves):
    before, after = reached(**base), reached(**(base | change))
    assert {name for name in RESULTS if before[name] != after[name]} == moves


@pytest.mark.parametrize(
    ("scale_out", "tuned", "way"),
    [
        ("infiniband-ndr", True, "adaptive"),
        ("roce-400", True, "flowlet"),
        ("roce-400", False, "hashing"),
        ("spectrum-x-400", True, "adaptive"),
        ("ultra-ethernet-400", True, "spraying"),
        ("tcp-100", True, "hashing"),
    ],
)
def test_a_blank_is_filled_with_what_the_network_and_its_tuning_do(scale_out, tuned, way):
    assert evaluate(Scenario(scale_out=scale_out, tuned=tuned), CATALOG).scenario["load_balancing"] == way


def test_better_load_balancing_never_slows_a_plan():
    """Hashing, flowlets, adaptive, spraying on a plain fat tree of RoCE, with stages and gradients across leaves."""
    for results in ("all_reduce", "all_to_all", "step"):
        times = [
            reached(scale_out="roce-400", topology="fat-tree", load_balancing=way)[results]
            for way in ("hashing", "flowlet", "adaptive", "spraying")
        ]
        assert times == sorted(times, reverse=True)


def test_tcp_is_as_fast_on_any_port_and_says_that_the_host_copies():
    slow, fast = (evaluate(Scenario(scale_out=f"tcp-{rate}"), CATALOG) for rate in (100, 400))
    assert slow.all_reduce.time.typical == fast.all_reduce.time.typical
    assert all("host-copies" in {finding.code for finding in plan.findings} for plan in (slow, fast))


def test_colliding_flows_are_a_finding_where_they_cost_something():
    def codes(**asked):
        return {finding.code for finding in evaluate(Scenario(**asked), CATALOG).findings}

    assert "flows-collide" in codes(scale_out="roce-400", tuned=False, topology="fat-tree")
    assert "flows-collide" not in codes(scale_out="roce-400", tuned=False)


def test_the_table_of_groups_says_where_each_stands_and_what_it_sends():
    """Llama 3 70B, 64 micro-batches of 8,192 tokens: pipeline 64 · 8,192 · 8,192 · 2/8 bytes each way, 1.07 GB."""
    asked = SPREAD | APART | {"recompute": "none", "oversubscription": 8}
    rows = {row.group: row for row in evaluate(Scenario(**asked), CATALOG).training.groups}
    assert {name: row.crosses for name, row in rows.items()} == {
        "tensor_parallel": "scale_up",
        "pipeline_parallel": "spine",
        "data_parallel": "leaf",
    }
    assert rows["pipeline_parallel"].sent == pytest.approx(2 * 64 * 8192 * 8192 * 2 / 8)
    assert rows["tensor_parallel"].sent_inside == pytest.approx(1.2e12, rel=0.01)
    assert rows["tensor_parallel"].sent == 0
    assert rows["pipeline_parallel"].bandwidth == pytest.approx(rows["data_parallel"].bandwidth / 8)
    slower = 1 / CATALOG.training["communication"]["scale_out"].typical  # across the network, beside computation
    assert all(row.exposed <= row.time * (1 + 1e-9) * slower for row in rows.values())


@pytest.mark.parametrize("profile", ["calibrated", "ideal"])
@pytest.mark.parametrize(
    "asked", [{}, {"in_network_reduction": True}, {"scale_up_domain": 4}, {"topology": "fat-tree"}]
)
def test_the_gradients_of_a_step_take_what_an_all_reduce_of_as_many_bytes_takes(profile, asked):
    """Pythia 410M on 64 GPUs, each with all of it: gradients of 4 bytes, in buckets of 200 MB, one after the other."""
    asked = asked | {"profile": profile, "gpus": 64, "oversubscription": 2 if "topology" in asked else 1}
    alone = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "sharding": "none", "micro_batch": 1}
    plan = evaluate(Scenario(model="pythia-410m", gradient_bytes=4, **alone, **asked), CATALOG)
    (group,) = plan.training.groups
    assert (group.group, group.ranks) == ("data_parallel", 64)
    held, bucket = group.sent_inside * 64 / 63 / 2, CATALOG.training["communication"]["bucket"].typical
    assert held == pytest.approx(4 * plan.training.parameters, rel=1e-3)
    calls = held / bucket
    reduced = evaluate_all_reduce(Scenario(message=bucket, **asked), CATALOG).all_reduce
    assert group.time == pytest.approx(calls * reduced.time.typical, rel=1e-9)


def test_an_all_reduce_in_one_bucket_by_hand():
    """Ring of 8 A100 in the ideal profile, 2(n - 1)/n · S/B and 2(n - 1) hops: 7/4 · 200 MB / 300 GB/s = 1.17 ms."""
    asked = {"gpu": "a100-sxm", "gpus": 8, "profile": "ideal"}
    reduced = evaluate_all_reduce(Scenario(message=200e6, **asked), CATALOG).all_reduce
    assert reduced.time.typical == pytest.approx(7 / 4 * 200e6 / 300e9, rel=0.05)
    alone = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "sharding": "none", "micro_batch": 1}
    plan = evaluate(Scenario(model="pythia-410m", gradient_bytes=4, **alone, **asked), CATALOG)
    group = plan.training.groups[0]
    calls = group.sent_inside * 8 / 7 / 2 / 200e6
    assert group.time == pytest.approx(calls * reduced.time.typical, rel=1e-9)


@pytest.mark.parametrize(
    "asked", [{"model": "deepseek-v3", "gpus": 2048}, {"model": "llama-3-8b", "gpus": 64}, {"gpus": 1}]
)
def test_the_table_of_groups_shows_what_the_parts_of_the_step_show(asked):
    training = evaluate(Scenario(**asked), CATALOG).training
    shown = {part.name: part.time.typical for part in training.parts if part.name.endswith("_parallel")}
    assert {row.group: row.exposed for row in training.groups} == pytest.approx(shown)


def test_an_all_reduce_by_itself_says_what_its_plan_says_of_the_slot_and_the_flows():
    found = evaluate_all_reduce(Scenario(scale_out="infiniband-xdr"), CATALOG)
    assert "pcie-too-slow" in {finding.code for finding in found.findings}
    assert found.scenario["load_balancing"] == "adaptive"
    assert "pcie-too-slow" not in {finding.code for finding in evaluate_all_reduce(Scenario(), CATALOG).findings}


@pytest.mark.parametrize("calibration", ["", "2~0.05,0.8~0.02,1.5~0.1"])
def test_clusters_share_the_librarys_constants_which_tell_what_can_be_timed_together(calibration: str):
    asked = ({"gpus": 64}, {"gpus": 1024, "scale_out": "roce-400"})
    first, second = (of_scenario(Scenario(**each, calibration=calibration or None), CATALOG) for each in asked)
    assert typical_library(first) is typical_library(second)
    assert first.links(TYPICAL).interconnect.library.peer_overhead == 0


@pytest.mark.parametrize("balancing", ["hashing", "flowlet"])
@pytest.mark.parametrize("topology", ["dragonfly", "mesh", "rail-optimized"])
def test_twice_the_gpus_never_make_an_all_reduce_faster_where_flows_are_bound_to_a_path(topology, balancing):
    """Two routers of a dragonfly's group share one link in one group of 2,048 GPUs and in each of two."""
    asked = {"scale_out": "roce-400", "switch": "sn5600", "topology": topology, "load_balancing": balancing}
    sizes = [256, 512, 1024, 2048, 4096, *([] if topology == "mesh" else [8192, 16384])]
    plans = [evaluate_all_reduce(Scenario(**asked, gpus=gpus, message=2e8), CATALOG) for gpus in sizes]
    times = [plan.all_reduce.time.typical for plan in plans]
    assert all(later > 0.97 * before for before, later in itertools.pairwise(times))
    warned = ["flows-on-one-path" in {finding.code for finding in plan.findings} for plan in plans]
    assert warned[-1] == (topology != "rail-optimized")


def test_flows_bound_to_the_one_link_of_two_routers_are_a_warning_that_says_what_to_change():
    # Eight rails of a node on one link: an eighth.
    asked = {"scale_out": "roce-400", "topology": "dragonfly", "gpus": 4096}
    (finding,) = [one for one in network_of(Scenario(**asked), CATALOG).findings if one.code == "flows-on-one-path"]
    assert finding.severity == "warning"
    assert "has 12 % of the network's rate, and 100 %" in finding.message.replace("\u202f", " ").replace("\xa0", " ")
    free = network_of(Scenario(**asked, **finding.changes), CATALOG)
    assert "flows-on-one-path" not in {one.code for one in free.findings}


@pytest.mark.parametrize(
    "asked",
    [
        {"topology": "dragonfly", "gpus": 4096, "placement": "scattered", "load_balancing": "adaptive"},
        {"topology": "mesh", "gpus": 256, "switch": "sn5600"},  # 21 links between two switches for eight rails
        {"topology": "torus-2d", "gpus": 4096},
        {"topology": "dragonfly", "gpus": 4096, "load_balancing": "spraying"},
        {"oversubscription": 4, "gpus": 4096},
    ],
)
def test_flows_that_have_links_enough_are_no_warning(asked):
    found = network_of(Scenario(scale_out="roce-400", **asked), CATALOG).findings
    assert "flows-on-one-path" not in {one.code for one in found}


@pytest.mark.parametrize("balancing", ["hashing", "flowlet"])
@pytest.mark.parametrize("topology", ["mesh", "dragonfly", "torus-2d", "torus-3d"])
@pytest.mark.parametrize("gpus", [1024, 4096])
def test_flows_bound_to_a_path_are_no_faster_between_nodes_taken_at_random(topology, balancing, gpus):
    asked = {"scale_out": "roce-400", "topology": topology, "load_balancing": balancing, "gpus": gpus, "message": 1e9}
    near, far = (evaluate_all_reduce(Scenario(**asked, placement=placement), CATALOG) for placement in PLACEMENTS)
    assert far.all_reduce.time.typical >= near.all_reduce.time.typical
    warned = ["flows-on-one-path" in {finding.code for finding in plan.findings} for plan in (near, far)]
    assert warned == [topology in ("mesh", "dragonfly")] * 2


@pytest.mark.parametrize("asked", [{}, {"profile": "ideal"}, {"in_network_reduction": True}])
def test_gpus_that_do_not_fill_their_nodes_have_the_ports_of_those_that_are_there(asked):
    """10 GB over nine GPUs in two nodes: half of them have 225 GB/s, which takes 44 ms, twice that where GPUs sum."""
    plan = evaluate(Scenario(gpus=9, message=10e9, model="llama-3-8b", **asked), CATALOG)
    wire = 10e9 / (4.5 * 50e9)
    assert wire < plan.all_reduce.time.typical < 2.2 * wire
    sends = 10e9 / 2 / 50e9  # half of it to the other node, over a port
    assert sends < plan.all_reduce.all_to_all_time.typical < 1.2 * sends


def test_gpus_that_do_not_fill_their_racks_stand_in_them_evenly():
    """512 GB200 need eight racks of 72, as 576 do: 64 in each, and not seven full ones and 8 GPUs."""
    asked = {"gpu": "gb200", "model": "llama-3-8b"}
    some, all_ = (links_of(gpus=gpus, **asked) for gpus in (512, 576))
    assert float(np.ravel(of_scenario(Scenario(gpus=512, **asked), CATALOG).machine(TYPICAL).fewest)[0]) == 64
    of_some, of_all = (group_of(links, [(8.0, links.site.gpus / 8)]) for links in (some, all_))
    assert (float(of_some.machine.ranks_per_domain), float(of_all.machine.ranks_per_domain)) == (8, 9)


@pytest.mark.parametrize(("network", "wire"), [("infiniband-ndr", 8 * 50e9), ("roce-100", 8 * 12.5e9)])
def test_the_range_of_a_ring_ends_where_the_wire_does(network, wire):
    """Eight ports of 400 and 100 Gb/s in each node; with sums in the switches half as many bytes pass them."""
    asked = {"gpus": 64, "message": 2.0**34, "scale_out": network, "model": "llama-3-8b"}
    ring = evaluate_all_reduce(Scenario(**asked, algorithm="ring"), CATALOG).all_reduce
    assert ring.bus_bandwidth.high == pytest.approx(wire)
    assert ring.time.low == pytest.approx(2 * 63 / 64 * 2.0**34 / wire)
    assert ring.algorithm_bandwidth.high == pytest.approx(2.0**34 / ring.time.low)
    for reduced in (True, False):
        all_reduce = evaluate_all_reduce(Scenario(**asked, in_network_reduction=reduced), CATALOG).all_reduce
        for way in all_reduce.alternatives:
            factor = 2 if way.algorithm in ("nvls", "collnet") else 1.125 if way.algorithm != "ring" else 1
            assert way.bus_bandwidth.high <= factor * wire * (1 + 1e-9), way.algorithm


RACKS = {"gpu": "gb200", "model": "llama-3-70b", "pipeline_parallel": 1, "context_parallel": 1, "tensor_parallel": 16}


def test_the_group_that_stands_in_two_racks_is_what_all_wait_for():
    """Nine groups of 16 on two racks of 72, four whole in each, so one has 8 in either; eight groups are all whole."""
    groups = [evaluate(Scenario(gpus=gpus, **RACKS), CATALOG).training.groups[0] for gpus in (144, 128)]
    assert [(group.ranks_inside, group.crosses) for group in groups] == [(8, "leaf"), (16, "scale_up")]
    split = group_of(links_of(gpus=144, **RACKS), [(1.0, 16.0)])
    across = group_of(links_of(gpus=128, **RACKS), [(9.0, 16.0)]).machine.but(
        ranks_per_domain=8.0, domains=2.0, missing=0.0, emptiest=8.0
    )
    halves = Group(across, split.library, ideal=False)
    assert collective_time(split, "all-reduce", 1e9) == pytest.approx(collective_time(halves, "all-reduce", 1e9))


def test_ranks_of_the_smaller_part_send_most_of_their_tokens_to_the_other():
    """32 groups of 64 on 29 racks of 72: one has 8 GPUs in a rack, whose ports take 56/64 of what each sends."""
    experts = {"model": "deepseek-v3", "precision": "fp8", "expert_parallel": 64, "tensor_parallel": 1}
    group = group_of(links_of(gpu="gb200", gpus=2048, profile="ideal", **experts), [(1.0, 64.0)])
    m = group.machine
    assert (m.domains, m.fewest, m.ranks, m.away) == (2, 8, 64, 56 / 64)
    time = float(exchange_time(group, 0.0, m.away * 64e9))
    assert time == pytest.approx(56e9 / float(m.scale_out_line), rel=1e-3)


BRIDGED = {
    "model": "llama-3-8b", "pipeline_parallel": 1, "context_parallel": 1, "sharding": "optimizer", "micro_batch": 1,
    "recompute": "full",
}  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "pair"), [("h100-nvl", 2), ("h100-pcie", 2), ("a100-pcie", 2), ("h200-nvl", 4), ("h200-nvl", 2)]
)
def test_another_pair_does_not_slow_the_bridge_of_the_first(gpu, pair):
    """A quarter, or half, of the micro-batches over the same bridge: the traffic of each takes as long."""
    few, many = (
        evaluate(Scenario(gpu=gpu, gpus=gpus, tensor_parallel=pair, global_batch=256, **BRIDGED), CATALOG).training
        for gpus in (4 if gpu == "h200-nvl" else 2, 16)
    )
    alone, beside = (training.groups[0] for training in (few, many))
    assert alone.group == beside.group == "tensor_parallel"
    assert beside.bandwidth == pytest.approx(alone.bandwidth)
    batches = few.parallelism.micro_batches / many.parallelism.micro_batches
    assert alone.time == pytest.approx(batches * beside.time)


@pytest.mark.parametrize(("gpu", "joined"), [("h100-nvl", 2), ("h200-nvl", 4)])
def test_a_bridge_keeps_its_rate_whatever_domain_is_asked_for(gpu, joined):
    """It has no links to GPUs that it does not join: a domain of eight divides them no further."""
    asked = {"gpu": gpu, "gpus": 16, "tensor_parallel": joined, "global_batch": 256, **BRIDGED}
    own, wide = (
        evaluate(Scenario(**asked, scale_up_domain=domain), CATALOG).training.groups[0] for domain in (joined, 8)
    )
    assert wide.bandwidth == own.bandwidth


def test_groups_beyond_a_bridge_meet_over_pcie_and_no_network():
    """Four of eight H100 NVL in one server, bridged in pairs."""
    plan = evaluate(Scenario(gpu="h100-nvl", gpus=8, tensor_parallel=4, model="llama-3-8b"), CATALOG)
    tensor = plan.training.groups[0]
    pcie = CATALOG.scale_up[CATALOG.gpus["h100-nvl"].pcie].bandwidth.typical
    assert tensor.crosses == "scale_up"
    assert tensor.bandwidth < pcie
    assert "scale_out" not in {part.resource for part in plan.training.parts}
    assert "tensor-parallel-across-network" not in {finding.code for finding in plan.findings}


@pytest.mark.parametrize("profile", ["calibrated", "ideal"])
def test_bridged_clusters_side_by_side_are_what_each_is_by_itself(profile):
    links = [first_links(links_of(gpu="h100-nvl", gpus=gpus, profile=profile)) for gpus in (8, 64)]
    columns = link_rows(stacked_links(links), np.array([1, 0]))
    for size in (2.0, 4.0, 8.0):
        both = collective_time(group_of(columns, [(1.0, size)]), "all-reduce", 1e8)
        alone = [float(collective_time(group_of(each, [(1.0, size)]), "all-reduce", 1e8)) for each in links[::-1]]
        np.testing.assert_allclose(np.broadcast_to(both, 2), alone)


@pytest.mark.parametrize("asked", [{}, {"gpu": "gb200"}, {"gpu": "h100-nvl"}, {"gpu": "a100-pcie"}])
@pytest.mark.parametrize("profile", ["calibrated", "ideal"])
def test_groups_of_clusters_of_many_sizes_are_what_each_has_by_itself(asked, profile):
    sizes = (8, 16, 64, 72, 144, 1024, 4096)
    axes = [[(1.0, 8.0)], [(1.0, 2.0)], [(8.0, 2.0)]]

    def times(gpus: int, catalog: Catalog) -> list[float]:
        scenario = Scenario(gpus=gpus, profile=profile, **asked)
        links = first_links(of_scenario(scenario, catalog).links(TYPICAL))
        return [float(collective_time(group_of(links, each), "all-reduce", 1e8)) for each in axes]

    together = [times(gpus, CATALOG) for gpus in sizes]
    assert [times(gpus, replace(CATALOG)) for gpus in sizes] == together


def test_what_joins_the_gpus_of_clusters_does_not_depend_on_how_many_domains_they_fill():
    first, second = (links_of(gpus=gpus) for gpus in (512, 8192))
    assert first.interconnect is second.interconnect
    assert group_of(first, [(1.0, 8.0)]) is group_of(second, [(1.0, 8.0)])
    assert links_of(gpus=8).interconnect is not first.interconnect


def typical_library(fabric: Communication) -> Library:
    """The constants of the library as groups of a cluster take them, typically."""
    return first_links(fabric.links(TYPICAL)).interconnect.library


def links_of(**asked) -> Links:
    """The links of a cluster as its groups meet them."""
    return of_scenario(Scenario(**asked), CATALOG).links(TYPICAL)


def test_the_rate_of_a_group_is_that_of_the_link_that_binds() -> None:
    """A replica's gradients on L40S wait for PCIe, which all rings of a server pass, not for its eight ports."""
    bus, _, gradients = evaluate(Scenario(gpu="l40s", gpus=64, model="llama-3-8b"), CATALOG).training.groups
    assert (bus.group, bus.crosses) == ("context_parallel", "scale_up")
    assert (gradients.group, gradients.crosses) == ("data_parallel", "leaf")
    assert gradients.bandwidth == pytest.approx(bus.bandwidth)
    assert gradients.sent_inside / gradients.bandwidth == pytest.approx(gradients.time, rel=0.15)


def test_gradients_of_one_gpu_of_a_server_each_have_the_rate_of_their_port() -> None:
    tensor, gradients = evaluate(
        Scenario(gpus=64, model="llama-3-8b", tensor_parallel=8, pipeline_parallel=1, context_parallel=1), CATALOG
    ).training.groups
    assert gradients.ranks_inside == 1
    assert gradients.bandwidth < 400e9 / 8 < tensor.bandwidth


@pytest.mark.parametrize("profile", ["calibrated", "ideal"])
def test_links_of_clusters_of_several_sizes_are_those_of_each(profile: str) -> None:
    """Of a few nodes and of many; the links of the first are the ones that it has."""
    fabrics = [of_scenario(Scenario(gpus=gpus, profile=profile), CATALOG) for gpus in (64, 16, 1024, 2048)]
    together = links_of_each(fabrics, TYPICAL)
    assert together[0] is fabrics[0].links(TYPICAL)
    for links, fabric in zip(together, fabrics, strict=True):
        each = fabric.links(TYPICAL)
        assert links.site is each.site
        assert repr(links.interconnect) == repr(each.interconnect)
