"""The OpenAPI document, made from the operations that serve.

The fields of a question are declared once, on the model, and those of an answer once, on its record. Each becomes one
component: here for the bodies, the query strings and the grid of a sweep, in `answer_schemas` for the answers.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel
from starlette import routing
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from app import __version__, units
from app.catalog.load import KINDS
from app.plan.declarations import figures
from app.plan.long_parts import LONG_PARTS, SOURCES
from app.plan.result import Plan
from app.plan.scenario import Scenario
from app.plan.serving.serving_request import ServingQuestion
from app.studies.network_costs import CostQuestion
from app.studies.own_sweep import CalibrateQuestion
from app.studies.serving_sizing import ServeSizeQuestion
from app.studies.sizing import Question
from app.studies.sweep import RESULTS, Grid
from app.web import cursors, field_examples, problems
from app.web.answer_schemas import AnswerSchemas, Schema
from app.web.catalog_lists import CatalogQuestion
from app.web.problems import MEDIA_TYPE, Problem
from app.web.responses import JSON
from app.web.selection import ALWAYS, INCLUDED, MOST_NAMES

TAG = "Railyard"
SUMMARY = "Sizing calculator for GPU clusters"
DESCRIPTION = """\
Sizing calculator for GPU clusters. Ask with a query string or with a JSON body: they are the same question.

Every field has a default, so a bare `GET /api/v1/plan` is answered. Quantities are numbers in base units (s, B, B/s, W,
USD, FLOP/s) or text with a unit: `400 Gb/s`, `256 MiB`, `60 days`, `15 trillion`, `$20 million`. A query string, which
is text, also takes whole numbers as people write them (`1,024`, `16k`, `8Ki`), ratios (`2:1`), and yes and no; in a
body these are JSON's numbers, true and false. Fields that may repeat take keys between commas too
(`gpu=h100-sxm,gb200`). Keys of the catalogue are open text: it grows, and an operator may add to
it. `/api/v1/catalog/gpus` lists those of `gpu`, and so on; the names of entries are read too (`H100`, `Llama 3 70B`),
and what it lacks is refused with all there are. Results are bands, `{"low", "typical", "high", "unit", "sources"}`, in
base units, and rates of money as their unit says (USD/h, USD/year); what cannot be computed is `null`, and a finding
says why. `fields` and `exclude` select parts of an answer, which then is a `SelectedAnswer`: it has no others. A value
ten times or more outside what is usual, mostly one whose unit was left out, is the finding `unusual-value` with the
text that was probably meant in `changes`. Errors are problem documents (RFC 9457) that point to each wrong field.

