"""What the reader asks: one frozen model behind the form, the query string and the request body."""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from operator import itemgetter
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import quote_plus

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from app import units
from app.catalog.entries import Ref, marked
from app.catalog.load import Catalog
from app.catalog.names import LONGEST_NAME, did_you_mean, entries_called, nearest
from app.plan.site_calibration import read_calibration
from app.units import (
    Bandwidth,
    Bytes,
    Dollars,
    DollarsPerJoule,
    DollarsPerSecond,
    Number,
    PerSecond,
    Seconds,
    Watts,
    Year,
)

Topology = Literal["rail-optimized", "fat-tree", "rail-only", "mesh", "torus-2d", "torus-3d", "dragonfly"]
Precision = Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
Sharding = Literal["none", "optimizer", "gradients", "parameters"]
Recompute = Literal["none", "selective", "full"]
Schedule = Literal["1f1b", "interleaved", "zero-bubble", "dualpipe"]
Algorithm = Literal["ring", "tree", "nvls", "nvls-tree", "collnet", "recursive-halving-doubling", "hierarchical"]
Protocol = Literal["ll", "ll128", "simple"]
AttentionKernel = Literal["unfused", "flash", "te-fused", "sdpa"]
ContextExchange = Literal["ring", "all-gather", "all-to-all"]
RankOrder = Literal["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"]
Wiring = Literal["switch", "mesh", "bridge", "peer-to-peer", "host", "no-peer-to-peer"]
Workload = Literal["training", "serving"]
WeightFormat = Literal["bf16", "fp8", "nvfp4", "mxfp4", "int4"]
Percentile = Literal["mean", "p90", "p99"]
Arrivals = Literal["steady", "benchmark", "waves", "offline"]
Taper = Annotated[float, Field(ge=1, le=64), units.RATIO]
Count = Annotated[int, units.WHOLE]
Degree = Annotated[Count, Field(ge=1, le=65536)]
MOST_GPUS = 1_000_000
"""GPUs of the largest cluster that is planned or advised."""
Size = Annotated[Count, Field(ge=1, le=1_000_000)]
Tokens = Annotated[Number, Field(ge=1, le=1e7)]
Money = Annotated[Dollars, Field(ge=0, le=1e9)]
Part = TypeVar("Part", bound="Request")


SHAPE = (
    "layers", "hidden", "heads", "head_dim", "kv_heads", "ffn_hidden", "gated", "vocabulary", "tied_embeddings",
    "experts", "experts_per_token", "expert_ffn_hidden", "shared_experts",
)  # fmt: skip
CUSTOM = "custom"
"""The key of a model whose shape the question gives."""
NEEDED = ("layers", "hidden", "heads", "ffn_hidden", "vocabulary")
"""What a model of one's own cannot do without: where one is blank the default model's stands in."""


SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([MBT])", re.IGNORECASE)
"""A model of which the size alone is given, such as 100B."""
LIKE_A_SIZE = re.compile(r"\d[\d.x]* ?[MBT]", re.IGNORECASE)
"""How a name begins that says more than the size, such as 8x7B or 70B-moe."""
LEAST_SIZE, MOST_SIZE = 5e8, 1e14
"""Parameters of the models whose shape follows from their size [1]."""
PLAIN = ("stacks", "regions")
"""Kinds of key that have no entries of their own."""


class UnknownKeyError(ValueError):
    """A question names what its catalogue does not have. The text names the field, the key and those nearest to it."""


class Key(Ref):
    """Marks a text field as the key of an entry of the catalogue.

    It is checked where a catalogue comes with the fields:
    ``Scenario.model_validate(fields, context={"catalog": catalog})``; otherwise once the question meets its catalogue.
    """

    def __init__(self, kind: str, *extra: str, example: str) -> None:
        super().__init__(kind)
        self.extra = extra
        self.example = example

    def keys(self, catalog: Catalog) -> tuple[str, ...]:
        """The keys that are allowed."""
        return getattr(catalog, self.kind) if self.kind in PLAIN else (*catalog.kind(self.kind), *self.extra)

    def problem(self, key: str, catalog: Catalog) -> PydanticCustomError | None:
        """What is wrong with a key: that the catalogue has no such entry."""
        keys = self.keys(catalog)
        if key in keys:
            return None
        if self.kind == "models" and LIKE_A_SIZE.match(key):
            return PydanticCustomError(
                "unknown_size",
                "“{text}” is no model of the catalogue. A shape follows from a size alone, such as 70B, and is dense: "
                "of a mixture of experts give the shape.",
                {"text": key[:40]},
            )
        meant = () if self.kind in PLAIN else entries_called(key, catalog.kind(self.kind))
        advice = did_you_mean(meant[:4] or nearest(key, keys))
        text = key if len(key) <= 40 else key[:40] + "…"
        return PydanticCustomError(
            "unknown_key",
            "“{text}” is not in the catalogue. {advice}Choose one of: {known}.",
            {"text": text, "advice": advice, "known": ", ".join(keys)},
        )

    def called(self, text: str, catalog: Catalog) -> str:
        """The key of the one entry that people call so; the text where there is none, or more."""
        if text in self.keys(catalog) or self.kind in PLAIN or (self.kind == "models" and LIKE_A_SIZE.match(text)):
            return text
        meant = entries_called(text, catalog.kind(self.kind))
        return meant[0] if len(meant) == 1 else text

    def _read(self, text: str, info: ValidationInfo) -> str:
        catalog = (info.context or {}).get("catalog")
        if catalog is None:
            return text
        key = self.called(text, catalog)
        if problem := self.problem(key, catalog):
            raise problem
        return key

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Open text: a client made today can name an entry of tomorrow, or of one operator's own catalogue."""
        bounds = {"minLength": 1, "maxLength": LONGEST_NAME}
        return {"type": "string", **bounds, "examples": [self.example], "x-catalog": self.kind}


