"""The network a plan designed, in everything that communicates."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.plan.network import network_of

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
        ({"topology": "fat-tree", "oversubscription": 3}, [(48, 3, 3)]),  # 48 ports down, 16 up
        ({"gpus": 16384, "nodes_per_unit": 32, "spine_oversubscription": 3}, [(1536, 3, 3)]),  # 48 leaves, 6 units
        ({"topology": "torus-2d"}, [(128, 2, 2), (576, 6, 6)]),  # 6 × 6 switches of 32 hosts, 8 links a neighbour
        ({"topology": "mesh"}, [(32, 32 / 31, 64 / 31)]),  # 32 switches of 32 hosts, one link to every other
    ],
)
def test_tiers_are_those_of_the_designed_network(asked, tiers):
    found = network_of(Scenario(**asked), CATALOG).traffic_tiers
    assert [tuple(tier) for tier in found] == [pytest.approx(tier) for tier in tiers]
