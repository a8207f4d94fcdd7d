"""The share of time that makes progress: stragglers, failures, checkpoints."""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, where

# ---------------------------------------------------------------------------------------------------------------------
# Stragglers
# ---------------------------------------------------------------------------------------------------------------------


def straggler_slowdown(jitter: Array, links: Array) -> Array:
    """Expected slow-down of a synchronous step by the slowest of many links.

    Every rank waits for the last link. With delays that are independent and exponential, of mean σ as a share of the
    undisturbed time, the largest of m has mean σ·H_m, H_m = 1 + 1/2 + … + 1/m ≈ ln m + γ + 1/(2m) - 1/(12m²) (the
    Gumbel limit adds ln m + γ). So the step takes 1 + σ·H_m times as long.

    Args:
        jitter: mean extra delay of one link over the undisturbed time, σ [1].
        links: links that must all finish, m [1].

    Returns:
        Expected time over undisturbed time [1].

    Source: David, Nagaraja, "Order Statistics", 3rd ed., Wiley 2003, section 2.5 and chapter 10; for the effect on
    clusters Petrini, Kerbyson, Pakin, "The case of the missing supercomputer performance", SC 2003.
    doi:10.1145/1048935.1050204

    >>> round(float(straggler_slowdown(jitter=0.01, links=1)), 4)  # one link: its mean
    1.01
    >>> round(float(straggler_slowdown(jitter=0.01, links=4)), 5)  # 1 + 1/2 + 1/3 + 1/4 = 2.0833
    1.02083
    """
    m = np.maximum(np.asarray(links, float), 1.0)
    euler = 0.5772156649015329
    tail = np.log(m) + euler + 1 / (2 * m) - 1 / (12 * m**2) + 1 / (120 * m**4) - 1 / (252 * m**6)
    exact = np.where(m < 2, 1.0, np.where(m < 3, 1.5, tail))
    return 1 + jitter * exact


# Goodput -------------------------------------------------------------------------------------------------------------


def checkpoint_interval(failures: Array, checkpoint_time: Array) -> Array:
    """Time between checkpoints that loses least, τ = √(2 δ/λ).

    Args:
        failures: failures of the whole cluster in a second, λ [1/s].
        checkpoint_time: time that training waits for one checkpoint, δ [s].

    Returns:
        Time between checkpoints, τ [s].

    Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974, p. 530.

    >>> float(checkpoint_interval(failures=1 / 10_000, checkpoint_time=50))
    1000.0
    """
    return np.sqrt(2 * checkpoint_time / failures)


def goodput(failures: Array, checkpoint_time: Array, interval: Array, restart_time: Array) -> Array:
    """Share of time that makes progress, A = 1 - δ/τ - λ·(τ/2 + r).

    Writing a checkpoint every τ costs δ/τ; each failure loses half an interval and the restart. First order: valid
    while the losses are small; none or less is "not a number".

    Args:
        failures: failures of the whole cluster in a second, λ [1/s].
        checkpoint_time: time that training waits for one checkpoint, δ [s].
        interval: time between checkpoints, τ [s].
        restart_time: from a failure to the first new step, r [s].

    Returns:
        Share [1].

    Source: Young, 1974; Daly, "A higher order estimate of the optimum checkpoint interval", FGCS 22(3), 2006.

    >>> round(float(goodput(failures=1 / 10_000, checkpoint_time=50, interval=1000, restart_time=500)), 3)
    0.85
    """
    share = 1 - checkpoint_time / interval - failures * (interval / 2 + restart_time)
    return where(share > 0, share, np.nan)
