"""Which network: computed by running the same job on the other family, beside the articles' rule of thumb."""

from app.catalog import Catalog
from app.catalog.types import ScaleOut
from app.plan import costs, fabric, training
from app.plan.hardware import Hardware, look_up
from app.plan.parts import Parallelism, Recommendation
from app.scenario import Scenario

FEW, MANY = 64, 1000
"""The articles' limits: under 64 GPUs either network does; over 1,000 InfiniBand NDR."""
TIE = 0.02
"""Costs closer than this share are called equal: less than any price is known to."""


def recommend(
    scenario: Scenario, hardware: Hardware, catalog: Catalog, job: training.TrainingDraft, money: costs.CostsDraft
) -> Recommendation | None:
    """Compare the planned network with the other family at the same rate, by owned cost of the run.

    ``None`` where the plan or its rival cannot be computed, or needs no network.
    """
    rival = counterpart(hardware.scale_out, catalog)
    if rival is None or job.parallelism is None or hardware.nodes < 2:
        return None
    other = scenario.model_copy(update={"scale_out": rival.key, "switch": None, **degrees(job.parallelism)})
    there = look_up(other, catalog)
    network = fabric.draft(there, other, catalog)
    rival_job = training.draft(there, other, catalog, taper=network.taper, hops=network.hops)
    rival_money = costs.draft(there, other, catalog, fabric=network, time_to_train=rival_job.time_to_train)
    own, its = (float(draft.quantities["costs.per_run"].values.flat[0]) for draft in (money, rival_money))
    slower = float(rival_job.time_to_train[0] / job.time_to_train[0] - 1)
    dearer = its / own - 1
    if not (own > 0 and its > 0):
        return None
    if abs(dearer) < TIE:
        best, outcome = hardware.scale_out, "so the cost of the run does not decide between them"
    else:
        best = hardware.scale_out if dearer > 0 else rival
        outcome = f"so {best.name} is the better buy"
    pace = (
        f"finishes {abs(slower):.1%} {'later' if slower > 0 else 'sooner'}" if abs(slower) >= 5e-4 else "finishes alike"
    )
    price = f"costs {abs(dearer):.1%} {'more' if dearer > 0 else 'less'} for the run"
    agrees, rule = rule_of_thumb(hardware.gpus, best, abs(dearer) < TIE)
    return Recommendation(
        scale_out=best.key,
        reason=f"Against {hardware.scale_out.name}, {rival.name} {pace} and {price}, {outcome}.",
        rule_of_thumb=rule,
        agrees=agrees,
    )


def counterpart(scale_out: ScaleOut, catalog: Catalog) -> ScaleOut | None:
    """The network of the other family whose port rate is nearest."""
    family = "roce" if scale_out.family == "infiniband" else "infiniband"
    rate = scale_out.port_rate.typical
    others = [entry for entry in catalog.scale_out.values() if entry.family == family]
    return min(others, key=lambda entry: abs(entry.port_rate.typical / rate - 1), default=None)


def degrees(parallelism: Parallelism) -> dict[str, object]:
    """Chosen parallelism as scenario fields, so that another plan runs the same way."""
    names = (
        "tensor_parallel", "pipeline_parallel", "virtual_pipeline", "context_parallel", "expert_parallel",
        "micro_batch", "sequence_parallel", "sharding", "sharding_group", "recompute", "schedule",
    )  # fmt: skip
    return {name: getattr(parallelism, name) for name in names}


def rule_of_thumb(gpus: int, best: ScaleOut, tie: bool) -> tuple[bool, str]:
    """Whether the computed choice agrees with the articles, and what they say."""
    if gpus < FEW:
        return True, f"Under {FEW} GPUs either network does."
    if gpus > MANY:
        return tie or best.family == "infiniband", f"Over {MANY:,} GPUs: InfiniBand NDR."
    return True, "Between: InfiniBand for the most performance, 400G Ethernet with RoCE for the budget."
