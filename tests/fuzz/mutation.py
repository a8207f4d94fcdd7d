"""A sample of mutants of app/plan and app/studies: how many survive the tests that say what is computed there.

A mutant is the code with one place changed: another comparison, operator or number, ``and`` for ``or``, a result or a
named argument left out. It survives if every test that enters the changed function passes: those of the two rooms,
of the tables, files and pages made of what they compute, and of the figures that are kept, which run last.

Not changed, for no test should hold it:

- text, and whatever only makes text: strings, f-strings, `percent` and `show`, ``__repr__``, what an error says;
- type hints;
- decorators, which are caches and their sizes;
- ``strict=`` of `zip`, which refuses what never comes;
- whether a comparison holds where both sides are equal, unless one is a whole number: measured quantities never are;
- how a line is drawn;
- arithmetic with ones or zeros, which give a shape;
- numbers under a millionth, which guard against rounding and division by zero, and what is reckoned with them;
- arguments that Python itself refuses to miss;
- class bodies: what fields declare stands in the OpenAPI document, which has a test of its own.
"""

import argparse
import ast
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

ROOT = Path(__file__).parents[2]
ROOMS = ("plan", "studies")
MOST = 0.15
"""Share of the sample that may survive."""
FIGURES = ("tests/test_answers.py", "tests/test_every_figure.py")
"""Tests that only say whether a figure moved."""
NEGLIGIBLE = 1e-6
WIDTH = 100
REFUSED = re.compile(r"TypeError: .* missing \d+ required ")
TEXT = {"percent", "show", "TypeVar", "cast"}
"""Functions whose calls are text or types."""
KEPT = {"strict", "strong", "dash"}
"""Arguments that are not left out: a check of `zip`, and looks of a line."""

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One place of a file with other code in it; ``start`` and ``end`` count bytes."""

    file: str
    line: int
    start: int
    end: int
    new: str
    change: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}"

    def applied(self, source: bytes) -> bytes:
        """The file with this change, which moves no other line."""
        lines = source[self.start : self.end].count(b"\n") * "\n"
        new = f"return (None{lines})" if self.new == "return None" else f"({self.new}{lines})"
        return source[: self.start] + new.encode() + source[self.end :]


def run(options: argparse.Namespace) -> Iterator[str]:
    """Change one place at a time of a copy of the tree, and see whether a test notices."""
    files = [path for room in ROOMS for path in sorted((ROOT / "app" / room).rglob("*.py"))]
    mutants = [mutant for path in files for mutant in mutants_of(path)]
    yield f"   {options.mutants} of {len(mutants):,} mutants, seed {options.seed}"
    random.Random(options.seed).shuffle(mutants)
    tried, kept, survivors = 0, 0, list[Mutant]()
    for mutant, failure in _failures(mutants, options.mutants):
        if not REFUSED.search(failure):
            tried += 1
            kept += failure.startswith(FIGURES)
            survivors += [] if failure else [mutant]
            yield f"   {tried}: {mutant}\n      {shorten(failure, 2 * WIDTH) or 'SURVIVED'}"
    yield from (f"   survives: {mutant}" for mutant in sorted(survivors, key=str))
    yield f"   {len(survivors)} of {tried} survive: {len(survivors) / tried:.0%}; {kept} only move kept figures"
    assert len(survivors) < MOST * tried, f"fewer than {MOST:.0%} may survive"


def _failures(mutants: list[Mutant], wanted: int) -> Iterator[tuple[Mutant, str]]:
    """As many mutants as are wanted, each with the first test that fails and why; blank if all pass."""
    # Without the plugins that are not named, which take a second to load; compiled code would outlive its mutant.
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    with TemporaryDirectory() as folder:
        copy, log = Path(folder) / "tree", Path(folder) / "log"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        with (
            log.open("wb") as words,
            subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.trials"],
                cwd=copy, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words,
            ) as trials,
        ):  # fmt: skip
            assert trials.stdin
            assert trials.stdout
            trials.stdin.write(pickle.dumps((mutants, wanted)))
            trials.stdin.close()
            for line in trials.stdout:
                number, failure = json.loads(line)
                assert number >= 0 or not failure, f"a test fails before anything is changed: {failure}"
                if number >= 0:
                    yield mutants[number], failure
        assert not trials.returncode, log.read_text()[-20000:]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change of one file."""
    source, file = path.read_bytes(), str(path.relative_to(ROOT))
    lines = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in _computing(ast.parse(source)):
        start, end = (
            lines[line - 1] + column
            for line, column in ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        )
        old = shorten(ast.unparse(node), WIDTH)
        for new in _changes(node):
            yield Mutant(file, node.lineno, start, end, new, f"{old} → {shorten(new, WIDTH)}")
        for keyword, new in _calls(node):
            yield Mutant(file, node.lineno, start, end, new, f"{old} without {shorten(keyword, WIDTH)}")


