"""The training step: worked examples, and what must hold whatever the constants."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas import transformer
from app.formulas.collectives.group_times import Links, collective_time, group_of, pair_of, send_time
from app.formulas.collectives.library import choose
from app.formulas.fabric.placement import Site, Tier
from app.formulas.training import goodput, memory
from app.formulas.training import step as training_step
from app.formulas.training.arguments import Calibration, GpuRates, Job, Parallelism, Software
from app.formulas.training.compute import linear_layers
from app.formulas.training.exchanges import (
    exchanges,
    expert_volumes,
    gradient_exchange_time,
    layer_exchanges,
    stage_place,
)
from app.formulas.training.groups import copies
from app.plan.job import shape
from tests.training_constants import constants, links

CATALOG = load_catalog()
LLAMA = shape.shape_of(CATALOG.models["llama-3-8b"])
QWEN = shape.shape_of(CATALOG.models["qwen-3-30b-a3b"])
H100 = GpuRates(989e12, 989e12, 3.35e12, 85e9, 132.0, 1.0, 8.0)
JOB = Job(8192.0, 256.0)
ALONE = Parallelism(*(float(x) for x in (1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0)))


SOFT, CAL = constants(CATALOG, "h100-sxm", "tuned")
LINKS = links(CATALOG, "h100-sxm", 4096)

degrees = st.builds(
    lambda t, p, v, c, d, b, sharding, sp, r: replace(
        ALONE,
        tensor=float(t),
        pipeline=float(p),
        virtual_pipeline=float(v if p > 1 else 1),
        context=float(c),
        data=float(d),
        micro_batch=float(b),
        sharding=float(sharding),
        sharding_group=float(d * c),
        sequence_parallel=float(sp and t > 1),
        recompute=float(r),
    ),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 16, 32]),
    st.sampled_from([1, 2, 4]),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]),
)
models = st.sampled_from([LLAMA, QWEN])


def step(
    par: Parallelism,
    hw: GpuRates = H100,
    cal: Calibration = CAL,
    model=LLAMA,
    job: Job = JOB,
    soft: Software = SOFT,
    between: Links = LINKS,
) -> training_step.Step:
    return training_step.step(model, job, hw, par, soft, cal, exchanges(model, job, par, soft, between, cal.bucket))


def layer(par: Parallelism, cal: Calibration = CAL, model=LLAMA, soft: Software = SOFT) -> training_step.Layer:
    return training_step.layer(model, JOB, H100, par, soft, cal, layer_exchanges(model, JOB, par, soft, LINKS))


def test_a_step_of_one_gpu_has_no_communication():
    par = replace(ALONE, micro_batch=2.0)
    one = layer(par)
    assert one.tensor == one.context == one.expert == 0
    found = step(par)
    assert found.bubble == found.pipeline == found.data == found.straggler == 0


@given(degrees, models, st.sampled_from([0.0, 1.0]))
def test_the_parts_add_up(par: Parallelism, model, fused: float):
    soft = replace(SOFT, fused_accumulation=fused)
    one = layer(par, model=model, soft=soft)
    found = step(par, model=model, soft=soft)
    parts = one.products + one.attention + one.elementwise + one.tensor + one.context + one.expert + one.host
    total = found.layers * parts + found.head + found.bubble + found.pipeline + found.accumulation + found.data
    assert total + found.optimizer + found.straggler == pytest.approx(found.time, rel=1e-9)


@given(degrees, models, st.sampled_from(["matrix_peak", "linear_peak", "memory_bandwidth"]))
def test_more_of_a_resource_never_slows_a_step(par: Parallelism, model, name: str):
    more = replace(H100, **{name: 2 * getattr(H100, name)})
    assert step(par, more, model=model).time <= step(par, model=model).time * (1 + 1e-12)


@given(degrees, models, st.sampled_from(["scale_up", "scale_out"]))
def test_faster_links_never_slow_a_step(par: Parallelism, model, name: str):
    joining = LINKS.interconnect
    twice = 2 * getattr(joining.machine, f"{name}_rate")
    quicker = replace(joining, machine=replace(joining.machine, **{f"{name}_rate": twice}))
    if name == "scale_up":
        quicker = replace(quicker, inside_rate=twice)
    more = replace(LINKS, interconnect=quicker)
    assert step(par, between=more, model=model).time <= step(par, model=model).time * (1 + 1e-12)


@given(degrees, models)
def test_more_recomputation_is_slower_and_smaller(par: Parallelism, model):
    less, more = replace(par, recompute=0.0), replace(par, recompute=1.0)
    assert step(less, model=model).time <= step(more, model=model).time
    sizes = [memory.memory(model, JOB, one, SOFT, CAL).activations for one in (less, more)]
    in_flight = transformer.micro_batches_in_flight(256 / (par.data * par.micro_batch), par.pipeline, 1)
    assert sizes[1] <= sizes[0] or float(in_flight * np.ceil(model.layers / par.pipeline)) < 2


@given(degrees, models)
def test_sequence_parallelism_never_loses(par: Parallelism, model):
    without, with_ = replace(par, sequence_parallel=0.0), replace(par, sequence_parallel=float(par.tensor > 1))
    assert step(with_, model=model).time <= step(without, model=model).time * (1 + 1e-12)
    sizes = [memory.memory(model, JOB, one, SOFT, CAL).total for one in (without, with_)]
    assert sizes[1] <= sizes[0] * (1 + 1e-12)


@given(degrees, models)
def test_sharing_the_optimizer_state_hardly_ever_loses(par: Parallelism, model):
    # A tree or NVLink's switch sums quicker than a ring scatters and gathers: a step of little else loses some %.
    alone, shared = replace(par, sharding=0.0), replace(par, sharding=1.0)
    assert step(shared, model=model).time <= step(alone, model=model).time * 1.1
    assert memory.memory(model, JOB, shared, SOFT, CAL).total <= memory.memory(model, JOB, alone, SOFT, CAL).total


@settings(max_examples=30)
@given(st.lists(degrees, min_size=2, max_size=6), models)
def test_arrays_and_draws_equal_scalars(configurations: list[Parallelism], model):
    together = Parallelism(
        **{e.name: np.array([[getattr(one, e.name)] for one in configurations]) for e in fields(Parallelism)}
    )
    drawn = replace(CAL, linear=CAL.linear * np.array([1.0, 0.9, 1.1]))
    wide = np.asarray(step(together, cal=drawn, model=model).time)
    assert wide.shape == (len(configurations), 3)
    alone = [step(one, model=model).time for one in configurations]
    assert np.allclose(wide[:, 0], alone, rtol=1e-12)
    sizes = memory.memory(model, JOB, together, SOFT, CAL).total[:, 0]
    assert np.allclose(sizes, [memory.memory(model, JOB, one, SOFT, CAL).total for one in configurations])


def test_what_each_stack_hides_of_tensor_parallel_traffic():
    # As much forward as backward. Where hidden traffic shows 0.4 of itself: 2 if nothing is hidden, 1 + 0.4 if only the
    # sum of the input's gradient runs under another product, 0.8 if everything does.
    cal = replace(CAL, exposed_tensor=0.4)

    def shown(overlap: float, beside: float) -> float:
        soft = replace(SOFT, overlap_tensor=overlap, async_tensor=beside)
        return float(layer(replace(ALONE, tensor=8.0), cal, soft=soft).tensor)

    found = [shown(0, 0), shown(0, 1), shown(1, 1), shown(1, 0)]
    assert np.array(found) / found[0] * 2 == pytest.approx([2, 1.4, 0.8, 0.8])


def test_adding_up_gradients_by_a_kernel_of_its_own():
    # 4 micro-batches: each adds 16-bit gradients to a 32-bit sum, 2 bytes read, 4 read, 4 written, for 8.03e9
    # parameters less two tables of 128,256 x 4,096. One micro-batch has nothing to add to, and FSDP reduces at once.
    par = replace(ALONE, data=64.0)
    apart = replace(SOFT, fused_accumulation=0.0)
    layers = 8_030_257_152 - 2 * 128256 * 4096 - 4096
    assert float(step(par, soft=apart).accumulation) == pytest.approx(
        4 * 10 * layers / (3.35e12 * CAL.memory), rel=1e-4
    )
    assert step(replace(par, data=256.0), soft=apart).accumulation == 0
    assert step(replace(par, sharding=3.0, sharding_group=64.0), soft=apart).accumulation == 0
    assert step(par).accumulation == 0


@pytest.mark.parametrize("key", ["llama-3-8b", "deepseek-v3", "qwen-3.5-27b", "kimi-linear-48b-a3b", "trinity-large"])
def test_the_products_of_a_layer_are_its_matrices(key: str):
    model = shape.shape_of(CATALOG.models[key], prediction=False)
    share = model.expert_share
    held = transformer.attention_parameters(model) + (1 - share) * transformer.dense_ffn_parameters(model)
    held = held + share * transformer.shared_expert_parameters(model)
    layers = linear_layers(model, ALONE, SOFT)
    assert sum(times * outputs * inputs for outputs, inputs, times, _ in layers) == pytest.approx(held)


def test_the_optimizer_moves_fifty_bytes_a_parameter_and_more_where_the_loss_is_scaled():
    found = [float(step(ALONE, job=replace(JOB, scaled=scaled)).optimizer) for scaled in (0.0, 1.0)]
    moved = [(time - CAL.optimizer_overhead) * 3.35e12 / 8_030_257_152 for time in found]
    assert moved == pytest.approx([50, 64])


def test_the_bubble_of_a_plain_pipeline():
    # (p - 1)/m of the work of a stage: 3/64 with 4 stages and 64 micro-batches, when nothing else costs time.
    par = replace(ALONE, pipeline=4.0, data=4.0)
    free = replace(CAL, exposed_pipeline=0.0, head_imbalance=0.0)
    found = step(par, cal=free)
    one = layer(par, free)
    assert found.bubble == pytest.approx(3 / 64 * float(found.layers * one.total))
    # Interleaving divides it by the chunks, the zero-bubble schedule by three.
    assert step(replace(par, virtual_pipeline=4.0), cal=free).bubble == pytest.approx(float(found.bubble) / 4)
    assert step(replace(par, bubble=1 / 3), cal=free).bubble == pytest.approx(float(found.bubble) / 3)


def test_gradients_are_exchanged_as_the_library_would():
    # 8.03e9 parameters on each of 64 GPUs, gradients of so many bytes: all-reduces of a bucket over eight nodes, one
    # after the other, each as nccl-tests would time it.
    par = replace(ALONE, data=64.0)
    alone = exchanges(LLAMA, JOB, par, SOFT, LINKS, CAL.bucket).step.data
    calls = JOB.gradient_bytes * 8_030_257_152 / CAL.bucket
    node = group_of(LINKS, [(1.0, 64.0)])
    once = choose("all-reduce", CAL.bucket, node.machine, node.library).time
    assert float(alone.time) == pytest.approx(calls * float(once), rel=1e-12)
    assert alone.crosses == 1


def test_a_smaller_group_of_a_mesh_has_only_its_own_wires():
    # 8 GPUs with a wire to each of 7 others: four have 3 of the 7 wires, a pair one; all else is a few per cent.
    mesh = links(CATALOG, "mi300x", 8)
    times = [float(collective_time(group_of(mesh, [(1.0, n)]), "all-gather", 1e12)) for n in (8.0, 4.0, 2.0)]
    wires = [7 / 8 / time for time in times[:1]] + [3 / 4 / times[1], 1 / 2 / times[2]]
    assert np.array(wires) / wires[0] * 7 == pytest.approx([7, 3, 1], rel=0.02)


def test_states_of_sharded_training():
    # 18 bytes a parameter whole: 2 + 4 + 12. Sharded over 8: 6 + 12/8; fully sharded: 16/8 and two gathered layers.
    p = 8_030_257_152
    whole, shared = ALONE, replace(ALONE, data=8.0, sharding=1.0, sharding_group=8.0)
    states = [memory.memory(LLAMA, JOB, par, SOFT, CAL) for par in (whole, shared)]
    assert [float(m.weights + m.gradients + m.optimizer) / p for m in states] == pytest.approx([18, 7.5])
    full = memory.memory(LLAMA, JOB, replace(shared, sharding=3.0), SOFT, CAL)
    layer = p - 2 * 128256 * 4096
    gathered = 2 * 2 * layer / 32 + 4 * 2 * layer / 32
    assert float(full.weights + full.gradients + full.optimizer) == pytest.approx(16 * p / 8 + gathered)


GPT = shape.shape_of(CATALOG.models["gpt-3-175b"])
SHARDINGS = (0.0, 1.0, 2.0, 3.0)


@pytest.mark.parametrize("each", [0.0, 1.0])
def test_a_pipeline_steps_alike_whatever_is_sharded(each: float):
    # 175 B over 1,024 GPUs, t 8, p 8, d 16, 96 micro-batches: reduced once a step, so all within a tenth.
    par = replace(ALONE, tensor=8.0, pipeline=8.0, data=16.0, sharding_group=16.0, sequence_parallel=1.0)
    job, soft = Job(2048.0, 1536.0), replace(SOFT, reduces_each=each)
    times = [float(step(replace(par, sharding=s), model=GPT, job=job, soft=soft).time) for s in SHARDINGS]
    assert times[2] == times[1]
    assert max(times) < 1.1 * min(times)
    held = [memory.memory(GPT, job, replace(par, sharding=s), soft, CAL) for s in SHARDINGS]
    assert float(held[2].gradients) == float(held[1].gradients) == float(held[0].gradients)


@given(par=degrees, model=models, each=st.sampled_from([0.0, 1.0]))
def test_sharding_gradients_never_takes_longer_than_sharding_parameters(par: Parallelism, model, each: float):
    assume(model is LLAMA or float(par.tensor) == 1)  # else whole experts on each tensor-parallel rank are alike too
    soft = replace(SOFT, reduces_each=each)
    gradients, parameters = (float(step(replace(par, sharding=s), model=model, soft=soft).time) for s in (2.0, 3.0))
    assert gradients <= 1.02 * parameters  # the last bucket shows once a micro-batch; gathers hide a little more


@given(par=degrees, model=models)
def test_gradients_are_sharded_only_where_the_stack_scatters_each_and_nothing_is_piped(par: Parallelism, model):
    par, soft = replace(par, sharding=2.0), replace(SOFT, reduces_each=1.0)
    optimizer = replace(par, sharding=1.0)
    if float(par.pipeline) > 1:
        assert step(par, model=model, soft=soft) == step(optimizer, model=model, soft=soft)
    assert step(par, model=model) == step(optimizer, model=model)
    whole, part = (float(memory.states(model, JOB, par, each)[1]) for each in (SOFT, soft))
    assert part <= whole


def test_repeating_norms_activations_and_the_widening_of_latent_attention_keeps_less():
    # Llama 3 8B, one token and layer: 8·h + 4·(H + K)·d_h + 6·f = 139,264 B, less two norms of 2·h and 2·f.
    kept = [transformer.layer_activations(LLAMA, 8192, 1, 0, 1, transformer.Kept(repeated=r)) for r in (0.0, 1.0)]
    assert float(kept[0]) == 8 * 4096 + 4 * (32 + 8) * 128 + 6 * 14336
    assert float(kept[0] - kept[1]) == 4 * 4096 + 2 * 14336
    # DeepSeek-V3: of queries, keys and values only what they are made of, 2·(1,536 + 512 + 64) B, and the output.
    latent = shape.shape_of(CATALOG.models["deepseek-v3"])
    some = [transformer.layer_activations(latent, 4096, 1, 0, 1, transformer.Kept(repeated=r)) for r in (0.0, 1.0)]
    widened = transformer.attention_activations(latent, 1) - 2 * 128 * 128
    assert float(some[0] - some[1]) > float(widened) - 4224 > 100_000


@pytest.mark.parametrize(
    ("setting", "fewer"),
    [
        ({}, 3.0),  # 4 micro-batches at the start and one at the end
        ({"bidirectional": 1.0}, 0.0),  # the first stage and the last are on one rank
    ],
)
def test_logits_count_beyond_the_activations_that_the_last_stage_has_less_of(
    setting: dict[str, float], fewer: float
) -> None:
    par = replace(ALONE, pipeline=4.0, recompute=1.0, **setting)
    logits = memory.memory(LLAMA, JOB, par, SOFT, CAL).logits
    stage = 8192 * 8 * 2 * 4096  # the inputs of 8 layers of a micro-batch
    assert float(logits) == pytest.approx(8192 * 128256 * SOFT.logit_bytes - fewer * stage)
    away = memory.memory(LLAMA, replace(JOB, offload_activations=1.0), replace(par, recompute=0.0), SOFT, CAL)
    assert float(away.logits) == pytest.approx(8192 * 128256 * SOFT.logit_bytes)


def test_recomputing_everything_keeps_the_inputs():
    # 2·h bytes for each token of each layer, and one layer's working set.
    par = replace(ALONE, recompute=1.0)
    kept = memory.memory(LLAMA, JOB, par, SOFT, CAL).activations
    layer = transformer.layer_activations(LLAMA, 8192, 1, 0, 1, transformer.Kept())
    assert float(kept) == pytest.approx(8192 * (32 * 2 * 4096 + float(layer)))


def test_goodput_of_a_large_run():
    # 16,384 GPUs at 1.97e-5 failures an hour: one every 3.1 h. A minute to write, ten to restart.
    failures = 16384 * 1.97e-5 / 3600
    interval = goodput.checkpoint_interval(failures, 60)
    assert interval == pytest.approx(np.sqrt(2 * 60 / failures))
    share = goodput.goodput(failures, 60, interval, 600)
    # First order: 1 - 60/1,157 - 8.97e-5 · (1,157/2 + 600) = 0.842. Time that is lost sees no second failure of its own
    # in that; the whole formula, 8.97e-5 · 1,157 / (e^0.0538 · (e^0.1091 - 1)), has 0.853.
    assert share == pytest.approx(0.8527, abs=1e-4)
    assert share == pytest.approx(1 - 60 / interval - failures * (interval / 2 + 600), abs=0.011)
    assert 0.8 < share < 0.9
    # No interval does better.
    others = goodput.goodput(failures, 60, interval * np.array([0.5, 0.8, 1.25, 2]), 600)
    assert np.all(others < share)


@pytest.mark.filterwarnings("error")
def test_failures_at_absurd_rates_leave_no_progress_rather_than_no_number():
    shares = goodput.goodput(np.array([1e-9, 1e-2, 1.0, 1e3, 1e9]), 60, 600, 1e7)
    assert np.all(np.diff(shares) <= 0)
    assert shares[2:].tolist() == [0.0, 0.0, 0.0]


def test_a_cluster_that_fails_faster_than_it_restarts_makes_little_progress():
    # A failure every 300 s, 200 s between checkpoints of 60 s, 600 s to restart: 200/300 / (e^2 · (e^(260/300) - 1)).
    share = float(goodput.goodput(1 / 300, 60, 200, 600))
    assert share == pytest.approx(200 / 300 / (np.exp(2) * (np.exp(260 / 300) - 1)))
    assert 0 < share < 0.1


def test_of_stages_that_share_a_domain_the_last_alone_sends_out_of_it():
    """Racks of 64, four stages of 16 GPUs in each; of a leaf's 32 GPUs 16 send, which a taper of two leaves whole."""
    leaves = Site(256.0, 64.0, (Tier(32.0, 2.0, 2.0),))
    stages = Parallelism(tensor=16.0, pipeline=16.0)
    for site, left in ((leaves, 1.0), (leaves._replace(tiers=(Tier(32.0, 4.0, 4.0),)), 0.5)):
        assert stage_place(stages, Links(replace(LINKS.interconnect, domain=64.0), site)) == (1.0, left)


