"""Random plans: more of anything slows nothing, and no collective beats the wires."""

import argparse
from collections.abc import Iterator
from random import Random

from tests.laws import Held, NoPlanError
from tests.network_laws import LAWS, built, random_plan

SHOWN = 3
"""Plans that are shown of those that break a law."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """Hold so many plans that can be built to every law, as far as what it asks can be built too.

    Runs with different seeds hold different plans: `--plans 250 --seed 1` to 8 are 2,000 in slices.
    """
    random, held = Random(options.seed), Held(LAWS)
    for _ in range(options.plans):
        asked = random_plan(random)
        while not _can_be_built(asked):
            asked = random_plan(random)
        held.hold(asked)
    yield from held.told(SHOWN)


def _can_be_built(asked: dict[str, object]) -> bool:
    try:
        built(asked)
    except NoPlanError:
        return False
    return True
