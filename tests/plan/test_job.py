"""The training job of a plan: from catalogue and scenario to the step, its memory and what would help."""

from dataclasses import fields

import numpy as np
import pytest

from app.catalog import estimate
from app.catalog.load import load_catalog
from app.formulas import transformer
from app.formulas.training import arguments
from app.plan.band import fold
from app.plan.cluster import look_up
from app.plan.job import breakdown, calibration, inputs, job, shape
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def draft(**asked) -> job.TrainingDraft:
    scenario = Scenario(**asked)
    return job.draft(look_up(scenario, CATALOG), scenario, CATALOG, hops=3)


DEFAULT = draft()


def typical(made: job.TrainingDraft, name: str) -> float:
    return float(made.quantities[name].values.flat[0])


def test_the_default_run_takes_about_six_n_d_over_the_rate():
    # 6 · 70.6e9 · 15e12 FLOP (and the attention) on 1,024 H100 at 989 TFLOP/s: 72 days at full rate.
    days = typical(DEFAULT, "training.time_to_train") / 86400
    used = typical(DEFAULT, "training.mfu")
    assert 0.35 < used < 0.6
    flops = float(transformer.training_flops(DEFAULT.model, 8192))
    assert days * DEFAULT.availability == pytest.approx(flops * 15e12 / (1024 * 989e12 * used) / 86400)
    assert 6 * 70.6e9 < flops < 1.2 * 6 * 70.6e9


def test_tokens_a_second_times_time_are_the_tokens():
    rate, time = typical(DEFAULT, "training.tokens_per_second"), typical(DEFAULT, "training.time_to_train")
    assert rate * time * DEFAULT.availability == pytest.approx(15e12)
    assert DEFAULT.steps * 2048 * 8192 == pytest.approx(15e12)


def test_parts_add_up_to_the_step():
    bands = fold(DEFAULT.quantities)
    part = DEFAULT.training_part(bands)
    assert sum(one.time.typical for one in part.parts) == pytest.approx(part.step_time.typical)
    memory = DEFAULT.memory_part(bands)
    assert sum(one.size.typical for one in memory.parts) == pytest.approx(memory.total.typical)
    assert memory.headroom.typical == pytest.approx(memory.capacity.typical - memory.total.typical)
    assert memory.fits
    for one in part.parts:
        assert one.time.low <= one.time.typical <= one.time.high


def test_the_chosen_parallelism_given_back_is_the_same_plan():
    chosen = DEFAULT.parallelism
    given = {name: getattr(chosen, name) for name in Scenario.model_fields if hasattr(chosen, name)}
    again = draft(**given)
    assert again.parallelism == chosen
    assert typical(again, "training.step_time") == pytest.approx(typical(DEFAULT, "training.step_time"), rel=1e-12)
    assert typical(again, "memory.total") == pytest.approx(typical(DEFAULT, "memory.total"), rel=1e-12)


def test_the_typical_of_the_draws_is_the_searchs_number():
    assert DEFAULT.cloud[0][0] == pytest.approx(typical(DEFAULT, "training.step_time"), rel=1e-12)
    assert DEFAULT.cloud[0][1] == pytest.approx(typical(DEFAULT, "memory.total"), rel=1e-12)
    assert all(other.step_time >= DEFAULT.cloud[0][0] for other in DEFAULT.alternatives)


def test_doubling_a_resource_never_costs_time():
    assert all(gain >= -1e-12 for gain in DEFAULT.gains)
    resource, share = DEFAULT.bottleneck
    assert resource == breakdown.RESOURCES[int(np.argmax(DEFAULT.gains))]
    assert 0 < share < 1


def test_one_gpu_has_no_communication():
    made = draft(gpus=1, model="qwen-3-0.6b", global_batch=16)
    assert not {kind for _, kind in made.parts} & {"scale_up", "scale_out", "bubble"}
    assert made.gains[2] == made.gains[3] == 0


def test_the_ideal_profile_is_never_slower():
    fixed = {
        "tensor_parallel": 8,
        "pipeline_parallel": 4,
        "micro_batch": 1,
        "recompute": "none",
        "sharding": "optimizer",
    }
    ideal, real = (typical(draft(profile=name, **fixed), "training.step_time") for name in ("ideal", "calibrated"))
    assert ideal <= real


def test_a_model_that_does_not_fit_is_a_finding_and_no_number():
    made = draft(gpus=8, model="llama-3-405b")
    assert made.parallelism is None
    assert made.fits is False
    assert [finding.code for finding in made.findings] == ["does-not-fit"]
    bands = fold(made.quantities)
    assert made.training_part(bands).step_time is None
    assert made.memory_part(bands).total.typical > made.memory_part(bands).capacity.typical


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
    assert made.parallelism is None
    assert made.findings[0].severity == "error"
    assert np.isnan(typical(made, "training.time_to_train"))


