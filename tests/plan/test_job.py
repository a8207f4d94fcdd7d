"""The training job of a plan: from catalogue and scenario to the step, its memory and what would help."""

from dataclasses import fields

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.formulas import transformer
from app.formulas.training import arguments
from app.formulas.training.exchanges import Exchange, Exchanges, LayerExchanges, StepExchanges
from app.plan.band import fold
from app.plan.cluster import look_up
from app.plan.communication import of_scenario
from app.plan.job import breakdown, calibration, inputs, job
from app.plan.scenario import Scenario, SoftwareRequest
from app.units import percent

CATALOG = load_catalog()


def draft(**asked) -> job.Job:
    scenario = Scenario(**asked)
    cluster = look_up(scenario, CATALOG)
    return job.plan_job(cluster, of_scenario(scenario, CATALOG), inputs.JobRequest.of(scenario, CATALOG), CATALOG)


DEFAULT = draft()


def test_the_default_run_takes_about_six_n_d_over_the_rate():
    # 6 · 70.6e9 · 15e12 FLOP (and the attention) on 1,024 H100 at 989 TFLOP/s: 72 days at full rate.
    days = DEFAULT.training.time_to_train.typical / 86400
    used = DEFAULT.training.mfu.typical
    assert 0.35 < used < 0.6
    flops = float(transformer.training_flops(DEFAULT.setup.inputs.shape, 8192))
    assert days * DEFAULT.training.availability == pytest.approx(flops * 15e12 / (1024 * 989e12 * used) / 86400)
    assert 6 * 70.6e9 < flops < 1.2 * 6 * 70.6e9


def test_tokens_a_second_times_time_are_the_tokens():
    rate, time = DEFAULT.training.tokens_per_second.typical, DEFAULT.training.time_to_train.typical
    assert rate * time * DEFAULT.training.availability == pytest.approx(15e12)
    assert DEFAULT.training.steps * 2048 * 8192 == pytest.approx(15e12)


def test_parts_add_up_to_the_step():
    part, memory = fold((DEFAULT.training, DEFAULT.memory))
    assert sum(one.time.typical for one in part.parts) == pytest.approx(part.step_time.typical)
    assert sum(one.size.typical for one in memory.parts) == pytest.approx(memory.total.typical)
    assert memory.headroom.typical == pytest.approx(memory.capacity.typical - memory.total.typical)
    assert memory.fits
    for one in part.parts:
        assert one.time.low <= one.time.typical <= one.time.high


def test_the_chosen_parallelism_given_back_is_the_same_plan():
    chosen = DEFAULT.training.parallelism
    given = {name: getattr(chosen, name) for name in Scenario.model_fields if hasattr(chosen, name)}
    again = draft(**given)
    assert again.training.parallelism == chosen
    assert again.training.step_time.typical == pytest.approx(DEFAULT.training.step_time.typical, rel=1e-12)
    assert again.memory.total.typical == pytest.approx(DEFAULT.memory.total.typical, rel=1e-12)


def test_the_typical_of_the_draws_is_the_searchs_number():
    cloud = job.configurations(DEFAULT)
    assert cloud[0][0] == pytest.approx(DEFAULT.training.step_time.typical, rel=1e-12)
    assert cloud[0][1] == pytest.approx(DEFAULT.memory.total.typical, rel=1e-12)
    assert all(other.step_time >= cloud[0][0] for other in job.alternatives(DEFAULT))


def test_doubling_a_resource_never_costs_time():
    gains = [one.gain for one in DEFAULT.bottleneck.what_if]
    assert all(gain >= -1e-12 for gain in gains)
    assert DEFAULT.bottleneck.resource == breakdown.RESOURCES[int(np.argmax(gains))]
    assert 0 < DEFAULT.bottleneck.share < 1


def test_one_gpu_has_no_communication():
    made = draft(gpus=1, model="qwen-3-0.6b", global_batch=16)
    assert not {part.resource for part in made.training.parts} & {"scale_up", "scale_out", "bubble"}
    assert [one.gain for one in made.bottleneck.what_if][2:4] == [0, 0]


def test_the_ideal_profile_is_never_slower():
    fixed = {
        "tensor_parallel": 8,
        "pipeline_parallel": 4,
        "micro_batch": 1,
        "recompute": "none",
        "sharding": "optimizer",
    }
    ideal, real = (draft(profile=name, **fixed).training.step_time.typical for name in ("ideal", "calibrated"))
    assert ideal <= real


def test_a_model_that_does_not_fit_is_a_finding_and_no_number():
    made = draft(gpus=8, model="llama-3-405b")
    assert made.training.parallelism is None
    assert made.memory.fits is False
    assert [finding.code for finding in made.findings] == ["does-not-fit"]
    training, memory = fold((made.training, made.memory))
    assert training.step_time is None
    assert memory.total.typical > memory.capacity.typical


@pytest.mark.parametrize(
    "asked",
    [
        {"tensor_parallel": 3},
        {"pipeline_parallel": 1024, "model": "llama-3-8b"},
        {"global_batch": 1, "tensor_parallel": 1, "pipeline_parallel": 1},
        {"gpus": 1021, "global_batch": 3},
    ],
)
def test_what_does_not_divide_is_a_finding(asked):
    made = draft(**asked)
    assert made.training.parallelism is None
    assert made.findings[0].severity == "error"
    assert np.isnan(made.training.time_to_train.typical)


def test_a_precision_the_gpu_lacks_runs_wider():
    made = draft(gpu="a100-sxm", precision="fp8")
    assert made.findings[0].code == "precision-not-in-hardware"
    plain = draft(gpu="a100-sxm", precision="bf16")
    assert made.training.step_time.typical == pytest.approx(plain.training.step_time.typical)


@pytest.mark.parametrize("gpu", list(CATALOG.gpus))
def test_every_gpu_trains_something(gpu: str):
    made = draft(gpu=gpu, gpus=64, model="llama-3-8b", sequence_length=2048, global_batch=512)
    assert made.training.parallelism is not None
    assert 0.05 < made.training.mfu.typical < 1
    training = made.training
    for draws in (training.step_time, training.mfu, training.time_to_train, made.memory.total, made.memory.headroom):
        assert np.all(np.isfinite(draws.values))


@pytest.mark.parametrize("model", list(CATALOG.models))
def test_every_model_trains_somewhere(model: str):
    made = draft(gpu="gb200", model=model, sequence_length=2048, global_batch=4096, gpus=2048)
    assert made.training.parallelism is not None
    assert 0.005 < made.training.mfu.typical < 1


@pytest.mark.parametrize("stack", [key.removeprefix("stack-") for key in CATALOG.training if key.startswith("stack-")])
def test_no_stack_beats_the_tuned_one(stack: str):
    fixed = {
        "tensor_parallel": 4, "pipeline_parallel": 4, "micro_batch": 1, "recompute": "none", "gpus": 256,
        "gradient_bytes": 4,
    }  # fmt: skip
    assert draft(stack=stack, **fixed).training.step_time.typical >= draft(**fixed).training.step_time.typical


def test_overlap_is_an_input():
    fixed = {"tensor_parallel": 8, "pipeline_parallel": 4, "micro_batch": 1, "gpus": 256}
    hidden = draft(**fixed).training.step_time.typical
    for name in ("overlap_tensor", "overlap_data", "overlap_pipeline"):
        assert draft(**fixed, **{name: False}).training.step_time.typical > hidden


