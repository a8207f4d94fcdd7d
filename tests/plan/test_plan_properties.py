"""What is true of every plan: random valid questions, the same each time."""

import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from typing import Any

import pytest
from pydantic import ValidationError

from app.catalog.load import load_catalog
from app.plan.band import Band, Declaration, declaration
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario

CATALOG = load_catalog()
PLANS = 100
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 64, 72, 100, 128, 256, 512, 576, 1000, 1024, 2048, 4096, 8192, 16384)
OTHERS: dict[str, tuple[Any, ...]] = {
    "precision": ("bf16", "fp8", "nvfp4"),
    "topology": ("fat-tree", "rail-only", "torus-2d", "dragonfly"),
    "oversubscription": (2, 4),
    "sharding": ("none", "optimizer", "gradients", "parameters"),
    "recompute": ("none", "selective", "full"),
    "sequence_length": (2048, 4096, 32768),
    "scale_up_domain": (8, 72, 576),
    "gpudirect": (False,),
    "tuned": (False,),
    "nics_per_node": (1, 2, 16, 64),
    "gpus_per_node": (1, 2, 4, 8),
    "stack": ("megatron-lm", "fsdp", "deepspeed", "nemo"),
    "routing": ("natural", "balanced"),
    "in_network_reduction": (True,),
    "schedule": ("zero-bubble",),
    "pipeline_parallel": (1, 2, 4),
    "tensor_parallel": (1, 2, 8),
    "attention": ("full",),
    "measured_efficiency": (2, 0.5),
    "jitter": (0, 0.1),
}
ABOUT_RIVALS = ("slower", "slower_allowed", "dearer", "dearer_allowed", "break_even", "half_width")
"""Shares of another plan's figure, and half-widths: they may be anything."""


@cache
def plans() -> tuple[tuple[Scenario, Plan], ...]:
    draw, found = random.Random(13), []
    while len(found) < PLANS:
        asked = {
            "gpu": draw.choice(list(CATALOG.gpus)),
            "gpus": draw.choice(SIZES),
            "scale_out": draw.choice(list(CATALOG.scale_out)),
            "model": draw.choice(list(CATALOG.models)),
        } | {name: draw.choice(values) for name, values in OTHERS.items() if draw.random() < 0.12}
        try:
            scenario = Scenario.model_validate(asked, context={"catalog": CATALOG})
        except ValidationError:
            continue
        found.append((scenario, evaluate(scenario, CATALOG, ())))
    return tuple(found)


def figures(part: Any, path: str = "") -> Iterator[tuple[str, Declaration | None, Any]]:
    """Every number inside a plan, those of lists too."""
    for entry in fields(part):
        value = getattr(part, entry.name)
        for each in value if isinstance(value, tuple) else (value,):
            if is_dataclass(each) and not isinstance(each, Band):
                yield from figures(each, f"{path}.{entry.name}")
            else:
                yield f"{path}.{entry.name}", declaration(entry), each


def test_every_range_is_in_order_and_every_share_is_one():
    for scenario, plan in plans():
        for name, said, value in figures(plan):
            where = name, scenario.query()
            if isinstance(value, Band):
                assert isfinite(value.low), where
                assert isfinite(value.high), where
                assert value.low <= value.typical <= value.high, where
            if said and said.share and value is not None and not name.endswith(ABOUT_RIVALS):
                low, high = (value.low, value.high) if isinstance(value, Band) else (value, value)
                assert low >= -1e-9, where
                assert high <= 1 + 1e-9, where


