"""All-reduce of a plan: catalogue entries in, the numbers of ``app.collectives`` and its answers out.

One builder, :func:`machine`, serves the plan, the explorer, the training step and the accuracy report alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from app.arrays import Array, where
from app.catalog import Catalog, Estimate
from app.catalog.types import Gpu, Platform, ScaleUp
from app.collectives import (
    ALGORITHMS,
    IDEAL_ALGORITHMS,
    PROTOCOLS,
    Calibration,
    Choice,
    Machine,
    algorithm_bandwidth,
    bus_factor,
    compare,
    ideal_all_reduce_times,
    library_times,
)
from app.plan.bands import Band, Draws
from app.plan.hardware import Hardware, look_up
from app.plan.parts import AllReduce, Explanation, Finding, Quantity, Term, Timing
from app.scenario import Scenario

Reading = Callable[[Estimate], Array]
"""What to take of an estimate: its typical value, its draws, or something a fit is trying."""

_ALGORITHMS, _PROTOCOLS = np.array(ALGORITHMS), np.array(PROTOCOLS)
RDMA_ETHERNET = ("roce", "spectrum-x", "ultra-ethernet")
TRANSPORTS = ("infiniband", "efa", "slingshot", "gpudirect-tcp", "tcp", "omni-path")


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


@lru_cache(maxsize=16)
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
    nodes: float | NDArray[np.float64] = 1,
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
    reading: Reading,
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


def residual(catalog: Catalog, group: str, choice: Choice, collective: str = "all-reduce") -> Array:
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


# ---------------------------------------------------------------------------------------------------------------------
# The plan's all-reduce
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """An algorithm with its protocol: time with draws on the last axis [s], and what share of it moves bytes."""

    algorithm: str
    protocol: str
    time: NDArray[np.float64]
    bandwidth_share: NDArray[np.float64]
    residual: NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """All-reduce times over swept messages and GPU counts; the swept axes come first, draws last.

    ``ways`` holds each algorithm with its quickest protocol; blank protocols mean it changes along the sweep, or that
    the profile knows none. ``best`` holds the quickest way, or the forced one; it is nameless where it changes.
    """

    message: NDArray[np.float64]
    ranks: NDArray[np.float64]
    best: Way
    names: NDArray[np.str_]
    protocols: NDArray[np.str_]
    ways: tuple[Way, ...]
    used: tuple[Estimate, ...]
    domains: NDArray[np.float64]
    ranks_per_domain: NDArray[np.float64]
    machine: Machine


def machine_of(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    *,
    gpus: float | NDArray[np.float64] | None = None,
    reading: Reading = draws,
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


def evaluate_all_reduce(
    hardware: Hardware,
    scenario: Scenario,
    catalog: Catalog,
    *,
    message: float | NDArray[np.float64],
    gpus: float | NDArray[np.float64] | None = None,
    reading: Reading = draws,
) -> Evaluation:
    """Time an all-reduce by every algorithm, for any messages and GPU counts that broadcast.

    Args:
        hardware: the plan's hardware.
        scenario: profile, forced algorithm and protocol, switches of the network.
        catalog: the catalogue.
        message: bytes on each rank, swept [B].
        gpus: GPU counts, swept; None: the plan's own.
        reading: draws, or typical values alone (the last axis then has length 1).
    """
    used: list[Estimate] = []
    sizes = np.asarray(message, float)[..., None]
    counts = None if gpus is None else np.asarray(gpus, float)[..., None]
    built = machine_of(hardware, scenario, catalog, gpus=counts, reading=reading, used=used)
    ranks = np.asarray(hardware.gpus if gpus is None else gpus, float)
    shape = np.broadcast(sizes, built.ranks_per_domain).shape[:-1]
    width = np.size(reading(catalog.collectives["library"]["fill_exponent"]))
    group = class_of(
        catalog,
        gpu=hardware.gpu.key,
        scale_up=hardware.scale_up.key,
        wiring=hardware.wiring,
        domain=hardware.domain,
        gpus_per_node=hardware.gpus_per_node,
        nodes=hardware.nodes if gpus is None else 2 if np.max(ranks) > hardware.domain else 1,
        transport=hardware.scale_out.family,
    )

    sweep = _Sweep(shape, width)
    if scenario.profile == "ideal":
        ways = _ideal(sizes, built, scenario, sweep)
        names = np.array([way.algorithm for way in ways])
        table = np.stack([np.where(np.isfinite(way.time[..., 0]), way.time[..., 0], np.inf) for way in ways])
        winner = np.argmin(table, axis=0)
        protocols = np.full(shape, "", dtype="<U8")
        best = _along(ways, winner)
        chosen = np.where(np.isfinite(table.min(axis=0)), names[winner], "")
    else:
        constants = calibration(catalog, reading)
        used += [catalog.collectives["library"][entry.name] for entry in fields(Calibration)]
        forced, protocol = scenario.algorithm or "", scenario.protocol or ""
        own, each = compare("all-reduce", sizes, built, constants, forced, protocol)
        ways = [_way(catalog, group, name, choice, sweep) for name, choice in each.items()]
        same = [way for way, choice in zip(ways, each.values(), strict=True) if choice is own]
        best = same[0] if same else _way(catalog, group, forced, own, sweep)
        ways = [way for way in ways if np.isfinite(way.time).any()]
        known = np.isfinite(best.time[..., 0])
        chosen = np.where(known, _ALGORITHMS[np.asarray(sweep.typical(own.algorithm)).astype(int)], "")
        protocols = np.where(known, _PROTOCOLS[np.asarray(sweep.typical(own.protocol)).astype(int)], "")
    return Evaluation(
        message=np.asarray(message, float),
        ranks=ranks,
        best=best,
        names=chosen,
        protocols=protocols,
        ways=tuple(ways),
        used=tuple(used),
        domains=np.asarray(built.domains, float),
        ranks_per_domain=np.asarray(built.ranks_per_domain, float),
        machine=built,
    )


@dataclass(frozen=True)
class _Sweep:
    """The shape of an evaluation: what is swept, and how many draws there are."""

    shape: tuple[int, ...]
    width: int

    def drawn(self, values: Array) -> NDArray[np.float64]:
        """Values at every place of the sweep, draws last."""
        whole = (*self.shape, self.width)
        drawn = np.asarray(values, float)
        return drawn if drawn.shape == whole else np.array(np.broadcast_to(drawn, whole))

    def typical(self, values: Array) -> Array:
        """The typical values at every place of the sweep."""
        drawn = np.asarray(values, float)
        typical = drawn[..., 0] if drawn.ndim else drawn
        one: Array = (typical if typical.shape == self.shape else np.broadcast_to(typical, self.shape))[()]
        return one


def _way(catalog: Catalog, group: str, name: str, choice: Choice, sweep: _Sweep) -> Way:
    typical = Choice(*map(sweep.typical, vars(choice).values()))
    spoken = set(np.asarray(typical.protocol)[np.isfinite(typical.time)].tolist())
    protocol = PROTOCOLS[int(spoken.pop())] if len(spoken) == 1 else ""
    error = residual(catalog, group, typical)
    return Way(name, protocol, sweep.drawn(choice.time), np.asarray(typical.bandwidth_share), np.asarray(error))


def _ideal(sizes: Array, built: Machine, scenario: Scenario, sweep: _Sweep) -> list[Way]:
    times = ideal_all_reduce_times(sizes, built)
    still = replace(built, scale_up_hop=0.0, scale_out_hop=0.0)
    moving = ideal_all_reduce_times(sizes, still)
    forced = scenario.algorithm
    ways = []
    for name in IDEAL_ALGORITHMS:
        time = sweep.drawn(times[name])
        if forced not in (None, name):
            continue
        if np.any(np.isfinite(time)) or name == forced:
            with np.errstate(divide="ignore", invalid="ignore"):
                share = sweep.typical(moving[name]) / time[..., 0]
            ways.append(Way(name, "", time, share, np.zeros(time.shape[:-1])))
    if not ways:
        nothing = sweep.drawn(np.nan)
        ways.append(Way(forced or "", "", nothing, nothing[..., 0], np.zeros(nothing.shape[:-1])))
    return ways


def _along(ways: Sequence[Way], winner: NDArray[np.intp]) -> Way:
    """The winning way at each place of a sweep."""

    def pick(values: list[NDArray[np.float64]], where: NDArray[np.intp]) -> NDArray[np.float64]:
        picked: NDArray[np.float64] = np.take_along_axis(np.stack(values), where[None], axis=0)[0]
        return picked

    wide = np.broadcast_to(winner[..., None], ways[0].time.shape)
    return Way(
        "",
        "",
        pick([way.time for way in ways], wide),
        pick([way.bandwidth_share for way in ways], winner),
        pick([way.residual for way in ways], winner),
    )


@dataclass(frozen=True)
class AllReduceDraft:
    """The plan's all-reduce before its results are folded to bands."""

    message: float
    ranks: int
    algorithm: str
    protocol: str
    latency_share: float | None
    bandwidth_share: float | None
    others: tuple[tuple[str, str, float | None], ...]
    reason: str
    library_choice: str
    quantities: Mapping[str, Draws]
    findings: tuple[Finding, ...]
    explain: Callable[[], Mapping[str, Explanation]]

    @cached_property
    def explanations(self) -> Mapping[str, Explanation]:
        """How the figures came about, worked out for those who ask."""
        return self.explain()

    def part(self, bands: Mapping[str, Band | None]) -> AllReduce:
        """The part of the plan, with its results as bands."""
        return AllReduce(
            message=self.message,
            ranks=self.ranks,
            algorithm=self.algorithm,
            protocol=self.protocol,
            time=bands["all_reduce.time"],
            algorithm_bandwidth=bands["all_reduce.algorithm_bandwidth"],
            bus_bandwidth=bands["all_reduce.bus_bandwidth"],
            latency_share=self.latency_share,
            bandwidth_share=self.bandwidth_share,
            alternatives=tuple(self._timing(name, protocol, share, bands) for name, protocol, share in self.others),
            reason=self.reason,
            library_choice=self.library_choice,
        )

    @staticmethod
    def _timing(name: str, protocol: str, share: float | None, bands: Mapping[str, Band | None]) -> Timing:
        def band(what: str) -> Quantity:
            return bands[f"all_reduce.alternatives.{name}.{what}"]

        return Timing(
            algorithm=name,
            protocol=protocol,
            time=band("time"),
            algorithm_bandwidth=band("algorithm_bandwidth"),
            bus_bandwidth=band("bus_bandwidth"),
            latency_share=None if share is None else 1 - share,
            bandwidth_share=share,
        )