def test_a_ring_of_keys_leaves_a_node_on_one_of_its_ranks():
    """Two of eight ranks of context parallelism in a node: the second sends out, half of the GPUs of a leaf of one."""
    parts = Parallelism(tensor=4.0, context=8.0, data=4.0)
    alone, tapered = (replace(LINKS, site=Site(128.0, 8.0, (Tier(8.0, taper, taper),))) for taper in (1.0, 2.0))
    rings = [layer_exchanges(LLAMA, JOB, parts, SOFT, links).context.time for links in (alone, tapered)]
    np.testing.assert_allclose(rings[0], rings[1])


def test_groups_that_share_a_copy_sum_up_their_gradients():
    """Each of 8 in a node has an eighth of a layer: groups of a node send 2 · 15/16 · 2 B of that, layer by layer."""
    spread = replace(ALONE, data=128.0, sharding=3.0)
    nodes = exchanges(LLAMA, JOB, replace(spread, sharding_group=8.0), SOFT, LINKS, CAL.bucket).step
    held = transformer.held_parameters(LLAMA, 1.0, 1.0, 1.0, 1.0, 32.0)
    apart = group_of(LINKS, [(8.0, 16.0)])
    assert nodes.share.time == collective_time(apart, "all-reduce", 2 * held.dense / 32 / 8)
    assert (nodes.share.crosses, nodes.gather.crosses) == (1, 0)
    whole = exchanges(LLAMA, JOB, replace(spread, sharding_group=128.0), SOFT, LINKS, CAL.bucket).step
    assert whole.share.time == 0
    assert whole.gather.crosses == 1


