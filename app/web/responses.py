"""Answers: JSON, the validator, the 304, compression, and the pages answered lately. There is one of each.

Whatever is asked by GET is a pure function of its address, the catalogue and the code, so its ETag is known before it
is computed. Assets, which have content of their own, bring their own.
"""

import gzip
import hashlib
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.catalog.load import Catalog

JSON = "application/json"
HTML = "text/html; charset=utf-8"
CSV = "text/csv; charset=utf-8"
PLAIN_CSV = CSV.partition(";")[0]
FRESH = "no-cache"
"""Keep it, and ask each time whether it still holds."""
ENCODED, NEGOTIATED = "accept-encoding", "accept, accept-encoding"
"""Headers that answers differ by: all by the first, those that come in several formats by both."""
SMALLEST = 1000
"""Bytes below which compression gains nothing."""
TEXT = ("text/", "application/javascript", JSON, "application/manifest+json", "image/svg+xml")
"""Media types that are worth compressing."""
ROOT = Path(__file__).parents[2]


def to_json(value: object) -> bytes:
    """Any answer as JSON: dataclasses as they are, NaN and infinity as null."""
    return orjson.dumps(value, _plain, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def attached(name: str) -> dict[str, str]:
    """The header of an answer that is a file of this name."""
    return {"content-disposition": f'attachment; filename="{name}"'}


# Validators ----------------------------------------------------------------------------------------------------------


@cache
def _build() -> bytes:
    """A hash of all that answers are made by, so that an ETag never outlives a change to it."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(path for folder in ("app", "templates", "static") for path in (ROOT / folder).rglob("*.*")):
        if path.suffix != ".pyc":
            digest.update(path.read_bytes())
    return digest.digest()


def entity_tag(request: Request) -> str:
    """The strong validator of an answer: the question, whatever the order of its fields, the versions and the code."""
    loaded: Catalog = request.app.state.catalog
    scope = request.scope
    digest = hashlib.blake2b(_build(), digest_size=12)
    for part in (loaded.version, scope.get("root_path", ""), scope["path"]):
        digest.update(part.encode() + b"\0")
    query: str = scope["query_string"].decode("latin-1")
    digest.update("&".join(sorted(query.split("&"), key=lambda pair: pair.partition("=")[0])).encode())
    return digest.hexdigest()


def not_modified(request: Request, vary: str = ENCODED) -> Response | None:
    """The 304, before anything is computed, when the client has the answer, which differs by these headers.

    ``*`` has to wait: only where there is an answer is there something that it can match.
    """
    if request.method != "GET" or "if-none-match" not in request.headers:
        return None
    return _unchanged(request, entity_tag(request), {"cache-control": FRESH, "vary": vary}, any_answer=False)


def _unchanged(request: Request, tag: str, headers: Mapping[str, str], *, any_answer: bool = True) -> Response | None:
    """The 304, when one of the client's copies is the answer, compressed or not (RFC 9110, section 13.1.2)."""
    given = request.headers.get("if-none-match", "")
    if not given:
        return None
    copies = {copy.strip().removeprefix("W/") for copy in given.split(",")}
    match = next((candidate for candidate in (f'"{tag}"', f'"{tag}-gzip"') if candidate in copies), None)
    if match is None and not (any_answer and "*" in copies):
        return None
    kept = {"cache-control": headers["cache-control"], "vary": headers["vary"], "etag": match or f'"{tag}"'}
    return Response(status_code=304, headers=kept)


# Compression ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def wishes(accept: str) -> Mapping[str, float]:
    """What a client would have, each with how much: 1 where it does not say (RFC 9110, section 12.4.2).

    >>> wishes("text/csv;header=present; q=0.5, application/x-ndjson"), wishes("gzip;q=much")
    ({'text/csv': 0.5, 'application/x-ndjson': 1.0}, {'gzip': 0.0})
    """
    weights: dict[str, float] = {}
    for part in accept.lower().replace(" ", "").split(","):
        name, *parameters = part.split(";")
        weight = next((text.removeprefix("q=") for text in parameters if text.startswith("q=")), "1")
        try:
            weights[name] = float(weight)
        except ValueError:
            weights[name] = 0.0
    return weights


def preferred(accept: str, kinds: Sequence[str]) -> str:
    """Of several media types the one that a client would have most; of equals what it names most exactly, or the first.

    >>> offered = ("application/json", "text/csv")
    >>> [preferred(text, offered) for text in ("", "*/*", "text/*", "text/csv, */*", "text/csv;q=0.5, */*")]
    ['application/json', 'application/json', 'text/csv', 'text/csv', 'application/json']
    """
    wished = wishes(accept)

    def weight_of(kind: str) -> tuple[float, int]:
        names = ("*/*", kind.partition("/")[0] + "/*", kind)
        exact = max((place for place, name in enumerate(names) if name in wished), default=-1)
        weight = wished[names[exact]] if exact >= 0 else 0.0
        return weight, exact if weight else -1

    return max(kinds, key=weight_of)


def wants_heading(accept: str, *, goes_on: bool) -> bool:
    """Whether a client's CSV begins with a heading: as it says (RFC 4180, section 3), else where no rows were before.

    >>> wants_heading("text/csv", goes_on=True), wants_heading("text/csv; header=present", goes_on=True)
    (False, True)
    """
    said = re.search(r"text/csv[^,]*;header=(present|absent)", accept.lower().replace(" ", ""))
    return said[1] == "present" if said else not goes_on


def csv_type(*, heading: bool) -> str:
    """The media type of CSV with or without a heading."""
    return CSV if heading else f"{CSV}; header=absent"


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client takes gzip: it says so, or takes anything, and does not say q=0 (RFC 9110, section 12.5.3).

    >>> [accepts_gzip(text) for text in ("gzip, br", "*", "br", "gzip;q=0, *", "identity, *;q=0", "GZIP; Q=0.5")]
    [True, True, False, False, False, True]
    """
    weights = wishes(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def wants_gzip(request: Request) -> bool:
    """Whether this request's client takes gzip."""
    return accepts_gzip(request.headers.get("accept-encoding", ""))


def zipped_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """A long file, compressed as it is made.

    >>> gzip.decompress(b"".join(zipped_parts([b"a,b", b"1,2"])))
    b'a,b1,2'
    """
    packer = zlib.compressobj(1, wbits=31)
    for part in parts:
        if packed := packer.compress(part):
            yield packed
    yield packer.flush()


def reply(
    request: Request,
    body: bytes,
    media_type: str = JSON,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    tag: str | None = None,
    zipped: bytes | None = None,
    level: int = 1,
) -> Response:
    """The answer: compressed for who takes that, tagged where it can be asked again, a 304 for who has it.

    Pages, API, files and assets all answer through it; the last five parameters are where they differ.

    Args:
        request: what is answered.
        body: the answer; not looked at where ``zipped`` is and the client takes gzip.
        media_type: of the body.
        status: of the answer.
        headers: more of them.
        tag: its validator, in place of the question's; blank where the answer is not for good.
        zipped: the body, compressed already.
        level: of compression. Level 4 takes twice the time of 1 and spares a tenth of the bytes.
    """
    headers = {"cache-control": FRESH, "vary": ENCODED, **(headers or {})}
    suffix = ""
    worth = zipped is not None or (len(body) > SMALLEST and media_type.startswith(TEXT))
    if worth and wants_gzip(request):
        body = gzip.compress(body, level, mtime=0) if zipped is None else zipped
        headers["content-encoding"] = "gzip"
        suffix = "-gzip"
    if request.method == "GET" and status == 200:
        tag = entity_tag(request) if tag is None else tag
        if tag and (unchanged := _unchanged(request, tag, headers)):
            return unchanged
        if tag:
            headers["etag"] = f'"{tag}{suffix}"'
    return Response(body, status, headers, media_type=media_type)


# Pages answered lately -----------------------------------------------------------------------------------------------


class PageCache:
    """Answers given lately, by address, compressed: who takes no gzip is rare, and waits for it to be undone."""

    def __init__(self, most: int = 128) -> None:
        self.most = most
        self.held: OrderedDict[tuple[Any, ...], tuple[bytes, str]] = OrderedDict()
        self.lock = Lock()

    def known(self, request: Request, vary: str = ENCODED) -> Response | None:
        """What this address was answered with before, or the 304 where the client has it."""
        if unchanged := not_modified(request, vary):
            return unchanged
        key = _address(request)
        with self.lock:
            if key not in self.held:
                return None
            self.held.move_to_end(key)
            zipped, media_type = self.held[key]
        body = b"" if wants_gzip(request) else gzip.decompress(zipped)
        return reply(request, body, media_type, headers={"vary": vary}, zipped=zipped)

    def keep(
        self, request: Request, body: bytes, media_type: str = JSON, level: int = 5, vary: str = ENCODED
    ) -> Response:
        """The answer, kept for who asks for it again."""
        zipped = gzip.compress(body, level, mtime=0)
        with self.lock:
            self.held[_address(request)] = zipped, media_type
            while len(self.held) > self.most:
                self.held.popitem(last=False)
        return reply(request, body, media_type, headers={"vary": vary}, zipped=zipped)


def _address(request: Request) -> tuple[Any, ...]:
    """All that a page may depend on: links that it offers to copy name the host."""
    scope = request.scope
    host, root = request.headers.get("host"), scope.get("root_path", "")
    return scope["scheme"], host, root, scope["path"], scope["query_string"], request.app.state.catalog.version
