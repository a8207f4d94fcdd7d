"""Every operation of the OpenAPI document, asked by Schemathesis with all its checks."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from app.catalog.entries import marked
from app.catalog.load import load_catalog
from app.plan.scenario import Key, Scenario
from tests.conftest import Server

BOUNDED = {"RAILYARD_TIME_LIMIT": "2"}  # what /size and /sweep take is their own limit: a short one here


def run(options: argparse.Namespace) -> Iterator[str]:
    """One run for each operation, so that a long one delays no other."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "log", **BOUNDED)
        try:
            url = server.url()
            failed = []
            for operation in options.operation or operations(url):
                began = time.monotonic()
                done = ask(url, Path(folder), options.seed, options.examples, operation)
                if done.returncode:
                    failed.append(operation)
                    yield done.stdout + done.stderr
                yield f"   {operation}: {summary(done)} ({time.monotonic() - began:.0f} s, seed {options.seed})"
        finally:
            server.stop()
    assert not failed, ", ".join(failed)


def operations(url: str) -> list[str]:
    """Their ids, in the order of the document."""
    document = httpx.get(f"{url}/openapi.json").json()
    return [one["operationId"] for path in document["paths"].values() for one in path.values()]


def ask(
    url: str, folder: Path, seed: int, examples: int, *operations: str, phases: str = ""
) -> subprocess.CompletedProcess[str]:
    """Ask some operations, in all of Schemathesis' phases or in those named."""
    document = folder / "openapi.json"
    document.write_text(json.dumps(with_known_keys(httpx.get(f"{url}/openapi.json").json())))
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", str(document), "--url", url, "--checks", "all"]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure", "--no-color"]
    command += ["--request-timeout", "60", "--output-sanitize", "false"]
    command += [f"--include-operation-id={name}" for name in operations]
    command += ["--phases", phases] if phases else []
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def with_known_keys(schema: Any) -> Any:
    """The document with the keys that the catalogue has today: others are understood, and refused with their like."""
    if isinstance(schema, list):
        return [with_known_keys(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    known = KNOWN.get(schema.get("x-catalog", ""))
    return {"type": "string", "enum": known} if known else {name: with_known_keys(one) for name, one in schema.items()}


KNOWN = {key.kind: list(key.keys(load_catalog())) for key in marked(Scenario, Key).values()}


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """How many were asked and what came of them, in Schemathesis' words."""
    found = re.findall(r"^\s*(\d[\d,]* (?:generated|test cases).*)$", done.stdout, re.MULTILINE)
    return (found[-1] if found else f"exit status {done.returncode}").strip()
