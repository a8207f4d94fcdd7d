"""Try mutants on the tests, each in a process forked from one that has collected them.

All tests run once on the code as it is, noting how long each takes and which lines it comes to: one that never comes
to the statement that a mutant changes cannot notice. Then each mutant takes the place of its function in a fork, where
the tests that come to it run, those named after its module first and the quick before the slow. What is computed while
a module is loaded (a constant, a default, a statement that no test comes to later) cannot be put in afterwards: such a
mutant gets a tree of its own.

`mutation.py` runs this in a copy of the tree, with how many mutants it wants tried and a list of them, pickled, on
standard input. On standard output stand lines of JSON: the number of a mutant, and the first test that failed and why,
or nothing.
"""

import ast
import functools
import gc
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeAlias

import hypothesis
import pytest

from app.web.responses import PageCache, not_modified
from tests.fuzz.mutation import FIGURES, REFUSED, ROOMS, Mutant

TREE = Path.cwd()
TESTS = (
    *("app/plan", "app/studies", "tests/plan", "tests/studies", "tests/report"),
    *(f"tests/test_{name}.py" for name in ("answers", "every_figure", "library")),
    *(
        f"tests/web/test_{name}.py"
        for name in ("calibrate", "declared_results", "form", "glossary", "how", "selection")
    ),
)
"""Those that bear on the two rooms; pages and files ask for little more."""
ELSEWHERE = {"server", "web", "page", "browser", "running", "tmp_path"}
"""Fixtures of tests that ask another process, which has no mutant in it, and of those that write files for one."""
FLAGS = ("-q", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0")
CORES = os.cpu_count() or 1
PATIENCE = 3
"""A test that takes so many times as long as on the code itself, and half a minute, runs for ever."""
MEMORY = 8 * 2**30
"""A mutant that asks for more has failed [B]."""

Lines: TypeAlias = dict[str, dict[int, set[str]]]
"""Of each file, the tests that come to each line; of tests that share what comes to it, the file that they stand in."""


def no_lines() -> Lines:
    """Of each file of the rooms, nothing yet."""
    return {str(path): defaultdict(set) for room in ROOMS for path in (TREE / "app" / room).rglob("*.py")}


class Watch:
    """A plug-in of pytest that notes which lines each test comes to; nothing is kept from one test to the next."""

    def __init__(self, caches: list[Any]) -> None:
        self.caches = caches
        self.tests = no_lines()
        self.now: dict[str, set[int]] = {}
        # Pages kept from one test would hide from the next what makes them.
        PageCache.known = lambda _, request: not_modified(request)  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        yield from self._watched(item.nodeid.partition("::")[0])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield from self._watched(item.nodeid)

    def _watched(self, name: str) -> Iterator[None]:
        self.now = {file: set() for file in self.tests}
        for cache in self.caches:
            cache.cache_clear()
        threading.settrace(self._entered)
        sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(None)
            for file, lines in self.now.items():
                for line in lines:
                    self.tests[file][line].add(name)

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename in self.now:
            return self._came(frame, event, argument)
        return None

    def _came(self, frame: FrameType, _: str, __: object) -> Any:
        self.now[frame.f_code.co_filename].add(frame.f_lineno)
        return self._came


class Results:
    """A plug-in of pytest that keeps how long each test takes, and the first failure."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.failure = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed and not self.failure:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.failure = f"{report.nodeid}: {crash.message if crash else report.longrepr}"


class Trials:
    """A plug-in of pytest that tries mutants when the tests are collected."""

    def __init__(self, mutants: list[Mutant], wanted: int, say: Callable[[int, str], None]) -> None:
        self.mutants, self.wanted, self.say = mutants, wanted, say
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        self.caches: list[Any] = []
        self.seconds: dict[str, float] = {}
        self.tests = no_lines()

    def pytest_configure(self) -> None:
        """Properties are not refused for being slow beside others, nor is a failure made smaller."""
        hypothesis.settings.register_profile(
            "trials",
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        )
        hypothesis.settings.load_profile("trials")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests."""
        capture = session.config.pluginmanager.getplugin("capturemanager")
        assert capture
        capture.suspend_global_capture(in_=True)
        self.manager = session.config.pluginmanager
        self.items = [item for item in session.items if not ELSEWHERE & {*getattr(item, "fixturenames", ())}]
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType) and thing.__code__.co_filename.startswith(f"{TREE}/app/"):
                self.functions[thing.__code__.co_filename].append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper) and f"{thing.__module__}.".startswith("app."):
                self.caches.append(thing)
        self.say(-1, failure := self._watch())
        if not failure:
            self._try()
        return True

    def _watch(self) -> str:
        """Run the tests of each file on one of the cores, and note what they come to; the first failure."""
        files = [*dict.fromkeys(item.nodeid.partition("::")[0] for item in self.items)]
        shares = [{*files[core::CORES]} for core in range(CORES)]
        first = ""
        for child, answer in [forked(functools.partial(self._watched, share)) for share in shares]:
            failure, seconds, tests = answer_of(answer)
            os.waitpid(child, 0)
            first = first or failure
            self.seconds |= seconds
            for file, lines in tests.items():
                for line, names in lines.items():
                    self.tests[file][line] |= names
        return first

    def _watched(self, files: set[str]) -> tuple[str, dict[str, float], Lines]:
        caches = [cache for cache in self.caches if not cache.__module__.startswith("app.catalog")]
        watch = Watch(caches)
        self.manager.register(watch)
        results = self._run([item for item in self.items if item.nodeid.partition("::")[0] in files])
        return results.failure, dict(results.seconds), watch.tests

    def _try(self) -> None:
        """Say of as many mutants as are wanted, in their order and one a core at a time, what fails first."""
        running: dict[int, tuple[int, int]] = {}
        waiting = iter(enumerate(self.mutants))
        tried = 0
        while True:
            while len(running) < min(CORES, self.wanted - tried):
                number, mutant = next(waiting)
                child, answer = forked(functools.partial(self._failure, mutant))
                running[child] = number, answer
            if not running:
                return
            child, status = os.wait()
            number, answer = running.pop(child)
            failure = answer_of(answer, "the tests never end")
            assert not os.WEXITSTATUS(status), f"{self.mutants[number]} could not be tried"
            tried += not REFUSED.search(failure)
            self.say(number, failure)

    def _failure(self, mutant: Mutant) -> str:
        """Put a mutant in its place and run the tests that come to it."""
        near = nearest(mutant.file)
        path = TREE / mutant.file
        came = self.tests[str(path)]
        names = {name for line in lines_beside(path.read_text(), mutant.line) for name in came.get(line, ())}
        if not (names and self._put_in(mutant)):
            return failure_in_a_copy(mutant, near)
        items = [item for item in self.items if names & {item.nodeid, item.nodeid.partition("::")[0]}]
        items.sort(key=lambda item: (*_turn(item.nodeid.partition("::")[0], near), self.seconds[item.nodeid]))
        return self._run(items).failure

    def _put_in(self, mutant: Mutant) -> bool:
        """Whether functions got other code; not where a module would have to be loaded anew."""
        path = TREE / mutant.file
        source = path.read_bytes()
        old, new = (compile(text, str(path), "exec") for text in (source, mutant.applied(source)))
        changed = dict(differing(old, new))
        found = False
        for function in self.functions[str(path)]:
            if code := changed.get(function.__code__):
                if len(code.co_freevars) != len(function.__code__.co_freevars):
                    return False
                found = True
                function.__code__ = code
        return found

    def _run(self, items: list[pytest.Item]) -> Results:
        results = Results()
        self.manager.register(results)
        for cache in self.caches:
            cache.cache_clear()
        for item, following in zip(items, [*items[1:], None], strict=False):
            if self.seconds:
                used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
                patience = int(used + 30 + PATIENCE * self.seconds[item.nodeid])
                resource.setrlimit(resource.RLIMIT_CPU, (patience, resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if results.failure:
                break
        return results


def _turn(file: str, near: list[str]) -> tuple[bool, bool]:
    """Tests of the module itself first, figures that are merely kept last."""
    return file in FIGURES, file not in near


def lines_beside(source: str, line: int) -> set[int]:
    """The lines of the innermost statement that a line belongs to, without those of statements inside it.

    >>> source = "def f(x):\\n    if (x or\\n            not x):\\n        return 1\\n"
    >>> sorted(lines_beside(source, 3)), sorted(lines_beside(source, 4))
    ([2, 3], [4])
    """
    innermost = {
        number: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return {number for number, node in innermost.items() if node is innermost[line]}


def differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Each piece of code inside another that is not the same in a changed version of it.

    >>> old, new = (compile(f"def f(): return 1\\ndef g(): return {number}", "", "exec") for number in (2, 3))
    >>> [(one.co_name, other.co_name) for one, other in differing(old, new)]
    [('g', 'g')]
    """
    inner, changed = ([part for part in code.co_consts if isinstance(part, CodeType)] for code in (old, new))
    if [part.co_name for part in inner] == [part.co_name for part in changed]:
        for one, other in zip(inner, changed, strict=True):
            if one != other:
                yield one, other
                yield from differing(one, other)


def forked(task: Callable[[], Any]) -> tuple[int, int]:
    """Do something in a process of its own; its number, and where its answer will be."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with os.fdopen(write, "wb") as out:
            pickle.dump(task(), out)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is, this process must not go on as the one it was forked from
        traceback.print_exc()
        os._exit(1)


def answer_of(pipe: int, otherwise: Any = None) -> Any:
    """What a forked process found out, or something else if it came to an end before."""
    with os.fdopen(pipe, "rb") as answer:
        text = answer.read()
    return pickle.loads(text) if text else otherwise


def nearest(file: str) -> list[str]:
    """Tests that bear most on a module: its examples, and those named after it."""
    path = Path(file)
    names = (f"tests/{path.parts[1]}/test_{name}.py" for name in (path.stem, path.parent.name))
    return [file, *(name for name in names if (TREE / name).exists())]


def failure_in_a_copy(mutant: Mutant, near: list[str]) -> str:
    """What a mutant fails first in a tree of its own."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(TREE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / mutant.file).write_bytes(mutant.applied((TREE / mutant.file).read_bytes()))
        first = dict.fromkeys([*near, "tests/plan/test_definitions.py", *FIGURES, *TESTS])
        command = [sys.executable, "-m", "pytest", "-x", "--tb=line", *FLAGS, *first]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return next(iter(lines), done.stdout[-200:]) if done.returncode else ""


def main() -> int:
    """Read mutants, say what fails."""
    mutants, wanted = pickle.load(sys.stdin.buffer)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what pytest has to say

    def say(number: int, failure: str) -> None:
        print(json.dumps([number, failure]), file=out, flush=True)

    return int(pytest.main([*FLAGS, *TESTS], plugins=[Trials(mutants, wanted, say)]))


if __name__ == "__main__":
    sys.exit(main())
