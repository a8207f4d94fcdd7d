"""What does not fit together in a cluster and its network, and what to change."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from app import units
from app.catalog.entries import Entry, Switch
from app.catalog.estimate import EARLY
from app.catalog.load import Catalog
from app.catalog.names import TOPOLOGIES, listed
from app.formulas.arrays import Array
from app.formulas.fabric import bisection, layouts
from app.plan.bill_of_materials import UNKNOWN_LINKS, PricedDesign
from app.plan.cables import is_wanted
from app.plan.cluster import Cluster, counterpart
from app.plan.prices import PriceList
from app.plan.result import Finding
from app.plan.scenario import ClusterRequest, NetworkRequest
from app.plan.switches import SwitchPair, designed, splits
from app.units import percent

SEVERITIES = ("error", "warning", "note")


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, the worst first; those of one severity in the order they were found."""
    once = {(finding.code, finding.message): finding for finding in findings}
    return tuple(sorted(once.values(), key=lambda finding: SEVERITIES.index(finding.severity)))


def of_links(cluster: Cluster, request: ClusterRequest) -> Iterator[Finding]:
    """What of GPU, server and links does not go together."""
    if cluster.gpu.key not in cluster.platform.gpus:
        yield Finding(
            "warning",
            "unusual-platform",
            f"{cluster.platform.name} is not sold with {cluster.gpu.name}.",
            ("platform", "gpu"),
            "Leave the server blank to take the GPU's usual platform.",
        )
    native = {cluster.gpu.scale_up, cluster.gpu.pcie, cluster.platform.pcie}
    if cluster.scale_up.key not in native:
        yield Finding(
            "warning",
            "other-scale-up",
            f"{cluster.gpu.name} has no {cluster.scale_up.name}; the plan shows what it would do.",
            ("scale_up",),
            "Leave the scale-up link blank to take the GPU's own.",
        )
    yield from _of_domain(cluster, request)
    if cluster.nodes > 1 and cluster.nics_per_node == 0:
        yield Finding(
            "error",
            "no-network",
            f"{cluster.nodes} nodes without a NIC cannot reach one another.",
            ("nics_per_node",),
            "Use at least one NIC per node.",
            {"nics_per_node": 1},
        )


def _of_domain(cluster: Cluster, request: ClusterRequest) -> Iterator[Finding]:
    """A scale-up domain that its link does not join, or not with one tier of switches."""
    limit = cluster.scale_up.largest_domain
    if (request.scale_up_domain or 0) > limit:
        yield Finding(
            "error",
            "domain-too-large",
            f"{cluster.scale_up.name} joins at most {limit} GPUs in one domain, not {request.scale_up_domain}.",
            ("scale_up_domain",),
            f"Use at most {limit}.",
            {"scale_up_domain": limit},
        )
    link, platform = cluster.scale_up, cluster.platform
    joined = max(platform.scale_up_domain, cluster.whole_node)
    one_tier = link.switch_ports.typical if link.switch_ports else limit
    if joined < min(cluster.domain, one_tier):
        yield Finding(
            "warning",
            "domain-beyond-platform",
            f"{platform.short_name} joins {joined} GPUs. The trays and switches that would join "
            f"{cluster.domain} over {link.name} are not in the bill, its price or its power.",
            ("scale_up_domain", "platform"),
            "Leave the domain blank, choose a platform that has it, or type the price of such nodes.",
            {"scale_up_domain": joined},
        )
    if link.switch_ports and link.links and link.switch_ports.typical < cluster.domain <= limit:
        ports = round(link.switch_ports.typical)
        chips = bisection.scale_up_chips(cluster.domain, link.links, ports)
        yield Finding(
            "note",
            "scale-up-tiers",
            f"{cluster.domain} GPUs in one domain of {link.name} need two tiers of its switches, {chips:,} chips of "
            f"{ports} ports; one tier joins {ports}. "
            + (
                f"The second tier adds {units.show(link.second_tier.typical, 's')} each way; "
                if link.second_tier
                else ""
            )
            + (
                "its chips and modules are in the capital, at what analysts take them to cost; what it draws is not in "
                "the plan."
                if link.chip_price
                else "what it adds in price and power is not in the plan."
            ),
            ("scale_up_domain",),
            f"A domain of {ports} needs one tier.",
            {"scale_up_domain": ports},
        )


