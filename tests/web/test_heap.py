"""What the process gives back of its memory."""

import gc
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from app.catalog.load import load_catalog
from app.plan import cheapest_design, fabric_search
from app.plan.evaluate import evaluate, evaluate_network
from app.plan.job import job
from app.plan.scenario import Scenario
from app.report import workbook
from app.studies import all_reduce_curves
from tests.conftest import ROOT

CATALOG = load_catalog()

FILLED = """
from app.web import heap

def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1000

heap.use_one()
blocks = [b"x" * (60_000 + number) for number in range(2_000)]
last = b"x" * 60_000
del blocks
before = resident()
heap.give_back()
print(before - resident())
"""

FORGOTTEN = """
from app.catalog.load import load_catalog
from app.plan.network import design_network
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.web import heap

catalog = load_catalog()
evaluate(Scenario(), catalog)
kept = design_network.cache_info().currsize
heap.forget()
print(kept, design_network.cache_info().currsize)
"""


def test_what_was_worked_out_can_be_forgotten() -> None:
    run = subprocess.run([sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=True, cwd=ROOT)
    kept, left = run.stdout.split()
    assert int(kept) > 0
    assert int(left) == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to give memory back")
def test_what_lies_free_below_what_is_in_use_goes_back_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", FILLED], capture_output=True, text=True, check=True)
    assert float(run.stdout) > 100  # MB, of 120


def in_rings(work: Callable[[], object]) -> int:
    """Objects that a piece of work leaves for the collector to find."""
    gc.collect()
    gc.disable()
    try:
        work()
        return gc.collect()
    finally:
        gc.enable()


def test_what_a_page_showed_goes_with_its_answer(client: TestClient) -> None:
    client.get("/catalog?before=1")
    assert in_rings(lambda: client.get("/catalog?after=1")) < 1_000  # it shows 11,000 objects


def test_the_cells_of_a_workbook_go_with_it() -> None:
    assert in_rings(lambda: workbook.written([("Numbers", ["N"], [[number] for number in range(2_000)])])) < 1_000


def test_a_job_is_kept_where_it_was_planned_alone() -> None:
    """What it takes on other networks keeps none."""
    assert evaluate(Scenario(gpus=64), CATALOG).recommendation
    job._KEPT.forget()
    gc.collect()
    assert not any(isinstance(each, job.Job) for each in gc.get_objects())


def test_a_curve_keeps_no_draws() -> None:
    for line in all_reduce_curves.all_reduce_over_sizes(Scenario(), CATALOG, 1e9).series:
        arrays = (line.typical, line.low, line.high)
        assert all(each.base is None or each.base.size <= 2 * each.size for each in arrays)


def test_fabrics_of_equal_designs_share_them() -> None:
    cheapest_design._KEPT.forget()
    for price in (20_000, 30_000):
        evaluate_network(Scenario(gpus=512, price_switch=price), CATALOG)
    designs = [chosen.design for chosen in cheapest_design._KEPT.values()]
    assert len({*map(id, designs)}) == len({*map(str, designs)}) < len(designs)


def test_a_process_beside_a_worker_keeps_few_fabrics(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = cheapest_design._KEPT, fabric_search.FAMILIES
    for each in kept:
        monkeypatch.setattr(each, "most", each.most)
    monkeypatch.setattr(cheapest_design, "FEW_KEPT", 2)
    cheapest_design.keep_few()
    for price in (21_000, 22_000, 23_000):
        evaluate_network(Scenario(gpus=512, price_switch=price), CATALOG)
    assert [len(each) for each in kept] == [2, 2]
