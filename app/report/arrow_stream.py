"""Rows of a sweep as an Arrow stream: columns of one type each, which data frames take over without reading any text.

Apache Arrow, "Serialization and interprocess communication (IPC)", IPC streaming format.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import nanoarrow
import numpy as np
import orjson
from nanoarrow.c_array import CArray
from nanoarrow.c_array_stream import CArrayStream
from nanoarrow.ipc import StreamWriter
from numpy.typing import NDArray

from app.plan.declarations import figures, types
from app.plan.result import Plan
from app.studies.sweep import Grid, Sweep, columns

TYPES = {bool: nanoarrow.Type.BOOL, int: nanoarrow.Type.INT64, float: nanoarrow.Type.DOUBLE, str: nanoarrow.Type.STRING}
LARGEST = 2**63 - 1
"""Of whole numbers [1]; columns with larger ones are of floats."""


class ArrowStream:
    """Rows of a sweep, written some at a time."""

    def __init__(self, grid: Grid) -> None:
        self.types = column_types(grid)
        self.schema = nanoarrow.struct({name: _field(name, kind) for name, kind in self.types.items()}, nullable=False)
        self.file = io.BytesIO()
        self.writer = StreamWriter.from_writable(self.file)

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """Some rows, below the schema where they are the first."""
        return self.columns([[row[name] for row in rows] for name in self.types])

    def columns(self, several: Sequence[Sequence[Any]]) -> bytes:
        """The same rows, given as columns."""
        children = [column(kind, values) for kind, values in zip(self.types.values(), several, strict=True)]
        count = len(several[0])
        self.writer.write_stream(nanoarrow.c_array_from_buffers(self.schema, count, [None], children=children))
        return self._written()

    def end(self) -> bytes:
        """What says that no more rows come."""
        self.writer.close()
        return self._written()

    def _written(self) -> bytes:
        written = self.file.getvalue()
        self.file.seek(0)
        self.file.truncate()
        return written


class Runs(NamedTuple):
    """Values that rows one after another share and how many do, as in Arrow's run-end encoding: what does not vary with
    the last field of a grid is sent in a hundredth of its length.
    """

    values: NDArray[Any]
    lengths: NDArray[np.int64]


class Part(NamedTuple):
    """Some rows of a sweep, as other processes send them: their number and their columns."""

    rows: int
    columns: list[Runs]


def of_part(sweep: Sweep, first: int, end: int) -> Part:
    """Some rows of a sweep, counted from 0."""
    several = zip(*sweep.batches(first, end), strict=True)
    values = zip(column_types(sweep.grid).values(), map(chain.from_iterable, several), strict=True)
    return Part(end - first, [runs(kind, [*its]) for kind, its in values])


def runs(kind: type, values: Sequence[Any]) -> Runs:
    """Values as a column of a type, each once for the rows one after another that have it.

    >>> runs(float, [2, 2, None, None, 2])
    Runs(values=array([ 2., nan,  2.]), lengths=array([2, 2, 1]))
    """
    if values[0] == "" and values.count("") == len(values):  # the errors of rows that have none
        return Runs(np.array([""], object), np.array([len(values)]))
    cells = _cells(kind, values)
    compared = cells.view(np.int64) if cells.dtype == float else cells
    starts = np.concatenate(([0], np.flatnonzero(compared[1:] != compared[:-1]) + 1))
    return Runs(cells[starts], np.diff(starts, append=len(cells)))


def of_runs(kind: type, several: Runs) -> CArray:
    """The column of them; texts are not looked at one by one.

    >>> [*nanoarrow.Array(of_runs(float, runs(float, [2, 2, None]))).to_pylist()]
    [2.0, 2.0, None]
    """
    values, lengths = several
    if kind is not str:
        return _column(kind, np.repeat(values, lengths))
    known = np.repeat([text is not None for text in values], lengths)
    texts = [(text or "").encode() for text in values]
    ends = np.repeat([len(text) for text in texts], lengths).cumsum()
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    data = b"".join(text * count for text, count in zip(texts, lengths.tolist(), strict=True))
    return nanoarrow.c_array_from_buffers(nanoarrow.Schema(TYPES[str]), len(known), [_valid(known), offsets, data])


def joined(grid: Grid, parts: Iterable[Part]) -> CArrayStream:
    """A sweep's rows as one stream, in memory."""
    schema, kinds = ArrowStream(grid).schema, [*column_types(grid).values()]

    def batch(part: Part) -> CArray:
        """A part as a batch of rows."""
        children = [of_runs(kind, its) for kind, its in zip(kinds, part.columns, strict=True)]
        return nanoarrow.c_array_from_buffers(schema, part.rows, [None], children=children)

    return CArrayStream.from_c_arrays([*map(batch, parts)], nanoarrow.c_schema(schema))


def column_types(grid: Grid) -> dict[str, type]:
    """What each column of a sweep's rows holds."""
    known = {**types(Plan), **{name: type_of(values) for name, values in grid.grid.items()}}
    return {name: known.get(name, str) for name in columns(grid)}


def type_of(values: Iterable[Any]) -> type:
    """The one type of some values, null apart; of several, text.

    >>> type_of([8, None]), type_of([8, 1.5]), type_of([2**63]), type_of([8, "8 k"]), type_of([True, 1])
    (<class 'int'>, <class 'float'>, <class 'float'>, <class 'str'>, <class 'str'>)
    """
    given = [value for value in values if value is not None]
    kinds = {*map(type, given)}
    if kinds == {int, float} or (kinds == {int} and max(map(abs, given)) > LARGEST):
        return float
    return kinds.pop() if len(kinds) == 1 and kinds <= TYPES.keys() else str


def column(kind: type, values: Sequence[Any]) -> CArray:
    """Values as a column of a type: what is no number is null, and what is no text is written as JSON.

    >>> [*nanoarrow.Array(column(float, [8, None, float("inf")])).to_pylist()]
    [8.0, None, None]
    >>> [*nanoarrow.Array(column(str, ["8 k", 8, None])).to_pylist()]
    ['8 k', '8', None]
    """
    return _column(kind, _cells(kind, values))


def _cells(kind: type, values: Sequence[Any]) -> NDArray[Any]:
    """The same as an array: of numbers, where none is null but as NaN, or of objects."""
    if kind is float:
        return np.array(values, float)
    if kind is int and None not in values:
        return np.array(values, np.int64)
    if kind is str and not {*map(type, values)} <= {str, NoneType}:
        values = [value if type(value) in (str, NoneType) else orjson.dumps(value).decode() for value in values]
    elif kind is not str:
        values = [None if value is None else kind(value) for value in values]
    return np.array(values, object)


def _column(kind: type, cells: NDArray[Any]) -> CArray:
    schema = nanoarrow.Schema(TYPES[kind])
    if cells.dtype == object:
        return nanoarrow.c_array(cells.tolist(), schema)
    return nanoarrow.c_array_from_buffers(schema, len(cells), [_valid(np.isfinite(cells)), cells])


def _valid(known: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
    """A bit for each row that is not null; nothing where none is."""
    return None if known.all() else np.packbits(known, bitorder="little")


def _field(name: str, kind: type) -> nanoarrow.Schema:
    """A column, with the unit that its result declares."""
    declared = figures(Plan).get(name)
    return nanoarrow.Schema(TYPES[kind], metadata={"unit": declared.unit} if declared and declared.unit else None)
