"""What each figure about serving means, worked out once more from others of the same answer."""

import re
from typing import Any

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.serving.serving_breakdown import thinned
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.serving_search import envelope, limits_of
from app.units import show, show_range
from tests.bands import typical

CATALOG = load_catalog()
YEAR = 365.25 * 24 * 3600
QUESTIONS: dict[str, dict[str, Any]] = {
    "dense": {"gpus": 16, "model": "llama-3-70b", "engine": "vllm", "tpot_limit": "40 ms"},
    "experts": {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "tpot_limit": "33 ms", "serving": "aggregated"},
    "users": {"gpus": 32, "model": "llama-3-70b", "users": 600, "think_time": "20 s", "output_tokens": 300},
    "pools": {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "serving": "disaggregated", "tpot_limit": "50 ms"},
    "small": {"gpu": "l40s", "gpus": 4, "model": "llama-3-8b", "input_tokens": 4000, "output_tokens": 200},
}


def served(**asked: Any) -> Plan:
    return evaluate(ServingQuestion.model_validate(asked, context={"catalog": CATALOG}), CATALOG)


@pytest.fixture(scope="module", params=QUESTIONS)
def answer(request: pytest.FixtureRequest) -> Plan:
    return served(**QUESTIONS[request.param])


def asked(answer: Plan, name: str) -> float:
    return float(answer.scenario[name])


def test_a_user_reads_one_token_a_time_per_token(answer: Plan) -> None:
    assert typical(answer.serving.interactivity) == pytest.approx(1 / typical(answer.serving.tpot))


def test_tokens_are_requests_times_their_lengths_over_all_gpus(answer: Plan) -> None:
    serving = answer.serving
    each = typical(serving.requests_per_second) / asked(answer, "gpus")
    out, into = asked(answer, "output_tokens"), asked(answer, "input_tokens")
    assert typical(serving.output_tokens_per_second_per_gpu) == pytest.approx(each * out)
    assert typical(serving.total_tokens_per_second_per_gpu) == pytest.approx(each * (into + out))


def test_users_are_those_who_wait_for_an_answer_or_think(answer: Plan) -> None:
    """Little's law: requests a second times the time from one to the next."""
    serving = answer.serving
    cycle = typical(serving.ttft) + (asked(answer, "output_tokens") - 1) * typical(serving.tpot)
    rate, users = typical(serving.requests_per_second), typical(serving.users)
    waiting = users - rate * asked(answer, "think_time")
    assert waiting == pytest.approx(rate * cycle)
    assert waiting == pytest.approx(serving.concurrency)


def test_replicas_are_as_many_as_fit_and_their_gpus_those_of_their_layout(answer: Plan) -> None:
    serving = answer.serving
    layout = serving.parallelism
    assert layout is not None
    assert layout.gpus == layout.tensor_parallel * layout.attention_data_parallel * layout.pipeline_parallel
    if serving.mode == "aggregated":
        assert (serving.prefill, serving.decode, serving.kv_transfer) == (None, None, None)
        assert serving.replicas == asked(answer, "gpus") // layout.gpus
        assert serving.gpus == serving.replicas * layout.gpus
    else:
        assert serving.prefill is not None
        assert serving.decode is not None
        assert serving.decode.parallelism == layout
        assert serving.replicas == serving.decode.workers
        for pool in (serving.prefill, serving.decode):
            assert pool.gpus == pool.workers * pool.parallelism.gpus
        assert serving.gpus == serving.prefill.gpus + serving.decode.gpus <= asked(answer, "gpus")


def test_the_limits_asked_for_are_kept(answer: Plan) -> None:
    if limit := answer.scenario["tpot_limit"]:
        assert typical(answer.serving.tpot) <= limit * (1 + 1e-9)


def test_memory_holds_weights_cache_and_the_rest(answer: Plan) -> None:
    memory = answer.serving.memory
    assert memory is not None
    held = typical(memory.weights) + typical(memory.kv_cache) + typical(memory.other)
    assert held <= typical(memory.capacity) * (1 + 1e-6)
    share = answer.scenario["memory_share"]
    gpu = CATALOG.gpus[answer.scenario["gpu"]]
    assert typical(memory.capacity) < gpu.memory.typical
    if share:
        assert typical(memory.capacity) == pytest.approx(share * gpu.memory.typical)
    assert typical(memory.sequences) >= answer.serving.concurrency / answer.serving.replicas * (1 - 1e-6)