def no_ports_for_spares(cluster: Cluster) -> Finding:
    """That no network as asked joins the spare nodes too."""
    joined = cluster.with_spares().nodes
    return Finding(
        "warning",
        "no-ports-for-spares",
        f"No network as asked joins {joined:,} nodes: this one is of the {cluster.nodes:,} that train, and each spare "
        "node is charged a node's share of it.",
        ("spare_nodes", "tiers", "switch"),
        "Leave tiers and switches blank, or hold fewer spare nodes.",
    )


def of_switches(built: PricedDesign) -> Iterator[Finding]:
    """Switches of a fabric that are not on sale yet."""
    parts: list[tuple[Entry, str]] = [(built.choice.leaf, "switch")]
    if built.design.spine_switches > 0 and built.choice.spine is not built.choice.leaf:
        parts.append((built.choice.spine, "spine_switch"))
    yield from not_shipping(parts)


def not_shipping(parts: Iterable[tuple[Entry, str]]) -> Iterator[Finding]:
    """Which of some parts, each with the field that chooses it, are not on sale yet."""
    early = [(part, field) for part, field in parts if part.status in EARLY]
    if early:
        names = [f"{part.name} ({part.status})" for part, _ in early]
        yield Finding(
            "note",
            "not-shipping",
            f"Not on sale yet: {listed(names)}. Figures that rest on it are the vendor's plans.",
            tuple(dict.fromkeys(field for _, field in early)),
            "Choose what is shipping where the date of delivery matters.",
        )


def refused(design: layouts.Design, cluster: Cluster, request: NetworkRequest, catalog: Catalog) -> bool:
    """Whether a design cannot be built as wished: an error is among its findings."""
    limit = cluster.scale_out.address_limit
    return (
        int(design.reason) != layouts.BUILT
        or foreign_switch(cluster, request, catalog) is not None
        or (limit is not None and bool(addresses(design, cluster, request) > limit.typical))
    )


def foreign_switch(cluster: Cluster, request: NetworkRequest, catalog: Catalog) -> Switch | None:
    """The first switch wished for that the network cannot run on."""
    family = "infiniband" if cluster.scale_out.family == "infiniband" else "ethernet"
    for key in filter(None, (request.switch, request.spine_switch)):
        switch = catalog.switches[key]
        if switch.family != family and not cluster.scale_out.family == switch.family == "slingshot":
            return switch
    return None


def addresses(design: layouts.Design, cluster: Cluster, request: NetworkRequest) -> Array:
    """Ports and switches of a subnet that need an address [1]. A plane is a subnet; where nothing joins the rails, each
    rail of it.
    """
    subnets = request.planes * (max(cluster.nics_per_node, 1) if request.topology == "rail-only" else 1)
    return (design.node_leaf + design.switches) / subnets


def _fed(cluster: Cluster) -> float:
    """What the GPUs of a node send to NICs at most: over PCIe, or as many as the platform comes with [B/s]."""
    platform = cluster.platform
    nic_share = platform.nic_rate.typical * platform.nics_per_node / platform.gpus_per_node
    return max(cluster.pcie.bandwidth.typical, nic_share) * cluster.gpus_per_node


