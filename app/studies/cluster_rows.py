"""Clusters as rows of numbers: what thousands of them take and cost, in some fifty bytes each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from app.plan.result import Parallelism
from app.studies.sizing import Outcome

TAPERS = (1.0, 2.0, 4.0)
"""Oversubscriptions that every network is tried with."""
ROW = np.dtype([
    ("gpu", np.int16),
    ("scale_out", np.int16),
    ("taper", np.int8),
    ("gpus", np.int32),
    ("parallelism", np.int32),
    ("time_to_train", np.float64),
    ("capital", np.float64),
    ("rental", np.float64),
    ("run", np.float64),
    ("power", np.float64),
])  # fmt: skip
"""A cluster. GPU and network are places in the catalogue, the taper one in `TAPERS`, the parallelism one among those
that go with the rows; time [s], costs [USD] and power [W] are those of an outcome, not a number where it cannot run."""
FIGURES = ("capital", "rental", "run", "power")
"""What a row has of an outcome under the same name."""

Row = tuple[int, int, int, int]
"""Places of GPU and network, the number of GPUs, and the place of the taper."""


@dataclass(frozen=True, eq=False)
class ClusterRows:
    """Some clusters.

    Attributes:
        rows: numbers of each, see `ROW`.
        ways: how the model is spread on one or another of them.
    """

    rows: NDArray[np.void]
    ways: tuple[Parallelism, ...] = ()

    @staticmethod
    def of(clusters: Sequence[tuple[Row, Outcome | None]]) -> "ClusterRows":
        """What each cluster takes and costs."""
        ways: dict[Parallelism, int] = {}
        rows = np.zeros(len(clusters), ROW)
        for place, ((gpu, scale_out, gpus, taper), outcome) in enumerate(clusters):
            figures = (np.nan,) * (1 + len(FIGURES))
            way = -1
            if outcome:
                figures = (outcome.time, *(getattr(outcome, name) for name in FIGURES))
                way = ways.setdefault(outcome.parallelism, len(ways))
            rows[place] = (gpu, scale_out, taper, gpus, way, *figures)
        return ClusterRows(rows, tuple(ways))

    @staticmethod
    def joined(parts: Iterable["ClusterRows"]) -> "ClusterRows":
        """All clusters of some parts."""
        several = [*parts]
        ends = np.cumsum([0, *(len(part.rows) for part in several)]).tolist()
        rows, ways = np.empty(ends[-1], ROW), list[Parallelism]()
        for part, (begin, end) in zip(several, pairwise(ends), strict=True):
            rows[begin:end] = part.rows  # to concatenate rows of named numbers takes five times as long
            rows["parallelism"][begin:end] += len(ways)
            ways += part.ways
        return ClusterRows(rows, tuple(ways))

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, kept: NDArray[np.bool_]) -> "ClusterRows":
        """Those of a mask."""
        return ClusterRows(self.rows[kept], self.ways)

    def at(self, place: int) -> tuple[Row, Outcome]:
        """One cluster by itself."""
        row = self.rows[place]
        key = int(row["gpu"]), int(row["scale_out"]), int(row["gpus"]), int(row["taper"])
        time, capital, rental, run, power = (float(row[name]) for name in ("time_to_train", *FIGURES))
        return key, Outcome(time, capital, rental, run, power, self.ways[row["parallelism"]], exact=False)
