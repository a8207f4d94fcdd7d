"""The kinds of entry in the catalogue."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.catalog.estimate import Estimate, EstimateIn, Status

InBytes = Annotated[Estimate, EstimateIn("B")]
InBandwidth = Annotated[Estimate, EstimateIn("B/s")]
InSeconds = Annotated[Estimate, EstimateIn("s")]
InWatts = Annotated[Estimate, EstimateIn("W", zero=True)]
InFlops = Annotated[Estimate, EstimateIn("FLOP/s")]
InMetres = Annotated[Estimate, EstimateIn("m")]
InNumber = Annotated[Estimate, EstimateIn("1")]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrZero = Annotated[int, Field(ge=0, le=1_000_000_000)]

Wiring = Literal["switch", "mesh", "bridge", "peer-to-peer", "host"]
LinkFamily = Literal["nvlink", "pcie", "infinity-fabric", "ualink"]
NetworkFamily = Literal[
    "infiniband", "roce", "spectrum-x", "ultra-ethernet", "tcp", "efa", "slingshot", "gpudirect-tcp", "omni-path"
]
SwitchFamily = Literal["infiniband", "ethernet", "slingshot"]
BlockFormat = Literal["mxfp8", "mxfp4", "nvfp4"]


class Ref:
    """Marks a field as the key of an entry of this kind; loading fails where there is none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


Mark = TypeVar("Mark", bound=Ref)
GpuRef = Annotated[str, Ref("gpus")]
ScaleUpRef = Annotated[str, Ref("scale_up")]
ScaleOutRef = Annotated[str, Ref("scale_out")]
SwitchRef = Annotated[str, Ref("switches")]
NicRef = Annotated[str, Ref("nics")]
OpticRef = Annotated[str, Ref("optics")]
PlatformRef = Annotated[str, Ref("platforms")]
SourceRef = Annotated[str, Ref("sources")]
PriceRef = Annotated[str, Ref("prices")]
"""The name of a price in any of the editions."""


@cache
def marked(model: type[BaseModel], kind: type[Mark]) -> dict[str, Mark]:
    """The fields of a model that name entries of the catalogue: one each, or several."""
    marks = {name: _mark(field.annotation, field.metadata, kind) for name, field in model.model_fields.items()}
    return {name: mark for name, mark in marks.items() if mark is not None}


def _mark(annotation: Any, metadata: Sequence[Any], kind: type[Mark]) -> Mark | None:
    for mark in (*metadata, *getattr(annotation, "__metadata__", ())):
        if isinstance(mark, kind):
            return mark
    return next(filter(None, (_mark(inner, (), kind) for inner in get_args(annotation))), None)


class Source(BaseModel):
    """A document that can be cited, listed once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    publisher: str
    url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    published: str = ""
    accessed: str = ""
    note: str = ""


class Claim(BaseModel):
    """What another document says of a field: shown beside our figure where documents disagree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    says: str
    source: SourceRef


class Entry(BaseModel):
    """What every entry of the catalogue has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    name: str
    also: tuple[str, ...] = ()
    """What people call it besides."""
    source: SourceRef
    status: Status = "shipping"
    year: Annotated[int, Field(ge=1950, le=2100)] | None = None
    note: str = ""
    claims: tuple[Claim, ...] = ()


class Gpu(Entry):
    """An accelerator. Peaks are dense (no sparsity); ``short`` is what people call it where they mean this variant."""

    short: str = ""
    vendor: str
    architecture: str
    memory_nominal: InBytes
    memory: InBytes
    memory_type: str
    memory_bandwidth: InBandwidth
    fp16: InFlops
    bf16: InFlops | None = None
    fp8: InFlops | None = None
    fp4: InFlops | None = None
    block_formats: tuple[BlockFormat, ...] = ()
    """Formats with a scale for each block of numbers that its matrix units multiply."""
    power: InWatts
    uncapped_power: InWatts | None = None
    multiprocessors: Count | None = None
    scale_up: ScaleUpRef
    scale_up_domain: Count
    pcie: ScaleUpRef
    host_link: InBandwidth | None = None
    """To its host's memory in one direction, where that is no PCIe link."""
    platform: PlatformRef

    @model_validator(mode="after")
    def _four_bits_have_a_format(self) -> "Gpu":
        if bool(self.fp4) != bool({"mxfp4", "nvfp4"} & set(self.block_formats)):
            raise ValueError("fp4 is the rate of mxfp4 or nvfp4, and block_formats says of which")
        return self


