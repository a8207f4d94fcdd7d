"""Which parts of an answer are written: those that are asked for by name, or all but the long ones that few read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from app.catalog.names import did_you_mean, nearest
from app.plan.band import Quantity
from app.plan.long_parts import EVERYTHING, LONG_PARTS, SOURCES, parts_of
from app.plan.result import Plan
from app.web import problems
from app.web.problems import FieldProblem
from app.web.responses import to_json

INCLUDED = EVERYTHING
"""What `include` knows."""
MOST_NAMES = 200
PARTS = dict.fromkeys(("fields", "include", "exclude"), MOST_NAMES)
"""The fields of a query string that select parts of the answer, and how often each may repeat."""
ALWAYS = ("model_version", "catalog_version", "findings")
"""What every answer says, whatever is asked of it."""
Tree = Mapping[str, "Tree | None"]
"""Names, each with the names inside it: none where it is the end of a name, ``None`` where any may follow."""


@dataclass(frozen=True)
class Selection:
    """What is written of an answer.

    Attributes:
        names: the parts that are asked for, none for all.
        include: long parts, of `INCLUDED`, which are written too.
        exclude: the parts that are left out.
    """

    names: tuple[str, ...] = ()
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    @property
    def needed(self) -> frozenset[str]:
        """What of `EVERYTHING` that a plan can do without is written, and so is worth making."""
        sources = {SOURCES} if self.sourced else ()
        return self.include.intersection(LONG_PARTS).union(parts_of(self.names), sources)

    @property
    def sourced(self) -> bool:
        """Whether bands say what they rest on."""
        asked = SOURCES in self.include or any(_last(name) == SOURCES for name in self.names)
        return asked and SOURCES not in self.exclude

    def of(self, answer: Any) -> Any:
        """The answer with the parts that are written."""
        written = _with(answer, _tree((*ALWAYS, *self.names))) if self.names else self._short(answer)
        return _without(written, _tree(tuple(self.exclude - {SOURCES})))

    def _short(self, answer: Any) -> Any:
        """A plan, or several, with null for their long parts; any other answer as it is."""
        before = "plans." if hasattr(answer, "plans") else ""
        left_out = tuple(
            before + path for part, paths in LONG_PARTS.items() if part not in self.include for path in paths
        )
        is_short = left_out and (before or isinstance(answer, Plan))
        return _blanked(answer, _tree(left_out)) if is_short else answer

    def text(self, answer: Any) -> bytes:
        """The same as JSON. That a band rests on what is on sale goes without saying, unless it is asked for; a plan is
        made so.
        """
        text = to_json(self.of(answer))
        if isinstance(answer, Plan) and not self.names:
            return text
        if not self.sourced:
            first, *others = text.split(_OF_BANDS)
            text = b"".join((first, *(other[other.index(b"]") + 1 :] for other in others)))
        return text if any(_last(name) == "projected" for name in self.names) else text.replace(_ON_SALE, b"")


_ON_SALE = b',"projected":false'
"""As nothing but a field of a record is written: in a text its quotes would be escaped."""
_OF_BANDS = b',"sources":['
"""The same for what begins the sources of a band, whose keys have no brackets."""
ALL = Selection()
"""Nothing in particular: all but the long parts."""


def selection(query: dict[str, Any], answer: type) -> Selection:
    """Take what selects parts out of the fields of a query string: names between commas, each field once or more.

    Raises:
        ProblemError: a name that this kind of answer does not have, or one to leave out that always comes.
    """
    if query.keys().isdisjoint(PARTS):
        return ALL
    names, include, exclude = (_names(query.pop(part, ()), part) for part in PARTS)
    always = [name for name in exclude if name.partition(".")[0] in ALWAYS]
    if always:
        detail = f"“{always[0]}” always comes."
        raise problems.invalid([FieldProblem(pointer="#/exclude", detail=detail)])
    unknown = [("include", name, partial(nearest, names=INCLUDED)) for name in include if name not in INCLUDED]
    for part, several in (("fields", names), ("exclude", exclude)):
        strange = (name for name in several if not _has(answer, name) and (part, name) != ("exclude", SOURCES))
        unknown += [(part, name, partial(_nearest, answer=answer)) for name in strange]
    if unknown:
        wrong = enumerate(unknown[:100])
        raise problems.invalid([_unknown(*each, advised=number < MOST_ADVISED) for number, each in wrong])
    return Selection(tuple(names), frozenset(include), frozenset(exclude))


def _has(answer: type, name: str) -> bool:
    """Whether this kind of answer has a part of that dotted name."""
    tree = _known(answer)
    for step in name.split("."):
        if tree is None:
            return True
        if step not in tree:
            return False
        tree = tree[step]
    return True


def _names(texts: tuple[str, ...], field: str) -> list[str]:
    """The names of one field of a query string."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if len(names) > MOST_NAMES:
        raise problems.invalid([FieldProblem(pointer=f"#/{field}", detail=f"Give at most {MOST_NAMES} names.")])
    return [name for name in names if name]