def of_request(cluster: Cluster, request: NetworkRequest, catalog: Catalog, one_path: bool) -> Iterator[Finding]:
    """What is wrong or remarkable about the wish, before a switch is counted.

    Args:
        cluster: the cluster.
        request: what was asked for.
        catalog: what there is.
        one_path: whether each flow is bound to the links that join two switches.
    """
    rate = cluster.scale_out.port_rate
    slot = cluster.pcie.bandwidth
    if rate.typical > slot.typical * (1 + 1e-9):
        yield Finding(
            "warning",
            "pcie-too-slow",
            f"A NIC of {units.show(rate.typical, 'b/s')} needs more than the node's {cluster.pcie.name} slot carries, "
            f"{units.show(slot.typical, 'b/s')} each way.",
            ("scale_out", "platform"),
            "Choose a slower network, or a node with a newer PCIe generation.",
        )
    elif rate.typical * cluster.nics_per_node > _fed(cluster) * (1 + 1e-9):
        each = rate.typical * cluster.nics_per_node / cluster.gpus_per_node
        yield Finding(
            "warning",
            "pcie-too-slow",
            f"The NICs of a GPU carry {units.show(each, 'b/s')} together, its PCIe link "
            f"{units.show(_fed(cluster) / cluster.gpus_per_node, 'b/s')} each way: more NICs make nothing quicker.",
            ("nics_per_node", "gpus_per_node"),
            "Take fewer NICs for each GPU.",
        )
    yield from _beyond_nics(cluster)
    yield from _shared_slots(cluster, request, catalog, one_path)
    switch = foreign_switch(cluster, request, catalog)
    if switch:
        fitting = [catalog.switches[key].name for key in cluster.scale_out.switches]
        yield Finding(
            "error",
            "switch-of-another-family",
            f"{switch.name} is an {switch.family} switch; {cluster.scale_out.name} cannot run on it.",
            ("spine_switch" if switch.key == request.spine_switch else "switch", "scale_out"),
            f"Leave the switch blank, or choose one of: {', '.join(fitting)}.",
        )
    if request.spine_oversubscription > 1 and (request.tiers or 3) < 3:
        yield Finding(
            "note",
            "no-spine-taper",
            f"With {request.tiers} tiers nothing stands above the spines, so their taper has no effect.",
            ("spine_oversubscription", "tiers"),
            "Leave the spines' taper at 1:1, or ask for three tiers.",
            {"spine_oversubscription": 1},
        )


OF_TRANSFERS = frozenset({
    "pcie-too-slow", "pcie-shared", "host-bounce", "nics-shared", "rate-beyond-nics", "flows-on-one-path",
})  # fmt: skip
"""Findings about what carries a transfer, PCIe and the paths of flows, which an all-reduce by itself also says."""


def _beyond_nics(cluster: Cluster) -> Iterator[Finding]:
    """A rate of a GPU that its share of the NICs does not carry: more often than not a node's."""
    share = cluster.nic_share.typical
    if share and cluster.network_rate is not None and cluster.network_rate > share * (1 + 1e-9):
        yield Finding(
            "warning",
            "rate-beyond-nics",
            f"A GPU has {units.show(share, 'b/s')} of its node's {cluster.nics_per_node} NICs, which are taken; "
            f"{units.show(cluster.network_rate, 'b/s')} are more than they carry.",
            ("network_rate", "nics_per_node"),
            "Give the rate of one GPU, not of its node; where a node has more NICs, say how many.",
            {"network_rate": None},
        )


