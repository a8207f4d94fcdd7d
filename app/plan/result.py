"""The parts of a plan: frozen, named as on the wire, every field declared where it is defined and nowhere else.

A stage makes them with draws for quantities, ``Fabric[Draws]``; `app.plan.band.fold` makes ``Fabric`` of it, which
every reader gets: the same with bands.
"""

from collections.abc import Mapping
from typing import Any, Generic, Literal

from app.plan.band import Q, record, result
from app.plan.serving_result import Serving

Severity = Literal["error", "warning", "note"]
Resource = Literal["compute", "memory_bandwidth", "scale_up", "scale_out", "bubble", "overhead"]


@record
class Finding:
    """Something the reader should know, worst first, with what to change."""

    severity: Severity = result(
        "", "Severity", "error: cannot be built or run; warning: look again; note: good to know."
    )
    code: str = result("", "Code", "What was found, as a word for programs.")
    message: str = result("", "Finding", "What was found, as a sentence.")
    fields: tuple[str, ...] = result("", "Fields", "The fields of the scenario that it is about.", default=())
    suggestion: str = result("", "What to change", "Advice, as a sentence.", default="")
    changes: Mapping[str, str | int | float | bool | None] = result(
        "", "Changes", "Fields with the values that follow the advice; null for the default.", default_factory=dict,
        listed=False,
    )  # fmt: skip


@record
class Term:
    """One symbol of an explanation: what stands for it in this plan, and where that comes from."""

    symbol: str = result("", "Symbol", "The symbol in the formula.")
    meaning: str = result("", "Meaning", "What it stands for.")
    value: float = result("", "Value", "Its value in this plan, in the unit beside it.")
    unit: str = result("", "Unit", "Base unit of the value.")
    source: str = result(
        "", "Source", "Key of the source it comes from; blank where it was computed or given.", default=""
    )


@record
class Explanation:
    """How one figure was computed: the formula's key on the method page, and the planner's own numbers in it."""

    formula: str = result("", "Formula", "Key of the formula on the method page.")
    terms: tuple[Term, ...] = result("", "Terms", "The symbols of the formula with this plan's numbers.")


@record
class BillLine(Generic[Q]):
    """One line of the bill of materials; prices are ``None`` where nobody publishes one."""

    role: str = result("", "Role", "What the part is for.", words="part")
    part: str = result("", "Part", "Name of the part.")
    key: str = result("", "Key", "Key of the part in the catalogue.", listed=False)
    quantity: int = result(
        "1", "Quantity", "How many are bought; below zero, how many fewer with ports for the spare nodes."
    )
    unit_price: Q = result("USD", "Price each", "Price of one; nothing where the node's price pays for it.")
    cost: Q = result("USD", "Cost", "Quantity times the price of one.", formula="costs.line")
    power: Q = result("W", "Power", "Maximum power of all of them; zero where it is part of the node's.")
    included: str = result(
        "",
        "Included",
        "contains or may_contain, where the node's price pays for the part or may do so; else blank.",
        default="",
        listed=False,
    )
    usual_price: Q = result(
        "USD", "Price by itself", "What one would cost, where the node's price pays for it.", default=None, listed=False
    )
    length: float | None = result("m", "Length", "Length of each cable.", default=None, listed=False)
    vendor: str = result("", "Vendor", "Who makes it; blank where several do.", default="", listed=False)
    part_number: str = result(
        "",
        "Part number",
        "What its maker calls it, without what stands for length and airflow; blank where several make it.",
        default="",
        listed=False,
    )
    spares: int = result(
        "1",
        "Spares",
        "Pieces to keep in stock, the share of spares of them in whole pieces; the bill pays for the share itself.",
        default=0,
        listed=False,
    )


