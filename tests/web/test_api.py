"""The REST API from outside: names on the wire, bad input, caching, and the document that describes it."""

import csv
import gzip
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import jsonschema
import nanoarrow
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from starlette.testclient import TestClient

from app.catalog.load import KINDS, estimates, load_catalog
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.serving_sizing import ServeSizeQuestion
from app.studies.sizing import Question
from app.units import show
from app.web import api, field_examples, openapi
from app.web import settings as web_settings
from app.web.application import create_app
from app.web.catalog_lists import CatalogQuestion
from app.web.row_formats import ARROW

API = "/api/v1"
OPENAPI = Path(__file__).parent / "openapi.json"


def get(client: TestClient, path: str, **query: Any) -> Any:
    """The JSON of a good answer."""
    answer = client.get(API + path, params=query or None)
    assert answer.status_code == 200, answer.text
    return answer.json()


def is_band(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and {"low", "typical", "high", "unit"} <= value.keys()
        and value["low"] <= value["typical"] <= value["high"]
    )


# Names on the wire ---------------------------------------------------------------------------------------------------

NAMES = {
    "": "scenario findings cluster fabric all_reduce training memory bottleneck costs recommendation model_version "
    "catalog_version permalink",
    "cluster": "nodes gpus racks power",
    "fabric": "topology tiers leaf_switches spine_switches core_switches links bisection ports_free cost "
    "cost_per_host_port cost_per_switch_port cost_per_gpu power bill_of_materials matches",
    "fabric.links": "node_leaf leaf_spine spine_core",
    "all_reduce": "message algorithm protocol time algorithm_bandwidth bus_bandwidth latency_share bandwidth_share "
    "alternatives",
    "training": "parallelism step_time parts mfu hfu tokens_per_second time_to_train",
    "memory": "parts total capacity fits",
    "bottleneck": "resource share what_if",
    "costs": "capital operating total per_gpu_hour per_run rental",
    "recommendation": "scale_out reason rule_of_thumb agrees",
}


@pytest.fixture(scope="module")
def default(client: TestClient) -> dict[str, Any]:
    """The plan of the default scenario."""
    return dict(get(client, "/plan"))


@pytest.mark.parametrize("part", NAMES)
def test_a_plan_has_the_names_that_programs_rely_on(default: dict[str, Any], part: str) -> None:
    value: Any = default
    for name in filter(None, part.split(".")):
        value = value[name]
    assert set(NAMES[part].split()) <= value.keys()


def test_quantities_with_a_unit_are_bands(default: dict[str, Any]) -> None:
    for path in (
        "fabric.cost",
        "all_reduce.time",
        "training.step_time",
        "training.mfu",
        "costs.total",
        "cluster.power",
    ):
        value: Any = default
        for name in path.split("."):
            value = value[name]
        assert is_band(value), path


def test_every_default_is_filled_in(default: dict[str, Any]) -> None:
    assert default["scenario"].keys() == Scenario.model_fields.keys()
    assert default["scenario"]["platform"]
    assert default["scenario"]["tensor_parallel"] >= 1


def test_body_and_query_are_the_same_question(client: TestClient) -> None:
    asked = {"gpus": 512, "scale_out": "roce-400", "gpudirect": False}
    posted = client.post(f"{API}/plan", json=asked)
    assert posted.status_code == 200
    assert posted.json() == get(client, "/plan", gpus="512", scale_out="roce-400", gpudirect="false")


def test_json_writes_whole_numbers_either_way(client: TestClient) -> None:
    assert client.post(f"{API}/fabric", json={"gpus": 512.0}).json() == get(client, "/fabric", gpus=512)
    assert client.post(f"{API}/fabric", json={"gpus": 512.5}).status_code == 422


def test_units_are_understood_everywhere(client: TestClient) -> None:
    text = get(client, "/all-reduce", message="1 MiB", gpus=64)
    number = client.post(f"{API}/all-reduce", json={"message": 2**20, "gpus": 64}).json()
    assert text["all_reduce"] == number["all_reduce"]


def test_the_permalink_opens(client: TestClient, default: dict[str, Any]) -> None:
    assert client.get(default["permalink"]).status_code == 200


SOME_QUESTIONS = {
    "/plan": {"gpus": 64},
    "/fabric": {"gpus": 64},
    "/all-reduce": {"gpus": 64},
    "/serve": {"gpus": 8, "model": "llama-3-8b"},
    "/cost": {"gpus": 64},
    "/size": {"gpu": ["h100-sxm"], "scale_out": ["roce-400"], "gpus": 512},
    "/serve/size": {"gpu": ["h100-sxm"], "model": "llama-3-8b", "users": 10},
    "/compare": {"scenarios": [{"gpus": 8}, {"gpus": 16}]},
}


@pytest.mark.parametrize("path", SOME_QUESTIONS)
def test_every_link_says_which_catalogue_it_was_made_with(client: TestClient, path: str) -> None:
    answer = client.post(API + path, json=SOME_QUESTIONS[path]).json()
    asked = dict(parse_qsl(urlsplit(answer["permalink"]).query))
    assert asked["a.catalog_version" if path == "/compare" else "catalog_version"] == answer["catalog_version"]
    assert client.get(answer["permalink"]).status_code == 200


@pytest.mark.parametrize("path", [path for path in SOME_QUESTIONS if path != "/compare"])
def test_every_answer_to_a_link_of_another_catalogue_says_so(client: TestClient, path: str) -> None:
    fields = SOME_QUESTIONS[path] | {"catalog_version": "2020-01"}
    answer = client.post(API + path, json=fields).json()
    (other,) = (finding for finding in answer["findings"] if finding["code"] == "other-catalogue")
    assert "2020-01" in other["message"]
    assert answer["scenario"]["catalog_version"] == "2020-01"
    assert "2020-01" not in json.dumps(
        {key: value for key, value in answer.items() if key not in ("findings", "scenario")}
    )


def test_a_part_of_the_plan_is_the_same_from_its_own_endpoint(client: TestClient, default: dict[str, Any]) -> None:
    whole = get(client, "/plan", include=["alternatives,bill_of_materials", "details"])
    assert get(client, "/fabric")["fabric"] == whole["fabric"]
    assert get(client, "/all-reduce", message=default["all_reduce"]["message"])["all_reduce"] == whole["all_reduce"]


def test_128_hgx_nodes_take_32_leaves_and_16_spines(client: TestClient) -> None:
    # 1,024 ports of 400 Gb/s down and as many up: 1,024/32 leaves of 64 ports, 1,024/64 spines.
    fabric = get(client, "/fabric", gpu="h100-sxm", gpus=1024, scale_out="infiniband-ndr")["fabric"]
    assert (fabric["leaf_switches"], fabric["spine_switches"]) == (32, 16)
    assert fabric["links"] == {"node_leaf": 1024, "leaf_spine": 1024, "spine_core": 0}


def test_all_reduce_answers_each_pair(client: TestClient) -> None:
    answer = get(client, "/all-reduce", message=["1 MiB", "1 GiB"], gpus=[64, 1024])
    pairs = [(one["message"], one["gpus"]) for one in answer["results"]]
    assert pairs == [(2**20, 64), (2**20, 1024), (2**30, 64), (2**30, 1024)]
    assert all(is_band(one["time"]) for one in answer["results"])
    alone = get(client, "/all-reduce", message="1 GiB", gpus=1024)
    assert alone["results"] == answer["results"][3:]
    posted = client.post(f"{API}/all-reduce", json={"message": ["1 MiB", 2**30], "gpus": [64, 1024]})
    assert posted.json() == answer


