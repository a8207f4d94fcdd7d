"""Every layout that benchmarks print, and where a row ends to be one."""

import json
from typing import Any

import pytest

from app.studies.benchmark_output import LARGEST, LONGEST_LINE, MOST_ROWS, PORT, ranks_about, read

MICROSECOND = 1e-6
Table = tuple[str, int, int, list[tuple[float, float]]]


def tables(text: str) -> list[Table]:
    """Collective, ranks, hosts and rows, times in microseconds."""
    found, _ = read(text)
    return [
        (one.collective, one.ranks, one.hosts, [(size, pytest.approx(time / MICROSECOND)) for size, time in one.rows])
        for one in found
    ]


def row(size: float = 1024, rest: str = "-1 60.0 0.50 0.60 0", summed: str = "sum") -> str:
    return f"{size} 256 float {summed} {rest}\n"


@pytest.mark.parametrize(
    ("rest", "time"),
    [
        ("-1 60.0 0.5 0.6 0", 60.0),  # root, time, algorithm and bus bandwidth, errors
        ("-1 60.0 0.5 0.6 0 59.0 0.5 0.6 0", 60.0),  # the same in place
        ("60.0 0.5 0.6 0", 60.0),  # without a root
        ("60.0 0.5 0.6 0 59.0 0.5 0.6 0", 60.0),
        ("60 0.5 0.6 0", 60.0),  # a whole number of microseconds is no root
        ("3 60.0 0.5 0.6 N/A", 60.0),
    ],
)
def test_the_time_is_the_first_number_after_the_root(rest: str, time: float) -> None:
    assert tables(row(rest=rest)) == [("", 0, 0, [(1024, time)])]


@pytest.mark.parametrize(
    ("size", "time", "kept"),
    [
        (1, 1, True),
        (0, 1, False),
        (10**15, 1, True),  # the largest message, a petabyte
        (10**15 + 1, 1, False),
        (8, 0, False),
        (8, 0.01, True),
        (8, 9_999_999_999.0, True),  # just under 10,000 s
        (8, 10_000_000_000.0, False),
    ],
)
def test_rows_beyond_what_can_be_sent_or_waited_for_are_no_results(size: int, time: float, kept: bool) -> None:
    assert LARGEST == 1e15
    assert bool(tables(row(size, f"-1 {time} 0 0 0"))) is kept


@pytest.mark.parametrize(
    ("factor", "summed", "collective", "ranks"),
    [
        # Bus over algorithm bandwidth: 2 (n - 1)/n of an all-reduce, (n - 1)/n of the others, 1 of a broadcast.
        (1.5, "sum", "all-reduce", 4),
        (1.875, "sum", "all-reduce", 16),
        (1.0, "sum", "all-reduce", 2),
        (1.0, "none", "broadcast", 0),
        (0.75, "none", "all-gather", 4),
        (0.75, "sum", "reduce-scatter", 4),
        (0.5, "none", "all-gather", 2),
        (1.9985, "sum", "all-reduce", 0),  # too close to 2 to tell the ranks
        (1.9975, "sum", "all-reduce", 800),
    ],
)
def test_a_bare_row_says_by_its_bandwidths_what_it_is(factor: float, summed: str, collective: str, ranks: int) -> None:
    (found,) = tables(row(rest=f"-1 60.0 100.0 {100 * factor:.2f} 0", summed=summed))
    assert found[:2] == (collective, ranks)


@pytest.mark.parametrize("gpus", [2, 8, 16, 64, 128])
def test_the_row_with_the_most_digits_tells_the_ranks(gpus: int) -> None:
    """At 1.37 GB/s two decimals allow 44 to 96 ranks for 64; at 180.21 GB/s no other."""
    rates = 1.37, 12.9, 180.21
    text = "".join(row(rest=f"-1 60.0 {rate:.2f} {rate * 2 * (1 - 1 / gpus):.2f} 0") for rate in rates)
    (found,) = read(text)[0]
    assert found.ranks == pytest.approx(gpus, abs=0.51 if gpus <= 64 else 1)
    assert found.allowed is not None
    assert found.allowed[0] <= gpus <= found.allowed[1]
    assert ranks_about(found.ranks, found.allowed, gpus, 8) == gpus


def test_ranks_that_are_listed_go_before_bandwidths() -> None:
    text = ranks("a", "a", "b", "b") + row(rest="-1 60.0 100.00 187.50 0")
    (found,) = read(text)[0]
    assert (found.ranks, found.hosts, found.allowed) == (4, 2, None)


@pytest.mark.parametrize("rest", ["-1 60.0 1.0 1.5 0", "-1 60.0 0.0 0.0 0", "-1 60.0 N/A N/A 0"])
def test_bandwidths_too_small_to_divide_say_nothing(rest: str) -> None:
    """Up to 1 GB/s two decimals are too few."""
    assert [found[:2] for found in tables(row(rest=rest))] == [("", 0)]


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("all_reduce_perf", "all-reduce"),
        ("alltoall_perf", "all-to-all"),
        ("all_gather_perf", "all-gather"),
        ("reduce_scatter_perf", "reduce-scatter"),
        ("broadcast_perf", "broadcast"),
        ("reduce_perf", "reduce"),
    ],
)
def test_the_name_of_the_program_goes_before_the_bandwidths(name: str, collective: str) -> None:
    text = f"# Collective test starting: {name}\n" + row(rest="-1 60.0 100.0 150.00 0")
    assert [found[0] for found in tables(text)] == [collective]


