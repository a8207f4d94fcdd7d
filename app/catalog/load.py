"""The catalogue: every number the product did not compute, with its unit, range, source, date and status."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from app.catalog.entries import (
    Engine,
    Entry,
    Gpu,
    Model,
    Nic,
    Optic,
    Platform,
    Preset,
    PriceBook,
    Ref,
    ScaleOut,
    ScaleUp,
    Source,
    Switch,
    marked,
)
from app.catalog.estimate import Estimate, parse_estimate
from app.catalog.toml_files import CatalogError, Files

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
    "engines": Engine,
    "presets": Preset,
}
KEY = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$"
"""What the key of an entry looks like: it stands in addresses and in names of files."""
STACK = "stack-"
"""What the groups of training constants that describe a software stack begin with."""
CONSTANTS = ("collectives", "training", "serving", "operations")
KINDS = (*ENTRIES, "prices", *CONSTANTS, "sources")

Constants = Mapping[str, Mapping[str, Estimate]]


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
    engines: Mapping[str, Engine]
    presets: Mapping[str, Preset]
    prices: Mapping[str, PriceBook]
    collectives: Constants
    training: Constants
    serving: Constants
    operations: Constants
    files: Files = field(repr=False)
    ranges: bool = True
    """Whether estimates have draws beside their typical values."""

    def kind(self, name: str) -> Mapping[str, Any]:
        """The entries of one kind, as listed in ``KINDS``."""
        entries: Mapping[str, Any] = getattr(self, name)
        return entries

    @cached_property
    def regions(self) -> tuple[str, ...]:
        """The regions whose electricity is known."""
        return tuple(self.operations["carbon"])

    @cached_property
    def stacks(self) -> tuple[str, ...]:
        """The software stacks that training is calibrated for."""
        return tuple(group.removeprefix(STACK) for group in self.training if group.startswith(STACK))

    def typical_only(self) -> "Catalog":
        """The same catalogue where each estimate's only draw is its typical value, for searches and sweeps."""
        return self._typical if self.ranges else self

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
        return replace(self, **parts, ranges=False)


def _typical_entry(entry: BaseModel) -> BaseModel:
    return entry.model_copy(update={name: value.typical_only() for name, value in estimates_of(entry).items()})


def load_catalog(folder: Path | None = None) -> Catalog:
    """Read the catalogue, with an operator's folder of overrides laid over it.

    An override file has the name of a catalogue file; its entries replace fields of the entries of the same key, or
    add new ones. Raises ``CatalogError`` on the first thing that is wrong: file, line, entry and reason.
    """
    return _build(Files.read(FOLDER, folder, KINDS))


@lru_cache(maxsize=8)
def _build(files: Files) -> Catalog:
    """The catalogue of these files. Files read once more unchanged give the same catalogue, which caches know."""
    tables = {kind: _merge(files.tables(kind), files.tables(kind, overriding=True)) for kind in KINDS}
    parts: dict[str, Any] = {"sources": _entries("sources", Source, tables["sources"], files, keyed=False)}
    for kind, model in ENTRIES.items():
        parts[kind] = _entries(kind, model, tables[kind], files)
    parts["platforms"] = _with_their_gpus(parts["platforms"], parts["gpus"])
    parts["prices"] = _price_books(tables["prices"], files)
    for kind in CONSTANTS:
        parts[kind] = _constants(kind, tables[kind], files)
    digest = hashlib.sha256(b"".join(text.encode() + b"\0" for text in files.texts()))
    catalog = Catalog(version=f"{EDITION}+{digest.hexdigest()[:8]}", files=files, **parts)
    _check_references(catalog)
    _check_prices(catalog)
    _check_constants(catalog)
    return catalog


def architecture_group(constants: Constants, gpu: Gpu, name: str) -> str:
    """The group that holds a GPU's constant: its own, its architecture's, or that of all others."""
    groups = (f"gpu-{gpu.key}", f"architecture-{gpu.architecture}", "architecture-other")
    return next(group for group in groups if name in constants.get(group, {}))


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


def estimates_of(entry: BaseModel) -> dict[str, Estimate]:
    """The estimates of one entry by field."""
    return {name: value for name, value in entry if isinstance(value, Estimate)}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one table over another, entry by entry; an estimate is replaced whole, but for what a price contains."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if not isinstance(old, dict) or not isinstance(value, dict):
            merged[key] = value
        elif "typical" not in value:
            merged[key] = _merge(old, value)
        else:
            kept = () if any(word in value for word in CONTENTS) else CONTENTS
            merged[key] = {word: old[word] for word in kept if word in old} | value
    return merged


def _entries(
    kind: str, model: type[BaseModel], tables: Mapping[str, Any], files: Files, *, keyed: bool = True
) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, table in tables.items():
        if not re.fullmatch(KEY, key):
            raise files.wrong(kind, "a key is up to 80 letters, digits, dots, hyphens and underscores", key)
        if not isinstance(table, dict):
            raise files.wrong(kind, "must be a table", key)
        context = {"key": f"{kind}.{key}", "source": table.get("source", ""), "status": table.get("status", "shipping")}
        try:
            entries[key] = model.model_validate({**table, "key": key} if keyed else table, context=context)
        except ValidationError as error:
            raise _refused(kind, error, files, key) from None
    return entries


