"""The acceptance sheet of a planned cluster: settings, commands, and the figure each should show.

From the bottom up: links, one adapter pair, one server, two servers, a scalable unit, the whole cluster. The figures
are the plan's own models at the sizes the commands run; a measurement passes inside or above the 80 % range, and one
that falls below where 99 of 100 such clusters lie is worth an investigation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app import units
from app.catalog.entries import ScaleOut
from app.catalog.estimate import Z90, Z99
from app.catalog.load import Catalog
from app.formulas.collectives.ideal import bus_factor
from app.formulas.fabric.placement import PINNED
from app.plan import communication
from app.plan.all_reduce import AlgorithmTime, all_reduce_times
from app.plan.band import Band, interval
from app.plan.cluster import Cluster, look_up
from app.plan.communication import Communication
from app.plan.machine import CREDITED, PAUSED, controls, goodput, transport_of
from app.plan.network import BETWEEN_SWITCHES, usual_balancing
from app.plan.scenario import NetworkRequest, Scenario

RDMA = ("infiniband", "roce", "spectrum-x", "ultra-ethernet")
LIBFABRIC = {"efa": "efa", "slingshot": "cxi"}
"""The providers of libfabric by which the OFI plug-in reaches other networks with RDMA, by family."""
SOURCES = ("nccl-environment", "nccl-tests", "perftest")
PLUG_INS = {"slingshot": ("hpe-slingshot-collectives",), "gpudirect-tcp": ("google-gpudirect-tcpx",)}
"""What describes the plug-ins of networks, by family."""
SIZES = {text: units.parse(text, "B") for text in ("8 B", "1 MiB", "16 MiB", "256 MiB", "1 GiB", "8 GiB")}
"""Message sizes whose figures the sheet prints: the smallest for its time, the others for their bus bandwidth [B]."""
TCPX_INTERFACES = 4
"""Interfaces for the GPUs of a node whose plug-in is TCPX [1]."""


@dataclass(frozen=True)
class Setting:
    """One environment variable, and why."""

    name: str
    value: str
    why: str
    needed: bool = True


@dataclass(frozen=True)
class Figure:
    """One figure a command should show. ``band`` is in base units; texts are as the command prints them."""

    what: str
    band: Band
    expected: str
    passes: str
    investigate: str
    size: float | None = None


@dataclass(frozen=True)
class Check:
    """One step: what to run, where, and what it should show."""

    key: str
    title: str
    where: str
    command: str
    shows: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """Everything to accept a cluster by."""

    title: str
    settings: tuple[Setting, ...]
    checks: tuple[Check, ...]
    sources: tuple[str, ...]


def sheet(scenario: Scenario, catalog: Catalog, nodes_per_unit: int | None = None) -> Sheet:
    """The acceptance sheet for one scenario; ``nodes_per_unit`` is the fabric's, where it is known."""
    cluster = look_up(scenario, catalog)
    network = f" on {cluster.scale_out.name}" if cluster.nodes > 1 else ""
    return Sheet(
        title=f"{cluster.gpus:,} {cluster.gpu.name}{network}",
        settings=tuple(_settings(cluster, scenario, catalog)),
        checks=(
            *_links(cluster, scenario, catalog),
            *_collectives(cluster, scenario, catalog, nodes_per_unit),
            *_flow_control(cluster, scenario),
        ),
        sources=(*SOURCES, *(PLUG_INS.get(cluster.scale_out.family, ()) if cluster.nodes > 1 else ())),
    )


# Settings ------------------------------------------------------------------------------------------------------------


def adapters(cluster: Cluster) -> str:
    """The adapters of a node as ``NCCL_IB_HCA`` takes them."""
    return ",".join(f"mlx5_{index}" for index in range(cluster.nics_per_node))


