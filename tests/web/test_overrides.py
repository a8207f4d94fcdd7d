"""A service answers with its own catalogue: an operator's overrides reach every answer, and no other service's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
from starlette.testclient import TestClient

from app.catalog.entries import NetworkFamily, marked
from app.catalog.load import load_catalog
from app.plan.scenario import Key, Scenario
from app.web import settings
from app.web.application import create_app
from tests.added_gpu import GPU, SOURCE
from tests.conftest import PATIENCE

CHEAPER = """
[market.prices.node-h100]
typical = "150k USD"
source = "own-datasheet"

[market.prices.gpu-hour-h100]
typical = "2.10 USD/h"
unit = "USD/s"
source = "own-datasheet"
"""


def service(overrides: Path | None = None) -> TestClient:
    return TestClient(create_app(settings.Settings(access_log=False, overrides=overrides, time_limit=PATIENCE)))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A service whose operator pays less, and has a GPU that no other has."""
    folder = tmp_path_factory.mktemp("overrides")
    (folder / "prices.toml").write_text(CHEAPER)
    (folder / "sources.toml").write_text(SOURCE)
    (folder / "gpus.toml").write_text(GPU)
    with service(folder) as made:
        yield made


PATHS = (
    "/api/v1/plan", "/api/v1/fabric", "/api/v1/all-reduce", "/api/v1/catalog/prices/market", "/acceptance.json",
    "/", "/compare", "/fabric", "/all-reduce", "/catalog", "/export/plan.json",
)  # fmt: skip
SIZED = {"gpu": ["h100-sxm"], "gpus": 256, "model": "llama-3-8b", "training_tokens": "1T", "budget_kind": "rental"}


def test_two_services_in_one_process_answer_each_with_its_own_catalogue(client: TestClient, own: TestClient) -> None:
    stock, changed = load_catalog().version, own.app.state.catalog.version  # type: ignore[attr-defined]
    assert stock != changed
    for _ in range(2):  # the second time each has pages and answers of the other to mix up
        for path in PATHS:
            for one, version, other in ((client, stock, changed), (own, changed, stock)):
                answer = one.get(path)
                assert answer.status_code == 200, path
                assert other not in answer.text, path
                if path not in ("/compare", "/fabric", "/all-reduce", "/export/plan.json"):
                    assert version in answer.text or path == "/catalog", path
        rents = [one.get("/api/v1/plan").json()["costs"]["per_run"]["typical"] for one in (client, own)]
        assert rents[1] < 0.9 * rents[0]


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/api/v1/size", SIZED, ("cheapest", "cost")),
        ("/api/v1/compare", {"scenarios": [{}, {"gpus": 512}]}, ("plans", 1, "costs", "rental", "typical")),
        ("/api/v1/sweep", {"grid": {"gpus": [512]}}, ("costs.rental",)),
    ],
)
def test_prices_of_ones_own_reach_the_questions_that_ask_many_plans(
    client: TestClient, own: TestClient, path: str, body: dict[str, Any], place: tuple[str | int, ...]
) -> None:
    def found(one: TestClient) -> float:
        value = one.post(path, json=body).json()
        for step in place:
            value = value[step]
        return float(value)

    stock = load_catalog().prices["market"].prices["gpu-hour-h100"].typical * 3600
    assert found(own) / found(client) == pytest.approx(2.10 / stock, rel=1e-6)


def test_a_key_of_ones_own_is_understood_where_it_is_known_and_nowhere_else(
    client: TestClient, own: TestClient
) -> None:
    assert own.get("/api/v1/plan?gpu=h100-own").json()["cluster"]["gpus"] == 1024
    assert '<option value="h100-own"' in own.get("/").text
    refused = client.get("/api/v1/plan?gpu=h100-own")
    assert refused.status_code == 422
    assert "“h100-own” is not in the catalogue. Did you mean" in refused.json()["detail"]
    assert "h100-own" not in client.get("/").text


@pytest.mark.parametrize(
    "path",
    [
        "/?gpu=h100-own", "/compare?a.gpu=h100-own", "/size?gpu=h100-own&gpus=64&model=llama-3-8b",
        "/curves?gpu=h100-own", "/fabric?gpu=h100-own", "/all-reduce?gpu=h100-own", "/catalog",
        "/catalog/gpus/h100-own", "/accuracy",
        "/acceptance?gpu=h100-own", "/export/plan.xlsx?gpu=h100-own", "/api/v1/catalog/gpus/h100-own",
    ],
)  # fmt: skip
def test_a_gpu_of_ones_own_has_every_page_and_file(own: TestClient, path: str) -> None:
    answer = own.get(path)
    assert answer.status_code == 200, answer.text[:500]


def test_a_gpu_of_ones_own_is_one_of_those_that_its_platform_comes_with(own: TestClient) -> None:
    """The platform takes it without having been told."""
    plan = own.get("/api/v1/plan?gpu=h100-own").json()
    like = own.get("/api/v1/plan?gpu=h100-sxm").json()
    assert [one["code"] for one in plan["findings"]] == [one["code"] for one in like["findings"]]
    assert "h100-own" in own.app.state.catalog.platforms["hgx-h100"].gpus  # type: ignore[attr-defined]


def test_the_document_names_no_entry_of_the_catalogue_so_that_entries_may_come(
    client: TestClient, own: TestClient
) -> None:
    document = client.get("/openapi.json").json()
    assert own.get("/openapi.json").json() == document
    known = {key for each in marked(Scenario, Key).values() for key in each.keys(load_catalog())}
    # A network may be called like its family, and a stack like a regime of published runs: both lists are closed.
    known -= {"custom", "tuned", *get_args(NetworkFamily)}
    assert [key for listed in _lists(document, "enum") for key in listed if key in known] == []
    open_text = {name: schema for name, schema in document["components"]["schemas"].items() if "x-catalog" in schema}
    assert open_text.keys() == {f"field.{name}" for name in marked(Scenario, Key)}
    validators = [jsonschema.Draft202012Validator(schema) for schema in open_text.values()]
    assert all(one.is_valid("tomorrows-gpu") and not one.is_valid("x" * 81) for one in validators)


def _lists(document: Any, name: str) -> Iterator[list[Any]]:
    """Every list of this name, wherever in the document."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == name and isinstance(value, list):
                yield value
            yield from _lists(value, name)
    elif isinstance(document, list):
        for value in document:
            yield from _lists(value, name)
