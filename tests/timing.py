"""Processor time of calls, to hold one against another: by themselves seconds tell of the machine, not of the code."""

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Processor time of the quickest of some calls [s]."""
    return min(_once(work) for _ in range(times))


def _once(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
