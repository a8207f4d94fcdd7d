"""What is searched for the best parallelism, and what is found.

Searches of one model, stack and calibration can be one search whose other numbers are columns: that is how they are
timed in one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.formulas import tail
from app.formulas.arrays import Array, typical_of
from app.formulas.collectives.group_times import Links
from app.formulas.records import but
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.columns import Numbers, Whole
from app.formulas.training.divisibility import Counts
from app.formulas.training.fixed_degrees import ALL_OPEN, FixedDegrees
from app.formulas.training.memory import Memory
from app.formulas.training.search_space import Space
from app.formulas.training.stacking import link_rows, row, rows_of, stacked, stacked_links
from app.formulas.transformer import Shape


@dataclass(frozen=True)
class Search:
    """What is searched for the best parallelism; numbers are scalars, or columns where it stands for several.

    Attributes:
        shape: the model.
        job: what one step computes.
        gpu: rates of a GPU.
        software: the stack.
        calibration: the constants of the step.
        links: of the cluster.
        gpus: GPUs that train, all of them used [1].
        fixed: settings that are fixed.
    """

    shape: Shape
    job: Job
    gpu: GpuRates
    software: Software
    calibration: Calibration
    links: Links
    gpus: Counts
    fixed: FixedDegrees = ALL_OPEN

    @classmethod
    def merged(cls, searches: Sequence[Search], linked: bool = True) -> Search:
        """Several as one, whose numbers are columns where they differ; the only one as it is.

        Where links are not wanted, which take longest, they are those of the first.
        """
        first, *others = searches
        if not others:
            return first
        return but(
            first,
            job=stacked([search.job for search in searches]),
            gpu=stacked([search.gpu for search in searches]),
            links=stacked_links([search.links for search in searches]) if linked else first.links,
            gpus=np.array([search.gpus for search in searches]),
        )

    def of_owners(self, owners: Whole) -> Search:
        """Of several that are merged the one that each row belongs to, but for its links; a lone one as it is."""
        if not isinstance(self.gpus, np.ndarray):
            return self
        return but(self, job=rows_of(self.job, owners), gpu=rows_of(self.gpu, owners), gpus=self.gpus[owners])

    def links_of(self, owners: Whole) -> Links:
        """Of several that are merged the links of the one that each row belongs to; those of a lone one."""
        return link_rows(self.links, owners) if isinstance(self.gpus, np.ndarray) else self.links

    @cached_property
    def deviations(self) -> Array:
        """Standard deviations by which the slowest node lies above the mean [1]."""
        return tail.deviations(self.gpus)

    def deviations_of(self, owners: Whole) -> Array:
        """Of several that are merged the same of the one that each row belongs to; that of a lone one [1]."""
        return self.deviations[owners] if isinstance(self.deviations, np.ndarray) else self.deviations

    def limit(self, budget: float) -> float:
        """Memory that may be filled on each GPU, a share of what it has [B]."""
        return budget * typical_of(self.gpu.memory_capacity)

    def with_batch(self, batch: Array) -> Search:
        """The same with other sequences in a step [1]."""
        return but(self, job=but(self.job, global_batch=batch))

    @property
    def space(self) -> Space:
        """What can be tried, whatever the GPU's rates and the links."""
        most = self.fixed.largest_tensor or max(int(self.gpu.scale_up_domain), 1) * 4
        context, fragmentation = self.calibration.context_memory, self.calibration.fragmentation
        return Space(self.shape, self.job, self.software, self.gpus, self.fixed, most, context, fragmentation)

    def parallelism(self, settings: Mapping[str, Array], recompute: Array | Whole = 0) -> Parallelism:
        """Configurations of all GPUs: see `FixedDegrees.spread`."""
        return self.fixed.spread(self.gpus, settings, recompute)


@dataclass(frozen=True)
class SearchResult:
    """What the search saw, quickest first.

    Attributes:
        enumerated: whole configurations whose degrees multiply to the cluster [1].
        divisible: those whose layers, heads, batch and experts divide [1].
        feasible: those that also fit in memory, of each that differ in recomputation only the least; where only the
            quickest of several searches are wanted, at least one of these if there is one, or none if the search
            loses a contest [1].
        evaluated: those timed; the other feasible ones are provably slower [1].
        parallelism: the timed ones, quickest first, as arrays.
        time: their step times; NaN where nobody asked, or everything is given and there is nothing to compare [s].
        memory: their memory [B].
        smallest_memory: where nothing fits, what the smallest configuration needs; NaN if none divides [B].
        smallest: that configuration, if there is one; ``None`` where one fits.
        held: where everything is given and divides, all that the fullest GPU holds [B].
    """

    enumerated: int
    divisible: int
    feasible: int
    evaluated: int
    parallelism: Parallelism
    time: Numbers
    memory: Numbers
    smallest_memory: float
    smallest: Parallelism | None
    held: Memory | None = None

    def best(self, rank: int = 0) -> Parallelism | None:
        """The configuration of this rank; ``None`` where so many did not fit."""
        return row(self.parallelism, rank) if rank < len(self.time) else None


@dataclass(frozen=True)
class Contests:
    """Searches of which only those are wanted whose best steps weigh least among their rivals.

    Attributes:
        number: of each search, that of its contest, ascending from 0 [1].
        weight: of each, by what its step times are multiplied before they are compared [1].
    """

    number: Whole
    weight: Numbers

    @classmethod
    def of_none(cls, searches: int) -> Contests:
        """Those of so many searches that have no rivals."""
        return cls(np.arange(searches), np.ones(searches))

    @property
    def count(self) -> int:
        """How many there are [1]."""
        return int(self.number.max(initial=-1)) + 1

    def ends(self, owner: Whole) -> Whole:
        """Where rows of searches end that are of each contest, after a 0 [1]."""
        return np.searchsorted(self.number[owner], np.arange(self.count + 1))

    def times(self, weighed: Numbers) -> Numbers:
        """The step time of each search that weighs so much, by contest [s].

        >>> Contests(np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0])).times(np.array([4.0, 5.0]))
        array([4., 2., 5.])
        """
        return weighed[self.number] / self.weight

    def some(self, places: Sequence[int]) -> Contests:
        """Those of some of the searches."""
        return Contests(np.unique(self.number[places], return_inverse=True)[1], self.weight[places])
