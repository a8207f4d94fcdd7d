"""The OpenAPI document: the framework's own, with the one question as query parameters and as body.

The fields of a scenario are declared once, on the model. Here their JSON schema becomes parameters, with what the
query string adds: text for a quantity, and a blank for the default.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from app import units
from app.catalog.load import KINDS
from app.plan.declarations import figures
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.studies.sizing import Question
from app.studies.sweep import RESULTS, Grid
from app.web.problems import MEDIA_TYPE, FieldProblem, Problem

Schema = dict[str, Any]

DESCRIPTION = """\
Sizing calculator for GPU clusters. Ask with a query string or with a JSON body: they are the same question.

Every field has a default, so a bare `GET /api/v1/plan` is answered. Quantities are numbers in base units
(s, B, B/s, W, USD, FLOP/s) or text with a unit: `400 Gb/s`, `256 MiB`, `60 days`. Keys of the catalogue are open text:
it grows, and an operator may add to it. `/api/v1/catalog/gpus` lists those of `gpu`, and so on; a key that it lacks is
refused with all there are. Results are bands,
`{"low", "typical", "high", "unit", "sources"}`, in base units, and rates of money as their unit says (USD/h, USD/year);
what cannot be computed is `null`, and a finding says why. A value ten times or more outside what is usual, mostly one
whose unit was left out, is the finding `unusual-value` with the text that was probably meant in `changes`. Errors are
problem documents (RFC 9457) that point to each wrong field.
"""
EXAMPLES: dict[str, dict[str, Schema]] = {
    "plan": {
        "default": {"summary": "1,024 H100 on InfiniBand NDR train Llama 3 70B", "value": {}},
        "roce": {"summary": "512 GPUs on 400G Ethernet", "value": {"gpus": 512, "scale_out": "roce-400"}},
        "parallelism": {
            "summary": "Parallelism given, no search",
            "value": {"tensor_parallel": 8, "pipeline_parallel": 4, "micro_batch": 1, "training_tokens": "2T"},
        },
    },
    "all_reduce": {
        "sizes": {
            "summary": "Two messages on two clusters",
            "value": {"message": ["1 MiB", "1 GiB"], "gpus": [512, 1024], "scale_out": "infiniband-ndr"},
        }
    },
    "fabric": {"superpod": {"summary": "128 nodes", "value": {"gpus": 1024, "topology": "rail-optimized"}}},
    "size": {
        "deadline": {
            "summary": "Llama 3 70B on 2 T tokens in 60 days",
            "value": {"model": "llama-3-70b", "training_tokens": "2T", "deadline": "60 days", "gpu": ["h100-sxm"]},
        }
    },
    "compare": {
        "fabrics": {
            "summary": "InfiniBand against RoCE",
            "value": {"scenarios": [{"scale_out": "infiniband-ndr"}, {"scale_out": "roce-400"}]},
        }
    },
    "sweep": {
        "grid": {
            "summary": "Four points",
            "value": {
                "base": {},
                "grid": {"gpus": [256, 512], "scale_out": ["infiniband-ndr", "roce-400"]},
            },
        }
    },
}
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
"""Units that the document names; more are understood."""
BLANK: Schema = {"type": "string", "maxLength": 0, "description": "Blank: the default."}


def document(app: FastAPI) -> Schema:
    """The whole document."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    made = _plainly_named(made)
    schemas: dict[str, Schema] = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for schema in schemas.values():
        _nullable(schema)
    for model in (FieldProblem, Problem):
        schemas[model.__name__] = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas[model.__name__].pop("$defs", None)
    scenario, question = fields(Scenario), fields(Question)
    reduce = scenario | {name: _several(scenario[name], 256) for name in ("message", "gpus")}
    schemas["Scenario"] = _body("Scenario", Scenario, scenario)
    schemas["AllReduceQuestion"] = _body("AllReduceQuestion", Scenario, reduce)
    schemas["SizeQuestion"] = _body("SizeQuestion", Question, question)
    schemas["Comparison"] = {
        "type": "object",
        "required": ["scenarios"],
        "additionalProperties": False,
        "properties": {
            "scenarios": {"type": "array", "minItems": 2, "maxItems": 4, "items": _reference("schemas", "Scenario")}
        },
    }
    schemas["Grid"] = _grid(scenario)
    parameters = {name: _parameter(name, schema) for name, schema in scenario.items()}
    parameters |= {
        "messages": _parameter("message", reduce["message"]),
        "gpu_counts": _parameter("gpus", reduce["gpus"]),
    }
    parameters |= {f"size.{name}": _parameter(name, one) for name, one in question.items() if one != scenario.get(name)}
    made["components"]["parameters"] = parameters
    bodies = {
        "plan": ("Scenario", scenario, {}),
        "all_reduce": ("AllReduceQuestion", reduce, {"message": "messages", "gpus": "gpu_counts"}),
        "fabric": ("Scenario", scenario, {}),
        "size": ("SizeQuestion", question, {name: f"size.{name}" for name in question if f"size.{name}" in parameters}),
        "compare": ("Comparison", {}, {}),
        "sweep": ("Grid", {}, {}),
    }
    for operation in _operations(made):
        _question(operation, bodies)
    return made


