"""Curves pass through the plan, and their ranges, marks and findings are those of their arrays."""

from dataclasses import replace

import numpy as np
import pytest

from app.catalog.load import estimates, load_catalog
from app.catalog.names import SPOKEN
from app.plan import communication
from app.plan.all_reduce import all_reduce_times
from app.plan.band import interval
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate, evaluate_network
from app.plan.scenario import Scenario
from app.report.charts import curve_charts, svg
from app.studies import all_reduce_curves, curve, port_cost, scaling, sensitivity
from app.units import percent, show

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
    assert curve.plan_point[1] == pytest.approx(wanted, rel=1e-12)
    quickest = next(series for series in curve.series if series.name == "Quickest")
    assert at(quickest, curve.plan_point[0]) == curve.plan_point[1]


def test_the_band_of_a_curve_is_the_band_of_the_plan(plan):
    curve = all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, plan.all_reduce.message)
    quickest = next(series for series in curve.series if series.name == "Quickest")
    place = np.flatnonzero(quickest.x == curve.plan_point[0])[0]
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


@pytest.mark.parametrize("quantity", ["time", "bus_bandwidth"])
def test_the_plans_own_network_stands_beside_others_with_its_own_switches(quantity: str):
    leaves = {"switch": "sn5600", "scale_out": "roce-400", "load_balancing": "hashing", "oversubscription": 4}
    scenario = Scenario(**leaves, gpus=2048)
    wanted = evaluate(scenario, CATALOG).all_reduce
    drawn = all_reduce_curves.all_reduce_by_network(scenario, CATALOG, wanted.message, quantity)
    assert drawn.plan_point == (wanted.message, pytest.approx(getattr(wanted, quantity).typical, rel=1e-12))


def test_one_gpu_has_curves_without_lines():
    alone = Scenario(gpus=1, model="llama-3-8b")
    assert all_reduce_curves.all_reduce_by_network(alone, CATALOG, 1e9).series == ()


def test_scaling_passes_through_the_plan_and_never_gains(plan):
    curve = scaling.scaling(DEFAULT, CATALOG, plan.training.parallelism)
    weak, strong = curve.series
    assert curve.plan_point[0] == 1024
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


@pytest.mark.parametrize("gpus", [20, 1000])
def test_all_replicas_share_one_copy_at_every_size_where_all_of_the_plan_do(gpus: int):
    """Five replicas of a context over two GPUs share one copy ten ways; eight do sixteen ways."""
    scenario = Scenario(gpus=gpus)
    chosen = evaluate(scenario, CATALOG).training.parallelism
    assert chosen.sharding_group == chosen.data_parallel * chosen.context_parallel
    grown = scaling.scaling(scenario, CATALOG, chosen).series[0]
    assert np.isfinite(grown.typical[grown.x > gpus]).all()


def test_a_curve_of_one_point_is_drawn(plan):
    single = curve.Series("One", "quickest", np.array([8.0]), *(np.array([1.0]) for _ in range(3)))
    alone = replace(scaling.scaling(DEFAULT, CATALOG, plan.training.parallelism), series=(single,), plan_point=(8.0, 1))
    assert "your plan" in svg.inline(curve_charts.lines(alone), "alone")


def test_tail_passes_through_the_plan_and_rises_with_the_spread(plan):
    curve = scaling.tail(DEFAULT, CATALOG, plan.training.parallelism)
    assert curve.plan_point == (DEFAULT.jitter, pytest.approx(plan.training.step_time.typical, rel=1e-9))
    assert np.all(np.diff(curve.series[0].typical) > 0)


def test_cost_per_port_passes_through_the_plan(plan):
    curve = port_cost.cost_per_port(DEFAULT, CATALOG)
    assert curve.plan_point == (1024.0, pytest.approx(plan.fabric.cost_per_host_port.typical, rel=1e-9))
    families = {series.look for series in curve.series}
    assert {"infiniband", "roce"} <= families
    assert min(series.x[0] for series in curve.series) <= 16
    assert max(series.x[-1] for series in curve.series) >= 90_000
    own = [series for series in curve.series if series.strong]
    assert [series.name for series in own] == ["InfiniBand NDR"]


