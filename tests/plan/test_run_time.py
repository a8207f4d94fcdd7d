"""How long runs take on many clusters at once."""

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.formulas.training.stacking import alike
from app.plan.evaluate import evaluate
from app.plan.job import batch
from app.plan.job.inputs import JobRequest, JobSetup, step_inputs
from app.plan.job.job import fabric_on
from app.plan.job.run_time import quickest_times, ways_to_run
from app.plan.job.search_together import search_all
from app.plan.network import network_of
from app.plan.scenario import Scenario

CATALOG = load_catalog().typical_only()


def setup(**asked: object) -> JobSetup:
    scenario = Scenario.model_validate(asked)
    network, request = network_of(scenario, CATALOG), JobRequest.of(scenario, CATALOG)
    inputs = step_inputs(network.cluster, fabric_on(network, scenario, CATALOG), request, CATALOG)
    return JobSetup.of(network.cluster, request, CATALOG, inputs)


GIVEN = {"tensor_parallel": 8, "pipeline_parallel": 4, "virtual_pipeline": 1, "context_parallel": 1, "micro_batch": 1,
         "expert_parallel": 1, "sharding": "optimizer", "recompute": "none", "sequence_parallel": True}  # fmt: skip


@pytest.mark.parametrize(
    "asked",
    [{}, {"gpus": 1200}, {"gpu": "gb200", "gpus": 1152}, GIVEN, GIVEN | {"global_batch": 2048}],
    ids=["searched", "odd", "racks", "given", "whole"],
)
def test_a_run_takes_as_long_as_its_plan_says(asked: dict[str, object]) -> None:
    (ways,), plan = ways_to_run([setup(**asked)], 10), evaluate(Scenario.model_validate(asked), load_catalog())
    assert ways is not None
    assert plan.training.time_to_train is not None
    assert ways.time_to_train(ways.step_time) == pytest.approx(plan.training.time_to_train.typical, rel=1e-12)
    assert ways.quickest == plan.training.parallelism


def test_what_does_not_fit_has_no_way_to_run() -> None:
    assert ways_to_run([setup(gpus=8, model="llama-3-405b"), setup(gpus=16, model="llama-3-405b")], 10) == [None, None]
    assert ways_to_run([setup(**GIVEN, gpus=32, model="llama-3-405b", global_batch=2048)], 10) == [None]


NETWORKS = ("infiniband-ndr", "roce-400", "spectrum-x-800", "tcp-400")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"oversubscription": 4, "load_balancing": "hashing", "placement": "scattered"},
        {"model": "mixtral-8x7b", "oversubscription": 2, "planes": 2},
        {"link_rate_left": 0.5, "degraded_link": "leaf-spine"},
        {"profile": "ideal"},
    ],
    ids=["default", "hashed", "experts", "degraded", "ideal"],
)
def test_many_jobs_timed_together_take_what_each_takes_alone(asked: dict[str, object]) -> None:
    jobs = [setup(**asked, gpus=gpus, scale_out=name) for gpus in (16, 512, 4096) for name in NETWORKS]
    found = {gpus: ways_to_run([setup(**asked, gpus=gpus)], 40)[0] for gpus in (16, 512, 4096)}
    pairs = [(job, found[job.cluster.gpus]) for job in jobs]
    running = [(job.with_batch(ways.setup.request.batch).inputs, ways.parallelism) for job, ways in pairs if ways]
    assert len(running) >= 8
    with np.errstate(all="ignore"):
        together = quickest_times(*zip(*running, strict=True))
        alone = [quickest_times([inputs], [ways])[0] for inputs, ways in running]
    assert together == pytest.approx(alone, rel=1e-12)
    assert len(set(alone)) > len(running) / 2


def test_networks_that_bind_no_flows_are_timed_together_whatever_their_tiers() -> None:
    kinds = [(gpus, taper, name) for gpus in (64, 2048, 32768) for taper in (1, 4) for name in NETWORKS[:3]]
    jobs = [setup(**GIVEN, gpus=gpus, oversubscription=taper, scale_out=name) for gpus, taper, name in kinds]
    assert {len(job.inputs.links.site.tiers) for job in jobs} == {0, 1, 2}
    assert len({alike(job.inputs.links, exchanging=False) for job in jobs}) == 1
    ways = [found.parallelism for job in jobs if (found := ways_to_run([job], 1)[0])]
    with np.errstate(all="ignore"):
        alone = [quickest_times([job.inputs], [way])[0] for job, way in zip(jobs, ways, strict=True)]
        together = quickest_times([job.inputs for job in jobs], ways)
    assert together == pytest.approx(alone, rel=1e-12)
    assert len(set(alone)) > len(jobs) / 2


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "llama-3-8b"},
        {"model": "mixtral-8x7b", "oversubscription": 4, "load_balancing": "hashing", "placement": "scattered"},
        {"stack": "deepspeed", "model": "llama-3-8b"},
        {"profile": "ideal", "rank_order": "tp-cp-ep-pp-dp"},
    ],
    ids=["default", "experts", "spare", "ideal"],
)
def test_jobs_searched_together_are_spread_as_each_is_alone(asked: dict[str, object]) -> None:
    # 24 GPUs have other degrees and another batch than 64; the two networks share what fits, and little else.
    jobs = [setup(**asked, gpus=gpus, scale_out=name) for gpus in (16, 24, 64) for name in ("roce-400", "tcp-100")]
    together, alone = search_all(jobs, 50), [job.search(quickest=50) for job in jobs]
    assert sum(one.feasible > 0 for one in alone) >= 4
    for one, other in zip(together, alone, strict=True):
        assert (one.enumerated, one.divisible) == (other.enumerated, other.divisible)
        assert bool(other.feasible) <= one.feasible <= other.feasible
        np.testing.assert_allclose(one.time, other.time, rtol=1e-12)
        np.testing.assert_allclose(one.memory, other.memory, rtol=1e-12)
        assert one.smallest == other.smallest
    quickest = [one.time[0] for one in alone if len(one.time)]
    assert len(set(quickest)) == len(quickest)


@pytest.mark.parametrize("quickest", [None, 1, 30])
def test_the_batch_that_is_taken_is_the_best_of_all_that_are_tried(quickest: int | None) -> None:
    # several batches share divisors with 1,536 and 1,760 GPUs, and one divides evenly by 512
    jobs = [setup(model="llama-3-8b", gpus=gpus) for gpus in (1536, 512, 1760)]
    tried = []
    for (taken, search), job in zip(batch.settled(jobs, quickest), jobs, strict=True):
        sizes = {*(size for _, size in batch._offered(job))}
        alone = [(each, each.search(quickest=quickest)) for each in (job.with_batch(size) for size in sizes)]
        best, found = min(alone, key=lambda one: batch._score(job, one))
        if batch._even(job, [*batch._offered(job)]) is None:
            tried.append(len(sizes))
            assert taken.request.batch == best.request.batch
        else:
            found = job.with_batch(taken.request.batch).search(quickest=quickest)
        np.testing.assert_allclose(search.time, found.time, rtol=1e-12)
        assert search.best() == found.best()
    assert max(tried) > 2