def test_an_all_reduce_in_a_graph_is_asked_by_the_scenario_s_own_field(client):
    launched, recorded = (
        get(client, "/all-reduce", gpus=8, message="64 KiB", graphs=graphs)["all_reduce"] for graphs in ("none", "full")
    )
    assert (recorded["algorithm"], recorded["protocol"]) == ("one-shot", "")
    assert recorded["time"]["typical"] < launched["time"]["typical"] / 2
    assert {"one-shot", "two-shot", "ring"} <= {way["algorithm"] for way in recorded["alternatives"]}
    assert "one-shot" not in {way["algorithm"] for way in launched["alternatives"]}


def test_compare_says_what_differs(client: TestClient) -> None:
    body = {"scenarios": [{"scale_out": "infiniband-ndr"}, {"scale_out": "tcp-400"}]}
    answer = client.post(f"{API}/compare", json=body).json()
    assert len(answer["plans"]) == 2
    assert {"field", "values", "cause"} <= answer["differences"][0].keys()
    assert "all_reduce.time" in {one["field"] for one in answer["differences"]}
    assert client.get(answer["permalink"]).status_code == 200


def test_size_answers_the_inverse_question(client: TestClient) -> None:
    asked = {"training_tokens": "2T", "deadline": "90 days", "gpu": "h100-sxm", "gpus": 2048}
    answer = get(client, "/size", **asked, scale_out=["infiniband-ndr", "roce-400"])
    assert {"front", "cheapest", "fastest", "best_value", "break_even"} <= answer.keys()
    assert answer["cheapest"]["time_to_train"] <= 90 * 86400
    body = {**asked, "gpu": ["h100-sxm"], "scale_out": ["infiniband-ndr", "roce-400"]}
    assert client.post(f"{API}/size", json=body).json() == answer


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, {"few-gpus-tried"}),
        ({"gpu": ["h100-sxm", "gb200"]}, set()),
        ({"gpu": ["h100-sxm", "gb200"], "price_node": "$220K"}, {"one-price-for-all"}),
        ({"gpu": "h100-sxm", "price_node": "$220K"}, set()),
    ],
)
def test_size_says_which_candidates_and_whose_price_it_took(
    client: TestClient, asked: dict[str, Any], said: set[str]
) -> None:
    answer = get(client, "/size", gpus=512, model="llama-3-8b", **asked)
    assert {finding["code"] for finding in answer["findings"]} & {"few-gpus-tried", "one-price-for-all"} == said


@pytest.mark.parametrize(("gpu", "doubted"), [("gh200", True), ("h100-sxm", False)])
def test_a_price_that_may_be_a_multiple_or_a_fraction_is_said_with_plan_and_sizing(
    client: TestClient, gpu: str, doubted: bool
) -> None:
    asked = {"gpu": gpu, "model": "llama-3-8b"}
    for answer in (get(client, "/plan", gpus=256, **asked), get(client, "/size", gpus=512, **asked)):
        said = [finding["message"] for finding in answer["findings"] if finding["code"] == "price-in-doubt"]
        assert bool(said) is doubted
        assert all(show(140e3, "USD") in text and "$36–180\u202fK" in text for text in said)
    typed = get(client, "/plan", gpus=256, **asked, price_node="$150K")
    assert "price-in-doubt" not in {finding["code"] for finding in typed["findings"]}


GRID = {"grid": {"gpus": [256, 512], "scale_out": ["infiniband-ndr", "roce-400"], "model": ["llama-3-8b"]}}


def test_a_sweep_streams_rows(client: TestClient) -> None:
    answer = client.post(f"{API}/sweep", json=GRID)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["x-catalog-version"]
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert [(row["gpus"], row["scale_out"]) for row in rows] == [
        (256, "infiniband-ndr"), (256, "roce-400"), (512, "infiniband-ndr"), (512, "roce-400"),
    ]  # fmt: skip
    assert all(row["training.step_time"] > 0 and row["error"] == "" for row in rows)


def test_what_is_wrong_with_a_question_as_a_whole_has_no_pointer_before_it(client: TestClient) -> None:
    problem = client.post("/api/v1/sweep?cursor=abc", json={"grid": {"gpus": [8]}}).json()
    assert problem["errors"][0]["pointer"] == "#"
    assert problem["detail"] == "Send all fields in the body, none in the address."


def test_a_sweep_is_csv_for_a_spreadsheet(client: TestClient) -> None:
    answer = client.post(f"{API}/sweep", json=GRID, headers={"accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    heading, *rows = csv.reader(answer.text.splitlines())
    assert heading[:3] == ["gpus", "scale_out", "model"]
    written = [json.loads(line) for line in client.post(f"{API}/sweep", json=GRID).text.splitlines()]
    for row, other in zip(rows, written, strict=True):
        assert dict(zip(heading, row, strict=True)) == {name: str(value) for name, value in other.items()}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/csv;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("text/csv;q=0", "application/x-ndjson"),
        ("*/*", "application/x-ndjson"),
        ("text/csv, */*;q=0.1", "text/csv"),
        (f"text/csv;q=0.5, {ARROW}", ARROW),
    ],
)
def test_a_sweep_comes_in_the_format_that_is_wanted_most(client: TestClient, accept: str, kind: str) -> None:
    asked = {"grid": {"gpus": [64]}, "results": ["costs.capital"]}
    answer = client.post(f"{API}/sweep", json=asked, headers={"accept": accept})
    assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize("grid", [{}, {"grid": {}}, {"grid": {"gpus": 64}}, {"grid": {"gpus": []}}])
def test_what_is_wrong_with_a_grid_is_said_once(client: TestClient, grid: dict[str, Any]) -> None:
    (wrong,) = client.post(f"{API}/sweep", json=grid).json()["errors"]
    assert wrong["pointer"] in ("#/grid", "#/grid/gpus")


def test_a_number_in_a_body_is_no_text(client: TestClient) -> None:
    (wrong,) = client.post(f"{API}/plan", json={"gpus": "16k"}).json()["errors"]
    assert wrong["detail"] == "Give a whole number, not text or a list."


def test_a_sweep_is_an_arrow_stream_for_a_data_frame(client: TestClient) -> None:
    answer = client.post(f"{API}/sweep", json=GRID, headers={"accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    written = [json.loads(line) for line in client.post(f"{API}/sweep", json=GRID).text.splitlines()]
    read = nanoarrow.ArrayStream.from_readable(answer.content).read_all()
    assert list(read.to_pylist()) == written
    offered = client.get("/openapi.json").json()["paths"][f"{API}/sweep"]["post"]["responses"]["200"]["content"]
    assert ARROW in offered


def test_a_result_that_is_asked_for_twice_is_one_column(client: TestClient) -> None:
    asked = {"grid": {"gpus": [64]}, "results": ["fabric.power", "costs.capital", "fabric.power"]}
    answer = client.post(f"{API}/sweep", json=asked, headers={"accept": "text/csv"})
    heading, row = csv.reader(answer.text.splitlines())
    assert heading == ["gpus", "fabric.power", "costs.capital", "error"]
    (written,) = [json.loads(line) for line in client.post(f"{API}/sweep", json=asked).text.splitlines()]
    assert dict(zip(heading, row, strict=True)) == {name: str(value) for name, value in written.items()}


def test_a_sweep_says_where_a_point_has_no_answer(client: TestClient) -> None:
    answer = client.post(f"{API}/sweep", json={"base": {"model": "llama-3-405b"}, "grid": {"gpus": [8, 1024]}})
    few, many = (json.loads(line) for line in answer.text.splitlines())
    assert few["error"]
    assert few["training.step_time"] is None
    assert many["error"] == ""


def test_the_catalogue_comes_with_its_sources(client: TestClient) -> None:
    entry = get(client, "/catalog/gpus/h100-sxm")
    assert entry["entry"]["memory_bandwidth"]["unit"] == "B/s"
    assert entry["entry"]["source"] in entry["sources"]
    whole = get(client, "/catalog")
    assert whole["kinds"]["gpus"]["h100-sxm"] == entry["entry"]
    assert get(client, "/catalog/gpus")["entries"]["h100-sxm"] == entry["entry"]


CATALOG = load_catalog()
GPUS: Mapping[str, Any] = CATALOG.gpus


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("gpus?vendor=amd&since=2025", {key for key, gpu in GPUS.items() if gpu.vendor == "AMD" and gpu.year >= 2025}),
        ("gpus?vendor=AMD&vendor=NVIDIA&status=announced",
         {key for key, gpu in GPUS.items() if gpu.status == "announced"}),
        ("switches?family=infiniband", {key for key, box in CATALOG.switches.items() if box.family == "infiniband"}),
        ("nics?family=RoCE", {key for key, nic in CATALOG.nics.items() if "roce" in nic.families}),
        ("gpus?q=Superchip+CLOCKED", {key for key, gpu in GPUS.items() if "superchip; clocked" in gpu.note}),
        ("collectives?q=hop", {key for key, group in CATALOG.collectives.items() if "hop" in " ".join((key, *group))}),
        ("sources?q=no-such-word", set()),
    ],
)  # fmt: skip
def test_entries_are_listed_by_what_they_are(client: TestClient, query: str, keys: set[str]) -> None:
    answer = get(client, f"/catalog/{query}")
    assert set(answer["entries"]) == keys
    assert answer["count"] == len(keys)
    assert answer["cursor"] is None
    assert "no-such" in query or keys


