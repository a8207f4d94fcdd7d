"""What rows of published results call cards, models, networks and links, as the catalogue's keys.

Names are looked up once for all rows of a file.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import ceil, log
from typing import Any, NamedTuple, Protocol

from app.catalog.load import Catalog
from app.catalog.names import entries_called, word_set
from app.plan.scenario import SIZE
from app.units import parse
from app.validation.statistics import number


class Read(Protocol):
    """A row that was read, with what of it was taken for something else."""

    @property
    def taken(self) -> tuple[str, ...]: ...


def taken_for(rows: Iterable[Read]) -> dict[str, int]:
    """How many rows something else stands in for what they state, or for what they leave out, by what it is."""
    return dict(Counter(what for row in rows for what in row.taken))


def taken_text(counts: Mapping[str, int]) -> str:
    """The same for a terminal; blank where every row is predicted as it stands."""
    if not counts:
        return ""
    return "\n".join(("Predicted otherwise than stated:", *(f"  {rows} rows: {what}" for what, rows in counts.items())))


class Named(NamedTuple):
    """The key of what a text names, blank where nothing is meant; ``taken`` where something else stands in for it."""

    key: str
    taken: str = ""


SERVERS = re.compile(r"\b(?:dgx|hgx|nvl\d{2,3}|grace)\b", re.IGNORECASE)
"""Servers of a card, and what it shares a board with."""
MEMORIES = re.compile(r"\b\d+ ?gb\b|\b(?:hbm|gddr)\d?\w?\b", re.IGNORECASE)


@lru_cache(maxsize=256)
def gpu_named(text: str, catalog: Catalog) -> Named:
    """The card that a text names: of that name, or else of another memory, or one that the text begins with.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> gpu_named("NVIDIA H100 80GB HBM3", book).key, gpu_named("GB200 NVL72", book).key, gpu_named("H20-3e", book)
    ('h100-sxm', 'gb200', Named(key='h20', taken='H20-3e taken for h20'))
    >>> gpu_named("RTX 4090", book)
    Named(key='', taken='')
    """
    spaced = text.replace("_", " ").replace("-", " ")
    bare = SERVERS.sub(" ", spaced)
    for words in (text, bare):
        if len(meant := entries_called(words, catalog.gpus)) == 1:
            return Named(meant[0])
    others = entries_called(MEMORIES.sub(" ", bare), catalog.gpus)
    beginning = sorted((key for key in catalog.gpus if spaced.lower().startswith(f"{key.replace('-', ' ')} ")), key=len)
    key = others[0] if len(others) == 1 else beginning[-1] if beginning else ""
    return Named(key, f"{text} taken for {key}" if key else "")


@lru_cache(maxsize=256)
def model_named(text: str, catalog: Catalog) -> str:
    """The key of the one model of the catalogue that a text names; blank where there is none, or more.

    A size alone is no name, though one model may have it in its own.

    >>> from app.catalog.load import load_catalog
    >>> model_named("Yi 34B", load_catalog()), model_named("34B", load_catalog())
    ('yi-34b', '')
    """
    meant = [] if SIZE.fullmatch(text.strip()) else entries_called(text, catalog.models)
    return meant[0] if len(meant) == 1 else ""


MIXTURE = re.compile(r"moe|mixture|\dx\d|\ba\d+(?:\.\d+)?b", re.IGNORECASE)
"""Names of mixtures of experts, whose shape does not follow from a size."""


def dense_size(text: str) -> str:
    """The size that the name of a dense model says; blank where it says none, more, or is a mixture's.

    >>> dense_size("Mystery-8B"), dense_size("Mystery-8x7B"), dense_size("Mystery 30B-A3B"), dense_size("Mystery")
    ('8B', '', '', '')
    """
    sizes = SIZE.findall(text)
    return "".join(sizes[0]) if len(sizes) == 1 and not MIXTURE.search(text) else ""


FAMILIES: tuple[tuple[str, str], ...] = (
    (r"omni|\bopa\b", "omni-path"),
    (r"tcpx|fastrak|gpudirect.?tcp", "gpudirect-tcp"),
    (r"\btcp|socket|ipoib|gvnic", "tcp"),
    (r"slingshot", "slingshot"),
    (r"\befa", "efa"),
    (r"spectrum.?x", "spectrum-x"),
    (r"ultra|\buec", "ultra-ethernet"),
    (r"\bib\b|infiniband|quantum|\b[qfehnxg]dr\d*\b", "infiniband"),
    (r"roce|converged|ethernet|\d+ ?gbe\b|iwarp", "roce"),
    (r"^e?rdma$", "rdma"),
    (r"^(?:none|no|n/a)?$", ""),
)
"""Families of networks by what is written of them, the likeliest first; RDMA alone may be of any."""
UNKNOWN = "unknown"


GIGABIT = parse("1 Gb/s", "B/s")


def word(text: str) -> str:
    """A word of a column as the product writes it.

    >>> word(" Full_Mesh "), word("no P2P")
    ('full-mesh', 'no-p2p')
    """
    return text.strip().lower().replace("_", "-").replace(" ", "-")


class Network(NamedTuple):
    """A network as it is written: its family, blank where none is stated, and the rate of its ports where it says so.

    ``family`` is ``rdma`` where only that is said, and `UNKNOWN` where it is none that is known.
    """

    family: str
    port_rate: float | None


@lru_cache(maxsize=256)
def network_named(text: str, catalog: Catalog) -> Network:
    """The network that a text names.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> network_named("HDR200", book), network_named("RoCEv2 400GbE", book)
    (Network(family='infiniband', port_rate=25000000000.0), Network(family='roce', port_rate=50000000000.0))
    >>> network_named("InfiniBand NDR", book).port_rate, network_named("Slingshot-11", book), network_named("ICI", book)
    (50000000000.0, Network(family='slingshot', port_rate=None), Network(family='unknown', port_rate=None))
    """
    said = text.strip().lower().replace("_", " ")
    family = next((name for pattern, name in FAMILIES if re.search(pattern, said)), UNKNOWN)
    entries = {key: entry for key, entry in catalog.scale_out.items() if entry.family == family}
    rates = {entry.port_rate.typical for entry in entries.values()}
    stated = (parse(f"{figure} Gb/s", "B/s") for figure in re.findall(r"\d+", said) if float(figure) > 0)
    by_figure = next((rate for rate in stated if rate in rates), None)
    words = word_set(said) - {family}
    by_name = next(
        (entry.port_rate.typical for key, entry in entries.items() if word_set(key) - {family} & words), None
    )
    return Network(family, by_figure or by_name)


UNSTATED, ANOTHER = "infiniband", "roce"
"""Families that stand in for a network that is not stated, and for one that is none of the catalogue's."""