@record
class Cluster(Generic[Q]):
    """The nodes as a whole."""

    nodes: int = result("1", "Nodes", "Servers.")
    gpus: int = result("1", "GPUs", "GPUs in all nodes.")
    racks: int = result("1", "Racks", "Racks of nodes and of switches.", formula="costs.racks", show=("comparison",))
    power: Q = result(
        "W",
        "Cluster power",
        "Power to provide for nodes and networks at their maximum, IT load alone.",
        show=("figures", "power", "comparison", "sweep"),
    )
    gpus_per_node: int = result("1", "GPUs per node", "GPUs in one node.")
    scale_up_domain: int = result("1", "Scale-up domain", "GPUs that reach one another over the scale-up link.")
    nodes_per_rack: int = result("1", "Nodes per rack", "Nodes that one rack holds by height.")
    memory: Q = result("B", "Memory of all GPUs", "Memory of all GPUs together, as the vendor prints it.")
    typical_power: Q = result(
        "W", "Cluster power, typical", "Usual power of nodes and networks while training.", show=("power",)
    )
    racks_by_height: int = result("1", "Racks by height", "Racks of nodes if height alone counted.")
    racks_by_power: int = result("1", "Racks by power", "Racks of nodes if power alone counted.")
    compute_racks: int = result("1", "Racks of nodes", "Racks without those of switches.", formula="costs.racks")
    rack_power: Q = result("W", "Power of a rack", "Maximum power of the fullest rack of nodes.")
    spare_nodes: int = result("1", "Spare nodes", "Nodes that stand by, beside those that train.", default=0)
    bill_of_materials: tuple[BillLine[Q], ...] = result(
        "",
        "Nodes and storage to buy",
        "Nodes, spare nodes with their share of the network, and storage, line by line.",
        default=(),
        listed=False,
    )


@record
class Links:
    """Links of a network, tier by tier."""

    node_leaf: int = result("1", "Node–leaf links", "Links between NICs and leaf switches.")
    leaf_spine: int = result(
        "1", "Leaf–spine links", "Links between leaf and spine switches, or between equal switches."
    )
    spine_core: int = result("1", "Spine–core links", "Links above the spine.")


@record
class Bisection(Generic[Q]):
    """``tier`` is scale_up, leaf, spine or core: the cut at that tier."""

    tier: str = result("", "Tier", "scale_up, leaf, spine or core.", words="cut")
    one_way: Q = result(
        "B/s", "One way", "What the worst cut into equal halves carries in one direction.", formula="fabric.bisection"
    )
    both_ways: Q = result(
        "B/s", "Both ways", "The same in both directions together, as vendors print it.", formula="fabric.bisection"
    )
    per_gpu: Q = result(
        "B/s",
        "Per GPU, one way",
        "One way, over all GPUs of what is cut: one scale-up domain, or the cluster.",
        formula="fabric.bisection",
    )


@record
class FabricShape:
    """How one plane is wired. ``leaf_up`` counts links of ``uplink_rate``; hosts have links of ``host_rate`` [B/s]."""

    nodes: int = result("1", "Nodes", "Nodes on the network.")
    rails: int = result("1", "Rails", "NICs of a node on this plane.")
    management_links: int = result("1", "Fabric-manager links", "Leaf ports that the fabric manager takes.")
    units: int = result("1", "Scalable units", "Groups of nodes that share their leaves.")
    nodes_per_unit: int = result("1", "Nodes per unit", "Nodes of a full unit.")
    leaves_per_unit: int = result("1", "Leaves per unit", "Leaf switches of a unit.")
    leaf_down: int = result("1", "Down-ports of a leaf", "Ports of a leaf for hosts.")
    leaf_up: int = result("1", "Uplinks of a leaf", "Links of a leaf to spines.")
    spine_down: int = result("1", "Down-links of a spine", "Links of a spine to leaves.")
    spine_up: int = result("1", "Uplinks of a spine", "Links of a spine to cores.")
    leaves: int = result("1", "Leaves", "Leaf switches of one plane.")
    spines: int = result("1", "Spines", "Spine switches of one plane.")
    cores: int = result("1", "Cores", "Core switches of one plane.")
    super_cores: int = result("1", "Super-cores", "Switches of the fourth tier of one plane.")
    peers: int = result("1", "Peer links", "Links between equal switches of one plane.")
    host_rate: float = result("B/s", "Rate of a host link", "Rate of one host link, one way.")
    uplink_rate: float = result("B/s", "Rate of an uplink", "Rate of one link between switches, one way.")
    by_rail: bool = result("", "By rail", "Whether each leaf serves one rail.")
    rail_spines: bool = result("", "Spines by rail", "Whether each rail has spines of its own.")
    oversubscription: float = result("1", "Leaf oversubscription", "Down-links in use for each uplink of a leaf.")
    spine_oversubscription: float = result("1", "Spine oversubscription", "Down-links for each uplink of a spine.")
    family: str = result("", "Family", "infiniband or ethernet.")


@record
class OtherNetwork(Generic[Q]):
    """A storage or management network beside the compute fabric."""

    role: str = result("", "Network", "storage, in-band management or out-of-band management.", words="part")
    switch: str = result("", "Switch", "Key of its switch.")
    leaf_switches: int = result("1", "Leaf switches", "Its leaf switches.")
    spine_switches: int = result("1", "Spine switches", "Its spine switches.")
    links: Links = result("", "Links", "Its links, tier by tier.")
    cost: Q = result("USD", "Cost", "Its switches, cards, modules and cables.", formula="costs.line")
    power: Q = result("W", "Power", "Maximum power of its switches and modules.")
    bill_of_materials: tuple[BillLine[Q], ...] = result(
        "", "Bill of materials", "What is bought for it, line by line.", default=(), listed=False
    )


