"""What searches keep for the next: tables that take long to make, bounded by the bytes that they take.

A bound in numbers would not do: of GPUs and batches that much divides, one table takes as much as forty others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, Protocol, TypeVar

from app.formulas.training.search_space import Space

Spaces = tuple[Space, ...]


class Sized(Protocol):
    """What says how much memory it takes."""

    @property
    def nbytes(self) -> int:
        """What it takes [B]."""


Made = TypeVar("Made", bound=Sized)


class Kept(Generic[Made]):
    """What was made of spaces last: the last at least, and of those before it as many as there is room for.

    Attributes:
        most: what all may take [B].
        bytes: what those kept take [B].
        kept: these, the one asked last at the end.
    """

    def __init__(self, most: int) -> None:
        self.most, self.bytes = most, 0
        self.kept: OrderedDict[Spaces, Made] = OrderedDict()
        self._lock = Lock()

    def of(self, several: Sequence[Space], make: Callable[[Spaces], Made]) -> Made:
        """What is kept of some spaces together, or else is made of them now."""
        spaces = tuple(several)
        with self._lock:
            known = self.kept.get(spaces)
            if known is not None:
                self.kept.move_to_end(spaces)
                return known
        new = make(spaces)
        with self._lock:
            if spaces not in self.kept:
                self.kept[spaces] = new
                self.bytes += new.nbytes
                while len(self.kept) > 1 and self.bytes > self.most:
                    self.bytes -= self.kept.popitem(last=False)[1].nbytes
        return new

    def forget(self) -> None:
        """Keep nothing."""
        with self._lock:
            self.kept.clear()
            self.bytes = 0
