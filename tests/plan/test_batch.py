"""GPU counts and batches that go together, and what is sold whole."""

from typing import Any

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.job import batch
from app.plan.job.inputs import usual_batch
from app.plan.result import Plan
from app.plan.scenario import ModelRequest, Scenario
from app.units import percent

CATALOG = load_catalog()
DAY = 86400


def plan_of(**asked: object) -> Plan:
    return evaluate(Scenario.model_validate(asked), CATALOG)


def days(plan: Plan) -> float:
    assert plan.training.time_to_train is not None
    return plan.training.time_to_train.typical / DAY


def finding(plan: Plan, code: str) -> dict[str, object]:
    (found,) = [one for one in plan.findings if one.code == code]
    return dict(found.changes)


@pytest.mark.parametrize(
    ("gpus", "sequences"),
    [
        (1000, 2000),  # 2 · 1,000
        (1016, 2032),  # 2 · 1,016: the largest cluster of four SuperPOD units
        (1024, 2048),
        (1040, 2080),
        (1104, 2070),  # 15/8 · 1,104
        (1200, 2100),  # 7 · 1,200/4: four ranks share a replica's batch
        (1600, 2000),  # 5/4 · 1,600; 2,048 left it a third of its rate, 123 days for 94
        (2000, 2000),
        (5376, 2688),  # 5,376/2
        (16384, 2048),
    ],
)
def test_a_blank_batch_divides_among_the_gpus_near_the_usual_one(gpus: int, sequences: int) -> None:
    plan = plan_of(gpus=gpus)
    assert plan.scenario["global_batch"] == sequences
    assert plan.training.mfu is not None
    assert plan.training.mfu.typical > 0.41


@pytest.mark.parametrize(
    ("asked", "even"),
    [
        ({"gpu": "mi325x", "gpus": 952, "model": "qwen-3-0.6b"}, 1904),  # 2,142 is nearer, and divides 238 only
        ({"gpu": "h100-pcie", "gpus": 1216, "model": "megatron-22b"}, 2432),
        ({"gpu": "a100-64g-sxm", "gpus": 120, "model": "mpt-760m", "sequence_length": 32768}, 480),
    ],
)
def test_a_nearer_batch_that_few_replicas_share_is_not_taken_unseen(asked: dict[str, Any], even: int) -> None:
    """Small models run quickest with a replica on each GPU, which a batch of a fourth of the GPUs leaves out."""
    blank, typed = plan_of(**asked), plan_of(**asked, global_batch=even)
    assert blank.training.tokens_per_second.typical >= typed.training.tokens_per_second.typical * (1 - 1e-9)


@pytest.mark.parametrize("gpus", [250, 500, 750, 1000, 1500, 2000, 2500, 3000, 5000, 6000, 10000, 15000, 24000, 32000])
def test_round_numbers_of_gpus_train(gpus: int) -> None:
    # 2.05e10 GPU-seconds for 15 T tokens on 1,024 H100 at 146 days: the same work within a fifth on any count, and a
    # tenth more for each doubling beyond 4,096, where pipelines idle.
    plan = plan_of(gpus=gpus, scale_out="roce-400")
    work = days(plan) * gpus / (146 * 1024)
    assert 0.9 < work < (1.3 if gpus <= 10000 else 1.9)


def test_sixteen_gpus_more_do_not_take_longer() -> None:
    # 146 days on 1,024; 1,040/1,024 as many GPUs take 1.6 % less.
    assert days(plan_of(gpus=1040)) == pytest.approx(days(plan_of()) * 1024 / 1040, rel=0.01)


def test_the_usual_batch_is_that_of_the_models_authors() -> None:
    # 62.9 M tokens of 4,096 are 15,356 sequences (the paper has 15,360); 16.78 M of 8,192 are 2,048.
    deepseek = ModelRequest(model="deepseek-v3", sequence_length=4096)
    assert usual_batch(deepseek, CATALOG) == round(62.9e6 / 4096)
    assert usual_batch(ModelRequest(sequence_length=32768), CATALOG) == 512
    assert usual_batch(ModelRequest(sequence_length=100_000_000), CATALOG) == 1


def test_the_resolved_batch_asked_again_is_the_same_plan() -> None:
    first = plan_of(gpus=1200)
    again = plan_of(gpus=1200, global_batch=first.scenario["global_batch"])
    assert again.training.step_time == first.training.step_time


def test_given_degrees_are_met_by_a_blank_batch() -> None:
    # 1,200 GPUs as 150 replicas of 8: 14 sequences each.
    plan = plan_of(gpus=1200, tensor_parallel=8, pipeline_parallel=1, micro_batch=1)
    assert plan.scenario["global_batch"] == 14 * 150
    assert plan.training.step_time is not None


