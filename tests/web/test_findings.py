"""A page and the operation that answers the same question say the same findings, worst first."""

import ast
import re
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.plan.findings import SEVERITIES

SCENARIOS = (
    "gpu=rubin&gpus=1001&scale_out=infiniband-gdr&management_links=1&catalog_version=2025-01",
    "gpu=a100-pcie&gpus=4096&scale_out=infiniband-hdr&topology=mesh&algorithm=nvls-tree&scale_up_domain=36",
    "gpus=12&model=llama-3-405b&price_gpu_hour=2.95&scale_out=roce-400&in_network_reduction=true",
)
QUESTIONS = (
    *(("/", "plan", query) for query in SCENARIOS),
    *(("/fabric", "fabric", query) for query in SCENARIOS),
    *(("/all-reduce", "all-reduce", query) for query in SCENARIOS),
    ("/size", "size", "gpu=h100-sxm&gpus=16&price_gpu_hour=2.95&deadline=1+h"),
)


def words(markup: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", " ", markup)).split())


def said(page: str) -> list[tuple[str, str]]:
    """Severity and words of each finding of a page."""
    found = re.search('<section class="findings".*?</section>', page, re.DOTALL)
    items = re.findall('<li class="([a-z]+)">(.*?)</li>', found[0], re.DOTALL) if found else []
    return [(severity, words(text)) for severity, text in items]


@pytest.mark.parametrize(("page", "operation", "query"), QUESTIONS)
def test_a_page_says_the_findings_of_its_operation_in_their_order(
    client: TestClient, page: str, operation: str, query: str
) -> None:
    told = client.get(f"/api/v1/{operation}?{query}").raise_for_status().json()["findings"]
    shown = said(client.get(f"{page}?{query}").raise_for_status().text)
    assert [severity for severity, _ in shown] == [finding["severity"] for finding in told]
    for (_, text), finding in zip(shown, told, strict=True):
        assert words(finding["message"]) in text
    order = [SEVERITIES.index(finding["severity"]) for finding in told]
    assert order == sorted(order)
    assert order


def test_plans_side_by_side_say_each_finding_once_and_the_worst_first(client: TestClient) -> None:
    asked = {"scenarios": [{"gpus": 1001, "gpu": "rubin"}, {"gpus": 8, "model": "llama-3-405b"}]}
    told = client.post("/api/v1/compare", json=asked).raise_for_status().json()
    codes = [finding["code"] for finding in told["findings"]]
    assert {finding["code"] for plan in told["plans"] for finding in plan["findings"]} == set(codes)
    order = [SEVERITIES.index(finding["severity"]) for finding in told["findings"]]
    assert order == sorted(order)


def test_the_page_of_plans_side_by_side_says_the_findings_of_each_in_their_order(client: TestClient) -> None:
    asked = [{"gpus": 1001, "gpu": "rubin"}, {"gpus": 8, "model": "llama-3-405b"}]
    told = client.post("/api/v1/compare", json={"scenarios": asked}).raise_for_status().json()["plans"]
    fields = {
        f"{letter}.{name}": value for letter, plan in zip("ab", asked, strict=True) for name, value in plan.items()
    }
    page = client.get("/compare", params=fields).raise_for_status().text
    section = re.search('<section aria-labelledby="findings-title">.*?</section>', page, re.DOTALL)
    assert section
    items = [words(item).replace(" .", ".") for item in re.findall("<li>(.*?)</li>", section[0], re.DOTALL)]
    said = {letter: [item.split(" · ", 1)[1] for item in items if letter in item.split(" · ")[0]] for letter in "AB"}
    for letter, plan in zip("AB", told, strict=True):
        for item, finding in zip(said[letter], plan["findings"], strict=True):
            assert item.startswith(f"{finding['severity'].capitalize()}. {words(finding['message'])}")


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"calibration": "1.4~0.05,0.97~0.01,1.1~0.12"}, "calibrated"),
        ({"algorithm": "nvls", "gpu": "mi300x"}, "algorithm"),
        ({"topology": "mesh", "gpus": 10_000, "tiers": 1}, "too-many-hosts"),
        ({"electricity": 0.08}, "unusual-value"),
    ],
)
def test_changes_are_followed_by_a_body_as_by_a_link(client: TestClient, asked: dict[str, Any], code: str) -> None:
    told = client.post("/api/v1/plan", json=asked).raise_for_status().json()["findings"]
    (finding,) = (one for one in told if one["code"] == code)
    heeded = client.post("/api/v1/plan", json=asked | finding["changes"]).raise_for_status().json()["findings"]
    assert code not in {one["code"] for one in heeded}
    page = client.get("/", params=asked).raise_for_status().text
    (address,) = re.findall(rf'<a href="([^"]*)">{re.escape(escape(finding["suggestion"]))}</a>', page)[:1]
    assert finding["message"] not in unescape(client.get(unescape(address)).raise_for_status().text)


NOTHING_TO_CHANGE = {"one-node", "nics-included"}
"""A fact of what is bought; the field that says otherwise is named."""
SAID_IN_FULL = {"no-cluster", "unread-document", "unread-output"}
"""Findings whose sentence, made elsewhere, ends with what to change."""


def test_every_finding_says_what_to_change() -> None:
    calls = [
        call
        for path in (Path(__file__).parents[2] / "app").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding"
    ]
    assert len(calls) > 70
    silent = {ast.unparse(call.args[1]).strip("'") for call in calls if len(call.args) < 5}
    assert silent == NOTHING_TO_CHANGE | SAID_IN_FULL


def test_findings_name_parts_and_topologies_as_people_do(client: TestClient) -> None:
    wrong = client.get("/api/v1/fabric?gpus=4096&tiers=2").json()["findings"][0]["message"]
    assert "a rail-optimised tree of 2 tiers" in wrong
    other = client.get("/api/v1/fabric?switch=sn5600").json()["findings"][0]["suggestion"]
    assert "NVIDIA QM9700" in other


@pytest.mark.parametrize(
    "path", ["plan?gpus=64", "serve?gpus=8", "size?gpus=64&gpu=h100-sxm", "serve/size?gpu=h100-sxm"]
)
def test_every_answer_says_which_shape_stands_in_for_a_size(client: TestClient, path: str) -> None:
    told, named = (
        {finding["code"] for finding in client.get(f"/api/v1/{path}&model={model}").json()["findings"]}
        for model in ("8B", "llama-3-8b")
    )
    assert "shape-by-rule" in told
    assert "shape-by-rule" not in named
