"""Robust least squares over logarithms of constants with priors: what a calibration minimises, and how."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def robust_fit(
    residuals: Callable[[Floats], Floats],
    prior: tuple[Floats, Floats],
    weight: Floats,
    sigma: float,
    start: Floats,
    steps: int,
    damping: float = 1e-3,
    enough: float = 1e-3,
) -> Floats:
    """The logarithms that fit best, by Levenberg and Marquardt: quadratic within twice ``sigma``, linear beyond.

    More arguments than most functions have: training and serving begin and end their searches differently.

    Args:
        residuals: of a vector of logarithms, or of several along leading axes.
        prior: centre and relative spread of each constant.
        weight: of each residual; those of weight zero are left out.
        sigma: scatter of measurements about a good model, on the logarithm.
        start: where to begin.
        steps: most steps to take.
        damping: of the first step: the curvature of each constant alone, as a share of it.
        enough: gain of a step below which it is the last.
    """
    centre, spread = prior
    kept = weight > 0
    weight = weight[kept]

    def loss(logs: Floats, residual: Floats) -> float:
        robust = 8 * weight * (np.sqrt(1 + (residual / (2 * sigma)) ** 2) - 1)
        return float(robust.sum() + (((logs - centre) / spread) ** 2).sum())

    x, nudge = start.copy(), 1e-4
    for _ in range(steps):
        base = residuals(np.concatenate([x[None], x + nudge * np.eye(len(x))]))[..., kept]
        error, slope = base[0], ((base[1:] - base[0]) / nudge).T
        pull = weight / np.sqrt(1 + (error / (2 * sigma)) ** 2) / sigma**2
        curvature = slope.T @ (pull[:, None] * slope) + np.diag(spread**-2.0)
        gradient = slope.T @ (pull * error) + (x - centre) / spread**2
        before, gained = loss(x, error), 0.0
        while damping < 1e6 and gained <= 0:
            move = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
            trial = x - np.clip(move, -0.5, 0.5)
            gained = before - loss(trial, residuals(trial[None])[0, kept])
            damping = damping / 10 if gained > 0 else damping * 10
        if gained > 0:
            x = trial
        if gained < enough:
            break
    return x
