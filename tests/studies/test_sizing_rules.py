"""What is looked at closely, kept, and said of clusters, on clusters made up for it."""

import itertools
from dataclasses import replace

import pytest

from app.catalog.load import load_catalog
from app.plan.result import Parallelism
from app.studies import sizing
from app.studies.sizing import Candidate, Question

CATALOG = load_catalog()
DAY = 86400.0
SPREAD = Parallelism(8, 1, 1, 1, 1, 1, 16, 1, 16, "1f1b", True, "optimizer", 16, "none")


def cluster(gpus: int, days: float, cost: float, *, gpu: str = "h100-sxm", scale_out: str = "infiniband-ndr",
            power: float = 1e6, run: float = 1.0, misses: tuple[str, ...] = ()) -> Candidate:  # fmt: skip
    return Candidate(
        gpu, scale_out, gpus, days * DAY, cost, cost, run, power, cost, SPREAD, not misses, misses, f"gpus={gpus}"
    )


def looked_at(question: Question, *clusters: Candidate | None) -> list[tuple[str, str, int]]:
    tried = {(one.gpu, one.scale_out, one.gpus) if one else ("", "", place): one for place, one in enumerate(clusters)}
    return [key for key, _ in sizing._worth_a_look(question, tried)]


def test_a_limit_is_crossed_on_the_straight_line_of_logarithms() -> None:
    # 64 GPUs take 40 days and 256 take 10: 20 days lie half way on logarithms, at 128.
    question = Question(deadline="20 days")
    assert looked_at(question, cluster(256, 10, 4e6), None, cluster(64, 40, 1e6)) == [
        ("h100-sxm", "infiniband-ndr", 128)
    ]
    third = Question(deadline=f"{40 * 4 ** (-1 / 3)} days")
    assert looked_at(third, cluster(64, 40, 1e6), cluster(512, 10, 4e6))[0][2] == 128  # 64 · 8^(1/3)


@pytest.mark.parametrize(("days", "crossed"), [(9, False), (10, False), (10.1, True), (39.9, True), (40, False)])
def test_a_limit_outside_of_a_pair_is_not_crossed(days: float, crossed: bool) -> None:
    found = looked_at(Question(deadline=f"{days} days"), cluster(64, 40, 1e6), cluster(256, 10, 4e6))
    assert bool(found) is crossed


def test_every_limit_is_crossed_by_its_own_figure() -> None:
    small, large = cluster(64, 40, 1e6, power=1e5), cluster(256, 10, 16e6, power=9e5)
    assert [one[2] for one in looked_at(Question(budget=4e6), small, large)] == [128]  # half way from 1 to 16
    assert [one[2] for one in looked_at(Question(power_limit=3e5), small, large)] == [128]
    both = Question(deadline="20 days", budget=1e6 * 16**0.75)
    assert {one[2] for one in looked_at(both, small, large)} == {128, 181}  # 64 · 4^(3/4)


def test_only_neighbours_on_one_network_of_one_gpu_are_joined() -> None:
    question = Question(deadline="20 days")
    a, b, c = cluster(64, 40, 1e6), cluster(128, 30, 2e6), cluster(256, 10, 4e6)
    ((*_, gpus),) = looked_at(question, a, b, c)
    assert 128 < gpus < 256
    assert not looked_at(question, a, replace(c, scale_out="roce-400"))
    assert not looked_at(question, a, replace(c, gpu="b200-sxm"))


def test_of_a_date_the_cheapest_are_looked_at_and_of_a_budget_the_soonest() -> None:
    # At the crossing all take as long as the date allows, or cost what the budget does.
    clusters = []
    for place in range(7):
        clusters += [
            cluster(64, 40 + place, 1e6 * (7 - place), scale_out=f"network-{place}"),
            cluster(256, 10 + place, 4e6 * (7 - place), scale_out=f"network-{place}"),
        ]
    dated = looked_at(Question(deadline="20 days"), *clusters)
    assert [one[1] for one in dated] == [f"network-{place}" for place in (6, 5, 4, 3, 2)]
    paid = looked_at(Question(budget=3.9e6), *clusters)
    assert [one[1] for one in paid] == [f"network-{place}" for place in (6, 5, 4)]  # 1–4, 2–8 and 3–12 million


def test_the_larger_ones_keep_a_date_and_the_smaller_ones_a_budget() -> None:
    tried = {(one.gpu, one.scale_out, one.gpus): one for one in (cluster(64, 40, 1e6), cluster(256, 10, 4e6))}
    assert [larger for _, larger in sizing._worth_a_look(Question(deadline="20 days"), tried)] == [True]
    assert [larger for _, larger in sizing._worth_a_look(Question(budget=2e6), tried)] == [False]


