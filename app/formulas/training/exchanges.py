"""What the groups of a training step exchange, and how long that takes with nothing else on the links.

The bytes follow from the parallelism; the times are those of the collectives (`collectives.group_times`), the same that
an all-reduce by itself has. What of them shows in the step, beside computation, is told in `traffic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.formulas import transformer
from app.formulas.arrays import Array, any_, maximum, minimum, where
from app.formulas.collectives.group_times import (
    EACH,
    Group,
    Groups,
    Links,
    bridged,
    collective_time,
    exchange_time,
    pair_of,
    send_time,
)
from app.formulas.fabric.placement import Axis, network_share, slowest_split
from app.formulas.records import but
from app.formulas.training.arguments import ALL_GATHER, RING, Job, Parallelism, Software
from app.formulas.training.groups import copies, layer_axes, stage_stride
from app.formulas.transformer import Held, Shape


@dataclass(frozen=True)
class Exchange:
    """One exchange by itself.

    Attributes:
        time: with nothing else on the links [s].
        crosses: 1 where it leaves scale-up domains, else 0 [1].
    """

    time: Array = 0.0
    crosses: Array = 0.0


NOTHING = Exchange()


@dataclass(frozen=True)
class LayerExchanges:
    """What one layer and micro-batch exchanges, each exchange once.

    Attributes:
        tensor: sum of what the ranks of a layer computed: an all-reduce, or a gather and a scatter.
        context: keys and values once round the ring or gathered, or heads there and back.
        expert: tokens to their experts, or back.
    """

    tensor: Exchange
    context: Exchange
    expert: Exchange

    def each(self, changed: Callable[[Exchange], Exchange]) -> LayerExchanges:
        """The same of each exchange changed."""
        return LayerExchanges(*map(changed, vars(self).values()))


@dataclass(frozen=True)
class StepExchanges:
    """What is exchanged beyond a layer.

    Attributes:
        pipeline: activations of a micro-batch to the next stage.
        gather, expert_gather: sharded parameters of a layer twice, and their gradients once; those of routed experts.
        flat_gather: both in one flat ring over one network card.
        share, expert_share: gradients of a rank's share of a layer, among the groups that have a whole copy each.
        data, expert_data: gradients and weights of all parameters on a GPU; those of routed experts.
        embedding: gradients of an embedding that the first stage and the last have both.
    """

    pipeline: Exchange = NOTHING
    gather: Exchange = NOTHING
    expert_gather: Exchange = NOTHING
    flat_gather: Exchange = NOTHING
    share: Exchange = NOTHING
    expert_share: Exchange = NOTHING
    data: Exchange = NOTHING
    expert_data: Exchange = NOTHING
    embedding: Exchange = NOTHING


@dataclass(frozen=True)
class Exchanges:
    """All that a step exchanges.

    Attributes:
        layer: within a layer.
        step: beyond it.
    """

    layer: LayerExchanges
    step: StepExchanges

    def each(self, changed: Callable[[Exchange], Exchange]) -> Exchanges:
        """The same of each exchange changed."""
        return Exchanges(self.layer.each(changed), StepExchanges(*map(changed, vars(self.step).values())))


def exchanges(
    shape: Shape, job: Job, parallelism: Parallelism, software: Software, links: Links, bucket: Array
) -> Exchanges:
    """All that a step exchanges, the time of each exchange by itself [s].

    Source: as for each, see `layer_exchanges`, `replica_exchanges` and `pipeline_volume`.

    >>> from app.formulas.training.examples import JOB, LINKS, MODEL
    >>> alone = exchanges(MODEL, JOB, Parallelism(pipeline=2.0), Software(), LINKS, 1e9)
    >>> round(1e6 * float(alone.step.pipeline.time), 3)  # 2 MB at 100 GB/s
    20.0
    """
    return Exchanges(
        layer_exchanges(shape, job, parallelism, software, links),
        step_exchanges(shape, job, parallelism, software, links, bucket),
    )


# Bytes ---------------------------------------------------------------------------------------------------------------


def tensor_volume(shape: Shape, job: Job, parallelism: Parallelism) -> Array:
    """Bytes that the ranks of a layer sum up, 2·T·h [B].

    Source: Narayanan et al., SC21, section 3.2.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> tensor_volume(MODEL, JOB, Parallelism(tensor=8.0))
    2000000.0
    """
    return 2 * parallelism.tokens(job) * shape.hidden


def tensor_sums(shape: Shape) -> Array:
    """How often the ranks of an average layer sum up forward, 2 - share, or 2 where there are shared experts [1].

    Behind attention and behind what tensor parallelism cuts of the feed-forward block, which whole routed experts are
    not.

    Source: Narayanan et al., SC21, section 3.2; NVIDIA, Megatron-Core, ``SharedExpertMLP``.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import EXPERTS, MODEL
    >>> [float(tensor_sums(shape)) for shape in (MODEL, EXPERTS, replace(EXPERTS, shared_experts=1))]
    [2.0, 1.0, 2.0]
    """
    return 2 - where(shape.shared_width > 0, 0.0, shape.expert_share)


def context_volume(shape: Shape, job: Job, parallelism: Parallelism) -> Array:
    """Bytes of a rank's own keys and values, 4·T·K·d_h/t or of one head at least, which it sends c - 1 times [B].

    Latent attention passes what its keys and values are made of, H·(d_qk + d_v)/2 wide.

    Source: Liu, Zaharia, Abbeel, "Ring attention with blockwise transformers", 2023, section 3.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> context_volume(MODEL, JOB, Parallelism(context=2.0))  # 500 tokens of 1,000 keys and values
    2000000.0
    """
    latent_width = shape.heads * (shape.score_dim + shape.output_dim) / 2
    kv_heads = transformer.held_kv_heads(shape, parallelism.tensor)
    width = where(shape.latent > 0, latent_width, kv_heads * shape.head_dim)
    return 4 * parallelism.tokens(job) * width / parallelism.tensor


def head_volumes(shape: Shape, job: Job, parallelism: Parallelism, away: Array) -> tuple[Array, Array]:
    """Bytes that a rank sends, inside its domain and outside it, so that each gets all tokens of some heads [B].

    Queries, keys and values of T tokens go out, (2H + 2K)·d_h/t with the attention's output that comes back, 2 bytes
    each: (c - 1)/c of them to other ranks, a share w to those in other domains.

    Source: Jacobs et al., "DeepSpeed Ulysses", 2023, section 3.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> head_volumes(MODEL, JOB, Parallelism(context=2.0), 0.0)  # half of 500 tokens · 2 B · 4,000
    (2000000.0, 0.0)
    """
    kv_heads = transformer.held_kv_heads(shape, parallelism.tensor)
    width = shape.heads * (shape.score_dim + shape.output_dim) + 2 * kv_heads * shape.head_dim
    sent = 2 * parallelism.tokens(job) * width / parallelism.tensor
    return sent * (parallelism.context - 1) / parallelism.context, sent * away


def expert_volumes(
    shape: Shape, job: Job, parallelism: Parallelism, software: Software, domains: Array, away: Array
) -> tuple[Array, Array]:
    """Bytes that a rank sends to experts inside its domain and outside it, in one direction [B].

    Inside each of k copies of T/t tokens goes to one of e ranks, and to every part of its expert. To the other D - 1
    domains, which have a share w of the ranks, go k·w copies of a token; of a dispatcher that sends it once to each
    domain, (D - 1)(1 - (1 - w/(D - 1))^k), or where its experts are limited to M of G groups, each of D/G domains or in
    one, what k experts reach of N = M·max(D/G, 1) domains, w·N·(1 - (1 - 1/N)^k). Where every rank gathers every token,
    k is e inside, and outside go D - 1. On the way to the experts a value has 2 bytes, or 1 in FP8, and 2 on the way
    back: their mean counts. All with the load of the busiest rank.

    Source: Lepikhin et al., "GShard", 2020, section 3; DeepSeek-AI, "DeepSeek-V3", 2024, section 3.2.2 (once for each
    node).

    >>> from app.formulas.training.examples import EXPERTS, JOB
    >>> expert_volumes(EXPERTS, JOB, Parallelism(expert=8.0), Software(), 1.0, 0.0)  # 7/8 of two copies of 2 MB
    (3500000.0, 0.0)
    >>> expert_volumes(EXPERTS, JOB, Parallelism(expert=8.0), Software(gathers_tokens=1.0), 1.0, 0.0)[0]  # 7 · 2 MB
    14000000.0
    """
    k = where(software.gathers_tokens > 0, parallelism.expert, shape.experts_per_token)
    others = domains - 1
    distinct = others * (1 - (1 - away / maximum(others, 1e-9)) ** k)
    if any_(shape.node_limit > 0):
        reach = maximum(shape.node_limit * maximum(domains / maximum(shape.expert_groups, 1), 1), 1)
        limited = reach * (1 - (1 - 1 / reach) ** k) * away
        distinct = where(shape.node_limit > 0, minimum(distinct, limited), distinct)
    once = where(software.gathers_tokens > 0, others, distinct)
    remote = where(software.deduplicates + software.gathers_tokens > 0, once, k * away)
    sent = (
        (1 + software.dispatch_bytes / 2)
        * (parallelism.tokens(job) / parallelism.tensor)
        * shape.hidden
        * job.imbalance
    )
    inside = sent * k * ((parallelism.expert - 1) / parallelism.expert + (parallelism.expert_tensor - 1))
    return inside, sent * remote


def pipeline_volume(shape: Shape, job: Job, parallelism: Parallelism) -> Array:
    """Bytes of activations that a rank sends to the next stage, 2·T·h/t [B].

    Source: Narayanan et al., SC21, section 4.1 (the ranks of a tensor-parallel group each send a share).

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> pipeline_volume(MODEL, JOB, Parallelism(tensor=8.0))
    250000.0
    """
    return 2 * parallelism.tokens(job) * shape.hidden / parallelism.tensor


def embedding_volume(shape: Shape, job: Job, parallelism: Parallelism) -> Array:
    """Bytes of the gradients of a rank's part of an embedding, g·V·h/t [B].

    Source: Narayanan et al., SC21, section 3.2 (the part).

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> float(embedding_volume(MODEL, JOB, Parallelism(tensor=8.0)))  # 4 bytes of 100 M parameters over 8
    50000000.0
    """
    return job.gradient_bytes * shape.vocabulary * shape.hidden / parallelism.tensor


# Times of a layer ----------------------------------------------------------------------------------------------------


def layer_exchanges(
    shape: Shape, job: Job, parallelism: Parallelism, software: Software, links: Links, grouping: Groups = EACH
) -> LayerExchanges:
    """What one layer and micro-batch exchanges, each exchange once.

    Args:
        shape, job, parallelism, software, links: the model, a step of it, how it is spread, the stack, the cluster.
        grouping: how groups are made.

    Returns:
        Tensor-, context- and expert-parallel exchanges, none where a degree is one [s].

    Source: Narayanan et al., SC21, section 3.2; Liu et al. 2023, section 3; Lepikhin et al. 2020, section 3.

    >>> from app.formulas.training.examples import JOB, LINKS, MODEL
    >>> spread = Parallelism(tensor=8.0, sequence_parallel=1.0)
    >>> times = layer_exchanges(MODEL, JOB, spread, Software(), LINKS)
    >>> round(1e6 * float(times.tensor.time), 3)  # scatter and gather of 2 MB: 2 · 7/8 · 20 µs
    35.0
    """
    return exchanged_by(layer_groups(shape, parallelism, links, grouping), shape, job, parallelism, software)


class LayerGroups(NamedTuple):
    """Who exchanges within a layer; none where a degree is one.

    Attributes:
        tensor, context: ranks of a tensor- and of a context-parallel group.
        neighbours: two of the latter that follow one another.
        expert: ranks of an expert-parallel group.
    """

    tensor: Group | None
    context: Group | None
    neighbours: Group | None
    expert: Group | None


def layer_groups(shape: Shape, parallelism: Parallelism, links: Links, grouping: Groups = EACH) -> LayerGroups:
    """Who exchanges within a layer: clusters whose groups stand alike have the same.

    Args:
        shape, parallelism, links: the model, how it is spread, the cluster.
        grouping: how groups are made.

    Returns:
        The groups of each kind of parallelism whose degree is more than one [1].

    Source: as for :func:`app.formulas.training.groups.layer_axes`.

    >>> from app.formulas.training.examples import LINKS, MODEL
    >>> larger = Links(LINKS.interconnect, LINKS.site._replace(gpus=128.0))
    >>> layer_groups(MODEL, Parallelism(tensor=8.0), LINKS) == layer_groups(MODEL, Parallelism(tensor=8.0), larger)
    True
    """
    axes = layer_axes(parallelism)
    tensor = context = neighbours = expert = None
    if any_(parallelism.tensor > 1):
        tensor = grouping.group_of(links, axes["tensor_parallel"], exchanging=False)
    if any_(parallelism.context > 1):
        ring = axes["context_parallel"]
        context = grouping.group_of(links, ring, any_(parallelism.context_exchange != RING))
        neighbours = grouping.pair_of(links, context.crosses, _chain_share(ring, links), bridged(links, ring))
    if any_(shape.expert_share > 0) and any_(parallelism.expert * parallelism.expert_tensor > 1):
        expert = grouping.group_of(links, axes["expert_parallel"])
    return LayerGroups(tensor, context, neighbours, expert)


def exchanged_by(
    groups: LayerGroups, shape: Shape, job: Job, parallelism: Parallelism, software: Software
) -> LayerExchanges:
    """What some groups exchange in one layer and micro-batch, see `layer_exchanges`.

    Args:
        groups: who exchanges.
        shape, job, parallelism, software: the model, a step of it, how it is spread, the stack.

    Returns:
        Tensor-, context- and expert-parallel exchanges, none where there is no group [s].

    Source: as for :func:`layer_exchanges`.

    >>> from app.formulas.training.examples import JOB, MODEL
    >>> exchanged_by(LayerGroups(None, None, None, None), MODEL, JOB, Parallelism(), Software()).tensor.time
    0.0
    """
    tensor = context = expert = NOTHING
    if group := groups.tensor:
        tensor = Exchange(_tensor_time(group, tensor_volume(shape, job, parallelism), parallelism), group.crosses)
    if (ring := groups.context) and groups.neighbours:
        volume = context_volume(shape, job, parallelism)
        time = (parallelism.context - 1) * send_time(groups.neighbours, volume)
        if any_(parallelism.context_exchange != RING):
            gathered = collective_time(ring, "all-gather", parallelism.context * volume)
            heads = exchange_time(ring, *head_volumes(shape, job, parallelism, ring.machine.away))
            other = where(parallelism.context_exchange == ALL_GATHER, gathered, heads)
            time = where(parallelism.context_exchange == RING, time, other)
        context = Exchange(time, ring.crosses)
    if group := groups.expert:
        m = group.machine
        volumes = expert_volumes(shape, job, parallelism, software, m.domains, m.away)
        expert = Exchange(exchange_time(group, *volumes), group.crosses)
    return LayerExchanges(tensor, context, expert)


def _tensor_time(group: Group, volume: Array, parallelism: Parallelism) -> Array:
    """An all-reduce, or with sequence parallelism a reduce-scatter and an all-gather [s]."""
    split = parallelism.sequence_parallel > 0
    pieces = 2 * collective_time(group, "all-gather", volume) if any_(split) else 0.0
    unsplit = (parallelism.sequence_parallel <= 0) & (parallelism.tensor > 1)
    whole = collective_time(group, "all-reduce", volume) if any_(unsplit) else 0.0
    return where(split, pieces, whole)


# Times of a step -----------------------------------------------------------------------------------------------------


def step_exchanges(
    shape: Shape, job: Job, parallelism: Parallelism, software: Software, links: Links, bucket: Array
) -> StepExchanges:
    """What is exchanged beyond a layer, the time of each exchange by itself [s].

    Source: Narayanan et al., SC21, section 4.1 (stages); for replicas see `replica_exchanges`.

    >>> from app.formulas.training.examples import JOB, LINKS, MODEL
    >>> far = step_exchanges(MODEL, JOB, Parallelism(tensor=8.0, pipeline=2.0), Software(), LINKS, 1e9).pipeline
    >>> round(1e6 * float(far.time), 3), far.crosses  # 250 kB at 10 GB/s
    (25.0, 1.0)
    """
    among_replicas = replica_exchanges(shape, job, parallelism, software, links, bucket)
    if not any_(parallelism.pipeline > 1):
        return among_replicas
    far, network = stage_place(parallelism, links)
    time = send_time(pair_of(links, far, network), pipeline_volume(shape, job, parallelism))
    tied = embedding_exchange(shape, job, parallelism, links)
    return but(among_replicas, pipeline=Exchange(time, far), embedding=tied)


def embedding_exchange(shape: Shape, job: Job, parallelism: Parallelism, links: Links) -> Exchange:
    """The sum of the gradients of an embedding that is the output head too, between the first stage and the last.

    Of g bytes for each of V·h/t parameters each sends all to the other. None where both are on one rank: in a pipeline
    that is entered from both ends, and where there is none.

    Returns:
        Its time by itself [s].

    Source: Narayanan et al., SC21; NVIDIA, Megatron-Core, ``finalize_model_grads``.

    >>> from dataclasses import replace
    >>> from app.formulas.training.examples import JOB, LINKS, MODEL
    >>> tied = embedding_exchange(replace(MODEL, tied=1.0), JOB, Parallelism(tensor=8.0, pipeline=2.0), LINKS)
    >>> round(1e3 * float(tied.time), 3)  # 4 bytes of 100 M parameters over 8, at 10 GB/s
    5.0
    """
    p = parallelism
    apart = (shape.tied > 0) & (p.pipeline > 1) & (p.bidirectional <= 0)
    if not any_(apart):
        return NOTHING
    far, network = stage_place(p, links)
    time = send_time(pair_of(links, far, network), embedding_volume(shape, job, p))
    return Exchange(where(apart, time, 0.0), far)


def stage_place(parallelism: Parallelism, links: Links) -> tuple[Array, Array]:
    """Whether stages are in several domains, and the share of the network rate that they are left with [1].

    Source: see `network_share`.

    >>> from app.formulas.training.examples import LINKS
    >>> stage_place(Parallelism(tensor=8.0, pipeline=2.0), LINKS)
    (1.0, 1.0)
    """
    stride, p = stage_stride(parallelism), parallelism.pipeline
    network = _chain_share([(stride, p)], links)
    return where(slowest_split([(stride, p)], links.interconnect.domain, links.site.gpus).units > 1, 1.0, 0.0), network


def _chain_share(axes: Sequence[Axis], links: Links) -> Array:
    """Share of the network rate of a group whose ranks send each to the next: one alone of a domain sends out of it."""
    return network_share(axes, "ring", links.site, lanes=1.0) if links.site.matters else 1.0


def replica_exchanges(
    shape: Shape,
    job: Job,
    parallelism: Parallelism,
    software: Software,
    links: Links,
    bucket: Array,
    grouping: Groups = EACH,
) -> StepExchanges:
    """What the ranks that hold the same parameters exchange, the time of each exchange by itself [s].

    Gradients and weights of a step, or where parameters are sharded too a layer's gathers and scatter, with its
    share of the embeddings.

    Args:
        shape, job, parallelism, software, links: the model, a step of it, how it is spread, the stack, the cluster.
        bucket: bytes that are exchanged at a time [B].
        grouping: how groups are made.

    Source: Rajbhandari et al., "ZeRO", 2020, section 7.

    >>> from app.formulas.training.examples import JOB, LINKS, MODEL
    >>> times = replica_exchanges(MODEL, JOB, Parallelism(data=8.0), Software(), LINKS, 1e10)
    >>> round(1e3 * float(times.data.time), 2)  # all-reduce of 320 M gradients of 4 bytes: 7/4 · 12.8 ms
    22.4
    """
    p = parallelism
    deep, _ = p.stage_layers(shape.depth)
    held = transformer.held_parameters(shape, p.tensor, p.pipeline, p.expert, p.expert_tensor, deep)
    summed = any_((p.sharding <= 2) & (maximum(p.replicas, p.expert_replicas) > 1))
    gathered = any_((p.sharding > 2) & (p.replicas > 1))
    if not (summed or gathered):
        return StepExchanges()
    copied = _copied(held, p, links, grouping)
    by_name = _gradients(held, job, p, copied, bucket) if summed else {}
    if gathered:
        part = but(held, layer=held.gathered(deep))
        by_name |= _gathers(part, software, copied) | _among_groups(part, p, links, grouping)
    return StepExchanges(**by_name)


class _Copied(NamedTuple):
    """The ranks over which gradients are summed or, where parameters are sharded, those are gathered.

    Attributes:
        dense: those that hold the same parameters.
        expert: those that hold the same routed experts; the same as `dense` where there are none.
    """

    dense: Group
    expert: Group


def _copied(held: Held, p: Parallelism, links: Links, grouping: Groups) -> _Copied:
    """All replicas, or those that share parameters."""
    sharded, sharers = p.sharding > 2, maximum(p.sharers, 1.0)
    dense = grouping.group_of(links, copies(p, p.tensor, where(sharded, sharers, p.replicas)), exchanging=False)
    if not any_(held.expert > 0):
        return _Copied(dense, dense)
    same = where(sharded, p.expert_sharers, p.expert_replicas)
    return _Copied(dense, grouping.group_of(links, copies(p, p.expert * p.expert_tensor, same), exchanging=False))


def gradient_exchange_time(group: Group, count: Array, job: Job, sharding: Array, bucket: Array) -> Array:
    """Time of one exchange of gradients and weights between the ranks that hold the same parameters.

    An all-reduce of g bytes for each parameter; with a sharded optimizer a reduce-scatter of g and an all-gather of 2,
    the new weights. In buckets of S/n bytes, one after the other: n·T(S/n).

    Args:
        group: these ranks.
        count: parameters [1].
        job: its gradient has g bytes.
        sharding: 0 nothing, 1 and more the optimizer's state [1].
        bucket: bytes that are exchanged at a time [B].

    Returns:
        Time with nothing else on the links [s].

    Source: Rajbhandari et al., "ZeRO", 2020, section 7 (the volumes); Li et al., "PyTorch distributed", 2020, section
    3.2.3 (the buckets).

    >>> from app.formulas.collectives.group_times import group_of
    >>> from app.formulas.training.examples import JOB, LINKS
    >>> node = group_of(LINKS, [(1.0, 8.0)])
    >>> round(float(gradient_exchange_time(node, 1e9, JOB, 0.0, 1e9)), 6)  # all-reduce of 4 GB at 100 GB/s: 7/4 · 40 ms
    0.07
    >>> round(float(gradient_exchange_time(node, 1e9, JOB, 1.0, 1e9)), 6)  # scatter 4 GB, gather 2 GB: 7/8 · 60 ms
    0.0525
    """

    def bucketed(collective: str, size: Array) -> Array:
        return maximum(size / bucket, 1.0) * collective_time(group, collective, minimum(size, bucket))

    sharded = sharding > 0
    whole = bucketed("all-reduce", job.gradient_bytes * count) if any_(sharding <= 0) else 0.0
    if not any_(sharded):
        return whole
    scattered, gathered = job.gradient_bytes * count, 2.0 * count
    if any_(minimum(scattered, gathered) < bucket):
        pieces = bucketed("reduce-scatter", scattered) + bucketed("all-gather", gathered)
    else:  # buckets are full, and take one way as long as the other
        full = collective_time(group, "all-gather", bucket)
        pieces = scattered / bucket * full + gathered / bucket * full
    return where(sharded, pieces, whole)


def _gradients(held: Held, job: Job, p: Parallelism, copied: _Copied, bucket: Array) -> dict[str, Exchange]:
    """Gradients and weights of a step, of all stages held; the ranks that hold the same experts exchange theirs."""
    group = copied.dense
    dense = gradient_exchange_time(group, p.stages_held * held.dense, job, p.sharding, bucket)
    by_name = {"data": Exchange(where(p.replicas > 1, dense, 0.0), group.crosses)}
    if any_(held.expert > 0):
        group = copied.expert
        time = gradient_exchange_time(group, p.stages_held * maximum(held.expert, 1.0), job, p.sharding, bucket)
        by_name["expert_data"] = Exchange(where(held.expert > 0, time, 0.0), group.crosses)
    return by_name


def _gathers(held: Held, software: Software, copied: _Copied) -> dict[str, Exchange]:
    """Fully sharded parameters of a layer: two gathers and a reduction; routed experts over the ranks that share them.

    A flat ring over one network card, as in 2021, is as narrow as that card.
    """
    group, experts = copied
    common = held.layer - held.routed
    by_name = {"gather": Exchange(3 * collective_time(group, "all-gather", 2 * common), group.crosses)}
    if any_(held.routed > 0):
        time = 3 * collective_time(experts, "all-gather", 2 * maximum(held.routed, 1.0))
        by_name["expert_gather"] = Exchange(where(held.routed > 0, time, 0.0), experts.crosses)
    if any_(software.flat_sharding > 0):
        time = 3 * flat_gather_time(group, 2 * held.layer)
        by_name["flat_gather"] = Exchange(time, group.crosses)
    return by_name


def _among_groups(held: Held, p: Parallelism, links: Links, grouping: Groups) -> dict[str, Exchange]:
    """The all-reduce of a layer's gradients among the groups that have a whole copy each: 2 bytes of a rank's share."""
    if not any_((p.sharding > 2) & (p.sharers < p.replicas)):
        return {}

    def summed(count: Array, replicas: Array, sharers: Array, stride: Array) -> Exchange:
        groups = maximum(replicas / sharers, 1.0)
        apart = grouping.group_of(links, copies(p, stride * sharers, groups), exchanging=False)
        time = collective_time(apart, "all-reduce", 2 * maximum(count, 1.0) / sharers)
        return Exchange(where((groups > 1) & (count > 0), time, 0.0), apart.crosses)

    by_name = {"share": summed(held.layer - held.routed, p.replicas, maximum(p.sharers, 1.0), p.tensor)}
    if any_(held.routed > 0):
        by_name["expert_share"] = summed(held.routed, p.expert_replicas, p.expert_sharers, p.expert * p.expert_tensor)
    return by_name


def flat_gather_time(group: Group, volume: Array) -> Array:
    """Time of an all-gather in one ring that leaves each domain over a single network card, (n - 1)/n·S/B + L.

    Args:
        group: who takes part.
        volume: the gathered total, S [B].

    Returns:
        Time with nothing else on the links [s].

    Source: Microsoft, DeepSpeed 0.3 (parameters of ZeRO-3 in flat buffers, one ring); the ring as in the library.

    >>> from app.formulas.collectives.group_times import group_of
    >>> from app.formulas.training.examples import LINKS
    >>> round(float(flat_gather_time(group_of(LINKS, [(1.0, 16.0)]), 16e9)), 6)  # 15 GB at 10 GB/s
    1.5
    """
    return collective_time(group.over_one_card(), "all-gather", volume)
