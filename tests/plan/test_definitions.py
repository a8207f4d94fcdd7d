"""What each result means: every figure worked out once more from others of the same plan, or from the catalogue.

A plan may be computed in any way; these hold what its words promise.
"""

import re
from typing import Any

import numpy as np
import pytest

from app import Scenario, evaluate, load_catalog
from app.plan.band import Band, Draws, fold
from app.plan.result import CostLine, Plan

CATALOG = load_catalog()
YEAR = 365.25 * 24 * 3600
LIGHT = 299_792_458.0


def plan_of(**asked: Any) -> Plan:
    return evaluate(Scenario(**asked), CATALOG)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


def typical(band: Band | None) -> float:
    assert band is not None
    return band.typical


def site(name: str) -> float:
    return CATALOG.operations["site"][name].typical


def test_a_band_holds_the_middle_four_fifths_of_the_draws():
    draws = np.concatenate(([50.0], np.linspace(0, 100, 256)))  # the typical value first
    band = fold(CostLine("nodes", Draws(draws))).cost
    assert (band.low, band.typical, band.high) == pytest.approx((10, 50, 90), abs=1)  # 10th and 90th percentile


def test_the_models_own_error_widens_a_band_in_quadrature_on_the_logarithm():
    # Draws from 100/e^0.3 to 100·e^0.3 and an error of 0.4: √(0.3² + 0.4²) = 0.5.
    draws = 100 * np.exp(np.concatenate(([0.0], np.linspace(-0.375, 0.375, 256))))  # 0.375 × 0.8 = 0.3
    band = fold(CostLine("nodes", Draws(draws, residual=0.4))).cost
    assert (band.low, band.high) == pytest.approx((100 * np.exp(-0.5), 100 * np.exp(0.5)), rel=0.01)


def test_the_memory_of_a_cluster_is_that_of_its_gpus(plan: Plan):
    # 1,024 GPUs, not 128 nodes, of 80 GB each.
    assert typical(plan.cluster.memory) == pytest.approx(1024 * CATALOG.gpus["h100-sxm"].memory_nominal.typical)


def test_a_year_of_energy_is_paid_for_at_typical_power_and_with_the_buildings_share(plan: Plan):
    power, price = typical(plan.cluster.typical_power), CATALOG.prices["market"].prices["electricity"].typical
    assert power < typical(plan.cluster.power)
    energy = power * site("pue") * YEAR * price
    assert typical(plan.costs.energy) == pytest.approx(energy, rel=1e-3)
    parts = {line.name: typical(line.cost) for line in plan.costs.operating_parts}
    assert parts["energy"] == typical(plan.costs.energy)
    assert sum(parts.values()) == pytest.approx(typical(plan.costs.operating))


def test_capital_is_nodes_and_fabric_and_a_building_for_all_the_power(plan: Plan):
    parts = {line.name: typical(line.cost) for line in plan.costs.capital_parts}
    assert parts["fabric"] == typical(plan.fabric.cost)
    assert parts["infrastructure"] == pytest.approx(site("infrastructure") * typical(plan.cluster.power))
    assert sum(parts.values()) == pytest.approx(typical(plan.costs.capital))


def test_support_is_a_share_of_what_was_bought_the_building_apart(plan: Plan):
    bought = {line.name: typical(line.cost) for line in plan.costs.capital_parts}
    kept = {line.name: typical(line.cost) for line in plan.costs.operating_parts}
    assert kept["support"] == pytest.approx(site("support") * (bought["nodes"] + bought["fabric"]))


def test_the_total_is_capital_and_the_running_cost_of_every_year(plan: Plan):
    years = site("lifetime") / YEAR
    whole = typical(plan.costs.capital) + years * typical(plan.costs.operating)
    assert typical(plan.costs.total) == pytest.approx(whole, rel=1e-3)
    hours = 1024 * site("lifetime") / 3600
    assert typical(plan.costs.per_gpu_hour) == pytest.approx(whole / hours, rel=1e-3)
    share = typical(plan.training.time_to_train) / site("lifetime")
    assert typical(plan.costs.per_run) == pytest.approx(whole * share, rel=1e-3)