@pytest.mark.parametrize("path", ["/catalog?since=2025&limit=7", "/catalog/models?family=llama&limit=4"])
def test_pages_of_a_list_are_the_list(client: TestClient, path: str) -> None:
    whole = get(client, re.sub("&limit=.*", "", path))
    address, entries = API + path, []
    while address:
        page = client.get(address)
        answer = page.json()
        assert answer["count"] == whole["count"]
        kinds = answer.get("kinds") or {"": answer["entries"]}
        listed = [(kind, key, entry) for kind, found in kinds.items() for key, entry in found.items()]
        assert {entry["source"] for _, _, entry in listed} <= answer["sources"].keys()
        entries += listed
        address = page.links["next"]["url"] if "link" in page.headers else ""
        assert (answer["cursor"] is None) == (address == "")
    kinds = whole.get("kinds") or {"": whole["entries"]}
    assert entries == [(kind, key, entry) for kind, found in kinds.items() for key, entry in found.items()]


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/catalog/gpus", "vendor", ["NVIDIA", "AMD"]),
        ("/catalog/scale_out", "family", ["roce", "infiniband"]),
        ("/size?gpus=64&model=llama-3-8b&training_tokens=1B&scale_out=roce-400", "gpu", ["h100-sxm", "l40s"]),
        ("/serve/size?gpus=64&model=llama-3-8b&gpu=h100-sxm", "scale_out", ["roce-400", "infiniband-ndr"]),
    ],
)
def test_keys_may_stand_between_commas(client: TestClient, path: str, name: str, values: list[str]) -> None:
    address = API + path + ("&" if "?" in path else "?")
    listed, repeated = (
        client.get(address + query).json() for query in (f"{name}={','.join(values)}", urlencode({name: values}, True))
    )
    assert listed.get("count") != 0
    assert {k: v for k, v in listed.items() if k != "permalink"} == {
        k: v for k, v in repeated.items() if k != "permalink"
    }


@pytest.mark.parametrize(
    ("path", "name", "most"),
    [
        ("/catalog", "vendor", 20),
        ("/catalog/gpus", "status", 7),
        ("/size?model=llama-3-8b&gpus=64&training_tokens=1B", "gpu", 12),
        ("/serve/size?model=llama-3-8b&gpus=64", "scale_up_domain", 8),
        ("/all-reduce?gpus=64", "message", 256),
    ],
)
def test_blanks_of_a_field_that_repeats_are_the_default_and_counted(
    client: TestClient, path: str, name: str, most: int
) -> None:
    """As the document's maxItems counts them."""
    address = API + path + ("&" if "?" in path else "?")
    assert client.get(address + "&".join([f"{name}="] * most)).status_code == 200
    refused = client.get(address + "&".join([f"{name}="] * (most + 1)))
    assert refused.status_code == 422
    assert refused.json()["errors"] == [{"pointer": f"#/{name}", "detail": f"Give at most {most}."}]


def test_a_name_with_a_comma_is_one(client: TestClient) -> None:
    name = CATALOG.scale_out["efa-400"].name
    assert ", " in name
    answer = get(client, "/size", gpus=64, model="llama-3-8b", gpu="h100-sxm", scale_out=name, training_tokens="1B")
    assert answer["scenario"]["scale_out"] == ["efa-400"]


def test_a_null_where_a_value_is_needed_is_told_to_be_left_out(client: TestClient) -> None:
    for path, body in (("/plan", {"gpus": None}), ("/serve", {"model": None}), ("/all-reduce", {"gpus": [64, None]})):
        (wrong,) = client.post(API + path, json=body).json()["errors"]
        assert wrong["detail"] == "Give a value; leave the field out for its default."


