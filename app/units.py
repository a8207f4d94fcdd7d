"""Text with a unit at the edge, SI floats inside.

``G`` is 10⁹ and ``Gi`` is 2³⁰; ``b`` is a bit and ``B`` a byte, always. Nothing else in the product converts units.

>>> parse("400 Gb/s", "B/s")
50000000000.0
>>> parse("256 MiB", "B")
268435456.0
>>> parse("5 us", "s")
5e-06
>>> show(5e10, "B/s")
'50\u202fGB/s'
"""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypeAliasType

THIN = "\u202f"
"""A narrow space at which no line breaks."""
MINUS = "−"

DECIMAL = {
    "n": -9,
    "u": -6,
    "µ": -6,
    "μ": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "K": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
    "Z": 21,
}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50}
COUNT = {
    "": 0, "k": 3, "K": 3, "m": 6, "M": 6, "G": 9, "b": 9, "bn": 9, "B": 9, "t": 12, "T": 12, "P": 15,
    "thousand": 3, "million": 6, "billion": 9, "trillion": 12,
}  # fmt: skip
"""Powers of ten that people write after a count or a sum of money."""

MINUTE, HOUR, DAY, WEEK, YEAR = 60.0, 3600.0, 86400.0, 604800.0, 31557600.0
KILOWATT_HOUR = 3.6e6

# Per unit: symbols that take prefixes (with what one of them is worth) and words that take none.
_PREFIXED: dict[str, dict[str, float]] = {
    "B": {"B": 1.0, "b": 0.125, "bit": 0.125, "byte": 1.0, "bytes": 1.0},
    "B/s": {"B/s": 1.0, "b/s": 0.125, "bps": 0.125, "bit/s": 0.125, "Bps": 1.0},
    "s": {"s": 1.0},
    "W": {"W": 1.0, "watt": 1.0, "watts": 1.0},
    "FLOP/s": {"FLOP/s": 1.0, "FLOPS": 1.0, "FLOPs": 1.0, "FLOP": 1.0},
    "FLOP": {"FLOP": 1.0},
    "m": {"m": 1.0},
    "J": {"J": 1.0, "Wh": 3600.0},
    "1/s": {"1/s": 1.0, "/s": 1.0, "Hz": 1.0},
    "kg": {"g": 1e-3, "t": 1e3},
    "kg/J": {},
    "USD/J": {},
    "USD/s": {},
    "USD/h": {},
    "USD/year": {},
    "USD/(Gb/s)": {},
    "USD/(GB/s)": {},
    "USD": {},
    "1": {},
}
_WORDS: dict[str, dict[str, float]] = {
    "s": {
        "min": MINUTE, "minute": MINUTE, "minutes": MINUTE, "h": HOUR, "hour": HOUR, "hours": HOUR, "d": DAY,
        "day": DAY, "days": DAY, "week": WEEK, "weeks": WEEK, "month": YEAR / 12, "months": YEAR / 12, "year": YEAR,
        "years": YEAR, "y": YEAR, "second": 1.0, "seconds": 1.0,
    },
    "1/s": {
        "1/min": 1 / MINUTE, "/min": 1 / MINUTE, "1/h": 1 / HOUR, "/h": 1 / HOUR, "1/year": 1 / YEAR, "/year": 1 / YEAR,
        "1/day": 1 / DAY, "/day": 1 / DAY,
    },
    "USD/J": {
        "/kWh": 1 / KILOWATT_HOUR, "/MWh": 1e-3 / KILOWATT_HOUR, "/kW-month": 12e-3 / YEAR, "/kW/month": 12e-3 / YEAR,
        "/J": 1.0,
    },
    "kg": {"kg": 1.0},
    "kg/J": {"g/kWh": 1e-3 / KILOWATT_HOUR, "kg/MWh": 1e-3 / KILOWATT_HOUR, "kg/kWh": 1 / KILOWATT_HOUR, "kg/J": 1.0},
    "USD/s": {"/s": 1.0, "/h": 1 / HOUR, "/day": 1 / DAY, "/month": 12 / YEAR, "/year": 1 / YEAR},
    "USD/h": {"/s": HOUR, "/h": 1.0, "/day": HOUR / DAY, "/month": 12 * HOUR / YEAR, "/year": HOUR / YEAR},
    "USD/year": {"/s": YEAR, "/h": YEAR / HOUR, "/day": YEAR / DAY, "/month": 12.0, "/year": 1.0},
    "USD/(Gb/s)": {"/(Gb/s)": 1.0},
    "USD/(GB/s)": {"/(GB/s)": 1.0},
    "1": {"tokens": 1.0, "token": 1.0, "GPUs": 1.0, "sequences": 1.0, "GPU": 1.0, "x": 1.0},
}  # fmt: skip
EXAMPLES = {
    "B": "“256 MiB” or “1 GB”",
    "B/s": "“400 Gb/s” or “50 GB/s”",
    "s": "“5 us”, “3 h” or “60 days”",
    "W": "“700 W” or “20 MW”",
    "FLOP/s": "“989 TFLOP/s”",
    "FLOP": "“1 PFLOP”",
    "m": "“30 m”",
    "J": "“3 kWh” or “10 MJ”",
    "1/s": "“20 /s”, “5000 /min” or “0.0001 /h”",
    "kg": "“12 t”",
    "kg/J": "“369 g/kWh”",
    "USD": "“$35,000” or “13M USD”",
    "USD/J": "“0.08 USD/kWh”",
    "USD/s": "“2.95 USD/h”",
    "USD/h": "“2.95 USD/h”",
    "USD/year": "“2M USD/year”",
    "USD/(Gb/s)": "“29 USD/(Gb/s)”",
    "USD/(GB/s)": "“4 USD/(GB/s)”",
    "1": "“1024”, “15T” or “90 %”",
}
"""How people write quantities, by their unit."""
PRINTED = frozenset({"USD/h", "USD/year", "USD/(Gb/s)", "USD/(GB/s)"})
"""Units of results that are no base units: a rate of money is printed as people quote it."""
UNITS = frozenset(_PREFIXED) - PRINTED
"""The base units."""
LONGEST = 40
"""Characters that a quantity may have."""
_NUMBER = re.compile(
    r"\s*([+-]?(?:(?:[1-9]\d{0,2}(?:[,_ \u2009\u202f]\d{3})+(?!\d)|\d+)\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*",
    re.DOTALL,
)
"""A number, its thousands apart or not (one to three digits, no leading zero, go before them), and what follows it."""
_FOREIGN = re.compile(r"[€£¥₹]|\b(?:EUR|GBP|JPY|CNY|CHF)\b")
_COMMA = re.compile(r"\d,\d")
EXACT = 2.0**53
"""Beyond it a float no longer holds each whole number."""


