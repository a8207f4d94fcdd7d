"""Random plans: more of anything slows nothing, and no collective beats the wires."""

import argparse
from collections import Counter
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.network_laws import LAWS, Asked, NoPlanError, built, plans

KEPT = 3
"""Plans that are shown of those that break a law."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Hold so many plans that can be built to every law, as far as what it asks can be built too."""
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
    @given(plans)
    def search(asked: Asked) -> None:
        nonlocal found
        try:
            built(asked)
        except NoPlanError:
            return
        if found < options.plans:
            found += 1
            hold(asked)

    search()
    yield f"   {found:,} plans that can be built"
    for law in LAWS:
        examples = broken.get(law.__name__, [])
        yield f"   {law.__name__}: held by {held[law.__name__]:,}, broken by {len(examples):,}"
        yield from (f"      {example}" for example in examples[:KEPT])
    assert not broken, ", ".join(broken)
    assert found >= options.plans, f"only {found:,} plans can be built"
