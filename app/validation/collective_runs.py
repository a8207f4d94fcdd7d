"""The collectives model against published nccl-tests and rccl-tests results.

Every row of a file is a `Scenario` with a collective and a message, and its prediction is what the planner answers for
it: what a row leaves blank the scenario leaves blank. Leaving a system out refits the calibrated constants from their
priors on everything else.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli
from numpy.typing import NDArray
from pydantic import ValidationError

from app import units
from app.catalog.load import Catalog
from app.catalog.sampling import Sampling
from app.formulas.arrays import Array
from app.formulas.collectives.ideal import ALGORITHMS, COLLECTIVES, PROTOCOLS
from app.formulas.collectives.library import Selection
from app.plan import communication
from app.plan.band import interval
from app.plan.communication import Communication, least_times, time_collective
from app.plan.machine import SIZE_BANDS, size_band
from app.plan.scenario import Scenario
from app.plan.site_calibration import Sweep, calibrate
from app.validation.row_names import (
    Network,
    gpu_named,
    link_named,
    network_named,
    network_refused,
    network_taken,
    ports_of,
    rate_of_a_gpu,
    rate_stated,
    taken_for,
    taken_text,
    wiring_named,
    word,
)
from app.validation.statistics import Statistics, grouped, reading, statistics, table

MEASUREMENTS = Path(__file__).parent / "measurements" / "collectives.csv"
PRIORS = Path(__file__).parent / "priors.toml"

LIBRARIES = ("nccl", "rccl")
WIRINGS = ("switch", "mesh", "bridge", "peer-to-peer", "host", "no-peer-to-peer")
ALIASES = {
    "alltoall": "all-to-all", "alltoallv": "all-to-all", "all-to-all-v": "all-to-all", "allreduce": "all-reduce",
    "allgather": "all-gather", "allgatherv": "all-gather", "all-gather-v": "all-gather",
    "reducescatter": "reduce-scatter", "bcast": "broadcast", "sendrecv": "broadcast", "send-recv": "broadcast",
    "p2p": "broadcast", "point-to-point": "broadcast", "gather": "all-to-all", "scatter": "all-to-all",
    "nvlstree": "nvls-tree", "collnet-direct": "collnet", "collnet-chain": "collnet", "collnetdirect": "collnet",
    "collnetchain": "collnet", "sharp": "collnet", "double-binary-tree": "tree", "ll-128": "ll128",
    "auto": "", "default": "",
}  # fmt: skip
"""Other names for the same thing. Send-receive moves a message one hop, like a broadcast; the root of a gather or
scatter has as many bytes for each peer, one way, as each rank of an all-to-all."""

ONE_PROCESS = re.compile(
    r"\b(?:single|one|1)[ -]process\b"
    r"(?!\s*(?:/|per|for (?:each|every)|on (?:each|every)|a|each)\s*(?:GPU|device|card|rank)\b)"
    r"|-g\s*(?:[2-9]|1\d)\b",
    re.IGNORECASE,
)
"""One process drives all GPUs of a node. One process per GPU is the opposite."""
NO_MULTICAST = re.compile(r"\bno nvls\b|nvls (?:off|disabled)|NCCL_NVLS_ENABLE=0", re.IGNORECASE)
NO_GPUDIRECT = re.compile(
    r"\bno gdr\b|gdr (?:off|disabled)|(?:without|no) gpudirect|NCCL_NET_GDR_LEVEL=(?:0|LOC)", re.I
)


# Rows ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One row that can be predicted.

    Attributes:
        run: the sweep it belongs to.
        system: the cluster it was measured on, which leaving out leaves out as a whole.
        weak: of weak quality.
        library: nccl, rccl or another.
        collective: one of ``COLLECTIVES``.
        question: the cluster and what was forced; rows of one sweep share it.
        message: as nccl-tests count it [B].
        band: the size of the message: small, medium or large.
        time: measured [s].
    """

    run: str
    system: str
    weak: bool
    library: str
    collective: str
    question: Scenario
    message: float
    band: str
    time: float
    taken: tuple[str, ...] = ()
    """What was taken for something else, or filled in where a figure of its own would decide the time."""

    def scenario(self) -> Scenario:
        """The row as a question to the planner, whose collective is asked apart."""
        return self.question.model_copy(update={"message": self.message})


