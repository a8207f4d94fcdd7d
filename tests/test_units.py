"""Text with a unit at the edge, SI floats inside."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from app import units
from app.units import Bytes, parse, show, show_people, show_range


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("400 Gb/s", "B/s", 5e10),  # 400e9 bits / 8
        ("50 GB/s", "B/s", 5e10),
        ("256 MiB", "B", 256 * 2**20),
        ("1 GB", "B", 1e9),
        ("5 us", "s", 5e-6),  # exactly: not 4.9999999999999996e-06
        ("5 µs", "s", 5e-6),
        ("2.5 h", "s", 9000),
        ("60 days", "s", 60 * 86400),
        ("989 TFLOP/s", "FLOP/s", 989e12),
        ("20 MW", "W", 2e7),
        ("15T", "1", 15e12),
        ("15T tokens", "1", 15e12),
        ("90 %", "1", 0.9),
        ("95 %", "1", 0.95),  # 95 · 0.01 would be 0.9500000000000001
        ("1.4 %", "1", 0.014),
        ("1,024", "1", 1024),
        ("15 trillion tokens", "1", 15e12),
        ("1,024,000", "1", 1024000),
        ("8 Ki", "1", 8192),
        ("$35,000", "USD", 35000),
        ("$20 million", "USD", 20e6),
        ("$1.5bn", "USD", 1.5e9),
        ("20 million dollars", "USD", 20e6),
        ("$2 million/year", "USD/year", 2e6),
        ("13M USD", "USD", 13e6),
        ("3.6 USD/kWh", "USD/J", 1e-6),  # one kilowatt-hour is 3.6 MJ
        ("3.6 USD/h", "USD/s", 1e-3),
        ("36 /h", "1/s", 1e-2),
        ("4,500/min", "1/s", 75.0),
        (7, "s", 7),
    ],
)
def test_quantities_are_read_as_base_units(text: str | float, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


@given(st.floats(1e-3, 1e12), st.floats(1.0, 1e5), st.floats(1.0, 1e5))
def test_a_range_is_written_out_however_far_its_ends_are(typical: float, below: float, above: float) -> None:
    """No power of ten stands in it: `2.9e+05` is no figure to sign."""
    for unit in ("USD", "s", "B", "W", "1"):
        assert "e+" not in show_range(typical / below, typical, typical * above, unit)


@given(st.floats(1e-3, 1e9), st.floats(1.0, 1e3), st.floats(1.0, 1e3))
@example(829_470.9, 1.27, 1.27)  # to over a million: 1,060 thousands have a comma
def test_people_are_written_out_however_many_there_may_be(typical: float, below: float, above: float) -> None:
    assert "K" not in show_people(typical / below, typical, typical * above)


@pytest.mark.parametrize("unit", sorted(units.UNITS))
@pytest.mark.parametrize(
    "text", ["12 bananas", "", "nan", "inf", "1e999", "--3", "5 5 kg", "0x10", "{{7*7}}", "9" * 500]
)
def test_what_is_not_a_quantity_is_refused_with_an_example(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"[Tt]ype"):
        parse(text, unit)


@pytest.mark.parametrize("text", ["€20M", "20M EUR", "£1.20/h"])
def test_another_currency_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="prices are in US dollars, such as"):
        parse(text, "USD")


@pytest.mark.parametrize("text", ["0,08", "1,5", "1,0245", "12,34", "0,033", "00,500", "1024,000"])
def test_a_comma_that_parts_no_thousands_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a comma parts thousands"):
        parse(text, "1")


@pytest.mark.parametrize(("value", "text"), [(1024, "1,024"), (16384.0, "16,384"), (0, "0"), (999_999, "999,999")])
def test_whole_numbers_are_printed_in_full(value: float, text: str) -> None:
    assert show(value, "1") == text
    assert show_range(value, value, value, "1") == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, 10**400])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="Type"):
        parse(value, "B")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5e10, "B/s", "50\u202fGB/s"),
        (5e10, "b/s", "400\u202fGb/s"),
        (640e9, "B", "640\u202fGB"),
        (15_120_000.0, "s", "175\u202fdays"),
        (0.0123, "s", "12.3\u202fms"),
        (6100.0, "USD", "$6,100"),
        (13.4e6, "USD", "$13.4\u202fM"),
        (2.95 / 3600, "USD/s", "$2.95/h"),
        (0.08 / 3.6e6, "USD/J", "$0.08/kWh"),
        (0.0, "s", "0\u202fs"),
        (math.nan, "s", "–"),
        (None, "s", "–"),
    ],
)
def test_quantities_are_shown_with_three_digits_and_a_prefix(value: float | None, unit: str, text: str) -> None:
    assert show(value, unit) == text


def test_a_range_has_no_more_digits_than_it_supports() -> None:
    assert show_range(13.4e6, 15.12e6, 17.3e6, "s") == "175\u202fdays (155–200)"
    assert show_range(4000, 6123, 9000, "USD") == "$6,100 (4,000–9,000)"


@given(st.floats(min_value=1e-6, max_value=1e15), st.sampled_from(["B", "B/s", "W", "FLOP/s"]))
def test_what_is_shown_can_be_typed_again(value: float, unit: str) -> None:
    assert parse(show(value, unit, digits=6).replace(",", ""), unit) == pytest.approx(value, rel=1e-5)


class Size(BaseModel):
    size: Bytes


def test_a_field_takes_text_or_number_and_names_its_unit_in_the_schema() -> None:
    assert Size.model_validate({"size": "256 MiB"}).size == Size(size=268435456.0).size
    assert Size.model_json_schema()["$defs"]["Bytes"]["x-unit"] == "B"
    with pytest.raises(ValidationError, match="256 MiB"):
        Size.model_validate({"size": "12 bananas"})


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1.61 USD/h", "USD/h", 1.61),
        ("$1.61/h", "USD/h", 1.61),
        ("14113.26 USD/year", "USD/h", 1.61),  # 8,766 hours a year
        ("1.61 USD/h", "USD/s", 1.61 / 3600),
        ("2.02e6 USD/year", "USD/year", 2.02e6),
        ("$2.02\u202fM/year", "USD/year", 2.02e6),
        ("2.02M USD/year", "USD/s", 2.02e6 / 31557600),
        ("0.1 USD/s", "USD/h", 360),
        ("24 USD/day", "USD/h", 1),
        ("730.5 USD/month", "USD/h", 1),  # a twelfth of 8,766 hours
        ("29 USD/(Gb/s)", "USD/(Gb/s)", 29),
        (7, "USD/year", 7),
    ],
)
def test_rates_of_money_are_read_as_they_are_printed(text: str | float, unit: str, value: float) -> None:
    assert parse(text, unit) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "unit"), [("5 USD", "USD/h"), ("5 USD/h", "USD"), ("5 h", "USD/h"), ("5/kWh", "USD/h")]
)
def test_an_amount_is_no_rate_and_a_rate_no_amount(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        parse(text, unit)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.61, "USD/h", "$1.61/h"),
        (10620.0, "USD/h", "$10.6\u202fK/h"),
        (6100.0, "USD/year", "$6,100/year"),
        (2.02e6, "USD/year", "$2.02\u202fM/year"),
        (29.0, "USD/(Gb/s)", "$29/(Gb/s)"),
    ],
)
def test_rates_of_money_are_shown_as_people_quote_them(value: float, unit: str, text: str) -> None:
    assert show(value, unit) == text
    assert show_range(value, value, value, unit) == text


@given(st.floats(min_value=1e-3, max_value=1e11), st.sampled_from(sorted(units.UNITS | units.PRINTED)))
def test_a_number_with_the_unit_of_an_answer_is_read_back_the_same(value: float, unit: str) -> None:
    text = f"{value!r} {unit}" if unit != "1" else repr(value)
    assert parse(text, unit) == value
    assert parse(value, unit) == value


@given(st.floats(min_value=1e-2, max_value=9e11), st.sampled_from(["USD", "USD/h", "USD/year", "USD/(Gb/s)", "USD/s"]))
def test_money_that_is_shown_can_be_typed_again(value: float, unit: str) -> None:
    assert parse(show(value, unit, digits=7), unit) == pytest.approx(value, rel=1e-6)


@given(st.floats(-12, 30), st.floats(0.1, 25), st.sampled_from(["s", "B", "USD", "1"]))
def test_a_logarithmic_axis_has_marks_between_its_ends_in_their_order(low: float, wide: float, unit: str) -> None:
    """However far its ends are apart, and however long the times are."""
    ends = 10**low, 10 ** (low + wide)
    at = [value for value, _ in units.decades(*ends, unit)]
    assert at == sorted(at)
    assert all(ends[0] * 0.999 <= value <= ends[1] * 1.001 for value in at)
