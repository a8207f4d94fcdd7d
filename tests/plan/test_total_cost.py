"""What a cluster costs to buy, to keep and to use."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.network import network_of, networks_of
from app.plan.scenario import Scenario
from app.plan.total_cost import Money, own_together, ownership, run_costs, spent

CATALOG = load_catalog()
SIZES = (1, 8, 72, 1024, 4096)


@pytest.mark.parametrize("catalog", [CATALOG, CATALOG.typical_only()])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"gpu": "gb200", "scale_up_domain": 576, "scale_out": "infiniband-xdr"},  # a second tier of NVLink switches
        {"spare_nodes": 3, "storage_capacity": "5 PB", "storage_network": True, "management_network": True},
        {"gpu": "a100-64g-sxm", "scale_out": "infiniband-hdr"},  # nobody prices its servers
        {"scale_out": "slingshot-200", "tiers": 1},  # of the larger no fabric can be built
    ],
)
def test_clusters_that_are_priced_together_cost_what_each_costs_by_itself(asked: dict[str, Any], catalog: Any) -> None:
    networks = networks_of((Scenario.model_validate(asked | {"gpus": gpus}) for gpus in SIZES), catalog)
    times = np.linspace(1e5, 1e7, len(networks))
    together = spent(networks, times)
    for place, (network, time) in enumerate(zip(networks, times, strict=True)):
        owned = ownership(network, network.prices)
        drawn = owned.capital.values, owned.rental(time), owned.per_run(time), owned.power
        alone = [np.ravel(values)[0] for values in drawn]
        assert [column[place] for column in together] == pytest.approx(alone, rel=1e-12, nan_ok=True)
        assert alone[-1] > 0


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"gpus": 8},
        {"gpus": 20_000, "scale_out": "roce-400", "oversubscription": 2, "management_links": 2},
        {"gpu": "gb200", "gpus": 1152, "scale_up_domain": 144, "spare_nodes": 18, "storage_network": True},
        {"gpus": 512, "topology": "dragonfly", "price_switch": 9000, "management_network": True, "spares": 0},
        {"gpus": 4096, "storage_capacity": 1e16, "media": "aoc", "planes": 2},
    ],
)
def test_what_a_run_typically_costs_is_the_first_of_its_draws(asked: dict[str, Any]) -> None:
    network, time = network_of(Scenario(**asked), CATALOG), 1e6
    owned = ownership(network, network.prices)
    drawn = owned.per_run(time), owned.network_per_run(time)
    assert run_costs([(network, time)]) == [tuple(float(np.ravel(values)[0]) for values in drawn)]
    assert [owned.typical_run(time)] == run_costs([(network, time)])
    totals = network.cost, network.power, network.typical_power
    assert network.typical == tuple(float(values[0]) for values in totals)


def test_clusters_priced_together_cost_what_each_does_alone() -> None:
    asked: tuple[dict[str, Any], ...] = (
        {"gpus": 64},
        {"gpus": 8},
        {"gpus": 20_000, "scale_out": "roce-400", "management_network": True},
        {"gpus": 4096, "spare_nodes": 3, "storage_network": True},
        {"gpus": 1152, "gpu": "gb200", "scale_up_domain": 144},
        {"gpus": 512, "gpu": "a100-64g-sxm", "scale_out": "infiniband-hdr"},  # nobody prices its servers
        {"gpus": 256, "price_node": 250_000},
    )
    scenarios = [Scenario(**each) for each in asked]
    alone = [network_of(scenario, CATALOG) for scenario in scenarios]
    together = [network_of(scenario, replace(CATALOG)) for scenario in scenarios]  # of which nothing is priced yet
    priced = own_together([(network, network.prices) for network in together])
    for network, its_own, owned in zip(alone, together, priced, strict=True):
        assert owned.network is its_own
        for name in (*Money._fields, "standing", "storage"):
            expected = np.broadcast_to(getattr(ownership(network, network.prices), name), 257)
            np.testing.assert_array_equal(np.broadcast_to(getattr(owned, name), 257), expected, err_msg=name)
    times = [1e6 * (place + 1) for place in range(len(asked))]
    spent_together = run_costs([*zip(together, times, strict=True)])
    for network, time, cost in zip(alone, times, spent_together, strict=True):
        assert cost == pytest.approx(run_costs([(network, time)])[0], rel=1e-12, nan_ok=True)
