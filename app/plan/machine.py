"""Catalogue entries in, the machine of the collectives out: links, latencies and what libraries reach on them.

A `CollectiveSystem` is what a plan and a published run have in common; `machine` serves plan, explorer, training step
and accuracy report alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Gpu, ScaleUp
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog, architecture_group
from app.catalog.sampling import TYPICAL, Sampled, Sampling
from app.formulas import tail
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import Calibration
from app.formulas.records import but
from app.plan.cluster import Cluster
from app.plan.scenario import NetworkRequest

RDMA_ETHERNET = ("roce", "spectrum-x", "ultra-ethernet")
TRANSPORTS = ("infiniband", "efa", "slingshot", "gpudirect-tcp", "tcp", "omni-path")


@dataclass(frozen=True)
class Transport:
    """The network between nodes as one GPU meets it.

    Attributes:
        family: of the generation, such as infiniband or roce.
        rate: line rate of one GPU's share of the ports, one direction [B/s].
        hop: a hop over the same with the family's first adapters of that rate [1].
        gpudirect: RDMA straight to GPU memory.
        tuned: an Ethernet with flow or congestion control.
        drops: full queues drop packets now and then, as congestion control alone lets them.
        in_network_reduction: the switches sum.
        left: share of the rate that the GPU with a degraded link has left [1].
        loss: share of packets that this link loses [1].
    """

    family: str
    rate: float | Estimate
    hop: float | Estimate = 1.0
    gpudirect: bool = True
    tuned: bool = True
    drops: bool = False
    in_network_reduction: bool = False
    left: float = 1.0
    loss: float = 0.0


PAUSED = ("roce", "spectrum-x")
"""Families whose queues drop packets unless Ethernet's flow control pauses their senders."""
CREDITED = ("infiniband", "omni-path", "slingshot")
"""Families whose senders wait for credits."""


class Controls(NamedTuple):
    """What keeps queues from overflowing, and what from filling."""

    flow: str
    congestion: str


def usual_controls(family: str, tuned: bool) -> Controls:
    """What a network of a family has unless told otherwise.

    InfiniBand has credits. RoCE that is tuned has PFC and ECN, Spectrum-X PFC and its own control; untuned neither.
    Ultra Ethernet, EFA and TCP drop and send again, and slow down by controls of their own.
    """
    if family in CREDITED:
        return Controls("credits", "own")
    if family in RDMA_ETHERNET and not tuned:
        return Controls("none", "none")
    return Controls("pfc" if family in PAUSED else "none", "ecn" if family == "roce" else "own")


def controls(family: str, request: NetworkRequest) -> Controls:
    """Flow and congestion control as asked, else as usual."""
    usual = usual_controls(family, request.tuned)
    return Controls(request.flow_control or usual.flow, request.congestion_control or usual.congestion)


def transport_of(cluster: Cluster, request: NetworkRequest) -> Transport:
    """The network that was asked for as one GPU of a cluster meets it, all its links sound."""
    scale_out = cluster.scale_out
    flow, congestion = controls(scale_out.family, request)
    return Transport(
        family=scale_out.family,
        rate=cluster.rate_per_gpu,
        hop=scale_out.library_hop or 1.0,
        gpudirect=request.gpudirect,
        tuned=not flow == congestion == "none",
        drops=scale_out.family in PAUSED and flow == "none" != congestion,
        in_network_reduction=request.in_network_reduction and scale_out.in_network_reduction,
    )


@dataclass(frozen=True)
class CollectiveSystem:
    """Hardware of one kind, whatever the number of nodes.

    Attributes:
        gpu: key of the accelerator.
        scale_up: key of the link between GPUs.
        wiring: switch, mesh, bridge, peer-to-peer, host or no-peer-to-peer.
        domain: GPUs that reach one another over the scale-up link [1].
        gpus_per_node: GPUs used in each node [1].
        transport: the network between nodes.
        one_process: one process drives all GPUs of a node.
        recorded: calls are recorded in CUDA graphs, which launch nothing and have kernels of their own.
    """

    gpu: str
    scale_up: str
    wiring: str
    domain: int
    gpus_per_node: int
    transport: Transport
    one_process: bool = False
    recorded: bool = False


