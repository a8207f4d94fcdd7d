"""Parallelism search: whole configurations a second, enumerated and timed, and a plan that leaves it open."""

import time
from collections.abc import Iterator
from typing import Any

from app.catalog.load import Catalog, load_catalog
from app.formulas.training import parallelism_search
from app.plan.cluster import look_up
from app.plan.communication import of_scenario
from app.plan.evaluate import evaluate
from app.plan.job.inputs import JobRequest, JobSetup, step_inputs
from app.plan.job.job import plan_job
from app.plan.scenario import Scenario

CASES = {
    "GPT-3 175B, 4,096 A100, batch 4,096": {
        "gpu": "a100-sxm", "model": "gpt-3-175b", "gpus": 4096, "global_batch": 4096, "sequence_length": 2048,
        "scale_out": "infiniband-hdr",
    },
    "Llama 3 70B, 1,024 H100 (the default plan)": {},
    "Llama 3 405B, 16,384 H100": {"model": "llama-3-405b", "gpus": 16384},
    "DeepSeek-V3, 2,048 H100": {
        "model": "deepseek-v3", "gpus": 2048, "precision": "fp8", "sequence_length": 4096, "global_batch": 15360,
    },
}  # fmt: skip
SECONDS = 1.0
PLANS = 12


def run() -> Iterator[str]:
    """Search each case for a second."""
    book = load_catalog()
    for name, asked in CASES.items():
        scenario = Scenario(**asked)
        hardware = look_up(scenario, book)
        request, fabric = JobRequest.of(scenario, book), of_scenario(scenario, book)
        rounds, began = 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            inputs = step_inputs(hardware, fabric, request, book)
            setup = JobSetup.of(hardware, request, book, inputs)
            found = parallelism_search.best(setup.asked, setup.budget)
            rounds += 1
        each = (time.perf_counter() - began) / rounds
        draft = time.perf_counter()
        plan_job(hardware, fabric, request, book)
        draft = time.perf_counter() - draft
        yield (
            f"{name}: {1e3 * each:.1f} ms; {found.enumerated:,} enumerated ({found.enumerated / each:,.0f}/s), "
            f"{found.divisible:,} divide, {found.feasible:,} fit, {found.evaluated:,} timed "
            f"({found.evaluated / each:,.0f}/s); with the plan's draws {1e3 * draft:.1f} ms; a plan of processor time: "
            f"of a job not asked before {_plan(asked, book, 'global_batch'):.1f} ms, of another run length "
            f"{_plan(asked, book, 'training_tokens'):.1f} ms"
        )


def _plan(asked: dict[str, Any], book: Catalog, changed: str) -> float:
    """Least processor time of plans on a known cluster that differ in one field, the parallelism open [ms]."""
    start = getattr(Scenario(**asked), changed) or 2048
    times = []
    for place in range(PLANS):
        scenario = Scenario(**(asked | {changed: start * (place + 2)}))
        began = time.process_time()
        evaluate(scenario, book, include=())
        times.append(time.process_time() - began)
    return 1e3 * min(times[1:])