The tables of a plan are files, as `.csv`, `.xlsx` or `.json`, with the query string of `GET /api/v1/plan`:
`/export/purchases.csv` is everything to buy, a line each with its key and price, `/export/plan.csv` all tables.
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
    "serve": {
        "limits": {
            "summary": "64 H200 serve DeepSeek-V3 at 30 tokens a second or more",
            "value": {"gpu": "h200-sxm", "gpus": 64, "model": "deepseek-v3", "tpot_limit": "33 ms"},
        }
    },
    "serve_size": {
        "users": {
            "summary": "300 users of DeepSeek-V3 at 30 tokens a second each",
            "value": {"users": 300, "model": "deepseek-v3", "tpot_limit": "33 ms", "gpu": ["h200-sxm", "gb200"]},
        }
    },
    "size": {
        "deadline": {
            "summary": "Llama 3 70B on 2 T tokens in 60 days",
            "value": {"model": "llama-3-70b", "training_tokens": "2T", "deadline": "60 days", "gpu": ["h100-sxm"]},
        }
    },
    "cost": {
        "lease": {
            "summary": "4,096 H100 kept for three years, in use for two thirds of the time",
            "value": {"gpus": 4096, "term": "3 years", "utilisation": 0.67, "colocation": "150 USD/kW-month"},
        }
    },
    "calibrate": {
        "pair": {
            "summary": "Two rows of a pair of nodes",
            "value": {
                "gpu": "h100-sxm",
                "gpus": 16,
                "text": "1024 256 float sum -1 38.1 0.03 0.05 0\n1073741824 268435456 float sum -1 4560 235 441 0",
            },
        }
    },
    "compare": {
        "fabrics": {
            "summary": "InfiniBand against RoCE",
            "value": {"scenarios": [{"scale_out": "infiniband-ndr"}, {"scale_out": "roce-400"}]},
        }
    },
    "get_catalog": {
        "words": {"summary": "All that says 800G", "value": {"q": "800G"}},
        "table": {"summary": "Every number with its source, as CSV", "value": {"format": "csv"}},
    },
    "get_catalog_kind": {
        "current": {
            "summary": "NVIDIA's on sale since 2024, as CSV",
            "value": {"vendor": "NVIDIA", "status": "shipping", "since": 2024, "format": "csv"},
        },
        "paged": {"summary": "The first ten", "value": {"limit": 10}},
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
TEXTS: Mapping[str, tuple[str, Schema]] = {
    "integer": (
        "text.whole",
        {
            "pattern": "^[^%]*[0-9][^%]*$",
            "examples": ["1,024", "16k", "8Ki"],
            "description": "A whole number as people write it, within the same bounds.",
        },
    ),
    "number": (
        "text.ratio",
        {"pattern": "[0-9]", "examples": ["2:1"], "description": "A ratio, within the same bounds."},
    ),
    "boolean": (
        "text.switch",
        {
            "pattern": "^(?:[01TtFfYyNn]|[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]"
            "|[Oo][Ff][Ff])$",
            "examples": ["yes", "off"],
            "description": "Yes or no, in small or large letters.",
        },
    ),
}
"""What a query string takes for a field of a type besides its values: the component, and what it says."""
ANSWER_EXAMPLES = Path(__file__).with_name("answer_examples.json")
MOST_PAIRS = 256
"""Pairs of a message and a number of GPUs in one question."""
MOST_VALUES = 100_000
"""Values in the grid of a sweep."""
PATH_PARAMETERS: Mapping[str, Schema] = {
    "kind": {"description": "A kind of entry.", "schema": {"type": "string", "enum": list(KINDS)}},
    "key": {
        "description": "Key of an entry of that kind.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200, "examples": ["h100-sxm"]},
    },
}
SELECTION: Mapping[str, Schema] = {
    "fields": {
        "name": "fields",
        "in": "query",
        "description": "Parts of the answer by their dotted names, between commas: `training.step_time.typical`, or "
        "`results.time` for a part of each entry of a list. Blank: all but the long parts. "
        f"{', '.join(f'`{name}`' for name in ALWAYS)} always come.",
        "schema": {"type": "string", "maxLength": 10_000, "examples": ["model_version,findings.code"]},
    },
    "exclude": {
        "name": "exclude",
        "in": "query",
        "description": "Parts of the answer to leave out, by their dotted names, between commas: `scenario`, or "
        "`fabric.links`; `sources` are those of every band.",
        "schema": {"type": "string", "maxLength": 10_000, "examples": ["permalink"]},
    },
    "include": {
        "name": "include",
        "in": "query",
        "description": "Long parts of a plan, which are null elsewise, between commas: "
        + "; ".join(f"`{name}` ({', '.join(f'`{path}`' for path in paths)})" for name, paths in LONG_PARTS.items())
        + f". `{SOURCES}` are keys of what each band of any answer rests on.",
        "schema": {
            "type": "array",
            "maxItems": MOST_NAMES,
            "items": {
                "anyOf": [{"type": "string", "enum": list(INCLUDED)}, {"$ref": "#/components/schemas/field.blank"}]
            },
        },
        "style": "form",
        "explode": False,
    },
}
REFUSED = {
    400: "The body is not JSON: unexpected end of data: line 1 column 9 (char 8).",
    404: "There is no such entry. /api/v1/catalog/gpus lists all.",
    413: "The body is larger than 2,097,152 bytes. Send fewer values, in several requests.",
    414: "The query is longer than 16,384 bytes. Send the scenario as a POST body.",
    415: "Send JSON, and say so: content-type: application/json.",
    422: units.WHOLE.advice,
    500: "Something broke on our side. Name the request id to your operator: the log has it.",
    503: "Too many large questions at once. Ask again in a few seconds.",
}
"""What a refusal of each status may say."""
REFUSALS = {"GET": (414, 422, 500, 503), "POST": (400, 413, 415, 422, 500, 503)}


class Operation(routing.Route):
    """One question of the API: what serves it, and what the document says of it.

    The endpoint reads its fields itself. The framework would read them first, which takes longer than some answers do.

    Args:
        path: its address.
        endpoint: what answers it; its docstring is the description.
        name: its name in the document; where it is asked both ways, after ``get_`` or ``post_``.
        methods: how it is asked.
        answer: the record that it answers with, or for each media type one, or a schema.
        question: the component that is its body; see `_questions`.
        summary: what it answers, in few words; by default the first sentence of the description.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        name: str,
        *,
        methods: Sequence[str],
        answer: Any,
        question: str = "",
        summary: str = "",
    ) -> None:
        super().__init__(path, endpoint, methods=list(methods), name=name)
        self.asked_by = tuple(methods)
        self.answer = answer
        self.question = question
        self.description = cleandoc(endpoint.__doc__ or "")
        self.summary = summary or self.description.partition("\n")[0].rstrip(".")

    @property
    def selects(self) -> bool:
        """Whether parts of its answer can be asked for."""
        return bool(self.question) and not isinstance(self.answer, Mapping)

    def matches(self, scope: Scope) -> tuple[routing.Match, Scope]:
        """Whether this is asked. Like the framework's own routes it leaves its mark, which the metrics read."""
        match, child = super().matches(scope)
        return match, {**child, "route": self} if match is not routing.Match.NONE else child


class Fields(NamedTuple):
    """The fields of a question: as a JSON body has them, and the parameters of a query string by field."""

    body: Schema
    parameters: Mapping[str, str]


def document(operations: Sequence[Operation], root_path: str = "") -> Schema:
    """The whole document, of a service below this sub-path."""
    answers = AnswerSchemas()
    schemas: dict[str, Schema] = {}
    parameters: dict[str, Schema] = {}
    questions = _questions(schemas, parameters)
    in_queries = {each.question for each in operations if "GET" in each.asked_by}
    asked = {
        name for title, question in questions.items() if title in in_queries for name in question.parameters.values()
    }
    paths: dict[str, Schema] = {}
    for operation in operations:
        for method in operation.asked_by:
            methods = paths.setdefault(operation.path, {})
            methods[method.lower()] = _operation(operation, method, questions, answers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Railyard",
            "version": __version__,
            "summary": SUMMARY,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root_path or "/"}],
        "security": [],
        "tags": [{"name": TAG, "description": "All questions, the catalogue, and how far off the models are."}],
        "paths": paths,
        "components": {
            "schemas": schemas | answers.components | {SELECTED: _selected(answers.components["Plan"])} | _problem(),
            "parameters": {name: parameters[name] for name in parameters if name in asked} | dict(SELECTION),
            "examples": {name: {"value": value} for name, value in _answer_examples().items()},
            "headers": {
                "ETag": {"schema": {"type": "string"}, "description": "Made of the question and the versions."}
            },
            "responses": {_named(status): _refusal(status) for status in REFUSED}
            | {_named(304): {"description": "The answer is the one you have (If-None-Match)."}},
        },
    }