def test_the_parts_of_a_step_add_up_and_a_bubble_is_a_bubble():
    plan = plan_of(pipeline_parallel=4)
    resources = {part.name: part.resource for part in plan.training.parts}
    assert resources["bubble"] == "bubble"
    times = {part.name: typical(part.time) for part in plan.training.parts}
    assert sum(times.values()) == pytest.approx(typical(plan.training.step_time))
    by_resource = {
        resource: sum(times[name] for name, own in resources.items() if own == resource)
        for resource in resources.values()
    }
    longest = max(by_resource, key=lambda resource: by_resource[resource])
    assert plan.bottleneck.resource == longest
    assert plan.bottleneck.share == pytest.approx(by_resource[longest] / typical(plan.training.step_time))


def test_without_a_pipeline_nothing_waits_for_its_ends():
    flat = plan_of(gpus=64, model="llama-3-8b", pipeline_parallel=1)
    assert "bubble" not in {part.name for part in flat.training.parts}


def test_tokens_and_days_follow_from_the_step(plan: Plan):
    tokens, step = 2048 * 8192, typical(plan.training.step_time)
    assert typical(plan.training.tokens_per_second) == pytest.approx(tokens / step)
    run = 15e12 / tokens * step / plan.training.availability
    assert typical(plan.training.time_to_train) == pytest.approx(run, rel=1e-6)
    peak = 1024 * 989.4e12  # dense 16-bit FLOP/s of the H100 as its datasheet rounds it
    assert typical(plan.training.mfu) == pytest.approx(plan.training.flops_per_token * tokens / step / peak, rel=2e-3)


def test_latency_is_every_switch_and_the_light_in_the_longest_cables_up_and_down(plan: Plan):
    longest: dict[str, float] = {}
    for line in plan.fabric.bill_of_materials:
        if run := re.fullmatch(r"(\w+–\w+), (\d+) m", line.role):
            longest[run[1]] = max(longest.get(run[1], 0), float(run[2]))
    assert longest.keys() == {"node–leaf", "leaf–spine"}
    speed = LIGHT * CATALOG.operations["cables"]["signal_speed"].typical
    assert plan.fabric.hops == 3
    leaf = CATALOG.switches[plan.fabric.switch].latency or CATALOG.scale_out["infiniband-ndr"].switch_latency
    assert leaf is not None
    # 15 m and 10 m, both up and down again, take 0.25 us: the bill rounds lengths up to what is sold.
    light = typical(plan.fabric.latency) - 3 * leaf.typical
    assert 0.6 * 2 * sum(longest.values()) / speed < light <= 2 * sum(longest.values()) / speed * (1 + 1e-9)


def test_the_worst_cut_of_a_taper_is_that_much_narrower():
    one, two = (plan_of(oversubscription=taper) for taper in (1, 2))
    assert typical(one.fabric.bisection_per_gpu) == 25e9  # half of the GPUs send 50 GB/s each to the other half
    assert typical(two.fabric.bisection_per_gpu) == pytest.approx(12.5e9)
    for plan in (one, two):
        for cut in plan.fabric.bisection:
            assert typical(cut.both_ways) == 2 * typical(cut.one_way)


@pytest.mark.parametrize("network", ["infiniband-ndr", "roce-400", "efa-400"])
def test_going_through_the_hosts_memory_is_slower_than_past_it(network: str):
    past, through = (plan_of(scale_out=network, gpudirect=direct) for direct in (True, False))
    assert typical(through.all_reduce.time) > 1.1 * typical(past.all_reduce.time)
    assert typical(through.training.step_time) > typical(past.training.step_time)


def test_a_sum_in_the_nvlink_switch_sends_one_and_a_gths_of_the_message():
    # 4 GPUs send 1 + 1/4 = 5/4 of it, 8 send 9/8: for many bytes 4 take (5/4)/(9/8) = 10/9 as long.
    few, many = (
        typical(plan_of(gpus=gpus, algorithm="nvls", message=1e13, model="llama-3-8b").all_reduce.time)
        for gpus in (4, 8)
    )
    assert few / many == pytest.approx(10 / 9, rel=1e-3)


def test_networks_are_called_equal_within_two_per_cent_and_no_further():
    def differs(**asked: Any) -> tuple[float, str]:
        found = plan_of(**asked).recommendation
        assert found is not None
        share = re.search(r"costs ([\d.]+)\D* (more|less)", found.reason)
        assert share
        return float(share[1]), found.reason

    for asked in ({}, {"gpus": 4096}, {"gpus": 256, "tuned": False}, {"gpus": 256, "scale_out": "roce-400"}):
        share, reason = differs(**asked)
        assert ("does not decide between them" in reason) == (share < 2)
