"""The search: it finds what a walk over every configuration finds."""

import gc
import itertools
import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.formulas.collectives.group_times import LEAST, Links
from app.formulas.training import (
    fitting,
    memory,
    parallelism_search,
    search_choice,
    search_groups,
    search_shortlist,
    step,
)
from app.formulas.training.arguments import ALL_TO_ALL, GpuRates, Job, Parallelism
from app.formulas.training.divisibility import divisors
from app.formulas.training.exchanges import exchanges, layer_exchanges
from app.formulas.training.fixed_degrees import FixedDegrees
from app.formulas.training.parallelism_search import best
from app.formulas.training.search import Contests, Search
from app.formulas.training.search_bounds import ShareBounds
from app.formulas.training.search_cache import Kept
from app.formulas.training.search_grid import Shares
from app.formulas.training.search_space import Space
from app.formulas.training.stacking import rows_of
from app.plan.job import shape
from tests.training_constants import constants, links

CATALOG = load_catalog()
A100 = GpuRates(312e12, 312e12, 2.04e12, 85e9, 108.0, 1.0, 8.0)
LINKS = links(CATALOG, "a100-sxm", 1024)


SOFT, CAL = constants(CATALOG, "a100-sxm", "tuned")
LLAMA = shape.shape_of(CATALOG.models["llama-3-8b"])
GPT = shape.shape_of(CATALOG.models["gpt-3-175b"])
MIXTRAL = shape.shape_of(CATALOG.models["mixtral-8x7b"])


def with_machine(**changes) -> Links:
    """The links of a cluster whose machine differs."""
    joining = LINKS.interconnect
    return replace(LINKS, interconnect=replace(joining, machine=replace(joining.machine, **changes)))


def timed(model, job: Job, gpu: GpuRates, par: Parallelism, soft) -> step.Step:
    """The step of one configuration."""
    return step.step(model, job, gpu, par, soft, CAL, exchanges(model, job, par, soft, LINKS, CAL.bucket))


