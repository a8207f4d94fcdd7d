"""The kinds of entry in the catalogue, and the one way a number with a source is held."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Annotated, Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from app import units

DRAWS = 256
_DEVIATES = np.array([NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)])
_P95 = NormalDist().inv_cdf(0.95)

Status = Literal["shipping", "announced", "projected", "estimate", "calibrated", "measured", "standard"]


@dataclass(frozen=True)
class Estimate:
    """A number with a unit, a range and a source.

    ``low`` and ``high`` are about the 5th and 95th percentile of what one meets in the field; an exact number has none.
    """

    typical: float
    unit: str
    source: str
    status: Status = "shipping"
    low: float | None = None
    high: float | None = None
    note: str = ""
    date: str = ""
    key: str = ""
    spread: bool = True

    def __hash__(self) -> int:
        """Estimates are looked up often, and their keys tell most of them apart."""
        return hash((self.key, self.typical))

    def draws(self) -> NDArray[np.float64]:
        """The typical value first, then 256 fixed-seed draws [unit]; shape (257,), read-only.

        The draws are stratified (a Latin hypercube over all constants): each constant visits the 256 midpoints of its
        own distribution once, in an order seeded by its key, so constants are independent of one another; all prices of
        an edition share one order. Two-piece lognormal whose median is ``typical`` and whose 5th and 95th percentiles
        are ``low`` and ``high``; two-piece normal where zero is possible.

        >>> exact = Estimate(typical=2.0, unit="1", source="arithmetic")
        >>> float(exact.draws().std())
        0.0
        """
        return self._draws

    def settled(self) -> "Estimate":
        """The same estimate with its typical value as the only draw, for searches that need no range."""
        return replace(self, low=None, high=None, spread=False)

    @cached_property
    def _draws(self) -> NDArray[np.float64]:
        drawn = self._drawn() if self.spread else np.array([self.typical])
        drawn.flags.writeable = False
        return drawn

    def _drawn(self) -> NDArray[np.float64]:
        low = self.typical if self.low is None else self.low
        high = self.typical if self.high is None else self.high
        seed = ".".join(self.key.split(".")[:2]) if self.key.startswith("prices.") else self.key
        deviates = np.random.default_rng(crc32(seed.encode())).permutation(_DEVIATES)
        if low > 0:
            below, above = np.log(self.typical / low) / _P95, np.log(high / self.typical) / _P95
            values = self.typical * np.exp(deviates * np.where(deviates < 0, below, above))
        else:
            below, above = (self.typical - low) / _P95, (high - self.typical) / _P95
            values = np.maximum(self.typical + deviates * np.where(deviates < 0, below, above), 0.0)
        return np.concatenate(([self.typical], values))

    def times(self, factor: float, note: str = "") -> "Estimate":
        """The same estimate scaled by an exact factor."""
        return _scaled(self, factor, note or self.note)


@lru_cache(maxsize=1024)
def _scaled(estimate: Estimate, factor: float, note: str) -> Estimate:
    """Kept, so that the draws are made once."""
    return replace(
        estimate,
        typical=estimate.typical * factor,
        low=None if estimate.low is None else estimate.low * factor,
        high=None if estimate.high is None else estimate.high * factor,
        note=note,
    )


def read_estimate(value: object, unit: str, key: str, source: str = "", status: Status = "shipping") -> Estimate:
    """An estimate from its TOML form: a table, or bare text that takes the source and status of its entry."""
    table: dict[str, Any] = dict(value) if isinstance(value, dict) else {"typical": value}
    unknown = table.keys() - {"typical", "low", "high", "source", "status", "note", "date", "unit"}
    if unknown:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}")
    if "typical" not in table:
        raise ValueError("lacks typical")
    if table.get("unit", unit) != unit:
        raise ValueError(f"unit {table['unit']!r} where {unit!r} is wanted")
    if unit not in units.UNITS:
        raise ValueError(f"unknown unit {unit!r}; the units are {', '.join(sorted(units.UNITS))}")
    for name in ("typical", "low", "high"):
        if unit != "1" and name in table and not isinstance(table[name], str):
            raise ValueError(f"{name} must be text with a unit, like “{units.show(1, unit)}”")
    numbers = {name: units.parse(table[name], unit) for name in ("typical", "low", "high") if name in table}
    low, typical, high = numbers.get("low"), numbers["typical"], numbers.get("high")
    if typical < 0 or (low is not None and not 0 <= low <= typical) or (high is not None and high < typical):
        raise ValueError(f"range the wrong way round: low {low}, typical {typical}, high {high}")
    if not table.get("source", source):
        raise ValueError("lacks a source")
    return Estimate(
        typical=typical,
        low=low,
        high=high,
        unit=unit,
        source=table.get("source", source),
        status=table.get("status", status),
        note=table.get("note", ""),
        date=str(table.get("date", "")),
        key=key,
    )


class In:
    """Marks a field as an ``Estimate`` in this unit."""

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: object, info: ValidationInfo) -> Estimate:
            context = info.context or {}
            key = f"{context.get('key', '')}.{info.field_name}"
            return read_estimate(value, self.unit, key, context.get("source", ""), context.get("status", "shipping"))

        return core_schema.with_info_plain_validator_function(read)


InBytes = Annotated[Estimate, In("B")]
InBandwidth = Annotated[Estimate, In("B/s")]
InSeconds = Annotated[Estimate, In("s")]
InWatts = Annotated[Estimate, In("W")]
InFlops = Annotated[Estimate, In("FLOP/s")]
InMetres = Annotated[Estimate, In("m")]
InNumber = Annotated[Estimate, In("1")]

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
