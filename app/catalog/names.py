"""What a field, a number and an entry of the catalogue are called."""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from app.catalog.estimate import Estimate
from app.catalog.load import Catalog

LONGEST_NAME = 80
"""Letters beyond which a text is looked for among no names: it would take time, and it is none of them."""
BESIDE_NAMES = re.compile(
    r"^[\w.-]+/|\b(?:tensor core|accelerator|superchip|gpus?|oam|tesla|instruct|chat|it|base|hf|v\d\.\d"
    r"|(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|2[2-9](?:0[1-9]|1[0-2])|fp8|w8a8|nvfp4|mxfp4|fp4|int[48]|w4a16|awq|gptq|bf16|fp16)\b",
    re.IGNORECASE,
)
"""What is written beside the name of a card or a model and tells none from another: makers, months, number formats."""


SPOKEN: Mapping[str, str] = {
    "site.infrastructure": "Building, power and cooling for each watt",
    "site.support": "Support and repair a year",
    "site.pue": "PUE of the site",
    "site.typical_share": "Average power of a busy node over its maximum",
    "storage.write_per_gpu": "Rate at which checkpoints are written",
    "storage.pause": "Pause for a checkpoint",
    "products.efficiency": "Efficiency of matrix products",
    "failures.rate": "How often a GPU fails",
    "failures.restart": "Time of a restart",
    "elementwise.bandwidth": "Memory bandwidth that elementwise kernels reach",
    "communication.bucket": "Size of a bucket of gradients",
    "communication.exposed_pipeline": "Traffic between stages that stays visible",
    "communication.exposed_data": "Traffic of gradients that stays visible",
    "communication.exposed_tensor": "Tensor-parallel traffic that stays visible",
    "communication.scale_out": "Pace of the network while the step computes",
    "experts.grouped": "Efficiency of experts' grouped products",
    "experts.scale_up": "Exchange among experts inside a scale-up domain",
    "step.straggler": "Spread of the nodes' step times",
    "tcp.rate_per_gpu": "What a host copies over TCP for one GPU",
    "pcie.usable_host": "Usable rate of PCIe through the host",
    "infiniband.efficiency": "Usable share of an InfiniBand port's rate",
    "roce.efficiency": "Usable share of a RoCE port's rate",
}
"""What people call numbers of the catalogue that move results, by entry and field."""
TOPOLOGIES: Mapping[str, str] = {
    "rail-optimized": "a rail-optimised tree",
    "fat-tree": "a fat tree",
    "rail-only": "a rail-only network",
    "mesh": "a mesh",
    "torus-2d": "a 2D torus",
    "torus-3d": "a 3D torus",
    "dragonfly": "a dragonfly",
}
"""What a network of each topology is, in a sentence."""
ARCHITECTURE = "architecture-"
OF_ARCHITECTURE: Mapping[str, str] = {
    "products": "Matrix products",
    "vendor_attention": "The vendor's attention kernels",
    "open_attention": "FlashAttention-2",
}
"""The same of numbers that each GPU architecture has."""


def words(field: str) -> str:
    """A field's name as words.

    >>> words("memory_bandwidth"), words("port_rate")
    ('Memory bandwidth', 'Port rate')
    """
    text = field.replace("_", " ").replace("-", " ")
    for plain in ("gpu", "pue", "nic", "fp16", "bf16", "fp8", "fp4", "pcie", "ll128"):
        text = " ".join(word.upper() if word == plain else word for word in text.split(" "))
    return text[:1].upper() + text[1:]


def input_name(estimate: Estimate, catalog: Catalog) -> str:
    """What one number of the catalogue is called where its entry is not in sight.

    In the words of `SPOKEN` where it has some; else the entry's name and the field's.
    """
    kind, _, rest = estimate.key.partition(".")
    entry, _, field = rest.rpartition(".")
    if rest in SPOKEN:
        return SPOKEN[rest]
    if entry.startswith(ARCHITECTURE) and field in OF_ARCHITECTURE:
        letters = words(entry.removeprefix(ARCHITECTURE)).replace("Cdna ", "CDNA ")
        return f"{OF_ARCHITECTURE[field]} on {letters}"
    record: Any = catalog.kind(kind).get(entry)
    owner = getattr(record, "name", "") or words(entry or field)
    name = words(field) if entry else ""
    return f"{owner}: {name if name[1:2].isupper() else name[:1].lower() + name[1:]}" if name else owner


