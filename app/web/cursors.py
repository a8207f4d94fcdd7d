"""Where rows go on: the number of the next one, and a hash of what is asked, so that it is of these rows alone."""

import hashlib
import re

from app import __version__
from app.catalog.load import Catalog
from app.web import problems
from app.web.problems import FieldProblem
from app.web.responses import to_json

PATTERN = r"^[0-9]{1,18}-[0-9a-f]{12}$"


def written(number: int, asked: list[object], catalog: Catalog) -> str:
    """The cursor of a row, counted from 0."""
    text = to_json([*asked, __version__, catalog.version])
    return f"{number}-{hashlib.blake2b(text, digest_size=6).hexdigest()}"


def read(text: object, asked: list[object], catalog: Catalog, rows: int) -> int:
    """The number of the row that a cursor names, of so many that are asked for; none names the first.

    Raises:
        ProblemError: it is no cursor of these rows.
    """
    if text is None:
        return 0
    if not isinstance(text, str) or not re.match(PATTERN, text):
        detail = "This is no cursor. Send the one that came with the rows before."
    elif text != written(number := int(text.partition("-")[0]), asked, catalog):
        detail = "This cursor is of another question, version or catalogue. Begin anew without it."
    elif number >= rows:
        detail = f"There is no row {number:,}: there are {rows:,}, the first of them 0."
    else:
        return number
    raise problems.invalid([FieldProblem(pointer="#/cursor", detail=detail)])
