"""The published operating points that are shown beside an answer."""

import pytest

from app.catalog.load import load_catalog
from app.plan.serving.serving_request import ServingQuestion
from app.validation.nearest_points import NEAREST, nearest_points

CATALOG = load_catalog()


def test_a_question_that_was_measured_finds_its_own_point_first() -> None:
    asked = ServingQuestion(
        gpu="b200-sxm", model="llama-3-70b", weights="fp8", engine="vllm", input_tokens=921.6, output_tokens=921.6
    )
    points = nearest_points(asked, 0.0115, CATALOG)
    assert len(points) == NEAREST
    first = points[0]
    assert (first.gpu, first.engine, first.input_tokens, first.output_tokens) == ("b200-sxm", "vllm", 921.6, 921.6)
    assert first.measured == pytest.approx(0.0115, rel=0.05)
    assert [one.distance for one in points] == sorted(one.distance for one in points)
    assert all(one.predicted == pytest.approx(one.measured, rel=0.3) for one in points)


def test_a_model_that_nobody_measured_has_none() -> None:
    assert nearest_points(ServingQuestion(model="mistral-7b"), 0.01, CATALOG) == ()