def test_a_cursor_is_of_one_list(client: TestClient) -> None:
    cursor = get(client, "/catalog/gpus", limit=5)["cursor"]
    for other in ("/catalog/models", "/catalog", "/catalog/gpus?vendor=AMD"):
        answer = client.get(API + other, params={"cursor": cursor, **({"vendor": "AMD"} if "?" in other else {})})
        assert is_problem(answer, 422)
        assert answer.json()["errors"][0]["pointer"] == "#/cursor"


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_lists_come_as_csv_with_what_each_row_rests_on(client: TestClient, kind: str) -> None:
    answer = client.get(f"{API}/catalog/{kind}".rstrip("/"), params={"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].endswith('.csv"')
    headings, *rows = csv.reader(answer.text.splitlines())
    assert rows
    assert all(len(row) == len(headings) for row in rows)
    cited = headings.index("sources" if "sources" in headings else "source")
    assert kind == "sources" or all(set(row[cited].split()) <= CATALOG.sources.keys() and row[cited] for row in rows)
    numbers = {(row[1], row[2]) for row in rows} if "typical" in headings else {(row[0], "") for row in rows}
    if kind and "typical" not in headings:
        assert {key for key, _ in numbers} == CATALOG.kind(kind).keys()
    elif kind:
        groups = {key: getattr(group, "prices", group) for key, group in CATALOG.kind(kind).items()}
        assert numbers == {(key, name) for key, group in groups.items() for name in group}
    else:
        assert len(rows) == len(list(estimates(CATALOG)))


def test_a_column_of_a_list_has_the_numbers_of_its_entries(client: TestClient) -> None:
    text = client.get(f"{API}/catalog/gpus", params={"format": "csv"}).text
    row = next(row for row in csv.DictReader(text.splitlines()) if row["key"] == "h100-sxm")
    gpu = CATALOG.gpus["h100-sxm"]
    assert float(row["memory_bandwidth typical [B/s]"]) == gpu.memory_bandwidth.typical
    assert row["fp4 typical [FLOP/s]"] == ""
    assert row["platform"] == gpu.platform
    assert row["permalink"] == "http://testserver/catalog/gpus/h100-sxm"


@pytest.mark.parametrize(
    ("accept", "query", "kind"),
    [
        ("text/csv", "", "text/csv"),
        ("text/*, application/json;q=0.5", "", "text/csv"),
        ("text/csv, */*", "", "text/csv"),
        ("application/json, text/csv", "", "application/json"),
        ("*/*", "", "application/json"),
        ("text/csv", "&format=json", "application/json"),
        ("application/json", "&format=csv", "text/csv"),
    ],
)
def test_a_list_comes_in_the_format_that_is_wanted_most(client: TestClient, accept: str, query: str, kind: str) -> None:
    address = f"{API}/catalog/switches?limit=3{query}"
    answer = client.get(address, headers={"accept": accept})
    assert answer.headers["content-type"].startswith(kind)
    assert answer.headers["vary"] == "accept, accept-encoding"
    same = {"accept": accept, "if-none-match": answer.headers["etag"]}
    assert client.get(address, headers=same).status_code == 304


def test_a_format_of_a_list_is_not_taken_for_another(client: TestClient) -> None:
    address = f"{API}/catalog/gpus"
    for first, second in (("text/csv", "application/json"), ("application/json", "text/csv")):
        tag = client.get(address, headers={"accept": first}).headers["etag"]
        answer = client.get(address, headers={"accept": second, "if-none-match": tag})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(second)


@pytest.mark.parametrize("path", ["/catalog", "/catalog/gpus", "/catalog/prices"])
def test_portions_of_a_list_as_csv_are_one_file(client: TestClient, path: str) -> None:
    whole = client.get(API + path, headers={"accept": "text/csv"})
    address, text = f"{API}{path}?limit=17", ""
    while address:
        page = client.get(address, headers={"accept": "text/csv"})
        assert page.headers["content-type"].endswith("header=absent") == bool(text)
        text += page.text
        address = page.links["next"]["url"] if "link" in page.headers else ""
    assert text == whole.text


def test_a_portion_of_a_list_has_a_heading_where_it_is_asked_for(client: TestClient) -> None:
    first = client.get(f"{API}/catalog/gpus?format=csv&limit=2")
    address, heading = first.links["next"]["url"], first.text.splitlines()[0]
    bare, headed = (client.get(address, headers={"accept": f"text/csv{more}"}) for more in ("", "; header=present"))
    assert headed.text.splitlines() == [heading, *bare.text.splitlines()]
    assert bare.headers["etag"] != headed.headers["etag"]


@pytest.mark.parametrize("part", ["/catalog", "/catalog/gpus", "/catalog/gpus/h100-sxm", "/catalog/sources/arithmetic"])
def test_a_part_of_the_catalogue_names_the_page_that_shows_it(client: TestClient, part: str) -> None:
    page, _, place = get(client, part)["permalink"].partition("#")
    shown = client.get(page)
    assert shown.status_code == 200
    assert not place or f'id="{place}"' in shown.text


def test_accuracy_reports_each_model(client: TestClient) -> None:
    answer = get(client, "/accuracy")
    assert answer["collectives"]["overall"]["count"] > 1000
    assert answer["fabric"]["exact"] > 0
    assert answer["training"]["overall"]["count"] > 300


# Bad input -----------------------------------------------------------------------------------------------------------

WRONG = [
    ({"gpu": "no-such"}, "#/gpu", "not in the catalogue"),
    ({"gpu": "h100-sxn"}, "#/gpu", "h100-sxm"),
    ({"gpus": "twelve"}, "#/gpus", "whole number"),
    ({"gpus": "0"}, "#/gpus", "at least 1"),
    ({"gpus": "-1"}, "#/gpus", "at least 1"),
    ({"gpus": "1e30"}, "#/gpus", "whole number"),
    ({"gpus": "9" * 30}, "#/gpus", "at most 1,000,000"),
    ({"gpus": "nan"}, "#/gpus", "whole number"),
    ({"gpus": " "}, "#/gpus", "leave the field out"),
    ({"gpus": ["8", "16"]}, "#/gpus", "once"),
    ({"message": "12 bananas"}, "#/message", "256 MiB"),
    ({"message": "nan"}, "#/message", "256 MiB"),
    ({"message": "0"}, "#/message", "more than 0"),
    ({"message": "-5 MB"}, "#/message", "more than 0"),
    ({"message": "1e30"}, "#/message", "at most"),
    ({"price_gpu_hour": "500000 USD/h"}, "#/price_gpu_hour", "at most $360,000/h, like “2.95 USD/h”"),
    ({"electricity": "8"}, "#/electricity", "A number without a unit is in USD/J"),
    ({"rack_power": "12 MW"}, "#/rack_power", "at most 10\u202fMW, like “40 kW”"),
    ({"software_date": "2024-06"}, "#/software_date", "“2024.54”"),
    ({"training_tokens": "inf"}, "#/training_tokens", "15T"),
    ({"oversubscription": "0.5"}, "#/oversubscription", "at least 1"),
    ({"oversubscription": "nan"}, "#/oversubscription", "number"),
    ({"topology": "ring"}, "#/topology", "rail-optimized"),
    ({"in_network_reduction": "perhaps"}, "#/in_network_reduction", "true or false"),
    ({"catalog_version": "=1+1"}, "#/catalog_version", "2026-11"),
    ({"nonsense": "1"}, "#/nonsense", "no such field"),
    ({"gpu_s": "1"}, "#/gpu_s", "gpus"),
    ({"a/b~c": "1"}, "#/a~1b~0c", "no such field"),
    ({"deadline": "60 days"}, "#/deadline", "here; /api/v1/size has it"),
    ({"term": "3 years"}, "#/term", "here; /api/v1/cost has it"),
    ({"availability": "95"}, "#/availability", "95 % is 0.95"),
]


def is_problem(answer: Any, status: int) -> bool:
    """Whether an answer is a problem document with this status."""
    body = answer.json()
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == body["request_id"]
    assert body["status"] == status
    return {"type", "title", "detail", "instance"} <= body.keys()


@pytest.mark.parametrize(("query", "pointer", "advice"), WRONG)
def test_what_cannot_be_understood_is_pointed_to(
    client: TestClient, query: Mapping[str, Any], pointer: str, advice: str
) -> None:
    answer = client.get(f"{API}/plan", params=query)
    assert is_problem(answer, 422)
    errors = answer.json()["errors"]
    assert [one["pointer"] for one in errors] == [pointer]
    assert advice in errors[0]["detail"]
    assert errors[0]["detail"].endswith(".")


@pytest.mark.parametrize("name", ["fields", "include", "exclude"])
def test_what_selects_parts_of_an_answer_is_not_taken_for_a_field_of_the_body(client: TestClient, name: str) -> None:
    answer = client.post(f"{API}/plan", json={name: "training"})
    assert is_problem(answer, 422)
    assert "into the address, also of a POST" in answer.json()["errors"][0]["detail"]


def test_every_wrong_field_is_named_at_once(client: TestClient) -> None:
    answer = client.get(f"{API}/plan?gpus=x&message=y&gpu=z&foo=1")
    pointers = {one["pointer"] for one in answer.json()["errors"]}
    assert pointers == {"#/gpus", "#/message", "#/gpu", "#/foo"}


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/plan", {"gpus": "512"}, "#/gpus"),  # JSON has numbers: text is not one
        ("/plan", {"gpus": True}, "#/gpus"),
        ("/plan", {"gpus": ""}, "#/gpus"),
        ("/plan", [1], "#"),
        ("/plan", {"gpus[]": 8}, "#/gpus[]"),
        ("/plan", {"int": 8}, "#/int"),
        ("/all-reduce", {"gpus": [8, 1.5]}, "#/gpus/1"),
        ("/all-reduce", {"gpus": [1, True]}, "#/gpus/1"),
        ("/all-reduce", {"gpus": [8, 16], "message": ["1 MiB", "1 GiB", -1]}, "#/message/2"),
        ("/plan", {"gpus": [8, 16]}, "#/gpus"),
        ("/all-reduce", {"gpus": []}, "#/gpus"),
        ("/all-reduce", {"message": [1, None]}, "#/message/1"),
        ("/all-reduce", {"gpus": list(range(1, 300))}, "#/gpus"),
        ("/compare", {"scenarios": [{}]}, "#/scenarios"),
        ("/compare", {"scenarios": [{}, {"gpus": 0}]}, "#/scenarios/1/gpus"),
        ("/compare", {"scenarios": [{}, {}], "x": 1}, "#/x"),
        ("/size", {"gpu": []}, "#/gpu"),
        ("/size", {"deadline": "soon"}, "#/deadline"),
        ("/sweep", {"grid": {}}, "#/grid"),
        ("/sweep", {"grid": {"nonsense": [1]}}, "#/grid/nonsense"),
        ("/sweep", {"base": {"x": 1}, "grid": {"gpus": [1]}}, "#/base/x"),
        ("/sweep", {"grid": {"planes": [1, 2], "gpus": [8, 0, "x"]}}, "#/grid/gpus/1"),
        ("/sweep", {"grid": {name: list(range(60_000)) for name in ("gpus", "layers")}}, "#/grid"),
    ],
)
def test_wrong_bodies_are_pointed_to(client: TestClient, path: str, body: Any, pointer: str) -> None:
    answer = client.post(API + path, json=body)
    assert is_problem(answer, 422)
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/plan", b'{"gpus": %s}', "#/gpus"),
        ("/compare", b'{"scenarios": [{}, {"gpus": %s}]}', "#/scenarios/1/gpus"),
        ("/sweep", b'{"grid": {"gpus": [%s]}}', "#/grid/gpus/0"),
    ],
)
def test_lists_without_end_are_pointed_to(client: TestClient, path: str, body: bytes, pointer: str) -> None:
    deep = body % (b"[" * 1000 + b"]" * 1000)
    answer = client.post(API + path, content=deep, headers={"content-type": "application/json"})
    assert is_problem(answer, 422)
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/plan", {"gpus": 10**23}, ["Type a number of at most 1,000,000."]),
        ("/plan", {"training_tokens": 1e30}, ["Type a number of at most 1e17."]),
        ("/size", {"gpu": []}, ["Give at least 1 value."]),
        ("/size", {"gpu": ["h100-sxm"] * 20}, ["Give at most 12 values."]),
        ("/size", {"gpu": [5]}, ["Type text."]),
        ("/sweep", {"grid": {}}, ["Give at least 1 field."]),
        ("/sweep", {"grid": {"gpus": [8] * 100_001}}, ["Give at most 100,000 values."]),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(client: TestClient, path: str, body: Any, said: list[str]) -> None:
    answer = client.post(API + path, json=body)
    assert is_problem(answer, 422)
    assert [one["detail"] for one in answer.json()["errors"]] == said


