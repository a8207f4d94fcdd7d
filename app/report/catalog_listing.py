"""The catalogue as pages show it: every constant as text with its range, status, date and source."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from app.catalog.entries import Source
from app.catalog.estimate import Estimate
from app.catalog.load import Catalog, estimates_of
from app.catalog.names import words
from app.units import show, show_range

TITLES = {
    "gpus": "GPUs",
    "scale_up": "Scale-up links",
    "scale_out": "Networks",
    "switches": "Switches",
    "nics": "Network adapters",
    "optics": "Modules and cables",
    "platforms": "Servers and racks",
    "models": "Models",
    "engines": "Serving engines",
    "presets": "Published clusters",
    "prices": "Prices",
    "collectives": "Constants of collectives",
    "training": "Constants of the training step",
    "serving": "Constants of serving",
    "operations": "Constants of operation and building",
    "sources": "Sources",
}
CONSTANTS = ("prices", "collectives", "training", "serving", "operations")
PORTS = ("scale_out", "switches", "nics", "optics", "platforms")
"""Kinds whose rates the market quotes in bits."""
REFERENCES = {
    "scale_up": "scale_up",
    "pcie": "scale_up",
    "platform": "platforms",
    "gpus": "gpus",
    "switches": "switches",
    "nic": "nics",
    "predecessor": "scale_out",
}
"""Fields that name entries of another kind."""
FEW = 3
"""Entries that stand for their kind."""
HIDDEN = frozenset({"key", "name", "source", "status", "year", "note", "prices", "date", "claims"})


@dataclass(frozen=True)
class Constant:
    """One number of the catalogue, as text."""

    field: str
    name: str
    typical: str
    range: str
    status: str
    date: str
    source: str
    note: str

    @property
    def whole(self) -> str:
        """Typical value and range together."""
        return f"{self.typical} ({self.range})" if self.range else self.typical


@dataclass(frozen=True)
class Property:
    """One property of an entry that is not a measured number; ``links`` are kind and key of entries it names."""

    name: str
    text: str
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Claim:
    """What another document says of a field, where documents disagree."""

    field: str
    says: str
    source: str


@dataclass(frozen=True)
class EntryView:
    """One entry of the catalogue."""

    kind: str
    key: str
    name: str
    status: str
    year: str
    source: str
    note: str
    constants: Mapping[str, Constant]
    facts: tuple[Property, ...]
    said: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of entries; ``columns`` are the constants that they share."""

    key: str
    title: str
    entries: tuple[EntryView, ...]
    columns: tuple[tuple[str, str], ...]

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self.entries)

    @property
    def summary(self) -> str:
        """How many entries there are and the first few by name, as "12: A, B, C and others"."""
        names = [entry.name for entry in self.entries[:FEW]]
        between = "; " if any("," in name for name in names) else ", "
        return f"{self.count}: {between.join(names)}{' and others' if self.count > FEW else ''}"


def constant(name: str, estimate: Estimate, catalog: Catalog, *, ports: bool = False) -> Constant:
    """One estimate as text; rates of ports in bits."""
    unit = "b/s" if ports and estimate.unit == "B/s" else estimate.unit
    document = catalog.sources.get(estimate.source)
    low = estimate.typical if estimate.low is None else estimate.low
    high = estimate.typical if estimate.high is None else estimate.high
    whole = show_range(low, estimate.typical, high, unit)
    typical, _, ends = whole.partition(" (")
    return Constant(
        field=name,
        name=words(name),
        typical=_digits(typical, estimate, unit),
        range=ends.removesuffix(")"),
        status=estimate.status,
        date=estimate.date or (document.published if document else ""),
        source=estimate.source,
        note=estimate.note,
    )


def _digits(typical: str, estimate: Estimate, unit: str) -> str:
    """A number without a range is given as exactly as the catalogue has it, up to six digits."""
    return typical if estimate.low is not None or estimate.high is not None else show(estimate.typical, unit, 6)


