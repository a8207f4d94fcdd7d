"""Every operation of the OpenAPI document, asked by Schemathesis with all its checks."""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

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
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json", "--checks", "all"]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure", "--no-color"]
    command += ["--request-timeout", "60", "--output-sanitize", "false"]
    command += [f"--include-operation-id={name}" for name in operations]
    command += ["--phases", phases] if phases else []
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """How many were asked and what came of them, in Schemathesis' words."""
    found = re.findall(r"^\s*(\d[\d,]* (?:generated|test cases).*)$", done.stdout, re.MULTILINE)
    return (found[-1] if found else f"exit status {done.returncode}").strip()