@lru_cache(maxsize=64)
def calibration(catalog: Catalog, sampling: Sampling = TYPICAL) -> Calibration:
    """The constants of the library, from the catalogue.

    Kept: it takes 16 µs of each all-reduce, and depends on the catalogue alone.
    """
    library = catalog.collectives["library"]
    return Calibration(**{entry.name: sampling(library[entry.name]) for entry in fields(Calibration)})


def machine(
    system: CollectiveSystem, nodes: float | NDArray[np.float64], sampling: Sampling, catalog: Catalog
) -> Machine:
    """So many nodes of a system, in as few domains as hold them; an array sweeps, its axes before the draws.

    Where they do not fill these, hops are those of a full one, and ports those of nodes that stand evenly.
    """
    kind = hardware_kind(system, sampling, catalog)
    ranks = np.asarray(system.gpus_per_node * np.asarray(nodes, float))
    inside = np.minimum(kind.machine.ranks_per_domain, ranks)
    domains = np.ceil(ranks / inside)
    missing, emptiest = inside * domains - ranks, ranks / domains
    joined = but(kind.machine, ranks_per_domain=inside, domains=domains, missing=missing, emptiest=emptiest)
    if kind.node_wait is not None:
        wait = np.where((domains <= 1) & (np.asarray(nodes) > 1), kind.node_wait, 0.0)
        joined = but(joined, scale_up_hop=joined.scale_up_hop + wait, hop_wait=wait)
    if kind.across is None:
        return joined
    return but(
        joined,
        scale_up_rate=np.where(domains > 1, kind.across.rate, joined.scale_up_rate),
        scale_up_hop=np.where(domains > 1, kind.across.hop, joined.scale_up_hop),
    )


def side_by_side(machines: Sequence[Machine]) -> Machine:
    """Several machines as one, on an axis before the draws; what all of them have stays as it is."""

    def column(values: Sequence[Array]) -> Array:
        if len({*map(id, values)}) == 1:
            return values[0]
        rows = [np.asarray(value).reshape(-1) for value in values]
        return np.array(rows if len({*map(len, rows)}) == 1 else np.broadcast_arrays(*rows))

    numbers = [vars(each) for each in machines]
    return Machine(
        **dict(zip(numbers[0], map(column, zip(*(each.values() for each in numbers), strict=True)), strict=True))
    )


class Hop(NamedTuple):
    """What a link gives one GPU: its rate [B/s] and the time of a hop [s]."""

    rate: Array
    hop: Array


@dataclass(frozen=True)
class HardwareKind:
    """Hardware of one kind before its number of nodes is known.

    Attributes:
        machine: one domain, full.
        across: the link inside a domain when others take part, where it is another then.
        node_wait: what each hop of a domain takes longer with several nodes in it, where it joins any [s].
        used: the estimates it rests on.
    """

    machine: Machine
    across: Hop | None
    node_wait: Array | None
    used: tuple[Estimate, ...]


@lru_cache(maxsize=512)
def hardware_kind(system: CollectiveSystem, sampling: Sampling, catalog: Catalog) -> HardwareKind:
    """The machine of one full domain.

    Kept: it spares a plan 0.2 to 0.5 ms, as every message and number of nodes shares it.
    """
    constants = Sampled(catalog.collectives, sampling)
    node = _node(system, catalog)
    line = constants.take(node.link.bandwidth)
    host = constants.take(catalog.scale_up[node.card.pcie].bandwidth) if node.link.family == "pcie" else None
    network = _scale_out(constants, _through_slot(system.transport, node.card, catalog), host)
    inside = SCALE_UP[node.link.family](constants, node, line, network)
    family = system.transport.family
    streamed: Array = 0.0
    if family == "gpudirect-tcp":
        streamed = np.where(np.asarray(network.line) < constants("gpudirect-tcp", "fast_from"), 1.0, 0.0)
    launched_apart = system.one_process and not system.recorded
    one_domain = Machine(
        ranks_per_domain=float(node.reach),
        domains=1.0,
        scale_up_rate=inside.rate,
        multicast_rate=inside.multicast_rate,
        mesh_peers=inside.mesh_peers,
        scale_out_rate=network.rate,
        base_latency=inside.base_latency,
        scale_up_hop=inside.hop,
        scale_out_hop=network.hop * inside.network_hop,
        reference_hop=network.reference_hop * inside.network_hop,
        fill=inside.fill,
        fill_one_domain=inside.fill_one_domain,
        launch_floor=constants("library", "launch") * system.gpus_per_node if launched_apart else 0.0,
        ll128=float(node.link.family != "pcie"),
        in_network_reduction=constants("in-network", "share") if system.transport.in_network_reduction else 0.0,
        streamed=streamed,
        ring_share=constants("gpudirect-tcp", "ring_share") if family == "gpudirect-tcp" else 1.0,
        exits=constants("library", "rack_exits") if node.wide else np.inf,
        joining_rate=constants.take(node.card.memory_bandwidth) / inside.memory_passes,
        multicast_channels=inside.multicast_channels,
        chunk_cost=inside.chunk_cost,
        ll_fill=inside.ll_fill,
        **(_graph_kernels(constants, node.card, line, catalog) if system.recorded else {}),
        scale_up_line=line,
        scale_out_line=network.line * system.transport.left * network.goodput,
    )
    for value in vars(one_domain).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    node_wait = (constants("library", "chain_across") - 1) * inside.hop if node.wide else None
    return HardwareKind(one_domain, inside.across, node_wait, tuple(constants.used))