def _operation(operation: Operation, method: str, questions: Mapping[str, Fields], answers: AnswerSchemas) -> Schema:
    """One operation: what it takes and answers."""
    get = method == "GET"
    both = len(operation.asked_by) > 1
    entry: Schema = {
        "tags": [TAG],
        "summary": operation.summary,
        "description": operation.description,
        "operationId": f"{method.lower()}_{operation.name}" if both else operation.name,
    }
    path = [
        {"name": name, "in": "path", "required": True, **PATH_PARAMETERS[name]} for name in operation.param_convertors
    ]
    parameters = questions[operation.question].parameters.values() if get and operation.question else ()
    names = [*parameters, *(SELECTION if operation.selects else ())]
    if path or names:
        entry["parameters"] = [*path, *(_reference("parameters", name) for name in names)]
    if not get:
        content = {"schema": _reference("schemas", operation.question), "examples": EXAMPLES[operation.name]}
        entry["requestBody"] = {"required": True, "content": {JSON: content}}
    answer: Schema = {"description": "The answer."}
    by_media = operation.answer if isinstance(operation.answer, Mapping) else {JSON: operation.answer}
    example = {"examples": {"shortened": _reference("examples", operation.name)}}
    answer["content"] = {
        media: kind if isinstance(kind, Mapping) else {"schema": _answered(operation, answers.of(kind)), **example}
        for media, kind in by_media.items()
    }
    if get:
        answer["headers"] = {"etag": _reference("headers", "ETag")}
    statuses = [*((304,) if get else ()), *((404,) if path else ()), *REFUSALS[method]]
    entry["responses"] = {"200": answer} | {str(status): _reference("responses", _named(status)) for status in statuses}
    return entry


