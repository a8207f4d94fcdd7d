"""What each result means: every figure worked out once more from others of the same plan, or from the catalogue.

A plan may be computed in any way; these hold what its words promise.
"""

import re
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pytest

from app import Scenario, evaluate, load_catalog
from app.plan.band import Band, Draws, fold
from app.plan.recommendation import rule_of_thumb
from app.plan.result import CostLine, Plan
from app.units import percent
from tests.bands import bands, typical

CATALOG = load_catalog()
YEAR = 365.25 * 24 * 3600
LIGHT = 299_792_458.0


def plan_of(**asked: Any) -> Plan:
    return evaluate(Scenario(**asked), CATALOG)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


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


def test_a_campaign_is_longer_than_its_run_and_that_longer_than_its_steps(plan: Plan):
    steps, run, calendar = (
        typical(band)
        for band in (plan.training.productive_time, plan.training.time_to_train, plan.training.campaign_time)
    )
    assert steps == pytest.approx(plan.training.steps * typical(plan.training.step_time))
    assert run == pytest.approx(steps / plan.training.availability)
    assert calendar == pytest.approx(1.10 * run)  # the catalogue's
    asked = plan_of(campaign_overhead=1.5)
    assert typical(asked.training.campaign_time) == pytest.approx(1.5 * typical(asked.training.time_to_train))
    assert "by the calendar" in plan.verdict


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
            cut_in_half = 8 if cut.tier == "scale_up" else plan.cluster.gpus
            assert typical(cut.per_gpu) == pytest.approx(typical(cut.one_way) / cut_in_half)
        assert typical(plan.fabric.bisection[0].per_gpu) == 225e9  # four of eight GPUs send 450 GB/s to the others
        assert typical(plan.fabric.bisection[-1].per_gpu) == pytest.approx(typical(plan.fabric.bisection_per_gpu))


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


# How figures came about, worked out again from the numbers that are shown


def terms(plan: Plan, name: str) -> dict[str, float]:
    """The terms of an explanation by their symbols, those of one symbol added up."""
    values: dict[str, float] = {}
    for term in plan.explanations[name].terms:
        values[term.symbol] = values.get(term.symbol, 0.0) + term.value
    return values


def test_the_terms_of_a_step_give_the_step(plan: Plan):
    parallelism = plan.training.parallelism
    assert parallelism is not None
    shown = {term.symbol: term.value for term in plan.explanations["training.step_time"].terms}
    assert (shown["p"], shown["v"]) == (parallelism.pipeline_parallel, parallelism.virtual_pipeline)
    # A replica's share of the batch of 2,048, in micro-batches.
    assert shown["m"] == 2048 / parallelism.data_parallel / parallelism.micro_batch
    assert shown["L"] == 80
    assert shown["R"] == CATALOG.gpus["h100-sxm"].fp16.typical
    parts = {part.name: typical(part.time) for part in plan.training.parts}
    assert {name: shown[name] for name in parts} == parts
    assert sum(parts.values()) == pytest.approx(typical(plan.training.step_time))


def test_the_terms_of_utilisation_and_of_the_run_give_them(plan: Plan):
    mfu = terms(plan, "training.mfu")
    assert mfu["F"] * mfu["B s"] / (mfu["T_step"] * mfu["n"] * mfu["R"]) == pytest.approx(mfu["MFU"])
    assert mfu["MFU"] == pytest.approx(typical(plan.training.mfu))
    run = terms(plan, "training.time_to_train")
    steps = run["D"] / run["B s"]
    assert steps == pytest.approx(plan.training.steps, rel=1e-5)
    assert run["n"] == plan.training.steps
    assert plan.training.steps * run["T_step"] / run["A"] == pytest.approx(typical(plan.training.time_to_train))


def test_the_terms_of_memory_add_up(plan: Plan):
    assert sum(terms(plan, "memory.total").values()) == pytest.approx(typical(plan.memory.total))
    assert {part.name: typical(part.size) for part in plan.memory.parts} == terms(plan, "memory.total")
    capacity, total = typical(plan.memory.capacity), typical(plan.memory.total)
    assert typical(plan.memory.headroom) == pytest.approx(capacity - total)
    assert plan.memory.fits is (total <= capacity)


