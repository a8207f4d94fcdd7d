"""The kinds of entry in the catalogue."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict

from app.catalog.estimate import Estimate, EstimateIn, Status

InBytes = Annotated[Estimate, EstimateIn("B")]
InBandwidth = Annotated[Estimate, EstimateIn("B/s")]
InSeconds = Annotated[Estimate, EstimateIn("s")]
InWatts = Annotated[Estimate, EstimateIn("W")]
InFlops = Annotated[Estimate, EstimateIn("FLOP/s")]
InMetres = Annotated[Estimate, EstimateIn("m")]
InNumber = Annotated[Estimate, EstimateIn("1")]

Wiring = Literal["switch", "mesh", "bridge", "peer-to-peer", "host"]


class Source(BaseModel):
    """A document that can be cited, listed once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    publisher: str
    url: str = ""
    published: str = ""
    accessed: str = ""
    note: str = ""


class Claim(BaseModel):
    """What another document says of a field: shown beside our figure where documents disagree."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    says: str
    source: str


class Entry(BaseModel):
    """What every entry of the catalogue has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    name: str
    source: str
    status: Status = "shipping"
    year: int | None = None
    note: str = ""
    claims: tuple[Claim, ...] = ()


class Gpu(Entry):
    """An accelerator. Peaks are dense (no sparsity)."""

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
    power: InWatts
    uncapped_power: InWatts | None = None
    multiprocessors: int | None = None
    scale_up: str
    scale_up_domain: int
    pcie: str
    platform: str


class ScaleUp(Entry):
    """A link between GPUs of one node or rack. ``bandwidth`` is per GPU and one direction."""

    family: Literal["nvlink", "pcie", "infinity-fabric", "ualink"]
    generation: float
    bandwidth: InBandwidth
    links: int | None = None
    link_bandwidth_both_ways: InBandwidth | None = None
    wiring: Wiring
    largest_domain: int
    in_switch_reduction: bool = False


class ScaleOut(Entry):
    """A network generation. ``port_rate`` is one port, one direction."""

    family: Literal[
        "infiniband", "roce", "spectrum-x", "ultra-ethernet", "tcp", "efa", "slingshot", "gpudirect-tcp", "omni-path"
    ]
    transport: str
    port_rate: InBandwidth
    lanes: int | None = None
    lane_rate: InBandwidth | None = None
    switch_latency: InSeconds | None = None
    end_to_end_latency: InSeconds | None = None
    switches: tuple[str, ...] = ()
    nic: str | None = None
    address_limit: InNumber | None = None
    in_network_reduction: bool = False
    lossless: bool = False
    predecessor: str | None = None


class Switch(Entry):
    """A switch box. A box may hold several independent switches (``switches_per_box``); ``ports`` is of one of them."""

    vendor: str
    family: Literal["infiniband", "ethernet", "slingshot"]
    ports: int
    port_rate: InBandwidth
    switches_per_box: int = 1
    ports_per_cage: int = 1
    cages: int | None = None
    breakout: tuple[int, ...] = (1,)
    rack_units: int | None = None
    latency: InSeconds | None = None
    power: InWatts | None = None
    maximum_power: InWatts | None = None
    maximum_power_includes_modules: bool = False
    chassis: bool = False
    co_packaged: bool = False
    management_port: bool = False


class Nic(Entry):
    """A network adapter."""

    vendor: str
    families: tuple[str, ...]
    ports: int
    port_rate: InBandwidth
    pcie: str
    power: InWatts | None = None
    maximum_power: InWatts | None = None


class Optic(Entry):
    """A transceiver module or a cable. ``rate`` is of the whole part, ``links`` how many links it carries.

    A transceiver names the ``fibre`` it needs; the modules of a link agree in that and in the rate of a lane.
    """

    kind: Literal["transceiver", "dac", "acc", "aoc", "fibre"]
    rate: InBandwidth
    links: int = 1
    reach: InMetres
    fibre: str | None = None
    lane_rate: InBandwidth | None = None
    power: InWatts | None = None


class Platform(Entry):
    """A server or rack that GPUs come in."""

    vendor: str
    gpus: tuple[str, ...]
    gpus_per_node: int
    nics_per_node: int
    nic_rate: InBandwidth
    scale_up_wiring: Wiring
    scale_up_domain: int
    rack_units: float
    nodes_per_rack: int
    power: InWatts
    typical_power: InWatts | None = None
    pcie: str
    storage_nics: int = 1
    scale_up_switches: int = 0
    price: str | None = None


class Model(Entry):
    """The public shape of a transformer, and its published parameter count."""

    family: str
    layers: int
    hidden: int
    heads: int
    head_dim: int | None = None
    kv_heads: int
    ffn_hidden: int
    gated: bool
    vocabulary: int
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn_hidden: int = 0
    shared_experts: int = 0
    shared_expert_ffn_hidden: int | None = None
    dense_layers: int = 0
    moe_every: int = 1
    query_rank: int | None = None
    kv_rank: int | None = None
    rope_head_dim: int | None = None
    value_head_dim: int | None = None
    multi_token_layers: int = 0
    sliding_window: int | None = None
    sliding_share: float = 0.0
    biases: bool = False
    qkv_bias: bool = False
    learned_positions: int = 0
    parallel_block: bool = False
    sequence_length: int = 4096
    parameters: InNumber
    parameters_printed: str = ""
    active_parameters: InNumber | None = None


class PriceBook(BaseModel):
    """An edition of prices [USD, USD/s or USD/J]."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    key: str
    name: str
    date: str
    note: str = ""
    prices: dict[str, Estimate]


class Preset(BaseModel):
    """A published cluster, as the scenario fields that describe it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    name: str
    description: str
    source: str
    scenario: dict[str, str | int | float | bool]
