"""What readers paste of their benchmarks, and what it says of their cluster."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.library import choose
from app.plan import communication
from app.plan.scenario import Scenario
from app.plan.site_calibration import read_calibration, scaled
from app.studies import own_sweep as own_sweep_module
from app.studies.benchmark_output import MOST_ROWS, PORT, read
from app.studies.own_sweep import MOST_OUTPUTS, NEXT_DOCUMENT, CalibrateQuestion, own_sweep
from app.units import percent
from tests.timing import seconds

CATALOG = load_catalog()
SIZES = [2**power for power in range(3, 34)]
ROW = "{size:>12} {count:>12} float {sum} -1 {time:8.2f} {algorithm:7.2f} {bus:7.2f} 0 18.0 0.00 0.00 0"


PORT_HEAD = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"


def site_times(collective, nodes, factors, sizes=SIZES):
    """What a site of H100 nodes with these factors takes [s]."""
    fabric = communication.of_scenario(Scenario(gpu="h100-sxm", gpus=8 * nodes), CATALOG)
    machine = scaled(fabric.machine(TYPICAL), *factors)
    return np.asarray(choose(collective, np.array(sizes, float), machine, fabric.calibration(TYPICAL)).time)


def output(collective, nodes, factors=(1.0, 1.0, 1.0), sizes=SIZES):
    """The same as nccl-tests print it."""
    name = collective.replace("-", "_")
    head = [
        f"# Collective test starting: {name}_perf",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)",
    ]
    head += [
        f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on   node-{rank // 8} device  {rank % 8} [0x1b] NVIDIA H100"
        for rank in range(8 * nodes)
    ]
    factor = (2 if collective == "all-reduce" else 1) * (1 - 1 / (8 * nodes))
    rows = [
        ROW.format(
            size=size,
            count=size // 4,
            sum="sum",
            time=took * 1e6,
            algorithm=size / took / 1e9,
            bus=factor * size / took / 1e9,
        )
        for size, took in zip(sizes, site_times(collective, nodes, factors, sizes), strict=True)
    ]
    return "\n".join([*head, *rows, "# Avg bus bandwidth    : 100.0", ""])


def ask(text, **fields):
    return own_sweep(CalibrateQuestion(text=text, **{"gpu": "h100-sxm", "gpus": 16, **fields}), CATALOG)


def test_several_outputs_are_told_apart_by_collective_ranks_and_hosts():
    found, problem = read(output("all-reduce", 1) + output("all-gather", 2) + output("all-reduce", 4))
    assert not problem
    places = [(one.collective, one.ranks, one.hosts, len(one.rows)) for one in found]
    assert places == [("all-reduce", 8, 1, 31), ("all-gather", 16, 2, 31), ("all-reduce", 32, 4, 31)]


def test_a_bare_table_says_by_its_bandwidths_what_it_is():
    lines = output("all-reduce", 2).splitlines()[-20:]
    (found,), _ = read("\n".join(lines))
    assert (found.collective, found.ranks, found.hosts) == ("all-reduce", 16, 0)


def test_json_of_nccl_tests_and_of_rccl_tests_is_read():
    nccl = {
        "config": {"nranks": 16, "nodes": 2},
        "name": "all_reduce_perf",
        "results": [{"size": 1024, "out_of_place": {"time": 30.5}}],
    }
    rccl = [{"collective": "AllGather", "ranks": 8, "size": 1024, "inPlace": flag, "time": 12.5} for flag in (0, 1)]
    (one,), _ = read(json.dumps(nccl))
    assert (one.collective, one.rows) == ("all-reduce", [(1024.0, pytest.approx(30.5e-6))])
    assert (one.ranks, one.hosts) == (16, 2)
    for text in (json.dumps(rccl), "\n".join(map(json.dumps, rccl))):
        (other,), _ = read(text)
        assert (other.collective, other.ranks, other.rows) == ("all-gather", 8, [(1024.0, pytest.approx(12.5e-6))])


def test_ranks_of_json_are_read_beside_its_results():
    results = [{"size": 1024, "out_of_place": {"time": 30.5}, "in_place": {"time": 29.5}}]
    devices = [{"rank": rank, "hostname": f"node-{rank // 8}"} for rank in range(32)]
    for beside, expected in (
        ({"args": ["./build/all_gather_perf", "-b", "8"], "devices": devices}, ("all-gather", 32, 4)),
        ({"config": {"Nodes": 2, "gpus_per_node": 8}, "test": "reduce_scatter"}, ("reduce-scatter", 16, 2)),
        ({"header": {"nRanks": 8}, "name": "run 7", "benchmark": "alltoall_perf"}, ("all-to-all", 8, 0)),
        ({"config": {"nranks": True, "nodes": -3}}, ("all-reduce", 0, 0)),
    ):
        for document in (beside | {"results": results}, {"results": results} | beside):
            (one,), _ = read(json.dumps(document))
            assert (one.collective, one.ranks, one.hosts) == expected
            assert one.rows == [(1024.0, pytest.approx(30.5e-6))]


def test_documents_of_several_kinds_are_read_one_by_one():
    json_text = json.dumps({"nranks": 8, "name": "all_gather_perf", "results": [{"size": 1024, "time": 30.5}]})
    found, (finding,) = ask(NEXT_DOCUMENT.join((output("all-reduce", 2), json_text, "hello")))
    assert {(row.collective, row.gpus) for row in found.rows} == {("all-reduce", 16), ("all-gather", 8)}
    assert (finding.severity, finding.code) == ("warning", "unread-document")
    assert finding.message.startswith("Output 3 of 3: No line of results")


def test_outputs_beyond_the_most_are_said_and_left_out():
    table = "# nThread\n# all_reduce_perf\n 1048576  262144  float  sum  -1  60.0  17.48  32.77  0\n"
    found, findings = ask(table * (MOST_OUTPUTS + 3))
    assert len(found.rows) == MOST_OUTPUTS
    assert findings[0].message == f"3 outputs beyond the first {MOST_OUTPUTS} are left out."


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(['{"a": 1}'] * 110_000) + "]",
        json.dumps({"config": {"ranks": 1}, "x": [{"y": {"z": 1}}] * 50_000}),
        ("1 1 float sum " + "1" * 480 + "x\n") * 2000,
        ("# Rank 1 on " + "x" * 480 + "\n") * 2000,
        "a" * 490 + ("\n" + "_" * 490) * 2000,
        "\n" * 1_000_000,
    ],
    ids=["objects", "settings", "numbers", "ranks", "words", "lines"],
)
def test_a_hostile_megabyte_is_refused_in_ten_times_what_an_honest_one_takes(text):
    found, problem = read(text)
    honest = output("all-reduce", 2)
    honest *= 1_000_000 // len(honest)
    assert seconds(lambda: read(text)) < 10 * seconds(lambda: read(honest))
    assert not found
    assert problem.endswith(".")


def test_osu_and_ib_write_bw_are_read():
    osu = "# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n4      21.30\n1048576   140.10\n"
    port = PORT_HEAD + " 1048576    5000    46500.10    46000.00     0.046\n"
    (one,), _ = read(osu)
    assert (one.collective, one.rows[0]) == ("all-reduce", (4.0, pytest.approx(21.3e-6)))
    (two,), _ = read(port)
    assert (two.collective, two.rows[0][1]) == (PORT, pytest.approx(2**20 / (46000 * 2**20)))


def test_one_sweep_of_two_nodes_finds_the_factors_of_the_site():
    found, findings = ask(output("all-reduce", 2, (1.4, 0.95, 1.2)))
    site = read_calibration(found.calibration)
    assert (site.latency.value, site.bandwidth.value, site.fill.value) == pytest.approx((1.4, 0.95, 1.2), rel=0.05)
    assert "GPUDirect RDMA" in found.factors[0].meaning
    assert found.calibrated_error < 0.02 < 0.1 < found.usual_error
    assert not findings


def test_a_calibration_that_the_question_carries_already_is_none_of_what_is_usual():
    text = output("all-reduce", 2, (1.4, 0.95, 1.2))
    assert ask(text, calibration="2~0.05,0.8~0.02,1.5~0.1", measured_efficiency=0.5)[0] == ask(text)[0]


@pytest.mark.parametrize(("collective", "nodes"), [("all-reduce", 2), ("all-reduce", 4), ("all-gather", 2)])
def test_what_one_node_says_helps_with_more_nodes_and_other_collectives(collective, nodes):
    # Nodes whose latency is 1.4 times the usual: calibrated on one, the error on others falls.
    factors = (1.4, 0.95, 1.2)
    site = ask(output("all-reduce", 1, factors))[0].calibration
    asked = Scenario(gpu="h100-sxm", gpus=8 * nodes, calibration=site)
    measured = site_times(collective, nodes, factors)
    errors = []
    for fabric in (
        communication.of_scenario(asked.model_copy(update={"calibration": text}), CATALOG) for text in (None, site)
    ):
        times = communication.time_collective(fabric, collective, np.array(SIZES, float)).time
        errors.append(np.median(np.abs(np.asarray(times) / measured - 1)))
    assert errors[1] < errors[0] / 2


def test_a_port_says_what_its_bandwidth_is():
    # 0.9 of 50 GB/s, six times: known to 2 %, so most of the way from 1 to 0.9.
    row = f"    5000    0.00    {0.9 * 50e9 / 2**20:.2f}     0.046\n"
    found, _ = ask(PORT_HEAD + "".join(f" {2**power}{row}" for power in range(18, 24)))
    assert 0.88 < read_calibration(found.calibration).bandwidth.value < 0.95
    assert found.rows == ()
    # the same as the acceptance sheet has it printed, in bits: 360 of 400 Gb/s
    row = "    5000    0.00    360.00     0.046\n"
    in_bits, _ = ask(PORT_HEAD.replace("MB/sec", "Gb/sec") + "".join(f" {2**power}{row}" for power in range(18, 24)))
    assert in_bits.calibration == found.calibration


def test_a_row_that_fits_no_model_is_a_finding():
    lines = output("all-reduce", 2).splitlines()
    broken = next(number for number, line in enumerate(lines) if line.split()[:1] == ["1048576"])
    cells = lines[broken].split()
    cells[5] = str(30 * float(cells[5]))
    lines[broken] = " ".join(cells)
    found, findings = ask("\n".join(lines))
    assert [finding.code for finding in findings] == ["row-fits-no-model"]
    assert "1 MiB of all-reduce over 16 GPUs" in findings[0].message.replace("\u202f", " ")
    assert [row.fits for row in found.rows].count(False) == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (output("all-reduce", 2).replace("all_reduce_perf", "sendrecv_perf"), "sendrecv_perf"),
        (output("all-gather", 2).replace("all_gather_perf", "gather_perf"), "gather_perf"),
        ("# OSU MPI-CUDA Bandwidth Test v7.3\n# Size  Bandwidth (MB/s)\n1048576  24000\n", "OSU MPI-CUDA Bandwidth"),
        ("# OSU MPI-CUDA Latency Test v7.3\n# Size  Latency (us)\n8  2.5\n1048576  60\n", "OSU MPI-CUDA Latency"),
        (json.dumps({"name": "sendrecv_perf", "results": [{"size": 1024, "time": 30.5}]}), "sendrecv_perf"),
    ],
)  # fmt: skip
def test_what_times_no_collective_is_said_and_left_out(text, name):
    """A send and receive was read as an all-reduce, or a broadcast; megabytes a second as microseconds."""
    found, (said,) = ask(text)
    assert said.code == "unplaced-output"
    assert said.message.startswith(name)
    assert found.calibration == ""
    both, _ = ask(text if text.startswith("{") else output("all-reduce", 2) + text)
    assert {row.collective for row in both.rows} <= {"all-reduce"}


def test_an_output_that_cannot_have_run_here_is_said_and_left_out():
    found, findings = ask(
        output("all-reduce", 2) + output("all-reduce", 2).replace("node-", "n" * 3), gpu="h100-sxm", algorithm="collnet"
    )
    assert {finding.code for finding in findings} == {"unplaced-output"}
    assert found.calibration == ""


@pytest.mark.parametrize(
    "text", ["", "hello", "{", "[" * 100_000, '{"size": 1}', "\x00" * 1000, "# OSU\n" + "9" * 400, "<script>" * 100]
)
def test_what_holds_no_results_gets_a_sentence(text):
    found, (finding,) = ask(text)
    assert finding.message.endswith(".")
    assert finding.severity == "error"
    assert found.calibration == ""


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text):
    found, problem = read(text)
    assert bool(found) != bool(problem)


def test_a_megabyte_is_read_in_time_in_proportion():
    text = output("all-reduce", 2)
    some, text = text * (125_000 // len(text)), text * (1_000_000 // len(text))
    found, _ = read(text)
    assert seconds(lambda: read(text)) < 24 * seconds(lambda: read(some), times=3)
    assert sum(len(one.rows) for one in found) <= MOST_ROWS


# What is said of the factors, and of rows that they do not explain


def test_a_factor_has_four_fifths_of_its_chances_in_its_range():
    factor = own_sweep_module._factor("latency", 1.4, 0.1)
    assert (factor.name, factor.value) == ("latency", 1.4)
    # The 10th and 90th percentile of a normal distribution lie 1.281552 spreads from its middle.
    assert (factor.low, factor.high) == pytest.approx((1.4 / np.exp(0.1281552), 1.4 * np.exp(0.1281552)))


@pytest.mark.parametrize(
    ("name", "value", "says", "check"),
    [
        ("latency", 1.0, "what such parts usually have, as far", False),
        ("latency", 1.004, "what such parts usually have, as far", False),  # a range of half a per cent either side
        ("latency", 1.09, "is 1.1 × what", False),  # worse, but by less than a tenth
        ("latency", 1.12, "is 1.1 × what", True),
        ("latency", 0.8, "is 0.8 × what", False),
        ("bandwidth", 0.97, "is 0.97 × what", False),
        ("bandwidth", 0.94, "is 0.94 × what", True),
        ("bandwidth", 1.2, "is 1.2 × what", False),
        ("fill", 1.5, "is 1.5 × what", True),
        ("fill", 0.5, "is 0.5 × what", False),
    ],
)
def test_what_is_worse_than_usual_by_more_than_its_range_says_what_to_check(name, value, says, check):
    meaning = own_sweep_module._factor(name, value, 0.004).meaning
    assert says in meaning
    assert (own_sweep_module.CHECKS[name] in meaning) == check


def slower(lines, sizes, times):
    """Lines of an output in which these sizes take so many times as long."""
    for line in lines:
        cells = line.split()
        if cells and cells[0] in map(str, sizes):
            cells[5] = str(times * float(cells[5]))
        yield " ".join(cells)


def broken(sizes, times=30):
    """The output of two nodes in which some rows take so many times as long."""
    return ask("\n".join(slower(output("all-reduce", 2).splitlines(), sizes, times)))


def test_the_sixth_row_that_fits_no_model_and_later_ones_are_counted():
    for many, codes in ((5, ["row-fits-no-model"] * 5), (7, ["row-fits-no-model"] * 5 + ["more-rows-fit-no-model"])):
        found, findings = broken(SIZES[3 : 3 + 3 * many : 3])
        assert [finding.code for finding in findings] == codes
        assert sum(not row.fits for row in found.rows) == many
    assert findings[-1].message == "2 more rows fit no model."
    assert " took 3" in findings[0].message  # some 30 times what the other rows say


def test_rows_that_the_factors_do_not_explain_are_a_warning():
    # Three rows say too little to go before what is usual, and no link is quicker than its line rate.
    for sizes, times in ((SIZES[-3:], 2), (SIZES[-9:], 0.5)):
        lines = output("all-reduce", 2, sizes=sizes).splitlines()
        found, findings = ask("\n".join(slower(lines, sizes, times)))
        assert (findings[0].severity, findings[0].code) == ("warning", "far-from-calibrated")
        far = sum(abs(row.calibrated.typical / row.measured - 1) > 0.25 for row in found.rows)
        assert findings[0].message.startswith(f"The calibrated times miss {far} of {len(sizes)} rows by more than 25")


def test_one_row_of_three_is_no_warning():
    lines = output("all-reduce", 2, sizes=SIZES[::15]).splitlines()
    assert not ask("\n".join(slower(lines, SIZES[-1:], 1.8)))[1]


def test_rows_that_are_all_slower_are_what_this_cluster_takes():
    lines = output("all-reduce", 2, sizes=SIZES[-9:]).splitlines()
    found, findings = ask("\n".join(slower(lines, SIZES[-9:], 1.8)))
    assert not findings
    assert all(row.calibrated.typical == pytest.approx(row.measured, rel=0.02) for row in found.rows)
    assert "check slow links" in found.factors[1].meaning


def test_rows_within_twice_the_time_fit():
    found, findings = broken(SIZES[10:11], 1.8)
    assert not findings
    assert all(row.fits for row in found.rows)


def test_a_row_stands_beside_what_is_usual_and_what_the_factors_make_of_it():
    factors = (1.4, 0.95, 1.2)
    found, _ = ask(output("all-reduce", 2, factors))
    usual = site_times("all-reduce", 2, (1.0, 1.0, 1.0))
    measured = site_times("all-reduce", 2, factors)
    assert [row.message for row in found.rows] == SIZES
    for row, before, took in zip(found.rows, usual, measured, strict=True):
        assert (row.collective, row.gpus) == ("all-reduce", 16)
        assert row.measured == pytest.approx(took, abs=6e-9)  # printed with hundredths of a microsecond
        assert row.usual.typical == pytest.approx(before)
        assert row.usual.low < row.usual.typical < row.usual.high
        assert row.calibrated.low < row.calibrated.typical < row.calibrated.high
    errors = [np.median([abs(getattr(row, name).typical / row.measured - 1) for row in found.rows])
              for name in ("usual", "calibrated")]  # fmt: skip
    assert (found.usual_error, found.calibrated_error) == pytest.approx(errors)


def test_the_curve_is_what_links_carry_over_time():
    found, _ = ask(output("all-gather", 2, (1.4, 0.95, 1.2)))
    drawn = own_sweep_module.curve(found, "all-gather", 16)
    assert not drawn.y_logarithmic  # a shortfall of a tenth is seen
    usual, calibrated, measured = drawn.series
    assert [line.strong for line in drawn.series] == [False, True, False]
    for place, row in enumerate(found.rows):
        carried = row.message * 15 / 16  # (n - 1)/n of an all-gather
        assert measured.typical[place] == pytest.approx(carried / row.measured)
        for line, band in ((usual, row.usual), (calibrated, row.calibrated)):
            ends = (line.low[place], line.typical[place], line.high[place])
            assert ends == pytest.approx((carried / band.high, carried / band.typical, carried / band.low))
    assert f"are {percent(found.usual_error)} off as usual, {percent(found.calibrated_error)} when calib" in drawn.title
    assert len(own_sweep_module.curve(found, "all-reduce", 16).series[0].x) == 0


def test_a_port_is_judged_from_64_kibibytes_on():
    head, tail = PORT_HEAD, "    5000    0.00    40000.00     0.046\n"
    assert [one.code for one in ask(head + " 65535" + tail)[1]] == ["small-port-messages"]
    assert not ask(head + " 65536" + tail)[1]


def test_ranks_and_hosts_of_the_output_go_before_those_asked():
    # 32 ranks on 4 hosts whatever is asked; a bare table of 16 ranks is of the two nodes asked for.
    found, _ = ask(output("all-reduce", 4), gpus=16)
    assert {row.gpus for row in found.rows} == {32}
    bare = "\n".join(output("all-reduce", 2).splitlines()[-20:])
    found, _ = ask(bare, gpus=64)
    assert {row.gpus for row in found.rows} == {16}
    assert found.rows[0].usual.typical == pytest.approx(site_times("all-reduce", 2, (1, 1, 1), [found.rows[0].message]))
    node = "\n".join(output("all-reduce", 1).splitlines()[-20:])
    assert {row.gpus for row in ask(node, gpus=64)[0].rows} == {8}


def test_the_algorithm_asked_for_is_the_one_that_is_calibrated():
    free, ring = ask(output("all-reduce", 2))[0], ask(output("all-reduce", 2), algorithm="ring")[0]
    assert ring.calibrated_error > 2 * free.calibrated_error  # the output is not of rings alone


def test_a_long_output_takes_little_memory_and_has_the_ranges_of_its_rows():
    # 4,000 rows with 257 draws each are 8 MB, of which the formulas of a collective have a dozen at once.
    lines = [f"{1024 * (row + 1)} 2 float sum {20 + row / 10:.1f} 2 3 4 5" for row in range(4000)]
    few, _ = own_sweep(CalibrateQuestion(gpus=64, text="\n".join(lines[:3] + lines[-3:])), CATALOG)
    question = CalibrateQuestion(gpus=64, text="\n".join(lines))
    tracemalloc.start()
    try:
        many, _ = own_sweep(question, CATALOG)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(many.rows) == 4000
    assert peak < 30e6
    assert [row.usual for row in (*many.rows[:3], *many.rows[-3:])] == [row.usual for row in few.rows]


def test_rows_without_their_head_ran_on_the_cluster_that_is_planned():
    """Bandwidths of two decimals told 52 GPUs for 64, by the first row: 6 % of latency and 4 % of bandwidth."""
    bare = "\n".join(line for line in output("all-reduce", 8).splitlines() if not line.startswith("#"))
    swept, found = own_sweep(CalibrateQuestion(gpu="h100-sxm", gpus=64, text=bare), CATALOG)
    assert {row.gpus for row in swept.rows} == {64}
    assert [factor.value for factor in swept.factors] == pytest.approx([1, 1, 1], abs=0.01)
    assert not found