def parse(text: str | float, unit: str) -> float:
    """Read a quantity as a float in the base unit.

    A bare number is in that unit already. Raises ``ValueError`` whose text says what to type.

    >>> parse("$13M", "USD"), parse("15T tokens", "1"), parse("3.6 USD/kWh", "USD/J")
    (13000000.0, 15000000000000.0, 1e-06)
    >>> parse("1.61 USD/h", "USD/h"), parse("$2.5 M/year", "USD/year"), parse("3.6 USD/h", "USD/s")
    (1.61, 2500000.0, 0.001)
    """
    if unit not in _PREFIXED:
        raise KeyError(f"no unit {unit!r}")
    if isinstance(text, bool):
        raise ValueError(f"Type a number with a unit, like {EXAMPLES[unit]}.")
    if isinstance(text, int | float):
        if not abs(text) < 1e300:
            raise ValueError(f"Type a finite number, like {EXAMPLES[unit]}.")
        return float(text)
    shown = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    if unit.startswith("USD") and _FOREIGN.search(shown):
        raise ValueError(f"“{shown}”: prices are in US dollars, such as {EXAMPLES[unit]}.")
    match = _number_in(text, unit)
    if not match or len(text) > LONGEST:
        raise ValueError(f"“{shown}” is not a quantity. Type a number with a unit, like {EXAMPLES[unit]}.")
    digits, symbol = re.sub(r"[,_ \u2009\u202f]", "", match[1]), " ".join(match[2].split())
    value = _scaled(digits, symbol, unit)
    if value is None and _COMMA.search(shown):
        raise ValueError(f"“{shown}”: a comma parts thousands, as in 1,024. Type decimals with a point, such as 1.5.")
    if value is None:
        raise ValueError(f"“{shown}”: the unit “{symbol[:20]}” does not fit. Type it like {EXAMPLES[unit]}.")
    if not math.isfinite(value):
        raise ValueError(f"“{shown}” is too large. Type it like {EXAMPLES[unit]}.")
    return value


