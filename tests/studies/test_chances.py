"""How likely the clusters of a sizing keep each limit, and what a week less costs."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.report.charts.curve_charts import pareto
from app.studies.board_brief import BriefQuestion, brief
from app.studies.chances import MOST, WEEK, Chances, chances
from app.studies.odds import SAFE
from app.studies.sizing import Answer, Question, size
from tests.plotly_figures import in_plotly

CATALOG = load_catalog()


def question(**fields: object) -> Question:
    asked = {"model": "llama-3-8b", "training_tokens": "1T", "gpu": ["h100-sxm"], "gpus": 1024, **fields}
    return Question.model_validate(asked)


ASKED = question(deadline="30 days", budget="$40M", power_limit="2 MW")


@pytest.fixture(scope="module")
def answer() -> Answer:
    return size(ASKED, CATALOG, seconds=60)


@pytest.fixture(scope="module")
def found(answer: Answer) -> Chances:
    return chances(ASKED, answer, CATALOG)


def test_a_cluster_is_the_plan_of_its_scenario_with_the_chances_of_its_brief(answer: Answer, found: Chances) -> None:
    assert answer.cheapest is not None
    one = next(one for one in found.chances if one.query == answer.cheapest.query)
    asked = ASKED.scenario(one.gpu, one.scale_out, one.gpus)
    plan = evaluate(asked, CATALOG)
    assert (one.time_to_train, one.cost) == (plan.training.time_to_train, plan.costs.capital)
    assert one.power == plan.cluster.power
    assert one.power.typical == pytest.approx(answer.cheapest.power)
    held = brief(BriefQuestion.model_validate({**dict(asked), "deadline": 30 * 86400, "budget": 40e6}), CATALOG)
    chances_of_brief = held.time_chance, held.calendar_chance, held.money_chance
    assert (one.by_deadline, one.by_calendar, one.in_budget) == chances_of_brief
    assert one.campaign_time == plan.training.campaign_time


def test_a_limit_below_the_range_is_unlikely_and_one_above_it_nearly_sure(answer: Answer) -> None:
    tight = question(deadline="10 days", budget="$10M", power_limit="1 MW")  # each below some ranges and above others
    near = chances(tight, answer, CATALOG).chances
    of_limits = (
        (tight.deadline, [(one.time_to_train, one.by_deadline) for one in near]),
        (tight.budget, [(one.cost, one.in_budget) for one in near]),
        (tight.power_limit, [(one.power, one.in_power) for one in near]),
    )
    for limit, pairs in of_limits:
        below = [odds for band, odds in pairs if limit < band.low]
        above = [odds for band, odds in pairs if limit > band.high]
        assert 0 <= min(below) <= max(below) < 0.15
        assert 0.85 < min(above) <= max(above) <= 1
        assert all(0 <= odds <= 1 for _, odds in pairs)


def test_all_limits_at_once_are_no_likelier_than_the_least_likely_and_no_less_than_what_is_left(found: Chances) -> None:
    """Fréchet's bounds: at most the least of the chances, at least what their misses leave of one."""
    for one in found.chances:
        single = (one.by_calendar, one.in_budget, one.in_power)
        assert 1 - sum(1 - odds for odds in single) - 1e-9 <= one.in_all <= min(single) + 1e-9
    assert len({round(one.in_all, 3) for one in found.chances}) > 1


def test_the_safest_is_the_cheapest_that_keeps_each_limit_in_nine_of_ten(found: Chances) -> None:
    assert found.safest is not None
    assert found.safest.least >= SAFE
    assert all(one.least < SAFE for one in found.chances if one.cost.typical < found.safest.cost.typical)
    assert 1 < len(found.chances) <= MOST + 1


@pytest.mark.parametrize(
    ("model", "gpu", "tokens"),
    [("llama-3-70b", "h100-sxm", "1T"), ("llama-3-405b", "b200-sxm", "15T"), ("deepseek-v3", "h200-sxm", "15T")],
)
def test_what_is_safe_costs_about_as_much_more_as_the_time_may_take(model: str, gpu: str, tokens: str) -> None:
    # Sizes that double leave nothing between 1.0 and 2 times the cheapest; a range of +30 % asks for about 1.3 times.
    # The share of the way there may be a number of nodes that nothing divides, which is not the first that is safe.
    job = {"model": model, "gpu": [gpu], "training_tokens": tokens}
    asked = question(deadline="60 days", gpus=16384, scale_out=["roce-400"], **job)
    answer = size(asked, CATALOG, seconds=60)
    found = chances(asked, answer, CATALOG)
    assert answer.cheapest is not None
    assert found.safest is not None
    likely = next(one for one in found.chances if one.query == answer.cheapest.query)
    spread = likely.campaign_time.high / likely.time_to_train.typical
    assert 1 < found.safest.gpus / answer.cheapest.gpus < 1.15 * spread
    assert likely.by_calendar < likely.by_deadline


def test_without_a_date_the_soonest_that_the_money_allows_is_best() -> None:
    asked = question(budget="$20M", scale_out=["roce-400"])
    answer = size(asked, CATALOG, seconds=60)
    found = chances(asked, answer, CATALOG)
    assert answer.best == answer.fastest
    assert answer.fastest is not None
    assert answer.fastest.cost > 0.95 * 20e6
    assert found.sooner is None
    assert found.safest is not None
    assert 0.75 * answer.fastest.gpus <= found.safest.gpus < answer.fastest.gpus
    assert all(
        one.least < SAFE for one in found.chances if one.time_to_train.typical < found.safest.time_to_train.typical
    )
    figure = in_plotly(pareto(answer, CATALOG, answer.deadline, asked.budget, found.chances))
    points = next(trace for trace in figure.data if trace.mode == "lines" and trace.line.shape == "vh")
    low, high = (10**end for end in figure.layout.xaxis.range)
    assert answer.fastest.time_to_train in points.x
    assert all(low < x < high for x in points.x)


