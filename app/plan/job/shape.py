"""The shape of a model: what the catalogue or the scenario says of it."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from app.catalog.entries import Model
from app.catalog.load import Catalog
from app.formulas import transformer
from app.formulas.transformer import Shape
from app.plan.result import Finding
from app.plan.scenario import NEEDED, SHAPE, ModelRequest
from app.units import show


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
        expert_groups=float(model.expert_groups),
        embedding_row=float(model.active_embedding_row),
        attention_gate=float(model.attention_gate),
        linear_share=model.linear_share,
        linear_heads=float(model.linear_heads or 0),
        linear_key_heads=float(model.linear_key_heads or 0),
        linear_dim=float(model.linear_head_dim or 0),
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


@lru_cache(maxsize=128)
def _listed(catalog: Catalog, model: str) -> Shape:
    """The shape of a catalogue model. Kept: 30 numbers take 15 µs, and a plan asks for them four times."""
    return shape_of(catalog.models[model])


OF_SHARED = ("expert_ffn_hidden", "shared_experts")
"""Fields that say how wide shared experts are; changed, a width of their own that the catalogue has is no more."""


def shape(request: ModelRequest, catalog: Catalog) -> Shape:
    """The shape that is asked for: a catalogue model with the fields given beside it, or one of its own."""
    given = {name: value for name in SHAPE if (value := getattr(request, name)) is not None}
    names = {"tied_embeddings": "tied"}
    numbers = {names.get(name, name): float(value) for name, value in given.items()}
    if request.model in catalog.models:
        model = catalog.models[request.model]
        listed = _listed(catalog, request.model)
        if not numbers:
            return listed
        if numbers.get("experts") or "layers" in numbers:
            layers = numbers.get("layers", float(model.layers))
            mixture = numbers.get("experts", float(model.experts))
            numbers["dense_layers"] = (dense_layers(model, layers) if model.experts else 0.0) if mixture else layers
        if any(numbers.get(name, getattr(listed, name)) != getattr(listed, name) for name in OF_SHARED):
            numbers["shared_ffn_hidden"] = 0.0
        return replace(listed, **numbers)
    if request.parameters is not None:
        return replace(
            shape_by_rule(request.parameters, catalog),
            **(numbers | {"dense_layers": numbers["layers"]} if "layers" in numbers else numbers),
        )
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


def shape_by_rule(size: float, catalog: Catalog) -> Shape:
    """The shape of a dense model of which the size alone is known.

    >>> from app.catalog.load import load_catalog
    >>> by_rule = shape_by_rule(100e9, load_catalog())
    >>> by_rule.layers, by_rule.hidden, by_rule.ffn_hidden, round(float(transformer.parameters(by_rule)) / 1e9)
    (80.0, 10240.0, 32000.0, 100)
    """
    rule = {name: estimate.typical for name, estimate in catalog.training["by_size"].items()}
    layers = float(transformer.layers_of_size(size, rule["aspect"], rule["expansion"]))
    width, tied = rule["aspect"] * layers, float(size < rule["tied_below"])
    sized = transformer.shape_of_size(size, layers, width, rule["head_dim"], rule["kv_heads"], rule["vocabulary"], tied)
    return Shape(**{name: float(value) for name, value in (vars(sized) | {"dense_layers": layers}).items()})


def model_name(request: ModelRequest, catalog: Catalog) -> str:
    """What a model is called in a sentence.

    >>> from app.catalog.load import load_catalog
    >>> model_name(ModelRequest(), load_catalog()), model_name(ModelRequest(model="custom"), load_catalog())
    ('Llama 3 70B', 'a model of your own')
    """
    if request.model in catalog.models:
        return catalog.models[request.model].name
    if request.parameters is not None:
        return f"a model of {show(request.parameters, '1')} parameters"
    return "a model of your own"


def shape_findings(request: ModelRequest, catalog: Catalog) -> Iterator[Finding]:
    """A shape that follows from a size, or that no longer has it."""
    size = request.parameters
    if size is None:
        return
    built, rule = shape(request, catalog), catalog.training["by_size"]
    real = float(transformer.parameters(built))
    if any(getattr(request, name) is None for name in NEEDED):
        yield Finding(
            "note",
            "shape-by-rule",
            f"Of the model only its size is known. A shape by rule stands in: {built.layers:.0f} layers of width "
            f"{built.hidden:,.0f} ({rule['aspect'].typical:g} for each layer, as in GPT-3) with feed-forward blocks of "
            f"{built.ffn_hidden:,.0f}, the rest as in Llama 3. The real one may need another step and more memory.",
            ("parameters", "layers", "hidden"),
            "Type layers, width and heads once they are known.",
        )
    if abs(real / size - 1) > rule["tolerance"].typical:
        yield Finding(
            "warning",
            "other-size",
            f"With the shape fields that are given the model has {show(real, '1')} parameters, not {show(size, '1')}.",
            ("parameters", *(name for name in SHAPE if getattr(request, name) is not None)),
            "Leave these fields blank, or the parameters.",
        )


def shape_fields(model: Shape) -> dict[str, Any]:
    """The shape under the scenario's names."""
    flags = {"gated": bool(model.gated), "tied_embeddings": bool(model.tied)}
    return {name: flags[name] if name in flags else int(getattr(model, name)) for name in SHAPE}


class Size(NamedTuple):
    """Parameters of a model, and those of them that one token meets [1]."""

    parameters: float
    active: float


@lru_cache(maxsize=128)
def size_of(model: Shape) -> Size:
    """The size of a model. Kept: a plan asks six times, and few models are asked about."""
    return Size(float(transformer.parameters(model)), float(transformer.active_parameters(model)))


def usual_message(request: ModelRequest, catalog: Catalog) -> float:
    """Bytes that data parallelism reduces at a time: a bucket, or all gradients of a model that has fewer [B]."""
    gradients = 2 * size_of(shape(request, catalog)).parameters
    return min(catalog.training["communication"]["bucket"].typical, gradients)
