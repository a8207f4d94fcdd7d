"""Racks from the front."""

import pytest

from app.report.rack_drawing import HEAD, UNIT, RackOf, rack_elevations


def test_a_rack_is_filled_from_the_floor_unit_by_unit() -> None:
    drawing = rack_elevations([RackOf("node", "node", 32, 4, 8, 40.8e3, ("32 GPUs",))], 48)
    frame, *nodes = drawing.boxes
    assert frame.height == 48 * UNIT
    assert [box.text for box in nodes] == ["node 1", "node 2", "node 3", "node 4"]
    assert all(box.height == pytest.approx(8 * UNIT - 1) for box in nodes)
    assert nodes[-1].y == pytest.approx(HEAD + (48 - 4 * 8) * UNIT + 0.5)  # 4 × 8 of 48 units: 16 are left above
    assert drawing.description == (
        "A rack of nodes: 4 nodes of 8 rack units, at most 40.8\u202fkW, 16 of 48 rack units left, 32 GPUs."
    )


def test_what_stands_side_by_side_still_lies_inside_its_cabinet() -> None:
    drawing = rack_elevations([RackOf("node", "node", 24, 112, 1, 325e3), RackOf("leaf", "switch", 1, 1, 0, 1e3)], 48)
    assert "several side by side" in drawing.description
    assert min(box.y for box in drawing.boxes) >= HEAD
    assert max(box.y + box.height for box in drawing.boxes) <= HEAD + 48 * UNIT
    assert drawing.title == "A rack of nodes and a rack of switches, from the front"
