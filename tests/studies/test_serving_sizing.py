"""Which cluster carries a load: enough of it, no more than needed, and cheaper where limits are looser."""

import pytest

from app.catalog.load import load_catalog
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate
from app.plan.network import network_of
from app.plan.serving.serving_inputs import serving_inputs, setting
from app.plan.serving.serving_request import ServingQuestion
from app.plan.serving.serving_search import on_another_network, try_all
from app.plan.total_cost import ownership
from app.studies.serving_sizing import ServeSizeQuestion, ServeSizing, ServingCandidate, idle_findings, size_serving

CATALOG = load_catalog()
ASKED = {"gpu": ["h100-sxm", "h200-sxm"], "model": "llama-3-70b", "users": 500, "think_time": "20 s", "engine": "vllm"}


def sized(**fields: object) -> ServeSizing:
    asked = ServeSizeQuestion.model_validate(ASKED | fields, context={"catalog": CATALOG})
    return size_serving(asked, CATALOG)


def test_every_candidate_serves_the_users_within_the_limit() -> None:
    answer = sized(tpot_limit="30 ms")
    assert answer.candidates
    for one in answer.candidates:
        assert one.tpot <= 0.030
        assert one.users == pytest.approx(500, rel=0.01)
        # 500 users who each wait for a first token and 1,023 more, and think for 20 s
        assert one.requests_per_second == pytest.approx(500 / (one.ttft + 1023 * one.tpot + 20), rel=0.01)


def test_the_cheapest_leads_the_front_which_gets_quicker_as_it_gets_dearer() -> None:
    answer = sized(tpot_limit="50 ms")
    assert answer.front[0] == answer.cheapest
    costs, times = [one.per_hour for one in answer.front], [one.tpot for one in answer.front]
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)
    assert answer.lowest_latency.tpot == min(one.tpot for one in answer.candidates)
    assert answer.fewest_gpus.gpus == min(one.gpus for one in answer.candidates)


def test_a_rack_counts_as_the_gpus_that_are_bought_with_it() -> None:
    asked = {"model": "deepseek-v3", "gpu": ["b200-sxm", "gb200"], "users": 300, "tpot_limit": "30 ms"}
    answer = sized(**asked)
    bought = {(one.gpu, one.gpus): one.bought_gpus for one in answer.candidates}
    assert {gpus for (gpu, _), gpus in bought.items() if gpu == "gb200"} == {72}
    assert all(gpus == of_nodes for (gpu, gpus), of_nodes in bought.items() if gpu == "b200-sxm")
    fewer = min(answer.candidates, key=lambda one: one.gpus)
    assert fewer.gpu == "gb200"  # two of its 18 nodes would do, and all of them are paid for
    assert fewer.gpus < answer.fewest_gpus.gpus == answer.fewest_gpus.bought_gpus < fewer.bought_gpus
    assert answer.fewest_gpus.capital < fewer.capital


def test_what_is_bought_and_idle_is_said_as_the_plan_says_it() -> None:
    asked = ASKED | {"model": "deepseek-v3", "gpu": ["gb200"], "users": 300, "tpot_limit": "30 ms"}
    question = ServeSizeQuestion.model_validate(asked, context={"catalog": CATALOG})
    answer = size_serving(question, CATALOG)
    said = {finding.message: finding for finding in idle_findings(question, answer, CATALOG)}
    for one in (answer.cheapest, answer.fewest_gpus, answer.lowest_latency):
        fields = dict(pair.split("=") for pair in one.query.replace("+", " ").split("&"))
        plan = evaluate(ServingQuestion.model_validate(fields, context={"catalog": CATALOG}), CATALOG, ())
        of_plan = next(finding for finding in plan.findings if finding.code == "partial-rack")
        finding = said[f"GB200: {of_plan.message}"]
        assert (finding.code, finding.severity, finding.changes) == ("partial-rack", of_plan.severity, {})
        assert finding.fields == ("gpu",)
    h100 = ServeSizeQuestion.model_validate(ASKED, context={"catalog": CATALOG})
    assert not list(idle_findings(h100, size_serving(h100, CATALOG), CATALOG))


def test_a_tighter_limit_and_more_users_need_no_fewer_gpus() -> None:
    loose, tight = (sized(tpot_limit=limit).fewest_gpus.gpus for limit in ("60 ms", "15 ms"))
    few, many = (sized(tpot_limit="30 ms", users=users).fewest_gpus.gpus for users in (200, 5000))
    assert loose <= tight
    assert few < many