def test_the_five_cheapest_and_the_five_soonest_are_looked_at() -> None:
    # Of twelve networks, the first is the cheapest where the limit is crossed and the last the soonest.
    assert sizing.NEAREST == 5
    names = [f"network-{place:02}" for place in range(12)]
    clusters = []
    for place, name in enumerate(names):
        price, pace = 1 + place, 1 - place / 100
        clusters += [
            cluster(64, 40 * pace, 1e6 * price, scale_out=name, power=1e5),
            cluster(256, 10 * pace, 4e6 * price, scale_out=name, power=4e5),
        ]
    found = looked_at(Question(power_limit=2e5, budget_kind="run"), *clusters)
    assert [one[1] for one in found] == [*names[:5], *reversed(names[7:])]
    # The largest that the power allows is the dearest of its network to buy: it may be the soonest alone.
    bought = looked_at(Question(power_limit=2e5), *clusters)
    assert [one[1] for one in bought] == [*reversed(names[7:])]


def test_the_front_says_what_the_next_one_costs_more_and_saves() -> None:
    a, b, c = cluster(64, 40, 1e6), cluster(128, 30, 2e6), cluster(256, 10, 7e6)
    dearer = cluster(512, 35, 9e6)
    first, second, last = sizing.front_of([c, dearer, a, b])
    assert [one.gpus for one in (first, second, last)] == [64, 128, 256]
    assert (first.next_cost, first.next_time, first.next_dollar) == (1e6, 10 * DAY, 10 * DAY / 1e6)
    assert (second.next_cost, second.next_time, second.next_dollar) == (5e6, 20 * DAY, pytest.approx(20 * DAY / 5e6))
    assert (last.next_cost, last.next_time, last.next_dollar) == (None, None, None)
    # As dear and quicker: the quicker one is the only one of the two.
    assert [one.gpus for one in sizing.front_of([a, replace(b, cost=a.cost)])] == [128]


def break_even(ratios: dict[int, float], ethernet: str = "roce-400") -> sizing.BreakEven:
    clusters = []
    for gpus, ratio in ratios.items():
        clusters += [cluster(gpus, 1, 1, run=2.0), cluster(gpus, 1, 1, run=2.0 * ratio, scale_out=ethernet)]
    return sizing._break_even(CATALOG, "h100-sxm", [*clusters, cluster(8192, 1, 1), cluster(64, 1, 1, gpu="b200-sxm")])


@pytest.mark.parametrize(
    ("ratios", "gpus", "stretches", "agrees"),
    [
        ({64: 0.9, 512: 1.1, 2048: 1.2}, 512, ((512, 2048),), True),
        ({64: 1.1, 512: 0.9, 2048: 1.2}, 2048, ((64, 64), (2048, 2048)), True),
        ({64: 1.1, 512: 1.0, 2048: 1.2}, 2048, ((64, 64), (2048, 2048)), True),  # as dear is no gain
        ({64: 1.1, 512: 1.1, 2048: 0.9}, None, ((64, 512),), False),  # over 1,000 GPUs the rule asks for InfiniBand
        ({64: 1.1, 512: 1.1, 2048: 1.0}, None, ((64, 512),), True),  # a tie contradicts no rule
        ({64: 1.1}, 64, ((64, 64),), True),
        ({}, None, (), True),
    ],
    ids=str,
)
def test_infiniband_pays_from_the_size_on_which_it_is_never_dearer(
    ratios: dict[int, float], gpus: int | None, stretches: tuple[tuple[int, int], ...], agrees: bool
) -> None:
    found = break_even(ratios)
    assert (found.gpus, found.stretches, found.agrees) == (gpus, stretches, agrees)
    assert dict(found.points) == pytest.approx(ratios)
    assert (found.infiniband, found.ethernet) == ("infiniband-ndr", "roce-400" if ratios else "")
    assert bool(found.rule_of_thumb) == bool(ratios)


@pytest.mark.parametrize(
    ("ethernet", "counts"),
    [("spectrum-x-400", True), ("ultra-ethernet-400", True), ("efa-400", False), ("tcp-400", False)],
)
def test_ethernet_of_a_cloud_or_through_sockets_is_not_compared(ethernet: str, counts: bool) -> None:
    assert bool(break_even({64: 1.1}, ethernet).points) is counts


