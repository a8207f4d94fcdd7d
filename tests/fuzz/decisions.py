"""Random plans: ranges in order, nothing cheaper for being more, and links that keep their word."""

import argparse
from collections import Counter
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.decision_laws import LAWS, Asked, NoPlanError, plan_of, questions

KEPT = 5
"""Plans that are shown of those that break a law."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Hold so many valid plans to every law, as far as what it asks has a plan too."""
    held, broken = Counter[str](), dict[str, list[str]]()
    found = 0

    def hold(asked: Asked) -> None:
        for law in LAWS:
            try:
                law(asked)
                held[law.__name__] += 1
            except NoPlanError:
                pass
            except AssertionError as error:
                broken.setdefault(law.__name__, []).append(f"{error}\n      {asked}")

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
        hold(asked)

    search()
    yield f"   {found:,} plans"
    for law in LAWS:
        examples = broken.get(law.__name__, [])
        yield f"   {law.__name__}: held by {held[law.__name__]:,}, broken by {len(examples):,}"
        yield from (f"      {example}" for example in examples[:KEPT])
    assert not broken, ", ".join(broken)
    assert found >= options.plans, f"only {found:,} plans are valid"
