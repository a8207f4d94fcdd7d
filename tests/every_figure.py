"""Every figure of whole answers to some questions, kept in every_figure.json as one sum for each part of an answer.

    python -m tests.every_figure            which parts of which answers moved
    python -m tests.every_figure --write    keep today's; `python -m tests.answers --write` does so too
    python -m tests.every_figure QUESTION   every figure of one answer, to hold against those of another version

Questions are the keys of `answers` in that file; one added with the value {} is filled in by `--write`.
`answers.json` has the headline figures of hundreds of plans, which one reads; this has all figures of a few dozen
answers of each kind, the curves and the numbers in sentences among them, which one only asks whether they moved.
"""

import argparse
import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import numpy as np
from pydantic import BaseModel

from app import Scenario, __version__, evaluate, load_catalog
from app.plan.evaluate import evaluate_all_reduce, evaluate_network
from app.plan.network import network_of
from app.plan.serving.serving_request import ServingQuestion
from app.plan.total_cost import ownership
from app.studies import acceptance, all_reduce_curves, nccl_tests, port_cost, scaling, sensitivity, which_network
from app.studies.bad_parts import bad_parts
from app.studies.board_brief import BriefQuestion, brief
from app.studies.buy_or_rent import Terms, against_use, buy_or_rent
from app.studies.chances import chances
from app.studies.comparison import compare
from app.studies.failed_parts import failed_parts, link_loads
from app.studies.network_costs import CostQuestion, cost_study
from app.studies.own_sweep import CalibrateQuestion, own_sweep
from app.studies.own_sweep import curve as own_sweep_curve
from app.studies.serving_domains import serving_domains
from app.studies.serving_sizing import ServeSizeQuestion, size_serving
from app.studies.sizing import Question, size
from app.studies.step_kernels import step_roofline
from app.studies.step_timeline import timeline
from app.studies.sweep import Grid, sweep

FILE = Path(__file__).parent / "every_figure.json"
CATALOG = load_catalog()
SAME = 2e-9
"""Parts whose sums differ by less, for each of their figures, have not moved."""
PATIENCE = 3600.0
"""A search is never cut short, however busy the machine [s]."""
PLACES = 50
"""Parts at most of an answer that is a list."""
VERSIONS = {"model_version", "catalog_version", "permalink"}
"""Fields that change with the version alone."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")

Sums = dict[str, tuple[int, float]]
Asked = TypeVar("Asked", bound=BaseModel)


def _as(kind: type[Asked], asked: Mapping[str, Any]) -> Asked:
    return kind.model_validate(asked, context={"catalog": CATALOG})


def _curves(scenario: Scenario) -> Iterator[Any]:
    """Everything that is drawn of a scenario over another quantity."""
    plan = evaluate(scenario, CATALOG)
    message = plan.all_reduce.message
    for quantity in ("time", "bus_bandwidth"):
        yield all_reduce_curves.all_reduce_over_sizes(scenario, CATALOG, message, quantity)
        yield all_reduce_curves.all_reduce_over_gpus(scenario, CATALOG, message, quantity)
        yield all_reduce_curves.all_reduce_by_network(scenario, CATALOG, message, quantity)
    yield all_reduce_curves.all_reduce_shares(scenario, CATALOG, message)
    if parallelism := plan.training.parallelism:
        yield scaling.scaling(scenario, CATALOG, parallelism)
        yield scaling.tail(scenario, CATALOG, parallelism)
        for result in ("costs.per_run", "training.step_time", "fabric.cost"):
            yield sensitivity.sensitivity(scenario, CATALOG, parallelism, result)


def _ports(scenario: Scenario) -> Iterator[Any]:
    """What is drawn of the cost of ports over sizes, two of them on either side of a third tier."""
    found = port_cost.by_size(scenario, CATALOG, gpus=(8, 64, 512, 2048, 2056, 16384, 70000))
    yield port_cost.cost_per_port(scenario, CATALOG, found)
    yield port_cost.cost_per_bisection(scenario, CATALOG, found)
    yield port_cost.cliffs(found)


def _own_sweep(question: CalibrateQuestion) -> Iterator[Any]:
    """What somebody's own measurements say, and how it is drawn."""
    found, findings = own_sweep(question, CATALOG)
    yield found, findings
    for collective, gpus in dict.fromkeys((row.collective, row.gpus) for row in found.rows):
        yield own_sweep_curve(found, collective, gpus)


