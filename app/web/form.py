"""The form of a scenario: each field of the model as a control, with what was typed and what was wrong with it."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from app import units
from app.catalog.estimate import EARLY
from app.catalog.load import Catalog
from app.plan.job.shape import model_name
from app.plan.scenario import PLAIN, Key, ModelRequest, Scenario, group_of
from app.web import problems
from app.web.field_marks import marks, quantity
from app.web.requests import values_of

GROUPS = {
    "cluster": "Cluster",
    "network": "Network",
    "model": "Model",
    "shape": "A model of your own",
    "serving": "Workload",
    "parallelism": "Parallelism",
    "software": "Software",
    "collective": "Collective",
    "operation": "Operation",
    "prices": "Prices",
}
FIRST = frozenset(
    {
        "gpu", "gpus", "scale_up",
        "scale_out", "topology", "oversubscription",
        "model", "training_tokens", "sequence_length", "global_batch", "workload",
    }
)  # fmt: skip
"""The fields a planner always sees; the rest of a group is folded."""
ELSEWHERE = "serving"
"""The group whose other fields have a page of their own, `/serve`."""

BESIDE = {"switch": "scale_out", "spine_switch": "scale_out", "platform": "gpu", "scale_up": "gpu"}
"""The field that decides which entries of another one's list fit."""

IMPLIED = ("model", "parameters")
"""What may follow from other fields: a model of one's own from its shape, its parameters from a model such as 100B."""

LABELS = {
    "rail-optimized": "Rail-optimised",
    "rail-only": "Rail only",
    "torus-2d": "2D torus",
    "torus-3d": "3D torus",
    "1f1b": "1F1B",
    "dualpipe": "DualPipe",
    "nvls": "NVLS",
    "nvls-tree": "NVLS tree",
    "collnet": "CollNet (SHARP)",
    "recursive-halving-doubling": "Recursive halving-doubling",
    "ll": "LL",
    "pfc": "PFC",
    "ecn": "ECN",
    "own": "The network’s own",
    "ll128": "LL128",
    "peer-to-peer": "PCIe peer-to-peer",
    "host": "Through the host",
    "no-peer-to-peer": "No peer-to-peer",
    "bf16": "BF16",
    "fp16": "FP16",
    "fp8": "FP8",
    "mxfp8": "MXFP8",
    "nvfp4": "NVFP4",
    "hashing": "Static hashing (ECMP)",
    "flowlet": "Enhanced hashing or flowlets",
    "adaptive": "Adaptive routing",
    "spraying": "Packet spraying",
    "aec": "AEC",
    "aoc": "AOC",
    "lpo": "LPO",
    "lro": "LRO",
    "tp-cp-ep-dp-pp": "Replicas near, stages apart (tp-cp-ep-dp-pp)",
    "tp-cp-ep-pp-dp": "Whole pipelines together (tp-cp-ep-pp-dp)",
    "te-fused": "TE fused (Transformer Engine)",
    "flash": "Flash (open kernel)",
    "sdpa": "SDPA (PyTorch)",
    "deepep": "DeepEP",
    "hybridep": "HybridEP",
    "activations+optimizer": "Activations and optimizer",
    "mxfp4": "MXFP4",
    "int4": "INT4",
    "p90": "90th percentile",
    "p99": "99th percentile",
    "none": "None",
    "true": "Yes",
    "false": "No",
}
FAMILIES = {
    "infiniband": "InfiniBand",
    "roce": "Ethernet with RoCE",
    "spectrum-x": "Spectrum-X Ethernet",
    "ultra-ethernet": "Ultra Ethernet",
    "tcp": "Ethernet with TCP",
    "efa": "AWS EFA",
    "slingshot": "Slingshot",
    "gpudirect-tcp": "GPUDirect-TCP",
    "omni-path": "Omni-Path",
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "infinity-fabric": "Infinity Fabric",
    "ualink": "UALink",
    "ethernet": "Ethernet",
    "llama": "Llama",
    "gpt": "GPT, OPT and Megatron",
    "nemotron": "Nemotron",
    "mpt": "MPT",
    "pythia": "Pythia",
    "mistral": "Mistral",
    "deepseek": "DeepSeek",
    "kimi": "Kimi",
    "minimax": "MiniMax",
    "glm": "GLM",
    "qwen": "Qwen",
    "gemma": "Gemma",
    "cohere": "Cohere",
    "phi": "Phi",
    "olmo": "OLMo",
    "grok": "Grok",
    "dbrx": "DBRX",
    "bloom": "BLOOM",
    "falcon": "Falcon",
    "internlm": "InternLM",
    "yi": "Yi",
    "arctic": "Snowflake Arctic",
    "hunyuan": "Tencent Hunyuan",
    "ernie": "ERNIE",
    "dots": "dots.llm",
    "ling": "Ling",
    "exaone": "EXAONE",
    "trinity": "Arcee Trinity",
}


