"""The parts of an answer about serving: named as on the wire, every field declared here and nowhere else."""

from typing import Generic, Literal

from app.plan.band import Q, record, result

Mode = Literal["aggregated", "disaggregated"]
Held = Literal["load", "limits"]
ServingResource = Literal["compute", "memory_bandwidth", "memory_capacity", "scale_up", "scale_out", "host"]


@record
class ServingLayout:
    """How one replica spreads over its GPUs."""

    tensor_parallel: int = result("1", "Tensor parallel", "GPUs that share each layer.")
    attention_data_parallel: int = result(
        "1", "Attention data parallel", "Ranks with sequences of their own that share the experts."
    )
    expert_parallel: int = result("1", "Expert parallel", "GPUs that the experts are dealt out to.")
    pipeline_parallel: int = result("1", "Pipeline parallel", "Stages.")
    gpus: int = result("1", "GPUs of a replica", "GPUs of one replica.")


@record
class Pool:
    """Replicas that compute prompts, or answers, alone."""

    workers: int = result("1", "Replicas", "Replicas of the pool.")
    gpus: int = result("1", "GPUs", "GPUs of the pool.")
    parallelism: ServingLayout = result("", "Parallelism", "How each of them spreads over its GPUs.")


@record
class ServingPart(Generic[Q]):
    """A part of a step that decodes, or of the work of one prompt."""

    phase: str = result("", "Phase", "answer: one step of all sequences; prompt: one prompt.")
    name: str = result("", "Part", "What takes the time.", words="part")
    time: Q = result("s", "Time", "Time of it.", formula="serving.step_parts")
    resource: ServingResource = result("", "Bound by", "What it is bound by.", words="resource")


@record
class ServingMemory(Generic[Q]):
    """Memory of one GPU."""

    weights: Q = result("B", "Weights", "Weights of the model.", formula="serving.serving_weights")
    kv_cache: Q = result(
        "B", "Keys and values", "The cache of the sequences in flight.", formula="serving.sequence_bytes"
    )
    other: Q = result("B", "Other", "Activations, graphs and libraries.")
    capacity: Q = result("B", "Capacity", "What the engine may take.")
    sequences: Q = result(
        "1", "Room for sequences", "Sequences that the memory of a replica holds.", formula="serving.sequences_held"
    )


@record
class CacheTransfer(Generic[Q]):
    """Keys and values on their way from the pool for prompts to that for answers."""

    bytes: Q = result("B", "Keys and values of a prompt", "What one prompt leaves.", formula="serving.transfer_bytes")
    time: Q = result("s", "Time to send them", "Part of the time to first token.", formula="serving.transfer_time")
    rate: Q = result("B/s", "Traffic of a GPU", "What each GPU of the smaller pool sends or takes, on average.")
    share_of_network: float = result(
        "1", "Share of its network", "That traffic over the GPU's network rate.", share=True
    )


@record
class Doubled:
    """What twice as much of a resource gains with the same layout, and within the same limits or at the same load."""

    resource: ServingResource = result("", "Resource", "What there would be twice as much of.", words="resource")
    factor: float = result("1", "Factor", "How many times as much.")
    output_tokens_per_second_per_gpu: float = result("1/s", "Tokens a second", "Output tokens of a GPU then.")
    gain: float = result("1", "Gain", "Increase over now.", share=True)


@record
class ServingBottleneck:
    """What limits throughput: at the load that was asked for, else at the most within the limits."""

    resource: ServingResource = result(
        "", "Bottleneck", "The resource that gains most when doubled.", words="resource", show=("comparison",)
    )
    share: float = result(
        "1", "Share", "Share of the time of a token that doubling it saves, gain/(1 + gain).", share=True
    )
    held: Held = result(
        "",
        "Held",
        "load: with as many requests in flight as were asked for, which are answered sooner; limits: the most within "
        "them, where no load was asked for or more than is carried.",
    )
    pool: str = result(
        "",
        "Pool",
        "Which of two pools that makes quickest: prefill or decode; blank where one does both.",
        words="pool",
    )
    what_if: tuple[Doubled, ...] = result("", "What if", "Each resource doubled.", table="serving_what_if")


@record
class ServingCosts(Generic[Q]):
    """What tokens cost."""

    per_million_output_tokens: Q = result(
        "USD",
        "Cost of a million output tokens",
        "The cluster's whole cost over its life, by the tokens it answers with.",
        formula="serving.cost_of_tokens",
        show=("figures", "costs", "comparison", "sweep"),
    )
    per_million_input_tokens: Q = result(
        "USD",
        "Cost of a million input tokens",
        "The same, of the share of the time that prompts take.",
        formula="serving.cost_of_tokens",
        show=("costs", "comparison"),
    )
    rental: Q = result(
        "USD",
        "Rent of a million output tokens",
        "At the rent of a GPU.",
        formula="serving.cost_of_tokens",
        show=("figures", "costs", "comparison", "sweep"),
    )
    energy_per_million_tokens: Q = result(
        "J",
        "Energy of a million output tokens",
        "At typical power, IT alone.",
        formula="serving.cost_of_tokens",
        show=("figures", "costs", "comparison", "sweep"),
    )
    saved_per_million: Q = result(
        "USD",
        "Saved on a million output tokens",
        "The price to beat less what they cost here; null where none is given.",
    )
    break_even_load: Q = result(
        "1",
        "Break-even load",
        "Share of this load at which tokens cost the price to beat; above one where that is less at this load too.",
        formula="serving.break_even_load",
    )