def family_of(family: str, catalog: Catalog) -> str:
    """The family of the catalogue that a network, as `network_named` knows it, is predicted as.

    Where none is stated it is InfiniBand, as in a plan that names none. RDMA alone is RoCE, and so is what is unknown:
    who has InfiniBand calls it so, and what clouds give names of their own is Ethernet.

    >>> from app.catalog.load import load_catalog
    >>> [family_of(family, load_catalog()) for family in ("efa", "rdma", "unknown", "")]
    ['efa', 'roce', 'roce', 'infiniband']
    """
    known = any(entry.family == family for entry in catalog.scale_out.values())
    return family if known else ANOTHER if family else UNSTATED


BUILT_IN = ("efa",)
"""Families whose adapters a cloud builds into its servers."""


class Ports(NamedTuple):
    """The ports of a node that give each of its GPUs a rate.

    ``generation`` is a key of the catalogue, ``nics`` how many of its ports, ``rate`` that of a GPU where these do not
    come to it.
    """

    family: str
    generation: str
    nics: int
    rate: float | None

    @property
    def fields(self) -> dict[str, Any]:
        """The same as fields of a scenario."""
        return {"scale_out": self.generation, "nics_per_node": self.nics, "network_rate": self.rate}


def ports_of(family: str, rate: float, gpus_per_node: int, gpu: str, catalog: Catalog) -> Ports:
    """The generation of a family whose ports give a GPU its rate, in about as many as its usual server has.

    Where none gives it exactly, the nearest stands, and the rate of a GPU is asked for as such. Adapters that come with
    the server are no younger than its GPUs: 400 Gb/s of EFA are 32 ports of 100 in the servers of H100, 8 of 400 in
    those of B200.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> [ports_of("efa", 50e9, 8, gpu, book)[1:] for gpu in ("h100-sxm", "h200-sxm", "b200-sxm")]
    [('efa-100', 32, None), ('efa-200', 16, None), ('efa-400', 8, None)]
    """
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    usual = platform.nics_per_node * gpus_per_node / platform.gpus_per_node
    family = family_of(family, catalog)
    entries = [entry for entry in catalog.scale_out.values() if entry.family == family]
    if family in BUILT_IN and card.year:
        entries = [entry for entry in entries if (entry.year or 0) <= card.year] or entries
    counts = {entry.key: rate * gpus_per_node / entry.port_rate.typical for entry in entries}
    exact = {key: count for key, count in counts.items() if count >= 1 and abs(count - round(count)) < 1e-9}
    candidates = exact or counts
    generation = min(candidates, key=lambda key: abs(log(candidates[key] / usual)))
    return Ports(family, generation, max(1, ceil(counts[generation] - 1e-9)), None if exact else rate)


