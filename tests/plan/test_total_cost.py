"""What a cluster costs to buy, to keep and to use."""

from typing import Any

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.network import networks_of
from app.plan.scenario import Scenario
from app.plan.total_cost import ownership, spent

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
        owned = ownership(network.cluster, network, network.prices)
        drawn = owned.capital.values, owned.rental(time), owned.per_run(time), owned.power
        alone = [np.ravel(values)[0] for values in drawn]
        assert [column[place] for column in together] == pytest.approx(alone, rel=1e-12, nan_ok=True)
        assert alone[-1] > 0
