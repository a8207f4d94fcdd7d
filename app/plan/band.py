"""From draws to ranges: each result is low ≤ typical ≤ high with a unit and the sources that fed it."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from math import inf, isfinite
from operator import attrgetter
from typing import Any, NamedTuple, TypedDict, get_type_hints

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar, Unpack, dataclass_transform

from app.catalog.estimate import EARLY, Estimate
from app.formulas.arrays import rounded
from app.formulas.records import quickly_made
from app.plan.kept import Kept
from app.units import show_range

LOW, HIGH = 0.1, 0.9
DIGITS = 6
"""Of the ends of a range: what 257 draws say of them beyond is chance."""
AT_ONCE = 128
"""Rows of draws that are sorted in one call: as many as a processor has at hand."""
_SOURCE, _STATUS = attrgetter("source"), attrgetter("status")

nan_is_an_answer = np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")
"""Outside a formula's range the result is NaN or infinite, which is no error here: it becomes ``None``."""


T = TypeVar("T")


@dataclass(frozen=True)
class Declaration:
    """What a result is, said once for page, API, files and comparison.

    Attributes:
        unit: of a quantity, a base unit or, for a rate of money, such as USD/h; "1" for counts, shares and factors;
            blank for words, flags and parts.
        label: name of a row or column.
        meaning: one sentence.
        formula: key of the formula on the method page.
        show: views that it stands in: figures, costs, power or storage, tables of a plan; comparison; sweep.
        share: a share, which pages print as per cent.
        words: vocabulary of its keys, see `app.report.labels`; blank where its text stands as it is.
        made_of: what it is a sum of, ``field.column`` of a list in the same record.
        product_of: the results that it is a product of, by their names on the wire.
        table: of a list of records: key of the table whose rows they are; of one record: whose rows its fields are.
        sums: of such a list: rows below it, by their names, each with the field of the same record that stands in
            a column.
        listed: whether a table of its records has a column for it.
    """

    unit: str
    label: str
    meaning: str
    formula: str = ""
    show: tuple[str, ...] = ()
    share: bool = False
    words: str = ""
    made_of: str = ""
    product_of: tuple[str, ...] = ()
    table: str = ""
    sums: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    listed: bool = True


class Shown(TypedDict, total=False):
    """Where and how a result is shown, as `Declaration` has it."""

    show: tuple[str, ...]
    share: bool
    words: str
    made_of: str
    product_of: tuple[str, ...]
    table: str
    sums: Mapping[str, Mapping[str, str]]
    listed: bool


def result(
    unit: str,
    label: str,
    meaning: str,
    *,
    formula: str = "",
    default: Any = MISSING,
    default_factory: Any = MISSING,
    **shown: Unpack[Shown],
) -> Any:
    """A field of a result with its declaration."""
    declared = Declaration(unit, label, meaning, formula, **shown)
    return field(default=default, default_factory=default_factory, metadata={"result": declared})


@dataclass_transform(frozen_default=True, field_specifiers=(field, result))
def record(kind: type[T]) -> type[T]:
    """A frozen dataclass whose fields declare themselves with `result`."""
    return quickly_made(dataclass(frozen=True)(kind))


@record
class Band:
    """An 80 % interval about a typical value, in ``unit``, with the keys of the sources it rests on."""

    low: float = result("", "Low", "Lower end of the 80 % interval; null where it is not finite.")
    typical: float = result("", "Typical", "The typical value.")
    high: float = result("", "High", "Upper end of the 80 % interval; null where it has no bound.")
    unit: str = result(
        "",
        "Unit",
        "Of the numbers beside it: a base unit or, for a rate of money, such as USD/h; 1 for counts and shares.",
    )
    sources: tuple[str, ...] = result("", "Sources", "Keys of the sources that it rests on.", default=())
    projected: bool = result(
        "",
        "Projected",
        "Whether it rests on what is announced or projected, not on sale; left out if not.",
        default=False,
    )


class Draws(NamedTuple):
    """A result before it is folded: draws along the last axis, the typical value first.

    ``residual`` is the model's own relative error: the half-width of its 80 % interval on the logarithm. ``least`` and
    ``most`` are what can be at all, such as 1 of a share: no range goes beyond them.
    """

    values: NDArray[np.float64]
    used: tuple[Estimate, ...] = ()
    residual: float = 0.0
    most: float = inf
    least: float = -inf

    @property
    def typical(self) -> float:
        """The typical value alone."""
        return float(self.values.flat[0])