def _refused(kind: str, error: ValidationError, files: Files, *place: str) -> CatalogError:
    """The first thing that is wrong with an entry."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    reasons = {"extra_forbidden": "unknown field", "missing": "is missing"}
    reason = reasons.get(first["type"], first["msg"].removeprefix("Value error, "))
    return files.wrong(kind, f"{field}: {reason}" if field else reason, *place, *map(str, first["loc"]))


def _with_their_gpus(platforms: Mapping[str, Platform], gpus: Mapping[str, Gpu]) -> dict[str, Platform]:
    """The platforms, each with the GPUs that name it as theirs among those that it takes."""
    taken = {key: [*platform.gpus] for key, platform in platforms.items()}
    for key, gpu in gpus.items():
        if key not in taken.get(gpu.platform, [key]):
            taken[gpu.platform].append(key)
    return {key: platform.model_copy(update={"gpus": tuple(taken[key])}) for key, platform in platforms.items()}


def _price_books(tables: Mapping[str, Any], files: Files) -> dict[str, PriceBook]:
    books = {}
    for key, table in tables.items():
        if not isinstance(table, dict) or not isinstance(table.get("prices", {}), dict):
            raise files.wrong("prices", "must be a table", key)
        prices = {}
        contents: dict[str, dict[str, Any]] = {word: {} for word in CONTENTS}
        for name, value in table.get("prices", {}).items():
            plain = dict(value) if isinstance(value, dict) else value
            for word in CONTENTS:
                if isinstance(plain, dict) and word in plain:
                    contents[word][name] = plain.pop(word)
            try:
                prices[name] = parse_estimate(plain, _price_unit(name), f"prices.{key}.{name}")
            except ValueError as error:
                raise files.wrong("prices", f"{name}: {error}", key, "prices", name) from None
        try:
            books[key] = PriceBook(**{**table, **contents, "key": key, "prices": prices})
        except ValidationError as error:
            raise _refused("prices", error, files, key) from None
    return books


def _constants(kind: str, tables: Mapping[str, Any], files: Files) -> dict[str, dict[str, Estimate]]:
    groups: dict[str, dict[str, Estimate]] = {}
    for group, table in tables.items():
        if not isinstance(table, dict):
            raise files.wrong(kind, "must be a table", group)
        groups[group] = {}
        for name, value in table.items():
            if not isinstance(value, dict) or not isinstance(value.get("unit"), str):
                raise files.wrong(kind, f"{name}: must be a table with unit, typical and source", group, name)
            try:
                groups[group][name] = parse_estimate(value, value["unit"], f"{kind}.{group}.{name}")
            except ValueError as error:
                raise files.wrong(kind, f"{name}: {error}", group, name) from None
    return groups


# What a catalogue must hold to ----------------------------------------------------------------------------------------


def _check_references(catalog: Catalog) -> None:
    """Every key that names another entry exists."""
    for kind in ENTRIES:
        for key, entry in catalog.kind(kind).items():
            _check_entry(catalog, kind, key, entry)
    for kind in ("prices", *CONSTANTS):
        for group, table in catalog.kind(kind).items():
            inner = ("prices",) if kind == "prices" else ()
            for name, estimate in (table.prices if kind == "prices" else table).items():
                if estimate.source not in catalog.sources:
                    raise catalog.files.wrong(kind, _missing(catalog, "sources", estimate.source), group, *inner, name)


def _check_entry(catalog: Catalog, kind: str, key: str, entry: BaseModel) -> None:
    for field_name, target_kind, target in _named(entry):
        if target not in _names(catalog, target_kind):
            raise catalog.files.wrong(kind, f"{field_name}: {_missing(catalog, target_kind, target)}", key, field_name)
    for claim in entry.claims if isinstance(entry, Entry) else ():
        if claim.field not in type(entry).model_fields:
            raise catalog.files.wrong(kind, f"claims: there is no field {claim.field!r}", key, "claims")
        if claim.source not in catalog.sources:
            raise catalog.files.wrong(kind, f"claims: {_missing(catalog, 'sources', claim.source)}", key, "claims")


def _named(entry: BaseModel) -> Iterator[tuple[str, str, str]]:
    """What an entry names: the field, the kind of entry and its key."""
    for name, ref in marked(type(entry), Ref).items():
        value = getattr(entry, name)
        for key in value if isinstance(value, tuple) else (value,):
            if key is not None:
                yield name, ref.kind, key
    for name, estimate in estimates_of(entry).items():
        yield name, "sources", estimate.source


def _names(catalog: Catalog, kind: str) -> set[str]:
    """What a reference to this kind may name."""
    if kind == "prices":
        return {name for book in catalog.prices.values() for name in book.prices}
    return set(catalog.kind(kind))


def _missing(catalog: Catalog, kind: str, key: str) -> str:
    return f"no {kind} entry {key!r}" + _nearest(key, _names(catalog, kind))


def _nearest(key: str, keys: Iterable[str]) -> str:
    near = get_close_matches(key, sorted(keys), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


MARKET = "market"
"""The edition of prices that names parts; others name ports, and what they lack comes from this one."""
PORT_PRICES = (
    "nic-infiniband", "nic-ethernet", "switch-port-infiniband", "switch-port-ethernet", "transceiver", "cable",
)  # fmt: skip
CONTENTS = ("contains", "may_contain")
"""What a node's price may say of the parts that it pays for."""
GPU_HOUR = "gpu-hour"
LEASE, RESERVED = "lease", "reserved"
"""What the names of prices of leased and of reserved GPUs begin with."""
SCALE_UP_OPTICS = "nvlink-optics"
"""The price of an NVL72's links if they were optical, which larger domains need."""
ELECTRICITY = "electricity"
STORAGE = "storage"
"""The price of a usable petabyte."""