def test_shared_experts_that_ranks_cut_are_summed_up_as_dense_blocks_are():
    """Whole routed experts leave attention's sum alone, half of that of a dense layer; shared experts are cut by t."""
    par = replace(ALONE, tensor=8.0, expert=8.0, sequence_parallel=1.0)
    shared = replace(QWEN, shared_experts=1.0)
    dense = replace(QWEN, experts=0.0, dense_layers=QWEN.layers)
    whole, cut, block = (layer(par, model=model).tensor for model in (QWEN, shared, dense))
    assert 2 * whole == pytest.approx(block)
    assert cut == pytest.approx(block)


def test_fewer_key_value_heads_than_ranks_cost_as_much_as_one_to_each():
    """Eight ranks of one head that all queries share have a copy each: they hold, compute and send eight heads'."""
    one, eight = (replace(LLAMA, kv_heads=heads) for heads in (1.0, 8.0))
    spread = replace(ALONE, tensor=8.0, context=2.0, sequence_parallel=1.0)

    def work(model: transformer.Shape) -> list[float]:
        sent = exchanges(model, JOB, spread, SOFT, LINKS, CAL.bucket)
        whole = training_step.step(model, JOB, H100, spread, SOFT, CAL, sent)
        return [float(whole.time), float(memory.memory(model, JOB, spread, SOFT, CAL).total)]

    assert work(one) == pytest.approx(work(eight))
    assert transformer.training_flops(one, 8192.0) < transformer.training_flops(eight, 8192.0)


