"""NCCL's own cost model: what its tables would choose."""

import math
from collections.abc import Mapping

import numpy as np

from app.formulas.arrays import Array
from app.formulas.collectives.ideal import PROTOCOLS, Machine


def library_times(
    message: float, machine: Machine, tables: Mapping[str, float], correction: Mapping[str, float], architecture: str
) -> dict[tuple[str, str], float]:
    """Time that NCCL's own cost model gives each algorithm and protocol of an all-reduce [s].

    Latency of the algorithm's steps from a table, plus message over bandwidth. The library takes the least of them;
    the model is meant to rank, its absolute times can be off by a factor of two.

    Args:
        message: bytes, S [B].
        machine: one cluster; its typical line rates, its counts and switches are used.
        tables: NCCL's latencies [s], LL limits [B/s] and shares [1] by name.
        correction: factor on a tree's bandwidth by protocol and message [1].
        architecture: volta, ampere, hopper or blackwell.

    Source: NVIDIA, NCCL 2.30, ``src/graph/tuning.cc``.
    """

    def one(value: Array) -> float:
        return float(value if isinstance(value, float) else np.asarray(value).flat[0])

    g, domains = one(machine.ranks_per_domain), one(machine.domains)
    ranks, several = g * domains, domains > 1
    count = "one" if not several else "two" if domains <= 2 else "many"
    link = one(machine.scale_up_line) * tables[f"link_{architecture}"]
    node = one(machine.scale_out_line) * tables["network"] * g
    near = "nvlink" if one(machine.ll128) > 0 else "pci"
    ring_bus = min(link, node) if several and g > 1 else node if several else link
    tree_bus = min(link, 2 * node) if count == "two" and g > 1 else ring_bus
    ratio = ranks / (2 * (ranks - 1))
    levels, post = math.floor(math.log2(domains)), tables["post"] if several else 0.0
    size = min(math.floor(math.log2(max(message, 64.0) / 64)), 24)
    found = {}
    for protocol in PROTOCOLS:
        if protocol == "ll128" and near == "pci":
            continue
        limit = tables[f"ll_{architecture}_{count}"]
        share = {"ll": tables["ll_share"], "ll128": tables["ll128_share"], "simple": 1.0}[protocol]
        bus = min(share * ring_bus, limit) if protocol == "ll" else share * ring_bus
        crossings = 2 * (domains - 1)
        hop = max(tables[f"{near}_ring_{protocol}"], post * (3 if protocol == "simple" else 1))
        away = tables[f"network_{'tree' if g == 1 else 'ring'}_{protocol}"]
        latency = tables[f"base_ring_{protocol}"] + (2 * (ranks - 1) - crossings) * hop + crossings * away
        if protocol == "simple" and several and message / ranks >= 64:
            latency *= tables["ring_simple_plateau"]
        found["ring", protocol] = latency + message / (bus * ratio)
        bus = tables["tree_share"] * tree_bus
        if protocol == "ll":
            bus = min(bus / tables["tree_ll_divisor"], limit)
        elif protocol == "ll128":
            bus *= tables["tree_ll128_many" if several else "tree_ll128_one"]
        factor = correction[f"{protocol}_{size:02}"] if size < 24 else 1.0
        steps = (g - 1) * tables[f"{near}_tree_{protocol}"] + levels * tables[f"network_tree_{protocol}"]
        found["tree", protocol] = tables[f"base_tree_{protocol}"] + 2 * steps + message / (bus * factor / 2)
    sharp = several and one(machine.in_network_reduction) > 0
    if f"nvls_{architecture}" in tables and one(machine.multicast_rate) > 0 and g > 2:
        inside = link * tables[f"nvls_{architecture}"] * 2
        if not several or sharp:
            bus = min(inside, node) if several else inside
            latency = tables["nvlink_nvls"] + (tables["network_nvls"] if several else 0.0)
            found["nvls", "simple"] = latency + message / (bus * ratio)
        if several:
            bus = min(inside, node * (2 if count == "two" else 1))
            latency = tables["nvlink_nvls_tree"] + 2 * levels * tables["network_nvls_tree"]
            found["nvls-tree", "simple"] = latency + message / (bus * ratio)
    if sharp and near == "nvlink":
        latency = 2 * (tables["nvlink_collnet"] + (g - 1) * tables["local_collnet"]) + tables["network_collnet"]
        found["collnet", "simple"] = latency + message / (min(link, node) / 2)
    return found
