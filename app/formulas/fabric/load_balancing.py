"""What flows that are pinned to links leave: the fullest of a leaf's uplinks.

A switch that hashes puts each flow on one of its uplinks, whatever the others carry. A GPU's traffic is a few flows of
equal rate, so some uplinks get several while others stay empty, and a collective waits for the fullest. A switch that
looks at its queues for every packet, or an adapter that sprays packets, keeps them even.

Sources: Raab, Steger, "Balls into bins", RANDOM 1998 (the fullest of many); Geoffray, Hoefler, "Adaptive routing
strategies for modern high performance networks", HOTI 2008, and Gangidi et al., "RDMA over Ethernet for distributed AI
training at Meta scale", SIGCOMM 2024 (what hashing leaves in practice). The formula agrees with a simulation of flows
within 2 %, within 6 % for eight uplinks of one leaf.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from app.formulas.arrays import Array, maximum, minimum

Floats = NDArray[np.float64]
MOST_FLOWS = 2**16
"""Flows of a leaf up to which the fullest uplink is summed out; beyond, its excess grows with their square root."""
SPREAD = 12.0
"""Standard deviations from the mean beyond which no uplink is looked for."""


def fullest_link(flows: int, uplinks: int, leaves: float) -> float:
    """Flows on the fullest uplink of some leaves, Σ_j (1 - F(j)^(K·u)).

    F is the binomial distribution of N flows, each on one of u uplinks.

    Args:
        flows: flows of a leaf that leave it, N [1].
        uplinks: links up of a leaf, u [1].
        leaves: leaves among which the fullest is looked for, K [1].

    Returns:
        Flows, on average [1].

    Two flows on two links are on the same one half of the time: 1.5. Links taken one by one, the formula has 1.375.

    >>> fullest_link(2, 2, 1.0), round(fullest_link(32, 32, 8.0), 2)
    (1.375, 4.64)
    """
    if uplinks <= 1 or flows < 1:
        return float(max(flows, 0))
    first, at_most = _flows_of_a_link(flows, uplinks)
    return float(first - np.expm1(leaves * uplinks * at_most).sum())


@lru_cache(maxsize=1024)
def _flows_of_a_link(flows: int, uplinks: int) -> tuple[int, Floats]:
    """A number of flows that every uplink has, and the logarithm of the chance that one has no more than that, and than
    each number that follows, ln P(X ≤ j) [1]. Kept: whatever the number of leaves.
    """
    chance = 1 / uplinks
    mean, deviation = flows * chance, np.sqrt(flows * chance * (1 - chance))
    first = max(int(mean - SPREAD * deviation) - 1, 0)
    last = min(int(mean + SPREAD * deviation) + 20, flows)
    counts = np.arange(first, last + 1)
    factorial = _log_factorials()
    log_chance = factorial[flows] - factorial[counts] - factorial[flows - counts]
    log_chance = log_chance + counts * np.log(chance) + (flows - counts) * np.log1p(-chance)
    probability = np.exp(log_chance)
    beyond = np.minimum(np.append(np.cumsum(probability[::-1])[::-1][1:], 0.0), 1.0)
    with np.errstate(divide="ignore"):
        return first, np.log1p(-beyond)


@lru_cache(maxsize=1)
def _log_factorials() -> Floats:
    """Logarithms of the factorials of 0 to `MOST_FLOWS`. Kept: half a megabyte, made once."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, MOST_FLOWS + 1)))))


@lru_cache(maxsize=256)
def _table(uplinks: int, leaves: float) -> tuple[Floats, Floats]:
    """Numbers of flows, and how many the fullest uplink has of each. Kept: it takes 10 ms."""
    few = np.arange(1, 33)
    many = np.unique(np.geomspace(36, MOST_FLOWS, 28).astype(int))
    flows = np.concatenate((few, many))
    fullest = np.array([fullest_link(int(count), uplinks, leaves) for count in flows])
    return flows.astype(float), fullest


def hashed_share(senders: Array, flows: Array, uplinks: int, leaves: float) -> Array:
    """Share of its rate that a GPU is left with on the fullest uplink, η = min(1, q/E[max]).

    The number of leaves, which matters by its logarithm, is taken as the nearest power of two.

    Args:
        senders: GPUs below a leaf that send out of it at once, h [1].
        flows: flows of each, q [1].
        uplinks: links up of a leaf, each as fast as a GPU's port, u [1].
        leaves: leaves among which the fullest uplink is looked for, K [1].

    Returns:
        Share [1]; N = q·h flows leave a leaf.

    32 of 32 hosts with one flow each have 0.22 left, with 16 flows each 0.57; one alone has all.

    >>> [round(float(hashed_share(h, q, 32, 8.0)), 2) for h, q in ((32.0, 1.0), (32.0, 16.0), (1.0, 1.0))]
    [0.22, 0.57, 1.0]
    """
    leaving = maximum(flows * senders, 1.0)
    counts, fullest = _table(uplinks, 2.0 ** round(np.log2(max(leaves, 1.0))))
    carried: Array = np.interp(leaving, counts, fullest)
    beyond = maximum(leaving / MOST_FLOWS, 1.0)
    excess = fullest[-1] - MOST_FLOWS / uplinks
    carried = carried + (leaving - minimum(leaving, MOST_FLOWS)) / uplinks + excess * (np.sqrt(beyond) - 1)
    return minimum(flows / carried, 1.0)