@record
class SlotUse(Generic[Q]):
    """What one of those that share a GPU's PCIe link asks of it at most, one way."""

    part: str = result("", "Who sends", "network, storage, or together.", words="slot")
    rate: Q = result("B/s", "Rate", "Its share of the ports of a node, for one GPU; without GPUDirect twice that.")
    share: Q = result(
        "1", "Of the payload", "Over what the link carries besides headers; above 1 one waits for the other.",
        formula="fabric.slot_use",
    )  # fmt: skip


@record
class Fabric(Generic[Q]):
    """The compute network between nodes, designed and priced."""

    topology: str = result("", "Topology", "How it is wired.")
    approximate: bool = result("", "Approximate", "Whether the bisection is a bound rather than exact.")
    switch: str = result("", "Switch", "Key of the leaf switch.")
    spine_switch: str | None = result("", "Spine switch", "Key of the switch above the leaves, where there is one.")
    tiers: int | None = result("1", "Tiers", "Tiers of switches.")
    planes: int = result("1", "Planes", "Independent parallel fabrics.")
    leaf_switches: int | None = result(
        "1", "Leaf switches", "Leaf switches of all planes.", formula="fabric.design", show=("comparison",)
    )
    spine_switches: int | None = result(
        "1", "Spine switches", "Spine switches of all planes.", formula="fabric.smallest_divisor", show=("comparison",)
    )
    core_switches: int | None = result(
        "1", "Core switches", "Switches above the spine, of all planes.", show=("comparison",)
    )
    links: Links | None = result("", "Links", "Links, tier by tier.")
    bisection: tuple[Bisection[Q], ...] = result(
        "",
        "Bisection bandwidth",
        "Across the worst equal halves at each tier.",
        formula="fabric.bisection",
        table="bisection",
    )
    bisection_per_gpu: Q = result(
        "B/s",
        "Bisection bandwidth per GPU, one way",
        "The worst cut's rate, one way, over all GPUs.",
        formula="fabric.bisection",
        show=("figures", "comparison", "sweep"),
    )
    slot: tuple[SlotUse[Q], ...] = result(
        "", "What shares a GPU's PCIe link", "Network and storage, where both go straight to the GPU.", table="slot"
    )
    ports_free: Mapping[str, int] = result("1", "Ports free", "Unused ports of each tier's switches.")
    largest_cluster: int | None = result("1", "Grows to", "GPUs that this switch and these tiers can join at most.")
    hops: int | None = result("1", "Switches on the way", "Switches on the longest shortest path.")
    latency: Q = result("s", "Latency", "Switches and light on the longest shortest path.")
    cost: Q = result(
        "USD",
        "Fabric cost",
        "Switches, NICs, modules, cables and spares.",
        formula="costs.line",
        show=("figures", "comparison", "sweep"),
        made_of="bill_of_materials.cost",
    )
    cost_per_host_port: Q = result(
        "USD",
        "Fabric cost per host port",
        "Fabric cost over the NIC ports in use.",
        formula="costs.per",
        show=("figures", "costs", "comparison", "sweep"),
        made_of="bill_of_materials.cost",
    )
    cost_per_switch_port: Q = result(
        "USD",
        "Fabric cost per switch port",
        "Fabric cost over the ports of all switches.",
        formula="costs.per",
        show=("figures", "costs"),
    )
    cost_per_gpu: Q = result(
        "USD",
        "Fabric cost per GPU",
        "Fabric cost over all GPUs.",
        formula="costs.per",
        show=("figures", "comparison", "sweep"),
        made_of="bill_of_materials.cost",
    )
    cost_per_bisection: Q = result(
        "USD/(Gb/s)",
        "Fabric cost per Gb/s of bisection",
        "Fabric cost over the worst cut's rate, one way, in Gb/s.",
        formula="costs.per",
    )
    share_of_capital: Q = result(
        "1", "Fabric's share of capital", "Fabric cost over capital.", formula="costs.per", show=("costs",), share=True
    )
    host_ports: int | None = result("1", "NIC ports", "NIC ports in use.")
    switch_ports: int | None = result("1", "Ports of all switches", "Ports of all switches, used or free.")
    power: Q = result("W", "Fabric power", "Maximum power of switches with their modules.", show=("power",))
    typical_power: Q = result(
        "W", "Fabric power, typical", "Usual power of switches with their modules.", show=("power",)
    )
    bill_of_materials: tuple[BillLine[Q], ...] = result(
        "",
        "Bill of materials",
        "What is bought, line by line.",
        formula="costs.line",
        table="bill_of_materials",
        sums={"Fabric": {"cost": "cost", "power": "power"}},
    )
    matches: tuple[str, ...] = result("", "Published designs", "Titles of published designs with the same counts.")
    networks: tuple[OtherNetwork[Q], ...] = result(
        "", "Storage and management networks", "Those that are switched on.", default=(), table="networks"
    )
    shape: FabricShape | None = result("", "Shape", "How one plane is wired.", default=None)
    cages: Mapping[str, int] = result("1", "Cages", "Cages in use, by role.", default_factory=dict)
    modules: int | None = result("1", "Modules", "Transceiver modules bought.", default=None)


