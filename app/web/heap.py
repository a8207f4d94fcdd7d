"""The memory that the C library keeps for the next request, where it is glibc's; others have no such settings."""

import ctypes
import gc
import itertools
import os
import sys
from collections.abc import Callable
from functools import _lru_cache_wrapper, cache
from pathlib import Path

ALLOCATOR = {-8: 1, -3: 4 << 20, -1: 64 << 20}
"""Of glibc's malloc.h: M_ARENA_MAX, M_MMAP_THRESHOLD [B], M_TRIM_THRESHOLD [B]."""


def use_one() -> None:
    """Ask the C library for one heap for all threads, which keeps what it has while the next request may need it.

    By default glibc has a heap for each thread, and each grows to what its largest request took; and it gives arrays
    back to the system at once and asks for them again.
    """
    set_option = _function("mallopt")
    for option, value in ALLOCATOR.items():
        set_option(option, value)


def give_back() -> None:
    """Give what is free back to the system, also between what is in use: it takes a millisecond or two."""
    _function("malloc_trim")(0)


def forget() -> None:
    """Empty the caches of results, those of so many at most: what is asked again is worked out again."""
    names = [name for name in sys.modules if name.startswith("app.")]
    for value in itertools.chain.from_iterable(vars(sys.modules[name]).values() for name in names):
        if isinstance(value, _lru_cache_wrapper) and value.cache_parameters()["maxsize"]:
            value.cache_clear()
        elif hasattr(type(value), "forget"):
            value.forget()
    gc.collect()
    give_back()


def own_memory() -> int:
    """Bytes of this process that are in memory and of no file, those that it shares with others included.

    Where the system does not say, none.
    """
    try:
        resident, of_files = map(int, Path("/proc/self/statm").read_text().split()[1:3])
    except OSError:
        return 0
    return (resident - of_files) * os.sysconf("SC_PAGE_SIZE")


@cache
def _function(name: str) -> Callable[..., object]:
    try:
        function: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return lambda *_: None
    return function
