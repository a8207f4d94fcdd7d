"""The drawing of a fabric: everything has a place inside it, and says what the plan says."""

import re
from itertools import combinations
from math import prod
from pathlib import Path

import jinja2
import pytest

from app.catalog.load import load_catalog
from app.plan.cluster import look_up
from app.plan.evaluate import evaluate_network
from app.plan.scenario import Scenario
from app.report.drawing import WIDTH, draw
from app.report.other_networks_drawing import other_networks

CATALOG = load_catalog()


def drawn(**wish):
    scenario = Scenario(**wish)
    plan, link = evaluate_network(scenario, CATALOG), look_up(scenario, CATALOG).scale_up
    return draw(plan.fabric, plan.cluster, plan.fabric.switch, link.name)


CASES = [
    {},
    {"gpus": 16},
    {"gpus": 64},
    {"gpus": 1016, "management_links": 4, "nodes_per_unit": 32, "oversubscription": 2},
    {"gpus": 16384},
    {"gpus": 4096, "spine_policy": "rail", "tiers": 3},
    {"gpus": 16384, "tiers": 4, "scale_out": "roce-400"},
    {"gpus": 40_000, "topology": "fat-tree"},
    {"gpus": 2048, "topology": "rail-only"},
    {"gpus": 2048, "topology": "mesh", "scale_out": "roce-400"},
    {"gpus": 2048, "topology": "torus-2d"},
    {"gpus": 2048, "topology": "torus-3d"},
    {"gpus": 4096, "topology": "dragonfly"},
    {"gpu": "b300-sxm", "gpus": 2048, "scale_out": "spectrum-x-800", "planes": 2},
    {"gpu": "gb300", "gpus": 9216, "scale_out": "infiniband-xdr"},
    {"gpu": "a10", "gpus": 40, "scale_out": "tcp-100"},
]


@pytest.mark.parametrize("wish", CASES, ids=str)
def test_everything_lies_inside_the_drawing(wish):
    drawing = drawn(**wish)
    for box in (*drawing.boxes, *drawing.frames):
        assert box.x >= 0
        assert box.y >= 0
        assert box.width > 0
        assert box.x + box.width <= WIDTH
        assert box.y + box.height <= drawing.height
    for stroke in drawing.strokes:
        assert all(0 <= x <= WIDTH for x in (stroke.x1, stroke.x2))
        assert all(0 <= y <= drawing.height for y in (stroke.y1, stroke.y2))
        assert 0 < stroke.width <= 9
    assert all(0 <= label.y <= drawing.height for label in drawing.labels)
    assert len(drawing.boxes) + len(drawing.strokes) < 400  # sixteen thousand nodes are summarised


@pytest.mark.parametrize(("gpus", "switches", "links"), [(256, 8, 28), (1024, 32, 31)])
def test_a_mesh_shows_every_switch_and_links_that_are_told_from_each_other(gpus, switches, links):
    # 32 hosts at a switch of 64 ports; 8 switches have 8 × 7 / 2 pairs, and each of 32 has 31 others.
    drawing = drawn(gpus=gpus, topology="mesh")
    assert [box.text for box in drawing.boxes] == [str(number) for number in range(1, switches + 1)]
    assert len(drawing.strokes) == links
    assert any("drawn for switch 1" in label.text for label in drawing.labels) == (gpus == 1024)


def test_the_drawing_says_what_the_plan_says():
    drawing = drawn()
    words = [label.text for label in drawing.labels]
    assert {"32 leaves", "16 spines", "128 nodes", "8 GPUs each on NVLink 4"} <= set(words)
    assert "32 × 400\u202fGb/s up, 2 to a spine" in words
    assert drawing.title == "4 units of 32 nodes under 2 tiers of switches, non-blocking"
    assert "32 leaves (qm9700)" in drawing.description


def test_a_taper_shows_where_it_happens_as_thinner_strokes():
    full, half = drawn(), drawn(oversubscription=2, nodes_per_unit=32)
    assert len({stroke.width for stroke in full.strokes}) == 1
    assert len({stroke.width for stroke in half.strokes}) == 2
    assert any(label.kind == "taper" and "2 : 1" in label.text for label in half.labels)


