"""Where a sweep goes on: the number of the next row, and a hash of what is swept, so that it is of this sweep alone."""

import hashlib
import re

from app import __version__
from app.catalog.load import Catalog
from app.studies.sweep import Grid
from app.web import problems
from app.web.problems import FieldProblem
from app.web.responses import to_json

PATTERN = r"^[0-9]{1,18}-[0-9a-f]{12}$"


def written(number: int, grid: Grid, catalog: Catalog) -> str:
    """The cursor of a row, counted from 0."""
    swept = to_json([grid.base, list(grid.grid.items()), grid.results, __version__, catalog.version])
    return f"{number}-{hashlib.blake2b(swept, digest_size=6).hexdigest()}"


def read(text: object, grid: Grid, catalog: Catalog) -> int:
    """The number of the row that a cursor names; none names the first.

    Raises:
        ProblemError: it is no cursor of this sweep.
    """
    if text is None:
        return 0
    if not isinstance(text, str) or not re.match(PATTERN, text):
        detail = "This is no cursor. Send the one of a sweep's last row or of its header x-sweep-cursor."
    elif text != written(number := int(text.partition("-")[0]), grid, catalog):
        detail = "This cursor is of another sweep, version or catalogue. Begin anew without it."
    elif number >= grid.points():
        detail = f"There is no row {number:,}: the grid has {grid.points():,}, the first of them 0."
    else:
        return number
    raise problems.invalid([FieldProblem(pointer="#/cursor", detail=detail)])
