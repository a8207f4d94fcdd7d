"""The parts of a plan, as every reader gets them: frozen, folded to bands, named as on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from app.plan.bands import Band

Severity = Literal["error", "warning", "note"]
Resource = Literal["compute", "memory_bandwidth", "scale_up", "scale_out", "bubble", "overhead"]
Quantity = Band | None
"""A band; ``None`` where the value cannot be computed, and a finding says why."""


@dataclass(frozen=True)
class Finding:
    """Something the reader should know, worst first, with what to change."""

    severity: Severity
    code: str
    message: str
    fields: tuple[str, ...] = ()
    suggestion: str = ""
    changes: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """One symbol of an explanation: what stands for it in this plan, and where that comes from."""

    symbol: str
    meaning: str
    value: float
    unit: str
    source: str = ""


@dataclass(frozen=True)
class Explanation:
    """How one figure was computed: the formula's key on the method page, and the planner's own numbers in it."""

    formula: str
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Cluster:
    nodes: int
    gpus: int
    racks: int
    power: Quantity
    gpus_per_node: int
    scale_up_domain: int
    nodes_per_rack: int
    memory: Quantity
    typical_power: Quantity
    racks_by_height: int
    racks_by_power: int


@dataclass(frozen=True)
class Links:
    node_leaf: int
    leaf_spine: int
    spine_core: int


@dataclass(frozen=True)
class Bisection:
    """``tier`` is scale_up, leaf, spine or core: the cut at that tier."""

    tier: str
    one_way: Quantity
    both_ways: Quantity


@dataclass(frozen=True)
class BillLine:
    """One line of the bill of materials; prices are ``None`` where nobody publishes one."""

    role: str
    part: str
    key: str
    quantity: int
    unit_price: Quantity
    cost: Quantity
    power: Quantity


@dataclass(frozen=True)
class FabricShape:
    """How one plane is wired. ``leaf_up`` counts links of ``uplink_rate``; hosts have links of ``host_rate`` [B/s]."""

    nodes: int
    rails: int
    management_links: int
    units: int
    nodes_per_unit: int
    leaves_per_unit: int
    leaf_down: int
    leaf_up: int
    spine_down: int
    spine_up: int
    leaves: int
    spines: int
    cores: int
    super_cores: int
    peers: int
    host_rate: float
    uplink_rate: float
    by_rail: bool
    rail_spines: bool
    oversubscription: float
    spine_oversubscription: float
    family: str


@dataclass(frozen=True)
class Fabric:
    topology: str
    approximate: bool
    switch: str
    tiers: int | None
    planes: int
    leaf_switches: int | None
    spine_switches: int | None
    core_switches: int | None
    links: Links | None
    bisection: tuple[Bisection, ...]
    bisection_per_gpu: Quantity
    ports_free: Mapping[str, int]
    largest_cluster: int | None
    hops: int | None
    latency: Quantity
    cost: Quantity
    cost_per_host_port: Quantity
    cost_per_switch_port: Quantity
    cost_per_gpu: Quantity
    cost_per_bisection: Quantity
    share_of_capital: Quantity
    host_ports: int | None
    switch_ports: int | None
    power: Quantity
    typical_power: Quantity
    bill_of_materials: tuple[BillLine, ...]
    matches: tuple[str, ...]
    networks: tuple["OtherNetwork", ...] = ()
    shape: FabricShape | None = None
    cages: Mapping[str, int] = field(default_factory=dict)
    modules: int | None = None


@dataclass(frozen=True)
class OtherNetwork:
    """A storage or management network beside the compute fabric."""

    role: str
    switch: str
    leaf_switches: int
    spine_switches: int
    links: Links
    cost: Quantity
    power: Quantity


@dataclass(frozen=True)
class Timing:
    """One way to run a collective."""

    algorithm: str
    protocol: str
    time: Quantity
    algorithm_bandwidth: Quantity
    bus_bandwidth: Quantity
    latency_share: float | None
    bandwidth_share: float | None


@dataclass(frozen=True)
class AllReduce:
    message: float
    ranks: int
    algorithm: str
    protocol: str
    time: Quantity
    algorithm_bandwidth: Quantity
    bus_bandwidth: Quantity
    latency_share: float | None
    bandwidth_share: float | None
    alternatives: tuple[Timing, ...]
    reason: str
    library_choice: str


@dataclass(frozen=True)
class StepPart:
    name: str
    resource: Resource
    time: Quantity


@dataclass(frozen=True)
class Parallelism:
    tensor_parallel: int
    pipeline_parallel: int
    virtual_pipeline: int
    context_parallel: int
    expert_parallel: int
    data_parallel: int
    micro_batch: int
    micro_batches: int
    schedule: str
    sequence_parallel: bool
    sharding: str
    sharding_group: int
    recompute: str


@dataclass(frozen=True)
class Alternative:
    """Another way to run the model that the search looked at."""

    parallelism: Parallelism
    step_time: float
    memory: float
    why: str


@dataclass(frozen=True)
class Training:
    parallelism: Parallelism | None
    searched: int
    feasible: int
    step_time: Quantity
    parts: tuple[StepPart, ...]
    mfu: Quantity
    hfu: Quantity
    tokens_per_second: Quantity
    time_to_train: Quantity
    steps: float
    availability: float
    straggler: float
    parameters: float
    active_parameters: float
    flops_per_token: float
    alternatives: tuple[Alternative, ...] = ()
    cloud: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class MemoryPart:
    name: str
    size: Quantity


@dataclass(frozen=True)
class Memory:
    parts: tuple[MemoryPart, ...]
    total: Quantity
    capacity: Quantity
    headroom: Quantity
    fits: bool | None


@dataclass(frozen=True)
class WhatIf:
    """The step with one resource ``factor`` times as good; ``gain`` is the share of the step time saved."""

    resource: Resource
    factor: float
    step_time: Quantity
    gain: float | None


@dataclass(frozen=True)
class Bottleneck:
    resource: Resource | None
    share: float | None
    what_if: tuple[WhatIf, ...]


@dataclass(frozen=True)
class CostLine:
    name: str
    cost: Quantity


@dataclass(frozen=True)
class Costs:
    """``operating`` is a year's; ``per_gpu_hour`` is dollars for one GPU for one hour, owned."""

    capital: Quantity
    operating: Quantity
    total: Quantity
    per_gpu_hour: Quantity
    per_run: Quantity
    rental: Quantity
    capital_parts: tuple[CostLine, ...]
    operating_parts: tuple[CostLine, ...]
    energy: Quantity


@dataclass(frozen=True)
class Recommendation:
    scale_out: str
    reason: str
    rule_of_thumb: str
    agrees: bool


@dataclass(frozen=True)
class Plan:
    """The answer to one scenario. The page renders it, the API returns it, the charts draw it."""

    model_version: str
    catalog_version: str
    scenario: Mapping[str, Any]
    findings: tuple[Finding, ...]
    permalink: str
    verdict: str
    cluster: Cluster
    fabric: Fabric
    all_reduce: AllReduce
    training: Training
    memory: Memory
    bottleneck: Bottleneck
    costs: Costs
    recommendation: Recommendation | None
    explanations: Mapping[str, Explanation]
