"""What a fabric costs in place: its parts with their spares, and the building of what they draw."""

from typing import Any

import pytest

from app.catalog.load import load_catalog
from app.plan.cheapest_design import choose
from app.plan.cluster import look_up
from app.plan.fabric_cost import PricedFabric, in_full
from app.plan.network import network_of
from app.plan.prices import PriceList
from app.plan.scenario import NetworkRequest, PriceRequest, Scenario
from app.plan.switches import candidates

TYPICAL = load_catalog().typical_only()


def priced(**asked: Any) -> PricedFabric:
    """The fabric that is chosen, with its cost."""
    scenario = Scenario(**asked)
    cluster, request = look_up(scenario, TYPICAL), scenario.part(NetworkRequest)
    prices = PriceList.of(scenario.part(PriceRequest), TYPICAL)
    return in_full(choose(candidates(cluster, request, TYPICAL), cluster, request, prices), cluster, request, prices)


def test_one_switch_costs_its_parts_with_spares_and_the_building_of_what_it_draws() -> None:
    # A QM9700, 32 modules in nodes, 16 of two ports each in the switch and 32 fibres of 10 m at the longest; 3 % of
    # spares; 1,720 W with its modules, at $11 a watt.
    parts = 32_870 + 32 * 550 + 16 * 879 + 32 * 110
    found = priced(gpu="l40s", gpus=64)
    assert found.chosen.lengths == {"node_leaf": 10.0}
    assert found.cost == pytest.approx(parts * 1.03 + 11 * 1_720)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"scale_out": "roce-400", "oversubscription": 2.0},
        {"gpus": 128, "topology": "fat-tree"},
        {"gpus": 512, "spares": 0.1, "infrastructure": 20},
    ],
    ids=str,
)
def test_a_fabric_costs_what_its_network_and_the_building_of_it_do(asked: dict[str, Any]) -> None:
    """Servers come with the cards of these networks, and no cable is cheaper than that of the longest link."""
    network = network_of(Scenario(**asked), TYPICAL)
    building = network.prices.rate("infrastructure").typical * float(network.power[0])
    assert priced(**asked).cost == pytest.approx(float(network.cost[0]) + building, rel=1e-12)
