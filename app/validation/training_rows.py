"""Published training steps: each row of a file as a scenario, every blank filled by a rule that stands here.

Facts of the model come from the catalogue model of the same shape, the network from the GPU's usual platform, settings
from the stack's traits. What a row states of its software in words of a note counts as stated.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from app.catalog.entries import Gpu, Model
from app.catalog.load import Catalog, architecture_group
from app.formulas import transformer
from app.formulas.training import memory
from app.plan.cluster import look_up
from app.plan.communication import of_scenario
from app.plan.job import calibration
from app.plan.job.inputs import RECOMPUTE, SHARDING, JobRequest, JobSetup, named, step_inputs
from app.plan.job.shape import shape
from app.plan.scenario import ModelRequest, ParallelismRequest, Scenario
from app.validation.row_names import (
    Network,
    network_named,
    network_refused,
    network_taken,
    ports_of,
    rate_of_a_gpu,
    rate_stated,
)
from app.validation.statistics import number, reading
from app.validation.training_words import OF_SHAPE, in_words

MEASUREMENTS = Path(__file__).parent / "measurements" / "training.csv"

STATED = ("tensor_parallel", "pipeline_parallel", "micro_batch", "recompute", "sharding")
WORDS: tuple[tuple[str, str, Any], ...] = (
    (r"\beager\b", "fused", False),
    (r"async[- ]?tp\b|\btp overlap|userbuffers", "overlap_tensor", True),
    (r"cuda graphs? on\b", "graphs", "full"),
)
CLUSTER = ("group", "stack", "model", "gpu", "precision", "stack_version")
NOT_STATED = "not stated"
NEEDED = ("gpus", "layers", "hidden", "heads", "sequence_length", "global_batch", "step_time_s")
USUAL_VOCABULARY = 50257
"""GPT-2's, where a source does not print the vocabulary."""


@dataclass(frozen=True)
class Row:
    """One published step: the question it answers, and what was measured.

    ``cluster`` is what its source says of one stack, model, GPU, precision and release: such rows err alike. ``regime``
    says how well the run was tuned: tuned, recipe (an example, a baseline, a sweep) or functional. ``unstated``: its
    source does not say its micro-batch, how it is spread, or its shape. ``borrowed``: its stack is taken for another,
    by its name. ``taken``: what else of it is taken for something else.
    """

    run: str
    group: str
    cluster: str
    stack: str
    model: str
    regime: str
    routing: str
    question: Scenario
    experts: bool
    measured: float
    memory: float | None
    memory_kind: str
    identified: bool
    unstated: bool
    borrowed: bool
    taken: tuple[str, ...] = ()

    def scenario(self) -> Scenario:
        """The row as a question to the planner, with every setting that decides its step filled in."""
        return self.question


def whole(text: str | None) -> int | None:
    """A whole number, or ``None`` where the source does not say."""
    value = number(text)
    return None if value is None else round(value)


def flag(text: str | None) -> bool | None:
    """Whether, or ``None`` where the source does not say."""
    value = number(text)
    return None if value is None else value > 0


def one_of(text: str | None, *words: str) -> str | None:
    """A word that is known, or ``None``."""
    return text if text in words else None


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


