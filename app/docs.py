"""/docs: the API's own page, with Swagger UI from the installed package and no inline script."""

import html

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from app import assets

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Every question that Railyard answers over REST, with examples to try.">
<title>API · Railyard</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{style}">
<script src="{bundle}" defer></script>
<script src="{start}" defer></script>
</head>
<body>
<nav aria-label="Railyard"><a href="{root}/">Planner</a></nav>
<main id="swagger-ui" data-openapi="{openapi}">
<noscript>The API is described by <a href="{openapi}">openapi.json</a>; this page draws it with JavaScript.</noscript>
</main>
</body>
</html>
"""


def page(request: Request) -> HTMLResponse:
    """GET /docs."""
    root = request.scope.get("root_path", "")
    parts = {
        "style": assets.url("swagger-ui.css", root),
        "bundle": assets.url("swagger-ui-bundle.js", root),
        "start": assets.url("docs.js", root),
        "root": root,
        "openapi": f"{root}/openapi.json",
    }
    return HTMLResponse(_PAGE.format(**{name: html.escape(value) for name, value in parts.items()}))


route = Route("/docs", page, name="docs", methods=["GET"])
