"""One GPU and its links, as the step model takes them."""

from collections.abc import Callable

import numpy as np

from app.arrays import Array
from app.catalog import Catalog, Estimate
from app.catalog.types import Gpu
from app.collectives import Machine
from app.plan.training.constants import architecture_group

PRECISION_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "nvfp4": 0.5}
TERA = 1e12


def peaks(gpu: Gpu, precision: str) -> tuple[Estimate, Estimate, float]:
    """16-bit peak, peak of the linear layers at a precision, and the bytes the GPU really works with.

    A GPU without hardware for the precision runs the next wider one it has.
    """
    wide = gpu.fp16 if precision == "fp16" or gpu.bf16 is None else gpu.bf16
    asked = PRECISION_BYTES[precision]
    if asked < 1 and gpu.fp4 is not None:
        return wide, gpu.fp4, 0.5
    if asked < 2 and gpu.fp8 is not None:
        return wide, gpu.fp8, 1.0
    return wide, wide, 2.0


def card(catalog: Catalog, gpu: Gpu, precision: str, read: Callable[[Estimate], Array]) -> dict[str, Array]:
    """What one GPU contributes to `training.Hardware`.

    Matrix work runs at the clock that the power limit allows. Relative to the card its architecture's constants were
    measured on, a card with w times the watts for each FLOP/s of its peak runs w^x as near to that peak, within limits.
    """
    wide, linear, _ = peaks(gpu, precision)
    usual = read(catalog.training[architecture_group(catalog, gpu, "watts")]["watts"])
    power = catalog.training["power"]
    share = read(gpu.power) / (read(wide) / TERA) / usual
    multiprocessors = gpu.multiprocessors or catalog.training["products"]["multiprocessors"].typical
    clock = np.minimum(np.power(share, read(power["exponent"])), read(power["most"]))
    return {
        "matrix_peak": read(wide),
        "linear_peak": read(linear),
        "memory_bandwidth": read(gpu.memory_bandwidth),
        "memory_capacity": read(gpu.memory),
        "multiprocessors": float(multiprocessors),
        "clock": clock,
    }


def links(machine: Machine) -> tuple[Array, Array, Array]:
    """Usable scale-up and network rate of one GPU [B/s] and, where every GPU is wired to every other, its peers [1].

    These are what collectives alone reach, from the calibrated model of collectives.
    """
    return machine.scale_up_rate, machine.scale_out_rate, machine.mesh_peers