def test_availability_comes_from_failures_unless_given():
    assert draft(availability=0.9).training.availability == 0.9
    none = draft(failure_rate=0)
    assert none.training.availability == 1
    # 1,024 GPUs, one failure each 50,000 hours: 0.02 an hour; ten minutes to restart.
    asked = {
        "failure_rate": "2e-5 /h",
        "checkpoint_time": "60 s",
        "restart_time": "10 min",
        "checkpoint_interval": "1 h",
    }
    rate = 1024 * 2e-5 / 3600
    lost = np.exp(rate * 600) * (np.exp(rate * 3660) - 1)
    assert draft(**asked).training.availability == pytest.approx(rate * 3600 / lost)
    assert draft(**asked).training.availability == pytest.approx(1 - 60 / 3600 - rate * (1800 + 600), abs=1e-3)


def test_a_shape_of_ones_own():
    made = draft(layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=14336, vocabulary=128256, gpus=64)
    assert made.training.parameters == pytest.approx(8.03e9, rel=1e-3)
    same = draft(model="llama-3-8b", gpus=64)
    assert made.training.step_time.typical == pytest.approx(same.training.step_time.typical)
    assert made.shape_fields["head_dim"] == 128


def test_names_of_stacks_as_people_write_them():
    names = {
        "Megatron-Bridge": "nemo",
        "torchtitan": "fsdp-torchtitan",
        "Megatron-DeepSpeed": "megatron-deepspeed",
        "pytorch-fsdp": "fsdp",
        "Primus": "megatron-lm",
        "something new": "other",
        "hand-written": "hand-written",
        "": "tuned",
    }
    assert {name: calibration.stack_key(CATALOG, name) for name in names} == names
    assert calibration.stack_key(CATALOG, "megatron-lm", 2021.3) == "megatron-lm-2021"
    assert calibration.stack_key(CATALOG, "nemo", 2024.5) == "nemo-2024"


def test_every_constant_is_read():
    read = {used.key.split(".", 1)[1] for used in DEFAULT.setup.inputs.used if used.key.startswith("training.")}
    for group in ("attention", "elementwise", "communication", "experts", "host", "step"):
        missing = {f"{group}.{name}" for name in CATALOG.training[group]} - read
        assert missing <= {"step.zero_bubble", "experts.imbalance"}
    assert {e.name for e in fields(arguments.Calibration)} >= {"linear", "attention", "grouped"}


def test_a_large_cluster_is_told_what_spares_and_quick_checkpoints_leave():
    made = draft(gpus=65536, model="llama-3-405b")
    said = next(finding for finding in made.findings if finding.code == "failures-cost-time")
    assert 0 < made.training.availability < 0.9
    assert "410 spare nodes" in said.suggestion  # 5 % of 8,192, rounded up
    after = draft(gpus=65536, model="llama-3-405b", **said.changes)
    assert f"{percent(after.training.availability)} of it makes progress" in said.suggestion
    assert after.training.availability > made.training.availability
    assert "failures-cost-time" not in [finding.code for finding in draft(gpus=1024).findings]
    assert "failures-cost-time" not in [finding.code for finding in draft(gpus=65536, availability=0.5).findings]


@pytest.mark.parametrize(
    "typed",
    [
        {"checkpoint_interval": "8 h"},
        {"checkpoint_interval": "8 h", "restart_time": "1 h", "checkpoint_time": "2 min"},
        {"checkpoint_time": "10 min", "spare_nodes": 3},
        {"checkpoint_interval": "2 min", "failure_rate": "1e-4 /h"},
    ],
)
def test_what_would_be_left_of_failures_is_what_the_changes_leave(typed):
    """Whatever is typed: blank is the interval that loses least, sqrt(2 · checkpoint time / failure rate)."""
    made = draft(gpus=16384, **typed)
    said = next(finding for finding in made.findings if finding.code == "failures-cost-time")
    after = draft(**{"gpus": 16384, **typed, **said.changes})
    assert f"{percent(after.training.availability)} of it makes progress" in said.suggestion
    assert after.training.availability > made.training.availability
    assert ("as often as loses least" in said.suggestion) == ("checkpoint_interval" in typed)


@pytest.mark.parametrize("gpus", [65_536, 131_072, 262_144])
def test_the_largest_clusters_make_progress_all_the_same(gpus: int):
    made = draft(gpus=gpus, model="llama-3-405b")
    assert 0 < made.training.availability < 1
    assert np.all(made.training.time_to_train.values > 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rate", ["1 /h", "1 /s"])
def test_a_cluster_that_only_restarts_is_a_finding(rate: str):
    made = draft(failure_rate=rate, restart_time="1 h", gpus=64)
    assert "no-progress" in [finding.code for finding in made.findings]
    assert np.isnan(made.training.time_to_train.typical)
    assert np.isfinite(made.training.step_time.typical)


def test_a_stack_without_sequence_parallelism_is_planned_without():
    made = draft(stack="megatron-lm-2021", gpu="a100-sxm", model="gpt-3-175b", sequence_length=2048)
    assert made.training.parallelism.sequence_parallel is False


def test_gpus_of_a_measured_architecture_have_the_narrower_error():
    # Ampere's constants rest on published step times, Rubin's do not.
    table = {name: entry.typical for name, entry in CATALOG.training["residual"].items()}
    asked = SoftwareRequest(stack="nemo")
    for gpu, further in (("a100-sxm", ()), ("gb300", ("other_card",)), ("rubin", ("other_hardware",))):
        parts = calibration.widths(CATALOG, CATALOG.gpus[gpu], False, asked)
        assert [part.name for part in parts] == ["dense", *further]
        wanted = sum(table[name] ** 2 for name in ("dense", *further)) ** 0.5
        assert calibration.residual(parts) == pytest.approx(wanted)


def test_the_class_of_a_dense_range_is_that_of_who_makes_the_stack():
    # MaxText uses the vendor's attention kernel and is not the vendor's.
    kinds = {"nemo": "dense", "megatron-lm-2022": "dense", "maxtext": "open", "fsdp-torchtitan": "open"}
    for stack, kind in kinds.items():
        parts = calibration.widths(CATALOG, CATALOG.gpus["h100-sxm"], False, SoftwareRequest(stack=stack))
        assert [part.name for part in parts] == [kind]


def test_experts_with_biases_run_eager_whatever_the_release():
    def fused(model: str, **asked: object) -> float:
        made = draft(gpu="gb200", gpus=64, model=model, stack="nemo-2026", **asked)
        return float(made.setup.inputs.software.fused)

    assert fused("gpt-oss-120b") == fused("gpt-oss-120b", precision="mxfp8") == 0
    assert fused("qwen-3-30b-a3b") == fused("gpt-3-175b") == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"stack": "nemo", "routing": "balanced"}, ["experts"]),
        ({"stack": "nemo", "routing": "dropped"}, ["experts"]),
        ({"stack": "nemo"}, ["experts", "natural"]),
        ({"routing": "balanced"}, ["experts", "other_stack"]),
        ({"stack": "nemo", "regime": "recipe"}, ["untuned_experts"]),
    ],
)
def test_what_the_range_of_a_mixture_of_experts_rests_on(asked: dict, expected: list[str]):
    made = draft(**MIXTURE, **asked)
    assert [part.name for part in made.training.range_rests_on] == [*expected, "layout"]
    assert made.training.step_time.residual == pytest.approx(
        sum(part.half_width**2 for part in made.training.range_rests_on) ** 0.5
    )