def read(path: Path, catalog: Catalog) -> tuple[list[Measured], list[dict[str, str]]]:
    """The rows of a file that can be predicted, and why the others cannot."""
    rows: list[Measured] = []
    skipped: list[dict[str, str]] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            cells = {name: (value or "").strip() for name, value in row.items() if name}
            run = cells.get("run") or f"line {number}"
            measured = _row(run, cells, catalog)
            if isinstance(measured, str):
                skipped.append({"run": run, "reason": measured, "bytes": cells.get("bytes", "")})
            else:
                rows.append(measured)
    return rows, skipped


def _row(run: str, cells: Mapping[str, str], catalog: Catalog) -> Measured | str:
    gpu = gpu_named(cells.get("gpu", ""), catalog)
    if not gpu.key:
        return f"{cells.get('gpu') or 'no GPU'} is not in the catalogue"
    collective = _word(cells, "collective").removesuffix("-perf") or "all-reduce"
    collective = ALIASES.get(collective, collective)
    if collective not in COLLECTIVES:
        return f"no model of the collective {collective}"
    message, time = reading(cells.get("bytes")), reading(cells.get("time_us"))
    if message is None:
        return "no message size"
    if time is None:
        return "no measured time"
    asked = _question(gpu.key, collective, tuple(cells.get(name, "") for name in ASKED), catalog)
    if isinstance(asked, str):
        return asked
    question, taken = asked
    return Measured(
        run=run,
        system=cells.get("system") or run,
        weak=_word(cells, "quality") == "weak",
        library=_library(_word(cells, "library")),
        collective=collective,
        question=question,
        message=message,
        band=size_band(message, catalog),
        time=units.parse(f"{time} us", "s"),
        taken=tuple(filter(None, (gpu.taken, *taken))),
    )


def _library(word: str) -> str:
    """NCCL or RCCL of whatever release, or another."""
    return next((name for name in LIBRARIES if word.startswith(name)), word or "nccl")


def _word(cells: Mapping[str, str], name: str) -> str:
    text = word(cells.get(name, ""))
    return ALIASES.get(text, text)


def _whole(cells: Mapping[str, str], name: str, other: int) -> int:
    """A whole number, or another where there is none."""
    return round(reading(cells.get(name)) or 0) or other


ASKED = (
    "nodes", "gpus_per_node", "scale_up", "scale_up_wiring", "scale_up_domain", "scale_out", "gbps_per_gpu",
    "algorithm", "protocol", "note",
)  # fmt: skip
"""The columns that, with GPU and collective, make the question."""


