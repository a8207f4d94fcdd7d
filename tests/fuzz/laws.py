"""Random plans: more of anything slows nothing, and no collective beats the wires."""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.network_laws import LAWS, NoPlanError, built, random_plan

KEPT = 3
"""Plans that are shown of those that break a law."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Hold so many plans that can be built to every law, as far as what it asks can be built too.

    Runs with different seeds hold different plans: `--plans 250 --seed 1` to 8 are 2,000 in slices.
    """
    random, held, spent = Random(options.seed), Counter[str](), Counter[str]()
    broken = dict[str, list[str]]()
    for _ in range(options.plans):
        asked = random_plan(random)
        while not _can_be_built(asked):
            asked = random_plan(random)
        for law in LAWS:
            began = time.monotonic()
            try:
                law(asked)
                held[law.__name__] += 1
            except NoPlanError:
                pass
            except AssertionError as error:
                broken.setdefault(law.__name__, []).append(f"{error}\n      {asked}")
            spent[law.__name__] += time.monotonic() - began
    for law in LAWS:
        name, examples = law.__name__, broken.get(law.__name__, [])
        yield f"   {name}: held by {held[name]:,}, broken by {len(examples):,} ({spent[name]:.0f} s)"
        yield from (f"      {example}" for example in examples[:KEPT])
    assert not broken, ", ".join(broken)


def _can_be_built(asked: dict[str, object]) -> bool:
    try:
        built(asked)
    except NoPlanError:
        return False
    return True
