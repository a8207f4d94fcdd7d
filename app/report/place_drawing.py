"""One place of a network as a drawing: a pod with its units, a unit with its racks, a node, a rail."""

from __future__ import annotations

from app.plan.result import FabricShape
from app.report.drawn_parts import HIGH, LEFT, LETTER, RIGHT, ROW, TOP, WIDTH, Box, Canvas, Drawing, plural
from app.report.places import Hall, Place
from app.units import show

LEAF_Y, NODE_Y = TOP + ROW, TOP + 2 * ROW
GAP = 10.0


def place_drawing(hall: Hall, place: Place, shape: FabricShape, switch: str, scale_up: str) -> Drawing:
    """The drawing of a place; a rack has one of its own, see `rack_drawing`."""
    heaviest = max(shape.nodes_per_unit * shape.host_rate, shape.leaf_up * shape.uplink_rate)
    canvas = Canvas([], [], [], [], [], heaviest, shape.family)
    draw = {"pod": _pod, "unit": _unit, "node": _node, "rail": _rail}[place.level]
    lowest = LEAF_Y if place.level == "node" else NODE_Y
    description = draw(canvas, hall, place, shape, switch, scale_up)
    return Drawing(
        width=WIDTH,
        height=lowest + HIGH + 48,
        title=place.name,
        description=description,
        frames=tuple(canvas.frames),
        strokes=tuple(canvas.strokes),
        boxes=tuple(canvas.boxes),
        ticks=(),
        labels=tuple(canvas.labels),
    )


def _spread(count: int, start: float = LEFT, end: float = RIGHT, most: float = 120.0) -> list[tuple[float, float]]:
    """Left edges and widths of boxes side by side, in the middle of their room."""
    each = min((end - start) / max(count, 1), most)
    left = (start + end - each * count) / 2
    return [(left + each * place + 1, each - 2) for place in range(count)]


def _above(canvas: Canvas, shape: FabricShape, spines: int) -> Box | None:
    """The spines as one bar over the leaves."""
    if not spines:
        return None
    canvas.words(0, TOP + 14, plural(spines, "spine"), kind="tier")
    canvas.words(0, LEAF_Y - 38, f"{shape.leaf_up} × {show(shape.uplink_rate, 'b/s')} up from a leaf", kind="link")
    return canvas.box(LEFT, TOP, RIGHT - LEFT, "spine", plural(spines, "spine"))


def _up(canvas: Canvas, shape: FabricShape, leaf: Box, spines: Box | None) -> None:
    """The links of a leaf to the spines."""
    if spines is not None:
        bandwidth = shape.leaf_up * shape.uplink_rate
        canvas.bundle((leaf.middle, LEAF_Y), (leaf.middle, spines.y + spines.height), bandwidth)


def _pods(hall: Hall) -> int:
    """Groups of leaves that have spines of their own."""
    return hall.count("pod") if "pod" in hall.sizes else 1


def _pod(canvas: Canvas, hall: Hall, place: Place, shape: FabricShape, switch: str, scale_up: str) -> str:
    nodes, pods = hall.nodes_of(place), hall.count("pod")
    spines = shape.spines // pods
    bar = _above(canvas, shape, spines)
    units, leaves = hall.inside(place, "unit"), shape.leaves_per_unit
    for unit, (x, width) in zip(units, _spread(len(units), most=200.0), strict=True):
        leaf = canvas.box(x, LEAF_Y, width, "leaf", plural(leaves, "leaf"), f"{leaves}")
        _up(canvas, shape, leaf, bar)
        canvas.bundle((leaf.middle, NODE_Y), (leaf.middle, LEAF_Y + HIGH), shape.leaf_down * shape.host_rate)
        canvas.box(x, NODE_Y, width, "node", unit.name, f"{unit.number}", place=unit.address)
    canvas.words(0, LEAF_Y + 14, plural(leaves * len(units), "leaf"), kind="tier")
    canvas.words(0, LEAF_Y + 30, switch)
    canvas.words(0, NODE_Y + 14, plural(len(nodes), "node"), kind="tier")
    canvas.words(0, NODE_Y + 30, f"{hall.gpus_per_node} GPUs each on {scale_up}", kind="scale-up")
    return (
        f"{place.name} of {pods}: nodes {nodes[0]:,} to {nodes[-1]:,} under {plural(spines, 'spine')}. "
        f"What leaves the pod goes over {plural(spines * shape.spine_up, 'link')} to cores."
    )