def names_unit(text: str, unit: str) -> bool:
    """Whether the text of a quantity says its unit: of money a currency does, of its rates only what they are per.

    >>> names_unit("2.10 USD/h", "USD/s"), names_unit("$2.10", "USD/s"), names_unit("$290,000", "USD")
    (True, False, True)
    >>> names_unit("80", "B"), names_unit("15", "1")
    (False, True)
    """
    if unit == "1" or (unit == "USD" and ("$" in text or "USD" in text)):
        return True
    match = _number_in(text, unit)
    return bool(match and match[2])


def _number_in(text: str, unit: str) -> re.Match[str] | None:
    """The number of a quantity and what follows it, where it is one: money may have its currency before it."""
    plain = text.replace(MINUS, "-")
    return _NUMBER.fullmatch(plain.replace("$", "").replace("USD ", "", 1) if unit.startswith("USD") else plain)


def _scaled(digits: str, symbol: str, unit: str) -> float | None:
    if not symbol:
        return float(digits)
    if symbol == "%":
        return float(_shift(digits, -2)) if unit == "1" else None
    words = _WORDS.get(unit, {})
    if symbol in words:
        return float(digits) * words[symbol]
    if unit == "1" and symbol.split(" ")[0] in BINARY:
        count, _, word = symbol.partition(" ")
        return float(digits) * 2.0 ** BINARY[count] if not word or word in words else None
    for name, worth in _PREFIXED[unit].items():
        prefix = symbol.removesuffix(name) if symbol.endswith(name) else None
        if prefix in DECIMAL:
            return float(_shift(digits, DECIMAL[prefix])) * worth
        if prefix in BINARY:
            return float(digits) * worth * 2.0 ** BINARY[prefix]
    if unit.startswith("USD/"):
        amount, slash, per = symbol.partition("/")
        suffix = _amount(amount)
        if suffix in COUNT and slash + per in words:
            return float(_shift(digits, COUNT[suffix])) * words[slash + per]
    if unit in ("1", "USD"):
        suffix = _amount(symbol) if unit == "USD" else symbol.split(" ")[0]
        rest = "" if unit == "USD" else symbol.removeprefix(suffix).strip()
        if suffix in COUNT and (not rest or rest in words):
            return float(_shift(digits, COUNT[suffix]))
    return None


def _amount(symbol: str) -> str:
    """What follows a sum of money, without the currency."""
    return symbol.strip().removesuffix("USD").removesuffix("dollars").strip()


def whole(text: str) -> int:
    """Read a whole number as people write it, exactly.

    >>> whole("1,024"), whole("16k"), whole("8 Ki"), whole("2.5 million"), whole("64 GPUs")
    (1024, 16000, 8192, 2500000, 64)
    """
    value = parse(text, "1")
    if "%" in text or not value.is_integer() or abs(value) >= EXACT:
        raise ValueError(f"“{text}” is not a whole number.")
    return int(value)


def ratio(text: str) -> float:
    """Read a ratio to one, as people write it; the second number is never the larger.

    >>> ratio("2:1"), ratio("3 : 2"), ratio("2.5")
    (2.0, 1.5, 2.5)
    """
    above, colon, below = text.partition(":")
    divisor = parse(below, "1") if colon else 1.0
    number = parse(above, "1")
    if not 0 < divisor <= number:
        raise ValueError(f"“{text}” is not a ratio of 1:1 or more.")
    return number / divisor


def _shift(digits: str, exponent: int) -> str:
    """Move the decimal point in the text, so that 5 us is 5e-06 and not 4.9999999999999996e-06."""
    mantissa, _, written_exponent = digits.lower().partition("e")
    return f"{mantissa}e{int(written_exponent or 0) + exponent}"