def said(note: str) -> dict[str, Any]:
    """Settings that a source states in words and that have no column.

    >>> said("FSDP eager"), said("2D + AsyncTP; compile")
    ({'fused': False}, {'overlap_tensor': True})
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

    fitting = [model for model in catalog.models.values() if fits(model)]
    return max(fitting, key=likeness) if len(fitting) > 1 else next(iter(fitting), None)


def model_of(row: Mapping[str, str], catalog: Catalog) -> dict[str, Any]:
    """The row's model: the catalogue's of the same shape with what the row states beside it, or one of its own.

    Where only its size is known it has a shape by rule. One of its own: a feed-forward block of exactly 4h is plain and
    any other gated, heads are h/H wide, embeddings are not tied, every layer of a mixture of experts is one, all heads
    have their own keys.
    """
    if row.get("size"):
        return {"model": row["size"]} | {name: whole(row.get(name)) or None for name in ("layers", "vocabulary")}
    model = same_shape(row, catalog)
    if model is not None:
        names = ("layers", "vocabulary", "experts_per_token")
        return {"model": model.key} | {name: whole(row.get(name)) or None for name in names}
    hidden, experts = whole(row.get("hidden")) or 0, whole(row.get("experts")) or 0
    ffn = whole(row.get("ffn_hidden")) or (None if experts else 4 * hidden)
    fields = {
        "model": "custom",
        "layers": whole(row.get("layers")),
        "hidden": hidden,
        "heads": whole(row.get("heads")),
        "kv_heads": whole(row.get("kv_heads")) or None,
        "ffn_hidden": ffn,
        "gated": ffn != 4 * hidden,
        "vocabulary": whole(row.get("vocabulary")) or USUAL_VOCABULARY,
    }
    if experts:
        fields |= {
            "experts": experts,
            "experts_per_token": whole(row.get("experts_per_token")),
            "expert_ffn_hidden": whole(row.get("expert_ffn_hidden")) or ffn,
            "shared_experts": whole(row.get("shared_experts")),
        }
    return fields


def read(path: Path, catalog: Catalog) -> tuple[list[Row], list[dict[str, str]]]:
    """The rows of a file that can be predicted, and those that cannot, with the reason."""
    rows: list[Row] = []
    skipped: list[dict[str, str]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        for line, printed in enumerate(csv.DictReader(file), start=2):
            raw, taken = in_words(printed, catalog)
            run = raw.get("run") or f"line {line}"
            reason = refusal(raw, catalog)
            if not reason:
                try:
                    row = row_of(run, raw, catalog)
                    rows.append(replace(row, taken=(*taken, *_network_taken(row, printed, catalog))))
                except ValidationError as error:
                    first = error.errors()[0]
                    reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            if reason:
                skipped.append({"run": run, "reason": reason})
    return rows, skipped


def _network_taken(row: Row, printed: Mapping[str, str], catalog: Catalog) -> Iterator[str]:
    """What stands in for the network of a row whose GPUs do not share one scale-up domain."""
    if row.question.gpus > (row.question.scale_up_domain or 0):
        text = (printed.get("scale_out") or "").strip()
        yield from network_taken(network_named(text, catalog), text, rate_stated(printed.get("gbps_per_gpu") or ""))


def refusal(raw: Mapping[str, str], catalog: Catalog) -> str:
    """Why a row cannot be predicted; nothing where it can."""
    if raw.get("gpu") not in catalog.gpus:
        return f"no GPU {raw.get('gpu')!r} in the catalogue"
    missing = [name for name in NEEDED if not reading(raw.get(name)) and not (raw.get("size") and name in OF_SHAPE)]
    if number(raw.get("experts")) and not number(raw.get("experts_per_token")) and not same_shape(raw, catalog):
        missing.append("experts_per_token")
    if missing:
        return f"no {', '.join(missing)}"
    if (raw.get("precision") or "bf16") not in calibration.PRECISION_BYTES:
        return f"precision {raw.get('precision')!r}"
    return network_refused(raw.get("scale_out", ""))


def row_of(run: str, raw: Mapping[str, str], catalog: Catalog) -> Row:
    """A row of the file as a question to the planner and what was measured."""
    stack = raw.get("stack", "")
    question = scenario_of(raw, catalog)
    experts = float(shape(question.part(ModelRequest), catalog).experts) > 0
    return Row(
        run=run,
        group=raw.get("group") or run,
        cluster="/".join(raw.get(name) or "" for name in CLUSTER),
        stack=stack or "unknown",
        model=raw.get("model", ""),
        regime=raw.get("regime") or NOT_STATED,
        routing=raw.get("routing") or NOT_STATED,
        question=question,
        experts=experts,
        measured=reading(raw["step_time_s"]) or np.nan,
        memory=reading(raw.get("memory_gb")),
        memory_kind=raw.get("memory_kind") or NOT_STATED,
        identified=all(raw.get(name) for name in STATED) and not experts,
        borrowed=bool(stack) and stack.strip().lower() not in catalog.stacks,
        unstated=not (raw.get("tensor_parallel") and raw.get("micro_batch")) or bool(raw.get("size")),
    )


# Blanks --------------------------------------------------------------------------------------------------------------


def scenario_of(raw: Mapping[str, str], catalog: Catalog) -> Scenario:
    """The row's question, every blank filled in.

    What the row states is taken as it stands; the rest is filled in the order in which it builds on itself: cluster,
    network, model, software, degrees (`degrees_of`), recomputation (`recomputation_of`). Of a stack's dated variants a
    printed version picks the nearest; a date alone may be that of a paper, long after its software.
    """
    name, version = raw.get("stack", ""), raw.get("stack_version", "")
    printed = release_of(version, raw.get("source", ""))
    release = number(raw.get("release_date")) or printed
    stack = calibration.stack_key(catalog, name or version, printed)
    if release is None:
        stack, release = undated(stack, catalog.gpus[raw["gpu"]], catalog)
    stated = cluster_of(raw, catalog) | model_of(raw, catalog) | software_of(raw)
    stated |= {
        "stack": stack,
        "software_date": release,
        "sequence_length": whole(raw["sequence_length"]),
        "global_batch": whole(raw["global_batch"]),
        "precision": raw.get("precision") or "bf16",
        "layout": raw.get("layout") or None,
    }
    question = Scenario.model_validate(stated)
    question = question.model_copy(update=degrees_of(raw, question, catalog))
    return Scenario.model_validate(vars(question) | recomputation_of(raw, question, catalog))


def undated(stack: str, gpu: Gpu, catalog: Catalog) -> tuple[str, float | None]:
    """The variant of a vendors' stack, and the year of its release, where nobody says which it was.

    Undated software is not the newest: it is taken to be as old as a GPU's first tuned releases, some months after its
    architecture's launch, or as the stack itself. An open stack, which one laboratory makes or keeps, has its own date.

    >>> from app.catalog.load import load_catalog
    >>> book = load_catalog()
    >>> undated("nemo", book.gpus["h100-sxm"], book), undated("internevo", book.gpus["a100-sxm"], book)
    (('nemo-2024', None), ('internevo', None))
    """
    if not calibration.traits(catalog, stack)["vendor"] > 0:
        return stack, None
    launched = catalog.training[architecture_group(catalog.training, gpu, "launched")]["launched"].typical
    day = launched + catalog.training["blanks"]["undated"].typical
    variant = calibration.stack_key(catalog, stack, day)
    others = variant != calibration.DEFAULT_STACK
    return variant, None if others else day


def cluster_of(raw: Mapping[str, str], catalog: Catalog) -> dict[str, Any]:
    """GPUs, nodes and network; what is blank is the GPU's usual platform's."""
    gpu, gpus = raw["gpu"], whole(raw["gpus"]) or 1
    platform = catalog.platforms[catalog.gpus[gpu].platform]
    node = whole(raw.get("gpus_per_node")) or platform.gpus_per_node
    named = Network(raw.get("scale_out", ""), None)
    rate = rate_stated(raw.get("gbps_per_gpu", "")) or rate_of_a_gpu(named, gpu, catalog)
    ports = ports_of(named.family, rate, min(node, gpus), gpu, catalog)
    return {
        "gpu": gpu,
        "gpus": gpus,
        "gpus_per_node": min(node, gpus),
        "scale_up_domain": evenly(gpus, whole(raw.get("scale_up_domain")) or max(node, platform.scale_up_domain), node),
        **ports.fields,
    }


def evenly(gpus: int, domain: int, node: int) -> int:
    """GPUs of a scale-up domain that a measured job takes: whole nodes of over half of it that share all out evenly.

    Where there are none, the whole domain.

    >>> evenly(512, 72, 4), evenly(576, 72, 4), evenly(1024, 8, 8), evenly(16, 72, 4)
    (64, 72, 8, 16)
    """
    shares = (size for size in range(domain // node * node, domain // 2, -node) if gpus % size == 0)
    return gpus if gpus <= domain else next(shares, domain)


def compiled(raw: Mapping[str, str]) -> bool | None:
    """Whether a compiler fuses the elementwise work; off, it stays eager only where no kernels are fused by hand."""
    on = flag(raw.get("compile"))
    return on if on or re.search(r"titan|fsdp|pytorch", raw.get("stack", "")) else None


def software_of(raw: Mapping[str, str]) -> dict[str, Any]:
    """What a row states of its software, by the scenario's names; blank where its stack's traits hold."""
    kernel = {"memory-efficient": "sdpa"}.get(raw.get("attention_kernel", ""), raw.get("attention_kernel"))
    offload = "+".join(sorted((raw.get("offload") or "").split("+")))
    stated = {
        "attention_kernel": one_of(kernel, "unfused", "flash", "te-fused", "sdpa"),
        "fused": compiled(raw),
        "graphs": one_of(raw.get("graphs"), "none", "partial", "full"),
        "gradient_bytes": number(raw.get("gradient_bytes")),
        "overlap_tensor": flag(raw.get("tensor_overlap")),
        "overlap_data": flag(raw.get("data_overlap")),
        "overlap_expert": flag(raw.get("expert_overlap")),
        "dispatcher": one_of(raw.get("dispatcher"), "all-to-all", "all-gather", "deepep", "hybridep"),
        "regime": one_of(raw.get("regime"), "tuned", "recipe", "functional"),
        "routing": one_of(raw.get("routing"), "balanced", "natural", "dropped"),
        "offload": one_of(offload, "none", "activations", "optimizer", "activations+optimizer"),
    }
    if not stated["routing"] and stated["regime"] == "tuned":
        stated["routing"] = "balanced"
    return said(raw.get("note", "")) | {name: value for name, value in stated.items() if value is not None}


def degrees_of(raw: Mapping[str, str], question: Scenario, catalog: Catalog) -> dict[str, Any]:
    """How the row is spread over its GPUs: by rule where blank, or by the planner's search if that would not fit."""
    usual = usual_degrees(raw, question, catalog)
    if any(raw.get(name) for name in ("tensor_parallel", "pipeline_parallel", "sharding")):
        return usual
    leanest = question.model_copy(update=usual | {"recompute": "full"})
    fits = setup_of(leanest, catalog).search(1.0, timed=False).feasible
    return usual if fits else searched(raw, question, catalog) or usual


