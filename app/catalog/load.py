"""The catalogue: every number the product did not compute, with its unit, range, source, date and status."""

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from app.catalog.entries import Gpu, Model, Nic, Optic, Platform, Preset, PriceBook, ScaleOut, ScaleUp, Source, Switch
from app.catalog.estimate import Estimate, parse_estimate

EDITION = "2026-11"
FOLDER = Path(__file__).parent

ENTRIES: dict[str, type[BaseModel]] = {
    "gpus": Gpu,
    "scale_up": ScaleUp,
    "scale_out": ScaleOut,
    "switches": Switch,
    "nics": Nic,
    "optics": Optic,
    "platforms": Platform,
    "models": Model,
    "presets": Preset,
}
KEY = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"
"""What the key of an entry looks like: it stands in addresses and in names of files."""
STACK = "stack-"
"""What the groups of training constants that describe a software stack begin with."""
CONSTANTS = ("collectives", "training", "operations")
KINDS = (*ENTRIES, "prices", *CONSTANTS, "sources")

Constants = Mapping[str, Mapping[str, Estimate]]


class CatalogError(Exception):
    """A catalogue file is wrong. The text names the file, the line, the entry and the reason."""


@dataclass(frozen=True, eq=False)
class Catalog:
    """All catalogue entries by kind and key. Constants are two levels: group, name.

    A catalogue equals itself alone, so it can be part of a cache's key.
    """

    version: str
    sources: Mapping[str, Source]
    gpus: Mapping[str, Gpu]
    scale_up: Mapping[str, ScaleUp]
    scale_out: Mapping[str, ScaleOut]
    switches: Mapping[str, Switch]
    nics: Mapping[str, Nic]
    optics: Mapping[str, Optic]
    platforms: Mapping[str, Platform]
    models: Mapping[str, Model]
    presets: Mapping[str, Preset]
    prices: Mapping[str, PriceBook]
    collectives: Constants
    training: Constants
    operations: Constants

    def kind(self, name: str) -> Mapping[str, Any]:
        """The entries of one kind, as listed in ``KINDS``."""
        entries: Mapping[str, Any] = getattr(self, name)
        return entries

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """The software stacks that training is calibrated for."""
        return tuple(group.removeprefix(STACK) for group in self.training if group.startswith(STACK))

    def typical_only(self) -> "Catalog":
        """The same catalogue where each estimate's only draw is its typical value, for searches and sweeps."""
        return self._typical

    @cached_property
    def _typical(self) -> "Catalog":
        parts: dict[str, Any] = {}
        for kind in ENTRIES:
            parts[kind] = {key: _typical_entry(entry) for key, entry in self.kind(kind).items()}
        parts["prices"] = {
            key: book.model_copy(update={"prices": {name: price.typical_only() for name, price in book.prices.items()}})
            for key, book in self.prices.items()
        }
        for kind in CONSTANTS:
            parts[kind] = {
                group: {name: value.typical_only() for name, value in table.items()}
                for group, table in self.kind(kind).items()
            }
        return replace(self, **parts)


def _typical_entry(entry: BaseModel) -> BaseModel:
    return entry.model_copy(update={name: value.typical_only() for name, value in estimates_of(entry).items()})


def load_catalog(folder: Path | None = None) -> Catalog:
    """Read the catalogue, with an operator's folder of overrides laid over it.

    An override file has the name of a catalogue file; its entries replace fields of the entries of the same key, or
    add new ones. Raises ``CatalogError`` on the first thing that is wrong.
    """
    if folder:
        strangers = sorted(path.name for path in folder.glob("*.toml") if path.stem not in KINDS)
        if strangers:
            raise CatalogError(f"{folder / strangers[0]}: no such catalogue file; the files are {', '.join(KINDS)}")
    texts = tuple(_read(FOLDER / f"{kind}.toml") for kind in KINDS)
    return _build(texts, tuple(_read(folder / f"{kind}.toml") for kind in KINDS) if folder else None, folder)


@lru_cache(maxsize=8)
def _build(base_texts: tuple[str, ...], override_texts: tuple[str, ...] | None, folder: Path | None) -> Catalog:
    """The catalogue of these files. Files read once more unchanged give the same catalogue, which caches know."""
    texts = dict(zip(KINDS, base_texts, strict=True))
    overrides = dict(zip(KINDS, override_texts or (), strict=bool(override_texts)))
    digest = hashlib.sha256()
    tables: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        tables[kind] = {}
        for base, text in ((FOLDER, texts[kind]), (folder, overrides.get(kind, ""))):
            digest.update(text.encode() + b"\0")
            if not text:
                continue
            try:
                tables[kind] = _merge(tables[kind], tomllib.loads(text))
            except tomllib.TOMLDecodeError as error:
                raise CatalogError(f"{base}/{kind}.toml: {error}") from None
    where = _Where(folder, texts, overrides)
    parts: dict[str, dict[str, Any]] = {"sources": _entries("sources", Source, tables["sources"], where, keyed=False)}
    for kind, model in ENTRIES.items():
        parts[kind] = _entries(kind, model, tables[kind], where)
    parts["prices"] = _price_books(tables["prices"], where)
    for kind in CONSTANTS:
        parts[kind] = _constants(kind, tables[kind], where)
    catalog = Catalog(version=f"{EDITION}+{digest.hexdigest()[:8]}", **parts)
    _check_references(catalog, where)
    return catalog


