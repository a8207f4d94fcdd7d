"""Serving over the interface."""

import html
import json
import re
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from app.catalog.load import load_catalog
from app.validation.citations import measured_by

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
    figures = page.text.partition('id="verdict"')[2].partition("</dl>")[0]
    tiles = re.findall(r'</dt><dd><a class="figure"[^>]*>([\d,.$KM]+)', figures)
    users, cost = tiles[0], tiles[-1]
    assert f" to {users} users at " in answer["verdict"]
    assert f" output tokens cost {cost}" in answer["verdict"]
    assert f'href="/api/v1/serve{"?" if query else ""}' in page.text
    for heading in (
        "Throughput against speed",
        "How it runs",
        "What limits it",
        "Memory of a GPU",
        "Cost and energy",
        "Nodes and racks",
        "The cluster",
    ):
        assert heading in page.text


def test_the_page_links_to_what_a_finding_advises(client: TestClient) -> None:
    page = client.get("/serve?gpu=a100-sxm&gpus=24&model=deepseek-v3&users=20000")
    link = re.search(r'times what the cluster carries\. <a href="([^"]+)">[\d,]+ GPUs carry it', page.text)
    assert link is not None
    advised = client.get(html.unescape(link[1]))
    assert "A100 SXM 80 GB serve DeepSeek-V3 to 20,000 users" in advised.text
    assert "times what the cluster carries" not in advised.text


def test_one_replica_is_no_replicas(client: TestClient) -> None:
    page = client.get("/serve?gpus=8&tensor_parallel=8&pipeline_parallel=1&users=100").text
    assert "1 replica of 8 GPUs." in page
    assert "Prompts and answers: 1 replica of 8 GPUs (tensor × attention data × pipeline parallel 8 × 1 × 1)." in page


def test_the_permalink_opens(client: TestClient) -> None:
    answer = client.get(API, params={"gpus": 32, "users": 100}).json()
    assert answer["permalink"].startswith("/serve?gpus=32&users=100")
    assert client.get(answer["permalink"]).status_code == 200


def test_a_cluster_that_answers_slowly_where_nobody_said_how_slow_is_a_finding(client: TestClient) -> None:
    asked = "gpu=h200-sxm&model=deepseek-v3&request_rate=1200/min&ttft_limit=2+s"
    answer = client.get("/api/v1/serve/size?" + asked).json()
    (said,) = (finding for finding in answer["findings"] if finding["code"] == "no-limit")
    assert answer["cheapest"]["tpot"] > said["changes"]["tpot_limit"] == 0.05
    page = client.get("/serve/size?" + asked).text
    assert "H200 SXM answer 20 requests a second with DeepSeek-V3 cheapest, at " in page
    (to,) = re.findall(r'<a href="([^"]*)">Say how long it may take', page)
    assert "tpot_limit=50+ms" in to
    limited = client.get("/api/v1" + html.unescape(to)).json()
    assert limited["cheapest"]["tpot"] <= 0.05
    assert "no-limit" not in {finding["code"] for finding in limited["findings"]}


@pytest.mark.parametrize("address", ["/serve", "/serve/size"])
def test_the_answer_stands_before_its_form(client: TestClient, address: str) -> None:
    page = client.get(address).text
    places = [page.index(f'id="{part}"') for part in ("headline", "scenario", "sections")]
    assert places == sorted(places)
    assert '<a class="skip" href="#scenario">' in page


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


def test_a_cluster_that_is_cheapest_and_smallest_is_named_once(client: TestClient) -> None:
    for asked, once in (
        ("gpu=mi355x&users=2000&tpot_limit=50+ms", True),
        ("gpu=h100-sxm&gpu=b200-sxm&users=2000", False),
    ):
        answer = client.get(f"{API}/size?{asked}").json()
        assert (answer["cheapest"] == answer["fewest_gpus"]) is once
        page = client.get(f"/serve/size?{asked}").text
        assert ("<dt>Cheapest, on fewest GPUs</dt>" in page) is once
        assert ("<dt>Fewest GPUs</dt>" in page) is not once


def test_one_candidate_alone_needs_no_list(client: TestClient) -> None:
    answer = client.get(f"{API}/size?gpu=h100-sxm&scale_out=roce-400").json()
    assert {one["gpu"] for one in answer["candidates"]} == {"h100-sxm"}
    assert client.get("/serve/size?users=").status_code == 200
    assert client.get("/serve/size?users=many").status_code == 422


def test_the_accuracy_page_has_serving_by_source_engine_gpu_and_model(client: TestClient) -> None:
    page = client.get("/accuracy")
    assert page.status_code == 200
    for words in (
        "Operating points of sources left out of the fit",
        "time per token by engine",
        "by family of models",
        "Latent attention",
        "keep the limit",
    ):
        assert words in page.text
    report = client.get("/api/v1/accuracy").json()["serving"]
    assert report["core"]["tpot"]["count"] == 1518
    families = report["core"]["tpot"]["by_family"]
    assert sum(errors["count"] for errors in families.values()) == report["core"]["tpot"]["count"]
    assert set(report["core"]["ttft"]["by_engine"]) == {"vllm", "sglang", "tensorrt-llm"}


