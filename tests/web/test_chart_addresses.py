"""Charts by address: picture, numbers and specification of one plan."""

import asyncio
import csv
import io
import re
from collections.abc import Callable
from html import unescape
from xml.etree import ElementTree

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from app.catalog.load import Catalog
from app.report.charts import named_charts, png, svg
from app.studies.sizing import Question
from app.web.answers import SizeAnswer, size_answer
from app.web.application import create_app
from app.web.heavy_queue import Stopped
from app.web.pages import asked_charts, charts
from app.web.settings import Settings


@pytest.mark.parametrize("name", named_charts.NAMES)
def test_every_chart_has_an_address(client: TestClient, name: str) -> None:
    picture = client.get(f"/chart/{name}.svg?gpus=256&tensor_parallel=4&pipeline_parallel=2")
    assert picture.status_code == 200
    assert picture.headers["content-type"] == "image/svg+xml"
    assert ElementTree.fromstring(picture.text).find("{*}title") is not None


@pytest.mark.parametrize(
    "page",
    [
        "/all-reduce?gpus=64",
        "/fabric?gpus=64",
        "/accuracy",
        "/cost?gpus=64",
        "/serve?gpus=64",
        "/serve/size?gpu=h100-sxm",
        "/size?gpu=h100-sxm&gpus=64",
        "/explore?gpu=h100-sxm&gpus=64",
    ],
)
def test_charts_of_other_pages_lead_to_their_addresses(client: TestClient, page: str) -> None:
    html = client.get(page).text
    assert html.count('<figure class="chart"') == html.count("data-figure=") > 0
    assert '<script type="application/json"' not in html  # what Plotly takes comes when it is asked for
    address = re.findall(r'data-figure="([^"]+)"', html)[-1].replace("&amp;", "&")
    assert client.get(address).json()["data"]
    rows = list(csv.reader(io.StringIO(client.get(address.replace(".json", ".csv")).text)))
    assert len(rows) > 2
    assert len(set(map(len, rows))) == 1


def test_no_two_charts_have_one_address(client: TestClient) -> None:
    assert len(set(charts.NAMES)) == len(charts.NAMES)
    ways = client.get("/chart/ways.csv?gpus=64").text  # which the cloud of the catalogue had taken
    assert ways.startswith("step_time [s],memory [B],")
    assert "/chart/ways.json?gpus=64" in client.get("/plan/parallelism?gpus=64").text