def of_gpu(catalog: Catalog, gpu: Gpu, name: str) -> Estimate:
    """A constant of serving's kernels on a GPU."""
    return catalog.serving[architecture_group(catalog.serving, gpu, name)][name]


def _graph_kernels(constants: Sampled, card: Gpu, line: Array, catalog: Catalog) -> dict[str, Array]:
    """The kernels that graphs record, in a `Machine`'s terms."""

    def take(name: str) -> Array:
        return constants.take(of_gpu(catalog, card, name))

    return {
        "kernel_latency": take("reduce_latency"),
        "kernel_doubling": take("reduce_doubling"),
        "one_shot_rate": take("one_shot") * line,
        "two_shot_rate": take("two_shot") * line,
        "two_shot_latency": take("two_shot_latency"),
    }


# The node ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """A node as a ring passes through it.

    Attributes:
        card: the accelerator.
        link: what carries the ring: PCIe where bridged pairs are fewer than the GPUs used.
        wiring: of that link.
        domain: GPUs that reach one another over the scale-up link [1].
        wide: the scale-up link joins nodes, as in a rack; a node that uses few of its GPUs is still one node.
        reach: GPUs in use that meet over the link: a domain, in a node its own; over PCIe all of a node [1].
    """

    card: Gpu
    link: ScaleUp
    wiring: str
    domain: int
    wide: bool
    reach: int


def _node(system: CollectiveSystem, catalog: Catalog) -> _Node:
    card = catalog.gpus[system.gpu]
    link = _link(system, card, catalog)
    wiring = system.wiring
    if link.family == "pcie" and wiring not in ("host", "no-peer-to-peer"):
        wiring = "peer-to-peer"
    node_gpus = max(system.gpus_per_node, catalog.platforms[card.platform].gpus_per_node)
    wide = link.family != "pcie" and system.domain > node_gpus
    in_node = system.gpus_per_node if link.family == "pcie" else min(system.domain, system.gpus_per_node)
    return _Node(card, link, wiring, system.domain, wide, system.domain if wide else in_node)


def bridge_of(system: CollectiveSystem, catalog: Catalog) -> CollectiveSystem | None:
    """The GPUs of one bridge by themselves, where a node has more, which meet over PCIe."""
    link, reach = _own_link(system, catalog.gpus[system.gpu], catalog)
    if system.wiring != "bridge" or link.family == "pcie" or not 1 < reach < system.gpus_per_node:
        return None
    return but(system, gpus_per_node=reach, domain=reach)


def _own_link(system: CollectiveSystem, card: Gpu, catalog: Catalog) -> tuple[ScaleUp, int]:
    """The scale-up link as a card has it, and the GPUs that it joins [1]."""
    link, gpu_link = catalog.scale_up[system.scale_up], catalog.scale_up[card.scale_up]
    if system.wiring == "bridge" and gpu_link.wiring == "bridge" and gpu_link.generation == link.generation:
        link = gpu_link
    elif system.wiring == "bridge" and f"{link.key}-bridge" in catalog.scale_up:
        link = catalog.scale_up[f"{link.key}-bridge"]
    return link, min(system.domain, link.largest_domain) if link.wiring == "bridge" else system.domain


def _link(system: CollectiveSystem, card: Gpu, catalog: Catalog) -> ScaleUp:
    link, reach = _own_link(system, card, catalog)
    through_host = system.wiring in ("host", "no-peer-to-peer")
    too_few = system.wiring in ("bridge", "peer-to-peer") and link.family != "pcie" and reach < system.gpus_per_node
    return catalog.scale_up[card.pcie] if through_host or too_few else link


# Between nodes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ScaleOut:
    """What the network gives a `Machine`, in its terms; ``fill`` is a factor on the fill of a domain.

    ``goodput`` is the share of the rate that arrives once where packets are lost.
    """

    line: Array
    rate: Array
    hop: Array
    reference_hop: Array
    fill: Array
    goodput: Array


RESENT_ALONE = ("ultra-ethernet", "efa", "slingshot")
"""Families whose adapters or links send a lost packet again alone; others send all behind it again, or are TCP."""


def goodput(transport: Transport, catalog: Catalog) -> float:
    """Share of its rate that arrives once, typically, where packets are lost [1]."""
    return float(np.asarray(_scale_out(Sampled(catalog.collectives, TYPICAL), transport, None).goodput))


def _goodput(constants: Sampled, transport: Transport, line: Array, rate: Array) -> Array:
    """Share of a rate on this line that arrives once where packets are lost."""
    family = transport.family
    loss = transport.loss + constants("loss", "overflow") if transport.drops else transport.loss
    if not np.any(np.asarray(loss) > 0):
        return 1.0
    round_trip = constants("loss", "round_trip")
    if family in ("tcp", "gpudirect-tcp"):
        connection = tail.tcp_rate(loss, constants("loss", "segment"), round_trip, constants("loss", "timeout"))
        return np.minimum(constants("flows", "sockets") * connection / rate, 1.0)
    window = 1.0 if family in RESENT_ALONE else line * round_trip / constants("loss", "packet")
    return tail.resent_share(loss, np.maximum(window, 1.0))


def _through_slot(transport: Transport, card: Gpu, catalog: Catalog) -> Transport:
    """The network at no more than the GPU's PCIe link carries, or than the adapters take that its server comes with."""
    slot, server = catalog.scale_up[card.pcie].bandwidth, catalog.platforms[card.platform]
    nic_share = server.nic_rate.typical * server.nics_per_node / server.gpus_per_node
    rate = transport.rate.typical if isinstance(transport.rate, Estimate) else float(np.max(transport.rate))
    if rate <= max(slot.typical, nic_share):
        return transport
    return but(
        transport,
        rate=slot if slot.typical >= nic_share else server.nic_rate.times(nic_share / server.nic_rate.typical),
    )