def _operations(made: Schema) -> Iterator[Schema]:
    for path in made["paths"].values():
        yield from path.values()


def _question(operation: Schema, bodies: Mapping[str, tuple[str, Mapping[str, Schema], Mapping[str, str]]]) -> None:
    """Say what one operation takes and answers."""
    name = operation["operationId"].removeprefix("get_").removeprefix("post_")
    for status, response in operation["responses"].items():
        if status == "200":
            response["description"] = "The answer."
            if name != "sweep":
                response["headers"] = {
                    "etag": {"schema": {"type": "string"}, "description": "Made of the question and the versions."}
                }
        elif int(status) >= 400:
            response["content"] = {MEDIA_TYPE: {"schema": _reference("schemas", "Problem")}}
    for parameter in operation.get("parameters", []):
        if parameter["name"] == "kind":
            parameter["schema"] |= {"enum": list(KINDS)}
        if parameter["name"] == "key":
            parameter["examples"] = {"h100": {"summary": "A GPU, of kind gpus", "value": "h100-sxm"}}
    if name not in bodies:
        return
    schema, asked, renamed = bodies[name]
    if operation["operationId"].startswith("get_"):
        operation["responses"].pop("400", None)
        operation["responses"].pop("413", None)
        operation["responses"].pop("415", None)
        operation["parameters"] = [_reference("parameters", renamed.get(field, field)) for field in asked]
        operation["responses"]["304"] = {"description": "The answer is the one you have (If-None-Match)."}
        return
    content = {"schema": _reference("schemas", schema), "examples": EXAMPLES[name]}
    operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    operation["responses"].pop("414", None)
    if name == "sweep":
        row = {
            "type": "object",
            "description": "The varied fields, the typical results, and error where there is none.",
        }
        operation["responses"]["200"]["content"] = {
            "application/x-ndjson": {"schema": {"type": "string"}, "x-row": row},
            "text/csv": {"schema": {"type": "string"}},
        }


def _reference(part: str, name: str) -> Schema:
    return {"$ref": f"#/components/{part}/{name}"}


# Fields --------------------------------------------------------------------------------------------------------------


def fields(model: type[BaseModel]) -> dict[str, Schema]:
    """The JSON schema of each field, as a JSON body may have it."""
    made = model.model_json_schema()
    named: Mapping[str, Schema] = made.get("$defs", {})
    return {name: _field(schema, named) for name, schema in made["properties"].items()}


def _field(schema: Schema, named: Mapping[str, Schema]) -> Schema:
    """One field with its references filled in and quantities spelled out."""
    about = {key: schema[key] for key in ("title", "description", "default") if schema.get(key) not in (None, "", [])}
    core = {
        key: value for key, value in schema.items() if key not in ("title", "description", "default", "group", "usual")
    }
    return about | _core(core, named)


def _core(core: Schema, named: Mapping[str, Schema]) -> Schema:
    if "$ref" in core:
        target = named[core["$ref"].rpartition("/")[2]]
        return _quantity(target["x-unit"], core)
    if "anyOf" in core:
        branches: list[Schema] = []
        for branch in core["anyOf"]:
            inner = _core(branch, named)
            branches += inner["anyOf"] if set(inner) <= {"anyOf", "x-unit"} and "anyOf" in inner else [inner]
        units_of = [branch["$ref"] for branch in core["anyOf"] if "$ref" in branch]
        extra = {"x-unit": named[units_of[0].rpartition("/")[2]]["x-unit"]} if units_of else {}
        return {"anyOf": branches} | extra
    if core.get("type") == "array":
        return core | {"items": _core(core["items"], named)}
    return core