def usual_degrees(raw: Mapping[str, str], question: Scenario, catalog: Catalog) -> dict[str, Any]:
    """The row's degrees, blanks filled by rule.

    *Tensor parallel*: the smallest up to 8 that holds 8 bytes per parameter in 0.6 of the memory. *Pipeline*: none.
    *Micro-batch*: one with a pipeline (or so many that there are as many as stages), else about 16k tokens per
    tensor-parallel rank, fewer for large models, at most 8. *Virtual stages*: since 2022 as many as keep the idle share
    under a quarter; before, none. *Sharding*: the optimizer state, in stacks of before 2023 nothing; its group: all
    replicas; fully sharded groups smaller than a node are taken as not stated. *Sequence parallel*: as the stack does.
    """
    trait = calibration.traits(catalog, question.stack or calibration.DEFAULT_STACK)
    model = shape(question.part(ModelRequest), catalog)
    parameters, gpus, batch = float(transformer.parameters(model)), question.gpus, float(raw["global_batch"])

    def blank(name: str) -> float:
        return catalog.training["blanks"][name].typical

    needed = blank("state") * parameters / (blank("state_share") * catalog.gpus[question.gpu].memory.typical)
    t = whole(raw.get("tensor_parallel")) or int(min(2 ** np.ceil(np.log2(max(needed, 1))), 8, gpus))
    p = whole(raw.get("pipeline_parallel")) or 1
    c = whole(raw.get("context_parallel")) or 1
    d = max(gpus / (t * p * c), 1 / c)
    large = min((blank("large_model") / parameters) ** 0.5, 1.0)
    usual = np.clip(blank("tokens") * t / question.sequence_length * large, 1, blank("micro_batch"))
    piped = max(batch / (d * p), 1.0) if trait["micro_batches_as_stages"] > 0 else 1.0
    b = number(raw.get("micro_batch")) or (piped if p > 1 else 2 ** np.floor(np.log2(usual)))
    b = max(int(min(b, batch / d)), 1)
    sharding = one_of(raw.get("sharding"), *SHARDING) or ("none" if trait["dropout"] > 0 else "optimizer")
    group = whole(raw.get("sharding_group"))
    tiny = group is not None and sharding == "parameters" and group < min(question.scale_up_domain or 1, d * c)
    stages = 1
    if p > 1 and (question.software_date or trait["release"]) >= blank("interleaved"):
        stages = chunks(int(model.layers + model.prediction_layers), p, batch / (d * b), blank("idle"))
    sequence_parallel = flag(raw.get("sequence_parallel"))
    return {
        "tensor_parallel": t,
        "pipeline_parallel": p,
        "virtual_pipeline": (whole(raw.get("virtual_pipeline")) or stages) if p > 1 else 1,
        "context_parallel": c,
        "expert_parallel": (whole(raw.get("expert_parallel")) or 1) if float(model.experts) > 0 else 1,
        "expert_tensor_parallel": whole(raw.get("expert_tensor_parallel")) or None,
        "micro_batch": b,
        "sharding": sharding,
        "sharding_group": None if tiny or not group else group,
        "sequence_parallel": trait["sequence_parallel"] > 0 if sequence_parallel is None else sequence_parallel,
    }