def _scale_out(constants: Sampled, transport: Transport, host: Array | None) -> _ScaleOut:
    """The network between nodes; ``host`` is the PCIe rate where GPUs reach it through bridges of the host alone."""
    line = constants.take(transport.rate) if isinstance(transport.rate, Estimate) else transport.rate
    family = transport.family
    group = "roce" if family in RDMA_ETHERNET else family if family in TRANSPORTS else "infiniband"
    hop = constants(group, "hop")
    if group in ("efa", "gpudirect-tcp"):
        hop = np.where(np.asarray(line) < constants(group, "fast_from"), hop, constants(group, "hop_fast"))
    if isinstance(transport.hop, Estimate):
        hop = hop * constants.take(transport.hop)
    rate = line * transport.left * constants(group, "efficiency")
    if group == "tcp":
        rate = np.minimum(rate, constants("tcp", "rate_per_gpu"))
    reference_hop = constants("infiniband", "hop")
    fill = constants("slingshot", "fill") if group == "slingshot" else 1.0
    if group == "roce" and not transport.tuned:
        rate, hop = rate * constants("roce", "untuned"), hop * constants("roce", "untuned_hop")
    if not transport.gpudirect and family not in ("tcp", "gpudirect-tcp"):
        rate, hop = rate * constants("gpudirect-off", "rate"), hop * constants("gpudirect-off", "hop")
    if host is not None:
        rate = np.minimum(rate, host * constants("pcie", "network"))
    arriving = _goodput(constants, transport, line, rate)
    return _ScaleOut(line, rate * arriving, hop, reference_hop, fill, arriving)