@dataclass(frozen=True)
class Option:
    value: str
    label: str


@dataclass(frozen=True, eq=False)
class Control:
    """One field as a native control. ``default`` is the text that means the same as leaving the field out.

    Those of one field, value and meaning of its blank are one object, so that a page need not be drawn anew with each.
    """

    name: str
    title: str
    hint: str
    value: str
    default: str
    placeholder: str
    options: tuple[tuple[str, tuple[Option, ...]], ...]
    numeric: bool
    error: str

    @property
    def changed(self) -> bool:
        """Whether the reader asked for something else than the default."""
        return self.value not in ("", self.default)


@dataclass(frozen=True)
class Group:
    key: str
    title: str
    first: tuple[Control, ...]
    rest: tuple[Control, ...]

    @property
    def open(self) -> bool:
        """Whether the folded part holds something the reader should see."""
        return any(control.changed or control.error for control in self.rest)


@dataclass(frozen=True)
class Form:
    """The whole form, and the errors in the order of its fields, for the summary on top."""

    groups: tuple[Group, ...]
    errors: tuple[tuple[str, str, str], ...]
    prefix: str = ""


@dataclass(frozen=True)
class BoundForm:
    """What a query string asks: a scenario, or what is wrong with each field; and the text as typed.

    ``answered`` is the scenario that an answer is of: without fields that there are not, and with each that is wrong at
    its default; ``None`` where the others do not go together.
    """

    scenario: Scenario | None
    typed: Mapping[str, Any]
    errors: Mapping[str, str]
    kind: type[Scenario] = Scenario
    answered: Scenario | None = None


def bind(
    pairs: Iterable[tuple[str, str]],
    catalog: Catalog,
    prefix: str = "",
    kind: type[Scenario] = Scenario,
    repeatable: Container[str] = frozenset(),
) -> BoundForm:
    """Read a query string; its keys are those of this catalogue.

    Of a repeated field the last one counts, and a blank means the default.

    >>> from app.catalog.load import load_catalog
    >>> bind([("gpus", "64"), ("gpu", "")], load_catalog()).scenario.gpus
    64
    >>> bind([("gpus", "twelve")], load_catalog()).errors
    {'gpus': 'Type a whole number, for example 1024 or 16k.'}
    >>> bind([("gpus", "twelve"), ("gpu", "gb200")], load_catalog()).answered.query()
    'gpu=gb200'
    """
    typed: dict[str, Any] = {}
    for name, value in pairs:
        field = name.removeprefix(prefix)
        if not name.startswith(prefix):
            continue
        if field not in repeatable:
            typed[field] = value
        elif value.strip():
            typed[field] = (*typed.get(field, ()), *values_of(field, value))
    context = {"catalog": catalog}
    try:
        scenario = kind.model_validate(typed, context=context)
    except ValidationError as error:
        problem = problems.from_validation(error, kind).problem
        wrong = {item.pointer.removeprefix("#").lstrip("/").split("/")[0]: item.detail for item in problem.errors}
        others = {name: value for name, value in typed.items() if name not in wrong}
        with suppress(ValidationError):
            return BoundForm(None, typed, wrong, kind, kind.model_validate(others, context=context))
        return BoundForm(None, typed, wrong, kind)
    values = scenario.asked()
    implied = {
        name: written(values[name], unit_of(name, kind)) for name in IMPLIED if name in values and not typed.get(name)
    }
    return BoundForm(scenario, typed | implied, {}, kind, scenario)