def _unit(canvas: Canvas, hall: Hall, place: Place, shape: FabricShape, switch: str, scale_up: str) -> str:
    nodes, racks = hall.nodes_of(place), hall.inside(place, "rack")
    bar = _above(canvas, shape, shape.spines // _pods(hall))
    leaves = []
    for number, (x, width) in enumerate(_spread(shape.leaves_per_unit), 1):
        leaves.append(canvas.box(x, LEAF_Y, width, "leaf", f"rail {number}", f"{number}"))
        _up(canvas, shape, leaves[-1], bar)
    standing = [hall.nodes_of(rack) for rack in racks]
    room = (RIGHT - LEFT - GAP * (len(racks) - 1)) / sum(map(len, standing))
    x = LEFT
    for rack, of_rack in zip(racks, standing, strict=True):
        width, inside = room * len(of_rack), [node for node in of_rack if node in nodes]
        canvas.frames.append(Box(round(x, 1), NODE_Y - 8, round(width, 1), HIGH + 40, "unit"))
        canvas.words(x + width / 2, NODE_Y + HIGH + 22, rack.name if width > 52 else f"{rack.number}", "middle")
        for node, (left, wide) in zip(of_rack, _spread(len(of_rack), x + 2, x + width - 2), strict=True):
            text = f"{node}" if wide > LETTER * (len(f"{nodes[-1]}") + 1) else ""
            kind = "node" if node in nodes else "other"
            canvas.box(left, NODE_Y, wide, kind, text, place=Place("node", node).address)
        middle = x + room * (of_rack.index(inside[0]) + len(inside) / 2)
        for leaf in leaves:
            canvas.bundle((middle, NODE_Y), (leaf.middle, LEAF_Y + HIGH), len(inside) * shape.host_rate)
        x += width + GAP
    canvas.words(0, LEAF_Y + 14, plural(len(leaves), "leaf"), kind="tier")
    canvas.words(0, LEAF_Y + 30, switch)
    canvas.words(0, NODE_Y - 22, f"{len(nodes)} × {show(shape.host_rate, 'b/s')} to a leaf", kind="link")
    canvas.words(0, NODE_Y + 14, plural(len(nodes), "node"), kind="tier")
    canvas.words(0, NODE_Y + 30, f"{hall.gpus_per_node} GPUs each on {scale_up}", kind="scale-up")
    canvas.words(0, NODE_Y + HIGH + 22, f"in {plural(len(racks), 'rack')}")
    shared = [str(rack.number) for rack, of_rack in zip(racks, standing, strict=True) if not set(of_rack) <= set(nodes)]
    several = "racks" if len(shared) > 1 else "rack"
    also = f" The pale nodes of {several} {' and '.join(shared)} are of other units. {hall.seam}" if shared else ""
    return (
        f"{place.name} of {hall.count('unit')}: nodes {nodes[0]:,} to {nodes[-1]:,}. "
        f"NIC 1 of each leads to the leaf of rail 1, NIC 2 to that of rail 2, and so on.{also}"
    )


def _node(canvas: Canvas, hall: Hall, place: Place, shape: FabricShape, switch: str, scale_up: str) -> str:
    rails = range(1, shape.rails + 1)
    plugs = [hall.plug(place.number, rail) for rail in rails]
    gpus = [
        canvas.box(x, LEAF_Y, width, "node", f"GPU {number}", f"{number}")
        for number, (x, width) in enumerate(_spread(hall.gpus_per_node), 1)
    ]
    canvas.box(LEFT, LEAF_Y + HIGH + 8, RIGHT - LEFT, "scale-up", scale_up)
    for rail, plug, (x, width) in zip(rails, plugs, _spread(len(rails)), strict=True):
        name = f"rail {rail}" if shape.by_rail else f"leaf {plug.leaf:,}"
        way = Place("rail", place.number, rail).address if shape.by_rail else ""
        leaf = canvas.box(x, TOP, width, "leaf", name, f"{plug.leaf}", place=way)
        gpu = gpus[(rail - 1) * len(gpus) // len(plugs)]
        canvas.bundle((gpu.middle, LEAF_Y), (leaf.middle, TOP + HIGH), shape.host_rate)
        canvas.words(leaf.middle, TOP - 8, f"port {plug.port}", "middle")
    canvas.words(0, TOP + 14, f"Leaves of unit {plugs[0].unit:,}" if shape.by_rail else "Leaves", kind="tier")
    canvas.words(0, TOP + 30, switch)
    canvas.words(0, LEAF_Y - 22, f"{plural(len(rails), 'NIC')} of {show(shape.host_rate, 'b/s')}", kind="link")
    canvas.words(0, LEAF_Y + 14, plural(len(gpus), "GPU"), kind="tier")
    planes = hall.cabling.counts.planes
    each = f" on each of {planes} planes" if planes > 1 else ""
    first = (place.number - 1) * len(gpus)
    lengths = sorted({plug.length for plug in plugs})
    metres = f"{lengths[0]:g}" if len(lengths) == 1 else f"{lengths[0]:g} to {lengths[-1]:g}"
    return (
        f"{place.name} of {hall.nodes:,}: GPUs {first + 1:,} to {first + len(gpus):,} on {scale_up}, and "
        f"{plural(len(rails), 'NIC')}{each}, with cables of {metres} m to their leaves."
    )


def _rail(canvas: Canvas, hall: Hall, place: Place, shape: FabricShape, switch: str, scale_up: str) -> str:
    plug = hall.plug(place.number, place.rail)
    spines = shape.spines // (shape.rails if shape.rail_spines else 1) // _pods(hall)
    bar = _above(canvas, shape, spines)
    units = hall.count("unit") if "unit" in hall.sizes else 1
    of_pod = len(hall.inside(hall.at("pod", place.number), "unit")) if "pod" in hall.sizes else units
    columns = _spread(min(of_pod, 4), most=240.0)
    first = (plug.unit - 1) // of_pod * of_pod
    shown = [plug.unit, *(unit for unit in range(first + 1, first + of_pod + 1) if unit != plug.unit)][: len(columns)]
    for unit, (x, width) in zip(shown, columns, strict=True):
        name = f"unit {unit:,}, leaf {plug.leaf:,}"
        leaf = canvas.box(x + 10, LEAF_Y, width - 20, "leaf", name, f"{plug.leaf}")
        _up(canvas, shape, leaf, bar)
        canvas.bundle((leaf.middle, NODE_Y), (leaf.middle, LEAF_Y + HIGH), shape.host_rate)
        text = f"node {place.number:,}, NIC {place.rail}" if unit == plug.unit else f"NIC {place.rail} of its nodes"
        canvas.box(x + 10, NODE_Y, width - 20, "node", text, f"NIC {place.rail}")
    canvas.words(0, LEAF_Y + 14, f"Leaves of rail {place.rail}", kind="tier")
    canvas.words(0, LEAF_Y + 30, switch)
    canvas.words(0, NODE_Y - 22, f"{show(shape.host_rate, 'b/s')}, {plug.length:g} m, port {plug.port}", kind="link")
    if of_pod > len(columns):
        canvas.words(
            (LEFT + RIGHT) / 2, NODE_Y + HIGH + 22, f"{of_pod - len(columns):,} more units as beside", "middle"
        )
    far = (
        f" and three to that of a node of another unit, over any of {plural(spines, 'spine')}"
        if bar and units > 1
        else ""
    )
    return (
        f"NIC {place.rail} of node {place.number:,} ends at port {plug.port} of leaf {plug.leaf} of unit {plug.unit:,} "
        f"on a cable of {plug.length:g} m. It is one switch to NIC {place.rail} of another node of the unit{far}."
    )
