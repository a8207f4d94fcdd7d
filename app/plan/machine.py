"""Catalogue entries in, the machine of the collectives out: links, latencies and what libraries reach on them.

One builder, :func:`machine`, serves the plan, the explorer, the training step and the accuracy report alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Gpu, Platform, ScaleUp
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.formulas.arrays import Array, where
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import Calibration, Selection
from app.plan.cluster import Hardware
from app.plan.scenario import Scenario

Sampling = Callable[[Estimate], Array]
"""What to take of an estimate: its typical value, its draws, or something a fit is trying."""
RDMA_ETHERNET = ("roce", "spectrum-x", "ultra-ethernet")
TRANSPORTS = ("infiniband", "efa", "slingshot", "gpudirect-tcp", "tcp", "omni-path")


def typical(estimate: Estimate) -> Array:
    """The typical value."""
    return estimate.typical


def draws(estimate: Estimate) -> Array:
    """The typical value and the draws, on the last axis."""
    return estimate.draws()


@dataclass
class _Reader:
    """Reads constants and remembers which were used."""

    catalog: Catalog
    reading: Sampling
    used: list[Estimate] = field(default_factory=list)

    def __call__(self, group: str, name: str) -> Array:
        return self.read(self.catalog.collectives[group][name])

    def read(self, estimate: Estimate) -> Array:
        self.used.append(estimate)
        return self.reading(estimate)


@lru_cache(maxsize=16)
def calibration(catalog: Catalog, reading: Sampling = typical) -> Calibration:
    """The constants of the library, from the catalogue."""
    library = catalog.collectives["library"]
    return Calibration(**{entry.name: reading(library[entry.name]) for entry in fields(Calibration)})


def machine(
    catalog: Catalog,
    *,
    gpu: str,
    scale_up: str = "",
    wiring: str = "",
    domain: int = 0,
    gpus_per_node: int = 0,
    nodes: float | NDArray[np.float64] = 1,
    transport: str = "infiniband",
    rate: float | Estimate | None = None,
    gpudirect: bool = True,
    tuned: bool = True,
    in_network_reduction: bool = False,
    one_process: bool = False,
    reading: Sampling = typical,
    used: list[Estimate] | None = None,
) -> Machine:
    """The cluster of one collective, from keys of the catalogue.

    Args:
        catalog: the catalogue.
        gpu: key of the accelerator.
        scale_up: key of the link between GPUs; blank: the GPU's own.
        wiring: switch, mesh, bridge, peer-to-peer, host or no-peer-to-peer; blank: the platform's.
        domain: GPUs that reach one another over the scale-up link; 0: the platform's.
        gpus_per_node: GPUs used in each node; 0: the platform's.
        nodes: nodes; an array sweeps, with its axes before the draws.
        transport: family of the network between nodes; none or blank where there is none.
        rate: network rate of one GPU, one direction [B/s]; None: the platform's.
        gpudirect: RDMA straight to GPU memory.
        tuned: lossless Ethernet set up with care.
        in_network_reduction: the scale-out switches sum.
        one_process: one process drives all GPUs of a node.
        reading: typical values, or draws.
        used: collects the estimates that were read.
    """
    wired = _wired(
        catalog,
        gpu,
        scale_up,
        wiring,
        domain,
        gpus_per_node,
        transport,
        rate,
        gpudirect,
        tuned,
        in_network_reduction,
        one_process,
        reading,
    )
    if used is not None:
        used += wired.used
    return wired.joined(nodes)


@dataclass(frozen=True)
class _Wired:
    """Hardware of one kind, of any number of nodes."""

    machine: Machine
    """One domain, full."""
    gpus_per_node: int
    across: tuple[Array, Array] | None
    """Rate and hop inside a domain when others take part, where those differ."""
    used: tuple[Estimate, ...]

    def joined(self, nodes: float | NDArray[np.float64]) -> Machine:
        """So many nodes of it."""
        ranks = np.asarray(self.gpus_per_node * np.asarray(nodes, float))
        inside = np.minimum(self.machine.ranks_per_domain, ranks)
        domains = np.ceil(ranks / inside)
        built = replace(self.machine, ranks_per_domain=inside, domains=domains)
        if self.across is None:
            return built
        rate, hop = self.across
        return replace(
            built,
            scale_up_rate=np.where(domains > 1, rate, built.scale_up_rate),
            scale_up_hop=np.where(domains > 1, hop, built.scale_up_hop),
        )


@lru_cache(maxsize=512)
def _wired(
    catalog: Catalog,
    gpu: str,
    scale_up: str,
    wiring: str,
    domain: int,
    gpus_per_node: int,
    transport: str,
    rate: float | Estimate | None,
    gpudirect: bool,
    tuned: bool,
    in_network_reduction: bool,
    one_process: bool,
    reading: Sampling,
) -> _Wired:
    """What :func:`machine` knows before it knows the number of nodes; its arguments."""
    get = _Reader(catalog, reading)
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    gpus_per_node = gpus_per_node or platform.gpus_per_node
    link = _link(catalog, card, scale_up, wiring, domain, gpus_per_node)
    wiring = wiring or (platform.scale_up_wiring if link.key == card.scale_up else link.wiring)
    if link.family == "pcie" and wiring not in ("host", "no-peer-to-peer"):
        wiring = "peer-to-peer"
    domain = domain or platform.scale_up_domain
    wide = _spans_nodes(link, platform, domain, gpus_per_node)

    line = get.read(link.bandwidth)
    share = platform.nic_rate.times(platform.nics_per_node / platform.gpus_per_node) if rate is None else rate
    port = get.read(share) if isinstance(share, Estimate) else share
    usable, hop, reference, fill_factor = _network(get, transport, port)
    if transport in RDMA_ETHERNET and not tuned:
        usable, hop = usable * get("roce", "untuned"), hop * get("roce", "untuned_hop")
    if not gpudirect and transport not in ("tcp", "gpudirect-tcp"):
        usable, hop = usable * get("gpudirect-off", "rate"), hop * get("gpudirect-off", "hop")
    through_host = link.family == "pcie" and wiring in ("host", "no-peer-to-peer", "peer-to-peer")
    if through_host:
        usable = np.minimum(usable, port * get("pcie", "network"))

    generation = int(link.generation)
    multicast: Array = 0.0
    peers = 0.0
    across = None
    if link.family == "nvlink":
        base = get("nvlink", "base_latency_to_2" if generation <= 2 else "base_latency")
        near = get("nvlink", "hop_to_3" if generation <= 3 else "hop_from_4")
        fill = get("nvlink", "fill") * fill_factor
        one_domain = fill
        ring = line * get("nvlink", f"usable_{min(max(generation, 1), 6)}")
        if generation >= 4 and wiring == "switch":
            one_domain = fill * get("nvlink", "fill_one_domain_from_4")
        if link.in_switch_reduction and wiring == "switch":
            # Bus bandwidth of 8 ranks over the bus factor of 8 ranks, 7/4.
            multicast = line * get("nvlink", f"multicast_{min(max(generation, 4), 6)}") / (7 / 4)
        if wiring == "mesh":
            links = link.links or card.scale_up_domain - 1
            neighbours = max(domain, card.scale_up_domain) - 1
            peers = float(neighbours if links >= neighbours else links // 2)
    elif link.family == "infinity-fabric":
        base, near = get("infinity-fabric", "base_latency"), get("infinity-fabric", "hop")
        fill = get("infinity-fabric", "fill") * fill_factor
        one_domain = fill * get("infinity-fabric", "fill_one_domain")
        ring = line * get("infinity-fabric", "usable")
        factor = get("infinity-fabric", "network_hop")
        hop, reference = hop * factor, reference * factor
        peers = float(max(link.links or 0, 1))
    elif link.family == "pcie":
        base, fill = get("pcie", "base_latency"), get("pcie", "fill") * fill_factor
        one_domain = fill
        near = get("pcie", "hop" if wiring == "peer-to-peer" else "hop_host")
        ring = line * get("pcie", "usable" if wiring == "peer-to-peer" else "usable_host")
        if wiring == "no-peer-to-peer":
            # Across nodes every hop, even to the next GPU, goes through the network port.
            across = usable, hop * get("library", "ring_hop") / get("library", "chain_across")
    else:
        base, near = get("ualink", "base_latency"), get("ualink", "hop")
        fill = get("ualink", "fill") * fill_factor
        one_domain = fill * get("ualink", "fill_one_domain")
        ring = line * get("ualink", "usable")
    built = Machine(
        ranks_per_domain=float(domain if wide else gpus_per_node),
        domains=1.0,
        scale_up_rate=ring,
        multicast_rate=multicast,
        mesh_peers=peers,
        scale_out_rate=usable,
        base_latency=base,
        scale_up_hop=near,
        scale_out_hop=hop,
        reference_hop=reference,
        fill=fill,
        fill_one_domain=one_domain,
        launch_floor=get("library", "launch") * gpus_per_node if one_process else 0.0,
        ll128=float(link.family != "pcie"),
        in_network_reduction=get("in-network", "share") if in_network_reduction else 0.0,
        streamed=np.where(np.asarray(port) < get("gpudirect-tcp", "fast_from"), 1.0, 0.0)
        if transport == "gpudirect-tcp"
        else 0.0,
        ring_share=get("roce", "ring_share") if transport in (*RDMA_ETHERNET, "gpudirect-tcp") else 1.0,
        exits=get("library", "rack_exits") if wide else np.inf,
        scale_up_line=line,
        scale_out_line=port,
    )
    for value in vars(built).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return _Wired(built, gpus_per_node, across, tuple(get.used))


def _link(catalog: Catalog, card: Gpu, scale_up: str, wiring: str, domain: int, gpus_per_node: int) -> ScaleUp:
    """The link that carries a ring through a node: PCIe where the bridged pairs are fewer than the GPUs used."""
    link = catalog.scale_up[scale_up or card.scale_up]
    bridged = f"{link.key}-bridge"
    if wiring == "bridge" and bridged in catalog.scale_up:
        link = catalog.scale_up[bridged]
    reach = domain or min(card.scale_up_domain, link.largest_domain)
    if link.wiring == "bridge":
        reach = min(reach, link.largest_domain)
    short = link.family != "pcie" and wiring in ("", "bridge", "peer-to-peer", "host") and reach < gpus_per_node
    return catalog.scale_up[card.pcie] if short or wiring in ("host", "no-peer-to-peer") else link


def _spans_nodes(link: ScaleUp, platform: Platform, domain: int, gpus_per_node: int) -> bool:
    """Whether the scale-up link joins nodes, as in a rack; a node that uses few of its GPUs is still one node."""
    return link.family != "pcie" and domain > max(gpus_per_node, platform.gpus_per_node)


def _network(get: _Reader, transport: str, port: Array) -> tuple[Array, Array, Array, Array]:
    """Usable rate [B/s], hop [s], InfiniBand's hop [s] and factor on the pipeline's fill [1]."""
    group = "roce" if transport in RDMA_ETHERNET else transport if transport in TRANSPORTS else "infiniband"
    hop = get(group, "hop")
    if group in ("efa", "gpudirect-tcp"):
        hop = np.where(np.asarray(port) < get(group, "fast_from"), hop, get(group, "hop_fast"))
    usable = port * get(group, "efficiency")
    if group == "tcp":
        usable = np.minimum(usable, get("tcp", "rate_per_gpu"))
    return usable, hop, get("infiniband", "hop"), get("slingshot", "fill") if group == "slingshot" else 1.0


def class_of(
    catalog: Catalog,
    *,
    gpu: str,
    scale_up: str = "",
    wiring: str = "",
    domain: int = 0,
    gpus_per_node: int = 0,
    nodes: int = 1,
    transport: str = "infiniband",
) -> str:
    """The class of hardware whose model error applies; also the groups of the accuracy report.

    Args as in :func:`machine`.
    """
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    gpus_per_node = gpus_per_node or platform.gpus_per_node
    link = _link(catalog, card, scale_up, wiring, domain, gpus_per_node)
    wiring = wiring or (platform.scale_up_wiring if link.key == card.scale_up else link.wiring)
    if link.family in ("pcie", "infinity-fabric"):
        return link.family
    if wiring == "mesh":
        return "nvlink-mesh"
    domain = domain or platform.scale_up_domain
    reach = domain if _spans_nodes(link, platform, domain, gpus_per_node) else gpus_per_node
    if nodes * gpus_per_node <= reach:
        return "nvlink-switch"
    return "nvlink-switch-rdma" if transport in ("infiniband", *RDMA_ETHERNET) else "nvlink-switch-other"


def residual(catalog: Catalog, group: str, choice: Selection, collective: str = "all-reduce") -> Array:
    """The model's own error: half-width of the 80 % interval on the logarithm [1].

    Each class of hardware has three: where latency, pipeline fill and bandwidth make the time; between them by share.
    Collectives other than the all-reduce, of which few runs are published, add one in quadrature.
    """
    table = catalog.collectives["residual"]
    moving, filling = choice.bandwidth_share, choice.fill_share
    moving, filling = where(np.isnan(moving), 0.0, moving), where(np.isnan(filling), 0.0, filling)
    own: Array = (
        table[group].typical * (1 - moving - filling)
        + table[f"{group}-fill"].typical * filling
        + table[f"{group}-bandwidth"].typical * moving
    )
    return own if collective == "all-reduce" else np.hypot(own, table["other-collectives"].typical)


def machine_of(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    *,
    gpus: float | NDArray[np.float64] | None = None,
    reading: Sampling = draws,
    used: list[Estimate] | None = None,
) -> Machine:
    """The plan's cluster, or the same cluster with other GPU counts (an array sweeps, with a last axis for draws)."""
    network = hardware.scale_out
    count = np.asarray(hardware.gpus if gpus is None else gpus, float)
    domain = hardware.domain
    if gpus is not None and domain == hardware.gpus:  # cut to the plan's size; a larger one may have a larger domain
        domain = scenario.scale_up_domain or max(domain, hardware.platform.scale_up_domain)
    built = machine(
        catalog,
        gpu=hardware.gpu.key,
        scale_up=hardware.scale_up.key,
        wiring=hardware.wiring,
        domain=domain,
        gpus_per_node=hardware.gpus_per_node,
        nodes=count / hardware.gpus_per_node,
        transport=network.family,
        rate=hardware.rate_per_gpu,
        gpudirect=scenario.gpudirect,
        tuned=scenario.tuned,
        in_network_reduction=scenario.in_network_reduction and network.in_network_reduction,
        reading=reading,
        used=used,
    )
    if scenario.measured_efficiency is not None and scenario.profile == "calibrated":
        built = _as_measured(built, scenario.measured_efficiency)
    if scenario.profile == "ideal":
        end_to_end = network.end_to_end_latency
        if end_to_end is not None:
            built = replace(built, scale_out_hop=reading(end_to_end))
            if used is not None:
                used.append(end_to_end)
    return built


def _as_measured(built: Machine, efficiency: float) -> Machine:
    """The machine with the rates a user measured: the network's between domains, the scale-up link's within one."""
    across = np.asarray(built.domains) > 1
    inside = np.where(across, 1.0, efficiency)
    return replace(
        built,
        scale_out_rate=built.scale_out_rate * np.where(across, efficiency, 1.0),
        scale_up_rate=built.scale_up_rate * inside,
        multicast_rate=built.multicast_rate * inside,
    )
