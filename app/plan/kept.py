"""What was worked out last, kept where several are worked out at a time: for one at a time there is `lru_cache`."""

from collections import OrderedDict
from threading import Lock
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Kept(OrderedDict[Key, Value]):
    """So many values at most, by what they were worked out of.

    >>> two = Kept(2)
    >>> for key in "abca":
    ...     two.add(key, key.upper())
    >>> dict(two)
    {'c': 'C', 'a': 'A'}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.lock = Lock()

    def add(self, key: Key, value: Value) -> None:
        """Keep one, in place of the oldest."""
        with self.lock:
            self[key] = value
            self.move_to_end(key)
            while len(self) > self.most:
                self.popitem(last=False)

    def forget(self) -> None:
        """Keep none."""
        with self.lock:
            self.clear()
