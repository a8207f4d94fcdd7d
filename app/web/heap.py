"""The memory that the C library keeps for the next request, where it is glibc's; others have no such settings."""

import ctypes
from collections.abc import Callable
from functools import cache

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


@cache
def _function(name: str) -> Callable[..., object]:
    try:
        function: Callable[..., object] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return lambda *_: None
    return function
