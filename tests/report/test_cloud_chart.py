"""The chart of the whole catalogue: what each point is, how dense they are drawn, and how many bytes that takes."""

import gzip
import re
from urllib.parse import parse_qsl

import numpy as np
import pytest

from app.catalog.load import load_catalog
from app.plan.result import Parallelism
from app.report.charts import curve_charts, svg
from app.report.charts.style import Figure, figure, logarithmic
from app.studies.cluster_rows import ROW, ClusterRows
from app.studies.whole_catalog import Cloud, CloudQuestion, spots, whole_catalog

CATALOG = load_catalog()
WAY = Parallelism(8, 1, 1, 1, 1, 1, 1, 1, 1, "1f1b", True, "optimizer", 1, "none")


def made_up(many: int) -> Cloud:
    """Clusters of all GPUs and networks: twice the GPUs cost about twice as much and take half as long."""
    rng = np.random.default_rng(1)
    rows = np.zeros(many, ROW)
    for name, kinds in (("gpu", 29), ("scale_out", 13), ("taper", 3)):
        rows[name] = rng.integers(kinds, size=many)
    rows["gpus"] = 8 * 2 ** rng.integers(12, size=many)
    rows["time_to_train"] = 86_400 * 10 ** rng.uniform(4.5, 6, many) / rows["gpus"]
    for name in ("capital", "rental", "run"):
        rows[name] = 10 ** rng.uniform(4, 5.2, many) * rows["gpus"]
    return Cloud((), ClusterRows(rows, (WAY,)), "capital", "model=llama-3-8b", many, many, 29, 29)


def addresses(chart: Figure) -> list[dict[str, str]]:
    """The plans that the points of a cloud lead to, as the script of the page makes their addresses."""
    every = []
    for trace in chart.data:
        if "meta" not in trace:
            continue
        meta = trace["meta"]
        for gpu, network, taper, counts in meta["clusters"]:
            for count in counts:
                cluster = {
                    "gpu": meta["gpus"][gpu][0],
                    "gpus": str(count),
                    "scale_out": meta["networks"][network][0],
                    "oversubscription": f"{taper:g}",
                }
                every.append(cluster | dict(parse_qsl(meta["query"])))
        assert len(every) - len(trace["x"]) in (0, len(chart.data[0]["x"]))
    return every


def test_each_point_is_told_by_the_cluster_that_it_is() -> None:
    question = CloudQuestion.model_validate({"gpu": ["h100-sxm"], "gpus": 64, "model": "llama-3-8b"})
    whole = whole_catalog(question, CATALOG)
    chart = curve_charts.cloud(whole, CATALOG)
    drawn = [point for trace in chart.data if "meta" in trace for point in zip(trace["x"], trace["y"], strict=True)]
    usual = {"gpu": "h100-sxm", "gpus": "1024", "scale_out": "infiniband-ndr", "oversubscription": "1"}
    asked = [usual | dict(parse_qsl(spot.query)) for spot in spots(whole, question, CATALOG)]
    placed = dict(zip((frozenset(address.items()) for address in addresses(chart)), drawn, strict=True))
    assert len(placed) == len(whole.clusters) == len(asked)
    for address, spot in zip(asked, spots(whole, question, CATALOG), strict=True):
        assert placed[frozenset(address.items())] == pytest.approx((spot.time_to_train, spot.cost), rel=5e-5)


def test_twenty_thousand_clusters_stay_within_what_a_page_may_weigh() -> None:
    """Of a page's 220 kB, 60 compressed, the drawing may take half; what Plotly takes of it comes when it is asked."""
    chart = curve_charts.cloud(made_up(24_000), CATALOG)
    drawing, specification = svg.inline(chart, "cloud").encode(), chart.to_json().encode()
    assert len(drawing) < 110_000
    assert len(gzip.compress(drawing)) < 30_000
    assert len(specification) < 1_200_000
    assert len(gzip.compress(specification)) < 250_000
    assert drawing.count(b"<") < 300


def test_where_clusters_are_many_it_is_shown_how_many_there_are() -> None:
    """2,400 points at one place and 100 at another each: a dot in the darkest shade, and one in the lightest."""
    many = {"type": "scatter", "mode": "markers", "name": "Many", "marker": {"size": 5, "color": "red"}}
    places = {"x": [10.0] * 2_400 + [100.0], "y": [10.0] * 2_400 + [100.0]}
    chart = figure(
        "T", "S", [many | places], height=400, x=logarithmic("X", 1, 1000, "s"), y=logarithmic("Y", 1, 1000, "s")
    )
    paths = dict(
        re.findall(
            r'<path d="([^"]+)" stroke="red" stroke-width="[\d.]+" stroke-opacity="([\d.]+)"', svg.inline(chart, "k")
        )
    )
    assert [*paths.values()] == [str(min(svg.SHADES.values())), str(max(svg.SHADES.values()))]
    light, dark = paths
    assert light.count("h0") == dark.count("h0") == 1
    across, down = map(float, re.findall(r"m([\d.]+) ([\d.]+)h0", dark)[0])
    assert across == pytest.approx(1000 / 3, abs=svg.CELL)  # 10 is a third of the way from 1 to 1,000
    assert down > float(re.findall(r"m[\d.]+ ([\d.]+)h0", light)[0])
