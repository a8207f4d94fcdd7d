"""The one object that times transfers: a cluster and its designed network, as collectives and the step see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Gpu, ScaleOut, ScaleUp
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import DRAWS, TYPICAL, Sampling
from app.formulas.arrays import Array, maximum
from app.formulas.collectives.group_times import Interconnect, Links
from app.formulas.collectives.ideal import ALGORITHMS, Machine
from app.formulas.collectives.library import (
    ALGORITHMS_OF,
    WIRED_AS,
    AlphaBeta,
    Calibration,
    Selection,
    choose,
    wire_time,
)
from app.formulas.fabric.placement import PINNED, Site, network_share
from app.formulas.records import but, each_but
from app.formulas.tail import collective_wait, links_left
from app.plan.cluster import Cluster
from app.plan.machine import (
    CollectiveSystem,
    Transport,
    bridge_of,
    calibrated_residual,
    calibration,
    hardware_class,
    hardware_kind,
    kernel_residual,
    machine,
    residual,
    transport_of,
)
from app.plan.network import BETWEEN_SWITCHES, network_of
from app.plan.scenario import CollectiveRequest, NetworkRequest, Scenario
from app.plan.site_calibration import SiteCalibration, at_site, read_calibration

Floats = NDArray[np.float64]


USUAL_JITTER = float(NetworkRequest.model_fields["jitter"].default)
"""The spread of a node's step for which the constants hold [1]."""


class DesignedNetwork(Protocol):
    """What a transfer meets of a network that was designed."""

    @property
    def site(self) -> Site:
        """Where the GPUs stand."""

    @property
    def hops(self) -> int:
        """Switches on the longest shortest path [1]."""


