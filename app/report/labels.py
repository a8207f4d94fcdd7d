"""What the keys of the wire are called, for pages, charts and files."""

from collections.abc import Mapping, Sequence

from app.plan.all_reduce import NAMES
from app.plan.result import Parallelism
from app.studies.buy_or_rent import WAYS
from app.studies.phases import ORDERS

RESOURCES = {
    "compute": "Compute",
    "memory_bandwidth": "Memory traffic",
    "scale_up": "Scale-up link",
    "scale_out": "Network",
    "bubble": "Pipeline idle",
    "overhead": "Overhead",
}
PROTOCOLS = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
CUTS = {"scale_up": "Scale-up domain", "leaf": "Below the leaves", "spine": "Across leaves", "core": "Across spines"}
REACHES = {
    "scale_up": "Inside a domain",
    "leaf": "Below a leaf",
    "spine": "Below the spines",
    "core": "Across cores",
}
"""The narrowest place that holds a whole group."""
RANGE = {
    "dense": "Dense models on the vendors' stacks",
    "open": "Dense models on open stacks",
    "experts": "Mixtures of experts, tuned",
    "untuned": "Dense models, not tuned",
    "untuned_experts": "Mixtures of experts, not tuned",
    "other_stack": "No measured step of this stack",
    "other_card": "No measured step of this GPU",
    "other_hardware": "No measured step of this architecture",
    "natural": "Natural routing",
    "layout": "A layout by the model, not one that was timed",
}
HARDWARE = {
    "nvlink-switch": "NVLink switch, one domain",
    "nvlink-switch-rdma": "NVLink and RDMA",
    "nvlink-switch-other": "NVLink and other networks",
    "nvlink-mesh": "NVLink mesh",
    "infinity-fabric": "Infinity Fabric, one node",
    "infinity-fabric-network": "Infinity Fabric and a network",
    "pcie": "PCIe",
}
"""Classes of hardware that collectives were measured on."""
SITUATIONS: Mapping[str, str] = {
    "own": "As planned",
    "untuned": "Nobody to tune Ethernet",
    "small": "A small cluster",
    "large": "A large cluster",
    "grown": "Four times as many GPUs",
}
VOCABULARIES: Mapping[str, Mapping[str, str]] = {
    "resource": RESOURCES | {"memory_capacity": "Memory", "host": "Host"},
    "algorithm": {**NAMES, "quickest": "Quickest"},
    "protocol": PROTOCOLS,
    "cut": CUTS,
    "reach": REACHES,
    "part": {"all_reduce": "All-reduce"},
    "edition": {"market": "Market", "rule-of-thumb": "Rule of thumb"},
    "situation": SITUATIONS,
    "slot": {"network": "Compute network", "storage": "Storage", "together": "Both at once"},
    "better": {"infiniband": "InfiniBand", "ethernet": "Ethernet", "either": "Either", "": "Neither runs"},
    "advice": {"either": "Either", "infiniband": "InfiniBand", "goal": "Pace: InfiniBand; budget: Ethernet"},
    "family": {
        "dense": "Dense",
        "experts": "Mixtures of experts",
        "latent": "Latent attention",
        "sink": "Attention sinks",
        "linear": "Linear attention",
    },
    "pool": {"prefill": "Prompts", "decode": "Answers"},
    "way": WAYS,
    "order": ORDERS,
    "range": RANGE,
    "hardware": HARDWARE,
}
"""By the names that results declare, see `app.plan.band.Declaration`; what a vocabulary lacks is said by `named`."""


def words(key: object) -> str:
    """A key of the wire as words.

    >>> words("data_parallel")
    'data parallel'
    """
    return str(key).replace("_", " ")


def named(key: str) -> str:
    """A key of the wire as the name of a row.

    >>> named("tensor_parallel")
    'Tensor parallel'
    """
    return words(capitalize_first(key))


def in_words(key: object, vocabulary: str) -> str:
    """A key in the words of a vocabulary; text without one stands as it is.

    >>> in_words("scale_out", "resource"), in_words("output_head", "part"), in_words("H100_x", "")
    ('Network', 'Output head', 'H100_x')
    """
    if not vocabulary:
        return str(key)
    return VOCABULARIES[vocabulary].get(str(key)) or named(str(key))


def cut(run: Parallelism) -> tuple[str, str]:
    """By what the GPUs of a run are cut up, and into how many: their product is all GPUs.

    >>> from app import Scenario, evaluate, load_catalog
    >>> asked = Scenario(gpus=64, model="llama-3-8b", tensor_parallel=2, pipeline_parallel=1, context_parallel=4)
    >>> cut(evaluate(asked, load_catalog()).training.parallelism)
    ('Tensor × context × pipeline × data', '2 × 4 × 1 × 8')
    """
    kinds = ["tensor", *(["context"] if run.context_parallel > 1 else []), "pipeline", "data"]
    degrees = [f"{getattr(run, f'{kind}_parallel'):,}" for kind in kinds]
    return capitalize_first(" × ".join(kinds)), " × ".join(degrees)


def designs(matches: Sequence[str]) -> str:
    """Published designs by their titles, each once, without the keys that tell them apart.

    >>> designs(["SuperPOD RA, Table 3 (h100-t3-4su)", "SuperPOD RA, Table 3 (h100-t3-2su)", "Other RA, Table 1 (x)"])
    'SuperPOD RA, Table 3; Other RA, Table 1'
    """
    return "; ".join(dict.fromkeys(match.rpartition(" (")[0] or match for match in matches))


def capitalize_first(text: str) -> str:
    """The text with its first letter upper case, the rest as it is.

    >>> capitalize_first("tensor-parallel NVLink traffic")
    'Tensor-parallel NVLink traffic'
    """
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """The text with its first letter lower case, unless an abbreviation begins it.

    >>> lower_first("Bill of materials"), lower_first("MFU by size")
    ('bill of materials', 'MFU by size')
    """
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