def test_a_fabric_whose_links_nothing_carries_has_no_price_in_the_curve_as_in_the_plan():
    # Two planes of XDR are links of 400 Gb/s, which nothing of the catalogue carries: switches alone are no price.
    asked = Scenario(gpus=512, gpu="h200-sxm", scale_out="infiniband-xdr", planes=2)
    (curve,) = port_cost.by_size(asked, CATALOG, ["infiniband-xdr"], [512])
    assert evaluate(asked, CATALOG).fabric.cost is None
    assert curve.tiers.tolist() == [2]
    assert np.isnan(curve.cost).all()


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


# All-reduce, figure by figure


def test_messages_double_from_eight_bytes_to_64_gigabytes_with_the_plans_own_among_them():
    sizes = all_reduce_curves.message_sizes(1e9)
    assert (sizes[0], sizes[-1]) == (8, 64e9)
    assert 1e9 in sizes
    # 2^3 to 2^35, the largest power of two below 64 GB, then 64 GB and 1 GB.
    assert len(sizes) == 33 + 2
    assert all_reduce_curves.message_sizes(1e12)[-1] == 1e12
    assert all_reduce_curves.message_sizes(1.0)[0] == 8


def test_clusters_double_in_whole_nodes_with_the_plans_own_among_them():
    counts = all_reduce_curves.gpu_counts(look_up(Scenario(gpus=1000), CATALOG), 1000)
    assert counts.tolist() == sorted({8 * 2**power for power in range(15)} | {1000})
    assert counts[-1] == 131_072
    assert all_reduce_curves.gpu_counts(look_up(Scenario(gpus=1001), CATALOG), 1001).tolist()[-1] == 131_072
    assert 1001 not in all_reduce_curves.gpu_counts(look_up(Scenario(gpus=1001), CATALOG), 1001)
    large = all_reduce_curves.gpu_counts(look_up(Scenario(gpus=100_000), CATALOG), 100_000)
    assert large[-1] == 262_144  # 200,000 rounded up to a doubling of eight


def test_bandwidths_are_the_message_over_time_and_what_each_link_carries_of_it():
    time, rate, bus = (
        all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, 1e9, quantity).series[-1]
        for quantity in ("time", "algorithm_bandwidth", "bus_bandwidth")
    )
    assert np.allclose(rate.typical, time.x / time.typical)
    assert np.allclose(bus.typical, rate.typical * 2 * 1023 / 1024)
    assert np.allclose(rate.low, time.x / time.high)
    assert np.allclose(rate.high, time.x / time.low)


def test_half_of_the_bandwidth_is_reached_where_the_title_says():
    swept = all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, 1e9, "bus_bandwidth")
    rates, sizes = swept.series[-1].typical, swept.series[-1].x
    first = next(size for size, rate in zip(sizes, rates, strict=True) if rate >= rates.max() / 2)
    assert show(rates.max(), "B/s") in swept.title
    assert f"half of it from {show(first, 'B', 2)} on" in swept.title


def test_growing_clusters_are_held_against_the_smallest():
    swept = all_reduce_curves.all_reduce_over_gpus(DEFAULT, CATALOG, 1e9)
    line = swept.series[-1]
    assert f"{line.typical[-1] / line.typical[0]:.1f} times as long on 131,072 GPUs as on 8" in swept.title
    rates = all_reduce_curves.all_reduce_over_gpus(DEFAULT, CATALOG, 1e9, "bus_bandwidth")
    line = rates.series[-1]
    assert f"keeps {percent(line.typical[-1] / line.typical[0])} of the bus bandwidth of 8 GPUs" in rates.title
    assert np.allclose(line.typical, 2 * (line.x - 1) / line.x * 1e9 / swept.series[-1].typical)
    odd = all_reduce_curves.all_reduce_over_gpus(Scenario(gpus=1001), CATALOG, 1e9)
    assert odd.plan_point is None  # 1,001 GPUs are no whole nodes


