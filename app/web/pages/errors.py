"""Errors as pages."""

from fastapi import Request, Response

from app.plan.scenario import Scenario
from app.web import form
from app.web.problems import ProblemError
from app.web.templating import page


def wants_page(request: Request) -> bool:
    """Whether the answer is for a person: a browser outside the API."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return not path.startswith(("/api/", "/static/")) and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, error: ProblemError) -> Response:
    """An error as a page."""
    state = request.scope.get("state", {})
    names = [item.pointer.removeprefix("#").lstrip("/").partition("/")[0] for item in error.problem.errors]
    values = {
        "problem": error.problem,
        "fields": [(form.title(name), item.detail) for name, item in zip(names, error.problem.errors, strict=True)],
        "request_id": state.get("request_id", ""),
        "query": request.url.query if set(names) <= Scenario.model_fields.keys() else "",
    }
    answer = page(request, "error.html", values, status=error.problem.status)
    answer.headers.update(error.headers)
    return answer