def test_a_cluster_whose_network_cannot_be_built_is_no_candidate() -> None:
    asked = {"gpu": ["h100-sxm"], "tpot_limit": "30 ms", "users": 20_000, "topology": "fat-tree"}

    def unbuildable(gpus: int, scale_out: str) -> bool:
        question = ServingQuestion(gpus=gpus, scale_out=scale_out, topology="fat-tree", tiers=1)
        return network_of(question, CATALOG).unbuildable

    every, of_one_tier = (
        {(one.gpus, one.scale_out) for one in sized(**asked | more).candidates} for more in ({}, {"tiers": 1})
    )
    refused = {one for one in every if unbuildable(*one)}
    assert refused  # no switch has ports for all NICs
    assert of_one_tier == every - refused


def test_headroom_is_left() -> None:
    asked = {"request_rate": "100 /s", "tpot_limit": "40 ms"}
    tight, spare = (sized(headroom=share, **asked).fewest_gpus.gpus for share in (1.0, 0.5))
    assert spare == pytest.approx(2 * tight, rel=0.15)


def test_the_answer_leads_to_a_plan_that_carries_the_load() -> None:
    best = sized(tpot_limit="30 ms").cheapest
    fields = dict(pair.split("=") for pair in best.query.replace("+", " ").split("&"))
    question = ServingQuestion.model_validate(fields, context={"catalog": CATALOG})
    answer = evaluate(question, CATALOG)
    assert question.gpus == best.gpus
    assert answer.serving.tpot.typical <= 0.030
    assert answer.serving.users.typical == pytest.approx(500, rel=0.2)


def test_a_domain_of_72_is_another_candidate_than_one_of_8() -> None:
    answer = sized(gpu=["gb200"], model="deepseek-v3", scale_up_domain=[8, 72], tpot_limit="20 ms", users=2000)
    assert {one.scale_up_domain for one in answer.candidates} == {8, 40, 72}  # 40: part of a rack is enough


@pytest.mark.parametrize(
    ("model", "gpu", "limits"),
    [
        ("deepseek-v3", "h100-sxm", {"tpot_limit": "30 ms", "users": 300, "output_tokens": 500}),
        ("llama-3-70b", "gb200", {"tpot_limit": "15 ms", "users": 2000, "output_tokens": 200}),
        ("gpt-oss-120b", "mi355x", {"tpot_limit": "12 ms", "users": 4000, "input_tokens": 8000}),
    ],
)
def test_no_cluster_of_a_node_less_carries_the_load_in_one_pool_or_two(
    model: str, gpu: str, limits: dict[str, object]
) -> None:
    found = sized(gpu=[gpu], model=model, scale_out=["roce-400"], **limits).fewest_gpus
    node = CATALOG.platforms[CATALOG.gpus[gpu].platform].gpus_per_node
    with_headroom = {**limits, "users": limits["users"] / 0.8}

    def carries(gpus: int) -> bool:
        fields = {"gpu": gpu, "gpus": gpus, "model": model, "scale_out": "roce-400", "think_time": "20 s"}
        question = ServingQuestion.model_validate(
            fields | with_headroom | {"engine": "vllm"}, context={"catalog": CATALOG}
        )
        answer = evaluate(question, CATALOG, ())
        codes = {finding.code for finding in answer.findings}
        return answer.serving.users is not None and "load-too-large" not in codes

    assert found.mode == "disaggregated"
    assert found.prefill.gpus + found.replicas * found.parallelism.gpus <= found.gpus
    assert carries(found.gpus)
    assert not carries(found.gpus - node)


@pytest.mark.parametrize(
    ("gpu", "model", "weights", "gpus"),
    [
        ("l40s", "deepseek-v3", "fp8", 24),
        ("rtx-pro-6000", "kimi-k2", "bf16", 32),
        ("v100-sxm", "llama-3-405b", None, 32),
    ],
)
def test_a_model_that_fits_no_two_servers_is_served_by_one_pool_of_as_many_as_hold_it(
    gpu: str, model: str, weights: str | None, gpus: int
) -> None:
    # two pools hold the weights twice; a replica of 16 holds none of these models
    found = sized(gpu=[gpu], model=model, weights=weights, users=10, scale_out=["roce-400"]).fewest_gpus
    assert (found.gpus, found.mode, found.parallelism.gpus) == (gpus, "aggregated", gpus)


