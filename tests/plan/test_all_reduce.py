"""All-reduces of several clusters at once."""

from typing import Any

import pytest

from app.catalog.load import load_catalog
from app.plan import all_reduce
from app.plan.all_reduce import Reduction, time_all_reduce, time_all_reduces, with_alternatives
from app.plan.band import fold, nan_is_an_answer
from app.plan.communication import of_scenario
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario

CATALOG = load_catalog()
MESSAGES = (2.0**20, 2e8)
SIZES = (1, 8, 16, 24, 1000, 4096, 30_000)
KINDS: dict[str, dict[str, Any]] = {
    "one domain and several": {},
    "tapered and hashed": {"scale_out": "roce-400", "oversubscription": 4, "load_balancing": "hashing"},
    "racks": {"gpu": "gb200", "in_network_reduction": True},
    "recorded": {"graphs": "full", "gpu": "h200-sxm"},
    "textbook": {"profile": "ideal"},
    "forced": {"algorithm": "nvls-tree"},
    "spoken": {"protocol": "ll128", "slow_node": 0.2},
}


@nan_is_an_answer
def told(reduction: Reduction) -> tuple[object, ...]:
    return fold(with_alternatives(reduction)), reduction.findings


@nan_is_an_answer
@pytest.mark.parametrize("kind", KINDS)
def test_clusters_timed_together_take_what_each_takes_alone(kind: str) -> None:
    fabrics = [of_scenario(Scenario(gpus=gpus, **KINDS[kind]), CATALOG) for gpus in SIZES]
    asked = [(fabric, message) for fabric in fabrics for message in MESSAGES]
    all_reduce._KEPT.forget()
    together = [told(each) for each in time_all_reduces(asked)]
    all_reduce._KEPT.forget()
    assert together == [told(time_all_reduce(*each)) for each in asked]


@nan_is_an_answer
def test_clusters_of_other_hardware_are_told_apart() -> None:
    asked = [(of_scenario(Scenario(gpus=256, **kind), CATALOG), 2e8) for kind in KINDS.values()]
    all_reduce._KEPT.forget()
    together = [told(each) for each in time_all_reduces(asked)]
    all_reduce._KEPT.forget()
    assert together == [told(time_all_reduce(*each)) for each in asked]


@nan_is_an_answer
def test_what_was_timed_last_is_kept_and_no_more_of_it_than_a_few() -> None:
    fabric = of_scenario(Scenario(gpus=64), CATALOG)
    first = time_all_reduce(fabric, 1e6)
    assert time_all_reduce(fabric, 1e6) is first
    time_all_reduces([(fabric, 1e6 + more) for more in range(1, 100)])
    assert len(all_reduce._KEPT) == all_reduce._KEPT.most
    assert time_all_reduce(fabric, 1e6) is not first


@pytest.mark.parametrize("gpu", [key for key, gpu in CATALOG.gpus.items() if gpu.platform])
def test_an_all_to_all_of_nodes_of_one_gpu_takes_what_their_ports_carry(gpu: str) -> None:
    """A lone GPU of a mesh has no links to others: GH200, MI300X and V100 had no time at all."""
    asked = Scenario(gpu=gpu, gpus=32, gpus_per_node=1, scale_up_domain=1, scale_out="infiniband-ndr")
    exchanged = time_all_reduce(of_scenario(asked, CATALOG), 8e9).all_reduce.all_to_all_time.typical
    ports = asked.nics_per_node or max(CATALOG.platforms[CATALOG.gpus[gpu].platform].nics_per_node, 1)
    assert exchanged >= 8e9 * 31 / 32 / (ports * 50e9)
    assert exchanged < 100 * 8e9 / 50e9


def test_experts_are_dealt_out_to_superchips_that_stand_alone() -> None:
    asked = {"gpu": "gh200", "gpus": 64, "gpus_per_node": 1, "model": "mixtral-8x7b", "global_batch": 512}
    plan = evaluate(Scenario(**asked, expert_parallel=8), CATALOG)
    assert plan.training.step_time is not None
    assert evaluate(Scenario(**asked), CATALOG).training.step_time.typical <= plan.training.step_time.typical
