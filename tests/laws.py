"""Laws that every random plan keeps: how plans are held to them, and what is told of those that break one."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Asked = Mapping[str, Any]
Law = Callable[[Asked], None]


class NoPlanError(Exception):
    """What a law asks of a plan cannot be asked, cannot be built, or has no answer."""


class Held:
    """How many plans kept each law, which broke it, and how long that took."""

    def __init__(self, laws: Sequence[Law]) -> None:
        self.laws = laws
        self.kept: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.broken: dict[str, list[str]] = {}

    def hold(self, asked: Asked) -> None:
        """Hold a plan to every law, as far as what it asks has a plan too."""
        for law in self.laws:
            began = time.monotonic()
            try:
                law(asked)
                self.kept[law.__name__] += 1
            except NoPlanError:
                pass
            except AssertionError as error:
                self.broken.setdefault(law.__name__, []).append(f"{error}\n      {asked}")
            self.seconds[law.__name__] += time.monotonic() - began

    def told(self, shown: int) -> Iterator[str]:
        """A line for each law, and so many of the plans that break it; raises in the end where there is one."""
        for law in self.laws:
            name, examples = law.__name__, self.broken.get(law.__name__, [])
            yield f"   {name}: held by {self.kept[name]:,}, broken by {len(examples):,} ({self.seconds[name]:.0f} s)"
            yield from (f"      {example}" for example in examples[:shown])
        assert not self.broken, ", ".join(self.broken)
