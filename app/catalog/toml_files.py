"""The files that a catalogue is read from, and where in them something is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli


class CatalogError(Exception):
    """A catalogue file is wrong. The text names the file, the line, the entry and the reason."""


@dataclass(frozen=True)
class Files:
    """The texts of the catalogue's files, and of the operator's own that are laid over them."""

    folder: Path
    overrides: Path | None
    kinds: tuple[str, ...]
    base: tuple[str, ...]
    overriding: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, overrides: Path | None, kinds: Sequence[str]) -> "Files":
        """Read them. Each that is there must be a file of text, and have the name of one of the catalogue's."""
        if overrides:
            _check_names(overrides, kinds)
        override_texts = tuple(_text(overrides / f"{kind}.toml") for kind in kinds) if overrides else ()
        return cls(
            folder, overrides, tuple(kinds), tuple(_text(folder / f"{kind}.toml") for kind in kinds), override_texts
        )

    def without_texts(self) -> "Files":
        """The same for what was checked already, where nothing more will be found wrong."""
        return replace(self, base=(), overriding=())

    def texts(self) -> Iterator[str]:
        """All texts, each followed by what is laid over it."""
        for number, text in enumerate(self.base):
            yield text
            yield self.overriding[number] if self.overriding else ""

    def tables(self, kind: str, *, overriding: bool = False) -> Mapping[str, Any]:
        """The tables of one file, or of the operator's own."""
        folder = self.overrides if overriding else self.folder
        text = self._text_of(kind, overriding)
        try:
            return _parsed(text)
        except tomli.TOMLDecodeError as error:
            raise CatalogError(f"{folder}/{kind}.toml: {error}") from None

    def wrong(self, kind: str, reason: str, *place: str) -> CatalogError:
        """What is wrong with an entry, or with a field of it: with the file, and the line where there is one."""
        overriding = bool(place) and place[0] in self.tables(kind, overriding=True)
        file = f"{self.overrides if overriding else self.folder}/{kind}.toml"
        line = _line(self._text_of(kind, overriding), place)
        at = f"{file}:{line}" if line else file
        return CatalogError(f"{at}: {place[0]}: {reason}" if place else f"{at}: {reason}")

    def _text_of(self, kind: str, overriding: bool) -> str:
        texts = self.overriding if overriding else self.base
        return texts[self.kinds.index(kind)] if texts else ""


@lru_cache(maxsize=64)
def _parsed(text: str) -> Mapping[str, Any]:
    """A file is asked for its tables by the merge and by each check."""
    return tomli.loads(text)


def _check_names(folder: Path, kinds: Sequence[str]) -> None:
    if not folder.is_dir():
        raise CatalogError(f"{folder} is not a folder")
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() == ".toml" and path.name not in {f"{kind}.toml" for kind in kinds}:
            raise CatalogError(f"{path}: no such catalogue file; the files are {', '.join(kinds)}, each .toml")


def _text(path: Path) -> str:
    """The text of a file; none where there is no file, but a link must lead to one."""
    if not path.exists() and not path.is_symlink():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise CatalogError(f"{path}: is not UTF-8 text: byte {error.start:,} is {byte:#04x}") from None
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from None


def _line(text: str, place: Sequence[str]) -> int:
    """The line that leads furthest to a place in a file; 0 where none does."""
    furthest, deepest = 0, 0
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, _ = line.partition("=")
        if line.lstrip().startswith("["):
            path = table = _keys(line)
        elif equals:
            path = (*table, *_keys(f"{name}= 0"))
        else:
            continue
        common = min(len(path), len(place))
        if common > deepest and path[:common] == tuple(place[:common]):
            furthest, deepest = number, common
    return furthest


def _keys(line: str) -> tuple[str, ...]:
    """The keys that a line of TOML names, one inside the other."""
    try:
        value: Any = tomli.loads(line)
    except tomli.TOMLDecodeError:
        return ()
    keys = []
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        keys.append(key)
    return tuple(keys)
