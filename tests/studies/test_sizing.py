"""Which cluster trains this model by this date for this money?"""

import itertools
from urllib.parse import parse_qsl

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.job import job as training_job
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.total_cost import total_cost
from app.studies.chances import chances
from app.studies.sizing import Answer, Question, size


def question(**fields: object) -> Question:
    asked = {"model": "llama-3-8b", "training_tokens": "1T", "gpu": ["h100-sxm", "b200-sxm"], "gpus": 1024, **fields}
    return Question.model_validate(asked)


@pytest.fixture(scope="module")
def answer() -> Answer:
    return size(question(deadline="30 days", budget="$40M"), load_catalog(), seconds=60)


def test_the_front_trades_money_for_time(answer: Answer) -> None:
    costs = [point.cost for point in answer.front]
    times = [point.time_to_train for point in answer.front]
    assert len(answer.front) > 2
    assert costs == sorted(costs)
    assert times == sorted(times, reverse=True)


def test_no_cluster_trains_a_shape_that_no_model_has() -> None:
    none = size(question(kv_heads=7), load_catalog(), seconds=20)  # of 32 heads
    assert (none.front, none.cheapest) == ((), None)


def test_the_front_keeps_what_is_quicker_by_more_than_a_hundredth(answer: Answer) -> None:
    gains = [1 - after.time_to_train / before.time_to_train for before, after in itertools.pairwise(answer.front)]
    assert all(gain > 0.01 for gain in gains)
    assert min(gains) < 0.3


def test_no_candidate_that_meets_the_limits_is_cheaper_or_quicker_than_the_named_ones(answer: Answer) -> None:
    assert answer.cheapest is not None
    assert answer.fastest is not None
    meeting = [point for point in answer.front if point.meets]
    assert meeting
    assert all(answer.cheapest.cost <= point.cost for point in meeting)
    assert all(answer.fastest.time_to_train <= 1.005 * point.time_to_train for point in meeting)
    as_quick = [point for point in meeting if point.time_to_train <= answer.fastest.time_to_train]
    assert all(answer.fastest.cost <= point.cost for point in as_quick)
    assert answer.cheapest.time_to_train <= 30 * 86400
    assert answer.fastest.cost <= 40e6


def test_what_is_named_has_ranges_that_hold_its_figures(answer: Answer) -> None:
    asked = question(deadline="30 days", budget="$40M")
    found = {likely.query: likely for likely in chances(asked, answer, load_catalog()).chances}
    assert answer.cheapest is not None
    assert {answer.cheapest.query, answer.fastest.query, answer.best_value.query} <= set(found)  # type: ignore[union-attr]
    for named in (answer.cheapest, *answer.ties, answer.fastest, answer.best_value):
        assert named is not None
        for figure in ("time_to_train", "capital", "rental", "run", "power", "cost"):
            band = getattr(found[named.query], figure)
            assert band.low <= band.typical <= band.high
            assert band.typical == pytest.approx(getattr(named, figure))
            assert band.sources


def test_each_point_is_the_plan_of_the_same_scenario(answer: Answer) -> None:
    assert answer.cheapest is not None
    point = answer.cheapest
    asked = question().scenario(point.gpu, point.scale_out, point.gpus)
    plan = evaluate(asked, load_catalog())
    assert plan.training.time_to_train is not None
    assert plan.costs.capital is not None
    assert plan.training.time_to_train.typical == pytest.approx(point.time_to_train)
    assert plan.costs.capital.typical == pytest.approx(point.capital)


def test_the_next_dollar_buys_the_slope_of_the_front(answer: Answer) -> None:
    first, second = answer.front[:2]
    slope = (first.time_to_train - second.time_to_train) / (second.cost - first.cost)
    assert first.next_dollar == pytest.approx(slope)
    assert answer.front[-1].next_dollar is None


def test_the_next_point_costs_more_and_saves_time(answer: Answer) -> None:
    for one, after in itertools.pairwise(answer.front):
        assert one.next_cost == pytest.approx(after.cost - one.cost)
        assert one.next_time == pytest.approx(one.time_to_train - after.time_to_train)
    assert answer.front[-1].next_cost is None


