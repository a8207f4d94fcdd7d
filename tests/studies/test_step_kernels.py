"""The kernels of a step on the roof of their GPU: they are the plan's own parts, and none goes through the roof."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.step_kernels import Roofline, step_roofline

CATALOG = load_catalog()


def asked(**fields: object) -> tuple[Plan, Roofline]:
    scenario = Scenario.model_validate(fields, context={"catalog": CATALOG})
    plan = evaluate(scenario, CATALOG, ())
    found = step_roofline(scenario, plan, CATALOG)
    assert found is not None
    return plan, found


@pytest.fixture(scope="module", params=[{}, {"model": "deepseek-v3", "gpus": 2048}], ids=["dense", "experts"])
def step(request: pytest.FixtureRequest) -> tuple[Plan, Roofline]:
    return asked(**request.param)


def test_the_kernels_take_what_the_parts_of_the_step_take(step: tuple[Plan, Roofline]) -> None:
    plan, found = step
    parts = {part.name: part.time.typical for part in plan.training.parts if part.time}
    apart = {"Attention": "attention", "Elementwise": "elementwise"}
    times = {kernel.name: kernel.time for kernel in found.kernels}
    for name, part in apart.items():
        assert times[name] == pytest.approx(parts[part])
    linear = sum(time for name, time in times.items() if name not in apart)
    assert linear == pytest.approx(parts["linear_layers"], rel=1e-6)


def test_no_kernel_goes_through_the_roof(step: tuple[Plan, Roofline]) -> None:
    _, found = step
    for kernel in found.kernels:
        assert 0 < kernel.rate <= found.roof(kernel) * (1 + 1e-9), kernel.name


def test_the_ridge_of_an_h100_lies_where_its_two_roofs_meet() -> None:
    _, found = asked()
    # 989.4 TFLOP/s of dense BF16 over 3.35 TB/s
    assert found.ridge == pytest.approx(989.4e12 / 3.35e12, rel=0.01)
    by_name = {kernel.name: kernel for kernel in found.kernels}
    assert by_name["Elementwise"].intensity == pytest.approx(0.5)  # one operation for two bytes
    assert by_name["Feed-forward in"].intensity > found.ridge
    # Of 8,192 tokens, half of them before each: 2 · 8,192 · 64 heads · 128 operations a token; queries, keys, values
    # and what comes back are 2 · (64 + 8) · 128 numbers of two bytes.
    assert by_name["Attention"].intensity == pytest.approx(2 * 8192 * 64 * 128 / (2 * 2 * (64 + 8) * 128), rel=0.01)


def test_the_products_do_the_work_of_the_model() -> None:
    plan, found = asked(recompute="none", pipeline_parallel=1, tensor_parallel=8, gpus=64, model="llama-3-8b")
    run = plan.training.parallelism
    assert run is not None
    flops = sum(kernel.flops for kernel in found.kernels if kernel.compute and kernel.name != "Attention")
    tokens = run.micro_batches * run.micro_batch * plan.scenario["sequence_length"] / run.tensor_parallel
    layers = plan.training.active_parameters - 2 * 128256 * 4096  # without both ends of the vocabulary
    assert flops == pytest.approx(6 * layers * tokens, rel=0.01)


def test_what_cannot_run_has_no_roofline() -> None:
    scenario = Scenario(gpus=8, model="llama-3-405b")
    assert step_roofline(scenario, evaluate(scenario, CATALOG, ()), CATALOG) is None
