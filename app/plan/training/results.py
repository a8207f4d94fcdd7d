"""The results of the step and of its memory, as draws."""

import numpy as np

from app import training
from app.catalog import Catalog, Estimate
from app.plan.bands import Draws
from app.plan.hardware import Hardware
from app.plan.training.inputs import Numbers
from app.plan.training.interruptions import goodput
from app.plan.training.parts import RESOURCES, Timing
from app.scenario import Scenario
from app.transformer import Shape

MEMORY_PART = "memory.parts."


def step_results(
    scenario: Scenario,
    hardware: Hardware,
    catalog: Catalog,
    model: Shape,
    n: Numbers,
    par: training.Parallelism | None,
    timing: Timing,
    counted: float,
    used: tuple[Estimate, ...],
    error: float,
) -> tuple[float, dict[str, Draws]]:
    """The share of time that makes progress, and every result of the step as draws.

    ``counted`` are the model FLOPs of one token.
    """
    time = timing.time[0]
    tokens = scenario.global_batch * scenario.sequence_length
    again = 0.0 if par is None else training.repeated_work(model, n.job, par, n.software)
    peak = n.hardware.linear_peak
    mfu = counted * tokens / (time * scenario.gpus * peak)
    share, kept = goodput(scenario, catalog)
    quantities = {
        "training.step_time": Draws(time, "s", used, error),
        "training.mfu": Draws(mfu, "1", used, error),
        "training.hfu": Draws(mfu * (1 + again / counted), "1", used, error),
        "training.tokens_per_second": Draws(tokens / time, "1/s", used, error),
        "training.time_to_train": Draws(scenario.training_tokens / tokens * time / share, "s", (*used, *kept), error),
        **{f"training.parts.{name}": Draws(part, "s", used, error) for name, _, part in timing.parts},
        **{
            f"bottleneck.{resource}": Draws(row, "s", used, error)
            for resource, row in zip(RESOURCES, timing.time[1:], strict=True)
        },
    }
    return float(np.ravel(share)[0]), quantities


def memory_results(
    model: Shape, n: Numbers, par: training.Parallelism | None, catalog: Catalog, used: tuple[Estimate, ...]
) -> tuple[bool | None, dict[str, Draws]]:
    """Whether the job fits, and every result of the memory as draws."""
    error = catalog.training["residual"]["memory"].typical
    capacity = np.atleast_1d(n.hardware.memory_capacity)
    if par is None:
        nothing = Draws(np.full(capacity.shape, np.nan), "B")
        return None, {
            "memory.total": nothing,
            "memory.capacity": Draws(capacity, "B", used),
            "memory.headroom": nothing,
        }
    held = vars(training.memory(model, n.job, par, n.software, n.calibration))
    total = np.atleast_1d(held["total"])
    return bool(total[0] <= capacity[0]), {
        **{
            f"{MEMORY_PART}{name}": Draws(np.atleast_1d(np.asarray(size, float)), "B", used, error)
            for name, size in held.items()
            if name != "total"
        },
        "memory.total": Draws(total, "B", used, error),
        "memory.capacity": Draws(capacity, "B", used),
        "memory.headroom": Draws(capacity - total, "B", used),
    }
