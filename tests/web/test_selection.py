"""Which parts of an answer are written."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.plan.long_parts import LONG_PARTS
from app.web.selection import ALWAYS

JOB = "gpus=64&model=llama-3-8b"


def asked(client: TestClient, path: str) -> Any:
    return client.get(f"/api/v1/{path}").raise_for_status().json()


def part_of(answer: Any, path: str) -> Any:
    """A part of an answer by its dotted name."""
    for name in path.split("."):
        answer = answer[name]
    return answer


LONG_PATHS = [path for paths in LONG_PARTS.values() for path in paths if path != "fabric.networks.bill_of_materials"]


def test_a_plan_says_its_long_parts_where_they_are_included(client: TestClient) -> None:
    usual = asked(client, f"plan?{JOB}")
    whole = asked(client, f"plan?{JOB}&include={','.join(LONG_PARTS)}")
    for path in LONG_PATHS:
        assert part_of(usual, path) is None
        assert part_of(whole, path)
        before, _, name = path.rpartition(".")
        (part_of(whole, before) if before else whole)[name] = None
    assert whole == usual


@pytest.mark.parametrize("part", LONG_PARTS)
def test_each_long_part_comes_alone(client: TestClient, part: str) -> None:
    found = asked(client, f"plan?{JOB}&include={part}")
    assert {path for path in LONG_PATHS if part_of(found, path)} == {
        path for path in LONG_PARTS[part] if path in LONG_PATHS
    }


def test_networks_beside_have_their_bills_too(client: TestClient) -> None:
    path = f"plan?{JOB}&management_network=true"
    assert [one["bill_of_materials"] for one in asked(client, path)["fabric"]["networks"]] == [None, None]
    assert all(
        one["bill_of_materials"] for one in asked(client, f"{path}&include=bill_of_materials")["fabric"]["networks"]
    )


def test_fields_are_the_same_numbers_with_nothing_around_them(client: TestClient) -> None:
    whole = asked(client, f"plan?{JOB}")
    found = asked(client, f"plan?{JOB}&fields=training.step_time.typical,costs.capital&fields=fabric.links.node_leaf")
    assert found == {
        **{name: whole[name] for name in ALWAYS},
        "training": {"step_time": {"typical": whole["training"]["step_time"]["typical"]}},
        "costs": {"capital": whole["costs"]["capital"]},
        "fabric": {"links": {"node_leaf": whole["fabric"]["links"]["node_leaf"]}},
    }


def test_a_field_inside_a_list_is_that_of_each_entry(client: TestClient) -> None:
    path = "all-reduce?message=1MiB&message=1GiB&gpus=64"
    whole, found = asked(client, path), asked(client, f"{path}&fields=results.time.typical,results.algorithm")
    assert found["results"] == [
        {"time": {"typical": one["time"]["typical"]}, "algorithm": one["algorithm"]} for one in whole["results"]
    ]


def test_what_cannot_be_computed_is_null_and_has_no_parts(client: TestClient) -> None:
    found = asked(client, "plan?gpus=8&model=llama-3-405b&fields=training.time_to_train.typical,recommendation.reason")
    assert found["training"] == {"time_to_train": None}
    assert found["recommendation"] is None
    assert found["findings"][0]["severity"] == "error"


def test_what_is_inside_a_mapping_is_written_where_it_is_there(client: TestClient) -> None:
    found = asked(client, "fabric?fields=scenario.gpus,scenario.nothing,fabric.cages")
    assert found["scenario"] == {"gpus": 1024}
    assert found["fabric"]["cages"]


def test_bodies_are_selected_from_by_their_address(client: TestClient) -> None:
    body = {"scenarios": [{"gpus": 64}, {"gpus": 128}]}
    found = client.post("/api/v1/compare?fields=plans.cluster.nodes", json=body).raise_for_status().json()
    assert found["plans"] == [{"cluster": {"nodes": 8}}, {"cluster": {"nodes": 16}}]
    usual = client.post("/api/v1/compare", json=body).raise_for_status().json()
    assert all(plan["explanations"] is plan["training"]["cloud"] is None for plan in usual["plans"])
    wanted = client.post("/api/v1/plan?include=explanations", json={"gpus": 64}).raise_for_status().json()
    assert wanted["explanations"]


def without(part: Any, name: str) -> Any:
    """A part without any field of that name."""
    if isinstance(part, list):
        return [without(inner, name) for inner in part]
    if isinstance(part, dict):
        return {key: without(value, name) for key, value in part.items() if key != name}
    return part


def test_parts_that_are_excluded_are_left_out_and_the_rest_stays(client: TestClient) -> None:
    path = f"plan?{JOB}&include=alternatives"
    whole = asked(client, path)
    found = asked(client, f"{path}&exclude=scenario,fabric.links&exclude=all_reduce.alternatives.time")
    del whole["scenario"]
    del whole["fabric"]["links"]
    for other in whole["all_reduce"]["alternatives"]:
        del other["time"]
    assert found == whole


@pytest.mark.parametrize(
    ("path", "part", "figure"),
    [
        (f"plan?{JOB}", "costs", "capital"),
        ("fabric?gpus=64", "fabric", "cost"),
        ("all-reduce?gpus=64", "all_reduce", "time"),
        ("serve?gpus=8&model=llama-3-8b", "serving", "tpot"),
    ],
)
def test_bands_say_their_sources_where_these_are_included(
    client: TestClient, path: str, part: str, figure: str
) -> None:
    usual, whole = asked(client, path), asked(client, f"{path}&include=sources")
    assert whole[part][figure]["sources"]
    assert usual == without(whole, "sources") != whole
    assert asked(client, f"{path}&include=sources&exclude=sources") == usual


def test_sources_that_are_named_are_said(client: TestClient) -> None:
    named = asked(client, f"plan?{JOB}&fields=fabric.cost.sources,fabric.switch&exclude=fabric.cost.high")
    whole = asked(client, f"plan?{JOB}&include=sources")["fabric"]
    assert named["fabric"] == {"switch": whole["switch"], "cost": {"sources": whole["cost"]["sources"]}}
    assert "ibta-roadmap" in whole["bisection_per_gpu"]["sources"]


def test_a_plan_for_a_program_is_small(client: TestClient) -> None:
    assert len(client.get("/api/v1/plan").content) < 15_000
    assert len(client.get("/api/v1/plan?model=deepseek-v3&gpus=2048").content) < 15_000


def test_only_what_is_not_on_sale_is_said_to_be_projected(client: TestClient) -> None:
    assert b'"projected"' not in client.get(f"/api/v1/plan?{JOB}").content
    early = asked(client, "fabric?gpu=gb200&gpus=72&scale_out=infiniband-gdr")
    assert early["fabric"]["cost"]["projected"] is True
    named = asked(client, f"plan?{JOB}&fields=fabric.cost.typical,fabric.cost.projected")
    assert named["fabric"]["cost"]["projected"] is False


def test_asking_for_a_long_part_by_name_makes_it(client: TestClient) -> None:
    found = asked(client, f"plan?{JOB}&fields=training.alternatives,explanations")
    assert found["training"]["alternatives"]
    assert found["explanations"]


@pytest.mark.parametrize(
    ("query", "pointer", "words"),
    [
        ("fields=training.steptime", "#/fields", "Did you mean training.step_time"),
        ("fields=training.step_time.typical.more", "#/fields", "no part"),
        ("fields=costs.captial", "#/fields", "“costs.captial”. Did you mean costs.capital or costs.capital_parts?"),
        ("fields=costs.capital.lo", "#/fields", "Did you mean costs.capital.low?"),
        ("fields=cost.capital", "#/fields", "Did you mean costs.capital?"),
        ("fields=trainig.step_time.tyical", "#/fields", "Did you mean training.step_time.typical?"),
        ("fields=costs.capital_parts.nme", "#/fields", "Did you mean costs.capital_parts.name?"),
        ("fields=memory.fits.more", "#/fields", "Did you mean memory.fits?"),
        ("fields=capital", "#/fields", "Did you mean costs.capital or"),
        (
            "include=everything",
            "#/include",
            "There are alternatives, bill_of_materials, cloud, details, explanations, sources.",
        ),
        ("exclude=training.steptime", "#/exclude", "Did you mean training.step_time"),
        ("exclude=findings.message", "#/exclude", "always comes"),
        ("fields=" + "x," * 201, "#/fields", "at most 200"),
        ("include=" + "," * 201, "#/include", "at most 200"),
    ],
)
def test_an_unknown_part_is_refused_with_those_nearest_to_it(
    client: TestClient, query: str, pointer: str, words: str
) -> None:
    answer = client.get(f"/api/v1/plan?{query}")
    assert answer.status_code == 422
    first = answer.json()["errors"][0]
    assert first["pointer"] == pointer
    assert words in first["detail"]