GpuKey = Annotated[str, Key("gpus", example="h100-sxm")]
PlatformKey = Annotated[str, Key("platforms", example="hgx-h100")]
ScaleUpKey = Annotated[str, Key("scale_up", example="nvlink-4")]
ScaleOutKey = Annotated[str, Key("scale_out", example="infiniband-ndr")]
SwitchKey = Annotated[str, Key("switches", example="qm9700")]
ModelKey = Annotated[str, Key("models", CUSTOM, example="llama-3-70b")]
RegionKey = Annotated[str, Key("regions", example="germany")]
EngineKey = Annotated[str, Key("engines", example="vllm")]
StackKey = Annotated[str, Key("stacks", example="megatron-lm")]
PriceBookKey = Annotated[str, Key("prices", example="market")]


def _calibration(text: str) -> str:
    """A calibration as it stands in an address, or what is wrong with it."""
    try:
        return read_calibration(text).text()
    except ValueError as error:
        raise PydanticCustomError("calibration", "{advice}", {"advice": str(error)}) from None


CalibrationText = Annotated[
    str, Field(min_length=1, max_length=80, examples=["1.4~0.05,0.97~0.01,1.1~0.12"]), AfterValidator(_calibration)
]


class Usual(NamedTuple):
    """The least, the typical and the greatest value met in practice [unit]; ``book`` is the price book that says so."""

    low: float
    typical: float
    high: float
    unit: str
    book: str = ""

    @classmethod
    def read(cls, low: str, typical: str, high: str, unit: str) -> Self:
        """From text with units.

        >>> Usual.read("5 min", "1 h", "8 h", "s")
        Usual(low=300.0, typical=3600.0, high=28800.0, unit='s', book='')
        """
        return cls(units.parse(low, unit), units.parse(typical, unit), units.parse(high, unit), unit)


def about(group: str, usual: Usual | None = None) -> dict[str, Any]:
    """What a field says of itself besides its type: its group; what is usual, where the catalogue does not say it."""
    return {"group": group} | ({"usual": usual} if usual else {})


def _field(
    group: str, title: str, description: str = "", default: Any = None, usual: Usual | None = None, **more: Any
) -> Any:
    return Field(default, title=title, description=description, json_schema_extra=about(group, usual), **more)


