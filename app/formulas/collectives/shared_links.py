"""Collectives by the textbook on networks whose links several transfers share: rings, full meshes, tori, levels.

B is what one link carries in one direction and α what a hop over it takes. On a switch the forms of `ideal` hold as
they are; on leaves and spines those of an all-to-all and of halving-doubling at the share of the rate that
`app.formulas.fabric.placement` leaves them. All agree with a simulation, transfer by transfer, in which the transfers
of a link share it evenly (`tests/transfers.py`).
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np

from app.formulas.arrays import Array


def direct_exchange(message: Array, ranks: Array, latency: Array, bandwidth: Array) -> Array:
    """Time of an all-gather, a reduce-scatter or an all-to-all on a full mesh, every rank to all others at once.

    Each link carries one share: α + S/n/B. An all-reduce is a reduce-scatter and an all-gather, twice as long.

    Args:
        message: the gathered total, or the total each rank brings, S [B].
        ranks: ranks, n [1].
        latency: latency of a hop, α [s].
        bandwidth: what one link carries in one direction, B [B/s].

    Returns:
        Time until every rank holds all of its own [s].

    Source: Chan et al. 2007, as for :func:`ring_all_gather`, section 6 (short vectors, fully connected).

    >>> float(direct_exchange(8e9, 8, 0, 1e9))
    1.0
    """
    return latency + message / ranks / bandwidth


def mesh_halving_doubling_all_reduce(
    message: Array, ranks: Array, latency: Array, bandwidth: Array, chunks: Array
) -> Array:
    """Time of halving-doubling on a full mesh, where every step uses another link of a rank.

    In one chunk as on a switch; in many the steps overlap, and the first link, which carries half the message each way,
    is the busiest: S/B·(1 + (2(n - 1)/n - 1)/k), and 2log₂n·α.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks, a power of two, n [1].
        latency: latency of a step, α [s].
        bandwidth: what one link carries in one direction, B [B/s].
        chunks: pieces of the message, k [1].

    Returns:
        Time until every rank holds the sum [s].

    Source: Thakur, Rabenseifner, Gropp 2005, as for :func:`halving_doubling_all_reduce`; agrees with a step-by-step
    simulation.

    >>> [float(mesh_halving_doubling_all_reduce(8e9, 8, 0, 1e9, chunks)) for chunks in (1, 3)]
    [14.0, 10.0]
    """
    factor = 2 * (ranks - 1) / ranks
    return 2 * np.log2(ranks) * latency + message / bandwidth * (1 + (factor - 1) / chunks)


def ring_halving_doubling_all_reduce(
    message: Array, ranks: Array, latency: Array, bandwidth: Array, opposite: Array = 1.0
) -> Array:
    """Time of halving-doubling on a physical ring, nearest partners first: 2(n - 1)α + (log₂n - 1 + o)·S/B.

    A partner 2^i away is reached over 2^i links that as many pairs share, each with S/2^(i + 1) bytes: every step takes
    as long, S/2/B. To the rank straight across both ways are as long: o is 1 where all take the same, as fixed shortest
    paths have it, and 1/2 where half of them take the other.

    Args:
        message: bytes each rank contributes, S [B].
        ranks: ranks in the ring, a power of two of at least 4, n [1].
        latency: latency of a hop, α [s].
        bandwidth: what a link carries in one direction, B [B/s].
        opposite: load of the step to the rank straight across over that of the others, o [1].

    Returns:
        Time until every rank holds the sum [s].

    Source: Thakur, Rabenseifner, Gropp 2005, as for :func:`halving_doubling_all_reduce` (the steps).

    >>> [float(ring_halving_doubling_all_reduce(8e9, 8, 0, 1e9, opposite)) for opposite in (1.0, 0.5)]
    [24.0, 20.0]
    """
    return 2 * (ranks - 1) * latency + (np.log2(ranks) - 1 + opposite) * message / bandwidth


def torus_all_reduce(message: Array, sides: Sequence[int], latency: Array, bandwidth: Array) -> Array:
    """Time of an all-reduce on a torus in 2D rings at once: every dimension and direction takes a share of the bytes.

    A share S/2D starts in each dimension a and goes on to the next ones, its bytes divided by a each time; a phase ends
    with its slowest share: 2·Σ max((a - 1)·α + (a - 1)/a·s/B), s the bytes that the share still has. With D equal sides
    2D(a - 1)·α + 2(V - 1)/V·S/(2D·B). Without the links around the edge it takes twice as long.

    Args:
        message: bytes each rank contributes, S [B].
        sides: ranks along each dimension, three or more, a [1].
        latency: latency of a hop, α [s].
        bandwidth: what a link carries in one direction, B [B/s].

    Returns:
        Time until every rank holds the sum [s].

    Source: Jain, Sabharwal, "Optimal bucket algorithms for large MPI collectives on torus interconnects", ICS 2010.

    16 ranks in a square, four links each: 2 · 15/16 · 8 GB over 4 GB/s. Of 8 by 4 the second phase waits for the share
    that has its long side left: 2 · (7/8 + 7/8/4) · 2 GB over 1 GB/s.

    >>> float(torus_all_reduce(8e9, (4, 4), 0.0, 1e9)), float(torus_all_reduce(8e9, (8, 4), 0.0, 1e9))
    (3.75, 4.375)
    """
    dimensions = len(sides)
    orders = [(*sides[first:], *sides[:first]) for first in range(dimensions)]
    share = message / (2 * dimensions)
    phases = zip(*(ring_scatters(share, order, latency, bandwidth) for order in orders), strict=True)
    time: Array = 2 * sum(np.maximum.reduce(np.broadcast_arrays(*phase)) for phase in phases)
    return time


def torus_all_to_all(message: Array, sides: Sequence[int], latency: Array, bandwidth: Array) -> Array:
    """Time of an all-to-all on a torus, or with one side on a ring, by shortest paths: a·S/(8·B), a the longest side.

    A share goes a/4 hops in a dimension of a ranks on average ((a² - 1)/4a where a is odd), over two links of each
    rank. That is what the middle carries too. Without the links around the edge it takes twice as long.

    Args:
        message: total each rank brings for all others and itself, S [B].
        sides: ranks along each dimension, three or more, a [1].
        latency: latency of a hop, α [s].
        bandwidth: what a link carries in one direction, B [B/s].

    Returns:
        Time until every rank holds its share of every other [s].

    Source: Dally, Towles, "Principles and practices of interconnection networks", 2004, section 5.2 (torus, uniform
    traffic).

    >>> float(torus_all_to_all(8e9, (8, 4), 0.0, 1e9)), float(torus_all_to_all(9e9, (3,), 0.0, 1e9))
    (8.0, 3.0)
    """
    hops = max((side**2 - side % 2) / (8 * side) for side in sides)
    return sum(side // 2 for side in sides) * latency + hops * message / bandwidth


def ring_scatters(
    message: Array, sides: Sequence[int], latency: Array, bandwidth: Array | Sequence[Array]
) -> list[Array]:
    """Time of a reduce-scatter in each dimension after the one before, by rings: (a - 1)·α + (a - 1)/a·s/B.

    Args:
        message: bytes that each rank starts with; s is what the dimensions before leave of it [B].
        sides: ranks along each dimension, a [1].
        latency: latency of a hop, α [s].
        bandwidth: what a ring carries in one direction, in all dimensions or in each, B [B/s].

    Returns:
        Times, first dimension first [s].

    Source: Cho et al. 2019, as for :func:`hierarchical_all_reduce`.

    >>> [float(time) for time in ring_scatters(8e9, (8, 4), 0.0, 1e9)]
    [7.0, 0.75]
    """
    rates = bandwidth if isinstance(bandwidth, Sequence) else [bandwidth] * len(sides)
    held = [1, *accumulate(sides, mul)]
    return [
        (side - 1) * (latency + message / (before * side) / rate)
        for side, before, rate in zip(sides, held, rates, strict=False)
    ]


def overlapped_levels(scatters: Sequence[Array], chunks: Array) -> Array:
    """Time of an all-reduce level by level or dimension by dimension, in chunks, each level busy with one at a time.

    A chunk is scattered in level after level and gathered on the way back. While one is further out the next is in the
    levels before: max over levels i of 2Σr_j (j < i) + 2k·r_i, and no less than 2Σr. With two levels
    max(2r + k·a, 2k·r), a = 2r₂ the all-reduce between them. Three levels in two to eight chunks get in one another's
    way and take up to a fifth longer.

    Args:
        scatters: time of one chunk's reduce-scatter in each level, and of its all-gather, innermost first, r [s].
        chunks: pieces of the message, k [1].

    Returns:
        Time until every rank holds the sum [s].

    Source: Cho et al. 2019, as for :func:`hierarchical_all_reduce`, section 4 (pipelining).

    Four chunks of 1 s inside and 3 s across: the network is busy for 12 s, and waits for the first and the last.

    >>> float(overlapped_levels((1.0, 1.5), 4.0)), float(overlapped_levels((3.0, 0.5), 4.0))
    (14.0, 24.0)
    """
    before = [0.0, *accumulate(scatters)]
    busy = [2 * (waited + chunks * each) for waited, each in zip(before, scatters, strict=False)]
    time: Array = np.maximum.reduce(np.broadcast_arrays(2 * before[-1], *busy))
    return time


def overlapped_gathers(gathers: Sequence[Array], chunks: Array) -> Array:
    """Time of an all-gather or a reduce-scatter level by level, in chunks, each level busy with one at a time.

    The first chunk passes all levels, then the slowest level sets the pace: Σr + (k - 1)·max r.

    Args:
        gathers: time of one chunk in each level, r [s].
        chunks: pieces of the message, k [1].

    Returns:
        Time until every rank holds all of its own [s].

    Source: as for :func:`overlapped_levels`.

    >>> float(overlapped_gathers((1.0, 3.0), 4.0))
    13.0
    """
    each = np.broadcast_arrays(*gathers)
    time: Array = np.add.reduce(each) + (chunks - 1) * np.maximum.reduce(each)
    return time
