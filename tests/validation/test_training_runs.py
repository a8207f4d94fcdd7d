"""The step model against published step times: its error, each source predicted by a model that never saw it."""

import csv
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from app.catalog.estimate import N_DRAWS
from app.catalog.load import load_catalog
from app.plan.cluster import look_up
from app.plan.communication import of_scenario
from app.plan.evaluate import evaluate
from app.plan.job.inputs import JobRequest
from app.plan.job.job import plan_job
from app.validation import training_rows
from app.validation import training_runs as accuracy

CATALOG = load_catalog()
ROWS, _ = accuracy.read(accuracy.MEASUREMENTS, CATALOG)


@cache
def left_out():
    """The report on all rows, each source predicted without it (some 10 s)."""
    return accuracy.report(accuracy.MEASUREMENTS, CATALOG, leave_one_out=True)


@cache
def predicted():
    """All rows as the planner predicts them."""
    return accuracy.predictions(ROWS, CATALOG, leave_one_out=False)


def test_every_published_row_is_predicted():
    assert left_out()["rows"] == 864
    assert left_out()["skipped"] == []
    assert set(left_out()) >= {
        "overall", "identified", "moe", "baseline", "memory", "by_run", "by_group", "by_stack", "by_gpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("group", "most"),
    [
        ("overall", 0.105),
        ("identified", 0.07),
        ("dense", 0.065),
        ("dense_clusters", 0.07),
        ("moe", 0.18),
        ("moe_clusters", 0.14),
        ("memory", 0.16),
    ],
)
def test_left_out_error(group: str, most: float):
    assert left_out()[group]["mean"] <= most


def test_draws_that_are_worked_out_a_few_at_a_time_are_those_of_all_at_once(monkeypatch):
    catalog = load_catalog()
    rows = accuracy.fitted_rows(catalog)[:40]
    few = accuracy.predictions(rows, catalog, leave_one_out=False)
    monkeypatch.setattr(accuracy, "AT_ONCE", N_DRAWS)
    assert few == accuracy.predictions(rows, catalog, leave_one_out=False)


def test_the_korthikanti_rows():
    fitted = accuracy.report(accuracy.MEASUREMENTS, CATALOG)
    assert fitted["by_group"]["kort22"]["mean"] <= 0.0365
    assert left_out()["by_group"]["kort22"]["mean"] <= 0.06


def test_a_gpu_that_was_left_out_has_no_say_in_what_is_predicted_of_it() -> None:
    # With every H100 three times as slow the fit without them is the same: nothing of them is left from its start.
    rows = accuracy.fitted_rows(CATALOG)
    slower = [replace(row, measured=3 * row.measured) if row.question.gpu == "h100-sxm" else row for row in rows]
    fits = []
    for some in (rows, slower):
        data = accuracy.batch(some, CATALOG)
        whole = accuracy.fit(data, CATALOG, np.ones(len(some), bool))
        fits.append(accuracy.left_out(data, some, CATALOG, whole, "gpu"))
    assert set(fits[0]) == {row.question.gpu for row in rows}
    assert np.exp(fits[1]["h100-sxm"]) == pytest.approx(np.exp(fits[0]["h100-sxm"]), rel=0.02)


@pytest.mark.parametrize("kind", ["gpu", "stack", "model"])
def test_gpus_stacks_and_models_that_no_row_was_seen_of_are_predicted_as_well_as_sources(kind: str) -> None:
    found = left_out()["unseen"][kind]
    assert found["dense"]["mean"] <= 0.07
    assert found["moe"]["mean"] <= 0.20
    assert all(0.75 <= group["coverage"] <= 0.90 for group in found.values())


@pytest.mark.parametrize(("group", "least"), [("overall", 0.75), ("identified", 0.75), ("dense", 0.75), ("moe", 0.75)])
def test_four_of_five_left_out_measurements_lie_inside(group: str, least: float):
    assert least <= left_out()[group]["coverage"] <= 0.90


