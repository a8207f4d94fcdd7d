"""Clients that are generated from the OpenAPI document, in Python and TypeScript, and what integrators do with them."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import PATIENCE

MESSAGES = [f"{2**power} KiB" for power in range(0, 24)]
SIZES = [64, 512, 4096]
GRID = {"base": {"model": "llama-3-8b"}, "grid": {"gpus": [64, 128], "electricity": ["0.06 USD/kWh", "0.2 USD/kWh"]}}
BILLS = [8 * nodes for nodes in range(2, 52)]


@pytest.fixture(scope="module")
def document(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The document as a file."""
    path = tmp_path_factory.mktemp("clients") / "openapi.json"
    path.write_bytes(httpx.get(f"{server}/openapi.json", timeout=PATIENCE).content)
    return path


@pytest.fixture(scope="module")
def models(document: Path) -> Iterator[Any]:
    """The records of the generated client, whose package can be imported then."""
    folder = document.parent
    command = [str(Path(sys.executable).parent / "openapi-python-client"), "generate", "--meta", "none"]
    command += ["--path", str(document), "--output-path", str(folder / "railyard_client"), "--fail-on-warning"]
    (folder / "plain.json").write_text('{"post_hooks": []}')  # nobody reads it: it need not be formatted
    command += ["--config", str(folder / "plain.json")]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False)
    assert done.returncode == 0, done.stdout[:3000]
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(folder)
        yield importlib.import_module("railyard_client.models")


def asked(name: str, server: str, **arguments: Any) -> Any:
    """What an operation of the client answers."""
    operation = importlib.import_module(f"railyard_client.api.railyard.{name}")
    with importlib.import_module("railyard_client").Client(base_url=server, timeout=PATIENCE) as connection:
        return operation.sync(client=connection, **arguments)


def test_a_scheduler_asks_for_the_all_reduces_of_its_sizes(server: str, models: Any) -> None:
    body = models.AllReduceQuestion.from_dict({"message": MESSAGES, "gpus": SIZES})
    answer = asked("post_all_reduce", server, body=body)
    times = {(one.message, one.gpus): one.time.typical for one in answer.results}
    assert len(times) == len(MESSAGES) * len(SIZES)
    assert all(times[2.0**33, gpus] > times[1024.0, gpus] for gpus in SIZES)


def test_a_buyer_asks_for_fifty_bills_of_materials(server: str, models: Any) -> None:
    for gpus in BILLS[:3]:
        fabric = asked("get_fabric", server, gpus=gpus).fabric
        lines = [line for line in fabric.bill_of_materials if line.cost.typical]
        assert sum(line.cost.typical for line in lines) == pytest.approx(fabric.cost.typical)
        assert all(line.key and line.quantity for line in lines)


def test_a_notebook_sweeps(server: str, models: Any) -> None:
    rows = [json.loads(line) for line in asked("sweep", server, body=models.Grid.from_dict(GRID)).splitlines()]
    assert [row["gpus"] for row in rows] == [64, 64, 128, 128]
    assert rows[0]["costs.per_run"] < rows[1]["costs.per_run"]


def test_a_dashboard_asks_for_parts_of_an_answer(server: str, models: Any) -> None:
    parts = asked("get_plan", server, gpus="1,024", fields="cluster.nodes,training.step_time.typical")
    assert isinstance(parts, models.SelectedAnswer)
    assert parts["cluster"]["nodes"] == 128
    assert parts["training"]["step_time"].keys() == {"typical"}
    less = asked("get_all_reduce", server, gpus=["1k", 512], exclude="all_reduce.reason")
    assert [one["gpus"] for one in less["results"]] == [1000, 512]
    assert isinstance(asked("get_plan", server, gpus=1024), models.Plan)


