"""Flow and congestion control: what a network has unless told otherwise, and what each setting changes."""

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.plan.machine import usual_controls
from app.plan.scenario import on_network
from app.studies.acceptance import sheet

CATALOG = load_catalog()


def answer(**asked):
    return evaluate(Scenario(message=1e12, load_balancing="adaptive", **asked), CATALOG)


def time(**asked) -> float:
    return answer(**asked).all_reduce.all_to_all_time.typical


def codes(**asked) -> set[str]:
    return {finding.code for finding in answer(**asked).findings}


@pytest.mark.parametrize(
    ("scale_out", "tuned", "usual"),
    [
        ("infiniband-ndr", True, ("credits", "own")),
        ("infiniband-ndr", False, ("credits", "own")),
        ("roce-400", True, ("pfc", "ecn")),
        ("roce-400", False, ("none", "none")),
        ("spectrum-x-400", True, ("pfc", "own")),
        ("ultra-ethernet-400", True, ("none", "own")),
        ("tcp-100", True, ("none", "own")),
    ],
)
def test_a_blank_is_what_the_network_and_its_tuning_have(scale_out, tuned, usual):
    assert usual_controls(CATALOG.scale_out[scale_out].family, tuned) == usual
    said = answer(scale_out=scale_out, tuned=tuned).scenario
    assert (said["flow_control"], said["congestion_control"]) == usual


def test_naming_what_is_usual_changes_nothing():
    """Untuned is without either, in rate and hop; how it spreads flows is another setting."""
    for tuned, flow, congestion in ((True, "pfc", "ecn"), (False, "none", "none")):
        named = time(scale_out="roce-400", flow_control=flow, congestion_control=congestion)
        assert named == time(scale_out="roce-400", tuned=tuned)


def test_without_pfc_a_drop_in_ten_thousand_costs_what_go_back_n_sends_again():
    """50 GB/s · 40 us / 4,096 B = 488 packets under way: 0.9999/(0.9999 + 0.0488) = 0.953."""
    paused, lossy = (time(scale_out="roce-400", flow_control=flow) for flow in ("pfc", "none"))
    assert paused / lossy == pytest.approx(0.953, abs=0.002)
    assert "lossy-ethernet" in codes(scale_out="roce-400", flow_control="none")


def test_pauses_alone_keep_the_rate_and_are_said():
    alone = {"scale_out": "roce-400", "congestion_control": "none"}
    assert time(**alone) == time(scale_out="roce-400")
    assert "pauses-alone" in codes(**alone)


@pytest.mark.parametrize(
    ("scale_out", "flow", "says"),
    [("infiniband-ndr", "pfc", "has credits and nothing else:"), ("roce-400", "credits", "has no credits:")],
)
def test_what_another_network_has_changes_nothing_and_is_said(scale_out, flow, says):
    assert time(scale_out=scale_out, flow_control=flow) == time(scale_out=scale_out)
    assert "flow-control-of-another-network" in codes(scale_out=scale_out, flow_control=flow)
    assert "flow-control-of-another-network" not in codes(scale_out=scale_out)
    plan = evaluate(Scenario(scale_out=scale_out, flow_control=flow, gpus=64, model="llama-3-8b"), CATALOG, ())
    assert any(says in finding.message for finding in plan.findings)


def test_a_network_that_a_plan_is_compared_with_has_controls_of_its_own():
    own = Scenario(scale_out="roce-400", flow_control="none", congestion_control="ecn")
    rival = on_network(own, "infiniband-ndr")
    assert (rival.flow_control, rival.congestion_control) == (None, None)
    assert on_network(own, "roce-400") is own


def test_the_sheet_checks_what_is_set():
    def checks(**asked) -> dict[str, str]:
        return {check.key: check.shows for check in sheet(Scenario(**asked), CATALOG).checks}

    tuned, lossy = checks(scale_out="roce-400"), checks(scale_out="roce-400", flow_control="none")
    assert "1 for priority 3" in tuned["control-settings"]
    assert "stay at 0" in tuned["flow-control"]
    assert "0 for every priority" in lossy["control-settings"]
    assert "one in 1,000" in lossy["flow-control"]
    assert "PortXmitWait" in checks()["credits"]
    assert not {"credits", "control-settings"} & checks(scale_out="tcp-100").keys()
