"""Figures show the plan's own numbers, in the house style."""

import itertools
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from app.catalog.load import FOLDER, load_catalog
from app.plan.band import Band
from app.plan.evaluate import evaluate
from app.plan.scenario import Scenario
from app.report import tables as report_tables
from app.report.charts import accuracy_charts, curve_charts, plan_charts, serving_charts, svg
from app.report.charts import style as chart_style
from app.report.labels import named
from app.studies import all_reduce_curves, sensitivity
from app.studies import curve as studies_curve
from app.studies.serving_sizing import ServeSizeQuestion, size_serving
from tests.plotly_figures import in_plotly
from tests.sample import sample_plan

PLAN = sample_plan()
CATALOG = load_catalog()
OF_A_PLAN = (
    plan_charts.step_breakdown,
    plan_charts.step_parts,
    plan_charts.step_timeline,
    plan_charts.overlap,
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
    return [trace["x"][0] for trace in figure.data if trace["type"] == "bar"]


@pytest.mark.parametrize("draw", OF_A_PLAN, ids=lambda draw: draw.__name__)
def test_a_figure_is_in_the_house_style(draw):
    figure = draw(PLAN)
    title, subtitle = figure.title, figure.subtitle
    assert title[0].isupper() or title[0].isdigit()
    assert title.endswith(".")
    assert subtitle
    assert figure.layout["xaxis"]["title"]["text"]
    assert figure.layout["paper_bgcolor"] == figure.layout["plot_bgcolor"] == chart_style.CLEAR
    assert in_plotly(figure).layout.template.layout.to_plotly_json() == {}
    assert len(figure.to_json()) < 10_000


@pytest.mark.parametrize("draw", OF_A_PLAN, ids=lambda draw: draw.__name__)
def test_a_figure_is_written_as_plotly_writes_it(draw, real):
    figure = draw(real)
    assert json.loads(figure.to_json()) == json.loads(in_plotly(figure).to_json())


def test_a_misspelt_property_is_refused():
    with pytest.raises(ValueError, match="colour"):
        chart_style.figure("Title.", "Subtitle", [{"type": "bar", "marker": {"colour": "red"}}], height=100, x={}, y={})


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
    assert "not known" in figure.layout["annotations"][0]["text"].lower()


@pytest.mark.parametrize("draw", OF_A_PLAN, ids=lambda draw: draw.__name__)
def test_a_picture_is_drawn_without_a_browser(draw, real) -> None:
    figure = draw(real)
    picture = ElementTree.fromstring(svg.document(figure))
    text = " ".join(picture.itertext())
    assert len(svg.inline(figure, "key")) < 9_000
    assert figure.title in text
    assert figure.layout["xaxis"]["title"]["text"] in text
    assert "var(" not in svg.document(figure)
    bars = [trace for trace in figure.data if trace["type"] == "bar" and trace["x"][0]]
    solid = [box for box in picture.iter("{http://www.w3.org/2000/svg}rect") if box.find("{*}title") is not None]
    assert len(solid) == len(bars)
    for box, trace in zip(solid, bars, strict=True):
        assert float(box.get("width").rstrip("%")) == pytest.approx(
            100 * trace["x"][0] / figure.layout["xaxis"]["range"][1], abs=0.02
        )


def test_a_curve_is_drawn_through_its_values() -> None:
    curve = studies_curve.Curve("c", "T.", "s", "X", "1", "Y", "1", (line("rise", 1.0, 2.0),), False, False)
    figure = curve_charts.lines(curve)
    path = re.search(r'<path d="M0 ([\d.]+)L1000 ([\d.]+)" stroke', svg.inline(figure, "k"))
    low, high = figure.layout["yaxis"]["range"]
    assert path
    top, tall = 12 + 20, 380 - 12 - 20 - 44  # margin and the name of the axis above, marks and name below
    expected = [top + tall * (1 - (y - low) / (high - low)) for y in (1.0, 2.0)]
    assert [float(place) for place in path.groups()] == pytest.approx(expected, abs=0.06)


def test_every_colour_is_named_in_the_style_sheet():
    named = {match for draw in OF_A_PLAN for match in re.findall(r"var\((--[\w-]+)\)", draw(PLAN).to_json())}
    style = (FOLDER.parent.parent / "static" / "style.css").read_text()
    assert named
    assert all(f"{name}:" in style for name in named | {look.colour[4:-1] for look in chart_style.STYLES.values()})


@pytest.mark.parametrize("name", ["scale-up", "infiniband", "ethernet", "pcie", "money", "accent", "muted"])
@pytest.mark.parametrize("scheme", [0, 1])
def test_the_names_of_lines_are_read_in_their_colours(name, scheme):
    """WCAG 2.2, 1.4.3: small text has 4.5:1."""

    def luminance(colour):
        style = (FOLDER.parent.parent / "static" / "style.css").read_text()
        shown = re.search(rf"--{colour}: light-dark\((#\w+), (#\w+)\)", style).group(1 + scheme)
        parts = [int(shown[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(f"chart-{name}"), luminance("paper")))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_bars_are_the_numbers_of_the_plan_and_of_its_table(real):
    tables = report_tables.tables(real, CATALOG)
    parts = [part.time.typical for part in real.training.parts if part.time]
    assert [row[-1].typical for row in tables["step"].rows[:-1]] == parts
    visible = [time for time in parts if time > chart_style.VISIBLE * real.training.step_time.typical]
    assert values(plan_charts.step_parts(real)) == visible
    assert len(visible) > 5
    assert values(plan_charts.memory(real)) == [row[1].typical for row in tables["memory"].rows[:-2] if row[1].typical]
    assert values(plan_charts.power(real))[:-1] == [row[1].typical for row in tables["power"].rows[:-3]]
    shown = [column.key for column in tables["bisection"].columns]
    assert values(plan_charts.bisection(real)) == [
        row[shown.index("per_gpu")].typical for row in tables["bisection"].rows
    ]
    assert values(plan_charts.costs(real))[:-1] == [
        row[1].typical for row in tables["capital"].rows[:-1] if row[1].typical
    ]


def test_whiskers_are_the_ranges_of_the_plan(real):
    parts = {named(part.name): part for part in real.training.parts}
    for trace in in_plotly(plan_charts.step_parts(real)).data:
        part = parts[trace.name]
        low, high = part.time.typical - trace.error_x.arrayminus[0], part.time.typical + trace.error_x.array[0]
        assert (low, high) == pytest.approx((part.time.low, part.time.high))


def test_resources_add_up_to_the_step(real):
    assert sum(values(plan_charts.step_breakdown(real))) == pytest.approx(real.training.step_time.typical, rel=1e-6)


def test_titles_state_what_the_numbers_say():
    # compute 10 s of 16 s, memory traffic 3 s of 16 s
    assert plan_charts.step_breakdown(PLAN).title == "Compute takes 62\u202f% of the step, memory traffic 19\u202f%."
    assert "31\u202f%" in plan_charts.what_if(PLAN).title
    tight = replace(PLAN, memory=replace(PLAN.memory, fits=False))
    assert plan_charts.memory(tight).title == "Does not fit: needs 72\u202f% (65–79) of a GPU's memory."


def test_markup_in_a_name_is_shown_as_text():
    part = replace(PLAN.training.parts[0], name="<b>bold</b>")
    figure = plan_charts.step_parts(replace(PLAN, training=replace(PLAN.training, parts=(part,))))
    assert "&lt;b&gt;bold" in figure.layout["annotations"][0]["text"]
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
    assert curve.plan_point == (message, pytest.approx(real.all_reduce.time.typical, rel=1e-12))
    figure = in_plotly(curve_charts.all_reduce_curves(curve))
    point = figure.data[-1]
    assert (point.x[0], point.y[0]) == curve.plan_point
    quickest = next(trace for trace in figure.data if trace.name == "Quickest")
    assert quickest.y[list(quickest.x).index(message)] == curve.plan_point[1]
    table = report_tables.curve_table(curve)
    row = next(row for row in table.rows if row[0] == message)
    assert row[-1].typical == curve.plan_point[1]


def line(name: str, *heights: float) -> studies_curve.Series:
    y = np.array(heights)
    return studies_curve.Series(name, "nvlink", np.linspace(0.0, 1.0, len(y)), y, y, y)


def test_names_of_lines_stand_where_the_others_are_far() -> None:
    # Two lines that part from left to right: 200 pixels apart at the right end, and none at the left.
    notes = curve_charts._names([line("up", 0.5, 1.0), line("down", 0.5, 0.0)], (), float, float, 200.0)
    assert {note["text"] for note in notes} == {"up", "down"}
    assert all(note["x"] > 0.4 for note in notes)
    assert abs(notes[0]["y"] - notes[1]["y"]) * 200 > curve_charts.LINE


def test_a_name_stands_where_no_other_line_lies_on_its_own() -> None:
    # One line on the left half: with room above it there, either name could be the other's.
    notes = curve_charts._names([line("up", 0, 0, 0, 0.5, 1), line("flat", 0, 0, 0, 0, 0)], (), float, float, 200.0)
    assert all(note["x"] > 0.5 for note in notes)


def test_names_of_lines_that_lie_on_one_another_do_not() -> None:
    same = [0.9, 0.8, 0.4, 0.2, 0.1]
    notes = curve_charts._names([line("GB200, 8", *same), line("B200, 8", *same)], (), float, float, 200.0)
    one, other = ((note["x"] * curve_charts.NARROW, note["y"] * 200) for note in notes)
    wide = curve_charts.LETTER * len("GB200, 8")
    best = replace(line("Quickest", *same), strong=True)  # under which the line of one algorithm lies
    notes = curve_charts._names([best, line("Tree", *same), line("Ring", 0, 0, 0, 0, 1)], (), float, float, 200.0)
    assert {note["text"] for note in notes} == {"Quickest", "Ring"}
    assert abs(one[0] - other[0]) > wide or abs(one[1] - other[1]) >= curve_charts.LINE


@pytest.mark.parametrize(("limit", "side"), [(0.45, "left"), (0.9, "right"), (0.1, "right")])
def test_your_plan_is_named_on_the_side_where_no_limit_stands(limit: float, side: str) -> None:
    # A point right of the middle, near the top: its name goes to the left unless a limit is written there.
    drawn = curve_charts.lines(
        studies_curve.Curve(
            key="front",
            title="",
            subtitle="",
            x_name="",
            x_unit="1",
            y_name="",
            y_unit="1",
            series=(line("best", 1.0, 0.5, 0.2),),
            plan_point=(0.55, 0.9),
            marks=(studies_curve.Mark(limit, "limit 50 ms a token"),),
            x_logarithmic=False,
            y_logarithmic=False,
        )
    )
    (note,) = (note for note in in_plotly(drawn).layout.annotations if note.text == "your plan")
    assert note.xanchor == side


def test_a_cluster_on_two_networks_is_named_once() -> None:
    asked = {"users": 300, "model": "deepseek-v3", "tpot_limit": "33 ms"}
    question = ServeSizeQuestion.model_validate(asked, context={"catalog": CATALOG})
    answer = size_serving(question, CATALOG)
    clusters = [(each.gpu, each.gpus) for each in answer.front]
    names = [note.text for note in in_plotly(serving_charts.candidates(answer, CATALOG)).layout.annotations]
    names = [name for name in names if "×" in name]
    assert len(names) == len(set(names)) == len(set(clusters)) < len(clusters)


def test_twice_the_speed_of_an_answer_costs_what_the_title_of_the_front_says() -> None:
    served = evaluate(Scenario(workload="serving", gpus=64, model="llama-3-70b"), CATALOG).serving
    title = serving_charts.serving_front(served, "nvlink", CATALOG).title
    own, rate = served.interactivity.typical, served.output_tokens_per_second_per_gpu.typical
    faster = max(point.throughput for point in served.front if point.interactivity >= 2 * own)
    share = int(re.search(r"(\d+)\u202f%", title)[1]) / 100
    assert share == pytest.approx(1 - faster / rate, abs=0.05)


@pytest.mark.parametrize("asked", [{"prefill_gpus": 4}, {"users": 1, "serving": "disaggregated"}, {"users": 1}])
def test_the_plans_own_point_of_a_front_is_on_its_axes_and_in_its_title(asked: dict[str, object]) -> None:
    served = evaluate(
        Scenario(workload="serving", gpus=16, model="llama-3-70b", gpu="h200-sxm", **asked), CATALOG
    ).serving
    drawn = in_plotly(serving_charts.serving_front(served, "nvlink", CATALOG))
    own = served.interactivity.typical, served.output_tokens_per_second_per_gpu.typical
    for value, axis in zip(own, (drawn.layout.xaxis, drawn.layout.yaxis), strict=True):
        low, high = axis.range
        assert low - 1e-9 <= math.log10(value) <= high + 1e-9
    if " in your plan" in drawn.layout.title.text:
        assert f" and {own[0]:.0f} in your plan" in drawn.layout.title.text
    else:
        assert own[0] <= served.front[0].interactivity / 2


@pytest.mark.parametrize("message", [1e3, 2e8])
def test_bandwidth_is_drawn_from_where_it_leaves_the_axis_or_from_the_plans_message(message: float) -> None:
    curve = all_reduce_curves.all_reduce_over_sizes(Scenario(), CATALOG, message, "bus_bandwidth")
    quickest = next(trace for trace in in_plotly(curve_charts.lines(curve)).data if trace.name == "Quickest")
    assert quickest.x[0] == message if message < 1e5 else 0 < quickest.y[0] < 0.01 * max(quickest.y) < quickest.y[1]
    assert message in quickest.x


def test_no_name_of_a_line_covers_another_on_a_phone(real) -> None:
    curve = all_reduce_curves.all_reduce_over_sizes(Scenario(), CATALOG, real.all_reduce.message)
    notes = [
        note for note in in_plotly(curve_charts.all_reduce_curves(curve)).layout.annotations if note.xref == "paper"
    ]
    assert len(notes) == len(curve.series)
    boxes = []
    for note in notes:
        wide = curve_charts.LETTER * len(note.text)
        left = note.x * curve_charts.NARROW - {"left": 0, "center": wide / 2, "right": wide}[note.xanchor]
        boxes.append((left, left + wide, note.y * (420 - 76)))
    for one, other in itertools.combinations(boxes, 2):
        beside = one[1] < other[0] or other[1] < one[0]
        assert beside or abs(one[2] - other[2]) >= curve_charts.LINE - 1


def test_accuracy_has_a_point_for_each_measurement():
    group = accuracy_charts.Group("PCIe", "pcie", np.array([1.0, 2.0]), np.array([1.1, 1.9]), ("a", "b"))
    drawn = accuracy_charts.accuracy(accuracy_charts.Scatter("Good.", "Predicted against measured", (group,)))
    figure = in_plotly(drawn)
    points = next(trace for trace in figure.data if trace.name == "PCIe")
    assert list(points.x) == [1.0, 2.0]
    assert figure.layout.xaxis.range == figure.layout.yaxis.range


def test_tornado_is_sorted_and_spans_its_ranges():
    swings = (sensitivity.Swing("prices", "money", 8.0, 13.0), sensitivity.Swing("power", "money", 9.0, 11.0))
    figure = in_plotly(curve_charts.tornado(sensitivity.Sensitivity("Cost", "USD", 10.0, swings)))
    assert [(trace.base[0], trace.base[0] + trace.x[0]) for trace in figure.data] == [(8.0, 13.0), (9.0, 11.0)]
    for row, mark in enumerate(figure.layout.shapes):  # the typical value, in the bars and not through their names
        assert mark.x0 == mark.x1 == 10.0
        assert row < mark.y0 < mark.y1 < row + 0.6


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


def test_all_are_called_all():
    step = PLAN.training.step_time.typical
    slow = replace(PLAN, training=replace(PLAN.training, cloud=((2 * step, 5e10), (3 * step, 6e10))))
    assert "; all of those drawn" in plan_charts.configurations(slow).title
    mixed = replace(PLAN, training=replace(PLAN.training, cloud=((step, 5e10), (3 * step, 6e10))))
    assert "; 50 % of those drawn" in plan_charts.configurations(mixed).title.replace("\u202f", " ")


def test_nothing_is_drawn_outside_of_its_axes() -> None:
    # Words and points lie in a drawing whose overflow is seen: off the axes they stood over the form beside it.
    points = {"x": [1.0, 10.0, 1000.0], "y": [5.0] * 3, "marker": {"size": 8, "color": "red"}, "mode": "markers"}
    notes = [
        chart_style.annotation(word, math.log10(x), 5.0, "left") for word, x in (("inside", 10.0), ("outside", 1000.0))
    ]
    drawn = chart_style.figure(
        "Title", "Words", [{"type": "scatter", **points}], height=200,
        x=chart_style.logarithmic("x", 5.0, 20.0, "1"), y={"title": {"text": "y"}, "range": [0.0, 10.0]},
        annotations=notes,
    )  # fmt: skip
    picture = svg.inline(drawn, "key")
    assert picture.count("<circle") == 1
    assert "inside" in picture
    assert "outside" not in picture


def test_memory_fits_at_its_upper_end_or_the_title_says_that_it_does_not() -> None:
    memory = PLAN.memory
    assert memory.total is not None
    size = memory.total.typical
    for high, begins in ((1.05, "Fits: "), (1.2, "Fits at the typical value, not at the upper end of the range: ")):
        total = Band(0.9 * size, size, high * size, "B")
        capacity = Band(1.1 * size, 1.1 * size, 1.1 * size, "B")
        plan = replace(PLAN, memory=replace(memory, total=total, capacity=capacity, fits=True))
        assert plan_charts.memory(plan).title.startswith(begins)
