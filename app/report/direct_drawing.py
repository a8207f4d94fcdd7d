"""Networks without tiers as drawings: a torus with its rings closed, the groups of a dragonfly, a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import cos, pi, sin

from app.formulas.fabric.direct import torus_sides
from app.plan.result import Cluster, Fabric, FabricShape
from app.report.drawn_parts import LEFT, RIGHT, Box, Canvas, mark_free, plural

HEIGHT = 430.0
CENTRE = ((LEFT + RIGHT) / 2, 205.0)
FEW_ON_A_RING, FEW_GROUPS, FEW_IN_A_GROUP = 72, 8, 8
FEW_PAIRS = 28
"""Links of a mesh that are told from each other; of more only those of one switch are drawn."""
FEW_ON_A_SIDE = {2: 6, 3: 4}
"""Switches drawn along an axis of a torus, by its dimensions."""

Place = tuple[float, float]


def drawn(fabric: Fabric, cluster: Cluster, shape: FabricShape, switch: str) -> tuple[Canvas, float]:
    """The drawing of a network of equal switches, and its height."""
    canvas = Canvas([], [], [], [], [], max(shape.leaf_down * shape.host_rate, shape.uplink_rate), shape.family)
    if fabric.topology == "dragonfly":
        note = _dragonfly(canvas, shape)
    elif fabric.topology.startswith("torus"):
        note = _torus(canvas, shape, 2 if fabric.topology == "torus-2d" else 3)
    else:
        note = _mesh(canvas, shape)
    canvas.words(0, 40, plural(shape.leaves, "switch"), kind="tier")
    canvas.words(0, 58, switch)
    canvas.words(0, 76, f"{plural(shape.peers, 'link')} between them", kind="link")
    canvas.words(0, 94, f"{shape.leaf_down} hosts at a switch, at most")
    mark_free(canvas, fabric.ports_free.get("leaf", 0), 112)
    canvas.words(0, 148, plural(shape.nodes, "node"), kind="tier")
    canvas.words(0, 166, f"{cluster.gpus_per_node} GPUs each", kind="scale-up")
    canvas.words(CENTRE[0], HEIGHT - 8, note, "middle")
    return canvas, HEIGHT


# Torus ----------------------------------------------------------------------------------------------------------------


def _torus(canvas: Canvas, shape: FabricShape, dimensions: int) -> str:
    """Switches on a grid of two axes, or three in oblique view; the way back of a row is drawn where it is seen."""
    sides = [int(side) for side in torus_sides(shape.leaves, dimensions).tolist()]
    shown = [min(side, FEW_ON_A_SIDE[dimensions]) for side in sides]
    links = shape.peers / max(shape.leaves * sum(side > 1 for side in sides), 1)
    spots = {cell: _spot(cell, shown) for cell in product(*(range(side) for side in shown))}
    for axis, side in enumerate(sides):
        for cell in spots:
            if side > 1 and cell[axis] + 1 < shown[axis]:
                _join(canvas, spots, cell, (axis, cell[axis] + 1), links * shape.uplink_rate)
            elif side > 2 and cell[axis] + 1 == shown[axis] and _seen(cell, axis, shown):
                _join(canvas, spots, cell, (axis, 0), links * shape.uplink_rate, bend=22.0 + 6 * shown[axis])
    for number, (x, y) in enumerate(reversed(spots.values())):
        canvas.box(x - 15, y - 9, 30, "leaf", f"{len(spots) - number}", height=18)
    whole = " × ".join(str(side) for side in sides)
    left = shape.leaves - len(spots)
    once = ", drawn for one row of each axis" if dimensions == 3 else ""
    rest = f"; {plural(left, 'switch')} more not drawn" if left else ""
    return f"{whole} switches, every row of each axis closed to a ring{once}{rest}"


def _spot(cell: Sequence[int], shown: Sequence[int]) -> Place:
    """Where a switch stands: along, down, and for the third axis back, to the right and up."""
    along, down, back = (*cell, 0)[:3]
    many_along, many_down, many_back = (*shown, 1)[:3]
    wide = min(150.0, (RIGHT - LEFT - 180) / max(many_along, 2))
    tall = min(90.0, (HEIGHT - 140) / max(many_down, 2))
    aside, up = 0.8 * wide / many_back, 0.8 * tall / many_back  # behind a switch, before the next one
    x = CENTRE[0] - (wide * (many_along - 1) + aside * (many_back - 1)) / 2
    y = CENTRE[1] - (tall * (many_down - 1) - up * (many_back - 1)) / 2
    return round(x + wide * along + aside * back, 1), round(y + tall * down - up * back, 1)


def _seen(cell: Sequence[int], axis: int, shown: Sequence[int]) -> bool:
    """Whether the way back of a row is drawn: of each in a plane, of one row an axis in space, where nothing is before
    it: the lowest in front, the leftmost in front, the one that goes back at the upper right."""
    if len(shown) == 2:
        return True
    along, down, back = cell
    return ((down + 1 == shown[1] and not back), (not along and not back), (along + 1 == shown[0] and not down))[axis]


def _join(
    canvas: Canvas,
    spots: dict[tuple[int, ...], Place],
    cell: tuple[int, ...],
    step: tuple[int, int],
    bandwidth: float,
    bend: float = 0.0,
) -> None:
    """A link from a switch to the one whose place on one axis is another."""
    axis, place = step
    other = (*cell[:axis], place, *cell[axis + 1 :])
    canvas.bundle(spots[cell], spots[other], bandwidth, bend=bend)


# Dragonfly and mesh ---------------------------------------------------------------------------------------------------


def _dragonfly(canvas: Canvas, shape: FabricShape) -> str:
    """Groups on a ring, each a ring of switches that are joined all to all, and the bundles between groups."""
    shown, each = min(shape.units, FEW_GROUPS), shape.leaves // max(shape.units, 1)
    size, half = min(each, FEW_IN_A_GROUP), 84.0 if shown <= 2 else 42.0
    centres = [CENTRE] if shown == 1 else list(_ring(shown, CENTRE, (190.0 if shown == 2 else 270.0, 140.0), pi))
    width = each * shape.leaf_down * shape.uplink_rate / max(shape.units - 1, 1)
    for first, other in combinations(centres, 2):
        canvas.bundle(_edge(first, other, half), _edge(other, first, half), min(width, canvas.heaviest / shown))
    for number, (x, y) in enumerate(centres, 1):
        canvas.frames.append(Box(round(x - half, 1), round(y - half, 1), 2 * half, 2 * half, "unit"))
        dots = list(_ring(size, (x, y), (half - 16, half - 16), -pi / 2))
        for first, other in combinations(dots, 2):
            canvas.bundle(first, other, 0.0)
        for left, top in dots:
            canvas.box(left - 5, round(top - 5, 1), 10, "leaf", height=10)
        canvas.words(x, y - half - 5, f"group {number}", "middle", "link")
    hidden = [plural(shape.units - shown, "group")] if shape.units > shown else []
    hidden += [f"{each - size} switches of each"] if each > size else []
    text = f"{plural(shape.units, 'group')} of {plural(each, 'switch')}, all to all in a group and among groups"
    return text + (f"; not drawn: {' and '.join(hidden)}" if hidden else "")


def _edge(centre: Place, other: Place, half: float) -> Place:
    """Where the way from a square's centre to another place leaves the square."""
    across, down = other[0] - centre[0], other[1] - centre[1]
    share = half / max(abs(across), abs(down), half)
    return round(centre[0] + share * across, 1), round(centre[1] + share * down, 1)