def test_every_operation_of_a_generated_client_works(server: str, models: Any, document: Path) -> None:
    questions: dict[str, dict[str, Any]] = {
        "get_plan": {"gpus": 512, "model": "llama-3-8b", "message": "1 GiB"},
        "post_plan": {"body": models.Scenario.from_dict({"gpus": 512, "model": "llama-3-8b", "message": "1 GiB"})},
        "get_all_reduce": {"gpus": [64, 512], "message": ["1 MiB", "1 GiB"]},
        "post_all_reduce": {
            "body": models.AllReduceQuestion.from_dict({"gpus": [64, 512], "message": ["1 MiB", "1 GiB"]})
        },
        "get_fabric": {"gpus": 512},
        "post_fabric": {"body": models.Scenario.from_dict({"gpus": 512})},
        "compare": {"body": models.Comparison.from_dict({"scenarios": [{}, {"scale_out": "roce-400"}]})},
        "get_size": {"gpus": 512, "gpu": ["h100-sxm"], "training_tokens": "1T"},
        "post_size": {
            "body": models.SizeQuestion.from_dict({"gpus": 512, "gpu": ["h100-sxm"], "training_tokens": "1T"})
        },
        "calibrate": {
            "body": models.CalibrateQuestion.from_dict({"gpus": 16, "text": "1024 256 float sum -1 38.1 0.03 0.05 0"})
        },
        "get_cost": {"gpus": 512},
        "post_cost": {"body": models.CostQuestion.from_dict({"gpus": 512})},
        "get_serve": {"gpus": 16, "model": "llama-3-8b"},
        "post_serve": {"body": models.ServeQuestion.from_dict({"gpus": 16, "model": "llama-3-8b"})},
        "get_serve_size": {"gpu": ["h200-sxm"], "users": 50},
        "post_serve_size": {"body": models.ServeSizeQuestion.from_dict({"gpu": ["h200-sxm"], "users": 50})},
        "sweep": {"body": models.Grid.from_dict({"base": {}, "grid": {"gpus": [64, 128]}})},
        "get_catalog": {},
        "get_catalog_kind": {"kind": models.GetCatalogKindKind.GPUS},
        "get_catalog_entry": {"kind": models.GetCatalogEntryKind.GPUS, "key": "h100-sxm"},
        "get_accuracy": {},
    }
    assert set(questions) == {
        one["operationId"] for path in json.loads(document.read_bytes())["paths"].values() for one in path.values()
    }
    found = {name: asked(name, server, **arguments) for name, arguments in questions.items()}
    post_plan = importlib.import_module("railyard_client.api.railyard.post_plan")
    with importlib.import_module("railyard_client").Client(base_url=server, timeout=PATIENCE) as connection:
        wrong = post_plan.sync_detailed(client=connection, body=models.Scenario.from_dict({"gpus": 0}))
    assert found["get_plan"].cluster.nodes == found["post_plan"].cluster.nodes == 64
    assert found["get_plan"].to_dict() == found["post_plan"].to_dict()
    assert found["get_all_reduce"].to_dict() == found["post_all_reduce"].to_dict()
    assert len(found["get_all_reduce"].results) == 4
    assert found["get_fabric"].to_dict() == found["post_fabric"].to_dict()
    assert len(found["compare"].plans) == 2
    assert found["get_size"].cheapest.gpu == found["post_size"].cheapest.gpu == "h100-sxm"
    assert found["get_cost"].to_dict() == found["post_cost"].to_dict()
    assert len(found["sweep"].splitlines()) == 2
    assert found["get_catalog_kind"].entries["h100-sxm"].memory.unit == "B"
    assert found["get_catalog_entry"].entry.name == "H100 SXM"
    assert wrong.status_code == 422
    assert wrong.parsed.errors[0].pointer == "#/gpus"


TOOLS = ("node", "tsc", "openapi-typescript")
INTEGRATIONS = """
import type { components, paths } from "./railyard";

type Schemas = components["schemas"];
type Fabrics = NonNullable<paths["/api/v1/fabric"]["get"]["parameters"]["query"]>;
const server = process.argv[2];

async function json<Answer>(path: string, body?: unknown): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  const asked = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(server + path, asked);
  if (!answer.ok) throw new Error(((await answer.json()) as Schemas["Problem"]).detail);
  return (await answer.json()) as Answer;
}

const question: Schemas["AllReduceQuestion"] = { message: MESSAGES, gpus: SIZES };
const reduced = await json<Schemas["ReduceAnswer"]>("/api/v1/all-reduce", question);
const times: number[] = reduced.results.map((one) => one.time?.typical ?? NaN);

type Reductions = paths["/api/v1/all-reduce"]["post"]["responses"][200]["content"]["application/json"];
const parts = await json<Reductions>("/api/v1/all-reduce?fields=results.time", question);
if ("scenario" in parts) throw new Error(`${parts.results.length} results with all their parts`);

const bills: number[] = [];
for (const gpus of BILLS) {
  const query: Fabrics = { gpus };
  const { fabric } = await json<Schemas["FabricAnswer"]>(`/api/v1/fabric?gpus=${query.gpus}`);
  bills.push((fabric.bill_of_materials ?? []).reduce((sum, line) => sum + (line.cost?.typical ?? 0), 0));
}

const grid: Schemas["Grid"] = GRID;
const asked = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(grid) };
const rows = (await (await fetch(server + "/api/v1/sweep", asked)).text()).trim().split("\\n");
console.log(JSON.stringify({ times, bills, rows: rows.map((row) => JSON.parse(row)["costs.per_run"]) }));
"""


@pytest.mark.skipif(
    not all(map(shutil.which, TOOLS)),
    reason="TypeScript is not installed here (npm install --global typescript@5 openapi-typescript)",
)
def test_a_generated_typescript_client_does_the_same(server: str, document: Path) -> None:
    folder = document.parent
    written = INTEGRATIONS
    for name, value in {"MESSAGES": MESSAGES, "SIZES": SIZES, "BILLS": BILLS, "GRID": GRID}.items():
        written = written.replace(f" {name}", f" {json.dumps(value)}")
    (folder / "integrations.ts").write_text("declare const process: { argv: string[] };\n" + written)
    (folder / "package.json").write_text('{"type": "module"}')
    for command in (
        ["openapi-typescript", str(document), "-o", "railyard.d.ts", "--default-non-nullable=false"],
        ["tsc", "--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler",
         "--lib", "es2022,dom", "integrations.ts"],
    ):  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[:3000] + done.stderr[:1000]
    done = subprocess.run(["node", "integrations.js", server], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    found = json.loads(done.stdout)
    pairs = {"message": MESSAGES, "gpus": SIZES}
    results = httpx.post(f"{server}/api/v1/all-reduce", json=pairs, timeout=PATIENCE).json()["results"]
    assert found["times"] == [one["time"]["typical"] for one in results]
    assert len(found["bills"]) == len(BILLS)
    assert all(cost > 0 for cost in found["bills"])
    assert len(found["rows"]) == 4