def _shared_slots(cluster: Cluster, request: NetworkRequest, catalog: Catalog, one_path: bool) -> Iterator[Finding]:
    """What NICs, GPUs and storage share on PCIe, where that is less than each could use."""
    slot, payload = cluster.pcie, catalog.collectives["pcie"]["payload"].typical
    port = cluster.scale_out.port_rate.typical
    network = port * cluster.nics_per_node / cluster.gpus_per_node
    storage = port * cluster.platform.storage_nics / cluster.gpus_per_node if request.storage_network else 0.0
    use = bisection.slot_use(network, storage, slot.bandwidth.typical, payload)
    carried = units.show(slot.bandwidth.typical * payload, "B/s", 2)
    if storage and use > 1 >= bisection.slot_use(network, 0.0, slot.bandwidth.typical, payload):
        yield Finding(
            "note",
            "pcie-shared",
            f"Where network and storage go straight to a GPU they share its {slot.name}, {carried} of payload each "
            f"way: {units.show(network, 'B/s', 3)} of network and {units.show(storage, 'B/s', 3)} of storage at once "
            f"are {use:.2f} times that, so that one waits for the other.",
            ("storage_network", "platform"),
            "Read data between exchanges, or through the host.",
        )
    if not request.gpudirect and cluster.scale_out.family not in ("tcp", "gpudirect-tcp"):
        yield Finding(
            "note",
            "host-bounce",
            f"Without GPUDirect RDMA every byte passes the link to the host twice, {carried} each way, beside what the "
            "other GPUs and NICs of the same PCIe switch send.",
            ("gpudirect",),
            "Switch GPUDirect RDMA on.",
            {"gpudirect": True},
        )
    if 0 < cluster.nics_per_node < cluster.gpus_per_node and request.network_rate is None:
        whole = f"Where the server has room for them, {cluster.gpus_per_node} NICs give each GPU a whole port"
        crowded = ", but the flows of all would take the few links that join two switches: first use adaptive routing."
        yield Finding(
            "note",
            "nics-shared",
            f"{cluster.gpus_per_node} GPUs share {cluster.nics_per_node} NICs of a node: each has "
            f"{units.show(network, 'B/s', 3)} of {units.show(port, 'B/s', 3)} while all send.",
            ("nics_per_node",),
            whole + (crowded if one_path else "."),
            {} if one_path else {"nics_per_node": cluster.gpus_per_node},
        )


def too_slow(cluster: Cluster, request: NetworkRequest, catalog: Catalog) -> Finding:
    rate = cluster.scale_out.port_rate.typical / request.planes
    given = {"switch": request.switch, "spine_switch": request.spine_switch}
    slow = [name for name, key in given.items() if key and not splits(catalog.switches[key], rate)]
    if slow:
        switch = catalog.switches[given[slow[0]] or ""]
        carried = units.show(switch.port_rate.typical, "b/s")
        text = f"A port of {switch.name} carries {carried}, and a link needs {units.show(rate, 'b/s')}."
    else:
        text = f"No switch of {cluster.scale_out.name} in the catalogue has ports that carry {units.show(rate, 'b/s')}."
    return Finding(
        "error",
        "switch-too-slow",
        text,
        (*(slow[:1] or ["switch"]), "scale_out"),
        "Leave the switch blank, or use more planes: each then carries a smaller share of the NIC.",
    )


def of_design(
    choice: SwitchPair,
    design: layouts.Design,
    cluster: Cluster,
    request: NetworkRequest,
    catalog: Catalog,
    built: Callable[[NetworkRequest], layouts.Design | None],
) -> Iterator[Finding]:
    """Why a design cannot be built, or what a network architect would say about it.

    Args:
        choice: its switches.
        design: the design.
        cluster: its cluster.
        request: what was asked for.
        catalog: the catalogue.
        built: what is built for a request instead; ``None`` where nothing can be.
    """
    reason = int(design.reason)
    hosts = cluster.nodes * cluster.nics_per_node + request.management_links
    if reason == layouts.TOO_MANY_HOSTS:
        yield _too_many(choice, cluster, request, hosts)
    elif reason == layouts.TAPER_TOO_WIDE:
        widest = choice.radix - 1
        yield Finding(
            "error",
            "taper-too-wide",
            f"A taper of {request.oversubscription:g}:1 leaves no uplink on a leaf of {choice.radix} ports.",
            ("oversubscription",),
            f"Use at most {widest}:1.",
            {"oversubscription": widest},
        )
    elif reason == layouts.TOO_MANY_TIERS:
        yield Finding(
            "error",
            "tiers-not-for-topology",
            f"{request.tiers} tiers do not make {TOPOLOGIES[request.topology]}.",
            ("tiers", "topology"),
            "Leave the tiers blank.",
        )
    elif reason == layouts.RADIX_TOO_SMALL:
        yield Finding(
            "error",
            "radix-too-small",
            f"{choice.leaf.name} has {choice.radix} ports: too few for hosts and every neighbour that a switch of "
            f"{TOPOLOGIES[request.topology]} has.",
            ("switch", "oversubscription", "topology"),
            "Use a larger switch, or a smaller taper.",
        )
    if reason != layouts.BUILT:
        return
    yield from _of_addresses(design, cluster, request, catalog)
    yield from _of_shape(choice, design, cluster, request)
    yield from _of_uplinks(choice, design, request, built)