def test_a_batch_that_fits_badly_is_said_with_what_fits() -> None:
    plan = plan_of(gpus=1040, global_batch=2048)
    assert finding(plan, "batch-fits-badly") == {"global_batch": 2080}
    assert finding(plan, "other-count-fits") == {"gpus": 1024}
    better = plan_of(gpus=1040, global_batch=2080)
    assert days(better) < 0.65 * days(plan)
    (said,) = [one for one in plan.findings if one.code == "batch-fits-badly"]
    assert plan.training.tokens_per_second is not None
    assert better.training.tokens_per_second is not None
    gain = better.training.tokens_per_second.typical / plan.training.tokens_per_second.typical - 1
    assert f"{percent(gain)}" in said.suggestion


def test_a_batch_that_divides_not_at_all_is_an_error_with_both_ways_out() -> None:
    plan = plan_of(gpus=1016, global_batch=2048)
    assert plan.training.step_time is None
    assert finding(plan, "does-not-divide") == {"global_batch": 2032}
    assert finding(plan, "other-count-fits") == {"gpus": 1024}
    for changes in ({"global_batch": 2032}, {"gpus": 1024}):
        assert plan_of(**({"gpus": 1016, "global_batch": 2048} | changes)).training.step_time is not None


@pytest.mark.parametrize("asked", [{}, {"gpus": 4096, "global_batch": 2048}, {"gpus": 1200}])
def test_a_batch_that_fits_is_not_remarked_on(asked: dict[str, int]) -> None:
    codes = {one.code for one in plan_of(**asked).findings}
    assert not codes & {"batch-fits-badly", "other-count-fits", "batch-far-from-usual", "fewer-gpus-are-quicker"}


def test_a_count_that_divides_no_usual_batch_says_so() -> None:
    # 10,007 is prime: every rank is a replica of its own.
    plan = plan_of(gpus=10007)
    assert plan.scenario["global_batch"] == 10007
    assert "batch-far-from-usual" in [one.code for one in plan.findings]


def test_a_number_of_gpus_that_divides_badly_is_said_with_the_fewer_that_are_quicker() -> None:
    # 25,000 is 8 * 5^5: with 8 of tensor parallelism a pipeline has 5, 25 or 125 stages.
    plan = plan_of(gpus=25_000, model="llama-3-405b")
    assert finding(plan, "fewer-gpus-are-quicker") == {"gpus": 24_960}
    assert days(plan_of(gpus=24_960, model="llama-3-405b")) < 0.55 * days(plan)
    (said,) = [one for one in plan.findings if one.code == "fewer-gpus-are-quicker"]
    assert "the other 40 can stand by" in said.suggestion


def test_experts_that_divide_badly_are_said_where_the_batch_divides_well() -> None:
    plan = plan_of(gpus=10_000, model="deepseek-v3")
    assert finding(plan, "fewer-gpus-are-quicker") == {"gpus": 9_984}
    assert days(plan_of(gpus=9_984, model="deepseek-v3")) < 0.85 * days(plan)


@pytest.mark.parametrize(("gpus", "fewer"), [(1_001, 1_000), (1_021, 1_008), (2_056, 2_048)])
def test_gpus_that_divide_badly_are_said_where_the_batch_divides_well(gpus: int, fewer: int) -> None:
    plan = plan_of(gpus=gpus)
    assert finding(plan, "fewer-gpus-are-quicker") == {"gpus": fewer}
    assert days(plan_of(gpus=fewer)) < 0.95 * days(plan)


@pytest.mark.parametrize(
    "asked", [{"gpu": "b200-sxm", "gpus": 1278, "model": "kimi-k2"}, {"gpu": "gb200", "gpus": 4412, "model": "glm-5"}]
)
def test_fewer_gpus_that_are_proposed_have_no_fewer_that_are_quicker_still(asked: dict[str, Any]) -> None:
    advised = finding(plan_of(**asked), "fewer-gpus-are-quicker")
    assert advised is not None
    assert "fewer-gpus-are-quicker" not in [one.code for one in plan_of(**{**asked, **advised}).findings]


@pytest.mark.parametrize("asked", [{"gpus": 1040}, {"gpus": 24_960, "model": "llama-3-405b"}, {"gpus": 12}])
def test_fewer_gpus_are_proposed_only_where_they_are_quicker(asked: dict[str, Any]) -> None:
    assert "fewer-gpus-are-quicker" not in [one.code for one in plan_of(**asked).findings]


def test_what_a_batch_lacks_may_be_shared_by_degrees_of_two() -> None:
    # 16,384 / gcd(16,384, 2,048) = 8; 1,040 / gcd(1,040, 2,048) = 65.
    assert batch.suits(16384, 2048)
    assert not batch.suits(1040, 2048)


def test_racks_are_bought_whole() -> None:
    # 1,024 GPUs are 14.2 racks of 72: 15 are bought, for 1,080/72 times the price of one.
    part, whole, one = plan_of(gpu="gb200", gpus=1024), plan_of(gpu="gb200", gpus=1080), plan_of(gpu="gb200", gpus=72)

    def nodes(plan: Plan) -> float:
        (line,) = [line for line in plan.costs.capital_parts if line.name == "nodes"]
        assert line.cost is not None
        return line.cost.typical

    assert nodes(part) == nodes(whole) == pytest.approx(15 * nodes(one))
    assert finding(part, "partial-rack") == {"gpus": 1080}
    assert "partial-rack" not in [one.code for one in whole.findings]