def word_set(name: str) -> frozenset[str]:
    """The words of a name, however they are joined.

    >>> sorted(word_set("NVIDIA H100-SXM5 80 GB"))
    ['80gb', 'h100', 'nvidia', 'sxm']
    """
    spaced = name.casefold().replace("-sxm", " sxm").replace("+", " plus ")
    joined = re.sub(r"(\d) (gb|b)\b", r"\1\2", re.sub(r"\bsxm\d", "sxm", spaced))
    return frozenset(re.findall(r"[a-z0-9.]+", joined))


def plain(name: str) -> str:
    """A name without what people write now so, now so. A plus sign is a word: Command R+ is not Command R.

    >>> plain("H100 SXM"), plain("h100-sxm"), plain("Command R+")
    ('h100sxm', 'h100sxm', 'commandrplus')
    """
    return "".join(letter for letter in name.casefold().replace("+", "plus") if letter.isalnum())


def entries_called(text: str, entries: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of the entries that people may mean: one of that name, or those whose words contain all of the text's.

    Of several, the one that has a short name is meant: "A100 80GB" is the SXM card, of which people say A100. Those
    whose own name has the words come first: DeepSeek-V3 before a Llama that DeepSeek trained further. Where nothing has
    all words, those of `BESIDE_NAMES` are left out.
    """
    if len(text) > LONGEST_NAME:
        return ()
    return _called(text, entries) or _called(BESIDE_NAMES.sub(" ", text.replace("_", " ")), entries)


def _called(text: str, entries: Mapping[str, Any]) -> tuple[str, ...]:
    """The same, by all words of the text."""
    said = plain(text)
    if not said:
        return ()
    for key, entry in entries.items():
        if said in map(plain, (key, getattr(entry, "short", ""), *_names(entry))):
            return (key,)
    spoken = word_set(text)
    meant = tuple(key for key, entry in entries.items() if any(spoken <= words for words in _all_words(key, entry)))
    usual = tuple(key for key in meant if getattr(entries[key], "short", ""))
    by_name = tuple(key for key in meant if spoken <= _all_words(key, entries[key])[0])
    return usual if len(usual) == 1 else tuple(dict.fromkeys((*by_name, *meant)))


def nearest(name: str, names: Iterable[str], alike: float = 0.5) -> list[str]:
    """The three names that are most like one that there is none of, by at least this share of their letters.

    >>> did_you_mean(nearest("h100-sxn", ["h100-sxm", "h200-sxm", "b200"]))
    'Did you mean h100-sxm or h200-sxm? '
    """
    return get_close_matches(name[:LONGEST_NAME], names, n=3, cutoff=alike)


def did_you_mean(names: Sequence[str]) -> str:
    """A question that names those that may have been meant, with a space after it; blank where there is none."""
    return f"Did you mean {' or '.join(names)}? " if names else ""


def _all_words(key: str, entry: Any) -> list[frozenset[str]]:
    """The words that may be said of an entry: those of each name, with its key's, its vendor's and a card's own."""
    memory = getattr(entry, "memory_nominal", None)
    further = f"{key} {getattr(entry, 'vendor', '')} "
    if memory:
        further += f"{memory.typical / 1e9:.0f}GB {entry.memory_type} {entry.architecture}"
    return [word_set(f"{further} {name}") for name in _names(entry)]


def _names(entry: Any) -> tuple[str, ...]:
    """What an entry is called."""
    return entry.name, *getattr(entry, "also", ())


def listed(names: Sequence[str]) -> str:
    """Some names in a sentence.

    >>> listed(["A"]), listed(["A", "B", "C"])
    ('A', 'A, B and C')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