def form(bound: BoundForm, catalog: Catalog, resolved: Mapping[str, Any] | None = None, prefix: str = "") -> Form:
    """The form as asked; ``resolved`` names what stands behind each blank."""
    groups = []
    for key, legend in GROUPS.items():
        names = [name for name, group in group_of(Scenario).items() if group == key]
        controls = [
            _control(name, bound, catalog, resolved or {}) for name in names if key != ELSEWHERE or name in FIRST
        ]
        first = tuple(control for control in controls if control.name in FIRST)
        groups.append(Group(key, legend, first, tuple(control for control in controls if control.name not in FIRST)))
    in_order = [control for group in groups for control in (*group.first, *group.rest)]
    errors = [(control.name, control.title, control.error) for control in in_order if control.error]
    shown = {control.name for control in in_order}
    strangers = [("", title(name), text) for name, text in bound.errors.items() if name not in shown]
    return Form(tuple(groups), (*errors, *strangers), prefix)


@dataclass(frozen=True)
class Choices:
    """A field that takes several entries of the catalogue, as boxes to tick."""

    name: str
    title: str
    hint: str
    groups: tuple[tuple[str, tuple[Option, ...]], ...]
    chosen: tuple[str, ...]
    default: tuple[str, ...]
    error: str


def controls(
    bound: BoundForm, catalog: Catalog, names: Sequence[str], resolved: Mapping[str, Any] | None = None
) -> list[Control]:
    """Some fields of a question as controls; ``resolved`` names what stands behind each blank."""
    return [_control(name, bound, catalog, resolved or {}) for name in names]


def choices(bound: BoundForm, catalog: Catalog, name: str) -> Choices:
    """A field that may repeat; what is ticked, and what is by default, in the order of the boxes."""
    field = bound.kind.model_fields[name]
    key = next(mark for mark in _marks(name, bound.kind) if isinstance(mark, Key))
    groups = _entries(name, key, catalog, None)
    boxes = [option.value for _, options in groups for option in options]

    def in_order(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(values, key=lambda value: boxes.index(value) if value in boxes else len(boxes)))

    return Choices(
        name=name,
        title=field.title or name,
        hint=field.description or "",
        groups=groups,
        chosen=in_order(bound.typed.get(name) or field.default),
        default=in_order(field.default),
        error=bound.errors.get(name, ""),
    )


def title(name: str, kind: type[Scenario] = Scenario) -> str:
    """A field's name for people."""
    field = kind.model_fields.get(name)
    return (field.title if field else None) or name


def summary(scenario: Scenario, catalog: Catalog) -> str:
    """The scenario in one line."""
    return ", ".join(_asked_for(scenario, catalog))


def _asked_for(scenario: Scenario, catalog: Catalog) -> tuple[str, str, str]:
    """GPUs, network and model; each name may have commas of its own."""
    gpu, network = catalog.gpus[scenario.gpu].name, catalog.scale_out[scenario.scale_out].name
    return f"{scenario.gpus:,} × {gpu}", network, model_name(scenario.part(ModelRequest), catalog)


def parts(scenario: Scenario, catalog: Catalog) -> list[str]:
    """What makes this plan: its summary part by part, and what else differs from the defaults, in words."""
    said = {"gpu", "gpus", "scale_out", "model", "catalog_version"}
    others = {name: value for name, value in scenario.asked().items() if name not in said}
    return [
        *_asked_for(scenario, catalog),
        *(f"{title(name)} {shown(name, value, catalog)}" for name, value in others.items()),
    ]


def defaults(kind: type[Scenario] = Scenario) -> dict[str, str]:
    """The text that means each field's default; blank where blank is the default."""
    fields = kind.model_fields.items()
    return {
        name: "" if field.default is None else written(field.default, unit_of(name, kind)) for name, field in fields
    }


