"""What a site's own measurements say of three factors: a robust posterior about what such parts usually have."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP = 1e-4
ROUNDS = 30
TAIL = 2.4
"""Where Cauchy's weight halves, in standard deviations: 95 % as efficient as least squares on normal errors."""


@dataclass(frozen=True)
class Posterior:
    """Logarithms of the factors.

    Attributes:
        mean: of each factor's logarithm [1].
        spread: standard deviation of each [1].
        scatter: standard deviation of the measurements about the model with these factors, on the logarithm [1].
    """

    mean: Floats
    spread: Floats
    scatter: float


def site_posterior(log_times: Callable[[Floats], Floats], measured: Floats, prior: Floats, least: float) -> Posterior:
    """Factors on the parts of a model that measurements make likely.

    Minimises Σ ρ((log T(θ) - log t)/σ) + Σ (θ/s)²/2 with Cauchy's ρ by Gauss-Newton steps of reweighted least squares;
    σ is the median absolute deviation of what is left, and no less than ``least``. So an outlier counts for little, a
    few rows move little, and many leave no more doubt than their scatter.

    Args:
        log_times: logarithm of the predicted times, a row each, for columns of θ, a factor's logarithm each [1].
        measured: logarithm of the measured times [1].
        prior: standard deviation of each θ before any measurement, s [1].
        least: scatter that the best of sweeps still has, as repeated runs do [1].

    Source: Holland, Welsch, "Robust regression using iteratively reweighted least-squares", Communications in
    Statistics 6(9), 1977, pp. 813-827. doi:10.1080/03610927708827533

    Nine times that are twice the prediction, known to 2 %, leave little of a prior of 25 %:

    >>> found = site_posterior(lambda theta: np.repeat(theta, 9, axis=0), np.full(9, np.log(2)), np.array([0.25]), 0.02)
    >>> round(float(np.exp(found.mean[0])), 2), float(found.spread[0]) < 0.01
    (2.0, True)
    """
    count = prior.size
    theta, scatter = np.zeros(count), max(least, float(np.median(prior)))
    normal = np.diag(1 / prior**2)
    for _ in range(ROUNDS):
        columns = theta[:, None] + STEP * np.hstack([np.zeros((count, 1)), np.eye(count)])
        predicted = log_times(columns)
        off = measured - predicted[:, 0]
        slopes = (predicted[:, 1:] - predicted[:, :1]) / STEP
        scatter = max(least, 1.4826 * float(np.median(np.abs(off)))) if off.size > count else scatter
        weight = 1 / (1 + (off / (TAIL * scatter)) ** 2) / scatter**2
        normal = slopes.T @ (weight[:, None] * slopes) + np.diag(1 / prior**2)
        move = np.linalg.solve(normal, slopes.T @ (weight * off) - theta / prior**2)
        theta = theta + np.clip(move, -0.5, 0.5)
        if float(np.max(np.abs(move))) < STEP:
            break
    spread = np.sqrt(np.diag(np.linalg.inv(normal)))
    return Posterior(theta, spread, scatter)