def listed(kind: str, key: str, catalog: Catalog) -> EntryView:
    """One entry: its constants and facts. A group of constants is an entry too."""
    entry: Any = catalog.kind(kind)[key]
    if isinstance(entry, BaseModel):
        estimates = getattr(entry, "prices", None) or estimates_of(entry)
        ports = kind in PORTS
        return EntryView(
            kind=kind,
            key=key,
            name=getattr(entry, "name", key),
            status=getattr(entry, "status", ""),
            year=str(getattr(entry, "year", "") or getattr(entry, "date", "") or ""),
            source=getattr(entry, "source", ""),
            note=getattr(entry, "note", "") or getattr(entry, "description", ""),
            constants={name: constant(name, value, catalog, ports=ports) for name, value in estimates.items()},
            facts=tuple(_facts(entry, catalog)),
            said=tuple(Claim(words(claim.field), claim.says, claim.source) for claim in getattr(entry, "claims", ())),
        )
    constants = {name: constant(name, value, catalog) for name, value in entry.items()}
    return EntryView(kind, key, words(key), "", "", "", "", constants, ())


def _facts(entry: BaseModel, catalog: Catalog) -> Iterator[Property]:
    for name, value in entry:
        if name in HIDDEN or isinstance(value, Estimate) or value is None or value in ("", ()):
            continue
        if name == "scenario":
            yield from (Property(words(field), _plain(text)) for field, text in value.items())
        elif name in REFERENCES:
            kind = REFERENCES[name]
            keys = [value] if isinstance(value, str) else list(value)
            yield Property(words(name), "", tuple((kind, key) for key in keys if key in catalog.kind(kind)))
        else:
            yield Property(words(name), _plain(value))


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_plain(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def kind(name: str, catalog: Catalog) -> Kind:
    """All entries of a kind, the newest first, with the constants they share as columns."""
    entries = sorted(
        (listed(name, key, catalog) for key in catalog.kind(name)), key=lambda entry: entry.year, reverse=True
    )
    columns: dict[str, str] = {}
    if name not in CONSTANTS:
        for entry in entries:
            columns |= {field: value.name for field, value in entry.constants.items()}
    return Kind(name, TITLES[name], tuple(entries), tuple(columns.items()))


def matching(kinds: Iterable[Kind], sought: str) -> tuple[Kind, ...]:
    """The entries that hold every word that is sought, in their name, key, kind, status, year or note."""
    wanted = sought.casefold().split()

    def holds(listed_kind: Kind, entry: EntryView) -> bool:
        said = (listed_kind.title, entry.name, entry.key, entry.status, entry.year, entry.note)
        constants = (constant.name for constant in entry.constants.values()) if listed_kind.key in CONSTANTS else ()
        return all(word in " ".join((*said, *constants)).casefold() for word in wanted)

    kept = (
        replace(listed_kind, entries=tuple(entry for entry in listed_kind.entries if holds(listed_kind, entry)))
        for listed_kind in kinds
    )
    return tuple(listed_kind for listed_kind in kept if listed_kind.entries)


def matching_sources(catalog: Catalog, sought: str) -> dict[str, Source]:
    """The documents that hold every word that is sought, in their title, publisher, key or note."""
    wanted = sought.casefold().split()
    return {
        key: document
        for key, document in catalog.sources.items()
        if all(word in f"{key} {document.title} {document.publisher} {document.note}".casefold() for word in wanted)
    }


def cited(kinds: Iterable[Kind]) -> Mapping[str, int]:
    """How many numbers and entries rest on each source."""
    used: Counter[str] = Counter()
    for listed_kind in kinds:
        for entry in listed_kind.entries:
            used.update(value.source for value in entry.constants.values())
            used.update([entry.source] if entry.source and not entry.constants else [])
            used.update(said.source for said in entry.said)
    return used