@record
class ServingPoint:
    """A layout and load that no other beats in both speed and throughput, by typical values."""

    interactivity: float = result("1/s", "Tokens a second of a user", "One over the time per token.")
    throughput: float = result("1/s", "Output tokens a second of a GPU", "Throughput at that load.")
    cost: float | None = result("USD", "Cost of a million output tokens", "Owned; null where a price is missing.")
    ttft: float = result("s", "Time to first token", "Mean.")
    concurrency: float = result("1", "In flight", "Requests in flight in a replica that answers, on average.")
    mode: Mode = result("", "Pools", "aggregated: each replica does both; disaggregated: prompts and answers apart.")
    parallelism: ServingLayout = result("", "Parallelism", "How a replica spreads over its GPUs.")


@record
class ServingAlternative:
    """The best of another layout, and why it is not the answer."""

    parallelism: ServingLayout = result("", "Parallelism", "How a replica spreads over its GPUs.")
    output_tokens_per_second_per_gpu: float | None = result(
        "1/s", "Output tokens a second of a GPU", "Its best within the limits; null where it keeps none."
    )
    reason: str = result("", "Why not", "What it lacks.")


@record
class NearestPoint:
    """A published operating point near the answer, and what the planner says of it."""

    source: str = result("", "Source", "Who measured it.")
    url: str = result("", "Address", "Address of the document; blank where there is none.")
    gpu: str = result("", "GPU", "Key of the GPU.")
    engine: str = result("", "Engine", "Key of the engine.")
    input_tokens: float = result("1", "Prompt", "Mean tokens of a prompt.")
    output_tokens: float = result("1", "Answer", "Mean tokens of an answer.")
    concurrency: float = result("1", "In flight", "Requests in flight.")
    measured: float = result("s", "Measured", "Time per token that was measured.")
    predicted: float = result("s", "Predicted", "Time per token that the planner gives.")
    throughput: float = result("1/s", "Measured tokens a second of a GPU", "Output tokens of a GPU.")
    distance: float = result(
        "1", "Distance", "Sum of logarithms of lengths and speed, and of what GPU, format and engine differ by."
    )


@record
class Serving(Generic[Q]):
    """What a cluster that serves answers with."""

    mode: Mode = result("", "Pools", "aggregated: each replica does both; disaggregated: prompts and answers apart.")
    parallelism: ServingLayout | None = result(
        "", "Parallelism", "How a replica spreads over its GPUs; of the answers' pool where there are two."
    )
    prefill: Pool | None = result("", "Pool for prompts", "null where each replica does both.")
    decode: Pool | None = result("", "Pool for answers", "null where each replica does both.")
    replicas: int = result("1", "Replicas", "Replicas that answer.", show=("comparison",))
    gpus: int = result("1", "GPUs in use", "GPUs of all replicas.")
    concurrency: float = result("1", "Requests in flight", "On the whole cluster.", show=("comparison",))
    ttft: Q = result(
        "s", "Time to first token", "Mean.", formula="serving.steady_state", show=("figures", "comparison", "sweep")
    )
    tpot: Q = result(
        "s",
        "Time per token",
        "Mean, between tokens of an answer.",
        formula="serving.steady_state",
        show=("figures", "comparison", "sweep"),
    )
    interactivity: Q = result(
        "1/s", "Tokens a second of a user", "One over the time per token.", show=("figures", "comparison", "sweep")
    )
    output_tokens_per_second_per_gpu: Q = result(
        "1/s",
        "Output tokens a second of a GPU",
        "Tokens of answers.",
        formula="serving.steady_state",
        show=("figures", "comparison", "sweep"),
    )
    total_tokens_per_second_per_gpu: Q = result(
        "1/s",
        "Tokens a second of a GPU",
        "Tokens of prompts and answers.",
        formula="serving.steady_state",
        show=("figures", "comparison"),
    )
    requests_per_second: Q = result(
        "1/s",
        "Requests a second",
        "Of the whole cluster.",
        formula="serving.steady_state",
        show=("figures", "comparison", "sweep"),
    )
    users: Q = result(
        "1",
        "Users",
        "Who each wait for an answer, think, and ask again.",
        formula="serving.users_served",
        show=("figures", "comparison", "sweep"),
    )
    parts: tuple[ServingPart[Q], ...] = result(
        "", "Parts", "Where the time of a step and of a prompt goes.", table="serving_parts"
    )
    memory: ServingMemory[Q] | None = result("", "Memory", "Memory of one GPU.")
    kv_transfer: CacheTransfer[Q] | None = result("", "Between the pools", "null where there is one pool.")
    bottleneck: ServingBottleneck | None = result(
        "", "Bottleneck", "What limits throughput, at the load where one is asked for."
    )
    costs: ServingCosts[Q] = result("", "Costs", "What tokens cost.")
    front: tuple[ServingPoint, ...] = result(
        "", "Front", "Throughput against speed of a user, fastest first.", table="serving_front"
    )
    alternatives: tuple[ServingAlternative, ...] = result(
        "", "Alternatives", "Other layouts, the next best first.", table="serving_alternatives"
    )
    nearest: tuple[NearestPoint, ...] = result(
        "", "Nearest measurements", "Published operating points near the answer.", default=(), table="serving_nearest"
    )