def test_published_runs_fit():
    # They ran. One needs more than a tenth over: 70 B parameters on 16 H200 with whole 16-bit weights on each.
    assert left_out()["infeasible"]["share"] <= 0.05
    assert left_out()["memory"]["median"] <= 0.12
    capacity = {key: gpu.memory.typical for key, gpu in CATALOG.gpus.items()}
    over = {
        found.row.run: found.memory / capacity[found.row.scenario().gpu] - 1
        for found in predicted()
        if found.row.scenario().offload in (None, "none")
    }
    assert [run for run, share in over.items() if share > 0.1] == ["colossal-002"]


def test_a_source_counts_memory_in_its_own_way(tmp_path):
    base = {**BLANK, "gpu": "h100-sxm", "memory_gb": "60"}
    kinds = ("allocated", "reserved", "nvidia-smi", "")
    found = predict(tmp_path, [{**base, "run": kind, "memory_kind": kind} for kind in kinds])
    allocated, reserved, smi, blank = (p.counted_memory for p in found)
    context = CATALOG.training["memory"]["context"].typical
    assert smi == blank == found[0].memory
    assert reserved == pytest.approx(smi - context)
    assert allocated < reserved


@pytest.mark.parametrize("memory", ["-60", "0", "nan"])
def test_memory_that_none_has_is_memory_that_no_source_states(tmp_path, memory):
    base = {**BLANK, "gpu": "h100-sxm"}
    found = predict(tmp_path, [{**base, "memory_gb": "60"}, {**base, "memory_gb": memory}])
    assert [prediction.row.memory for prediction in found] == [60, None]
    summary = accuracy.summary(found, [], leave_one_out=False)
    assert (summary["rows"], summary["memory"]["count"]) == (2, 1)
    assert np.isfinite(summary["memory"]["bias"])


def test_degrees_that_no_source_states_are_the_planners_own(tmp_path):
    large = {**BLANK, "gpu": "h100-sxm", "gpus": "512", "layers": "80", "hidden": "8192", "heads": "64"}
    found = predict(tmp_path, [large])[0]
    assert not found.refused
    stated = predict(tmp_path, [{**large, "tensor_parallel": "8"}])[0].row.scenario()
    assert (stated.tensor_parallel, stated.pipeline_parallel) == (8, 1)


def test_tuned_mixtures_of_experts():
    assert left_out()["moe_by_regime"]["tuned"]["mean"] <= 0.15


def test_ranges_are_as_narrow_as_they_can_be():
    assert left_out()["dense"]["width"] <= 0.13
    assert left_out()["moe"]["width"] <= 0.25


def test_three_of_four_sources_lie_inside_each_by_itself():
    sources = left_out()["sources"]
    shares = [found["coverage"] for found in left_out()["by_group"].values()]
    assert (sources["count"], sources["enough"]) == (31, sum(share >= 0.75 for share in shares))
    assert sources["enough"] >= 0.75 * sources["count"]
    assert sources["between"] <= sources["near"]
    assert sources["compatible"] >= 0.75 * sources["count"]  # ranges of four in five would leave it so
    assert sources["possible"] == sum(found["count"] > 3 for found in left_out()["by_group"].values())
    assert f"Of 31 sources {sources['enough']} have at least 75 %" in accuracy.text(left_out())


def test_sources_of_few_rows_count_as_near_give_or_take_one():
    # 1 of 3, 2 of 3 and 3 of 3 rows inside; 2 or 3 are a row away from four of five. 40 of 40 are not.
    found = {str(share): {"coverage": share, "count": 3} for share in (1 / 3, 2 / 3, 1.0)}
    assert accuracy._sources(found) == {
        "count": 3, "enough": 1, "between": 0, "near": 2, "possible": 0, "compatible": 3,
    }  # fmt: skip
    assert accuracy._sources({"many": {"coverage": 1.0, "count": 40}})["near"] == 0


def test_ranges_that_no_source_has_a_say_in_hold_four_of_five_too():
    found = left_out()
    for name in ("others_ranges", "others_ranges_dense", "others_ranges_moe"):
        assert 0.75 <= found[name]["coverage"] <= 0.88
    assert found["others_ranges_sources"]["compatible"] >= 0.75 * found["others_ranges_sources"]["count"]


