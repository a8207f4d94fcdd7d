"""A million all-reduce predictions in one call: 500 sizes by 400 GPU counts by 5 generations. Under 2 s."""

from collections.abc import Iterator
from dataclasses import fields
from time import perf_counter

import numpy as np

from app import catalog as catalogue
from app import collectives
from app.plan import all_reduce

GPUS = ("v100-sxm", "a100-sxm", "h100-sxm", "b200-sxm", "rubin")
LIMIT = 2.0


def run() -> Iterator[str]:
    """Time the call, three times; the best counts on a shared machine."""
    catalog = catalogue.load()
    nodes = np.arange(1.0, 401.0)[:, None]
    machines = [all_reduce.machine(catalog, gpu=gpu, nodes=nodes, transport="infiniband") for gpu in GPUS]
    stacked = collectives.Machine(
        **{
            field.name: np.stack([np.broadcast_to(getattr(machine, field.name), nodes.shape) for machine in machines])
            for field in fields(collectives.Machine)
        }
    )
    sizes = np.geomspace(8, 64e9, 500)
    calibration = all_reduce.calibration(catalog)
    taken = []
    for _ in range(3):
        start = perf_counter()
        times = collectives.all_reduce(sizes, stacked, calibration)
        taken.append(perf_counter() - start)
    verdict = "ok" if min(taken) < LIMIT else "TOO SLOW"
    yield f"{times.size:,} predictions in {min(taken):.2f} s (worst {max(taken):.2f} s, limit {LIMIT:g} s): {verdict}"