_SHOWN: dict[str, tuple[tuple[float, str], ...]] = {
    "B": ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "B/s": ((1e15, "PB/s"), (1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "b/s": ((1.25e14, "Pb/s"), (1.25e11, "Tb/s"), (1.25e8, "Gb/s"), (1.25e5, "Mb/s"), (125.0, "kb/s"), (0.125, "b/s")),
    "s": (
        (2 * YEAR, "years"), (2 * DAY, "days"), (2 * HOUR, "h"), (2 * MINUTE, "min"), (1.0, "s"), (1e-3, "ms"),
        (1e-6, "µs"), (1e-9, "ns"),
    ),
    "W": ((1e9, "GW"), (1e6, "MW"), (1e3, "kW"), (1.0, "W")),
    "FLOP/s": ((1e18, "EFLOP/s"), (1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")),
    "FLOP": (
        (1e24, "YFLOP"), (1e21, "ZFLOP"), (1e18, "EFLOP"), (1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP"),
        (1e6, "MFLOP"), (1.0, "FLOP"),
    ),
    "J": ((3.6e9, "MWh"), (3.6e6, "kWh"), (3600.0, "Wh"), (1.0, "J")),
    "m": ((1.0, "m"),),
    "kg": ((1e9, "Mt"), (1e6, "kt"), (1e3, "t"), (1.0, "kg")),
    "USD": ((1e9, "B"), (1e6, "M"), (1e4, "K"), (1.0, "")),
    "1": ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "K"), (1.0, "")),
}  # fmt: skip
_WORTH = {"years": YEAR, "days": DAY, "h": HOUR, "min": MINUTE}
_RATES = {
    "1/s": ((1.0, "/s"), (1 / HOUR, "/h")),
    "USD/J": ((1 / KILOWATT_HOUR, "/kWh"),),
    "USD/s": ((1 / HOUR, "/h"),),
    "kg/J": ((1e-3 / KILOWATT_HOUR, "g/kWh"),),
}
_SHOWN |= {unit: tuple((worth, name + unit.removeprefix("USD")) for worth, name in _SHOWN["USD"]) for unit in PRINTED}


def _scale(value: float, unit: str) -> tuple[float, str]:
    """What one shown unit is worth, and its name."""
    if unit in _RATES:
        return next((rate for rate in _RATES[unit] if abs(value) >= rate[0]), _RATES[unit][-1])
    if unit not in _SHOWN:
        raise KeyError(f"no unit {unit!r}")
    for threshold, name in _SHOWN[unit]:
        if abs(value) >= threshold * 0.9995:
            return (_WORTH.get(name, 10**3 if name.startswith("K") else threshold), name)
    if not value and unit == "s":
        return 1.0, "s"
    return _SHOWN[unit][-1]


WRITTEN_OUT = 1e12
"""From here on a number that has no larger unit is written as a power of ten."""


def _digits(value: float, digits: int) -> str:
    """A number to so many significant digits.

    >>> _digits(286432.0, 2), _digits(0.04321, 3), _digits(3.6e14, 2)
    ('290,000', '0.0432', '3.6e+14')
    """
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places < 0 and abs(rounded := round(value, places)) >= WRITTEN_OUT:
        return f"{rounded:.{digits - 1}e}"
    text = _to_places(value, places)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _to_places(value: float, places: int) -> str:
    """A number to so many decimals; below none, to a power of ten.

    >>> _to_places(1234.567, 1), _to_places(1234.567, -2)
    ('1,234.6', '1,200')
    """
    return f"{value:,.{places}f}" if places >= 0 else f"{round(value, places):,.0f}"


def _dress(number: str, unit: str, name: str) -> str:
    """A number with its sign before the currency, and its unit.

    >>> _dress("-0.7", "USD", "M")
    '−$0.7\u202fM'
    """
    sign, money = MINUS if number.startswith("-") else "", "$" if unit.startswith("USD") else ""
    glue = "" if not name or name.startswith("/") else THIN
    return f"{sign}{money}{number.removeprefix('-')}{glue}{name}"


def show(value: float | None, unit: str, digits: int = 3) -> str:
    """Write a quantity for people: about three significant digits and an SI prefix; a dash for what is unknown.

    A whole number of things is exact up to a million.

    >>> show(15120000.0, "s"), show(6100.0, "USD"), show(None, "s"), show(5e10, "b/s")
    ('175\u202fdays', '$6,100', '–', '400\u202fGb/s')
    >>> show(16384, "1"), show(1020.5, "1"), show(15e12, "1")
    ('16,384', '1,020', '15\u202fT')
    >>> show(1.61, "USD/h"), show(2.02e6, "USD/year"), show(0, "s")
    ('$1.61/h', '$2.02\u202fM/year', '0\u202fs')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "1" and abs(value) < 1e6 and _is_whole(value):
        return f"{value:,.0f}"
    worth, name = _scale(value, unit)
    return _dress(_digits(value / worth, digits), unit, name)


def show_message(size: float, digits: int = 3) -> str:
    """Write the bytes of a message: in powers of two where they are whole ones, as benchmarks are asked for them.

    >>> show_message(2.0**20), show_message(3 * 2.0**30), show_message(2e8), show_message(512)
    ('1\u202fMiB', '3\u202fGiB', '200\u202fMB', '512\u202fB')
    """
    largest = next((prefix for prefix in reversed(BINARY) if size >= 2 ** BINARY[prefix]), "")
    many = size / 2 ** BINARY.get(largest, 0)
    return f"{many:,.0f}{THIN}{largest}B" if largest and many.is_integer() else show(size, "B", digits)


def show_beside(value: float | None, unit: str, first: float, digits: int = 4) -> str:
    """Write a quantity in a column with the unit and the decimals that the ``first`` of it has with so many digits.

    >>> [show_beside(value, "s", 14.09) for value in (14.09, 14.1, 100.0)], show_beside(None, "s", 14.09)
    (['14.09\u202fs', '14.10\u202fs', '100.00\u202fs'], '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    worth, name = _scale(first, unit)
    return _dress(_rounded(value / worth, math.floor(math.log10(first / worth)) - digits + 1), unit, name)


def show_enough(value: float, unit: str, digits: int = 3) -> str:
    """Write a quantity rounded up, so that a limit of what stands there is met.

    >>> show_enough(7776100.0, "s"), show(7776100.0, "s"), show_enough(40e6, "USD")
    ('90.1\u202fdays', '90\u202fdays', '$40\u202fM')
    """
    worth, name = _scale(value, unit)
    step = 10.0 ** (math.floor(math.log10(value / worth)) - digits + 1)
    return _dress(_digits(math.ceil(value / worth / step - 1e-9) * step, digits + 1), unit, name)


def _is_whole(value: float) -> bool:
    """Whether it is a whole number but for its last digits, in which processors differ.

    >>> _is_whole(8192.000000000002), _is_whole(8192.001)
    (True, False)
    """
    return math.isclose(value, round(value), rel_tol=1e-12)


def show_range(low: float | None, typical: float | None, high: float | None, unit: str) -> str:
    """Write a band with no more digits than its range supports.

    All three share one step: the power of ten that leaves the width two digits, and the typical value three at most.
    Where the ends are over ten times apart, each keeps two digits of its own. A whole number of things is exact, as
    `show` has it.

    >>> show_range(13.4e6, 15.12e6, 17.3e6, "s"), show_range(9.12, 10.0, 10.98, "s")
    ('175\u202fdays (155–200)', '10.0\u202fs (9.1–11.0)')
    >>> show_range(5.0, 5.0, 5.0, "s"), show_range(0.013, 0.13, 0.29, "s")
    ('5\u202fs', '130\u202fms (13–290)')
    >>> show_range(51e6, 4e8, 1.34e11, "USD")
    '$400\u202fM (51–130,000)'
    >>> show_range(290e3, 432e3, float("nan"), "s")  # some draws never end
    '5\u202fdays (3.4–∞)'
    >>> show_range(-6e9, 4e9, 13e9, "B"), show_range(16585.3, 21016.0, 27438.0, "1")
    ('4\u202fGB (−6\u202f…\u202f13)', '21,016 (17,000–27,000)')
    """
    if typical is None or low is None or high is None or not math.isfinite(typical):
        return "–"
    if low == typical == high:
        return show(typical, unit)
    exact = unit == "1" and 1e3 <= abs(typical) < 1e6 and _is_whole(typical)
    worth, name = (1.0, "") if exact else _scale(typical, unit)
    main, *ends = _in_step(*(value / worth for value in (typical, low, high)))
    if main == ends[0] == ends[1]:
        return show(typical, unit)
    first = show(typical, unit) if exact else _dress(main, unit, name)
    between = f"{THIN}…{THIN}" if min(low, high) < 0 else "–"
    return f"{first} ({between.join(ends).replace('-', MINUS)})"


def show_people(low: float, typical: float, high: float) -> str:
    """Write a band of people, of whom there are whole numbers.

    >>> show_people(0.75, 1.0, 1.27), show_people(4.1, 5.2, 6.4), show_people(0.1, 0.3, 0.6), show_people(240, 300, 371)
    ('1', '5 (4–6)', 'under 1', '300 (240–370)')
    >>> show_people(33e3, 42e3, 53e3), show_people(651e3, 829470.9, 1056e3)
    ('42,000 (33,000–53,000)', '830,000 (650,000–1,060,000)')
    """
    text = show_range(low, typical, high, "1")
    thousands = f"{THIN}K"
    if thousands in text and math.isfinite(low) and math.isfinite(high):
        plain = text.replace(thousands, "").replace(",", "")
        return re.sub(r"[\d.]+", lambda number: f"{round(1e3 * float(number[0])):,}", plain)
    if "." not in text or not (typical < 1e3 and math.isfinite(low) and math.isfinite(high)):
        return text
    first, *ends = (f"{round(value):,}" for value in (typical, low, high))
    if first == "0":
        return "under 1"
    return first if ends == [first, first] else f"{first} ({'–'.join(ends)})"


def _in_step(typical: float, low: float, high: float) -> tuple[str, ...]:
    """The numbers of a band, see `show_range`.

    >>> _in_step(1.0, 0.752, 1.268), _in_step(2.0, 1.0, 30.0)
    (('1.00', '0.75', '1.27'), ('2', '1', '30'))
    """
    apart = not (math.isfinite(low) and math.isfinite(high)) or high > 10 * abs(low)
    if apart or not typical:
        ends = (_digits(end, 2) if math.isfinite(end) else open_ for end, open_ in ((low, "0"), (high, "∞")))
        return _digits(typical, 2), *ends
    power = max(math.floor(math.log10(high - low)) - 1, math.floor(math.log10(abs(typical))) - 2)
    return tuple([_to_places(value, -power) for value in (typical, low, high)])


def show_difference(low: float, typical: float, high: float, unit: str) -> str:
    """Write a difference with its own range; the sign of each number counts, so its ends stand apart by an ellipsis.

    >>> show_difference(-0.93e6, -0.71e6, -0.64e6, "USD"), show_difference(30.0, 30.0, 30.0, "s")
    ('−$710\u202fK (−930\u202f…\u202f−640)', '+30\u202fs')
    >>> show_difference(-0.02, 0.0, 0.011, "%"), show_difference(0.2, 1.097, 1.6, "%")
    ('0\u202f% (−2.0\u202f…\u202f+1.1)', '+110\u202f% (+20\u202f…\u202f+160)')
    """
    most = max(abs(value) for value in (low, typical, high))
    worth, name = (0.01, "%") if unit == "%" else _scale(most, unit)
    if low == typical == high:
        return _signed(_dress(_digits(typical / worth, 3), unit, name), typical)
    width = (high - low) / worth
    power = max(math.floor(math.log10(width)) - 1, math.floor(math.log10(most / worth)) - 2)
    main, *ends = (_rounded(value / worth, power) for value in (typical, low, high))
    return (
        f"{_signed(_dress(main, unit, name), typical)} "
        f"({THIN.join((_signed(_dress(ends[0], '', ''), low), '…', _signed(_dress(ends[1], '', ''), high)))})"
    )


def _rounded(value: float, power: int) -> str:
    """A number to a power of ten; zero without decimals or sign.

    >>> _rounded(-0.04, -1), _rounded(1234.5, 1)
    ('0', '1,230')
    """
    rounded = round(value, -power)
    return f"{rounded:,.{max(-power, 0)}f}" if rounded else "0"


def _signed(text: str, value: float) -> str:
    """A number's text with a plus where it is more than zero, and says so."""
    return f"+{text}" if value > 0 and any(digit in text for digit in "123456789") else text


def marks(low: float, high: float, unit: str, count: int = 5) -> list[tuple[float, str]]:
    """Round values between two ends for an axis, with their text, all in the unit that suits the upper end.

    >>> marks(0.0, 2.3, "s", 4)
    [(0.0, '0'), (0.5, '0.5\u202fs'), (1.0, '1\u202fs'), (1.5, '1.5\u202fs'), (2.0, '2\u202fs')]
    """
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return []
    worth, name = _scale(max(abs(low), abs(high)), unit)
    rough = (high - low) / worth / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((factor * power for factor in (1, 2, 5, 10)), key=lambda size: abs(math.log(size / rough)))
    first, last = math.ceil(low / worth / step - 1e-9), math.floor(high / worth / step + 1e-9)
    texts = ((float(f"{place * step:.12g}"), place) for place in range(first, last + 1))
    return [(value * worth, _dress(_digits(value, 4), unit, name) if place else "0") for value, place in texts]


def decades(low: float, high: float, unit: str) -> list[tuple[float, str]]:
    """Marks between two ends for a logarithmic axis, with their text: powers of ten, of a hundred or a thousand where
    those would crowd; 1, 2 and 5 in one unit where the ends are near each other.

    >>> decades(8.0, 64e9, "B")
    [(1000.0, '1\u202fkB'), (1000000.0, '1\u202fMB'), (1000000000.0, '1\u202fGB')]
    >>> [text for _, text in decades(9e3, 2e9, "B")]
    ['10\u202fkB', '1\u202fMB', '100\u202fMB']
    >>> [text for _, text in decades(9.0, 210.0, "s")]
    ['10\u202fs', '20\u202fs', '50\u202fs', '100\u202fs', '200\u202fs']
    >>> [text for _, text in decades(0.5, 2e6, "s")]
    ['1\u202fs', '1\u202fmin', '1\u202fh', '10\u202fdays']
    >>> decades(3e13, 4e16, "s")[0]
    (100000000000000.0, '3,170,000\u202fyears')
    """
    if not 0 < low < high < math.inf:
        return []
    if high / low < 300:
        worth, name = _scale(math.sqrt(low * high), unit)
        first, last = math.floor(math.log10(low / worth)), math.ceil(math.log10(high / worth))
        steps = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in (1, 2, 5)]
        return [(s * worth, _dress(_digits(s, 3), unit, name)) for s in steps if low <= s * worth <= high]
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if unit == "s" and high > 100:
        spots = [(10.0**power, show(10.0**power, unit)) for power in range(first, 2)]
        spots += [(at, time.replace(" ", THIN)) for time in TIMES if low <= (at := parse(time, unit)) <= high]
        if len(spots) > 1:
            return spots[:: -(-len(spots) // MOST_MARKS)]
    step = 1 if last - first < MOST_MARKS else 2 if last - first < 7 else 3
    return [(10.0**power, show(10.0**power, unit)) for power in range(first, last + 1) if power % step == 0]


MOST_MARKS = 5
"""Marks of a logarithmic axis between which there is room on a narrow screen."""


TIMES = "1 min", "10 min", "1 h", "10 h", "10 days", "100 days", "3 years", "30 years"
"""What people count in, about a decade from one to the next."""


def percent(share: float, digits: int = 0) -> str:
    """Write a share as per cent.

    >>> percent(0.034), percent(0.034, 1), percent(-0.01)
    ('3\u202f%', '3.4\u202f%', '−1\u202f%')
    """
    return f"{share * 100:.{digits}f}{THIN}%".replace("-", MINUS)


def show_span(low: float, high: float, unit: str) -> str:
    """Write two ends of a range in one unit.

    >>> show_span(4.7e6, 7.02e6, "USD"), show_span(0.9e6, 1.1e6, "USD"), show_span(8.64e5, 1.3e6, "s")
    ('$4.70–7.02\u202fM', '$0.9–1.1\u202fM', '10–15\u202fdays')
    """
    worth, name = _scale(high, unit)
    texts = [_digits(end / worth, 3) for end in (low, high)]
    places = max(len(text.partition(".")[2]) for text in texts)
    ends = (text if "e" in text else f"{float(text.replace(',', '')):,.{places}f}" for text in texts)
    return _dress("–".join(ends), unit, name)


class Written:
    """Marks a number that text may say in a way of its own; where JSON has types, text is none."""

    def __init__(self, read: Callable[[str], float], problem: str, advice: str) -> None:
        self.reader = read
        self.problem = problem
        self.advice = advice

    def read(self, value: object, handler: ValidatorFunctionWrapHandler) -> Any:
        """The value as it is, or as the reader of text has it where it is text that is none."""
        try:
            return handler(value)
        except ValidationError as error:
            if not (isinstance(value, str) and error.errors(include_url=False)[0]["type"] == self.problem):
                raise
        try:
            number = self.reader(value[: LONGEST + 1])
        except ValueError:
            raise PydanticCustomError("written", "{advice}", {"advice": self.advice}) from None
        return handler(number)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self.read, handler(source))


class Quantity:
    """Marks a float field as a quantity: pydantic reads text with a unit, the JSON schema names the unit."""

    def __init__(self, unit: str, example: str = "") -> None:
        self.unit = unit
        self.example = example or EXAMPLES[unit]
        self.as_typed = bool(example)
        """Whether people read it as they type it: a year has no thousands."""

    def read(self, value: object) -> float:
        if not isinstance(value, str | int | float):
            message = f"Type a number with a unit, like {self.example}."
            raise PydanticCustomError("quantity", "{advice}", {"advice": message})
        try:
            return parse(value, self.unit)
        except ValueError as error:
            message = str(error).replace(EXAMPLES[self.unit], self.example)
            raise PydanticCustomError("quantity", "{advice}", {"advice": message}) from None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "number"}, {"type": "string", "maxLength": LONGEST}],
            "description": f"A number in {self.unit}, or text with a unit: {self.example}.",
            "x-unit": self.unit,
        }


class Several:
    """Marks a number of things, whole or on average: a share is none, and examples are counts."""

    def __init__(self, examples: str) -> None:
        self.examples = examples

    def read(self, value: object) -> object:
        """The value as it is; text that is no such number says what to type."""
        if not isinstance(value, str):
            return value
        try:
            parse(value, "1")
        except ValueError as error:
            advice = str(error).replace(EXAMPLES["1"], self.examples).replace("number with a unit", "number")
            raise PydanticCustomError("quantity", "{advice}", {"advice": advice}) from None
        if "%" in value:
            advice = f"“{value}” is a share. Type how many, like {self.examples}."
            raise PydanticCustomError("quantity", "{advice}", {"advice": advice})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": "^[^%]*[0-9][^%]*$"}


Bytes = TypeAliasType("Bytes", Annotated[float, Quantity("B")])
Bandwidth = TypeAliasType("Bandwidth", Annotated[float, Quantity("B/s")])
Seconds = TypeAliasType("Seconds", Annotated[float, Quantity("s")])
Watts = TypeAliasType("Watts", Annotated[float, Quantity("W")])
Dollars = TypeAliasType("Dollars", Annotated[float, Quantity("USD")])
DollarsPerJoule = TypeAliasType("DollarsPerJoule", Annotated[float, Quantity("USD/J")])
DollarsPerSecond = TypeAliasType("DollarsPerSecond", Annotated[float, Quantity("USD/s")])
PerSecond = TypeAliasType("PerSecond", Annotated[float, Quantity("1/s")])
Number = TypeAliasType("Number", Annotated[float, Quantity("1")])
Year = TypeAliasType("Year", Annotated[float, Quantity("1", "“2024.54”")])
WHOLE = Written(whole, "int_parsing", "Type a whole number, for example 1024 or 16k.")
SEVERAL = Several("“300” or “1,024”")
RATIO = Written(ratio, "float_parsing", "Type a ratio of 1:1 or more, such as 2:1.")
GIGABIT, GIGABYTE = parse("1 Gb/s", "B/s"), parse("1 GB/s", "B/s")
"""The units in which people state the rates of links, of one direction [B/s]."""