def _too_many(choice: SwitchPair, cluster: Cluster, request: NetworkRequest, hosts: int) -> Finding:
    def most(tiers: int, request: NetworkRequest = request) -> int:
        reach = float(designed(choice.ports, cluster, request, 1, tiers=tiers).most_nodes)
        return int(reach) if np.isfinite(reach) else 0

    wanted_tiers = request.tiers
    works = [tiers for tiers in range(1, 5) if most(tiers) >= cluster.nodes]
    limit = most(wanted_tiers) if wanted_tiers else max(most(tiers) for tiers in range(1, 5))
    text = (
        f"{hosts:,} hosts do not fit: {TOPOLOGIES[request.topology]} of {wanted_tiers or 4} "
        f"tier{'s' if (wanted_tiers or 4) > 1 else ''} of {choice.radix}-port switches carries {limit:,} nodes of "
        f"{cluster.nics_per_node} NICs, not {cluster.nodes:,}."
    )
    if request.topology in ("mesh", "dragonfly"):
        limit = most(1)
        text = (
            f"{hosts:,} hosts do not fit: {TOPOLOGIES[request.topology]} of {choice.radix}-port switches carries "
            f"{limit:,} nodes of {cluster.nics_per_node} NICs, not {cluster.nodes:,}."
        )
        tree = request.model_copy(update={"topology": "rail-optimized"})
        enough = next((tiers for tiers in range(1, 5) if most(tiers, tree) >= cluster.nodes), None)
        changes: dict[str, str | int] = {"topology": tree.topology} if enough else {}
        if enough and wanted_tiers:
            changes["tiers"] = enough
        return Finding("error", "too-many-hosts", text, ("gpus", "topology"),
                       "Use a rail-optimised or plain fat tree.", changes)  # fmt: skip
    if works and wanted_tiers:
        fewest = min(works)
        return Finding("error", "too-many-hosts", text, ("tiers", "gpus"), f"Use {fewest} tiers.", {"tiers": fewest})
    gpus = limit * cluster.gpus_per_node
    advice = f"Use at most {gpus:,} GPUs, a switch with more ports, or more planes."
    return Finding(
        "error", "too-many-hosts", text, ("gpus", "switch", "planes"), advice, {"gpus": gpus} if gpus else {}
    )


def _of_addresses(
    design: layouts.Design, cluster: Cluster, request: NetworkRequest, catalog: Catalog
) -> Iterator[Finding]:
    """InfiniBand gives every port of a host and every switch of a subnet one local identifier."""
    limit = cluster.scale_out.address_limit
    if limit is None:
        return
    needed = int(addresses(design, cluster, request))
    rounded = catalog.operations["infiniband"]["articles_addresses"].typical
    if needed > limit.typical:
        yield Finding(
            "error",
            "infiniband-addresses",
            f"{needed:,} ports and switches need an address, and a subnet has {limit.typical:,.0f} unicast local "
            f"identifiers (the articles say {rounded:,.0f} devices).",
            ("gpus", "scale_out", "planes"),
            "Use Ethernet, or split the cluster into subnets joined by InfiniBand routers and plan each by itself.",
            {"scale_out": ethernet.key} if (ethernet := counterpart(cluster.scale_out, catalog)) else {},
        )
    elif needed > 0.8 * limit.typical:
        yield Finding(
            "note",
            "infiniband-addresses-nearly",
            f"{needed:,} of a subnet's {limit.typical:,.0f} unicast local identifiers are taken "
            f"(the articles say {rounded:,.0f} devices).",
            ("gpus",),
            "Before it grows, plan subnets joined by InfiniBand routers, or Ethernet.",
        )


