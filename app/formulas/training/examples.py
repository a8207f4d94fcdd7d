"""A model, a GPU and constants in round numbers: what the examples in the docstrings compute with."""

from dataclasses import fields, replace

from app.formulas.collectives.group_times import Interconnect, Links
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import Calibration as Library
from app.formulas.fabric.placement import Site
from app.formulas.training.arguments import Calibration, GpuRates, Job
from app.formulas.training.exchanges import NOTHING, Exchanges, LayerExchanges, StepExchanges
from app.formulas.transformer import Shape

MODEL = Shape(layers=10, hidden=1000, heads=10, head_dim=100, kv_heads=10, ffn_hidden=4000, gated=0, vocabulary=100_000)
"""Ten layers of 12·h² = 12 million parameters in matrices, and two tables of 100 million."""
EXPERTS = replace(MODEL, experts=8, experts_per_token=2, expert_ffn_hidden=4000, dense_layers=0)
"""The same with eight experts in each layer, two for each token."""
JOB = Job(sequence_length=1000, global_batch=16)
"""A micro-batch of one sequence has 1,000 tokens."""
GPU = GpuRates(
    matrix_peak=1e15,
    linear_peak=1e15,
    memory_bandwidth=1e12,
    memory_capacity=80e9,
    multiprocessors=100,
    clock=1,
    scale_up_domain=8,
)
"""1 PFLOP/s, 1 TB/s of memory, seven others in its domain."""
LINKS = Links(
    Interconnect(
        machine=Machine(
            ranks_per_domain=8.0,
            domains=8.0,
            scale_up_rate=1e11,
            multicast_rate=0.0,
            mesh_peers=0.0,
            scale_out_rate=1e10,
            base_latency=1e-12,
            scale_up_hop=0.0,
            scale_out_hop=0.0,
            reference_hop=0.0,
            fill=0.0,
            fill_one_domain=0.0,
            scale_up_line=1e11,
            scale_out_line=1e10,
        ),
        inside_rate=1e11,
        inside_hop=0.0,
        domain=8.0,
        library=Library(**{entry.name: 1.0 for entry in fields(Library)} | {"peer_overhead": 0.0}),
    ),
    Site(64.0, 8.0),
)
"""Eight domains of eight: 100 GB/s to seven others, 10 GB/s to everybody else, a picosecond to start."""
ALONE = Exchanges(LayerExchanges(NOTHING, NOTHING, NOTHING), StepExchanges())
"""What one GPU exchanges by itself."""
LOSSLESS = Calibration(
    linear=1,
    head=1,
    depth_half=0,
    wave=0,
    tile=100,
    attention=1,
    attention_half=0,
    attention_backward=2.5,
    narrow_head=0,
    small_head=1,
    unfused_attention=1,
    softmax_traffic=1,
    memory=1,
    elementwise=1,
    unfused=1,
    quantize=1,
    scale_out=1,
    exposed_tensor=1,
    exposed_context=1,
    exposed_pipeline=1,
    exposed_data=1,
    exposed_expert=1,
    exposed_gather=1,
    hiding=0,
    bucket=1e9,
    head_imbalance=1,
    head_spared=1,
    expert_scale_up=1,
    grouped=1,
    grouped_low=1,
    permute=1,
    fused_experts=1,
    host_layer=0,
    host_expert=0,
    host_untuned=0,
    expert_launch=0,
    graph_host=1,
    optimizer_traffic=50,
    scaling_traffic=14,
    optimizer_overhead=0,
    straggler=0,
    straggler_walk=0,
    slow_node=0,
    context_memory=0,
    fragmentation=0,
)
"""Every rate is reached, nothing takes time to start, and whatever is sent is seen in full."""
