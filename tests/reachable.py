"""Which functions answers rest on: what the code refers to, followed from name to name without running it."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Name(NamedTuple):
    """A name at the top of a module."""

    module: str
    name: str


@cache
def modules() -> Mapping[str, ast.Module]:
    """Every module of the application, by its dotted name."""
    paths = {path: path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / "app").rglob("*.py")}
    return {
        ".".join(parts[:-1] if parts[-1] == "__init__" else parts): ast.parse(path.read_text())
        for path, parts in paths.items()
    }


def _imports(tree: ast.Module) -> Mapping[str, Name]:
    """What the names that a module imports stand for; a module has no name of its own in it."""
    names: dict[str, Name] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = Name(inner, "") if inner in modules() else Name(node.module or "", alias.name)
                names[alias.asname or alias.name] = target
    return names


def _defined(tree: ast.Module) -> Mapping[str, ast.stmt]:
    """The statement at the top of a module that gives each of its names a meaning."""
    statements: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            statements[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            statements |= {
                part.id: node for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
            }
    return statements


@cache
def references() -> Mapping[Name, frozenset[Name]]:
    """What each name at the top of a module refers to."""
    graph: dict[Name, frozenset[Name]] = {}
    for module, tree in modules().items():
        imported, defined = _imports(tree), _defined(tree)
        for name, statement in defined.items():
            graph[Name(module, name)] = frozenset(_used(statement, module, imported, defined))
    return graph


def _used(
    statement: ast.stmt, module: str, imported: Mapping[str, Name], defined: Mapping[str, ast.stmt]
) -> Iterator[Name]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            target = imported[node.value.id]
            yield Name(target.module, node.attr) if not target.name else target
        elif isinstance(node, ast.Name) and node.id in imported:
            yield imported[node.id]
        elif isinstance(node, ast.Name) and node.id in defined:
            yield Name(module, node.id)


def reached(rooms: tuple[str, ...], past: tuple[str, ...] = ()) -> frozenset[Name]:
    """All names that the code of some rooms refers to, directly or through others; ``past`` are left aside."""
    graph = references()
    pending = [name for name in graph if name.module.startswith(rooms)]
    names = set(pending)
    while pending:
        fresh = {name for name in graph.get(pending.pop(), ()) if not name.module.startswith(past or ("\0",))} - names
        names |= fresh
        pending += fresh
    return frozenset(names)


def public_functions(room: str) -> frozenset[Name]:
    """The functions of a room that other modules may call."""
    return frozenset(
        name
        for name in references()
        if name.module.startswith(room)
        and not name.name.startswith("_")
        and isinstance(_defined(modules()[name.module])[name.name], ast.FunctionDef)
    )