def _failing(scenario: Scenario) -> Iterator[Any]:
    """What bad parts and broken ones leave of a plan, and how full its links are with all of them sound."""
    plan = evaluate(scenario, CATALOG, ())
    yield bad_parts(scenario, CATALOG, plan.all_reduce.message, plan.training.parallelism)
    yield failed_parts(scenario, CATALOG, plan.all_reduce.message, plan.training.parallelism)
    yield link_loads(scenario, CATALOG)


def _step(scenario: Scenario) -> Iterator[Any]:
    """One step as a timeline, and its kernels below the roof of their GPU."""
    plan = evaluate(scenario, CATALOG, ())
    roof = step_roofline(scenario, plan, CATALOG)
    yield timeline(plan)
    yield roof
    yield [roof.roof(kernel) for kernel in roof.kernels] if roof else ()


def _likely(question: Question) -> Iterator[Any]:
    """How likely the clusters of a sizing keep its limits."""
    found = size(question, CATALOG, PATIENCE)
    yield chances(question, found, CATALOG)
    yield found.nearest_misses


def _turning(scenario: Scenario) -> Iterator[Any]:
    """What is drawn of where the better network turns, and of where owning turns to pay."""
    network = network_of(scenario, CATALOG)
    yield which_network.break_even(scenario, CATALOG)
    yield against_use(buy_or_rent(ownership(network, network.prices), Terms(), CATALOG))


KINDS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "plan": lambda asked: evaluate(_as(Scenario, asked), CATALOG),
    "fabric": lambda asked: evaluate_network(_as(Scenario, asked), CATALOG),
    "all-reduce": lambda asked: evaluate_all_reduce(_as(Scenario, asked), CATALOG),
    "acceptance": lambda asked: acceptance.sheet(_as(Scenario, asked), CATALOG, 4),
    "cables": lambda asked: tuple(network_of(_as(Scenario, asked), CATALOG).cables()),
    "curves": lambda asked: tuple(_curves(_as(Scenario, asked))),
    "ports": lambda asked: tuple(_ports(_as(Scenario, asked))),
    "brief": lambda asked: brief(_as(BriefQuestion, asked), CATALOG),
    "failing": lambda asked: tuple(_failing(_as(Scenario, asked))),
    "step": lambda asked: tuple(_step(_as(Scenario, asked))),
    "turning": lambda asked: tuple(_turning(_as(Scenario, asked))),
    "serve": lambda asked: evaluate(_as(ServingQuestion, asked), CATALOG),
    "domains": lambda asked: serving_domains(_as(ServingQuestion, asked), CATALOG),
    "size": lambda asked: size(_as(Question, _in_lists(asked)), CATALOG, PATIENCE),
    "chances": lambda asked: tuple(_likely(_as(Question, _in_lists(asked)))),
    "serve-size": lambda asked: size_serving(_as(ServeSizeQuestion, _in_lists(asked)), CATALOG),
    "cost": lambda asked: cost_study(_as(CostQuestion, asked), CATALOG),
    "compare": lambda asked: compare([Scenario(), _as(Scenario, asked), Scenario(gpus=2048)], CATALOG),
    "sweep": lambda asked: tuple(sweep(_as(Grid, {"base": asked, "grid": VARIED}), CATALOG)),
    "own-sweep": lambda asked: tuple(_own_sweep(_as(CalibrateQuestion, asked))),
    "own-all-reduce": lambda asked: nccl_tests.compare(
        nccl_tests.read(asked.pop("text")), _as(Scenario, asked), CATALOG
    ),
}
"""What is asked; in the file follows it, after a question mark, of what."""
VARIED = {"gpus": [8, 512, 1001], "scale_out": ["efa-400", "roce-400", "unknown"]}