def searched(raw: Mapping[str, str], question: Scenario, catalog: Catalog) -> dict[str, Any]:
    """The planner's own best degrees, where a source states none; nothing where none fits."""
    stated = {
        "micro_batch": whole(raw.get("micro_batch")) or None,
        "recompute": one_of(raw.get("recompute"), *RECOMPUTE),
        "expert_parallel": whole(raw.get("expert_parallel")) or None,
    }
    setup = setup_of(question.model_copy(update=stated), catalog)
    best = setup.search(quickest=1).best()
    if best is None:
        return {}
    chosen = vars(named(best, setup.inputs))
    names = (
        "tensor_parallel", "pipeline_parallel", "virtual_pipeline", "context_parallel", "expert_parallel",
        "expert_tensor_parallel", "micro_batch", "sharding", "sequence_parallel",
    )  # fmt: skip
    return {name: chosen[name] for name in names}


def chunks(depth: int, stages: int, micro_batches: float, idle: float) -> int:
    """Model chunks on each stage: the fewest that keep the bubble under a share, or the most that divide the layers.

    >>> chunks(32, 4, 4, 0.25), chunks(32, 4, 64, 0.25), chunks(31, 4, 4, 0.25)
    (4, 1, 1)
    """
    wanted = (stages - 1) / max(micro_batches, 1) / idle
    most = depth // stages
    even = [v for v in range(1, most + 1) if depth % (stages * v) == 0 or (depth + 2) % (stages * v) == 0]
    if micro_batches % stages:
        even = even[:1]
    return next((v for v in even if v >= wanted), even[-1] if even else 1)


