"""The plan as a whole: the articles' worked examples, and answers to what cannot be built."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.training import parallelism_search
from app.formulas.training import step as training_step
from app.plan.cluster import counterpart
from app.plan.evaluate import evaluate, prepare_together
from app.plan.job import job as training_job
from app.plan.network import network_of
from app.plan.recommendation import degrees, run_on
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.units import percent
from tests.bands import bands, typical

CATALOG = load_catalog()


def plan_of(**asked: Any) -> Plan:
    return evaluate(Scenario.model_validate(asked), CATALOG)


@pytest.fixture(scope="module")
def default() -> Plan:
    return plan_of()


def codes(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.findings}


def test_128_hgx_h100_nodes_make_32_leaves_and_16_spines(default: Plan) -> None:
    # 8 rails × 4 scalable units of 32 nodes = 32 leaves; 1,024 uplinks / 64 ports = 16 spines.
    assert default.fabric.links is not None
    assert (default.fabric.leaf_switches, default.fabric.spine_switches, default.fabric.core_switches) == (32, 16, 0)
    assert (default.fabric.links.node_leaf, default.fabric.links.leaf_spine) == (1024, 1024)


def test_an_hgx_h100_node_has_a_bisection_of_3_6_terabytes_a_second_both_ways() -> None:
    # 4 GPUs on each side × 450 GB/s = 1.8 TB/s one way.
    inside = next(cut for cut in plan_of(gpus=8, model="llama-3-8b").fabric.bisection if cut.tier == "scale_up")
    assert typical(inside.one_way) == pytest.approx(1.8e12)
    assert typical(inside.both_ways) == pytest.approx(3.6e12)


def test_a_message_is_a_bucket_of_gradients_unless_it_is_given_or_the_model_has_fewer() -> None:
    """200 MB are on an 80 GB card; the 141 GB of Llama 3 70B's gradients are on no GPU. Pythia 70M has 141 MB."""
    assert plan_of().all_reduce.message == 200e6
    assert plan_of(tensor_parallel=8, oversubscription=2).all_reduce.message == 200e6
    assert plan_of(model="pythia-70m").all_reduce.message == pytest.approx(2 * 70.4e6, rel=0.01)
    assert plan_of(message="200 GB").all_reduce.message == 200e9  # 100 B in 16-bit, of data parallelism alone


def test_the_default_run_takes_six_flops_a_parameter_and_token(default: Plan) -> None:
    # 6·N·D / (GPUs × peak × MFU), with attention on top of 6·N. At 40 % MFU:
    # 6 × 70.6e9 × 15e12 / (1,024 × 989e12 × 0.4) = 1.57e7 s = 181 days, about the 175 of the rule.
    training = default.training
    assert 6 * training.parameters * 15e12 / (1024 * 989e12 * 0.4) / 86400 == pytest.approx(175, rel=0.05)
    work = training.flops_per_token * 15e12
    productive = typical(training.time_to_train) * training.availability
    assert work / (1024 * 989e12 * typical(training.mfu)) == pytest.approx(productive, rel=0.01)
    assert training.flops_per_token == pytest.approx(6 * training.parameters, rel=0.1)


def test_tokens_a_second_times_time_are_the_tokens(default: Plan) -> None:
    training = default.training
    seconds = typical(training.time_to_train) * training.availability
    assert typical(training.tokens_per_second) * seconds == pytest.approx(15e12, rel=1e-6)


def test_the_parts_of_the_step_add_up(default: Plan) -> None:
    assert sum(typical(part.time) for part in default.training.parts) == pytest.approx(
        typical(default.training.step_time), rel=1e-9
    )


def test_the_parts_of_capital_and_of_the_bill_add_up(default: Plan) -> None:
    assert sum(typical(line.cost) for line in default.costs.capital_parts) == pytest.approx(
        typical(default.costs.capital), rel=1e-9
    )
    assert sum(line.cost.typical for line in default.fabric.bill_of_materials if line.cost) == pytest.approx(
        typical(default.fabric.cost), rel=1e-9
    )


def test_doubling_a_resource_never_slows_the_step_and_the_bottleneck_gains_most_of_all_links(default: Plan) -> None:
    step = typical(default.training.step_time)
    assert {entry.resource for entry in default.bottleneck.what_if} >= {
        "compute",
        "memory_bandwidth",
        "scale_up",
        "scale_out",
    }
    for entry in default.bottleneck.what_if:
        assert entry.gain is not None
        assert typical(entry.step_time) <= step * (1 + 1e-9)
        assert entry.gain == pytest.approx(1 - typical(entry.step_time) / step, abs=1e-9)
    assert default.bottleneck.resource == "compute"


