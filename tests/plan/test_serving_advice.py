"""What a finding about serving says to change makes it go away, at once."""

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Finding
from app.plan.scenario import Scenario
from app.plan.serving.evaluate_serving import READABLE

CATALOG = load_catalog()
OTHERS: dict[str, tuple[Any, ...]] = {
    "users": (10, 500, 10_000),
    "request_rate": (1, 100),
    "concurrency": (16, 1024),
    "tpot_limit": ("20 ms", "100 ms"),
    "ttft_limit": ("200 ms", "3 s"),
    "percentile": ("p90", "p99"),
    "input_tokens": (128, 16_384, 131_072),
    "output_tokens": (32, 4096),
    "serving": ("aggregated", "disaggregated"),
    "prefill_gpus": (1, 4, 16),
    "decode_gpus": (2, 8, 32),
    "tensor_parallel": (1, 4, 16),
    "pipeline_parallel": (1, 4),
    "weights": ("bf16", "fp8", "int4"),
    "memory_share": (0.2, 0.95),
    "site_power": ("20 kW", "1 MW"),
}


def findings(**asked: Any) -> dict[str, Finding]:
    scenario = Scenario.model_validate({"workload": "serving", **asked}, context={"catalog": CATALOG})
    return {finding.code: finding for finding in evaluate(scenario, CATALOG, include=()).findings}


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """A cluster that serves, and a few of the other fields."""
    asked = {
        "gpu": draw(st.sampled_from(sorted(CATALOG.gpus))),
        "gpus": draw(st.sampled_from([1, 2, 7, 8, 12, 16, 36, 64, 72, 256])),
        "model": draw(st.sampled_from(sorted(CATALOG.models))),
    }
    names = draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=5, unique=True))
    return asked | {name: draw(st.sampled_from(OTHERS[name])) for name in names}


@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(asked=questions())
def test_advice_makes_its_finding_go_away(asked: dict[str, Any]) -> None:
    try:
        before = findings(**asked)
    except ValueError:
        assume(False)
    for code, finding in before.items():
        if finding.changes:
            assert code not in findings(**{**asked, **finding.changes}), (code, dict(finding.changes))


@pytest.mark.parametrize(
    ("asked", "code", "gpus"),
    [
        # 4.46 times 16 are 71.4; 72 carry 1/1.03 of it
        (
            {"gpu": "b200-sxm", "gpus": 16, "model": "nemotron-4-340b", "scale_out": "spectrum-x-800",
             "ttft_limit": "10 s", "request_rate": "10 /s", "input_tokens": 2048, "output_tokens": 4096,
             "weights": "bf16"},
            "load-too-large", 80,
        ),
        # the weights fit in one pool's GPUs, and two pools hold them twice
        ({"gpu": "a800-sxm", "gpus": 2, "model": "falcon-180b", "serving": "disaggregated"},
         "serving-does-not-fit", 16),
        ({"gpu": "a800-sxm", "gpus": 8, "model": "falcon-180b", "serving": "disaggregated"},
         "serving-does-not-fit", 16),
    ],
)  # fmt: skip
def test_as_many_gpus_are_advised_as_do(asked: dict[str, Any], code: str, gpus: int) -> None:
    finding = findings(**asked)[code]
    assert dict(finding.changes) == {"gpus": gpus}
    assert f"{gpus} GPUs" in finding.suggestion
    after = findings(**{**asked, "gpus": gpus})
    assert not {code, "limits-not-kept"} & after.keys()


def test_pools_whose_sizes_are_given_grow_with_their_cluster() -> None:
    asked = {"gpu": "h100-pcie", "gpus": 32, "model": "mistral-large-2", "percentile": "p99", "users": 2000,
             "prefill_gpus": 16, "decode_gpus": 8}  # fmt: skip
    changes = dict(findings(**asked)["load-too-large"].changes)
    assert changes.keys() == {"gpus", "prefill_gpus", "decode_gpus"}
    assert changes["gpus"] >= changes["prefill_gpus"] + changes["decode_gpus"]
    assert "load-too-large" not in findings(**{**asked, **changes})
    assert "load-too-large" in findings(**{**asked, "gpus": changes["gpus"]})


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        ({"gpu": "h100-sxm", "gpus": 64, "prefill_gpus": 60, "decode_gpus": 33}, 96),  # nodes of 8
        ({"gpu": "gb200", "gpus": 72, "prefill_gpus": 72, "decode_gpus": 1}, 144),  # racks of 72
        ({"gpu": "h100-sxm", "gpus": 64, "prefill_gpus": 1_000_000}, None),
    ],
)
def test_pools_that_are_too_large_are_advised_whole_nodes(asked: dict[str, Any], gpus: int | None) -> None:
    asked = {"serving": "disaggregated", "model": "llama-3-8b", **asked}
    advised = dict(findings(**asked)["pools-too-large"].changes)
    assert advised == ({"gpus": gpus} if gpus else {})
    if gpus:
        assert not {"pools-too-large", "partial-node", "partial-rack"} & findings(**{**asked, **advised}).keys()


def test_of_pools_that_are_too_large_it_is_said_which_hold_no_replica() -> None:
    asked = {"serving": "disaggregated", "gpu": "h100-sxm", "gpus": 8, "model": "llama-3-405b", "prefill_gpus": 4,
             "decode_gpus": 16}  # fmt: skip
    before, after = findings(**asked), findings(**asked | {"gpus": 24})
    assert {"pools-too-large", "pool-does-not-fit"} <= before.keys()
    assert before["pool-does-not-fit"] == after["pool-does-not-fit"]


def test_no_cluster_is_advised_that_cannot_be_joined() -> None:
    asked = {"gpu": "a100-sxm", "gpus": 80, "model": "llama-3-70b", "users": 100_000, "tpot_limit": "20 ms",
             "ttft_limit": "200 ms"}  # fmt: skip
    finding = findings(**asked)["load-too-large"]
    assert not finding.changes  # 150,000 of them have more ports than a subnet of InfiniBand has addresses
    assert finding.suggestion == "Use more GPUs, or ask for less at once."
    assert findings(**asked, scale_out="roce-400")["load-too-large"].changes


def test_one_gpu_that_is_too_small_is_told_of_in_the_singular() -> None:
    finding = findings(gpu="h200-sxm", gpus=1, model="llama-3-405b")["serving-does-not-fit"]
    assert "for its weights in fp8, and one GPU leaves 1" in finding.message


def test_no_number_of_gpus_is_advised_where_none_is_enough() -> None:
    asked = {"gpu": "v100-16g-sxm", "gpus": 72, "model": "megatron-1t"}
    finding = findings(**asked)["serving-does-not-fit"]
    assert not finding.changes
    assert finding.suggestion == "Use GPUs with more memory, or weights of fewer bits."


@pytest.mark.parametrize(
    ("asked", "advised"),
    [
        ({"gpu": "mi300x", "gpus": 8, "model": "llama-3-405b"}, True),
        # 46 ms a token at best, and of ninety-nine in a hundred more
        ({"gpu": "a100-sxm", "gpus": 16, "model": "llama-3-405b", "weights": "fp8"}, True),
        ({"gpu": "a100-sxm", "gpus": 16, "model": "llama-3-405b", "weights": "fp8", "percentile": "p99"}, False),
        ({"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "serving": "disaggregated"}, True),
    ],
)
def test_a_limit_is_advised_that_can_be_kept(asked: dict[str, Any], advised: bool) -> None:
    changes = findings(**asked)["no-limit"].changes
    assert bool(changes) is advised
    assert advised != ("limits-not-kept" in findings(**asked, tpot_limit=READABLE))