def test_a_precision_the_gpu_lacks_runs_wider():
    made = draft(gpu="a100-sxm", precision="fp8")
    assert made.findings[0].code == "precision-not-in-hardware"
    plain = draft(gpu="a100-sxm", precision="bf16")
    assert typical(made, "training.step_time") == pytest.approx(typical(plain, "training.step_time"))


@pytest.mark.parametrize("gpu", list(CATALOG.gpus))
def test_every_gpu_trains_something(gpu: str):
    made = draft(gpu=gpu, gpus=64, model="llama-3-8b", sequence_length=2048, global_batch=512)
    assert made.parallelism is not None
    assert 0.05 < typical(made, "training.mfu") < 1
    for draws in made.quantities.values():
        assert np.all(np.isfinite(draws.values))


@pytest.mark.parametrize("model", list(CATALOG.models))
def test_every_model_trains_somewhere(model: str):
    made = draft(gpu="gb200", model=model, sequence_length=2048, global_batch=4096, gpus=2048)
    assert made.parallelism is not None
    assert 0.005 < typical(made, "training.mfu") < 1


@pytest.mark.parametrize("stack", [key.removeprefix("stack-") for key in CATALOG.training if key.startswith("stack-")])
def test_no_stack_beats_the_tuned_one(stack: str):
    fixed = {"tensor_parallel": 4, "pipeline_parallel": 4, "micro_batch": 1, "recompute": "none", "gpus": 256}
    assert typical(draft(stack=stack, **fixed), "training.step_time") >= typical(draft(**fixed), "training.step_time")


def test_overlap_is_an_input():
    fixed = {"tensor_parallel": 8, "pipeline_parallel": 4, "micro_batch": 1, "gpus": 256}
    hidden = typical(draft(**fixed), "training.step_time")
    for name in ("overlap_tensor", "overlap_data", "overlap_pipeline"):
        assert typical(draft(**fixed, **{name: False}), "training.step_time") > hidden


def test_availability_comes_from_failures_unless_given():
    assert draft(availability=0.9).availability == 0.9
    none = draft(failure_rate=0)
    assert none.availability == 1
    # 1,024 GPUs, one failure each 50,000 hours: 0.02 an hour; ten minutes to restart.
    asked = {
        "failure_rate": "2e-5 /h",
        "checkpoint_time": "60 s",
        "restart_time": "10 min",
        "checkpoint_interval": "1 h",
    }
    rate = 1024 * 2e-5 / 3600
    assert draft(**asked).availability == pytest.approx(1 - 60 / 3600 - rate * (1800 + 600))


def test_a_shape_of_ones_own():
    made = draft(layers=32, hidden=4096, heads=32, kv_heads=8, ffn_hidden=14336, vocabulary=128256, gpus=64)
    assert made.gradient_bytes == pytest.approx(2 * 8.03e9, rel=1e-3)
    same = draft(model="llama-3-8b", gpus=64)
    assert typical(made, "training.step_time") == pytest.approx(typical(same, "training.step_time"))
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
    used: dict[str, estimate.Estimate] = {}
    scenario = Scenario()
    hardware = look_up(scenario, CATALOG)
    inputs.numbers(scenario, hardware, shape.shape(scenario, CATALOG), CATALOG, drawn=True, used=used)
    read = {key.split(".", 1)[1] for key in used if key.startswith("training.")}
    for group in ("attention", "elementwise", "communication", "experts", "host", "step"):
        missing = {f"{group}.{name}" for name in CATALOG.training[group]} - read
        assert missing <= {"step.zero_bubble"}
    assert {e.name for e in fields(arguments.Calibration)} >= {"linear", "attention", "grouped"}


def test_a_cluster_that_only_restarts_is_a_finding():
    made = draft(failure_rate="1 /h", restart_time="1 h", gpus=64)
    assert "no-progress" in [finding.code for finding in made.findings]
    assert np.isnan(typical(made, "training.time_to_train"))
    assert np.isfinite(typical(made, "training.step_time"))


def test_a_stack_without_sequence_parallelism_is_planned_without():
    made = draft(stack="megatron-lm-2021", gpu="a100-sxm", model="gpt-3-175b", sequence_length=2048)
    assert made.parallelism.sequence_parallel is False


def test_gpus_of_a_measured_architecture_have_the_narrower_error():
    # Ampere's constants rest on published step times, Rubin's do not.
    assert calibration.residual(CATALOG, CATALOG.gpus["a100-sxm"], False, True) == pytest.approx(0.09)
    assert calibration.residual(CATALOG, CATALOG.gpus["rubin"], False, True) == pytest.approx(
        (0.09**2 + 0.25**2) ** 0.5
    )


def test_one_node_needs_no_network_card():
    asked = {"gpus": 8, "model": "llama-3-8b", "tensor_parallel": 4, "sharding": "parameters"}
    with_, without = draft(**asked), draft(**asked, nics_per_node=0)
    assert typical(without, "training.step_time") == pytest.approx(typical(with_, "training.step_time"))