def _of_shape(
    choice: SwitchPair, design: layouts.Design, cluster: Cluster, request: NetworkRequest
) -> Iterator[Finding]:
    layout = layouts.LAYOUTS.index(request.topology)
    if layout in layouts.APPROXIMATE:
        yield Finding(
            "note",
            "approximate-topology",
            f"Switches, links and bisection of {TOPOLOGIES[request.topology]} are approximate: real ones are laid out "
            "by hand.",
            ("topology",),
            "Ask its maker for the layout before you order.",
        )
    elif not bool(design.crosses_rails) and design.tiers <= 2 and cluster.nics_per_node > 1:
        yield Finding(
            "note",
            "rails-apart",
            "No switch joins two rails: traffic between rails goes over the scale-up link of a node, and the bisection "
            "shown is the sum over the rails.",
            ("topology", "spine_policy"),
            "Choose a rail-optimised topology with shared spines where experts or tensors cross the network.",
            {"topology": "rail-optimized", "spine_policy": "shared"},
        )
    if request.management_links and choice.leaf.management_port:
        yield Finding(
            "note",
            "manager-port",
            f"{choice.leaf.name} has a port of its own for the fabric manager; its links need not take host ports.",
            ("management_links",),
            "Set the fabric-manager links to 0.",
            {"management_links": 0},
        )
    unit = request.nodes_per_unit or 0
    if layout == layouts.RAIL_OPTIMIZED and design.tiers > 1 and unit > design.leaf_down:
        yield Finding(
            "note",
            "unit-larger-than-leaf",
            f"A leaf takes {int(design.leaf_down)} nodes of a rail, so units of {unit} are built as groups of "
            f"{int(design.leaf_down)}.",
            ("nodes_per_unit",),
            f"Use at most {int(design.leaf_down)}, or leave it blank.",
            {"nodes_per_unit": int(design.leaf_down)},
        )


def _of_uplinks(
    choice: SwitchPair,
    design: layouts.Design,
    request: NetworkRequest,
    built: Callable[[NetworkRequest], layouts.Design | None],
) -> Iterator[Finding]:
    """Where links from leaves to spines and cores are fewer or less even than was asked for."""
    layout = layouts.LAYOUTS.index(request.topology)
    if not bool(design.enough_spines):
        yield Finding(
            "warning",
            "fewer-spines",
            f"A leaf has {int(design.leaf_up)} uplinks, so at most {int(design.spine_switches)} spines get one each; "
            f"{request.minimum_spines} were asked for.",
            ("minimum_spines",),
            f"Ask for at most {int(design.leaf_up)}.",
        )
    if _uneven(design):
        by_rail = (asked := with_own_spines(design, request)) is not None
        if asked:
            rails = built(asked)
            by_rail = rails is not None and not _uneven(rails)
        yield Finding(
            "note",
            "uneven-links",
            "Links do not divide evenly over the spines and cores of this size; adaptive routing and reduction in the "
            "switch work best where they do.",
            ("nodes_per_unit", "spine_policy"),
            "Give each rail its own spines, or fill whole groups of units."
            if by_rail
            else "Fill whole groups of units.",
            {"spine_policy": "rail"} if by_rail else {},
        )
    taper, group, up = request.oversubscription, float(design.unit_hosts), float(design.leaf_up)
    if design.tiers > 1 and layout not in layouts.APPROXIMATE and up and abs(group / up / taper - 1) > 0.02:
        yield Finding(
            "note",
            "taper-rounded",
            f"A leaf of {choice.radix} ports gets {group:.0f} down and {up:.0f} up: {group / up:.2f} rather than "
            f"{taper:g} down for each up.",
            ("oversubscription",),
            "Ask for a taper that the ports divide into, or for nodes per unit that fill the leaves.",
        )


