"""Networks side by side: each article's claim on cost has its computed row."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies.network_costs import CLAIMED, SIZES, ArticleClaim, CostQuestion, CostStudy, cost_study

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def study() -> CostStudy:
    return cost_study(CostQuestion(), CATALOG)


def claim(study: CostStudy, words: str) -> ArticleClaim:
    (found,) = (one for one in study.claims if words in one.says)
    return found


def test_the_three_networks_stand_beside_one_another(study: CostStudy) -> None:
    """NVLink in an HGX is $4 a GB/s of a GPU, in a rack $2.3; NDR and RoCE 400 some $110."""
    found = {(row.network, row.reach): row for row in study.networks if row.edition == "market"}
    dollars = {key: row.per_bandwidth.typical for key, row in found.items() if row.per_bandwidth is not None}
    assert dollars["nvlink-4", 8] == pytest.approx(14_400 / 8 / 450)
    assert dollars["nvlink-5", 72] == pytest.approx(150_000 / 72 / 900)
    assert dollars["nvlink-5", 576] == pytest.approx(1_100_000 / 72 / 900)
    for key in ("infiniband-ndr", "roce-400"):
        assert 25 < dollars[key, 1024] / dollars["nvlink-4", 8] < 60
    assert {row.family for row in study.networks} >= {"nvlink", "infiniband", "roce", "spectrum-x", "tcp"}


def test_a_networks_cost_is_that_of_a_plan_whose_cards_are_paid(study: CostStudy) -> None:
    plan = evaluate(Scenario(nics_included=False), CATALOG)
    (row,) = (row for row in study.networks if (row.network, row.edition) == ("infiniband-ndr", "market"))
    assert row.cost == plan.fabric.cost
    assert row.per_port == plan.fabric.cost_per_host_port
    assert row.per_bisection is not None
    assert plan.fabric.cost_per_bisection is not None
    assert row.per_bisection.typical == pytest.approx(plan.fabric.cost_per_bisection.typical)


def test_a_million_tokens_cost_the_runs_share_of_them(study: CostStudy) -> None:
    plan = evaluate(Scenario(), CATALOG)
    (row,) = (row for row in study.networks if (row.network, row.edition) == ("infiniband-ndr", "market"))
    assert row.per_million_tokens is not None
    assert plan.costs.per_run is not None
    assert row.per_million_tokens.typical == pytest.approx(plan.costs.per_run.typical / 15e6)


def test_a_million_tokens_stand_in_the_edition_that_prices_them() -> None:
    asked = {"gpus": 64, "model": "llama-3-8b", "price_book": "rule-of-thumb"}
    plan = evaluate(Scenario(**asked), CATALOG)
    rows = (row for row in cost_study(CostQuestion(**asked), CATALOG).networks if row.network == "infiniband-ndr")
    tokens = {row.edition: row.per_million_tokens for row in rows}
    assert tokens["market"] is None
    assert tokens["rule-of-thumb"] is not None
    assert plan.costs.per_run is not None
    assert tokens["rule-of-thumb"].typical == pytest.approx(plan.costs.per_run.typical / 15e6)


def test_several_times_ethernet_is_true_of_the_articles_figures_alone(study: CostStudy) -> None:
    """$4,000 and $750 a port against $1,500 and $300: 2.6 times. On today's prices 1.0 to 1.5."""
    found = claim(study, "several times")
    assert (found.verdict, found.source) == ("no", "insertchat-infiniband")
    ratios = {(row.edition, row.gpus): row.ratio for row in found.rows}
    assert set(ratios) == {(edition, gpus) for edition in ("market", "rule-of-thumb") for gpus in CLAIMED}
    # One switch: (4,000 + 750) / (1,500 + 300); two tiers: (4,000 + 3 · 750) / (1,500 + 3 · 300).
    assert ratios["rule-of-thumb", 64] == pytest.approx(4750 / 1800)
    assert ratios["rule-of-thumb", 1024] == pytest.approx(6250 / 2400)
    assert all(0.8 < ratio < 1.6 for (edition, _), ratio in ratios.items() if edition == "market" and ratio)


def test_lower_per_port_at_scale_is_true_where_a_switch_with_more_ports_saves_a_tier(study: CostStudy) -> None:
    """At 4,096 GPUs XDR takes two tiers of 144 ports, RoCE 800 three of 64; NDR takes three of 64 and stays dearer."""
    found = claim(study, "lower at scale")
    assert found.verdict == "partly"
    xdr = {row.gpus: row.ratio for row in found.rows if row.edition == "market"}
    assert xdr[1024] is not None
    assert xdr[4096] is not None
    assert xdr[4096] < 1 < xdr[1024]
    tiers = {
        (row.network, row.gpus): row.tiers for row in study.sizes if row.edition == "market" and row.tiers is not None
    }
    assert (tiers["infiniband-xdr", 4096], tiers["roce-800", 4096]) == (2, 3)


def test_one_to_two_thousand_dollars_is_the_card_not_the_port(study: CostStudy) -> None:
    found = claim(study, "RoCE port")
    assert found.verdict == "no"
    market = [row for row in found.rows if row.edition == "market"]
    assert {row.second for row in market} == {2188}
    assert all(row.first is not None and 3000 < row.first < 8000 for row in market)


def test_nvlink_is_the_cheaper_one_for_what_it_moves(study: CostStudy) -> None:
    found = claim(study, "NVLink")
    assert found.verdict == "no"
    assert all(row.ratio is not None and row.ratio < 0.05 for row in found.rows)


def test_every_size_is_listed_in_both_editions(study: CostStudy) -> None:
    places = {(row.network, row.edition, row.gpus) for row in study.sizes}
    networks = {row.network for row in study.sizes}
    assert len(places) == len(study.sizes) == 2 * len(networks) * len(SIZES)
    costs = [row.per_port.typical for row in study.sizes if row.network == "roce-400" and row.edition == "market"
             if row.per_port]  # fmt: skip
    assert len(costs) >= 10