@dataclass(frozen=True, eq=False)
class Communication:
    """Everything that the time of a transfer depends on.

    One equals itself alone, and `communication` makes one for equal arguments, so that it can be part of a cache's key.

    Attributes:
        catalog: the catalogue.
        system: hardware of one node, and the transport between nodes.
        gpus: GPUs of the cluster [1].
        full_domain: GPUs of a scale-up domain in a cluster that fills it [1].
        network: key of the network generation.
        sums_asked: reduction in the switches is asked for, whether or not the network has it.
        site: where the GPUs stand in the designed network.
        hops: switches on its longest shortest path [1].
        planes: equal networks that a NIC's rate is split over [1].
        jitter: relative spread of a step's time on one node [1].
        slow_node: by how much one node is slower than the others [1].
        request: profile, forced algorithm and protocol, measured efficiency; its message is not read.
    """

    catalog: Catalog
    system: CollectiveSystem
    gpus: int
    full_domain: int
    network: str
    sums_asked: bool
    site: Site
    hops: int
    planes: int
    jitter: float
    slow_node: float
    request: CollectiveRequest

    @property
    def gpu(self) -> Gpu:
        """The accelerator."""
        return self.catalog.gpus[self.system.gpu]

    @property
    def scale_up(self) -> ScaleUp:
        """The link between GPUs."""
        return self.catalog.scale_up[self.system.scale_up]

    @property
    def scale_out(self) -> ScaleOut:
        """The network generation."""
        return self.catalog.scale_out[self.network]

    @property
    def ideal(self) -> bool:
        """Timed by the textbook, at line rates."""
        return self.request.profile == "ideal"

    @property
    def site_factors(self) -> SiteCalibration | None:
        """What the reader's own measurements say of the cluster; the textbook knows of none."""
        text = self.request.calibration
        return read_calibration(text) if text and not self.ideal else None

    def calibration(self, sampling: Sampling = DRAWS) -> Calibration:
        """The constants of the library; a calibrated cluster's doubt is that of its factors."""
        return calibration(self.catalog, self.undoubted(sampling))

    def undoubted(self, sampling: Sampling) -> Sampling:
        """The sampling of the usual constants: typical values alone where the site's factors carry the doubt."""
        return Sampling(fitted=sampling.fitted) if sampling.drawn and self.site_factors else sampling

    def machine(self, sampling: Sampling = DRAWS, gpus: Floats | None = None) -> Machine:
        """The cluster, or the same cluster with other GPU counts: an array sweeps, with a last axis for draws."""
        if gpus is None:
            return _own_machine(self, sampling)
        return _tapered(_machine(self, self.scalable, np.asarray(gpus, float), sampling), self.site)

    def on_each(self, sites: Sequence[Site], hops: Sequence[int]) -> "list[Communication]":
        """The same of as many such GPUs as stand at other sites, on networks of so many switches in a row."""
        return each_but(self, {"site": sites, "gpus": [int(site.gpus) for site in sites], "hops": hops})

    @property
    def scalable(self) -> CollectiveSystem:
        """The system in clusters of other sizes: a domain that was cut to this one's is filled further by a larger."""
        cut = self.system.domain == self.gpus
        return but(self.system, domain=self.full_domain) if cut else self.system

    def waiting(self, ranks: Array, sampling: Sampling = DRAWS) -> Array:
        """Time of a collective over that among nodes as they usually spread: see `app.formulas.tail.collective_wait`.

        Nodes spread in a collective as in a step. The textbook's do not, so none spread less than they usually do.
        """
        if self.slow_node <= 0 and self.jitter == USUAL_JITTER:
            return 1.0
        usual = sampling(self.catalog.training["step"]["straggler"])
        factor = collective_wait(usual, usual * self.jitter / USUAL_JITTER, ranks, self.slow_node)
        return maximum(factor, 1.0) if self.ideal else factor

    def used(self) -> tuple[Estimate, ...]:
        """The estimates that the machine rests on."""
        used = hardware_kind(self.system, DRAWS, self.catalog).used
        latency = self.scale_out.end_to_end_latency
        if not self.ideal or latency is None:
            return used
        return (*used, latency, self.catalog.collectives["packets"]["payload"])

    def used_by_groups(self) -> tuple[Estimate, ...]:
        """The estimates that the links of its groups rest on."""
        joined = bridge_of(self.system, self.catalog)
        return (*self.used(), *(hardware_kind(joined, DRAWS, self.catalog).used if joined else ()))

    def links(self, sampling: Sampling = DRAWS) -> Links:
        """The links as groups of a job meet them.

        What the library's all-to-all takes to post the exchange with each peer is the host's work, which a step counts
        among its launches.
        """
        return _links(self, sampling)

    def hardware_class(self) -> str:
        """The class of hardware whose model error applies."""
        return hardware_class(self.system, self.gpus / self.system.gpus_per_node, self.catalog)

    def kernel_residual(self, message: Array) -> Array:
        """The error of a kernel that a graph records: half-width of the 80 % interval on the logarithm [1]."""
        return kernel_residual(self.catalog, self.system, message)

    def residual(self, message: Array, domains: Array, collective: str = "all-reduce") -> Array:
        """The model's own error of a message over so many domains: half-width of the 80 % interval on the log [1]."""
        joined = np.asarray(domains) > 1

        def error(nodes: float) -> Array:
            if self.site_factors:
                return calibrated_residual(self.catalog, message)
            return residual(self.catalog, hardware_class(self.system, nodes, self.catalog), message, collective)

        if joined.all():
            return error(np.inf)
        return np.where(joined, error(np.inf), error(1)) if joined.any() else error(1)


def _machine(fabric: Communication, system: CollectiveSystem, gpus: Floats, sampling: Sampling) -> Machine:
    """So many GPUs of a system, as the profile and the user's measurement have them, before a taper takes its share."""
    factors, site = fabric.site_factors, fabric.site
    built = machine(system, gpus / system.gpus_per_node, fabric.undoubted(sampling), fabric.catalog)
    if factors:
        built = at_site(built, factors, Sampling(drawn=sampling.drawn and fabric.catalog.ranges))
    if fabric.request.measured_efficiency is not None and not fabric.ideal:
        built = _as_measured(built, fabric.request.measured_efficiency)
    if site.rails_apart:
        built = but(built, rails_apart=1.0)
    latency = fabric.scale_out.end_to_end_latency
    if not fabric.ideal or latency is None:
        return built
    switch = fabric.scale_out.switch_latency
    above = max(fabric.hops - 1, 0) * sampling(switch) if switch else 0.0
    payload = sampling(fabric.catalog.collectives["packets"]["payload"])
    return but(
        built,
        scale_out_hop=sampling(latency),
        far_hop=above,
        leaf_domains=site.leaf / site.domain,
        scale_out_line=built.scale_out_line * payload,
    )