def with_range(band: Band | None, unit: str = "") -> str:
    """A band as text, the typical value and its 80 % range, in its own unit or another; a dash for none.

    >>> with_range(Band(13.4e6, 15.12e6, 17.3e6, "s")), with_range(None)
    ('175\u202fdays (155–200)', '–')
    """
    return "–" if band is None else show_range(band.low, band.typical, band.high, unit or band.unit)


def alone(band: Band, unit: str = "") -> str:
    """A band's typical value, written as it is beside its range.

    >>> alone(Band(13.4e6, 15.12e6, 17.3e6, "s"))
    '175\u202fdays'
    """
    return with_range(band, unit).partition(" (")[0]


Quantity = Band | None
"""A band; ``None`` where the value cannot be computed, and a finding says why."""
Q = TypeVar("Q", default=Quantity)
"""What a result's quantities are: bands for every reader, draws until they are folded."""


def declaration(entry: Field[Any]) -> Declaration | None:
    """What a field declares; ``None`` where it declares nothing."""
    declared: Declaration | None = entry.metadata.get("result")
    return declared


def unit_of(entry: Field[Any]) -> str:
    """The unit a field declares; blank where it declares none."""
    declared = declaration(entry)
    return declared.unit if declared else ""


def fold(part: Any, sourced: bool = True) -> Any:
    """A result whose quantities are draws, as the same result with bands, in one sort.

    Walks tuples and those fields of records that may hold quantities; what is folded already stays as it is. A quantity
    has the unit that its field declares (see `result`). The interval holds 80 % of the draws; the model's own error
    widens it on the logarithm, √(draws² + residual²), each side by itself. What is not a number is ``None``. Bands say
    what they rest on only if they are to be sourced: of a plan that takes a tenth of the time.

    >>> from app.plan.result import CostLine
    >>> fold(CostLine("nodes", Draws(np.full(257, 2.0)))).cost
    Band(low=2.0, typical=2.0, high=2.0, unit='USD', sources=(), projected=False)
    """
    gaps: list[_Gap] = []
    folded = _with_gaps(part, gaps)
    if gaps:
        _fill(gaps, sourced)
    return folded


_Gap = tuple[dict[str, Any], str, Draws, str]
"""Where a band is to stand: the values of its record, the field, and the draws that it is made from with its unit."""


def _with_gaps(part: Any, gaps: list[_Gap]) -> Any:
    """A copy of a result that is to have bands in place of its draws, adding where; itself where it has none."""
    kind: Any = type(part)
    before = len(gaps)
    if kind is tuple:
        inner = tuple([_with_gaps(each, gaps) for each in part])
        return inner if len(gaps) > before else part
    names = _quantity_fields(kind)
    if not names:
        return part
    values = vars(part).copy()
    for name, unit in names:
        value = values[name]
        if type(value) is Draws:  # as most are: without a call of their own
            gaps.append((values, name, value, unit))
        elif value:
            values[name] = _with_gaps(value, gaps)
    if len(gaps) == before:
        return part
    copy = object.__new__(kind)  # twice as quick as to construct a frozen record anew
    object.__setattr__(copy, "__dict__", values)
    return copy


@cache
def _quantity_fields(kind: Any) -> tuple[tuple[str, str], ...]:
    """The fields of a record that may hold quantities, each with the unit it declares; blank where it declares none.

    Kept: it takes 40 µs, and a plan has a hundred records of a dozen kinds: 4 ms.
    """
    if not is_dataclass(kind):
        return ()
    types = get_type_hints(kind)
    return tuple((entry.name, unit_of(entry)) for entry in fields(kind) if _generic(types[entry.name]))


def _generic(annotation: Any) -> bool:
    """Whether a type has parameters: ``Q`` itself, or what is made of it, such as ``tuple[CostLine[Q], ...]``."""
    return isinstance(annotation, TypeVar) or bool(getattr(annotation, "__parameters__", ()))


