"""The fabric as a drawing: rectangles, strokes and words with their places, for a template to print as SVG.

Tiers are rows, units are blocks, bundles of links are single strokes whose width is their bandwidth. A few nodes are
drawn each; thousands are summarised in the same grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.catalog.names import TOPOLOGIES, listed
from app.plan.result import Cluster, Fabric, FabricShape
from app.report import direct_drawing
from app.report.drawn_parts import HIGH, LEFT, RIGHT, ROW, TOP, WIDTH, Box, Canvas, Drawing, Way, mark_free, plural
from app.units import show

FEW_UNITS, FEW_NODES, FEW_BOXES, FEW_PAIRS = 4, 8, 16, 64


def draw(fabric: Fabric, cluster: Cluster, switch: str, scale_up: str = "") -> Drawing | None:
    """The drawing of a fabric; nothing where there is none.

    Args:
        fabric, cluster: the parts of a plan.
        switch: name of the switch.
        scale_up: name of the link inside a node.
    """
    shape = fabric.shape
    if shape is None:
        return None
    direct = shape.peers > 0
    drawn = (
        direct_drawing.drawn(fabric, cluster, shape, switch)
        if direct
        else _tree(fabric, cluster, shape, switch, scale_up)
    )
    canvas, height = drawn
    return Drawing(
        width=WIDTH,
        height=height,
        title=_title(fabric, shape),
        description=" ".join(_description(fabric, cluster, shape, switch)),
        frames=tuple(canvas.frames),
        strokes=tuple(canvas.strokes),
        boxes=tuple(canvas.boxes),
        ticks=tuple(canvas.ticks),
        labels=tuple(canvas.labels),
        ways=tuple(Way(f"way-{key.replace(' ', '-')}", key, tuple(strokes)) for key, strokes in canvas.ways.items()),
    )


def switches_in_words(fabric: Fabric) -> str:
    """How many switches there are, by tier; those of a mesh, torus or dragonfly have none.

    >>> from app import Scenario, evaluate, load_catalog
    >>> asked = ({"topology": name, "gpus": 512} for name in ("rail-optimized", "dragonfly"))
    >>> [switches_in_words(evaluate(Scenario(**each), load_catalog()).fabric) for each in asked]
    ['16 leaf and 8 spine switches', '32 switches in a dragonfly']
    """
    leaves = fabric.leaf_switches or 0
    if fabric.shape and fabric.shape.peers:
        return f"{plural(leaves, 'switch')} in {TOPOLOGIES[fabric.topology]}"
    tiers = {"leaf": leaves, "spine": fabric.spine_switches, "core": fabric.core_switches}
    counts = [f"{count:,} {tier}" for tier, count in tiers.items() if count]
    return f"{listed(counts)} {'switch' if counts == ['1 leaf'] else 'switches'}" if counts else "no switches"


def racks_in_words(cluster: Cluster) -> str:
    """How many racks there are, and what that of most power draws.

    >>> from app import Scenario, evaluate, load_catalog
    >>> [racks_in_words(evaluate(Scenario(gpus=gpus), load_catalog()).cluster) for gpus in (8, 1024)]
    ['1 rack of 10.2\u202fkW.', '35 racks, at most 40.8\u202fkW in one of nodes.']
    """
    count = plural(cluster.racks, "rack")
    if not cluster.rack_power:
        return f"{count}."
    most = show(cluster.rack_power.typical, "W")
    return f"{count} of {most}." if cluster.racks == 1 else f"{count}, at most {most} in one of nodes."


def _title(fabric: Fabric, shape: FabricShape) -> str:
    nodes = plural(shape.nodes, "node")
    if shape.peers:
        return f"{nodes} on {plural(shape.leaves, 'switch')} in {TOPOLOGIES[fabric.topology]}, approximate"
    if fabric.tiers == 1:
        return f"{nodes} on {plural(shape.leaves, 'switch')} of one tier"
    taper = shape.oversubscription * shape.spine_oversubscription
    kept = "non-blocking" if taper < 1.01 else f"tapered {taper:.3g} : 1"
    units = f"{plural(shape.units, 'unit')} of {shape.nodes_per_unit} nodes" if shape.by_rail else nodes
    return f"{units} under {fabric.tiers} tiers of switches, {kept}"


def _description(fabric: Fabric, cluster: Cluster, shape: FabricShape, switch: str) -> Iterator[str]:
    if fabric.planes > 1:
        yield f"One of {fabric.planes} equal planes."
    yield f"{plural(shape.nodes, 'node')} of {cluster.gpus_per_node} GPUs, each with {plural(shape.rails, 'link')}"
    yield f"of {show(shape.host_rate, 'b/s')} to {plural(shape.leaves, 'leaf')} ({switch})."
    if shape.spines:
        yield f"Each leaf has {shape.leaf_up} links of {show(shape.uplink_rate, 'b/s')} up"
        yield f"to {plural(shape.spines, 'spine')}."
    if shape.cores:
        yield f"Each spine has {shape.spine_up} links up to {plural(shape.cores + shape.super_cores, 'core')}."
    if shape.peers:
        yield f"{plural(shape.peers, 'link')} join the switches."


# A tree of tiers ------------------------------------------------------------------------------------------------------


def _tree(fabric: Fabric, cluster: Cluster, shape: FabricShape, switch: str, scale_up: str) -> tuple[Canvas, float]:
    per_leaf = min(shape.nodes_per_unit, shape.nodes) if shape.by_rail else shape.leaf_down
    heaviest = max(per_leaf * shape.host_rate, shape.leaf_up * shape.uplink_rate)
    canvas = Canvas([], [], [], [], [], heaviest, shape.family)
    upper = [
        (name, many)
        for name, many in (("super-core", shape.super_cores), ("core", shape.cores), ("spine", shape.spines))
        if many
    ]
    leaf_y = TOP + ROW * len(upper)
    node_y = leaf_y + ROW
    bars = {name: _bar(canvas, name, many, TOP + ROW * row, shape) for row, (name, many) in enumerate(upper)}

    columns = _columns(shape.units)
    gap = 14.0
    width = (RIGHT - LEFT + gap) / len(columns) - gap
    for place, unit in enumerate(columns):
        x = LEFT + place * (width + gap)
        if unit is None:
            hidden = shape.units - len(columns) + 1
            canvas.words(x + width / 2, leaf_y + HIGH / 2 + 4, f"… {hidden:,} more", "middle")
            canvas.words(x + width / 2, node_y + HIGH / 2 + 4, "as beside", "middle")
            continue
        _unit(canvas, cluster, shape, unit, Column(x, width, leaf_y, node_y), bars.get("spine"))
    _longest_way(canvas, list(bars.values()), leaf_y, node_y)

    for row in range(1, len(upper)):
        above, below = bars[upper[row - 1][0]], bars[upper[row][0]]
        links = shape.spine_up if upper[row][0] == "spine" else 0
        _between(canvas, above, below, links, shape.uplink_rate)

    _row_words(canvas, fabric, shape, switch, upper, leaf_y)
    canvas.words(0, node_y + 14, plural(shape.nodes, "node"), kind="tier")
    inside = f"{cluster.gpus_per_node} GPUs each" + (f" on {scale_up}" if scale_up else "")
    canvas.words(0, node_y + 30, inside, kind="scale-up")
    if shape.management_links:
        canvas.words(0, node_y + 46, f"{plural(shape.management_links, 'fabric-manager link')}")
    if fabric.planes > 1:
        canvas.words(0, 12, f"Plane 1 of {fabric.planes}; the others are the same")
    return canvas, node_y + HIGH + 40


def _columns(units: int) -> list[int | None]:
    """Units to draw from left to right; ``None`` stands for those left out.

    >>> _columns(3), _columns(9)
    ([0, 1, 2], [0, 1, None, 8])
    """
    if units <= FEW_UNITS:
        return list(range(units))
    return [0, 1, None, units - 1]


def _bar(canvas: Canvas, name: str, many: int, y: float, shape: FabricShape) -> Box:
    """A tier above the leaves: a frame with its switches, or with their number."""
    frame = Box(LEFT, y - 8, RIGHT - LEFT, HIGH + 16, "unit")
    canvas.frames.append(frame)
    kind = "spine" if name == "spine" else "core"
    groups = shape.rails if shape.rail_spines and name == "spine" else 0
    if groups and groups <= FEW_BOXES:
        width = (RIGHT - LEFT - 16) / groups
        for rail in range(groups):
            each = many // groups
            canvas.box(LEFT + 8 + rail * width + 2, y, width - 4, kind, f"rail {rail + 1}: {each}", f"{each}")
    elif many <= FEW_BOXES:
        width = min((RIGHT - LEFT - 16) / many, 90.0)
        start = (LEFT + RIGHT - width * many) / 2
        for place in range(many):
            canvas.box(start + place * width + 2, y, width - 4, kind, f"{name} {place + 1}", f"{place + 1}")
    else:
        canvas.box(LEFT + 8, y, RIGHT - LEFT - 16, kind, plural(many, name))
    return frame


class Column(NamedTuple):
    """Where a group of nodes stands: its left edge and width, the rows of its leaves and of its nodes."""

    x: float
    width: float
    leaf_y: float
    node_y: float


def _unit(canvas: Canvas, cluster: Cluster, shape: FabricShape, unit: int, column: Column, spines: Box | None) -> None:
    """One group of nodes with its leaves, and the strokes between them and up; the first says what they are."""
    x, width, leaf_y, node_y = column
    nodes = _nodes_of(shape, unit)
    canvas.frames.append(Box(round(x, 1), leaf_y - 10, round(width, 1), node_y - leaf_y + HIGH + 34, "unit"))
    if shape.by_rail and shape.units > 1:
        canvas.words(x + width / 2, node_y + HIGH + 17, f"unit {unit + 1:,}", "middle")
    many = shape.leaves_per_unit
    each = min((width - 12) / max(many, 1), 90.0)
    whole = each < 12 or many > FEW_BOXES
    if whole:
        leaves = [canvas.box(x + 6, leaf_y, width - 12, "leaf", plural(many, "leaf"), f"{many}")]
    else:
        start = x + (width - each * many) / 2
        word, before = ("rail", 0) if shape.by_rail else ("leaf", unit * many)
        numbers = range(before + 1, before + many + 1)
        leaves = [
            canvas.box(start + place * each + 1, leaf_y, each - 2, "leaf", f"{word} {number:,}", f"{number:,}")
            for place, number in enumerate(numbers)
        ]
    way = f"unit/{unit + 1}" if shape.by_rail and shape.units > 1 else ""
    hosts = [*_nodes(canvas, cluster, nodes, x, width, node_y, way)]
    share = many if whole else 1
    for leaf in leaves:
        down = nodes * share if shape.by_rail else min(shape.leaf_down, shape.nodes * shape.rails) * share
        if len(hosts) * len(leaves) <= FEW_PAIRS and len(hosts) > 1:
            for host in hosts:
                share_of_host = shape.host_rate * down / len(hosts)
                canvas.bundle((host.middle, node_y), (leaf.middle, leaf_y + HIGH), share_of_host, part="node-link")
        else:
            each_leaf = shape.host_rate * down / share
            canvas.bundle((leaf.middle, node_y), (leaf.middle, leaf_y + HIGH), each_leaf, part="node-link")
        if spines is not None:
            up = shape.leaf_up * shape.uplink_rate
            canvas.bundle((leaf.middle, leaf_y), (leaf.middle, spines.y + spines.height), up, part="link")
    if shape.by_rail and not whole:
        top = spines.y + spines.height if spines else leaf_y
        for rail, leaf in enumerate(leaves, 1):
            canvas.follow(f"rail {rail}", (leaf.middle, node_y), (leaf.middle, top))
    if unit == 0:
        per_leaf = nodes if shape.by_rail else min(shape.leaf_down, shape.nodes * shape.rails)
        rate = show(shape.host_rate, "b/s")
        canvas.words(0, node_y - 22, f"{per_leaf:,} × {rate} to a leaf", kind="link")
        if spines is not None:
            links = f"{shape.leaf_up} × {show(shape.uplink_rate, 'b/s')} up"
            canvas.words(0, leaf_y - 38, links + _each_spine(shape), kind="link")


def _nodes_of(shape: FabricShape, unit: int) -> int:
    """How many nodes stand under the leaves of a group."""
    full = shape.nodes_per_unit if shape.by_rail else shape.leaf_down * shape.leaves_per_unit // shape.rails or 1
    return max(min(full, shape.nodes - unit * full), 0)


def _longest_way(canvas: Canvas, bars: list[Box], leaf_y: float, node_y: float) -> None:
    """From a node under the first leaf drawn to one under the last: up to the highest tier and down again."""
    leaves = [box.middle for box in canvas.boxes if box.kind == "leaf"]
    if not bars or len(leaves) < 2:
        return
    top = min(bar.y + bar.height - 12 for bar in bars)
    first, last = leaves[0], leaves[-1]
    canvas.follow(
        "longest", (first, node_y), (first, leaf_y), (first, top), (last, top), (last, leaf_y), (last, node_y)
    )


def _each_spine(shape: FabricShape) -> str:
    spines = shape.spines // shape.rails if shape.rail_spines else shape.spines
    if shape.cores or not spines or shape.leaf_up % spines:
        return ""
    return f", {shape.leaf_up // spines} to a spine"


def _nodes(canvas: Canvas, cluster: Cluster, nodes: int, x: float, width: float, y: float, way: str) -> Iterator[Box]:
    """The nodes of a unit: each where they are few, one block where they are many. ``way`` leads to its drawing."""
    gpus = cluster.gpus_per_node
    if 0 < nodes <= FEW_NODES:
        each = min((width - 12) / nodes, 120.0)
        start = x + (width - each * nodes) / 2
        for place in range(nodes):
            yield canvas.box(start + place * each + 1, y, each - 2, "node", f"{gpus} GPUs", f"{gpus}", place=way)
        return
    block = canvas.box(x + 6, y, width - 12, "node", f"{nodes:,} nodes × {gpus} GPUs", f"{nodes:,} nodes", place=way)
    canvas.frames.append(Box(block.x + 3, y + 3, block.width, block.height, "shadow"))
    yield block


def _between(canvas: Canvas, above: Box, below: Box, links: int, rate: float) -> None:
    """Bundles from one bar to the next."""
    strokes = 8
    for place in range(strokes):
        x = LEFT + (place + 0.5) * (RIGHT - LEFT) / strokes
        canvas.bundle((x, below.y), (x, above.y + above.height), links * rate)
    if links:
        canvas.words(0, below.y - 38, f"{links} × {show(rate, 'b/s')} up from a spine", kind="link")


def _row_words(
    canvas: Canvas, fabric: Fabric, shape: FabricShape, switch: str, upper: list[tuple[str, int]], leaf_y: float
) -> None:
    """What stands left of each row: how many, free ports, and the taper where it happens."""
    tiers = {"super-core": "super_core", "core": "core", "spine": "spine"}
    for row, (name, many) in enumerate(upper):
        y = TOP + ROW * row
        canvas.words(0, y + 14, plural(many, name), kind="tier")
        mark_free(canvas, fabric.ports_free.get(tiers[name], 0), y + 30)
    canvas.words(0, leaf_y + 14, plural(shape.leaves, "leaf"), kind="tier")
    mark_free(canvas, fabric.ports_free.get("leaf", 0), leaf_y + 30)
    canvas.words(0, leaf_y + 46, switch)
    if shape.spines:
        text = f"{shape.oversubscription:.3g} : 1 down to up"
        canvas.words(0, leaf_y - 22, text, kind="taper" if shape.oversubscription > 1.01 else "note")
    if shape.cores:
        text = f"{shape.spine_oversubscription:.3g} : 1 down to up"
        kind = "taper" if shape.spine_oversubscription > 1.01 else "note"
        canvas.words(0, leaf_y - ROW - 22, text, kind=kind)