def test_the_terms_of_an_all_reduce_give_its_bandwidths(plan: Plan):
    time = terms(plan, "all_reduce.time")
    assert (time["S"], time["n"], time["g"], time["M"]) == (plan.all_reduce.message, 1024, 8, 128)
    size = terms(plan, "all_reduce.bus_bandwidth")
    assert size["T"] == typical(plan.all_reduce.time)
    assert size["S"] / size["T"] == pytest.approx(typical(plan.all_reduce.algorithm_bandwidth))
    carried = 2 * (size["n"] - 1) / size["n"]  # by each link, for each byte
    assert carried * size["S"] / size["T"] == pytest.approx(typical(plan.all_reduce.bus_bandwidth))
    assert terms(plan, "all_reduce.algorithm_bandwidth") == {"S": size["S"], "T": size["T"]}


def test_the_terms_of_a_fabric_give_its_cost_and_its_cut(plan: Plan):
    cost = typical(plan.fabric.cost)
    assert terms(plan, "fabric.cost")["C"] == pytest.approx(cost)
    host = terms(plan, "fabric.cost_per_host_port")
    assert host["C"] / host["n"] == pytest.approx(typical(plan.fabric.cost_per_host_port))
    port = terms(plan, "fabric.cost_per_switch_port")
    assert port["C"] / port["n"] == pytest.approx(typical(plan.fabric.cost_per_switch_port))
    cut = terms(plan_of(oversubscription=2), "fabric.bisection")
    # Half of the ports send to the other half, less what the taper takes.
    assert cut["n"] / 2 * cut["B"] / cut["o"] == pytest.approx(1024 * 12.5e9)
    leaves = terms(plan, "fabric.leaf_switches")
    assert leaves == {"N": 128, "R": 8, "M": 0, "k": 64, "d": 32, "o": 1, "SU": 4, "L": 32}
    spines = terms(plan, "fabric.spine_switches")
    assert spines["L"] * spines["u"] / spines["k"] == spines["S"] == 16


def test_the_terms_of_money_give_it(plan: Plan):
    costs, year = plan.costs, site("year")
    whole = terms(plan, "costs.total")
    assert whole["C"] + whole["O"] * whole["T"] / year == pytest.approx(typical(costs.total))
    hour = terms(plan, "costs.per_gpu_hour")
    assert hour["C"] / (hour["n"] * hour["T"] / 3600) == pytest.approx(typical(costs.per_gpu_hour))
    run = terms(plan, "costs.per_run")
    assert run["C"] * run["t"] / run["T"] == pytest.approx(typical(costs.per_run))
    rent = terms(plan, "costs.rental")
    assert rent["n"] * rent["p"] * rent["t"] == pytest.approx(typical(costs.rental))


# What a figure rests on


@pytest.mark.parametrize(
    "asked",
    [
        {"storage_network": True, "management_network": True},
        {"profile": "ideal"},
        {"gpu": "mi300x", "gpus": 512, "scale_out": "roce-400", "model": "mixtral-8x7b"},
        {"topology": "torus-2d", "gpus": 64, "model": "llama-3-8b"},
    ],
    ids=str,
)
def test_every_figure_names_its_sources(asked: dict[str, Any]):
    for path, band in bands(plan_of(**asked)):
        assert band.sources or band.high == 0.0, path


def test_a_sum_rests_on_what_its_parts_rest_on(plan: Plan):
    costs = plan.costs

    def sources(*figures: Band | None) -> set[str]:
        return {source for band in figures if band for source in band.sources}

    assert sources(costs.capital) >= sources(*(line.cost for line in costs.capital_parts))
    assert sources(costs.operating) >= sources(*(line.cost for line in costs.operating_parts))
    assert sources(costs.total) >= sources(costs.capital, costs.operating)
    assert sources(costs.per_run) == sources(costs.per_gpu_hour) == sources(costs.total)
    assert sources(plan.fabric.cost) >= sources(*(line.cost for line in plan.fabric.bill_of_materials))
    assert sources(plan.cluster.power) >= sources(plan.fabric.power)
    assert sources(plan.training.time_to_train) >= sources(plan.training.step_time)
    assert sources(plan.training.step_time) == sources(*(part.time for part in plan.training.parts))


