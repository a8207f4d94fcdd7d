"""The Jinja environment that every page shares, and the one way a page is answered.

Templates print what a plan found: filters here write numbers for people, and nothing computes one.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app import __version__
from app.catalog.load import Catalog
from app.plan.band import Band, with_range
from app.plan.scenario import Scenario, group_of, query_of
from app.plan.serving.serving_request import ServingQuestion
from app.report import method
from app.report.charts import svg
from app.report.charts.style import Figure
from app.report.drawing import racks_in_words, switches_in_words
from app.report.drawn_parts import plural
from app.report.labels import capitalize_first, cut, designs, in_words, lower_first, words
from app.studies.differences import is_unclear
from app.studies.sizing import MOST_CANDIDATES
from app.units import percent as show_percent
from app.units import show, show_beside, show_difference, show_message, show_people, show_range, show_span
from app.validation.citations import measured_by, serving_names
from app.web import assets
from app.web.form import Control
from app.web.middleware import THEME_SCRIPT
from app.web.responses import HTML, PageCache, reply

_INDENT = re.compile(r"\n\s+<")
"""Room that only templates need."""
FOLDER = Path(__file__).parents[2] / "templates"
NAVIGATION: Mapping[str, Mapping[str, str]] = {
    "Plan": {"/": "Plan"},
    "Find": {"/size": "A cluster to train", "/serve/size": "A cluster to serve"},
    "Serve": {"/serve": "Serve"},
    "Compare": {"/compare": "Compare"},
    "Cost": {"/cost": "Cost"},
    "All-reduce": {"/all-reduce": "By size", "/calibrate": "Your own measurements"},
    "Fabric": {"/fabric": "Drawing and parts", "/acceptance": "Acceptance sheet"},
    "Explore": {"/explore": "Explore"},
    "Evidence": {"/accuracy": "Accuracy", "/catalog": "Catalogue", "/method": "Method", "/docs": "API"},
}
"""The pages by what they answer: an entry of the bar leads to its first page, where the others stand below the bar."""
ABOUT_THE_SCENARIO = ("/", "/compare", "/all-reduce", "/calibrate", "/fabric", "/acceptance", "/cost", "/brief")
"""Pages whose address carries the scenario."""
OF_THE_JOB = ("model", "shape", "software", "operation", "prices")
"""Groups of fields that mean the same when the cluster is what is asked for."""
OF_ONE_GPU = ("price_node", "price_gpu_hour")
"""Prices of one kind of GPU: among several they would be said of all."""
CLUSTERS_FOUND = ("/size", "/explore")
"""Pages that ask for clusters: their addresses carry the job, the limits and the candidates."""


def percent(value: float | None, digits: int = 2) -> str:
    """A share as per cent.

    >>> percent(0.0623), percent(None)
    ('6.2\u202f%', '–')
    """
    return "–" if value is None else show(value * 100, "1", digits) + "\u202f%"


def odds(value: float | None) -> str:
    """A chance, to one per cent.

    >>> odds(0.834), odds(0.003), odds(0.997), odds(None)
    ('83\u202f%', 'under 1\u202f%', 'over 99\u202f%', '–')
    """
    if value is None:
        return "–"
    if not 0.01 <= value <= 0.99:
        return f"under {show_percent(0.01)}" if value < 0.5 else f"over {show_percent(0.99)}"
    return show_percent(value)


def percent_band(value: Band | None) -> str:
    """A band of a share as per cent.

    >>> percent_band(Band(0.36, 0.405, 0.45, "1"))
    '40.5\u202f% (36.0–45.0)'
    """
    if value is None:
        return "–"
    text = show_range(value.low * 100, value.typical * 100, value.high * 100, "1")
    number, gap, ends = text.partition(" ")
    return f"{number}\u202f%{gap}{ends}"


def _marked_up(part: re.Pattern[str], html: str | Callable[[re.Match[str]], str], text: str) -> Markup:
    """Text as HTML, each part of some kind in markup of its own."""
    return Markup(part.sub(html, str(Markup.escape(text))))  # noqa: S704


_RANGE = re.compile(r" \([^()]*\d\u2009?–\d[^()]*\)")
"""A range behind its number."""


def with_ranges_apart(text: str) -> Markup:
    """A sentence whose ranges a phone leaves out: they stand beside the figures below it.

    >>> with_ranges_apart("In 148 days (124–177) on <b>")
    Markup('In 148 days<span class="wide-only"> (124–177)</span> on &lt;b&gt;')
    """
    return _marked_up(_RANGE, r'<span class="wide-only">\g<0></span>', text)


_ENDS = re.compile(r"\S*\d–\d\S*")
"""Both ends of a range."""


def unbroken(text: str) -> Markup:
    """A sentence whose ranges do not break at their dash.

    >>> unbroken("$56 M (49–65) & more")
    Markup('$56 M <span class="whole">(49–65)</span> &amp; more')
    """
    return _marked_up(_ENDS, r'<span class="whole">\g<0></span>', text)


_CODE = re.compile(r"`([^`]*)`")


def with_code(text: str) -> Markup:
    """Text in which what stands between backticks is code.

    >>> with_code("a `b` & c")
    Markup('a <code>b</code> &amp; c')
    """
    return _marked_up(_CODE, r"<code>\1</code>", text)


_PAGE = re.compile(r"/(?:catalog|docs|fabric|method|start)(?![\w/])")


def with_links(text: str, root: str) -> Markup:
    """A sentence whose addresses of pages are links.

    >>> with_links("No such entry. /catalog lists all <b>.", "/tools")
    Markup('No such entry. <a href="/tools/catalog">/catalog</a> lists all &lt;b&gt;.')
    """
    return _marked_up(_PAGE, lambda page: f'<a href="{root}{page[0]}">{page[0]}</a>', text)


def change(value: float | None) -> str:
    """A relative change, with its sign.

    >>> change(0.0613), change(-0.5), change(1.5)
    ('+6.1\u202f%', '−50\u202f%', '+150\u202f%')
    """
    return "" if not value else ("+" if value > 0 else "−") + percent(abs(value))


def difference(absolute: Band, relative: Band, share: bool = False) -> str:
    """How far a result is from the first plan's: by how much and by which share of it, or that nobody can tell.

    >>> difference(Band(-1.2e6, -0.8e6, -0.7e6, "USD"), Band(-0.02, -0.015, -0.012, "1"))
    '−$0.80\u202fM (−1.20\u202f…\u202f−0.70), −1.5\u202f%'
    >>> difference(Band(-60.0, 20.0, 80.0, "s"), Band(-0.001, 0.002, 0.004, "1"))
    'no clear difference (−0.10\u202f…\u202f+0.40\u202f%)'
    """
    if is_unclear(relative):
        ends = show_difference(relative.low, relative.typical, relative.high, "%").partition("(")[2]
        return f"no clear difference ({ends.removesuffix(')')}\u202f%)"
    if share:
        low, typical, high = (end * 100 for end in (absolute.low, absolute.typical, absolute.high))
        number, _, ends = show_difference(low, typical, high, "1").partition(" ")
        return f"{number} points {ends}".rstrip()
    rate = absolute.unit == "1/s"
    text = show_difference(absolute.low, absolute.typical, absolute.high, "1" if rate else absolute.unit)
    text += " /s" if rate else ""
    return f"{text}, {change(relative.typical)}"


def plain_band(value: Band | None) -> str:
    """A band as a bare number, for where the unit stands beside it.

    >>> plain_band(Band(1.0e6, 1.18e6, 1.3e6, "1/s"))
    '1.18\u202fM (1.00–1.30)'
    """
    return with_range(value, "1")


def spaced(text: str) -> str:
    """A sentence of the API with its per cent apart from their numbers.

    >>> spaced("ahead by 25%; 62% of the time")
    'ahead by 25\u202f%; 62\u202f% of the time'
    """
    return re.sub(r"(?<=\d)%", "\u202f%", text)


def people_band(value: Band | None) -> str:
    """A band of people.

    >>> people_band(Band(0.75, 1.0, 1.27, "1")), people_band(None)
    ('1', '–')
    """
    return "–" if value is None else show_people(value.low, value.typical, value.high)


def rate_band(value: Band | None, of: str) -> str:
    """A band of so many a second, with their name.

    >>> rate_band(Band(82.0, 105.0, 133.0, "1/s"), "requests")
    '105\u202frequests/s (82–133)'
    """
    if value is None:
        return "–"
    number, gap, ends = plain_band(value).partition(" ")
    return f"{number}\u202f{of}/s{gap}{ends}"


def count(value: float | None) -> str:
    """A count with its thousands apart.

    >>> count(1024), count(None)
    ('1,024', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


NAMED = ("gpus", "scale_up", "scale_out", "switches", "nics", "platforms", "models", "engines")
"""Kinds of the catalogue whose keys pages write as names."""


@lru_cache(maxsize=4)
def _entry_names(catalog: Catalog) -> Mapping[str, str]:
    return {key: entry.name for kind in NAMED for key, entry in catalog.kind(kind).items()}


def entry_name(text: str, catalog: Catalog) -> str:
    """What a key of the catalogue, or a source of measurements of serving, is called; other text as it is.

    >>> from app.catalog.load import load_catalog
    >>> entry_name("qm9700", load_catalog()), entry_name("Market", load_catalog())
    ('NVIDIA QM9700', 'Market')
    """
    known = _entry_names(catalog).get(text)
    return known or (measured_by(text, catalog) if text.partition("/")[0] in serving_names() else text)


def anchor(path: str) -> str:
    """A path of the wire as the id of an element.

    >>> anchor("training.step_time")
    'training-step_time'
    """
    return path.replace(".", "-").replace("/", "-")


@dataclass
class Notes:
    """The sources that a page's numbers rest on, in the order in which the page first needs them.

    Groups of sources are numbered, and know the names of the numbers that rest on them.
    """

    prefix: str = ""
    groups: dict[tuple[str, ...], int] = field(default_factory=dict)
    names: dict[tuple[str, ...], list[str]] = field(default_factory=dict)

    def anchor(self, sources: tuple[str, ...], name: str) -> str:
        """The id of the note that lists the sources of a number so called."""
        known = self.names.setdefault(sources, [])
        if name not in known:
            known.append(name)
        return f"note-{self.prefix}{self.groups.setdefault(sources, len(self.groups) + 1)}"

    def documents(self) -> list[str]:
        """The sources of all notes, each once.

        >>> Notes(groups={("a", "b"): 1, ("b", "c"): 2}).documents()
        ['a', 'b', 'c']
        """
        return list(dict.fromkeys(key for sources in self.groups for key in sources))

    def document(self, key: str) -> str:
        """The id of a source in that list."""
        return f"document-{self.prefix}{key}"


@cache
def environment() -> Environment:
    """The environment of all templates; a misspelt name is an error."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.context_class = _Values
    templates.filters |= {
        "show": show,
        "show_beside": show_beside,
        "show_message": show_message,
        "band": with_range,
        "percent": percent,
        "percent_band": percent_band,
        "plain_band": plain_band,
        "rate_band": rate_band,
        "people_band": people_band,
        "with_ranges_apart": with_ranges_apart,
        "with_links": with_links,
        "unbroken": unbroken,
        "with_code": with_code,
        "count": count,
        "plural": plural,
        "odds": odds,
        "change": change,
        "difference": difference,
        "measured_by": measured_by,
        "entry_name": entry_name,
        "words": words,
        "designs": designs,
        "racks_in_words": racks_in_words,
        "switches_in_words": switches_in_words,
        "spaced": spaced,
        "in_words": in_words,
        "capitalize_first": capitalize_first,
        "lower_first": lower_first,
        "anchor": anchor,
    }
    templates.tests["band_value"] = lambda value: isinstance(value, Band)
    templates.globals |= {"model_version": __version__, "theme_script": THEME_SCRIPT}
    templates.globals |= {"show_range": show_range, "show_span": show_span, "formula_address": method.address}
    templates.globals |= {"control": control, "cut": cut}
    return templates


def warm_up() -> None:
    """Make what the first page needs, nine tenths of its time: its templates as code."""
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
    method.formulas()


@lru_cache(maxsize=1024)
def control(field: Control, *, prefix: str = "", terse: bool = False, of: str = "", place: str = "") -> Markup:
    """A field of a form as HTML. Kept: all but a few are those of the page before."""
    template = environment().get_template("_control.html")
    return Markup(template.render(field=field, prefix=prefix, terse=terse, of=of, place=place))  # noqa: S704


def embed(figure: Figure) -> Markup:
    """A Plotly figure as JSON that may stand inside a script element: to_json escapes <, > and /."""
    return Markup(figure.to_json())  # noqa: S704


def picture(figure: Figure, key: str) -> Markup:
    """A figure as the server draws it; its words are escaped there."""
    return Markup(svg.inline(figure, key))  # noqa: S704


def embed_codes(request: Request, figure: Figure, address: str) -> dict[str, str]:
    """What another site's page writes to show a chart, as an image and in a frame, by what it is called."""
    source = escape(f"{request.url.scheme}://{request.url.netloc}{address}")
    title = escape(figure.title)
    width, height = svg.file_size(figure)
    return {
        "Image": f'<img src="{source}" alt="{title}">',
        "Frame": f'<iframe src="{source}" title="{title}" width="{width}" height="{height}"></iframe>',
    }


def job_of(scenario: Scenario) -> dict[str, Any]:
    """What of a plan any cluster is asked: its job and prices, but not those of its own GPU.

    >>> job_of(Scenario(model="llama-3-8b", gpus=64, price_node=4e5, electricity=2e-8))
    {'model': 'llama-3-8b', 'electricity': 2e-08}
    """
    return {name: value for name, value in scenario.only(*OF_THE_JOB).asked().items() if name not in OF_ONE_GPU}


def job_to_size(scenario: Scenario | None, *, alone: bool = False) -> dict[str, Any]:
    """The question for a cluster that does this scenario's job, with a deadline to start from, of its GPU ``alone``
    or of several.
    """
    if scenario is None:
        return {"deadline": "90 days"}
    of_its_gpu = {name: value for name, value in scenario.asked().items() if name in OF_ONE_GPU} if alone else {}
    return {"deadline": "90 days"} | job_of(scenario) | of_its_gpu | ({"gpu": scenario.gpu} if alone else {})


def _from_clusters(asked: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The ends of addresses from a page that asks for clusters, as it was asked: clusters are asked for with all of
    it; a plan has the job, and the GPU or network if there is but one.

    >>> queries = _from_clusters([("model", "llama-3-8b"), ("deadline", "45 days"), ("gpu", "h100-sxm")])
    >>> queries["/explore"], queries["/"]
    ('?model=llama-3-8b&deadline=45+days&gpu=h100-sxm', '?model=llama-3-8b&gpu=h100-sxm')
    """
    given = Counter(name for name, _ in asked)
    single = {name for name in ("gpu", "scale_out") if given[name] == 1}
    left_out = () if "gpu" in single else OF_ONE_GPU
    groups = group_of(Scenario)
    plan = [
        (name, text)
        for name, text in asked
        if name in single or (groups.get(name) in OF_THE_JOB and name not in left_out)
    ]
    sized = [(name, text) for name, text in asked if name != "gpu" or given["gpu"] <= MOST_CANDIDATES]
    pairs = dict.fromkeys((*ABOUT_THE_SCENARIO, "/serve"), plan) | {"/size": sized, "/explore": asked}
    return {to: f"?{urlencode(fields)}" if fields else "" for to, fields in pairs.items()}


def _serving(scenario: Scenario | None) -> str:
    """The question what this cluster serves, as the end of an address.

    >>> _serving(Scenario(gpus=256)), _serving(ServingQuestion()), _serving(None)
    ('?gpus=256', '', '')
    """
    if scenario is None:
        return ""
    query = ServingQuestion.of(scenario.model_copy(update={"workload": "serving"})).query()
    return f"?{query}" if query else ""


def address(root: str, asked: Mapping[str, object], to: str, /, **changes: object) -> str:
    """The address of a page about the same scenario, with some fields changed.

    >>> address("/sub", {"gpus": 64, "users": 100}, "/serve", gpus=72, users=None)
    '/sub/serve?gpus=72'
    """
    query = query_of({**asked, **changes})
    return f"{root}{to}?{query}" if query else root + to


def context(request: Request, scenario: Scenario | None, asked_text: str = "") -> dict[str, Any]:
    """What every template may use; ``asked_text`` is the query of a page that asks for clusters."""
    root = request.scope.get("root_path", "")
    path = request.url.path.removeprefix(root) or "/"
    asked = scenario.asked() if scenario else {}
    query = query_of(asked)
    suffix = f"?{query}" if query else ""

    place = _place(path)
    job = urlencode(job_of(scenario)) if scenario else ""
    queries = dict.fromkeys(ABOUT_THE_SCENARIO, suffix) | {
        "/size": "?" + urlencode(job_to_size(scenario)),
        "/explore": f"?{job}" if job else "",
        "/serve": _serving(scenario),
    }
    if place in CLUSTERS_FOUND:
        queries = _from_clusters(parse_qsl(asked_text))

    link = partial(address, root, asked)

    return {
        "root": root,
        "path": path,
        "query": query,
        "suffix": suffix,
        "link": link,
        "asset": lambda name: assets.url(name, root),
        "navigation": [(name, next(iter(pages)), place in pages) for name, pages in NAVIGATION.items()],
        "of_this_kind": next((pages for pages in NAVIGATION.values() if place in pages and len(pages) > 1), {}),
        "place": place,
        "of_a_plan": scenario is not None and place in (*ABOUT_THE_SCENARIO, ""),
        "page_link": lambda to: root + to + queries.get(to, ""),
        "catalog": request.app.state.catalog,
        "notes": Notes(),
        "sources_at": link("/plan/sources") if scenario else f"{root}/catalog/sources",
        "numbers": "notes",
        "whole": False,
        "explained": {},
        "embed": embed,
        "embeddable": bool(request.app.state.settings.embed_origins),
        "embed_codes": partial(embed_codes, request),
        "picture": picture,
    }


def _place(path: str) -> str:
    """The page of the navigation that a path belongs to; blank for none.

    >>> _place("/catalog/gpus"), _place("/serve/size"), _place("/"), _place("/brief")
    ('/catalog', '/serve/size', '/', '')
    """
    known = (to for pages in NAVIGATION.values() for to in pages)
    return max((to for to in known if path == to or path.startswith(f"{to}/")), key=len, default="")


_PARTS = "values_of_parts"
"""What a page calls the list of these."""


class _Values(Context):
    """What a template may use, known to the page that it is part of."""

    def __init__(self, environment: Environment, parent: dict[str, Any], *others: Any, **named: Any) -> None:
        super().__init__(environment, parent, *others, **named)
        parent.get(_PARTS, []).append(self)


def _written(template: str, values: Mapping[str, Any]) -> str:
    """A page as text.

    Its templates hold their macros, which hold what they may use: what a page shows, up to a megabyte, would stay until
    the collector looks for rings.
    """
    parts: list[_Values] = []
    text = environment().get_template(template).render({**values, _PARTS: parts})
    for part in parts:
        part.vars.clear()
        part.parent.clear()
    return text


def page(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    scenario: Scenario | None = None,
    status: int = 200,
    final: bool = True,
) -> Response:
    """Answer with a page, and keep it for who asks again, unless it might then come out otherwise (not ``final``)."""
    text = _written(template, {**context(request, scenario, values.get("query_text", "")), **values})
    body = _INDENT.sub("\n<", text).encode()
    if request.method == "GET" and status == 200 and final:
        cache: PageCache = request.app.state.page_cache
        return cache.keep(request, body, HTML)
    return reply(request, body, HTML, status=status, tag="", level=5)
