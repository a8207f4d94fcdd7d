"""What each field of serving moves, and by omission what it does not: a row for each, as `test_reach` has for training.

The layout is given where it can be, so that a result moves because the field reaches it and not because another layout
became the best.
"""

from functools import cache

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.plan.scenario import group_of

CATALOG = load_catalog()
PLAN = {
    "workload": "serving", "gpus": 64, "model": "llama-3-70b", "engine": "vllm", "serving": "aggregated",
    "tensor_parallel": 4, "pipeline_parallel": 1, "tpot_limit": 0.04,
}  # fmt: skip
"""Sixteen replicas of 4 H100."""
APART = {"serving": "disaggregated", "tensor_parallel": None, "pipeline_parallel": None}
EXPERTS = {"model": "deepseek-v3", "gpu": "b200-sxm", "tensor_parallel": None}
POOLS = APART | EXPERTS

LOAD = "tpot ttft rate users token_cost cache"  # another number of sequences in flight
SPLIT = "rate users token_cost pools"  # another share of the GPUs for prompts

REACH: dict[str, tuple[dict, object, str]] = {
    # field: (what is asked besides, value, what moves)
    "input_tokens": ({}, 4096, LOAD),
    "output_tokens": ({}, 4096, LOAD),
    "request_rate": ({}, 20, LOAD),
    "concurrency": ({}, 500, LOAD),
    "users": ({}, 500, LOAD),
    "think_time": ({}, 30, "users"),
    "ttft_limit": ({}, 0.15, LOAD),
    "tpot_limit": ({}, 0.02, LOAD),
    "percentile": ({}, "p99", LOAD),
    "serving": ({}, "disaggregated", f"{LOAD} pools"),
    "engine": ({}, "sglang", LOAD),
    "weights": ({}, "bf16", f"{LOAD} weights"),
    "kv_cache": ({}, "fp8", LOAD),
    "attention_data_parallel": (EXPERTS, 2, f"{LOAD} weights layout"),
    "prefill_gpus": (APART, 24, SPLIT),
    "prefill_tensor_parallel": (APART, 4, f"{SPLIT} ttft"),
    "prefill_attention_data_parallel": (POOLS | {"gpus": 128}, 2, f"{SPLIT} ttft"),
    "prefill_expert_parallel": (POOLS, 4, f"{LOAD} pools"),
    "prefill_pipeline_parallel": (APART, 4, "ttft users pools"),  # no quicker, and as many prompts a GPU
    "decode_gpus": (APART, 24, SPLIT),
    "decode_tensor_parallel": (APART, 1, f"{LOAD} weights layout pools"),
    "decode_attention_data_parallel": (POOLS, 2, f"{LOAD} weights layout pools"),
    "decode_expert_parallel": (POOLS, 4, f"{LOAD} layout pools"),  # on as many GPUs, which hold as many weights
    "decode_pipeline_parallel": (APART, 3, f"{LOAD} weights layout pools"),
    "max_sequences": ({}, 32, LOAD),
    "token_budget": ({"input_tokens": 8192}, 1024, LOAD),
    "memory_share": ({}, 0.5, LOAD),
    "prefix_hits": ({}, 0.5, LOAD),
    "accepted_tokens": ({}, 1.5, LOAD),
    "headroom": ({}, 0.5, ""),  # how large a cluster must be
    "token_price": ({}, 2.0, "saved"),
    "tuned_kernels": ({}, True, LOAD),
    "arrivals": ({}, "waves", LOAD),
    "workload": ({}, "training", "verdict"),
}


@cache
def results(asked: frozenset[tuple[str, object]]) -> dict[str, object]:
    """The typical value of each result that a row of the table can name, to nine digits."""
    plan = evaluate(Scenario(**dict(asked)), CATALOG, include=())
    serving = plan.serving
    if serving is None:
        return {"verdict": plan.verdict}
    memory, costs = serving.memory, serving.costs
    bands = {
        "tpot": serving.tpot,
        "ttft": serving.ttft,
        "rate": serving.output_tokens_per_second_per_gpu,
        "users": serving.users,
        "token_cost": costs.per_million_output_tokens,
        "saved": costs.saved_per_million,
        "weights": memory.weights,
        "cache": memory.kv_cache,
    }
    return {name: float(f"{band.typical:.9g}") if band else None for name, band in bands.items()} | {
        "layout": serving.parallelism,
        "pools": (serving.prefill, serving.decode),
    }


@pytest.mark.parametrize("field", [name for name in REACH if name != "workload"])
def test_a_field_moves_what_it_should_and_nothing_else(field: str):
    base, value, moves = REACH[field]
    old, new = (results(frozenset((PLAN | base | change).items())) for change in ({}, {field: value}))
    assert None not in [new[name] for name in old if name != "saved"]
    assert {name for name in old if old[name] != new[name]} == set(moves.split())


def test_the_workload_is_what_the_plan_is_of():
    serving, training = (results(frozenset((PLAN | {"workload": kind}).items())) for kind in ("serving", "training"))
    assert "tpot" in serving
    assert "train" in training["verdict"]


def test_every_field_of_serving_has_a_row():
    assert set(REACH) == {name for name, group in group_of(Scenario).items() if group == "serving"}