def test_every_band_has_its_typical_value_inside_and_names_its_sources(default: Plan) -> None:
    found = bands(default)
    assert len(found) > 60
    for path, band in found:
        assert band.low <= band.typical <= band.high, path
        assert all(source in CATALOG.sources for source in band.sources), path
        assert band.sources or band.high == 0.0, path  # a passive part draws no power


def test_the_verdict_says_what_where_how_long_for_how_much_and_why(default: Plan) -> None:
    for word in (
        "1,024 H100",
        "InfiniBand NDR",
        "Llama 3 70B",
        "days",
        "to buy, $",
        "for this run, $",
        "rented. Compute limits it",
    ):
        assert word in default.verdict


@pytest.mark.parametrize(
    ("asked", "begins", "ends"),
    [
        ({"gpus": 400_000}, "400,000 H100 SXM on InfiniBand NDR 400 cannot be joined", "say what to change."),
        ({"gpus": 8, "model": "llama-3-405b"}, "8 H100 SXM cannot train Llama 3.1 405B", "say what to change."),
        ({"gpus": 64, "nics_per_node": 0}, "64 H100 SXM without network cards cannot train", "say what to change."),
        (
            {"gpus": 8, "tensor_parallel": 8},
            "8 H100 SXM train",
            "of the networks NVLink 4 comes first: doubling it would save 8\u202f%.",
        ),
        ({"gpus": 64}, "64 H100 SXM on InfiniBand NDR 400 train", "doubling a network would save less than 1\u202f%."),
        (
            {"gpus": 64, "scale_out": "tcp-100"},
            "64 H100 SXM on TCP on 100 Gb/s Ethernet train",
            "of the networks TCP on 100 Gb/s Ethernet comes first: doubling it would save 8\u202f%.",
        ),
        (  # a bridge joins two GPUs, and the eight meet over PCIe
            {"gpu": "h100-nvl", "gpus": 64, "model": "llama-3-70b", "tensor_parallel": 8},
            "64 H100 NVL on InfiniBand NDR 400 train",
            "of the networks NVLink 4 bridge, with the bus beyond it, comes first: doubling it would save 22\u202f%.",
        ),
    ],
    ids=str,
)
def test_the_verdict_of_what_cannot_run_and_of_what_the_networks_would_save(
    asked: dict[str, Any], begins: str, ends: str
) -> None:
    verdict = evaluate(Scenario(**{"model": "llama-3-8b", **asked}), CATALOG, ()).verdict
    assert verdict.startswith(begins)
    assert verdict.endswith(ends)


def test_a_network_that_limits_by_its_latency_is_named_and_no_overhead() -> None:
    """Parameters gathered over 4,096 ranks: 69 % of the step, and twice the bandwidth saves a sixth of that."""
    asked = {"gpu": "b200-sxm", "gpus": 4096, "model": "llama-3-70b", "scale_out": "infiniband-ndr"}
    layout = {"sharding": "parameters", "tensor_parallel": 1, "pipeline_parallel": 1}
    plan = evaluate(Scenario(**asked, **layout), CATALOG, ())
    assert plan.bottleneck.resource == "scale_out"
    (gathering,) = [part.time.typical for part in plan.training.parts if part.resource == "scale_out"]
    assert plan.bottleneck.share == pytest.approx(gathering / typical(plan.training.step_time))
    assert "The network limits it, its latency more than its bandwidth; of the networks" in plan.verdict


def test_the_resolved_scenario_has_no_blanks_that_the_plan_filled(default: Plan) -> None:
    for name in ("platform", "gpus_per_node", "scale_up", "switch", "tiers", "layers", "tensor_parallel", "message"):
        assert default.scenario[name] is not None, name


def test_the_resolved_parallelism_asked_for_again_is_the_same_plan(default: Plan) -> None:
    assert default.training.parallelism is not None
    names = vars(default.training.parallelism).keys() & Scenario.model_fields.keys()
    again = plan_of(**{name: default.scenario[name] for name in names})
    assert again.training.step_time == default.training.step_time


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"gpus": 1001}, "partial-node"),
        ({"scale_up_domain": 1000}, "domain-too-large"),
        ({"scale_up": "infinity-fabric-mi300x"}, "other-scale-up"),
        ({"platform": "dgx-a100"}, "unusual-platform"),
        ({"gpu": "rubin"}, "not-shipping"),
        ({"nics_per_node": 0}, "no-network"),
        ({"catalog_version": "2025-01"}, "other-catalogue"),
        ({"users": 300}, "load-left-out"),
        ({"layers": 2, "hidden": 1024}, "borrowed-shape"),
    ],
)
def test_what_does_not_fit_together_is_a_finding_that_says_what_to_change(asked: dict[str, Any], code: str) -> None:
    found = [finding for finding in plan_of(**asked).findings if finding.code == code]
    assert found
    assert found[0].fields