def test_a_step_is_uncertain_by_its_constants_and_by_the_model_itself(plan: Plan):
    # Were the model exact, the band would be that of its constants' draws; its own error of 9 % for a dense model, and
    # that of the model of memory, make it wider on the logarithm.
    error = {name: CATALOG.training["residual"][name].typical for name in ("dense", "memory")}
    for band, least in ((plan.training.step_time, error["dense"]), (plan.memory.total, error["memory"])):
        assert band is not None
        assert np.log(band.high / band.typical) >= least * (1 - 1e-9)
        assert np.log(band.typical / band.low) >= least * (1 - 1e-9)
    free = plan.memory.headroom
    assert free is not None
    assert free.high - free.typical < typical(plan.memory.total) - plan.memory.total.low


# The cluster


def test_racks_hold_as_many_nodes_as_their_height_and_their_power_allow(plan: Plan):
    floor = {name: value.typical for name, value in CATALOG.operations["racks"].items()}
    cluster = plan.cluster
    node = CATALOG.platforms["hgx-h100"].power.typical
    assert (cluster.nodes, cluster.gpus, cluster.gpus_per_node, cluster.scale_up_domain) == (128, 1024, 8, 8)
    assert cluster.nodes_per_rack == 4
    assert cluster.racks_by_height == 32  # 128 / 4
    assert cluster.racks_by_power == 26  # 5 nodes of 10.2 kW under 60 kW, and 128 / 5 rounded up
    assert floor["power"] // node == 5
    switches = 48  # one unit high each
    assert cluster.racks == 32 + int(np.ceil(switches / floor["network_units"]))
    assert typical(cluster.power) == pytest.approx(128 * node + typical(plan.fabric.power))


def test_storage_and_management_draw_power_and_cost_money_like_the_fabric():
    without, beside = plan_of(), plan_of(storage_network=True, management_network=True)
    more = sum(typical(network.power) for network in beside.fabric.networks)
    assert typical(beside.cluster.power) == pytest.approx(typical(without.cluster.power) + more)
    money = sum(typical(network.cost) for network in beside.fabric.networks)
    building = site("infrastructure") * more
    assert typical(beside.costs.capital) == pytest.approx(typical(without.costs.capital) + money + building)
    names = [line.name for line in beside.costs.capital_parts]
    assert names == [
        "nodes", "fabric", "storage network", "in-band management network", "out-of-band management network",
        "infrastructure",
    ]  # fmt: skip


def test_half_a_node_is_a_whole_server_with_half_its_cards():
    half, whole = (plan_of(gpus=gpus, gpus_per_node=gpus, model="llama-3-8b") for gpus in (4, 8))
    assert typical(half.cluster.power) == pytest.approx(typical(whole.cluster.power))
    assert typical(half.costs.capital) == pytest.approx(typical(whole.costs.capital))
    assert (half.scenario["nics_per_node"], whole.scenario["nics_per_node"]) == (4, 8)
    assert half.cluster.scale_up_domain == 4


# The run


def test_failures_cost_what_was_done_since_the_last_checkpoint_and_the_restart():
    asked = {
        "failure_rate": "2e-5 /h",
        "checkpoint_time": "60 s",
        "restart_time": "10 min",
        "checkpoint_interval": "1 h",
    }
    some, none = plan_of(**asked), plan_of(failure_rate=0)
    assert none.training.availability == 1
    assert typical(none.training.time_to_train) == pytest.approx(none.training.steps * typical(none.training.step_time))
    # 1,024 GPUs fail 1,024 · 2e-5 times an hour: λτ / (e^(λr) (e^(λ(τ + δ)) - 1)), with τ 1 h, δ 1/60 h, r 1/6 h.
    rate = 1024 * 2e-5
    assert some.training.availability == pytest.approx(rate / (np.exp(rate / 6) * np.expm1(rate * 61 / 60)))
    longer = typical(some.training.time_to_train) / typical(none.training.time_to_train)
    assert longer == pytest.approx(1 / some.training.availability)


