"""Slow nodes and bad links, alike in step, all-reduce and acceptance sheet."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.formulas.tail import slowest_of
from app.studies.acceptance import sheet

CATALOG = load_catalog()
SPREAD = {
    "tensor_parallel": 8, "pipeline_parallel": 4, "virtual_pipeline": 1, "micro_batch": 1, "sharding": "optimizer",
    "recompute": "full", "context_parallel": 1, "sequence_parallel": True,
}  # fmt: skip


def answers(**asked) -> dict[str, float]:
    """All-reduce, all-to-all and step [s], and the last bus bandwidth of the acceptance sheet [B/s]."""
    scenario = Scenario(**(SPREAD | asked))
    plan = evaluate(scenario, CATALOG)
    figures = [check for check in sheet(scenario, CATALOG).checks if check.figures][-1].figures
    return {
        "all_reduce": plan.all_reduce.time.typical,
        "all_to_all": plan.all_reduce.all_to_all_time.typical,
        "step": plan.training.step_time.typical,
        "sheet": figures[-1].band.typical,
    }


def codes(**asked) -> set[str]:
    return {finding.code for finding in evaluate(Scenario(**asked), CATALOG).findings}


def test_nodes_that_spread_more_keep_step_and_collectives_waiting_alike():
    """128 nodes: ς·Z is 0.63 % · 2.586 = 1.6 %, and at seven times the spread 11.3 %: 1.113/1.016 = 1.0955."""
    usual, wider = answers(), answers(jitter=0.098)
    spread = CATALOG.training["step"]["straggler"].typical * float(slowest_of(128))
    factor = (1 + 7 * spread) / (1 + spread)
    assert wider["all_reduce"] / usual["all_reduce"] == pytest.approx(factor)
    assert wider["all_to_all"] / usual["all_to_all"] == pytest.approx(factor)
    assert usual["sheet"] / wider["sheet"] == pytest.approx(factor)
    assert wider["step"] / usual["step"] > factor  # a step is also the end of a walk of many delays


def test_nodes_that_do_not_spread_are_quicker_but_not_than_the_textbook():
    assert all(answers(jitter=0)[name] < answers()[name] for name in ("all_reduce", "step"))
    ideal = [answers(profile="ideal", jitter=spread)["all_reduce"] for spread in (0, 0.014, 0.1)]
    assert ideal[0] == ideal[1] < ideal[2]


def test_a_slow_node_slows_a_collective_by_as_much_and_a_step_by_its_own_work():
    """10 % on 128 nodes that usually wait 1.6 %. A step waits for 64 of its 67 slots, those of the bubble apart."""
    usual, slow = answers(), answers(slow_node=0.1)
    spread = CATALOG.training["step"]["straggler"].typical * float(slowest_of(128))
    assert slow["all_reduce"] / usual["all_reduce"] == pytest.approx(1.1 / (1 + spread))
    alone = answers(jitter=0)
    assert 1.08 < answers(jitter=0, slow_node=0.1)["step"] / alone["step"] < 1 + 0.1 * 64 / 67 + 0.005


def test_a_node_no_slower_than_the_slowest_by_chance_changes_nothing():
    assert answers(slow_node=0.01) == answers()


def test_one_link_at_half_rate_halves_what_crosses_the_network_and_nothing_else():
    """Large messages: the whole ring waits for the one link; the step hides most of it under computation."""
    usual, half = answers(message=1e10), answers(message=1e10, link_rate_left=0.5)
    assert half["all_reduce"] / usual["all_reduce"] == pytest.approx(2, rel=0.05)
    assert half["all_to_all"] / usual["all_to_all"] == pytest.approx(2, rel=0.03)
    assert usual["step"] < half["step"] < 1.02 * usual["step"]
    assert answers(gpus=8, link_rate_left=0.5, **ONE_NODE) == answers(gpus=8, **ONE_NODE)


ONE_NODE = {"pipeline_parallel": 1, "model": "llama-3-8b"}


def test_one_packet_lost_in_a_hundred_costs_what_the_transport_sends_again():
    """50 GB/s · 40 us / 4,096 B = 488 packets under way: 0.99/(0.99 + 4.88) = 0.169; sent again alone: 0.99."""
    behind = answers(message=1e12, link_loss=0.01)["all_to_all"] / answers(message=1e12)["all_to_all"]
    assert behind == pytest.approx(1 / 0.169, rel=0.03)
    network = {"message": 1e10, "scale_out": "ultra-ethernet-400"}
    alone = answers(**network, link_loss=0.01)["all_to_all"] / answers(**network)["all_to_all"]
    assert alone == pytest.approx(1 / 0.99, rel=0.005)


def test_tcp_stalls_on_lost_packets_and_not_on_half_a_port_that_the_host_cannot_fill():
    usual = answers(scale_out="tcp-100")
    assert answers(scale_out="tcp-100", link_rate_left=0.5) == usual
    assert answers(scale_out="tcp-100", link_loss=0.01)["all_reduce"] > 2 * usual["all_reduce"]


def test_a_bad_link_between_switches_slows_only_what_crosses_them():
    """Rings of all rails enter a leaf once. Adaptive routing takes 31 links more; a hash binds flows to the bad one."""
    bad = {"degraded_link": "leaf-spine", "link_rate_left": 0.1}
    usual, adaptive = answers(), answers(**bad)
    assert adaptive["all_reduce"] == usual["all_reduce"]
    assert adaptive["step"] < 1.001 * usual["step"]
    hashed = {"load_balancing": "hashing", "message": 1e10}
    assert answers(**hashed, **bad)["all_to_all"] > 4 * answers(**hashed)["all_to_all"]


@pytest.mark.parametrize(("balancing", "share"), [("adaptive", 3.5 / 4), ("hashing", 0.5)])
def test_a_bad_link_of_one_plane_of_four_is_an_eighth_where_packets_take_all_planes(balancing, share):
    planes = {"planes": 4, "load_balancing": balancing, "message": 1e10}
    ratio = answers(**planes)["all_to_all"] / answers(**planes, link_rate_left=0.5)["all_to_all"]
    assert ratio == pytest.approx(share, rel=0.03)


def test_the_sheet_shows_the_bad_link_beside_the_others():
    def rates(**asked) -> dict[str, float]:
        checks = {check.key: check for check in sheet(Scenario(**asked), CATALOG).checks}
        return {figure.what: figure.band.typical for figure in checks["write"].figures}

    assert list(rates()) == ["BW average"]
    shown = rates(link_rate_left=0.5)
    assert shown["on the bad link"] == pytest.approx(shown["BW average"] / 2)
    assert list(rates(link_rate_left=0.5, degraded_link="leaf-spine")) == ["BW average"]


def test_a_bad_link_that_the_network_does_not_have_is_said():
    assert "no-such-link" in codes(gpus=8, link_rate_left=0.5)
    assert "no-such-link" in codes(gpus=64, link_loss=0.1, degraded_link="leaf-spine", topology="fat-tree")
    assert "no-such-link" not in codes(link_rate_left=0.5) | codes(gpus=8)


@pytest.mark.parametrize("uneven", [{"slow_node": 0.5}, {"slow_node": 2}, {"jitter": 0.014}, {"jitter": 0.1}])
def test_the_straggler_factor_is_the_step_over_that_of_even_nodes(uneven):
    """One replica without a bubble, all of it work: a node that is half slower makes the step 1.5 times as long."""
    layout = SPREAD | {"pipeline_parallel": 1, "gpus": 64, "sharding": "parameters"}
    even, waiting = (evaluate(Scenario(**layout | {"jitter": 0} | spread), CATALOG).training for spread in ({}, uneven))
    assert even.straggler == 1
    assert waiting.straggler == pytest.approx(waiting.step_time.typical / even.step_time.typical, rel=1e-9)
    if "slow_node" in uneven:
        assert waiting.straggler == pytest.approx(1 + uneven["slow_node"], rel=0.01)
