"""The parallelism: what a scenario fixes of it, and a configuration under the names on the wire."""

from app import search, training
from app.catalog import Catalog
from app.plan.parts import Parallelism
from app.plan.training.stacks import DEFAULT_STACK, traits
from app.scenario import Scenario

SHARDING = ("none", "optimizer", "gradients", "parameters")
RECOMPUTE = ("none", "selective", "full")


def given(scenario: Scenario, catalog: Catalog) -> search.Given:
    """What the scenario fixes of the parallelism; a stack without sequence parallelism fixes that too."""
    able = traits(catalog, scenario.stack or DEFAULT_STACK)["sequence_parallel"] > 0
    schedule = scenario.schedule
    virtual = scenario.virtual_pipeline or (1 if schedule in ("1f1b", "zero-bubble") else None)
    zero_bubble = catalog.training["step"]["zero_bubble"].typical
    return search.Given(
        tensor=scenario.tensor_parallel,
        pipeline=scenario.pipeline_parallel,
        virtual_pipeline=virtual,
        context=scenario.context_parallel,
        expert=scenario.expert_parallel,
        micro_batch=scenario.micro_batch,
        sharding=None if scenario.sharding is None else SHARDING.index(scenario.sharding),
        sharding_group=scenario.sharding_group,
        sequence_parallel=scenario.sequence_parallel if able else False,
        recompute=None if scenario.recompute is None else RECOMPUTE.index(scenario.recompute),
        bubble=zero_bubble if schedule == "zero-bubble" else 1.0,
    )


def named(par: training.Parallelism, job: training.Job, zero_bubble: bool = False) -> Parallelism:
    """A configuration under the names on the wire."""
    whole = {name: round(float(getattr(par, name))) for name in (
        "tensor", "pipeline", "virtual_pipeline", "context", "expert", "data", "micro_batch", "sharding",
        "sharding_group",
    )}  # fmt: skip
    return Parallelism(
        tensor_parallel=whole["tensor"],
        pipeline_parallel=whole["pipeline"],
        virtual_pipeline=whole["virtual_pipeline"],
        context_parallel=whole["context"],
        expert_parallel=whole["expert"],
        data_parallel=whole["data"],
        micro_batch=whole["micro_batch"],
        micro_batches=round(float(job.global_batch) / (whole["data"] * whole["micro_batch"])),
        schedule="zero-bubble" if zero_bubble else "interleaved" if whole["virtual_pipeline"] > 1 else "1f1b",
        sequence_parallel=bool(par.sequence_parallel),
        sharding=SHARDING[whole["sharding"]],
        sharding_group=whole["sharding_group"],
        recompute="full" if float(par.recompute) > 0 else "selective" if float(par.recompute_core) > 0 else "none",
    )
