"""Checkpoints: their bytes, the storage they ask for, and what they take of a run."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate, evaluate_network
from app.plan.job import no_job
from app.plan.long_parts import EVERYTHING, SOURCES, STORAGE
from app.plan.network import network_of
from app.plan.scenario import Scenario

CATALOG = load_catalog()
LLAMA_3 = {
    "gpus": 16384,
    "model": "llama-3-405b",
    "failure_rate": "1.97e-5 /h",
    "scale_out": "roce-400",
    "tensor_parallel": 8,
}


def plan(**fields):
    scenario = Scenario.model_validate(fields, context={"catalog": CATALOG})
    return evaluate(scenario, CATALOG, ("bill_of_materials", STORAGE, SOURCES))


def test_llama_3_writes_its_checkpoint_in_five_seconds_every_five_minutes():
    """405.9 B × 14 B = 5.68 TB; at 2 TB/s 2.84 s and 2 s; a failure every 3.1 h: √(2 · 4.84 s · 11,154 s) = 329 s."""
    storage = plan(**LLAMA_3, storage_bandwidth="2 TB/s").storage
    assert storage.checkpoint_size.typical == pytest.approx(5.68e12, rel=0.002)
    assert storage.checkpoint_time.typical == pytest.approx(4.84, rel=0.002)
    assert storage.checkpoint_interval.typical == pytest.approx(329, rel=0.01)
    assert storage.write_bandwidth.typical == pytest.approx(2e12)
    assert storage.background_bandwidth.typical == pytest.approx(5.68e12 / 329, rel=0.01)  # 17 GB/s, copied aside


def test_a_blank_bandwidth_is_80_megabytes_a_second_for_each_gpu():
    """70.6 B × 14 B = 988 GB on 1,024 × 80 MB/s = 82 GB/s: 12 s, and 2."""
    storage = plan().storage
    assert storage.write_bandwidth.typical == pytest.approx(1024 * 80e6)
    assert storage.checkpoint_time.typical == pytest.approx(14.06, rel=0.01)
    assert storage.checkpoint_time.low < 10 < storage.checkpoint_time.high  # what planners type


def test_a_single_node_is_not_held_to_a_share_of_a_large_storage():
    assert plan(gpus=8, model="llama-3-8b").storage.write_bandwidth.typical == pytest.approx(4e9)  # 8 × 80 MB/s: 0.64


def test_a_time_that_is_typed_says_what_the_storage_must_write():
    storage = plan(checkpoint_time="5 s").storage
    assert storage.checkpoint_time.low == storage.checkpoint_time.high == 5
    assert storage.write_bandwidth.typical == pytest.approx(70.55e9 * 14 / 5, rel=0.001)


def test_quicker_storage_leaves_more_time_for_steps_and_larger_models_less():
    slow, usual, quick = (plan(**LLAMA_3, storage_bandwidth=rate) for rate in ("20 GB/s", "200 GB/s", "2 TB/s"))
    assert slow.training.availability < usual.training.availability < quick.training.availability
    small = plan(gpus=16384, model="llama-3-8b")
    assert small.training.availability > plan(gpus=16384, model="llama-3-70b").training.availability


def test_an_availability_that_is_typed_stands_and_checkpoints_have_a_size_all_the_same():
    answer = plan(availability=0.9)
    assert answer.training.availability == 0.9
    assert answer.storage.checkpoint_size.typical == pytest.approx(988e9, rel=0.001)


def test_without_failures_no_checkpoint_is_the_best():
    answer = plan(failure_rate=0)
    assert answer.training.availability == 1
    assert answer.storage.checkpoint_interval is None
    assert answer.storage.checkpoint_time is not None


def test_tokens_are_read_at_four_bytes_each():
    answer = plan()
    assert answer.storage.read_bandwidth.typical == pytest.approx(4 * answer.training.tokens_per_second.typical)
    assert answer.storage.read_bandwidth.typical < 1e-3 * answer.storage.write_bandwidth.typical


def test_how_each_figure_came_about_uses_the_numbers_of_the_plan():
    answer = evaluate(Scenario(), CATALOG)
    for name in ("checkpoint_size", "checkpoint_time", "checkpoint_interval", "background_bandwidth"):
        band, explained = getattr(answer.storage, name), answer.explanations[f"storage.{name}"]
        assert band.typical in [term.value for term in explained.terms]
    terms = {term.symbol: term.value for term in answer.explanations["storage.checkpoint_interval"].terms}
    assert terms["τ"] == pytest.approx(np.sqrt(2 * terms["δ"] / terms["λ"]))


def test_storage_that_is_bought_names_the_source_of_its_price():
    found = plan(storage_capacity="5 PB", price_storage="$400,000")
    bought = {line.role: line for line in found.cluster.bill_of_materials}["storage"]
    assert bought.cost.typical == pytest.approx(5 * 400_000)  # by the petabyte
    published = {line.role: line for line in plan(storage_capacity="5 PB").cluster.bill_of_materials}["storage"]
    assert published.cost.sources == ("ai-journal-storage-2026",)


@pytest.mark.parametrize(
    ("asked", "advised"),
    [
        # 128 nodes with two links each, a quarter as many of the servers: 64 · 50 GB/s = 3.2 TB/s
        ({"storage_bandwidth": "4 TB/s"}, {"storage_bandwidth": pytest.approx(3.2e12)}),
        ({"storage_bandwidth": "3.2 TB/s"}, {}),
        # 70.6 B × 14 B = 988 GB take 0.31 s at that rate
        ({"checkpoint_time": "0.2 s"}, {"checkpoint_time": pytest.approx(0.3087, rel=0.001)}),
        ({"checkpoint_time": "0.2 s", "storage_bandwidth": "1 TB/s"}, {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_storage_that_writes_more_than_its_links_carry_is_said(asked, advised):
    def said(**more):
        found = plan(storage_network=True, **{**asked, **more}).findings
        return [finding for finding in found if finding.code == "storage-beyond-its-network"]

    assert [dict(finding.changes) for finding in said()] == ([advised] if advised else [])
    for finding in said():
        assert not said(**finding.changes)
    without = plan(**asked).findings
    assert "storage-beyond-its-network" not in {finding.code for finding in without}


@pytest.mark.parametrize(
    "asked", [{"gpu": "l40s", "scale_out": "roce-100"}, {"gpu": "h100-sxm", "scale_out": "tcp-100"}]
)
@pytest.mark.parametrize("gpus", [8, 16, 64, 256])
def test_the_range_of_what_storage_writes_ends_at_its_links(asked: dict[str, object], gpus: int) -> None:
    small = asked | {"gpus": gpus, "model": "llama-3-8b"}
    links = network_of(Scenario(**small, storage_network=True), CATALOG).storage_rate
    alone, linked = (plan(**small, storage_network=network).storage.write_bandwidth for network in (False, True))
    assert linked.high <= links * (1 + 1e-9)
    assert linked.high == pytest.approx(min(alone.high, links), rel=0.01)
    assert (linked.low, linked.typical) == pytest.approx((alone.low, alone.typical))


def test_storage_that_is_typed_stands_beyond_its_links_and_is_warned_of() -> None:
    answer = plan(gpus=64, model="llama-3-8b", storage_network=True, storage_bandwidth="10 TB/s")
    assert answer.storage.write_bandwidth.high == 10e12
    assert "storage-beyond-its-network" in {finding.code for finding in answer.findings}


def test_a_storage_network_says_whose_rate_its_ports_are_taken_to_have() -> None:
    answer = plan(gpu="gb300", gpus=1152, scale_out="infiniband-xdr", storage_network=True)
    (said,) = (finding for finding in answer.findings if finding.code == "storage-rate-assumed")
    assert (said.severity, "those of the compute network, InfiniBand XDR 800" in said.message) == ("note", True)
    assert "storage-rate-assumed" not in {finding.code for finding in plan(gpus=64).findings}


def test_a_server_without_storage_ports_has_no_storage_network_and_says_so() -> None:
    asked = {"platform": "aws-p5en", "gpu": "h200-sxm", "scale_out": "efa-200", "gpus": 64, "model": "llama-3-8b"}
    answer = plan(**asked, storage_network=True)
    codes = {finding.code for finding in answer.findings}
    assert not [network for network in answer.fabric.networks if network.role == "storage"]
    assert "no-storage-ports" in codes
    assert not codes & {"storage-not-bought", "storage-rate-assumed"}
    (said,) = (finding for finding in answer.findings if finding.code == "no-storage-ports")
    assert "no-storage-ports" not in {finding.code for finding in plan(**{**asked, **said.changes}).findings}


def test_a_storage_network_too_large_for_its_switches_says_so() -> None:
    answer = evaluate_network(Scenario(gpus=1_000_000, scale_out="infiniband-edr", storage_network=True), CATALOG)
    assert "no-storage-network" in {finding.code for finding in answer.findings}


def test_ports_of_spare_nodes_are_none_of_the_storage_servers() -> None:
    alone, spared = (
        network_of(Scenario(gpus=1024, storage_network=True, spare_nodes=spares), CATALOG).storage_rate
        for spares in (0, 8)
    )
    # a quarter as many links of servers as of 128 and of 136 nodes, two each
    assert (alone, spared) == (64 * 50e9, 68 * 50e9)


def test_the_storage_is_left_out_where_nobody_asks_for_it_and_what_is_wrong_with_it_is_said_all_the_same() -> None:
    scenario = Scenario(storage_network=True, checkpoint_time=0.01, storage_capacity=1e12)
    whole, short = (evaluate(scenario, CATALOG, include) for include in (EVERYTHING, ()))
    assert short.storage == no_job.STORAGE
    assert short.findings == whole.findings
    assert {"storage-too-small", "storage-beyond-its-network"} <= {finding.code for finding in short.findings}