def test_the_share_that_moves_bytes_passes_half_where_the_title_says(plan):
    swept = all_reduce_curves.all_reduce_shares(DEFAULT, CATALOG, plan.all_reduce.message)
    moving = swept.series[0]
    half = next(x for x, share in zip(moving.x, moving.typical, strict=True) if share >= 0.5)
    assert swept.title == f"From {show(half, 'B', 2)} on, most of the time moves bytes."
    assert swept.plan_point == (plan.all_reduce.message, pytest.approx(plan.all_reduce.bandwidth_share))


def test_networks_beside_the_plans_own_have_the_nearest_rate_of_their_family():
    for scale_out in ("infiniband-ndr", "roce-200", "tcp-100", "efa-400"):
        scenario = Scenario(scale_out=scale_out, switch="qm9700" if scale_out == "infiniband-ndr" else None)
        own, *others = all_reduce_curves.networks(scenario, CATALOG)
        assert own == scenario
        families = {CATALOG.scale_out[other.scale_out].family: other for other in (own, *others)}
        assert families.keys() >= {"infiniband", "roce", "tcp"}
        rate = CATALOG.scale_out[scale_out].port_rate.typical
        for family, other in families.items():
            off = abs(np.log(CATALOG.scale_out[other.scale_out].port_rate.typical / rate))
            rates = [entry.port_rate.typical for entry in CATALOG.scale_out.values() if entry.family == family]
            assert off == min(abs(np.log(each / rate)) for each in rates)
        assert {other.switch for other in others} == {None}


def test_the_fastest_network_is_named_with_how_much_faster_it_is_than_the_slowest():
    for quantity, by in (("bus_bandwidth", lambda a, b: a / b), ("time", lambda a, b: b / a)):
        swept = all_reduce_curves.all_reduce_by_network(DEFAULT, CATALOG, 1e9, quantity)
        ends = {series.name: series.typical[-1] for series in swept.series}
        order = sorted(ends, key=lambda name: ends[name], reverse=quantity == "bus_bandwidth")
        ratio = by(ends[order[0]], ends[order[-1]])
        assert ratio > 1
        assert f"{order[0]} is {ratio:.1f} times as fast as {order[-1]}" in swept.title
        assert swept.plan_point[0] == 1e9
    inside = all_reduce_curves.all_reduce_by_network(Scenario(gpus=8, model="llama-3-8b"), CATALOG, 1e9)
    (line,) = inside.series
    assert line.name.endswith("8 GPUs")
    assert line.name.rpartition(",")[0] in inside.title
    domain = all_reduce_curves.all_reduce_by_network(DEFAULT, CATALOG, 1e9).series[0]
    assert domain.name == line.name  # one scale-up domain of the larger cluster
    assert np.allclose(domain.typical, line.typical)


def test_stretches_of_the_quickest_algorithm_are_told_from_small_to_large():
    swept = all_reduce_curves.all_reduce_over_sizes(DEFAULT, CATALOG, 1e9)
    assert f" on 1,024 {CATALOG.gpus['h100-sxm'].name}." in swept.title
    for mark in swept.marks:
        assert f"{mark.text} from {show(mark.x, 'B', 2)}" in swept.title
    forced = all_reduce_curves.all_reduce_over_sizes(Scenario(algorithm="ring"), CATALOG, 1e9)
    assert forced.title.startswith("Ring is quickest at every size")
    assert forced.marks == ()


# Scaling, figure by figure


def test_scaling_adds_replicas_by_powers_of_two_up_to_four_times_the_plan(plan):
    swept = scaling.scaling(DEFAULT, CATALOG, plan.training.parallelism)
    weak, strong = swept.series
    replica = 1024 // plan.training.parallelism.data_parallel
    counts = {replica * 2**power for power in range(18)}
    expected = sorted({count for count in counts if 8 <= count <= 4096} | {1024})
    assert weak.x.tolist() == strong.x.tolist() == expected
    kept = at(weak, 1024) if swept.series[-1] is weak else at(strong, 1024)
    assert swept.plan_point == (1024, kept)
    first = next(int(x) for x, y in zip(strong.x, strong.typical, strict=True) if np.isfinite(y))
    assert swept.title == f"On 1,024 GPUs each does {percent(kept)} of the work it does on {first:,}."
    assert (weak.strong, strong.strong) == (True, False)


