"""The acceptance sheet: the plan's own figures, in the words of the tools."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import acceptance

CATALOG = load_catalog()


def check(scenario: Scenario, key: str, unit: int | None = None) -> acceptance.Check:
    return next(one for one in acceptance.sheet(scenario, CATALOG, unit).checks if one.key == key)


def settings(scenario: Scenario) -> dict[str, str]:
    return {setting.name: setting.value for setting in acceptance.sheet(scenario, CATALOG).settings}


def test_the_tools_that_the_articles_name_are_all_there():
    sheet = acceptance.sheet(Scenario(), CATALOG)
    commands = " ".join(one.command for one in sheet.checks)
    for tool in ("ibstat", "ibstatus", "ib_write_bw", "all_reduce_perf"):
        assert tool in commands
    assert {"NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL"} <= {setting.name for setting in sheet.settings}


def test_steps_grow_from_one_server_to_the_cluster():
    sheet = acceptance.sheet(Scenario(), CATALOG, 32)
    steps = [one.command.split()[2] for one in sheet.checks if one.key.startswith("all-reduce")]
    assert steps == ["8", "16", "256", "1024"]


def test_figures_are_the_models_own():
    size = 2.0**30
    figure = next(one for one in check(Scenario(), "all-reduce-cluster").figures if one.size == size)
    plan = evaluate(Scenario(message=size), CATALOG)
    band = plan.all_reduce.bus_bandwidth
    assert figure.band.typical == pytest.approx(band.typical, rel=1e-9)
    assert figure.band.low == pytest.approx(band.low, rel=0.02)
    assert figure.expected == f"{band.typical / 1e9:.3g} GB/s"


def test_thresholds_lie_below_what_is_expected_and_in_order():
    for one in acceptance.sheet(Scenario(), CATALOG).checks:
        for figure in one.figures:
            expected, passes, investigate = (
                float(text.split()[-2]) for text in (figure.expected, figure.passes, figure.investigate)
            )
            slower = figure.band.unit == "s"
            assert (expected < passes < investigate) if slower else (expected > passes > investigate), figure


def test_ib_write_bw_should_show_the_line_rate_less_its_headers():
    # 4,096 bytes of payload with 26 of headers: at most 99.4 % of 400 Gb/s
    figure = check(Scenario(), "write").figures[0]
    assert 390 < float(figure.expected.split()[0]) < 0.994 * 400
    assert figure.band.typical == pytest.approx(50e9, rel=0.03)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({}, "NCCL_IB_DISABLE", "0"),
        ({"scale_out": "tcp-100"}, "NCCL_IB_DISABLE", "1"),
        ({"gpudirect": False}, "NCCL_NET_GDR_LEVEL", "LOC"),
        ({"in_network_reduction": True}, "NCCL_COLLNET_ENABLE", "1"),
        ({"scale_out": "roce-400"}, "NCCL_IB_TC", "106"),
        ({"topology": "rail-only"}, "NCCL_CROSS_NIC", "0"),
        ({"algorithm": "nvls-tree"}, "NCCL_ALGO", "NVLSTree"),
        ({"protocol": "ll128"}, "NCCL_PROTO", "LL128"),
    ],
)
def test_settings_follow_the_scenario(fields: dict[str, object], name: str, value: str):
    assert settings(Scenario(**fields))[name] == value


def test_a_network_without_rdma_is_tested_without_rdma_tools():
    commands = " ".join(one.command for one in acceptance.sheet(Scenario(scale_out="tcp-100"), CATALOG).checks)
    assert "ib_" not in commands
    assert "iperf3" in commands


def test_one_server_has_no_network_to_test():
    keys = [one.key for one in acceptance.sheet(Scenario(gpus=8, model="llama-3-8b"), CATALOG).checks]
    assert keys == ["scale-up", "all-reduce-node"]


def test_one_gpu_has_nothing_to_reduce():
    sheet = acceptance.sheet(Scenario(gpus=1, model="llama-3-8b"), CATALOG)
    assert [one for one in sheet.checks if one.figures] == []


@pytest.mark.parametrize("gpu", ["h100-sxm", "gb200", "mi300x", "l40s", "v100-sxm", "h100-pcie"])
def test_every_kind_of_server_gets_a_sheet(gpu: str):
    sheet = acceptance.sheet(Scenario(gpu=gpu, gpus=144, model="llama-3-8b"), CATALOG)
    assert all(np.isfinite(figure.band.typical) for one in sheet.checks for figure in one.figures)
    assert len([one for one in sheet.checks if one.figures]) >= 2


def test_settings_follow_how_flows_are_spread():
    pinned, free = settings(Scenario(scale_out="roce-400")), settings(Scenario(scale_out="spectrum-x-400"))
    assert pinned["NCCL_IB_QPS_PER_CONNECTION"] == "4"
    assert "NCCL_IB_ADAPTIVE_ROUTING" not in pinned
    assert free["NCCL_IB_ADAPTIVE_ROUTING"] == "1"
    assert "NCCL_IB_QPS_PER_CONNECTION" not in free
    assert "NCCL_IB_QPS_PER_CONNECTION" in settings(Scenario(load_balancing="hashing"))


def test_ethernet_that_must_not_lose_packets_is_asked_whether_it_did():
    lossless = check(Scenario(scale_out="roce-400"), "flow-control")
    assert {"out_of_sequence", "pause", "ecn_marked", "discards"} <= {
        word for word in ("out_of_sequence", "pause", "ecn_marked", "discards") if word in lossless.command
    }
    assert all(one.key != "flow-control" for one in acceptance.sheet(Scenario(), CATALOG).checks)


def test_a_taper_under_nodes_at_random_lowers_what_the_whole_cluster_should_show():
    def last(**asked):
        return check(Scenario(oversubscription=8, **asked), "all-reduce-cluster", 32).figures[-1].band.typical

    assert last(placement="scattered") < 0.5 * last()
