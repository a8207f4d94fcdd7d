"""Every formula that reaches an answer, and the bounds that answers are tested against: each with its words, symbols
and source, which come from the docstring of the function that computes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import getdoc
from pkgutil import iter_modules
from types import ModuleType
from typing import get_type_hints

from app.report.equations import FORMULAS, GROUPS, Formula, Symbol

_UNIT = re.compile(r"\s*\[([^\]]+)\]\.?")
_PLUMBING = re.compile(
    r"\b(?:(?:Every|All) functions?|Everything is elementwise|Nothing here|Constants arrive)\b[^.]*\.\s*"
)
"""Sentences of a module that are about its code."""
_ROLE = re.compile(r":\w+:`~?([^`]+)`")


INTRODUCED = {
    "ideal": "collectives.library",
    "fabric": "fabric",
    "transformer": "transformer",
    "training": "training.step",
    "tail": "tail",
    "serving": "serving.batching",
    "costs": "costs",
}
"""The module whose docstring introduces a group."""


@cache
def _modules(subject: str) -> tuple[ModuleType, ...]:
    """The modules in which the formulas of a subject stand: a module of its name, or those of a folder."""
    subject_module = import_module(f"app.formulas.{subject}")
    inner = iter_modules(getattr(subject_module, "__path__", ()), f"{subject_module.__name__}.")
    return (subject_module, *(import_module(module.name) for module in inner))


def _function(subject: str, name: str) -> object:
    """The function that computes a formula, wherever in its subject's folder it is defined."""
    for module in _modules(subject):
        function = getattr(module, name, None)
        if getattr(function, "__module__", "") == module.__name__:
            return function
    raise LookupError(f"No module of app.formulas.{subject} defines {name}.")


def _plain(text: str) -> str:
    """A paragraph of a docstring as running text."""
    words = " ".join(_ROLE.sub(r"\1", text).replace("``", "").replace("`", "").replace("*", "").split())
    return re.sub(r"\bnan\b", "no value", words)


def _documented(formula: Formula) -> Formula:
    """Fill in a formula's words from the docstring of the function that computes it."""
    module, _, name = formula.key.rpartition(".")
    function = _function(module, name)
    blocks = re.split(r"\n\s*\n", getdoc(function) or "")
    summary, text, source = _plain(blocks[0]), list[str](), ""
    symbols: list[Symbol] = []
    for block, following in zip(blocks[1:], [*blocks[2:], ""], strict=True):
        first = block.lstrip()
        introduces_example = block.endswith(":") and following.startswith(">>>")
        if first.startswith((">>>", "Returns:", "Raises:")) or introduces_example:
            continue
        if first.startswith(("Args:", "Attributes:")):
            symbols += _arguments(block)
            symbols = _fields(function) if len(symbols) == 1 and _fields(function) else symbols
        elif first.startswith(("Source:", "Sources:")):
            source = _plain(first.partition(":")[2])
        elif not first.startswith("Args and source as"):
            text.append(_plain(block.partition(">>>")[0]))
    unit = _UNIT.search(summary)
    if unit:
        symbols.append(Symbol("result", "what the formula gives", unit[1]))
    text.insert(0, _UNIT.sub("", summary).rstrip(".") + ".")
    return Formula(
        formula.key,
        formula.group,
        formula.tex,
        formula.title or _title(name),
        tuple(text),
        tuple(symbols),
        source or SUBJECT_SOURCES[module],
    )


def _title(name: str) -> str:
    """A function's name as a title.

    >>> _title("ring_all_reduce"), _title("per_gpu_time")
    ('Ring all-reduce', 'Per GPU time')
    """
    words = name.replace("_", " ")
    for plain, proper in _PROPER.items():
        words = re.sub(rf"\b{plain}\b", proper, words)
    return words[:1].upper() + words[1:]


_PROPER = {
    "all reduce": "all-reduce",
    "all gather": "all-gather",
    "reduce scatter": "reduce-scatter",
    "all to all": "all-to-all",
    "halving doubling": "halving-doubling",
    "in network": "in-network",
    "scale up": "scale-up",
    "micro batches": "micro-batches",
    "ffn": "feed-forward",
    "gpu": "GPU",
    "flops": "FLOPs",
}