class ScaleUp(Entry):
    """A link between GPUs of one node or rack. ``bandwidth`` is per GPU and one direction; ``second_tier`` is what two
    more switches add to the way there, where a domain is larger than one tier joins; ``chip_price`` is the name of the
    price of one of its chips, ``optics_price`` that of the modules between the tiers for as many GPUs as one joins."""

    family: LinkFamily
    generation: Annotated[float, Field(gt=0, le=1000)]
    bandwidth: InBandwidth
    links: Count | None = None
    link_bandwidth_both_ways: InBandwidth | None = None
    wiring: Wiring
    largest_domain: Count
    switch_ports: InNumber | None = None
    second_tier: InSeconds | None = None
    chip_price: str | None = None
    optics_price: str | None = None
    in_switch_reduction: bool = False


class ScaleOut(Entry):
    """A network generation. ``port_rate`` is one port, one direction.

    ``library_hop`` is what a hop takes with a collective's library, over the same with the family's first adapters of
    that rate.
    """

    family: NetworkFamily
    transport: str
    port_rate: InBandwidth
    lanes: Count | None = None
    lane_rate: InBandwidth | None = None
    switch_latency: InSeconds | None = None
    end_to_end_latency: InSeconds | None = None
    library_hop: InNumber | None = None
    switches: tuple[SwitchRef, ...] = ()
    nic: NicRef | None = None
    address_limit: InNumber | None = None
    in_network_reduction: bool = False
    lossless: bool = False
    predecessor: ScaleOutRef | None = None


class Switch(Entry):
    """A switch box. A box may hold several independent switches (``switches_per_box``); ``ports`` is of one of them."""

    vendor: str
    family: SwitchFamily
    ports: Count
    port_rate: InBandwidth
    switches_per_box: Count = 1
    ports_per_cage: Count = 1
    cages: Count | None = None
    breakout: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    rack_units: CountOrZero | None = None
    latency: InSeconds | None = None
    power: InWatts | None = None
    maximum_power: InWatts | None = None
    maximum_power_includes_modules: bool = False
    chassis: bool = False
    co_packaged: bool = False
    fibre: OpticRef | None = None
    """The fibre that fits optics inside the box."""
    lane_rate: InBandwidth | None = None
    """The rate of a lane: modules with faster lanes do not work in it, nor cables to ends of another rate."""
    management_port: bool = False
    managed_outside: bool = False
    """Whether it needs a manager that it does not have inside, and whose price is not the switch's."""


class Nic(Entry):
    """A network adapter."""

    vendor: str
    families: tuple[NetworkFamily, ...]
    ports: Count
    port_rate: InBandwidth
    pcie: ScaleUpRef
    power: InWatts | None = None
    maximum_power: InWatts | None = None


class Optic(Entry):
    """A transceiver module or a cable. ``rate`` is of the whole part, ``links`` how many links it carries.

    A transceiver names the ``fibre`` it needs and has ``connectors`` for it, one a link where nothing is said; the
    modules of a link agree in the fibre, in the rate of a lane and in what keeps the signal: ``dsp`` in both, ``lro``
    or ``lpo``. ``host_lane_rate`` is of the slowest lanes that one is made for where it joins several to one of light.
    ``part_number`` is its maker's, less what stands for its length; a cable is sold with so many ``heads`` for the one
    at a switch. A fibre with a ``trunk`` splits: at the switch it fits what that one fits, and carries its ``links``.
    """

    kind: Literal["transceiver", "dac", "acc", "aec", "aoc", "fibre"]
    part_number: str = ""
    rate: InBandwidth
    links: Count = 1
    heads: Annotated[tuple[Count, ...], Field(min_length=1)] = (1,)
    retiming: Literal["dsp", "lro", "lpo"] = "dsp"
    trunk: OpticRef | None = None
    reach: InMetres
    fibre: OpticRef | None = None
    connectors: Count | None = None
    lane_rate: InBandwidth | None = None
    host_lane_rate: InBandwidth | None = None
    power: InWatts | None = None