def draft(hardware: Hardware, scenario: Scenario, catalog: Catalog, *, message: float) -> AllReduceDraft:
    """Time the plan's message by every algorithm and pick the quickest, or the forced one."""
    found = evaluate_all_reduce(hardware, scenario, catalog, message=message)
    algorithm = str(found.names.item())
    ways = found.ways if hardware.gpus > 1 else ()
    named = {"all_reduce": found.best} | {f"all_reduce.alternatives.{way.algorithm}": way for way in ways}
    share = _share(found.best)
    return AllReduceDraft(
        message=message,
        ranks=hardware.gpus,
        algorithm=algorithm,
        protocol=str(found.protocols.item()),
        latency_share=None if share is None else 1 - share,
        bandwidth_share=share,
        others=tuple((way.algorithm, way.protocol, _share(way)) for way in ways),
        reason=_reason(found, algorithm, scenario),
        library_choice=_library_choice(found, algorithm, hardware, scenario, catalog, message),
        quantities=_quantities(named, message, hardware.gpus, found.used),
        findings=tuple(_findings(found, hardware, scenario)),
        explain=partial(_explanations, found, algorithm, hardware, scenario, message),
    )


def of_plan(scenario: Scenario, catalog: Catalog, message: float) -> AllReduceDraft:
    """The same for the cluster of a plan: every job that exchanges as many bytes there shares it."""
    return _of_plan(scenario.only("cluster", "network", "collective"), catalog, message)