def with_own_spines(design: layouts.Design, request: NetworkRequest) -> NetworkRequest | None:
    """The request for spines of each rail's own, where links do not divide evenly over those that rails share."""
    return own_spines(request) if _uneven(design) else None


@lru_cache(maxsize=64)
def own_spines(request: NetworkRequest) -> NetworkRequest | None:
    """The request for spines of each rail's own, where rails share them. Kept: a plan asks three times, 10 µs each, and
    what is designed for it is looked up by it.
    """
    shared = request.topology == "rail-optimized" and request.spine_policy != "rail"
    return request.model_copy(update={"spine_policy": "rail"}) if shared else None


def _uneven(design: layouts.Design) -> bool:
    """Whether links do not divide evenly over spines and cores."""
    return not bool(design.balanced) and bool(design.tiers >= 3)


def of_size(
    network: PricedDesign, cluster: Cluster, request: NetworkRequest, left: Callable[[NetworkRequest], float]
) -> Iterator[Finding]:
    """Leaves built for many more nodes than there are.

    Args:
        network: what is built.
        cluster: its cluster.
        request: what was asked for.
        left: share of its rate that a collective of all GPUs has in the network of a request [1].
    """
    counts = network.counts
    room = counts.units * counts.unit_nodes
    if counts.by_rail and counts.tiers > 1 and request.nodes_per_unit is None and cluster.nodes < 0.6 * room:
        plain = request.model_copy(update={"topology": "fat-tree"})
        other = designed(network.choice.ports, cluster, plain, cluster.nodes)
        if int(other.reason) == layouts.BUILT and other.switches < network.design.switches:
            advice = "Keep it where the cluster will grow; else use a plain fat tree."
            rate = left(plain) / left(request)
            if rate < 1:
                advice = "Keep it: messages of different rails would share switches, which leave an all-reduce of all "
                advice += f"GPUs as little as {percent(rate)} of its rate."
            yield Finding(
                "note",
                "units-partly-filled",
                f"Leaves are built for whole units, {room:,} nodes; {cluster.nodes:,} are there. A plain fat tree "
                f"needs {int(other.switches):,} switches rather than {int(network.design.switches):,}.",
                ("topology",),
                advice,
                {} if rate < 1 else {"topology": "fat-tree"},
            )


def _included(network: PricedDesign, cluster: Cluster) -> Iterator[Finding]:
    """Adapters that the node's price pays for, or may pay for."""
    for line in network.parts:
        if not line.contained or line.usual is None:
            continue
        worth = units.show(line.usual.typical * line.quantity, "USD")
        if line.contained == "contains":
            more = line.price.typical * line.quantity if line.price else 0.0
            text = f"The servers' price includes their network cards, {worth} by themselves; the network's "
            text += f"includes the {units.show(more, 'USD')} that these cost more." if more else "does not."
            yield Finding("note", "nics-included", text, ("nics_included",))
        else:
            text = f"Sellers of {cluster.platform.name} do not say whether its price contains the network cards: "
            yield Finding(
                "note",
                "nics-perhaps-included",
                text + f"typical values and low ends take it to, high ends do not ({worth}).",
                ("nics_included",),
                "Ask, and say so.",
                {"nics_included": True},
            )


def _hyphened(level: str) -> str:
    return level.replace("_", "-")


