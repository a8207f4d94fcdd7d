"""The same load on other domains and networks."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.plan.serving_result import ServingLayout, ServingPoint
from app.report.charts.serving_charts import rack_pays
from app.studies.serving_domains import (
    ServingDomains,
    ServingVariant,
    Speeds,
    domains_of,
    networks_of,
    pays,
    serving_domains,
)

CATALOG = load_catalog()
ASKED = {"workload": "serving", "gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "tpot_limit": 0.033}


def front(*points: tuple[float, float | None]) -> tuple[ServingPoint, ...]:
    """Points of a front from speeds and costs, fastest first."""
    layout = ServingLayout(1, 1, 1, 1, 1)
    return tuple(ServingPoint(speed, 1.0, cost, 0.1, 1, "aggregated", layout) for speed, cost in points)


def test_a_node_stands_beside_a_rack_and_a_rack_beside_nodes() -> None:
    node, rack = (list(domains_of(Scenario(gpu=gpu, gpus=64), CATALOG)) for gpu in ("h200-sxm", "gb200"))
    assert [one.get("gpu") for one in node] == [None, "gb200"]
    assert node[1]["gpus"] == 72  # a whole rack
    assert [(one.get("gpu"), one.get("scale_up_domain")) for one in rack] == [
        (None, None),
        ("b200-sxm", None),
        (None, 8),
    ]


def test_the_other_family_the_next_generation_and_tcp_are_the_networks_beside() -> None:
    assert networks_of(Scenario(scale_out="infiniband-ndr"), CATALOG) == ["roce-400", "infiniband-xdr", "tcp-400"]


def test_each_is_the_plan_of_its_query() -> None:
    found = serving_domains(Scenario(**ASKED), CATALOG)
    for one in (found.domains[1], found.networks[1]):
        asked = dict(pair.split("=") for pair in one.query.split("&"))
        serving = evaluate(Scenario.model_validate(asked), CATALOG).serving
        assert serving.output_tokens_per_second_per_gpu.typical == pytest.approx(one.throughput, rel=1e-6)
        assert serving.costs.per_million_output_tokens.typical == pytest.approx(one.per_million_output_tokens, rel=1e-6)


def test_experts_over_two_nodes_feel_the_network_and_most_of_all_tcp() -> None:
    found = serving_domains(Scenario(**ASKED), CATALOG)
    rates = {one.scale_out: one.throughput for one in found.networks}
    assert rates["infiniband-xdr"] >= rates["infiniband-ndr"] >= rates["roce-400"] > 1.5 * rates["tcp-400"]


def test_a_cluster_whose_network_cannot_be_built_serves_nothing() -> None:
    this, *_ = serving_domains(Scenario(**ASKED | {"gpus": 4096, "tiers": 2}), CATALOG).domains
    assert (this.throughput, this.per_million_output_tokens, this.parallelism, this.front) == (None, None, None, ())


def test_one_node_has_no_network_to_compare() -> None:
    assert serving_domains(Scenario(**ASKED | {"gpus": 8}), CATALOG).networks == ()


def test_a_rack_pays_at_the_speeds_where_its_tokens_are_cheaper() -> None:
    # between 10 and 40 a second a node's million goes from 1 to 8 dollars as 8^((v - 10)/30): 1.87 at 19, 2.14 at 21
    node, rack = front((40, 8.0), (10, 1.0)), front((40, 4.0), (21, 2.1), (19, 2.0), (10, 2.0))
    (above,) = pays(node, rack)
    assert above.below is None
    assert above.above is not None
    assert 8 ** ((above.above - 10) / 30) == pytest.approx(2.0 * 1.05 ** ((above.above - 19) / 2))
    assert pays(front((40, 8.0), (10, 3.0)), rack) == (Speeds(None, None),)
    assert pays(rack, front((40, 8.0), (10, 3.0))) == ()
    assert pays(front((20, 1.0), (10, 1.0)), front((40, 4.0), (10, 2.0))) == (Speeds(20, None),)  # nodes are too slow
    assert pays(node, front((40, None), (10, None))) == ()
    assert pays(node, ()) == ()


def test_a_cheaper_stretch_before_a_dearer_one_is_said() -> None:
    # alike at 20 and 30: cheaper below and above, dearer between; and where the rack gets no quicker than 40, up to it
    node = front((50, 4.0), (40, 4.0), (30, 2.0), (20, 2.0), (10, 2.0))
    rack = front((40, 1.0), (30, 2.0), (25, 4.0), (20, 2.0), (10, 1.0))
    assert pays(node, rack) == (Speeds(None, 20), Speeds(30, 40))
    answer = ServingDomains(
        domains=tuple(
            ServingVariant("h200-sxm", "infiniband-ndr", domain, 64, None, "", None, None, None, None, some, "")
            for domain, some in ((8, node), (72, rack))
        ),
        networks=(),
        rack_pays=pays(node, rack),
    )
    assert rack_pays(answer, CATALOG).endswith("below 20 and between 30 and 40 a second of a user")
