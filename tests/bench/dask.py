"""A data frame of a million plans: on two processes of Dask's local cluster, on one, and in this process."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import nanoarrow
from distributed import Client, LocalCluster

from app import Grid, load_catalog, sweep
from app.catalog.load import Catalog
from tests.bench.sweep import BATCHES, CENT, GIVEN, NETWORKS

GRIDS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "designs, jobs and prices": {
        "gpus": range(512, 1792, 128),
        "scale_out": NETWORKS,
        "oversubscription": [1, 1.5, 2, 3, 4],
        "global_batch": BATCHES[:50],
        "price_node": range(200_000, 200_100),
    },
    "prices of one design": {
        "price_node": range(200_000, 201_000),
        "electricity": [CENT * number / 10 for number in range(1000)],
    },
}
TURNS = 7


def cluster(processes: int) -> LocalCluster:
    """Dask's local cluster of so many processes of one thread each."""
    return LocalCluster(n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=None)


def run() -> Iterator[str]:
    """In turns, each process warm; medians, and the ratios of each turn."""
    catalog = load_catalog()
    for name, values in GRIDS.items():
        grid = Grid(base=dict(GIVEN), grid={field: list(its) for field, its in values.items()})
        yield f"   {grid.points():,} plans: {name}"
        yield from _compared(grid, catalog)


def _compared(grid: Grid, catalog: Catalog) -> Iterator[str]:
    taken: dict[str, list[float]] = {"here": [], "one": [], "two": []}
    for _ in range(TURNS):
        taken["here"].append(_seconds(grid, catalog))
        for name, processes in (("one", 1), ("two", 2)):
            with cluster(processes) as local, Client(local) as client:
                client.run(_warm)
                taken[name].append(_seconds(grid, catalog, client.get_executor()))
    for name, seconds in taken.items():
        yield f"      {name}: {sorted(seconds)[TURNS // 2]:.1f} s"
    for name in ("one", "here"):
        ratios = sorted(other / two for other, two in zip(taken[name], taken["two"], strict=True))
        yield f"      two processes are {ratios[TURNS // 2]:.2f} times {name} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def _warm() -> None:
    """What each worker did before: it has imported what a sweep needs."""
    _seconds(Grid(base=dict(GIVEN), grid={"price_node": [2e5, 2.1e5]}), load_catalog())


def _seconds(grid: Grid, catalog: Catalog, executor: Executor | None = None) -> float:
    """What the sweep takes until its table is there [s]."""
    began = time.monotonic()
    table = nanoarrow.ArrayStream(sweep(grid, catalog, executor)).read_all()
    assert len(table) == grid.points()
    return time.monotonic() - began