@record
class Timing(Generic[Q]):
    """One way to run a collective."""

    algorithm: str = result("", "Algorithm", "ring, tree, nvls, …", words="algorithm")
    protocol: str = result("", "Protocol", "ll, ll128 or simple; blank where the profile knows none.", words="protocol")
    time: Q = result("s", "Time", "Until every GPU holds the result.", formula="collectives.times")
    algorithm_bandwidth: Q = result(
        "B/s", "Algorithm bandwidth", "Message over time.", formula="collectives.algorithm_bandwidth"
    )
    bus_bandwidth: Q = result(
        "B/s",
        "Bus bandwidth",
        "Algorithm bandwidth times 2(n - 1)/n, as nccl-tests print it.",
        formula="collectives.bus_bandwidth",
    )
    latency_share: float | None = result(
        "1", "Latency share", "Share of the time that would stay if links were infinitely wide.", share=True
    )
    bandwidth_share: float | None = result(
        "1", "Bandwidth share", "Share of the time that moves bytes at full rate.", share=True
    )


@record
class AllReduce(Generic[Q]):
    """The reduction of one message over all GPUs."""

    message: float = result("B", "Message", "Bytes on each GPU.")
    ranks: int = result("1", "Ranks", "GPUs that take part.")
    algorithm: str = result(
        "", "Algorithm", "The quickest, or the forced one.", words="algorithm", show=("comparison",)
    )
    protocol: str = result("", "Protocol", "ll, ll128 or simple; blank where the profile knows none.", words="protocol")
    time: Q = result(
        "s",
        "All-reduce time",
        "Until every GPU holds the sum.",
        formula="collectives.times",
        show=("figures", "comparison"),
    )
    algorithm_bandwidth: Q = result(
        "B/s", "All-reduce algorithm bandwidth", "Message over time.", formula="collectives.algorithm_bandwidth"
    )
    bus_bandwidth: Q = result(
        "B/s",
        "All-reduce bus bandwidth",
        "Algorithm bandwidth times 2(n - 1)/n, as nccl-tests print it.",
        formula="collectives.bus_bandwidth",
        show=("figures", "comparison"),
    )
    all_to_all_time: Q = result(
        "s",
        "All-to-all time",
        "Until every GPU has sent its share of as large a message to every other.",
        formula="collectives.all_to_all_algorithms",
        show=("figures", "comparison"),
    )
    latency_share: float | None = result(
        "1", "Latency share", "Share of the time that would stay if links were infinitely wide.", share=True
    )
    bandwidth_share: float | None = result(
        "1", "Bandwidth share", "Share of the time that moves bytes at full rate.", share=True
    )
    alternatives: tuple[Timing[Q], ...] = result(
        "", "All-reduce by algorithm", "Every algorithm that this cluster can run.", table="all_reduce"
    )
    reason: str = result("", "Reason", "Why this algorithm, in a sentence.")
    library_choice: str = result(
        "", "Library's choice", "What NCCL's own tables would choose; blank where they do not apply."
    )


@record
class StepPart(Generic[Q]):
    """A part of the step, as far as it is not hidden behind others."""

    name: str = result("", "Part", "What is done.", words="part")
    resource: Resource = result("", "Bounded by", "The resource that bounds it.", words="resource")
    time: Q = result("s", "Time", "Time of the step that it takes.", formula="training.assemble")


