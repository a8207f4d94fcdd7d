"""The training step against published step times.

Every row of a file is predicted from its own columns. What a row leaves blank takes a documented default: facts of the
model from the catalogue model of the same shape, the network from the GPU's usual platform, settings from the stack's
traits. Leaving a source out refits the calibrated constants from their priors on everything else.
"""

import csv
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.catalog.entries import Model
from app.catalog.load import Catalog
from app.catalog.sampling import TYPICAL
from app.formulas import transformer
from app.formulas.arrays import Array
from app.formulas.training import memory
from app.formulas.training import step as training_step
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.transformer import Shape
from app.plan.band import interval
from app.plan.job import calibration as step_constants
from app.plan.job import inputs, shape
from app.plan.machine import CollectiveSystem, Transport, machine
from app.units import parse
from app.validation.statistics import Statistics, grouped, statistics, table

MEASUREMENTS = Path(__file__).parent / "measurements" / "training.csv"
PRIORS = Path(__file__).parent / "training_priors.toml"

SIGMA = 0.08
"""Scatter of published step times about a good model, on the logarithm; beyond twice this a row pulls linearly."""
STATED = ("tensor_parallel", "pipeline_parallel", "micro_batch", "recompute", "sharding")
WORDS = (
    (r"\beager\b", "fused", 0.0),
    (r"async[- ]?tp\b|\btp overlap|userbuffers", "overlap_tensor", 1.0),
    (r"cuda graphs? on\b", "graphs", 1.0),
)
NEEDED = ("gpus", "layers", "hidden", "heads", "sequence_length", "global_batch", "step_time_s")
NETWORKS = (
    "infiniband",
    "roce",
    "spectrum-x",
    "ultra-ethernet",
    "tcp",
    "efa",
    "slingshot",
    "gpudirect-tcp",
    "omni-path",
)
GIB = parse("1 GiB", "B")


# Rows ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One published step, every blank filled in."""

    run: str
    group: str
    stack: str
    trait_key: str
    gpu: str
    gpus: float
    gpus_per_node: float
    domain: float
    transport: str
    rate: float | None
    model: str
    shape: Shape
    sequence_length: float
    global_batch: float
    precision: str
    linear_bytes: float
    release: float
    tensor: float | None
    pipeline: float | None
    virtual_pipeline: float | None
    context: float
    expert: float
    micro_batch: float | None
    sharding: float
    sharding_group: float | None
    sequence_parallel: float
    recompute: str
    said: Mapping[str, float]
    measured: float
    memory: float | None
    identified: bool

    @property
    def experts(self) -> bool:
        return float(np.max(self.shape.experts)) > 0


