"""Rows of a sweep as an Arrow stream: columns of one type each, which data frames take over without reading any text.

Apache Arrow, "Serialization and interprocess communication (IPC)", IPC streaming format.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
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


class Part(NamedTuple):
    """Some rows of a sweep, as other processes send them: their number and the buffers of each column, as Arrow has
    them. Nothing of it is copied on the way.
    """

    rows: int
    columns: list[list[NDArray[np.uint8] | None]]


def of_part(sweep: Sweep, first: int, end: int) -> Part:
    """Some rows of a sweep, counted from 0."""
    several = zip(*sweep.batches(first, end), strict=True)
    kinds = column_types(sweep.grid).values()
    written = (column(kind, list(chain.from_iterable(pieces))) for kind, pieces in zip(kinds, several, strict=True))
    return Part(end - first, [[_sent(buffer) for buffer in nanoarrow.Array(values).buffers] for values in written])


def _sent(buffer: Any) -> NDArray[np.uint8] | None:
    """A buffer as bytes; none where it is empty, as where nothing is null."""
    view = memoryview(buffer)
    return np.frombuffer(view, np.uint8) if view.nbytes else None


def joined(grid: Grid, parts: Iterable[Part]) -> CArrayStream:
    """A sweep's rows as one stream, in memory."""
    schema, kinds = ArrowStream(grid).schema, [nanoarrow.Schema(TYPES[kind]) for kind in column_types(grid).values()]

    def batch(part: Part) -> CArray:
        """A part as a batch of rows."""
        columns = zip(kinds, part.columns, strict=True)
        children = [nanoarrow.c_array_from_buffers(kind, part.rows, buffers) for kind, buffers in columns]
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
    schema = nanoarrow.Schema(TYPES[kind])
    if kind is float:
        numbers = np.array(values, float)
        known = np.isfinite(numbers)
        return nanoarrow.c_array_from_buffers(schema, len(values), [np.packbits(known, bitorder="little"), numbers])
    if kind is str:
        written = [value if isinstance(value, str | None) else orjson.dumps(value).decode() for value in values]
        return nanoarrow.c_array(written, schema)
    return nanoarrow.c_array([None if value is None else kind(value) for value in values], schema)


def _field(name: str, kind: type) -> nanoarrow.Schema:
    """A column, with the unit that its result declares."""
    declared = figures(Plan).get(name)
    return nanoarrow.Schema(TYPES[kind], metadata={"unit": declared.unit} if declared and declared.unit else None)