@pytest.mark.parametrize("ranks", [24, 32, 64])
def test_a_cluster_has_the_racks_in_which_its_replicas_stand_whole(ranks: int) -> None:
    asked = {"gpu": "gb200", "model": "deepseek-v3", "serving": "aggregated", "engine": "vllm", "think_time": "20 s"}
    asked |= {"attention_data_parallel": ranks, "tensor_parallel": 1, "pipeline_parallel": 1, "tpot_limit": "40 ms"}
    found = sized(**asked | {"gpu": ["gb200"], "users": 60_000, "scale_out": ["infiniband-ndr"]}).fewest_gpus
    smaller, enough = (
        evaluate(ServingQuestion.model_validate(asked | {"gpus": gpus}, context={"catalog": CATALOG}), CATALOG, ())
        for gpus in (found.gpus - 4, found.gpus)  # a node has four
    )
    assert smaller.serving.replicas < found.replicas <= enough.serving.replicas
    assert found.replicas > 2 * (72 // ranks)


@pytest.mark.parametrize(("most", "largest"), [(10, 8), (4, 4)])  # whole servers of eight; or a part of one
def test_no_cluster_is_larger_than_the_largest_considered(most: int, largest: int) -> None:
    for users in (1, 3000):
        answer = sized(gpus=most, users=users, gpu=["mi355x"], think_time="0 s")
        assert all(one.gpus <= largest for one in answer.candidates)


def test_what_no_cluster_carries_is_said() -> None:
    answer = sized(tpot_limit="1 us")
    assert answer.cheapest is None
    assert "No cluster" in answer.message


# Figure by figure


@pytest.fixture(scope="module")
def answer() -> ServeSizing:
    return sized(tpot_limit="40 ms", scale_out=["infiniband-ndr", "roce-400"])


def test_a_candidates_figures_are_those_of_its_own_question(answer: ServeSizing) -> None:
    for one in answer.candidates:
        assert one.interactivity == pytest.approx(1 / one.tpot)
        nodes = (one.replicas * one.parallelism.gpus + (one.prefill.gpus if one.prefill else 0)) / 8
        assert one.gpus == 8 * int(-(-nodes // 1))
        fields = dict(pair.split("=") for pair in one.query.replace("+", " ").split("&"))
        asked = ServingQuestion.model_validate(fields, context={"catalog": CATALOG})
        assert (asked.gpu, asked.gpus, asked.scale_out) == (one.gpu, one.gpus, one.scale_out)
        network = network_of(asked, CATALOG.typical_only())
        owned = ownership(network, network.prices)
        assert one.capital == pytest.approx(owned.capital.typical)
        assert one.power == pytest.approx(float(owned.power[0]))
        lifetime = CATALOG.operations["site"]["lifetime"].typical
        assert one.per_hour == pytest.approx(float(owned.total[0]) / lifetime * 3600)
        tokens = one.requests_per_second * 1024 * 3600
        assert one.per_million_output_tokens == pytest.approx(one.per_hour / tokens * 1e6)
        assert one.scale_up_domain == network.cluster.domain == 8


def test_candidates_stand_cheapest_first_and_the_named_ones_are_the_least_of_them(answer: ServeSizing) -> None:
    found = answer.candidates
    assert answer.considered == 4  # two GPUs on two networks
    assert 4 <= len(found) <= 8
    assert [one.per_hour for one in found] == sorted(one.per_hour for one in found)
    assert answer.cheapest is found[0]
    assert answer.fewest_gpus == min(found, key=lambda one: (one.bought_gpus, one.per_hour))
    assert answer.lowest_latency == min(found, key=lambda one: (one.tpot, one.per_hour))
    assert answer.message == ""


@pytest.mark.parametrize(
    ("limits", "by"),
    [
        ({}, "tpot"),
        ({"tpot_limit": "50 ms"}, "tpot"),
        ({"ttft_limit": "4 s"}, "ttft"),
        ({"tpot_limit": "50 ms", "ttft_limit": "4 s"}, "answer"),
    ],
)
def test_the_quickest_is_that_with_the_least_of_what_is_limited(limits: dict[str, str], by: str) -> None:
    answer = sized(gpu=["h200-sxm", "b200-sxm"], scale_out=["infiniband-ndr"], input_tokens=8192, **limits)
    assert answer.quickest_by == by

    def time(one: ServingCandidate) -> float:
        return {"tpot": one.tpot, "ttft": one.ttft, "answer": one.ttft + 1023 * one.tpot}[by]

    assert answer.lowest_latency is not None
    assert time(answer.lowest_latency) == min(map(time, answer.candidates))


def test_a_first_token_that_alone_is_limited_comes_sooner_than_where_nothing_is() -> None:
    asked = {"gpu": ["h200-sxm"], "scale_out": ["infiniband-ndr"], "input_tokens": 16384, "users": 2000}
    free, limited = sized(**asked).lowest_latency, sized(**asked, ttft_limit="20 s").lowest_latency
    assert free is not None
    assert limited is not None
    assert limited.ttft < free.ttft
    assert limited.tpot > free.tpot


def test_one_replica_less_does_not_carry_the_load_with_its_headroom() -> None:
    asked = {"request_rate": "60 /s", "tpot_limit": "40 ms", "headroom": 0.75}
    for one in sized(**asked).candidates:
        assert one.requests_per_second == pytest.approx(60)
        question = ServingQuestion.model_validate(
            {"gpu": one.gpu, "gpus": one.gpus, "model": "llama-3-70b", "engine": "vllm", "tpot_limit": "40 ms",
             "tensor_parallel": one.parallelism.tensor_parallel, "pipeline_parallel": one.parallelism.pipeline_parallel,
             "scale_out": one.scale_out, "serving": "aggregated"}, context={"catalog": CATALOG}
        )  # fmt: skip
        most = evaluate(question, CATALOG).serving
        each = most.requests_per_second.typical / most.replicas
        assert one.replicas >= 60 / 0.75 / each * (1 - 1e-6)
    single = sized(concurrency=1, tpot_limit="40 ms").candidates
    assert {one.replicas for one in single} == {1}


def test_requests_or_a_number_in_flight_stand_in_place_of_the_users() -> None:
    def question(**fields: object) -> ServingQuestion:
        asked = ServeSizeQuestion.model_validate(ASKED | fields, context={"catalog": CATALOG})
        return asked.candidate("h100-sxm", "roce-400", 4, 64)

    assert question().users == 500
    assert question(request_rate="1 /s").users is None
    assert question(concurrency=10).users is None
    made = question()
    assert (made.gpu, made.scale_out, made.scale_up_domain, made.gpus) == ("h100-sxm", "roce-400", 4, 64)


def test_the_quickest_has_at_most_four_times_the_gpus_of_the_smallest() -> None:
    answer = sized(gpu=["h100-sxm"], scale_out=["infiniband-ndr"], tpot_limit="60 ms", users=5000)
    smallest, quickest = sorted(answer.candidates, key=lambda one: one.gpus)
    assert quickest.tpot < smallest.tpot
    assert 1.5 < quickest.gpus / smallest.gpus <= 4.2  # in whole nodes
    assert "No cluster of up to 16 GPUs" in sized(gpus=16, users=100_000).message


def test_layouts_inside_a_domain_are_tried_once_for_all_networks() -> None:
    asked = [
        ServingQuestion(gpu="h200-sxm", gpus=16, model="deepseek-v3", scale_out=key)
        for key in ("infiniband-ndr", "tcp-400")
    ]
    settings = [setting(one, look_up(one, CATALOG), None, CATALOG) for one in asked]
    first, second = (try_all(it, serving_inputs(it, CATALOG), 16) for it in settings)
    again = on_another_network(first, settings[1], serving_inputs(settings[1], CATALOG))
    for name in ("time_per_token", "first_token", "requests", "fits", "concurrency"):
        assert (getattr(again, name) == getattr(second, name)).all(), name
    assert (first.time_per_token != second.time_per_token).any()


def test_of_two_ways_to_run_the_same_nodes_the_quickest_is_named() -> None:
    asked = ServeSizeQuestion.model_validate({}, context={"catalog": CATALOG})
    queries = [one.query for one in size_serving(asked, CATALOG).candidates]
    assert len(set(queries)) == len(queries)
    mi355x = next(one for one in size_serving(asked, CATALOG).candidates if one.gpu == "mi355x")
    assert (mi355x.gpus, mi355x.replicas) == (8, 4)  # two replicas carry the load, at twice the time per token


def test_the_quickest_uses_all_gpus_of_the_nodes_that_are_bought() -> None:
    """One user: 4 of 8 B200 answer at 7.6 ms a token, all 8 at 6.4, for the same money."""
    found = size_serving(ServeSizeQuestion.model_validate({"users": 1}, context={"catalog": CATALOG}), CATALOG)
    b200 = next(one for one in found.candidates if one.gpu == "b200-sxm")
    assert b200.parallelism.gpus == b200.bought_gpus == 8
    assert found.lowest_latency.gpu == "b200-sxm"
