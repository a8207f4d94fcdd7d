"""One plan's throughput over cluster size, and its step over the spread of its nodes."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import N_DRAWS
from app.catalog.load import Catalog
from app.plan.band import interval
from app.plan.cluster import look_up
from app.plan.job.job import Job, job_on
from app.plan.network import Network, network_of
from app.plan.recommendation import degrees
from app.plan.result import Parallelism
from app.plan.scenario import Scenario
from app.studies.curve import Curve, Series
from app.units import percent

Floats = NDArray[np.float64]


def with_parallelism(scenario: Scenario, chosen: Parallelism) -> Scenario:
    """The scenario with the plan's own parallelism and batch, so that nothing is searched again."""
    return scenario.model_copy(update=degrees(chosen) | {"global_batch": _batch(chosen)})


def _batch(chosen: Parallelism) -> int:
    """Sequences of one step [1]."""
    return chosen.data_parallel * chosen.micro_batch * chosen.micro_batches


def _job(scenario: Scenario, catalog: Catalog, network: Network | None = None) -> Job:
    """The training job of a scenario, on its own fabric or one that was designed before."""
    network = network or network_of(scenario, catalog)
    return job_on(network, scenario, catalog)


def scaling(scenario: Scenario, catalog: Catalog, chosen: Parallelism) -> Curve:
    """Tokens a second of each GPU against GPU count, over those of the smallest cluster.

    The replicas grow in number, each as the plan spreads it: once with the batch growing along, once with the plan's
    batch shared out among more of them.
    """
    cluster = look_up(scenario, catalog)
    plan_gpus, replicas, own_batch = cluster.gpus, chosen.data_parallel, _batch(chosen)
    replica = plan_gpus // replicas
    shares = [2**power for power in range(18) if replica * 2**power <= 4 * max(plan_gpus, 1024)]
    counts = sorted({replica * share for share in shares if replica * share >= cluster.gpus_per_node} | {plan_gpus})
    weak: list[Floats] = []
    strong: list[Floats] = []
    missing = np.full(N_DRAWS, np.nan)
    for gpus in counts:
        share = gpus // replica
        update = {"gpus": gpus, "sharding_group": _group_of(chosen, share)}
        grown = own_batch * share / replicas
        for batch, rates in ((grown, weak), (float(own_batch), strong)):
            whole = batch >= share * chosen.micro_batch and batch % (share * chosen.micro_batch) == 0
            if not whole:
                rates.append(missing)
                continue
            question = with_parallelism(scenario, chosen).model_copy(update=update | {"global_batch": int(batch)})
            job = _job(question, catalog)
            rate = job.training.tokens_per_second.values
            rates.append(np.broadcast_to(rate, missing.shape) / gpus if job.runs else missing)
    x = np.array(counts, float)
    lines = []
    for name, look, rates in (("Batch grows along", "quickest", weak), ("Batch stays", "compute", strong)):
        table = np.stack(rates)
        timed = np.flatnonzero(np.isfinite(table[:, 0]))
        if timed.size:
            share_of_first = table / table[timed[0]]
            low, high = interval(share_of_first)
            lines.append(Series(name, look, x, share_of_first[:, 0], low, high, strong=name == "Batch grows along"))
    place = counts.index(plan_gpus)
    title = "Nothing to scale: this job does not run."
    mine: tuple[float, float] | None = None
    if lines and np.isfinite(lines[-1].typical[place]):
        kept = float(lines[-1].typical[place])
        timed = np.flatnonzero(np.isfinite(lines[-1].typical))
        mine = (float(plan_gpus), kept)
        title = f"On {plan_gpus:,} GPUs each does {percent(kept)} of the work it does on {counts[timed[0]]:,}."
    return Curve(
        key="scaling",
        title=title,
        subtitle="Tokens a second of each GPU over those of the smallest cluster, with the plan's parallelism",
        x_name="GPUs",
        x_unit="GPUs",
        y_name="Scaling efficiency",
        y_unit="%",
        y_logarithmic=False,
        series=tuple(lines),
        plan_point=mine,
    )


def _group_of(chosen: Parallelism, replicas: int) -> int | None:
    """Ranks that share one copy where there are so many replicas: all of them if they all do, else as many as can."""
    context = chosen.context_parallel
    if chosen.sharding == "none" or chosen.sharding_group == chosen.data_parallel * context:
        return None
    return replicas if chosen.sharding_group == chosen.data_parallel else gcd(chosen.sharding_group, replicas * context)


def tail(scenario: Scenario, catalog: Catalog, chosen: Parallelism) -> Curve:
    """Step time against the spread of one node's step, the plan's cluster and smaller ones."""
    cluster = look_up(scenario, catalog)
    spreads = np.unique(np.append(np.linspace(0.0, 0.1, 11), scenario.jitter))
    fixed = with_parallelism(scenario, chosen)
    network = network_of(fixed, catalog)
    jobs = [_job(fixed.model_copy(update={"jitter": float(spread)}), catalog, network) for spread in spreads]
    table = np.stack([np.broadcast_to(job.training.step_time.values, (N_DRAWS,)) for job in jobs])
    low, high = interval(table)
    typical_times = table[:, 0]
    line = Series(f"{cluster.nodes:,} nodes", "quickest", spreads, typical_times, low, high, strong=True)
    place = int(np.flatnonzero(spreads == scenario.jitter)[0])
    at_one = float(np.interp(0.01, spreads, typical_times) / typical_times[0] - 1)
    return Curve(
        key="tail",
        title=f"A spread of 1 % on each node costs {percent(at_one, 1)} of every step: all wait for the slowest.",
        subtitle="Step time against the relative spread of a step's time on one node",
        x_name="Spread on one node",
        x_unit="%",
        y_name="Step time",
        y_unit="s",
        x_logarithmic=False,
        y_logarithmic=False,
        series=(line,),
        plan_point=(float(spreads[place]), float(typical_times[place])),
    )