def test_the_bottleneck_is_what_takes_most_and_what_is_twice_as_good_slows_nothing():
    timed = [(scenario, plan) for scenario, plan in plans() if plan.training.step_time]
    assert len(timed) > PLANS / 4
    for scenario, plan in timed:
        gains = {each.resource: each.gain or 0.0 for each in plan.bottleneck.what_if}
        assert min(gains.values()) >= 0, scenario.query()
        taken = dict.fromkeys(gains, 0.0)
        for part in plan.training.parts:
            taken[part.resource] += part.time.typical / plan.training.step_time.typical
        assert plan.bottleneck.share == pytest.approx(max(taken.values()), rel=1e-9), scenario.query()
        assert taken[plan.bottleneck.resource] == pytest.approx(max(taken.values()), rel=1e-9), scenario.query()


def test_the_head_room_is_no_surer_than_the_memory():
    held = [(scenario, plan.memory) for scenario, plan in plans() if plan.memory.total]
    assert held
    for scenario, memory in held:
        assert memory.headroom.high - memory.headroom.low > 0.85 * (memory.total.high - memory.total.low), scenario


def test_no_gpu_sends_faster_than_its_pcie_link_and_no_node_than_its_ports():
    """Of m nodes with rate R each, an all-reduce of S takes 2 (m - 1)/m · S/R at least, whatever is inside a node."""
    joined = [(scenario, plan) for scenario, plan in plans() if plan.cluster.nodes > 1 and plan.all_reduce.time]
    assert len(joined) > PLANS / 2
    for scenario, plan in joined:
        node, gpu = plan.cluster.gpus_per_node, CATALOG.gpus[scenario.gpu]
        if plan.cluster.scale_up_domain > node or scenario.in_network_reduction:
            continue
        server = CATALOG.platforms[gpu.platform]
        own = server.nic_rate.typical * server.nics_per_node / server.gpus_per_node
        slot = max(CATALOG.scale_up[gpu.pcie].bandwidth.typical, own)
        ports = CATALOG.scale_out[scenario.scale_out].port_rate.typical * plan.scenario["nics_per_node"]
        nodes = plan.cluster.nodes
        least = 2 * (nodes - 1) / nodes * plan.all_reduce.message / min(ports, node * slot)
        assert plan.all_reduce.time.typical > 0.999 * least, scenario.query()


@pytest.mark.parametrize("model", ["mixtral-8x7b", "dbrx", "mixtral-8x22b", "deepseek-v2"])
def test_a_mixture_on_slow_matrix_units_stays_below_its_peak(model: str):
    """H20 has 148 TFLOP/s beside 4 TB/s, so that matrix work is all that shows; a dense model reaches 0.76 of it."""
    plan = evaluate(Scenario(gpu="h20", gpus=256, model=model), CATALOG, ())
    assert plan.training.mfu.typical < 0.85
    assert plan.training.mfu.high <= 1


def test_a_gpu_with_more_ports_than_its_link_carries_is_told_so():
    """64 NICs of 50 GB/s behind one PCIe 5 slot of 63 GB/s, not 3.2 TB/s."""
    asked = {"gpus": 64, "gpus_per_node": 1, "message": 8e9}
    wide = evaluate(Scenario(**asked, nics_per_node=64), CATALOG, ())
    assert wide.all_reduce.bus_bandwidth.typical < 63e9
    assert "pcie-too-slow" in {finding.code for finding in wide.findings}
    one = evaluate(Scenario(**asked, nics_per_node=1), CATALOG, ())
    assert "pcie-too-slow" not in {finding.code for finding in one.findings}


def test_what_was_measured_is_no_faster_than_the_wire():
    plan = evaluate(
        Scenario(gpus=64, scale_out="roce-100", message=8e9, algorithm="ring", measured_efficiency=2), CATALOG, ()
    )
    assert plan.all_reduce.bus_bandwidth.typical <= 8 * 12.5e9


def test_exact_counts_are_written_exactly():
    plan = evaluate(Scenario(gpus=49_152, scale_out="roce-400"), CATALOG)
    counts = [
        term for each in plan.explanations.values() for term in each.terms if term.meaning in ("GPUs", "NIC ports")
    ]
    assert {term.value for term in counts} == {49_152.0}