MISSPELT = [f"training.step_timf{number}" for number in range(200)]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/plan?fields=" + ",".join(MISSPELT), None),
        ("/size", {"gpu": ["h100-sxmm"] * 100_000}),
        ("/plan", {"gpu": "x" * 2_000_000}),
        ("/plan", {"gpus": [1.5] * 400_000}),
        ("/sweep", {"grid": {"gpus": [8]}, "results": MISSPELT}),
    ],
    ids=lambda given: "" if given is None else str(given)[:40],
)
def test_looking_for_what_was_meant_takes_no_time(client: TestClient, path: str, body: Any) -> None:
    """They are read on the event loop, where nobody else is answered meanwhile; they took up to two minutes."""
    began = time.process_time()
    answer = client.get(API + path) if body is None else client.post(API + path, json=body)
    assert is_problem(answer, 422)
    assert time.process_time() - began < 0.6  # 0.1 here, of which most is making the request


@pytest.mark.parametrize("text", ["", "{", '{"gpus": NaN}', '{"gpus": 1e999}', "[" * 5000, "\xff", '{"gpus": 1}{}'])
def test_what_is_not_json_is_a_400(client: TestClient, text: str) -> None:
    answer = client.post(f"{API}/plan", content=text.encode("latin-1"), headers={"content-type": "application/json"})
    assert is_problem(answer, 400)


def test_other_refusals_are_problems_too(client: TestClient) -> None:
    assert is_problem(client.post(f"{API}/plan", content=b"gpus=8"), 415)
    assert is_problem(client.post(f"{API}/plan?gpus=8", json={}), 422)
    assert is_problem(client.post(f"{API}/plan", json={"model": "x" * 2_200_000}), 413)
    assert is_problem(client.get(f"{API}/plan", params={"model": "x" * 20_000}), 414)
    assert is_problem(client.get(f"{API}/nowhere"), 404)
    assert is_problem(client.get(f"{API}/catalog/nowhere"), 404)
    assert is_problem(client.get(f"{API}/catalog/gpus/../../settings"), 404)
    missing = client.delete(f"{API}/plan")
    assert is_problem(missing, 405)
    assert missing.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "query",
    [
        {"gpus": "7"},  # not a multiple of the node
        {"gpus": "1000003"[:6]},
        {"gpus": "1", "model": "llama-3-405b"},  # does not fit
        {"gpus": "1000000", "scale_out": "infiniband-edr"},  # more hosts than the topology can carry
        {"gpus": "1000000", "topology": "mesh"},
        {"tensor_parallel": "7"},
        {"pipeline_parallel": "4096"},
        {"micro_batch": "4096"},
        {"global_batch": "1"},
        {"sequence_length": "100000000"},
        {"nics_per_node": "0"},
        {"message": "1"},
        {"scale_up_domain": "1"},
        {"scale_out": "tcp-100", "in_network_reduction": "true"},
    ],
)
def test_what_cannot_be_built_is_a_finding(client: TestClient, query: dict[str, str]) -> None:
    answer = get(client, "/plan", **query)
    assert answer["findings"] or answer["training"]["step_time"]
    if answer["training"]["step_time"] is None or answer["fabric"]["cost"] is None:
        assert any(one["severity"] == "error" and one["message"] for one in answer["findings"])


# Hostile input -------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            "0",
            "-0",
            "1e308",
            "1e-320",
            "nan",
            "-inf",
            "٣",
            "1_000",
            "0x10",
            "1,5",
            "{{7*7}}",
            "${7*7}",
            "../../etc/passwd",
            "%00",
            "\x00",
            "'; --",
            "<script>",
            "=1+1",
            "1" * 400,
            "true",
            "None",
            "null",
            "1e400 GB",
            "5 YB",
            "\ud7ff",
            "💥",
        ]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.builds("{} {}".format, st.floats(0, 1e20), st.sampled_from(["GB", "Gb/s", "us", "days", "T", "%", "USD/h"])),
)
NAMES_ASKED = st.one_of(st.sampled_from(list(Scenario.model_fields)), st.text(max_size=20))
VALUES = st.one_of(
    TEXTS, st.sampled_from(["h100-sxm", "gb200", "mi300x", "l40s", "roce-400", "torus-3d", "1", "8", "64"])
)


@settings(max_examples=75, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/api/v1/all-reduce", "/api/v1/fabric", "/api/v1/plan", "/"]),
    st.lists(st.tuples(NAMES_ASKED, VALUES), max_size=5),
)
@example("/api/v1/plan", [("gpus", "8"), ("gpus", "8")])
def test_hostile_queries_never_break_anything(client: TestClient, path: str, query: list[tuple[str, str]]) -> None:
    pairs = [(name.encode(errors="replace"), value.encode(errors="replace")) for name, value in query]
    answer = client.get(path, params=httpx.QueryParams([(a.decode(), b.decode()) for a, b in pairs]))
    assert answer.status_code in (200, 303, 422), answer.text
    assert "Traceback" not in answer.text
    assert "NaN" not in answer.text or path == "/"