def test_tokens_cost_what_the_cluster_costs_while_it_makes_them(answer: Plan) -> None:
    serving, cluster = answer.serving, answer.cluster
    gpus = asked(answer, "gpus")
    tokens = typical(serving.output_tokens_per_second_per_gpu)
    joules = typical(cluster.typical_power) / gpus / tokens * 1e6
    assert typical(serving.costs.energy_per_million_tokens) == pytest.approx(joules)
    if serving.costs.rental:
        rent = typical(serving.costs.rental) * tokens / 1e6 * 3600  # USD an hour of one GPU
        assert 0.5 < rent < 10
    # A point of the front at the same load costs as much as the answer.
    if serving.costs.per_million_output_tokens:
        each = typical(serving.costs.per_million_output_tokens) * tokens
        for point in serving.front:
            assert point.cost is not None
            assert point.cost * point.throughput == pytest.approx(each, rel=1e-6)


def test_the_rent_of_tokens_is_that_of_the_gpus_that_make_them() -> None:
    serving = served(gpus=8, model="llama-3-8b", price_gpu_hour="2 USD/h").serving
    tokens = 3600 * typical(serving.output_tokens_per_second_per_gpu)
    assert typical(serving.costs.rental) == pytest.approx(2 / tokens * 1e6)


def test_a_price_to_beat_says_what_is_saved_and_from_which_load_on() -> None:
    """The cluster costs the same whatever it answers: at half the load a token costs twice as much."""
    plain = served(gpus=8, model="llama-3-8b").serving.costs
    cost = typical(plain.per_million_output_tokens)
    assert plain.saved_per_million is None
    assert plain.break_even_load is None
    cheaper, dearer = (served(gpus=8, model="llama-3-8b", token_price=price) for price in (2 * cost, cost / 2))
    assert typical(cheaper.serving.costs.saved_per_million) == pytest.approx(cost)
    assert typical(cheaper.serving.costs.break_even_load) == pytest.approx(0.5)
    assert typical(dearer.serving.costs.saved_per_million) == pytest.approx(-cost / 2)
    assert typical(dearer.serving.costs.break_even_load) == pytest.approx(2)
    assert "less than elsewhere" in cheaper.verdict
    assert "more than elsewhere" in dearer.verdict
    saved = cheaper.serving.costs.saved_per_million
    assert saved is not None
    assert saved.low < saved.typical < saved.high


