"""An estimate: a typical value with its range, source and status, and the draws that stand for it."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, Literal, get_args
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from app import units

DRAWS = 256
N_DRAWS = DRAWS + 1
"""Length of the axis of draws: the typical value, then the draws."""
_DEVIATES = np.array([NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)])
Z90, Z95, Z99 = (NormalDist().inv_cdf(share) for share in (0.9, 0.95, 0.99))
"""The standard normal deviates of the 90th, 95th and 99th percentile: an 80 % interval is ± the first [1]."""

Status = Literal["shipping", "announced", "projected", "estimate", "calibrated", "measured", "standard"]
EARLY: frozenset[str] = frozenset({"announced", "projected"})
"""What is not on sale yet."""


@dataclass(frozen=True)
class Estimate:
    """A number with a unit, a range and a source.

    ``low`` and ``high`` are about the 5th and 95th percentile of what one meets in the field; an exact number has none.
    """

    typical: float
    unit: str
    source: str
    status: Status = "shipping"
    low: float | None = None
    high: float | None = None
    note: str = ""
    date: str = ""
    key: str = ""
    spread: bool = True

    def __hash__(self) -> int:
        """Estimates are looked up often, and their keys tell most of them apart."""
        return hash((self.key, self.typical))

    @property
    def is_zero(self) -> bool:
        """Whether it is zero in every draw."""
        return not (self.typical or self.high)

    def draws(self) -> NDArray[np.float64]:
        """The typical value first, then 256 fixed-seed draws [unit]; shape (257,), read-only.

        The draws are stratified (a Latin hypercube over all constants): each constant visits the 256 midpoints of its
        own distribution once, in an order seeded by its key, so constants are independent of one another; all prices of
        an edition share one order. Two-piece lognormal whose median is ``typical`` and whose 5th and 95th percentiles
        are ``low`` and ``high``; two-piece normal where zero is possible.

        >>> exact = Estimate(typical=2.0, unit="1", source="arithmetic")
        >>> float(exact.draws().std())
        0.0
        """
        return self._draws

    def typical_only(self) -> "Estimate":
        """The same estimate with its typical value as the only draw, for searches that need no range."""
        return replace(self, low=None, high=None, spread=False)

    @cached_property
    def _draws(self) -> NDArray[np.float64]:
        drawn = self._drawn() if self.spread else np.array([self.typical])
        drawn.flags.writeable = False
        return drawn

    def _drawn(self) -> NDArray[np.float64]:
        if self.low is None and self.high is None:
            return np.full(N_DRAWS, self.typical)
        low = self.typical if self.low is None else self.low
        high = self.typical if self.high is None else self.high
        seed = ".".join(self.key.split(".")[:2]) if self.key.startswith("prices.") else self.key
        deviates = _shuffled(seed)
        if low > 0:
            below, above = np.log(self.typical / low) / Z95, np.log(high / self.typical) / Z95
            values = self.typical * np.exp(deviates * np.where(deviates < 0, below, above))
        else:
            below, above = (self.typical - low) / Z95, (high - self.typical) / Z95
            values = np.maximum(self.typical + deviates * np.where(deviates < 0, below, above), 0.0)
        return np.concatenate(([self.typical], values))

    def times(self, factor: float, note: str = "") -> "Estimate":
        """The same estimate scaled by an exact factor."""
        return _scaled(self, factor, note or self.note)


@lru_cache(maxsize=4096)
def _shuffled(seed: str) -> NDArray[np.float64]:
    """The midpoints in the order of a key. Kept: shuffling takes 0.1 ms, and each plan has estimates of its own."""
    return np.random.default_rng(crc32(seed.encode())).permutation(_DEVIATES)


@lru_cache(maxsize=1024)
def _scaled(estimate: Estimate, factor: float, note: str) -> Estimate:
    """Kept, so that the draws are made once."""
    return replace(
        estimate,
        typical=estimate.typical * factor,
        low=None if estimate.low is None else estimate.low * factor,
        high=None if estimate.high is None else estimate.high * factor,
        note=note,
    )


def parse_estimate(value: object, unit: str, key: str, source: str = "", status: Status = "shipping") -> Estimate:
    """An estimate from its TOML form: a table, or bare text that takes the source and status of its entry."""
    table: dict[str, Any] = dict(value) if isinstance(value, dict) else {"typical": value}
    unknown = table.keys() - {"typical", "low", "high", "source", "status", "note", "date", "unit"}
    if unknown:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    if "typical" not in table:
        raise ValueError("lacks typical")
    if table.get("unit", unit) != unit:
        raise ValueError(f"unit {table['unit']!r} where {unit!r} is wanted")
    if unit not in units.UNITS:
        raise ValueError(f"unknown unit {unit!r}; the units are {', '.join(sorted(units.UNITS))}")
    for name in ("source", "status", "note"):
        if not isinstance(table.get(name, ""), str):
            raise ValueError(f"{name} must be text")
    if table.get("status", status) not in get_args(Status):
        raise ValueError(f"status must be one of {', '.join(get_args(Status))}")
    for name in ("typical", "low", "high"):
        if name in table and not isinstance(table[name], str | int | float):
            raise ValueError(f"{name} must be a number or text with a unit")
        if unit != "1" and name in table and not isinstance(table[name], str):
            raise ValueError(f"{name} must be text with a unit, like {units.EXAMPLES[unit]}")
    numbers = {name: units.parse(table[name], unit) for name in ("typical", "low", "high") if name in table}
    for name, number in numbers.items():
        if number and not units.names_unit(str(table[name]), unit):
            raise ValueError(f"{name} “{table[name]}” says no unit; write it like {units.EXAMPLES[unit]}")
    low, typical, high = numbers.get("low"), numbers["typical"], numbers.get("high")
    if typical < 0 or (low is not None and not 0 <= low <= typical) or (high is not None and high < typical):
        raise ValueError(f"range the wrong way round: low {low}, typical {typical}, high {high}")
    if not table.get("source", source):
        raise ValueError("lacks a source")
    return Estimate(
        typical=typical,
        low=low,
        high=high,
        unit=unit,
        source=table.get("source", source),
        status=table.get("status", status),
        note=table.get("note", ""),
        date=str(table.get("date", "")),
        key=key,
    )


class EstimateIn:
    """Marks a field as an ``Estimate`` in this unit, more than zero unless it may be ``zero``."""

    def __init__(self, unit: str, *, zero: bool = False) -> None:
        self.unit = unit
        self.zero = zero

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, info: ValidationInfo) -> Estimate:
            context = info.context or {}
            key = f"{context.get('key', '')}.{info.field_name}"
            entry = context.get("source", ""), context.get("status", "shipping")
            estimate = parse_estimate(value, self.unit, key, *entry)
            if estimate.typical == 0 and not self.zero:
                raise ValueError("must be more than zero")
            return estimate

        return core_schema.with_info_plain_validator_function(read)