@pytest.mark.parametrize(
    "names", [*itertools.permutations(("infiniband-ndr", "infiniband-hdr", "roce-400", "roce-200"))]
)
def test_one_network_of_each_family_is_compared_whatever_the_order(names: tuple[str, ...]) -> None:
    """Those on which the run costs least at 512 GPUs, the most that both families have; 304 were not tried on HDR."""
    runs = {
        "infiniband-ndr": {64: 10.0, 304: 10.0, 512: 12.0, 1024: 1.0},
        "infiniband-hdr": {64: 8.0, 512: 10.0},
        "roce-400": {64: 12.0, 304: 9.0, 512: 11.0},
        "roce-200": {64: 4.0, 304: 4.0, 512: 12.0},
    }
    clusters = [cluster(gpus, 1, 1, run=run, scale_out=name) for name in names for gpus, run in runs[name].items()]
    found = sizing._break_even(CATALOG, "h100-sxm", clusters)
    assert (found.infiniband, found.ethernet) == ("infiniband-hdr", "roce-400")
    assert dict(found.points) == pytest.approx({64: 1.5, 512: 1.1})


def test_without_a_cluster_that_meets_all_it_is_said_what_would() -> None:
    question = Question(deadline="20 days", budget=2e6, gpus=4096)
    slow, dear = cluster(64, 40, 1e6, misses=("deadline",)), cluster(256, 10, 4e6, misses=("budget",))
    both = cluster(128, 30, 3e6, misses=("deadline", "budget"))

    def said(*feasible: Candidate) -> str:
        misses = sizing._nearest_misses(question, feasible)
        return sizing._message(question, feasible, misses).replace("\u202f", " ")

    assert (
        said(slow, dear, both)
        == "No cluster meets all limits at once. Allow a deadline of 40 days or a budget of $4 M."
    )
    assert "$3.5 M" in said(slow, dear, both, replace(dear, cost=3.5e6))
    assert "up to 4,096 GPUs" in said()
    assert said(slow, both).startswith("The quickest cluster needs 1.5 times the deadline.")
    exactly = replace(both, time_to_train=20 * DAY, misses=("budget",))
    assert "at once" in said(exactly)  # on the last day is in time
    assert sizing._allow(question, {}) == "Raise the budget or the power limit, or move the deadline."


def test_of_clusters_that_miss_a_limit_alike_the_cheapest_is_the_nearest() -> None:
    # 40 and 40.1 days are alike, within half a per cent, and 40.3 are not.
    question = Question(deadline="20 days", budget=2e6)
    soonest, alike, later = (
        cluster(64, days, cost, misses=("deadline",)) for days, cost in ((40, 1.9e6), (40.1, 1.1e6), (40.3, 1e6))
    )
    assert sizing._nearest_misses(question, [later, soonest, alike]) == {"deadline": alike}


def test_what_costs_the_same_within_two_percent_is_a_tie() -> None:
    # Of each GPU and network the cheapest: $1.019 M ties with $1 M, $1.021 M does not, nor a rack more of the same.
    first, larger = cluster(64, 40, 1e6), cluster(72, 36, 1.001e6)
    near, far = cluster(64, 39, 1.019e6, scale_out="roce-400"), cluster(64, 30, 1.021e6, gpu="b200-sxm")
    assert sizing._cheapest([far, near, larger, first]) == (first, near)
    assert sizing._cheapest([]) == ()


@pytest.mark.parametrize(("ratio", "tie"), [(1.019, True), (1.021, False), (0.981, True), (0.979, False)])
def test_networks_that_cost_the_same_at_the_largest_size_are_a_tie(ratio: float, tie: bool) -> None:
    found = break_even({64: 1.5, 512: 1.3, 4096: ratio})
    assert found.tie is tie
    assert found.agrees is (tie or ratio > 1)  # over 1,000 GPUs the rule asks for InfiniBand, which a tie allows


def test_what_is_named_is_shown_though_it_is_hardly_quicker_than_a_cheaper_cluster() -> None:
    late, cheapest, soonest = cluster(64, 40.3, 1e6), cluster(72, 40, 1.1e6), cluster(256, 10, 7e6)
    answer = sizing.size(Question(gpus=8), load_catalog(), seconds=0)
    answer = replace(answer, front=sizing.front_of([late, cheapest, soonest]), cheapest=cheapest, fastest=soonest)
    assert [one.gpus for one in answer.front] == [64, 256]
    assert [one.gpus for one in answer.shown] == [64, 72, 256]