def test_two_limits_at_once_are_met_where_they_can_be() -> None:
    # 1,024 GB200 take 60.6 days; a cluster of whole racks a little either side of that takes under 60, below $80 M.
    found = size(
        Question(deadline="60 days", budget="$80M", gpu=("gb200",), scale_out=("roce-400",), gpus=4096),
        load_catalog(), seconds=60,
    )  # fmt: skip
    assert found.cheapest is not None
    assert found.cheapest.gpus % 72 == 0
    assert found.cheapest.time_to_train <= 60 * 86400
    assert found.cheapest.cost <= 80e6
    assert found.message == ""


def test_a_deadline_is_met_by_the_fewest_nodes_near_it() -> None:
    # 146 days on 1,024: 30 days need 146/30 · 1,024 = 4,980 at the same rate, and a tenth more as pipelines idle.
    asked = Question(deadline="30 days", gpu=("h100-sxm",), scale_out=("roce-400",))
    found = size(asked, load_catalog(), seconds=60)
    assert found.cheapest is not None
    assert 4980 < found.cheapest.gpus < 5800
    assert found.cheapest.gpus % 8 == 0


def test_every_cluster_is_whole_nodes_or_racks() -> None:
    found = size(question(gpu=["gb200", "h200-sxm"], deadline="20 days"), load_catalog(), seconds=60)
    assert {point.gpus % (72 if point.gpu == "gb200" else 8) for point in found.front} == {0}


def test_without_limits_a_usual_deadline_is_asked_for() -> None:
    found = size(question(), load_catalog(), seconds=60)
    assert found.deadline == 90 * 86400
    assert found.cheapest is not None
    assert found.cheapest.time_to_train <= 90 * 86400
    assert size(question(budget="$40M"), load_catalog(), seconds=60).deadline is None


def test_where_nothing_meets_all_limits_each_says_how_far_it_is() -> None:
    missed = size(question(deadline="10 days", budget="$2M"), load_catalog(), seconds=60)
    assert missed.cheapest is None
    assert "a deadline of" in missed.message
    assert "a budget of" in missed.message
    assert all(point.misses for point in missed.front)


def test_what_is_named_is_what_its_link_opens(answer: Answer) -> None:
    for point in (answer.cheapest, answer.fastest, answer.best_value, *answer.front[::4]):
        assert point is not None
        fields = dict(parse_qsl(point.query))
        plan = evaluate(Scenario.model_validate(fields), load_catalog())
        assert plan.training.time_to_train is not None
        assert plan.costs.capital is not None
        assert plan.cluster.power is not None
        assert plan.training.time_to_train.typical == pytest.approx(point.time_to_train)
        assert plan.costs.capital.typical == pytest.approx(point.capital)
        assert plan.cluster.power.typical == pytest.approx(point.power)


def test_break_even_compares_the_families_at_every_size(answer: Answer) -> None:
    for entry in answer.break_even:
        assert (entry.infiniband, entry.ethernet) == ("infiniband-ndr", "roce-400")
        paying = [gpus for gpus, ratio in entry.points if ratio > 1]
        assert entry.gpus is None or entry.gpus in paying
        assert entry.rule_of_thumb


FREE = (
    "price_node", "price_nic", "price_switch", "price_transceiver", "price_cable", "price_copper_cable",
    "price_storage", "electricity", "support", "infrastructure",
)  # fmt: skip


@pytest.mark.parametrize(
    "beyond_numbers",
    [
        {"lifetime": 5e-324},  # the run's share of the lifetime's total is infinite
        {"budget_kind": "rental"} | dict.fromkeys(FREE, 0),
    ],
)
def test_networks_whose_runs_cost_nothing_or_without_end_are_not_compared(beyond_numbers: dict[str, object]) -> None:
    asked = question(gpu=["h100-sxm"], gpus=16, model="llama-3-8b", training_tokens="1e9", deadline="90 days")
    usual = size(asked, load_catalog(), seconds=60)
    missed = size(asked.model_copy(update=beyond_numbers), load_catalog(), seconds=60)
    assert usual.break_even[0].points
    assert missed.feasible == usual.feasible
    assert missed.break_even[0].points == ()


