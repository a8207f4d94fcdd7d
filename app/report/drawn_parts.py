"""What a drawing of a fabric is made of: rectangles, strokes and words with their places, and the sheet they go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import hypot

WIDTH = 1000.0
LEFT, RIGHT = 205.0, 985.0
ROW, HIGH, TOP = 112.0, 30.0, 26.0
LETTER = 6.6
"""About the width of a letter of 12 px."""
THINNEST, WIDEST = 0.8, 9.0
MOST_TICKS = 8


@dataclass(frozen=True)
class Box:
    """A rectangle with words in it. ``kind`` is node, leaf, spine, core, or unit for the frame of a group.

    ``place`` is the way to a drawing of its own, see `app.report.places`; blank where it has none.
    """

    x: float
    y: float
    width: float
    height: float
    kind: str
    text: str = ""
    place: str = ""

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def baseline(self) -> float:
        return self.y + self.height / 2 + 4


@dataclass(frozen=True)
class Stroke:
    """A bundle of links. ``kind`` is its network's colour: infiniband, ethernet or scale-up."""

    x1: float
    y1: float
    x2: float
    y2: float
    width: float
    kind: str
    bend: float = 0.0
    """How far its middle lies aside of the straight line, to the left of its way."""
    part: str = ""
    """What its links are where one of them may fail: node-link or link, as in `app.studies.failed_parts`."""

    @property
    def path(self) -> str:
        """The stroke as the path of an SVG."""
        start, end = f"M{self.x1:.1f} {self.y1:.1f}", f"{self.x2:.1f} {self.y2:.1f}"
        if not self.bend:
            return f"{start}L{end}"
        across, down = self.x2 - self.x1, self.y2 - self.y1
        long = hypot(across, down) or 1.0
        x = (self.x1 + self.x2) / 2 + 2 * self.bend * down / long
        y = (self.y1 + self.y2) / 2 - 2 * self.bend * across / long
        return f"{start}Q{x:.1f} {y:.1f} {end}"


@dataclass(frozen=True)
class Way:
    """A way through the fabric that can be followed: a rail, or the longest. ``key`` is its place in the address."""

    key: str
    name: str
    strokes: tuple[Stroke, ...]


@dataclass(frozen=True)
class Label:
    """Words. ``kind`` is tier, note or link."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    kind: str = "note"


@dataclass(frozen=True)
class Tick:
    """A spare port."""

    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """Everything to print, back to front: frames and strokes, then boxes, ticks and words."""

    width: float
    height: float
    title: str
    description: str
    frames: tuple[Box, ...]
    strokes: tuple[Stroke, ...]
    boxes: tuple[Box, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[Label, ...]
    ways: tuple[Way, ...] = ()


@dataclass
class Canvas:
    """Collects the parts of a drawing."""

    frames: list[Box]
    strokes: list[Stroke]
    boxes: list[Box]
    ticks: list[Tick]
    labels: list[Label]
    heaviest: float
    family: str
    ways: dict[str, list[Stroke]] = field(default_factory=dict)

    def follow(self, way: str, *points: tuple[float, float]) -> None:
        """A way goes through these points."""
        strokes = (Stroke(*first, *second, 3.0, "way") for first, second in pairwise(points))
        self.ways.setdefault(way, []).extend(strokes)

    def bundle(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        bandwidth: float,
        kind: str = "",
        *,
        bend: float = 0.0,
        part: str = "",
    ) -> None:
        share = bandwidth / self.heaviest if self.heaviest else 0.0
        width = THINNEST + (WIDEST - THINNEST) * min(share, 1.0)
        self.strokes.append(Stroke(*start, *end, round(width, 2), kind or self.family, bend, part))

    def box(
        self, x: float, y: float, width: float, kind: str, *texts: str, height: float = HIGH, place: str = ""
    ) -> Box:
        """A box with the longest of some texts that fits."""
        fitting = [text for text in texts if len(text) * LETTER <= width - 4]
        box = Box(round(x, 1), y, round(width, 1), height, kind, max(fitting, key=len, default=""), place)
        self.boxes.append(box)
        return box

    def words(self, x: float, y: float, text: str, anchor: str = "start", kind: str = "note") -> None:
        self.labels.append(Label(round(x, 1), y, text, anchor, kind))


def plural(count: int, word: str) -> str:
    """A count and its word.

    >>> plural(1, "leaf"), plural(1024, "node"), plural(2, "leaf")
    ('1 leaf', '1,024 nodes', '2 leaves')
    """
    words = {"leaf": "leaves", "switch": "switches"}
    return f"{count:,} {word if count == 1 else words.get(word, word + 's')}"


def mark_free(canvas: Canvas, ports: int, y: float) -> None:
    """Spare ports of a row: hollow ticks, and their number."""
    ticks = min(ports, MOST_TICKS)
    for place in range(ticks):
        canvas.ticks.append(Tick(2.0 + place * 9, y - 8))
    canvas.words(ticks * 9 + (6 if ticks else 0), y, f"{ports:,} ports free" if ports else "no port free")
