"""Reading what users paste, and what it says of their cluster."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import nccl_tests
from tests.timing import seconds

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
    assert (found.ranks, found.hosts) == (16, 2)
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
def test_what_is_no_output_takes_time_in_proportion(line: str) -> None:
    assert nccl_tests.read("\n".join([line] * 10)).rows == ()
    some, all_of_it = ("\n".join([line[:499]] * count) for count in (250, 2000))  # a megabyte of it
    assert seconds(lambda: nccl_tests.read(all_of_it)) < 24 * seconds(lambda: nccl_tests.read(some), times=3) + 0.05


def predicted(sizes: list[int]) -> dict[int, float]:
    """Times of the default plan on two nodes [s]."""
    scenario = Scenario(gpus=16, model="llama-3-8b")
    return {
        size: evaluate(scenario.model_copy(update={"message": float(size)}), CATALOG).all_reduce.time.typical
        for size in sizes
    }


def test_a_measurement_stands_beside_the_prediction_as_time_rate_and_ratio():
    size = 2**30
    (time,) = predicted([size]).values()
    (row,) = nccl_tests.compare(nccl_tests.read(output({size: 2 * time})), Scenario(), CATALOG).rows
    assert row.size == size
    assert row.measured == pytest.approx(2 * time, rel=1e-4)  # the tool prints hundredths of a microsecond
    assert row.predicted.typical == pytest.approx(time)
    assert row.predicted.low < time < row.predicted.high < 2 * time
    assert not row.inside
    assert row.ratio == pytest.approx(0.5, rel=1e-4)  # half the rate
    # 16 ranks: each link carries 2·15/16 of the message.
    assert row.measured_bus == pytest.approx(size * 30 / 16 / row.measured)
    assert row.predicted_bus.typical == pytest.approx(size * 30 / 16 / time)
    assert row.predicted_bus.low == pytest.approx(size * 30 / 16 / row.predicted.high)
    assert row.predicted_bus.high == pytest.approx(size * 30 / 16 / row.predicted.low)


def test_the_efficiency_is_that_of_large_messages_and_the_error_that_of_all():
    # 32 MiB and more are large: those take as long as predicted, the two small ones twice as long.
    times = predicted([8, 1024, 2**25, 2**30, 2**33])
    slow = {size: time * (2 if size < 2**25 else 1) for size, time in times.items()}
    result = nccl_tests.compare(nccl_tests.read(output(slow)), Scenario(), CATALOG)
    assert result.efficiency == pytest.approx(1, rel=1e-3)
    assert result.median_error == pytest.approx(0, abs=1e-3)
    only_small = {size: slow[size] for size in (8, 1024)}
    small = nccl_tests.compare(nccl_tests.read(output(only_small)), Scenario(), CATALOG)
    assert small.efficiency is None
    assert small.median_error == pytest.approx(0.5, abs=1e-3)
    assert "Run up to 8 GiB" in small.verdict


@pytest.mark.parametrize(
    ("slower", "says"),
    [
        (0.85, "better than"),
        (0.95, "as they should"),
        (1.08, "as they should"),
        (1.12, "of the predicted rate, which is not unusual."),
        (1.5, "less than usual: look for a slow link"),
    ],
)
def test_a_tenth_off_the_prediction_is_called_slow_or_better(slower: float, says: str):
    (time,) = predicted([2**33]).values()
    result = nccl_tests.compare(nccl_tests.read(output({2**33: slower * time})), Scenario(), CATALOG)
    assert says in result.verdict


def test_a_cluster_that_cannot_reduce_has_nothing_to_compare_with():
    result = nccl_tests.compare(
        nccl_tests.read(output({2**20: 1e-3}, "")), Scenario(protocol="ll", algorithm="nvls"), CATALOG
    )
    assert result.rows == ()
    assert "nothing to compare" in result.verdict
    assert np.isnan(result.median_error)


def test_ranks_and_hosts_of_the_output_stand_for_those_of_the_plan_where_it_names_them():
    def asked(header: str) -> Scenario:
        return nccl_tests.compare(nccl_tests.read(output({2**20: 1e-3}, header)), Scenario(gpus=64), CATALOG).scenario

    assert (asked(HEADER).gpus, asked(HEADER).gpus_per_node) == (16, 8)
    assert (asked("").gpus, asked("").gpus_per_node) == (64, None)
    one_rank = HEADER.splitlines()[0]
    assert asked(one_rank).gpus == 64  # one rank reduces nothing: the output is of something else
    three_hosts = "\n".join([*HEADER.splitlines()[:9], HEADER.splitlines()[9].replace("node-b", "node-c")])
    assert (asked(three_hosts).gpus, asked(three_hosts).gpus_per_node) == (10, 4)  # 10 ranks on 3 hosts: 4, 4 and 2


def test_the_curve_of_what_was_measured_runs_from_small_to_large():
    times = predicted([2**30, 2**20])
    result = nccl_tests.compare(
        nccl_tests.read(output({size: 2 * time for size, time in times.items()})), Scenario(), CATALOG
    )
    drawn = nccl_tests.measured(result)
    assert not drawn.y_logarithmic  # a shortfall of a tenth is seen
    assert drawn.title == result.verdict
    expected, measured = drawn.series
    assert (expected.strong, measured.strong) == (True, False)
    assert expected.x.tolist() == measured.x.tolist() == [2**20, 2**30]
    for x, rate, low, high, actual in zip(
        expected.x, expected.typical, expected.low, expected.high, measured.typical, strict=True
    ):
        row = next(row for row in result.rows if row.size == x)
        band = row.predicted_bus
        assert (rate, low, high, actual) == (band.typical, band.low, band.high, row.measured_bus)


def test_rows_beyond_what_a_cluster_can_send_or_wait_for_are_no_results():
    def rows(size: int, time: float) -> int:
        return len(nccl_tests.read(ROW.format(size=size, count=1, time=time * 1e6)).rows)

    assert rows(10**15, 1.0) == 1  # a petabyte is the largest message
    assert rows(10**15 + 1, 1.0) == rows(0, 1.0) == 0
    assert rows(8, 9999.0) == 1  # and 10,000 s the longest time
    assert rows(8, 10_000.0) == rows(8, 0.0) == 0


def test_of_a_long_output_the_first_four_thousand_lines_are_read():
    lines = "\n".join(ROW.format(size=size, count=1, time=20.0) for size in range(1, 4002))
    found = nccl_tests.read(lines)
    assert [found.rows[0].size, found.rows[-1].size, len(found.rows)] == [1, 4000, 4000]