def number(text: str | None) -> float | None:
    """A number, or ``None`` where the source does not say."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def release_of(version: str, source: str) -> float | None:
    """Year of a software release, from a version such as 25.04 or a year; ``None`` where neither is printed.

    A bare year is made more precise by the arXiv number of a paper, which describes the code of its own month.

    >>> round(release_of("NeMo 24.07", ""), 2), release_of("Megatron-LM 2021", ""), release_of("torchtitan", "")
    (2024.54, 2021.5, None)
    >>> round(release_of("Megatron-LM 2021", "SC21 (arXiv 2104.04473) Table 1"), 2)
    2021.29
    """
    for text in (version, source):
        match = re.search(r"(?<![\d.])v?(2[0-9])\.(0?[1-9]|1[0-2])(?![\d])", text)
        if match:
            return _year(match)
    match = re.search(r"(?<![\d.])(20[12]\d)(?![\d.])", version)
    if not match:
        return None
    paper = re.search(r"arXiv[: ](\d\d)(0[1-9]|1[0-2])\.\d{4,5}", source)
    return _year(paper) if paper else float(match[1]) + 0.5


def _year(match: re.Match[str]) -> float:
    """The middle of a month, from two digits of the year and the month."""
    return 2000 + int(match[1]) + (int(match[2]) - 0.5) / 12


def said(note: str) -> dict[str, float]:
    """Traits that a source states in words and that have no column.

    >>> said("FSDP eager"), said("2D + AsyncTP; compile")
    ({'fused': 0.0}, {'overlap_tensor': 1.0})
    """
    return {name: value for pattern, name, value in WORDS if re.search(pattern, note, re.IGNORECASE)}


def same_shape(row: Mapping[str, str], catalog: Catalog) -> Model | None:
    """The catalogue model with the row's hidden size, heads, feed-forward size and experts; of several, the best named.

    The number of layers may differ: sources print cut-down models too.
    """
    hidden, heads, kv_heads = number(row.get("hidden")), number(row.get("heads")), number(row.get("kv_heads"))
    ffn, experts = number(row.get("ffn_hidden")), number(row.get("experts")) or 0
    expert_ffn = number(row.get("expert_ffn_hidden"))

    def fits(model: Model) -> bool:
        return (
            model.hidden == hidden
            and model.heads == heads
            and kv_heads in (None, model.kv_heads)
            and (experts > 0 or ffn in (None, model.ffn_hidden))
            and model.experts == experts
            and (not experts or expert_ffn in (None, model.expert_ffn_hidden))
        )

    name = row.get("model", "").lower()

    def likeness(model: Model) -> tuple[bool, float]:
        return model.vocabulary == number(row.get("vocabulary")), SequenceMatcher(
            None, name, model.name.lower()
        ).ratio()

    return max((model for model in catalog.models.values() if fits(model)), key=likeness, default=None)


def shape_of(row: Mapping[str, str], catalog: Catalog) -> Shape:
    """The row's shape; what its columns lack comes from the catalogue model of the same shape, else from defaults.

    Defaults: a feed-forward block of exactly 4h is plain and any other gated, heads are h/H wide, embeddings are not
    tied, every layer of a mixture of experts is one, all heads have their own keys.
    """
    layers, hidden, heads = (number(row.get(name)) or 0.0 for name in ("layers", "hidden", "heads"))
    experts = number(row.get("experts")) or 0.0
    model = same_shape(row, catalog)
    if model is not None:
        base = shape.shape_of(model)
        leading = float(model.dense_layers)
        dense = leading + max(layers - leading, 0) * (1 - 1 / model.moe_every) if experts else layers
    else:
        ffn = number(row.get("ffn_hidden")) or (4 * hidden if not experts else 0.0)
        base = Shape(
            layers=layers,
            hidden=hidden,
            heads=heads,
            head_dim=hidden / heads,
            kv_heads=number(row.get("kv_heads")) or heads,
            ffn_hidden=ffn,
            gated=float(ffn != 4 * hidden),
            vocabulary=number(row.get("vocabulary")) or 50257.0,
            experts=experts,
            experts_per_token=number(row.get("experts_per_token")) or (2.0 if experts else 0.0),
            expert_ffn_hidden=number(row.get("expert_ffn_hidden")) or ffn,
            shared_experts=number(row.get("shared_experts")) or 0.0,
        )
        dense = 0.0 if experts else layers
    return replace(
        base,
        layers=layers,
        dense_layers=dense,
        vocabulary=number(row.get("vocabulary")) or base.vocabulary,
        experts_per_token=number(row.get("experts_per_token")) or base.experts_per_token,
    )


def read(path: Path, catalog: Catalog) -> tuple[list[Row], list[dict[str, str]]]:
    """The rows of a file that can be predicted, and those that cannot, with the reason."""
    rows: list[Row] = []
    skipped: list[dict[str, str]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        for line, raw in enumerate(csv.DictReader(file), start=2):
            run = raw.get("run") or f"line {line}"
            reason = _unusable(raw, catalog)
            if reason:
                skipped.append({"run": run, "reason": reason})
            else:
                rows.append(_row(run, raw, catalog))
    return rows, skipped


def _unusable(raw: Mapping[str, str], catalog: Catalog) -> str:
    if raw.get("gpu") not in catalog.gpus:
        return f"no GPU {raw.get('gpu')!r} in the catalogue"
    missing = [name for name in NEEDED if not (number(raw.get(name)) or 0) > 0]
    if missing:
        return f"no {', '.join(missing)}"
    if (raw.get("precision") or "bf16") not in step_constants.PRECISION_BYTES:
        return f"precision {raw.get('precision')!r}"
    return ""


def _row(run: str, raw: Mapping[str, str], catalog: Catalog) -> Row:
    gpu = catalog.gpus[raw["gpu"]]
    platform = catalog.platforms[gpu.platform]
    version, stack = raw.get("stack_version", ""), raw.get("stack", "")
    release = release_of(version, raw.get("source", ""))
    key = step_constants.stack_key(catalog, stack or version, release)
    trait = step_constants.traits(catalog, key)
    precision = raw.get("precision") or "bf16"
    gpus = number(raw["gpus"]) or 1.0
    node = number(raw.get("gpus_per_node")) or float(platform.gpus_per_node)
    sharding = raw.get("sharding", "")
    rate = number(raw.get("gbps_per_gpu"))
    parallel = number(raw.get("sequence_parallel"))
    shape = shape_of(raw, catalog)
    return Row(
        run=run,
        group=raw.get("group") or run,
        stack=stack or "unknown",
        trait_key=key,
        gpu=gpu.key,
        gpus=gpus,
        gpus_per_node=min(node, gpus),
        domain=min(number(raw.get("scale_up_domain")) or max(node, platform.scale_up_domain), gpus),
        transport=raw["scale_out"] if raw.get("scale_out") in NETWORKS else "infiniband",
        rate=parse(f"{rate} Gb/s", "B/s") if rate else None,
        model=raw.get("model", ""),
        shape=shape,
        sequence_length=number(raw["sequence_length"]) or 1.0,
        global_batch=number(raw["global_batch"]) or 1.0,
        precision=precision,
        linear_bytes=step_constants.peaks(gpu, precision)[2],
        release=trait["release"] if release is None else release,
        tensor=number(raw.get("tensor_parallel")),
        pipeline=number(raw.get("pipeline_parallel")),
        virtual_pipeline=number(raw.get("virtual_pipeline")),
        context=number(raw.get("context_parallel")) or 1.0,
        expert=number(raw.get("expert_parallel")) or 1.0,
        micro_batch=number(raw.get("micro_batch")),
        sharding=float(inputs.SHARDING.index(sharding)) if sharding in inputs.SHARDING else 1.0 - trait["dropout"],
        sharding_group=number(raw.get("sharding_group")),
        sequence_parallel=trait["sequence_parallel"] if parallel is None else parallel,
        recompute=raw.get("recompute") or "",
        said=said(raw.get("note", "")),
        measured=number(raw["step_time_s"]) or np.nan,
        memory=number(raw.get("memory_gb")),
        identified=all(raw.get(name) for name in STATED) and not np.max(shape.experts),
    )


# The model over many rows --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fleet:
    """Many rows as arrays, ready for the step model."""

    shape: Shape
    job: Job
    hardware: GpuRates
    parallelism: Parallelism
    software: Software
    linear_bytes: NDArray[np.float64]
    vendor_attention: NDArray[np.float64]
    release: NDArray[np.float64]
    kernels: Mapping[str, tuple[tuple[tuple[str, str], ...], NDArray[np.intp]]]
    measured: NDArray[np.float64]
    weight: NDArray[np.float64]

    def calibration(self, constant: step_constants.Sampling) -> Calibration:
        """The constants of each row, architectures gathered from theirs."""

        def gather(name: str) -> Array:
            keys, index = self.kernels[name]
            values = [np.asarray(constant(*key), float) for key in keys]
            shape = np.broadcast_shapes(*(value.shape for value in values))
            stacked = np.concatenate([np.broadcast_to(value, shape or (1,)) for value in values], axis=-1)
            return stacked[..., index]

        kernel = step_constants.Kernels(**{entry.name: gather(entry.name) for entry in fields(step_constants.Kernels)})
        return step_constants.calibration(constant, kernel, self.linear_bytes, self.vendor_attention, self.release)

    def log_time(self, constant: step_constants.Sampling) -> NDArray[np.float64]:
        """Logarithm of the predicted step time of every row."""
        cal = self.calibration(constant)
        step = training_step.step(self.shape, self.job, self.hardware, self.parallelism, self.software, cal)
        return np.asarray(np.log(step.time), float)

    def memory(self, constant: step_constants.Sampling) -> NDArray[np.float64]:
        """Predicted memory of every row [B]."""
        cal = self.calibration(constant)
        used = memory.memory(self.shape, self.job, self.parallelism, self.software, cal)
        return np.broadcast_to(used.total, self.measured.shape)


def typical(catalog: Catalog) -> step_constants.Sampling:
    """The catalogue's typical constants."""
    return lambda group, name: catalog.training[group][name].typical