class Request(BaseModel):
    """Some fields of a question. Every one has a default; blank means the default.

    What validates it is built when the first is asked: parts of a question never are, and most of its kinds seldom.
    """

    __slots__ = ("_hash",)
    """That of its fields, found once: a plan looks up by its parts 70 times."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def __hash__(self) -> int:
        kept: int | None = getattr(self, "_hash", None)
        if kept is None:
            kept = hash(_values_of(type(self))(vars(self)))
            object.__setattr__(self, "_hash", kept)
        return kept

    @classmethod
    def known(cls, fields: dict[str, Any]) -> Self:
        """One of all its fields, which were read before: `model_construct`, which looks for aliases, takes four times
        as long.
        """
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", fields)
        object.__setattr__(made, "__pydantic_fields_set__", {*fields})
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made


class ClusterRequest(Request):
    """Which GPUs, how many, in which servers."""

    gpu: GpuKey = _field(
        "cluster", "GPU", "The accelerator: its name, as in the list, or its key in the catalogue.", "h100-sxm"
    )
    gpus: Count = _field("cluster", "GPUs", "How many GPUs train the model.", 1024, ge=1, le=MOST_GPUS)
    platform: PlatformKey | None = _field("cluster", "Server", "Blank: the GPU's usual platform.")
    gpus_per_node: Count | None = _field("cluster", "GPUs per node", "Blank: the platform's own.", ge=1, le=576)
    scale_up: ScaleUpKey | None = _field("cluster", "Scale-up link", "Blank: the GPU's own link.")
    scale_up_domain: Count | None = _field(
        "cluster",
        "Scale-up domain",
        "GPUs that reach one another over the scale-up link. Blank: the platform's own.",
        ge=1,
        le=1152,
    )
    scale_up_wiring: Wiring | None = _field(
        "cluster",
        "Scale-up wiring",
        "Blank: the platform's own. host: through its memory; no-peer-to-peer: also through the network between nodes.",
    )

    @model_validator(mode="before")
    @classmethod
    def _server_as_gpu(cls, data: Any, info: ValidationInfo) -> Any:
        """People say DGX H100 or GB200 NVL72 where they are asked for a GPU: a server of one kind of GPU, and it."""
        catalog = (info.context or {}).get("catalog")
        if catalog is None or not isinstance(data, dict) or not isinstance(data.get("gpu"), str):
            return data
        if data["gpu"] in catalog.gpus or data.get("platform") or entries_called(data["gpu"], catalog.gpus):
            return data
        servers = entries_called(data["gpu"], catalog.platforms)
        if len(servers) != 1 or len(catalog.platforms[servers[0]].gpus) != 1:
            return data
        return data | {"gpu": catalog.platforms[servers[0]].gpus[0], "platform": servers[0]}

    spare_nodes: Annotated[Count, Field(ge=0, le=100_000)] = _field(
        "cluster",
        "Spare nodes",
        "Nodes that stand by for those that fail: bought, placed and powered beside them, with ports of the network. "
        "Where the time to restart is blank, failures that find one take two minutes.",
        0,
    )


class DesignRequest(Request):
    """What a network is built to: its switches and cables follow from this, whatever runs on them and how."""

    scale_out: ScaleOutKey = _field("network", "Network", "InfiniBand or Ethernet generation.", "infiniband-ndr")
    topology: Topology = _field("network", "Topology", "How leaves and spines are wired.", "rail-optimized")
    oversubscription: Taper = _field(
        "network", "Oversubscription", "Down-links for each up-link at the leaf, such as 2:1.", 1.0
    )
    spine_oversubscription: Taper = _field(
        "network", "Spine oversubscription", "The same at the spine, in three tiers.", 1.0
    )
    nics_per_node: Count | None = _field("network", "NICs per node", "Blank: the platform's own.", ge=0, le=576)
    network_rate: Annotated[Bandwidth, Field(gt=0, le=1e13)] | None = _field(
        "network",
        "Network rate of a GPU",
        "One direction, where a cloud or an adapter leaves less than the NICs have. Blank: its share of the NICs.",
    )
    switch: SwitchKey | None = _field(
        "network", "Switch", "Blank: the one that works cheapest, the building of what it draws counted in."
    )
    spine_switch: SwitchKey | None = _field(
        "network",
        "Spine switch",
        "Above the leaves. Blank: the leaves' own; with the switch blank, the cheapest that works, chosen with it.",
    )
    tiers: Count | None = _field("network", "Tiers", "Blank: as few as work.", ge=1, le=4)
    planes: Count = _field(
        "network", "Planes", "Independent parallel fabrics; a NIC's rate is split over them.", 1, ge=1, le=8
    )
    spine_policy: Literal["shared", "rail"] = _field(
        "network", "Spines", "Shared by all rails, or a set for each rail.", "shared"
    )
    minimum_spines: Count = _field("network", "Minimum spines", "For behaviour under failure.", 1, ge=1, le=4096)
    nodes_per_unit: Count | None = _field(
        "network", "Nodes per scalable unit", "Blank: as many as a leaf has down-ports.", ge=1, le=65536
    )
    media: Literal["copper", "aec", "aoc", "fibre", "lro", "lpo"] | None = _field(
        "network",
        "Cables and modules",
        "copper and aec: cables of some metres; aoc: optical cables; fibre: modules; lro, lpo: those that leave the "
        "signal to the hosts, half or wholly. Where the kind does not reach, and if blank: the cheapest usual.",
    )
    management_links: Count = _field(
        "network", "Fabric-manager links", "Leaf ports that the fabric manager takes.", 0, ge=0, le=1024
    )

    @property
    def wishes(self) -> tuple[Any, ...]:
        """What is asked of the fabric, in the order of these fields: requests that agree in it share their fabrics."""
        return _values_of(DesignRequest)(vars(self))


class NetworkRequest(DesignRequest):
    """What joins the nodes."""

    load_balancing: Literal["hashing", "flowlet", "adaptive", "spraying"] | None = _field(
        "network",
        "Load balancing",
        "How flows are spread over equal paths. hashing: each on one of them, whatever it carries; flowlet: each queue "
        "pair, in bursts; adaptive: packet by packet, by the switches' queues; spraying: packet by packet, by the "
        "adapter. Blank: as the network and its tuning do.",
    )
    placement: Literal["contiguous", "scattered"] = _field(
        "network",
        "Placement of the job",
        "contiguous: neighbouring ranks on neighbouring nodes; scattered: on nodes taken at random, as a shared "
        "scheduler may.",
        "contiguous",
    )
    in_network_reduction: bool = _field("network", "Reduction in the switch (SHARP)", "Sums inside the network.", False)
    gpudirect: bool = _field("network", "GPUDirect RDMA", "NIC straight to GPU memory; off: through the host.", True)
    tuned: bool = _field(
        "network",
        "Tuned lossless Ethernet",
        "For RoCE: PFC and ECN are set up (see flow and congestion control), and several queue pairs are part of the "
        "hash. Off: as switches come. InfiniBand's credits and Ultra Ethernet's own control need none of it.",
        True,
    )
    flow_control: Literal["credits", "pfc", "none"] | None = _field(
        "network",
        "Flow control",
        "What keeps a full queue from dropping packets. credits: a sender waits for room, as InfiniBand does; pfc: "
        "Ethernet pauses the sender of a priority; none: packets are dropped and sent again, as the transport does. "
        "Blank: as the network and its tuning have.",
    )
    congestion_control: Literal["ecn", "own", "none"] | None = _field(
        "network",
        "Congestion control",
        "What slows senders before queues fill. ecn: switches mark packets and the adapters slow down (DCQCN); own: "
        "the network's or transport's; none: receivers that admit no more than they can take, or nobody. Blank: as "
        "the network and its tuning have.",
    )
    jitter: Annotated[Number, Field(ge=0, le=10)] = _field(
        "network",
        "Step-time spread of a node",
        "Tail latency: relative spread of a step's time on one node (0.01: one per cent).",
        0.014,
        usual=Usual(0.0001, 0.014, 0.1, "1"),
    )
    slow_node: Annotated[Number, Field(ge=0, le=10)] = _field(
        "network",
        "One slow node",
        "By how much one node is slower than the others, its GPUs, links and ports alike (0.1: ten per cent). 0: none.",
        0.0,
        usual=Usual(0.001, 0.1, 0.3, "1"),
    )
    degraded_link: Literal["node-leaf", "leaf-spine"] = _field(
        "network",
        "One bad link",
        "Which link the next two are of. node-leaf: of a node to its leaf; leaf-spine: one between switches.",
        "node-leaf",
    )
    link_rate_left: Annotated[Number, Field(gt=0, le=1)] = _field(
        "network",
        "Rate that the bad link has left",
        "Share of its own rate: 0.5 is a link that trained down to half. 1: all of it.",
        1.0,
        usual=Usual(0.25, 1.0, 1.0, "1"),
    )
    link_loss: Annotated[Number, Field(ge=0, le=0.5)] = _field(
        "network",
        "Packets that the bad link loses",
        "Share of them: 0.01 is one in a hundred, which the adapters send again as their transport does. 0: none.",
        0.0,
    )
    storage_network: bool = _field("network", "Storage network", "Size it too.", False)
    management_network: bool = _field("network", "Management network", "Size it too.", False)


class ModelRequest(Request):
    """What is trained, on how many tokens."""

    model: ModelKey = _field(
        "model",
        "Model",
        "A preset; a size, such as 100B, whose shape follows by rule; or custom and a shape of your own (blank: Llama "
        "3 70B's). Shape fields beside a preset or a size change it.",
        "llama-3-70b",
    )
    parameters: Annotated[Number, Field(ge=LEAST_SIZE, le=MOST_SIZE)] | None = _field(
        "shape",
        "Parameters",
        "Such as 100B. What of the shape is blank then follows by rule: width is 128 times the layers, as in GPT-3, "
        "the rest as in Llama 3. Blank: as the shape has.",
    )
    layers: Size | None = _field("shape", "Layers", "Transformer layers.")
    hidden: Size | None = _field("shape", "Hidden size", "Width of what passes from layer to layer.")
    heads: Size | None = _field("shape", "Attention heads", "Query heads of a layer.")
    head_dim: Size | None = _field("shape", "Head dimension", "Blank: hidden size over heads.")
    kv_heads: Size | None = _field("shape", "Key-value heads", "Blank: as many as heads.")
    ffn_hidden: Annotated[Count, Field(ge=0, le=1_000_000)] | None = _field(
        "shape", "Feed-forward size", "Inner width of the feed-forward network; 0 where experts are all there is."
    )
    gated: bool | None = _field("shape", "Gated feed-forward", "SwiGLU: three matrices instead of two.")
    vocabulary: Annotated[Count, Field(ge=1, le=10_000_000)] | None = _field(
        "shape", "Vocabulary", "Tokens that the model knows."
    )
    tied_embeddings: bool | None = _field("shape", "Tied embeddings", "One matrix for input and output.")
    experts: Annotated[Count, Field(ge=0, le=65536)] | None = _field(
        "shape", "Experts", "Of a layer; 0: a dense model."
    )
    experts_per_token: Annotated[Count, Field(ge=0, le=65536)] | None = _field(
        "shape", "Experts per token", "Experts that one token meets."
    )
    expert_ffn_hidden: Annotated[Count, Field(ge=0, le=1_000_000)] | None = _field(
        "shape", "Expert feed-forward size", "Inner width of one expert."
    )
    shared_experts: Annotated[Count, Field(ge=0, le=1024)] | None = _field(
        "shape", "Shared experts", "Experts that every token meets."
    )
    training_tokens: Annotated[Number, Field(ge=1, le=1e17)] = _field(
        "model", "Training tokens", "Such as 15T.", 15e12, usual=Usual.read("1B", "15T", "50T", "1")
    )
    sequence_length: Count = _field(
        "model", "Sequence length", "Tokens in one sequence: 8k is 8,000, 8Ki 8,192.", 8192, ge=1, le=100_000_000
    )
    global_batch: Annotated[Count, Field(ge=1, le=10_000_000)] | None = _field(
        "model",
        "Global batch",
        "Sequences in one step. Blank: near the model's usual tokens a step, whatever divides among the GPUs.",
    )
    precision: Precision = _field("model", "Precision", "Of the layers' matrix work.", "bf16")

    def borrowed(self) -> tuple[str, ...]:
        """The fields that a model of one's own lacks; the default model's stand in, and a finding says so."""
        if self.model != CUSTOM or self.parameters is not None:
            return ()
        return tuple(
            name
            for name in NEEDED
            if getattr(self, name) is None and not (name == "ffn_hidden" and self.expert_ffn_hidden)
        )


class ParallelismRequest(Request):
    """How the model is spread; blank: find the best."""

    micro_batch: Annotated[Count, Field(ge=1, le=65536)] | None = _field(
        "parallelism", "Micro-batch", "Sequences at a time. Blank: find the best."
    )
    tensor_parallel: Degree | None = _field("parallelism", "Tensor parallel", "Blank: find the best.")
    pipeline_parallel: Degree | None = _field("parallelism", "Pipeline parallel", "Blank: find the best.")
    virtual_pipeline: Annotated[Count, Field(ge=1, le=1024)] | None = _field(
        "parallelism", "Virtual pipeline stages", "Blank: find the best."
    )
    schedule: Schedule | None = _field(
        "parallelism",
        "Pipeline schedule",
        "zero-bubble: ZB-H1; dualpipe: from both ends at once, a third of the bubble for two copies of the weights, "
        "and the experts' exchange hidden. Blank: interleaved where stages allow it.",
    )
    layout: str | None = _field(
        "parallelism",
        "Pipeline layout",
        "Uneven stages: E embedding, t layer, m multi-token prediction, L loss, | next stage, t*4 four layers, (..)*14 "
        "repeated, such as Et*3|(t*4|)*14t*2L. Blank: even stages.",
        pattern=r"^[EtmL0-9*|()]{1,400}$",
    )
    context_parallel: Degree | None = _field("parallelism", "Context parallel", "Blank: find the best.")
    context_exchange: ContextExchange | None = _field(
        "parallelism",
        "Exchange of context parallelism",
        "ring: keys and values go round, under the attention of those that are there; all-gather: they are gathered "
        "first, as for Llama 3; all-to-all: each rank gets all tokens of some heads, as in Ulysses. Blank: ring.",
    )
    causal_balance: bool = _field(
        "parallelism",
        "Balanced causal shares",
        "Each rank of context parallelism gets a piece of the sequence's start and one of its end. Off: one piece, of "
        "which the last has almost twice the attention.",
        True,
    )
    expert_parallel: Degree | None = _field("parallelism", "Expert parallel", "Blank: find the best.")
    expert_tensor_parallel: Degree | None = _field(
        "parallelism",
        "Expert tensor parallel",
        "GPUs that share one expert. Blank: 1, or as tensor parallel in software before spring 2025.",
    )
    rank_order: RankOrder | None = _field(
        "parallelism",
        "Order of ranks",
        "What neighbouring GPUs share, first name first: tp-cp-ep-dp-pp keeps replicas near and stages apart, "
        "tp-cp-ep-pp-dp whole pipelines together. Blank: as the stack does.",
    )
    sequence_parallel: bool | None = _field("parallelism", "Sequence parallel", "Blank: on with tensor parallel.")
    sharding: Sharding | None = _field(
        "parallelism", "Sharding", "What data-parallel ranks share (ZeRO 0–3). Blank: find the best."
    )
    sharding_group: Degree | None = _field(
        "parallelism", "Sharding group", "Ranks that share one copy. Blank: all data-parallel ranks."
    )
    recompute: Recompute | None = _field("parallelism", "Recompute activations", "Blank: find the best.")
    recompute_layers: Annotated[Count, Field(ge=0, le=1_000_000)] | None = _field(
        "parallelism",
        "Layers recomputed in full",
        "Of all layers, the prediction layers apart. Blank: all where recomputation is full, else none.",
    )


class SoftwareRequest(Request):
    """What the step runs on, and what it hides."""

    stack: StackKey | None = _field("software", "Software stack", "Blank: well tuned and current.")
    software_date: Annotated[Year, Field(ge=2017, le=2040)] | None = _field(
        "software", "Software release", "A year, such as 2024.54 for July 2024. Blank: the stack's own."
    )
    attention: Literal["causal", "full"] = _field("software", "Attention", "What the kernel computes.", "causal")
    attention_kernel: AttentionKernel | None = _field(
        "software",
        "Attention kernel",
        "unfused: batched products; flash and sdpa (PyTorch's): open kernels; te-fused: the vendor's, through "
        "Transformer Engine. Blank: as the stack does.",
    )
    fused: bool | None = _field(
        "software",
        "Fused elementwise work",
        "Compiled, by Transformer Engine or by hand; off: eager. Blank: as the stack does.",
    )
    graphs: Literal["none", "partial", "full"] | None = _field(
        "software",
        "CUDA graphs",
        "partial: of layers or modules, full: of the whole iteration; for the step either records a layer's launches, "
        "and an all-reduce inside a scale-up domain of up to 8 GPUs takes one- or two-shot kernels where they are "
        "quicker, as serving does. Blank: as the stack does, and the library's own all-reduce.",
    )
    gradient_bytes: Annotated[Bytes, Field(ge=1, le=8)] | None = _field(
        "software", "Bytes of a gradient", "When it is reduced. Blank: 4, or 2 in FP16."
    )
    moment_bytes: Annotated[Bytes, Field(ge=1, le=4)] | None = _field(
        "software", "Bytes of an optimizer moment", "Of each of Adam's two. Blank: 4; 2 where they are kept in BF16."
    )
    overlap_tensor: bool | None = _field("software", "Hide tensor-parallel traffic", "Blank: as the stack does.")
    overlap_data: bool | None = _field("software", "Hide data-parallel traffic", "Blank: as the stack does.")
    overlap_pipeline: bool | None = _field("software", "Hide pipeline traffic", "Blank: as the stack does.")
    overlap_expert: bool | None = _field(
        "software",
        "Hide the experts' all-to-all",
        "Under the computation of another micro-batch. Blank: as the stack does.",
    )
    dispatcher: Literal["all-to-all", "all-gather", "deepep", "hybridep"] | None = _field(
        "software",
        "Token dispatcher",
        "How tokens reach their experts. Blank: once to each node or rack since mid-2025, before all-to-all.",
    )
    dispatch_precision: Literal["bf16", "fp8"] | None = _field(
        "software",
        "Precision of dispatched tokens",
        "fp8: a byte for each value on the way to the experts; back they stay in 16 bits. Blank: bf16.",
    )
    routing: Literal["balanced", "natural", "dropped"] | None = _field(
        "software",
        "Token routing",
        "balanced: evenly over the experts; natural: the router's own; dropped: what exceeds a capacity is dropped. "
        "Blank: natural.",
    )
    regime: Literal["tuned", "recipe", "functional"] | None = _field(
        "software",
        "How well the run is tuned",
        "tuned: for speed; recipe: an example or a baseline as it comes; functional: a check of correctness. A mixture "
        "of experts that is not tuned waits for its launches. Blank: tuned.",
    )
    offload: Literal["none", "activations", "optimizer", "activations+optimizer"] | None = _field(
        "software", "Offload to the host", "What moves to the host's memory. Blank: nothing."
    )


class CollectiveRequest(Request):
    """The message to reduce, and how it is timed."""

    message: Annotated[Bytes, Field(gt=0, le=1e15)] | None = _field(
        "collective", "Message to reduce", "Bytes on each GPU. Blank: a bucket of gradients, 200 MB."
    )
    profile: Literal["calibrated", "ideal"] = _field(
        "collective", "Timing model", "Calibrated: what NCCL and RCCL deliver. Ideal: the textbook.", "calibrated"
    )
    algorithm: Algorithm | None = _field("collective", "Algorithm", "Blank: the quickest.")
    protocol: Protocol | None = _field("collective", "Protocol", "Blank: the quickest.")
    one_process: bool = _field(
        "collective", "One process a node", "It launches on all GPUs of the node, one after the other.", False
    )
    measured_efficiency: Annotated[Number, Field(ge=0.01, le=2)] | None = _field(
        "collective",
        "Measured efficiency",
        "What your own nccl-tests reached over what is predicted, for large messages. Blank: as calibrated.",
    )
    calibration: CalibrationText | None = _field(
        "collective",
        "Calibration of your cluster",
        "Latency, bandwidth and fill over the usual, each with its spread: 1.4~0.05,0.97~0.01,1.1~0.12. "
        "The page Calibrate makes it from your own nccl-tests. Blank: as usual.",
    )


class OperationRequest(Request):
    """What failures and checkpoints take."""

    availability: Annotated[Number, Field(gt=0, le=1)] | None = _field(
        "operation", "Availability", "Share of time that makes progress. Blank: from failures and checkpoints."
    )
    failure_rate: Annotated[PerSecond, Field(ge=0, le=1)] | None = _field(
        "operation", "Failures per GPU", "Interruptions for each GPU and hour, such as 2e-5 /h. Blank: published rate."
    )
    checkpoint_interval: Annotated[Seconds, Field(gt=0, le=1e8)] | None = _field(
        "operation", "Checkpoint interval", "Blank: the best one.", usual=Usual.read("5 min", "1 h", "8 h", "s")
    )
    checkpoint_time: Annotated[Seconds, Field(ge=0, le=1e7)] | None = _field(
        "operation",
        "Time to write a checkpoint",
        "The run stands still for it. Blank: the checkpoint's size over what the storage writes.",
        usual=Usual.read("1 s", "15 s", "10 min", "s"),
    )
    storage_bandwidth: Annotated[Bandwidth, Field(gt=0, le=1e15)] | None = _field(
        "operation",
        "Write bandwidth of the storage",
        "Of all of it, such as 200 GB/s. Blank: 80 MB/s for each GPU, as reference designs have.",
        usual=Usual.read("1 GB/s", "80 GB/s", "10 TB/s", "B/s"),
    )
    restart_time: Annotated[Seconds, Field(ge=0, le=1e7)] | None = _field(
        "operation",
        "Time to restart",
        "From a failure until steps go on. Blank: ten minutes whatever the size, two where a spare node stands by.",
    )
    campaign_overhead: Annotated[Number, Field(ge=1, le=10)] | None = _field(
        "operation",
        "Calendar over run",
        "What ramp-up, evaluation, roll-backs and later phases add to steps and failures: 1.05 a proven recipe, 1.5 a "
        "first large run. Blank: the catalogue's 1.10.",
    )


class PriceRequest(Request):
    """The price book, and prices of one's own."""

    price_book: PriceBookKey = _field(
        "prices", "Price book", "market: dated street prices; rule-of-thumb: the articles' figures.", "market"
    )
    price_node: Money | None = _field("prices", "Node", "Dollars each. Blank: the book's.")
    nics_included: bool | None = _field(
        "prices", "Node's price holds its NICs", "Blank: as the book says of the node's price."
    )
    price_nic: Money | None = _field(
        "prices",
        "NIC",
        "Dollars each, on top of the node. Blank: the book's, or nothing where the node's price has it.",
    )
    price_switch: Money | None = _field("prices", "Switch", "Dollars each. Blank: the book's.")
    price_transceiver: Money | None = _field("prices", "Transceiver module", "Dollars each. Blank: the book's.")
    price_cable: Money | None = _field("prices", "Fibre cable", "Dollars each. Blank: the book's.")
    price_copper_cable: Money | None = _field("prices", "Copper cable", "Dollars each. Blank: the book's.")
    storage_capacity: Annotated[Bytes, Field(ge=0, le=1e21)] | None = _field(
        "prices",
        "Storage to buy",
        "Usable capacity, such as 10 PB. Blank: none is bought; the plan says what this run alone fills.",
        usual=Usual.read("10 TB", "5 PB", "500 PB", "B"),
    )
    price_storage: Money | None = _field("prices", "Storage", "Dollars for a usable petabyte. Blank: the book's.")
    price_gpu_hour: Annotated[DollarsPerSecond, Field(ge=0, le=100)] | None = _field(
        "prices", "Rent of one GPU", "Such as 2.95 USD/h."
    )
    electricity: Annotated[DollarsPerJoule, Field(ge=0, le=1)] | None = _field(
        "prices", "Electricity", "Such as 0.08 USD/kWh."
    )
    region: RegionKey | None = _field(
        "prices", "Region", "Whose electricity it is: its price and its carbon. Blank: the United States'."
    )
    pue: Annotated[Number, Field(ge=1, le=10)] | None = _field("prices", "PUE", "Facility power over IT power.")
    rack_power: Annotated[Watts, Field(gt=0, le=1e7)] | None = _field(
        "prices",
        "Power of a rack",
        "What the hall gives one, such as 40 kW. Blank: 60 kW, and as much as liquid-cooled racks draw.",
        usual=Usual.read("5 kW", "60 kW", "600 kW", "W"),
    )
    site_power: Annotated[Watts, Field(gt=0, le=1e12)] | None = _field(
        "prices",
        "Power of the site",
        "What it may draw in all, such as 20 MW.",
        usual=Usual.read("50 kW", "20 MW", "5 GW", "W"),
    )
    lifetime: Annotated[Seconds, Field(gt=0, le=1e10)] | None = _field(
        "prices", "Lifetime", "Over which capital is spread.", usual=Usual.read("3 years", "5 years", "8 years", "s")
    )
    spares: Annotated[Number, Field(ge=0, le=1)] | None = _field(
        "prices", "Spares", "Share of network parts kept in stock."
    )
    support: Annotated[Number, Field(ge=0, le=1)] | None = _field("prices", "Support", "Share of capital a year.")
    infrastructure: Annotated[Number, Field(ge=0, le=1000)] | None = _field(
        "prices",
        "Infrastructure",
        "Dollars for each watt of IT power: building, power, cooling. It has a say in which switches are cheapest.",
    )
    catalog_version: str | None = _field(
        "prices", "Catalogue edition", "The edition a link was made with.", pattern=r"^[A-Za-z0-9.+-]{1,60}$"
    )