def _in_lists(asked: dict[str, Any]) -> dict[str, Any]:
    lists = ("gpu", "scale_out", "scale_up_domain")
    return {name: value.split(",") if name in lists else value for name, value in asked.items()}


def answer_to(question: str) -> Any:
    """The answer to one question of the file."""
    kind, _, asked = question.partition("?")
    return KINDS[kind](dict(parse_qsl(asked)))


def figures(answer: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every figure of an answer and where it stands; a word without a space counts as one, as do numbers in a sentence.

    The digits of the catalogue's version are none: every new entry changes them.

    >>> list(figures({"a": (1, None), "b": "2 to 3"}))
    [('a', 1.0), ('a', nan), ('b', 2.0), ('b', 3.0)]
    >>> list(figures(f"All 7 figures are from {CATALOG.version}."))
    [('', 7.0)]
    """
    if isinstance(answer, str):
        if " " not in answer:
            yield path, float(zlib.crc32(answer.encode()) if not _is_number(answer) else answer)
        else:
            numbers = NUMBER.findall(answer.replace(CATALOG.version, ""))
            yield from ((path, float(number.replace(",", ""))) for number in numbers)
    elif answer is None or isinstance(answer, bool | int | float):
        yield path, math.nan if answer is None else float(answer)
    elif isinstance(answer, Mapping):
        for name, part in answer.items():
            yield from figures(part, f"{path}.{name}".lstrip("."))
    elif is_dataclass(answer):
        for entry in fields(answer):
            if entry.name in VERSIONS:
                continue
            yield from figures(getattr(answer, entry.name), f"{path}.{entry.name}".lstrip("."))
    elif isinstance(answer, BaseModel):
        yield from figures(answer.model_dump(), path)
    elif isinstance(answer, np.ndarray):
        yield from ((path, float(value)) for value in answer.ravel())
    else:
        for place, part in enumerate(answer):
            yield from figures(part, path or str(place % PLACES))


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text))


def sums(name: str) -> Sums:
    """How many figures each part of an answer has, and a sum that no one of them changes without changing it."""
    parts: dict[str, list[float]] = defaultdict(list)
    for path, value in figures(answer_to(name)):
        parts[path.partition(".")[0]].append(value)
    return {part: (len(values), sum_of(np.array(values))) for part, values in parts.items()}


def sum_of(values: Any) -> float:
    """The logarithms, as many times as no other place counts: between one and two."""
    weights = 1 + np.arange(1, len(values) + 1) * (math.sqrt(5) - 1) / 2 % 1
    logarithms = np.sign(values) * np.log1p(np.abs(values) * 1e15)
    return float(f"{weights @ np.where(np.isnan(values), -1.0, logarithms):.14g}")


@cache
def kept() -> dict[str, Sums]:
    """What the file holds; kept, for each question looks its own answer up."""
    found: dict[str, Sums] = json.loads(FILE.read_text())["answers"]
    return found


def moved(name: str) -> list[str]:
    """The parts of an answer that are not as kept, or have more or fewer figures; new parts have not moved."""
    before, now = kept()[name], sums(name)
    found = []
    for part, (count, whole) in before.items():
        others, today = now.get(part, (0, 0.0))
        if count != others:
            found.append(f"{part} ({others} figures, {count} before)")
        elif abs(whole - today) > SAME * count:
            found.append(part)
    return found


def write(version: str) -> None:
    """One answer a line."""
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(sums(name), separators=(',', ':'))}" for name in kept())
    FILE.write_text(f'{{"model_version": {json.dumps(version)}, "answers": {{\n{rows}\n}}}}\n')


def main() -> None:
    """Say what moved, or the figures of one answer; with --write keep today's."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.every_figure", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("name", nargs="?", help="one answer, figure by figure")
    parser.add_argument("--write", action="store_true", help="keep today's figures")
    options = parser.parse_args()
    if options.name:
        for path, value in figures(answer_to(options.name)):
            print(f"{path} {value:.10g}")
    elif options.write:
        write(__version__)
    else:
        for name in kept():
            if parts := moved(name):
                print(f"{name}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
