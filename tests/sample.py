"""A small plan with round numbers, for tests of what shows plans."""

from app.plan.band import Band
from app.plan.result import (
    AllReduce,
    BillLine,
    Bisection,
    Bottleneck,
    Cluster,
    CostLine,
    Costs,
    Explanation,
    Fabric,
    Finding,
    GroupTraffic,
    Links,
    Memory,
    MemoryPart,
    Parallelism,
    Plan,
    Recommendation,
    RunningCostLine,
    SlotUse,
    StepPart,
    Storage,
    Term,
    Timing,
    Training,
    WhatIf,
)


def band(typical: float, unit: str, spread: float = 0.1) -> Band:
    return Band(typical * (1 - spread), typical, typical * (1 + spread), unit, ("railyard-estimate",))


def sample_plan() -> Plan:
    parallelism = Parallelism(8, 1, 1, 1, 1, 1, 128, 1, 16, "1f1b", True, "optimizer", 128, "none")
    timings = (
        Timing("nvls-tree", "simple", band(2.0, "s"), band(7e10, "B/s"), band(1.4e11, "B/s"), 0.01, 0.99),
        Timing("ring", "simple", band(2.5, "s"), band(5.6e10, "B/s"), band(1.1e11, "B/s"), 0.02, 0.98),
        Timing("tree", "simple", band(3.0, "s"), band(4.7e10, "B/s"), band(9.3e10, "B/s"), 0.01, 0.99),
    )
    return Plan(
        model_version="0.16.0",
        catalog_version="2026-11+abc",
        scenario={"gpu": "h100-sxm", "gpus": 1024, "scale_up": "nvlink-4", "scale_out": "infiniband-ndr"},
        findings=(
            Finding("warning", "taper", "The fabric tapers 2:1 <at> the leaf.", ("oversubscription",), "Set it to 1."),
        ),
        permalink="/?gpus=1024",
        verdict="1,024 H100 train it in about 175 days.",
        cluster=Cluster(
            128, 1024, 32, band(1.3e6, "W"), 8, 8, 4, band(8.2e13, "B", 0), band(1.0e6, "W"), 26, 32, 32,
            band(4.1e4, "W"),
        ),
        fabric=Fabric(
            topology="rail-optimized",
            approximate=False,
            switch="qm9700",
            spine_switch="qm9700",
            tiers=2,
            planes=1,
            leaf_switches=32,
            spine_switches=16,
            core_switches=0,
            links=Links(1024, 1024, 0),
            bisection=(
                Bisection("scale_up", band(1.8e12, "B/s", 0), band(3.6e12, "B/s", 0), band(2.25e11, "B/s", 0)),
                Bisection("leaf", band(25.6e12, "B/s", 0), band(51.2e12, "B/s", 0), band(2.5e10, "B/s", 0)),
                Bisection("spine", band(25.6e12, "B/s", 0), band(51.2e12, "B/s", 0), band(2.5e10, "B/s", 0)),
            ),
            bisection_per_gpu=band(5e10, "B/s", 0),
            slot=(SlotUse("network", band(5e10, "B/s", 0), band(0.9, "1")),),
            ports_free={"leaf": 0, "spine": 0},
            largest_cluster=2048,
            hops=3,
            latency=band(1e-6, "s"),
            cost=band(6e6, "USD"),
            cost_per_host_port=band(5900.0, "USD"),
            cost_per_switch_port=band(1950.0, "USD"),
            cost_per_gpu=band(5900.0, "USD"),
            cost_per_bisection=band(29.0, "USD/(Gb/s)"),
            share_of_capital=0.14,  # type: ignore[arg-type]
            host_ports=1024,
            switch_ports=3072,
            power=band(83e3, "W"),
            typical_power=band(60e3, "W"),
            bill_of_materials=(
                BillLine("leaf", "=QM9700", "qm9700", 32, band(35e3, "USD"), band(1.12e6, "USD"), band(5e4, "W")),
                BillLine("nic", "ConnectX-7", "cx7", 1024, band(2100.0, "USD"), band(2.15e6, "USD"), band(2.5e4, "W")),
                BillLine("cable", "Fibre", "fibre", 2048, None, None, None),
            ),
            matches=("dgx-superpod",),
        ),
        all_reduce=AllReduce(
            1.4e11, 1024, "nvls-tree", "simple", *(timings[0].time, timings[0].algorithm_bandwidth),
            timings[0].bus_bandwidth, timings[0].time, 0.01, 0.99, timings,
            "It is the quickest.", "NCCL takes NVLS tree too.",
        ),
        training=Training(
            parallelism, 5000, 321, band(16.0, "s"), band(1.5e7, "s"),
            (
                StepPart("linear_layers", "compute", band(10.0, "s")),
                StepPart("elementwise", "memory_bandwidth", band(3.0, "s")),
                StepPart("tensor_parallel", "scale_up", band(1.5, "s")),
                StepPart("data_parallel", "scale_out", band(0.5, "s")),
                StepPart("bubble", "bubble", band(0.4, "s")),
                StepPart("launches", "overhead", band(0.6, "s")),
            ),
            (GroupTraffic("data_parallel", 32, 1, "spine", 0.0, 8e9, 4.6e10, 0.2, 0.05),),
            band(0.4, "1"), band(0.42, "1"), band(1e6, "1/s"),
            9.4e5, 0.97, 1.02, 70.6e9, 70.6e9, 4.3e11,
            (), ((16.0, 6e10), (17.0, 5e10), (20.0, 4e10)),
        ),
        memory=Memory(
            (MemoryPart("weights", band(1.8e10, "B", 0)), MemoryPart("activations", band(4e10, "B"))),
            band(6.1e10, "B"), band(8.5e10, "B", 0), band(2.4e10, "B"), True,
        ),
        storage=Storage(
            band(9.8e11, "B"), band(12.0, "s"), band(2000.0, "s"), band(8.2e10, "B/s"), band(4.9e8, "B/s"),
            band(4.8e6, "B/s"), band(1.4e14, "B"),
        ),
        bottleneck=Bottleneck(
            "compute", 0.62,
            (WhatIf("compute", 2.0, band(11.0, "s"), 0.31), WhatIf("scale_out", 2.0, band(15.7, "s"), 0.02)),
        ),
        costs=Costs(
            band(4.2e7, "USD"), band(2e6, "USD/year"), band(5e7, "USD"), band(1.4, "USD/h"), band(1.3e7, "USD"),
            band(1.5e7, "USD"),
            (CostLine("nodes", band(3.6e7, "USD")), CostLine("fabric", band(6e6, "USD"))),
            (RunningCostLine("electricity", band(1e6, "USD/year")), RunningCostLine("support", band(1e6, "USD/year"))),
            band(1e6, "USD/year"), band(4e6, "kg"), band(1.6e6, "kg"), band(1800.0, "USD"), band(4.0, "USD/(GB/s)"),
        ),
        recommendation=Recommendation("infiniband-ndr", "RoCE is 1 % slower.", "InfiniBand above 1,000.", True,
            True, "roce-400", 0.01, 0.02, 0.02, -0.01, 0.3, "Both cost the same where RoCE takes 1 % less time."),
        explanations={
            "training.step_time": Explanation("training-step", (Term("m", "micro-batches", 16.0, "1"),)),
        },
    )  # fmt: skip
