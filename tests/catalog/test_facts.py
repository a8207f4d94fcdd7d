"""Figures that were once wrong, each against its source."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def test_the_mi455x_has_the_peaks_that_amd_prints() -> None:
    """20.1 PFLOP/s of FP8 and 40.3 of FP4, launched on 23 July 2026; another reading halves them, and says so."""
    gpu = CATALOG.gpus["mi455x"]
    assert gpu.fp8 is not None
    assert gpu.fp4 is not None
    assert (gpu.fp8.typical, gpu.fp4.typical, gpu.status) == (20.1e15, 40.3e15, "shipping")
    assert [claim.source for claim in gpu.claims if claim.field == "fp8"] == ["ml-engineering-accelerators"]


def test_hdr_has_the_roadmaps_year_and_beside_it_the_articles() -> None:
    network = CATALOG.scale_out["infiniband-hdr"]
    assert network.year == 2018
    assert [(claim.says, claim.source) for claim in network.claims if claim.field == "year"] == [
        ("2019.", "infiniband-knowledge-base")
    ]


def test_sixty_four_thousand_devices_is_what_jarvislabs_says() -> None:
    assert CATALOG.operations["infiniband"]["articles_addresses"].source == "jarvislabs-nvlink-infiniband"


def test_the_twin_sr4_module_draws_15_watts_and_the_dr4_17() -> None:
    modules = [CATALOG.optics[key].power for key in ("osfp-800g-2xsr4", "osfp-800g-2xdr4")]
    assert [power.typical for power in modules if power] == [15.0, 17.0]


def test_the_trillion_parameter_run_takes_its_published_102_seconds() -> None:
    """With the stack of its paper, Megatron-LM of 2021; the tuned stack of today is a tenth quicker."""
    plan = evaluate(Scenario.model_validate(CATALOG.presets["megatron-1t-run"].scenario), CATALOG)
    assert plan.training.step_time is not None
    assert plan.training.step_time.typical == pytest.approx(102, rel=0.03)


def test_colossus_stands_in_racks_of_eight_liquid_cooled_servers() -> None:
    """100,000 GPUs over 64 a rack: 1,563 racks of GPUs."""
    plan = evaluate(Scenario.model_validate(CATALOG.presets["colossus"].scenario), CATALOG)
    assert plan.cluster.racks_by_height == 1563
    assert plan.cluster.racks_by_power == 1563
    assert plan.training.time_to_train is not None
    assert plan.training.time_to_train.high < 15 * 86400  # five days, and no "∞" where failures cost most


def test_eight_gpus_of_80_gb_have_640_gb() -> None:
    """As the vendor prints it; programs find 79.1 GiB, 84.9 GB, on each."""
    plan = evaluate(Scenario(gpus=8, model="llama-3-405b", global_batch=64), CATALOG)
    assert plan.cluster.memory is not None
    assert plan.cluster.memory.typical == 640e9
    refused = next(finding for finding in plan.findings if finding.code == "does-not-fit")
    assert "84.9\u202fGB (sold as 80\u202fGB)" in refused.message


@pytest.mark.parametrize("key", ["nexus-9364e-sg2", "cisco-8122-64eh", "z9864f-on", "jericho-3-leaf"])
def test_a_switch_of_another_maker_can_be_asked_for_and_is_priced_as_an_estimate(key: str) -> None:
    plan = evaluate(Scenario(scale_out="roce-400", switch=key), CATALOG)
    assert plan.fabric.switch == key
    assert plan.fabric.cost is not None
    assert CATALOG.prices["market"].prices[key].status == "estimate"


@pytest.mark.parametrize(
    ("platform", "gpu", "nics"),
    [
        ("gcp-a3-ultra", "h200-sxm", 8),
        ("gcp-a4", "b200-sxm", 8),
        ("oci-h100", "h100-sxm", 16),
        ("azure-nd-h200-v5", "h200-sxm", 8),
    ],
)
def test_servers_of_other_clouds_bring_3_2_terabits_a_second(platform: str, gpu: str, nics: int) -> None:
    """8 × 400 Gb/s or 16 × 200 Gb/s."""
    entry = CATALOG.platforms[platform]
    assert gpu in entry.gpus
    assert entry.nics_per_node == nics
    assert entry.nics_per_node * entry.nic_rate.typical * 8 == 3.2e12
