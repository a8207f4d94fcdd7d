"""The catalogue as programs read it: entries by what they are, a page at a time, as JSON or CSV."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.catalog.estimate import Status
from app.catalog.load import KINDS, Catalog
from app.catalog.names import did_you_mean, entries_called, nearest
from app.plan.scenario import Count
from app.report.catalog_file import Listed, catalog_csv
from app.report.catalog_listing import TITLES
from app.units import Written, whole
from app.web import answers, cursors, requests
from app.web.heavy_queue import Stopped, compute
from app.web.problems import ProblemError
from app.web.responses import (
    JSON,
    NEGOTIATED,
    PLAIN_CSV,
    PageCache,
    attached,
    csv_type,
    entity_tag,
    preferred,
    reply,
    to_json,
    wants_heading,
)

LIST = "/api/v1/catalog"
WRITTEN = r"[^\s\x1c-\x1f\x85]|^$"
"""A text is more than spaces, which are refused, or nothing, which is the default."""
Name = Annotated[str, Field(max_length=80, pattern=WRITTEN)]
WHOLE_YEAR = Written(whole, "int_parsing", "Type a year, such as 2024.")


class CatalogQuestion(BaseModel):
    """Which entries of the catalogue, how many of them, and how they are written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    q: Annotated[str, Field(max_length=100, pattern=WRITTEN)] = Field(
        "",
        title="Words",
        description="Words that entries hold, each of them: in key, names, maker, family, note, or their constants.",
    )
    vendor: Annotated[tuple[Name, ...], Field(max_length=20)] = Field(
        (), title="Maker", description="Of GPUs, switches, adapters and servers; may repeat.", examples=[["NVIDIA"]]
    )
    family: Annotated[tuple[Name, ...], Field(max_length=20)] = Field(
        (), title="Family", description="Of links, networks, switches, adapters and models.", examples=[["infiniband"]]
    )
    status: Annotated[tuple[Status, ...], Field(max_length=len(get_args(Status)))] = Field(
        (), title="Status", description="How certain it is that one can have it; may repeat.", examples=[["shipping"]]
    )
    since: Annotated[int, WHOLE_YEAR, Field(ge=1950, le=2100, examples=[2024])] | None = Field(
        None, title="Since", description="Entries of this year and later; those without a year are left out."
    )
    limit: Annotated[Count, Field(ge=1, le=1000, examples=[50])] | None = Field(
        None, title="At most", description="Entries of one answer. Blank: all."
    )
    cursor: Annotated[str, Field(max_length=40, examples=["50-5d41402abc4b"])] | None = Field(
        None,
        title="Cursor",
        description="Where the list goes on: the `cursor` of the answer before, all else as it was.",
    )
    format: Literal["json", "csv"] | None = Field(
        None, title="Format", description="How the answer is written. Blank: as `Accept` says, JSON if it does not."
    )

    def fits(self, listed: Listed) -> bool:
        """Whether an entry is asked for."""
        families = [getattr(listed.entry, "family", ""), *getattr(listed.entry, "families", ())]
        return (
            _among(self.vendor, [getattr(listed.entry, "vendor", "")])
            and _among(self.family, families)
            and _among(self.status, [getattr(listed.entry, "status", "")])
            and (self.since is None or (getattr(listed.entry, "year", None) or 0) >= self.since)
            and all(word in _said(listed) for word in self.q.casefold().split())
        )


REPEATABLE = requests.repeatable(CatalogQuestion, "vendor", "family", "status")


def _among(wanted: Sequence[str], names: Iterable[str]) -> bool:
    """Whether one of the names is wanted, small or large letters; where nothing is, all are."""
    return not wanted or bool({name.casefold() for name in wanted} & {name.casefold() for name in names})


def _said(listed: Listed) -> str:
    """All that an entry says in words, in small letters."""
    if not isinstance(listed.entry, BaseModel):
        return " ".join((TITLES[listed.kind], listed.key, *listed.entry)).casefold()
    texts = [value for _, value in listed.entry if isinstance(value, str)]
    return " ".join(
        (TITLES[listed.kind], listed.key, *texts, *getattr(listed.entry, "also", ()), *listed.numbers)
    ).casefold()


# Answers -------------------------------------------------------------------------------------------------------------


async def get_catalog(request: Request) -> Response:
    """Every constant with its unit, range, source and status, by kind and key.

    Or those entries that the fields below name, at most so many at a time. As CSV (`format=csv`, or
    `Accept: text/csv`) each number is a row.
    """
    return await _listed(request, "")


async def get_catalog_kind(request: Request) -> Response:
    """The entries of one kind, by key, and the sources that they cite.

    All, or those that the fields below name; with `limit` the answer's `cursor`, and its header `link`, lead to the
    next ones. As CSV (`format=csv`, or `Accept: text/csv`) each entry is a row, of prices and constants each number;
    the last columns are what it rests on. The next ones have no heading, so that they can be put below those before,
    unless `Accept: text/csv; header=present` asks for one.
    """
    return await _listed(request, request.path_params["kind"])


