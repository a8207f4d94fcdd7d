"""The share of time that makes progress: failures, checkpoints."""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, where

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