def _of_pool(title: str, pool: str) -> Any:
    """A degree of parallelism of one pool alone."""
    meaning = f"Of a replica of the pool for {pool}. Blank: as all replicas, else the best."
    return _field("serving", f"{title}, {pool}", meaning)


class ServingRequest(Request):
    """Who asks for what, how soon it must come, and what answers."""

    workload: Workload = _field(
        "serving",
        "Workload",
        "training: the model is trained; serving: it answers users, and the plan says so.",
        "training",
    )
    input_tokens: Tokens = _field("serving", "Prompt", "Mean tokens of a prompt.", 1024)
    output_tokens: Tokens = _field("serving", "Answer", "Mean tokens of an answer.", 1024)
    request_rate: Annotated[PerSecond, Field(gt=0, le=1e7)] | None = _field(
        "serving",
        "Requests",
        "Of all users, such as 20/s. Blank: as many as fit.",
        usual=Usual.read("0.1/s", "20/s", "5000/s", "1/s"),
    )
    concurrency: Annotated[Number, Field(gt=0, le=1e8), units.SEVERAL] | None = _field(
        "serving",
        "Requests in flight",
        "On the whole cluster at any time. Blank: from users or requests, else as many as fit.",
    )
    users: Annotated[Number, Field(gt=0, le=1e9), units.SEVERAL] | None = _field(
        "serving", "Users", "Each waits for an answer, thinks, and asks again. Blank: as many as fit."
    )
    think_time: Annotated[Seconds, Field(ge=0, le=1e6)] = _field(
        "serving",
        "Time to think",
        "Of a user between an answer and the next question, such as 20 s.",
        0.0,
        usual=Usual.read("1 s", "20 s", "1 h", "s"),
    )
    ttft_limit: Annotated[Seconds, Field(gt=0, le=1e5)] | None = _field(
        "serving",
        "Limit to the first token",
        "Such as 2 s. Blank: none.",
        usual=Usual.read("100 ms", "2 s", "60 s", "s"),
    )
    tpot_limit: Annotated[Seconds, Field(gt=0, le=100)] | None = _field(
        "serving", "Limit per token", "Such as 40 ms. Blank: none.", usual=Usual.read("3 ms", "40 ms", "500 ms", "s")
    )
    percentile: Percentile = _field(
        "serving", "Limits hold for", "The mean, or the slowest tenth or hundredth of the requests.", "mean"
    )
    serving: Literal["aggregated", "disaggregated"] | None = _field(
        "serving",
        "Pools",
        "aggregated: each replica does both; disaggregated: prompts and answers apart. Blank: the better.",
    )
    engine: EngineKey | None = _field("serving", "Engine", "Blank: vLLM, with a wider range.")
    weights: WeightFormat | None = _field("serving", "Weights", "Blank: FP8 where the GPU has it, else BF16.")
    kv_cache: Literal["bf16", "fp8"] | None = _field(
        "serving", "Keys and values", "Format of the cache. Blank: the engine's own."
    )
    attention_data_parallel: Degree | None = _field(
        "serving",
        "Attention data parallel",
        "Ranks with sequences of their own that share the experts. Blank: find the best.",
    )
    prefill_gpus: Size | None = _field(
        "serving", "GPUs for prompts", "Of the pool that computes prompts alone. Blank: what serves most."
    )
    prefill_tensor_parallel: Degree | None = _of_pool("Tensor parallel", "prompts")
    prefill_attention_data_parallel: Degree | None = _of_pool("Attention data parallel", "prompts")
    prefill_expert_parallel: Degree | None = _of_pool("Expert parallel", "prompts")
    prefill_pipeline_parallel: Degree | None = _of_pool("Pipeline parallel", "prompts")
    decode_gpus: Size | None = _field(
        "serving", "GPUs for answers", "Of the pool that computes answers alone. Blank: what serves most."
    )
    decode_tensor_parallel: Degree | None = _of_pool("Tensor parallel", "answers")
    decode_attention_data_parallel: Degree | None = _of_pool("Attention data parallel", "answers")
    decode_expert_parallel: Degree | None = _of_pool("Expert parallel", "answers")
    decode_pipeline_parallel: Degree | None = _of_pool("Pipeline parallel", "answers")
    max_sequences: Size | None = _field(
        "serving", "Most sequences", "That one attention rank runs at a time. Blank: the engine's own."
    )
    token_budget: Annotated[Count, Field(ge=16, le=10_000_000)] | None = _field(
        "serving", "Token budget", "Most prompt tokens of one step. Blank: the engine's own."
    )
    memory_share: Annotated[Number, Field(gt=0.1, le=1)] | None = _field(
        "serving", "Memory share", "Of a GPU's memory that the engine takes. Blank: the engine's own."
    )
    prefix_hits: Annotated[Number, Field(ge=0, lt=1)] = _field(
        "serving", "Prefix cache", "Share of the prompts' tokens that are cached.", 0.0
    )
    accepted_tokens: Annotated[Number, Field(ge=0, le=16)] = _field(
        "serving",
        "Accepted tokens",
        "Further tokens that speculative decoding adds to each step, less what drafting them takes: the model has no "
        "time for it.",
        0.0,
    )
    headroom: Annotated[Number, Field(gt=0, le=1)] = _field(
        "serving", "Headroom", "Share of what a replica can do that it is asked to, as requests come unevenly.", 0.8
    )
    token_price: Annotated[Dollars, Field(ge=0, le=1e6)] | None = _field(
        "serving",
        "Price to beat",
        "Of a million output tokens elsewhere, such as $2. Blank: none.",
        usual=Usual.read("$0.05", "$2", "$100", "USD"),
    )
    tuned_kernels: bool = _field(
        "serving",
        "Kernels tuned for the load",
        "Quantising is fused and each product tuned for its size, as in submissions to benchmarks; else as engines are "
        "released.",
        False,
    )
    arrivals: Arrivals = _field(
        "serving",
        "Arrivals",
        "steady: users come when they like; benchmark: a client keeps so many requests in flight; waves: the same, all "
        "equally long; offline: a queue that is never empty.",
        "steady",
    )