# Inside a domain -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Inside:
    """What the scale-up link gives a `Machine`, in its terms; ``network_hop`` is a factor on hops between domains."""

    rate: Array
    hop: Array
    base_latency: Array
    fill: Array
    fill_one_domain: Array
    multicast_rate: Array = 0.0
    multicast_channels: Array = 0.0
    chunk_cost: Array = 0.0
    memory_passes: Array = 1.0
    ll_fill: Array = 0.0
    mesh_peers: float = 0.0
    network_hop: Array = 1.0
    across: Hop | None = None


class _Family(Protocol):
    def __call__(self, constants: Sampled, node: _Node, line: Array, network: _ScaleOut) -> _Inside: ...


def _nvlink(constants: Sampled, node: _Node, line: Array, network: _ScaleOut) -> _Inside:
    """NVLink by its generation; its switch sums from the fourth on."""
    generation, switched, bridged = int(node.link.generation), node.wiring == "switch", node.wiring == "bridge"
    fill = one_domain = constants("nvlink", "fill") * network.fill
    multicast_rate: Array = 0.0
    channels: Array = 0.0
    chunk_cost: Array = 0.0
    memory_passes: Array = 1.0
    ll_fill: Array = 0.0
    if generation >= 4 and switched:
        one_domain = fill * constants("nvlink", "fill_one_domain_from_4")
        ll_fill = constants("nvlink", "ll_fill")
    if node.link.in_switch_reduction and switched:
        # Bus bandwidth of 8 ranks over the bus factor of 8 ranks, 7/4.
        multicast_rate = line * constants("nvlink", f"multicast_{min(max(generation, 4), 6)}") / (7 / 4)
        kind = "4" if generation <= 4 else "from_5"
        channels, chunk_cost = constants("nvlink", f"channels_{kind}"), constants("nvlink", f"chunk_cost_{kind}")
        memory_passes = constants("nvlink", f"memory_passes_{kind}")
    bridge = constants("nvlink", "bridge") if bridged else 1.0
    hop = "to_2" if generation <= 2 else str(generation) if generation <= 4 else "from_5"
    return _Inside(
        rate=line * constants("nvlink", f"usable_{min(max(generation, 1), 6)}") * bridge,
        hop=constants("nvlink", f"hop_{hop}"),
        base_latency=constants("nvlink", "base_latency_to_2" if generation <= 2 else "base_latency")
        + 2 * _second_tier(constants, node),
        fill=fill,
        fill_one_domain=one_domain,
        multicast_rate=multicast_rate,
        multicast_channels=channels,
        chunk_cost=chunk_cost,
        memory_passes=memory_passes,
        ll_fill=ll_fill,
        mesh_peers=_mesh_peers(node) if node.wiring == "mesh" or (bridged and node.domain > 2) else 0.0,
    )


def _second_tier(constants: Sampled, node: _Node) -> Array:
    """What a second tier of switches adds on the way there, and back, where one does not join the domain [s]."""
    ports, added = node.link.switch_ports, node.link.second_tier
    return constants.take(added) if ports and added and node.domain > ports.typical else 0.0