def recomputation_of(raw: Mapping[str, str], question: Scenario, catalog: Catalog) -> dict[str, Any]:
    """What is computed again: as stated, else as the stack does, else just so much as memory needs.

    First what is cheap, where the stack can repeat it alone (norms, activation functions, the widening of latent
    attention); then so many whole layers as the stack is known to set to fit: recipes of some are never so.
    """
    trait = calibration.traits(catalog, question.stack or calibration.DEFAULT_STACK)
    stated = one_of(raw.get("recompute"), *RECOMPUTE)
    usual = "full" if trait["recompute_always"] > 0 else "selective" if trait["recompute_selective"] > 0 else "none"
    if stated or usual == "full":
        return {"recompute": stated or usual}
    modules = usual == "none" and trait["selective_modules"] > 0
    if not (modules or trait["recompute_to_fit"] > 0):
        return {"recompute": usual}
    budget = catalog.training["memory"]["budget"].typical * catalog.gpus[question.gpu].memory.typical
    setup = setup_of(question, catalog)
    layers = float(setup.inputs.shape.layers)

    def needed(kind: str, whole_layers: int) -> float:
        recomputing = question.model_copy(update={"recompute": kind, "recompute_layers": whole_layers})
        spread = recomputing.part(ParallelismRequest)
        return memory_of(replace(setup, fixed=setup.fixed_as(spread)))

    bare = needed(usual, 0)
    if bare > budget and modules:
        usual, bare = "selective", needed("selective", 0)
    if not trait["recompute_to_fit"] > 0:
        return {"recompute": usual}
    share = min(max((bare - budget) / max(bare - needed(usual, round(layers)), 1), 0), 1)
    return {"recompute": usual, "recompute_layers": int(np.ceil(share * layers)) or None}


def setup_of(scenario: Scenario, catalog: Catalog) -> JobSetup:
    """The row's job as the planner sets it up, with typical values."""
    cluster, request = look_up(scenario, catalog), JobRequest.of(scenario, catalog)
    inputs = step_inputs(cluster, of_scenario(scenario, catalog), request, catalog)
    return JobSetup.of(cluster, request, catalog, inputs)


def memory_of(setup: JobSetup) -> float:
    """Memory of the fullest GPU, where everything is given [B]."""
    n, par = setup.inputs, setup.search(budget=1.0).parallelism
    return float(memory.memory(n.shape, n.job, par, n.software, n.calibration).total)