def _price_unit(name: str) -> str:
    by_time = name.startswith((GPU_HOUR, LEASE, RESERVED))
    return "USD/s" if by_time else "USD/J" if name.startswith(ELECTRICITY) else "USD"


def gpu_hours(gpu: str) -> tuple[str, ...]:
    """The names of prices that say what a GPU's hour costs, its own before its family's.

    >>> gpu_hours("h100-sxm")
    ('gpu-hour-h100-sxm', 'gpu-hour-h100')
    """
    parts = gpu.split("-")
    return tuple("-".join((GPU_HOUR, *parts[:count])) for count in range(len(parts), 0, -1))


def _check_prices(catalog: Catalog) -> None:
    """Every price is of something."""
    common = {*PORT_PRICES, ELECTRICITY, STORAGE, *(f"{ELECTRICITY}-{region}" for region in catalog.regions)}
    for platform in catalog.platforms.values():
        common |= {name for name in (platform.price, platform.scale_up_price) if name}
    for link in catalog.scale_up.values():
        common |= {name for name in (link.chip_price, link.optics_price) if name}
    rents = {name.removeprefix(GPU_HOUR) for gpu in catalog.gpus for name in gpu_hours(gpu)}
    kinds = (GPU_HOUR, LEASE, f"{RESERVED}-1-year", f"{RESERVED}-3-years")
    common |= {kind + name for kind in kinds for name in rents} | {SCALE_UP_OPTICS}
    parts = {*catalog.switches, *catalog.nics, *catalog.optics}
    for edition, book in catalog.prices.items():
        readable = common | parts if edition == MARKET else common
        for name in book.prices:
            if name not in readable:
                advice = f"; parts have prices in the edition {MARKET}" if name in parts else _nearest(name, readable)
                raise catalog.files.wrong("prices", f"nothing has the price {name!r}{advice}", edition, "prices", name)


def _check_constants(catalog: Catalog) -> None:
    """Every constant is one that a formula reads, in its unit: those shipped, and those of GPUs and stacks added."""
    files = catalog.files
    for kind in CONSTANTS:
        shipped = files.tables(kind)
        for group, table in catalog.kind(kind).items():
            units = {name: str(value["unit"]) for name, value in shipped.get(group, {}).items()}
            units |= _units_of_added(catalog, kind, group)
            for name, estimate in table.items():
                if name not in units:
                    advice = _nearest(name, units) if units else _nearest(group, shipped)
                    raise files.wrong(kind, f"nothing reads the constant {group}.{name}{advice}", group, name)
                if estimate.unit != units[name]:
                    text = f"{name}: unit {estimate.unit!r} where {units[name]!r} is wanted"
                    raise files.wrong(kind, text, group, name, "unit")
            if kind == "training" and group.startswith(STACK) and units.keys() - table.keys():
                raise files.wrong(kind, f"a stack lacks {', '.join(sorted(units.keys() - table.keys()))}", group)


def _units_of_added(catalog: Catalog, kind: str, group: str) -> dict[str, str]:
    """The constants that an operator may add to a group, with their units."""
    if (kind, group) == ("operations", "lengths"):
        return dict.fromkeys(catalog.operations[group], "m")
    if (kind, group) == ("operations", "node_cage_links"):
        return dict.fromkeys(catalog.platforms, "1")
    if kind != "training":
        return {}
    kernels = {f"gpu-{key}" for key in catalog.gpus}
    kernels |= {f"architecture-{gpu.architecture}" for gpu in catalog.gpus.values()}
    like = f"{STACK}{OTHER}" if group.startswith(STACK) else f"architecture-{OTHER}" if group in kernels else ""
    return {name: estimate.unit for name, estimate in catalog.training[like].items()} if like else {}


OTHER = "other"
"""The stack and the architecture that stand in where no other is known: they have every constant."""
