"""Networks as rows of collectives and of training steps name them: one rule, whichever is read."""

import csv

import pytest

from app.catalog.load import load_catalog
from app.validation import collective_runs, training_rows

CATALOG = load_catalog()
SWEEP = {
    "run": "A", "collective": "all-reduce", "gpu": "h100-sxm", "nodes": 4, "gpus_per_node": 8, "scale_up_domain": 8,
    "bytes": 2**30, "time_us": 6000,
}  # fmt: skip
STEP = {
    "run": "A", "gpu": "h100-sxm", "gpus": 32, "gpus_per_node": 8, "model": "m", "layers": 32, "hidden": 4096,
    "heads": 32, "sequence_length": 4096, "global_batch": 256, "step_time_s": 9,
}  # fmt: skip


def read(module, tmp_path, row):
    """A row of one file as it is read, and why it is not."""
    path = tmp_path / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    return module.read(path, CATALOG)


@pytest.mark.parametrize(("module", "row"), [(collective_runs, SWEEP), (training_rows, STEP)])
@pytest.mark.parametrize(
    ("written", "family", "taken"),
    [
        ("InfiniBand", "infiniband", []),
        ("EFA v2", "efa", []),
        ("RDMA", "roce", ["network RDMA taken for RoCE"]),
        ("Solstice", "roce", ["network Solstice taken for RoCE"]),
        ("", "infiniband", ["no network stated, taken for InfiniBand"]),
    ],
)
def test_a_network_is_taken_for_the_same_in_collectives_and_in_steps(tmp_path, module, row, written, family, taken):
    ((read_row,), skipped) = read(module, tmp_path, row | {"scale_out": written, "gbps_per_gpu": 400})
    assert not skipped
    assert CATALOG.scale_out[read_row.question.scale_out].family == family
    assert list(read_row.taken) == taken


@pytest.mark.parametrize(("module", "row"), [(collective_runs, SWEEP), (training_rows, STEP)])
def test_nothing_stands_in_for_a_network_that_is_known_and_not_in_the_catalogue(tmp_path, module, row):
    rows, (skipped,) = read(module, tmp_path, row | {"scale_out": "Omni-Path", "gbps_per_gpu": 100})
    assert not rows
    assert skipped["reason"] == "no network of the family omni-path is in the catalogue"


@pytest.mark.parametrize(("module", "row"), [(collective_runs, SWEEP), (training_rows, STEP)])
def test_one_node_needs_no_network(tmp_path, module, row):
    one = row | ({"nodes": 1} if "nodes" in row else {"gpus": 8})
    ((read_row,), _) = read(module, tmp_path, one | {"scale_out": "", "gbps_per_gpu": ""})
    assert not read_row.taken


@pytest.mark.parametrize(("module", "row"), [(collective_runs, SWEEP), (training_rows, STEP)])
@pytest.mark.parametrize(
    ("gpu", "written", "rate", "expected"),
    [
        ("h100-sxm", "InfiniBand", 400, ("infiniband-ndr", 8, None)),
        ("h100-sxm", "InfiniBand", 200, ("infiniband-hdr", 8, None)),
        ("h100-sxm", "HDR", "", ("infiniband-hdr", 8, None)),
        ("h100-sxm", "", "", ("infiniband-ndr", 8, None)),
        ("h100-sxm", "RoCE", 50, ("roce-100", 4, None)),
        ("h100-sxm", "RoCE", 70, ("roce-100", 6, 8.75e9)),
        ("h100-sxm", "EFA", 400, ("efa-100", 32, None)),
        ("h200-sxm", "EFA", 400, ("efa-200", 16, None)),
        ("b200-sxm", "EFA", 400, ("efa-400", 8, None)),
        ("b300-sxm", "EFA", 800, ("efa-400", 16, None)),
    ],
)
def test_a_rate_of_a_gpu_is_the_same_generation_and_ports_of_a_node(
    tmp_path, module, row, gpu, written, rate, expected
):
    """P5 has 32 ports of 100 Gb/s and P6 eight of 400, in a measured step as in a measured collective."""
    ((read_row,), _) = read(module, tmp_path, row | {"gpu": gpu, "scale_out": written, "gbps_per_gpu": rate})
    question = read_row.question
    assert (question.scale_out, question.nics_per_node, question.network_rate) == expected