def test_a_legend_names_the_networks_and_the_cheapest_lies_above_what_ties_with_it() -> None:
    asked = Question.model_validate({"gpu": ["gb200"], "scale_out": ["roce-400", "infiniband-ndr"]})
    answer = size(asked, CATALOG, seconds=60)
    assert answer.cheapest is not None
    (tie,) = answer.ties
    figure = pareto(answer, CATALOG, answer.deadline, asked.budget, chances(asked, answer, CATALOG).chances)
    points = [trace for trace in figure.data if "customdata" in trace]
    assert sorted(trace["name"] for trace in points if trace["showlegend"]) == ["Ethernet", "InfiniBand"]
    drawn = [query for trace in points for query in trace["customdata"]]
    assert drawn.index(tie.query) < drawn.index(answer.cheapest.query)
    for trace in points:  # hollow ones first, and only they miss a limit
        kept = {one.query for one in (*answer.front, *answer.ties) if one.meets}
        assert (trace["marker"]["symbol"] == "circle") == set(trace["customdata"]).issubset(kept)


def test_a_week_sooner_is_bought_from_the_cheapest_of_the_front_that_saves_one(answer: Answer, found: Chances) -> None:
    assert answer.cheapest is not None
    quicker = [one for one in answer.front if one.time_to_train <= answer.cheapest.time_to_train - WEEK]
    assert found.sooner is not None
    assert found.sooner.cluster == min(quicker, key=lambda one: one.cost)
    assert found.sooner.costs == found.sooner.cluster.cost - answer.cheapest.cost > 0
    assert found.sooner.per_week * found.sooner.saves == pytest.approx(found.sooner.costs * 7 * 86400)


def test_where_nothing_meets_all_limits_the_nearest_miss_each_alone() -> None:
    asked = question(deadline="3 days", budget="$2M")
    answer = size(asked, CATALOG, seconds=60)
    by_money, by_date = answer.nearest_misses
    assert answer.cheapest is None
    assert by_money.misses == ("deadline",)
    assert by_money.cost <= 2e6
    assert by_date.misses == ("budget",)
    assert by_date.time_to_train <= 3 * 86400
    made = chances(asked, answer, CATALOG)
    assert {by_money.query, by_date.query} <= {one.query for one in made.chances}
    assert made.safest is None
    assert made.sooner is None


def test_no_limit_has_no_chance() -> None:
    asked = question()  # the usual 90 days
    one = chances(asked, size(asked, CATALOG, seconds=60), CATALOG).chances[0]
    assert one.by_deadline is not None
    assert (one.in_budget, one.in_power, one.in_all) == (None, None, None)


def test_the_chart_shows_the_nearest_misses_however_far() -> None:
    asked = question(deadline="3 days", budget="$2M")
    answer = size(asked, CATALOG, seconds=60)
    found = chances(asked, answer, CATALOG)
    figure = in_plotly(pareto(answer, CATALOG, answer.deadline, asked.budget, found.chances))
    points = next(trace for trace in figure.data if trace.mode == "lines" and trace.line.shape == "vh")
    (left, right), (foot, top) = figure.layout.xaxis.range, figure.layout.yaxis.range
    for miss in answer.nearest_misses:
        assert miss.time_to_train in points.x
        assert 10**left < miss.time_to_train < 10**right
        assert 10**foot < miss.cost < 10**top
    (name,) = (note for note in figure.layout.annotations if note.text.startswith("deadline"))
    assert name.xanchor == "left"  # three days lie at the left end, where there is no room before them
    named = {note.text for note in figure.layout.annotations}
    assert {"nearest within the budget", "nearest in time"} <= named
    assert "None meets the limits" in figure.layout.title.text


def test_limits_that_nothing_comes_near_leave_the_clusters_in_the_chart() -> None:
    asked = question(deadline="1 min", budget="$10")
    answer = size(asked, CATALOG, seconds=60)
    assert not answer.nearest_misses  # all miss both
    figure = in_plotly(pareto(answer, CATALOG, answer.deadline, asked.budget, chances(asked, answer, CATALOG).chances))
    (left, right), (foot, top) = figure.layout.xaxis.range, figure.layout.yaxis.range
    points = [
        (x, y) for trace in figure.data if trace.customdata is not None for x, y in zip(trace.x, trace.y, strict=True)
    ]
    assert len(points) > 2
    assert all(10**left < x < 10**right and 10**foot < y < 10**top for x, y in points)
    names = {note.text.split()[0]: note.xanchor for note in figure.layout.annotations}
    assert (names["deadline"], names["budget"]) == ("left", "right")


def test_between_one_that_is_nearly_safe_and_the_soonest_the_cheapest_safe_one_is_looked_for() -> None:
    question = Question.model_validate({"gpu": ["mi355x"]})
    answer = size(question, CATALOG)
    found = chances(question, answer, CATALOG)
    assert answer.fastest is not None
    assert found.safest is not None
    assert found.safest.gpus < 2 * max(one.gpus for one in found.chances if one.least < SAFE)
    assert found.safest.gpus <= answer.fastest.gpus / 8
    assert found.safest in found.chances
