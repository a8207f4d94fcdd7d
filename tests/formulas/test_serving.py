"""Serving by hand: keys and values, their way over a network, one sequence alone; and what holds of every replica."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.load import load_catalog
from app.formulas.collectives.group_times import collective_time, group_of
from app.formulas.serving.batching import steady_state
from app.formulas.serving.decode import (
    StepBatch,
    decode_attention_time,
    dispatch_time,
    elementwise_time,
    experts_time,
    layer_all_reduce_time,
    prompt_attention_time,
    stage_time,
    step_parts,
)
from app.formulas.serving.disaggregation import pools_rate, transfer_bytes, transfer_time
from app.formulas.serving.kv_cache import head_weights, layer_weights, sequence_bytes, sequences_held, serving_weights
from app.formulas.serving.serving_arguments import Layout, ServedModel, ServingConstants, ServingLoad
from app.formulas.serving.serving_examples import GPU, LOSSLESS, MODEL
from app.formulas.training.examples import LINKS
from app.formulas.transformer import parameters
from app.plan.job.shape import shape_of

CATALOG = load_catalog()
LLAMA = ServedModel(shape_of(CATALOG.models["llama-3-70b"], prediction=False), 1.0, 1.0, 1.0)
DEEPSEEK = ServedModel(shape_of(CATALOG.models["deepseek-v3"], prediction=False), 1.0, 1.0, 1.0)
PROMPT = ServingLoad(input_tokens=8192, output_tokens=1, concurrency=1, token_budget=8192)


def test_a_token_of_llama_3_70b_leaves_164_kb_of_keys_and_values_in_fp8() -> None:
    # 80 layers · 2 · 8 heads · 128 · 1 byte = 163,840
    assert float(sequence_bytes(LLAMA, Layout(), 1.0)) == 163_840
    # ... of which each of 8 GPUs holds an eighth, one head
    assert float(sequence_bytes(LLAMA, Layout(tensor=8), 1.0)) == 20_480


def test_a_token_of_deepseek_v3_leaves_35_kb_on_every_gpu_of_the_rank() -> None:
    # 61 layers · (512 + 64) · 1 byte = 35,136: latent attention's cache is not divided by tensor parallelism
    assert float(sequence_bytes(DEEPSEEK, Layout(), 1.0)) == 35_136
    assert float(sequence_bytes(DEEPSEEK, Layout(tensor=8), 1.0)) == 35_136


@pytest.mark.parametrize(
    ("key", "each"),
    [
        ("llama-3.2-3b", 28 * 2 * 8 * 128),
        ("mistral-large-2", 88 * 2 * 8 * 128),
        ("mistral-large-3", 61 * (512 + 64)),
        ("command-r-35b", 40 * 2 * 64 * 128),
        ("command-a", 16 * 2 * 8 * 128),  # the other 48 of 64 layers keep 4,096 keys
        ("gemma-3-4b", 5 * 2 * 4 * 256),  # five of 34 layers keep all
        ("glm-4.5", 92 * 2 * 8 * 128),
        ("glm-4.7-flash", 47 * (512 + 64)),
        ("minimax-m3", 60 * 2 * 4 * 128),  # all are kept, though few are read
        ("minimax-text-01", 10 * 2 * 8 * 128),  # one layer of eight
        ("qwen-3-next-80b-a3b", 12 * 2 * 2 * 256),
        ("qwen-3.5-27b", 16 * 2 * 4 * 256),
        ("kimi-linear-48b-a3b", 7 * (512 + 64)),
        ("dots-llm1", 62 * 2 * 32 * 128),
        ("phi-4", 40 * 2 * 10 * 128),
        ("trinity-large", 15 * 2 * 8 * 128),
    ],
)
def test_a_token_more_leaves_as_many_numbers_as_by_hand(key: str, each: int) -> None:
    model = ServedModel(shape_of(CATALOG.models[key], prediction=False), kv_bytes=2.0)
    more = sequence_bytes(model, Layout(), 100_001.0) - sequence_bytes(model, Layout(), 100_000.0)
    assert float(more) == pytest.approx(2 * each, rel=1e-3)


def test_a_sequence_of_qwen_3_5_27b_has_a_state_of_151_mb() -> None:
    # 48 layers of 48 heads with 128 · 128 numbers in 32 bit, halved on two GPUs
    model = ServedModel(shape_of(CATALOG.models["qwen-3.5-27b"], prediction=False))
    assert float(sequence_bytes(model, Layout(), 0.0)) == 48 * 48 * 128**2 * 4
    assert float(sequence_bytes(model, Layout(tensor=2), 0.0)) == 24 * 48 * 128**2 * 4


@pytest.mark.parametrize("tensor", [1, 2])
def test_every_step_reads_and_writes_the_state_of_linear_attention(tensor: float) -> None:
    # 151 MB twice at 1 TB/s are 302 ms for a thousand sequences, before a single key; each of two GPUs has half
    model = ServedModel(shape_of(CATALOG.models["qwen-3.5-27b"], prediction=False))
    batch = StepBatch(1000.0, 0.0, 0.0, 0.0)
    attention = step_parts(batch, model, GPU, Layout(tensor=tensor), LOSSLESS).attention
    assert float(attention) == pytest.approx(0.302 / tensor, rel=0.001)


@pytest.mark.parametrize("key", CATALOG.models)
def test_weights_in_16_bit_take_two_bytes_a_parameter(key: str) -> None:
    # less the norms, biases and routers, which serving does not count: 1.4 % of MPT 125M
    shape = shape_of(CATALOG.models[key], prediction=False)
    held = float(serving_weights(ServedModel(shape), Layout()))
    assert held == pytest.approx(2 * float(parameters(shape)), rel=0.015)


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("llama-3.2-1b", 2 * 128_256 * 2048),  # one matrix of both on one GPU, one on each of two stages
        ("llama-3-8b", 0),  # two on one GPU: the first stage has the embedding and the last the head
    ],
)
def test_the_first_stage_has_the_embedding_and_the_last_the_head(key: str, more: int) -> None:
    model = ServedModel(shape_of(CATALOG.models[key], prediction=False))
    one, two = serving_weights(model, Layout()), 2 * serving_weights(model, Layout(pipeline=2))
    assert float(two - one) == more


def test_the_fullest_gpu_holds_and_reads_whole_experts() -> None:
    # of 128 experts 36 GPUs have three or four: four where 3.56 are the mean, as much as where 32 have four each
    model = ServedModel(shape_of(CATALOG.models["qwen-3-235b-a22b"], prediction=False))
    layouts = [Layout(attention_data=ranks, expert=ranks) for ranks in (32.0, 36.0, 43.0)]
    assert [layer_weights(model, layout).experts for layout in layouts] == [4.0, 4.0, 3.0]
    head = [2 * 2 * float(head_weights(model, layout)) for layout in layouts[:2]]
    held = [float(serving_weights(model, layout)) - each for layout, each in zip(layouts[:2], head, strict=True)]
    assert held[0] == pytest.approx(held[1])
    # all are chosen by so many tokens: in a layer four experts of 3 · 4,096 · 1,536 weights of two bytes
    reading = replace(GPU, expert_peak=1e30)
    times = [float(experts_time(1e4, model, reading, layout, LOSSLESS)) for layout in layouts[:2]]
    assert times == pytest.approx([4 * 3 * 4096 * 1536 * 2 / GPU.memory_bandwidth] * 2)


@pytest.mark.parametrize(
    ("model", "megabytes", "milliseconds"),
    [
        (DEEPSEEK, 288, 5.76),  # 8,192 · 35,136 B = 288 MB at 50 GB/s
        (LLAMA, 1342, 26.84),  # 8,192 · 163,840 B = 1.34 GB
    ],
)
def test_the_cache_of_an_8k_prompt_over_400_gb_s(model: ServedModel, megabytes: float, milliseconds: float) -> None:
    volume = transfer_bytes(model, PROMPT)
    assert float(volume) / 1e6 == pytest.approx(megabytes, rel=1e-3)
    assert 1e3 * float(transfer_time(volume, 400e9 / 8)) == pytest.approx(milliseconds, rel=1e-3)


def test_a_prefix_that_both_pools_hold_is_not_sent() -> None:
    # memory counts the cached three quarters once in each pool, so a quarter of 1.34 GB is what a prompt adds
    shared = transfer_bytes(LLAMA, replace(PROMPT, prefix_hits=0.75))
    assert float(shared) == pytest.approx(float(transfer_bytes(LLAMA, PROMPT)) / 4)


def test_between_products_a_layer_of_llama_3_70b_moves_303_kb_a_token() -> None:
    # 2 bytes · (8 · 8,192 + 3 · 28,672) = 303,104; a thousand tokens at 1 TB/s
    moving = replace(LOSSLESS, elementwise_traffic=1)
    assert 1e6 * float(elementwise_time(1000.0, LLAMA, GPU, Layout(), moving)) == pytest.approx(303.104)
    # eight GPUs share the feed-forward block, and each norms the whole state: 2 · (65,536 + 10,752)
    shared = float(elementwise_time(1000.0, LLAMA, GPU, Layout(tensor=8), moving))
    assert 1e6 * shared == pytest.approx(152.576)
    # eight experts of 2,048 in place of the block of DeepSeek-V3: 2 · (8 · 7,168 + 3 · 16,384)
    assert 1e6 * float(elementwise_time(1000.0, DEEPSEEK, GPU, Layout(), moving)) == pytest.approx(212.992)


def test_an_expert_as_wide_as_the_half_width_is_computed_at_half_the_rate() -> None:
    # DeepSeek-V3's experts are 2,048 wide; cut in four, a quarter of that: five times the work for four times the width
    whole, narrow = LOSSLESS, replace(LOSSLESS, expert_half_width=2048.0)
    many = 1e9  # tokens, so that reading the weights is nothing beside
    assert float(experts_time(many, DEEPSEEK, GPU, Layout(), narrow)) == pytest.approx(
        2 * float(experts_time(many, DEEPSEEK, GPU, Layout(), whole))
    )
    cut = Layout(tensor=4)
    assert float(experts_time(many, DEEPSEEK, GPU, cut, narrow)) == pytest.approx(
        5 * float(experts_time(many, DEEPSEEK, GPU, cut, whole))
    )


def test_stages_send_over_the_network_where_the_replica_leaves_its_domain() -> None:
    # 16 MB at 100 GB/s inside a domain of 8, at 10 GB/s and with 20 µs of network beyond it
    slow = replace(LOSSLESS, network_latency=20e-6)
    assert 1e6 * float(stage_time(16e6, GPU, Layout(pipeline=8), slow)) == pytest.approx(160)
    assert 1e6 * float(stage_time(16e6, GPU, Layout(tensor=8, pipeline=2), slow)) == pytest.approx(1620)
    assert float(stage_time(16e6, GPU, Layout(tensor=8), slow)) == 0


def test_an_all_reduce_beyond_a_domain_uses_the_network_cards_of_all_its_gpus() -> None:
    # two domains of 8 GPUs that send 10 GB/s each: a tree between them moves 8 GB at 80 GB/s, 0.1 s, while each GPU
    # passes them up and down at 100 GB/s: 0.16 s. Over one card it was 2 · 15/16 · 8 GB at 10 GB/s, 1.5 s
    gpu = replace(GPU, links=LINKS)
    joined = float(layer_all_reduce_time(8e9, 16.0, gpu, LOSSLESS))
    assert joined == pytest.approx(2 * 8e9 / 100e9)
    assert joined == float(collective_time(group_of(LINKS, [(1.0, 16.0)]), "all-reduce", 8e9))
    # inside a domain it is the kernels', links known or not, and groups of several sizes are what each is alone
    inside = float(layer_all_reduce_time(8e9, 8.0, GPU, LOSSLESS))
    assert layer_all_reduce_time(8e9, np.array([8.0, 16.0]), gpu, LOSSLESS) == pytest.approx([inside, joined])
    assert np.isnan(layer_all_reduce_time(8e9, 16.0, GPU, LOSSLESS))


def test_one_sequence_alone_is_bound_by_reading_the_weights() -> None:
    # 80 layers · (2·8192·8192 + 2·8192·1024 + 3·8192·28672) weights of a byte, and a head of 128,256·8192 in 16 bit,
    # all at 3.35 TB/s: 68.5 GB and 2.1 GB
    gpu = replace(GPU, memory_bandwidth=3.35e12)
    parts = step_parts(StepBatch(1.0, 0.0, 0.0, 1.0), LLAMA, gpu, Layout(), LOSSLESS)
    layers = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)
    head = 2 * 128_256 * 8192
    assert float(parts.products) == pytest.approx((layers + head) / 3.35e12, rel=1e-3)


@pytest.mark.parametrize("alone", [0.0, 1.0])
def test_no_answer_waits_for_its_own_prompt(alone: float) -> None:
    # the next prompt of one who asks alone comes when the answer is there, so every step between two tokens decodes
    load = ServingLoad(input_tokens=131_072, output_tokens=512, concurrency=1, token_budget=8192, prompts_alone=alone)
    one, two = (steady_state(LLAMA, GPU, Layout(), replace(load, concurrency=each), LOSSLESS) for each in (1, 2))
    assert float(one.time_per_token) == float(one.decode.total)
    assert float(two.time_per_token) > 1.2 * float(two.decode.total)  # half of the prompts are the other's


def test_drafted_tokens_share_the_reading_of_keys_and_compute_each_their_own_scores() -> None:
    # latent attention of 128 heads: 128·2·(2·512 + 64) = 278,528 FLOP a key of 576 B, 0.279 ns of 1 PFLOP/s against
    # 0.576 ns of 1 TB/s, and of three tokens 0.836 ns: (0.576³ + 0.836³)^(1/3) = 0.919
    one, three = (
        decode_attention_time(StepBatch(1.0, 0.0, 1e6, 0.0, tokens), DEEPSEEK, GPU, Layout(), LOSSLESS)
        for tokens in (1.0, 3.0)
    )
    assert [1e3 * float(time) for time in (one, three)] == pytest.approx([0.597, 0.919], abs=0.001)


def test_weights_of_a_checkpoint_in_fp8_take_a_byte_each() -> None:
    # 70.6 billion parameters, of which the two tables of 1.05 billion are in 16 bit: 68.5 + 4.2 GB
    assert float(serving_weights(LLAMA, Layout())) / 1e9 == pytest.approx(72.7, abs=0.1)
    # over two GPUs each has half
    assert float(serving_weights(LLAMA, Layout(tensor=2))) * 2 == pytest.approx(float(serving_weights(LLAMA, Layout())))


def test_speculation_that_accepts_one_token_halves_the_time_per_token_where_weights_bind() -> None:
    load = ServingLoad(input_tokens=1, output_tokens=1e6, concurrency=1, token_budget=8192)
    plain = steady_state(LLAMA, GPU, Layout(), load, LOSSLESS)
    faster = steady_state(LLAMA, GPU, Layout(), replace(load, accepted_tokens=1.0), LOSSLESS)
    assert float(faster.time_per_token) == pytest.approx(float(plain.time_per_token) / 2, rel=0.01)


def test_those_who_wait_for_their_prompts_do_not_decode() -> None:
    # Four steps of 8,192 tokens for a prompt and 16 further tokens of an answer: of any number in flight four decode.
    # Their 131,106 keys, of ten layers and 2,000 bytes each, take 2.6 ms of a step; those of 5,120/20 would take 168.
    loads = np.array([80.0, 320.0, 1280.0, 5120.0])
    load = ServingLoad(input_tokens=32_768, output_tokens=17, concurrency=loads, token_budget=8192, in_process=1)
    state = steady_state(MODEL, GPU, Layout(), load, LOSSLESS)
    assert state.requests * state.time_per_token * 16 == pytest.approx(np.full(4, 4), rel=0.05)
    assert state.decode.attention == pytest.approx(np.full(4, 4 * (32_768 + 8.5) * 20e3 / 1e12), rel=0.005)
    assert state.requests == pytest.approx(np.full(4, state.requests[0]), rel=0.001)


def test_a_cached_prefix_is_not_computed_again() -> None:
    load = ServingLoad(input_tokens=8000, output_tokens=100, concurrency=1, token_budget=8192)
    half = replace(load, prefix_hits=0.5)
    whole, less = (steady_state(LLAMA, GPU, Layout(), one, LOSSLESS).prompt for one in (load, half))
    assert float(less) < 0.55 * float(whole)


def test_what_is_computed_of_a_prompt_sees_what_is_cached_of_it() -> None:
    # of 128,000 tokens a tenth is computed: a token of it sees 115,200 keys and half of 12,800, not that half alone
    whole = ServingLoad(input_tokens=128_000, output_tokens=100, concurrency=1, token_budget=8192)
    tenth = replace(whole, prefix_hits=0.9)
    one, other = (
        float(prompt_attention_time(load.prompt, load.prompt_keys, LLAMA, GPU, Layout(), LOSSLESS))
        for load in (whole, tenth)
    )
    assert other / one == pytest.approx(12_800 * (115_200 + 6_400) / (128_000 * 64_000))
    # all of the prompt in two halves, the second after the first is cached, is the prompt at once
    second = replace(whole, prefix_hits=0.5)
    first = replace(whole, input_tokens=64_000)
    halves = [prompt_attention_time(load.prompt, load.prompt_keys, LLAMA, GPU, Layout(), LOSSLESS)
              for load in (first, second)]  # fmt: skip
    assert float(sum(halves)) == pytest.approx(one)


@given(hits=st.floats(0, 0.999), tensor=st.sampled_from([1.0, 2.0, 8.0]))
def test_a_cached_prefix_is_held_once_by_each_rank(hits: float, tensor: float) -> None:
    gpu, layout = replace(GPU, memory_capacity=200e9), Layout(tensor=tensor)
    load = ServingLoad(input_tokens=100_000, output_tokens=400, concurrency=1, token_budget=8192, prefix_hits=hits)
    room = 200e9 - float(serving_weights(LLAMA, layout))
    token = float(sequence_bytes(LLAMA, layout, 1.0))
    held = max(room - token * 100_000 * hits, 0) / (token * (100_000 * (1 - hits) + 300))
    assert float(sequences_held(LLAMA, gpu, layout, load, LOSSLESS)) == pytest.approx(held)


def test_a_prefix_that_does_not_fit_leaves_room_for_no_sequence() -> None:
    # a million tokens of Llama 3 70B in 8 bit take 164 GB, however few of them are computed; two GPUs have 87 GB left
    load = ServingLoad(input_tokens=1e6, output_tokens=1, concurrency=1, token_budget=8192, prefix_hits=0.999)
    assert float(sequences_held(LLAMA, GPU, Layout(tensor=2), load, LOSSLESS)) == 0


def test_two_pools_are_as_fast_as_their_gpus_together() -> None:
    # 3 prompts a second need one GPU, 1 answer a second needs one: of four GPUs one takes prompts
    assert pools_rate(3.0, 1.0) == 0.75


LAYOUTS = st.builds(
    Layout,
    tensor=st.sampled_from([1.0, 2.0, 4.0, 8.0]),
    pipeline=st.sampled_from([1.0, 2.0]),
)
LOADS = st.builds(
    ServingLoad,
    input_tokens=st.floats(1, 8192),
    output_tokens=st.floats(128, 8192),
    concurrency=st.floats(1, 512),
    token_budget=st.just(8192.0),
    prompts_alone=st.sampled_from([0.0, 1.0]),
)


@settings(max_examples=60, deadline=None)
@given(
    layout=LAYOUTS,
    load=LOADS,
    prompt=st.floats(8192, 131_072),
    answer=st.floats(1, 1024),
    interference=st.floats(0.5, 1.2),
)
def test_a_replica_computes_no_more_than_a_second_of_prompts_in_a_second(
    layout: Layout, load: ServingLoad, prompt: float, answer: float, interference: float
) -> None:
    # each step takes as much of a long prompt as the budget holds, and decoding only makes it longer
    constants, long = replace(LOSSLESS, interference=interference), replace(load, input_tokens=prompt)
    long = replace(long, output_tokens=answer)
    step = step_parts(StepBatch(0.0, load.token_budget, 0.0, prompt / 2), LLAMA, GPU, layout, constants).total
    busy = steady_state(LLAMA, GPU, layout, long, constants).requests * (prompt / load.token_budget) * step
    assert float(busy) <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(layout=LAYOUTS, load=LOADS, factor=st.floats(1, 8), name=st.sampled_from(["memory_bandwidth", "scale_up"]))
def test_a_faster_machine_answers_no_later(layout: Layout, load: ServingLoad, factor: float, name: str) -> None:
    faster = replace(GPU, **{name: factor * getattr(GPU, name)})
    slow, fast = (steady_state(LLAMA, gpu, layout, load, LOSSLESS) for gpu in (GPU, faster))
    # decoding that gains more than prompts do makes them queue: where prompts take nearly all of the time, by a trifle
    assert float(fast.requests) >= float(slow.requests) * (1 - 0.01)


@settings(max_examples=60, deadline=None)
@given(layout=LAYOUTS, load=LOADS)
def test_little_s_law_holds_and_nothing_is_negative(layout: Layout, load: ServingLoad) -> None:
    state = steady_state(DEEPSEEK, GPU, layout, load, LOSSLESS)
    answer = float(state.first_token) + float(state.time_per_token) * (float(load.output_tokens) - 1)
    assert float(state.requests) * answer == pytest.approx(float(load.concurrency))
    assert min(float(value) for value in vars(state.decode).values()) >= 0


def test_a_request_waits_for_steps_that_are_prepared_and_in_waves_for_the_prompts_in_them() -> None:
    load = ServingLoad(input_tokens=2000.0, output_tokens=4000.0, concurrency=8.0, token_budget=8192.0)
    at_once = replace(LOSSLESS, queueing=0)
    ahead = replace(at_once, steps_ahead=2)

    def first(load: ServingLoad, constants: ServingConstants) -> float:
        return float(steady_state(LLAMA, GPU, Layout(tensor=4.0), load, constants).first_token)

    state = steady_state(LLAMA, GPU, Layout(tensor=4.0), load, ahead)
    waited = first(load, ahead) - first(load, at_once)
    assert waited == pytest.approx(2 * float(state.decode.total), rel=0.02)
    # the two answers that ended before have followers too, whose prompts those steps hold
    behind = first(replace(load, waves=1.0), ahead) - first(load, ahead)
    assert behind == pytest.approx(2 * float(state.prompt), rel=0.02)
    alone = replace(load, concurrency=1.0, waves=1.0)
    assert first(alone, ahead) == first(alone, at_once)
    pair = replace(load, concurrency=2.0)
    assert first(replace(pair, waves=1.0), ahead) - first(pair, ahead) == pytest.approx(float(state.prompt), rel=0.02)


def test_arrays_give_what_numbers_give() -> None:
    sizes = np.array([1.0, 8.0, 64.0])
    load = ServingLoad(input_tokens=1000.0, output_tokens=100.0, concurrency=sizes, token_budget=8192.0)
    many = steady_state(LLAMA, GPU, Layout(tensor=4.0), load, LOSSLESS)
    for place, size in enumerate(sizes):
        one = steady_state(LLAMA, GPU, Layout(tensor=4.0), replace(load, concurrency=float(size)), LOSSLESS)
        assert np.asarray(many.time_per_token)[place] == pytest.approx(float(one.time_per_token))


def test_a_replica_without_room_holds_no_sequence() -> None:
    load = ServingLoad(input_tokens=1000, output_tokens=100, concurrency=1, token_budget=8192)
    assert float(sequences_held(DEEPSEEK, GPU, Layout(tensor=8), load, LOSSLESS)) == 0  # 671 GB on 8 · 80 GB


@pytest.mark.parametrize("domain", [4, 8, 32, 64])
def test_the_fewer_ranks_experts_are_dealt_out_to_the_more_gpus_need_each_token(domain: int) -> None:
    """32 ranks of DeepSeek-V3: whole experts on each GPU, then every expert cut over 2 GPUs and more, at last over all.

    A token that chooses 8 experts goes to 8 GPUs, to 16, and to all 31 others; over 8 domains to 7 at last.
    """
    gpu = replace(GPU, domain=domain)
    times = [
        float(dispatch_time(100.0, DEEPSEEK, gpu, Layout(attention_data=32, expert=experts), LOSSLESS))
        for experts in (32, 16, 8, 4, 2, 1)
    ]
    assert times == sorted(times)
    state = 100 * DEEPSEEK.shape.hidden * 3
    inside, crossing = 31 / gpu.scale_up, (32 / min(domain, 32) - 1) / gpu.scale_out
    assert times[-1] == pytest.approx(state * max(inside, crossing))