class Platform(Entry):
    """A server or rack that GPUs come in: those named here, and those that name it as theirs."""

    vendor: str
    gpus: tuple[GpuRef, ...]
    gpus_per_node: Count
    nics_per_node: CountOrZero
    nic_rate: InBandwidth
    scale_up_wiring: Wiring
    scale_up_domain: Count
    rack_units: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    nodes_per_rack: Count
    power: InWatts
    typical_power: InWatts | None = None
    pcie: ScaleUpRef
    cooling: Literal["air", "liquid"] = "air"
    """Liquid-cooled racks bring their own supply and are not held to what an air-cooled hall gives a rack."""
    switches_in_rack: bool = False
    """Whether the compute network's switches stand in the racks of nodes, as in cabinets of supercomputers."""
    storage_nics: CountOrZero = 1
    scale_up_switches: CountOrZero = 0
    price: PriceRef | None = None
    scale_up_price: PriceRef | None = None
    """The share of that price that pays for the links between GPUs of one domain."""

    @property
    def short_name(self) -> str:
        """Its name without what is in it."""
        return self.name.partition(",")[0]


class Model(Entry):
    """The public shape of a transformer, and its published parameter count."""

    family: str
    layers: Count
    hidden: Count
    heads: Count
    head_dim: Count | None = None
    kv_heads: Count
    ffn_hidden: CountOrZero
    gated: bool
    vocabulary: Count
    tied_embeddings: bool = False
    experts: CountOrZero = 0
    experts_per_token: CountOrZero = 0
    expert_ffn_hidden: CountOrZero = 0
    shared_experts: CountOrZero = 0
    shared_expert_ffn_hidden: Count | None = None
    dense_layers: CountOrZero = 0
    moe_every: Count = 1
    node_limit: Annotated[int, Field(ge=0, le=1024)] = 0
    expert_groups: Annotated[int, Field(ge=0, le=1024)] = 0
    query_rank: Count | None = None
    kv_rank: Count | None = None
    rope_head_dim: Count | None = None
    value_head_dim: Count | None = None
    multi_token_layers: CountOrZero = 0
    sliding_window: Count | None = None
    sliding_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    attention_gate: bool = False
    linear_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    linear_heads: Count | None = None
    linear_key_heads: Count | None = None
    linear_head_dim: Count | None = None
    """Of linear attention: value heads, key heads and their width."""
    sparse_keys: Count | None = None
    low_bit_attention: bool = True
    biases: bool = False
    qkv_bias: bool = False
    learned_positions: CountOrZero = 0
    parallel_block: bool = False
    sequence_length: Count = 4096
    tokens_per_step: InNumber | None = None
    parameters: InNumber
    parameters_printed: str = ""
    active_parameters: InNumber | None = None
    active_embedding_row: bool = False
    """Whether the maker counts the one row that a token reads of the input embedding, not the whole matrix."""


Content = Literal["compute_nics", "storage_nics"]


class Engine(Entry):
    """Software that serves models. Its times are of releases of ``constants_year``; ``newest_year`` is measured too."""

    version: str
    constants_year: Annotated[float, Field(ge=2020, le=2040)]
    newest_year: Annotated[float, Field(ge=2020, le=2040)]
    prompts_alone: bool
    low_bit_cache: bool
    max_sequences: Count
    token_budget: Count
    memory_share: InNumber
    layer_time: InSeconds
    step_time: InSeconds
    sequence_time: InSeconds
    first_token_time: InSeconds


class PriceBook(BaseModel):
    """An edition of prices [USD, USD/s or USD/J].

    ``contains`` lists what a node's or rack's price pays for besides its GPUs, host and the links between them,
    ``may_contain`` what it usually pays for and the seller does not say, by the price's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    key: str
    name: str
    date: str
    note: str = ""
    prices: dict[str, Estimate]
    contains: dict[str, tuple[Content, ...]] = {}
    may_contain: dict[str, tuple[Content, ...]] = {}


class Preset(BaseModel):
    """A published cluster, as the scenario fields that describe it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    name: str
    description: str
    source: SourceRef
    scenario: dict[str, str | int | float | bool]
