"""Curves pass through the plan, and their ranges, marks and findings are those of their arrays."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan import communication
from app.plan.all_reduce import all_reduce_times
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.studies import all_reduce_curves, curve, port_cost, scaling, sensitivity

CATALOG = load_catalog()
DEFAULT = Scenario()


@pytest.fixture(scope="module")
def plan():
    return evaluate(DEFAULT, CATALOG)


def at(series: curve.Series, x: float) -> float:
    return float(series.typical[np.flatnonzero(series.x == x)[0]])


@pytest.mark.parametrize("quantity", ["time", "algorithm_bandwidth", "bus_bandwidth"])
@pytest.mark.parametrize("swept", [all_reduce_curves.all_reduce_over_sizes, all_reduce_curves.all_reduce_over_gpus])
def test_all_reduce_curves_pass_through_the_plan(plan, swept, quantity: str):
    curve = swept(DEFAULT, CATALOG, plan.all_reduce.message, quantity)
    wanted = getattr(plan.all_reduce, quantity).typical
    assert curve.own[1] == pytest.approx(wanted, rel=1e-12)
    quickest = next(series for series in curve.series if series.name == "Quickest")
    assert at(quickest, curve.own[0]) == curve.own[1]


def test_the_band_of_a_curve_is_the_band_of_the_plan(plan):
    curve = all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, plan.all_reduce.message)
    quickest = next(series for series in curve.series if series.name == "Quickest")
    place = np.flatnonzero(quickest.x == curve.own[0])[0]
    band = plan.all_reduce.time
    assert (quickest.low[place], quickest.high[place]) == pytest.approx((band.low, band.high), rel=1e-9)


@pytest.mark.parametrize("scenario", [DEFAULT, Scenario(gpus=64, scale_out="roce-400"), Scenario(gpu="mi300x", gpus=8)])
def test_the_quickest_is_the_least_of_the_algorithms_and_time_never_falls(scenario: Scenario):
    curve = all_reduce_curves.all_reduce_over_sizes(scenario, CATALOG, 1e9)
    *ways, quickest = curve.series
    assert np.allclose(quickest.typical, np.nanmin([way.typical for way in ways], axis=0), rtol=1e-9)
    assert np.all(np.diff(quickest.typical) >= 0)
    assert np.all((quickest.low <= quickest.typical) & (quickest.typical <= quickest.high))


def test_marks_stand_where_the_quickest_algorithm_changes():
    curve = all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, 1e9)
    found = all_reduce_times(communication.of_scenario(DEFAULT, CATALOG), curve.series[-1].x)
    changes = [x for x, before, after in zip(curve.series[-1].x[1:], found.names, found.names[1:], strict=False)
               if before != after]  # fmt: skip
    assert [mark.x for mark in curve.marks] == changes


def test_shares_add_up_and_large_messages_move_bytes():
    curve = all_reduce_curves.all_reduce_shares(DEFAULT, CATALOG, 1e9)
    moving, rest = curve.series
    assert np.allclose(moving.typical + rest.typical, 1)
    assert moving.typical[0] < 0.01
    assert moving.typical[-1] > 0.9


def test_networks_stand_side_by_side_in_the_order_physics_gives():
    curve = all_reduce_curves.all_reduce_by_network(DEFAULT, CATALOG, 1e9)
    ends = {series.look: series.typical[-1] for series in curve.series}
    assert set(ends) == {"nvlink", "infiniband", "roce", "tcp"}
    assert ends["nvlink"] > ends["infiniband"] > ends["tcp"]


def test_one_gpu_has_curves_without_lines():
    alone = Scenario(gpus=1, model="llama-3-8b")
    assert all_reduce_curves.all_reduce_by_network(alone, CATALOG, 1e9).series == ()


def test_scaling_passes_through_the_plan_and_never_gains(plan):
    curve = scaling.scaling(DEFAULT, CATALOG, plan.training.parallelism)
    weak, strong = curve.series
    assert curve.own[0] == 1024
    assert at(weak, 1024) == pytest.approx(at(strong, 1024), rel=2e-2)
    first = weak.x[np.flatnonzero(np.isfinite(weak.typical))[0]]
    rate = plan.training.tokens_per_second.typical / 1024
    smallest = scaling._job(
        scaling.with_parallelism(DEFAULT, plan.training.parallelism).model_copy(
            update={
                "gpus": int(first),
                "sharding_group": max(1, plan.training.parallelism.sharding_group * int(first) // 1024),
                "global_batch": int(2048 * first / 1024),
            }
        ),
        CATALOG,
    ).training.tokens_per_second.typical / first  # fmt: skip
    assert at(weak, 1024) == pytest.approx(rate / smallest, rel=1e-9)
    known = weak.typical[np.isfinite(weak.typical)]
    assert np.all(known <= 1 + 1e-9)


def test_tail_passes_through_the_plan_and_rises_with_the_spread(plan):
    curve = scaling.tail(DEFAULT, CATALOG, plan.training.parallelism)
    assert curve.own == (DEFAULT.jitter, pytest.approx(plan.training.step_time.typical, rel=1e-9))
    assert np.all(np.diff(curve.series[0].typical) > 0)


def test_cost_per_port_passes_through_the_plan(plan):
    curve = port_cost.cost_per_port(DEFAULT, CATALOG)
    assert curve.own == (1024.0, pytest.approx(plan.fabric.cost_per_host_port.typical, rel=1e-9))
    families = {series.look for series in curve.series}
    assert {"infiniband", "roce"} <= families
    assert min(series.x[0] for series in curve.series) <= 16
    assert max(series.x[-1] for series in curve.series) >= 90_000
    own = [series for series in curve.series if series.strong]
    assert [series.name for series in own] == ["InfiniBand NDR"]


def test_cliffs_name_the_tiers():
    # 64-port switches: two tiers carry 64²/2 = 2,048 hosts, so 2,056 GPUs (257 nodes of 8) need a third
    found = port_cost.cliffs(port_cost.by_size(DEFAULT, CATALOG, ["infiniband-ndr"]))
    assert ("InfiniBand NDR", 2056, "2 → 3 tiers") in found


@pytest.mark.parametrize("result", ["costs.per_run", "training.time_to_train", "costs.capital", "fabric.cost"])
def test_swings_stand_about_the_plan_largest_first(plan, result: str):
    found = sensitivity.sensitivity(DEFAULT, CATALOG, plan.training.parallelism, result)
    part, name = result.split(".")
    assert found.typical == pytest.approx(getattr(getattr(plan, part), name).typical, rel=1e-9)
    widths = [swing.high - swing.low for swing in found.swings]
    assert widths == sorted(widths, reverse=True)
    assert all(swing.low <= found.typical * 1.02 and swing.high >= found.typical * 0.98 for swing in found.swings)


def test_the_price_book_moves_capital_as_far_as_its_own_range(plan):
    # everything bought scales with the book, so its swing is about the whole band of the capital
    found = sensitivity.sensitivity(DEFAULT, CATALOG, plan.training.parallelism, "fabric.cost")
    assert found.swings[0].name == "The price book"
    band = plan.fabric.cost
    assert found.swings[0].high / band.high == pytest.approx(1, abs=0.15)