def _quantity(unit: str, bounds: Mapping[str, Any]) -> Schema:
    """A number in the base unit, or text whose every match lies within the bounds."""
    low = bounds.get("gt", bounds.get("ge", -1e299))
    high = bounds.get("le", 1e299)
    number: Schema = {"type": "number"}
    number |= {"exclusiveMinimum": bounds["gt"]} if "gt" in bounds else {"minimum": low}
    number |= {"maximum": high}
    text = {
        "type": "string",
        "maxLength": units.LONGEST,
        "pattern": _pattern(unit, low, high, zero=low <= 0 and "gt" not in bounds),
    }
    return {"anyOf": [number, text], "x-unit": unit}


def _pattern(unit: str, low: float, high: float, *, zero: bool) -> str:
    """Numbers with a unit or in the base unit, each with as many digits as stay below the bound."""
    by_digits: dict[int, list[str]] = {}
    symbols = {symbol: re.escape(symbol).replace(r"\ ", " ") for symbol in ("", *SYMBOLS[unit])}
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


def _several(schema: Schema, most: int) -> Schema:
    """A field that may repeat."""
    about = {key: schema[key] for key in ("title", "description") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in about and key != "default"}
    one = [branch for branch in inner["anyOf"] if branch != {"type": "null"}] if "anyOf" in inner else [inner]
    item = {"anyOf": one} if len(one) > 1 else one[0]
    branches = inner.get("anyOf", [inner])
    return about | {"anyOf": [*branches, {"type": "array", "minItems": 1, "maxItems": 16, "items": item}]}


def _parameter(name: str, schema: Schema) -> Schema:
    """A field as a query parameter: text, where a blank stands for the default."""
    about = {key: schema[key] for key in ("description",) if key in schema}
    inner = {key: value for key, value in schema.items() if key != "description"}
    branches = inner.pop("anyOf", None)
    if branches is None:
        title: Schema = {key: inner.pop(key) for key in ("title", "default") if key in inner}
        branches = [inner]
        inner = title
    if not any(branch.get("type") == "array" for branch in branches):
        branches = [branch for branch in branches if branch != {"type": "null"}] + [BLANK]
    else:
        branches = [branch for branch in branches if branch.get("type") == "array"]
        inner |= branches[0]
        branches = []
    whole = {**inner, **({"anyOf": branches} if branches else {})}
    made: Schema = {"name": name, "in": "query", "required": False, **about, "schema": whole}
    if whole.get("type") == "array":
        made |= {"style": "form", "explode": True}
    return made


def _body(title: str, model: type[BaseModel], asked: Mapping[str, Schema]) -> Schema:
    return {
        "title": title,
        "description": (model.__doc__ or "").strip(),
        "type": "object",
        "additionalProperties": False,
        "properties": dict(asked),
    }


def _grid(scenario: Mapping[str, Schema]) -> Schema:
    values = {
        name: {
            "type": "array",
            "minItems": 1,
            "maxItems": 1000,
            "items": {k: v for k, v in one.items() if k != "default"},
        }
        for name, one in scenario.items()
    }
    return {
        "title": "Grid",
        "description": "A base scenario, and the values that some of its fields take in turn; the last varies fastest.",
        "type": "object",
        "required": ["grid"],
        "additionalProperties": False,
        "properties": {
            "base": _reference("schemas", "Scenario"),
            "grid": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 12,
                "additionalProperties": False,
                "properties": values,
            },
            "results": {
                "description": Grid.model_fields["results"].description,
                "type": "array",
                "minItems": 1,
                "maxItems": 200,
                "items": {"type": "string", "enum": list(figures(Plan))},
                "default": list(RESULTS),
            },
        },
    }


GENERIC = "__Q_"
"""What the framework adds to the name of a part inside another: quantities are bands in every answer."""


def _plainly_named(made: Schema) -> Schema:
    """The document with one schema for each part."""
    schemas = made["components"]["schemas"]
    for name in [name for name in schemas if name.endswith(GENERIC)]:
        schemas.setdefault(name.removesuffix(GENERIC), schemas[name])
        del schemas[name]
    plain: Schema = json.loads(json.dumps(made).replace(GENERIC, ""))
    return plain


def _nullable(schema: Any) -> None:
    """In answers a number that cannot be computed is null."""
    if isinstance(schema, dict):
        if schema.get("type") == "number":
            schema["type"] = ["number", "null"]
        for value in schema.values():
            _nullable(value)
    elif isinstance(schema, list):
        for value in schema:
            _nullable(value)