def test_a_class_that_one_source_alone_is_of_keeps_its_width_without_it(tmp_path):
    # Both rows of source a are of the class "open"; without it nothing says how wide that class is.
    rows = [{**BLANK, "gpu": "h100-sxm", "tensor_parallel": "2", "micro_batch": "1", "step_time_s": "9"}]
    rows = [{**rows[0], "stack": stack, "group": group} for stack, group in (("maxtext", "a"), ("nemo", "b"))]
    found = predict(tmp_path, rows)
    alone, unseen = found[0], accuracy.ranges_left_out(found, CATALOG)[0]
    assert (unseen.low, unseen.high) == (pytest.approx(alone.low), pytest.approx(alone.high))


def test_a_stack_that_is_taken_for_another_has_a_wider_range(tmp_path):
    # Primus is built on Megatron-LM: its traits are taken, and no step of it was measured under that name.
    base = {**BLANK, "gpu": "h100-sxm", "tensor_parallel": "2", "micro_batch": "1", "release_date": "2025.5"}
    own, other, unknown = predict(tmp_path, [{**base, "stack": name} for name in ("megatron-lm", "primus", "new")])
    assert own.row.scenario().stack == other.row.scenario().stack == "megatron-lm"
    assert own.time == other.time
    assert other.high / other.low > own.high / own.low
    names = [part.name for part in accuracy.widths(unknown.row, CATALOG)]
    assert names.count("other_stack") == 1


def test_what_nobody_states_widens_the_range(tmp_path):
    stated = {**BLANK, "gpu": "h100-sxm", "stack": "nemo", "tensor_parallel": "2", "micro_batch": "1"}
    wide, narrow = predict(tmp_path, [{**stated, "micro_batch": ""}, stated])
    assert wide.row.unstated
    assert not narrow.row.unstated
    assert wide.high / wide.low > narrow.high / narrow.low


@pytest.mark.parametrize(
    ("stack", "compiled", "fused"),
    [("fsdp-torchtitan", "0", False), ("fsdp-torchtitan", "1", True), ("nemo", "0", None), ("nemo", "", None)],
)
def test_what_is_not_compiled_is_eager_unless_its_kernels_are_fused_by_hand(tmp_path, stack, compiled, fused):
    row = {**BLANK, "gpu": "h100-sxm", "stack": stack, "compile": compiled}
    assert predict(tmp_path, [row])[0].row.scenario().fused is fused


def test_residuals_hold_the_share_of_votes_that_they_should():
    needed = accuracy.step_residuals(accuracy.predictions(ROWS, CATALOG, leave_one_out=False), CATALOG)
    table = CATALOG.training["residual"]
    # In-sample errors are smaller than those of sources left out, which the catalogue's residuals hold.
    assert set(needed) == {"dense", "open", "untuned", "experts", "untuned_experts", "unstated"}
    assert all(0 < needed[name] <= 1.05 * table[name].typical for name in ("dense", "open", "experts"))


def test_ranges_know_how_many_steps_of_each_stack_and_gpu_were_measured():
    for kind in ("stack", "gpu"):
        counts = Counter(getattr(row.scenario(), kind) for row in ROWS)
        known = {key: entry.typical for key, entry in CATALOG.training[f"rows-{kind}"].items()}
        assert known == {key: count for key, count in counts.items() if key != "other"}


FREE = (
    "tensor_parallel", "pipeline_parallel", "virtual_pipeline", "context_parallel", "expert_parallel", "micro_batch",
    "sharding", "sharding_group", "recompute", "recompute_layers",
)  # fmt: skip


def test_the_search_comes_near_the_layouts_that_people_tuned():
    gains, near, sharded = [], [], {"published": 0, "chosen": 0}
    tuned = [found for found in predicted() if found.row.regime == "tuned" and found.row.group != "mpt"]
    for found in tuned[::5]:
        asked = found.row.scenario()
        search = training_rows.setup_of(asked.model_copy(update=dict.fromkeys(FREE)), CATALOG).search()
        if len(search.time):
            gains.append(search.time[0] / found.time)
            near.append(abs(search.time[0] / found.row.measured - 1))
            sharded["published"] += asked.sharding == "parameters"
            sharded["chosen"] += float(search.best().sharding) == 3
    assert max(gains) <= 1.001  # the published layout is among those that it looks at
    assert np.median(gains) >= 0.9
    assert np.median(near) <= 0.12
    assert sharded["chosen"] <= sharded["published"] + 0.1 * len(gains)