def test_one_node_needs_no_network_card():
    asked = {"gpus": 8, "model": "llama-3-8b", "tensor_parallel": 4, "sharding": "parameters"}
    with_, without = draft(**asked), draft(**asked, nics_per_node=0)
    assert without.training.step_time.typical == pytest.approx(with_.training.step_time.typical)


WHOLE = {
    "gpus": 64, "model": "mixtral-8x7b", "sequence_length": 4096, "global_batch": 256, "tensor_parallel": 2,
    "pipeline_parallel": 4, "virtual_pipeline": 1, "context_parallel": 1, "expert_parallel": 8, "micro_batch": 1,
    "sharding": "optimizer", "recompute": "none", "sequence_parallel": True,
}  # fmt: skip


def step(**asked) -> float:
    return draft(**(WHOLE | asked)).training.step_time.typical


def test_a_configuration_given_whole_that_does_not_fit_is_timed_and_not_run():
    made = draft(**(WHOLE | {"gpus": 8, "micro_batch": 16, "pipeline_parallel": 1, "expert_parallel": 1}))
    assert made.memory.fits is False
    assert not made.runs
    assert made.training.step_time.typical > 0
    assert made.training.parallelism.micro_batch == 16
    assert sum(part.time.typical for part in made.training.parts) == pytest.approx(made.training.step_time.typical)
    assert np.isnan(made.training.time_to_train.typical)
    assert made.training.feasible == 0
    assert job.alternatives(made) == job.configurations(made) == ()
    assert "does-not-fit" in [finding.code for finding in made.findings]


def test_experts_are_cut_by_tensor_parallelism_in_software_before_spring_2025_unless_given():
    def cut(**asked) -> int:
        return draft(**(WHOLE | asked)).training.parallelism.expert_tensor_parallel

    assert cut() == cut(software_date=2025.5) == 1
    assert cut(software_date=2024.5) == cut(stack="nemo-2024") == 2
    assert cut(software_date=2024.5, expert_tensor_parallel=1) == 1
    assert step(expert_tensor_parallel=2) > step(expert_tensor_parallel=1)


def test_software_grows_quicker_with_its_years():
    assert step(gpu="b200-sxm", software_date=2025.0) > step(gpu="b200-sxm", software_date=2026.0)
    assert step(software_date=2026.6) == pytest.approx(step(), rel=1e-12)


def test_some_layers_recomputed_take_time_and_memory_between_none_and_all():
    made = [draft(**(WHOLE | {"recompute": "full", "recompute_layers": count})) for count in (0, 8, 32)]
    times = [one.training.step_time.typical for one in made]
    sizes = [one.memory.total.typical for one in made]
    assert times == sorted(times)
    assert sizes == sorted(sizes, reverse=True)
    assert times[0] == step()
    assert times[2] == step(recompute="full")
    assert [one.training.parallelism.recompute_layers for one in made] == [None, 8, None]
    assert draft(**(WHOLE | {"recompute": None, "recompute_layers": 8})).training.parallelism.recompute == "full"


@pytest.mark.parametrize(
    ("slow", "quick"),
    [
        ({"attention_kernel": "unfused"}, {"attention_kernel": "flash"}),
        ({"attention_kernel": "flash"}, {"attention_kernel": "te-fused"}),
        ({"fused": False}, {"fused": True}),
        ({"graphs": "none"}, {"graphs": "full"}),
        ({"overlap_expert": False}, {"overlap_expert": True}),
        ({"gradient_bytes": 4, "overlap_data": False}, {"gradient_bytes": 2, "overlap_data": False}),
    ],
)
def test_what_the_software_does_is_an_input(slow: dict[str, object], quick: dict[str, object]):
    assert step(**slow) > step(**quick)


def test_the_experts_exchange_hides_behind_alternating_chunks_unless_the_stack_is_tuned():
    def exchange(**asked) -> float:
        parts = draft(**(WHOLE | asked)).training.parts
        return next(part.time.typical for part in parts if part.name == "expert_parallel")

    assert exchange(stack="nemo") == exchange(stack="nemo", overlap_expert=False)
    assert exchange(stack="nemo", virtual_pipeline=2) < exchange(stack="nemo")
    assert exchange(virtual_pipeline=2) == pytest.approx(exchange())


def test_the_search_times_alternating_chunks_as_a_plan_of_its_winner_does():
    asked = {name: value for name, value in WHOLE.items() if name not in ("virtual_pipeline", "micro_batch")}
    made = draft(**asked, stack="nemo")
    assert job.configurations(made)[0][0] == pytest.approx(made.training.step_time.typical, rel=1e-12)
    assert made.search.time[0] == pytest.approx(made.training.step_time.typical, rel=1e-12)


LAID = {**WHOLE, "model": "llama-3-8b", "expert_parallel": 1}


def test_an_uneven_pipeline_is_as_slow_as_its_deepest_stage():
    # Llama 3 8B, 32 layers on 4 stages: 8 | 8 | 8 | 8 and the head, against 9 | 9 | 8 | 6 and 11 | 7 | 7 | 7.
    def step(layout: str | None) -> float:
        made = draft(**LAID, layout=layout)
        assert "layout-does-not-match" not in [finding.code for finding in made.findings]
        return made.training.step_time.typical

    eased, even, deep = step("Et*9|t*9|t*8|t*6L"), step(None), step("Et*11|t*7|t*7|t*7L")
    assert eased < even < deep
    assert deep / eased == pytest.approx(11 / 9, rel=0.05)
    memory = [draft(**LAID, layout=text).memory.total.typical for text in ("Et*8|(t*8|)*2t*8L", "Et*11|(t*7|)*2t*7L")]
    assert memory[0] == draft(**LAID).memory.total.typical < memory[1]


def test_even_stages_with_the_whole_head_on_the_last_are_no_quicker_than_even_stages():
    laid = draft(**LAID, layout="Et*8|(t*8|)*2t*8L").training.step_time.typical
    assert laid >= draft(**LAID).training.step_time.typical


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("Et*8|(t*8|)*2t*7L", "31 layers"),
        ("Et*16|t*16L", "2 chunks"),
        ("t*8E|", "loss"),
        ("((t*99999)*99999)", "model"),
    ],
)
def test_a_layout_that_does_not_fit_is_said_and_changes_nothing(layout: str, said: str):
    made, plain = draft(**LAID, layout=layout), draft(**LAID)
    finding = next(finding for finding in made.findings if finding.code == "layout-does-not-match")
    assert said in finding.message
    assert made.training.step_time.typical == plain.training.step_time.typical


def test_a_layout_leaves_the_degrees_that_it_divides_into():
    blank = {**LAID, "pipeline_parallel": None, "virtual_pipeline": None}
    chosen = draft(**blank, layout="Et*4|(t*4|)*6t*4L").training.parallelism
    assert chosen.pipeline_parallel * chosen.virtual_pipeline == 8


def test_what_is_offloaded_leaves_the_memory_and_shows_in_the_step_over_pcie():
    plain, made = draft(**WHOLE), draft(**WHOLE, offload="activations+optimizer")
    parts, kept = ({part.name: part.size.typical for part in each.memory.parts} for each in (plain, made))
    assert kept["optimizer"] == 0 < parts["optimizer"]
    assert 0 < kept["activations"] < parts["activations"]
    assert (kept["weights"], kept["gradients"]) == (parts["weights"], parts["gradients"])
    times = {part.name: part.time.typical for part in made.training.parts}
    assert sum(times.values()) == pytest.approx(made.training.step_time.typical)
    assert times["optimizer"] > {part.name: part.time.typical for part in plain.training.parts}["optimizer"]
    assert draft(**WHOLE, offload="none").training.step_time.typical == plain.training.step_time.typical


