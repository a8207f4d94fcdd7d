"""What every request passes: request id, limits, HEAD, security headers, errors as problems, metrics, one log line.

One pure ASGI layer, because each layer costs time on every request.
"""

import logging
import re
import secrets
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hashlib import sha256
from typing import Any

from starlette.requests import ClientDisconnect

from app.web import problems
from app.web.metrics import Metrics
from app.web.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("railyard.request")

CLIENT_CLOSED_REQUEST = 499
"""Counted and logged, never sent: the client was gone, or cut off, before its body had arrived (nginx's number)."""

# Plotly writes its rules into an empty <style> element (hence the hash of nothing) and sets style attributes.
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
THEME_SCRIPT = 'try{document.documentElement.dataset.theme=localStorage.getItem("railyard.theme")??""}catch{}'
"""The one script that stands in a page: it takes the colours that the reader chose before anything is drawn."""
_THEME_HASH = b64encode(sha256(THEME_SCRIPT.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'self' 'sha256-{_THEME_HASH}'",
        f"style-src 'self' {EMPTY_STYLE}",
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
EMBEDDABLE = "/chart/{name}.{ending}"
"""The route whose answers other sites may show, where the operator names some."""


def embeddable(origins: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """The same headers for what pages of these sites may show."""
    policy = CONTENT_SECURITY_POLICY.replace("frame-ancestors 'none'", " ".join(("frame-ancestors 'self'", *origins)))
    changed = {b"content-security-policy": policy.encode(), b"cross-origin-resource-policy": b"cross-origin"}
    return [(name, changed.get(name, value)) for name, value in SECURITY_HEADERS if name != b"x-frame-options"]


_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")


class RequestMiddleware:
    """The outermost layer of the application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self.app = app
        self.settings = settings
        self.metrics = metrics
        self.quiet = not settings.access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        exchange = _Exchange(scope, receive, send, self.settings)
        self.metrics.running.inc()
        try:
            refusal = exchange.refusal()
            if refusal is not None:
                await exchange.answer(refusal)
            else:
                await self.app(exchange.scope, exchange.receive, exchange.send)
        except problems.ProblemError as error:  # found while the body was read
            await exchange.answer(error)
        except ClientDisconnect:
            exchange.status = CLIENT_CLOSED_REQUEST
        except Exception:
            self.metrics.errors.inc()
            log.exception("request failed", extra={"fields": {"id": exchange.request_id, "path": scope["path"]}})
            await exchange.answer(problems.status_problem(500))
        finally:
            self.metrics.running.dec()
            seconds = time.perf_counter() - began
            route = getattr(exchange.scope.get("route"), "path", None) or "other"
            self.metrics.answered(exchange.method, route, exchange.status, seconds)
            if not self.quiet:
                fields = {
                    "id": exchange.request_id,
                    "method": exchange.method,
                    "path": scope["path"][:500],
                    "query": scope["query_string"][:1000].decode("latin-1"),
                    "status": exchange.status,
                    "ms": round(seconds * 1e3, 2),
                    "bytes": exchange.sent,
                    "client": (scope.get("client") or ("",))[0],
                }
                log.info("request", extra={"fields": fields})


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
        self._receive = receive
        self._send = send
        self.settings = settings
        self.method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self.head = scope["method"] == "HEAD"
        self.status = 500
        self.started = False
        self.received = 0
        self.sent = 0
        self.length = 0
        given = self.origin = b""
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                given = value
            elif name == b"origin":
                self.origin = value
            elif name == b"content-length" and value.isdigit():
                self.length = int(value)
        self.request_id = given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.scope: Scope = scope
        if self.head:  # routes know GET only: HEAD is GET whose body stays here
            self.scope = {**scope, "method": "GET"}
        root = settings.root_path
        if root:  # the path is whole again, whether the proxy took the sub-path off or not
            inside = scope["path"] == root or scope["path"].startswith(root + "/")
            self.scope = {**self.scope, "root_path": root, "path": scope["path"] if inside else root + scope["path"]}
        self.scope.setdefault("state", {})["request_id"] = self.request_id

    def refusal(self) -> problems.ProblemError | None:
        """Why this request is not even looked at."""
        if self.length > self.settings.max_body:
            return self._too_large()
        if len(self.scope["query_string"]) > self.settings.max_query:
            return problems.ProblemError(
                414, f"The query is longer than {self.settings.max_query:,} bytes. Send the scenario as a POST body."
            )
        return None

    def _too_large(self) -> problems.ProblemError:
        return problems.ProblemError(
            413, f"The body is larger than {self.settings.max_body:,} bytes. Send fewer values, in several requests."
        )

    async def receive(self) -> Message:
        """The next part of the request."""
        message = await self._receive()
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            if self.received > self.settings.max_body:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on, dressed."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [
                *message["headers"],
                *self._security(),
                (b"x-request-id", self.request_id.encode()),
            ]
            await self._send(message)
        elif not self.head:
            self.sent += len(message.get("body", b""))
            await self._send(message)
        elif not message.get("more_body", False):
            await self._send({"type": "http.response.body", "body": b""})

    def _security(self) -> list[tuple[bytes, bytes]]:
        origins = self.settings.embed_origins
        shown = origins and getattr(self.scope.get("route"), "path", None) == EMBEDDABLE
        return embeddable(origins) if shown else SECURITY_HEADERS

    async def answer(self, error: problems.ProblemError) -> None:
        """Answer with a problem, unless the answer has begun: then the connection is cut, which a client notices."""
        if self.started:
            raise ConnectionError("failed after the answer had begun")
        reply = problems.response(error, self.scope["path"], self.request_id)
        origin = self.origin.decode("latin-1")
        if origin and {origin, "*"} & {*self.settings.cors_origins}:  # the layer of CORS, inside this one, sees none
            reply.headers.update({"access-control-allow-origin": origin, "vary": "origin"})
        await reply(self.scope, self._receive, self.send)


_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})
