"""What shares and splits of several searches take at least, so that few of them are worked out.

Of a share the micro-batch is open: the work of a layer and the bytes that it exchanges grow by as much with each
sequence, and launches and latencies only add to that. So do activations grow. It follows how large the micro-batches
can be that fit, and that take no longer than a step that is known. What replicas exchange is hidden best beside the
largest of them.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from app.formulas.arrays import Array, any_
from app.formulas.collectives.group_times import LEAST
from app.formulas.records import but
from app.formulas.training import exchanges, step, traffic
from app.formulas.training.columns import Numbers, Whole
from app.formulas.training.divisibility import Flags
from app.formulas.training.exchanges import Exchange
from app.formulas.training.search import Search
from app.formulas.training.search_grid import Shares, Splits
from app.formulas.training.search_space import Space
from app.formulas.training.search_states import States


class ShareBounds:
    """What shares take at least, by level of recomputation.

    Attributes:
        merged: the searches as one.
        families: of each, the place of the first of those that differ from it in nothing but their batch [1].
        shares: what divides of them.
        left: memory that there is for activations, however the states are sharded [B].
        room: sequences in a micro-batch for which that is enough, parts of one too [1].
        open: whether each state is looked at, by sharding, group and experts' degree.
        states: what is exchanged beyond a layer, by all states that are looked at, where that is known.
        by_sharding: what each share then takes at least by each sharding [s].
    """

    states: States | None = None
    by_sharding: Numbers

    def __init__(self, merged: Search, families: Whole, space: Space, shares: Shares, limits: Numbers) -> None:
        """Those of some shares.

        Args:
            merged: the searches as one.
            families: of each, the place of the first of those that differ from it in nothing but their batch [1].
            space: what they can try, as one.
            shares: what divides of them.
            limits: memory that may be filled of each [B].
        """
        self.merged, self.families, self.shares, self.open = merged, families, shares, shares.groups.open
        self.left = limits[shares.owner] - shares.groups.least_states[shares.group] - space.context
        self.room = _room(space, shares, self.left)

    @cached_property
    def sequences(self) -> tuple[Numbers, Numbers]:
        """What each sequence adds at least to a layer, by level of recomputation and share, and to the head [s]."""
        return _sequence_times(self.merged, self.families, self.shares)

    @cached_property
    def times(self) -> tuple[Numbers, Numbers]:
        """With one sequence in a micro-batch, where nodes do not spread, and what each further sequence adds [s].

        Endless where nothing fits.
        """
        shares, (layers, heads) = self.shares, self.sequences
        degrees = shares.groups.degrees(shares.group, shares.sizes.in_rounds > 0)
        search, one = self.merged.of_owners(shares.owner), {"micro_batch": np.ones(len(shares.owner))}
        parallelism, depth = search.parallelism(degrees | one), search.shape.depth
        stages = step.stage_time(layers, heads, depth, parallelism, search.calibration)
        waits = np.broadcast_to(step.bubble_time(layers, 0.0, depth, parallelism), self.room.shape)
        times = parallelism.micro_batches(search.job) * stages + waits
        return np.where(self.room >= 1, times, np.inf), waits

    def some(self, places: Whole) -> ShareBounds:
        """Those of some of the shares."""
        bounds = copy(self)
        bounds.shares, bounds.left, bounds.room = self.shares.some(places), self.left[places], self.room[:, places]
        bounds.sequences, bounds.times = (
            (first[:, places], second[..., places]) for first, second in (self.sequences, self.times)
        )
        return bounds

    def exchanging(self) -> ShareBounds:
        """The same with what shares exchange beyond a layer and update, unless experts make many states of each."""
        shares, groups = self.shares, self.shares.groups
        if len(groups.axes[-1]) > 1:
            return self
        states_of = np.arange(len(groups.open))[:, None] * len(groups.data) + shares.group
        owners = np.broadcast_to(shares.owner, states_of.shape)
        bounds, (times, waits) = copy(self), self.times
        bounds.states = States.of(self.merged, self.families, groups, owners, states_of)
        by_sharding = np.array([self._exchanging(bounds.states, state) for state in states_of])
        bounds.times, bounds.by_sharding = (np.fmax(times, np.fmin.reduce(by_sharding)), waits), by_sharding.min(axis=1)
        return bounds

    def within(self, most: Numbers) -> ShareBounds:
        """Those that take no longer than a time of their search, where nodes do not spread, by the shardings that do.

        Args:
            most: these times [s].
        """
        least = self.least
        bounds = self.some(np.flatnonzero((least <= most[self.shares.owner]) & (least < np.inf)))
        if self.states is not None:
            near = np.zeros(self.open.shape[:2], bool)
            sharding, share = np.nonzero(~(self.by_sharding > most[self.shares.owner]))
            near[sharding, self.shares.group[share]] = True
            bounds.open = self.open & near[..., None]
        return bounds

    def _exchanging(self, states: States, state: Whole) -> Numbers:
        """What shares take at least in states of one sharding with what these exchange, by level and share [s].

        The larger a micro-batch, the more of it hides what is exchanged: it is taken to be as large as there is room
        for beside these states.
        """
        shares, groups, (layers, heads) = self.shares, self.shares.groups, self.sequences
        owner, group = shares.owner, shares.group
        between, at, search = states.between, states.places(owner, state), self.merged.of_owners(owner)
        left = self.left + groups.least_states[group] - groups.states.ravel()[state]
        room = self.room * (left / self.left)
        columns = groups.degrees(group, shares.sizes.in_rounds > 0)
        columns["sharding"] = groups.columns["sharding"][state]
        columns["micro_batch"] = np.clip(room, 1.0, shares.batches[owner] / groups.data[group])
        parallelism, job, depth = search.parallelism(columns), search.job, search.shape.depth
        rest = search.software, search.calibration, between.among_replicas(search, parallelism, at)
        layer, head = (parallelism.micro_batch * times for times in (layers, heads))
        gathers = traffic.parameter_gather_time(layer, job, parallelism, *rest)
        stage = step.stage_time(layer + gathers, head, depth, parallelism, search.calibration)
        data = traffic.data_parallel_time(stage, between.held(at), job, parallelism, *rest)
        times = parallelism.micro_batches(job) * stage + self.times[1] + data + between.optimizer[at]
        return np.where((room >= 1) & groups.open.ravel()[state], times, np.inf)

    @property
    def least(self) -> Numbers:
        """What each takes at least, whatever is recomputed [s]."""
        least: Numbers = self.times[0].min(axis=0, initial=np.inf)
        return least

    def levels(self, splits: Splits, most: Numbers | None = None) -> Flags:
        """By level of recomputation, which splits of them may fit and take no longer than a time of their search.

        Args:
            splits: the splits.
            most: these times, where nodes do not spread; any if ``None`` [s].
        """
        size, share = splits.micro_batch, splits.share
        levels: Flags = size <= self.room[:, share]
        if most is not None:
            times, waits = self.times
            levels &= times[:, share] + (size - 1) * waits[:, share] <= most[splits.owner]
        return levels

    def micro_batches(self, most: Numbers | None = None) -> Numbers:
        """Sequences in a micro-batch with which steps of each may take no longer than a time of its search [1].

        Args:
            most: these times, where nodes do not spread; any if ``None`` [s].
        """
        if most is None:
            every: Numbers = self.room.max(axis=0, initial=0.0)
            return every
        times, waits = self.times
        with np.errstate(divide="ignore", invalid="ignore"):
            left = most[self.shares.owner] - times
            sizes = np.where(waits > 0, 1 + left / waits, np.inf)
        possible: Numbers = np.where(left >= 0, np.minimum(self.room, sizes), 0.0).max(axis=0, initial=0.0)
        return possible


def _room(space: Space, shares: Shares, left: Numbers) -> Numbers:
    """Sequences in a micro-batch for which shares have memory, by level of recomputation [1].

    In the fewest chunks activations grow with them as long as there are as many micro-batches as stages, and further
    no less than with a single one. Those that go to the host have no such bound: the more there are, the less memory
    the logits need beside them.
    """
    groups, group = shares.groups, shares.group
    if any_(space.job.offload_activations > 0):
        return np.broadcast_to(np.where(left >= 0, np.inf, 0.0), (len(groups.recompute), len(left)))
    every = np.arange(len(groups.data))
    columns = groups.degrees(every, np.zeros(len(every), bool))
    split = np.broadcast_to(space.fixed.splits(columns["tensor"]), every.shape)
    one = columns | {"sequence_parallel": split, "micro_batch": np.ones(len(every))}
    rows = space.of_owners(shares.first[groups.cluster])._replace(context=0.0)

    def sequences(micro_batches: Array) -> Numbers:
        job = but(rows.job, global_batch=micro_batches * groups.data)
        return left / np.take(groups.activity(rows._replace(job=job), every, every, one), group, axis=1)

    stages = columns["pipeline"]
    flowing = sequences(stages)
    return np.where(flowing * (stages * groups.data)[group] < shares.batches[shares.owner], flowing, sequences(1.0))


def _sequence_times(merged: Search, families: Whole, shares: Shares) -> tuple[Numbers, Numbers]:
    """What each sequence adds at least to a layer, by level of recomputation and share, and to the head, by share [s].

    Its work is the same for each, see `compute`, and its bytes take as long alone; experts are spread as is quickest,
    and the micro-batches of several chunks alternate.
    """
    groups, (family, of_family) = shares.groups, np.unique(families, return_inverse=True)
    t, c, e = np.ix_(*(axis.astype(np.float64) for axis in groups.axes))
    split = np.asarray(merged.fixed.splits(t))
    axes: dict[str, Array] = {"tensor": t, "context": c, "expert": e, "sequence_parallel": split}
    axes["virtual_pipeline"] = 2.0
    rows, levels = family[:, None, None, None], np.array(groups.recompute)[:, None, None, None, None]
    search, links = merged.of_owners(rows), merged.links_of(rows)
    shape, job, gpu, software, cal = search.shape, search.job, search.gpu, search.software, search.calibration
    sent = exchanges.layer_exchanges(shape, job, search.parallelism(axes), software, links, LEAST)

    def of_so_many(sequences: float) -> tuple[Array, Array]:
        parallelism = search.parallelism({**axes, "micro_batch": sequences}, levels)
        all_sent = sent.each(lambda part: Exchange(sequences * part.time, part.crosses))
        layer = step.layer(shape, job, gpu, parallelism, software, cal, all_sent)
        busy = layer.gpu + (layer.tensor + layer.context + layer.expert)
        return busy, step.head_time(shape, job, gpu, parallelism, cal)

    (layer, head), (layer_of_two, head_of_two) = of_so_many(1.0), of_so_many(2.0)
    table = len(levels), len(family), *map(len, groups.axes)
    layers = np.broadcast_to(layer_of_two - layer, table).min(axis=-1)
    heads = np.broadcast_to(head_of_two - head, table)[0, ..., 0]
    places = of_family[shares.owner], groups.tensor[shares.group], groups.context[shares.group]
    flat = np.ravel_multi_index(places, heads.shape)
    return np.take(layers.reshape(len(levels), -1), flat, axis=1), np.take(heads.ravel(), flat)