def _tapered(built: Machine, site: Site) -> Machine:
    """The machine with what the network leaves a collective of all its ranks."""
    if not site.matters:
        return built
    everyone = [(1.0, built.ranks)]
    return but(
        built,
        ring_network=network_share(everyone, "ring", site, built.exits),
        tree_network=network_share(everyone, "tree", site, built.exits),
        halving_network=network_share(everyone, "halving", site, built.exits),
        exchange_network=network_share(everyone, "exchange", site),
    )


@lru_cache(maxsize=128)
def _own_machine(fabric: Communication, sampling: Sampling) -> Machine:
    """The cluster itself.

    Kept: with the algorithms below it is a third of an all-reduce, and the same for every message.
    """
    return _tapered(_untapered(fabric, sampling), fabric.site)


@lru_cache(maxsize=128)
def _untapered(fabric: Communication, sampling: Sampling) -> Machine:
    """The same before a taper takes its share. Kept: all ranks and their groups meet the same links."""
    return _machine(fabric, fabric.system, np.asarray(float(fabric.gpus)), sampling)


@lru_cache(maxsize=128)
def _links(fabric: Communication, sampling: Sampling) -> Links:
    """See `Communication.links`. Kept: a plan asks twice, and its rivals and what-ifs again."""
    place = _Place.of(fabric, _ring_domain(fabric, sampling))
    return Links(_interconnect(_Joined.of(fabric, place), sampling), fabric.site)


def links_of_each(fabrics: Sequence[Communication], sampling: Sampling) -> list[Links]:
    """The links of clusters that differ in how many GPUs there are, and where they stand, alone; the first keeps those
    that it has.

    What the network leaves a group is worked out for each group, and not here for all ranks.
    """
    first, domain = fabrics[0], _ring_domain(fabrics[0], sampling)
    links = [first.links(sampling)]
    interconnects = {_Place.of(first, domain): links[0].interconnect}
    for fabric in fabrics[1:]:
        place = _Place.of(fabric, domain)
        if place not in interconnects:
            interconnects[place] = _interconnect(_Joined.of(fabric, place), sampling)
        links.append(Links(interconnects[place], fabric.site))
    return links


def _ring_domain(fabric: Communication, sampling: Sampling) -> float:
    """GPUs that a ring reaches over the scale-up link [1]."""
    return float(hardware_kind(fabric.system, sampling, fabric.catalog).machine.ranks_per_domain)


class _Place(NamedTuple):
    """What the interconnect of a cluster depends on of its size, and of where its GPUs stand.

    Attributes:
        rails_apart: whether nothing joins the rails.
        domain: GPUs that a ring reaches over the scale-up link [1].
        in_one: those of them that the cluster has [1].
        full: GPUs of a domain that the cluster does not fill, else none [1].
        several_nodes, several_domains: whether it has several.
        far: what the textbook takes of a place in the network: switches on the longest path, GPUs below a leaf [1].
    """

    rails_apart: bool
    domain: float
    in_one: float
    full: int | None
    several_nodes: bool
    several_domains: bool
    far: tuple[float, ...]

    @staticmethod
    def of(fabric: Communication, domain: float) -> "_Place":
        """That of a cluster."""
        return _Place(
            rails_apart=fabric.site.rails_apart,
            domain=domain,
            in_one=min(domain, float(fabric.gpus)),
            full=fabric.full_domain if fabric.system.domain == fabric.gpus else None,
            several_nodes=fabric.gpus > fabric.system.gpus_per_node,
            several_domains=fabric.gpus > domain,
            far=(fabric.hops, fabric.site.leaf, fabric.site.domain) if fabric.ideal else (),
        )


