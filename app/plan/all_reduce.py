"""All-reduce of a plan: catalogue entries in, the numbers of ``app.collectives`` and its answers out.

One builder, :func:`machine`, serves the plan, the explorer, the training step and the accuracy report alike.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from app.catalog import Catalog, Estimate
from app.catalog.types import Gpu, ScaleUp
from app.collectives import Array, Calibration, Choice, Machine

Reading = Callable[[Estimate], Array]
"""What to take of an estimate: its typical value, its draws, or something a fit is trying."""

RDMA_ETHERNET = ("roce", "spectrum-x", "ultra-ethernet")
FAST = 25e9
"""From this share of the network a GPU, 200 Gb/s, EFA is of the newer kind [B/s]. Its two kinds have two hops."""


def typical(estimate: Estimate) -> Array:
    """The typical value."""
    return estimate.typical


def draws(estimate: Estimate) -> Array:
    """The typical value and the draws, on the last axis."""
    return estimate.draws()


# ---------------------------------------------------------------------------------------------------------------------
# From catalogue entries to numbers
# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    """Reads constants and remembers which were used."""

    catalog: Catalog
    reading: Reading
    used: list[Estimate] = field(default_factory=list)

    def __call__(self, group: str, name: str) -> Array:
        return self.read(self.catalog.collectives[group][name])

    def read(self, estimate: Estimate) -> Array:
        self.used.append(estimate)
        return self.reading(estimate)


def calibration(catalog: Catalog, reading: Reading = typical) -> Calibration:
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
    nodes: int | NDArray[np.float64] = 1,
    transport: str = "infiniband",
    rate: float | Estimate | None = None,
    gpudirect: bool = True,
    tuned: bool = True,
    in_network_reduction: bool = False,
    one_process: bool = False,
    reading: Reading = typical,
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
    get = _Reader(catalog, reading)
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    gpus_per_node = gpus_per_node or platform.gpus_per_node
    link = _link(catalog, card, scale_up, wiring, domain, gpus_per_node)
    wiring = wiring or (platform.scale_up_wiring if link.key == card.scale_up else link.wiring)
    if link.family == "pcie" and wiring not in ("host", "no-peer-to-peer"):
        wiring = "peer-to-peer"
    domain = domain or platform.scale_up_domain
    ranks = np.asarray(gpus_per_node * np.asarray(nodes, float))
    wide = domain > gpus_per_node and link.family != "pcie"
    inside = np.minimum(float(domain), ranks) if wide else np.full(ranks.shape, float(gpus_per_node))
    domains = np.ceil(ranks / inside)
    several = domains > 1

    line = get.read(link.bandwidth)
    share = platform.nic_rate.times(platform.nics_per_node / platform.gpus_per_node) if rate is None else rate
    port = get.read(share) if isinstance(share, Estimate) else share
    usable, hop, pacing, fill_factor = _network(get, transport, port)
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
        hop, pacing = hop * factor, pacing * factor
        peers = float(max(link.links or 0, 1))
    elif link.family == "pcie":
        base, fill = get("pcie", "base_latency"), get("pcie", "fill") * fill_factor
        one_domain = fill
        near = get("pcie", "hop" if wiring == "peer-to-peer" else "hop_host")
        ring = line * get("pcie", "usable" if wiring == "peer-to-peer" else "usable_host")
        if wiring == "no-peer-to-peer":
            # Across nodes every hop, even to the next GPU, goes through the network port.
            ring = np.where(several, usable, ring)
            near = np.where(several, hop * get("library", "ring_hop") / get("library", "chain_across"), near)
    else:
        base, near = get("ualink", "base_latency"), get("ualink", "hop")
        fill = get("ualink", "fill") * fill_factor
        one_domain = fill * get("ualink", "fill_one_domain")
        ring = line * get("ualink", "usable")
    if used is not None:
        used += get.used
    return Machine(
        ranks_per_domain=inside,
        domains=domains,
        scale_up_rate=ring,
        multicast_rate=multicast,
        mesh_peers=peers,
        scale_out_rate=usable,
        base_latency=base,
        scale_up_hop=near,
        scale_out_hop=hop,
        pacing_hop=pacing,
        fill=fill,
        fill_one_domain=one_domain,
        launch_floor=get("library", "launch_floor") if one_process else 0.0,
        ll128=float(link.family != "pcie"),
        in_network_reduction=float(in_network_reduction),
        streamed=float(transport == "gpudirect-tcp"),
        scale_up_line=line,
        scale_out_line=port,
    )


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


def _network(get: _Reader, transport: str, port: Array) -> tuple[Array, Array, Array, Array]:
    """Usable rate [B/s], hop [s], hop as far as it paces the pipeline [s] and factor on the pipeline's fill [1]."""
    pacing = get("infiniband", "hop")
    if transport == "efa":
        slow = np.asarray(port) < FAST
        hop = np.where(slow, get("efa", "hop"), get("efa", "hop_fast"))
        return port * get("efa", "efficiency"), hop, pacing, 1.0
    if transport == "tcp":
        usable = np.minimum(port * get("tcp", "efficiency"), get("tcp", "rate_per_gpu"))
        return usable, get("tcp", "hop"), pacing, 1.0
    if transport in RDMA_ETHERNET:
        return port * get("roce", "efficiency"), get("roce", "hop"), pacing, 1.0
    if transport in ("slingshot", "gpudirect-tcp", "omni-path"):
        factor = get("slingshot", "fill") if transport == "slingshot" else 1.0
        return port * get(transport, "efficiency"), get(transport, "hop"), pacing, factor
    return port * get("infiniband", "efficiency"), pacing, pacing, 1.0


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
    if nodes * gpus_per_node <= max(domain or platform.scale_up_domain, gpus_per_node):
        return "nvlink-switch"
    return "nvlink-switch-rdma" if transport in ("infiniband", *RDMA_ETHERNET) else "nvlink-switch-other"


def residual(catalog: Catalog, group: str, choice: Choice) -> Array:
    """The model's own error: half-width of the 80 % interval on the logarithm [1].

    Each class of hardware has three: where latency, pipeline fill and bandwidth make the time; between them by share.
    """
    table = catalog.collectives["residual"]
    moving, filling = np.nan_to_num(choice.bandwidth_share), np.nan_to_num(choice.fill_share)
    return (
        table[group].typical * (1 - moving - filling)
        + table[f"{group}-fill"].typical * filling
        + table[f"{group}-bandwidth"].typical * moving
    )