def _settings(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Setting]:
    if cluster.nodes > 1:
        yield from _network(cluster, scenario, catalog)
        interface = {"slingshot": "=hsn0"} | dict.fromkeys(RDMA, "=bond0")
        yield Setting(
            "NCCL_SOCKET_IFNAME",
            interface.get(cluster.scale_out.family, "=eth0"),
            "The interface that sets connections up; name your own.",
        )
    if scenario.algorithm or scenario.protocol:
        if scenario.algorithm:
            yield Setting("NCCL_ALGO", _algorithm(scenario.algorithm), "Forced by the plan. Remove it afterwards.")
        if scenario.protocol:
            yield Setting("NCCL_PROTO", scenario.protocol.upper(), "Forced by the plan. Remove it afterwards.")
    yield Setting(
        "NCCL_DEBUG",
        "WARN",
        "Warnings alone; set INFO for the first run: it says which network, rings and trees are in use.",
    )


def _network(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Setting]:
    """How NCCL, or RCCL, reaches the network."""
    family = cluster.scale_out.family
    if family in RDMA:
        yield Setting("NCCL_IB_DISABLE", "0", "Use RDMA: with 1, NCCL falls back to TCP sockets.")
        if cluster.nics_per_node:
            yield Setting(
                "NCCL_IB_HCA",
                "=" + adapters(cluster),
                "The compute adapters alone, as ibstat calls them; the second = takes each name whole.",
            )
        yield from _gpudirect(cluster, scenario)
        yield from _fabric(cluster, scenario, catalog)
    elif family in LIBFABRIC:
        yield Setting("FI_PROVIDER", LIBFABRIC[family], "Through the OFI plug-in, which the image must carry.")
        if family == "slingshot":
            yield from _slingshot()
            yield from _gpudirect(cluster, scenario)
    elif family == "gpudirect-tcp" and scenario.gpudirect and cluster.nics_per_node:
        yield from _gpudirect_tcp(cluster)
    else:
        yield Setting("NCCL_IB_DISABLE", "1", "There is no RDMA: use TCP sockets at once.")
        yield Setting("NCCL_SOCKET_NTHREADS", "4", "Several threads for each connection: one core cannot fill a port.")
        yield Setting("NCCL_NSOCKS_PERTHREAD", "4", "Several sockets for each thread.")


def _slingshot() -> Iterator[Setting]:
    """What the maker says of collectives through libfabric."""
    yield Setting("FI_MR_CACHE_MONITOR", "userfaultfd", "Sees where registered memory is freed; kdreg2 does too.")
    yield Setting("FI_CXI_DISABLE_HOST_REGISTER", "1", "No allocations on the GPU under way, on which NCCL may hang.")
    yield Setting("FI_CXI_DEFAULT_CQ_SIZE", "131072", "Room for the completions of large jobs.")
    yield Setting("FI_CXI_RX_MATCH_MODE", "hybrid", "Matched in software where the adapter has no more entries.")


def _gpudirect_tcp(cluster: Cluster) -> Iterator[Setting]:
    """Through the provider's own plug-in: TCPX with four interfaces for the GPUs, TCPXO (FasTrak) with eight."""
    fastrak = cluster.nics_per_node > TCPX_INTERFACES
    plugin, interfaces, control = (
        ("GPUDirect-TCPXO", "NCCL_FASTRAK_IFNAME", "NCCL_FASTRAK_CTRL_DEV")
        if fastrak
        else ("GPUDirect-TCPX", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "NCCL_GPUDIRECTTCPX_CTRL_DEV")
    )
    names = ",".join(f"eth{index}" for index in range(1, cluster.nics_per_node + 1))
    yield Setting(
        interfaces, names, f"The GPUs' own, through the {plugin} plug-in, which the image must carry with its daemon."
    )
    yield Setting(control, "eth0", "What sets its connections up; name your own.")
    yield Setting("NCCL_CROSS_NIC", "0", "Each GPU stays with the interface beside it.")
    yield Setting("NCCL_NET_GDR_LEVEL", "PIX", "Straight to GPU memory, as far as one PCIe switch.")