def test_a_load_is_said_to_be_left_out_where_the_plan_trains() -> None:
    asked = {"gpus": 64, "model": "llama-3-8b", "users": 300, "tpot_limit": 0.033}
    (left_out,) = [finding for finding in plan_of(**asked).findings if finding.code == "load-left-out"]
    assert "Users" in left_out.message
    assert "Limit per token" in left_out.message
    serves = plan_of(**asked, **left_out.changes)
    assert serves.serving is not None
    assert "load-left-out" not in {finding.code for finding in serves.findings}


def test_a_network_card_that_is_not_on_sale_is_named_where_nodes_are_joined() -> None:
    def early(gpus: int) -> str:
        plan = plan_of(gpu="b300-sxm", scale_out="ultra-ethernet-800", switch="tomahawk-5-64x800", gpus=gpus)
        return next(finding.message for finding in plan.findings if finding.code == "not-shipping")

    assert "Ultra Ethernet 800 (announced) and Broadcom Thor Ultra (announced)" in early(64)
    assert "Thor" not in early(8)


def test_a_model_that_does_not_fit_is_an_answer_not_an_error() -> None:
    small = plan_of(gpus=8, model="llama-3-405b")
    assert small.training.step_time is None
    assert small.memory.fits is not True
    assert any(finding.severity == "error" and finding.suggestion for finding in small.findings)
    assert "cannot train" in small.verdict


def test_more_hosts_than_the_tiers_carry_is_an_answer_not_an_error() -> None:
    wide = plan_of(gpus=100_000, tiers=2, switch="qm9700")
    assert wide.fabric.cost is None
    assert any(finding.severity == "error" and "tiers" in finding.fields for finding in wide.findings)


def test_a_gpu_alone_has_no_communication() -> None:
    alone = plan_of(gpus=1, model="llama-3-8b", precision="bf16", global_batch=8, sequence_length=2048, gpu="b300-sxm")
    by_resource = {part.resource: typical(part.time) for part in alone.training.parts if part.time}
    assert by_resource.get("scale_up", 0.0) == 0.0
    assert by_resource.get("scale_out", 0.0) == 0.0


@settings(max_examples=40)
@given(
    gpu=st.sampled_from(sorted(CATALOG.gpus)),
    gpus=st.one_of(st.integers(1, 64), st.sampled_from([256, 1000, 1024, 4096, 24576, 100_000, 1_000_000])),
    scale_out=st.sampled_from(sorted(CATALOG.scale_out)),
    topology=st.sampled_from(["rail-optimized", "fat-tree", "rail-only", "mesh", "torus-2d", "torus-3d", "dragonfly"]),
    model=st.sampled_from(sorted(CATALOG.models)),
    precision=st.sampled_from(["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]),
    oversubscription=st.sampled_from([1.0, 2.0, 3.5, 64.0]),
)
def test_any_scenario_has_an_answer_in_which_every_gap_is_explained(**asked: Any) -> None:
    plan = plan_of(**asked)
    for path, band in bands(plan):
        assert np.isfinite([band.low, band.typical, band.high]).all(), path
        assert band.low <= band.typical <= band.high, path
    if plan.training.step_time is None or plan.fabric.cost is None:
        assert any(finding.severity in ("error", "warning") for finding in plan.findings)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"scale_out": "roce-400", "model": "mixtral-8x7b", "gpus": 256, "oversubscription": 2},
        {"gpu": "mi300x", "gpus": 512, "model": "llama-3-8b", "profile": "ideal", "schedule": "zero-bubble"},
        {"gpus": 2048, "model": "llama-3-405b", "sharding": "parameters", "availability": 0.9},
    ],
)
def test_the_recommendation_rests_on_what_a_plan_on_the_other_network_says(asked: dict[str, Any]) -> None:
    scenario = Scenario.model_validate(asked)
    network = network_of(scenario, CATALOG)
    fabric = training_job.fabric_on(network, scenario, CATALOG)
    job = training_job.job_on(network, scenario, CATALOG)
    assert job.training.parallelism is not None
    rival = counterpart(network.cluster.scale_out, CATALOG)
    assert rival is not None
    _, time, cost = run_on(rival, network, fabric, job)
    same_way = {"scale_out": rival.key, "switch": None, **degrees(job.training.parallelism)}
    plan = evaluate(scenario.model_copy(update=same_way), CATALOG)
    assert plan.training.parallelism == job.training.parallelism
    assert time == pytest.approx(typical(plan.training.time_to_train), rel=1e-12)
    assert cost.whole == pytest.approx(typical(plan.costs.per_run), rel=1e-12)


