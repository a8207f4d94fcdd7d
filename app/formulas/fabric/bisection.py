"""The least capacity between two halves of a node or a rack."""

from __future__ import annotations

from app.formulas.arrays import Array


def scale_up_bisection(gpus: Array, bandwidth: Array) -> Array:
    """Bisection of a switched scale-up domain, one way: half its GPUs send at full rate, g/2 · B [B/s].

    Args:
        gpus: GPUs in the domain, g [1].
        bandwidth: of one GPU in one direction, B [B/s].

    Source: NVIDIA quotes both directions: HGX H100 with 8 GPUs of 900 GB/s both ways has 3.6 TB/s, so 1.8 TB/s one way.

    >>> float(scale_up_bisection(8, 450e9))
    1800000000000.0
    """
    return gpus // 2 * bandwidth


def mesh_bisection(members: Array, bandwidth: Array) -> Array:
    """Bisection of a full mesh, one way: each of one half has a link to each of the other [B/s].

    Args:
        members: GPUs (or switches) in the mesh [1].
        bandwidth: of one link in one direction [B/s].

    Source: 8 MI300X with 64 GB/s a link: 4 · 4 links, 1.02 TB/s.

    >>> float(mesh_bisection(8, 64e9))
    1024000000000.0
    """
    return members // 2 * (members - members // 2) * bandwidth