def test_hardware_utilisation_counts_what_is_computed_twice():
    # Full recomputation repeats the forward pass, a third of the work of a step.
    asked = {"gpus": 64, "model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 1}
    twice, once = (plan_of(**asked, recompute=how) for how in ("full", "none"))
    assert typical(once.training.hfu) == pytest.approx(typical(once.training.mfu))
    assert typical(twice.training.hfu) / typical(twice.training.mfu) == pytest.approx(4 / 3, rel=0.05)


def test_what_doubling_a_resource_saves_is_one_less_the_ratio_of_the_steps(plan: Plan):
    step = typical(plan.training.step_time)
    for entry in plan.bottleneck.what_if:
        assert entry.factor == 2
        assert entry.gain == pytest.approx(1 - typical(entry.step_time) / step)
    # Twice as good a resource cannot save more than half.
    assert all(0 <= (entry.gain or 0) <= 0.5 for entry in plan.bottleneck.what_if)


def test_alternatives_are_other_degrees_slower_than_the_plan_in_their_order(plan: Plan):
    step, chosen = typical(plan.training.step_time), plan.training.parallelism
    assert chosen is not None
    times = [other.step_time for other in plan.training.alternatives]
    assert len(times) == 6
    assert times == sorted(times)
    assert times[0] >= step * (1 - 1e-9)

    def degrees(of: Any) -> tuple[int, ...]:
        return (of.tensor_parallel, of.pipeline_parallel, of.context_parallel, of.expert_parallel)

    each = [degrees(other.parallelism) for other in plan.training.alternatives]
    assert len({degrees(chosen), *each}) == 7
    assert all(other.memory <= typical(plan.memory.capacity) for other in plan.training.alternatives)
    for other in plan.training.alternatives:
        assert other.why.startswith(f"{percent(other.step_time / step - 1, 1)} slower")
    cloud = plan.training.cloud
    assert len(cloud) <= 400
    assert cloud[0] == (pytest.approx(step), pytest.approx(typical(plan.memory.total)))
    assert [time for time, _ in cloud] == sorted(time for time, _ in cloud)


# The all-reduce


def test_the_quickest_algorithm_is_taken_and_the_next_named_with_its_distance(plan: Plan):
    times = sorted(typical(way.time) for way in plan.all_reduce.alternatives)
    assert typical(plan.all_reduce.time) == times[0]
    assert f"by {percent(times[1] / times[0] - 1)};" in plan.all_reduce.reason
    share = plan.all_reduce.bandwidth_share
    assert share is not None
    assert plan.all_reduce.latency_share == pytest.approx(1 - share)
    assert f"{percent(max(share, 1 - share))} of the time is moving the bytes" in plan.all_reduce.reason
    for way in plan.all_reduce.alternatives:
        assert way.bandwidth_share is not None
        assert way.latency_share == pytest.approx(1 - way.bandwidth_share)
    small = plan_of(message=8)
    assert "is latency and filling" in small.all_reduce.reason


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"algorithm": "nvls-tree", "gpus": 8, "model": "llama-3-8b"}, "joins several NVLink domains"),
        ({"algorithm": "nvls", "gpu": "a100-sxm"}, "no switch that sums"),
        ({"algorithm": "nvls"}, "between nodes it needs switches that sum"),
        ({"algorithm": "nvls", "protocol": "ll", "gpus": 8, "model": "llama-3-8b"}, "speaks the Simple protocol only"),
        ({"protocol": "ll128", "gpu": "l40s", "model": "llama-3-8b"}, "LL128 needs NVLink"),
        ({"algorithm": "hierarchical"}, "NCCL and RCCL have no hierarchical"),
        ({"algorithm": "nvls-tree", "profile": "ideal"}, "knows it as in-network reduction"),
    ],
    ids=str,
)
def test_an_algorithm_that_cannot_run_is_told_what_it_lacks(asked: dict[str, Any], says: str):
    found = plan_of(**asked)
    (finding,) = (finding for finding in found.findings if finding.code == "algorithm")
    assert says in finding.message
    assert found.all_reduce.time is None