def test_prompts_cost_the_share_of_the_time_that_they_take() -> None:
    """What an input token costs, times the prompts' tokens, is a share of the whole: below one, and more for longer."""

    def share(prompt: int) -> float:
        asked = {"gpus": 8, "model": "llama-3-70b", "input_tokens": prompt, "output_tokens": 500, "concurrency": 16}
        costs = served(**asked).serving.costs
        return prompt * typical(costs.per_million_input_tokens) / (500 * typical(costs.per_million_output_tokens))

    shares = [share(prompt) for prompt in (100, 1000, 10_000)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


def test_the_front_gives_up_speed_for_throughput_point_by_point(answer: Plan) -> None:
    front = answer.serving.front
    assert 2 <= len(front) <= 24
    speeds, rates = ([getattr(point, name) for point in front] for name in ("interactivity", "throughput"))
    assert speeds == sorted(speeds, reverse=True)
    assert rates == sorted(rates)
    # Little's law once more: tokens a second of a GPU are those of the sequences in flight on it, less first tokens.
    for point in front:
        most = point.concurrency * point.interactivity / point.parallelism.gpus
        output = asked(answer, "output_tokens")
        cycle = point.ttft + (output - 1) / point.interactivity
        assert point.throughput <= most * (1 + 1e-6)
        if point.mode == "aggregated":
            each = point.concurrency * output / cycle / point.parallelism.gpus
            assert point.throughput == pytest.approx(each, rel=0.02)


@pytest.mark.parametrize(
    "asked_for",
    [
        {"gpu": "gb200", "gpus": 144, "model": "deepseek-v3", "users": 20_000, "tpot_limit": "50 ms"},
        {"gpu": "h100-sxm", "gpus": 64, "model": "llama-3-70b", "tpot_limit": "25 ms"},
        {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "serving": "disaggregated"},
        {"gpu": "h100-sxm", "gpus": 64, "model": "llama-3-70b", "serving": "aggregated", "tpot_limit": "25 ms"},
    ],
)
def test_no_answer_lies_above_the_front_whose_points_have_one_pool_or_two(asked_for: dict[str, Any]) -> None:
    serving = served(**asked_for).serving
    front = serving.front[::-1]
    speeds, rates = ([getattr(point, name) for point in front] for name in ("interactivity", "throughput"))
    at_its_speed = np.interp(typical(serving.interactivity), speeds, rates)
    assert typical(serving.output_tokens_per_second_per_gpu) <= 1.03 * at_its_speed
    modes = {point.mode for point in front}
    assert modes == {asked_for["serving"]} if "serving" in asked_for else serving.mode in modes
    # Of prompts and answers apart a GPU gives no more than its share of what is in flight.
    for point in front:
        assert point.throughput <= point.concurrency * point.interactivity / point.parallelism.gpus * (1 + 1e-6)


def test_doubling_the_bottleneck_gains_most(answer: Plan) -> None:
    bottleneck = answer.serving.bottleneck
    assert bottleneck is not None
    gains = {one.resource: one.gain for one in bottleneck.what_if}
    assert set(gains) == {"compute", "memory_bandwidth", "memory_capacity", "scale_up", "scale_out", "host"}
    assert gains[bottleneck.resource] == max(gains.values())
    assert bottleneck.share == pytest.approx(1 - 1 / (1 + max(gains.values())))
    loads = ("concurrency", "users", "request_rate")
    assert bottleneck.held == ("load" if any(answer.scenario[name] is not None for name in loads) else "limits")
    assert {one.factor for one in bottleneck.what_if} == {2}
    assert all(-1e-9 <= gain < 1.5 for gain in gains.values())
    # Tokens then over tokens now are the same for all: what the gain is a gain over.
    now = [one.output_tokens_per_second_per_gpu / (1 + one.gain) for one in bottleneck.what_if]
    assert now == pytest.approx([now[0]] * 6)
    assert now[0] == pytest.approx(typical(answer.serving.output_tokens_per_second_per_gpu), rel=0.02)


def test_other_layouts_answer_fewer_tokens_or_this_load_later_and_say_how_many(answer: Plan) -> None:
    serving = answer.serving
    others = serving.alternatives
    assert len(others) <= 6
    assert serving.parallelism not in [other.parallelism for other in others]
    rates = [other.output_tokens_per_second_per_gpu or 0.0 for other in others]
    assert rates == sorted(rates, reverse=True)
    chosen = typical(serving.output_tokens_per_second_per_gpu)
    for other, rate in zip(others, rates, strict=True):
        if rate and serving.mode == "aggregated":
            more = rate / chosen - 1
            loaded = any(answer.scenario[name] is not None for name in ("concurrency", "users", "request_rate"))
            said = "answers this load later" if loaded and more > 0.01 else "fewer tokens a second"
            assert said in other.reason
            share = re.search(r"([\d.]+)\u202f%", other.reason)
            assert share
            assert float(share[1]) == pytest.approx(100 * (more if more > 0.01 else max(-more, 0)), abs=0.51)
        if not rate:
            assert other.reason in ("Its weights leave no room for a sequence.", "It keeps a limit at no load.")


def test_the_pools_send_each_prompts_cache_from_one_to_the_other() -> None:
    answer = served(**QUESTIONS["pools"])
    serving, transfer = answer.serving, answer.serving.kv_transfer
    assert transfer is not None
    assert serving.prefill is not None
    assert serving.decode is not None
    smaller = min(serving.prefill.gpus, serving.decode.gpus)
    rate = typical(serving.requests_per_second) * typical(transfer.bytes) / smaller
    assert typical(transfer.rate) == pytest.approx(rate)
    link = typical(transfer.bytes) / typical(transfer.time) / serving.prefill.parallelism.gpus
    assert transfer.share_of_network == pytest.approx(rate / link)
    assert 0 < transfer.share_of_network < 1
    # 1,024 tokens of DeepSeek-V3: 61 layers of 512 + 64 latent values, a byte or two each.
    values = 1024 * 61 * (512 + 64)
    assert typical(transfer.bytes) in (pytest.approx(values, rel=0.02), pytest.approx(2 * values, rel=0.02))


def test_a_percentile_is_a_limit_of_a_lower_mean() -> None:
    def limits(**asked: Any) -> tuple[float, float]:
        found = limits_of(ServingQuestion.model_validate(asked), CATALOG.serving["tails"])
        return found.first_token, found.time_per_token

    assert limits() == (np.inf, np.inf)
    assert limits(ttft_limit=2.0, tpot_limit=0.05) == (2.0, 0.05)
    first, token = limits(ttft_limit=2.0, tpot_limit=0.05, percentile="p99")
    assert first == pytest.approx(2.0 / CATALOG.serving["tails"]["first_token_p99"].typical)
    assert token == pytest.approx(0.05 / CATALOG.serving["tails"]["time_per_token_p99"].typical)
    assert first < 2.0
    assert token < 0.05


def test_what_is_asked_in_flight_is_shared_by_the_replicas() -> None:
    serving = served(gpus=16, model="llama-3-8b", concurrency=100).serving
    assert serving.concurrency == pytest.approx(100)
    apart = served(gpus=16, model="llama-3-8b", concurrency=100, serving="disaggregated").serving
    assert apart.concurrency == pytest.approx(100, rel=0.01)  # in the pool for prompts and in that for answers
    rate = served(gpus=16, model="llama-3-8b", request_rate="5 /s").serving
    assert typical(rate.requests_per_second) >= 5 * (1 - 1e-6)
    assert typical(rate.requests_per_second) < 5 * 1.5  # the points tried lie a third of a doubling apart
    quicker = served(gpus=16, model="llama-3-8b", request_rate="1 /s").serving
    assert typical(quicker.tpot) < typical(rate.tpot)


def test_the_envelope_is_what_no_other_beats_in_both() -> None:
    speed, rate = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([1.0, 3.0, 2.0, 3.0, 9.0])
    assert envelope(speed, rate, np.ones(5, bool)) == [0, 1, 4]
    assert envelope(speed, rate, np.array([True, False, True, True, True])) == [0, 2, 3, 4]
    assert envelope(speed, rate, np.zeros(5, bool)) == []
    assert envelope(speed, 0 * rate, np.ones(5, bool)) == []  # what answers nothing


def test_a_long_list_is_thinned_evenly_with_both_ends() -> None:
    assert thinned(list(range(24)), 24) == list(range(24))
    assert thinned(list(range(100)), 3) == [0, 50, 99]
    assert len(set(thinned(list(range(1000)), 24))) == 24


def findings(**asked: Any) -> dict[str, Any]:
    return {finding.code: finding for finding in served(**asked).findings}


def test_a_load_that_the_memory_does_not_hold_is_a_finding() -> None:
    asked = {"gpus": 8, "model": "llama-3-70b"}
    said = findings(**asked, concurrency=100_000)["load-not-held"]
    held = said.changes["concurrency"]
    assert f"100,000 requests in flight are more than the {held:,.0f} that memory and engine hold" in said.message
    loads = {"load-too-large", "load-not-held", "limits-not-kept"}
    assert not loads & findings(**asked, concurrency=10).keys()
    assert not loads & findings(**asked, **said.changes).keys()
    assert loads & findings(**asked, concurrency=held + 1).keys() == {"load-not-held"}
    assert loads & findings(**asked, concurrency=held, tpot_limit="1 ms").keys() == {"limits-not-kept"}


@pytest.mark.parametrize("limits", [{}, {"tpot_limit": 1.0}, {"ttft_limit": 100.0}, {"concurrency": 256}])
def test_a_model_that_two_pools_do_not_hold_is_said_to_whatever_the_limits(limits: dict[str, float]) -> None:
    """16 L40 hold the 480 GB of Qwen 3 Coder 480B once."""
    asked = {"gpu": "l40", "gpus": 16, "model": "qwen-3-coder-480b-a35b"} | limits
    assert "serving-does-not-fit" not in findings(**asked)
    apart = findings(**asked, serving="disaggregated")
    assert "limits-not-kept" not in apart
    assert apart["serving-does-not-fit"].message.startswith("Each of two pools holds the model by itself")


def test_a_model_too_large_is_told_the_doubling_on_which_it_fits() -> None:
    # 401.6e9 weights of a byte and 4.2e9 of embeddings and head of two: 410 GB. GPUs leave 73 GB each; with a margin of
    # 5 %, eight are enough.
    finding = findings(gpus=2, model="llama-3-405b")["serving-does-not-fit"]
    assert dict(finding.changes) == {"gpus": 8}
    assert "410 GB for its weights in fp8" in finding.message.replace("\u202f", " ")
    assert finding.suggestion == "Use 8 GPUs or more, or weights of fewer bits."
    assert "serving-does-not-fit" not in findings(gpus=8, model="llama-3-405b")
    starved = findings(gpu="l4", gpus=8, model="llama-3-8b", memory_share=0.11)["serving-does-not-fit"]
    assert "before any weight" in starved.message
    long = findings(gpu="l40s", gpus=1, model="llama-3-8b", input_tokens=10_000_000)["serving-does-not-fit"]
    assert "one sequence of 10,000,000 tokens" in long.message


def test_limits_that_nothing_keeps_say_how_near_the_nearest_comes() -> None:
    both = findings(gpus=8, model="llama-3-70b", tpot_limit="1 us", ttft_limit="1 us")["limits-not-kept"]
    assert "a token, over 1 us" in both.message.replace("\u202f", " ").replace("µ", "u")
    assert "The first token takes" in both.message
    token = findings(gpus=8, model="llama-3-70b", tpot_limit="1 us")["limits-not-kept"]
    assert "The first token takes" not in token.message
    first = findings(gpus=8, model="llama-3-70b", ttft_limit="1 us")["limits-not-kept"]
    assert "a token, over" not in first.message


def test_an_engine_that_is_assumed_widens_the_range() -> None:
    asked = {"gpus": 8, "model": "llama-3-70b"}
    free = served(**asked)
    (said,) = (finding for finding in free.findings if finding.code == "engine-assumed")
    named = served(**asked, **dict(said.changes))
    assert typical(named.serving.tpot) == pytest.approx(typical(free.serving.tpot))
    assert named.serving.tpot is not None
    assert free.serving.tpot is not None
    assert named.serving.tpot.high < free.serving.tpot.high
    assert "engine-assumed" not in {finding.code for finding in named.findings}


def test_the_time_of_drafting_is_said_to_be_left_out() -> None:
    asked = {"gpus": 8, "model": "llama-3-70b", "concurrency": 1, "tensor_parallel": 8}
    alone, drafted = (served(**asked, accepted_tokens=count) for count in (0, 3))
    # one user waits for weights, whom checking a few tokens more costs nothing: four tokens a step in place of one
    assert typical(alone.serving.tpot) / typical(drafted.serving.tpot) == pytest.approx(4, rel=0.05)
    (said,) = (finding for finding in drafted.findings if finding.code == "draft-not-timed")
    assert said.severity == "note"
    assert ": 3 further tokens a step" in said.message
    assert "draft-not-timed" not in {finding.code for finding in alone.findings}


def test_what_is_cached_is_said_to_be_one_prefix_of_all_and_how_many_fit_where_each_has_its_own() -> None:
    asked = {"gpus": 8, "model": "llama-3-70b", "input_tokens": 128_000, "output_tokens": 500, "tensor_parallel": 8}
    whole, cached = served(**asked), served(**asked, prefix_hits=0.9)
    (said,) = (finding for finding in cached.findings if finding.code == "prefix-shared")
    rooms = [answer.serving.memory.sequences.typical for answer in (whole, cached) if answer.serving.memory]
    assert "The 115,200 tokens" in said.message
    assert f"room for {int(rooms[1])} sequences" in said.message
    assert f"{int(rooms[0])} fit" in said.message
    assert "prefix-shared" not in {finding.code for finding in whole.findings}


def test_the_most_that_is_served_says_so_where_nobody_limits_the_time_per_token() -> None:
    asked = {"gpu": "mi300x", "gpus": 8, "model": "llama-3-405b"}
    said = findings(**asked)["no-limit"]
    slowest, limited = served(**asked).serving, served(**asked, **dict(said.changes)).serving
    assert show(typical(slowest.tpot), "s") in said.message
    assert typical(limited.tpot) <= 0.05 < typical(slowest.tpot)
    assert typical(limited.users) < typical(slowest.users)
    assert "no-limit" not in findings(**asked, **dict(said.changes))
    assert "no-limit" not in findings(**asked, users=100)
    assert not findings(gpu="l40s", gpus=16, model="llama-3-405b")["no-limit"].changes


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"gpus": 8, "users": 1}, " to 1 user at "),
        ({"gpus": 64, "users": 13}, " to 13 users at "),
        ({"gpus": 64, "users": 1, "serving": "disaggregated"}, " to 1 user at "),
    ],
)
def test_whole_users_are_a_count(asked: dict[str, Any], says: str) -> None:
    assert says in served(**asked).verdict


def test_the_answer_in_a_sentence_has_its_figures(answer: Plan) -> None:
    serving = answer.serving
    gpu, model = CATALOG.gpus[answer.scenario["gpu"]].name, CATALOG.models[answer.scenario["model"]].name
    assert answer.verdict.startswith(f"{answer.scenario['gpus']:,} {gpu} serve {model} to ")
    bands = (serving.users, serving.interactivity)
    users, speed = (show_range(it.low, it.typical, it.high, "1").partition(" (")[0] for it in bands)
    assert f" to {users} users at {speed} tokens a second each." in answer.verdict
    assert ("A million output tokens cost" in answer.verdict) == (serving.costs.per_million_output_tokens is not None)