def test_an_impossible_deadline_is_answered_with_how_far_it_is() -> None:
    missed = size(question(deadline="1 h", gpus=64), load_catalog(), seconds=60)
    assert missed.cheapest is None
    assert "times the deadline" in missed.message


def test_a_model_too_large_for_every_cluster_is_answered_with_what_to_change() -> None:
    nothing = size(question(model="llama-3-405b", gpus=8), load_catalog(), seconds=60)
    assert nothing.front == ()
    assert "Allow more GPUs" in nothing.message


def test_a_search_cut_short_says_so() -> None:
    assert not size(question(), load_catalog(), seconds=0.0).complete


def test_the_stages_without_ranges_have_the_typical_values_of_the_plan() -> None:
    catalog = load_catalog().typical_only()
    plan, network = evaluate(Scenario(), load_catalog()), network_of(Scenario(), catalog)
    job = training_job.job_on(network, Scenario(), catalog)
    cost = total_cost(network, network.prices, job.training.time_to_train.values)
    assert plan.costs.per_run is not None
    assert plan.fabric.cost is not None
    assert cost.costs.per_run.typical == pytest.approx(plan.costs.per_run.typical)
    assert network.cost[0] == pytest.approx(plan.fabric.cost.typical)


def test_the_best_value_has_the_least_product_of_time_and_cost(answer: Answer) -> None:
    assert answer.best_value is not None
    least = answer.best_value.cost * answer.best_value.time_to_train
    assert all(least <= point.cost * point.time_to_train for point in answer.front if point.meets)


def test_clusters_double_from_one_node_and_are_tried_finely_where_a_limit_is_crossed() -> None:
    # 8, 16, … 1,024 GPUs: eight sizes on InfiniBand and on RoCE; beside the cheapest three, of 24, 40 and 48; beside
    # the fastest the 187 nodes that are allowed and the next of them that divide well, 186, 184, 176 and 160. The
    # deadline lies between the two largest that double.
    asked = {"gpu": ["h100-sxm"], "gpus": 1500}
    without = size(question(**asked, deadline="100 years"), load_catalog(), seconds=60)
    assert without.considered == 2 * 8 + 3 + 5
    assert max(point.gpus for point in without.front) == 186 * 8  # no slower than 187 nodes, and cheaper
    days = sorted(point.time_to_train for point in without.front if point.gpus <= 1024)
    between = size(question(**asked, deadline=f"{(days[0] + days[1]) / 2} s"), load_catalog(), seconds=60)
    assert between.considered > without.considered
    assert between.cheapest is not None
    assert 512 < between.cheapest.gpus < 1024
    assert between.cheapest.gpus % 8 == 0
    assert between.feasible <= between.considered
    assert (between.complete, between.message) == (True, "")


def test_experts_are_given_a_number_of_gpus_that_divides_well() -> None:
    # 256 experts on 1,152 GPUs (2⁷ · 9) take 29.6 days; the sizes about it, and all up to 1,408, take longer than 30.
    asked = question(gpu=["h100-sxm"], scale_out=["roce-400"], gpus=4096, deadline="30 days", model="deepseek-v3")
    answer = size(asked.model_copy(update={"training_tokens": 3e12}), load_catalog(), seconds=60)
    assert answer.cheapest is not None
    assert answer.cheapest.gpus == 1152


def test_what_would_take_many_times_the_deadline_is_not_tried() -> None:
    # The arithmetic of 8B for 1e12 tokens takes 8 H100 at their peak 81 days. Where all are hopeless all are tried.
    asked = {"gpu": ["h100-sxm"], "scale_out": ["roce-400"], "gpus": 1024}
    for days, fewest in (20, 8), (10, 16), (0.001, 8):
        answer = size(question(**asked, deadline=f"{days} days"), load_catalog(), seconds=60)
        assert min(point.gpus for point in answer.front) == fewest
    with_budget = size(question(**asked, deadline="10 days", budget="$1M"), load_catalog(), seconds=60)
    assert min(point.gpus for point in with_budget.front) == 8  # it may be the deadline that gives way