@record
class GroupTraffic:
    """What GPUs that share a part of the job send to one another in a step. Typical values."""

    group: str = result("", "Group", "What its GPUs share out.", words="part")
    ranks: int = result("1", "Ranks", "GPUs of one group.")
    ranks_inside: int = result("1", "In a domain", "Those that reach one another over the scale-up link.")
    crosses: str = result(
        "",
        "Stays",
        "scale_up: inside a scale-up domain; leaf: below one leaf, or a leaf of each rail; spine: below the spines of "
        "a pod, or of a network without cores; core: across cores.",
        formula="fabric.members",
        words="reach",
    )
    sent_inside: float = result("B", "Sent inside", "What a GPU sends over the scale-up link in a step.")
    sent: float = result("B", "Sent between", "What a GPU sends over the network in a step.")
    bandwidth: float = result(
        "B/s",
        "Bandwidth there",
        "What the link on the way that takes longest over what a GPU sends there leaves it.",
        formula="collectives.group_of",
    )
    time: float = result(
        "s",
        "Time alone",
        "What the exchanges of a step take with nothing else on the links, as the all-reduce by itself is timed.",
        formula="collectives.collective_time",
    )
    exposed: float = result("s", "Time shown", "What of it the step shows, beside computation.")


@record
class Parallelism:
    """How the model is spread over the GPUs."""

    tensor_parallel: int = result("1", "Tensor parallel", "GPUs that share each layer's matrices.")
    pipeline_parallel: int = result("1", "Pipeline parallel", "Stages of layers.")
    virtual_pipeline: int = result("1", "Virtual pipeline", "Chunks of layers on each stage.")
    context_parallel: int = result("1", "Context parallel", "GPUs that share each sequence.")
    expert_parallel: int = result("1", "Expert parallel", "GPUs over which experts are spread.")
    expert_tensor_parallel: int = result("1", "Expert tensor parallel", "GPUs that share one expert.")
    data_parallel: int = result("1", "Data parallel", "Replicas that each take other sequences.")
    micro_batch: int = result("1", "Micro batch", "Sequences at a time on a replica.")
    micro_batches: int = result("1", "Micro batches", "Micro-batches of a replica in one step.")
    schedule: str = result("", "Schedule", "1f1b, interleaved, zero-bubble or dualpipe.")
    sequence_parallel: bool = result(
        "", "Sequence parallel", "Whether tensor-parallel ranks share the work between matrices."
    )
    sharding: str = result("", "Sharding", "What data-parallel ranks share: none, optimizer, gradients or parameters.")
    sharding_group: int = result("1", "Sharding group", "Ranks that share one copy.")
    recompute: str = result("", "Recompute", "Activations computed again: none, selective or full.")
    recompute_layers: int | None = result(
        "1",
        "Layers recomputed in full",
        "Layers whose whole forward pass is repeated, where that is neither none nor all.",
        default=None,
    )


@record
class Alternative:
    """Another way to run the model that the search looked at."""

    parallelism: Parallelism = result("", "Parallelism", "How the model would be spread.")
    step_time: float = result("s", "Step time", "Typical time of a step.")
    memory: float = result("B", "Memory", "Typical memory of the fullest GPU.")
    why: str = result("", "Why not", "What costs it most.")


@record
class RangePart:
    """One thing that the width of a step's range rests on."""

    name: str = result("", "Rests on", "A class of measured steps, or what has none.", words="range")
    half_width: float = result(
        "1", "Half-width", "Of four cases of five, on the logarithm; they add in quadrature.", share=True
    )


