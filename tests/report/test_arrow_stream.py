"""Sweeps as Arrow streams: read again, they are the rows."""

from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from typing import Any

import nanoarrow
import numpy as np
import pytest

from app import Grid, load_catalog, sweep
from app.plan.declarations import figures, types
from app.plan.result import Plan
from app.report import arrow_stream
from app.report.arrow_stream import TYPES, ArrowStream
from app.studies import parallel_sweep

CATALOG = load_catalog()
TRAINED = [name for name in figures(Plan) if not name.startswith("serving.")]
GRID = {
    "gpus": [64, 8],
    "scale_out": ["infiniband-ndr", "roce-400"],
    "oversubscription": [1, 1.5],
    "tuned": [True, None],
}


def written(grid: Grid, rows: list[dict[str, Any]], at_once: int) -> nanoarrow.Array:
    """Rows as a stream, so many at a time, read again."""
    stream = ArrowStream(grid)
    batches = [stream.batch(rows[begin : begin + at_once]) for begin in range(0, len(rows), at_once)]
    return nanoarrow.ArrayStream.from_readable(b"".join([*batches, stream.end()])).read_all()


@pytest.mark.parametrize(("asked", "results"), [(GRID, None), ({"gpus": [64, 8]}, TRAINED[:200])])
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_stream_has_the_rows_of_the_sweep(asked: dict, results: list[str] | None, at_once: int) -> None:
    """On 8 GPUs the model has no room, so that some results are null."""
    grid = Grid(base={"model": "llama-3-70b"}, grid=asked, **({"results": results} if results else {}))
    rows = list(sweep(grid, CATALOG))
    read = written(grid, rows, at_once)
    assert list(read.to_pylist()) == rows
    assert any(value is None for value in rows[-1].values())
    fields = {field.name: field for field in read.schema.fields}
    assert list(fields) == list(rows[0])
    assert fields["training.step_time"].metadata[b"unit"] == b"s"
    for name in grid.results:
        assert fields[name].type == TYPES[types(Plan)[name]], name
    assert fields["gpus"].type == nanoarrow.Type.INT64


def test_values_of_several_kinds_are_text() -> None:
    grid = Grid(grid={"message": ["1 MiB", 2e6, None]}, results=["all_reduce.time"])
    rows = list(sweep(grid, CATALOG))
    assert [row["message"] for row in written(grid, rows, 10).to_pylist()] == ["1 MiB", "2000000.0", None]


@pytest.mark.parametrize("processes", [0, 2])
def test_a_data_frame_takes_the_rows_of_a_script_as_columns(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_sweep, "LEAST", 2)
    grid = Grid(base={"model": "llama-3-70b"}, grid={"gpus": [8, 64, "many"], "price_node": [2e5, 2.5e5, None]})
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) if processes else nullcontext() as executor:
        read = nanoarrow.ArrayStream(sweep(grid, CATALOG, executor)).read_all()
    rows = list(sweep(grid, CATALOG))
    assert list(read.to_pylist()) == [{**row, "gpus": str(row["gpus"])} for row in rows]
    assert {field.name: field.type for field in read.schema.fields}["costs.capital"] == nanoarrow.Type.DOUBLE


@pytest.mark.parametrize(
    "values",
    [
        [8, 8, 64],
        [8, 8, None, None],
        [1.5, 1.5, None, 2],
        [True, True, None],
        ["a", "a", None, "é", "é"],
        [1, True, "1"],
    ],
)
def test_values_that_rows_share_are_sent_once(values: list[Any]) -> None:
    """What a worker makes of them, and what its reader does, is the column."""
    kind = arrow_stream.type_of(values)
    runs = arrow_stream.runs(kind, values)
    assert len(runs.values) == len({*map(repr, values)})
    read = nanoarrow.Array(arrow_stream.of_runs(kind, runs)).to_pylist()
    assert read == nanoarrow.Array(arrow_stream.column(kind, values)).to_pylist()


def test_columns_of_numpys_numbers_are_those_of_pythons() -> None:
    arrays = {"gpus": np.arange(64, 193, 64), "oversubscription": np.linspace(1, 2, 2), "tuned": [np.bool_(True)]}
    plain = {"gpus": [64, 128, 192], "oversubscription": [1.0, 2.0], "tuned": [True]}
    base = {"model": "llama-3-8b"}
    asked = [Grid(base=base | {"layers": np.int64(16)}, grid=arrays), Grid(base=base | {"layers": 16}, grid=plain)]
    of_arrays, of_lists = (nanoarrow.ArrayStream(sweep(grid, load_catalog())).read_all() for grid in asked)
    assert of_arrays.schema.field(0).type == nanoarrow.Type.INT64
    assert of_arrays.to_pylist() == of_lists.to_pylist()


def test_every_figure_has_one_type() -> None:
    assert types(Plan).keys() == figures(Plan).keys()
    assert {*types(Plan).values()} == {bool, float, int, str}
