"""A model, a GPU and constants in round numbers: what the examples in the docstrings compute with."""

from dataclasses import replace

from app.formulas.serving.serving_arguments import ServedModel, ServingConstants, ServingRates
from app.formulas.transformer import Shape

SHAPE = Shape(layers=10, hidden=1000, heads=10, head_dim=100, kv_heads=5, ffn_hidden=4000, gated=1, vocabulary=100_000)
"""Ten layers of 3 million parameters of attention and 12 million of feed-forward, and an output head of 100 million."""
MODEL = ServedModel(replace(SHAPE, dense_layers=10))
EXPERTS = ServedModel(replace(SHAPE, experts=8, experts_per_token=2, expert_ffn_hidden=4000, dense_layers=0))
"""The same with eight experts in each layer, two for each token."""
GPU = ServingRates(
    memory_bandwidth=1e12,
    memory_capacity=80e9,
    dense_peak=1e15,
    expert_peak=1e15,
    attention_peak=1e15,
    scale_up=1e11,
    domain=8,
    scale_out=1e10,
)
"""1 PFLOP/s, 1 TB/s of memory, 100 GB/s to seven others, 10 GB/s to everybody else."""
LOSSLESS = ServingConstants(
    memory=1,
    expert_memory=1,
    dense_compute=1,
    expert_compute=1,
    half_tokens=0,
    expert_imbalance=1,
    expert_tile=0,
    expert_spread=1,
    expert_half_width=0,
    elementwise_traffic=0,
    kv_memory=1,
    attention_compute=1,
    latent_compute=1,
    prompt_attention=1,
    reduce_latency=0,
    reduce_doubling=0,
    one_shot=1,
    two_shot=1,
    two_shot_latency=0,
    network_latency=0,
    dispatch_latency=0,
    dispatch_rate=1,
    layer_time=0,
    expert_layer_time=0,
    latent_layer_time=0,
    step_time=0,
    sequence_time=0,
    first_token_time=0,
    interference=1,
    synchronisation=1,
    queueing=1,
    steps_ahead=0,
    correction=1,
    memory_share=1,
    reserved_memory=0,
    acceptance=1,
)
"""Every rate is reached, nothing takes time to start, and each prompt delays every answer by its whole time."""
