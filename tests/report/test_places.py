"""Where a node stands, and the drawing of each place: both say what the list of cables says."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate_network
from app.plan.network import network_of
from app.plan.scenario import Scenario
from app.report.drawn_parts import WIDTH
from app.report.place_drawing import place_drawing
from app.report.places import Hall, Place

CATALOG = load_catalog()


def hall_of(**asked):
    scenario = Scenario(**asked)
    network = network_of(scenario, CATALOG)
    cluster = evaluate_network(scenario, CATALOG).cluster
    hall = Hall.of(network, -(-cluster.nodes // cluster.compute_racks))
    assert hall is not None
    return hall


def test_a_node_stands_in_a_rack_a_unit_and_a_pod() -> None:
    # 2,048 nodes: 32 to a unit; 32 leaves, 4 units of 8 rails, to the spines of a pod; 4 to a rack.
    hall = hall_of(gpus=16384)
    assert hall.sizes == {"pod": 128, "unit": 32, "rack": 4, "node": 1}
    way = [place.name for place in hall.way_to(Place("node", 200))]
    assert way == ["Pod 2", "Unit 7", "Rack 50", "Node 200", "Rail 1"]
    assert list(hall.nodes_of(Place("rack", 50))) == [197, 198, 199, 200]


def test_levels_of_which_there_is_one_are_left_out() -> None:
    assert list(hall_of().sizes) == ["unit", "rack", "node"]
    assert list(hall_of(gpus=64).sizes) == ["rack", "node"]
    assert not hall_of().holds(Place("pod", 1))
    assert not hall_of().holds(Place("node", 129))
    assert not hall_of(topology="torus-2d").holds(Place("rail", 1, 1))


def test_a_nic_ends_where_the_list_of_cables_says() -> None:
    hall = hall_of()
    cables = {(cable.a_end, cable.a_port): cable for cable in network_of(Scenario(), CATALOG).cables()}
    for node, rail in ((1, 1), (28, 3), (33, 8), (128, 5)):
        plug, cable = hall.plug(node, rail), cables[f"node-{node:05d}", rail]
        assert cable.z_end == f"leaf-1-u{plug.unit:03d}-r{plug.leaf:02d}"
        assert (plug.port, plug.length) == (cable.z_port, cable.length)


def test_a_rack_that_two_units_share_is_drawn_whole_and_said() -> None:
    # 32 nodes of a unit in racks of 18: the second rack has the last 14 of them and the first 4 of the next.
    hall = hall_of(gpu="gb200", gpus=2016)
    assert "rack 2 has 14 nodes of unit 1 and 4 of unit 2" in hall.seam
    drawing = drawn(hall, Place("unit", 1), gpu="gb200", gpus=2016)
    kinds = [box.kind for box in drawing.boxes]
    assert (kinds.count("node"), kinds.count("other")) == (32, 4)
    assert hall.seam in drawing.description
    assert not hall_of().seam  # 32 nodes fill 8 racks of 4


def drawn(hall, place, **asked):
    shape = evaluate_network(Scenario(**asked), CATALOG).fabric.shape
    return place_drawing(hall, place, shape, "a switch", "NVLink")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"gpus": 16384},
        {"gpus": 4096, "spine_policy": "rail", "tiers": 3},
        {"gpu": "gb300", "gpus": 9216, "scale_out": "infiniband-xdr"},
        {"gpus": 2048, "topology": "rail-only"},
        {"gpus": 2048, "topology": "torus-3d"},
        {"gpu": "b300-sxm", "gpus": 2048, "scale_out": "spectrum-x-800", "planes": 2},
        {"gpus": 24_576, "scale_out": "roce-400"},
    ],
    ids=str,
)
def test_everything_of_every_level_lies_inside_its_drawing(asked) -> None:
    hall = hall_of(**asked)
    places = [place for place in hall.way_to(Place("node", hall.nodes)) if place.level != "rack"]
    assert places
    for place in places:
        drawing = drawn(hall, place, **asked)
        for box in (*drawing.boxes, *drawing.frames):
            assert box.x >= 0
            assert box.width > 0
            assert box.x + box.width <= WIDTH
            assert box.y + box.height <= drawing.height
        assert all(0 < stroke.width <= 9 for stroke in drawing.strokes)