def _gpudirect(cluster: Cluster, scenario: Scenario) -> Iterator[Setting]:
    if scenario.gpudirect:
        driver = "the peer memory of the amdgpu driver" if cluster.gpu.vendor == "AMD" else "nvidia-peermem"
        yield Setting(
            "NCCL_NET_GDR_LEVEL",
            "PHB",
            f"Adapter to GPU memory without a copy, as far as one PCIe host bridge. Needs {driver} or dma-buf.",
        )
    else:
        yield Setting("NCCL_NET_GDR_LEVEL", "LOC", "The plan goes through host memory.")


def _fabric(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Setting]:
    family = cluster.scale_out.family
    balancing = scenario.load_balancing or usual_balancing(family, scenario.tuned)
    if family != "infiniband":
        yield Setting(
            "NCCL_IB_GID_INDEX", "3", "RoCE v2; check with show_gids. Since 2.21 NCCL finds it by itself.", False
        )
        if controls(family, scenario.part(NetworkRequest)).flow == "pfc":
            yield Setting(
                "NCCL_IB_TC", "106", "Traffic class of the lossless queue (DSCP 26); as your switches have it."
            )
    if balancing in PINNED:
        pairs = f"{catalog.collectives['flows']['queue_pairs'].typical:g}"
        yield Setting("NCCL_IB_QPS_PER_CONNECTION", pairs, "More flows for equal-cost paths to spread.")
        yield Setting("NCCL_IB_SPLIT_DATA_ON_QPS", "1", "Every message over all of them; 0: message by message.", False)
    else:
        yield Setting("NCCL_IB_ADAPTIVE_ROUTING", "1", "Packets may arrive out of order: the last write goes alone.")
    if scenario.in_network_reduction and cluster.scale_out.in_network_reduction:
        yield Setting("NCCL_COLLNET_ENABLE", "1", "Sum in the switches (SHARP); needs its plug-in and daemon.")
    if scenario.topology == "rail-only":
        yield Setting("NCCL_CROSS_NIC", "0", "There is no path between rails: stay on one.")


def _algorithm(key: str) -> str:
    names = {"ring": "Ring", "tree": "Tree", "nvls": "NVLS", "nvls-tree": "NVLSTree", "collnet": "CollNet"}
    return names.get(key, key)


# Links ---------------------------------------------------------------------------------------------------------------


def _links(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Check]:
    yield from _scale_up(cluster)
    if cluster.nodes < 2 or not cluster.nics_per_node:
        return
    network = cluster.scale_out
    rate = units.show(network.port_rate.typical, "b/s", 4).replace(units.THIN, " ")
    gigabits = f"{network.port_rate.typical / units.GIGABIT:g}"
    count = cluster.nics_per_node
    if network.family in RDMA:
        layer = "InfiniBand" if network.family == "infiniband" else "Ethernet"
        yield Check(
            "ports",
            "Every port is up at its full rate",
            "on every node",
            "ibstat | grep -E 'CA \\'|State|Physical state|Rate|Link layer'",
            f"{count} adapters, each with State: Active, Physical state: LinkUp, Rate: {gigabits}, "
            f"Link layer: {layer}. A lower rate is a cable or module that trained down.",
        )
        yield Check(
            "status",
            "The same in one line for each port",
            "on every node",
            "ibstatus",
            f"{count} times state: 4: ACTIVE, phys state: 5: LinkUp, rate: {gigabits} Gb/sec.",
        )
        yield _write_bandwidth(cluster, scenario, catalog)
        yield from _write_latency(network)
    else:
        share = catalog.operations["acceptance"]["tcp"]
        band = _scaled(network.port_rate.typical, share.draws(), share.source)
        yield Check(
            "ports",
            "Every port is up at its full rate",
            "on every node",
            "for i in /sys/class/net/*/speed; do echo $i $(cat $i); done",
            f"{count} interfaces at {rate} ({network.port_rate.typical / units.GIGABIT * 1000:.0f} Mb/s).",
        )
        yield Check(
            "write",
            "One pair of ports fills its link",
            "between two nodes, then pairs of all nodes",
            "iperf3 --server  # on NODE1\niperf3 --client NODE1 --parallel 8 --time 10  # on NODE2",
            "The sum of the streams.",
            (_rate_figure("sum of streams", band), *_degraded(band, cluster, scenario, catalog)),
        )


