"""Kernels against the roof: operations for each byte, and what memory and arithmetic allow at that."""

from collections.abc import Iterable

from app.formulas.arrays import Array, minimum
from app.formulas.training.compute import Product


def product_flops(products: Iterable[Product]) -> Array:
    """Operations of matrix products, Σ a·2·M·N·K [FLOP].

    Source: Narayanan et al., SC21, appendix.

    >>> product_flops([(3.0, 1000, 20, 30)])
    3600000.0
    """
    return sum((2 * times * rows * columns * depth for times, rows, columns, depth in products), start=0.0)


def product_bytes(products: Iterable[Product], element: Array) -> Array:
    """Bytes that matrix products read and write at least, Σ a·b·(M·K + K·N + M·N): each matrix once [B].

    Args:
        products: a, M, N, K of each [1].
        element: bytes of an element, b [B].

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009 (compulsory traffic).

    >>> product_bytes([(1.0, 1000, 20, 30)], 2.0)  # 30,000 and 600 and 20,000 elements
    101200.0
    """
    moved = (times * (rows * depth + depth * columns + rows * columns) for times, rows, columns, depth in products)
    return element * sum(moved, start=0.0)


def attainable(intensity: Array, peak: Array, bandwidth: Array) -> Array:
    """What a kernel can reach, min(R, I·B) [FLOP/s].

    Args:
        intensity: operations for each byte, I [FLOP/B].
        peak: arithmetic, R [FLOP/s].
        bandwidth: memory, B [B/s].

    Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009.

    >>> float(attainable(100.0, 1e15, 3e12)), float(attainable(1000.0, 1e15, 3e12))
    (300000000000000.0, 1000000000000000.0)
    """
    return minimum(peak, intensity * bandwidth)
