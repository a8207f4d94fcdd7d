"""Reading what users paste, and what it says of their cluster."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import nccl_tests

CATALOG = load_catalog()
HEADER = "\n".join(
    f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on   node-{'ab'[rank // 8]} device  {rank % 8} [0x1b] NVIDIA H100"
    for rank in range(16)
)
ROW = "{size:>12} {count:>12}     float     sum      -1  {time:8.2f}    0.00    0.00      0    18.0    0.00    0.00  0"


def output(times: dict[int, float], header: str = HEADER) -> str:
    rows = [ROW.format(size=size, count=size // 4, time=time * 1e6) for size, time in times.items()]
    return "\n".join([header, *rows, "# Avg bus bandwidth    : 100.0"])


def test_sizes_times_ranks_and_hosts_are_read():
    found = nccl_tests.read(output({8: 20e-6, 2**30: 5e-3}))
    assert (found.ranks, found.hosts, found.collective) == (16, 2, "all_reduce")
    assert found.rows == (nccl_tests.Measured(8.0, 2e-05), nccl_tests.Measured(float(2**30), 0.005))


@pytest.mark.parametrize(
    ("line", "time"),
    [
        # nccl-tests since 2.11: size count type redop root, then time algbw busbw #wrong twice
        ("1048576 262144 float sum -1 60.0 17.5 32.8 0 59.0 17.8 33.3 0", 60e-6),
        # before: no root
        ("1048576 262144 float sum 60.0 17.5 32.8 4e-07 59.0 17.8 33.3 4e-07", 60e-6),
        # out of place only
        ("1048576 524288 half sum -1 61.5 17.5 32.8 0", 61.5e-6),
        # behind a prefix of mpirun or of a scheduler
        ("[1,0]<stdout>: 1048576 262144 float sum -1 60.0 17.5 32.8 N/A 59.0 17.8 33.3 N/A", 60e-6),
        ("worker-0: 1048576 524288 bfloat16 sum -1 60.0 17.5 32.8 0 59.0 17.8 33.3 0", 60e-6),
    ],
)
def test_every_common_layout_is_read(line: str, time: float):
    (row,) = nccl_tests.read(line).rows
    assert (row.size, row.time) == (1048576.0, pytest.approx(time))


def test_other_collectives_and_other_text_are_refused_with_advice():
    assert "all_reduce_perf" in nccl_tests.read("# Collective test starting: all_gather_perf\n").problem
    assert "No line of results" in nccl_tests.read("hello").problem


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str):
    found = nccl_tests.read(text)
    assert found.rows or found.problem


def test_a_cluster_that_does_as_predicted_has_an_efficiency_of_one():
    scenario = Scenario(gpus=16, model="llama-3-8b")
    times = {size: evaluate(scenario.model_copy(update={"message": float(size)}), CATALOG).all_reduce.time.typical
             for size in (8, 2**20, 2**28, 2**33)}  # fmt: skip
    result = nccl_tests.compare(nccl_tests.read(output(times)), Scenario(), CATALOG)
    assert result.scenario.gpus == 16
    assert result.efficiency == pytest.approx(1, abs=0.01)
    assert result.inside == 4
    assert "as they should" in result.verdict


def test_a_slow_cluster_is_told_to_look_for_the_cause():
    scenario = Scenario(gpus=16, model="llama-3-8b", message=float(2**33))
    slow = {2**33: 2 * evaluate(scenario, CATALOG).all_reduce.time.typical}
    result = nccl_tests.compare(nccl_tests.read(output(slow)), Scenario(), CATALOG)
    assert result.efficiency == pytest.approx(0.5, abs=0.01)
    assert "look for a slow link" in result.verdict


def test_a_measured_efficiency_carried_into_the_plan_reproduces_the_measurement():
    # beyond the fill, time is bytes over rate: half the rate, twice the time, to a few per cent
    size = float(2**36)
    plain = evaluate(Scenario(gpus=64, model="llama-3-8b", message=size), CATALOG).all_reduce.time.typical
    carried = Scenario(gpus=64, model="llama-3-8b", message=size, measured_efficiency=0.5)
    assert evaluate(carried, CATALOG).all_reduce.time.typical == pytest.approx(2 * plain, rel=0.05)


@pytest.mark.parametrize(
    "line",
    [
        "9" * 100_000,
        "1 " * 50_000,
        "1" + " " * 100_000,
        "# Rank 1 " * 10_000,
        "#  Rank " + "9" * 5000 + " Group  0 Pid 1 on   node-a device  0",
        ROW.format(size="9" * 400, count=1, time=1.0),
    ],
)
def test_what_is_no_output_is_read_in_no_time(line: str) -> None:
    began = time.perf_counter()
    assert nccl_tests.read("\n".join([line] * 10)).rows == ()
    assert time.perf_counter() - began < 0.5
    short = "\n".join(line[:499] for _ in range(2000))  # a megabyte of it
    began = time.perf_counter()
    nccl_tests.read(short)
    assert time.perf_counter() - began < 1