def test_offloading_hides_over_a_link_that_is_quick_enough():
    # The same GPU in 4 bits: its activations hide behind a layer over NVLink-C2C, and do not over PCIe 5.
    def shown(gpu: str) -> float:
        asked = {**LONG, "sequence_length": 8192, "context_parallel": 1, "recompute": "none", "precision": "nvfp4"}
        step = draft(**asked, gpu=gpu, offload="activations").training
        return sum(part.time.typical for part in step.parts if part.name == "offload") / step.step_time.typical

    assert shown("gb200") == 0
    assert shown("b200-sxm") > 0.1


def test_llama_3_405b_at_8k_recomputes_no_whole_layer():
    # As published: 16,384 H100, tensor 8, pipeline 16, 16 M tokens a step, no full recomputation.
    asked = {"gpus": 16384, "model": "llama-3-405b", "sequence_length": 8192, "global_batch": 2048}
    for given in ({}, {"tensor_parallel": 8, "pipeline_parallel": 16, "context_parallel": 1}):
        found = draft(**asked, **given).training.parallelism
        assert found is not None
        assert found.recompute in ("none", "selective")


@pytest.mark.parametrize(("stack", "bytes_"), [("nemo", 2.0), ("megatron-lm", 4.0), ("fsdp-torchtitan", 4.0)])
def test_bytes_of_a_gradient_are_the_stacks_unless_given(stack: str, bytes_: float):
    assert draft(stack=stack).setup.inputs.job.gradient_bytes == bytes_
    assert draft(stack=stack, gradient_bytes=3).setup.inputs.job.gradient_bytes == 3


@pytest.mark.parametrize(
    ("gpu", "precision", "expected"),
    [
        ("h100-sxm", "fp8", 2),  # 8-bit weights and their transpose
        ("b200-sxm", "fp8", 1),  # either operand transposed
        ("b200-sxm", "mxfp8", 2),  # rows and columns scaled apart
        ("b200-sxm", "bf16", 2),
    ],
)
def test_bytes_of_a_weight(gpu: str, precision: str, expected: float):
    assert draft(gpu=gpu, precision=precision, stack="nemo").setup.inputs.job.weight_bytes == expected


MIXTURE = {
    "model": "mixtral-8x7b", "gpus": 64, "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1,
    "expert_parallel": 8, "micro_batch": 1, "virtual_pipeline": 1, "sharding": "optimizer", "recompute": "none",
    "sequence_parallel": False, "scale_up_domain": 2,
}  # fmt: skip


def exchanged(**asked) -> float:
    parts = {part.name: part.time.typical for part in draft(**MIXTURE, **asked).training.parts}
    return parts["expert_parallel"]


def test_routing_decides_how_much_the_busiest_rank_has_to_do():
    # 1.25 times the average under natural routing; even where it is forced, or tokens over a capacity are dropped.
    times = {name: draft(**MIXTURE, routing=name).training.step_time.typical for name in ("natural", "dropped")}
    assert draft(**MIXTURE).training.step_time.typical == times["natural"] > times["dropped"]
    assert draft(**MIXTURE, routing="balanced").training.step_time.typical == times["dropped"]
    assert exchanged(routing="natural") == pytest.approx(1.25 * exchanged(routing="balanced"), rel=0.02)


def test_the_range_rests_on_the_layout_too_whether_it_was_searched_or_is_asked_for_again():
    chosen, given = draft(**{**MIXTURE, "micro_batch": None}), draft(**MIXTURE)
    rests_on = {part.name: part.half_width for part in chosen.training.range_rests_on}
    assert rests_on == {part.name: part.half_width for part in given.training.range_rests_on}
    assert rests_on["layout"] == CATALOG.training["residual"]["searched"].typical
    assert chosen.training.step_time.residual == pytest.approx(np.sqrt(sum(width**2 for width in rests_on.values())))


def test_a_dispatcher_that_sends_once_to_each_domain_sends_less():
    # 2 of 8 experts in 4 domains: 2·¾ copies leave, or 4·(1 − (¾)²)·¾ = 1.3125 once for each domain.
    plain, once = exchanged(dispatcher="all-to-all"), exchanged(dispatcher="deepep")
    assert once == exchanged(dispatcher="hybridep") == exchanged()
    assert plain / once == pytest.approx(1.5 / 1.3125, rel=0.01)
    assert exchanged(software_date=2024.5, overlap_expert=True) == pytest.approx(
        exchanged(software_date=2024.5, overlap_expert=True, dispatcher="all-to-all")
    )


def test_tokens_in_eight_bits_send_three_quarters_and_gathered_ones_all():
    # There a byte, back two: 3/4. Gathered, 3 other domains get each token once, in place of 1.5 copies.
    plain = exchanged(dispatcher="all-to-all")
    assert exchanged(dispatcher="all-to-all", dispatch_precision="fp8") / plain == pytest.approx(0.75, rel=0.03)
    assert exchanged(dispatcher="all-gather") / plain == pytest.approx(3 / 1.5, rel=0.05)


LONG = {
    "gpus": 64, "model": "llama-3-8b", "sequence_length": 131072, "global_batch": 32, "tensor_parallel": 2,
    "pipeline_parallel": 1, "virtual_pipeline": 1, "context_parallel": 4, "expert_parallel": 1, "micro_batch": 1,
    "sharding": "optimizer", "recompute": "full", "sequence_parallel": True,
}  # fmt: skip


def test_what_context_parallelism_exchanges():
    def context(exchange: str | None) -> float:
        parts = {part.name: part for part in draft(**LONG, context_exchange=exchange).training.parts}
        return parts["context_parallel"].time.typical

    # 8 of 32 heads have keys: a ring hides most of 3 + 1 rounds, a gather nothing of them. Heads there and back, 2 + 1
    # times ¾ of (2·32 + 2·8)·128 values, where a ring passes 3 times 2·8·128.
    ring, gathered, heads = (context(name) for name in ("ring", "all-gather", "all-to-all"))
    assert context(None) == ring < gathered
    assert heads / gathered == pytest.approx(3 * 0.75 * 80 / (4 * 3 * 16), rel=0.15)


def test_one_piece_of_the_sequence_each_leaves_the_last_rank_most_attention():
    # 2 - 1/4 of the mean, in attention alone.
    def attention(**asked: object) -> float:
        return {part.name: part.time.typical for part in draft(**LONG, **asked).training.parts}["attention"]

    assert attention(causal_balance=False) == pytest.approx(1.75 * attention())
    assert attention(causal_balance=False, attention="full") == attention(attention="full")


def test_deepseek_v3_as_published_repeats_norms_and_what_widens_latents_alone():
    # Its report, section 3.2.3: norms and up-projections are repeated, no whole layers; the step then is 316,000 s a
    # trillion tokens (180,000 H800 hours on 2,048) over 15,895 steps, 20 s.
    published = dict(CATALOG.presets["deepseek-v3-run"].scenario)
    made = draft(**published, moment_bytes=2)
    assert made.training.parallelism.schedule == "dualpipe"
    assert made.training.parallelism.recompute == "selective"
    assert made.runs
    assert fold(made.training).step_time.low < 19.9 < fold(made.training).step_time.high


