"""Storage and management networks as a drawing: hosts, leaves and spines of each, with the links between them."""

from __future__ import annotations

from collections.abc import Sequence

from app.catalog.load import Catalog
from app.plan.band import Band
from app.plan.result import OtherNetwork
from app.report.drawn_parts import HIGH, Canvas, Drawing, plural
from app.report.labels import in_words

WIDE, GAP, INSET = 308.0, 35.0, 2.0
HEAD, ROW = 48.0, 84.0
FEW = 12
"""Switches of a row up to which each is drawn."""


def other_networks(networks: Sequence[OtherNetwork[Band | None]], catalog: Catalog) -> Drawing:
    """The networks beside the compute fabric, one beside the other."""
    most = max((max(network.links.node_leaf, network.links.leaf_spine) for network in networks), default=0)
    canvas = Canvas([], [], [], [], [], float(most), "ethernet")
    for place, network in enumerate(networks):
        _network(canvas, network, catalog, INSET + place * (WIDE + GAP))
    return Drawing(
        width=1000.0,
        height=HEAD + 2 * ROW + HIGH + 12,
        title=f"Networks beside the compute fabric: {', '.join(_name(network) for network in networks)}",
        description=" ".join(_in_words(network, catalog) for network in networks),
        frames=tuple(canvas.frames),
        strokes=tuple(canvas.strokes),
        boxes=tuple(canvas.boxes),
        ticks=(),
        labels=tuple(canvas.labels),
    )


def _name(network: OtherNetwork[Band | None]) -> str:
    return in_words(network.role, "part")


def _above(network: OtherNetwork[Band | None]) -> str:
    """What the leaves lead to."""
    if network.spine_switches:
        return plural(network.spine_switches, "spine")
    return "the in-band network" if network.links.leaf_spine else ""


def _in_words(network: OtherNetwork[Band | None], catalog: Catalog) -> str:
    leaves = f"{plural(network.leaf_switches, 'leaf')} ({catalog.switches[network.switch].name})"
    up = f", {plural(network.links.leaf_spine, 'link')} up to {_above(network)}" if _above(network) else ""
    return f"{_name(network)}: {plural(network.links.node_leaf, 'link')} to {leaves}{up}."


def _network(canvas: Canvas, network: OtherNetwork[Band | None], catalog: Catalog, x: float) -> None:
    """One network: its name, and its rows from the spines down."""
    switch = catalog.switches[network.switch]
    kind = "infiniband" if switch.family == "infiniband" else "ethernet"
    canvas.words(x, 16, _name(network), kind="tier")
    canvas.words(x, 34, switch.name)
    upper, leaf_y, host_y = HEAD, HEAD + ROW, HEAD + 2 * ROW
    leaves = _row(canvas, x, leaf_y, network.leaf_switches, "leaf")
    canvas.box(x, host_y, WIDE, "node", "nodes, servers and switches", "hosts")
    for leaf in leaves:
        canvas.bundle((leaf, host_y), (leaf, leaf_y + HIGH), network.links.node_leaf / len(leaves), kind)
    canvas.words(x, host_y - 20, plural(network.links.node_leaf, "link"), kind="link")
    if not _above(network):
        return
    if network.spine_switches:
        _row(canvas, x, upper, network.spine_switches, "spine")
    else:
        canvas.box(x, upper, WIDE, "spine", _above(network))
    for leaf in leaves:
        canvas.bundle((leaf, leaf_y), (leaf, upper + HIGH), network.links.leaf_spine / len(leaves), kind)
    canvas.words(x, leaf_y - 20, plural(network.links.leaf_spine, "link"), kind="link")


def _row(canvas: Canvas, x: float, y: float, many: int, kind: str) -> list[float]:
    """A row of switches, each where they are few; where their links meet them."""
    if many > FEW:
        return [canvas.box(x, y, WIDE, kind, plural(many, kind)).middle]
    each = WIDE / many
    return [
        canvas.box(x + place * each + 1, y, each - 2, kind, f"{kind} {place + 1}", f"{place + 1}").middle
        for place in range(many)
    ]