def _fill(gaps: Sequence[_Gap], sourced: bool) -> None:
    """Make the bands, and put each where it is to stand."""
    drawn = [gap for gap in gaps if gap[2].values.size > 1]
    exact = [gap for gap in gaps if gap[2].values.size == 1]
    ranges = [_sorted(_table(drawn[start : start + AT_ONCE])) for start in range(0, len(drawn), AT_ONCE)]
    if exact:
        ranges.append(np.stack([_table(exact)[:, 0]] * 3))
    ordered = [*drawn, *exact]
    residual = np.array([draws.residual for _, _, draws, _ in ordered])
    every = np.concatenate(ranges, axis=1)
    low, high = _widened(every, residual)
    rests: dict[int, _Rest] = {}  # results of one part of the plan share what they rest on
    for (its_record, name, draws, unit), below, value, above in zip(
        ordered, low.tolist(), every[0].tolist(), high.tolist(), strict=True
    ):
        if not isfinite(value):
            its_record[name] = None
            continue
        _, used, _, most, least = draws
        rest = rests.get(id(used))
        if rest is None:
            rest = rests[id(used)] = _provenance(used, sourced)
        above = most if most < above else above
        below = least if least > below else below
        its_record[name] = band = object.__new__(Band)  # a third of the time that it takes to construct one
        its = vars(band)
        its["low"] = value if value < below else below
        its["typical"] = value
        its["high"] = value if value > above else above
        its["unit"] = unit
        sources, projected = rest  # else the defaults of the class, which are not written
        if sourced:
            its["sources"] = sources
        if projected:
            its["projected"] = projected


def _table(gaps: Sequence[_Gap]) -> NDArray[np.float64]:
    """The draws of several below one another, of which each has as many."""
    return np.concatenate([draws.values for _, _, draws, _ in gaps], axis=None).reshape(len(gaps), -1)


def interval(
    values: NDArray[np.float64],
    residual: float | NDArray[np.float64] = 0.0,
    least: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Low and high of each result or curve point: draws along the last axis, widened by the model's own error.

    The ends are rounded outwards to six digits; what is exact stays so. The low one is no less than what is ``least``
    of each, where that is given.
    Where a value of zero or less allows no logarithm, the draws' own interval stands.
    """
    low, high = _widened(_sorted(values.copy()), residual)
    return low if least is None else np.minimum(np.maximum(low, least), values[..., 0]), high


def _sorted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The typical value of draws and the ends between which 80 % of them are; it leaves them in another order."""
    typical = values[..., 0].copy()
    last = values.shape[-1] - 1
    values.sort(axis=-1)  # NumPy sorts vectors at a time, and is four times as quick at it as at a partition
    low, high = values[..., round(LOW * last)], values[..., round(HIGH * last)]
    return np.stack((typical, np.minimum(low, typical), np.maximum(high, typical)))


def _widened(ranges: NDArray[np.float64], residual: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """The ends of ranges, low and high, with the model's own error and rounded, see `interval`, of typical values with
    the ends between which draws are.
    """
    typical, ends = ranges[0], ranges[1:]
    outwards = _OUTWARDS.reshape(-1, *[1] * typical.ndim)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        widened = typical * np.exp(outwards * np.hypot(np.log(ends / typical), residual))
    ends = np.where((np.asarray(residual) == 0) | (ends[0] <= 0), ends, widened)
    return np.where(ends == typical, ends, outwards * rounded(outwards * ends, DIGITS, np.ceil))


_OUTWARDS = np.array([-1.0, 1.0])
"""Which way the low end and the high end are widened and rounded."""


_Rest = tuple[tuple[str, ...], bool]
"""The sources of some estimates, if they are to be said, and whether any of these is not on sale yet."""
_RESTS: Kept[tuple[int, ...], tuple[Sequence[Estimate], _Rest]] = Kept(512)
"""What results rested on lately, by how many estimates and by each eighth of them: most are those of the plan before,
and to compare them takes a tenth of the time that it takes to read them.
"""


def _provenance(used: Sequence[Estimate], sourced: bool) -> _Rest:
    """What some estimates say of a result that rests on them."""
    key = (sourced, len(used), *map(id, used[::8]))
    known = _RESTS.get(key)
    if known and known[0] == used:
        return known[1]
    sources = tuple(dict.fromkeys(map(_SOURCE, used))) if sourced else ()
    rest = sources, not EARLY.isdisjoint(map(_STATUS, used))
    _RESTS.add(key, (used, rest))
    return rest
