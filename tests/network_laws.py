"""What must hold of every network: more of anything slows nothing, and nothing beats the wires.

A law takes the fields of a random plan, and raises `AssertionError` where the plan breaks it. The everyday tests hold
a few plans to each, `make fuzz` thousands.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.ideal import bus_bandwidth
from app.formulas.fabric.direct import torus_sides
from app.formulas.fabric.placement import PINNED
from app.plan.all_reduce import all_reduce_times, time_all_reduce
from app.plan.communication import Communication
from app.plan.job.inputs import JobRequest, JobSetup, step_inputs
from app.plan.job.job import fabric_on
from app.plan.network import Network, network_of
from app.plan.scenario import Scenario
from tests.laws import Asked, Law, NoPlanError

CATALOG = load_catalog()
NEAR = 1e-6
"""Rounding."""
TABLE = 0.02
"""The table of the fullest uplink between its points."""

CHOICES: Mapping[str, Sequence[Any]] = {
    "gpu": ["h100-sxm", "a100-sxm", "b200-sxm", "mi300x"],
    "gpus": [16, 24, 64, 128, 256, 512, 1000, 1024, 2048, 4096],
    "scale_out": [
        "infiniband-hdr", "infiniband-ndr", "roce-400", "spectrum-x-400", "ultra-ethernet-400", "tcp-100",
    ],
    "topology": ["rail-optimized", "fat-tree", "rail-only", "mesh", "torus-2d", "torus-3d", "dragonfly"],
    "oversubscription": [1, 1, 1.5, 2, 4, 8],
    "nodes_per_unit": [4, 8, 16, 32],
    "planes": [1, 1, 2, 4],
    "spine_policy": ["shared", "rail"],
    "load_balancing": [None, "hashing", "flowlet", "adaptive", "spraying"],
    "placement": ["contiguous", "scattered"],
    "gpudirect": [False, True],
    "tuned": [False, True],
    "in_network_reduction": [False, True],
    "jitter": [0, 0.014, 0.05],
    "message": [1e3, 1e5, 1e7, 1e9, 1e11],
    "profile": ["calibrated", "ideal"],
    "model": ["llama-3-8b", "mixtral-8x7b"],
    "tensor_parallel": [1, 2, 4, 8],
    "pipeline_parallel": [1, 2, 4],
    "virtual_pipeline": [1],
    "micro_batch": [1],
    "context_parallel": [1],
    "expert_parallel": [1, 4, 8],
    "sharding": ["none", "optimizer", "parameters"],
    "recompute": ["full"],
    "global_batch": [4096],
    "rank_order": ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"],
}  # fmt: skip
"""What a random plan chooses from."""


def _divided(asked: dict[str, Any]) -> dict[str, Any]:
    """A model without experts has none to spread."""
    return asked if asked["model"] == "mixtral-8x7b" else asked | {"expert_parallel": 1}


def random_plan(random: Random) -> dict[str, Any]:
    """A plan drawn by chance."""
    return _divided({field: random.choice(values) for field, values in CHOICES.items()})


plans = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in CHOICES.items()}).map(_divided)


def built(asked: Asked) -> Network:
    """The network of a plan."""
    network = network_of(Scenario(**asked), CATALOG)
    if network.built is None:
        raise NoPlanError
    return network


def reduced(fabric: Communication, message: float) -> float:
    """Time of an all-reduce over all GPUs [s]."""
    return float(all_reduce_times(fabric, message, sampling=TYPICAL).best.time[..., 0])


def exchanged(fabric: Communication, message: float) -> float:
    """Time of an all-to-all over all GPUs [s]."""
    return time_all_reduce(fabric, message).all_reduce.all_to_all_time.typical


def times(asked: Asked) -> dict[str, float]:
    """All-reduce, all-to-all and step of a plan [s]; no step where its parallelism does not divide."""
    return _times(frozenset(asked.items()))


@lru_cache(maxsize=64)
def _times(asked: frozenset[tuple[str, Any]]) -> dict[str, float]:
    scenario = Scenario(**dict(asked))
    network = built(dict(asked))
    fabric = fabric_on(network, scenario, CATALOG)
    request = JobRequest.of(scenario, CATALOG)
    inputs = step_inputs(network.cluster, fabric, request, CATALOG)
    steps = JobSetup.of(network.cluster, request, CATALOG, inputs).search(budget=np.inf).time
    message = scenario.message or 1.0
    collectives = {"all-reduce": reduced(fabric, message), "all-to-all": exchanged(fabric, message)}
    return collectives | ({"step": float(steps[0])} if len(steps) else {})


RESULTS = ("all-reduce", "all-to-all", "step")
EXCHANGE = ("all-to-all",)


def never_slower(
    asked: Asked, worse: Asked, better: Asked, tolerance: float = NEAR, results: Sequence[str] = RESULTS
) -> None:
    """What is better slows nothing."""
    before, after = times({**asked, **worse}), times({**asked, **better})
    for name in before.keys() & after.keys() & set(results):
        slower = f"{name}: {before[name]:.9g} s with {worse}, {after[name]:.9g} s with {better}"
        assert after[name] <= before[name] * (1 + tolerance), slower


def bound(asked: Asked) -> float:
    """How far times may be off: where flows are bound to links, as far as a table is."""
    return TABLE if asked["load_balancing"] in (None, "hashing", "flowlet") else NEAR


def more_uplinks(asked: Asked) -> None:
    """A narrower taper above the same leaves; that of a plain fat tree is never the same, it grows with the taper."""
    tree = {**asked, "topology": "rail-only" if asked["topology"] == "rail-only" else "rail-optimized"}
    few, many = {"oversubscription": 4}, {"oversubscription": 1}
    if leaves({**tree, **few}) != leaves({**tree, **many}):
        raise NoPlanError
    never_slower(tree, few, many, bound(asked))


def leaves(asked: Asked) -> tuple[int, int]:
    """Nodes below a leaf, or a leaf of each rail, and leaves in all."""
    network = built(asked).built
    assert network
    return network.counts.unit_nodes, network.counts.leaves_per_plane


def more_spine_uplinks(asked: Asked) -> None:
    """A narrower taper above the spines of three tiers, below which nothing is tapered, where packets choose paths.

    Spines with more uplinks have fewer leaves below them: more rings leave their pods, and a hash makes these collide.
    """
    tree = {**asked, "topology": "rail-optimized", "tiers": 3, "oversubscription": 1}
    if bound(asked) == TABLE:
        tree["load_balancing"] = "adaptive"
    never_slower(tree, {"spine_oversubscription": 4}, {"spine_oversubscription": 1})


def a_faster_network(asked: Asked) -> None:
    """A greater share of the ports for each GPU, in the same network."""
    never_slower(asked, {"network_rate": 6e9}, {"network_rate": 25e9})


def a_faster_generation(asked: Asked) -> None:
    """The next generation, of large messages, packet by packet at full rate: hops may be longer, leaves larger.

    Where a server's slots carry no more than the older one, only its hops are left; and rails with spines of their own
    are apart once they outgrow a leaf, whose size is the generation's. The small messages of a step are quicker where
    no more tiers are passed.
    """
    even = {"load_balancing": "adaptive", "oversubscription": 1, "topology": "rail-optimized", "message": 1e11}
    even |= {"spine_policy": "shared"}
    for older, newer in (("infiniband-hdr", "infiniband-ndr"), ("roce-400", "roce-800")):
        worse, better = {"scale_out": older}, {"scale_out": newer}
        as_near = built({**asked, **even, **better}).hops <= built({**asked, **even, **worse}).hops
        timed = RESULTS if as_near else RESULTS[:2]
        never_slower({**asked, **even}, worse, better, HOPS, timed)


HOPS = 0.001
"""What longer hops add to a large message."""


def a_larger_domain(asked: Asked) -> None:
    """More GPUs that meet without the network, where rails meet: rails that nothing else joins need a domain's links.

    Nodes stand in order: half a node by itself, placed at random, would be nearer to its other half than it is.

    An all-reduce by the textbook of any message, by the library of a large one: its trees pass one GPU of a domain
    after the other. An all-to-all of a large message whose packets choose their paths: the library's fills a longer
    pipeline, and fewer peers are fewer flows, which a hash spreads worse; more ports of a domain that send at once
    collide more, too, which an all-reduce has 2 % for.
    """
    asked = asked if asked["profile"] == "ideal" else {**asked, "message": max(asked["message"], 1e9)}
    joined = {"spine_policy": "shared", "placement": "contiguous"} | (
        {"topology": "rail-optimized"} if asked["topology"] == "rail-only" else {}
    )
    smaller, larger = {"scale_up_domain": 4}, {"scale_up_domain": 8}
    never_slower({**asked, **joined}, smaller, larger, max(FILL, bound(asked)), ("all-reduce", "step"))
    joined |= {"load_balancing": "adaptive", "message": 1e11}
    never_slower({**asked, **joined}, smaller, larger, FILL, ("all-to-all",))


def a_larger_rack(asked: Asked) -> None:
    """NVLink beyond the rack, 72, 144 and 576 GPUs in a domain, slows no step and an all-reduce by a fifth at most.

    The library cuts what a switch sums into chunks for each GPU of a domain: the more of them, the smaller these are.
    """
    racks = {
        "gpu": "gb200",
        "gpus": 2304,
        "topology": "rail-optimized",
        "spine_policy": "shared",
        "model": "llama-3-8b",
    }
    racks |= {"expert_parallel": 1, "load_balancing": "adaptive"}
    for smaller, larger in itertools.pairwise((72, 144, 576)):
        sizes = {"scale_up_domain": smaller}, {"scale_up_domain": larger}
        never_slower({**asked, **racks}, *sizes, FILL, ("step",))
        never_slower({**asked, **racks}, *sizes, CHUNKED, ("all-reduce",))


CHUNKED = 0.2
"""What smaller chunks add to a message: 17 % to one of 1 GB in 144 GPUs."""
FILL = 0.01
"""What the fill of a pipeline adds to a large message."""


def better_balancing(asked: Asked) -> None:
    """Flows spread over all paths instead of bound to one."""
    for worse, better in itertools.pairwise(("hashing", "flowlet", "adaptive", "spraying")):
        never_slower(asked, {"load_balancing": worse}, {"load_balancing": better})


def sums_in_the_switches(asked: Asked) -> None:
    """SHARP, where the network has it."""
    network = {"scale_out": "infiniband-ndr"}
    never_slower({**asked, **network}, {"in_network_reduction": False}, {"in_network_reduction": True})


def neighbours_near(asked: Asked) -> None:
    """Neighbouring ranks on neighbouring nodes, for a collective of all ranks, unless packets find ways round.

    A mesh or dragonfly has few links to the next, and stages that are all far from one another are nearer at random.
    """
    if asked["topology"] not in ("mesh", "dragonfly") or asked["load_balancing"] in PINNED:
        no_step = {**asked, "tensor_parallel": 3}
        never_slower(no_step, {"placement": "scattered"}, {"placement": "contiguous"}, TABLE)


def all_to_all_anywhere(asked: Asked) -> None:
    """Every GPU sends to every other: nodes at random bring it no nearer, in racks larger than a leaf either."""
    for gpu in (asked["gpu"], "gb200"):
        never_slower({**asked, "gpu": gpu}, {"placement": "scattered"}, {"placement": "contiguous"}, TABLE, EXCHANGE)


def sound_parts(asked: Asked) -> None:
    """Nodes that spread less, no slow node, no bad link."""
    never_slower(asked, {"jitter": 0.1}, {"jitter": 0.014})
    never_slower(asked, {"slow_node": 0.3}, {})
    for where in ("node-leaf", "leaf-spine"):
        link = {"degraded_link": where, "link_rate_left": 0.25}
        never_slower(asked, link | {"link_loss": 0.01}, link)
        never_slower(asked, link, {})


def halves(network: Network) -> float:
    """Share of an all-to-all's bytes that cross the middle one way: x(1 - x), a quarter unless one half is larger."""
    counts = network.built.counts if network.built else None
    equal = 2.0
    if counts and network.request.topology == "mesh":
        equal = float(counts.leaves_per_plane)
    elif counts and network.request.topology in ("torus-2d", "torus-3d"):
        equal = float(torus_sides(counts.leaves_per_plane, 2 if network.request.topology == "torus-2d" else 3)[0])
    elif counts and network.request.topology == "dragonfly":
        equal = float(counts.units if counts.units > 1 else counts.leaves_per_plane)
    part = equal // 2 / equal if equal > 1 else 0.0
    return part * (1 - part)