def meant(key: str, entries: Mapping[str, Any]) -> str:
    """Which entries one may mean by a key that there is none of: those that people call so, or those most like it.

    >>> from app.catalog.load import load_catalog
    >>> meant("h100", load_catalog().gpus), meant("nothing", load_catalog().gpus)
    ('Did you mean h100-sxm? ', '')
    """
    named = {known: entry for known, entry in entries.items() if hasattr(entry, "name")}
    return did_you_mean(entries_called(key, named)[:4] or nearest(key, entries))


async def get_catalog_entry(request: Request) -> Response:
    """One entry and the sources that it cites."""
    kind, key = request.path_params["kind"], request.path_params["key"]
    catalog: Catalog = request.app.state.catalog
    cache: PageCache = request.app.state.page_cache
    requests.reject_query(request)
    _check_kind(kind)
    if key not in catalog.kind(kind):
        raise ProblemError(404, f"There is no such entry. {meant(key, catalog.kind(kind))}{LIST}/{kind} lists all.")
    if cached := cache.known(request):
        return cached

    def work(_: Stopped) -> Response:
        listed = Listed(kind, key, catalog.kind(kind)[key])
        answer = {"kind": kind, "key": key, "entry": listed.entry, "permalink": listed.page}
        return cache.keep(request, _json(request, answer, cited=True))

    return await compute(request, work)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ProblemError(404, f"There is no such kind of entry. The kinds are {', '.join(KINDS)}.")


async def _listed(request: Request, kind: str) -> Response:
    """The entries of a kind, or of all of them; those of all fields left blank are kept."""
    if kind:
        _check_kind(kind)
    asked = requests.address(request, REPEATABLE)
    question = requests.validate(CatalogQuestion, asked, request.app.state.catalog, strict=False)
    cache: PageCache = request.app.state.page_cache
    accept = request.headers.get("accept", "")
    as_csv = (question.format or preferred(accept, (JSON, PLAIN_CSV))) in ("csv", PLAIN_CSV)
    if not as_csv and (cached := cache.known(request, NEGOTIATED)):
        return cached

    def work(_: Stopped) -> Response:
        page = _page(question, kind, request.app.state.catalog)
        if not (as_csv or asked):
            return cache.keep(request, _json(request, _entries(page, kind), cited=bool(kind)), vary=NEGOTIATED)
        headers = {"vary": NEGOTIATED, **_next(request, asked, page.cursor)}
        if not as_csv:
            return reply(request, _json(request, _entries(page, kind), cited=True), headers=headers)
        heading = wants_heading(accept, goes_on=question.cursor is not None)
        site, version = str(request.base_url).rstrip("/"), request.app.state.catalog.version
        file = "".join(catalog_csv(page.entries, kind, version, site, heading=heading)).encode()
        name = f"railyard-{'-'.join(filter(None, ('catalog', kind)))}.csv".replace("_", "-")
        tag = f"{entity_tag(request)}-{'csv' if heading else 'rows'}"
        return reply(request, file, csv_type(heading=heading), headers=attached(name) | headers, tag=tag)

    return await compute(request, work)


class Page(NamedTuple):
    """Entries, how many there are on all pages, and where the list goes on."""

    entries: list[Listed]
    matching: int
    cursor: str | None


def _page(question: CatalogQuestion, kind: str, catalog: Catalog) -> Page:
    kinds = (kind,) if kind else KINDS
    every = (Listed(each, key, entry) for each in kinds for key, entry in catalog.kind(each).items())
    entries = [listed for listed in every if question.fits(listed)]
    asked: list[object] = [kind, question.model_dump(exclude={"limit", "cursor", "format"})]
    begin = cursors.read(question.cursor, asked, catalog, len(entries))
    end = begin + (question.limit or len(entries))
    cursor = cursors.written(end, asked, catalog) if end < len(entries) else None
    return Page(entries[begin:end], len(entries), cursor)


def _next(request: Request, asked: Mapping[str, Any], cursor: str | None) -> dict[str, str]:
    """The header that leads to the next page (RFC 8288), if there is one."""
    if cursor is None:
        return {}
    address = request.scope.get("root_path", "") + LIST + request.scope["path"].partition(LIST)[2]
    return {"link": f'<{address}?{urlencode({**asked, "cursor": cursor}, doseq=True)}>; rel="next"'}


def _entries(page: Page, kind: str) -> dict[str, Any]:
    """A page as JSON has it."""
    by_kind: dict[str, dict[str, Any]] = {}
    for listed in page.entries:
        by_kind.setdefault(listed.kind, {})[listed.key] = listed.entry
    about = {"count": page.matching, "cursor": page.cursor}
    if kind:
        return {"kind": kind, "entries": by_kind.get(kind, {}), "permalink": f"/catalog/{kind}", **about}
    return {"kinds": by_kind, "permalink": "/catalog", **about}


def _json(request: Request, answer: dict[str, Any], *, cited: bool) -> bytes:
    """An answer with the versions, and with the documents that it cites."""
    catalog: Catalog = request.app.state.catalog
    answer = {**answers.versions(catalog), **answer}
    if cited and answer.get("kind") != "sources":
        text = to_json(answer)
        answer["sources"] = {key: source for key, source in catalog.sources.items() if b'"%s"' % key.encode() in text}
    return to_json(answers.with_root_path(answer, request.app.state.settings.root_path))
