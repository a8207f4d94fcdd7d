"""The hardware that scenarios name."""

from typing import Any

import pytest

from app.catalog.load import load_catalog
from app.plan.cluster import look_up, look_up_sizes
from app.plan.scenario import Scenario

CATALOG = load_catalog()
SIZES = 1, 7, 8, 9, 71, 72, 73, 100, 1024


@pytest.mark.parametrize(
    "wish",
    [
        {"gpu": "h100-sxm"},
        {"gpu": "h100-sxm", "gpus_per_node": 4},
        {"gpu": "h100-sxm", "gpus_per_node": 16, "scale_up": "pcie-5"},
        {"gpu": "h100-sxm", "scale_up_domain": 64},
        {"gpu": "gb200"},
        {"gpu": "gb200", "gpus_per_node": 2},
        {"gpu": "gb200", "nics_per_node": 1, "spare_nodes": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("sizes", [SIZES, SIZES[::-1], (3,), (2, 2)], ids=str)
def test_clusters_of_several_sizes_are_those_looked_up_one_by_one(wish: dict[str, Any], sizes: tuple[int, ...]) -> None:
    """Small ones fill neither a node nor a domain, so that their nodes have fewer GPUs and network cards."""
    scenario = Scenario(**wish)
    several = look_up_sizes(scenario, sizes, CATALOG)
    for gpus, cluster in zip(sizes, several, strict=True):
        alone = look_up(scenario.model_copy(update={"gpus": gpus}), CATALOG)
        assert vars(cluster) | {"request": alone.request} == vars(alone)