def test_nodes_are_bought_whole() -> None:
    # 4 of 8 GPUs: one node; 12: two.
    asked = {"model": "llama-3-8b", "scale_out": "roce-400"}
    half, whole, more = (plan_of(gpus=gpus, **asked) for gpus in (4, 8, 12))
    assert half.costs.capital_parts[0].cost == whole.costs.capital_parts[0].cost
    assert half.cluster.power == whole.cluster.power
    assert half.costs.capital_parts[0].cost is not None
    assert more.costs.capital_parts[0].cost is not None
    assert more.costs.capital_parts[0].cost.typical == 2 * half.costs.capital_parts[0].cost.typical
    assert finding(half, "partial-node") == {"gpus": 8}
    assert finding(more, "partial-node") == {"gpus": 16}


@pytest.mark.parametrize(
    ("asked", "code", "gpus"),
    [
        # replicas of 8 × 5 = 40; lcm(72, 40) = 360, and 1,080 is the next multiple
        ({"gpu": "gb200", "gpus": 1000, "tensor_parallel": 8, "pipeline_parallel": 5}, "partial-rack", 1080),
        # lcm(8, 8 × 4) = 32
        ({"gpus": 1001, "tensor_parallel": 8, "pipeline_parallel": 4}, "partial-node", 1024),
        # each of 3 stages holds all experts once over 64 ranks: lcm(8, 3 × 64) = 192
        (
            {"gpus": 1001, "model": "deepseek-v3", "expert_parallel": 64, "pipeline_parallel": 3},
            "partial-node", 1152,
        ),
        # a dense model spreads no experts, whatever is given
        ({"gpus": 1001, "expert_parallel": 64}, "partial-node", 1008),
        # replicas that serve take 16, and 1,008 are 63 of them
        ({"gpus": 1001, "workload": "serving", "tensor_parallel": 8, "pipeline_parallel": 2}, "partial-node", 1008),
        # no more can be asked for: 13,888 racks of 72 are 999,936
        ({"gpu": "gb200", "gpus": 1_000_000}, "partial-rack", 999_936),
    ],
)  # fmt: skip
def test_gpus_that_fill_whole_racks_suit_the_degrees_that_are_given(
    asked: dict[str, Any], code: str, gpus: int
) -> None:
    assert finding(plan_of(**asked), code) == {"gpus": gpus}
    if gpus < 2000:
        codes = {one.code for one in plan_of(**{**asked, "gpus": gpus}).findings}
        assert not {code, "does-not-divide", "serving-does-not-fit"} & codes


def test_where_no_whole_racks_suit_the_degrees_it_is_said_to_leave_some_blank() -> None:
    # 8,192 × 125 = 1,024,000 GPUs a replica
    plan = plan_of(gpu="gb200", gpus=1000, tensor_parallel=8192, pipeline_parallel=125)
    (idle,) = [one for one in plan.findings if one.code == "partial-rack"]
    assert (idle.suggestion, dict(idle.changes)) == (
        "Leave some degrees of parallelism blank: they divide the GPUs of no such racks.",
        {},
    )


def test_one_gpu_is_spoken_of_as_one() -> None:
    said = {one.code: one.message for one in plan_of(gpus=1, model="llama-3-8b").findings}
    assert said["partial-node"].startswith("One GPU does not fill a node of 8: 1 node is bought")
    assert said["one-node"].startswith("The GPU stands in one node")


def test_part_of_a_server_is_a_whole_server() -> None:
    # 64 GPUs, four in each server of eight: 16 servers of 10.2 kW and $285,000, half of whose GPUs stay idle.
    half, full = plan_of(gpus=64, gpus_per_node=4), plan_of(gpus=128)
    assert (half.cluster.nodes, full.cluster.nodes) == (16, 16)
    for plan in (half, full):
        nodes = {line.name: line.cost for line in plan.costs.capital_parts}["nodes"]
        assert nodes is not None
        assert nodes.typical == pytest.approx(16 * 285_000)
        assert plan.cluster.power is not None
        assert 16 * 10_200 < plan.cluster.power.typical < 1.2 * 16 * 10_200  # and the switches
    assert finding(half, "part-of-node") == {"gpus_per_node": 8}
    assert "16 whole servers" in next(one.message for one in half.findings if one.code == "part-of-node")


def test_racks_stay_whole_where_their_nodes_are_named() -> None:
    # 1,024 GPUs take 15 racks of 72, whether or not the four GPUs of a tray are said.
    named, blank = plan_of(gpu="gb200", gpus=1024, gpus_per_node=4), plan_of(gpu="gb200", gpus=1024)
    assert named.costs.capital == blank.costs.capital
    assert named.cluster.power == blank.cluster.power
    one, each = plan_of(gpu="gb200", gpus=1), plan_of(gpu="gb200", gpus=1, gpus_per_node=1)  # a rack either way
    assert one.cluster.power == each.cluster.power