def test_moments_of_two_bytes_take_a_third_of_the_optimizer_state():
    wide, narrow = (draft(**LAID, moment_bytes=width).memory for width in (4, 2))
    state = [next(part for part in memory.parts if part.name == "optimizer").size.typical for memory in (wide, narrow)]
    assert state[1] / state[0] == pytest.approx(8 / 12)  # master copy 4, and 2 · 4 or 2 · 2


@pytest.mark.parametrize(
    ("stack", "said"), [("megatron-lm-2023", True), ("other", True), ("nemo", False), (None, False)]
)
def test_a_stack_that_nobody_measured_is_said_to_be_one(stack: str | None, said: bool):
    assert ("stack-not-measured" in [finding.code for finding in draft(**LAID, stack=stack).findings]) is said


def test_dualpipe_has_a_third_of_the_bubble_and_two_copies_of_the_weights():
    once, both = draft(**LAID, schedule="1f1b"), draft(**LAID, schedule="dualpipe")
    assert both.training.parallelism.schedule == "dualpipe"
    bubbles = [{part.name: part.time.typical for part in made.training.parts}["bubble"] for made in (once, both)]
    assert bubbles[1] / bubbles[0] == pytest.approx((4 / 2 - 1) * 2 / 3 / (4 - 1))  # 0.22; towards a third
    sizes = [{part.name: part.size.typical for part in made.memory.parts} for made in (once, both)]
    for name, times in {"weights": 2, "gradients": 2, "optimizer": 1, "activations": 5 / 4}.items():
        assert sizes[1][name] == pytest.approx(times * sizes[0][name])
    alone, two = (draft(**(LAID | {"sharding": "none"}), schedule=schedule).memory for schedule in ("1f1b", "dualpipe"))
    state = [next(part for part in memory.parts if part.name == "optimizer").size.typical for memory in (alone, two)]
    assert state[1] == pytest.approx(2 * state[0])
    sent = [next(s for s in job.groups(made) if s.group == "data_parallel") for made in (once, both)]
    assert sent[1].sent == pytest.approx(2 * sent[0].sent)
    assert sent[1].time == pytest.approx(2 * sent[0].time, rel=0.01)
    odd = draft(**{**LAID, "pipeline_parallel": None, "gpus": 96}, schedule="dualpipe").training.parallelism
    assert odd.pipeline_parallel == 1 or odd.pipeline_parallel % 2 == 0


def test_a_mixture_of_experts_that_nobody_tuned_waits_for_its_launches():
    tuned, recipe = (draft(**MIXTURE, regime=name).training for name in ("tuned", "recipe"))
    assert recipe.step_time.typical > tuned.step_time.typical
    dense = {**WHOLE, "model": "llama-3-8b", "expert_parallel": 1}
    same = [draft(**dense, regime=name).training.step_time.typical for name in ("tuned", "recipe")]
    assert same[0] == same[1]


def test_experts_are_fused_by_the_vendors_stacks_in_8_bit_on_blackwell_since_spring_2026():
    asked = {**MIXTURE, "scale_up_domain": None, "gpu": "b200-sxm", "precision": "mxfp8", "stack": "nemo-2026"}
    made = draft(**asked, software_date=2026.5)
    assert made.setup.inputs.software.fused_experts == 1
    for other in ({"software_date": 2026.1}, {"precision": "bf16"}, {"gpu": "h100-sxm", "precision": "fp8"}):
        assert draft(**{"software_date": 2026.5, **asked, **other}).setup.inputs.software.fused_experts == 0


def test_a_preset_of_other_depth_keeps_its_leading_dense_layers():
    shape = draft(model="deepseek-v3", layers=16, gpus=256).setup.inputs.shape
    assert (shape.layers, shape.dense_layers) == (16, 3)


def findings_of(**asked) -> dict[str, object]:
    return {finding.code: finding for finding in draft(**asked).findings}


def test_the_cluster_that_is_called_enough_is_the_first_doubling_of_whole_nodes_on_which_the_job_fits():
    for gpus in (1, 2, 7, 8, 16, 32, 64):  # whole nodes of 8, by 16 to by 2
        finding = findings_of(gpus=gpus, model="llama-3-405b")["does-not-fit"]
        assert dict(finding.changes) == {"gpus": 128}
    assert dict(findings_of(gpus=7)["does-not-fit"].changes) == {"gpus": 16}
    assert dict(findings_of(gpus=7, gpu="gb200")["does-not-fit"].changes) == {"gpus": 72}  # a whole rack
    assert dict(findings_of(gpus=1, gpu="l4", model="kimi-k2")["does-not-fit"].changes) == {}
    assert draft(gpus=128, model="llama-3-405b").runs
    assert not draft(gpus=64, model="llama-3-405b").runs
    assert finding.suggestion.startswith("128 GPUs are enough")
    pinned = {"tensor_parallel": 1, "pipeline_parallel": 1, "expert_parallel": 1, "context_parallel": 1}
    alone = findings_of(gpus=8, model="llama-3-405b", sharding="none", **pinned)["does-not-fit"]
    assert dict(alone.changes) == {}
    assert alone.suggestion.startswith("Leave the parallelism blank")