@record
class Training(Generic[Q]):
    """The training step and the run."""

    parallelism: Parallelism | None = result(
        "", "How the model is spread", "Given, or the best that was found.", table="parallelism"
    )
    searched: int = result("1", "Configurations looked at", "Ways to spread the model that were enumerated.")
    feasible: int = result("1", "Configurations that fit", "Those of them that fit the memory.")
    step_time: Q = result(
        "s",
        "Step time",
        "One optimizer step.",
        formula="training.assemble",
        show=("figures", "comparison", "sweep"),
        made_of="parts.time",
    )
    time_to_train: Q = result(
        "s",
        "Time to train",
        "All steps, and what failures and checkpoints take.",
        formula="training.time_to_train",
        show=("figures", "comparison", "sweep"),
        made_of="parts.time",
    )
    parts: tuple[StepPart[Q], ...] = result(
        "",
        "Time of one training step",
        "Only what is not hidden behind other parts; the parts add up to the step.",
        table="step",
        sums={"Step": {"time": "step_time"}},
    )
    groups: tuple[GroupTraffic, ...] = result(
        "",
        "What each group sends",
        "Groups of GPUs by what they share, where they stand, and what their links leave them.",
        table="traffic",
    )
    mfu: Q = result(
        "1",
        "Model FLOPs utilisation (MFU)",
        "Useful matrix work over what all GPUs could do at their peak.",
        formula="training.mfu",
        show=("figures", "comparison", "sweep"),
        share=True,
        made_of="parts.time",
    )
    hfu: Q = result(
        "1",
        "Hardware FLOPs utilisation (HFU)",
        "The same with work that is done again counted.",
        formula="training.mfu",
        show=("figures",),
        share=True,
    )
    tokens_per_second: Q = result(
        "1/s",
        "Tokens per second",
        "Tokens of a step over its time.",
        show=("figures", "comparison", "sweep"),
        made_of="parts.time",
    )
    steps: float = result("1", "Steps", "Training tokens over the tokens of a step.")
    availability: float = result(
        "1", "Availability", "Share of time that makes progress.", formula="training.goodput", share=True
    )
    straggler: float = result(
        "1", "Straggler factor", "Step time over what it were if all nodes were as quick as the usual one."
    )
    parameters: float = result("1", "Parameters", "Parameters of the model.", formula="transformer.parameters")
    active_parameters: float = result(
        "1", "Active parameters", "Parameters that one token meets.", formula="transformer.active_parameters"
    )
    flops_per_token: float = result(
        "FLOP",
        "Model FLOPs per token",
        "Matrix work of one token, forward and backward.",
        formula="transformer.training_flops",
    )
    alternatives: tuple[Alternative, ...] = result(
        "", "Alternatives", "The best ways to run the model after this one.", default=()
    )
    cloud: tuple[tuple[float, float], ...] = result(
        "s, B", "Cloud", "Step time and memory of many ways that fit.", default=()
    )
    productive_time: Q = result(
        "s",
        "Time of the steps alone",
        "All steps, as if nothing ever failed.",
        formula="training.time_to_train",
        show=("figures",),
        made_of="parts.time",
        default=None,
    )
    campaign_time: Q = result(
        "s",
        "Calendar time of the campaign",
        "The run with ramp-up, evaluation, roll-backs and later phases.",
        formula="training.campaign_time",
        show=("figures", "comparison", "sweep"),
        made_of="parts.time",
        default=None,
    )
    range_rests_on: tuple[RangePart, ...] = result(
        "",
        "What the range of the step rests on",
        "The model's error on measured steps of the class, wider where stack, card or routing has none; the spread of "
        "the constants adds to it.",
        table="range",
        default=(),
    )


@record
class MemoryPart(Generic[Q]):
    """A part of the memory of the fullest GPU."""

    name: str = result("", "Part", "What is held.", words="part")
    size: Q = result("B", "Memory of one GPU", "Its bytes.", formula="training.memory")


@record
class Memory(Generic[Q]):
    """Memory of the fullest GPU."""

    parts: tuple[MemoryPart[Q], ...] = result(
        "",
        "Memory of the fullest GPU",
        "What is held; the parts add up to the total.",
        table="memory",
        sums={"Total": {"size": "total"}, "Usable": {"size": "capacity"}, "Head-room": {"size": "headroom"}},
    )
    total: Q = result(
        "B",
        "Memory of the fullest GPU",
        "What the fullest GPU holds.",
        formula="training.memory",
        show=("figures", "comparison", "sweep"),
        made_of="parts.size",
    )
    capacity: Q = result("B", "Usable memory of a GPU", "Memory of one GPU that programs can use.")
    headroom: Q = result("B", "Head-room", "Usable memory less what is held.")
    fits: bool | None = result(
        "", "Fits", "Whether the total is below the usable memory; null where nothing was found to run."
    )


@record
class Storage(Generic[Q]):
    """What the run asks of the storage: checkpoints and training tokens."""

    checkpoint_size: Q = result(
        "B",
        "Checkpoint",
        "Weights and optimizer of all parameters.",
        formula="training.checkpoint_size",
        show=("storage",),
    )
    checkpoint_time: Q = result(
        "s",
        "Time to write a checkpoint",
        "Steps stand still for it: the checkpoint over what the storage writes, and a pause.",
        formula="training.write_time",
        show=("storage",),
    )
    checkpoint_interval: Q = result(
        "s",
        "Time between checkpoints",
        "As asked, or what loses least to writing and to failures together.",
        formula="training.checkpoint_interval",
        show=("storage",),
    )
    write_bandwidth: Q = result(
        "B/s",
        "Write bandwidth",
        "What the storage writes while steps stand still.",
        show=("storage",),
    )
    background_bandwidth: Q = result(
        "B/s",
        "Write bandwidth behind the steps",
        "What would do if a checkpoint were copied aside and written until the next one.",
        formula="training.write_bandwidth",
        show=("storage",),
    )
    read_bandwidth: Q = result(
        "B/s", "Reading the training tokens", "Tokens per second at 4 bytes of text each.", show=("storage",)
    )
    capacity: Q = result(
        "B",
        "Capacity that this run fills",
        "Its training text and the checkpoints that it keeps, with room to write; other runs and data are not counted.",
        formula="training.storage_capacity",
        show=("storage",),
    )