@dataclass(frozen=True)
class _Joined:
    """All that the interconnect of a cluster depends on: clusters of many sizes agree in it.

    Attributes:
        system, request, catalog, network: see `Communication`.
        place: what it depends on of the cluster's size and place.
        fabric: one of those that agree.
    """

    system: CollectiveSystem
    request: CollectiveRequest
    catalog: Catalog
    network: str
    place: _Place
    fabric: Communication = field(compare=False)

    @staticmethod
    def of(fabric: Communication, place: _Place) -> "_Joined":
        """That of a cluster."""
        return _Joined(fabric.system, fabric.request, fabric.catalog, fabric.network, place, fabric)


@lru_cache(maxsize=128)
def _interconnect(joined: _Joined, sampling: Sampling) -> Interconnect:
    """What joins the GPUs of a cluster. Kept: so is what its groups take, in clusters of many sizes."""
    fabric = joined.fabric
    alone = _machine(fabric, fabric.scalable, np.asarray(joined.place.in_one), sampling)
    bridge = bridge_of(fabric.system, fabric.catalog)
    return Interconnect(
        machine=_untapered(fabric, sampling),
        inside_rate=alone.scale_up_rate,
        inside_hop=alone.scale_up_hop,
        domain=joined.place.domain,
        library=_of_a_step(fabric.catalog, fabric.undoubted(sampling)),
        ideal=fabric.ideal,
        bridge=None if bridge is None else _machine(fabric, bridge, np.asarray(float(bridge.gpus_per_node)), sampling),
    )


def quicker_links(joining: Interconnect, scale_up: Array, scale_out: Array) -> Interconnect:
    """An interconnect with so many times the rates of the scale-up link and of the network."""

    def quicker(m: Machine) -> Machine:
        return m.but(
            scale_up_rate=m.scale_up_rate * scale_up,
            multicast_rate=m.multicast_rate * scale_up,
            scale_up_line=m.scale_up_line * scale_up,
            scale_out_rate=m.scale_out_rate * scale_out,
            scale_out_line=m.scale_out_line * scale_out,
        )

    bridge = joining.bridge and quicker(joining.bridge)
    return but(joining, machine=quicker(joining.machine), inside_rate=joining.inside_rate * scale_up, bridge=bridge)


@lru_cache(maxsize=64)
def _of_a_step(catalog: Catalog, sampling: Sampling) -> Calibration:
    """The constants of the library as a step meets them. Kept: all clusters share it, and alike ones are told by it."""
    return but(calibration(catalog, sampling), peer_overhead=0.0)


@lru_cache(maxsize=64)
def algorithms(fabric: Communication, collective: str, sampling: Sampling) -> Mapping[str, AlphaBeta]:
    """Latency, rate and fill of each algorithm of a collective on the cluster itself, whatever the message.

    Kept: see `_own_machine`.
    """
    return ALGORITHMS_OF[collective](fabric.machine(sampling), fabric.calibration(sampling))


def communication(
    cluster: Cluster,
    network: DesignedNetwork | None,
    request: NetworkRequest,
    collective: CollectiveRequest,
    catalog: Catalog,
    recorded: bool = False,
) -> Communication:
    """What times the transfers of a cluster on the network designed for it; ``None`` where none was designed.

    ``recorded``: calls are recorded in CUDA graphs.
    """
    unsized = collective if collective.message is None else collective.model_copy(update={"message": None})
    site, hops = (network.site, network.hops) if network else (Site(float(cluster.gpus), float(cluster.domain)), 0)
    return _communication(cluster, site, hops, request, unsized, catalog, recorded)


@lru_cache(maxsize=128)
def _communication(
    cluster: Cluster,
    site: Site,
    hops: int,
    request: NetworkRequest,
    collective: CollectiveRequest,
    catalog: Catalog,
    recorded: bool,
) -> Communication:
    """The same on any network with this site, with so many hops, for collectives of no message in particular.

    Kept: one object for one cluster and network is what keeps machines and all-reduces.
    """
    scale_out = cluster.scale_out
    return Communication(
        catalog=catalog,
        system=CollectiveSystem(
            gpu=cluster.gpu.key,
            scale_up=cluster.scale_up.key,
            wiring=cluster.wiring,
            domain=cluster.domain,
            gpus_per_node=cluster.gpus_per_node,
            transport=_degraded(transport_of(cluster, request), request, site),
            one_process=collective.one_process and cluster.gpus_per_node > 1,
            recorded=recorded,
        ),
        gpus=cluster.gpus,
        full_domain=cluster.full_domain,
        network=scale_out.key,
        sums_asked=request.in_network_reduction,
        site=site,
        hops=hops,
        planes=request.planes,
        jitter=request.jitter,
        slow_node=request.slow_node,
        request=collective,
    )