def _mesh_peers(node: _Node) -> float:
    """GPUs that one GPU of an NVLink mesh has links to: all others, or half as many as links where two go to each."""
    links = node.link.links or node.card.scale_up_domain - 1
    neighbours = max(node.domain, node.card.scale_up_domain) - 1
    return float(neighbours if links >= neighbours else links // 2)


def _infinity_fabric(constants: Sampled, node: _Node, line: Array, network: _ScaleOut) -> _Inside:
    """AMD's mesh, with RCCL's longer hops between nodes."""
    fill = constants("infinity-fabric", "fill") * network.fill
    return _Inside(
        rate=line * constants("infinity-fabric", "usable"),
        hop=constants("infinity-fabric", "hop"),
        base_latency=constants("infinity-fabric", "base_latency"),
        fill=fill,
        fill_one_domain=fill * constants("infinity-fabric", "fill_one_domain"),
        mesh_peers=float(max(node.link.links or 0, 1)),
        network_hop=constants("infinity-fabric", "network_hop"),
    )


def _pcie(constants: Sampled, node: _Node, line: Array, network: _ScaleOut) -> _Inside:
    """PCIe, from GPU to GPU or through the memory of the host."""
    direct = node.wiring == "peer-to-peer"
    fill = constants("pcie", "fill") * network.fill
    across = None
    if node.wiring == "no-peer-to-peer":
        # Across nodes every hop, even to the next GPU, goes through the network port.
        longer = constants("library", "ring_hop") / constants("library", "chain_across")
        across = Hop(network.rate, network.hop * longer)
    return _Inside(
        rate=line * constants("pcie", "usable" if direct else "usable_host"),
        hop=constants("pcie", "hop" if direct else "hop_host"),
        base_latency=constants("pcie", "base_latency"),
        fill=fill,
        fill_one_domain=fill,
        across=across,
    )


def _ualink(constants: Sampled, node: _Node, line: Array, network: _ScaleOut) -> _Inside:
    """UALink, through its switch."""
    fill = constants("ualink", "fill") * network.fill
    return _Inside(
        rate=line * constants("ualink", "usable"),
        hop=constants("ualink", "hop"),
        base_latency=constants("ualink", "base_latency"),
        fill=fill,
        fill_one_domain=fill * constants("ualink", "fill_one_domain"),
    )


SCALE_UP: Mapping[str, _Family] = {
    "nvlink": _nvlink, "infinity-fabric": _infinity_fabric, "pcie": _pcie, "ualink": _ualink,
}  # fmt: skip


# The model's own error -----------------------------------------------------------------------------------------------


def hardware_class(system: CollectiveSystem, nodes: float, catalog: Catalog) -> str:
    """The class of hardware whose model error applies; also the groups of the accuracy report."""
    node = _node(system, catalog)
    joined = nodes * system.gpus_per_node > node.reach
    if node.link.family == "infinity-fabric":
        return "infinity-fabric-network" if joined else "infinity-fabric"
    if node.link.family == "pcie":
        return "pcie"
    if system.wiring == "mesh":
        return "nvlink-mesh"
    if not joined:
        return "nvlink-switch"
    return "nvlink-switch-rdma" if system.transport.family in ("infiniband", *RDMA_ETHERNET) else "nvlink-switch-other"


SIZE_BANDS = ("small", "medium", "large")


def residual(catalog: Catalog, group: str, message: Array, collective: str = "all-reduce") -> Array:
    """The model's own error: half-width of the 80 % interval on the logarithm [1].

    Each class of hardware has three: for small, medium and large messages, with a passage of two octaves between them.
    Collectives other than the all-reduce, of which few runs are published, add one in quadrature.
    """
    of_class = _by_size(catalog, group, message)
    return (
        of_class if collective == "all-reduce" else np.hypot(of_class, _by_size(catalog, "other-collectives", message))
    )


def kernel_residual(catalog: Catalog, system: CollectiveSystem, message: Array) -> Array:
    """The error of a kernel that a graph records, by the link: half-width of the 80 % interval on the logarithm [1]."""
    over_pcie = _node(system, catalog).link.family == "pcie"
    return _by_size(catalog, "graph-kernels-pcie" if over_pcie else "graph-kernels", message)


def calibrated_residual(catalog: Catalog, message: Array) -> Array:
    """What a calibrated cluster's model still misses: half-width of the 80 % interval on the logarithm [1]."""
    return _by_size(catalog, "calibrated", message)


def size_band(message: float, catalog: Catalog) -> str:
    """The size of a message by which errors are told apart."""
    borders = [catalog.collectives["sizes"][name].typical for name in SIZE_BANDS[:2]]
    return SIZE_BANDS[int(np.searchsorted(borders, message))]


def _by_size(catalog: Catalog, group: str, message: Array) -> Array:
    """An error by size of message: from half to twice the border of two sizes it passes from one to the other [1]."""
    error: Array = np.interp(np.log2(message), *_passages(catalog, group))
    return error


@lru_cache(maxsize=64)
def _passages(catalog: Catalog, group: str) -> tuple[list[float], list[float]]:
    """Where passages begin and end, as the octave of a message, and the errors there [1].

    Kept: it takes 15 µs, thrice an all-reduce, and depends on the catalogue alone.
    """
    table, borders = catalog.collectives["residual"], (catalog.collectives["sizes"][name] for name in SIZE_BANDS[:2])
    octaves = [float(np.log2(border.typical)) + side for border in borders for side in (-1, 1)]
    small, medium, large = (table[f"{group}-{name}"].typical for name in SIZE_BANDS)
    return octaves, [small, medium, medium, large]
