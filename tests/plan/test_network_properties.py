"""What must hold of every collective on every network: more of anything never slows it, nothing beats the wires."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.ideal import bus_bandwidth
from app.plan.all_reduce import all_reduce_times
from app.plan.communication import Communication, of_scenario, time_collective
from app.plan.network import network_of
from app.plan.scenario import Scenario

CATALOG = load_catalog()
WAYS = ("hashing", "flowlet", "adaptive", "spraying")
networks = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from([16, 64, 256, 1024, 4096]),
        "scale_out": st.sampled_from(["infiniband-ndr", "roce-400", "spectrum-x-400", "tcp-100"]),
        "topology": st.sampled_from(["rail-optimized", "fat-tree", "rail-only", "torus-2d", "mesh", "dragonfly"]),
        "oversubscription": st.sampled_from([1, 2, 4, 8]),
        "placement": st.sampled_from(["contiguous", "scattered"]),
        "load_balancing": st.sampled_from(WAYS),
        "profile": st.sampled_from(["calibrated", "ideal"]),
        "gpu": st.sampled_from(["h100-sxm", "a100-sxm", "b200-sxm"]),
    }
)
messages = st.sampled_from([1e4, 1e6, 1e8, 1e10])


def times(message: float, **asked) -> tuple[float, float]:
    """An all-reduce and an all-to-all over all GPUs [s]."""
    fabric = of_scenario(Scenario(**asked), CATALOG)
    reduced = float(all_reduce_times(fabric, message, sampling=TYPICAL).best.time[..., 0])
    return reduced, float(np.ravel(time_collective(fabric, "all-to-all", message).time)[0])


def never_slower(better: tuple[float, float], worse: tuple[float, float]) -> bool:
    """Whether no time is longer; the table of the fullest uplink is within 2 % between its points."""
    return all(one <= other * 1.02 or np.isnan(other) for one, other in zip(better, worse, strict=True))


@settings(max_examples=60, deadline=None)
@given(networks, messages)
def test_better_load_balancing_never_slows_a_collective(asked, message):
    each = [times(message, **(asked | {"load_balancing": way})) for way in WAYS]
    assert all(never_slower(better, worse) for worse, better in itertools.pairwise(each))


@settings(max_examples=60, deadline=None)
@given(networks, messages)
def test_a_wider_taper_never_quickens_a_collective_on_a_tree(asked, message):
    tree = asked | {
        "topology": "fat-tree" if asked["topology"] == "fat-tree" else "rail-optimized",
        "nodes_per_unit": 16,
    }
    narrow, wide = (Scenario(**(tree | {"oversubscription": taper})) for taper in (1, 4))
    if all(network_of(one, CATALOG).built for one in (narrow, wide)):
        assert never_slower(*(times(message, **(tree | {"oversubscription": taper})) for taper in (1, 4)))


@settings(max_examples=60, deadline=None)
@given(networks, messages)
def test_nodes_at_random_never_quicken_a_collective(asked, message):
    """On trees and tori. A mesh and a dragonfly have few links to the next switch or group, more to all others."""
    if asked["topology"] in ("mesh", "dragonfly"):
        return
    assert never_slower(*(times(message, **(asked | {"placement": where})) for where in ("contiguous", "scattered")))


@settings(max_examples=60, deadline=None)
@given(networks, messages)
def test_sums_in_the_switches_never_slow_an_all_reduce(asked, message):
    plain = asked | {"scale_out": "infiniband-ndr"}
    assert times(message, **plain, in_network_reduction=True)[0] <= times(message, **plain)[0] * (1 + 1e-9)


def wire(fabric: Communication) -> tuple[float, float]:
    """What a GPU's link and its share of the ports carry in one direction [B/s]."""
    machine = fabric.machine(TYPICAL)
    return float(np.ravel(machine.scale_up_line)[0]), float(np.ravel(machine.scale_out_line)[0])


@settings(max_examples=60, deadline=None)
@given(networks)
def test_nothing_beats_what_goes_in_nor_what_crosses_the_middle(asked):
    """Bus bandwidth of rings and trees is at most what a domain's ports carry; an all-to-all's at most a GPU's share.

    Of an all-to-all n·S/4 bytes cross the middle each way: n·S/(4·T) is at most the bisection. Rails meet below it.
    """
    scenario = Scenario(**asked)
    network, fabric, message = network_of(scenario, CATALOG), of_scenario(scenario, CATALOG), 1e10
    if network.built is None:
        return
    machine, (link, port) = fabric.machine(TYPICAL), wire(fabric)
    domain = float(np.ravel(machine.ranks_per_domain)[0])
    reduced, exchanged = times(message, **asked)
    assert bus_bandwidth(message, reduced, scenario.gpus) <= min(link, domain * port) * 2 * (1 + 1e-9)
    outside = (scenario.gpus - domain) / scenario.gpus * message
    assert outside / exchanged <= port * (1 + 1e-9)
    rate = network.cluster.scale_out.port_rate.typical / scenario.planes
    cut = float(network.built.design.bisection) * rate
    if asked["topology"] in ("torus-2d", "mesh", "dragonfly"):
        assert scenario.gpus * message / 4 / exchanged <= cut * 1.05
