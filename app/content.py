"""The pages that explain: catalogue, method, all-reduce, fabric, accuracy, acceptance sheet; and the files."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response

from app import catalog, listing, method
from app.problems import ProblemError
from app.templating import page

router = APIRouter(include_in_schema=False)


# Catalogue -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _listing(version: str) -> Mapping[str, Any]:
    """The whole catalogue as text; it changes only with the edition."""
    loaded = catalog.current()
    kinds = [listing.kind(name, loaded) for name in listing.TITLES if name != "sources"]
    return {"kinds": kinds, "cited": listing.cited(kinds)}


@router.get("/catalog")
def catalogue(request: Request) -> Response:
    """Every entry and every source."""
    return page(request, "catalog.html", _listing(catalog.current().version))


@router.get("/catalog/{kind}/{key}")
def entry(request: Request, kind: str, key: str) -> Response:
    """One entry with every constant, its range and its source."""
    loaded = catalog.current()
    if kind not in listing.TITLES or kind == "sources" or key not in loaded.kind(kind):
        raise ProblemError(404, "The catalogue has no such entry. /catalog lists all.")
    values = {"entry": listing.listed(kind, key, loaded), "kind_title": listing.TITLES[kind]}
    return page(request, "catalog_entry.html", values)


# Method --------------------------------------------------------------------------------------------------------------


@router.get("/method")
def methods(request: Request) -> Response:
    """Every formula."""
    return page(request, "method.html", {"groups": method.grouped(), "introductions": method.introductions()})
