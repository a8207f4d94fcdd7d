"""The machine of the collectives: each constant of the catalogue where it belongs, and nothing else."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.catalog.sampling import DRAWS, TYPICAL
from app.formulas.collectives.ideal import Machine
from app.plan import communication
from app.plan.machine import HardwareKind, hardware_class, hardware_kind, machine, side_by_side
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def constant(group: str, name: str) -> float:
    return CATALOG.collectives[group][name].typical


def kind(**asked: Any) -> HardwareKind:
    fabric = communication.of_scenario(Scenario(model="llama-3-8b", **asked), CATALOG)
    return hardware_kind(fabric.system, TYPICAL, CATALOG)


def line(key: str) -> float:
    return CATALOG.scale_up[key].bandwidth.typical


def test_an_hgx_node_of_the_fourth_nvlink_sums_in_its_switch():
    made = kind(gpus=64).machine
    rate = line(CATALOG.gpus["h100-sxm"].scale_up)
    assert (made.ranks_per_domain, made.domains, made.scale_up_line) == (8, 1, rate)
    assert made.scale_up_rate == pytest.approx(rate * constant("nvlink", "usable_4"))
    # The catalogue has its bus bandwidth; eight ranks carry 2·7/8 = 7/4 of the message.
    assert made.multicast_rate == pytest.approx(rate * constant("nvlink", "multicast_4") * 4 / 7)
    assert made.fill == constant("nvlink", "fill")
    assert made.fill_one_domain == pytest.approx(made.fill * constant("nvlink", "fill_one_domain_from_4"))
    assert (made.base_latency, made.mesh_peers, made.ll128) == (constant("nvlink", "base_latency"), 0, 1)
    assert made.scale_out_line == 50e9
    assert made.scale_out_rate == pytest.approx(50e9 * constant("infiniband", "efficiency"))
    assert made.scale_out_hop == made.reference_hop == constant("infiniband", "hop")
    assert (made.launch_floor, made.in_network_reduction, made.streamed, made.ring_share) == (0, 0, 0, 1)
    assert made.exits == np.inf


def test_a_mesh_of_older_nvlink_has_peers_and_no_sums():
    made = kind(gpu="v100-sxm", gpus=64, scale_out="infiniband-edr").machine
    link = CATALOG.scale_up[CATALOG.gpus["v100-sxm"].scale_up]
    assert made.scale_up_rate == pytest.approx(link.bandwidth.typical * constant("nvlink", "usable_2"))
    assert (made.multicast_rate, made.base_latency) == (0, constant("nvlink", "base_latency_to_2"))
    assert made.fill_one_domain == made.fill
    assert made.mesh_peers == (7 if link.links >= 7 else link.links // 2)  # two of the six links go to each of three


def test_an_amd_node_whose_links_nobody_counted_has_one_peer():
    key = CATALOG.gpus["mi300x"].scale_up
    uncounted = CATALOG.scale_up[key].model_copy(update={"links": None})
    catalog = replace(CATALOG, scale_up={**CATALOG.scale_up, key: uncounted})
    fabric = communication.of_scenario(Scenario(gpu="mi300x", gpus=64), catalog)
    assert hardware_kind(fabric.system, TYPICAL, catalog).machine.mesh_peers == 1


def test_a_rack_is_one_domain_with_exits():
    made = kind(gpu="gb200", gpus=576).machine
    assert (made.ranks_per_domain, made.exits) == (72, constant("library", "rack_exits"))
    rate = line(CATALOG.gpus["gb200"].scale_up)
    assert made.scale_up_rate == pytest.approx(rate * constant("nvlink", "usable_5"))
    assert made.multicast_rate == pytest.approx(rate * constant("nvlink", "multicast_5") * 4 / 7)


def test_hops_of_a_rack_are_longer_once_they_lead_to_other_nodes():
    fabric = communication.of_scenario(Scenario(model="llama-3-8b", gpu="gb200", gpus=576), CATALOG)
    made = machine(fabric.system, np.array([[1.0], [2.0], [18.0], [36.0]]), TYPICAL, CATALOG)
    hop = constant("nvlink", "hop_from_5")
    added = hop * (constant("library", "chain_across") - 1)
    # A tray of 4 by itself; trays of one rack; two racks, for which the library's own factor stands.
    np.testing.assert_allclose(made.scale_up_hop.ravel(), [hop, hop + added, hop + added, hop])
    np.testing.assert_allclose(made.hop_wait.ravel(), [0, added, added, 0])
    assert np.ravel(made.domains).tolist() == [1, 1, 1, 2]


def test_infinity_fabric_is_a_mesh_with_longer_hops_between_nodes():
    made = kind(gpu="mi300x", gpus=64).machine
    link = CATALOG.scale_up[CATALOG.gpus["mi300x"].scale_up]
    family = "infinity-fabric"
    assert made.scale_up_rate == pytest.approx(link.bandwidth.typical * constant(family, "usable"))
    assert (made.scale_up_hop, made.base_latency) == (constant(family, "hop"), constant(family, "base_latency"))
    assert made.fill_one_domain == pytest.approx(constant(family, "fill") * constant(family, "fill_one_domain"))
    assert made.mesh_peers == link.links
    longer = constant(family, "network_hop")
    assert made.scale_out_hop == pytest.approx(constant("infiniband", "hop") * longer)
    assert made.reference_hop == pytest.approx(constant("infiniband", "hop") * longer)


def test_pcie_goes_from_card_to_card_or_through_the_host():
    direct, host = (kind(gpu="l40s", gpus=64, scale_up_wiring=wiring) for wiring in ("peer-to-peer", "host"))
    rate = line(CATALOG.gpus["l40s"].pcie)
    assert direct.machine.scale_up_rate == pytest.approx(rate * constant("pcie", "usable"))
    assert host.machine.scale_up_rate == pytest.approx(rate * constant("pcie", "usable_host"))
    assert (direct.machine.scale_up_hop, host.machine.scale_up_hop) == (
        constant("pcie", "hop"), constant("pcie", "hop_host"),
    )  # fmt: skip
    assert direct.machine.fill == direct.machine.fill_one_domain == constant("pcie", "fill")
    assert (direct.machine.ll128, direct.across, host.across) == (0, None, None)
    assert direct.machine.scale_out_rate <= rate * constant("pcie", "network")


def test_cards_that_may_not_talk_to_their_neighbours_use_the_network_port_across_nodes():
    made = kind(gpu="l40s", gpus=64, scale_up_wiring="no-peer-to-peer")
    assert made.across is not None
    assert made.across.rate == made.machine.scale_out_rate
    longer = constant("library", "ring_hop") / constant("library", "chain_across")
    assert made.across.hop == pytest.approx(made.machine.scale_out_hop * longer)
    fabric = communication.of_scenario(
        Scenario(gpu="l40s", gpus=64, model="llama-3-8b", scale_up_wiring="no-peer-to-peer"), CATALOG
    )
    one, two = (machine(fabric.system, nodes, TYPICAL, CATALOG) for nodes in (1, 2))
    assert (one.scale_up_rate, two.scale_up_rate) == (made.machine.scale_up_rate, made.across.rate)
    assert (one.scale_up_hop, two.scale_up_hop) == (made.machine.scale_up_hop, made.across.hop)


@pytest.mark.parametrize(
    ("asked", "group", "rate", "hop"),
    [
        ({"scale_out": "roce-400"}, "roce", 1, 1),
        ({"scale_out": "roce-400", "tuned": False}, "roce", "untuned", "untuned_hop"),
        ({"scale_out": "roce-400", "gpudirect": False}, "roce", "off", "off"),
        ({"gpudirect": False}, "infiniband", "off", "off"),
        ({"tuned": False}, "infiniband", 1, 1),
        ({"scale_out": "spectrum-x-400"}, "roce", 1, 1),
        ({"scale_out": "slingshot-200"}, "slingshot", 1, 1),
    ],
    ids=str,
)
def test_a_network_delivers_a_share_of_its_line_rate(asked: dict[str, Any], group: str, rate: Any, hop: Any):
    made = kind(gpus=64, **asked).machine
    factors = {"off": (constant("gpudirect-off", "rate"), constant("gpudirect-off", "hop")), 1: (1, 1)}
    factors["untuned"] = factors["untuned_hop"] = (constant("roce", "untuned"), constant("roce", "untuned_hop"))
    port = made.scale_out_line
    assert port == CATALOG.scale_out[asked.get("scale_out", "infiniband-ndr")].port_rate.typical
    assert made.scale_out_rate == pytest.approx(port * constant(group, "efficiency") * factors[rate][0])
    assert made.scale_out_hop == pytest.approx(constant(group, "hop") * factors[hop][1])


@pytest.mark.parametrize("scale_out", [key for key, entry in CATALOG.scale_out.items() if entry.family == "efa"])
def test_the_faster_generations_of_efa_have_hops_of_their_own(scale_out: str):
    made = kind(gpus=64, scale_out=scale_out).machine
    slow = made.scale_out_line < constant("efa", "fast_from")
    generation = CATALOG.scale_out[scale_out].library_hop
    share = generation.typical if generation else 1
    assert made.scale_out_hop == pytest.approx(constant("efa", "hop" if slow else "hop_fast") * share)
    assert (share < 1) == (scale_out != "efa-100")


def test_sockets_carry_no_more_than_a_processor_copies():
    for scale_out in ("tcp-100", "tcp-400"):
        made = kind(gpus=64, scale_out=scale_out, gpudirect=False).machine
        port = CATALOG.scale_out[scale_out].port_rate.typical
        assert made.scale_out_rate == min(port * constant("tcp", "efficiency"), constant("tcp", "rate_per_gpu"))
        assert made.scale_out_hop == constant("tcp", "hop")


def test_one_process_launches_on_all_its_cards():
    assert kind(gpus=64, one_process=True).machine.launch_floor == pytest.approx(8 * constant("library", "launch"))
    assert kind(gpus=64, in_network_reduction=True).machine.in_network_reduction == constant("in-network", "share")


def test_a_machine_is_cut_into_domains_rounded_up():
    system = communication.of_scenario(Scenario(), CATALOG).system
    sizes = machine(system, np.array([0.5, 1.0, 2.5]), TYPICAL, CATALOG)
    assert np.ravel(sizes.ranks_per_domain).tolist() == [4, 8, 8]
    assert np.ravel(sizes.domains).tolist() == [1, 1, 3]


def test_machines_side_by_side_are_rows_of_their_draws():
    systems = [
        communication.of_scenario(Scenario(scale_out=key), CATALOG).system for key in ("infiniband-ndr", "roce-400")
    ]
    each = [machine(system, 16, DRAWS, CATALOG) for system in systems]
    width = CATALOG.collectives["nvlink"]["fill"].draws().size
    rows = side_by_side([each[place] for place in (1, 0, 1)])
    for name in (entry.name for entry in fields(Machine)):
        column = np.broadcast_to(getattr(rows, name), (3, width))
        for row, place in zip(column, (1, 0, 1), strict=True):
            assert np.array_equal(row, np.broadcast_to(np.ravel(getattr(each[place], name)), width))


@pytest.mark.parametrize(
    ("asked", "nodes", "group"),
    [
        ({}, 1, "nvlink-switch"),
        ({}, 2, "nvlink-switch-rdma"),
        ({"scale_out": "roce-400"}, 2, "nvlink-switch-rdma"),
        ({"scale_out": "tcp-100"}, 2, "nvlink-switch-other"),
        ({"scale_out": "efa-400"}, 2, "nvlink-switch-other"),
        ({"gpu": "v100-sxm"}, 2, "nvlink-mesh"),
        ({"gpu": "mi300x"}, 1, "infinity-fabric"),
        ({"gpu": "mi300x"}, 2, "infinity-fabric-network"),
        ({"gpu": "l40s"}, 2, "pcie"),
        ({"gpu": "gb200"}, 18, "nvlink-switch"),
        ({"gpu": "gb200"}, 19, "nvlink-switch-rdma"),
    ],
    ids=str,
)
def test_hardware_belongs_to_a_class_by_its_links_and_its_size(asked: dict[str, Any], nodes: int, group: str):
    system = communication.of_scenario(Scenario(gpus=576, model="llama-3-8b", **asked), CATALOG).system
    assert hardware_class(system, nodes, CATALOG) == group