def test_a_broadcast_has_no_share_that_tells_its_ranks() -> None:
    text = "# Collective test starting: broadcast_perf\n" + row(rest="-1 60.0 100.0 75.00 0")
    assert [found[1] for found in tables(text)] == [0]


def ranks(*hosts: str) -> str:
    lines = (f"#  Rank {number} Group 0 Pid 1 on {host} device 0 [0x1b] H100\n" for number, host in enumerate(hosts))
    return "".join(lines)


def test_a_new_head_begins_a_new_table_and_a_head_alone_none() -> None:
    first, second = ranks("a", "a", "b"), ranks("a")
    assert tables(first + row() + second + row(2048)) == [("", 3, 2, [(1024, 60)]), ("", 1, 1, [(2048, 60)])]
    assert tables(first + second + row()) == [("", 3, 2, [(1024, 60)])]  # no rows between: one table
    assert tables("# nThread 1\n" + row() + "# nThread 1\n" + row()) == [("", 0, 0, [(1024, 60)])] * 2


def test_long_lines_and_rows_past_the_most_are_left_out() -> None:
    padded = " " * (LONGEST_LINE - len(row().rstrip())) + row()
    assert len(tables(padded)) == 1
    assert tables(" " + padded) == []
    (found,) = tables(row() * (MOST_ROWS + 5))
    assert len(found[3]) == MOST_ROWS == 4000


def test_osu_prints_microseconds_and_perftest_mebibytes_a_second() -> None:
    osu = "# OSU MPI-CUDA Allgather Latency Test v7.3\n# Size       Avg Latency(us)\n4      21.30\n1024   40.5 1 2\n"
    assert tables(osu) == [("all-gather", 0, 0, [(4, 21.30), (1024, 40.5)])]
    head = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
    port = head + " 1048576    5000    46500.10    40000.00     0.046\n 2    5000    1.0    0.00     0.0\n"
    assert tables(port) == [(PORT, 0, 0, [(2**20, 2**20 / (40000 * 2**20) * 1e6)])]  # 1 MiB at 40,000 MiB/s
    slow = head + " 2097152    5000    1.0    0.50     0.0\n"
    assert tables(slow) == [(PORT, 0, 0, [(2**21, 4e6)])]  # 2 MiB at half a MiB/s
    in_bits = head.replace("MB/sec", "Gb/sec") + " 8000000    58000    0.00    400.00     0.005776\n"
    assert tables(in_bits) == [(PORT, 0, 0, [(8e6, 160.0)])]  # --report_gbits: 8 MB at 50 GB/s


def nccl(**row_of: Any) -> dict[str, Any]:
    return {"size": 1024, "out_of_place": {"time": 30.5}} | row_of


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"name": "all_gather_perf", "config": {"nranks": 16, "nodes": 2}, "results": [nccl()]},
            [("all-gather", 16, 2)],
        ),
        ({"name": "all_gather_perf", "nranks": 16, "nodes": 2, "results": [nccl()]}, [("all-gather", 16, 2)]),
        ([nccl(ranks=4, hosts=1)], [("all-reduce", 4, 1)]),  # what nothing names is an all-reduce
        ([nccl(gpus=1_000_000)], [("all-reduce", 1_000_000, 0)]),
        ([nccl(gpus=1_000_001)], [("all-reduce", 0, 0)]),
        ([nccl(gpus=0)], [("all-reduce", 0, 0)]),
        ([nccl(gpus=1)], [("all-reduce", 1, 0)]),
        ([nccl(gpus=True)], [("all-reduce", 0, 0)]),
        ([nccl(gpus="8")], [("all-reduce", 0, 0)]),
        ([nccl(inPlace=1)], []),
        ([nccl(inPlace=True)], []),
        ([nccl(inPlace="1")], []),
        ([nccl(inPlace=0)], [("all-reduce", 0, 0)]),
        ([{"size": 8}], []),
        ([{"time": 8}], []),
        ([{"size": "x", "time": 8}], []),
        ([{"bytes": 8, "latency_us": 3}], [("all-reduce", 0, 0)]),
        ([{"size": 8, "out_of_place": {"time_us": 3}}], [("all-reduce", 0, 0)]),
        ([{"message_size": 8, "Time (us)": 3, "operation": "AllToAll"}], [("all-to-all", 0, 0)]),
    ],
    ids=str,
)
def test_an_object_with_a_size_and_a_time_is_a_row(document: Any, expected: list[tuple[str, int, int]]) -> None:
    assert [found[:3] for found in tables(json.dumps(document))] == expected
