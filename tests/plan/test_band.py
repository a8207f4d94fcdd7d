"""Ranges: draws in, 80 % intervals out."""

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.estimate import Estimate
from app.plan import result
from app.plan.band import Band, Draws, declaration, fold, interval
from app.plan.result import Bisection, CostLine


def estimate(key: str, typical: float = 10.0, low: float | None = 5.0, high: float | None = 30.0) -> Estimate:
    return Estimate(typical=typical, low=low, high=high, unit="s", source="a-paper", key=key)


def test_draws_start_with_the_typical_value_and_have_the_stated_percentiles() -> None:
    draws = estimate("training.a.b").draws()
    assert draws.shape == (257,)
    assert draws[0] == 10.0
    # Stratified draws reproduce what defines them: low and high are the 5th and 95th percentile, typical the median.
    assert np.percentile(draws[1:], [5, 50, 95]) == pytest.approx([5, 10, 30], rel=0.03)


def test_draws_are_the_same_every_time_and_cannot_be_changed() -> None:
    assert np.array_equal(estimate("training.a.b").draws(), estimate("training.a.b").draws())
    with pytest.raises(ValueError, match="read-only"):
        estimate("training.a.b").draws()[0] = 1.0


def test_physical_constants_are_independent_and_prices_of_an_edition_move_together() -> None:
    one, other = estimate("gpus.x.power").draws(), estimate("gpus.x.memory").draws()
    assert abs(np.corrcoef(np.log(one[1:]), np.log(other[1:]))[0, 1]) < 0.2
    switch, nic = estimate("prices.market.switch").draws(), estimate("prices.market.nic").draws()
    assert np.array_equal(switch, nic)


def test_where_zero_is_possible_the_draws_are_normal_and_never_negative() -> None:
    draws = estimate("a.b.c", typical=1.0, low=0.0, high=2.0).draws()
    assert draws.min() == 0.0
    assert draws[1:].mean() == pytest.approx(1.0, rel=0.05)


def test_the_models_own_error_widens_the_range_on_the_logarithm() -> None:
    # Without draws to speak of, the half-width is the residual: 10·e^±0.2.
    band = fold(CostLine("nodes", Draws(np.full(257, 10.0), residual=0.2))).cost
    assert band is not None
    assert (band.low, band.high) == (8.1873, 12.2141)  # 8.18731 and 12.21403, to six digits outwards


def test_what_cannot_be_computed_is_none() -> None:
    assert fold(CostLine("nodes", Draws(np.full(257, np.nan)))).cost is None


@given(st.floats(0.01, 100), st.floats(0, 1), st.floats(1, 5), st.floats(1, 5), st.sampled_from(["a.b.c", "d.e.f"]))
def test_typical_lies_inside_its_band_and_curves_agree_with_plans(
    typical: float, residual: float, below: float, above: float, key: str
) -> None:
    draws = estimate(key, typical, typical / below, typical * above).draws()
    band = fold(CostLine("nodes", Draws(draws, residual=residual))).cost
    assert band is not None
    assert band.low <= band.typical <= band.high
    low, high = interval(draws[None, :], residual)
    assert (low[0], high[0]) == (band.low, band.high)


def test_a_band_names_its_sources_once_and_marks_what_is_not_on_sale() -> None:
    one = estimate("gpus.rubin.power")
    announced = Estimate(1.0, "s", "a-keynote", status="announced", key="gpus.rubin.memory")
    band = fold(CostLine("nodes", Draws(one.draws(), used=(one, announced, one)))).cost
    assert band is not None
    assert (band.sources, band.projected) == (("a-paper", "a-keynote"), True)
    unsourced = fold(CostLine("nodes", Draws(one.draws(), used=(one, announced, one))), sourced=False).cost
    assert unsourced == replace(band, sources=())


def test_a_result_is_folded_as_a_tree_each_quantity_in_the_unit_its_field_declares():
    ten = Draws(np.full(257, 10.0))
    costs: CostLine[Draws] = CostLine("nodes", ten)
    bisection: Bisection[Draws] = Bisection("leaf", ten, Draws(np.full(257, np.nan)), ten)
    lines, cut, count = fold(((costs, costs), bisection, 3))
    assert count == 3
    assert [line.cost for line in lines] == [Band(10, 10, 10, "USD")] * 2
    assert cut == Bisection("leaf", Band(10, 10, 10, "B/s"), None, Band(10, 10, 10, "B/s"))


def test_every_field_of_every_part_of_a_plan_says_what_it_is():
    records = [kind for kind in vars(result).values() if isinstance(kind, type) and is_dataclass(kind)]
    bare = [f"{kind.__name__}.{entry.name}" for kind in records for entry in fields(kind) if not declaration(entry)]
    assert not bare


def test_no_range_goes_beyond_what_can_be():
    """0.8 of a peak with an error of 40 % would be up to 1.19 of it."""
    values = np.full(257, 0.8)
    bounded, free = (fold(CostLine("x", Draws(values, residual=0.4, most=most))).cost for most in (1.0, np.inf))
    assert (bounded.low, bounded.typical, bounded.high) == (free.low, 0.8, 1.0)
    assert free.high == pytest.approx(0.8 * np.exp(0.4))


def test_no_range_goes_below_what_can_be():
    """80 to 125 s; the wires take 90 s. A typical value below that stays what it is."""
    drawn = Draws(np.full(257, 100.0), residual=float(np.log(1.25)))
    assert fold(CostLine("seconds", drawn)).cost.low == pytest.approx(80, rel=1e-5)
    assert fold(CostLine("seconds", drawn._replace(least=90.0))).cost.low == 90
    assert fold(CostLine("seconds", drawn._replace(least=110.0))).cost.low == 100


def test_no_part_of_an_answer_can_be_changed() -> None:
    band = Band(1.0, 2.0, 3.0, "s")
    for part, name in (
        (band, "typical"),
        (CostLine("nodes", band), "cost"),
        (Bisection("leaf", band, band, band), "cut"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, None)


def test_results_say_what_they_rest_on_where_another_rested_on_as_much() -> None:
    exact = Estimate(2.0, "1", "a", key="a")
    for others in ("b", "c", "b"):
        early = replace(exact, source=others, status="announced" if others == "c" else "shipping", key=others)
        for sourced in (True, False, True):
            cost = fold(CostLine("nodes", Draws(np.full(257, 2.0), used=(exact, early))), sourced).cost
            assert cost.sources == (("a", others) if sourced else ())
            assert cost.projected == (others == "c")