def fleet(rows: Sequence[Row], catalog: Catalog) -> Fleet:
    """Rows as arrays; settings that a source leaves open get their defaults here.

    *Tensor parallel*: the smallest up to 8 that holds 8 bytes per parameter in 0.6 of the memory. *Pipeline*: none.
    *Micro-batch*: one with a pipeline (or so many that there are as many as stages), else about 16k tokens per
    tensor-parallel rank, fewer for large models, at most 8.
    *Virtual stages*: since 2022 as many as keep the idle share under a quarter; before, none. *Sharding group*: all
    replicas; fully sharded groups smaller than a node are taken as not stated.
    *Experts cut by tensor parallelism* in releases before spring 2025, as Megatron's default then was; whole since.
    *Recompute*: by the stack; "to fit" means just the share of layers that brings memory under budget.
    """
    column = {name: np.array([getattr(row, name) for row in rows], float) for name in (
        "gpus", "domain", "sequence_length", "global_batch", "linear_bytes", "release", "tensor", "pipeline",
        "virtual_pipeline", "context", "expert", "micro_batch", "sharding", "sharding_group", "sequence_parallel",
        "measured",
    )}  # fmt: skip
    shape = Shape(**{e.name: np.array([getattr(row.shape, e.name) for row in rows], float) for e in fields(Shape)})
    trait_of = {key: step_constants.traits(catalog, key) for key in {row.trait_key for row in rows}}
    trait = {
        name: np.array([row.said.get(name, trait_of[row.trait_key][name]) for row in rows])
        for name in trait_of[rows[0].trait_key]
    }
    cards = [catalog.gpus[row.gpu] for row in rows]
    budget = catalog.training["memory"]["budget"].typical
    capacity = np.array([card.memory.typical for card in cards])

    def blank(name: str) -> float:
        return catalog.training["blanks"][name].typical

    t = column["tensor"]
    needed = blank("state") * np.asarray(transformer.parameters(shape), float) / (blank("state_share") * capacity)
    t = np.where(
        np.isnan(t), np.clip(2 ** np.ceil(np.log2(np.maximum(needed, 1))), 1, np.minimum(8, column["gpus"])), t
    )
    p = np.where(np.isnan(column["pipeline"]), 1.0, column["pipeline"])
    c = column["context"]
    d = np.maximum(column["gpus"] / (t * p * c), 1 / c)
    large = np.minimum(np.sqrt(blank("large_model") / np.asarray(transformer.parameters(shape), float)), 1)
    usual = np.clip(blank("tokens") * t / column["sequence_length"] * large, 1, blank("micro_batch"))
    piped = np.where(trait["micro_batches_as_stages"] > 0, np.maximum(column["global_batch"] / (d * p), 1), 1.0)
    usual = np.where(p > 1, piped, 2 ** np.floor(np.log2(usual)))
    b = np.where(np.isnan(column["micro_batch"]), usual, column["micro_batch"])
    b = np.minimum(b, np.maximum(column["global_batch"] / d, 1e-9))
    layers = np.asarray(shape.layers)
    idle = (p - 1) / np.maximum(column["global_batch"] / (d * b), 1) / blank("idle")
    chunks = np.where(
        column["release"] >= blank("interleaved"), np.clip(np.ceil(idle), 1, np.maximum(layers // p, 1)), 1.0
    )
    v = np.where(np.isnan(column["virtual_pipeline"]), chunks, column["virtual_pipeline"])
    v = np.where(p > 1, v, 1.0)
    group = column["sharding_group"]
    tiny = (column["sharding"] > 2) & (group < np.minimum(column["domain"], d * c))
    group = np.where(np.isnan(group) | tiny, d * c, np.minimum(group, d * c))

    mixture = np.asarray(shape.experts) > 0
    cut = np.where(mixture & (column["release"] < catalog.training["maturity"]["whole_experts"].typical), t, 1.0)
    flash = trait["flash"] * np.array([_flash(catalog, row.gpu) for row in rows])
    early = column["release"] < catalog.training["maturity"]["biases"].typical
    fused = np.where(mixture & (np.asarray(shape.biases) > 0) & early, 0.0, trait["fused"])
    tuned = np.array([row.trait_key == step_constants.DEFAULT_STACK for row in rows])
    overlap = np.where((v > 1) | tuned, trait["overlap_expert"], 0.0)
    soft = step_constants.software({**trait, "flash": flash, "fused": fused, "overlap_expert": overlap})
    soft = replace(soft, flat_sharding=trait["flat_sharding"] * (column["sharding"] > 2))

    stated = np.array([{"none": 0.0, "selective": 0.0, "full": 1.0}.get(row.recompute, np.nan) for row in rows])
    par = Parallelism(
        tensor=t,
        pipeline=p,
        virtual_pipeline=v,
        context=c,
        expert=np.where(mixture, column["expert"], 1.0),
        data=d,
        expert_tensor=cut,
        micro_batch=b,
        sharding=column["sharding"],
        sharding_group=group,
        sequence_parallel=column["sequence_parallel"] * (t > 1),
        recompute=np.where(np.isnan(stated), trait["recompute_always"], stated),
        recompute_core=np.where(
            np.isnan(stated), trait["recompute_selective"], [float(row.recompute == "selective") for row in rows]
        ),
    )
    count = {name: sum(row.group == name for row in rows) for name in {row.group for row in rows}}
    made = Fleet(
        shape=shape,
        job=Job(
            column["sequence_length"],
            column["global_batch"],
            column["linear_bytes"],
            np.array([2.0 if row.precision == "fp16" else 4.0 for row in rows]),
        ),
        hardware=_hardware(rows, catalog),
        parallelism=par,
        software=soft,
        linear_bytes=column["linear_bytes"],
        vendor_attention=trait["vendor_attention"],
        release=column["release"],
        kernels=_kernel_index(rows, catalog),
        measured=column["measured"],
        weight=np.array([count[row.group] ** -0.5 for row in rows]),
    )
    open_ = np.isnan(stated) & (trait["recompute_to_fit"] > 0)
    bare = made.memory(typical(catalog))
    whole = replace(made, parallelism=replace(par, recompute=np.ones(len(rows)))).memory(typical(catalog))
    share = np.clip((bare - budget * capacity) / np.maximum(bare - whole, 1), 0, 1)
    share = np.ceil(share * np.asarray(shape.layers)) / np.asarray(shape.layers)
    return replace(made, parallelism=replace(par, recompute=np.where(open_, share, par.recompute)))


def _flash(catalog: Catalog, gpu: str) -> float:
    card = catalog.gpus[gpu]
    return catalog.training[step_constants.architecture_group(catalog, card, "flash")]["flash"].typical


def _system(catalog: Catalog, gpu: str, node: int, domain: int, transport: str, rate: float | None) -> CollectiveSystem:
    card = catalog.gpus[gpu]
    platform = catalog.platforms[card.platform]
    share = platform.nic_rate.times(platform.nics_per_node / platform.gpus_per_node)
    network = Transport(transport, share if rate is None else rate)
    return CollectiveSystem(gpu, card.scale_up, platform.scale_up_wiring, domain, node, network)


def _hardware(rows: Sequence[Row], catalog: Catalog) -> GpuRates:
    @cache
    def links(gpu: str, node: int, domain: int, transport: str, rate: float | None) -> tuple[Array, Array, Array]:
        return step_constants.links(machine(_system(catalog, gpu, node, domain, transport, rate), 2, TYPICAL, catalog))

    found = [links(row.gpu, int(row.gpus_per_node), int(row.domain), row.transport, row.rate) for row in rows]
    cards = [
        step_constants.card(catalog, catalog.gpus[row.gpu], row.precision, lambda estimate: estimate.typical)
        for row in rows
    ]
    return GpuRates(
        **{name: np.array([card[name] for card in cards]) for name in cards[0]},
        scale_up_bandwidth=np.array([float(np.ravel(link[0])[0]) for link in found]),
        scale_out_bandwidth=np.array([float(np.ravel(link[1])[0]) for link in found]),
        mesh_peers=np.array([float(np.ravel(link[2])[0]) for link in found]),
        scale_up_domain=np.array([row.domain for row in rows]),
    )


def _kernel_index(
    rows: Sequence[Row], catalog: Catalog
) -> dict[str, tuple[tuple[tuple[str, str], ...], NDArray[np.intp]]]:
    index = {}
    for entry in fields(step_constants.Kernels):
        keys = [
            (step_constants.architecture_group(catalog, catalog.gpus[row.gpu], entry.name), entry.name) for row in rows
        ]
        unique = tuple(dict.fromkeys(keys))
        index[entry.name] = unique, np.array([unique.index(key) for key in keys], np.intp)
    return index


# Fitting -------------------------------------------------------------------------------------------------------------


@cache
def priors() -> dict[tuple[str, str], tuple[float, float]]:
    """Prior of each fitted constant by group and name: what it is expected to be, and its relative spread."""
    tables = tomllib.loads(PRIORS.read_text(encoding="utf-8"))
    return {(g, n): (parse(v["typical"], "1"), v["spread"]) for g, names in tables.items() for n, v in names.items()}


def reading(logs: NDArray[np.float64], catalog: Catalog) -> step_constants.Sampling:
    """Constants from a fit's vector of logarithms, the rest from the catalogue. Leading axes of the vector lead."""
    place = {key: index for index, key in enumerate(priors())}
    plain = typical(catalog)

    def constant(group: str, name: str) -> Array:
        at = place.get((group, name))
        return plain(group, name) if at is None else np.exp(logs[..., at])[..., None]

    return constant


def fit(
    data: Fleet, catalog: Catalog, keep: NDArray[np.bool_], start: NDArray[np.float64] | None = None, steps: int = 12
) -> NDArray[np.float64]:
    """Logarithms of the constants that fit the kept rows best, from the priors.

    Robust least squares on the logarithm of the step time (Levenberg-Marquardt): quadratic within twice `SIGMA`, linear
    beyond; each source weighs the root of its rows; the logarithm of every constant has a Gaussian prior.
    """
    centre = np.log([typical for typical, _ in priors().values()])
    spread = np.array([width for _, width in priors().values()])
    target = np.log(data.measured)
    weight = data.weight[keep]
    x = centre.copy() if start is None else start.copy()

    def loss(logs: NDArray[np.float64], residual: NDArray[np.float64]) -> float:
        robust = 8 * weight * (np.sqrt(1 + (residual / (2 * SIGMA)) ** 2) - 1)
        return float(robust.sum() + (((logs - centre) / spread) ** 2).sum())

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return (data.log_time(reading(logs, catalog)) - target)[..., keep]

    nudge, damping = 1e-4, 1e-3
    for _ in range(steps):
        base = residuals(np.concatenate([x[None], x + nudge * np.eye(len(x))]))
        error, slope = base[0], ((base[1:] - base[0]) / nudge).T
        pull = weight / np.sqrt(1 + (error / (2 * SIGMA)) ** 2) / SIGMA**2
        curvature = slope.T @ (pull[:, None] * slope) + np.diag(spread**-2.0)
        gradient = slope.T @ (pull * error) + (x - centre) / spread**2
        before = loss(x, error)
        gained = 0.0
        while damping < 1e6 and gained <= 0:
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            trial = x - np.clip(move, -0.5, 0.5)
            gained = before - loss(trial, residuals(trial[None])[0])
            damping = damping / 10 if gained > 0 else damping * 10
        if gained > 0:
            x = trial
        if gained < 1e-3:
            break
    return x


def left_out(data: Fleet, rows: Sequence[Row], catalog: Catalog) -> dict[str, NDArray[np.float64]]:
    """The fit without each source in turn."""
    groups = np.array([row.group for row in rows])
    whole = fit(data, catalog, np.ones(len(rows), bool))
    return {name: fit(data, catalog, groups != name, whole, steps=6) for name in dict.fromkeys(groups)}


# Report --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """A row beside what the model says of it."""

    row: Row
    time: float
    low: float
    high: float
    memory: float
    baseline: float


def residual(catalog: Catalog, row: Row) -> float:
    """The model's own error for a row's class."""
    return step_constants.residual(
        catalog,
        catalog.gpus[row.gpu],
        row.experts,
        bool(step_constants.traits(catalog, row.trait_key)["vendor_attention"]),
    )


def predictions(rows: Sequence[Row], catalog: Catalog, leave_one_out: bool) -> list[Prediction]:
    """Every row predicted, with its band."""
    if not rows:
        return []
    data = fleet(rows, catalog)
    times = np.exp(data.log_time(typical(catalog)))
    if leave_one_out:
        known, _ = read(MEASUREMENTS, catalog)
        fitted = left_out(fleet(known, catalog), known, catalog)
        for name, constants in fitted.items():
            mine = np.array([row.group == name for row in rows])
            if mine.any():
                times = np.where(mine, np.exp(data.log_time(reading(constants, catalog))).ravel(), times)
    drawn = _drawn(data, catalog)
    low, high = interval(drawn, np.array([residual(catalog, row) for row in rows]))
    base = baseline(rows, catalog)
    memory = data.memory(typical(catalog))
    return [
        Prediction(row, float(t), float(t * lo / d), float(t * hi / d), float(m), float(one))
        for row, t, lo, hi, d, m, one in zip(rows, times, low, high, drawn[:, 0], memory, base, strict=True)
    ]


def _drawn(data: Fleet, catalog: Catalog) -> NDArray[np.float64]:
    """Step times of every row under the draws of all constants: (rows, draws)."""
    return np.exp(data.log_time(lambda group, name: catalog.training[group][name].draws()[:, None])).T


def baseline(rows: Sequence[Row], catalog: Catalog) -> NDArray[np.float64]:
    """Step times if all steps ran at one model FLOP/s utilisation for each GPU and precision.

    The median over the other sources; where none has that GPU and precision, over those of its architecture, else over
    all.
    """
    work = np.array(
        [
            float(transformer.training_flops(row.shape, row.sequence_length)) * row.sequence_length * row.global_batch
            for row in rows
        ]
    )
    cards = [catalog.gpus[row.gpu] for row in rows]
    peak = np.array(
        [step_constants.peaks(card, row.precision)[1].typical for card, row in zip(cards, rows, strict=True)]
    )
    best = work / np.array([row.gpus for row in rows]) / peak
    used = best / np.array([row.measured for row in rows])
    group, gpu = np.array([row.group for row in rows]), np.array([row.gpu for row in rows])
    size, architecture = np.array([row.linear_bytes for row in rows]), np.array([card.architecture for card in cards])
    known = np.empty(len(rows))
    for index in range(len(rows)):
        others = group != group[index]
        same = others & (size == size[index])
        pools = (same & (gpu == gpu[index]), same & (architecture == architecture[index]), others)
        pool = next((mask for mask in pools if mask.any()), np.arange(len(rows)) == index)
        known[index] = best[index] / np.median(used[pool])
    return known


def _score(found: Sequence[Prediction]) -> Statistics:
    return statistics(
        [p.time for p in found],
        [p.row.measured for p in found],
        [p.low for p in found],
        [p.high for p in found],
    )


def report(path: Path, catalog: Catalog, leave_one_out: bool = False) -> dict[str, Any]:
    """Predict every row of a file and say how far off, overall and by group."""
    rows, skipped = read(path, catalog)
    return summary(predictions(rows, catalog, leave_one_out), skipped, leave_one_out)


def summary(found: Sequence[Prediction], skipped: Sequence[Mapping[str, str]], leave_one_out: bool) -> dict[str, Any]:
    """The report of predictions already made. ``memory`` counts a source's GB as GiB, as PyTorch prints it."""
    sized = [p for p in found if p.row.memory]
    return {
        "rows": len(found),
        "skipped": list(skipped),
        "leave_one_out": leave_one_out,
        "overall": _score(found),
        "identified": _score([p for p in found if p.row.identified]),
        "dense": _score([p for p in found if not p.row.experts]),
        "moe": _score([p for p in found if p.row.experts]),
        "baseline": statistics([p.baseline for p in found], [p.row.measured for p in found]),
        "memory": statistics([p.memory for p in sized], [(p.row.memory or 0) * GIB for p in sized]),
        "by_group": grouped(found, lambda p: p.row.group, _score),
        "by_stack": grouped(found, lambda p: p.row.stack, _score),
        "by_gpu": grouped(found, lambda p: p.row.gpu, _score),
        "by_run": grouped(found, lambda p: p.row.run, _score),
    }


def text(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    how = (
        "each source left out of the calibration in turn" if report["leave_one_out"] else "calibrated on these sources"
    )
    names = ("overall", "identified", "dense", "moe", "baseline", "memory")
    parts = [
        f"{report['rows']} rows predicted, {len(report['skipped'])} skipped; {how}.",
        table({name: report[name] for name in names}, "step time"),
        table(report["by_group"], "source"),
        table(report["by_stack"], "stack"),
        table(report["by_gpu"], "GPU"),
    ]
    if report["skipped"]:
        parts.append("Skipped:\n" + "\n".join(f"  {entry['run']}: {entry['reason']}" for entry in report["skipped"]))
    return "\n\n".join(parts)
