"""What each field of a scenario moves, and by omission what it does not: one row for each field.

The parallelism and the message are given, so that a result moves because the field reaches it and not because another
way to run the job became the best.
"""

from functools import cache

import pytest

from app import Scenario, evaluate
from app.catalog.load import load_catalog
from app.plan.scenario import group_of
from app.studies.acceptance import sheet

CATALOG = load_catalog()
PLAN = {
    "model": "llama-3-70b", "message": 1e9, "nodes_per_unit": 32, "tensor_parallel": 8, "pipeline_parallel": 4,
    "virtual_pipeline": 1, "micro_batch": 1, "context_parallel": 1, "sequence_parallel": True, "sharding": "optimizer",
    "recompute": "full",
}  # fmt: skip
"""1,024 H100 on InfiniBand: four units of 32 nodes, four stages of 32 replicas."""
EXPERTS = {
    "model": "mixtral-8x22b", "gpus": 256, "tensor_parallel": 2, "virtual_pipeline": 2, "expert_parallel": 8,
    "scale_up_domain": 4, "recompute": "none", "sequence_length": 1024,
}  # fmt: skip
"""Experts of a layer on eight GPUs of two domains."""
OWN = {"model": "custom", "layers": 32, "hidden": 4096, "heads": 32, "ffn_hidden": 16384, "vocabulary": 128000}
SMALL = {"model": "llama-3-8b", "gpus": 16, "pipeline_parallel": 1, "message": 8}
TAPER = {"oversubscription": 8}

# Results that move together.
RUN = "train campaign run rental"  # the time of the run, and what it costs
STEP = f"step {RUN}"
JOB = f"step memory {RUN}"
COLLECTIVES = "all_reduce all_to_all sheet"
NETWORK = f"{COLLECTIVES} {STEP}"  # whatever communicates
OWNED = "capital operating run"
BILL = f"fabric {OWNED}"
BUILT = f"switches power {BILL}"