PLAUSIBLE = {
    "gpus": ["1", "8", "64", "1000", "1024", "16384", "1000000"],
    "gpu": ["h100-sxm", "gb200", "mi300x", "a10", "v100-sxm", "rubin"],
    "scale_out": ["tcp-100", "infiniband-xdr", "roce-400", "efa-400", "slingshot-200"],
    "topology": ["mesh", "torus-2d", "torus-3d", "dragonfly", "rail-only", "fat-tree"],
    "model": ["llama-3-8b", "deepseek-v3", "custom"],
    "oversubscription": ["2", "3.5", "64"],
    "planes": ["2", "8"],
    "tiers": ["1", "2", "4"],
    "precision": ["fp8", "nvfp4"],
    "message": ["8 B", "1 TB"],
    "tensor_parallel": ["3", "8"],
    "virtual_pipeline": ["7", "1024"],
    "nics_per_node": ["0", "1", "576"],
    "management_network": ["true"],
    "storage_network": ["true"],
    "global_batch": ["1", "7", "10000000"],
    "sequence_length": ["1", "100000000"],
    "jitter": ["0", "10"],
    "profile": ["ideal"],
    "price_book": ["rule-of-thumb"],
}


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["/api/v1/plan", "/", "/all-reduce", "/fabric", "/acceptance", "/export/plan.csv"]),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in PLAUSIBLE.items()}),
)
@example("/", {"gpus": "1", "management_network": "true"})
@example("/api/v1/plan", {"virtual_pipeline": "1024"})
def test_any_combination_of_plausible_values_is_answered(client: TestClient, path: str, query: dict[str, str]) -> None:
    assert client.get(path, params=query).status_code == 200


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES_ASKED, inner, max_size=4),
        max_leaves=8,
    ),
    st.sampled_from(["/plan", "/all-reduce", "/fabric", "/compare", "/size", "/serve", "/serve/size", "/sweep"]),
)
def test_hostile_bodies_never_break_anything(client: TestClient, body: Any, path: str) -> None:
    answer = client.post(API + path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 422), answer.text


# Caching, HEAD, compression ------------------------------------------------------------------------------------------


def test_an_unchanged_answer_is_a_304(client: TestClient) -> None:
    first = client.get(f"{API}/all-reduce?gpus=64&message=1MiB")
    tag = first.headers["etag"]
    assert not tag.startswith("W/")
    again = client.get(f"{API}/all-reduce?gpus=64&message=1MiB", headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(f"{API}/all-reduce?message=1MiB&gpus=64", headers={"if-none-match": tag}).status_code == 304
    other = client.get(f"{API}/all-reduce?gpus=64&message=2MiB", headers={"if-none-match": tag})
    assert other.status_code == 200


def test_compressed_and_plain_answers_have_tags_of_their_own(client: TestClient) -> None:
    path = f"{API}/all-reduce?gpus=64&message=1MiB"
    with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())
        zipped = answer.headers
    plain = client.get(path, headers={"accept-encoding": "identity"})
    assert zipped["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain.content
    assert zipped["etag"] != plain.headers["etag"]
    assert "accept-encoding" in zipped["vary"]


TAGGED = [
    "/api/v1/all-reduce?gpus=64&message=1MiB", "/api/v1/catalog/gpus", "/", "/fabric?gpus=64", "/docs", "/openapi.json",
    "/export/plan.csv?gpus=64", "/export/plan.xlsx?gpus=64", "/acceptance.json", "/static/docs.js",
]  # fmt: skip


@pytest.mark.parametrize("path", TAGGED)
def test_whatever_can_be_asked_again_is_tagged(client: TestClient, path: str) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    assert client.get(path).content == first.content
    for copies in (tag, "*", f'"other", W/{tag}'):
        again = client.get(path, headers={"if-none-match": copies})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["cache-control"] == first.headers["cache-control"]
    assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200


def test_a_question_without_an_answer_matches_no_tag(client: TestClient) -> None:
    assert client.get(f"{API}/all-reduce?gpus=0", headers={"if-none-match": "*"}).status_code == 422


@pytest.mark.parametrize(
    ("accepts", "zipped"), [("gzip", True), ("*", True), ("gzip;q=0", False), ("*;q=0", False), ("br", False)]
)
@pytest.mark.parametrize("path", [path for path in TAGGED if "xlsx" not in path and "docs.js" not in path])
def test_an_answer_is_compressed_for_who_takes_that(client: TestClient, path: str, accepts: str, zipped: bool) -> None:
    answer = client.get(path, headers={"accept-encoding": accepts})
    assert answer.headers.get("content-encoding") == ("gzip" if zipped else None)
    assert "accept-encoding" in answer.headers["vary"]
    assert answer.content == client.get(path).content


@pytest.mark.parametrize("path", ["/api/v1/plan", "/", "/docs", "/healthz", "/openapi.json"])
def test_head_is_get_without_the_body(client: TestClient, path: str) -> None:
    head, whole = client.head(path), client.get(path)
    assert head.status_code == whole.status_code == 200
    assert head.content == b""
    assert head.headers["content-type"] == whole.headers["content-type"]


# The document --------------------------------------------------------------------------------------------------------


def test_the_committed_document_is_current(client: TestClient) -> None:
    """The API's contract changes only on purpose: UPDATE=1 make test ARGS=tests/web/test_api.py writes it anew."""
    document = client.get("/openapi.json").json()
    if os.environ.get("UPDATE"):
        OPENAPI.write_text("".join(line + "\n" for line in lines(document)))
    assert json.loads(OPENAPI.read_text()) == document


WIDTH = 240
"""Characters of a line of the committed document: a field with all that is said of it mostly fits into one."""


def lines(value: Any, name: str = "", end: str = "") -> Iterator[str]:
    """JSON in as few lines as stay readable: what fits into a line is one, and names and references fill lines."""
    text = name + json.dumps(value, ensure_ascii=False) + end
    if len(text) <= WIDTH or not isinstance(value, dict | list):
        yield text
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    names = [f"{json.dumps(key)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    inner = list(value.values()) if isinstance(value, dict) else value
    ends = [","] * (len(inner) - 1) + [""]
    yield name + opening
    if all(map(is_reference, inner)):
        words = zip(names, inner, ends, strict=True)
        yield from filled(key + json.dumps(one, ensure_ascii=False) + comma for key, one, comma in words)
    else:
        for key, one, comma in zip(names, inner, ends, strict=True):
            yield from (" " + line for line in lines(one, key, comma))
    yield closing + end


def is_reference(value: Any) -> bool:
    """Whether this is a name, a reference to a schema, or one beside null."""
    if not isinstance(value, dict):
        return not isinstance(value, list)
    if value.keys() == {"anyOf"}:
        return all(one == {"type": "null"} or is_reference(one) for one in value["anyOf"])
    return value.keys() == {"$ref"}


def filled(words: Iterable[str]) -> Iterator[str]:
    """Words as lines that are as full as may be."""
    line = ""
    for word in words:
        if len(line) + len(word) >= WIDTH:
            yield line
            line = ""
        line += " " + word
    yield line


def test_the_document_has_each_field_once(client: TestClient) -> None:
    """Written line by line as usual, so that a field's definition, said again elsewhere, is seen."""
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert not [name for name in schemas if "__" in name]
    fields = {name: schemas[f"field.{name}"] for name in Scenario.model_fields}
    written = [json.dumps(field, sort_keys=True) for field in fields.values()]
    assert len(set(written)) == len(written)
    for body in ("Scenario", "AllReduceQuestion", "SizeQuestion"):
        for name, schema in schemas[body]["properties"].items():
            references = [one["$ref"] for one in schema.get("anyOf", [schema]) if "$ref" in one]
            assert len(references) == 1, (body, name)


def responses(document: Mapping[str, Any]) -> Iterator[str]:
    """The names of all records in answers."""
    schemas = document["components"]["schemas"]
    waiting = [
        one["$ref"].rpartition("/")[2]
        for path in document["paths"].values()
        for operation in path.values()
        for content in operation["responses"]["200"]["content"].values()
        for one in content["schema"].get("anyOf", [content["schema"]])
        if "$ref" in one
    ]
    seen = {"Problem", *waiting}
    waiting.append("Problem")
    while waiting:
        name = waiting.pop()
        yield name
        inner = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schemas[name]))) - seen
        seen |= inner
        waiting += inner


