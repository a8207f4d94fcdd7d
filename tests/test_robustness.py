"""Questions that broke something once, and small runs of the searches that find such questions (`make fuzz`)."""

import re

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from app import openapi, units
from app.scenario import Scenario


@pytest.mark.parametrize(
    "address",
    [
        # An NVLink switch of Hopper's beside a GPU of Ampere's generation, for which the library has no NVLS.
        "/api/v1/all-reduce?gpu=l40s&scale_up=nvlink-4&gpus=93834",
        # Parameters sharded across nodes that have no network.
        "/api/v1/plan?nics_per_node=0&head_dim=1&ffn_hidden=1&tied_embeddings=true&micro_batch=1&sharding=parameters",
        "/api/v1/plan?nics_per_node=0&tensor_parallel=8&pipeline_parallel=2&micro_batch=1&sharding=optimizer",
        "/?nics_per_node=0",
    ],
)
def test_what_broke_once_is_answered(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text


PLAIN = ("0", "0" * 20, "0" * 40, "0" * 41, "007", "8", "123456789", "-1", "1 bananas", "٣")


@pytest.mark.parametrize("text", PLAIN)
def test_the_document_allows_what_the_reader_takes(text: str) -> None:
    """More texts are understood than the document names; but zeros, which generators love, are no difference."""
    compared = 0
    for name, schema in openapi.fields(Scenario).items():
        for pattern in (one["pattern"] for one in schema.get("anyOf", []) if "x-unit" in schema and "pattern" in one):
            allowed = len(text) <= units.LONGEST and re.search(pattern, text) is not None
            try:
                taken = Scenario.model_validate({name: text}) is not None
            except ValidationError:
                taken = False
            assert taken or not allowed, (name, text)
            assert taken == allowed or text.strip("0"), (name, text)
            compared += 1
    assert compared > 15
