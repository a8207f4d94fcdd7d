"""A reader's own cluster: three factors, from measurements to plans."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives.library import choose
from app.formulas.collectives.posterior import site_posterior
from app.plan import communication
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.plan.site_calibration import Factor, SiteCalibration, Sweep, calibrate, read_calibration, scaled

CATALOG = load_catalog()
FABRIC = communication.of_scenario(Scenario(gpu="h100-sxm", gpus=16), CATALOG)
LIBRARY = FABRIC.calibration(TYPICAL)


def sweep(factors, sizes, noise=0.0):
    """What a site with these factors measures, every other row slower by the noise."""
    machine = FABRIC.machine(TYPICAL)
    messages = np.array(sizes, float)
    times = np.asarray(choose("all-reduce", messages, scaled(machine, *factors), LIBRARY).time)
    times = times * np.where(np.arange(len(sizes)) % 2, np.exp(noise), np.exp(-noise))
    return Sweep(machine, LIBRARY, "all-reduce", "", "", messages, times)


def test_a_text_is_three_factors_with_their_spreads():
    found = read_calibration("1.42~0.05, 0.97~0.01,1.1~.12")
    assert found == SiteCalibration(Factor(1.42, 0.05), Factor(0.97, 0.01), Factor(1.1, 0.12))
    assert read_calibration(found.text()) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.4",
        "1,1,1",
        "1~1,1~1",
        "1~0,1~0,1~0,1~0",
        "0~0.1,1~0,1~0",
        "90~0,1~0,1~0",
        "1~9,1~0,1~0",
        "nan~0,1~0,1~0",
        "-1~0,1~0,1~0",
        "1e3~0,1~0,1~0",
        "<b>~0,1~0,1~0",
    ],
)
def test_any_other_text_is_refused_with_advice(text):
    with pytest.raises(ValidationError, match=r"Give latency|must|at most"):
        Scenario(calibration=text + ("" if text else "~"))


def test_a_whole_sweep_finds_the_factors_and_leaves_little_doubt():
    site, _ = calibrate([sweep((1.4, 0.95, 1.2), [2**power for power in range(3, 34)])], CATALOG)
    assert (site.latency.value, site.bandwidth.value, site.fill.value) == pytest.approx((1.4, 0.95, 1.2), rel=0.05)
    assert site.latency.spread < 0.05
    assert site.bandwidth.spread < 0.03


def test_one_row_moves_little_and_leaves_the_doubt():
    site, _ = calibrate([sweep((1.4, 1.0, 1.0), [2**33])], CATALOG)
    assert site.latency.value == pytest.approx(1, abs=0.02)
    assert site.latency.spread == pytest.approx(CATALOG.collectives["site"]["latency"].typical, rel=0.05)


def test_an_outlier_counts_for_little():
    honest = sweep((1.4, 1.0, 1.0), [2**power for power in range(3, 34)])
    times = honest.times.copy()
    times[5] *= 20
    broken = Sweep(honest.machine, LIBRARY, "all-reduce", "", "", honest.messages, times)
    assert calibrate([broken], CATALOG)[0].latency.value == pytest.approx(1.4, rel=0.05)


@pytest.mark.parametrize("smallest", [10, 20, 24])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_many_rows_that_agree_go_before_what_is_usual(smallest, noise):
    # All rows are k times as slow as usual: so the calibrated cluster is, and the slower one more.
    honest = sweep((1.0, 1.0, 1.0), [2**power for power in range(smallest, 33)], noise)
    slower = np.arange(1.0, 3.05, 0.1)
    found = []
    for k in slower:
        site, posterior = calibrate([replace(honest, times=k * honest.times)], CATALOG)
        found.append(honest.predicted(*(factor.value for factor in (site.latency, site.bandwidth, site.fill)))[-1, 0])
        assert posterior.scatter < 0.06
    assert found / honest.predicted(1.0, 1.0, 1.0)[-1, 0] == pytest.approx(slower, rel=0.1)
    assert np.all(np.diff(found) > 0)


def test_a_network_of_half_the_rate_is_found_in_the_bandwidth():
    halved = communication.of_scenario(Scenario(gpu="h100-sxm", gpus=64, network_rate="200 Gb/s"), CATALOG)
    usual = communication.of_scenario(Scenario(gpu="h100-sxm", gpus=64), CATALOG).machine(TYPICAL)
    messages = np.array([2.0**power for power in range(10, 33)])
    times = np.asarray(choose("all-reduce", messages, halved.machine(TYPICAL), LIBRARY).time)
    asked = Sweep(usual, LIBRARY, "all-reduce", "", "", messages, times)
    site, _ = calibrate([asked], CATALOG)
    found = asked.predicted(site.latency.value, site.bandwidth.value, site.fill.value)[:, 0]
    assert found == pytest.approx(times, rel=0.1)
    assert site.bandwidth.value == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("odd", [slice(None, None, 3), slice(None, None, -3), slice(0, 8), slice(2, None, 4)])
def test_a_third_of_rows_that_are_five_times_as_slow_moves_little(odd):
    honest = sweep((1.0, 1.0, 1.0), [2**power for power in range(3, 34)])
    times = honest.times.copy()
    times[odd] *= 5
    site, posterior = calibrate([replace(honest, times=times)], CATALOG)
    assert (site.bandwidth.value, posterior.scatter) == pytest.approx((1, 0.04), abs=0.03)


def test_two_large_rows_leave_the_bandwidth_as_usual():
    honest = sweep((1.0, 1.0, 1.0), [2**32, 2**33])
    site, _ = calibrate([replace(honest, times=2 * honest.times)], CATALOG)
    assert site.bandwidth.value == pytest.approx(1, abs=0.05)


def test_scatter_widens_what_is_left_in_doubt():
    sizes = [2**power for power in range(3, 34)]
    quiet, noisy = (calibrate([sweep((1.4, 1.0, 1.0), sizes, noise)], CATALOG)[1] for noise in (0.0, 0.2))
    assert noisy.scatter > 0.15 > quiet.scatter
    assert noisy.spread[0] > 2 * quiet.spread[0]


def test_no_measurement_of_a_part_leaves_its_prior():
    found = site_posterior(lambda theta: np.repeat(theta[:1], 5, axis=0), np.full(5, 0.1), np.array([0.2, 0.3]), 0.01)
    assert found.mean[1] == 0
    assert found.spread[1] == pytest.approx(0.3)


def test_a_calibration_reaches_all_reduce_and_step_and_leaves_fabric_and_cost():
    usual = evaluate(Scenario(), CATALOG)
    slow = evaluate(Scenario(calibration="2~0.05,0.8~0.02,1.5~0.1"), CATALOG)
    assert slow.all_reduce.time.typical > 1.1 * usual.all_reduce.time.typical
    assert slow.training.step_time.typical > usual.training.step_time.typical
    assert slow.fabric.cost == usual.fabric.cost
    assert "calibration=2~0.05" in slow.permalink.replace("%7E", "~").replace("%2C", ",")


def test_the_range_of_a_calibrated_cluster_is_that_of_its_factors():
    usual, known, vague = (
        evaluate(Scenario(gpus=16, message=1e9, calibration=text), CATALOG).all_reduce.time
        for text in (None, "1~0.02,1~0.01,1~0.05", "1~0.3,1~0.3,1~0.5")
    )
    assert known.typical == pytest.approx(usual.typical)
    assert known.high / known.low < usual.high / usual.low < vague.high / vague.low


def test_the_textbook_knows_of_no_site():
    ideal, at_site = (
        evaluate(Scenario(profile="ideal", calibration=text), CATALOG).all_reduce.time
        for text in (None, "2~0.05,0.8~0.02,1.5~0.1")
    )
    assert ideal == at_site