class Scenario(
    PriceRequest,
    ServingRequest,
    OperationRequest,
    CollectiveRequest,
    SoftwareRequest,
    ParallelismRequest,
    ModelRequest,
    NetworkRequest,
    ClusterRequest,
):
    """One question to the calculator: the sum of its parts, whose fields come in the order from last to first."""

    __slots__ = ("_parts",)
    """Its parts, each found once: a plan reads 35 times one of a dozen. A copy finds its own."""

    model_config = ConfigDict(defer_build=False)  # the start reads the presets

    @model_validator(mode="before")
    @classmethod
    def _blank_means_default(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = {key: value for key, value in data.items() if not (isinstance(value, str) and not value.strip())}
        sized = SIZE.fullmatch(given["model"].strip()) if isinstance(given.get("model"), str) else None
        if sized:
            given = {"parameters": "".join(sized.groups()).upper()} | given | {"model": CUSTOM}
        if "model" not in given and any(given.get(name) is not None for name in ("parameters", *SHAPE)):
            given["model"] = CUSTOM
        return given

    @model_validator(mode="after")
    def _size_alone(self) -> Self:
        if self.parameters is not None and (self.model != CUSTOM or self.experts):
            raise PydanticCustomError(
                "parameters",
                "A shape follows from the parameters of a dense model of your own alone: leave them blank beside a "
                "preset or experts.",
            )
        return self

    @property
    def recorded(self) -> bool:
        """Whether calls are asked to be recorded in CUDA graphs."""
        return self.graphs not in (None, "none")

    def part(self, kind: type[Part]) -> Part:
        """One part of the question, for a function that reads no other.

        >>> Scenario(gpus=64).part(ClusterRequest).gpus
        64
        """
        parts: dict[Any, Any] | None = getattr(self, "_parts", None)
        if parts is None:
            parts = {}
            object.__setattr__(self, "_parts", parts)
        if kind not in parts:
            parts[kind] = _part(kind, _values_of(kind)(vars(self)))
        part: Part = parts[kind]
        return part

    def only(self, *groups: str) -> Self:
        """The question as far as some groups of fields go; every other field is its default.

        >>> Scenario(gpus=64, model="llama-3-8b").only("cluster").asked()
        {'gpus': 64}
        """
        kind = type(self)
        others = [name for name, group in group_of(kind).items() if group not in groups]
        return self.model_copy(update={name: kind.model_fields[name].default for name in others})

    def filled(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Every field, with these values where it was blank."""
        fields = vars(self)
        return fields | {name: value for name, value in values.items() if fields.get(name, "") is None}

    def asked(self) -> dict[str, Any]:
        """The fields that differ from the defaults."""
        defaults = _defaults(type(self))
        return {
            name: value
            for name, value in vars(self).items()
            if value is not (usual := defaults[name]) and value != usual  # most are the default itself
        }

    def query(self, **changes: Any) -> str:
        """The shortest query string that asks this, with some fields changed."""
        return query_of(self.asked() | changes)


def query_of(fields: Mapping[str, Any]) -> str:
    """The query string that gives these fields; those that are ``None`` are left out.

    >>> query_of({"gpus": 64, "tensor_parallel": None})
    'gpus=64'
    """
    return "&".join([f"{name}={_text(value)}" for name, value in fields.items() if value is not None])


@cache
def _defaults(kind: type[BaseModel]) -> Mapping[str, Any]:
    """What blanks of a question mean."""
    return {name: field.default for name, field in kind.model_fields.items()}


@cache
def _values_of(kind: type[BaseModel]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What reads the values of a part's fields out of a question's."""
    return itemgetter(*kind.model_fields)


@lru_cache(maxsize=512)
def _part(kind: type[Part], values: tuple[Any, ...]) -> Part:
    """The part of a question with these values.

    Kept: it takes 4 µs, a plan reads thirteen, and all but one or two are those of the question before.
    """
    return kind.known(dict(zip(kind.model_fields, values, strict=True)))


def check_keys(request: Request, catalog: Catalog) -> None:
    """Raise ``UnknownKeyError`` where a question names what this catalogue does not have."""
    names = tuple(marked(type(request), Key))
    _check_keys(type(request), itemgetter(*names)(vars(request)), catalog)


@lru_cache(maxsize=512)
def _check_keys(kind: type[Request], values: tuple[Any, ...], catalog: Catalog) -> None:
    """The same for the values of the fields that are keys.

    Kept: it takes 12 µs, and one request is checked at each of three doors.
    """
    for (name, key), value in zip(marked(kind, Key).items(), values, strict=True):
        for each in value if isinstance(value, tuple) else (value,):
            if each is not None and (problem := key.problem(each, catalog)):
                raise UnknownKeyError(f"{name}: {problem}")


def check_presets(catalog: Catalog) -> None:
    """Raise ``CatalogError`` where a preset is no scenario of this catalogue, or a model has the name of one's own."""
    if CUSTOM in catalog.models:
        raise catalog.files.wrong("models", "is what a model of one's own is called", CUSTOM)
    for key, preset in catalog.presets.items():
        try:
            Scenario.model_validate(preset.scenario, context={"catalog": catalog})
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else ""
            raise catalog.files.wrong("presets", f"{name}: {first['msg']}", key, "scenario", name) from None


def another_network(scale_out: str) -> dict[str, Any]:
    """The changes that put a scenario on another network, without what was asked of the first one's alone.

    Switches are of one network; tiers and units follow from their ports, and each spreads flows and keeps queues short
    in its own way.
    """
    blank = (
        "switch", "spine_switch", "tiers", "nodes_per_unit", "load_balancing", "flow_control", "congestion_control",
    )  # fmt: skip
    return {"scale_out": scale_out, **dict.fromkeys(blank)}


def on_network(scenario: Scenario, scale_out: str) -> Scenario:
    """The scenario on a network: as it is where that is its own."""
    return scenario if scale_out == scenario.scale_out else scenario.model_copy(update=another_network(scale_out))


def group_of(model: type[Scenario]) -> dict[str, str]:
    """The group that each field belongs to."""
    return {name: str(field.json_schema_extra["group"]) for name, field in model.model_fields.items()}  # type: ignore[index]


def _text(value: Any) -> str:
    """A value as the shortest text that reads back the same, as a query string has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        short = f"{value:g}"
        return (short if float(short) == value else repr(value)).replace("+", "%2B")
    return str(value) if isinstance(value, int) else quote_plus(str(value))