def test_sharded_parameters_are_all_gathered_embeddings_too():
    """Of 70 M parameters with a vocabulary of 262,144 most are the embeddings': 3 · 2 B of each are sent for all."""
    wide = transformer.Shape(8.0, 256.0, 4.0, 64.0, 4.0, 1024.0, 1.0, 262144.0, tied=1.0)
    spread = replace(ALONE, data=64.0, sharding=3.0, sharding_group=64.0)
    gather = exchanges(wide, JOB, spread, SOFT, LINKS, CAL.bucket).step.gather
    held = transformer.held_parameters(wide, 1.0, 1.0, 1.0, 1.0, 8.0)
    every = group_of(LINKS, [(1.0, 64.0)])
    assert held.dense > 9 * 8 * held.layer / 2
    assert gather.time == 3 * collective_time(every, "all-gather", 2 * held.dense / 8)


def test_a_tied_embedding_is_summed_up_between_the_first_stage_and_the_last():
    """4 bytes of each of 128,256 · 4,096 parameters over 8 ranks, after the backward pass, where stages are apart."""
    piped = replace(ALONE, tensor=8.0, pipeline=4.0, data=2.0)
    tied = replace(LLAMA, tied=1.0)
    sent = exchanges(tied, JOB, piped, SOFT, LINKS, CAL.bucket).step.embedding
    assert sent.time == send_time(pair_of(LINKS, 1.0, 1.0), 4 * 128256 * 4096 / 8)
    assert step(piped, model=tied).pipeline == pytest.approx(step(piped).pipeline + sent.time)
    for together in (replace(piped, pipeline=1.0), replace(piped, bidirectional=1.0)):
        assert exchanges(tied, JOB, together, SOFT, LINKS, CAL.bucket).step.embedding.time == 0