@record
class WhatIf(Generic[Q]):
    """The step with one resource ``factor`` times as good; ``gain`` is the share of the step time saved.

    A better link is one of more bandwidth; its latency is an overhead.
    """

    resource: Resource = result("", "Resource", "What is better.", words="resource")
    factor: float = result("1", "Times as good", "How many times.")
    step_time: Q = result("s", "Step time", "The step with it.", formula="training.assemble")
    gain: float | None = result("1", "Step time saved", "Share of the step time saved.", share=True)


@record
class Bottleneck(Generic[Q]):
    """What bounds the step."""

    resource: Resource | None = result(
        "", "Bottleneck", "The resource that takes most of the step.", words="resource", show=("comparison",)
    )
    share: float | None = result("1", "Share", "Its share of the step time.", share=True)
    what_if: tuple[WhatIf[Q], ...] = result(
        "", "What a better resource would gain", "The step with each resource better.", table="what_if"
    )


@record
class CostLine(Generic[Q]):
    """A part of capital."""

    name: str = result("", "Part", "What is paid for.", words="part")
    cost: Q = result("USD", "Cost", "What it costs.")


@record
class RunningCostLine(Generic[Q]):
    """A part of the running cost."""

    name: str = result("", "Part", "What is paid for.", words="part")
    cost: Q = result("USD/year", "Cost", "What it costs a year.")


@record
class Costs(Generic[Q]):
    """``operating``, its parts and ``energy`` are dollars a year; ``per_gpu_hour`` is of one GPU, owned."""

    capital: Q = result(
        "USD",
        "Capital",
        "Nodes, networks and the building they need, bought.",
        show=("figures", "costs", "comparison", "sweep"),
        made_of="capital_parts.cost",
    )
    operating: Q = result(
        "USD/year",
        "Running cost of a year",
        "Energy and support of a year.",
        formula="costs.operating",
        show=("costs", "comparison", "sweep"),
        made_of="operating_parts.cost",
    )
    total: Q = result(
        "USD",
        "Total over the lifetime",
        "Capital and running cost over the lifetime.",
        formula="costs.total",
        show=("costs", "comparison", "sweep"),
        made_of="capital_parts.cost",
    )
    per_gpu_hour: Q = result(
        "USD/h",
        "Cost of a GPU-hour, owned",
        "Total over GPUs and hours of the lifetime: the building is paid off with the GPUs, though it outlasts them.",
        formula="costs.per_gpu_time",
        show=("costs",),
    )
    per_run: Q = result(
        "USD",
        "Cost of this run, owned",
        "The run's share of the lifetime's total.",
        formula="costs.run",
        show=("figures", "costs", "comparison", "sweep"),
        product_of=("training.time_to_train", "costs.per_gpu_hour"),
    )
    rental: Q = result(
        "USD",
        "Cost of this run, rented",
        "GPU-hours of the run at the rent of one.",
        formula="costs.rental",
        show=("figures", "costs", "comparison", "sweep"),
        product_of=("training.time_to_train",),
    )
    capital_parts: tuple[CostLine[Q], ...] = result(
        "", "Capital", "What capital is made of.", table="capital", sums={"Total": {"cost": "capital"}}
    )
    operating_parts: tuple[RunningCostLine[Q], ...] = result(
        "",
        "Running cost of a year",
        "What a year's cost is made of.",
        table="operating",
        sums={"Total": {"cost": "operating"}},
    )
    energy: Q = result(
        "USD/year",
        "Energy of a year",
        "Electricity of a year at typical power.",
        formula="costs.energy_cost",
        show=("costs",),
    )
    carbon: Q = result(
        "kg",
        "Carbon of a year",
        "What a year's electricity emits in the region, at typical power.",
        formula="costs.emissions",
        show=("costs",),
    )
    carbon_per_run: Q = result(
        "kg",
        "Carbon of this run",
        "The same for the time of the run.",
        formula="costs.emissions",
        show=("figures", "costs", "comparison", "sweep"),
    )
    scale_up_per_gpu: Q = result(
        "USD",
        "Scale-up links per GPU",
        "Switch chips, boards, copper and cooling of the links in a domain, over its GPUs: part of the nodes' price.",
        formula="costs.per",
        show=("costs",),
    )
    scale_up_per_bandwidth: Q = result(
        "USD/(GB/s)",
        "Scale-up links per GB/s of a GPU",
        "The same over the one-way rate of a GPU.",
        formula="costs.per",
        show=("costs",),
    )