def _scale_up(cluster: Cluster) -> Iterator[Check]:
    link = cluster.scale_up
    if cluster.gpus_per_node < 2:
        return
    if link.family == "nvlink" and link.links:
        each = link.bandwidth.typical / link.links
        yield Check(
            "scale-up",
            "Every NVLink is up",
            "on every node",
            "nvidia-smi nvlink --status",
            f"{link.links} links on each of {cluster.gpus_per_node} GPUs, each near "
            f"{units.show(each, 'B/s')} one way; none inactive.",
        )
    elif link.family == "infinity-fabric":
        yield Check(
            "scale-up",
            "Every Infinity Fabric link is up",
            "on every node",
            "rocm-smi --showtopotype --shownodesbw",
            f"XGMI between all {cluster.gpus_per_node} GPUs.",
        )
    elif link.family == "ualink":
        yield Check(
            "scale-up",
            "Every GPU reaches the others",
            "on every node",
            "amd-smi topology --access",
            f"ENABLED between all {cluster.gpus_per_node} GPUs.",
        )
    elif cluster.gpu.vendor == "AMD":
        yield Check(
            "scale-up",
            "Every GPU has its PCIe link at full width",
            "on every node",
            "amd-smi metric --pcie",
            f"WIDTH 16 for each of {cluster.gpus_per_node} GPUs, SPEED that of generation {cluster.pcie.generation:g}.",
        )
    else:
        yield Check(
            "scale-up",
            "Every GPU has its PCIe link at full width",
            "on every node",
            "nvidia-smi --query-gpu=pcie.link.gen.max,pcie.link.width.current --format=csv",
            f"Generation {cluster.pcie.generation:g}, width 16 for each of {cluster.gpus_per_node} GPUs.",
        )


def _scaled(rate: float, draws: np.ndarray[tuple[int, ...], np.dtype[np.float64]], source: str) -> Band:
    low, high = interval(rate * draws)
    return Band(float(low), float(rate * draws[0]), float(high), "B/s", (source,))


