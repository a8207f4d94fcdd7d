"""What a node's PCIe carries for NICs, GPUs and storage, and the switch tiers of large scale-up domains."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.plan import communication
from app.plan.evaluate import evaluate_all_reduce

CATALOG = load_catalog()


def said(**asked) -> dict[str, str]:
    return {finding.code: finding.message for finding in evaluate(Scenario(**asked), CATALOG).findings}


def test_network_and_storage_that_fill_a_slot_together_share_it():
    """HGX H100: 50 GB/s of network, 12.5 of storage by two ports a node; of 63 GB/s 56.07 are payload: 1.11."""
    message = said(storage_network=True)["pcie-shared"]
    assert "1.11 times" in message
    assert "pcie-shared" not in said()
    assert "pcie-shared" not in said(storage_network=True, scale_out="infiniband-hdr")


@pytest.mark.parametrize(("asked", "passes"), [({}, 1), ({"gpudirect": False}, 2)])
def test_what_shares_a_slot_is_shown_whether_or_not_it_is_too_much(asked, passes):
    """HGX H100: 50 and 12.5 GB/s of 56.07 GB/s, 0.89 and 0.22; through the host twice each."""
    rows = {row.part: row for row in evaluate(Scenario(**asked), CATALOG).fabric.slot}
    assert {part: row.rate.typical for part, row in rows.items()} == {
        "network": 50e9 * passes, "storage": 12.5e9 * passes, "together": 62.5e9 * passes,
    }  # fmt: skip
    assert rows["network"].share.typical == pytest.approx(passes * 50 / 56.07, rel=1e-3)
    assert rows["together"].share.typical == pytest.approx(passes * 62.5 / 56.07, rel=1e-3)


def test_without_gpudirect_the_link_to_the_host_is_passed_twice():
    assert "twice" in said(gpudirect=False)["host-bounce"]
    assert not {"host-bounce"} & (said() | said(gpudirect=False, scale_out="tcp-100")).keys()


def test_gpus_that_share_a_nic_have_its_rate_among_them():
    """4 NICs of 50 GB/s for 8 GPUs."""
    assert "25" in said(nics_per_node=4)["nics-shared"]
    assert "nics-shared" not in said()


def test_a_gpu_has_no_more_of_the_network_than_its_nics_carry():
    """3.2 Tb/s is what a node of eight H100 has: a GPU has 400 Gb/s, whatever is typed."""
    asked = {"gpus": 256, "message": 1e9}
    most, node = (evaluate(Scenario(**asked, **rate), CATALOG) for rate in ({}, {"network_rate": 400e9}))
    assert node.all_reduce.all_to_all_time.typical == most.all_reduce.all_to_all_time.typical
    assert node.training.step_time.typical == most.training.step_time.typical
    (finding,) = (finding for finding in node.findings if finding.code == "rate-beyond-nics")
    assert "A GPU has 400\u202fGb/s of its node's 8 NICs" in finding.message
    assert "3.2\u202fTb/s" in finding.message
    assert dict(finding.changes) == {"network_rate": None}
    assert "rate-beyond-nics" not in said(gpus=256) | said(gpus=256, network_rate=50e9)
    # a cloud whose servers have 32 ports of 100 Gb/s for eight GPUs
    assert "rate-beyond-nics" in said(scale_out="efa-100", network_rate=50e9)
    assert "rate-beyond-nics" not in said(scale_out="efa-100", network_rate=50e9, nics_per_node=32)


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        ("pcie-too-slow", {"scale_out": "infiniband-xdr"}),
        ("pcie-shared", {"storage_network": True}),
        ("host-bounce", {"gpudirect": False}),
        ("nics-shared", {"nics_per_node": 4}),
        ("rate-beyond-nics", {"network_rate": 400e9}),
    ],
)
def test_an_all_reduce_by_itself_says_so_too(code, asked):
    assert code in {finding.code for finding in evaluate_all_reduce(Scenario(**asked), CATALOG).findings}


@pytest.mark.parametrize(("domain", "chips"), [(144, "108 chips of 72 ports"), (576, "432 chips of 72 ports")])
def test_domains_beyond_one_tier_say_what_switches_they_need(domain, chips):
    """3 · 144 · 18/72 = 108: leaves with half their ports up, and spines; an NVL72 has 18 in one tier."""
    assert chips in said(gpu="gb200", gpus=1152, scale_up_domain=domain)["scale-up-tiers"]
    assert "scale-up-tiers" not in said(gpu="gb200", gpus=1152)


def test_a_domain_that_no_source_has_is_refused():
    assert "domain-too-large" in said(gpu="rubin", gpus=1152, scale_up_domain=144)


def test_a_second_tier_of_nvlink_switches_is_two_more_switches_on_the_way():
    """0.3 us there and as much back; a domain that one tier joins is as it was."""
    machines = {
        domain: communication.of_scenario(Scenario(gpu="gb200", gpus=1152, scale_up_domain=domain), CATALOG).machine(
            TYPICAL
        )
        for domain in (36, 72, 144, 576)
    }
    launch = {domain: float(machine.base_latency) for domain, machine in machines.items()}
    assert launch[36] == launch[72]
    assert launch[144] - launch[72] == pytest.approx(0.6e-6)
    assert launch[576] == launch[144]
    assert "300" in said(gpu="gb200", gpus=1152, scale_up_domain=144)["scale-up-tiers"]


def test_a_second_tier_of_nvlink_switches_is_bought():
    # Eight domains of 144: 108 chips each, 72 more than two racks have, at $3,600; modules for 16 times 72 GPUs.
    one, two = (evaluate(Scenario(gpu="gb200", gpus=1152, scale_up_domain=domain), CATALOG) for domain in (72, 144))
    (paid,) = (line.cost for line in two.costs.capital_parts if line.name == "second scale-up tier")
    assert paid.typical == pytest.approx(8 * 72 * 3600 + 16 * 1.1e6)
    assert two.costs.capital.typical - one.costs.capital.typical == pytest.approx(paid.typical, rel=0.01)
    lines = {line.role: line.quantity for line in two.cluster.bill_of_materials}
    assert (lines["scale-up switch chip"], lines["scale-up module"]) == (576, 16)
    assert "second scale-up tier" not in {line.name for line in one.costs.capital_parts}
    assert "in the capital" in said(gpu="gb200", gpus=1152, scale_up_domain=144)["scale-up-tiers"]


def test_a_domain_that_a_platform_does_not_have_is_not_free() -> None:
    assert "domain-beyond-platform" in said(gpu="b200-sxm", gpus=576, scale_up_domain=72)
    assert "domain-beyond-platform" in said(gpu="h100-sxm", gpus=512, scale_up_domain=256)
    for fitting in ({}, {"scale_up_domain": 8}, {"gpu": "gb200", "gpus": 576}, {"gpu": "h100-pcie", "gpus": 64}):
        assert "domain-beyond-platform" not in said(**fitting)
    # a second tier of a rack's switches has a finding, and a price, of its own
    of_racks = said(gpu="gb200", gpus=576, scale_up_domain=144)
    assert "scale-up-tiers" in of_racks
    assert "domain-beyond-platform" not in of_racks


def test_a_network_slower_than_the_servers_own_cards_is_said_with_one_as_quick():
    text = said(gpu="b300-sxm", gpus=64)["slower-than-its-cards"]
    assert "800 Gb/s each" in text
    assert "400 Gb/s." in text
    for fitting in ({}, {"gpu": "b300-sxm", "scale_out": "infiniband-xdr"}, {"gpu": "b300-sxm", "gpus": 8}):
        assert "slower-than-its-cards" not in said(**{"gpus": 64, **fitting})
    plan = evaluate(Scenario(gpu="b300-sxm", gpus=64, scale_out="roce-400"), CATALOG)
    (finding,) = [one for one in plan.findings if one.code == "slower-than-its-cards"]
    assert finding.changes == {"scale_out": "roce-800"}