def walk(model, job: Job, gpus: int, soft, budget: float) -> list[tuple[float, Parallelism]]:
    """Every configuration that divides and fits, one by one, nothing pruned."""
    found = []
    depth, heads, kv = int(model.layers), int(model.heads), int(model.kv_heads)
    experts = int(model.experts)
    for t, p, c in itertools.product(divisors(gpus), repeat=3):
        if gpus % (t * p * c) or heads % t or (kv % t and t % kv) or p > depth or t > 32:
            continue
        if c > 1 and (job.sequence_length % (2 * c) or job.sequence_length // c < 512):
            continue
        d = gpus // (t * p * c)
        whole = [k for k in (depth, depth + 2) if p > 1 and k % p == 0][:1]
        chunks = {1, *(v for k in whole for v in divisors(k // p))}
        for v, b, e in itertools.product(
            chunks,
            divisors(int(job.global_batch)),
            divisors(experts) if experts else [1],
        ):
            if job.global_batch % (d * b) or d * c * t % e or gpus % e:
                continue
            if v > 1 and job.global_batch // (d * b) % p:
                continue
            for sharding, r, core, sp in itertools.product(range(4), (0, 1), (0, 1), (0, 1)):
                if (sp and t == 1) or (r and core) or (sharding > 0) != (d * c > 1):
                    continue
                par = Parallelism(*(float(x) for x in (t, p, v, c, e, d, 1, b, sharding, d * c, sp, r, core)))
                if memory.memory(model, job, par, soft, CAL).total <= budget * A100.memory_capacity:
                    found.append((float(timed(model, job, A100, par, soft).time), par))
    return sorted(found, key=lambda pair: pair[0])


@pytest.mark.parametrize(
    ("model", "job", "gpus", "stack"),
    [
        (LLAMA, Job(4096.0, 16.0), 16, "tuned"),
        (LLAMA, Job(2048.0, 12.0), 6, "fsdp"),
        (MIXTRAL, Job(2048.0, 8.0), 16, "tuned"),
    ],
)
def test_nothing_quicker_was_pruned(model, job: Job, gpus: int, stack: str):
    soft, _ = constants(CATALOG, "a100-sxm", stack)
    every = walk(model, job, gpus, soft, 0.95)
    found = best(Search(model, job, A100, soft, CAL, LINKS, gpus), budget=0.95)
    assert found.time[0] == pytest.approx(every[0][0], rel=1e-12)
    assert found.feasible <= len(every)
    # Everything timed is one of the walk's, at the walk's time.
    times = np.array([time for time, _ in every])
    nearest = np.abs(times[:, None] / found.time[None, :] - 1).min(axis=0)
    assert nearest.max() < 1e-12


def test_the_best_of_the_search_is_the_single_plan():
    job = Job(2048.0, 1536.0)
    found = best(Search(GPT, job, A100, SOFT, CAL, LINKS, 1024), budget=0.95)
    for rank in (0, 1, 17):
        par = found.best(rank)
        assert par is not None
        assert timed(GPT, job, A100, par, SOFT).time == pytest.approx(found.time[rank], rel=1e-12)
        assert memory.memory(GPT, job, par, SOFT, CAL).total == pytest.approx(found.memory[rank], rel=1e-12)
        assert par.ranks == 1024
    assert np.all(np.diff(found.time) >= 0)
    assert np.all(found.memory <= 0.95 * A100.memory_capacity)


@pytest.mark.parametrize(
    ("model", "job", "gpus"), [(GPT, Job(2048.0, 1536.0), 1024), (MIXTRAL, Job(4096.0, 512.0), 256)]
)
def test_the_quickest_alone_are_the_first_of_all(model, job: Job, gpus: int):
    search = Search(model, job, A100, SOFT, CAL, LINKS, gpus)
    every, few = best(search), best(search, quickest=150)
    assert few.evaluated < every.evaluated / 2
    assert few.feasible == every.feasible
    assert len(few.time) == 150
    np.testing.assert_array_equal(few.time, every.time[:150])
    np.testing.assert_array_equal(few.memory, every.memory[:150])
    for name, column in vars(few.parallelism).items():
        np.testing.assert_array_equal(column, getattr(rows_of(every.parallelism, slice(150)), name))


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_how_many_are_looked_at_first_changes_no_answer(model, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(model, Job(4096.0, 512.0), A100, SOFT, CAL, LINKS, 256)
    every, evaluated = best(search), []
    for promising, runs in ((1, 1), (2, 1), (40, 5), (10_000, 1)):
        for name, value in {"PROMISING": promising, "PROMISING_EACH": 1, "RUNS_EACH": runs}.items():
            monkeypatch.setattr(search_choice, name, value)
        for quickest in (1, 30):
            few = best(search, quickest=quickest)
            np.testing.assert_array_equal(few.time, every.time[:quickest])
            assert few.best() == every.best()
            evaluated.append(few.evaluated)
    assert len({*evaluated}) > 2
    assert max(evaluated) == every.feasible


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
@pytest.mark.parametrize("quickest", [1, 40, None])
def test_searches_together_find_what_each_finds_alone(model, quickest: int | None) -> None:
    # equal layers in all batches; other links in all clusters, GPUs that hold nothing, a number that divides badly
    base, small = Search(model, Job(4096.0, 512.0), A100, SOFT, CAL, LINKS, 256), replace(A100, memory_capacity=1e9)
    batches = [base, *(replace(base, job=Job(4096.0, batch)) for batch in (60.0, 192.0, 1024.0))]
    clusters = [replace(base, gpus=gpus, links=links(CATALOG, "a100-sxm", gpus)) for gpus in (64, 96, 256)]
    for several in (batches, [*clusters, replace(base, gpu=small), replace(base, gpus=7)]):
        together = parallelism_search.best_of(several, quickest=quickest)
        for search, one in zip(several, together, strict=True):
            alone = best(search, quickest=quickest)
            assert (one.enumerated, one.divisible) == (alone.enumerated, alone.divisible)
            assert bool(alone.feasible) <= one.feasible <= alone.feasible
            np.testing.assert_array_equal(one.time, alone.time)
            np.testing.assert_array_equal(one.memory, alone.memory)
            assert one.best() == alone.best()
            assert one.smallest == alone.smallest


@pytest.mark.parametrize(
    ("gpus", "capacity", "slow"), [(256, 85e9, 0.0), (256, 85e9, 0.1), (96, 30e9, 0.0), (8, 20e9, 0.0), (7, 85e9, 0.0)]
)
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_how_many_are_looked_at_first_changes_no_answer_to_many_searches(
    model, gpus: int, capacity: float, slow: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 and 35 divide badly or not at all; of little memory most or all do not fit; GPUs in a bad number have no batch
    gpu, cal = replace(A100, memory_capacity=capacity), replace(CAL, slow_node=slow)
    base = Search(model, Job(4096.0, 512.0), gpu, SOFT, cal, LINKS, gpus)
    batches = [replace(base, job=Job(4096.0, batch)) for batch in (512.0, 1.0, 35.0, 60.0, 192.0, 192.0, 720.0, 1024.0)]
    # on a network so slow that other splits are the quickest, the same batches; on a third one of them
    slow = with_machine(scale_out_rate=LINKS.interconnect.machine.scale_out_rate / 100)
    several = [*batches, *(replace(each, links=slow) for each in batches)]
    several.append(replace(batches[0], links=links(CATALOG, "a100-sxm", 512)))
    # other numbers of GPUs, which other degrees divide; sequences of which other shares are too short
    several += [replace(base, gpus=other, links=links(CATALOG, "a100-sxm", other)) for other in (64, 240, 13)]
    several.append(replace(base, job=Job(1024.0, 512.0)))
    for splits, at_once in ((0, 0), (3, 0), (60, 0), (10_000, 0), (0, 10**9), (60, 10**9)):
        for name, value in {
            "SPLITS_AT_ONCE": at_once,
            "SHARES": splits,
            "SPLITS": splits,
            "SPLITS_OF_ALL": splits,
            "GUESSES": ((splits, 1.0, 1 + splits / 50), (256, 1.6, 1.6)),
        }.items():
            monkeypatch.setattr(search_shortlist, name, value)
        monkeypatch.setattr(search_choice, "PROMISING_TOGETHER", splits)
        for quickest in (1, 30):
            together = parallelism_search.best_of(several, quickest=quickest)
            for search, one in zip(several, together, strict=True):
                alone = best(search, quickest=quickest)
                assert (one.enumerated, one.divisible) == (alone.enumerated, alone.divisible)
                assert (one.feasible > 0) == (alone.feasible > 0)
                np.testing.assert_array_equal(one.time, alone.time)
                np.testing.assert_array_equal(one.memory, alone.memory)
                assert one.best() == alone.best()
                assert one.smallest == alone.smallest
                assert one.smallest_memory == pytest.approx(alone.smallest_memory, rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("at_once", [0, 10**9])
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_what_wins_a_contest_is_found_as_without_one(model, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_shortlist, "SPLITS_AT_ONCE", at_once)
    monkeypatch.setattr(search_shortlist, "SPLITS_OF_ALL", 3)
    base = Search(model, Job(4096.0, 512.0), A100, SOFT, CAL, LINKS, 256)
    # of the last contest nothing divides, or fits
    batches = np.array([512.0, 768.0, 1024.0, 480.0, 960.0, 256.0, 512.0, 1024.0, 1.0, 512.0])
    several = [replace(base, job=Job(4096.0, batch)) for batch in batches]
    several[-1] = replace(base, gpu=replace(A100, memory_capacity=5e9))
    contests = Contests(np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3]), 1 / batches)
    alone = parallelism_search.best_of(several, quickest=1)
    answers = parallelism_search.best_of(several, quickest=1, contests=contests)
    for number in range(4):
        places = np.flatnonzero(contests.number == number)

        def score(place: int, found=alone) -> float:
            return found[place].time[0] / batches[place] if found[place].feasible else np.inf

        winner = min(places, key=score)
        assert min(places, key=lambda place: score(place, answers)) == winner
        assert answers[winner].best() == alone[winner].best()
        assert answers[winner].smallest == alone[winner].smallest
        np.testing.assert_array_equal(answers[winner].time, alone[winner].time)
    assert [one.divisible for one in answers] == [one.divisible for one in alone]
    # where all is known at once there is nothing to leave out
    assert at_once or sum(one.evaluated for one in answers) < sum(one.evaluated for one in alone)


@pytest.mark.parametrize(
    ("stack", "slow"),
    [("tuned", 0.0), ("tuned", 0.1), ("fsdp", 0.0), ("megatron-deepspeed", 0.0), ("megatron-lm-2021", 0.0)],
)
@pytest.mark.parametrize("fixed", [FixedDegrees(), FixedDegrees(virtual_pipeline=2), FixedDegrees(bidirectional=True)])
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_no_way_to_run_a_job_is_beyond_what_its_share_has_room_and_time_for(
    model, fixed: FixedDegrees, stack: str, slow: float
) -> None:
    soft, cal = constants(CATALOG, "a100-sxm", stack)
    cal = replace(cal, slow_node=slow)
    one = Search(model, Job(4096.0, 480.0), replace(A100, memory_capacity=40e9), soft, cal, LINKS, 96, fixed)
    several = [one, replace(one, job=Job(4096.0, 384.0)), replace(one, gpus=60, links=links(CATALOG, "a100-sxm", 60))]
    shares, limits = Shares.of([each.space for each in several]), np.full(3, 40e9)
    merged, groups = Search.merged(several), shares.groups
    bounds = ShareBounds(merged, np.arange(3), Space.merged([each.space for each in several]), shares, limits)
    degrees = zip(
        shares.owner.tolist(),
        groups.stages.pipeline[groups.kind[shares.group]].tolist(),
        groups.axes[0][groups.tensor[shares.group]].tolist(),
        groups.axes[1][groups.context[shares.group]].tolist(),
        strict=True,
    )
    place = {key: share for share, key in enumerate(degrees)}
    for owner, search in enumerate(several):
        found = best(search)
        assert len(found.time) > 10
        ways = found.parallelism
        keys = np.array([np.full(len(found.time), owner), ways.pipeline, ways.tensor, ways.context]).T.astype(int)
        share = np.array([place[*key] for key in keys.tolist()])
        level = np.searchsorted(groups.recompute, 2 * ways.recompute + ways.recompute_core)
        size = ways.micro_batch
        assert np.all(size <= bounds.room[level, share] * (1 + 1e-9))
        alike = step.time_without_straggler(found.time, search.deviations, cal)
        times, waits = bounds.times
        exchanging = bounds.exchanging()
        for least_of_one in (times, exchanging.times[0]):
            least = least_of_one[level, share] + (size - 1) * waits[level, share]
            assert np.all(least <= alike * (1 + 1e-9))
            assert np.max(least / alike) > 0.7  # and not far below
        assert np.all(exchanging.times[0] >= times)
        if exchanging is not bounds:
            shardings = groups.columns["sharding"].reshape(groups.open.shape)[:, groups.cluster == groups.cluster[0]]
            kind = np.argmax(shardings.max(axis=(1, 2)) == np.maximum(ways.sharding, 1.0)[:, None], axis=1)
            assert np.all(exchanging.by_sharding[kind, share] <= alike * (1 + 1e-9))
        # each way at the time that it takes is among those that the times leave
        for rank in (0, len(found.time) // 2):
            most = np.full(3, 0.0)
            most[owner] = alike[rank] * (1 + 1e-9)
            assert bounds.micro_batches(most)[share[rank]] >= size[rank] * (1 - 1e-9)


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL, GPT])
def test_each_sequence_adds_the_same_to_the_work_of_a_layer_and_no_less_to_its_exchanges(model) -> None:
    for stack in ("tuned", "megatron-lm-2021", "fsdp"):
        soft, cal = constants(CATALOG, "a100-sxm", stack)
        for tensor, context, recompute in itertools.product((1.0, 8.0), (1.0, 4.0), (0.0, 1.0)):
            size = np.array([1.0, 2.0, 3.0, 64.0])
            spread = Parallelism(tensor=tensor, context=context, expert=2.0, micro_batch=size, recompute=recompute)
            job = Job(4096.0, 512.0, imbalance=1.2)
            sent = layer_exchanges(model, job, spread, soft, LINKS, LEAST)
            works = step.layer(model, job, A100, spread, soft, cal, sent).gpu
            heads = step.head_time(model, job, A100, spread, cal)
            exchanged = layer_exchanges(model, job, spread, soft, LINKS)
            for least, whole in zip(vars(sent).values(), vars(exchanged).values(), strict=True):
                np.testing.assert_allclose(least.time, np.ravel(least.time)[0] * size, rtol=1e-12)
                assert np.all(least.time <= whole.time)
                assert np.all(least.time > 0) == np.all(whole.time > 0)
            for times in (works, heads):
                np.testing.assert_allclose(np.diff(times), (times[1] - times[0]) * np.diff(size), rtol=1e-9)
                assert 0 < times[1] - times[0] <= times[0]


@pytest.mark.parametrize(("gpus", "capacity"), [(80, 23e9), (96, 20e9)])
def test_activations_on_the_host_leave_the_logits_their_memory(gpus: int, capacity: float) -> None:
    # a wide vocabulary in little memory: with more activations, which are on the host, the logits take less beside them
    model, job = shape.shape_of(CATALOG.models["hunyuan-a13b"]), Job(4096.0, 1024.0, offload_activations=1.0)
    search = Search(model, job, replace(A100, memory_capacity=capacity), SOFT, CAL, LINKS, gpus)
    several = [search, replace(search, job=replace(job, global_batch=192.0))]
    for one, asked in zip(parallelism_search.best_of(several, quickest=1), several, strict=True):
        assert one.best() == best(asked, quickest=1).best() is not None


def test_the_experts_of_a_lone_replica_may_have_several() -> None:
    # Eight ranks hold the dense layers once and the experts of four ranks twice: their gradients are summed over pairs.
    job, fixed = Job(2048.0, 1024.0), FixedDegrees(tensor=8, expert=4)
    found = best(Search(MIXTRAL, job, A100, SOFT, CAL, LINKS, 32, fixed))
    alone = found.parallelism.data * found.parallelism.context == 1
    assert np.count_nonzero(alone) > 10
    times = timed(MIXTRAL, job, A100, rows_of(found.parallelism, np.flatnonzero(alone)), SOFT).time
    np.testing.assert_allclose(found.time[alone], times, rtol=1e-12)


@pytest.mark.parametrize("capacity", [40e9, 85e9])
def test_the_memory_of_every_configuration_is_the_single_plans(capacity: float):
    job, small = Job(4096.0, 64.0), replace(A100, memory_capacity=capacity)
    found = best(Search(MIXTRAL, job, small, SOFT, CAL, LINKS, 64))
    held = memory.memory(MIXTRAL, job, found.parallelism, SOFT, CAL)
    assert len(found.time) > 100
    np.testing.assert_allclose(held.total, found.memory, rtol=1e-12)


def test_the_least_memory_is_the_frugal_configurations():
    job = Job(4096.0, 64.0)
    found = best(Search(MIXTRAL, job, replace(A100, memory_capacity=1e9), SOFT, CAL, LINKS, 64))
    assert found.best() is None
    assert found.smallest is not None
    held = memory.memory(MIXTRAL, job, found.smallest, SOFT, CAL)
    assert held.total == pytest.approx(found.smallest_memory, rel=1e-12)


def test_given_settings_are_kept():
    fixed = FixedDegrees(tensor=8, pipeline=4, micro_batch=2, sharding=1, recompute=2, sequence_parallel=False)
    found = best(Search(GPT, Job(2048.0, 512.0), A100, SOFT, CAL, LINKS, 512, fixed))
    assert len(found.time) > 0
    par = found.parallelism
    for name, value in {"tensor": 8, "pipeline": 4, "micro_batch": 2, "sharding": 1, "recompute": 1}.items():
        assert np.all(getattr(par, name) == value)
    assert np.all(par.sequence_parallel == 0)
    free = best(Search(GPT, Job(2048.0, 512.0), A100, SOFT, CAL, LINKS, 512))
    assert free.time[0] <= found.time[0]


def test_what_cannot_fit_says_how_much_it_needs():
    found = best(Search(GPT, Job(2048.0, 512.0), A100, SOFT, CAL, LINKS, 8))
    assert found.best() is None
    assert found.feasible == 0
    # 16-bit weights, gradients and optimizer state of 175 B over 8 GPUs: at least 18/8 bytes a parameter.
    assert found.smallest_memory > 175e9 * 16 / 8
    assert found.smallest is not None


def test_what_does_not_divide_is_empty():
    found = best(Search(LLAMA, Job(2048.0, 7.0), A100, SOFT, CAL, LINKS, 37))
    assert found.best() is None
    assert np.isnan(found.smallest_memory)


EXCHANGED = {"context": 16, "context_exchange": ALL_TO_ALL}
REPLICAS = {"tensor": 8, "pipeline": 8, "context": 1}


@pytest.mark.parametrize(
    ("model", "divides", "does_not"),
    [
        (LLAMA, {"tensor": 8}, {"tensor": 3}),  # 32 heads
        (LLAMA, {"tensor": 16}, {"tensor": 24}),  # two ranks hold each of 8 key-value heads
        (LLAMA, {"pipeline": 32}, {"pipeline": 48}),  # 32 layers
        (MIXTRAL, {"expert": 8}, {"expert": 16}),  # 8 experts
        (LLAMA, {"context": 32}, {"context": 64}),  # two pieces of 64 tokens each
        (LLAMA, EXCHANGED | {"tensor": 2}, EXCHANGED | {"tensor": 4}),  # 32 heads over t · 16 ranks
        (LLAMA, REPLICAS | {"sharding_group": 4}, REPLICAS | {"sharding_group": 5}),  # of 768 / 64 = 12
    ],
)
def test_degrees_that_are_given_divide_the_model_or_there_is_nothing(model, divides, does_not):
    """Whether few or all degrees are given; a published run that does neither is timed all the same."""
    rest = dict.fromkeys(("tensor", "pipeline", "virtual_pipeline", "context", "expert", "micro_batch"), 1)
    rest |= {"sharding": 1, "sequence_parallel": True, "recompute": 2}
    for given, number in ((divides, 1), (does_not, 0)):
        for settings in (given, {**rest, **given}):
            found = best(Search(model, Job(64.0, 768.0), A100, SOFT, CAL, LINKS, 768, FixedDegrees(**settings)), 9.0)
            assert bool(found.feasible) == number, settings
        assert np.shape(found.parallelism.data) == ()


def test_what_is_looked_for_leaves_whole_heads_to_an_all_to_all_and_whole_groups_to_a_copy():
    heads = FixedDegrees(context=8, context_exchange=ALL_TO_ALL)
    found = best(Search(LLAMA, Job(8192.0, 512.0), A100, SOFT, CAL, LINKS, 512, heads)).parallelism
    assert set(np.unique(found.tensor)) == {1, 2, 4}  # 32 heads over t · 8 ranks
    groups = FixedDegrees(sharding_group=6)
    found = best(Search(LLAMA, Job(8192.0, 768.0), A100, SOFT, CAL, LINKS, 768, groups)).parallelism
    replicas = found.data * found.context
    assert np.all((replicas <= 6) | (replicas % 6 == 0))


def test_a_shape_that_no_model_has_cannot_be_run():
    """9 heads over 8 key-value heads, and 3 of 2 experts for a token."""
    for shape_, changes in ((LLAMA, {"heads": 9.0}), (MIXTRAL, {"experts": 2.0, "experts_per_token": 3.0})):
        found = best(Search(replace(shape_, **changes), Job(4096.0, 64.0), A100, SOFT, CAL, LINKS, 64))
        assert (found.divisible, found.feasible) == (0, 0)


def test_more_bandwidth_never_slows_the_best():
    job = Job(2048.0, 512.0)
    slow = best(Search(GPT, job, A100, SOFT, CAL, LINKS, 512)).time[0]
    for name in ("memory_bandwidth", "linear_peak"):
        faster = replace(A100, **{name: 2 * getattr(A100, name)})
        assert best(Search(GPT, job, faster, SOFT, CAL, LINKS, 512)).time[0] <= slow
    for name in ("scale_up_rate", "scale_out_rate"):
        twice = with_machine(**{name: 2 * getattr(LINKS.interconnect.machine, name)})
        assert best(Search(GPT, job, A100, SOFT, CAL, twice, 512)).time[0] <= slow


@pytest.mark.parametrize("model", [LLAMA, MIXTRAL])
def test_everything_given_is_the_search_of_one(model, monkeypatch: pytest.MonkeyPatch):
    job, small = Job(4096.0, 240.0), replace(A100, memory_capacity=60e9)
    settings = itertools.product((1, 2, 3), (1, 4, 5, 40), (1, 2), (1, 8), (1, 3), (0, 1, 3), (0, 2), (False, True))
    some = random.Random(11).sample(list(settings), 200)  # of 1,152
    asked = [
        FixedDegrees(t, p, v, 1, e, b, sharding, None, parallel, recompute)
        for t, p, v, e, b, sharding, recompute, parallel in some
    ]
    alone = [best(Search(model, job, small, SOFT, CAL, LINKS, 240, given)) for given in asked]
    monkeypatch.setattr(FixedDegrees, "single", False)
    for given, one in zip(asked, alone, strict=True):
        many = best(Search(model, job, small, SOFT, CAL, LINKS, 240, given))
        for name in ("enumerated", "divisible", "feasible"):
            assert getattr(one, name) == getattr(many, name), (name, given)
        assert one.best() == many.best()
        assert one.smallest == many.smallest
        assert len(one.time) == len(many.time)
        assert one.memory == pytest.approx(many.memory, rel=1e-12)
        assert one.smallest_memory == pytest.approx(many.smallest_memory, rel=1e-12, nan_ok=True)
    assert {one.feasible for one in alone} == {0, 1}
    assert {one.divisible for one in alone} == {0, 1}


def test_what_fits_is_known_without_timing_it():
    job = Job(2048.0, 512.0)
    timed, untimed = (best(Search(GPT, job, A100, SOFT, CAL, LINKS, 512), timed=wanted) for wanted in (True, False))
    for name in ("enumerated", "divisible", "feasible", "smallest"):
        assert getattr(timed, name) == getattr(untimed, name)
    assert {*timed.memory} <= {*untimed.memory}
    assert np.isnan(untimed.time).all()


def test_what_gpus_share_is_not_what_tells_them_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    # the same number of GPUs, with more memory, a smaller domain (tensor parallelism of 8 at most), a higher peak
    job, fixed = Job(2048.0, 512.0), FixedDegrees(largest_tensor=2)
    changes = {"memory_capacity": 340e9}, {"scale_up_domain": 2.0}, {"linear_peak": 624e12}
    roomy, domain, fast = (replace(A100, **change) for change in changes)
    cramped = replace(CAL, context_memory=CAL.context_memory + 40e9)
    asked = [
        *(Search(GPT, job, gpu, SOFT, CAL, LINKS, 512) for gpu in (A100, roomy, domain, fast)),
        Search(GPT, job, A100, SOFT, cramped, LINKS, 512),
        Search(GPT, job, A100, SOFT, CAL, LINKS, 512, fixed),
        Search(GPT, replace(job, global_batch=256.0), A100, SOFT, CAL, LINKS, 512),
        Search(GPT, job, A100, SOFT, CAL, LINKS, 256),
    ]
    together = [best(search, timed=False) for search in asked]
    for search, shared in zip(asked, together, strict=True):
        monkeypatch.setattr(fitting, "_enumerations", Kept(10**9))
        alone = best(search, timed=False)
        assert (alone.feasible, alone.divisible, alone.smallest) == (shared.feasible, shared.divisible, shared.smallest)
        assert np.array_equal(alone.memory, shared.memory)
    assert together[0].feasible == together[3].feasible
    assert len({found.feasible for found in together}) == len(asked) - 1


@pytest.mark.parametrize(("module", "store"), [(fitting, "_enumerations"), (search_groups, "_known")])
def test_what_is_kept_of_searches_is_bounded_in_bytes(module, store, monkeypatch: pytest.MonkeyPatch) -> None:
    """720,720 sequences are divided by 240 numbers: 64 searches of a sizing held 270 MB."""
    counts = []
    for most in (1, 300_000, 10**9):
        kept = Kept(most)
        monkeypatch.setattr(fitting, "_enumerations", Kept(10**9))
        monkeypatch.setattr(module, store, kept)
        for gpus in (512, 1024, 2048, 4096):
            best(Search(MIXTRAL, Job(2048.0, 5040.0), A100, SOFT, CAL, LINKS, gpus), timed=False)
            assert kept.bytes == sum(made.nbytes for made in kept.kept.values())
            assert kept.bytes <= most or len(kept.kept) == 1
        counts.append(len(kept.kept))
    assert counts[0] == 1
    assert counts[-1] == 4


@pytest.mark.parametrize("model", ["gpt-3-175b", "deepseek-v3"])
def test_bytes_of_what_is_kept_of_searches_are_all_that_it_takes(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    """Of a mixture of experts the degrees of its layers take more than the memory of its activations."""
    kept = Kept(10**9)
    monkeypatch.setattr(fitting, "_enumerations", kept)
    tracemalloc.start()
    try:
        for gpus in (2048, 4096, 8192):
            searched = Search(shape.shape_of(CATALOG.models[model]), Job(2048.0, 5040.0), A100, SOFT, CAL, LINKS, gpus)
            best(searched, timed=False)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        counted = kept.bytes
        kept.kept.clear()
        gc.collect()
        taken = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert counted == pytest.approx(taken, rel=0.1)


def test_pipelines_are_as_deep_as_divides_a_cluster_however_many_layers_a_model_has() -> None:
    deep = replace(GPT, layers=999_999.0)
    space = Search(deep, Job(2048.0, 1024.0), A100, SOFT, CAL, LINKS, 96, FixedDegrees()).space
    assert space.degrees([96, 60])["pipeline"] == sorted({*divisors(96), *divisors(60)})
