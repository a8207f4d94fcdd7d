"""A data frame of a million plans: on two processes of Dask's local cluster, on one, and in this process."""

import time
from collections.abc import Iterator
from concurrent.futures import Executor

import nanoarrow
from distributed import Client, LocalCluster

from app import Grid, load_catalog, sweep
from app.catalog.load import Catalog
from tests.bench.sweep import CENT, GIVEN

NODES, TARIFFS = 1000, 1000
TURNS = 7


def cluster(processes: int) -> LocalCluster:
    """Dask's local cluster of so many processes of one thread each."""
    return LocalCluster(n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=None)


def run() -> Iterator[str]:
    """In turns, each cluster warm; medians, and the ratios of each turn."""
    catalog = load_catalog()
    taken: dict[str, list[float]] = {"here": [], "one": [], "two": []}
    for _ in range(TURNS):
        taken["here"].append(_seconds(catalog))
        for name, processes in (("one", 1), ("two", 2)):
            with cluster(processes) as local, Client(local) as client:
                executor = client.get_executor()
                list(sweep(Grid(base=dict(GIVEN), grid={"price_node": [2e5, 2.1e5]}), catalog, executor))
                taken[name].append(_seconds(catalog, executor))
    for name, seconds in taken.items():
        yield f"   {NODES * TARIFFS:,} plans, {name}: {sorted(seconds)[TURNS // 2]:.1f} s"
    for name in ("one", "here"):
        ratios = sorted(other / two for other, two in zip(taken[name], taken["two"], strict=True))
        yield f"   two processes are {ratios[TURNS // 2]:.2f} times {name} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def _seconds(catalog: Catalog, executor: Executor | None = None) -> float:
    """What the sweep takes until its table is there [s]."""
    grid = Grid(
        base=dict(GIVEN),
        grid={
            "price_node": [200_000 + number for number in range(NODES)],
            "electricity": [CENT * number / 10 for number in range(TARIFFS)],
        },
    )
    began = time.monotonic()
    table = nanoarrow.ArrayStream(sweep(grid, catalog, executor)).read_all()
    assert len(table) == grid.points()
    return time.monotonic() - began
