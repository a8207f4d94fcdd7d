"""Sweeps: rows a second on one core, by what varies; whether their cost is linear in points and their memory flat."""

import gc
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.catalog.load import Catalog, load_catalog
from app.studies.sweep import Grid, sweep

GIVEN: Mapping[str, Any] = {
    "tensor_parallel": 8, "pipeline_parallel": 4, "virtual_pipeline": 1, "context_parallel": 1, "expert_parallel": 1,
    "micro_batch": 1, "sequence_parallel": True, "sharding": "optimizer", "recompute": "none", "global_batch": 2048,
}  # fmt: skip
FEW = {name: GIVEN[name] for name in ("tensor_parallel", "pipeline_parallel", "micro_batch", "sharding", "recompute")}
CENT = 1e-2 / 3.6e6
BATCHES = [64 * number for number in range(4, 104)]
NETWORKS = ["infiniband-ndr", "infiniband-xdr", "roce-400", "spectrum-x-400"]
CASES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Sequence[Any]]]] = {
    "prices, searched once": ({}, {"price_node": range(200_000, 200_100), "electricity": [2 * CENT, 9 * CENT]}),
    "prices before hardware, given": (
        GIVEN,
        {"electricity": [CENT * n / 100 for n in range(5_000)], "gpus": [1024, 2048]},
    ),
    "batches, lengths, tokens, failures, given": (
        GIVEN,
        {
            "global_batch": BATCHES,
            "sequence_length": [2048, 4096, 8192, 16384],
            "training_tokens": [1e12, 2e12, 4e12, 8e12, 15e12],
            "failure_rate": [1e-9 * number for number in range(1, 11)],
        },
    ),
    "degrees, given": (
        GIVEN,
        {
            "tensor_parallel": [1, 2, 4, 8],
            "pipeline_parallel": [1, 2, 4, 8],
            "micro_batch": [1, 2, 4, 8],
            "global_batch": BATCHES,
        },
    ),
    "chunks, context and experts open": (FEW, {"global_batch": BATCHES, "sequence_length": [2048, 4096, 8192, 16384]}),
    "hardware, jobs and prices, given": (
        GIVEN,
        {"gpus": [512, 1024], "scale_out": NETWORKS, "global_batch": BATCHES, "price_node": range(200_000, 200_025)},
    ),
    "hardware, jobs and prices, searched": (
        {},
        {"scale_out": NETWORKS, "global_batch": [1024, 2048], "price_node": range(200_000, 200_025), "pue": [1.1, 1.3]},
    ),
    "spread of nodes, given": (GIVEN, {"jitter": [number / 1000 for number in range(100)]}),
    "networks and tapers, given": (
        GIVEN,
        {"scale_out": NETWORKS, "oversubscription": [1 + n / 125 for n in range(250)]},
    ),
    "numbers of GPUs, given": (GIVEN, {"gpus": range(512, 512 + 32 * 1000, 32)}),
    "batches, searched": ({}, {"global_batch": BATCHES}),
    "numbers of GPUs, searched": ({}, {"gpus": range(512, 512 + 32 * 50, 32)}),
}
POINTS = 25_000, 100_000


def run() -> Iterator[str]:
    """Time each sweep, once what all of them share was worked out, which the collector leaves alone as in a server."""
    catalog = load_catalog()
    _rows({}, {"gpus": [1024]}, catalog)
    gc.freeze()
    for name, (base, grid) in CASES.items():
        rows, seconds = _rows(base, grid, catalog)
        yield f"{name}: {rows / seconds:,.0f} rows a second ({rows:,} rows)"
    taken, begin = [], _memory()
    for points in POINTS:
        nodes = [200_000 + number for number in range(points // 100)]
        rows, seconds = _rows(GIVEN, {"price_node": nodes, "electricity": [CENT * n / 10 for n in range(100)]}, catalog)
        taken.append(seconds)
        yield f"{rows:,} points of prices: {seconds:.1f} s; at most {_memory() - begin:.0f} MB more than before"
    ratio = taken[1] / taken[0] / (POINTS[1] / POINTS[0])
    yield f"a point of {POINTS[1]:,} takes {ratio:.2f} times as long as one of {POINTS[0]:,}"


def _rows(base: Mapping[str, Any], grid: Mapping[str, Sequence[Any]], catalog: Catalog) -> tuple[int, float]:
    """How many rows a sweep has, and the processor time that they take [s]."""
    asked = Grid(base=dict(base), grid={name: list(values) for name, values in grid.items()})
    begin = time.process_time()
    rows = sum(1 for _ in sweep(asked, catalog))
    return rows, time.process_time() - begin


def _memory() -> float:
    """The most memory of the process until now [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