def shown(name: str, value: Any, catalog: Catalog) -> str:
    """A field's value for people."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    unit = unit_of(name)
    if unit is not None:
        kind = quantity(Scenario.model_fields[name])
        as_typed = kind is None or kind.as_typed
        return written(value, unit) if as_typed else units.show(value, unit, 4)
    return f"{value:,}" if isinstance(value, int) else label(name, written(value), catalog)


def texts(scenario: Scenario) -> dict[str, str]:
    """The fields that differ from the defaults, each as one would type it."""
    return {name: written(value, unit_of(name)) for name, value in scenario.asked().items()}


@cache
def unit_of(name: str, kind: type[Scenario] = Scenario) -> str | None:
    """The base unit of a field that is a quantity, “:1” for a ratio."""
    if units.RATIO in _marks(name, kind):
        return ":1"
    of_field = quantity(kind.model_fields[name])
    return of_field.unit if of_field else None


@cache
def is_share(name: str, kind: type[Scenario] = Scenario) -> bool:
    """Whether a field is a part of a whole, which people write in per cent.

    >>> is_share("spares"), is_share("infrastructure"), is_share("gpus")
    (True, False, False)
    """
    limits = [getattr(mark, "metadata", [mark]) for mark in _marks(name, kind)]
    return unit_of(name, kind) == "1" and any(getattr(limit, "le", None) == 1 for some in limits for limit in some)


def per_cent(text: str) -> str:
    """A share as one would type it, in per cent; blank for none.

    >>> per_cent("0.03"), per_cent("")
    ('3 %', '')
    """
    return f"{float(text) * 100:.4g} %" if text else ""


def _control(name: str, bound: BoundForm, catalog: Catalog, resolved: Mapping[str, Any]) -> Control:
    kind, value = bound.kind, bound.typed.get(name, "")
    if value.strip() and bound.scenario is not None:
        given = getattr(bound.scenario, name)
        unit = unit_of(name, kind)
        value = written(given, unit) if _is_choice(name, kind) else _kept(value, given, unit)
    standing = None if resolved.get(name) is None else written(resolved[name], unit_of(name, kind))
    decisive = resolved[BESIDE[name]] if resolved and name in BESIDE else None
    return _control_of(name, kind, catalog, value, standing or "", decisive, bound.errors.get(name, ""))


@lru_cache(maxsize=1024)
def _control_of(
    name: str, kind: type[Scenario], catalog: Catalog, value: str, standing: str, decisive: str | None, error: str
) -> Control:
    """A control from its value, what stands behind its blank, what else decides its list, and what is wrong.

    Kept: a form has 126, and from one question to the next all but a few are the same.
    """
    field = kind.model_fields[name]
    marks = _marks(name, kind)
    unit = unit_of(name, kind)
    default = "" if field.default is None else written(field.default, unit)
    options = _options(name, marks, catalog, decisive)
    if options and field.default is None:
        named = f"Automatic: {label(name, standing, catalog)}" if standing else "Automatic"
        blank = (Option("", named),)
        options = (("", blank), *options)
    return Control(
        name=name,
        title=field.title or name,
        hint=field.description or "",
        value=value if value.strip() else default,
        default=default,
        placeholder=default if field.default is not None else per_cent(standing) if is_share(name, kind) else standing,
        options=options,
        numeric=unit is None and not options and any(kind in (int, float) for kind in marks),
        error=_beside_a_list(error) if options else error,
    )


def _beside_a_list(error: str) -> str:
    """A message without the list of what is known, where the field shows that list.

    >>> _beside_a_list("“h100” is not in the catalogue. Choose one of: a10, h100-sxm.")
    '“h100” is not in the catalogue. Choose from the list.'
    """
    text, separator, _ = error.partition(" Choose one of:")
    return f"{text} Choose from the list." if separator else error


@cache
def _marks(name: str, kind: type[Scenario]) -> tuple[Any, ...]:
    return marks(kind.model_fields[name])


def _is_choice(name: str, kind: type[Scenario]) -> bool:
    """Whether a field takes one of a list."""
    return any(isinstance(mark, Key) or mark is bool or get_origin(mark) is Literal for mark in _marks(name, kind))


def _options(
    name: str, marks: Sequence[Any], catalog: Catalog, decisive: str | None
) -> tuple[tuple[str, tuple[Option, ...]], ...]:
    key = next((mark for mark in marks if isinstance(mark, Key)), None)
    if key is not None:
        return _entries(name, key, catalog, decisive)
    literal = next((mark for mark in marks if get_origin(mark) is Literal), None)
    if literal is not None:
        return (("", tuple(Option(value, label(name, value, catalog)) for value in get_args(literal))),)
    if bool in marks:
        return (("", (Option("true", "Yes"), Option("false", "No"))),)
    return ()


def _entries(name: str, key: Key, catalog: Catalog, decisive: str | None) -> tuple[tuple[str, tuple[Option, ...]], ...]:
    """The entries of a kind, in families: first what goes with the rest of the plan, and no switch it cannot run."""
    values, fitting = key.keys(catalog), dict[str, set[str]]()
    if decisive and BESIDE[name] == "scale_out":
        network = catalog.scale_out[decisive]
        families = {catalog.switches[switch].family for switch in network.switches}
        values = tuple(value for value in values if catalog.switches[value].family in families)
        fitting = {f"For {network.name}": set(network.switches)}
    elif decisive and name == "platform":
        gpu = catalog.gpus[decisive]
        matching = {entry.key for entry in catalog.platforms.values() if gpu.key in entry.gpus}
        fitting = {f"With {gpu.name}": matching}
    elif decisive:
        gpu = catalog.gpus[decisive]
        fitting = {f"Of {gpu.name}": {gpu.scale_up, gpu.pcie}}
    groups: dict[str, list[Option]] = {heading: [] for heading in fitting}
    for value in values:
        heading = next((text for text, keys in fitting.items() if value in keys), None)
        groups.setdefault(heading or _family(key.kind, value, catalog), []).append(
            Option(value, label(name, value, catalog))
        )

    def newest_first(option: Option) -> tuple[bool, int]:
        return _newest_first(key.kind, option.value, catalog)

    return tuple((heading, tuple(sorted(options, key=newest_first))) for heading, options in groups.items() if options)


def _newest_first(kind: str, value: str, catalog: Catalog) -> tuple[bool, int]:
    """The place of an entry in its list: what is on sale by year, the newest first, then what is not on sale yet."""
    if kind in PLAIN or value not in catalog.kind(kind):
        return False, 0
    entry = catalog.kind(kind)[value]
    return getattr(entry, "status", "shipping") in EARLY, -(getattr(entry, "year", None) or 0)


def _family(kind: str, value: str, catalog: Catalog) -> str:
    if kind in PLAIN or value not in catalog.kind(kind):
        return ""
    entry = catalog.kind(kind)[value]
    family = getattr(entry, "vendor", None) or getattr(entry, "family", "")
    return FAMILIES.get(str(family), str(family))


def label(name: str, value: str, catalog: Catalog) -> str:
    """What an option is called; parts that are not on sale yet say so."""
    kinds = {
        "gpu": "gpus",
        "engine": "engines",
        "platform": "platforms",
        "switch": "switches",
        "spine_switch": "switches",
        "model": "models",
        "price_book": "prices",
    }
    kind = kinds.get(name, name)
    if kind in ("gpus", "engines", "platforms", "switches", "models", "prices", "scale_up", "scale_out"):
        entry = catalog.kind(kind).get(value)
        if entry is None:
            return "A shape of your own" if value == "custom" else value
        status = getattr(entry, "status", "")
        return f"{entry.name} ({status})" if status in EARLY else str(entry.name)
    if value in LABELS:
        return LABELS[value]
    return value[:1].upper() + value[1:] if name != "stack" else value


def written(value: Any, unit: str | None = None) -> str:
    """A value as one would type it, so that reading it again gives the same value; the unit “:1” is a ratio's.

    >>> written(15e12, "1"), written(1e9, "B"), written(0.014, "1"), written(True), written(1024), written(2.0, ":1")
    ('15T', '1 GB', '0.014', 'true', '1024', '2:1')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if unit == ":1":
        return f"{value:.12g}:1"
    if unit is None or not isinstance(value, int | float):
        return f"{value:.12g}" if isinstance(value, float) else str(value)
    text = units.show(value, unit, 4).replace(units.THIN, "" if unit in ("1", "USD") else " ").replace(",", "")
    try:
        same = math.isclose(units.parse(text, unit), value, rel_tol=1e-12)
    except ValueError:
        same = False
    return text if same else repr(value).removesuffix(".0")


def _kept(typed: str, value: Any, unit: str | None) -> str:
    """The text as typed, unless it is a bare number of the base unit that reads better with its own."""
    if unit is None:
        return typed.strip()
    try:
        float(typed)
    except ValueError:
        return typed.strip()
    return written(value, unit)