def _answered(operation: Operation, whole: Schema) -> Schema:
    """What an operation answers with: the whole, or where its parts can be asked for, these."""
    return {"anyOf": [whole, _reference("schemas", SELECTED)]} if operation.selects else whole


SELECTED = "SelectedAnswer"


def _selected(plan: Schema) -> Schema:
    """An answer of which parts are selected: it has in common with a plan what every answer says."""
    return {
        "type": "object",
        "description": "An answer as `fields` or `exclude` selects its parts: these alone, each as in the whole answer "
        "but without what is not selected inside it, and what always comes.",
        "properties": {name: plan["properties"][name] for name in ALWAYS},
        "required": list(ALWAYS),
    }


def _answer_examples() -> dict[str, Any]:
    """Of operations that answer with a record, its answer to the first of their examples; lists have their first."""
    examples: dict[str, Any] = orjson.loads(ANSWER_EXAMPLES.read_bytes())
    return examples


def _reference(part: str, name: str) -> Schema:
    return {"$ref": f"#/components/{part}/{name}"}


# Refusals ------------------------------------------------------------------------------------------------------------


def _named(status: int) -> str:
    """The name of an answer with this status.

    >>> _named(415)
    'UnsupportedMediaType'
    """
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def _refusal(status: int) -> Schema:
    detail = REFUSED[status]
    wrong: Schema = {"errors": [{"pointer": "#/gpus", "detail": detail}]} if status == 422 else {}
    example = {
        "type": problems.INVALID if wrong else "about:blank",
        "title": "Invalid input" if wrong else HTTPStatus(status).phrase,
        "status": status,
        "detail": f"gpus: {detail}" if wrong else detail,
        "instance": "/api/v1/plan",
        "request_id": "9f86d081884c7d65",
    }
    content = {MEDIA_TYPE: {"schema": _reference("schemas", "Problem"), "example": example | wrong}}
    return {"description": HTTPStatus(status).phrase, "content": content}


