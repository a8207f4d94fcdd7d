"""All-reduces by the kernels that serving engines and recorded steps keep in CUDA graphs, inside one scale-up domain.

Every GPU reads what the others have, all of it in one shot, or a share of it in two; nothing is launched. Such a call
takes a latency and its bytes, without the fill of a pipeline.
"""

from typing import NamedTuple

import numpy as np

from app.formulas.arrays import Array, minimum, where


class GraphKernels(NamedTuple):
    """What the kernels reach on one link.

    Attributes:
        latency: time of the smallest all-reduce of two GPUs, λ [s].
        doubling: what each doubling of the group adds, μ [s].
        one_shot: rate of one GPU's link in one shot, B₁ [B/s].
        two_shot: the same in two shots, B₂ [B/s].
        two_shot_latency: what the second shot adds, λ₂ [s].
    """

    latency: Array
    doubling: Array
    one_shot: Array
    two_shot: Array
    two_shot_latency: Array


class Kernel(NamedTuple):
    """One kernel on a group of GPUs.

    Attributes:
        latency: however few the bytes [s].
        byte_time: of each byte of the message [s/B].
    """

    latency: Array
    byte_time: Array


def one_shot(ranks: Array, kernels: GraphKernels) -> Kernel:
    """Latency and time of a byte where every GPU reads all that the others have: λ + μ·log₂ t, (t - 1)/B₁.

    Args:
        ranks: GPUs, t [1].
        kernels: what they reach.

    Returns:
        Latency [s], and time of each byte of the message [s/B].

    Source: NVIDIA, TensorRT-LLM, custom all-reduce kernels; constants fitted to published timings of these kernels.

    >>> kernel = one_shot(8.0, GraphKernels(0.0, 1.0, 7.0, 7.0, 0.0))  # three doublings, seven others at 7 B/s
    >>> float(kernel.latency), kernel.byte_time
    (3.0, 1.0)
    """
    return Kernel(_start(ranks, kernels), (ranks - 1) / kernels.one_shot)


def two_shot(ranks: Array, kernels: GraphKernels) -> Kernel:
    """The same where each sums a share and then reads the other sums: λ₂ more, 2·(t - 1)/t/B₂.

    Args:
        ranks: GPUs, t [1].
        kernels: what they reach.

    Returns:
        Latency [s], and time of each byte of the message [s/B].

    Source: as for :func:`one_shot`.

    >>> kernel = two_shot(8.0, GraphKernels(0.0, 1.0, 7.0, 7.0, 1.0))  # a second more, 14 eighths at 7 B/s
    >>> float(kernel.latency), kernel.byte_time
    (4.0, 0.25)
    """
    return Kernel(_start(ranks, kernels) + kernels.two_shot_latency, 2 * (ranks - 1) / ranks / kernels.two_shot)


def _start(ranks: Array, kernels: GraphKernels) -> Array:
    """What any of them takes, however few bytes [s]."""
    start: Array = kernels.latency + kernels.doubling * np.log2(ranks)
    return start


def graph_all_reduce(message: Array, ranks: Array, kernels: GraphKernels) -> Array:
    """Time of an all-reduce inside a graph, in one shot or in two.

    λ + μ·log₂ t + min{(t - 1)·S/B₁, λ₂ + 2·(t - 1)/t·S/B₂}.

    Args:
        message: bytes on each GPU, S [B].
        ranks: GPUs, t [1].
        kernels: what they reach.

    Returns:
        Time; nothing for one GPU [s].

    Source: as for :func:`one_shot`.

    >>> float(graph_all_reduce(1e8, 8.0, GraphKernels(0.0, 0.0, 1e11, 1e11, 0.0)))  # 2·7/8·100 MB at 100 GB/s
    0.00175
    """
    ways = [
        kernel.latency + message * kernel.byte_time for kernel in (one_shot(ranks, kernels), two_shot(ranks, kernels))
    ]
    return where(ranks > 1, minimum(*ways), 0.0)