def estimates(catalog: Catalog) -> Iterator[Estimate]:
    """Every estimate in the catalogue."""
    for kind in ENTRIES:
        for entry in catalog.kind(kind).values():
            yield from estimates_of(entry).values()
    for book in catalog.prices.values():
        yield from book.prices.values()
    for kind in CONSTANTS:
        for group in catalog.kind(kind).values():
            yield from group.values()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay one table over another, entry by entry; an estimate is replaced whole."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merge(old, value) if both and "typical" not in value else value  # type: ignore[arg-type]
    return merged


@dataclass(frozen=True)
class _Where:
    """Finds the line of an entry, for messages."""

    folder: Path | None
    texts: Mapping[str, str]
    overrides: Mapping[str, str]

    def wrong(self, kind: str, entry: str, reason: str, field: str = "") -> CatalogError:
        places = [(self.folder, self.overrides.get(kind, "")), (FOLDER, self.texts[kind])]
        for base, text in places:
            lines = text.splitlines()
            heads = (f"[{entry}]", f'["{entry}"]', f"[{entry}.{field}]", f"[{entry}.")
            found = [n for n, line in enumerate(lines) if line.strip().startswith(heads)]
            if found:
                inside = [n for n in range(found[0], len(lines)) if field and lines[n].split("=")[0].strip() == field]
                line = (inside[0] if inside else found[0]) + 1
                return CatalogError(f"{base}/{kind}.toml:{line}: {entry}{'.' + field if field else ''}: {reason}")
        return CatalogError(f"{kind}.toml: {entry}: {reason}")


def _entries(
    kind: str, model: type[BaseModel], tables: dict[str, Any], where: _Where, *, keyed: bool = True
) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, table in tables.items():
        if not isinstance(table, dict):
            raise where.wrong(kind, key, "must be a table")
        context = {"key": f"{kind}.{key}", "source": table.get("source", ""), "status": table.get("status", "shipping")}
        try:
            entries[key] = model.model_validate({**table, "key": key} if keyed else table, context=context)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            reason = (
                "unknown field" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
            )
            raise where.wrong(kind, key, f"{field}: {reason}", str(first["loc"][0]) if first["loc"] else "") from None
    return entries


def _price_books(tables: dict[str, Any], where: _Where) -> dict[str, PriceBook]:
    books = {}
    for key, table in tables.items():
        prices = {}
        for name, value in table.get("prices", {}).items():
            try:
                prices[name] = parse_estimate(value, value.get("unit", "USD"), f"prices.{key}.{name}")
            except (ValueError, AttributeError) as error:
                raise where.wrong("prices", f"{key}.prices.{name}", str(error)) from None
        try:
            books[key] = PriceBook(**{**table, "key": key, "prices": prices})
        except ValidationError as error:
            raise where.wrong("prices", key, str(error.errors()[0]["loc"]) + " " + error.errors()[0]["msg"]) from None
    return books


def _constants(kind: str, tables: dict[str, Any], where: _Where) -> dict[str, dict[str, Estimate]]:
    groups: dict[str, dict[str, Estimate]] = {}
    for group, table in tables.items():
        groups[group] = {}
        for name, value in table.items():
            if not isinstance(value, dict) or "unit" not in value:
                raise where.wrong(kind, group, f"{name}: must be a table with unit, typical and source", name)
            try:
                groups[group][name] = parse_estimate(value, value["unit"], f"{kind}.{group}.{name}")
            except ValueError as error:
                raise where.wrong(kind, group, str(error), name) from None
    return groups


def _check_references(catalog: Catalog, where: _Where) -> None:
    """Every key that names another entry exists."""
    wanted: list[tuple[str, str, str, str]] = []
    for kind in ENTRIES:
        for key, entry in catalog.kind(kind).items():
            wanted.append((kind, key, "sources", entry.source))
            wanted += [(kind, key, "sources", claim.source) for claim in getattr(entry, "claims", ())]
            if isinstance(entry, Gpu):
                wanted += [(kind, key, "scale_up", entry.scale_up), (kind, key, "scale_up", entry.pcie)]
                wanted.append((kind, key, "platforms", entry.platform))
            elif isinstance(entry, ScaleOut):
                wanted += [(kind, key, "switches", switch) for switch in entry.switches]
                wanted += [(kind, key, "nics", entry.nic)] if entry.nic else []
            elif isinstance(entry, Optic):
                wanted += [(kind, key, "optics", entry.fibre)] if entry.fibre else []
            elif isinstance(entry, Platform):
                wanted += [(kind, key, "gpus", gpu) for gpu in entry.gpus]
    for estimate in estimates(catalog):
        kind, group, *_ = estimate.key.split(".")
        wanted.append((kind, group, "sources", estimate.source))
    for kind, key, other, target in wanted:
        if target not in catalog.kind(other):
            raise where.wrong(kind, key, f"no {other} entry {target!r}")


def estimates_of(entry: BaseModel) -> dict[str, Estimate]:
    """The estimates of one entry by field."""
    return {name: value for name, value in entry if isinstance(value, Estimate)}