@lru_cache(maxsize=64)
def _of_plan(scenario: Scenario, catalog: Catalog, message: float) -> AllReduceDraft:
    return draft(look_up(scenario, catalog), scenario, catalog, message=message)


def _share(way: Way) -> float | None:
    value = float(way.bandwidth_share)
    return value if isfinite(value) else None


def _quantities(ways: Mapping[str, Way], message: float, ranks: int, used: tuple[Estimate, ...]) -> dict[str, Draws]:
    times = np.array([way.time for way in ways.values()])
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.asarray(algorithm_bandwidth(message, times))
        rates = np.where(np.isfinite(rates), rates, np.nan)
        buses = rates * np.asarray(bus_factor("all-reduce", float(ranks)))
    found = {}
    for (name, way), time, rate, bus in zip(ways.items(), times, rates, buses, strict=True):
        error = float(way.residual) if isfinite(way.residual) else 0.0
        found[f"{name}.time"] = Draws(time, "s", used, error)
        found[f"{name}.algorithm_bandwidth"] = Draws(rate, "B/s", used, error)
        found[f"{name}.bus_bandwidth"] = Draws(bus, "B/s", used, error)
    return found


ARCHITECTURES = {2: "volta", 3: "ampere", 4: "hopper"}
"""NVLink generation to the row of NCCL's tables; later generations have the last."""