REACH: dict[str, tuple[dict, object, str]] = {
    # field: (what is asked besides, value, what moves)
    "gpu": ({}, "h200-sxm", f"{STEP} {OWNED}"),
    "gpus": ({}, 2048, f"nodes racks {BUILT} {NETWORK} memory"),
    "platform": ({}, "dgx-h100", BILL),
    "gpus_per_node": ({}, 4, f"nodes racks power {OWNED} {NETWORK}"),
    "scale_up": ({}, "nvlink-3", NETWORK),
    "scale_up_domain": ({}, 4, NETWORK),
    "scale_up_wiring": ({}, "host", NETWORK),
    # Network
    "scale_out": ({}, "infiniband-xdr", f"racks {BUILT} {NETWORK}"),
    "topology": (TAPER, "fat-tree", f"{BILL} {NETWORK}"),
    "oversubscription": ({}, 8, f"{BUILT} all_to_all {STEP}"),  # rings of all rails enter a leaf once
    "spine_oversubscription": ({"tiers": 3, "gpus": 4096}, 4, f"racks {BUILT} all_to_all {STEP}"),
    "nics_per_node": ({}, 4, f"racks {BUILT} {NETWORK}"),
    "network_rate": ({}, 25e9, NETWORK),
    "switch": ({"scale_out": "roce-400"}, "7800r3", f"racks {BUILT}"),
    "spine_switch": ({"scale_out": "roce-400"}, "7800r3", f"racks {BUILT}"),
    "tiers": ({}, 3, f"racks {BUILT}"),
    "planes": ({"load_balancing": "hashing"}, 4, f"racks {BUILT} all_reduce sheet {STEP}"),  # an all-to-all fills all
    "spine_policy": ({}, "rail", "all_to_all"),  # rails that nothing joins
    "minimum_spines": ({}, 32, f"racks {BUILT}"),
    "nodes_per_unit": (TAPER, 16, f"racks {BUILT} all_to_all"),
    "media": ({}, "aoc", BILL),
    "management_links": ({}, 64, f"racks {BUILT}"),
    "load_balancing": ({"topology": "fat-tree"}, "hashing", NETWORK),
    "placement": (TAPER, "scattered", f"all_reduce sheet {STEP}"),
    "in_network_reduction": ({"sharding": "none"}, True, f"all_reduce sheet {STEP}"),  # gathers need none of it
    "gpudirect": ({}, False, NETWORK),
    "tuned": ({"scale_out": "roce-400"}, False, NETWORK),
    "flow_control": ({"scale_out": "roce-400"}, "none", NETWORK),
    "congestion_control": ({"scale_out": "roce-400", "flow_control": "none"}, "none", NETWORK),
    "jitter": ({}, 0.1, NETWORK),
    "slow_node": ({}, 0.1, NETWORK),
    "degraded_link": ({"link_rate_left": 0.5}, "leaf-spine", NETWORK),
    "link_rate_left": ({}, 0.5, NETWORK),
    "link_loss": ({}, 0.01, NETWORK),
    "storage_network": ({}, True, f"racks power {OWNED}"),
    "management_network": ({}, True, f"racks power {OWNED}"),
    # Model
    "model": ({}, "gpt-3-175b", JOB),
    "training_tokens": ({}, 1e12, RUN),
    "sequence_length": ({}, 4096, JOB),
    "global_batch": ({}, 1024, STEP),
    "precision": ({}, "fp8", JOB),
    "layers": (OWN, 64, JOB),
    "parameters": ({"model": "custom", "parameters": 7e9}, 8e9, JOB),
    "hidden": (OWN, 8192, JOB),
    "heads": (OWN, 64, STEP),
    "head_dim": (OWN, 64, JOB),
    "kv_heads": (OWN, 8, JOB),
    "ffn_hidden": (OWN, 8192, JOB),
    "gated": (OWN, False, JOB),
    "vocabulary": (OWN, 32000, JOB),
    "tied_embeddings": (OWN, True, STEP),  # summed between both ends of the model, of which the fullest stage has one
    "experts": (OWN | {"experts_per_token": 2, "expert_parallel": 8}, 16, JOB),
    "experts_per_token": (EXPERTS, 4, JOB),
    "expert_ffn_hidden": (EXPERTS, 8192, JOB),
    "shared_experts": (EXPERTS, 1, JOB),
    # Parallelism
    "micro_batch": ({}, 2, JOB),
    "tensor_parallel": ({}, 4, JOB),
    "pipeline_parallel": ({}, 8, JOB),
    "virtual_pipeline": ({}, 5, JOB),
    "schedule": ({}, "zero-bubble", STEP),
    "layout": ({"virtual_pipeline": 1}, "Et*18|t*20|t*20|t*22L", JOB),
    "context_parallel": ({}, 2, JOB),
    "context_exchange": ({"context_parallel": 2}, "all-to-all", STEP),
    "causal_balance": ({"context_parallel": 2}, False, STEP),
    "expert_parallel": (EXPERTS, 4, JOB),
    "expert_tensor_parallel": (EXPERTS, 2, JOB),
    "rank_order": (TAPER, "tp-cp-ep-pp-dp", STEP),
    "sequence_parallel": ({}, False, JOB),
    "sharding": ({}, "none", JOB),
    "sharding_group": ({"sharding": "parameters", "pipeline_parallel": 1}, 8, JOB),
    "recompute": ({}, "none", JOB),
    "recompute_layers": ({}, 40, JOB),
    # Software
    "stack": ({}, "fsdp-torchtitan", JOB),
    "software_date": ({}, 2023.0, STEP),
    "attention": ({}, "full", STEP),
    "attention_kernel": ({}, "unfused", JOB),
    "fused": ({}, False, STEP),
    "graphs": ({}, "none", STEP),
    "gradient_bytes": ({}, 2, JOB),
    "moment_bytes": ({}, 2, JOB),
    "overlap_tensor": ({}, False, STEP),
    "overlap_data": ({}, False, STEP),
    "overlap_pipeline": ({}, False, STEP),
    "overlap_expert": (EXPERTS, False, STEP),
    "dispatcher": (EXPERTS, "all-to-all", STEP),
    "dispatch_precision": (EXPERTS, "fp8", STEP),
    "routing": (EXPERTS, "balanced", STEP),
    "regime": (EXPERTS, "functional", STEP),
    "offload": ({}, "optimizer", JOB),
    # Collectives
    "message": ({}, 1e8, "all_reduce all_to_all"),
    "profile": ({}, "ideal", NETWORK),
    "algorithm": ({}, "tree", "all_reduce sheet"),
    "protocol": ({}, "ll", "all_reduce sheet"),
    "one_process": (SMALL, True, "all_reduce all_to_all"),
    "measured_efficiency": ({}, 0.5, NETWORK),
    "calibration": ({}, "1.4~0.05,0.97~0.01,1.1~0.12", NETWORK),
    # Operation
    "availability": ({}, 0.5, RUN),
    "failure_rate": ({}, 0, RUN),
    "checkpoint_interval": ({}, 60, RUN),
    "checkpoint_time": ({}, 600, RUN),
    "storage_bandwidth": ({}, 1e9, RUN),
    "restart_time": ({}, 36000, RUN),
    "campaign_overhead": ({}, 2, "campaign"),
    # Prices
    "price_book": ({}, "rule-of-thumb", BILL),
    "spare_nodes": ({}, 8, f"racks power train campaign rental {OWNED}"),
    "storage_capacity": ({}, 1e16, OWNED),
    "price_storage": ({"storage_capacity": 1e16}, 1e6, OWNED),
    "price_node": ({}, 1e6, OWNED),
    "nics_included": ({"price_node": 3e5}, False, BILL),
    "price_nic": ({}, 1e4, BILL),
    "price_switch": ({}, 1e5, BILL),
    "price_transceiver": ({}, 1e4, BILL),
    "price_cable": ({}, 1e3, BILL),
    "price_copper_cable": ({}, 1e3, BILL),
    "price_gpu_hour": ({}, "9 USD/h", "rental"),
    "electricity": ({}, "1 USD/kWh", "operating run"),
    "region": ({}, "germany", "operating run"),
    "pue": ({}, 2, "operating run"),
    "rack_power": ({}, "15 kW", "racks"),
    "site_power": ({}, "1 MW", ""),  # a finding says that it is not enough
    "lifetime": ({}, "3 years", "run"),
    "spares": ({}, 0.2, BILL),
    "support": ({}, 0.5, "operating run"),
    "infrastructure": ({}, 5, "capital run"),
    "catalog_version": ({}, "2020-01-01", ""),  # a finding says that the link was made with another
}


