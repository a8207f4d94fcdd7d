"""Money and power, in numbers a reader can check in the head."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.formulas import costs

AMOUNT = st.floats(0, 1e9)
YEAR = 31_557_600.0


def test_the_h100_superpod_lands_between_five_and_seven_thousand_dollars_a_gpu():
    # 48 switches at 35k, 1,016 NICs at 2.1k, 2,044 twin modules at 1k, 2,044 fibres at 110: 6.08M for 1,016 GPUs.
    parts = sum(costs.line(count, price) for count, price in ((48, 35e3), (1016, 2.1e3), (2044, 1e3), (2044, 110.0)))
    assert float(parts) == pytest.approx(1.68e6 + 2.1336e6 + 2.044e6 + 0.22484e6)
    assert 5000 < float(costs.per(costs.with_spares(parts, 0.03), 1016)) < 7000


def test_modules_are_not_counted_twice_in_a_switch_s_maximum():
    # 48 QM9700 at 1,720 W with active cables are 82.56 kW; 1,536 modules of 17 W on top would be 108.7 kW.
    assert float(costs.switch_power(48, 1720, 1536, 17, modules_included=True)) == 82_560
    assert float(costs.switch_power(48, 747, 1536, 17)) == 48 * 747 + 1536 * 17


def test_a_part_nobody_prices_leaves_the_total_open_unless_none_is_needed():
    assert np.isnan(costs.line(1, np.nan))
    assert costs.line(0, np.nan) == 0


def test_a_year_of_a_megawatt():
    # 1 MW at the meter 1.25 MW; 8,766 h; 8 cents: 876,600 dollars. Support of 4 % of 10M: 400,000.
    found = costs.operating(1e6, 1.25, 0.08 / 3.6e6, 10e6, 0.04, YEAR)
    assert float(found) == pytest.approx(876_600 + 400_000)


def test_owning_spread_over_every_hour_of_five_years():
    # 43,830 hours; 1,000 GPUs; 87.66M: 2 dollars a GPU-hour. A run of half a year is a tenth of it all.
    assert float(costs.per_gpu_time(87.66e6, 1000, 5 * YEAR, 3600)) == pytest.approx(2.0)
    assert float(costs.run(87.66e6, 5 * YEAR, YEAR / 2)) == pytest.approx(8.766e6)


@pytest.mark.parametrize(
    ("nodes", "per_rack", "node_power", "limit", "expected"),
    [
        (127, 4, 10.2e3, 45e3, 32),  # RA-11333 table 7: 32 compute racks
        (127, 4, 10.2e3, 25e3, 64),  # two fit the power
        (127, 4, 10.2e3, 5e3, 127),  # a rack holds at least one
        (127, 4, 10.2e3, 0, 32),  # no limit
        (0, 4, 10.2e3, 45e3, 0),
    ],
)
def test_racks_by_height_and_power(nodes, per_rack, node_power, limit, expected):
    assert int(costs.racks(nodes, per_rack, nodes * node_power, limit)) == expected


def test_cables_are_sold_in_lengths():
    # 2 · 2 m up and down, 10 racks of 0.6 m, 15 % slack: 11.5 m, sold as 15 m.
    length = costs.cable_length(10, 0.6, 2.0, 0.15)
    assert float(length) == pytest.approx(11.5)
    assert float(costs.length_class(length, [10, 15, 20])) == 15
    assert np.isnan(costs.length_class(21.0, [10, 15, 20]))


@given(AMOUNT, AMOUNT, st.floats(0.1, 1e9), st.floats(0.1, 1e9))
def test_the_whole_is_capital_and_operation(capital, yearly, lifetime, time):
    whole = float(costs.total(capital, yearly, lifetime, YEAR))
    assert whole >= capital
    assert float(costs.run(whole, lifetime, lifetime)) == pytest.approx(whole)
    assert float(costs.per_gpu_time(whole, 1, lifetime, time)) == pytest.approx(float(costs.run(whole, lifetime, time)))


@given(st.lists(st.tuples(AMOUNT, AMOUNT), min_size=1, max_size=5))
def test_arrays_are_priced_as_each_alone(pairs):
    counts, prices = (np.array(side) for side in zip(*pairs, strict=True))
    assert costs.line(counts, prices).tolist() == [float(costs.line(count, price)) for count, price in pairs]