@pytest.mark.parametrize(
    ("page", "field"), [("/all-reduce", "output"), ("/calibrate", "text")], ids=["all-reduce", "calibrate"]
)
def test_a_pasted_measurement_has_an_address_where_it_is_short(client: TestClient, page: str, field: str) -> None:
    line = "{0} {1} float sum -1 {2} 1 1 0 {2} 1 1 0"
    text = "\n".join(line.format(2**power, 2**power // 4, 40 + 2**power / 4e5) for power in range(20, 31, 2))
    html = client.post(page, data={"gpus": "16", field: text}).text
    address = re.findall(r'data-figure="(/chart/own-[^"]+)"', html)[0].replace("&amp;", "&")
    names = [trace["name"] for trace in client.get(address).json()["data"] if trace.get("name")]
    assert any("easured" in name for name in names)
    rows = list(csv.reader(io.StringIO(client.get(address.replace(".json", ".csv")).text)))
    assert [float(row[0]) for row in rows[1:]] == [2**power for power in range(20, 31, 2)]
    long = client.post(page, data={"gpus": "16", field: text + "\n# " + "x" * 8000}).text
    assert "/chart/own-" not in long
    assert '<script type="application/json"' in long


def test_a_comparison_is_a_chart_of_money_and_time(client: TestClient) -> None:
    query = "a.gpus=512&b.gpus=1024&c.gpus=8&c.model=llama-3-405b"
    html = client.get(f"/compare?{query}").text
    assert re.search(r'data-figure="/chart/compare\.json\?[^"]*c\.gpus=8', html)
    rows = list(csv.reader(io.StringIO(client.get(f"/chart/compare.csv?{query}").text)))
    assert [row[0] for row in rows[1:]] == ["A", "B", "C"]
    assert rows[3][2:5] == ["", "", ""]  # C does not fit: it has no time
    figure = client.get(f"/chart/compare.json?{query}").json()
    points = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    assert [point["marker"]["symbol"] for point in points] == ["circle", "square"]
    assert [point["x"][0] for point in points] == [pytest.approx(float(row[3])) for row in rows[1:3]]
    assert figure["layout"]["title"]["text"] == "B is the soonest; A is the cheapest to buy."
    two = client.get("/chart/compare.json?a.gpus=512&b.gpus=1024").json()
    assert two["layout"]["title"]["text"] == "B is sooner; A is cheaper to buy."
    gpus = "a.gpu=mi355x&b.gpu=b300-sxm&c.gpu=gb200&d.gpu=h200-sxm"  # D is late, B and C are dear
    four = client.get(f"/chart/compare.json?{gpus}").json()["layout"]["title"]["text"]
    assert four == "No clear difference in time between A, B and C, nor in price between A and D."
    assert "polygon" in client.get(f"/chart/compare.svg?{query}").text
    assert client.get("/chart/compare.svg?b.gpus=many").json()["errors"][0]["pointer"] == "#/b.gpus"


def test_picture_numbers_and_specification_are_of_one_plan(client: TestClient) -> None:
    query = "?gpus=512&scale_out=roce-400"
    capital = client.get(f"/api/v1/plan{query}").json()["costs"]["capital_parts"]
    rows = list(csv.reader(io.StringIO(client.get(f"/chart/capital.csv{query}").text)))
    assert float(rows[1][2]) == pytest.approx(capital[0]["cost"]["typical"])
    assert rows[1][-1].startswith("http://testserver/?gpus=512&")
    figure = client.get(f"/chart/capital.json{query}").json()
    assert figure["data"][0]["x"] == [pytest.approx(capital[0]["cost"]["typical"])]
    assert figure["layout"]["title"]["text"] in client.get(f"/chart/capital.svg{query}").text.replace("&#x27;", "'")


@pytest.mark.parametrize(
    "address", ["/chart/capital.gif", "/chart/nothing.svg", "/chart/tail.svg?gpus=8&model=llama-3-405b"]
)
def test_what_there_is_no_chart_of_is_said(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    assert "chart" in answer.json()["detail"].lower()


def test_capital_is_a_waterfall_that_adds_up(client: TestClient) -> None:
    *parts, whole = client.get("/chart/capital.json?gpus=512").json()["data"]
    costs = client.get("/api/v1/plan?gpus=512").json()["costs"]
    ends = [0.0]
    for part in parts:
        assert part["base"] == [pytest.approx(ends[-1])]  # each goes on from the one before
        ends.append(ends[-1] + part["x"][0])
    assert len(parts) == len(costs["capital_parts"])
    assert whole["base"] == [0]
    assert whole["x"] == [pytest.approx(ends[-1])]
    assert ends[-1] == pytest.approx(costs["capital"]["typical"])
    assert "64 servers × $285" in client.get("/chart/capital.svg?gpus=512").text  # 512 GPUs, 8 a server


@pytest.mark.parametrize(("query", "width"), [("", 2 * svg.FILE_WIDTH), ("&width=380", 380)], ids=["as it is", "small"])
@pytest.mark.parametrize("name", ["capital", "all-reduce-curves", "buy-or-rent", "accuracy-collectives"])
def test_a_chart_comes_as_dots_of_any_width(client: TestClient, name: str, query: str, width: int) -> None:
    image = client.get(f"/chart/{name}.png?gpus=256{query}")
    assert image.headers["content-type"] == "image/png"
    assert image.content.startswith(b"\x89PNG")
    shape = [int.from_bytes(image.content[at : at + 4]) for at in (16, 20)]
    drawing = client.get(f"/chart/{name}.svg?gpus=256").text
    _, _, wide, tall = map(float, re.findall(r'viewBox="([^"]+)"', drawing)[0].split())
    assert shape == [width, pytest.approx(width * tall / wide, abs=1)]
    kept = client.get(f"/chart/{name}.png?gpus=256{query}", headers={"if-none-match": image.headers["etag"]})
    assert kept.status_code == 304


@pytest.mark.parametrize("query", ["width=99", "width=9999", "width=wide", "width=200&width=300", "a=1&width=200"])
def test_dots_are_refused_where_the_address_asks_for_what_is_not(client: TestClient, query: str) -> None:
    answer = client.get(f"/chart/capital.png?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"#/{query[: query.index('=')]}"


def test_dots_have_every_letter_that_charts_are_written_in(client: TestClient) -> None:
    sheet = '<svg xmlns="http://www.w3.org/2000/svg" {}><text y="30" {}>{}</text></svg>'
    look = ('width="40" height="40"', 'font-size="30" font-family="system-ui, sans-serif"')

    def painted(text: str) -> bytes:
        return png.painted(sheet.format(*look, text), 40, 10)

    drawings = [client.get(f"/chart/{name}.svg?gpus=256").text for name in named_charts.NAMES]
    letters = {letter for drawing in drawings for letter in drawing if letter > "~" and not letter.isspace()}
    assert {"×", "–", "−", "µ"} <= letters
    for letter in sorted(letters | set("A1$%")):
        assert painted(letter) not in (painted(""), painted("\u0378"))  # of which there is no letter


def test_the_code_to_embed_a_chart_stands_beside_it_where_others_may_show_it(client: TestClient) -> None:
    options = Settings(access_log=False, embed_origins="https://wiki.example")
    html = TestClient(create_app(options)).get("/cost").text
    codes = [unescape(code) for code in re.findall(r'<pre class="code"[^>]*><code>(.*?)</code>', html)]
    assert len(codes) == 2 * html.count('<figure class="chart"')
    image, frame = codes[:2]
    assert image.startswith('<img src="http://testserver/chart/which-network.svg" alt="')
    size = re.search(r'src="http://testserver([^"]+)" .*width="(\d+)" height="(\d+)"></iframe>$', frame)
    assert size is not None
    drawing = client.get(size[1]).text
    assert f'width="{size[2]}" height="{size[3]}"' in drawing
    assert "Embed" not in client.get("/cost").text


def test_a_wrong_field_is_named(client: TestClient) -> None:
    assert client.get("/chart/capital.svg?gpus=many").json()["errors"][0]["pointer"] == "#/gpus"


def test_a_chart_that_waited_for_its_turn_has_the_rest_of_the_time(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def later(request: Request, work: Callable[[Stopped], Response], *, heavy: bool) -> Response:
        assert heavy
        await asyncio.sleep(0.5)
        return work(lambda: False)

    def tried(question: Question, catalog: Catalog, seconds: float, stopped: Stopped) -> SizeAnswer:
        given.append(seconds)
        return size_answer(question, catalog, seconds, stopped)

    monkeypatch.setattr(charts, "compute", later)
    monkeypatch.setattr(asked_charts, "size_answer", tried)
    assert client.get("/chart/sizing.svg?gpu=h100-sxm&gpus=64").status_code == 200
    limit = client.app.state.settings.time_limit  # type: ignore[attr-defined]
    assert given[0] < 0.8 * (limit - 0.4)
