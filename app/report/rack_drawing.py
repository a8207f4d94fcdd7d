"""Racks from the front: what stands in a rack of nodes and in one of switches, unit by unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from app.report.drawn_parts import Canvas, Drawing, plural
from app.report.labels import capitalize_first
from app.units import show

UNIT = 7.0
"""Pixels of a rack unit."""
WIDE, GAP, HEAD = 200.0, 500.0, 28.0
READABLE = 14.0
"""Pixels from which on a part has words in it."""


@dataclass(frozen=True)
class RackOf:
    """The fullest rack of a kind.

    Attributes:
        kind: node or leaf, as in the drawing of the fabric.
        word: what one of its parts is called.
        racks: how many racks of the kind there are.
        parts: how many parts stand in it.
        units: rack units of one part; zero where that is not known.
        power: maximum power of all of them [W].
        about: more words for beside it.
        first: number of the lowest part.
        apart: whether each part has a drawing of its own.
        name: what the rack is called, where it is one of several that are told apart.
    """

    kind: str
    word: str
    racks: int
    parts: int
    units: float
    power: float
    about: tuple[str, ...] = ()
    first: int = 1
    apart: bool = False
    name: str = ""


def rack_elevations(kinds: Sequence[RackOf], height: int) -> Drawing:
    """The racks side by side, filled from the floor; what is left is empty, or for cables and supply."""
    canvas = Canvas([], [], [], [], [], 0.0, "")
    for place, rack in enumerate(kinds):
        _elevation(canvas, rack, place * GAP, height)
    return Drawing(
        width=1000.0,
        height=HEAD + height * UNIT + 8,
        title=f"{' and '.join(_of(rack) for rack in kinds)}, from the front".capitalize(),
        description=" ".join(f"{_of(rack).capitalize()}: {', '.join(_words(rack, height))}." for rack in kinds),
        frames=(),
        strokes=(),
        boxes=tuple(canvas.boxes),
        ticks=(),
        labels=tuple(canvas.labels),
    )


def _of(rack: RackOf) -> str:
    return rack.name or f"a rack of {'nodes' if rack.kind == 'node' else 'switches'}"


def _words(rack: RackOf, height: int) -> list[str]:
    """What a rack holds, in words."""
    said = [plural(rack.parts, rack.word) + (f" of {_units(rack.units)}" if rack.units else "")]
    if isfinite(rack.power):
        said.append(f"at most {show(rack.power, 'W')}")
    left = height - rack.parts * rack.units
    if rack.units:
        said.append(
            f"{left:g} of {height} rack units left" if left >= 0 else "several side by side, a cabinet of its own"
        )
    return [*said, *rack.about]


def _units(units: float) -> str:
    return f"{units:g} rack {'unit' if units == 1 else 'units'}"


def _elevation(canvas: Canvas, rack: RackOf, x: float, height: int) -> None:
    """One rack: its frame, its parts from the floor up, and what they are beside it."""
    floor = HEAD + height * UNIT
    canvas.box(x, HEAD, WIDE, "rack", height=height * UNIT)
    canvas.words(x, HEAD - 10, f"{capitalize_first(_of(rack))}, one of {rack.racks:,}", kind="tier")
    even = height / max(rack.parts, 1)
    tall = UNIT * (min(rack.units, even) if rack.units else even)
    for part in range(rack.parts):
        top = floor - (part + 1) * tall
        number = rack.first + part
        texts = (f"{rack.word} {number:,}",) if tall >= READABLE else ()
        place = f"{rack.word}/{number}" if rack.apart else ""
        canvas.box(x + 6, round(top + 0.5, 1), WIDE - 12, rack.kind, *texts, height=round(tall - 1, 1), place=place)
    for line, text in enumerate(_words(rack, height)):
        canvas.words(x + WIDE + 16, HEAD + 16 + 20 * line, text)
