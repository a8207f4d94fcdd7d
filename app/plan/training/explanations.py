"""How the figures of the step came about."""

from collections.abc import Mapping

from app.catalog import Catalog
from app.plan.bands import Draws
from app.plan.hardware import Hardware
from app.plan.parts import Explanation, Parallelism, Term
from app.plan.training.cards import peaks
from app.plan.training.parts import PART_NAMES, Timing
from app.plan.training.results import MEMORY_PART
from app.scenario import Scenario
from app.transformer import Shape


def explanations(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    parallelism: Parallelism | None,
    timing: Timing,
    share: float,
    flops: float,
    memory: Mapping[str, Draws],
) -> dict[str, Explanation]:
    """How the figures came about, with the plan's own numbers."""
    if parallelism is None:
        return {}
    time = float(timing.time[0, 0])
    tokens = float(scenario.global_batch * scenario.sequence_length)
    wide, linear, _ = peaks(hardware.gpu, scenario.precision)
    efficiency = catalog.training["products"]["efficiency"]
    parts = tuple(Term(name, PART_NAMES[name], float(part[0]), "s") for name, _, part in timing.parts)
    used = Term("MFU", "model FLOPs utilisation", flops * tokens / (time * scenario.gpus * linear.typical), "1")
    sizes = tuple(
        Term(part, part, float(draws.values[0]), "B")
        for path, draws in memory.items()
        if (part := path.removeprefix(MEMORY_PART)) != path
    )
    step = Term("T_step", "step time", time, "s")
    return {
        "training.step_time": Explanation(
            "training.assemble",
            (
                Term("m", "micro-batches of a replica", float(parallelism.micro_batches), "1"),
                Term("p", "pipeline stages", float(parallelism.pipeline_parallel), "1"),
                Term("v", "model chunks on each", float(parallelism.virtual_pipeline), "1"),
                Term("L", "layers", float(model.layers), "1"),
                Term("R", "16-bit matrix rate of one GPU", wide.typical, "FLOP/s", wide.source),
                Term("e", "share of it that a large product reaches", efficiency.typical, "1", efficiency.source),
                *parts,
            ),
        ),
        "training.mfu": Explanation(
            "training.mfu",
            (
                Term("F", f"model FLOPs of one token, {scenario.attention} attention counted", flops, "FLOP"),
                Term("B s", "tokens of one step", tokens, "1"),
                step,
                Term("n", "GPUs", float(scenario.gpus), "1"),
                Term("R", "dense peak at the precision of the layers", linear.typical, "FLOP/s", linear.source),
                used,
            ),
        ),
        "training.time_to_train": Explanation(
            "training.time_to_train",
            (
                Term("D", "training tokens", scenario.training_tokens, "1"),
                Term("B s", "tokens of one step", tokens, "1"),
                step,
                Term("A", "share of time that makes progress", share, "1", catalog.training["failures"]["rate"].source),
            ),
        ),
        "memory.total": Explanation("training.memory", sizes),
    }