def test_what_costs_or_draws_many_times_what_is_allowed_is_not_tried() -> None:
    # 1,024 H100 in 128 nodes of some $290,000 cost $37 M, 2,048 more than five times $10 M; the same in megawatts.
    asked = {"gpu": ["h100-sxm"], "scale_out": ["roce-400"], "gpus": 4096}
    platform = load_catalog().platforms["hgx-h100"]
    for limit, most in ({"budget": "$10M"}, 1024), ({"power_limit": f"{64 * platform.power.typical / 4} W"}, 512):
        answer = size(question(**asked, **limit), load_catalog(), seconds=60)
        assert max(point.gpus for point in answer.front) == most


def test_limits_of_equal_numbers_are_both_kept() -> None:
    answer = size(question(gpu=["h100-sxm"], gpus=512, deadline="4e5 s", budget=4e5), load_catalog(), seconds=60)
    by_money, by_date = answer.nearest_misses
    assert (by_money.misses, by_date.misses) == (("deadline",), ("budget",))
    assert all(named in answer.message for named in ("a deadline of", "a budget of"))


def test_clusters_beyond_the_last_that_doubles_are_tried_where_none_is_in_time() -> None:
    # Racks double to 576 GPUs, which take 109 days; 1,024 allow fourteen racks, 1,008. 576 · 109/95 = 660: ten racks.
    asked = {"gpu": ("gb200",), "scale_out": ("roce-400",), "gpus": 1024}
    found = size(Question(**asked, deadline="95 days", budget="$55M"), load_catalog(), seconds=60)
    assert found.cheapest is not None
    assert found.cheapest.gpus == 720
    assert (found.cheapest.time_to_train < 95 * 86400, found.cheapest.cost < 55e6) == (True, True)
    missed = size(Question(**asked, deadline="30 days"), load_catalog(), seconds=60)
    assert max(point.gpus for point in missed.front) == 1008
    assert "needs 2.1 times the deadline" in missed.message  # 63.4 days on 1,008


def test_sixty_days_on_h100_take_two_and_a_half_times_the_gpus_that_take_148() -> None:
    # 1,024 · 148/60 = 2,534, and some 4 % more for the smaller share of each GPU; doubling alone says 4,096.
    asked = Question(deadline="60 days", gpu=("h100-sxm",), scale_out=("roce-400",), gpus=4096)
    found = size(asked, load_catalog(), seconds=60)
    assert found.cheapest is not None
    assert 2534 < found.cheapest.gpus < 2700
    assert found.cheapest.cost < 146e6


def test_sizing_and_the_plan_say_the_same_of_the_two_networks() -> None:
    # 1,024 H100 on InfiniBand and on RoCE: within 2 % of each other's cost, so that the rule of thumb is not gainsaid.
    catalog = load_catalog()
    (entry,) = size(Question(gpu=("h100-sxm",), gpus=1024, deadline="200 days"), catalog, seconds=60).break_even
    said = evaluate(Scenario(), catalog).recommendation
    assert said.dearer is not None
    assert dict(entry.points)[1024] == pytest.approx(1 + said.dearer, abs=1e-3)
    assert entry.tie is said.tie is True
    assert entry.agrees is said.agrees is True


def test_a_rack_is_the_smallest_cluster_where_racks_are_sold() -> None:
    # 72 GPUs of a rack, two racks, and the third that 256 GPUs allow beside the best.
    asked = {"gpu": ["gb200"], "gpus": 256, "scale_out": ["infiniband-ndr"], "deadline": "100 years"}
    found = size(question(**asked), load_catalog(), seconds=60)
    assert found.considered == 3
    assert {point.gpus for point in found.front} <= {72, 144, 216}


@pytest.mark.parametrize("kind", ["capital", "rental", "run"])
def test_the_budget_is_for_what_was_asked(kind: str) -> None:
    found = size(question(gpu=["h100-sxm"], gpus=128, budget="$20M", budget_kind=kind), load_catalog(), seconds=60)
    for point in found.front:
        plan = evaluate(question().scenario(point.gpu, point.scale_out, point.gpus), load_catalog())
        assert plan.costs.rental is not None
        assert plan.costs.per_run is not None
        assert plan.cluster.power is not None
        assert point.rental == pytest.approx(plan.costs.rental.typical)
        assert point.run == pytest.approx(plan.costs.per_run.typical)
        assert point.power == pytest.approx(plan.cluster.power.typical)
        assert point.cost == getattr(point, kind)
        assert point.meets == (point.cost <= 20e6)