def _problem() -> dict[str, Schema]:
    """The problem document and its parts."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts: dict[str, Schema] = schema.pop("$defs")
    schema["properties"]["status"]["x-unit"] = "1"
    return {"Problem": schema} | parts


# Questions -----------------------------------------------------------------------------------------------------------


def _questions(schemas: dict[str, Schema], parameters: dict[str, Schema]) -> dict[str, Fields]:
    """The questions by name; their fields go to the components."""
    scenario = fields(Scenario)
    sizing = {name: schema for name, schema in fields(Question).items() if schema != scenario.get(name)}
    owning = {name: schema for name, schema in fields(CostQuestion).items() if name not in scenario}
    pasted = {name: schema for name, schema in fields(CalibrateQuestion).items() if name not in scenario}
    several = {name: _several(name, scenario[name]) for name in ("message", "gpus")}
    served = {name: schema for name, schema in fields(ServingQuestion).items() if schema != scenario.get(name)}
    serving = scenario | served
    sized = {name: schema for name, schema in fields(ServeSizeQuestion).items() if schema != serving.get(name)}
    fields_of: dict[str, tuple[type[BaseModel], dict[str, dict[str, Schema]]]] = {
        "Scenario": (Scenario, {}),
        "AllReduceQuestion": (Scenario, {"all_reduce": several}),
        "ServeQuestion": (ServingQuestion, {"serve": served}),
        "ServeSizeQuestion": (ServeSizeQuestion, {"serve_size": sized, "serve": served}),
        "SizeQuestion": (Question, {"size": sizing}),
        "CalibrateQuestion": (CalibrateQuestion, {"calibrate": pasted}),
        "CostQuestion": (CostQuestion, {"cost": owning}),
        "CatalogQuestion": (CatalogQuestion, {"catalog": fields(CatalogQuestion)}),
    }
    every = dict(scenario)
    for _, by_prefix in fields_of.values():
        every |= {f"{prefix}.{name}": schema for prefix, some in by_prefix.items() for name, schema in some.items()}
    schemas["field.blank"] = {"type": "string", "maxLength": 0, "description": "The default."}
    schemas |= {name: {"type": "string", "maxLength": units.LONGEST, **text} for name, text in TEXTS.values()}
    for name, schema in every.items():
        parameters[name] = _parameter(name, schema, every)
        if name.startswith("catalog.") and schema.get("type") == "array":  # no body has it: its parameter says all
            continue
        hidden = {"nullable", "title"} if "enum" in schema else {"nullable"}  # generators name an enum by its title
        schemas[f"field.{name}"] = {key: value for key, value in schema.items() if key not in hidden}
    questions = {}
    for title, (model, by_prefix) in fields_of.items():
        names = {name: _component(name, by_prefix) for name in model.model_fields}
        body = _object(model, {name: _valued(component, every[component]) for name, component in names.items()})
        questions[title] = Fields(body, names)
    reference = _reference("schemas", "Scenario")
    scenarios = {
        "type": "array",
        "minItems": 2,
        "maxItems": 4,
        "items": reference,
        "description": "Two to four scenarios.",
    }
    schemas["Comparison"] = _object(None, {"scenarios": scenarios}) | {"required": ["scenarios"]}
    schemas["Grid"] = _grid(scenario)
    schemas |= {title: question.body for title, question in questions.items() if title != "CatalogQuestion"}
    return questions


def _component(name: str, by_prefix: Mapping[str, Mapping[str, Schema]]) -> str:
    """The component of a field: the scenario's, or that of a question which has one of its own."""
    return next((f"{prefix}.{name}" for prefix, names in by_prefix.items() if name in names), name)


def _grid(scenario: Mapping[str, Schema]) -> Schema:
    """The body of a sweep."""
    values = {
        name: {"type": "array", "minItems": 1, "maxItems": MOST_VALUES, "items": _valued(name, schema)}
        for name, schema in scenario.items()
    }
    axes = _object(None, values) | {"minProperties": 1, "maxProperties": 12}
    axes["description"] = "For each field to vary, its values; the last field varies fastest."
    columns = {
        "type": "array",
        "minItems": 1,
        "maxItems": 200,
        "items": {"type": "string", "enum": list(figures(Plan))},
        "default": list(RESULTS),
        "description": Grid.model_fields["results"].description,
    }
    base = _reference("schemas", "Scenario")
    text = {"type": "string", "pattern": cursors.PATTERN, "maxLength": 40, "examples": ["3242-5d41402abc4b"]}
    cursor = {
        "anyOf": [text, {"type": "null"}],
        "description": "Where a sweep that was cut off goes on: as its last row says, everything else as it was.",
    }
    properties = {"base": base, "grid": axes, "results": columns, "cursor": cursor}
    return _object(Grid, properties) | {"required": ["grid"]}


def _object(model: type[BaseModel] | None, properties: Mapping[str, Schema]) -> Schema:
    about = {"description": cleandoc(model.__doc__ or "")} if model else {}
    return {"type": "object", **about, "additionalProperties": False, "properties": dict(properties)}


def fields(model: type[BaseModel]) -> dict[str, Schema]:
    """The JSON schema of each field; ``nullable`` where JSON's null means the default too."""
    model_schema = model.model_json_schema()
    named: Mapping[str, Schema] = model_schema.get("$defs", {})
    return {name: _exemplified(name, _field(schema, named)) for name, schema in model_schema["properties"].items()}