def _write_bandwidth(cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Check:
    network = cluster.scale_out
    kind = "infiniband" if network.family == "infiniband" else "ethernet"
    share = catalog.operations["acceptance"][kind]
    band = _scaled(network.port_rate.typical, share.draws(), share.source)
    options = "--report_gbits --qp 4 --size 8388608 --duration 10"
    gid = "" if kind == "infiniband" else " --gid-index 3"
    memory = "--use_rocm=0" if cluster.gpu.vendor == "AMD" else "--use_cuda=0"
    return Check(
        "write",
        "One pair of adapters fills its link",
        "between two nodes, adapter by adapter, then pairs of all nodes at once",
        _between(f"ib_write_bw -d mlx5_0 {options}{gid}"),
        f"BW average. Repeat with {memory} to test GPUDirect RDMA: it should show the same.",
        (_rate_figure("BW average", band), *_degraded(band, cluster, scenario, catalog)),
    )


def _degraded(sound: Band, cluster: Cluster, scenario: Scenario, catalog: Catalog) -> Iterator[Figure]:
    """What the same shows on the link of a node that the scenario says is degraded."""
    network = scenario.part(NetworkRequest)
    left, loss = network.link_rate_left, network.link_loss
    if network.degraded_link == BETWEEN_SWITCHES or (left == 1 and loss == 0):
        return
    share = left * goodput(replace(transport_of(cluster, network), drops=False, loss=loss), catalog)
    bad = Band(share * sound.low, share * sound.typical, share * sound.high, "B/s", sound.sources)
    yield _rate_figure("on the bad link", bad)


def _between(command: str) -> str:
    """A test between two nodes: the server waits on the first, the client starts on the second.

    >>> _between("ib_write_lat")
    'ib_write_lat  # on NODE1\\nib_write_lat NODE1  # on NODE2'
    """
    return f"{command}  # on NODE1\n{command} NODE1  # on NODE2"


def _write_latency(network: ScaleOut) -> Iterator[Check]:
    latency = network.end_to_end_latency
    if latency is None:
        return
    low, high = interval(latency.draws())
    band = Band(float(low), latency.typical, float(high), "s", (latency.source,))
    limit = latency.typical * (float(high) / latency.typical) ** (Z99 / Z90)
    figure = Figure(
        "t_avg", band, _microseconds(band.typical), f"up to {_microseconds(band.high)}", f"above {_microseconds(limit)}"
    )
    yield Check(
        "latency",
        "A small write arrives quickly",
        "between two nodes under one leaf, then across the fabric",
        _between("ib_write_lat -d mlx5_0 --size 8"),
        "t_avg, from host memory to host memory.",
        (figure,),
    )


def _rate_figure(what: str, band: Band) -> Figure:
    low = band.typical * (band.low / band.typical) ** (Z99 / Z90)
    return Figure(what, band, _gigabits(band.typical), f"from {_gigabits(band.low)}", f"below {_gigabits(low)}")


def _gigabits(rate: float) -> str:
    return f"{rate / units.GIGABIT:.4g} Gb/s"


def _microseconds(time: float) -> str:
    return units.show(time, "s", 3).replace(units.THIN, " ")


ENABLED = {"ecn": "1 and 1", "own": "as the network's own control needs it", "none": "0 and 0"}
"""What the adapters show of ECN, by congestion control."""


def _flow_control(cluster: Cluster, scenario: Scenario) -> Iterator[Check]:
    """Whether the settings against overflow are on, and whether anything was lost while everything ran."""
    family = cluster.scale_out.family
    if cluster.nodes < 2 or family not in (*PAUSED, "infiniband"):
        return
    if family in CREDITED:
        yield Check(
            "credits",
            "No link lost or corrupted anything, and waits for credits were short",
            "on one node, after the all-reduce of the whole cluster",
            "ibqueryerrors --details",
            "No SymbolErrorCounter, LinkDownedCounter or PortRcvErrors. PortXmitWait counts waits for credits: one "
            "port far above its neighbours leads to what holds them up.",
        )
        return
    flow, congestion = controls(family, scenario.part(NetworkRequest))
    yield Check(
        "control-settings",
        "Flow and congestion control are set as planned",
        "on every node and adapter",
        "mlnx_qos -i eth0 | grep -A2 PFC\n"
        "cat /sys/class/net/eth0/ecn/roce_np/enable/3 /sys/class/net/eth0/ecn/roce_rp/enable/3",
        f"PFC: {'1 for priority 3 alone' if flow == 'pfc' else '0 for every priority'}. ECN: {ENABLED[congestion]}.",
    )
    counters = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters"
    lossless = (
        "out_of_sequence, packet_seq_err and discards_phy stay at 0: after a lost packet all behind it is sent again. "
    )
    lossy = "Without PFC queues drop packets: discards_phy stays below one in 1,000 of what was sent. "
    marks = (
        "Pause frames (PFC) only in the lossless queue's priority; where they grow and ECN marks do not, DCQCN is off."
    )
    yield Check(
        "flow-control",
        "Nothing was lost on the way, and congestion control worked"
        if flow == "pfc"
        else "Little was lost on the way, and congestion control worked",
        "on every node and adapter, after the all-reduce of the whole cluster",
        f"grep . {counters}/{{out_of_sequence,packet_seq_err,np_ecn_marked_roce_packets,rp_cnp_handled}}\n"
        "ethtool -S eth0 | grep -E 'prio[0-9]_pause|discards_phy'",
        (lossless if flow == "pfc" else lossy) + (marks if congestion == "ecn" else ""),
    )


# Collectives ---------------------------------------------------------------------------------------------------------


def _collectives(cluster: Cluster, scenario: Scenario, catalog: Catalog, nodes_per_unit: int | None) -> Iterator[Check]:
    titles = {"node": "One server", "pair": "Two servers", "unit": "One scalable unit", "cluster": "The whole cluster"}
    as_tested = scenario.model_copy(update={"graphs": None})  # nccl-tests launches each call
    fabric = communication.of_scenario(as_tested, catalog)
    for key, nodes in _steps(cluster, nodes_per_unit or scenario.nodes_per_unit or 0).items():
        gpus = min(nodes * cluster.gpus_per_node, cluster.gpus)
        yield Check(
            f"all-reduce-{key}",
            f"{titles[key]}: {gpus:,} GPUs reduce as planned",
            "from one node" if nodes == 1 else f"from one node, {nodes} nodes in the host file",
            command(nodes, cluster.gpus_per_node, gpus),
            "Out-of-place columns time and busbw.",
            tuple(_figures(fabric, gpus)),
        )


def _steps(cluster: Cluster, unit: int) -> dict[str, int]:
    """Node counts to test, growing: one, two, a scalable unit, all."""
    steps: dict[str, int] = {}
    if cluster.gpus_per_node > 1:
        steps["node"] = 1
    if cluster.nodes > 1:
        steps["pair"] = 2
    if 2 < unit < cluster.nodes:
        steps["unit"] = unit
    if cluster.nodes > 2:
        steps["cluster"] = cluster.nodes
    return steps


def command(nodes: int, per_node: int, ranks: int) -> str:
    """The nccl-tests run of one step.

    >>> command(1, 8, 8)
    'mpirun -np 8 all_reduce_perf --minbytes 8 --maxbytes 8G --stepfactor 2 --ngpus 1 --iters 50 --warmup_iters 10'
    """
    spread = f"-np {ranks}" if nodes == 1 else f"-np {ranks} -N {per_node} --hostfile hosts"
    options = "--minbytes 8 --maxbytes 8G --stepfactor 2 --ngpus 1 --iters 50 --warmup_iters 10"
    return f"mpirun {spread} all_reduce_perf {options}"


def _figures(fabric: Communication, gpus: int) -> Iterator[Figure]:
    """Time of the smallest message, bus bandwidth of the others, on so many GPUs of the cluster."""
    sizes = np.array(list(SIZES.values()))
    times = all_reduce_times(fabric, sizes, np.full(sizes.shape, float(gpus)))
    sources = tuple(dict.fromkeys(estimate.source for estimate in times.used))
    carried = float(bus_factor("all-reduce", gpus))
    for (text, size), (low, typical, high) in zip(SIZES.items(), _times(times.best), strict=True):
        if not np.isfinite(typical):
            continue
        slow = typical * (high / typical) ** (Z99 / Z90)
        if size == min(SIZES.values()):
            band = Band(low, typical, high, "s", sources)
            texts = _microseconds(typical), f"up to {_microseconds(high)}", f"above {_microseconds(slow)}"
            yield Figure(f"time at {text}", band, *texts, size)
        else:
            rate = size * carried
            band = Band(rate / high, rate / typical, rate / low, "B/s", sources)
            texts = _gigabytes(band.typical), f"from {_gigabytes(band.low)}", f"below {_gigabytes(rate / slow)}"
            yield Figure(f"busbw at {text}", band, *texts, size)


def _times(way: AlgorithmTime) -> list[tuple[float, float, float]]:
    low, high = interval(way.time, np.nan_to_num(way.residual))
    return [(float(a), float(t), float(b)) for a, t, b in zip(low, way.time[:, 0], high, strict=True)]


def _gigabytes(rate: float) -> str:
    """As nccl-tests prints bandwidth: GB/s of 10⁹ bytes."""
    return f"{units.show(rate / units.GIGABYTE, '1')} GB/s"