def _library_choice(
    found: Evaluation, algorithm: str, hardware: Hardware, scenario: Scenario, catalog: Catalog, message: float
) -> str:
    """The algorithm NCCL's own tables would choose; blank where they do not apply."""
    if hardware.gpu.vendor != "NVIDIA" or scenario.profile == "ideal" or hardware.gpus <= 1 or not algorithm:
        return ""
    family = catalog.scale_up[hardware.gpu.scale_up]
    generation = int(family.generation) if family.family == "nvlink" else 3
    if family.family == "nvlink" and generation < 2:
        generation = 2
    tables, correction = _library_tables(catalog)
    times = library_times(message, found.machine, tables, correction, ARCHITECTURES.get(generation, "blackwell"))
    return min(times, key=lambda pair: times[pair])[0]


@lru_cache(maxsize=8)
def _library_tables(catalog: Catalog) -> tuple[dict[str, float], dict[str, float]]:
    """NCCL's own tables, and its correction of trees."""
    tables, correction = (
        {name: estimate.typical for name, estimate in catalog.collectives[group].items()}
        for group in ("nccl-tables", "nccl-tree-correction")
    )
    return tables, correction


NAMES = {
    "ring": "a ring",
    "tree": "a double binary tree",
    "nvls": "the NVLink switch (NVLS)",
    "nvls-tree": "an NVLS tree",
    "collnet": "CollNet (SHARP)",
    "recursive-halving-doubling": "recursive halving-doubling",
    "hierarchical": "a hierarchical scheme",
}


def _reason(found: Evaluation, algorithm: str, scenario: Scenario) -> str:
    """Why this algorithm, in one sentence."""
    if found.ranks <= 1:
        return "One GPU has nothing to reduce."
    if not algorithm:
        return ""
    name = NAMES[algorithm]
    time = float(found.best.time[0])
    share = _share(found.best) or 0.0
    dominated = "moving the bytes" if share >= 0.5 else "latency and filling the pipeline"
    spent = f"{max(share, 1 - share):.0%} of the time is {dominated}"
    if scenario.algorithm:
        return f"Forced to {name}; {spent}."
    others = [way for way in found.ways if way.algorithm != algorithm and np.isfinite(way.time[0])]
    if not others:
        return f"Only {name} is to be had here; {spent}."
    second = min(others, key=lambda way: float(way.time[0]))
    gain = float(second.time[0]) / time - 1
    return f"Quickest is {name}, ahead of {NAMES[second.algorithm]} by {gain:.0%}; {spent}."


def _findings(found: Evaluation, hardware: Hardware, scenario: Scenario) -> Iterator[Finding]:
    forced = scenario.algorithm
    if found.ranks <= 1 or np.isfinite(found.best.time[0]):
        if scenario.in_network_reduction and not hardware.scale_out.in_network_reduction and found.domains.flat[0] > 1:
            yield Finding(
                "warning",
                "no-in-network-reduction",
                f"{hardware.scale_out.name} does not sum in its switches; SHARP is left out of the times.",
                ("in_network_reduction", "scale_out"),
                "Choose an InfiniBand generation, or switch it off.",
                {"in_network_reduction": False},
            )
        return
    if forced in ("recursive-halving-doubling", "hierarchical") and scenario.profile == "calibrated":
        reason = f"NCCL and RCCL have no {forced} algorithm."
        yield Finding(
            "error",
            "algorithm",
            reason,
            ("algorithm", "profile"),
            "Time it in the ideal profile.",
            {"profile": "ideal"},
        )
        return
    spoken = f" with the protocol {scenario.protocol}" if scenario.protocol else ""
    yield Finding(
        "error",
        "algorithm",
        f"This cluster cannot run {NAMES[forced] if forced else 'an all-reduce'}{spoken}: {_missing(found, scenario)}",
        ("algorithm", "protocol"),
        "Leave algorithm and protocol blank for the quickest.",
        {"algorithm": "", "protocol": ""},
    )


