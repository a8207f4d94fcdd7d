"""Random plans: ranges in order, nothing cheaper for being more, and links that keep their word."""

import argparse
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.decision_laws import LAWS, plan_of, questions
from tests.laws import Asked, Held, NoPlanError

SHOWN = 5
"""Plans that are shown of those that break a law."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Hold so many valid plans to every law, as far as what it asks has a plan too."""
    held, found = Held(LAWS), 0

    @seed(options.seed)
    @settings(
        max_examples=2 * options.plans,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(questions())
    def search(asked: Asked) -> None:
        nonlocal found
        if found >= options.plans:
            return
        try:
            plan_of(asked)
        except NoPlanError:
            return
        found += 1
        held.hold(asked)

    search()
    yield f"   {found:,} plans"
    yield from held.told(SHOWN)
    assert found >= options.plans, f"only {found:,} plans are valid"