def _exemplified(name: str, schema: Schema) -> Schema:
    """A field with an example, where neither a default nor a list of values is one."""
    if schema.keys() & {"default", "enum", "examples"}:
        return schema
    example = True if schema["type"] == "boolean" else field_examples.FIELDS[name]
    listed = schema["type"] == "array" and not isinstance(example, list)
    return schema | {"examples": [[example] if listed else example]}


def _field(schema: Schema, named: Mapping[str, Schema]) -> Schema:
    """One field: what it is, what it may be, its unit."""
    about = {key: schema[key] for key in ("title", "default") if schema.get(key) not in (None, [])}
    about["description"] = schema.get("description", "") or f"{schema['title']}."
    core = {key: value for key, value in schema.items() if key not in (*about, "default", "group", "usual")}
    branches = [branch for branch in core.pop("anyOf", ()) if branch != {"type": "null"}]
    if not branches:
        return about | _core(core, named)
    return about | _core(branches[0], named) | {"nullable": True}


def _core(core: Schema, named: Mapping[str, Schema]) -> Schema:
    """What a field may be: a quantity is a number in its base unit, or text with a unit."""
    limits = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
    if "$ref" not in core:
        return {limits.get(key, key): value for key, value in core.items()}
    bounds = {limits[key]: value for key, value in core.items() if key in limits}
    unit = named[core["$ref"].rpartition("/")[2]]["x-unit"]
    text = {"maxLength": units.LONGEST, "pattern": core.get("pattern", "[0-9]")}
    return {"type": ["number", "string"], **bounds, **text, "x-unit": unit}


def _valued(name: str, schema: Schema) -> Schema:
    """A field in a JSON body."""
    reference = _reference("schemas", f"field.{name}")
    return {"anyOf": [reference, {"type": "null"}]} if schema.get("nullable") else reference


def _several(name: str, schema: Schema) -> Schema:
    """A field that may repeat."""
    reference = _reference("schemas", f"field.{name}")
    about = {key: schema[key] for key in ("title", "description", "nullable") if key in schema}
    return about | {"anyOf": [reference, {"type": "array", "minItems": 1, "maxItems": MOST_PAIRS, "items": reference}]}


def _parameter(name: str, schema: Schema, every: Mapping[str, Schema]) -> Schema:
    """A field as a query parameter: text, where a blank stands for the default."""
    parameter: Schema = {"name": name.rpartition(".")[2], "in": "query", "description": schema["description"]}
    several = next((branch for branch in schema.get("anyOf", (schema,)) if branch.get("type") == "array"), None)
    if several is None:
        reference = _reference("schemas", f"field.{name}")
        return parameter | {"schema": {"anyOf": [reference, *_texts(schema), _reference("schemas", "field.blank")]}}
    item = several["items"]
    texts = _texts(every[item["$ref"].rpartition("field.")[2]] if "$ref" in item else item)
    inner = several | {"items": {"anyOf": [item, *texts, _reference("schemas", "field.blank")]}}
    return parameter | {"schema": inner, "style": "form", "explode": True}


def _texts(schema: Schema) -> list[Schema]:
    """What a query string takes for a field besides its values."""
    kind = schema["type"] if isinstance(schema["type"], str) else ""
    return [_reference("schemas", TEXTS[kind][0])] if kind in TEXTS else []


def resolved(root: Schema, schema: Schema) -> Schema:
    """A schema of the document with its references filled in, and of alternatives those that a body has too."""
    if "$ref" in schema:
        _, _, part, name = schema["$ref"].split("/")
        return resolved(root, root["components"][part][name]) | {k: v for k, v in schema.items() if k != "$ref"}
    if "items" in schema:
        return schema | {"items": resolved(root, schema["items"])}
    if "anyOf" not in schema:
        return schema
    texts = [_reference("schemas", name) for name, _ in TEXTS.values()]
    branches = [resolved(root, branch) for branch in schema["anyOf"] if branch not in texts]
    values = [branch for branch in branches if branch.get("type") != "null" and branch.get("maxLength") != 0]
    about = {key: value for key, value in schema.items() if key != "anyOf"}
    return values[0] | about if len(values) == 1 else about | {"anyOf": values}