def test_regimes_and_routings_are_counted_apart():
    assert {name: found["count"] for name, found in left_out()["by_regime"].items()} == {
        "tuned": 672, "recipe": 181, "functional": 11,
    }  # fmt: skip
    assert {name: found["count"] for name, found in left_out()["moe_by_routing"].items()} == {
        "balanced": 119, "natural": 13, "dropped": 114, "not stated": 21,
    }  # fmt: skip


def test_rows_of_one_stack_model_gpu_precision_and_release_of_a_source_have_one_vote(tmp_path):
    rows = [{**BLANK, "gpu": "h100-sxm", "group": "a", "model": "m", "step_time_s": time} for time in ("2", "8")]
    found = predict(tmp_path, [*rows, {**rows[0], "group": "b", "step_time_s": "1"}])
    clusters = accuracy.summary(found, [], False)["clusters"]
    assert clusters["count"] == 2
    assert clusters["bias"] == pytest.approx(found[0].time / 2 - 1)  # geometric means: 4 of source a, 1 of source b


def test_it_beats_one_utilisation_for_all():
    assert left_out()["overall"]["mean"] < 0.4 * left_out()["baseline"]["mean"]


def test_the_catalogue_holds_the_fit():
    rows = accuracy.fitted_rows(CATALOG)
    data = accuracy.batch(rows, CATALOG)
    fitted = accuracy.fit(data, CATALOG, np.ones(len(rows), bool))
    for (group, name), log in zip(accuracy.priors(), fitted, strict=True):
        constant = CATALOG.training[group][name]
        assert constant.typical == pytest.approx(float(np.exp(log)), rel=0.02)
        assert constant.low <= constant.typical <= constant.high


BLANK = {
    "gpus": "64", "layers": "32", "hidden": "4096", "heads": "32", "sequence_length": "4096", "global_batch": "256",
    "step_time_s": "5",
}  # fmt: skip


def predict(tmp_path, rows: list[dict[str, str]]) -> list[accuracy.Prediction]:
    path = tmp_path / "rows.csv"
    names = sorted({name for row in rows for name in row})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    read, skipped = accuracy.read(path, CATALOG)
    assert not skipped
    return accuracy.predictions(read, CATALOG, leave_one_out=False)


def test_any_gpu_of_the_catalogue_with_nothing_else_said(tmp_path):
    rows = [{**BLANK, "gpu": gpu, "run": gpu} for gpu in CATALOG.gpus]
    for found in predict(tmp_path, rows):
        assert 0 < found.low < found.time < found.high < np.inf


@pytest.mark.parametrize("stack", ["", "megatron-lm", "nemo", "primus", "maxtext", "deepspeed", "colossal-ai", "fsdp"])
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8", "mxfp8", "nvfp4"])
def test_any_stack_and_precision(tmp_path, stack: str, precision: str):
    mixture = {"experts": "64", "experts_per_token": "6", "expert_ffn_hidden": "1408", "expert_parallel": "8"}
    base = {**BLANK, "gpu": "mi300x", "stack": stack, "precision": precision, "ffn_hidden": "14336"}
    dense, experts = predict(tmp_path, [base, {**base, **mixture}])
    assert np.isfinite(dense.time)
    assert np.isfinite(experts.time)