def test_the_nearest_measurements_stand_beside_the_answer(client: TestClient) -> None:
    answer = client.get(API, params={"gpus": 8, "model": "llama-3-70b", "engine": "vllm"}).json()
    nearest = answer["serving"]["nearest"]
    assert nearest
    page = client.get("/serve?gpus=8&model=llama-3-70b&engine=vllm").text
    assert all(measured_by(one["source"], load_catalog()) in page for one in nearest)


# A plan whose workload is serving ------------------------------------------------------------------------------------

SERVES = {"workload": "serving", "gpus": 64, "tpot_limit": "40 ms", "engine": "vllm"}


def test_a_plan_of_serving_is_the_answer_about_serving_with_fabric_cost_power_and_racks(client: TestClient) -> None:
    long = {"include": "bill_of_materials,details"}
    plan = client.get("/api/v1/plan", params=SERVES | long).json()
    asked = {name: value for name, value in SERVES.items() if name != "workload"}
    answer = client.get(API, params=asked).json()
    for part in ("serving", "cluster", "findings", "verdict", "permalink", "scenario"):
        assert plan[part] == answer[part], part
    assert plan == client.post("/api/v1/plan", params=long, json=SERVES).json()
    network = client.get("/api/v1/fabric", params={"gpus": 64}).json()["fabric"]
    assert plan["fabric"] == network
    assert plan["costs"]["capital"]["typical"] > plan["fabric"]["cost"]["typical"] > 0
    assert plan["training"]["step_time"] is plan["training"]["parallelism"] is plan["costs"]["per_run"] is None
    assert client.get("/api/v1/plan", params={"gpus": 64}).json()["serving"] is None


@pytest.mark.parametrize(
    "query", ["b.workload=serving", "a.workload=serving&b.gpus=512", "c.workload=serving&c.gpus=8"]
)
def test_a_plan_that_serves_stands_beside_one_that_trains(client: TestClient, query: str) -> None:
    page = client.get(f"/compare?{query}")
    assert page.status_code == 200
    assert "Replicas" in page.text
    assert "Step time" in page.text


def test_the_planner_leads_to_the_page_that_serves(client: TestClient) -> None:
    there = client.get("/?workload=serving&gpus=256&tpot_limit=40+ms", follow_redirects=False)
    assert there.status_code == 303
    assert there.headers["location"] == "/serve?gpus=256&tpot_limit=0.04"
    # 1,024 GPUs are the default of a plan and 64 that of serving: the address says which
    blank = client.get("/?workload=serving", follow_redirects=False)
    assert blank.headers["location"] == "/serve?gpus=1024"
    assert client.get("/?workload=serving&gpus=&tpot_limit=40+ms").url.path == "/serve"


def test_where_no_cluster_carries_the_load_none_is_picked(client: TestClient) -> None:
    page = client.get("/serve/size?gpu=h100-sxm&tpot_limit=1+ms").text
    assert "carries the load within the limits" in page
    assert "<dt>Cheapest" not in page
    assert "<dd>–</dd>" not in page


def test_training_is_no_question_of_serving_nor_serving_one_of_sizing(client: TestClient) -> None:
    for address in (f"{API}?workload=training", f"{API}/size?workload=training", "/api/v1/size?workload=serving"):
        answer = client.get(address)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "#/workload"


def test_plans_of_serving_are_compared_by_tokens(client: TestClient) -> None:
    rack = {"gpu": "gb200", "scale_up_domain": 72}
    node = {"gpu": "gb200", "scale_up_domain": 4}
    both = [{**SERVES, "model": "deepseek-v3", **one} for one in (node, rack)]
    answer = client.post("/api/v1/compare", json={"scenarios": both}).json()
    rows = {row["field"]: row for row in answer["differences"]}
    small, large = (plan["serving"]["requests_per_second"]["typical"] for plan in answer["plans"])
    assert rows["serving.requests_per_second"]["changes"][1] == pytest.approx(large / small - 1)
    assert not [field for field in rows if field.startswith("training.")]
    page = client.get(answer["permalink"]).text
    assert "requests, and its tokens cost" in page
    assert "Where the step’s time goes" not in page


def test_a_plan_of_serving_beside_one_of_training_has_both_results(client: TestClient) -> None:
    answer = client.post("/api/v1/compare", json={"scenarios": [SERVES, {"gpus": 64}]}).json()
    rows = {row["field"]: row["values"] for row in answer["differences"]}
    assert rows["serving.users"][1] is None
    assert rows["training.step_time"][0] is None
    assert client.get(answer["permalink"]).status_code == 200