@cache
def results(asked: frozenset[tuple[str, object]]) -> dict[str, object]:
    """The typical value of each result that a row of the table can name."""
    scenario = Scenario(**dict(asked))
    plan = evaluate(scenario, CATALOG)
    fabric, costs, training = plan.fabric, plan.costs, plan.training
    last = [check for check in sheet(scenario, CATALOG).checks if check.figures][-1].figures[-1]
    bands = {
        "fabric": fabric.cost,
        "power": plan.cluster.power,
        "all_reduce": plan.all_reduce.time,
        "all_to_all": plan.all_reduce.all_to_all_time,
        "sheet": last.band,
        "step": training.step_time,
        "memory": plan.memory.total,
        "train": training.time_to_train,
        "campaign": training.campaign_time,
        "capital": costs.capital,
        "operating": costs.operating,
        "run": costs.per_run,
        "rental": costs.rental,
    }
    return {name: band.typical for name, band in bands.items()} | {
        "nodes": plan.cluster.nodes,
        "racks": plan.cluster.racks,
        "switches": (fabric.leaf_switches, fabric.spine_switches, fabric.core_switches, fabric.links),
    }


@pytest.mark.parametrize("field", REACH)
def test_a_field_moves_what_it_should_and_nothing_else(field: str):
    base, value, moves = REACH[field]
    old, new = (results(frozenset((PLAN | base | change).items())) for change in ({}, {field: value}))
    assert {name for name in old if old[name] != new[name]} == set(moves.split())


def test_every_field_of_a_scenario_has_a_row():
    served = {name for name, group in group_of(Scenario).items() if group == "serving"}  # see test_serving_reach
    assert set(REACH) == set(Scenario.model_fields) - served