def test_rows_that_cannot_be_predicted_say_why(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("run,gpu,gpus,layers\na,tpu-v5p,8,2\nb,h100-sxm,8,2\n", encoding="utf-8")
    rows, skipped = accuracy.read(path, CATALOG)
    assert rows == []
    assert "tpu-v5p" in skipped[0]["reason"]
    assert "hidden" in skipped[1]["reason"]
    assert accuracy.report(path, CATALOG)["overall"]["count"] == 0


STATED = BLANK | {
    "gpu": "h100-sxm", "stack": "megatron-lm", "model": "Llama 3 8B", "kv_heads": "8", "ffn_hidden": "14336",
    "vocabulary": "128256", "precision": "bf16", "scale_out": "infiniband", "gbps_per_gpu": "400",
    "tensor_parallel": "1", "micro_batch": "1", "sharding": "parameters", "recompute": "full", "regime": "tuned",
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"gpu": "NVIDIA H100 80GB HBM3"}, {}),
        ({"gpu": "DGX H100"}, {}),
        ({"precision": "bfloat16"}, {}),
        ({"precision": "FP8-hybrid"}, {"precision": "fp8"}),
        ({"sharding": "ZeRO-3"}, {}),
        ({"sharding": "FSDP2"}, {}),
        ({"recompute": "uniform"}, {}),
        ({"regime": "Tuned"}, {}),
        ({"scale_out": "NDR400", "gbps_per_gpu": ""}, {}),
        ({"scale_out": "RoCEv2 400GbE"}, {"scale_out": "roce"}),
        ({"scale_out": "HDR200", "gbps_per_gpu": ""}, {"gbps_per_gpu": "200"}),
        ({"layers": "", "hidden": "", "heads": "", "kv_heads": "", "ffn_hidden": "", "model": "Llama-3.1-8B"}, {}),
        ({"stack": "NeMo 25.02"}, {"stack": "nemo", "stack_version": "25.02"}),
    ],
)
def test_another_spelling_is_the_same_question(tmp_path, written, meant):
    theirs, ours = predict(tmp_path, [STATED | written, STATED | meant])
    assert theirs.time == pytest.approx(ours.time, rel=1e-12)
    assert not theirs.row.taken


def test_a_dense_model_of_which_the_size_alone_is_given_has_a_shape_by_rule_and_a_wider_range(tmp_path):
    """As Llama 3 8B within a tenth: what is computed follows from the parameters."""
    nameless = dict.fromkeys(("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocabulary"), "")
    by_size, by_shape = predict(tmp_path, [STATED | nameless | {"model": "Mystery-8B"}, STATED])
    assert by_size.time == pytest.approx(by_shape.time, rel=0.1)
    assert by_size.high / by_size.low > by_shape.high / by_shape.low
    assert by_size.row.taken == ("shape of Mystery-8B by rule from its size",)


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        ({"model": "Mystery MoE 8x22B", "layers": "", "hidden": "", "heads": ""}, "layers"),
        ({"hidden": "2560", "heads": "20", "experts": "64", "expert_ffn_hidden": "1408"}, "experts_per_token"),
        ({"precision": "fp32"}, "fp32"),
        ({"gpu": "RTX 4090"}, "RTX 4090"),
    ],
)
def test_a_row_without_what_decides_its_step_is_refused_with_a_reason(tmp_path, change, lacking):
    path = tmp_path / "row.csv"
    row = STATED | change
    path.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n", encoding="utf-8")
    rows, skipped = accuracy.read(path, CATALOG)
    assert not rows
    assert lacking in skipped[0]["reason"]


def test_a_model_is_recognised_by_its_shape():
    row = {"hidden": "7168", "heads": "128", "kv_heads": "128", "experts": "256", "expert_ffn_hidden": "2048"}
    model = training_rows.same_shape({**row, "model": "something", "vocabulary": "129280"}, CATALOG)
    assert model is not None
    assert model.key == "deepseek-v3"


def test_releases_as_printed():
    assert training_rows.release_of("Megatron-Bridge 25.09", "") == pytest.approx(2025.71, abs=0.01)
    assert training_rows.release_of("", "NVIDIA/dgxc-benchmarking v25.05.05") == pytest.approx(2025.375)
    assert training_rows.release_of("", "arXiv 2104.04473") is None
    assert training_rows.release_of("ROCm v25.6 (Primus)", "") == pytest.approx(2025.458, abs=0.01)


def test_software_that_nobody_dates_is_not_the_newest():
    # Hopper reached developers in 2022.9; of NeMo's variants 2024 comes nearest to some months later.
    raw = {**BLANK, "gpu": "h100-sxm"}
    for named, stack, release in (
        ("", "tuned", 2023.65),
        ("nemo", "nemo-2024", None),
        ("internevo", "internevo", None),
    ):
        question = training_rows.scenario_of({**raw, "stack": named}, CATALOG)
        assert (question.stack, question.software_date) == (stack, release and pytest.approx(release))
    dated = training_rows.scenario_of({**raw, "stack": "", "release_date": "2026.2"}, CATALOG)
    assert dated.software_date == 2026.2


