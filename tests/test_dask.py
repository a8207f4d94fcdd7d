"""A sweep on Dask's workers, two processes of its local cluster: the rows of this process, in their order."""

import nanoarrow
from distributed import Client

from app import Grid, load_catalog, sweep
from tests.bench.dask import cluster

GRID = Grid(
    base={"model": "llama-3-8b"},
    grid={"gpus": [64, 128, 192, 256], "price_node": [2e5 + number for number in range(200)]},
)


def test_a_sweep_on_two_processes_of_a_local_cluster_has_the_rows_of_one() -> None:
    catalog = load_catalog()
    with cluster(2) as local, Client(local) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        rows = list(sweep(GRID, catalog, client.get_executor()))
        table = nanoarrow.ArrayStream(sweep(GRID, catalog, client.get_executor())).read_all()
    assert rows == list(sweep(GRID, catalog))
    assert len(table) == len(rows) == GRID.points()