@pytest.mark.parametrize(
    ("topology", "sides", "backs"),
    [("torus-2d", (6, 6), 12), ("torus-3d", (4, 3, 3), 3)],  # a way back for each row of a plane; one an axis in space
)
def test_a_torus_has_its_axes_and_closes_its_rings(topology, sides, backs):
    drawing = drawn(topology=topology)  # 36 switches
    assert sum(box.kind == "leaf" for box in drawing.boxes) == prod(sides)
    assert sum(stroke.bend != 0 for stroke in drawing.strokes) == backs
    rows = sum(prod(sides) // side * (side - 1) for side in sides)
    assert sum(stroke.bend == 0 for stroke in drawing.strokes) == rows
    spots = [(box.x, box.y) for box in drawing.boxes]
    assert not [1 for (x, y), (u, v) in combinations(spots, 2) if abs(x - u) < 30 and abs(y - v) < 18]  # none covered


def test_a_dragonfly_has_groups_that_are_joined_in_and_among_themselves():
    drawing = drawn(topology="dragonfly")  # two groups of 32 switches, eight of each drawn
    assert len(drawing.frames) == 2
    assert len(drawing.strokes) == 1 + 2 * 8 * 7 // 2
    assert any("2 groups of 32 switches" in label.text for label in drawing.labels)


def test_a_rail_and_the_longest_way_can_be_followed():
    ways = {way.name: way for way in drawn().ways}
    assert list(ways) == [*(f"rail {rail}" for rail in range(1, 9)), "longest"]
    assert len({stroke.x1 for stroke in ways["rail 3"].strokes}) == 4  # its leaf in each of four units
    assert [stroke.x1 == stroke.x2 for stroke in ways["longest"].strokes] == [True, True, False, True, True]
    assert not drawn(topology="torus-3d").ways


def test_a_leaf_of_a_plain_tree_has_its_own_nodes_under_it():
    """All 3,072 nodes once stood under each leaf."""
    drawing = drawn(gpus=24_576, topology="fat-tree", scale_out="roce-400", nodes_per_unit=2, tiers=3)
    nodes = [box for box in drawing.boxes if box.kind == "node"]
    leaves = [box.text for box in drawing.boxes if box.kind == "leaf"]
    assert len(nodes) == 3 * 2  # two under each of the three leaves drawn
    assert leaves == ["leaf 1", "leaf 2", "leaf 1,536"]
    assert not any("3,072 nodes ×" in box.text for box in nodes)


def test_spare_ports_are_hollow_ticks():
    assert not drawn().ticks
    assert drawn(gpus=1016, management_links=4, nodes_per_unit=32).ticks


def test_storage_and_management_networks_are_drawn_as_they_are_bought():
    plan = evaluate_network(Scenario(storage_network=True, management_network=True), CATALOG)
    drawing = other_networks(plan.fabric.networks, CATALOG)
    for network in plan.fabric.networks:
        assert f"{network.links.node_leaf:,} links to {network.leaf_switches} leaves" in drawing.description
    kinds = [box.kind for box in drawing.boxes]
    assert kinds.count("leaf") == sum(network.leaf_switches for network in plan.fabric.networks)
    assert max(box.x + box.width for box in drawing.boxes) <= drawing.width


def test_no_fabric_no_drawing():
    assert drawn(gpus=8) is None
    assert drawn(gpus=100_000) is None  # refused: addresses


def test_the_template_prints_it_with_a_title_for_those_who_cannot_see_it():
    folder = Path(__file__).parents[2] / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined
    )
    drawing = drawn(gpus=1024)
    svg = str(environment.get_template("_drawing.html").module.drawing_of(drawing))
    assert svg.count("<path class=") == len(drawing.strokes)
    assert re.search(r'<svg[^>]*role="img"[^>]*aria-labelledby', svg)
    assert f">{drawing.title}</title>" in svg
    assert "style=" not in svg