def nothing_beats_the_wires(asked: Asked) -> None:
    """What a collective moves fits through the ports, the scale-up links and the middle of the network.

    The middle is that of the network where all traffic meets: rails of one unit meet inside domains alone.

    In an all-reduce each of n GPUs sends 2(n - 1)/n of the message, over its link and its port; each of M domains
    sends 2(M - 1)/M of it, over its ports; a switch that sums halves what a link carries.
    """
    asked = {**asked, "in_network_reduction": False}
    network = built(asked)
    fabric = fabric_on(network, Scenario(**asked), CATALOG)
    machine, message, gpus = fabric.machine(TYPICAL), asked["message"], asked["gpus"]
    link, port = (float(np.ravel(rate)[0]) for rate in (machine.scale_up_line, machine.scale_out_line))
    domain = float(np.ravel(machine.ranks_per_domain)[0])
    summing = 2.0 if np.any(np.asarray(machine.multicast_rate) > 0) else 1.0
    time, domains = reduced(fabric, message), gpus / domain
    bus, leaving = bus_bandwidth(message, time, gpus), bus_bandwidth(message, time, domains)
    wires = summing * link + port
    assert bus <= wires * (1 + NEAR), f"all-reduce: {bus:.6g} B/s of {wires:.6g} on a GPU's wires"
    assert leaving <= domain * port * (1 + NEAR), f"all-reduce: {leaving:.6g} B/s of {domain * port:.6g} at the ports"
    time = exchanged(fabric, message)
    outside = (gpus - domain) / gpus * message
    assert outside <= port * time * (1 + NEAR), f"all-to-all: {outside / time:.6g} B/s of {port:.6g} at the port"
    inside_units = asked["topology"] == "rail-optimized" and network.built and network.built.counts.units == 1
    rails_meet = asked["topology"] != "rail-only" and asked["spine_policy"] == "shared" and not inside_units
    if network.built and rails_meet:
        rate = network.cluster.scale_out.port_rate.typical / asked["planes"]
        cut = float(network.built.design.bisection) * rate
        crossing = gpus * message * halves(network) / time
        assert crossing <= cut * 1.05, f"all-to-all: {crossing:.6g} B/s across a bisection of {cut:.6g}"


def a_full_fat_tree_is_as_calibrated(asked: Asked) -> None:
    """At 1:1, packet by packet, a tree leaves every collective and step what no network in particular would."""
    even = {"topology": "fat-tree", "oversubscription": 1, "load_balancing": "adaptive", "profile": "calibrated"}
    asked = {**asked, **even, "placement": "contiguous"}
    machine = fabric_on(built(asked), Scenario(**asked), CATALOG).machine(TYPICAL)
    for name in ("ring_network", "tree_network", "halving_network", "exchange_network"):
        assert np.all(np.asarray(getattr(machine, name)) == 1), name
    assert times(asked) == times({**asked, "topology": "rail-optimized", "spine_policy": "shared"})


LAWS: tuple[Law, ...] = (
    more_uplinks,
    more_spine_uplinks,
    a_faster_network,
    a_faster_generation,
    a_larger_domain,
    a_larger_rack,
    better_balancing,
    sums_in_the_switches,
    neighbours_near,
    all_to_all_anywhere,
    sound_parts,
    nothing_beats_the_wires,
    a_full_fat_tree_is_as_calibrated,
)
