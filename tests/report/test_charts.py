"""Figures show the plan's own numbers, in the house style."""

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from app.catalog.load import FOLDER, load_catalog
from app.plan.band import Band
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import tables as report_tables
from app.report.charts import accuracy_charts, curve_charts, plan_charts
from app.report.charts import style as chart_style
from app.report.labels import named
from app.studies import all_reduce_curves, sensitivity
from app.studies import curve as studies_curve
from tests.sample import sample_plan

PLAN = sample_plan()
CATALOG = load_catalog()
OF_A_PLAN = (
    plan_charts.step_parts,
    plan_charts.what_if,
    plan_charts.memory,
    plan_charts.bisection,
    plan_charts.costs,
    plan_charts.operating,
    plan_charts.power,
    plan_charts.all_reduce_alternatives,
    plan_charts.configurations,
)


@pytest.fixture(scope="module")
def real():
    return evaluate(Scenario(), CATALOG)


def values(figure) -> list[float]:
    """The lengths of the bars."""
    return [trace.x[0] for trace in figure.data if trace.type == "bar"]


@pytest.mark.parametrize("draw", OF_A_PLAN, ids=lambda draw: draw.__name__)
def test_a_figure_is_in_the_house_style(draw):
    figure = draw(PLAN)
    title, subtitle = figure.layout.title.text, figure.layout.title.subtitle.text
    assert title[0].isupper() or title[0].isdigit()
    assert title.endswith(".")
    assert subtitle
    assert figure.layout.xaxis.title.text
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == chart_style.CLEAR
    assert figure.layout.template.layout.to_plotly_json() == {}
    assert len(figure.to_json()) < 10_000


@pytest.mark.parametrize("draw", OF_A_PLAN, ids=lambda draw: draw.__name__)
def test_a_figure_of_an_unknown_result_says_so(draw):
    nothing = replace(
        PLAN,
        cluster=replace(PLAN.cluster, power=None),
        fabric=replace(PLAN.fabric, bisection=()),
        all_reduce=replace(PLAN.all_reduce, time=None),
        training=replace(PLAN.training, step_time=None, parts=(), cloud=()),
        memory=replace(PLAN.memory, total=None),
        bottleneck=replace(PLAN.bottleneck, what_if=()),
        costs=replace(PLAN.costs, capital=None, operating=None),
    )
    figure = draw(nothing)
    assert not figure.data
    assert "not known" in figure.layout.annotations[0].text.lower()


def test_every_colour_is_named_in_the_style_sheet():
    named = {match for draw in OF_A_PLAN for match in re.findall(r"var\((--[\w-]+)\)", draw(PLAN).to_json())}
    style = (FOLDER.parent.parent / "static" / "style.css").read_text()
    assert named
    assert all(f"{name}:" in style for name in named | {look.colour[4:-1] for look in chart_style.STYLES.values()})


def test_bars_are_the_numbers_of_the_plan_and_of_its_table(real):
    tables = report_tables.tables(real, CATALOG)
    parts = [part.time.typical for part in real.training.parts if part.time]
    assert [row[-1].typical for row in tables["step"].rows[:-1]] == parts
    visible = [time for time in parts if time > chart_style.VISIBLE * real.training.step_time.typical]
    assert values(plan_charts.step_parts(real)) == visible
    assert len(visible) > 5
    assert values(plan_charts.memory(real)) == [row[1].typical for row in tables["memory"].rows[:-2] if row[1].typical]
    assert values(plan_charts.power(real))[:-1] == [row[1].typical for row in tables["power"].rows[:-3]]
    assert values(plan_charts.bisection(real)) == [row[1].typical for row in tables["bisection"].rows]
    assert values(plan_charts.costs(real)) == [row[1].typical for row in tables["capital"].rows[:-1] if row[1].typical]


def test_whiskers_are_the_ranges_of_the_plan(real):
    parts = {named(part.name): part for part in real.training.parts}
    for trace in plan_charts.step_parts(real).data:
        part = parts[trace.name]
        low, high = part.time.typical - trace.error_x.arrayminus[0], part.time.typical + trace.error_x.array[0]
        assert (low, high) == pytest.approx((part.time.low, part.time.high))


def test_titles_state_what_the_numbers_say():
    assert "31\u202f%" in plan_charts.what_if(PLAN).layout.title.text
    tight = replace(PLAN, memory=replace(PLAN.memory, fits=False))
    assert plan_charts.memory(tight).layout.title.text.startswith("Does not fit: needs 61")