SUBJECT_SOURCES = {
    "collectives": "Chan et al., Collective communication: theory, practice, and experience, 2007.",
    "fabric": "Leiserson, Fat-trees, IEEE Trans. Computers C-34(10), 1985; NVIDIA DGX SuperPOD designs.",
    "transformer": "Counted from the architecture: Vaswani et al., Attention is all you need, 2017.",
    "training": "Narayanan et al., Efficient large-scale language model training on GPU clusters, SC21.",
    "serving": "Pope et al., Efficiently scaling transformer inference, 2022.",
    "tail": "Dean, Barroso, The tail at scale, Commun. ACM 56(2), 2013.",
    "costs": "Barroso, Hölzle, Ranganathan, The datacenter as a computer, 3rd edition, 2018, chapter 6.",
}
"""The source of a subject as a whole, for its functions that name none."""


def _arguments(block: str) -> list[Symbol]:
    """The lines ``name: meaning [unit].`` of a docstring."""
    symbols: list[Symbol] = []
    for line in re.split(r"\n(?=\s{4}\S)", block.partition("\n")[2]):
        name, colon, meaning = line.strip().partition(":")
        if not colon:
            continue
        text = _plain(meaning)
        units = _UNIT.findall(text)
        symbols.append(Symbol(name.replace("_", " "), _UNIT.sub("", text).rstrip("."), units[-1] if units else ""))
    return symbols


def _fields(function: object) -> list[Symbol]:
    """The fields of the first record that a function takes, as symbols; none where it takes none."""
    for kind in get_type_hints(function).values():
        blocks = re.split(r"\n\s*\n", getdoc(kind) or "") if isinstance(kind, type) else []
        fields = [symbol for block in blocks if block.startswith("Attributes:") for symbol in _arguments(block)]
        if fields:
            return fields
    return []


@cache
def formulas() -> Mapping[str, Formula]:
    """Every formula by key, in the order of the page."""
    listed = [formula if formula.text else _documented(formula) for formula in FORMULAS]
    order = list(GROUPS)
    return {formula.key: formula for formula in sorted(listed, key=lambda formula: order.index(formula.group))}


def address(key: str) -> str:
    """Where the formula of this key stands.

    >>> address("collectives.ring_all_reduce")
    '/method/ideal#collectives.ring_all_reduce'
    """
    return f"/method/{formulas()[key].group}#{key}"


def grouped() -> Mapping[str, tuple[Formula, ...]]:
    """The formulas by group."""
    return {group: tuple(entry for entry in formulas().values() if entry.group == group) for group in GROUPS}


@dataclass(frozen=True)
class Introduction:
    """What a group of formulas has in common: paragraphs, and the meaning of its words and symbols."""

    title: str
    text: tuple[str, ...]
    words: tuple[str, ...]


_BOUNDS = (
    "No answer rests on these. They say what no all-reduce can beat, what the other collectives take by the book, and "
    "how many hosts and switches a full tree has; the tests of Railyard hold its answers against them."
)


@cache
def introductions() -> Mapping[str, Introduction]:
    """The introduction of each group, from the docstring of its module."""
    by_group: dict[str, Introduction] = {}
    for group, title in GROUPS.items():
        doc = getdoc(import_module(f"app.formulas.{INTRODUCED[group]}")) or "" if group in INTRODUCED else ""
        blocks = re.split(r"\n\s*\n", doc)[1:]
        text = [_BOUNDS] if group == "bounds" else list[str]()
        words: list[str] = []
        for block in blocks:
            if block.startswith("- "):
                words += [_plain(line).removeprefix("- ") for line in re.split(r"\n(?=- )", block)]
            elif block.startswith("    "):
                words += re.split(r"\s{2,}", block.strip())
            else:
                text.append(_PLUMBING.sub("", _plain(block)))
        by_group[group] = Introduction(title, tuple(filter(None, text)), tuple(words))
    return by_group


def find(key: str) -> Formula | None:
    """The formula of an explanation: ``subject.function``, or the function's name alone where that is clear.

    >>> find("ring-all-reduce").key
    'collectives.ring_all_reduce'
    """
    if key in formulas():
        return formulas()[key]
    name = key.replace("-", "_").rpartition(".")[2]
    matching = [entry for entry in formulas().values() if entry.key.rpartition(".")[2] == name]
    return matching[0] if len(matching) == 1 else None
