"""A million all-reduce predictions in one call: 500 sizes by 400 GPU counts by 5 generations. Under 2 s."""

from collections.abc import Iterator
from dataclasses import fields
from time import perf_counter

import numpy as np

from app.catalog.load import load_catalog
from app.catalog.sampling import TYPICAL
from app.formulas.collectives import ideal, library
from app.plan import communication, machine
from app.plan.scenario import Scenario

GPUS = ("v100-sxm", "a100-sxm", "h100-sxm", "b200-sxm", "rubin")
LIMIT = 2.0


def run() -> Iterator[str]:
    """Time the call, three times; the best counts on a shared machine."""
    catalog = load_catalog()
    nodes = np.arange(1.0, 401.0)[:, None]
    systems = [communication.of_scenario(Scenario(gpu=gpu, gpus=8), catalog).system for gpu in GPUS]
    machines = [machine.machine(system, nodes, TYPICAL, catalog) for system in systems]
    stacked = ideal.Machine(
        **{
            field.name: np.stack([np.broadcast_to(getattr(machine, field.name), nodes.shape) for machine in machines])
            for field in fields(ideal.Machine)
        }
    )
    sizes = np.geomspace(8, 64e9, 500)
    calibration = machine.calibration(catalog)
    taken = []
    for _ in range(3):
        start = perf_counter()
        times = library.choose("all-reduce", sizes, stacked, calibration).time
        taken.append(perf_counter() - start)
    verdict = "ok" if min(taken) < LIMIT else "TOO SLOW"
    yield f"{times.size:,} predictions in {min(taken):.2f} s (worst {max(taken):.2f} s, limit {LIMIT:g} s): {verdict}"