def test_the_cost_of_a_run_is_as_uncertain_as_its_time() -> None:
    plan = plan_of(gpu="gb200", gpus=1008)
    time, rent, own = plan.training.time_to_train, plan.costs.rental, plan.costs.per_run
    assert time is not None
    assert rent is not None
    assert own is not None
    for cost in (rent, own):
        assert cost.high / cost.typical >= time.high / time.typical * 0.999
        assert cost.low / cost.typical <= time.low / time.typical * 1.001


@pytest.mark.parametrize(
    ("asked", "most", "better"),
    [
        ({"gpu": "b300-sxm", "gpus": 64, "model": "olmo-2-7b", "scale_out": "tcp-100", "tensor_parallel": 1},
         "compute", "TCP on 100 Gb/s Ethernet twice as quick"),
        ({"gpu": "a10", "gpus": 4096, "model": "megatron-145b", "scale_out": "tcp-100", "tensor_parallel": 16},
         "scale_up", "GPUs that compute twice as quickly"),
    ],
)  # fmt: skip
def test_a_verdict_says_what_saves_more_than_what_takes_the_most(asked: dict[str, Any], most: str, better: str) -> None:
    plan = evaluate(Scenario(**asked), CATALOG)
    gains = {entry.resource: entry.gain for entry in plan.bottleneck.what_if}
    assert plan.bottleneck.resource == most
    best = max(gains.values())
    assert best > gains[most] + 0.01
    share, own = percent(plan.bottleneck.share), percent(gains[most])
    assert f"takes the most of the step, {share}; {better} would save more of it: {percent(best)}, against {own}." in (
        plan.verdict
    )
    assert "limits it" not in plan.verdict


def test_bands_say_their_sources_where_these_are_included_whatever_was_asked_before(default: Plan) -> None:
    for include in ((), ("sources",), ()):
        plan = evaluate(Scenario(), CATALOG, include)
        for band, whole in (
            (plan.fabric.cost, default.fabric.cost),
            (plan.all_reduce.time, default.all_reduce.time),
            (plan.training.step_time, default.training.step_time),
        ):
            assert band == (whole if include else replace(whole, sources=()))


def test_a_plan_is_the_same_after_those_of_other_clusters_whose_layers_it_shares() -> None:
    given = {"tensor_parallel": 8, "pipeline_parallel": 2, "micro_batch": 1, "global_batch": 1024}
    scenarios = [Scenario(gpus=gpus, **given) for gpus in (128, 1024, 256, 4096)]
    after_others = [evaluate(scenario, CATALOG) for scenario in scenarios]
    for scenario, plan in zip(scenarios, after_others, strict=True):
        assert evaluate(scenario, replace(CATALOG)) == plan  # a catalogue of which nothing is known


def test_plans_prepared_together_are_those_of_each_alone_and_find_their_searches_and_steps_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = {"tensor_parallel": 8, "pipeline_parallel": 1, "virtual_pipeline": 1, "context_parallel": 1,
             "expert_parallel": 1, "micro_batch": 1, "sharding": "parameters", "recompute": "full"}  # fmt: skip
    asked: tuple[dict[str, Any], ...] = (
        {"gpus": 96, "global_batch": 96},
        {"gpus": 1000, "scale_out": "roce-400", "global_batch": 1000},
        {"gpus": 64, "model": "llama-3-8b", "global_batch": 256},
        {"gpus": 16, "model": "mixtral-8x7b", "global_batch": 64, "tensor_parallel": 2},
        {"gpus": 64, "workload": "serving", "model": "llama-3-8b"},
        *({"gpus": gpus, "global_batch": gpus, **whole} for gpus in (32, 1024, 4096)),
    )
    scenarios = [Scenario(**each) for each in asked]
    alone = [evaluate(scenario, CATALOG, ()) for scenario in scenarios]
    unused = load_catalog()  # of which nothing is known yet
    prepare_together(scenarios, unused)
    monkeypatch.delattr(parallelism_search, "best")
    monkeypatch.delattr(training_step, "assemble")
    assert [evaluate(scenario, unused, ()) for scenario in scenarios] == alone


def test_a_plan_that_was_prepared_says_all_that_is_asked_of_it() -> None:
    scenarios = [Scenario(gpus=gpus, model="llama-3-8b", global_batch=256) for gpus in (32, 64)]
    alone = [evaluate(scenario, CATALOG) for scenario in scenarios]
    unused = replace(CATALOG)  # of which nothing is known yet
    for _ in range(2):
        prepare_together(scenarios, unused)
        assert [evaluate(scenario, unused) for scenario in scenarios] == alone
        assert [
            evaluate(scenario, replace(unused)) for scenario in scenarios
        ] == alone  # not of what it was prepared of
