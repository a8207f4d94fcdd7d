"""One step as a timeline: lanes that last as long as the step, and wait as long as its bubble says."""

import pytest

from app.catalog.load import load_catalog
from app.plan.evaluate import evaluate
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.report.charts import plan_charts
from app.studies.step_timeline import MOST_STAGES, timeline
from tests.plotly_figures import in_plotly

CATALOG = load_catalog()
DEEP = {"gpus": 512, "tensor_parallel": 4, "pipeline_parallel": 4, "virtual_pipeline": 1, "schedule": "1f1b"}


def plan_of(**fields: object) -> Plan:
    return evaluate(Scenario.model_validate(fields, context={"catalog": CATALOG}), CATALOG)


@pytest.fixture(scope="module")
def deep() -> Plan:
    return plan_of(**DEEP)


def part(plan: Plan, name: str) -> float:
    return sum(part.time.typical for part in plan.training.parts if part.name == name and part.time)


def test_each_lane_lasts_as_long_as_the_step_and_waits_the_bubble(deep: Plan) -> None:
    lanes = timeline(deep)
    assert [lane.stage for lane in lanes] == [1, 2, 3, 4]
    for lane in lanes:
        ends = [segment.start + segment.length for segment in lane.segments]
        starts = [segment.start for segment in lane.segments]
        assert starts[1:] == pytest.approx(ends[:-1])  # nothing overlaps, and nothing is left out
        assert ends[-1] == pytest.approx(deep.training.step_time.typical)
        waits = sum(segment.length for segment in lane.segments if segment.what == "wait")
        assert waits == pytest.approx(part(deep, "bubble"))
        assert [s.length for s in lane.segments if s.what == "data_parallel"] == [
            pytest.approx(part(deep, "data_parallel"))
        ]


def test_the_first_stage_begins_at_once_and_ends_last(deep: Plan) -> None:
    first, *_, last = timeline(deep)
    assert first.segments[0].what == "forward"
    assert last.segments[0].what == "wait"
    # Four stages: the last one waits three forward passes, a third of the bubble.
    assert last.segments[0].length == pytest.approx(part(deep, "bubble") / 3)
    assert "forward" not in [segment.what for segment in last.segments]  # its first pass is followed by one back


def test_many_stages_are_shown_as_the_first_and_the_last() -> None:
    many = plan_of(gpus=512, tensor_parallel=4, pipeline_parallel=16, model="llama-3-405b")
    lanes = timeline(many)
    assert len(lanes) == MOST_STAGES
    assert lanes[-1].stage == 16


def test_without_a_pipeline_nobody_waits() -> None:
    plan = plan_of(gpus=64, model="llama-3-8b", pipeline_parallel=1)
    (lane,) = timeline(plan)
    assert "wait" not in [segment.what for segment in lane.segments]
    assert "No stage waits" in plan_charts.step_timeline(plan).title


def test_what_cannot_run_has_no_timeline() -> None:
    plan = plan_of(gpus=8, model="llama-3-405b")
    assert timeline(plan) == ()


def test_light_and_solid_of_an_exchange_are_its_time_alone(deep: Plan) -> None:
    bars = {trace.name: trace for trace in in_plotly(plan_charts.overlap(deep)).data}
    for group in deep.training.groups:
        name = plan_charts.named(group.group)
        assert bars[f"{name}, shows"].x[0] == group.exposed
        assert bars[f"{name}, hidden"].base[0] == group.exposed
        assert bars[f"{name}, hidden"].x[0] == pytest.approx(max(group.time - group.exposed, 0))
