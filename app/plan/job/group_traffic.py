"""What each group of a step sends where: the tiers it crosses, the bytes, the rate that it has there, the time."""

from collections.abc import Iterator, Mapping, Sequence
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
    return volume * (size - 1) / size, volume / m.fewest * (m.domains - 1) / m.domains


def _sharded(inputs: StepInputs, par: arguments.Parallelism, layer: Array, time: Array) -> Alone:
    """Parameters of a layer gathered twice and their gradients scattered; where a group of replicas shares a copy,
    inside it, and a rank's share of the gradients summed among such groups.
    """
    links, sharers = inputs.links, par.sharers
    inside, across = _ring(links, groups.copies(par, par.tensor, sharers), 6 * layer)
    if sharers < par.replicas:
        others = groups.copies(par, par.tensor * sharers, par.replicas / sharers)
        near, far = _ring(links, others, 4 * layer / sharers)
        inside, across = inside + near, across + far
    return Alone(time, inside, across)


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
    volume = (job.gradient_bytes + weights) * (held.dense + held.expert)
    gathers = 0.0 if par.sharding <= 2 else 1.0 if par.pipeline > 1 else micro_batches
    gathered = whole.flat_gather if inputs.software.flat_sharding > 0 else whole.gather
    gather_time = gathered.time + whole.expert_gather.time + whole.share.time + whole.expert_share.time
    if par.sharding > 2:
        data = _sharded(inputs, par, held.gathered(deep), gather_time).times(gathers * deep)
    else:
        data = ring("data_parallel", volume, whole.data.time + whole.expert_data.time).times(
            1 + par.scatters_gradients(inputs.software) * (micro_batches - 1)
        )
    return {
        "tensor_parallel": tensor.times(layers * (2 - shape.expert_share) * (2 + again)),
        "context_parallel": keys_sent.times(layers),
        "expert_parallel": tokens_sent.times(layers * shape.expert_share * (4 + 2 * again)),
        "pipeline_parallel": chain(exchanges.pipeline_volume(shape, job, par), whole.pipeline).times(
            micro_batches * 2 * par.virtual_pipeline
        ),
        "data_parallel": data,
    }