@record
class Recommendation:
    """The other network, planned for the same job, and the rule of thumb beside it."""

    scale_out: str = result("", "Network", "Key of the network that is recommended.")
    reason: str = result("", "Reason", "Why, in a sentence.")
    rule_of_thumb: str = result("", "Rule of thumb", "What the usual advice says.")
    agrees: bool = result("", "Agrees", "Whether the model and the rule agree.")
    tie: bool = result("", "Tie", "Whether the run costs the same on both, within 2 %: no price is known so well.")
    rival: str = result("", "Rival", "Key of the network that the planned one was held against.")
    slower: float = result(
        "1", "Rival's time", "How much longer the run takes on the rival, with the best parallelism there.", share=True
    )
    dearer: float = result("1", "Rival's cost", "How much more the run costs on the rival.", share=True)
    break_even: float = result(
        "1",
        "Break-even",
        "How much longer the run could take on the less dear of the two until both cost the same.",
        share=True,
    )
    slower_allowed: float | None = result(
        "1",
        "Ethernet may take longer by",
        "How much longer than on InfiniBand the run may take on Ethernet until both cost the same; negative: quicker.",
        formula="costs.slack_in_time",
        share=True,
    )
    dearer_allowed: float | None = result(
        "1",
        "InfiniBand may be dearer by",
        "How much more the InfiniBand network may cost until both runs cost the same; negative: how much less it must.",
        formula="costs.slack_in_price",
        share=True,
    )
    turns: str = result("", "What would turn it", "At which pace and price both cost the same, in a sentence.")


@record
class Plan(Generic[Q]):
    """The answer to one scenario. The page renders it, the API returns it, the charts draw it."""

    model_version: str = result("", "Model version", "Version of the formulas.")
    catalog_version: str = result("", "Catalogue version", "Version of the catalogue, overrides counted.")
    scenario: Mapping[str, Any] = result("", "Inputs", "The question, every blank filled in, in base units.")
    findings: tuple[Finding, ...] = result(
        "", "Findings", "What the reader should know, worst first.", table="findings"
    )
    permalink: str = result("", "Link", "Address that asks the same again.")
    verdict: str = result("", "Verdict", "The answer in a sentence.")
    cluster: Cluster[Q] = result("", "Cluster", "Nodes, racks and power.")
    fabric: Fabric[Q] = result("", "Fabric", "The network between nodes.")
    all_reduce: AllReduce[Q] = result("", "All-reduce", "The reduction of one message over all GPUs.")
    training: Training[Q] = result(
        "", "Training", "The training step and the run; all null where the workload is serving."
    )
    memory: Memory[Q] = result("", "Memory", "Memory of the fullest GPU.")
    storage: Storage[Q] = result("", "Storage", "What the run asks of the storage.")
    bottleneck: Bottleneck[Q] = result("", "Bottleneck", "What bounds the step.")
    costs: Costs[Q] = result("", "Costs", "What the cluster costs to buy, to keep and to use.")
    recommendation: Recommendation | None = result(
        "", "Recommendation", "Which network, and why; null where there is none to choose."
    )
    explanations: Mapping[str, Explanation] = result(
        "", "Explanations", "How figures were computed, by their name on the wire."
    )
    serving: Serving[Q] | None = result(
        "", "Serving", "What the cluster answers with; null where the workload is training.", default=None
    )


@record
class NetworkPlan(Generic[Q]):
    """The network of one scenario alone."""

    scenario: Mapping[str, Any] = result("", "Inputs", "The question, its network's blanks filled in, in base units.")
    findings: tuple[Finding, ...] = result("", "Findings", "What the reader should know, worst first.")
    cluster: Cluster[Q] = result("", "Cluster", "Nodes, racks and power.")
    fabric: Fabric[Q] = result("", "Fabric", "The network between nodes.")
    explanations: Mapping[str, Explanation] = result(
        "", "Explanations", "How figures were computed, by their name on the wire."
    )


@record
class AllReducePlan(Generic[Q]):
    """The reduction of one scenario alone."""

    scenario: Mapping[str, Any] = result("", "Inputs", "The question, its cluster's blanks filled in, in base units.")
    findings: tuple[Finding, ...] = result("", "Findings", "What the reader should know, worst first.")
    all_reduce: AllReduce[Q] = result("", "All-reduce", "The reduction of one message over all GPUs.")
    explanations: Mapping[str, Explanation] = result(
        "", "Explanations", "How figures were computed, by their name on the wire."
    )
