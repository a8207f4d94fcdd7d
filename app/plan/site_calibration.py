"""A reader's own cluster: three factors on what such parts usually have, from its measured collectives."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from app.catalog.estimate import Z95, Estimate
from app.catalog.load import Catalog
from app.catalog.sampling import Sampling
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import Machine
from app.formulas.collectives.library import Calibration, choose
from app.formulas.collectives.posterior import Posterior, site_posterior

Floats = NDArray[np.float64]
NAMES = ("latency", "bandwidth", "fill")
LEAST, MOST, WIDEST = 0.05, 20.0, 2.0
"""Bounds of a factor, and of the spread of its logarithm [1]."""
_PART = re.compile(r"\s*(\d{1,3}(?:\.\d{1,6})?|\.\d{1,6})\s*~\s*(\d{1,2}(?:\.\d{1,6})?|\.\d{1,6})\s*")


class Factor(NamedTuple):
    """How many times the usual, and the standard deviation of its logarithm [1]."""

    value: float
    spread: float


@dataclass(frozen=True)
class SiteCalibration:
    """What a cluster has over what such parts usually have.

    Attributes:
        latency: of launch, hops and transport.
        bandwidth: of links and ports, after all overheads.
        fill: of the time that filling the pipeline takes.
    """

    latency: Factor
    bandwidth: Factor
    fill: Factor

    def text(self) -> str:
        """As it stands in an address: 1.42~0.05,0.97~0.01,1.1~0.12."""
        return ",".join(
            f"{factor.value:.4g}~{factor.spread:.3g}" for factor in (self.latency, self.bandwidth, self.fill)
        )

    def spoken(self) -> str:
        """In a sentence: latency 1.4, bandwidth 0.97 and fill 1.1 times the usual."""
        latency, bandwidth, fill = (f"{factor.value:.2g}" for factor in (self.latency, self.bandwidth, self.fill))
        return f"latency {latency}, bandwidth {bandwidth} and fill {fill} times the usual"


@lru_cache(maxsize=256)
def read_calibration(text: str) -> SiteCalibration:
    """The factors of a text such as 1.42~0.05,0.97~0.01,1.1~0.12; ``ValueError`` with advice if it is none.

    >>> read_calibration("1.4~0.05, 0.97~0.01, 1.1~0.12").latency
    Factor(value=1.4, spread=0.05)
    """
    parts = [_PART.fullmatch(part) for part in text.split(",")]
    if len(parts) != len(NAMES) or not all(parts):
        raise ValueError(
            "Give latency, bandwidth and fill over the usual, each with its spread: 1.4~0.05,0.97~0.01,1.1~0.12."
        )
    factors = [Factor(float(part[1]), float(part[2])) for part in parts if part]
    for name, factor in zip(NAMES, factors, strict=True):
        if not LEAST <= factor.value <= MOST:
            raise ValueError(f"The factor of {name} must lie between {LEAST:g} and {MOST:g}.")
        if factor.spread > WIDEST:
            raise ValueError(f"The spread of {name} must be at most {WIDEST:g}.")
    return SiteCalibration(*factors)


def at_site(built: Machine, calibration: SiteCalibration, sampling: Sampling) -> Machine:
    """The machine as it stands at the site; draws spread as the factors do."""
    drawn = [
        sampling(_estimate(name, factor))
        for name, factor in zip(NAMES, (calibration.latency, calibration.bandwidth, calibration.fill), strict=True)
    ]
    return scaled(built, *drawn)


@lru_cache(maxsize=256)
def _estimate(name: str, factor: Factor) -> Estimate:
    ends = np.exp(Z95 * factor.spread)
    return Estimate(
        factor.value,
        "1",
        "railyard-calibration-2026",
        low=factor.value / ends,
        high=factor.value * ends,
        key=f"site.{name}",
    )


MOST_OF_LINK, MOST_SUMMED = 0.9, 0.62
"""No protocol leaves more than this of a scale-up link to data, and to messages that its switch sums [1]."""


def scaled(built: Machine, latency: Array, bandwidth: Array, fill: Array) -> Machine:
    """The machine with its parts at so many times the usual; no link carries more than its line rate allows."""

    def within(rate: Array, most: Array) -> Array:
        return np.minimum(rate * bandwidth, np.maximum(most, rate))

    line = np.asarray(built.scale_up_line)
    summed = np.where(np.asarray(built.multicast_rate) > 0, MOST_SUMMED * line, 0.0)
    return replace(
        built,
        scale_up_rate=within(built.scale_up_rate, MOST_OF_LINK * line),
        scale_out_rate=within(built.scale_out_rate, built.scale_out_line),
        multicast_rate=within(built.multicast_rate, summed),
        one_shot_rate=within(built.one_shot_rate, MOST_OF_LINK * line),
        two_shot_rate=within(built.two_shot_rate, MOST_OF_LINK * line),
        latency_factor=latency,
        fill_factor=fill,
    )


@dataclass(frozen=True)
class Sweep:
    """Measurements of one collective on one cluster.

    Attributes:
        machine: the cluster, with what is usual.
        library: constants of the library.
        collective: one of ``COLLECTIVES``.
        algorithm, protocol: forced, or blank.
        messages: bytes as nccl-tests count them [B].
        times: measured [s].
    """

    machine: Machine
    library: Calibration
    collective: str
    algorithm: str
    protocol: str
    messages: Floats
    times: Floats

    def predicted(self, latency: Array, bandwidth: Array, fill: Array) -> Floats:
        """The times with so many times the usual, factors on the last axis [s]."""
        machine = scaled(self.machine, latency, bandwidth, fill)
        sizes = self.messages[:, None]
        chosen = choose(self.collective, sizes, machine, self.library, self.algorithm, self.protocol)
        return np.broadcast_to(np.asarray(chosen.time), (len(self.messages), np.size(latency)))


class Measurements(Protocol):
    """Measured times, and what is predicted with so many times the usual."""

    @property
    def times(self) -> Floats:
        """Measured [s]."""

    def predicted(self, latency: Array, bandwidth: Array, fill: Array) -> Floats:
        """Predicted, factors on the last axis [s]."""


def calibrate(sweeps: Sequence[Measurements], catalog: Catalog) -> tuple[SiteCalibration, Posterior]:
    """The three factors that measurements make likely, about what is usual."""
    table = catalog.collectives["site"]
    prior = np.array([table[name].typical for name in NAMES])
    measured = np.log(np.concatenate([sweep.times for sweep in sweeps]))

    def log_times(theta: Floats) -> Floats:
        factors = np.exp(np.clip(theta, np.log(LEAST) + 0.01, np.log(MOST) - 0.01))
        logs: Floats = np.log(np.concatenate([sweep.predicted(*factors) for sweep in sweeps]))
        return logs

    posterior = site_posterior(log_times, measured, prior, table["scatter"].typical)
    values = np.exp(np.clip(posterior.mean, np.log(LEAST) + 0.01, np.log(MOST) - 0.01))
    return SiteCalibration(*map(Factor, values.tolist(), posterior.spread.tolist())), posterior
