"""What shares and splits of several searches take at least, so that few of them are worked out.

Of a share the micro-batch is open: the work of a layer and the bytes that it exchanges grow by as much with each
sequence, and launches and latencies only add to that. So do activations grow. It follows how large the micro-batches
can be that fit, and that take no longer than a step that is known. What replicas exchange is hidden best beside the
largest of them.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

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
        self.states: States | None = None
        self.by_sharding: Numbers = np.empty((0, 0))

    @cached_property
    def sequences(self) -> tuple[Numbers, Numbers]:
        """What each sequence adds at least to a layer, by level of recomputation and share, and to the head [s]."""
        return _sequence_times(self.merged, self.families, self.shares)

    @cached_property
    def times(self) -> tuple[Numbers, Numbers]:
        """With one sequence in a micro-batch, where nodes do not spread, and what each further sequence adds [s].

        Endless where nothing fits.
        """
        times, waits = self._times(self.sequences[0])
        return np.where(self.room >= 1, times, np.inf), np.broadcast_to(waits, times.shape)

    @cached_property
    def least(self) -> Numbers:
        """What each takes at least, whatever is recomputed [s]."""
        if "times" in vars(self):
            known: Numbers = self.times[0].min(axis=0, initial=np.inf)
            return known
        quickest = np.where(self.room >= 1, self.sequences[0], np.inf).min(axis=0)
        fits = quickest < np.inf
        return np.where(fits, self._times(np.where(fits, quickest, 0.0))[0], np.inf)

    def _times(self, layers: Numbers) -> tuple[Numbers, Numbers]:
        """The times at which each sequence adds so much to a layer [s]."""
        shares = self.shares
        degrees = shares.groups.degrees(shares.group, shares.sizes.in_rounds > 0)
        search, depth = self.merged.of_owners(shares.owner), self.merged.shape.depth
        parallelism = search.parallelism(degrees | {"micro_batch": 1.0})
        stages = step.stage_time(layers, self.sequences[1], depth, parallelism, search.calibration)
        waits = np.asarray(step.bubble_time(layers, 0.0, depth, parallelism))
        return parallelism.micro_batches(search.job) * stages + waits, waits

    def some(self, places: Whole) -> ShareBounds:
        """Those of some of the shares."""
        tables = {name: vars(self)[name] for name in ("times", "sequences") if name in vars(self)}
        return self._but(
            shares=self.shares.some(places),
            left=self.left[places],
            room=np.take(self.room, places, axis=1),
            **{name: tuple(np.take(each, places, axis=-1) for each in pair) for name, pair in tables.items()},
        )

    def _but(self, **changes: Any) -> ShareBounds:
        """The same with some changes."""
        bounds = copy(self)
        vars(bounds).update(changes)
        vars(bounds).pop("least", None)
        return bounds

    def exchanging(self) -> ShareBounds:
        """The same with what shares exchange beyond a layer and update, unless experts make many states of each.

        The larger a micro-batch, the more of it hides what is exchanged: it is taken to be as large as there is room
        for beside the states of a sharding.
        """
        shares, groups, (layers, heads), (times, waits) = self.shares, self.shares.groups, self.sequences, self.times
        if len(groups.axes[-1]) > 1:
            return self
        owner, group = shares.owner, shares.group
        states_of = np.arange(len(groups.open))[:, None] * len(groups.data) + group
        states = States.of(self.merged, self.families, groups, np.broadcast_to(owner, states_of.shape), states_of)
        search, between = self.merged.of_owners(owner), states.between
        degrees = search.parallelism(groups.degrees(group, shares.sizes.in_rounds > 0))
        job, depth, software, cal = search.job, search.shape.depth, search.software, search.calibration
        room, each = self.room / self.left, shares.batches[owner] / groups.data[group]
        kept, open_ = self.left + groups.least_states[group], groups.open.ravel()

        def of_sharding(state: Whole) -> Numbers:
            at, sequences = states.places(owner, state), room * (kept - groups.states.ravel()[state])
            micro_batch = np.clip(sequences, 1.0, each)
            ways = but(degrees, micro_batch=micro_batch, sharding=groups.columns["sharding"][state])
            rest = ways, software, cal, between.among_replicas(search, ways, at)
            layer = micro_batch * layers
            gathers = traffic.parameter_gather_time(layer, job, *rest)
            stage = step.stage_time(layer + gathers, micro_batch * heads, depth, ways, cal)
            data = traffic.data_parallel_time(stage, between.held(at), job, *rest)
            whole = ways.micro_batches(job) * stage + waits + data + between.optimizer[at]
            return np.where((sequences >= 1) & open_[state], whole, np.inf)

        by_sharding = np.array([of_sharding(state) for state in states_of])
        whole = np.fmax(times, np.fmin.reduce(by_sharding)), waits
        return self._but(states=states, times=whole, by_sharding=by_sharding.min(axis=1))

    def within(self, most: Numbers) -> ShareBounds:
        """Those that take no longer than a time of their search, where nodes do not spread, by the shardings that do.

        Args:
            most: these times [s].
        """
        few = self.some(np.flatnonzero((self.least <= most[self.shares.owner]) & (self.least < np.inf)))
        if self.states is None:
            return few
        near = np.zeros(self.open.shape[:2], bool)
        sharding, share = np.nonzero(~(self.by_sharding > most[self.shares.owner]))
        near[sharding, self.shares.group[share]] = True
        return few._but(open=self.open & near[..., None])

    def levels(self, splits: Splits, most: Numbers | None = None) -> Flags:
        """By level of recomputation, which splits of them may fit and take no longer than a time of their search.

        Args:
            splits: the splits.
            most: these times, where nodes do not spread; any if ``None`` [s].
        """
        size, share = splits.micro_batch, splits.share
        levels: Flags = size <= np.take(self.room, share, axis=1)
        if most is not None:
            times, waits = (np.take(table, share, axis=1) for table in self.times)
            levels &= times + (size - 1) * waits <= most[splits.owner]
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
    degrees = columns | {"sequence_parallel": split, "micro_batch": np.ones(len(every))}
    rows = space.of_owners(shares.first[groups.cluster])._replace(context=0.0)

    def sequences(micro_batches: Array) -> Numbers:
        job = but(rows.job, global_batch=micro_batches * groups.data)
        return left / np.take(groups.activity(rows._replace(job=job), every, every, degrees), group, axis=1)

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

    one_and_two = np.array([1.0, 2.0])[:, None, None, None, None, None]
    parallelism = search.parallelism({**axes, "micro_batch": one_and_two}, levels)
    all_sent = sent.each(lambda part: Exchange(one_and_two * part.time, part.crosses))
    layer = step.layer(shape, job, gpu, parallelism, software, cal, all_sent)
    busy = np.asarray(layer.gpu + (layer.tensor + layer.context + layer.expert))
    head = np.asarray(step.head_time(shape, job, gpu, parallelism, cal))
    table = len(levels), len(family), *map(len, groups.axes)
    layers = np.broadcast_to(busy[1] - busy[0], table).min(axis=-1)
    heads = np.broadcast_to(head[1] - head[0], table)[0, ..., 0]
    places = of_family[shares.owner], groups.tensor[shares.group], groups.context[shares.group]
    flat = np.ravel_multi_index(places, heads.shape)
    return np.take(layers.reshape(len(levels), -1), flat, axis=1), np.take(heads.ravel(), flat)
