"""What to take of the catalogue's estimates: typical values, draws, or what a fit tries in their place."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.catalog.estimate import Estimate
from app.formulas.arrays import Array


@dataclass(frozen=True, eq=False)
class Sampling:
    """A way to turn estimates into numbers.

    Attributes:
        drawn: take the draws, the typical value first, on the last axis; else the typical value alone.
        fitted: values in place of the catalogue's, by the estimate's key; draws keep their relative spread about them.
    """

    drawn: bool = False
    fitted: Mapping[str, Array] = field(default_factory=dict)

    def __call__(self, estimate: Estimate) -> Array:
        """The estimate's numbers, in its own unit."""
        value = self.fitted.get(estimate.key) if self.fitted else None
        if value is None:
            return estimate.draws() if self.drawn else estimate.typical
        return estimate.draws() * (value / estimate.typical) if self.drawn else value


TYPICAL, DRAWS = Sampling(), Sampling(drawn=True)


class Sampled:
    """Constants by group and name as a sampling takes them; ``used`` keeps what was taken."""

    def __init__(self, constants: Mapping[str, Mapping[str, Estimate]], sampling: Sampling) -> None:
        self.constants = constants
        self.sampling = sampling
        self.used: list[Estimate] = []

    def __call__(self, group: str, name: str) -> Array:
        return self.take(self.constants[group][name])

    def take(self, estimate: Estimate) -> Array:
        """Any other estimate in the same way."""
        self.used.append(estimate)
        return self.sampling(estimate)
