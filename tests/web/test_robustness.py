"""Questions that broke something once, and small runs of the searches that find such questions (`make fuzz`)."""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from app import units
from app.plan.scenario import Scenario
from app.web import openapi
from tests.bench.faults import wait
from tests.bench.web import free_port
from tests.conftest import ROOT, Server
from tests.fuzz import contract, hostile


@pytest.mark.parametrize(
    "address",
    [
        # An NVLink switch of Hopper's beside a GPU of Ampere's generation, for which the library has no NVLS.
        "/api/v1/all-reduce?gpu=l40s&scale_up=nvlink-4&gpus=93834",
        # Parameters sharded across nodes that have no network.
        "/api/v1/plan?nics_per_node=0&head_dim=1&ffn_hidden=1&tied_embeddings=true&micro_batch=1&sharding=parameters",
        "/api/v1/plan?nics_per_node=0&tensor_parallel=8&pipeline_parallel=2&micro_batch=1&sharding=optimizer",
        "/?nics_per_node=0",
        # A load that is next to nothing, of which one replica carries more than a number can say.
        "/api/v1/serve/size?gpu=h200-sxm&model=llama-3-8b&request_rate=5e-324",
        "/api/v1/serve?gpus=8&model=llama-3-8b&request_rate=5e-324",
        "/api/v1/serve?gpus=8&model=llama-3-8b&concurrency=5e-324",
        # A run of one token, and one that costs nothing.
        "/api/v1/plan?training_tokens=1&include=explanations",
        "/api/v1/size?gpu=h100-sxm&gpus=64&training_tokens=1",
        # A rate that is nothing once it is shared, where the library's own tables choose.
        "/api/v1/plan?scale_up_domain=1&network_rate=5e-324&message=5e-324",
        "/api/v1/cost?price_nic=0&price_switch=0&price_transceiver=0&price_cable=0",
        "/api/v1/plan?price_node=0&price_nic=0&price_switch=0&price_transceiver=0&price_cable=0&price_copper_cable=0"
        "&electricity=0&infrastructure=0&support=0",
    ],
)
def test_what_broke_once_is_answered(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", ["plan", "size"])
def test_a_run_has_one_token_at_least(client: TestClient, path: str) -> None:
    """Of less there is no time that another could be divided by."""
    answer = client.get(f"/api/v1/{path}?gpu=h100-sxm&gpus=64&training_tokens=5e-324")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/training_tokens"


PLAIN = ("0", "0" * 20, "0" * 40, "0" * 41, "007", "8", "123456789", "-1", "1 bananas", "٣")


@pytest.mark.parametrize("text", PLAIN)
def test_the_texts_that_clients_are_tried_with_are_understood(text: str) -> None:
    """More texts are understood than are tried; but zeros, which generators love, are no difference."""
    compared = 0
    for name, schema in openapi.fields(Scenario).items():
        if schema["type"] != ["number", "string"]:
            continue
        pattern = contract.quantity(schema).get("pattern")
        if pattern is None:  # its bounds leave room for numbers alone
            continue
        allowed = len(text) <= units.LONGEST and re.search(pattern, text) is not None
        try:
            taken = Scenario.model_validate({name: text}) is not None
        except ValidationError:
            taken = False
        assert taken or not allowed, (name, text)
        assert taken == allowed or text.strip("0"), (name, text)
        compared += 1
    assert compared > 15


NATURAL = {
    "electricity": ["0.08 USD/kWh", "$0.08/kWh"],
    "failure_rate": ["2e-5 /h"],
    "message": ["0.5 GiB", "1e9", "1,000,000"],
    "price_gpu_hour": ["0.6 USD/h", "$2.95/h"],
    "training_tokens": ["1e12", "2.5T tokens", "15T"],
    "restart_time": ["10 minutes"],
    "checkpoint_interval": ["3 hours"],
    "price_node": ["$290,000"],
}


@pytest.mark.parametrize("name", NATURAL)
def test_the_document_allows_what_people_type(client: TestClient, name: str) -> None:
    """A gateway that holds requests against the document must let through what the reader takes."""
    document = client.get("/openapi.json").json()
    body = {**document, "$ref": "#/components/schemas/Scenario"}
    for text in NATURAL[name]:
        assert Scenario.model_validate({name: text}) is not None
        assert jsonschema.Draft202012Validator(body).is_valid({name: text}), text


# Small runs of the searches -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that nobody else asks."""
    with Server(tmp_path_factory.mktemp("attacked") / "log", RAILYARD_TIME_LIMIT="30") as running:
        yield running


def test_a_sample_of_hostile_requests_breaks_nothing(attacked: Server) -> None:
    # Other tests' servers take their share. None of these asks for /accuracy, which takes ten seconds to make.
    told = list(hostile.attack(attacked, seed=11, requests=40, limit=8.0, own_limit=30.0))
    assert "40 requests, seed 11" in "".join(told)


def test_clients_who_ask_for_much_and_leave_take_nothing_from_others(attacked: Server) -> None:
    told = list(hostile.siege(attacked, times=2, limit=3.0))  # other tests' servers take their share
    assert f"{2 * len(hostile.LOADS)} clients who left" in told[0]


def test_the_search_for_hostile_answers_would_notice_them() -> None:
    request = hostile.Request("GET", "/api/v1/plan?gpu=x")
    page = f"<html><script>{hostile.MARK}</script>".encode()
    assert hostile.wrong(request, hostile.Answer(503, "application/problem+json", b"{}", 0.1))
    assert hostile.wrong(request, hostile.Answer(0, "", b"", 0.1))
    assert hostile.wrong(request, hostile.Answer(200, "text/html", page, 0.1))
    assert hostile.wrong(request, hostile.Answer(200, "text/html", b"<p>" + hostile.RESULT, 0.1))
    assert hostile.wrong(request, hostile.Answer(200, "application/json", b'{"x": NaN}', 0.1))
    assert hostile.wrong(request, hostile.Answer(422, "application/json", b'{"detail": "no"}', 0.1))
    assert not hostile.wrong(request, hostile.Answer(422, "application/problem+json", b'{"status": 422}', 0.1))


def test_hostile_requests_are_the_same_for_the_same_seed() -> None:
    first, second, other = (hostile.Generator(seed) for seed in (1, 1, 2))
    same = [first.one() for _ in range(50)]
    assert same == [second.one() for _ in range(50)]
    assert same != [other.one() for _ in range(50)]


def test_a_sample_of_the_contract_holds(server: str, tmp_path: Path) -> None:
    """All checks of Schemathesis on one operation of each kind; `make fuzz` asks all of them, and more."""
    sample = ("get_plan", "post_all_reduce", "compare", "calibrate", "get_serve", "post_cost", "get_catalog_entry")
    assert {*sample} < {*contract.operations(server)}
    done = contract.ask(server, tmp_path, 1, 2, *sample, phases="examples,fuzzing")
    assert done.returncode == 0, done.stdout


# Disks ---------------------------------------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing() -> None:
    """No file takes a byte, there is no folder for temporary files, and the log goes to a device that is full."""
    port = free_port()

    def nothing_more() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    command = [sys.executable, "-m", "app", "serve", "--port", str(port)]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "TMPDIR": "/nowhere", "RAILYARD_SHUTDOWN_DRAIN": "0"},
            stdout=full,
            stderr=full,
            preexec_fn=nothing_more,
        )
    try:
        wait(f"http://127.0.0.1:{port}/readyz")
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as asking:
            for address in ("/", "/acceptance.json", "/docs", "/metrics", "/export/plan.xlsx", "/export/plan.csv"):
                assert asking.get(address, params={"gpus": 64}).status_code == 200, address
            answer = asking.post("/api/v1/sweep", json={"grid": {"gpus": [64, 128]}})
            assert len(answer.text.splitlines()) == 2
    finally:
        process.terminate()
        process.wait(30)
