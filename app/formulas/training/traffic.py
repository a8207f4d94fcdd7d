"""Collectives within a step."""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, any_, maximum, where


def smooth_maximum(first: Array, second: Array) -> Array:
    """(x⁴ + y⁴)^¼: the larger of two overlapping times, a little more where they are near one another.

    >>> round(float(smooth_maximum(3.0, 0.1)), 3), round(float(smooth_maximum(1.0, 1.0)), 3)
    (3.0, 1.189)
    """
    fourth: Array = np.square(np.square(first)) + np.square(np.square(second))
    return np.sqrt(np.sqrt(fourth))


def collective(
    volume: Array,
    ranks: Array,
    local: Array,
    scale_up_bandwidth: Array,
    scale_out_bandwidth: Array,
    latency: Array,
) -> Array:
    """Time of a hierarchical reduce-scatter or all-gather of `volume` bytes over `ranks`, `local` of them in a domain.

    Inside the domain each rank moves (n-1)/n of the volume; across domains the local ranks share it, each on its own
    network rail: max(V·(n-1)/n/B_up, V/local·(D-1)/D/B_out) + α, D domains. Never one flat ring on one card.

    Args:
        volume: bytes of the whole buffer, V [B].
        ranks: n [1].
        local: ranks of the group within one scale-up domain [1].
        scale_up_bandwidth, scale_out_bandwidth: per GPU, one direction [B/s].
        latency: α [s].

    Returns:
        Time [s]; none for one rank.

    >>> float(collective(8e9, 8, 8, 1e11, 1e10, 0.0))  # 7/8 · 8 GB at 100 GB/s
    0.07
    >>> float(collective(8e9, 16, 8, 1e11, 1e9, 0.0))  # 1 GB a rail, half of it leaves the node, at 1 GB/s
    0.5
    """
    domains = maximum(ranks / local, 1)
    time = volume * (ranks - 1) / ranks / scale_up_bandwidth
    if any_(domains > 1):
        time = maximum(time, volume / local * (domains - 1) / domains / scale_out_bandwidth)
    return where(ranks > 1, time + latency, 0.0)
