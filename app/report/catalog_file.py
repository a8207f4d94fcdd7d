"""Entries of the catalogue as the rows of a CSV file."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import urlencode

from pydantic import BaseModel

from app.catalog.entries import Entry, Source
from app.catalog.estimate import Estimate, EstimateIn
from app.catalog.load import ENTRIES, estimates_of
from app.report.files import csv_lines

ONE_EACH: Mapping[str, type[BaseModel]] = {**ENTRIES, "sources": Source}
"""Kinds whose entries are a row each; of others each number is one."""


class Listed(NamedTuple):
    """An entry, or a group of constants, and where it stands."""

    kind: str
    key: str
    entry: Any

    @property
    def numbers(self) -> Mapping[str, Estimate]:
        """Its numbers by name."""
        if isinstance(self.entry, BaseModel):
            prices: Mapping[str, Estimate] | None = getattr(self.entry, "prices", None)
            return estimates_of(self.entry) if prices is None else prices
        numbers: Mapping[str, Estimate] = self.entry
        return numbers

    @property
    def page(self) -> str:
        """Address of the page that shows it."""
        return f"/catalog/{self.kind}" + (f"#source-{self.key}" if self.kind == "sources" else f"/{self.key}")


def catalog_csv(
    entries: Iterable[Listed], kind: str, version: str, site: str, *, heading: bool = True
) -> Iterator[str]:
    """Entries of one kind, a row each with a column for each field; or, of constants and of all kinds, their numbers.

    An exact number is its own low and high. The last columns say what a row rests on, as in other files.

    Args:
        entries: what is written.
        kind: the kind they are of; blank for several.
        version: of the catalogue.
        site: address of this service.
        heading: whether a line of headings stands above.
    """
    after = ["catalog_version", "permalink"]
    if kind not in ONE_EACH:
        headings = ["kind", "key", "name", "low", "typical", "high", "unit", "status", "date", "source", "note", *after]
        numbers = ([*row, version, site + listed.page] for listed in entries for row in _numbers(listed))
        return csv_lines(headings if heading else (), numbers)
    units = {name: _unit(hint) for name, hint in get_type_hints(ONE_EACH[kind], include_extras=True).items()}
    units = {name: unit for name, unit in units.items() if name not in ("key", "claims", "model_config")}
    headings = [heading for name, unit in units.items() for heading in _headings(name, unit)]
    rows = ([listed.key, *_fields(listed, units), _sources(listed), version, site + listed.page] for listed in entries)
    return csv_lines(["key", *headings, "sources", *after] if heading else (), rows)


def _unit(hint: Any) -> str:
    """The unit of a field that holds a number of the catalogue; blank where it holds something else."""
    units = (mark.unit for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, EstimateIn))
    return next(units, "") or next(filter(None, map(_unit, get_args(hint))), "")


def _headings(name: str, unit: str) -> list[str]:
    """The columns of a field.

    >>> _headings("memory", "B"), _headings("vendor", "")
    (['memory low [B]', 'memory typical [B]', 'memory high [B]'], ['vendor'])
    """
    if not unit:
        return [name]
    return [f"{name} {end}" + (f" [{unit}]" if unit != "1" else "") for end in ("low", "typical", "high")]


def _fields(listed: Listed, units: Mapping[str, str]) -> Iterator[object]:
    for name, unit in units.items():
        value = getattr(listed.entry, name)
        if unit:
            yield from _ends(value) if value else (None, None, None)
        elif isinstance(value, Mapping):
            yield urlencode(value)
        else:
            yield "; ".join(map(str, value)) if isinstance(value, tuple) else value


def _ends(number: Estimate) -> tuple[float, float, float]:
    low, high = (number.typical if end is None else end for end in (number.low, number.high))
    return low, number.typical, high


def _numbers(listed: Listed) -> Iterator[list[object]]:
    for name, number in listed.numbers.items():
        about = [number.unit, number.status, number.date, number.source, number.note]
        yield [listed.kind, listed.key, name, *_ends(number), *about]


def _sources(listed: Listed) -> str:
    """The keys of the documents that an entry cites."""
    of_entry = [listed.entry.source] if hasattr(listed.entry, "source") else []
    said = [claim.source for claim in listed.entry.claims] if isinstance(listed.entry, Entry) else []
    return " ".join(dict.fromkeys([*of_entry, *(number.source for number in listed.numbers.values()), *said]))