@pytest.mark.parametrize(("domains", "reached"), [(8, 3.18), (16, 5.01), (32, 6.39), (64, 7.26)])
def test_a_limit_of_groups_is_one_of_nodes_where_each_has_a_group(domains: int, reached: float):
    """Other domains that a token of DeepSeek-V3 reaches, of 20,000 drawn: 8 of the experts of 4 of 8 groups."""
    latent = shape.shape_of(CATALOG.models["deepseek-v3"])
    away = (domains - 1) / domains
    _, across = expert_volumes(latent, JOB, replace(ALONE, expert=64.0), Software(), float(domains), away)
    assert across / (2 * 8192 * 7168) == pytest.approx(reached, rel=0.03)


def test_experts_sum_up_theirs_among_the_groups_that_hold_the_same_ones():
    spread = replace(ALONE, data=128.0, expert=8.0, sharding=3.0, sharding_group=32.0)
    step = exchanges(QWEN, JOB, spread, SOFT, LINKS, CAL.bucket).step
    held = transformer.held_parameters(QWEN, 1.0, 1.0, 8.0, 1.0, 48.0)
    same = group_of(LINKS, [(32.0, 4.0)])  # 16 ranks hold the same experts, 8 apart; 4 of them share one copy
    assert step.expert_share.time == collective_time(same, "all-reduce", 2 * held.routed / 4)