def test_a_power_limit_keeps_larger_clusters_out() -> None:
    # 16 nodes of 10.2 kW and their switches draw less than 200 kW, 32 nodes more.
    found = size(question(gpu=["h100-sxm"], gpus=256, power_limit="200 kW"), load_catalog(), seconds=60)
    assert found.fastest is not None
    assert 128 <= found.fastest.gpus < 256
    assert found.fastest.power <= 200e3
    assert all(point.meets == (point.power <= 200e3) for point in found.front)


def test_a_network_pays_from_the_size_after_which_it_never_costs_more(answer: Answer) -> None:
    for entry in answer.break_even:
        assert [gpus for gpus, _ in entry.points] == sorted({gpus for gpus, _ in entry.points})
        dearer = [gpus for gpus, ratio in entry.points if ratio <= 1]
        later = [gpus for gpus, _ in entry.points if gpus > max(dearer, default=0)]
        assert entry.gpus == (later[0] if later else None)
        gpus, ratio = entry.points[-1]
        runs = []
        for network in (entry.ethernet, entry.infiniband):
            plan = evaluate(question().scenario(entry.gpu, network, gpus), load_catalog())
            assert plan.costs.per_run is not None
            runs.append(plan.costs.per_run.typical)
        assert ratio == pytest.approx(runs[0] / runs[1])


def test_a_missed_deadline_is_told_in_multiples_and_a_missed_budget_with_what_to_raise() -> None:
    free = size(question(gpu=["h100-sxm"], gpus=64), load_catalog(), seconds=60)
    assert free.fastest is not None
    half = f"{free.fastest.time_to_train / 2} s"
    missed = size(question(gpu=["h100-sxm"], gpus=64, deadline=half), load_catalog(), seconds=60)
    assert "needs 2 times the deadline" in missed.message
    poor = size(question(gpu=["h100-sxm"], gpus=64, budget="$1000", deadline="10 years"), load_catalog(), seconds=60)
    budget = poor.message.partition("a budget of ")[2].partition(" or ")[0].removesuffix(".").replace("\u202f", "")
    enough = size(question(gpu=["h100-sxm"], gpus=64, budget=budget, deadline="10 years"), load_catalog(), seconds=60)
    assert enough.cheapest is not None  # what is said to be enough is


@pytest.mark.parametrize("gpu", ["v100-sxm", "a100-sxm", "b200-sxm", "mi300x"])
def test_candidates_are_infiniband_and_roce_at_the_rate_of_the_platforms_ports(gpu: str) -> None:
    catalog = load_catalog()
    (entry,) = size(question(gpu=[gpu], gpus=16), catalog, seconds=60).break_even
    rate = catalog.platforms[catalog.gpus[gpu].platform].nic_rate.typical
    for key, family in ((entry.infiniband, "infiniband"), (entry.ethernet, "roce")):
        rates = [other.port_rate.typical for other in catalog.scale_out.values() if other.family == family]
        assert catalog.scale_out[key].family == family
        off = abs(catalog.scale_out[key].port_rate.typical / rate - 1)
        assert off == min(abs(each / rate - 1) for each in rates)


def test_another_limit_asks_for_the_same_clusters_and_says_the_same_of_them(answer: Answer) -> None:
    again = size(question(deadline="25 days", budget="$50M"), load_catalog(), seconds=60)
    before = {(one.gpu, one.scale_out, one.gpus): one for one in answer.front}
    both = [(before[key], one) for one in again.front if (key := (one.gpu, one.scale_out, one.gpus)) in before]
    assert len(both) > 5
    assert all((one.cost, one.time_to_train, one.power) == (a.cost, a.time_to_train, a.power) for one, a in both)
    assert any(one.meets != a.meets for one, a in both)


def test_what_was_found_when_time_runs_out_is_in_the_answer() -> None:
    asked, calls = question(gpu=["h100-sxm"], model="llama-2-7b"), itertools.count()
    cut = size(asked, load_catalog(), seconds=60, stopped=lambda: next(calls) >= 4)
    assert not cut.complete
    assert {point.gpus for point in cut.front} <= {8, 16, 32, 64}
    assert cut.considered == 8  # four sizes on two networks