# One path: a published run is a scenario -----------------------------------------------------------------------------


def test_every_prediction_is_the_planners_answer_for_that_run():
    for found in predicted():
        scenario = found.row.scenario()
        cluster = look_up(scenario, CATALOG)
        job = plan_job(cluster, of_scenario(scenario, CATALOG), JobRequest.of(scenario, CATALOG), CATALOG)
        assert job.training.step_time.typical == pytest.approx(found.time, rel=1e-9), found.row.run
        assert job.memory.total.typical == pytest.approx(found.memory, rel=1e-9), found.row.run
        assert job.runs is not found.refused


@pytest.mark.parametrize("place", range(0, len(ROWS), 17), ids=lambda place: ROWS[place].run)
def test_a_whole_plan_gives_the_predicted_step(place: int):
    found = predicted()[place]
    plan = evaluate(found.row.scenario(), CATALOG)
    assert plan.training.step_time.typical == pytest.approx(found.time, rel=1e-9)
    assert (plan.training.time_to_train is None) is found.refused
    assert ("does-not-fit" in [finding.code for finding in plan.findings]) is found.refused


def test_the_report_counts_the_published_runs_that_the_planner_refuses():
    counted = left_out()["infeasible"]
    assert counted["count"] == sum(found.refused for found in predicted())
    assert counted["share"] == pytest.approx(counted["count"] / 864)
    assert f"{counted['count']} of them" in accuracy.text(left_out())


NEWER = {
    **BLANK, "gpu": "h100-sxm", "stack": "nemo", "release_date": "2025.4", "tensor_parallel": "4", "experts": "8",
    "experts_per_token": "2", "expert_ffn_hidden": "14336", "expert_parallel": "8", "expert_tensor_parallel": "2",
    "dispatcher": "deepep", "expert_overlap": "1", "routing": "dropped", "graphs": "partial", "compile": "1",
    "attention_kernel": "memory-efficient", "tensor_overlap": "0", "data_overlap": "1", "gradient_bytes": "2",
    "offload": "optimizer+activations", "layout": "Et*16|t*16L", "recompute": "full",
}  # fmt: skip


def test_what_a_row_states_of_its_settings_reaches_the_scenario(tmp_path):
    scenario = predict(tmp_path, [NEWER])[0].row.scenario()
    stated = {
        "software_date": 2025.4, "expert_tensor_parallel": 2, "dispatcher": "deepep", "overlap_expert": True,
        "routing": "dropped", "graphs": "partial", "fused": True, "attention_kernel": "sdpa", "overlap_tensor": False,
        "overlap_data": True, "gradient_bytes": 2.0, "offload": "activations+optimizer", "layout": "Et*16|t*16L",
    }  # fmt: skip
    assert {name: getattr(scenario, name) for name in stated} == stated


def test_blank_settings_are_left_to_the_stack_and_blank_degrees_are_filled(tmp_path):
    row = {**BLANK, "gpu": "h100-sxm", "note": "eager; AsyncTP", "sharding": "optimizer"}
    scenario = predict(tmp_path, [row])[0].row.scenario()
    assert scenario.attention_kernel is scenario.graphs is scenario.gradient_bytes is None
    assert (scenario.fused, scenario.overlap_tensor) == (False, True)
    assert (scenario.tensor_parallel, scenario.pipeline_parallel, scenario.sharding) == (2, 1, "optimizer")


def test_a_row_that_no_scenario_can_hold_says_why(tmp_path):
    path = tmp_path / "rows.csv"
    wide = {**BLANK, "gpu": "h100-sxm", "tensor_parallel": "100000"}
    path.write_text(",".join(wide) + "\n" + ",".join(wide.values()) + "\n", encoding="utf-8")
    rows, skipped = accuracy.read(path, CATALOG)
    assert rows == []
    assert "tensor_parallel" in skipped[0]["reason"]