def rate_of_a_gpu(named: Network, gpu: str, catalog: Catalog) -> float:
    """What a GPU has of a network whose row does not say: its share of the ports of its usual server [B/s]."""
    platform = catalog.platforms[catalog.gpus[gpu].platform]
    return (named.port_rate or platform.nic_rate.typical) * platform.nics_per_node / platform.gpus_per_node


def network_refused(family: str) -> str:
    """Why nothing stands in for a network; blank where it can be predicted."""
    return f"no network of the family {family} is in the catalogue" if family == "omni-path" else ""


def network_taken(named: Network, text: str, rate: float | None) -> Iterator[str]:
    """What stands in for the network of a row that needs one.

    Args:
        named: the network as it was understood.
        text: as it is written.
        rate: what a GPU has of it, where the row says so [B/s].
    """
    if not named.family:
        yield "no network stated, taken for InfiniBand"
    if named.family in (UNKNOWN, "rdma"):
        yield f"network {text} taken for RoCE"
    if rate is None and named.port_rate is None:
        yield "no network rate stated, taken for that of the GPU's usual server"


def rate_stated(text: str) -> float | None:
    """A rate in Gb/s as a row states it, with its unit or without [B/s]; ``None`` where it says nothing.

    >>> rate_stated("400"), rate_stated("400 Gb/s"), rate_stated("")
    (50000000000.0, 50000000000.0, None)
    """
    figure = number(re.sub(r"\s*g(?:b(?:it)?)?(?:/s|ps)?$", "", text.strip(), flags=re.IGNORECASE))
    return parse(f"{figure} Gb/s", "B/s") if figure is not None and 0 < figure < MOST_RATE else None


MOST_RATE = 1e6
"""No GPU has so many Gb/s of network."""

OTHER_WIRINGS: Mapping[str, str] = {
    "nvswitch": "switch",
    "full-mesh": "mesh",
    "fully-connected": "mesh",
    "hybrid-cube-mesh": "mesh",
    "xgmi": "mesh",
    "nvlink-bridge": "bridge",
    "p2p": "peer-to-peer",
    "pcie": "peer-to-peer",
    "pcie-switch": "peer-to-peer",
    "pix": "peer-to-peer",
    "pxb": "peer-to-peer",
    "phb": "host",
    "sys": "host",
    "node": "host",
    "shm": "host",
    "no-p2p": "no-peer-to-peer",
}
"""Other words for how GPUs are wired, those of ``nvidia-smi topo`` among them."""


def wiring_named(text: str) -> str:
    """How GPUs are wired, in the words of a scenario where it is another word for one of them.

    >>> wiring_named("NVSwitch"), wiring_named("no P2P"), wiring_named("ring")
    ('switch', 'no-peer-to-peer', 'ring')
    """
    said = word(text)
    return OTHER_WIRINGS.get(said, said)


def link_named(text: str, gpu: str, catalog: Catalog) -> str:
    """The scale-up link that a text names, of a card; blank where it says no more than that it is the card's own.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> link_named("NVLink4", "h100-sxm", book), link_named("PCIe Gen5 x16", "h100-pcie", book)
    ('nvlink-4', 'pcie-5')
    >>> link_named("PCIe", "a100-pcie", book), link_named("NVLink", "h100-sxm", book)
    ('pcie-4', '')
    """
    said = text.strip().lower()
    generation = re.search(r"\b(nvlink|pcie)(?:[ -]?(?:gen ?|v)?(\d)\b)?", said)
    if said in catalog.scale_up or not generation:
        return said if said in catalog.scale_up else ""
    key = f"{generation[1]}-{generation[2]}"
    return key if key in catalog.scale_up else catalog.gpus[gpu].pcie if generation[1] == "pcie" else ""