def _missing(found: Evaluation, scenario: Scenario) -> str:
    m = found.machine
    several = bool(found.domains.flat[0] > 1)
    if scenario.profile == "ideal" and scenario.algorithm == "nvls-tree":
        return "the ideal profile knows it as in-network reduction."
    if scenario.protocol == "ll128" and not np.all(m.ll128):
        return "LL128 needs NVLink or Infinity Fabric, which keep 128-byte stores whole."
    if scenario.protocol in ("ll", "ll128") and scenario.algorithm in ("nvls", "nvls-tree", "collnet"):
        return "it speaks the Simple protocol only."
    if scenario.algorithm in ("nvls", "nvls-tree") and not np.any(np.asarray(m.multicast_rate) > 0):
        return "its links have no switch that sums (NVLink 4 and later have)."
    if scenario.algorithm == "nvls-tree" and not several:
        return "it joins several NVLink domains, and there is one."
    if scenario.algorithm in ("nvls", "collnet") and several:
        return "between nodes it needs switches that sum (SHARP)."
    return "something it needs is absent."


def _explanations(
    found: Evaluation, algorithm: str, hardware: Hardware, scenario: Scenario, message: float
) -> dict[str, Explanation]:
    """The planner's own numbers in the formula."""
    m, ranks = found.machine, float(hardware.gpus)

    def first(values: Array) -> float:
        return float(np.asarray(values).flat[0])

    link, network = hardware.scale_up, hardware.scale_out
    own = "railyard-calibration-2026"
    terms: tuple[Term, ...] = (
        Term("S", "message", message, "B"),
        Term("n", "GPUs", ranks, "1"),
        Term("g", "GPUs in a scale-up domain", first(found.ranks_per_domain), "1"),
        Term("M", "scale-up domains", first(found.domains), "1"),
    )
    if scenario.profile == "ideal":
        terms += (
            Term("B", f"line rate of {link.name} for one GPU", first(m.scale_up_line), "B/s", link.source),
            Term("P", f"line rate of {network.name} for one GPU", first(m.scale_out_line), "B/s", network.source),
        )
        key = {
            "ring": "ring_all_reduce", "tree": "double_binary_tree_all_reduce",
            "recursive-halving-doubling": "halving_doubling_all_reduce", "hierarchical": "hierarchical_all_reduce",
        }.get(algorithm, "in_network_all_reduce")  # fmt: skip
    else:
        terms += (
            Term("B", f"what a ring sustains over {link.name}", first(m.scale_up_rate), "B/s", own),
            Term("V", "message rate when the NVLink switch sums", first(m.multicast_rate), "B/s", own),
            Term("P", f"what {network.name} sustains for one GPU", first(m.scale_out_rate), "B/s", own),
            Term("h", "hop inside a domain", first(m.scale_up_hop), "s", own),
            Term("α", "hop between domains", first(m.scale_out_hop), "s", own),
            Term("c", "size of the pipeline fill", first(m.fill), "1", own),
        )
        key = "times"
    with np.errstate(divide="ignore", invalid="ignore"):
        time = Term("T", "time", first(found.best.time), "s")
    size = (Term("S", "message", message, "B"), time)
    return {
        "all_reduce.time": Explanation(f"collectives.{key}", terms),
        "all_reduce.algorithm_bandwidth": Explanation("collectives.algorithm_bandwidth", size),
        "all_reduce.bus_bandwidth": Explanation("collectives.bus_bandwidth", (*size, Term("n", "GPUs", ranks, "1"))),
    }