@pytest.mark.parametrize(
    ("asked", "says", "changes"),
    [
        ({"gpus": 60, "tensor_parallel": 8}, "8 × 1 × 1 GPUs of a replica do not divide 60 GPUs", {}),
        ({"gpus": 64, "tensor_parallel": 2, "pipeline_parallel": 3}, "2 × 3 × 1 GPUs", {}),
        (
            {"gpus": 64, "pipeline_parallel": 64, "virtual_pipeline": 1, "global_batch": 64},
            "64 pipeline stages are more than the model's 32 layers",
            {},
        ),
        (
            {
                "gpus": 64,
                "tensor_parallel": 1,
                "pipeline_parallel": 1,
                "context_parallel": 1,
                "micro_batch": 4,
                "global_batch": 128,
            },
            "64 replicas of 4 sequences need more than the global batch of 128",
            {},
        ),
        (
            {"gpus": 64, "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "global_batch": 100},
            "No parallelism divides 64 GPUs, a global batch of 100",
            {"global_batch": 128},
        ),
    ],
)
def test_what_does_not_divide_is_told_by_the_first_rule_it_breaks(asked, says, changes):
    finding = findings_of(model="llama-3-8b", **asked)["does-not-divide"]
    assert says in finding.message
    assert dict(finding.changes) == changes
    if changes:
        assert "does-not-divide" not in findings_of(model="llama-3-8b", **asked | changes)


IMPOSSIBLE = [
    ({"gpus": 1024, "pipeline_parallel": 128}, "128 pipeline stages are more than the model's 32 layers"),
    (
        {"gpus": 1024, "pipeline_parallel": 16, "virtual_pipeline": 4},
        "16 pipeline stages of 4 chunks are more than the model's 32 layers",
    ),
    ({"pipeline_parallel": 1, "virtual_pipeline": 2}, "2 chunks of a stage take turns among stages, and there is one"),
    ({"gpus": 24, "pipeline_parallel": 3, "schedule": "dualpipe"}, "which 3 stages do not allow"),
    ({"model": "mixtral-8x7b", "expert_parallel": 16}, "16 ranks of expert parallelism do not divide the model's 8"),
    ({"gpus": 24, "tensor_parallel": 3}, "3 ranks of tensor parallelism do not divide the model's 32 attention heads"),
    ({"context_parallel": 64, "sequence_length": 64}, "64 tokens does not leave two pieces of whole tokens to each"),
    (
        {"tensor_parallel": 4, "context_parallel": 16, "context_exchange": "all-to-all"},
        "4 × 16 ranks do not divide the model's 32",
    ),
    (
        {"tensor_parallel": 8, "pipeline_parallel": 2, "context_parallel": 1, "sharding_group": 3},
        "Groups of 3 that share one copy do not divide 4 replicas",
    ),
    ({"model": "mixtral-8x7b", "experts_per_token": 16}, "A token cannot go to 16 experts of a layer: it has 8"),
    ({"heads": 7}, "7 attention heads do not share 8 key-value heads evenly"),
    ({"kv_heads": 128}, "32 attention heads do not share 128 key-value heads evenly"),
    ({"kv_heads": 7}, "32 attention heads do not share 7 key-value heads evenly"),
]


@pytest.mark.parametrize(("asked", "says"), IMPOSSIBLE)
def test_a_layout_or_a_shape_that_cannot_be_has_no_time(asked, says):
    made = draft(**{"gpus": 64, "model": "llama-3-8b", **asked})
    finding = {finding.code: finding for finding in made.findings}["does-not-divide"]
    assert says in finding.message
    assert finding.suggestion
    assert finding.severity == "error"
    assert made.training.parallelism is None
    assert np.isnan(made.training.time_to_train.typical)


@pytest.mark.parametrize(
    "asked",
    [
        {"tensor_parallel": 16},  # two ranks hold a copy of each of 8 key-value heads
        {"gpus": 68, "pipeline_parallel": 34},  # one stage for the embedding and one for the head
        {"gpus": 24, "pipeline_parallel": 3},  # stages of 10 or 11 layers
        {"context_parallel": 64, "sequence_length": 64, "causal_balance": False},
        {"tensor_parallel": 2, "context_parallel": 16, "context_exchange": "all-to-all"},
        {"model": "mixtral-8x7b", "expert_parallel": 8},
        {"context_parallel": 1, "sequence_length": 4097},
    ],
)
def test_an_uneven_layout_that_can_be_is_timed(asked):
    assert draft(**{"gpus": 64, "model": "llama-3-8b", **asked}).runs


@pytest.mark.parametrize(
    ("asked", "code", "changes"),
    [
        ({"expert_parallel": 8}, "expert-parallel-unused", {"expert_parallel": 1}),
        (
            {"tensor_parallel": 8, "pipeline_parallel": 2, "context_parallel": 1, "sharding_group": 7},
            "sharding-group-too-large",  # 64 / 16 = 4 replicas
            {"sharding_group": 4},
        ),
        ({"recompute_layers": 500}, "recompute-layers-beyond-model", {"recompute_layers": 32}),
    ],
)
def test_what_is_taken_instead_of_what_was_asked_is_said(asked, code, changes):
    base = {"gpus": 64, "model": "llama-3-8b"}
    made, instead = draft(**base, **asked), draft(**base, **asked | changes)
    finding = {finding.code: finding for finding in made.findings}[code]
    assert (finding.severity, dict(finding.changes)) == ("warning", changes)
    assert code not in {finding.code for finding in instead.findings}
    assert made.training.parallelism == instead.training.parallelism
    assert made.training.step_time.typical == pytest.approx(instead.training.step_time.typical, rel=1e-12)


def test_a_precision_that_the_gpu_lacks_runs_in_the_next_wider_one():
    fp8 = findings_of(gpu="a100-sxm", gpus=64, model="llama-3-8b", precision="fp8")["precision-not-in-hardware"]
    assert "in BF16" in fp8.message
    assert dict(fp8.changes) == {"precision": "bf16"}
    fp4 = findings_of(gpus=64, model="llama-3-8b", precision="nvfp4")["precision-not-in-hardware"]
    assert "in FP8" in fp4.message
    assert dict(fp4.changes) == {"precision": "fp8"}
    assert "precision-not-in-hardware" not in findings_of(gpus=64, model="llama-3-8b", precision="fp8")
    assert "precision-not-in-hardware" not in findings_of(
        gpu="b200-sxm", gpus=64, model="llama-3-8b", precision="nvfp4"
    )


@pytest.mark.parametrize(
    ("gpu", "precision", "instead", "choice"),
    [
        ("mi355x", "nvfp4", "MXFP4", None),  # AMD has blocks of 32, NVFP4 has 16; FP8 would be slower
        ("v100-sxm", "bf16", "FP16", "fp16"),
        ("v100-sxm", "fp8", "FP16", "fp16"),
        ("h100-sxm", "mxfp8", "FP8", "fp8"),
        ("mi300x", "nvfp4", "FP8", "fp8"),
    ],
)
def test_a_format_of_other_chips_is_said_and_what_runs_instead(gpu, precision, instead, choice):
    asked = {"gpu": gpu, "gpus": 64, "model": "llama-3-8b"}
    found = findings_of(**asked, precision=precision)["precision-not-in-hardware"]
    assert f"no {precision.upper()} arithmetic; the plan runs the linear layers in {instead}." in found.message
    assert dict(found.changes) == ({"precision": choice} if choice else {})
    assert not choice or "precision-not-in-hardware" not in findings_of(**asked, precision=choice)


@pytest.mark.parametrize(
    ("gpu", "precision"), [("mi355x", "mxfp8"), ("b200-sxm", "mxfp8"), ("gb300", "nvfp4"), ("v100-sxm", "fp16")]
)
def test_a_precision_that_the_gpu_has_goes_without_saying(gpu, precision):
    assert "precision-not-in-hardware" not in findings_of(gpu=gpu, gpus=64, model="llama-3-8b", precision=precision)


def test_tensor_parallelism_across_the_network_is_questioned():
    wide = {"gpus": 64, "model": "llama-3-70b", "tensor_parallel": 16, "pipeline_parallel": 1}
    finding = findings_of(**wide)["tensor-parallel-across-network"]
    assert "over 16 GPUs leaves the scale-up domain of 8" in finding.message
    assert dict(finding.changes) == {"tensor_parallel": 8}
    assert "tensor-parallel-across-network" not in findings_of(**wide | {"tensor_parallel": 8})


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"global_batch": 512},
        {"micro_batch": 1, "context_parallel": 1, "sharding": "optimizer", "recompute": "full"},
    ],
)
def test_tensor_parallelism_inside_the_domain_gains_what_it_is_said_to(given):
    wide = {"gpus": 64, "model": "llama-3-70b", "tensor_parallel": 16, "pipeline_parallel": 1, **given}
    finding = findings_of(**wide)["tensor-parallel-across-network"]
    before, after = (draft(**asked).training.tokens_per_second.typical for asked in (wide, wide | finding.changes))
    assert f"the same GPUs train {percent(after / before - 1)} more" in finding.suggestion


def test_tensor_parallelism_across_the_network_is_not_questioned_where_it_is_quickest():
    """Ten trillion parameters on 24,576 H100: over 16 GPUs a step takes 91.5 s, over 8 98.0 s."""
    large = {"gpus": 24576, "model": "10T"}
    searched, narrow = draft(**large), draft(**large, tensor_parallel=8)
    assert searched.training.parallelism.tensor_parallel == 16
    assert searched.training.step_time.typical < narrow.training.step_time.typical
    for given in ({}, {"tensor_parallel": 16}):
        assert "tensor-parallel-across-network" not in findings_of(**large, **given)