@lru_cache(maxsize=4096)
def _question(
    gpu: str, collective: str, texts: tuple[str, ...], catalog: Catalog
) -> tuple[Scenario, tuple[str, ...]] | str:
    """The question of a row and what was taken for something else, or why it has none.

    Kept: a sweep of messages is one question.
    """
    cells = dict(zip(ASKED, texts, strict=True))
    platform = catalog.platforms[catalog.gpus[gpu].platform]
    named = network_named(cells["scale_out"], catalog)
    nodes = _whole(cells, "nodes", 0 if named.family else 1)
    gpus_per_node = _whole(cells, "gpus_per_node", platform.gpus_per_node)
    if not nodes:
        return "no number of nodes"
    if nodes * gpus_per_node == 1:
        return "one GPU alone communicates with nobody"
    if refused := network_refused(named.family):
        return refused
    domain = _whole(cells, "scale_up_domain", 0)
    algorithm, wiring = _word(cells, "algorithm"), wiring_named(cells["scale_up_wiring"])
    scale_up = link_named(cells["scale_up"], gpu, catalog)
    if not algorithm and nodes == 1 and NO_MULTICAST.search(cells["note"]):
        algorithm = "ring"  # what is left to a node for large messages
    settings = _network(cells, named, gpus_per_node, gpu, catalog) | {
        "gpu": gpu,
        "gpus": nodes * gpus_per_node,
        "gpus_per_node": gpus_per_node,
        "scale_up": scale_up or None,
        "scale_up_wiring": wiring if wiring in WIRINGS else None,
        "scale_up_domain": domain if domain > 1 or gpus_per_node == 1 else None,
        "in_network_reduction": algorithm == "collnet" or (algorithm == "nvls" and nodes > 1),
        "one_process": gpus_per_node > 1 and bool(ONE_PROCESS.search(cells["note"])),
    }
    asked = {"algorithm": (algorithm, ALGORITHMS), "protocol": (_word(cells, "protocol"), PROTOCOLS)}
    forced = {name: text for name, (text, choices) in asked.items() if text in choices}
    try:
        given = {name: value for name, value in settings.items() if value is not None}
        question = Scenario.model_validate(given, context={"catalog": catalog})
    except ValidationError as error:
        problem = error.errors()[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    taken: Iterable[str] = ()
    if nodes * gpus_per_node > max(domain, gpus_per_node):
        taken = network_taken(named, cells["scale_out"], rate_stated(cells["gbps_per_gpu"]))
    unknown = {name: text for name, (text, choices) in asked.items() if text and text not in choices}
    others = [f"{name} {text} taken for the library's choice" for name, text in unknown.items()]
    if wiring not in ("", *WIRINGS):
        others.append(f"wiring {wiring} taken for the server's own")
    return _as_run(question, forced, collective, catalog), (*taken, *others)


def _as_run(question: Scenario, forced: Mapping[str, str], collective: str, catalog: Catalog) -> Scenario:
    """The question with what was forced, as far as the model can do it: else the library chose for itself."""
    for names in (("algorithm", "protocol"), ("protocol",)):
        forced_question = question.model_copy(update={name: forced[name] for name in names if name in forced})
        fabric = communication.of_scenario(forced_question, catalog)
        if np.all(np.isfinite(time_collective(fabric, collective, 1.0).time)):
            return forced_question
    return question


def _network(
    cells: Mapping[str, str], named: Network, gpus_per_node: int, gpu: str, catalog: Catalog
) -> dict[str, Any]:
    """The network of a row, and whether its adapters reach the memory of GPUs."""
    rate = rate_stated(cells["gbps_per_gpu"]) or rate_of_a_gpu(named, gpu, catalog)
    ports = ports_of(named.family, rate, gpus_per_node, gpu, catalog)
    by_host = ports.family in ("infiniband", "roce") and NO_GPUDIRECT.search(cells["note"])
    return ports.fields | {"gpudirect": not by_host}


# Prediction ----------------------------------------------------------------------------------------------------------


def _sweeps(rows: Sequence[Measured], catalog: Catalog) -> Iterator[tuple[Communication, str, list[int]]]:
    """The rows by what is asked of which cluster: sweeps of messages."""
    members: dict[tuple[int, str], list[int]] = {}
    for index, row in enumerate(rows):
        members.setdefault((id(row.question), row.collective), []).append(index)
    for (_, collective), indices in members.items():
        yield _fabric(rows[indices[0]].question, catalog), collective, indices


@lru_cache(maxsize=1024)
def _fabric(question: Scenario, catalog: Catalog) -> Communication:
    """What times the transfers of a question. Kept: a fit asks for it hundreds of times."""
    return communication.of_scenario(question, catalog)


def predict(rows: Sequence[Measured], catalog: Catalog, sampling: Sampling) -> NDArray[np.float64]:
    """The planner's time of each row [s], on the first axis; the constants' own axis, if any, is last."""
    times: dict[int, NDArray[np.float64]] = {}
    for fabric, collective, indices in _sweeps(rows, catalog):
        message = np.array([rows[index].message for index in indices])[:, None]
        predicted = np.asarray(time_collective(fabric, collective, message, sampling).time)
        times |= dict(zip(indices, predicted, strict=True))
    return np.stack([times[index] for index in range(len(rows))])


# Refitting -----------------------------------------------------------------------------------------------------------

TOLERANCE = 0.25
"""Scale of the robust loss on the logarithm: a row that is further off counts for less and less."""
CROWDING = 0.35
"""A system of n rows weighs n^(1 - this), so that long sweeps do not drown single points."""


@dataclass(frozen=True)
class Prior:
    """What one would say of a constant before any measurement: a typical value and its relative spread."""

    key: str
    typical: float
    spread: float
    other: bool
    """It bears on collectives other than the all-reduce alone."""


@cache
def priors(other: bool = False) -> tuple[Prior, ...]:
    """The priors of all calibrated constants of the all-reduce, or of those that the other collectives add to them."""
    all_priors = []
    for group, names in tomli.loads(PRIORS.read_text(encoding="utf-8")).items():
        for name, entry in names.items():
            value = entry["typical"]
            number = units.parse(value, entry.get("unit", "s")) if isinstance(value, str) else float(value)
            all_priors.append(
                Prior(f"collectives.{group}.{name}", number, float(entry["spread"]), bool(entry.get("other", False)))
            )
    return tuple(prior for prior in all_priors if prior.other == other)


NUDGE = 1e-4
"""By how much the logarithm of a constant is moved for a slope."""


def _logarithms(
    rows: Sequence[Measured], catalog: Catalog, theta: NDArray[np.float64], settled: Mapping[str, Array] | None = None
) -> NDArray[np.float64]:
    """Logarithm of each row's predicted time: at some constants, then with each of them moved by `NUDGE`."""
    unknowns = priors(other=settled is not None)
    moves = np.vstack([np.zeros(len(unknowns)), NUDGE * np.eye(len(unknowns))])
    factors: dict[str, Array] = dict(settled or {})
    factors |= {prior.key: prior.typical * np.exp(theta[i] + moves[:, i]) for i, prior in enumerate(unknowns)}
    return np.log(predict(rows, catalog, Sampling(fitted=factors)))


def fit(
    rows: Sequence[Measured],
    catalog: Catalog,
    start: NDArray[np.float64] | None = None,
    steps: int = 12,
    settled: Mapping[str, Array] | None = None,
    at_start: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Logarithm of each constant over its prior that fits the rows best.

    The constants are those of the all-reduce; with those ``settled`` they are those that other collectives add.

    Robust least squares on log(predicted/measured), with a Gaussian prior on the logarithm of each constant, by damped
    Gauss-Newton steps. All perturbed constants are evaluated in one call: they are the last axis. What is predicted
    ``at_start`` (see `_logarithms`) may be given.
    """
    unknowns = priors(other=settled is not None)
    spread = np.array([prior.spread for prior in unknowns])
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.system] = counts.get(row.system, 0) + 1
    weight = np.array([2 * counts[row.system] ** -CROWDING for row in rows])
    measured = np.log([row.time for row in rows])

    def residuals(
        theta: NDArray[np.float64], logarithms: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        predicted = _logarithms(rows, catalog, theta, settled) if logarithms is None else logarithms
        off = predicted - measured[:, None]
        relative = (off[:, 0] / TOLERANCE) ** 2
        loss = np.sqrt(np.log1p(relative))
        value = np.concatenate([weight * loss * np.sign(off[:, 0]), theta / spread])
        gain = np.where(loss > 1e-9, np.sqrt(relative) / (1 + relative) / np.maximum(loss, 1e-9), 1.0) / TOLERANCE
        jacobian = (weight * gain)[:, None] * (off[:, 1:] - off[:, :1]) / NUDGE
        return value, np.vstack([jacobian, np.diag(1 / spread)])

    theta = np.zeros(len(unknowns)) if start is None else start.copy()
    damping = 1e-3
    value, jacobian = residuals(theta, at_start)
    cost = float(value @ value)
    for _ in range(steps):
        normal = jacobian.T @ jacobian
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), -jacobian.T @ value)
        tried, slopes = residuals(theta + move)
        if float(tried @ tried) >= cost:
            damping *= 10
            if damping > 1e4:
                break
            continue
        theta, value, jacobian = theta + move, tried, slopes
        before, cost = cost, float(value @ value)
        damping = max(damping / 10, 1e-6)
        if before - cost < 1e-4 * before:
            break
    return theta


def constants(theta: NDArray[np.float64], other: bool = False) -> dict[str, Array]:
    """The values of all calibrated constants at a fit."""
    return {prior.key: float(prior.typical * np.exp(theta[i])) for i, prior in enumerate(priors(other))}


def fitted(rows: Iterable[Measured], other: bool = False) -> list[Measured]:
    """The rows a calibration rests on: all-reduce, or all else, with NCCL or RCCL, of good quality."""
    return [
        row for row in rows if (row.collective != "all-reduce") == other and row.library in LIBRARIES and not row.weak
    ]


# The report ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prediction:
    """A row and what the model says of it [s]; ``drawn`` is the band before the model's own error widens it."""

    row: Measured
    time: float
    low: float
    high: float
    drawn_low: float
    drawn_high: float
    group: str
    choice: Selection


def predictions(
    rows: Sequence[Measured], catalog: Catalog, leave_one_out: bool = False, learn_from: Sequence[Measured] = ()
) -> list[Prediction]:
    """Each row with its prediction and 80 % band; left out: by a calibration that never saw its system."""
    if not leave_one_out:
        return _bands(rows, catalog, {})
    systems = list(dict.fromkeys(row.system for row in rows))
    everything = (*rows, *(row for row in learn_from if row.system not in set(systems)))
    reduces, besides = tuple(fitted(everything)), tuple(fitted(everything, other=True))
    by_row: dict[int, Prediction] = {}
    for system in systems:
        members = [index for index, row in enumerate(rows) if row.system == system]
        both = any(rows[index].collective != "all-reduce" for index in members)
        values = _constants_without(system, reduces, besides if both else (), catalog)
        seen = _bands([rows[i] for i in members], catalog, values)
        by_row |= dict(zip(members, seen, strict=True))
    return [by_row[index] for index in range(len(rows))]


@lru_cache(maxsize=2)
def _fit_of_all(rows: tuple[Measured, ...], catalog: Catalog) -> NDArray[np.float64]:
    """The fit of the all-reduces of all systems, from which that without one of them starts."""
    return fit(rows, catalog)


@lru_cache(maxsize=2)
def _at_fit_of_all(rows: tuple[Measured, ...], catalog: Catalog) -> NDArray[np.float64]:
    """What is predicted there. Kept: the fits without one system all begin there, and it is a third of their work."""
    return _logarithms(rows, catalog, _fit_of_all(rows, catalog))


@lru_cache(maxsize=2)
def _other_fit_of_all(
    reduces: tuple[Measured, ...], besides: tuple[Measured, ...], catalog: Catalog
) -> NDArray[np.float64]:
    """The fit of the other collectives of all systems, beside that of their all-reduces."""
    return fit(besides, catalog, settled=constants(_fit_of_all(reduces, catalog)))


@lru_cache(maxsize=256)  # two reports leave the same systems out, and each fit takes half a second
def _constants_without(
    system: str, reduces: tuple[Measured, ...], besides: tuple[Measured, ...], catalog: Catalog
) -> dict[str, Array]:
    """All constants, fitted to the all-reduces, and then to the other collectives, of every system but one."""
    whole = _fit_of_all(reduces, catalog)
    kept = np.array([row.system != system for row in reduces])
    rest = [row for row in reduces if row.system != system]
    at_start = _at_fit_of_all(reduces, catalog)[kept]
    fewer = len(rest) < len(reduces)
    values = constants(fit(rest, catalog, start=whole, steps=6, at_start=at_start) if fewer else whole)
    if besides:
        rest = [row for row in besides if row.system != system]
        beside_whole = _other_fit_of_all(reduces, besides, catalog)
        values |= constants(fit(rest, catalog, start=beside_whole, steps=6, settled=values), other=True)
    return values


FEWEST = 12
"""Rows of a system from which calibrating on a part of them says something of the others."""


def calibrated(rows: Sequence[Measured], catalog: Catalog, every: int) -> list[Prediction]:
    """The rows of each sweep but every so manyth, by a calibration on those and by constants that never saw its system.

    A sweep is what one output of nccl-tests holds: the rows of one run and collective. Systems of fewer than `FEWEST`
    rows, rows of weak quality and of other libraries are left aside. A system that the product's own measurements do
    not hold is predicted with its constants as they are.
    """
    measured, _ = read(MEASUREMENTS, catalog)
    reduces, besides = tuple(fitted(measured)), tuple(fitted(measured, other=True))
    fitted_systems = {row.system for row in (*reduces, *besides)}
    good = [*fitted(rows), *fitted(rows, other=True)]
    systems = {system: [row for row in good if row.system == system] for system in {row.system: None for row in good}}
    large = {system: members for system, members in systems.items() if len(members) >= FEWEST}
    predicted: list[Prediction] = []
    for system, members in large.items():
        values: dict[str, Array] = {}
        if system in fitted_systems:
            both = any(row.collective != "all-reduce" for row in members)
            values = _constants_without(system, reduces, besides if both else (), catalog)
        outputs: dict[tuple[str, str], list[Measured]] = {}
        for row in members:
            outputs.setdefault((row.run, row.collective), []).append(row)
        for output in outputs.values():
            site, _ = calibrate(sweeps(output[::every], catalog, Sampling(fitted=values)), catalog)
            others = [row for number, row in enumerate(output) if number % every]
            predicted += _bands(others, catalog, values, site.text())
    return predicted


def sweeps(rows: Sequence[Measured], catalog: Catalog, sampling: Sampling) -> list[Sweep]:
    """Measured rows as sweeps of what is usual."""
    measured_sweeps = []
    for fabric, collective, indices in _sweeps(rows, catalog):
        measured_sweeps.append(
            Sweep(
                machine=fabric.machine(sampling),
                library=fabric.calibration(sampling),
                collective=collective,
                algorithm=fabric.request.algorithm or "",
                protocol=fabric.request.protocol or "",
                messages=np.array([rows[index].message for index in indices]),
                times=np.array([rows[index].time for index in indices]),
            )
        )
    return measured_sweeps


def _bands(rows: Sequence[Measured], catalog: Catalog, fitted: Mapping[str, Array], site: str = "") -> list[Prediction]:
    """Each row with its prediction and 80 % band, with some constants put elsewhere, on a site calibrated so."""
    typical, drawn = Sampling(fitted=fitted), Sampling(drawn=True, fitted=fitted)
    predicted: dict[int, Prediction] = {}
    for usual, collective, indices in _sweeps(rows, catalog):
        request = usual.request.model_copy(update={"calibration": site or None})
        fabric = replace(usual, request=request) if site else usual
        message = np.array([rows[index].message for index in indices])[:, None]
        choice = time_collective(fabric, collective, message, typical)
        spread = np.asarray(time_collective(fabric, collective, message, drawn).time)
        errors = np.ravel(fabric.residual(message[:, 0], fabric.machine(typical).domains, collective))
        values = np.concatenate([np.reshape(choice.time, (-1, 1)), spread[:, 1:]], axis=1)
        ways = np.broadcast_to(np.ravel(choice.algorithm), len(indices)).astype(int)
        soonest = least_times(fabric, collective, message[:, 0], ways)
        ends = zip(*interval(values, errors, soonest), *interval(values), strict=True)
        columns = [np.broadcast_to(np.ravel(values), len(indices)) for values in vars(choice).values()]
        for index, cells, edges in zip(indices, zip(*columns, strict=True), ends, strict=True):
            place = Selection(*cells)
            low, high, least, most = map(float, edges)
            about = low, high, least, most, fabric.hardware_class(), place
            predicted[index] = Prediction(rows[index], float(place.time), *about)
    return [predicted[index] for index in range(len(rows))]


def _score(predicted: Sequence[Prediction]) -> Statistics:
    return statistics(
        [p.time for p in predicted],
        [p.row.time for p in predicted],
        [p.low for p in predicted],
        [p.high for p in predicted],
    )


def report(path: Path, catalog: Catalog, leave_one_out: bool = False, calibrate_every: int = 0) -> dict[str, Any]:
    """Predict every row of a file and say how far off, overall and by group.

    ``overall`` and the groups hold the rows of good quality run with NCCL or RCCL: the model describes those. Rows of
    weak quality and of other libraries are predicted too and reported apart. With ``calibrate_every``, ``calibrated``
    says how far off the others are after calibrating each system on every so manyth of its rows.
    """
    rows, skipped = read(path, catalog)
    learn_from, _ = read(MEASUREMENTS, catalog) if leave_one_out else ([], [])
    predicted = predictions(rows, catalog, leave_one_out, learn_from)
    scores = summary(predicted, skipped, leave_one_out) | {"taken": taken_for(rows)}
    return (
        scores | {"calibrated": calibrated_summary(rows, catalog, calibrate_every)} if calibrate_every > 1 else scores
    )


def calibrated_summary(rows: Sequence[Measured], catalog: Catalog, every: int) -> dict[str, Any]:
    """How far off the rows are that a calibration on every so manyth row of their system did not see."""
    predicted = calibrated(rows, catalog, every)
    order = {name: index for index, name in enumerate(SIZE_BANDS)}
    return {
        "every": every,
        "overall": _score(predicted),
        "all_reduce": _score([p for p in predicted if p.row.collective == "all-reduce"]),
        "by_band": grouped(sorted(predicted, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score),
        "by_system": _by_system(predicted),
        "median_of_systems": _median_of_systems(predicted),
    }


def summary(
    predicted: Sequence[Prediction], skipped: Sequence[Mapping[str, str]], leave_one_out: bool
) -> dict[str, Any]:
    """The report of predictions already made."""
    good = [p for p in predicted if not p.row.weak and p.row.library in LIBRARIES]
    reduce = [p for p in good if p.row.collective == "all-reduce"]
    switched = [p for p in reduce if p.group in ("nvlink-switch", "nvlink-switch-rdma")]
    order = {name: index for index, name in enumerate(SIZE_BANDS)}
    return {
        "rows": len(predicted),
        "skipped": list(skipped),
        "leave_one_out": leave_one_out,
        "overall": _score(good),
        "weak": _score([p for p in predicted if p.row.weak]),
        "other_libraries": _score([p for p in predicted if not p.row.weak and p.row.library not in LIBRARIES]),
        "by_band": grouped(sorted(good, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score),
        "by_run": grouped(predicted, lambda p: p.row.run, _score),
        "by_class": grouped(sorted(good, key=lambda p: p.group), lambda p: p.group, _score),
        "by_collective": grouped(good, lambda p: p.row.collective, _score),
        "by_system": _by_system(good),
        "all_reduce": {
            "overall": _score(reduce),
            "by_band": grouped(sorted(reduce, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score),
            "by_system": _by_system(reduce),
            "median_of_systems": _median_of_systems(reduce),
            "by_cell": grouped(
                sorted(reduce, key=lambda p: (p.group, order[p.row.band])),
                lambda p: f"{p.group}, {p.row.band}",
                _score,
            ),
            "switched": _score(switched),
            "switched_by_band": grouped(
                sorted(switched, key=lambda p: order[p.row.band]), lambda p: p.row.band, _score
            ),
        },
    }


def _calibrated_text(scores: Mapping[str, Any]) -> str:
    """What calibrating gains, for a terminal."""
    rows = {"all": scores["overall"], "all-reduce": scores["all_reduce"], **scores["by_band"]}
    head = f"calibrated on every {scores['every']}th row"
    return f"{table(rows, head)}\n\n{table(scores['by_system'], f'{head}, by system')}"


def _by_system(predicted: Sequence[Prediction]) -> dict[str, Statistics]:
    """The statistics of each system, by name."""
    return grouped(sorted(predicted, key=lambda p: p.row.system), lambda p: p.row.system, _score)


def _median_of_systems(predicted: Sequence[Prediction]) -> float | None:
    """The median of the systems' median errors: each system has one vote, however many rows it has [1]."""
    medians = [group["median"] for group in _by_system(predicted).values()]
    return float(np.median(medians)) if medians else None


def text(report: Mapping[str, Any]) -> str:
    """The report for a terminal."""
    how = (
        "each system left out of the calibration in turn" if report["leave_one_out"] else "calibrated on these systems"
    )
    reduce = report["all_reduce"]
    reasons: dict[str, int] = {}
    for entry in report["skipped"]:
        reason = f"{entry['run']}: {entry['reason']}"
        reasons[reason] = reasons.get(reason, 0) + 1
    parts = [
        f"{report['rows']} rows predicted, {len(report['skipped'])} skipped; {how}.",
        table(
            {"overall": report["overall"], "weak": report["weak"], "other libraries": report["other_libraries"]},
            "all collectives",
        ),
        table(report["by_band"], "size band"),
        table(report["by_class"], "hardware class"),
        table(report["by_collective"], "collective"),
        table({"all": reduce["overall"], **reduce["by_band"]}, "all-reduce"),
        table(
            {"all": reduce["switched"], **reduce["switched_by_band"]},
            "all-reduce, NVLink switch, InfiniBand or RoCE or none",
        ),
        table(reduce["by_cell"], "all-reduce, class and size"),
        table(report["by_system"], "system"),
        "Median of the systems' medians, all-reduce: "
        + ("-" if reduce["median_of_systems"] is None else f"{reduce['median_of_systems']:.1%}"),
        table(report["by_run"], "run"),
    ]
    if "calibrated" in report:
        parts.append(_calibrated_text(report["calibrated"]))
    if said := taken_text(report.get("taken", {})):
        parts.append(said)
    if reasons:
        parts.append("Skipped:\n" + "\n".join(f"  {count} rows of {reason}" for reason, count in reasons.items()))
    return "\n\n".join(parts)