def numbers(schema: Any) -> bool:
    """Whether a field holds numbers, by itself or in a list or an object without names of its own."""
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", [])]
    kinds = {schema.get("type")} if isinstance(schema.get("type"), str) else set(schema.get("type", []))
    plain = bool(kinds & {"number", "integer"}) and "string" not in kinds
    reference = schema.get("$ref", "").endswith(("/Quantity", "/Band"))
    return plain or reference or any(numbers(one) for one in inner if isinstance(one, dict))


def test_every_field_of_every_answer_says_what_it_is_and_in_which_unit(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    records = list(responses(document))
    assert {"Plan", "Training", "Candidate", "Difference", "Gpu", "Statistics", "Problem"} <= set(records)
    checked = 0
    for record in records:
        properties = document["components"]["schemas"][record].get("properties", {})
        for name, schema in properties.items():
            assert schema.get("description"), (record, name)
            if numbers(schema):
                assert schema.get("x-unit") or "unit" in properties, (record, name)
                checked += 1
    assert checked > 200


ANSWERED: list[tuple[str, Any]] = [
    ("/plan", None),
    ("/plan?gpus=8&model=llama-3-405b", None),
    ("/plan?gpus=1&nics_per_node=0", None),
    ("/plan?nics_per_node=0", None),
    ("/plan?gpu=mi300x&gpus=4096&topology=dragonfly&storage_network=true&management_network=true", None),
    ("/plan?gpus=1000000&topology=mesh", None),
    ("/plan?gpus=8&global_batch=7&tensor_parallel=3", None),
    ("/plan?restart_time=100+days&failure_rate=1+/h", None),
    ("/all-reduce?message=1MiB&message=1GiB&gpus=1&gpus=64", None),
    ("/fabric?gpus=1000000&scale_out=infiniband-edr", None),
    ("/fabric?gpus=64&gpu=gb200&price_book=rule-of-thumb", None),
    ("/compare", {"scenarios": [{}, {"gpus": 1, "scale_out": "tcp-100"}]}),
    ("/size?gpus=64&gpu=h100-sxm&model=llama-3-8b", None),
    ("/size?gpus=64&gpu=h100-sxm&deadline=1+s", None),
    ("/size?gpus=64&gpu=h20&model=llama-3-8b", None),
    ("/serve?gpu=gb200&gpus=72&model=deepseek-v3&tpot_limit=33+ms&users=300", None),
    ("/serve?gpus=64&serving=disaggregated&engine=sglang", None),
    ("/serve?gpus=8&model=deepseek-v3", None),
    ("/serve/size?gpu=h200-sxm&gpu=gb200&model=deepseek-v3&tpot_limit=33+ms", None),
    ("/serve/size?tpot_limit=1+us", None),
    ("/catalog", None),
    *((f"/catalog/{kind}", None) for kind in KINDS),
    ("/catalog/gpus/h100-sxm", None),
    ("/catalog?q=800G&limit=3", None),
    ("/catalog/sources?limit=3", None),
    ("/catalog/gpus?vendor=nobody", None),
    ("/accuracy", None),
]


@pytest.mark.parametrize(("address", "body"), ANSWERED)
def test_an_answer_is_what_the_document_says(client: TestClient, address: str, body: Any) -> None:
    """No field more, none less, and null only where the document says so."""
    document = client.get("/openapi.json").json()
    answer = client.get(API + address) if body is None else client.post(API + address, json=body)
    assert answer.status_code == 200, answer.text
    parts = address.partition("?")[0].strip("/").split("/")
    named = [parts[0], *("{kind}", "{key}")[: len(parts) - 1]] if parts[0] == "catalog" else parts
    for record in responses(document):
        schema = document["components"]["schemas"][record]
        if "properties" in schema:
            schema["additionalProperties"] = False
    whole, *_ = answered_with(document, API + "/" + "/".join(named), "get" if body is None else "post")
    errors = jsonschema.Draft202012Validator({**document, **whole}).iter_errors(answer.json())
    wrong = [f"{error.json_path}: {error.message[:200]}" for error in islice(errors, 5)]
    assert wrong == []


def answered_with(document: Mapping[str, Any], path: str, method: str) -> list[dict[str, Any]]:
    """What an operation may answer with, the whole first."""
    schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    return list(schema.get("anyOf", [schema]))


SELECTED = [
    ("/plan?fields=training.step_time.typical", None),
    ("/plan?exclude=permalink", None),
    ("/plan?exclude=fabric.links", None),
    ("/all-reduce?fields=results.time&gpus=64", None),
    ("/fabric?exclude=scenario&gpus=64", None),
    ("/compare?fields=plans.cluster.nodes", {"scenarios": [{}, {"gpus": 64}]}),
    ("/serve?fields=verdict&gpus=8&model=llama-3-8b", None),
]


@pytest.mark.parametrize(("address", "body"), SELECTED)
def test_a_selected_answer_is_what_the_document_says(client: TestClient, address: str, body: Any) -> None:
    """It lacks what the whole answer must have, so a client that reads it as the whole would fail."""
    document = client.get("/openapi.json").json()
    answer = client.get(API + address) if body is None else client.post(API + address, json=body)
    path, method = API + address.partition("?")[0], "get" if body is None else "post"
    whole, selected = (
        jsonschema.Draft202012Validator({**document, **one}).is_valid(answer.json())
        for one in answered_with(document, path, method)
    )
    assert (whole, selected) == (False, True)


def test_all_that_can_be_selected_from_says_so(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for found in api.operations:
        for method in found.asked_by:
            asked = document["paths"][found.path][method.lower()].get("parameters", [])
            selects = {"$ref": "#/components/parameters/fields"} in asked
            content = document["paths"][found.path][method.lower()]["responses"]["200"]["content"]
            assert selects == ("anyOf" in content.get("application/json", {}).get("schema", {})), found.name


def test_the_document_says_where_it_is_served() -> None:
    for root in ("", "/railyard"):
        options = web_settings.Settings(root_path=root, access_log=False)
        with TestClient(create_app(options)) as client:
            document = client.get(f"{root}/openapi.json").json()
        assert document["servers"] == [{"url": root or "/"}]
        assert document["security"] == []
        named = {tag["name"] for tag in document["tags"]}
        for path in document["paths"].values():
            for operation in path.values():
                assert set(operation["tags"]) <= named


def test_the_files_that_the_document_names_are_there(client: TestClient) -> None:
    named = re.findall(r"`(/export/[^`]+)`", client.get("/openapi.json").json()["info"]["description"])
    assert named == ["/export/purchases.csv", "/export/plan.csv"]
    texts = [client.get(path, params={"gpus": "0.064k", "model": "llama-3-8b"}).text for path in named]
    lines = list(csv.DictReader(texts[0].splitlines()))
    assert all(line["key"] and float(line["quantity"]) > 0 for line in lines)
    network = sum(float(line["cost typical [USD]"]) for line in lines if line["bought_for"] == "Compute network")
    assert network == pytest.approx(get(client, "/fabric", gpus=64)["fabric"]["cost"]["typical"])
    assert "Everything to buy" in texts[1]


def test_every_operation_is_described(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names) >= 14
    refusals = document["components"]["responses"]
    for one in operations:
        assert one["summary"]
        assert one["description"]
        for status, answer in one["responses"].items():
            if status >= "400":
                assert "application/problem+json" in refusals[answer["$ref"].rpartition("/")[2]]["content"]


def test_a_question_has_one_schema_for_query_and_body(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    asked = [one["$ref"].rpartition("/")[2] for one in document["paths"][f"{API}/plan"]["get"]["parameters"]]
    *asked, fields, exclude, include = asked
    assert asked == list(document["components"]["schemas"]["Scenario"]["properties"]) == list(Scenario.model_fields)
    assert (fields, exclude, include) == ("fields", "exclude", "include")


def test_the_document_keeps_the_rules_that_linters_have(client: TestClient) -> None:
    """Of Spectral's rules and OWASP's those that matter to who generates a client or checks requests by it."""
    document = client.get("/openapi.json").json()
    asked = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in asked}) == len(asked)
    assert {tag for one in asked for tag in one["tags"]} == {tag["name"] for tag in document["tags"]}
    assert all({"200", "422", "500"} <= one["responses"].keys() for one in asked)
    parts = list(_parts(document))
    references = {part["$ref"] for part in parts if "$ref" in part}
    components = {f"#/components/{kind}/{name}" for kind, several in document["components"].items() for name in several}
    assert references == components
    for name, schema in document["components"]["schemas"].items():
        if name.startswith("field.") or name in ("Grid", "Comparison"):
            for part in _parts(schema):
                kinds = part.get("type", ())
                bounded = {"enum", "const", "maxLength"} & part.keys() or part.get("pattern", "").endswith("}$")
                assert "string" not in kinds or bounded, (name, part)
                assert kinds != "array" or "maxItems" in part, (name, part)
    problem = {**document, "$ref": "#/components/schemas/Problem"}
    for status, refusal in document["components"]["responses"].items():
        for content in refusal.get("content", {}).values():
            assert jsonschema.Draft202012Validator(problem).is_valid(content["example"]), status


ASKED: tuple[type[Scenario], ...] = (
    Scenario, ServingQuestion, CostQuestion, CalibrateQuestion, ServeSizeQuestion, Question,
)  # fmt: skip


@pytest.mark.parametrize("question", ASKED)
def test_every_field_has_an_example_that_document_and_service_take(question: type[Scenario]) -> None:
    catalog = CATALOG
    for name, schema in openapi.fields(question).items():
        shown = schema.get("examples") or schema.get("enum") or [schema["default"]]
        validator = jsonschema.Draft202012Validator(schema)
        for one in shown:
            assert validator.is_valid(one), (name, one)
            assert question.model_validate({name: one}, context={"catalog": catalog}) is not None, name
    assert field_examples.FIELDS.keys() <= {name for each in ASKED for name in each.model_fields}


QUESTIONS: Mapping[str, type[BaseModel]] = {
    "AllReduceQuestion": Scenario, "ServeQuestion": ServingQuestion, "SizeQuestion": Question,
} | {each.__name__: each for each in (Scenario, CostQuestion, ServeSizeQuestion, CatalogQuestion)}  # fmt: skip
SWITCHES = ("yes", "no", "on", "off", "True", "FALSE", "t", "N", "1", "0")


def written(schema: Mapping[str, Any]) -> Iterable[str]:
    """How people write values of a field in an address."""
    if schema.get("type") == "integer":
        least = max(schema["minimum"], 1)
        return (str(least), f"{least / 1000}k", f"{least}.0", f"{least} x", f"{least:,}")
    return {"number": ("2:1", "3 : 2", "2.5", "2x"), "boolean": SWITCHES}.get(str(schema.get("type")), ())


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_an_address_takes_the_document_takes(client: TestClient, question: str) -> None:
    document = client.get("/openapi.json").json()
    (path, *_) = (one.path for one in api.operations if one.question == question and "GET" in one.asked_by)
    model, parameters = QUESTIONS[question], document["components"]["parameters"]
    tried = 0
    for reference in document["paths"][path]["get"]["parameters"]:
        parameter = parameters.get(reference.get("$ref", "").rpartition("/")[2], {"name": ""})
        if parameter["name"] in model.model_fields:
            schema = openapi.resolved(document, parameter["schema"])
            listed = parameter["schema"].get("items")
            validator = jsonschema.Draft202012Validator({**document, **(listed or parameter["schema"])})
            for text in written(schema.get("items", schema)):
                repeats = listed and question != "AllReduceQuestion"
                model.model_validate({parameter["name"]: (text,) if repeats else text}, context={"catalog": CATALOG})
                assert validator.is_valid(text), (parameter["name"], text)
                tried += 1
            assert not validator.is_valid("no number") or "string" in schema.get("type", ()) or listed
    assert tried > 5


def test_names_of_entries_are_allowed_as_they_are_understood(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    named = {"gpu": "H100 SXM", "model": "Llama 3 70B", "scale_out": "InfiniBand NDR 400"}
    assert client.post(f"{API}/plan?fields=cluster.nodes", json=named).status_code == 200
    body = {**document, "$ref": "#/components/schemas/Scenario"}
    assert jsonschema.Draft202012Validator(body).is_valid(named)


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object inside an object of JSON, and itself."""
    inner: Iterable[Any] = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict):
        yield schema
    for each in inner:
        yield from _parts(each)


ANSWERED = {found.name: found for found in api.operations if found.name != "sweep"}
"""Operations that answer with a record, by name."""


@pytest.mark.parametrize("operation", ANSWERED)
def test_every_answer_has_an_example_that_the_service_gives(client: TestClient, operation: str) -> None:
    """Lists and maps have their first. UPDATE=1 make test ARGS=tests/web/test_api.py writes them anew."""
    found, document = ANSWERED[operation], client.get("/openapi.json").json()
    questions = (one["value"] for one in openapi.EXAMPLES.get(operation, {}).values())
    asked = next((one for one in questions if "format" not in one), {})
    path = found.path.replace("{kind}", "gpus").replace("{key}", "h100-sxm")
    answer = client.post(path, json=asked) if "POST" in found.asked_by else client.get(path, params=asked)
    schema = document["paths"][found.path]["get" if "GET" in found.asked_by else "post"]["responses"]["200"]
    content = schema["content"]["application/json"]
    given = shortened(answer.json(), content["schema"], document)
    if os.environ.get("UPDATE"):
        every = json.loads(openapi.ANSWER_EXAMPLES.read_text()) | {operation: given}
        openapi.ANSWER_EXAMPLES.write_text(
            "".join(line + "\n" for line in lines({name: every[name] for name in ANSWERED if name in every}))
        )
    example = json.loads(openapi.ANSWER_EXAMPLES.read_text())[operation]
    assert roughly(example) == roughly(given)
    assert jsonschema.Draft202012Validator({**document, **content["schema"]}).is_valid(example)
    assert document["components"]["examples"][operation]["value"] == example
    assert content["examples"] == {"shortened": {"$ref": f"#/components/examples/{operation}"}}


def shortened(value: Any, schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """JSON of a schema whose lists, and maps of any names, have no more than their first."""
    schema = openapi.resolved(document, schema)
    kinds = [openapi.resolved(document, one) for one in schema.get("anyOf", [schema])]
    if isinstance(value, list) and not any("minItems" in one for one in kinds):
        items = next((one["items"] for one in kinds if "items" in one), {})
        return [shortened(one, items, document) for one in value[:1]]
    if isinstance(value, dict):
        known = {name: one for kind in kinds for name, one in kind.get("properties", {}).items()}
        others = next(
            (one["additionalProperties"] for one in kinds if one.get("additionalProperties", True) is not True), {}
        )
        names = [name for name in value if name in known] or list(value)[:1]
        return {name: shortened(value[name], known.get(name, others), document) for name in names}
    return value


def roughly(value: Any) -> Any:
    """JSON with seven digits of its numbers, which is what two machines agree in."""
    if isinstance(value, dict):
        return {name: roughly(one) for name, one in value.items()}
    if isinstance(value, list):
        return [roughly(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("operation", "name"), [(operation, name) for operation, found in openapi.EXAMPLES.items() for name in found]
)
def test_the_examples_work(client: TestClient, operation: str, name: str) -> None:
    asked = openapi.EXAMPLES[operation][name]["value"]
    found = next(one for one in api.operations if one.name == operation)
    path = found.path.replace("{kind}", "gpus")
    answer = client.post(path, json=asked) if "POST" in found.asked_by else client.get(path, params=asked)
    assert answer.status_code == 200, answer.text
