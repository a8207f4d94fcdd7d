"""What is exchanged beyond a layer: between stages, and by replicas, for the states of candidates.

A state is a pipeline, tensor, context and experts' degree and a sharding. Neither the micro-batch nor the batch changes
what a state holds and exchanges, so that candidates that share it share that too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from app.formulas.arrays import Array, any_, maximum, where
from app.formulas.collectives.group_times import known_pair_of, pair_of, send_time
from app.formulas.records import but
from app.formulas.training import exchanges, step, traffic
from app.formulas.training.arguments import Parallelism
from app.formulas.training.columns import ROWS_AT_ONCE, Columns, Numbers, Whole, columns_at, distinct, written_out
from app.formulas.training.exchanges import NOTHING, Exchange, StepExchanges
from app.formulas.training.fixed_degrees import OPTIMIZER, PARAMETERS
from app.formulas.training.search import Search
from app.formulas.training.search_groups import Groups
from app.formulas.transformer import Held


@dataclass(frozen=True)
class Between:
    """What is exchanged beyond a layer, for states of candidates.

    Attributes:
        gather, flat_gather, data: dense parameters and experts together, beside computation; with sharded parameters
            what groups sum up too [s].
        embedding: between the first stage and the last [s].
        far, network: between stages, as `exchanges.stage_place` has it [1].
        dense, expert, layer: parameters on a GPU, as `transformer.Held` has them [1].
        optimizer: time of updating them [s].
        send: to the next stage, by places and volumes, where known; else none [s].
    """

    gather: Numbers
    flat_gather: Numbers
    data: Numbers
    embedding: Numbers
    far: Numbers
    network: Numbers
    dense: Numbers
    expert: Numbers
    layer: Numbers
    optimizer: Numbers
    send: Numbers | None = None

    @cached_property
    def places(self) -> Whole:
        """Which of the different places of stages each state has."""
        return 2 * np.unique(self.network, return_inverse=True)[1] + (self.far > 0)

    def sending(self, search: Search, cells: Columns) -> Between:
        """The same with the time of every volume between stages, where these are not too many."""
        volumes = np.ravel(exchanges.pipeline_volume(search.shape, search.job, search.parallelism(cells)))
        kinds = int(self.places.max(initial=0)) + 1
        if kinds * len(volumes) > ROWS_AT_ONCE:
            return self
        far, network = np.zeros((kinds, 1)), np.ones((kinds, 1))
        far[self.places, 0], network[self.places, 0] = self.far, self.network
        send = np.asarray(send_time(known_pair_of(search.links, far, network), volumes))
        return but(self, send=np.broadcast_to(send, (kinds, len(volumes))))

    def held(self, state: Whole) -> Held:
        """What some candidates hold, by the states that they have."""
        return Held(self.dense[state], self.expert[state], self.layer[state])

    def state(self, state: Whole, deviations: Array) -> step.State:
        """The same with how long they take to update it."""
        return step.State(self.held(state), self.optimizer[state], deviations)

    def rows(self, search: Search, parallelism: Parallelism, cell: Whole, state: Whole, owner: Whole) -> StepExchanges:
        """Those of some candidates, by the states that they have; equal sends between stages are timed once."""
        pipeline = Exchange(self._send(search, parallelism, cell, state, owner), self.far[state])
        return but(self.among_replicas(search, parallelism, state), pipeline=pipeline)

    def among_replicas(self, search: Search, parallelism: Parallelism, state: Whole) -> StepExchanges:
        """The same without what stages send."""
        sharded = parallelism.sharding == PARAMETERS
        flat = any_(search.software.flat_sharding > 0)
        return StepExchanges(
            gather=Exchange(where(sharded, self.gather[state], 0.0)) if any_(sharded) else NOTHING,
            flat_gather=Exchange(where(sharded, self.flat_gather[state], 0.0)) if flat else NOTHING,
            data=Exchange(where(sharded, 0.0, self.data[state])),
            embedding=Exchange(self.embedding[state]),
        )

    def _send(self, search: Search, parallelism: Parallelism, cell: Whole, state: Whole, owner: Whole) -> Numbers:
        """Time of sending between the stages of some candidates [s]."""
        if self.send is not None:
            return self.send[self.places[state], cell]
        key = cell * (int(self.places.max()) + 1) + self.places[state]
        kinds = distinct(key)
        number = np.empty(int(key.max()) + 1, np.int64)
        number[kinds] = np.arange(len(kinds))
        place, first = number[key], np.empty(len(kinds), np.int64)
        first[place] = np.arange(len(place))
        some, volume = state[first], np.asarray(exchanges.pipeline_volume(search.shape, search.job, parallelism))
        links = search.links_of(owner[first])
        send: Numbers = np.asarray(send_time(pair_of(links, self.far[some], self.network[some]), volume[first]))[place]
        return send


class States(NamedTuple):
    """States of some searches, and what is exchanged beyond a layer by each.

    Attributes:
        between: what they exchange.
        families: of each search, the place of the first of those that differ from it in nothing but their batch [1].
        many: how many states there are of all groups [1].
        keys: by which each is told from others, ascending; ``None`` where these are all states of a lone search [1].
    """

    between: Between
    families: Whole
    many: int
    keys: Whole | None

    @classmethod
    def of(cls, merged: Search, families: Whole, groups: Groups, owner: Whole, state: Whole) -> States:
        """Those of some candidates.

        All of a lone search are worked out at once, since other batches of its job ask for them next.

        Args:
            merged: the searches as one.
            families: of each, the place of the first of those that differ from it in nothing but their batch [1].
            groups: what divides into their GPUs.
            owner, state: of each candidate, the places of its search and its state [1].
        """
        many = groups.open.size
        if len(families) == 1:
            return cls(Between(*_of_all_states(merged.with_batch(0.0))), families, many, None)
        keys = np.unique(families[owner] * many + state)
        return cls(Between(*_of_states(merged, groups, keys // many, keys % many)), families, many, keys)

    def places(self, owner: Whole, state: Whole) -> Whole:
        """Where those of some candidates are [1]."""
        return state if self.keys is None else np.searchsorted(self.keys, self.families[owner] * self.many + state)


@lru_cache(maxsize=8)
def _of_all_states(search: Search) -> tuple[Numbers, ...]:
    """What is exchanged beyond a layer, for all states. Kept: all batches of a job on a cluster share it."""
    groups = Groups.of([search.space.with_batch(0.0)])
    every = np.arange(groups.open.size)
    return _of_states(search, groups, np.zeros_like(every), every)


def _of_states(merged: Search, groups: Groups, owner: Whole, state: Whole) -> tuple[Numbers, ...]:
    """What is exchanged beyond a layer, for some states of some searches: the columns of `Between`."""
    columns = columns_at(groups.columns, state)
    search, links = merged.of_owners(owner), merged.links_of(owner)
    states, cal = search.parallelism(columns), search.calibration
    known = step.state_of(search.shape, search.job, search.gpu, states, cal, 1.0)
    if search.fixed.sharding is None and not search.shape.experts:  # of a lone replica experts may have several
        states = but(states, sharding=maximum(states.sharding, float(OPTIMIZER)))
    alone = exchanges.replica_exchanges(search.shape, search.job, states, search.software, links, cal.bucket)

    def together(*parts: Exchange) -> Array:
        return sum(traffic.beside_computation(part, cal) for part in parts)

    among_groups = traffic.among_groups_time(cal, alone)
    values = (
        together(alone.gather, alone.expert_gather) + among_groups,
        together(alone.flat_gather) + among_groups,
        together(alone.data, alone.expert_data),
        exchanges.embedding_exchange(search.shape, search.job, states, links).time,
        *exchanges.stage_place(states, links),
        known.held.dense,
        known.held.expert,
        known.held.layer,
        known.optimizer,
    )
    return tuple(written_out(value, columns) for value in values)
