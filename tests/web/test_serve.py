"""Serving over the interface."""

import pytest
from starlette.testclient import TestClient

API = "/api/v1/serve"


def test_get_and_post_of_one_question_agree(client: TestClient) -> None:
    asked = {"gpu": "h200-sxm", "gpus": 16, "model": "deepseek-v3", "tpot_limit": "40 ms", "engine": "sglang"}
    answer = client.get(API, params=asked).json()
    assert client.post(API, json=asked).json() == answer
    assert {"model_version", "catalog_version", "scenario", "findings", "permalink", "serving", "cluster"} <= set(
        answer
    )
    serving = answer["serving"]
    assert serving["tpot"]["low"] < serving["tpot"]["typical"] < serving["tpot"]["high"]
    assert serving["tpot"]["unit"] == "s"
    assert serving["tpot"]["sources"]
    assert serving["parallelism"]["gpus"] <= 16


def test_a_bare_question_is_answered(client: TestClient) -> None:
    answer = client.get(API)
    assert answer.status_code == 200
    names = "mode parallelism replicas ttft tpot interactivity requests_per_second users parts memory bottleneck costs"
    assert set(names.split()) <= set(answer.json()["serving"])


@pytest.mark.parametrize("fields", [{"tpot_limit": "soon"}, {"engine": "no-such"}, {"prefix_hits": 1}, {"nonsense": 1}])
def test_what_cannot_be_understood_is_refused(client: TestClient, fields: dict) -> None:
    answer = client.get(API, params=fields)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == f"#/{next(iter(fields))}"


def test_what_cannot_be_served_is_null_with_a_finding(client: TestClient) -> None:
    answer = client.get(API, params={"gpus": 8, "model": "deepseek-v3"}).json()
    assert answer["serving"]["users"] is None
    assert answer["findings"][0]["code"] == "serving-does-not-fit"


@pytest.mark.parametrize(
    "query", ["", "gpu=gb200&gpus=72&model=deepseek-v3&tpot_limit=33+ms", "gpus=64&serving=disaggregated&engine=vllm"]
)
def test_the_page_says_what_the_interface_says(client: TestClient, query: str) -> None:
    answer = client.get(f"{API}?{query}").json()
    page = client.get(f"/serve?{query}")
    assert page.status_code == 200
    assert answer["verdict"] in page.text
    assert f'href="/api/v1/serve{"?" if query else ""}' in page.text
    for heading in ("Throughput against speed", "How it runs", "What limits it", "Memory of a GPU", "Cost and energy"):
        assert heading in page.text


def test_the_permalink_opens(client: TestClient) -> None:
    answer = client.get(API, params={"gpus": 32, "users": 100}).json()
    assert answer["permalink"].startswith("/serve?gpus=32&users=100")
    assert client.get(answer["permalink"]).status_code == 200


def test_a_wrong_field_stands_beside_its_message(client: TestClient) -> None:
    page = client.get("/serve?tpot_limit=soon")
    assert page.status_code == 422
    assert "needs your attention" in page.text
    assert 'value="soon"' in page.text


def test_blank_fields_leave_the_address(client: TestClient) -> None:
    answer = client.get("/serve?gpus=32&tpot_limit=&engine=", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/serve?gpus=32"


SIZED = "gpu=h200-sxm&gpu=gb200&model=deepseek-v3&tpot_limit=33+ms&users=300"


def test_sizing_by_get_and_post_agree_and_the_page_says_the_same(client: TestClient) -> None:
    asked = {"gpu": ["h200-sxm", "gb200"], "model": "deepseek-v3", "tpot_limit": "33 ms", "users": 300}
    answer = client.get(f"{API}/size?{SIZED}").json()
    assert client.post(f"{API}/size", json=asked).json() == answer
    assert answer["cheapest"]["tpot"] <= 0.033
    page = client.get(f"/serve/size?{SIZED}")
    assert page.status_code == 200
    for one in answer["candidates"]:
        assert f"/serve?{one['query'].replace('&', '&amp;')}" in page.text
    assert client.get("/serve?" + answer["cheapest"]["query"]).status_code == 200
    assert client.get(answer["permalink"]).status_code == 200


def test_one_candidate_alone_needs_no_list(client: TestClient) -> None:
    answer = client.get(f"{API}/size?gpu=h100-sxm&scale_out=roce-400").json()
    assert {one["gpu"] for one in answer["candidates"]} == {"h100-sxm"}
    assert client.get("/serve/size?users=").status_code == 200
    assert client.get("/serve/size?users=many").status_code == 422


def test_the_accuracy_page_has_serving_by_source_engine_gpu_and_model(client: TestClient) -> None:
    page = client.get("/accuracy")
    assert page.status_code == 200
    for words in ("Operating points of sources left out of the fit", "time per token by engine", "keep the limit"):
        assert words in page.text
    report = client.get("/api/v1/accuracy").json()["serving"]
    assert report["core"]["tpot"]["count"] == 1518
    assert set(report["core"]["ttft"]["by_engine"]) == {"vllm", "sglang", "tensorrt-llm"}


def test_the_nearest_measurements_stand_beside_the_answer(client: TestClient) -> None:
    answer = client.get(API, params={"gpus": 8, "model": "llama-3-70b", "engine": "vllm"}).json()
    nearest = answer["serving"]["nearest"]
    assert nearest
    page = client.get("/serve?gpus=8&model=llama-3-70b&engine=vllm").text
    assert all(one["source"] in page for one in nearest)