def _uncabled(network: PricedDesign) -> Iterator[Finding]:
    """Links that nothing of the catalogue carries, and what was asked that makes them so."""
    levels = [_hyphened(level) for level, medium in network.media.items() if medium is None]
    if not levels:
        return
    request, advice = network.request, []
    changes: dict[str, int | None] = {}
    if request.planes > 1:
        advice.append("use one plane")
        changes["planes"] = 1
    if request.switch or request.spine_switch:
        advice.append("leave the switches blank")
        changes |= {"switch": None, "spine_switch": None}
    yield Finding(
        "warning",
        "no-cable",
        f"The catalogue has no module or cable for the links {' and '.join(levels)}: the fabric's cost is left open.",
        ("switch", "planes"),
        f"{' and '.join(advice or ['choose another network']).capitalize()}.",
        changes,
    )


LONG_HALL = 64
"""Rows of racks one behind the other beyond which lengths of links are said to rest on a hall that nobody builds."""


def _too_long(prices: PriceList, network: PricedDesign) -> Iterator[Finding]:
    """Links longer than anything in the catalogue reaches, or as long as the hall that racks are taken to stand in."""
    lengths, cabling = network.wanted.longest(prices.catalog), network.cabling
    floor, hall = cabling.floor, cabling.rows * cabling.floor.row_pitch
    stand = (
        f"{cabling.compute_racks:,} racks are taken to stand in {cabling.rows:,} rows of {floor.per_row}, "
        f"one behind the other over {hall:,.0f} m"
    )
    reached = {level: medium.reach for level, medium in network.media.items() if medium}
    short = {level: reach for level, reach in reached.items() if reach < lengths[level]}
    if short:
        longest = max(lengths[level] for level in short)
        yield Finding(
            "warning",
            "cable-too-long",
            f"Links {' and '.join(map(_hyphened, short))} are up to {longest:,.0f} m long, as cables are sold; no "
            f"module of the catalogue for them reaches farther than {max(short.values()):,.0f} m. They are priced as "
            f"those that do. {stand}.",
            ("switch",),
            "Ask for modules that reach so far, or stand several rows side by side.",
        )
    elif cabling.rows > LONG_HALL and lengths:
        yield Finding(
            "note",
            "long-hall",
            f"{stand}: the links {_hyphened(max(lengths, key=lambda level: lengths[level]))} are up to "
            f"{max(lengths.values()):,.0f} m long, as cables are sold, and the fabric's latency has the light in them.",
            ("gpus",),
            "Several rows side by side make the longest links shorter; what the network costs moves by a few per cent.",
        )


def of_prices(
    prices: PriceList, choices: Sequence[SwitchPair], network: PricedDesign, cluster: Cluster
) -> Iterator[Finding]:
    """Prices that nobody publishes, of what is bought and of the switches it was chosen among."""
    missing = [line.part for line in network.parts if line.price is None and line.role != UNKNOWN_LINKS]
    if missing:
        yield Finding(
            "warning",
            "no-price",
            f"Nobody publishes a price of {', '.join(dict.fromkeys(missing))}, so the fabric's cost is left open.",
            ("price_switch", "price_transceiver"),
            "Type the price you were quoted.",
        )
    yield from _included(network, cluster)
    yield from _uncabled(network)
    yield from _too_long(prices, network)
    wanted = network.cages.wanted
    other = [level for level, medium in network.media.items() if medium and not is_wanted(medium, wanted)]
    if other:
        yield Finding(
            "note",
            "other-media",
            f"The cables or modules that are asked for do not carry the links {' and '.join(map(_hyphened, other))}: "
            "the cheapest usual ones do.",
            ("media",),
            "Leave the cables blank, or choose a switch whose ports take them.",
        )
    switches = {id(switch): switch for choice in choices for switch in (choice.leaf, choice.spine)}
    scaled = {switch.name for switch in switches.values() if prices.by_rate(switch)}
    if cluster.nic and prices.by_rate(cluster.nic) and any(line.role == "NIC" for line in network.parts):
        scaled.add(cluster.nic.name)
    if scaled:
        yield Finding(
            "note",
            "price-by-rate",
            f"No price is published for {', '.join(sorted(scaled))}: taken by the rate of a port.",
            ("price_switch", "price_nic"),
            "Type the price you were quoted.",
        )
