"""A leaf, a spine or a link fails: what is left, against counts by hand."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.studies.failed_parts import FailedPart, _fabric, _failures, failed_parts, link_loads

CATALOG = load_catalog()


def scenario(**fields: object) -> Scenario:
    return Scenario.model_validate(fields, context={"catalog": CATALOG})


def failed(**fields: object) -> dict[str, FailedPart]:
    asked = scenario(**fields)
    plan = evaluate(asked, CATALOG, ())
    return {one.key: one for one in failed_parts(asked, CATALOG, plan.all_reduce.message, plan.training.parallelism)}


@pytest.fixture(scope="module")
def usual() -> dict[str, FailedPart]:
    return failed()


def test_each_leaf_loses_two_of_32_uplinks_with_one_of_16_spines(usual: dict[str, FailedPart]) -> None:
    spine = usual["spine"]
    assert "30 of 32 links up" in spine.effect
    assert spine.bisection == pytest.approx(25e9 * 30 / 32)
    assert usual["link"].bisection == pytest.approx(25e9 * (1 - 1 / 1024))  # one of 32 leaves loses one of its 32
    assert spine.step is not None
    assert usual["link"].step is not None
    assert usual["link"].step < spine.step


def test_the_only_spine_of_a_rail_leaves_seven_rails_between_units() -> None:
    # 512 GPUs: 64 nodes on two leaves a rail, whose 2 × 32 links up fill the one spine of the rail.
    spine = failed(gpus=512, spine_policy="rail")["spine"]
    assert spine.effect == "The only one above its leaves; between units nodes have 7 of 8 links."
    assert spine.bisection == pytest.approx(25e9 * 7 / 8)
    assert spine.all_reduce_factor == pytest.approx(8 / 7, rel=0.05)


def test_a_spine_of_a_rail_takes_from_the_leaves_of_its_rail_alone() -> None:
    # 1,024 GPUs: two spines a rail, so four of 32 leaves lose half of their links.
    spine = failed(gpus=1024, spine_policy="rail", tensor_parallel=8, pipeline_parallel=1)["spine"]
    assert "16 of 32 links up" in spine.effect
    assert spine.bisection == pytest.approx(25e9 * (1 - 0.5 * 4 / 32))


def test_two_spines_share_the_links_of_three_leaves_evenly() -> None:
    # Nine nodes on three leaves: two spines of 64 ports could take 21 links of a leaf, which has 16 for each.
    spine = failed(gpus=72, topology="fat-tree", model="llama-3-8b")["spine"]
    assert "16 of 32 links up" in spine.effect


def test_all_traffic_above_the_leaves_feels_a_spine_that_failed() -> None:
    asked = scenario()
    network = network_of(asked, CATALOG)
    spine = next(failure for failure in _failures(network) if failure.key == "spine")
    (tier,) = _fabric(spine, network, asked, CATALOG).site.tiers
    assert (tier.spread, tier.neighbour, tier.uplinks) == (pytest.approx(32 / 30), pytest.approx(32 / 30), 30)


def test_a_leaf_of_a_rail_leaves_its_nodes_seven_of_eight_links(usual: dict[str, FailedPart]) -> None:
    assert "7 of 8 links" in usual["leaf"].effect
    assert usual["leaf"].step == usual["node-link"].step  # all wait for the slowest node, one or 32 of them
    assert usual["leaf"].bisection == pytest.approx(25e9 * 31 / 32)


def test_nothing_gets_quicker_by_failing(usual: dict[str, FailedPart]) -> None:
    for one in usual.values():
        assert one.all_reduce_factor is not None
        assert one.step_factor is not None
        assert 1 <= one.all_reduce_factor < 8 / 7 + 1e-9  # nothing loses more than one link of eight
        assert 1 < one.step_factor < 8 / 7


@pytest.mark.parametrize(
    "bad",
    [
        {"degraded_link": "leaf-spine", "link_loss": 0.01},
        {"degraded_link": "leaf-spine", "link_rate_left": 0.5},
        {"link_rate_left": 0.5},
        {"slow_node": 0.2},
    ],
)
def test_a_part_fails_in_a_cluster_whose_others_are_sound(bad: dict[str, object], usual: dict[str, FailedPart]) -> None:
    asked = scenario(**bad)
    plan = evaluate(scenario(), CATALOG, ())
    found = failed_parts(asked, CATALOG, plan.all_reduce.message, plan.training.parallelism)
    assert {one.key: one for one in found} == usual


def test_calls_that_are_recorded_are_recorded_when_a_part_has_failed() -> None:
    """The all-reduce of 64 KiB of two trays of a rack takes 7 µs, and nothing of it the network between them."""
    asked = {"gpu": "gb200", "gpus": 8, "model": "llama-3-8b", "message": "64 KiB", "graphs": "full"}
    plan = evaluate(scenario(**asked), CATALOG, ())
    for one in failed(**asked).values():
        assert one.all_reduce_factor == pytest.approx(1)
        assert one.all_reduce == pytest.approx(plan.all_reduce.time.typical)


def test_a_leaf_that_all_links_of_a_node_reach_cuts_it_off() -> None:
    leaf = failed(topology="fat-tree")["leaf"]
    assert "cut off" in leaf.effect
    assert (leaf.all_reduce, leaf.step, leaf.step_factor) == (None, None, None)


def test_one_switch_has_no_spine_to_lose_and_a_torus_is_not_a_tree() -> None:
    assert set(failed(gpus=16, model="llama-3-8b")) == {"node-link"}
    assert failed(topology="torus-2d") == {}


def test_links_up_are_full_of_what_leaves_a_unit() -> None:
    # Units of 32 nodes: a ring of each rail leaves once in 32; of 1,016 GPUs on other nodes 768 are in other units.
    node, leaf = link_loads(scenario(), CATALOG)
    assert (node.ring, node.exchange) == (1, 1)
    assert leaf.ring == pytest.approx(1 / 32)
    assert leaf.exchange == pytest.approx(768 / 1016)
    tapered = link_loads(scenario(oversubscription=2), CATALOG)[1]
    assert tapered.exchange == pytest.approx(2 * 768 / 1016)


def test_a_cluster_of_pods_has_links_to_cores_too() -> None:
    names = [load.tier for load in link_loads(scenario(gpus=16384), CATALOG)]
    assert names == ["Node to leaf", "Leaf to spine", "Spine to core"]