def _mesh(canvas: Canvas, shape: FabricShape) -> str:
    """Switches on a ring with a link between every two; where those are many, the links of the first."""
    shown = min(shape.leaves, FEW_ON_A_RING)
    places = list(_ring(shown, CENTRE, (300.0, 160.0), -pi / 2))
    each = 2 * shape.peers / max(shape.leaves * (shape.leaves - 1), 1) * shape.uplink_rate
    pairs = list(combinations(places, 2))
    few = len(pairs) <= FEW_PAIRS
    for first, other in pairs if few else pairs[: shown - 1]:
        canvas.bundle(first, other, each)
    wide, high = (52.0, 26.0) if shown <= 12 else (22.0, 16.0)
    for place, (x, y) in enumerate(places, 1):
        canvas.box(x - wide / 2, y - high / 2, wide, "leaf", f"switch {place}", f"{place}", height=high)
    left = shape.leaves - shown
    once = "" if few else ", drawn for switch 1"
    return f"every switch joined to every other{once}" + (f"; {plural(left, 'switch')} more not drawn" if left else "")


def _ring(count: int, centre: Place, radius: Place, start: float) -> Iterator[Place]:
    for place in range(count):
        angle = start + 2 * pi * place / count
        yield round(centre[0] + radius[0] * cos(angle), 1), round(centre[1] + radius[1] * sin(angle), 1)