def _computing(node: ast.AST) -> Iterator[ast.expr | ast.Return]:
    """The expressions that compute something, from the outside in; see above for what is left out."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.FunctionDef(name="__repr__" | "__str__"):
            return
        case ast.Call(func=ast.Name(id=name)) if name in TEXT:
            return
        case ast.keyword(arg=name) if name in KEPT:
            return
        case ast.Module():
            inner = [part for part in node.body if not isinstance(part, ast.Assign) or _is_constant(part)]
        case ast.ClassDef():
            inner = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        case ast.FunctionDef():
            inner = [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.AnnAssign():
            inner = [node.value] if node.value else []
        case _:
            inner = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.expr | ast.Return):
        yield node
    for part in inner:
        yield from _computing(part)


def _is_constant(statement: ast.Assign) -> bool:
    return all(isinstance(name, ast.Name) and name.id.isupper() for name in ast.walk(statement.targets[0]))


def _changes(node: ast.expr | ast.Return) -> Iterator[str]:
    """What may stand in the place of an expression.

    >>> [list(_changes(ast.parse(text, mode="eval").body)) for text in ("a < b", "a < 2", "a + b", "a and b", "2")]
    [['(a >= b)'], ['(a <= 2)', '(a >= 2)'], ['(a - b)'], ['(a or b)'], ['3']]
    """
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                whole = any(map(_is_whole, (node.left, *node.comparators)))
                for other in COMPARISONS[type(operator)] if whole else COMPARISONS[type(operator)][-1:]:
                    ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                    yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.BinOp() if type(node.op) in OPERATORS and not any(map(_is_left_alone, (node.left, node.right))):
            yield f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)):
            yield str(not value)
        case ast.Constant(value=int(value)):
            yield str(value + 1)
        case ast.Constant(value=float(value)) if not _is_negligible(node):
            yield str(2 * value or 1.0)
        case ast.Return(value=ast.expr() as value) if not (_is_text(value) or ast.unparse(value) == "None"):
            yield "return None"


def _calls(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Each argument that a call names, and the call without it.

    >>> list(_calls(ast.parse("f(a, b=1, c='text')", mode="eval").body))
    [('b=1', "f(a, c='text')")]
    """
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg and keyword.arg not in KEPT and not _is_text(keyword.value):
            others = [other for other in node.keywords if other is not keyword]
            yield ast.unparse(keyword), ast.unparse(ast.Call(node.func, node.args, others))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_negligible(node: ast.expr) -> bool:
    """Whether this is a number next to nothing, or one with such a number added to it or taken from it."""
    match node:
        case ast.Constant(value=float(value)):
            return 0 < abs(value) < NEGLIGIBLE
        case ast.BinOp(left=ast.Constant(), op=ast.Add() | ast.Sub(), right=right):
            return _is_negligible(right)
        case _:
            return False


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_left_alone(node: ast.expr) -> bool:
    return _is_text(node) or _is_negligible(node) or _is_shape(node)


def _is_shape(node: ast.expr) -> bool:
    """Whether this is ones or zeros: to multiply by them is to divide by them, to add them to take them away.

    >>> [_is_shape(ast.parse(text, mode="eval").body) for text in ("np.zeros_like(x)", "np.ones(3)", "ones", "x")]
    [True, True, True, False]
    """
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Name(id=name):
            return name in ("ones", "ones_like", "zeros", "zeros_like")
        case _:
            return False
