"""The shape of a model: what the catalogue or the scenario says of it."""

from dataclasses import replace
from typing import Any

from app.catalog.entries import Model
from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.transformer import Shape
from app.plan.scenario import SHAPE, ModelRequest


def shape_of(model: Model, prediction: bool = True) -> Shape:
    """The numbers of a catalogue model."""
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
        dense_layers=dense_layers(model, float(model.layers)),
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
        node_limit=float(model.node_limit),
        embedding_row=float(model.active_embedding_row),
    )


def dense_layers(model: Model, layers: float) -> float:
    """Layers without experts of a catalogue model cut or stretched to so many layers: the leading ones, then by turns.

    >>> from app.catalog.load import load_catalog
    >>> dense_layers(load_catalog().models["deepseek-v3"], 16)
    3.0
    """
    if not model.experts:
        return layers
    return model.dense_layers + max(layers - model.dense_layers, 0.0) * (1 - 1 / model.moe_every)


def shape(request: ModelRequest, catalog: Catalog) -> Shape:
    """The shape that is asked for: a catalogue model with the fields given beside it, or one of its own."""
    given = {name: value for name in SHAPE if (value := getattr(request, name)) is not None}
    names = {"tied_embeddings": "tied"}
    numbers = {names.get(name, name): float(value) for name, value in given.items()}
    if request.model in catalog.models:
        model = catalog.models[request.model]
        listed = shape_of(model)
        if not numbers:
            return listed
        if numbers.get("experts") or "layers" in numbers:
            layers = numbers.get("layers", float(model.layers))
            mixture = numbers.get("experts", float(model.experts))
            numbers["dense_layers"] = (dense_layers(model, layers) if model.experts else 0.0) if mixture else layers
        if "expert_ffn_hidden" in numbers or "shared_experts" in numbers:
            numbers["shared_ffn_hidden"] = 0.0
        return replace(listed, **numbers)
    stand_in = catalog.models[ModelRequest.model_fields["model"].default]
    numbers = {name: float(getattr(stand_in, name)) for name in request.borrowed()} | numbers
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


def usual_message(request: ModelRequest, catalog: Catalog) -> float:
    """Bytes that data parallelism reduces at a time: a bucket, or all gradients of a model that has fewer [B]."""
    gradients = 2 * float(transformer.parameters(shape(request, catalog)))
    return min(catalog.training["communication"]["bucket"].typical, gradients)
