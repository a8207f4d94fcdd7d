"""The tail: what the slowest of many nodes, one bad link or one slow node cost everybody.

Collectives and steps end when their last rank does. So one model serves both: all wait for the slowest of n nodes whose
times spread about a mean, or for one node that is slower than chance has it, whichever is later; and a link that
carries less than the others paces the groups that use it. Two bad ones are the worse of the two, not their product.

Sources: Dean, Barroso, "The tail at scale", Commun. ACM 56(2), 2013 (who waits for many waits for the slowest);
Blom, "Statistical estimates and transformed beta-variables", 1958, pp. 68-75 (the largest of n normal deviates).
"""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, maximum, minimum, where

NODE = 8
"""GPUs that are taken to be delayed together, whatever the scale-up domain: what one host drives."""


def slowest_of(count: Array) -> Array:
    """Standard deviations by which the slowest of n lies above their mean, Φ⁻¹((n - 0.375)/(n + 0.25)).

    Args:
        count: how many there are, n [1].

    Returns:
        Deviations, 0 for one alone [1].

    Source: Blom 1958 (within 0.02 of the integral from n = 9 on); Φ⁻¹ after Abramowitz, Stegun, "Handbook of
    mathematical functions", 26.2.23 (within 0.00045).

    8, 128 and 2,048 nodes; simulated: 1.42, 2.62 and 3.44.

    >>> [round(float(slowest_of(nodes)), 2) for nodes in (1, 8, 128, 2048)]
    [0.0, 1.43, 2.59, 3.43]
    """
    beyond = minimum(0.625 / (maximum(count, 1.0) + 0.25), 0.5)
    t = np.sqrt(-2 * np.log(beyond))
    deviate = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    return where(count > 1, deviate, 0.0)


def deviations(ranks: Array) -> Array:
    """Standard deviations by which the slowest node lies above their mean, Z(n); each 8 GPUs are one of the n [1].

    Args:
        ranks: GPUs [1].

    Source: :func:`slowest_of`.

    >>> round(float(deviations(1024.0)), 2), float(deviations(8.0))
    (2.59, 0.0)
    """
    return slowest_of(maximum(ranks / NODE, 1.0))


def wait(spread: Array, ranks: Array, slow: Array) -> Array:
    """What everybody waits for the slowest, max(ς·Z(n), ε).

    Args:
        spread: standard deviation of a node's time, ς [s], or over its mean [1].
        ranks: GPUs; each 8 of them are one of the n that spread [1].
        slow: by how much one node is slower than the mean, ε, in the unit of the spread; 0 where none is.

    Returns:
        The wait, in the unit of the spread.

    1 % of spread on 128 nodes; with one node that is 10 % slower, that node rules:

    >>> round(float(wait(0.01, 1024.0, 0.0)), 4), float(wait(0.01, 1024.0, 0.1))
    (0.0259, 0.1)
    """
    return maximum(spread * deviations(ranks), slow)


def collective_wait(usual: Array, spread: Array, ranks: Array, slow: Array) -> Array:
    """Time of a collective over that among nodes as they usually spread, (1 + w)/(1 + w₀).

    What was fitted to measured collectives contains the usual wait w₀.

    Args:
        usual: relative spread of a node's time as usual, ς₀ [1].
        spread: the spread asked for, ς [1].
        ranks: GPUs [1].
        slow: by how much one node is slower, ε [1].

    Returns:
        Factor on the time [1].

    Source: w is :func:`wait`.

    1.4 instead of 0.6 % on 128 nodes: 1.0363/1.0156.

    >>> round(float(collective_wait(0.006, 0.014, 1024.0, 0.0)), 4), float(collective_wait(0.01, 0.01, 1024.0, 0.0))
    (1.0204, 1.0)
    """
    return (1 + wait(spread, ranks, slow)) / (1 + wait(usual, ranks, 0.0))


def links_left(links: Array, left: Array) -> Array:
    """Share that k links shared packet by packet carry when one of them has a share f of its rate left, (k - 1 + f)/k.

    Args:
        links: how many there are, k [1].
        left: share of its rate that one has left, f [1].

    Returns:
        Share [1].

    Source: arXiv:2605.21187 (planes and uplinks lost one by one: bandwidth in proportion to what is left).

    >>> links_left(32.0, 0.5), links_left(1.0, 0.5)
    (0.984375, 0.5)
    """
    return 1 - (1 - left) / links


def resent_share(loss: Array, window: Array) -> Array:
    """Share of a link's rate that arrives once where a lost packet and all behind it are sent again.

    (1 - p)/(1 - p + p·W): go-back-N, as adapters of InfiniBand and RoCE do. W is 1 where the lost packet alone is.

    Args:
        loss: share of packets that are lost, p [1].
        window: packets under way when the sender hears of it, W [1].

    Returns:
        Share [1]. Time-outs, where the last packet of a message is lost, come on top.

    Source: Bertsekas, Gallager, "Data networks", 2nd ed. 1992, section 2.4; that RDMA adapters do so: Mittal et al.,
    "Revisiting network support for RDMA", SIGCOMM 2018.

    One packet in 10,000, then one in 100, with 500 under way; one in 100 sent again alone:

    >>> round(resent_share(1e-4, 500.0), 3), round(resent_share(0.01, 500.0), 3), resent_share(0.01, 1.0)
    (0.952, 0.165, 0.99)
    """
    return (1 - loss) / (1 - loss + loss * window)


def tcp_rate(loss: Array, segment: Array, round_trip: Array, timeout: Array) -> Array:
    """What one TCP connection sends over a path that loses packets.

    MSS/(R·√(2p/3) + T₀·min(1, 3√(3p/8))·p·(1 + 32p²)).

    Args:
        loss: share of packets that are lost, p [1].
        segment: bytes of a packet, MSS [B].
        round_trip: time until an acknowledgement, R [s].
        timeout: until a packet without one is sent again, T₀ [s].

    Returns:
        Rate, endless without loss [B/s].

    Source: Padhye, Firoiu, Towsley, Kurose, "Modeling TCP throughput", SIGCOMM 1998, equation 30 with every packet
    acknowledged.

    One in 100 of 1,000 bytes, with 0.1 s: 0.1·0.0816 s each; and time-outs of 1 s: 0.1837·0.01·1.0032 s more.

    >>> round(tcp_rate(0.01, 1000.0, 0.1, 0.0)), round(tcp_rate(0.01, 1000.0, 0.1, 1.0))
    (122474, 99920)
    """
    p = maximum(loss, 1e-12)
    stalls = minimum(1.0, 3 * np.sqrt(3 * p / 8)) * p * (1 + 32 * p**2)
    rate: Array = segment / (round_trip * np.sqrt(2 * p / 3) + timeout * stalls)
    return where(loss > 0, rate, np.inf)
