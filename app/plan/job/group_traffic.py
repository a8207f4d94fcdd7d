"""What each group of a step sends where: the tiers it crosses, the bytes, the rate that it has there, the time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.formulas import transformer
from app.formulas.arrays import Array, maximum, minimum, where
from app.formulas.collectives.group_times import Links, group_of
from app.formulas.collectives.ideal import Machine
from app.formulas.fabric.placement import Axis, group_size, members
from app.formulas.training import arguments, exchanges, groups
from app.plan.job.inputs import StepInputs
from app.plan.result import GroupTraffic


class Alone(NamedTuple):
    """The exchanges of one kind of group in a step: their time [s], what a GPU sends inside and between domains [B]."""

    time: Array
    inside: Array
    across: Array

    def times(self, count: Array) -> "Alone":
        """So many of them."""
        return Alone(*(count * part for part in self))

    def and_also(self, others: "Alone") -> "Alone":
        """These and others, one after the other."""
        return Alone(*(one + other for one, other in zip(self, others, strict=True)))


NOTHING = Alone(0.0, 0.0, 0.0)


def group_traffic(
    inputs: StepInputs,
    par: arguments.Parallelism | None,
    exchanged: exchanges.Exchanges | None,
    exposed: Mapping[str, float],
) -> Iterator[GroupTraffic]:
    """The groups of a configuration that send anything, from its exchanges and what shows of each in the step [s]."""
    if par is None or exchanged is None:
        return
    site, links = inputs.links.site, inputs.links
    alone = step_alone(inputs, par, exchanged)
    for name, axes in groups.axes_of(par).items():
        size, sent = float(group_size(axes)), alone[name]
        if size <= 1 or not sent.time > 0:
            continue
        inside = [
            float(group_of(links, axes).machine.ranks_per_domain),
            *(float(members(axes, unit)) for unit in (site.leaf, site.pod)),
        ]
        crossed = next((tier for tier, ranks in zip(TIERS, inside, strict=False) if ranks >= size), TIERS[-1])
        yield GroupTraffic(
            group=name,
            ranks=round(size),
            ranks_inside=round(inside[0]),
            crosses=crossed,
            sent_inside=float(sent.inside) if inside[0] > 1 else 0.0,
            sent=float(sent.across),
            bandwidth=_bandwidth(group_of(links, axes).machine, name, sent, links.interconnect.ideal),
            time=float(sent.time),
            exposed=exposed.get(name, 0.0),
        )


TIERS = ("scale_up", "leaf", "spine", "core")
"""Where a group stays: in a domain, below a leaf, below the spines of a pod, anywhere."""


def _bandwidth(m: Machine, name: str, sent: Alone, ideal: bool) -> float:
    """What the link that takes longest over what a GPU of a group sends there leaves it [B/s]."""
    wires = minimum((m.ranks_per_domain - 1) / maximum(m.mesh_peers, 1.0), 1.0)
    inside = float(wires * (m.scale_up_line if ideal else m.scale_up_rate))
    share = m.exchange_network if name == "expert_parallel" else m.ring_network
    across = float((m.scale_out_line if ideal else m.scale_out_rate) * share)
    near, far = float(sent.inside), float(sent.across)
    return inside if m.ranks_per_domain > 1 and (not far or near * across >= far * inside) else across


def _ring(links: Links, axes: Sequence[Axis], volume: Array) -> tuple[Array, Array]:
    """What a GPU of a ring sends inside and between domains, of so many bytes that go round [B]."""
    size, m = group_size(axes), group_of(links, axes).machine
    near = where(m.ranks_per_domain > 1, volume * (size - 1) / size, 0.0)
    return near, volume / m.fewest * (m.domains - 1) / m.domains


class Copied(NamedTuple):
    """Parameters, how far apart the ranks are that hold them, how many these are, and how many share a copy [1]."""

    parameters: Array
    stride: Array
    ranks: Array
    sharers: Array


def _copied(par: arguments.Parallelism, common: Array, routed: Array) -> tuple[Copied, Copied]:
    """Those that replicas have in common, and those of routed experts."""
    return (
        Copied(common, par.tensor, par.replicas, par.sharers),
        Copied(routed, par.expert * par.expert_tensor, par.expert_replicas, par.expert_sharers),
    )


def _summed(links: Links, par: arguments.Parallelism, copied: Iterable[Copied], width: Array) -> tuple[Array, Array]:
    """What a GPU sends inside and between domains for gradients and new weights, of so many bytes together [B]."""
    sent = (_ring(links, groups.copies(par, each.stride, each.ranks), width * each.parameters) for each in copied)
    return _sum(sent)


def _sharded(links: Links, par: arguments.Parallelism, copied: Iterable[Copied]) -> tuple[Array, Array]:
    """Parameters of a layer gathered twice and their gradients scattered; where a group of replicas shares a copy,
    inside it, and a rank's share of the gradients summed among such groups [B].
    """
    sent = []
    for each in copied:
        sent.append(_ring(links, groups.copies(par, each.stride, each.sharers), 6 * each.parameters))
        if each.sharers < each.ranks:
            others = groups.copies(par, each.stride * each.sharers, each.ranks / each.sharers)
            sent.append(_ring(links, others, 4 * each.parameters / each.sharers))
    return _sum(sent)


def _sum(sent: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    inside, across = zip(*sent, strict=True)
    return sum(inside), sum(across)


def step_alone(inputs: StepInputs, par: arguments.Parallelism, exchanged: exchanges.Exchanges) -> dict[str, Alone]:
    """What the exchanges of each kind of group take in a step by themselves, and what a GPU sends for them.

    Backward as much as forward, and tokens and keys twice; a ring sends (n - 1)/n of the bytes inside a domain, and of
    a rank's share (M - 1)/M between domains.
    """
    shape, job, links = inputs.shape, inputs.job, inputs.links
    axes, micro_batches, deep = groups.axes_of(par), par.micro_batches(job), par.stage_layers(shape.depth)[0]
    layers = micro_batches * deep
    again = par.recompute

    def ring(name: str, volume: Array, time: Array) -> Alone:
        return Alone(time, *_ring(links, axes[name], volume))

    def chain(volume: Array, exchange: exchanges.Exchange) -> Alone:
        near = where(exchange.crosses > 0, 0.0, volume)
        return Alone(exchange.time, near, volume - near)

    layer, whole = exchanged.layer, exchanged.step
    tensor = ring("tensor_parallel", 2 * exchanges.tensor_volume(shape, job, par), layer.tensor.time)
    keys_sent = tokens_sent = NOTHING
    if par.context > 1:
        own_keys = exchanges.context_volume(shape, job, par)
        if par.context_exchange == arguments.ALL_TO_ALL:
            away = group_of(links, axes["context_parallel"]).machine.away
            heads = exchanges.head_volumes(shape, job, par, away)
            keys_sent = Alone(layer.context.time, *heads).times(2 + again)
        elif par.context_exchange == arguments.ALL_GATHER:
            keys_sent = ring("context_parallel", par.context * own_keys, layer.context.time).times(3 + again)
        else:
            keys_sent = chain((par.context - 1) * own_keys, layer.context).times(3 + again)
    if par.expert * par.expert_tensor > 1:
        m = group_of(links, axes["expert_parallel"]).machine
        volumes = exchanges.expert_volumes(shape, job, par, inputs.software, m.domains, m.away)
        tokens_sent = Alone(layer.expert.time, *volumes)
    held = transformer.held_parameters(shape, par.tensor, par.pipeline, par.expert, par.expert_tensor, deep)
    weights = 2.0 if par.sharding > 0 else job.gradient_bytes
    gathers = 0.0 if par.sharding <= 2 else par.stages_held if par.pipeline > 1 else micro_batches
    gathered = whole.flat_gather if inputs.software.flat_sharding > 0 else whole.gather
    gather_time = gathered.time + whole.expert_gather.time + whole.share.time + whole.expert_share.time
    if par.sharding > 2:
        of_layer = _copied(par, held.gathered(deep) - held.routed, held.routed)
        data = Alone(gather_time, *_sharded(links, par, of_layer)).times(gathers * deep)
    else:
        of_stage = _copied(par, held.dense, held.expert)
        sent = _summed(links, par, of_stage, par.stages_held * (job.gradient_bytes + weights))
        data = Alone(whole.data.time + whole.expert_data.time, *sent).times(
            1 + par.scatters_gradients(inputs.software) * (micro_batches - 1)
        )
    activations = chain(exchanges.pipeline_volume(shape, job, par), whole.pipeline)
    staged = activations.times(micro_batches * 2 * par.virtual_pipeline)
    if whole.embedding.time > 0:
        staged = staged.and_also(chain(exchanges.embedding_volume(shape, job, par), whole.embedding))
    return {
        "tensor_parallel": tensor.times(layers * exchanges.tensor_sums(shape) * (2 + again)),
        "context_parallel": keys_sent.times(layers),
        "expert_parallel": tokens_sent.times(layers * shape.expert_share * (4 + 2 * again)),
        "pipeline_parallel": staged,
        "data_parallel": data,
    }