def test_the_tail_costs_what_the_title_says_at_one_per_cent(plan):
    swept = scaling.tail(DEFAULT, CATALOG, plan.training.parallelism)
    (line,) = swept.series
    assert {round(0.01 * step, 2) for step in range(11)} <= {round(x, 10) for x in line.x}
    one = float(np.interp(0.01, line.x, line.typical)) / line.typical[0] - 1
    assert f"costs {percent(one, 1)} of every step" in swept.title
    assert line.name == "128 nodes"
    assert np.all(line.low <= line.typical)
    jittery = scaling.tail(Scenario(jitter=0.033), CATALOG, plan.training.parallelism)
    assert jittery.plan_point[0] == 0.033


# Cost of ports, figure by figure


@pytest.fixture(scope="module")
def ports():
    return port_cost.by_size(DEFAULT, CATALOG)


def test_the_cheapest_port_is_named_and_the_plans_own_where_it_is_dearer(plan, ports):
    swept = port_cost.cost_per_port(DEFAULT, CATALOG, ports)
    costs = {line.name: float(np.interp(1024, line.x, line.typical)) for line in swept.series}
    costs = {name: cost for name, cost in costs.items() if np.isfinite(cost)}
    cheapest = min(costs, key=lambda name: costs[name])
    assert swept.title.startswith(
        f"Of those drawn, {cheapest} has the cheapest port at 1,024 GPUs, {show(costs[cheapest], 'USD', 2)}"
    )
    own = plan.fabric.cost_per_host_port.typical
    assert (f"the plan's costs {show(own, 'USD', 2)}" in swept.title) == (own > 1.005 * costs[cheapest])
    assert {mark.text for mark in swept.marks} == {"1 → 2 tiers", "2 → 3 tiers", "no more addresses in a subnet"}


def test_bandwidth_across_the_cluster_is_bought_cheapest_where_the_title_says(plan, ports):
    swept = port_cost.cost_per_bisection(DEFAULT, CATALOG, ports)
    costs = {line.name: float(np.interp(1024, line.x, line.typical)) for line in swept.series}
    costs = {name: cost for name, cost in costs.items() if np.isfinite(cost)}
    best = min(costs, key=lambda name: costs[name])
    assert f"Per dollar, {best} moves most across 1,024 GPUs: {show(costs[best], 'USD', 2)} for 1 Gb/s" in swept.title
    assert costs["InfiniBand NDR"] == pytest.approx(plan.fabric.cost_per_bisection.typical)
    assert [line.name for line in swept.series if line.strong] == ["InfiniBand NDR"]


def test_the_cost_of_a_port_has_teeth_where_switches_are_added(ports):
    """The same switches are shared by more ports, so each costs less, but for one whose cables begin to leave a rack.

    Of the default, units of 32 nodes: 4 full ones take 32 leaves and 16 spines, one node more 40 and 26.
    """
    for network in ports:
        cost = network.cost_per_host_port[:, 0]
        for place in range(1, len(cost)):
            alike = (
                network.switches[place] == network.switches[place - 1]
                and network.switch[place] == network.switch[place - 1]
            )
            if alike and network.switches[place] > 1:
                assert cost[place] < cost[place - 1]
    full, fuller = (evaluate_network(Scenario(gpus=gpus), CATALOG).fabric for gpus in (1024, 1032))
    assert (full.ports_free["leaf"], fuller.ports_free["leaf"]) == (0, 488)
    assert fuller.cost_per_host_port.typical > 1.1 * full.cost_per_host_port.typical


def test_lines_of_one_colour_have_dashes_of_their_own(ports):
    swept = port_cost.cost_per_port(DEFAULT, CATALOG, ports)
    looks = [(line.look, line.dash) for line in swept.series]
    assert len(set(looks)) == len(looks)
    assert [line.dash for line in swept.series if line.strong] == ["solid"]
    assert sum(line.dash == "solid" for line in swept.series) == 1


