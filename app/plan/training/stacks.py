"""The software stack: names as people write them, and the traits behind them."""

import re
from collections.abc import Mapping
from dataclasses import fields
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


def stack_traits(scenario: Scenario, hardware: Hardware, model: Shape, catalog: Catalog) -> dict[str, float]:
    """The traits of the scenario's stack, as far as the GPU and the model allow them and the scenario changes them."""
    trait = dict(traits(catalog, scenario.stack or DEFAULT_STACK))
    for name in ("overlap_tensor", "overlap_data", "overlap_pipeline"):
        asked = getattr(scenario, name)
        trait[name] = trait[name] if asked is None else float(asked)
    group = architecture_group(catalog, hardware.gpu, "flash")
    trait["flash"] *= catalog.training[group]["flash"].typical
    known = not (model.experts and model.biases) or trait["release"] >= catalog.training["maturity"]["biases"].typical
    trait["fused"] *= known
    return trait