def test_markup_in_a_name_is_shown_as_text():
    part = replace(PLAN.training.parts[0], name="<b>bold</b>")
    figure = plan_charts.step_parts(replace(PLAN, training=replace(PLAN.training, parts=(part,))))
    assert "&lt;b&gt;bold" in figure.layout.annotations[0].text
    assert "</script" not in figure.to_json()


@pytest.mark.parametrize(
    ("key", "family"),
    [
        ("infiniband-ndr", "infiniband"),
        ("roce-400", "roce"),
        ("spectrum-x-800", "spectrum-x"),
        ("nvlink-4", "nvlink"),
        ("pcie-5", "pcie"),
        ("tcp-100", "tcp"),
    ],
)
def test_one_colour_has_one_meaning(key: str, family: str):
    assert chart_style.style_of(key) == chart_style.STYLES[family]


def test_meanings_differ_without_colour_too():
    areas = [
        chart_style.STYLES[name]
        for name in ("compute", "memory_bandwidth", "bubble", "overhead", "nvlink", "infiniband")
    ]
    assert len({look.pattern for look in areas}) == len(areas)
    lines = [chart_style.STYLES[name] for name in ("infiniband", "roce", "tcp")]
    assert len({look.dash for look in lines}) == len(lines)


def test_the_own_case_lies_on_its_curve_and_equals_the_plan(real):
    message = real.all_reduce.message
    curve = all_reduce_curves.all_reduce_over_sizes(Scenario(), CATALOG, message)
    assert curve.own == (message, pytest.approx(real.all_reduce.time.typical, rel=1e-12))
    figure = curve_charts.all_reduce_curves(curve)
    point = figure.data[-1]
    assert (point.x[0], point.y[0]) == curve.own
    quickest = next(trace for trace in figure.data if trace.name == "Quickest")
    assert quickest.y[list(quickest.x).index(message)] == curve.own[1]
    table = report_tables.curve_table(curve)
    row = next(row for row in table.rows if row[0] == message)
    assert row[-1].typical == curve.own[1]


def test_labels_at_the_ends_of_lines_do_not_cover_one_another():
    ends = [("a", 1.0, "red"), ("b", 1.01, "red"), ("c", 1.02, "red"), ("d", 9.9, "red")]
    labels = curve_charts._end_labels(ends, 0.0, 10.0, 300, float)
    spots = sorted(label["y"] for label in labels)
    assert all(second - first >= 16 / 300 - 1e-9 for first, second in itertools.pairwise(spots))
    assert all(0 <= spot <= 1.0001 for spot in spots)


def test_accuracy_has_a_point_for_each_measurement():
    group = accuracy_charts.Group("PCIe", "pcie", np.array([1.0, 2.0]), np.array([1.1, 1.9]), ("a", "b"))
    figure = accuracy_charts.accuracy(accuracy_charts.Scatter("Good.", "Predicted against measured", (group,)))
    points = next(trace for trace in figure.data if trace.name == "PCIe")
    assert list(points.x) == [1.0, 2.0]
    assert figure.layout.xaxis.range == figure.layout.yaxis.range


def test_tornado_is_sorted_and_spans_its_ranges():
    swings = (sensitivity.Swing("prices", "money", 8.0, 13.0), sensitivity.Swing("power", "money", 9.0, 11.0))
    figure = curve_charts.tornado(sensitivity.Sensitivity("Cost", "USD", 10.0, swings))
    assert [(trace.base[0], trace.base[0] + trace.x[0]) for trace in figure.data] == [(8.0, 13.0), (9.0, 11.0)]


def test_a_figure_is_json_without_not_a_number():
    gap = studies_curve.Series(
        "line",
        "nvlink",
        np.array([1.0, 2.0]),
        np.array([1.0, np.nan]),
        np.array([1.0, np.nan]),
        np.array([1.0, np.nan]),
    )
    curve = studies_curve.Curve("c", "T.", "s", "X", "B", "Y", "s", (gap,))
    json.loads(curve_charts.lines(curve).to_json(), parse_constant=pytest.fail)


def test_bands_of_one_value_have_no_whisker():
    exact = Band(1.0, 1.0, 1.0, "s")
    assert chart_style.whisker(exact) == {"visible": False}
