"""The software stack: names as people write them, and the traits behind them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from app import training
from app.arrays import Array
from app.catalog import Catalog
from app.plan.hardware import Hardware
from app.plan.training.constants import architecture_group
from app.scenario import Scenario
from app.transformer import Shape

DEFAULT_STACK = "tuned"
UNKNOWN_STACK = "other"
STACKS = (
    (r"megascale|hai-?llm|deepseek.*(hai|in.?house)|in.?house", "tuned"),
    (r"nemo|bridge", "nemo"),
    (r"megatron.*deepspeed", "megatron-deepspeed"),
    (r"megatron|primus", "megatron-lm"),
    (r"titan", "fsdp-torchtitan"),
    (r"composer|foundry|mosaic", "fsdp-composer"),
    (r"fsdp|pytorch|lightning", "fsdp"),
    (r"neox", "gpt-neox"),
    (r"maxtext|jax|levanter|pax", "maxtext"),
    (r"deepspeed|transformers|hugging|accelerate", "deepspeed"),
    (r"internevo|internlm", "internevo"),
    (r"hand.?written|plain|custom", "hand-written"),
)


def stack_key(catalog: Catalog, name: str, release: float | None = None) -> str:
    """The catalogue's stack for a name as people write it, and of its dated variants the one nearest in time."""
    known = [key.removeprefix("stack-") for key in catalog.training if key.startswith("stack-")]
    text = name.strip().lower()
    base = text if text in known else next((key for pattern, key in STACKS if re.search(pattern, text)), "")
    if base not in known:
        return UNKNOWN_STACK if text else DEFAULT_STACK
    if release is None:
        return base
    variants = [key for key in known if re.fullmatch(rf"{re.escape(base)}(-\d{{4}})?", key)]
    return min(variants, key=lambda key: abs(catalog.training[f"stack-{key}"]["release"].typical - release))


@lru_cache(maxsize=256)
def traits(catalog: Catalog, stack: str) -> Mapping[str, float]:
    """The declared traits of a stack."""
    return {name: estimate.typical for name, estimate in catalog.training[f"stack-{stack}"].items()}


def software(trait: Mapping[str, Array]) -> training.Software:
    """The traits the step model reads."""
    return training.Software(**{entry.name: trait[entry.name] for entry in fields(training.Software)})


@dataclass(frozen=True)
class Stack:
    """A stack as it runs one model on one GPU: what the step model reads of it, and what its constants depend on."""

    software: training.Software
    vendor_attention: float
    release: float


def stack_of(scenario: Scenario, hardware: Hardware, model: Shape, catalog: Catalog) -> Stack:
    """The scenario's stack, as far as the GPU and the model allow its traits and the scenario changes them."""
    overlaps = (scenario.overlap_tensor, scenario.overlap_data, scenario.overlap_pipeline)
    odd = bool(model.experts and model.biases)
    return _stack(catalog, scenario.stack or DEFAULT_STACK, hardware.gpu.key, overlaps, odd)


@lru_cache(maxsize=256)
def _stack(catalog: Catalog, name: str, gpu: str, overlaps: tuple[bool | None, ...], odd: bool) -> Stack:
    """A stack on a GPU, for a model that is odd, a mixture of experts with biases, or not."""
    trait = dict(traits(catalog, name))
    for overlap, asked in zip(("overlap_tensor", "overlap_data", "overlap_pipeline"), overlaps, strict=True):
        trait[overlap] = trait[overlap] if asked is None else float(asked)
    group = architecture_group(catalog, catalog.gpus[gpu], "flash")
    trait["flash"] *= catalog.training[group]["flash"].typical
    trait["fused"] *= not odd or trait["release"] >= catalog.training["maturity"]["biases"].typical
    return Stack(software(trait), trait["vendor_attention"], trait["release"])
