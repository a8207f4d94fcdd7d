"""The notebook at /docs/study: its cells run, and print what the page says that they do."""

import ast
import io
import json
import os
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.web import study

NOTEBOOK: dict[str, Any] = json.loads(study.NOTEBOOK.read_text(encoding="utf-8"))


def run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """What a cell prints, and the figure that it leaves, as a notebook keeps them."""
    body = ast.parse(source).body
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "study", "exec"), names)
    lines = printed.getvalue().splitlines(keepends=True)
    outputs: list[dict[str, Any]] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    if isinstance(body[-1], ast.Expr) and "chart" in names:
        figure = {study.PLOTLY: json.loads(names["chart"].to_json())}
        outputs.append({"data": figure, "metadata": {}, "output_type": "display_data"})
    return outputs


def test_its_cells_print_what_it_says() -> None:
    """UPDATE=1 make test ARGS=tests/web/test_study.py writes their outputs anew."""
    names: dict[str, Any] = {}
    code = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    ran = [run("".join(cell["source"]), names) for cell in code]
    if os.environ.get("UPDATE"):
        for number, (cell, outputs) in enumerate(zip(code, ran, strict=True), 1):
            cell |= {"outputs": outputs, "execution_count": number}
        study.NOTEBOOK.write_text(json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        study.cells.cache_clear()
        return
    for cell, outputs in zip(code, ran, strict=True):
        assert [kept.get("text") for kept in cell["outputs"]] == [one.get("text") for one in outputs]
    (kept,), (drawn,) = (
        [output["data"][study.PLOTLY] for output in outputs if "data" in output]
        for outputs in (code[-1]["outputs"], ran[-1])
    )
    assert kept["layout"] == drawn["layout"]
    for line, again in zip(kept["data"], drawn["data"], strict=True):
        assert (line["name"], line["x"], line["y"]) == (again["name"], again["x"], pytest.approx(again["y"]))


def test_the_page_shows_every_cell_and_the_chart(client: TestClient) -> None:
    page = client.get("/docs/study").text
    assert page.count('aria-label="Code"') == sum(cell["cell_type"] == "code" for cell in NOTEBOOK["cells"])
    assert "load_catalog()" in page
    assert re.search(r"H100 SXM", page)
    assert 'id="chart-study"' in page
    assert '"/docs/study"' in client.get("/docs").text


def test_the_chart_has_its_numbers_in_a_table(client: TestClient) -> None:
    (curve,) = (cell.curve for cell in study.cells() if cell.curve)
    page = client.get("/docs/study").text
    rows = re.findall(r"<tr><th[^>]*>([\d,]+)</th>", page[page.index('id="chart-study"') :])
    assert rows == [f"{gpus:,.0f}" for gpus in curve.series[0].x]