def test_so_is_tensor_parallelism_that_does_not_divide_the_domain():
    """Nine groups of 16 on two racks of 72; eight of them would fit, as nine of 8 do."""
    uneven = {"gpu": "gb200", "gpus": 144, "model": "llama-3-70b", "tensor_parallel": 16, "pipeline_parallel": 1}
    finding = findings_of(**uneven)["tensor-parallel-across-network"]
    assert "the scale-up domain of 72, which holds 4 whole" in finding.message
    assert dict(finding.changes) == {"tensor_parallel": 4}  # the quickest that divides 72
    for fits in ({"tensor_parallel": 8}, {"gpus": 128}):
        assert "tensor-parallel-across-network" not in findings_of(**uneven | fits)


@pytest.mark.parametrize(
    ("gpu", "tensor", "joined", "bus"),
    [("h100-nvl", 8, 2, "PCIe 5"), ("a100-pcie", 4, 2, "PCIe 4"), ("h200-nvl", 8, 4, "PCIe 5")],
)
def test_tensor_parallelism_wider_than_a_bridge_is_questioned(gpu, tensor, joined, bus):
    """Sums of a layer over PCIe are several times as slow as over the bridge of a pair, or of four H200 NVL."""
    wide = {"gpu": gpu, "gpus": 64, "model": "llama-3-70b", "tensor_parallel": tensor}
    finding = findings_of(**wide)["tensor-parallel-beyond-bridge"]
    assert f"over {tensor} GPUs is wider than a bridge, which joins {joined}, and meets over {bus}" in finding.message
    assert finding.changes["tensor_parallel"] in {1, 2, joined}
    before, after = (draft(**asked).training.tokens_per_second.typical for asked in (wide, wide | finding.changes))
    assert f"the same GPUs train {percent(after / before - 1)} more" in finding.suggestion
    assert "tensor-parallel-beyond-bridge" not in findings_of(**wide | finding.changes)


@pytest.mark.parametrize("asked", [{"gpu": "h100-nvl"}, {"gpu": "l40s", "tensor_parallel": 8}, {"tensor_parallel": 8}])
def test_tensor_parallelism_is_not_questioned_where_it_was_searched_or_no_bridge_is(asked):
    assert "tensor-parallel-beyond-bridge" not in findings_of(gpus=64, model="llama-3-8b", **asked)


def test_memory_is_called_tight_where_it_is_fuller_than_a_search_would_fill_it():
    # A configuration given whole may fill all of it; the search leaves a share free.
    for micro_batch in (1, 2, 4, 8):
        made = draft(**(WHOLE | {"micro_batch": micro_batch}))
        share = made.memory.total.typical / made.memory.capacity.typical
        said = {finding.code for finding in made.findings}
        assert ("memory-tight" in said) == (made.setup.budget < share <= 1), micro_batch
        assert ("does-not-fit" in said) == (share > 1), micro_batch


def test_only_hardware_that_was_measured_is_called_calibrated():
    assert "hardware-not-calibrated" in findings_of(gpu="rubin", gpus=64, model="llama-3-8b")
    assert "hardware-not-calibrated" not in findings_of(gpu="a100-sxm", gpus=64, model="llama-3-8b")


def test_replicas_that_share_a_copy_in_each_node_meet_over_the_network():
    """A layer's gather stays in the node and the sum of its gradients does not: twice 31/32 of 2/8 B a parameter."""
    degrees = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "recompute": "full"}
    asked = {"gpus": 256, "model": "llama-3-8b", "global_batch": 512, "sharding": "parameters"} | degrees
    near, far = (
        draft(**asked, micro_batch=1, sharding_group=8, scale_out=network) for network in ("infiniband-ndr", "tcp-100")
    )
    assert far.training.step_time.typical > 2 * near.training.step_time.typical
    (sent,) = job.groups(far)
    held = float(transformer.held_parameters(far.setup.inputs.shape, 1.0, 1.0, 1.0, 1.0, 32.0).dense)
    assert sent.sent == pytest.approx(2 * 2 * 31 / 32 * 2 * held / 8)  # in each of two micro-batches
    searched = draft(**asked, sharding_group=8, scale_out="tcp-100")
    assert float(searched.search.time[0]) == pytest.approx(searched.training.step_time.typical)