def test_what_keeps_two_nodes_from_their_network_is_said():
    def copies(**asked: Any) -> bool:
        return "host-copies" in {finding.code for finding in plan_of(**asked, model="llama-3-8b").findings}

    assert copies(scale_out="tcp-400", gpus=16)
    assert not copies(scale_out="tcp-400", gpus=8)  # one node sends nothing
    assert not copies(scale_out="roce-400", gpus=16)


def test_sums_in_the_network_are_refused_where_its_switches_cannot_add():
    def said(**asked: Any) -> bool:
        return "no-in-network-reduction" in {finding.code for finding in plan_of(**asked).findings}

    assert said(scale_out="roce-400", in_network_reduction=True)
    assert not said(scale_out="roce-400")
    assert not said(in_network_reduction=True)
    assert not said(scale_out="roce-400", in_network_reduction=True, gpus=8, model="llama-3-8b")  # one domain


def test_a_transfer_uses_the_links_that_its_group_spans():
    # 8 GPUs share a domain: what goes among them is the scale-up link's, what goes further the network's.
    def resources(**asked: Any) -> dict[str, str]:
        return {part.name: part.resource for part in plan_of(**asked).training.parts}

    small = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1}
    assert resources(gpus=8, **small)["data_parallel"] == "scale_up"
    assert resources(gpus=16, scale_out="infiniband-hdr", **small)["data_parallel"] == "scale_out"
    wide = small | {"tensor_parallel": 4, "context_parallel": 2}
    assert resources(gpus=16, **wide)["tensor_parallel"] == "scale_up"
    assert resources(gpus=16, **wide)["context_parallel"] == "scale_up"
    assert resources(gpus=16, **wide)["data_parallel"] == "scale_out"
    assert resources(gpus=32, **wide | {"context_parallel": 4})["context_parallel"] == "scale_out"
    staged = small | {"tensor_parallel": 8, "pipeline_parallel": 2}
    assert resources(gpus=16, **staged)["pipeline_parallel"] == "scale_out"
    assert resources(gpus=8, **small | {"pipeline_parallel": 2})["pipeline_parallel"] == "scale_up"
    experts = {"model": "mixtral-8x7b", "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1}
    assert resources(gpus=64, **experts, expert_parallel=8)["expert_parallel"] == "scale_up"


# Every input that a link carries


def test_a_link_asks_the_same_question_again(plan: Plan):
    asked = Scenario(gpus=512, oversubscription=2.5, storage_network=True, price_node=250_000.0, switch="qm9790")
    query = asked.query()
    assert dict(pair.split("=") for pair in query.split("&")) == {
        "gpus": "512", "oversubscription": "2.5", "storage_network": "true", "price_node": "250000", "switch": "qm9790",
    }  # fmt: skip
    assert Scenario().query() == ""
    assert plan.permalink.startswith("/?")
    assert f"catalog_version={quote_plus(CATALOG.version)}" in plan.permalink


# The recommendation


def test_the_dearer_network_is_named_with_how_much_later_and_dearer_its_run_is():
    for asked in ({}, {"gpus": 256, "tuned": False}, {"gpus": 512, "scale_out": "roce-400"}):
        found = plan_of(**asked)
        other = "roce-400" if found.scenario["scale_out"].startswith("infiniband") else "infiniband-ndr"
        rival = plan_of(**asked | {"scale_out": other})  # run as is best on it
        dearer = typical(rival.costs.per_run) / typical(found.costs.per_run) - 1
        slower = typical(rival.training.time_to_train) / typical(found.training.time_to_train) - 1
        assert found.recommendation is not None
        reason = found.recommendation.reason
        names = [CATALOG.scale_out[key].name for key in (other, found.scenario["scale_out"])]
        assert reason.startswith(f"{names[0]} ")
        assert f" {names[1]} and costs" in reason
        assert f"costs {percent(abs(dearer), 1)} {'more' if dearer > 0 else 'less'} for the run" in reason
        if abs(slower) >= 5e-4:
            assert f"finishes {percent(abs(slower), 1)} {'later' if slower > 0 else 'sooner'} than" in reason
        else:
            assert "is as quick as" in reason
        tie = abs(dearer) < 0.02
        best = found.scenario["scale_out"] if tie or dearer > 0 else other
        assert found.recommendation.scale_out == best
        assert ("does not decide" in reason) == tie


@pytest.mark.parametrize(
    ("gpus", "best", "agrees", "says"),
    [
        (63, "roce-400", True, "Under 64 GPUs either"),
        (64, "roce-400", True, "Between"),
        (1000, "infiniband-ndr", True, "Between"),
        (1001, "infiniband-ndr", True, "Over 1,000 GPUs: InfiniBand"),
        (1001, "roce-400", False, "Over 1,000 GPUs: InfiniBand"),
    ],
)
def test_the_rule_of_thumb_asks_for_infiniband_in_large_clusters_alone(gpus: int, best: str, agrees: bool, says: str):
    found, rule = rule_of_thumb(gpus, CATALOG.scale_out[best], False, CATALOG)
    assert (found, rule.startswith(says)) == (agrees, True)
    assert rule_of_thumb(gpus, CATALOG.scale_out[best], True, CATALOG)[0]  # in a tie any choice agrees


def test_a_partial_node_is_bought_whole_and_the_numbers_on_either_side_proposed():
    # 126 nodes of 8 have 1,008 GPUs.
    (finding,) = (finding for finding in plan_of(gpus=1001).findings if finding.code == "partial-node")
    assert "126 nodes are bought and 7 of the GPUs stay idle" in finding.message
    assert finding.suggestion == "Use 1,000 or 1,008 GPUs."
    assert dict(finding.changes) == {"gpus": 1008}
    assert "partial-node" not in {finding.code for finding in plan_of(gpus=1008).findings}


def test_two_nodes_have_a_rival_network_and_one_has_none():
    assert plan_of(gpus=16, model="llama-3-8b").recommendation is not None
    assert plan_of(gpus=8, model="llama-3-8b").recommendation is None


def test_racks_hold_the_switches_of_every_network():
    beside = plan_of(storage_network=True, management_network=True)
    floor = {name: value.typical for name, value in CATALOG.operations["racks"].items()}
    units = sum(
        line.quantity * (CATALOG.switches[line.key].rack_units or 1)
        for line in beside.fabric.bill_of_materials
        if line.role.endswith(" switch")
    )
    for network in beside.fabric.networks:
        units += (network.leaf_switches + network.spine_switches) * (CATALOG.switches[network.switch].rack_units or 1)
    power = typical(beside.fabric.power) + sum(typical(network.power) for network in beside.fabric.networks)
    racks = max(np.ceil(units / floor["network_units"]), np.ceil(power / floor["power"]))
    assert beside.cluster.racks == 32 + racks


def test_links_between_gpus_cost_a_share_of_the_node_where_they_are_its_own():
    costs = plan_of().costs
    assert typical(costs.scale_up_per_gpu) == pytest.approx(14_400 / 8)  # four switches of an HGX for eight GPUs
    assert typical(costs.scale_up_per_bandwidth) == pytest.approx(14_400 / 8 / 450)  # GB/s of a GPU, one way
    assert costs.scale_up_per_gpu is not None
    assert costs.scale_up_per_gpu.sources
    # Wider domains than the rack has, and links that it does not come with, have no price.
    assert plan_of(gpu="gb200", gpus=576).costs.scale_up_per_gpu is not None
    assert plan_of(gpu="gb200", gpus=576, scale_up_domain=576).costs.scale_up_per_gpu is None
    assert plan_of(scale_up="nvlink-5").costs.scale_up_per_gpu is None


def test_a_rack_that_is_sold_whole_has_no_limit_of_power():
    # 576 GPUs are 144 trays, 18 to a rack, however much they draw.
    cluster = plan_of(gpu="gb200", gpus=576).cluster
    assert (cluster.nodes, cluster.racks_by_height, cluster.racks_by_power) == (144, 8, 8)
