"""Every operation of the OpenAPI document, asked by Schemathesis with all its checks."""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx

from app import units
from app.catalog.entries import marked
from app.catalog.load import load_catalog
from app.plan.scenario import Key, Scenario
from app.web.openapi import MOST_PAIRS
from tests.conftest import Server

LIMITED = {"get_size": "5", "post_size": "5", "sweep": "5"}
"""Operations that take all the time there is: the seconds that they have here."""


def run(options: argparse.Namespace) -> Iterator[str]:
    """One run and one server for each operation, so that a long one delays no other."""
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with Server(log) as server:
            known = operations(server.url())
        for operation in options.operation or known:
            limit = {"RAILYARD_TIME_LIMIT": LIMITED[operation]} if operation in LIMITED else {}
            began = time.monotonic()
            with Server(log, **limit) as server:
                done = ask(server.url(), Path(folder), options.seed, options.examples, operation)
            if done.returncode:
                failed.append(operation)
                yield done.stdout + done.stderr
            yield f"   {operation}: {summary(done)} ({time.monotonic() - began:.0f} s, seed {options.seed})"
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
    document.write_text(json.dumps(with_known_values(httpx.get(f"{url}/openapi.json").json())))
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", str(document), "--url", url, "--checks", "all"]
    command += ["--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure", "--no-color"]
    command += ["--request-timeout", "60", "--max-response-time", "60", "--output-sanitize", "false"]
    command += [f"--include-operation-id={name}" for name in operations]
    command += ["--phases", phases] if phases else []
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def with_known_values(schema: Any) -> Any:
    """The document with texts that are sure to be understood: keys that the catalogue has today, units by name, and of
    text with a form of its own the examples, or nothing where that may be said.

    The document itself leaves them open: the catalogue grows, and more texts with units are read than a pattern says.
    Nor can it say that `parameters` stand for the shape of a model of one's own, and beside a preset are refused, or
    that a cursor is of one list or sweep, nor bound the number that a text says.
    """
    if isinstance(schema, list):
        return [with_known_values(one) for one in schema if one not in LEFT_OUT]
    if not isinstance(schema, dict):
        return schema
    if known := KNOWN.get(schema.get("x-catalog", "")):
        return {"type": "string", "enum": known}
    if schema.keys() >= {"examples", "maxLength"} and "pattern" not in schema and schema.get("type") == "string":
        return {"type": "string", "enum": schema["examples"] + [""] * (not schema.get("minLength"))}
    if isinstance(schema.get("examples"), list):  # each is one of its own: all of them together are no question
        schema = {name: one for name, one in schema.items() if name != "examples"}
    if "x-unit" in schema and schema.get("type") == ["number", "string"]:
        return schema | quantity(schema)
    schema = {name: one for name, one in schema.items() if name not in ("parameters", "cursor") or "anyOf" not in one}
    few = {"maxItems": 16} if schema.get("maxItems") == MOST_PAIRS else {}  # two fields of so many make all the pairs
    return {name: one if name == "examples" else with_known_values(one) for name, one in schema.items()} | few


def quantity(schema: dict[str, Any]) -> dict[str, Any]:
    """A number in the base unit, or text whose every match lies within the bounds."""
    low = schema.get("exclusiveMinimum", schema.get("minimum", -1e299))
    high = schema.get("exclusiveMaximum", schema.get("maximum", 1e299))
    symbols = [one for one in SYMBOLS[schema["x-unit"]] if re.search(schema["pattern"], f"1{one}")]
    pattern = texts(schema["x-unit"], symbols, low, high, zero=schema.get("minimum", 1) <= 0)
    return {"pattern": pattern} if pattern != "^()$" else {"type": "number"}  # no text lies within such bounds


def texts(unit: str, known: Iterable[str], low: float, high: float, *, zero: bool) -> str:
    """Numbers with a known unit or in the base unit, each with as many digits as stay below the bound."""
    by_digits: dict[int, list[str]] = {}
    symbols = {symbol: re.escape(symbol).replace(r"\ ", " ") for symbol in ("", *known)}
    for symbol, escaped in symbols.items():
        worth = units.parse(f"1 {symbol}", unit)
        digits = max((count for count in range(1, 10) if 10**count * worth <= high), default=0)
        if digits and worth >= low:
            by_digits.setdefault(digits, []).append(escaped)
    alternatives = [
        rf"0*[1-9][0-9]{{0,{digits - 1}}}(\.[0-9]{{1,6}})? ?({'|'.join(chosen)})"
        for digits, chosen in sorted(by_digits.items())
    ]
    if zero:
        alternatives.append(rf"0+ ?({'|'.join(symbols.values())})")
    return rf"^({'|'.join(alternatives)})$"


LEFT_OUT = tuple(
    {"$ref": f"#/components/{name}"}
    for name in ("parameters/parameters", "parameters/catalog.cursor", "schemas/text.whole", "schemas/text.ratio")
)
SYMBOLS = {
    "B": ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"),
    "B/s": ("Mb/s", "Gb/s", "Tb/s", "MB/s", "GB/s", "TB/s"),
    "s": ("us", "ms", "s", "min", "h", "days", "weeks", "years"),
    "W": ("W", "kW", "MW", "GW"),
    "USD": ("", "k", "M", "B", "USD"),
    "USD/J": ("USD/kWh", "USD/MWh"),
    "USD/s": ("USD/h", "USD/year"),
    "1/s": ("/h", "/day", "/year"),
    "1": ("", "k", "M", "B", "T", "%"),
}
"""Units by name; more are understood."""
KNOWN = {key.kind: list(key.keys(load_catalog())) for key in marked(Scenario, Key).values()}


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """How many were asked and what came of them, in Schemathesis' words."""
    found = re.findall(r"^\s*(\d[\d,]* (?:generated|test cases).*)$", done.stdout, re.MULTILINE)
    return (found[-1] if found else f"exit status {done.returncode}").strip()
