"""Whole published clusters: what their sources print of counts, power, racks and dollars, and what a plan says."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.plan.total_cost import cluster_of, ownership

CATALOG = load_catalog()
MEGAWATT = 1e6
CLUSTERS: dict[str, dict[str, Any]] = {
    **{key: dict(preset.scenario) for key, preset in CATALOG.presets.items()},
    "superpod-h100-256": {"gpus": 2048, "platform": "dgx-h100"},
    "superpod-h100-1024": {"gpus": 8192, "platform": "dgx-h100"},
    "superpod-b200-128": {"gpu": "b200-sxm", "gpus": 1024, "platform": "dgx-b200"},
    "superpod-b200-512": {"gpu": "b200-sxm", "gpus": 4096, "platform": "dgx-b200"},
    "superpod-b200-2048": {"gpu": "b200-sxm", "gpus": 16384, "platform": "dgx-b200"},
    "selene": {"gpu": "a100-sxm", "gpus": 4480, "platform": "dgx-a100", "scale_out": "infiniband-hdr"},
    "lumi-g": {"gpu": "mi250x", "gpus": 11912, "scale_out": "slingshot-200", "topology": "dragonfly"},
    "hpc6": {"gpu": "mi250x", "gpus": 13888, "scale_out": "slingshot-200", "topology": "dragonfly"},
    "isambard-ai": {"gpu": "gh200", "gpus": 5448, "scale_out": "slingshot-200", "topology": "dragonfly"},
    "el-capitan": {"gpu": "mi300a", "gpus": 44544, "scale_out": "slingshot-200", "topology": "dragonfly"},
    "deepseek-ft2": {"gpu": "h800-sxm", "gpus": 2048, "topology": "fat-tree"},
    "deepseek-mpft": {"gpu": "h800-sxm", "gpus": 16384, "topology": "rail-only"},
    "sheet-1024": {},
    "sheet-100k": {"gpus": 100_000, "scale_out": "roce-400", "topology": "fat-tree"},
    "perlmutter": {"gpu": "a100-sxm", "gpus": 7168, "gpus_per_node": 4, "scale_out": "slingshot-200"},
    "abci-3": {"gpu": "h200-sxm", "gpus": 6128, "scale_out": "infiniband-ndr200"},
    "sakura": {"gpus": 2016},
}


class Figures(NamedTuple):
    """What a plan says of a cluster: typical watts and dollars."""

    nodes: int
    leaves: int | None
    spines: int | None
    cores: int | None
    racks: int
    compute_racks: int
    power: float
    typical_power: float
    equipment: float
    capital: float
    site: float


def figures(name: str) -> Figures:
    network = network_of(Scenario.model_validate(CLUSTERS[name]), CATALOG)
    owned = ownership(network.cluster, network, network.prices)
    cluster = cluster_of(owned)
    counts = network.built.counts if network.built else None
    equipment = float(np.ravel(owned.nodes)[0] + network.cost[0])
    typical = cluster.typical_power.typical
    return Figures(
        cluster.nodes,
        counts.leaves if counts else None,
        counts.spines if counts else None,
        counts.cores + counts.super_cores if counts else None,
        cluster.racks,
        cluster.compute_racks,
        cluster.power.typical,
        typical,
        equipment,
        owned.capital.typical,
        typical * owned.rates.pue.typical,
    )


@pytest.mark.parametrize(
    ("name", "leaves", "spines", "cores"),
    [
        ("superpod-h100-unit", 8, 4, 0),  # RA-11333 table 4
        ("superpod-h100", 32, 16, 0),
        ("superpod-h100-256", 64, 32, 0),
        ("superpod-h100-1024", 256, 256, 128),
        ("superpod-b200-128", 32, 16, 0),  # RA-11334
        ("superpod-b200-512", 128, 128, 64),
        ("superpod-b200-2048", 512, 512, 256),
        ("superpod-b300-xdr", 16, 8, 0),  # RA-11339
        ("superpod-b300-spectrum-x", 16, 8, 0),  # RA-11337
        ("deepseek-ft2", 64, 32, 0),  # ISCA 2025: 96 switches
        ("deepseek-mpft", 512, 256, 0),  # 768
        ("frontier", 2368, 0, 0),  # 74 groups of 32
    ],
)
def test_switches_are_those_that_are_printed(name: str, leaves: int, spines: int, cores: int) -> None:
    found = figures(name)
    assert (found.leaves, found.spines, found.cores) == (leaves, spines, cores)


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("eos", 576), ("alps", 2688), ("frontier", 9408), ("jupiter", 5884), ("lumi-g", 2978), ("hpc6", 3472),
        ("isambard-ai", 1362), ("el-capitan", 11136), ("imbue", 511), ("eagle", 1800), ("juwels-booster", 936),
        ("perlmutter", 1792), ("abci-3", 766), ("llama-3-roce", 3072),
    ],
)  # fmt: skip
def test_nodes_are_those_that_are_printed(name: str, nodes: int) -> None:
    assert figures(name).nodes == nodes


@pytest.mark.parametrize(
    ("name", "of", "racks"),
    [
        ("superpod-h100", "racks", 38),  # RA-11333 table 7: all racks
        ("superpod-gb200", "compute_racks", 8),
        ("azure-gb300", "compute_racks", 64),
        ("llama-3-roce", "compute_racks", 1536),  # Lockwood
        ("llama-3-infiniband", "compute_racks", 1536),
        ("colossus", "compute_racks", 1563),  # 64 GPUs each
        ("jupiter", "compute_racks", 125),  # Hardwareluxx
        ("alps", "racks", 24),  # CSCS
        ("frontier", "racks", 74),  # Lockwood
        ("isambard-ai", "racks", 13),
        ("el-capitan", "racks", 87),
    ],
)
def test_racks_are_within_a_fifth_of_those_that_are_printed(name: str, of: str, racks: int) -> None:
    assert getattr(figures(name), of) == pytest.approx(racks, rel=0.2)


@pytest.mark.parametrize(
    ("name", "of", "megawatts"),
    [
        ("superpod-gb200", "power", 1.2),  # NVIDIA: a unit
        ("superpod-gb300", "power", 2.4),
        ("selene", "typical_power", 2.646),  # TOP500, as the next five: power of HPL
        ("juwels-booster", "typical_power", 1.764),
        ("frontier", "typical_power", 24.607),
        ("lumi-g", "typical_power", 7.107),
        ("hpc6", "typical_power", 8.461),
        ("alps", "typical_power", 7.124),
        ("el-capitan", "typical_power", 29.7),
        ("colossus", "site", 150),  # Epoch AI: grid capacity of the site
        ("sheet-100k", "site", 150),
    ],
)
def test_power_is_within_15_per_cent_of_what_is_published(name: str, of: str, megawatts: float) -> None:
    assert getattr(figures(name), of) / MEGAWATT == pytest.approx(megawatts, rel=0.15)


@pytest.mark.parametrize(
    ("name", "of", "dollars"),
    [
        ("sheet-1024", "equipment", 44.0e6),  # H100 Freakonomics: nodes and fabric
        ("sheet-100k", "equipment", 4.0e9),  # "exceeding $4 billion", servers and network
        ("colossus", "equipment", 3.59e9),  # Epoch AI: servers and network
        ("colossus", "capital", 5.29e9),  # with the building
        ("frontier", "equipment", 600e6),  # contract
        ("alps", "equipment", 118e6),  # CHF 100 M
        ("jupiter", "equipment", 287e6),  # EUR 273 M
        ("lumi-g", "equipment", 165e6),  # EUR 144.5 M
        ("sakura", "capital", 95.2e6),  # 13.5 billion yen
    ],
)
def test_dollars_are_within_a_quarter_of_what_is_published(name: str, of: str, dollars: float) -> None:
    assert getattr(figures(name), of) == pytest.approx(dollars, rel=0.25)