def _degraded(transport: Transport, request: NetworkRequest, site: Site) -> Transport:
    """The network as the GPU meets it whose link to the leaf is degraded: its channels all wait for the slowest.

    Where packets are spread over planes, that is one link of several.
    """
    if request.degraded_link == BETWEEN_SWITCHES:
        return transport
    links = 1.0 if site.balancing in PINNED else site.planes
    return but(transport, left=float(links_left(links, request.link_rate_left)), loss=request.link_loss / links)


def of_scenario(scenario: Scenario, catalog: Catalog) -> Communication:
    """The same for a whole question: its hardware looked up, its network designed."""
    network = network_of(scenario, catalog)
    requests = scenario.part(NetworkRequest), scenario.part(CollectiveRequest)
    return communication(network.cluster, network, *requests, catalog, scenario.recorded)


def time_collective(
    fabric: Communication, collective: str, message: float | Floats, sampling: Sampling = TYPICAL
) -> Selection:
    """What the library takes for a collective, by the quickest algorithm and protocol or the forced ones.

    Args:
        fabric: what times transfers.
        collective: one of ``COLLECTIVES``.
        message: bytes as nccl-tests count them, with a last axis for draws if it is an array [B].
        sampling: typical values, or draws.
    """
    algorithm, protocol = fabric.request.algorithm or "", fabric.request.protocol or ""
    machine = fabric.machine(sampling)
    selection = choose(collective, message, machine, fabric.calibration(sampling), algorithm, protocol)
    return selection.longer(fabric.waiting(float(fabric.gpus), sampling))


@lru_cache(maxsize=64)
def wire_time_of_a_byte(fabric: Communication, sampling: Sampling = DRAWS) -> Floats:
    """What each of `ALGORITHMS` takes at least to move a byte of a cluster's all-reduce at line rates [s/B].

    Kept: it takes 0.1 ms, and every message on a cluster shares it.
    """
    return wire_times_of_a_byte(fabric.machine(sampling))


def wire_times_of_a_byte(machine: Machine) -> Floats:
    """The same of a machine, or of each of those that it stands for, algorithms on the last axis [s/B]."""
    times = {
        name: np.atleast_1d(wire_time(name, 1.0, machine)).min(axis=-1) for name in ALGORITHMS if name not in WIRED_AS
    }
    return np.stack(np.broadcast_arrays(*(times[WIRED_AS.get(name, name)] for name in ALGORITHMS)), axis=-1)


def least_times(fabric: Communication, collective: str, messages: Floats, algorithms: NDArray[np.intp]) -> Floats:
    """Least times of all-reduces of so many bytes [B] on the wires, each by one of `ALGORITHMS` [s]; none of others."""
    if collective != "all-reduce":
        return np.zeros(len(messages))
    return messages * wire_time_of_a_byte(fabric)[algorithms]


def _as_measured(built: Machine, efficiency: float) -> Machine:
    """The machine with the rates a user measured: the network's between domains, no more than its line; the scale-up
    link's within one.
    """
    across = np.asarray(built.domains) > 1
    inside = np.where(across, 1.0, efficiency)
    most = np.maximum(built.scale_out_line, built.scale_out_rate)
    return but(
        built,
        scale_out_rate=np.minimum(built.scale_out_rate * np.where(across, efficiency, 1.0), most),
        scale_up_rate=built.scale_up_rate * inside,
        multicast_rate=built.multicast_rate * inside,
        one_shot_rate=built.one_shot_rate * inside,
        two_shot_rate=built.two_shot_rate * inside,
    )
