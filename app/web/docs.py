"""/docs: the API's reference, made from the OpenAPI document; /docs/try: the same in Swagger UI.

The reference is a page like the others, complete without a script. Swagger UI comes from the installed package.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.plan.scenario import Scenario, group_of
from app.web import openapi
from app.web.answer_schemas import Schema
from app.web.form import GROUPS
from app.web.openapi import resolved
from app.web.responses import PageCache
from app.web.templating import page


def swagger(request: Request) -> Response:
    """GET /docs/try."""
    cache: PageCache = request.app.state.page_cache
    return cache.known(request) or page(request, "try.html", {})


def reference(request: Request) -> Response:
    """GET /docs. What it says of the document is worked out once for an application."""
    state = request.app.state
    if not hasattr(state, "reference"):
        state.reference = described(request.app.openapi())
    base = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
    cache: PageCache = state.page_cache
    return cache.known(request) or page(request, "docs.html", {**state.reference, "base": base})


def described(document: Schema) -> dict[str, Any]:
    """What the page prints of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    scenario = schemas["Scenario"]["properties"]
    by_field = group_of(Scenario)
    groups = [
        (
            title,
            [_row(name, resolved(document, schema)) for name, schema in scenario.items() if by_field[name] == group],
        )
        for group, title in GROUPS.items()
    ]
    return {
        "operations": [
            _operation(document, path, method, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ],
        "groups": groups,
        "count_of_fields": len(scenario),
        "problem": _rows(schemas["Problem"]),
        "field_problem": _rows(schemas["FieldProblem"]),
    }


def _operation(document: Schema, path: str, method: str, operation: Schema) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    shared = schemas["Scenario"]["properties"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    references = [parameter.get("$ref", "").rpartition("/")[2] for parameter in operation.get("parameters", [])]
    named = [
        document["components"]["parameters"][reference] if reference else parameter
        for reference, parameter in zip(references, operation.get("parameters", []), strict=True)
    ]
    takes = ""
    if body:
        name = body["schema"]["$ref"].rpartition("/")[2]
        needed = schemas[name].get("required", ())
        rows = [_row(key, resolved(document, field), key in needed) for key, field in _own(schemas[name], shared)]
        takes = {
            "Comparison": "A JSON body with two to four scenarios. Each has any of the",
            "Grid": "A JSON body with a base and the values of a grid, each over any of the",
        }.get(name, "A JSON body of " + ("the fields below and " if rows else "") + "any of the")
    else:
        rows = [
            _row(
                parameter["name"],
                resolved(document, parameter["schema"]) | _about(parameter),
                parameter.get("required", False),
            )
            for reference, parameter in zip(references, named, strict=True)
            if reference not in shared
        ]
        if any(reference in shared for reference in references):
            takes = f"A query string of {'the fields below and ' if rows else ''}any of the"
    summary, _, rest = operation.get("description", "").partition("\n\n")
    paragraphs = rest.split("\n\n") if summary.rstrip(".") == operation["summary"] else [summary, *rest.split("\n\n")]
    return {
        "key": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "description": [paragraph for paragraph in paragraphs if paragraph],
        "takes_scenario": takes,
        "rows": rows,
        "examples": list(_examples(path, operation, body)),
        "answers": [_answer(document, status, response) for status, response in sorted(operation["responses"].items())],
    }


def _about(parameter: Schema) -> dict[str, str]:
    return {"description": parameter["description"]}


def _own(schema: Schema, shared: Schema) -> Iterator[tuple[str, Schema]]:
    """The properties that differ from a scenario's."""
    for name, field in schema["properties"].items():
        if field != shared.get(name):
            yield name, field


def _examples(path: str, operation: Schema, body: Schema) -> Iterator[dict[str, str]]:
    """Requests to copy; BASE stands for the address of this server."""
    name = operation["operationId"].removeprefix("get_").removeprefix("post_")
    if body:
        for example in body["examples"].values():
            data = shlex.quote(json.dumps(example["value"], ensure_ascii=False))
            curl = f"curl -s 'BASE{path}' \\\n  -H 'content-type: application/json' \\\n  -d {data}"
            yield {"title": example["summary"], "curl": curl}
        return
    address = path.replace("{kind}", "gpus").replace("{key}", "h100-sxm")
    examples = openapi.EXAMPLES.get(operation["operationId"]) or openapi.EXAMPLES.get(name)
    for example in (examples or {"": {"summary": "Example", "value": {}}}).values():
        query = urlencode(example["value"], doseq=True)
        yield {"title": example["summary"], "curl": f"curl -s 'BASE{address}{'?' + query if query else ''}'"}


def _answer(document: Schema, status: str, response: Schema) -> dict[str, Any]:
    response = resolved(document, response)
    content = response.get("content", {})
    whole = [media["schema"].get("anyOf", [media["schema"]])[0] for media in content.values()]
    names = [schema.get("$ref", "").rpartition("/")[2] for schema in whole]
    schemas = document["components"]["schemas"]
    meaning = response["description"] if int(status) < 400 else HTTPStatus(int(status)).phrase
    fields = [field for name in names if name and name != "Problem" for field in schemas[name]["properties"]]
    return {"status": status, "meaning": meaning, "kinds": list(content), "fields": fields}


def _rows(schema: Schema) -> list[dict[str, Any]]:
    return [_row(name, field, name in schema.get("required", ())) for name, field in schema["properties"].items()]


def _row(name: str, schema: Schema, required: bool = False) -> dict[str, Any]:
    """One field as a line of a table."""
    choices = _choices(schema)
    default = schema.get("default")
    listed = isinstance(default, Sequence) and not isinstance(default, str)
    title, description = schema.get("title", ""), schema.get("description", "")
    return {
        "name": name,
        "value": "" if choices and not _many(schema) else _value(schema).removesuffix(" text" if choices else ""),
        "choices": choices,
        "default": ""
        if default in (None, "")
        else ", ".join(map(str, default))
        if listed
        else json.dumps(default).strip('"'),
        "required": required,
        "title": "" if _said(title, name) else title,
        "description": "" if description == f"{title}." else description,
    }


def _said(title: str, name: str) -> bool:
    """Whether a title says no more than the field's name."""
    return title.lower() in ("", name.replace("_", " "))


def _many(schema: Schema) -> bool:
    return any(branch.get("type") == "array" for branch in (schema, *schema.get("anyOf", ())))


def _choices(schema: Schema) -> list[str]:
    """The values that a field may take, if they are few enough to name."""
    if "enum" in schema:
        return [str(value) for value in schema["enum"] if value is not None]
    inner = [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return list(dict.fromkeys(value for branch in inner for value in _choices(branch)))


def _value(schema: Schema) -> str:
    """The kind of value in words."""
    if "$ref" in schema:
        return "object"
    if "x-unit" in schema:
        unit = schema["x-unit"]
        return "number" if unit == "1" else f"number in {unit}, or text with a unit"
    if "x-catalog" in schema:
        return f"key of the catalogue, such as {schema['examples'][0]}"
    if "anyOf" in schema:
        parts = [branch for branch in schema["anyOf"] if branch.get("type") != "null" and branch.get("maxLength") != 0]
        return " or ".join(dict.fromkeys(_value(branch) for branch in parts))
    kind = schema.get("type", "any value")
    kind = next(name for name in kind if name != "null") if isinstance(kind, list) else kind
    if kind == "array":
        few = f"{schema.get('minItems', 0)} to {schema['maxItems']}" if "maxItems" in schema else "list"
        inner = _value(schema["items"])
        return f"{few} of: {inner}" if few != "list" else f"list of: {inner}"
    words: str = {
        "integer": "whole number",
        "boolean": "true or false",
        "string": "text",
    }.get(str(kind), str(kind))
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f"{words}, {low:,.16g} to {high:,.16g}"
    if above is not None and high is not None:
        return f"{words} above {above:,.16g}, at most {high:,.16g}"
    return words if low is None else f"{words}, at least {low:,.16g}"


routes = (
    Route("/docs", reference, name="docs", methods=["GET"]),
    Route("/docs/try", swagger, name="docs_try", methods=["GET"]),
)
