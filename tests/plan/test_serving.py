"""What a cluster serves: limits, memory, loads, and what stands in for blanks."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.serving.kv_cache import deepest_stage
from app.formulas.serving.replicas import gpus_filled, replicas_placed
from app.formulas.serving.serving_arguments import Layout
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.plan.serving.serving_inputs import WEIGHT_BYTES, formats, peak, product_format, serving_inputs, setting
from app.plan.serving.serving_plan import plan_serving, plan_with
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.two_pools import Room, shared_out

CATALOG = load_catalog()


def evaluated(**fields: object):
    return evaluate(ServingQuestion.model_validate(fields, context={"catalog": CATALOG}), CATALOG)


def throughput(**fields: object) -> float:
    """Output tokens of the whole cluster a second; nothing where nothing is served."""
    band = evaluated(**fields).serving.output_tokens_per_second_per_gpu
    return band.typical if band else 0.0


def test_a_limit_on_the_time_per_token_is_kept() -> None:
    serving = evaluated(gpu="h200-sxm", gpus=16, model="llama-3-70b", tpot_limit="25 ms").serving
    assert serving.tpot.typical <= 0.025
    assert serving.interactivity.typical == pytest.approx(1 / serving.tpot.typical)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpus": 64, "prefill_tensor_parallel": 2, "decode_tensor_parallel": 4}, True),
        ({"gpus": 64, "prefill_tensor_parallel": 8, "decode_tensor_parallel": 4}, False),  # no room for both in a node
        ({"gpus": 8, "prefill_tensor_parallel": 2, "decode_tensor_parallel": 4}, False),  # all GPUs share one
        ({"gpus": 64, "serving": "aggregated"}, False),
    ],
)
def test_pools_that_could_meet_in_a_domain_say_that_they_pass_the_network(asked: dict[str, object], said: bool) -> None:
    one_stage = {"prefill_pipeline_parallel": 1, "decode_pipeline_parallel": 1} if "serving" not in asked else {}
    answer = evaluated(
        **{"model": "llama-3-70b", "serving": "disaggregated", "input_tokens": 4000, **one_stage, **asked}
    )
    notes = [finding.message for finding in answer.findings if finding.code == "pools-over-network"]
    assert bool(notes) == said
    # 80 layers, 2 · 8 heads of 128 in 16 bit, 4,000 tokens: 1.31 GB from two ports, 42.5 GB/s each
    assert not said or all("of 2 and 4 GPUs" in note and "15.4\u202fms" in note for note in notes)


def test_an_all_reduce_beyond_a_domain_takes_what_the_cluster_says_of_it() -> None:
    # 126 layers of Llama 3.1 405B, two each, of 8,192 tokens of 16,384 numbers in 16 bit: 268 MB
    asked = {"model": "llama-3-405b", "input_tokens": 8192, "message": 8192 * 16384 * 2, "engine": "sglang"}
    plan = evaluated(gpu="b200-sxm", gpus=16, tensor_parallel=16, pipeline_parallel=1, **asked)
    part = next(part for part in plan.serving.parts if (part.phase, part.name) == ("prompt", "all_reduce"))
    correction = CATALOG.serving["correction"].get("sglang-dense-blackwell")
    each = part.time.typical / (2 * 126) / (correction.typical if correction else 1.0)
    assert each == pytest.approx(plan.all_reduce.time.typical, rel=0.02)
    assert part.resource == "scale_out"


def test_gpus_of_one_node_that_bridges_join_in_pairs_meet_over_its_slots() -> None:
    plan = evaluated(gpu="h100-nvl", gpus=8, model="llama-3-70b", tensor_parallel=8, engine="vllm")
    assert {part.resource for part in plan.serving.parts if part.name == "all_reduce"} == {"scale_up"}
    assert next(one.gain for one in plan.serving.bottleneck.what_if if one.resource == "scale_out") == 0
    staged = evaluated(gpu="h100-nvl", gpus=8, model="llama-3-70b", tensor_parallel=2, pipeline_parallel=4)
    assert {part.resource for part in staged.serving.parts if part.name == "stages"} == {"scale_up"}
    # two pools send keys and values at what PCIe 5 carries, 64 GB/s less what its protocol takes
    apart = evaluated(gpu="h100-nvl", gpus=8, model="llama-3-8b", serving="disaggregated", prefill_tensor_parallel=1)
    sent = apart.serving.kv_transfer
    assert 40e9 < sent.bytes.typical / sent.time.typical / apart.serving.prefill.parallelism.gpus < 64e9


def test_the_parts_of_a_prompt_are_those_of_the_pool_that_computes_it() -> None:
    # one GPU for each of two stages exchanges no layer, though the pool for answers shares layers among eight
    pools = {"prefill_tensor_parallel": 1, "prefill_pipeline_parallel": 2, "decode_tensor_parallel": 8}
    serving = evaluated(gpus=64, serving="disaggregated", decode_pipeline_parallel=1, **pools).serving
    parts = {(part.phase, part.name): part.resource for part in serving.parts}
    assert ("prompt", "all_reduce") not in parts
    assert ("answer", "all_reduce") in parts
    assert parts["prompt", "stages"] == "scale_up"


@pytest.mark.parametrize("stages", [1, 2])
def test_the_parts_of_a_step_add_up_to_the_time_per_token_where_answers_are_alone(stages: int) -> None:
    serving = evaluated(gpus=64, serving="disaggregated", decode_pipeline_parallel=stages).serving
    total = sum(part.time.typical for part in serving.parts if part.phase == "answer")
    assert total == pytest.approx(serving.tpot.typical, rel=1e-3)


@pytest.mark.parametrize("limit", [None, "30 ms"])
def test_more_users_than_are_carried_are_answered_as_many_requests_that_are_too_many(limit: str | None) -> None:
    asked = {"gpus": 64, "model": "llama-3-70b", "tpot_limit": limit}
    rates, most = [], evaluated(**asked).serving.requests_per_second.typical
    for load in ({"users": 2000}, {"users": 7000}, {"users": 100_000}, {"request_rate": 500}):
        answer = evaluated(**asked, **load)
        rates.append(answer.serving.requests_per_second.typical)
        carried = answer.serving.users.typical >= 0.99 * load.get("users", np.inf)
        assert carried != ("load-too-large" in {finding.code for finding in answer.findings})
    assert rates == sorted(rates)
    assert rates[1:] == pytest.approx([most] * 3)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (
            {"tensor_parallel": 3},
            "does-not-divide",
            "3 ranks of tensor parallelism do not divide the model's 64 attent",
        ),
        ({"tensor_parallel": 12}, "does-not-divide", "12 ranks"),
        (
            {"model": "mixtral-8x7b", "expert_parallel": 16},
            "does-not-divide",
            "16 ranks of expert parallelism are more",
        ),
        ({"model": "mixtral-8x7b", "expert_parallel": 3}, "serving-does-not-fit", "No replica has the parallelism"),
        ({"model": "mixtral-8x7b", "experts_per_token": 16}, "does-not-divide", "A token cannot go to 16 experts"),
        ({"kv_heads": 7}, "does-not-divide", "64 attention heads do not share 7"),
        ({"serving": "disaggregated", "prefill_tensor_parallel": 3}, "does-not-divide", "3 ranks of tensor"),
    ],
)
def test_a_layout_or_a_shape_that_cannot_be_serves_nothing(asked: dict[str, object], code: str, says: str) -> None:
    answer = evaluated(**{"gpus": 24, **asked})
    (finding,) = [finding for finding in answer.findings if finding.severity == "error"]
    assert finding.code == code
    assert says in finding.message
    assert answer.serving.tpot is None
    assert answer.serving.costs.per_million_output_tokens is None


def test_a_dense_model_serves_whatever_degree_its_experts_are_given() -> None:
    plain, asked = evaluated(gpus=16), evaluated(gpus=16, expert_parallel=8)
    assert asked.serving.parallelism == plain.serving.parallelism
    assert "expert-parallel-unused" in {finding.code for finding in asked.findings}


def test_users_think_and_ask_again() -> None:
    serving = evaluated(gpus=16, tpot_limit="40 ms", think_time="30 s").serving
    answer = serving.ttft.typical + serving.tpot.typical * 1023
    assert serving.users.typical == pytest.approx(serving.requests_per_second.typical * (answer + 30), rel=1e-6)


def test_users_that_are_asked_for_are_served() -> None:
    serving = evaluated(gpus=32, users=300, think_time="20 s", engine="vllm").serving
    assert serving.users.typical == pytest.approx(300, rel=0.25)


def test_memory_is_never_overdrawn() -> None:
    for model, gpu in (("llama-3-70b", "h100-sxm"), ("deepseek-v3", "b200-sxm"), ("gpt-oss-120b", "mi300x")):
        memory = evaluated(gpu=gpu, gpus=16, model=model).serving.memory
        used = memory.weights.typical + memory.kv_cache.typical + memory.other.typical
        assert used <= memory.capacity.typical * (1 + 1e-9)


def test_a_model_that_does_not_fit_says_what_would() -> None:
    answer = evaluated(gpu="h100-sxm", gpus=8, model="deepseek-v3")
    finding = next(one for one in answer.findings if one.code == "serving-does-not-fit")
    assert answer.serving.users is None
    assert finding.changes == {"gpus": 16}  # 671 GB in FP8: 16 · 73 GB of 16 · 85 GB
    assert evaluated(gpu="h100-sxm", gpus=16, model="deepseek-v3").serving.users is not None


def test_a_share_of_the_memory_that_holds_no_weight_is_a_finding() -> None:
    # a ninth of 24 GB is less than activations, graphs and libraries take: no number of GPUs is enough
    answer = evaluated(gpu="l4", gpus=8, model="llama-3-8b", memory_share=0.11)
    finding = next(one for one in answer.findings if one.code == "serving-does-not-fit")
    assert finding.fields == ("memory_share", "gpu")
    assert not finding.changes


def test_a_replica_may_have_one_sequence_in_flight() -> None:
    serving = evaluated(max_sequences=1).serving
    assert serving.users is not None
    assert serving.concurrency == serving.replicas > 1


def test_a_limit_that_nothing_keeps_is_a_finding() -> None:
    answer = evaluated(gpus=64, tpot_limit="1 ms")
    assert "limits-not-kept" in [one.code for one in answer.findings]
    assert answer.serving.front


def test_what_joins_the_gpus_cannot_be_built_so_nothing_is_served() -> None:
    # 512 nodes of 8 NICs; two tiers of 64 ports carry 256
    answer = evaluated(gpus=4096, tiers=2)
    serving = answer.serving
    assert "too-many-hosts" in [one.code for one in answer.findings]
    assert [serving.users, serving.tpot, serving.costs.per_million_output_tokens, serving.parallelism] == [None] * 4
    assert serving.front == ()
    assert answer.findings[0].message in answer.verdict
    assert evaluated(gpus=4096, tiers=3).serving.users is not None


@pytest.mark.parametrize(
    ("gpu", "weights", "gain"),
    [
        ("h100-sxm", "fp8", (0.79 / 0.55) ** 0.5),  # 1.2: what 16- and 8-bit products of Hopper reach of their peaks
        ("b200-sxm", "nvfp4", (0.69 / 0.41) ** 0.5),  # 1.3
        ("mi325x", "fp8", (843 / 1307.4 / (0.66 * 1519 / 2614.9)) ** 0.5),  # 1.3, of which most is lost in the model
    ],
)
def test_tuned_kernels_go_half_the_way_to_products_that_quantise_nothing(gpu: str, weights: str, gain: float) -> None:
    asked = {"gpu": gpu, "gpus": 8, "weights": weights, "engine": "vllm", "serving": "aggregated"}
    rates = []
    for tuned in (False, True):
        question = ServingQuestion.model_validate(asked | {"tuned_kernels": tuned}, context={"catalog": CATALOG})
        it = setting(question, look_up(question, CATALOG), None, CATALOG)
        rates.append(float(np.ravel(serving_inputs(it, CATALOG).constants.dense_compute)[0]))
    assert rates[1] / rates[0] == pytest.approx(gain, rel=0.02)
    prompts, reading = {"input_tokens": 8000, "output_tokens": 100}, {"concurrency": 1, "output_tokens": 8000}
    of_prompts, of_reading = (
        throughput(**asked, tuned_kernels=True, **load) / throughput(**asked, **load) for load in (prompts, reading)
    )
    assert 1.05 < of_prompts < rates[1] / rates[0]
    assert of_reading == pytest.approx(1, abs=0.01)


def test_a_chip_with_more_power_computes_quicker_at_the_same_peak() -> None:
    asked = {"gpus": 8, "engine": "vllm", "serving": "aggregated", "input_tokens": 8000, "output_tokens": 100}
    asked |= {"model": "llama-3-70b", "tensor_parallel": 1, "pipeline_parallel": 1, "concurrency": 256}
    first, second = (throughput(gpu=gpu, **asked) for gpu in ("mi300x", "mi325x"))
    assert 1.1 < second / first < 1519 / 1273  # TFLOP/s of FP8 products timed alone; attention gains less


def test_formats_of_a_checkpoint() -> None:
    # NVFP4: 4 bits, and 8 of a scale for each 16 weights; gpt-oss keeps attention in BF16
    assert WEIGHT_BYTES["nvfp4"] == 0.5625
    question = ServingQuestion(gpu="b200-sxm", model="gpt-oss-120b", weights="mxfp4")
    kept = formats(question, CATALOG.gpus["b200-sxm"], CATALOG.engines["vllm"], CATALOG)
    assert (kept.dense, kept.experts) == ("bf16", "mxfp4")
    assert formats(ServingQuestion(), CATALOG.gpus["a100-sxm"], CATALOG.engines["vllm"], CATALOG).dense == "bf16"


def test_products_are_computed_in_formats_that_the_gpu_has() -> None:
    computed = {
        (gpu, weights): product_format(weights, CATALOG.gpus[gpu])
        for gpu in ("b200-sxm", "mi355x", "h100-sxm", "a100-sxm")
        for weights in WEIGHT_BYTES
    }
    four_bits = {asked for asked, of_products in computed.items() if of_products == "nvfp4"}
    assert four_bits == {("b200-sxm", "nvfp4"), ("b200-sxm", "mxfp4"), ("mi355x", "mxfp4")}
    eight_bits = {asked for asked, of_products in computed.items() if of_products == "fp8"}
    assert eight_bits == {("b200-sxm", "fp8"), ("mi355x", "fp8"), ("h100-sxm", "fp8")}


@pytest.mark.parametrize("gpu", ["b200-sxm", "mi355x", "h100-sxm"])
def test_integers_save_memory_and_no_arithmetic(gpu: str) -> None:
    # prompts are arithmetic, in 16 bit either way; answers to few are reading, of a quarter of the bytes
    asked = {"gpu": gpu, "gpus": 4, "model": "llama-3-70b", "tensor_parallel": 4, "serving": "aggregated"}
    prompts, answers = {"input_tokens": 8192, "output_tokens": 64}, {"input_tokens": 64, "concurrency": 4}
    assert throughput(**asked, **prompts, weights="int4") <= 1.1 * throughput(**asked, **prompts, weights="bf16")
    assert throughput(**asked, **answers, weights="int4") > 1.4 * throughput(**asked, **answers, weights="bf16")


def test_two_pools_send_keys_and_values_over_the_network() -> None:
    serving = evaluated(gpus=64, serving="disaggregated", engine="vllm", tpot_limit="30 ms").serving
    assert serving.mode == "disaggregated"
    assert serving.prefill.gpus + serving.decode.gpus == serving.gpus <= 64
    # 1,024 tokens · 80 layers · 2 · 8 · 128 · 2 bytes
    assert serving.kv_transfer.bytes.typical == 1024 * 80 * 2 * 8 * 128 * 2
    slower = evaluated(gpus=64, serving="disaggregated", engine="vllm", tpot_limit="30 ms", network_rate="1 Gb/s")
    assert slower.serving.kv_transfer.share_of_network > serving.kv_transfer.share_of_network
    assert slower.serving.ttft.typical > serving.ttft.typical


POOLS = {"gpus": 64, "serving": "disaggregated", "engine": "vllm", "tpot_limit": "30 ms"}


def test_the_network_between_pools_carries_no_more_than_it_can() -> None:
    # 1,024 tokens of Llama 3 70B leave 335.5 MB in 16 bit; at 1 Gb/s a GPU sends 0.3 of them a second
    slow, fast = (evaluated(network_rate=rate, **POOLS).serving for rate in ("1 Gb/s", "400 Gb/s"))
    smaller = min(slow.prefill.gpus, slow.decode.gpus)
    sent = slow.kv_transfer.bytes.typical / slow.kv_transfer.time.typical / slow.prefill.parallelism.gpus
    assert slow.requests_per_second.typical <= smaller * sent / slow.kv_transfer.bytes.typical * (1 + 1e-6)
    assert slow.kv_transfer.share_of_network == pytest.approx(1)
    assert fast.kv_transfer.share_of_network < 0.1
    assert slow.requests_per_second.typical < 0.2 * fast.requests_per_second.typical
    assert (slow.bottleneck.resource, slow.bottleneck.pool) == ("scale_out", "")
    gains = {one.resource: one.gain for one in slow.bottleneck.what_if}
    assert gains["scale_out"] == pytest.approx(1)


def test_the_replica_with_fewer_gpus_bounds_how_soon_keys_and_values_are_there():
    """1,024 tokens of Llama 3 70B are 335.5 MB; eight H100 send 8 · 42.5 GB/s, and two take a quarter of that."""
    asked = {"serving": "disaggregated", "gpus": 64, "prefill_tensor_parallel": 8, "weights": "fp8"}
    even, two = (evaluated(decode_tensor_parallel=ranks, **asked).serving for ranks in (8, 2))
    assert even.kv_transfer.time.typical == pytest.approx(1024 * 80 * 2 * 8 * 128 * 2 / (8 * 42.5e9))
    assert two.kv_transfer.time.typical == pytest.approx(4 * even.kv_transfer.time.typical)


def test_the_bottleneck_of_two_pools_is_that_of_the_pair() -> None:
    # long prompts and short answers are arithmetic, short prompts and long answers are reading
    reading, computing = (
        evaluated(input_tokens=prompt, output_tokens=answer, **POOLS).serving
        for prompt, answer in ((256, 2048), (8000, 100))
    )
    assert (reading.bottleneck.resource, reading.bottleneck.pool) == ("memory_bandwidth", "decode")
    assert (computing.bottleneck.resource, computing.bottleneck.pool) == ("compute", "prefill")
    # a pool that is too small for its prompts holds up the other: most of twice its arithmetic is answers
    small = evaluated(prefill_gpus=8, **POOLS).serving
    assert (small.bottleneck.resource, small.bottleneck.pool) == ("compute", "prefill")
    assert small.bottleneck.what_if[0].gain > 0.6
    for serving, tokens in ((reading, 2048), (computing, 100), (small, 1024)):
        one = serving.bottleneck.what_if[0]
        now = one.output_tokens_per_second_per_gpu / (1 + one.gain) * 64 / tokens
        assert now == pytest.approx(serving.requests_per_second.typical, rel=0.02)
    assert evaluated(gpus=8, tpot_limit="40 ms").serving.bottleneck.pool == ""


@pytest.mark.parametrize("load", [{"concurrency": 1}, {"concurrency": 64}, {"request_rate": 5}, {"users": 200}])
def test_room_for_more_is_nothing_to_those_who_are_asked_for(load: dict[str, float]) -> None:
    # the layout of one user has room for 1,083 tokens a second, of which nobody asks for more than 1.7
    serving = evaluated(gpu="h200-sxm", gpus=64, model="deepseek-v3", **load).serving
    gains = {one.resource: one.gain for one in serving.bottleneck.what_if}
    assert serving.bottleneck.held == "load"
    assert gains["memory_capacity"] == pytest.approx(0, abs=1e-9)
    assert serving.bottleneck.resource in ("host", "memory_bandwidth")  # launches, and reading the experts


@pytest.mark.parametrize("name", ["memory_bandwidth", "scale_up"])
def test_what_doubling_gains_at_a_load_is_what_a_machine_with_twice_as_much_gives(name: str) -> None:
    asked = {"gpu": "h100-sxm", "gpus": 8, "model": "llama-3-70b", "tensor_parallel": 8, "pipeline_parallel": 1}
    asked |= {"serving": "aggregated", "concurrency": 40}
    what_if = {one.resource: one.gain for one in evaluated(**asked).serving.bottleneck.what_if}
    assert planned(asked, {name: 2.0}) / planned(asked) == pytest.approx(1 + what_if[name], rel=1e-6)
    assert what_if[name] > 0.04


def test_at_a_load_two_pools_gain_by_what_makes_answers_come_sooner() -> None:
    asked = {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "serving": "disaggregated"}
    prompts = evaluated(**asked, request_rate=3, input_tokens=16000, output_tokens=50).serving.bottleneck
    answers = evaluated(**asked, users=1000).serving.bottleneck
    assert (prompts.resource, prompts.pool, prompts.held) == ("compute", "prefill", "load")
    assert (answers.resource, answers.pool, answers.held) == ("memory_bandwidth", "decode", "load")


def test_a_load_beyond_what_is_carried_is_limited_by_the_most_that_is() -> None:
    bottleneck = evaluated(gpus=8, users=1_000_000, serving="aggregated").serving.bottleneck
    assert bottleneck.held == "limits"


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "b200-sxm", "gpus": 8, "model": "llama-3-70b", "tpot_limit": "8 ms"},
        {"gpu": "h100-sxm", "gpus": 64, "model": "qwen-3-235b-a22b", "input_tokens": 2048, "tpot_limit": "12 ms"},
    ],
)
def test_a_share_of_the_time_is_less_than_all_of_it(asked: dict[str, object]) -> None:
    bottleneck = evaluated(**asked).serving.bottleneck
    most = max(one.gain for one in bottleneck.what_if)
    assert most > 1  # near the limit more than twice as many are served by a host twice as quick
    assert bottleneck.share == pytest.approx(most / (1 + most))


def test_a_pool_for_answers_has_no_prompts_and_prompts_cost_their_pool() -> None:
    serving = evaluated(**POOLS).serving
    step = sum(part.time.typical for part in serving.parts if part.phase == "answer")
    assert serving.tpot.typical == pytest.approx(step)
    costs = serving.costs
    of_prompts = costs.per_million_input_tokens.typical * 1024 / (costs.per_million_output_tokens.typical * 1024)
    assert of_prompts == pytest.approx(serving.prefill.gpus / serving.gpus)


def test_the_taper_reaches_what_the_pools_send() -> None:
    asked = {"gpus": 1024, "serving": "disaggregated", "engine": "vllm", "tpot_limit": "30 ms"}
    even, tapered = (evaluated(oversubscription=taper, **asked).serving.kv_transfer for taper in (1, 8))
    assert tapered.time.typical > 2 * even.time.typical
    assert tapered.share_of_network > 2 * even.share_of_network


@pytest.mark.parametrize(
    "worse",
    [
        {"gpudirect": False},
        {"scale_out": "tcp-400"},
        {"scale_out": "roce-400", "link_loss": 0.02, "degraded_link": "node-leaf"},
        {"link_rate_left": 0.5},
        {"network_rate": "100 Gb/s"},
        {"calibration": "1~0.01,0.5~0.01,1~0.01"},
    ],
)
def test_experts_over_several_nodes_feel_what_the_network_lacks(worse: dict[str, object]) -> None:
    asked = {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "engine": "sglang"}
    asked |= {"tensor_parallel": 1, "attention_data_parallel": 32, "expert_parallel": 32, "serving": "aggregated"}
    asked |= {"pipeline_parallel": 1, "concurrency": 4096}
    times = [evaluated(**asked | change).serving.tpot.typical for change in ({}, worse)]
    assert times[1] > 1.01 * times[0]


def test_the_step_is_the_sum_of_its_parts() -> None:
    serving = evaluated(gpus=8, engine="vllm", tensor_parallel=8, pipeline_parallel=1).serving
    step = sum(part.time.typical for part in serving.parts if part.phase == "answer")
    assert step <= serving.tpot.typical
    assert {part.resource for part in serving.parts} <= {"compute", "memory_bandwidth", "scale_up", "host"}


def test_doubling_gains_and_its_best_is_the_bottleneck() -> None:
    bottleneck = evaluated(gpus=8, tpot_limit="40 ms").serving.bottleneck
    gains = {one.resource: one.gain for one in bottleneck.what_if}
    assert set(gains) == {"compute", "memory_bandwidth", "memory_capacity", "scale_up", "scale_out", "host"}
    assert min(gains.values()) >= -1e-9
    assert gains[bottleneck.resource] == max(gains.values())


def test_a_million_tokens_cost_what_the_gpus_cost_meanwhile() -> None:
    answer = evaluated(gpus=16, price_gpu_hour="3.60 USD/h")
    rate = answer.serving.output_tokens_per_second_per_gpu.typical
    # 3.60 dollars an hour are 0.001 a second
    assert answer.serving.costs.rental.typical == pytest.approx(1e6 * 0.001 / rate)


ANYWHERE = Room(np.inf, np.inf, np.inf)  # as on GPUs that reach one another as one


def test_a_pool_of_given_size_leaves_the_rest_to_the_other() -> None:
    # 64 GPUs without the 48 for answers are two replicas of 8 for prompts: 2 · 2 requests/s. Six for answers take 6/s.
    counts, workers, supply = shared_out(
        Scenario(gpus=64, decode_gpus=48), (2.0, 8), np.array([1.0]), np.array([8.0]), np.array([np.inf]), ANYWHERE
    )
    assert (counts[0], workers[0], supply[0]) == (2, 6, 4)


@settings(max_examples=200, deadline=None)
@given(
    gpus=st.integers(2, 300),
    taken=st.sampled_from([1, 2, 4, 8, 16, 64]),
    given_gpus=st.sampled_from([1, 2, 4, 8, 16, 64]),
    rate=st.floats(0.01, 100),
    each=st.floats(0.01, 100),
    sent=st.floats(0.001, 100),
)
def test_no_other_share_of_whole_replicas_answers_more(
    gpus: int, taken: int, given_gpus: int, rate: float, each: float, sent: float
) -> None:
    counts, workers, supply = shared_out(
        Scenario(gpus=gpus), (rate, taken), np.array([each]), np.array([float(given_gpus)]), np.array([sent]), ANYWHERE
    )
    assert counts[0] * taken + workers[0] * given_gpus <= gpus
    best = 0.0
    for prompts in range(1, gpus // taken + 1):
        answers = (gpus - prompts * taken) // given_gpus
        carried = min(prompts * taken, answers * given_gpus) * sent
        best = max(best, min(prompts * rate, carried, answers * each))
    assert min(supply[0], workers[0] * each) == pytest.approx(best)


@pytest.mark.parametrize(
    ("gpu", "gpus", "ranks", "replicas"),
    [
        ("gb200", 576, 64, 8),  # one in each of eight racks of 72, not nine
        ("gb200", 576, 32, 16),
        ("gb200", 512, 32, 16),  # which leave no more idle
        ("gb200", 576, 36, 16),
        ("gb200", 576, 144, 4),  # over two racks each
        ("h200-sxm", 64, 8, 8),
    ],
)
def test_replicas_stand_whole_in_racks(gpu: str, gpus: int, ranks: int, replicas: int) -> None:
    asked = {"gpu": gpu, "gpus": gpus, "model": "deepseek-v3", "serving": "aggregated", "tensor_parallel": 1}
    served = evaluated(**asked, attention_data_parallel=ranks, pipeline_parallel=1).serving
    assert (served.replicas, served.gpus) == (replicas, replicas * ranks)


@settings(max_examples=100, deadline=None)
@given(racks=st.integers(1, 4), small=st.sampled_from([1, 2, 4, 8, 16]), times=st.sampled_from([1, 2, 4]))
def test_replicas_of_two_pools_stand_whole_in_racks(racks: int, small: int, times: int) -> None:
    # so many of the larger in each rack and of the smaller in what they leave: those that any split has room for
    one, other = Layout(tensor=float(small)), Layout(attention_data=float(small * times))
    filled = float(gpus_filled(72.0 * racks, one, other, 72.0))
    for larger in range(int(replicas_placed(72.0 * racks, other, 72.0)) + 1):
        in_rack = [larger // racks + (rack < larger % racks) for rack in range(racks)]
        room = sum((72 - each * small * times) // small for each in in_rack)
        assert room == (filled - larger * small * times) // small


def test_a_blank_layout_fills_racks() -> None:
    asked = {"gpu": "gb200", "gpus": 144, "model": "deepseek-v3", "serving": "aggregated"}
    served = evaluated(**asked).serving
    assert served.gpus == 144
    for ranks in 16, 24, 32, 36, 64, 72:
        other = evaluated(**asked, attention_data_parallel=ranks, tensor_parallel=1).serving
        assert other.requests_per_second.typical <= served.requests_per_second.typical * (1 + 1e-9)


def test_the_front_falls() -> None:
    front = evaluated(gpu="gb200", gpus=72, model="deepseek-v3").serving.front
    speeds, rates = [one.interactivity for one in front], [one.throughput for one in front]
    assert speeds == sorted(speeds, reverse=True)
    assert rates == sorted(rates)


def test_the_plan_is_the_best_of_what_was_tried() -> None:
    question = ServingQuestion(gpus=16, tpot_limit=0.03, serving="aggregated")
    it = setting(question, look_up(question, CATALOG), None, CATALOG)
    plan = plan_serving(it, CATALOG)
    tried, limits = plan.tried, plan.limits
    kept = tried.fits & (tried.time_per_token <= limits.time_per_token)
    assert plan.operation.requests == pytest.approx(tried.requests[kept].max() * 16)


# Two pools -----------------------------------------------------------------------------------------------------------

APART = {"gpus": 64, "engine": "vllm", "tpot_limit": "40 ms"}


def test_a_field_of_a_pool_asks_for_two_pools_of_that_kind() -> None:
    serving = evaluated(prefill_gpus=16, prefill_tensor_parallel=8, decode_tensor_parallel=4, **APART).serving
    assert serving.mode == "disaggregated"
    assert (serving.prefill.gpus, serving.prefill.parallelism.tensor_parallel) == (16, 8)
    assert serving.prefill.workers * serving.prefill.parallelism.gpus == 16
    assert serving.decode.parallelism.tensor_parallel == 4
    assert serving.decode.gpus <= 48


def test_the_scenario_in_an_answer_of_two_pools_asks_the_same_again() -> None:
    answer = evaluated(serving="disaggregated", **APART)
    again = {name: value for name, value in answer.scenario.items() if value is not None}
    assert again["prefill_gpus"] == answer.serving.prefill.gpus
    other = evaluated(**again).serving
    assert (other.prefill, other.decode) == (answer.serving.prefill, answer.serving.decode)
    assert other.users == answer.serving.users


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "l40s", "gpus": 256, "model": "mixtral-8x7b", "engine": "sglang", "tpot_limit": "33 ms"},
        {"gpus": 64, "tpot_limit": "10 ms"},
        {"gpus": 64, "users": 100_000},
        {"gpus": 64, "request_rate": 20, "serving": "disaggregated"},
    ],
)
def test_the_scenario_in_an_answer_has_the_same_bottleneck_ranges_and_findings(asked: dict[str, object]) -> None:
    answer = evaluated(**asked)
    again = evaluated(**{name: value for name, value in answer.scenario.items() if value is not None})
    assert again.scenario == answer.scenario
    assert again.serving.bottleneck == answer.serving.bottleneck
    assert again.serving.tpot == answer.serving.tpot
    assert again.serving.requests_per_second == answer.serving.requests_per_second
    assert [finding.code for finding in again.findings] == [finding.code for finding in answer.findings]


def test_pools_of_sizes_that_answer_less_keep_them_when_something_is_doubled() -> None:
    # four GPUs for prompts feed sixty for answers: nothing but quicker prompts gains, and those are computing
    asked = APART | {"input_tokens": 8192}
    meant = evaluated(prefill_gpus=4, decode_gpus=60, **asked).serving.bottleneck
    shared = evaluated(serving="disaggregated", **asked).serving.bottleneck
    gains = {one.resource: one.gain for one in meant.what_if}
    assert (meant.resource, meant.pool) == ("compute", "prefill")
    assert gains["memory_capacity"] == 0
    assert max(one.gain for one in shared.what_if) > 0.05


def test_two_pools_carry_the_users_that_are_asked_for() -> None:
    serving = evaluated(serving="disaggregated", users=300, **APART).serving
    assert serving.users.typical == pytest.approx(300, rel=0.01)
    assert serving.tpot.typical < 0.04


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"prefill_gpus": 60, "decode_gpus": 32}, "pools-too-large"),
        ({"prefill_gpus": 8, "prefill_tensor_parallel": 16}, "pool-does-not-fit"),
        ({"model": "llama-3-405b", "decode_gpus": 4}, "pool-does-not-fit"),  # 405 GB of weights on four times 80
    ],
)
def test_pools_that_do_not_fit_are_a_finding_and_nothing_is_served(fields: dict[str, object], code: str) -> None:
    answer = evaluated(**APART | fields)
    assert [one.code for one in answer.findings if one.severity == "error"] == [code]
    assert answer.serving.users is None


def test_a_replica_for_prompts_holds_the_keys_and_values_of_what_it_computes() -> None:
    # 70.6 GB of weights in FP8 leave 2.4 of an H100's 73 GB: 7 prompts of 1,024 tokens in 16 bit, none of 8,192
    asked = {"gpu": "h100-sxm", "gpus": 64, "serving": "disaggregated", "engine": "vllm", "kv_cache": "bf16"}
    long = evaluated(**asked, input_tokens=8192, tpot_limit="60 ms")
    assert long.serving.prefill.parallelism.gpus > 1
    alone = evaluated(**asked, input_tokens=8192, prefill_tensor_parallel=1, prefill_pipeline_parallel=1)
    finding = next(one for one in alone.findings if one.code == "pool-does-not-fit")
    assert "keys and values of one prompt" in finding.message
    assert alone.serving.prefill is None


def test_pools_that_are_asked_for_beside_one_pool_are_a_finding() -> None:
    answer = evaluated(serving="aggregated", prefill_gpus=8, **APART)
    assert "pools-not-used" in [one.code for one in answer.findings]
    assert answer.serving.users is not None


def test_gpus_of_a_pool_that_no_replica_takes_are_a_finding() -> None:
    answer = evaluated(prefill_gpus=12, prefill_tensor_parallel=8, **APART)
    (finding,) = [one for one in answer.findings if one.code == "pool-gpus-idle"]
    assert finding.fields == ("prefill_gpus",)
    assert finding.changes == {"prefill_gpus": 8}


# Laws ----------------------------------------------------------------------------------------------------------------


QUESTIONS = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["h100-sxm", "h200-sxm", "b200-sxm", "gb200", "mi300x", "mi355x"]),
        "gpus": st.sampled_from([8, 16, 72]),
        "model": st.sampled_from(["llama-3-8b", "llama-3-70b", "deepseek-v3", "qwen-3-235b-a22b", "gpt-oss-120b"]),
        "engine": st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
        "input_tokens": st.sampled_from([128, 1024, 8192]),
        "output_tokens": st.sampled_from([64, 1024, 4096]),
        "serving": st.sampled_from(["aggregated", "disaggregated"]),
        "scale_out": st.sampled_from(["infiniband-hdr", "roce-400", "tcp-400"]),
        "tpot_limit": st.floats(0.012, 0.1),
        "ttft_limit": st.floats(0.3, 10.0),
    }
)
LOADS = st.sampled_from([{}, {"users": 1}, {"users": 700}, {"request_rate": 3}, {"concurrency": 40}, {"users": 1e6}])
PROMPTS_LATE = {
    "gpu": "gb200",
    "gpus": 72,
    "model": "deepseek-v3",
    "engine": "sglang",
    "weights": "fp8",
    "input_tokens": 2000,
    "decode_gpus": 48,
    "decode_tensor_parallel": 1,
    "decode_attention_data_parallel": 48,
    "decode_expert_parallel": 48,
    "decode_pipeline_parallel": 1,
}
"""A pool for answers that could take many more than the prompts that the other computes."""


@settings(max_examples=25, deadline=None)
@given(asked=QUESTIONS, load=LOADS, think=st.sampled_from([0, 30]), limited=st.booleans())
@example(asked=PROMPTS_LATE, load={}, think=0, limited=True)
@example(
    asked={"gpus": 16, "gpu": "h200-sxm", "model": "llama-3-70b", "prefill_gpus": 4}, load={}, think=30, limited=True
)
def test_users_are_requests_times_what_one_takes(
    asked: dict[str, object], load: dict[str, float], think: float, limited: bool
) -> None:
    question = asked | load | {"think_time": think} | ({} if limited else {"tpot_limit": None, "ttft_limit": None})
    serving = evaluated(**question).serving
    if serving.users is None:
        return
    tokens = asked.get("output_tokens", 1024)
    waiting = serving.requests_per_second.typical * (serving.ttft.typical + (tokens - 1) * serving.tpot.typical)
    assert serving.users.typical == pytest.approx(waiting + serving.requests_per_second.typical * think, rel=1e-9)
    assert serving.concurrency == pytest.approx(waiting, rel=1e-9)


def test_answers_are_no_slower_than_the_prompts_that_come_need() -> None:
    # 147 prompts a second leave 147 × 1,024 × 27 ms = 4,040 answers in flight of the 20,000 and more that fit
    serving = evaluated(**PROMPTS_LATE).serving
    in_flight = serving.requests_per_second.typical * 1024 * serving.tpot.typical
    assert in_flight < serving.memory.sequences.typical / 4
    slowest = serving.front[-1]
    assert serving.tpot.typical == pytest.approx(1 / slowest.interactivity, rel=0.01)
    assert serving.output_tokens_per_second_per_gpu.typical == pytest.approx(slowest.throughput)


ALIKE = 2e-3
"""The largest load within a limit is found to this share."""


def planned(asked: dict[str, object], better: dict[str, float] | None = None) -> float:
    """Answers a second of a question, where some rates of its GPU are so many times as high."""
    question = ServingQuestion.model_validate(asked, context={"catalog": CATALOG})
    it = setting(question, look_up(question, CATALOG), None, CATALOG)
    inputs = serving_inputs(it, CATALOG)
    rates = {name: factor * getattr(inputs.gpu, name) for name, factor in (better or {}).items()}
    plan = plan_with(it, replace(inputs, gpu=replace(inputs.gpu, **rates)), CATALOG)
    return plan.operation.requests if plan.operation else 0.0


RATES = ("memory_bandwidth", "memory_capacity", "dense_peak", "expert_peak", "attention_peak", "scale_up", "scale_out")


@settings(max_examples=15, deadline=None)
@given(asked=QUESTIONS, name=st.sampled_from(RATES), factor=st.floats(1.05, 4))
def test_more_of_anything_never_lowers_throughput_at_the_same_limits(
    asked: dict[str, object], name: str, factor: float
) -> None:
    assert planned(asked) <= planned(asked, {name: factor}) * (1 + ALIKE)


@settings(max_examples=12, deadline=None)
@given(asked=QUESTIONS, limit=st.sampled_from(["tpot_limit", "ttft_limit"]), looser=st.floats(1, 3))
def test_a_tighter_limit_never_raises_throughput(asked: dict[str, object], limit: str, looser: float) -> None:
    assert planned(asked) <= planned(asked | {limit: asked[limit] * looser}) * (1 + ALIKE)


@settings(max_examples=12, deadline=None)
@given(asked=QUESTIONS, domain=st.sampled_from([2, 4, 8]), wider=st.sampled_from([2, 4, 9]))
def test_a_larger_domain_never_lowers_throughput(asked: dict[str, object], domain: int, wider: int) -> None:
    small, large = (planned(asked | {"scale_up_domain": size}) for size in (domain, domain * wider))
    assert small <= large * (1 + ALIKE)


LAYERS = {"llama-3-8b": 6.98e9, "llama-3-70b": 68.4e9}
"""Weights of the layers alone: every token of a prompt passes through them, 2 FLOP each."""


@settings(max_examples=25, deadline=None)
@given(
    asked=QUESTIONS,
    model=st.sampled_from(sorted(LAYERS)),
    output_tokens=st.sampled_from([1, 2, 16, 256]),
    limited=st.booleans(),
)
def test_no_prompts_are_answered_that_the_gpus_do_not_compute(
    asked: dict[str, object], model: str, output_tokens: int, limited: bool
) -> None:
    limits = {} if limited else {"tpot_limit": None, "ttft_limit": None}
    question = asked | limits | {"model": model, "output_tokens": output_tokens, "weights": "fp8"}
    tokens = asked["input_tokens"] + output_tokens
    flops = planned(question) * 2 * LAYERS[model] * tokens / asked["gpus"]
    assert flops < CATALOG.gpus[asked["gpu"]].fp8.typical


@pytest.mark.parametrize("weights", ["bf16", "fp8", "mxfp4"])
@pytest.mark.parametrize("gpu", CATALOG.gpus)
def test_short_answers_do_not_make_gpus_quicker_than_their_peak(gpu: str, weights: str) -> None:
    # 8 H20 answered 4,096 tokens with one 0.97 times a second each: 560 TFLOP/s of 296
    most = peak(weights, CATALOG.gpus[gpu]).typical
    for engine, prompt, answer in product(CATALOG.engines, (128, 4096, 65536), (1, 2, 3, 4)):
        asked = {"gpu": gpu, "gpus": 8, "model": "llama-3-8b", "weights": weights, "engine": engine}
        requests = planned(asked | {"input_tokens": prompt, "output_tokens": answer, "serving": "aggregated"})
        assert requests / 8 * 2 * LAYERS["llama-3-8b"] * (prompt + answer - 1) < most


@pytest.mark.parametrize("gpu", ["h20", "h100-sxm", "b200-sxm", "mi300x"])
def test_a_second_token_costs_next_to_nothing_after_a_long_prompt(gpu: str) -> None:
    asked = {"gpu": gpu, "gpus": 8, "model": "llama-3-70b", "weights": "fp8", "input_tokens": 4096}
    one, two = (planned(asked | {"output_tokens": answer}) for answer in (1, 2))
    assert two == pytest.approx(one, rel=0.02)


@settings(max_examples=12, deadline=None)
@given(asked=QUESTIONS, users=st.one_of(st.none(), st.integers(1, 3000)))
def test_the_memory_is_never_overdrawn_by_any_load(asked: dict[str, object], users: int | None) -> None:
    serving = evaluated(**asked | {"users": users}).serving
    if serving.memory is None:
        return
    memory = serving.memory
    used = memory.weights.typical + memory.kv_cache.typical + memory.other.typical
    assert used <= memory.capacity.typical * (1 + 1e-9)
    assert serving.tpot.typical <= asked["tpot_limit"] * (1 + 1e-9)


@pytest.mark.parametrize(
    ("asked", "name", "factor"),
    [
        # the quickest layout for prompts alone left fewer whole replicas to the answers
        (
            {"gpu": "b300-sxm", "gpus": 64, "model": "llama-2-7b", "serving": "disaggregated", "ttft_limit": 9.2}
            | {"engine": "tensorrt-llm", "input_tokens": 4096, "scale_out": "gpudirect-tcp", "tpot_limit": 0.1004},
            "dense_peak",
            2.8,
        ),
        # with room for more prompts a step took all of them, and their first tokens came too late
        (
            {"gpu": "l40s", "gpus": 8, "model": "llama-1-65b", "serving": "disaggregated", "weights": "int4"}
            | {"engine": "tensorrt-llm", "input_tokens": 512, "ttft_limit": 3.69, "prefix_hits": 0.82},
            "memory_capacity",
            2.0,
        ),
        # with two in flight a prompt waits for one other at most
        (
            {"gpu": "gb200", "gpus": 8, "model": "megatron-175b", "engine": "sglang", "weights": "nvfp4"}
            | {"input_tokens": 131072, "output_tokens": 256, "tpot_limit": 0.184, "percentile": "p90"},
            "memory_bandwidth",
            2.8,
        ),
    ],
)
def test_more_of_a_rate_never_lowers_throughput_in_corners(asked: dict[str, object], name: str, factor: float) -> None:
    assert 0 < planned(asked) <= planned(asked, {name: factor}) * (1 + ALIKE)


def test_a_faster_network_never_lowers_throughput() -> None:
    asked = {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "tpot_limit": 0.05}
    rates = [planned(asked | {"scale_out": f"infiniband-{each}"}) for each in ("edr", "hdr", "ndr", "xdr")]
    assert rates == sorted(rates)


@pytest.mark.parametrize("pools", ["aggregated", "disaggregated"])
def test_who_asks_now_and_then_is_answered_as_soon_as_who_is_always_alone(pools: str) -> None:
    asked = {"gpu": "h200-sxm", "gpus": 64, "model": "gpt-oss-120b", "serving": pools}
    now_and_then, seldom = (evaluated(**asked, users=1, think_time=think).serving for think in ("0 s", "1000 s"))
    assert now_and_then.tpot == seldom.tpot
    assert now_and_then.interactivity.typical == pytest.approx(now_and_then.front[0].interactivity)
    assert [now_and_then.users.typical, seldom.users.typical] == pytest.approx([1, 1])


@pytest.mark.parametrize(("model", "gpu", "gpus"), [("gpt-oss-120b", "b200-sxm", 24), ("llama-3-70b", "mi300x", 1672)])
def test_the_users_that_were_asked_for_are_those_that_are_served(model: str, gpu: str, gpus: int) -> None:
    # By Little's law those who wait for answers and those who think are all there are, in one pool or in two.
    for think in "0 s", "30 s":
        asked = {"model": model, "gpu": gpu, "gpus": gpus, "users": 2000, "think_time": think, "tpot_limit": "15 ms"}
        for pools in "aggregated", "disaggregated":
            question = ServingQuestion.model_validate(asked | {"serving": pools}, context={"catalog": CATALOG})
            serving = evaluate(question, CATALOG, ()).serving
            assert serving.users.typical == pytest.approx(2000, rel=0.01)


def test_a_load_that_the_cluster_does_not_carry_is_said() -> None:
    found = {finding.code: finding for finding in evaluated(gpus=8, users=1_000_000).findings}
    served = evaluated(gpus=8, users=1_000_000).serving.users.typical
    assert 100 < served < 10_000
    assert found["load-too-large"].message.startswith("The load that is asked for is 1,")  # thousand times
    assert "load-too-large" not in {finding.code for finding in evaluated(gpus=8, users=served * 0.98).findings}


def test_of_one_pool_and_two_that_carry_a_load_the_one_is_taken_that_answers_sooner() -> None:
    """16 requests a second of DeepSeek on 32 H200: 198 s an answer where each replica does both, 41 s in two pools."""
    asked = {"gpus": 32, "gpu": "h200-sxm", "model": "deepseek-v3", "input_tokens": 4096, "request_rate": 16}
    taken, together, apart = (
        evaluated(**asked, **mode).serving for mode in ({}, {"serving": "aggregated"}, {"serving": "disaggregated"})
    )
    assert taken.concurrency == pytest.approx(min(together.concurrency, apart.concurrency))


@pytest.mark.parametrize(
    "asked",
    [
        {"gpu": "gb200", "gpus": 36, "model": "ling-1t", "input_tokens": 131_072, "output_tokens": 256, "users": 40},
        {"gpu": "b200-sxm", "gpus": 32, "model": "qwen-3-235b-a22b", "input_tokens": 16_384, "output_tokens": 64,
         "users": 100},
        {"gpu": "mi300x", "gpus": 24, "model": "llama-3-405b", "weights": "nvfp4", "input_tokens": 8192,
         "output_tokens": 2, "request_rate": 0.001},
    ],
)  # fmt: skip
def test_no_other_layout_answers_a_load_sooner(asked: dict[str, object]) -> None:
    # the quickest token is not the soonest answer where prompts are long: 40 users of Ling 1T waited 75 s, not 55
    taken = evaluated(**asked, serving="aggregated").serving
    for other in taken.alternatives:
        layout = {name: value for name, value in vars(other.parallelism).items() if name != "gpus"}
        served = evaluated(**asked, serving="aggregated", **layout).serving
        assert not served.parallelism or served.concurrency / served.requests_per_second.typical >= 0.999 * (
            taken.concurrency / taken.requests_per_second.typical
        )


def test_nearly_the_most_that_is_answered_is_a_load_that_is_carried() -> None:
    # prompts in steps of 64 tokens: more in flight than answer most answer fewer, each of them later
    asked = {"gpu": "mi355x", "gpus": 8, "model": "qwen-3-0.6b", "input_tokens": 8192, "output_tokens": 8}
    asked |= {"token_budget": 64, "serving": "aggregated"}
    most = evaluated(**asked).serving
    plan = evaluated(**asked, request_rate=0.99 * most.requests_per_second.typical)
    assert "load-too-large" not in {finding.code for finding in plan.findings}
    assert plan.serving.ttft.typical <= most.ttft.typical


@pytest.mark.parametrize("limit", [0.2, 0.22, 0.24, 0.3, 0.5])
def test_two_pools_keep_the_limit_of_the_first_token_with_the_step_that_answers_it(limit: float) -> None:
    asked = {"gpus": 32, "gpu": "h200-sxm", "model": "deepseek-v3", "serving": "disaggregated"}
    assert evaluated(**asked, ttft_limit=limit).serving.ttft.typical <= limit


def test_the_step_that_gives_the_first_token_is_a_whole_one_through_all_stages() -> None:
    # with two further tokens a step takes three times the time per token; with 16 stages, sixteen of one of them
    asked = {"gpus": 32, "gpu": "h100-sxm", "model": "llama-3-70b", "serving": "disaggregated", "output_tokens": 256}
    assert evaluated(**asked, accepted_tokens=2, ttft_limit=0.15).serving.ttft.typical <= 0.15
    asked = {"gpus": 216, "gpu": "mi355x", "model": "gpt-oss-120b", "output_tokens": 1, "tpot_limit": 0.02}
    assert evaluated(**asked, decode_pipeline_parallel=16, users=1000).serving.users.typical == pytest.approx(
        1000, rel=1e-3
    )


def test_a_light_load_of_two_pools_does_not_wait_for_other_prompts() -> None:
    """One prompt at a time where one comes every ten seconds: a limit of its time changes nothing."""
    asked = {"gpus": 32, "serving": "disaggregated", "request_rate": 0.1}
    free, limited = (evaluated(**asked, **limit).serving.ttft.typical for limit in ({}, {"ttft_limit": 0.3}))
    assert free == limited < 0.2


def test_a_load_that_is_carried_within_its_limits_is_not_called_too_large() -> None:
    asked = {"gpu": "gb200", "gpus": 576, "scale_out": "roce-400", "model": "llama-3-70b", "input_tokens": 32000}
    for load in ({"users": 3000}, {"concurrency": 3000}):
        answer = evaluated(**asked, output_tokens=2048, ttft_limit=1, **load)
        assert answer.serving.users.typical == pytest.approx(3000, rel=0.01)
        assert "load-too-large" not in {finding.code for finding in answer.findings}


@pytest.mark.parametrize(
    ("gpu", "model", "gpus", "stages"),
    [
        ("v100-sxm", "llama-3-405b", 40, 5),  # 812 GB in 16 bit, 27 GB on each: 30 GPUs, in five servers of eight
        ("l40s", "deepseek-v3", 24, 3),  # 673 GB in 8 bit, 39 GB on each: 18 GPUs, in three
        ("h100-sxm", "deepseek-v3", 16, 4),  # four GPUs of a stage share a server, two stages each
    ],
)
def test_a_model_that_fits_no_server_is_served_in_stages_over_several(gpu, model, gpus, stages) -> None:
    """Tensor parallelism and experts in a server, stages over servers; said where there are too few."""
    finding = next(
        finding
        for finding in evaluated(gpu=gpu, gpus=8, model=model).findings
        if finding.code == "serving-does-not-fit"
    )
    assert dict(finding.changes) == {"gpus": gpus}
    layout = evaluated(gpu=gpu, gpus=gpus, model=model).serving.parallelism
    assert (layout.pipeline_parallel, layout.gpus) == (stages, gpus)
    assert layout.tensor_parallel * layout.attention_data_parallel <= 8


def test_layouts_leave_few_gpus_idle() -> None:
    """Three H100 servers hold two replicas of twelve of Llama 3.1 405B in FP8; one of sixteen leaves a third."""
    serving = evaluated(gpus=24, model="llama-3-405b").serving
    assert (serving.replicas, serving.gpus) == (2, 24)
    sixteen = evaluated(
        gpus=24, model="llama-3-405b", tensor_parallel=4, pipeline_parallel=4, serving="aggregated"
    ).serving
    assert serving.requests_per_second.typical > sixteen.requests_per_second.typical


def test_the_deepest_stage_is_what_others_wait_for() -> None:
    """61 layers in sixteen stages: four on most, a twentieth more than 61/16."""
    question = ServingQuestion(gpus=16, gpu="h200-sxm", model="deepseek-v3")
    inputs = serving_inputs(setting(question, look_up(question, CATALOG), None, CATALOG), CATALOG)
    assert deepest_stage(inputs.model, Layout(pipeline=16.0)) == 4 / 61


def test_what_other_layouts_answer_counts_the_gpus_that_they_leave_idle() -> None:
    """Ten H100: replicas of three, four and eight leave some of them idle, which are paid all the same."""
    for gpus in (8, 10, 24):
        serving = evaluated(gpus=gpus, model="llama-3-70b", serving="aggregated").serving
        most = serving.output_tokens_per_second_per_gpu.typical * (1 + 1e-9)
        assert max(other.output_tokens_per_second_per_gpu or 0.0 for other in serving.alternatives) <= most
        assert max(point.throughput for point in serving.front) <= most