@pytest.mark.parametrize("sharding", ["optimizer", "parameters"])
def test_gradients_of_experts_go_to_the_ranks_that_hold_the_same_ones_alone(sharding: str):
    """Of 32 nodes each rank has other experts than its neighbours: theirs leave the node, once for each GPU."""
    asked = {"gpu": "h100-sxm", "model": "qwen-3-30b-a3b", "expert_parallel": 8, "micro_batch": 1, "sharding": sharding}
    degrees = {"tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 1, "recompute": "full"}
    one, many = (draft(gpus=gpus, global_batch=gpus, **asked, **degrees) for gpus in (8, 256))
    held = transformer.held_parameters(many.setup.inputs.shape, 1.0, 1.0, 8.0, 1.0, 48.0)
    sent = {
        gpus: next(s for s in job.groups(made) if s.group == "data_parallel") for gpus, made in ((8, one), (256, many))
    }
    assert sent[8].sent_inside == pytest.approx(6 * held.dense * 7 / 8)  # gradients of 4 bytes and weights of 2
    assert sent[256].sent == pytest.approx(6 * (held.dense / 8 + held.expert) * 31 / 32)
    assert sent[256].sent_inside == pytest.approx(6 * held.dense * 255 / 256)


def test_a_run_that_ends_within_its_first_step_is_said_to():
    """2,048 sequences of 8,192 are 16.8 M tokens; 1 M are 122 sequences."""
    (said,) = [one for one in draft(training_tokens=1e6).findings if one.code == "run-within-a-step"]
    assert "0.06 steps" in said.message
    assert said.suggestion == "Use a global batch of 122 or fewer, or more tokens."
    whole = draft(gpus=8, model="llama-3-8b", training_tokens=1e6, global_batch=64)
    assert "run-within-a-step" not in [one.code for one in whole.findings]
    assert whole.training.steps > 1


def test_weights_cut_over_replicas_stay_gathered_in_a_pipeline() -> None:
    # 4.54 B parameters of a rank, a sixteenth its own: 2 bytes and 4 of its own copy, gradients 4 and 4, Adam 8 for 12.
    # So (4 + 4 - 4)/16 bytes a parameter more than with gradients sharded, 1.1 GB of 70, and never less.
    whole, cut = (
        fold(draft(gpus=256, tensor_parallel=4, pipeline_parallel=4, sharding=sharding).memory)
        for sharding in ("gradients", "parameters")
    )
    held = {part.name: part.size.typical for part in whole.parts}["weights"] / 2
    assert held == pytest.approx(4.54e9, rel=0.01)
    assert cut.total.typical - whole.total.typical == pytest.approx(4 * held / 16)


def test_the_headroom_is_as_uncertain_as_the_memory() -> None:
    memory = fold(DEFAULT.memory)
    for end, other in (("low", "high"), ("high", "low")):
        left = memory.capacity.typical - getattr(memory.total, other)
        assert getattr(memory.headroom, end) == pytest.approx(left, abs=0.02 * memory.total.typical)


@pytest.mark.parametrize(
    "asked",
    [
        # Formulas alone would make the step 5.6 % slower with twice the compute.
        {"gpu": "h20", "gpus": 16384, "scale_out": "efa-100", "model": "deepseek-v2"},
        {
            "gpu": "mi325x", "gpus": 32768, "scale_out": "tcp-100", "topology": "fat-tree", "model": "megatron-310b",
            "global_batch": 2048, "sequence_length": 32768, "management_links": 1,
        },
        {
            "gpu": "mi250x", "gpus": 2048, "scale_out": "tcp-400", "topology": "torus-3d", "model": "megatron-1t",
            "global_batch": 1024, "recompute": "full", "pipeline_parallel": 4, "overlap_pipeline": True,
        },
    ],
    ids=lambda asked: asked["gpu"],
)  # fmt: skip
def test_twice_as_much_of_anything_slows_nothing(asked: dict[str, object]) -> None:
    made = draft(**{"sharding": "gradients"} | asked)
    gains = {one.resource: one.gain for one in made.bottleneck.what_if}
    assert all(gain is not None and gain >= 0 for gain in gains.values())
    assert made.bottleneck.resource == max(gains, key=lambda resource: gains[resource])


def test_traffic_that_leaves_a_server_may_wait_for_its_bus() -> None:
    """Eight L40S behind PCIe 4 with ports as fast as theirs: twice the network saves 0.1 % of a step, twice PCIe 27."""
    degrees = {"tensor_parallel": 4, "pipeline_parallel": 16, "expert_parallel": 256}
    made = draft(gpu="l40s", gpus=4096, model="deepseek-v3", **degrees)
    (experts,) = [part for part in made.training.parts if part.name == "expert_parallel"]
    gains = {one.resource: one.gain for one in made.bottleneck.what_if}
    assert gains["scale_up"] > 100 * gains["scale_out"]
    assert experts.resource == made.bottleneck.resource == "scale_up"


@pytest.mark.parametrize(
    ("with_twice", "crosses", "bound_by"),
    [
        # A bus in a server that all others wait for; ports; the latency of many hops, which is the network's.
        ({"scale_up": 0.5, "scale_out": 1.0, "overhead": 0.9}, 1.0, "scale_up"),
        ({"scale_up": 1.0, "scale_out": 0.5, "overhead": 0.9}, 1.0, "scale_out"),
        ({"scale_up": 0.9, "scale_out": 1.0, "overhead": 0.6}, 1.0, "scale_out"),
        ({"scale_up": 0.9, "scale_out": 1.0, "overhead": 0.6}, 0.0, "scale_up"),
    ],
)
def test_traffic_is_bound_by_the_link_that_saves_most_of_it(
    with_twice: dict[str, float], crosses: float, bound_by: str
) -> None:
    times = np.array([[with_twice.get(resource, 1.0)] for resource in ("", *breakdown.RESOURCES)])
    nothing = Exchange()
    layer = LayerExchanges(tensor=Exchange(times, crosses), context=nothing, expert=nothing)
    assert breakdown.binding_links(Exchanges(layer, StepExchanges()))["tensor_parallel"] == bound_by


def test_attention_that_writes_its_scores_waits_for_memory() -> None:
    """V100 have no fused kernels: scores of 32,768 tokens, read and written, are three quarters of a step."""
    old = draft(gpu="v100-sxm", gpus=256, model="gpt-oss-120b", sequence_length=32768, global_batch=1024)
    gains = {one.resource: one.gain for one in old.bottleneck.what_if}
    assert gains["memory_bandwidth"] > 2 * gains["compute"]
    assert old.bottleneck.resource == "memory_bandwidth"
    for made, bound_by in ((old, "memory_bandwidth"), (DEFAULT, "compute")):
        assert {part.resource for part in made.training.parts if part.name == "attention"} == {bound_by}


def test_on_its_own_network_a_job_takes_as_long_as_planned_and_one_that_does_not_run_no_number() -> None:
    own, roce = Scenario(), Scenario(scale_out="roce-400", tuned=False, topology="fat-tree")
    planned = [DEFAULT, draft(tensor_parallel=8, pipeline_parallel=2, micro_batch=1)]
    idle = [draft(gpus=8, model="llama-3-405b"), draft(tensor_parallel=3)]
    jobs = [(each, each.setup.cluster, of_scenario(own, CATALOG)) for each in (*planned, *idle)]
    slower = DEFAULT, look_up(roce, CATALOG), of_scenario(roce, CATALOG)
    *again, elsewhere = job.times_on([*jobs, slower])
    times = [each.training.time_to_train.typical for each in planned]
    assert again == pytest.approx([*times, np.nan, np.nan], rel=1e-9, nan_ok=True)
    assert elsewhere > times[0]


def test_steps_that_are_timed_together_are_those_of_each_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of several sizes and jobs of several batches share their layers; the others have layers of their own."""
    spread = {"tensor_parallel": 8, "pipeline_parallel": 2, "context_parallel": 1, "micro_batch": 1}
    whole = spread | {"virtual_pipeline": 1, "expert_parallel": 1, "sharding": "optimizer", "recompute": "none"}
    sizes = [{"gpus": gpus, "global_batch": gpus, **whole} for gpus in (64, 1024, 1024, 4096)]
    sizes += [sizes[1] | {"global_batch": 512}, sizes[2] | {"load_balancing": "hashing", "oversubscription": 4}]
    others = [sizes[0] | {"sharding": "parameters"}, {"gpus": 8, "tensor_parallel": 3}, {"gpus": 64}]
    operated = {"spare_nodes": 4}, {"checkpoint_time": 30}, {"failure_rate": 0}, {"availability": 0.9}
    others += [each | run for run in operated for each in sizes[:2]]
    scenarios = [Scenario(sequence_parallel=True, schedule="1f1b", **asked) for asked in (*sizes, *others)]
    asked = [
        job.AskedJob(look_up(each, CATALOG), of_scenario(each, CATALOG), inputs.JobRequest.of(each, CATALOG))
        for each in scenarios
    ]
    job._KEPT.forget()
    together = job.plan_jobs(asked, CATALOG)
    monkeypatch.setattr(job, "timings_of", None)
    assert job.plan_jobs(asked, CATALOG) == together  # each is kept
    monkeypatch.undo()
    for each, planned in zip(asked, together, strict=True):
        job._KEPT.forget()
        alone = job.plan_job(*each[:3], CATALOG)
        assert alone is not planned
        told = [(each.training, each.memory, each.bottleneck, each.storage) for each in (alone, planned)]
        assert fold(told[0]) == fold(told[1])
        assert alone.timing.exchanges == planned.timing.exchanges


def test_a_figure_names_what_it_rests_on_and_nothing_else():
    training, memory = fold((DEFAULT.training, DEFAULT.memory))
    sources = {part.name: set(part.size.sources) for part in memory.parts}
    own = {"hugging-face-hub", "railyard-training-calibration-2026"}
    assert sources["weights"] == own  # the shape of the model, and the error of the model of memory
    assert sources["buffers"] == own | {"railyard-estimate"}  # what the CUDA context takes
    assert memory.capacity.sources == ("railyard-estimate",)  # what of the 80 GB programs find
    steps = {part.name: set(part.time.sources) for part in training.parts}
    network = {"nvidia-nvlink", "ibta-roadmap", "nccl-tuning"}
    assert not steps["linear_layers"] & network
    assert network <= steps["data_parallel"]