# Sensitivity, figure by figure


def test_an_input_moves_the_result_by_its_own_range_and_no_input_by_more_than_all(plan):
    found = sensitivity.sensitivity(DEFAULT, CATALOG, plan.training.parallelism, "costs.per_run")
    band = plan.costs.per_run
    assert len(found.swings) == 10
    assert all(swing.high / swing.low <= 1.05 * band.high / band.low for swing in found.swings)
    assert found.unit == "USD"
    looks = {swing.name: swing.look for swing in found.swings}
    assert looks["The price book"] == "money"
    model = next(swing for swing in found.swings if swing.name == "The step model itself")
    assert model.low * model.high == pytest.approx(found.typical**2)  # as far down as up on the logarithm
    assert np.log(model.high / found.typical) >= CATALOG.training["residual"]["dense"].typical * (1 - 1e-9)


def test_what_energy_is_multiplied_by_moves_its_cost_in_proportion(plan):
    # A result that is a product moves by the factor that its input does: here the building's share of the energy.
    found = sensitivity.sensitivity(DEFAULT, CATALOG, plan.training.parallelism, "costs.energy")
    price = CATALOG.operations["site"]["pue"]
    swing = next(swing for swing in found.swings if "PUE" in swing.name or "pue" in swing.name.lower())
    low, high = interval(price.draws())
    assert swing.low / found.typical == pytest.approx(low / price.typical, rel=2e-4)
    assert swing.high / found.typical == pytest.approx(high / price.typical, rel=2e-4)


@pytest.mark.parametrize(
    ("gpus", "name", "rate"),
    [
        (1024, "NICs: 400 GB/s", 8 * 50e9),  # eight ports of 400 Gb/s
        (8, "NVLink 4: 450 GB/s", 450e9),  # 18 links of 25 GB/s each way
    ],
)
def test_bus_bandwidth_is_linear_beside_what_the_wire_carries(gpus: int, name: str, rate: float) -> None:
    curve = all_reduce_curves.all_reduce_over_sizes(Scenario(gpus=gpus), CATALOG, 1e9, "bus_bandwidth")
    assert not curve.y_logarithmic
    wire = curve.ceiling
    assert wire is not None
    assert wire.name.replace("\u202f", " ") == name
    assert wire.typical == pytest.approx(rate)
    timed = all_reduce_curves.all_reduce_over_sizes(Scenario(gpus=gpus), CATALOG, 1e9)
    assert timed.y_logarithmic
    assert timed.ceiling is None


@pytest.mark.parametrize("wish", [{}, {"gpu": "mi300x", "gpus": 512, "scale_out": "roce-400"}])
def test_what_moves_the_cost_is_named_as_people_say_it(wish):
    """Names such as "Architecture hopper: products" and "Site: infrastructure" stood beside the bars."""
    scenario = Scenario(**wish)
    plan = evaluate(scenario, CATALOG)
    names = [swing.name for swing in sensitivity.sensitivity(scenario, CATALOG, plan.training.parallelism).swings]
    assert {"The price book", "Building, power and cooling for each watt", "PUE of the site"} <= set(names)
    servers = {f"{platform.name}: " for platform in CATALOG.platforms.values()}
    assert not [name for name in names if ": " in name and not name.startswith(tuple(servers))]


def test_every_number_with_a_name_of_its_own_is_in_the_catalogue():
    known = {key.partition(".")[2] for key in (estimate.key for estimate in estimates(CATALOG))}
    assert set(SPOKEN) <= known


def test_a_port_with_its_card_is_called_so() -> None:
    alone, with_card = (
        port_cost.cost_per_port(Scenario(gpus=64, nics_included=included), load_catalog()) for included in (None, False)
    )
    assert "its card" in with_card.y_name
    assert "cards" in with_card.subtitle
    assert "card" not in alone.y_name + alone.subtitle
    assert with_card.plan_point[1] > alone.plan_point[1]
