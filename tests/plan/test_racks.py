"""Racks, power and cooling."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate, evaluate_network
from app.plan.result import Finding, NetworkPlan
from app.plan.scenario import Scenario

CATALOG = load_catalog()


def plan_of(**asked: object) -> NetworkPlan:
    return evaluate_network(Scenario.model_validate(asked), CATALOG)


def preset(key: str) -> NetworkPlan:
    return plan_of(**CATALOG.presets[key].scenario)


@pytest.mark.parametrize(
    ("limit", "racks"),
    [("15 kW", 128), ("20 kW", 128), ("30 kW", 64), ("45 kW", 32), (None, 32)],
)
def test_a_dgx_h100_of_10_2_kw_stands_as_often_in_a_rack_as_the_hall_allows(limit: str | None, racks: int) -> None:
    """One in 15 to 20 kW, two in 30, four in 45: 128 of them."""
    asked = {"platform": "dgx-h100"} | ({"rack_power": limit} if limit else {})
    plan = plan_of(**asked)
    assert plan.cluster.compute_racks == racks
    assert plan.cluster.rack_power is not None
    assert plan.cluster.rack_power.typical == pytest.approx(128 // racks * 10.2e3)


def test_cabinets_that_hold_their_switches_need_no_racks_of_switches() -> None:
    """Frontier: 9,408 nodes at 128 a cabinet are 73.5, printed 74. Alps: 2,688 at 112 are 24, as printed."""
    for key, racks in (("frontier", 74), ("alps", 24)):
        cluster = preset(key).cluster
        assert (cluster.racks, cluster.compute_racks) == (racks, racks)


def test_jupiter_stands_in_its_125_racks() -> None:
    """25 groups of five racks; 5,884 nodes at 48 a rack take 123."""
    assert preset("jupiter").cluster.compute_racks == pytest.approx(125, rel=0.02)


def test_liquid_cooled_racks_bring_their_own_supply_unless_the_hall_is_said_to_limit_them() -> None:
    free = plan_of(platform="hgx-h100-liquid", gpus=512)
    assert free.cluster.compute_racks == 8
    held = plan_of(platform="hgx-h100-liquid", gpus=512, rack_power="45 kW")
    assert held.cluster.compute_racks == 16
    assert not [finding for finding in held.findings if finding.severity == "error"]


def found(**asked: object) -> dict[str, Finding]:
    job = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 1}
    return {finding.code: finding for finding in evaluate(Scenario.model_validate(job | asked), CATALOG).findings}


def findings(**asked: object) -> dict[str, str]:
    return {code: finding.severity for code, finding in found(**asked).items()}


def test_a_rack_that_draws_more_than_the_hall_gives_is_an_error() -> None:
    """An NVL72 draws 132 kW whole; a DGX H100 10.2 kW alone."""
    assert findings(gpu="gb200", gpus=72, rack_power="60 kW")["rack-too-dense"] == "error"
    assert "rack-too-dense" not in findings(gpu="gb200", gpus=72, rack_power="140 kW")
    assert findings(platform="dgx-h100", rack_power="10 kW")["rack-too-dense"] == "error"


def test_cables_are_said_to_be_measured_between_full_racks() -> None:
    """Four DGX H100 draw 40.8 kW: of 25 kW a rack holds two, of which the cables know nothing."""
    asked = {"platform": "dgx-h100", "gpus": 256}
    said = found(**asked, rack_power="25 kW")["sparse-racks"]
    assert said.severity == "note"
    assert said.message.startswith("At 10.2\u202fkW a node a rack of 25\u202fkW holds 2, but cables")
    assert "between racks of 4:" in said.message
    assert "sparse-racks" not in findings(**asked)
    assert "sparse-racks" not in findings(**asked, rack_power="41 kW")
    assert "sparse-racks" not in findings(**{**asked, "gpus": 8}, rack_power="15 kW")  # no cables
    assert "sparse-racks" in findings(gpu="mi355x", gpus=64, scale_out="roce-400")  # three of 15.5 kW in 60 kW


def test_air_carries_sixty_kilowatts_out_of_a_rack() -> None:
    """Four MI355X servers draw 62 kW; four of H100 40.8, whatever more the hall gives."""
    asked = {"gpu": "mi355x", "gpus": 64, "scale_out": "roce-400"}
    said = found(**asked, rack_power="100 kW")["beyond-air"]
    assert (said.severity, "draws 62\u202fkW" in said.message) == ("warning", True)
    assert "beyond-air" not in findings(**asked, rack_power="60 kW")
    assert "beyond-air" not in findings(**{**asked, "gpus": 24}, rack_power="100 kW")
    assert "beyond-air" not in findings(platform="dgx-h100", rack_power="100 kW")
    assert "beyond-air" not in findings(platform="hgx-h100-liquid", rack_power="100 kW")


def test_a_site_that_gives_too_little_is_an_error_with_what_fits() -> None:
    """1,388 kW of nodes and switches at a PUE of 1.25 are 1.735 MW. 1.5 MW would be the share of 110 nodes, which draw
    more: their leaves are as many as those of 128.
    """
    over = found(site_power="1.5 MW")["over-site-power"]
    assert over.severity == "error"
    assert int(1024 * 1.5e6 / (1_388_160 * 1.25)) // 8 == 110
    assert over.suggestion == "872 GPUs fit."
    assert over.changes == {"gpus": 872}
    assert "over-site-power" not in findings(site_power="1.5 MW", gpus=872)
    assert "over-site-power" in findings(site_power="1.5 MW", gpus=880)
    assert "over-site-power" not in findings(site_power="2 MW")


def test_gpus_that_a_site_supplies_and_that_do_not_hold_the_model_are_not_advised() -> None:
    over = found(site_power="100 kW", model="llama-3-405b")["over-site-power"]
    assert over.suggestion.startswith("56 GPUs keep within it and do not hold the model")
    assert not over.changes
    there = findings(site_power="100 kW", model="llama-3-405b", gpus=56)
    assert "does-not-fit" in there
    assert "over-site-power" not in there


def test_fewer_gpus_are_no_help_where_spare_nodes_alone_draw_too_much() -> None:
    over = found(site_power="200 kW", spare_nodes=20)["over-site-power"]
    assert over.suggestion == "Take a larger site."
    assert not over.changes


@pytest.mark.parametrize(("gpus", "spares"), [(72, 1), (144, 1), (144, 20)])
def test_a_rack_of_one_domain_holds_all_its_trays_beside_one_of_spares(gpus: int, spares: int) -> None:
    alone, beside = (
        plan_of(gpu="gb200", gpus=many, spare_nodes=more).cluster.rack_power.typical
        for many, more in ((72, 0), (gpus, spares))
    )
    assert beside == alone
