"""The share of time that makes progress: failures, checkpoints."""

from __future__ import annotations

import numpy as np

from app.formulas.arrays import Array, minimum

# Goodput -------------------------------------------------------------------------------------------------------------


def checkpoint_size(parameters: Array, state: Array) -> Array:
    """Bytes of a checkpoint, b·N.

    Args:
        parameters: of the model, all experts counted, N [1].
        state: bytes that one leaves behind: 2 of its weight, 4 of the 32-bit copy, 8 of Adam's two moments, b [B].

    Returns:
        Size [B].

    Source: Rajbhandari, Rasley, Ruwase, He, "ZeRO: memory optimizations toward training trillion parameter models",
    SC 2020, section 3.1: the states of mixed-precision Adam, without gradients.

    >>> checkpoint_size(405e9, 14)
    5670000000000.0
    """
    return parameters * state


def storage_capacity(data: Array, copies: Array, checkpoint: Array, kept: Array, free: Array) -> Array:
    """Bytes of storage that a run fills, (c·D + k·S)/(1 - f).

    Args:
        data: bytes of the training data, D [B].
        copies: of them, with indexes and what is shuffled anew, c [1].
        checkpoint: bytes of a checkpoint, S [B].
        kept: checkpoints that are kept, k [1].
        free: share that stays free, f [1].

    Returns:
        Usable capacity [B].

    Source: counted; the factors are Railyard's.

    >>> float(storage_capacity(60e12, 1.3, 1e12, 30, 0.2))  # (78 + 30)/0.8 TB
    135000000000000.0
    """
    return (copies * data + kept * checkpoint) / (1 - free)


def restart_time(alone: Array, spared: Array, spares: Array, wanted: Array) -> Array:
    """Time to restart where some nodes stand by, u = u₀ - min(s/w, 1)·(u₀ - u₁).

    Args:
        alone: without spare nodes, u₀ [s].
        spared: where one stands by, u₁ [s].
        spares: nodes that stand by, s [1].
        wanted: so many that one always does, w [1].

    Returns:
        Time on average [s].

    Source: that a share s/w of the failures finds a spare node is Railyard's simplification; more would while repairs
    are quick.

    >>> restart_time(600.0, 120.0, 3, 6)
    360.0
    """
    return alone - minimum(spares / wanted, 1.0) * (alone - spared)


def write_time(size: Array, bandwidth: Array, pause: Array) -> Array:
    """Time that a checkpoint stops the steps for, δ = S/W + σ.

    Args:
        size: of the checkpoint, S [B].
        bandwidth: what the storage writes, W [B/s].
        pause: what it takes however little is written: all ranks wait for one another, files are opened and closed,
            σ [s].

    Returns:
        Time [s].

    Source: S/W as in "The Llama 3 herd of models", 2024, section 3.3.1, whose 5.7 TB go to 2 TB/s; the pause is
    Railyard's.

    >>> write_time(5.6e12, 2e12, 2.0)
    4.8
    """
    return size / bandwidth + pause


def write_bandwidth(size: Array, time: Array) -> Array:
    """What the storage must write for a checkpoint to take a time, W = S/δ; behind the steps, over their interval.

    Args:
        size: of the checkpoint, S [B].
        time: that it may take, δ [s].

    Returns:
        Bandwidth [B/s].

    Source: arithmetic.

    >>> write_bandwidth(1e12, 10.0)
    100000000000.0
    """
    return size / time


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


def time_to_train(steps: Array, step_time: Array, progress: Array) -> Array:
    """Time of a run, t = n·T/A: its steps at the time of one, over the share of time that makes progress.

    Args:
        steps: that the tokens of the run fill, n [1].
        step_time: T [s].
        progress: share of time that failures and checkpoints leave, A [1].

    Returns:
        Time [s].

    Source: arithmetic.

    >>> time_to_train(1000.0, 9.0, 0.9)
    10000.0
    """
    return steps * step_time / progress


def campaign_time(time_to_train: Array, overhead: Array) -> Array:
    """Time of a whole campaign, ψ·t: what the run takes with ramp-up, evaluation, roll-backs and long-context phases.

    Args:
        time_to_train: all steps, with what failures and checkpoints take, t [s].
        overhead: calendar time over that, ψ [1].

    Returns:
        Time [s].

    Source: Railyard, from 11 campaigns that publish their hours and the rate of their steps apart: together with
    failures 1.25 times the steps (1.02 to 1.64), with no trend in size.

    >>> campaign_time(100.0, 1.5)
    150.0
    """
    return time_to_train * overhead


def goodput(failures: Array, checkpoint_time: Array, interval: Array, restart_time: Array) -> Array:
    """Share of time that makes progress, A = λ τ / (e^(λ r) (e^(λ (τ + δ)) - 1)).

    Writing a checkpoint every τ costs δ/τ; a failure loses what was done since the last one and the restart, and may
    come during either again. While losses are small this is 1 - δ/τ - λ (τ/2 + r). It is worked out as
    e^(-λ (r + τ + δ)) λ τ / (1 - e^(-λ (τ + δ))), which falls to none where failures leave no time.

    Args:
        failures: failures of the whole cluster in a second, λ; more than none [1/s].
        checkpoint_time: time that training waits for one checkpoint, δ [s].
        interval: time between checkpoints, τ [s].
        restart_time: from a failure to the first new step, r [s].

    Returns:
        Share [1].

    Source: Daly, "A higher order estimate of the optimum checkpoint interval", FGCS 22(3), 2006, eq. 13: the complete
    expected time, for failures at a constant rate.

    >>> round(float(goodput(failures=1 / 10_000, checkpoint_time=50, interval=1000, restart_time=500)), 3)
    0.859
    """
    kept = np.exp(-failures * (restart_time + interval + checkpoint_time))
    share: Array = kept * failures * interval / -np.expm1(-failures * (interval + checkpoint_time))
    return share