@pytest.mark.parametrize(
    ("tensor", "group", "same"), [(1.0, 8.0, 1), (1.0, 32.0, 4), (1.0, 128.0, 16), (16.0, 8.0, 16)]
)
def test_state_of_experts_is_spread_over_those_of_a_group_that_hold_the_same_ones(
    tensor: float, group: float, same: int
):
    """Eight replicas have each expert once in all; of tensor parallelism's 16 ranks two have the same, 16 of 128."""
    par = replace(ALONE, tensor=tensor, data=128.0 / tensor, expert=8.0, sharding=1.0, sharding_group=group)
    held = transformer.held_parameters(QWEN, tensor, 1.0, 8.0, 1.0, 48.0)
    optimizer = memory.states(QWEN, JOB, par, SOFT)[2]
    assert float(optimizer) == pytest.approx(12 * float(held.dense / group + held.expert / same))


def test_groups_that_share_a_copy_are_as_far_apart_as_stages_put_them():
    """Pipelines of 2 stages together: the next group of 8 ranks of a stage stands 16 ranks away."""
    together = replace(ALONE, pipeline=2.0, data=128.0, stages_first=1.0)
    assert copies(together, 8.0, 16.0) == [(8.0, 1.0), (16.0, 16.0)]


def test_gradients_take_as_long_where_all_fill_their_buckets_as_beside_some_that_do_not() -> None:
    replicas, bucket = group_of(LINKS, [(8.0, 64.0)]), 1e9
    counts = np.array([1e6, 2e8, 4.99e8, 5e8, 5.01e8, 7e10])  # two bytes each fill a bucket from 5e8 on
    together = gradient_exchange_time(replicas, counts, JOB, 1.0, bucket)
    alone = [gradient_exchange_time(replicas, count, JOB, 1.0, bucket) for count in counts.tolist()]
    assert together == pytest.approx(alone, rel=1e-14)
