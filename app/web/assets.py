"""Files of the pages: our own under static/, plotly.min.js and the Swagger UI from the installed packages.

Each is named with the hash of its content, so a browser keeps it for good, and is compressed once.
"""

import gzip
import hashlib
import importlib.util
import mimetypes
import re
from functools import cache, cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.web import problems
from app.web.responses import TEXT, reply, wants_gzip

FOLDER = Path(__file__).parents[2] / "static"
SCRIPT = "app.js"
"""The module that every page loads; it is served with those that it imports inside it."""
_IMPORT = re.compile(r'^import (\{[^}]+\}) from "\./([\w-]+)\.js";\n', re.M)
_EXPORT = re.compile(r"^export ((?:const|function|async function) (\w+))", re.M)
_COMMENT = re.compile(r"^\s*//.*\n", re.M)
_STYLE_COMMENT = re.compile(r"/\*.*?\*/\n*", re.S)


def _package_file(package: str, name: str) -> Path:
    """A file of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {package} is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / name


class Asset:
    """One file, read and compressed when first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        guessed = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self.text = guessed.startswith(TEXT)
        self.media_type = f"{guessed}; charset=utf-8" if self.text else guessed

    @cached_property
    def content(self) -> bytes:
        """The bytes of the file; of our own scripts and styles without comments."""
        if self.path == FOLDER / SCRIPT:
            return joined(self.path).encode()
        if self.path.parent == FOLDER and self.path.suffix == ".css":
            return _STYLE_COMMENT.sub("", self.path.read_text("utf-8")).encode()
        return self.path.read_bytes()

    @cached_property
    def digest(self) -> str:
        """Changes when the content does."""
        return hashlib.blake2b(self.content, digest_size=8).hexdigest()

    @cached_property
    def compressed(self) -> bytes:
        """The content, compressed."""
        return gzip.compress(self.content, 9 if len(self.content) < 1_000_000 else 6, mtime=0)


@cache
def assets() -> dict[str, Asset]:
    """Every file that is served, by name. Only these: no path of a request ever reaches the file system."""
    files = {
        path.relative_to(FOLDER).as_posix(): Asset(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
    files["plotly.min.js"] = Asset(_package_file("plotly", "package_data/plotly.min.js"))
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        files[name] = Asset(_package_file("fastapi_offline", f"static/{name}"))
    return files


def joined(path: Path) -> str:
    """A module of ours and those that it imports as one file: on a slow line one request, and not one for each.

    Each stands in a function of its own that returns what it exports, after those that it imports.
    """
    done: dict[str, str] = {}

    def add(module: str) -> None:
        text = (path.parent / f"{module}.js").read_text("utf-8")
        done[module] = ""
        for _, other in _IMPORT.findall(text):
            if other not in done:
                add(other)
        exports = ", ".join(name for _, name in _EXPORT.findall(text))
        text = _COMMENT.sub("", _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = \2Module;\n", text)))
        del done[module]
        done[module] = f"const {module}Module = (() => {{\n{text}return {{ {exports} }};\n}})();\n"

    add(path.stem)
    return "".join(done.values())


def url(name: str, root_path: str = "") -> str:
    """Where a page finds a file, with the hash that lets the browser keep it."""
    return f"{root_path}/static/{name}?v={assets()[name].digest}"


def serve(request: Request) -> Response:
    """GET /static/NAME."""
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise problems.status_problem(404)
    current = request.query_params.get("v") == asset.digest
    headers = {"cache-control": "public, max-age=31536000, immutable" if current else "public, max-age=60"}
    zipped = asset.compressed if asset.text and wants_gzip(request) else None
    return reply(request, asset.content, asset.media_type, headers=headers, tag=asset.digest, zipped=zipped)


route = Route("/static/{name:path}", serve, name="static", methods=["GET"])