def test_a_sweep_of_serving_has_its_results(client: TestClient) -> None:
    grid = {"base": SERVES, "grid": {"gpus": [32, 64]}}
    rows = [json.loads(line) for line in client.post("/api/v1/sweep", json=grid).text.splitlines()]
    plan = client.get("/api/v1/plan", params=SERVES).json()
    assert [row["gpus"] for row in rows] == [32, 64]
    assert rows[1]["serving.users"] == plan["serving"]["users"]["typical"]
    assert rows[1]["costs.capital"] == plan["costs"]["capital"]["typical"]
    assert "training.step_time" not in rows[1]
    both = {"base": {"gpus": 64}, "grid": {"workload": ["training", "serving"]}, "results": ["serving.users"]}
    lines = client.post("/api/v1/sweep", json=both).text.splitlines()
    assert len(lines) == 2, lines
    training, serving = map(json.loads, lines)
    assert training["serving.users"] is None
    assert serving["serving.users"] > 0


def test_a_plan_of_serving_is_exported(client: TestClient) -> None:
    query = urlencode(SERVES)
    figures = client.get(f"/export/figures.csv?{query}").text
    assert "Users" in figures
    assert "Step time" not in figures
    assert "switch,NVIDIA" in client.get(f"/export/bill_of_materials.csv?{query}").text
    parts = client.get(f"/export/serving_parts.csv?{query}").text
    assert parts.count("answer,") >= 4
    assert client.get(f"/export/plan.xlsx?{query}").status_code == 200
    assert client.get(f"/plan/fabric?{query}").status_code == 200
    assert client.get(f"/plan/training?{query}").status_code == 404


def test_two_clusters_of_one_name_have_one_label_in_the_chart(client: TestClient) -> None:
    asked = {"model": "deepseek-v3", "users": 300, "tpot_limit": "33 ms"}
    front = client.get("/api/v1/serve/size", params=asked).json()["front"]
    clusters = {(one["gpu"], one["gpus"]) for one in front}
    notes = client.get("/chart/serving-candidates.json", params=asked).json()["layout"]["annotations"]
    names = [note["text"] for note in notes if " × " in note["text"]]
    assert len(names) == len(set(names)) == len(clusters) < len(front)


@pytest.mark.parametrize("ending", ["svg", "csv", "json"])
def test_clusters_with_one_pool_and_with_two_stand_in_one_table(client: TestClient, ending: str) -> None:
    asked = {"model": "deepseek-v3", "users": 300, "tpot_limit": "50 ms"}
    pools = {one["prefill"] is None for one in client.get("/api/v1/serve/size", params=asked).json()["candidates"]}
    assert pools == {False, True}
    assert client.get(f"/chart/serving-candidates.{ending}", params=asked).status_code == 200


def test_rates_have_their_names_and_a_load_that_was_given_has_no_range(client: TestClient) -> None:
    def figures(query: str) -> str:
        headline = client.get(f"/serve?model=llama-3-8b&gpus=8&{query}").text.partition('id="headline"')[2]
        return html.unescape(re.sub(r"<[^>]+>", "", headline.partition("</dl>")[0]))

    free = figures("")
    assert re.search(r"Here [\d,]+ \(.*\d\u202frequests/s \([\d.,]+–[\d.,]+\)", free, re.DOTALL)
    assert re.search(r"\d\u202ftokens/s \([\d.]+–[\d.]+\) a user", free)
    given = figures("users=30")
    assert "Its formula30" in given
    assert "30 (" not in given
    assert re.search(r"(?<!\d)20\u202frequests/s(?! \()", figures("request_rate=20/s"))
    assert re.search(r"Here [\d,]+ \(", figures("users=10000000"))  # more than it serves


@pytest.mark.parametrize("field", ["users", "concurrency"])
@pytest.mark.parametrize("text", ["90 %", "some", "3 h"])
def test_a_number_of_users_is_no_share(client: TestClient, field: str, text: str) -> None:
    detail = client.get("/api/v1/serve", params={field: text}).json()["errors"][0]["detail"]
    assert "“300”" in detail
    assert "“90 %”" not in detail.removeprefix("“90 %”")


@pytest.mark.parametrize(
    ("query", "users", "said"),
    [("gpus=64&concurrency=1", "1", "to 1 user at"), ("gpus=8&request_rate=0.02+/s", "under 1", "to under 1 user at")],
)
def test_users_are_whole_people(client: TestClient, query: str, users: str, said: str) -> None:
    page = client.get(f"/serve?{query}").text
    assert re.search(rf'popovertarget="term-serving-users".*?<dd><a [^>]*>{users}</a></dd>', page, re.S)
    assert said in client.get(f"/api/v1/serve?{query}").json()["verdict"]
