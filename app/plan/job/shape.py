"""The shape of a model: what the catalogue or the scenario says of it."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from app.catalog.entries import Model
from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.transformer import Shape
from app.plan.cluster import Hardware
from app.plan.scenario import SHAPE, Scenario


def shape_of(model: Model, prediction: bool = True) -> Shape:
    """The numbers of a catalogue model."""
    mixture = model.experts > 0
    dense = model.dense_layers + (model.layers - model.dense_layers) * (1 - 1 / model.moe_every)
    return Shape(
        layers=float(model.layers),
        hidden=float(model.hidden),
        heads=float(model.heads),
        head_dim=float(model.head_dim or model.hidden / model.heads),
        kv_heads=float(model.kv_heads),
        ffn_hidden=float(model.ffn_hidden),
        gated=float(model.gated),
        vocabulary=float(model.vocabulary),
        tied=float(model.tied_embeddings),
        experts=float(model.experts),
        experts_per_token=float(model.experts_per_token),
        expert_ffn_hidden=float(model.expert_ffn_hidden),
        shared_experts=float(model.shared_experts),
        dense_layers=float(dense if mixture else model.layers),
        query_rank=float(model.query_rank or 0),
        kv_rank=float(model.kv_rank or 0),
        rope_dim=float(model.rope_head_dim or 0),
        value_dim=float(model.value_head_dim or 0),
        window=float(model.sliding_window or 0),
        window_share=float(model.sliding_share if model.sliding_window else 0),
        prediction_layers=float(model.multi_token_layers if prediction else 0),
        shared_ffn_hidden=float(model.shared_expert_ffn_hidden or 0),
        biases=float(model.biases),
        qkv_bias=float(model.qkv_bias),
        positions=float(model.learned_positions),
        parallel_block=float(model.parallel_block),
    )


@lru_cache(maxsize=256)
def _listed(catalog: Catalog, model: str) -> Shape:
    return shape_of(catalog.models[model])


def shape(scenario: Scenario, catalog: Catalog) -> Shape:
    """The shape the scenario asks for: a catalogue model with the fields given beside it, or one of its own."""
    given = {name: value for name in SHAPE if (value := getattr(scenario, name)) is not None}
    names = {"tied_embeddings": "tied"}
    numbers = {names.get(name, name): float(value) for name, value in given.items()}
    if scenario.model in catalog.models:
        own = _listed(catalog, scenario.model)
        if not numbers:
            return own
        if numbers.get("experts") or "layers" in numbers:
            share = float(np.max(own.dense_layers)) / float(np.max(own.layers)) if own.experts else 0.0
            layers = numbers.get("layers", float(np.max(own.layers)))
            mixture = numbers.get("experts", float(np.max(own.experts)))
            numbers["dense_layers"] = round(share * layers) if mixture else layers
        if "expert_ffn_hidden" in numbers or "shared_experts" in numbers:
            numbers["shared_ffn_hidden"] = 0.0
        return replace(own, **numbers)
    stand_in = catalog.models[Scenario.model_fields["model"].default]
    numbers = {name: float(getattr(stand_in, name)) for name in scenario.borrowed()} | numbers
    heads, hidden = numbers["heads"], numbers["hidden"]
    experts = numbers.get("experts", 0.0)
    ffn = numbers.get("ffn_hidden", numbers.get("expert_ffn_hidden", 0.0))
    filled = {
        "head_dim": hidden / heads,
        "kv_heads": heads,
        "ffn_hidden": ffn,
        "gated": 1.0,
        "expert_ffn_hidden": ffn,
        "experts_per_token": min(2.0, experts),
        "dense_layers": 0.0 if experts else numbers["layers"],
    }
    return Shape(**(filled | numbers))


def shape_fields(model: Shape) -> dict[str, Any]:
    """The shape under the scenario's names."""
    flags = {"gated": bool(model.gated), "tied_embeddings": bool(model.tied)}
    return {name: flags[name] if name in flags else int(getattr(model, name)) for name in SHAPE}


def gradient_bytes(hardware: Hardware, scenario: Scenario, catalog: Catalog) -> float:
    """Bytes of the model's gradients in 16-bit: what one all-reduce over all GPUs would carry without sharding [B]."""
    return 2 * float(transformer.parameters(shape(scenario, catalog)))