MOST_ADVISED = 1
"""Wrong names that are answered with those nearest to them, which takes some milliseconds each."""


def _unknown(field: str, name: str, near: Callable[[str], list[str]], *, advised: bool) -> FieldProblem:
    text = name if len(name) <= 60 else name[:60] + "…"
    advice = did_you_mean(near(name[:60])) if advised else ""
    if field == "include" and advised and not advice:
        advice = f"There are {', '.join(sorted(INCLUDED))}."
    return FieldProblem(pointer=f"#/{field}", detail=f"This answer has no part “{text}”. {advice}".rstrip())


def _nearest(name: str, answer: type) -> list[str]:
    """Of an answer's names those nearest to one that it lacks: where it goes wrong, else wherever they stand.

    >>> _nearest("trainig.step_time.lo", Plan)
    ['training.step_time.low']
    >>> _nearest("training.step_time.low.x", Plan), _nearest("step_time", Plan)[0]
    (['training.step_time.low'], 'training.step_time')
    """
    return list(dict.fromkeys(_where_wrong(name, answer)))[:3] or _anywhere(name, _every(answer))


def _where_wrong(name: str, answer: type) -> Iterator[str]:
    """The names that one may mean, if what it says before its first wrong step is meant."""
    tree, before, rest = _known(answer), "", name
    while tree:
        step, _, rest = rest.partition(".")
        if step not in tree:
            break
        tree, before = tree[step], f"{before}{step}."
    if not tree:  # nothing is inside
        yield before.rstrip(".")
        return
    for near in nearest(step, tree, alike=0.6):
        if not rest or _has(answer, f"{before}{near}.{rest}"):
            yield f"{before}{near}.{rest}".rstrip(".")
        else:
            yield from _where_wrong(f"{before}{near}.{rest}", answer)


def _anywhere(name: str, names: tuple[str, ...]) -> list[str]:
    """Of many dotted names those nearest to one: first by their last step, of which there are far fewer.

    >>> _anywhere("training.steptime", ("training.step_time", "training.mfu", "training.step_time.low"))
    ['training.step_time']
    """
    last = _last(name)
    steps = nearest(last, sorted({_last(each) for each in names}))
    return nearest(name, [each for each in names if _last(each) in steps])


def _last(name: str) -> str:
    return name.rpartition(".")[2]


@cache
def _tree(names: tuple[str, ...]) -> Tree:
    """Dotted names as a tree.

    >>> _tree(("a.b", "a.c", "d"))
    {'a': {'b': {}, 'c': {}}, 'd': {}}
    """
    tree: dict[str, Any] = {}
    for name in sorted(names, key=len, reverse=True):
        inner = tree
        *above, last = name.split(".")
        for step in above:
            inner = inner.setdefault(step, {})
        inner[last] = {}
    return tree


def _with(part: Any, tree: Tree | None) -> Any:
    """A part with the names of the tree alone; all of it where the tree ends."""
    if not tree or part is None:
        return part
    if isinstance(part, tuple):
        return [_with(inner, tree) for inner in part]
    if isinstance(part, Mapping):
        return {name: _with(part[name], inner) for name, inner in tree.items() if name in part}
    return {name: _with(getattr(part, name), inner) for name, inner in tree.items() if hasattr(part, name)}


def _without(part: Any, tree: Tree | None) -> Any:
    """A part without the names where the tree ends."""
    if not tree or part is None:
        return part
    if isinstance(part, tuple | list):
        return [_without(inner, tree) for inner in part]
    inside: Mapping[str, Any] = part if isinstance(part, Mapping) else vars(part)
    return {
        name: _without(value, tree.get(name, {})) for name, value in inside.items() if name not in tree or tree[name]
    }


def _blanked(part: Any, tree: Tree) -> Any:
    """A part with null for the names where the tree ends."""
    if part is None:
        return None
    if isinstance(part, tuple):
        return [_blanked(inner, tree) for inner in part]
    values = vars(part)
    return values | {name: _blanked(values[name], inner) if inner else None for name, inner in tree.items()}


# What an answer has --------------------------------------------------------------------------------------------------


@cache
def _known(kind: Any) -> Tree | None:
    """The names that a type of answer has, with those inside; ``None`` where any are."""
    if isinstance(kind, TypeVar):
        return _known(kind.__default__)  # type: ignore[attr-defined]  # the standard library has it from 3.13 on
    if kind == Quantity:
        return _known(get_args(kind)[0])
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return next((_known(branch) for branch in inner if branch is not NoneType), {})
    if origin is tuple:
        return _known(inner[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return None
    record = origin or kind
    if not is_dataclass(record):
        return {}
    hints = get_type_hints(record)
    return {entry.name: _known(hints[entry.name]) for entry in fields(record)}


@cache
def _every(kind: type) -> tuple[str, ...]:
    """Every name of an answer, dotted, for advice."""

    def names(tree: Tree | None, before: str) -> list[str]:
        dotted = []
        for name, inner in (tree or {}).items():
            dotted += [before + name, *names(inner, f"{before}{name}.")]
        return dotted

    return tuple(names(_known(kind), ""))
